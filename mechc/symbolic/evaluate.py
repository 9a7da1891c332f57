"""Numbers for expressions.

Input: a SymPy expression and values of its symbols. Output: an mpmath number at the working
precision of `mpmath.mp` (`evaluate`), a NumPy array in double precision where only a check is
wanted (`evaluate_array`), or that array with mpmath in the places where doubles fail (`Evaluator`).
Every formula that leaves this room has been compared with its definition through this module, so it
shares no code with the kernel room; kernels have their own evaluation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, reduce
from typing import Any

import mpmath
import numpy as np
import scipy
import sympy as sp
from mpmath import mp
from numpy.typing import NDArray
from sympy import Add, Basic, Dummy, Expr, Mul, Pow, S, Symbol, exp, log
from sympy.core.numbers import Float, ImaginaryUnit, NumberSymbol, Rational
from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne, Relational
from sympy.logic.boolalg import BooleanAtom

from mechc.protocol import Floats
from mechc.symbolic.functions import QuadratureSum, argument_of_erfc
from mechc.symbolic.parameters import Parameter
from mechc.symbolic.quadrature import Function, sum_over
from mechc.symbolic.rewrite import log_of_product

Values = Mapping[Symbol, Any]


@lru_cache(maxsize=8192, typed=True)  # of 360 digits they take 10 ms each, again and again
def _remembered(function: Callable[[Any], Any], u: Any, precision: int) -> Any:
    return function(u)


_NAMES: dict[str, Callable[..., Any]] = {
    "Abs": abs,
    "Max": max,
    "Min": min,
    "clamped": lambda c, a, b: max(a, min(c, b)),
    "sign": mpmath.sign,
    "erf": lambda u: _remembered(mpmath.erf, u, mp.prec),
    "erfc": lambda u: _remembered(mpmath.erfc, u, mp.prec),
    "log_mix": lambda q, d: mpmath.log(1 - q + q * mpmath.exp(d)),
    "sinhc": lambda u: mpmath.mpf(1) if u == 0 else mpmath.sinh(u) / u,
    "expm1c": lambda u: mpmath.mpf(1) if u == 0 else mpmath.expm1(u) / u,
    "besseli": mpmath.besseli,
    "besselk": lambda n, z: mpmath.exp(_log_besselk(n, z)),
    "log_besselk": lambda n, z: _log_besselk(n, z),
    "log_erf_gap": lambda u, h: mpmath.log(_erf_gap(abs(u), h)),
}


def _log_besselk(n: Any, z: Any) -> Any:
    """Log K_n(z) for z > 0 by the trapezoid rule (DLMF 10.32.9), by series next to 0 and far out.

    mpmath knows both series, and in between it takes long or finds nothing.
    """
    if not z > 0:
        return mpmath.inf if z == 0 else mpmath.nan
    return _log_besselk_known(n, z, mp.prec)


@lru_cache(maxsize=8192)  # forms of one formula are compared at the same points
def _log_besselk_known(n: Any, z: Any, precision: int) -> Any:
    if z < 1 or z > precision + n * n:
        try:
            return mpmath.log(mpmath.besselk(n, z))
        except (mpmath.NoConvergence, ValueError):
            pass
    n, size = abs(n), mpmath.hypot(n, z)
    with mp.extraprec(24 + max(0, int(mpmath.log(size, 2)))):
        digits = mp.prec * mpmath.ln2
        top = mpmath.asinh(n / z)
        step = 0.8 * min(mpmath.pi**2 / digits, mpmath.pi * mpmath.sqrt(2 / (size * digits)))
        tiny, start = mpmath.ldexp(1, -mp.prec), int(top / step)
        rest = n * top - mpmath.hypot(n, z)
        total = mpmath.mpf(0)
        for k, side in ((start, 1), (start - 1, -1)):
            # exp(t) and exp(n t) from their neighbours: one exponential a term
            ahead, power = mpmath.exp(k * step), mpmath.exp(-2 * n * k * step)
            factor, powers = mpmath.exp(side * step), mpmath.exp(-2 * n * side * step)
            while k >= 0:
                here = mpmath.exp(n * k * step - z * (ahead + 1 / ahead) / 2 - rest)
                here *= (1 + power) / (4 if k == 0 else 2)
                if not here > tiny * total:
                    break
                total, k = total + here, k + side
                ahead, power = ahead * factor, power * powers
        return rest + mpmath.log(step * total)


def _erf_gap(u: Any, h: Any) -> Any:
    """erf(u + h) - erf(u - h) for u >= 0, the digits that cancel added."""
    with mp.extraprec(max(0, int(-mpmath.log(h, 2))) + 8 if 0 < h < 1 else 0):
        return mpmath.erfc(u - h) - mpmath.erfc(u + h)


_RELATIONS: dict[type[Basic], Callable[[Any, Any], Any]] = {
    Lt: operator.lt, Le: operator.le, Gt: operator.gt, Ge: operator.ge, Eq: operator.eq,
    Ne: operator.ne,
}  # fmt: skip


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
    """Truth of a Boolean condition in parameters."""
    if isinstance(condition, (BooleanAtom, bool)):
        return bool(condition)
    if isinstance(condition, Relational):
        left, right = (evaluate(side, values) for side in condition.args)
        return bool(_RELATIONS[type(condition)](left, right))
    parts = (holds(arg, values) for arg in condition.args)
    if isinstance(condition, sp.And):
        return all(parts)
    if isinstance(condition, sp.Or):
        return any(parts)
    if isinstance(condition, sp.Not):
        return not next(parts)
    raise NotImplementedError(f"condition {condition} of type {type(condition).__name__}")


def evaluate_array(expr: Expr, values: Mapping[Symbol, Any]) -> NDArray[Any]:
    """As `evaluate`, in double precision and elementwise; without sums over arrays."""
    with np.errstate(all="ignore"):
        return np.asarray(_ArrayEvaluator(values).value(expr))


class _Evaluator:
    """One evaluation; equal subexpressions are computed once.

    Args:
        values: of all symbols.
        fixed: values of subexpressions that do not vary, known to several evaluations.
        variable: what they do not hold.
    """

    def __init__(
        self, values: Values, fixed: dict[Basic, Any] | None = None, variable: Symbol | None = None
    ) -> None:
        self.values = values
        self.known: dict[Basic, Any] = {}
        self.fixed = self.known if fixed is None else fixed
        self.variable = variable

    def value(self, expr: Basic) -> Any:
        known = self.known.get(expr)
        if known is None:
            if self.fixed is self.known or _varies(expr, self.variable):
                known = self.known[expr] = self._compute(expr)
            elif (known := self.fixed.get(expr)) is None:
                known = self.fixed[expr] = self._compute(expr)
        return known

    def _compute(self, expr: Any) -> Any:
        kind: Any = type(expr)
        return _rule(kind)(self, expr)

    def symbol(self, expr: Symbol) -> Any:
        return self.values[expr]

    def total(self, expr: Add) -> Any:
        tail = argument_of_erfc(expr)  # 2 - erfc(-u) has no digits far out
        if tail is not None:
            return self.function("erfc")(self.value(tail))
        return reduce(operator.add, map(self.value, expr.args))

    def product(self, expr: Mul) -> Any:
        return reduce(operator.mul, map(self.value, expr.args))

    def applied(self, expr: Any) -> Any:
        """Of another function."""
        function = self.function(type(expr).__name__)  # refused before its arguments are asked for
        arguments = [self.value(a) for a in expr.args]
        try:
            return function(*arguments)
        except ValueError:
            return mpmath.nan  # a pole, as of gamma at -1

    def constant(self, expr: Any) -> Any:
        return _constant(expr, mp.prec)

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

    def piecewise(self, expr: sp.Piecewise) -> Any:
        for value, condition in expr.args:
            if holds(condition, self.values):
                return self.value(value)
        return mpmath.nan

    def sum(self, expr: sp.Sum) -> Any:
        """Without an end, from 0 outwards until the terms vanish; slow ones in doubles."""
        index, lo, hi = expr.limits[0]
        first, last = self.value(lo), self.value(hi)

        def term(n: Any) -> Any:
            inside = first <= n <= last
            return evaluate(expr.function, {**self.values, index: mpmath.mpf(n)}) if inside else 0

        if isinstance(expr, QuadratureSum):  # hundreds of terms, and no better than doubles
            return self._sum_in_doubles(expr)
        if mpmath.isfinite(last - first):
            return mpmath.fsum(term(n) for n in range(int(first), int(last) + 1))
        start = min(max(first, 0), last)
        total = term(start)
        for n in range(1, _LONGEST):
            pair = term(start + n) + term(start - n)
            total += pair
            if not abs(pair) >= abs(total) * mpmath.mpf(10) ** (-mp.dps - 5):
                return total
        return self._sum_in_doubles(expr)

    def _sum_in_doubles(self, expr: sp.Sum) -> Any:
        return mpmath.mpf(sum_value(expr, {s: float(self.values[s]) for s in expr.free_symbols}))


_RULES: tuple[tuple[Any, Callable[[Any, Any], Any]], ...] = (
    (Symbol, lambda at, expr: at.symbol(expr)),
    ((sp.Number, NumberSymbol, ImaginaryUnit), lambda at, expr: at.constant(expr)),
    (Add, lambda at, expr: at.total(expr)),
    (Mul, lambda at, expr: at.product(expr)),
    (Pow, lambda at, expr: at.power(expr)),
    (sp.Piecewise, lambda at, expr: at.piecewise(expr)),
    (sp.Sum, lambda at, expr: at.sum(expr)),
    (Basic, lambda at, expr: at.applied(expr)),
)


@cache
def _rule(kind: type[Basic]) -> Callable[[Any, Any], Any]:
    """How an evaluator finds the value of expressions of a type."""
    return next(rule for kinds, rule in _RULES if issubclass(kind, kinds))


@lru_cache(maxsize=16384)
def _varies(expr: Basic, variable: Symbol) -> bool:
    return bool(expr.has(variable))


@lru_cache(maxsize=4096, typed=True)
def _constant(expr: Any, precision: int) -> Any:
    """A number of SymPy's at the working precision, which is part of the question."""
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


