"""Trade-off, advantage, Rényi, GDP, curves and calibration against closed forms."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import truth
from scipy import special
from scipy.optimize import brentq
from scipy.stats import binom, norm

import mechc
from mechc.composition.queries.calibration import Profile, straddle
from mechc.errors import DeclarationError, UnsupportedError

ALPHA = np.array([1e-4, 0.01, 0.2, 0.5, 0.9])


@pytest.mark.parametrize("mu", [0.3, 1.7])
def test_tradeoff_of_the_gaussian(gaussian, mu):
    answer = gaussian(sigma=1 / mu).tradeoff(ALPHA)
    truth = norm.cdf(norm.isf(ALPHA) - mu)
    assert (answer.lower <= truth).all() and (truth <= answer.upper).all()
    assert (answer.upper - answer.lower < 1e-6).all()


def test_many_rates_of_one_question_share_what_is_known(gaussian):
    """Every rate is answered as narrowly as alone, from the deltas of those before it."""
    rates = np.concatenate([np.logspace(-6, -0.3, 60), [0.9, 0.999]])
    run = 4 * gaussian(sigma=1.5)
    answer = run.tradeoff(rates)
    truth = norm.cdf(norm.isf(rates) - 2 / 1.5)
    assert (answer.lower <= truth).all() and (truth <= answer.upper).all()
    assert (answer.upper - answer.lower < 1e-6).all()
    alone = run.tradeoff(rates[30])
    assert alone.lower <= answer.upper[30] and answer.lower[30] <= alone.upper


@pytest.mark.few(0)
@pytest.mark.parametrize("mu", [0.01, 8.0, 35.0])
def test_tradeoff_of_gaussians_that_hide_all_or_nothing(gaussian, mu):
    rates = np.array([5e-324, 1e-310, 1e-300, 1e-30, 1e-4, 0.5, 1 - 1e-9])
    answer = gaussian(sigma=1 / mu).tradeoff(rates)
    truth = norm.cdf(norm.isf(rates) - mu)
    assert (answer.lower <= truth).all() and (truth <= answer.upper).all()
    width = answer.upper - answer.lower
    assert width[3:].max() < 2e-10 and width[2] < 1e-7


@pytest.mark.few(0, 1, 2, 3, 4)
@pytest.mark.parametrize(
    ("run", "alpha", "truth"),
    [
        (20 * mechc.load("approximate_dp")(epsilon=0.1, delta=0.2), 0.8, 0.0),
        (mechc.from_pmfs([0, 0.4, 0.6], [0.2, 0.3, 0.5]).composition(), 0.9, 0.0),
        (mechc.from_pmfs([0, 0.4, 0.6], [0.2, 0.3, 0.5]).composition(), 0.8, 0.0),
        (mechc.from_pmfs([0, 0.4, 0.6], [0.2, 0.3, 0.5]).composition(), 0.7, 0.12),
        (50 * mechc.load("pure_dp")(epsilon=3.16006), 1e-12, 0.0),
        # next to the largest loss: enumeration in fractions
        (
            3 * mechc.from_pmfs([1 / 1004, 3 / 1004, 250 / 251], [1 / 6, 7 / 12, 1 / 4]),
            5.962548488968974e-11,
            0.9999999962293974,
        ),
    ],
)
def test_tradeoff_at_the_corner_of_the_support(run, alpha, truth):
    """All that P allows is found at a false positive rate of Q(p > 0)."""
    answer = run.tradeoff(alpha, direction="remove")
    assert answer.lower <= truth + 1e-15 and truth <= answer.upper < truth + 1e-13
    assert answer.lower > truth - 1e-8


def test_tradeoff_of_a_renyi_curve_keeps_its_licensed_side():
    """An upper bound on delta is a lower bound on what an attacker misses."""
    answer = mechc.zcdp(0.1).tradeoff(np.array([0.0, 0.1, 0.5, 1.0]))
    below = norm.cdf(norm.isf(np.array([0.0, 0.1, 0.5, 1.0])) - math.sqrt(0.2))  # it is 0.1-zCDP
    assert (answer.lower <= below).all() and (answer.lower >= 0.7 * below).all()
    assert np.isnan(answer.upper[:3]).all()


def test_tradeoff_of_randomised_response():
    """Two outcomes: the curve is two straight lines, reached only by randomised tests."""
    event = mechc.load("randomized_response")(epsilon=1.0, categories=2)
    answer = event.tradeoff(ALPHA)
    truth = np.maximum(1 - math.e * ALPHA, (1 - ALPHA) / math.e)
    assert (answer.lower <= truth + 1e-12).all() and (truth - 1e-12 <= answer.upper).all()
    assert np.allclose(answer.lower, truth, atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.123, 0.5, 0.9])
def test_tradeoff_of_a_lattice_is_the_hull_of_its_tests(alpha):
    """Neyman and Pearson: take outcomes by falling loss, the last one with a probability."""
    count, p = 30, math.exp(0.4) / (1 + math.exp(0.4))
    power = binom.pmf(np.arange(count, -1, -1), count, p)
    level = binom.pmf(np.arange(count, -1, -1), count, 1 - p)
    i = int(np.searchsorted(np.cumsum(level), alpha))
    share = (alpha - level[:i].sum()) / level[i]
    truth = 1 - power[:i].sum() - share * power[i]
    answer = (count * mechc.load("pure_dp")(epsilon=0.4)).tradeoff(alpha)
    assert answer.lower - 1e-15 <= truth <= answer.upper + 1e-15
    assert answer.upper - answer.lower < 1e-11


def test_ends_of_the_tradeoff():
    event = mechc.load("approximate_dp")(epsilon=1.0, delta=0.01)
    assert event.tradeoff(0.0).upper == pytest.approx(0.99)
    assert event.tradeoff(1.0).upper == 0.0
    with pytest.raises(DeclarationError, match="alpha=2"):
        event.tradeoff(2.0)


def test_the_smaller_tradeoff_of_two_directions(sampled_gaussian):
    run = 100 * sampled_gaussian(sampling_rate=0.05, sigma=0.8)
    both, remove, add = (run.tradeoff(0.05, direction=d) for d in ("both", "remove", "add"))
    assert both.estimate == pytest.approx(min(remove.estimate, add.estimate), rel=1e-12)


@pytest.mark.slow
def test_samples_of_a_raised_cosine_have_a_largest_loss_when_added():
    run = 2 * mechc.poisson(mechc.load("raised_cosine"))(halfwidth=9.0, sampling_rate=0.2)
    top = -2 * np.log1p(-0.2)
    assert run.log_delta(1.000001 * top, direction="add").upper == -np.inf
    assert run.log_delta(0.99 * top, direction="add").lower > -20.0


def test_advantage_of_the_gaussian(gaussian):
    answer = gaussian(sigma=2.0).advantage()
    assert answer.lower <= 2 * norm.cdf(0.25) - 1 <= answer.upper


@pytest.mark.slow
@pytest.mark.parametrize("order", [64.0, 100.0])
def test_orders_that_no_quadrature_follows_have_the_closed_upper_side(gaussian, order):
    answer, truth = gaussian(sigma=0.01).renyi(order), order / 2e-4
    assert float(answer.lower) <= truth <= float(answer.upper) <= truth * (1 + 1e-13)


def test_orders_beyond_any_are_answered_at_once(gaussian, sampled_gaussian):
    """They took half a minute, for a lower side of 50 and an error."""
    answer = gaussian(sigma=1.0).renyi(1e308, max_work=1e7)
    assert 1e11 <= answer.lower <= 0.5e308 <= answer.upper <= 0.5e308 * (1 + 1e-13)
    beyond = (10 * sampled_gaussian(sigma=1.0, sampling_rate=0.1)).renyi(
        1e308, max_work=1e7
    )  # than doubles go
    assert beyond.lower >= 0.0 and beyond.upper == math.inf


def test_renyi_of_the_gaussian(gaussian):
    orders = np.array([0.5, 1.0, 2.0, 7.3, 64.0])
    answer = (3 * gaussian(sigma=2.0)).renyi(orders)
    truth = 3 * orders / 8
    assert (answer.lower <= truth).all() and (truth <= answer.upper).all()
    assert np.allclose(answer.estimate, truth, rtol=1e-10)


def test_renyi_of_randomised_response_and_of_infinite_losses():
    event = mechc.load("randomized_response")(epsilon=1.0, categories=2)
    p = math.e / (1 + math.e)
    truth = math.log(p**3 / (1 - p) ** 2 + (1 - p) ** 3 / p**2) / 2
    assert event.renyi(3.0).estimate == pytest.approx(truth, rel=1e-12)
    assert event.renyi(math.inf).upper == pytest.approx(1.0)
    leak = mechc.load("approximate_dp")(epsilon=1.0, delta=0.01)
    assert leak.renyi(2.0).upper == math.inf
    assert leak.renyi(0.5).upper < math.inf
    with pytest.raises(DeclarationError, match="not positive"):
        event.renyi(0.0)


@pytest.mark.parametrize("sigma", [0.5, 20.0])
def test_renyi_of_the_gaussian_at_every_order(gaussian, sigma):
    """The order over 2 sigma^2, from 1e-300 to 1e8 and next to 1."""
    beside = [1.0 + sign * 10.0**-n for n in (3, 9, 12, 15) for sign in (-1, 1)]
    orders = np.array([1e-300, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, *beside, 1e4, 1e6, 1e8])
    answer = gaussian(sigma=sigma).renyi(orders)
    truth = [float(Fraction(a) / 2 / Fraction(sigma) ** 2) for a in orders]
    assert (answer.lower <= truth).all() and (truth <= answer.upper).all()
    assert (answer.upper - answer.lower <= 1e-7 * np.array(truth)).all()


@pytest.mark.few(1, 3, 6, 8, 11, 13)
@pytest.mark.parametrize("order", [1e-12, 1e-6, 0.02, 1 - 1e-9, 1 + 1e-12, 1 + 1e-9, 1 + 1e-3])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_renyi_of_a_sampled_gaussian_next_to_the_ends(sampled_gaussian, order, direction):
    """K by mpmath; order a of (P, Q) is a / (1 - a) times order 1 - a of (Q, P)."""
    rate, sigma = 0.3, 2.0
    with mpmath.workdps(40):
        a, q, s = mpmath.mpf(order), mpmath.mpf(rate), mpmath.mpf(sigma)

        def power(x):
            base = mpmath.npdf(x, 0, s)
            ratio = (1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))) ** (
                1 if direction == "remove" else -1
            )
            other = base if direction == "remove" else base / ratio
            return other * ratio**a

        places = [-40, -20, -5, 0, 5, 20, 40]
        truth = float(mpmath.log(mpmath.quad(power, places)) / (a - 1))
    event = sampled_gaussian(sampling_rate=rate, sigma=sigma)
    answer = event.renyi(order, direction=direction)
    assert answer.lower <= truth <= answer.upper <= answer.lower + 1e-7 * truth


def test_gdp_of_the_gaussian_is_its_mu(gaussian):
    answer = (4 * gaussian(sigma=4.0)).gdp()
    assert answer.lower <= 0.5 <= answer.upper
    assert answer.upper == pytest.approx(0.5, rel=1e-3)
    assert answer.detail["epsilon_range"][1] > 0


def test_gdp_bounds_the_profile_where_it_says(sampled_gaussian):
    run = 50 * sampled_gaussian(sampling_rate=0.1, sigma=1.0)
    answer = run.gdp(epsilon_max=10.0)
    # needed mu 1.38 at epsilon 10 for this run: the tail is that of the unsampled mechanism
    assert answer.lower == pytest.approx(1.38, abs=0.01)
    mu = answer.upper
    for epsilon in np.linspace(-10, 10, 41):
        gaussian = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -mu / 2 - epsilon / mu
        )
        assert run.delta(epsilon).lower <= gaussian * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(
    "run",
    [
        lambda: 0 * mechc.load("gaussian")(sigma=1.0),
        lambda: 10 * mechc.poisson(mechc.load("gaussian"), 0.0)(sigma=1.0),
        lambda: 5 * mechc.from_pmfs([0.5, 0.5], [0.5, 0.5]),
    ],
)
def test_gdp_of_what_reveals_nothing(run):
    answer = run().gdp()
    assert answer.lower == answer.upper == 0.0


def test_gdp_at_one_epsilon_and_far_out(gaussian, laplace):
    answer = gaussian(sigma=2.0).gdp(epsilon_max=0.0)
    assert answer.lower <= 0.5 <= answer.upper <= 0.5 + 1e-9
    # 3000 * .8^2: the profile crosses that of the normal limit; exp(epsilon) is no double
    far = (3000 * laplace(scale=1.25)).gdp(epsilon_max=2400.0)
    assert far.lower > 30.0 and far.upper >= far.lower


def test_mu_up_to_a_far_epsilon_is_sharp():
    """Nodes that were kept for real tilts alone left it a seventh wide."""
    run = 100 * mechc.poisson("gaussian", sampling_rate=0.01)(sigma=1.0)
    found = run.gdp(epsilon_max=5000.0)
    assert found.lower <= found.upper < 1.001 * found.lower


def test_gdp_to_the_end_of_all_losses_or_not_at_all(gaussian, laplace):
    """The bound was inf after 20 s; no delta is left past the largest loss."""
    run, mu = 10 * laplace(scale=1.0), norm.ppf
    answer = run.gdp(epsilon_max=2.0**63)
    needed = run.delta(0.0).lower  # 2 Phi(mu / 2) - 1
    assert 2.0 * mu(0.5 + needed / 2.0) <= answer.upper < 3.0
    with pytest.raises(UnsupportedError, match="give a smaller one"):
        (10 * gaussian(sigma=1.0)).gdp(epsilon_max=2.0**63)


def test_gdp_of_a_tiny_mu_is_on_the_safe_side(gaussian):
    answer = gaussian(sigma=1e7).gdp(epsilon_max=0.0)
    assert answer.lower <= 1e-7 <= answer.upper


def test_gdp_needs_a_finite_range():
    leak = mechc.load("approximate_dp")(epsilon=1.0, delta=0.01)
    with pytest.raises(DeclarationError, match="epsilon_max"):
        leak.gdp()


def test_curve_is_the_epsilon_of_each_count(sampled_gaussian):
    event = sampled_gaussian(sampling_rate=0.01, sigma=1.0)
    counts = [1000, 1, 0, 30]
    curve = event.epsilon_curve(1e-5, counts)
    for index, count in enumerate(counts):
        assert curve.upper[index] == pytest.approx((count * event).epsilon(1e-5).upper)
    with pytest.raises(DeclarationError, match="0 < delta"):
        event.epsilon_curve(0.0, counts)


def test_calibrate_the_gaussian(gaussian):
    def excess(sigma):
        return norm.cdf(0.5 / sigma - sigma) - math.e * norm.cdf(-0.5 / sigma - sigma) - 1e-5

    found = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-5)
    assert found.value == pytest.approx(brentq(excess, 1, 10, xtol=1e-14), rel=1e-8)
    assert found.bound.upper <= 1e-5
    many = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-5, count=100)
    assert many.value == pytest.approx(10 * found.value, rel=1e-8)


def test_calibrate_the_steps(sampled_gaussian):
    how = {"sampling_rate": 0.01, "sigma": 1.2}
    found = mechc.calibrate(sampled_gaussian, solve_for="count", epsilon=2.0, delta=1e-6, **how)
    event = sampled_gaussian(**how)
    assert (found.value * event).delta(2.0).upper <= 1e-6
    assert ((found.value + 1) * event).delta(2.0).lower > 1e-6


def test_calibrate_a_published_task(sampled_gaussian):
    found = mechc.calibrate(
        sampled_gaussian, solve_for="sigma", epsilon=2.0, delta=1e-6, count=5000, sampling_rate=0.01
    )
    assert found.value == pytest.approx(1.747700363325, rel=1e-8)


def test_calibrate_a_rate(sampled_gaussian):
    found = mechc.calibrate(
        sampled_gaussian, solve_for="sampling_rate", epsilon=1.0, delta=1e-6, count=1000, sigma=1.0
    )
    event = sampled_gaussian(sampling_rate=found.value, sigma=1.0)
    assert found.bound.upper <= 1e-6
    assert (1000 * event).epsilon(1e-6).upper == pytest.approx(1.0, rel=1e-6)


def test_calibrate_far_targets(gaussian):
    """Closed form: noise for a composition of 10**6 steps, epsilon 0.01 and 50, delta 1e-100."""
    for epsilon, delta in ((0.01, 1e-100), (50.0, 0.4)):
        found = mechc.calibrate(
            gaussian, solve_for="sigma", epsilon=epsilon, delta=delta, count=10**6
        )
        mu = 1e3 / found.value
        assert truth.gaussian(mu, epsilon) <= math.log(delta)
        assert truth.gaussian(mu * (1 + 1e-7), epsilon) > math.log(delta)


def test_calibrate_refuses_a_parameter_that_turns():
    """More degrees of freedom help first and hurt later: no largest or smallest good value."""
    profile = Profile(lambda value: None, {}, 1.0, -5.0)
    profile.known = {1.0: (-2.0, -1.9), 2.0: (0.5, 0.6), 3.0: (-0.5, -0.4), 4.0: (1.0, 1.1)}
    assert "not monotone in nu: larger at 2 than at 3" in profile.turn("nu", 1.0, 4.0)


def test_calibrate_does_not_say_that_no_value_helps_where_delta_turns(gaussian):
    """Both ends of every range miss a target that the middle may well meet."""
    profile = Profile(lambda value: None, {}, 1.0, -5.0)
    profile.excess = lambda s: profile.known.setdefault(s, (abs(math.log(s)) + 0.1,) * 2)[1]
    with pytest.raises(UnsupportedError, match="not monotone in sigma"):
        straddle(profile, gaussian.parameters[0], "gaussian")


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1), (0.3, 7)])
def test_calibrate_pure_differential_privacy(laplace, epsilon, count):
    """Laplace noise of scale count / epsilon."""
    found = mechc.calibrate(laplace, solve_for="scale", epsilon=epsilon, delta=0.0, count=count)
    assert count / epsilon <= found.value <= count / epsilon * (1 + 2e-9)
    assert found.bound.upper == 0.0
    how = {"scale": 8.0, "epsilon": 1.001, "delta": 0.0}
    assert mechc.calibrate(laplace, solve_for="count", **how).value == 8


def test_calibrate_says_when_there_is_nothing_to_find(gaussian):
    with pytest.raises(UnsupportedError, match="no sigma from"):
        mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=0.0)
    with pytest.raises(UnsupportedError, match="no count from 1 on"):
        mechc.calibrate(gaussian, solve_for="count", epsilon=0.01, delta=1e-9, sigma=1.0)
    with pytest.raises(UnsupportedError, match="no mechanism meets epsilon=-1 and delta=1e-05"):
        mechc.calibrate(gaussian, solve_for="sigma", epsilon=-1.0, delta=1e-5)
    with pytest.raises(UnsupportedError, match=r"epsilon=1e\+308 is no target"):
        mechc.calibrate(gaussian, solve_for="sigma", epsilon=1e308, delta=1e-5)
    for wrong in (3.0, gaussian(sigma=1.0)):
        with pytest.raises(DeclarationError, match="is not a mechanism"):
            mechc.calibrate(wrong, solve_for="sigma", epsilon=1.0, delta=1e-5)
    with pytest.raises(
        DeclarationError, match=r"target_epsilon=1\.0 is not known; did you mean eps"
    ):
        mechc.calibrate(gaussian, solve_for="sigma", target_epsilon=1.0, delta=1e-5)
    with pytest.raises(DeclarationError, match="solve_for='noise'"):
        mechc.calibrate(gaussian, solve_for="noise", epsilon=1.0, delta=1e-5)
    with pytest.raises(UnsupportedError, match="proves no upper bound"):
        mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-5, method="clt")
    leak = mechc.load("approximate_dp")
    with pytest.raises(UnsupportedError, match="no epsilon from"):
        mechc.calibrate(
            leak, solve_for="epsilon", epsilon=1.0, delta=1e-6, parameters={"delta": 1e-3}
        )


@pytest.mark.few(3, 5)
@pytest.mark.parametrize(
    "method",
    ["prv", "fourier", "saddlepoint:clt", "saddlepoint:moments", "saddlepoint:edgeworth", "renyi"],
)
def test_every_query_by_every_method_contains_the_narrow_answer(sampled_gaussian, method):
    run = 200 * sampled_gaussian(sampling_rate=0.05, sigma=2.0)
    queries = [lambda **how: run.tradeoff(0.01, **how), lambda **how: run.advantage(**how)]
    if method != "saddlepoint:edgeworth":  # refused far out, where the comparison has to go
        queries.append(lambda **how: run.gdp(epsilon_max=2.0, **how))
    for query in queries:
        narrow, answer = query(), query(method=method)
        assert answer.status == "proven"
        assert answer.lower <= narrow.upper and narrow.lower <= answer.upper
        assert answer.lower <= answer.upper


@pytest.mark.parametrize(("name", "count", "values"), [
    ("gaussian", 1000, {"sigma": 1.0}), ("gaussian", 30, {"sigma": 0.2}),
    ("laplace", 500, {"scale": 0.6}), ("pure_dp", 400, {"epsilon": 2.0}),
])  # fmt: skip
def test_gdp_of_a_run_that_reveals_all_but_a_trace(name, count, values):
    run = count * mechc.load(name)(**values)
    answer = run.gdp()
    assert run.delta(0.0).upper > 1.0 - 1e-14
    assert 0.0 < answer.lower < answer.upper < 2.0 * answer.lower
    if name == "gaussian":
        assert answer.lower <= math.sqrt(count) / values["sigma"] <= answer.upper
    # 1 - delta(0) of the two normal laws is at most that of the run, and that at most sum sqrt(p q)
    trace = float(norm.logsf(answer.upper / 2)) + math.log(2.0)
    assert trace <= -float(run.renyi(0.5).lower) / 2


@pytest.mark.slow
def test_zcdp_of_many_settings_is_answered():
    """Orders of thousands are asked for, each on nodes made from those of its octave."""
    q, sigmas = 0.05, [1.0 + 0.1 * i for i in range(6)]
    sampled = mechc.poisson(mechc.load("gaussian"))
    run = mechc.compose(*((sampled(sigma=s, sampling_rate=q), 1) for s in sigmas))
    found = run.zcdp()

    def divergence(order):  # of integer order, in closed form (Mironov, Talwar, Zhang 2019)
        k = np.arange(order + 1.0)
        ways = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
        terms = ways + (order - k) * np.log1p(-q) + k * np.log(q)
        return sum(special.logsumexp(terms + k * (k - 1) / (2 * s * s)) for s in sigmas) / (
            order - 1
        )

    least = max(divergence(order) / order for order in range(2, 5000, 7))
    assert least <= found.upper and found.lower <= found.upper < 1.01 * least
