"""The saddle-point accountant: its error table, its proven intervals, its refusals."""

import math

import numpy as np
import pytest
import series_laws as laws
from scipy import stats

from mechc.accountants.classical.normal_errors import identical_distance
from mechc.accountants.classical.saddlepoint import SaddlepointAccountant, steepest_descent
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step

# relative errors of the estimates, from an independent implementation in mpmath
TABLE = {
    "SGK": {"msd0": -2e-2, "msd1": 4e-3, "msd2": -8e-4, "clt": -1.4e-3},
    "SGS1": {"msd0": -4e-3, "msd1": 5e-4, "msd2": -1e-4, "clt": -6e-4},
    "SGS3": {"msd0": -2e-4, "msd1": 9e-5, "msd2": -1e-3, "clt": -1e-4},
    "SGB": {"msd0": -2e-2, "msd1": 5e-3, "msd2": -2e-3, "clt": -1e-2},
    "Laplace": {"msd0": -2e-2, "msd1": -7e-3, "msd2": -1e-2, "clt": 9e-3},
    "logistic": {"msd0": -1e-2, "msd1": 4e-3, "msd2": -4e-4, "clt": 1e-2},
}
FINITE_ORDERS = ("msd0", "msd1", "msd2", "clt")


@pytest.fixture
def cases():
    return laws.published()


def ask(case, **options):
    loss, count, epsilon, _ = case
    return SaddlepointAccountant([Step(loss, count)], **options).log_delta(epsilon)


@pytest.mark.few(1, 5, 10, 14, 19, 23)
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("variant", FINITE_ORDERS)
def test_errors_are_those_of_the_table(cases, name, variant):
    bound = ask(cases[name], variant=variant)
    error = math.expm1(bound.estimate - math.log(cases[name][3]))
    expected = TABLE[name][variant]
    assert math.copysign(1, error) == math.copysign(1, expected)
    assert 1 / 1.55 < error / expected < 1.55  # the table has one digit


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("variant", ["clt", "moments"])
def test_truth_is_inside_the_proven_interval(cases, name, variant):
    bound = ask(cases[name], variant=variant)
    assert bound.status == "proven"
    assert bound.lower <= math.log(cases[name][3]) <= bound.upper
    assert bound.lower <= bound.estimate <= bound.upper


@pytest.mark.parametrize("variant", ["msd0", "msd1", "msd2"])
def test_steepest_descent_claims_nothing(cases, variant):
    bound = ask(cases["SGK"], variant=variant)
    assert math.isnan(bound.lower) and math.isnan(bound.upper)
    assert bound.status == "estimate"


def test_berry_esseen_width_is_the_published_one(cases):
    # 2 D max f_t exp(K - t eps), D from the third moment by the structural inequality of 2013
    for name in ("SGK", "SGS1", "SGS3"):
        loss, count, epsilon, delta = cases[name]
        bound = ask(cases[name], variant="clt")
        t = bound.detail["tilt"]
        x, log_weight = loss.nodes()
        weight = np.exp(log_weight + t * x)
        log_mgf = math.log(weight.sum())
        weight /= weight.sum()
        d = x - weight @ x
        b = weight @ abs(d) ** 3 / (weight @ d**2) ** 1.5
        distance = min(0.4690 * b, 0.3322 * (b + 0.429), 0.3031 * (b + 0.646)) / math.sqrt(count)
        largest = t**t / (1 + t) ** (1 + t)
        radius = 2 * distance * largest * math.exp(count * log_mgf - t * epsilon)
        assert (math.exp(bound.upper) - math.exp(bound.estimate)) / radius == pytest.approx(1, 0.01)
        assert radius < 0.5 * delta


def test_berry_esseen_holds_for_sums_with_known_laws():
    for n in (1, 4, 50, 2000):
        half = stats.binom.cdf(np.arange(n + 1), n, 0.5)  # signs: b = 1, jumps of the largest size
        x = (2 * np.arange(n + 1) - n) / math.sqrt(n)
        below = np.concatenate([[0.0], half[:-1]])
        distance = max(abs(half - stats.norm.cdf(x)).max(), abs(below - stats.norm.cdf(x)).max())
        assert distance < identical_distance(1.0, n) < 1.4 * distance
        x = np.linspace(-4, 9, 3001)  # exponential summands: b = 12/e - 2
        gap = abs(stats.gamma.cdf(n + x * math.sqrt(n), n) - stats.norm.cdf(x)).max()
        assert gap < identical_distance(12 / math.e - 2, n)