class _ArrayEvaluator(_Evaluator):
    """The same walk over NumPy arrays; parameters enter as Python floats."""

    def value(self, expr: Expr) -> Any:
        if isinstance(expr, log) and isinstance(expr.args[0], sp.besseli):  # overflows far sooner
            order, z = map(self.value, expr.args[0].args)
            far = np.log1p((1 - 4 * order**2) / (8 * z)) - 0.5 * np.log(2 * math.pi * z)
            near = np.log(scipy.special.ive(order, z))
            return np.where(z < _FAR_BESSEL * (1 + order**2), near, far) + np.abs(z)
        if isinstance(expr, log) and isinstance(expr.args[0], sp.besselk):
            return _log_besselk_array(*map(self.value, expr.args[0].args))
        tail = argument_of_erfc(expr.args[0]) if isinstance(expr, log) else None
        if tail is not None:
            u = self.value(tail)
            if not np.iscomplexobj(u):
                return scipy.special.log_ndtr(-math.sqrt(2.0) * u) + math.log(2.0)
        if isinstance(expr, log) and isinstance(expr.args[0], sp.cosh):
            u = self.value(expr.args[0].args[0])
            return np.logaddexp(u, -u) - math.log(2.0)
        if isinstance(expr, log) and expr.args[0].is_Add:  # exponentials overflow, not their logs
            terms = [term.as_coeff_Mul() for term in expr.args[0].args]
            if all(c > 0 and (e is S.One or isinstance(e, exp)) for c, e in terms):
                return _log_sum([np.log(float(c)) + (self.value(e.args[0]) if e.args else 0.0)
                                 for c, e in terms])  # fmt: skip
            if S.One in expr.args[0].args:
                rest = self.value(expr.args[0] - 1)  # next to -1 the sum has the digits
                return np.where(np.abs(rest) < 0.5, np.log1p(rest), super().value(expr))
        if isinstance(expr, Add) and isinstance(1 - expr, exp):
            return -np.expm1(self.value((1 - expr).args[0]))
        return super().value(expr)

    def constant(self, expr: Any) -> Any:
        return complex(expr) if expr is S.ImaginaryUnit else float(expr)

    def power(self, expr: Pow) -> Any:
        exponent = expr.exp
        return self.value(expr.base) ** (
            int(exponent) if exponent.is_Integer else self.value(exponent)
        )

    def function(self, name: str) -> Callable[..., Any]:
        return _ARRAY_NAMES.get(name) or getattr(np, name)

    def piecewise(self, expr: sp.Piecewise) -> Any:
        found: Any = math.nan
        for value, condition in reversed(expr.args):
            held = self.held(condition)
            if np.any(held):
                found = (
                    self.value(value) if np.all(held) else np.where(held, self.value(value), found)
                )
        return found

    def held(self, condition: Basic) -> Any:
        """Where a condition holds."""
        if isinstance(condition, Relational):
            return _RELATIONS[type(condition)](*map(self.value, condition.args))
        if isinstance(condition, (sp.And, sp.Or)):
            join = np.logical_and if isinstance(condition, sp.And) else np.logical_or
            return reduce(join, map(self.held, condition.args))
        return holds(condition, self.values)

    def sum(self, expr: sp.Sum) -> Any:
        if any(np.ndim(self.values[s]) for s in expr.free_symbols):
            raise NotImplementedError(f"{type(expr).__name__} over arrays")
        return sum_value(expr, {s: float(self.values[s]) for s in expr.free_symbols})


