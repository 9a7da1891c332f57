"""Norms, clipping and noise become noise ratios; groups become quantiles."""

import math

import numpy as np
import pytest
from scipy import stats

import mechc
from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError
from mechc.individual import IndividualAccountant, summary


def test_clipped_norms_are_gaussian_steps_of_their_ratio():
    norms = np.array([[0.5, 4.0], [0.0, 1.0], [9.0, 9.0]])
    acc = IndividualAccountant.from_norms(norms, [1.0, 2.0], [4.0, 8.0], counts=[10, 40])
    bound = acc.delta(0.5)
    mu2 = 10 * np.array([0.5, 0.0, 1.0]) ** 2 / 16 + 40 * np.array([1.0, 0.5, 1.0]) ** 2 / 64
    mu = np.sqrt(mu2)
    exact = stats.norm.cdf(mu / 2 - 0.5 / mu) - math.exp(0.5) * stats.norm.cdf(-mu / 2 - 0.5 / mu)
    assert (bound.lower <= exact).all() and (exact <= bound.upper).all()
    assert (bound.upper <= exact * (1 + 1e-3)).all() and bound.detail["sharp"].shape == (3,)


def test_sampled_norms_are_those_of_the_plain_accountant():
    acc = IndividualAccountant.from_norms(
        [0.4, 1.0], 0.8, 2.0, sampling_rate=0.01, counts=[500], span=(0.5, 50.0)
    )
    bound = acc.epsilon(1e-6)
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    for person, sigma in enumerate((4.0, 2.0)):
        exact = (500 * mechanism(sigma=sigma)).epsilon(1e-6)
        assert bound.lower[person] <= exact.upper and exact.lower <= bound.upper[person]


@pytest.mark.parametrize(
    "norms, clip, noise, message",
    [
        ([-1.0], 1.0, 1.0, "norms has -1 "),
        ([[[1.0]]], 1.0, 1.0, r"norms has shape \(1, 1, 1\)"),
        ([1.0], 0.0, 1.0, "clip"),
        ([1.0], [1.0, 2.0], 1.0, "clip"),
        ([1.0], 1.0, math.inf, "noise"),
    ],
)
def test_bad_norms_are_refused(norms, clip, noise, message):
    with pytest.raises(DeclarationError, match=message):
        IndividualAccountant.from_norms(norms, clip, noise)
    with pytest.raises(DeclarationError, match="people follows from the norms"):
        IndividualAccountant.from_norms([1.0], 1.0, 1.0, people=2)


@pytest.mark.slow
def test_of_a_sample_that_nobody_is_in_nobody_loses_anything():
    """All members of the family lose the same, none being the worst."""
    acc = IndividualAccountant.from_norms([[0.5, 2.0], [0.0, 0.0]], 1.0, 3.0, sampling_rate=0.0)
    assert acc.epsilon(1e-6).upper.tolist() == [0.0, 0.0]


def test_quantiles_enclose_those_of_any_values_between_the_bounds():
    rng = np.random.default_rng(0)
    lower, width = rng.exponential(1.0, 101), rng.random(101)
    value, labels = lower + rng.random(101) * width, rng.integers(0, 3, 101)
    bound = Bound(lower, value, lower + width, "contour", "proven", {})
    at = (0.0, 0.3, 0.5, 1.0)
    for group in summary(bound, labels, at):
        mine = np.sort(value[labels == group.label])
        for q, low, high in zip(at, group.lower, group.upper, strict=True):
            assert low <= mine[max(math.ceil(q * mine.size) - 1, 0)] <= high
        assert group.people == mine.size
    (everybody,), (median,) = summary(bound), summary(bound, at=0.5)
    assert median.upper == everybody.upper[everybody.at.index(0.5)]
    assert everybody.upper[-1] == (lower + width).max()
    mixed = np.array([*range(100), None], object)
    for wrong in ({"labels": [1, 2]}, {"labels": mixed}, {"at": [1.5]}):
        with pytest.raises(DeclarationError, match=next(iter(wrong))):
            summary(bound, **wrong)


def test_norms_are_rounded_to_the_side_of_more_loss():
    """A third has no double; a norm that underflows beside the clipping norm is still there."""
    wide = np.array([[np.longdouble(1) / 3], [1e-320]])
    options = {"clip": [0.5], "noise": 3.0, "span": (2.0, 50.0)}
    exact = IndividualAccountant.from_norms(wide, **options).epsilon(1e-6)
    low = IndividualAccountant.from_norms(np.nextafter([[1 / 3], [0.0]], 1.0), **options)
    assert (exact.upper <= low.epsilon(1e-6).upper).all() and exact.upper[1] > 0.0
