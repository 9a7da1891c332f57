"""One bracket of `jumps`, M_(i-1)^k - M_i^k, or its part with so many large losses, inverted.

With M' any of these positive measures, Theorem A holds as for the law of a loss. The transform

    M'(z) = M_i(z)^k * sum over j of binom(k, j) (C_i(z) / M_i(z))^j

has no subtraction however rare large losses are (for j >= 1 the sum is expm1(k log1p(C/M))). All
its terms contain C_i, and M_i and C_i are positive measures, so that telescoping the product gives

    |M'(c + iy)| / M'(c) <= |C_i(c + iy)| / C_i(c),

for different steps a convex combination of such shares. C_i has a density that is smooth on the
scale b_i - a_i: frequencies of that order are enough. What lies beyond them is bounded by
Cauchy-Schwarz, with sum 1/y^4 and Parseval's identity (see `wave`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.hits import Hits, log_odds, odds
from mechc.accountants.logspace import log_subtract
from mechc.accountants.split import BANDWIDTH, SLACK, Split
from mechc.accountants.trapezoid import ULP
from mechc.accountants.wave import Wave, covering_period, unseen
from mechc.accountants.window import log_peak
from mechc.errors import UnsupportedError

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

SHARE = 1e-10  # images may cost this share of a bracket
IMAGES = 5.0  # nats by which they stay below what may be neglected
CANCELLATION = math.log(50.0)
BELOW = 6.0  # nats that a bracket may be smaller than its saddle point says
CLOSE, EXTENSIONS = 2e-7, 5  # truncation wanted of a bracket, and enlargements to get there
ROUNDED = 1.0 + 1e-9  # lest rounding leaves a period just short of the least sum
MASSES = 1e-9  # relative error of masses, which left images are made of
WIDE = 1e-3  # width of a bracket beyond which other ones are tried
QUIET = 1e-6  # transform of a large loss from which on M' itself need not be evaluated
PRICE, MOST = 500_000, 30_000_000  # fixed work of an evaluation, and most of one bracket
WORK = 1e9  # about the square of the frequencies, times the nodes, that this may take
FURTHER = 32.0  # times as many frequencies at most at which large losses alone are evaluated
MAX_NODES = 4_000  # frequencies of one bracket


class Bracket:
    """One positive measure on its contour.

    Attributes:
        c, period: the contour.
        nodes: frequencies evaluated.
        work: node evaluations spent.
    """

    def __init__(self, split: Split, hits: Hits, lowest: float) -> None:
        """Keep the measure; `lowest` is the least sum of losses."""
        self._split, self._hits, self._lowest = split, hits, lowest
        self.c = self.period = 0.0
        self.nodes = self.work = 0

    def invert(self, epsilon: float, wanted: float) -> bool:
        """Choose contour and period for epsilon and evaluate M' on it.

        Args:
            epsilon: the query.
            wanted: log of what may be neglected.

        Returns:
            False where too many frequencies would be needed.

        Raises:
            UnsupportedError: the large losses have no density that is known.
        """
        split = self._split
        split.refine(self._hits, epsilon)
        log_m = split.log_transforms(self._hits)
        self._masses, self._tilts = log_m[:2], split.tilts
        self._log_b = log_m[2:] + log_peak(self._tilts) + SLACK
        value = split.least(self._hits, epsilon) - BELOW
        self.c, self.period = self._contour(epsilon, value, wanted)
        if not math.isfinite(self.period):
            return False
        for part in split.parts:
            if part.large.atoms or not part.large.monotone:
                raise UnsupportedError("contour: the large losses have no single density")
            _, moved = part.weights
            if np.isfinite(moved).any():
                self.period = max(self.period, covering_period(part.large, moved, self.c))
        a, b = split.parts[0].below
        self._h = 2.0 * math.pi / self.period
        self.nodes = self._seen = math.ceil(BANDWIDTH / (b - a) / self._h)
        for _ in range(EXTENSIONS):
            if self.nodes > MAX_NODES:
                return False
            self._evaluate()
            found = self.log_value(epsilon)[1]
            close = max(CLOSE, math.exp(min(0.0, wanted - found)))
            if self.work > MOST:
                break
            if self._beyond < close or self._lost > close or not self._extend(self._beyond / close):
                break
        return True

    def _extend(self, excess: float) -> bool:
        """Decide on more frequencies: of M' while it is loud, then of large losses alone."""
        if self._loudest > QUIET:  # smooth densities have transforms like that of a normal law
            more = 1.0 + math.log(min(excess, 1e6)) / -math.log(self._loudest)
            self.nodes = self._seen = math.ceil(min(1.1 * math.sqrt(more), 3.0) * self.nodes)
            return True
        # rounding in Parseval's identity is left, which fades with the payoff
        before = self._seen
        size = sum(part.large.loss.size for part in self._split.parts)
        more = min(1.1 * excess ** (2.0 / 3.0), FURTHER, math.sqrt(WORK / size) / self.nodes)
        self._seen = math.ceil(max(more * self.nodes, before))
        return self._seen > before

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
        """M' at the frequencies, as a share of its value at c, and what lies beyond them."""
        c, h, n, seen = self.c, self._h, self.nodes, self._seen
        y = h * np.arange(1.0, n + 1.0)
        counts = self._split.counts
        log_m, ratios = np.zeros(n, np.complex128), np.empty((counts.size, n), np.complex128)
        at, ratios_at = 0.0, np.empty((counts.size, 1))
        self._error, self._tail, self._loudest = 4.0 * ULP, 0.0, 1e-300
        faint = np.full(seen - n, -np.inf)
        for i, coarse in enumerate(self._split.parts):
            part = coarse.resolved(c, float(y[-1]))
            self.work += n * (part.small.loss.size + 2 * part.large.loss.size) + PRICE
            self.work += (seen - n) * part.large.loss.size
            kept, moved = part.weights
            small = Wave(part.small.loss, part.small.log_weight, c, h, n)
            rest = small.plus(Wave(part.large.loss, kept, c, h, n))
            large = Wave(part.large.loss, moved, c, h, n)
            ratios_at[i] = large.log_total - rest.log_total
            ratios[i] = large.log_phi - rest.log_phi + ratios_at[i]
            band, weights, wave = part.large, moved, large
            if seen > n:  # large losses alone, at more frequencies
                band = coarse.finer(c, h * seen)
                weights = replace(coarse, large=band).weights[1]
                wave = Wave(band.loss, weights, c, h, seen)
            faint = np.maximum(faint, wave.log_phi.real[n:])
            log_m += part.count * rest.log_phi
            at += part.count * rest.log_total
            last = float(large.log_phi.real[-8:].max())
            self._loudest = max(self._loudest, min(math.exp(last), 0.9))
            self._tail = max(self._tail, unseen(band, weights, wave, c, self.period))
            self._error += part.count * (rest.noise + small.lost + part.small.tolerance)
            self._error += large.noise + large.lost + large.roughness() + 8.0 * ULP * self._number
        log_at = float(log_odds(self._hits, counts, ratios_at)[0])
        self._y, self._log_at = y, at + log_at
        self._faint = float((np.exp(faint) / np.arange(n + 1.0, seen + 1.0) ** 2).sum()) / h**2
        self._value = np.exp(log_m) * odds(self._hits, counts, ratios, log_at)

    @property
    def _number(self) -> float:
        """Large losses that matter for rounding: powers multiply relative errors."""
        return float(self._hits.number)

    def log_value(self, epsilon: float) -> tuple[float, float, float]:
        """Return logs of lower bound, estimate and upper bound of this share of delta."""
        c, y = self.c, self._y
        weight = 1.0 / (c * (c + 1.0))
        z = c + 1j * y
        factor = 1.0 / (z * (z + 1.0) * weight)
        terms = (factor * self._value * np.exp(-1j * epsilon * y)).real
        total = 1.0 + 2.0 * float(terms[::-1].sum())
        bound = float((self._log_b - self._tilts * epsilon).min())
        self._beyond = self._lost = math.inf
        if not total > 0.0:
            return -math.inf, bound, bound
        log_s = self._log_at - c * epsilon + math.log(weight * total / self.period)
        beyond = math.sqrt(self._tail / (3.0 * self._h**4 * float(self._seen) ** 3))
        beyond = (beyond + self._faint) / weight
        counts = float(self._split.counts.sum())
        turns = 32.0 + 4.0 * y * (self.period + abs(epsilon))
        noise = ULP * float((np.abs(factor) * (turns + 8.0 * counts * np.abs(self._value))).sum())
        self._beyond, self._lost = 2.0 * beyond / total, 2.0 * noise / total
        error = self._error + self._beyond + self._lost
        error += ULP * (40.0 + 4.0 * abs(self._log_at) + 4.0 * abs(c * epsilon))
        known, unknown, right = self._images(epsilon, log_s)
        error += MASSES * known
        low, high = 1.0 - known - unknown - right - error, 1.0 - known + error
        if not high > 0.0:
            return -math.inf, bound, bound
        middle = log_s + math.log(1.0 - known) if known < 1.0 else bound
        upper = min(log_s + math.log(high), bound)
        lower = log_s + math.log(low) if low > 0.0 else -math.inf
        return lower, min(middle, upper), upper

    def good(self, epsilon: float, wanted: float) -> bool:
        """Whether the interval is narrow, as a share or beside exp(wanted)."""
        lower, _, upper = self.log_value(epsilon)
        if math.isnan(upper):  # no small losses at all: their transform is zero
            return False
        return upper - lower < WIDE or upper < wanted or log_subtract(upper, lower) < wanted

    def _images(self, epsilon: float, log_s: float) -> tuple[float, float, float]:
        """Shares of the sum: left images known, what they may be more, and the right images."""
        c, period = self.c, self.period
        log_q, log_mass = map(float, self._masses)
        first = math.exp(min(50.0, log_mass - c * period - log_s)) / -math.expm1(-c * period)
        damped = (c + 1.0) * period
        second = math.exp(min(50.0, log_q + epsilon - damped - log_s)) / -math.expm1(-damped)
        later = self._tilts > c
        decay = period * (self._tilts[later] - c)
        rights = self._log_b[later] - self._tilts[later] * epsilon - decay - log_s
        rights -= np.log(-np.expm1(-decay))
        right = math.exp(min(50.0, float(rights.min(initial=50.0))))
        if epsilon - period <= self._lowest:
            return first - second, 0.0, right
        known = max(0.0, first - second)
        return known, first - known, right
