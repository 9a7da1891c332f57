"""What emitted densities lie between on whole boxes of outputs, by interval arithmetic.

Points tell nothing of what lies between them. So the emitted functions are run as Python on an
`Enclosure`, which is what a function has on each of many boxes: ends of its values, and ends of its
slopes (Moore, Kearfott and Cloud 2009, chapter 6: automatic differentiation on intervals). Values
of functions lie between those at ends of their arguments and at places where they turn, slopes
between those there, wherever these are monotone. Where a comparison is not decided on a box nothing
is said of it. All ends are rounded outward.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from mechc.errors import UnsupportedError
from mechc.kernel import prelude
from mechc.loss.running_error import TURNS, total
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

ROUNDED = 4.0 * EPS  # of an operation, relative
OF_FUNCTION = 1024.0 * EPS  # of a function, relative to its value, or to one
OF_BESSEL = 1e-12  # the same, of functions of Bessel
MOST, LEAST = sys.float_info.max, 5e-324
LEAST_GAMMA = TURNS["lgamma"]


class _Undecided(Exception):
    """A comparison that does not hold, or fail, on all boxes alike."""

    def __init__(self, yes: Any, no: Any) -> None:
        """Keep on which it is sure to hold, and to fail."""
        super().__init__()
        self.yes, self.no = yes, no


class _Comparison(NamedTuple):
    """On which boxes a comparison is sure to hold, and is sure to fail."""

    yes: Any
    no: Any

    def __bool__(self) -> bool:
        """Return it, if it is the same on all boxes."""
        if np.all(self.yes):
            return True
        if np.all(self.no):
            return False
        raise _Undecided(self.yes, self.no)


class Enclosure:
    """Values and slopes of a function on boxes: between `lo` and `hi`, `least` and `most`."""

    __slots__ = ("hi", "least", "lo", "most")
    __array_ufunc__ = None  # numbers of numpy leave arithmetic to us

    def __init__(self, lo: Any, hi: Any, least: Any, most: Any, off: float = ROUNDED) -> None:
        """Keep them, rounded outward by a share `off`; what is no number may be anything."""
        self.lo, self.hi = _outward(lo, hi, off)
        self.least, self.most = _outward(least, most, off)

    def __neg__(self) -> Enclosure:
        """Minus the function."""
        return Enclosure(-self.hi, -self.lo, -self.most, -self.least, 0.0)

    def __abs__(self) -> Enclosure:
        """Its size."""
        return _of_one("fabs", self)

    def __add__(self, other: Any) -> Enclosure:
        """A sum."""
        b = enclosed(other)
        return Enclosure(self.lo + b.lo, self.hi + b.hi, self.least + b.least, self.most + b.most)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Enclosure:
        """A difference."""
        return self + -enclosed(other)

    def __rsub__(self, other: Any) -> Enclosure:
        """A difference."""
        return enclosed(other) + -self

    def __mul__(self, other: Any) -> Enclosure:
        """A product, or a square."""
        if other is self:  # a square
            low, high = np.square(self.lo), np.square(self.hi)
            least = np.where((self.lo < 0.0) & (self.hi > 0.0), 0.0, np.minimum(low, high))
            slope = _product(2.0 * self.lo, 2.0 * self.hi, self.least, self.most)
            return Enclosure(least, np.maximum(low, high), *slope)
        if not isinstance(other, Enclosure):
            return self._scaled(np.multiply, other)
        b = other
        one = _product(self.lo, self.hi, b.least, b.most)
        two = _product(self.least, self.most, b.lo, b.hi)
        value = _product(self.lo, self.hi, b.lo, b.hi)
        return Enclosure(*value, one[0] + two[0], one[1] + two[1])

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Enclosure:
        """A quotient."""
        if not isinstance(other, Enclosure):
            return self._scaled(np.divide, other)
        return self * _inverse(other)

    def _scaled(self, by: Any, factor: float) -> Enclosure:
        """Times, or by, a number; nothing is exact."""
        rows = [by(row, factor) for row in (self.lo, self.hi, self.least, self.most)]
        if factor == 0.0:
            rows = [np.where(np.isnan(row), 0.0, row) for row in rows]
        a, b, c, d = rows if factor >= 0.0 else (rows[1], rows[0], rows[3], rows[2])
        return Enclosure(a, b, c, d)

    def __rtruediv__(self, other: Any) -> Enclosure:
        """A quotient."""
        return _inverse(self).__mul__(other)

    def __lt__(self, other: Any) -> Any:
        """Where it is smaller."""
        b = enclosed(other)
        return _Comparison(self.hi < b.lo, self.lo >= b.hi)

    def __le__(self, other: Any) -> Any:
        """Where it is no larger."""
        b = enclosed(other)
        return _Comparison(self.hi <= b.lo, self.lo > b.hi)

    def __gt__(self, other: Any) -> Any:
        """Where it is larger."""
        return enclosed(other) < self

    def __ge__(self, other: Any) -> Any:
        """Where it is no smaller."""
        return enclosed(other) <= self

    def __eq__(self, other: Any) -> Any:
        """Where both are one number."""
        b = enclosed(other)
        one = (self.lo == self.hi) & (b.lo == b.hi) & (self.lo == b.lo)
        return _Comparison(one, (self.hi < b.lo) | (self.lo > b.hi))

    def __ne__(self, other: Any) -> Any:
        """Where they differ."""
        yes, no = self == other
        return _Comparison(no, yes)

    __hash__ = None  # type: ignore[assignment]


def enclosed(value: Any) -> Enclosure:
    """A number is the same everywhere."""
    if isinstance(value, Enclosure):
        return value
    at, level = np.float64(value), np.float64(0.0)
    return Enclosure(at, at, level, level, 0.0)


def on_boxes(function: Any, theta: Floats, a: Floats, b: Floats) -> Enclosure:
    """Return what an emitted function of x and theta is on boxes from `a` to `b`.

    Args:
        function: of the kernel, with its Python text.
        theta: parameters.
        a: lower ends of boxes, shape (n,).
        b: upper ends.

    Raises:
        AttributeError, TypeError, ValueError, ArithmeticError: one of `FAILING`; it cannot be told.
    """
    one = np.ones(a.size)
    with np.errstate(all="ignore"):
        try:
            found = enclosed(_keeping(function.py_func)(Enclosure(a, b, one, one, 0.0), theta))
        except _Undecided as undecided:
            parts = np.full((4, a.size), np.inf)
            parts[[0, 2]] = -np.inf
            for some in (undecided.yes, undecided.no):
                if np.any(some):
                    part = on_boxes(function, theta, a[some], b[some])
                    parts[:, some] = part.lo, part.hi, part.least, part.most
            return Enclosure(parts[0], parts[1], parts[2], parts[3], 0.0)
    rows = (found.lo, found.hi, found.least, found.most)
    lo, hi, least, most = (np.broadcast_to(row, a.shape) for row in rows)
    return Enclosure(lo, hi, least, most, 0.0)


def _outward(lo: Any, hi: Any, off: float) -> tuple[Any, Any]:
    """Ends moved outward by a share of them, and by what is too small for doubles."""
    if off:  # numbers beyond doubles are none of them infinite, but logs of nothing are
        lo = np.minimum(lo, MOST)
        low, high = lo - (off * np.abs(lo) + LEAST), hi + (off * np.abs(hi) + LEAST)
        lo = np.where(lo >= 0.0, np.maximum(low, 0.0), low)  # rounding keeps signs
        hi = np.where(hi <= 0.0, np.where(hi == -np.inf, hi, np.minimum(high, 0.0)), high)
    return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)


def _product(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """Ends of products of numbers between two ends; an end that is infinite is never reached."""
    ends = np.stack(np.broadcast_arrays(a * c, a * d, b * c, b * d))
    if (wrong := np.isnan(ends)).any():
        ends[wrong] = 0.0
        for end in (a, b, c, d):
            ends[..., np.isnan(end)] = np.nan
    return ends.min(axis=0), ends.max(axis=0)


def _inverse(u: Enclosure) -> Enclosure:
    """One over a function that is not zero."""
    known = (u.lo > 0.0) | (u.hi < 0.0)
    lo, hi = np.where(known, 1.0 / u.hi, -np.inf), np.where(known, 1.0 / u.lo, np.inf)
    ends = -1.0 / np.square(u.lo), -1.0 / np.square(u.hi)
    least, most = np.minimum(*ends), np.maximum(*ends)
    slope = _product(np.where(known, least, -np.inf), most, u.least, u.most)
    return Enclosure(lo, hi, *slope)


class _One(NamedTuple):
    """A function of one number.

    Its value and slope, between which arguments it is one, and the places where either turns;
    between these both are monotone.
    """

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    low: float = -math.inf
    high: float = math.inf
    turn: float = math.nan
    bend: float = math.nan
    off: float = 0.0  # next to its zeros


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python, on arrays."""

    def every(u: Any) -> Any:
        flat = np.ravel(u).tolist()
        return np.array([total(function, at) for at in flat]).reshape(np.shape(u))

    return every