def _log_sum(logs: list[Any]) -> Any:
    """Log of a sum of exponentials, real or complex."""
    top = reduce(np.maximum, map(np.real, logs))
    top = np.where(np.isfinite(top), top, 0.0)
    return top + np.log(sum(np.exp(v - top) for v in logs))


def _over_u(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f(u)/u, one at zero."""
    return lambda u: np.where(u == 0, 1.0, f(u) / np.where(u == 0, 1.0, u))


def _log_besselk_array(n: Any, z: Any) -> Any:
    """From far out, where scipy gives up later, and where it overflows, by the first terms."""
    near = (
        scipy.special.gammaln(np.abs(n)) + (np.abs(n) - 1) * math.log(2.0) - np.abs(n) * np.log(z)
    )
    far = 0.5 * np.log(math.pi / (2 * z)) + np.log1p((4 * n * n - 1) / (8 * z))
    value = np.log(scipy.special.kve(n, z))
    value = np.where(np.isposinf(value) & (n != 0), near, value)
    return np.where(z < _FAR_BESSEL * (1 + n * n), value, far) - z


def _log_erf_gap(u: Any, h: Any) -> Any:
    """For u >= 0, by two terms of Taylor's series in h where the distance is short."""
    short = 2 / math.sqrt(math.pi) * h * 2 * (1 + h * h * (2 * u * u - 1) / 3)
    near, far = (scipy.special.log_ndtr(-math.sqrt(2) * v) for v in (u - h, u + h))
    long = near + math.log(2) + np.log(-np.expm1(np.minimum(far - near, -1e-300)))
    return np.where(h * np.maximum(u, 1) < 1e-3, np.log(np.abs(short)) - u * u, long)


_ARRAY_NAMES: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Max": np.maximum,
    "Min": np.minimum,
    "clamped": lambda c, a, b: np.maximum(a, np.minimum(c, b)),
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "atan": np.arctan,
    "acos": np.arccos,
    "asin": np.arcsin,
    "erf": lambda u: scipy.special.erf(u),
    "erfc": lambda u: scipy.special.erfc(u),
    "gamma": lambda u: scipy.special.gamma(u),
    "loggamma": lambda u: scipy.special.loggamma(u),
    "besseli": lambda n, z: scipy.special.iv(n, z),
    "besselk": lambda n, z: scipy.special.kv(n, z),
    "log_besselk": lambda n, z: _log_besselk_array(n, z),
    "log_erf_gap": lambda u, h: _log_erf_gap(np.abs(u), h),
    "atan2": np.arctan2,
    "zeta": lambda s, a=1.0: scipy.special.zeta(s, a),
    "factorial": lambda n: scipy.special.gamma(n + 1),
    "binomial": lambda n, k: scipy.special.binom(n, k),
    "sech": lambda u: 1 / np.cosh(u),
    "log_mix": lambda q, d: np.log1p(q * np.expm1(d)),
    "sinhc": _over_u(np.sinh),
    "expm1c": _over_u(np.expm1),
}


