"""Panels in order: cutting them, adding some at the ends of a branch, deciding where to do so.

Panels stand sorted by branch and by place. All functions return new arrays, so that a copy of a
quadrature is one of references.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled
from mechc.loss.resolution import NEGLIGIBLE
from mechc.loss.rule import DERIVATIVE, NODES, WEIGHTS

FINEST = 4e-16  # a panel is not halved below this share of its own place


@compiled("Tuple((float64[::1], float64[::1]))(float64[:,::1], float64[:,::1], float64[::1])")
def spread(log_p, loss, half):  # type: ignore[no-untyped-def]
    """Log weights of all nodes, and the length on the loss axis that each stands for."""
    log_weight, spacing = np.empty(log_p.size), np.empty(log_p.size)
    for i in range(half.size):
        for j in range(16):
            slope = 0.0
            for m in range(16):
                slope += DERIVATIVE[j, m] * loss[i, m]
            spacing[16 * i + j] = abs(slope) * WEIGHTS[j]
            # the width of a panel can be below the smallest double
            log_weight[16 * i + j] = log_p[i, j] + math.log(half[i] * WEIGHTS[j])
    return log_weight, spacing


@compiled("float64[:,:,::1](float64[:,:,:,::1])")
def summed(report):  # type: ignore[no-untyped-def]
    """Sums over all panels of what was found on each."""
    totals = np.zeros(report.shape[1:])
    for i in range(report.shape[0]):
        totals += report[i]
    return totals


@compiled(
    "Tuple((float64, float64, float64[::1]))(float64[::1], float64[::1], float64[:,:,:,::1],"
    " float64[:,:,::1])",
)
def conclude(lo, hi, report, totals):  # type: ignore[no-untyped-def]
    """Judge panels that are to stay.

    Returns the largest share of panels whose nodes are hardly distinct doubles, the error of the
    sums as a share of the mass, and the affinity of the laws at neighbouring tilts.
    """
    tilts = totals.shape[0]
    narrow = 0.0
    affinity = np.zeros(tilts - 1)
    for i in range(lo.size):
        thin = hi[i] - lo[i] <= FINEST * max(abs(lo[i]), abs(hi[i]))
        before = 0.0
        for a in range(tilts):
            share = report[i, a, 0, 0] / totals[a, 0, 0]
            if thin:
                narrow = max(narrow, share)
            if a > 0:
                affinity[a - 1] += math.sqrt(share * before)
            before = share
    error = 0.0
    for a in range(tilts):
        error = max(error, (totals[a, 1, 1] + totals[a, 1, 2]) / totals[a, 0, 0])
    return narrow, error, affinity


@compiled(
    "Tuple((int64[::1], float64[::1], float64[::1], int64[::1]))"
    "(int64[::1], float64[::1], float64[::1], int64[::1], float64[:,::1])",
)
def lay(region, lo, hi, parts, ends):  # type: ignore[no-untyped-def]
    """Cut panel i into parts[i] equal ones and add panels out to `ends` of each branch.

    Returns region, lo and hi of the new panels, and the place each had before, -1 for a new one.
    A branch r gets a panel from its last one to ends[r, 1] if that lies beyond, likewise below.
    """
    n = region.size
    size = 2 * ends.shape[0]
    for i in range(n):
        size += parts[i]
    region1, origin = np.empty(size, np.int64), np.full(size, -1)
    lo1, hi1 = np.empty(size), np.empty(size)
    m = 0
    for i in range(n):
        r = region[i]
        if (i == 0 or region[i - 1] != r) and ends[r, 0] < lo[i]:
            region1[m], lo1[m], hi1[m] = r, ends[r, 0], lo[i]
            m += 1
        step = (hi[i] - lo[i]) / parts[i]
        for part in range(parts[i]):
            region1[m], lo1[m], hi1[m] = r, lo[i] + part * step, lo[i] + (part + 1) * step
            if parts[i] == 1:
                origin[m] = i
            m += 1
        lo1[m - parts[i]], hi1[m - 1] = lo[i], hi[i]
        if (i + 1 == n or region[i + 1] != r) and ends[r, 1] > hi[i]:
            region1[m], lo1[m], hi1[m] = r, hi[i], ends[r, 1]
            m += 1
    return region1[:m].copy(), lo1[:m].copy(), hi1[:m].copy(), origin[:m].copy()


@compiled("float64[::1](float64[::1], float64[::1], int64[::1])")
def points(lo, hi, origin):  # type: ignore[no-untyped-def]
    """Nodes of the panels that are new, in order."""
    n = 0
    for i in range(origin.size):
        n += origin[i] < 0
    x = np.empty(16 * n)
    m = 0
    for i in range(origin.size):
        if origin[i] < 0:
            for j in range(16):
                x[m] = 0.5 * (lo[i] + hi[i]) + 0.5 * (hi[i] - lo[i]) * NODES[j]
                m += 1
    return x


@compiled(
    "Tuple((float64[:,::1], float64[:,::1]))(int64[::1], float64[:,::1], float64[:,::1],"
    " float64[::1], float64[::1])",
)
def carry(origin, log_p, loss, new_log_p, new_loss):  # type: ignore[no-untyped-def]
    """Values of all panels from those known before and, in order, those at the nodes of new ones.

    Outputs where the kernel has no answer are taken out: log p = -inf, loss 0.
    """
    log_p1, loss1 = np.empty((origin.size, 16)), np.empty((origin.size, 16))
    m = 0
    for i in range(origin.size):
        known = origin[i]
        for j in range(16):
            if known >= 0:
                log_p1[i, j], loss1[i, j] = log_p[known, j], loss[known, j]
                continue
            sound = math.isfinite(new_log_p[m]) and math.isfinite(new_loss[m])
            log_p1[i, j] = new_log_p[m] if sound else -np.inf
            loss1[i, j] = new_loss[m] if sound else 0.0
            m += 1
    return log_p1, loss1


@compiled(
    "Tuple((int64[::1], float64[:,::1], b1))(int64[::1], float64[::1], float64[::1],"
    " float64[:,::1], float64[:,:,:,::1], float64[:,:,::1], float64[::1])",
)
def wanting(region, lo, hi, rows, report, totals, goal):  # type: ignore[no-untyped-def]
    """Decide which panels to halve and how far to extend the branches.

    A panel is halved if its error at some tilt exceeds the goal; a branch grows by its length at an
    end whose panel has a share that matters.

    Returns parts and ends for `lay`, and whether they change anything.
    """
    n = region.size
    parts = np.ones(n, np.int64)
    ends = np.full((rows.shape[0], 2), np.nan)
    changed = False
    first = 0
    for i in range(n):
        share = 0.0
        short = 0.0
        for a in range(report.shape[1]):
            share = max(share, report[i, a, 0, 0] / totals[a, 0, 0])
            for b in range(2):
                short = max(short, report[i, a, b, 1] / (goal[b] * totals[a, b, 0] + 1e-300))
        if short > 1.0 and hi[i] - lo[i] > FINEST * max(abs(lo[i]), abs(hi[i])):
            parts[i] = 2
            changed = True
        r = region[i]
        if i == 0 or region[i - 1] != r:
            first = i
            if share > NEGLIGIBLE and lo[i] > rows[r, 0]:
                ends[r, 0] = -np.inf
        if i + 1 == n or region[i + 1] != r:
            reach = hi[i] - lo[first]
            if ends[r, 0] == -np.inf:
                ends[r, 0] = max(rows[r, 0], lo[first] - reach)
                changed = True
            if share > NEGLIGIBLE and hi[i] < rows[r, 1]:
                ends[r, 1] = min(rows[r, 1], hi[i] + reach)
                changed = True
    return parts, ends, changed


@compiled(
    "int64[::1](float64[:,::1], float64[:,::1], float64[::1], float64, float64, float64, float64)",
)
def waves(log_p, loss, half, tilt, log_total, turns, floor):  # type: ignore[no-untyped-def]
    """Return into how many parts to cut each panel so that exp(iyL) turns little in each.

    Args:
        log_p: see the quadrature, as for loss and half.
        loss: see there.
        half: see there.
        tilt: real part of the contour.
        log_total: log of M(tilt).
        turns: parts per unit of loss.
        floor: share of the tilted mass below which a panel need not be cut.
    """
    parts = np.ones(half.size, np.int64)
    for i in range(half.size):
        lowest, highest, mass = np.inf, -np.inf, 0.0
        for j in range(16):
            lowest, highest = min(lowest, loss[i, j]), max(highest, loss[i, j])
            mass += WEIGHTS[j] * math.exp(min(log_p[i, j] + tilt * loss[i, j] - log_total, 300.0))
        wanted = (highest - lowest) * turns
        if wanted > 1.0 and mass * half[i] > floor:
            parts[i] = math.ceil(min(wanted, 1e6))
    return parts
