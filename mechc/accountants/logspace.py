"""Arithmetic on logarithms of probabilities, where delta may be far below the smallest double.

In and out: natural logs as floats, -inf for zero. Nothing here raises; nan in gives nan out.
"""

from __future__ import annotations

import math

from scipy import special

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ERFCX_OVERFLOWS = -30.0  # below this x, q(x) is taken from log Phi instead of erfcx


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
    if low == -math.inf or math.isinf(top):
        return top
    return top + math.log1p(math.exp(low - top))


def log_subtract(a: float, b: float) -> float:
    """Return log(exp(a) - exp(b)), -inf where the difference is not positive."""
    return a + log1mexp(b - a) if a > b else -math.inf


def log_mills(x: float) -> float:
    """Return log q(x) with q(x) = sqrt(2 pi) exp(x^2/2) (1 - Phi(x)), the normal Mills ratio."""
    if x < _ERFCX_OVERFLOWS:
        return float(special.log_ndtr(-x)) + 0.5 * x * x + HALF_LOG_TWO_PI
    return math.log(special.erfcx(x / math.sqrt(2.0))) + 0.5 * math.log(0.5 * math.pi)
