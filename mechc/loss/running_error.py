"""What numbers of a kernel are exactly, and how far rounding may have moved those that are not.

Nearness proves nothing: epsilon + 1e-30 is epsilon in doubles at all parameters. So the emitted
functions are run as Python on parameters that know what they are. A `Known` has its exact value
beside what doubles make of it, and sums, products and quotients of such are `Known` as well;
whatever else is computed is a `Computed` with a bound on its error: all that errors of operands may
make of it together, and a rounding. Functions are monotone in each argument between the places of
`TURNS`, so that they are largest and smallest at corners of what their arguments may be; series,
which depend on all parameters, are as wrong as their largest terms. What is neither stands in the
text of the kernel.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from mechc.errors import MechcError
from mechc.numeric.rounding import EPS, SHORT, U
from mechc.protocol import Floats, Kernel, ParameterInfo

FAILING = AttributeError, TypeError, ValueError, ArithmeticError, MechcError
"""What is raised by kernels that are no emitted text, or that do not run as Python."""
NEAR = 1e-9  # relative distance within which an end that is rounded may be the largest
LONG = 4096  # binary digits of a fraction beyond which a number is no longer followed exactly
OF_FUNCTION = 2.0 * EPS  # relative rounding of functions of numbers,
OF_SUM = 1e-11  # of series that depend on parameters, at least
TERMS = 256  # of a series, evenly apart and in equal ratios, among which the largest is sought
ZEROS, NARROW = 1e7, 32  # first terms that a series may have for nothing; width of what follows
FARTHEST = 1e8  # term at which a series ends
SMALL = 1e-18  # term beside the largest that no longer counts
CANCELS = 1e3  # of the sizes of terms to their sum, that a series may have
GROWN = 1.0 + 16.0 * U  # of errors, for the rounding of their own sums
TINY, LEAST = sys.float_info.min, 5e-324  # what is smaller is rounded to multiples of the least


class Computed(float):
    """A number as it is computed, and how far rounding may have moved it."""

    def __new__(cls, value: float, error: float = 0.0) -> Computed:
        """Keep both."""
        made = super().__new__(cls, value)
        made.error = error
        return made

    error: float


class Known(Computed):
    """A number of which the exact value is known."""

    def __new__(cls, value: float, exact: Fraction | None = None) -> Known:
        """Keep both; a parameter is what it is."""
        made: Any = super().__new__(cls, value, 0.0 if exact is None else math.nan)
        made.exact = Fraction(value) if exact is None else exact
        return made  # type: ignore[no-any-return]

    exact: Fraction

    @property
    def is_rounded(self) -> bool:
        """Whether the number is not its exact value."""
        return Fraction(float(self)) != self.exact


def exact_value(number: float) -> Fraction | None:
    """Return what is known of a number: of literals those are exact that have few digits."""
    if isinstance(number, Computed):
        return number.exact if isinstance(number, Known) else None
    return Fraction(number) if _is_short(number) else None


def error_of(number: float) -> float:
    """Return how far a number may be from what it stands for."""
    if isinstance(number, Computed):
        if math.isnan(number.error):  # of one that is known
            number.error = float(abs(Fraction(float(number)) - number.exact))  # type: ignore[attr-defined]
        return number.error
    return 0.0 if _is_short(number) else _share(U, number)


def _is_short(literal: float) -> bool:
    return (SHORT * math.frexp(literal)[0]).is_integer()  # of inf and nan it is no


def _share(factor: float, size: float) -> float:
    """A multiple of a size, nothing of an infinite one: that is no rounded number."""
    return abs(factor * size) if math.isfinite(size) and factor else 0.0


def total(function: Any, *arguments: Any) -> float:
    """The value, where Python raises what machine code has it for: an infinity, or nan."""
    try:
        return float(function(*arguments))
    except OverflowError:
        return math.inf
    except ZeroDivisionError:
        return math.copysign(math.inf, arguments[0]) if arguments[0] else math.nan
    except ValueError:
        least = {math.log: 0.0, math.log1p: -1.0}.get(function)
        return -math.inf if arguments[0] == least else math.nan


def _operator(word: str) -> Any:
    """What arithmetic does, exactly too where that is known."""
    plain = getattr(operator, word.removeprefix("r") if word in REFLECTED else word)

    def operated(*operands: Any) -> Computed:
        operands = operands[::-1] if word in REFLECTED else operands
        exact = [exact_value(operand) for operand in operands]
        value = total(plain, *map(float, operands))
        if plain in ERRORS and None not in exact and math.isfinite(value):
            known = plain(*exact)
            if known.denominator.bit_length() <= LONG:
                return Known(value, known)
        if plain not in ERRORS:
            return computing(plain)(*operands)  # type: ignore[no-any-return]
        sizes = [v for number in operands for v in (abs(float(number)), error_of(number))]
        moved = ERRORS[plain](abs(value), *sizes) + _share(U, value)
        if abs(value) < TINY and all(map(max, sizes[::2], sizes[1::2])):
            moved += 4.0 * LEAST  # products, and those of errors, that are too small for doubles
        return Computed(value, _nan_last(GROWN * moved))

    return operated


def _of_quotient(value: float, _a: float, da: float, b: float, db: float) -> float:
    if db == 0.0:
        return da / b if da and b else 0.0
    return (da + _share(value, db)) / (b - db) if db < b else math.inf


# by the operator: how far the errors of operands move it; its size, theirs and their errors
ERRORS: dict[Any, Any] = {
    operator.neg: lambda _, a, da: da,
    operator.pos: lambda _, a, da: da,
    operator.abs: lambda _, a, da: da,
    operator.add: lambda _, a, da, b, db: da + db,
    operator.sub: lambda _, a, da, b, db: da + db,
    operator.mul: lambda _, a, da, b, db: _share(db, a) + _share(da, b) + _share(da, db),
    operator.truediv: _of_quotient,
}
BINARY = ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv")
REFLECTED = {f"r{word}" for word in BINARY}
for _word in ("neg", "pos", "abs", *BINARY, *REFLECTED):
    setattr(Computed, f"__{_word}__", _operator(_word))


class Whole(Known):
    """A parameter that is an integer."""


class LogOfKnown(Computed):
    """The log of a parameter."""

    parameter: float


# where functions that are not monotone turn, or have a pole, by their names; see `_turns`
TURNS = {
    **dict.fromkeys(("lgamma", "gamma"), 1.4616321449683622),
    **dict.fromkeys(("fabs", "cosh", "log_cosh", "sinhc", "pow", "log_ratio", "log1p_power"), 0.0),
}
# formulas whose terms may be much larger, and are rounded: they are followed
SUMS = {
    *("log_binomial", "lgamma_difference", "log_add", "log_sum", "log_exp_difference"),
    *("power", "power_difference", "log_sinh"),
}
# roundings of other functions than `OF_FUNCTION`; of logs, which may be nothing, beside one
ROUNDINGS = {
    "gamma": 4.0 * EPS,
    **dict.fromkeys(("lgamma", "log_erf_gap", "log_erfcx"), 8.0 * EPS),
    **dict.fromkeys(("log_besseli_scaled", "log_besselk_scaled"), 1e-13),
}


def computing(function: Any) -> Any:
    """A function that also tells how far the errors of its arguments, or ulps of theta, move it."""
    name = function.__name__
    own = getattr(function, "py_func", function)
    is_sum = name[:4] == "sum_" and f"series_{name[4:]}" in own.__globals__
    if name in SUMS or is_sum or name.startswith("one_of_series_"):
        return lambda *arguments: _keeping(own)(*arguments)

    def computed(*arguments: Any) -> Computed:
        plain = [_plain(argument) for argument in arguments]
        value = total(function, *plain)
        of_theta = any(isinstance(argument, list) for argument in arguments)
        share = OF_SUM if of_theta else ROUNDINGS.get(name, OF_FUNCTION)
        least = float(name in ROUNDINGS and name != "gamma")
        if name.startswith("series_") and value:
            share += _of_terms(own.__globals__[f"term_of_{name}"], *arguments)
        error = _share(share, max(abs(value), least))
        ways = [_may_be(name, argument) for argument in arguments] if value == value else []
        if math.prod(map(len, ways)) > 1:
            there = [total(function, *corner) for corner in product(*ways)]
            moves = (
                abs(t - value) + _share(share, max(abs(t), least)) for t in there if t != value
            )
            error += max(map(_nan_last, moves), default=0.0)
        for i, argument in enumerate(arguments if of_theta and value == value else ()):
            for ends, chosen in _moved(argument):
                there = [total(function, *plain[:i], end, *plain[i + 1 :]) for end in ends]
                error += chosen(_nan_last(0.0 if t == value else abs(t - value)) for t in there)
        made = Computed(value, _nan_last(GROWN * error) if value == value else math.inf)
        if function is math.log and isinstance(arguments[0], Known) and not arguments[0].is_rounded:
            made = LogOfKnown(value, error)
            made.parameter = float(arguments[0])
        return made

    return computed


def _of_terms(term: Any, lo: float, hi: float, theta: Any) -> float:
    """Relative error of a series, by those of its largest terms and the number of terms."""
    first, count = float(lo), min(float(hi) - float(lo), FARTHEST)
    if not count >= 0.0:
        return 0.0
    plain = _plain(theta)

    @cache
    def size(n: float) -> float:
        return abs(total(term, n, plain)) if 0.0 <= n - first <= count else -1.0

    apart = np.append(np.linspace(0.0, count, TERMS), np.geomspace(1.0, count + 1.0, TERMS))
    places = np.unique(first + np.floor(apart)).tolist()
    if not size(max(places, key=size)) > 0.0:  # all that count lie between them
        closer = (first + n for n in range(0, int(min(count, ZEROS)), NARROW))
        places = [next(filter(size, closer), first)]
    peak, step = max(places, key=size), 2.0 ** math.ceil(math.log2(count + 1.0))
    while step >= 1.0:
        peak = max((peak, peak - step, peak + step), key=size)
        step *= 0.5
    if not size(peak) > 0.0:
        return math.inf
    ends = []  # of the terms that count, on either side of the largest
    for far, side in ((peak - first, -1.0), (count - peak + first, 1.0)):
        near, far = 0.0, far + 1.0
        while far - near > 1.0:
            middle = math.floor(0.5 * (near + far))
            near, far = (
                (middle, far) if size(peak + side * middle) > SMALL * size(peak) else (near, middle)
            )
        ends.append(near)
    around = [peak + f * end for f in (0.1, 0.3) for end in (-ends[0], ends[1])]
    followed = _keeping(term.py_func)
    found = [
        followed(n, theta)
        for n in (peak, peak + 1.0, peak + 2.0, *map(math.floor, around))
        if size(n) > 0.0
    ]
    error = max((error_of(one) / abs(float(one)) for one in found), default=0.0)
    factor = CANCELS if len({one > 0.0 for one in found}) > 1 else 1.0
    return factor * (2.0 * error + U * (1.0 + sum(ends)))


def _plain(argument: Any) -> Any:
    return np.array(argument, np.float64) if isinstance(argument, list) else float(argument)


def _may_be(name: str, argument: Any) -> list[Any]:
    """The ends of what an argument may be, and where the function turns between them."""
    if isinstance(argument, list) or not (error := error_of(argument)):
        return [_plain(argument)]
    low, high = (
        math.nextafter(float(argument) + side * error, side * math.inf) for side in (-1.0, 1.0)
    )
    return [low, *_turns(name, low, high), high]


def _turns(name: str, low: float, high: float) -> list[float]:
    """Where a function turns, nan for poles and jumps, of which nothing is known."""
    if name in ("mod", "fmod") or (name in ("lgamma", "gamma") and low <= 0.0):
        return [math.nan]
    if name == "tan":  # poles are where cos changes its sign
        return [] if math.cos(low) * math.cos(high) > 0.0 and high - low < 3.0 else [math.nan]
    if name in ("sin", "cos") and high - low < math.inf:
        first = math.ceil(2.0 * low / math.pi)
        last = min(math.floor(2.0 * high / math.pi), first + 3)
        return [0.5 * math.pi * k for k in range(first, last + 1)]
    return [at for at in (TURNS.get(name, math.nan),) if low < at < high]


def _moved(argument: Any) -> Iterator[tuple[list[Any], Any]]:
    """Parameters an ulp up and down, and which of what that does counts."""
    for i, at in enumerate(argument if isinstance(argument, list) else ()):
        ends = [_plain(argument), _plain(argument)]
        ends[0][i], ends[1][i] = (math.nextafter(at, end) for end in (-math.inf, math.inf))
        # next to an integer that ends a sum, one side has a term less
        yield ends, min if isinstance(at, Whole) else max


def _nan_last(number: float) -> float:
    return math.inf if math.isnan(number) else number


def _parameters(kernel: Kernel, theta: Floats) -> list[Known]:
    """Parameters that know what they are."""
    rows = zip(kernel.PARAMETERS, theta.tolist(), strict=True)
    return [(Whole if ParameterInfo(*row).integer else Known)(value) for row, value in rows]


def _run(function: Any, *arguments: Any) -> Any:
    """What an emitted function says, on arrays that keep what is put in."""
    with np.errstate(all="ignore"):
        return _keeping(function.py_func)(*arguments)


@lru_cache(maxsize=64)
def _keeping(plain: FunctionType) -> FunctionType:
    """An emitted function that keeps what its parameters are."""
    space = dict[str, Any]()
    for name, value in plain.__globals__.items():
        numbers = hasattr(value, "py_func") and name != "add_branch"
        space[name] = computing(value) if numbers else value
    functions = {n: computing(v) if callable(v) else v for n, v in vars(math).items()}
    keeping = SimpleNamespace(
        empty=lambda shape: np.empty(shape, dtype=object),
        array=lambda rows: np.array(rows, dtype=object),
    )
    space |= {"math": SimpleNamespace(**functions), "np": keeping}
    return FunctionType(plain.__code__, space)


def exact_losses(kernel: Kernel, theta: Floats, x: Floats) -> list[bool]:
    """Return which losses at outputs are not rounded, as far as anything tells."""
    try:
        known = _parameters(kernel, theta)
        found = [_run(kernel.loss, at, known) for at in x.tolist()]
    except FAILING:
        return [False] * x.size
    exact = [exact_value(loss) for loss in found]
    return [e is not None and e == float(loss) for e, loss in zip(exact, found, strict=True)]


def log_mass_errors(kernel: Kernel, theta: Floats, x: Floats) -> Floats:
    """Return how far logs of masses of P and of Q may be off at integers, together."""
    try:
        known, laws = _parameters(kernel, theta), (kernel.log_p, kernel.log_q)
        found = [sum(error_of(_run(law, Known(at), known)) for law in laws) for at in x.tolist()]
    except FAILING:
        return np.full(x.size, np.inf)
    return np.array(found)


def known_masses(kernel: Kernel, theta: Floats) -> tuple[Floats, tuple[float, float]]:
    """Return what is known of the masses of atoms beside their logs.

    Returns:
        Relative errors of those of P and of Q, shape (atoms, 2), zero where nothing can be told;
        and the one parameter that is the mass of an atom of P alone, and of Q; nan for none.
    """
    try:
        rows = _run(kernel.atoms, _parameters(kernel, theta))
    except FAILING:
        return np.zeros((len(kernel.atoms(theta)), 2)), (math.nan, math.nan)
    told = []
    for own, other in ((1, 2), (2, 1)):
        alone = [row[own] for row in rows if row[other] == -math.inf < row[own]]
        is_told = len(alone) == 1 and isinstance(alone[0], LogOfKnown)
        told.append(alone[0].parameter if is_told else math.nan)
    return np.array([[*map(error_of, row[1:])] for row in rows]).reshape(-1, 2), (told[0], told[1])


def known_weights(kernel: Kernel, theta: Floats) -> dict[str, tuple[float, float]]:
    """Return weights of summands that may be negative or rounded, and errors, by their words."""
    words = kernel.CAPABILITIES.get("weights", "")
    rows = _run(kernel.weights, _parameters(kernel, theta)) if words else []
    return {w: (float(v), error_of(v)) for w, (v,) in zip(words.split("; "), rows, strict=False)}


def exact_largest(top: float, kernel: Kernel, theta: Floats, sign: float) -> Fraction | None:
    """Return the largest loss, times a sign, that is `top` in doubles; None where it is not known.

    Laplace noise has sensitivity / scale, which is known, and a Poisson sample of it a log.
    """
    try:
        known = _parameters(kernel, theta)
        ends = [end for row in _run(kernel.branches, known) for end in row[3:5]]
        x = np.asarray(kernel.atoms(theta)).reshape(-1, 3)[:, 0].tolist()
        ends += [_run(kernel.loss, Computed(at), known) for at in x]
    except FAILING:
        return None
    found = []
    for end in ends:
        value = exact_value(end)
        if value is not None:
            found.append(int(sign) * value)
        elif math.isfinite(end) and not sign * float(end) < top - NEAR * abs(top):
            return None  # which of both is larger is not known
    exact = max(found, default=None)
    return exact if exact is not None and abs(exact - Fraction(top)) <= NEAR * abs(top) else None
