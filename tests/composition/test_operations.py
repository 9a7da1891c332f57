"""Transformed mechanisms against formulas that know nothing of pairs by pieces."""

import math
from fractions import Fraction

import numpy as np
import pytest
from integrals import Pair, contour
from mpmath import mp, mpf
from scipy.stats import binom, norm
from sympy import Abs, exp

import mechc
from mechc.composition.operations import occurrences
from mechc.declare import additive, positive, real
from mechc.errors import DeclarationError, UnsupportedError


def hockey_stick(p, q, epsilon):
    """Sum of (p - e^epsilon q)_+ over outcomes."""
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


def gaussian_profile(distance, sigma, epsilon):
    mu = distance / sigma
    return norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2)


def contains(answer, truth, rtol=1e-9):
    assert answer.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= answer.upper
    assert answer.estimate == pytest.approx(truth, rel=rtol)


@pytest.mark.parametrize("epsilon", [-0.07, 0.03, 0.2])
def test_subset_by_the_amplified_profile(epsilon):
    """Balle, Barthe, Gaboardi 2018: h(a) = r H_a'(P||Q) with a = 1 + r (a' - 1), for a >= 1."""
    rate, scale = 0.2, 1.7
    event = mechc.without_replacement(mechc.load("laplace"), rate)(scale=scale, sensitivity=2.0)
    a = math.exp(abs(epsilon))
    base = math.log1p((a - 1) / rate)
    truth = rate * -math.expm1((base - 2.0 / scale) / 2)
    if epsilon < 0:
        truth = 1 - 1 / a + truth / a
    contains(event.delta(epsilon), truth)
    assert event.mechanism.claim["theorem"] == "T7"
    assert event.mechanism.claim["status"] == "proven"


def test_subset_of_integer_noise():
    rate, epsilon = 0.3, 0.05
    base = math.log1p(math.expm1(epsilon) / rate)
    n = np.arange(-400, 401)
    for move in (1, 2):
        noise = math.tanh(0.25) * np.exp(-0.5 * np.abs(n))
        moved = math.tanh(0.25) * np.exp(-0.5 * np.abs(n - move))
        event = mechc.without_replacement(mechc.load("discrete_laplace"), rate)
        truth = rate * hockey_stick(moved, noise, base)
        contains(event(a=0.5, sensitivity=move).delta(epsilon), truth)


@pytest.mark.slow
def test_subset_of_outcomes():
    rate, epsilon = 0.3, 0.05
    base = math.log1p(math.expm1(epsilon) / rate)
    event = mechc.without_replacement(mechc.load("randomized_response"), rate)
    likely, other = math.exp(1.0) / (math.exp(1.0) + 3), 1 / (math.exp(1.0) + 3)
    truth = rate * hockey_stick([likely, other, other, other], [other, likely, other, other], base)
    contains(event(epsilon=1.0, categories=4).delta(epsilon), truth)


def test_group_moves_further():
    event = mechc.group(mechc.load("gaussian"), 3)(sigma=2.0, sensitivity=0.5)
    contains(event.delta(0.4), gaussian_profile(1.5, 2.0, 0.4))
    assert event.mechanism.claim["theorem"] == "T1"


def test_group_of_a_composition():
    """n Gaussians between groups of k are one of deviation sigma that moves by k sqrt(n)."""
    gaussian, laplace = mechc.load("gaussian"), mechc.load("laplace")
    run = mechc.group(9 * gaussian(sigma=20.0) + 7 * gaussian(sigma=20.0, sensitivity=1.0), 3)
    contains(run.delta(0.4), gaussian_profile(12.0, 20.0, 0.4))
    assert mechc.group(2 * gaussian(sigma=3.0) + laplace(scale=4.0), 5) == (
        2 * mechc.group(gaussian, 5)(sigma=3.0) + mechc.group(laplace, 5)(scale=4.0)
    )


def test_group_on_a_sample_is_a_binomial_mixture():
    """The optimal set is a half line x > t with log-likelihood ratio epsilon at t."""
    rate, sigma, size, epsilon = 0.3, 1.3, 3, 0.5
    event = mechc.group(mechc.poisson(mechc.load("gaussian"), rate), size)(sigma=sigma)
    k = np.arange(size + 1)
    weights = binom(size, rate).pmf(k)

    def ratio(x):
        return math.log((weights * np.exp((2 * k * x - k**2) / (2 * sigma**2))).sum()) - epsilon

    lo, hi = -20.0, 20.0
    for _ in range(80):
        middle = 0.5 * (lo + hi)
        lo, hi = (middle, hi) if ratio(middle) < 0 else (lo, middle)
    truth = (weights * norm.sf((lo - k) / sigma)).sum() - math.exp(epsilon) * norm.sf(lo / sigma)
    contains(event.delta(epsilon, direction="remove"), truth)


