"""The derivative of a loss, freed of what does not change its sign.

Input: a loss on an interval and `Facts`. Output: its core (constants and increasing functions
stripped), the derivative of the core, and where the loss may be singular.
"""

from __future__ import annotations

from collections.abc import Callable

from sympy import (
    Expr,
    Mul,
    Pow,
    Symbol,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cot,
    coth,
    csc,
    csch,
    diff,
    erf,
    exp,
    factor,
    gamma,
    log,
    loggamma,
    sec,
    sin,
    sinh,
    tan,
    tanh,
)

from mechc.calculus.facts import Facts, Undecided
from mechc.calculus.shape import Rational1, affine_in, rational_in
from mechc.calculus.signs import sign
from mechc.calculus.words import log_mix, spell_out
from mechc.factoring import factored

INCREASING = (log, exp, sinh, tanh, asinh, atan, erf)

# functions that are smooth wherever what stands here does not vanish
_SINGULAR: dict[type, Callable[[Expr], Expr]] = {
    **dict.fromkeys((log, loggamma, gamma, coth, csch), lambda u: u),
    **dict.fromkeys((tan, sec), cos),
    **dict.fromkeys((cot, csc), sin),
    **dict.fromkeys((asin, acos, atanh, acosh), lambda u: 1 - u**2),
}


def is_smooth(loss: Expr, x: Symbol, facts: Facts) -> bool:
    """Whether the loss has no pole and no branch point inside the interval, by proof."""
    try:
        return all(sign(base, facts) != 0 for base in _delicate(loss, x))
    except Undecided:
        return False


def _delicate(loss: Expr, x: Symbol) -> list[Expr]:
    """What must not vanish: bases of powers that are not polynomial, and see `_SINGULAR`."""
    nodes = [node for node in loss.atoms(*_SINGULAR) if node.has(x)]
    arguments = [_SINGULAR[node.func](node.args[0]) for node in nodes]
    bases = [
        node.base
        for node in loss.atoms(Pow)
        if node.base.has(x) and not (node.exp.is_Integer and node.exp > 0)
    ]
    return [spell_out(node) for node in (*arguments, *bases)]


def singular_point(loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> Expr | None:
    """The zero of the one affine base that keeps the loss from being smooth, if it lies inside."""
    for base in _delicate(loss, x):
        try:
            sign(base, facts)
        except Undecided as question:
            factors = [a for a in Mul.make_args(factored(question.expr)) if a.has(x)]
            bases = [a.as_base_exp()[0] for a in factors if _is_open(a, facts)]
            affine = affine_in(bases[0], x) if len(bases) == 1 else None
            if affine is None or not _inside(-affine[1] / affine[0], lo, hi, facts):
                return None
            return factor(-affine[1] / affine[0])
    return None


def _is_open(expr: Expr, facts: Facts) -> bool:
    try:
        sign(expr, facts)
    except Undecided:
        return True
    return False


def _inside(point: Expr, lo: Expr, hi: Expr, facts: Facts) -> bool:
    try:
        above = lo.is_infinite or sign(point - lo, facts) > 0
        return above and (hi.is_infinite or sign(hi - point, facts) > 0)
    except Undecided:
        return False


def core(loss: Expr, x: Symbol, facts: Facts) -> tuple[int, Expr]:
    """Strip constants and increasing functions: loss rises where orientation*core rises."""
    orientation = 1
    while True:
        constant, rest = loss.as_independent(x, as_Add=True)
        factor_, inner = rest.as_independent(x, as_Add=False)
        if constant != 0 or factor_ != 1:
            orientation *= sign(factor_, facts)
            loss = inner
        elif isinstance(loss, log_mix):
            loss = loss.args[1]
        elif isinstance(loss, INCREASING):
            loss = loss.args[0]
        else:
            return orientation, loss


def derivative(loss: Expr, x: Symbol, facts: Facts) -> tuple[int, Expr, Rational1 | None]:
    """Orientation, derivative of the core, and the derivative as a rational function."""
    orientation, inner = core(loss, x, facts)
    slope = diff(inner, x)
    rational = rational_in(slope, x)
    return orientation, slope, rational
