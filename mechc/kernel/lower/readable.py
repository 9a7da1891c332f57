"""The declaration and the branches in words, for the header of an emitted kernel."""

from __future__ import annotations

from mechc.calculus.types import Calculus, Region
from mechc.pair import Pair, Piece
from mechc.terms import Term


def branch_words(calculus: Calculus) -> tuple[str, ...]:
    """One phrase for each branch, e.g. "increasing on (0, sensitivity)"."""
    brackets = "{} .. {}" if calculus.pair.measure == "lattice" else "({}, {})"
    return tuple(
        f"{region.kind} on {brackets.format(*_ends(region))}"
        for case in calculus.cases
        for region in case.regions
    )


def formulas(pair: Pair) -> tuple[str, ...]:
    """The densities by pieces and the atoms, one line each."""
    lines = []
    for case in pair.cases:
        if len(pair.cases) > 1:
            lines.append(f"if {case.condition}:")
        for piece in case.pieces:
            lo, hi = _ends(piece)
            lines.append(f"on ({lo}, {hi}):")
            lines += [f"    p = {_sum(piece.p)}", f"    q = {_sum(piece.q)}"]
        for atom in case.atoms:
            lines.append(f"at {atom.x}: P has mass {_sum(atom.p)}, Q has mass {_sum(atom.q)}")
    return tuple(lines)


def _ends(interval: Region | Piece) -> tuple[str, str]:
    return str(interval.lo), str(interval.hi)


def _sum(terms: tuple[Term, ...]) -> str:
    return " + ".join(map(_term, terms)) or "0"


def _term(term: Term) -> str:
    if term.log_density == 0:
        return str(term.weight)
    weight = "" if term.weight == 1 else f"({term.weight}) * "
    return f"{weight}exp({term.log_density})"
