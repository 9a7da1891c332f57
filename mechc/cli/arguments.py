"""Words of the command line: the options that commands share, and what the words stand for.

In: strings. Out: mechanisms, compositions, parameter values and counts, or a `DeclarationError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import mechc
from mechc.composition.operations import under
from mechc.errors import DeclarationError

if TYPE_CHECKING:
    from mechc.composition.events import Composition
    from mechc.composition.mechanism import Mechanism


def _names(incomplete: str) -> list[str]:
    """Names of mechanisms that begin so, for the completion of shells."""
    return [name for name in mechc.available() if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        help="Name of a mechanism, or path of a mechanism file.", autocompletion=_names
    ),
]
MaybeName = Annotated[
    str,
    typer.Argument(
        help="Name of a mechanism, or path of a mechanism file.",
        show_default=False,
        autocompletion=_names,
    ),
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter; repeatable.")
]


def number_of(text: str) -> float:
    """Return a number from a word such as "0.01", "1e-5" or "256/60000"."""
    top, slash, bottom = str(text).partition("/")
    try:
        value = float(top)
        return value / float(bottom) if slash else value
    except (ValueError, ZeroDivisionError):
        raise DeclarationError(
            f"{text!r} is not a number (expected such as 0.01, 1e-5 or 256/60000)"
        ) from None


def _number(text: str) -> float:
    """`number_of` as a parser of options."""
    try:
        return number_of(text)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None


Poisson = Annotated[
    float | None,
    typer.Option(
        "--poisson",
        metavar="RATE",
        parser=_number,
        help="Poisson sampling rate, such as 0.01 or 256/60000.",
    ),
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
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta", "-d", metavar="NUMBER", parser=_number, help="Target delta, or 1/60000."
    ),
]
LogDelta = Annotated[float | None, typer.Option("--log-delta", help="Natural log of delta.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", "-e", help="Epsilon.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]

Plot = Annotated[Path | None, typer.Option(help="Write a figure to this file.")]

DatasetSize = Annotated[
    float | None, typer.Option("--dataset-size", parser=_number, help="Number of records.")
]
BatchSize = Annotated[
    float | None,
    typer.Option("--batch-size", parser=_number, help="Records in a batch, expected or exact."),
]
NoiseMultiplier = Annotated[
    float | None,
    typer.Option(
        "--noise-multiplier", parser=_number, help="Standard deviation of the noise / clip norm."
    ),
]
Epochs = Annotated[
    float | None, typer.Option("--epochs", parser=_number, help="Passes over the data.")
]
Steps = Annotated[float | None, typer.Option("--steps", parser=_number, help="Number of steps.")]
Sampler = Annotated[
    str, typer.Option("--sampler", help="poisson, truncated, fixed, allocation or shuffled.")
]
BatchCap = Annotated[
    int | None, typer.Option("--batch-cap", help="Largest batch of --sampler truncated.")
]
ClipNorm = Annotated[float, typer.Option("--clip-norm", help="Largest norm of one gradient.")]

SolveFor = Annotated[
    str,
    typer.Option(
        "--solve-for",
        help="Find it for --epsilon and --delta, or another target: noise_multiplier, batch_size, "
        "epochs or steps.",
    ),
]
Advantage = Annotated[
    float | None, typer.Option("--advantage", parser=_number, help="Target: largest advantage.")
]
Tpr = Annotated[
    float | None,
    typer.Option("--tpr", parser=_number, help="Target: largest true positive rate ..."),
]
Fpr = Annotated[
    float | None, typer.Option("--fpr", parser=_number, help="... at this false positive rate.")
]
Beside = Annotated[Path | None, typer.Option("--beside", help="Run file of what else is released.")]
AllowFiles = Annotated[
    bool, typer.Option("--allow-files", help="Run the mechanism files that the run names.")
]

MOST_COUNTS = 1_000_000  # of one table


def mechanism_of(name: str, p: str, q: str, var: str, domains: Iterable[str]) -> Mechanism:
    """Return the mechanism a command line names, or the one its densities declare."""
    if bool(name) == bool(p or q):
        raise DeclarationError("give either the name of a mechanism or both --p and --q")
    if name:
        return mechc.load(name)
    from mechc.declare.text import declaration_from_text

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
    from mechc.cli.progress import compiling

    values, number = values_of(settings), count_of(count)
    kept = under(mechanism, poisson, adjacency, values)
    kept.check({**kept.bound, **values})
    compiling(kept, Console(stderr=True))
    return kept(**values) * number


def question(
    method: str = "auto",
    direction: str = "both",
    *,
    delta: float | None = None,
    log_delta: float | None = None,
    epsilon: float | None = None,
) -> None:
    """Refuse a question that cannot be answered, before anything is compiled for it."""
    from mechc.accountants import registry
    from mechc.composition import inputs

    registry.resolve(method, {})
    mechc.compose().directions(direction)
    for check, value in (
        (inputs.as_delta, delta),
        (inputs.as_log_delta, log_delta),
        (inputs.as_epsilon, epsilon),
    ):
        if value is not None:
            check(value)


def writable(path: Path) -> Path:
    """Return a file to write, refused at once where it could not be written at the end."""
    path = path.expanduser()
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        why = "it is a folder" if path.is_dir() else f"{path.parent} is not a folder to write in"
        raise DeclarationError(f"cannot write {path}: {why}")
    return path


def values_of(settings: Iterable[str]) -> dict[str, float]:
    """Return parameters from "name=value" words, each name once."""
    values: dict[str, float] = {}
    for word in settings:
        name, equals, text = word.partition("=")
        if name.strip() in values:
            raise DeclarationError(f"--set {word}: {name.strip()} has a value already")
        try:
            values[name.strip()] = number_of(text)
        except DeclarationError:
            equals = ""
        if not equals or not name:
            raise DeclarationError(f"--set {word}: expected NAME=NUMBER")
    return values


def ranges_of(words: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return ranges from "name=low:high" words."""
    ranges = {}
    for word in words:
        name, _, ends = word.partition("=")
        low, colon, high = ends.partition(":")
        if not name or not colon:
            raise DeclarationError(f"--over {word}: expected NAME=LOW:HIGH")
        ranges[name.strip()] = number_of(low), number_of(high)
    return ranges


def count_of(text: str) -> int:
    """Return a count from a word such as "1000" or "1e6"."""
    from mechc.composition.inputs import as_count

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
