"""Epsilon after each of many numbers of repetitions of one run.

Counts are answered together by contours that serve many, and by a recursion that passes through all
small ones (`accountants.sweep`, `accountants.lattice_sweep`); the others, and a handful of counts,
one by one as `epsilon` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechc import search
from mechc.accountants.bound import Bound
from mechc.accountants.lattice import common_lattice
from mechc.accountants.lattice_sweep import LatticeSweep
from mechc.accountants.sweep import Sweep
from mechc.errors import DeclarationError
from mechc.inputs import MAX_COUNT, as_count
from mechc.loss.infinite import MASS_ERROR
from mechc.loss.measure import Step
from mechc.loss.work import OutOfWorkError, limited
from mechc.points import collect

if TYPE_CHECKING:
    from mechc.composition import Composition

Floats = NDArray[np.float64]

MOST = 10_000_000  # counts of one curve
HANDFUL = 10  # counts off a lattice that are cheaper one by one than by what many would share
EXACT = 2.0**53  # counts above are no doubles


def epsilon_curve(
    composition: Composition,
    log_delta: float,
    counts: Iterable[int],
    max_work: float,
    how: dict[str, Any],
) -> Bound:
    """Return bounds on epsilon(delta) for count * composition, for every count.

    Args:
        composition: the run that is repeated.
        log_delta: natural log of the target.
        counts: repetitions, in any order.
        max_work: of all counts together, and of each that has to be answered alone.
        how: method, direction, rtol and options.
    """
    numbers = _numbers(counts)
    distinct, place = np.unique(numbers, return_inverse=True)
    method = str(how.get("method", "auto"))
    with limited(max_work, method):
        try:
            table, methods = _together(composition, log_delta, distinct, dict(how))
        except OutOfWorkError:
            table, methods = np.full((3, distinct.size), math.nan), set()
    alone = np.flatnonzero(np.isnan(table).any(axis=0))
    singles = []
    for n in distinct[alone].tolist():
        with limited(max_work, method):
            singles.append(search.epsilon((composition * n).evaluation(**how), log_delta))
    for i, answer in zip(alone, singles, strict=True):
        table[:, i] = answer.lower, answer.estimate, answer.upper
    summary = collect(singles, (len(singles),))
    methods |= set(summary.method.split("+"))
    lower, estimate, upper = table[:, place]
    return Bound(
        lower,
        estimate,
        upper,
        "+".join(sorted(methods - {""})),
        summary.status,
        {"one_by_one": distinct[alone].tolist(), "each": summary.detail["each"]},
    )


def _numbers(counts: Iterable[int]) -> NDArray[np.int64]:
    """Checked counts."""
    if not isinstance(counts, Iterable):
        raise DeclarationError(f"counts={counts!r} are not several (expected a range or a list)")
    listed = counts if isinstance(counts, (range, np.ndarray)) else list(islice(counts, MOST + 1))
    if next(iter(listed[MOST:]), None) is not None:
        raise DeclarationError(f"counts: more than {MOST} of them")
    array = np.asarray(listed)
    plain = array.dtype.kind in "iu" and array.ndim == 1 and array.size
    if plain and array.min() >= 0 and array.max() <= MAX_COUNT:
        return array.astype(np.int64)
    return np.array([as_count(count) for count in listed], np.int64)


def _together(
    composition: Composition, log_delta: float, counts: NDArray[np.int64], how: dict[str, Any]
) -> tuple[Floats, set[str]]:
    """Bounds and estimate for each count, nan where not found together, and the methods used."""
    out = np.full((3, counts.size), math.nan)
    method, direction = how.pop("method", "auto"), how.pop("direction", "both")
    rtol = how.pop("rtol", 1e-6)
    directions = composition.directions(direction)
    if any(event.joint_evaluation for event, _ in composition.parts):
        return out, set()
    steps = {d: composition.steps(d) for d in directions}
    largest = int(counts.max(initial=0)) * max((s.count for s in steps[directions[0]]), default=0)
    if how or method not in ("auto", "contour") or not 0 < rtol < 1 or not 0 < largest < EXACT:
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
        if lattice is None:
            sweep = Sweep(some, log_delta, rtol, recursion=method == "auto")
        else:
            sweep = LatticeSweep(some, lattice, log_delta, rtol, recursion=method == "auto")
        found = sweep.epsilons(counts[left].astype(np.float64), known)
        methods |= sweep.methods
        out[:, left] = np.maximum(out[:, left], found)  # nan wins
        left = left[~np.isnan(out[:, left]).any(axis=0)]
        known = out[2, left]
    return out, methods


def _infinite(
    directions: Iterable[Sequence[Step]], log_delta: float, counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Counts whose mass at infinite loss, in some direction, proves that no epsilon will do."""
    log_finite = min(sum(s.count * s.loss.log_finite for s in steps) for steps in directions)
    with np.errstate(over="ignore"):
        mass = -np.expm1(counts * log_finite) * (1.0 - 2.0 * MASS_ERROR)
    certain: NDArray[np.bool_] = mass > math.exp(log_delta)
    return certain
