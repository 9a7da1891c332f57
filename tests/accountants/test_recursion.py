"""Few steps by recursion in the hockey-stick function, against closed forms and other methods."""

import math

import numpy as np
import pytest

import mechc
from mechc.accountants.direct import DirectAccountant
from mechc.accountants.recursion import epsilons as repeated_epsilons
from mechc.loss.privacy_loss import Step

truth = pytest.importorskip("truth")

RANDOM = np.random.default_rng(7)


def answer(steps, epsilon):
    return DirectAccountant(steps).log_delta(epsilon)


@pytest.mark.parametrize("count", [3, 4, 11, 60])
@pytest.mark.parametrize("depth", [-0.5, 0.3, 4.0, 36.0])
def test_gaussian_steps_are_one_gaussian(count, depth):
    sigma = float(RANDOM.uniform(0.5, 8.0))
    mu = math.sqrt(count) / sigma
    epsilon = mu * mu / 2 + depth * mu
    exact = truth.gaussian(mu, epsilon)
    bound = answer([Step(mechc.load("gaussian")(sigma=sigma).loss(), count)], epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-8
    assert abs(bound.estimate - exact) < 1e-10


@pytest.mark.parametrize("epsilon", [-1.0, 0.4, 9.0, 70.0])
def test_different_gaussians(epsilon):
    sigmas, counts = [0.9, 2.3, 5.1], [1, 3, 5]
    mu = math.sqrt(sum(k / s**2 for s, k in zip(sigmas, counts, strict=True)))
    gaussian = mechc.load("gaussian")
    steps = [Step(gaussian(sigma=s).loss(), k) for s, k in zip(sigmas, counts, strict=True)]
    bound, exact = answer(steps, epsilon), truth.gaussian(mu, epsilon)
    assert bound.lower <= exact <= bound.upper
    assert abs(bound.estimate - exact) < 1e-10


@pytest.mark.parametrize("count", [3, 5, 9])
@pytest.mark.parametrize("share", [-0.2, 0.0, 0.35, 0.8])
def test_laplace_and_logistic_steps(count, share):
    width = truth.ball(0.5)
    up, down = truth.ball(0.5), (-width).exp() / 2
    epsilon = share * 0.5 * count
    laplace = truth.half_tilted_uniform(count, width, (-width / 2).exp() / 4, up, down, epsilon)
    one = 1 / (4 * (width / 2).sinh())
    logistic = truth.half_tilted_uniform(count, width, one, 0, 0, epsilon)
    for name, exact in (("laplace", laplace), ("logistic", logistic)):
        bound = answer([Step(mechc.load(name)(scale=2.0).loss(), count)], epsilon)
        assert bound.lower <= exact <= bound.upper
        assert bound.upper - bound.lower < 1e-8
        assert abs(bound.estimate - exact) < 1e-10


SLOWLY_DECAYING = [
    ("cauchy", {"scale": 2.0}, 3, 0.4),
    ("student_t", {"nu": 3.0, "scale": 0.7}, 4, 1.5),
    ("gaussian_scale", {"sp": 1.0, "sq": 1.3}, 3, 0.5),
    ("gaussian_scale", {"sp": 1.3, "sq": 1.0}, 3, 2.0),
]


@pytest.mark.few(2, 3)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("name", "theta", "count", "epsilon"), SLOWLY_DECAYING)
def test_overlaps_the_discretised_bounds(name, theta, count, epsilon, direction):
    law = mechc.load(name)(**theta).loss(direction)
    if count * law.support[1] <= epsilon:
        epsilon = 0.4 * law.support[1] * count
    bound = answer([Step(law, count)], epsilon)
    other = (count * mechc.load(name)(**theta)).log_delta(
        epsilon, direction=direction, method="pld"
    )
    assert max(bound.lower, other.lower) <= min(bound.upper, other.upper)
    assert bound.upper - bound.lower < 1e-8


@pytest.mark.few(1, 3)
@pytest.mark.parametrize("seed", range(6))
def test_overlaps_the_contour(seed):
    rng = np.random.default_rng(seed)
    rate, sigma = float(10 ** rng.uniform(-2, -0.3)), float(rng.uniform(0.8, 3.0))
    count, direction = int(rng.integers(20, 60)), ["remove", "add"][seed % 2]
    event = mechc.poisson(mechc.load("gaussian"))(sigma=sigma, sampling_rate=rate)
    run = count * event
    epsilon = run.epsilon(delta=10 ** rng.uniform(-12, -2), method="saddlepoint:msd1").estimate
    bound = answer([Step(event.loss(direction), count)], epsilon)
    other = run.log_delta(epsilon, direction=direction, method="contour")
    assert max(bound.lower, other.lower) <= min(bound.upper, other.upper)
    assert bound.upper == -math.inf or bound.upper - bound.lower < 1e-7


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_mass_at_infinity(direction):
    """Three steps of exponential noise: remove is pure, add is infinite unless all x > 1."""
    law = mechc.load("exponential")(scale=1.0).loss(direction)
    bound = answer([Step(law, 3)], 0.5)
    exact = math.log(-math.expm1(0.5 - 3.0)) if direction == "remove" else math.log(-math.expm1(-3))
    assert bound.lower - 1e-13 <= exact <= bound.upper + 1e-13


def test_every_number_of_repetitions_from_one_recursion():
    loss, counts = mechc.load("gaussian")(sigma=2.0).loss(), np.arange(1.0, 13.0)
    targets = np.log(np.geomspace(1e-3, 1e-7, counts.size)) + np.array([[-1e-15], [1e-15]])
    lower, estimate, upper = repeated_epsilons(Step(loss, 1), counts, targets, 9.0, 1e-7)
    rows = zip(counts, lower, estimate, upper, targets[0], strict=True)
    for n, low, middle, high, target in rows:
        assert low < middle < high and high - low < 1e-7
        mu = math.sqrt(n) / 2.0
        assert truth.gaussian(mu, high) < target < truth.gaussian(mu, low)


@pytest.mark.parametrize("repeated", [1, 2])
def test_curve_over_few_repetitions(repeated):
    counts, log_delta, scale = [1, 2, 3, 4, 6], math.log(1e-3), 2.0
    event = mechc.load("laplace")(scale=scale)
    answer = (repeated * event).epsilon_curve(math.exp(log_delta), counts)
    width, up = truth.ball(0.5), truth.ball(0.5)
    down = (-width).exp() / 2
    for n, lower, upper in zip(counts[1:], answer.lower[1:], answer.upper[1:], strict=True):
        sides = [
            truth.half_tilted_uniform(n * repeated, width, (-width / 2).exp() / 4, up, down, e)
            for e in (float(lower), float(upper))
        ]
        assert sides[0] >= log_delta - 1e-13 and sides[1] <= log_delta + 1e-13
        assert upper - lower < 1e-8
