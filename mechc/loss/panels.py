"""Panels in order: cutting them, adding some at the ends of a branch, deciding where to do so.

Panels stand sorted by branch and by place. All functions return new arrays, so that a copy of a
quadrature is one of references.

The rounds in which panels settle, compiled: what Python adds to a round is the kernel's calls.

`measure` judges all panels at new tilts; then, in turns, `look` decides which panels to cut and
where to grow, and lays them, and `take` judges those that are new. Where nothing is lacking,
`hidden` looks for modes that no node has seen, and `finish` judges what stays.

Where to look first: the edges of the first panels on one branch.

In: a kernel, its parameters and an interval of outputs. Out: a few edges around the places and
scales at which P and Q have their mass, found at points in geometric distance from the ends and by
climbing to modes that lie between two of them. Adaptation does the rest, but it cannot refine
towards a mode that no node has seen: a density of width 1 around 1e6, or next to the end of an
interval of length 1e24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.jit import compiled
from mechc.loss.resolution import NEGLIGIBLE, judge, log_totals, misplaced, missed, summits
from mechc.loss.rule import DERIVATIVE, NODES, WEIGHTS
from mechc.protocol import Kernel

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


DRIFT = 1e13  # factor by which a total may leave its unit before the units are set anew
MAX_PANELS = 60_000
OUTWARD = 1.12 ** np.arange(-12.0, 60.0)  # where far modes are looked for, in lengths of a branch
GRAIN = 1e-11  # width, as a share of its place, of a panel too narrow to hide a mode

# verdicts
RESOLVED = 0
CHANGED = 1  # new panels are laid
DRIFTED = 2  # the units have to be set anew
ENDLESS = 3  # a tail still matters at the end of all numbers
CROWDED = 4  # more panels than allowed

_NEXT = "int64[::1], float64[::1], float64[::1], int64[::1], float64[::1]"


@compiled(
    "Tuple((float64[::1], float64[:,:,:,::1]))(float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1], float64[::1])",
)
def measure(lo, hi, log_p, loss, tilts):  # type: ignore[no-untyped-def]
    """Return the log of a unit for each tilt, and all panels judged in these units."""
    half = 0.5 * (hi - lo)
    unit = log_totals(log_p, loss, half, tilts)
    new, known = np.full(lo.size, -1), np.empty((0, tilts.size, 2, 3))
    place = np.maximum(np.abs(lo), np.abs(hi))
    return unit, judge(log_p, loss, half, place, tilts, unit, new, known)


@compiled(
    "Tuple((float64[:,::1], float64[:,::1], float64[:,:,:,::1]))(int64[::1], float64[::1],"
    " float64[::1], float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], float64[:,:,:,::1])",
)
def take(origin, lo, hi, log_p, loss, new_log_p, new_loss, tilts, unit, report):  # type: ignore
    """Return log p, loss and report of the panels laid, given the values at the nodes of new ones.

    `origin` says where each panel stood in `log_p`, `loss` and `report`, -1 for a new one.
    """
    log_p1, loss1 = carry(origin, log_p, loss, new_log_p, new_loss)
    place = np.maximum(np.abs(lo), np.abs(hi))
    half = 0.5 * (hi - lo)
    return log_p1, loss1, judge(log_p1, loss1, half, place, tilts, unit, origin, report)


@compiled(
    f"Tuple((int64, {_NEXT}))(b1, int64[::1], float64[::1], float64[::1], int64[::1],"
    " float64[:,::1])",
)
def relaid(changed, region, lo, hi, parts, ends):  # type: ignore[no-untyped-def]
    """Cut and extend as told, see `mosaic.lay`; return a verdict, and the nodes of new panels."""
    verdict = CHANGED if changed else RESOLVED
    for i in range(ends.shape[0]):
        if math.isinf(ends[i, 0]) or math.isinf(ends[i, 1]):
            verdict = ENDLESS
    if parts.sum() > MAX_PANELS:
        verdict = CROWDED
    if verdict != CHANGED:
        return verdict, region, lo, hi, np.empty(0, np.int64), np.empty(0)
    region1, lo1, hi1, origin = lay(region, lo, hi, parts, ends)
    return verdict, region1, lo1, hi1, origin, points(lo1, hi1, origin)


@compiled(
    f"Tuple((int64, float64[::1], {_NEXT}))(int64[::1], float64[::1], float64[::1],"
    " float64[:,::1], float64[:,:,:,::1], float64[::1], float64[::1])",
)
def look(region, lo, hi, rows, report, unit, goal):  # type: ignore[no-untyped-def]
    """Decide what the panels lack, see `mosaic.wanting`.

    Returns a verdict, the log totals at the tilts, and what `relaid` returns.
    """
    totals = summed(report)
    logs = unit + np.log(totals[:, 0, 0])
    for a in range(unit.size):
        if not 1.0 / DRIFT < totals[a, 0, 0] < DRIFT:
            return DRIFTED, logs, region, lo, hi, np.empty(0, np.int64), np.empty(0)
    parts, ends, changed = wanting(region, lo, hi, rows, report, totals, goal)
    verdict, region, lo, hi, origin, x = relaid(changed, region, lo, hi, parts, ends)
    return verdict, logs, region, lo, hi, origin, x


@compiled("float64[:,::1](int64[::1], float64[::1], float64[::1], int64)")
def extent(region, lo, hi, branches):  # type: ignore[no-untyped-def]
    """Return from where to where the panels of each branch reach; nan where there are none."""
    out = np.full((branches, 2), np.nan)
    for i in range(region.size):
        if i == 0 or region[i - 1] != region[i]:
            out[region[i], 0] = lo[i]
        out[region[i], 1] = hi[i]
    return out


@compiled("Tuple((int64[::1], float64[::1]))(float64[:,::1], float64[:,::1])")
def beyond(reached, rows):  # type: ignore[no-untyped-def]
    """Return points beyond both edges of every branch, and where those of each edge begin.

    They lie at geometric distances: under sparse sampling exp(zL) outgrows p only far out, where
    the tilted density rises again, and such a mode shows by its flanks.
    """
    offsets = np.zeros(2 * rows.shape[0] + 1, np.int64)
    x = np.empty(2 * rows.shape[0] * OUTWARD.size)
    n = 0
    for r in range(rows.shape[0]):
        length = reached[r, 1] - reached[r, 0]
        for side in range(2):
            edge, end = reached[r, side], rows[r, side]
            if length == length and edge != end:
                for distance in OUTWARD:
                    at = edge + length * distance if side else edge - length * distance
                    if not math.isinf(end) and not (at < end if side else at > end):
                        break
                    x[n] = at
                    n += 1
            offsets[2 * r + side + 1] = n
    return offsets, x[:n].copy()


@compiled(
    f"Tuple((int64, {_NEXT}))(int64[::1], float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1], int64[::1], float64[::1], float64[::1],"
    " float64[::1])",
)
def hidden(region, lo, hi, log_p, loss, tilts, logs, offsets, far, far_log_p, far_loss):  # type: ignore
    """Look for modes that no node has seen: beyond the panels, then between the nodes.

    `offsets` says where in `far` the points beyond each edge begin, see `beyond`, and the log
    density and the loss there follow; `logs` are the log totals at the tilts.

    Returns a verdict and what `relaid` returns.
    """
    n = region.size
    parts = np.ones(n, np.int64)
    ends = np.full(((offsets.size - 1) // 2, 2), np.nan)
    found = False
    reached = extent(region, lo, hi, ends.shape[0])
    for r in range(ends.shape[0]):
        for side in range(2):
            a, b = offsets[2 * r + side], offsets[2 * r + side + 1]
            edge = reached[r, side]
            at = missed(far[a:b], far_log_p[a:b], far_loss[a:b], edge, tilts, logs)
            if at >= 0:
                ends[r, side] = far[a + min(at + 1, b - a - 1)]
                found = True
    if not found:
        x = points(lo, hi, np.full(n, -1))
        flagged = summits(x, log_p, loss, region, tilts, logs)
        for i in range(n):
            # the rounding of x and of the loss looks like summits too, and is never resolved
            if flagged[i] and hi[i] - lo[i] > GRAIN * max(abs(lo[i]), abs(hi[i])):
                parts[i] = 2
                found = True
    return relaid(found, region, lo, hi, parts, ends)


@compiled(
    f"Tuple((int64, {_NEXT}))(int64[::1], float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1], float64, float64, float64, int64)",
)
def waved(region, lo, hi, log_p, loss, contour, turns, floor, branches):  # type: ignore
    """Cut panels so that a wave turns little in each, see `mosaic.waves`."""
    half = 0.5 * (hi - lo)
    total = log_totals(log_p, loss, half, np.array([contour]))
    parts = waves(log_p, loss, half, contour, total[0], turns, floor)
    ends = np.full((branches, 2), np.nan)
    return relaid(parts.sum() > parts.size, region, lo, hi, parts, ends)


@compiled(
    "Tuple((float64, float64, float64[::1]))(float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1], float64[:,:,:,::1])",
)
def finish(lo, hi, log_p, loss, tilts, logs, report):  # type: ignore[no-untyped-def]
    """Judge panels that are to stay, see `mosaic.conclude`; misplaced nodes are in the error."""
    narrow, error, affinity = conclude(lo, hi, report, summed(report))
    place = np.maximum(np.abs(lo), np.abs(hi))
    error += misplaced(log_p, loss, 0.5 * (hi - lo), place, tilts, logs)
    return narrow, error, affinity


Floats = NDArray[np.float64]
Density = Callable[[Floats], Floats]

OFFSETS = 10.0 ** np.linspace(-8, 12, 41)
AROUND = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
ALIKE = 100.0  # scales within this factor are found from one another by adaptation
CLIMB = np.linspace(0.0, 1.0, 17)
FLAT = 4.0  # a bracket in which a log density varies by less is as wide as its mode
CLIMBS = 24


def first_edges(kernel: Kernel, theta: Floats, lo: float, hi: float) -> Floats:
    """Return increasing edges inside [lo, hi] of the first panels on a branch.

    Args:
        kernel: for its densities.
        theta: parameters, shape (parameters,).
        lo: lower end, may be -inf.
        hi: upper end, may be inf.

    Raises:
        NumericError: neither density was found anywhere.
    """
    points, nearest, scales, log_scales = _places(lo, hi)
    ends = [end for end in (lo, hi) if math.isfinite(end)]
    edges = [np.array(ends)]
    if math.isfinite(lo) and math.isfinite(hi):
        edges.append(np.array([0.5 * (lo + hi)]))
    known: list[float] = [hi - lo] if len(ends) == 2 else []
    for many in (kernel.log_p_many, kernel.log_q_many):
        density = _density(many, theta)
        values = density(points)
        if not np.isfinite(values).any():
            continue
        best = int(np.argmax(values + log_scales))
        place, scale = float(nearest[best]), float(scales[best])
        if not any(1 / ALIKE < scale / other < ALIKE for other in known):
            known.append(scale)
            edges.append(place + scale * AROUND)
        mode = _mode(density, points, values)
        if mode is not None:
            edges.append(mode[0] + mode[1] * AROUND)
    found = sorted({e for some in edges for e in some.tolist() if lo <= e <= hi})
    if len(found) < 2:
        raise NumericError(
            f"{kernel.NAME}: no mass of P or Q was found between {lo:g} and {hi:g} at parameters "
            f"{theta.tolist()}"
        )
    return np.array(found)


def _density(many: Callable[..., None], theta: Floats) -> Density:
    def log_density(x: Floats) -> Floats:
        out = np.empty(x.size)
        many(np.ascontiguousarray(x), theta, out)
        out[np.isnan(out)] = -np.inf
        return out

    return log_density


@lru_cache(maxsize=64)
def _places(lo: float, hi: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Points at geometric distances from the ends, the end nearest to each, how near, log of it."""
    anchors = np.array([end for end in (lo, hi) if math.isfinite(end)] or [0.0])
    points = np.concatenate([a + s * OFFSETS for a in anchors for s in (1.0, -1.0)])
    # an offset can be below the rounding of the anchor
    points = np.unique(points[(points > lo) & (points < hi) & ~np.isin(points, anchors)])
    distance = np.abs(points[:, None] - anchors)
    nearest = distance.min(axis=1)
    return points, anchors[distance.argmin(axis=1)], nearest, np.log(nearest)


def _mode(density: Density, points: Floats, values: Floats) -> tuple[float, float] | None:
    """Place and width of a mode that the points step over, None where they resolve it."""
    top = int(np.argmax(values))
    a, b = float(points[max(top - 1, 0)]), float(points[min(top + 1, points.size - 1)])
    for climbs in range(CLIMBS):
        x = a + (b - a) * CLIMB
        inner = density(x)
        top = int(np.argmax(inner))
        low, high = max(top - 1, 0), min(top + 1, x.size - 1)
        fall = inner[top] - min(inner[low], inner[high])
        if not fall > FLAT:
            return (float(x[top]), float(x[high] - x[low])) if climbs else None
        a, b = float(x[low]), float(x[high])
    return float(0.5 * (a + b)), b - a
