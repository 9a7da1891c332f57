"""The columns of a question: distinct steps, their law on nodes that grow, and its saddle points.

A column is a distinct step; everything that a contour needs is a sum over columns, counts times
what one of them has (I5). Nodes are extended to the tilts and frequencies that are asked for.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mechc.accountants.contours.decay import FLOOR
from mechc.accountants.contours.law import Law
from mechc.errors import NumericError
from mechc.loss.infinite_mass import MASS_ERROR, composed, log_rate, log_revealed
from mechc.loss.privacy_loss import Step, covering
from mechc.loss.quadrature.panels import Waves
from mechc.numeric.logs import log_peak
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

ROOM = 1.25  # factor by which more tilts are covered than asked for: the next one is near
RESOLVED = 1e-18  # share of the composition's mass that a panel need not resolve
MIRRORED = 64.0  # tilts up to which both directions are covered at once
FIRST_LIMIT, HIGHER = 64.0, 4.0  # below which a saddle point is sought, and factor to the next
SLACK = 1.5 * EPS  # rounding of exp and log between delta and its logarithm
LOOKS = 1000  # at most, at a saddle point on nodes that grow
ABOVE = 3.0  # standard deviations above the saddle point to which tilts are wanted
BEFORE_END = 0.9  # of the way to the end of the strip, where lists of integers grow without limit,
CLOSE = 0.98  # until no more of it is left
BOTTOM = -2e5  # log of what is not looked at more closely
NEWTON = 40  # times that nodes grow on the way to the saddle point of a delta
INSIDE = np.linspace(0.1, 0.9, 9)  # tilts between P and Q
SURE = 6.0  # standard deviations within which no loss can be ruled out
LARGEST_TILT = 1e6  # of Chernoff's bound
BELOW_HIGHEST = np.geomspace(1e-2, 1.0, 24)  # its tilts, as shares of the largest that is covered


class Saddle(NamedTuple):
    """The saddle point of one row: repetitions, tilt and epsilon."""

    repetitions: float
    t: float
    epsilon: float


class Columns:
    """Steps, their law on the nodes of the moment, and the saddle points of epsilons.

    Attributes:
        law: on the nodes of the moment.
        covered: the largest tilt for which all laws have nodes.
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        """Keep the steps."""
        self._laws, self._counts = map(list, zip(*steps, strict=True)) if steps else ([], [])
        self._keep(steps)
        self._lowest = self._highest = 0.0
        self._t_min, self._t_max = -math.inf, math.inf
        for law, count in steps:
            self._lowest += count * law.support[0]
            self._highest += count * law.support[1]
            self._t_min = max(self._t_min, law.strip[0] * (1.0 - 1e-4))
            self._t_max = min(self._t_max, law.strip[1] * (1.0 - 1e-4))
        self._total = float(sum(self._counts))

    def _keep(self, steps: tuple[Step, ...]) -> None:
        """Take steps on these nodes."""
        self._steps, self.law = steps, Law(steps)
        self._peaks = dict[bool, tuple[Floats, Floats]]()  # also of the reversed pairs
        self.covered = math.inf
        for law in self._laws:
            self.covered = min(self.covered, law.tilts[1])

    @cached_property
    def spread(self) -> tuple[float, float]:
        """Mean and variance of the finite losses, on the first nodes that are asked."""
        _, mean, variance, _ = self.law.roughly(0.0)[0].tolist()
        return mean, variance

    def saddle_of_delta(self, log_delta: float, n: float = 1.0, near: float = 0.0) -> Saddle:
        """Saddle point of a log delta after n repetitions, on nodes that grow, from a tilt near it.

        Raises:
            NumericError: nodes do not settle.
        """
        half = 0.5 * self._t_max
        if not near > 0.0:
            variance = self.spread[1]
            near = math.sqrt(max(-2.0 * log_delta, 1.0) / max(n * variance, 1e-300))
            # rare large losses, which the nodes at hand show, need less than that
            at = log_delta, n, math.inf, self._t_max, min(near, half)
            near = min(near, self.law.saddle_of_delta(*at)[0])
            bend = float(self.law.roughly(near)[0, 2]) + near**-2 + (1.0 + near) ** -2
            self._cover(self.top(near, bend))
        t = min(near, half)
        for _ in range(NEWTON):
            at = log_delta, n, self.covered, self._t_max, t
            t, epsilon, found = self.law.saddle_of_delta(*at)
            if found or not t > self.covered:
                break
            self._cover(t)
        return Saddle(n, t, epsilon)

    def top(self, t: float, bend: float) -> float:
        """The largest tilt wanted beside a saddle point t, of the exponent's curvature there."""
        return self._before_end(t, t + ABOVE / math.sqrt(bend))

    def _before_end(self, t: float, wanted: float) -> float:
        """A tilt above t as wanted, if that is not next to the end of the strip."""
        at = min(wanted, t + BEFORE_END * max(self._t_max - t, 0.0))
        return at if at < CLOSE * self._t_max else self._t_max

    @np.errstate(invalid="ignore")  # a peak that is not known bounds nothing
    def chernoff(self, epsilon: float, reverse: bool = False) -> tuple[float, bool]:
        """Log of Chernoff's bound (numerics, 3.1) on H(epsilon), by the tilts that are covered.

        With `reverse` on that of the reversed pairs, whose K is K(-1 - t) on the same nodes. And
        whether larger tilts may have a smaller one.
        """
        if reverse not in self._peaks:
            highest = min(self.covered, self._t_max)
            if reverse:
                lowest = max([law.tilts[0] for law in self._laws], default=0.0)
                highest = -1.0 - max(lowest, self._t_min)
            highest = min(highest, LARGEST_TILT)
            t = highest * BELOW_HIGHEST if highest > 0.0 else np.empty(0)
            k, _, _, rounding = self.law.roughly(*(-1.0 - t if reverse else t)).T
            self._peaks[reverse] = t, k + rounding + log_peak(t)
        tilts, peaks = self._peaks[reverse]
        exponents = peaks - tilts * epsilon + 8.0 * EPS * (np.abs(peaks) + tilts * epsilon)
        least = float(np.fmin.reduce(exponents, initial=math.inf))
        return least + 1e-12, not (exponents.size and exponents[-1] > least)

    def chernoff_below(self, epsilon: float, level: float) -> float:
        """Log of Chernoff's bound on H(epsilon), the least where it is not at most `level`.

        Nodes for larger tilts are made as long as these promise a smaller bound.

        Raises:
            NumericError: nodes do not settle.
        """
        settled = self._settled_tilt()  # by questions about the other direction
        if 0.0 < settled < self._t_max and self.covered < settled:
            self._cover(settled)
        for _ in range(LOOKS):
            found, more = self.chernoff(epsilon)
            limit = min(self.covered, self._t_max)
            if found <= level or limit >= self._t_max or not more:
                break
            if limit > 0.0 and self._is_topmost(epsilon, limit):
                break
            self._cover(self._before_end(limit, max(HIGHER * limit, FIRST_LIMIT / HIGHER)))
        return found

    def _is_topmost(self, epsilon: float, limit: float) -> bool:
        """Whether only the topmost losses count at this tilt."""
        gap = (self._highest - epsilon) / self._total
        if 1e9 < limit * gap < math.inf:
            return True
        return float(self.law.roughly(limit)[0][0]) - epsilon * limit < BOTTOM

    def log_complement(self, epsilon: float) -> float:
        """Log of a bound on E_P[min(1, exp(epsilon - L)); L finite], as a share of P(L finite).

        By min(1, x) <= x^u, 0 < u < 1, at tilts that every law has; 0 where that is not small.
        """
        mean, variance = self.spread
        if not mean - epsilon > SURE * math.sqrt(variance):
            return 0.0
        if any(law.apart for law in self._laws):
            return 0.0
        k, _, _, rounding = self.law.roughly(*-INSIDE).T
        mass = sum(s.count * s.loss.log_finite for s in self._steps)
        rounding += 8.0 * EPS * (np.abs(k) + INSIDE * epsilon)
        return float((k + INSIDE * epsilon + rounding).min()) - mass

    def _cover(
        self, tilt: float, contour: float = 0.0, frequency: float = 0.0, farther: float = 1.0
    ) -> None:
        """Make all steps accurate for real tilts up to `tilt` and for one frequency.

        And, as far as proofs of decay need it, for one that is `farther` by a factor.
        """
        # the other direction will ask for tilts down to -1 - tilt: cheaper together
        if not tilt <= self.covered and not tilt <= self._settled_tilt():
            tilt = min(ROOM * tilt, 0.5 * (tilt + self._t_max))
        low = -1.0 - tilt if tilt < MIRRORED and -1.0 - tilt > self._t_min else -1.0
        waves: Waves = ()
        if frequency > 0.0:
            waves = ((frequency, RESOLVED / self._total),)
            if farther > 1.0:
                waves += ((farther * frequency, FLOOR / self._total),)
        laws = covering(self._laws, low, tilt, contour, waves)
        if laws != self._laws:
            self._laws = laws
            self._keep(tuple(map(Step, laws, self._counts)))

    def _settled_tilt(self) -> float:
        """The largest tilt for which the laws of all steps have nodes, in any direction."""
        least = math.inf
        for law in self._laws:
            lo, hi = law.settled
            least = min(least, hi if lo <= -1.0 else -math.inf)
        return least

    def saddle(self, epsilon: float) -> tuple[float, float]:
        """Root t0 of K'(t) = eps + 1/t + 1/(t+1) and F''(t0), extending the nodes on the way.

        Without a root below the end of the strip, the largest usable tilt is returned.

        Raises:
            NumericError: no root is found, or nodes for it do not settle.
        """
        if not self._t_max > 0.0:
            raise NumericError("no moment of positive order is known to be finite")
        limit, t = self._before_end(0.0, FIRST_LIMIT), 0.0
        for _ in range(LOOKS):
            # on nodes that lack large losses K' is too small, and its root too large
            t, bend = self.law.saddle(epsilon, limit, t)
            wanted = self.top(t, bend) if t < limit else limit
            if self.covered < wanted:
                self._cover(wanted)
                continue
            if t < limit:
                return t, bend
            if limit >= self._t_max or self._is_topmost(epsilon, limit):
                return t, bend  # only the topmost losses count by now
            limit = self._before_end(limit, HIGHER * limit)
        raise NumericError(f"no saddle point of epsilon={epsilon:g} in {LOOKS} looks")


def targets(steps: tuple[Step, ...], log_delta: float, counts: Floats) -> Floats:
    """Log of the finite part of delta to stay under, and to exceed, after so many repetitions.

    Both are moved outward by the rounding of exp and log, so that what meets them meets delta; and
    by what the law itself may be off by, masses at infinity that may have small losses included.
    """
    slack = SLACK * (abs(log_delta) + 4.0) + counts * sum(n * law.density_error for law, n in steps)
    both: Floats = np.array([log_delta - slack, log_delta + slack])
    early = [math.log(n) + law.log_early for law, n in steps if n]
    both[1] = np.logaddexp(both[1], np.log(counts) + np.logaddexp.reduce(early))
    rate = log_rate([(law.log_infinite, count) for law, count in steps])
    if rate > -math.inf:
        infinite, error = log_revealed(rate + np.log(counts)), MASS_ERROR + composed(steps).error
        for side, sign in ((0, 1.0), (1, -1.0)):
            share = np.exp(np.minimum(infinite + sign * error - both[side], 1.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                both[side] += np.log1p(-share)
    return both
