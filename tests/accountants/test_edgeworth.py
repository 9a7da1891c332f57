"""Edgeworth expansions: the polynomials, both accountants, the uniform error bound."""

import math

import mpmath
import numpy as np
import pytest
import series_laws as laws
import sympy
import truth
from scipy import stats
from sympy.utilities.iterables import partitions

import mechc
from mechc.accountants.classical import saddlepoint
from mechc.accountants.classical.edgeworth import EdgeworthAccountant
from mechc.accountants.classical.normal import hermite_coefficients, hermite_values
from mechc.accountants.classical.normal_errors import (
    Standardised,
    independent_bound,
    standardised_moments,
)
from mechc.accountants.classical.saddlepoint import SaddlepointAccountant
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import saddle_target, solve
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step

TILTED = {  # relative errors of orders 1 to 4, from an independent implementation in mpmath
    "SGK": (-4e-5, 2.5e-7, 4.5e-8, -2e-9),
    "SGS1": (-5e-5, 1.3e-7, 7e-8, -1e-9),
    "SGS3": (-8e-5, 9e-5, 9e-5, -1e-3),
    "SGB": (-1e-3, -7e-5, -3e-5, -1e-6),
    "Laplace": (-4e-3, -1e-2, -1e-2, -1e-2),
    "logistic": (4e-3, 2e-6, 6e-5, -4e-6),
}


@pytest.fixture
def cases():
    return laws.published()


def polynomials_by_partitions(lambdas, order):
    """Petrov's sum over partitions, in exact arithmetic."""
    c = [{} for _ in range(order + 1)]
    c[0] = {0: sympy.Integer(1)}
    for s in range(1, order + 1):
        for partition in partitions(s):
            index = s + 2 * sum(partition.values())
            term = sympy.Integer(1)
            for m, k in partition.items():
                term *= (lambdas[m - 1] / sympy.factorial(m + 2)) ** k / sympy.factorial(k)
            c[s][index] = c[s].get(index, 0) + term
    return c


def test_coefficients_are_the_sum_over_partitions():
    lambdas = [sympy.Rational(p, q) for p, q in ((1, 3), (-2, 5), (3, 7), (5, 2), (-1, 9))]
    lambdas += [sympy.Rational(p, q) for p, q in ((7, 4), (-3, 8), (2, 11))]
    got = hermite_coefficients(np.array([float(x) for x in lambdas]), 8)
    for s, row in enumerate(polynomials_by_partitions(lambdas, 8)):
        expected = np.zeros(25)
        for index, value in row.items():
            expected[index] = float(value)
        assert got[s] == pytest.approx(expected, rel=1e-14, abs=0)


def test_hermite_values_are_those_of_numpy():
    z = np.linspace(-6, 6, 13)
    for j, row in enumerate(hermite_values(z, 24)):
        basis = np.zeros(j + 1)
        basis[j] = 1
        assert row == pytest.approx(np.polynomial.hermite_e.hermeval(z, basis), rel=1e-9, abs=1e-6)


def test_expansion_approaches_a_gamma_law():
    # sum of n standard exponentials: cumulants n (r-1)!; error of order s is O(n^-(s+1)/2)
    z = 0.7
    errors = []
    for n in (40, 160):
        lambdas = np.array([math.factorial(r - 1) * n ** (1 - r / 2) for r in range(3, 11)])
        exact = stats.gamma.cdf(n + z * math.sqrt(n), n)
        c = np.cumsum(hermite_coefficients(lambdas, 8), axis=0)
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        values = stats.norm.cdf(z) - density * (c[:, 1:] @ hermite_values(np.float64(z), 23))
        errors.append(abs(values - exact))
    for s in range(1, 7):
        assert errors[1][s] < 1.7 * errors[0][s] * 4.0 ** (-(s + 1) / 2)


@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize("name", TILTED)
def test_tilted_series_has_the_errors_of_the_table(cases, name):
    loss, count, epsilon, delta = cases[name]
    composed = ComposedLoss([Step(loss, count)])
    t = solve(composed, saddle_target(epsilon), epsilon).t
    law = saddlepoint.TiltedLaw.at(composed, t, epsilon, 6)
    totals = np.cumsum(law.series(4))[1:] * math.exp(law.log_prefactor)
    for error, expected in zip(totals / delta - 1, TILTED[name], strict=True):
        assert 1 / 1.55 < error / expected < 1.55


@pytest.mark.parametrize("name", ["SGK", "SGS1"])
def test_order_four_reaches_1e8(cases, name):
    loss, count, epsilon, delta = cases[name]
    bound = SaddlepointAccountant([Step(loss, count)], variant="edgeworth").log_delta(epsilon)
    assert abs(math.expm1(bound.estimate - math.log(delta))) < 1e-8
    assert bound.status == "proven" and bound.lower <= math.log(delta) <= bound.upper


