"""One exact running total per person, in memory or memory-mapped: the state behind every filter.

What comes in is checked as a whole before anything is charged, so a refused call leaves the state
as it was. A step is applied in pieces of rows; large populations use a few threads, and because
the totals are integers the result does not depend on how the work was divided.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.errors import DeclarationError
from mechc.individual import fixed, state
from mechc.individual.fixed import Budget, Floats, Mask, Words

PathLike = str | os.PathLike[str]
# a dense array with one value a person, or (indices, values) for the people a step touches
Update = ArrayLike | tuple[ArrayLike, ArrayLike]

_ROWS = 1 << 18  # rows handled at a time: 6 MB of state, input and mask
THREADS = min(4, os.cpu_count() or 1)


class Account:
    """Totals of all people against one budget.

    Attributes:
        people: population size.
        budget: what each total is compared with.
        totals: uint64[people, 2], see `fixed`.
    """

    def __init__(self, people: int, budget: Budget, storage: PathLike | None = None) -> None:
        """Open an account with nothing spent.

        Args:
            people: population size, >= 1.
            budget: the budget of every person.
            storage: path of a new file to map the totals from; in memory without it.

        Raises:
            DeclarationError: people is not a positive integer, or the file exists.
        """
        self.people = check_people(people)
        self.budget = budget
        self.totals = allocate((self.people, 2), np.dtype(np.uint64), storage)

    def charge(self, name: str, update: Update, out: Mask | None = None) -> Mask:
        """Charge a step to everyone it fits; return who that is.

        Args:
            name: what the values are called, for error messages.
            update: values >= 0 (inf never fits), dense or (indices, values).
            out: optional array for the mask.

        Raises:
            DeclarationError: shape, dtype, index or value not acceptable; nothing is charged.
        """
        if isinstance(update, tuple):
            people, values = check_sparse(name, update, self.people)
            rows = self.totals[people]
            mask = mask_for(people.size, out)
            self._charge(rows, values, mask)
            self.totals[people] = rows
            return mask
        values = check_dense(name, update, self.people)
        mask = mask_for(self.people, out)
        for_rows(self.people, lambda s: self._charge(self.totals[s], as_floats(values[s]), mask[s]))
        return mask

    def exhaust(self, name: str, update: ArrayLike, amplify: bool) -> Floats:
        """Scale a step for everyone it does not fit (or for everyone); see `GDPFilter.exhaust`."""
        values = check_dense(name, update, self.people)
        factor = np.empty(self.people)
        for_rows(
            self.people,
            lambda s: self._exhaust(self.totals[s], as_floats(values[s]), amplify, factor[s]),
        )
        return factor

    def save(self, path: PathLike, kind: str, meta: dict[str, Any]) -> None:
        """Write the totals, the population, the budget and `meta` atomically."""
        facts = {"people": self.people, "budget": self.budget.value, **meta}
        state.write(path, kind, facts, {"totals": self.totals})

    def restore(self, path: PathLike, kind: str) -> dict[str, Any]:
        """Read totals back and return the metadata; unchanged if anything does not match."""
        with state.Reader(path, kind) as reader:
            for name, own in (("people", self.people), ("budget", self.budget.value)):
                if reader.meta[name] != own:
                    raise state.StateError(
                        f"state file {os.fspath(path)}: {name}={reader.meta[name]!r}, expected"
                        f" {name}={own!r}"
                    )
            reader.copy_into("totals", self.totals)
            return reader.meta

    def spent(self, rows: slice = slice(None)) -> Floats:
        """Return what each person has used, rounded up."""
        return fixed.spent(self.totals[rows], self.budget)

    def remaining(self, rows: slice = slice(None)) -> Floats:
        """Return the largest step that still fits each person, rounded down."""
        return fixed.remaining(self.totals[rows], self.budget)

    def _charge(self, totals: Words, values: Floats, mask: Mask) -> None:
        b = self.budget
        fixed.charge(totals, values, b.value, b.scale, b.high, b.low, b.squared, mask)

    def _exhaust(self, totals: Words, values: Floats, amplify: bool, factor: Floats) -> None:
        b = self.budget
        keep = values == 0.0
        if not amplify:
            self._charge(totals, values, keep)
        fixed.exhaust(totals, values, b.scale, b.high, b.low, keep, factor)


def check_people(people: int) -> int:
    """Return a population size, refused unless it is a positive integer."""
    if isinstance(people, bool) or not isinstance(people, int | np.integer) or people < 1:
        raise DeclarationError(f"people={people!r} (expected an integer >= 1)")
    return int(people)


def number(name: str, value: float) -> float:
    """Return a number as a float, rounded down where it is none; refused if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DeclarationError(f"{name}={value!r} (expected a number)")
    try:
        found = float(value)
    except OverflowError:
        raise DeclarationError(f"{name} is larger than any double (expected a number)") from None
    return math.nextafter(found, -math.inf) if found > value else found


