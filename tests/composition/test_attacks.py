"""True positives, Bayes risk, reconstruction and zCDP against closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import mechc
from mechc.errors import DeclarationError


@pytest.fixture(scope="module")
def gaussian():
    return mechc.load("gaussian")


def contains(bound, value, width=1e-6):
    assert (np.asarray(bound.lower) <= value + 1e-12 * np.abs(value)).all()
    assert (np.asarray(bound.upper) >= value - 1e-12 * np.abs(value)).all()
    assert (np.asarray(bound.width) <= width).all()


def test_power_against_gaussian_noise(gaussian):
    """Dong, Roth, Su 2022: f(alpha) of mu-GDP is Phi(Phi^-1(1 - alpha) - mu)."""
    run, rates = 9 * gaussian(sigma=3.0), np.array([1e-9, 1e-4, 0.01, 0.3, 0.9])
    contains(run.tpr(rates), norm.sf(norm.isf(rates) - 1.0))
    contains(run.beta(rates), norm.cdf(norm.isf(rates) - 1.0))
    contains(run.reconstruction(1e-3), norm.sf(norm.isf(1e-3) - 1.0))
    small = run.tpr(1e-30)
    assert small.upper >= norm.sf(norm.isf(1e-30) - 1.0) and small.lower <= small.upper < 1e-9


def test_safe_sides_and_words(gaussian):
    run = gaussian(sigma=1.0)
    for bound, word, side in [
        (run.tpr(0.1), "true positive rate", "upper"),
        (run.reconstruction(0.1), "reconstruction probability", "upper"),
        (run.beta(0.1), "false negative rate", "lower"),
        (run.bayes_risk(0.3), "Bayes risk", "lower"),
        (run.zcdp(), "rho", "upper"),
    ]:
        assert str(bound).startswith(word) and float(bound) == getattr(bound, side)
        assert bound.status == "proven"


def test_ends():
    run = mechc.load("approximate_dp")(epsilon=1.0, delta=1e-20).composition()
    contains(run.tpr(0.0), 1e-20, 1e-30)
    contains(run.tpr(1.0), 1.0)
    assert run.bayes_risk(0.0).upper == run.bayes_risk(1.0).upper == 0.0


@pytest.mark.parametrize("prior", [1e-6, 0.2, 0.5, 0.97])
def test_bayes_risk_of_gaussian_noise(gaussian, prior):
    """The likelihood ratio test at the odds of the prior."""
    mu = 0.8
    at = mu / 2 + math.log((1 - prior) / prior) / mu
    contains((4 * gaussian(sigma=2 / mu)).bayes_risk(prior),
             prior * norm.cdf(at - mu) + (1 - prior) * norm.sf(at))  # fmt: skip


def test_bayes_risk_is_the_best_point_of_the_trade_off():
    run = 20 * mechc.poisson(mechc.load("laplace"), 0.3)(scale=2.0)
    best = minimize_scalar(
        lambda a: 0.4 * run.tradeoff(a).estimate + 0.6 * a,
        bounds=(0.0, 1.0), method="bounded", options={"xatol": 2e-4},
    )  # fmt: skip
    assert run.bayes_risk(0.4).estimate == pytest.approx(best.fun, abs=1e-6)
    assert run.bayes_risk().upper == pytest.approx((1 - run.advantage().lower) / 2, abs=1e-12)


def test_randomised_response_tells_the_truth_so_often():
    """Binary: the test that believes the answer is the best one, right with e^eps / (1 + e^eps)."""
    share = math.e / (1.0 + math.e)
    run = mechc.load("randomized_response")(epsilon=1.0, categories=2.0)
    contains(run.tpr(1 - share), share)
    contains(run.bayes_risk(), 1 - share)


def laplace_rho(gap):
    """max over alpha of D_alpha / alpha for Laplace noise, Mironov 2017, Proposition 6."""

    def ratio(a):
        d = np.logaddexp(
            math.log(a / (2 * a - 1)) + (a - 1) * gap, math.log((a - 1) / (2 * a - 1)) - a * gap
        )
        return d / (a - 1) / a

    return max(map(ratio, 1.0 + np.geomspace(1e-6, 1e3, 20_001)))


@pytest.mark.parametrize("gap", [0.05, 1.0, 10.0])
def test_rho_of_laplace_noise(gap):
    """At most gap^2 / 2 (Bun, Steinke 2016, Proposition 1.4), and as the closed form says."""
    bound = (10 * mechc.load("laplace")(scale=1 / gap)).zcdp()
    value = 10 * laplace_rho(gap)
    assert bound.lower <= value * (1 + 1e-5) and value * (1 - 1e-12) <= bound.upper
    assert bound.upper == pytest.approx(value, rel=3e-5)
    assert bound.upper <= 5 * gap**2


@pytest.mark.slow
def test_rho_of_gaussian_noise_whatever_is_sampled(gaussian):
    contains((10 * gaussian(sigma=3.0)).zcdp(), 10 / 18)
    contains((5 * mechc.load("discrete_gaussian")(sigma=3.0, sensitivity=2)).zcdp(), 5 * 4 / 18)
    contains(mechc.load("gdp")(mu=0.5).zcdp(), 0.125)
    sampled = (10 * mechc.poisson(gaussian, 0.01)(sigma=3.0)).zcdp()
    assert sampled.upper == pytest.approx(10 / 18) and sampled.lower > 0.99 * 10 / 18
    opposite = mechc.poisson(gaussian, 0.5, adjacency="replace")(sigma=2.0).zcdp()
    assert opposite.lower <= opposite.upper == pytest.approx(4 / 8)
    shuffled = mechc.dpsgd(dataset_size=10, batch_size=2, epochs=3, noise_multiplier=2.0,
                           sampler="shuffled", adjacency="replace")  # fmt: skip
    contains(shuffled.zcdp(), 3 * 4 / 8)


def test_rho_adds_up_and_is_unknown_where_nothing_is_proven(gaussian):
    laplace = mechc.load("laplace")(scale=20.0)
    both = (5 * gaussian(sigma=3.0) + 10 * laplace).zcdp()
    assert both.upper <= 5 / 18 + 10 * laplace_rho(1 / 20) * (1 + 3e-5)
    assert both.lower > 5 / 18
    given = (mechc.zcdp(0.1) + gaussian(sigma=1.0)).zcdp()
    assert given.upper == pytest.approx(0.6) and math.isnan(given.lower)
    assert mechc.load("approximate_dp")(epsilon=0.1, delta=1e-9).zcdp().lower == math.inf
    open_ended = mechc.load("subbotin")(beta=1.5, scale=2.0).zcdp()
    assert math.isnan(open_ended.upper) and open_ended.lower > 0
    assert "no theorem" in open_ended.status


def test_what_is_no_rate_is_refused(gaussian):
    run = gaussian(sigma=1.0)
    for ask, word in (
        (run.tpr, "fpr"),
        (run.bayes_risk, "prior"),
        (run.reconstruction, "baseline"),
    ):
        with pytest.raises(DeclarationError, match=f"{word}=1.5 is too large"):
            ask(1.5)
        with pytest.raises(DeclarationError, match=word):
            ask(math.nan)


@pytest.mark.parametrize("mass", [0.1, 0.3, 1e-5, 0.7, 1e-20])
def test_the_end_of_a_trade_off_is_rounded_outward(mass):
    found = mechc.from_losses([0.0], [1.0 - mass], infinite_mass=mass).tradeoff(0.0)
    assert found.lower <= 1 - Fraction(mass) <= found.upper <= 1.0


@pytest.mark.parametrize("share", [0.1, 3.804911646525868e-11, 0.017190595840883754, 0.7])
def test_the_ends_of_what_hides_all_are_rounded_outward(share):
    """Nobody does better than by chance: 1 - alpha, and the smaller prior."""
    nothing = mechc.from_pmfs([1.0], [1.0])
    found = nothing.tradeoff(share)
    assert found.lower <= 1 - Fraction(share) <= found.upper
    found = nothing.bayes_risk(share)
    assert found.lower <= min(Fraction(share), 1 - Fraction(share)) <= found.upper


@pytest.mark.parametrize(
    ("told", "count", "alpha"),
    [(0.6924452610831104, 5, 0.9999852612175881), (0.23098181403439866, 5, 0.9999999277407378)],
)
def test_the_upper_side_next_to_a_corner_close_to_one_is_rounded_outward(told, count, alpha):
    """Q has one of two outcomes of P alone: a test takes that one in the share alpha of cases."""
    run = count * mechc.from_pmfs([told, 1.0 - told], [1.0, 0.0])
    truth = Fraction(told) ** count * (1 - Fraction(alpha))
    found = run.tradeoff(alpha, direction="remove")
    assert found.lower <= truth <= found.upper <= truth * (1 + Fraction(1, 10**6))
