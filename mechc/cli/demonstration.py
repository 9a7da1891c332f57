"""`mechc demo`: from a noise declared in a few lines to proven bounds on published runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import mechc
from mechc.cli.progress import children, known, known_answers, processes
from mechc.composition.events import Composition
from mechc.composition.mechanism import Mechanism
from mechc.declare import catalog
from mechc.errors import MechcError
from mechc.report.tables import number

NOISE = "huber"
KERNEL_FILE = "mechc_demo_kernel.py"
FIGURE_FILE = "mechc_demo.png"
DELTA = 1e-5  # of the published epsilons that are shown beside
METHODS = ("auto", "saddlepoint:moments", "clt")


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
        mechc.poisson(huber).compile()
    runs = training_runs(huber, out)
    _account(out, runs)
    path = folder / FIGURE_FILE
    try:
        step, times = runs[1].events.unit()
        counts = range(200, times + 1, 200)
        step.plot(path, kind="steps", delta=DELTA, counts=counts, methods=METHODS, target=1.26)
        out.print(f"wrote {path}: epsilon in the course of {runs[1].label}, and as published")
    except MechcError as error:
        out.print(f"no figure: {error}", highlight=False)
    out.print(f"\nTotal time: {time.perf_counter() - start:.1f} s", highlight=False)


@contextmanager
def _second_process(out: Console) -> Iterator[None]:
    """Compile the other kernels and the accountants in a process of their own meanwhile."""
    # What it leaves is in the caches; where there can be no second process, that is compiled later.
    if all(mechanism.is_compiled for mechanism in known()):
        yield
        return
    with ExitStack() as stack:
        try:
            pool = stack.enter_context(processes(1))
            with children():
                answer = pool.submit(known_answers)
        except (OSError, ImportError):
            yield
            return
        yield
        with out.status("compiling the accountants"):
            try:
                answer.result()
            except (BrokenProcessPool, MechcError):
                return


def _compile(out: Console, folder: Path) -> Mechanism:
    """Show, compile, explain and emit the noise."""
    file = catalog.built_in(NOISE)
    out.rule("1  Declare: a noise in a few lines")
    text = file.path.read_text("utf-8").strip()
    out.print(Syntax(text, "python", background_color="default"))
    out.rule("2  Compile: what was derived")
    huber = Mechanism(file)
    start = time.perf_counter()
    huber.compile()
    seconds = time.perf_counter() - start
    out.print(f"compiled in {seconds:.1f} s; {huber.claim}", highlight=False)
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
        mechanism.compile()

    def sgd(rate: float, sigma: float, steps: int) -> Composition:
        return steps * sampled(sampling_rate=rate, sigma=sigma)

    mixed = sgd(0.01, 1.5, 2000) + 50 * gaussian(sigma=30.0) + 20 * counts(a=0.05)
    queries = 5000 * sampled_huber(sampling_rate=0.01, scale=2.0, bend=1.0)
    return [
        Run("Huber noise", queries, 1e-6, "", "queries on samples, rate 0.01, scale 2, bend 1"),
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
    table = Table(box=None, pad_edge=False)
    for name in ("run", "lower", "upper", "method", "ms", "moments", "CLT", "paper"):
        table.add_column(name, no_wrap=True)
    for item in runs:
        item.events.epsilon(item.delta)  # which loads machine code
        start = time.perf_counter()
        answer, moments, clt = (item.events.epsilon(item.delta, method=m) for m in METHODS)
        milliseconds = 1e3 * (time.perf_counter() - start)
        table.add_row(
            item.label, number(answer.lower, "lower", 7), number(answer.upper, "upper", 7),
            answer.method, f"{milliseconds:.1f}", number(moments.upper, "upper", 4),
            number(clt.estimate, digits=4), item.published,
        )  # fmt: skip
    out.print(table)
    notes = [
        f"{item.label}: {item.events.count:,} steps, delta {item.delta:.0e}; {item.source}"
        for item in runs
    ]
    notes += [
        "lower and upper are proven. moments: the moments accountant at its best order, an upper "
        "bound. CLT: an estimate that may be too small. ms: of all three. paper: as published, by "
        "the moments accountant of the time."
    ]
    out.print("\n".join(notes), highlight=False, style="dim")
