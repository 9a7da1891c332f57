"""Factors of expressions, where finding them can end.

SymPy writes exp(20 x/53) and exp(20 x/31) as powers of exp(20 x/1643) and factors a polynomial of
degree 1643; polynomials in a dozen variables may take hours as well. What is left as it is has the
same value.
"""

from __future__ import annotations

from math import lcm

from sympy import Add, Expr, exp, expand, factor

from mechc.fuel import OutOfFuelError, limited

MAX_DEGREE = 40
EASY = 5
"""Symbols with which factoring has always ended soon; counting calls doubles its time."""
MAX_CALLS = 3_000_000
"""Function calls spent on one expression, a second or two."""


def factored(expr: Expr) -> Expr:
    """Return the expression as a product, or as it is where that is too much work."""
    if degree(expr) > MAX_DEGREE:
        return expr
    if len(expr.free_symbols) <= EASY:
        return factor(expr)
    try:
        with limited(MAX_CALLS):
            return factor(expr)
    except OutOfFuelError:
        return expr


def degree(expr: Expr) -> int:
    """Return the largest power of the generators exp(g) of which all exponentials are powers."""
    rates: dict[Expr, list[tuple[int, int]]] = {}
    for node in expr.atoms(exp):
        for term in Add.make_args(expand(node.args[0])):
            rate, rest = term.as_coeff_Mul()
            if rate.is_Rational and rate != 0:
                rates.setdefault(rest, []).append((abs(int(rate.p)), int(rate.q)))
    highest = 0
    for found in rates.values():
        unit = lcm(*(q for _, q in found))
        highest = max(highest, *(p * unit // q for p, q in found))
    return highest
