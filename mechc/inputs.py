"""What users give to queries, checked: epsilons, deltas, orders, rates, counts."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError

MAX_COUNT = 10**12
LEAST_RTOL = 1e-30

NO_NUMBERS = (bool, np.bool_, str, bytes, np.complexfloating, np.datetime64, np.timedelta64)


def _number(name: str, value: Any, accepted: str) -> float:
    if value is None or isinstance(value, NO_NUMBERS):
        raise DeclarationError(f"{name}={value!r} is not a number (expected {accepted})")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DeclarationError(f"{name}={value!r} is not a number (expected {accepted})") from None
    if math.isnan(number):
        raise DeclarationError(f"{name}=nan is not a number (expected {accepted})")
    return number


def as_flag(name: str, value: Any) -> bool:
    """Return True or False; nothing else is taken for either."""
    if not isinstance(value, (bool, np.bool_)):
        raise DeclarationError(f"{name}={value!r} (expected True or False)")
    return bool(value)


def as_rtol(value: Any) -> float:
    """Return a relative tolerance; below `LEAST_RTOL` nothing becomes any sharper."""
    number = _number("rtol", value, "0 < rtol < 1")
    if not 0.0 < number < 1.0:
        raise DeclarationError(f"rtol={number:g} is not a tolerance (expected 0 < rtol < 1)")
    return max(number, LEAST_RTOL)


def as_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return an array of doubles; what is not one (words, rows of different lengths) is refused."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"a value of type {array.dtype}")
        return np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(f"{name}={values!r} is not an array of numbers: {error}") from error


def as_epsilon(value: Any) -> float:
    """Return epsilon as a float; nan and what is not a number are refused."""
    return _number("epsilon", value, "any real number")


def as_finite_epsilon(name: str, value: Any) -> float:
    """Return an epsilon as a float, finite and >= 0."""
    accepted = "a finite number >= 0; where a mass sits at infinite loss give one"
    number = _number(name, value, accepted)
    if not 0.0 <= number < math.inf:
        raise DeclarationError(f"{name}={number:g} is out of range (expected {accepted})")
    return number


def _in_range(name: str, value: Any, accepted: str, lo: float, hi: float) -> float:
    number = _number(name, value, accepted)
    if not lo <= number <= hi:
        raise DeclarationError(f"{name}={number:g} is out of range (expected {accepted})")
    return number


def as_rate(value: Any) -> float:
    """Return a false positive rate in [0, 1]."""
    return _in_range("alpha", value, "0 <= alpha <= 1", 0.0, 1.0)


def as_log_delta(value: Any) -> float:
    """Return a log delta <= 0."""
    return _in_range("log_delta", value, "log_delta <= 0", -math.inf, 0.0)


def as_delta(value: Any) -> float:
    """Return log delta for a delta in [0, 1]."""
    number = _in_range("delta", value, "0 <= delta <= 1", 0.0, 1.0)
    return math.log(number) if number else -math.inf


def as_positive_delta(value: Any) -> float:
    """Return log delta for a delta in (0, 1]."""
    number = as_delta(value)
    if number == -math.inf:
        raise DeclarationError("delta=0 is out of range (expected 0 < delta <= 1)")
    return number


def as_work(value: Any) -> float:
    """Return the work a query may take, > 0; inf for any."""
    number = _number("max_work", value, "max_work > 0")
    if not number > 0:
        raise DeclarationError(f"max_work={number:g} is not positive (expected max_work > 0)")
    return number


def as_order(value: Any) -> float:
    """Return the order of a Rényi divergence, > 0."""
    number = _number("orders", value, "orders > 0")
    if not number > 0:
        raise DeclarationError(f"orders={number:g} is not positive (expected orders > 0)")
    return number


def as_count(count: Any) -> int:
    """Return a count as an int.

    Args:
        count: an integer, or a float with an integral value such as 1e6, from 0 to 10**12.

    Raises:
        DeclarationError: anything else.
    """
    if isinstance(count, (float, np.floating)) and float(count).is_integer():
        count = int(count)
    try:
        value = operator.index(count)
    except TypeError:
        raise DeclarationError(
            f"count={count!r} is not an integer (expected 0 <= count <= 10**12)"
        ) from None
    if isinstance(count, (bool, np.bool_)):
        raise DeclarationError(f"count={count!r} is not a number (expected 0 <= count <= 10**12)")
    check_count(value, None)
    return value


def check_count(value: int, event: str | None) -> None:
    """Refuse a count outside [0, MAX_COUNT]; `event` names it, if it is the sum of several."""
    if not 0 <= value <= MAX_COUNT:
        where = f"{event}: " if event else ""
        problem = "is negative" if value < 0 else "is too large"
        raise DeclarationError(f"{where}count={value} {problem} (expected 0 <= count <= 10**12)")
