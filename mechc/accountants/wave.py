"""Positive measures on the nodes of a band, and their transforms on one contour.

In: panels with log weights, real part c, spacing h and number of frequencies. Out: logs of the mass
at real tilts with their error, and the log of the transform at y = h, 2h, ... as a share of the
mass tilted at c.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.frequencies import log_phi
from mechc.accountants.tilting import tilt
from mechc.loss.band import Band
from mechc.loss.compiled import compiled
from mechc.loss.exponentials import exponentials
from mechc.loss.rule import ORDER, TOP, WEIGHTS

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

ULP = 2.2e-16
DROPPED = 1e-18  # tilted weight below which nodes are left out of the transforms
LEAST = -80.0  # log of a share that is left out of real sums
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
        rows = _totals(self.band.loss, self.log_weight, self.band.smooth, tilts)
        return rows[:, 0], rows[:, 1]


@compiled("float64(float64[::1])")
def _roughness(w):  # type: ignore[no-untyped-def]
    """Estimated quadrature error of a panel by the weighted values at its nodes."""
    mean, last, before = 0.0, 0.0, 0.0
    for j in range(w.size):
        mean += 0.5 * w[j]
        before += TOP_OF_WEIGHTED[0, j] * w[j]
        last += TOP_OF_WEIGHTED[1, j] * w[j]
    top = max(abs(last), abs(before))
    return top * min(top / mean, 1.0) if top > 0.0 else 0.0


@compiled("float64[:,::1](float64[::1], float64[::1], int64, float64[::1])")
def _totals(loss, log_weight, smooth, tilts):  # type: ignore[no-untyped-def]
    """Rows of the log of the tilted sum, and of its error as a share of it."""
    out = np.empty((tilts.size, 2))
    v, w = np.empty(loss.size), np.empty(loss.size)
    for m in range(tilts.size):
        t = tilts[m]
        top = -np.inf
        for j in range(loss.size):
            v[j] = log_weight[j] + t * loss[j]
            top = max(top, v[j])
        if top == -np.inf:
            out[m, 0], out[m, 1] = -np.inf, 0.0
            continue
        for j in range(loss.size):
            v[j] -= top
        exponentials(v, w)
        total, noise, rough = 0.0, 0.0, 0.0
        for j in range(loss.size):
            if v[j] > LEAST:
                total += w[j]
                noise += w[j] * (8.0 + 4.0 * abs(log_weight[j]) + 4.0 * abs(t * loss[j]))
            else:
                w[j] = 0.0
        for i in range(0, smooth, ORDER):
            rough += _roughness(w[i : i + ORDER])
        out[m, 0] = top + math.log(total)
        out[m, 1] = ULP * (noise / total + 2.0 * abs(out[m, 0])) + rough / total
        if not rough < COARSE * total:
            out[m, 1] = UNKNOWN
    return out


class Wave:
    """Transform of a positive measure.

    Attributes:
        log_total: log of its mass tilted at c.
        log_phi: log of the transform at y = h, 2h, ..., as a share of that mass.
        weight: tilted shares of the nodes.
        error: of the transform, as a share: rounding, quadrature, nodes left out.
    """

    def __init__(self, measure: Measure, c: float, h: float, nodes: int) -> None:
        """Evaluate at y = h, ..., nodes * h."""
        loss, log_weight = measure.band.loss, measure.log_weight
        totals, errors = measure.log_totals(np.array([c]))
        self.log_total, self.error = float(totals[0]), float(errors[0])
        self.log_phi: Complexes = np.zeros(nodes, np.complex128)
        self.weight: Floats = np.empty(0)
        if self.log_total == -math.inf:
            return
        offsets = np.array([0, loss.size], np.int64)
        self.weight, rows, offsets, centred, weight = tilt(offsets, loss, log_weight, c, DROPPED)
        self.error += 2.0 * float(rows[0, 2])
        re, im = np.empty(nodes), np.empty(nodes)
        log_phi(offsets, np.ones(1), centred, weight, h, 1, nodes + 1, re, im)
        self.log_phi = re + 1j * (im + float(rows[0, 0]) * h * np.arange(1.0, nodes + 1.0))
