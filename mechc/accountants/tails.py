"""Chernoff bounds for the composed loss and for its steps, with the exact generating function.

In: a composed loss. Out: bounds on P(S > a), P(S < -a) and the smallest a that keeps them below a
level. The minimum over tilts is taken over a fixed list: every tilt gives a valid bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.composed import ComposedLoss
from mechc.accountants.window import table
from mechc.errors import UnsupportedError

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # added to every log of a bound: error of K, quadrature included


class Tails:
    """Tail bounds of every distinct step and of the sum, both conditional on a finite loss."""

    def __init__(self, composed: ComposedLoss, method: str) -> None:
        """Tabulate K on both sides of 0.

        Raises:
            UnsupportedError: a side has no tilt with a finite generating function.
        """
        s, right = table(composed, np.geomspace(1e-3, 3e3, 60))
        u, left = table(composed, -np.geomspace(1e-3, 3e3, 60))
        if s.size == 0 or u.size == 0:
            raise UnsupportedError(
                f"{method}: the loss has no exponential moments on one side, so that no window can "
                "be proven"
            )
        finite = composed.by_step(0.0, 0)[:, 0]
        steps = [(s, right - finite), (-u, left - finite)]
        self._sides = [(t, np.column_stack([rows, rows @ composed.counts])) for t, rows in steps]
        self.distinct = composed.counts.size

    def window(self, index: int, log_level: float) -> float:
        """Return a with P(X > a) and P(X < -a) at most exp(log_level) each.

        Args:
            index: a distinct step, or `distinct` for the sum.
            log_level: below 0.
        """
        return max(
            float(((rows[:, index] + _ROUNDING - log_level) / t).min()) for t, rows in self._sides
        )

    def log_beyond(self, index: int, a: float) -> tuple[float, float]:
        """Return logs of bounds on P(X > a) and P(X < -a)."""
        right, left = (float((rows[:, index] - t * a).min()) + _ROUNDING for t, rows in self._sides)
        return min(right, 0.0), min(left, 0.0)

    def tilts(self, index: int, a: float) -> tuple[float, float]:
        """Return the tilts t > 0 and t < 0 at which the bounds of `log_beyond` are attained."""
        right, left = (
            float(s * t[int(np.argmin(rows[:, index] - t * a))])
            for s, (t, rows) in zip((1.0, -1.0), self._sides, strict=True)
        )
        return right, left

    def mean_beyond(self, index: int, a: float) -> float:
        """Return a bound on E[|X|; |X| > a] for a > 0, from x exp(-tx) <= a exp(-ta), ta >= 1."""
        total = 0.0
        for t, rows in self._sides:
            fit = t * a >= 1.0
            if not fit.any():
                return math.inf
            total += a * math.exp(float((rows[fit, index] - t[fit] * a).min()) + _ROUNDING)
        return total
