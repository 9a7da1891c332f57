"""Differences of increasing functions, c*F(a) - c*F(b), as one function that does not cancel.

Input: a density on one piece, a sum of such differences, as of a law rounded to integers or of a
uniform law convolved with another. Output: the same sum by

    erf(a) - erf(b)     exp(log_erf_gap((a + b)/2, (a - b)/2)), erfc and Gauss integrals likewise
    atan(a) - atan(b)   atan2(a - b, 1 + a*b)
    anything rational in one exponential, such as logistic or hyperbolic functions: factored

with the distance a - b worked out symbolically and proved positive.
"""

from __future__ import annotations

from sympy import Add, Expr, Mul, S, Symbol, atan, erf, erfc, exp, expand, factor, together

from mechc.symbolic.facts import Facts
from mechc.symbolic.functions import atan2, log_erf_gap
from mechc.symbolic.rewrite import MAX_DEGREE, degree, factored, rational_in
from mechc.symbolic.signs import exceeds_zero


def without_differences(expr: Expr, x: Symbol, facts: Facts) -> Expr:
    """A density with differences of increasing functions of x replaced, where that is proved."""
    if isinstance(expr, Mul):
        return Mul(*(without_differences(part, x, facts) for part in expr.args))
    if not isinstance(expr, Add) or not expr.has(x):
        return expr
    parts = Add(*(without_differences(a, x, facts) if a.is_Mul else a for a in expr.args))
    if parts != expr and not parts.has(erf, erfc, atan):
        return parts  # a mixture, each of its laws by itself
    paired = _paired(expr, x, facts)
    if paired is not expr or not any(a.could_extract_minus_sign() for a in expr.args):
        return paired
    return _factored(expr, x)


def _paired(expr: Add, x: Symbol, facts: Facts) -> Expr:
    """Pairs of erf or of atan with opposite coefficients, the larger argument first."""
    waiting, rest = [], S.Zero
    for term in expand(expr.replace(erfc, lambda u: 1 - erf(u)), deep=False).args:
        c, f = term.as_independent(x, as_Add=False)
        if isinstance(f, (erf, atan)):
            waiting.append((c, f))
        else:
            rest += term
    found, lonely = S.Zero, S.Zero
    while waiting:
        c, f = waiting.pop(0)
        for index, (d, g) in enumerate(waiting):
            gap = None if g.func is not f.func else _gap(c, f.args[0], d, g.args[0], facts)
            if gap is not None:
                found += gap[0] * _distance(f.func, *gap[1:])
                del waiting[index]
                break
        else:
            lonely += c * f
    return found + rest if found != 0 and lonely == 0 else expr


def _gap(c: Expr, u: Expr, d: Expr, v: Expr, facts: Facts) -> tuple[Expr, Expr, Expr] | None:
    """(k, a, b) with c F(u) + d F(v) = k (F(a) - F(b)), a > b, for an odd function F."""
    if expand(c - d) == 0:
        d, v = -d, -v
    elif expand(c + d) != 0:
        return None
    distance = expand(u - v)
    if exceeds_zero(distance, facts):
        return c, u, v
    return (d, v, u) if exceeds_zero(-distance, facts) else None


def _distance(function: type[Expr], a: Expr, b: Expr) -> Expr:
    if function is atan:
        return atan2(factor(expand(a - b)), 1 + a * b)
    return exp(log_erf_gap(factor(expand((a + b) / 2)), factor(expand((a - b) / 2))))


def _factored(expr: Expr, x: Symbol) -> Expr:
    """A rational function of one exponential as a product."""
    if not expr.has(exp) or degree(expr) > MAX_DEGREE:
        return expr
    form = rational_in(expr, x)
    if form is None or form.exponential is None:
        return expr
    product = factored(together(form.expr))
    if not isinstance(product, Mul):
        return expr
    return product.xreplace({form.symbol: form.value})
