"""Steps cut into small and large losses by a smooth partition, with real generating functions.

In: steps on nodes for the tilts up to their saddle point, and two thresholds. Out: for every step
the positive measures M_i = (1 - chi_i) P and C_i = (chi_i - chi_(i-1)) P of `jumps`, and log M' of
the measures made of them at real tilts. Both have the panels of the step, cut where chi rises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from mechc.accountants.hits import Hits, log_odds
from mechc.accountants.wave import Measure
from mechc.accountants.window import log_peak
from mechc.errors import NumericError
from mechc.loss.band import Band, Edges
from mechc.loss.measure import Step

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats, Floats]

SMOOTH = 12  # chi is the regularised incomplete beta function of this order, twice
TILTS, FINER = 24, 12  # real tilts known on all scales, and near a saddle point
REFINEMENTS, APART = 4, 30.0  # of tilts, and nats between them that are refined again
SLACK = 1e-6  # nats added to bounds
LEAST = 0.004  # the smallest of them, as a share of the largest
LOWER = 0.03  # the same for those that are added below where a saddle point lies there
FLOOR = 1e-17  # tilted share of a panel that need not resolve waves
LARGEST = 1e6  # tilt
RAREST = -600.0  # log of a share that doubles hold with room
OUTSIDE = math.log(1e-22)  # of the masses under P and Q that may lie beyond all panels


NOWHERE: Edges = (math.inf, math.inf)  # edges of a threshold above all losses


def partition(loss: Floats, edges: Edges) -> Floats:
    """Return chi, rising from 0 at edges[0] to 1 at edges[1]."""
    a, b = edges
    out = np.where(loss >= b, 1.0, 0.0)
    rising = (loss > a) & (loss < b)
    if rising.any():
        out[rising] = betainc(SMOOTH, SMOOTH, (loss[rising] - a) / (b - a))
    return out


def without(band: Band, edges: Edges) -> Measure:
    """Return (1 - chi) P."""
    with np.errstate(divide="ignore"):
        share = np.log1p(-partition(band.loss, edges))
    return Measure(band, band.log_weight + share)


def within(band: Band, inner: Edges, outer: Edges) -> Measure:
    """Return (chi - chi') P, chi' rising at the outer edges."""
    chi = partition(band.loss, inner)
    if outer[1] < math.inf:
        chi -= partition(band.loss, outer)
    with np.errstate(divide="ignore"):
        share = np.log(np.maximum(chi, 0.0))
    return Measure(band, band.log_weight + share)


@dataclass(frozen=True)
class Part:
    """One distinct step, cut at two thresholds.

    Attributes:
        count: repetitions.
        small: M_i, on the panels where it is not zero.
        large: C_i, likewise.
        above, below: a_(i-1) and b_(i-1), a_i and b_i.
        outside: bounds on losses of both measures that lie beyond the panels.
        covered: the largest tilt that the panels serve as a whole, and log M there.
    """

    count: int
    small: Measure
    large: Measure
    above: Edges
    below: Edges
    outside: tuple[Edges, Edges]
    covered: tuple[float, float]

    @classmethod
    def of(cls, step: Step, whole: Band, above: Edges, below: Edges) -> Part:
        """Cut one step, `whole` its panels."""
        top = min(above[1], step.loss.support[1])
        outside = whole.outside(-math.inf, below[1]), whole.outside(below[0], top)
        highest = min(step.loss.tilts[1], LARGEST)
        log_m, _ = Measure(whole, whole.log_weight).log_totals(np.array([highest]))
        edges = [edges for edges in (below, above) if edges[1] < math.inf]
        cut = whole.between(-math.inf, above[1]).cut(edges)
        small = without(cut.between(-math.inf, below[1]), below)
        large = within(cut.between(below[0], above[1]), below, above)
        return cls(step.count, small, large, above, below, outside, (highest, float(log_m[0])))

    @property
    def any_large(self) -> bool:
        """Whether there are large losses at all."""
        return bool(np.isfinite(self.large.log_weight).any())

    @property
    def size(self) -> int:
        """Nodes of both measures."""
        return self.small.band.loss.size + self.large.band.loss.size

    def resolved(self, contour: float, frequency: float) -> tuple[Measure, Measure]:
        """Return both measures on nodes for frequencies on a contour."""
        small = self.small.band.resolved(contour, frequency, FLOOR)
        band = self.large.band
        whole = Measure(band, band.log_weight)
        of_all, of_large = (m.log_totals(np.array([contour]))[0][0] for m in (whole, self.large))
        floor = FLOOR * math.exp(max(of_large - of_all, RAREST)) if of_large > -math.inf else 1.0
        large = band.resolved(contour, frequency, floor)
        return without(small, self.below), within(large, self.below, self.above)

    def log_totals(self, tilt: float) -> tuple[float, float]:
        """Return logs of M_i and C_i at one tilt."""
        both = (m.log_totals(np.array([tilt]))[0][0] for m in (self.small, self.large))
        small, large = map(float, both)
        return small, large

    def log_bounds(self, tilts: Floats) -> tuple[Floats, Floats]:
        """Return logs of bounds on M_i and C_i tilted, with what may lie beyond the panels."""
        both = []
        for measure, (least, most) in zip((self.small, self.large), self.outside, strict=True):
            logs, errors = measure.log_totals(tilts)
            bound = logs + errors
            if least < most:
                bound = np.logaddexp(bound, OUTSIDE + self._beyond(tilts, least, most))
            both.append(bound)
        return both[0], both[1]

    def _beyond(self, tilts: Floats, least: float, most: float) -> Floats:
        """Bound the log of M of losses between two, if they have mass one at tilts 0 and -1.

        And no more than all losses at the largest tilt covered.
        """
        highest, log_m = self.covered
        with np.errstate(invalid="ignore"):
            first = np.where(tilts > 0.0, tilts * most, 0.0)
            second = np.where(tilts < highest, (tilts - highest) * least, (tilts - highest) * most)
        out: Floats = np.fmin(first, np.where(np.isnan(second), 0.0, second) + log_m)
        return out


class Split:
    """All steps cut at one level, with generating functions at real tilts.

    Attributes:
        parts: the distinct steps.
        tilts: increasing, positive.
    """

    def __init__(self, parts: Sequence[Part], top: float) -> None:
        """Evaluate at -1, 0 and tilts up to `top`."""
        self.parts = parts
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
        for i, part in enumerate(self.parts):
            small, large = part.log_bounds(tilts)
            log_m += part.count * small
            ratios[i] = large - small
        return tilts, log_m, ratios

    def refine(self, hits: Hits | None, epsilon: float) -> None:
        """Add tilts around the saddle point of a measure, until they are close in nats."""
        for _ in range(REFINEMENTS):
            phase, tilts = self._phase(hits, epsilon), self.tilts
            at = int(phase.argmin())
            low, high = max(at - 2, 0), min(at + 1, tilts.size - 1)
            if at == 0:  # the saddle point lies below
                more = tilts[0] * np.geomspace(LOWER, 1.0, FINER + 1)[:-1]
            else:
                more = np.linspace(tilts[low], tilts[high], FINER + 2)[1:-1]
            new = self._evaluate(more)
            a, b, c = (np.concatenate(p, axis=-1) for p in zip(self._rows, new, strict=True))
            _, first = np.unique(a, return_index=True)
            self._rows = a[first], b[first], c[:, first]
            if at > 0 and not max(phase[low], phase[high]) > phase[at] + APART:
                break

    def log_transforms(self, hits: Hits | None) -> Floats:
        """Return log M' at -1, 0 and the tilts; without hits, of what has no large loss at all."""
        _, log_m, ratios = self._rows
        if hits is None:
            return log_m
        with np.errstate(invalid="ignore"):
            found: Floats = log_m + log_odds(hits, self.counts, ratios)
        if np.isnan(found).any():
            raise NumericError("contour: at some tilts large losses alone have mass")
        return found

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
