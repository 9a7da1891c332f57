"""The approximate filter says where its mu holds, and grows with the range as theory says."""

import math

import mpmath
import numpy as np
import pytest

import mechc
from mechc.errors import DeclarationError
from mechc.individual import ApproximateFilter, IndividualAccountant, gdp_upper_bound


def gaussian_accountant(people):
    return IndividualAccountant(
        mechc.load("gaussian"),
        parameter="sigma",
        people=people,
        span=(2.0, 50.0),
        buckets=32,
        journal=0,
    )


@pytest.fixture(scope="module")
def fresh():
    """An accountant without steps."""
    return gaussian_accountant(1)


def test_gaussian_runs_have_their_own_mu_on_every_range():
    acc = gaussian_accountant(3)
    acc.step([5.0, 10.0, np.inf], count=10)
    for epsilon_max in (0.5, 1.5):
        bound = gdp_upper_bound(acc, epsilon_max, cells=8)
        exact = np.array([math.sqrt(10) / 5, math.sqrt(10) / 10, 0.0])
        assert (bound.lower <= exact * (1 + 1e-12)).all() and (exact <= bound.upper).all()
        assert (bound.upper[:2] <= 1.05 * exact[:2]).all() and bound.upper[2] == 0
        assert bound.detail["epsilon_range"] == (-epsilon_max, epsilon_max)
        m, e = mpmath.mpf(float(exact[0])), epsilon_max
        delta = mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
        assert delta <= bound.detail["slack"][0] <= delta * 1.01


def test_a_mu_beyond_all_that_are_looked_for_is_not_the_last_of_them():
    acc = gaussian_accountant(1)
    acc.step([2.0], count=10**10)  # mu = 5e4
    bound = gdp_upper_bound(acc, 0.1, cells=1)
    assert bound.lower[0] <= 5e4 and bound.upper[0] == math.inf


@pytest.mark.slow
def test_mu_of_a_sampled_run_grows_with_the_range():
    """q = .1, sigma = 1, 50 steps: .857 at epsilon .5, 1.38 at 10 (independent computation)."""
    sampled = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.1)
    acc = IndividualAccountant(sampled, parameter="sigma", people=1, span=(0.9, 2.0))
    acc.step([1.0], count=50)
    small, large = (gdp_upper_bound(acc, e, cells=64) for e in (0.5, 10.0))
    assert small.lower[0] * 0.98 <= 0.857 <= small.upper[0] * 1.02
    assert large.lower[0] * 0.98 <= 1.38 <= large.upper[0] * 1.02
    assert large.lower[0] > small.upper[0]
    assert large.detail["slack"][0] < small.detail["slack"][0]


def test_the_filter_records_only_steps_that_fit():
    acc = gaussian_accountant(3)
    f = ApproximateFilter(acc, mu=0.6, epsilon_max=0.8)
    given = np.array([2.0, 5.0, np.inf])
    active = f.step(given)
    assert active.all()  # 1 / 4 <= .36 < 2 / 4
    assert not f.step(np.array([2.0, np.inf, np.inf]))[0]
    spent = f.spent()
    assert (spent.upper <= 0.6).all()
    true = active / given
    assert (spent.lower <= true * (1 + 1e-12)).all() and (true <= spent.upper).all()


def test_a_target_becomes_the_mu_that_renyi_conversion_allows(fresh):
    f = ApproximateFilter(fresh, epsilon=0.8, delta=1e-5, epsilon_max=1.0)
    assert f.mu == pytest.approx(math.sqrt(405.29) / 100, rel=1e-4)


@pytest.mark.parametrize("budget", [{}, {"mu": 1.0, "epsilon": 1.0, "delta": 1e-5}, {"mu": -1.0}])
def test_bad_budgets_are_refused(fresh, budget):
    with pytest.raises(DeclarationError):
        ApproximateFilter(fresh, epsilon_max=1.0, **budget)
    for far in (math.inf, 1e3):  # whose exponential is beyond doubles
        with pytest.raises(DeclarationError, match="epsilon_max"):
            gdp_upper_bound(fresh, far)
