"""Rare large losses beside many small ones: a composition split by its largest losses.

Under sparse sampling a step is nearly an atom, with a small mass of losses spread over many scales
beyond. One contour does badly there: its frequencies have to reach the width of the near-atom, its
period has to cover the far losses, and where epsilon lies between both, no tilt makes it likely.

Here every step is cut by smooth functions chi_0 <= chi_1 <= ... of its loss, chi_i rising from 0
at a_i to 1 at b_i, with thresholds that fall with i. With the positive measures M_i = (1 - chi_i) P
and C_i = M_(i-1) - M_i the composition is a sum by the size of the largest loss that occurs:

    M^k = [M^k - M_0^k] + [M_0^k - M_1^k] + ... + M_n^k.

The first has a loss above a_0 > epsilon, to which the small ones add little: its share of delta is
M'(0) - exp(epsilon) M'(-1) but for a bound by Chernoff. The brackets are inverted on contours of
their own, by the odds C_i / M_i of a large loss to a small one. The last is bounded by Chernoff;
levels are added until it is negligible. Proofs, of what lies beyond the last frequency too, are in
docs/numerics.md, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from mechc.accountants.contours.characteristic import (
    FREQUENCY,
    HIGHEST,
    log_phi,
    smoothness,
    tilt,
)
from mechc.accountants.contours.columns import LARGEST_TILT
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import mean_target, solve
from mechc.accountants.contours.trapezoid import (
    LOG_M,
    LOG_MASS,
    LOG_Q,
    LOWEST,
    Answer,
    conclude,
    constants,
    images_beyond,
)
from mechc.accountants.convolution import Nodes
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.moments import dot, log_total, sum_tilted
from mechc.loss.privacy_loss import Step
from mechc.loss.quadrature.rule import ORDER, TOP, WEIGHTS
from mechc.loss.truncated_loss import Band, Edges, LogDensity
from mechc.numeric.allowance import spend
from mechc.numeric.logs import log_add, log_peak, log_subtract
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Complexes, Floats

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
    log_sum = np.maximum(log_sum.real, -MOST_LOG) + 1j * log_sum.imag  # one and -1 may cancel
    total = counts @ (np.where(outweighed, log_ratio, 0.0) + log_sum)
    large = total.real > 1.0
    difference = np.exp(total + log_one) - np.exp(log_one)
    few = np.expm1(np.where(large, 0.0, total)) * np.exp(log_one)
    return np.asarray(np.where(large, difference, few), np.complex128)


UNSEEN = 1e-18  # tilted weight below which nodes are left out of the transforms
FAINT = -80.0  # log of a share that is left out of real sums
MOST_ROUGH, UNKNOWN = 1e-2, 1e4  # share beyond which an estimate of the error is none, said so
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
        share = np.exp(np.where(exponent > FAINT, exponent, -math.inf))
        share = share.reshape(tilts.size, -1, ORDER)
        top, mean = np.abs(share @ TOP_OF_WEIGHTED.T).max(axis=2), 0.5 * share.sum(axis=2)
        rough = (top * np.minimum(top / np.maximum(mean, 1e-300), 1.0)).sum(axis=1)
        return log_total, np.where(rough < MOST_ROUGH, error + rough, UNKNOWN)


def transformed(measure: Measure, c: float, h: float, nodes: int) -> tuple[float, Complexes, float]:
    """Transform of a positive measure at c + ih, ..., c + i nodes h.

    Returns the log of its mass tilted at c, logs of the transform as a share of that, and their
    error, likewise: rounding, quadrature, nodes left out.
    """
    loss, log_weight = measure.band.loss, measure.log_weight
    totals, errors = measure.log_totals(np.array([c]))
    if totals[0] == -math.inf:
        return -math.inf, np.zeros(nodes, np.complex128), float(errors[0])
    offsets = np.array([0, loss.size], np.int64)
    _, rows, offsets, centred, weight = tilt(offsets, loss, log_weight, c, UNSEEN)
    re, im = log_phi(offsets, np.ones(1), centred, weight, h, 1, nodes + 1)
    phi = re + 1j * (im + float(rows[0, 0]) * h * np.arange(1.0, nodes + 1.0))
    return float(totals[0]), phi, float(errors[0] + 2.0 * rows[2, 0])


NONE = 1e-280  # share that is told from none


class _Fading:
    """Bounds on |phi(y)| for all y beyond a frequency."""

    def __init__(self, measure: Measure, c: float) -> None:
        """Find the variations of the density tilted at c; `measure` has no atoms."""
        band = measure.band
        log_total = measure.log_totals(np.array([c]))[0][0]
        weight = np.exp(measure.log_weight + c * band.loss - log_total)
        table = np.full((HIGHEST + 1, 2), np.inf)
        if band.monotone:  # an extremum of the loss is a pole of the density
            table = smoothness(band.loss, weight, band.spacing, band.region)
        self._missed, self._ends, self._variations = table[0, 1], table[1:, 1], table[1:, 0]

    @np.errstate(all="ignore")  # nothing is proven where y^-m is out of range
    def beyond(self, c: float, start: Floats) -> Floats:
        """Bound the integral of |phi(y)| / |c + iy|^2 over y > start, for every start."""
        m, y = np.arange(1.0, HIGHEST + 1.0), start[:, None]
        # the integral of y^-m / (c^2 + y^2), with the second factor bounded in two ways
        flat = y / ((m - 1.0) * (c * c + y * y))
        bound = self._least(y**-m * np.minimum(1.0 / (y * (m + 1.0)), flat))
        found: Floats = bound + self._missed / start
        return found

    @np.errstate(all="ignore")
    def most(self, start: Floats) -> Floats:
        """Bound |phi(y)| for all y > start, for every start."""
        best: Floats = self._least(start[:, None] ** -np.arange(1.0, HIGHEST + 1.0)) + self._missed
        return np.clip(best, NONE, 1.0)

    def _least(self, each: Floats) -> Floats:
        bounds = np.cumsum(self._ends * each, axis=1) + self._variations * each
        least: Floats = np.fmin.reduce(bounds, axis=1, initial=np.inf)
        return least


SMOOTH = 12  # chi is the regularised incomplete beta function of this order, twice
TILTS, LEAST = 40, 1e-3  # real tilts, and the smallest of them as a share of the largest
SLACK = 1e-6  # nats added to bounds
FLOOR = 1e-17  # tilted share of a panel that need not resolve waves
RAREST = -600.0  # log of a share that doubles hold with room
OUTSIDE = math.log(1e-22)  # of the masses under P and Q that may lie beyond all panels


NOWHERE: Edges = (math.inf, math.inf)  # edges of a threshold above all losses


def partition(loss: Floats, edges: Edges) -> Floats:
    """Return chi, rising from 0 at edges[0] to 1 at edges[1]."""
    a, b = edges
    out = np.where(loss >= b, 1.0, 0.0)
    rising = (loss > a) & (loss < b)
    if rising.any():
        out[rising] = scipy.special.betainc(SMOOTH, SMOOTH, (loss[rising] - a) / (b - a))
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
        tolerance: relative error of the quadrature of the whole law.
    """

    count: int
    small: Measure
    large: Measure
    above: Edges
    below: Edges
    outside: tuple[Edges, Edges]
    covered: tuple[float, float]
    tolerance: float

    @classmethod
    def of(cls, step: Step, whole: Band, above: Edges, below: Edges) -> Part:
        """Cut one step, `whole` its panels."""
        bottom, top = step.loss.support
        top = min(above[1], top)
        outside = whole.outside(bottom, below[1]), whole.outside(below[0], top)
        highest = min(step.loss.tilts[1], LARGEST_TILT)
        log_m, _ = Measure(whole, whole.log_weight).log_totals(np.array([highest]))
        # polynomials tell the density, for its decay, between the two edges as well
        edges = [(a, b) for a, b in (below, (below[1], above[0]), above) if a < b < math.inf]
        cut = whole.between(-math.inf, above[1]).cut(edges)
        small = without(cut.between(-math.inf, below[1]), below)
        large = within(cut.between(below[0], above[1]), below, above)
        covered, lost = (highest, float(log_m[0])), step.loss.tolerance
        return cls(step.count, small, large, above, below, outside, covered, lost)

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

    def log_bounds(self, tilts: Floats) -> Floats:
        """Return logs of M_i and C_i tilted, from below and from above, shape (2, 2, tilts)."""
        bounds = np.empty((2, 2, tilts.size))
        for i, (least, most) in enumerate(self.outside):
            logs, errors = (self.small, self.large)[i].log_totals(tilts)
            bounds[:, i] = logs - errors - self.tolerance, logs + errors + self.tolerance
            if least < most:
                beyond = OUTSIDE + self._beyond(tilts, least, most)
                bounds[1, i] = np.logaddexp(bounds[1, i], beyond)
        return bounds

    def _beyond(self, tilts: Floats, least: float, most: float) -> Floats:
        """Bound the log of M of losses between two, if they have mass one at tilts 0 and -1."""
        # And no more than all losses at the largest tilt covered.
        highest, log_m = self.covered
        with np.errstate(invalid="ignore"):
            first = np.where(tilts > 0.0, tilts * most, np.minimum(tilts + 1.0, 0.0) * least)
            second = np.where(tilts < highest, (tilts - highest) * least, (tilts - highest) * most)
        out: Floats = np.fmin(first, np.where(np.isnan(second), 0.0, second) + log_m)
        return out


