"""Noise with Bessel, zeta and beta functions, finite sums and differences, against SciPy."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats
from sympy import (
    Abs,
    Integer,
    Piecewise,
    Rational,
    Sum,
    Symbol,
    atan,
    besselk,
    beta,
    binomial,
    erf,
    exp,
    factorial,
    floor,
    gamma,
    oo,
    pi,
    sinh,
    sqrt,
    tanh,
    zeta,
)  # fmt: skip

import mechc
from mechc.calculus.terms import without_differences
from mechc.declare import additive, count, integer, mechanism, positive, real, shape
from mechc.symbolic.evaluate import evaluate
from mechc.symbolic.facts import Facts
from mechc.symbolic.functions import log_besselk

x, n, j = real("x"), integer("n"), Symbol("j", integer=True)
a, b = positive("a", typical=(0.5, 3)), positive("b", typical=(0.5, 3))
sensitivity, moves = positive("sensitivity", default=1), count("sensitivity", default=1)
size = count("size", lo=2, typical=(5, 40))


def continuous(name, noise, *parameters):
    return additive(
        name, noise=noise, variable=x, sensitivity=sensitivity,
        parameters=(*parameters, sensitivity),
    )  # fmt: skip


def lattice(name, noise, *parameters, **options):
    return additive(
        name, noise=noise, variable=n, sensitivity=moves, parameters=(*parameters, moves),
        lattice=True, **options,
    )  # fmt: skip


radius = sqrt(b**2 + x**2)
CONTINUOUS = {
    # name: (declaration, parameters, density, whether its claim is proven)
    "normal_inverse_gaussian": (
        continuous("nig", a * b * besselk(1, a * radius) * exp(a * b) / (pi * radius), a, b),
        {"a": 1.5, "b": 1.2},
        stats.norminvgauss(1.5 * 1.2, 0.0, scale=1.2).pdf,
        True,
    ),
    "uniform_on_gaussian": (
        continuous("uniform_on_gaussian", (erf((x + a) / b) - erf((x - a) / b)) / (4 * a), a, b),
        {"a": 1.7, "b": 0.6},
        lambda v: (special.ndtr((v + 1.7) / 0.6 * 2**0.5) - special.ndtr((v - 1.7) / 0.6 * 2**0.5))
        / 3.4,
        True,
    ),
    "logistic_difference": (
        continuous(
            "logistic_difference",
            (1 / (1 + exp(-(x + a) / b)) - 1 / (1 + exp((a - x) / b))) / (2 * a),
            a, b,
        ),
        {"a": 2.0, "b": 0.8},
        lambda v: (special.expit((v + 2) / 0.8) - special.expit((v - 2) / 0.8)) / 4,
        True,
    ),
    "variance_gamma": (
        continuous(
            "variance_gamma", (Abs(x) / (2 * a)) ** (b - Rational(1, 2)) * a ** (2 * b)
            * besselk(b - Rational(1, 2), a * Abs(x)) / (sqrt(pi) * gamma(b)), a, b,
        ),
        {"a": 1.5, "b": 1.7},
        lambda v: (np.abs(v) / 3) ** 1.2 * 1.5**3.4 * special.kv(1.2, 1.5 * np.abs(v))
        / (np.pi**0.5 * special.gamma(1.7)),
        True,
    ),
    "planck": (
        continuous("planck", shape(Abs(x) / (exp(Abs(x) / a) - 1)), a),
        {"a": 1.2},
        lambda v: 3 / (1.2 * np.pi**2 * special.exprel(np.abs(v) / 1.2)),
        False,
    ),
    "zeros_inside": (
        continuous("zeros_inside", shape((x**2 - a**2) ** 2 * exp(-(x**2) / 2)), a),
        {"a": 1.0},
        lambda v: (v**2 - 1) ** 2 * np.exp(-(v**2) / 2) / (2 * np.sqrt(2 * np.pi)),
        False,
    ),
    "removable_pole": (
        continuous("slash", shape((1 - exp(-(x**2) / 2)) * exp(-(x**2) / 2) / x**2)),
        {},
        lambda v: special.exprel(-(v**2) / 2) * np.exp(-(v**2) / 2)
        / (4 * np.sqrt(np.pi) * (1 - np.sqrt(0.5))),
        False,
    ),
    "odd_over_odd": (
        continuous("odd_over_odd", 2 * x / (pi**2 * a**2 * sinh(x / a)), a),
        {"a": 1.2},
        lambda v: 2 / (np.pi**2 * 1.2) * np.exp(-np.abs(v) / 1.2)
        / special.exprel(-2 * np.abs(v) / 1.2),
        False,
    ),
}  # fmt: skip
LATTICE = {
    "rounded_gaussian": (
        lattice("rounded", (erf((2 * n + 1) / a) - erf((2 * n - 1) / a)) / 2, a),
        {"a": 5.0},
        lambda k: (special.erf((2 * k + 1) / 5) - special.erf((2 * k - 1) / 5)) / 2,
    ),
    "rounded_hyperbolic_secant": (  # whose exponentials overflow at far integers
        lattice("sech", 2 * (atan(exp((2 * n + 1) / a)) - atan(exp((2 * n - 1) / a))) / pi, a),
        {"a": 3.0},
        lambda k: stats.hypsecant.sf((2 * np.abs(k) - 1) / 3)
        - stats.hypsecant.sf((2 * np.abs(k) + 1) / 3),
    ),
    "conway_maxwell_poisson": (
        lattice(
            "cmp", a**n / factorial(n) ** b / Sum(a**j / factorial(j) ** b, (j, 0, 200)), a, b,
            support=(0, 200),
        ),
        {"a": 2.0, "b": 1.4},
        lambda k: np.where(k < 0, 0, np.exp(np.log(2) * k - 1.4 * special.gammaln(np.abs(k) + 1)))
        / sum(np.exp(np.log(2) * i - 1.4 * special.gammaln(i + 1)) for i in range(201)),
    ),
    "beta_binomial": (
        lattice(
            "beta_binomial", binomial(size, n) * beta(n + a, size - n + b) / beta(a, b), size, a, b,
            support=(0, size),
        ),
        {"size": 20, "a": 2.0, "b": 3.0},
        stats.betabinom(20, 2.0, 3.0).pmf,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n if i < 1 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(CONTINUOUS)],
)
def test_density(name):
    """One step in both directions by SciPy's quadrature, and two by discretisation."""
    declared, values, density, proven = CONTINUOUS[name]
    noise = mechc.load(declared)(**values)
    assert (noise.mechanism.claim["status"] == "proven") is proven
    for epsilon in (0.1, 0.5, 2.0):

        def excess(v, epsilon=epsilon):
            return max(density(v - 1) - np.exp(epsilon) * density(v), 0.0)

        truth = sum(
            integrate.quad(excess, lo, lo + 1, epsabs=1e-14, limit=200)[0] for lo in range(-40, 40)
        )
        for direction in ("remove", "add"):  # even noise
            found = noise.delta(epsilon, direction=direction)
            assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
            assert found.upper - found.lower <= 1e-9
    centres = np.arange(-60, 60, 2e-4) + 1e-4
    p, q = density(centres - 1), density(centres)
    kept = (p > 1e-25) & (q > 0)
    assert_two_steps(noise, p[kept] * 2e-4, np.log(p[kept] / q[kept]), 0.0)


