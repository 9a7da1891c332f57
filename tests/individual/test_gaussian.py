"""The profile of mu-GDP and its inverses against 60-digit arithmetic."""

import mpmath
import numpy as np
import pytest

from mechc.individual.approximate import gdp_delta, gdp_epsilon
from mechc.individual.filters import gdp_mu


def exact(mu, epsilon):
    with mpmath.workdps(60):
        m, e = mpmath.mpf(float(mu)), mpmath.mpf(float(epsilon))
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def test_bounds_enclose_the_profile():
    rng = np.random.default_rng(1)
    for _ in range(400):
        mu = 10 ** rng.uniform(-3, 1.5)
        epsilon = rng.choice([0.0, 1.0, -1.0]) * mu * 10 ** rng.uniform(-2, 1.3)
        lower, upper = gdp_delta(mu, epsilon)
        assert lower <= exact(mu, epsilon) <= upper


@pytest.mark.parametrize(
    "epsilon, delta", [(0.8, 1e-5), (0, 1e-3), (50, 1e-12), (8, 0.5), (0.01, 1e-9), (3, 1e-200)]
)
def test_budgets_are_tight_and_on_the_safe_side(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    assert exact(mu, epsilon) <= delta
    assert exact(mu * (1 + 1e-9), epsilon) > delta


def test_epsilon_of_mu_is_an_upper_bound():
    mu = np.array([0.0, 0.01, 0.3, 1.0, 4.0, 30.0])
    epsilon = gdp_epsilon(mu, 1e-6)
    assert epsilon[0] == 0
    for m, e in zip(mu[1:], epsilon[1:], strict=True):
        assert exact(m, e) <= 1e-6
        assert e == 0 or exact(m, e * (1 - 1e-9)) > 1e-6
