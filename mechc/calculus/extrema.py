"""Extrema of a loss: closed roots of its derivative, or one bracketed root.

Input: a loss on an interval. Output: the interval cut into parts with alternating directions, or
nothing. A numerator of degree at most two, in the variable or in one exponential of it, has closed
roots; which of them lie inside is proved from signs at the ends. A convex or concave loss has one
extremum at most, which becomes a `BracketedRoot` where it has no formula.
"""

from __future__ import annotations

from itertools import pairwise

from sympy import Expr, Mul, Poly, S, Symbol, diff, exp, factor, fraction, log, oo, sqrt, together

from mechc.calculus.curvature import curvature
from mechc.calculus.facts import Facts, Undecided
from mechc.calculus.growth import Expansion, end_point
from mechc.calculus.series import Unknown
from mechc.calculus.shape import Rational1
from mechc.calculus.signs import sign
from mechc.calculus.slope import core, derivative
from mechc.calculus.words import BracketedRoot
from mechc.factoring import factored

Cut = tuple[Expr, Expr, int]  # lo, hi, direction


def at_roots(loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> list[Cut]:
    """Cut at the roots of a numerator of degree one or two in x or in the generator."""
    orientation, _, rational = derivative(loss, x, facts)
    if rational is None:
        return []
    numerator, denominator = fraction(together(rational.expr))
    rest, open_factor = orientation * sign(denominator, facts), None
    for part in Mul.make_args(factored(numerator)):
        try:
            rest *= sign(part, facts)
        except Undecided:
            if not part.has(x, rational.generator or x):
                raise
            if open_factor is not None:
                return []
            open_factor = part
    if open_factor is None:
        return []
    generator = rational.generator or x
    if rational.generator is not None and open_factor.has(x):
        return []
    interval = _interval_of(rational, lo, hi, x)
    if interval is None:
        return []
    roots = _real_roots(open_factor, generator, *interval, facts)
    if roots is None:
        return []
    cuts, last = roots
    ends = [lo, *(_back(r, rational) for r in cuts), hi]
    parts, direction = [], rest * last
    for left, right in reversed(list(pairwise(ends))):
        parts.append((left, right, direction))
        direction = -direction
    return parts[::-1]


def _interval_of(rational: Rational1, lo: Expr, hi: Expr, x: Symbol) -> tuple[Expr, Expr] | None:
    """The interval as the generator runs through it (the rate of an exponential is positive)."""
    if rational.generator is None:
        return lo, hi
    if rational.kind != "exp" or rational.rate is None or not rational.rate.is_positive:
        return None
    ends = []
    for end in (lo, hi):
        ends.append(S.Zero if end is -oo else oo if end is oo else exp(rational.rate * end))
    return ends[0], ends[1]


def _back(root: Expr, rational: Rational1) -> Expr:
    if rational.generator is None or rational.rate is None:
        return root
    return log(root) / rational.rate


def _real_roots(
    polynomial: Expr, g: Symbol, lo: Expr, hi: Expr, facts: Facts
) -> tuple[list[Expr], int] | None:
    """Roots of a linear or quadratic in the open interval, and its sign just below `hi`."""
    poly = Poly(polynomial, g)
    if poly.degree() not in (1, 2):
        return None
    first, last = _sign_at(poly, lo, facts), _sign_at(poly, hi, facts)
    if poly.degree() == 1:
        b, a = poly.all_coeffs()[::-1]
        return ([factor(-b / a)], last) if first * last < 0 else None
    c, b, a = poly.all_coeffs()[::-1]
    root = sqrt(_discriminant(a, b, c))
    opens = sign(a, facts)
    smaller, larger = ((-b - opens * root) / (2 * a), (-b + opens * root) / (2 * a))
    if first * last < 0:
        return [larger if last == opens else smaller], last
    if sign(b**2 - 4 * a * c, facts) <= 0 or first != opens:
        return None
    vertex = factor(-b / (2 * a))
    inside = all(
        end.is_infinite or sign((vertex - end) * side, facts) > 0
        for end, side in ((lo, 1), (hi, -1))
    )
    return ([smaller, larger], last) if inside else None


def _discriminant(a: Expr, b: Expr, c: Expr) -> Expr:
    return factor(b**2 - 4 * a * c)


def _sign_at(poly: Poly, end: Expr, facts: Facts) -> int:
    if end is oo:
        return sign(poly.LC(), facts)
    if end is -oo:
        return sign(poly.LC(), facts) * (-1 if poly.degree() % 2 else 1)
    return sign(factor(poly.eval(end)), facts)


def at_bracketed_root(loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> list[Cut]:
    """A convex or concave loss has at most one extremum: its slope at the ends tells."""
    orientation, inner = core(loss, x, facts)
    bend = curvature(inner, x, facts)
    if not bend:
        return []
    slope = diff(inner, x)
    try:
        first = _slope_sign(slope, x, lo, True, facts)
        last = _slope_sign(slope, x, hi, False, facts)
    except Unknown:
        return []
    if first == last:
        return [(lo, hi, orientation * first)]
    root = BracketedRoot(last * slope, x, lo, hi)
    return [
        (lo, root, orientation * first),
        (root, hi, orientation * last),
    ]


def _slope_sign(slope: Expr, x: Symbol, end: Expr, from_right: bool, facts: Facts) -> int:
    """Sign of the slope near an end; a limit of zero says nothing."""
    y, approach = end_point(x, end, from_right)
    expansion = Expansion(y, facts)
    lead, _ = expansion.series(slope.subs(x, approach)).lead
    return sign(lead, facts)
