"""Declarations as people write them, against sums over fine nodes and convolutions of them."""

import math
import time
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import special
from sympy import (
    Abs,
    And,
    Piecewise,
    Rational,
    Sum,
    Symbol,
    atan,
    besseli,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    gamma,
    log,
    loggamma,
    oo,
    pi,
    sin,
    sqrt,
    tanh,
)  # fmt: skip

import mechc
from mechc.declare import additive, count, integer, mechanism, positive, rate, real, shape

x, n, k = real("x"), integer("n"), Symbol("k", integer=True)
d, m = positive("sensitivity", default=1), count("sensitivity", default=1)
a, b, s, v = (positive(name, typical=(0.5, 3)) for name in "absv")
w, u = rate("w", typical=(0.1, 0.4)), rate("u", typical=(0.1, 0.4))


def noise(density, *parameters, **options):
    return additive("natural", noise=density, variable=x, sensitivity=d,
                    parameters=(*parameters, d), **options)  # fmt: skip


def whole(density, *parameters, **options):
    return additive("natural", noise=density, variable=n, sensitivity=m, lattice=True,
                    parameters=(*parameters, m), **options)  # fmt: skip


def pair(p, q, *parameters, **options):
    return mechanism("natural", variable=x, p=p, q=q, parameters=parameters, **options)


def smoothed(y):
    return exp(s**2 / (2 * b**2) + y / b) * erfc((s**2 / b + y) / (sqrt(2) * s)) / (4 * b)


def smoothed_number(y):
    return np.exp(0.5 + y + special.log_ndtr(-(1 + y))) / 2


def selected(y, first):
    """Probability proportional to exp(a) for y at most `first`, and to one beyond."""
    weight = Piecewise((exp(a), y <= first), (1, True))
    return weight / Sum(weight.subs(n, k), (k, 1, m + 9))


def sigmoid(y):
    return 1 / (1 + exp(-y / s))


