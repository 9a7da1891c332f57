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
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError
from mechc.loss.compiled import compiled

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_BITS = 62
_FRACTION, _WORD = 2.0**_BITS, 2.0**64
# outside this range the power of two that scales the budget would leave float64
_SMALLEST, _LARGEST = 1e-150, 1e150
_SHAVE = 1.0 - 2.0**-50  # 8 ulp: covers the roundings on the way back to float64
_HUGE = 1.7e308  # a factor stays finite

_U32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


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
    """Return the exact integer form of a budget.

    Args:
        name: argument name, for the error message.
        value: the budget, in [1e-150, 1e150].
        squared: True when steps add up in squares (mu), False when they add up (Renyi).

    Raises:
        DeclarationError: the budget is outside the range.
    """
    if not _SMALLEST <= value <= _LARGEST:
        raise DeclarationError(
            f"{name}={value!r} cannot be a budget (expected a number in [1e-150, 1e150])"
        )
    scale = math.ldexp(1.0, _BITS - math.frexp(value)[1])
    units = int(value * scale)
    total = units * units if squared else units << _BITS
    high, low = divmod(total, 1 << 64)
    return Budget(float(value), scale, np.uint64(high), np.uint64(low), squared)


def spent(totals: Words, budget: Budget) -> Floats:
    """Return the budget used, sqrt(sum mu^2) or sum rho, rounded up.

    Args:
        totals: uint64[n, 2].
        budget: the budget the totals belong to.
    """
    return _to_float(totals[:, 0], totals[:, 1], budget, 1.0 / _SHAVE)


def remaining(totals: Words, budget: Budget) -> Floats:
    """Return the largest next step that still fits, rounded down.

    Args:
        totals: uint64[n, 2].
        budget: the budget the totals belong to.
    """
    low = budget.low - totals[:, 1]
    borrow = (budget.low < totals[:, 1]).astype(np.uint64)
    return _to_float(budget.high - totals[:, 0] - borrow, low, budget, _SHAVE)


def _to_float(high: Words, low: Words, budget: Budget, nudge: float) -> Floats:
    total = high.astype(np.float64) * _WORD + low.astype(np.float64)
    units = np.sqrt(total) if budget.squared else total / _FRACTION
    return np.asarray(np.minimum(units * nudge / budget.scale, budget.value))


@compiled("int64(float64[::1])", nogil=True)
def first_invalid(values: Floats) -> int:
    """Return the index of the first entry that is nan or negative, or -1."""
    for i in range(values.size):
        if not values[i] >= 0.0:
            return i
    return -1


@compiled("uint64(float64, float64, boolean)", nogil=True)
def _units(value: float, scale: float, squared: bool) -> np.uint64:
    """Return the integer that stands for a step: rounded up when squared, rounded down if not."""
    if not squared:
        return np.uint64(np.int64(np.floor(value * scale)))
    m = np.uint64(np.int64(np.ceil(value * scale)))
    # the product can underflow to zero under a huge budget: a step is never free
    return max(m, np.uint64(value > 0.0))


@compiled("uint64(float64, float64, uint64, boolean)", nogil=True)
def _low_word(value: float, scale: float, units: np.uint64, squared: bool) -> np.uint64:
    """Return the lower 64 bits of units^2, or of (units + fraction) 2^62 rounded up."""
    if squared:
        return units * units
    fraction = np.uint64(np.int64(np.ceil((value * scale - np.float64(units)) * _FRACTION)))
    free = value > 0.0 and units == np.uint64(0) and fraction == np.uint64(0)
    return (units << np.uint64(62)) + fraction + np.uint64(free)


@compiled("uint64(uint64, uint64, boolean)", nogil=True)
def _high_word(units: np.uint64, low: np.uint64, squared: bool) -> np.uint64:
    """Return the upper 64 bits that belong to `_low_word`."""
    if squared:
        a, b = units >> _U32, units & _LOW
        return a * a + ((np.uint64(2) * a * b + ((b * b) >> _U32)) >> _U32)
    return (units >> np.uint64(2)) + np.uint64(low < (units << np.uint64(62)))


@compiled(
    "void(uint64[:,::1], float64[::1], float64, float64, uint64, uint64, boolean, boolean[::1])",
    nogil=True,
)
def charge(
    totals: Words,
    values: Floats,
    budget: float,
    scale: float,
    cap_high: np.uint64,
    cap_low: np.uint64,
    squared: bool,
    active: Mask,
) -> None:
    """Add step i to total i wherever the sum stays within the budget; say where it did."""
    for i in range(values.size):  # no early exits: this loop runs at memory speed
        value = min(values[i], budget)
        units = _units(value, scale, squared)
        low = _low_word(value, scale, units, squared)
        new_low = totals[i, 1] + low
        new_high = totals[i, 0] + _high_word(units, low, squared) + np.uint64(new_low < low)
        fits = new_high < cap_high or (new_high == cap_high and new_low <= cap_low)
        fits = fits and values[i] <= budget
        totals[i, 0] = new_high if fits else totals[i, 0]
        totals[i, 1] = new_low if fits else totals[i, 1]
        active[i] = fits


@compiled(
    "void(uint64[:,::1], float64[::1], float64, uint64, uint64, boolean[::1], float64[::1])",
    nogil=True,
)
def exhaust(
    totals: Words,
    mu: Floats,
    scale: float,
    cap_high: np.uint64,
    cap_low: np.uint64,
    keep: Mask,
    factor: Floats,
) -> None:
    """Find factor[i] such that factor[i] mu[i] takes all that is left of budget i; charge that.

    Where `keep` is true the factor is one and nothing is charged. The factor is rounded down, the
    total is set to the whole budget.
    """
    for i in range(mu.size):
        low = cap_low - totals[i, 1]
        high = cap_high - totals[i, 0] - np.uint64(cap_low < totals[i, 1])
        room = np.sqrt(np.float64(high) * _WORD + np.float64(low))
        factor[i] = 1.0 if keep[i] else min(room / (mu[i] * scale) * _SHAVE, _HUGE)
        if factor[i] > 0.0 and not keep[i]:
            totals[i, 0] = cap_high
            totals[i, 1] = cap_low
