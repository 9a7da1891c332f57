"""The rounds in which panels settle, compiled: what Python adds to a round is the kernel's calls.

`measure` judges all panels at new tilts; then, in turns, `look` decides which panels to cut and
where to grow, and lays them, and `take` judges those that are new. Where nothing is lacking,
`hidden` looks for modes that no node has seen, and `finish` judges what stays.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled
from mechc.loss.mosaic import carry, conclude, lay, points, summed, wanting, waves
from mechc.loss.resolution import judge, log_totals, misplaced, missed, summits

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
