"""Polynomials in a variable by Horner's rule.

Input and output: one stable expression, before powers are multiplied out. A sum is rewritten when
every term is free of the variable times a power of it and two different positive powers occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from mechc.kernel.ir import (
    ONE,
    ZERO,
    Add,
    Expr,
    Mul,
    Number,
    Pow,
    Var,
    add,
    depends_on,
    mul,
    number,
    transform,
    walk,
)

HIGHEST = 16


def horner(expr: Expr) -> Expr:
    """Nest every polynomial in a variable inside `expr`."""
    return transform(expr, _at_node)


def _at_node(expr: Expr) -> Expr:
    if not isinstance(expr, Add):
        return expr
    for variable in dict.fromkeys(node for node in walk(expr) if isinstance(node, Var)):
        coefficients = _coefficients(expr.args, variable)
        if coefficients is not None:
            return _nested(coefficients, variable)
    return expr


def _coefficients(terms: Sequence[Expr], variable: Var) -> list[Expr] | None:
    """Coefficients by ascending degree, None if the sum is no polynomial in the variable."""
    found: dict[int, list[Expr]] = {}
    for term in terms:
        degree, rest = _split(term, variable)
        if depends_on(rest, frozenset((variable,))) or not 0 <= degree <= HIGHEST:
            return None
        found.setdefault(int(degree), []).append(rest)
    if sum(degree > 0 for degree in found) < 2:
        return None
    return [add(*found[n]) if n in found else ZERO for n in range(max(found) + 1)]


def _split(term: Expr, variable: Var) -> tuple[Fraction, Expr]:
    """The degree of a term in the variable, and its coefficient."""
    degree, rest = Fraction(0), []
    for factor in term.args if isinstance(term, Mul) else (term,):
        match factor:
            case Var() if factor == variable:
                degree += 1
            case Pow(base, Number(exponent)) if base == variable and exponent.denominator == 1:
                degree += exponent
            case _:
                rest.append(factor)
    return degree, mul(ONE, *rest)


def _nested(coefficients: list[Expr], variable: Var) -> Expr:
    """c0 + x*(c1 + x*(...)), a run of vanishing coefficients as one power."""
    *lower, value = coefficients
    gap = 0
    for coefficient in reversed(lower):
        gap += 1
        if coefficient == ZERO and coefficient is not lower[0]:
            continue
        power = variable if gap == 1 else Pow(variable, number(gap))
        # the product is kept whole: multiplied out it would be the sum again
        value = mul(power, value)
        value = value if coefficient == ZERO else add(value, coefficient)
        gap = 0
    return value