def log_transforms(parts: Sequence[Part], tilts: Floats) -> Floats:
    """Bound logs of what has no large loss, and of what has one, at real tilts.

    Shape (2, 2, tilts): from below and from above.
    """
    counts = np.array([float(part.count) for part in parts])
    bounds, sides = np.array([part.log_bounds(tilts) for part in parts]), []
    for small, large in np.moveaxis(bounds, 0, 2):
        log_small = counts @ small
        with np.errstate(invalid="ignore"):
            sides.append((log_small, log_small + log_odds(counts, large - small)))
    return np.array(sides)


class Split:
    """All steps cut at one level, with generating functions at real tilts.

    Attributes:
        parts: the distinct steps.
        tilts: increasing, positive.
        doubt: relative errors of the masses of what has a large loss, under Q and P.
    """

    def __init__(self, parts: Sequence[Part], top: float, epsilon: float) -> None:
        """Evaluate at tilts up to `top`, and again with more of them around the saddle point."""
        self.parts = parts
        self.counts = np.array([float(part.count) for part in parts])
        self._evaluate(top * np.geomspace(LEAST, 1.0, TILTS))
        at = int(self._phase(epsilon).argmin())
        low, high = self.tilts[max(at - 1, 0)], self.tilts[min(at + 1, TILTS - 1)]
        more = np.linspace(low, high, TILTS)
        self._evaluate(np.union1d(self.tilts, more))

    def _evaluate(self, tilts: Floats) -> None:
        """Bound sums of k log M_i, and what has a large loss, at -1, 0 and the tilts."""
        self.tilts = tilts
        least, most = log_transforms(self.parts, np.append([-1.0, 0.0], tilts))
        self._log_small: Floats = most[0]
        self._log_large: Floats = most[1]
        with np.errstate(invalid="ignore"):
            self.doubt = MASSES - np.expm1(least[1, :2] - most[1, :2])

    def _phase(self, epsilon: float) -> Floats:
        """Log M'(t) - t epsilon - log t - log(1 + t) of what has a large loss."""
        t = self.tilts
        phase: Floats = self._log_large[2:] - epsilon * t - np.log(t * (1.0 + t))
        return np.where(np.isnan(phase), np.inf, phase)

    def log_transforms(self, large: bool) -> Floats:
        """Return log M' at -1, 0 and the tilts, of what has a large loss or of what has none."""
        if large and np.isnan(self._log_large).any():
            raise NumericError("contour: at some tilts large losses alone have mass")
        return self._log_large if large else self._log_small

    def least(self, epsilon: float) -> float:
        """Return the least log M'(t) - t epsilon - log t - log(1 + t)."""
        return float(self._phase(epsilon).min())

    def log_bound(self, large: bool, epsilon: float) -> float:
        """Return Chernoff's bound on the log of a measure's share of delta."""
        at_tilts = self.log_transforms(large)[2:] + log_peak(self.tilts) + SLACK
        return float((at_tilts - epsilon * self.tilts).min())