CORE = sqrt(2 * pi * a * b) * erf(sqrt(a / (2 * b))) + 2 * b * exp(-a / (2 * b))
# a declaration, its parameters, densities of P and Q as numbers, ends of pieces, point masses
CASES = {
    "trapezoid": (
        noise(Piecewise((1, Abs(x) < a), ((a + b - Abs(x)) / b, Abs(x) < a + b), (0, True))
              / (2 * a + b), a, b), {"a": 2.0, "b": 3.0, "sensitivity": 0.7},
        0.7, lambda y: np.clip((5 - abs(y)) / 3, 0, 1) / 7, (-5, -2, 2, 5), ()),
    "parabola within tails": (
        noise(Piecewise((exp(-(x**2) / (2 * a * b)), Abs(x) < a),
                        (exp(a / (2 * b) - Abs(x) / b), True)) / CORE, a, b), {"a": 1.5, "b": 0.8},
        1.0, lambda y: np.where(abs(y) < 1.5, np.exp(-y * y / 2.4),
                                np.exp(0.75 / 0.8 - abs(y) / 0.8)), (-60, -1.5, 1.5, 60), ()),
    "skew triangle": (
        noise(Piecewise((2 * (x + a) / (a * (a + b)), And(x > -a, x <= 0)),
                        (2 * (b - x) / (b * (a + b)), And(x > 0, x < b)), (0, True)), a, b),
        {"a": 1.0, "b": 4.0, "sensitivity": 0.5},
        0.5, lambda y: np.clip(np.minimum(y + 1, 1 - y / 4), 0, None) / 2.5, (-1, 0, 4), ()),
    "between two parameters": (
        pair(6 * (x - a) * (b - x) / (b - a) ** 3, 1 / (b - a), a, b, support=(a, b)),
        {"a": 1.0, "b": 2.0},
        lambda y: 6 * (y - 1) * (2 - y), lambda y: np.ones(y.size), (1, 1.5, 2), ()),
    "shape over a quartic": (
        noise(shape(exp(-Abs(x) / b) / (1 + (x / a) ** 4)), a, b), {"a": 2.0, "b": 3.0},
        1.0, lambda y: np.exp(-abs(y) / 3) / (1 + (y / 2) ** 4), (-99, -3, 0, 3, 99), ()),
    "shapes of ripples": (
        pair(shape(exp(-x / a) * (2 + cos(x))), shape(exp(-x / a) * (2 + sin(x))), a,
             support=(0, oo)), {"a": 1.7}, lambda y: np.exp(-y / 1.7) * (2 + np.cos(y)),
        lambda y: np.exp(-y / 1.7) * (2 + np.sin(y)), (0, 10, 20, 30, 40, 80), ()),
    "Yule": (
        whole(a * gamma(n + 1) * gamma(a + 1) / gamma(n + a + 2), a, support=(0, oo)),
        {"a": 6.5, "sensitivity": 2}, 2,
        lambda y: np.where(y >= 0, np.exp(special.betaln(np.maximum(y, 0) + 1, 7.5)), 0),
        range(10**5), ()),
    "hyperbolic on integers": (
        whole(shape(exp(-sqrt(a**2 + b * n**2))), a, b), {"a": 2.0, "b": 0.3},
        1, lambda y: np.exp(-np.sqrt(4 + 0.3 * y**2)), range(-300, 302), ()),
    "Gumbel noise rounded to integers": (
        whole(exp(-exp(-(n + Rational(1, 2)) / s)) - exp(-exp(-(n - Rational(1, 2)) / s)), s),
        {"s": 2.0},
        1, lambda y: np.where(y > -16, np.exp(-np.exp(-(y + 0.5) / 2))
                              - np.exp(-np.exp(-(y - 0.5) / 2)), 0), range(-12, 90), ()),
    "Weibull noise rounded down": (
        whole(exp(-((n / s) ** a)) - exp(-(((n + 1) / s) ** a)), s, a, support=(0, oo)),
        {"s": 5.0, "a": 0.9}, 1, lambda y: np.where(
            y >= 0, np.exp(-(np.maximum(y, 0) / 5) ** 0.9)
            * -np.expm1((np.maximum(y, 0) / 5) ** 0.9 - (np.maximum(y + 1, 0) / 5) ** 0.9), 0),
        range(3000), ()),
    "selection of one of the first m": (
        mechanism("natural", variable=n, lattice=True, support=(1, m + 9), parameters=(a, m),
                  p=selected(n, m), q=selected(n - 1, m)), {"a": 1.5, "sensitivity": 4},
        lambda y: np.where(y <= 4, np.exp(1.5), 1), lambda y: np.where(y <= 5, np.exp(1.5), 1),
        range(1, 14), ()),
    "clipped logistic": (
        pair(exp(-(x - d) / s) * sigmoid(x - d) ** 2 / s, exp(-x / s) * sigmoid(x) ** 2 / s, a, s,
             d, support=(-a, a), atoms=[(-a, sigmoid(-a - d), sigmoid(-a)),
                                        (a, 1 - sigmoid(a - d), 1 - sigmoid(a))]),
        {"a": 2.0, "s": 1.2}, lambda y: special.expit((y - 1) / 1.2) * special.expit((1 - y) / 1.2)
        / 1.2, lambda y: special.expit(y / 1.2) * special.expit(-y / 1.2) / 1.2, (-2, 0, 1, 2),
        [(special.expit(-3 / 1.2), special.expit(-2 / 1.2)),
         (special.expit(-1 / 1.2), special.expit(-2 / 1.2))]),
    "hurdle": (
        pair((1 - w) * (exp(-x / a) / a / 3 + 2 * x * exp(-x / a) / a**2 / 3),
             (1 - u) * exp(-x / b) / b, w, u, a, b, support=(0, oo), atoms=[(0, w, u)]),
        {"w": 0.2, "u": 0.3, "a": 1.0, "b": 1.5},
        lambda y: 0.8 * np.exp(-y) * (1 + 2 * y) / 3, lambda y: 0.7 * np.exp(-y / 1.5) / 1.5,
        (0, 1, 5, 20, 80), [(0.2, 0.3)]),
    "normal-Laplace": (
        noise(smoothed(x) + smoothed(-x), s, b), {"s": 1.0, "b": 1.0},
        1.0, lambda y: smoothed_number(y) + smoothed_number(-y), (-40, -5, 0, 6, 40), ()),
    "Rice": (
        pair(x / s**2 * exp(-(x**2 + v**2) / (2 * s**2)) * besseli(0, x * v / s**2),
             x / s**2 * exp(-(x**2) / (2 * s**2)), v, s, support=(0, oo)), {"v": 1.0, "s": 1.3},
        lambda y: y * np.exp(-((y - 1) ** 2) / 3.38) * special.ive(0, y / 1.69) / 1.69,
        lambda y: y * np.exp(-(y**2) / 3.38) / 1.69, (0, 1, 3, 8, 20), ()),
}  # fmt: skip