Theta = tuple[float, ...]

_LONGEST = 512  # terms of a sum to either side, before doubles take over
_FAR_BESSEL = 1e6  # from here on Bessel functions are the first two terms of their series
_SPARE = 6.0  # decimal digits that may cancel before mpmath takes over


class Evaluator:
    """One expression as a function of the variable, for many parameter vectors."""

    def __init__(self, expr: Expr, variable: Symbol, parameters: tuple[Parameter, ...]) -> None:
        """Evaluate `expr` in `variable` and `parameters`."""
        self.variable, self.symbols = variable, [p.symbol for p in parameters]
        self.sums = sorted((s for s in expr.atoms(sp.Sum) if not s.has(variable)), key=str)
        self.dummies = [Dummy(f"sum_{i}") for i in range(len(self.sums))]
        self.expr = expr.xreplace(dict(zip(self.sums, self.dummies, strict=True)))
        is_sum = isinstance(self.expr, Add)
        self._size = Add(*map(sp.Abs, self.expr.args)) if is_sum else None

    def at(self, theta: Theta, every: int = 1, least: float = -math.inf) -> Function:
        """The function of the variable for one parameter vector; nan where it is not real.

        Where doubles do not tell, mpmath is asked at one of `every` points; the others are nan,
        or -inf between two that are below `least`.
        """
        given = self._given(theta)
        fixed: dict[int, dict[Basic, Any]] = {}  # by precision, what does not hold the variable

        def values(x: Floats) -> Floats:
            x = np.asarray(x, dtype=np.float64)
            result = _doubles(self.expr, {**given, self.variable: x}, x)
            digits = self._lost(x, given, result)
            # overflow as in 0 * inf is not final: mpmath has no largest number
            untold = np.flatnonzero((digits > _SPARE) | np.isnan(result))
            result[untold] = np.nan

            def ask(points: NDArray[np.intp]) -> None:
                for i in points:
                    with mpmath.workdps(15 + int(digits[i] if digits[i] > _SPARE else 0)):
                        known = fixed.setdefault(mp.prec, {})
                        result[i] = self._exactly(x[i], given, known)

            first = untold[::every]
            ask(first)
            if least > -math.inf:
                low = np.append(result[first] < least, False)
                between = (low[:-1] & low[1:]).repeat(every)[: untold.size]
                result[untold[between & np.isnan(result[untold])]] = -np.inf
                ask(untold[np.isnan(result[untold])])
            return result

        return values

    def _given(self, theta: Theta) -> dict[Symbol, float]:
        """Values of the parameters and of the sums in them."""
        found = dict(zip(self.symbols, theta, strict=True))
        rows = zip(self.dummies, self.sums, strict=True)
        return found | {dummy: sum_value(total, found) for dummy, total in rows}

    def _lost(self, x: Floats, given: dict[Symbol, float], result: Floats) -> Floats:
        """How many decimal digits cancel in the sum, as in loggamma(x) - loggamma(x + 1)."""
        if self._size is None:
            return np.zeros_like(x)
        size = _doubles(self._size, {**given, self.variable: x}, x)
        with np.errstate(all="ignore"):
            lost: Floats = np.log10(size / (1.0 + np.abs(result)))
        return np.where(np.isfinite(size) & np.isfinite(lost), lost, 0.0)

    def _exactly(
        self, x: float, given: dict[Symbol, float], fixed: dict[Basic, Any] | None = None
    ) -> float:
        """The value at one point at the working precision of mpmath; nan when it is not real."""
        try:
            at = {s: mpmath.mpmathify(v) for s, v in {**given, self.variable: float(x)}.items()}
            found = _Evaluator(at, fixed, self.variable).value(self.expr)
            return float(found) if mpmath.im(found) == 0 else math.nan
        except (NotImplementedError, ValueError, ArithmeticError, TypeError):
            return math.nan

    def exactly(self, x: float, theta: Theta) -> float:
        """The value at one point, evaluated by mpmath; nan when it is not real."""
        return self._exactly(x, self._given(theta))


