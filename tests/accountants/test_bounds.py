"""Two laws too far apart for any transform: delta is bounded below by one event."""

import math

import mpmath
import numpy as np
import pytest

import mechc
from mechc.accountants import bounds
from mechc.accountants.contours.composed import ComposedLoss
from mechc.loss.privacy_loss import PrivacyLoss, Step


@pytest.mark.few(0, 7)
@pytest.mark.parametrize("sigma", [1e-10, 1e-6, 1e-4, 2e-3])
@pytest.mark.parametrize("count", [1, 3, 10**6])
def test_a_gaussian_far_away_is_answered(sigma, count):
    answer = (count * mechc.load("gaussian")(sigma=sigma)).delta(100.0)
    # where single steps are resolved, few of them carry the rounding of losses of 1 / (2 sigma^2)
    rounding = 2.0**-52 * 3 * 0.5 / sigma**2 if sigma == 1e-4 and count <= 3 else 0.0
    assert 1.0 - max(1e-9, rounding) < answer.lower <= answer.upper == 1.0


@pytest.mark.parametrize(("ratio", "steps", "epsilon"), [(8.0, 1, 1.0), (3.0, 20, 5.0)])
def test_the_event_bound_is_below_the_truth_and_near_it(ratio, steps, epsilon):
    mu = mpmath.mpf(ratio) * mpmath.sqrt(steps)
    cdf = mpmath.ncdf
    truth = cdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)
    law = mechc.load("gaussian")(sigma=1.0 / ratio).loss()
    lower = bounds.log_lower([Step(law, steps)], epsilon)
    assert lower <= float(mpmath.log(truth))
    if steps == 1:  # P(L > 41) with mean 32, deviation 8
        assert lower == pytest.approx(math.log(cdf(-(41 - 32) / 8)), rel=0.05)


def test_steps_that_reveal_nothing_are_left_out():
    clear = PrivacyLoss.from_atoms([-100.0, 100.0], [math.exp(-100.0), 1.0 - math.exp(-100.0)])
    nothing = PrivacyLoss.from_atoms([0.0], [1.0])
    lower = bounds.log_lower([Step(nothing, 1000), Step(clear, 2)], 1.0)
    assert -1e-11 < lower < 0.0


def test_a_law_that_cannot_be_resolved_is_bounded_by_auto_and_refused_by_name():
    run = 2 * mechc.load("gaussian")(sigma=1e-6) + mechc.load("gaussian")(sigma=1.0)
    assert run.delta(1.0).lower > 1.0 - 1e-12
    assert run.delta(np.inf).upper == 1.0  # no mass at infinity is known, none is excluded
    with pytest.raises(mechc.errors.UnsupportedError, match=r"^contour: .*mass of.*; use auto$"):
        run.delta(1.0, method="contour")


@pytest.mark.slow
def test_a_law_without_a_spread_is_answered_without_overflow():
    """All losses are one number in doubles."""
    run = 161 * mechc.load("discrete_gaussian")(sigma=1.0995e-4, sensitivity=1)
    assert 0.0 < run.epsilon(9.5e-8).lower < math.inf


def test_no_bound_on_moments_of_which_every_digit_cancels(monkeypatch):
    """As of 576 Skellam steps, rate 23642 and sensitivity 4426, at the tilt -0.34."""
    composed = ComposedLoss([Step(PrivacyLoss.from_atoms([0.0], [1.0]), 3)])
    assert composed.at_most(-0.3)[0] < 1e-12
    cancelled = np.array([[-np.inf, -np.inf, np.nan, np.inf]])
    monkeypatch.setattr(composed, "_generating", lambda t: cancelled)
    assert composed.at_most(-0.3)[0] == np.inf


def test_outcomes_beside_an_index_that_are_too_many_bound_nothing():
    """1e15 users reveal next to nothing, so that no lower bound but 0 could hold."""
    run = 10 * mechc.load("shuffle")(users=1e15, epsilon=1.0)
    answer = run.delta(0.1)
    assert (answer.lower, answer.upper) == (0.0, 1.0)
    assert "outcomes matter, too many to list" in answer.detail["refusals"]
    with pytest.raises(mechc.errors.UnsupportedError, match=r"shuffle\(users=1e\+15.*; use auto$"):
        run.delta(0.1, method="pld")


