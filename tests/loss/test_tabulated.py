"""Convolutions of densities known by tables, at any depth."""

import math

import numpy as np
import pytest

from mechc.accountants.allocation.likelihood_ratio import Term, convolved
from mechc.loss.tabulated import fit


def log_normal(mean, sd):
    """Log of the density of log R, R lognormal."""
    return lambda x: -0.5 * ((x - mean) / sd) ** 2 - math.log(sd * math.sqrt(2.0 * math.pi))


@pytest.mark.parametrize(("one", "other"), [((-0.5, 1.0), (0.2, 0.6)), ((0.0, 0.1), (0.7, 0.12))])
def test_sums_of_lognormals_next_to_the_trapezoid_rule(one, other):
    """In the logit of r / w, in which the integrand fades at both ends with all its derivatives."""
    g, m = log_normal(*one), log_normal(*other)
    terms = []
    for law, (mean, sd) in ((g, one), (m, other)):

        def values(x, law=law):
            return law(x), np.zeros(x.size)

        terms.append(Term(*fit(values, mean + sd * np.linspace(-20.0, 20.0, 33), -math.inf, 12.0)))
    low, high = (sum(math.exp(mean + k * sd) for mean, sd in (one, other)) for k in (-7.0, 9.0))
    w = np.geomspace(low, high, 40)
    found = sum(convolved(*pair, 0.5, w)[0] for pair in (terms, terms[::-1]))
    u = np.linspace(-40.0, 40.0, 16001)
    log_r = np.log(w)[:, None] - np.logaddexp(0.0, -u)
    log_v = np.log(w)[:, None] - np.logaddexp(0.0, u)
    # dr = w s (1 - s) du, s = r / w
    logs = g(log_r) + m(log_v) - np.log(w)[:, None]
    expected = np.exp(logs).sum(axis=1) * (u[1] - u[0])
    assert expected.min() < 1e-20
    assert np.abs(found / expected - 1.0).max() < 1e-12
