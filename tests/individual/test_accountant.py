"""Individual accountant against closed forms, ball arithmetic and exact atoms."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr
from sympy import exp, pi, sqrt

import mechc
from mechc.declare import mechanism, positive, real
from mechc.errors import DeclarationError, UnsupportedError
from mechc.individual import IndividualAccountant, StateError
from mechc.individual.budget import log_target
from mechc.individual.family import Family
from mechc.individual.ledger import Journal
from mechc.loss.privacy_loss import PrivacyLoss

SPAN = (0.5, 50.0)


@pytest.fixture(scope="module")
def gaussian():
    return Family.of(mechc.load("gaussian"), "sigma", (2.0, 200.0))


@pytest.fixture(scope="module")
def sampled():
    return Family.of(mechc.poisson(mechc.load("gaussian"), 0.01), "sigma", SPAN)


def accountant(family, people, **options):
    return IndividualAccountant(family, parameter="sigma", people=people, **options)


def gaussian_epsilon(mu, delta):
    """Epsilon of mu-GDP in 40 digits, where log delta is what it is to be."""
    with mpmath.workdps(40):
        m = mpmath.mpf(mu)

        def excess(e):
            above = mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
            return mpmath.log(above / delta)

        return float(mpmath.findroot(excess, m * m / 2 + 4 * m))


def test_gaussian_steps_add_up_to_a_gaussian(gaussian):
    """Random adaptive steps of the plain Gaussian mechanism have a closed form."""
    rng = np.random.default_rng(0)
    acc = accountant(gaussian, 20)
    steps = np.exp(rng.uniform(math.log(3), math.log(150), (30, 20)))
    steps[rng.random(steps.shape) < 0.2] = np.inf
    for row in steps:
        acc.step(row)
    mu = np.sqrt((steps**-2.0).sum(axis=0))
    bound = acc.epsilon(1e-6)
    exact = np.array([gaussian_epsilon(m, 1e-6) for m in mu])
    assert bound.status.startswith("proven")
    assert bound.detail["within_rtol"]
    assert (bound.lower <= exact).all() and (exact <= bound.upper).all()
    assert np.allclose(bound.upper, exact, rtol=1e-4, atol=0)
    assert np.allclose(bound.estimate, exact, rtol=2e-6, atol=0)
    back = acc.delta(float(exact[0]), rows=[0], rtol=1e-3)
    assert back.lower[0] <= 1e-6 <= back.upper[0] <= 1e-6 * 1.001


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["SGK_rem", "SGS1_rem", pytest.param("SGS3_rem", marks=pytest.mark.slow)]
)
def test_sampled_gaussian_against_ball_arithmetic(sampled, name):
    """Values of delta computed with two independent arbitrary-precision methods."""
    sigma, count, epsilon, delta = {
        "SGK_rem": (1.5, 10_000, 1.0, 0.04960141031482577560),
        "SGS1_rem": (2.0, 3000, 1.0, 4.648530662351804e-05),
        "SGS3_rem": (2.0, 3000, 3.0, 9.45180165423610089964e-24),
    }[name]
    # on contours shared by everybody but below 1e-18, where people are composed one by one
    acc = accountant(sampled, 2, **({"mesh": 0} if delta > 1e-18 else {}))
    acc.step([sigma, np.inf], count=count)
    bound = acc.delta(epsilon)
    assert bound.lower[0] <= delta <= bound.upper[0]
    assert bound.upper[0] <= delta * (1 + 1e-3)
    assert bound.lower[1] == bound.upper[1] == 0.0
    at = acc.epsilon(delta)
    assert at.lower[0] <= epsilon <= at.upper[0] <= epsilon * (1 + 1e-4)
    assert at.upper[1] == 0.0


def test_hard_people_are_answered_from_the_journal(sampled):
    """Low noise and sparse sampling: one person's buckets alone would leave a percent."""
    rng = np.random.default_rng(3)
    acc = accountant(sampled, 60, rtol=1e-3, buckets=24)
    plain = accountant(sampled, 60, rtol=1e-3, buckets=24, journal=0)
    steps = np.exp(rng.uniform(math.log(0.9), math.log(3), (10, 60)))
    for row in steps:
        for a in (acc, plain):
            a.step(row, count=100)
    bound, coarse = acc.epsilon(1e-5), plain.epsilon(1e-5)
    assert bound.detail["within_rtol"] and bound.detail["meshed"] > 0
    assert coarse.detail["meshed"] == 0 and not coarse.detail["within_rtol"]
    assert (coarse.lower <= bound.lower).all() and (bound.upper <= coarse.upper).all()
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    for person in range(3):
        run = mechc.compose(*((mechanism(sigma=float(s)), 100) for s in steps[:, person]))
        assert run.epsilon(1e-5).lower <= bound.upper[person]
        assert run.epsilon(1e-5).upper >= bound.lower[person]


