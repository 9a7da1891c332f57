"""Steps cut into small and large losses by a smooth partition, with real generating functions.

In: steps and two thresholds. Out: for every step the positive measures M_i = (1 - chi_i) P and
C_i = (chi_i - chi_(i-1)) P of `jumps`, and log M' of the measures made of them at real tilts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from mechc.accountants.hits import Hits, log_odds
from mechc.accountants.wave import log_totals
from mechc.accountants.window import log_peak
from mechc.loss.band import Band
from mechc.loss.measure import Step

Floats = NDArray[np.float64]
Edges = tuple[float, float]
Rows = tuple[Floats, Floats, Floats]

SMOOTH = 12  # chi is the regularised incomplete beta function of this order, twice
BANDWIDTH = 80.0  # frequency times (b - a) at which the transform of chi' has come down to 1e-8
TILTS, FINER = 24, 12  # real tilts known on all scales, and near a saddle point
SLACK = 1e-6  # nats added to bounds, for nodes that were not made for their tilts
LEAST = 0.004  # the smallest of them, as a share of the largest
FLOOR = 1e-17  # tilted share of a panel that need not resolve waves


def partition(loss: Floats, edges: Edges) -> Floats:
    """Return chi, rising from 0 at edges[0] to 1 at edges[1]."""
    a, b = edges
    if math.isinf(b):
        return np.zeros(loss.size)
    out: Floats = betainc(SMOOTH, SMOOTH, np.clip((loss - a) / (b - a), 0.0, 1.0))
    return out


@dataclass(frozen=True)
class Part:
    """One distinct step: its losses up to a_i, those between a_i and b_(i-1), both thresholds."""

    count: int
    small: Band
    large: Band
    above: Edges
    below: Edges

    @classmethod
    def of(cls, step: Step, above: Edges, below: Edges, tilts: tuple[float, float]) -> Part:
        """Cut one step, with nodes that resolve both cuts as well as the density."""
        small = Band(step.loss, -math.inf, below[0], tilts)
        large = Band(step.loss, below[0], above[1], tilts)
        widths = [b - a for a, b in (below, above) if b < math.inf]
        large = large.resolved(0.0, BANDWIDTH / min(widths), 0.0)
        return cls(step.count, small, large, above, below)

    def resolved(self, contour: float, frequency: float) -> Part:
        """Return the same with nodes for frequencies on a contour."""
        small = self.small.resolved(contour, frequency, FLOOR)
        return replace(self, small=small, large=self.finer(contour, frequency))

    def finer(self, contour: float, frequency: float) -> Band:
        """Return the large losses with nodes for frequencies on a contour."""
        _, moved = self.weights
        totals = [
            log_totals(self.large.loss, log_weight, np.array([contour]))[0][0]
            for log_weight in (moved, self.large.log_weight)
        ]
        share = math.exp(max(totals[0] - totals[1], -60.0)) if math.isfinite(totals[1]) else 1.0
        return self.large.resolved(contour, frequency, FLOOR * share)

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """Log weights of M_i and of C_i on the large losses."""
        old, new = partition(self.large.loss, self.above), partition(self.large.loss, self.below)
        with np.errstate(divide="ignore"):
            kept, moved = np.log1p(-new), np.log(np.maximum(new - old, 0.0))
        return self.large.log_weight + kept, self.large.log_weight + moved

    def around(self, edges: Edges) -> tuple[Floats, Floats]:
        """Return log weights of chi P and (1 - chi) P on the large losses."""
        chi = partition(self.large.loss, edges)
        with np.errstate(divide="ignore"):
            return self.large.log_weight + np.log(chi), self.large.log_weight + np.log1p(-chi)


class Split:
    """All steps cut at one level, with generating functions at real tilts.

    Attributes:
        parts: the distinct steps.
        tilts: increasing, positive.
    """

    def __init__(self, parts: Sequence[Part], top: float) -> None:
        """Evaluate at -1, 0 and tilts up to `top`."""
        self.parts = parts
        self._weights = [part.weights for part in parts]
        self._rows = self._evaluate(
            np.concatenate([[-1.0, 0.0], top * np.geomspace(LEAST, 1.0, TILTS)])
        )

    @property
    def tilts(self) -> Floats:
        """Positive tilts at which everything is known."""
        return self._rows[0][2:]

    def _evaluate(self, tilts: Floats) -> Rows:
        """Tilts, sum of k log M_i, and log(C_i / M_i) of every step."""
        log_m, ratios = np.zeros(tilts.size), np.empty((len(self.parts), tilts.size))
        for i, (part, (kept, moved)) in enumerate(zip(self.parts, self._weights, strict=True)):
            small, noise = log_totals(part.small.loss, part.small.log_weight, tilts)
            small = np.logaddexp(small, log_totals(part.large.loss, kept, tilts)[0])
            ratios[i] = log_totals(part.large.loss, moved, tilts)[0] - small
            log_m += part.count * (small + noise + part.small.tolerance)
        return tilts, log_m, ratios

    def refine(self, hits: Hits | None, epsilon: float) -> None:
        """Add tilts around the saddle point of a measure."""
        at, tilts = int(self._phase(hits, epsilon).argmin()), self.tilts
        low, high = tilts[max(at - 2, 0)], tilts[min(at + 1, tilts.size - 1)]
        new = self._evaluate(np.linspace(low, high, FINER + 2)[1:-1])
        a, b, c = (np.concatenate(p, axis=-1) for p in zip(self._rows, new, strict=True))
        _, first = np.unique(a, return_index=True)
        self._rows = a[first], b[first], c[:, first]

    def log_transforms(self, hits: Hits | None) -> Floats:
        """Return log M' at -1, 0 and the tilts; without hits, of what has no large loss at all."""
        _, log_m, ratios = self._rows
        with np.errstate(invalid="ignore"):  # nan where no loss is small: that decides nothing
            return log_m if hits is None else log_m + log_odds(hits, self.counts, ratios)

    @property
    def counts(self) -> Floats:
        """Repetitions of the steps."""
        return np.array([float(part.count) for part in self.parts])

    def _phase(self, hits: Hits | None, epsilon: float) -> Floats:
        tilts = self.tilts
        return self.log_transforms(hits)[2:] - epsilon * tilts - np.log(tilts) - np.log1p(tilts)

    def least(self, hits: Hits | None, epsilon: float) -> float:
        """Return the least log M'(t) - t epsilon - log t - log(1 + t)."""
        return float(self._phase(hits, epsilon).min())

    def settled(self, epsilon: float) -> bool:
        """Whether the tilts reach beyond the saddle points."""
        alone = (Hits(1, True),) if len(self.parts) == 1 else ()
        for hits in (None, Hits(1, False), *alone):
            phase = self._phase(hits, epsilon)
            if np.isfinite(phase).any() and int(phase.argmin()) >= TILTS - 1:
                return False
        return True

    def log_bound(self, hits: Hits | None, epsilon: float) -> float:
        """Return Chernoff's bound on the log of a measure's share of delta."""
        at_tilts = self.log_transforms(hits)[2:] + log_peak(self.tilts) + SLACK
        return float((at_tilts - epsilon * self.tilts).min())
