"""One epoch of random allocation: its privacy profile, and laws of its loss.

In: the law of the loss of one step, and t. Out: bounds on delta(epsilon) of the epoch, in which W,
the mean of t copies of exp(L) under Q, is the likelihood ratio (docs/theorems.md, T11),

    remove: P(q = 0) + E_Q[(W - e^eps)_+],    add: e^eps E_Q[(e^-eps - W)_+],

and laws of its loss for whatever composes epochs: by the density of W, on both sides at once, or,
where X has point masses, one above and one below (`contours.grids`), rounded to a lattice.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import likelihood
from mechc.accountants.contours.grids import Between, listed
from mechc.accountants.contours.put import LASTING, Contour, Shares
from mechc.accountants.fft import log_subtract
from mechc.errors import NumericError
from mechc.loss.discretise import rounded_down, rounded_up
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

POINTS = 2**14  # of a lattice
TAIL = 1e-30  # mass beyond its ends
WIDE = 1e-6  # nats between bounds, beyond which the density of W is found ...
FINE, ROUGH = 1e-13, 1e-3  # ... unless this in units of max(1, e^epsilon), and so many nats
DEEPEST = -160.0  # log of a delta that the density does not tell from what it leaves out
NEAREST, FARTHEST = 1e-9, 60.0  # least range of a lattice; largest |log W| that contours see
FEW = 8  # steps that let phi fade too slowly
CLOSE = math.log(1.25)  # between logs of real parts
LOWEST, HIGHEST = -160, 400  # logs of real parts, in units of that
DEEP = 9.0  # standard deviations from where on they are closer
IMAGES = 46.0  # nats by which the first image is smaller than the answer
MOST_WORK = 1e9  # nodes times frequencies of a contour
FLOOR = 1e-15  # mass beyond all panels
GRID = np.geomspace(1e-4, 1.0, 80)  # shares of one step's epsilon among which one is sought
TURNS, SETTLED = 12, 1e-12  # secant steps, and nats of delta that end them
ROOM = 2.0  # times the width of delta that an epsilon is moved to be certified


class Ratio:
    """The likelihood ratio W of an epoch.

    Attributes:
        shares: the law of X, and t.
        known: phi fades, so that there are contours.
    """

    def __init__(self, shares: Shares) -> None:
        """Hold the law; contours are laid when they are asked for."""
        self.shares = shares
        self._contours: dict[float, Contour | None] = {}

    @cached_property
    def known(self) -> bool:
        """Whether phi fades, so that there are contours."""
        return self.shares.steps > FEW and self.shares.lasting <= LASTING

    @cached_property
    def exact(self) -> PrivacyLoss | None:
        """The law of log W under P, None where point masses are too many to be listed."""
        try:
            return listed(self.shares) or likelihood.law(self.shares)
        except NumericError:
            return None

    @cached_property
    def between(self) -> Between:
        """The laws of W on a grid."""
        return Between(self.shares)

    @property
    def spread(self) -> float:
        """Standard deviation of W under Q."""
        return math.sqrt(max(float(self.shares.rough.roughly(0.0)[0, 2]), 1e-300))

    def contour(self, c: float) -> Contour | None:
        """Return the contour for E_Q[(c - W)_+], of a grid that depends on the depth."""
        law, n = self.shares.rough, np.array([LOWEST, HIGHEST])
        for _ in range(10):  # halving leaves neighbours
            middle = int(n.sum()) // 2
            n[int(_level(law.roughly(math.exp(CLOSE * middle)), middle) < c)] = middle
        level = [_level(law.roughly(math.exp(CLOSE * m)), m) for m in n.tolist()]
        share = math.log(level[0] / c) / math.log(level[0] / level[1]) if level[1] < c else 1.0
        place = CLOSE * (float(n[0]) + min(max(share, 0.0), 1.0) * float(n[1] - n[0]))
        bend = 2.0 + math.exp(2.0 * place) * float(law.roughly(math.exp(place))[0, 2])
        spacing = CLOSE * 0.5 ** math.ceil(math.log2(max(math.sqrt(bend) / DEEP, 1.0)))
        a = math.exp(round(place / spacing) * spacing)
        if a not in self._contours:
            around = a * np.exp(CLOSE * np.array([-1.0, 0.0, 1.0]))
            k, slope = law.roughly(*around).T[:2]
            near = 2.0 / around - slope
            least = float(min(a * near + k[1] - math.log(a)))
            period = max(1.02 * float(near.max()) + 2.0, (IMAGES + max(0.0, -least)) / a)
            try:
                self._contours[a] = Contour(self.shares, a, period, MOST_WORK)
            except NumericError:
                self._contours[a] = None
        return self._contours[a]

    def chernoff(self, c: float) -> float:
        """Log of an upper bound: (c - w)_+ <= exp(a (c - w)) / (ae)."""
        log_a = CLOSE * np.arange(LOWEST, HIGHEST)
        k, t = self.shares.rough.roughly(*np.exp(log_a)).T[0], float(self.shares.steps)
        off = t * (2.0 * self.shares.error + FLOOR * np.exp(np.minimum(-k / t, 600.0)))
        return float(np.min(k + off + np.exp(log_a) * c - log_a - 1.0)) + 1e-12


def _level(row: Floats, n: float) -> float:
    """The c that a real part serves best: the root of K' + c - 2 / a."""
    return max(2.0 * math.exp(-CLOSE * n) - float(row[0, 1]), 1e-300)


