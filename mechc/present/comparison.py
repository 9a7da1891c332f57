"""All methods on one question, side by side."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.table import Table

from mechc.accountants.bound import Bound
from mechc.errors import MechcError
from mechc.present.tables import number
from mechc.registry import methods

if TYPE_CHECKING:
    from mechc.composition import Composition

VARIANTS = {"saddlepoint": ("msd0", "msd1", "msd2", "clt", "moments", "edgeworth")}


def names() -> list[str]:
    """Return every method with its variants, as words for `method=`."""
    listed = ["auto"]
    for method in methods():
        variants = VARIANTS.get(method.name, ())
        listed += [f"{method.name}:{v}" for v in variants] or [method.name]
    return listed


def ask(
    run: Composition, method: str, epsilon: float | None, delta: float | None
) -> tuple[Bound | str, float]:
    """Return one method's answer, or its refusal in words, and the seconds it took."""
    start = time.perf_counter()
    answer: Bound | str
    try:
        if epsilon is not None:
            answer = run.delta(epsilon, method=method)
        else:
            answer = run.epsilon(delta, method=method)
    except MechcError as error:
        answer = str(error)
    return answer, time.perf_counter() - start


def table(run: Composition, *, epsilon: float | None, delta: float | None) -> Table:
    """Return all methods' answers: lower, estimate, upper, time.

    Args:
        run: the composition.
        epsilon: ask for delta at this epsilon, or
        delta: ask for epsilon at this delta.
    """
    what = "delta" if delta is None else "epsilon"
    shown = Table("method", f"{what} lower", "estimate", "upper", "ms", "status", box=None)
    for method in names():
        answer, seconds = ask(run, method, epsilon, delta)
        time_text = f"{1e3 * seconds:.2f}"
        if isinstance(answer, str):
            shown.add_row(method, "-", "-", "-", time_text, answer, style="dim")
        else:
            sides = (
                number(answer.lower, "lower"),
                number(answer.estimate),
                number(answer.upper, "upper"),
            )
            shown.add_row(method, *sides, time_text, answer.status)
    return shown