def test_tilted_is_the_saddlepoint_variant(cases):
    loss, count, epsilon, _ = cases["SGK"]
    steps = [Step(loss, count)]
    ours = EdgeworthAccountant(steps, order=3, tilted=True).log_delta(epsilon)
    assert ours == SaddlepointAccountant(steps, variant="edgeworth", order=3).log_delta(epsilon)


def test_divergence_is_refused(cases):
    loss, count, epsilon, _ = cases["SGS3"]
    with pytest.raises(UnsupportedError, match="does not converge"):
        SaddlepointAccountant([Step(loss, count)], variant="edgeworth").log_delta(epsilon)


@pytest.mark.slow
def test_symmetry_is_no_divergence():
    """Odd terms of a nearly symmetric loss are small; the even ones fall, as does the error."""
    run = 60 * mechc.load("logistic")(scale=4.0)
    bound = run.delta(4.0, method="edgeworth", tilted=True, order=4)
    terms = np.abs(bound.detail["relative_terms"])
    assert terms[1] > terms[0] and terms[3] < 1e-2 * terms[1]
    exact = truth.half_tilted_uniform(60, 0.25, 0.25 / math.sinh(0.125), 0, 0, 4.0)
    assert math.log(bound.estimate) == pytest.approx(exact, abs=1e-6)
    assert math.log(bound.lower) <= exact <= math.log(bound.upper)


def test_atoms_are_refused(cases):
    loss, count, epsilon, _ = cases["Laplace"]
    with pytest.raises(UnsupportedError, match=r"atoms|converge"):
        SaddlepointAccountant([Step(loss, count)], variant="edgeworth").log_delta(epsilon)


@pytest.mark.slow
@pytest.mark.few(0)
@pytest.mark.parametrize("case", [(2.5, 0.3, 0.6), (30.0, -0.4, 0.5), (0.02, -3.0, 2.0)])
def test_payoff_integrals_match_high_precision(case):
    t, excess, sd = case
    lambdas = np.array([0.2, 0.1, -0.05, 0.3])
    law = saddlepoint.TiltedLaw(t, 0.0, 0.0, excess, sd, lambdas)
    coefficients = hermite_coefficients(lambdas, 4)
    with mpmath.workdps(40):

        def hermite(j, z):
            return mpmath.hermite(j, z / mpmath.sqrt(2)) / mpmath.mpf(2) ** (mpmath.mpf(j) / 2)

        def part(s):
            def integrand(y):
                density = mpmath.npdf(y - excess)
                payoff = mpmath.exp(-t * sd * y) * (1 - mpmath.exp(-sd * y))
                series = sum(c * hermite(j, y - excess) for j, c in enumerate(coefficients[s]) if c)
                return density * payoff * series

            return mpmath.quad(integrand, [0, 0.05, 0.2, 0.5, 1, 2, 4, 8, 16, 24])

        expected = [float(part(s)) for s in range(5)]
    assert law.series(4) == pytest.approx(expected, rel=1e-11, abs=1e-17)
    assert math.exp(law.log_normal_value()) == pytest.approx(expected[0], rel=1e-12)


def test_untilted_orders_converge(cases):
    loss, count, epsilon, delta = cases["SGK"]
    errors = []
    for order in range(1, 9):
        bound = EdgeworthAccountant([Step(loss, count)], order=order).log_delta(epsilon)
        assert bound.status == "estimate" and math.isnan(bound.upper)
        errors.append(math.expm1(bound.estimate - math.log(delta)))
    assert errors[1] == pytest.approx(-1.1e-5, rel=0.05)
    assert abs(errors[7]) < 1e-10


def test_untilted_errors_of_the_table(cases):
    for name, expected in (("SGS1", 4e-3), ("SGS3", 3e-1)):
        loss, count, epsilon, delta = cases[name]
        bound = EdgeworthAccountant([Step(loss, count)], order=2).log_delta(epsilon)
        if name == "SGS1":
            error = abs(math.expm1(bound.estimate - math.log(delta)))
            assert expected / 1.5 < error < expected * 1.5
        else:  # useless there: no digit
            assert not abs(bound.estimate - math.log(delta)) < 0.2


def test_both_directions():
    loss = laws.subsampled_gaussian_add(0.01, 1.5)
    bound = EdgeworthAccountant([Step(loss, 10000)], order=4).log_delta(1.0)
    assert bound.estimate == pytest.approx(math.log(laws.truth("SGK_add")), abs=1e-7)


def test_heterogeneous_sum_equals_its_parts(cases):
    loss = cases["SGK"][0]
    twin = laws.subsampled_gaussian(0.01, 1.5)
    whole = EdgeworthAccountant([Step(loss, 10000)], order=4).log_delta(1.0)
    parts = [Step(loss, 4000), Step(twin, 6000)]
    split = EdgeworthAccountant(parts, order=4).log_delta(1.0)
    assert split.estimate == pytest.approx(whole.estimate, rel=1e-12)