def _decay(u: Any) -> Any:
    """Minus the slope of log(erfc(u))."""
    return 2.0 / math.sqrt(math.pi) * np.exp(-np.minimum(_each(prelude.log_erfcx)(u), MOST_LOG))


def _softplus_slope(u: Any) -> Any:
    return np.exp(-np.logaddexp(0.0, -u))


def _log1mexp(u: Any) -> Any:
    return np.where(u < 0.0, _each(prelude.log1mexp)(u), -np.inf)


def _log1mexp_slope(u: Any) -> Any:
    return -1.0 / np.expm1(np.abs(u))  # at -0.0 and 0.0 alike


def _bell(u: Any) -> Any:
    return 2.0 / math.sqrt(math.pi) * np.exp(-np.square(u))


ONE = {
    "exp": _One(np.exp, np.exp),
    "expm1": _One(np.expm1, np.exp),
    "log": _One(np.log, lambda u: 1.0 / u, 0.0),
    "log1p": _One(np.log1p, lambda u: 1.0 / (1.0 + u), -1.0),
    "sqrt": _One(np.sqrt, lambda u: 0.5 / np.sqrt(u), 0.0),
    "fabs": _One(np.abs, np.sign, turn=0.0),
    "cosh": _One(np.cosh, np.sinh, turn=0.0),
    "sinh": _One(np.sinh, np.cosh, bend=0.0),
    "tanh": _One(np.tanh, lambda u: 1.0 / np.square(np.cosh(u)), bend=0.0),
    "atan": _One(np.arctan, lambda u: 1.0 / (1.0 + np.square(u)), bend=0.0),
    "asinh": _One(np.arcsinh, lambda u: 1.0 / np.hypot(1.0, u), bend=0.0),
    "erf": _One(_each(math.erf), _bell, bend=0.0),
    "erfc": _One(_each(math.erfc), lambda u: -_bell(u), bend=0.0),
    "softplus": _One(lambda u: np.logaddexp(0.0, u), _softplus_slope, off=OF_FUNCTION),
    "log1mexp": _One(_log1mexp, _log1mexp_slope, high=0.0, off=OF_FUNCTION),
    "log_cosh": _One(_each(prelude.log_cosh), np.tanh, turn=0.0, off=OF_FUNCTION),
    "log_sinh": _One(_each(prelude.log_sinh), lambda u: 1.0 / np.tanh(u), 0.0, off=OF_FUNCTION),
    "log_erfc": _One(_each(prelude.log_erfc), lambda u: -_decay(u), off=OF_FUNCTION),
    "log_half_erfc": _One(_each(prelude.log_half_erfc), lambda u: -_decay(u), off=OF_FUNCTION),
}


