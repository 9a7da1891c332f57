"""Powers and signs in the form they are computed: multiplication, sqrt, division, subtraction.

Input: a stable expression with n-ary products and `Pow`. Output: no constant integer or half
integer `Pow`, no negative exponent, rational constants whose denominator is not a power of two as
a division (x/3.0 rounds once, x*0.333 twice).

Before that, factors that all terms of a sum share are taken out of it, so that what nearly cancels
is subtracted before anything is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeGuard

from mechc.kernel import ir
from mechc.kernel.ir import Expr

LARGEST_CHAIN = 16  # powers up to this are multiplied out; beyond, `pow` is as good and shorter


def arithmetic(expr: Expr) -> Expr:
    """Give every power and product of `expr` its computed form."""
    return ir.transform(expr, _at_node)


def _at_node(expr: Expr) -> Expr:
    match expr:
        case ir.Pow(base, exponent) if (rational := _rational(exponent)) is not None:
            return _quotient(Fraction(1), [(base, rational)])
        case ir.Pow(ir.Constant("E"), exponent):
            return ir.call("exp", exponent)
        case ir.Pow(base, exponent):
            return ir.call("pow", base, exponent)
        case ir.Mul(args):
            return _product(args)
        case ir.Number(exact) if exact < 0:
            return ir.Neg(_quotient(-exact, []))
        case ir.Constant() if _is_negative(expr):
            return ir.Neg(_positive(expr))
        case ir.Number(exact):
            return _quotient(exact, [])
        case _:
            return expr


def _rational(expr: Expr) -> Fraction | None:
    """The value of a rational constant, in any of the forms this pass gives it."""
    match expr:
        case ir.Number(exact):
            return exact
        case ir.Neg(arg):
            value = _rational(arg)
            return None if value is None else -value
        case ir.Div(ir.Number(top), ir.Number(bottom)):
            return top / bottom
        case _:
            return None


def _product(factors: tuple[Expr, ...]) -> Expr:
    """Gather the rational constant, the signs and the denominators of a product."""
    constant = Fraction(1)
    powers: list[tuple[Expr, Fraction]] = []
    stack = list(reversed(factors))
    while stack:
        match stack.pop():
            case rational if (value := _rational(rational)) is not None:
                constant *= value
            case ir.Neg(arg):
                constant = -constant
                stack.append(arg)
            case ir.Mul(args):
                stack.extend(reversed(args))
            case ir.Div(top, bottom):
                stack.append(top)
                powers.append((bottom, Fraction(-1)))
            case factor:
                powers.append((factor, Fraction(1)))
    if constant < 0:
        return ir.Neg(_quotient(-constant, powers))
    return _quotient(constant, powers)


def _quotient(constant: Fraction, powers: list[tuple[Expr, Fraction]]) -> Expr:
    """Constant * prod(base**exponent) as one division at most."""
    top = [_positive_power(base, e) for base, e in powers if e > 0]
    bottom = [_positive_power(base, -e) for base, e in powers if e < 0]
    if constant.denominator & (constant.denominator - 1) == 0:
        if constant != 1:
            top.insert(0, ir.Number(constant))
    else:
        if constant.numerator != 1:
            top.insert(0, ir.number(constant.numerator))
        bottom.insert(0, ir.number(constant.denominator))
    numerator = _joined(top)
    return ir.Div(numerator, _joined(bottom)) if bottom else numerator


def _joined(factors: list[Expr]) -> Expr:
    flat = [f for factor in factors for f in ir.factors_of(factor)]
    if not flat:
        return ir.ONE
    return flat[0] if len(flat) == 1 else ir.Mul(tuple(flat))


def _positive_power(base: Expr, exponent: Fraction) -> Expr:
    whole, rest = divmod(exponent, 1)
    if rest not in (0, Fraction(1, 2)) or whole > LARGEST_CHAIN:
        return ir.Call("pow", (base, ir.Number(exponent)))
    factors: list[Expr] = []
    if whole == 1:
        factors.append(base)
    elif whole > 1:
        factors.append(ir.IntPow(base, int(whole)))
    if rest:
        factors.append(ir.call("sqrt", base))
    return _joined(factors)


def factored(expr: Expr) -> Expr:
    """Take common factors out of sums inside `expr`."""
    return ir.transform(expr, _factored_at)


def _is_negative(factor: Expr) -> TypeGuard[ir.Constant]:
    return isinstance(factor, ir.Constant) and -math.inf < factor.value < 0.0


def _positive(constant: ir.Constant) -> ir.Constant:
    """A negative constant without its sign."""
    return ir.Constant(constant.label.removeprefix("-"), -constant.value)


def _shared_factors(terms: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """The powers that all terms have as factors, and the terms without them."""
    products = [_powers(term) for term in terms]
    shared = {}
    for base, (exponent, *others) in (
        (base, [product.get(base, Fraction(0)) for product in products]) for base in products[0]
    ):
        sign = 1 if exponent > 0 else -1
        common = min(sign * e for e in (exponent, *others))
        if common > 0:
            shared[base] = sign * common
    rest = []
    for term, product in zip(terms, products, strict=True):
        left = {base: exponent - shared.get(base, 0) for base, exponent in product.items()}
        coefficient = math.prod(f.exact for f in ir.factors_of(term) if isinstance(f, ir.Number))
        signs = sum(map(_is_negative, ir.factors_of(term)))
        powers = (_raised(base, exponent) for base, exponent in left.items() if exponent)
        rest.append(ir.mul(ir.Number(coefficient * (-1) ** signs), *powers))
    return [_raised(base, exponent) for base, exponent in shared.items()], rest


def _powers(term: Expr) -> dict[Expr, Fraction]:
    """The factors of a product by their bases, rational numbers and signs aside."""
    found: dict[Expr, Fraction] = {}
    for factor in ir.factors_of(term):
        base, exponent = factor, Fraction(1)
        if isinstance(factor, ir.Pow) and isinstance(factor.exponent, ir.Number):
            base, exponent = factor.base, factor.exponent.exact
        elif _is_negative(factor):
            base = _positive(factor)
        if not isinstance(base, ir.Number):
            found[base] = found.get(base, Fraction(0)) + exponent
    return found


def _raised(base: Expr, exponent: Fraction) -> Expr:
    return base if exponent == 1 else ir.Pow(base, ir.Number(exponent))


def _factored_at(expr: Expr) -> Expr:
    if not isinstance(expr, ir.Add):
        return expr
    shared, terms = _shared_factors(expr.args)
    return ir.mul(*shared, _factored_at(ir.add(*terms))) if shared else expr
