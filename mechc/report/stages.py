"""One mechanism at each stage of the compiler, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.syntax import Syntax
from rich.text import Text

from mechc.errors import InternalError, check_one_of

if TYPE_CHECKING:
    from mechc.protocol import Described


WIDE = 76  # characters of a list that stands on one line
STAGES = ("explain", "pair", "calculus", "ir", "source")


def show(mechanism: Described, stage: str) -> RenderableType:
    """Return something printable for one stage."""
    if stage == "source":
        return Syntax(mechanism.source, "python", background_color="default")
    check_one_of("stage", stage, STAGES)
    if stage == "explain":
        return printed(kept(mechanism, "explanation", lambda: mechanism.explain().rows))
    return Text("\n".join(_outline(_data(mechanism, stage))))


def kept(mechanism: Described, what: str, make: Callable[[], Any]) -> Any:
    """What is read off a declaration, found once for the text of the files that word it."""
    files = (Path(__file__).with_name(name).read_bytes() for name in ("explain.py", "datasheet.py"))
    return mechanism.derived(f"{what} {sha256(b''.join(files)).hexdigest()}", make)


def printed(sections: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> Text:
    """Headings and labelled lines, marked for a terminal."""
    text = Text()
    for heading, lines in sections:
        text.append(f"{heading}\n", style="bold")
        rows = list(lines)
        width = max((len(label) for label, _ in rows), default=0)
        for label, words in rows:
            text.append(f"  {label:<{width}}  ", style="cyan")
            text.append(f"{words}\n")
    text.rstrip()
    return text


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


def _outline(value: Any, label: str = "", depth: int = 0) -> Iterator[str]:
    """Lines of a record: one for each field that says something, what that holds further in."""
    pad, (text, inside) = "  " * depth, _parts(value)
    yield f"{pad}{label}{text}".rstrip()
    for name, held in inside:
        if held is not None and held is not False and held not in ((), "", {}):
            yield from _outline(held, name, depth + 1)


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]]]:
    """What stands on the line of a value, and what stands below it, with labels."""
    from mechc.calculus.terms import Term
    from mechc.kernel import ir
    from mechc.kernel.printer import Printer
    from mechc.symbolic.parameters import Parameter

    with suppress(InternalError):  # what only passes make printable
        if isinstance(value, ir.Expr):
            return Printer()(value), []
        if isinstance(value, ir.Block):
            return "", [("", line) for line in Printer().block(value, "{}")]
    if isinstance(value, Term):
        return f"{value.weight} * exp({value.log_density})", []
    if isinstance(value, Parameter):
        return f"{value.name}, {value.domain}", []
    if isinstance(value, dict):
        return "", [(f"{name}: ", held) for name, held in value.items()]
    if is_dataclass(value):
        rows = [(f"{field.name}: ", getattr(value, field.name)) for field in fields(value)]
        return type(value).__name__, [row for row in rows if row[0] != "pair: "]  # an earlier stage
    if not isinstance(value, tuple) or not value:
        return str(value), []
    texts, below = zip(*map(_parts, value), strict=True)
    line = ", ".join(texts)
    return ("", [("- ", held) for held in value]) if any(below) or len(line) > WIDE else (line, [])
