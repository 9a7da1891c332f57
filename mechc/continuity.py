"""Whether a log density is finite and continuous inside a piece, proved by its structure.

Signs of derivatives say something about a function only where it has no jump and no pole: cos(x)^2
has a concave logarithm between its zeros and many maxima. Input: an expression and the `Facts` of
the open interval. What is not proved counts as false.
"""

from __future__ import annotations

from sympy import (
    Add,
    Expr,
    Mul,
    Pow,
    Symbol,
    asinh,
    atan,
    besseli,
    besselk,
    binomial,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    gamma,
    log,
    loggamma,
    pi,
    sin,
    sinh,
    tanh,
)

from mechc.order import Facts, is_normal_tail

ENTIRE = (Add, Mul, exp, erf, erfc, sinh, cosh, tanh, sin, cos, atan, asinh)
ON_POSITIVE_NUMBERS = (log, gamma, loggamma)


def is_continuous(expr: Expr, x: Symbol, here: Facts) -> bool:
    """Whether `expr` has no jump and no pole in x on the interval, ends excluded.

    Args:
        expr: real expression.
        x: the variable, whose interval is among the facts.
        here: the facts.
    """
    if not expr.has(x) or expr == x:
        return True
    if isinstance(expr, ENTIRE):
        return all(is_continuous(part, x, here) for part in expr.args)
    if isinstance(expr, Pow):
        if not (is_continuous(expr.base, x, here) and is_continuous(expr.exp, x, here)):
            return False
        whole = expr.exp.is_integer and expr.exp.is_nonnegative
        root = not expr.exp.has(x) and expr.exp.is_positive and here.sign(expr.base) == 1
        return bool(whole or root or is_positive(expr.base, here))
    if isinstance(expr, ON_POSITIVE_NUMBERS):
        return is_continuous(expr.args[0], x, here) and is_positive(expr.args[0], here)
    if isinstance(expr, binomial):
        return all(is_continuous(part, x, here) for part in expr.args) and is_positive(
            expr.args[0] + 1, here
        )
    if isinstance(expr, (besseli, besselk)) and not expr.order.has(x):
        return is_continuous(expr.argument, x, here) and is_positive(expr.argument, here)
    return False


def is_positive(expr: Expr, here: Facts) -> bool:
    """Whether `expr` was proved to exceed zero everywhere, not merely never to fall below.

    A positive multiple of 1 + cos(u) does where abs(u) < pi, and cos(u) where abs(u) < pi/2.
    """
    if isinstance(expr, (Mul, Add)):
        if all(is_positive(part, here) for part in expr.args):
            return True
        if isinstance(expr, Add) and (is_normal_tail(expr) or _is_bell(expr, here)):
            return True
    if isinstance(expr, Pow) and is_positive(expr.base, here):
        return True
    if isinstance(expr, binomial):
        top, count = expr.args
        return here.exceeds_zero(count + 1) and here.exceeds_zero(top - count + 1)
    if isinstance(expr, cos):
        return _within(expr.args[0], pi / 2, here)
    return isinstance(expr, (exp, erfc, cosh, besselk)) or here.exceeds_zero(expr)


def _is_bell(expr: Add, here: Facts) -> bool:
    """Whether this is a + b cos(u) with 0 <= b <= a and abs(u) < pi."""
    waves = [part for part in expr.args if part.has(cos)]
    if len(waves) != 1:
        return False
    height, wave = waves[0].as_independent(cos, as_Add=False)
    level = expr - waves[0]
    fits = isinstance(wave, cos) and here.sign(height) == 1 and here.sign(level - height) in (0, 1)
    return fits and _within(wave.args[0], pi, here)


def _within(angle: Expr, limit: Expr, here: Facts) -> bool:
    return here.exceeds_zero(limit - angle) and here.exceeds_zero(limit + angle)
