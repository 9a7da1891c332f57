"""Proofs by interval bisection: the sign of a derivative on a whole interval."""

from __future__ import annotations

from typing import Any

from flint import arb, ctx
from sympy import Expr, Pow, S, Symbol, diff, expand, fraction, together

from mechc.cases import Piece, log_sum
from mechc.verify import arithmetic
from mechc.verify.infinity import AtInfinity, Unknown, slope
from mechc.verify.sums import exact

MAX_BOXES = 6000
LARGEST_ROOT = 64
BITS = 96


def sign_on(
    derivative: Expr, x: Symbol, values: Any, lo: Any, hi: Any, wanted: int
) -> tuple[bool, str]:
    """Prove that an expression has one sign on an interval with finite ends.

    Args:
        derivative: in `x` and the symbols of `values`.
        x: the variable.
        values: exact balls for the parameters.
        lo: left end, an exact ball.
        hi: right end.
        wanted: 1 or -1.

    Returns:
        Whether it was proved, and if not where not.
    """
    with ctx.workprec(BITS):
        f = arithmetic.function(derivative, x, values)
        todo, boxes = [(lo, hi)], 0
        while todo:
            a, b = todo.pop()
            boxes += 1
            value = f(a.union(b), False) * wanted
            if value > 0:
                continue
            if value < 0:
                return False, f"the sign is opposite on [{a.str(6)}, {b.str(6)}]"
            middle = ((a + b) / 2).mid()
            if boxes > MAX_BOXES or not (a < middle and middle < b):
                return False, f"undecided near {middle.str(8)}"
            todo += [(a, middle), (middle, b)]
    return True, f"{boxes} intervals"


def sign_beyond(
    expr: Expr, x: Symbol, values: Any, start: Any, side: int, wanted: int
) -> tuple[bool, str]:
    """Prove the sign of d(expr)/dx for side * x >= start > 0.

    Args:
        expr: the function, not its derivative.
        x: the variable.
        values: exact balls for the parameters.
        start: positive ball.
        side: 1 or -1.
        wanted: sign of d/dx.
    """
    y, derivative = slope(expr.xreplace(exact(values)), x, side)
    reason = "order at infinity"
    for factors in ((derivative,), _quotient(derivative)):
        leading = arb(wanted * side)
        try:
            for factor in factors:
                leading *= AtInfinity(y, start).order(factor).f
        except Unknown as unknown:
            reason = str(unknown)
            continue
        if leading > 0:
            return True, "order at infinity"
    return False, reason


def change_beyond(expr: Expr, x: Symbol, values: Any, start: Any, side: int) -> Any:
    """Bound on abs(f(side y) - f(side start)) for y >= start > 0; inf where none is found.

    Args:
        expr: the function f.
        x: the variable.
        values: exact balls for the parameters.
        start: positive ball.
        side: 1 or -1.
    """
    y, derivative = slope(expr.xreplace(exact(values)), x, side)
    numerator, denominator = _quotient(derivative)
    try:
        top, bottom = (AtInfinity(y, start).order(part) for part in (numerator, denominator))
    except Unknown:
        return arb.pos_inf()
    k, a, f = top.k - bottom.k, top.a - bottom.a, abs(top.f / bottom.f)
    if k.is_zero and (a + 1).is_negative:  # int_R^oo y^a
        power = arithmetic.constant(a + 1, values)
        return f * (power * start.log()).exp() / -power
    if k.is_negative and a.is_nonpositive:  # int_R^oo e^(ky) y^a <= e^(kR) R^a/|k|
        rate = arithmetic.constant(k, values)
        falling = rate * start + arithmetic.constant(a, values) * start.log()
        return f * falling.exp() / -rate
    return arb.pos_inf()


def _quotient(derivative: Expr) -> tuple[Expr, ...]:
    """Numerator and denominator, multiplied out: what cancels at infinity is gone."""
    if any(power.exp.is_Rational and power.exp.q > LARGEST_ROOT for power in derivative.atoms(Pow)):
        return (derivative, S.One)  # SymPy takes numbers with such exponents apart without end
    numerator, denominator = fraction(together(derivative))
    return tuple(expand(part) for part in (numerator, denominator))


def sign_as_quotient(
    expr: Expr, x: Symbol, values: Any, lo: Any, hi: Any, wanted: int
) -> tuple[bool, str]:
    """`sign_on` for d(expr)/dx written as one fraction, multiplied out."""
    parts = _quotient(diff(expr.xreplace(exact(values)), x))
    turned = 1
    for part in parts:
        sign = next((s for s in (1, -1) if sign_on(part, x, values, lo, hi, s)[0]), None)
        if sign is None:
            return False, "undecided"
        turned *= sign
    return turned == wanted, "as one fraction"


def monotone_parts(piece: Piece) -> list[tuple[int, Expr]]:
    """Functions whose derivatives decide the sign of dL/dx: all of one sign suffices.

    With a single term in q, L = log sum w_i exp(f_i - g) moves with every f_i - g; with a single
    term in p it moves against every g_j - f.

    Returns:
        (sign, function); constants are left out, and L itself stands where both are sums.
    """
    p, q = [t.log_density for t in piece.p], [t.log_density for t in piece.q]
    if len(q) == 1:
        parts = [(1, expand(f - q[0])) for f in p]
    elif len(p) == 1:
        parts = [(-1, expand(g - p[0])) for g in q]
    else:
        log_p, log_q = log_sum(piece.p), log_sum(piece.q)
        parts = [(1, log_p - log_q)] if log_p is not None and log_q is not None else []
    return [(sign, part) for sign, part in parts if not part.is_number and part.free_symbols]