def test_no_positive_delta_is_said(cases):
    loss, count, _, _ = cases["SGS1"]
    bound = EdgeworthAccountant([Step(loss, count)], order=1).log_delta(12.0)
    assert math.isnan(bound.estimate) and bound.status.startswith("no answer")


def test_masses_at_infinity_are_split_off():
    # KOV pair and a Gaussian: delta - d_inf by conditioning on the number of plus signs
    epsilon, delta, count, sigma = 0.02, 1e-5, 400, 20.0
    steps = [Step(laws.worst_case(epsilon, delta), count), Step(laws.gaussian(sigma), count)]
    mu = math.sqrt(count) / sigma
    finite = count * math.log1p(-delta)
    target = 0.8
    exact = -math.expm1(finite)
    for plus in range(count + 1):
        shift = (2 * plus - count) * epsilon
        p = stats.binom.pmf(plus, count, math.exp(epsilon) / (1 + math.exp(epsilon)))
        if p > 1e-30:
            exact += math.exp(finite + laws.gaussian_log_delta(mu, target - shift)) * p
    bound = EdgeworthAccountant(steps, order=4).log_delta(target)
    assert bound.estimate == pytest.approx(math.log(exact), abs=1e-8)


def test_interval_contains_the_truth(cases):
    for name in ("SGK", "SGS1", "SGS3"):
        loss, count, epsilon, delta = cases[name]
        accountant = EdgeworthAccountant([Step(loss, count)], order=2, interval=True)
        bound = accountant.log_delta(epsilon)
        assert bound.status == "proven"
        assert bound.lower <= math.log(delta) <= bound.upper
        assert bound.lower <= bound.estimate <= bound.upper


def test_interval_of_many_small_steps_is_informative():
    sigma, count, epsilon = 1000.0, 10**6, 0.5
    accountant = EdgeworthAccountant([Step(laws.gaussian(sigma), count)], interval=True)
    bound = accountant.log_delta(epsilon)
    exact = laws.gaussian_log_delta(math.sqrt(count) / sigma, epsilon)
    assert bound.lower <= exact <= bound.upper
    assert 0.8 < math.exp(bound.lower - exact) < math.exp(bound.upper - exact) < 1.2


def test_polynomials_beyond_doubles_do_not_turn_an_upper_bound_into_nothing():
    steps = [Step(laws.gaussian(1e14), 4)]
    bound = EdgeworthAccountant(steps, order=8, interval=True).log_delta(100.0)
    assert bound.upper >= laws.gaussian_log_delta(2e-14, 100.0) > -math.inf


