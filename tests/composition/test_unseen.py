"""Declarations that are in no catalogue, against answers in closed form."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy import stats
from scipy.special import erfc, gammaln
from sympy import Piecewise, Rational, factorial, gamma, oo

import mechc
from mechc.accountants.contour import ContourAccountant
from mechc.declare import additive, integer, mechanism, parameter, positive
from mechc.declare.text import declaration_from_text
from mechc.errors import UnsupportedError
from mechc.loss.privacy_loss import Step, bound


def load(**text):
    return mechc.load(declaration_from_text("unseen", **text))


def brackets(bound, truth, rtol=1e-9):
    assert bound.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= bound.upper
    assert bound.upper - bound.lower <= rtol * truth


@pytest.fixture(scope="module")
def frechet():
    """A heavy tail beyond an extremum of the loss whose value SymPy cannot place."""
    return load(noise="where(x > 0, s/x**2 * exp(-s/x), 0)")


@pytest.mark.parametrize("shape", [0.4, 1.7, 9.3])
def test_mass_beyond_an_extremum_without_a_formula(frechet, shape):
    """F(x) = exp(-s/x); p > q exactly where x > c, the crossing of the densities, at epsilon 0."""

    def gap(x):
        return -shape / (x - 1) - 2 * math.log(x - 1) + shape / x + 2 * math.log(x)

    low, high = 1.0 + 1e-9, 0.5 + shape / 2 + math.hypot(1, shape) / 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if gap(middle) > 0 else (middle, high)
    truth = math.exp(-shape / low) - math.exp(-shape / (low - 1))
    brackets(frechet(s=shape).delta(0.0, direction="remove"), truth)
    brackets(frechet(s=shape).delta(0.0, direction="add"), truth)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("p", "q", "parameters"),
    [
        # a ratio of two constants whose logarithm has to be one constant of the kernel
        ("exp(-abs(x)/s)/(2*s)", "exp(-x**2/(2*t**2))/(t*sqrt(2*pi))", {"s": 1.3, "t": 2.0}),
        ("1/(pi*(1+(x-d)**2))", "exp(-x**2/2)/sqrt(2*pi)", {"d": 1.0}),
        # the sign of s - t decides how the loss ends, and is open when the kernel is compiled
        ("sech(pi*(x-d)/(2*s))/(2*s)", "sech(pi*x/(2*t))/(2*t)", {"d": 1.0, "s": 1.3, "t": 2.0}),
    ],
)
def test_laws_of_different_families(p, q, parameters):
    """Against the integral of (p - e^eps q)_+ on a fine grid, in both directions."""
    names = {"exp": np.exp, "abs": np.abs, "sqrt": np.sqrt, "pi": np.pi, **parameters}
    names["sech"] = lambda u: 2 * np.exp(-np.abs(u)) / (1 + np.exp(-2 * np.abs(u)))
    u, w = np.polynomial.legendre.leggauss(8)
    edges = np.unique(np.concatenate([np.linspace(-50, 50, 200_001), far(50.0), far(-50.0)]))
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * u
    p_values, q_values = (eval(f, {"__builtins__": {}}, {**names, "x": x}) for f in (p, q))
    event = load(p=p, q=q)(**parameters)
    for epsilon in (-0.4, 0.0, 0.5):
        for direction, a, b in (("remove", p_values, q_values), ("add", q_values, p_values)):
            truth = float((np.clip(a - math.exp(epsilon) * b, 0.0, None) * half * w).sum())
            bound = event.delta(epsilon, direction=direction)
            assert bound.lower <= truth + 1e-8 and truth - 1e-8 <= bound.upper
            assert bound.upper - bound.lower <= 1e-8


def test_beyond_the_largest_loss_of_a_sample():
    """Q has the longer tails: the loss is largest between, and far out all is rounding of logs."""
    pair = load(p="sech((x-d)/s)/(pi*s)", q="sech(x/t)/(pi*t)")
    event = mechc.poisson(pair, 0.1)(d=1.0, s=1.0, t=1.5)
    x = np.linspace(-40.0, 40.0, 800_001)
    top = math.log1p(0.1 * np.expm1(np.log(1.5 * np.cosh(x / 1.5) / np.cosh(x - 1.0)).max()))
    near, far_out = (event.delta(top + gap, direction="remove") for gap in (-1e-3, 0.3))
    assert 1e-300 < near.lower <= near.upper <= near.lower * (1.0 + 1e-6)
    assert far_out.upper < 1e-300


def far(start):
    """Edges in geometric distance."""
    return start * np.exp(np.linspace(0.0, 30.0, 30_001))


@pytest.mark.few(0)
@pytest.mark.parametrize("name", ["logistic", "hyperbolic_secant"])
@pytest.mark.parametrize("ratio", [300.0, 1500.0, 1e6])
def test_losses_beyond_the_range_of_exponentials(name, ratio):
    """Both losses end at -c and c, and are linear between the two modes."""
    kernel = mechc.load(name).kernel
    theta = np.array([1.0, ratio])
    slope = 2.0 if name == "logistic" else math.pi
    top = slope * ratio / 2.0
    for x in (-2000.0, -50.0, 0.3 * ratio, 0.5 * ratio, 0.8 * ratio, ratio + 50.0):
        expected = min(max(slope * (x - ratio / 2.0), -top), top)
        assert kernel.loss(x, theta) == pytest.approx(expected, rel=1e-13, abs=1e-9)


@pytest.fixture(scope="module")
def rates():
    """Two Poisson laws."""
    declaration = declaration_from_text(
        "rates",
        p="exp(-s) * s**n / factorial(n)",
        q="exp(-t) * t**n / factorial(n)",
        variable="n",
        support=("0", "oo"),
        lattice=True,
    )
    return mechc.load(declaration)


def test_a_direction_of_the_loss_that_two_equal_parameters_erase(rates):
    """Flat at equal rates, a case of its own with n still in its formula."""
    n = range(200)
    p, q = ([math.exp(k * math.log(r) - r - math.lgamma(k + 1)) for k in n] for r in (4.3, 3.0))
    truth = math.fsum(max(0.0, a - math.exp(0.5) * b) for a, b in zip(p, q, strict=True))
    brackets(rates(s=4.3, t=3.0).delta(0.5, direction="remove"), truth)
    assert rates(s=3.0, t=3.0).delta(0.5).upper == 0.0


def test_atoms_that_another_question_added(rates):
    """Both directions share one list of outcomes; it may grow while one of them is answered."""
    event = mechc.poisson(rates, sampling_rate=0.1)(s=4.3, t=3.0)
    loss = bound(event.mechanism.kernel, [np.array(event.theta)])[0]
    accountant = ContourAccountant([Step(loss, 2)], rtol=1e-10)
    accountant.log_delta(0.1)
    loss.covering(-1.0, 20.0)
    n = np.arange(150.0)
    p, q = (np.exp(n * math.log(r) - r - gammaln(n + 1.0)) for r in (4.3, 3.0))
    p = 0.1 * p + 0.9 * q
    truth = float(np.clip(np.outer(p, p) - math.exp(3.0) * np.outer(q, q), 0.0, None).sum())
    found = accountant.log_delta(3.0)
    assert found.lower <= math.log(truth) + 1e-12
    assert math.log(truth) - 1e-12 <= found.upper <= math.log(truth) + 1e-5


@pytest.mark.slow
def test_a_strip_that_ends_at_a_singularity():
    """P = 2x, Q = 2(1 - x): finite moments below tilt 1, and hardly representable near it."""
    run = 7 * load(p="where(0 < x < 1, 2*x, 0)", q="where(0 < x < 1, 2*(1 - x), 0)")()
    bound = run.delta(0.5)
    assert 0.9 < bound.lower <= bound.upper <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "sensitivity"), [(6.0, 1), (6.0, 4), (1.5, 3)])
def test_two_sided_noise_with_factorial_tails(rate, sensitivity):
    """Three steps against the sum over all triples of outputs."""
    noise = load(
        noise="a**abs(n)/gamma(abs(n)+1)/(2*exp(a)-1)",
        variable="n",
        lattice=True,
        parameters=("integer sensitivity >= 1",),
    )
    n = np.arange(-60, 61)

    def log_mass(k):
        k = np.abs(k)
        return k * math.log(rate) - gammaln(k + 1) - math.log(2 * math.exp(rate) - 1)

    log_p, log_q = log_mass(n - sensitivity), log_mass(n)
    two_p, two_q = (np.add.outer(v, v).ravel() for v in (log_p, log_q))
    truth = sum(
        np.maximum(np.exp(two_p + p) - np.exp(3.0 + two_q + q), 0).sum()
        for p, q in zip(log_p, log_q, strict=True)
    )
    run = 3 * noise(a=rate, sensitivity=sensitivity)
    brackets(run.delta(3.0, method="contour", direction="remove"), truth, rtol=1e-5)


def test_extremum_between_nodes_of_equal_loss():
    """Symmetric nodes left and right of 0 hide the minimum there; by mpmath, to 9 digits."""
    normal, cauchy = "exp(-x**2/2)/sqrt(2*pi)", "1/(pi*(1+x**2))"
    bound = load(p=f"9/10*{cauchy}+1/10*{normal}", q=cauchy)().delta(0.05, direction="remove")
    assert abs(bound.upper - 3.260965082e-05) < 1e-13 and bound.lower <= bound.upper


def two_steps(p, q, weight, epsilon):
    """Delta of two steps from nodes: the hockey-stick sum of one, at eps - L of the other."""
    both = (p > 1e-290) & (q > 1e-290)
    revealed = float((p * weight)[q <= 1e-290].sum())
    mass, other = p[both] * weight[both], q[both] * weight[both]
    loss = np.log(mass) - np.log(other)
    order = np.argsort(loss)
    mass, other, loss = mass[order], other[order], loss[order]
    tails = [np.append(np.cumsum(v[::-1])[::-1], 0.0) for v in (mass, other)]
    left = epsilon - loss
    first = np.searchsorted(loss, left)
    once = np.clip(tails[0][first] - np.exp(left) * tails[1][first], 0.0, None)
    return revealed + float((mass * (revealed + once)).sum())


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("noise", "support", "values", "lowest", "formula"),
    [
        # the loss has no exponential moment: q vanishes like exp(-log(x)^2) at an end
        ("exp(-log(x)**2/(2*s**2))/(x*s*sqrt(2*pi))", ("0", "oo"), {"s": 1.0}, 0.0,
         lambda x: np.exp(-np.log(x) ** 2 / 2) / x / math.sqrt(2 * math.pi)),
        # the sign of a decides which tail is which, and 2 - erfc(u) is erfc(-u)
        ("exp(-x**2/2)*erfc(-a*x/sqrt(2))/sqrt(2*pi)", ("-oo", "oo"), {"a": 1.5}, -12.0,
         lambda x: np.exp(-x * x / 2) * erfc(-1.5 * x / math.sqrt(2)) / math.sqrt(2 * math.pi)),
        # a sum of three uniform variables, whose middle piece is concave and vanishes outside it
        ("where(abs(x) < w/2, 3/4 - (x/w)**2, where(abs(x) < 3*w/2, (3/2 - abs(x)/w)**2/2, 0))/w",
         ("-oo", "oo"), {"w": 4.0}, -6.0,
         lambda x: np.where(np.abs(x) < 2, 0.75 - x * x / 16, np.clip(1.5 - np.abs(x) / 4, 0, 3)**2
                            / 2) / 4),
    ],
)  # fmt: skip
def test_two_steps_with_uneven_tails(noise, support, values, lowest, formula):
    """Both directions, between bounds that once were 0 and 1."""
    domain = ["a >= -10"] if "a" in values else []
    event = load(noise=noise, support=support, parameters=domain)(**values)
    u, w = np.polynomial.legendre.leggauss(8)
    near = np.geomspace(1e-9, 60.0, 8001)
    edges = np.unique(np.concatenate([[lowest], lowest + near, 1.0 - near, 1.0 + near]))
    edges = edges[(edges >= lowest) & (edges <= 60.0)]
    half = 0.5 * np.diff(edges)[:, None]
    x = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * u).ravel()
    weight = (half * w).ravel()
    with np.errstate(all="ignore"):
        q = np.where(x > lowest, formula(x), 0.0)
        p = np.where(x - 1 > lowest, formula(x - 1), 0.0)
    for direction, a, b in (("remove", p, q), ("add", q, p)):
        truth = two_steps(a, b, weight, 0.4)
        bound = (2 * event).delta(0.4, direction=direction)
        assert bound.lower - 2e-5 <= truth <= bound.upper + 2e-5
        assert bound.upper - bound.lower <= 5e-6  # by a grid where the recursion gives up


def test_lattice_without_an_end():
    """Geometric laws, one step: P > e^eps Q on an upper set of integers."""
    event = load(
        p="(1-a)*a**n", q="(1-b)*b**n", variable="n", lattice=True, support=("0", "oo"),
        parameters=["0 < a < 1", "0 < b < 1"],
    )(a=0.6, b=0.5)  # fmt: skip
    first = math.ceil((0.5 + math.log(0.5 / 0.4)) / math.log(1.2))
    truth = 0.6**first - math.exp(0.5) * 0.5**first
    brackets(event.delta(0.5, direction="remove"), truth)


@pytest.mark.parametrize(("direction", "epsilon"), [("remove", 0.1), ("add", 1.0)])
def test_a_tail_in_which_one_density_vanishes_beside_the_other(direction, epsilon):
    """Normal against Cauchy: q = p e^(x^2/2) is lost in rounding long before q is spent.

    The densities cross at +-c only; delta is a difference of error functions and arc tangents.
    """
    pair = load(p="exp(-x**2/2)/sqrt(2*pi)", q="1/(pi*(1+x**2))")
    level = epsilon if direction == "remove" else -epsilon
    low, high = 1.0, 10.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        loss = 0.5 * math.log(math.pi / 2) + math.log1p(middle**2) - 0.5 * middle**2
        low, high = (middle, high) if loss > level else (low, middle)
    normal, cauchy = math.erf(low / math.sqrt(2)), 2 / math.pi * math.atan(low)
    truth = normal - math.exp(epsilon) * cauchy
    if direction == "add":
        truth = 1 - cauchy - math.exp(epsilon) * (1 - normal)
    brackets(pair().delta(epsilon, direction=direction), truth)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [pytest.param(0.3, marks=pytest.mark.slow), 1.0])
def test_two_gumbel_laws_of_different_widths(scale):
    """Limits of the loss depend on the scale; backwards it exceeds 1.5 outside an interval."""
    pair, epsilon, width = load(p="exp(-x/s-exp(-x/s))/s", q="exp(-x/w-exp(-x/w))/w"), 1.5, 2.5

    def excess(x):
        log_p = -x / scale - math.exp(-x / scale) - math.log(scale)
        return -x / width - math.exp(-x / width) - math.log(width) - log_p - epsilon

    ends = []
    for low, high in ((-5.0, 0.0), (60.0, 0.0)):
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        ends.append(low)
    p, q = (
        math.exp(-math.exp(-ends[0] / s)) - math.expm1(-math.exp(-ends[1] / s))
        for s in (scale, width)
    )
    brackets(pair(s=scale, w=width).delta(epsilon, direction="add"), q - math.exp(epsilon) * p)


def test_a_loss_in_which_double_exponentials_cancel():
    """Every exact form subtracts exp(2 - x) from itself: at -100 it gave 0 for -31.6."""
    pair = load(p="sech(x/2)/(2*pi)", q="(exp(2-x-exp(2-x)) + 1/(pi*(1+x**2)))/2")
    p, q = 1 / (2 * math.pi * math.cosh(50.0)), 1 / (2 * math.pi * (1 + 100.0**2))
    assert pair.kernel.loss(-100.0, np.empty(0)) == pytest.approx(math.log(p / q), rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_loss_with_waves_without_end(direction):
    """Nodes far out see waves of it only; limits do not exist, and delta is 0 beyond 2.1."""
    event = load(noise="exp(-abs(x))*(1+cos(4*x)/2)*17/35")()
    u, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(-45, 46, 91 * 256 + 1)
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * u
    p, q = (np.exp(-np.abs(y)) * (1 + np.cos(4 * y) / 2) * 17 / 35 for y in (x - 1, x))
    truth = float((np.clip(p - math.exp(0.3) * q, 0.0, None) * half * w).sum())
    bound = event.delta(0.3, direction=direction)
    assert bound.lower - 1e-6 <= truth <= bound.upper + 1e-6  # kinks where p = e^0.3 q
    assert bound.upper - bound.lower <= 1e-9 * truth
    assert event.log_delta(3.9, direction=direction).upper < -1000.0


@pytest.mark.few(0)
@pytest.mark.parametrize("epsilon", [2.0, 9.0, 17.0])
def test_a_density_singular_at_an_end_other_than_zero(epsilon):
    """No double lies close to 1 enough to see the last share (1e-16)^b of the mass."""
    b, c = 0.66, 1.4
    laws = load(
        p="b*(1-x)**(b-1)", q="c*(1-x)**(c-1)", support=("0", "1"), parameters=["b > 0", "c > 0"]
    )
    crossing = (c / b * math.exp(epsilon)) ** (1 / (b - c))  # in 1 - x
    truth = crossing**b - math.exp(epsilon) * crossing**c
    brackets(laws(b=b, c=c).delta(epsilon, direction="remove"), truth, rtol=0.08)


@pytest.mark.parametrize("epsilon", [700.0, 760.0, 767.0])
def test_mass_between_zero_and_the_smallest_doubles(epsilon):
    """Next to 1e-307 there is as much of x^0.65 below it as above."""
    a, b = 1.74, 0.65
    laws = load(p="a*x**(a-1)", q="b*x**(b-1)", support=("0", "1"), parameters=["a > 0", "b > 0"])
    log_crossing = (epsilon + math.log(a / b)) / (b - a)
    truth = b * log_crossing + math.log1p(-b / a)
    found = laws(a=a, b=b).log_delta(epsilon, direction="add")
    assert found.lower <= truth <= found.upper


@pytest.mark.parametrize("epsilon", [5.0, 116.82234439128158, 300.0])
def test_a_slow_loss_far_beyond_the_nodes(epsilon):
    """x - x^a + log(a): at 117 the crossing has e^-634 of Q, and at 0 the loss falls like log x."""
    a = 0.9743298173466215
    laws = load(p="exp(-x)", q="a*x**(a-1)*exp(-x**a)", support=("0", "oo"), parameters=["a > 0"])
    with mp.workdps(40):
        far = mp.findroot(
            lambda x: x - x**a + mp.log(a) + (a - 1) * mp.log(x) - epsilon, 8 * epsilon
        )
        truth = float(mp.log(mp.exp(-(far**a)) - mp.exp(epsilon - far)))
    found = laws(a=a).log_delta(epsilon, direction="add")
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-9


def test_grid_of_a_loss_that_doubles_do_not_have_at_an_end():
    """Inverse Gaussian laws: L = log(3/2)/2 - (x - 1)^2 / (4 x), nan at x = 0 itself."""
    event = load(
        p="sqrt(a/(2*pi*x**3))*exp(-a*(x-1)**2/(2*x))",
        q="sqrt(b/(2*pi*x**3))*exp(-b*(x-1)**2/(2*x))", support=("0", "oo"),
    )(a=1.5, b=1.0)  # fmt: skip
    far = 2.0 * (0.5 * math.log(1.5) - 0.1)
    ends = [1.0 + far + sign * math.sqrt(far * far + 2.0 * far) for sign in (-1.0, 1.0)]
    p, q = (np.diff(stats.invgauss.cdf(ends, 1.0 / k, scale=k))[0] for k in (1.5, 1.0))
    truth = p - math.exp(0.1) * q
    for method in ("pld", "direct"):
        bound = event.delta(0.1, method=method, direction="remove")
        assert bound.lower <= truth + 1e-14 and truth - 1e-14 <= bound.upper
        assert bound.upper - bound.lower < 1e-8


@pytest.mark.slow
def test_uniform_laws_smoothed_by_a_difference_of_logistic_functions():
    """P above the middle, less Q above it: the mass of the noise between the two halves."""
    made = load(noise="(1/(1+exp(-(x+h)/w)) - 1/(1+exp(-(x-h)/w)))/(2*h)")
    for w, h in ((2.0, 1.5), (0.3, 4.0)):
        below = w * (np.logaddexp(0, (0.5 + h) / w) - np.logaddexp(0, (0.5 - h) / w)) / (2 * h)
        brackets(made(w=w, h=h, sensitivity=1.0).delta(0.0), 2 * below - 1)
    assert made.kernel.BRANCHES == ("increasing on (-oo, oo)",)


@pytest.mark.slow
def test_powers_of_a_parabola_known_up_to_their_constant():
    """Beta noise: next to its ends x rounds, and P and Q and the loss must agree there."""
    made = load(noise="shape(max(w**2 - x**2, 0)**(g - 1/2))", support=("-w", "w"))
    truth = stats.beta(1.3, 1.3).cdf(0.5 + 1 / 1200) * 2 - 1
    brackets(made(w=300.0, g=0.8, sensitivity=1.0).delta(0.0), truth, 1e-8)


@pytest.mark.slow
def test_samples_of_mixtures_rise_and_fall_as_the_mixtures_do():
    """Beyond its largest loss, known in closed form, delta is nothing, which nodes cannot say."""
    made = load(noise="(exp(-abs(x-h)/w) + 2*exp(-abs(x)/w) + exp(-abs(x+h)/w))/(8*w)")
    event = mechc.poisson(made, 0.05)(h=3.0, w=20.0, sensitivity=1.0)
    top = -math.log1p(0.05 * math.expm1(-1 / 20))
    assert event.delta(top * 1.0001, direction="add").upper < 1e-15
    masses = [
        0.5 * math.exp(-2.5 / 20),
        1 - 0.5 * math.exp(-0.5 / 20),
        1 - 0.5 * math.exp(-3.5 / 20),
    ]
    below = (masses[0] + 2 * masses[1] + masses[2]) / 4
    brackets(event.delta(0.0, direction="add"), 0.05 * (2 * below - 1), 1e-6)


@pytest.mark.slow
@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("noise", "scale", "cdf", "reach", "width"),
    [
        ("(tanh((n+1/2)/(2*s)) - tanh((n-1/2)/(2*s)))/2", 0.7,
         lambda u: 1 / (1 + mp.exp(-u)), 25, 1e-9),
        ("(atan((n+1/2)/s) - atan((n-1/2)/s))/pi", 3.0,
         lambda u: mp.atan(u) / mp.pi, 2000, 1e-6),  # the direction of its loss is open
    ],
)  # fmt: skip
def test_noise_rounded_to_integers(noise, scale, cdf, reach, width):
    """One step and two; far from 0 the losses are nothing, or constant."""
    event = load(noise=noise, variable="n", lattice=True)(s=scale)
    with mp.workdps(40):
        ends = [cdf(mp.mpf(2 * n - 1) / 2 / scale) for n in range(-reach, reach + 3)]
        mass = np.diff(np.array(ends))
        p, q = mass[:-1], mass[1:]
        loss = np.array([float(mp.log(a / b)) for a, b in zip(p, q, strict=True)])
    p, q = p.astype(float), q.astype(float)

    def delta(epsilon):
        return float(np.clip(p - math.exp(epsilon) * q, 0.0, None).sum())

    two = sum(share * delta(0.4 - x) for share, x in zip(p, loss, strict=True))
    two += (1.0 - p.sum()) * delta(0.4)
    for direction in ("remove", "add"):
        brackets(event.delta(0.25, direction=direction), delta(0.25), width)
        bound = (2 * event).delta(0.4, direction=direction)
        assert bound.lower <= two + 1e-6 and two - 1e-6 <= bound.upper <= bound.lower + 3e-6
        assert ("estimated" in bound.status) == ("atan" in noise)  # losses far out are looked at


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("p", "w"),
    [("w*2*exp(-2*x) + (1 - w)/2*exp(-x/2)", 1), ("(1 - w)*2*exp(-2*x) + w/2*exp(-x/2)", 0)],
)
def test_a_weight_of_zero_takes_its_tail_away(p, w):
    """P = 2 exp(-2x) there, against exp(-x), apart by 1/4; exp(tL) of the reverse: t < 1."""
    pair = load(p=p, q="exp(-x)", support=("0", "oo"), parameters=["0 <= w <= 1"])(w=w)
    for direction in ("remove", "add"):
        brackets(pair.delta(0.0, direction=direction), 0.25)
    brackets(pair.renyi(1.5, direction="add"), 2 * math.log(2 / math.sqrt(2)))
    with pytest.raises(UnsupportedError, match="finite only for t < 1"):
        pair.renyi(2.1, direction="add")


@pytest.mark.slow
def test_losses_beside_the_end_of_a_region():
    """Slash noise: (x - s)^2 loses all digits at s where it is multiplied out."""
    event = load(noise="(1-exp(-(x/a)**2))/(2*sqrt(pi)*a*(x/a)**2)")(a=4.0)

    def log_density(x):
        return mp.log(-mp.expm1(-((x / 4) ** 2))) - 2 * mp.log(abs(x))

    kernel, theta = event.mechanism.kernel, np.array(event.theta)
    with mp.workdps(50):
        for beside in (1e-9, 1e-5, 1e-2):
            for x in (1.0 + beside, 1.0 - beside, -beside, beside):
                truth = log_density(mp.mpf(x) - 1) - log_density(mp.mpf(x))
                assert abs(kernel.loss(x, theta) - truth) <= 1e-14 * (1 + abs(truth))
    assert math.isfinite(event.epsilon(1e-6).upper)


@pytest.mark.parametrize("scale", [3.6464282336348477, 8.535363874597433])
def test_orders_next_to_one_of_heavy_tails(scale):
    """Next to the tilt -1 the deviation from the chord cancels to rounding, never resolved."""
    event = mechc.load("cauchy")(scale=scale)
    truth = math.log1p(1.0 / (4.0 * scale**2))  # Kullback-Leibler divergence of Cauchy laws
    for direction in ("add", "remove"):
        found = event.renyi(1.0 + 1e-6, direction=direction)
        assert truth * (1.0 - 1e-12) <= found.upper and found.lower <= truth * (1.0 + 1.1e-6)


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("epsilon", [pytest.param(1e-4, marks=pytest.mark.slow), 0.1, 5.0])
def test_rare_samples_of_integers_whose_tilts_end(epsilon):
    """Negative binomial laws: the saddle is next to the end of the strip, where no list ends."""
    n = integer("n")
    made = {
        k: gamma(n + r) / (gamma(r) * factorial(n)) * s**r * (1 - s) ** n
        for k, r, s in (("p", Rational(19, 10), Rational(7, 10)),
                        ("q", Rational(26, 10), Rational(17, 20)))
    }  # fmt: skip
    pair = mechanism("samples", variable=n, support=(0, oo), lattice=True, **made)
    event = mechc.poisson(mechc.load(pair), sampling_rate=1e-4)()
    x = np.arange(600)
    log_p, log_q = (stats.nbinom.logpmf(x, r, s) for r, s in ((1.9, 0.7), (2.6, 0.85)))
    mixed = np.logaddexp(np.log1p(-1e-4) + log_q, np.log(1e-4) + log_p)
    loss = mixed - log_q
    total, weight = loss[:, None] + loss, np.exp(mixed[:, None] + mixed)
    above = total > epsilon
    truth = -(weight[above] * np.expm1(epsilon - total[above])).sum()
    brackets((2 * event).delta(epsilon, direction="remove"), truth, 1e-7)
    thirty = (30 * event).delta(epsilon, direction="remove")
    # more steps reveal no less
    assert truth <= thirty.upper <= 1.0 and thirty.lower > 0.4 * thirty.upper


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("count", "epsilon", "most"), [(1, 0.5, 1e-90), (2, 0.5, 1e-300), (2, 20.0, 1e-300)]
)
def test_beyond_losses_of_integers_whose_order_no_proof_tells(count, epsilon, most):
    """Negative binomial noise of size 3: p / q = n / (0.8 (n + 2)) < 1 / 0.8 at every integer."""
    n = integer("n")
    size, ratio = positive("size"), parameter("ratio", lo=0, hi=1)
    mass = gamma(n + size) / (gamma(size) * factorial(n)) * (1 - ratio) ** size * ratio**n
    noise = mechc.load(additive(
        "noise", variable=n, sensitivity=1, parameters=(size, ratio), lattice=True,
        noise=Piecewise((mass, n >= 0), (0, True)),
    ))  # fmt: skip
    found = (count * noise(size=3.0, ratio=0.8)).delta(epsilon, direction="remove")
    assert count * math.log(1 / 0.8) < epsilon and found.lower == 0.0 and found.upper < most
