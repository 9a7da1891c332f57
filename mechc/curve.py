"""Epsilon after each of many numbers of repetitions of one run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mechc import search
from mechc.accountants.bound import Bound
from mechc.composition import as_count
from mechc.queries import collect

if TYPE_CHECKING:
    from mechc.composition import Composition


def epsilon_curve(
    composition: Composition, log_delta: float, counts: Iterable[int], how: dict[str, Any]
) -> Bound:
    """Return bounds on epsilon(delta) for count * composition, for every count.

    Args:
        composition: the run that is repeated.
        log_delta: natural log of the target.
        counts: repetitions, in any order.
        how: method, direction, rtol and options.
    """
    answers = [
        search.epsilon((composition * as_count(count)).evaluation(**how), log_delta)
        for count in counts
    ]
    return collect(answers, (len(answers),))
