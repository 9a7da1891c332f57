"""Two steps by a nested integral."""

import math

import pytest

import mechc
from mechc.loss.nested import log_hockey_stick_pair

truth = pytest.importorskip("truth")


@pytest.mark.parametrize("epsilon", [-1.0, 0.3, 5.0, 40.0])
def test_two_different_gaussians(epsilon):
    one, two = (mechc.load("gaussian")(sigma=s).loss() for s in (1.0, 1.7))
    mu = math.hypot(1.0, 1 / 1.7)
    tilt = max(1.0, 2.0 * epsilon / mu**2)
    value, error = log_hockey_stick_pair(one, two, epsilon, tilt)
    assert abs(value - truth.gaussian(mu, epsilon)) <= error + 1e-15 * abs(value)
    assert error < 1e-10


@pytest.mark.parametrize("epsilon", [-0.7, 0.0, 0.6, 0.99])
def test_two_laplace_steps(epsilon):
    law = mechc.load("laplace")(scale=2.0).loss()
    value, error = log_hockey_stick_pair(law, law, epsilon, 10.0)
    width = truth.ball(0.5)
    exact = truth.half_tilted_uniform(
        2, width, (-width / 2).exp() / 4, truth.ball(0.5), (-width).exp() / 2, epsilon
    )
    assert abs(value - exact) <= error
    assert error < 1e-10
