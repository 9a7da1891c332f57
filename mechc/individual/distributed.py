"""Individual epsilons of large populations: chunks of people are independent.

Every chunk is accounted for from its own steps. Tables are named by all that they depend on, kept
in the folder of the run and found there by whoever needs them next, so that numbers do not depend
on which worker a chunk met, on what that worker did before, or on how often it had to start again.
Workers write their results themselves (`Results`); through the scheduler go only indices. Who runs
the chunks is exchangeable: Dask, any `concurrent.futures.Executor`, or a scheduler of batch jobs
that calls `chunk` with a number.

Results of a population on disk: columns in chunks of people, written once each, safely.

A run may lose workers or its own process at any moment. Next to the results `NAME` stands a
directory `NAME.progress` with what the run is about (`run.json`) and, for every chunk that is
complete, the SHA-256 of its numbers, written after them, and that of the steps they came from. A
chunk counts as done when the numbers on disk still have their digest; anything else is computed
again, and other steps than those of the chunk are refused. Tables that chunks share are there too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import json
import os
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.individual.accountant import BUCKETS, IndividualAccountant
from mechc.individual.budget import PathLike, as_floats
from mechc.individual.family import Family
from mechc.individual.progress import bar
from mechc.individual.storage import StateError

Floats = NDArray[np.float64]

COLUMNS = ("lower", "estimate", "upper")
PERSON = "person"  # column of identifiers
FORMATS = (".zarr", ".parquet")
CHUNK = 250_000  # people, for arrays that are not chunked yet
NEEDED = {"mechanism", "steps", "output", "parameter", "span", "delta"}  # words of a file, and
OPTIONAL = {"sampling_rate", "bound", "counts", "rtol", "buckets", "journal"}  # further ones
AHEAD = 8  # chunks that an executor is given at a time
ROWS = (PERSON, "step", "value")  # columns of rows
ATTEMPTS = 5  # how often chunks are submitted that a lost worker took with it
_FAILURES = 20  # workers a chunk may lose before the scheduler of a local cluster gives it up

_LAST: list[Family] = []  # whose tables in memory the next chunk will want


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


@dataclass(frozen=True)
class Question:
    """What every chunk is asked.

    Attributes:
        family: the mechanism along its parameter.
        counts: how often each step is repeated.
        delta: the delta of the epsilons.
        rtol, buckets, journal: as for `IndividualAccountant`.
    """

    family: Family
    counts: tuple[int, ...]
    delta: float
    rtol: float
    buckets: int
    journal: int

    def doubles(self, steps: NDArray[Any]) -> Floats:
        """Return steps as doubles, rounded towards more privacy loss where they are none."""
        return as_floats(steps, self.family.worst > self.family.best)

    def answer(self, steps: NDArray[Any], tables: PathLike | None = None) -> Floats:
        """Return lower, estimate and upper of everybody in a chunk, shape (3, people).

        Args:
            steps: parameter of each step, shape (people, steps).
            tables: folder of the tables that chunks share.
        """
        family = self.family.here()
        _LAST[:] = [family]
        accountant = IndividualAccountant(
            family,
            parameter=family.parameter,
            people=steps.shape[0],
            span=family.span,
            rtol=self.rtol,
            buckets=self.buckets,
            journal=self.journal,
            tables=tables,
        )
        for values, count in zip(steps.T, self.counts, strict=True):
            accountant.step(np.ascontiguousarray(values), count=count)
        bound = accountant.epsilon(self.delta)
        return np.stack([bound.lower, bound.estimate, bound.upper])

    @property
    def about(self) -> dict[str, Any]:
        """What must match when a run is continued."""
        family = self.family
        return {
            "mechanism": family.identity,
            "parameter": family.parameter,
            "span": list(family.span),
            "counts": list(self.counts),
            "delta": self.delta,
            "rtol": self.rtol,
            "buckets": self.buckets,
            "journal": self.journal,
        }


@dataclass(frozen=True)
class Run:
    """A population cut into chunks, and what everybody in it is asked.

    Attributes:
        question: asked of every chunk.
        pieces: delayed arrays of steps, or delayed (identifiers, steps), one a chunk.
        results: where answers go.
        names: identifiers of the people, shape (people,), None where there are none or where they
            come with the steps.
    """

    question: Question
    pieces: Sequence[Any]
    results: Results
    names: NDArray[Any] | None

    @classmethod
    def open(
        cls,
        mechanism: Any,
        steps: Any,
        output: PathLike,
        *,
        parameter: str,
        span: tuple[float, float],
        delta: float,
        counts: Sequence[int] | None = None,
        rtol: float = 1e-4,
        buckets: int = BUCKETS,
        journal: int = 1 << 28,
        identifiers: ArrayLike | None = None,
    ) -> Self:
        """Begin a run, or continue that of the same arguments; see `account` for them."""
        if not 1e-250 <= delta < 1.0:
            raise DeclarationError(f"delta={delta!r} (expected 1e-250 <= delta < 1)")
        family = mechanism
        if not isinstance(mechanism, Family):
            family = Family.of(mechanism, parameter, span)
        rows = isinstance(steps, str | os.PathLike) and Path(steps).suffix == ".parquet"
        pieces, people, chunk, columns = _files(steps, family) if rows else _blocks(steps)
        repeats = (1,) * columns if counts is None else tuple(int(c) for c in counts)
        if len(repeats) != columns or min(repeats, default=1) < 1:
            raise DeclarationError(f"counts={counts!r} (expected {columns} integers >= 1)")
        names = None if identifiers is None else np.asarray(identifiers)
        if names is not None and (rows or names.shape != (people,)):
            raise DeclarationError(f"identifiers: expected shape ({people},), with an array")
        question = Question(family, repeats, float(delta), float(rtol), int(buckets), int(journal))
        number = len(pieces) if rows else 0
        results = Results.open(output, people, chunk, question.about, number)
        if names is not None and not results.path.endswith(".parquet"):
            raise DeclarationError("identifiers: expected output=*.parquet")
        return cls(question, pieces, results, names)

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
            words = tomllib.loads(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DeclarationError(f"{path}: cannot be read ({error})") from error
        missing, other = NEEDED - words.keys(), words.keys() - NEEDED - OPTIONAL
        if missing or other:
            raise DeclarationError(
                f"{path}: missing {sorted(missing)}, unknown {sorted(other)} (expected"
                f" {', '.join(sorted(NEEDED))}; optional {', '.join(sorted(OPTIONAL))})"
            )
        if (name := words.pop("mechanism")) not in available():
            raise DeclarationError(f"mechanism={name!r} (expected one of {', '.join(available())})")
        mechanism = load(name).bind(**words.pop("bound", {}))
        if (rate := words.pop("sampling_rate", None)) is not None:
            mechanism = poisson(mechanism, sampling_rate=rate)
        return cls.open(mechanism, words.pop("steps"), words.pop("output"), **words)

    def of(self, index: int) -> NDArray[Any] | None:
        """Return the identifiers of a chunk."""
        return None if self.names is None else self.names[self.results.rows(index)]

    def chunk(self, index: int) -> None:
        """Account for one chunk here; nothing is computed if that has been done.

        Args:
            index: number of the chunk.

        Raises:
            DeclarationError: there is no such chunk, or a value among the steps is not acceptable.
            StateError: it was computed from other steps.
        """
        if not 0 <= index < self.results.chunks:
            raise DeclarationError(f"index={index!r} (expected 0 to {self.results.chunks - 1})")
        given = self.pieces[index].compute(scheduler="synchronous")
        _chunk(given, index, self.question, self.results, self.of(index))


def account(
    mechanism: Any,
    steps: Any,
    output: PathLike,
    *,
    parameter: str,
    span: tuple[float, float],
    delta: float,
    counts: Sequence[int] | None = None,
    rtol: float = 1e-4,
    buckets: int = BUCKETS,
    journal: int = 1 << 28,
    identifiers: ArrayLike | None = None,
    executor: Executor | None = None,
    address: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Results:
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
        output: path that ends in ".zarr" or ".parquet", on a file system all workers see.
        parameter: the free parameter.
        span: its range, as for `IndividualAccountant`.
        delta: in [1e-250, 1).
        counts: how often each step is repeated, shape (steps,); once by default.
        rtol: relative width to aim for.
        buckets: number of buckets of the grid.
        journal: bytes of steps a chunk may keep for refinement.
        identifiers: what people are called in the column `person` of Parquet output, shape
            (people,); those of the rows are carried over by themselves.
        executor: who runs the chunks, instead of Dask.
        address: of an existing scheduler; a local cluster of processes by default.
        workers: processes of the local cluster, one a core by default; 0 for none at all.
        progress: show a progress bar.

    Returns:
        The results.

    Raises:
        DeclarationError: an argument or a value among the steps is not acceptable.
        StateError: the output holds something else, or answers to other steps.
        UnsupportedError: Dask, or the library of the format, is not installed.
        NumericError: workers were lost too often; what is complete stays, and a further call
            continues.
    """
    run = Run.open(
        mechanism, steps, output, parameter=parameter, span=span, delta=delta, counts=counts,
        rtol=rtol, buckets=buckets, journal=journal, identifiers=identifiers,
    )  # fmt: skip
    with bar("chunks of people", run.results.chunks, progress) as tell:
        if executor is not None:
            _execute(executor, run, tell)
        elif workers == 0 and address is None:
            for i in range(run.results.chunks):
                run.chunk(i)
                tell(advance=1)
        else:
            with _client(address, workers) as client:
                _submit(client, run, tell)
    return run.results


