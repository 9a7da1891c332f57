"""Regions: maximal intervals with one formula on which the loss is monotone, flat or one-sided.

Input: a `Pair`. Output: for each parameter case the facts that hold in it and its regions, without
inverses but with one-sided limits of the loss. A case is split in three (expr > 0, = 0, < 0) when
the direction of the loss on some piece has the sign of an expression in the parameters; in the
middle one a parameter is eliminated, so that a loss that becomes constant is seen to be a plateau.
Where neither of the others settles all pieces the case stays whole and its regions "unsplit".
Where weights of terms are zero at an end of a parameter's domain, as those of mixtures are, the
tails may be others than near it: such ends are cases of their own, without those terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import sympy as sp
from sympy import And, Basic, Expr, Pow, S, Symbol, floor, log, nan, oo, zoo
from sympy.logic.boolalg import Boolean

from mechc.calculus.loss import loss_of
from mechc.calculus.tails import tails_of
from mechc.calculus.terms import Term
from mechc.calculus.types import Kind, Numeric, Region
from mechc.protocol import Measure
from mechc.symbolic.asymptotics import Expansion, Unknown, end_point
from mechc.symbolic.facts import (
    Facts,
    alternatives,
    candidates,
    eliminations,
    exact_end,
    facts_of,
    is_certain,
)
from mechc.symbolic.functions import log_mix
from mechc.symbolic.monotone import Part, monotone_parts
from mechc.symbolic.rewrite import factored, fraction
from mechc.symbolic.signs import proved

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom, Case, Pair, Piece
    from mechc.symbolic.parameters import Parameter


_DIRECTION: dict[int | None, Kind] = {  # by the sign of the slope
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
        return None


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
MOST_WEIGHTS = 5  # that may be zero, every set of which is looked at
MIXED = 4  # terms of both laws from which on no case has ever been split with success


@dataclass(frozen=True)
class Refined:
    """One final case: what holds, and the regions (without inverses)."""

    condition: Basic
    facts: Facts
    regions: tuple[Region, ...]
    atoms: tuple[Atom, ...]
    unsettled: Basic = S.false  # where moments may be infinite that the formulas say are finite

    @property
    def settled(self) -> bool:
        """Whether the direction of the loss is known on all regions."""
        return all(region.kind is not Kind.UNSPLIT for region in self.regions)


def refine(pair: Pair) -> list[Refined]:
    """Split the cases of a pair as far as the direction of the loss needs it."""
    refined = []
    for start in pair.cases:
        facts = facts_of(pair.parameters, start.condition)
        whole = _refine(start, pair.variable, facts, _DEPTH)
        ends, open_ = _ends_of_weights(start, whole, pair)
        for end in ends:
            case = _under(start, end.condition)
            laws = ([_unsampled(piece) for piece in law] for law in (case.pieces, case.p, case.q))
            both, p, q = map(tuple, laws)
            end_case = replace(case, pieces=both, p=p, q=q)
            refined += _refine(end_case, pair.variable, facts, _DEPTH)
        apart = [sp.Not(end.condition) for end in ends]
        refined += [
            replace(one, condition=And(one.condition, *apart), unsettled=open_) for one in whole
        ]
    return refined


@dataclass(frozen=True)
class _WeightsGone:
    """Weights that are zero together at an end of the domain, and no other one with them."""

    condition: Boolean
    fixed: dict[Symbol, Expr]

    def at(self, expr: Expr) -> Expr:
        """An expression there, the log of a zero as -oo."""
        there = expr.replace(
            lambda e: isinstance(e, log) and self.of(e.args[0]) == 0, lambda _: S.NegativeInfinity
        )
        return self.of(there)

    def of(self, expr: Expr) -> Expr:
        """An expression with parameters put in."""
        for symbol, value in self.fixed.items():
            expr = expr.subs(symbol, value)
        return expr


def _ends_of_weights(
    start: Case, whole: list[Refined], pair: Pair
) -> tuple[list[_WeightsGone], Basic]:
    """Where tails differ without weights; and where they may, besides."""
    weights = {t.weight for piece in start.pieces for t in (*piece.p, *piece.q)}
    of = {w: _zeros(w, pair.parameters) for w in weights}
    zeros = sorted(set().union(*of.values()), key=sp.default_sort_key)

    def where(sets: Iterable[tuple[Expr, ...]]) -> list[_WeightsGone]:
        ends = (end for gone in dict.fromkeys(sets) for end in _together(gone, zeros))
        return [end for end in ends if any(_tails_differ(one, end, pair) for one in whole)]

    # of any terms one of either law leads the tails
    found = where(
        tuple(f for f in zeros if f not in of[p.weight] | of[q.weight])
        for piece in start.pieces for p in piece.p for q in piece.q
    )  # fmt: skip
    if not found or len(zeros) > MOST_WEIGHTS:
        return found, sp.Or(*(sp.Eq(f, 0) for f in zeros)) if found else S.false
    sets = (gone for size in range(len(zeros)) for gone in combinations(zeros, size + 1))
    return where(sets), S.false


def _together(gone: tuple[Expr, ...], zeros: list[Expr]) -> list[_WeightsGone]:
    """The end at which these weights are zero, and no others; none where there is none."""
    relations = [alternatives(f)[1][0] for f in gone]
    end = _WeightsGone(And(*relations), eliminations(And(*relations)))
    others = [end.of(f) for f in zeros if f not in gone]
    if not end.fixed or 0 in others or any(end.of(f) != 0 for f in gone):
        return []
    apart = [sp.Ne(f, 0) for f in others if not f.is_number]
    return [replace(end, condition=And(end.condition, *apart))]


def _zeros(weight: Expr, parameters: tuple[Parameter, ...]) -> set[Expr]:
    """Factors of a weight that are zero at an end of a parameter's domain."""
    closed = {
        p.symbol: [exact_end(e) for e, out in ((p.lo, p.lo_open), (p.hi, p.hi_open)) if not out]
        for p in parameters
    }
    bases = (f.as_base_exp()[0] for f in sp.Mul.make_args(factored(fraction(weight)[0])))
    return {
        base for base in bases for s, ends in closed.items()
        if base.free_symbols == {s} and base.is_polynomial(s) and sp.degree(base, s) == 1
        and any(base.subs(s, end) == 0 for end in ends)
    }  # fmt: skip


