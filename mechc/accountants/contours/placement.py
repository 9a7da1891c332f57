"""Where to lay a contour: the real part and the period that need the fewest frequencies.

The period has to keep the images small that lie left and right of the answer, the frequencies to
reach the place where phi has faded; both depend on the real part, which may be the saddle point or
somewhat below it (docs/numerics.md, section 4).

One contour for many epsilons, where nodes cost more than answers: many distinct steps.

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


SPARE = 11.0  # nats by which terms may cancel
REACH = math.sqrt(2.0 * SPARE)
ROUNDS = 6  # steps to the tilt that is a given number of standard deviations away
CENTRAL = 0.9  # of REACH above the contour, at which the epsilon asked for has its saddle point
JOINT_LOWEST = 3.0  # log of the ratio of the middle to the lowest tilt
JOINT_BELOW, JOINT_ABOVE = 12, 8  # tilts below the middle, and above it
FEW = 64.0  # frequencies that are as cheap as any fewer
TRIED = 6  # real parts that may be looked at


def place_jointly(law: Law, saddle: float, highest: float) -> float | None:
    """Return the real part of a contour that serves `saddle` and many more; None if there is none.

    Args:
        law: the composition, on nodes good for tilts up to 2 * saddle, or a little less.
        saddle: tilt of the epsilon that has to be served.
        highest: largest tilt at which the nodes are good.
    """
    c = saddle
    for _ in range(ROUNDS):
        spread = math.sqrt(float(law.roughly(c)[0, 2]) + c**-2)
        low = max(REACH / spread, saddle - CENTRAL * REACH / spread)
        new = min(low, highest)
        if abs(new - c) < 1e-2 * c:
            break
        c = math.sqrt(new * c) if new > 0.0 else 0.5 * c
    return c if 0.0 < c < highest else None


def choose(
    law: Law, wanted: float, epsilon: float, saddle: float, top: float, log_share: float
) -> Placement | None:
    """Return a contour for one epsilon, and for as many others as it can serve.

    It is at `wanted`, or at the tilt nearest to it where no more frequencies are needed than
    anything takes, or where the fewest are: next to a tilt from which on K explodes, images come
    close, and a far mode keeps phi from fading. The others are those whose saddle points are the
    tilts that it is compared at, closer together just above those in question.

    Args:
        law: the composition, on nodes good for tilts up to `top`.
        wanted: real part where the law is nearly normal.
        epsilon: the one that is asked for.
        saddle: its tilt.
        top: largest tilt to be used.
        log_share: log of the share of delta that images and truncation may cost.
    """
    middle = max(wanted, saddle)
    below = middle * np.exp(-JOINT_LOWEST * (1.0 - np.linspace(0.0, 1.0, JOINT_BELOW)))
    above = middle + max(top - middle, 0.0) * np.linspace(0.0, 1.0, JOINT_ABOVE + 1)[1:] ** 2
    tilts = np.unique(np.concatenate([below, above, [wanted, saddle]]))
    k, mean, variance, rounding = law.roughly(*tilts).T
    asked, log_b = int(np.searchsorted(tilts, saddle)), k + rounding + log_peak(tilts)
    epsilons = mean - 1.0 / tilts - 1.0 / (tilts + 1.0)
    epsilons[asked] = epsilon
    exponents = k - np.outer(epsilons, tilts) - np.log(tilts * (1.0 + tilts))  # row, contour
    least = np.diag(exponents)
    bend = variance + tilts**-2 + (1.0 + tilts) ** -2
    log_small = least - 0.5 * np.log(2.0 * math.pi * bend) + log_share
    cancelled = exponents - least[:, None]  # nats by which terms cancel
    served = (epsilons[:, None] >= 0.0) & (cancelled <= SPARE)
    needed = periods(tilts, tilts.size - 1, log_b, epsilons, log_small)
    needed = np.where(served[:, :-1], needed, 0.0).max(axis=0)
    best, fewest = None, math.inf
    order = np.argsort(np.abs(np.log(tilts[:-1] / wanted)))
    for i in order[cancelled[asked, order] <= SPARE][:TRIED]:
        c, period = float(tilts[i]), float(needed[i])
        frequency = law.fading(c, log_share - SPARE)
        nodes = frequency * period / (2.0 * math.pi)
        if nodes < fewest:
            best, fewest = Placement(c, period, frequency, tilts, log_b), nodes
        if nodes <= FEW:
            break
    return best
