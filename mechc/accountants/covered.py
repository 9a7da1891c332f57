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
MIRRORED = 16.0  # tilts up to which both directions are covered at once
BOTTOM = -2e5  # log of what is not looked at more closely
TILTS, LARGEST_TILT = 24, 1e6  # of Chernoff's bound


class Covered:
    """Steps, their law on the nodes of the moment, and the saddle points of epsilons."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        """Keep the steps."""
        self._steps = steps
        self._law = Law.of(steps)
        self._peaks: tuple[Floats, Floats] | None = None
        self._lowest = sum(s.count * s.loss.support[0] for s in steps)
        self._highest = sum(s.count * s.loss.support[1] for s in steps)
        self._t_max = min(s.loss.strip[1] for s in steps) * (1.0 - 1e-4)
        self._t_min = max(s.loss.strip[0] for s in steps) * (1.0 - 1e-4)

    def chernoff(self, epsilon: float) -> float:
        """Log of Chernoff's bound (numerics, 3.1) on H(epsilon), by the tilts that are covered."""
        highest = min(min(s.loss.tilts[1] for s in self._steps), self._t_max, LARGEST_TILT)
        if not highest > 0.0:
            return math.inf
        if self._peaks is None:
            t = np.geomspace(1e-2 * highest, highest, TILTS)
            k, _, _, rounding = self._law.roughly(*t).T
            self._peaks = t, k + rounding + log_peak(t)
        return chernoff(epsilon, *self._peaks)

    def _cover(self, tilt: float, contour: float = 0.0, frequency: float = 0.0) -> None:
        """Make all steps accurate for real tilts up to `tilt` and for one frequency."""
        floor = 1e-18 / float(self._law.counts.sum())
        # the other direction will ask for tilts down to -1 - tilt: cheaper together
        if tilt < MIRRORED and not all(s.loss.settled(-1.0, tilt) for s in self._steps):
            tilt = min(ROOM * tilt, 0.5 * (tilt + self._t_max))
        low = -1.0 - tilt if tilt < MIRRORED and -1.0 - tilt > self._t_min else -1.0
        steps = tuple(
            Step(s.loss.covering(low, tilt, contour, frequency, floor), s.count)
            for s in self._steps
        )
        if any(a.loss is not b.loss for a, b in zip(steps, self._steps, strict=True)):
            self._steps = steps
            self._law = Law.of(steps)
            self._peaks = None

    def _saddle(self, epsilon: float) -> tuple[float, float]:
        """Root t0 of K'(t) = eps + 1/t + 1/(t+1) and F''(t0), extending the nodes on the way.

        Without a root below the end of the strip, the largest usable tilt is returned.
        """
        if not self._t_max > 0.0:
            raise NumericError("no moment of positive order is known to be finite")
        _, mean, variance, _ = self._law.roughly(0.0)[0]
        gap = float(epsilon - mean)  # as a Python float, which overflows without a warning
        variance = max(float(variance), 1e-300)
        root = math.sqrt(gap * gap + 8.0 * variance)
        guess = (gap + root) / (2.0 * variance) if gap > 0.0 else 4.0 / (root - gap)
        guess = min(guess, self._t_max)
        # the guess can be far too large where K'' grows: go up in steps until K' is passed
        spread = math.sqrt(variance + guess**-2 + (1.0 + guess) ** -2)
        low, high = 0.0, min(1.2 * guess + 5.0 / spread, 16.0, self._t_max)
        while True:
            self._cover(high)
            if self._slope(high, epsilon)[0] >= 0.0:
                break
            gap = (self._highest - epsilon) / float(self._law.counts.sum())
            topmost = 1e9 < high * gap < math.inf
            topmost |= float(self._law.roughly(high)[0][0]) - epsilon * high < BOTTOM
            if high >= self._t_max or topmost:
                return high, self._slope(high, epsilon)[1]  # only the topmost losses count by now
            low, high = high, min(4.0 * high, self._t_max)
        t = min(max(guess, low), high)
        for _ in range(200):
            slope, curvature = self._slope(t, epsilon)
            low, high = (t, high) if slope < 0 else (low, t)
            step = -slope / (curvature * t)
            if abs(step) < 1e-4 or high - low <= 1e-6 * high:
                break
            new = t * math.exp(min(1.5, max(-3.0, step)))
            if not low < new < high:
                new = math.sqrt(low * high) if low > 0 else 0.1 * high
            t = new
        return t, self._slope(t, epsilon)[1]

    def _slope(self, t: float, epsilon: float) -> tuple[float, float]:
        """F'(t) and F''(t) for F(t) = K(t) - eps t - log t - log(1 + t)."""
        _, k1, k2, _ = map(float, self._law.roughly(t)[0])
        return k1 - epsilon - 1.0 / t - 1.0 / (t + 1.0), k2 + t**-2 + (1.0 + t) ** -2


def chernoff(epsilon: float, tilts: Floats, peaks: Floats) -> float:
    """Return log of the least of exp(peaks - tilts epsilon), rounding included."""
    rounding = 8.0 * ULP * (np.abs(peaks) + tilts * epsilon)
    return float((peaks - tilts * epsilon + rounding).min(initial=math.inf)) + 1e-12
