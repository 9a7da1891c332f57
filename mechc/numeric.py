"""Numbers from symbolic expressions, for the checks at normalisation only.

Typical parameter vectors, vectorised evaluation in double precision, and integration and summation
that find their own scale. None of this is used by an accountant: kernels have their own evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from sympy import Add, Basic, Dummy, Expr, Sum, Symbol, lambdify, oo

from mechc.parameters import Parameter

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
Theta = tuple[float, ...]

_GOLDEN = (math.sqrt(5) - 1) / 2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_BLOCK = 1 << 14
# a variable x = e^t is followed from e^-90 to e^150: x^4 still fits a double, and a tail that
# falls like x^(-1.15) is below 1e-10 there
_SMALLEST, _LARGEST = -90.0, 150.0


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

    def at(self, theta: Theta) -> Function:
        """The function of the variable for one parameter vector; nan where it is not real."""
        given = (*theta, *(_sum_value(s, self.symbols, theta) for s in self.sums))

        def values(x: Floats) -> Floats:
            if self._fast is not None:
                try:
                    return _real(self._fast(x, *given), x)
                except (TypeError, ValueError, NameError, AttributeError, OverflowError):
                    self._fast = None
            return np.array([_mp_value(self._slow, float(v), given) for v in x])

        return values


def value(expr: Expr, parameters: tuple[Parameter, ...], theta: Theta) -> float:
    """An expression in parameters as a float; nan when it is not real."""
    if expr in (oo, -oo) or expr.is_number:
        return float(expr)
    given = dict(zip([p.symbol for p in parameters], map(_as_number, theta), strict=True))
    sums = {s: _as_number(_sum_value(s, list(given), theta)) for s in expr.atoms(Sum)}
    result = expr.xreplace(sums).subs(given).evalf()
    return float(result) if result.is_extended_real else math.nan


def holds(condition: Basic, parameters: tuple[Parameter, ...], theta: Theta) -> bool:
    """Whether a condition on the parameters is true."""
    given = dict(zip([p.symbol for p in parameters], map(_as_number, theta), strict=True))
    return bool(condition.subs(given) == True)  # noqa: E712 - SymPy's true


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
    return array.astype(np.float64)


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


def _from_centre(f: Function, centre: float, side: float, span: float) -> float:
    """Integrate f(centre + side y) over 0 < y < span, in t = log y."""

    def g(t: Floats) -> Floats:
        y = np.exp(t)
        with np.errstate(all="ignore"):
            return f(centre + side * y) * y

    top = _LARGEST if math.isinf(span) else math.log(span)
    return _adaptive(g, np.linspace(min(_SMALLEST, top - 1.0), top, 200))


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


def sum_over(f: Function, lo: float, hi: float, centres: Iterable[float]) -> float:
    """Sum f over the integers lo..hi: directly near `centres`, then by Euler and Maclaurin."""
    inside = [round(c) for c in centres if lo <= c <= hi] or [
        int(lo) if math.isfinite(lo) else int(hi) if math.isfinite(hi) else 0
    ]
    first = max(lo, min(inside) - _BLOCK)
    last = min(hi, max(inside) + _BLOCK)
    with np.errstate(all="ignore"):
        total = float(np.sum(f(np.arange(first, last + 1.0))))
    if last < hi:
        total += _tail(f, last, hi, 1.0)
    if first > lo:
        total += _tail(f, first, lo, -1.0)
    return total


def _tail(f: Function, start: float, end: float, side: float) -> float:
    """Sum of f over the integers beyond `start` up to `end`, both ends treated as smooth."""
    step = 0.5
    stops = [start] if math.isinf(end) else [start, end]
    with np.errstate(all="ignore"):
        here = [f(np.array([s - step, s, s + step])) for s in stops]
    lo, hi = (start, end) if side > 0 else (end, start)
    total = integral(f, lo, hi, [])
    total -= 0.5 * here[0][1] - (0.5 * here[1][1] if len(here) > 1 else 0.0)
    total -= side * (here[0][2] - here[0][0]) / (2 * step) / 12
    if len(here) > 1:
        total += side * (here[1][2] - here[1][0]) / (2 * step) / 12
    return float(total)
