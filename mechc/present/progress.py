"""A line that says what the compiler is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from mechc.mechanism import Mechanism


def compiling(mechanism: Mechanism, console: Console) -> None:
    """Make sure that the kernel exists, with a progress display if it has to be compiled."""
    if mechanism.is_compiled:
        return
    with console.status(f"compiling {mechanism.name}") as status:
        mechanism.compile(lambda stage: status.update(f"compiling {mechanism.name}: {stage}"))
