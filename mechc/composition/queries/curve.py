"""Epsilon after each of many counts of one run.

Many counts are answered together by contours that serve many, and by a
recursion that passes through all small ones (`accountants.repetitions`); the others, and a handful
of counts, one by one. Where these are too many for that, counts lie between their neighbours:
epsilon does not fall with the repetitions, of which fewer are a part of more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.accountants.contour import common_lattice
from mechc.accountants.contours.trapezoid import Smooth
from mechc.accountants.repetitions import Sweep
from mechc.composition.inputs import MAX_COUNT, Setting, as_count, collect
from mechc.composition.queries.epsilon import epsilon
from mechc.composition.queries.evaluation import loss_errors
from mechc.errors import DeclarationError
from mechc.loss.infinite_mass import MASS_ERROR, composed, log_rate, log_revealed
from mechc.loss.privacy_loss import Step
from mechc.numeric.allowance import OutOfWorkError, limited
from mechc.numeric.logs import log_subtract
from mechc.numeric.rounding import EXACT
from mechc.numeric.telling import telling
from mechc.protocol import Floats, Run

MOST_COUNTS = 10_000_000  # counts of one curve
HANDFUL = 10  # counts off a lattice that are cheaper one by one than by what many would share
ALONE = 30.0  # times the work of one count, for all that are answered one by one


def epsilon_curve(
    composition: Run, log_delta: float, counts: Any, max_work: float, setting: Setting
) -> Bound:
    """Return bounds on epsilon(delta) for count * composition, for every count."""
    numbers = as_counts(counts)
    different, place = np.unique(numbers, return_inverse=True)
    method = setting.method
    with telling("epsilon after each count") as tell:

        def ask(count: int) -> Bound:
            tell(f"{count} repetitions, by themselves")
            return epsilon((composition * count).evaluation(setting), log_delta)

        with limited(max_work, method):
            try:
                table, methods = _together(composition, log_delta, different, setting)
            except OutOfWorkError:
                table, methods = np.full((3, different.size), math.nan), set()
        alone = np.flatnonzero(np.isnan(table).any(axis=0))
        found = one_by_one(different[alone], max_work, method, ask)
    answered = alone[sorted(found)]
    singles = [found[i] for i in sorted(found)]
    for i, answer in zip(answered, singles, strict=True):
        table[:, i] = answer.lower, answer.estimate, answer.upper
    between = np.setdiff1d(alone, answered)
    bound_between(different, table, alone, between)
    summary = collect(singles, "count", different[answered])
    methods |= set(summary.method.split("+"))
    lower, estimate, upper = table[:, place]
    return Bound(
        lower,
        estimate,
        upper,
        "+".join(sorted(methods - {""})),
        summary.status,
        {
            "one_by_one": different[answered].tolist(),
            "between": different[between].tolist(),
            "each": summary.detail["each"],
        },
        at=("count", numbers),
    )


def one_by_one(
    counts: NDArray[np.int64], max_work: float, method: str, ask: Callable[[int], Bound]
) -> dict[int, Bound]:
    """Answer for each count, by its place; if that is too much work, for a selection of them."""
    found: dict[int, Bound] = {}
    left = ALONE * max_work
    for i in spread_out(counts):
        if left < 0.0 and len(found) > 1 and not any(math.isnan(b.upper) for b in found.values()):
            break
        with limited(max_work, method) as allowance:
            found[i] = ask(int(counts[i]))
        left -= allowance.max_work - allowance.left
    return found


def spread_out(counts: NDArray[np.int64]) -> Iterator[int]:
    """Places of all counts: the ends, then always where the ratio of neighbours is largest."""
    last = counts.size - 1
    gaps = [(0.0, 0, last)] if last > 0 else []
    yield from sorted({0, last} if last >= 0 else ())
    while gaps:
        _, a, b = heappop(gaps)
        if b - a < 2:
            continue
        middle = math.sqrt(max(float(counts[a]), 0.5) * float(counts[b]))
        i = min(max(int(np.searchsorted(counts, middle)), a + 1), b - 1)
        yield i
        for low, high in ((a, i), (i, b)):
            heappush(gaps, (-float(counts[high]) / max(float(counts[low]), 0.5), low, high))


def bound_between(
    counts: NDArray[np.int64], table: Floats, alone: NDArray[np.intp], left: NDArray[np.intp]
) -> None:
    """Bound the counts left, and those answered alone, by what is known of their neighbours."""
    table[:, left] = np.array([[0.0], [math.nan], [math.inf]])
    below, above = np.fmax.accumulate(table[0]), np.fmin.accumulate(table[2, ::-1])[::-1]
    table[0, alone] = np.maximum(table[0, alone], below[alone])  # nan stays
    table[2, alone] = np.minimum(table[2, alone], above[alone])
    if not left.size:
        return
    known = np.setdiff1d(np.arange(counts.size), left)
    guess = np.interp(counts[left], counts[known], table[1, known])
    table[1, left] = np.fmin(np.fmax(guess, table[0, left]), table[2, left])


def as_counts(counts: Any) -> NDArray[np.int64]:
    """Checked counts."""
    if not isinstance(counts, Iterable) or isinstance(counts, (str, bytes)):
        raise DeclarationError(f"counts={counts!r} are not several (expected a range or a list)")
    kept = isinstance(counts, range) or (isinstance(counts, np.ndarray) and counts.ndim)
    try:
        listed: Any = counts if kept else list(islice(counts, MOST_COUNTS + 1))
    except TypeError as error:
        raise DeclarationError(f"counts={counts!r} are not several ({error})") from error
    if next(iter(listed[MOST_COUNTS:]), None) is not None:
        raise DeclarationError(f"counts: more than {MOST_COUNTS} of them")
    try:
        array = np.asarray(listed)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    plain = array.dtype.kind in "iu" and array.ndim == 1 and array.size
    if plain and array.min() >= 0 and array.max() <= MAX_COUNT:
        return array.astype(np.int64)
    return np.array([as_count(count) for count in listed], np.int64)


def _together(
    composition: Run, log_delta: float, counts: NDArray[np.int64], setting: Setting
) -> tuple[Floats, set[str]]:
    """Bounds and estimate for each count, nan where not found together, and the methods used."""
    out = np.full((3, counts.size), math.nan)
    method, options, direction, rtol = setting
    directions = composition.directions(direction)
    if any(e.joint_evaluation or e.upper_only for e, _ in composition.parts):
        return out, set()
    steps = {d: composition.steps(d) for d in directions}
    laws = [step.loss for some in steps.values() for step in some]
    if any(law.side or law.parts or law.estimated for law in laws):
        return out, set()  # which `Evaluation` knows to bound, and what to say of them
    largest = int(counts.max(initial=0)) * max((s.count for s in steps[directions[0]]), default=0)
    if options or method not in ("auto", "contour") or not 0 < rtol < 1 or not 0 < largest < EXACT:
        return out, set()
    if log_delta == 0.0:
        return out, set()
    lattices = [common_lattice(some) for some in steps.values()]
    if counts.size < HANDFUL and None in lattices:
        return out, set()
    out[:, _infinite(steps.values(), log_delta, counts)] = math.inf
    left = np.flatnonzero((counts > 0) & ~np.isinf(out[2]))
    out[:, left] = -math.inf
    known = np.full(left.size, math.nan)
    methods: set[str] = set()
    for some, lattice in zip(steps.values(), lattices, strict=True):
        payoff = lattice or Smooth()
        sweep = Sweep(some, payoff, log_delta, rtol, recursion=method == "auto")
        moved = counts[left] * sum(loss_errors(some))  # composed losses, at most
        found = sweep.epsilons(counts[left].astype(np.float64), known - moved)
        found[0], found[2] = np.maximum(found[0] - moved, 0.0), found[2] + moved
        methods |= sweep.methods
        out[:, left] = np.maximum(out[:, left], found)  # nan wins
        left = left[~np.isnan(out[:, left]).any(axis=0)]
        known = out[2, left]
    return out, methods


def _infinite(
    directions: Iterable[Sequence[Step]], log_delta: float, counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Counts whose mass at infinite loss, in some direction, proves that no epsilon will do."""
    certain = np.zeros(counts.size, np.bool_)
    for steps in directions:
        sure = (log_subtract(s.loss.log_infinite, s.loss.log_early) for s in steps)
        rate = log_rate((log, s.count) for log, s in zip(sure, steps, strict=True))
        error = 2.0 * MASS_ERROR + composed(steps).error
        certain |= log_revealed(rate + np.log(counts)) - error > log_delta
    return certain
