"""People one at a time: the plain accountant of their steps, both directions together.

A contour needs |phi| to decay along it. With few steps, or with many of which only a few weigh, it
hardly does, and no number of nodes proves anything: these people are given to the accountants that
answer for a composition (`accountants.auto`), which have other ways. It is the question that anyone
would ask of these steps, so that their answer is the plain accountant's. The work for one person is
limited, so that one hard case does not take what was meant for many, and so is that for all.

The paper's evaluation of individual deltas: discretised losses, FFT and the Plancherel theorem.

Section D of Koskela, Tobaben and Honkela (2023): each bucket's loss is put on an equidistant grid
of n points over [-L, L), its transform F_i is computed once, and for counts k_i

    delta(epsilon) = (1/n) < F(w_epsilon), prod F_i^{k_i} >,  w_l = max(0, 1 - e^{epsilon - s_l}),

so that no inverse transform is needed per person. It is here for comparison: the discretisation
and the wrap-around at +-L carry no bound, and each person costs n complex powers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.composition.inputs import USUAL, asked, from_log
from mechc.composition.queries.epsilon import epsilon
from mechc.errors import MechcError
from mechc.individual.contours import Query
from mechc.individual.family import Family
from mechc.individual.splines import Grid
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import MAX_WORK, limited
from mechc.numeric.roots import root
from mechc.protocol import Floats

FIRST = 10.0  # width of delta asked for at most, as a multiple of that wanted of epsilon
LEFT = 0.5  # share of the width it fell short by that is then aimed at
WORK = 4e9  # units of `numeric.allowance` for everybody who is composed in one question: .7 minutes
POINTS = 1 << 17  # of a mesh, 1 MB
LAW = 3e5  # of them for the law of a distinct step, which is not counted otherwise

Counts = Sequence[tuple[float, int]]  # parameters of steps, and how often each was taken


def of_steps(
    grid: Grid, values: NDArray[np.float64], counts: NDArray[np.int64], untouched: float
) -> tuple[Counts, Counts]:
    """Return a person's steps for an upper and for a lower bound, equal ones together.

    Values beyond the last knot count as there, and are left out.
    """
    beyond = values > grid.best if grid.best > grid.worst else values < grid.best
    inside = np.where(beyond, grid.best, values)
    sides = []
    for touched in (values != untouched, (values != untouched) & ~beyond):
        steps, place = np.unique(inside[touched], return_inverse=True)
        total = np.bincount(place, counts[touched], steps.size).astype(np.int64)
        sides.append(list(zip(steps.tolist(), total.tolist(), strict=True)))
    return sides[0], sides[1]


def of_buckets(grid: Grid, counts: NDArray[np.integer]) -> tuple[Counts, Counts]:
    """Return a row of counts with every step at the worse, and at the better end of its bucket.

    Steps beyond the last knot count as there, and are left out; listed ones are what they were.
    """
    used, knots = np.flatnonzero(counts), grid.knots.tolist()
    worse = [(knots[i], int(counts[i])) for i in used]
    return worse, worse if grid.listed else [
        (knots[i + 1], int(counts[i])) for i in used if i < grid.buckets
    ]


def answer(family: Family, steps: Counts, query: Query) -> tuple[tuple[float, float, float], float]:
    """Return lower bound, estimate and upper bound of one person (0, nan, inf if there is none).

    Where the answer to the usual question is wider than asked for, it is asked once more, for delta
    as much more narrowly. With them comes the work it took, in units of `numeric.allowance`.
    """
    if not steps:
        return (0.0, 0.0, 0.0), 0.0
    rtol = min(USUAL.rtol, query.rtol * (FIRST if query.inverse else 1.0))
    spent, work, best = LAW * len(steps), MAX_WORK, (0.0, math.nan, math.inf)
    for _ in range(2):
        try:
            with limited(work, "auto") as allowance:
                try:
                    low, middle, high = _ask(family, steps, query, rtol)
                finally:
                    spent += allowance.max_work - allowance.left
        except MechcError:
            break
        if high - low < best[2] - best[0]:
            best = low, middle, high
        width = (high - low) / max(high, 1e-300)
        if not query.rtol < width < math.inf:
            break
        rtol, work = rtol * LEFT * query.rtol / width, max(MAX_WORK - spent, LAW)
    return best, spent


def _ask(family: Family, steps: Counts, query: Query, rtol: float) -> tuple[float, float, float]:
    """Ask for the larger of the directions, delta to a relative width."""
    with asked():
        evaluation = family.run(steps).evaluation(USUAL._replace(rtol=rtol))
        if query.inverse:
            found = epsilon(evaluation, query.log_delta)
        else:
            found = from_log(evaluation.log_delta(query.epsilon))
    low, high = float(found.lower), float(found.upper)
    low, high = 0.0 if math.isnan(low) else low, math.inf if math.isnan(high) else high
    return low, float(found.estimate), high


def plancherel(
    counts: NDArray[Any], losses: Mapping[str, Sequence[PrivacyLoss]], query: Query,
    half_length: float,
) -> Floats:  # fmt: skip
    """Return epsilon or delta of people from counts (people, buckets) and laws, an estimate.

    Of the grid half the length is given, which is to hold all losses but for little of delta.
    """
    used, found = np.flatnonzero(counts.any(axis=0)), np.zeros(counts.shape[0])
    for laws in losses.values() if used.size else ():
        own = [laws[i] for i in used.tolist()]
        s = np.linspace(-1.0, 1.0, POINTS, endpoint=False) * half_length
        edges = np.append(s, -s[0]) + s[0] / POINTS
        masses = (np.fft.fftshift(loss.cell_masses(edges)[0]) for loss in own)
        spectra = [np.fft.rfft(mass) for mass in masses]
        logs = np.log([np.where(f == 0, 1e-300, f) for f in spectra])
        answers = [_solved(np.exp(row[used] @ logs), np.fft.fftshift(s), query) for row in counts]
        found = np.maximum(found, answers)
    return found


def _solved(phi: NDArray[np.complex128], s: Floats, query: Query) -> float:
    """Return delta at epsilon, or epsilon at delta."""
    weight = np.full(phi.size, 2.0)
    weight[0] = weight[-1] = 1.0  # the half spectrum stands for the whole

    def delta(epsilon: float) -> float:
        w = np.maximum(0.0, -np.expm1(np.minimum(epsilon - s, 0.0)))
        return float((weight * (np.conj(np.fft.rfft(w)) * phi).real).sum() / s.size)

    if not query.inverse:
        return delta(query.epsilon)
    target = math.exp(query.log_delta)
    if delta(0.0) <= target:
        return 0.0
    end, rtol = float(s.max()), max(1e-3 * query.rtol, 1e-12)
    return root(lambda e: delta(e) - target, 0.0, end, rtol=rtol)
