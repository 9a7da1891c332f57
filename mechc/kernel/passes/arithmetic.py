"""Powers and signs in the form they are computed: multiplication, sqrt, division, subtraction.

Input: a stable expression with n-ary products and `Pow`. Output: no constant integer or half
integer `Pow`, no negative exponent, rational constants whose denominator is not a power of two as
a division (x/3.0 rounds once, x*0.333 twice).

Before that, factors that all terms of a sum share are taken out of it, so that what nearly cancels
is subtracted before anything is rounded; and polynomials in a variable are nested by Horner's rule,
where every term is free of the variable times a power of it, and two positive powers occur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from mechc.kernel import ir
from mechc.kernel.ir import Expr

LARGEST_CHAIN = 16
"""Integer powers up to this one are multiplied out; beyond it `pow` is as accurate and shorter."""


def arithmetic(expr: Expr) -> Expr:
    """Give every power and product of `expr` its computed form."""
    return ir.transform(expr, _at_node)


def _at_node(expr: Expr) -> Expr:
    match expr:
        case ir.Pow(base, exponent) if (rational := _rational(exponent)) is not None:
            return _quotient(Fraction(1), [(base, rational)])
        case ir.Pow(base, exponent):
            return _power(base, exponent)
        case ir.Mul(args):
            return _product(args)
        case ir.Number(exact) if exact < 0:
            return ir.Neg(_quotient(-exact, []))
        case ir.Constant(_, value) if -math.inf < value < 0.0:
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


def _power(base: Expr, exponent: Expr) -> Expr:
    if isinstance(base, ir.Constant) and base.label == "E":
        return ir.call("exp", exponent)
    return ir.Call("pow", (base, exponent))


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
    flat = [
        f for factor in factors for f in (factor.args if isinstance(factor, ir.Mul) else (factor,))
    ]
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


HIGHEST = 16


def horner(expr: Expr) -> Expr:
    """Take common factors out of sums inside `expr`, and nest polynomials in a variable."""
    return ir.transform(expr, _horner_at)


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
        coefficient = math.prod(f.exact for f in _factors(term) if isinstance(f, ir.Number))
        signs = sum(
            isinstance(f, ir.Constant) and -math.inf < f.value < 0.0 for f in _factors(term)
        )
        powers = (_raised(base, exponent) for base, exponent in left.items() if exponent)
        rest.append(ir.mul(ir.Number(coefficient * (-1) ** signs), *powers))
    return [_raised(base, exponent) for base, exponent in shared.items()], rest


def _factors(term: Expr) -> tuple[Expr, ...]:
    return term.args if isinstance(term, ir.Mul) else (term,)


def _powers(term: Expr) -> dict[Expr, Fraction]:
    """The factors of a product by their bases, rational numbers and signs aside."""
    found: dict[Expr, Fraction] = {}
    for factor in _factors(term):
        base, exponent = factor, Fraction(1)
        if isinstance(factor, ir.Pow) and isinstance(factor.exponent, ir.Number):
            base, exponent = factor.base, factor.exponent.exact
        elif isinstance(factor, ir.Constant) and -math.inf < factor.value < 0.0:
            base = _positive(factor)
        if not isinstance(base, ir.Number):
            found[base] = found.get(base, Fraction(0)) + exponent
    return found


def _raised(base: Expr, exponent: Fraction) -> Expr:
    return base if exponent == 1 else ir.Pow(base, ir.Number(exponent))


def _horner_at(expr: Expr) -> Expr:
    if not isinstance(expr, ir.Add):
        return expr
    shared, terms = _shared_factors(expr.args)
    if shared:
        return ir.mul(*shared, _horner_at(ir.add(*terms)))
    for variable in dict.fromkeys(node for node in ir.walk(expr) if isinstance(node, ir.Var)):
        coefficients = _coefficients(expr.args, variable)
        if coefficients is not None:
            return _nested(coefficients, variable)
    return expr


def _coefficients(terms: Sequence[Expr], variable: ir.Var) -> list[Expr] | None:
    """Coefficients by ascending degree, None if the sum is no polynomial in the variable."""
    found: dict[int, list[Expr]] = {}
    for term in terms:
        degree, rest = _split(term, variable)
        if ir.depends_on(rest, frozenset((variable,))) or not 0 <= degree <= HIGHEST:
            return None
        found.setdefault(int(degree), []).append(rest)
    if sum(degree > 0 for degree in found) < 2:
        return None
    return [ir.add(*found[n]) if n in found else ir.ZERO for n in range(max(found) + 1)]


def _split(term: Expr, variable: ir.Var) -> tuple[Fraction, Expr]:
    """The degree of a term in the variable, and its coefficient."""
    degree, rest = Fraction(0), []
    for factor in term.args if isinstance(term, ir.Mul) else (term,):
        match factor:
            case ir.Var() if factor == variable:
                degree += 1
            case ir.Pow(base, ir.Number(whole)) if base == variable and whole.denominator == 1:
                degree += whole
            case _:
                rest.append(factor)
    return degree, ir.mul(ir.ONE, *rest)


def _nested(coefficients: list[Expr], variable: ir.Var) -> Expr:
    """c0 + x*(c1 + x*(...)), a run of vanishing coefficients as one power."""
    *lower, value = coefficients
    gap = 0
    for coefficient in reversed(lower):
        gap += 1
        if coefficient == ir.ZERO and coefficient is not lower[0]:
            continue
        power = variable if gap == 1 else ir.Pow(variable, ir.number(gap))
        # the product is kept whole: multiplied out it would be the sum again
        value = ir.mul(power, value)
        value = value if coefficient == ir.ZERO else ir.add(value, coefficient)
        gap = 0
    return value