def test_people_whose_chernoff_bound_is_far_off_are_found(sampled):
    """The wide steps of this person make the first guess 1.19; the answer is 0.747."""
    steps = [1.459, 1.537, 1.723, 1.831, 2.321, 2.61, 3.853, 9.121]
    acc = accountant(sampled, 1, rtol=1e-3, mesh=0)
    for sigma in steps:
        acc.step([sigma], count=125)
    bound = acc.epsilon(1e-6)
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    exact = mechc.compose(*((mechanism(sigma=s), 125) for s in steps)).epsilon(1e-6)
    assert bound.detail["within_rtol"]
    assert bound.lower[0] <= exact.upper and exact.lower <= bound.upper[0]


@pytest.mark.slow
def test_repeated_settings_are_sharp_without_a_journal_at_both_ends_of_the_span():
    """Little noise fades late on a contour; next to the last knot splines have to be continued."""
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    sigma = np.geomspace(1.05, 60.0, 64)
    about = {"parameter": "sigma", "people": sigma.size, "span": (1.05, 60.0), "journal": 0}
    accountant = IndividualAccountant(mechanism, **about)
    accountant.step(sigma, count=1000)
    bound = accountant.epsilon(1e-6)
    assert (bound.detail["relative_width"] <= 1e-4).all()
    for i in (0, 1, 2, 3, 10, 30, 61, 62, 63):
        run = (1000 * mechanism(sigma=float(sigma[i]))).epsilon(1e-6)
        assert bound.lower[i] <= run.upper and run.lower <= bound.upper[i]


def test_a_contour_on_which_rare_large_losses_weigh_is_left_for_a_lower_one():
    """One step in a hundred tells who took part: phi hardly decays where its losses are likely."""
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    settings = np.geomspace(1.05, 60.0, 64)
    taken = settings[np.random.default_rng(5).integers(0, 64, (64, 40))]
    about = {"parameter": "sigma", "people": 40, "span": (1.05, 60.0), "mesh": 0}
    people = IndividualAccountant(mechanism, settings=settings, **about)
    for row in taken:
        people.step(row)
    bound = people.epsilon(1e-6)
    assert bound.detail["relative_width"].max() <= 1e-4
    run = mechc.compose(*(mechanism(sigma=v) for v in taken[:, 13].tolist())).epsilon(1e-6)
    assert bound.lower[13] <= run.upper and run.lower <= bound.upper[13]


@pytest.mark.slow
def test_of_many_people_a_few_stay_wider_on_a_contour_but_not_without_an_answer():
    """Rare large losses again; up to .09 they were."""
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    settings, rng = np.geomspace(1.05, 60.0, 64), np.random.default_rng(5)
    about = {"parameter": "sigma", "people": 2000, "span": (1.05, 60.0), "mesh": 0}
    crowd = IndividualAccountant(mechanism, settings=settings, **about)
    own = rng.integers(9, 15, 2000)
    for _ in range(50):
        near = own + np.rint(3.0 * rng.standard_normal(2000)).astype(int)
        crowd.step(settings[np.clip(near, 0, 63)], count=20)
    assert crowd.epsilon(1e-6).detail["relative_width"].max() <= 1e-3


