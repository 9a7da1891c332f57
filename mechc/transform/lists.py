"""Parameters that are lists: one declaration for each length."""

from __future__ import annotations

from mechc.declare import Declaration
from mechc.errors import DeclarationError


def of_length(declaration: Declaration, length: str) -> Declaration:
    """The declaration of the same mechanism for lists of another length.

    Raises:
        DeclarationError: the mechanism has no parameters that are lists.
    """
    if declaration.of_length is None:
        names = ", ".join(p.name for p in declaration.parameters)
        raise DeclarationError(
            f"{declaration.name}: no parameter is a list (the parameters are the numbers {names})"
        )
    return declaration.of_length(int(length))
