"""Mechanisms of the calculus tests: the shipped ones, Poisson forms, and noise nobody ships.

Densities are compared with the declarations themselves, evaluated by mpmath through lambdify: no
code is shared with the formulas under test.
"""

from __future__ import annotations

from functools import cache

import mpmath
import pytest
from sympy import (
    Abs,
    Integral,
    Max,
    Piecewise,
    Rational,
    Sum,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    gamma,
    lambdify,
    oo,
    pi,
    sech,
    sinh,
    sqrt,
    tanh,
)

from mechc.calculus import derive, normalise
from mechc.calculus.transform.sampling import poisson
from mechc.declare import additive, count, integer, mechanism, positive, rate, real
from mechc.declare.catalog import find, load_declaration
from mechc.symbolic.typical import typical_values

SHIPPED = (
    "gaussian", "laplace", "logistic", "student_t", "cauchy", "subbotin", "discrete_laplace",
    "discrete_gaussian", "randomized_response", "approximate_dp", "uniform", "gaussian_scale",
)  # fmt: skip
SMOOTH = ("gaussian", "laplace", "logistic", "student_t", "cauchy", "subbotin", "gaussian_scale")

x, n = real("x"), integer("n")
MOVES = count("sensitivity", default=1, typical=(1, 5))
D = positive("sensitivity", default=1, typical=(0.1, 3))
b, c = positive("b", typical=(0.5, 4)), positive("c", typical=(0.5, 4))
r = rate("r", typical=(0.1, 0.9))
k, h = positive("k", typical=(0.5, 3)), positive("h", typical=(2, 9))


def shifted(name, noise, *parameters):
    return additive(name, noise=noise, variable=x, sensitivity=D, parameters=(*parameters, D))


def pair(name, p, q, *parameters, **kwargs):
    return mechanism(name, variable=x, p=p, q=q, parameters=parameters, **kwargs)


def normal(u, s):
    return exp(-(u**2) / (2 * s**2)) / (sqrt(2 * pi) * s)


UNSEEN = {
    "hyperbolic_secant": lambda: shifted("hyperbolic_secant", sech(pi * x / (2 * b)) / (2 * b), b),
    "gumbel": lambda: shifted("gumbel", exp(-x / b - exp(-x / b)) / b, b),
    "exponentially_modified": lambda: shifted(
        "exponentially_modified",
        exp((b**2 / c / 2 - x) / c) * erfc((b**2 / c - x) / (sqrt(2) * b)) / (2 * c), b, c,
    ),
    "scale_mixture": lambda: shifted(
        "scale_mixture", Rational(9, 10) * normal(x, b) + Rational(1, 10) * normal(x, 5 * b), b
    ),
    "asymmetric_laplace": lambda: shifted(
        "asymmetric_laplace", Piecewise((exp(x / b), x < 0), (exp(-x / c), True)) / (b + c), b, c
    ),
    "laplace_and_normal": lambda: shifted(
        "laplace_and_normal", r * exp(-Abs(x) / b) / (2 * b) + (1 - r) * normal(x, c), b, c, r
    ),
    "uniform_and_laplace": lambda: shifted(  # the sum of two variables
        "uniform_and_laplace", Piecewise(((1 - exp(-h / b) * cosh(x / b)) / (2 * h), Abs(x) < h),
                                         (exp(-Abs(x) / b) * sinh(h / b) / (2 * h), True)), b, h,
    ),
    "two_geometrics": lambda: additive(
        "two_geometrics", variable=n, sensitivity=MOVES, parameters=(b, c, r, MOVES), lattice=True,
        noise=r * tanh(b / 2) * exp(-b * Abs(n)) + (1 - r) * tanh(c / 2) * exp(-c * Abs(n)),
    ),
    "huber": lambda: shifted(
        "huber",
        Piecewise((exp(-(x**2) / 2), Abs(x) < k), (exp(k**2 / 2 - k * Abs(x)), True))
        / (sqrt(2 * pi) * erf(k / sqrt(2)) + 2 * exp(-(k**2) / 2) / k), k,
    ),
    "raised_cosine": lambda: shifted(
        "raised_cosine", Piecewise((1 + cos(pi * x / h), Abs(x) < h), (0, True)) / (2 * h), h
    ),
    "triangular": lambda: shifted("triangular", Max(0, h - Abs(x)) / h**2, h),
    "quartic": lambda: shifted("quartic", 2 * exp(-(x**4)) / gamma(Rational(1, 4))),
    "one_sided": lambda: shifted(
        "one_sided", Piecewise((exp(-x / b) / b, x > 0), (0, True)), b
    ),
    "laplace_against_normal": lambda: pair(
        "laplace_against_normal", exp(-Abs(x - D) / b) / (2 * b), normal(x, c), b, c, D
    ),
    "two_normals": lambda: pair("two_normals", normal(x - D, b), normal(x, c), b, c, D),
    "gamma_scale": lambda: pair(
        "gamma_scale", x**k * exp(-x / b) / (gamma(k + 1) * b ** (k + 1)),
        x**k * exp(-x / c) / (gamma(k + 1) * c ** (k + 1)), b, c, k, support=(0, oo),
    ),
    "beta_pair": lambda: pair("beta_pair", 2 * x, 2 * (1 - x), support=(0, 1)),
    "cauchy_scale": lambda: pair(
        "cauchy_scale", b / (pi * (b**2 + x**2)), c / (pi * (c**2 + x**2)), b, c
    ),
    "exponential_against_weibull": lambda: pair(
        "exponential_against_weibull", exp(-x / b) / b, 3 * x**2 * exp(-(x**3)), b,
        support=(0, oo),
    ),
    "zero_inside": lambda: pair(
        "zero_inside", normal(x, 1), x**2 * normal(x, 1),
    ),
    "poisson_mass": lambda: mechanism(
        "poisson_mass", variable=n, p=exp(-b - c) * (b + c) ** n / gamma(n + 1),
        q=exp(-b) * b**n / gamma(n + 1), support=(0, oo), lattice=True, parameters=(b, c),
    ),
    "two_sided_factorial": lambda: additive(
        "two_sided_factorial", noise=b ** Abs(n) / gamma(Abs(n) + 1) / (2 * exp(b) - 1),
        variable=n, lattice=True, sensitivity=MOVES, parameters=(b, MOVES),
    ),
    "geometric": lambda: mechanism(
        "geometric", variable=n, p=(1 - exp(-b)) * exp(-b * n), q=(1 - exp(-c)) * exp(-c * n),
        support=(0, oo), lattice=True, parameters=(b, c),
    ),
}  # fmt: skip
# what takes longest, or is derived as others of its kind are
SLOW = {
    "scale_mixture", "raised_cosine", "exponentially_modified", "uniform_and_laplace",
    "laplace_and_normal", "poisson:cauchy", "poisson:subbotin", "poisson:gaussian_scale",
    "add:poisson:gaussian_scale", "add:poisson:subbotin", "poisson:gumbel", "poisson:huber",
    "poisson:one_sided", "poisson:two_sided_factorial",
}  # fmt: skip


