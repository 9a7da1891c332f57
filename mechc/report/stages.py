"""One mechanism at each stage of the compiler, as text."""

from __future__ import annotations

import pprint
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

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
    return Group(*(Text(line) for line in outline(_data(mechanism, stage))))


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


def outline(value: Any, depth: int = 0, name: str = "") -> list[str]:
    """Return a dataclass as indented lines, one field a line, nested ones below."""
    indent, label = "  " * depth, f"{name}: " if name else ""
    if is_dataclass(value) and not isinstance(value, type):
        lines = [f"{indent}{label}{type(value).__name__}"]
        for field in fields(value):
            lines += outline(getattr(value, field.name), depth + 1, field.name)
        return lines
    if isinstance(value, tuple) and any(is_dataclass(v) or isinstance(v, tuple) for v in value):
        lines = [f"{indent}{label}"]
        for index, item in enumerate(value):
            lines += outline(item, depth + 1, str(index))
        return lines
    return [f"{indent}{label}{value if not isinstance(value, dict) else pprint.pformat(value)}"]
