"""The ledger counts what was given, on the safe side, and comes back from disk as it was."""

import numpy as np
import pytest

from mechc.errors import DeclarationError
from mechc.individual import StateError
from mechc.individual.ledger import Ledger
from mechc.individual.splines import ONE, Grid, basis, spline_coefficients

GRID = Grid(0.5, 50.0, 16, "geometric", True)


def random_steps(people, steps, seed=0):
    rng = np.random.default_rng(seed)
    values = np.exp(rng.uniform(np.log(0.5), np.log(80), (steps, people)))
    return np.where(rng.random(values.shape) < 0.2, np.inf, values)


@pytest.mark.parametrize("spacing", ["geometric", "linear"])
@pytest.mark.parametrize("ends", [(0.5, 50.0), (50.0, 0.5)])
def test_counts_are_those_of_the_safe_knot(spacing, ends):
    grid = Grid(*ends, 16, spacing, False)
    ledger = Ledger(300, grid)
    lo, hi = min(ends), max(ends)
    values = np.random.default_rng(1).uniform(lo, hi, 300)
    values[:17] = grid.knots
    ledger.add("sigma", values, 1)
    bucket = np.argmax(ledger.totals, axis=1)
    safe = grid.knots[bucket]
    worse = safe <= values if ends[0] < ends[1] else safe >= values
    assert worse.all() and (ledger.totals.sum(axis=1) == 1).all()
    assert np.array_equal(bucket[:17], np.arange(17))
    inner = bucket < 16
    following = grid.knots[bucket[inner] + 1]
    assert (np.abs(following - safe[inner]) > np.abs(values[inner] - safe[inner])).all()


@pytest.mark.parametrize("crowding", [0.0, 8.0])
@pytest.mark.parametrize("ends", [(0.5, 50.0), (50.0, 0.5)])
def test_splines_put_the_value_back_where_it_was(ends, crowding):
    """Positions are linear in the knots, so that splines return them up to half a unit."""
    grid = Grid(*ends, 16, "geometric", True, crowding)
    ledger = Ledger(1000, grid)
    values = np.exp(np.random.default_rng(2).uniform(np.log(0.5), np.log(50), 1000))
    values[:17] = grid.knots
    ledger.add("sigma", values, 1)
    assert (ledger.totals.sum(axis=1) == ONE).all()
    found = ledger.totals[:, :-1] @ np.arange(-1.0, 18.0) / ONE
    ratio = np.minimum(values / ends[0], ends[0] / values)
    length = crowding * 0.99 + np.log(100)
    position = 16 * (crowding * (1 - ratio) - np.log(ratio)) / length
    assert np.abs(position - found).max() <= 0.51 / ONE
    assert np.allclose(grid.values(position), values, rtol=1e-12)
    assert np.allclose(grid.position(values), position, atol=1e-12)


def test_splines_reproduce_cubics_and_rounded_weights_what_they_stand_for():
    x = np.arange(13.0)
    cubic = np.stack([x**3 - 2 * x, 7 - x**2], axis=1)
    a = spline_coefficients(cubic)
    assert np.allclose((a[:-2] + 4 * a[1:-1] + a[2:]) / 6, cubic, rtol=1e-12, atol=1e-9)
    grid = Grid(1.0, 13.0, 12, "linear", True)
    values = np.random.default_rng(3).uniform(1.0, 13.0, 500)
    ledger = Ledger(500, grid)
    ledger.add("sigma", values, 1)
    bucket = (values - 1.0).astype(int)
    exact = basis(values - 1.0 - bucket)
    for b in (a[:, 0], np.arange(15.0), (-1.0) ** np.arange(15)):
        near = b[bucket[:, None] + np.arange(4)]
        off = np.abs(ledger.totals[:, :-1] @ b / ONE - (exact * near).sum(axis=1))
        one, two = (np.abs(np.diff(near, n=n, axis=1)).max(axis=1) for n in (1, 2))
        assert (off <= (0.501 * one + 2 * two) / ONE + 1e-12 * np.abs(near).max()).all()


def test_order_repetition_and_sparse_updates_do_not_matter():
    steps = random_steps(200, 12)
    a, b, c = (Ledger(200, GRID) for _ in range(3))
    for row in steps:
        a.add("sigma", row, 3)
    for row in steps[::-1]:
        for _ in range(3):
            b.add("sigma", row, 1)
        who = np.flatnonzero(np.isfinite(row))[::-1]
        c.add("sigma", (who, row[who]), 3)
    for other in (b, c):
        assert np.array_equal(a.totals, other.totals)
    assert a.steps == b.steps == c.steps == 36