def _chunk(
    given: Any, index: int, question: Question, results: Results, names: NDArray[Any] | None
) -> int:
    """Account for a chunk, or see that its steps are still the same."""
    if isinstance(given, tuple):
        names, given = given
    steps = question.doubles(given)
    digest = hashlib.sha256(np.ascontiguousarray(steps, "<f8").tobytes())
    digest.update(repr(None if names is None else names.tolist()).encode())
    if results.is_done(index):
        results.check(index, digest.hexdigest())
    else:
        numbers = question.answer(steps, results.tables)
        results.write(index, numbers, digest.hexdigest(), names)
    return index


def _execute(executor: Executor, run: Run, tell: Any) -> None:
    """Keep a few chunks in flight until all are done."""
    waiting, flying = iter(range(run.results.chunks)), set[Future[int]]()
    try:
        while True:
            for i in itertools.islice(waiting, AHEAD - len(flying)):
                given = run.pieces[i].compute(scheduler="synchronous")
                work = (given, i, run.question, run.results, run.of(i))
                flying.add(executor.submit(_chunk, *work))
            if not flying:
                return
            done, flying = wait(flying, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                tell(advance=1)
    finally:
        for future in flying:
            future.cancel()


def _submit(client: Any, run: Run, tell: Any) -> None:
    """Keep a few chunks per worker in flight until all are done."""
    dask, cluster = _dask()
    results, todo = run.results, list(range(run.results.chunks))

    def task(i: int) -> Any:
        return dask.delayed(_chunk)(run.pieces[i], i, run.question, results, run.of(i))

    for _ in range(ATTEMPTS):
        waiting = iter(todo)
        ahead = 2 * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        first = [task(i) for i in itertools.islice(waiting, ahead)]
        flying = cluster.as_completed(client.compute(first), raise_errors=False)
        for future in flying:
            if future.status == "finished":
                tell(advance=1)
            elif not isinstance(future.exception(), cluster.KilledWorker):
                raise future.exception()
            for i in itertools.islice(waiting, 1):
                flying.add(client.compute(task(i)))
        todo = [i for i in todo if not results.is_done(i)]
        if not todo:
            return
    raise NumericError(f"workers were lost while computing chunks {todo[:5]}; call again")


def _blocks(steps: Any) -> tuple[Sequence[Any], int, int, int]:
    """Return equal chunks of people as delayed arrays, people, people a chunk, and steps."""
    da = _dask()[0].array
    if isinstance(steps, str | os.PathLike):
        if not Path(steps).exists():
            raise DeclarationError(f"steps={str(steps)!r} (expected an array that is there)")
        steps = da.from_zarr(os.fspath(steps))
    array = steps if isinstance(steps, da.Array) else np.asarray(steps)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiu":
        raise DeclarationError(
            f"steps has shape {array.shape} and dtype {array.dtype} (expected real numbers of"
            " shape (people, steps))"
        )
    if not isinstance(array, da.Array):
        array = da.from_array(array, (CHUNK, -1))
    array = array.rechunk({0: max(array.chunks[0]), 1: -1})
    return array.to_delayed().ravel(), array.shape[0], array.chunks[0][0], array.shape[1]


def _files(path: PathLike, family: Family) -> tuple[Sequence[Any], int, int, int]:
    """Return files of rows as delayed (identifiers, steps), two zeros, and the number of steps."""
    parquet, files = library("pyarrow.parquet"), sorted(Path(path).glob("*.parquet"))
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
        if min(s.min for s in step) < 0:
            raise DeclarationError(f"{file}: step {min(s.min for s in step)} (expected >= 0)")
        ends.append((min(s.min for s in person), max(s.max for s in person), file))
        last = max(last, *(int(s.max) for s in step))
    if not files:
        raise DeclarationError(f"steps={str(path)!r} (expected a folder of *.parquet files)")
    for (_, high, one), (low, _, other) in itertools.pairwise(sorted(ends)):
        if not high < low:
            raise DeclarationError(f"{one} and {other} may hold the same person (person={low!r})")
    delayed = _dask()[0].delayed(_matrix)
    return [delayed(f, last + 1, family.untouched) for f in files], 0, 0, last + 1


def _matrix(file: Path, steps: int, untouched: float) -> tuple[NDArray[Any], Floats]:
    """Return identifiers and steps of the people in a file of rows."""
    table = library("pyarrow.parquet").read_table(file, columns=list(ROWS))
    person, step, value = (table[name].to_numpy() for name in ROWS)
    names, place = np.unique(person, return_inverse=True)
    out, seen = np.full((names.size, steps), untouched), place * steps + step.astype(np.int64)
    if np.unique(seen).size < seen.size:
        raise DeclarationError(f"{file}: a person has two values for the same step")
    out.reshape(-1)[seen] = as_floats(value, untouched == 0.0)
    return names, out


@contextlib.contextmanager
def _client(address: str | None, workers: int | None) -> Iterator[Any]:
    """Connect to a scheduler, or to a new local cluster that lives as long as the run."""
    dask, distributed = _dask()
    if address is not None:
        with distributed.Client(address) as client:
            yield client
        return
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": _FAILURES}),
        _local_cluster(distributed, workers) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _local_cluster(distributed: Any, workers: int | None) -> Any:
    """Start worker processes; tries again if one is lost while they start."""
    for _ in range(ATTEMPTS):
        try:
            return distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            )
        except RuntimeError as error:
            failure = error
    raise NumericError(f"no local cluster could be started ({failure}); call again") from failure


def _dask() -> tuple[Any, Any]:
    """Import Dask when it is needed."""
    try:
        dask = importlib.import_module("dask")
        importlib.import_module("dask.array")
        return dask, importlib.import_module("distributed")
    except ImportError as error:
        raise UnsupportedError("dask is not installed (expected the extra mechc[dask])") from error
