"""The ledger: for each person, how much of each column of the grid all steps so far have used.

Totals are integers of the smallest type that cannot overflow, so the order of the steps does not
matter and a saved ledger continues exactly. A step touches one count and four spline weights a
person; 64 buckets take 130 bytes a person for counts and 268 for splines.

The journal: the steps as they were given, as long as they fit a memory limit.

A ledger cannot be refined after the fact; the journal can be replayed into a finer one for the
people whose bounds are too wide. Large populations outgrow it, and then the width reached with the
first grid is what there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError
from mechc.individual import storage
from mechc.individual.budget import (
    PathLike,
    Update,
    allocate,
    as_floats,
    check_dense,
    check_people,
    check_sparse,
    for_rows,
)
from mechc.individual.splines import CELLS, ONE, Grid, spline_weights
from mechc.loss.jit import compiled

Floats = NDArray[np.float64]


# numba freezes globals of other modules in its cache, so numbers from `grid` arrive as arguments
@compiled("void(float64[::1], float64, float64, boolean, int64, int64, int64[::1])", nogil=True)
def locate(values, a, b, geometric, buckets, size, place):  # type: ignore[no-untyped-def]
    """Find the cell of each value: bucket * size + cell; buckets * size beyond the best knot.

    Positions are rounded down, towards the worst knot; one part in 1e9 of a cell is given away so
    that rounding of the logarithm cannot round up. -1 is worse than the first knot.
    """
    cells = buckets * size
    slack = 1e-9 + 1e-14 * cells
    for i in range(values.size):
        x = np.log(values[i]) if geometric else values[i]
        cell = (a * x + b) * size
        if cell < -slack:
            place[i] = -1
        elif cell > cells + slack:
            place[i] = cells
        else:
            place[i] = min(np.int64(max(np.floor(cell - slack), 0.0)), cells - 1)


@compiled(nogil=True)  # for the integer types that occur
def add_counts(totals, place, size, count):  # type: ignore[no-untyped-def]
    """Add `count` to the bucket of each person who was touched (place >= 0)."""
    for i in range(place.size):
        if place[i] >= 0:
            totals[i, place[i] // size] += totals.dtype.type(count)


@compiled(nogil=True)  # for the integer types that occur
def add_splines(totals, place, weights, count):  # type: ignore[no-untyped-def]
    """Add `count` times the four spline weights of each person touched within the span."""
    size = weights.shape[0]
    for i in range(place.size):
        bucket = place[i] // size
        if 0 <= bucket < totals.shape[1] - 3:
            cell = place[i] % size
            for j in range(4):
                totals[i, bucket + j] += totals.dtype.type(weights[cell, j] * count)


@compiled("int64[:,::1](float64[:,::1])", nogil=True)
def _extents(table):  # type: ignore[no-untyped-def]
    """Return where the entries of each row that are not zero begin and end."""
    out = np.empty((table.shape[0], 2), np.int64)
    for j in range(table.shape[0]):
        lo, hi = 0, table.shape[1]
        while lo < hi and table[j, lo] == 0.0:
            lo += 1
        while lo < hi and table[j, hi - 1] == 0.0:
            hi -= 1
        out[j] = lo, hi
    return out


@compiled(nogil=True)  # for the integer types that occur
def product(counts, weights, unit, people, table, out):  # type: ignore[no-untyped-def]
    """Set out to rows of the ledger times a table, skipping columns a person never touched.

    Written out instead of calling BLAS: rows are half empty, so are those of tables, every person's
    sum is the same wherever and with whomever it is computed, and threads are ours to place. Four
    rows of the table are added at a time.
    """
    n = counts.shape[1]
    extent = _extents(table)
    used = np.zeros(table.shape[0] + 3, np.int64)
    times = np.empty(used.size)
    for i in range(people.size):
        p = people[i]
        found = 0
        for j in range(n):
            used[found], times[found] = j, np.float64(counts[p, j])
            found += counts[p, j] > 0
        for j in range(weights.shape[1]):
            used[found], times[found] = n + j, np.float64(weights[p, j]) / unit
            found += weights[p, j] > 0
        for f in range(found, found + 3):
            used[f], times[f] = used[max(found - 1, 0)], 0.0
        row = out[i]
        row[:] = 0.0
        for f in range(0, found, 4):
            ia, ib, ic, id_ = used[f], used[f + 1], used[f + 2], used[f + 3]
            a, b, c, d = times[f], times[f + 1], times[f + 2], times[f + 3]
            lo = min(extent[ia, 0], extent[ib, 0], extent[ic, 0], extent[id_, 0])
            hi = max(extent[ia, 1], extent[ib, 1], extent[ic, 1], extent[id_, 1])
            for m in range(np.uint64(lo), np.uint64(hi)):  # unsigned: no wraparound to check
                left = a * table[ia, m] + b * table[ib, m]
                row[m] += left + (c * table[ic, m] + d * table[id_, m])


@compiled(nogil=True)  # for the integer types that occur
def first_used(counts, people, out):  # type: ignore[no-untyped-def]
    """Set out to the first bucket that each person has steps in, 0 if there is none."""
    for i in range(people.size):
        out[i] = 0
        for j in range(counts.shape[1]):
            if counts[people[i], j] > 0:
                out[i] = j
                break


class Ledger:
    """Column totals of all people.

    Attributes:
        people: population size.
        grid: what the columns mean.
        counts: unsigned integers, shape (people, buckets + 1).
        weights: unsigned integers in units of 1 / `ONE`, shape (people, buckets + 3 or 0).
        steps: number of steps, repetitions included.
    """

    def __init__(self, people: int, grid: Grid, storage: PathLike | None = None) -> None:
        """Start with nobody touched.

        Args:
            people: population size.
            grid: the grid.
            storage: path of a new directory to map the totals from; in memory without it.
        """
        self.people, self.grid, self.steps = check_people(people), grid, 0
        self._mapped = storage is not None
        shapes = {"counts": grid.counts, "weights": grid.weights}
        if storage is not None:
            if Path(storage).exists():
                raise DeclarationError(
                    f"storage={str(storage)!r} exists (expected a new directory)"
                )
            Path(storage).mkdir(parents=True)
        for name, columns in shapes.items():
            kind = "uint64" if storage else "uint16" if name == "counts" else "uint32"
            file = Path(storage) / name if storage and columns else None
            setattr(self, name, allocate((self.people, columns), np.dtype(kind), file))
        self._splines = spline_weights()

    counts: NDArray[Any]
    weights: NDArray[Any]

    def add(self, name: str, update: Update, untouched: float, count: int) -> None:
        """Record a step, taken `count` times.

        Args:
            name: parameter name, for error messages.
            update: parameter values, dense or (indices, values).
            untouched: the value that stands for "not touched" (0 or inf).
            count: repetitions, >= 1.

        Raises:
            DeclarationError: a value is worse than the worst knot, or the update is malformed;
                nothing has been recorded then.
        """
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise DeclarationError(f"count={count!r} (expected an integer >= 1)")
        if isinstance(update, tuple):
            people, values = check_sparse(name, update, self.people)
            place = self._place(name, values, untouched)
            self._widen(int(count))
            counts, weights = self.counts[people], self.weights[people]
            self._add(counts, weights, place, int(count))
            self.counts[people], self.weights[people] = counts, weights
        else:
            dense = check_dense(name, update, self.people)
            for start in range(0, self.people, 1 << 20):
                self._place(name, as_floats(dense[start : start + (1 << 20)]), untouched)
            self._widen(int(count))

            def work(s: slice) -> None:
                place = self._place(name, as_floats(dense[s]), untouched)
                self._add(self.counts[s], self.weights[s], place, int(count))

            for_rows(self.people, work)
        self.steps += int(count)

    def take_back(
        self, name: str, people: NDArray[np.int64], values: Floats, untouched: float
    ) -> None:
        """Undo a step that was recorded once for some people.

        Args:
            name: as for `add`.
            people: distinct indices.
            values: what was recorded for them.
            untouched: as for `add`.
        """
        place = self._place(name, values, untouched)
        counts, weights = self.counts[people], self.weights[people]
        self._add(counts, weights, place, -1)  # unsigned, so adding -1 subtracts
        self.counts[people], self.weights[people] = counts, weights

    def times(self, people: NDArray[np.int64], table: Floats) -> Floats:
        """Return some people's column totals, in units of steps, times a table.

        Args:
            people: indices.
            table: shape (grid.columns, m).
        """
        out = np.empty((people.size, table.shape[1]))
        product(self.counts, self.weights, float(ONE), people, np.ascontiguousarray(table), out)
        return out

    def first_bucket(self, people: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most revealing bucket each person has steps in (0 if none)."""
        out = np.empty(people.size, np.int64)
        first_used(self.counts, people, out)
        return out

    def save(
        self,
        path: PathLike,
        kind: str,
        meta: dict[str, Any],
        beside: Mapping[str, NDArray[Any]] = MappingProxyType({}),
    ) -> None:
        """Write the ledger atomically, with facts that must match when it is read back.

        Args:
            path: the file to create or replace.
            kind: see `state.write`.
            meta: the facts.
            beside: further arrays to keep in the same file.
        """
        facts = {"people": self.people, "steps": self.steps, **meta}
        totals = {"counts": self.counts, "weights": self.weights}
        storage.write(path, kind, facts, {**totals, **beside})

    def restore(self, path: PathLike, kind: str, meta: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Read a ledger back; unchanged if population, grid or `meta` do not match.

        Returns:
            The arrays that were saved beside it.
        """
        with storage.Reader(path, kind) as reader:
            for name, own in {"people": self.people, **meta}.items():
                if reader.meta.get(name) != own:
                    raise storage.StateError(
                        f"state file {path}: {name}={reader.meta.get(name)!r}, expected {own!r}"
                    )
            read = {name: reader.array(name) for name in reader.names[2:]}
            for name in ("counts", "weights"):
                own_array = getattr(self, name)
                new = np.empty(own_array.shape, reader.dtype(name))
                read[name] = own_array if self._mapped else new
                reader.copy_into(name, read[name])
            self.counts, self.weights = read.pop("counts"), read.pop("weights")
            self.steps = int(reader.meta["steps"])
        return read

    def _place(self, name: str, values: Floats, untouched: float) -> NDArray[np.int64]:
        """Locate values; -1 for people not touched."""
        grid = self.grid
        touched = values != untouched
        safe = values if touched.all() else np.where(touched, values, grid.best)
        if grid.splines:
            place = np.empty(values.size, np.int64)
            a, b = grid.scale
            locate(safe, a, b, grid.spacing == "geometric", grid.buckets, CELLS, place)
        else:  # compared with the knots themselves: a value on a knot stays there
            sign = 1.0 if grid.best > grid.worst else -1.0
            place = np.searchsorted(sign * grid.knots, sign * safe, side="right") - 1
            place *= CELLS
        bad = np.flatnonzero((place < 0) & touched)
        if bad.size:
            raise DeclarationError(
                f"{name}={values[bad[0]]:g} is outside the span on the side of more privacy loss"
                f" (the worst value accounted for is {grid.worst:g})"
            )
        place[~touched] = -1
        return place

    def _add(
        self, counts: NDArray[Any], weights: NDArray[Any], place: NDArray[np.int64], count: int
    ) -> None:
        add_counts(counts, place, CELLS, count)
        if self.grid.splines:
            add_splines(weights, place, self._splines, count)

    def _widen(self, count: int) -> None:
        """Change to wider integer types before anything could overflow."""
        for name, unit in (("counts", 1), ("weights", ONE)):
            most = (self.steps + count) * unit
            if most > np.iinfo(np.uint64).max:
                raise DeclarationError(f"count={count!r} exceeds what a ledger can hold")
            array = getattr(self, name)
            if most > np.iinfo(array.dtype).max:
                kind = np.uint32 if most <= np.iinfo(np.uint32).max else np.uint64
                setattr(self, name, array.astype(kind))


Rows = NDArray[np.int64]


class Journal:
    """Recorded steps.

    Attributes:
        complete: whether every step is still there.
    """

    def __init__(self, people: int, limit: int) -> None:
        """Start empty.

        Args:
            people: population size.
            limit: bytes the journal may take before it gives up.
        """
        self._people, self._limit, self._left = people, limit, limit
        self._steps: list[tuple[Rows | None, NDArray[Any], int]] = []
        self.complete = limit > 0

    def __len__(self) -> int:
        """Number of recorded steps, without their repetitions."""
        return len(self._steps)

    def add(self, update: Update, count: int) -> None:
        """Record a step that a ledger has accepted.

        Args:
            update: parameter values, dense or (indices, values).
            count: repetitions.
        """
        if not self.complete:
            return
        where = None
        if isinstance(update, tuple):
            where, update = np.array(update[0], np.int64), update[1]
        values = np.array(update, np.float64)
        self._left -= values.nbytes + (0 if where is None else where.nbytes)
        self._steps.append((where, values, count))
        if self._left < 0:
            self.close()

    def take_back(self, people: Rows, untouched: float) -> None:
        """Undo the last step for some people; it must have been a dense one.

        Args:
            people: indices.
            untouched: the value that stands for "not touched".
        """
        if self.complete:
            self._steps[-1][1][people] = untouched

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the steps as arrays for a state file; none once it has given up."""
        if not self.complete:
            return {}
        sparse = [where for where, _, _ in self._steps if where is not None]
        rows = [(count, values.size, where is not None) for where, values, count in self._steps]
        return {
            "journal": np.array(rows, np.int64).reshape(-1, 3),
            "journal_people": np.concatenate([np.empty(0, np.int64), *sparse]),
            "journal_values": np.concatenate([np.empty(0), *(v for _, v, _ in self._steps)]),
        }

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned; gives up if that was nothing, or too much."""
        self.close()
        if "journal" not in arrays or self._limit == 0:
            return
        self._left, self.complete = self._limit, True
        people, values = arrays["journal_people"], arrays["journal_values"]
        for count, size, sparse in arrays["journal"].tolist():
            part, values = values[:size], values[size:]
            where, people = (people[:size], people[size:]) if sparse else (None, people)
            self.add(part if where is None else (where, part), count)

    def close(self) -> None:
        """Give up: free the memory and say so from now on."""
        self._steps, self.complete = [], False

    def gather(self, rows: Rows, untouched: float) -> tuple[Floats, Rows]:
        """Return all steps of some people: parameters, shape (steps, len(rows)), and counts.

        Args:
            rows: which people.
            untouched: the value that stands for "not touched".
        """
        position = np.full(self._people, -1)
        position[rows] = np.arange(rows.size)
        out = np.full((len(self._steps), rows.size), untouched)
        for line, (where, values, _) in zip(out, self._steps, strict=True):
            if where is None:
                line[:] = values[rows]
            else:
                keep = position[where] >= 0
                line[position[where[keep]]] = values[keep]
        return out, np.array([count for _, _, count in self._steps], np.int64)

    def replay(self, ledger: Ledger, rows: Rows, name: str, untouched: float) -> None:
        """Record all steps of some people in another ledger.

        Args:
            ledger: an empty ledger for len(rows) people.
            rows: which people, in the order of the ledger.
            name: as for `Ledger.add`.
            untouched: as for `Ledger.add`.
        """
        position = np.full(self._people, -1)
        position[rows] = np.arange(rows.size)
        for where, values, count in self._steps:
            if where is None:
                ledger.add(name, values[rows], untouched, count)
            else:
                keep = position[where] >= 0
                ledger.add(name, (position[where[keep]], values[keep]), untouched, count)
