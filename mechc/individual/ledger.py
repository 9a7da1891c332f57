"""The ledger: for each person, how much of each column of the grid all steps so far have used.

Totals are integers of the smallest type that cannot overflow, so the order of the steps does not
matter and a saved ledger continues exactly. A step touches one count, or four spline weights, a
person; 128 buckets take 528 bytes a person. Dense steps are kept in a buffer until there are enough
of them: a row is then fetched from memory once for all of them.

The journal: the steps as they were given, as long as they fit a memory limit.

A ledger cannot be refined after the fact; the journal can be replayed into a finer one for the
people whose bounds are too wide. Large populations outgrow it, and then the width reached with the
first grid is what there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
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
from mechc.individual.splines import Grid
from mechc.loss.jit import compiled

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

BUFFER, MOST = 1 << 27, 32  # bytes and steps of the buffer of dense steps
PART = 1 << 12  # people whose rows are looked at together
SLACK = 1e-12  # relative, beyond the worst knot: the rounding of a ratio


@compiled("int64(float64[::1], float64, boolean, float64)", nogil=True)
def beyond_worst(values, worst, up, untouched):  # type: ignore[no-untyped-def]
    """Return the index of the first value on the worse side of the span, or -1."""
    for i in range(values.size):
        v = values[i]
        ratio = v - worst * (1.0 + SLACK) if up else worst * (1.0 - SLACK) - v
        if ratio > 0.0 and v != untouched:
            return i
    return -1


@compiled(nogil=True)  # for the integer types that occur
def record(  # type: ignore[no-untyped-def]
    values, counts, knots, linear, crowding, length, untouched, unit, totals
):
    """Add steps (parameters of shape (steps, people)) to totals of shape (people, columns).

    Step j is taken counts[j] times; -1 takes it back. Knots, whether positions are linear in the
    parameter, crowding, length and unit are those of the grid.
    """
    buckets = knots.size - 1
    worst, best = knots[0], knots[buckets]
    up = worst > best
    scale = buckets / (worst - best if linear else length)
    kind = totals.dtype.type
    for p in range(values.shape[1]):
        for j in range(values.shape[0]):
            v = values[j, p]
            if v == untouched:
                continue
            if (v < best) if up else (v > best):
                totals[p, totals.shape[1] - 1] += kind(counts[j] * unit)
                continue
            if linear:
                place = (worst - v) * scale
            else:
                ratio = v / worst if up else worst / v
                place = (crowding * (1.0 - ratio) - math.log(ratio)) * scale
            b = min(max(np.int64(place), 0), buckets - 1)
            if unit == 1:  # compared with the knots themselves: a value on a knot stays there
                if (v > knots[b]) if up else (v < knots[b]):
                    b = max(b - 1, 0)
                elif (v <= knots[b + 1]) if up else (v >= knots[b + 1]):
                    b += 1
                totals[p, b] += kind(counts[j])
                continue
            # t in units, so that the weights' first moment is exact as well as their sum; at least
            # one unit at both ends, so that every column a step reaches over is seen
            units = np.int64(min(max(place - b, 0.0), 1.0) * unit + 0.5)
            t = units / unit
            r = 1.0 - t
            first = np.int64(r * r * r * (unit / 6.0)) + 1
            last = np.int64(t * t * t * (unit / 6.0)) + 1
            totals[p, b] += kind(counts[j] * first)
            totals[p, b + 1] += kind(counts[j] * (unit - units - 2 * first + last))
            totals[p, b + 2] += kind(counts[j] * (units + first - 2 * last))
            totals[p, b + 3] += kind(counts[j] * last)


class Ledger:
    """Column totals of all people.

    Attributes:
        people: population size.
        grid: what the columns mean.
        steps: number of steps, repetitions included.
    """

    def __init__(self, people: int, grid: Grid, folder: PathLike | None = None) -> None:
        """Start with nobody touched, in memory or mapped from a new folder."""
        self.people, self.grid, self.steps = check_people(people), grid, 0
        self._mapped, file = folder is not None, None
        kind = "uint64" if self._mapped else "uint32" if grid.splines else "uint16"
        if folder is not None:
            if Path(folder).exists():
                raise DeclarationError(f"storage={str(folder)!r} exists (expected a new directory)")
            Path(folder).mkdir(parents=True)
            file = Path(folder) / "totals"
        self._totals: NDArray[Any]
        self._totals = allocate((self.people, grid.columns), np.dtype(kind), file)
        self._untouched = 0.0 if grid.worst > grid.best else math.inf
        most = max(min(BUFFER // (8 * self.people), MOST), 1)
        self._buffer, self._counts = np.empty((most, 0)), np.zeros(most, np.int64)
        self._waiting = 0

    @property
    def totals(self) -> NDArray[Any]:
        """Unsigned integers in units of 1 / `grid.unit` steps, shape (people, columns)."""
        if self._waiting:
            steps, counts = self._buffer[: self._waiting], self._counts[: self._waiting]
            for_rows(self.people, lambda s: self._record(steps[:, s], counts, self._totals[s]))
            self._waiting = 0
        return self._totals

    @property
    def nbytes(self) -> int:
        """Bytes that totals and buffer take in memory."""
        return (0 if self._mapped else self._totals.nbytes) + self._buffer.nbytes

    def add(self, name: str, update: Update, count: int) -> None:
        """Record a step, dense or (indices, values), taken `count` times.

        Raises:
            DeclarationError: a value is worse than the worst knot, or the update or its count
                (named in the message) is malformed; nothing has been recorded then.
        """
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise DeclarationError(f"count={count!r} (expected an integer >= 1)")
        count, people = int(count), None
        if isinstance(update, tuple):
            people, values = check_sparse(name, update, self.people)
        else:
            values = as_floats(check_dense(name, update, self.people))
        worst = self.grid.worst
        bad = beyond_worst(values, worst, worst > self.grid.best, self._untouched)
        if bad >= 0:
            raise DeclarationError(
                f"{name}={values[bad]:g} is outside the span on the side of more privacy loss"
                f" (the worst value accounted for is {worst:g})"
            )
        self._widen(count)
        if people is not None:
            self._record_some(people, values, count)
        else:
            if not self._buffer.size:
                self._buffer = np.empty((self._counts.size, self.people))
            self._buffer[self._waiting], self._counts[self._waiting] = values, count
            self._waiting += 1
            if self._waiting == self._counts.size:
                _ = self.totals
        self.steps += count

    def take_back(self, people: Rows, values: Floats) -> None:
        """Undo a step that was recorded once for some distinct people."""
        self._record_some(people, values, -1)

    def rows(self, people: Rows) -> Floats:
        """Return some people's column totals in units of steps, shape (people, columns)."""
        found: Floats = self.totals[people] * (1.0 / self.grid.unit)
        return found

    def distinct(self, people: Rows) -> tuple[Rows, Rows]:
        """Return people whose rows differ, and for everybody the place of the one like them."""
        weights = np.random.default_rng(0).integers(1, 1 << 63, self.grid.columns, np.uint64)
        hashes = [part.astype(np.uint64) @ weights for part in self._parts(people)]
        _, first, place = np.unique(np.concatenate(hashes), return_index=True, return_inverse=True)
        if first.size < people.size:
            pairs = zip(self._parts(people), self._parts(people[first[place]]), strict=True)
            if all((own == other).all() for own, other in pairs):
                return people[first], place
        return people, np.arange(people.size)

    def span(self, people: Rows) -> tuple[int, int]:
        """Return the most revealing and the most private bucket that some people have steps in.

        The number of buckets stands for values beyond the last knot, and for no steps at all.
        """
        n = self.grid.buckets
        used = np.zeros(self.grid.columns, np.bool_)
        for part in self._parts(people):
            used |= part.any(axis=0)
        found = np.flatnonzero(used)
        if not found.size:
            return n, n
        last = n if used[-1] else int(found[-1]) - (3 if self.grid.splines else 0)
        return min(int(found[0]), n), last

    def _parts(self, people: Rows) -> Iterator[NDArray[Any]]:
        """Yield totals of some people, a part at a time."""
        totals = self.totals
        return (totals[people[i : i + PART]] for i in range(0, people.size, PART))

    def save(
        self,
        path: PathLike,
        kind: str,
        meta: dict[str, Any],
        beside: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Write the ledger atomically, with facts that must match, and arrays beside it."""
        facts = {"people": self.people, "steps": self.steps, **meta}
        storage.write(path, kind, facts, {"totals": self.totals, **(beside or {})})

    def restore(self, path: PathLike, kind: str, meta: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Read a ledger back and return what was saved beside it; unchanged if facts differ."""
        with storage.Reader(path, kind) as reader:
            reader.expect({"people": self.people, **meta})
            read = {name: reader.array(name) for name in reader.names[1:]}
            new = np.empty(self._totals.shape, reader.dtype("totals"))
            found = self._totals if self._mapped else new
            reader.copy_into("totals", found)
            self._totals, self._waiting = found, 0
            self.steps = int(reader.meta["steps"])
        return read

    def _record_some(self, people: Rows, values: Floats, count: int) -> None:
        rows = self.totals[people]
        self._record(values[None], np.array([count]), rows)
        self._totals[people] = rows

    def _record(self, steps: Floats, counts: Rows, totals: NDArray[Any]) -> None:
        grid, linear = self.grid, self.grid.spacing == "linear"
        record(
            steps, counts, grid.knots, linear, grid.crowding, float(grid.length), self._untouched,
            grid.unit, totals,
        )  # fmt: skip

    def _widen(self, count: int) -> None:
        """Change to a wider integer type before anything could overflow."""
        most = (self.steps + count) * self.grid.unit
        if most > np.iinfo(np.int64).max:
            raise DeclarationError(f"count={count!r} exceeds what a ledger can hold")
        if most > np.iinfo(self._totals.dtype).max:
            kind = np.uint32 if most <= np.iinfo(np.uint32).max else np.uint64
            self._totals = self.totals.astype(kind)


class Journal:
    """Recorded steps, as long as they take at most `limit` bytes.

    Attributes:
        complete: whether every step is still there.
        untouched: the value that stands for "not touched".
    """

    def __init__(self, people: int, limit: int, untouched: float) -> None:
        """Start empty."""
        self._people, self._limit, self._left = people, limit, limit
        self._steps: list[tuple[Rows | None, NDArray[Any], int]] = []
        self.complete, self.untouched = limit > 0, untouched

    def __len__(self) -> int:
        """Number of recorded steps, without their repetitions."""
        return len(self._steps)

    def add(self, update: Update, count: int) -> None:
        """Add a step that a ledger has accepted."""
        if not self.complete:
            return
        where = None
        if isinstance(update, tuple):
            where, update = np.array(update[0], np.int64), update[1]
        values = np.array(update, np.float64)
        self._left -= values.nbytes + (0 if where is None else where.nbytes)
        self._steps.append((where, values, count))
        if self._left < 0:
            self._steps, self.complete = [], False

    def take_back(self, people: Rows) -> None:
        """Undo the last step for some people; it must have been a dense one."""
        if self.complete:
            self._steps[-1][1][people] = self.untouched

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
        self._steps, self._left = [], self._limit
        self.complete = self._limit > 0 and "journal" in arrays
        if not self.complete:
            return
        people, values = arrays["journal_people"], arrays["journal_values"]
        for count, size, sparse in arrays["journal"].tolist():
            part, values = values[:size], values[size:]
            where, people = (people[:size], people[size:]) if sparse else (None, people)
            self.add(part if where is None else (where, part), count)

    def gather(self, rows: Rows) -> tuple[Floats, Rows]:
        """Return all steps of some people: parameters, shape (steps, len(rows)), and counts."""
        position = np.full(self._people, -1)
        position[rows] = np.arange(rows.size)
        out = np.full((len(self._steps), rows.size), self.untouched)
        for line, (where, values, _) in zip(out, self._steps, strict=True):
            if where is None:
                line[:] = values[rows]
            else:
                keep = position[where] >= 0
                line[position[where[keep]]] = values[keep]
        return out, np.array([count for _, _, count in self._steps], np.int64)
