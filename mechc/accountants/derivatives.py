"""How fast the transform of a smooth density fades, by the variation of its derivatives.

In: a positive measure on the nodes of a band, tilted. Out: bounds on its transform phi as a share
of its mass. Integrating m times by parts on every branch of the loss, with f the density,

    |phi(y)| <= sum over j < m of J_j / y^(j+1) + V_m / y^m,   V_m = integral of |f^(m)|,

J_j the absolute j-th derivatives at the ends of the branches; f vanishes there where chi does.
Derivatives are those of the polynomials of degree 15 that the nodes of a panel determine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.wave import Measure
from mechc.loss.rule import DERIVATIVE, ORDER

Floats = NDArray[np.float64]

HIGHEST = 10  # derivative; chi has eleven
LEAST = 1e-280  # share that is told from none
SAMPLED = 1.25  # slack on variations, which are sampled at the nodes


class Fading:
    """Bounds on |phi(y)| for all y beyond a frequency."""

    def __init__(self, measure: Measure, c: float) -> None:
        """Find the variations of the density tilted at c; `measure` has no atoms."""
        band = measure.band
        loss, spacing = band.loss.reshape(-1, ORDER), band.spacing.reshape(-1, ORDER)
        log_total = measure.log_totals(np.array([c]))[0][0]
        weight = np.exp(measure.log_weight + c * band.loss - log_total).reshape(-1, ORDER)
        with np.errstate(over="ignore", divide="ignore"):  # next to an atom
            f = np.divide(weight, spacing, np.zeros(loss.shape), where=weight > 0.0)
        slope = (loss - loss[:, ORDER // 2, None]) @ DERIVATIVE.T
        region = band.region[::ORDER]
        first = np.concatenate([[True], region[1:] != region[:-1]])
        last = np.append(first[1:], True)
        self._ends, self._variations = np.zeros(HIGHEST), np.full(HIGHEST, np.inf)
        if not band.monotone:
            return  # an extremum of the loss is a pole of the density
        with np.errstate(all="ignore"):  # at an extremum of the loss nothing fades
            for m in range(HIGHEST):
                self._ends[m] = np.abs(f[first, 0]).sum() + np.abs(f[last, -1]).sum()
                f = f @ DERIVATIVE.T / slope
                self._variations[m] = SAMPLED * float((spacing * np.abs(f)).sum())

    def beyond(self, c: float, start: Floats) -> Floats:
        """Bound the integral of |phi(y)| / |c + iy|^2 over y > start, for every start."""
        m, y = np.arange(1.0, HIGHEST + 1.0), start[:, None]
        # the integral of y^-m / (c^2 + y^2), with the second factor bounded in two ways
        with np.errstate(all="ignore"):  # nothing is proven where y^-m is out of range
            flat = y / ((m - 1.0) * (c * c + y * y))
            each = y**-m * np.minimum(1.0 / (y * (m + 1.0)), flat)
            bounds = np.cumsum(self._ends * each, axis=1) + self._variations * each
        best: Floats = np.nan_to_num(bounds, nan=np.inf).min(axis=1)
        return best

    def most(self, start: Floats) -> Floats:
        """Bound |phi(y)| for all y > start, for every start."""
        with np.errstate(all="ignore"):
            each = start[:, None] ** -np.arange(1.0, HIGHEST + 1.0)
            bounds = np.cumsum(self._ends * each, axis=1) + self._variations * each
        best: Floats = np.nan_to_num(bounds, nan=np.inf).min(axis=1)
        return np.clip(best, LEAST, 1.0)
