"""Counts of a curve that are too many to be answered one by one: bounds from their neighbours."""

import math

import numpy as np

from mechc.accountants.bound import Bound
from mechc.composition.queries import curve
from mechc.numeric.allowance import spend


def root(n):
    """An epsilon that rises with n, and costs a hundred units."""
    spend(100.0)
    return Bound(0.99 * math.sqrt(n), math.sqrt(n), 1.01 * math.sqrt(n), "made", "proven", {})


def test_a_selection_is_answered_when_the_work_is_used_up():
    counts = np.arange(1, 10_001)
    found = curve.one_by_one(counts, 100.0, "auto", root)
    assert len(found) == curve.ALONE + 1 and {0, 9999} <= found.keys()
    answered = np.array(sorted(found))
    assert (counts[answered][1:] / counts[answered][:-1] < 3.0).all()
    table = np.full((3, counts.size), math.nan)
    for i in answered:
        table[:, i] = found[i].lower, found[i].estimate, found[i].upper
    curve.bound_between(
        counts, table, np.arange(counts.size), np.setdiff1d(np.arange(10_000), answered)
    )
    lower, estimate, upper = table
    assert (lower <= np.sqrt(counts)).all() and (np.sqrt(counts) <= upper).all()
    assert (lower <= estimate).all() and (estimate <= upper).all()
    assert (np.diff(lower) >= 0.0).all() and (np.diff(upper) >= 0.0).all()


def test_all_are_answered_where_that_is_little_work_or_nothing_is_proven():
    counts = np.array([0, 1, 2, 3, 50, 51, 400])
    assert sorted(curve.one_by_one(counts, 1e4, "auto", root)) == list(range(7))

    def estimate(n):
        spend(100.0)
        return Bound(math.nan, math.sqrt(n), math.nan, "made", "estimate", {})

    assert len(curve.one_by_one(np.arange(90), 100.0, "auto", estimate)) == 90
    assert list(curve.spread_out(np.array([5]))) == [0] and not list(
        curve.spread_out(np.empty(0, int))
    )
