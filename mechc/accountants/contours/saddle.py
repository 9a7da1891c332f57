"""The tilt at which a series is expanded: the root of K'(t) = target(t) on (0, t_plus).

In: the composed loss and a decreasing target. Out: the tilt, and whether it solves the equation.
K' increases and the targets used here decrease, so that the root is unique; it exists exactly
when K' reaches the target inside the strip. Newton's method in log t, kept inside a bracket.

Exponential tilting of all steps of a composition at once, compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours.composed import ComposedLoss
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.jit import compiled

Floats = NDArray[np.float64]

_MAX_STEPS = 200
_LARGEST = 1e15
_SMALLEST = 1e-150  # 1/t^2 is still a double
_SETTLED = 1e-13  # relative change of t at which Newton stops
_UPWARD = 3.0  # largest factor of one step up: K' may grow exponentially beyond the root
_CLOSE = 1.1  # ratio of a bracket whose upper end is a tilt that float64 cannot serve
_UNUSABLE = 0.5  # rounding error of K at which a tilt no longer serves
_BISECT_EVERY = 3  # so that a bracket of many decades shrinks whatever Newton does

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
    low, high, usable = 0.0, math.inf, math.inf
    t = _first_guess(composed, epsilon, end)
    for count in range(_MAX_STEPS):
        gap, slope = _gap(composed, target, t)
        if gap == 0.0:
            return Tilt(t, True)
        low, high = (t, high) if gap < 0 else (low, t)
        usable = min(usable, t) if gap == math.inf else usable
        step = -gap / (t * slope) if slope > 0 and math.isfinite(gap) else -math.copysign(1.0, gap)
        if abs(step) < _SETTLED or (high - low) <= 2e-16 * t:
            return Tilt(t, True)
        if t <= _SMALLEST or low >= end * (1 - 1e-9):
            return Tilt(t, False)
        if high == usable and high < _CLOSE * low:
            return Tilt(low, False)
        t = _next(t, step, low, high, end, count % _BISECT_EVERY == 2)
    return Tilt(low if low > 0 else t, False)


def _first_guess(composed: ComposedLoss, epsilon: float, end: float) -> float:
    """Root for a quadratic K and target eps + 3/(2t), kept small where K' may explode."""
    _, mean, variance = map(float, composed.cumulants(0.0, 2))
    excess = mean - epsilon
    root = math.hypot(excess, math.sqrt(6.0 * max(variance, 0.0)))
    if excess > 0:
        guess = 3.0 / (excess + root)
    else:
        guess = (root - excess) / (2.0 * variance) if variance > 0 else math.inf
    guess = min(max(guess, _SMALLEST), 2.0)
    return guess if guess < end else 0.5 * end


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


def _next(t: float, step: float, low: float, high: float, end: float, bisect: bool) -> float:
    """Take a Newton step in log t inside the bracket (low, high) and the strip, or bisect.

    A step down at most squares a small t: a few steps cover all magnitudes.
    """
    wide = 0.0 < 4.0 * low < high < math.inf
    if bisect and wide:
        return math.sqrt(low) * math.sqrt(high)
    farthest = -max(9.0, abs(math.log(t)))
    proposal = max(t * math.exp(min(max(step, farthest), math.log(_UPWARD))), _SMALLEST)
    if low < proposal < min(high, end):
        return proposal
    if low == 0.0:
        return max(t * math.exp(farthest), _SMALLEST)
    return math.sqrt(low) * math.sqrt(high) if wide else 0.5 * (low + min(high, end))


@compiled("float64(float64[::1], float64[::1])")
def _inner(a, b):  # type: ignore[no-untyped-def]
    """Inner product with compensated summation."""
    total = 0.0
    carry = 0.0
    for j in range(a.size):
        v = a[j] * b[j] - carry
        new = total + v
        carry = (new - total) - v
        total = new
    return total


@np.errstate(all="ignore")
def tilt(
    offsets: NDArray[np.int64], loss: Floats, log_weight: Floats, c: float, floor: float
) -> tuple[Floats, Floats, NDArray[np.int64], Floats, Floats]:
    """Tilt the nodes of every step at c, normalise and centre them.

    Nodes stay out of the second half of the answer while they carry at most `floor` of a step.

    Returns the weights of all nodes; rows [mean, standard deviation, weight left out] of the
    steps; and offsets, centred losses and weights of the nodes that stay.
    """
    weights, centred, stay = log_weight + c * loss, np.empty(loss.size), np.empty(loss.size, bool)
    rows = np.empty((offsets.size - 1, 3))
    for row, a, b in zip(rows, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        w, d = weights[a:b], centred[a:b]
        w -= w.max(initial=-np.inf)
        np.exp(w, out=w)
        w /= _inner(w, np.ones(b - a))
        first = _inner(w, loss[a:b])
        d[:] = loss[a:b] - first
        second = _inner(w, d)  # what rounding has left of the mean
        d -= second
        stay[a:b] = w > floor / max(b - a, 1)
        row[:] = first + second, math.sqrt(float((w * d * d).sum())), w[~stay[a:b]].sum()
    kept = np.append(0, stay.cumsum())[offsets]
    return weights, rows, kept, centred[stay], weights[stay]
