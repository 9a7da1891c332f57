"""Adding parameters to a declaration, and taking the one away that a transformation replaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sympy import Expr, Symbol

from mechc.declare import Declaration, Parameter


def with_parameters(declaration: Declaration, *added: Parameter) -> Declaration:
    """The declaration with more parameters, after its own."""
    return replace(declaration, parameters=(*declaration.parameters, *added))


def without_parameter(
    declaration: Declaration, symbol: Expr, kept: Iterable[Expr]
) -> tuple[Parameter, ...]:
    """The parameters, less `symbol` if it is one that none of the `kept` expressions uses."""
    used: set[Symbol] = set().union(*(e.free_symbols for e in kept))
    return tuple(p for p in declaration.parameters if p.symbol != symbol or p.symbol in used)


def free_name(declaration: Declaration, wanted: str) -> str:
    """`wanted`, or with the first number that makes it new."""
    taken = {p.name for p in declaration.parameters} | {declaration.variable.name}
    names = [wanted, *(f"{wanted}_{i}" for i in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
