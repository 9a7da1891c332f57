"""SymPy expressions on balls: constants, functions of one variable, conditions, constant sums.

Beyond an index N the summands of a sum over integers are bounded by those of a decreasing majorant:
the order at infinity of the logarithmic slope (mechc.verify.balls.infinity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flint import arb, ctx
from sympy import Basic, Expr, Rational, Symbol, expand_log, log

from mechc.errors import NumericError
from mechc.verify.balls.functions import Compiler, Function, Values
from mechc.verify.balls.infinity import AtInfinity, Unknown, integral_factor, slope

MAX_TERMS = 400_000  # of a sum, before its tail is bounded


def exact(values: Mapping[Symbol, Any]) -> dict[Symbol, Rational]:
    """Exact rational numbers for exact balls."""
    return {symbol: rational(ball) for symbol, ball in values.items()}


def rational(ball: Any) -> Rational:
    """The middle of a ball as a number."""
    mantissa, exponent = ball.mid().man_exp()
    return Rational(int(mantissa)) * Rational(2) ** int(exponent)


def integer(ball: Any) -> int:
    """The integer that a ball around one holds."""
    if (found := ball.unique_fmpz()) is None:
        raise NumericError(f"{ball.str(10)} is not known to be an integer")
    return int(found)


def _total(summand: Expr, index: Symbol, values: Mapping[Symbol, Any], ends: list[Any]) -> Any:
    """Ball around the sum of `summand` over the integers between `ends`, +-oo allowed."""
    f = Compiler(index, values, _total).compile(summand)
    lo, hi = (integer(end) if end.is_finite() else None for end in ends)
    if lo is not None and hi is not None and hi < lo:
        return arb(0)
    middle = max(lo or 0, 0) if hi is None else min(max(lo or 0, 0), hi)
    result, tiny = f(arb(middle), False), arb(2) ** (-ctx.prec - 10)
    for side, stop in ((1, hi), (-1, lo)):
        part, n, beyond = arb(0), side * middle, None
        while stop is None or n < side * stop:
            n += 1
            here = f(arb(side * n), False)
            part += here
            if n - side * middle > MAX_TERMS:
                raise NumericError(f"more than {MAX_TERMS} summands of {summand}")
            if stop is None and n > 1 and abs(here).upper() < tiny * (abs(part).upper() + tiny):
                beyond = beyond or _majorant(summand.xreplace(exact(values)), index, side)
                if (bound := beyond(n)) is not None:
                    part += arb(0, (abs(here) * bound).upper())
                    break
        result += part
    return result


def _majorant(summand: Expr, index: Symbol, side: int) -> Callable[[int], Any]:
    """A function with sum_{m >= n} |f(m)| <= |f(n)| * bound(n), None where there is no bound."""
    y, derivative = slope(expand_log(log(summand), force=True), index, side)

    def bound(n: int) -> Any:
        try:
            return 1 + integral_factor(AtInfinity(y, arb(n)).order(derivative), arb(n))
        except Unknown:
            return None

    return bound


def constant(expr: Expr, values: Values) -> Any:
    """Ball around the value of an expression without variable; +-oo gives an infinite ball."""
    return Compiler(None, values, _total).ball(expr)


def function(expr: Expr, variable: Symbol, values: Values) -> Function:
    """The expression as a function of a ball and the `analytic` flag, at the current precision."""
    return Compiler(variable, values, _total).compile(expr)


def holds(condition: Basic, values: Values) -> bool | None:
    """Truth of a condition in parameters; None where the balls do not decide it."""
    return Compiler(None, values, _total).truth(condition)(arb(0))
