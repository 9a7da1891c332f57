"""Declarations that are in no catalogue, against answers in closed form."""

import math

import pytest

import mechc
from mechc.parse import declaration_from_text


def load(**text):
    return mechc.load(declaration_from_text("unseen", **text))


def brackets(bound, truth, rtol=1e-9):
    assert bound.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= bound.upper
    assert bound.upper - bound.lower <= rtol * truth


@pytest.fixture(scope="module")
def frechet():
    """A heavy tail beyond an extremum of the loss whose value SymPy cannot place."""
    return load(noise="where(x > 0, s/x**2 * exp(-s/x), 0)")


@pytest.mark.parametrize("shape", [0.4, 1.7, 9.3])
def test_mass_beyond_an_extremum_without_a_formula(frechet, shape):
    """F(x) = exp(-s/x); p > q exactly where x > c, the crossing of the densities, at epsilon 0."""

    def gap(x):
        return -shape / (x - 1) - 2 * math.log(x - 1) + shape / x + 2 * math.log(x)

    low, high = 1.0 + 1e-9, 0.5 + shape / 2 + math.hypot(1, shape) / 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if gap(middle) > 0 else (middle, high)
    truth = math.exp(-shape / low) - math.exp(-shape / (low - 1))
    brackets(frechet(s=shape).delta(0.0, direction="remove"), truth)
    brackets(frechet(s=shape).delta(0.0, direction="add"), truth)
