"""Refine the cases of a pair until every sign that matters is decided or given up.

Input: a `Pair`. Output: for each parameter case the facts that hold in it and its regions. A case
is split in three (expr < 0, = 0, > 0) when the direction of the loss on some piece has the sign of
an expression in the parameters; in the middle one a parameter is eliminated, so that a loss that
becomes constant is seen to be a plateau.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import And, Basic, Expr, S, Symbol

from mechc.calculus.facts import Facts, alternatives, eliminations, facts_of
from mechc.calculus.regions import Split, regions_of
from mechc.calculus.types import Region

if TYPE_CHECKING:
    from mechc.pair import Atom, Case, Pair, Piece, Term

_DEPTH = 3  # of refinements of one case; deeper, pieces stay unsplit


@dataclass(frozen=True)
class Refined:
    """One final case: what holds, and the regions (without inverses)."""

    condition: Basic
    facts: Facts
    regions: tuple[Region, ...]
    atoms: tuple[Atom, ...]


def refine(pair: Pair) -> list[Refined]:
    """Split the cases of a pair as far as the direction of the loss needs it."""
    found = []
    for case in pair.cases:
        found += _refine(case, pair, facts_of(pair.parameters, case.condition), _DEPTH)
    return found


def _refine(case: Case, pair: Pair, facts: Facts, depth: int) -> list[Refined]:
    try:
        regions = tuple(
            region
            for piece in case.pieces
            if piece.p or piece.q
            for region in regions_of(piece, pair.variable, facts, depth > 0)
        )
    except Split as question:
        finer = [
            _refine(_under(case, relation), pair, facts.assume(question.expr, sign), depth - 1)
            for relation, sign in alternatives(question.expr)
        ]
        if any(_is_split(refined) for refined in (finer[0], finer[2])):
            return [refined for alternative in finer for refined in alternative]
        return _refine(case, pair, facts, 0)
    return [Refined(case.condition, facts, regions, case.atoms)]


def _is_split(refined: list[Refined]) -> bool:
    """Whether the finer case helped: no region is left unsplit."""
    return all(region.kind != "unsplit" for case in refined for region in case.regions)


def _under(case: Case, relation: Basic) -> Case:
    """The case with one more condition; an equation also eliminates a parameter."""
    condition = And(case.condition, relation)
    pieces = case.pieces
    for symbol, value in eliminations(relation).items():
        pieces = tuple(_substitute(piece, symbol, value) for piece in pieces)
    return type(case)(condition=condition, pieces=pieces, atoms=case.atoms)


def _substitute(piece: Piece, symbol: Symbol, value: Expr) -> Piece:
    def terms(side: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(
            type(t)(t.weight.subs(symbol, value), t.log_density.subs(symbol, value)) for t in side
        )

    return type(piece)(
        lo=S(piece.lo).subs(symbol, value),
        hi=S(piece.hi).subs(symbol, value),
        p=terms(piece.p),
        q=terms(piece.q),
    )
