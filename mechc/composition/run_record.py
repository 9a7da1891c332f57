"""Run files, the writing side: a run, its questions and its answers as one line of JSON.

A run file is one or more such lines, and the run is the composition of all of them; the answers in
a line are about all up to it. So a training loop adds line by line: each is written by one call of
the system, and what a crash leaves of one is told from a whole line by its missing end.
"""

from __future__ import annotations

import json
import os
import platform
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mechc
from mechc.accountants.bound import Bound, plain
from mechc.adjacency import Adjacency
from mechc.composition.inputs import as_epsilon, checked, share
from mechc.errors import CacheError, DeclarationError, in_words
from mechc.protocol import PROTOCOL, Run

FORMAT = 2  # of run files; a reader refuses later ones
MARK = "mechc_run"
BEGUN = f'{{"{MARK}"'.encode()  # what every line begins with
LIBRARIES = ("numpy", "scipy", "numba")
Question = tuple[str, float]
ASKED = {"epsilon": "delta", "delta": "epsilon"}
"""What can be asked in a run file, and where."""


def questions(delta: Any, epsilon: Any) -> list[Question]:
    """Return what is asked: epsilon at every delta and delta at every epsilon, None for nowhere."""
    asked = ("epsilon", delta, partial(share, "run", "delta")), ("delta", epsilon, as_epsilon)
    return [
        (word, at)
        for word, places, check in asked
        if places is not None
        for at in checked(check, places)[0]
    ]


def ask(run: Run, question: Question) -> Bound:
    """Return the answer of a run to one question."""
    word, at = question
    found: Bound = run.epsilon(delta=at) if word == "epsilon" else run.delta(at)
    return found


def line(run: Run, asked: Sequence[Question] = (), whole: Run | None = None) -> str:
    """Return one record: what a run adds, and answers about it, or about the whole of a file."""
    answers = [
        {"ask": word, ASKED[word]: at, "answer": ask(whole or run, (word, at)).record()}
        for word, at in asked
    ]
    steps = [{**event.record(), "count": count} for event, count in run.parts]
    record = {MARK: FORMAT, "versions": versions(), "adjacency": run.claim.adjacency.value,
              "steps": steps, "answers": answers}  # fmt: skip
    return json.dumps(plain(record)) + "\n"


def versions() -> dict[str, Any]:
    """Return what the digits of an answer may depend on."""
    found = {"mechc": mechc.__version__, "protocol": PROTOCOL, "python": platform.python_version()}
    return {**found, **{name: version(name) for name in LIBRARIES}}


def add(path: Path, text: str) -> Path:
    """Add a line to a run file, in the place of what a crash left, and wait for the disk."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise DeclarationError(f"{path}: a pipe or a device (expected a run file)")
            with _alone(descriptor):
                _require_relation(path, _mended(path, descriptor), json.loads(text)["adjacency"])
                data = text.encode()
                while data:
                    data = data[os.write(descriptor, data) :]
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CacheError(f"cannot write {path}: {in_words(error)}") from error
    return path


def _require_relation(path: Path, content: bytes, relation: str) -> None:
    """Refuse a relation that cannot stand beside that of a line of a run file."""
    for other in {*Adjacency} - {Adjacency.ANY, relation} if relation != Adjacency.ANY else ():
        word = json.dumps(other.value).encode()
        if any(word in x and _record(x).get("adjacency") == other for x in content.splitlines()):
            raise DeclarationError(
                f"{path} holds steps for {other.words} neighbours, these are for "
                f"{Adjacency(relation).words} neighbours (expected one relation)"
            )


def _record(line: bytes) -> dict[str, Any]:
    """What a line says, nothing where it is none of ours, or not whole."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _mended(path: Path, descriptor: int) -> bytes:
    """End the last line, or take it away where it is not whole; return what there is."""
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, 0, os.SEEK_SET)
    content = b""
    while part := os.read(descriptor, max(size, 1)):
        content += part
    first, ended, _ = content.lstrip().partition(b"\n")
    last = content.rpartition(b"\n")[2]
    whole = MARK in _record(last)
    # laid out over many lines, or somebody's notes: nothing of these is to be taken away
    ours = MARK in _record(first) if ended else BEGUN.startswith(last[: len(BEGUN)].rstrip(b"\0"))
    if not (ours or whole):
        raise DeclarationError(f"{path}: no lines as run.save writes them (expected each on one)")
    if not content or content.endswith(b"\n"):
        return content
    if whole:
        os.write(descriptor, b"\n")
        return content
    os.ftruncate(descriptor, len(content) - len(last))
    return content[: len(content) - len(last)]


@contextmanager
def _alone(descriptor: int) -> Iterator[None]:
    """Keep other processes that add to the file waiting, where files have locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
