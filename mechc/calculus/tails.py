"""Tails: where E_P[exp(zL)] is finite, and how p, q and the loss behave at the ends.

Input: the regions of one case. Output: the open strip (t_minus, t_plus) of real z, and sentences.

At an end where the loss stays bounded nothing is at stake. Where it tends to +oo, write
r = -lim log(p dx)/L along the logarithm of the approach: the integral of p exp(tL) converges there
for t < r and diverges for t > r. Where it tends to -oo the same with signs reversed bounds t from
below; r >= 1 there, because q = p exp(-L) is integrable. Lattice sums behave like integrals here;
what happens at finitely many integers does not matter to them.
When an expansion is out of reach every term of p is set beside one term of q, which gives a strip
that is surely inside the true one, at the worst [-1, 0].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sympy import Dummy, Expr, Max, Min, Piecewise, S, Symbol, factor, log, nan, oo, zoo

from mechc.calculus.loss import log_sum
from mechc.calculus.terms import Term
from mechc.calculus.types import Kind, Region
from mechc.symbolic.asymptotics import ONE, Expansion, Series, Unknown, end_point
from mechc.symbolic.facts import Facts, alternatives, by_case, candidates, eliminations, is_certain
from mechc.symbolic.monotone import is_smooth
from mechc.symbolic.rewrite import tidy
from mechc.symbolic.signs import proved

_DEPTH = 2  # open signs that one end is taken apart by


@dataclass(frozen=True)
class Tails:
    """The strip of one case, or what one end lets it be, and what was seen there."""

    strip: tuple[Expr, Expr] = (-oo, oo)
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=64)  # asked for where weights may be zero, too
def tails_of(regions: tuple[Region, ...], x: Symbol, facts: Facts, lattice: bool) -> Tails:
    """Strip of convergence of E_P[exp(zL); L finite], never wider than proved, and its ends."""
    found = [Tails()]
    for region in regions:
        if region.loss is None:
            continue
        if region.kind is Kind.UNSPLIT and not lattice and not _is_smooth(region, x, facts):
            reason = f"strip cut to [-1, 0]: the loss may be singular in {region.interval}"
            found.append(Tails((S.NegativeOne, S.Zero), notes=(reason,)))
            continue
        lows, highs = candidates(region.lo, region.hi)
        for end, limit, from_right in (
            *((low, region.loss_lo, True) for low in lows),
            *((high, region.loss_hi, False) for high in highs),
        ):
            here = facts
            if not is_certain(region.lo, region.hi):  # where this is the outermost of its ends
                here = facts.above([end], lows).above(highs, [end])
            if not lattice or end.is_infinite:
                found.append(_at_end(region, x, _End(end, limit, from_right), here, _DEPTH))
    lower, upper = zip(*(end.strip for end in found), strict=True)
    strip = (Max(*_undominated(lower, 1, facts)), Min(*_undominated(upper, -1, facts)))
    sentences = dict.fromkeys(s for end in found for s in end.sentences)
    return Tails(strip, tuple(sentences), tuple(n for end in found for n in end.notes))


@dataclass(frozen=True)
class _End:
    """An end of a region, approached from its inside."""

    place: Expr
    limit: Expr | None
    from_right: bool


def _at_end(region: Region, x: Symbol, end: _End, facts: Facts, depth: int) -> Tails:
    """The bounds an end sets: by its expansion, in cases of an open sign, or term by term."""
    try:
        return _by_expansion(region, x, end, facts)
    except Unknown as reason:
        asked = reason.question
        if depth and asked is not None and not asked.has(Dummy, oo, -oo, zoo, nan):
            return _by_sign(asked, region, x, end, facts, depth)
        below, above = _term_by_term(region, x, end, facts)
        return Tails((below, above), notes=(
            f"tails at {x} -> {end.place} compared term by term ({reason}): "
            f"the moments are known to be finite between {below} and {above}",))  # fmt: skip


def _by_sign(
    question: Expr, region: Region, x: Symbol, end: _End, facts: Facts, depth: int
) -> Tails:
    """The bounds for each sign of an expression in the parameters."""
    cases = []
    for condition, assumed in alternatives(question):
        here, there, also = region, end, facts.assume(question, assumed)
        for symbol, value in eliminations(condition).items():
            here = here.subs(symbol, value)
            there = replace(end, place=end.place.subs(symbol, value), limit=None)
        cases.append((condition, _at_end(here, x, there, also, depth - 1)))
    below, above = (by_case([(condition, found.strip[side]) for condition, found in cases])
                    for side in (0, 1))  # fmt: skip
    return Tails(
        (below, above),
        tuple(f"if {condition}: {s}" for condition, found in cases for s in found.sentences),
        tuple(f"if {condition}: {n}" for condition, found in cases for n in found.notes),
    )


def _undominated(bounds: Sequence[Expr], side: int, facts: Facts) -> list[Expr]:
    """Bounds that no other one provably replaces: the largest (side 1) or smallest (-1)."""
    kept: list[Expr] = []
    for bound in dict.fromkeys(bounds):
        if not any(_beats(other, bound, side, facts) for other in kept):
            kept = [k for k in kept if not _beats(bound, k, side, facts)] + [bound]
    return kept


def _beats(one: Expr, other: Expr, side: int, facts: Facts) -> bool:
    if one.is_infinite or other.is_infinite:
        return bool(one == side * oo or other == -side * oo)
    return proved(one - other, facts) in (0, side)


def _is_smooth(region: Region, x: Symbol, facts: Facts) -> bool:
    """Whether the loss is finite inside, seen from its formula or from the terms of p and q."""
    inside = facts.within(x, region.lo, region.hi)
    logs = [term.log_density for term in (*region.p, *region.q)]
    return is_smooth(region.loss, x, inside) or all(is_smooth(a, x, inside) for a in logs)


def _by_expansion(region: Region, x: Symbol, at: _End, facts: Facts) -> Tails:
    """The bound that an end sets by the leading terms of the loss and of the density."""
    end, limit = at.place, at.limit
    # one that is infinite for some parameters only is a Piecewise
    if limit is not None and not limit.is_infinite and not limit.has(Piecewise):
        said = (f"as {x} -> {end} the loss tends to {limit}",) if end.is_infinite else ()
        return Tails(sentences=said)
    y, approach = end_point(x, end, at.from_right)

    def seen(expansion: Expansion) -> Tails:
        loss = expansion.series(region.loss.subs(x, approach))  # type: ignore[union-attr]
        if not expansion.limit_of(loss).is_infinite:
            return Tails()
        stretch = log(y) if end.is_infinite else -log(y)
        mass = expansion.series(log_sum(region.p, x).subs(x, approach) + stretch)
        side, reach = expansion.sign(loss.lead[0]), _reach(mass, loss, expansion)
        below, above = (-oo, reach) if side > 0 else (reach, oo)
        strip = (-oo, oo) if reach is None else (below, above)
        return Tails(strip, (_unbounded(x, end, mass, loss, expansion),))

    return Expansion(y, facts).leading(seen)


def _term_by_term(region: Region, x: Symbol, end: _End, facts: Facts) -> tuple[Expr, Expr]:
    """A strip that is surely inside the true one: every term of p beside its best term of q."""

    def reach(p: Term, q: Term) -> Expr:
        """A t >= 0 up to which p^(1+t) q^(-t) is integrable; zero where nothing is known."""
        loss = tidy(p.log_density - q.log_density, x)
        pair = replace(region, p=(p,), q=(q,), loss=loss)
        try:
            return _by_expansion(pair, x, replace(end, limit=None), facts).strip[1]
        except Unknown:
            return S.Zero

    above = Min(*(Max(*(reach(p, q) for q in region.q)) for p in region.p))
    below = Min(*(Max(*(reach(q, p) for p in region.p)) for q in region.q))
    return -1 - below, above


def _reach(mass: Series, loss: Series, expansion: Expansion) -> Expr | None:
    """-log(p dx)/L, or None where it is infinite."""
    (decay, decay_order), (growth, growth_order) = mass.lead, loss.lead
    if expansion.sign(decay) > 0 or expansion.compare(decay_order, ONE) <= 0:
        raise Unknown("the density does not decay")
    size = expansion.compare(decay_order, growth_order)
    if size > 0:
        return None
    if size < 0:
        return S.Zero if expansion.sign(growth) > 0 else S.NegativeOne
    return factor(-decay / growth)


def _unbounded(x: Symbol, end: Expr, mass: Series, loss: Series, expansion: Expansion) -> str:
    (decay, decay_order), (growth, growth_order) = mass.lead, loss.lead
    y = expansion.y
    shown = {y: (x - end) if not end.is_infinite else x if end is oo else -x}
    scale = {y: 1 / shown[y]} if not end.is_infinite else shown
    return (
        f"as {x} -> {end} the loss grows like {(growth * growth_order.of(y)).subs(scale)} "
        f"and log p like {(decay * decay_order.of(y)).subs(scale)}"
    )
