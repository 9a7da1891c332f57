"""What a recursion over steps needs to know before it runs: tilted steps, and intervals.

In: steps, a tilt, a target and a floor. Out: each step's law with K at tilts around t, and for
every level the interval on which its function is represented, with a bound on what lies beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.chebyshev_tables import Tabulated, tabulate
from mechc.loss.moments import log_sum
from mechc.loss.privacy_loss import PrivacyLoss, Step

Floats = NDArray[np.float64]

SHARED = 4  # repetitions from which a step's panels are shared
MARGIN = 1e-3  # in units of 1 / tilt
FIRST_PANELS = 6
TILTS = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0])
BEYOND = 8  # tilts above t


@dataclass(frozen=True)
class Prepared:
    """One distinct step: its law with nodes for all tilts needed, its anchor, K at the tilts."""

    law: PrivacyLoss
    count: int
    anchor: float
    log_mgf: float
    tilts: Floats
    values: Floats
    top: float
    roughness: tuple[int, int]

    @classmethod
    def of(cls, step: Step, tilt: float, curvature: float) -> Prepared:
        """Prepare a step for a tilt; `curvature` says how far around it tilts may matter."""
        law = step.loss
        most = min(tilt + 6.0 / math.sqrt(curvature), tilt + 0.9 * (law.strip[1] - tilt))
        above = np.linspace(tilt, max(most, tilt), BEYOND + 1)[1:]
        law = law.covering(-1.0, float(above[-1]))
        log_mgf, mean = law.generating(tilt)[:2]
        ends = np.array(law.support)
        ends = ends[np.isfinite(ends)]
        anchor = float(ends[np.argmin(np.abs(ends - mean))]) if ends.size else mean
        tilts = np.concatenate([tilt * TILTS, above])
        loss, log_weight = law.nodes()
        values = np.array(
            [log_sum(loss - anchor, log_weight, t) + law.unresolved(t) for t in tilts]
        )
        return cls(
            law=law,
            count=step.count,
            anchor=anchor,
            log_mgf=log_mgf,
            tilts=tilts,
            values=values,
            top=law.support[1] - anchor,
            roughness=(law.atom_loss.size, ends.size),
        )

    def table(self, tilt: float, floor: float) -> Tabulated:
        """Return the law under the tilt as polynomials; a mass of `floor` does not matter."""
        return tabulate(self.law, tilt, self.log_mgf, self.anchor, floor)


@dataclass(frozen=True)
class Plan:
    """Intervals on which g_0, ..., g_{k-1} are represented, in anchored units.

    Beyond them g_j is below the floor, zero, or out of reach of the steps to come.
    """

    lo: Floats
    hi: Floats
    tilt: float
    tilts: Floats
    done: Floats  # K_1 + .. + K_j at the tilts, minus its value at `tilt`; shape (k, tilts)
    tops: Floats  # largest sums of the losses done, and of the rest
    tops_rest: Floats

    @classmethod
    def of(cls, steps: Sequence[Prepared], tilt: float, target: float, floor: float) -> Plan:
        """Choose intervals beyond which nothing above `floor` comes to the target."""
        rows = np.concatenate([np.repeat(s.values[None], s.count, axis=0) for s in steps])
        tops = np.concatenate([np.full(s.count, s.top) for s in steps])
        tilts = steps[0].tilts
        rows -= rows[:, tilts == tilt]
        done = np.concatenate([np.zeros((1, tilts.size)), np.cumsum(rows, axis=0)])[:-1]
        tops_done = np.concatenate([[0.0], np.cumsum(tops)[:-1]])
        tops_rest = np.cumsum(tops[::-1])[::-1]
        bound = done + np.array([log_peak_at(t) for t in tilts]) - math.log(floor)
        above, below = tilts > tilt, tilts < tilt
        hi = (bound[:, above] / (tilts[above] - tilt)).min(axis=1)
        lo = -(bound[:, below] / (tilt - tilts[below])).min(axis=1)
        hi = np.minimum(hi, tops_done)
        repeated = max(s.count for s in steps) >= SHARED
        if not repeated:  # a little room, lest rounding at the largest loss cuts off mass
            room = MARGIN / tilt * np.arange(lo.size, 0, -1)
            lo = np.maximum(lo, target - tops_rest - room)
        start = 0
        for s in steps:  # repetitions of a step share their panels
            run = slice(start + 2, min(start + s.count + 1, lo.size))
            if repeated and lo[run].size:
                lo[run], hi[run] = lo[run].min(), hi[run].max()
            start += s.count
        lo = np.minimum(lo, hi - 1e-9 / tilt)
        return cls(lo, hi, tilt, tilts, done, tops_done, tops_rest)

    def left_out(self, target: float) -> float:
        """Bound on what all levels together leave out at another epsilon."""
        below, above = self._beyond()
        below[self.lo <= target - self.tops_rest] = -np.inf
        return float(np.exp(np.minimum([below, above], 0.0)).sum())

    def left_out_anywhere(self, levels: int) -> float:
        """Bound on what the first levels together leave out at any epsilon."""
        below, above = self._beyond()
        return float(np.exp(np.minimum([below, above], 0.0))[:, :levels].sum())

    def _beyond(self) -> tuple[Floats, Floats]:
        """Logs of bounds on what every g_j is below and above its interval."""
        peaks = np.array([log_peak_at(t) for t in self.tilts])
        move = self.tilts - self.tilt
        ends = np.stack([self.lo, self.hi])[:, :, None]
        log_value = self.done - move * ends + peaks
        below = log_value[0][:, move <= 0].min(axis=1)
        above = log_value[1][:, move >= 0].min(axis=1)
        above[self.hi >= self.tops] = -np.inf
        return below, above

    def edges(self, level: int, kinks: Floats) -> Floats:
        """Return first panels of a level: equal ones, with the kinks as edges."""
        lo, hi = self.lo[level], self.hi[level]
        inner = kinks[(kinks > lo) & (kinks < hi)]
        plain = np.linspace(lo, hi, FIRST_PANELS + 1)
        if not lo < plain[1] < hi:
            raise NumericError(
                f"direct: losses within {hi - lo:.1g} of {hi:g} are not apart in doubles"
            )
        if inner.size:
            far = np.abs(plain[1:-1, None] - inner).min(axis=1) > 0.25 * (hi - lo) / FIRST_PANELS
            plain = np.concatenate([[lo], plain[1:-1][far], [hi]])
        return np.unique(np.concatenate([plain, inner]))


def log_peak_at(t: float) -> float:
    """Log of max_x exp(-t x) (1 - exp(-x)) = t^t / (1 + t)^(1 + t)."""
    return t * math.log(t) - (1.0 + t) * math.log1p(t) if t > 0.0 else 0.0
