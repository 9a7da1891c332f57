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

from mechc.accountants.contours.characteristic import Law
from mechc.accountants.fft import log_peak
from mechc.loss.allowance import spend

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


@np.errstate(all="ignore")
def periods(
    tilts: Floats,
    count: int,
    log_b: Floats,
    epsilons: Floats,
    log_small: Floats,
    known: Floats | float = math.inf,
) -> Floats:
    """Return the periods that contours at the first tilts need to keep images small.

    Args:
        tilts: increasing.
        count: how many of them are looked at.
        log_b: see `trapezoid.Contour`, shape (tilts,) or (rows, tilts).
        epsilons: shape (rows,).
        log_small: logs of what images may add, shape (rows,).
        known: periods at which those on the left are known to be small, shape (rows, count).

    Returns:
        Shape (rows, count); -inf where no image on the right has a bound.
    """
    c = tilts[:count]
    gap = tilts - c[:, None]
    images = log_b - np.outer(epsilons, tilts) - log_small[:, None]
    right = np.where(gap > 0.0, images[:, None] / gap, np.inf).min(axis=2)
    epsilons, log_small = epsilons[:, None], log_small[:, None]
    left = np.minimum(-log_small / c, (epsilons - log_small) / (c + 1.0))
    left = np.minimum(left, known)
    found: Floats = np.maximum(np.maximum(left, right), 1e-3 / (1.0 + c))
    return found


@np.errstate(all="ignore")
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
    t, bend = saddle
    # closer together near the saddle point, above which K may explode
    grid = t * np.exp(-LOWEST * (1.0 - np.arange(BELOW) / (BELOW - 1.0)) ** 2)
    if top > t:
        grid = np.append(grid, t + (top - t) * np.arange(1.0, ABOVE + 1.0) / ABOVE)
    rows = law.sums(grid)
    exponent = rows[:, 0] - epsilon * grid - np.log(grid) - np.log1p(grid)
    log_b = rows[:, 0] + rows[:, 3] + log_peak(grid)
    least = float(exponent[BELOW - 1])
    log_small = least - 0.5 * math.log(2.0 * math.pi * bend) + math.log(share)
    tried = min(BELOW, grid.size - 1)
    needed = periods(grid, tried, log_b, np.array([epsilon]), np.array([log_small]))[0].tolist()
    chosen, best, faded, cost = BELOW - 1, 1.0, 1.0, math.inf
    for i in range(tried - 1, -1, -1):
        c, period = float(grid[i]), needed[i]
        if exponent[i] - least > CANCELLATION:
            break
        if not period * FADED * faded < cost:
            continue
        if spread:
            frequency = 1.0 / math.sqrt(max(float(rows[i, 2]), 1e-300))
        else:
            frequency = law.fading(c, math.log(share))
        if period * frequency < cost:
            chosen, best, faded, cost = i, period, frequency, period * frequency
    return Placement(float(grid[chosen]), best, faded, grid, log_b)