@pytest.mark.parametrize(("sigma", "rest"), [(0.5, 1e-5), (2.0, 3e-6), (0.5, 1e-12)])
def test_group_on_a_sample_of_nearly_all(sigma, rest):
    """Weights (1 - rate)^3 have all their digits: that no record is there decides the largest loss.

    Expanded in powers of the rate they have none: 1.6e-26 was the upper bound on 1.4e-12.
    """
    event = mechc.group(mechc.poisson(mechc.load("gaussian"), 1.0 - rest), 3)(sigma=sigma)
    top = -3.0 * math.log(rest)
    with mp.workdps(60):
        r, s = mpf(1.0 - rest), mpf(sigma)
        weights = [mp.binomial(3, k) * r**k * (1 - r) ** (3 - k) for k in range(4)]

        def ratio(x):
            return mp.log(sum(w * mp.exp((2 * k * x - k * k) / (2 * s * s)) for k, w in
                              enumerate(weights)))  # fmt: skip

        for epsilon in (0.3, 10.0, top - 5.0, top - 0.1):
            lo, hi = -2000 * s * s, 2000 * s * s
            for _ in range(200):
                middle = (lo + hi) / 2
                lo, hi = (middle, hi) if ratio(middle) < -epsilon else (lo, middle)
            under_p = sum(w * mp.ncdf((lo - k) / s) for k, w in enumerate(weights))
            truth = mp.ncdf(lo / s) - mp.exp(epsilon) * under_p
            found = event.delta(epsilon, direction="add")
            assert found.lower <= truth <= found.upper
            assert found.upper <= truth * (1 + mpf(1e-7)) + mpf(1e-25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "rest", "size"),
    [(0.05, 1e-4, 2), pytest.param(0.03, 1e-5, 3, marks=pytest.mark.slow)],
)
def test_group_on_a_sample_of_nearly_all_where_the_loss_is_level(scale, rest, size):
    """The level losses of Laplace noise are logs of powers, multiplied out they lost all digits."""
    event = mechc.group(mechc.poisson(mechc.load("laplace"), 1.0 - rest), size)(scale=scale)
    with mp.workdps(60):
        r, s = mpf(1.0 - rest), mpf(scale)
        level = size * mp.log(1 - r + r * mp.exp(-1 / s))  # at all outputs below 0
        epsilon = float(-level) - 1e-3
        most = -mp.expm1(epsilon + level)  # if the loss were level everywhere, not on a half alone
        found = event.delta(epsilon, direction="add")
        assert found.lower <= most and most / 2 <= found.upper <= most * (1 + mpf(1e-6))


@pytest.mark.parametrize("delta", [6.8e-7, 0.3])
@pytest.mark.parametrize("rest", [2.0**-49, 1e-9])
def test_a_sample_of_nearly_all_of_what_is_known_by_epsilon_and_delta(delta, rest):
    """Masses keep the digits of (1 - delta)(1 - rate): 6e-19 was the upper bound on 1e-11."""
    event = mechc.poisson(mechc.load("approximate_dp"), 1.0 - rest)(epsilon=251.8, delta=delta)
    with mp.workdps(40):
        for gap in (1e-11, 1e-3):  # but for e^-251.8 all of Q has the largest loss
            epsilon = -math.log(rest) - gap
            truth = -mp.expm1(epsilon + mp.log(1 - mpf(1.0 - rest)))
            found = event.delta(epsilon, direction="add")
            assert found.lower <= truth <= found.upper <= truth + mpf(1e-11)


def test_shift_scales_the_sensitivity():
    event = mechc.shift(mechc.load("laplace"), 2.0)(scale=3.0)
    contains(event.delta(0.1), -math.expm1((0.1 - 2 / 3) / 2))