SHARE = 1e-10  # images may cost this share of a bracket
IMAGES = 5.0  # nats by which they stay below what may be neglected
CANCELLATION = math.log(10.0)  # nats above the least phase: a digit may cancel
BELOW = 6.0  # nats that a bracket may be smaller than its saddle point says
TRUNCATION = 3e-11  # truncation wanted of the first value of the sum
ROUNDED = 1.0 + 1e-9  # lest rounding leaves a period just short of the least sum
MASSES = 1e-9  # relative error of masses, which left images are made of
WIDE = 1e-3  # width of a bracket beyond which other ones are tried
PRICE, MOST = 500_000, 30_000_000  # fixed work of an evaluation, and most of one bracket
MAX_NODES = 10_000  # frequencies of one bracket
NODES = np.unique(np.ceil(16.0 * 1.1 ** np.arange(70.0)))  # numbers of them that are tried


class Bracket:
    """One positive measure on its contour.

    Attributes:
        c, period: the contour.
        nodes: frequencies evaluated.
        work: node evaluations spent.
    """

    def __init__(self, split: Split, lowest: float) -> None:
        """Keep the measure; `lowest` is the least sum of losses."""
        self._split, self._lowest = split, lowest
        self.c = self.period = 0.0
        self.nodes = self.work = 0
        self._known: dict[float, tuple[float, float, float]] = {}

    def invert(self, epsilon: float, wanted: float) -> bool:
        """Choose contour and period for epsilon and evaluate M' on it.

        Returns:
            False where too many frequencies would be needed.

        Raises:
            UnsupportedError: the large losses have no density that is known.
        """
        split = self._split
        log_m = split.log_transforms(True)
        self._masses, self._tilts = log_m[:2], split.tilts  # under Q and P
        self._log_b = log_m[2:] + log_peak(self._tilts) + SLACK
        value = split.least(epsilon) - BELOW
        self.c, self.period = self._contour(epsilon, value, wanted)
        if not math.isfinite(self.period):
            return False
        for part in split.parts:
            if part.large.band.smooth < part.large.band.loss.size:
                raise UnsupportedError("contour: the large losses have no single density")
        self._h = 2.0 * math.pi / self.period
        self._fading = [_Fading(part.large, self.c) for part in split.parts if part.any_large]
        at_c = [
            measure.log_totals(np.array([self.c]))[0]
            for part in split.parts
            for measure in (part.small, part.large)
        ]
        self._ratios = np.subtract(at_c[1::2], at_c[::2])
        enough = np.flatnonzero(self._truncation(self._h * NODES) < TRUNCATION)
        self.nodes = int(NODES[enough[0] if enough.size else -1])
        work = sum(self.nodes * part.size + PRICE for part in split.parts)
        if self.nodes > MAX_NODES or work > MOST:
            return False
        self.work = work
        spend(FREQUENCY * work)
        self._evaluate()
        return True

    def _truncation(self, frequency: Floats) -> Floats:
        """Bound what lies beyond frequencies, as shares of the first value of the sum."""
        weight = 1.0 / (self.c * (self.c + 1.0))
        # for different steps a convex combination of the shares of their large losses
        beyond = np.max([f.beyond(self.c, frequency) for f in self._fading], axis=0)
        with np.errstate(over="ignore"):
            return np.asarray(beyond * self._damping(frequency) / (self._h * weight), np.float64)

    def _damping(self, frequency: Floats) -> Floats:
        """Bound M' by the transform of large losses beyond frequencies, both as shares."""
        most = np.log(np.max([f.most(frequency) for f in self._fading], axis=0))
        whole = log_odds(self._split.counts, self._ratios)
        damped = log_odds(self._split.counts, self._ratios + most) - whole - most
        out: Floats = np.exp(np.minimum(damped, 0.0))
        return out

    def _contour(self, epsilon: float, value: float, wanted: float) -> tuple[float, float]:
        """The tilt with the shortest period that cancels few digits."""
        tilts, images = self._tilts, self._log_b - self._tilts * epsilon
        small = max(value + math.log(SHARE), wanted - IMAGES)
        phase = images - SLACK - log_peak(tilts) - np.log(tilts) - np.log1p(tilts)
        mass = float(self._masses[1])
        best = (0.0, math.inf)
        for i in np.flatnonzero(phase <= phase.min() + CANCELLATION):
            if i + 1 == tilts.size:
                continue
            c = float(tilts[i])
            known = max(ROUNDED * (epsilon - self._lowest), (mass - value - 3.0) / c)
            left = min((mass - small) / c, known)
            right = float(((images[i + 1 :] - small) / (tilts[i + 1 :] - c)).min())
            period = max(left, right, 1e-3 / (1.0 + c))
            if period < best[1]:
                best = (c, period)
        return best

    def _evaluate(self) -> None:
        """M' at the frequencies, as a share of its value at c."""
        c, h, n = self.c, self._h, self.nodes
        self._y = h * np.arange(1.0, n + 1.0)
        counts = self._split.counts
        log_m, ratios = np.zeros(n, np.complex128), np.empty((counts.size, n), np.complex128)
        at, ratios_at = 0.0, np.empty((counts.size, 1))
        of_small, of_large, faded = 4.0 * EPS, 0.0, np.zeros(n)
        for i, part in enumerate(self._split.parts):
            small, large = (transformed(measure, c, h, n) for measure in part.resolved(c, h * n))
            ratios_at[i] = large[0] - small[0]
            ratios[i] = large[1] - small[1] + ratios_at[i]
            log_m += part.count * small[1]
            at += part.count * small[0]
            of_small += part.count * (small[2] + part.tolerance)
            faded = np.maximum(faded, -small[1].real)
            # M' grows with C at most by the expected number of large losses and one, relatively
            many = 1.0 + part.count * math.exp(-np.logaddexp(0.0, -ratios_at[i, 0]))
            of_large += many * (large[2] + part.tolerance + 8.0 * EPS)
        log_at = float(log_odds(counts, ratios_at)[0])
        self._log_at = at + log_at
        self._value = transforms(counts, ratios, log_m, log_at)
        # error of M' at the frequencies, as a share of its value at c: M (dM'/dM) is at most k M'
        # for positive M and C, such as |M(z)| and |C(z)|, and M(z) is off by a share of M(c)
        share = log_odds(counts, ratios.real) + log_m.real - log_at + faded
        self._errors = of_small + of_large, of_small * np.exp(np.minimum(share, 0.0)) + of_large

    def log_value(self, epsilon: float) -> tuple[float, float, float]:
        """Return logs of lower bound, estimate and upper bound of this share of delta."""
        if epsilon not in self._known:
            self._known[epsilon] = self._log_value(epsilon)
        return self._known[epsilon]

    def _log_value(self, epsilon: float) -> tuple[float, float, float]:
        c, y = self.c, self._y
        weight = 1.0 / (c * (c + 1.0))
        z = c + 1j * y
        factor = 1.0 / (z * (z + 1.0) * weight)
        terms = (factor * self._value * np.exp(-1j * epsilon * y)).real
        total = 1.0 + 2.0 * float(terms[::-1].sum())
        bound = float((self._log_b - self._tilts * epsilon).min())
        if not total > 0.0:
            return -math.inf, bound, bound
        log_s = self._log_at - c * epsilon + math.log(weight * total / self.period)
        counts = float(self._split.counts.sum())
        turns = 32.0 + 4.0 * y * (self.period + abs(epsilon))
        noise = EPS * float((np.abs(factor) * (turns + 8.0 * counts * np.abs(self._value))).sum())
        left_out = float(self._truncation(self._y[-1:])[0])
        at_c, others = self._errors
        error = at_c + 2.0 * (dot(np.abs(factor), others) + left_out + noise)
        error /= total  # of which much may have cancelled
        log_q, log_mass = map(float, self._masses)
        # images are made of these but for a factor, left to the denominator
        logs = np.array([log_q + epsilon - (c + 1.0) * self.period, log_mass - c * self.period])
        images = np.exp(np.minimum(logs - log_s, 50.0)) / -math.expm1(-c * self.period)
        error += dot(images, self._split.doubt)
        facts = constants(c, self.period)
        facts[LOG_M] = self._log_at
        facts[LOG_MASS], facts[LOG_Q], facts[LOWEST] = log_mass, log_q, self._lowest
        later = self._tilts > c
        rows = images_beyond(c, self.period, self._tilts[later], self._log_b[later])
        lower, middle, upper = conclude(1.0, epsilon, log_s, 1.0, 1.0, error, facts, rows)[:3]
        upper = min(upper, bound)
        return (lower if upper > -math.inf else -math.inf), min(middle, upper), upper

    def good(self, epsilon: float, wanted: float) -> bool:
        """Whether the interval is narrow, as a share or beside exp(wanted)."""
        lower, _, upper = self.log_value(epsilon)
        if math.isnan(upper):  # no small losses at all: their transform is zero
            return False
        return upper - lower < WIDE or upper < wanted or log_subtract(upper, lower) < wanted


