"""Words of the command line: the options that commands share, and what the words stand for.

In: strings. Out: mechanisms, compositions, parameter values and counts, or a `DeclarationError`.
Options that several commands take together are the fields of a group, declared once.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

import mechc
from mechc.errors import DeclarationError, MechcError, in_words

if TYPE_CHECKING:
    from mechc.composition.events import Composition
    from mechc.composition.mechanism import Mechanism

T = TypeVar("T")


def number_of(text: str) -> float:
    """Return a number from a word such as "0.01", "1e-5", "1%" or "256/60000"."""
    top, slash, bottom = str(text).replace("%", "/100").partition("/")
    try:
        value = float(top)
        if not slash and value.is_integer() and top.isdigit() and int(top) != value:
            return int(top)  # which is refused in words where a double is needed
        return value / float(bottom) if slash else value
    except (ValueError, ZeroDivisionError):
        raise DeclarationError(
            f"{text!r} is not a number (expected such as 0.01, 1e-5, 1% or 256/60000)"
        ) from None


def parser(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return what reads a word as a parser of options, whose errors name the option."""

    def parsed(text: str) -> T:
        try:
            return read(text)
        except DeclarationError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


def word_of(text: str) -> str:
    """Return a name as Python writes it, from a word such as "batch-size"."""
    return text.replace("-", "_")


def among(table: str, *more: str) -> Callable[[str], list[str]]:
    """Return what completes a word: from a table or function at "mechc.module:NAME", and more."""

    def beginning(incomplete: str) -> list[str]:
        known = resolve_name(table)
        listed = known() if callable(known) else known
        words = [*more, *(str(w) if isinstance(w, str) else w.name for w in listed)]
        return [word for word in words if word.startswith(incomplete)]

    return beginning


def count_of(text: str | int) -> int:
    """Return a count from a word such as "1000" or "1e6"."""
    from mechc.composition.inputs import as_count

    try:
        value = int(text) if str(text).lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise DeclarationError(
            f"count={text!r} is not an integer (expected 0 <= count <= 10**12)"
        ) from None
    return as_count(value)


def parameters(*more: str, end: str = "") -> Callable[[typer.Context, str], list[str]]:
    """Return what completes the name of a parameter of the mechanism that was typed, and more."""

    def beginning(ctx: typer.Context, incomplete: str) -> list[str]:
        known, options = list[str](), {option.name for option in ctx.command.params}
        # a file is run to be read: only one that the command is about, and would run itself
        runs = "settings" in options and "path" not in options
        for place, name in enumerate(ctx.meta.get("typed", ())):
            if (place == 1 and runs and name.endswith(".py")) or name in mechc.available():
                with suppress(MechcError):
                    known += [p.name for p in mechc.load(name).declared]
        return [word + end for word in (*known, *more) if word.startswith(incomplete)]

    return beginning


def word(help: str, table: str, *more: str, **how: Any) -> Any:
    """Return the option for a word that stands in a table, or is one of more."""
    how = {"parser": word_of, "metavar": "WORD", **how}
    return typer.Option(help=help, autocompletion=among(table, *more), **how)


def amount(help: str, *names: str) -> Any:
    """Return the option for a number."""
    return typer.Option(*names, metavar="NUMBER", parser=parser(number_of), help=help)


NAME = "Name of a mechanism, or path of a mechanism file."
RELATION = "add_remove or replace; of Poisson samples the first is the default."
ERRORS = "mechc.composition.queries.tournament:ERRORS"

