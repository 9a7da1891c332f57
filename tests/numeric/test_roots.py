"""Brent's method against its other implementation, and where a root is known."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from mechc.errors import NumericError
from mechc.numeric.roots import lowest, root

FUNCTIONS = {
    "cubic": (lambda x: (x - 0.3) * (x + 4.0) ** 2, -3.0, 5.0),
    "steep": (lambda x: math.expm1(40.0 * (x - 1.7)), -9.0, 9.0),
    "flat": (lambda x: math.copysign(abs(x - 0.1) ** 0.5, x - 0.1), -1.0, 2.0),
    "infinite": (lambda x: math.inf if x > 1.0 else x - 0.7, 0.0, 8.0),
    "jump": (lambda x: 1.0 if x > 0.37 else -2.0, 0.0, 1.0),
    "downward": (lambda x: math.cos(x), 0.0, 3.0),
    "at an end": (lambda x: x - 2.0, 2.0, 3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("how", [{}, {"xtol": 1e-13}, {"xtol": 1e-300, "rtol": 1e-13}])
def test_digits_are_those_of_scipy(name, how):
    f, a, b = FUNCTIONS[name]
    for low, high in ((a, b), (b, a), (a - 0.01, b)):
        if (f(low) > 0) == (f(high) > 0) and 0.0 not in (f(low), f(high)):
            continue
        assert root(f, low, high, **how) == brentq(f, low, high, **how)


def test_many_cubics():
    rng = np.random.default_rng(5)
    for a, b, c in rng.normal(size=(200, 3)):
        f = lambda x, a=a, b=b, c=c: ((x + a) * x + b) * x + c  # noqa: E731
        assert root(f, -50.0, 50.0) == brentq(f, -50.0, 50.0)


@pytest.mark.parametrize(
    "f", [lambda x: x * x + 1.0, lambda x: math.nan if 0.2 < x < 0.8 else x - 0.5]
)
def test_what_has_no_root_is_told(f):
    with pytest.raises(NumericError):
        root(f, 0.0, 1.0)


def test_few_turns_leave_the_best_place():
    assert abs(root(lambda x: x - math.pi, 0.0, 4.0, turns=3) - math.pi) < 1e-9


@pytest.mark.parametrize(
    ("f", "a", "b", "place"),
    [
        (lambda x: (x - 1.25) ** 2, -3.0, 4.0, 1.25),
        (lambda x: -math.sin(x), 0.0, 3.0, math.pi / 2),
        (lambda x: math.exp(x) - 2.0 * x, -5.0, 5.0, math.log(2.0)),
        (lambda x: abs(x - 0.3), -1.0, 1.0, 0.3),
        (lambda x: x, 0.0, 1.0, 0.0),
        (lambda x: math.inf if x > 0.5 else (x - 0.2) ** 4, 0.0, 1.0, 0.2),
        (lambda x: math.nan if x > 0.9 else (x - 0.2) ** 2, 0.0, 1.0, 0.2),
    ],
)
def test_lowest_place(f, a, b, place):
    close = 1e-4 if f(place + 1e-3) < 1e-9 else 1e-6  # flat places have few digits
    found, value = lowest(f, a, b, xtol=1e-7)
    assert abs(found - place) < close and value == f(found)
    middle = 0.5 * (a + b)
    if f(middle) < min(f(a), f(b)) and math.isfinite(f(a) + f(b)):
        found, value = lowest(f, a, b, xtol=1e-7, inside=middle)
        assert abs(found - place) < close and value == f(found)
