"""The Renyi accountant against closed forms and against dp-accounting."""

import math

import mpmath
import numpy as np
import pytest
import series_laws as laws

import mechc
from mechc.accountants.classical.renyi import RenyiAccountant
from mechc.loss.privacy_loss import PrivacyLoss, Step

ORDERS = [0.3, 0.9, 1.0, 1.5, 2.0, 7.25, 64.0]


def divergences(accountant, orders):
    """Lower bounds, estimates and upper bounds."""
    found = [accountant.renyi(a) for a in orders]
    return np.array([(bound.lower, bound.estimate, bound.upper) for bound in found]).T


def test_gaussian_divergences_are_linear_in_the_order():
    count, sigma = 7, 2.5
    accountant = RenyiAccountant([Step(laws.gaussian(sigma, 60.0), count)])
    lower, estimate, upper = divergences(accountant, ORDERS)
    exact = np.array(ORDERS) * count / (2 * sigma**2)
    assert estimate == pytest.approx(exact, rel=1e-12)
    assert (lower <= exact).all() and (exact <= upper).all()


def test_randomized_response_divergences_and_their_limit():
    e = 0.7
    accountant = RenyiAccountant([Step(laws.randomized_response(e), 3)])
    p, q = math.exp(e) / (1 + math.exp(e)), 1 / (1 + math.exp(e))
    exact = [
        3 * math.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        if a != 1
        else 3 * e * (p - q)
        for a in ORDERS
    ]
    assert divergences(accountant, [*ORDERS, np.inf])[1] == pytest.approx(
        [*exact, 3 * e], rel=1e-12
    )


def test_fractional_order_of_a_subsampled_gaussian():
    with mpmath.workdps(30):
        q, s = mpmath.mpf(0.01), mpmath.mpf(2)

        def integrand(x):
            ratio = (1 - q) + q * mpmath.exp((2 * x - 1) / (2 * s * s))
            return mpmath.npdf(x, 0, s) * ratio ** mpmath.mpf(2.5)

        exact = float(3000 * mpmath.log(mpmath.quad(integrand, range(-60, 61, 4))) / 1.5)
    accountant = RenyiAccountant([Step(laws.subsampled_gaussian(0.01, 2.0), 3000)])
    assert accountant.renyi(2.5).estimate == pytest.approx(exact, rel=1e-12)


def test_mass_at_infinity_makes_orders_above_one_infinite():
    accountant = RenyiAccountant([Step(laws.worst_case(0.1, 1e-6), 100)])
    values = divergences(accountant, [0.5, 1.0, 2.0])[1]
    assert math.isfinite(values[0]) and values[1] == values[2] == math.inf
    # the conversion keeps the mass apart and stays useful
    bound = accountant.log_delta(3.0)
    assert math.log(1e-4) < bound.upper < math.log(0.02)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 12.0])
def test_conversion_is_the_best_over_all_orders(epsilon):
    loss = laws.subsampled_gaussian(0.01, 2.0)
    bound = RenyiAccountant([Step(loss, 3000)]).log_delta(epsilon)
    orders = 1 + np.geomspace(0.05, 200, 20001)
    kept, log_weight = loss.nodes()
    alpha = bound.detail["order"]

    def converted(a):
        values = log_weight + (a - 1) * kept
        k = 3000 * (values.max() + math.log(np.exp(values - values.max()).sum()))
        return k - (a - 1) * epsilon + (a - 1) * math.log1p(-1 / a) - math.log(a)

    assert bound.upper == pytest.approx(converted(alpha), abs=1e-9)
    assert bound.upper <= min(converted(a) for a in orders[::50]) + 1e-9
    assert bound.lower <= bound.estimate == bound.upper


def test_conversion_agrees_with_dp_accounting():
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    loss, count = laws.subsampled_gaussian(0.01, 2.0), 3000
    accountant = RenyiAccountant([Step(loss, count)])
    orders = np.linspace(1.5, 40.0, 400).tolist()
    found = divergences(accountant, orders)[1]
    for epsilon in (0.5, 1.0, 2.0):
        peer, _ = rdp.compute_delta(orders, found, epsilon)
        ours = accountant.log_delta(epsilon).upper
        assert math.log(peer) - 0.02 < ours <= math.log(peer) + 1e-9  # its orders are a grid


def test_divergences_agree_with_dp_accounting():
    dp = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    orders = [2.0, 5.0, 16.0]  # its fractional orders are off by 7e-5
    event = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(2.0))
    peer = rdp.RdpAccountant(orders).compose(event, 3000)
    steps = [Step(laws.subsampled_gaussian(0.01, 2.0), 3000)]
    ours = divergences(RenyiAccountant(steps), orders)[1]
    assert ours == pytest.approx(peer._rdp, rel=1e-7)


def test_bound_covers_the_corpus():
    for name, q, sigma, count, epsilon in (
        ("SGK_rem", 0.01, 1.5, 10000, 1.0),
        ("SGS1_rem", 0.01, 2.0, 3000, 1.0),
        ("SGS3_rem", 0.01, 2.0, 3000, 3.0),
    ):
        steps = [Step(laws.subsampled_gaussian(q, sigma), count)]
        bound = RenyiAccountant(steps).log_delta(epsilon)
        assert bound.lower <= math.log(laws.truth(name)) <= bound.upper


def test_a_loss_without_spread_is_settled():
    steps = [Step(PrivacyLoss.from_atoms([0.0], [1.0]), 10)]
    assert RenyiAccountant(steps).log_delta(0.1).upper == -math.inf


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_order_that_no_sum_follows_is_bounded_by_what_grows(sampled):
    noise = mechc.load("discrete_gaussian")
    event = (mechc.poisson(noise, 0.1) if sampled else noise)(sigma=1.0)
    both = 3 * event + mechc.load("laplace")(scale=0.5)
    order = 1e9  # where D is 5e8 for one step, less about log(10) where it is sampled
    for run, most in ((event, order / 2), (both, 1.5 * order + 2.0)):
        answer = run.renyi(order)
        assert answer.lower <= most - 10.0 and most - 10.0 <= answer.upper <= most * (1 + 1e-12)
        assert run.renyi(100.0).upper >= answer.lower > 0.0


@pytest.mark.parametrize("epsilon", [1e-8, 1e-20, 1e-150])
@pytest.mark.parametrize("order", [2.0, 1e4, 1e6])
def test_small_divergences_of_large_orders(epsilon, order):
    """Randomised response: (a - 1) D = log(cosh((a - 1/2) epsilon) / cosh(epsilon / 2)) a use."""
    bound = (2 * mechc.load("pure_dp")(epsilon=epsilon)).renyi(order)
    with mpmath.workdps(700):
        a, e = mpmath.mpf(order), mpmath.mpf(epsilon)
        exact = 2 * mpmath.log(mpmath.cosh((a - 0.5) * e) / mpmath.cosh(e / 2)) / (a - 1)
        assert bound.lower <= exact <= bound.upper


@pytest.mark.parametrize("dimension", [2, 50])
def test_masses_that_may_have_any_loss_leave_large_orders_without_an_upper_bound(dimension):
    """Radial noise of a normal profile, whose tails are masses alone, has those of one number."""
    event = mechc.radial("subbotin", dimension=dimension)(beta=2.0, scale=1.0)
    assert event.loss("remove").log_early > -math.inf
    for order in (0.3, 1.0, 2.0, 5.0):
        found = event.renyi(order)
        assert 0.999 * order < found.lower <= order
        assert order <= found.upper < 1.001 * order if order < 1.0 else math.isinf(found.upper)