def _unsampled(piece: Piece) -> Piece:
    """A piece that is no sample any more."""
    return replace(piece, rate=None, r=())


def _tails_differ(whole: Refined, end: _WeightsGone, pair: Pair) -> bool:
    """Whether limits or moments are others without weights than the formulas of a case say."""
    x, facts, lattice, regions = pair.variable, whole.facts, pair.measure is Measure.LATTICE, []
    for region in whole.regions:
        p, q = (tuple(t for t in (Term(end.of(t.weight), end.of(t.log_density)) for t in side)
                      if t.weight != 0) for side in (region.p, region.q))  # fmt: skip
        if p and q and region.loss is not None:
            loss, part = loss_of(p, q, x, facts), Part(region.lo, region.hi, None)
            ends = [_limit(loss, x, part, right, False, facts) for right in (True, False)]
            for said, limit in zip((region.loss_lo, region.loss_hi), ends, strict=True):
                there = nan if said is None or said.has(sp.Piecewise) else end.at(said)
                infinite = limit is None or limit.is_infinite or there.is_infinite
                # what is not known here is looked for in numbers
                if loss.has(x) and infinite and limit != there and not there.has(nan, zoo):
                    return True
            regions.append(replace(region, p=p, q=q, loss=loss, loss_lo=ends[0], loss_hi=ends[1]))
    if not any(region.loss.has(x) for region in regions if region.loss):
        return False
    strips = (tails_of(rows, x, facts, lattice).strip for rows in (whole.regions, tuple(regions)))
    return not all(
        a == b or b == side * oo or (a != side * oo and proved(side * (b - a), facts) in (0, 1))
        for side, a, b in zip((-1, 1), *(map(end.of, strip) for strip in strips), strict=True)
    )


def _refine(case: Case, x: Symbol, facts: Facts, depth: int) -> list[Refined]:
    """The case, or finer ones where that settles it."""
    found: list[tuple[Piece, Expr | None, list[Part]]] = []
    for piece in case.pieces:
        if not piece.p or not piece.q:
            found += [(piece, None, [Part(piece.lo, piece.hi, 0)])] if piece.p or piece.q else []
            continue
        loss = _loss(piece, x, facts)
        parts, question = monotone_parts(loss, x, piece.lo, piece.hi, facts)
        if question is not None and depth and len(piece.p) + len(piece.q) < MIXED:
            finer = _finer(case, x, facts, depth, question)
            if finer:
                return finer
            depth = 0
        found.append((piece, loss, _whole_numbers(parts) if x.is_integer else parts))
    regions = (
        _one_sided(piece) if loss is None else _region(piece, part, loss, x, facts)
        for piece, loss, parts in found for part in parts
    )  # fmt: skip
    return [Refined(case.condition, facts, tuple(regions), case.atoms)]


def _loss(piece: Piece, x: Symbol, facts: Facts) -> Expr:
    """The loss on a piece; on a sample it rises and falls as without sampling."""
    if piece.rate is None:
        return loss_of(piece.p, piece.q, x, facts)
    return log_mix(piece.rate, loss_of(piece.r, piece.q, x, facts) if piece.r else -oo)


def _finer(case: Case, x: Symbol, facts: Facts, depth: int, open_sign: Expr) -> list[Refined]:
    """The three cases of a sign; none where those beside zero both stay unsettled."""
    cases: dict[int, list[Refined]] = {}
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
    sides = ((t.subs(symbol, value) for t in side) for side in (piece.p, piece.q, piece.r))
    p, q, r = (tuple(t for t in side if t.weight != 0) for side in sides)
    lo, hi = (S(end).subs(symbol, value) for end in (piece.lo, piece.hi))
    rate = None if piece.rate is None else piece.rate.subs(symbol, value)
    return type(piece)(lo, hi, p, q, rate, r)
