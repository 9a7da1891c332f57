"""Schedules of many noises: against closed forms, one setting repeated, and a peer's mesh."""

import math

import mpmath
import numpy as np
import pytest
from test_pld import gaussian_truth

import mechc
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.convolution import Composition, Sum
from mechc.loss.privacy_loss import Step, distinct

GAUSSIAN = mechc.load("gaussian")


def schedule(sigmas, count, sampling_rate=None):
    mechanism = GAUSSIAN
    if sampling_rate is not None:
        mechanism = mechc.poisson(GAUSSIAN, sampling_rate=sampling_rate)
    steps = [count * mechanism(sigma=float(sigma)) for sigma in sigmas]
    return sum(steps[1:], steps[0])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 6.0])
def test_many_gaussians_are_one(epsilon):
    sigmas = np.linspace(4.0, 9.0, 11)
    mu = mpmath.sqrt(sum(3 / mpmath.mpf(float(s)) ** 2 for s in sigmas))
    truth = gaussian_truth(mu, epsilon)
    bound = schedule(sigmas, 3).log_delta(epsilon, method="pld")
    assert bound.lower <= truth <= bound.upper
    assert bound.width < 2e-3 * (1.0 - truth)


@pytest.mark.few(2, 3)
@pytest.mark.parametrize("rate, delta", [(1e-5, 1e-12), (1e-4, 1e-5), (1e-4, 1e-10), (1e-3, 1e-8)])
def test_nearly_equal_settings_are_one_setting(rate, delta):
    """The settings of a schedule are between those of two runs with one setting each."""
    spread = 1.0 + 1e-9 * np.arange(12)
    least, most = (
        mechc.poisson(GAUSSIAN, sampling_rate=rate)(sigma=float(s)) * 480 for s in spread[[-1, 0]]
    )
    bound = schedule(spread, 40, rate).epsilon(delta, method="pld")
    assert bound.lower <= most.epsilon(delta).upper
    assert bound.upper >= least.epsilon(delta).lower
    assert bound.upper - bound.lower < 1e-2 * bound.upper


@pytest.mark.parametrize("rate, delta", [
    (1e-4, 1e-10), (1e-2, 1e-12),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in ((1e-5, 1e-8), (1e-3, 1e-5))),
])  # fmt: skip
def test_noise_schedules_are_answered(rate, delta):
    run = schedule(np.linspace(0.8, 2.0, 20), 50, rate)
    bound = run.epsilon(delta)
    assert bound.status == "proven"
    assert 0.0 < bound.lower <= bound.upper < 1.01 * bound.lower
    again = run.epsilon(delta, method="pld")
    assert again.lower <= bound.upper and bound.lower <= again.upper


@pytest.mark.slow
def test_a_schedule_lies_within_a_peers_mesh():
    peer = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    sigmas, count, rate, delta = np.linspace(0.8, 2.0, 9), 4, 1e-3, 1e-7
    sides = []
    for pessimistic in (False, True):
        total = None
        for sigma in sigmas:
            law = peer.from_gaussian_mechanism(
                float(sigma), sampling_prob=rate, value_discretization_interval=2e-4,
                use_connect_dots=pessimistic, pessimistic_estimate=pessimistic,
            ).self_compose(count)  # fmt: skip
            total = law if total is None else total.compose(law)
        sides.append(total.get_epsilon_for_delta(delta))
    bound = schedule(sigmas, count, rate).epsilon(delta, method="pld")
    assert sides[0] <= bound.upper and bound.lower <= sides[1]


@pytest.mark.few(0)
@pytest.mark.parametrize("rate", [None, 1e-3])
def test_bounds_hold_far_from_where_the_mesh_is_for(rate):
    """Sums above the mesh count by their masses: wide, but on the right side."""
    run = schedule(np.linspace(1.5, 2.5, 9), 5, rate)
    laws, counts = distinct(run.steps("remove"))
    made = Composition(ComposedLoss(run.steps("remove")), laws, counts, 0.5)
    for epsilon in (0.05, 0.4, 0.7, 2.0):
        bound, other = made.bound(epsilon), run.log_delta(epsilon, direction="remove")
        assert bound.lower <= other.upper and other.lower <= bound.upper
    assert math.isfinite(made.bound(2.0).upper)


def test_far_sums_are_above_their_floor_whatever_is_added():
    """All pairs of two laws, the far part of one of which begins below its mesh."""
    one = Sum(0.0, 1.0, 4, np.array([0.6]), 0.4, 0.4 * math.exp(3.0), -3.0, 0.0, 0.0, 0.0)
    other = Sum(0.0, 1.0, 2, np.array([0.7]), 0.3, 0.3 * math.exp(-5.0), 5.0, 0.0, 0.0, 0.0)
    least = min(-3.0 + 2.0, -3.0 + 5.0, 4.0 + 5.0)
    assert (one * other).floor <= least and (other * one).floor <= least


def test_ends_of_very_many_steps_are_as_uncertain_as_all_of_them():
    """An ulp of 1 a step is far more than a thousandth of their sum here."""
    count = 10**13
    composed = ComposedLoss([Step(mechc.load("laplace")(scale=1e13).loss(), count)])
    assert composed.settled(1.005, "any") is None and composed.settled(1.1, "any") is not None
    assert composed.settled(-1.005, "any") is None
