"""Laws that are constant on many pieces, as the list of the ratios that an output can have.

Staircases and histograms: on each piece both densities are constant, and which piece an output lies
in, or in which of several with one ratio p/q, is all that it tells of P and Q. Each ratio becomes
an outcome, whose mass is that of its pieces; the pair itself is its post-processing (T9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import sympy as sp
from sympy import Add, Expr, Mul, S, oo
from sympy.core.relational import Relational

from mechc.adjacency import Adjacency
from mechc.calculus.cases import Piece, move_of, pieces_of, sample_of
from mechc.calculus.terms import Term
from mechc.declare.declaration import Declaration, Derived
from mechc.declare.transforms import Listed
from mechc.protocol import Measure
from mechc.symbolic.breakpoints import in_order
from mechc.symbolic.facts import Facts, facts_of
from mechc.symbolic.functions import clamped
from mechc.symbolic.signs import weak_sign

MANY = 8  # comparisons in a density from which on it is listed; fewer are kept piece by piece,
FEW = 4  # unless their order depends on the parameters
MOST = 10_000  # pairs of a piece of P and one of Q
MOST_OPEN = 8  # ends of one law whose order is not known, as of mixtures of moved noise
Cell = tuple[Expr, Expr, Expr]  # heights of P and of Q, and the length where they are so


def listed(declaration: Declaration) -> Declaration:
    """The law of the ratio of a pair that is constant on many pieces; any other pair as it is."""
    sample = sample_of(declaration)
    base, rate = (sample.base, sample.rate) if sample else (declaration, S.One)
    atoms, pieces = _outcomes(declaration, base, rate, move_of(base) is not None)
    if not atoms:
        return declaration
    reverse = declaration.reverse
    return replace(
        declaration, measure=Measure.FINITE, p=S.Zero, q=S.Zero, atoms=atoms,
        support=(S.Zero, sp.Integer(len(atoms) - 1)), claim=None,
        reverse=None if reverse is None else listed(reverse),
        construction=Derived(declaration, Listed(), "T9", Adjacency.ANY, (
            f"P and Q are constant on each of {pieces} pieces, whose ratios are all that an output "
            "tells",)),
    )  # fmt: skip


# of the pair alone: equal declarations may have unlike claims, and unlike constructions
@lru_cache(maxsize=16)
def _outcomes(
    declaration: Declaration, base: Declaration, rate: Expr, moved: bool
) -> tuple[tuple[tuple[Expr, Expr, Expr], ...], int]:
    """One outcome for each ratio, none where the pair is to stay, and how many pieces there are."""
    densities, none = (declaration.p, declaration.q), ((), 0)
    compared = max(len(density.atoms(Relational)) for density in densities)
    if declaration.measure is not Measure.DENSITY or declaration.atoms or compared < FEW:
        return none
    if compared < MANY and not moved:
        return none
    cells = _cells(declaration, base, rate, compared)
    masses: dict[Expr, list[tuple[Expr, Expr]]] = {}
    for p, q, length in cells:
        # a sum over one term is divided term by term, as of a sample
        ratio = oo if q == 0 else Add(*(term / q for term in Add.make_args(p)))
        masses.setdefault(ratio, []).append((p if q == 0 else q, length))
    atoms: list[tuple[Expr, Expr, Expr]] = []
    for ratio, parts in masses.items():
        mass = _total(parts)
        p, q = (mass, S.Zero) if ratio == oo else (ratio * mass, mass)
        atoms.append((sp.Integer(len(atoms)), p, q))
    return tuple(atoms), len(cells)


def _cells(declaration: Declaration, base: Declaration, rate: Expr, compared: int) -> list[Cell]:
    """Where the two laws are constant; none where they are not, or are as well kept by pieces."""
    facts = facts_of(declaration.parameters)
    laws = [
        _steps(pieces_of(replace(base, p=law, q=law, construction=None)), facts)
        for law in (base.p, base.q)
    ]
    if not all(laws) or len(laws[0]) * len(laws[1]) > MOST:
        return []
    ends = {end for law in laws for step in law for end in step[:2]} - {-oo, oo}
    if len(sp.Tuple(*ends).atoms(clamped)) > MOST_OPEN:
        return []
    if len(in_order((-oo, oo, *ends), facts)[0]) == len(ends) + 1:
        return [
            (_height(piece.p), _height(piece.q), sp.expand(piece.hi - piece.lo))
            for piece in pieces_of(declaration)
            if compared >= MANY
        ]
    return [
        ((1 - rate) * q + rate * p, q, length)
        for a, b, p in laws[0]
        for c, d, q in laws[1]
        if not (p == 0 and q == 0) and (length := _overlap(a, b, c, d)) != 0
    ]


def _steps(pieces: Sequence[Piece], facts: Facts) -> list[tuple[Expr, Expr, Expr]]:
    """Ends and heights of a law on the whole line; none where it is not constant, or open."""
    # heights surely not negative: sums would hide that
    flat = all(
        not (piece.lo.is_infinite or piece.hi.is_infinite)
        and all(t.log_density == 0 and weak_sign(t.weight, facts) in (0, 1)
                for t in (*piece.p, *piece.q))
        for piece in pieces
    )  # fmt: skip
    if not flat or not pieces:
        return []
    found, last = [], -oo
    for piece in pieces:
        if piece.lo != last:
            found.append((last, piece.lo, S.Zero))
        found.append((piece.lo, piece.hi, _height(piece.q)))
        last = piece.hi
    return [*found, (last, oo, S.Zero)]


def _height(parts: Sequence[Term]) -> Expr:
    return Add(*(term.weight for term in parts))


def _overlap(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    """The length of what the intervals (a, b) and (c, d) have in common."""
    # by differences alone: of equal steps they are the same again and again
    gaps = sp.expand(b - c), sp.expand(d - a)
    if any(gap.is_extended_nonpositive for gap in gaps):
        return S.Zero
    width, reach = _least(sp.expand(b - a), sp.expand(d - c)), _least(*gaps)
    if (reach - width).is_extended_nonnegative:
        return width
    return clamped(reach, S.Zero, oo if (reach - width).is_extended_nonpositive else width)


def _least(a: Expr, b: Expr) -> Expr:
    """The smaller of two numbers, one of which may be infinite."""
    if oo in (a, b) or (a - b).is_zero:
        return b if a == oo else a
    if (a - b).is_nonnegative:
        return b
    return a if (a - b).is_nonpositive else clamped(a, -oo, b)


def _total(parts: Sequence[tuple[Expr, Expr]]) -> Expr:
    """The sum of heights times lengths, what all heights share in front of it."""
    shared = set.intersection(*(set(Mul.make_args(height)) for height, _ in parts))
    front = Mul(*sorted(shared, key=sp.default_sort_key))
    return front * Add(*(height / front * length for height, length in parts))
