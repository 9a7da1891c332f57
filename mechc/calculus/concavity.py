"""Whether the log of a noise density is concave, proved; what theorems T3 and T8 ask for.

Concave on every piece by `shape.is_concave`, continuous where pieces meet, and with a slope that
does not grow there. On the integers the three increments around a joint must fall. What is not
proved counts as false: no claim rests on a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sympy import Dummy, Expr, Symbol, diff, expand, expand_log, log, oo, together

from mechc.calculus.cases import Piece, explored
from mechc.calculus.unimodal import is_concave, is_continuous
from mechc.declare.declaration import Declaration
from mechc.errors import UnsupportedError
from mechc.symbolic.order import Facts, Undecided
from mechc.symbolic.rewrite import factored


def is_log_concave(noise: Declaration) -> bool:
    """Whether log p was proved concave on the support, which was proved to be an interval.

    Args:
        noise: a declaration whose `p` and `q` are both the noise.
    """
    try:
        cases = explored(noise)
        return all(_concave(case.pieces, noise.variable, facts) for facts, case in cases)
    except (UnsupportedError, Undecided):
        return False


def is_gaussian(noise: Declaration) -> bool:
    """Whether the density is that of a normal law: one piece, a quadratic exponent."""
    try:
        cases = explored(noise)
    except UnsupportedError:
        return False
    pieces = [piece for _, case in cases for piece in case.pieces]
    return bool(pieces) and all(_is_normal(piece, noise.variable) for piece in pieces)


def _is_normal(piece: Piece, x: Symbol) -> bool:
    poly = piece.p[0].log_density.as_poly(x) if len(piece.p) == 1 else None
    return (piece.lo, piece.hi) == (-oo, oo) and poly is not None and poly.degree() == 2


def _concave(pieces: Sequence[Piece], variable: Symbol, facts: Facts) -> bool:
    if not pieces or any(len(piece.p) != 1 for piece in pieces):
        return False
    x = Dummy("x", real=True)
    logs = [log(p.p[0].weight) + p.p[0].log_density.subs(variable, x) for p in pieces]
    for piece, ell in zip(pieces, logs, strict=True):
        here = facts.on(x, piece.lo, piece.hi)
        if not is_continuous(ell, x, here):
            return False
        if not is_concave(ell, factored(together(diff(ell, x))), x, here):
            return False
    joint = _falls_on_integers if variable.is_integer else _falls
    joints = zip(pairwise(pieces), pairwise(logs), strict=True)
    return all(joint(left, right, u, v, x, facts) for (left, right), (u, v) in joints)


def _falls(left: Piece, right: Piece, u: Expr, v: Expr, x: Symbol, facts: Facts) -> bool:
    """No gap, no jump, no upward kink."""
    if left.hi != right.lo:
        return False
    jump = _flat((v - u).subs(x, right.lo))
    kink = _flat((diff(v, x) - diff(u, x)).subs(x, right.lo))
    return jump == 0 and facts.sign(kink) in (-1, 0)


def _falls_on_integers(
    left: Piece, right: Piece, u: Expr, v: Expr, x: Symbol, facts: Facts
) -> bool:
    """Increments before, across and after the joint do not grow."""
    if left.hi + 1 != right.lo or left.lo != -oo or right.hi != oo:
        return False
    at = right.lo
    across = v.subs(x, at) - u.subs(x, at - 1)
    before = u.subs(x, at - 1) - u.subs(x, at - 2)
    after = v.subs(x, at + 1) - v.subs(x, at)
    steps = (_flat(across - before), _flat(after - across))
    return all(facts.sign(step) in (-1, 0) for step in steps)


def _flat(expr: Expr) -> Expr:
    return expand(expand_log(expand(expr)))