def _of_one(name: str, u: Enclosure) -> Enclosure:
    """A function of one argument."""
    return _applied(ONE[name], u)


def _applied(function: _One, u: Enclosure) -> Enclosure:
    value, slope, low, high, turn, bend, off = function
    lo, hi = np.clip(u.lo, low, high) + 0.0, np.clip(u.hi, low, high) + 0.0  # no -0.0
    found = []
    for rule, at in ((value, turn), (slope, bend)):
        ends = [rule(lo), rule(hi)]
        if at == at:
            ends.append(np.where((lo < at) & (at < hi), rule(np.float64(at)), ends[0]))
        least, most = np.minimum.reduce(ends), np.maximum.reduce(ends)
        found.append((least - off, most + off) if rule is value else (least, most))
    slopes = _product(*_outward(*found[1], OF_FUNCTION), u.least, u.most)
    return Enclosure(*found[0], *slopes, OF_FUNCTION)


def _lgamma(u: Enclosure) -> Enclosure:
    """Log of the gamma function of what is positive; its slope is log(u) - 1/u to log(u) - 1/2u."""
    if not np.all(u.lo > 0.0):
        raise UnsupportedError("the gamma function where it has poles")
    ends = [_each(math.lgamma)(end) for end in (u.lo, u.hi)]
    inside = (u.lo < LEAST_GAMMA) & (u.hi > LEAST_GAMMA)
    lo = np.where(inside, math.lgamma(LEAST_GAMMA), np.minimum(*ends)) - OF_FUNCTION
    slope = np.log(u.lo) - 1.0 / u.lo, np.log(u.hi) - 0.5 / u.hi
    slope = _outward(slope[0] - OF_FUNCTION, slope[1] + OF_FUNCTION, OF_FUNCTION)
    value = lo, np.maximum(*ends) + OF_FUNCTION
    return Enclosure(*value, *_product(*slope, u.least, u.most), OF_FUNCTION)


