"""Answers just below a lattice point: what rounding of the lattice does to the payoff counts."""

import math

import mpmath
import numpy as np
import pytest
import series_laws as laws

import mechc
from mechc.accountants.contour import ContourAccountant, LatticeAccountant
from mechc.loss.privacy_loss import PrivacyLoss, Step


@pytest.mark.parametrize("gap", [3.5e-5, 1e-9, 1e-13])
def test_answers_next_to_a_lattice_point(gap):
    sigma = 2.2
    with mpmath.workdps(50):
        s2 = mpmath.mpf(sigma) ** 2
        epsilon = float(93 / (2 * s2) - gap)  # the loss at 47 is 93/(2 sigma^2)
        mass = mpmath.nsum(lambda n: mpmath.exp(-n * n / (2 * s2)), [-100, 100])
        terms = (
            mpmath.exp(-(mpmath.mpf(n - 1) ** 2) / (2 * s2))
            * max(0, 1 - mpmath.exp(epsilon - (2 * n - 1) / (2 * s2)))
            for n in range(46, 130)
        )
        exact = float(mpmath.log(sum(terms) / mass))
    bound = (1 * mechc.load("discrete_gaussian")(sigma=sigma)).log_delta(epsilon, method="lattice")
    assert bound.lower <= exact <= bound.upper
    assert math.isfinite(exact)


@pytest.mark.few(0)
@pytest.mark.parametrize(("count", "defect"), [(10**10, -4e-10), (10**11, -4e-10), (10**11, 4e-10)])
def test_errors_of_masses_are_powers_of_many_steps(count, defect):
    """Masses that sum to 1 - 4e-10 are off by a factor exp(40) in all after 1e11 steps."""
    mu, epsilon = 0.3, 1.0
    loss = mu / math.sqrt(count)  # losses of -loss and loss: nearly a normal law
    mass = 1.0 / (1.0 + math.exp(-loss))
    masses = np.array([1.0 - mass, mass]) * (1.0 + defect)
    law = PrivacyLoss.from_atoms(np.array([-loss, loss]), masses)
    bound = LatticeAccountant([Step(law, count)]).log_delta(epsilon)
    normal = laws.gaussian_log_delta(mu, epsilon)
    assert bound.lower - 1e-3 < normal < bound.upper + 1e-3


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_sum_lacks_is_of_the_finite_masses(count):
    """One finite loss beside a declared mass at infinity, which is taken as it is given."""
    log_infinite, log_opposite = math.log(0.6), math.log(1.0 - 0.4 / math.e)
    law = PrivacyLoss.from_log_atoms(
        np.ones(1), np.log([0.4 * (1.0 - 2e-9)]), log_infinite, log_opposite
    )
    bound = ContourAccountant([Step(law, count)]).log_delta(0.5)
    truth = math.log(1.0 - 0.4**count * math.exp(0.5 - count))
    assert bound.lower <= truth <= bound.upper < bound.lower + 1e-7


@pytest.mark.parametrize(("told", "rate"), [(60.0, 1e-11), (98.0, 1e-9)])
@pytest.mark.parametrize("part", [2.9, 2.5])
def test_a_lattice_point_that_is_close_beside_the_step(told, rate, part):
    """Upper bounds were 1.5e-6 too small: the transform was a difference that cancelled."""
    event = mechc.poisson(mechc.load("pure_dp"), rate)(epsilon=told)
    found = LatticeAccountant([Step(event.loss(), 3)]).log_delta(-part * rate)
    with mpmath.workdps(60):
        share = 1 / (1 + mpmath.exp(told))
        p = rate + (1 - 2 * mpmath.mpf(rate)) * share  # of the large loss; under Q the share
        terms = (
            mpmath.binomial(3, k) * (p**k * (1 - p) ** (3 - k)
                                     - mpmath.exp(-part * rate) * share**k * (1 - share) ** (3 - k))
            for k in range(4)
        )  # fmt: skip
        truth = mpmath.log(sum(term for term in terms if term > 0))
        assert found.lower <= truth <= found.upper