REACH = 9.0  # standard deviations that small losses are taken to reach
LEFT = 60.0  # tilts that show how few compositions with a far loss sum to less than epsilon
RAREST_DENSITY = -30_000.0  # log density of a loss that is rarer than any answer
SAG, TIGHTER = 2.0, 0.35  # nats by which a tilted density may sag inside a level, and less
WIDTHS = 2.0 * 0.7 ** np.arange(13.0)  # logs of the ratio of losses of a level
BEYOND, AFTER = 0.2, 0.4  # a_0 in widths of a level above epsilon, and b_0 above a_0
BEFORE = 0.5  # b_1 below epsilon
LEVELS, FAILURES, STEPS = 20, 4, 8  # levels, of which that may fail, and distinct steps
SPENT = 2.0  # nats by which a bracket may be wider than what is neglected
NATS = 12.0  # nats beyond the rarity of a loss that its tilts should make up for
HOPELESS = 300.0  # nats of the rest beyond what may be neglected at which levels end
WORK = 60_000_000  # node evaluations for all brackets together
REST = 0.002  # share of rtol that everything that is only bounded may cost
WORTH_LEVELS = 1e-3  # width that is still better than what one contour would give
LIMIT = "rounding of the density of large losses"
PARTITION = 1e-10  # relative error of masses cut by chi
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
        # no node has an output so close to an end; whatever comes with it may be revealed
        self._lost = log_total(np.array([math.log(s.count) + s.loss.log_lost for s in steps]))
        laws, counts = zip(*steps, strict=True)
        mean, spread = Nodes(laws, counts).small(0.5 * epsilon)  # which do not reach it alone
        gap = epsilon - mean
        if not (math.isfinite(self._lowest) and gap > 0.0):
            raise UnsupportedError("contour: small losses reach epsilon, or are not bounded below")
        certain = epsilon - max(self._lowest, mean - REACH * spread)
        self._densities = [LogDensity(step.loss) for step in steps]
        width = self._width(gap, SAG)
        above, scale = max(certain, gap * math.exp(BEYOND * width)), gap
        edges = above, above * math.exp(AFTER * width)
        if above >= max(s.loss.support[1] for s in steps):
            edges = NOWHERE
        if self._log_density(np.array([gap]))[0] < RAREST_DENSITY:  # only many losses reach epsilon
            edges, scale = NOWHERE, typical(steps, epsilon)
        self._far: _Far | None = None
        self._left = WORK
        self.brackets: list[Bracket] = []
        self._rests: list[tuple[Split, bool]] = []
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
            width = self._width(scale, sag)
            below = (scale * math.exp(-width), scale * math.exp(-BEFORE * width))
            split = self._split(list(zip(steps, bands, strict=True)), edges, below, epsilon)
            if not self._invert(split, epsilon, rtol):
                failures, sag = failures + 1, TIGHTER * sag
                if failures == FAILURES:
                    break
                if self._width(scale, sag) == width:
                    scale = below[0]  # lower thresholds leave less to the small losses
                continue
            rest, wanted = split.log_bound(False, epsilon), self._wanted(epsilon, rtol)
            if rest < wanted:
                self._rests.append((split, False))
                return
            if turn and rest > wanted + HOPELESS:
                break  # many small losses are likelier than a large one
            edges, scale = below, below[0]
        raise NumericError("contour: no level of losses is small enough to be left out")

    def _log_density(self, losses: Floats) -> Floats:
        """Log of the largest density of any step at some losses."""
        out: Floats = np.max([density(losses) for density in self._densities], axis=0)
        return out

    def _width(self, gap: float, sag: float) -> float:
        """Return the log of the ratio of losses that one level may span."""
        losses = gap * np.exp(np.multiply.outer([1.0, 0.5, 0.0], -WIDTHS))
        low, middle, high = self._log_density(losses)
        share = (losses[1] - losses[0]) / (losses[2] - losses[0])
        with np.errstate(invalid="ignore"):
            sags = (1.0 - share) * low + share * high - middle > sag
        return float(WIDTHS[min(int(np.argmin(sags)), WIDTHS.size - 1)])

    def _split(
        self, laid: Sequence[tuple[Step, Band]], above: Edges, below: Edges, epsilon: float
    ) -> Split:
        """Cut all steps, with tilts that reach beyond the saddle points of all measures."""
        parts = [Part.of(step, band, above, below) for step, band in laid]
        none = np.zeros(1)
        rarity = max(float(part.large.log_totals(none)[0][0]) for part in parts)
        nats = 1.5 * (NATS - rarity) if rarity > -math.inf else NATS
        return Split(parts, nats / below[1], epsilon)

    def _wanted(self, epsilon: float, rtol: float) -> float:
        """Log of what may be neglected, -inf while nothing is known."""
        return self._sum(epsilon)[1] + math.log(REST * rtol)

    def _invert(self, split: Split, epsilon: float, rtol: float) -> bool:
        """Invert one level; False if that fails."""
        if not any(part.any_large for part in split.parts):
            return True
        wanted = self._wanted(epsilon, rtol)
        if split.log_bound(True, epsilon) < wanted:
            self._rests.append((split, True))
            return True
        bracket = Bracket(split, self._lowest)
        found = bracket.invert(epsilon, wanted)
        self._left -= bracket.work
        if self._left < 0:
            raise NumericError("contour: too many contours, one for each size of losses")
        if not (found and bracket.good(epsilon, wanted + SPENT)):
            return False
        self.brackets.append(bracket)
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
        upper = log_add(upper, self._lost)
        for split, large in self._rests:
            upper = log_add(upper, split.log_bound(large, epsilon))
        nodes = sum(b.nodes for b in self.brackets)
        detail = {"brackets": float(len(self.brackets)), "nodes": float(nodes)}
        return Answer(lower, estimate, upper, dict(detail))


