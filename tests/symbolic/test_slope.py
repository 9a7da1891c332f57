"""Which losses are proven smooth: poles of every function that has some are seen."""

import pytest
from sympy import Symbol, acos, coth, csc, csch, gamma, log, oo, pi, sec, tan, tanh

from mechc.symbolic.facts import Facts
from mechc.symbolic.monotone import is_smooth

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