def test_listed_settings_are_counted_as_they_are(gaussian, tmp_path):
    """Far apart, so that any rounding or interpolation would be seen; also one alone."""
    settings = np.array([150.0, 3.0, 4.5, 40.0])
    acc, rng = accountant(gaussian, 40, settings=settings), np.random.default_rng(4)
    taken = rng.integers(0, 4, (25, 40))
    for row in taken:
        acc.step(settings[row])
    acc.step((np.array([7]), np.array([3.0])), count=9)
    mu = np.sqrt((settings[taken] ** -2.0).sum(axis=0) + 9.0 / 9.0 * (np.arange(40) == 7))
    bound = acc.epsilon(1e-6)
    exact = np.array([gaussian_epsilon(m, 1e-6) for m in mu])
    assert (bound.lower <= exact).all() and (exact <= bound.upper).all()
    assert bound.detail["within_rtol"] and np.allclose(bound.estimate, exact, rtol=2e-6, atol=0)
    assert acc.cost(rows=[0, 1]).seconds > 0.0
    acc.save(tmp_path / "ledger")
    back = accountant(gaussian, 40, settings=settings)
    back.restore(tmp_path / "ledger")
    assert (back.epsilon(1e-6, rows=[7]).upper == bound.upper[7]).all()
    with pytest.raises(StateError, match="listed"):
        accountant(gaussian, 40, settings=[3.0, 4.0, 40.0, 150.0]).restore(tmp_path / "ledger")
    with pytest.raises(DeclarationError, match="none of the settings"):
        acc.step(np.full(40, 4.4))
    with pytest.raises(DeclarationError, match="settings"):
        accountant(gaussian, 2, settings=[1.0, 4.0])
    for wrong in ([0.0, 4.0], [3.0, math.nan], []):
        with pytest.raises(DeclarationError, match="settings"):
            IndividualAccountant("gaussian", parameter="sigma", people=2, settings=wrong)
    with pytest.raises(DeclarationError, match="span=None"):
        IndividualAccountant("gaussian", parameter="sigma", people=2)
    alone = IndividualAccountant("gaussian", parameter="sigma", people=2, settings=[3.0])
    alone.step(np.array([3.0, np.inf]), count=4)
    found, exact = alone.epsilon(1e-6), gaussian_epsilon(2.0 / 3.0, 1e-6)
    assert found.lower[0] <= exact <= found.upper[0] and found.upper[1] == 0.0


def test_buckets_as_in_the_paper_enclose_and_plancherel_estimates_them(gaussian):
    acc = accountant(gaussian, 3, splines=False, buckets=256, spacing="linear")
    sigmas = np.array([20.3, 31.7, 77.0])
    for _ in range(10):
        acc.step(sigmas)
    bound = acc.epsilon(1e-5)
    assert bound.status == "proven; wider than rtol for 3 of 3 (relative_width)"
    exact = np.array([gaussian_epsilon(math.sqrt(10) / s, 1e-5) for s in sigmas])
    assert (bound.lower <= exact).all() and (exact <= bound.upper).all()
    assert (bound.upper / bound.lower < 1.06).all()
    knots = acc.grid.knots
    safe = knots[np.searchsorted(knots, sigmas, side="right") - 1]
    rounded = np.array([gaussian_epsilon(math.sqrt(10) / s, 1e-5) for s in safe])
    assert np.allclose(bound.upper, rounded, rtol=1e-5)
    fft = acc.epsilon(1e-5, method="plancherel")
    assert fft.status == "estimate" and np.isnan(fft.upper).all()
    assert np.allclose(fft.estimate, rounded, rtol=1e-3)
    delta = acc.delta(0.5, method="plancherel").estimate
    assert np.allclose(delta[0], acc.delta(0.5).upper[0], rtol=1e-3)


