"""The peak of the tilted payoff, t^t / (1 + t)^(1 + t): its only definition.

max over x of exp(-tx) (1 - exp(-x)) at x = log(1 + 1/t), t > 0 (docs/numerics.md, section 3.1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_peak_at(t: float) -> float:
    """Return its log; that of its limit 1 where t is not positive."""
    return -t * math.log1p(1.0 / t) - math.log1p(t) if t > 0.0 else 0.0


def log_peak(t: Floats | float) -> Floats:
    """Return its log at tilts, in their shape."""
    tilts = np.asarray(t, np.float64)
    out = np.zeros(tilts.shape)
    positive = tilts > 0.0
    some = tilts[positive]
    with np.errstate(over="ignore"):
        out[positive] = -some * np.log1p(1.0 / some) - np.log1p(some)
    return out
