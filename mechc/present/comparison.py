"""All methods on one question, side by side."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mechc.accountants.bound import Bound
from mechc.errors import MechcError
from mechc.present.tables import number, stands_for
from mechc.registry import methods

if TYPE_CHECKING:
    from mechc.composition import Composition

Question = tuple[str, dict[str, Any]]  # a word for `method=`, and options besides

VARIANTS: dict[str, tuple[Question, ...]] = {
    "saddlepoint": tuple(
        (f"saddlepoint:{v}", {}) for v in ("msd0", "msd1", "msd2", "clt", "moments", "edgeworth")
    ),
    "edgeworth": (
        ("edgeworth:2", {}),
        ("edgeworth:4", {}),
        ("edgeworth", {"interval": True, "error": "moments"}),
        ("edgeworth", {"interval": True}),
    ),
}


def questions() -> list[Question]:
    """Return every method, with its variants."""
    asked: list[Question] = [("auto", {})]
    for method in methods():
        asked += VARIANTS.get(method.name, ((method.name, {}),))
    return asked


def label(method: str, options: dict[str, Any]) -> str:
    """Return a row's name, such as "edgeworth interval=True"."""
    return " ".join([method, *(f"{key}={value}" for key, value in options.items())])


def ask(
    run: Composition,
    method: str,
    options: dict[str, Any],
    epsilon: float | None,
    delta: float | None,
) -> tuple[Bound | str, float]:
    """Return one method's answer, or its refusal in words, and the seconds it took."""
    start = time.perf_counter()
    answer: Bound | str
    try:
        if epsilon is not None:
            answer = run.delta(epsilon, method=method, **options)
        else:
            answer = run.epsilon(delta, method=method, **options)
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
    for method, options in questions():
        answer, seconds = ask(run, method, options, epsilon, delta)
        name, time_text = label(method, options), f"{1e3 * seconds:.2f}"
        if isinstance(answer, str):
            shown.add_row(name, "-", "-", "-", time_text, answer, style="dim")
        else:
            sides = (
                number(answer.lower, "lower"),
                number(answer.estimate),
                number(answer.upper, "upper"),
            )
            shown.add_row(name, *sides, time_text, answer.status)
    shown.caption = stands_for(run.claim)
    return shown
