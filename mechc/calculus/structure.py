"""What all losses of a case have in common: a lattice they lie on, a mirror image.

Input: the regions and atoms of a case. `lattice_of` proves that every loss is offset + step *
integer. The finite losses are those of plateaus and atoms, and on an integer output also affine
losses offset + slope*n. They form a lattice when all differences and slopes are rational multiples
of one of them (which may use that a parameter is an integer), or when there are only two.

`is_symmetric` proves that the reversed pair has the same privacy loss, K(z) = K(-1 - z): that a
reflection x -> c - x carries P to Q and Q to P (Gaussian, Laplace, every even noise), and that
atoms pair off with their masses exchanged. Equality of two log densities is proved by a vanishing
derivative (a polynomial identity in x and one exponential) and agreement at a point. False means
not proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import sympy as sp
from sympy import Add, Expr, Mul, Pow, S, Symbol, log

from mechc.calculus.checks import Checker
from mechc.calculus.terms import Term, total
from mechc.calculus.types import Closed, Entry, Kind, Region, Unavailable, joined
from mechc.symbolic.curvature import affine_parts
from mechc.symbolic.facts import Facts, candidates
from mechc.symbolic.rewrite import (
    MAX_DEGREE,
    MOST_CANCELLED,
    affine_in,
    cancelled,
    degree,
    expanded_log,
    monomials,
    polynomial_in,
    quotient,
    rational_in,
    tidy,
)
from mechc.symbolic.signs import proved

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom, Piece

LONGEST = 400  # operations of a difference of masses that is cancelled, which takes a second then


def lattice_of(
    regions: Sequence[Region], atoms: Sequence[Atom], x: Symbol, facts: Facts, integer: bool
) -> Entry:
    """The lattice of the losses of one case."""
    shared = [a for a in atoms if a.p and a.q]
    slopes: list[Expr] = []
    losses: list[Expr] = []
    for some in (shared[:3], shared):  # most lists of numbers have none, as three losses tell
        losses = [atom_loss(a, facts) for a in some]
        if not regions and losses and not isinstance(found := _lattice(losses, [], facts), Closed):
            return found
    for region in regions:
        if region.kind in (Kind.P_ONLY, Kind.Q_ONLY):
            continue
        affine = affine_in(region.loss, x) if integer and region.loss is not None else None
        if region.kind is Kind.PLATEAU and region.loss is not None:
            losses.append(region.loss)
        elif affine is not None:
            slopes.append(affine[0])
            losses.append(affine[1])
        else:
            return Unavailable(f"the loss varies continuously or irregularly on {region.interval}")
    if not losses:
        return Closed(sp.Tuple(S.Zero, S.One), "no finite loss")
    return _lattice([_multiplied_out(loss) for loss in losses], slopes, facts)


def atom_loss(atom: Atom, facts: Facts) -> Expr:
    """Loss of an atom with mass under both."""
    ratio = quotient(total(atom.p), total(atom.q))
    powers = [part.as_base_exp() for part in Mul.make_args(ratio)]
    loss = expanded_log(log(ratio))
    if ratio.free_symbols and all(proved(base, facts) == 1 for base, _ in powers):
        loss = Add(*(power * expanded_log(log(base)) for base, power in powers))
    return _multiplied_out(loss, log=False)


def _multiplied_out(expr: Expr, **hints: bool) -> Expr:
    """A sum multiplied out, not inside of high powers."""
    # SymPy would ask for the signs of their derivatives one by one
    short = all(monomials(part.base ** abs(part.exp)) <= MAX_DEGREE for part in expr.atoms(Pow))
    return sp.expand(expr, deep=short, **hints)


def _lattice(losses: list[Expr], slopes: list[Expr], facts: Facts) -> Entry:
    offset = losses[0]
    gaps = [g for g in (_multiplied_out(loss - offset) for loss in losses) if g != 0]
    if not gaps and not slopes:
        return Closed(sp.Tuple(offset, S.One), "a single finite loss")
    for unit in dict.fromkeys((*slopes, *gaps)):
        try:
            step = _common_step(unit, (*slopes, *gaps))
        except _Incommensurate:
            break
        if step is not None:
            step = step * _orientation(step, facts)
            return Closed(
                sp.Tuple(offset, step), "all gaps between losses are multiples of the step"
            )
    return Unavailable("the differences of the losses are not proved to be commensurate")


class _Incommensurate(Exception):
    """Two numbers without a common measure, so that no third one has one with both."""


def _common_step(unit: Expr, gaps: Sequence[Expr]) -> Expr | None:
    """unit/n such that every gap is an integer multiple of it."""
    denominator = 1
    for gap in gaps:
        ratio = cancelled(gap / unit)
        if ratio.is_integer:
            continue
        if not isinstance(ratio, sp.Rational):
            if ratio.is_number:
                raise _Incommensurate
            return None
        denominator = int(sp.ilcm(denominator, int(ratio.q)))
    return unit / denominator


def _orientation(step: Expr, facts: Facts) -> Expr:
    """The sign that makes a step positive."""
    side = proved(step, facts)
    return sp.Piecewise((S.One, step > 0), (S.NegativeOne, sp.true)) if side is None else S(side)


Ends = frozenset[Expr]  # the largest or the smallest of which is the end (`candidates`)
Segment = tuple[Ends, Ends, tuple[Term, ...], tuple[Term, ...]]


def is_symmetric(regions: Sequence[Region], atoms: Sequence[Atom], checker: Checker) -> bool:
    """Whether P and Q exchange under a reflection."""

    def is_zero(gap: Expr) -> bool:  # numbers are sooner compared than terms cancelled
        short = gap.count_ops() <= LONGEST
        return gap == 0 or (short and checker.vanishes(gap) and cancelled(gap) == 0)

    if not pair_off([(total(a.p), total(a.q)) for a in atoms], is_zero):
        return False
    found = joined(regions)
    return bool(atoms) if not found else next(reflections(found, checker), None) is not None


def reflections(parts: Sequence[Piece | Region], checker: Checker) -> Iterator[Expr]:
    """Every c, suggested by ends and centres, with which x -> c - x exchanges P and Q."""
    segments: list[Segment] = []
    for part in parts:
        lows, highs = candidates(part.lo, part.hi)
        segments.append((frozenset(map(sp.expand, lows)), frozenset(map(sp.expand, highs)),
                         part.p, part.q))  # fmt: skip
    points = [end for part in parts for end in (part.lo, part.hi) if not end.is_infinite]
    for c in dict.fromkeys(_centres(points, segments[0], checker.x)):
        if _reflects(segments, c, checker):
            yield c


def _centres(points: list[Expr], segment: Segment, x: Symbol) -> Iterator[Expr]:
    """Candidates for c: from breakpoints, else from the centres of the two densities."""
    if points:
        yield sp.expand(points[0] + points[-1])
        if x.is_integer:
            yield sp.expand(points[0] + points[-1] - 1)
        return
    _, _, p, q = segment
    for left in _zeros(p[0].log_density, x):
        for term in q:
            for right in _zeros(term.log_density, x):
                yield sp.expand(left + right)


def _zeros(expr: Expr, x: Symbol) -> list[Expr]:
    """Vertex of a quadratic, or zeros of the affine parts."""
    quadratic = polynomial_in(expr, x, 2)
    if quadratic is not None and len(quadratic) == 3:
        return [-quadratic[1] / (2 * quadratic[2])]
    return [-intercept / slope for slope, intercept in affine_parts(expr, x)]


def _reflects(segments: list[Segment], c: Expr, checker: Checker) -> bool:
    """Whether x -> c - x maps the segments to themselves, with p and q exchanged."""
    mirrored = [(_mirror(hi, c), _mirror(lo, c), q, p) for lo, hi, p, q in reversed(segments)]
    places = {(lo, hi): there for lo, hi, *there in mirrored}
    if all(s[:2] in places for s in segments):  # not in order where some of them are empty
        mirrored = [(s[0], s[1], *places[s[:2]]) for s in segments]
    last = len(segments) - 1
    for index, (here, there) in enumerate(zip(segments, mirrored, strict=True)):
        if not (_same(here[2], there[2], c, checker) and _same(here[3], there[3], c, checker)):
            return False
        if here[1] != there[1] and (
            index == last or not _agree(segments, index, there[1], checker.x)
        ):
            return False
    return segments[0][0] == mirrored[0][0]


def _mirror(ends: Ends, c: Expr) -> Ends:
    return frozenset(-end if end.is_infinite else sp.expand(c - end) for end in ends)


def _agree(segments: list[Segment], index: int, other: Ends, x: Symbol) -> bool:
    """On a lattice the last point of a segment may as well belong to the next, if both agree."""
    left, right = segments[index], segments[index + 1]
    if not x.is_integer or len(left[1]) + len(right[0]) + len(other) > 3:
        return False
    (end,), (start,), (there,) = left[1], right[0], other
    overlap = sp.expand(there - end)
    if overlap not in (S.One, S.NegativeOne):
        return False
    point = end if overlap == -1 else start
    return all(
        len(one) == len(two) == 1
        and sp.expand((one[0].log_density - two[0].log_density).subs(x, point)) == 0
        and cancelled(one[0].weight - two[0].weight) == 0
        for one, two in zip(left[2:], right[2:], strict=True)
    )


def _same(one: tuple[Term, ...], other: tuple[Term, ...], c: Expr, checker: Checker) -> bool:
    """Whether one(c - x) = other(x), term by term."""
    x, waiting = checker.x, list(other)
    for term in one:
        moved = term.log_density.subs(x, c - x)
        twin = next((t for t in waiting if _equal(term.weight, moved, t, c, checker)), None)
        if twin is None:
            return False
        waiting.remove(twin)
    return not waiting


def _equal(weight: Expr, moved: Expr, other: Term, c: Expr, checker: Checker) -> bool:
    x = checker.x
    difference = tidy(_expanded_bases(moved - other.log_density), x)
    if difference.has(x):
        rational = rational_in(sp.diff(difference, x), x)
        if rational is None or cancelled(sp.together(rational.expr)) != 0:
            return False
        difference = difference.subs(x, c / 2)
    gap = sp.expand(difference + log(cancelled(weight / other.weight)))
    if gap == 0 or gap.is_finite is False:
        return bool(gap == 0)
    # exp(-1/s^2) is nothing at typical small s: numbers only tell what is worth a proof
    known = checker.vanishes(gap) and degree(gap) <= MOST_CANCELLED
    return known and bool(sp.simplify(gap) == 0)


def _expanded_bases(expr: Expr) -> Expr:
    """Bases of powers as sums, so that (a - x)/s and a/s - x/s compare equal."""
    return expr.replace(
        lambda node: isinstance(node, Pow) and not node.exp.is_Integer,
        lambda node: sp.expand(node.base) ** node.exp,
    )


def pair_off(masses: Sequence[tuple[Expr, Expr]], is_zero: Callable[[Expr], bool]) -> bool:
    """Whether exchanging P and Q leaves the masses of some points as they are."""
    waiting = Counter(masses)
    for p, q in masses:
        twin = (q, p) if waiting[q, p] else next(
            (m for m in waiting if waiting[m] and is_zero(m[0] - q) and is_zero(m[1] - p)), None
        )  # fmt: skip
        if twin is None:
            return False
        waiting[twin] -= 1
    return True
