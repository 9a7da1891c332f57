"""Transforms of positive measures on one contour, and Parseval's identity for what lies beyond.

In: nodes of a measure, real part c, spacing h and number of frequencies. Out: the log of its mass
tilted at c, the log of its transform at y = h, 2h, ... as a share of that mass, and a bound on

    sum over n > N of |phi(nh)|^2 = (T integral of f_T^2 - 1) / 2 - sum over n <= N of |phi(nh)|^2,

T = 2 pi / h, f the tilted density, f_T the sum of its translates by T.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants import rough
from mechc.accountants.frequencies import log_phi
from mechc.accountants.logspace import log_add
from mechc.accountants.tilting import tilt
from mechc.accountants.trapezoid import ULP
from mechc.errors import NumericError
from mechc.loss.band import Band
from mechc.loss.rule import ORDER, TOP, WEIGHTS

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

DROPPED = 1e-18  # tilted weight below which nodes are left out of the transforms
GRAIN = 32.0  # rounding of a slope from 16 values, in ULP of the largest


def log_totals(loss: Floats, log_weight: Floats, tilts: Floats) -> tuple[Floats, Floats]:
    """Return log of sum w exp(t loss) at every tilt t, and its rounding."""
    seen = log_weight > -np.inf
    if not seen.any():
        return np.full(tilts.size, -np.inf), np.zeros(tilts.size)
    loss, log_weight = loss[seen], log_weight[seen]
    offsets = np.array([0, loss.size], np.int64)
    rows = rough.sums(offsets, np.ones(1), loss, log_weight, tilts)
    return rows[:, 0].copy(), rows[:, 3].copy()


class Wave:
    """Transform of a positive measure.

    Attributes:
        log_total: log of its mass tilted at c.
        log_phi: log of the transform at y = h, 2h, ..., as a share of that mass.
        weight: tilted shares of the nodes.
        noise: rounding of log_total.
        lost: share of the nodes left out.
    """

    def __init__(self, loss: Floats, log_weight: Floats, c: float, h: float, nodes: int) -> None:
        """Evaluate at y = h, ..., nodes * h."""
        totals, noise = log_totals(loss, log_weight, np.array([c]))
        self.log_total, self.noise, self.lost = float(totals[0]), float(noise[0]), 0.0
        self.log_phi: Complexes = np.zeros(nodes, np.complex128)
        self.weight: Floats = np.empty(0)
        if self.log_total == -math.inf:
            return
        offsets = np.array([0, loss.size], np.int64)
        self.weight, rows, offsets, centred, weight = tilt(offsets, loss, log_weight, c, DROPPED)
        self.lost = 2.0 * float(rows[0, 2])
        re, im = np.empty(nodes), np.empty(nodes)
        log_phi(offsets, np.ones(1), centred, weight, h, 1, nodes + 1, re, im)
        self.log_phi = re + 1j * (im + float(rows[0, 0]) * h * np.arange(1.0, nodes + 1.0))

    def plus(self, other: Wave) -> Wave:
        """Return the transform of the sum of both measures."""
        if other.log_total == -math.inf:
            return self
        if self.log_total == -math.inf:
            return other
        out = object.__new__(Wave)
        out.log_total = log_add(self.log_total, other.log_total)
        out.noise, out.lost = max(self.noise, other.noise), max(self.lost, other.lost)
        out.weight = np.empty(0)
        out.log_phi = np.log(
            np.exp(self.log_phi + (self.log_total - out.log_total))
            + np.exp(other.log_phi + (other.log_total - out.log_total))
        )
        return out

    def beyond(self, loss: Floats, spacing: Floats, lowest: float, period: float) -> float:
        """Bound the sum of |phi|^2 over the frequencies that were not evaluated.

        Args:
            loss: the nodes, on one branch of the loss.
            spacing: length on the loss axis that each of them stands for.
            lowest: the least loss of the measure.
            period: T.
        """
        with np.errstate(over="ignore", divide="ignore"):
            none = np.zeros_like(spacing)
            square = np.divide(self.weight**2, spacing, out=none, where=self.weight > 0.0)
        if not np.isfinite(square).all():  # next to an atom: nothing is known beyond
            return math.inf
        panels = loss.reshape(-1, ORDER)
        size = np.abs(panels).max(axis=1) / np.maximum(np.ptp(panels, axis=1), 1e-300)
        total, far = float(square.sum()), float(square[loss > lowest + period].sum())
        copies = math.ceil(float(np.ptp(loss)) / period)
        overlap = 2.0 * copies * math.sqrt(total * far)
        seen = float(np.exp(2.0 * self.log_phi.real).sum())
        rounding = GRAIN * ULP * float(square.reshape(-1, ORDER).sum(axis=1) @ (1.0 + size))
        rounding = period * rounding + 8.0 * ULP * self.log_phi.size
        return max(0.0, 0.5 * (period * (total + overlap) - 1.0) - seen) + rounding

    def roughness(self) -> float:
        """Estimated quadrature error of the tilted measure, as a share, by its coefficients.

        The rule is exact to twice the degree of the highest ones, so that their decay from the
        mean of a panel continues to their square.
        """
        if not self.weight.size:
            return 0.0
        amplitude = self.weight.reshape(-1, ORDER) / WEIGHTS
        top = np.abs(amplitude @ TOP.T).max(axis=1)
        mean = np.maximum(0.5 * self.weight.reshape(-1, ORDER).sum(axis=1), 1e-300)
        return float((top * np.minimum(top / mean, 1.0)).sum())


def unseen(band: Band, log_weight: Floats, wave: Wave, c: float, period: float) -> float:
    """Bound the sum of |phi|^2 over the frequencies that `wave` does not have.

    Branches of the loss overlap, and the square of their sum is not the sum of their squares: each
    has a transform of its own, and Minkowski's inequality adds up what those leave.

    Args:
        band: where the measure lives, without atoms.
        log_weight: log weights of its nodes.
        wave: the transform of the measure.
        c: the tilt.
        period: T.
    """
    if not wave.weight.size:
        return 0.0
    branches = np.unique(band.region)
    if branches.size == 1:
        return wave.beyond(band.loss, band.spacing, band.lo, period)
    h, root = 2.0 * math.pi / period, 0.0
    for branch in branches:
        mine = band.region == branch
        part = Wave(band.loss[mine], log_weight[mine], c, h, wave.log_phi.size)
        if part.weight.size:
            left = part.beyond(band.loss[mine], band.spacing[mine], band.lo, period)
            root += math.exp(part.log_total - wave.log_total) * math.sqrt(left)
    return root**2


def covering_period(band: Band, log_weight: Floats, c: float) -> float:
    """Return a period within which nearly all of the tilted density's square lies.

    Raises:
        NumericError: the density is not known.
    """
    exponent = log_weight + c * band.loss
    share = np.exp(exponent - exponent.max())
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        square = share**2 / band.spacing
    order = np.argsort(band.loss)
    above = np.cumsum(square[order][::-1])[::-1]
    inside = np.flatnonzero(above > NEARLY * above[0])
    if not inside.size:  # nodes with one loss between them
        raise NumericError("contour: the large losses have no density that doubles can hold")
    return float(band.loss[order[inside[-1]]] - band.lo)


NEARLY = 1e-28  # share of the square beyond, whose root is the overlap of translates