@pytest.mark.parametrize(
    "name", [n if i < 1 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(LATTICE)]
)
def test_masses(name):
    declared, values, mass = LATTICE[name]
    noise = mechc.load(declared)(**values)
    points = np.arange(-100.0, 301.0)
    p, q = mass(points - 1), mass(points)
    for direction, over, under in (("remove", p, q), ("add", q, p)):
        for epsilon in (0.1, 0.5, 2.0):
            truth = np.maximum(over - np.exp(epsilon) * under, 0.0).sum()
            found = noise.delta(epsilon, direction=direction)
            assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
            assert found.upper - found.lower <= 1e-12
    kept = (p > 1e-25) & (q > 0)
    assert_two_steps(noise, p[kept], np.log(p[kept] / q[kept]), p[q == 0].sum())


def assert_two_steps(noise, mass, loss, infinite, step=2e-4):
    """The interval of two steps meets that of losses rounded down and up to a grid."""
    ends = []
    for round_to in (np.floor, np.ceil):
        cell = round_to(loss / step).astype(int)
        grid = np.bincount(cell - cell.min(), mass)
        length = 2 * grid.size
        both = np.fft.irfft(np.fft.rfft(grid, length) ** 2, length)
        losses = (np.arange(length) + 2 * cell.min()) * step
        payoff = -np.expm1(np.minimum(0.4 - losses, 0.0))
        ends.append(float(both @ payoff) + 1 - (1 - infinite) ** 2)
    found = (2 * noise).delta(0.4, direction="remove")
    assert ends[0] - 1e-8 <= found.upper
    assert found.lower <= ends[1] + 1e-8
    assert found.upper - found.lower <= 1e-6


