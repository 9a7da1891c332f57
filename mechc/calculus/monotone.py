"""Where the loss rises and where it falls.

Input: the loss on an interval and `Facts`. Output: the interval cut at the real roots of the
derivative, each part with its direction. Rules, in order: a structural one (sums, increasing
functions and mixtures of monotone parts are monotone); the sign of the derivative, written as a
rational function of the variable and one exponential; the mean value theorem for a pair of shifts,
L(x) = b(x - d) - b(x) + c, whose direction is that of -d*b'' and needs only the curvature of the
log density; closed roots of a numerator of degree at most two; one bracketed root where the
derivative itself is monotone. What no rule decides is "unsplit", never an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import (
    Add,
    Expr,
    Mul,
    Pow,
    Symbol,
    erfc,
)

from mechc.calculus.curvature import curvature, shifted_pairs
from mechc.calculus.extrema import at_bracketed_root, at_roots
from mechc.calculus.facts import Facts, Undecided
from mechc.calculus.signs import sign
from mechc.calculus.slope import INCREASING, core, derivative, is_smooth, singular_point
from mechc.calculus.words import log_mix


@dataclass(frozen=True)
class Part:
    """An interval on which the loss is monotone: direction +1, -1, 0, or None if undecided."""

    lo: Expr
    hi: Expr
    direction: int | None


def monotone_parts(
    loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts
) -> tuple[list[Part], Expr | None]:
    """Cut (lo, hi) into parts on which the loss is monotone.

    Args:
        loss: expression in x, smooth inside the interval.
        x: the variable.
        lo: left end, -oo allowed.
        hi: right end, oo allowed.
        facts: parameter domains and what the case assumes.

    Returns:
        The parts in order, and, if they are unsplit only because the sign of an expression in
        the parameters is open, that expression (the caller may split the case on it).
    """
    inside = facts.within(x, lo, hi)
    if not is_smooth(loss, x, inside):
        pole = singular_point(loss, x, lo, hi, inside)
        if pole is None:
            return [Part(lo, hi, None)], None
        left, question = monotone_parts(loss, x, lo, pole, facts)
        right, other = monotone_parts(loss, x, pole, hi, facts)
        return left + right, question or other
    questions: list[Expr] = []
    for rule in (_by_structure, _by_derivative, _by_pairs):
        try:
            direction = rule(loss, x, inside)
        except Undecided as open_sign:
            questions.append(open_sign.expr)
            continue
        if direction is not None:
            return [Part(lo, hi, direction)], None
    for extrema in (at_roots, at_bracketed_root):
        try:
            parts = extrema(loss, x, lo, hi, inside)
        except Undecided as open_sign:
            questions.append(open_sign.expr)
            continue
        if parts:
            return [Part(*part) for part in parts], None
    open_question = next((e for e in questions if not _varies(e, x, inside)), None)
    return [Part(lo, hi, None)], open_question


def _varies(expr: Expr, x: Symbol, facts: Facts) -> bool:
    """Whether an expression holds the variable, as such or encoded."""
    free = expr.free_symbols
    return x in free or any(s.is_Dummy for s in free)


def _by_structure(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    """Sums and compositions of monotone functions."""
    if not loss.has(x):
        return 0
    if loss == x:
        return 1
    if isinstance(loss, Add):
        directions = {_by_structure(a, x, facts) for a in loss.args} - {0}
        return directions.pop() if len(directions) == 1 else None
    if isinstance(loss, Mul):
        constant, rest = loss.as_independent(x, as_Add=False)
        direction = None if rest.is_Mul else _by_structure(rest, x, facts)
        return None if direction is None else sign(constant, facts) * direction
    if isinstance(loss, log_mix):
        return _by_structure(loss.args[1], x, facts)
    if isinstance(loss, (*INCREASING, erfc)):
        direction = _by_structure(loss.args[0], x, facts)
        return direction if direction is None else (-1 if isinstance(loss, erfc) else 1) * direction
    if isinstance(loss, Pow) and not loss.exp.has(x):
        direction = _by_structure(loss.base, x, facts)
        if direction is None:
            return None
        if loss.exp.is_odd and loss.exp.is_positive:
            return direction
        return direction * sign(loss.exp, facts) * _even_or_positive(loss, facts)
    return None


def _even_or_positive(power: Expr, facts: Facts) -> int:
    """+1 on positive bases; on negative ones an even power turns the direction round."""
    base = sign(power.base, facts)
    if base < 0 and not power.exp.is_even:
        raise Undecided(power)
    return base


def _by_derivative(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    orientation, slope, rational = derivative(loss, x, facts)
    if rational is None:
        return orientation * sign(slope, facts)
    return orientation * sign(rational.expr, facts)


def _by_pairs(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    """c*h(x + d) - c*h(x) has derivative c*d*h''(somewhere between): the mean value theorem."""
    orientation, inner = core(loss, x, facts)
    pairs, alone = shifted_pairs(inner, x)
    directions: set[int | None] = {_by_structure(alone, x, facts)} if alone.has(x) else {0}
    for constant, function, shift in pairs:
        forward = sign(shift, facts)
        between = facts.stretched(x, shift, forward)
        if not is_smooth(function, x, between):
            return None
        bend = curvature(function, x, between)
        directions.add(None if bend is None else sign(constant, facts) * forward * bend)
    directions -= {0}
    if None in directions or len(directions) != 1:
        return None
    return orientation * (directions.pop() or 0)
