"""Masses of integer noise carry the rounding of the factorials they are made of."""

import mpmath
import numpy as np
import pytest

import mechc
from mechc.loss import atoms
from mechc.loss.atoms import LossesFrom
from mechc.loss.privacy_loss import PrivacyLoss


@pytest.mark.parametrize("trials", [20, 200, 2000])
@pytest.mark.parametrize("count", [1, 2])
def test_binomial_noise_is_inside_however_many_trials(trials, count):
    move, epsilon = 3, mpmath.mpf("0.3")
    with mpmath.workdps(40):
        mass = [mpmath.binomial(trials, k) / mpmath.mpf(2) ** trials for k in range(trials + 1)]
        weights = {}  # of losses, as ratios of masses
        for x in range(move, trials + 1):
            ratio = mass[x - move] / mass[x]
            weights[ratio] = weights.get(ratio, 0) + mass[x - move]
        lost = sum(mass[trials + 1 - move :])
        a = mpmath.exp(epsilon)
        if count == 1:
            truth = lost + sum(w * max(0, 1 - a / r) for r, w in weights.items())
        elif trials > 200:
            pytest.skip("a million pairs")
        else:
            pairs = ((r * s, v * w) for r, v in weights.items() for s, w in weights.items())
            truth = 1 - (1 - lost) ** 2 + sum(w * max(0, 1 - a / r) for r, w in pairs)
        event = mechc.load("binomial")(trials=trials, sensitivity=move)
        found = (count * event).delta(float(epsilon), direction="remove")
        assert mpmath.mpf(found.lower) <= truth <= mpmath.mpf(found.upper)
        assert found.estimate == pytest.approx(float(truth), rel=1e-11)


def test_masses_that_miss_one_widen_the_answer():
    q = 0.25
    exact = PrivacyLoss.from_atoms([0.0], [1.0])
    rough = PrivacyLoss.from_atoms([0.0], [1.0 - 1e-11])
    assert exact.tolerance == 0.0
    assert rough.tolerance >= 1e-11
    assert rough.tolerance <= rough.reversed().tolerance <= rough.tolerance + 1e-15
    lower, _, upper = rough.hockey_stick_log(-q)
    assert upper - lower >= 1e-11


def test_small_losses_on_a_lattice_are_differences_of_logs():
    """Masses of 1e-4 and losses of 1e-7, rounded as logs: the loss has lost eight digits."""
    rng = np.random.default_rng(3)
    p = rng.random(9000) + 0.5
    p /= p.sum()
    change = 1e-7 * rng.standard_normal(p.size)
    log_p = np.log(p)
    loss = log_p - (log_p - np.log1p(change))
    truth = float(p @ np.maximum(-np.expm1(-np.log1p(change)), 0.0))
    terms, noise = atoms.log_hockey_stick(loss, log_p, 0.0, 0.0, LossesFrom.FORMULA, 1.0)
    value, error = float(np.exp(terms).sum()), float(np.exp(noise).sum())
    assert 1e-12 * truth < abs(value - truth) <= error < 2e-7 * truth