@pytest.mark.slow
def test_difference_of_arc_tangents():
    """A Cauchy law rounded to integers keeps its digits at far integers."""
    cauchy = lattice("cauchy", (atan((2 * n + 1) / a) - atan((2 * n - 1) / a)) / pi, a)
    kernel = mechc.load(cauchy)(a=3.0).mechanism.kernel
    far = 1e9
    found = kernel.log_q(far, np.array([3.0, 1.0]))
    assert found == pytest.approx(np.log(6 / (np.pi * (4 * far**2 + 8))), rel=1e-14)


def test_the_gudermannian_function_in_differences():
    """atan of tanh and of sinh, whose differences are atan(sinh(h)/cosh(m)): no digits are lost."""
    facts = Facts().within(x, -oo, oo)
    for f, share in ((lambda u: atan(tanh(u / 2)), 1), (lambda u: 3 * atan(sinh(u)), 6)):
        found = without_differences(f(x + 2) - f(x - 2), x, facts)
        for at in (0.3, -300.0):
            exact = share * math.atan(math.sinh(2) / math.cosh(at))
            assert float(found.subs(x, at)) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("z", ["1e-12", "0.7", "3", "400"])
def test_log_besselk_in_many_digits(z):
    """Next to zero and far out by other series than between."""
    with mpmath.workdps(30):
        z = mpmath.mpf(z)
        for order in (0, mpmath.mpf("0.3"), 2):
            top = mpmath.asinh(200 / z)
            whole = mpmath.quad(
                lambda t, n=order: mpmath.exp(-z * mpmath.cosh(t) + z) * mpmath.cosh(n * t),
                mpmath.linspace(0, top, 20),
            )
            found = evaluate(log_besselk(order, Symbol("z")), {Symbol("z"): z})
            assert abs(found - (mpmath.log(whole) - z)) < 1e-20


def test_zipf_masses():
    zipf = lattice("zipf", (1 + Abs(n)) ** (-1 - a) / (2 * zeta(1 + a) - 1), a)
    kernel = mechc.load(zipf)(a=1.5).mechanism.kernel
    for k in (0.0, -3.0, 1e6):
        truth = -2.5 * np.log1p(abs(k)) - np.log(2 * special.zeta(2.5) - 1)
        assert kernel.log_q(k, np.array([1.5, 1.0])) == pytest.approx(truth, rel=1e-14)
    # the loss exceeds epsilon at finitely many integers only, and the rest of the mass is far out
    for exponent, epsilon in ((1.3, 0.3), (2.5, 0.1)):
        k = np.arange(1.0, 1.0 / np.expm1(epsilon / exponent))
        terms = k**-exponent - np.exp(epsilon) * (k + 1) ** -exponent
        truth = terms.sum() / (2 * special.zeta(exponent) - 1)
        found = mechc.load(zipf)(a=exponent - 1.0).delta(epsilon)
        assert found.lower <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= found.upper < truth * (1 + 1e-5)


@pytest.mark.few(0)
@pytest.mark.parametrize(("p", "q", "width"), [(3.5, 3.2, 1e-11), (2.5, 2.2, 1e-7)])
def test_heavy_tails_of_no_largest_loss_are_revealed(p, q, width):
    """Two zeta laws: the loss grows like log n, and what no list holds is 1e-12, 1e-8 of Q."""
    laws = mechanism("zetas", variable=n, lattice=True, support=(1, oo), parameters=(a, b),
                     p=n ** (-1 - a) / zeta(1 + a), q=n ** (-1 - b) / zeta(1 + b))  # fmt: skip
    event = mechc.load(laws)(a=p - 1.0, b=q - 1.0)
    for epsilon in (0.05, 0.2):  # Q above exp(epsilon) P from an integer on
        rise = epsilon + math.log(special.zeta(q) / special.zeta(p))
        first = math.ceil(math.exp(rise / (p - q)))
        parts = [special.zeta(power, first) / special.zeta(power) for power in (p, q)]
        truth = parts[1] - math.exp(epsilon) * parts[0]
        found = event.delta(epsilon, direction="add")
        assert found.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= found.upper
        assert found.upper - found.lower < width
    pair = (2 * event).epsilon(1e-6, direction="add")
    assert math.isfinite(pair.upper) and pair.lower > 0.9 * pair.upper


