"""A pair (P, Q) taken apart: sorted pieces without switches, each a sum of weighted exponentials.

`normalise` turns a declaration into a `Pair`:

    cut where Abs, Max, Piecewise ... switch       mechc.symbolic.breakpoints
    write each smooth part as a sum of terms       mechc.calculus.terms
    put pieces and cases together                  mechc.calculus.cases
    check masses, signs and supports               mechc.calculus.masses
    say what the pair stands for                   mechc.calculus.claims
"""

from __future__ import annotations

from mechc.calculus.cases import Pair, by_cases
from mechc.calculus.claims import claim_of
from mechc.calculus.masses import check_masses
from mechc.declare.declaration import Declaration


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
