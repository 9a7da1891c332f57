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
checks magic, version, kind, length and digest before it hands out a single number. Arrays go
through in pieces, so a memory-mapped state larger than memory can be saved and loaded.

Objects that several threads may use at once: calls on the same object wait for each other.

A filter that two threads charge at the same moment must not lose a charge, and an accountant must
not answer from half a step. The work inside a call is divided among threads where that pays, so
little is lost by taking turns.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechc.composition.inputs import as_path
from mechc.errors import MechcError

Arrays = dict[str, NDArray[Any]]

VERSION = 1
_MAGIC = b"MECHCIND"
_PREFIX = struct.Struct("<8sII")
_DIGEST_BYTES = 32
_PIECE = 1 << 22  # bytes read or written at a time


class StateError(MechcError, ValueError):
    """A state file is damaged, or belongs to another version, kind or population."""


def write(
    path: str | os.PathLike[str],
    kind: str,
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a state file atomically.

    Args:
        path: the file to create or replace.
        kind: what the state belongs to, for example "gdp-filter".
        meta: JSON-serialisable facts; floats survive exactly.
        arrays: C-contiguous arrays of fixed-size dtypes, possibly memory-mapped.

    Raises:
        StateError: no file can be made there.
        OSError: writing failed, as on a full disk; what was there before is still there.
    """
    described = [[n, a.dtype.newbyteorder("<").str, a.shape] for n, a in arrays.items()]
    header = json.dumps({"kind": kind, "meta": dict(meta), "arrays": described}).encode()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        digest = hashlib.sha256()
        for piece in _pieces(header, arrays):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a file that takes the place of another one if the body succeeds.

    Raises:
        StateError: no file can be made there.
    """
    target = as_path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise StateError(f"state file {target}: cannot be written ({error.strerror})") from error
    os.close(handle)
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _pieces(header: bytes, arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    yield _PREFIX.pack(_MAGIC, VERSION, len(header)) + header
    for array in arrays.values():
        flat = array.reshape(-1)
        count = max(1, _PIECE // array.dtype.itemsize)
        for start in range(0, flat.size, count):
            part = flat[start : start + count]
            yield part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes()


class Reader:
    """An opened state file whose digest has been checked.

    Attributes:
        meta: the metadata that was written.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        """Open a state file and verify it.

        Raises:
            StateError: no file that can be read, not a state file, another version or kind,
                truncated or corrupted.
        """
        self._path = os.fspath(as_path(path))
        try:
            self._file: BinaryIO = open(path, "rb")  # noqa: SIM115  closed by __exit__
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror})") from error
        try:
            self._offsets: dict[str, tuple[int, str, tuple[int, ...]]] = {}
            self.meta: dict[str, Any] = self._open(kind)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def expect(self, facts: Mapping[str, Any]) -> None:
        """Raise StateError unless the file was written with these facts."""
        for name, own in facts.items():
            if self.meta.get(name) != own:
                raise self._error(f"{name}={self.meta.get(name)!r}, expected {own!r}")

    @property
    def names(self) -> list[str]:
        """Names of the stored arrays, in the order in which they were written."""
        return list(self._offsets)

    def array(self, name: str) -> NDArray[Any]:
        """Return a stored array, read into memory."""
        out: NDArray[Any] = np.empty(self._offsets[name][2], self.dtype(name))
        self.copy_into(name, out)
        return out

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the dtype of a stored array."""
        return np.dtype(self._offsets[name][1]).newbyteorder("=")

    def copy_into(self, name: str, out: NDArray[Any]) -> None:
        """Fill an array, possibly memory-mapped, with a stored one, piece by piece.

        Raises:
            StateError: the stored array has another shape, or values that `out` cannot hold.
        """
        offset, dtype, shape = self._offsets[name]
        stored = np.dtype(dtype)
        if shape != out.shape or not np.can_cast(stored, out.dtype, "safe"):
            raise self._error(f"{name} is {dtype}{list(shape)}, expected {list(out.shape)}")
        self._file.seek(offset)
        flat = out.reshape(-1)
        count = max(1, _PIECE // out.dtype.itemsize)
        for start in range(0, flat.size, count):
            part = flat[start : start + count]
            part[:] = np.frombuffer(self._file.read(part.size * stored.itemsize), dtype=stored)

    def _error(self, what: str) -> StateError:
        return StateError(f"state file {self._path}: {what}")

    def _open(self, kind: str) -> dict[str, Any]:
        prefix = self._file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
            raise self._error("not a mechc state file, or truncated within its first bytes")
        _, version, length = _PREFIX.unpack(prefix)
        if version != VERSION:
            raise self._error(f"format version {version}, this release reads version {VERSION}")
        header = self._file.read(length)
        if len(header) < length:
            raise self._error("truncated within its header")
        left = os.fstat(self._file.fileno()).st_size - _DIGEST_BYTES
        self._file.seek(0)
        digest = hashlib.sha256()
        while left > 0:
            piece = self._file.read(min(_PIECE, left))
            digest.update(piece)
            left -= len(piece)
        if self._file.read(_DIGEST_BYTES) != digest.digest():
            raise self._error("truncated or corrupted (its SHA-256 does not match its content)")
        described = json.loads(header)
        if described["kind"] != kind:
            raise self._error(f"holds a {described['kind']}, expected a {kind}")
        offset = _PREFIX.size + length
        for name, dtype, shape in described["arrays"]:
            self._offsets[name] = (offset, dtype, tuple(shape))
            offset += np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        return dict(described["meta"])


class Shelf:
    """Arrays by all that they depend on, in a folder that any number of processes share.

    A file is named by the digest of what it holds an answer to, appears whole or not at all, and is
    verified when it is read; a damaged one is made again.
    """

    def __init__(self, folder: str | os.PathLike[str], *about: str) -> None:
        """Remember the folder, which is made if needed, and words that every key begins with."""
        self._folder, self._about = Path(folder), about
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"tables={str(folder)!r}: {error.strerror}") from error

    def take(self, key: Hashable, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a key, all that they depend on; made if they are not there."""
        name = hashlib.sha256(repr((*self._about, key)).encode()).hexdigest()
        path = self._folder / name
        with contextlib.suppress(StateError), Reader(path, "table") as reader:
            return {name: reader.array(name) for name in reader.names}
        made = make()
        write(path, "table", {}, {name: np.ascontiguousarray(a) for name, a in made.items()})
        return made


def taken(shelf: Shelf | None, key: Hashable, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a key from a shelf, if there is one."""
    return make() if shelf is None else shelf.take(key, make)


class TakesTurns:
    """Has a lock of its own, which copies and pickles leave behind."""

    _turn: Any

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the lock before anything else."""
        self = super().__new__(cls)
        self._turn = RLock()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_turn"}


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Object = TypeVar("_Object", bound=TakesTurns)


def in_turn(
    method: Callable[Concatenate[_Object, _Arguments], _Result],
) -> Callable[Concatenate[_Object, _Arguments], _Result]:
    """Let a method wait until no other thread is in one of the object's methods."""

    @wraps(method)
    def waiting(self: _Object, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with self._turn:
            return method(self, *args, **kwargs)

    return waiting
