"""`mechc demo`: from a noise that no library ships to proven bounds on published training runs."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import mechc
from mechc.accountants.bound import Bound
from mechc.accountants.contours.inversion import invert
from mechc.cli.progress import children, compiling, known, obey, warm_up
from mechc.composition import events
from mechc.composition.events import Composition
from mechc.composition.mechanism import Mechanism
from mechc.errors import MechcError
from mechc.report.tables import number

NOISE = Path(__file__).with_name("demo_noise.py")
KERNEL_FILE = "mechc_demo_kernel.py"
FIGURE_FILE = "mechc_demo.png"
DELTA = 1e-5  # of the published epsilons that are shown beside


class Run(NamedTuple):
    """A composition, its target, epsilon as published, and where its parameters come from."""

    label: str
    events: Composition
    delta: float
    published: str
    source: str


def run(out: Console, folder: Path) -> None:
    """Run the whole line once, print every stage, and write kernel and figure."""
    start = time.perf_counter()
    with _second_process(out):
        huber = _compile(out, folder)
        compiling(mechc.poisson(huber), out)
        _ = invert.machine_code  # for the curve: it is ready before the other process is
    runs = training_runs(huber, out)
    _account(out, runs)
    _figure(out, folder)
    out.print(f"\nTotal time: {time.perf_counter() - start:.1f} s", highlight=False)


@contextmanager
def _second_process(out: Console) -> Iterator[None]:
    """Compile the other kernels and the accountants in a process of their own meanwhile."""
    # What it leaves is in the caches; where there can be no second process, that is compiled later.
    if all(mechanism.is_compiled for mechanism in known()):
        yield
        return
    try:
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), obey)
        with children():
            answer = pool.submit(warm_up)
    except (OSError, ImportError):
        yield
        return
    with pool:
        yield
        with out.status("compiling the accountants"):
            try:
                answer.result()
            except (BrokenProcessPool, MechcError):
                return


def _compile(out: Console, folder: Path) -> Mechanism:
    """Show, compile, explain and emit the noise that is declared beside this module."""
    out.rule("1  Declare: a noise that no privacy library ships")
    out.print(Syntax(NOISE.read_text("utf-8").strip(), "python", background_color="default"))
    out.rule("2  Compile: what was derived")
    huber = mechc.load(NOISE)
    start = time.perf_counter()
    compiling(huber, out)
    seconds = time.perf_counter() - start
    claim = huber.claim
    out.print(
        f"compiled in {seconds:.1f} s; dominating pair: {claim.status} by theorem "
        f"{claim.theorem} ({'; '.join(claim.conditions)})",
        highlight=False,
    )
    for index, branch in enumerate(huber.kernel.BRANCHES):
        out.print(f"  branch {index:2}  {branch}", highlight=False)
    written = huber.emit(folder / KERNEL_FILE)
    lines = len(huber.source.splitlines())
    out.print(
        f"wrote {written}: {lines} lines that need only math, numpy and numba; running it checks "
        "it against its reference values",
        highlight=False,
    )
    return huber


def training_runs(huber: Mechanism, out: Console) -> list[Run]:
    """Return the runs of the demo, their kernels compiled."""
    gaussian, sampled, counts = known()
    sampled_huber = mechc.poisson(huber)
    for mechanism in (gaussian, sampled, sampled_huber, counts):
        compiling(mechanism, out)

    def sgd(rate: float, sigma: float, steps: int) -> Composition:
        return steps * sampled(sampling_rate=rate, sigma=sigma)

    mixed = sgd(0.01, 1.5, 2000) + 50 * gaussian(sigma=30.0) + 20 * counts(a=0.05)
    queries = 5000 * sampled_huber(sampling_rate=0.01, sigma=2.0, knee=1.0)
    return [
        Run(
            "Huber noise", queries, 1e-6, "",
            "queries on samples, rate 0.01, sigma 2, knee 1",
        ),
        Run(
            "MNIST 2016", sgd(0.01, 4.0, 10_000), DELTA, "1.26",
            "rate 0.01, sigma 4: Abadi et al., Deep learning with differential privacy, 2016",
        ),
        Run(
            "MNIST 2020", sgd(256 / 60_000, 1.3, 4688), DELTA, "1.34",
            "rate 256/60000, sigma 1.3, 20 epochs: Bu et al., Deep learning with Gaussian "
            "differential privacy, 2020",
        ),
        Run(
            "CIFAR 2022", sgd(4096 / 50_000, 10.0, 725), DELTA, "<= 1.0",
            "rate 4096/50000, sigma 10, stopping at epsilon 1: configuration released with De et "
            "al., Unlocking high-accuracy differentially private image classification, 2022",
        ),
        Run("a million", sgd(1e-3, 0.8, 1_000_000), 1e-8, "", "rate 0.001, sigma 0.8"),
        Run(
            "mixed", mixed, 1e-6, "",
            "2000 training steps (rate 0.01, sigma 1.5), 50 Gaussian releases (sigma 30) and 20 "
            "counts with discrete Laplace noise (a = 0.05)",
        ),
    ]  # fmt: skip


def _account(out: Console, runs: list[Run]) -> None:
    out.rule("3  Account: epsilon for published training runs")
    names = ("run", "lower", "upper", "method", "ms", "moments", "CLT", "paper")
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True)
    for item in runs:
        answer, seconds = _timed(item)
        moments = item.events.epsilon(item.delta, method="saddlepoint:moments")
        clt = item.events.epsilon(item.delta, method="clt")
        table.add_row(
            item.label, number(answer.lower, "lower", 7), number(answer.upper, "upper", 7),
            answer.method, f"{1e3 * seconds:.1f}", number(moments.upper, "upper", 4),
            number(clt.estimate, digits=4), item.published,
        )  # fmt: skip
    out.print(table)
    notes = [
        f"{item.label}: {item.events.count:,} steps, delta {item.delta:.0e}; {item.source}"
        for item in runs
    ]
    notes += [
        "lower and upper are proven. moments: the moments accountant at its best order, an upper "
        "bound. CLT: an estimate that may be too small. paper: as published, by the moments "
        "accountant of the time."
    ]
    out.print("\n".join(notes), highlight=False, style="dim")


def _timed(item: Run) -> tuple[Bound, float]:
    """Ask twice, with nothing remembered in between, and time the second time (machine code)."""
    item.events.epsilon(item.delta)
    events.forget_losses()
    again = Composition(item.events.parts)
    start = time.perf_counter()
    answer = again.epsilon(item.delta)
    return answer, time.perf_counter() - start


def _figure(out: Console, folder: Path) -> None:
    """Draw epsilon against steps for the run of Abadi et al."""
    from mechc.report import plot

    counts = [1, 5, 15, 30, 60, 100, 150, *range(250, 10_001, 250)]
    step = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)(sigma=4.0)
    path = folder / FIGURE_FILE
    try:
        figure = step.plot(
            kind="steps", delta=DELTA, counts=counts, methods=("auto", "saddlepoint:moments", "clt")
        )
        axes = figure.axes[0]
        axes.set_title("MNIST run of Abadi et al. (2016): q = 0.01, sigma = 4", fontsize="medium")
        axes.plot([10_000], [1.26], "ko", markersize=5)
        axes.annotate("as published: 1.26", (10_000, 1.26), (-8, 0), ha="right", va="center",
                      textcoords="offset points")  # fmt: skip
        axes.set_ylim(top=1.4)
        plot.save(figure, path)
    except MechcError as error:
        out.print(f"no figure: {error}", highlight=False)
        return
    out.print(f"wrote {path}: epsilon against steps", highlight=False)