@pytest.mark.few(0)
@pytest.mark.parametrize(("first", "count", "epsilon"), [(1, 6_000_000, 0.01), (10**6, oo, 0.18)])
def test_heavy_tails_up_to_an_end_and_far_from_zero(first, count, epsilon):
    """What no list holds was summed past the end, and in decades of the output."""
    k, rest = n - first + 1, (1 / (count + Integer(1)), 1 / (count + Integer(2)))
    # 1 / (k (k + 1)) and 1 / (k (k + 2)) from k = 2 on, one part in a thousand
    sums = Rational(1, 2) - rest[0], (Rational(5, 6) - sum(rest)) / 2
    p, q = (Piecewise((Rational(999, 1000), n <= first), (1 / (1000 * total * k * (k + gap)), True))
            for gap, total in zip((1, 2), sums, strict=True))  # fmt: skip
    law = mechanism("far", variable=n, lattice=True, support=(first, first - 1 + count),
                    parameters=(), p=p, q=q)  # fmt: skip
    least = exp(Rational(str(epsilon)))  # of Q / P, which is sums[0] / sums[1] (k + 1) / (k + 2)
    at = max(2, floor(1 / (1 - least * sums[1] / sums[0])) - 1)
    parts = [1 / Integer(at) - rest[0], (1 / Integer(at) + 1 / Integer(at + 1) - sum(rest)) / 2]
    truth = (parts[1] / sums[1] - least * parts[0] / sums[0]) / 1000
    found = mechc.load(law)().delta(epsilon, direction="add")
    assert found.lower <= truth.evalf(30) <= found.upper <= found.lower + 1e-11


@pytest.mark.slow
def test_what_is_further_out_than_doubles_is_not_left_out():
    """Half of the heavy part is past exp(690), 5e-10 of P: less than masses may lack."""
    share = Rational(1, 10**9)
    law = mechanism("farther", variable=n, lattice=True, support=(1, oo), parameters=(a,),
                    p=(1 - share) * n**-4 / zeta(4) + share * n ** (-1 - a) / zeta(1 + a),
                    q=n**-4 / zeta(4))  # fmt: skip
    assert mechc.load(law)(a=1e-3).delta(30.0, direction="remove").upper > 9.7e-10


@pytest.mark.slow
def test_light_tails_of_long_lists_are_listed():
    """The discrete logistic law at scale 300 has 20 000 integers, and bounded losses."""
    noise = exp(-Abs(n) / a + 1 / (2 * a)) * (1 - exp(-1 / a)) / (
        1 + exp(-2 * Abs(n) / a) + exp(-Abs(n) / a) * (exp(1 / (2 * a)) + exp(-1 / (2 * a)))
    )  # fmt: skip
    event = mechc.load(lattice("discrete_logistic", noise, a))(a=300.0)
    k = np.arange(-20_000.0, 20_001.0)
    p, q = (
        np.sinh(1 / 600) / (np.cosh((k - move) / 300) + np.cosh(1 / 600)) for move in (1.0, 0.0)
    )
    for epsilon in (0.0, 1 / 600, 0.003):
        truth = math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0))
        found = event.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper
        assert found.upper - found.lower < 1e-9 * truth


@pytest.mark.slow
def test_breakpoints_in_every_order():
    """A trapezoid against its shift: which breakpoint comes first depends on all three lengths."""
    noise = mechc.load(continuous("trapezoid", Piecewise(
        (1, Abs(x) < a), ((a + b - Abs(x)) / b, Abs(x) < a + b), (0, True)) / (2 * a + b), a, b,
    ))  # fmt: skip
    grid = np.linspace(-5.0, 5.0, 1_000_001)
    for flat, ramp in ((2.0, 1.0), (0.7, 0.2), (0.2, 0.9), (0.3, 0.15), (0.1, 2.5)):
        p, q = (np.clip((flat + ramp - np.abs(grid - move)) / ramp, 0, 1) for move in (1.0, 0.0))
        p, q = p / (2 * flat + ramp), q / (2 * flat + ramp)
        truth = integrate.trapezoid(np.maximum(p - np.exp(0.1) * q, 0.0), grid)
        found = noise(a=flat, b=ramp).delta(0.1)
        assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
        assert found.upper - found.lower <= 1e-9
