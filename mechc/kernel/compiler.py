"""From a declaration to the text of its kernel, room by room.

    Declaration --normalise--> Pair --derive--> Calculus --lower--> KernelIR --emit--> source text

This is the only module that knows all rooms of the compiler; it imports SymPy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mechc.calculus import derive, normalise
from mechc.errors import UnsupportedError
from mechc.kernel.emit import emit
from mechc.kernel.lower import lower
from mechc.protocol import TAG

if TYPE_CHECKING:
    from mechc.declare.declaration import Declaration
    from mechc.numeric.telling import Tell


def compile_declaration(declaration: Declaration, *, progress: Tell | None = None) -> str:
    """Compile a declaration.

    Args:
        declaration: one ordered pair (its separately declared reverse is compiled on its own).
        progress: called with the name of each stage as it begins.

    Returns:
        The source text of the kernel module.

    Raises:
        DeclarationError: the declaration is refused.
        UnsupportedError: a breakpoint cannot be located, or SymPy recurses too deeply.
        LoweringError: an expression has no kernel form.
    """
    try:
        return _text_of(declaration, progress or (lambda stage: None))
    except RecursionError:
        raise UnsupportedError(
            f"{declaration.name}: SymPy cannot take its formulas apart, nested or raised to "
            "powers too often; write high powers of sums as exp(n*log(..)), or fewer of them"
        ) from None


def _text_of(declaration: Declaration, report: Tell) -> str:
    """The text, stage by stage."""
    report("normalise")
    pair = normalise(declaration)
    report("derive")
    calculus = derive(pair)
    report("lower")
    module = lower(calculus)
    if declaration.tag is not None:
        told = {**module.capabilities, TAG: declaration.tag.variable.name}
        module = replace(module, capabilities=told)
    report("emit")
    return emit(module)