def test_truncation_turns_tails_into_mass_at_infinity():
    """Inside (-4, 5) the pair is as it was; outside, all of P counts."""
    event = mechc.truncate(mechc.load("gaussian"), -4.0, 5.0)(sigma=1.0)
    epsilon = 0.5
    threshold = epsilon + 0.5  # where L = x - 1/2 = epsilon
    truth = norm.cdf(4.0) - norm.cdf(threshold - 1)
    truth -= math.exp(epsilon) * (norm.cdf(5.0) - norm.cdf(threshold))
    truth += norm.cdf(-5.0) + norm.sf(4.0)
    contains(event.delta(epsilon, direction="remove"), truth)
    assert event.delta(epsilon).upper >= gaussian_profile(1.0, 1.0, epsilon)
    assert event.mechanism.claim["theorem"] == "T9"


@pytest.mark.slow
def test_with_replacement_by_the_contour_in_high_precision():
    event = mechc.with_replacement(mechc.load("gaussian"), dataset_size=20, batch_size=4)(sigma=1.5)
    weights = binom(4, 1 / 20).pmf(range(5))
    pair = Pair(_log_mixture(weights, 1), _log_mixture(weights, -1), (-math.inf, math.inf), 1.0)
    truth = math.exp(contour([(pair, 30)], 1.0))
    contains((30 * event).delta(1.0), truth)
    assert event.mechanism.claim["status"] == "declared"


def _log_mixture(weights, sign, sigma=1.5):
    from flint import arb

    def log_density(x):
        total = arb(0)
        for i, w in enumerate(weights):
            total += arb(float(w)) * (-((x - sign * i) ** 2) / (2 * arb(sigma) ** 2)).exp()
        return total.log() - (arb(sigma) * (2 * arb.pi()).sqrt()).log()

    return log_density


def test_many_occurrences_count_as_revealing_all():
    weights, lost = occurrences(4, 60)
    assert weights == pytest.approx(binom(60, 0.25).pmf(range(len(weights))), rel=1e-12)
    assert lost == pytest.approx(binom(60, 0.25).sf(len(weights) - 1), rel=1e-12)
    weights, lost = occurrences(10**6, 60)
    assert len(weights) < 10 and lost < 1e-30


def test_random_moves_on_the_integers():
    """A move listed twice, and moves out of order; log-concave masses prove T8."""
    event = mechc.random_sensitivity(
        mechc.load("discrete_laplace"), [3, 1, 2, 1], [0.2, 0.25, 0.3, 0.25]
    )(a=0.5)
    n = np.arange(-200, 201)
    masses = [math.tanh(0.25) * np.exp(-0.5 * np.abs(n - move)) for move in range(4)]
    mixed = 0.5 * masses[1] + 0.3 * masses[2] + 0.2 * masses[3]
    contains(event.delta(0.2, direction="remove"), hockey_stick(mixed, masses[0], 0.2))
    contains(event.delta(0.2, direction="add"), hockey_stick(masses[0], mixed, 0.2))
    claim = event.mechanism.claim
    assert (claim["status"], claim["theorem"]) == ("proven", "T8")
    with pytest.raises(DeclarationError, match=r"sensitivities_1=0\.5 is not an integer"):
        mechc.random_sensitivity(mechc.load("discrete_laplace"), [0.5], [1.0])(a=0.5)


@pytest.mark.slow
def test_random_moves_beside_noise_that_is_not_log_concave():
    """Cauchy noise: the pair is exact for these moves, and said to be for no others."""
    from scipy.optimize import brentq
    from scipy.stats import cauchy

    event = mechc.random_sensitivity(mechc.load("cauchy"), [1, 2], [0.5, 0.5])(scale=2.0)

    def excess(function, x):
        mixed = 0.5 * (function(x - 1, scale=2) + function(x - 2, scale=2))
        return mixed - math.exp(0.2) * function(x, scale=2)

    lo, hi = (brentq(lambda x: excess(cauchy.pdf, x), *ends) for ends in ((0, 2), (2, 60)))
    truth = excess(cauchy.cdf, hi) - excess(cauchy.cdf, lo)
    contains(event.delta(0.2, direction="remove"), truth)
    claim = event.mechanism.claim
    assert (claim["status"], claim["theorem"]) == ("declared", None)
    assert "by exactly sensitivities_i" in claim["assumptions"][0]
    assert "by exactly" in event.delta(0.2).claim.assumptions[0]


