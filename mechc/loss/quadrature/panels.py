"""Panels in order: the first ones, cutting them, adding some, the rounds in which they settle.

Panels stand sorted by branch and by place. All functions return new arrays, so that a copy of a
quadrature is one of references; none waits for a compiler, since a round works on whole arrays.
`measure` judges all panels at new tilts; then, in turns, `look` decides which panels to cut and
where to grow, and lays them, and `take` judges those that are new. Where nothing is lacking,
`hidden` looks for modes that no node has seen, and `finish` judges what stays.

The first edges (`first_edges`) lie around the places and scales at which P and Q have their mass,
found at points in geometric distance from the ends of a branch and by climbing to modes that lie
between two of them. Adaptation cannot refine towards a mode that no node has seen: a density of
width 1 around 1e6, or next to the end of an interval of length 1e24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.quadrature.resolution import (
    NEGLIGIBLE,
    SILENT,
    judge,
    log_totals,
    misplaced,
    missed,
    shares,
    summits,
)
from mechc.loss.rule import DERIVATIVE, NODES, ORDER, WEIGHTS
from mechc.protocol import Kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Density = Callable[[Floats], Floats]

FINEST = 4e-16  # a panel is not halved below this share of its own place
DRIFT = 1e13  # factor by which a total may leave its unit before the units are set anew
MAX_PANELS = 60_000
OUTWARD = 1.12 ** np.arange(-12.0, 60.0)  # where far modes are looked for, in lengths of a branch
DOUBLINGS = np.exp2(np.arange(1.0, 9.0)) - 1.0  # of a branch at once, where a tail falls slowly
GRAIN = 1e-11  # width, as a share of its place, of a panel too narrow to hide a mode


class Verdict(Enum):
    """What a round found."""

    RESOLVED = "nothing is lacking"
    CHANGED = "new panels are laid"
    DRIFTED = "the units have to be set anew"
    ENDLESS = "a tail still matters at the end of all numbers"
    CROWDED = "more panels than allowed"


class Panels(NamedTuple):
    """Panels laid, and where each stood before.

    Attributes:
        region: the branch of each panel, shape (panels,).
        lo: their lower ends.
        hi: their upper ends.
        origin: the place that each had before, -1 for a new one.
    """

    region: Integers
    lo: Floats
    hi: Floats
    origin: Integers

    @property
    def x(self) -> Floats:
        """Nodes of the panels that are new, in order."""
        new = self.origin < 0
        return nodes(self.lo[new], self.hi[new]).ravel()


def nodes(lo: Floats, hi: Floats) -> Floats:
    """Nodes of panels, shape (panels, 16)."""
    x: Floats = (0.5 * (lo + hi))[:, None] + (0.5 * (hi - lo))[:, None] * NODES
    return x


@SILENT
def spread(log_p: Floats, loss: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Log weights of all nodes, and the length on the loss axis that each stands for."""
    spacing = np.abs(loss @ DERIVATIVE.T) * WEIGHTS
    # the width of a panel can be below the smallest double
    return (log_p + np.log(half[:, None] * WEIGHTS)).ravel(), spacing.ravel()


