"""Regions: maximal intervals with one formula on which the loss is monotone, flat or one-sided.

Input: a `Pair`. Output: for each parameter case the facts that hold in it and its regions, without
inverses but with one-sided limits of the loss. A case is split in three (expr > 0, = 0, < 0) when
the direction of the loss on some piece has the sign of an expression in the parameters; in the
middle one a parameter is eliminated, so that a loss that becomes constant is seen to be a plateau.
Where neither of the others settles all pieces the case stays whole and its regions "unsplit".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sympy import And, Basic, Expr, Pow, S, Symbol, floor, log, nan, oo, zoo

from mechc.calculus.loss import loss_of
from mechc.calculus.types import Kind, Numeric, Region
from mechc.symbolic.asymptotics import Expansion, Unknown, end_point, limit_of_exponentials
from mechc.symbolic.facts import Facts, alternatives, candidates, eliminations, facts_of, is_certain
from mechc.symbolic.functions import BracketedRoot, log_mix
from mechc.symbolic.monotone import Part, monotone_parts
from mechc.symbolic.signs import proved

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom, Case, Pair, Piece


_DIRECTION: dict[int | None, Kind] = {
    1: Kind.INCREASING,
    -1: Kind.DECREASING,
    0: Kind.PLATEAU,
    None: Kind.UNSPLIT,
}
_PENDING = Numeric("not attempted")


def _whole_numbers(parts: list[Part]) -> list[Part]:
    """Interior cuts between integers: the left part keeps the integer below an extremum."""
    cuts = [floor(part.hi) for part in parts[:-1]]
    starts = [parts[0].lo, *(cut + 1 for cut in cuts)]
    ends = [*cuts, parts[-1].hi]
    return [Part(lo, hi, part.direction) for lo, hi, part in zip(starts, ends, parts, strict=True)]


def _one_sided(piece: Piece) -> Region:
    kind = Kind.P_ONLY if piece.p else Kind.Q_ONLY
    reason = Numeric("the loss is infinite here")
    return Region(piece.lo, piece.hi, piece.p, piece.q, None, kind, None, None, reason)


def _region(piece: Piece, part: Part, loss: Expr, x: Symbol, facts: Facts) -> Region:
    kind = _DIRECTION[part.direction]
    if part.direction == 0:  # it may still be written with the variable, as in n*log(s/t) at s = t
        loss = loss.subs(x, _inner_point(part))
    ends = (
        _limit(loss, x, part, True, part.lo != piece.lo, facts),
        _limit(loss, x, part, False, part.hi != piece.hi, facts),
    )
    return Region(part.lo, part.hi, piece.p, piece.q, loss, kind, *ends, _PENDING)


def _limit(
    loss: Expr, x: Symbol, part: Part, from_right: bool, inside: bool, facts: Facts
) -> Expr | None:
    """One-sided limit of the loss at an end of a part; None where no rule finds it."""
    # At a cut inside its piece the loss is continuous, unless both densities vanish there.
    end = part.lo if from_right else part.hi
    if part.direction == 0:
        return loss
    if end.has(BracketedRoot):
        return None
    lows, highs = candidates(part.lo, part.hi)
    several = lows if from_right else highs
    if not is_certain(part.lo, part.hi):
        facts = facts.above(highs, lows)
    if not end.is_infinite:
        value = loss.subs(x, end)
        values = [loss.subs(x, place) for place in several]
        if all(_is_regular(v, facts) for v in values) or (
            inside and not value.has(oo, -oo, zoo, nan)
        ):
            return value
    if len(several) > 1:
        return None
    (end,) = several  # where the part is not empty
    y, approach = end_point(x, end, from_right)
    try:
        return Expansion(y, facts).limit(loss.subs(x, approach))
    except Unknown:
        return limit_of_exponentials(loss, x, end)


def _inner_point(part: Part) -> Expr:
    """Some point of a part, one of the lattice if x is an integer."""
    lo, hi = part.lo, part.hi
    if lo.is_infinite:
        return S.Zero if hi.is_infinite else hi - 1
    return lo + 1 if hi.is_infinite or hi.is_integer else (lo + hi) / 2


def _is_regular(value: Expr, facts: Facts) -> bool:
    """Whether a substituted value is finite: no logarithm or negative power of zero in it."""
    if value.has(oo, -oo, zoo, nan):
        return False
    logs = all(proved(node.args[0], facts) == 1 for node in value.atoms(log))
    return logs and all(n.base != 0 or proved(n.exp, facts) == 1 for n in value.atoms(Pow))


_DEPTH = 3  # of refinements of one case; deeper, pieces stay unsplit
MIXED = 4  # terms of both laws from which on no case has ever been split with success


@dataclass(frozen=True)
class Refined:
    """One final case: what holds, and the regions (without inverses)."""

    condition: Basic
    facts: Facts
    regions: tuple[Region, ...]
    atoms: tuple[Atom, ...]


@dataclass(frozen=True)
class _Found:
    """A case, what holds in it, and of each piece the loss and its monotone parts."""

    case: Case
    facts: Facts
    pieces: tuple[tuple[Piece, Expr | None, list[Part]], ...]

    @property
    def settled(self) -> bool:
        """Whether the direction is known on all parts."""
        return all(part.direction is not None for *_, parts in self.pieces for part in parts)


def refine(pair: Pair) -> list[Refined]:
    """Split the cases of a pair as far as the direction of the loss needs it."""
    x, refined = pair.variable, []
    for start in pair.cases:
        for found in _refine(start, x, facts_of(pair.parameters, start.condition), _DEPTH):
            case, facts = found.case, found.facts
            regions = tuple(
                _one_sided(piece) if loss is None else _region(piece, part, loss, x, facts)
                for piece, loss, parts in found.pieces
                for part in parts
            )
            refined.append(Refined(case.condition, facts, regions, case.atoms))
    return refined


def _refine(case: Case, x: Symbol, facts: Facts, depth: int) -> list[_Found]:
    """The case, or finer ones where that settles it."""
    pieces: list[tuple[Piece, Expr | None, list[Part]]] = []
    for piece in case.pieces:
        if not piece.p or not piece.q:
            pieces += [(piece, None, [Part(piece.lo, piece.hi, 0)])] if piece.p or piece.q else []
            continue
        loss = _loss(piece, x, facts)
        parts, question = monotone_parts(loss, x, piece.lo, piece.hi, facts)
        if question is not None and depth and len(piece.p) + len(piece.q) < MIXED:
            finer = _finer(case, x, facts, depth, question)
            if finer:
                return finer
            depth = 0
        pieces.append((piece, loss, _whole_numbers(parts) if x.is_integer else parts))
    return [_Found(case, facts, tuple(pieces))]


def _loss(piece: Piece, x: Symbol, facts: Facts) -> Expr:
    """The loss on a piece; on a sample it rises and falls as without sampling."""
    if piece.rate is None:
        return loss_of(piece.p, piece.q, x, facts)
    return log_mix(piece.rate, loss_of(piece.r, piece.q, x, facts) if piece.r else -oo)


def _finer(case: Case, x: Symbol, facts: Facts, depth: int, open_sign: Expr) -> list[_Found]:
    """The three cases of a sign; none where those beside zero both stay unsettled."""
    cases: dict[int, list[_Found]] = {}
    relations = {sign: relation for relation, sign in alternatives(open_sign)}
    for sign in (1, -1, 0):
        inside = facts.assume(open_sign, sign)
        cases[sign] = _refine(_under(case, relations[sign]), x, inside, depth - 1)
        if sign == -1 and not any(all(f.settled for f in cases[side]) for side in (1, -1)):
            return []
    return [*cases[1], *cases[0], *cases[-1]]


def _under(case: Case, relation: Basic) -> Case:
    """The case with one more condition; an equation also eliminates a parameter."""
    condition = And(case.condition, relation)
    pieces = [case.pieces, case.p, case.q]
    for symbol, value in eliminations(relation).items():
        pieces = [tuple(_substitute(piece, symbol, value) for piece in law) for law in pieces]
    both, p, q = pieces
    return replace(case, condition=condition, pieces=both, p=p, q=q)


def _substitute(piece: Piece, symbol: Symbol, value: Expr) -> Piece:
    p, q, r = (tuple(t.subs(symbol, value) for t in side) for side in (piece.p, piece.q, piece.r))
    lo, hi = (S(end).subs(symbol, value) for end in (piece.lo, piece.hi))
    rate = None if piece.rate is None else piece.rate.subs(symbol, value)
    return type(piece)(lo, hi, p, q, rate, r)
