"""Answers just below a lattice point: what rounding of the lattice does to the payoff counts."""

import math

import mpmath
import pytest

import mechc


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
