"""What users give, checked once: epsilons, deltas, orders, rates, counts, parameter values.

A query is asked at a number or at an array of numbers (`checked`) and answers in the same shape;
named values become the parameter vector of a kernel (`bind`). Compiled code behind this checks
nothing.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError, suggestion
from mechc.loss.rounding import EPS
from mechc.protocol import ParameterInfo

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
    check_count(value)
    return value


def check_count(value: int, event: object = None) -> None:
    """Refuse a count outside [0, MAX_COUNT]; `event` names it, if it is the sum of several."""
    if not 0 <= value <= MAX_COUNT:
        where = f"{event}: " if event else ""
        problem = "is negative" if value < 0 else "is too large"
        raise DeclarationError(f"{where}count={value} {problem} (expected 0 <= count <= 10**12)")


LARGEST = 1e15  # size of anything counted: doubles hold all integers up to it


def bind(
    mechanism: str,
    parameters: Sequence[ParameterInfo],
    values: Mapping[str, Any],
    assumptions: Sequence[str] = (),
) -> tuple[float, ...]:
    """Return the parameter vector, defaults filled in.

    Args:
        mechanism: name for messages.
        parameters: the kernel's parameters.
        values: values by name.
        assumptions: what is said of parameters, for the message about one that is missing.

    Raises:
        DeclarationError: a name is unknown or missing, or a value is outside its domain.
    """
    unknown = [name for name in values if all(p.name != name for p in parameters)]
    if unknown:
        listed = ", ".join(p.name for p in parameters) or "none"
        raise DeclarationError(
            f"{mechanism}: unknown parameter {unknown[0]!r}"
            f"{suggestion(unknown[0], (p.name for p in parameters))} (parameters: {listed})"
        )
    theta = []
    for info in parameters:
        if info.name in values:
            theta.append(check(mechanism, info, values[info.name]))
        elif info.default is not None:
            theta.append(info.default)
        else:
            of_it = [w for w in assumptions if re.search(rf"\b{info.name}\b", w)]
            said = "".join(f"; {words}" for words in of_it)
            raise DeclarationError(
                f"{mechanism}: missing parameter {info.name} (expected {domain(info)}{said})"
            )
    return tuple(theta)


def without_lists(mechanism: str, values: Mapping[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Spread values that are lists over the parameters name_1, name_2, ... that stand for them.

    Args:
        mechanism: name for messages.
        values: values by name, some of them one-dimensional sequences.

    Returns:
        The common length of the lists (None if there are none), and all values as numbers.

    Raises:
        DeclarationError: lists of different lengths, or an empty one.
    """
    lists = {name: v for name, v in values.items() if isinstance(v, (list, tuple, np.ndarray))}
    if not lists:
        return None, dict(values)
    spread = {name: v for name, v in values.items() if name not in lists}
    for name, sequence in lists.items():
        if np.ndim(sequence) != 1 or not len(sequence):
            raise DeclarationError(f"{mechanism}: {name}={sequence!r} is not a non-empty list")
        spread.update({f"{name}_{i + 1}": value for i, value in enumerate(sequence)})
    lengths = {name: len(sequence) for name, sequence in lists.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise DeclarationError(f"{mechanism}: lists must have one length, but {words}")
    return next(iter(lengths.values())), spread


def probabilities(mechanism: str, name: str, values: Any) -> list[float]:
    """Return a list of probabilities that add up to one.

    Raises:
        DeclarationError: they are not numbers in [0, 1] with sum 1.
    """
    array = as_array(f"{mechanism}: {name}", values)
    if array.ndim != 1 or not array.size or not ((array >= 0) & (array <= 1)).all():
        raise DeclarationError(f"{mechanism}: {name}={values!r} (expected numbers in [0, 1])")
    total = math.fsum(array.tolist())
    if not abs(total - 1) <= 1e-12 * array.size:
        raise DeclarationError(f"{mechanism}: {name} add up to {total!r} (expected 1)")
    return [float(v) for v in array]


def check(mechanism: str, info: ParameterInfo, value: Any) -> float:
    """Return one value as a float inside its domain.

    Raises:
        DeclarationError: it is not a finite number of the domain.
    """
    number = math.nan
    if not isinstance(value, (bool, np.bool_, str, bytes)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    problem = _problem(info, number)
    if problem:
        shown = value if isinstance(value, str) or not math.isfinite(number) else f"{number:g}"
        raise DeclarationError(
            f"{mechanism}: {info.name}={shown} {problem} (expected {domain(info)})"
        )
    return number


def positive(owner: str, name: str, value: Any) -> float:
    """Return a finite number > 0; raises what `check` raises."""
    return check(owner, ParameterInfo(name, 0.0, math.inf, True, True, False, None, (1, 1)), value)


def share(owner: str, name: str, value: Any) -> float:
    """Return a number in [0, 1]; raises what `check` raises."""
    return check(owner, ParameterInfo(name, 0.0, 1.0, False, False, False, None, (0, 1)), value)


def size(owner: str, name: str, value: Any) -> int:
    """Return an integer >= 1, given in any type of numbers; raises what `check` raises."""
    check(owner, ParameterInfo(name, 1.0, LARGEST, False, False, True, None, (1, 1)), value)
    return int(value)


def _problem(info: ParameterInfo, number: float) -> str:
    """Say what is wrong with a number, "" if nothing."""
    if not math.isfinite(number):
        return "is not a finite number"
    if info.integer and not number.is_integer():
        return "is not an integer"
    below = number < info.lo or (number == info.lo and info.lo_open)
    above = number > info.hi or (number == info.hi and info.hi_open)
    if below and info.lo == 0:
        return "is not positive" if info.lo_open else "is negative"
    if below:
        return "is too small"
    return "is too large" if above else ""


def domain(info: ParameterInfo) -> str:
    """Return the domain of a parameter in words, such as "scale > 0"."""
    kind = "integer " if info.integer else ""
    left = f"{info.lo:g} {'<' if info.lo_open else '<='} "
    right = f" {'<' if info.hi_open else '<='} {info.hi:g}"
    if info.lo == -math.inf and info.hi == math.inf:
        return f"a finite {kind or 'number '}{info.name}"
    if info.hi == math.inf:
        return f"{kind}{info.name} {'>' if info.lo_open else '>='} {info.lo:g}"
    if info.lo == -math.inf:
        return f"{kind}{info.name}{right}"
    return f"{kind}{left}{info.name}{right}"


def checked(
    check: Callable[[Any], float], values: Any
) -> tuple[tuple[float, ...], tuple[int, ...] | None]:
    """Check a number, or every element of an array; return them, and the shape of an array."""
    if isinstance(values, (int, float)):
        return (check(values),), None
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DeclarationError(f"{values!r} is not an array of numbers: {error}") from error
    if array.ndim == 0:
        return (check(values),), None
    return tuple(check(value) for value in array.ravel()), array.shape


def collect(answers: list[Bound], shape: tuple[int, ...]) -> Bound:
    """Stack scalar bounds into one bound of arrays; the details stand under "each"."""
    sides = np.array([(a.lower, a.estimate, a.upper) for a in answers], dtype=np.float64).reshape(
        -1, 3
    )
    names = sorted({a.method for a in answers})
    unproven = [a.status for a in answers if a.status != "proven"]
    return Bound(
        sides[:, 0].reshape(shape),
        sides[:, 1].reshape(shape),
        sides[:, 2].reshape(shape),
        "+".join(names),
        unproven[0] if unproven else "proven",
        {"each": tuple(a.detail for a in answers)},
    )


def from_log(bound: Bound) -> Bound:
    """Turn bounds on log delta into bounds on delta, rounding outward."""
    lower, upper = float(bound.lower), float(bound.upper)
    return Bound(
        lower if math.isnan(lower) else _exp_down(lower),
        math.exp(float(bound.estimate)),
        upper if math.isnan(upper) else _exp_up(upper),
        bound.method,
        bound.status,
        bound.detail,
    )


def _exp_down(log_value: float) -> float:
    if log_value == 0.0 or log_value == -math.inf:
        return math.exp(log_value)
    return math.exp(log_value) * max(0.0, 1.0 - (abs(log_value) + 2.0) * EPS)


def _exp_up(log_value: float) -> float:
    if log_value == 0.0 or log_value == -math.inf:
        return math.exp(log_value)
    value = math.exp(log_value) * (1.0 + (abs(log_value) + 2.0) * EPS)
    return min(max(value, math.ulp(0.0)), 1.0)


class Question:
    """What has been computed for the question at hand: laws, contours and meshes that grow.

    They begin the same for every question and are shared by nothing else, so that an answer is a
    pure function of its question, on a fresh object, after other questions, in any process. An
    array of epsilons, a curve, a search, a calibration is one question.

    Attributes:
        laws: privacy losses by kernel, parameters and direction.
        evaluations: evaluations by composition, method and options.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.laws: dict[Any, Any] = {}
        self.evaluations: dict[Any, Any] = {}


_current: ContextVar[Question | None] = ContextVar("question", default=None)


def current() -> Question:
    """The question being answered; a new one, shared with nothing, outside of any."""
    return _current.get() or Question()


@contextmanager
def asked() -> Iterator[Question]:
    """Answer one question; a question inside another one is a part of it."""
    outer = _current.get()
    if outer is not None:
        yield outer
        return
    question = Question()
    token = _current.set(question)
    try:
        yield question
    finally:
        _current.reset(token)
