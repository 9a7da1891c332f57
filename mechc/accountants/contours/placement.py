"""Where to lay a contour: the real part and the period that need the fewest frequencies.

The period has to keep the images small that lie left and right of the answers, the frequencies to
reach the place where phi has faded; both depend on the real part, which may be the lowest saddle
point or somewhat below it (docs/numerics.md, section 4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mechc.accountants.contours.law import Law
from mechc.errors import NumericError
from mechc.numeric.allowance import spend
from mechc.numeric.logs import log_peak
from mechc.protocol import Floats

# nats by which the contour may miss the saddle point of its one row, or those of several
CANCELLATION, SHARED = math.log(1e2), math.log(1e3)
BELOW, ABOVE = 11, 7  # real parts tried at and below the saddle point, and tilts tried above it
FADED = 0.7  # times the frequency of one real part, below which no other one is thought to fade
LOWEST = 3.0  # log of the ratio of the saddle point to the lowest of them
TOWARDS = np.exp(-LOWEST * (1.0 - np.arange(BELOW) / (BELOW - 1.0)) ** 2)  # as shares of it
UPWARDS = np.arange(1.0, ABOVE + 1.0) / ABOVE  # of the way to the largest
LEFT, CLEAR = math.log(1e2), 1.05  # nats, log of delta, that known images may have; spare period


class Placement(NamedTuple):
    """A real part with its period."""

    c: float
    period: float
    frequency: float  # where phi is thought to have faded
    grid: Floats  # real s > 0
    # K(s) + s log s - (1+s) log(1+s) there; minus s eps they bound the hockey-stick divergence at
    # eps (docs/numerics.md, section 4)
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
        log_b: see `Placement`, shape (tilts,) or (rows, tilts).
        epsilons: shape (rows,).
        log_small: logs of what images may add, shape (rows,).
        known: periods at which those on the left are known to be small, shape (rows, count).

    Returns:
        Shape (rows, count); -inf where no image on the right has a bound.
    """
    c = tilts[:count]
    gap = tilts - c[:, None]
    images = log_b - epsilons[:, None] * tilts - log_small[:, None]
    right = images[:, None] / gap
    right[:, ~(gap > 0.0)] = np.inf
    epsilons, log_small = epsilons[:, None], log_small[:, None]
    left = np.minimum(-log_small / c, (epsilons - log_small) / (c + 1.0))
    left = np.minimum(left, known)
    nearest = np.minimum.reduce(right, axis=2)
    found: Floats = np.maximum(np.maximum(left, nearest), 1e-3 / (1.0 + c))
    return found


@np.errstate(all="ignore")
def place(
    law: Law,
    rows: Floats,
    top: float,
    share: float,
    spread: bool = False,
    lowest: float = -math.inf,
) -> Placement:
    """Choose a contour for one row or several.

    Args:
        law: the composition of the first row, on nodes good for tilts up to `top`.
        rows: repetitions of the law, roots t of F'(t) = 0 and epsilons, shape (3, rows);
            F(t) = K(t) - eps t - log t - log(1 + t).
        top: largest tilt to be used in bounds.
        share: of delta that images and truncation may cost.
        spread: judge how soon phi fades by the variance alone, where atoms keep it from fading.
        lowest: the least loss of the law, beyond which all images on the left are known; -inf where
            that is not to be made use of.

    Raises:
        NumericError: no period keeps the images small.
    """
    spend(40.0 * law.loss.size)
    n, t, epsilon = rows[:, :, None]
    first = float(np.minimum.reduce(t, axis=None))
    # closer together near the saddle point, above which K may explode
    above = ABOVE if top > first else 0
    size = BELOW + above
    tilts = np.empty(size + len(t))
    tilts[:BELOW] = first * TOWARDS
    if above:
        tilts[BELOW:size] = first + (top - first) * UPWARDS
    tilts[size:] = t[:, 0]
    grid = tilts[:size]
    sums = law.sums(tilts)
    exponent = n * sums[:, 0] - epsilon * tilts - np.log(tilts) - np.log1p(tilts)
    least, bend = exponent[:, size:].diagonal()[:, None], n * sums[size:, 2:3]
    log_delta = least - 0.5 * np.log(2.0 * math.pi * (bend + t**-2 + (1.0 + t) ** -2))
    log_b, peaks = sums[:size, 0] + sums[:size, 3] + law.tolerance, log_peak(grid)
    tried = min(BELOW, size - 1)
    c = grid[:tried]
    known = CLEAR * np.maximum(-(log_delta + LEFT) / c, epsilon - n * lowest)
    small = (log_delta + math.log(share))[:, 0]
    found = periods(grid, tried, n * log_b + peaks, epsilon[:, 0], small, known)
    found[exponent[:, :tried] - least > (CANCELLATION if len(n) == 1 else SHARED)] = math.inf
    needed = np.maximum.reduce(found, axis=0)
    if spread:
        frequencies = 1.0 / np.sqrt(np.maximum(sums[:tried, 2], 1e-300))
    else:
        frequencies = law.fading(c, math.log(share), needed, FADED)
    cost = needed * frequencies
    cost[~(cost < math.inf)] = math.inf
    chosen = tried - 1 - int(cost[::-1].argmin())
    best, faded = float(needed[chosen]), float(frequencies[chosen])
    if not (best > 0.0 and cost[chosen] < math.inf):
        raise NumericError("no period of the trapezoid rule keeps its images small")
    return Placement(float(c[chosen]), best, faded, grid, log_b + peaks)
