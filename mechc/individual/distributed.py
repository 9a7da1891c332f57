"""Individual epsilons of large populations: chunks of people are independent.

Workers read their steps and write their results themselves; who runs the chunks is exchangeable:
processes of this machine, Dask, any `concurrent.futures.Executor`, or a scheduler of batch jobs
that calls `Run.chunk` with a number. Tables are named by all that they depend on and kept in the
folder of the run, so that numbers do not depend on which worker a chunk met.

A run may lose workers or its own process at any moment. Next to the results `NAME` stands a
directory `NAME.progress` with what the run is about (`run.json`) and, for every chunk that is
complete, the SHA-256 of its numbers, written after them, and that of the steps they came from. A
chunk counts as done when the numbers on disk still have their digest; anything else is computed
again, and other steps than those of the chunk are refused.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import multiprocessing
import os
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.composition.inputs import as_count, as_path, text_in
from mechc.errors import (
    DeclarationError,
    MechcError,
    NumericError,
    UnsupportedError,
    as_flag,
    check_one_of,
    in_words,
    library,
)
from mechc.individual.accountant import IndividualAccountant, bar
from mechc.individual.budget import as_floats, integer, log_target, number, real_array
from mechc.individual.family import Family
from mechc.individual.storage import PathLike, StateError
from mechc.protocol import Floats

COLUMNS = ("lower", "estimate", "upper")
ROWS = PERSON, STEP, VALUE = "person", "step", "value"  # columns of rows
CHUNK = 250_000  # people, for arrays that are not chunked yet
NEEDED = {"mechanism", "steps", "output", "parameter", "span", "delta"}  # words of a file, and
KINDS: dict[str, Any] = {"rtol": number, "buckets": integer, "journal": integer}
OPTIONAL = {"sampling_rate", "bound", "counts", *KINDS}  # further ones
MOST_STEPS = 10**7  # of rows, for a matrix with a column for each
ATTEMPTS = 20  # how often chunks are submitted that a lost worker took with it

_LAST: list[Family] = []  # whose tables in memory the next chunk will want


@dataclass(frozen=True)
class Results:
    """Columns `lower`, `estimate` and `upper`, one row a person.

    Attributes:
        path: a Zarr group or a directory of Parquet files, which may be a URL of fsspec.
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
        """Create the results of a run, or continue those of the run with the same facts `about` it.

        Raises:
            DeclarationError: the path ends in neither ".zarr" nor ".parquet", or is a URL and not
                the latter.
            StateError: the results there are those of another run.
            UnsupportedError: the library for the format is not installed.
        """
        text = os.fspath(as_path(path, "output")) if not isinstance(path, str) else path
        remote = "://" in text
        made = cls(text if remote else os.fspath(Path(text).absolute()), people, chunk, pieces)
        if Path(text).suffix not in ((".parquet",) if pieces or remote else (".zarr", ".parquet")):
            words = "*.parquet" if pieces or remote else "*.zarr or *.parquet"
            raise DeclarationError(f"output={text!r} (expected {words})")
        size = {"pieces": pieces} if pieces else {"people": people, "chunk": chunk}
        facts = json.loads(json.dumps({**size, **about}))
        if made._notes.has("run.json"):
            try:
                found = dict(json.loads(made._notes.read("run.json")))
            except (TypeError, ValueError) as error:
                raise StateError(f"{made._notes.path}: run.json is damaged ({error})") from error
            for name, value in facts.items():
                if found.get(name) != value:
                    raise StateError(
                        f"{path} belongs to another run: {name}={found.get(name)!r}, expected"
                        f" {value!r} (continue with the same arguments, or choose a new output)"
                    )
        elif Folder(made.path).has():
            raise StateError(f"{path} exists and is not a run that could be continued")
        else:
            made._notes.write("run.json", json.dumps(facts, indent=1).encode())
        if made._is_zarr:  # which is made whole where a run was killed before it was
            about = {"shape": (people,), "chunks": (chunk,), "dtype": "f8", "fill_value": np.nan}
            with _writing(made.path):
                group = library("zarr").open_group(made.path, mode="a")
                for name in COLUMNS:
                    group.require_array(name, **about)
        else:
            library("pyarrow")
        return made

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self.pieces or -(-self.people // self.chunk)

    @property
    def tables(self) -> Path | None:
        """Folder of the tables that processes share, None where that is no file system here."""
        return None if "://" in self.path else Path(self._notes.path) / "tables"

    def rows(self, index: int) -> slice:
        """Return the rows of a chunk."""
        return slice(index * self.chunk, min((index + 1) * self.chunk, self.people))

    def write(
        self, index: int, columns: Floats, given: str = "", names: NDArray[Any] | None = None
    ) -> None:
        """Write a chunk, shape (3, rows), then the note that it is complete, and of which steps.

        Identifiers of the people, shape (rows,), go into Parquet files.
        """
        if self._is_zarr:
            group = library("zarr").open_group(self.path, mode="r+")
            for name, values in zip(COLUMNS, columns, strict=True):
                group[name][self.rows(index)] = values
        else:
            person = {} if names is None else {PERSON: names}
            arrays = {**person, **dict(zip(COLUMNS, columns, strict=True))}
            content = io.BytesIO()
            library("pyarrow.parquet").write_table(library("pyarrow").table(arrays), content)
            Folder(self.path).write(_part(index), content.getvalue())
        self._notes.write(f"{index:06d}", f"{_digest(columns)} {given}".encode())

    def read(self, index: int) -> Floats:
        """Return a chunk, shape (3, rows of the chunk)."""
        if self._is_zarr:
            group = library("zarr").open_group(self.path, mode="r")
            return np.stack([np.asarray(group[name][self.rows(index)]) for name in COLUMNS])
        content = io.BytesIO(Folder(self.path).read(_part(index)))
        table = library("pyarrow.parquet").read_table(content, columns=list(COLUMNS))
        return np.stack([table[name].to_numpy() for name in COLUMNS])

    def is_done(self, index: int) -> bool:
        """Return whether a chunk is complete and undamaged."""
        try:
            return _digest(self.read(index)) == self._digests(index)[0]
        except Exception:  # whatever a damaged chunk makes its library raise, the answer is no
            return False

    def check(self, index: int, given: str) -> None:
        """Refuse to continue a complete chunk with other steps, by their digest."""
        if self._digests(index)[1] != given:
            raise StateError(
                f"{self.path}: the steps of chunk {index} are not those it was computed from"
                " (continue with the same steps, or choose a new output)"
            )

    @property
    def _is_zarr(self) -> bool:
        return self.path.endswith(".zarr")

    @property
    def _notes(self) -> Folder:
        return Folder(self.path + ".progress")

    def _digests(self, index: int) -> list[str]:
        """Digests of the numbers of a complete chunk, and of its steps."""
        return self._notes.read(f"{index:06d}").decode("ascii").split(" ")


@dataclass(frozen=True)
class Folder:
    """Small files that appear whole or not at all, in a directory or wherever fsspec finds them."""

    path: str

    def has(self, name: str = "") -> bool:
        """Return whether there is such a file, or the folder itself."""
        system, root = self._opened
        return bool(system.exists(f"{root}/{name}".rstrip("/")))

    def read(self, name: str) -> bytes:
        """Return what is in a file."""
        system, root = self._opened
        return bytes(system.cat_file(f"{root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file, and the folder where that matters."""
        system, root = self._opened
        with _writing(root):
            system.makedirs(root, exist_ok=True)
            temporary = f"{root}/.{name}.{uuid4().hex}"
            system.pipe_file(temporary, content)
            system.mv(temporary, f"{root}/{name}")

    @property
    def _opened(self) -> tuple[Any, str]:
        """The file system and the path on it."""
        try:
            system, root = library("fsspec").url_to_fs(self.path)
        except (ImportError, ValueError) as error:  # of a protocol that is not there
            raise UnsupportedError(f"{self.path}: {error}") from error
        return system, root


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Say in words where a file system refuses."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise StateError(f"cannot write {path}: {in_words(error)}") from error


@contextmanager
def _reading(path: object) -> Iterator[None]:
    """Say in words what is wrong with a file of rows, whatever its library makes of it."""
    try:
        yield
    except MechcError:
        raise
    except (OSError, TypeError, ValueError) as error:
        raise DeclarationError(f"{path}: {error} (expected rows {', '.join(ROWS)})") from error


def _part(index: int) -> str:
    return f"part-{index:06d}.parquet"


def _digest(numbers: Floats, names: object = "") -> str:
    found = hashlib.sha256(np.ascontiguousarray(numbers, "<f8").tobytes())
    found.update(str(names).encode())
    return found.hexdigest()


@dataclass(frozen=True)
class Chunk:
    """What a worker needs to know of a chunk of people, and of what everybody is asked."""

    index: int
    results: Results
    family: Family
    counts: tuple[int, ...]  # how often each step is repeated
    delta: float
    options: dict[str, Any]  # of `IndividualAccountant`, as far as they were given
    source: Any  # what Dask computes to steps, (people, steps), or the path of a file of rows
    names: NDArray[Any] | None  # of the people, None where there are none or the rows have them

    def run(self) -> int:
        """Account for the chunk, or see that its steps are still the same; return its number.

        Raises:
            DeclarationError: a value among the steps is not acceptable.
            StateError: the chunk was computed from other steps.
        """
        names, given = self._read()
        steps = as_floats(given, self.family.worst > self.family.best)
        digest = _digest(steps, None if names is None else names.tolist())
        if self.results.is_done(self.index):
            self.results.check(self.index, digest)
        else:
            self.results.write(self.index, self._answer(steps), digest, names)
        return self.index

    def _read(self) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        """Return identifiers and steps."""
        if isinstance(self.source, Path):
            with _reading(self.source):
                return _matrix(self.source, len(self.counts), self.family.untouched)
        return self.names, np.asarray(self.source.compute(scheduler="synchronous"))

    def _answer(self, steps: Floats) -> Floats:
        """Return lower, estimate and upper of everybody, shape (3, people)."""
        family = self.family.here()
        _LAST[:] = [family]
        about = {"parameter": family.parameter, "span": family.span, **self.options}
        accountant = IndividualAccountant(
            family, people=steps.shape[0], tables=self.results.tables, **about
        )
        for values, count in zip(steps.T, self.counts, strict=True):
            accountant.step(np.ascontiguousarray(values), count=count)
        bound = accountant.epsilon(self.delta)
        return np.stack([bound.lower, bound.estimate, bound.upper])


@dataclass(frozen=True)
class Run:
    """A population cut into chunks, and what everybody in it is asked."""

    pieces: Sequence[Chunk]
    results: Results

    @classmethod
    def open(
        cls, mechanism: Any, steps: Any, output: PathLike, *, parameter: str,
        span: tuple[float, float], delta: float, counts: Sequence[int] | None = None,
        identifiers: ArrayLike | None = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Begin a run, or continue that of the same arguments; see `account` for them."""
        if unknown := options.keys() - KINDS.keys():
            raise DeclarationError(f"unknown {sorted(unknown)} (expected {', '.join(KINDS)})")
        options = {name: KINDS[name](name, value) for name, value in options.items()}
        log_target(delta := number("delta", delta))
        family = Family.of(mechanism, parameter, span)
        rows = isinstance(steps, str | os.PathLike) and (
            Path(steps).suffix == ".parquet" or any(Path(steps).glob("*.parquet"))
        )
        with _reading(steps) if rows else nullcontext():
            sources, people, chunk, columns = _files(steps) if rows else _blocks(steps)
        given = (1,) * columns if counts is None else counts
        repeats = tuple(as_count(c, "counts") for c in given) if np.iterable(given) else ()
        if len(repeats) != columns or min(repeats, default=1) < 1:
            raise DeclarationError(f"counts={counts!r} (expected {columns} integers >= 1)")
        names = None if identifiers is None else np.asarray(identifiers)
        if names is not None and (rows or names.shape != (people,)):
            raise DeclarationError(f"identifiers: expected shape ({people},), with an array")
        if names is not None and Path(output).suffix != ".parquet":
            raise DeclarationError("identifiers: expected output=*.parquet")
        about = {
            "mechanism": family.identity, "parameter": family.parameter, "span": family.span,
            "counts": repeats, "delta": delta, **dict.fromkeys(KINDS), **options,
        }  # fmt: skip
        results = Results.open(output, people, chunk, about, len(sources) if rows else 0)
        asked = results, family, repeats, delta, options
        own = [None if names is None else names[results.rows(i)] for i in range(len(sources))]
        parts = enumerate(zip(sources, own, strict=True))
        return cls([Chunk(i, *asked, source, name) for i, (source, name) in parts], results)

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Begin or continue the run that a TOML file describes.

        Its words are the arguments of `account`: mechanism (the name of one of `available()`: a run
        is data, a mechanism file is code), steps, output, parameter, span, delta, counts, rtol,
        buckets, journal; and sampling_rate, of Poisson sampling, and the table [bound] of
        parameters. Relative paths begin where the command runs.

        Raises:
            DeclarationError: the file cannot be read, or has other words.
        """
        from mechc.composition.mechanism import available, load
        from mechc.composition.operations import poisson

        try:
            words = tomllib.loads(text_in(as_path(path)))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise DeclarationError(f"{path}: cannot be read ({in_words(error)})") from error
        missing, other = NEEDED - words.keys(), words.keys() - NEEDED - OPTIONAL
        if missing or other:
            raise DeclarationError(
                f"{path}: missing {sorted(missing)}, unknown {sorted(other)} (expected"
                f" {', '.join(sorted(NEEDED))}; optional {', '.join(sorted(OPTIONAL))})"
            )
        check_one_of("mechanism", name := words.pop("mechanism"), available())
        if not isinstance(bound := words.pop("bound", {}), dict):
            raise DeclarationError(f"bound={bound!r} (expected a table of parameters)")
        mechanism = load(name).bind(**bound)
        if (rate := words.pop("sampling_rate", None)) is not None:
            mechanism = poisson(mechanism, sampling_rate=rate)
        return cls.open(mechanism, words.pop("steps"), words.pop("output"), **words)

    def chunk(self, index: int) -> None:
        """Account for the chunk of a number here; nothing is computed if that has been done.

        Raises:
            DeclarationError: there is no such chunk, or a value among the steps is not acceptable.
            StateError: it was computed from other steps.
        """
        if not integer("index", index) < self.results.chunks:
            raise DeclarationError(f"index={index!r} (expected 0 to {self.results.chunks - 1})")
        self.pieces[index].run()


def account(
    mechanism: Any, steps: Any, output: PathLike, *, executor: Executor | None = None,
    address: str | None = None, workers: int | None = None, progress: bool = True, **asked: Any,
) -> Results:  # fmt: skip
    """Write everybody's epsilon at delta to a Zarr group or to Parquet files.

    Called again with the same arguments it computes what is missing; chunks that are complete are
    read again to check that their steps are the same. Each worker holds one chunk of people at a
    time.

    Args:
        mechanism: a mechanism with all parameters bound but one, or a `Family`.
        steps: parameter of each step for each person, shape (people, steps): a Dask array, whose
            chunks of people are kept, a NumPy array, or the path of a Zarr array; or the path of a
            folder of Parquet files (*.parquet) with rows (person, step, value), step counted from
            0, in which each person is in one file and files do not overlap: a file is a chunk.
            inf (0 for a parameter that grows with the privacy loss), or no row, means not touched.
        output: path that ends in ".zarr" or ".parquet", on a file system all workers see; or a URL
            of fsspec that ends in ".parquet" (s3://bucket/name.parquet), whose workers keep tables
            in memory.
        executor: who runs the chunks, instead of processes of this machine.
        address: of a Dask scheduler whose workers run them.
        workers: processes of this machine, one a core by default; 0 for none but this one.
        progress: show a progress bar.
        **asked: parameter (the free one), span (its range) and delta (in [1e-250, 1)), which are
            needed; counts (how often each step is repeated, shape (steps,); once by default),
            identifiers (what people are called in the column `person` of Parquet output, shape
            (people,); those of rows are carried over by themselves), and rtol, buckets and journal
            as for `IndividualAccountant`.

    Returns:
        The results.

    Raises:
        DeclarationError: an argument or a value among the steps is not acceptable.
        StateError: the output holds something else, or answers to other steps.
        UnsupportedError: Dask, or the library of the format, is not installed.
        NumericError: workers were lost too often; what is complete stays, and a further call
            continues.
    """
    if not isinstance(executor, Executor | None):
        raise DeclarationError(f"executor={executor!r} (expected a concurrent.futures.Executor)")
    if workers is not None:
        integer("workers", workers)
    shown = as_flag("progress", progress)
    run = Run.open(mechanism, steps, output, **asked)
    lost: tuple[type[BaseException], ...] = ()  # what says that workers were lost
    with ExitStack() as open_:
        tell = open_.enter_context(bar("chunks of people", run.results.chunks, shown))
        if executor is not None or (address is None and workers == 0):
            make: Any = partial(nullcontext, executor or SimpleNamespace(map=map))
        elif address is not None:
            distributed = library("distributed")
            try:
                client = open_.enter_context(distributed.Client(address))
            except (OSError, TypeError, ValueError) as error:
                raise DeclarationError(
                    f"address={address!r}: {error} (expected that of a Dask scheduler)"
                ) from error
            make = partial(client.get_executor, pure=False)
            lost = (BrokenExecutor, distributed.KilledWorker)
        else:
            spawn = multiprocessing.get_context("spawn")
            make, lost = partial(ProcessPoolExecutor, workers, spawn, _follow), (BrokenExecutor,)
        pieces = run.pieces
        for _ in range(ATTEMPTS):
            try:
                with make() as pool:
                    for _ in pool.map(Chunk.run, pieces):
                        tell(advance=1)
                return run.results
            except lost:
                pieces = [piece for piece in pieces if not run.results.is_done(piece.index)]
    todo = [piece.index for piece in pieces[:5]]
    raise NumericError(f"workers were lost while computing chunks {todo}; call again")


def _follow() -> None:
    """Let a worker process end when the one that started it has."""

    def ended() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=ended, daemon=True).start()


def _blocks(steps: Any) -> tuple[Sequence[Any], int, int, int]:
    """Return sources of equal chunks of people, people, people a chunk, and steps."""
    dask, array = library("dask.array"), steps
    if isinstance(steps, str | os.PathLike):
        try:
            array = dask.from_zarr(os.fspath(steps))
        except (OSError, ValueError) as error:
            raise DeclarationError(
                f"steps={os.fspath(steps)!r} (expected a Zarr array, or a folder of *.parquet"
                " files, that is there)"
            ) from error
    elif not hasattr(steps, "to_delayed"):
        array = np.asarray(steps)
    known = all(size > 0 for size in array.shape)  # of some arrays Dask does not know it
    if array.ndim != 2 or not known or array.dtype.kind not in "fiu":
        raise DeclarationError(
            f"steps has shape {array.shape} and dtype {array.dtype} (expected real numbers of"
            " shape (people, steps))"
        )
    if isinstance(array, np.ndarray):
        array = dask.from_array(array, (CHUNK, -1))
    array = array.rechunk({0: max(array.chunks[0]), 1: -1})
    return array.to_delayed().ravel(), array.shape[0], array.chunks[0][0], array.shape[1]


def _files(path: PathLike) -> tuple[Sequence[Any], int, int, int]:
    """Return files of rows, two zeros, and the number of steps."""
    parquet, files = library("pyarrow.parquet"), sorted(Path(path).absolute().glob("*.parquet"))
    ends, last = [], -1
    for file in files:
        about = parquet.ParquetFile(file).metadata
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        where = {name: i for i, name in enumerate(about.schema.names)}
        if not {*ROWS} <= {*where}:
            raise DeclarationError(f"{file}: columns {sorted(where)} (expected {', '.join(ROWS)})")
        person, step = ([g.column(where[c]).statistics for g in groups] for c in ROWS[:2])
        if not groups or any(s is None or not s.has_min_max for s in (*person, *step)):
            raise DeclarationError(f"{file}: no rows, or no statistics of person and step")
        first, most = min(s.min for s in step), max(s.max for s in step)
        if not 0 <= first <= most < MOST_STEPS:
            raise DeclarationError(f"{file}: step {first} to {most} (expected 0 to {MOST_STEPS})")
        ends.append((min(s.min for s in person), max(s.max for s in person), file))
        last = max(last, int(most))
    if not files:
        raise DeclarationError(f"steps={str(path)!r} (expected a folder of *.parquet files)")
    for (_, high, one), (low, _, other) in itertools.pairwise(sorted(ends)):
        if not high < low:
            raise DeclarationError(f"{one} and {other} may hold the same person (person={low!r})")
    return files, 0, 0, last + 1


def _matrix(file: Path, steps: int, untouched: float) -> tuple[NDArray[Any], Floats]:
    """Return identifiers and steps of the people in a file of rows."""
    table = library("pyarrow.parquet").read_table(file, columns=list(ROWS))
    person, step, value = (table[name].to_numpy() for name in ROWS)
    with np.errstate(invalid="ignore"):
        whole = step.astype(np.int64)
    if table[PERSON].null_count or not ((person == person).all() and (whole == step).all()):
        raise DeclarationError(f"{file}: a row without person, or with a step that is no integer")
    if not ((whole >= 0) & (whole < steps)).all():  # the file is another than when it was found
        raise DeclarationError(f"{file}: a step that is not one of {steps} (expected 0 and up)")
    names, place = np.unique(person, return_inverse=True)
    out, seen = np.full((names.size, steps), untouched), place * steps + whole
    if np.unique(seen).size < seen.size:
        raise DeclarationError(f"{file}: a person has two values for the same step")
    out.reshape(-1)[seen] = as_floats(real_array(VALUE, value), untouched == 0.0)
    return names, out
