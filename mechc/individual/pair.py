"""One person's composition between a dominating and a dominated one on a mesh, solved for epsilon.

Both come as tilted transforms (`accountants.transform`); what their finite period aliases is
bounded by `accountants.window`. The discretisation adds twice as much to the upper value as it
takes from the lower one, hence the weights of the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.logspace import log1mexp, log_add
from mechc.accountants.transform import TiltedSum
from mechc.accountants.window import Window, finite_lower, finite_upper, log_peak
from mechc.individual.evaluate import Query
from mechc.loss.grid import ULP

Floats = NDArray[np.float64]

_SEARCH = 60  # evaluations of a bound in search of epsilon
_FAR = 0.3  # largest share by which a search goes back at once


class Pair:
    """A dominating and a dominated composition of one person."""

    def __init__(
        self,
        upper: TiltedSum,
        lower: TiltedSum,
        epsilon: float,
        log_delta: float,
        right: Floats,
        left: Floats,
    ) -> None:
        """Keep both compositions.

        Args:
            upper: of laws that dominate the steps.
            lower: of laws that the steps dominate.
            epsilon: where to start a search.
            log_delta: about the log of delta.
            right: tilts above that of the transform that were probed.
            left: u of the probes -u.
        """
        self._upper, self._lower = upper, lower
        self._epsilon, self._log_delta = epsilon, log_delta
        self._right, self._left = right, left
        self._infinite = log1mexp(upper.log_finite) + 16 * ULP

    def answer(self, query: Query) -> tuple[float, float, float]:
        """Return lower bound, estimate and upper bound of epsilon, or of delta.

        Args:
            query: what is asked.
        """
        if not query.inverse:
            low, high = self.log_lower(query.epsilon), self.log_upper(query.epsilon)
            return math.exp(low), math.exp((2.0 * low + high) / 3.0), math.exp(min(high, 0.0))
        start, rtol = self._epsilon, query.rtol
        _, high = _bracket(self.log_upper, query.log_delta, start, rtol, _FAR)
        # far below the answer images leave nothing of the lower bound: the search keeps close
        low, _ = _bracket(self.log_lower, query.log_delta, min(high, start), rtol, 0.25 * rtol)
        low = max(low, 0.0)
        return low, (2.0 * low + high) / 3.0 if high < math.inf else math.nan, high

    def log_upper(self, epsilon: float) -> float:
        """Return an upper bound on log delta.

        Args:
            epsilon: any real number.
        """
        window = self._window(self._upper, epsilon)
        return log_add(self._infinite, finite_upper(self._upper, window, epsilon)[0])

    def log_lower(self, epsilon: float) -> float:
        """Return a lower bound on log delta.

        Args:
            epsilon: any real number.
        """
        window = self._window(self._lower, epsilon)
        return finite_lower(self._lower, window, epsilon)[0] - 16 * ULP

    def _window(self, total: TiltedSum, epsilon: float) -> Window:
        """The probes with the best bounds on the images."""
        c, period, mgf = total.tilt, total.period, total.log_mgf
        s, u, small = self._right, self._left, self._log_delta
        right = [mgf[x] - x * epsilon - (x - c) * period for x in s.tolist()] + log_peak(s)
        left = [mgf[-x] + x * (epsilon - period) for x in u.tolist()] + log_peak(u - 1.0)
        best = float(s[np.argmin(right)]), -float(u[np.argmin(left)])
        return Window(epsilon, c, small, c, period, *best, small)


def _bracket(
    bound: Callable[[float], float], target: float, start: float, rtol: float, back: float
) -> tuple[float, float]:
    """Return (low, high) with bound(low) > target >= bound(high), close together.

    Secants on the logarithm of delta, with bisection where they fail; -1 and inf where an end was
    not found. From `start` the search goes back by the share `back`, then by more and more.
    """
    low, high = -1.0, math.inf
    at_low = at_high = math.nan
    x, streak = start, 0
    for _ in range(_SEARCH):
        value = bound(x)
        if value > target:
            low, at_low, streak = x, value, max(streak, 0) + 1
        else:
            high, at_high, streak = x, value, min(streak, 0) - 1
        if high == 0.0 or high - low <= 0.02 * rtol * high:
            break
        if math.isinf(high):
            x = 1.3 * low + 1e-3
        elif low < 0.0:
            x, back = (1.0 - back) * high if high > 1e-9 else 0.0, min(4.0 * back, _FAR)
        else:
            x = 0.5 * (low + high)
            if math.isfinite(at_high) and math.isfinite(at_low):
                x = low + (high - low) * (at_low - target) / (at_low - at_high)
                nudge = 0.005 * rtol * high * 2.0 ** abs(streak)  # towards the end that stays
                x = min(max(x + math.copysign(nudge, streak), low + nudge), high - nudge)
                x = x if low < x < high else 0.5 * (low + high)
    return low, high