def test_shorter_random_moves_may_reveal_more_of_heavy_tails():
    """Why T8 asks for log-concave noise: of moves by 10 and 12 the longer one spreads the peak."""
    x = np.linspace(-400, 400, 800_001)

    def most_likely(*moves):
        return max(sum(0.5 / (1 + (x - m) ** 2) for m in moves) * (1 + x**2))

    assert most_likely(10.0, 10.0) > 101 > 90 > most_likely(10.0, 12.0)


@pytest.mark.slow
def test_lists_of_any_length():
    mixture = mechc.load("mixture_of_gaussians")
    one = mixture(sigma=2.0, sensitivities=[1.0], weights=[1.0])
    contains(one.delta(0.3), gaussian_profile(1.0, 2.0, 0.3))
    two = mechc.poisson(mechc.load("gaussian"), 0.25)(sigma=2.0)
    same = mixture(sigma=2.0, sensitivities=[0.0, 1.0], weights=[0.75, 0.25])
    listed = mixture(sigma=np.array(2.0), sensitivities=range(2), weights=np.array([0.75, 0.25]))
    assert listed == same
    for direction in ("remove", "add"):
        truth = two.delta(0.1, direction=direction)
        found = same.delta(0.1, direction=direction)
        assert found.lower <= truth.upper and truth.lower <= found.upper


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda g: mechc.group(g, 2.5), "size=2.5 is not an integer"),
        (lambda g: mechc.group(g, 0), "expected"),
        (lambda g: mechc.shift(g, -1.0), "factor=-1 is not positive"),
        (lambda g: mechc.without_replacement(g, 1.5), "sampling_rate"),
        (lambda g: mechc.with_replacement(g, dataset_size=0, batch_size=1), "dataset_size"),
        (lambda g: mechc.random_sensitivity(g, [1, 2], [0.5, 0.6]), "weights add up to"),
        (lambda g: mechc.random_sensitivity(g, [1], [0.5, 0.5]), "lists must have one length"),
        (lambda g: mechc.random_sensitivity(g, [1, 2], [1.5, -0.5]), r"numbers in \[0, 1\]"),
        (lambda g: mechc.random_sensitivity(g, [1, -2], [0.5, 0.5]), r"sensitivities\[1\]=-2"),
        (lambda g: g(sigma=[1.0, 2.0]), "no parameter is a list"),
        (lambda g: mechc.vector(g, "l3"), "expected one of l1, l2, linf"),
        (lambda g: mechc.vector(g, 2), "norm=2 is not known .expected one of l1, l2, linf"),
    ],
)
def test_bad_arguments(gaussian, bad, message):
    with pytest.raises(DeclarationError, match=message):
        bad(gaussian)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: mechc.poisson(mechc.load("randomized_response"), 0.1)(epsilon=1.0), "T6"),
        (lambda: mechc.without_replacement(mechc.load("gumbel"), 0.1)(scale=1.0), "T7"),
        (lambda: mechc.without_replacement(mechc.load("gaussian_scale"), 0.1)(sp=1, sq=2), "T7"),
        (lambda: mechc.group(mechc.load("pure_dp"), 2)(epsilon=1.0), r"additive\(\)"),
        (lambda: mechc.vector(mechc.load("cauchy"), "l1")(scale=1.0), "T3"),
        (lambda: mechc.vector(mechc.load("laplace"), "l2")(scale=1.0), "T3"),
        (lambda: mechc.vector(mechc.load("discrete_gaussian"), "l2")(sigma=1.0), "T3"),
        (lambda: mechc.vector(mechc.load("laplace"), "linf")(scale=1.0), "T3"),
        (
            lambda: mechc.truncate(mechc.load("pure_dp"), -1, 1)(epsilon=1.0),
            "densities on the line",
        ),
    ],
)
def test_what_no_theorem_licenses_is_refused_by_its_name(bad, message):
    with pytest.raises(UnsupportedError, match=message):
        bad()


def test_vectors_that_a_theorem_covers():
    for name, norm_name, value in (
        ("gaussian", "l2", {"sigma": 2.0}),
        ("laplace", "l1", {"scale": 2}),
    ):
        scalar = mechc.load(name)
        event = mechc.vector(scalar, norm_name)(**value)
        assert event.mechanism.claim["theorem"] == "T3"
        assert event.delta(0.2).estimate == pytest.approx(scalar(**value).delta(0.2).estimate)


