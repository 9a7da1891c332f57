"""Many repetitions of one step whose loss has a density between two atoms at its ends.

Such a loss (Laplace noise, sampled or not) lies on [a, a + w], and after n steps the hockey-stick
function H_n has kinks at n a + k w only. In cells of width w it is a polynomial g_k, and a step

    H_(n+1)(u) = E[H_n(u - L)]      reads      g_k <- M_0 g_k + M_1 g_(k-1)

with two small matrices that are the same for all cells and all steps. No term cancels.

Error theory. The map is linear, positive and of norm at most one, and maps e^(-tu) to
e^(K(t) - tu): errors of at most r H_n + f e^(-tu) become at most r H_(n+1) + f e^(K(t) - tu). What
a step adds (coefficients beyond the degree kept, quadrature, rounding) counts as relative where it
is small against the least value of its cell, the one at the right end since H_n decreases; else as
floor, for several t at once. Only cells in a window are kept:

* above it H_n is taken to be 0: an error of at most the largest H_j(B_j), B_j its ends;
* below it H_n is taken to be 1: an error of at most the probability that the sum of up to n losses
  ever exceeds epsilon + A, with -A the window's lower end, or exp(n max(K(t), 0) - t (epsilon + A))
  (Doob's inequality for the martingale exp(t S_j - j K(t))).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc.accountants import banded_levels
from mechc.accountants.plan import log_peak_at
from mechc.errors import NumericError
from mechc.loss.action import DEGREE
from mechc.loss.measure import Step
from mechc.loss.tabulated import Tabulated, tabulate

Floats = NDArray[np.float64]

SCHEMES = (1, 5), (1, 8), (1, 11), (1, 15), (2, 15), (4, 15), (8, 15)  # panels, degree
NODES = 40  # at which the image of a polynomial is found
SPARE = 1e-9  # share of delta that each end of the window may cost
EXACT = 1e-12  # relative distance of kinks from the ends of the loss that is rounding
FLOOR = 1e-20  # mass of a step that does not matter
TILTS = 12  # of floors and of the ends of the window
WORK = 1e9  # multiplications, some half a second
LEFT = 4  # counts without an answer that are not worth another scheme
WORTH = 300  # levels that are as cheap as one answer of its own
ULP = 2.2e-16
LEAST_TARGET = -500.0  # log of the smallest delta: nothing underflows


class Bands(NamedTuple):
    """One step on cells: Chebyshev coefficients of a cell's image, from the cell and the one below.

    A cell has one panel or more, each with its coefficients; m of them in all.

    Attributes:
        same, below: the matrices, shape (m, m).
        same_error, below_error: sup norm of what they miss, per coefficient, shape (m,).
    """

    same: Floats
    below: Floats
    same_error: Floats
    below_error: Floats


def epsilons(step: Step, counts: Floats, targets: Floats, widest: float) -> Floats:
    """Return lower bound, estimate and upper bound of epsilon at each count.

    Args:
        step: the one distinct step of a repetition.
        counts: repetitions, increasing, all >= 1.
        targets: log of the finite part of delta to stay under, and to exceed, shape (2, n).
        widest: relative error of delta that is accepted.

    Returns:
        Shape (3, n), nan where there is no answer; everywhere for losses of another kind.
    """
    out = np.full((3, counts.size), np.nan)
    levels = int(counts[-1]) * step.count
    if levels > WORTH * counts.size or not targets.min() > LEAST_TARGET:
        return out
    table = _table(step)
    if table is None:
        return out
    law, lowest = step.loss, float(step.loss.atom_loss[0])
    width = float(law.atom_loss[1]) - lowest
    scale = math.exp(law.log_finite)
    window = _window(step, levels, width, float(targets[0].min()))
    if window is None:
        return out
    ends, tilts, k, barrier = window
    for parts, degree in SCHEMES:
        size = parts * (degree + 1)
        if float((ends[1] - ends[0] + 1).sum()) * 2.0 * size**2 > WORK:
            break
        bands = _bands(table, width, parts, degree, scale)
        if levels * (bands.same_error[0] + bands.below_error[0]) > widest:
            continue  # the density itself is not resolved
        left = np.isnan(out[2])
        found = banded_levels.run(
            bands,
            _payoff(ends[0, 0], width, parts, degree),
            ends,
            np.array([lowest, width, parts, table.relative, barrier, SPARE, widest]),
            np.array([tilts, k]),
            counts * step.count,
            np.exp(targets),
        )
        out[:, left] = found[:, left]
        if np.isnan(out[2]).sum() <= LEFT:
            break  # the first few, next to their largest loss, are as cheap elsewhere
    return out


def _table(step: Step) -> Tabulated | None:
    """The step as atoms and polynomials; None unless its loss is of the kind served here."""
    law = step.loss
    if law.atom_loss.size != 2 or not law.loss.size or not law.atom_loss[0] <= 0 < law.atom_loss[1]:
        return None
    try:
        table = tabulate(law, 0.0, law.log_finite, float(law.atom_loss[0]), FLOOR)
    except NumericError:
        return None
    ends = np.array([0.0, float(law.atom_loss[1] - law.atom_loss[0])])
    apart = np.abs(table.kinks[:, None] - ends).min(axis=1)
    return None if (apart > EXACT * ends[1]).any() or table.error > FLOOR else table


def _nodes(width: float, parts: int) -> tuple[Floats, Floats]:
    """Chebyshev nodes in the panels of a cell (0, width), and the map from values to coefficients.

    Shapes (panels, NODES) and (NODES, NODES).
    """
    x = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    places = width / parts * (np.arange(parts)[:, None] + 0.5 * (1.0 + x))
    return places, np.asarray(np.linalg.inv(chebyshev.chebvander(x, NODES - 1)), np.float64)


def _bands(table: Tabulated, width: float, parts: int, degree: int, scale: float) -> Bands:
    """The two matrices; `scale` is the mass of the step."""
    places, to_coefficients = _nodes(width, parts)
    edges = width * np.linspace(-1.0, 1.0, 2 * parts + 1)
    columns = DEGREE * np.arange(2 * parts)[:, None] + np.arange(degree + 1)
    values, again = (
        (scale * table.act(places.ravel(), edges, n))[:, columns.ravel()].reshape(
            parts, NODES, 2, parts * (degree + 1)
        )
        for n in (2, 4)
    )
    image = np.einsum("mn,pncs->pmcs", to_coefficients, again)
    kept, left_out = np.abs(image[:, : degree + 1]), np.abs(image[:, degree + 1 :])
    size = parts * (degree + 1)
    missed = left_out.sum(axis=1) + 2.0 * left_out[:, -4:].sum(axis=1)
    missed += 3.0 * np.abs(values - again).max(axis=1) + ULP * (size + 8.0) * kept.sum(axis=1)
    below, same = (image[:, : degree + 1, c].reshape(size, size) for c in (0, 1))
    below_error, same_error = missed.max(axis=0)
    return Bands(same, below, same_error, below_error)


def _payoff(first: int, width: float, parts: int, degree: int) -> Floats:
    """Coefficients of 1 - exp(u) in the cells first, ..., -1 below u = 0, a row for each."""
    places, to_coefficients = _nodes(width, parts)
    u = width * np.arange(first, 0)[:, None, None] + places
    c = -np.expm1(u) @ to_coefficients[: degree + 1].T
    return np.ascontiguousarray(c.reshape(u.shape[0], -1))


def _window(
    step: Step, levels: int, width: float, target: float
) -> tuple[NDArray[np.int64], Floats, Floats, float] | None:
    """First and last cell at levels 0, 1, ..., tilts with their K(t), and A.

    None where the loss has no such tilts.
    """
    law, lowest = step.loss, float(step.loss.atom_loss[0])
    n = np.arange(1.0, levels + 1.0)
    _, _, variance, _ = law.generating(0.0)
    spread = math.sqrt(max(variance, 1e-300))
    small = -(target + math.log(SPARE))
    tilts = np.geomspace(
        0.5 / (spread * math.sqrt(levels)), 2.0 * math.sqrt(2.0 * small) / spread, TILTS
    )
    try:
        k = np.array([law.generating(float(t))[0] for t in tilts])
    except NumericError:
        return None
    payoff = np.array([log_peak_at(float(t)) for t in tilts])
    top = ((np.outer(n, k) + payoff + small) / tilts).min(axis=1)
    least = ((np.outer(n, k) + payoff - target + math.log(1e-3)) / tilts).min(axis=1)
    needed = (np.outer(n, np.maximum(k, 0.0)) + small) / tilts - np.maximum(least, 0.0)[:, None]
    barrier = max(float(needed.min(axis=1).max()), 2.0 * width)
    first = np.floor((-barrier - lowest * np.arange(levels + 1.0)) / width).astype(np.int64)
    last = np.ceil((np.append(0.0, top) - lowest * np.arange(levels + 1.0)) / width)
    last = np.minimum(last, np.arange(levels + 1.0) - 1.0).astype(np.int64)
    return np.array([first, np.maximum(last, first)]), tilts, k, barrier
