"""Individual epsilons of large populations with Dask: chunks of people are independent.

Every chunk is accounted for from its own steps with tables of its own, so its numbers do not depend
on which worker it met, on what that worker did before, or on how often it had to start again.
Workers write their results themselves (`results`); through the scheduler go only indices.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.individual.accountant import BUCKETS, IndividualAccountant
from mechc.individual.budget import PathLike
from mechc.individual.family import Family
from mechc.individual.results import Results

Floats = NDArray[np.float64]

CHUNK = 250_000  # people, for arrays that are not chunked yet
ATTEMPTS = 5  # how often chunks are submitted that a lost worker took with it
_FAILURES = 20  # workers a chunk may lose before the scheduler of a local cluster gives it up


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

    def answer(self, steps: NDArray[Any]) -> Floats:
        """Return lower, estimate and upper of everybody in a chunk, shape (3, people).

        Args:
            steps: parameter of each step, shape (people, steps).
        """
        family = self.family
        accountant = IndividualAccountant(
            family,
            parameter=family.parameter,
            people=steps.shape[0],
            span=family.span,
            rtol=self.rtol,
            buckets=self.buckets,
            journal=self.journal,
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
    address: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Results:
    """Write everybody's epsilon at delta to a Zarr group or to Parquet files.

    Called again with the same arguments it computes what is missing; it is for the caller to pass
    the same steps again. Each worker holds one chunk of people at a time.

    Args:
        mechanism: a mechanism with all parameters bound but one, or a `Family`.
        steps: parameter of each step for each person, shape (people, steps): a Dask array, whose
            chunks of people are kept, or a NumPy array. inf (0 for a parameter that grows with
            the privacy loss) means not touched.
        output: path that ends in ".zarr" or ".parquet", on a file system all workers see.
        parameter: the free parameter.
        span: its range, as for `IndividualAccountant`.
        delta: in [1e-250, 1).
        counts: how often each step is repeated, shape (steps,); once by default.
        rtol: relative width to aim for.
        buckets: number of buckets of the grid.
        journal: bytes of steps a chunk may keep for refinement.
        address: of an existing scheduler; a local cluster of processes by default.
        workers: processes of the local cluster, one a core by default; 0 for none at all.
        progress: show a progress bar.

    Returns:
        The results.

    Raises:
        DeclarationError: an argument or a value among the steps is not acceptable.
        StateError: the output holds something else.
        UnsupportedError: Dask, or the library of the format, is not installed.
        NumericError: workers were lost too often; what is complete stays, and a further call
            continues.
    """
    blocks, sizes = _blocks(steps)
    people, columns = sum(sizes), blocks.shape[1]
    repeats = (1,) * columns if counts is None else tuple(int(c) for c in counts)
    if len(repeats) != columns or min(repeats, default=1) < 1:
        raise DeclarationError(f"counts={counts!r} (expected {columns} integers >= 1)")
    if not 1e-250 <= delta < 1.0:
        raise DeclarationError(f"delta={delta!r} (expected 1e-250 <= delta < 1)")
    family = mechanism
    if not isinstance(mechanism, Family):
        family = Family.of(mechanism, parameter, span)
    question = Question(family, repeats, float(delta), float(rtol), int(buckets), int(journal))
    results = Results.open(output, people, sizes[0], question.about)
    todo = [i for i in range(results.chunks) if not results.is_done(i)]
    pieces = blocks.to_delayed().ravel()
    with _bar(results.chunks, progress) as advance:
        advance(results.chunks - len(todo))
        if workers == 0 and address is None:
            for i in todo:
                _chunk(pieces[i].compute(scheduler="synchronous"), i, question, results)
                advance(1)
        elif todo:
            with _client(address, workers) as client:
                _submit(client, pieces, todo, question, results, advance)
    return results


def _chunk(steps: NDArray[Any], index: int, question: Question, results: Results) -> int:
    results.write(index, question.answer(steps))
    return index


def _submit(
    client: Any, pieces: Any, todo: list[int], question: Question, results: Results, advance: Any
) -> None:
    """Keep a few chunks per worker in flight until all are done."""
    dask, cluster = _dask()

    task = dask.delayed(_chunk)
    for _ in range(ATTEMPTS):
        waiting = iter(todo)
        ahead = 2 * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        first = [task(pieces[i], i, question, results) for i in itertools.islice(waiting, ahead)]
        flying = cluster.as_completed(client.compute(first), raise_errors=False)
        for future in flying:
            if future.status == "finished":
                advance(1)
            elif not isinstance(future.exception(), cluster.KilledWorker):
                raise future.exception()
            for i in itertools.islice(waiting, 1):
                flying.add(client.compute(task(pieces[i], i, question, results)))
        todo = [i for i in todo if not results.is_done(i)]
        if not todo:
            return
    raise NumericError(f"workers were lost while computing chunks {todo[:5]}; call again")


def _blocks(steps: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the steps as a Dask array with equal chunks of people, and the sizes of these."""
    da = _dask()[0].array
    array = steps if isinstance(steps, da.Array) else np.asarray(steps)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiu":
        raise DeclarationError(
            f"steps has shape {array.shape} and dtype {array.dtype} (expected real numbers of"
            " shape (people, steps))"
        )
    if not isinstance(array, da.Array):
        array = da.from_array(array, (CHUNK, -1))
    array = array.rechunk({0: max(array.chunks[0]), 1: -1})
    return array, array.chunks[0]


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


@contextlib.contextmanager
def _bar(total: int, shown: bool) -> Iterator[Any]:
    """Show a progress bar; yields what advances it."""
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not shown) as bar:
        task = bar.add_task("chunks of people", total=total)
        yield lambda n: bar.advance(task, n)
