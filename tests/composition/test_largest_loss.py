"""One step next to its largest finite loss, where the loss is a rounded number, in 600 bits."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import questions
import sympy
from mpmath import mp, mpf
from scipy.special import gammaincc

import mechc
from mechc.composition.queries.evaluation import Evaluation
from mechc.declare import mechanism, positive, real


def sampled_gaussian(rate, sigma, epsilon):
    """N(0) below c minus exp(epsilon) times the mixture, where the loss is epsilon at c."""
    left = mp.expm1(-epsilon) + rate
    if left <= 0:
        return mpf(0)
    c = sigma**2 * mp.log(left / rate) + mpf(1) / 2
    below, shifted = (mp.erfc((m - c) / sigma / mp.sqrt(2)) / 2 for m in (0, 1))
    return below - mp.exp(epsilon) * ((1 - rate) * below + rate * shifted)


def logistic(scale, epsilon):
    root = mp.exp((epsilon - 1 / scale) / 2)
    if root >= 1:
        return mpf(0)
    u = (1 - root) / (root * mp.exp(1 / scale) - 1)  # exp(-x/scale) where the loss is epsilon
    return 1 - 1 / (1 + u * mp.exp(1 / scale)) - mp.exp(epsilon) * (1 - 1 / (1 + u))


def laplace(scale, epsilon):
    return max(mpf(0), -mp.expm1((epsilon - 1 / scale) / 2))


def gumbel(scale, epsilon):
    if epsilon >= 1 / scale:
        return mpf(0)
    u = (1 / scale - epsilon) / mp.expm1(1 / scale)
    return -mp.expm1(-u * mp.exp(1 / scale)) + mp.exp(epsilon) * mp.expm1(-u)


ADDITIVE = {"logistic": logistic, "laplace": laplace, "gumbel": gumbel}


def near(top):
    """The double next to the largest loss, its neighbours, and places further below."""
    found = [top * (1 - gap) for gap in (1e-13, 1e-10, 1e-8)]
    for _ in range(3):
        found += [math.nextafter(top, math.inf), top, math.nextafter(top, 0.0)]
        top = math.nextafter(top, 0.0)
    return sorted({*found})


def contains(event, direction, truth, top):
    for epsilon in near(top):
        found = event.log_delta(epsilon, direction=direction)
        exact = truth(mpf(epsilon))
        exact = mp.log(exact) if exact > 0 else -mp.inf
        assert found.lower <= exact <= found.upper, (event, epsilon)


@pytest.mark.parametrize("count", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_sampled_gaussian(count):
    rng, sampled = np.random.default_rng(count), mechc.poisson(mechc.load("gaussian"))
    cases = [(0.25, 0.1), (0.5, 0.3), (0.9999860190111683, 0.05)]
    cases += zip(10 ** rng.uniform(-4, 0, count), rng.uniform(0.05, 1.5, count), strict=True)
    with mp.workprec(600):
        for rate, sigma in cases:
            event = sampled(sampling_rate=float(rate), sigma=float(sigma))
            exact = partial(sampled_gaussian, mpf(rate), mpf(sigma))
            contains(event, "add", exact, -math.log1p(-rate))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("count", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_additive_noise(name, count):
    scales = [0.3549113319173981, 0.7, 1.0, *np.random.default_rng(count).uniform(0.1, 3, count)]
    with mp.workprec(600):
        for scale in map(float, scales):
            event = mechc.load(name)(scale=scale)
            exact = partial(ADDITIVE[name], mpf(scale))
            contains(event, "remove", exact, 1 / scale)


def test_epsilon_of_tiny_deltas_lies_above_the_truth():
    rate, sigma = 0.1533674426058335, 1.629040090929903
    event = mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma)
    with mp.workprec(600):
        for target in (-1897.444363642591, -1200.3, -60.1):
            upper = event.epsilon(log_delta=target, direction="add").upper
            exact = sampled_gaussian(mpf(rate), mpf(sigma), mpf(upper))
            assert exact == 0 or mp.log(exact) <= target


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_a_largest_loss_that_is_a_parameter_is_not_rounded(epsilon):
    assert mechc.load("pure_dp")(epsilon=epsilon).delta(epsilon).upper == 0.0


@pytest.mark.slow
def test_a_largest_loss_that_is_taken_inside():
    """There the loss is flat, and its last digits decide which outputs are above epsilon."""
    x, s, t = real("x"), positive("s"), positive("t")
    pair = mechanism(
        "gaussian_against_cauchy", variable=x, parameters=(s, t),
        p=sympy.exp(-(x**2) / (2 * s**2)) / (sympy.sqrt(2 * sympy.pi) * s),
        q=1 / (sympy.pi * t * (1 + (x / t) ** 2)),
    )  # fmt: skip
    sigma, width = 0.7194738382929207, 0.9762535199566797
    event = mechc.load(pair)(s=sigma, t=width)
    with mp.workdps(60):
        a, b = mpf(sigma), mpf(width)

        def log_p(x):
            return -(x**2) / (2 * a**2) - mp.log(mp.sqrt(2 * mp.pi) * a)

        def loss(x):
            return log_p(x) + mp.log(mp.pi * b * (1 + (x / b) ** 2))

        top = mp.sqrt(2 * a**2 - b**2)
        for digits in (16, 15, 14, 12, 10):
            epsilon = float(loss(top)) - (10.0**-digits if digits < 16 else 0.0)
            gap = loss(top) - mpf(epsilon)
            reach = mp.sqrt(2 * gap / abs(mp.diff(loss, top, 2))) if gap > 0 else mpf(0)
            ends = [
                mp.findroot(lambda x, e=epsilon: loss(x) - e, top + r) if reach else top
                for r in (-reach, reach)
            ]

            def payoff(x, e=epsilon):
                return -mp.exp(log_p(x)) * mp.expm1(e - loss(x))

            exact = 2 * mp.quad(payoff, [ends[0], top, ends[1]])
            found = event.delta(epsilon, direction="remove")
            assert found.lower <= exact <= found.upper < 1e-6 * 10.0 ** (16 - digits), digits


@pytest.mark.slow
@pytest.mark.parametrize("ulps", [0, 2, 60, 2**30])
def test_integers_beyond_the_list_count_where_the_loss_has_no_known_limit(ulps):
    """Sampled negative binomials: the loss goes on to grow where masses are below e^-430."""
    values = {"a": 1.1963820489217614, "b": 0.5369020599965204, "zero": 0.1930355225739586}
    values |= {"other": 0.18264619263218762, "sampling_rate": 1.0820456403801502e-10}
    mechanism = questions.load("negative_binomials", "poisson")
    event = mechanism(**values)
    epsilon = mechanism.kernel.loss(256.0, np.array(event.theta))
    epsilon -= ulps * math.ulp(epsilon)
    least, most = questions.by_hand("negative_binomials", values, "poisson").log_delta(epsilon, 1)
    answer = event.log_delta(epsilon, direction="remove")
    assert answer.lower <= most and least <= answer.upper < -400.0


@pytest.mark.slow
@pytest.mark.parametrize(("gap", "width"), [(1e-3, 0.01), (2.4e-10, 24.0)])
def test_a_loss_of_tiny_range_that_loses_its_digits_far_out(gap, width):
    """Hyperbolic secant noise sampled at 2e-18 under replacement: losses end at 1.3e-8.

    At 1e10 they are off by 1e-5 of that, and pass levels that they reach at 3.
    """
    scale, move, rate = 0.14, 2.0, 2.4e-18
    run = mechc.poisson(mechc.load("hyperbolic_secant"), adjacency="replace")(
        scale=scale, sensitivity=move, sampling_rate=rate
    )
    with mp.workdps(50):
        s, d, r = mpf(scale), mpf(move), mpf(rate)
        far = mp.pi * d / (2 * s)
        top = mp.log((1 - r + r * mp.exp(far)) / (1 - r + r * mp.exp(-far)))
        epsilon = float(top * (1 - mpf(gap)))

        def mixed(f, x, shift):
            return (1 - r) * f(x) + r * f(x - shift)

        def density(x):
            return mp.sech(mp.pi * x / (2 * s))

        def beyond(x):
            return 2 / mp.pi * mp.atan(mp.exp(-mp.pi * x / (2 * s)))

        def over(x):
            return mp.log(mixed(density, x, d) / mixed(density, x, -d)) - epsilon

        cut = mp.findroot(over, (1, 12), solver="bisect", maxsteps=160, verify=False)
        delta = mixed(beyond, cut, d) - mp.exp(mpf(epsilon)) * mixed(beyond, cut, -d)
        truth = float(mp.log(delta))
    for direction in ("remove", "add"):
        found = run.log_delta(epsilon, direction=direction)
        assert found.lower <= truth <= found.upper < truth + width


def test_a_loss_that_happens_to_be_a_parameter_is_rounded(laplace):
    """sensitivity / scale is the scale itself in doubles, and larger in truth."""
    tried = 0
    for square in range(2, 40):
        near = math.sqrt(square)
        for scale in (near, math.nextafter(near, 0.0), math.nextafter(near, 9.0)):
            truth = Fraction(square) / Fraction(scale)
            if square / scale == scale and truth > scale:
                found = laplace(scale=scale, sensitivity=float(square)).epsilon(0.0)
                assert found.lower <= truth <= found.upper
                tried += 1
    assert tried > 3


def test_the_smaller_of_two_largest_losses_may_be_rounded_more(monkeypatch):
    tops = {"remove": (1.0, 0.0), "add": (1.0 - 2.0**-52, 2.0**-49)}
    monkeypatch.setattr(Evaluation, "largest_loss_in", lambda self, direction: tops[direction])
    evaluation = Evaluation({"remove": (), "add": ()}, "auto", 1e-9)
    assert evaluation.largest_loss() == (1.0, 2.0**-49 - 2.0**-52)
    assert evaluation.largest_loss("remove") == (1.0, 0.0)
    tops["add"] = math.inf, 0.0
    assert evaluation.largest_loss() == (math.inf, 0.0)


@pytest.mark.parametrize(("a", "t", "rate"), [(1.0, 1.8, 0.03), (2.0, 1.0, 0.1)])
def test_a_largest_loss_where_both_densities_vanish(a, t, rate):
    """Logs of them are as large as doubles go next to 0; nothing that is likely lies there."""
    x, shape, rates = real("x"), positive("a"), (positive("s"), positive("t"))
    p, q = (s**shape * x ** (-shape - 1) * sympy.exp(-s / x) / sympy.gamma(shape) for s in rates)
    laws = mechanism(
        "reciprocals", variable=x, parameters=(*rates, shape), support=(0, sympy.oo), p=p, q=q
    )
    event = mechc.poisson(mechc.load(laws), rate)(s=2.0, t=t, a=a)
    for share in (0.4, 0.7, 0.98):
        epsilon = -share * math.log1p(-rate)
        level = (math.exp(-epsilon) - 1.0 + rate) / rate  # of p/q, below which q exceeds the sample
        end = (2.0 - t) / math.log((2.0 / t) ** a / level)
        below, above = (float(gammaincc(a, s / end)) for s in (2.0, t))
        truth = above - math.exp(epsilon) * (rate * below + (1.0 - rate) * above)
        found = event.delta(epsilon, direction="add")
        assert found.lower * (1 - 1e-12) <= truth <= found.upper * (1 + 1e-12)
        assert found.upper - found.lower <= 1e-7


def test_a_local_top_four_ulps_above_epsilon_beside_losses_without_end():
    """Q is Laplace and P normal: losses have a top at 0, onto which the inverse is rounded."""
    values, epsilon = {"s": 2.5529568050416764, "t": 0.45961224435147235}, 1.9404156635073186
    truth = questions.by_hand("gaussian_laplace", values, "plain").reversed().one_step(epsilon)
    found = questions.load("gaussian_laplace")(**values).log_delta(epsilon, direction="add")
    assert found.lower <= truth[0] and truth[1] <= found.upper < truth[1] + 5.0
