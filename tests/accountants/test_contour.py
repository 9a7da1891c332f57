"""The contour accountant where it is hard: phase transitions, nearly disjoint pairs, far tails."""

import math
from dataclasses import replace

import numpy as np
import pytest

import mechc
from mechc.accountants.contour import ContourAccountant
from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.columns import Columns
from mechc.accountants.contours.decay import far_law
from mechc.accountants.contours.trapezoid import Answer
from mechc.loss.privacy_loss import PrivacyLoss, Step

truth = pytest.importorskip("truth")


@pytest.fixture(scope="module")
def gaussian():
    return mechc.load("gaussian")


@pytest.fixture(scope="module")
def training(gaussian):
    """A run whose tilted law splits in two around the tilt 35: most steps small, a few huge."""
    return 3000 * mechc.poisson(gaussian)(sigma=2.0, sampling_rate=0.01)


def test_saddle_point_beyond_a_sudden_rise_of_the_mean(training):
    exact = -299.9287288324243  # integrals.contour in balls, of pairs.gaussian(2.0).sampled(0.01)
    bound = training.log_delta(10.0, method="contour", direction="remove")
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-9


def test_curve_is_decreasing_and_convex_through_the_rise(training):
    epsilon = np.linspace(0.5, 60.0, 24)
    bounds = [training.log_delta(e, method="contour", direction="remove") for e in epsilon]
    estimate = np.array([b.estimate for b in bounds])
    assert all(b.upper - b.lower < 1e-8 for b in bounds)
    assert (np.diff(estimate) < 0).all()
    # convex in alpha: at each point at most the chord of its neighbours
    alpha = np.exp(epsilon)
    share = (alpha[2:] - alpha[1:-1]) / (alpha[2:] - alpha[:-2])
    chord = np.logaddexp(np.log(share) + estimate[:-2], np.log1p(-share) + estimate[2:])
    assert (estimate[1:-1] <= chord + 1e-9).all()


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("sigma", [1e-3, 3e-3, 1e-2, 3e-2, 0.1])
def test_nearly_disjoint_pairs(gaussian, sigma, epsilon):
    """P has no weight in float64 where Q lives; delta is 1 up to far below rounding."""
    bound = (10 * gaussian(sigma=sigma)).log_delta(epsilon, method="contour")
    rounding = 4 * 2.0**-52 * 10 * 0.5 / sigma**2  # of ten losses as large as 1 / (2 sigma^2)
    assert bound.lower > -max(1e-9, rounding)
    assert bound.upper >= -1e-15


@pytest.mark.parametrize(
    ("sigma", "count", "epsilon"),
    [(0.01, 10, 1e5), (0.1, 10, 1e3), (1.0, 3, 40.0), (50.0, 10**6, 300.0), (1e3, 10, 1e-3),
     (1e5, 10, 0.0), (1e5, 10**10, 12.0), (3.0, 7, -2.5), (0.5, 100, -900.0)],
)  # fmt: skip
def test_gaussian_against_its_closed_form(gaussian, sigma, count, epsilon):
    exact = truth.gaussian(math.sqrt(count) / sigma, epsilon)
    bound = (count * gaussian(sigma=sigma)).log_delta(epsilon, method="contour")
    assert bound.lower - 1e-15 <= exact <= bound.upper + 1e-15
    assert bound.upper - bound.lower < 1e-6 * max(1.0, abs(exact))


def test_many_epsilons_of_many_steps(gaussian):
    sigmas = np.linspace(8.0, 16.0, 24)
    run = mechc.compose(*[(gaussian(sigma=float(s)), 2) for s in sigmas])
    mu = math.sqrt(float((2.0 / sigmas**2).sum()))
    epsilons = mu * mu / 2.0 + mu * np.linspace(0.2, 7.5, 12)
    bound = run.log_delta(epsilons, method="contour")
    assert (bound.upper - bound.lower < 1e-7).all()
    for low, high, epsilon in zip(bound.lower, bound.upper, epsilons, strict=True):
        assert low <= truth.gaussian(mu, float(epsilon)) <= high


def test_many_more_steps_than_sigma_can_hide(gaussian):
    """10**12 steps with delta equal to 1 in float64: no saddle point, but an answer."""
    bound = (10**12 * gaussian(sigma=1e-3)).log_delta(0.0)
    assert bound.lower <= 0.0 == bound.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_billions_of_nearly_private_steps_are_gaussian(direction):
    """sigma near 1e5 and 5e9 steps: the limit of the central limit theorem, far in its tail."""
    count, rate, sigma = 5_095_683_643, 0.0153, 9.665e4
    event = mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma)
    bound = (count * event).log_delta(0.1, direction=direction)
    mu = rate * math.sqrt(count * math.expm1(sigma**-2))
    assert bound.upper - bound.lower < 1e-8
    assert bound.estimate == pytest.approx(truth.gaussian(mu, 0.1), rel=1e-4)


