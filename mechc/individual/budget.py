"""Exact accounting of sums of squares (or of plain sums) against a budget, in 128-bit integers.

A filter must decide `mu_1^2 + ... + mu_k^2 <= B^2` without ever erring towards yes, after any
number of terms. Floating-point sums cannot promise that, so nothing here is a floating-point sum.
With s chosen such that B 2^s is an integer in [2^61, 2^62):

* a step mu is rounded up to the integer m = ceil(mu 2^s), which is exact for mu >= 2^-9 B;
* m^2 < 2^124 is added exactly to a 128-bit total, kept as two uint64 (high, low);
* the total is compared exactly with (B 2^s)^2.

Hence total >= 2^{2s} sum mu^2, always, and a sum that lands on the budget is not refused. Rounding
up costs little: by Minkowski sqrt(total) exceeds 2^s sqrt(sum mu^2) by at most sqrt(k), which is
1.4e-14 of the budget after 1e9 tiny steps.

Plain sums (Renyi divergences) use the same words: rho 2^s is rounded up to a multiple of 2^-62.

What comes in is checked as a whole before anything is charged, so a refused call leaves the state
as it was. A step is applied in pieces of rows; large populations use a few threads, and because
the totals are integers the result does not depend on how the work was divided.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.composition.inputs import LogDelta, as_path
from mechc.errors import DeclarationError, UnsupportedError, in_words
from mechc.individual.storage import PathLike, StateError
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS, EXACT
from mechc.protocol import Floats

Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]

_BITS = 62  # of a scaled number, whose square fits two words
_FRACTION, _WORD = 2.0**_BITS, 2.0**64  # one, scaled, and the weight of the upper word
# outside this range the power of two that scales the budget would leave float64
SMALLEST, LARGEST = 1e-150, 1e150
SHAVE = 1.0 - 4 * EPS  # 8 ulp: covers the roundings on the way back to float64
_HUGE = 1.7e308  # a factor stays finite

_U32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)  # bits of half a word, and its lower half


class Budget(NamedTuple):
    """A budget as a float and as the 128-bit integer that totals are compared with.

    Attributes:
        value: the budget as given.
        scale: the power of two that makes it an integer in [2^61, 2^62).
        high: upper 64 bits of the largest admissible total.
        low: lower 64 bits of it.
        squared: whether totals are sums of squares (mu) or plain sums (Renyi).
    """

    value: float
    scale: float
    high: np.uint64
    low: np.uint64
    squared: bool


def make_budget(name: str, value: float, *, squared: bool) -> Budget:
    """Return the exact integer form of a budget, refused by its name outside [1e-150, 1e150]."""
    if not SMALLEST <= (value := number(name, value)) <= LARGEST:
        raise DeclarationError(
            f"{name}={value!r} cannot be a budget (expected a number in [1e-150, 1e150])"
        )
    scale = math.ldexp(1.0, _BITS - math.frexp(value)[1])
    units = int(value * scale)
    total = units * units if squared else units << _BITS
    high, low = divmod(total, 1 << 64)
    return Budget(float(value), scale, np.uint64(high), np.uint64(low), squared)


def as_sums(budget: Budget, high: Words, low: Words, up: bool) -> Floats:
    """Return totals as sqrt(sum mu^2), or sum rho, rounded up or down, at most the budget.

    In whole units, the only steps that are charged as they are: what is left fits.
    """
    total = high.astype(np.float64) * _WORD + low.astype(np.float64)
    units, one = (np.sqrt(total), 1.0) if budget.squared else (total, _FRACTION)
    units = np.ceil(units / SHAVE) if up else np.floor(units * SHAVE)
    return np.asarray(np.minimum(units / one / budget.scale, budget.value))


@compiled("int64(float64[::1])", nogil=True)
def first_invalid(values: Floats) -> int:
    """Return the index of the first entry that is nan or negative, or -1."""
    for i in range(values.size):
        if not values[i] >= 0.0:
            return i
    return -1


@subroutine("UniTuple(uint64, 2)(float64, float64, boolean)")
def _words(value, scale, squared):  # type: ignore[no-untyped-def]
    """Return the upper and lower 64 bits of what stands for a step: never less than it, or free."""
    if squared:
        m = np.uint64(np.int64(np.ceil(value * scale)))
        # the product can underflow to zero under a huge budget: a step is never free
        m = max(m, np.uint64(value > 0.0))
        a, b = m >> _U32, m & _LOW
        return a * a + ((np.uint64(2) * a * b + ((b * b) >> _U32)) >> _U32), m * m
    units = np.uint64(np.int64(np.floor(value * scale)))
    fraction = np.uint64(np.int64(np.ceil((value * scale - np.float64(units)) * _FRACTION)))
    free = value > 0.0 and units == np.uint64(0) and fraction == np.uint64(0)
    whole = units << np.uint64(62)
    low = whole + fraction + np.uint64(free)
    return (units >> np.uint64(2)) + np.uint64(low < whole), low


@compiled(
    "void(uint64[:,::1], float64[::1], float64, float64, uint64, uint64, boolean, boolean[::1])",
    nogil=True,
)
def charge(  # type: ignore[no-untyped-def]
    totals, values, budget, scale, cap_high, cap_low, squared, active
):
    """Add step i to total i wherever the sum stays within the budget; say where it did."""
    for i in range(values.size):  # no early exits: this loop runs at memory speed
        value = min(values[i], budget)
        high, low = _words(value, scale, squared)
        new_low = totals[i, 1] + low
        new_high = totals[i, 0] + high + np.uint64(new_low < low)
        fits = new_high < cap_high or (new_high == cap_high and new_low <= cap_low)
        fits = fits and values[i] <= budget
        totals[i, 0] = new_high if fits else totals[i, 0]
        totals[i, 1] = new_low if fits else totals[i, 1]
        active[i] = fits


@compiled(
    "void(uint64[:,::1], float64[::1], float64, uint64, uint64, boolean[::1], float64[::1])",
    nogil=True,
)
def exhaust(totals, mu, scale, cap_high, cap_low, keep, factor):  # type: ignore[no-untyped-def]
    """Find factor[i] such that factor[i] mu[i] takes all that is left of budget i; charge that.

    Where `keep` is true the factor is one and nothing is charged. The factor is rounded down, the
    total is set to the whole budget.
    """
    for i in range(mu.size):
        low = cap_low - totals[i, 1]
        high = cap_high - totals[i, 0] - np.uint64(cap_low < totals[i, 1])
        room = np.sqrt(np.float64(high) * _WORD + np.float64(low))
        factor[i] = 1.0 if keep[i] else 0.0
        if room > 0.0 and not keep[i]:
            factor[i] = min(room / (mu[i] * scale) * SHAVE, _HUGE)
        if factor[i] > 0.0 and not keep[i]:
            totals[i, 0] = cap_high
            totals[i, 1] = cap_low


# a dense array with one value a person, or (indices, values) for the people a step touches
Update = ArrayLike | tuple[ArrayLike, ArrayLike]

_ROWS = 1 << 18  # rows handled at a time: 6 MB of state, input and mask
THREADS = min(4, os.cpu_count() or 1)  # of one call


def integer(name: str, value: int, least: int = 0) -> int:
    """Return an integer, refused if it is none or too small."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise DeclarationError(f"{name}={value!r} (expected an integer >= {least})")
    return int(value)


