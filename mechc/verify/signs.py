"""Signs of derivatives on a whole open interval, by rules, with balls for what is constant.

Every subexpression gets the set of signs (-1, 0, 1) that its values may have: sums of what is
positive are positive, so are exponentials and squares, and an affine function is judged by its
ends. Nothing is said where a logarithm, a quotient or a power may be singular inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sympy import Add, Expr, Mul, Pow, Symbol, diff, exp, factor_terms, log

from mechc.verify import arithmetic
from mechc.verify.sums import exact, rational

Signs = frozenset[int]

ANY: Signs = frozenset({-1, 0, 1})
POSITIVE: Signs = frozenset({1})
NEGATIVE: Signs = frozenset({-1})
NONNEGATIVE: Signs = frozenset({0, 1})
ALWAYS_POSITIVE = ("cosh", "sech", "erfc", "erfc_rate", "erfc_bend")
ODD = ("sinh", "tanh", "asinh", "atan", "erf")  # with the sign of their argument
SMOOTH = ("sin", "cos", "log_erfc")


class Open(Exception):
    """No rule applies, or a singularity cannot be ruled out."""


def of_derivative(f: Expr, x: Symbol, values: Any, lo: Any, hi: Any) -> int | None:
    """The sign of f' for lo < x < hi; None where the rules do not tell, or f may be singular."""
    rules = _Rules(x, values, lo, hi)
    try:
        rules.of(f)
        for form in (diff(f, x), factor_terms(diff(f, x))):
            found = rules.of(form)
            if len(found) == 1:
                return next(iter(found))
    except Open:
        pass
    return None


class _Rules:
    """One interval."""

    def __init__(self, x: Symbol, values: Any, lo: Any, hi: Any) -> None:
        self.x, self.values, self.ends = x, values, (lo, hi)
        self.exact = exact(values)
        self.known: dict[Expr, Signs] = {}

    def of(self, expr: Expr) -> Signs:
        if expr not in self.known:
            self.known[expr] = self._of(expr)
        return self.known[expr]

    def _of(self, expr: Expr) -> Signs:
        if not expr.has(self.x):
            return _of_ball(arithmetic.constant(expr, self.values))
        if len(affine := self._affine(expr)) == 1 or expr == self.x:
            return affine
        if isinstance(expr, Add):
            return _combined([self.of(a) for a in expr.args], _sum)
        if isinstance(expr, Mul):
            return _combined([self.of(a) for a in expr.args], lambda a, b: {a * b})
        if isinstance(expr, exp):
            self.of(expr.args[0])
            return POSITIVE
        if isinstance(expr, Pow) and not expr.exp.has(self.x):
            return self._power(self.of(expr.base), expr.exp)
        return self._function(expr)

    def _affine(self, expr: Expr) -> Signs:
        """Signs of c1 x + c0, from its values at the ends, which it does not reach."""
        if not isinstance(expr, (Symbol, Add, Mul)) or (slope := expr.diff(self.x)).has(self.x):
            return ANY
        rising = _of_ball(arithmetic.constant(slope, self.values))
        found = frozenset[int]()
        for end, side in zip(self.ends, (-1, 1), strict=True):
            towards = frozenset(side * s for s in rising)
            if end.is_finite():
                here = expr.xreplace({**self.exact, self.x: rational(end)})
                sign = _of_ball(arithmetic.constant(here, {}))
                found |= frozenset(-s for s in towards) if sign == {0} else sign
            else:
                found |= towards
        return found if len(found) == 1 else ANY

    def _power(self, base: Signs, exponent: Expr) -> Signs:
        if exponent.is_Integer:
            if exponent.is_negative and 0 in base:
                raise Open("a quotient may be singular")
            return frozenset(s ** abs(int(exponent)) for s in base)
        if base == POSITIVE:
            return POSITIVE
        if base <= NONNEGATIVE and arithmetic.constant(exponent, self.values) > 0:
            return NONNEGATIVE
        raise Open("a power may be singular")

    def _function(self, expr: Expr) -> Signs:
        name = type(expr).__name__
        if len(expr.args) != 1:
            raise Open(f"{name} has no rule")
        inner = self.of(expr.args[0])
        if name in ALWAYS_POSITIVE:
            return POSITIVE
        if name in ODD:
            return inner
        if name in SMOOTH:
            return ANY
        if isinstance(expr, log) and inner == POSITIVE:
            return ANY
        raise Open(f"{name} has no rule")


def _of_ball(value: Any) -> Signs:
    if value > 0:
        return POSITIVE
    if value < 0:
        return NEGATIVE
    return frozenset({0}) if value.is_zero() else ANY


def _combined(parts: list[Signs], rule: Callable[[int, int], set[int]]) -> Signs:
    found = parts[0]
    for part in parts[1:]:
        found = frozenset().union(*(rule(a, b) for a in found for b in part))
    return found


def _sum(a: int, b: int) -> set[int]:
    return {-1, 0, 1} if a * b < 0 else {a or b}