def masses(p, q, ends, points):
    """Masses of both laws at nodes, scaled to one but for point masses."""
    if not callable(p):
        move, density = p, q
        p, ends = lambda y: density(y - move), ends or ()
        ends = ends if isinstance(ends, range) else sorted({*ends, *(e + move for e in ends)})
    if isinstance(ends, range):
        nodes, weight = np.array(ends, float), 1.0
    else:
        cuts = np.concatenate([np.linspace(lo, hi, 2000)[:-1] for lo, hi in pairwise(ends)])
        cuts = np.append(cuts, ends[-1])
        t, share = np.polynomial.legendre.leggauss(16)
        half = np.diff(cuts)[:, None] / 2
        nodes, weight = (cuts[:-1, None] + half * (1 + t)).ravel(), (half * share).ravel()
    rest = np.ones(2) - np.sum(np.array(points).reshape(-1, 2), axis=0)
    laws = [law(nodes) * weight for law in (p, q)]
    laws = [law / law.sum() * share for law, share in zip(laws, rest, strict=True)]
    return [np.append(law, [row[i] for row in points]) for i, law in enumerate(laws)]


def between(p, q, epsilon, steps, mesh=4e-4):
    """Bounds on delta, by losses rounded down and up."""
    seen, both = p[q == 0].sum(), (p > 0) & (q > 0)
    loss, found = np.log(p[both] / q[both]), []
    for rounded in (np.floor, np.ceil):
        cell = np.clip(rounded(loss / mesh), -60 / mesh, 60 / mesh).astype(int)
        one = np.bincount(cell - cell.min(), p[both])
        size = steps * one.size
        many = np.fft.irfft(np.fft.rfft(one, 2 * size) ** steps, 2 * size)[:size]
        total = (np.arange(size) + steps * cell.min()) * mesh
        gain = -np.expm1(np.minimum(epsilon - total, 0.0))
        found.append(1 - (1 - seen) ** steps + float(np.maximum(many, 0.0) @ gain))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_natural_declaration(name):
    made, values, *laws = CASES[name]
    p, q = masses(*laws)
    event = mechc.load(made)(**values)
    for direction, (one, other) in (("remove", (p, q)), ("add", (q, p))):
        for steps, epsilon in ((1, 0.3), (1, 1.0), (2, 0.3), (2, 1.0), (30, 1.0), (30, 4.0)):
            answer = (steps * event).delta(epsilon, direction=direction)
            least, most = between(one, other, epsilon, steps)
            assert answer.lower <= most + 1e-9 and answer.upper >= least - 1e-9
            assert answer.upper - answer.lower <= 1e-6


def rounded(x, mass, spread, count=600):
    """A law on means of cells, or, spread, on their ends: convex means of sums are bounds."""
    order = np.argsort(x, kind="stable")
    x, mass = x[order], mass[order]
    share = np.cumsum(mass / mass.sum() + mass * x / (mass @ x))
    start = np.flatnonzero(np.diff(np.floor(0.5 * count * share * (1 - 1e-9)), prepend=-1.0))
    whole, moment = (np.add.reduceat(each, start) for each in (mass, mass * x))
    if not spread:
        return moment / whole, whole
    lo, hi = x[start], x[np.append(start[1:], x.size) - 1]
    up = np.where(hi > lo, (moment - lo * whole) / np.maximum(hi - lo, 1e-300), 0.0)
    return np.append(lo, hi), np.append(whole - up, up)


def allocated(p, q, epsilon, steps):
    """Bounds on delta of removing and of adding a record in one of so many steps."""
    both, c = q > 0, math.exp(epsilon)
    one, found = (p[both] / q[both], q[both]), []
    for spread in (False, True):
        x, mass = one
        for _ in range(steps - 1):
            parts = [rounded(*law, spread) for law in ((x, mass), one)]
            x, mass = np.add.outer(parts[0][0], parts[1][0]), np.outer(parts[0][1], parts[1][1])
            x, mass = x.ravel(), mass.ravel()
        w = x / steps
        remove = p[~both].sum() + mass @ np.maximum(w - c, 0.0)
        found.append((remove, mass @ np.maximum(1.0 - c * w, 0.0)))
    return zip(*found, strict=True)


