"""Rényi curves: upper bounds that can be checked against the Gaussian, and no lower bounds."""

import math

import numpy as np
import pytest
import sympy as sp

import mechc
from mechc.declare import additive, integer, positive, shape
from mechc.errors import DeclarationError, UnsupportedError

RHO = 0.1
GAUSSIAN = {"sigma": math.sqrt(1 / (2 * RHO))}


def test_zcdp_is_the_renyi_answer_of_its_gaussian():
    gaussian, curve = mechc.load("gaussian")(**GAUSSIAN), mechc.zcdp(RHO)
    for count in (1, 40):
        known = (count * gaussian).epsilon(1e-6, method="renyi").upper
        assert (count * curve).epsilon(1e-6).upper == pytest.approx(known, rel=1e-8)
        assert (count * curve).delta(1.0).upper >= (count * gaussian).delta(1.0).upper


def test_the_closed_rho_of_a_discrete_gaussian_is_for_noise_around_integers():
    """Around 1/2 the sum of exp(-(n - c)^2/(2 s^2)) is not the largest one: 5.6 is no bound."""
    n, s = integer("n"), positive("s")
    half = additive("half", noise=shape(sp.exp(-((n - sp.Rational(1, 2)) ** 2) / (2 * s**2))),
                    variable=n, sensitivity=1, parameters=(s,), lattice=True)  # fmt: skip
    log_p = [-((k - 1.5) ** 2) / 0.18 for k in range(-30, 31)]
    log_q = [-((k - 0.5) ** 2) / 0.18 for k in range(-30, 31)]
    pairs = zip(log_p, log_q, strict=True)
    moment = sum(math.exp(1.2 * p - 0.2 * q) for p, q in pairs) / sum(map(math.exp, log_q))
    assert not mechc.load(half)(s=0.3).zcdp().upper < math.log(moment) / 0.2 / 1.2


def test_a_curve_has_no_lower_bound_and_says_why():
    for run in (mechc.zcdp(RHO), 3 * mechc.zcdp(RHO) + mechc.load("gaussian")(sigma=2.0)):
        for answer in (run.delta(1.0), run.epsilon(1e-5)):
            assert math.isnan(answer.lower) and math.isnan(answer.estimate)
            assert math.isfinite(answer.upper)
            assert answer.status.startswith("upper bound only")


def test_pure_privacy_of_a_curve_has_no_lower_bound():
    for run in (mechc.zcdp(0.1), mechc.zcdp(0.1) + mechc.load("laplace")(scale=3.0)):
        answer = run.epsilon(0.0)
        assert math.isnan(answer.lower)
        assert answer.upper == math.inf
        assert "licenses no lower bound" in answer.status


def test_mixed_with_an_exact_mechanism_it_adds_exactly():
    gaussian = mechc.load("gaussian")(**GAUSSIAN)
    known = (5 * gaussian).delta(1.5, method="renyi").upper
    assert (2 * gaussian + 3 * mechc.zcdp(RHO)).delta(1.5).upper == pytest.approx(known, rel=1e-8)


@pytest.mark.parametrize(("order", "epsilon"), [(1.0 + 2.0**-33, 1e6), (1.0 + 2.0**-45, 1e8)])
def test_an_order_next_to_one_is_the_largest_that_is_known(order, epsilon):
    """The search began at orders 1 + 3e-7: a bound was 0.985, where 0.9999 is the best."""
    found = mechc.rdp([order], [0.0]).log_delta(epsilon).upper
    best = -(order - 1.0) * (epsilon + math.log1p(1.0 / (order - 1.0)) + 1.0)
    assert best * (1.0 + 1e-9) - 1e-13 <= found <= best * (1.0 - 1e-9) + 1e-13


def test_the_largest_loss_of_the_others_is_no_end_of_the_search():
    curve = mechc.rdp([2.0, 4.0, 8.0, 16.0], [0.1, 0.2, 0.4, 0.8])
    run = mechc.compose((curve, 3), (mechc.load("laplace")(scale=20.0), 2))
    epsilon = run.epsilon(1e-6).upper
    assert 0.1 < epsilon < (3 * curve).epsilon(1e-6).upper + 0.1  # two steps lose 0.1 at most
    assert run.delta(epsilon).upper == pytest.approx(1e-6, rel=1e-9)


def test_the_worse_direction_of_the_others_is_asked_with_the_curve():
    """A Gaussian of mu = 2 is 2-zCDP; what the pair alone loses says nothing about both."""
    pair = mechc.from_pmfs([0.9999, 0.0001], [0.9, 0.1])
    found = (mechc.zcdp(2.0) + pair).epsilon(1e-4)
    assert found.upper >= (mechc.load("gaussian")(sigma=0.5) + pair).epsilon(1e-4).lower > 14.0


