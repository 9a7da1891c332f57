"""The part of a privacy loss between two losses: a positive measure with nodes of its own.

The nodes of the whole law are accurate as a share of the whole. A band carries its own: they are
accurate as a share of the mass of the band, however small that is, for every tilt covered.
"""

from __future__ import annotations

import math
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechc.loss import branches
from mechc.loss.measure import PrivacyLoss
from mechc.loss.quadrature import Quadrature
from mechc.loss.rule import ORDER
from mechc.loss.source import KernelSource

Floats = NDArray[np.float64]


class Band:
    """The finite part of a privacy loss with losses in (lo, hi].

    Attributes:
        loss, log_weight: nodes and atoms.
        spacing: length on the loss axis that each node stands for, see PrivacyLoss.
        region: the interval of outputs that each node belongs to.
        atoms: how many atoms stand at the end.
        tolerance: estimated error of the tilted mass, as a share of it.
        lo, length: where it begins, and how long it is.
        monotone: the loss is monotone on every interval of outputs.
    """

    def __init__(self, law: PrivacyLoss, lo: float, hi: float, tilts: tuple[float, float]) -> None:
        """Lay panels on the outputs with such losses and resolve them.

        Args:
            law: a privacy loss made from a kernel.
            lo: may be -inf.
            hi: may be inf.
            tilts: real tilts to be covered; inside the strip of convergence where lo or hi is
                infinite.

        Raises:
            NumericError: the quadrature does not settle.
        """
        source = law.source
        assert source is not None
        self.lo, self.length = lo, hi - lo
        self._reverse = law.is_reversed
        rows = between(source, lo, hi, self._reverse)
        inside = (law.atom_loss > lo) & (law.atom_loss <= hi)
        self._atoms = law.atom_loss[inside], law.atom_log_mass[inside]
        self.atoms = int(inside.sum())
        self._panels: Quadrature | None = None
        self.tolerance = 0.0
        if rows.size:
            covered = (-1.0 - tilts[1], -1.0 - tilts[0]) if self._reverse else tilts
            self._panels = Quadrature(source.kernel, source.theta, rows).covering(*covered)
            self.tolerance = self._panels.error
        self._take(self._panels)

    def resolved(self, contour: float, frequency: float, floor: float) -> Band:
        """Return a copy whose nodes are good for exp((contour + iy) L), |y| <= frequency.

        Args:
            contour: a real tilt that is covered.
            frequency: the largest |y|.
            floor: share of the tilted mass below which a panel need not resolve it.
        """
        if self._panels is None:
            return self
        other = copy(self)
        at = -1.0 - contour if self._reverse else contour
        other._take(self._panels.with_waves(at, frequency, floor))
        return other

    def _take(self, panels: Quadrature | None) -> None:
        if panels is None:
            self.loss, self.log_weight = self._atoms
            self.spacing, self.region = np.empty(0), np.empty(0, np.int64)
            self.monotone = True
            return
        log_weight, self.spacing = panels.spread()
        loss = panels.loss.ravel()
        self.region = panels.region.repeat(ORDER)
        if self._reverse:
            loss, log_weight = -loss, log_weight - loss
        step = np.diff(loss)[np.diff(self.region) == 0]
        within = self.region[1:][np.diff(self.region) == 0]
        rising = np.bincount(within, step > 0, minlength=1)
        falling = np.bincount(within, step < 0, minlength=1)
        self.monotone = not np.any((rising > 0) & (falling > 0))
        self.loss = np.concatenate([loss, self._atoms[0]])
        self.log_weight = np.concatenate([log_weight, self._atoms[1]])


def log_density(law: PrivacyLoss, loss: float) -> float:
    """Return the largest log density of P at outputs with this loss, -inf where there are none."""
    source = law.source
    assert source is not None
    cuts = np.unique(branches.above(source, loss, law.is_reversed))
    x = np.ascontiguousarray(cuts[np.isfinite(cuts)])
    log_p = np.empty(x.size)
    density = source.kernel.log_q_many if law.is_reversed else source.kernel.log_p_many
    density(x, source.theta, log_p)
    return float(log_p.max(initial=-math.inf))


def between(source: KernelSource, lo: float, hi: float, reverse: bool) -> Floats:
    """Intervals of x on which lo < L <= hi (reverse: of -L), shape (n, 2)."""
    over, beyond = (
        branches.above(source, at, reverse) if math.isfinite(at) else None for at in (lo, hi)
    )
    rows = []
    for start, end in source.rows[:, :2].tolist():
        cuts = [start, end]
        cuts += [c for part in (over, beyond) if part is not None for c in part.ravel().tolist()]
        ends = sorted({c for c in cuts if start <= c <= end})
        for a, b in pairwise(ends):
            middle = _middle(a, b)
            if (over is None or _within(over, middle)) and not (
                beyond is not None and _within(beyond, middle)
            ):
                rows.append((a, b))
    return np.array(rows, np.float64).reshape(-1, 2)


def _middle(a: float, b: float) -> float:
    if math.isfinite(a + b):
        return 0.5 * (a + b)
    return a + max(1.0, abs(a)) if math.isfinite(a) else b - max(1.0, abs(b)) if b < math.inf else 0


def _within(rows: Floats, x: float) -> bool:
    return bool(((rows[:, 0] < x) & (x < rows[:, 1])).any())