@np.errstate(over="ignore", invalid="ignore")  # losses beyond all tilts, which are wide
def by_largest_losses(
    steps: Sequence[Step], epsilon: float, rtol: float
) -> tuple[Jumps, Answer] | None:
    """Return brackets with their answer; None where steps are not of this kind, or it is wide."""
    try:
        jumps = Jumps(steps, epsilon, rtol)
    except (UnsupportedError, NumericError):
        return None
    answer = jumps.answer(epsilon)
    if not answer.width <= WORTH_LEVELS:
        return None
    if answer.width > rtol:
        answer.detail["limit"] = LIMIT
    return jumps, answer


def typical(steps: Sequence[Step], epsilon: float) -> float:
    """Return the mean of losses, each as often as its size, where epsilon is the likely sum."""
    t = solve(ComposedLoss(steps), mean_target(epsilon), epsilon).t
    total = squares = 0.0
    for law, count in steps:
        loss, log_weight = law.nodes()
        weight = count * np.exp(log_weight + t * loss - law.generating(t)[0])
        total, squares = total + dot(weight, loss), squares + dot(weight, loss**2)
    return squares / total if total else math.sqrt(squares) or 1.0  # only a scale


@dataclass(frozen=True)
class _Far:
    """Compositions with a loss so large that few of them sum to less than epsilon.

    Their share of delta is M'(0) - exp(epsilon) M'(-1) plus E'[(exp(epsilon - S) - 1)_+], which is
    at most exp((1 + v) epsilon) M'(-1 - v) v^v / (1 + v)^(1 + v).
    """

    log_p: tuple[float, float]
    log_q: tuple[float, float]
    left: Floats
    log_left: Floats

    @classmethod
    def of(cls, steps: Sequence[Step], bands: Sequence[Band], edges: Edges, left: float) -> _Far:
        orders = left * np.geomspace(0.05, 1.0, 8)
        parts = [Part.of(s, band, NOWHERE, edges) for s, band in zip(steps, bands, strict=True)]
        least, most = log_transforms(parts, np.concatenate([[0.0, -1.0], -1.0 - orders]))[:, 1]
        low, high = (least[:2] - PARTITION).tolist(), (most[:2] + PARTITION).tolist()
        return cls((low[0], high[0]), (low[1], high[1]), orders, most[2:] + log_peak(orders))

    def log_value(self, epsilon: float) -> tuple[float, float, float]:
        """Return logs of lower bound, estimate and upper bound of this share of delta."""
        rest = float((self.log_left + (1.0 + self.left) * epsilon).min())
        (low_p, high_p), (low_q, high_q) = self.log_p, self.log_q
        low, high = log_subtract(low_p, high_q + epsilon), log_subtract(high_p, low_q + epsilon)
        middle = 0.5 * (low + high) if low > -math.inf else high
        return low, middle, min(log_add(high, rest), high_p)