def _ends_of_branches(region: Integers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether a panel is the first of its branch, and whether it is the last."""
    turns = region[1:] != region[:-1]
    return np.append(True, turns), np.append(turns, True)


def lay(
    region: Integers, lo: Floats, hi: Floats, parts: Integers, outer: list[tuple[int, Floats]]
) -> Panels:
    """Cut panel i into parts[i] equal ones and add panels between increasing edges of branches."""
    panel = np.arange(region.size).repeat(parts)
    part = np.arange(panel.size) - (parts.cumsum() - parts)[panel]
    of, start, end = parts[panel], lo[panel], hi[panel]
    step = (end - start) / of
    origin = np.where(of == 1, panel, -1)
    start, end = (
        np.where(part > 0, start + part * step, start),
        np.where(part + 1 < of, start + (part + 1) * step, end),
    )
    branch = region[panel]
    if outer:
        new = np.concatenate([np.full(edges.size - 1, r) for r, edges in outer])
        branch = np.append(branch, new)
        start = np.concatenate([start, *(edges[:-1] for _, edges in outer)])
        end = np.concatenate([end, *(edges[1:] for _, edges in outer)])
        order = np.lexsort((start, branch))
        branch, start, end = branch[order], start[order], end[order]
        origin = np.append(origin, np.full(new.size, -1))[order]
    return Panels(branch, start, end, origin)


def carry(
    origin: Integers, log_p: Floats, loss: Floats, new_log_p: Floats, new_loss: Floats
) -> tuple[Floats, Floats]:
    """Values of all panels from those known before and, in order, those at the nodes of new ones.

    Outputs where the kernel has no answer are taken out: log p = -inf, loss 0.
    """
    sound = np.isfinite(new_log_p) & np.isfinite(new_loss)
    new = np.where(sound, new_log_p, -np.inf), np.where(sound, new_loss, 0.0)
    return (
        _mended(origin, log_p, new[0].reshape(-1, ORDER)),
        _mended(origin, loss, new[1].reshape(-1, ORDER)),
    )


def _mended(origin: Integers, known: Floats, new: Floats) -> Floats:
    """What is known of panels that were there, and what is new of the others."""
    kept = origin >= 0
    out = np.empty((origin.size, *new.shape[1:]))
    out[kept], out[~kept] = known[origin[kept]], new
    return out


@SILENT
def _wanting(
    region: Integers, lo: Floats, hi: Floats, rows: Floats, report: Floats, totals: Floats,
    goal: Floats,
) -> tuple[Integers, list[tuple[int, Floats]]]:
    """Decide which panels to cut and how far to extend the branches, as `lay` takes it.

    A panel is halved if its error at some tilt exceeds the goal; a branch grows at an end whose
    panel has a share that matters.
    """
    share, short = shares(report, totals, goal)
    short[hi - lo <= FINEST * np.maximum(np.abs(lo), np.abs(hi))] = 0.0
    parts = 1 + (short > 1.0)
    outer = []
    first, last = (np.flatnonzero(end) for end in _ends_of_branches(region))
    for i, j, r in zip(first.tolist(), last.tolist(), region[first].tolist(), strict=True):
        reach, (least, most) = hi[j] - lo[i], rows[r, :2]
        if share[i] > NEGLIGIBLE and lo[i] > least:
            steps = _outward(reach, hi[i] - lo[i], share[i], share[min(i + 1, j)])
            outer.append((r, _edges(lo[i], -steps, least)[::-1]))
        if share[j] > NEGLIGIBLE and hi[j] < most:
            steps = _outward(reach, hi[j] - lo[j], share[j], share[max(j - 1, i)])
            outer.append((r, _edges(hi[j], steps, most)))
    return parts, outer


def _outward(reach: float, last: float, share: float, before: float) -> Floats:
    """How far out to lay panels, each as long as all before, if their shares go on falling so."""
    grown = last > 0.4 * reach and share < before  # laid so, and out in the tail
    falls = math.log(NEGLIGIBLE / share) / math.log(share / before) if grown else 1.0
    steps: Floats = reach * DOUBLINGS[: max(1, math.ceil(min(falls, DOUBLINGS.size)))]
    return steps


def _edges(edge: float, steps: Floats, limit: float) -> Floats:
    """Edges from the end of a branch outwards, to its limit at most."""
    out = edge + steps
    if math.isfinite(limit):
        inside = out[np.abs(steps) < abs(limit - edge)]
        return np.array([edge, *inside, *([limit] if inside.size < out.size else [])])
    inside = out[np.isfinite(out)]
    return np.array([edge, *(inside if inside.size else out[:1])])


def measure(
    lo: Floats, hi: Floats, log_p: Floats, loss: Floats, tilts: Floats
) -> tuple[Floats, Floats]:
    """Return the log of a unit for each tilt, and all panels judged in these units."""
    half = 0.5 * (hi - lo)
    unit = log_totals(log_p, loss, half, tilts)
    return unit, judge(log_p, loss, lo, hi, tilts, unit)


def take(
    laid: Panels, log_p: Floats, loss: Floats, new_log_p: Floats, new_loss: Floats, tilts: Floats,
    unit: Floats, report: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return log p, loss and report of the panels laid, given the values at the nodes of new ones.

    `laid.origin` says where each panel stood in `log_p`, `loss` and `report`.
    """
    log_p, loss = carry(laid.origin, log_p, loss, new_log_p, new_loss)
    new = laid.origin < 0
    judged = judge(log_p[new], loss[new], laid.lo[new], laid.hi[new], tilts, unit)
    return log_p, loss, _mended(laid.origin, report, judged)


def relaid(
    region: Integers, lo: Floats, hi: Floats, parts: Integers, outer: list[tuple[int, Floats]]
) -> tuple[Verdict, Panels | None]:
    """Cut and extend as told, see `lay`; return a verdict, and the panels if there are new ones."""
    if any(np.isinf(edges).any() for _, edges in outer):
        return Verdict.ENDLESS, None
    wanted = parts.sum()
    if wanted > MAX_PANELS:
        return Verdict.CROWDED, None
    if not outer and wanted == parts.size:
        return Verdict.RESOLVED, None
    return Verdict.CHANGED, lay(region, lo, hi, parts, outer)


def look(
    region: Integers, lo: Floats, hi: Floats, rows: Floats, report: Floats, unit: Floats,
    goal: Floats,
) -> tuple[Verdict, Floats, Panels | None]:
    """Decide what the panels lack.

    Returns a verdict, the log totals at the tilts, and the panels laid.
    """
    totals = report.sum(axis=0)
    size = totals[:, 0, 0]
    if not ((size > 1.0 / DRIFT) & (size < DRIFT)).all():
        return Verdict.DRIFTED, unit, None
    verdict, laid = relaid(
        region, lo, hi, *_wanting(region, lo, hi, rows, report, totals, goal)
    )
    return verdict, unit + np.log(size), laid


def extent(region: Integers, lo: Floats, hi: Floats, branches: int) -> Floats:
    """Return from where to where the panels of each branch reach; nan where there are none."""
    out = np.full((branches, 2), np.nan)
    first, last = _ends_of_branches(region)
    out[region[first], 0], out[region[last], 1] = lo[first], hi[last]
    return out


def beyond(reached: Floats, rows: Floats) -> tuple[Integers, Floats]:
    """Return points beyond both edges of every branch, and where those of each edge begin.

    They lie at geometric distances: under sparse sampling exp(zL) outgrows p only far out, where
    the tilted density rises again, and such a mode shows by its flanks.
    """
    found = []
    for (lo, hi), (least, most) in zip(reached, rows[:, :2], strict=True):
        offsets = (hi - lo) * OUTWARD
        below, above = lo - offsets, hi + offsets
        found += [below[below > least], above[above < most]]
    sizes = [points.size for points in found]
    return np.cumsum([0, *sizes]), np.concatenate(found)


def hidden(
    region: Integers, lo: Floats, hi: Floats, log_p: Floats, loss: Floats, tilts: Floats,
    logs: Floats, offsets: Integers, far: Floats, far_log_p: Floats, far_loss: Floats,
) -> tuple[Verdict, Panels | None]:
    """Look for modes that no node has seen: beyond the panels, then between the nodes.

    `offsets` says where in `far` the points beyond each edge begin, see `beyond`, and the log
    density and the loss there follow; `logs` are the log totals at the tilts.

    Returns a verdict and the panels laid.
    """
    parts = np.ones(region.size, np.int64)
    outer = []
    reached = extent(region, lo, hi, (offsets.size - 1) // 2).ravel()
    for k, edge in enumerate(reached):
        a, b = offsets[k], offsets[k + 1]
        at = missed(far[a:b], far_log_p[a:b], far_loss[a:b], edge, tilts, logs)
        if at >= 0:
            end = far[a + min(at + 1, b - a - 1)]
            outer.append((k // 2, np.array([edge, end] if k % 2 else [end, edge])))
    if not outer:
        flagged = summits(nodes(lo, hi), log_p, loss, region, tilts, logs)
        # the rounding of x and of the loss looks like summits too, and is never resolved
        flagged &= hi - lo > GRAIN * np.maximum(np.abs(lo), np.abs(hi))
        parts[flagged] = 2
    return relaid(region, lo, hi, parts, outer)


@SILENT
def waved(
    region: Integers, lo: Floats, hi: Floats, log_p: Floats, loss: Floats, contour: float,
    turns: float, floor: float,
) -> tuple[Verdict, Panels | None]:
    """Cut panels so that exp(iyL) turns little in each.

    Args:
        region: the branch of each panel.
        lo: their lower ends.
        hi: their upper ends.
        log_p: log density at the nodes, shape (panels, 16).
        loss: the loss there.
        contour: real part of the contour.
        turns: parts per unit of loss.
        floor: share of the tilted mass below which a panel need not be cut.
    """
    half = 0.5 * (hi - lo)
    total = log_totals(log_p, loss, half, np.array([contour]))
    mass = half * (np.exp(np.minimum(log_p + contour * loss - total, 300.0)) @ WEIGHTS)
    wanted = (loss.max(axis=1) - loss.min(axis=1)) * turns
    parts = np.where((wanted > 1.0) & (mass > floor), np.ceil(np.minimum(wanted, 1e6)), 1.0)
    return relaid(region, lo, hi, parts.astype(np.int64), [])


@SILENT
def finish(
    lo: Floats, hi: Floats, log_p: Floats, loss: Floats, tilts: Floats, logs: Floats, report: Floats
) -> tuple[float, float, Floats]:
    """Judge panels that are to stay.

    Returns the largest share of panels whose nodes are hardly distinct doubles, the error of the
    sums as a share of the mass, misplaced nodes included, and the affinity of the laws at
    neighbouring tilts.
    """
    totals = report.sum(axis=0)
    share = report[:, :, 0, 0] / totals[:, 0, 0]
    affinity = np.sqrt(share[:, 1:] * share[:, :-1]).sum(axis=0)
    place = np.maximum(np.abs(lo), np.abs(hi))
    thin = hi - lo <= FINEST * place
    error = ((totals[:, 1, 1] + totals[:, 1, 2]) / totals[:, 0, 0]).max()
    error += misplaced(log_p, loss, 0.5 * (hi - lo), place, tilts, logs)
    return float(share[thin].max(initial=0.0)), float(error), affinity


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
