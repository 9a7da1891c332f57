"""What a transform has beyond its frequencies, by Parseval's identity.

In: a positive measure with a density f, tilted, and its transform phi at y = h, 2h, ..., Nh. Out: a
bound on

    sum over n > N of |phi(nh)|^2 = (T integral of f_T^2 - 1) / 2 - sum over n <= N of |phi(nh)|^2,

T = 2 pi / h, f_T the sum of the translates of f by T. It needs no derivatives of f, and ends at the
rounding of the difference.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.wave import ULP, Measure, Wave
from mechc.errors import NumericError
from mechc.loss.rule import ORDER

Floats = NDArray[np.float64]

GRAIN = 32.0  # rounding of a slope from 16 values, in ULP of the largest
NEARLY = 1e-28  # share of the square beyond, whose root is the overlap of translates


def unseen(measure: Measure, wave: Wave, c: float, period: float) -> float:
    """Bound the sum of |phi|^2 over the frequencies that `wave` does not have.

    Branches of the loss overlap, and the square of their sum is not the sum of their squares: each
    has a transform of its own, and Minkowski's inequality adds up what those leave.

    Args:
        measure: without atoms, on nodes that resolve the frequencies of `wave`.
        wave: its transform.
        c: the tilt.
        period: T.
    """
    if not wave.weight.size:
        return 0.0
    if not measure.band.monotone:
        return math.inf
    branches = np.unique(measure.band.region)
    if branches.size == 1:
        return _left(measure, wave, period)
    h, root = 2.0 * math.pi / period, 0.0
    for branch in branches:
        mine = np.where(measure.band.region == branch, measure.log_weight, -np.inf)
        part = measure._replace(log_weight=mine)
        transform = Wave(part, c, h, wave.log_phi.size)
        if transform.weight.size:
            share = math.exp(transform.log_total - wave.log_total)
            root += share * math.sqrt(_left(part, transform, period))
    return root**2


def _left(measure: Measure, wave: Wave, period: float) -> float:
    """The same on one branch."""
    loss, weight = measure.band.loss, wave.weight
    with np.errstate(over="ignore", divide="ignore"):
        square = np.divide(weight**2, measure.band.spacing, np.zeros(loss.size), where=weight > 0.0)
    if not np.isfinite(square).all():  # next to an atom: nothing is known beyond
        return math.inf
    some = loss[weight > 0.0]
    panels = loss.reshape(-1, ORDER)
    size = np.abs(panels).max(axis=1) / np.maximum(np.ptp(panels, axis=1), 1e-300)
    with np.errstate(over="ignore"):
        blurred = float(square.reshape(-1, ORDER).sum(axis=1) @ (1.0 + size))
    total, far = float(square.sum()), float(square[loss > some.min() + period].sum())
    copies = math.ceil(float(np.ptp(some)) / period)
    overlap = 2.0 * copies * math.sqrt(total * far)
    seen = float(np.exp(2.0 * wave.log_phi.real).sum())
    rounding = period * GRAIN * ULP * blurred + 8.0 * ULP * wave.log_phi.size
    return max(0.0, 0.5 * (period * (total + overlap) - 1.0) - seen) + rounding


def covering_period(measure: Measure, c: float) -> float:
    """Return a period within which nearly all of the tilted density's square lies.

    Raises:
        NumericError: the density is not known.
    """
    loss = measure.band.loss
    exponent = measure.log_weight + c * loss
    share = np.exp(exponent - exponent.max())
    with np.errstate(divide="ignore", invalid="ignore"):
        square = share**2 / measure.band.spacing
    order = np.argsort(loss)
    above = np.cumsum(np.where(share > 0.0, square, 0.0)[order][::-1])[::-1]
    inside = np.flatnonzero(above > NEARLY * above[0])
    if not inside.size:  # nodes with one loss between them
        raise NumericError("contour: the large losses have no density that doubles can hold")
    return float(loss[order[inside[-1]]] - loss[share > 0.0].min())
