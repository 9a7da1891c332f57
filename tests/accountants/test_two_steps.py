"""Two steps by the recursion, against closed forms and one integral over a closed form."""

import math

import pytest

import mechc
from mechc.accountants.direct import DirectAccountant
from mechc.loss.privacy_loss import Step

truth = pytest.importorskip("truth")


@pytest.mark.parametrize("epsilon", [0.3, 5.0, 40.0])
def test_two_different_gaussians(epsilon):
    steps = [Step(mechc.load("gaussian")(sigma=s).loss(), 1) for s in (1.0, 1.7)]
    bound = DirectAccountant(steps).log_delta(epsilon)
    exact = truth.gaussian(math.hypot(1.0, 1 / 1.7), epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 0.6, 0.99])
def test_two_laplace_steps(epsilon):
    law = mechc.load("laplace")(scale=2.0).loss()
    bound = DirectAccountant([Step(law, 2)]).log_delta(epsilon)
    width = truth.ball(0.5)
    exact = truth.half_tilted_uniform(
        2, width, (-width / 2).exp() / 4, truth.ball(0.5), (-width).exp() / 2, epsilon
    )
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-9
