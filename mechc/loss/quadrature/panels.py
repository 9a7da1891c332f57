"""Panels in order: the first ones, their nodes, and points beyond them.

Panels stand sorted by branch and by place. All functions return new arrays, so that a copy of a
quadrature is one of references. What panels lack is found in `resolution`.

The first edges (`first_edges`) lie around the places and scales at which P and Q have their mass,
found at points in geometric distance from the ends of a branch and by climbing to modes that lie
between two of them; others by slopes on whole intervals. Adaptation cannot refine towards a mode
that no node has seen: a density of width 1 around 1e6, or next to the end of an interval of length
1e24.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from mechc.errors import NumericError
from mechc.loss.enclosure import on_boxes
from mechc.loss.quadrature.resolution import CLOSER, FINEST, LEAST_WIDTH, Panels
from mechc.loss.quadrature.rule import WEIGHTS, log_densities
from mechc.loss.running_error import FAILING
from mechc.numeric.rounding import MOST_LOG
from mechc.protocol import Floats, Integers, Kernel, of_log_concave_noise

Density = Callable[[Floats], Floats]
Waves = Sequence[tuple[float, float]]
"""Frequencies with the share of the tilted mass of a panel below which it need not resolve them."""
Climb = tuple[Floats, Floats, tuple[int, int, int]]

OUTWARD = 1.12 ** np.arange(-40.0, 60.0)  # where far modes are looked for, in lengths of a branch


def beyond(reached: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return points beyond both edges of every branch, as far as they may have mass.

    They lie at geometric distances: under sparse sampling exp(zL) outgrows p only far out, where
    the tilted density rises again, and such a mode shows by its flanks.

    Args:
        reached: from where to where the panels of each branch reach.
        rows: its ends.

    Returns:
        Points, nan beyond the ends, and their distances, shape (branches, 2, points).
    """
    gap = ((reached[:, 1] - reached[:, 0])[:, None] * OUTWARD)[:, None]
    x = reached[:, :, None] + SIDES * gap
    x[~((rows[:, :1, None] < x) & (x < rows[:, 1:2, None]))] = np.nan
    return x, np.abs(x - reached[:, :, None])


def inside(reached: Floats, rows: Floats) -> tuple[Integers, Floats, Floats]:
    """Return points inside every branch, closer and closer to those of its ends that are reached.

    Arguments as of `beyond`; returns where those beside each end begin, points, and distances.
    """
    points, gaps = [], []
    for (lo, hi), ends in zip(reached.tolist(), rows[:, :2].tolist(), strict=True):
        for edge, end, side in ((lo, ends[0], 1.0), (hi, ends[1], -1.0)):
            far = math.log(hi - lo, CLOSER) if edge == end and math.isfinite(hi - lo) else -math.inf
            closest = math.log(max(CLEAR * abs(end), LEAST_WIDTH), CLOSER)
            gaps.append(CLOSER ** np.arange(far - 1.0, closest, -1.0) if far > closest else NONE)
            points.append(end + side * gaps[-1])
    offsets = np.array([0, *accumulate(p.size for p in points)], np.int64)
    return offsets, np.concatenate(points), np.concatenate(gaps)


def waved(panels: Panels, contour: float, total: Floats, wanted: Waves) -> Integers:
    """Return into how many parts panels have to be cut so that exp(iyL) turns little in each.

    Args:
        panels: with values.
        contour: real part of the contour.
        total: log of the tilted mass, for every panel.
        wanted: as waves, parts per unit of loss in place of a frequency.
    """
    _, lo, hi, _, log_p, loss = panels
    length = np.maximum.reduce(loss, axis=1) - np.minimum.reduce(loss, axis=1)
    mass = np.exp(np.minimum(log_p + contour * loss - total[:, None], 300.0)) @ WEIGHTS
    mass *= 0.5 * (hi - lo)
    parts = np.ones(mass.size, np.int64)
    for turns, floor in wanted:
        each = np.where(mass > floor, np.minimum(length * turns, 1e6), 1.0)
        parts = np.maximum(parts, np.ceil(each).astype(np.int64))
    return parts