def _lgamma_difference(a: Any, h: Any) -> Enclosure:
    """Of a + h and of a.

    For a number h its slope has h's sign, and is h/u to h/u + h/u^2 for some u between both.
    """
    if isinstance(h, Enclosure):
        return _lgamma(enclosed(a) + h) - _lgamma(enclosed(a))
    lo, hi = a.lo + min(h, 0.0), a.hi + max(h, 0.0)
    if not np.all(lo > 0.0):
        raise UnsupportedError("the gamma function where it has poles")
    difference = _each(lambda u: float(prelude.lgamma_difference(u, float(h))))
    ends = difference(a.lo), difference(a.hi)
    steep, flat = (1.0 + 1.0 / lo) / lo, 1.0 / hi
    slope = (h * flat, h * steep) if h > 0.0 else (h * steep, h * flat)
    value = np.minimum(*ends) - OF_FUNCTION, np.maximum(*ends) + OF_FUNCTION
    slope = _outward(*slope, OF_FUNCTION)
    return Enclosure(*value, *_product(*slope, a.least, a.most), OF_FUNCTION)


def _log_add(a: Any, b: Any) -> Enclosure:
    """Log of a sum of exponentials, whose slope is a mean of both slopes."""
    a, b = enclosed(a), enclosed(b)
    least, most = [], []
    for gap in (b.lo - a.hi, b.hi - a.lo):
        gap = np.where(np.isnan(gap), 0.0, gap)
        share, rest = _softplus_slope(gap), _softplus_slope(-gap)
        least.append(rest * a.least + share * b.least)
        most.append(rest * a.most + share * b.most)
    unknown = (a.hi == -np.inf) & (b.hi == -np.inf)  # nothing, and nothing of its slope
    return Enclosure(
        np.logaddexp(a.lo, b.lo) - OF_FUNCTION, np.logaddexp(a.hi, b.hi) + OF_FUNCTION,
        np.where(unknown, 0.0, np.minimum.reduce(least)),
        np.where(unknown, 0.0, np.maximum.reduce(most)), OF_FUNCTION,
    )  # fmt: skip


