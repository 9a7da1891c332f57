"""The ledger: for each person, how much of each column of the grid all steps so far have used.

Totals are integers of the smallest type that cannot overflow, so the order of the steps does not
matter and a saved ledger continues exactly. A step touches one count, or four spline weights, a
person; 128 buckets take 528 bytes a person. Dense steps are kept in a buffer until there are enough
of them: a row is then fetched from memory once for all of them.

The journal: the steps as they were given, as long as they fit a memory limit.

A ledger cannot be refined after the fact; from the journal people whose bounds are too wide can be
composed one by one. Large populations outgrow it, and then the width reached with the grid is what
there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.composition.inputs import as_path
from mechc.errors import DeclarationError
from mechc.individual import storage
from mechc.individual.budget import Update, allocate, checked, for_rows, integer
from mechc.individual.splines import Grid
from mechc.individual.storage import PathLike
from mechc.numeric.jit import compiled
from mechc.protocol import Floats, Integers

BUFFER, MOST = 1 << 28, 64  # bytes and steps of the buffer of dense steps
LINE = 8  # numbers that memory hands out together
NEAR = 1 << 12  # values whose places on the grid are computed together
TILE = 128  # people whose places are computed before their rows are touched
SPREAD = 256  # numbers of a row that stay at hand in a product
PART = 1 << 12  # people whose rows are looked at together


@compiled(nogil=True, makes_arrays=True)  # for the integer types that occur
def record(codes, counts, buckets, unit, totals):  # type: ignore[no-untyped-def]
    """Add steps to totals of shape (people, columns).

    Step j, whose places are codes[j], is taken counts[j] times; -1 takes it back. What is returned
    says nothing.
    """
    kind, columns, flat = totals.dtype.type, totals.shape[1], totals.reshape(-1)
    place, weight = np.empty(TILE, np.uint64), np.empty((4, TILE), totals.dtype)
    one, end, last = float(unit), float(buckets * unit), buckets - 1.0
    share, sixth, seen = 1.0 / one, one / 6.0, kind(0)
    for begin in range(0, codes.shape[1], TILE):
        n = min(TILE, codes.shape[1] - begin)
        for k in range(begin * columns, (begin + n) * columns, LINE):
            seen |= flat[k]  # rows come from memory in order, not when they are first needed
        for j in range(codes.shape[0]):
            code, count = codes[j, begin : begin + n], kind(counts[j])
            if unit == 1:
                for i in range(n):
                    if code[i] <= end + 1.0:
                        totals[begin + i, min(np.int64(code[i]), columns - 1)] += count
                continue
            # places in whole units, so that the weights' first moment is exact as well as their
            # sum; at least one unit at both ends, so that every column a step reaches over is seen
            for i in range(n):
                x = float(code[i])
                inside, b = x <= end, math.floor(min(x * share, last))
                units = x - b * one
                t = units * share
                r = 1.0 - t
                first = math.floor(r * r * r * sixth) + 1.0
                final = math.floor(t * t * t * sixth) + 1.0
                at = b if inside else columns - 4.0
                beyond = one if x == end + 1.0 else 0.0
                place[i] = np.uint64((begin + i) * columns) + np.uint64(np.int64(at))
                weight[0, i] = kind(np.int64(first if inside else 0.0))
                weight[1, i] = kind(np.int64(one - units - 2.0 * first + final if inside else 0.0))
                weight[2, i] = kind(np.int64(units + first - 2.0 * final if inside else 0.0))
                weight[3, i] = kind(np.int64(final if inside else beyond))
            for i in range(n):
                a = place[i]
                flat[a] += kind(count * weight[0, i])
                flat[a + np.uint64(1)] += kind(count * weight[1, i])
                flat[a + np.uint64(2)] += kind(count * weight[2, i])
                flat[a + np.uint64(3)] += kind(count * weight[3, i])
    return seen


@compiled(
    "void(float64[:, ::1], float64[:, ::1], float64[:, ::1])",
    nogil=True, fastmath={"contract"},  # there is one way to contract it
)  # fmt: skip
def multiply(rows, table, out):  # type: ignore[no-untyped-def]
    """Write to `out` the product of four or more people's rows with a table.

    Libraries would wait for their threads in between, and each sum is taken in the order of the
    columns here: nobody's depends on whose are next to it.
    """
    columns, wide = table.shape
    for begin in range(0, wide, SPREAD):
        end = min(begin + SPREAD, wide)
        for first in range(0, rows.shape[0], 4):
            i = min(first, rows.shape[0] - 4)
            a, b = out[i, begin:end], out[i + 1, begin:end]
            c, d = out[i + 2, begin:end], out[i + 3, begin:end]
            x0, x1, x2, x3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            for j in range(end - begin):
                a[j], b[j], c[j], d[j] = 0.0, 0.0, 0.0, 0.0
            for k in range(0, columns - 3, 4):
                p = x0[k], x0[k + 1], x0[k + 2], x0[k + 3]
                q = x1[k], x1[k + 1], x1[k + 2], x1[k + 3]
                r = x2[k], x2[k + 1], x2[k + 2], x2[k + 3]
                s = x3[k], x3[k + 1], x3[k + 2], x3[k + 3]
                if sum(p) + sum(q) + sum(r) + sum(s) == 0.0:
                    continue
                u, v = table[k, begin:end], table[k + 1, begin:end]
                w, z = table[k + 2, begin:end], table[k + 3, begin:end]
                for j in range(end - begin):
                    e, f, g, h = u[j], v[j], w[j], z[j]
                    a[j] = a[j] + p[0] * e + p[1] * f + p[2] * g + p[3] * h
                    b[j] = b[j] + q[0] * e + q[1] * f + q[2] * g + q[3] * h
                    c[j] = c[j] + r[0] * e + r[1] * f + r[2] * g + r[3] * h
                    d[j] = d[j] + s[0] * e + s[1] * f + s[2] * g + s[3] * h
            for k in range(columns - columns % 4, columns):
                u = table[k, begin:end]
                for j in range(end - begin):
                    a[j] = a[j] + x0[k] * u[j]
                    b[j] = b[j] + x1[k] * u[j]
                    c[j] = c[j] + x2[k] * u[j]
                    d[j] = d[j] + x3[k] * u[j]


@compiled("void(float64[::1], float64[::1], int64[::1])", nogil=True)
def last_below(knots, values, places):  # type: ignore[no-untyped-def]
    """Write which of increasing knots is the last that is not above each value, 0 if none is."""
    places[:], left = 0, knots.size
    while left > 1:  # for all values at once, without a branch that could be guessed wrong
        half = left // 2
        for i in range(values.size):
            places[i] += half * np.int64(knots[places[i] + half] <= values[i])
        left -= half


class Ledger:
    """Column totals of all people.

    Attributes:
        people: population size.
        grid: what the columns mean.
        steps: number of steps, repetitions included.
    """

    def __init__(self, people: int, grid: Grid, folder: PathLike | None = None) -> None:
        """Start with nobody touched, in memory or mapped from a new folder."""
        self.people, self.grid, self.steps = integer("people", people, 1), grid, 0
        self._mapped, file = folder is not None, None
        kind = "uint64" if self._mapped else "uint32" if grid.splines else "uint16"
        if folder is not None:
            folder = as_path(folder, "storage")
            if folder.exists():
                raise DeclarationError(f"storage={str(folder)!r} exists (expected a new directory)")
            file = folder / "totals"
        self._totals: NDArray[Any]
        self._totals = allocate((self.people, grid.columns), np.dtype(kind), file)
        self._untouched = 0.0 if grid.worst > grid.best else math.inf
        self._codes = np.dtype(np.uint32 if grid.buckets * grid.unit < 1 << 31 else np.uint64)
        most = max(min(BUFFER // (self._codes.itemsize * self.people), MOST), 1)
        self._buffer, self._counts = np.empty((most, 0), self._codes), np.zeros(most, np.int64)
        self._waiting = 0

    @property
    def totals(self) -> NDArray[Any]:
        """Unsigned integers in units of 1 / `grid.unit` steps, shape (people, columns)."""
        if self._waiting:
            steps, counts = self._buffer[: self._waiting], self._counts[: self._waiting]
            about = self.grid.buckets, self.grid.unit
            for_rows(self.people, lambda s: record(steps[:, s], counts, *about, self._totals[s]))
            self._waiting = 0
        return self._totals

    @property
    def nbytes(self) -> int:
        """Bytes that totals and buffer take in memory."""
        return (0 if self._mapped else self._totals.nbytes) + self._buffer.nbytes

    def add(self, name: str, update: Update, count: int) -> tuple[Integers | None, Floats]:
        """Record a step, dense or (indices, values), taken `count` times; return it as recorded.

        Raises:
            DeclarationError: a value is worse than the worst knot, or the update or its count
                (named in the message) is malformed; nothing has been recorded then.
        """
        count = integer("count", count, 1)
        people, values = checked(name, update, self.people, self._untouched == 0.0)
        if people is None and not self._buffer.size:
            self._buffer = np.empty((self._counts.size, self.people), self._codes)
        self._widen(count)  # which empties the buffer
        codes = self._buffer[self._waiting] if people is None else None
        codes = self._encode(name, values, codes)
        if people is not None:
            self._record_some(people, codes, count)
        else:
            self._counts[self._waiting] = count
            self._waiting += 1
            if self._waiting == self._counts.size:
                _ = self.totals
        self.steps += count
        return people, values

    def take_back(self, people: Integers, values: Floats) -> None:
        """Undo a step that was recorded once for some distinct people; refused if it was not."""
        before = self.totals[people]
        self._record_some(people, self._encode("value", values), -1)
        if (self.totals[people] > before).any():  # below zero is far above
            self.totals[people] = before
            raise DeclarationError("values were not those of the last step (expected what it had)")

    def rows(self, people: Integers) -> Floats:
        """Return some people's column totals in units of steps, shape (people, columns)."""
        return self.totals[people] * (1.0 / self.grid.unit)

    def counts(self, people: Integers) -> Floats:
        """Return steps per knot, those beyond the last one there; shape (people, knots).

        Of splines they are estimates: each weight counts where its spline is highest.
        """
        rows, last = self.rows(people), self.grid.buckets
        if not self.grid.splines:
            return rows
        found = rows[:, 1 : last + 2].copy()
        found[:, 0] += rows[:, 0]
        found[:, last] += rows[:, last + 2 :].sum(axis=1)
        return found

    def times(
        self, people: Integers, *tables: Floats, room: Sequence[Floats], better: bool = False
    ) -> list[Floats]:
        """Return the sums over all steps of some people of functions given by columns.

        They are written to `room`, arrays with rows for as many people and for four at least. With
        `better`, counts stand for the better knots, and steps beyond the last one for nothing.
        """
        four = people if people.size >= 4 else np.resize(people, 4)
        rows = self.totals[four].astype(float) * (1.0 / self.grid.unit)
        for table, out in zip(tables, room, strict=True):
            if better:
                table = table[:-1] if self.grid.splines else table[1:]
            multiply(rows, table, out)
        return [out[: people.size] for out in room]

    def on_one_side(self, people: Integers) -> NDArray[np.bool_]:
        """Return of whom the ledger tells how much they have lost at most, and not at least."""
        if self.grid.splines:
            return np.asarray(self.totals[people, -1] > 0)
        return np.full(people.size, not self.grid.listed)

    def distinct(self, people: Integers) -> tuple[Integers, Integers]:
        """Return people whose rows differ, and for everybody the place of the one like them."""
        # numbers that are the same for rows that are, and by chance for others
        weights = np.random.default_rng(0).integers(1, 1 << 63, self.grid.columns, np.uint64)
        found = np.concatenate([rows.astype(np.uint64) @ weights for rows in self._parts(people)])
        if (np.diff(np.sort(found)) != 0).all():  # faster than to see who is like whom
            return people, np.arange(people.size)
        _, first, place = np.unique(found, return_index=True, return_inverse=True)
        if first.size < people.size:
            pairs = zip(self._parts(people), self._parts(people[first[place]]), strict=True)
            if all((own == other).all() for own, other in pairs):
                return people[first], place
        return people, np.arange(people.size)

    def ends(self, people: Integers) -> NDArray[np.int32]:
        """Return the first and the last column that people have used, a row each.

        The number of columns and -1 stand for none.
        """
        found, most = np.empty((2, people.size), np.int32), self.grid.columns
        for place, rows in zip(np.arange(0, people.size, PART), self._parts(people), strict=True):
            used, part = rows > 0, slice(place, place + PART)
            none = ~used.any(axis=1)
            found[0, part] = np.where(none, most, used.argmax(axis=1))
            found[1, part] = np.where(none, -1, most - 1 - used[:, ::-1].argmax(axis=1))
        return found

    def span(self, found: NDArray[np.int32]) -> tuple[int, int]:
        """Return the most revealing and the most private bucket that people with these ends have.

        The number of buckets stands for values beyond the last knot, and for no steps at all.
        """
        n = self.grid.buckets
        first, last = int(found[0].min(initial=n)), int(found[1].max(initial=-1))
        if not 0 <= last < self.grid.columns - 1:
            return min(first, n), n
        return min(first, n), last - (3 if self.grid.splines else 0)

    def _parts(self, people: Integers) -> Iterator[NDArray[Any]]:
        """Yield totals of some people, a part at a time."""
        totals = self.totals
        return (totals[people[i : i + PART]] for i in range(0, people.size, PART))

    def save(
        self, path: PathLike, kind: str, meta: dict[str, Any],
        beside: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:  # fmt: skip
        """Write the ledger atomically, with facts that must match, and arrays beside it."""
        facts = {"people": self.people, "steps": self.steps, **meta}
        storage.write(path, kind, facts, {"totals": self.totals, **(beside or {})})

    def restore(self, path: PathLike, kind: str, meta: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Read a ledger back and return what was saved beside it; unchanged if facts differ."""
        state = storage.read(path, kind)
        state.expect({"people": self.people, **meta})
        stored = state.arrays["totals"].dtype.newbyteorder("=")
        found = self._totals if self._mapped else np.empty(self._totals.shape, stored)
        state.fill(found)
        self._totals, self._waiting, self.steps = found, 0, int(state.meta["steps"])
        return {name: np.array(array) for name, array in state.arrays.items() if name != "totals"}

    def _encode(self, name: str, values: Floats, codes: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return places on the grid; refuse values that are worse than the worst knot."""
        # In units of 1 / `grid.unit` of a bucket; beyond the best knot that is one unit more than
        # the grid is long, and two for who is not touched.
        grid, end = self.grid, self.grid.buckets * self.grid.unit
        found = np.empty(values.shape, self._codes) if codes is None else codes
        sign = 1.0 if grid.worst > grid.best else -1.0
        knots, limit = -sign * grid.knots, sign * grid.worst
        for begin in range(0, values.size, NEAR):
            part = values[begin : begin + NEAR]
            signed = sign * part
            if (signed > limit).any():
                bad = part[signed > limit][0]
                raise DeclarationError(
                    f"{name}={float(bad)!r} is outside the span on the side of more privacy loss"
                    f" (the worst value accounted for is {grid.worst!r})"
                )
            if grid.splines:
                place = np.rint(np.clip(grid.position(part), 0.0, grid.buckets) * grid.unit)
            else:  # a value on a knot stays there
                place = np.empty(part.size, np.int64)
                last_below(knots, -signed, place)
                if grid.listed:
                    other = (grid.values(place) != part) & (part != self._untouched)
                    if other.any():
                        bad = part[other][0]
                        raise DeclarationError(f"{name}={bad:g} is none of the settings")
            for beyond, code in ((signed < sign * grid.best, 1), (part == self._untouched, 2)):
                if beyond.any():
                    place[beyond] = end + code
            found[begin : begin + NEAR] = place
        return found

    def _record_some(self, people: Integers, codes: NDArray[Any], count: int) -> None:
        rows = self.totals[people]
        record(codes[None], np.array([count]), self.grid.buckets, self.grid.unit, rows)
        self.totals[people] = rows

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
        self._steps: list[tuple[Integers | None, NDArray[Any], int]] = []
        self.complete, self.untouched = limit > 0, untouched

    def __len__(self) -> int:
        """Number of recorded steps, without their repetitions."""
        return len(self._steps)

    def add(self, people: Integers | None, values: Floats, count: int) -> None:
        """Add a step as a ledger has recorded it."""
        if self.complete:
            self._left -= values.nbytes + (0 if people is None else people.nbytes)
            self._steps.append((people, values.copy(), count))
            if self._left < 0:
                self._steps, self.complete = [], False

    def follow(self, steps: int) -> None:
        """Give up where a ledger has other steps, as after an interrupt between the two."""
        if self.complete and sum(count for _, _, count in self._steps) != steps:
            self._steps, self.complete = [], False

    def require_last(self, people: Integers, values: Floats) -> None:
        """Refuse values that some people did not have in the last step, as far as it is known."""
        if self.complete:
            *_, (where, last, count) = self._steps or [(None, np.zeros(self._people), 0)]
            if count != 1 or (self._of_all(where, last)[people] != values).any():
                raise DeclarationError("values were not those of the last step, taken once")

    def _of_all(self, where: Integers | None, values: NDArray[Any]) -> NDArray[Any]:
        """What everybody had in a step."""
        if where is None:
            return values
        found = np.full(self._people, self.untouched)
        found[where] = values
        return found

    def take_back(self, people: Integers) -> None:
        """Undo the last step for some people."""
        if self.complete and self._steps:
            where, values, _ = self._steps[-1]
            values[people if where is None else np.isin(where, people)] = self.untouched

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the steps as arrays for a state file; none once it has given up."""
        if not self.complete:
            return {}
        found = {"counts": np.array([count for _, _, count in self._steps], np.int64)}
        for i, (where, values, _) in enumerate(self._steps):
            found[f"values {i}"] = values
            if where is not None:
                found[f"people {i}"] = where
        return found

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned; gives up if that was nothing, or too much."""
        self._steps, self._left = [], self._limit
        self.complete = self._limit > 0 and "counts" in arrays
        for i, count in enumerate(arrays["counts"].tolist() if self.complete else ()):
            self.add(arrays.get(f"people {i}"), arrays[f"values {i}"], count)

    def agree(self, rows: Integers, others: Integers) -> bool:
        """Return whether some people took the same steps as others, one for one."""
        steps = (self._of_all(where, values) for where, values, _ in self._steps)
        return all(np.array_equal(now[rows], now[others]) for now in steps)

    def gather(self, rows: Integers) -> tuple[Floats, Integers]:
        """Return all steps of some people: parameters, shape (steps, len(rows)), and counts."""
        out = np.empty((len(self._steps), rows.size))
        for line, (where, values, _) in zip(out, self._steps, strict=True):
            line[:] = self._of_all(where, values)[rows]
        return out, np.array([count for _, _, count in self._steps], np.int64)
