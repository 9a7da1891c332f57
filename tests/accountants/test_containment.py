"""Random compositions: the truth lies inside, the estimate too, and the interval is narrow.

Truths are contour integrals in ball arithmetic (`integrals.contour`, checked on a second
contour) or closed sums; the default run takes a fixed-seed sample, `-m slow` several hundred.
"""

import math
import random

import pytest

import mechc
from mechc.accountants.bound import below
from mechc.errors import InternalError

pairs = pytest.importorskip("pairs")
integrals = pytest.importorskip("integrals")
truth = pytest.importorskip("truth")


def check(bound, exact, width=1e-7):
    slack = 2e-15 * max(1.0, abs(exact))  # the truth itself is rounded to float64
    assert bound.lower - slack <= exact <= bound.upper + slack
    assert bound.lower <= bound.estimate <= bound.upper
    assert bound.upper - bound.lower <= width


def sampled_gaussian(seed):
    """A random run, both parameters and epsilon over their whole ranges."""
    draw = random.Random(seed)
    sigma, rate = draw.uniform(0.6, 6.0), 10 ** draw.uniform(-4.0, -0.3)
    count = int(10 ** draw.uniform(1.7, 9.0))
    # epsilon in standard deviations of the loss, from negative to far out
    spread = rate / sigma * math.sqrt(count) * max(1.0, 0.5 / sigma)
    epsilon = draw.uniform(-1.0, 6.0) * min(spread + 0.1, 400.0)
    return sigma, rate, count, epsilon, draw.choice(["remove", "add"])


def run_sampled_gaussian(seed):
    sigma, rate, count, epsilon, direction = sampled_gaussian(seed)
    pair = pairs.gaussian(sigma).sampled(rate)
    pair = pair.reversed() if direction == "add" else pair
    epsilon = abs(epsilon)
    event = mechc.poisson(mechc.load("gaussian"))(sigma=sigma, sampling_rate=rate)
    bound = (count * event).log_delta(epsilon, direction=direction)
    if direction == "add" and epsilon >= -count * math.log1p(-rate):
        assert bound.upper == -math.inf
        return
    try:
        exact = integrals.contour([(pair, count)], epsilon)
    except AssertionError as error:
        pytest.skip(f"no independent value: {error}")
    check(bound, exact, 1e-6)


@pytest.mark.few(0)
@pytest.mark.parametrize("seed", range(4))
def test_sampled_gaussian(seed):
    run_sampled_gaussian(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_sampled_gaussian_many(seed):
    run_sampled_gaussian(seed)


@pytest.mark.parametrize("seed", range(60))
def test_plain_gaussian(seed):
    draw = random.Random(seed)
    mu, count = 10 ** draw.uniform(-3.0, 1.0), int(10 ** draw.uniform(0.0, 6.0))
    total = mu * math.sqrt(count)
    epsilon = 0.5 * total**2 + total * draw.uniform(-5.0, 25.0)
    exact = truth.gaussian(truth.ball(count).sqrt() / truth.ball(1.0 / mu), epsilon)
    bound = (count * mechc.load("gaussian")(sigma=1.0 / mu)).log_delta(epsilon)
    check(bound, exact, 1e-7 * max(1.0, abs(exact)))


@pytest.mark.parametrize("seed", range(10))
def test_laplace_and_logistic(seed):
    draw = random.Random(seed)
    scale, count = draw.uniform(1.0, 8.0), draw.randint(6, 14)
    width = 1 / truth.ball(scale)
    epsilon = count / scale * draw.uniform(-0.2, 0.9)
    exact = truth.half_tilted_uniform(count, width, 1 / (4 * (width / 2).sinh()), 0, 0, epsilon)
    check((count * mechc.load("logistic")(scale=scale)).log_delta(epsilon), exact, 1e-4)
    exact = truth.half_tilted_uniform(
        count, width, (-width / 2).exp() / 4, truth.ball(0.5), (-width).exp() / 2, epsilon
    )
    check((count * mechc.load("laplace")(scale=scale)).log_delta(epsilon), exact, 1e-2)


SMOOTH = [
    ("student_t", (3.0, 1.0), 1.0, 100, 3.0), ("cauchy", (1.0,), 1.0, 50, 3.0),
    ("hyperbolic_secant", (1.0,), 1.0, 50, 3.0), ("gaussian_scale", (1.0, 1.2), 1.0, 50, 3.0),
    ("gaussian_scale", (1.2, 1.0), 1.0, 50, 3.0), ("subbotin", (3.0, 2.0), 0.3, 100, 2.0),
]  # fmt: skip


def run_smooth(name, theta, rate, count, epsilon, direction):
    mechanism = mechc.load(name)
    names = [p.name for p in mechanism.parameters if p.name != "sensitivity"]
    how = dict(zip(names, theta, strict=True))
    pair = pairs.PAIRS[name](*theta)
    if rate < 1.0:
        mechanism, pair = mechc.poisson(mechanism), pair.sampled(rate)
        how["sampling_rate"] = rate
    pair = pair.reversed() if direction == "add" else pair
    bound = (count * mechanism(**how)).log_delta(epsilon, direction=direction)
    check(bound, integrals.contour([(pair, count)], epsilon, digits=16))


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("name", "theta", "rate", "count", "epsilon"), SMOOTH)
def test_other_densities(name, theta, rate, count, epsilon, direction):
    run_smooth(name, theta, rate, count, epsilon, direction)


def test_different_steps():
    one, two = pairs.gaussian(1.5).sampled(0.05), pairs.gaussian(20.0)
    run = 400 * mechc.poisson(mechc.load("gaussian"))(sigma=1.5, sampling_rate=0.05)
    run = run + 30 * mechc.load("gaussian")(sigma=20.0)
    exact = integrals.contour([(one, 400), (two, 30)], 4.0)
    check(run.log_delta(4.0, direction="remove"), exact, 1e-9)


def test_bounds_that_contradict_each_other_are_no_answer():
    assert below(-40.0, -40.0 - 1e-12, "pld") == -40.0 - 1e-12  # by rounding
    assert below(-math.inf, -40.0, "pld") == -math.inf
    with pytest.raises(InternalError, match=r"at least -29\.6 and at most -30\.2.*no answer"):
        below(-29.6, -30.2, "pld")