@pytest.mark.slow
def test_ripples_far_out():
    """A loss that turns in every period: all of its crossings at once, against a sum over nodes."""
    made = noise((1 + w * cos(x / b)) * exp(-Abs(x) / b) / (b * (2 + w)), w, b)
    event = mechc.load(made)(w=0.5, b=2.0)
    p, q = masses(1.0, lambda y: (1 + 0.5 * np.cos(y / 2)) * np.exp(-abs(y) / 2), (-80, 0, 80), ())
    event.delta(0.3)
    start = time.process_time()
    for epsilon in (0.1, 0.5, 0.7):
        answer = event.delta(epsilon, direction="remove")
        exact = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
        assert answer.lower - 1e-8 <= exact <= answer.upper + 1e-8  # it has kinks in its panels
        assert answer.upper - answer.lower <= 1e-9
    found = event.epsilon(1e-5)
    assert found.upper - found.lower < 1e-9
    assert time.process_time() - start < 8.0  # 0.5 s by itself, where each crossing alone took 20


def test_a_hyperbolic_cosine_beside_an_angle_below_pi():
    """cosh(y) + cos(t) is positive: no moment is cut off, and compositions are answered."""
    t = pi * u
    made = noise(sin(t) / (2 * t * a * (cosh(x / a) + cos(t))), u, a)
    event = mechc.load(made)(u=0.3, a=0.7)
    top = np.pi * 0.3
    law = masses(1.0, lambda y: 1 / (np.cosh(y / 0.7) + np.cos(top)), (-40, -3, 0, 4, 40), ())
    for steps, epsilon in ((1, 1.0), (30, 8.0)):
        answer = (steps * event).delta(epsilon, direction="remove")
        least, most = between(*law, epsilon, steps)
        assert answer.lower <= most + 1e-9 and answer.upper >= least - 1e-9
        assert answer.upper - answer.lower <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_random_allocation_of_natural_declarations(name):
    made, values, *laws = CASES[name]
    p, q = masses(*laws)
    for steps, epsilon in ((2, 0.3), (3, 0.1), (4, 0.3)):
        epoch = mechc.random_allocation(mechc.load(made)(**values), steps=steps)
        ends = allocated(p, q, epsilon, steps)
        for direction, (least, most) in zip(("remove", "add"), ends, strict=True):
            answer = epoch.delta(epsilon, direction=direction)
            assert most - least < 1e-3
            assert answer.lower <= most + 1e-9 and answer.upper >= least - 1e-9
            assert (
                answer.upper - answer.lower <= 1e-3
            )  # most of ripples, whose ratio has many turns


