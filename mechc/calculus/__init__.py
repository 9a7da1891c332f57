"""Symbolic derivation: Pair in, Calculus out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Symbol

from mechc.calculus.cases import Refined, by_case, refine
from mechc.calculus.inverse import invert
from mechc.calculus.tails import tails_of
from mechc.calculus.types import (
    Calculus,
    CalculusCase,
    Closed,
    Entry,
    Numeric,
    Region,
    Unavailable,
)
from mechc.calculus.verify import Checker

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

ELL = Symbol("ell", real=True)
Z = Symbol("z")


def derive(pair: Pair, *, budget: float = 2.0) -> Calculus:
    """Derive everything that accounting needs from an ordered pair.

    Args:
        pair: the normalised pair.
        budget: seconds of wall clock for SymPy's solvers, in a child process.

    Returns:
        The calculus; what has no closed form is marked as such, never left out.
    """
    refined = refine(pair)
    lattice = pair.measure == "lattice"
    cases = [_case(case, pair) for case in refined]
    tails = [tails_of(case.regions, pair.variable, case.facts, lattice) for case in refined]
    conditions = [case.condition for case in refined]
    return Calculus(
        pair=pair,
        ell=ELL,
        z=Z,
        cases=tuple(cases),
        strip=tuple(
            by_case([(c, t.strip[side]) for c, t in zip(conditions, tails, strict=True)])
            for side in (0, 1)
        ),
        lattice=Unavailable("not derived"),
        symmetric=False,
        cumulants=Unavailable("not derived"),
        tails=tuple(dict.fromkeys(s for t in tails for s in t.sentences)),
        notes=tuple(dict.fromkeys(n for t in tails for n in t.notes)),
        reverse=derive(pair.reverse, budget=budget) if pair.reverse is not None else None,
    )


def _case(refined: Refined, pair: Pair) -> CalculusCase:
    checker = Checker.of(
        pair.variable, pair.parameters, refined.condition, pair.measure == "lattice"
    )
    regions = [replace(r, inverse=invert(r, ELL, checker)) for r in refined.regions]
    return CalculusCase(
        condition=refined.condition,
        regions=tuple(regions),
        atoms=refined.atoms,
        infinite_mass=Numeric("by quadrature"),
        cgf=Numeric("by quadrature"),
        cdf_p=Unavailable("not derived"),
        cdf_q=Unavailable("not derived"),
    )
