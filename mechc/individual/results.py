"""Results of a population on disk: columns in chunks of people, written once each, safely.

A run may lose workers or its own process at any moment. Next to the results `NAME` stands a
directory `NAME.progress` with what the run is about (`run.json`) and, for every chunk that is
complete, the SHA-256 of its numbers, written after them, and that of the steps they came from. A
chunk counts as done when the numbers on disk still have their digest; anything else is computed
again, and other steps than those of the chunk are refused. Tables that chunks share are there too.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError, UnsupportedError
from mechc.individual.budget import PathLike
from mechc.individual.storage import StateError

Floats = NDArray[np.float64]

COLUMNS = ("lower", "estimate", "upper")
PERSON = "person"  # column of identifiers
FORMATS = (".zarr", ".parquet")


@dataclass(frozen=True)
class Results:
    """Columns `lower`, `estimate` and `upper`, one row a person.

    Attributes:
        path: a Zarr group or a directory of Parquet files.
        people: number of rows.
        chunk: rows in every chunk but the last.
        pieces: number of chunks where they are of any size (then the other two are 0).
    """

    path: str
    people: int
    chunk: int
    pieces: int = 0

    @classmethod
    def open(
        cls, path: PathLike, people: int, chunk: int, about: dict[str, Any], pieces: int = 0
    ) -> Self:
        """Create the results of a run, or continue those of the same run.

        Args:
            path: ends in ".zarr" or ".parquet".
            people: number of rows.
            chunk: rows in every chunk but the last.
            about: JSON-serialisable facts that must match when a run is continued.
            pieces: number of chunks where they are of any size, for Parquet.

        Raises:
            DeclarationError: another format.
            StateError: the results there are those of another run.
            UnsupportedError: the library for the format is not installed.
        """
        made = cls(os.fspath(Path(path).absolute()), people, chunk, pieces)
        formats = FORMATS[1:] if pieces else FORMATS
        if Path(path).suffix not in formats:
            words = " or ".join(f"*{suffix}" for suffix in formats)
            raise DeclarationError(f"output={os.fspath(path)!r} (expected {words})")
        size = {"pieces": pieces} if pieces else {"people": people, "chunk": chunk}
        facts = json.loads(json.dumps({**size, **about}))
        run = made._progress / "run.json"
        if run.exists():
            found = json.loads(run.read_text("utf-8"))
            for name, value in facts.items():
                if found.get(name) != value:
                    raise StateError(
                        f"{path} belongs to another run: {name}={found.get(name)!r}, expected"
                        f" {value!r} (continue with the same arguments, or choose a new output)"
                    )
            return made
        if Path(path).exists():
            raise StateError(f"{path} exists and is not a run that could be continued")
        made._progress.mkdir(parents=True, exist_ok=True)
        made._allocate()
        _write_atomically(run, json.dumps(facts, indent=1))
        return made

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self.pieces or -(-self.people // self.chunk)

    @property
    def tables(self) -> Path:
        """Folder of the tables that chunks share."""
        return self._progress / "tables"

    def rows(self, index: int) -> slice:
        """Return the rows of a chunk."""
        return slice(index * self.chunk, min((index + 1) * self.chunk, self.people))

    def write(
        self, index: int, columns: Floats, given: str = "", names: NDArray[Any] | None = None
    ) -> None:
        """Write a chunk, then the note that it is complete.

        Args:
            index: number of the chunk.
            columns: shape (3, rows of the chunk).
            given: digest of the steps.
            names: identifiers of the people, shape (rows,), for Parquet.
        """
        if self.path.endswith(".zarr"):
            group = library("zarr").open_group(self.path, mode="r+")
            for name, values in zip(COLUMNS, columns, strict=True):
                group[name][self.rows(index)] = values
        else:
            arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
            person = {} if names is None else {PERSON: names}
            table = arrow.table({**person, **dict(zip(COLUMNS, columns, strict=True))})
            temporary = self._part(index).with_suffix(f".{os.getpid()}.temporary")
            parquet.write_table(table, temporary)
            os.replace(temporary, self._part(index))
        _write_atomically(self._note(index), f"{_digest(columns)} {given}")

    def read(self, index: int) -> Floats:
        """Return a chunk, shape (3, rows of the chunk)."""
        if self.path.endswith(".zarr"):
            group = library("zarr").open_group(self.path, mode="r")
            return np.stack([np.asarray(group[name][self.rows(index)]) for name in COLUMNS])
        table = library("pyarrow.parquet").read_table(self._part(index), columns=list(COLUMNS))
        return np.stack([table[name].to_numpy() for name in COLUMNS])

    def is_done(self, index: int) -> bool:
        """Return whether a chunk is complete and undamaged."""
        note = self._note(index)
        if not note.exists():
            return False
        try:
            return _digest(self.read(index)) == note.read_text("ascii").split(" ")[0]
        except Exception:  # whatever a damaged chunk makes its library raise, the answer is no
            return False

    def check(self, index: int, given: str) -> None:
        """Refuse to continue a complete chunk with other steps.

        Args:
            index: number of the chunk.
            given: digest of the steps.

        Raises:
            StateError: they are not those that its numbers came from.
        """
        known = self._note(index).read_text("ascii").split(" ")[1]
        if known != given:
            raise StateError(
                f"{self.path}: the steps of chunk {index} are not those it was computed from"
                " (continue with the same steps, or choose a new output)"
            )

    @property
    def _progress(self) -> Path:
        return Path(self.path + ".progress")

    def _note(self, index: int) -> Path:
        return self._progress / f"{index:06d}"

    def _part(self, index: int) -> Path:
        return Path(self.path) / f"part-{index:06d}.parquet"

    def _allocate(self) -> None:
        if self.path.endswith(".parquet"):
            library("pyarrow")
            Path(self.path).mkdir()
            return
        group = library("zarr").create_group(self.path)
        for name in COLUMNS:
            group.create_array(
                name, shape=(self.people,), chunks=(self.chunk,), dtype="f8", fill_value=np.nan
            )


def _digest(columns: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(columns, "<f8").tobytes()).hexdigest()


def _write_atomically(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def library(name: str) -> Any:
    """Import an optional library, or say which extra has it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = "parquet" if name.startswith("pyarrow") else "dask"
        raise UnsupportedError(
            f"{name} is not installed (expected the extra mechc[{extra}])"
        ) from error
