"""One mechanism at each stage of the compiler, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.pretty import Pretty
from rich.syntax import Syntax

from mechc.errors import check_one_of

if TYPE_CHECKING:
    from mechc.protocol import Described


STAGES = ("explain", "pair", "calculus", "ir", "source")


def show(mechanism: Described, stage: str) -> RenderableType:
    """Return something printable for one stage.

    Raises:
        DeclarationError: the stage is not known.
    """
    if stage == "source":
        return Syntax(mechanism.source, "python", background_color="default")
    check_one_of("stage", stage, STAGES)
    if stage == "explain":
        explained: RenderableType = mechanism.explain().__rich__()
        return explained
    return Pretty(_data(mechanism, stage))


def _data(mechanism: Described, stage: str) -> Any:
    from mechc.calculus import derive, normalise

    pair = normalise(mechanism.declaration)
    if stage == "pair":
        return pair
    calculus = derive(pair)
    if stage == "calculus":
        return calculus
    from mechc.kernel.lower import lower

    return lower(calculus)
