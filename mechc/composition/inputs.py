"""What users give, checked once: epsilons, deltas, orders, rates, counts, parameter values.

A query is asked at a number or at an array of numbers (`checked`) and answers in the same shape;
named values become the parameter vector of a kernel (`bind`). Compiled code behind this checks
nothing.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError
from mechc.hints import OF_MECHANISM, suggestion
from mechc.numeric.rounding import EPS, EXACT
from mechc.protocol import ParameterInfo

MAX_COUNT = 10**12  # steps of a composition
COUNTED = "a non-negative integer up to 10**12"
MOST_BYTES = 1 << 28  # of a file with a run
LEAST_RTOL = 1e-30  # finer than any answer in doubles
LEAST = math.ulp(0.0)  # positive double

NO_NUMBERS = (
    bool, np.bool_, str, bytes, np.complexfloating, np.datetime64, np.timedelta64, np.ndarray,
)  # fmt: skip


class SetOnce:
    """What holds attributes that do not change: claims, and whatever follows, are not handed in."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute that has no value yet, or is private."""
        if not name.startswith("_"):
            try:  # not by hasattr, which asks `__getattr__` for words that were meant
                object.__getattribute__(self, name)
            except AttributeError:
                pass
            else:
                raise AttributeError(f"{self}: {name} does not change")
        put(self, name, value)


put = object.__setattr__  # what constructors set attributes by, none of which is there yet


def as_number(
    name: str,
    value: Any,
    accepted: str = "any real number",
    lo: float = -math.inf,
    hi: float = math.inf,
) -> float:
    """A number in [lo, hi] as a float; nan and what is not a number are refused."""
    number = value if type(value) is float else as_double(value)
    if math.isnan(number):
        raise DeclarationError(f"{name}={value!r} is not a number (expected {accepted})")
    if not lo <= number <= hi:
        problem = "is not positive" if lo == LEAST and number <= 0.0 else "is out of range"
        raise DeclarationError(f"{name}={number:g} {problem} (expected {accepted})")
    return number