class Epoch:
    """Bounds on log delta of one epoch in one direction."""

    def __init__(
        self, law: PrivacyLoss, direction: str, steps: int, other: Epoch | None = None
    ) -> None:
        """Hold the law of the loss of one step in that direction; nothing is computed yet.

        Args:
            law: of the privacy loss of one step.
            direction: "remove" or "add", which the law is for.
            steps: t, of which a record takes part in one.
            other: the same epoch in the other direction; of one pair both have the same W.
        """
        self.law, self.adding, self.steps = law, direction == "add", steps
        shared: Ratio | None = None
        if other is not None and law.source is not None and law.source is other.law.source:
            shared = other.ratio if law.is_reversed != other.law.is_reversed else None
        self.ratio: Ratio = shared or Ratio(Shares(law.reversed() if self.adding else law, steps))

    @cached_property
    def exact(self) -> PrivacyLoss | None:
        """The law of the loss of the epoch, None where point masses are too many to be listed."""
        found = self.ratio.exact
        return found.reversed() if found is not None and self.adding else found

    @property
    def log_infinite(self) -> tuple[float, float]:
        """Log of the mass at infinity of the epoch, and its error."""
        count = self.steps if self.adding else 1  # adding: all X are 0
        return self.law.log_infinite * count, self.law.mass_errors[0] * count

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """Return (lower, estimate, upper) of log delta(epsilon), for any finite epsilon."""
        infinite, error = self.log_infinite
        lower, estimate, upper = max(infinite - error, _log_positive(epsilon)), math.nan, 0.0
        if abs(epsilon) <= FARTHEST and self.ratio.known:
            contour = self.ratio.contour(math.exp(-epsilon if self.adding else epsilon))
            found = self._by_put(contour, np.array([epsilon]))[0]
            lower, upper = max(lower, float(found[0])), min(upper, float(found[2]))
            estimate = float(found[1])
            if self.adding and not upper - lower < 0.1:
                upper = min(upper, self.ratio.chernoff(math.exp(-epsilon)) + epsilon)
        if not _narrow(lower, upper, epsilon):
            upper = min(upper, self.law.hockey_stick_log(epsilon)[2])  # Jensen's inequality
            if not self.adding:
                one = self.law.hockey_stick_log(epsilon + math.log(self.steps))
                lower = max(lower, one[0])
        if not _narrow(lower, upper, epsilon) and upper > DEEPEST:
            laws = self.ends if self.exact is None else (self.exact, self.exact)
            found = [law.hockey_stick_log(epsilon + o * law.loss_error)
                     for law, o in zip(laws, (-1.0, 1.0), strict=True)]  # fmt: skip
            least = log_subtract(found[1][0], laws[1].log_early) - laws[1].density_error
            lower, upper = max(lower, least), min(upper, found[0][2] + laws[0].density_error)
            estimate = float(found[0][1] if self.exact is not None else 0.5 * (lower + upper))
        if not lower <= estimate <= upper:
            estimate = upper if lower == -math.inf else 0.5 * (lower + upper)
        return min(lower, upper), estimate, upper

    def _by_put(self, contour: Contour | None, epsilon: Floats) -> Floats:
        """Rows (lower, estimate, upper) of log delta by one contour."""
        if contour is None:
            return np.tile([-math.inf, math.nan, 0.0], (epsilon.size, 1))
        if self.adding:
            return contour.puts(np.exp(-epsilon)) + epsilon[:, None]
        c = np.exp(epsilon)
        off = 8.0 * EPS * (1.0 + c)
        with np.errstate(divide="ignore", invalid="ignore"):
            # P(q = 0) + E_Q[(W - c)_+] = 1 - c + E_Q[(c - W)_+]
            value = np.exp(np.minimum(contour.puts(c), 700.0)) + (1.0 - c)[:, None]
            value[:, 0] -= off
            value[:, 2] += off
            out: Floats = np.log(np.maximum(value, 0.0))
        return out

    def epsilon(self, log_delta: float, near: float) -> tuple[float, float, float] | None:
        """Return bounds and estimate of the epsilon of a delta, which prove nothing, if there are.

        Args:
            log_delta: natural log of delta.
            near: epsilon of one step.
        """
        if not (self.ratio.known and 0.0 < near < FARTHEST):
            return None
        at, log_deltas = self._sketched(near)
        crossing = np.flatnonzero((log_deltas[:-1] > log_delta) & (log_deltas[1:] <= log_delta))
        if not crossing.size:
            return None
        i = slice(crossing[0], crossing[0] + 2)
        (x, y), (fx, fy) = at[i].tolist(), (log_deltas[i] - log_delta).tolist()
        x, y, fy = y, x - (y - x) / (fy - fx) * fx, math.inf
        for _ in range(TURNS):
            contour = self.ratio.contour(math.exp(-y if self.adding else y))
            around = y + np.array([0.0, 1e-4 * (abs(x - y) + 1e-3 * y)])
            rows = self._by_put(contour, around)
            fy, slope = float(rows[0, 1]) - log_delta, float(rows[1, 1] - rows[0, 1])
            slope /= float(around[1] - around[0])
            if not (slope < 0.0 and math.isfinite(fy)):
                return None
            x, y = y, y - fy / slope
            if abs(fy) < SETTLED or not 0.0 < y < FARTHEST:
                break
        if not (abs(fy) < 1e-6 and y > 0.0 and _narrow(rows[0, 0], rows[0, 2], y)):
            return None
        below, above = (ROOM * abs(float(rows[0, s] - rows[0, 1]) / slope) for s in (0, 2))
        extra = 1e-12 / -slope + 4.0 * EPS * y
        return max(y - below - extra, 0.0), y, y + above + extra

    def _sketched(self, near: float) -> tuple[Floats, Floats]:
        """Epsilons and estimates of log delta there."""
        if not self.adding:
            at: Floats = near * GRID
            return at, self._by_put(self.ratio.contour(1.0), at)[:, 1]
        # the leading saddle point approximation
        n = np.arange(-20.0, 60.0)
        a = np.exp(CLOSE * n) / self.ratio.spread
        k, first, second = self.ratio.shares.rough.roughly(*a).T[:3]
        c = 2.0 / a - first
        size = k + a * c - 2.0 * np.log(a) - 0.5 * np.log(2.0 * math.pi * (second + 2.0 / a**2))
        return -np.log(c), size - np.log(c)

    @cached_property
    def ends(self) -> tuple[PrivacyLoss, PrivacyLoss]:
        """Laws of the loss above and below the epoch."""
        between = self.ratio.between
        return between.above(self.adding), between.below(self.adding)


def _narrow(lower: float, upper: float, epsilon: float) -> bool:
    width = upper - lower
    fine = FINE * math.exp(max(epsilon, 0.0))
    return width <= WIDE or (width <= ROUGH and math.exp(upper) * -math.expm1(-width) <= fine)


def lattice(law: PrivacyLoss, upper: bool) -> PrivacyLoss:
    """Return a law on a lattice above, or below, one of atoms.

    Args:
        law: of a loss.
        upper: delta is to be no smaller.
    """
    lo, hi = law.support
    step = max(hi - lo, NEAREST) / POINTS
    return (rounded_up if upper else rounded_down)(law, step, TAIL)


def _log_positive(epsilon: float) -> float:
    """Log of max(0, 1 - e^epsilon), below the profile of any pair."""
    return math.log(-math.expm1(epsilon)) + math.log1p(-8.0 * EPS) if epsilon < 0.0 else -math.inf
