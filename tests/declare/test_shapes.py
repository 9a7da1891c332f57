"""Densities known up to their constant."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, special
from sympy import (
    Abs,
    Integral,
    LambertW,
    Max,
    Piecewise,
    Rational,
    Sum,
    Symbol,
    besselk,
    cosh,
    exp,
    factorial,
    lambdify,
    oo,
    pi,
    sqrt,
)  # fmt: skip

import mechc
from mechc.declare import additive, count, integer, positive, real, shape
from mechc.declare.text import declaration_from_text
from mechc.errors import DeclarationError
from mechc.symbolic.evaluate import Evaluator
from mechc.verify.recheck import recheck

x, n, k = real("x"), integer("n"), Symbol("k", integer=True)
a, b, c = (positive(name, typical=(0.5, 3)) for name in "abc")
LINE = ("-oo", "oo")
sensitivity, moves = positive("sensitivity", default=1), count("sensitivity", default=1)


def declared(noise, *parameters, **options):
    return additive(
        "shaped", noise=noise, variable=x, sensitivity=sensitivity,
        parameters=(*parameters, sensitivity), **options,
    )  # fmt: skip


def log_density(declaration, points, *values):
    kernel = mechc.load(declaration).kernel
    out = np.empty(len(points))
    kernel.log_q_many(np.array(points), np.array([*values, 1.0]), out)
    return out


def test_constant_is_that_of_the_closed_form():
    """Over seven decades of the scale; what is left shows in the defect of the mass."""
    noise = declared(shape(exp(-((x / a) ** 4))), a)
    for scale, error in ((1e-3, 1e-13), (0.7, 1e-13), (13.0, 1e-13), (1e4, 1e-10)):
        truth = -math.log(2 * scale * special.gamma(1.25))
        assert log_density(noise, [0.0], scale)[0] == pytest.approx(truth, abs=error)


def test_constant_without_parameters():
    """The bump function: every derivative vanishes at ends that doubles do not hold when moved."""

    def density(v):
        return math.exp(-1 / (1 - v * v)) if abs(v) < 1 else 0.0

    total = integrate.quad(density, -1, 1, epsabs=1e-13)[0]
    noise = declared(shape(exp(-1 / (1 - x**2))), support=(-1, 1))
    assert log_density(noise, [0.0])[0] == pytest.approx(-1 - math.log(total), abs=1e-10)
    truth = integrate.quad(density, -0.05, 0.05, epsabs=1e-14)[0] / total
    found = mechc.load(noise)(sensitivity=0.1).delta(0.0)
    assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper <= truth + 1e-8


@pytest.mark.slow
def test_poles_and_zeros_at_ends_of_the_support():
    noise = declared(shape((a - x) ** (b - 1) * x ** (c - 1)), a, b, c, support=(0, a))
    for values in ((2.0, 0.5, 0.7), (3.0, 2.5, 1.0)):
        top, first, second = values
        truth = -special.betaln(first, second) - (first + second - 1) * math.log(top)
        truth += (first - 1) * math.log(top - 0.3) + (second - 1) * math.log(0.3)
        assert log_density(noise, [0.3], *values)[0] == pytest.approx(truth, abs=1e-12)


@pytest.mark.slow
def test_powers_of_what_cancels_at_the_ends():
    noise = declared(shape((1 - x**2 / a**2) ** b), a, b, support=(-a, a))
    for width, power in ((2.0, 1.3), (30.0, 0.4)):
        truth = -math.log(width * special.beta(0.5, power + 1))
        assert log_density(noise, [0.0], width, power)[0] == pytest.approx(truth, abs=1e-12)


@pytest.mark.slow
def test_a_logarithmic_pole_of_a_bessel_function():
    """Its log at the pole itself is infinite, which SymPy says too soon."""
    noise = declared(besselk(0, Abs(x) / a) / (pi * a), a)

    def density(v):
        return special.k0(abs(v) / 8.0) / (8.0 * math.pi)

    def gap(v):
        return max(density(v - 1) - math.exp(0.2) * density(v), 0.0)

    ends = [-400.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 20.0, 400.0]
    truth = sum(
        integrate.quad(gap, lo, hi, limit=400, epsabs=1e-12)[0]
        for lo, hi in itertools.pairwise(ends)
    )
    found = mechc.load(noise)(a=8.0).delta(0.2)
    assert found.lower - 1e-7 <= truth <= found.upper + 1e-7
    assert found.upper - found.lower <= 1e-7

    def sampled(v):
        p, q = density(v - 1), density(v)
        return max(q - math.exp(0.01) * (0.03 * p + 0.97 * q), 0.0)

    level = (math.exp(-0.01) - 0.97) / 0.03
    cross = [
        optimize.brentq(lambda v: density(v - 1) - level * density(v), *sides)
        for sides in ((-40.0, -1e-9), (1e-9, 0.5))
    ]
    truth = sum(
        integrate.quad(sampled, lo, hi, limit=400, epsabs=1e-13)[0]
        for lo, hi in itertools.pairwise([cross[0], 0.0, cross[1]])
    )
    # the loss is largest at the pole, next to which v / 8 is no double
    found = mechc.poisson(mechc.load(noise), 0.03)(a=8.0).delta(0.01, direction="add")
    assert found.lower - 1e-10 <= truth <= found.upper + 1e-10
    assert found.upper - found.lower <= 1e-10


def test_one_side_of_an_even_shape_is_added_up():
    """Laplace noise with Gaussian tails from b on."""
    z = Abs(x) / a
    tails = exp(-(z**2 + b**2) / (2 * b))
    noise = declared(shape(Piecewise((exp(-z), z <= b), (tails, True))), a, b)
    assert len(noise.q.atoms(Sum)) == 1  # of a tail; the middle has a closed form
    at_zero = Evaluator(noise.q, x, noise.parameters).exactly(0.0, (3.0, 2.0, 1.0))
    half = 1 - math.exp(-2) + math.exp(-1) * math.sqrt(math.pi) * special.erfc(1)
    assert at_zero == pytest.approx(1 / (6 * half), rel=1e-13)


@pytest.mark.parametrize("width", [1e-7, 0.3, 200.0])
def test_pieces_with_closed_integrals(width):
    """A plateau, a ramp, a cubic and an exponential tail, narrow beside each other and wide."""
    z = Abs(x)
    ramp, hump = 2 - (z - a) / b, (a + 2 * b - z) ** 2 * (1 + z) / b**2
    arms = (2, z < a), (ramp, z < a + b), (hump, z < a + 2 * b), (exp(-(z - a) / c), True)
    noise = declared(shape(Piecewise(*arms)), a, b, c)
    assert not noise.q.has(Sum)
    a0, b0, c0 = mpmath.mpf(1), mpmath.mpf(width), mpmath.mpf(2)
    hump = mpmath.quad(lambda u: u**2 * (1 + a0 + 2 * b0 - u * b0) * b0, [0, 1])
    half = 2 * a0 + 1.5 * b0 + hump + c0 * mpmath.exp(-2 * b0 / c0)
    at_zero = Evaluator(noise.q, x, noise.parameters).exactly(0.0, (1.0, width, 2.0, 1.0))
    assert at_zero == pytest.approx(float(1 / half), rel=1e-14)


@pytest.mark.slow
def test_one_step_against_quadrature():
    noise = declaration_from_text("quartic", noise="shape(exp(-(x/a)**4 - (x/a)**2))")

    def density(v):
        return math.exp(-(v**4) - v**2)

    total = integrate.quad(density, -6, 6)[0]
    truth = integrate.quad(
        lambda v: max(density(v - 1) - math.e * density(v), 0.0), -4, 5, limit=400,
        points=[0.5, 1.0], epsabs=1e-13,
    )[0] / total  # fmt: skip
    found = mechc.load(noise)(a=1.0).delta(1.0)
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-9


@pytest.mark.slow
def test_on_the_integers():
    noise = additive(
        "shaped_lattice", noise=shape(exp(-(Abs(n / a) ** Rational(3, 2)))), variable=n,
        sensitivity=moves, parameters=(a, moves), lattice=True,
    )  # fmt: skip
    points = np.arange(-60.0, 61.0)
    mass = np.exp(-(np.abs(points / 3.0) ** 1.5))
    truth = np.log(mass / mass.sum())
    assert log_density(noise, points, 3.0) == pytest.approx(truth, abs=1e-12)


def test_open_order_of_switches_is_refused_with_what_would_do():
    with pytest.raises(DeclarationError, match="lengths of pieces"):
        declared(shape(exp(-Max(a, b, Abs(x)))), a, b)


def test_a_certified_answer_of_a_shape_against_its_closed_form():
    """`d` is a parameter like any other, and no distance of the quadrature."""
    law = mechc.load(declaration_from_text("quartic", noise="shape(exp(-(x/d)**4))"))

    def above(v):  # of exp(-x^4), for any v
        tail = special.gammaincc(0.25, v**4) / 2
        return tail if v > 0 else 1 - tail

    # the loss -4 u^3 - u at u = 1/2 - x is 1 where 4 u^3 + u = -1
    cross = 0.5 - optimize.brentq(lambda u: 4 * u**3 + u + 1, -1, 0)
    truth = above(cross - 1) - math.e * above(cross)
    found = law(d=1.0).delta(1.0, certified=True, rtol=1e-12)
    assert found.status == "certified" and found.upper - found.lower < 1e-12
    assert found.lower - 1e-14 <= truth <= found.upper + 1e-14


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "stated", "values", "support"),
    [
        ("exp(-(x/a)**4)", "exp(-(x/a)**4)/(2*a*gamma(5/4))", {"a": 1.3}, LINE),
        ("sech(x/a)", "sech(x/a)/(pi*a)", {"a": 0.7}, LINE),
        ("1/(1 + (x/a)**4)", "sqrt(2)/(pi*a*(1 + (x/a)**4))", {"a": 2.0}, LINE),
        ("exp(-Abs(x/a)**d)", "d*exp(-Abs(x/a)**d)/(2*a*gamma(1/d))", {"a": 1, "d": 1.5}, LINE),
        ("sqrt((a - x)/x)", "2*sqrt((a - x)/x)/(pi*a)", {"a": 3.0}, ("0", "a")),
    ],
)
def test_certified_answers_are_those_of_the_stated_constant(noise, stated, values, support):
    """One step, ten, and a Poisson sample."""
    made, known = (
        mechc.load(declaration_from_text("noise", noise=f, support=support))
        for f in (f"shape({noise})", stated)
    )
    for event in (
        lambda law: law(**values),
        lambda law: 10 * law(**values),
        lambda law: mechc.poisson(law, 0.1)(**values),
    ):
        found, truth = (event(law).delta(0.02, certified=True, rtol=1e-6) for law in (made, known))
        assert found.status == truth.status == "certified"
        assert found.lower <= truth.upper and truth.lower <= found.upper
        assert found.upper - found.lower <= 1e-5 * found.upper


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", ["exp(-(x/d)**4)", "1/(1 + log(cosh(x/d))**2)", "1/(b + cosh(x/d))"]
)
def test_certificates_hold_the_constant(noise, tmp_path):
    """The integral in ball arithmetic, and again by the checker that imports nothing of mechc."""
    mechanism = mechc.load(declaration_from_text("noise", noise=f"shape({noise})"))
    certificate = mechanism.verify()
    assert certificate.ok
    mechanism.emit(tmp_path / "kernel.py")
    (tmp_path / "noise.json").write_text(certificate.to_json(), "utf-8")
    assert recheck(tmp_path / "kernel.py", tmp_path / "noise.json") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "density", "values"),
    [
        ("shape(exp(-2*abs(x)/b)*besseli(0, x/b))",
         lambda v: np.exp(-abs(v) / 1.5) * special.ive(0, v / 1.5), {"b": 1.5}),
        ("shape(exp(-abs(x)/b)*log(2 + abs(x)))",
         lambda v: np.exp(-abs(v) / 2) * np.log(2 + abs(v)), {"b": 2.0}),
        ("shape((1 + x/sqrt(4 + x**2))**(a + 1)*(1 - x/sqrt(4 + x**2))**(b + 1))",
         lambda v: np.exp(np.arcsinh(v / 2)) / (4 + v * v) ** 2.5, {"a": 2.0, "b": 1.0}),
    ],
)  # fmt: skip
def test_tails_by_their_expansions(text, density, values):
    """Of I_0 far out, of an iterated logarithm, and of 1 + x/sqrt(4 + x^2), which cancels."""
    nodes = np.linspace(-400, 401, 4_000_001)
    p, q = density(nodes - 1), density(nodes)
    event = mechc.load(declaration_from_text("tails", noise=text))(**values)
    one = event.delta(0.3, direction="remove")
    truth = np.maximum(p - math.exp(0.3) * q, 0.0).sum() / q.sum()
    assert one.lower == pytest.approx(truth, rel=1e-5) == one.upper
    many = (30 * event).delta(4.0)
    assert many.lower <= many.upper <= many.lower + 1e-4


@pytest.mark.slow
def test_student_noise_of_two_degrees_rounded_to_integers():
    """A difference of u/sqrt(2 + u^2), whose masses at 1e5 are the rounding of its terms."""
    text = "((n+1/2)/sqrt(2*a**2+(n+1/2)**2) - (n-1/2)/sqrt(2*a**2+(n-1/2)**2))/2"
    noise = declaration_from_text("rounded", noise=text, variable="n", lattice=True)
    points = np.array([-1e6, -3.0, 0.0, 1.0, 1e5])
    with mpmath.workdps(40):
        truth = [
            float(mpmath.log(sum(
                side * u / mpmath.sqrt(mpmath.mpf(8) + u * u) / 2
                for side, u in ((1, mpmath.mpf(n) + 0.5), (-1, mpmath.mpf(n) - 0.5)))))
            for n in points
        ]  # fmt: skip
    assert log_density(noise, points, 2.0) == pytest.approx(truth, abs=1e-13)
    found = mechc.load(noise)(a=2.0).epsilon(1e-5)
    assert found.upper - found.lower < 1e-6


@pytest.mark.slow
def test_samples_of_a_constant_that_overflows():
    """Every form of the loss of a sample but log p - log q is inf - inf far out."""
    event = mechc.poisson(mechc.load(declared(shape(1 / (cosh(x / a) + b)), a, b)))
    points = np.linspace(-60.0, 61.0, 400_001)
    q = 1 / (np.cosh(points / 1.5) + 2.0)
    p = 0.9 * q + 0.1 / (np.cosh((points - 1.0) / 1.5) + 2.0)
    truth = np.maximum(p - math.exp(0.02) * q, 0.0).sum() / q.sum()
    found = event(a=1.5, b=2.0, sampling_rate=0.1).delta(0.02, direction="remove")
    assert found.upper == pytest.approx(truth, rel=1e-6) and found.lower <= found.upper


@pytest.mark.parametrize("rate", [0.4, 30.0])
def test_a_constant_whose_terms_are_products_that_overflow(rate):
    """Conway, Maxwell, Poisson; for v = 1 the sum is exp(rate), and powers alone are infinite."""
    s, v = positive("s", typical=(0.5, 40)), positive("v", typical=(0.8, 2))
    law = additive(
        "cmp", noise=shape(s**n / factorial(n) ** v), variable=n, support=(0, oo), lattice=True,
        sensitivity=moves, parameters=(s, v, moves),
    )  # fmt: skip
    points = np.arange(1.0, 90.0)
    truth = points * math.log(rate) - rate - special.gammaln(points + 1)
    assert log_density(law, points, rate, 1.0) == pytest.approx(truth, abs=1e-12)


def test_a_constant_whose_terms_fall_off_like_a_power():
    law = declaration_from_text(
        "student", noise="shape(1/(1+(n/s)**2)**2)", lattice=True, variable="n"
    )
    s, points = 2.5, np.array([-40.0, 0.0, 3.0])
    total = math.pi * s / (2 * math.tanh(math.pi * s))
    total += (math.pi * s / math.sinh(math.pi * s)) ** 2 / 2
    truth = -2 * np.log1p((points / s) ** 2) - math.log(total)
    assert log_density(law, points, s) == pytest.approx(truth, abs=1e-12)


@pytest.mark.slow
def test_sums_of_powers_end_by_euler_and_maclaurin():
    """The two-sided Zipf law, of which one term after another would be a billion."""
    noise = additive(
        "powers", noise=shape((1 + Abs(n)) ** -a), variable=n, sensitivity=moves,
        parameters=(a, moves), lattice=True,
    )  # fmt: skip
    for power in (1.5, 2.0, 3.0):
        truth = -math.log(2 * special.zeta(power) - 1)
        assert log_density(noise, [0.0], power)[0] == pytest.approx(truth, abs=1e-14)


@pytest.mark.slow
def test_lattice_noise_with_tails_that_are_powers_composes():
    """Delta of one step in closed form but for a sum; thirty steps have a lower bound as well."""
    noise = additive(
        "quartic", noise=shape(1 / (1 + (n / 5) ** 4)), variable=n, sensitivity=moves,
        parameters=(moves,), lattice=True,
    )  # fmt: skip
    event = mechc.load(noise)()
    k = np.arange(-30_000.0, 30_001.0)
    p, q = (1 / (1 + ((k - move) / 5) ** 4) for move in (1.0, 0.0))
    total = q.sum() + 2 * 5**4 / (3 * 30_000.5**3)
    one = event.delta(0.3, direction="remove")
    truth = np.maximum(p - math.exp(0.3) * q, 0.0).sum() / total
    assert one.lower - 1e-11 <= truth <= one.upper + 1e-11
    assert one.upper - one.lower < 1e-10
    many = (30 * event).epsilon(1e-5)
    assert 6.0 < many.lower <= many.upper < many.lower * (1 + 1e-4)


def test_integrals_stand_as_they_are_known():
    """A Gaussian of uniform mean, by Simpson's rule over the mean."""
    t = Symbol("t", real=True)
    found = declared(Integral(exp(-((x - t) ** 2) / 2), (t, -a, a)) / (2 * a * sqrt(2 * pi)), a)
    nodes = np.linspace(-1.5, 1.5, 1001)
    for at in (0.0, 1.2, 5.0):
        value = integrate.simpson(np.exp(-((at - nodes) ** 2) / 2), x=nodes)
        density = found.q.subs({found.variable: at, found.parameters[0].symbol: 1.5})
        assert float(density) == pytest.approx(value / (3 * math.sqrt(2 * math.pi)), rel=1e-10)