# distances from an end at which a scale of the density is looked for, eight a decade; then in all
# decades of doubles, one a decade
OFFSETS = 10.0 ** np.linspace(-8, 12, 161)
EVERY = 10.0 ** np.concatenate([np.arange(-307, -8), np.linspace(-8, 12, 161), np.arange(13, 308)])
AROUND = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])  # in scales; wider ones pass unresolved
# the same, of a normal law down to e^-72, and farther; panels still wider are too rough to be cut
# by losses
LADDER = np.concatenate([[-36.0, -12.0, -8.0, -6.0], AROUND, [6.0, 8.0, 12.0, 36.0]])
# from an end, of an exponential law down to less than is left out
STAIRS = np.array([6.0, 8.0, 12.0, 16.0, 20.0, 24.0, 40.0, 56.0, 80.0])
STAIRS = np.concatenate([-STAIRS[::-1], AROUND, STAIRS])
ALIKE = 100.0  # scales within this factor are found from one another by adaptation
GRADES = 4.0 ** np.arange(1, 60)  # of a short panel, on the side of a long one
DISTANCES = 10.0 ** np.linspace(-16, 12, 57)  # distances from a parameter, on both ...
LOG_DISTANCES = np.log(DISTANCES)
SIDES, NONE = np.array([[-1.0], [1.0]]), np.empty(0)  # ... sides; and no places
CLEAR = 64.0 * FINEST  # share of an end that distances from it are at least: they are rounded
COUNTED = 40.0  # nats below the largest mass of a scale down to which others count
CLIMB = np.linspace(0.0, 1.0, 17)  # places in a bracket, which is an eighth as wide then
FLAT = 4.0  # a bracket in which a log density varies by less is as wide as its mode
LEAST_MODE = -750.0  # log of a mass that no answer tells from nothing
HALVINGS, MOST_INTERVALS = 200, 4096  # of intervals, and of them at once
AT_ENDS = 4  # halvings next to an end, where points in geometric distance tell the rest
WIDER = 8.0  # times a mode, than which an interval between edges is no longer
# beyond an end, the first where logs are doubles; of what goes on past it nothing is said
OUTERMOST = 2.0 ** np.array([1000.0, 500.0, 250.0, 125.0, 62.0])
CLIMBS = 24  # brackets, the last 2^-72 as wide as the first


def first_edges(kernel: Kernel, thetas: Floats, lo: float, hi: float) -> list[Floats]:
    """Return increasing edges inside [lo, hi] of the first panels on a branch, for each law.

    Args:
        kernel: for its densities.
        thetas: parameters of every law, shape (laws, parameters).
        lo: lower end, may be -inf.
        hi: upper end, may be inf.

    Raises:
        NumericError: neither density was found anywhere.
    """
    points, places = _places(lo, hi, False)[0], _near_parameters(thetas, lo, hi)
    x = places[:, :, None, None] + SIDES * DISTANCES
    logs = np.empty((len(thetas), 2, points.size + x[0].size))
    for theta, own, out in zip(thetas, x.reshape(len(thetas), -1), logs, strict=True):
        out[:] = log_densities(kernel, theta, np.concatenate([points, own]))
    logs[np.isnan(logs)] = -np.inf
    edges = []
    for theta, some in zip(thetas, logs[:, :, : points.size], strict=True):
        edges.append(_around_modes(kernel, theta, lo, hi, some))
    size = logs[:, :, points.size :].reshape(len(thetas), 2, *x.shape[1:]) + LOG_DISTANCES
    outside = ~((lo < x) & (x < hi))
    size[:, 0][outside] = size[:, 1][outside] = -np.inf
    if of_log_concave_noise(kernel):  # the search above brackets its modes: none is on a wider one
        hidden = [list[Floats]() for _ in edges]
    else:
        hidden = [_hidden(kernel, *one, lo, hi) for one in zip(thetas, edges, strict=True)]
    found = list[Floats]()
    for known, more, modes in zip(edges, _beside(places, size, edges), hidden, strict=True):
        more += modes
        some = np.concatenate([known, *more]) if more else known
        some = _distinct(some[(lo <= some) & (some <= hi)])
        if some.size < 2:
            raise NumericError(
                f"{kernel.NAME}: no mass of P or Q was found between {lo:g} and {hi:g} at "
                f"parameters {thetas[len(found)].tolist()}"
            )
        found.append(_graded(some) if more else some)
    return found


