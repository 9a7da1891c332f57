"""Numbers for derived formulas: an mpmath evaluator, and the parameter vectors used for checks.

Input: a SymPy expression and values of its symbols. Output: an mpmath number at the working
precision of `mpmath.mp`, or a NumPy array in double precision where only a check is wanted. Every
formula that leaves this room has been compared with its definition through this module, so it
shares no code with the kernel room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
from mpmath import mp
from numpy.typing import NDArray
from scipy import special
from sympy import (
    Add,
    And,
    Basic,
    Expr,
    Mul,
    Not,
    Or,
    Piecewise,
    Pow,
    S,
    Sum,
    Symbol,
)
from sympy.core.numbers import Float, Integer, NumberSymbol, Rational
from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne, Relational
from sympy.logic.boolalg import BooleanAtom

from mechc.calculus.words import BracketedRoot

if TYPE_CHECKING:
    from mechc.parameters import Parameter

Values = Mapping[Symbol, Any]

_NAMES: dict[str, Callable[..., Any]] = {
    "Abs": abs,
    "Max": max,
    "Min": min,
    "sign": mpmath.sign,
    "log_mix": lambda q, d: mpmath.log(1 - q + q * mpmath.exp(d)),
    "sinhc": lambda u: mpmath.mpf(1) if u == 0 else mpmath.sinh(u) / u,
    "expm1c": lambda u: mpmath.mpf(1) if u == 0 else mpmath.expm1(u) / u,
    "besseli": mpmath.besseli,
    "besselk": mpmath.besselk,
}

_RELATIONS: dict[type[Basic], Callable[[Any, Any], bool]] = {
    Lt: lambda a, b: bool(a < b),
    Le: lambda a, b: bool(a <= b),
    Gt: lambda a, b: bool(a > b),
    Ge: lambda a, b: bool(a >= b),
    Eq: lambda a, b: bool(a == b),
    Ne: lambda a, b: bool(a != b),
}


def evaluate(expr: Expr, values: Values) -> Any:
    """Value of an expression at the working precision.

    Args:
        expr: expression in the symbols of `values`; the words of this room are understood.
        values: mpmath numbers (or anything `mpmath.mpmathify` takes) for every free symbol.

    Returns:
        An mpf or mpc; infinities are mpmath infinities.

    Raises:
        NotImplementedError: a function that mpmath does not know under SymPy's name.
    """
    return _Evaluator({s: mpmath.mpmathify(v) for s, v in values.items()}).value(expr)


def holds(condition: Basic, values: Values) -> bool:
    """Truth of a Boolean condition in parameters.

    Args:
        condition: relations joined by And, Or, Not; or a Boolean constant.
        values: numbers for every free symbol.
    """
    if isinstance(condition, (BooleanAtom, bool)):
        return bool(condition)
    if isinstance(condition, Relational):
        left, right = (evaluate(side, values) for side in condition.args)
        return _RELATIONS[type(condition)](left, right)
    parts = (holds(arg, values) for arg in condition.args)
    if isinstance(condition, And):
        return all(parts)
    if isinstance(condition, Or):
        return any(parts)
    if isinstance(condition, Not):
        return not next(parts)
    raise NotImplementedError(f"condition {condition} of type {type(condition).__name__}")


def evaluate_array(expr: Expr, values: Mapping[Symbol, Any]) -> NDArray[Any]:
    """Value of an expression in double precision, elementwise.

    Args:
        expr: as in `evaluate`, without sums and roots.
        values: numbers or NumPy arrays (real or complex) for every free symbol.
    """
    with np.errstate(all="ignore"):
        return np.asarray(_ArrayEvaluator(values).value(expr))


class _Evaluator:
    """One evaluation; equal subexpressions are computed once."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.known: dict[Basic, Any] = {}

    def value(self, expr: Basic) -> Any:
        known = self.known.get(expr)
        if known is None:
            known = self.known[expr] = self._compute(expr)
        return known

    def _compute(self, expr: Any) -> Any:
        if isinstance(expr, Symbol):
            return self.values[expr]
        if expr.is_Number or isinstance(expr, NumberSymbol) or expr is S.ImaginaryUnit:
            return self.constant(expr)
        if isinstance(expr, Add):
            return sum((self.value(a) for a in expr.args[1:]), self.value(expr.args[0]))
        if isinstance(expr, Mul):
            return prod((self.value(a) for a in expr.args[1:]), start=self.value(expr.args[0]))
        if isinstance(expr, Pow):
            return self.power(expr)
        if isinstance(expr, Piecewise):
            return self.piecewise(expr)
        if isinstance(expr, Sum):
            return self.sum(expr)
        if isinstance(expr, BracketedRoot):
            return self.root(expr)
        function = self.function(type(expr).__name__)  # refused before its arguments are asked for
        arguments = [self.value(a) for a in expr.args]
        try:
            return function(*arguments)
        except ValueError:
            return mpmath.nan  # a pole, as of gamma at -1

    def constant(self, expr: Any) -> Any:
        return _constant(expr)

    def power(self, expr: Pow) -> Any:
        base, exponent = self.value(expr.base), self.value(expr.exp)
        if base == 0 and mpmath.re(exponent) < 0:
            return mpmath.nan  # a pole; infinite with an unknown sign
        return mpmath.power(base, exponent)

    def function(self, name: str) -> Callable[..., Any]:
        function = _NAMES.get(name) or getattr(mpmath, name, None)
        if function is None:
            raise NotImplementedError(f"{name} has no mpmath value here")
        return function

    def piecewise(self, expr: Piecewise) -> Any:
        for value, condition in expr.args:
            if holds(condition, self.values):
                return self.value(value)
        return mpmath.nan

    def sum(self, expr: Sum) -> Any:
        index, lo, hi = expr.limits[0]
        return mpmath.nsum(
            lambda n: evaluate(expr.function, {**self.values, index: n}),
            [self.value(lo), self.value(hi)],
        )

    def root(self, expr: BracketedRoot) -> Any:
        equation, x, lo, hi = expr.args
        return bisect(
            lambda v: evaluate(equation, {**self.values, x: v}), self.value(lo), self.value(hi)
        )


