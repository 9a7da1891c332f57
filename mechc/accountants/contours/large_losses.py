"""Positive measures on the nodes of a band: their masses, transforms, and odds of large losses.

With k repetitions of a step and r = C / M the odds of a large loss to a small one, the composition
is M^k times (1 + r)^k, of which (1 + r)^k - 1 has large losses: nothing is subtracted where few
are expected. Transforms are taken at y = h, 2h, ... on one contour, as shares of the tilted mass.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from mechc.accountants.contours.characteristic import log_phi
from mechc.accountants.contours.saddle import tilt
from mechc.loss.moments import sum_tilted
from mechc.loss.rule import ORDER, TOP, WEIGHTS
from mechc.loss.truncated_loss import Band

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

LEAST = -700.0  # log that doubles hold
FIRST_ORDER = -100.0  # log of the odds of a large loss below which two of them are nothing beside


def log_odds(counts: Floats, log_ratio: Floats) -> Floats:
    """Return log of prod (1 + C / M)^k - 1 for real log C / M of shape (steps, n)."""
    total = np.asarray(counts @ np.logaddexp(0.0, log_ratio), np.float64)
    linear = np.logaddexp.reduce(np.log(counts)[:, None] + log_ratio)
    with np.errstate(divide="ignore"):
        whole = np.where(total > 30.0, total, np.log(np.expm1(np.minimum(total, 30.0))))
    out: Floats = np.where(linear < FIRST_ORDER, linear, whole)
    return out


def transforms(
    counts: Floats, log_ratio: Complexes, log_rest: Complexes, log_unit: float
) -> Complexes:
    """Return the same for complex ratios, times exp(log_rest), in units of exp(log_unit).

    Where the transform of small losses has faded, ratios alone would overflow.
    """
    log_one = log_rest - log_unit
    if log_unit < FIRST_ORDER:
        return np.asarray(counts @ np.exp(log_ratio + log_one), np.complex128)
    outweighed = log_ratio.real > 0.0
    log_sum = scipy.special.log1p(np.exp(np.where(outweighed, -log_ratio, log_ratio)))
    log_sum = np.maximum(log_sum.real, LEAST) + 1j * log_sum.imag  # one and -1 may cancel
    total = counts @ (np.where(outweighed, log_ratio, 0.0) + log_sum)
    large = total.real > 1.0
    difference = np.exp(total + log_one) - np.exp(log_one)
    few = np.expm1(np.where(large, 0.0, total)) * np.exp(log_one)
    return np.asarray(np.where(large, difference, few), np.complex128)


DROPPED = 1e-18  # tilted weight below which nodes are left out of the transforms
WAVE_LEAST = -80.0  # log of a share that is left out of real sums
COARSE, UNKNOWN = 1e-2, 1e4  # share beyond which an estimate of the error is none, said so
TOP_OF_WEIGHTED = np.ascontiguousarray(TOP / WEIGHTS)


class Measure(NamedTuple):
    """A positive measure: some panels of a law with log weights of its own on their nodes."""

    band: Band
    log_weight: Floats

    def log_totals(self, tilts: Floats) -> tuple[Floats, Floats]:
        """Return log of the mass tilted at every t, and its error: rounding and quadrature.

        That of a panel is estimated by its top coefficients: the rule is exact to twice their
        degree, so that their decay from the mean continues to their square. It is huge where
        that is no small number.
        """
        loss, log_weight, smooth = self.band.loss, self.log_weight, self.band.smooth
        if not (log_weight > -math.inf).any():
            return np.full(tilts.size, -math.inf), np.zeros(tilts.size)
        rows, work = np.empty((tilts.size, 1, 4)), np.empty((2, loss.size))
        sum_tilted(np.array([0, loss.size]), loss, log_weight, tilts, work, rows)
        log_total, error = rows[:, 0, 0], rows[:, 0, 3]
        exponent = log_weight[:smooth] + np.outer(tilts, loss[:smooth]) - log_total[:, None]
        share = np.exp(np.where(exponent > WAVE_LEAST, exponent, -math.inf))
        share = share.reshape(tilts.size, -1, ORDER)
        top, mean = np.abs(share @ TOP_OF_WEIGHTED.T).max(axis=2), 0.5 * share.sum(axis=2)
        rough = (top * np.minimum(top / np.maximum(mean, 1e-300), 1.0)).sum(axis=1)
        return log_total, np.where(rough < COARSE, error + rough, UNKNOWN)


class Wave:
    """Transform of a positive measure.

    Attributes:
        log_total: log of its mass tilted at c.
        log_phi: log of the transform at y = h, 2h, ..., as a share of that mass.
        error: of the transform, as a share: rounding, quadrature, nodes left out.
    """

    def __init__(self, measure: Measure, c: float, h: float, nodes: int) -> None:
        """Evaluate at y = h, ..., nodes * h."""
        loss, log_weight = measure.band.loss, measure.log_weight
        totals, errors = measure.log_totals(np.array([c]))
        self.log_total, self.error = float(totals[0]), float(errors[0])
        self.log_phi: Complexes = np.zeros(nodes, np.complex128)
        if self.log_total == -math.inf:
            return
        offsets = np.array([0, loss.size], np.int64)
        _, rows, offsets, centred, weight = tilt(offsets, loss, log_weight, c, DROPPED)
        self.error += 2.0 * float(rows[2, 0])
        re, im = log_phi(offsets, np.ones(1), centred, weight, h, 1, nodes + 1)
        self.log_phi = re + 1j * (im + float(rows[0, 0]) * h * np.arange(1.0, nodes + 1.0))
