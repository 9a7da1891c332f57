"""Epsilon after each of many numbers of repetitions of one run.

Counts for which one contour serves many are answered together (`accountants.sweep`); few
repetitions of one event share one recursion through all of them; the others, like losses on a
lattice, are answered one by one as `epsilon` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechc import search
from mechc.accountants.bound import Bound
from mechc.accountants.sweep import Sweep
from mechc.composition import MAX_COUNT, as_count
from mechc.errors import NumericError, UnsupportedError
from mechc.queries import collect

if TYPE_CHECKING:
    from mechc.composition import Composition
    from mechc.evaluation import Evaluation

Floats = NDArray[np.float64]

LONGEST = 24  # steps in all up to which repetitions are gone through one by one
EXACT = 2.0**53  # counts above are no doubles


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
    numbers = _numbers(counts)
    distinct, place = np.unique(numbers, return_inverse=True)
    table = _together(composition, log_delta, distinct, dict(how))
    alone = np.flatnonzero(np.isnan(table).any(axis=0))
    few = _few(composition, log_delta, distinct[alone].tolist(), dict(how))
    singles = [
        few.get(n) or search.epsilon((composition * n).evaluation(**how), log_delta)
        for n in distinct[alone].tolist()
    ]
    for i, answer in zip(alone, singles, strict=True):
        table[:, i] = answer.lower, answer.estimate, answer.upper
    summary = collect(singles, (len(singles),))
    methods = {*summary.method.split("+"), *(["contour"] if alone.size < distinct.size else [])}
    lower, estimate, upper = table[:, place]
    return Bound(
        lower,
        estimate,
        upper,
        "+".join(sorted(methods - {""})),
        summary.status,
        {"one_by_one": distinct[alone].tolist(), "each": summary.detail["each"]},
    )


def _few(
    composition: Composition, log_delta: float, counts: list[int], how: dict[str, Any]
) -> dict[int, Bound]:
    """Answers for few repetitions of one event, from one recursion through all of them.

    Args:
        composition: the run that is repeated; nothing is found unless it is of one event.
        log_delta: natural log of the target.
        counts: increasing.
        how: see `epsilon_curve`.
    """
    steps = [count for _, count in composition.parts]
    counts = [n for n in counts if n > 0 and len(steps) == 1 and n * steps[0] <= LONGEST]
    method, rtol = how.pop("method", "auto"), how.pop("rtol", 1e-6)
    found: dict[int, Bound] = {}
    if method != "auto" or len(counts) < 2 or set(how) - {"direction"}:
        return found
    known: list[tuple[int, Bound]] = []
    largest: Evaluation | None = None
    try:
        for n in reversed(counts):
            evaluation = (composition * n).evaluation("direct", rtol=rtol, **how)
            if largest is not None:
                evaluation.learn(largest)
            answer = search.epsilon(evaluation, log_delta, _guess(known, n))
            known.append((n, answer))
            if answer.upper - answer.lower <= rtol * answer.estimate:
                found[n] = answer
            if n < counts[-1] and answer.detail.get("tilt") != known[0][1].detail.get("tilt"):
                break  # the recursion of the largest number does not serve the others
            largest = largest or evaluation
    except (NumericError, UnsupportedError):
        pass  # the others are left to the method that was asked for
    return found


def _guess(known: list[tuple[int, Bound]], count: int) -> tuple[float, float] | None:
    """Epsilon, linear in the log of the count, and the slope of log delta: minus the tilt."""
    if len(known) < 2 or "tilt" not in known[-1][1].detail:
        return None
    (m, before), (n, last) = known[-2:]
    slope = float(last.estimate - before.estimate) / math.log(n / m)
    guess = float(last.estimate) + slope * math.log(count / n)
    return (guess, -float(last.detail["tilt"])) if 0.0 < guess < math.inf else None


def _numbers(counts: Iterable[int]) -> NDArray[np.int64]:
    """Checked counts."""
    listed = counts if isinstance(counts, (range, np.ndarray)) else list(counts)
    array = np.asarray(listed)
    plain = array.dtype.kind in "iu" and array.ndim == 1 and array.size
    if plain and array.min() >= 0 and array.max() <= MAX_COUNT:
        return array.astype(np.int64)
    return np.array([as_count(count) for count in listed], np.int64)


def _together(
    composition: Composition, log_delta: float, counts: NDArray[np.int64], how: dict[str, Any]
) -> Floats:
    """Lower bound, estimate and upper bound for each count, nan where not found together."""
    out = np.full((3, counts.size), math.nan)
    method, direction = how.pop("method", "auto"), how.pop("direction", "both")
    rtol = how.pop("rtol", 1e-6)
    directions = composition.directions(direction)
    if any(hasattr(event, "log_mgf_bound") for event, _ in composition.parts):
        return out
    steps = {d: composition.steps(d) for d in directions}
    largest = int(counts.max(initial=0)) * max((s.count for s in steps[directions[0]]), default=0)
    if how or method not in ("auto", "contour") or not 0 < rtol < 1 or not 0 < largest < EXACT:
        return out
    if log_delta == 0.0 or any(all(s.loss.lattice for s in some) for some in steps.values()):
        return out
    left = np.flatnonzero(counts > 0)
    out[:, left] = -math.inf
    known = np.full(left.size, math.nan)
    for some in steps.values():
        found = Sweep(some, log_delta, rtol).epsilons(counts[left].astype(np.float64), known)
        out[:, left] = np.maximum(out[:, left], found)  # nan wins
        left = left[~np.isnan(out[:, left]).any(axis=0)]
        known = out[2, left]
    return out
