"""The steps of one direction on nodes that grow with the tilts and frequencies asked for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law
from mechc.accountants.window import log_peak
from mechc.errors import NumericError
from mechc.loss.measure import Step

Floats = NDArray[np.float64]

ULP = 2.2e-16
ROOM = 1.2  # factor by which more tilts are covered than asked for: the next one is near
SEVERAL, MORE_ROOM = 16, 1.6  # with so many distinct steps: to extend them all costs more
MIRRORED = 16.0  # tilts up to which both directions are covered at once
FIRST_LIMIT, HIGHER = 64.0, 4.0  # below which a saddle point is sought, and factor to the next
LOOKS = 1000  # at most, at a saddle point on nodes that grow
ABOVE = 5.0  # standard deviations above the saddle point to which tilts are wanted
BOTTOM = -2e5  # log of what is not looked at more closely
INSIDE = np.linspace(0.1, 0.9, 9)  # tilts between P and Q
MOMENTS = 1e-9  # relative error of mean and variance, and more
SURE = 6.0  # standard deviations within which no loss can be ruled out
TILTS, LARGEST_TILT = 24, 1e6  # of Chernoff's bound


class Covered:
    """Steps, their law on the nodes of the moment, and the saddle points of epsilons."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        """Keep the steps."""
        self._steps = steps
        self._law = Law.of(steps)
        self._peaks: dict[bool, tuple[Floats, Floats]] = {}
        self._root: tuple[float, tuple[float, float]] | None = None
        self._lowest = sum(s.count * s.loss.support[0] for s in steps)
        self._highest = sum(s.count * s.loss.support[1] for s in steps)
        self._t_max = min(s.loss.strip[1] for s in steps) * (1.0 - 1e-4)
        self._t_min = max(s.loss.strip[0] for s in steps) * (1.0 - 1e-4)

    @property
    def law(self) -> Law:
        """The composition on the nodes of the moment."""
        return self._law

    def cover_around(self, t: float) -> None:
        """Make nodes for a saddle point t, and for the bounds on images that a contour there has.

        Raises:
            NumericError: the quadrature does not settle.
        """
        bend = float(self._law.roughly(t)[0, 2]) + t**-2 + (1.0 + t) ** -2
        self._cover(min(t + ABOVE / math.sqrt(bend), self._t_max))

    def chernoff(self, epsilon: float, reverse: bool = False) -> float:
        """Log of Chernoff's bound (numerics, 3.1) on H(epsilon), by the tilts that are covered.

        With `reverse` it is H of the pair (Q, P), whose K at t is K(-1 - t) here.
        """
        if reverse:
            highest = -1.0 - max(max(s.loss.tilts[0] for s in self._steps), self._t_min)
        else:
            highest = min(min(s.loss.tilts[1] for s in self._steps), self._t_max)
        highest = min(highest, LARGEST_TILT)
        if not highest > 0.0:
            return math.inf
        if reverse not in self._peaks:
            t = np.geomspace(1e-2 * highest, highest, TILTS)
            k, _, _, rounding = self._law.roughly(*(-1.0 - t if reverse else t)).T
            self._peaks[reverse] = t, k + rounding + log_peak(t)
        return chernoff(epsilon, *self._peaks[reverse])

    def log_complement(self, epsilon: float) -> float:
        """Log of a bound on E_P[min(1, exp(epsilon - L)); L finite], as a share of P(L finite).

        By min(1, x) <= x^u, 0 < u < 1, at tilts that every law has; 0 where that is not small.
        """
        _, mean, variance, _ = map(float, self._law.roughly(0.0)[0])
        if not mean - epsilon > SURE * math.sqrt(variance) or any(
            s.loss.apart for s in self._steps
        ):
            return 0.0
        k, _, _, rounding = self._law.roughly(*-INSIDE).T
        mass = sum(s.count * s.loss.log_finite for s in self._steps)
        rounding += 8.0 * ULP * (np.abs(k) + INSIDE * epsilon)
        return float((k + INSIDE * epsilon + rounding).min()) - mass

    def _cover(self, tilt: float, contour: float = 0.0, frequency: float = 0.0) -> None:
        """Make all steps accurate for real tilts up to `tilt` and for one frequency."""
        floor = 1e-18 / float(self._law.counts.sum())
        # the other direction will ask for tilts down to -1 - tilt: cheaper together
        if not all(s.loss.settled(-1.0, tilt) for s in self._steps):
            room = ROOM if len(self._steps) < SEVERAL else MORE_ROOM
            tilt = min(room * tilt, 0.5 * (tilt + self._t_max))
        low = -1.0 - tilt if tilt < MIRRORED and -1.0 - tilt > self._t_min else -1.0
        steps = tuple(
            Step(s.loss.covering(low, tilt, contour, frequency, floor), s.count)
            for s in self._steps
        )
        if any(a.loss is not b.loss for a, b in zip(steps, self._steps, strict=True)):
            self._steps = steps
            self._law = Law.of(steps)
            self._peaks = {}

    def at_most(self, epsilon: float, level: float) -> bool:
        """Whether Bennett's bound, or Chernoff's at or below the saddle point, is <= exp(level)."""
        if level == -math.inf or not self._t_max > 0.0:
            return False
        if self._bennett(epsilon) <= level or self.chernoff(epsilon) <= level:
            return True
        try:
            return self._peak(self._saddle(epsilon, level)[0], epsilon) <= level
        except NumericError:
            return False

    def _bennett(self, epsilon: float) -> float:
        """Log of Bennett's bound on H(epsilon), from mean, variance and largest loss of one step.

        E exp(t(L - m)) <= exp(v (exp(tb) - 1 - tb) / b^2) for L - m <= b (Boucheron, Lugosi and
        Massart 2013, Theorem 2.9), at the tilt t that is best for P(L > epsilon).
        """
        if len(self._steps) > 1:
            return math.inf
        _, mean, variance, _ = map(float, self._law.roughly(0.0)[0])
        largest = (self._highest - mean) / self._steps[0].count
        gap = epsilon - mean - MOMENTS * math.sqrt(variance)
        if not (0.0 < largest < math.inf and gap > 0.0 and variance > 0.0):
            return math.inf
        variance, largest = variance * (1.0 + MOMENTS), largest * (1.0 + MOMENTS)
        t = math.log1p(gap * largest / variance) / largest
        bend = variance * (math.expm1(t * largest) - t * largest) / largest**2
        log_mass = self._steps[0].count * self._steps[0].loss.log_finite
        return log_mass + bend - t * gap + float(log_peak(t)) + MOMENTS

    def _peak(self, t: float, epsilon: float) -> float:
        """Log of Chernoff's bound on H(epsilon) at one covered tilt."""
        k, _, _, rounding = map(float, self._law.roughly(t)[0])
        return chernoff(epsilon, np.array([t]), k + rounding + log_peak(np.array([t])))

    def _saddle(self, epsilon: float, level: float = -math.inf) -> tuple[float, float]:
        """Root t0 of K'(t) = eps + 1/t + 1/(t+1) and F''(t0), extending the nodes on the way.

        Without a root below the end of the strip, the largest usable tilt is returned; a smaller
        one where Chernoff's bound comes down to exp(level) on the way.

        Raises:
            NumericError: no root is found, or nodes for it do not settle.
        """
        if self._root is not None and self._root[0] == epsilon:
            return self._root[1]
        if not self._t_max > 0.0:
            raise NumericError("no moment of positive order is known to be finite")
        limit = min(FIRST_LIMIT, self._t_max)
        for _ in range(LOOKS):
            # on nodes that lack large losses K' is too small, and its root too large
            t, bend = self._law.saddle(epsilon, limit)
            wanted = min(t + ABOVE / math.sqrt(bend), self._t_max) if t < limit else limit
            if any(s.loss.tilts[1] < wanted for s in self._steps):
                self._cover(wanted)
                continue
            if t < limit:
                self._root = epsilon, (t, bend)
                return t, bend
            gap = (self._highest - epsilon) / float(self._law.counts.sum())
            topmost = 1e9 < limit * gap < math.inf
            topmost |= float(self._law.roughly(limit)[0][0]) - epsilon * limit < BOTTOM
            if limit >= self._t_max or topmost:
                return t, bend  # only the topmost losses count by now
            if level > -math.inf and self._peak(t, epsilon) <= level:
                return t, bend
            limit = min(HIGHER * limit, self._t_max)
        raise NumericError(f"no saddle point of epsilon={epsilon:g} in {LOOKS} looks")


def chernoff(epsilon: float, tilts: Floats, peaks: Floats) -> float:
    """Return log of the least of exp(peaks - tilts epsilon), rounding included."""
    rounding = 8.0 * ULP * (np.abs(peaks) + tilts * epsilon)
    return float((peaks - tilts * epsilon + rounding).min(initial=math.inf)) + 1e-12
