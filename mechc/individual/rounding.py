"""How finely each step of a person is rounded, so that members of the family can be shared.

In: people's steps, and what rounding across one bucket of the grid would add to K at a person's
saddle point. Out: for every person parameter values on both sides of the steps, and how often each
occurs. The values are those of a grid with 4^level times as many buckets; the level is the smallest
for which rounding costs the person less than the share of the tolerance that a step may have, so
that steps that hardly matter meet at few values. Steps that would need a finer level than `SHARED`
are not rounded at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.individual.grid import Grid

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

SHARED = 2  # finest level


@dataclass(frozen=True)
class Rounded:
    """The steps of one person.

    Attributes:
        worse: parameter values on the side of more privacy loss, shape (n,).
        better: values on the other side, nan where a step is left out, shape (n,).
        counts: steps between the two, shape (n,).
    """

    worse: Floats
    better: Floats
    counts: Rows


def of_counts(grid: Grid, counts: NDArray[np.integer]) -> Rounded:
    """Read a row of the ledger: every step between the knots of its bucket."""
    used = np.flatnonzero(counts)
    knots = np.append(grid.knots, np.nan)
    return Rounded(knots[used], knots[used + 1], counts[used].astype(np.int64))


def of_steps(
    grid: Grid, values: Floats, counts: Rows, price: Floats, allowed: float, most: int
) -> Rounded:
    """Round the steps of one person.

    Args:
        grid: the grid of the ledger.
        values: parameters of the steps that touched the person, shape (steps,).
        counts: how often each was taken, shape (steps,).
        price: what rounding a step across each bucket adds to K, shape (buckets,); nan where it
            is not known.
        allowed: what rounding may add in all.
        most: how many steps may stay as they are.
    """
    position = np.clip(grid.position(values), 0.0, grid.buckets)
    cost = np.nan_to_num(price, nan=np.inf)[np.minimum(position.astype(np.int64), price.size - 1)]
    with np.errstate(divide="ignore"):
        level = np.log(cost * counts * (values.size / allowed)) / np.log(4.0)
    fine = 4.0 ** np.clip(np.ceil(level), 0.0, SHARED)
    outward = 1.0 if grid.best > grid.worst else -1.0
    index = np.floor(position * fine)
    # rounding of the position must not take the step to the wrong side
    index -= (outward * (grid.values(index / fine) - values) > 0.0) & (index > 0.0)
    worse, better = grid.values(index / fine), grid.values((index + 1.0) / fine)
    better[(index + 1.0 > grid.buckets * fine) | (outward * (better - values) < 0.0)] = np.nan
    alone = np.argsort(-level, kind="stable")[:most]
    alone = alone[level[alone] > SHARED]
    worse[alone] = better[alone] = values[alone]
    pairs, place = np.unique(np.stack([worse, better]), axis=1, return_inverse=True)
    total = np.bincount(place.ravel(), weights=counts, minlength=pairs.shape[1])
    return Rounded(pairs[0], pairs[1], total.astype(np.int64))