T = Symbol("t", real=True)
NORMAL = exp(-((x - T) ** 2) / (2 * a**2)) / (sqrt(2 * pi) * a)


@pytest.mark.few(2, 4)
@pytest.mark.parametrize(
    "noise",
    [
        Integral(exp(-T / b) / b * NORMAL, (T, 0, oo)),  # the closed form cancels but for an erfc
        Integral(T * exp(-T / b) / b**2 * NORMAL, (T, -oo, 0)),
        Integral(sqrt(T) * exp(-T * x**2 / a) * T * exp(-T), (T, 0, oo)),  # a sign of x**2 + a
        Integral(exp(-(x**2) / (2 * T)) / sqrt(2 * pi * T) * exp(-T / a) / a, (T, 0, oo)),
        Integral(exp(-Abs(T) / b) / (2 * b), (T, x - a, x + a)) / (2 * a),
    ],
)
def test_integrals_keep_their_digits(noise):
    """In doubles, for scales that are far apart."""
    made, numbers = declared(noise, a, b), {a: 0.3, b: 4.0}
    plain = {p.symbol: value for p, value in zip(made.parameters, (0.3, 4.0, 1.0), strict=True)}
    (integral,) = noise.atoms(Integral)
    for at in (-1.0, 0.2, 7.5):
        f, *ends = (
            e.subs({x: at, **numbers}) for e in (integral.function, *integral.limits[0][1:])
        )
        kinks = sorted({-50.0, -1.0, 0.0, 0.2, 1.0, 7.5, 50.0, *map(float, ends)})
        inside = [float(k) for k in kinks if float(ends[0]) <= k <= float(ends[1])]
        inner = lambdify(T, f, "numpy")
        truth = sum(
            integrate.quad(inner, lo, hi, epsabs=0, epsrel=1e-12)[0]
            for lo, hi in itertools.pairwise(inside)
        )
        density = lambdify([], made.q.subs({made.variable: at, **plain}), "scipy")()
        factor = float((noise / integral).subs(numbers))
        assert density == pytest.approx(truth * factor, rel=1e-8, abs=1e-40)