def number(name: str, value: float) -> float:
    """Return a number as a float, rounded down where it is none; refused if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DeclarationError(f"{name}={value!r} (expected a number)")
    if isinstance(value, Integral):
        value = int(value)  # numpy compares its integers with floats by rounding them
    try:
        found = float(value)
    except OverflowError:
        raise DeclarationError(f"{name} is larger than any double (expected a number)") from None
    return math.nextafter(found, -math.inf) if found > value else found


def log_target(delta: float) -> float:
    """Return the log of a delta that individual epsilons can be asked at."""
    if not 1e-250 <= (delta := number("delta", delta)) < 1.0:
        raise DeclarationError(f"delta={delta!r} (expected 1e-250 <= delta < 1)")
    return LogDelta(delta)


def allocate(
    shape: tuple[int, ...], dtype: np.dtype[Any], storage: PathLike | None
) -> NDArray[Any]:
    """Return an array of zeros, in memory or mapped from a new file."""
    if storage is None:
        try:
            return np.zeros(shape, dtype)
        except (MemoryError, ValueError):  # numpy's words where the size overflows
            raise UnsupportedError(
                f"no memory for people={shape[0]} (expected fewer, or storage=, to map it)"
            ) from None
    storage = as_path(storage, "storage")
    if storage.exists():
        raise DeclarationError(f"storage={str(storage)!r} exists; expected a new file name")
    try:
        storage.parent.mkdir(parents=True, exist_ok=True)
        return np.memmap(storage, dtype=dtype, mode="w+", shape=shape)
    except (OSError, OverflowError, ValueError) as error:
        raise StateError(f"storage={str(storage)!r}: {in_words(error)}") from error


def for_rows(count: int, work: Callable[[slice], None], size: int = _ROWS) -> None:
    """Run `work` over slices of so many rows, in threads where that pays."""
    if count <= size:
        work(slice(0, count))
        return
    parts = (slice(start, min(start + size, count)) for start in range(0, count, size))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, parts))


def as_floats(values: NDArray[Any], up: bool = True) -> Floats:
    """Return values as contiguous float64, rounded up (or down) where they are none."""
    with np.errstate(over="ignore", under="ignore"):
        found: Floats = np.ascontiguousarray(values, dtype=np.float64).reshape(values.shape)
    kind = values.dtype
    if kind.itemsize < 8 or kind == np.float64:
        return found
    # the largest integers round to one that is none of them
    most = math.inf if kind.kind == "f" else float(np.iinfo(kind).max)
    beyond = (found >= most) & ((kind.kind != "f") | (values < most))
    back, held = values.copy(), found < most
    back[held] = found[held]
    off = ~beyond & (back < values) if up else beyond | (back > values)
    return np.where(off, np.nextafter(found, np.inf if up else -np.inf), found)


def dense(name: str, values: ArrayLike, people: int, up: bool = True) -> Floats:
    """Return one double a person, checked: real, one-dimensional, >= 0, not nan."""
    found = as_floats(real_array(name, values), up)
    if found.shape != (people,):
        raise DeclarationError(f"{name} has shape {found.shape} (expected ({people},))")
    return _valid(name, found)


def checked(
    name: str, update: Update, people: int, up: bool = True
) -> tuple[NDArray[np.int64] | None, Floats]:
    """Return whom a step touches, None for everybody, and doubles >= 0 for distinct people."""
    if not isinstance(update, tuple):
        return None, dense(name, update, people, up)
    if len(update) != 2:
        raise DeclarationError(f"{name} is a tuple of {len(update)} (expected indices, values)")
    values = as_floats(real_array(name, update[1]), up)
    indices = in_range("indices", update[0], people)
    if values.shape != indices.shape:
        raise DeclarationError(
            f"{name} has shape {values.shape}, its indices {indices.shape} (expected the same)"
        )
    if not np.all(np.diff(np.sort(indices))):
        raise DeclarationError(
            "an index occurs twice (expected distinct people: one person's contributions to a"
            " step add up before they are passed)"
        )
    return indices, _valid(name, values, indices)


def in_range(name: str, given: ArrayLike, people: int) -> NDArray[np.int64]:
    """Return indices of people, given as such or as a mask, refused where there are none."""
    indices = np.asarray(given)
    if indices.dtype == np.bool_ and indices.shape == (people,):
        return np.flatnonzero(indices)
    if indices.ndim != 1 or not (indices.dtype.kind in "iu" or indices.size == 0):
        raise DeclarationError(
            f"{name} of type {indices.dtype} and shape {indices.shape} (expected integers in one"
            f" dimension, or a mask of shape ({people},))"
        )
    wrong = np.flatnonzero((indices < 0) | (indices >= people))
    if wrong.size:
        raise DeclarationError(f"index {indices[wrong[0]]} out of range (people={people})")
    return indices.astype(np.int64)


def mask_for(size: int, out: Mask | None) -> Mask:
    """Return `out` if it fits, or a new mask."""
    if out is None:
        return np.empty(size, np.bool_)
    if not isinstance(out, np.ndarray) or out.shape != (size,) or out.dtype != np.bool_:
        shown = f"{getattr(out, 'dtype', type(out).__name__)}{np.shape(out)}"
        raise DeclarationError(f"out is {shown} (expected bool({size},))")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise DeclarationError("out is read-only or has gaps (expected an array of its own)")
    return out


def real_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of real numbers, refused if it is anything else."""
    try:
        array = np.asanyarray(values)
    except ValueError as error:
        raise DeclarationError(f"{name} is not an array of numbers: {error}") from error
    if np.ma.is_masked(array):
        raise DeclarationError(f"{name} has masked values (expected a number for everybody)")
    if array.dtype.kind not in "iuf":
        raise DeclarationError(f"{name} has dtype {array.dtype} (expected real numbers)")
    if array is not values and array.dtype == np.float64 and np.any(np.abs(array) >= EXACT):
        whole = [v for v in np.array(values, dtype=object).flat if isinstance(v, Integral)]
        if any(abs(int(v)) > EXACT for v in whole):
            raise DeclarationError(
                f"{name} has integers above 2^53 beside numbers of another type, which numpy rounds"
                " (expected an array of one type)"
            )
    return array


def _valid(name: str, values: Floats, people: NDArray[np.int64] | None = None) -> Floats:
    if (bad := first_invalid(values)) >= 0:
        who = bad if people is None else people[bad]
        raise DeclarationError(f"{name}[{who}]={float(values[bad])!r} (expected a number >= 0)")
    return values