@pytest.mark.slow
def test_bounds_hold_where_no_contour_serves():
    """Losses of a thousand, deltas smaller than doubles, epsilons whose exponential is infinite."""
    made = mechc.load("gaussian")
    acc = IndividualAccountant(made, parameter="sigma", people=3, span=(0.03, 2.0), mesh=0)
    sigmas = np.array([0.04, 0.4, np.inf])
    acc.step(sigmas, count=2)
    bound, mus = acc.epsilon(1e-6), math.sqrt(2) / sigmas[:2]
    exact = np.array([gaussian_epsilon(mu, 1e-6) for mu in mus])
    assert (bound.lower[:2] <= exact).all() and (exact <= bound.upper[:2]).all()
    assert bound.upper[2] == 0.0
    for epsilon in (1.0, 400.0, 1e3, 1e4):
        found = acc.delta(epsilon)
        assert found.upper[2] == 0.0
        for mu, low, high in zip(mus, found.lower, found.upper, strict=False):
            with mpmath.workdps(40):
                m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
                tail = mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
                assert low <= mpmath.ncdf(-e / m + m / 2) - tail <= high
    assert (acc.delta(1e200).upper[:2] > 0.0).all()


def test_plancherel_reads_spline_weights_as_counts(gaussian):
    acc = accountant(gaussian, 3)
    acc.step([21.0, 33.0, 1e9], count=400)
    found = acc.epsilon(1e-5, method="plancherel").estimate
    bound = acc.epsilon(1e-5)
    assert np.allclose(found[:2], bound.estimate[:2], rtol=1e-2)
    assert 0.0 < found[2] < 1.01 * bound.upper[2]


def test_renyi_is_the_conversion_of_the_sum_of_divergences(gaussian):
    acc = accountant(gaussian, 1)
    acc.step([10.0], count=50)
    bound = acc.epsilon(1e-5, method="renyi")
    mu2 = 50 / 100
    t = np.geomspace(0.05, 500, 100_000)
    best = (t * (t + 1) * mu2 / 2 + t * np.log(t) - (1 + t) * np.log1p(t) - math.log(1e-5)) / t
    assert best.min() <= bound.upper[0] <= best.min() * 1.002
    assert bound.upper[0] > acc.epsilon(1e-5).upper[0]
    assert np.isnan(bound.lower).all()


def test_noise_beyond_the_span_counts_as_its_end(gaussian):
    acc = accountant(gaussian, 2, journal=0)
    acc.step([10.0, 10.0], count=20)
    acc.step([1e9, np.inf], count=20)
    bound = acc.epsilon(1e-6)
    without = gaussian_epsilon(math.sqrt(20) / 10, 1e-6)
    capped = gaussian_epsilon(math.sqrt(20 / 100 + 20 / 200**2), 1e-6)
    assert bound.lower[0] <= without and capped <= bound.upper[0] <= capped * (1 + 1e-4)
    assert bound.lower[1] <= without <= bound.upper[1]


def test_more_loss_than_the_end_of_the_span_is_refused_however_little():
    """Counted at the end, delta at 3 was 7e-10 of it below the truth after 100 steps."""
    acc = IndividualAccountant(
        "gaussian", parameter="sigma", people=1, span=(100.0, 400.0), splines=False, mesh=0
    )
    with pytest.raises(DeclarationError, match="outside the span"):
        acc.step([100.0 * (1.0 - 0.95e-12)], count=100)
    acc.step([100.0], count=100)


def test_parameters_that_grow_with_the_loss_run_the_other_way():
    """Randomised response: binary epsilon-DP steps, exact by counting atoms."""
    acc = IndividualAccountant(
        mechc.load("pure_dp"), parameter="epsilon", people=2, span=(0.001, 0.5), buckets=16
    )
    assert acc.family.untouched == 0.0 and acc.grid.worst == 0.5
    acc.step([0.1, 0.0], count=40)
    bound = acc.delta(0.5)
    p = math.exp(0.1) / (1 + math.exp(0.1))
    exact = sum(
        math.comb(40, i) * p**i * (1 - p) ** (40 - i) * -math.expm1(0.5 - 0.1 * (2 * i - 40))
        for i in range(41)
        if 0.1 * (2 * i - 40) > 0.5
    )
    assert bound.lower[0] <= exact <= bound.upper[0]
    assert bound.upper[1] == 0.0


