"""Parameters of a declaration: lists of another length, new ones, those that are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sympy import Expr, Symbol

from mechc.declare.declaration import Declaration
from mechc.errors import DeclarationError
from mechc.symbolic.parameters import Parameter


def of_length(declaration: Declaration, length: int) -> Declaration:
    """The declaration of the same mechanism for lists of another length.

    Raises:
        DeclarationError: the mechanism has no parameters that are lists.
    """
    if declaration.of_length is None:
        names = ", ".join(p.name for p in declaration.parameters)
        raise DeclarationError(
            f"{declaration.name}: no parameter is a list (the parameters are the numbers {names})"
        )
    return declaration.of_length(length)


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