def _around_modes(kernel: Kernel, theta: Floats, lo: float, hi: float, values: Floats) -> Floats:
    """Edges at ends, and around what both densities have at the places of a branch, in order."""
    ends, known = list(filter(math.isfinite, (lo, hi))), []
    edges = [np.array(ends)]
    if len(ends) == 2:
        edges.append(np.array([0.5 * (lo + hi)]))
        known.append(hi - lo)
    for law, logs in zip("pq", values, strict=True):
        density = _density(kernel, theta, law)
        points, nearest, scale, found = _nearest_scale(density, lo, hi, logs)
        if not np.logical_or.reduce(np.isfinite(found)):
            continue
        for other in known:
            if 1 / ALIKE < scale / other < ALIKE:
                break
        else:
            known.append(scale)
            edges.append(nearest + scale * (STAIRS if ends else LADDER))
        mode = _mode(density, points, found)
        if mode is not None:
            edges.append(mode[0] + mode[1] * AROUND)
    found = np.concatenate(edges)
    found.sort()
    return found


def _distinct(values: Floats) -> Floats:
    """Numbers in order, each once; `np.unique` takes longer for few."""
    values.sort()
    fresh = np.ones(values.size, np.bool_)
    fresh[1:] = values[1:] != values[:-1]
    return values[fresh]


def _nearest_scale(
    density: Density, lo: float, hi: float, logs: Floats
) -> tuple[Floats, float, float, Floats]:
    """Points, the end nearest to most mass, its distance, and the log density at the points.

    `logs` are those at the first points.
    """
    found = NONE, 0.0, 0.0, NONE
    for every in (False, True):  # mass may lie closer than the nearest, or farther out
        points, nearest, scales, room = _places(lo, hi, every)
        if not points.size:
            continue
        logs = density(points) if every else logs
        top = int((logs + room).argmax())
        if every and not logs[top] + room[top] > -MOST_LOG:
            break  # what falls that far from one double to the next is not resolved either
        found = points, float(nearest[top]), float(scales[top]), logs
        if OFFSETS[1] < scales[top] < OFFSETS[-2]:
            break
    return found


def _near_parameters(thetas: Floats, lo: float, hi: float) -> Floats:
    """0 and parameters of either sign on a branch, for each law; nan in place of others."""
    laws, count = thetas.shape
    places = np.zeros((laws, 1 + 2 * count))
    places[:, 1 : 1 + count], places[:, 1 + count :] = thetas, -thetas
    places.sort(axis=1)
    kept = (lo < places) & (places < hi)
    kept[:, 1:] &= places[:, 1:] != places[:, :-1]
    places[~kept] = np.nan
    return places


def _beside(places: Floats, size: Floats, edges: list[Floats]) -> list[list[Floats]]:
    """Edges around mass next to a parameter, or to 0, that panels are too long to find.

    Args:
        places: for each law.
        size: log of what P and Q have there on both sides at some distances, if it is as wide.
        edges: known, for each law.
    """
    before, middle, after = size[..., :-2], size[..., 1:-1], size[..., 2:]
    peak = (middle > before) & (middle >= after) & np.isfinite(after)  # not at an end
    most = np.maximum.reduce(size.reshape(len(size), -1), axis=1, initial=-np.inf)
    peak &= middle > (most - COUNTED)[:, None, None, None, None]
    law, _, place, side, scale = peak.nonzero()
    if not law.size:
        return [[] for _ in edges]
    width, middle = DISTANCES[1 + scale], places[law, place]
    at, found = middle + SIDES[side, 0] * width, []
    bounds = law.searchsorted(np.arange(len(edges) + 1)).tolist()
    for known, a, b in zip(edges, bounds, bounds[1:], strict=False):
        panel, ends = known.searchsorted(at[a:b]), np.concatenate([[-np.inf], known, [np.inf]])
        missed = ends[panel + 1] - ends[panel] > ALIKE * width[a:b]
        some = {*zip(middle[a:b][missed].tolist(), width[a:b][missed].tolist(), strict=True)}
        found.append([p + w * AROUND for p, w in sorted(some)])
    return found


