"""Declaration in, Pair and Calculus out: all that accounting needs from (P, Q), derived once.

`normalise` takes a declaration apart:

    cut where Abs, Max, Piecewise ... switch         mechc.symbolic.breakpoints
    write each smooth part as a sum of terms         terms
    put pieces and cases together                    cases
    check masses, signs and supports                 masses
    say what the pair stands for                     claims

and `derive` goes on from there:

    refine the cases, find monotone regions          regions, loss
    invert the loss on each region                   inverse
    strip of finite moments, behaviour at the ends   tails
    cumulant generating function                     cgf, integrals
    mass at infinity, distribution functions         integrals
    lattice, symmetry                                structure

Every parameter case goes through from end to end (`derive_case`); formulas that need a check get it
here (`checks`). Signs, monotone parts and asymptotics are those of `mechc.symbolic`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sympy import And, Basic, Expr, Gt, S, Symbol, Tuple

from mechc.calculus.cases import Pair, by_cases, move_of
from mechc.calculus.cgf import cgf_of
from mechc.calculus.checks import Checker
from mechc.calculus.claims import claim_of
from mechc.calculus.integrals import distribution, infinite_mass
from mechc.calculus.inverse import invert
from mechc.calculus.masses import check_masses
from mechc.calculus.regions import Refined, refine
from mechc.calculus.structure import is_symmetric, lattice_of
from mechc.calculus.tails import Tails, tails_of
from mechc.calculus.types import Calculus, CalculusCase, Closed, Entry, Kind, Numeric, Region
from mechc.declare.declaration import Declaration
from mechc.protocol import Measure
from mechc.symbolic.facts import by_case, is_certain

ELL = Symbol("ell", real=True)
Z = Symbol("z")


def normalise(declaration: Declaration) -> Pair:
    """Take a declaration apart and check it.

    Raises:
        DeclarationError: a mass that is not one, a negative density, disjoint supports.
        UnsupportedError: a breakpoint that cannot be located.
    """
    declaration.check_symbols()
    cases = by_cases(declaration)
    notes = check_masses(declaration, cases)
    return Pair(
        name=declaration.name,
        variable=declaration.variable,
        parameters=declaration.parameters,
        measure=declaration.measure,
        cases=cases,
        claim=claim_of(declaration),
        about=declaration.about,
        refs=declaration.refs,
        notes=notes,
        move=move_of(declaration),
    )


@dataclass(frozen=True)
class Derived:
    """A finished case, and what the calculus of the pair gathers from its cases."""

    case: CalculusCase
    tails: Tails
    lattice: Entry
    symmetric: bool
    notes: tuple[str, ...]


def derive_case(refined: Refined, pair: Pair) -> Derived:
    """Derive one case by rules alone."""
    x, facts, integer = pair.variable, refined.facts, pair.measure is Measure.LATTICE
    regions, atoms = refined.regions, refined.atoms
    checker = Checker.of(x, pair.parameters, refined.condition, integer)
    tails = tails_of(regions, x, facts, integer)
    if refined.unsettled is not S.false:
        sides = zip((S.NegativeOne, S.Zero), tails.strip, strict=True)
        lower, upper = (by_case([(refined.unsettled, a), (S.true, b)]) for a, b in sides)
        tails = replace(tails, strip=(lower, upper))
    cgf = _checked(cgf_of(regions, atoms, x, Z, facts, integer), refined, tails, checker)
    smooth = not integer and not atoms
    case = CalculusCase(
        condition=refined.condition,
        regions=tuple(
            replace(r, inverse=invert(r, ELL, _inside(r, refined.condition, pair) or checker))
            for r in regions
        ),
        atoms=atoms,
        infinite_mass=infinite_mass(regions, atoms, x, facts, integer, pair.parameters),
        cgf=cgf,
        cdf_p=distribution(regions, "p", x, facts, smooth),
        cdf_q=distribution(regions, "q", x, facts, smooth),
    )
    return Derived(
        case=case,
        tails=tails,
        lattice=lattice_of(regions, atoms, x, facts, integer),
        symmetric=is_symmetric(regions, atoms, checker),
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


def derive(pair: Pair) -> Calculus:
    """Derive everything that accounting needs; what has no closed form is marked as such."""
    cases = [derive_case(refined, pair) for refined in refine(pair)]
    return Calculus(
        pair=pair,
        ell=ELL,
        z=Z,
        cases=tuple(derived.case for derived in cases),
        strip=(_by_case(cases, 0), _by_case(cases, 1)),
        lattice=_lattice(cases),
        symmetric=all(derived.symmetric for derived in cases),
        tails=tuple(dict.fromkeys(s for derived in cases for s in derived.tails.sentences)),
        notes=tuple(dict.fromkeys(n for derived in cases for n in derived.notes)),
    )


def _by_case(cases: list[Derived], side: int) -> Expr:
    return by_case([(derived.case.condition, derived.tails.strip[side]) for derived in cases])


def _lattice(cases: list[Derived]) -> Entry:
    """The lattice, which is closed only if it is in every case."""
    closed = [d.lattice for d in cases if isinstance(d.lattice, Closed)]
    if len(closed) < len(cases):
        return next(d.lattice for d in cases if not isinstance(d.lattice, Closed))
    rows = zip(*(entry.expr for entry in closed), strict=True)
    conditions = [derived.case.condition for derived in cases]
    columns = (by_case(list(zip(conditions, row, strict=True))) for row in rows)
    return Closed(Tuple(*columns), closed[0].how)