def test_one_setting_of_a_parameter_that_grows_with_the_loss():
    """Nobody is left out by an infinite sensitivity, and by none everybody may be."""
    acc = IndividualAccountant(
        mechc.load("laplace").bind(scale=5.0),
        parameter="sensitivity", people=2, settings=[0.5],
    )  # fmt: skip
    with pytest.raises(DeclarationError, match="outside the span"):
        acc.step([math.inf, 0.5])
    acc.step([0.0, 0.5])
    bound, exact = acc.epsilon(1e-3), mechc.load("laplace")(scale=10.0).epsilon(1e-3)
    assert bound.upper[0] == 0.0 and bound.lower[1] <= exact.upper and exact.lower <= bound.upper[1]


@pytest.mark.slow
def test_losses_too_large_for_any_tilt_have_no_bound():
    """Epsilon is about 1 / (2 sigma^2) for so little noise; memory that was not there said 1e-310.

    No tilt is small enough for a law of losses of 1e4 and more.
    """
    acc = IndividualAccountant(
        "gaussian", parameter="sigma", people=2, span=(0.005, 0.0051), mesh=0, splines=False,
        buckets=4,
    )  # fmt: skip
    acc.step([0.00505, math.inf])
    bound = acc.epsilon(1e-6)
    assert bound.upper[0] > 0.5 / 0.00505**2 and bound.upper[1] == 0.0
    assert acc.delta(1e4).upper[0] > 1.0 - 1e-15


def test_questions_between_doubles_are_rounded_to_the_side_of_more_loss():
    """Next to the largest loss, 1, of randomised response delta is (e - e^epsilon) / (1 + e)."""
    acc = IndividualAccountant(
        "randomized_response", parameter="epsilon", people=1, settings=[0.5, 1.0]
    )
    acc.step([1.0])
    asked = 1 - np.longdouble(2) ** -55  # the nearest double is 1
    left = (1 - asked) * math.e / (1.0 + math.e)
    assert left == 0.0 or acc.delta(asked).upper[0] >= left
    assert log_target(np.longdouble(1e-6) * (1 + np.longdouble(2) ** -54)).delta == 1e-6
    assert log_target(np.longdouble(1e-6) * (1 - np.longdouble(2) ** -54)).delta < 1e-6 or not left


def test_a_family_without_an_order_is_refused():
    def law(value, direction):
        p, rare = 0.5 + 0.4 / value, 1e-3 * min(value, 9.0)  # a shrinking bulk, a growing tail
        masses = np.array([p, 1 - p, 0]) * (1 - rare) + [0, 0, rare]
        q_masses = np.array([1 - p, p, 0]) * (1 - 1e-4 * rare) + [0, 0, 1e-4 * rare]
        return PrivacyLoss.from_atoms(np.log(masses / q_masses), masses)

    with pytest.raises(UnsupportedError, match="without an order no side of a grid is safe"):
        Family("crossing", "value", law, ("remove",), (1.0, 50.0))


@pytest.mark.parametrize("splines, where", [(True, "at some epsilon"), (False, "the moment of")])
def test_an_order_that_breaks_between_the_members_compared_is_refused(splines, where):
    """Thirty-two waves, of which the family's own check sees no more than where each begins."""

    def law(value, direction):
        wave = math.sin(64.0 * math.pi * math.log(value) / math.log(10.0))
        loss = (1.0 + 0.05 * wave) / value  # of randomised response
        masses = np.array([1.0, math.exp(loss)]) / (1.0 + math.exp(loss))
        return PrivacyLoss.from_atoms(np.array([-loss, loss]), masses)

    wavy = Family("wavy", "value", law, ("remove",), (1.0, 10.0))
    about = {"people": 1, "buckets": 96, "splines": splines, "mesh": 0}
    acc = IndividualAccountant(wavy, parameter="value", **about)
    acc.step([3.0], count=20)
    with pytest.raises(UnsupportedError, match=f"{where}.*no side of a grid is safe"):
        acc.epsilon(1e-3)