def _log_sum(v: Any, a: Any, w: Any, b: Any) -> Enclosure:
    """Log of v exp(a) + w exp(b)."""
    v, w = enclosed(v), enclosed(w)
    if np.all(v.lo >= 0.0) and np.all(w.lo >= 0.0):
        return _log_add(_of_one("log", v) + a, _of_one("log", w) + b)
    rest: Enclosure = _of_one("log", v + w * _of_one("exp", enclosed(b) - a)) + a
    return rest


def _pow(base: Any, power: Any) -> Enclosure:
    """A power of what is positive, by its log where the exponent is none of numbers."""
    base = enclosed(base)
    if not np.all(base.lo >= 0.0):
        raise UnsupportedError("powers of what may be negative")
    if isinstance(power, Enclosure):
        return _of_one("exp", power * _of_one("log", base))
    return _applied(
        _One(lambda u: np.power(u, power), lambda u: power * np.power(u, power - 1.0), 0.0), base
    )


def _log1p_power(c: Any, b: Any, d: Any, k: Any) -> Enclosure:
    """Log of 1 + c abs(b/d)^k, which rises with abs(b), has no overflow, and k/b at most as slope.

    With v for its value, the slope is k/b times 1 - exp(-v).
    """
    whole = _of_one("log1p", c * _pow(_of_one("fabs", enclosed(b) / d), k))
    if any(isinstance(given, Enclosure) or not given > 0.0 for given in (c, d, k)):
        return whole
    size = _of_one("fabs", b)
    ends = [_each(lambda u: float(prelude.log1p_power(c, u, d, k)))(end) for end in
            (size.lo, size.hi)]  # fmt: skip
    low, high = ends[0] * (1.0 - OF_FUNCTION), ends[1] * (1.0 + OF_FUNCTION)
    low = np.where(low == np.inf, MOST_LOG, low)  # where powers of Python overflow
    slopes = -k * np.expm1(-low) / size.hi, -k * np.expm1(-high) / size.lo
    least, most = _product(*_outward(*slopes, OF_FUNCTION), size.least, size.most)
    return Enclosure(
        np.fmax(whole.lo, low), np.fmin(whole.hi, high), np.fmax(whole.least, least),
        np.fmin(whole.most, most), OF_FUNCTION,
    )  # fmt: skip


def _even(function: Callable[[float, float], float], n: Any, z: Any) -> Enclosure:
    """A function of abs(n) that falls and is concave, or rises and is convex; z is a number.

    Its slopes lie between those of the lines through two points further in and further out.
    """
    if isinstance(z, Enclosure):
        raise UnsupportedError("an interval for the second argument")
    size = _of_one("fabs", n)
    at = [size.lo * (7.0 / 8.0), size.lo, size.hi, size.hi * (9.0 / 8.0) + 1.0]
    value = [_each(partial(_swapped, function, float(z)))(v) for v in at]
    slope = []
    for i in (0, 2):
        wide = at[i + 1] - at[i]
        noise = OF_BESSEL * (2.0 + np.abs(value[i]) + np.abs(value[i + 1]))
        slope.append(np.array([value[i + 1] - value[i] + t * noise for t in (-1.0, 1.0)]) / wide)
    steep = np.where(size.lo > 0.0, slope[0], 0.0)
    least, most = np.minimum(steep, slope[1]).min(axis=0), np.maximum(steep, slope[1]).max(axis=0)
    lo, hi = np.minimum(value[1], value[2]) - OF_BESSEL, np.maximum(value[1], value[2]) + OF_BESSEL
    return Enclosure(lo, hi, *_product(least, most, size.least, size.most), OF_BESSEL)


