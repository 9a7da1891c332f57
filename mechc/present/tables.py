"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import Any

from rich.table import Table

from mechc.accountants.bound import Bound
from mechc.adjacency import Claim
from mechc.errors import DeclarationError


def number(value: Any, side: str = "estimate", digits: int = 10) -> str:
    """Return a number in decimal, rounded to the safe side; "-" where there is none.

    Args:
        value: the number.
        side: "lower" rounds down, "upper" rounds up, "estimate" to nearest.
        digits: significant digits.
    """
    value = float(value)
    if value != value:
        return "-"
    if math.isinf(value) or value == 0:
        return f"{value:g}"
    rounding = {"lower": ROUND_FLOOR, "upper": ROUND_CEILING}.get(side, ROUND_HALF_EVEN)
    rounded = Context(prec=digits, rounding=rounding).create_decimal_from_float(value)
    text = (
        f"{rounded:.{digits}g}" if -5 < rounded.adjusted() < digits else f"{rounded.normalize():e}"
    )
    return text


def bound(answer: Bound) -> Table:
    """Return one answer: lower, estimate, upper, method, status, adjacency, claim."""
    table = Table(box=None, show_header=False, pad_edge=False)
    safe = answer.quantity.safe.value
    table.add_row(
        answer.quantity.words, f"{number(answer.safe, safe)}   ({safe} bound)", style="bold"
    )
    table.add_row("lower", number(answer.lower, "lower"))
    table.add_row("estimate", number(answer.estimate))
    table.add_row("method", answer.method)
    table.add_row("status", answer.status)
    if "direction" in answer.detail:
        table.add_row("direction", str(answer.detail["direction"]))
    if answer.claim is not None:
        table.add_row("adjacency", answer.claim.adjacency.words)
        table.add_row("claim", f"{answer.claim.about}: {answer.claim.heading}")
        for words in answer.claim.assumptions:
            table.add_row("assumed", words)
    return table


def stands_for(claim: Claim | None) -> str:
    """Return what stands below a table of answers: the relation and the weakest claim."""
    if claim is None:
        return ""
    return f"{claim.adjacency.words}; {claim}"


def curve(counts: Sequence[int], answer: Bound) -> Table:
    """Return epsilon after each count."""
    table = Table("steps", "lower", "estimate", "upper", box=None)
    sides = zip(counts, answer.lower, answer.estimate, answer.upper, strict=True)  # type: ignore[arg-type]
    for count, lower, estimate, upper in sides:
        table.add_row(str(count), number(lower, "lower"), number(estimate), number(upper, "upper"))
    table.caption = stands_for(answer.claim)
    return table


def methods() -> Table:
    """Return the accountants with what they need, prove and cost."""
    from mechc.registry import methods as known

    table = Table("method", "answers", "needs", "cost", "options", box=None)
    for method in known():
        table.add_row(
            method.name, method.answers, method.needs, method.cost, ", ".join(method.options)
        )
    return table


def cache(action: str) -> Table:
    """List, size or clear the kernel cache and return what there was.

    Raises:
        DeclarationError: the action is not known.
    """
    from mechc.kernel import cache as kernels

    if action not in ("list", "size", "clear"):
        raise DeclarationError(f"cache {action}: expected list, size or clear")
    table = Table(box=None, show_header=False, pad_edge=False)
    entries = kernels.entries()
    if action == "list":
        for entry in entries:
            table.add_row(entry.name, entry.digest, f"{entry.size / 1024:.0f} KiB")
    removed = kernels.clear() if action == "clear" else 0
    table.add_row(f"{removed} kernels removed" if action == "clear" else f"{len(entries)} kernels")
    table.add_row(
        f"{sum(entry.size for entry in entries) / 2**20:.1f} MiB", str(kernels.directory())
    )
    return table