def test_discrete_gaussian_noise_has_no_order_and_its_people_are_composed():
    """Losses are (2 k - 1) / (2 sigma^2): where one falls below epsilon, delta rises with sigma."""
    x, epsilon = np.arange(-40.0, 41.0), 5.185
    q = {s: np.exp(-(x**2) / (2 * s * s)) for s in (1.03, 1.04)}
    p = {s: np.exp(-((x - 1) ** 2) / (2 * s * s)) / w.sum() for s, w in q.items()}
    deltas = [np.maximum(p[s] - math.exp(epsilon) * w / w.sum(), 0).sum() for s, w in q.items()]
    assert deltas[1] > 1.2 * deltas[0]

    noise, steps = mechc.load("discrete_gaussian"), np.array([[1.0, 1.03, 2.0, 3.0]] * 2)
    for journal in (1 << 20, 0):
        about = {"people": 2, "span": (1.0, 30.0), "buckets": 8, "journal": journal}
        acc = IndividualAccountant(noise, parameter="sigma", **about)
        for values in steps.T * np.array([1.0, 2.0]):
            acc.step(values)
        if not journal:
            with pytest.raises(UnsupportedError, match="no side of a grid is safe"):
                acc.epsilon(1e-6)
            continue
        bound = acc.epsilon(1e-6)
        for factor, lower, upper in zip((1.0, 2.0), bound.lower, bound.upper, strict=True):
            run = mechc.compose(*(noise(sigma=factor * s) for s in steps[0].tolist()))
            exact = run.epsilon(1e-6)
            assert lower <= exact.lower <= exact.upper <= upper <= 1.01 * exact.upper


def test_a_pair_of_its_own_for_adding_is_ordered_as_well():
    """Of 10 / s in the add direction more s is less noise, whatever it is in the other."""
    x, s = real("x"), positive("s", typical=(1, 10))

    def noise(centre, scale):
        return exp(-((x - centre) ** 2) / (2 * scale**2)) / (sqrt(2 * pi) * scale)

    pairs = [(noise(1, scale), noise(0, scale)) for scale in (s, 10 / s)]
    (p, q), other = pairs
    odd = mechanism("odd", variable=x, p=p, q=q, reverse=other, parameters=(s,))
    with pytest.raises(UnsupportedError, match="without an order no side of a grid is safe"):
        IndividualAccountant(odd, parameter="s", people=2, span=(1.0, 20.0), buckets=4)


def test_a_step_that_the_journal_missed_counts(gaussian, monkeypatch):
    acc = accountant(gaussian, 1, rtol=1e-3)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(Journal, "add", interrupted)
        acc.step([5.0], count=20)
    assert acc.steps == 20
    assert acc.epsilon(1e-6).upper[0] >= gaussian_epsilon(math.sqrt(20) / 5, 1e-6)


def test_mass_at_infinite_loss_is_refused():
    with pytest.raises(UnsupportedError, match="individual accounting does not follow"):
        IndividualAccountant(
            mechc.load("uniform"), parameter="halfwidth", people=2, span=(2.0, 50.0)
        )


def test_saving_restoring_and_asking_for_some(gaussian, tmp_path):
    acc = accountant(gaussian, 12, rtol=1e-3)
    acc.step(np.linspace(5, 100, 12), count=300)
    acc.save(tmp_path / "ledger")
    other = accountant(gaussian, 12, rtol=1e-3)
    other.restore(tmp_path / "ledger")
    assert other.steps == 300
    acc.delta(3.0)  # what was asked before does not matter
    here, there = acc.epsilon(1e-6), other.epsilon(1e-6)
    assert np.array_equal(
        [here.lower, here.estimate, here.upper], [there.lower, there.estimate, there.upper]
    )
    rows = [7, 3, 11]
    some = acc.epsilon(1e-6, rows=rows)
    assert np.allclose(some.upper, acc.epsilon(1e-6).upper[rows], rtol=1e-3)
    for wrong in (accountant(gaussian, 11), accountant(gaussian, 12, buckets=32)):
        with pytest.raises(StateError, match="expected"):
            wrong.restore(tmp_path / "ledger")
        assert wrong.steps == 0