SAMPLED = {
    "uniform and logistic": (
        noise((1 / (1 + exp(-(x + a) / s)) - 1 / (1 + exp(-(x - a) / s))) / (2 * a), a, s),
        {"a": 2.0, "s": 0.7},
        lambda y: special.expit((y + 2) / 0.7) * special.expit((2 - y) / 0.7), (-35, -2, 0, 3, 36)),
    "a roof with tails": (  # that are gone at the end of a domain
        noise(shape(Piecewise((1 - w * Abs(x) / a, Abs(x) < a),
                              ((1 - w) * exp(a - Abs(x)), True))), a, w),
        {"a": 3.0, "w": 0.5}, lambda y: np.where(abs(y) < 3, 1 - abs(y) / 6,
                                                 np.exp(3 - abs(y)) / 2), (-40, -3, 0, 3, 41)),
    "uniform and hyperbolic secant": (
        noise((atan(tanh((x + a) / (2 * s))) - atan(tanh((x - a) / (2 * s)))) / (pi * a), a, s),
        {"a": 2.0, "s": 1.5}, lambda y: np.arctan(np.sinh(2 / 1.5) / np.cosh(y / 1.5)),
        (-60, -2, 0, 3, 61)),
    "bump": (
        noise(shape(exp(-1 / (1 - (x / a) ** 2))), a, support=(-a, a)), {"a": 3.0},
        lambda y: np.where(abs(y) < 3, np.exp(-9 / np.maximum(9 - y * y, 1e-9)), 0), (-3, 3)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_noise(name):
    """Terms of shifted noise that cancel; rounding that passes the end of shifted noise."""
    made, values, density, ends = SAMPLED[name]
    p, q = masses(1.0, density, ends, ())
    p = 0.05 * p + 0.95 * q
    event = mechc.poisson(mechc.load(made), sampling_rate=0.05)(**values)
    for direction, (one, other) in (("remove", (p, q)), ("add", (q, p))):
        for steps, epsilon in ((1, 0.01), (30, 0.3)):
            answer = (steps * event).delta(epsilon, direction=direction)
            least, most = between(one, other, epsilon, steps)
            assert answer.lower <= most + 1e-9 and answer.upper >= least - 1e-9
            assert answer.upper - answer.lower <= 1e-6


def test_mirrored_poles():
    """Mass within an ulp of one, where the density of one of the laws has its larger pole."""
    law = x ** (w - 1) * (1 - x) ** (-w) / (gamma(w) * gamma(1 - w))
    event = mechc.load(pair(law, law.subs(x, 1 - x), w, support=(0, 1)))(w=0.4)
    last = special.expit(-5 * 0.3)
    delta = special.betainc(0.4, 0.6, last) - math.exp(0.3) * special.betainc(0.6, 0.4, last)
    for direction in ("remove", "add"):
        answer = event.delta(0.3, direction=direction)
        assert answer.lower * (1 - 1e-12) <= delta <= answer.upper * (1 + 1e-12)
        assert answer.upper - answer.lower <= 1e-4


@pytest.mark.slow
def test_weights_that_are_sums():
    """A tail of a Poisson law of rate e^8, whose first terms are no doubles; powers of a rate."""
    f, g = (exp(-((x - c) ** 2) / 2) / sqrt(2 * pi) for c in (1, 0))
    gaussian = mechc.load("gaussian")(sigma=1.0).delta(0.5)
    tail = Sum(exp(-exp(a) + k * a - loggamma(k + 1)), (k, 3, 9000))
    for size in (7.6, 8.0):
        found = mechc.load(pair(tail * f + (1 - tail) * g, g, a))(a=size).delta(0.5)
        assert found.lower == pytest.approx(gaussian.lower, rel=1e-10)
        assert found.upper == pytest.approx(gaussian.upper, rel=1e-10)
    rest = (1 - w) ** m
    kept = mechc.load(pair((1 - rest) * f + rest * g, g, w, m))(w=0.2, sensitivity=3)
    sampled = mechc.poisson(mechc.load("gaussian"), sampling_rate=1 - 0.8**3)(sigma=1.0)
    assert kept.delta(0.1).upper == pytest.approx(sampled.delta(0.1).upper, rel=1e-12)
    share = log(1 + a) / (1 + log(1 + a))
    halves = mechc.load(pair(share * f + (1 - share) * g, g / 2 + f / 2, a))(a=math.e - 1)
    assert halves.delta(0.0).upper <= 1e-13


def test_outcomes_with_squares():
    """A ratio that SymPy turns round, -1/(w - 1), has a real log all the same."""
    made = mechanism(
        "squares", outcomes=[(1 - w, (1 - w) ** 2), (w, 2 * w - w**2)], parameters=(w,)
    )
    found = mechc.load(made)(w=0.3).delta(Rational(1, 10))
    assert found.upper == pytest.approx(0.51 - math.exp(0.1) * 0.3, rel=1e-12)


def require_one_step(event, p, q, epsilon):
    """One step in both directions, against sums over the same masses."""
    for direction, (one, other) in (("remove", (p, q)), ("add", (q, p))):
        answer = event.delta(epsilon, direction=direction)
        truth = np.maximum(one - math.exp(epsilon) * other, 0.0).sum()
        assert answer.lower - 1e-9 <= truth <= answer.upper + 1e-9
        assert answer.upper - answer.lower <= 1e-9


@pytest.mark.few(0)
@pytest.mark.parametrize("power", [lambda y: 1 + y**2, Abs])
def test_powers_times_exponentials_on_integers(power):
    """What grows before it falls: past a list, and with no mass at 0."""
    event = mechc.load(whole(shape(power(n) * exp(-b * Abs(n))), b))(b=0.7)
    y = np.arange(-200, 202)
    f = [float(power(Abs(k))) * math.exp(-0.7 * abs(k)) for k in (*y, 202)]
    q = np.array(f[1:]) / sum(f)
    require_one_step(event, np.array(f[:-1]) / sum(f), q, 0.1)
    assert (30 * event).epsilon(1e-6).upper < math.inf or power is Abs


def test_quartic_noise_on_integers_composes():
    """Where both log masses overflow the loss does as well: no list of integers was long enough."""
    event = mechc.load(whole(shape(exp(-((n / s) ** 4))), s))(s=6.0)
    y = np.arange(-40, 42)
    f = np.exp(-((y / 6.0) ** 4))
    p, q = np.append(0.0, f[:-1]) / f.sum(), f / f.sum()
    pairs = np.outer(p, p), np.outer(q, q)
    truth = np.maximum(pairs[0] - math.exp(0.5) * pairs[1], 0.0).sum()
    found = (2 * event).delta(0.5, direction="remove")
    assert found.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= found.upper
    assert found.upper - found.lower < 1e-9


def test_negative_binomial_noise_is_monotone_by_its_steps():
    """L(n + 1) - L(n) has the sign of a - 1: up to its limit for a > 1, a constant for a = 1."""
    density = gamma(n + a) / (gamma(a) * gamma(n + 1)) * w**a * (1 - w) ** n
    made = mechc.load(whole(density, a, w, support=(0, oo)))
    ends = {a: made(a=a, w=0.2).loss().support for a in (0.5, 1.0, 2.5)}
    top = math.log(1 / 0.8)
    assert ends[2.5] == pytest.approx((math.log(1 / 2.5 / 0.8), top), rel=1e-12)
    assert ends[0.5] == pytest.approx((top, math.log(1 / 0.5 / 0.8)), rel=1e-12)
    assert ends[1.0] == pytest.approx((top, top), rel=1e-12)
    assert (2 * made(a=2.5, w=0.2)).delta(2.001 * top, direction="remove").upper == 0.0


def test_differences_of_exponentials_that_grow():
    """The larger of two Laplace variables; the sum of two exponential ones, on a sample."""
    larger = Piecewise((exp(2 * x / b) / 2, x < 0), (exp(-x / b) - exp(-2 * x / b) / 2, True)) / b
    event = mechc.load(noise(larger, b))(b=1.3)
    y = np.linspace(-40, 80, 2_400_001)
    y, width = y[:-1] / 2 + y[1:] / 2, y[1] - y[0]

    def density(y):
        with np.errstate(over="ignore"):
            falls = np.exp(-y / 1.3) - np.exp(-2 * y / 1.3) / 2
            return np.where(y < 0, np.exp(2 * np.minimum(y, 0) / 1.3) / 2, falls) / 1.3 * width

    require_one_step(event, density(y - 1), density(y), 0.4)
    two = mechc.load(noise((exp(-x / (2 * b)) - exp(-x / b)) / b, b, support=(0, oo)))

    def both(y):
        y = np.maximum(y, 0)
        return np.exp(-y / 2) * -np.expm1(-y / 2) * width

    p, q = both(y - 1), both(y)
    require_one_step(mechc.poisson(two, 0.3)(b=1.0), 0.3 * p + 0.7 * q, q, 0.1)


def test_next_to_a_smooth_top_of_the_loss():
    """Student's law beside a Cauchy law: powers whose slope vanishes at 0 are not cut for ever."""
    event = mechc.load(pair(2 / (pi * (1 + x**2) ** 2), b / (pi * (b**2 + x**2)), b))(b=1.0)
    for gap in (1e-3, 1e-9):
        level = math.log(2) - gap  # p/q = 2/(1 + x^2) is above it for |x| < c
        c = math.sqrt(math.expm1(gap))
        first = (c / (1 + c * c) + math.atan(c)) / math.pi
        truth = first - math.exp(level) * math.atan(c) / math.pi
        found = event.delta(level, direction="remove")
        assert found.lower * (1 - 1e-5) <= 2 * truth <= found.upper * (1 + 1e-5)


def test_mixtures_of_one_law_with_two_others():
    """Their loss is small with the weight, and keeps its digits."""
    f, g, h = (exp(-((x - c) ** 2) / 2) / sqrt(2 * pi) for c in (1, -1, 0))
    kernel = mechc.load(pair(w * f + (1 - w) * h, w * g + (1 - w) * h, w)).kernel
    for rate_ in (1e-9, 0.3):
        for at in (-2.0, 0.3, 5.0):
            up, down = (mpmath.exp(side * mpmath.mpf(at) - 0.5) for side in (1, -1))
            truth = mpmath.log1p(rate_ * (up - 1)) - mpmath.log1p(rate_ * (down - 1))
            assert kernel.loss(at, np.array([rate_])) == pytest.approx(float(truth), rel=1e-13)


def test_distribution_functions_of_waves():
    kernel = mechc.load(pair((1 + w * cos(x)) / (2 * pi), (1 + u * sin(2 * x)) / (2 * pi), w, u,
                             support=(-pi, pi))).kernel  # fmt: skip
    theta, at = np.array([0.3, 0.2]), -1.2
    above = (math.pi + 1.2) / (2 * math.pi)
    waves = 0.3 * math.sin(at), 0.1 * (1 - math.cos(2 * at))
    for sf, wave in zip((kernel.sf_p, kernel.sf_q), waves, strict=True):
        assert sf(at, theta) == pytest.approx(above - wave / (2 * math.pi), rel=1e-13)