def test_spreading_a_move_reveals_more_of_heavy_tails():
    """Why T3 asks for log-concave noise: Cauchy noise and an l1 sensitivity of 40."""
    cauchy = mechc.load("cauchy")
    along = cauchy(scale=1.0, sensitivity=40.0).delta(0.0)
    spread = (2 * cauchy(scale=1.0, sensitivity=20.0)).delta(0.0)
    assert along.upper < 0.9683 < 0.9858 < spread.lower


def test_integers_have_no_rotations():
    """Why T3 stops at densities: the discrete Gaussian moved by (1, 1)."""
    moved = (2 * mechc.load("discrete_gaussian")(sigma=0.3)).delta(0.0)
    assert moved.lower > 0.9923
    assert gaussian_profile(math.sqrt(2), 0.3, 0.0) < 0.9817


def test_sampling_a_subset_keeps_names_apart():
    event = mechc.poisson(mechc.load("laplace"), 0.5)(scale=1.0)
    assert list(event.parameters) == ["scale", "sensitivity", "sampling_rate"]
    subset = mechc.without_replacement(mechc.load("laplace")(scale=1.0, sensitivity=2.0), 0.5)
    assert subset.parameters["sampling_rate"] == 0.5


def test_the_product_of_two_gaussians_is_one_gaussian():
    gaussian = mechc.load("gaussian")
    both = mechc.product(gaussian(sigma=3.0), gaussian(sigma=4.0)).delta(0.3)
    one = gaussian(sigma=12.0 / 5.0).delta(0.3)  # mu^2 = 1/9 + 1/16
    assert both.lower <= one.upper and one.lower <= both.upper
    with pytest.raises(DeclarationError, match="neither an event nor a composition"):
        mechc.product(gaussian)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gaussian", {"sigma": 1.0, "sensitivity": 2.0}),
        ("discrete_laplace", {"a": 1.0, "sensitivity": 2}),
        ("randomized_response", {"epsilon": 1.0}),
    ],
)
def test_a_subset_of_all_records_is_the_mechanism_itself(name, values):
    event = mechc.load(name)(**values)
    whole = mechc.without_replacement(event, 1.0)
    for count in (1, 3):
        found, known = (count * whole).delta(0.5), (count * event).delta(0.5)
        assert found.lower <= known.upper and known.lower <= found.upper
        assert found.upper - found.lower <= 1e-10


@pytest.mark.parametrize("name", ["approximate_dp", "pure_dp", "randomized_response"])
def test_budgets_of_epsilon_zero(name):
    delta = {"delta": 1e-3} if name == "approximate_dp" else {}
    run = 7 * mechc.load(name)(epsilon=0.0, **delta)
    truth = -math.expm1(7 * math.log1p(-delta.get("delta", 0.0)))
    for epsilon in (0.0, 0.2):
        found = run.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-14) and truth <= found.upper
        assert found.upper - found.lower <= 1e-12


@pytest.mark.few(0)
@pytest.mark.parametrize("count", [1, 3])
def test_what_is_revealed_now_and_then_is_an_interval(count):
    """delta(eps) = 1 - .9^n + .9^n delta of n Gaussians: the table is one from above and below."""
    noise = mechc.load("gaussian")(sigma=1.0)
    run = count * mechc.mixture([noise], [0.9], revealing=0.1)
    most = 1.0 - 0.9**count
    for epsilon in (math.inf, 1e200, 60.0, 2.0, 0.5):
        hidden = 0.0 if epsilon > 1e100 else float((count * noise).delta(epsilon))
        bound, truth = run.delta(epsilon), most + 0.9**count * hidden
        assert bound.lower <= truth * (1.0 + 1e-12) and truth <= bound.upper * (1.0 + 1e-12)
        assert bound.upper - bound.lower < 0.02
    assert run.delta(-math.inf).upper == 1.0
    assert run.epsilon(most / 2).upper == math.inf
    assert not run.zcdp().lower > 0.0 or run.zcdp().lower == math.inf


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "values"), [("gumbel", {"scale": 1.3}), ("discrete_gaussian", {"sigma": 2.0})]
)
def test_all_records_under_replacement_are_both_shifts(name, values):
    """The kernel of the sample has moments for its middle: two uses were [1e-5, 1] for .65."""
    sampled = mechc.poisson(mechc.load(name), 1.0, adjacency="replace")(**values)
    twice = mechc.load(name)(**values, sensitivity=2)
    for direction in ("remove", "add"):
        found, whole = ((2 * e).delta(0.5, direction=direction) for e in (sampled, twice))
        assert (found.lower, found.upper) == (whole.lower, whole.upper)
        assert found.upper <= found.lower * (1.0 + 1e-6)