def _log_erf_gap(u: Any, h: Any) -> Enclosure:
    """Log of the normal law between u - h and u + h: its slope is a mean of -2 s over these s."""
    if isinstance(h, Enclosure):
        raise UnsupportedError("an interval for the second argument")
    size, whole = _of_one("fabs", u), math.log(4.0 * h / math.sqrt(math.pi))
    nearest, farthest = np.maximum(size.lo - h, 0.0), size.hi + h
    hi, lo = whole - np.square(nearest), whole - np.square(farthest)
    value = [_each(partial(_swapped, prelude.log_erf_gap, float(h)))(v) for v in (size.lo, size.hi)]
    seen = np.isfinite(value)  # farther out doubles do not tell u - h from u + h
    hi = np.where(seen[0], np.minimum(hi, value[0]), hi) + OF_FUNCTION
    lo = np.where(seen[1], np.maximum(lo, value[1]), lo) - OF_FUNCTION
    slope = _product(-2.0 * farthest, -2.0 * nearest, size.least, size.most)
    return Enclosure(lo, hi, *slope, OF_FUNCTION)


def _swapped(function: Callable[[float, float], float], z: float, n: float) -> float:
    return function(n, z)


MANY: dict[str, Callable[..., Any]] = {
    "lgamma": _lgamma,
    "gamma": lambda u: _of_one("exp", _lgamma(u)),
    "pow": _pow,
    "log_add": _log_add,
    "log_sum": _log_sum,
    "log_mix": lambda q, d: _log_sum(1.0 - q, 0.0, q, d),
    "log_mix_rest": lambda r, q, d: _log_sum(r, 0.0, q, d),
    "mix": lambda q, d: (1.0 - q) + q * _of_one("exp", enclosed(d)),
    # logs of I and K are concave and convex in their order (Baricz 2010, sections 2 and 3)
    "log_besseli_scaled": lambda n, z: _even(prelude.log_besseli_scaled, n, z),
    "log_besselk_scaled": lambda n, z: _even(prelude.log_besselk_scaled, n, z),
    "log_erf_gap": _log_erf_gap,
    "log1p_power": _log1p_power,
    "log_ratio": lambda n, d, gap: _of_one("log", enclosed(n) / d),
    "sum_of_three": lambda a, b, c: enclosed(a) + b + c,
    "exp_difference": lambda a, b, gap: (
        _of_one("exp", enclosed(b)) * _of_one("expm1", enclosed(gap))
    ),
    "log_exp_difference": lambda a, b, gap: a + _of_one("log1mexp", -enclosed(gap)),
    "power_difference": lambda a, b, gap, k: _pow(a, k) - _pow(b, k),
    "power": lambda b, a, log_b: _of_one("exp", enclosed(a) * log_b),
    "power_complement": lambda b, a, log_b: -_of_one("expm1", enclosed(a) * log_b),
    "log_binomial": lambda n, k: (
        _lgamma(enclosed(n) + 1.0) - _lgamma(enclosed(k) + 1.0) - _lgamma(enclosed(n) - k + 1.0)
    ),
    "lgamma_difference": _lgamma_difference,
}


def _called(name: str, plain: Callable[..., Any], own: Callable[..., Any] | None) -> Any:
    """A function that takes enclosures as well as numbers; `own` are those of the kernel."""
    with_boxes = MANY.get(name) or (partial(_of_one, name) if name in ONE else own)

    def called(*arguments: Any) -> Any:
        if any(isinstance(argument, Enclosure) for argument in arguments):
            if with_boxes is None:
                raise UnsupportedError(f"{name} of an interval")
            return with_boxes(*arguments)
        return np.float64(plain(*arguments))

    return called


@lru_cache(maxsize=64)
def _keeping(plain: FunctionType) -> FunctionType:
    """An emitted function that takes boxes for x."""
    space = dict[str, Any]()
    made = FunctionType(plain.__code__, space)
    for name, value in plain.__globals__.items():
        own = getattr(value, "py_func", None)
        if own is not None:
            is_own = name not in prelude.PRIMITIVES
            runs = FunctionType(own.__code__, space) if is_own else None
            space[name] = _called(name, value if is_own else partial(total, own), runs)
    functions = {
        name: _called(name, partial(total, value), None)
        for name, value in vars(math).items() if callable(value)
    }  # fmt: skip
    numbers = {name: v for name, v in vars(math).items() if isinstance(v, float)}
    space |= {"math": SimpleNamespace(**functions, **numbers)}
    return made