class _ArrayEvaluator(_Evaluator):
    """The same walk over NumPy arrays; parameters enter as Python floats."""

    def constant(self, expr: Any) -> Any:
        return complex(expr) if expr is S.ImaginaryUnit else float(expr)

    def power(self, expr: Pow) -> Any:
        exponent = expr.exp
        return self.value(expr.base) ** (
            int(exponent) if exponent.is_Integer else self.value(exponent)
        )

    def function(self, name: str) -> Callable[..., Any]:
        return _ARRAY_NAMES.get(name) or getattr(np, name)

    def sum(self, expr: Expr) -> Any:
        if any(np.ndim(self.values[s]) for s in expr.free_symbols):
            raise NotImplementedError(f"{type(expr).__name__} over arrays")
        return float(evaluate(expr, {s: float(self.values[s]) for s in expr.free_symbols}))

    def root(self, expr: BracketedRoot) -> Any:
        return self.sum(expr)


def _sinhc(u: Any) -> Any:
    return np.where(u == 0, 1.0, np.sinh(u) / np.where(u == 0, 1.0, u))


def _expm1c(u: Any) -> Any:
    return np.where(u == 0, 1.0, np.expm1(u) / np.where(u == 0, 1.0, u))


_ARRAY_NAMES: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Max": np.maximum,
    "Min": np.minimum,
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "atan": np.arctan,
    "acos": np.arccos,
    "asin": np.arcsin,
    "erf": special.erf,
    "erfc": special.erfc,
    "gamma": special.gamma,
    "loggamma": special.loggamma,
    "besseli": special.iv,
    "besselk": special.kv,
    "sech": lambda u: 1 / np.cosh(u),
    "log_mix": lambda q, d: np.log1p(q * np.expm1(d)),
    "sinhc": _sinhc,
    "expm1c": _expm1c,
}


def _constant(expr: Any) -> Any:
    if isinstance(expr, Integer):
        return mpmath.mpf(int(expr))
    if isinstance(expr, Rational):
        return mpmath.mpf(int(expr.p)) / int(expr.q)
    if isinstance(expr, Float):
        return mpmath.mpf(expr._mpf_)
    if expr is S.ImaginaryUnit:
        return mpmath.mpc(0, 1)
    if expr in (S.NaN, S.ComplexInfinity):
        return mpmath.nan
    if expr in (S.Infinity, S.NegativeInfinity):
        return mpmath.inf if expr is S.Infinity else -mpmath.inf
    return mpmath.mpmathify(expr.evalf(mp.dps + 5))


def bisect(f: Callable[[Any], Any], lo: Any, hi: Any) -> Any:
    """Where `f` turns from negative to positive in the open interval (lo, hi), by bisection.

    Args:
        f: continuous, one sign change; never called at the ends.
        lo: left end, may be -inf.
        hi: right end, may be +inf.

    Returns:
        The root to the working precision.
    """
    for _ in range(4 * mp.prec + 200):
        middle = _between(lo, hi)
        if middle in (lo, hi):
            break
        if f(middle) > 0:
            hi = middle
        else:
            lo = middle
    return _between(lo, hi)


def _between(lo: Any, hi: Any) -> Any:
    if lo == -mpmath.inf and hi == mpmath.inf:
        return mpmath.mpf(0)
    if lo == -mpmath.inf:
        return 2 * hi - 1 if hi <= 0 else -mpmath.mpf(1)
    if hi == mpmath.inf:
        return 2 * lo + 1 if lo >= 0 else mpmath.mpf(1)
    return (lo + hi) / 2


with mp.workprec(53):  # whatever precision the importing program has set
    _STEPS = tuple(mpmath.sqrt(p) for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))


def typical_values(
    parameters: Sequence[Parameter],
    condition: Basic = S.true,
    fixed: Mapping[Symbol, Expr] | None = None,
) -> Iterator[dict[Symbol, Any]]:
    """Endless irrational parameter vectors from the typical ranges (a Kronecker sequence).

    Where the condition is never met there, the ranges are widened step by step.

    Args:
        parameters: their `typical` ranges are covered, geometrically where both ends are positive.
        condition: vectors that violate it are passed over (at most 400 in a row).
        fixed: parameters that are given by others, such as those an equation eliminates.
    """
    missed = 0
    index = 1
    while missed < 400:
        vector = {
            p.symbol: _typical(p, (index * (j + 1) * _STEPS[j % len(_STEPS)]) % 1, missed // 50)
            for j, p in enumerate(parameters)
        }
        index += 1
        vector |= {s: evaluate(value, vector) for s, value in (fixed or {}).items()}
        if holds(condition, vector):
            missed = 0
            yield vector
        else:
            missed += 1


def _typical(parameter: Parameter, fraction: Any, wider: int) -> Any:
    """A value in the typical range, widened tenfold on both sides `wider` times."""
    lo, hi = (mpmath.mpf(end) for end in parameter.typical)
    reach = mpmath.mpf(10) ** wider
    if wider:
        lo = lo / reach if lo > 0 and parameter.lo <= 0 else max(lo - reach, parameter.lo)
        hi = (
            hi * reach if mpmath.isinf(parameter.hi) else parameter.hi - (parameter.hi - hi) / reach
        )
    value = lo * (hi / lo) ** fraction if lo > 0 else lo + (hi - lo) * fraction
    return mpmath.nint(value) if parameter.integer else value
