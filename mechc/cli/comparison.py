"""All methods on one question, side by side.

Each but `auto` has a share of the work that a question of its own has, and a tolerance in which
methods still differ: asked alone, a method may answer more narrowly, or where it did not here.
Variants that answer as another row does are left out (saddlepoint:moments, as renyi).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table

from mechc.accountants.bound import Bound
from mechc.accountants.registry import methods
from mechc.errors import MechcError
from mechc.numeric.allowance import OutOfWorkError
from mechc.numeric.telling import telling
from mechc.report.tables import number, under

if TYPE_CHECKING:
    from pathlib import Path

    from mechc.adjacency import Claim
    from mechc.composition.events import Composition


Question = tuple[str, dict[str, Any]]  # a word for `method=`, and options besides

SIDES = ("lower", "estimate", "upper")
SHARE: dict[str, Any] = {"rtol": 1e-3, "max_work": 7e6}  # of a method other than auto
WARM = 1e5  # work of a question that is asked before
VARIANTS: dict[str, tuple[Question, ...]] = {
    "fourier": (("fourier", {"n": 2**13}),),
    "saddlepoint": tuple(
        (f"saddlepoint:{v}", {}) for v in ("msd0", "msd1", "msd2", "clt", "edgeworth")
    ),
    "edgeworth": (
        ("edgeworth:2", {}),
        ("edgeworth:4", {}),
        ("edgeworth", {"interval": True}),
    ),
}


Answers = dict[str, tuple[Bound | str, float]]


def answers(run: Composition, *, epsilon: float | None, delta: float | None) -> Answers:
    """Return all methods' answers, or refusals in words, with seconds: to epsilon, or to delta."""
    asked: list[Question] = [("auto", {})]
    for known in methods():
        asked += VARIANTS.get(known.name, ((known.name, {}),))
    found: Answers = {}
    run.delta(1.0, max_work=WARM)  # what is loaded once is charged to no method
    ask, at = (run.epsilon, delta) if epsilon is None else (run.delta, epsilon)
    with telling("asking every method") as tell:
        for method, options in asked:
            label = " ".join([method, *(f"{key}={value}" for key, value in options.items())])
            tell(label)
            start = time.perf_counter()
            answer: Bound | str
            try:
                answer = ask(at, method=method, **({} if method == "auto" else SHARE | options))
            except MechcError as error:
                answer = str(error).removeprefix(f"{method.partition(':')[0]}: ")
                if isinstance(error.__cause__, OutOfWorkError):
                    answer = f"more than its share of the work; alone: --method {method}"
            found[label] = answer, time.perf_counter() - start
    return found


def record(found: Answers, claim: Claim) -> list[dict[str, Any]]:
    """Return `answers`, and what they stand for, in plain numbers and words."""
    rows = []
    for name, (answer, seconds) in found.items():
        said: dict[str, Any] = {"refused": answer}
        if not isinstance(answer, str):
            said = replace(answer, claim=claim).record()
        rows.append({"label": name, "seconds": seconds, **said})
    return rows


def figure(found: Answers, what: str, title: str, path: Path) -> None:
    """Draw the intervals of `answers`, one a line; an estimate without bounds is its mark alone."""
    from mechc.report import plot

    rows = {
        name: [float(getattr(answer, side)) for side in SIDES]
        for name, (answer, _) in found.items()
        if not isinstance(answer, str)
    }
    plot.bars(rows, SIDES, path, title=title, xlabel=f"{what} (hollow: an estimate)", joined=True)


def table(found: Answers, what: str, claim: Claim | None) -> Group:
    """Return `answers` for a terminal: lower, estimate, upper, time."""
    shown = Table("method", f"{what} lower", "estimate", "upper", "ms", "status", box=None)
    for name, (answer, seconds) in found.items():
        time_text = f"{1e3 * seconds:.2f}"
        if isinstance(answer, str):
            shown.add_row(name, "-", "-", "-", time_text, answer, style="dim")
        else:
            sides = (number(getattr(answer, side), side) for side in SIDES)
            shown.add_row(name, *sides, time_text, answer.status)
    return under(shown, claim)