def cases(*names):
    """Names as cases of a test, those of `SLOW` not in the default run."""
    return [pytest.param(m, marks=pytest.mark.slow) if m in SLOW else m for m in names]


@cache
def declared(name):
    """Declaration by name; "poisson:" and "reversed:" transform the rest of the name."""
    if name.startswith("poisson:"):
        return poisson(declared(name.removeprefix("poisson:")))
    return UNSEEN[name]() if name in UNSEEN else load_declaration(find(name))


@cache
def derived(name):
    """Calculus by name; "add:" swaps P and Q by hand."""
    if not name.startswith("add:"):
        return derive(normalise(declared(name)))
    return derive(reversed_pair(normalise(declared(name.removeprefix("add:")))))


def reversed_pair(given):
    from dataclasses import replace

    def swap(part, **others):
        return replace(part, p=part.q, q=part.p, **others)

    cases = tuple(
        replace(case, pieces=tuple(swap(piece, rate=None, r=()) for piece in case.pieces),
                atoms=tuple(map(swap, case.atoms)))
        for case in given.cases
    )  # fmt: skip
    return replace(given, cases=cases, move=None)


def vectors(calculus, case, count=2):
    """Parameter vectors inside a case."""
    return typical_values(calculus.pair.parameters, count, case.condition)


def density(name, side):
    """P or Q of the declaration as an mpmath function of the variable and a parameter vector."""
    swapped = name.startswith("add:")
    declaration = declared(name.removeprefix("add:"))
    expr = declaration.q if (side == "p") == swapped else declaration.p
    sums = list(expr.atoms(Sum, Integral))
    lo, hi = declaration.support
    symbols = [p.symbol for p in declaration.parameters]
    function = lambdify(
        [declaration.variable, *symbols], expr.xreplace(dict.fromkeys(sums, 1)), "mpmath"
    )
    ends = lambdify(symbols, [lo, hi], "mpmath")

    @cache
    def divisor(*given):
        """Every declaration here with an infinite sum has it as a divisor, and it is a theta."""
        scale = mpmath.mpf(1)
        for total in sums:
            index, _, _ = total.limits[0]
            term = lambdify([index, *symbols], total.function, "mpmath")
            scale *= mpmath.fsum(term(mpmath.mpf(m), *given) for m in range(-900, 901))
        return scale

    def value(at, vector):
        given = [vector[s] for s in symbols]
        left, right = ends(*given)
        if not left <= at <= right:
            return mpmath.mpf(0)
        return function(at, *given) / divisor(*given)

    return value
