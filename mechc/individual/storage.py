"""State files: what a filter or a ledger writes to disk, and nothing half-read ever comes back.

Layout, all integers little-endian::

    8 bytes   magic "MECHCIND"
    4 bytes   format version
    4 bytes   length of the header text
    n bytes   header: JSON with kind, metadata and, for each array, name, dtype and shape
    ...       the arrays, C order, one after the other
    32 bytes  SHA-256 of everything before

A file is written under a temporary name in the same directory, flushed to the device and moved
into place with `os.replace`: at any moment the name holds the old state or the new one. A reader
checks magic, version, kind, length and digest before it hands out a single number. Files are
mapped, so that a state larger than memory can be saved and loaded.

Objects that several threads may use at once: calls on the same object wait for each other. A filter
that two threads charge at the same moment must not lose a charge, and an accountant must not answer
from half a step.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mechc.composition.inputs import as_path
from mechc.errors import MechcError, in_words

Arrays = dict[str, NDArray[Any]]
PathLike = str | os.PathLike[str]

VERSION = 2  # of the format; files of others are refused
_MAGIC = b"MECHCIND"
_PREFIX = struct.Struct("<8sII")
_DIGEST_BYTES = 32  # of SHA-256


class StateError(MechcError, ValueError):
    """A state file is damaged, or belongs to another version, kind or population."""


def write(path: PathLike, kind: str, meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a state file atomically: JSON-serialisable facts, and arrays of fixed-size dtypes.

    Raises:
        StateError: no file can be made there.
        OSError: writing failed, as on a full disk; what was there before is still there.
    """
    plain = {n: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for n, a in arrays.items()}
    described = [[n, a.dtype.str, a.shape] for n, a in plain.items()]
    header = json.dumps({"kind": kind, "meta": dict(meta), "arrays": described}).encode()
    parts: list[Any] = [_PREFIX.pack(_MAGIC, VERSION, len(header)), header]
    parts += [a.reshape(-1).view(np.uint8).data for a in plain.values()]
    digest, target = hashlib.sha256(), as_path(path)
    if target.exists() and not target.is_file():
        raise StateError(f"state file {target}: a folder, a pipe or a device (expected a file)")
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise StateError(f"state file {target}: cannot be written ({in_words(error)})") from error
    try:
        with open(handle, "wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class State:
    """What a state file holds: facts, and arrays that are mapped from it, in their order."""

    path: str
    meta: dict[str, Any]
    arrays: Arrays

    def expect(self, facts: Mapping[str, Any]) -> None:
        """Raise StateError unless the file was written with these facts."""
        for name, own in facts.items():
            if self.meta.get(name) != own:
                raise StateError(
                    f"state file {self.path}: {name}={self.meta.get(name)!r}, expected {own!r}"
                )

    def fill(self, out: NDArray[Any], name: str = "totals") -> None:
        """Copy an array to one of the same shape that can hold its values, or raise StateError."""
        stored = self.arrays[name]
        if stored.shape != out.shape or not np.can_cast(stored.dtype, out.dtype, "safe"):
            about = f"{name} is {stored.dtype.str}{list(stored.shape)}"
            raise StateError(f"state file {self.path}: {about}, expected {list(out.shape)}")
        out[...] = stored


def read(path: PathLike, kind: str) -> State:
    """Open a state file and verify it.

    Raises:
        StateError: no file that can be read, not a state file, another version or kind,
            truncated or corrupted.
    """
    name = os.fspath(as_path(path))
    try:
        held = np.memmap(name, np.uint8, "r") if os.path.getsize(name) else np.empty(0, np.uint8)
    except OSError as error:
        raise StateError(f"state file {name}: cannot be read ({in_words(error)})") from error
    prefix, wrong = bytes(held[: _PREFIX.size]), ""
    if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
        wrong = "not a mechc state file, or truncated within its first bytes"
    elif (version := _PREFIX.unpack(prefix)[1]) != VERSION:
        wrong = f"format version {version}, this release reads version {VERSION}"
    elif hashlib.sha256(held[:-_DIGEST_BYTES].data).digest() != bytes(held[-_DIGEST_BYTES:]):
        wrong = "truncated or corrupted (its SHA-256 does not match its content)"
    else:
        at = _PREFIX.size + _PREFIX.unpack(prefix)[2]
        header = json.loads(bytes(held[_PREFIX.size : at]))
        if header["kind"] != kind:
            wrong = f"holds a {header['kind']}, expected a {kind}"
    if wrong:
        raise StateError(f"state file {name}: {wrong}")
    arrays: Arrays = {}
    for label, dtype, shape in header["arrays"]:
        end = at + np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        arrays[label], at = held[at:end].view(dtype).reshape(shape), end
    return State(name, header["meta"], arrays)


class Shelf:
    """Arrays by all that they depend on, in a folder that any number of processes share.

    A file is named by the digest of what it holds an answer to, appears whole or not at all, and is
    verified when it is read; a damaged one is made again. Without a folder nothing is kept.
    """

    def __init__(self, folder: PathLike | None = None, *about: str) -> None:
        """Remember the folder, which is made if needed, and words that every key begins with."""
        try:
            self._folder, self._about = None if folder is None else Path(folder), about
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
        except (OSError, TypeError) as error:
            raise StateError(f"tables={folder!r}: {in_words(error)} (expected a folder)") from error

    def take(self, key: Hashable, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a key, all that they depend on; made if they are not there."""
        if self._folder is None:
            return make()
        path = self._folder / hashlib.sha256(repr((*self._about, key)).encode()).hexdigest()
        with contextlib.suppress(StateError):
            return {name: np.array(array) for name, array in read(path, "table").arrays.items()}
        made = make()
        write(path, "table", {}, made)
        return made


NOWHERE = Shelf()


class TakesTurns:
    """Has a lock of its own, which copies and pickles leave behind.

    What has a budget has it once more in each of them: no two may go on from one.
    """

    _turn: Any

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the lock before anything else."""
        self = super().__new__(cls)
        self._turn = RLock()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_turn"}

    @property
    def _facts(self) -> dict[str, Any]:
        """What it was made for, by name, where that is told."""
        return {}

    def __repr__(self) -> str:
        """Show what it was made for, and of nobody what is spent."""
        facts = ", ".join(f"{name}={value!r}" for name, value in self._facts.items())
        return f"{type(self).__name__}({facts})"


_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_turn(method: _Method) -> _Method:
    """Let a method wait until no other thread is in one of the object's methods."""

    @wraps(method)
    def waiting(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        with self._turn:
            return method(self, *args, **kwargs)

    return cast(_Method, waiting)
