"""What panels lack: their share of the tilted sums, and their error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every
tilt, and says which panels to cut; `grow` where branches end too early; where nothing is
lacking, `far_modes`, `near_ends` and `summits` look for modes that no node has seen, and `finish`
judges what stays. Compiled is what looks at every node by itself: a driver costs numba as much as
all that it calls.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mechc.loss.moments import LEAST, excess, exponentials, sum_tilted
from mechc.loss.quadrature.rule import NODES, ORDER, PROBE, WEIGHTS
from mechc.numeric.jit import compiled
from mechc.numeric.rounding import EPS, U
from mechc.protocol import Floats, Integers

Edges = dict[
    tuple[int, int], list[float]
]  # outwards from the lower (0) or upper (1) end of a branch

NEGLIGIBLE = 1e-24  # share of the tilted total that may be left out
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)
CLIFF = 20.0  # nats by which the integrand may fall between neighbouring nodes that matter
ROUNDING = 1.5 * U  # of a node, as a share of the far end of its panel
FINE = 1e-4  # half width, as a share of its place, of a panel whose nodes are rounded noticeably
NOTHING = -100.0  # log of a share that is not worth an exponential
FAINT = 1e-40  # a sum, as a share of the total, whose error is of no interest
FINEST, LEAST_WIDTH = 4e-16, 1e-300  # a panel is not halved below this share of its place, or this
DRIFT = 1e13  # factor by which a total may leave its unit before the units are set anew
MAX_PANELS = 60_000
DOUBLINGS = 8  # of a branch at once, where a tail falls slowly
MOST_NARROW = 1e-3  # share of the mass that panels too narrow for doubles may carry
LOG_WEIGHTS = np.log(WEIGHTS)
FAR_SHORT = 1e7  # errors of a panel, in goals, beyond which its halves would be short too
MOST_PARTS = 4  # of such a panel
CLOSER, STEPS = 4.0, 4  # factor by which the next panel is closer to an end, how often for a part
RISE = 1e-6  # nats from one point to the next, closer to an end: there is a mode
FIRST_NODE = float(0.5 * (1.0 + NODES[0]))  # of a panel, as a share of its width
GRAIN = 1e-11  # width, as a share of its place, of a panel too narrow to hide a mode
SILENT = np.errstate(all="ignore")  # densities may be zero, and scales far apart


class Panels(NamedTuple):
    """Branch, ends, nodes, and log density and loss there, of panels in order."""

    region: Integers
    lo: Floats
    hi: Floats
    x: Floats
    log_p: Floats
    loss: Floats


class Far(NamedTuple):
    """Points beside ends that may have mass; see `panels.beyond` and `panels.inside`.

    Attributes:
        reached: from where to where panels of each branch reached when they were looked at.
        offsets: where those beside each end begin.
        x: these points.
        gap: their distances from the panels, or from ends that are reached.
        log_size: log of the density times that distance.
        loss: the loss there.
    """

    reached: Floats
    offsets: Integers
    x: Floats
    gap: Floats
    log_size: Floats
    loss: Floats


def log_weights(lo: Floats, hi: Floats, log_p: Floats) -> Floats:
    """Log weights of all nodes; a panel may be narrower than twice the smallest double."""
    out: Floats = np.add.outer(np.log(0.5 * (hi - lo)), LOG_WEIGHTS)
    out += log_p
    return out.ravel()


def log_totals(log_weight: Floats, loss: Floats, tilts: Floats) -> Floats:
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    out, work = np.empty((tilts.size, 1, 4)), np.empty((2, loss.size))
    everywhere = np.array([0, loss.size])
    sum_tilted(everywhere, loss.ravel(), log_weight, tilts, work, out)
    return out[:, 0, 0]


@compiled(
    "int64(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[::1], float64[::1],"
    " float64[::1], float64[:,::1], float64[:,:,:,::1], float64[:,::1], float64[::1], int64[::1])"
)
def _judge(  # type: ignore[no-untyped-def]
    lo, hi, log_p, loss, tilts, log_total, goal, work, out, totals, share, parts
):
    """Say of each panel what share of the sums it has, and into how many parts it is to be cut.

    Writes to `out`, of panels of which that says -1, per tilt and integrand three numbers: the sum
    of absolute values, its estimated error, and its displacement, in units of exp(log_total): what
    the rounding of nodes may change, at most its size times the total variation. Integrand 0 is
    p exp(zL), judged by its top coefficients alone, for the mass; integrand 1 is the deviation from
    the chord, or, where M(z) is far below M(0) and M(-1), p exp(zL) again. Nodes are rounded to an
    ulp of the larger of |lo| and |hi|, which moves log p and the loss by that share of their change
    over the panel. The first number, summed over the panels, goes to `totals`, and the largest
    share of each panel at any tilt to `share`. A panel is cut if its error at some tilt exceeds the
    goal, which is one for each integrand, as a share of the total.

    `work` is room for the values at the nodes of a panel, shape (4, 16). Returns how many panels
    there will be; 0 where sums have left their units, which have to be set anew.
    """
    p, back, top, plain = work[0], work[1], work[2], work[3]
    for i in range(lo.size):
        if out[i, 0, 0, 0] >= 0.0:
            continue
        for a in range(tilts.size):
            for b in range(2):
                out[i, a, b, 0] = out[i, a, b, 1] = out[i, a, b, 2] = 0.0
        half, place = 0.5 * (hi[i] - lo[i]), max(abs(lo[i]), abs(hi[i]))
        # how far the rounding of nodes moves log p and the loss
        highest = deepest = shallowest = -math.inf
        least, most = loss[i, 0], loss[i, 0]
        for j in range(ORDER):
            at, gain = log_p[i, j], loss[i, j]
            least, most = min(least, gain), max(most, gain)
            shallowest = max(shallowest, at)
            if at > -math.inf:
                deepest = max(deepest, -at)
            p[j] = math.exp(at) if at > LEAST else 0.0
            # exp(-L) - 1 + L times p, or what is left of it where the first term alone counts
            back[j] = p[j] * excess(-gain) if gain > -600.0 else math.exp(max(at - gain, LEAST))
            highest = max(highest, at, at - gain)
        by = 0.25 * place / half
        moved_p, moved_loss = by * max(shallowest + deepest, 0.0), by * (most - least)
        for a in range(tilts.size):
            z, total = tilts[a], log_total[a]
            # P and Q nearly disjoint: M(z) is no small change of M(0) but far below it
            apart = total < -1.0
            peak = -math.inf if apart else highest + math.log1p(abs(z))
            for j in range(ORDER):
                top[j] = log_p[i, j] + z * loss[i, j]
                peak = max(peak, top[j])
            if not peak + math.log(half) - total > NOTHING:
                continue
            unit = math.exp(-total)
            for j in range(ORDER):
                top[j] -= total
            exponentials(top, plain)
            for b in range(2):
                chord = b == 1 and not apart
                noise, size, turned, before = 0.0, 0.0, 0.0, 0.0
                c0 = c1 = c2 = c3 = 0.0
                for j in range(ORDER):
                    turn = z * loss[i, j]
                    f = plain[j] if top[j] > LEAST else 0.0
                    lost = f
                    if chord:
                        at = p[j] * unit
                        if abs(turn) < 0.5:
                            f = at * excess(turn)
                            lost = 0.0
                        else:
                            f -= at * (1.0 + turn)
                            lost += at * (1.0 + abs(turn))
                        f += z * (back[j] * unit)
                        if z == 0.0 or z == -1.0:
                            f = 0.0  # known masses, nothing to resolve
                    if j > 0:
                        turned += abs(f - before)
                    before = f
                    ulps = abs(log_p[i, j]) + abs(turn) + moved_p + abs(z) * moved_loss + 2.0
                    noise = max(noise, ulps * max(abs(f), lost))
                    size += WEIGHTS[j] * abs(f)
                    c0 += PROBE[0, j] * f
                    c1 += PROBE[1, j] * f
                    c2 += PROBE[2, j] * f
                    c3 += PROBE[3, j] * f
                out[i, a, b, 0] = half * size
                if size * half < FAINT:
                    continue
                out[i, a, b, 2] = ROUNDING * place * turned
                # what rounding leaves in a coefficient is not a lack of resolution
                high = max(abs(c0), abs(c1)) - 4e-15 * noise
                if high > 0.0:
                    ratio = high / max(abs(c2), abs(c3), high)
                    decay = max(ratio * ratio, high / (high + size)) if b > 0 else 1.0
                    out[i, a, b, 1] = half * high * decay
    for a in range(tilts.size):
        for b in range(2):
            totals[a, b] = 0.0
            for i in range(lo.size):
                totals[a, b] += out[i, a, b, 0]
        if not 1.0 / DRIFT < totals[a, 0] < DRIFT:
            return 0
    wanted = 0
    for i in range(lo.size):
        short, most = 0.0, 0.0
        for a in range(tilts.size):
            most = max(most, out[i, a, 0, 0] / totals[a, 0])
            for b in range(2):
                short = max(short, out[i, a, b, 1] / (goal[b] * totals[a, b] + 1e-300))
        thin = hi[i] - lo[i] <= max(FINEST * max(abs(lo[i]), abs(hi[i])), LEAST_WIDTH)
        share[i] = most
        parts[i] = (MOST_PARTS if short > FAR_SHORT else 2) if short > 1.0 and not thin else 1
        wanted += parts[i]
    return wanted


class Verdict(NamedTuple):
    """What panels lack.

    Attributes:
        settled: nothing, as far as nodes show.
        logs: log totals at the tilts.
        parts: into how many each panel is to be cut, shape (panels,).
        reached: from where to where branches reach, shape (branches, 2); nan of those without any.
        edges: outwards from ends of branches that end too early.
    """

    settled: bool
    logs: Floats
    parts: Integers
    reached: Floats
    edges: Edges


def judge(
    panels: Panels, rows: Floats, tilts: Floats, goal: Floats, unit: Floats, report: Floats
) -> Verdict | None:
    """Judge the panels that have not been judged.

    Args:
        panels: all of them, with values.
        rows: ends of the branches.
        tilts: where sums have to be good.
        goal: see `_judge`.
        unit: the log totals in whose units the report is, nan at first; written.
        report: see `_judge`, -1 for panels that it has not seen; written.

    Returns:
        What they lack; None where there are no sums.
    """
    region, lo, hi, _, log_p, loss = panels
    n, totals, work = region.size, np.empty((tilts.size, 2)), np.empty((4, ORDER))
    share, parts = np.empty(n), np.empty(n, np.int64)
    for anew in (math.isnan(unit[0]), True):
        if anew:
            unit[:] = log_totals(log_weights(lo, hi, log_p), loss, tilts)
            report[:, 0, 0, 0] = -1.0
        wanted = _judge(lo, hi, log_p, loss, tilts, unit, goal, work, report, totals, share, parts)
        if wanted:
            edges, reached = _grow(region, lo, hi, rows, share)
            settled = wanted == n and not edges
            return Verdict(settled, unit + np.log(totals[:, 0]), parts, reached, edges)
    return None


def _outward(
    edge: float, sign: float, limit: float, reach: float, last: float, share: float, before: float
) -> list[float]:
    """Edges from the end of a branch outwards, to its limit at most.

    Panels are each as long as all before, as many as are needed if shares go on falling as from
    `before` to `share`; `last` is the length of the outermost. inf is the end of all numbers.
    """
    most, step, edges = 1.0, reach, [edge]
    if last > 0.4 * reach and share < before:  # laid so, and out in the tail
        most = math.log(NEGLIGIBLE / share) / math.log(share / before)
    for _ in range(max(1, math.ceil(min(most, DOUBLINGS)))):
        at = edge + sign * step
        if math.isinf(limit) and math.isinf(at) and len(edges) > 1:
            break
        if not math.isinf(limit) and not step < abs(limit - edge):
            return [*edges, limit]
        edges.append(at)
        step = 2.0 * step + reach
    return edges


def _grow(
    region: Integers, lo: Floats, hi: Floats, rows: Floats, share: Floats
) -> tuple[Edges, Floats]:
    """Edges outwards from ends of branches whose panel matters, and from where to where they reach.

    Of branches without panels nan.
    """
    starts = [0, *((region[1:] != region[:-1]).nonzero()[0] + 1).tolist(), region.size]
    grown: Edges = {}
    reached = np.full((len(rows), 2), np.nan)
    for first, end in pairwise(starts):
        r, last = int(region[first]), end - 1
        reached[r] = lo[first], hi[last]
        (least, most), reach = rows[r, :2].tolist(), float(hi[last] - lo[first])
        ends = (
            (first, -1.0, least, lo, min(first + 1, last)),
            (last, 1.0, most, hi, max(last - 1, first)),
        )
        for side, (i, sign, limit, edges, inner) in enumerate(ends):
            if share[i] > NEGLIGIBLE and sign * edges[i] < sign * limit:
                width = float(hi[i] - lo[i])
                grown[r, side] = _outward(
                    float(edges[i]), sign, limit, reach, width, float(share[i]), float(share[inner])
                )
    return grown, reached


def far_modes(tilts: Floats, logs: Floats, far: Far, edges: Edges) -> bool:
    """Whether there are points beyond ends of branches that have mass at a tilt; writes edges."""
    exponents = np.multiply.outer(tilts, far.loss)
    exponents += far.log_size
    exponents -= logs[:, None]
    seen = np.logical_or.reduce(exponents > LOG_NEGLIGIBLE, axis=0).nonzero()[0]
    for m in seen.tolist():  # the last one of each end is the farthest
        k = int(np.searchsorted(far.offsets, m, side="right")) - 1
        beyond = far.x[min(m + 1, int(far.offsets[k + 1]) - 1)]
        edges[k // 2, k % 2] = [float(far.reached[k // 2, k % 2]), float(beyond)]
    return bool(seen.size)


def near_ends(panels: Panels, tilts: Floats, logs: Floats, near: Far, parts: Integers) -> bool:
    """Whether a mode lies between an end and the first node there; written to `parts`."""
    exponents = np.multiply.outer(tilts, near.loss)
    exponents += near.log_size
    exponents -= logs[:, None]
    rises = np.zeros(near.x.size, np.bool_)
    rises[1:] = ((exponents[:, 1:] > exponents[:, :-1] + RISE)
                 & (exponents[:, 1:] > LOG_NEGLIGIBLE)).any(axis=0)  # fmt: skip
    rises[near.offsets[:-1][near.offsets[:-1] < rises.size]] = False  # of another end
    found = False
    for m in rises.nonzero()[0].tolist():
        k = int(np.searchsorted(near.offsets, m, side="right")) - 1
        (here,) = (panels.region == k // 2).nonzero()
        i = here[-(k % 2)]
        if near.gap[m] < FIRST_NODE * (panels.hi[i] - panels.lo[i]):
            parts[i], found = 2, True
    return found


@compiled(
    "int64(float64[::1], float64[:,::1], float64[:,::1], int64[::1], float64[::1], float64[::1],"
    " int64[::1])"
)
def _summits(xs, log_p, loss, region, tilts, totals, parts):  # type: ignore[no-untyped-def]
    """Cut panels where slopes around a local maximum point to a higher summit that matters.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.

    Writes two to `parts` where a panel is to be halved; returns whether there is one.
    """
    found = 0
    for a in range(tilts.size):
        z, total = tilts[a], totals[a]
        before, here, after, p0, p1, p2 = 0, 0, 0, 0.0, 0.0, 0.0
        for i in range(region.size):
            for j in range(ORDER):
                # four nodes in a row, the last of them node j of panel i; two and three between
                p3 = log_p[i, j] + z * loss[i, j]
                k = i * ORDER + j
                if k >= 3 and region[before] == region[i]:
                    cliff = abs(p2 - p1) > CLIFF
                    if cliff or (p1 > p0 and p3 < p2):
                        gap = xs[k - 1] - xs[k - 2]
                        known, floor = max(p1, p2), total + LOG_NEGLIGIBLE - math.log(gap)
                        if cliff and known > floor:
                            parts[after if p1 > p2 else here] = 2
                            found = 1
                        left = (p1 - p0) / (xs[k - 2] - xs[k - 3])
                        right = (p3 - p2) / (xs[k] - xs[k - 1])
                        step = min(max((p2 - p1 - right * gap) / (left - right), 0.0), gap)
                        summit = p1 + left * step
                        if left > 0.0 and right < 0.0 and summit > known + 2.0 and summit > floor:
                            parts[here] = parts[after] = 2
                            found = 1
                before, here, after = here, after, i
                p0, p1, p2 = p1, p2, p3
    return found


def summits(panels: Panels, tilts: Floats, logs: Floats, parts: Integers) -> bool:
    """Whether `_summits` has panels to cut; written to `parts`."""
    region, lo, hi, x, log_p, loss = panels
    if not _summits(x.ravel(), log_p, loss, region, tilts, logs, parts):
        return False
    # the rounding of x and of the loss looks like summits too, never resolved
    parts[hi - lo <= GRAIN * np.maximum(np.abs(lo), np.abs(hi))] = 1
    return bool((parts > 1).any())


def finish(
    panels: Panels, tilts: Floats, logs: Floats, report: Floats
) -> tuple[float, float, Floats]:
    """Judge panels that are to stay.

    Returns the largest share of panels whose nodes are hardly distinct doubles, the error of the
    sums as a share of the mass, misplaced nodes included, and the affinity of the laws at
    neighbouring tilts.
    """
    total = np.add.reduce(report[:, :, 0, 0])
    shares = report[:, :, 0, 0] / total
    affinity = np.add.reduce(np.sqrt(shares[:, :-1] * shares[:, 1:]))
    off = max((np.add.reduce(report[:, :, 1, 1] + report[:, :, 1, 2]) / total).tolist())
    _, lo, hi, _, log_p, loss = panels
    place, width = np.maximum(np.abs(lo), np.abs(hi)), hi - lo
    fine = (width <= 2.0 * FINE * place).nonzero()[0]
    if not fine.size:
        return 0.0, off, affinity
    # next to an end where q vanishes the loss changes by its own size from a double to the next
    log_p, loss, place, width = log_p[fine], loss[fine], place[fine], width[fine]
    least = np.where(log_p > -math.inf, log_p, math.inf).min(axis=1)
    fall = np.maximum(log_p.max(axis=1) - least, 0.0)
    rise = loss.max(axis=1) - loss.min(axis=1)
    moved = 0.0
    for z, log_total in zip(tilts.tolist(), logs.tolist(), strict=True):
        exponents = log_p + z * loss - log_total
        size = np.where(exponents > LEAST, np.exp(exponents), 0.0) @ WEIGHTS
        moved = max(moved, float((EPS * place * size * (fall + abs(z) * rise)).sum()))
    narrow = shares[fine[width <= FINEST * place]].max(initial=0.0)
    return float(narrow), off + moved, affinity


def shaken(panels: Panels, noise: Floats, tilts: Floats, logs: Floats) -> float:
    """What losses that are off by so much in each panel do to the sums, as a share of the mass."""
    seen = noise.nonzero()[0]
    loss, moved = panels.loss[seen], 0.0
    log_weight = log_weights(panels.lo[seen], panels.hi[seen], panels.log_p[seen])
    log_weight = log_weight.reshape(loss.shape)
    for z, log_total in zip(tilts.tolist(), logs.tolist(), strict=True):
        turned = np.exp(np.minimum(log_weight + z * loss - log_total, -LEAST))
        if log_total > -1.0:  # the sums are those of the deviation from the chord, see `judge`
            turned = np.abs(turned - np.exp(np.minimum(log_weight - loss - log_total, -LEAST)))
        moved = max(moved, abs(z) * float((turned * noise[seen, None]).sum()))
    return moved


def towards_ends(panels: Panels, rows: Floats, parts: Integers) -> Integers:
    """Where panels next to ends alone are short, of powers of the distance: -1, or 1 above.

    Writes to `parts` how often the distance is cut.
    """
    region, lo, hi = panels[:3]
    towards, width = np.zeros(region.size, np.int64), hi - lo
    for i in ((parts > 1).nonzero()[0]).tolist():
        for side in (-1, 1):
            end, inner = (hi[i] if side > 0 else lo[i]), i - side
            if end != rows[region[i], (1 + side) // 2] or not 0 <= inner < region.size:
                continue
            if parts[inner] == 1 and region[inner] == region[i] and width[inner] < 4.0 * width[i]:
                room = width[i] / max(FINEST * abs(end), LEAST_WIDTH)
                if room > CLOSER**2:
                    towards[i], parts[i] = side, min(math.log(room, CLOSER), STEPS * parts[i])
    return towards


def lay(
    panels: Panels, parts: Integers, towards: Integers, edges: Edges
) -> tuple[Panels, Integers, Integers]:
    """Cut panel i into parts[i] equal ones and add panels beyond the ends of branches.

    Args:
        panels: sorted by branch and by place.
        parts: see above.
        towards: the end, -1 or 1, to which a part has a fourth of the way of the one before; or 0.
        edges: outwards from the lower and the upper end of branches.

    Returns:
        All panels, the place that each had before, -1 for a new one, and which these are: they have
        no values yet.
    """
    region, lo, hi = panels[:3]
    kept, cut = (parts == 1).nonzero()[0], (parts > 1).nonzero()[0]
    of, last = cut.repeat(parts[cut]), parts[cut].cumsum()
    piece = np.arange(of.size) - (last - parts[cut]).repeat(parts[cut])
    start = lo[of] + piece * ((hi - lo)[of] / parts[of])
    nearer = (towards[of] * piece).nonzero()[0]
    if nearer.size:
        one, piece = of[nearer], piece[nearer]
        above = towards[one] > 0
        distance = (hi - lo)[one] * CLOSER ** -np.where(above, piece, parts[one] - piece)
        start[nearer] = np.where(above, hi[one] - distance, lo[one] + distance)
    end = np.empty(start.size)
    end[:-1], end[last - 1] = start[1:], hi[cut]
    more = [
        (r, *((b, a) if side == 0 else (a, b)))
        for (r, side), outward in edges.items()
        for a, b in pairwise(outward)
    ]
    which, lower, upper = zip(*more, strict=True) if more else ((), (), ())
    branch = np.concatenate([region[kept], region[of], np.array(which, np.int64)])
    start, end = np.concatenate([lo[kept], start, lower]), np.concatenate([hi[kept], end, upper])
    order = np.lexsort((start, branch))
    origin = np.concatenate([kept, np.full(branch.size - kept.size, -1)])[order]
    values = (column.take(origin, axis=0) for column in panels[3:])
    now = Panels(branch[order], start[order], end[order], *values)
    return now, origin, (origin < 0).nonzero()[0]
