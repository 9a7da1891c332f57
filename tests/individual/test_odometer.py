"""The odometer's bounds are sums of squared increments, released at the right moments."""

import math

import pytest

from mechc.errors import DeclarationError
from mechc.individual import GDPOdometer


def test_segments_close_before_the_step_that_does_not_fit():
    o = GDPOdometer(0.5)
    closed = [o.step(0.25) for _ in range(9)]  # four quarters fill one half exactly
    assert closed == [False] * 4 + [True] + [False] * 3 + [True]
    assert o.segment == 2
    assert o.released == pytest.approx(math.sqrt(0.5), rel=1e-15)
    assert o.bound == pytest.approx(math.sqrt(0.75), rel=1e-15)
    assert o.released**2 >= 0.5 and o.bound**2 >= 0.75


def test_increments_may_differ_and_the_last_repeats():
    o = GDPOdometer([0.3, 0.4])
    assert o.released == 0
    o.step(0.3)
    assert o.step(0.4) and o.released == pytest.approx(0.3)
    assert o.step(0.4) and o.released == pytest.approx(0.5)
    assert o.increment == 0.4


def test_a_step_larger_than_the_increment_changes_nothing():
    o = GDPOdometer(0.5)
    o.step(0.4)
    with pytest.raises(DeclarationError, match="exceeds the increment"):
        o.step(0.6)
    assert o.segment == 0 and not o.step(0.25)


@pytest.mark.parametrize("increments", [[], 0.0, [0.5, -1.0], [0.5, math.nan]])
def test_bad_increments_are_refused(increments):
    with pytest.raises(DeclarationError):
        GDPOdometer(increments)
