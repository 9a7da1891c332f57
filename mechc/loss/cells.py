"""Masses of the continuous part of a loss between given losses, in both laws of the pair.

In: a KernelSource and increasing losses. Out: masses under P and Q of the cells between them. Every
cell is an interval of outputs on each monotone branch, and is integrated there by a short Gauss
rule, so that masses far out in a tail keep their relative accuracy.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mechc.loss.branches import Branch, branches_of, inverse
from mechc.loss.rule import ORDER
from mechc.loss.source import KernelSource
from mechc.loss.work import DENSITY, spend

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Gauss rules: nodes, largest share of the panel, largest change of log p and log q. The error of
# m nodes on exp(vu/2) is v^2m m!^4 / ((2m+1) (2m)!^3), and that on the panel's polynomials
# P_n, whose coefficients are below 10^(-13 n/15), is share^2m times a derivative: both below 1e-15.
RULES = (
    (2, 1 / 1024, 1e-3),
    (3, 1 / 64, 0.03),
    (4, 1 / 16, 0.2),
    (6, 1 / 4, 1.0),
    (ORDER, math.inf, math.inf),
)
_gauss = functools.cache(legendre.leggauss)  # eigenvalues of a matrix
BLOCK = 2**13  # intervals integrated at once: their nodes stay in the processor's cache


def cell_masses(
    source: KernelSource, edges: Floats, reverse: bool, tilt_lo: float, tilt_hi: float
) -> tuple[Floats, Floats]:
    """Masses of the continuous part in the cells (edges[i], edges[i+1]] under P and Q.

    Every cell is integrated on its own sub-intervals of x, cut at panel ends, so that masses far
    out in a tail keep their relative accuracy.
    """
    p, q = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    panels = source.panels
    order = np.argsort(panels.lo)
    lo, length = panels.lo[order], panels.half[order]
    for branch in branches_of(source, tilt_lo, tilt_hi):
        first, met = _met(branch, edges, reverse)
        if met.size < 2:
            continue
        cuts = inverse(source, branch, -met if reverse else met)
        cuts = cuts if branch.increasing != reverse else cuts[::-1]
        inner = lo[(lo > branch.lo) & (lo < branch.hi)]
        ends = np.unique(np.concatenate([cuts, inner, [branch.lo, branch.hi]]))
        cell = np.searchsorted(np.maximum.accumulate(cuts), ends[:-1], side="right") - 1
        cell = cell if branch.increasing != reverse else met.size - 2 - cell
        keep = (cell >= 0) & (cell < met.size - 1)
        panel = np.searchsorted(lo, ends[:-1], side="right") - 1
        masses = _interval_masses(source, ends, length[np.maximum(panel, 0)], keep)
        for out, mass in zip((p, q), masses, strict=True):
            out[first : first + met.size - 1] += np.bincount(
                cell[keep], weights=mass, minlength=met.size - 1
            )
    return (q, p) if reverse else (p, q)


def _met(branch: Branch, edges: Floats, reverse: bool) -> tuple[int, Floats]:
    """Return the first of the cells that the branch's losses lie in, and the edges of them all."""
    ends = (branch.loss_lo, branch.loss_hi)
    low, high = sorted(-end for end in ends) if reverse else sorted(ends)
    first = max(int(np.searchsorted(edges, low, side="left")) - 1, 0)
    last = int(np.searchsorted(edges, high, side="right")) + 1
    return first, edges[first:last]


def _interval_masses(
    source: KernelSource, ends: Floats, length: Floats, keep: Mask
) -> tuple[Floats, Floats]:
    """Integrate p and q over the intervals between `ends` that are kept.

    An interval takes the first of RULES that it is short enough for.

    Args:
        source: the densities.
        ends: increasing, shape (n + 1,).
        length: half length of the panel that each interval lies in, shape (n,).
        keep: shape (n,).
    """
    densities = (source.kernel.log_p_many, source.kernel.log_q_many)
    change = np.zeros(ends.size - 1)
    for density in densities:
        log_f = np.empty(ends.size)
        density(ends, source.theta, log_f)
        with np.errstate(invalid="ignore"):
            change = np.fmax(change, np.nan_to_num(np.abs(np.diff(log_f)), nan=np.inf))
    half, middle = 0.5 * np.diff(ends)[keep], 0.5 * (ends[1:] + ends[:-1])[keep]
    share, change = half / length[keep], change[keep]
    masses = (np.zeros(half.size), np.zeros(half.size))
    left = np.ones(half.size, np.bool_)
    for order, largest, steepest in RULES:
        now = left & (share <= largest) & (change <= steepest)
        left &= ~now
        chosen = np.flatnonzero(now)
        nodes, weights = _gauss(order)
        spend(2.0 * DENSITY * order * chosen.size)
        for first in range(0, chosen.size, BLOCK):
            some = chosen[first : first + BLOCK]
            x = (middle[some, None] + half[some, None] * nodes).ravel()
            f = np.empty(x.size)
            for mass, density in zip(masses, densities, strict=True):
                density(x, source.theta, f)
                np.exp(f, out=f)
                mass[some] = (f.reshape(-1, order) @ weights) * half[some]
    return masses
