"""Sums over integers in ball arithmetic, infinite ends bounded rigorously.

Beyond an index N the summands are bounded by those of a decreasing majorant: either the order at
infinity of the logarithmic slope (mechc.verify.balls.infinity), or for modified Bessel functions
the ratio bounds of Amos (1974),

    c / (n+1 + sqrt(c^2 + (n+1)^2))  <=  I_{n+1}(c) / I_n(c)  <=  c / (2 (n+1)),  n >= 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flint import arb, ctx
from sympy import Expr, Rational, Symbol, expand_log, log, oo

from mechc.errors import NumericError
from mechc.verify.balls import functions
from mechc.verify.balls.infinity import AtInfinity, Unknown, slope, sum_factor

MAX_TERMS = 400_000


def exact(values: Mapping[Symbol, Any]) -> dict[Symbol, Rational]:
    """Exact rational numbers for exact balls."""
    return {symbol: rational(ball) for symbol, ball in values.items()}


def rational(ball: Any) -> Rational:
    """The middle of a ball as a number."""
    mantissa, exponent = ball.mid().man_exp()
    return Rational(int(mantissa)) * Rational(2) ** int(exponent)


def total(summand: Expr, index: Symbol, values: Mapping[Symbol, Any], ends: list[Any]) -> Any:
    """Ball around the sum of `summand` over the integers between `ends`.

    Args:
        summand: in `index` and the symbols of `values`.
        index: the summation index.
        values: exact balls for the parameters.
        ends: first and last index, +-oo allowed.

    Raises:
        NumericError: too many summands matter, or no majorant is found for an infinite end.
    """
    f = functions.Compiler(index, values, total).compile(summand)
    lo, hi = (_integer(end) for end in ends)
    middle = max(lo if lo is not None else -oo, min(hi if hi is not None else oo, 0))
    result = f(arb(int(middle)), False)
    result += _half(f, summand, index, values, 1, int(middle), hi)
    return result + _half(f, summand, index, values, -1, -int(middle), None if lo is None else -lo)


def _integer(end: Any) -> int | None:
    if not end.is_finite():
        return None
    return int(end.unique_fmpz())


def _half(
    f: Any, summand: Expr, index: Symbol, values: Mapping[Symbol, Any], side: int, start: int,
    stop: int | None,
) -> Any:  # fmt: skip
    """The sum over side*n for n = start+1, ..., stop."""
    result, n = arb(0), start
    tiny = arb(2) ** (-ctx.prec - 10)
    majorant = None
    while stop is None or n < stop:
        n += 1
        here = f(arb(side * n), False)
        result += here
        if n - start > MAX_TERMS:
            raise NumericError(f"more than {MAX_TERMS} summands of {summand}")
        if stop is None and n > 1 and abs(here).upper() < tiny * (abs(result).upper() + tiny):
            majorant = majorant or _Majorant(summand, index, values, side)
            bound = majorant.bound(n)
            if bound is not None:
                return result + arb(0, (abs(here) * bound).upper())
    return result


class _Majorant:
    """sum_{m >= n} |f(m)| <= |f(n)| * bound(n)."""

    def __init__(
        self, summand: Expr, index: Symbol, values: Mapping[Symbol, Any], side: int
    ) -> None:
        plain = log(summand.xreplace(exact(values)))
        self.y, self.slope = slope(expand_log(plain, force=True), index, side)

    def bound(self, n: int) -> Any:
        try:
            order = AtInfinity(self.y, arb(n)).order(self.slope)
            return sum_factor(order, arb(n))
        except Unknown:
            return None


def bessel_ratio_bound(
    argument: Any, shifts: tuple[Any, Any], exponents: tuple[Any, Any], n: int
) -> Any:
    """Bound on r(m) = prod_i (I_{m+1-s_i}(c) / I_{m-s_i}(c))^{e_i} for all m >= n, or None.

    Args:
        argument: c > 0.
        shifts: s_1, s_2.
        exponents: e_1, e_2 with e_1 + e_2 = 1.
        n: with n > s_i.
    """
    (s, t), (a, b) = shifts, exponents
    if a < 0:
        (s, t), (a, b) = (t, s), (b, a)
    if not a >= 0 or not n - s > 0 or not n - t > 0:
        return None
    upper = (argument / (2 * (n + 1 - s))) ** a
    if b >= 0:
        return upper * (argument / (2 * (n + 1 - t))) ** b
    # the bound decreases in m from where (a + b) m >= a t + b s, with m + 1 for m
    if not n + 1 >= a * t + b * s:
        return None
    u = n + 1 - t
    return upper * ((u + (argument**2 + u**2).sqrt()) / argument) ** (-b)