def value(expr: Expr, parameters: tuple[Parameter, ...], theta: Theta) -> float:
    """An expression in parameters as a float; nan when it is not real."""
    if expr.is_number and not expr.has(sp.Sum):
        return float(expr) if expr.is_extended_real else math.nan
    return Evaluator(expr, Dummy("unused"), parameters).exactly(0.0, theta)


def holds_at(condition: Basic, parameters: tuple[Parameter, ...], theta: Theta) -> bool:
    """Whether a condition on the parameters is true."""
    return holds(condition, dict(zip((p.symbol for p in parameters), theta, strict=True)))


def _doubles(expr: Expr, values: Mapping[Symbol, Any], x: Floats) -> Floats:
    """Values as doubles in the shape of x; nan where they are complex, or have no such form."""
    try:
        found = np.broadcast_to(evaluate_array(expr, values), x.shape)
    except (NotImplementedError, AttributeError, TypeError, ValueError, ArithmeticError):
        return np.full_like(x, np.nan)
    return np.where(np.imag(found) == 0, np.real(found), np.nan).astype(np.float64)


def sum_value(expr: sp.Sum, given: Mapping[Symbol, float]) -> float:
    """A convergent sum over integers, free of the variable, in double precision."""
    index, lo, hi = expr.limits[0]
    a, b = (float(evaluate(end, given)) for end in (lo, hi))
    logs = log_of_product(expr.function, index)

    def term(n: Floats) -> Floats:
        values = _doubles(expr.function if logs is None else logs, {**given, index: n}, n)
        return values if logs is None else np.exp(values)

    return sum_over(term, a, b, [0.0])


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