def test_moments_bounds_have_the_known_looseness(cases):
    for name, expected in (("SGK", 2.19), ("SGS3", 9.8)):
        found = math.exp(ask(cases[name], variant="moments").upper)
        assert found / cases[name][3] == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("count", [1, 1000, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("deviations", [-4.0, 0.0, 3.0, 25.0])
def test_gaussian_is_exact_at_any_count(count, deviations):
    sigma = 20.0
    mu = math.sqrt(count) / sigma
    epsilon = 0.5 * mu * mu + deviations * mu
    loss = laws.gaussian(sigma, 60.0)
    exact = laws.gaussian_log_delta(mu, epsilon)
    for variant in ("clt", "edgeworth"):
        accountant = SaddlepointAccountant([Step(loss, count)], variant=variant)
        bound = accountant.log_delta(epsilon)
        assert bound.estimate == pytest.approx(exact, rel=1e-12, abs=1e-9)
        assert bound.lower <= exact <= bound.upper


def test_logarithms_reach_far_below_the_smallest_double():
    sigma, count = 20.0, 1000
    loss, epsilon = laws.gaussian(sigma, 60.0), 697.0
    exact = laws.gaussian_log_delta(math.sqrt(count) / sigma, epsilon)
    assert exact < -9e4
    for variant in ("msd1", "clt", "moments"):
        bound = SaddlepointAccountant([Step(loss, count)], variant=variant).log_delta(epsilon)
        assert bound.estimate == pytest.approx(exact, rel=1e-4)
        assert not bound.upper < exact < bound.lower


def test_mass_at_infinity_is_added():
    steps = [Step(laws.worst_case(0.1, 1e-6), 100)]
    exact = math.log(laws.truth("KOV1"))
    moments = SaddlepointAccountant(steps, variant="moments")
    bound = moments.log_delta(1.0)
    assert bound.lower <= exact <= bound.upper
    infinite = math.log(-math.expm1(100 * math.log1p(-1e-6)))
    beyond = moments.log_delta(10.5)
    assert beyond.lower <= infinite <= beyond.upper
    assert beyond.upper == pytest.approx(infinite, abs=1e-13)


def test_interval_of_a_lattice_law_needs_no_density():
    # 4-ary randomised response, an exact multinomial sum in the corpus
    p, e = 1 / (math.exp(0.5) + 3), math.exp(0.5)
    loss = PrivacyLoss.from_atoms([0.5, 0.0, -0.5], [e * p, 2 * p, p])
    steps = [Step(loss, 50)]
    exact = math.log(laws.truth("RR1"))
    bound = SaddlepointAccountant(steps, variant="clt").log_delta(3.2)
    assert bound.lower <= exact <= bound.upper


def test_heterogeneous_composition():
    # discrete Laplace with exp(-a) per unit and a shift by one: losses +-a, lattice 2a
    a = 0.05
    up = 1 / (1 + math.exp(-a))
    discrete = PrivacyLoss.from_atoms([a, -a], [up, 1 - up])
    steps = [
        Step(laws.subsampled_gaussian(0.01, 1.5), 2000),
        Step(laws.gaussian(30.0), 50),
        Step(discrete, 20),
    ]
    exact = math.log(laws.truth("HET1"))
    for variant in ("clt", "moments", "edgeworth"):
        bound = SaddlepointAccountant(steps, variant=variant).log_delta(1.0)
        assert bound.lower <= exact <= bound.upper
    shuffled = SaddlepointAccountant(steps[::-1], variant="clt").log_delta(1.0)
    straight = SaddlepointAccountant(steps, variant="clt").log_delta(1.0)
    assert shuffled.estimate == pytest.approx(straight.estimate, rel=1e-13)


def test_equal_steps_merge(cases):
    loss = cases["SGS1"][0]
    whole = SaddlepointAccountant([Step(loss, 3000)]).log_delta(1.0)
    parts = [Step(loss, 1000), Step(loss, 0), Step(loss, 2000)]
    assert SaddlepointAccountant(parts).log_delta(1.0) == whole


@pytest.mark.parametrize("variant", ["msd1", "clt", "moments", "edgeworth"])
def test_an_empty_composition_is_perfectly_private(variant):
    accountant = SaddlepointAccountant([Step(laws.gaussian(1.0), 0)], variant=variant)
    assert accountant.log_delta(0.0).upper == -math.inf
    below = accountant.log_delta(-1.0)
    assert below.lower <= math.log1p(-math.exp(-1.0)) <= below.upper


@pytest.mark.parametrize("variant", ["msd1", "clt", "moments"])
def test_outside_the_support_the_answer_is_exact(variant):
    accountant = SaddlepointAccountant([Step(laws.laplace(0.1), 20)], variant=variant)
    assert accountant.log_delta(2.1).upper == -math.inf
    assert accountant.log_delta(-2.1).estimate == pytest.approx(math.log1p(-math.exp(-2.1)))


@pytest.mark.parametrize("variant", ["clt", "moments"])
def test_bounds_decrease_in_epsilon(cases, variant):
    loss, count, _, _ = cases["SGS1"]
    accountant = SaddlepointAccountant([Step(loss, count)], variant=variant)
    uppers = [accountant.log_delta(float(e)).upper for e in np.linspace(-3.0, 6.0, 37)]
    assert (np.diff(uppers) <= 1e-12).all()


def test_negative_epsilon_keeps_the_trivial_bound(cases):
    loss, count, _, _ = cases["SGS1"]
    for variant in ("clt", "moments"):
        bound = SaddlepointAccountant([Step(loss, count)], variant=variant).log_delta(-2.0)
        assert bound.lower >= math.log1p(-math.exp(-2.0)) - 1e-12
        assert bound.upper <= 0.0


@pytest.mark.parametrize("variant", ["msd1", "clt", "moments", "edgeworth"])
def test_extremes_of_epsilon_are_settled(variant):
    accountant = SaddlepointAccountant([Step(laws.gaussian(1.0), 3)], variant=variant)
    for epsilon in (-math.inf, -1e308, -1e6, -40.0):
        bound = accountant.log_delta(epsilon)
        assert -5e-18 <= bound.lower <= bound.upper == 0.0
    assert accountant.log_delta(math.inf).upper == -math.inf


def test_all_mass_at_infinity():
    nothing = PrivacyLoss.from_atoms([], [], 1.0, 1.0)
    steps = [Step(nothing, 2), Step(laws.gaussian(1.0), 2)]
    for epsilon in (-1.0, 0.0, 50.0):
        assert SaddlepointAccountant(steps, variant="clt").log_delta(epsilon).lower == 0.0


def test_coarse_lattice_is_refused():
    steps = [Step(laws.randomized_response(0.5), 10)]
    with pytest.raises(UnsupportedError, match="lattice of step 1, too coarse"):
        SaddlepointAccountant(steps, variant="msd1").log_delta(2.0)


def test_a_strip_that_ends_is_respected():
    # N(0, 1) against N(0, s^2), s < 1: K is infinite from t = s^2/(1 - s^2) on
    s = 0.6
    end = s * s / (1 - s * s)
    x, w = laws.panels(np.linspace(-400.0, 400.0, 1600))
    loss = math.log(s) + 0.5 * x * x * (1 / s**2 - 1)
    log_p = -0.5 * x * x - 0.5 * math.log(2 * math.pi)
    wide = laws.law(loss, np.log(w) + log_p, (math.log(s), math.inf), strip=(-math.inf, end))
    for epsilon in (20.0, 60.0):
        bound = SaddlepointAccountant([Step(wide, 8)], variant="moments").log_delta(epsilon)
        t = 0.9 * end
        k = 8 * (-t * math.log(1 / s) - 0.5 * math.log(1 - t * (1 / s**2 - 1)))
        assert bound.upper <= k - t * epsilon + t * math.log(t) - (1 + t) * math.log1p(t) + 1e-9
        saddle = SaddlepointAccountant([Step(wide, 8)], variant="clt").log_delta(epsilon)
        assert 0 < saddle.detail["tilt"] < end


def test_no_exponential_moment_is_refused():
    loss = laws.law(*laws.gaussian(1.0).nodes(), (-math.inf, math.inf), strip=(-1.0, 0.0))
    with pytest.raises(UnsupportedError, match="no exponential moment"):
        SaddlepointAccountant([Step(loss, 3)], variant="moments").log_delta(1.0)


@pytest.mark.parametrize("options", [{"variant": "msd3"}, {"variant": "edgeworth", "order": 5}])
def test_unknown_options_are_named(options):
    with pytest.raises(DeclarationError, match="expected"):
        SaddlepointAccountant([], **options)


def test_steepest_descent_on_a_gaussian_integrand():
    # with K'' dominating, F is quadratic and order zero is exact up to 1/(K'' t^2)
    t, variance = 50.0, 1e6
    mean = 1.0
    epsilon = mean - 1 / t - 1 / (1 + t)
    cumulants = np.array([0.3, mean, variance, 0.0, 0.0, 0.0, 0.0])
    expected = 0.3 - epsilon * t - math.log(t * (1 + t)) - 0.5 * math.log(2 * math.pi * variance)
    assert steepest_descent(0, t, epsilon, cumulants) == pytest.approx(expected, abs=1e-8)
    assert steepest_descent(2, t, epsilon, cumulants) == pytest.approx(expected, abs=1e-8)


def test_an_order_belongs_to_the_edgeworth_variant(cases):
    with pytest.raises(DeclarationError, match="order=3"):
        ask(cases["SGK"], variant="msd1", order=3)