def test_unlikely_reports_are_doubles_beside_likely_ones():
    """One user: binary response, delta(eps0 / 2) = p - e^(eps0 / 2) (1 - p)."""
    likely = 1.0 / (1.0 + math.exp(-40.0))
    exact = likely - math.exp(20.0) / (1.0 + math.exp(40.0))
    answer = mechc.load("shuffle")(users=1, epsilon=40.0).delta(20.0)
    assert answer.lower <= exact * (1 + 1e-15) and exact * (1 - 1e-15) <= answer.upper
    assert answer.upper - answer.lower < 1e-12


@pytest.mark.parametrize(
    "name, scale", [("gaussian", 1e155), ("gaussian", 1e300), ("cauchy", 1e155), ("laplace", 1e250)]
)
def test_a_law_that_no_quadrature_resolves_proves_nothing_from_below(name, scale):
    """Wide noise hides all: delta(0) is at most 1 / scale, and no mass that is missed is small."""
    word = "sigma" if name == "gaussian" else "scale"
    bound = mechc.load(name)(**{word: scale}).delta(0.0)
    assert bound.lower <= 1.0 / scale <= bound.upper


@pytest.mark.slow
@pytest.mark.parametrize("sensitivity", [6000.0, 1e6])
def test_epsilon_of_gaussians_far_apart(sensitivity):
    """Delta at most P(L > epsilon), the only mass that any quadrature finds there."""
    answer = mechc.load("gaussian")(sigma=1.0, sensitivity=sensitivity).epsilon(1e-5)
    with mpmath.workdps(60):
        about = mpmath.mpf(sensitivity) ** 2 / 2

        def excess(z):  # at epsilon = about + z sensitivity
            far = mpmath.erfc((z + sensitivity) / mpmath.sqrt(2)) / 2
            return mpmath.erfc(z / mpmath.sqrt(2)) / 2 - mpmath.exp(about + z * sensitivity) * far

        truth = about + sensitivity * mpmath.findroot(lambda z: mpmath.log(excess(z) / 1e-5), 4.2)
    assert answer.lower <= truth <= answer.upper <= 1.0001 * truth


def test_a_spike_beside_a_far_wider_law_is_not_all_of_it():
    """An interval of 464 standard deviations found nothing; .99994 was given for 1.9e-5."""
    widths = {"weight": 0.9999422311455293, "narrow": 1.098098880619971e-51,
              "wide": 4.547541983944829e-64, "sensitivity": 1.0389133078175862e-52}  # fmt: skip
    event = mechc.poisson(mechc.load("gaussian_scale_mixture"))(**widths, sampling_rate=0.01)
    assert event.log_delta(0.0017413255817865896, direction="remove").lower <= -10.850418745965933


@pytest.mark.parametrize("sigma", [3e-4, 1e-6])
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 1.0])
def test_rare_losses_without_end_are_bounded_by_single_steps(sigma, epsilon):
    """Q and what a sampled record leads to are disjoint; all losses are infinite, or one number."""
    rate, count = 0.00116354, 10
    kept = math.exp(count * math.log1p(-rate))
    truth = 1.0 - kept + max(kept - math.exp(epsilon), 0.0)
    steps = [Step(mechc.poisson(mechc.load("gaussian"), rate)(sigma=sigma).loss(), count)]
    lower, upper = map(math.exp, bounds.log_by_single_steps(steps, epsilon))
    assert lower <= truth * (1.0 + 1e-12)
    assert upper >= truth * (1.0 - 1e-12)
    assert epsilon < 0.0 or upper - lower < 1e-11


def test_single_steps_bound_a_composition_of_small_deltas():
    """Of 3 Gaussian steps, against the closed form; below the smallest double."""
    law = mechc.load("gaussian")(sigma=0.02).loss()
    mu, epsilon = 50.0 * mpmath.sqrt(3), 9000.0
    cdf = mpmath.ncdf
    with mpmath.workdps(60):
        truth = mpmath.log(
            cdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)
        )
    lower, upper = bounds.log_by_single_steps([Step(law, 1), Step(law, 2)], epsilon)
    assert lower <= truth <= upper
