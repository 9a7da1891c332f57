"""Pair in, Calculus out: everything that accounting needs from (P, Q), derived once.

    refine the cases, find monotone regions          regions, loss
    invert the loss on each region                   inverse
    strip of finite moments, behaviour at the ends   tails
    cumulant generating function and cumulants       cgf, integrals
    mass at infinity, distribution functions         integrals
    lattice, symmetry                                structure

Every parameter case goes through from end to end (`derive_case`); formulas that need a check get it
here (`checks`). Signs, monotone parts and asymptotics are those of `mechc.symbolic`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sympy import And, Basic, Expr, Gt, Pow, S, Sum, Symbol, Tuple, besseli, erfc, loggamma

from mechc.calculus.cgf import cgf_of, cumulants_of
from mechc.calculus.checks import Checker
from mechc.calculus.integrals import distribution, infinite_mass
from mechc.calculus.inverse import best_inverse, invert
from mechc.calculus.regions import Refined, refine
from mechc.calculus.structure import is_symmetric, lattice_of
from mechc.calculus.tails import Tails, tails_of
from mechc.calculus.types import (
    Calculus,
    CalculusCase,
    Closed,
    Entry,
    Kind,
    Numeric,
    Region,
    Unavailable,
)
from mechc.protocol import Measure
from mechc.symbolic.budget import Task, run
from mechc.symbolic.facts import by_case, is_certain
from mechc.symbolic.functions import spell_out

if TYPE_CHECKING:
    from mechc.calculus.pair import Pair


ELL = Symbol("ell", real=True)
Z = Symbol("z")


@dataclass(frozen=True)
class Derived:
    """A finished case, and what the calculus of the pair gathers from its cases."""

    case: CalculusCase
    tails: Tails
    lattice: Entry
    symmetric: bool
    cumulants: Entry
    notes: tuple[str, ...]


def derive_case(refined: Refined, pair: Pair) -> Derived:
    """Derive one case by rules alone.

    Args:
        refined: condition, facts, regions.
        pair: for its variable, parameters and measure.
    """
    x, facts, integer = pair.variable, refined.facts, pair.measure is Measure.LATTICE
    regions, atoms = refined.regions, refined.atoms
    checker = Checker.of(x, pair.parameters, refined.condition, integer)
    tails = tails_of(regions, x, facts, integer)
    cgf = _checked(cgf_of(regions, atoms, x, Z, facts, integer), refined, tails, checker)
    smooth = not integer and not atoms
    case = CalculusCase(
        condition=refined.condition,
        regions=tuple(
            replace(r, inverse=invert(r, ELL, _inside(r, refined.condition, pair) or checker))
            for r in regions
        ),
        atoms=atoms,
        infinite_mass=infinite_mass(regions, atoms, x, facts, integer),
        cgf=cgf,
        cdf_p=distribution(regions, "p", x, facts, smooth),
        cdf_q=distribution(regions, "q", x, facts, smooth),
    )
    return Derived(
        case=case,
        tails=tails,
        lattice=lattice_of(regions, atoms, x, facts, integer),
        symmetric=is_symmetric(regions, atoms, checker),
        cumulants=cumulants_of(cgf, Z),
        notes=(*tails.notes, *_notes(case, pair)),
    )


def _inside(region: Region, condition: Basic, pair: Pair) -> Checker | None:
    """A checker at parameters for which a region that may be empty is not; else None."""
    if is_certain(region.lo, region.hi) or not region.kind.moves:
        return None
    there = And(condition, Gt(region.hi, region.lo))
    return Checker.of(pair.variable, pair.parameters, there, pair.measure is Measure.LATTICE)


def _checked(cgf: Entry, refined: Refined, tails: Tails, checker: Checker) -> Entry:
    """A closed generating function survives only if quadrature agrees at complex z."""
    if not isinstance(cgf, Closed) or cgf.expr is S.NegativeInfinity:
        return cgf
    if checker.moment_agrees(cgf.expr, Z, refined.regions, refined.atoms, tails.strip):
        return replace(cgf, how=f"{cgf.how}, verified")
    return Numeric("the closed form found did not agree with quadrature; quadrature is used")


def _notes(case: CalculusCase, pair: Pair) -> list[str]:
    return [
        f"{pair.name}: direction of the loss on {region.interval} is open; "
        "split numerically when parameters are bound"
        for region in case.regions
        if region.kind is Kind.UNSPLIT
    ]


def joined(cases: list[Derived], entry: Callable[[Derived], Entry]) -> Entry:
    """One entry for all cases: closed only if it is closed in every case."""
    rows, how = [], ""
    for derived in cases:
        condition, value = derived.case.condition, entry(derived)
        if not isinstance(value, Closed):
            return value
        how = how or value.how
        rows.append([(condition, component) for component in value.expr])
    columns = [by_case(list(column)) for column in zip(*rows, strict=True)]
    return Closed(Tuple(*columns), how)


def solve_in_child(cases: list[Derived], pair: Pair, seconds: float) -> list[Derived]:
    """Let SymPy try the inverses that the rules did not find, all in one child process.

    Args:
        cases: with rule-based inverses.
        pair: for its variable and parameters.
        seconds: wall clock.
    """
    x = pair.variable
    losses = list(dict.fromkeys(r.loss for d in cases for r in d.case.regions if _promising(r)))
    tasks = [Task(spell_out(loss) - ELL, x) for loss in losses]
    answers = run(tasks, seconds)
    solutions = {loss: answers.get(index, []) for index, loss in enumerate(losses)}
    return [_with_solutions(derived, solutions, pair) for derived in cases] if losses else cases


def _promising(region: Region) -> bool:
    """Monotone, without a closed inverse, and made of functions that `solve` knows."""
    if not region.kind.moves or isinstance(region.inverse, Closed):
        return False
    hopeless = region.loss.atoms(erfc, loggamma, besseli, Sum)  # type: ignore[union-attr]
    powers = region.loss.atoms(Pow)  # type: ignore[union-attr]
    return not hopeless and all(p.exp.is_number or not p.base.free_symbols for p in powers)


def _with_solutions(
    derived: Derived, solutions: dict[Expr | None, list[Expr]], pair: Pair
) -> Derived:
    condition, integer = derived.case.condition, pair.measure is Measure.LATTICE
    regions = []
    for region in derived.case.regions:
        if _promising(region):
            checker = _inside(region, condition, pair) or Checker.of(
                pair.variable, pair.parameters, condition, integer
            )
            found = [(solution, "solve") for solution in solutions[region.loss]]
            region = replace(region, inverse=best_inverse(found, region, ELL, checker))
        regions.append(region)
    return replace(derived, case=replace(derived.case, regions=tuple(regions)))


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
        lattice=joined(cases, lambda derived: derived.lattice),
        symmetric=all(derived.symmetric for derived in cases),
        cumulants=joined(cases, lambda derived: derived.cumulants),
        tails=tuple(dict.fromkeys(s for derived in cases for s in derived.tails.sentences)),
        notes=tuple(dict.fromkeys(n for derived in cases for n in derived.notes)),
        reverse=derive(pair.reverse, budget=budget) if pair.reverse is not None else None,
    )


def _by_case(cases: list[Derived], side: int) -> Expr:
    return by_case([(derived.case.condition, derived.tails.strip[side]) for derived in cases])
