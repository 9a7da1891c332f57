"""The mesh of a set of discretised losses: a common step, and an offset for every law.

In: the atoms of every law with weights that say how much they matter, and the smallest step
allowed. Out: a step not much larger, and offsets, such that the atoms lie on mesh points or a
little above one. Atoms on mesh points cost nothing; an atom a share x of the step above its point
costs the lower bound x * step, the only error of first order in the step, so that a good common
step is worth a search. With two atoms it is exact, with d it is a simultaneous approximation with
misses of order (steps tried)^(-1/(d-1)). A law without atoms is laid so that its largest loss is
half a step above the highest point: losses that pile up there (an extremum of the loss inside the
output) then have a pool of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TRIED = 4000  # candidate steps
_STRETCH = 1.25  # largest step tried, in units of the smallest
_HEAVIEST = 48  # atoms of one law that count
_EXACT = 1e-7  # a miss below this share of the step is rounding


class Mesh(NamedTuple):
    """A step and one offset a law; `miss` is the weighted sum of what the atoms lie above."""

    step: float
    offsets: list[float]
    miss: float


def align(
    atoms: Sequence[tuple[Floats, Floats]],
    largest: Sequence[float],
    smallest: float,
    curvature: float,
) -> Mesh:
    """Choose the step and offsets.

    Args:
        atoms: per law, losses and weights of its atoms; weights are expected numbers of hits.
        largest: per law, ess sup of the loss.
        smallest: smallest step allowed; the answer is at most 1.25 times larger.
        curvature: cost of the mesh itself is curvature * step**2, where an atom's is
            weight * miss; both are errors of the composed loss's logarithm.

    Returns:
        The cheapest of a few thousand candidates.
    """
    heavy = [_heaviest(loss, weight) for loss, weight in atoms]
    gap = _main_gap(heavy)
    steps = [smallest]
    if gap >= smallest:
        top, least = int(gap / smallest), max(1, int(gap / (_STRETCH * smallest)))
        counts = np.unique(np.linspace(least, top, min(_TRIED, top - least + 1)).astype(np.int64))
        steps = [gap / float(count) for count in counts[::-1]]
    costs = [_cost(heavy, largest, step, curvature) for step in steps]
    return min(costs, key=lambda cost: cost[0])[1]


def _heaviest(loss: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The atoms that matter, the heaviest first."""
    order = np.argsort(-weight, kind="stable")[:_HEAVIEST]
    return loss[order], weight[order]


def _main_gap(heavy: Sequence[tuple[Floats, Floats]]) -> float:
    """Distance of the two heaviest atoms of the law where the second matters most."""
    best, gap = 0.0, 0.0
    for loss, weight in heavy:
        if loss.size > 1 and weight[1] > best:
            best, gap = float(weight[1]), abs(float(loss[0] - loss[1]))
    return gap


def _cost(
    heavy: Sequence[tuple[Floats, Floats]],
    largest: Sequence[float],
    step: float,
    curvature: float,
) -> tuple[float, Mesh]:
    offsets, miss = [], 0.0
    for (loss, weight), top in zip(heavy, largest, strict=True):
        if loss.size == 0:
            offsets.append(top - 0.5 * step if math.isfinite(top) else 0.0)
            continue
        index = (loss - loss[0]) / step
        above = index - np.round(index)
        above[np.abs(above) < _EXACT] = 0.0
        lowest = float(above.min())
        offsets.append(float(loss[0]) + step * lowest)
        miss += step * float(weight @ (above - lowest))
    return curvature * step * step + miss, Mesh(step, offsets, miss)
