"""Run files, the reading side: a composition as data, from JSON or TOML.

JSON lines are what `run.save` and `mechc record` write (mechc.composition.run_record); TOML is for
people. Either is data: nothing that it holds is run, unless files are allowed.
"""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mechc.accountants.bound import Bound, plain
from mechc.adjacency import Adjacency
from mechc.composition import inputs
from mechc.composition.description import OPERATIONS, remade
from mechc.composition.events import Composition, Event, compose, require_sensitivities
from mechc.composition.mechanism import Mechanism, available, load
from mechc.composition.operations import under
from mechc.composition.run_record import ASKED, FORMAT, MARK, ask, versions
from mechc.declare.catalog import MechanismFile
from mechc.declare.transforms import of_words
from mechc.errors import DeclarationError, MechcError, as_flag, check_one_of, in_words, public
from mechc.hints import suggestion
from mechc.kernel.cache import load as load_kernel
from mechc.verify.agreement import EPSILONS

MOST_TRANSFORMS, LONGEST = 20, 100  # of one mechanism, and of a word of one
SIDES = ("lower", "estimate", "upper")
LINE = (MARK, "versions", "adjacency", "steps", "answers")
STEP = ("mechanism", "digest", "kernel", "text", "transforms", "parameters", "defaulted")
ANSWER = ("ask", *ASKED, "answer")
TABLES = ("step", "epsilons", "adjacency")
TABLE = ("mechanism", "parameters", "poisson", "adjacency")
GIVEN = ("zcdp", "xi", "adjacency")  # in format 1


class RunFileWarning(UserWarning):
    """Something in a run file is not what it was, or not whole."""


@public
def open(path: Any, *, allow_files: bool = False) -> Composition:  # the word of the public API
    """Return the run that a run file holds.

    Args:
        path: a file that `run.save` or `mechc record` wrote, or one in TOML (docs/trust.md).
        allow_files: load (and run) the mechanism files that the run names.

    Returns:
        The composition; its answers are asked again, not read.

    Raises:
        DeclarationError: the file cannot be read as a run, or names a mechanism file.
    """
    path, allow_files = inputs.as_path(path), as_flag("allow_files", allow_files)
    if not is_json(path):
        return read(path, allow_files=allow_files)[0]
    with _as_run_file(path, "lines as run.save writes them"):
        return compose(*(run for run, _ in _records(path, allow_files)))


@dataclass(frozen=True)
class Answered:
    """One question of a run file: what it held, what is found now, and what to say of them."""

    question: str
    held: dict[str, Any]
    found: Bound
    verdict: str

    @property
    def ok(self) -> bool:
        """Whether both can be true."""
        return self.verdict != "contradicts"


