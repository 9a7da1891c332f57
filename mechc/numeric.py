"""Numbers from symbolic expressions, for the checks at normalisation only.

Typical parameter vectors, vectorised evaluation in double precision, and integration and summation
that find their own scale. None of this is used by an accountant: kernels have their own evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from sympy import Abs, Add, Basic, Dummy, Expr, Sum, Symbol, lambdify

from mechc.parameters import Parameter

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
Theta = tuple[float, ...]

_GOLDEN = (math.sqrt(5) - 1) / 2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_SPARE = 6.0  # decimal digits that may cancel before mpmath takes over
_BLOCK = 1 << 14
# a mass below this at distance 16384 belongs to a tail that adds up to nothing
_NEGLIGIBLE = 1e-40
# a variable x = e^t is followed from e^-90 to e^150: x^4 still fits a double, and a tail that
# falls like x^(-1.15) is below 1e-10 there
_SMALLEST, _LARGEST = -90.0, 150.0
# a density that rises like y^-0.1 or faster at this share of a place, is followed by that law
_CLOSE, _STEEP = 1e-13, 0.1
# share of that law's mass that is not to be relied on
_DOUBT = 0.01


def typical_vectors(parameters: tuple[Parameter, ...], how_many: int) -> Iterator[Theta]:
    """Parameter values spread over the typical ranges, irrational where they may be.

    Args:
        parameters: what to choose values for.
        how_many: number of vectors.

    Yields:
        Values in the order of `parameters`. Ranges above zero are covered in logarithms.
    """
    for k in range(1, how_many + 1):
        yield tuple(
            _typical(p, (k * _GOLDEN ** (1 + 0.37 * i) + 0.5 * i) % 1.0)
            for i, p in enumerate(parameters)
        )


def _typical(parameter: Parameter, u: float) -> float:
    lo, hi = parameter.typical
    value = lo * (hi / lo) ** u if lo > 0 else lo + u * (hi - lo)
    return float(round(value)) if parameter.integer else value


class Evaluator:
    """One expression as a function of the variable, for many parameter vectors."""

    def __init__(self, expr: Expr, variable: Symbol, parameters: tuple[Parameter, ...]) -> None:
        """Compile `expr` in `variable` and `parameters`."""
        self.symbols = [p.symbol for p in parameters]
        self.sums = sorted(
            (s for s in expr.atoms(Sum) if not s.has(variable)), key=lambda s: str(s)
        )
        dummies = [Dummy(f"sum_{i}") for i in range(len(self.sums))]
        flat = expr.xreplace(dict(zip(self.sums, dummies, strict=True)))
        arguments = [variable, *self.symbols, *dummies]
        self._fast = _compiled(arguments, flat, ["scipy", "numpy"])
        self._slow = _compiled(arguments, flat, "mpmath")
        sizes = Add(*map(Abs, flat.args)) if isinstance(flat, Add) else None
        self._size = None if sizes is None else _compiled(arguments, sizes, ["scipy", "numpy"])

    def at(self, theta: Theta) -> Function:
        """The function of the variable for one parameter vector; nan where it is not real."""
        given = (*theta, *(_sum_value(s, self.symbols, theta) for s in self.sums))

        def values(x: Floats) -> Floats:
            x = np.asarray(x, dtype=np.float64)
            result = np.full_like(x, np.nan)
            if self._fast is not None:
                try:
                    with np.errstate(all="ignore"):
                        result = _real(self._fast(x, *given), x)
                except (TypeError, ValueError, NameError, AttributeError, OverflowError):
                    self._fast = None
            digits = self._lost(x, given, result)
            for i in np.flatnonzero(digits > _SPARE):
                with mpmath.workdps(15 + int(digits[i])):
                    result[i] = _mp_value(self._slow, mpmath.mpf(x[i]), given)
            # overflow as in 0 * inf is not final: mpmath has no largest number
            for i in np.flatnonzero(np.isnan(result)):
                result[i] = _mp_value(self._slow, float(x[i]), given)
            return result

        return values

    def _lost(self, x: Floats, given: tuple[float, ...], result: Floats) -> Floats:
        """How many decimal digits cancel in the sum, as in loggamma(x) - loggamma(x + 1)."""
        if self._size is None or self._fast is None:
            return np.zeros_like(x)
        with np.errstate(all="ignore"):
            size = _real(self._size(x, *given), x)
            lost: Floats = np.log10(size / (1.0 + np.abs(result)))
        return np.where(np.isfinite(size) & np.isfinite(lost), lost, 0.0)

    def exactly(self, x: float, theta: Theta) -> float:
        """The value at one point, evaluated by mpmath; nan when it is not real."""
        given = (*theta, *(_sum_value(s, self.symbols, theta) for s in self.sums))
        return _mp_value(self._slow, x, given)


def value(expr: Expr, parameters: tuple[Parameter, ...], theta: Theta) -> float:
    """An expression in parameters as a float; nan when it is not real."""
    if expr.is_number:
        return float(expr) if expr.is_extended_real else math.nan
    evaluator = _scalar(expr, parameters)
    return evaluator.exactly(0.0, theta)


@lru_cache(maxsize=4096)
def _scalar(expr: Expr, parameters: tuple[Parameter, ...]) -> Evaluator:
    return Evaluator(expr, Dummy("unused"), parameters)


def holds(condition: Basic, parameters: tuple[Parameter, ...], theta: Theta) -> bool:
    """Whether a condition on the parameters is true."""
    return bool(_truth(condition, parameters)(*theta))


@lru_cache(maxsize=256)
def _truth(condition: Basic, parameters: tuple[Parameter, ...]) -> Callable[..., Any]:
    function: Callable[..., Any] = lambdify([p.symbol for p in parameters], condition, "mpmath")
    return function


def _as_number(x: float) -> Any:
    return int(x) if x == math.floor(x) else x


def _compiled(arguments: Sequence[Basic], expr: Expr, modules: Any) -> Callable[..., Any] | None:
    try:
        function: Callable[..., Any] = lambdify(arguments, expr, modules=modules)
    except (TypeError, ValueError, NotImplementedError, KeyError):
        return None
    return function


def _real(values: Any, x: Floats) -> Floats:
    """Values as an array of the shape of `x`, complex ones as nan."""
    array = np.broadcast_to(np.asarray(values), x.shape)
    if np.iscomplexobj(array):
        return np.where(array.imag == 0, array.real, np.nan)
    return np.array(array, dtype=np.float64)


def _mp_value(function: Callable[..., Any] | None, x: float, given: Iterable[float]) -> float:
    if function is None:
        return math.nan
    try:
        result = function(x, *given)
        return float(result) if mpmath.im(result) == 0 else math.nan
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return math.nan


def _sum_value(expr: Sum, symbols: Sequence[Symbol], theta: Theta) -> float:
    """A convergent sum over integers, free of the variable."""
    index, lo, hi = expr.limits[0]
    function = lambdify([index, *symbols], expr.function, modules=["scipy", "numpy"])
    ends = dict(zip(symbols, map(_as_number, theta), strict=True))
    a, b = (float(end.subs(ends)) for end in (lo, hi))
    return sum_over(lambda n: _real(function(n, *theta), n), a, b, [0.0])


def centres(logs: Iterable[Expr], ends: Iterable[Expr], variable: Symbol) -> list[Expr]:
    """Where the mass may sit: ends, zeros of linear and vertices of quadratic parts of `logs`."""
    found = {end for end in ends if end.is_finite}
    for part in {a for ell in logs for a in (*ell.atoms(Add), ell) if a.has(variable)}:
        poly = part.as_poly(variable)
        if poly is not None and poly.degree() == 1:
            found.add(-poly.nth(0) / poly.nth(1))
        elif poly is not None and poly.degree() == 2:
            found.add(-poly.nth(1) / (2 * poly.nth(2)))
    return sorted((c for c in found if not c.has(variable)), key=str)


@np.errstate(over="ignore", invalid="ignore")  # an infinite integral says so by its value
def integral(f: Function, lo: float, hi: float, centres: Iterable[float]) -> float:
    """Integrate over (lo, hi), looking for mass at every distance from `centres`.

    Each gap between centres is cut in the middle; from either side x = centre +- e^t, so that
    peaks of any width at a centre, algebraic tails and end-point singularities are all smooth in t.
    """
    points = sorted(p for p in {lo, hi, *centres} if lo <= p <= hi and math.isfinite(p)) or [0.0]
    total = 0.0
    for u, v in pairwise(points):
        half = 0.5 * (v - u)
        total += _from_centre(f, u, 1.0, half) + _from_centre(f, v, -1.0, half)
    if lo == -math.inf:
        total += _from_centre(f, points[0], -1.0, math.inf)
    if hi == math.inf:
        total += _from_centre(f, points[-1], 1.0, math.inf)
    return total


def doubt(f: Function, lo: float, hi: float) -> float:
    """How far `integral` may be off because of poles at the ends of (lo, hi), or heavy tails."""
    ends = [(lo, 1.0), (hi, -1.0)]
    poles = [_power_law(f, end, side, hi - lo) for end, side in ends if math.isfinite(end)]
    tails = [_beyond(f, math.copysign(1.0, end)) for end, _ in ends if math.isinf(end)]
    return _DOUBT * sum([*tails, *(pole[1] for pole in poles if pole)])


def _from_centre(f: Function, centre: float, side: float, span: float) -> float:
    """Integrate f(centre + side y) over 0 < y < span, in t = log y."""
    inner = _power_law(f, centre, side, span)

    def g(t: Floats) -> Floats:
        y = np.exp(t)
        x = centre + side * y
        # too close to tell apart: an end point, where the formula need not hold
        apart = x != centre
        result = np.zeros_like(t)
        result[apart] = f(x[apart]) * y[apart]
        return result

    top, rest = (_LARGEST, _beyond(f, side)) if math.isinf(span) else (math.log(span), 0.0)
    if inner:
        return inner[1] + _adaptive(g, np.linspace(math.log(inner[0]), top, 200)) + rest
    return _adaptive(g, np.linspace(min(_SMALLEST, top - 1.0), top, 200)) + rest


def _beyond(f: Function, side: float) -> float:
    """The integral beyond the largest number looked at, of a tail such as x^(-1.1)."""
    x = math.exp(_LARGEST) * np.array([0.01, 1.0])
    before, at = map(float, f(side * x))
    if not (0.0 < at < math.inf and 0.0 < before < math.inf):
        return 0.0
    power = math.log(before / at) / math.log(100.0)
    return at * float(x[1]) / (power - 1.0) if power > 1.0 else 0.0


def _power_law(f: Function, centre: float, side: float, span: float) -> tuple[float, float] | None:
    """The integral next to a pole such as (x - 1)^(-0.9), and how far from it that reaches.

    A tenth of such a mass can lie closer to the pole than doubles next to it can tell.
    """
    least = _CLOSE * abs(centre) or math.exp(_SMALLEST)
    x = centre + side * least * np.array([1.0, 100.0])
    near, far = np.abs(x - centre)  # exact, as x is not
    if not 0.0 < near < far < span:
        return None
    at, further = f(x)
    if not (0.0 < at < math.inf and further > 0.0):
        return None
    power = math.log(at / further) / math.log(far / near)
    return (near, at * near / (1.0 - power)) if _STEEP < power < 1.0 else None


def _adaptive(g: Function, edges: Floats) -> float:
    """Gauss-Legendre panels, halved until whole and halves agree."""
    a, b = edges[:-1], edges[1:]
    whole = _panels(g, a, b)
    total = 0.0
    for _ in range(30):
        m = 0.5 * (a + b)
        left, right = _panels(g, a, m), _panels(g, m, b)
        both = left + right
        scale = max(abs(total) + float(np.sum(np.abs(both))), 1e-300)
        # nan must not be refined for ever: it is final, and reported
        done = ~(np.abs(whole - both) > 1e-13 * scale)
        total += float(np.sum(both[done]))
        if done.all():
            return total
        rest = ~done
        a, b = np.concatenate([a[rest], m[rest]]), np.concatenate([m[rest], b[rest]])
        whole = np.concatenate([left[rest], right[rest]])
    return total + float(np.sum(whole))


def _panels(g: Function, a: Floats, b: Floats) -> Floats:
    half = 0.5 * (b - a)
    t = (0.5 * (a + b))[:, None] + half[:, None] * _NODES
    values: Floats = (g(t.ravel()).reshape(t.shape) @ _WEIGHTS) * half
    return values


@np.errstate(over="ignore", invalid="ignore")  # an infinite integral says so by its value
def sum_over(f: Function, lo: float, hi: float, centres: Iterable[float]) -> float:
    """Sum f over the integers lo..hi: directly near `centres` and the ends, smoothly elsewhere."""
    marks = {round(c) for c in (lo, hi, *centres) if lo <= c <= hi and math.isfinite(c)} or {0}
    total, done = 0.0, -math.inf
    for mark in sorted(marks):
        first = max(lo, mark - _BLOCK, done + 1)
        last = min(hi, mark + _BLOCK)
        if first > max(lo, done + 1):
            total += _smooth_sum(f, max(lo - 1, done), first)
        if last >= first:
            total += float(np.sum(f(np.arange(float(first), last + 1.0))))
            done = last
    return total + (_smooth_sum(f, done, hi + 1) if done < hi else 0.0)


def _smooth_sum(f: Function, a: float, b: float) -> float:
    """Sum over the integers strictly between a and b, by Euler and Maclaurin."""
    total = 0.0
    step = 0.5
    for end, side in ((a, 1.0), (b, -1.0)):
        if math.isfinite(end):
            here = f(np.array([float(end)]))[0]
            if not here > _NEGLIGIBLE:
                return 0.0
            before, after = f(np.array([end - step, end + step]))
            total -= here / 2 + side * (after - before) / (2 * step) / 12
    return float(total + integral(f, a, b, []))
