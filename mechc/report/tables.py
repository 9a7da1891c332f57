"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import Any

from rich.console import Group
from rich.table import Table

from mechc.accountants.bound import Bound
from mechc.adjacency import Claim
from mechc.errors import check_one_of


def number(value: Any, side: str = "estimate", digits: int = 10) -> str:
    """Return so many digits of a number, rounded to the safe side of a bound; "-" for none."""
    value = float(value)
    if value != value:
        return "-"
    if math.isinf(value) or value == 0:
        return f"{value:g}"
    rounding = {"lower": ROUND_FLOOR, "upper": ROUND_CEILING}.get(side, ROUND_HALF_EVEN)
    rounded = Context(prec=digits, rounding=rounding).create_decimal_from_float(value)
    short = -5 < rounded.adjusted() < digits
    return f"{rounded:.{digits}g}" if short else f"{rounded.normalize():e}"


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
        table.add_row("claim", _of(answer.claim))
        for words in answer.claim.assumptions:
            table.add_row("assumed", words)
    return table


def under(table: Table, claim: Claim | None) -> Group:
    """Return a table of answers and, below it, what they stand for: the weakest claim."""
    return Group(table, "" if claim is None else f"\n{_of(claim)}")


def _of(claim: Claim) -> str:
    """A claim, and what it is about if that is a mechanism."""
    return f"{claim.about}: {claim.heading}" if claim.about else claim.heading


def curve(counts: Sequence[int], answer: Bound) -> Group:
    """Return epsilon after each count."""
    table = Table("steps", "lower", "estimate", "upper", box=None)
    sides = zip(counts, answer.lower, answer.estimate, answer.upper, strict=True)  # type: ignore[arg-type]
    for count, lower, estimate, upper in sides:
        table.add_row(str(count), number(lower, "lower"), number(estimate), number(upper, "upper"))
    return under(table, answer.claim)


def method_rows() -> list[dict[str, str]]:
    """Return the accountants with what they need, prove and cost, by the headings of a table."""
    from mechc.accountants.registry import methods

    return [
        {"method": m.name, "answers": m.answers, "needs": m.needs, "cost": m.cost,
         "options": ", ".join(m.options)}
        for m in methods()
    ]  # fmt: skip


def methods() -> Table:
    """Return the same for a terminal."""
    rows = method_rows()
    table = Table(*rows[0], box=None)
    for row in rows:
        table.add_row(*row.values())
    return table


def cache_record(action: str) -> dict[str, Any]:
    """List, size or clear the kernel cache and return what there was."""
    from mechc.kernel import cache

    check_one_of("action", action, ("list", "size", "clear"), "cache")
    entries = cache.entries()
    kernels = [{"name": e.name, "digest": e.digest, "bytes": e.size} for e in entries]
    return {
        "kernels": kernels if action == "list" else len(kernels),
        "removed": cache.clear() if action == "clear" else 0,
        "bytes": sum(entry.size for entry in entries),
        "folder": str(cache.directory()),
    }


def cache(found: dict[str, Any]) -> Table:
    """Return a `cache_record` for a terminal."""
    table = Table(box=None, show_header=False, pad_edge=False)
    kernels = found["kernels"]
    listed = kernels if isinstance(kernels, list) else []
    for entry in listed:
        table.add_row(entry["name"], entry["digest"], f"{entry['bytes'] / 1024:.0f} KiB")
    number = kernels if isinstance(kernels, int) else len(listed)
    removed = f"{found['removed']} kernels removed"
    table.add_row(removed if found["removed"] else f"{number} kernels")
    table.add_row(f"{found['bytes'] / 2**20:.1f} MiB", found["folder"])
    return table