def test_what_masses_of_others_miss_is_counted_beside_a_curve():
    likely = 1 / (1 + math.exp(-0.5))
    whole, short = (
        mechc.from_losses([0.5, -0.5], [likely - miss, 1 - likely], symmetric=True)
        for miss in (0.0, 9e-10)
    )
    known = (100 * whole).delta(10.0, method="renyi").upper
    assert (100 * short + mechc.zcdp(1e-15)).delta(10.0).upper >= known


def test_xi_counts_at_every_order():
    """D_alpha = xi + rho alpha is (xi + rho) alpha at alpha = 1."""
    for rho, xi in ((0.1, 0.5), (0.0, 0.5), (0.1, 0.0)):
        assert rho + xi <= mechc.zcdp(rho, xi).zcdp().upper <= (rho + xi) * (1 + 1e-12)


def test_one_order_needs_no_list():
    at = mechc.rdp(8.0, 0.4).delta(1.0).upper
    assert at == mechc.rdp([8.0], [0.4]).delta(1.0).upper


def test_mass_at_infinity_of_the_others_is_added():
    leaky = mechc.load("approximate_dp")(epsilon=0.1, delta=1e-3)
    assert (mechc.zcdp(RHO) + leaky).delta(30.0).upper == pytest.approx(1e-3, rel=1e-6)


def test_a_curve_by_orders():
    orders = np.arange(1.25, 64.0, 0.25)
    curve = mechc.rdp(orders, RHO * orders)
    assert curve.delta(1.0).upper == pytest.approx(mechc.zcdp(RHO).delta(1.0).upper, rel=5e-2)
    assert curve.delta(1.0).upper >= mechc.zcdp(RHO).delta(1.0).upper
    assert curve.renyi(2.0).upper == pytest.approx(2 * RHO)
    assert math.isnan(curve.renyi(2.0).lower)
    assert curve.renyi(100.0).upper == curve.renyi(1e100).upper == math.inf
    assert mechc.zcdp(RHO).renyi(1e100).upper == pytest.approx(1e100 * RHO)


def test_methods_that_need_a_pair_refuse():
    with pytest.raises(UnsupportedError, match="only renyi"):
        mechc.zcdp(RHO).delta(1.0, method="contour")
    with pytest.raises(UnsupportedError, match="no pair"):
        mechc.zcdp(RHO).loss()


@pytest.mark.parametrize(
    "bad",
    [
        lambda: mechc.zcdp(0.0),
        lambda: mechc.zcdp(math.nan),
        lambda: mechc.zcdp("1"),
        lambda: mechc.zcdp(0.0, 0.0),
        lambda: mechc.zcdp(0.1, -0.1),
        lambda: mechc.zcdp(0.1, xi="1"),
        lambda: mechc.rdp([2.0], [0.1, 0.2]),
        lambda: mechc.rdp([1.0], [0.1]),
        lambda: mechc.rdp([2.0, 2.0], [0.1, 0.2]),
        lambda: mechc.rdp([2.0], [math.nan]),
    ],
)
def test_bad_curves(bad):
    with pytest.raises(DeclarationError):
        bad()


def test_answers_carry_their_claims():
    run = 2 * mechc.poisson(mechc.load("laplace"), 0.1)(scale=1.0) + mechc.load("pure_dp")(
        epsilon=1
    )
    first, second = sorted(run.claims)
    assert "proven by T6" in first and "unimodal" in first and "assumed" in first
    assert "dominating, declared" in second
    for answer in (run.delta(0.5), run.epsilon(1e-3), run.delta(math.inf)):
        assert answer.claim == run.claim and answer.claim.status == "declared"


def test_settings_of_one_mechanism_share_a_claim():
    sampled = mechc.poisson(mechc.load("gaussian"), 0.1)
    other = mechc.poisson(mechc.load("gaussian"), 0.2)(sigma=1.0)
    run = mechc.compose(*(sampled(sigma=1.0 + 0.1 * i) for i in range(5)), other)
    (line,) = run.claims
    assert "6 settings: dominating, proven by T6" in line
    assert (3 * other).claims == (f"{other}: {line.split(': ', 1)[1]}",)


def test_a_list_that_ends_early():
    """What the mass beyond the list may be is in the sides of a curve; the grid agrees."""
    step = mechc.load("shuffle")(users=45, epsilon=1.4)
    curve = step.epsilon_curve(1e-5, range(1, 31))
    assert curve.detail["one_by_one"] == []
    for count in (2, 20):
        lower, upper = float(curve.lower[count - 1]), float(curve.upper[count - 1])
        assert (count * step).delta(lower, method="pld", grid=2**13).upper >= 1e-5
        assert (count * step).delta(upper, method="pld", grid=2**13).lower <= 1e-5