def test_types_widen_before_they_overflow():
    a, b = Ledger(5, GRID), Ledger(5, GRID)
    values = np.array([0.5, 1.0, 3.0, 60.0, np.inf])
    a.add("sigma", values, 4000)
    assert a.totals.dtype == np.uint32
    a.add("sigma", values, 10**6)
    assert a.totals.dtype == np.uint64
    b.add("sigma", values, 1_004_000)
    assert np.array_equal(a.totals, b.totals)
    with pytest.raises(DeclarationError, match="exceeds what a ledger can hold"):
        a.add("sigma", values, 10**19)


def test_a_wider_type_is_taken_while_steps_wait():
    steps, counts = random_steps(40, 5), (3000, 2, 3000, 1, 10**6)
    together, apart = Ledger(40, GRID), np.zeros((40, GRID.columns), np.uint64)
    for values, count in zip(steps, counts, strict=True):
        together.add("sigma", values, count)
        alone = Ledger(40, GRID)
        alone.add("sigma", values, 1)
        apart += alone.totals * np.uint64(count)
    assert np.array_equal(together.totals, apart)


def test_a_step_can_be_taken_back():
    a, b = Ledger(50, GRID), Ledger(50, GRID)
    steps = random_steps(50, 2, seed=5)
    for ledger in (a, b):
        ledger.add("sigma", steps[0], 1)
    a.add("sigma", steps[1], 1)
    a.take_back(np.arange(50), steps[1])
    assert np.array_equal(a.totals, b.totals)


def test_rows_are_in_units_of_steps():
    ledger = Ledger(40, GRID)
    for row in random_steps(40, 5):
        ledger.add("sigma", row, 1)
    rows = np.array([3, 39, 0])
    assert np.array_equal(ledger.rows(rows) * ONE, ledger.totals[rows])
    assert ledger.span(ledger.ends(rows))[0] == np.flatnonzero(ledger.totals[rows].any(axis=0))[0]


def test_products_do_not_depend_on_who_is_next_to_whom():
    ledger, rng = Ledger(70, GRID), np.random.default_rng(3)
    for values in random_steps(70, 9, 4):
        ledger.add("sigma", values, 1)
    table = rng.normal(size=(GRID.columns, 519))
    (found,) = ledger.times(np.arange(70), table, room=[np.empty((70, 519))])
    assert np.allclose(found, ledger.rows(np.arange(70)) @ table, rtol=1e-13, atol=1e-13)
    who = np.array([68, 3, 3])
    tables = table, np.ascontiguousarray(table[:, :6])
    again, less = ledger.times(who, *tables, room=[np.empty((4, t.shape[1])) for t in tables])
    assert np.array_equal(again, found[who]) and np.array_equal(less, found[who][:, :6])


@pytest.mark.parametrize(
    "bad, message",
    [
        ([1.0, 0.4, 1.0], "sigma=0.4 is outside the span"),
        ([1.0, -1.0, 1.0], r"sigma\[1\]"),
        ([1.0, np.nan, 1.0], r"sigma\[1\]"),
        ([1.0, 1.0], "shape"),
        (([3], [1.0]), "out of range"),
        (([1, 1], [1.0, 1.0]), "twice"),
        (([1], [0.1]), "outside the span"),
    ],
)
def test_bad_steps_change_nothing(bad, message):
    ledger = Ledger(3, GRID)
    ledger.add("sigma", [1.0, 2.0, np.inf], 1)
    before = ledger.totals.copy()
    with pytest.raises(DeclarationError, match=message):
        ledger.add("sigma", bad, 1)
    assert np.array_equal(before, ledger.totals)
    assert ledger.steps == 1


@pytest.mark.parametrize("count", [0, -1, 1.5, True, np.arange(1e5)], ids=str)
def test_bad_counts_are_refused(count):
    with pytest.raises(DeclarationError, match=r"^count=.{1,90} \(expected"):  # on one line
        Ledger(1, GRID).add("sigma", [1.0], count)


@pytest.mark.parametrize("buckets", [3, 1 << 20])
def test_bad_grids_are_refused(buckets):
    with pytest.raises(DeclarationError):
        Grid(0.5, 50.0, buckets, "geometric", True)


def test_saved_ledgers_come_back(tmp_path):
    a = Ledger(100, GRID)
    a.add("sigma", random_steps(100, 1)[0], 70_000)
    a.save(tmp_path / "s", "ledger", {"family": "x"})
    mapped = Ledger(100, GRID, tmp_path / "work")
    for b in (Ledger(100, GRID), mapped):
        b.restore(tmp_path / "s", "ledger", {"family": "x"})
        assert b.steps == 70_000
        assert np.array_equal(a.totals, b.totals)
    for other, meta in ((Ledger(99, GRID), {"family": "x"}), (Ledger(100, GRID), {"family": "y"})):
        with pytest.raises(StateError, match="expected"):
            other.restore(tmp_path / "s", "ledger", meta)
        assert other.steps == 0 and not other.totals.any()
