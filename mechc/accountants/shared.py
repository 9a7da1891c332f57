"""One contour for many epsilons, where nodes cost more than answers: many distinct steps.

A contour Re z = c answers for every epsilon whose saddle point t is so near that the terms cancel
by a bearable factor: log of it F(c) - F(t), about (t - c)^2 F'' / 2. With SPARE nats, c at
sqrt(2 SPARE / F'') serves tilts from 0 to 2c, in a central limit all epsilons with delta from 1/2
to 1e-20. The period and the length of the contour are those of the most demanding of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law
from mechc.accountants.window import log_peak

Floats = NDArray[np.float64]

SPARE = 11.0  # nats by which terms may cancel
ROUNDS = 6  # steps to the tilt that is a given number of standard deviations away
REACH = math.sqrt(2.0 * SPARE)
SERVED = np.array([-0.95, -0.8, -0.6, -0.3, 0.0, 0.3, 0.6, 0.8, 0.95])  # tilts, in REACH / sd
ABOVE = 10  # tilts above the contour for the bound on images


class Shared(NamedTuple):
    """A contour, its period, tilts above it with the log bound there, and how far to go out."""

    c: float
    period: float
    grid: Floats
    log_b: Floats
    frequency: float


def place(law: Law, saddle: float, highest: float) -> float | None:
    """Return the real part of a contour that serves `saddle` and many more; None if there is none.

    Args:
        law: the composition, on nodes good for tilts up to 2 * saddle, or a little less.
        saddle: tilt of the epsilon that has to be served.
        highest: largest tilt at which the nodes are good.
    """
    c = saddle
    for _ in range(ROUNDS):
        spread = math.sqrt(float(law.roughly(c)[0, 2]) + c**-2)
        low = max(REACH / spread, saddle - 0.9 * REACH / spread)
        new = min(low, highest)
        if abs(new - c) < 1e-2 * c:
            break
        c = math.sqrt(new * c) if new > 0.0 else 0.5 * c
    return c if 0.0 < c < highest else None


def choose(law: Law, c: float, epsilon: float, top: float, log_share: float) -> Shared | None:
    """Return the contour at c for all epsilons that it can serve; None where `epsilon` is not one.

    Args:
        law: the composition, on nodes good for tilts up to `top`.
        c: real part.
        epsilon: the epsilon that is asked for.
        top: largest tilt to be used.
        log_share: log of the share of delta that images and truncation may cost.
    """
    spread = math.sqrt(float(law.roughly(c)[0, 2]) + c**-2)
    tilts = c + SERVED * min(REACH / spread, c, (top - c))
    above = np.linspace(c, top, ABOVE)[1:]
    rows = law.roughly(c, *tilts, *above)
    k = rows[:, 0]
    at = slice(1, 1 + tilts.size)
    epsilons = rows[at, 1] - 1.0 / tilts - 1.0 / (tilts + 1.0)
    f2 = rows[at, 2] + tilts**-2 + (1.0 + tilts) ** -2
    exponent = k[at] - epsilons * tilts - np.log(tilts * (1.0 + tilts))
    cancelled = k[0] - epsilons * c - math.log(c * (1.0 + c)) - exponent
    served = (epsilons >= 0.0) & (cancelled <= 1.1 * SPARE)
    if not served.any() or not epsilons[served].min() <= epsilon <= epsilons[served].max():
        return None
    log_small = (exponent - 0.5 * np.log(2.0 * math.pi * f2) + log_share)[served]
    asked = epsilons[served]
    left = np.minimum(-log_small / c, (asked - log_small) / (c + 1.0))
    grid = above
    log_b = k[1 + tilts.size :] + rows[1 + tilts.size :, 3] + log_peak(grid)
    images = log_b - np.outer(asked, grid) - log_small[:, None]
    right = (images / (grid - c)).min(axis=1)
    period = max(float(left.max()), float(right.max()), 1e-3 / (1.0 + c))
    return Shared(c, period, grid, log_b, law.fading(c, log_share - SPARE))