@dataclass(frozen=True)
class Recheck:
    """A run file's composition, its answers asked again, and what else differs: files, versions."""

    run: Composition
    answers: tuple[Answered, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no answer contradicts what the file holds."""
        return all(answer.ok for answer in self.answers)

    def record(self) -> dict[str, Any]:
        """Return it in plain words and numbers."""
        answers = [{"question": a.question, "verdict": a.verdict, "held": a.held,
                    "found": a.found.record()} for a in self.answers]  # fmt: skip
        claim = self.run.claim
        made: dict[str, Any] = plain({"ok": self.ok, "run": repr(self.run), "answers": answers,
                                      "notes": self.notes, "claim": claim.record(),
                                      "adjacency": claim.adjacency})  # fmt: skip
        return made

    def __str__(self) -> str:
        """A line for the run, one for each answer, one for each note."""
        lines = [f"run      {self.run}"]
        for a in self.answers:
            safe = a.held.get(str(a.held.get("safe", "upper")))
            lines.append(f"{a.question}: held {safe}, now {float(a.found)!r}: {a.verdict}")
        if not self.answers:
            lines.append("no answer is held: nothing to compare")
        return "\n".join([*lines, *(f"note     {note}" for note in self.notes)])


def recheck(path: Any, *, allow_files: bool = False) -> Recheck:
    """Ask the questions of a JSON run file again, and compare with the answers that it holds.

    An answer has the same digits; or it agrees, where both intervals can hold; or it contradicts.
    """
    path, run = inputs.as_path(path), Composition()
    answers: list[Answered] = []
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RunFileWarning)
        with _as_run_file(path, "lines as run.save writes them"):
            for added, row in _records(path, allow_files):
                run = run + added
                answers += [_asked_again(run, held) for held in row["answers"]]
                was, now = row["versions"], versions()
                notes += [
                    f"{name} {was.get(name)} wrote it, this is {now[name]}"
                    for name in now
                    if was.get(name) != now[name]
                ]
    notes += [str(w.message) for w in caught if issubclass(w.category, RunFileWarning)]
    return Recheck(run, tuple(answers), tuple(dict.fromkeys(notes)))


def read(path: str | Path, *, allow_files: bool = False) -> tuple[Composition, tuple[float, ...]]:
    """Read a run from a TOML file: `[[step]]` tables and, if wanted, `epsilons` and `adjacency`.

    A step has `mechanism`, `parameters` (a table), and optionally `count`, `poisson` (a rate) and
    an `adjacency` of its own; or it is one as lines in JSON have.
    """
    path = inputs.as_path(path)
    with _as_run_file(path, "a file of run.save, or TOML with tables [[step]]"):
        content = tomllib.loads(inputs.text_in(path))
        _check_words(path, content, TABLES)
        steps = content["step"]
        epsilons = tuple(map(inputs.as_epsilon, content.get("epsilons", EPSILONS)))
        relation = content.get("adjacency")
        events = [_repeated(path, {"count": 1, **row}, allow_files, relation) for row in steps]
        for row, (event, _) in zip(steps, events, strict=True):
            _require_relation(path, event, row.get("adjacency", relation))
        return compose(*events), epsilons


def _require_relation(path: Path, event: Any, adjacency: Any) -> None:
    """Refuse a step for other neighbours than a file says that it is for."""
    wanted = Adjacency.ANY if adjacency is None else Adjacency.of(adjacency)
    require_sensitivities(str(path), [event], wanted)
    if Adjacency.ANY not in (wanted, event.adjacency) and wanted is not event.adjacency:
        raise DeclarationError(
            f"{path}: adjacency={wanted.value!r}, but {event} is for {event.adjacency.value!r}"
        )


@contextmanager
def _as_run_file(path: Path, expected: str) -> Iterator[None]:
    """Turn whatever goes wrong with what stands in a file into our refusal."""
    try:
        yield
    except MechcError:
        raise
    except (OSError, LookupError, TypeError, ValueError, AttributeError, OverflowError,
            RecursionError) as error:  # fmt: skip
        why = f"no {error}" if isinstance(error, KeyError) else in_words(error)
        raise DeclarationError(f"{path}: {why} (expected {expected})") from error


def is_json(path: Any) -> bool:
    """Return whether a file is a run file in JSON rather than TOML."""
    path = inputs.as_path(path)
    if path.suffix in (".json", ".toml"):
        return str(path.suffix) == ".json"
    with _as_run_file(path, "a run file"):
        return inputs.text_in(path).lstrip()[:1] == "{"


def _records(path: Path, allow_files: bool) -> Iterator[tuple[Composition, dict[str, Any]]]:
    """What every line of a file adds, and the line."""
    for row in _rows(path, inputs.text_in(path)):
        if row.get(MARK) not in range(1, FORMAT + 1):
            raise DeclarationError(
                f"{path}: {MARK}={row.get(MARK)!r} is not a known format (expected {FORMAT})"
            )
        _check_words(path, row, LINE)
        for answer in row["answers"]:
            _check_words(path, answer, ANSWER)
        added = compose(*(_repeated(path, step, allow_files) for step in row["steps"]))
        relation = Adjacency.of(row["adjacency"])
        if added.parts and relation is not added.adjacency:
            raise DeclarationError(
                f"{path}: adjacency={relation.value!r}, but the steps are for "
                f"{added.adjacency.value!r}"
            )
        yield added, row


def _check_words(path: Path, row: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse a word that would be passed over: a format with more words has another number."""
    for word in dict(row):
        if word not in known:
            raise DeclarationError(
                f"{path}: {word!r} is not known{suggestion(word, known)} (expected "
                f"{', '.join(known)})"
            )


def _rows(path: Path, text: str) -> Iterator[dict[str, Any]]:
    """The lines of a file, or the whole of it where someone has laid it out."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise DeclarationError(f"{path}: holds no run (expected lines as run.save writes them)")
    for i, line in enumerate(lines):
        try:
            row = _row(path, line)
        except DeclarationError:
            raise
        except ValueError as error:
            if i == 0:
                yield _row(path, text)
                return
            if i < len(lines) - 1 or text.endswith("\n"):
                raise DeclarationError(f"{path}, line {i + 1}: {error}") from error
            warnings.warn(
                f"{path}: the last line is not whole, as after a crash while it was written, and "
                "is not counted: record its steps again if they were released",
                RunFileWarning,
                stacklevel=4,
            )
            return
        yield row


def _row(path: Path, text: str) -> dict[str, Any]:
    """What a line says, every word once: of two counts one would be passed over."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        words = dict(pairs)
        if len(words) < len(pairs):
            raise DeclarationError(f"{path}: a word stands twice among {', '.join(words)}")
        return words

    row = json.loads(text, object_pairs_hook=once)
    if not isinstance(row, dict):
        raise DeclarationError(f"{path}: {text[:40]!r} is no record, as run.save writes them")
    return row


def _repeated(
    path: Path, step: dict[str, Any], allow_files: bool, relation: str | None = None
) -> tuple[Any, int]:
    """One step of a record, and how often."""
    words = dict(step)
    count = inputs.as_count(words.pop("count"))
    if "zcdp" in words:
        _check_words(path, words, GIVEN)
        words |= {"made": "zcdp", "rho": words.pop("zcdp")}
    return _event(path, words, allow_files, relation), count


def _event(path: Path, step: dict[str, Any], allow_files: bool, relation: str | None = None) -> Any:
    """What a record describes; an operation takes events that are described inside of it."""
    if "made" in step:
        from mechc.composition import allocation, radial, renyi_curves  # noqa: F401  # operations

        check_one_of("made", step["made"], OPERATIONS)

        def read(value: Any) -> Any:
            if isinstance(value, list):
                return [read(inner) for inner in value]
            known = isinstance(value, dict)
            return _event(path, value, allow_files, relation) if known else value

        return remade({word: read(value) for word, value in step.items()})
    if "transforms" not in step:  # as people write it
        _check_words(path, step, TABLE)
        values, given = step.get("parameters", {}), step.get("adjacency", relation)
        return under(_named(step, allow_files), step.get("poisson"), given, values)(**values)
    _check_words(path, step, STEP)
    base = _from_text(step) if "text" in step else _named(step, allow_files)
    words = [word for chain in step["transforms"] for word in chain]
    if len(step["transforms"]) > MOST_TRANSFORMS or not all(
        isinstance(word, str) and len(word) <= LONGEST for word in words
    ):
        raise DeclarationError(f"transforms={step['transforms']!r} (expected lists of words)")
    mechanism = Mechanism(base.origin, tuple(map(of_words, step["transforms"])))
    theta = inputs.bind(mechanism.name, mechanism.parameters, step["parameters"])
    left = frozenset(step.get("defaulted", ()))
    at_default = (p.name for p, at in zip(mechanism.parameters, theta, strict=True)
                  if p.default == at or "text" in step)  # fmt: skip  # text holds no defaults
    if not left <= set(at_default):
        raise DeclarationError(
            f"defaulted={step['defaulted']!r} (expected names of parameters at their defaults)"
        )
    return Event(mechanism, theta, left)


def _from_text(step: dict[str, Any]) -> Mechanism:
    """Formulas are read, never run."""
    from mechc.declare.text import declaration_from_text

    words = dict(step["text"])
    words["support"] = tuple(words.get("support", ("-oo", "oo")))
    return load(declaration_from_text(step["mechanism"], **words))


def _named(step: dict[str, Any], allow_files: bool) -> Mechanism:
    """A mechanism that is known by its name, or a file; another text than it had is told."""
    name = step.get("kernel", step["mechanism"])
    if not allow_files and ("kernel" in step or name not in available()):
        raise DeclarationError(
            f"mechanism={name!r} is not one of {', '.join(available())}; files run: "
            "allow_files=True (--allow-files) loads mechanism files and kernels that a run names"
        )
    digest: str | None
    if "kernel" in step:
        found = load(load_kernel(name))
        digest = found.kernel.DIGEST
    else:
        found = load(name)
        digest = found.origin.text_digest if isinstance(found.origin, MechanismFile) else None
    if digest != step.get("digest", digest):
        warnings.warn(
            f"{name}: its file is not the one that the run was written with",
            RunFileWarning,
            stacklevel=2,
        )
    return found


def _asked_again(run: Composition, row: dict[str, Any]) -> Answered:
    """Ask one question of a file again."""
    word = row["ask"]
    check_one_of("ask", word, ASKED)
    at, held = float(row[ASKED[word]]), dict(row["answer"])
    found = ask(run, (word, at))
    record = found.record()
    if all(record[side] == held[side] for side in SIDES):
        verdict = "same digits"
    else:
        (low, high), (was_low, was_high) = _interval(record), _interval(held)
        verdict = "agrees" if was_low <= high and low <= was_high else "contradicts"
    if held.get("adjacency") != record["adjacency"]:
        verdict = "contradicts"
    return Answered(f"{word} at {ASKED[word]} {at:g}", held, found, verdict)


def _interval(record: dict[str, Any]) -> tuple[float, float]:
    """The sides of an answer as it stands in a file, open where nothing is proven."""
    low, high = (math.nan if record[s] is None else float(record[s]) for s in ("lower", "upper"))
    return -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
