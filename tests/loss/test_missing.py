"""Masses that lie between an end and the double next to it are of any loss."""

import math

import numpy as np
import pytest
import questions
from scipy.special import betainc

BETAS = {"a": 0.5, "b": 0.7, "c": 0.6, "s": 0.4}


def one_step(epsilon, rate):
    """Delta of ((1-r) Q + r P, Q), P and Q beta laws with poles at both ends."""
    a, b, c, s = BETAS.values()
    least = math.log1p(math.expm1(epsilon) / rate)  # loss of the pair from which on it counts
    x = np.concatenate([np.geomspace(1e-300, 0.5, 200_001), 1 - np.geomspace(0.5, 1e-15, 200_001)])
    norm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    norm -= math.lgamma(c + s) - math.lgamma(c) - math.lgamma(s)
    loss = norm + (a - c) * np.log(x) + (b - s) * np.log1p(-x)
    inside = x[loss > least]
    assert inside.size and (loss[: inside.size] > least).all()  # next to 0 alone
    cut = inside[-1]
    p, q = betainc(a, b, cut), betainc(c, s, cut)
    return rate * (p - math.exp(least) * q)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.9172])
def test_poles_at_both_ends(epsilon):
    event = questions.load("betas", "poisson")(**BETAS, sampling_rate=0.1)
    found = event.log_delta(epsilon, direction="remove")
    truth = math.log(one_step(epsilon, 0.1))
    assert found.lower <= truth + 1e-6 and truth - 1e-6 <= found.upper
