"""Declarations that the front end is tried on, beyond the mechanisms that ship."""

from sympy import (
    Abs,
    Eq,
    Heaviside,
    Max,
    Min,
    Piecewise,
    Rational,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    gamma,
    log,
    oo,
    pi,
    sign,
    sqrt,
)

from mechc.declare import Declaration, additive, count, integer, mechanism, positive, rate, real
from mechc.declare.catalog import available, find, load_declaration

x, n = real("x"), integer("n")
scale = positive("scale", typical=(0.5, 5))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 3))
steps = count("sensitivity", default=1, typical=(1, 4))
halfwidth = positive("halfwidth", typical=(0.5, 8))
shape = positive("shape", typical=(0.4, 4))
mix = rate("mix", typical=(0.1, 0.9))
u = x / scale
half = Rational(1, 2)


def noise(name, density, parameters=(scale, sensitivity), **options):
    lattice = options.get("lattice", False)
    return additive(name, noise=density, variable=n if lattice else x, parameters=parameters,
                    sensitivity=steps if lattice else sensitivity, **options)  # fmt: skip


ADDITIVE: list[Declaration] = [
    noise("squared_secant", 1 / (2 * scale * cosh(u) ** 2)),
    noise("modified_gaussian", half * exp(half - x) * erfc((1 - x) / sqrt(2)), (sensitivity,)),
    noise("skew_normal", exp(-x**2 / 2) * (1 + erf(x)) / sqrt(2 * pi), (sensitivity,)),
    noise("two_gaussians", (1 - mix) * exp(-(u**2) / 2) / (sqrt(2 * pi) * scale)
          + mix * exp(-(u**2) / 8) / (sqrt(2 * pi) * 2 * scale), (scale, mix, sensitivity)),
    noise("gamma", x ** (shape - 1) * exp(-u) / (gamma(shape) * scale**shape),
          (shape, scale, sensitivity), support=(0, oo)),
    noise("triangular", Max(0, 1 - Abs(u)) / scale),
    noise("raised_cosine", (1 + cos(pi * u)) / (2 * scale), support=(-scale, scale)),
    noise("asymmetric_laplace", Piecewise((exp(-u), x >= 0), (exp(2 * u), True)) * 2 / (3 * scale)),
    noise("huber", Piecewise((exp(-(x**2) / 2), Abs(x) <= 1), (exp(half - Abs(x)), True))
          / (sqrt(2 * pi) * erf(1 / sqrt(2)) + 2 * exp(-half)), (sensitivity,)),
    noise("lognormal", exp(-(log(x) ** 2) / 2) / (x * sqrt(2 * pi)), (sensitivity,),
          support=(0, oo)),
    noise("parabola", 6 * u * (1 - u) / scale, support=(0, scale)),
    noise("heaviside", exp(-u) / scale * Heaviside(x)),
    noise("signed", (2 + sign(x)) * exp(-Abs(u)) / (4 * scale)),
    noise("geometric", (1 - exp(-scale)) * exp(-scale * n), (scale, steps), lattice=True,
          support=(0, oo)),
    noise("zeta", 1 / (1 + Abs(n)) ** 2 / (pi**2 / 3 - 1), (steps,), lattice=True),
    noise("three_points", Piecewise((half, Eq(n, 0)), (half / 2, Eq(Abs(n), 1)), (0, True)),
          (steps,), lattice=True),
]  # fmt: skip

BIMODAL = noise(
    "bimodal", (exp(-2 * (x - 3) ** 2) + exp(-2 * (x + 3) ** 2)) / sqrt(2 * pi), (sensitivity,)
)

PAIRS: list[Declaration] = [
    mechanism("quadratic_switch", variable=x, q=exp(-Abs(x)) / 2,
              p=half * exp(-Abs(x**2 - 1)) * Abs(x) / (1 - exp(-1) / 2)),
    mechanism("largest", variable=x, q=exp(-Abs(x)) / 2, parameters=(sensitivity,),
              p=Max(exp(-Abs(x - sensitivity)), exp(-Abs(x + sensitivity)))
              / (4 - 2 * exp(-sensitivity))),
    mechanism("moving_window", variable=x, q=exp(-Abs(x)) / 2, parameters=(halfwidth, scale),
              p=Piecewise((1 / halfwidth, (x > Min(halfwidth, scale) - halfwidth)
                           & (x <= Min(halfwidth, scale))), (0, True))),
    mechanism("leaky", variable=x, p=(1 - mix) * exp(-((x - 1) ** 2) / 2) / sqrt(2 * pi),
              q=(1 - mix) * exp(-(x**2) / 2) / sqrt(2 * pi), parameters=(mix,),
              atoms=[(0, mix / 2, mix), (5, mix / 2, 0)]),
    mechanism("own_reverse", variable=x, p=exp(-Abs(x - 1)) / 2, q=exp(-Abs(x)) / 2,
              reverse=(exp(-Abs(x)) / 2, exp(-Abs(x - 2)) / 2)),
]  # fmt: skip

SHIPPED: list[Declaration] = [load_declaration(find(name)) for name in available()]
BY_NAME = {d.name: d for d in (*SHIPPED, *ADDITIVE, *PAIRS, BIMODAL)}
