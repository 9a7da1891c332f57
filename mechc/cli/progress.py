"""What is made ahead, in processes of its own."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mechc.composition.mechanism import built_in, load
from mechc.composition.operations import poisson
from mechc.errors import MechcError
from mechc.kernel.cache import VARIABLE, directory
from mechc.numeric.telling import telling

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from rich.console import Console

    from mechc.composition.mechanism import Mechanism


def known() -> tuple[Mechanism, ...]:
    """Return what most people ask for: Gaussian noise, sampled too, and noise on counts."""
    gaussian = built_in("gaussian")
    return gaussian, poisson(gaussian), built_in("discrete_laplace")


def known_answers() -> None:
    """Compile the known mechanisms, and by a few answers what an accountant needs for them."""
    gaussian, sampled, counts = known()
    step = sampled(sampling_rate=0.01, sigma=2.0)
    (1000 * step + gaussian(sigma=30.0) + counts(a=0.05)).epsilon(1e-5)
    step.epsilon_curve(1e-5, [1, 10, 1000])


def warm_up() -> None:
    """Compile whatever an accountant needs, for noise with atoms beside a density as well."""
    with telling("compiling the accountants"):
        known_answers()
        (100 * built_in("laplace")(scale=20.0)).epsilon(1e-5)


@contextmanager
def children() -> Iterator[None]:
    """Let processes begin that Ctrl-C does not reach, and make talk, before they `obey`."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which they inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey(home: str) -> None:
    """Keep kernels at home, and end at Ctrl-C without words: what a new process does first."""
    os.environ[VARIABLE] = home
    warnings.simplefilter("ignore")  # that it cannot be written is for the first process to say
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """Processes of which none is waited for at Ctrl-C."""
    # here, as most commands have nothing to compile and need none of it
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    spawn, where = multiprocessing.get_context("spawn"), (str(directory()),)
    with ProcessPoolExecutor(number, spawn, obey, where) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)  # which are gone as soon as that is seen
            raise


def compiling_all(mechanisms: Sequence[Any], console: Console) -> None:
    """Compile what has no kernel, a process for each core; what fails is met where it is needed."""
    missing = [made for made in mechanisms if _is_missing(made)]
    if not missing:
        return
    from concurrent.futures import Future, as_completed
    from concurrent.futures.process import BrokenProcessPool

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    workers = min(len(missing), os.cpu_count() or 1)
    with suppress(BrokenProcessPool, OSError), bar, processes(workers) as pool:
        with children():
            jobs: list[Future[None]] = [pool.submit(_compile, made) for made in missing]
        deque(bar.track(as_completed(jobs), total=len(jobs)), maxlen=0)


def _is_missing(mechanism: Any) -> bool:
    try:
        return not load(mechanism).is_compiled
    except MechcError:
        return False


def _compile(mechanism: Any) -> None:
    """Leave a kernel and its machine code in the cache; its error is met where it is used."""
    with suppress(MechcError):
        kernel: Any = load(mechanism).compile()
        for form in [form for form in vars(kernel) if form.endswith("_many")]:
            _ = getattr(kernel, form).machine_code
