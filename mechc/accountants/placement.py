"""Where to lay a contour: the real part and the period that need the fewest frequencies.

The period has to keep the images small that lie left and right of the answer, the frequencies to
reach the place where phi has faded; both depend on the real part, which may be the saddle point or
somewhat below it (docs/numerics.md, section 4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law
from mechc.accountants.rough import fading, sums
from mechc.loss.compiled import compiled
from mechc.loss.work import spend

Floats = NDArray[np.float64]

CANCELLATION = math.log(1e2)  # nats by which the contour may miss the saddle point
BELOW, ABOVE = 11, 7  # real parts tried at and below the saddle point, and tilts tried above it
FADED = 0.7  # times the frequency of one real part, below which no other one is thought to fade
LOWEST = 3.0  # log of the ratio of the saddle point to the lowest of them


class Placement(NamedTuple):
    """A real part with its period.

    Attributes:
        c, period: of the contour.
        frequency: where phi is thought to have faded.
        grid, log_b: see `trapezoid.Contour`.
    """

    c: float
    period: float
    frequency: float
    grid: Floats
    log_b: Floats


def place(
    law: Law, epsilon: float, saddle: tuple[float, float], top: float, share: float, spread: bool
) -> Placement:
    """Choose a contour for one epsilon.

    Args:
        law: the composition, on nodes good for tilts up to `top`.
        epsilon: the query.
        saddle: root t of F'(t) = 0, F(t) = K(t) - eps t - log t - log(1 + t), and F''(t).
        top: largest tilt to be used in bounds.
        share: of delta that images and truncation may cost.
        spread: judge how soon phi fades by the variance alone, where atoms keep it from fading.
    """
    spend(40.0 * law.loss.size)
    return Placement(
        *_place(
            law.offsets, law.counts, law.loss, law.log_weight, epsilon, *saddle, top,
            math.log(share), spread,
        )
    )  # fmt: skip


@compiled("float64(float64)")
def _log_peak(s):  # type: ignore[no-untyped-def]
    """Log of max_x exp(-sx)(1 - exp(-x)), s > 0, as `window.log_peak`."""
    return -s * math.log1p(1.0 / s) - math.log1p(s)


@compiled(
    "Tuple((float64, float64, float64, float64[::1], float64[::1]))(int64[::1],"
    " float64[::1], float64[::1], float64[::1], float64, float64, float64, float64, float64, b1)",
)
def _place(offsets, counts, loss, log_weight, epsilon, saddle, bend, top, log_share, spread):  # type: ignore
    """As `place`; returns the fields of a `Placement`."""
    grid = np.empty(BELOW + ABOVE if top > saddle else BELOW)
    for i in range(BELOW):  # closer together near the saddle point, above which K may explode
        grid[i] = saddle * math.exp(-LOWEST * (1.0 - i / (BELOW - 1.0)) ** 2)
    for i in range(BELOW, grid.size):
        grid[i] = saddle + (top - saddle) * (i - BELOW + 1.0) / ABOVE
    rows = sums(offsets, counts, loss, log_weight, grid)
    log_b, exponent = np.empty(grid.size), np.empty(grid.size)
    for i in range(grid.size):
        exponent[i] = rows[i, 0] - epsilon * grid[i] - math.log(grid[i]) - math.log1p(grid[i])
        log_b[i] = rows[i, 0] + rows[i, 3] + _log_peak(grid[i])
    least = exponent[BELOW - 1]
    log_small = least - 0.5 * math.log(2.0 * math.pi * bend) + log_share
    chosen, best, faded = BELOW - 1, 1.0, 1.0
    cost = np.inf
    for i in range(min(BELOW, grid.size - 1) - 1, -1, -1):
        c = grid[i]
        if exponent[i] - least > CANCELLATION:
            break
        period = max(min(-log_small / c, (epsilon - log_small) / (c + 1.0)), 1e-3 / (1.0 + c))
        right = np.inf
        for m in range(i + 1, grid.size):
            image = log_b[m] - grid[m] * epsilon - log_small
            right = min(right, image / (grid[m] - c))
        period = max(period, right)
        if not period * FADED * faded < cost:
            continue
        if spread:
            frequency = 1.0 / math.sqrt(max(rows[i, 2], 1e-300))
        else:
            frequency = fading(offsets, counts, loss, log_weight, c, -log_share)
        if period * frequency < cost:
            chosen, best, faded, cost = i, period, frequency, period * frequency
    return grid[chosen], best, faded, grid, log_b