@np.errstate(all="ignore")
def _hidden(kernel: Kernel, theta: Floats, edges: Floats, lo: float, hi: float) -> list[Floats]:
    """Edges around modes that no point has seen, by densities and their slopes on whole intervals.

    An interval is halved until a density rises or falls on all of it, has nothing there, or is
    level: there is a mode, or what looks like one.
    """
    if edges.size < 2:
        return []
    modes = list[Floats]()
    for law in "pq":
        density, found = _density(kernel, theta, law), list[tuple[float, float]]()
        ends = edges
        for end, edge, side in ((lo, edges[0], -1.0), (hi, edges[-1], 1.0)):
            at = np.clip(edge + side * OUTERMOST, lo, hi)
            known = np.append(np.isfinite(density(at[:-1])), True)
            ends = np.append(ends, at[known.argmax()]) if end != edge else ends
        ends = _distinct(ends)
        a, b = ends[:-1], ends[1:]
        for step in range(HALVINGS):
            try:
                on = on_boxes(getattr(kernel, f"log_{law}"), theta, a, b)
            except FAILING:  # the text is none that was emitted, or no interval is known
                break
            size = b - a
            some = (on.least < 0.0) & (on.most > 0.0) & (on.hi + np.log(size) > LEAST_MODE)
            level = some & (np.maximum(-on.least, on.most) * size < FLAT)
            found += zip((0.5 * (a + b))[level].tolist(), size[level].tolist(), strict=True)
            some &= ~level & (size > FINEST * (np.abs(a) + np.abs(b)))
            some &= (step < AT_ENDS) | ((a > lo) & (b < hi))
            if not some.any() or a.size > MOST_INTERVALS:
                break
            a, b = a[some], b[some]
            middle = _middle(a, b)
            a, b = np.concatenate([a, middle]), np.concatenate([middle, b])
        around = np.concatenate([[-np.inf], edges, [np.inf]])
        for place, width in found:
            panel = int(edges.searchsorted(place))
            if around[panel + 1] - around[panel] > WIDER * width:
                modes.append(place + width * AROUND)
    return modes


def _middle(a: Floats, b: Floats) -> Floats:
    """Places between ends, by ratios of distances from 0 where these are far apart."""
    big, small = np.where(np.abs(a) > np.abs(b), (a, b), (b, a))
    small = np.where(small * big > 0.0, small, np.copysign(np.minimum(1.0, np.abs(big)), big))
    far = np.abs(big) > 16.0 * np.abs(small)
    return np.where(far, np.copysign(np.sqrt(np.abs(big)) * np.sqrt(np.abs(small)), big),
                    0.5 * (a + b))  # fmt: skip


@np.errstate(over="ignore")  # a panel as long as doubles reach
def _graded(edges: Floats) -> Floats:
    """Edges between which lengths grow and fall in steps: no long panel steps over a flank."""
    graded, lengths = edges.tolist(), np.diff(edges)
    for i, length in enumerate(lengths):
        for j, end, side in ((i - 1, i, 1.0), (i + 1, i + 1, -1.0)):
            if 0 <= j < lengths.size and length > ALIKE * lengths[j]:
                parts = lengths[j] * GRADES
                graded += (edges[end] + side * parts[parts < 0.5 * length]).tolist()
    return np.unique(graded)


def _density(kernel: Kernel, theta: Floats, law: str) -> Density:
    def log_density(x: Floats) -> Floats:
        out: Floats = log_densities(kernel, theta, x, law)[0]
        out[np.isnan(out)] = -np.inf
        return out

    return log_density


@lru_cache(maxsize=64)
def _places(lo: float, hi: float, every: bool) -> tuple[Floats, Floats, Floats, Floats]:
    """Points at geometric distances from the ends, the end nearest to each, how near, log of it."""
    anchors = np.array([end for end in (lo, hi) if math.isfinite(end)] or [0.0])
    offsets = EVERY if every else OFFSETS
    points = np.concatenate([a + s * offsets for a in anchors for s in (1.0, -1.0)])
    # an offset can be below the rounding of the anchor
    points = np.unique(points[(points > lo) & (points < hi) & ~np.isin(points, anchors)])
    distance = np.abs(points[:, None] - anchors)
    nearest = distance.min(axis=1)
    return points, anchors[distance.argmin(axis=1)], nearest, np.log(nearest)


def climbed(density: Density, a: float, b: float, whole: bool = False) -> Climb:
    """Places between two, a log density there, and where its top is with both neighbours."""
    x = a + (b - a) * CLIMB
    x = np.unique(np.round(x)) if whole else x
    values = density(x)
    top = int(values.argmax())  # the first nan, if any: not known
    return x, values, (max(top - 1, 0), top, min(top + 1, x.size - 1))


def _mode(density: Density, points: Floats, values: Floats) -> tuple[float, float] | None:
    """Place and width of a mode that the points step over, None where they resolve it."""
    top = int(values.argmax())
    a, b = float(points[max(top - 1, 0)]), float(points[min(top + 1, points.size - 1)])
    for climbs in range(CLIMBS):
        x, inner, (low, top, high) = climbed(density, a, b)
        fall = float(inner[top]) - float(min(inner[low], inner[high]))  # nan: no density there
        if not fall > FLAT:
            return (float(x[top]), float(x[high] - x[low])) if climbs else None
        a, b = float(x[low]), float(x[high])
    return float(0.5 * (a + b)), b - a
