"""Epsilon for many counts from shared contours, against closed forms and single answers."""

import math

import numpy as np
import pytest
import truth

import mechc
from mechc.accountants.contours.trapezoid import Smooth
from mechc.accountants.repetitions import Sweep


@pytest.mark.parametrize("log_delta", [math.log(0.3), -11.0, -300.0])
def test_gaussian_repetitions_bracket_the_closed_form(log_delta):
    law = mechc.load("gaussian")(sigma=12.0)
    counts = np.concatenate([np.arange(1, 60), [61, 64, 100, 101, 102, 999, 10**5, 10**8]])
    steps = law.composition().steps("remove")
    lower, estimate, upper = Sweep(steps, Smooth(), log_delta, 1e-6).epsilons(
        counts.astype(float), np.full(counts.size, np.nan)
    )
    assert np.isfinite(upper[8:]).all()
    assert ((upper - lower) <= 1e-9 * (1e-3 + upper))[8:].all()
    for i in (8, 9, 30, 58, 59, 62, 64, 65, 66):
        mu = math.sqrt(counts[i]) / 12.0
        assert truth.gaussian(mu, float(upper[i])) <= log_delta
        assert lower[i] == 0.0 or truth.gaussian(mu, float(lower[i])) > log_delta
        assert lower[i] <= estimate[i] <= upper[i]


@pytest.mark.parametrize(
    "name, parameters", [("gaussian", {"sigma": 1.1}), ("laplace", {"scale": 3.0})]
)
def test_curve_agrees_with_single_answers(name, parameters):
    event = mechc.poisson(mechc.load(name))(sampling_rate=0.03, **parameters)
    counts = [3000, 700, 250, 700, 0, 3001, 9000]
    curve = event.epsilon_curve(1e-7, counts)
    assert curve.status == "proven" and curve.lower.shape == (7,)
    assert curve.upper[4] == 0.0 and curve.upper[1] == curve.upper[3]
    for count, lower, upper in zip(counts, curve.lower, curve.upper, strict=True):
        single = (count * event).epsilon(1e-7)
        assert lower <= single.upper and single.lower <= upper
        assert upper - lower <= 1e-7 * (1 + upper)


def test_an_epsilon_that_is_known_to_do_is_returned_and_one_that_does_not_is_replaced():
    steps = mechc.load("gaussian")(sigma=12.0).composition().steps("remove")
    counts = np.array([100.0, 150.0, 200.0])
    root = Sweep(steps, Smooth(), -11.0, 1e-6).epsilons(counts, np.full(3, np.nan))[1]
    shift = np.array([0.2, -0.2, 1e-3])
    lower, _, upper = Sweep(steps, Smooth(), -11.0, 1e-6).epsilons(counts, root + shift)
    assert upper == pytest.approx(root + np.maximum(shift, 0.0), rel=1e-10)
    assert (lower[0], lower[2]) == (0.0, 0.0) and lower[1] == pytest.approx(root[1], rel=1e-10)


def test_a_thousand_counts_without_asking_one_by_one():
    event = mechc.poisson(mechc.load("gaussian"))(sampling_rate=0.02, sigma=1.2)
    curve = event.epsilon_curve(1e-6, range(200, 1200))
    assert curve.detail["one_by_one"] == []
    assert (np.diff(curve.estimate) > 0).all() and (curve.upper > curve.lower).all()


def test_few_counts_of_a_mechanism_that_hardly_leaks():
    """The size of delta guessed for many repetitions is none for few: it overflowed."""
    run = mechc.load("gumbel")(scale=39.4276)
    counts = [3, 6, 9, 15, 27, 60, 120]
    curve = run.epsilon_curve(1e-6, counts, direction="remove")
    for i in (0, 3, 6):
        one = (counts[i] * run).epsilon(1e-6, direction="remove", method="pld")
        assert one.lower <= curve.upper[i] and curve.lower[i] <= one.upper
        assert curve.upper[i] - curve.lower[i] <= 1e-6 * curve.upper[i]


def test_counts_where_the_saddle_point_leads_astray():
    """At sampling rate 1e-4 its delta is 24 nats too large; each count would go alone."""
    event = mechc.poisson(mechc.load("gaussian"))(sampling_rate=1e-4, sigma=1.0)
    counts = [4000.0, 7000.0, 10_000.0]
    sweep = Sweep(mechc.compose((event, 1)).steps("remove"), Smooth(), math.log(1e-8), 1e-6)
    lower, _, upper = sweep.epsilons(np.array(counts), np.full(3, np.nan))
    one = (10_000 * event).epsilon(1e-8, direction="remove")
    assert one.lower <= upper[2] and lower[2] <= one.upper
    assert ((upper - lower) <= 1e-6 * upper).all()


def test_a_curve_next_to_the_largest_losses_is_answered():
    """Delta of n steps there is 2^-n (1 - exp(epsilon - n / 3)), and saddle points run off."""
    counts = np.arange(1, 31)
    found = mechc.load("laplace")(scale=3.0).epsilon_curve(1e-30, counts, direction="remove")
    exact = counts / 3.0 + np.log1p(-1e-30 * 2.0**counts)
    assert (found.lower <= exact * (1 + 1e-15)).all() and (exact * (1 - 1e-15) <= found.upper).all()
    assert (found.width <= 1e-9).all()
