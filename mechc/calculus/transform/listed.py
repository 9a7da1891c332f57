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
from sympy import Add, Expr, Mul, S
from sympy.core.relational import Relational

from mechc.adjacency import Adjacency
from mechc.calculus.cases import Piece, pieces_of
from mechc.declare.declaration import Declaration, Derived
from mechc.declare.transforms import Listed
from mechc.protocol import Measure
from mechc.symbolic.facts import Facts, facts_of, is_certain
from mechc.symbolic.functions import clamped
from mechc.symbolic.signs import weak_sign

MANY = 8  # comparisons in a density from which on it is listed; fewer are kept piece by piece
MOST_OPEN = 8  # ends whose order is not known: each may double the parameter cases


def listed(declaration: Declaration) -> Declaration:
    """The law of the ratio of a pair that is constant on many pieces; any other pair as it is."""
    atoms, pieces = _outcomes(declaration)
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


# of the pair alone: equal declarations may have unlike claims
@lru_cache(maxsize=16)
def _outcomes(declaration: Declaration) -> tuple[tuple[tuple[Expr, Expr, Expr], ...], int]:
    """One outcome for each ratio, none where the pair is to stay, and how many pieces there are."""
    densities, none = (declaration.p, declaration.q), ((), 0)
    if declaration.measure is not Measure.DENSITY or declaration.atoms or not any(
        len(density.atoms(Relational)) >= MANY for density in densities
    ):  # fmt: skip
        return none
    pieces, facts = pieces_of(declaration), facts_of(declaration.parameters)
    if not pieces or not all(_is_flat(piece, facts) for piece in pieces):
        return none
    ends = sp.Tuple(*(end for piece in pieces for end in (piece.lo, piece.hi)))
    if len(ends.atoms(clamped)) > MOST_OPEN:
        return none
    masses: dict[Expr, list[tuple[Expr, Expr]]] = {}
    for piece in pieces:
        p, q = (Add(*(term.weight for term in side)) for side in (piece.p, piece.q))
        # a sum over one term is divided term by term, as of a sample
        ratio = Add(*(term.weight / q for term in piece.p)) if piece.p and piece.q else S.Zero
        key = ratio if ratio != 0 else sp.oo if piece.p else S.Zero
        masses.setdefault(key, []).append((q if piece.q else p, _length(piece)))
    lengths = Add(*(length for parts in masses.values() for _, length in parts), evaluate=False)
    if len(lengths.atoms(sp.Max, sp.Min)) > MOST_OPEN:
        return none
    atoms: list[tuple[Expr, Expr, Expr]] = []
    for ratio, parts in masses.items():
        mass = _total(parts)
        p, q = (mass, S.Zero) if ratio == sp.oo else (ratio * mass, mass)
        atoms.append((sp.Integer(len(atoms)), p, q))
    return tuple(atoms), len(pieces)


def _is_flat(piece: Piece, facts: Facts) -> bool:
    """Whether both densities are constant, and surely not negative: sums would hide that."""
    if piece.lo.is_infinite or piece.hi.is_infinite:
        return False
    terms = (*piece.p, *piece.q)
    return all(t.log_density == 0 and weak_sign(t.weight, facts) in (0, 1) for t in terms)


def _length(piece: Piece) -> Expr:
    if is_certain(piece.lo, piece.hi):
        return sp.expand(piece.hi - piece.lo)
    lo, hi = (
        end.replace(clamped, lambda cut, lo, hi: sp.Max(lo, sp.Min(cut, hi)))
        for end in (piece.lo, piece.hi)
    )
    return sp.Max(hi - lo, 0)


def _total(parts: Sequence[tuple[Expr, Expr]]) -> Expr:
    """The sum of heights times lengths, what all heights share in front of it."""
    shared = set.intersection(*(set(Mul.make_args(height)) for height, _ in parts))
    front = Mul(*sorted(shared, key=sp.default_sort_key))
    return front * Add(*(height / front * length for height, length in parts))
