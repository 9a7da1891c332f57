"""A pair (P, Q) taken apart: sorted pieces without switches, each a sum of weighted exponentials.

`normalise` turns a declaration into a `Pair`:

    cut where Abs, Max, Piecewise ... switch       mechc.symbolic.breakpoints
    write each smooth part as a sum of terms       mechc.calculus.terms
    put pieces and cases together                  mechc.calculus.cases
    check masses, signs and supports               mechc.calculus.masses
    say what the pair stands for                   mechc.calculus.claims
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Symbol

from mechc.adjacency import Claim
from mechc.calculus.cases import Case, by_cases
from mechc.calculus.claims import claim_of
from mechc.calculus.masses import check_masses
from mechc.declare.declaration import Declaration
from mechc.protocol import Measure
from mechc.symbolic.parameters import Parameter


@dataclass(frozen=True)
class Pair:
    """A normalised pair.

    Attributes:
        name: name of the mechanism.
        variable: output variable.
        parameters: in the order in which kernels take them.
        measure: where it has its mass.
        cases: exactly one condition is true.
        claim: what the pair stands for, and whether that was proved.
        about: one sentence for people.
        refs: literature.
        notes: what was checked, and how.
    """

    name: str
    variable: Symbol
    parameters: tuple[Parameter, ...]
    measure: Measure
    cases: tuple[Case, ...]
    claim: Claim | None
    about: str
    refs: tuple[str, ...]
    notes: tuple[str, ...]


def normalise(declaration: Declaration) -> Pair:
    """Take a declaration apart and check it.

    Raises:
        DeclarationError: a mass that is not one, a negative density, disjoint supports.
        UnsupportedError: a breakpoint that cannot be located.
    """
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
    )
