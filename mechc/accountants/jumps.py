"""Rare large losses beside many small ones: a composition split by its largest losses.

Under sparse sampling a step is nearly an atom, with a small mass of losses spread over many scales
beyond. One contour does badly there: its frequencies have to reach the width of the near-atom, its
period has to cover the far losses, and where epsilon lies between both, no tilt makes it likely.

Here every step is cut by smooth functions chi_0 <= chi_1 <= ... of its loss, chi_i rising from 0
at a_i to 1 at b_i, with thresholds that fall with i. With the positive measures

    M_i = (1 - chi_i) P,    C_i = (chi_i - chi_(i-1)) P,    M_(i-1) = M_i + C_i,

the composition is a sum of positive measures, by the size of the largest loss that occurs:

    M^k = [M^k - M_0^k] + [M_0^k - M_1^k] + ... + M_n^k.

The first has a loss above a_0 > epsilon, to which the small ones add little: its share of delta is
M'(0) - exp(epsilon) M'(-1) but for a bound by Chernoff. The brackets are inverted on contours of
their own, see `bracket`; by the number of large losses where one contour cannot serve all numbers.
The last is bounded by Chernoff; levels are added until it is negligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from mechc.accountants.bracket import Bracket
from mechc.accountants.hits import Hits, log_odds
from mechc.accountants.logspace import log_add
from mechc.accountants.split import NOWHERE, Part, Split, within, without
from mechc.accountants.trapezoid import Answer
from mechc.accountants.window import log_peak
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.band import Band, Edges, LogDensity
from mechc.loss.measure import Step

Floats = NDArray[np.float64]

REACH = 9.0  # standard deviations that small losses are taken to reach
LEFT = 60.0  # tilts that show how few compositions with a far loss sum to less than epsilon
RAREST = -30_000.0  # log density of a loss that is rarer than any answer
SAG, TIGHTER = 4.0, 0.35  # nats by which a tilted density may sag inside a level, and less
WIDEST, NARROWER, CUTS = math.log(8.0), 0.7, 13  # log of the ratio of losses of a level
BEYOND, AFTER = 0.2, 0.4  # a_0 in widths of a level above epsilon, and b_0 above a_0
BEFORE = 0.5  # b_1 below epsilon
LEVELS, FAILURES, STEPS = 20, 4, 8  # levels, of which that may fail, and distinct steps
NUMBERS = 8  # of large losses that get a contour of their own
SPENT = 2.0  # nats by which a bracket may be wider than what is neglected
NATS = 12.0  # nats beyond the rarity of a loss that its tilts should make up for
TRIES, LARGER = 3, 2.5  # enlargements of the range of tilts
HOPELESS = 300.0  # nats of the rest beyond what may be neglected at which levels end
WORK = 60_000_000  # node evaluations for all brackets together
REST = 0.002  # share of rtol that everything that is only bounded may cost
ROUGH = 1e-3  # width that is still better than what one contour would give
LIMIT = "rounding of the density of large losses"
PARTITION = 1e-10  # relative error of masses cut by chi
CLOSE = 1e-4  # relative distance from a saddle point
NOTHING = (-math.inf, -math.inf, -math.inf)


class Jumps:
    """Brackets made for one epsilon; they answer for others near it.

    Attributes:
        brackets: all that were inverted.
    """

    def __init__(self, steps: Sequence[Step], epsilon: float, rtol: float) -> None:
        """Add levels until what is left is negligible.

        Args:
            steps: distinct steps with counts, all with a bounded least loss.
            epsilon: above the typical sum of small losses.
            rtol: relative width wanted.

        Raises:
            UnsupportedError: the steps are not of this kind.
            NumericError: a quadrature does not settle, or too many contours would be needed.
        """
        if len(steps) > STEPS or any(s.loss.source is None for s in steps):
            raise UnsupportedError("contour: too many distinct steps to cut, or tables")
        self._lowest = sum(s.count * s.loss.support[0] for s in steps)
        mean, spread = small_losses(steps, epsilon)
        gap = epsilon - mean
        if not (math.isfinite(self._lowest) and gap > 0.0):
            raise UnsupportedError("contour: small losses reach epsilon, or are not bounded below")
        self._densities = [LogDensity(step.loss) for step in steps]
        certain = epsilon - max(self._lowest, mean - REACH * spread)
        edges, scale = self._highest(gap, certain, max(s.loss.support[1] for s in steps)), gap
        if self._log_density(np.array([gap]))[0] < RAREST:  # only many losses reach epsilon
            edges, scale = NOWHERE, typical(steps, epsilon)
        self._far: _Far | None = None
        self._left = WORK
        self.brackets: list[Bracket] = []
        self._rests: list[tuple[Split, Hits | None]] = []
        bands = [Band(step.loss) for step in steps]
        if math.isfinite(edges[1]):
            left = LEFT / (edges[0] - epsilon)
            steps = [
                Step(s.loss.covering(-1.0 - left, max(s.loss.tilts[1], 0.0)), s.count)
                for s in steps
            ]
            bands = [Band(step.loss).cut([edges]) for step in steps]
            self._far = _Far.of(steps, bands, edges, left)
        failures, sag = 0, SAG
        for turn in range(LEVELS):
            width = self._band_width(scale, sag)
            below = (scale * math.exp(-width), scale * math.exp(-BEFORE * width))
            split = self._split(list(zip(steps, bands, strict=True)), epsilon, edges, below)
            if not self._invert(split, epsilon, rtol):
                failures, sag = failures + 1, TIGHTER * sag
                if failures == FAILURES:
                    break
                if self._band_width(scale, sag) == width:
                    scale = below[0]  # lower thresholds leave less to the small losses
                continue
            rest, wanted = split.log_bound(None, epsilon), self._wanted(epsilon, rtol)
            if rest < wanted:
                self._rests.append((split, None))
                return
            if turn and rest > wanted + HOPELESS:
                break  # many small losses are likelier than a large one
            edges, scale = below, below[0]
        raise NumericError("contour: no level of losses is small enough to be left out")

    def _log_density(self, losses: Floats) -> Floats:
        """Log of the largest density of any step at some losses."""
        out: Floats = np.max([density(losses) for density in self._densities], axis=0)
        return out

    def _highest(self, gap: float, certain: float, most: float) -> Edges:
        """The threshold above which a single loss is enough."""
        width = self._band_width(gap)
        above = max(certain, gap * math.exp(BEYOND * width))
        if above >= most:
            return NOWHERE
        return above, above * math.exp(AFTER * width)

    def _band_width(self, gap: float, sag: float = SAG) -> float:
        """Return the log of the ratio of losses that one level may span.

        Where a log density is convex its tilted values sag inside a level: deeper, the wider.
        """
        widths = WIDEST * NARROWER ** np.arange(CUTS)
        losses = gap * np.exp(np.multiply.outer([1.0, 0.5, 0.0], -widths))
        low, middle, high = self._log_density(losses)
        share = (losses[1] - losses[0]) / (losses[2] - losses[0])
        with np.errstate(invalid="ignore"):
            sags = (1.0 - share) * low + share * high - middle > sag
        return float(widths[min(int(np.argmin(sags)), CUTS - 1)])

    def _split(
        self, laid: Sequence[tuple[Step, Band]], epsilon: float, above: Edges, below: Edges
    ) -> Split:
        """Cut all steps, with tilts that reach beyond the saddle points of all measures."""
        parts = [Part.of(step, band, above, below) for step, band in laid]
        rarity = float(self._log_density(np.array([below[1]]))[0])
        top = 1.5 * (NATS + max(0.0, -rarity)) / below[1] if rarity > -math.inf else NATS / below[1]
        for _ in range(TRIES):
            split = Split(parts, top)
            if split.settled(epsilon):
                break
            top *= LARGER
        return split

    def _wanted(self, epsilon: float, rtol: float) -> float:
        """Log of what may be neglected, -inf while nothing is known."""
        return self._sum(epsilon)[1] + math.log(REST * rtol)

    def _invert(self, split: Split, epsilon: float, rtol: float) -> bool:
        """Invert one level, by the number of large losses if need be; False if that fails too."""
        before = len(self.brackets), len(self._rests)
        if not any(part.any_large for part in split.parts):
            return True
        for number in range(1, NUMBERS + 1):
            wanted, many = self._wanted(epsilon, rtol), Hits(number, False)
            if split.log_bound(many, epsilon) < wanted:
                self._rests.append((split, many))
                return True
            alone = len(split.parts) > 1 or number == NUMBERS
            for hits in (many,) if alone else (many, Hits(number, True)):
                if hits.exactly and split.log_bound(hits, epsilon) < wanted:
                    self._rests.append((split, hits))
                    break
                bracket = Bracket(split, hits, self._lowest)
                found = bracket.invert(epsilon, wanted)
                self._left -= bracket.work
                if self._left < 0:
                    raise NumericError("contour: too many contours, one for each size of losses")
                if found and bracket.good(epsilon, wanted + SPENT):
                    self.brackets.append(bracket)
                    break
            else:
                del self.brackets[before[0] :], self._rests[before[1] :]
                return False
            if hits == many:
                return True
        return True

    def _sum(self, epsilon: float) -> tuple[float, float, float]:
        """Logs of lower bound, estimate and upper bound of the far part and all brackets."""
        lower, estimate, upper = NOTHING if self._far is None else self._far.log_value(epsilon)
        for bracket in self.brackets:
            low, middle, high = bracket.log_value(epsilon)
            lower, estimate = log_add(lower, low), log_add(estimate, middle)
            upper = log_add(upper, high)
        return lower, estimate, upper

    def answer(self, epsilon: float) -> Answer:
        """Return the finite part of delta at epsilon."""
        lower, estimate, upper = self._sum(epsilon)
        for split, hits in self._rests:
            upper = log_add(upper, split.log_bound(hits, epsilon))
        nodes = sum(b.nodes for b in self.brackets)
        detail = {"brackets": float(len(self.brackets)), "nodes": float(nodes)}
        return Answer(lower, estimate, upper, dict(detail))


def by_largest_losses(
    steps: Sequence[Step], epsilon: float, rtol: float
) -> tuple[Jumps | None, Answer | None, dict[str, str]]:
    """Return brackets with their answer, or why no method can be narrow.

    Neither is there where the steps are not of this kind. Where brackets fail, no grid and no
    recursion resolves the scales either.
    """
    try:
        jumps = Jumps(steps, epsilon, rtol)
    except UnsupportedError:
        return None, None, {}
    except NumericError as error:
        return None, None, {"limit": str(error)}
    answer = jumps.answer(epsilon)
    if not answer.width <= ROUGH:
        return None, None, {"limit": LIMIT}
    if answer.width > rtol:
        answer.detail["limit"] = LIMIT
    return jumps, answer, {}


def small_losses(steps: Sequence[Step], epsilon: float) -> tuple[float, float]:
    """Return mean and standard deviation of the sum of losses too small to reach epsilon alone."""
    mean = variance = 0.0
    for step in steps:
        loss, log_weight = step.loss.nodes()
        small = loss <= 0.5 * epsilon
        weight, loss = np.exp(log_weight[small]), loss[small]
        mean += step.count * float(weight @ loss)
        variance += step.count * float(weight @ loss**2)
    return mean, math.sqrt(variance)


def typical(steps: Sequence[Step], epsilon: float) -> float:
    """Return the loss above which half of epsilon comes from, where that is the likely sum.

    Raises:
        UnsupportedError: no tilt makes it likely.
    """
    laws = [(step.count, *step.loss.nodes()) for step in steps]

    def shares(t: float) -> list[Floats]:
        """What losses contribute to the mean sum, tilted by t."""
        logs = [log_weight + t * loss for _, loss, log_weight in laws]
        masses = [np.exp(log - log.max()) for log in logs]
        return [k * loss * w / w.sum() for (k, loss, _), w in zip(laws, masses, strict=True)]

    def excess(t: float) -> float:
        return sum(float(share.sum()) for share in shares(t)) - epsilon

    top = min(step.loss.tilts[1] for step in steps)
    if not excess(0.0) < 0.0 < excess(top):
        raise UnsupportedError("contour: no tilt makes epsilon likely")
    t = brentq(excess, 0.0, top, rtol=CLOSE, full_output=True, disp=False)[0]
    loss, share = np.concatenate([law[1] for law in laws]), np.concatenate(shares(t))
    order = np.argsort(-loss)
    above = np.cumsum(share[order])  # of small losses many cancel
    return float(loss[order][np.argmax(above >= 0.5 * epsilon)])


@dataclass(frozen=True)
class _Far:
    """Compositions with a loss so large that few of them sum to less than epsilon.

    Their share of delta is M'(0) - exp(epsilon) M'(-1) plus E'[(exp(epsilon - S) - 1)_+], which is
    at most exp((1 + v) epsilon) M'(-1 - v) v^v / (1 + v)^(1 + v).
    """

    log_p: float
    log_q: float
    left: Floats
    log_left: Floats
    error: float

    @classmethod
    def of(cls, steps: Sequence[Step], bands: Sequence[Band], edges: Edges, left: float) -> _Far:
        orders = left * np.geomspace(0.05, 1.0, 8)
        tilts = np.concatenate([[0.0, -1.0], -1.0 - orders])
        log_m, error = np.zeros(tilts.size), PARTITION
        ratios = np.empty((len(steps), tilts.size))
        for i, (step, band) in enumerate(zip(steps, bands, strict=True)):
            small, rough = without(band, edges).log_totals(tilts)
            large, coarse = within(band, edges, NOWHERE).log_totals(tilts)
            log_m += step.count * (small + rough)
            ratios[i] = large + coarse - small
            error += step.count * (1e-14 + step.loss.tolerance + rough[:2].max()) + coarse[:2].max()
        counts = np.array([float(step.count) for step in steps])
        both = log_m + log_odds(Hits(1, False), counts, ratios)
        return cls(float(both[0]), float(both[1]), orders, both[2:] + log_peak(orders), error)

    def log_value(self, epsilon: float) -> tuple[float, float, float]:
        """Return logs of lower bound, estimate and upper bound of this share of delta."""
        if self.log_p == -math.inf:
            return -math.inf, -math.inf, -math.inf
        rest = float((self.log_left + (1.0 + self.left) * epsilon).min())
        share = math.exp(min(epsilon + self.log_q - self.log_p, 1.0))
        if share >= 1.0 - 1e-9 or self.error > 0.5:
            return -math.inf, self.log_p, self.log_p
        error = self.error * (1.0 + share) / (1.0 - share)
        value = self.log_p + math.log1p(-share)
        low = value + math.log1p(-min(error, 0.999))
        return low, value, min(log_add(value + math.log1p(error), rest), self.log_p + self.error)