Number = float | None
_NAMES = among("mechc:available")
Name = Annotated[str, typer.Argument(help=NAME, autocompletion=_NAMES)]
MaybeName = Annotated[str, typer.Argument(help=NAME, show_default=False, autocompletion=_NAMES)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter, or list as 0,1,2; repeatable.",
        autocompletion=parameters(end="="),
    ),
]  # fmt: skip
Poisson = Annotated[Number, amount("Poisson sampling rate, such as 0.01 or 256/60000.")]
Adjacency = Annotated[str | None, word(RELATION, "mechc.adjacency:SAMPLED")]
Count = Annotated[
    int,
    typer.Option(
        "--count", "-k", metavar="NUMBER", parser=parser(count_of), help="Number of steps."
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="An accountant; see `mechc methods`.",
        autocompletion=among("mechc:methods", "auto"),
    ),
]
Direction = Annotated[str, word("both, remove or add.", "mechc.composition.events:DIRECTIONS")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DELTA = amount("Target delta, or 1/60000.", "--delta", "-d")
Delta = Annotated[Number, _DELTA]
_TARGET = typer.Option(
    "--target", "-t", metavar="NUMBER NUMBER", help="EPSILON DELTA for all releases.",
    callback=lambda given: tuple(map(parser(number_of), given)),
)  # fmt: skip
GivenDelta = Annotated[float, _DELTA]
Epsilon = Annotated[Number, amount("Epsilon.", "--epsilon", "-e")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
Plot = Annotated[Path | None, typer.Option(help="Write a figure to this file.")]
AllowFiles = Annotated[bool, typer.Option(help="Run the mechanism files that the run names.")]
RunPath = Annotated[Path, typer.Argument(help="Run file.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(help="Mechanisms; by default all that fit.", autocompletion=_NAMES),
]

MOST_COUNTS = 1_000_000  # of one table


def grouped(command: Callable[..., T], end: Callable[[typer.Context, T], None]) -> Any:
    """Spread a command's groups over options, of which JSON is one more; `end` takes its answer."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [inspect.Parameter("ctx", kind, annotation=typer.Context)]
    for name, known in inspect.signature(command).parameters.items():
        group = groups.get(name)
        types = get_type_hints(group, include_extras=True) if group else hints
        inner = inspect.signature(group).parameters.values() if group else [known]
        options += [one.replace(kind=kind, annotation=types[one.name]) for one in inner]
    options.append(inspect.Parameter("as_json", kind, annotation=Json, default=False))

    def run(ctx: typer.Context, as_json: bool, **given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        end(ctx, command(**given))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


@dataclass
class Sample:
    """A mechanism by its name, perhaps on a sample."""

    name: Name
    poisson: Poisson = None
    adjacency: Adjacency = None

    def mechanism(self) -> Mechanism:
        """Return the mechanism by its name."""
        return mechc.load(self.name)

    def under(self, given: Iterable[str] = (), mechanism: Mechanism | None = None) -> Mechanism:
        """Return it for the relation that is asked for, where so many parameters are given."""
        from mechc.composition.operations import under

        kept = self.mechanism() if mechanism is None else mechanism
        return under(kept, self.poisson, self.adjacency, set(given))


@dataclass
class Settings(Sample):
    """A mechanism with parameters."""

    settings: Set = None

    def open(self, missing: str | None = "") -> tuple[Mechanism, dict[str, Any]]:
        """Return the mechanism, compiled, and its parameters: all but a missing one (None: any)."""
        values = values_of(self.settings)
        if missing != "sampling_rate":
            kept = self.under({*values, missing or ""})
        elif self.poisson is None:
            kept = mechc.poisson(self.mechanism(), None, self.adjacency or "add_remove")
        else:
            raise DeclarationError(f"--poisson {self.poisson} is the rate to find; leave it out")
        if not any(isinstance(value, list) for value in values.values()):  # of another mechanism
            kept.check({**kept.bound, **values}, missing)
            kept.compile()
        return kept, values

    def run(self, count: int = 1) -> Composition:
        """Return the composition."""
        kept, values = self.open()
        return kept(**values) * count


@dataclass
class Repeated(Settings):
    """A mechanism with parameters, so often."""

    count: Count = 1


@dataclass
class Densities(Repeated):
    """The same, its densities perhaps given instead of a name."""

    name: MaybeName = ""
    p: Annotated[str, typer.Option("--p", help="Density of P, instead of NAME.")] = ""
    q: Annotated[str, typer.Option("--q", help="Density of Q.")] = ""
    var: Annotated[str, typer.Option(help="Variable of the densities.")] = "x"
    domain: Annotated[
        list[str] | None, typer.Option(help="Domain of a parameter of --p, such as '0 <= w <= 1'.")
    ] = None

    def mechanism(self) -> Mechanism:
        """Return the mechanism a command line names, or the one its densities declare."""
        if bool(self.name) == bool(self.p or self.q) or bool(self.p) != bool(self.q):
            raise DeclarationError("give either the name of a mechanism or both --p and --q")
        if self.name:
            return super().mechanism()
        from mechc.declare.text import declaration_from_text

        return mechc.load(declaration_from_text(
            "command line", p=self.p or None, q=self.q or None, variable=self.var,
            parameters=self.domain or (),
        ))  # fmt: skip


@dataclass
class Training:
    """The words of `mechc.dpsgd`."""

    dataset_size: Annotated[Number, amount("Number of records.")] = None
    batch_size: Annotated[Number, amount("Records in a batch, expected or exact.")] = None
    noise_multiplier: Annotated[Number, amount("Standard deviation of the noise / clip norm.")] = (
        None
    )
    epochs: Annotated[Number, amount("Passes over the data.")] = None
    steps: Annotated[Number, amount("Number of steps.")] = None
    sampler: Annotated[
        str,
        word(
            "poisson, truncated, fixed, allocation or shuffled.",
            "mechc.composition.training:SAMPLERS",
        ),
    ] = "poisson"
    adjacency: Adjacency = None
    clip_norm: Annotated[float, amount("Largest norm of one gradient.")] = 1.0
    batch_cap: Annotated[int | None, typer.Option(help="Largest batch of --sampler truncated.")] = (
        None
    )


@dataclass
class Search:
    """What a search over noises is for."""

    target: Annotated[tuple[str, str], _TARGET] = ("1", "1e-6")
    count: Count = 1
    poisson: Poisson = None
    sensitivity: Annotated[float, amount("How far the query moves.")] = 1.0

    @property
    def words(self) -> dict[str, Any]:
        """The same as arguments of `mechc.tournament` and `mechc.optimise`."""
        return {
            "target": self.target, "count": self.count, "sampling": self.poisson,
            "sensitivity": self.sensitivity,
        }  # fmt: skip


@dataclass
class Aim:
    """What a value is solved for."""

    epsilon: Epsilon = None
    delta: Delta = None
    advantage: Annotated[Number, amount("Target: largest advantage.")] = None
    tpr: Annotated[Number, amount("Target: largest true positive rate ...")] = None
    fpr: Annotated[Number, amount("... at this false positive rate.")] = None
    beside: Annotated[Path | None, typer.Option(help="Run file of what else is released.")] = None
    method: Method = "auto"
    allow_files: AllowFiles = False

    def released(self) -> Composition | None:
        """Return what is released beside."""
        allowed = self.allow_files
        return None if self.beside is None else mechc.open(self.beside, allow_files=allowed)

    def calibrate(self, what: Any, solve_for: str, words: dict[str, Any], **more: Any) -> Any:
        """Return the value that meets it."""
        asked = {**vars(self), "beside": self.released()}
        del asked["allow_files"]
        return mechc.calibrate(what, solve_for=solve_for, parameters=words, **asked, **more)


def question(
    method: str = "auto",
    direction: str = "both",
    *,
    delta: float | None = None,
    log_delta: float | None = None,
    epsilon: float | None = None,
    fpr: float | None = None,
) -> None:
    """Refuse a question that cannot be answered, before anything is compiled for it."""
    from mechc.accountants import registry
    from mechc.composition import inputs

    registry.resolve(method, {})
    mechc.compose().directions(direction)
    if delta is not None:
        inputs.as_delta(delta)
    if log_delta is not None:
        inputs.as_log_delta(log_delta)
    if epsilon is not None:
        inputs.as_epsilon(epsilon)
    if fpr is not None:
        inputs.share("tpr", "fpr", fpr)


def writable(path: Path) -> Path:
    """Return a file to write, in the home it names; refuse one that could not be written."""
    why = ""
    try:
        path = path.expanduser()
        if path.is_dir():
            why = "it is a folder"
        elif not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            why = f"{path.parent} is not a folder to write in"
    except (OSError, RuntimeError) as error:  # a name that is too long, or of no user
        why = in_words(error)
    if why:
        raise DeclarationError(f"cannot write {path}: {why}")
    return path


def drawable(path: Path | None) -> None:
    """Refuse a file for a figure, if there is one, where none could be written at the end."""
    if path is not None:
        from mechc.report import plot

        plot.check(path)
        writable(path)


def values_of(settings: Iterable[str] | None) -> dict[str, Any]:
    """Return parameters from "name=value" words, each name once; values may be lists, "0,1,2"."""

    def value(text: str) -> Any:
        return [number_of(part) for part in text.split(",")] if "," in text else number_of(text)

    return _named("--set", settings or (), "value", "NUMBER", value)


def ranges_of(words: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return ranges from "name=low:high" words, each name once."""

    def ends(text: str) -> tuple[float, float]:
        low, high = map(number_of, text.split(":"))
        return low, high

    return _named("--over", words, "range", "LOW:HIGH", ends)


def _named(
    option: str, words: Iterable[str], what: str, expected: str, read: Callable[[str], T]
) -> dict[str, T]:
    """What is read behind the names of words such as "name=value"."""
    found: dict[str, T] = {}
    for given in words:
        name, _, text = (part.strip() for part in given.partition("="))
        if name in found:
            raise DeclarationError(f"{option} {given}: {name} has a {what} already")
        try:
            found[name] = read(text)
        except ValueError:
            name = ""
        if not name:
            raise DeclarationError(f"{option} {given}: expected NAME={expected}")
    return found


def counts_of(text: str) -> list[int]:
    """Return counts from "1,10,100" or "start:stop:step" (stop excluded, as in Python)."""
    try:
        if ":" not in text:
            return [count_of(part) for part in text.split(",")]
        counts = range(*map(count_of, text.split(":")))
    except (ValueError, TypeError, DeclarationError) as error:
        why = f"{error}; " * isinstance(error, DeclarationError)
        raise DeclarationError(f"counts={text!r}: {why}expected 1,10,100 or 1:1000:10") from None
    if not counts:
        raise DeclarationError(f"counts={text!r}: there is none from the first to below the second")
    if counts[MOST_COUNTS:]:
        raise DeclarationError(f"counts={text!r}: more than {MOST_COUNTS} of them")
    return list(counts)
