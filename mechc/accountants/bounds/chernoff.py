"""Chernoff's bounds: on delta, the moments accountant (SPA section 3.2), and on tails of sums.

In: the composed loss and epsilon. Out: the log of a proven upper bound on delta, mass at infinity
and rounding allowance included, from delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)]. It holds
at every t >= 0 of the strip, so an inexact minimiser costs sharpness, never validity:

    (43)  f_t <= t^t / (1+t)^(1+t), its maximum; the tight conversion from Renyi divergences.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import payoff_target, solve
from mechc.errors import UnsupportedError
from mechc.numeric.logs import log_add, log_peak
from mechc.numeric.rounding import U

_ROUNDING = 1e-9  # added to every log of a tail: error of K, quadrature included


def exponent(composed: ComposedLoss, t: float, epsilon: float) -> tuple[float, float]:
    """Return K(t) - t epsilon and a bound on its error."""
    k = composed.log_finite if t == 0.0 else float(composed.cumulants(t, 2)[0])
    error = 0.0 if t == 0.0 else composed.log_mass_error(t)
    return k - t * epsilon, error + 8 * U * (1.0 + abs(k) + abs(t * epsilon))


def maximum_bound(composed: ComposedLoss, t: float, epsilon: float) -> float:
    """Return the log of bound (43) at the tilt t, rounded up, with the mass at infinity."""
    main, error = exponent(composed, t, epsilon)
    upper = main + float(log_peak(t)) + error + 8 * U * math.log1p(t)
    total = log_add(composed.log_infinite, upper)
    return min(0.0, total + 8 * U * (1.0 + abs(total))) if math.isfinite(total) else 0.0


def best_maximum(composed: ComposedLoss, epsilon: float) -> tuple[float, float]:
    """Return the log of bound (43) at its minimising tilt, and that tilt.

    Raises:
        UnsupportedError: the generating function is infinite for every t > 0.
    """
    t = solve(composed, payoff_target(epsilon), epsilon).t
    return maximum_bound(composed, t, epsilon), t


class Tails:
    """Tail bounds of every distinct step and of the sum, both conditional on a finite loss."""

    def __init__(self, composed: ComposedLoss, method: str) -> None:
        """Tabulate K on both sides of 0, refused where one has no finite value."""
        s, right = composed.upper_table(np.geomspace(1e-3, 3e3, 60))
        u, left = composed.upper_table(-np.geomspace(1e-3, 3e3, 60))
        if s.size == 0 or u.size == 0:
            raise UnsupportedError(
                f"{method}: the loss has no exponential moments on one side, so that no window can "
                "be proven"
            )
        finite = composed.by_step(0.0, 0)[:, 0]
        steps = [(s, right - finite), (-u, left - finite)]
        self._sides = [(t, np.column_stack([rows, rows @ composed.counts])) for t, rows in steps]
        self.distinct = composed.counts.size
        # cells may lack losses next to the ends of them all
        self._hidden = [*composed.following_errors(), 0.0]

    def window(self, index: int, log_level: float) -> float:
        """Return a with P(X > a) and P(X < -a) at most exp(log_level) each, by cells up to a.

        Args:
            index: a distinct step, or `distinct` for the sum.
            log_level: below 0.
        """
        return self._hidden[index] + max(
            float(((rows[:, index] + _ROUNDING - log_level) / t).min()) for t, rows in self._sides
        )

    def log_beyond(self, index: int, a: float) -> tuple[float, float]:
        """Return logs of bounds on P(X > a) and P(X < -a), on what cells up to a do not hold."""
        a -= self._hidden[index]
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
        """Return a bound on E[|X|] of what cells up to a > 0 do not hold.

        From x exp(-tx) <= a exp(-ta) for x >= a where ta >= 1.
        """
        a, total = a - self._hidden[index], 0.0
        for t, rows in self._sides:
            fit = t * a >= 1.0
            if not fit.any():
                return math.inf
            total += a * math.exp(float((rows[fit, index] - t[fit] * a).min()) + _ROUNDING)
        return total
