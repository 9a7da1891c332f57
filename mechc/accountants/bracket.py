"""One bracket of `jumps`, M_(i-1)^k - M_i^k, or its part with so many large losses, inverted.

With M' any of these positive measures, Theorem A holds as for the law of a loss. The transform

    M'(z) = M_i(z)^k * sum over j of binom(k, j) (C_i(z) / M_i(z))^j

has no subtraction however rare large losses are (for j >= 1 the sum is expm1(k log1p(C/M))). All
its terms contain C_i, and M_i and C_i are positive measures, so that telescoping the product gives

    |M'(c + iy)| / M'(c) <= |C_i(c + iy)| / C_i(c),

for different steps a convex combination of such shares. With a bound B on these from a frequency
on, M' is at most the same sum with odds B C_i(c) / M_i(c), whose coefficients are positive: as a
convex function of B that vanishes at 0, it leaves share(B) / B of that, which is little where many
large losses are likely. C_i has a density that is smooth on the
scale b_i - a_i: frequencies of that order are enough. What lies beyond them is bounded by the
variation of its derivatives, see `derivatives`; where kinks leave it none, by Cauchy-Schwarz and
Parseval's identity, see `parseval`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import FREQUENCY
from mechc.accountants.derivatives import Fading
from mechc.accountants.hits import Hits, log_odds, transforms
from mechc.accountants.logspace import log_subtract
from mechc.accountants.parseval import covering_period, unseen
from mechc.accountants.split import SLACK, Split
from mechc.accountants.wave import ULP, Wave
from mechc.accountants.window import log_peak
from mechc.errors import UnsupportedError
from mechc.loss.work import spend

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

SHARE = 1e-10  # images may cost this share of a bracket
IMAGES = 5.0  # nats by which they stay below what may be neglected
CANCELLATION = math.log(50.0)
BELOW = 6.0  # nats that a bracket may be smaller than its saddle point says
CLOSE, EXTENSIONS = 1e-9, 6  # truncation wanted of a bracket, and enlargements to get there
KINKED, BANDWIDTH = 4e-7, 80.0  # the same, and frequency times b - a to begin with, by Parseval
LEAST_SUM = 0.03  # share of its first value that the sum is thought to be
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

    def __init__(self, split: Split, hits: Hits, lowest: float) -> None:
        """Keep the measure; `lowest` is the least sum of losses."""
        self._split, self._hits, self._lowest = split, hits, lowest
        self.c = self.period = 0.0
        self.nodes = self.work = 0
        self._known: tuple[float, tuple[float, float, float]] | None = None

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
            if part.large.band.smooth < part.large.band.loss.size:
                raise UnsupportedError("contour: the large losses have no single density")
        self._h = 2.0 * math.pi / self.period
        self._fading = [Fading(part.large, self.c) for part in split.parts if part.any_large]
        small, large = zip(*(part.log_totals(self.c) for part in split.parts), strict=True)
        self._ratios = np.subtract(large, small)[:, None]
        self._lay_out()
        for _ in range(EXTENSIONS):
            work = sum(self.nodes * part.size + PRICE for part in split.parts)
            if self.nodes > MAX_NODES or self.work + work > MOST:
                return self.work > 0
            self.work += work
            spend(FREQUENCY * work)
            self._evaluate()
            excess = self._excess(epsilon, wanted)
            if not excess > 1.0 or (self._lost > WIDE and not self._kinked):
                break  # near enough, or no digits are left
            self._extend(excess)
        return True

    def _lay_out(self) -> None:
        """Choose how far to go: by derivatives of the density, where it has them."""
        self._close = LEAST_SUM * CLOSE
        self._kinked = not self._truncation(self._h * NODES[-1:])[0] < self._close
        if not self._kinked:
            self.nodes = self._enough()
            return
        large = [part.large for part in self._split.parts if part.any_large]
        self.period = max([self.period, *(covering_period(m, self.c) for m in large)])
        self._h = 2.0 * math.pi / self.period
        a, b = self._split.parts[0].below
        self.nodes = math.ceil(BANDWIDTH / (b - a) / self._h)

    def _excess(self, epsilon: float, wanted: float) -> float:
        """Return what lies beyond the frequencies in units of what may."""
        found = self.log_value(epsilon)[1]
        close = KINKED if self._kinked else CLOSE
        return self._beyond / max(close, math.exp(min(0.0, wanted - found)))

    def _extend(self, excess: float) -> None:
        """Decide on more frequencies."""
        if self._kinked:
            more = min(1.1 * min(excess, 1e9) ** (2.0 / 3.0), 3.0)
            self.nodes = math.ceil(max(more, 1.3) * self.nodes)
        else:
            self._close *= min(0.5 / excess, 0.1)
            self.nodes = self._enough()

    def _enough(self) -> int:
        """Return frequencies beyond which the transform adds little to its first value."""
        beyond = self._truncation(self._h * NODES)
        enough = np.flatnonzero(beyond < self._close)
        return int(NODES[enough[0] if enough.size else -1])

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
        whole = log_odds(self._hits, self._split.counts, self._ratios)
        damped = log_odds(self._hits, self._split.counts, self._ratios + most) - whole - most
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
        self._error, self._known = 4.0 * ULP, None
        self._tail = 0.0
        for i, part in enumerate(self._split.parts):
            measures = part.resolved(c, h * n)
            small, large = (Wave(m, c, h, n) for m in measures)
            if self._kinked:
                self._tail = max(self._tail, unseen(measures[1], large, c, self.period))
            ratios_at[i] = large.log_total - small.log_total
            ratios[i] = large.log_phi - small.log_phi + ratios_at[i]
            log_m += part.count * small.log_phi
            at += part.count * small.log_total
            self._error += part.count * small.error
            self._error += large.error + 8.0 * ULP * self._number
        log_at = float(log_odds(self._hits, counts, ratios_at)[0])
        self._log_at = at + log_at
        self._value = transforms(self._hits, counts, ratios, log_m, log_at)

    @property
    def _number(self) -> float:
        """Large losses that matter for rounding: powers multiply relative errors."""
        return float(self._hits.number)

    def log_value(self, epsilon: float) -> tuple[float, float, float]:
        """Return logs of lower bound, estimate and upper bound of this share of delta."""
        if self._known is None or self._known[0] != epsilon:
            self._known = epsilon, self._log_value(epsilon)
        return self._known[1]

    def _log_value(self, epsilon: float) -> tuple[float, float, float]:
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
        counts = float(self._split.counts.sum())
        turns = 32.0 + 4.0 * y * (self.period + abs(epsilon))
        noise = ULP * float((np.abs(factor) * (turns + 8.0 * counts * np.abs(self._value))).sum())
        self._beyond = 2.0 * self._unevaluated() / total
        self._lost = 2.0 * noise / total
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

    def _unevaluated(self) -> float:
        """Bound what lies beyond the frequencies as a share of the first value."""
        beyond = float(self._truncation(self._y[-1:])[0])
        if not self._kinked:
            return beyond
        # by Cauchy-Schwarz, with the sum of y^-4
        count, weight = float(self._y.size), 1.0 / (self.c * (self.c + 1.0))
        square = self._tail / (3.0 * self._h**4 * count**3)
        damping = float(self._damping(self._y[-1:])[0])
        return min(beyond, damping * math.sqrt(square) / weight)

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
