"""The odometer's bounds are sums of squared increments, released at the right moments."""

import math

import pytest

from mechc.errors import DeclarationError
from mechc.individual import GDPOdometer, RenyiFilter, SharedGDPFilter, StateError


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


def test_odometers_and_shared_filters_go_on_where_they_were_saved(tmp_path):
    o = GDPOdometer([0.3, 0.4])
    for _ in range(3):
        o.step(0.25)
    o.save(tmp_path / "o")
    again = GDPOdometer.load(tmp_path / "o")
    assert (again.segment, again.released, again.bound) == (o.segment, o.released, o.bound)
    assert again.remaining() == o.remaining() == pytest.approx(math.sqrt(0.16 - 0.125))
    for each in (o, again):
        assert not each.step(0.15) and each.step(0.2)  # the second closes the segment
    shared = SharedGDPFilter(mu=1.0)
    assert shared.step(0.6) and shared.remaining() == pytest.approx(0.8)
    assert not shared.step(0.9) and shared.remaining() == 0.0
    shared.save(tmp_path / "s")
    restored = SharedGDPFilter.load(tmp_path / "s")
    assert restored.stopped and restored.spent() == shared.spent() and not restored.step(0.1)
    with pytest.raises(StateError):
        SharedGDPFilter.load(tmp_path / "o")
    o.restore(tmp_path / "o")
    assert o.segment == 1 and o.bound == pytest.approx(0.5) and not o.step(0.15)
    with pytest.raises(StateError, match="increments"):
        GDPOdometer([0.3]).restore(tmp_path / "o")


def test_what_remains_of_a_renyi_budget_fits():
    f = RenyiFilter(people=2, order=4.0, budget=1.0)
    f.step([0.3, 0.7])
    left = f.remaining()
    assert left == pytest.approx([0.7, 0.3], rel=1e-12)
    assert f.step(left).all() and not f.step([1e-9, 1e-9]).any()
