"""What is not computed because it cannot matter, and the transform that the rest is made of."""

import math

import numpy as np
import pytest

import mechc
from mechc.accountants.contour import ContourAccountant, Covered
from mechc.accountants.contours.characteristic import log_phi


@pytest.mark.parametrize(("nodes", "h"), [(30, 0.2), (700, 3.0)])
def test_transform_over_several_blocks(nodes, h):
    """Against sums of exponentials in extended precision; the recurrence starts afresh at 1025."""
    rng = np.random.default_rng(1)
    loss = rng.standard_gamma(2.0, nodes) * 0.02
    loss -= loss.mean()
    weight = np.full(nodes, 1.0 / nodes)
    count = 1500
    re, im = np.empty(count), np.empty(count)
    log_phi(np.array([0, nodes]), np.ones(1), loss, weight, h, 1, count + 1, re, im)
    n = np.array([1, 2, 31, 32, 33, 64, 65, 1024, 1025, 1026, 1500])
    theta = np.asarray(h * loss, np.longdouble)[:, None] * n
    x, y = -2 * np.sin(theta / 2) ** 2, np.sin(theta) - theta
    x, y = (v.sum(axis=0) / nodes for v in (x, y))
    assert np.abs(re[n - 1] - np.log(np.hypot(1 + x, y))).max() < 1e-12
    assert np.abs(im[n - 1] - np.arctan2(y, 1 + x)).max() < 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 3.0, 300.0])
def test_delta_next_to_one(epsilon):
    """Gaussian noise of total mu = 40: 1 - delta is below 1e-20, and the interval says so."""
    event = mechc.load("gaussian")(sigma=2.5)
    bound = (10_000 * event).log_delta(epsilon)
    assert -1e-13 < bound.lower < bound.upper == 0.0


@pytest.mark.parametrize("name", ["gaussian", "laplace", "gumbel"])
@pytest.mark.parametrize("count", [40, 3000])
def test_a_direction_left_out_is_the_smaller_one(name, count):
    values = {"sigma": 2.0} if name == "gaussian" else {"scale": 2.0}
    run = count * mechc.poisson(mechc.load(name))(sampling_rate=0.02, **values)
    for epsilon in (0.05, 0.4, 2.0):
        both = run.log_delta(epsilon)
        each = [run.log_delta(epsilon, direction=d) for d in ("remove", "add")]
        assert both.upper >= max(b.lower for b in each)
        assert both.lower <= max(b.upper for b in each)


@pytest.mark.parametrize("direction", ["remove", "add"])  # in one, losses are bounded: Bennett
def test_chernoff_and_bennett_do_not_promise_what_is_false(direction):
    """at_most holds for the truth at levels around it, on both sides."""
    event = mechc.poisson(mechc.load("gaussian"))(sampling_rate=0.02, sigma=1.5)
    steps = (500 * event).evaluation("contour", direction).steps[direction]
    truth = (500 * event).log_delta(1.0, direction=direction, method="contour")
    for gap in (-3.0, -1.0, -0.1, 0.5, 3.0, 10.0):
        promised = ContourAccountant(steps).at_most(1.0, truth.estimate + gap)
        assert not promised or gap > 0.0
    assert ContourAccountant(steps).at_most(1.0, truth.estimate + 10.0)
    assert not ContourAccountant(steps).at_most(1.0, math.nan)


@pytest.mark.parametrize("name", ["laplace", "gumbel", "logistic"])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_bennett_against_the_answer(name, direction):
    """A bound on delta, and where the sum is nearly normal no worse than two nats."""
    event = mechc.poisson(mechc.load(name))(sampling_rate=0.02, scale=2.0)
    for count, epsilon in ((1000, 0.2), (1000, 2.0), (60, 0.3)):
        steps = (count * event).evaluation("contour", direction).steps[direction]
        truth = (count * event).log_delta(epsilon, direction=direction, method="contour")
        bound = Covered(steps)._bennett(epsilon)
        assert bound > truth.lower
        assert bound < truth.upper + 2.0 or truth.upper < -10.0
