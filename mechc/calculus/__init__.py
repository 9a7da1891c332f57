"""Pair in, Calculus out: everything that accounting needs from (P, Q), derived once.

    refine the cases, find monotone regions          cases, regions, monotone, curvature, loss
    invert the loss on each region                   inverse
    strip of finite moments, behaviour at the ends   tails, growth
    cumulant generating function and cumulants       cgf, primitives, cumulants
    mass at infinity, distribution functions         distribution
    lattice, symmetry                                lattice, symmetry

Signs are proved in `signs`, formulas are rewritten in `shape`, checked in `verify` and `evaluate`,
and SymPy's own solver runs under a wall clock in `budget`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Expr

from mechc.calculus.cases import refine
from mechc.calculus.derivation import ELL, Derived, Z, derive_case, joined, solve_in_child
from mechc.calculus.facts import by_case
from mechc.calculus.types import (
    Calculus,
    CalculusCase,
    Closed,
    Entry,
    Numeric,
    Region,
    Unavailable,
)

if TYPE_CHECKING:
    from mechc.pair import Pair

__all__ = [
    "Calculus",
    "CalculusCase",
    "Closed",
    "Entry",
    "Numeric",
    "Region",
    "Unavailable",
    "derive",
]


def derive(pair: Pair, *, budget: float = 2.0) -> Calculus:
    """Derive everything that accounting needs from an ordered pair.

    Args:
        pair: the normalised pair.
        budget: seconds of wall clock for SymPy's solvers, in a child process.

    Returns:
        The calculus; what has no closed form is marked as such, never left out.
    """
    cases = [derive_case(refined, pair) for refined in refine(pair)]
    cases = solve_in_child(cases, pair, budget)
    return Calculus(
        pair=pair,
        ell=ELL,
        z=Z,
        cases=tuple(derived.case for derived in cases),
        strip=(_by_case(cases, 0), _by_case(cases, 1)),
        lattice=joined(cases, "lattice"),
        symmetric=all(derived.symmetric for derived in cases),
        cumulants=joined(cases, "cumulants"),
        tails=tuple(dict.fromkeys(s for derived in cases for s in derived.tails.sentences)),
        notes=tuple(dict.fromkeys(n for derived in cases for n in derived.notes)),
        reverse=derive(pair.reverse, budget=budget) if pair.reverse is not None else None,
    )


def _by_case(cases: list[Derived], side: int) -> Expr:
    return by_case([(derived.case.condition, derived.tails.strip[side]) for derived in cases])
