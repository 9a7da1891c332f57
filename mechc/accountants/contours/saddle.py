"""The tilt at which a series is expanded: the root of K'(t) = target(t) on (0, t_plus).

In: the composed loss and a decreasing target. Out: the tilt, and whether it solves the equation.
K' increases and the targets used here decrease, so that the root is unique; it exists exactly
when K' reaches the target inside the strip. Newton's method in log t, kept inside a bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from mechc.accountants.contours.composed import ComposedLoss
from mechc.errors import NumericError, UnsupportedError
from mechc.numeric.rounding import SQUARABLE

_LARGEST = 1e15  # tilt, where the strip has no end
_SMALLEST = 1.0 / SQUARABLE  # 1/t^2 is still a double
_SETTLED = 1e-13  # relative change of t at which Newton stops
_UPWARD = math.log(3.0)  # of one step up: K' may grow exponentially beyond the root
_DOWNWARD = 9.0  # the same of one step down
_STEPS = 200  # of Newton's method, more than bisection takes
_CLOSE = 1.1  # ratio of a bracket whose upper end is a tilt that float64 cannot serve
_UNUSABLE = 0.5  # rounding error of K at which a tilt no longer serves

Target = Callable[[float], tuple[float, float]]


class Tilt(NamedTuple):
    """A tilt t > 0, and whether it solves the equation it was sought for."""

    t: float
    solved: bool


def saddle_target(epsilon: float) -> Target:
    """Right side of the saddle equation, SPA (50): eps + 1/t + 1/(t+1), with its derivative."""
    return lambda t: (epsilon + 1 / t + 1 / (1 + t), -1 / (t * t) - 1 / ((1 + t) * (1 + t)))


def payoff_target(epsilon: float) -> Target:
    """Right side of SPA (44): eps + log((1+t)/t), with its derivative."""
    return lambda t: (epsilon + math.log1p(1 / t), -1 / (t * (1 + t)))


def mean_target(epsilon: float) -> Target:
    """Right side of SPA (41) and (47): eps, with its derivative."""
    return lambda t: (epsilon, 0.0)


def solve(composed: ComposedLoss, target: Target, epsilon: float) -> Tilt:
    """Solve K'(t) = target(t) for t > 0.

    Args:
        composed: the composition.
        target: t -> (value, derivative), decreasing in t.
        epsilon: limit of the target for large t; used for the first guess only.

    Returns:
        The root; or, with solved=False, the largest tilt reached where K' stays below the target,
        or the smallest where it stays above.

    Raises:
        UnsupportedError: the generating function is infinite for every t > 0.
    """
    end = min(composed.strip[1], _LARGEST)
    if end <= 0.0:
        raise UnsupportedError("the privacy loss has no exponential moment: no tilt t > 0 exists")
    _, mean, variance = map(float, composed.cumulants(0.0, 2))
    reach = math.hypot(mean - epsilon, math.sqrt(6.0 * max(variance, 0.0)))
    # that of a quadratic K and the target eps + 3/(2t), kept small where K' may explode
    t = min(max(3.0 / max(mean - epsilon + reach, 1e-300), _SMALLEST), 2.0, 0.5 * end)
    low, high, known = 0.0, math.inf, True  # whether float64 serves the upper end
    for _ in range(_STEPS):
        gap, slope = _gap(composed, target, t)
        if gap < 0.0:
            low = t
        else:
            high, known = t, gap < math.inf
        step = -gap / (t * slope) if slope > 0.0 else math.copysign(math.inf, -gap)
        if gap == 0.0 or abs(step) <= _SETTLED or high <= low * (1.0 + _SETTLED):
            return Tilt(t, True)
        if low >= end * (1.0 - 1e-9) or high <= _SMALLEST or (not known and high < _CLOSE * low):
            return Tilt(low or high, False)
        new = min(t * math.exp(min(max(step, -_DOWNWARD), _UPWARD)), 0.5 * (t + end))
        t = new if low < new < high else math.sqrt(low) * math.sqrt(high)
    return Tilt(t, True)


def _gap(composed: ComposedLoss, target: Target, t: float) -> tuple[float, float]:
    """K'(t) - target(t) and its derivative; (inf, nan) where t is too large for the numerics."""
    value, derivative = target(t)
    try:
        _, mean, variance = composed.cumulants(t, 2)
        usable = composed.log_mass_error(t) < _UNUSABLE or t <= 1.0
    except NumericError:
        return math.inf, math.nan
    if not (math.isfinite(mean) and math.isfinite(variance) and usable):
        return math.inf, math.nan
    return float(mean) - value, float(variance) - derivative