def allocate(
    shape: tuple[int, ...], dtype: np.dtype[Any], storage: PathLike | None
) -> NDArray[Any]:
    """Return an array of zeros, in memory or mapped from a new file."""
    if storage is None:
        return np.zeros(shape, dtype)
    if Path(storage).exists():
        raise DeclarationError(f"storage={os.fspath(storage)!r} exists; expected a new file name")
    return np.memmap(storage, dtype=dtype, mode="w+", shape=shape)


def for_rows(count: int, work: Callable[[slice], None]) -> None:
    """Run `work` over slices of rows, in threads where that pays."""
    slices: Iterator[slice] = (
        slice(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS)
    )
    if count <= _ROWS:
        work(slice(0, count))
        return
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(work, slices):
            pass


def as_floats(values: NDArray[Any], up: bool = True) -> Floats:
    """Return values as contiguous float64, rounded up (or down) where they are none."""
    with np.errstate(over="ignore", under="ignore"):
        found: Floats = np.ascontiguousarray(values, dtype=np.float64)
    kind = values.dtype
    if kind.itemsize < 8 or kind == np.float64:
        return found
    # the largest integers round to one that is none of them
    most = math.inf if kind.kind == "f" else float(np.iinfo(kind).max)
    beyond = (found >= most) & (values < most)
    back, held = values.copy(), found < most
    back[held] = found[held]
    off = ~beyond & (back < values) if up else beyond | (back > values)
    return np.where(off, np.nextafter(found, np.inf if up else -np.inf), found)


def rounded(name: str, update: Update, up: bool) -> Update:
    """Return an update whose values are doubles already if its type has more digits than they."""
    if isinstance(update, tuple):
        return (update[0], rounded(name, update[1], up)) if len(update) == 2 else update
    array = _real(name, update)
    return update if array.dtype.itemsize < 8 else as_floats(array, up)


def check_dense(name: str, values: ArrayLike, people: int) -> NDArray[Any]:
    """Return one value a person, checked: real, one-dimensional, >= 0, not nan."""
    array = _real(name, values)
    if array.shape != (people,):
        raise DeclarationError(f"{name} has shape {array.shape} (expected ({people},))")
    for start in range(0, people, _ROWS):
        bad = fixed.first_invalid(as_floats(array[start : start + _ROWS]))
        if bad >= 0:
            raise _negative(name, start + bad, array[start + bad])
    return array


def check_sparse(
    name: str, update: tuple[ArrayLike, ArrayLike], people: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return (indices, values), checked: distinct people in range, values >= 0, not nan."""
    if len(update) != 2:
        raise DeclarationError(f"{name} is a tuple of {len(update)} (expected indices, values)")
    indices, values = np.asarray(update[0]), as_floats(_real(name, update[1]))
    if indices.ndim != 1 or not (np.issubdtype(indices.dtype, np.integer) or indices.size == 0):
        raise DeclarationError("indices are not a one-dimensional array of integers")
    if values.shape != indices.shape:
        raise DeclarationError(
            f"{name} has shape {values.shape}, its indices {indices.shape} (expected the same)"
        )
    wrong = np.flatnonzero((indices < 0) | (indices >= people))
    if wrong.size:
        raise DeclarationError(f"index {indices[wrong[0]]} out of range (people={people})")
    steps = np.diff(np.sort(indices))
    if not np.all(steps):
        raise DeclarationError(
            "an index occurs twice (expected distinct people: one person's contributions to a"
            " step add up before they are passed)"
        )
    bad = fixed.first_invalid(values)
    if bad >= 0:
        raise _negative(name, int(indices[bad]), values[bad])
    return indices.astype(np.int64), values


def mask_for(size: int, out: Mask | None) -> Mask:
    """Return `out` if it fits, or a new mask."""
    if out is None:
        return np.empty(size, np.bool_)
    if out.shape != (size,) or out.dtype != np.bool_:
        raise DeclarationError(f"out is {out.dtype}{out.shape} (expected bool({size},))")
    return out


def _real(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asanyarray(values)
    except ValueError as error:
        raise DeclarationError(f"{name} is not an array of numbers: {error}") from error
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise DeclarationError(f"{name} has dtype {array.dtype} (expected real numbers)")
    return array


def _negative(name: str, index: int, value: float) -> DeclarationError:
    return DeclarationError(f"{name}[{index}]={float(value)!r} (expected a number >= 0)")
