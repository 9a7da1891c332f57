"""Curves over counts of a density between two atoms, against exact mixtures and single answers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import truth
from flint import arb

import mechc
from mechc.accountants import bounded_losses
from mechc.loss.privacy_loss import Step


@pytest.mark.few(0)
@pytest.mark.parametrize("scale, log_delta", [(2.0, -9.0), (30.0, -25.0)])
def test_laplace_repetitions_bracket_sums_in_ball_arithmetic(scale, log_delta):
    curve = mechc.load("laplace")(scale=scale).epsilon_curve(math.exp(log_delta), range(1, 18))
    w = arb(1) / arb(scale)
    for n in (2, 6, 17):

        def log_delta_at(epsilon, n=n):
            args = (w, (-w / 2).exp() / 4, arb(1) / 2, (-w).exp() / 2, float(epsilon))
            return truth.half_tilted_uniform(n, *args)

        assert log_delta_at(curve.upper[n - 1]) <= log_delta <= log_delta_at(curve.lower[n - 1])
        assert curve.upper[n - 1] - curve.lower[n - 1] < 1e-7 * curve.upper[n - 1]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "scale, rate, delta, most",
    [(40.0, None, 1e-9, 1000), (5.0, 0.05, 1e-5, 300)],
)
def test_curve_agrees_with_single_answers(scale, rate, delta, most):
    mechanism = mechc.load("laplace")
    mechanism = mechanism if rate is None else mechc.poisson(mechanism, sampling_rate=rate)
    event = mechanism(scale=scale)
    curve = event.epsilon_curve(delta, range(1, most + 1))
    assert len(curve.detail["one_by_one"]) < 10
    assert (curve.lower <= curve.upper).all() and (np.diff(curve.upper) > 0).all()
    assert (curve.upper - curve.lower <= 1e-6 * curve.upper).all()
    for n in (1, 20, most):
        single = (n * event).epsilon(delta)
        assert curve.lower[n - 1] <= single.upper and single.lower <= curve.upper[n - 1]


def test_errors_of_masses_count_at_every_step():
    """Masses that are off by a share each move delta after n steps by n of these."""
    law, log_delta, off = mechc.load("laplace")(scale=2.0).loss(), -6.0, 1e-5
    counts, target = np.array([5.0, 12.0]), np.full((2, 2), log_delta)

    def found(law, target):
        return bounded_losses.epsilons(Step(law, 1), counts, target, 2e-4)

    lower, _, upper = found(replace(law, tolerance=off), target)
    smaller, larger = (found(law, target + sign * off * counts)[1] for sign in (-1.0, 1.0))
    assert (lower <= larger).all() and (smaller <= upper).all()
    assert (upper - lower < 3.0 * (smaller - larger)).all()


def test_truncated_noise_keeps_its_mass_at_infinity():
    event = mechc.load("truncated_laplace")(scale=10.0, halfwidth=300.0)
    curve = event.epsilon_curve(1e-6, range(1, 301))
    for n in (1, 30, 300):
        single = (n * event).epsilon(1e-6)
        assert curve.lower[n - 1] <= single.upper and single.lower <= curve.upper[n - 1]


def test_epsilon_is_zero_where_delta_is_large():
    event = mechc.poisson(mechc.load("laplace"))(scale=40.0, sampling_rate=0.01)
    curve = event.epsilon_curve(0.01, range(1, 101))
    # but for what composed losses of point masses may be off
    assert curve.upper.max() < 1e-15 and curve.detail["one_by_one"] == []


def test_no_epsilon_does_where_the_mass_at_infinity_is_larger():
    event = mechc.load("truncated_laplace")(scale=10.0, halfwidth=100.0)
    curve = event.epsilon_curve(1e-4, range(1, 101))
    assert curve.detail["one_by_one"] == []
    infinite = [math.isinf((n * event).epsilon(1e-4).upper) for n in range(1, 101, 9)]
    assert np.isinf(curve.upper[::9]).tolist() == infinite and 0 < sum(infinite) < 12
