"""Which losses are proven smooth, with poles of every function that has some, or monotone."""

import pytest
from sympy import Symbol, acos, cos, coth, csc, csch, gamma, log, oo, pi, sec, sin, tan, tanh

from mechc.symbolic.curvature import curvature
from mechc.symbolic.facts import Facts
from mechc.symbolic.monotone import is_smooth, monotone_parts

x = Symbol("x", real=True)
a = Symbol("a", positive=True)


@pytest.mark.parametrize(
    ("loss", "lo", "hi", "smooth"),
    [
        (tan(x), -pi / 2, pi / 2, True),
        (tan(x), -pi, pi, False),
        (sec(x), 0, pi, False),
        (csc(x), 0, pi, True),
        (csc(x), -1, 1, False),
        (coth(x / a), 0, oo, True),
        (coth(x - a), 0, oo, False),
        (csch(x), -oo, oo, False),
        (acos(x), -1, 1, True),
        (acos(x), 0, 2, False),
        (gamma(x), 0, oo, True),
        (gamma(x), -2, oo, False),
        (log(x - a) + tanh(x), a, oo, True),
        (tanh(x) ** 2, -oo, oo, True),
    ],
)
def test_poles_inside_are_seen(loss, lo, hi, smooth):
    assert is_smooth(loss, x, Facts().within(x, lo, hi)) is smooth


@pytest.mark.parametrize(
    ("function", "lo", "hi", "bend"),
    [
        (cos(x / a), -a * pi / 2, a * pi / 2, -1),
        (log(sin(x) ** 3), 0, pi, -1),
        (log(cos(x / a) ** 2), -a * pi / 2, a * pi / 2, -1),
        (-log(cos(x) ** 2), 0, pi / 2, 1),
        (cos(x), 0, pi, None),
        (log(cos(x) ** 2), 0, pi, None),  # with a pole between
    ],
)
def test_waves_bend_one_way_between_their_zeros(function, lo, hi, bend):
    assert curvature(function, x, Facts().within(x, lo, hi)) == bend


def test_the_loss_of_a_raised_cosine_rises():
    loss = log(cos(pi * (x - 1) / (2 * a)) ** 2) - log(cos(pi * x / (2 * a)) ** 2)
    parts, question = monotone_parts(loss, x, 1 - a, a, Facts().assume(2 * a - 1, 1))
    assert [part.direction for part in parts] == [1] and question is None