@pytest.mark.parametrize("e", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("m", [50.0, 1e4, 1e6])
def test_the_bound_for_independent_summands_is_theorem_a2(m, e):
    """Every term of the theorem as printed, in high precision; its constants have three digits."""
    moments = Standardised(m, -1.3, 4.0, 60.0, 5.0)
    with mpmath.workdps(30):
        mp, skew, k3, k4, kt = mpmath, mpmath.mpf(1.3), 4, 60, 5
        e_, r = mp.mpf(e), k4 / mp.mpf(m)
        d = mp.pi * (1 - 3 * e_) ** 2
        p1 = 144 + 48 * e_ + 4 * e_**2 + 96 * mp.sqrt(2 * e_) + 32 * e_
        p1 = (p1 + 16 * mp.sqrt(2) * e_ ** mp.mpf(1.5)) / 576
        e1 = mp.exp(e_**2 * (mp.mpf(1) / 6 + 2 * p1 / (1 - 3 * e_) ** 2))
        half = mp.mpf(1) / 24 + p1 / (2 * (1 - 3 * e_) ** 2)
        c, chi = mp.mpf("1.0253"), mp.mpf("0.09916191")
        fourth = mp.mpf(1) / 12 + 1 / (4 * (1 - 3 * e_) ** 2)
        lead = mp.mpf("0.031") * kt**2 + mp.mpf("0.327") * k4 * fourth
        lead += mp.mpf("0.054") * skew * kt + mp.mpf("0.037") * e1 * skew**2
        lead = mp.mpf("0.1995") * kt / mp.sqrt(m) + lead / m
        rest = [
            mp.mpf("81.2376") * kt**4 / (16 * mp.pi**4 * m**2),
            mp.mpf("4.3394") * skew * kt**3 / (8 * mp.pi**3 * m**2),
            c * r**1.5 * 48 / (48 * d),
            c * r**2 * 384 / (1152 * d),
            c * r**1.25 * 2**2.5 * mp.gamma(3.5) / (12 * d),
            c * r**1.5 * 48 / (72 * d),
            c * r**1.75 * 2**3.5 * mp.gamma(4.5) / (144 * d),
            c * e1 * r**2 * half**2 * 384 / (2 * mp.pi),
            c * e1 * skew * k4 * m**-1.5 * half * 384 / (6 * mp.pi),
        ]
        g0, g1 = mp.sqrt(2 * e_) * (m / k4) ** 0.25, 2 * mp.sqrt(m) / kt
        start = min(g0, g1)
        tail = mp.gammainc(1.5, start) - mp.gammainc(1.5, g1)
        rest.append(skew / mp.sqrt(m) * tail)
        bend = (1 - 4 * chi - mp.sqrt(k4 / m)) / 2
        j = mp.quad(lambda u: u * u * mp.exp(-bend * u * u), mp.linspace(start, g1, 9))
        rest.append(c * k3 / (6 * mp.pi * mp.sqrt(m)) * j)
        expected = float(lead + mp.fsum(rest))
    assert independent_bound(moments, e) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n", [50, 1000, 20000])
def test_error_bounds_hold_for_sums_with_known_laws(n):
    x = np.linspace(-4, 4, 4001)
    density = stats.norm.pdf(x)
    examples = [
        # exponential summands: E|X-1|^3 = 12/e - 2
        (2.0, 12 / math.e - 2, 9.0, stats.gamma.cdf(n + x * math.sqrt(n), n)),
        # signs
        (0.0, 1.0, 1.0, stats.binom.cdf(np.floor((n + x * math.sqrt(n)) / 2), n, 0.5)),
    ]
    for skew, k3, k4, exact in examples:
        first = stats.norm.cdf(x) - skew / (6 * math.sqrt(n)) * (x * x - 1) * density
        distance = abs(exact - first).max()
        moments = Standardised(float(n), skew, k3, k4, k3 + 1)
        assert distance < min(independent_bound(moments, e) for e in (0.03, 0.1, 0.2))


def test_moments_of_the_summands(cases):
    composed = ComposedLoss([Step(cases["SGK"][0], 10000)])
    moments = standardised_moments(composed, 0.0)
    loss, log_weight = cases["SGK"][0].nodes()
    w = np.exp(log_weight)
    d = loss - w @ loss
    sd = math.sqrt(w @ d**2)
    assert moments.k4 == pytest.approx(w @ d**4 / sd**4, rel=1e-10)
    assert moments.skewness == pytest.approx(w @ d**3 / sd**3, rel=1e-10)
    assert moments.k3 == pytest.approx(w @ abs(d) ** 3 / sd**3, rel=6e-3)
    assert independent_bound(moments, 0.1) < 0.0175


def test_missing_moments_are_refused():
    heavy = laws.law(*laws.gaussian(1.0).nodes(), (-math.inf, math.inf), strip=(-1.0, 2.0))
    with pytest.raises(UnsupportedError, match="moments of the loss"):
        EdgeworthAccountant([Step(heavy, 100)], interval=True).log_delta(1.0)


def test_coarse_lattice_is_refused():
    coin = PrivacyLoss.from_atoms([0.5, -0.5], [1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5))])
    with pytest.raises(UnsupportedError, match="lattice of step 1"):
        EdgeworthAccountant([Step(coin, 5)]).log_delta(1.0)


@pytest.mark.parametrize("order", [0, 9, 2.5])
def test_orders_outside_one_to_eight_are_refused(order):
    with pytest.raises(DeclarationError, match="integer from 1 to 8"):
        EdgeworthAccountant([], order=order)


@pytest.mark.parametrize(
    ("rate", "sigma", "count", "delta", "expected"),
    [
        (0.01, 0.8, 2000, 1e-5, 4.4525),
        (0.05, 1.0, 200, 1e-5, 4.8937),
        (0.01, 2.0, 3000, 1e-10, 1.8352),
    ],
)
def test_an_expansion_that_fails_is_the_smaller_direction(rate, sigma, count, delta, expected):
    """EA takes the maximum over the directions (Lemma 3.3); values of (3.1) at order 2 by hand."""
    run = count * mechc.poisson(mechc.load("gaussian"), rate)(sigma=sigma)
    answer = run.epsilon(delta, method="edgeworth", order=2)
    assert answer.estimate == pytest.approx(expected, abs=1e-4)
    assert answer.status == "estimate" and math.isnan(answer.upper)
    there = run.log_delta(answer.estimate, method="edgeworth", order=2)
    assert there.estimate == pytest.approx(math.log(delta), abs=1e-6)
    assert "add: no answer: order 2" in answer.detail["no answer"] == there.detail["no answer"]


def test_expansions_that_fail_in_both_directions_have_no_answer():
    run = 200 * mechc.poisson(mechc.load("gaussian"), 0.05)(sigma=1.0)
    assert math.isnan(run.log_delta(500.0, method="edgeworth").estimate)