def as_double(value: Any) -> float:
    """Return a number as a float, nan for what is none: words, flags, arrays, complex numbers."""
    value = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    try:
        return math.nan if isinstance(value, NO_NUMBERS) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def shown(value: float) -> str:
    """Return the fewest digits from six on that say a number exactly."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def as_path(value: Any, name: str = "path") -> Path:
    """Return a path, `~` expanded; what is none, or names no file, is refused."""
    try:
        path = Path(value).expanduser()
        if path.name and "\0" not in path.name:
            return path
    except (TypeError, RuntimeError):
        pass
    raise DeclarationError(f"{name}={value!r} (expected the name of a file, or a pathlib.Path)")


def text_in(path: Path) -> str:
    """Return the text of a file; one that is too long to be one, or is a device, is refused."""
    with path.open("rb") as stream:
        found = stream.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise DeclarationError(f"{path}: more than {MOST_BYTES} bytes")
    return found.decode("utf-8")


def as_rtol(value: Any) -> float:
    """Return a relative tolerance; below `LEAST_RTOL` nothing becomes any sharper."""
    if type(value) is float and LEAST_RTOL <= value <= 1.0 - EPS:
        return value
    return max(as_number("rtol", value, "0 < rtol < 1", LEAST, 1.0 - EPS), LEAST_RTOL)


class Setting(NamedTuple):
    """How a question is to be answered: checked once, and handed down.

    Attributes:
        method, options: name of an accountant, and what it is given beside rtol.
        direction: "both", "remove" or "add".
        rtol: relative width of delta that "auto" aims at.
    """

    method: str = "auto"
    options: tuple[tuple[str, Any], ...] = ()
    direction: str = "both"
    rtol: float = 1e-6

    @classmethod
    def of(
        cls, /, method: str = "auto", direction: str = "both", rtol: Any = 1e-6, **options: Any
    ) -> Setting:
        """Return what users ask for, each word and number checked."""
        from mechc.accountants.registry import resolve

        return cls(*resolve(method, options), direction, as_rtol(rtol))


USUAL = Setting()


def as_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return an array of doubles; what is not one (words, rows of different lengths) is refused."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"a value of type {array.dtype}")
        odd = (v for v in array.flat if isinstance(v, NO_NUMBERS)) if array.dtype == object else ()
        for value in odd:  # which NumPy would make a double of
            raise TypeError(f"a value of type {type(value).__name__}")
        with np.errstate(over="ignore"):  # of longer numbers than doubles
            return np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(f"{name}={values!r} is not an array of numbers: {error}") from error


def as_finite_epsilon(name: str, value: Any) -> float:
    """Return an epsilon as a float, finite and >= 0."""
    accepted = "a finite number >= 0; where a mass sits at infinite loss give one"
    return as_number(name, value, accepted, 0.0, float_info.max)


class LogDelta(float):
    """The log of a delta that was given as a number, of which several have this log."""

    delta: float

    def __new__(cls, delta: float) -> LogDelta:
        """Take the log."""
        made = super().__new__(cls, math.log(delta) if delta else -math.inf)
        made.delta = delta
        return made

    def __eq__(self, other: object) -> bool:
        """Tell deltas apart, as answers may jump between them."""
        same = not isinstance(other, LogDelta) or self.delta == other.delta
        return same and float(self) == other

    def __ne__(self, other: object) -> bool:
        """Return the opposite."""
        return not self == other

    def __getnewargs__(self) -> tuple[float]:
        """Return what it is made of, for copies."""
        return (self.delta,)

    __hash__ = float.__hash__


def as_delta(value: Any) -> float:
    """Return log delta for a delta in [0, 1]."""
    return LogDelta(as_number("delta", value, "0 <= delta <= 1", 0.0, 1.0))


def as_positive_delta(value: Any) -> float:
    """Return log delta for a delta in (0, 1]."""
    return math.log(as_number("delta", value, "0 < delta <= 1", LEAST, 1.0))


as_epsilon = partial(as_number, "epsilon")  # infinite ones included
as_rate = partial(as_number, "alpha", accepted="0 <= alpha <= 1", lo=0.0, hi=1.0)
as_log_delta = partial(as_number, "log_delta", accepted="log_delta <= 0", hi=0.0)
as_work = partial(as_number, "max_work", accepted="max_work > 0", lo=LEAST)  # inf for any
as_order = partial(as_number, "orders", accepted="orders > 0", lo=LEAST)  # of a divergence


def as_count(count: Any, name: str = "count") -> int:
    """Return a count: an integer, or a float such as 1e6, from 0 to 10**12."""
    if isinstance(count, (float, np.floating)) and float(count).is_integer():
        count = int(count)
    value: int | None
    try:
        value = operator.index(count)
    except TypeError:
        value = None
    if value is None or isinstance(count, (bool, np.bool_)):
        raise DeclarationError(f"{name}={count!r} is not an integer (expected {COUNTED})")
    check_count(value, name=name)
    return value


def check_count(value: int, event: object = None, name: str = "count") -> None:
    """Refuse a count outside [0, MAX_COUNT]; `event` names it, if it is the sum of several."""
    if not 0 <= value <= MAX_COUNT:
        where = f"{event}: " if event else ""
        problem = "is negative" if value < 0 else "is too large"
        raise DeclarationError(f"{where}{name}={value} {problem} (expected {COUNTED})")


LARGEST_SIZE = 1e15  # size of anything counted: doubles hold all integers up to it


def bind(
    mechanism: str,
    parameters: Sequence[ParameterInfo],
    values: Mapping[str, Any],
    assumptions: Sequence[str] = (),
) -> tuple[float, ...]:
    """Return the parameter vector, checked, defaults filled in."""
    known = [p.name for p in parameters]
    if not values.keys() <= {*known}:
        unknown = [name for name in values if name not in known]
        hint = suggestion(unknown[0], known)
        if unknown[0] in ("epsilon", "delta", "rho", "mu") and "epsilon" not in known:
            other = OF_MECHANISM.get((mechanism, unknown[0]))
            calibrated = "; noise for a guarantee is found by mechc.calibrate"
            hint = f"; did you mean {other}?" if other else calibrated
        raise DeclarationError(
            f"{mechanism}: unknown parameter {unknown[0]!r}{hint} (parameters: "
            f"{', '.join(known) or 'none'})"
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
    """Spread lists of one length over the parameters name_1, name_2, ... that stand for them."""
    lists = {name: v for name, v in values.items() if type(v) is not float and _is_list(v)}
    if not lists:
        return None, dict(values)
    spread = {name: v for name, v in values.items() if name not in lists}
    for name, sequence in lists.items():
        if np.asarray(sequence, object).ndim != 1 or not len(sequence):
            raise DeclarationError(f"{mechanism}: {name}={sequence!r} is not a non-empty list")
        spread.update({f"{name}_{i + 1}": value for i, value in enumerate(sequence)})
    lengths = {name: len(sequence) for name, sequence in lists.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise DeclarationError(f"{mechanism}: lists must have one length, but {words}")
    return next(iter(lengths.values())), spread


def _is_list(value: Any) -> bool:
    words = isinstance(value, (str, bytes))
    return bool(getattr(value, "ndim", isinstance(value, Sequence) and not words))


def probabilities(mechanism: str, name: str, values: Any) -> list[float]:
    """Return a list of probabilities that add up to one."""
    array = as_array(f"{mechanism}: {name}", values)
    if array.ndim != 1 or not array.size or not ((array >= 0) & (array <= 1)).all():
        raise DeclarationError(f"{mechanism}: {name}={values!r} (expected numbers in [0, 1])")
    total = math.fsum(array.tolist())
    if not abs(total - 1) <= 1e-12 * array.size:
        raise DeclarationError(f"{mechanism}: {name} add up to {total!r} (expected 1)")
    return [float(v) for v in array]


def check(mechanism: str, info: ParameterInfo, value: Any) -> float:
    """Return one value as a float inside its domain."""
    number = value if type(value) is float else as_double(value)
    if info.lo < number < info.hi and abs(number) < EXACT and not info.integer:
        return number
    problem = _problem(info, number) or _lost(info, value, number)
    if problem:
        said = shown(number) if abs(number) < EXACT else repr(value)
        raise DeclarationError(
            f"{mechanism}: {info.name}={said} {problem} (expected {domain(info)})"
        )
    return number


def positive(owner: str, name: str, value: Any) -> float:
    """Return a finite number > 0; raises what `check` raises."""
    return check(owner, ParameterInfo(name, 0.0, math.inf, True, True, False, None, (1, 1)), value)


def share(owner: str, name: str, value: Any) -> float:
    """Return a number in [0, 1]; raises what `check` raises."""
    return check(owner, ParameterInfo(name, 0.0, 1.0, False, False, False, None, (0, 1)), value)


def check_rate(owner: str, name: str, value: float) -> None:
    """Refuse a sampling rate above 0 next to which doubles lose digits."""
    if 0.0 < value < float_info.min:
        raise DeclarationError(
            f"{owner}: {name}={value!r} is too small (expected 0, or at least {float_info.min:.2g})"
        )


def size(owner: str, name: str, value: Any, most: float = LARGEST_SIZE) -> int:
    """Return an integer from 1 to `most`, in any type of numbers; raises what `check` raises."""
    check(owner, ParameterInfo(name, 1.0, most, False, False, True, None, (1, 1)), value)
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


def _lost(info: ParameterInfo, value: Any, number: float) -> str:
    """Say that an integer is not the double that it would be taken for; fractions are rounded."""
    if abs(number) < EXACT:
        return ""
    if value != int(value):
        return "is not an integer" if info.integer else ""
    if int(value) == int(number):
        return ""
    return f"is an integer that doubles do not have, the closest is {number!r}"


def domain(info: ParameterInfo) -> str:
    """Return the domain of a parameter in words, such as "scale > 0"."""
    kind = "integer " if info.integer else ""
    if info.lo == -math.inf and info.hi == math.inf:
        return f"a finite {kind or 'number '}{info.name}"
    if info.hi == math.inf:
        return f"{kind}{info.name} {'>' if info.lo_open else '>='} {info.lo:g}"
    left = "" if info.lo == -math.inf else f"{info.lo:g} {'<' if info.lo_open else '<='} "
    return f"{kind}{left}{info.name} {'<' if info.hi_open else '<='} {info.hi:g}"


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


def collect(answers: list[Bound], word: str, values: Any) -> Bound:
    """Stack scalar bounds into one of arrays, by what they were asked at; details under "each"."""
    values = np.array(values, np.float64)  # which the asker may change
    sides = np.array([(a.lower, a.estimate, a.upper) for a in answers], np.float64)
    lower, estimate, upper = sides.reshape(-1, 3).T.reshape(3, *values.shape)
    method = "+".join(sorted({a.method for a in answers}))
    status = next((a.status for a in answers if a.status != "proven"), "proven")
    detail = {"each": tuple(a.detail for a in answers)}
    return Bound(lower, estimate, upper, method, status, detail, at=(word, values))


def from_log(bound: Bound) -> Bound:
    """Turn bounds on log delta into bounds on delta, rounding outward."""

    def pad(log: float) -> float:
        return 0.0 if log in (0.0, -math.inf) else (abs(log) + 2.0) * EPS

    below, above = float(bound.lower), float(bound.upper)
    lower = math.exp(below) * max(0.0, 1.0 - pad(below))
    upper = math.exp(above) * (1.0 + pad(above))
    if above > -math.inf:
        upper = min(max(upper, LEAST), 1.0)
    estimate = math.exp(float(bound.estimate))
    return Bound(lower, estimate, upper, bound.method, bound.status, bound.detail)


@dataclass(eq=False)
class Question:
    """What has been computed for the question at hand: laws, contours and meshes that grow.

    They begin the same for every question and are shared by nothing else, so that an answer is a
    pure function of its question, on a fresh object, after other questions, in any process. An
    array of epsilons, a curve, a search, a calibration is one question.
    """

    laws: dict[Any, Any] = field(default_factory=dict)


_current: ContextVar[Question | None] = ContextVar("question", default=None)


def current() -> Question:
    """The question being answered; a new one, shared with nothing, outside of any."""
    return _current.get() or Question()


def kept(key: Any, make: Callable[[], Any]) -> Any:
    """Return the law of a key for the question at hand, made the first time it is asked for."""
    laws = current().laws
    if key not in laws:
        laws[key] = make()
    return laws[key]


class asked:  # a word for what the body of a `with` is
    """Answer one question; a question inside another one is a part of it, but for one `afresh`."""

    __slots__ = ("afresh", "token")

    def __init__(self, afresh: bool = False) -> None:
        """Say whether it is one of its own in any case."""
        self.afresh = afresh
        self.token: Token[Question | None] | None = None

    def __enter__(self) -> Question:
        """Begin."""
        question = _current.get()
        if question is None or self.afresh:
            question = Question()
            self.token = _current.set(question)
        return question

    def __exit__(self, *error: object) -> None:
        """End."""
        if self.token is not None:
            _current.reset(self.token)