def test_a_ledger_is_not_that_of_another_pair_of_the_same_name(tmp_path):
    removed, replaced = (
        accountant(
            mechc.poisson(mechc.load("gaussian"), 0.05, a), 1, splines=False, span=SPAN, buckets=4
        )
        for a in ("add_remove", "replace")
    )
    assert removed.family.name == replaced.family.name
    removed.save(tmp_path / "ledger")
    with pytest.raises(StateError, match="family"):
        replaced.restore(tmp_path / "ledger")


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.epsilon(0.0),
        lambda a: a.epsilon(1.0),
        lambda a: a.epsilon(math.nan),
        lambda a: a.epsilon("1e-6"),
        lambda a: a.epsilon(None),
        lambda a: a.epsilon(1e-6, rtol="1e-4"),
        lambda a: a.take_back([10.0], [0]),
        lambda a: a.delta(-1.0),
        lambda a: a.delta(math.inf),
        lambda a: a.epsilon(1e-6, rows=[2]),
        lambda a: a.epsilon(1e-6, rows=[0.5]),
        lambda a: a.epsilon(1e-6, rows=np.empty(0, np.int64)),
        lambda a: a.take_back([10.0, 10.0], [0]),
        lambda a: a.epsilon(1e-6, progress=3),
        lambda a: a.epsilon(1e-6, method="guess"),
        lambda a: a.step([1.0, 1.0]),
        lambda a: a.step([10.0, math.nan]),
        lambda a: a.step([10.0, 10.0], count=0),
    ],
)
def test_bad_questions_and_steps_are_refused(gaussian, call):
    acc = accountant(gaussian, 2)
    with pytest.raises((DeclarationError, UnsupportedError)):
        call(acc)
    assert acc.steps == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"parameter": "scale"},
        {"span": (0.0, 1.0)},
        {"span": (2.0, 1.0)},
        {"span": (1.0, math.inf)},
        {"span": (1, 10**400)},
        {"span": "29"},
        {"rtol": 0.0},
        {"people": 0},
        {"buckets": 2},
    ],
)
def test_bad_accountants_are_refused(arguments):
    options = {"parameter": "sigma", "people": 2, "span": (2.0, 20.0), **arguments}
    with pytest.raises(DeclarationError):
        IndividualAccountant(mechc.load("gaussian"), **options)