@pytest.mark.few(0, 1, 2, 4)
@pytest.mark.parametrize(
    ("noise", "options", "words"),
    [
        (shape(1 / (1 + Abs(x))), {}, "an integral that does not converge"),
        (shape(exp(-Abs(x) / a)), {"support": (a, 0)}, r"support=\(a, 0\) is empty"),
        (shape(Sum(exp(-((x - k) ** 2)), (k, 0, 1))), {}, "a Sum may stand in a constant, free of"),
        (Integral(exp(-((x - k) ** 4)), (k, 0, 1)), {}, "which no kernel can compute"),
        (shape(exp(-LambertW(x**2))), {}, r"uses LambertW\(x\*\*2\), which no kernel can compute"),
    ],
)
def test_errors_say_what_would_be_accepted(noise, options, words):
    with pytest.raises(DeclarationError, match=words):
        mechc.load(declared(noise, a, **options)).compile()


def test_terms_of_a_constant_may_overflow_where_their_product_does_not():
    """Hyperbolic laws that lean to one side: exp(x/b) times a Bessel function."""
    noise = declared(shape(exp(x / b) * besselk(1, sqrt(a**2 + x**2))), a, b)
    values = 1.8, 4.0
    whole = integrate.quad(
        lambda v: math.exp(v / 4 - math.hypot(1.8, v)) * special.kve(1, math.hypot(1.8, v)),
        -60, 90, points=[0], limit=200, epsabs=1e-14,
    )[0]  # fmt: skip
    truth = math.log(special.k1(1.8)) - math.log(whole)
    assert log_density(noise, [0.0], *values)[0] == pytest.approx(truth, abs=1e-12)