def test_epsilon_beyond_a_largest_loss_that_is_not_known():
    """Tilts of 1e16 and a minute of refinement were spent on a delta below exp(-200000)."""
    two = PrivacyLoss.from_atoms([-1.0, 1.0], [1 / (1 + math.e), math.e / (1 + math.e)])
    open_ended = replace(two, support=(-math.inf, math.inf))
    columns = Columns((Step(open_ended, 1),))
    assert columns.saddle(1.5)[0] < 1e7


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_sparse_steps_whose_small_losses_fade_late(direction):
    """Total variation takes over far beyond the last node: 25 000 nodes were not enough."""
    event = mechc.poisson(mechc.load("gaussian"))(sampling_rate=0.001, sigma=0.5)
    narrow, wide = (
        (2_000_000 * event).log_delta(3.0, direction=direction, method=m)
        for m in ("contour", "pld")
    )
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper
    assert narrow.upper - narrow.lower < 1e-9 < wide.upper - wide.lower
    assert narrow.detail["nodes"] < 1000


def test_rare_losses_fade_before_the_peak_beside_them(gaussian):
    """Of a million steps each has to fade a little only; thirty times this work was not enough."""
    run = 10**6 * mechc.poisson(gaussian)(sigma=0.4, sampling_rate=1e-5)
    found, wide = run.epsilon(1e-6, max_work=3e6), run.epsilon(1e-6, method="pld", max_work=3e8)
    assert wide.lower <= found.lower <= found.upper <= wide.upper
    assert found.upper - found.lower < 1e-8 < wide.upper - wide.lower


@pytest.mark.parametrize("reach", [10.0, 40.0])
def test_panels_that_are_not_cut_count_by_their_mass(gaussian, reach):
    """The tilted loss of Gaussian noise is normal: log phi = -(y mu)^2 / 2 in closed form."""
    steps = (Step(gaussian(sigma=0.5).loss(), 1),)
    far = Tilted(far_law(1.0, reach, 0.1, steps), 1.0, 0.0)
    unresolved = float(far.unresolved(reach)[0])
    real, imaginary = far.log_phi(reach, 1, 2)
    phi = math.exp(real[0]) * np.exp(1j * imaginary[0])
    assert unresolved < 1.0
    assert abs(phi - math.exp(-0.5 * (2.0 * reach) ** 2)) <= 2.0 * unresolved + 1e-12


def test_many_distinct_steps_below_a_rise_of_the_mean(gaussian):
    """Next to the tilt from which on K explodes one contour would need thousands of frequencies.

    The value is a trapezoid sum of trapezoid sums over the outputs, in 64 binary digits.
    """
    sampled = mechc.poisson(gaussian)
    steps = [(1e-4 * 10 ** (i / 19), 1.0 + 0.15 * i, 50_000) for i in range(20)]
    run = mechc.compose(*((sampled(sampling_rate=q, sigma=s), n) for q, s, n in steps))
    bound = run.log_delta(1.0, method="contour", direction="remove")
    assert bound.lower <= -24.6076918616 + 1e-9 and bound.upper >= -24.6076918616 - 1e-9
    assert bound.upper - bound.lower < 1e-8


def test_a_contour_without_a_lower_side_is_not_asked_close_by(gaussian, monkeypatch):
    """Anything is as narrow as an answer that is not bounded from below."""
    acc = ContourAccountant([Step(gaussian(sigma=3.0).loss(), 10)])
    acc.log_delta(3.0)
    ((known, at, first),) = acc.forward.contours
    acc.forward.contours = [(known, at, replace(first, lower=-math.inf))]
    monkeypatch.setattr(known, "answer", lambda _: Answer(-math.inf, 1.0, 1.0, {}))
    bound = acc.log_delta(3.001)
    assert bound.width < 1e-6


def test_what_a_contour_answers_close_by_is_below_chernoffs_bound(gaussian, monkeypatch):
    acc = ContourAccountant([Step(gaussian(sigma=3.0).loss(), 10)])
    exact = acc.log_delta(3.0).estimate
    ((known, at, first),) = acc.forward.contours
    acc.forward.contours = [(known, at, replace(first, lower=first.lower - 40.0))]
    monkeypatch.setattr(known, "answer", lambda _: Answer(exact - 20.0, exact, 1.0, {}))
    assert exact - 0.1 < acc.log_delta(3.001).upper < exact + 5.0