@pytest.mark.parametrize("people", [6, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_sequences_are_never_under_reported(sampled, people):
    """Upper bounds hold for the unbucketed sequences, and are within 1e-3 after refinement."""
    rng = np.random.default_rng(11)
    distinct, repeats = 8, 125
    acc = accountant(sampled, people, rtol=1e-3, mesh=0)
    low = np.exp(rng.uniform(math.log(1.0), math.log(15), people))
    steps = np.minimum(low * np.exp(rng.exponential(0.5, (distinct, people))), 49.0)
    for row in steps:
        acc.step(row, count=repeats)
    bound = acc.epsilon(1e-6)
    assert bound.detail["within_rtol"]
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    for person in range(people):
        run = mechc.compose(*((mechanism(sigma=float(s)), repeats) for s in steps[:, person]))
        # delta(upper) <= 1e-6 says that epsilon(1e-6) <= upper, without a search
        exact = run.delta(float(bound.upper[person]))
        assert float(exact.lower) <= 1e-6
        below = run.delta(float(bound.upper[person]) * (1 - 1e-3))
        assert float(below.upper) >= 1e-6


def test_sensitivity_may_be_what_differs_between_people():
    """Noise of deviation b at sensitivity s is noise of deviation b / s at sensitivity one."""
    gaussian = mechc.load("gaussian")
    with pytest.raises(DeclarationError, match=r"gaussian: sigma has no value .*bind\(sigma"):
        Family.of(gaussian, "sensitivity", (0.1, 1.0))
    bound = gaussian.bind(sigma=5.0)
    acc = IndividualAccountant(
        bound, parameter="sensitivity", people=3, span=(0.1, 1.0), buckets=8, rtol=1e-3
    )
    acc.step([1.0, 0.25, 0.0], count=3)
    found = acc.epsilon(1e-5)
    for person, sigma in enumerate([5.0, 20.0]):
        run = (3 * gaussian(sigma=sigma)).epsilon(1e-5)
        assert found.lower[person] <= run.upper and run.lower <= found.upper[person]
        assert found.upper[person] <= run.upper * (1 + 1e-3)
    assert found.upper[2] == 0.0


def test_parameters_are_bound_one_by_one():
    laplace = mechc.load("laplace")
    assert laplace.bind(scale=3.0)(sensitivity=2.0).theta == laplace(scale=3, sensitivity=2).theta
    for wrong in ({"scale": 2.0}, {"width": 1.0}, {"sensitivity": -1.0}, {"sensitivity": "2"}):
        with pytest.raises(DeclarationError, match=r"laplace: (scale|width|sensitivity)"):
            laplace.bind(scale=3.0).bind(**wrong)


def test_only_the_last_step_is_taken_back_and_once(gaussian):
    """Totals alone do not tell a step from the one before it."""
    acc = accountant(gaussian, 2)
    for values in ([4.0, 8.0], [4.0, 4.0]):
        acc.step(values)
    with pytest.raises(DeclarationError, match="not those of the last step"):
        acc.take_back([4.0, 8.0], [1])
    acc.take_back([4.0, 4.0], [0])
    with pytest.raises(DeclarationError, match="not those of the last step"):
        acc.take_back([4.0, 4.0], [0])
    kept = accountant(gaussian, 2)
    for values in ([4.0, 8.0], [math.inf, 4.0]):
        kept.step(values)
    assert np.array_equal(acc.epsilon(1e-6).upper, kept.epsilon(1e-6).upper)


@pytest.mark.parametrize(
    "wrong",
    [
        {"buckets": "64"},
        {"buckets": 64.5},
        {"journal": -1},
        {"rtol": "1"},
        {"rtol": 0.0},
        {"spacing": "cubic"},
        {"spacing": np.arange(3)},
        {"span": (2.0, 50.0)},  # another one than that of the family
        {"tables": 5},
    ],
)
def test_options_of_the_wrong_kind_are_refused(gaussian, wrong, tmp_path):
    with pytest.raises(DeclarationError, match=next(iter(wrong))):
        accountant(gaussian, 2, **wrong)
    with pytest.raises(DeclarationError, match="storage"):
        accountant(gaussian, 2, storage=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="storage"):
        accountant(gaussian, 2, storage=tmp_path / "file" / "x")


def test_many_people_of_whom_a_sample_tells_where_answers_are(gaussian):
    """Everybody's bounds have the closed form between them, those unlike the sample as well."""
    rng, people = np.random.default_rng(7), 16_500
    acc = accountant(gaussian, people, journal=0)
    centre = np.exp(rng.uniform(math.log(3), math.log(150), people))
    centre[:20] = np.inf  # who never take part
    squares = np.zeros(people)
    for count in (1, 3, 20, 100):
        sigma = np.clip(centre * np.exp(0.5 * rng.standard_normal(people)), 2.0, 200.0)
        sigma[np.isinf(centre)] = np.inf
        sigma[20:25] = [2.0, 200.0, 2.0, 200.0, 199.0]  # at the ends, where others are not
        acc.step(sigma, count=count)
        squares += count / sigma**2
    bound, mu = acc.epsilon(1e-6), np.sqrt(squares)
    assert (bound.upper[:20] == 0.0).all()
    lower, upper, mu = bound.lower[20:], bound.upper[20:], mu[20:]

    def excess(epsilon):  # of log delta, up to what cancels where mu is small
        first, second = log_ndtr(-epsilon / mu + mu / 2), log_ndtr(-epsilon / mu - mu / 2)
        return first + np.log1p(-np.exp(epsilon + second - first)) - math.log(1e-6)

    assert (excess(upper) <= 1e-9).all() and (excess(lower)[lower > 0.0] >= -1e-9).all()
    assert np.quantile(bound.detail["relative_width"], 0.99) <= 1e-4
