"""Words of the command line: the options that commands share, and what the words stand for.

In: strings. Out: mechanisms, compositions, parameter values and counts, or a `DeclarationError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import mechc
from mechc.errors import DeclarationError
from mechc.operations import under

if TYPE_CHECKING:
    from mechc.composition import Composition
    from mechc.mechanism import Mechanism

Name = Annotated[str, typer.Argument(help="Name of a mechanism, or path of a mechanism file.")]
MaybeName = Annotated[
    str,
    typer.Argument(help="Name of a mechanism, or path of a mechanism file.", show_default=False),
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter; repeatable.")
]
Poisson = Annotated[
    float | None, typer.Option("--poisson", metavar="RATE", help="Poisson sampling rate.")
]
Adjacency = Annotated[
    str | None,
    typer.Option(help="add_remove or replace; with --poisson the first is the default."),
]
Count = Annotated[str, typer.Option("--count", "-k", help="Number of steps.")]
Method = Annotated[str, typer.Option("--method", "-m", help="An accountant; see `mechc methods`.")]
Direction = Annotated[str, typer.Option(help="both, remove or add.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DensityP = Annotated[str, typer.Option("--p", help="Density of P, instead of NAME.")]
DensityQ = Annotated[str, typer.Option("--q", help="Density of Q.")]
Variable = Annotated[str, typer.Option("--var", help="Variable of the densities.")]
Domain = Annotated[
    list[str], typer.Option(help="Domain of a parameter of --p, such as '0 <= w <= 1'.")
]
Delta = Annotated[float | None, typer.Option("--delta", "-d", help="Target delta.")]
LogDelta = Annotated[float | None, typer.Option("--log-delta", help="Natural log of delta.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", "-e", help="Epsilon.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]

MOST_COUNTS = 1_000_000  # of one table


def mechanism_of(name: str, p: str, q: str, var: str, domains: Iterable[str]) -> Mechanism:
    """Return the mechanism a command line names, or the one its densities declare."""
    if bool(name) == bool(p or q):
        raise DeclarationError("give either the name of a mechanism or both --p and --q")
    if name:
        return mechc.load(name)
    from mechc.parse import declaration_from_text

    declared = declaration_from_text(
        "command line", p=p or None, q=q or None, variable=var, parameters=domains
    )
    return mechc.load(declared)


def run_of(
    mechanism: Mechanism,
    settings: Iterable[str],
    poisson: float | None,
    adjacency: str | None,
    count: str,
) -> Composition:
    """Return the composition a command line asks for, compiled with a progress display."""
    from mechc.present.progress import compiling

    values = values_of(settings)
    kept = under(mechanism, poisson, adjacency, values)
    compiling(kept, Console(stderr=True))
    return kept(**values) * count_of(count)


def values_of(settings: Iterable[str]) -> dict[str, float]:
    """Return parameters from "name=value" words."""
    values = {}
    for word in settings:
        name, equals, text = word.partition("=")
        try:
            values[name.strip()] = float(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise DeclarationError(f"--set {word}: expected NAME=NUMBER")
    return values


def count_of(text: str) -> int:
    """Return a count from a word such as "1000" or "1e6"."""
    from mechc.inputs import as_count

    try:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise DeclarationError(
            f"count={text!r} is not an integer (expected 0 <= count <= 10**12)"
        ) from None
    return as_count(value)


def counts_of(text: str) -> list[int]:
    """Return counts from "1,10,100" or "start:stop:step" (stop excluded, as in Python)."""
    if ":" not in text:
        return [count_of(part) for part in text.split(",")]
    try:
        counts = range(*(int(part) for part in text.split(":")))
    except (ValueError, TypeError):
        raise DeclarationError(f"counts={text!r}: expected 1,10,100 or 1:1000:10") from None
    if not counts:
        raise DeclarationError(f"counts={text!r}: there is none from the first to below the second")
    if counts[MOST_COUNTS:]:
        raise DeclarationError(f"counts={text!r}: more than {MOST_COUNTS} of them")
    return list(counts)
