"""Arithmetic on logarithms of probabilities, where delta may be far below the smallest double.

In and out: natural logs as floats, -inf for zero. Nothing here raises; nan in gives nan out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechc.protocol import Floats

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
TINY = 1e-300  # a tilt at which a peak is one
HALF_ROOT = math.sqrt(0.5)


def log_of(x: float) -> float:
    """Return the log of a number, -inf where it is not positive."""
    return -math.inf if x <= 0.0 else math.log(x)


def log1mexp(x: float) -> float:
    """Return log(1 - exp(x)) for x <= 0, and -inf for x > 0."""
    if x >= 0.0:
        return -math.inf
    if x > -math.log(2.0):
        return math.log(-math.expm1(x))
    return math.log1p(-math.exp(x))


def log_add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    top, low = (a, b) if a >= b else (b, a)
    if low == -math.inf or top == math.inf:  # no number beside nothing is none
        return top
    return top + math.log1p(math.exp(low - top))


def log_subtract(a: float, b: float) -> float:
    """Return log(exp(a) - exp(b)), -inf where the difference is not positive."""
    return -math.inf if a <= b else a + log1mexp(b - a)


def log_mean(logs: Sequence[float], weights: Sequence[float]) -> float:
    """Return the log of a mean, of which logs are rounded once, however many there are."""
    found, share = np.array(logs), np.array(weights)
    with np.errstate(divide="ignore"):
        top = found[np.argmax(found + np.log(share))]
    return -math.inf if top == -math.inf else float(top + math.log(share @ np.exp(found - top)))


def log_peak(t: Floats | float) -> Floats:
    """Return logs of t^t / (1 + t)^(1 + t), 0 where t is not positive, in the shape of the tilts.

    The peak of the tilted payoff, max over x of exp(-tx) (1 - exp(-x)), at x = log(1 + 1/t)
    (docs/numerics.md, section 4).
    """
    tilts = np.asarray(t, np.float64)
    some = np.maximum(tilts, TINY)
    out: Floats = -some * np.log1p(1.0 / some) - np.log1p(some)
    out *= tilts > 0.0
    return out