def test_the_mass_at_infinity_of_many_parts_is_rounded_once():
    """The log of a sum that is taken part by part is off by a rounding for each."""
    masses = np.random.default_rng(17).uniform(1e-4, 0.3, 256).tolist()
    events = [mechc.from_pmfs([mass, 1.0 - mass], [0.0, 1.0]) for mass in masses]
    found = mechc.mixture(events, [2.0**-8] * len(events)).delta(math.inf)
    assert Fraction(found.lower) <= sum(map(Fraction, masses)) / 256 <= Fraction(found.upper)


@pytest.mark.slow
def test_noise_that_depends_on_the_sensitivity_is_the_same_for_a_longer_move():
    """Doubling the parameter doubled the noise with the move: .0022 for .136 of a cut sample."""
    x, eps = real("x"), positive("eps", typical=(0.5, 3))
    moved = positive("sensitivity", default=1, typical=(0.5, 3))
    density = eps / (2 * moved) * exp(-Abs(x) * eps / moved)
    own = mechc.load(additive("own", noise=density, variable=x, sensitivity=moved,
                              parameters=(eps, moved)))  # fmt: skip
    laplace = mechc.load("laplace")
    sizes = {"sampling_rate": 0.5, "dataset_size": 40, "batch_cap": 15}
    cases = [
        (lambda m, e: mechc.reductions.truncated_poisson(e, **sizes), 0.5),
        (lambda m, e: mechc.poisson(e, 1.0, "replace"), 1.0),
        (lambda m, e: mechc.random_sensitivity(e, [0.0, 1.0], [0.5, 0.5]), 0.5),
        (lambda m, e: mechc.group(e, 2), 0.5),
    ]
    for change, at in cases:
        found = change(own, own(eps=4.0, sensitivity=2.0)).delta(at)
        truth = change(laplace, laplace(scale=0.5, sensitivity=2.0)).delta(at)
        assert found.upper == pytest.approx(truth.upper, rel=1e-9) and truth.upper > 1e-3


def test_a_distance_left_at_its_default_is_seen_whatever_its_name_is():
    """Laplace noise was refused beside replacement, and this was taken at half the truth."""
    x, scale = real("x"), positive("scale", typical=(0.5, 3))
    clip = positive("clip", default=1, typical=(0.5, 3))
    density = exp(-Abs(x) / scale) / (2 * scale)
    for distance in (clip, 2 * clip):
        own = mechc.load(additive("own", noise=density, variable=x, sensitivity=distance,
                                  parameters=(scale, clip)))  # fmt: skip
        gaussian = mechc.load("gaussian")
        replaced = mechc.without_replacement(gaussian)(
            sigma=1.0, sensitivity=2.0, sampling_rate=0.1
        )
        grouped = mechc.group(gaussian, 3)(sigma=5.0, sensitivity=1.0)
        for other in (replaced, grouped):
            with pytest.raises(DeclarationError, match="has the default sensitivity"):
                own(scale=1.0) + other
            assert (own(scale=1.0, clip=1.0) + other).count == 2
        with pytest.raises(DeclarationError, match="has the default sensitivity"):
            mechc.mixture([own(scale=1.0)], [1.0]) + replaced
        twice = own(scale=1.0, clip=1.0) + own(scale=1.0)
        assert twice.parts[0][0].defaulted == {"clip"}


def test_a_default_distance_stays_known_beside_other_defaults():
    """Of one event twice it was forgotten if the scale was left in the one, and came first."""
    x, scale, clip = real("x"), positive("scale", default=1), positive("clip", default=1)
    density = exp(-Abs(x) / scale) / (2 * scale)
    own = mechc.load(additive("own", noise=density, variable=x, sensitivity=clip,
                              parameters=(scale, clip)))  # fmt: skip
    grouped = mechc.group(mechc.load("gaussian"), 3)(sigma=5.0, sensitivity=1.0)
    events = own(clip=1.0), own(scale=1.0)
    for twice in (mechc.compose(*events), mechc.compose(*events[::-1])):
        with pytest.raises(DeclarationError, match="has the default sensitivity"):
            twice + grouped
