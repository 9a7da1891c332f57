"""What panels lack: their share of the tilted sums, and their error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every
tilt, and says which panels to cut and where branches end too early; where nothing is lacking,
`far_modes`, `near_ends` and `summits` look for modes that no node has seen, and `fine_panels` at
rounded nodes of what stays. Compiled is what looks at every node by itself: a driver costs numba as
much as all that it calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mechc.loss.moments import excess, exponentials, sum_tilted
from mechc.loss.quadrature.rule import NODES, ORDER, PROBE, WEIGHTS
from mechc.numeric.jit import compiled
from mechc.numeric.rounding import EPS, MOST_LOG, U
from mechc.protocol import Floats, Integers

# outwards from the lower (0) or upper (1) end of a branch
Edges = dict[tuple[int, int], list[float]]

NEGLIGIBLE = 1e-24  # share of the tilted total that may be left out
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)
CLIFF = 20.0  # nats by which the integrand may fall between neighbouring nodes that matter
ROUNDING = 1.5 * U  # of a node, as a share of the far end of its panel
FINE = 1e-4  # half width, as a share of its place, of a panel whose nodes are rounded noticeably
NOTHING = -100.0  # log of a share that is not worth an exponential
LONG = 200.0  # log of the length of panels beyond which densities underflow before masses do
FAINT = 1e-40  # a sum, as a share of the total, whose error is of no interest
FINEST, LEAST_WIDTH = 4e-16, 1e-300  # a panel is not halved below this share of its place, or this
DRIFT = 1e13  # factor by which a total may leave its unit before the units are set anew
ALL_WELL = 2  # the word of `_judge` for panels that lack nothing
MAX_PANELS = 60_000  # of one law: a million nodes, 23 MB
DOUBLINGS = 8  # of a branch at once, where a tail falls slowly
MOST_NARROW = 1e-3  # share of the mass that panels too narrow for doubles may carry
LOG_WEIGHTS = np.log(WEIGHTS)
FAR_SHORT = 1e7  # errors of a panel, in goals, beyond which its halves are short too, ...
HOPELESS = 1e14  # ... and beyond which theirs are
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
    """Points beyond both ends of branches that may have mass; see `panels.beyond`."""

    reached: Floats  # from where to where panels of each branch reached then, shape (branches, 2)
    x: Floats  # these points, nan without any, shape (branches, 2, points)
    log_size: Floats  # log of the density times the distance from the panels
    loss: Floats


class Near(NamedTuple):
    """Points inside branches, next to their ends; see `panels.inside`."""

    offsets: Integers  # where those beside each end begin
    x: Floats
    gap: Floats  # distances from the ends
    log_size: Floats  # log of the density times that distance
    loss: Floats


def joined(columns: Sequence[Floats]) -> Floats:
    """Arrays one after the other; one alone as it is."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def log_weights(lo: Floats, hi: Floats, log_p: Floats) -> Floats:
    """Log weights of all nodes; a panel may be narrower than twice the smallest double."""
    out: Floats = np.add.outer(np.log(0.5 * (hi - lo)), LOG_WEIGHTS)
    out += log_p
    return out.ravel()


def log_totals(first: Integers, log_weight: Floats, loss: Floats, tilts: Floats) -> Floats:
    """Log of the integral of p exp(z L) over the panels of every law, shape (laws, tilts)."""
    out = np.empty((tilts.size, first.size - 1, 4))
    work = np.empty((2, ORDER * int(np.maximum.reduce(first[1:] - first[:-1]))))
    sum_tilted(ORDER * first, loss.ravel(), log_weight, tilts, work, out)
    return np.ascontiguousarray(out[:, :, 0].T)


@compiled(
    "int64(int64[::1], int64[::1], float64[:,::1], float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1], float64[:,::1], float64[:,::1],"
    " float64[:,:,:,::1], float64[:,:,::1], float64[::1], int64[::1], float64[::1],"
    " float64[:,::1], float64[:,::1], boolean[::1], boolean[:,::1])"
)
def _judge(  # type: ignore[no-untyped-def]
    starts, first, rows, lo, hi, log_p, loss, tilts, goal, log_total, work,
    out, sums, share, parts, errors, alike, reached, whole, early,
):  # fmt: skip
    """Say of each panel what it adds to the sums, how far that may be off, and so what it lacks.

    Writes to `out`, of panels of which that says -1, per tilt and integrand three numbers: the sum
    of absolute values, its estimated error, and its displacement, in units of exp(log_total): what
    the rounding of nodes may change, at most its size times the total variation. Integrand 0 is
    p exp(zL), judged by its top coefficients alone, for the mass; integrand 1 is the deviation from
    the chord, or, where M(z) is far below M(0) and M(-1), p exp(zL) again. Nodes are rounded to an
    ulp of the larger of |lo| and |hi|, which moves log p and the loss by that share of their change
    over the panel.

    Panels of branches, with ends in `rows`, begin at `starts`, and those of laws at `first`; `work`
    is room for the values at the nodes of one, shape (4, 16). Written are also `sums` for every
    law, tilt and integrand; the largest `share` of each panel in a total; into how many `parts` it
    is to be cut: if its error at some tilt exceeds the `goal` of an integrand as a share of its
    sum; for every law the error of integrand 1, as a share of the mass at the tilt where it is
    largest, and the affinity at neighbouring tilts; from where to where branches are `reached`;
    of which laws no panel is to be cut (`whole`), and which ends of branches come too `early`.
    Returns 0 where sums have left their units, written alone then, or densities that underflow may
    count on panels as long; else 1, or 2 where all is well.
    """
    p, back, top, plain = work[0], work[1], work[2], work[3]
    m = 0
    for i in range(lo.size):
        if out[i, 0, 0, 0] >= 0.0:
            continue
        while i >= first[m + 1]:
            m += 1
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
            p[j] = math.exp(at) if at > -MOST_LOG else 0.0
            # exp(-L) - 1 + L times p, or what is left of it where the first term alone counts
            far = math.exp(max(at - gain, -MOST_LOG))
            back[j] = p[j] * excess(-gain) if gain > -600.0 else far
            highest = max(max(highest, at), at - gain)
        by = 0.25 * place / half
        log_half, unseen = math.log(half), False
        moved_p, moved_loss = by * max(shallowest + deepest, 0.0), by * (most - least)
        for a in range(tilts.size):
            z, total = tilts[a], log_total[m, a]
            # P and Q nearly disjoint: M(z) is no small change of M(0) but far below it
            apart = total < -1.0
            peak = -math.inf if apart else highest + math.log1p(abs(z))
            for j in range(ORDER):
                top[j] = log_p[i, j] + z * loss[i, j]
                peak = max(peak, top[j])
            if not peak + log_half - total > NOTHING:
                continue
            unit = math.exp(-total)
            for j in range(ORDER):
                top[j] -= total
                if log_half > LONG and LOG_NEGLIGIBLE - log_half < top[j] < -MOST_LOG:
                    unseen = True
            exponentials(top, plain)
            for b in range(2):
                chord = b == 1 and not apart
                noise = size = turned = before = 0.0
                c0 = c1 = c2 = c3 = 0.0
                for j in range(ORDER):
                    turn = z * loss[i, j]
                    f = plain[j] if top[j] > -MOST_LOG else 0.0
                    lost = f
                    if chord:
                        at = p[j] * unit
                        if abs(turn) < 0.5:
                            f = at * excess(turn)
                            lost = f  # next to -1 the rest takes it off again
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
                    ratio = high / max(max(abs(c2), abs(c3)), high)
                    decay = max(ratio * ratio, high / (high + size)) if b > 0 else 1.0
                    out[i, a, b, 1] = half * high * decay
        if unseen:
            out[i, 0, 0, 0] = -1.0
    sums[:], errors[:], alike[:] = 0.0, 0.0, 0.0
    in_units = True
    for m in range(first.size - 1):
        for i in range(first[m], first[m + 1]):
            in_units = in_units and out[i, 0, 0, 0] >= 0.0
            for a in range(tilts.size):
                sums[m, a, 0] += out[i, a, 0, 0]
                sums[m, a, 1] += out[i, a, 1, 0]
                if a > 0:
                    alike[m, a - 1] += math.sqrt(out[i, a - 1, 0, 0] * out[i, a, 0, 0])
        for a in range(tilts.size):
            in_units = in_units and 1.0 / DRIFT < sums[m, a, 0] < DRIFT
    if not in_units:
        return 0
    verdict = 2
    for m in range(first.size - 1):
        whole[m] = True
        for a in range(tilts.size):
            off = 0.0
            for i in range(first[m], first[m + 1]):
                off += out[i, a, 1, 1] + out[i, a, 1, 2]
            off /= sums[m, a, 0]
            if not off <= errors[m]:
                errors[m] = off if off > errors[m] else math.inf  # of sums beyond doubles
            if a > 0:
                alike[m, a - 1] /= math.sqrt(sums[m, a - 1, 0] * sums[m, a, 0])
        for i in range(first[m], first[m + 1]):
            most = short = 0.0
            for a in range(tilts.size):
                most = max(most, out[i, a, 0, 0] / sums[m, a, 0])
                for b in range(2):
                    lack = out[i, a, b, 1] / (goal[b] * sums[m, a, b] + 1e-300)
                    # sums beyond doubles are no numbers, and no reason to leave others as they are
                    short = lack if lack > short else short
            share[i], parts[i] = most, 1
            far = max(-lo[i], hi[i])
            if short > 1.0 and hi[i] - lo[i] > max(FINEST * far, LEAST_WIDTH):
                parts[i] = 2 if short < FAR_SHORT else 4 if short < HOPELESS else 8
                whole[m], verdict = False, 1
    for r in range(starts.size - 1):
        a, b = starts[r], starts[r + 1] - 1
        reached[r, 0], reached[r, 1] = lo[a], hi[b]
        early[r, 0] = rows[r, 0] < lo[a] and share[a] > NEGLIGIBLE
        early[r, 1] = rows[r, 1] > hi[b] and share[b] > NEGLIGIBLE
        if early[r, 0] or early[r, 1]:
            verdict = 1
    return verdict


def judge(
    panels: Panels, starts: Integers, first: Integers, rows: Floats, tilts: Floats, goal: Floats,
    unit: Floats, report: Floats,
) -> tuple[list[int], Floats, Integers, Floats, Edges, Floats, Floats] | None:  # fmt: skip
    """Judge the panels that have not been judged.

    Args:
        panels: all of them, with values.
        starts: where those of every branch begin, and where the last ones end.
        first: the same of every law.
        rows: ends of the branches.
        tilts: where sums have to be good.
        goal: one for each integrand.
        unit: the log totals of every law in whose units the report is; written.
        report: see `_judge`, -1 for panels that it has not seen; written.

    Returns:
        Laws of which nothing is lacking, as far as nodes show; totals of every law at the tilts, in
        units; into how many each panel is to be cut; from where to where branches reach, shape
        (branches, 2); edges outwards from ends of branches that end too early; and for every law
        the error of the sums, as a share of the mass at the worst tilt, and the affinity at
        neighbouring tilts. None where a law has no sums.
    """
    _, lo, hi, _, log_p, loss = panels
    laws, branches, work = first.size - 1, starts.size - 1, np.empty((4, ORDER))
    sums, share = np.empty((laws, tilts.size, 2)), np.empty(lo.size)
    errors, affinity = np.empty(laws), np.empty((laws, tilts.size - 1))
    parts, reached = np.empty(lo.size, np.int64), np.empty((branches, 2))
    whole, early = np.empty(laws, np.bool_), np.empty((branches, 2), np.bool_)
    about = starts, first, rows, lo, hi, log_p, loss, tilts, goal, unit, work
    found = report, sums, share, parts, errors, affinity, reached, whole, early
    totals = sums[:, :, 0]
    for _ in range(2):
        verdict = _judge(*about, *found)
        if verdict:
            break
        # sums have left their units, which have to be set anew
        drifted = ~((totals > 1.0 / DRIFT) & (totals < DRIFT)).all(axis=1)
        unit[drifted] = log_totals(first, log_weights(lo, hi, log_p), loss, tilts)[drifted]
        report[drifted.repeat(first[1:] - first[:-1]), 0, 0, 0] = -1.0
    else:
        return None
    settled = list(range(laws))
    edges: Edges = {}
    if verdict < ALL_WELL:
        settled = whole.nonzero()[0].tolist()
        for r, side in zip(*early.nonzero(), strict=True):
            i, inward = (starts[r + 1] - 1, -1) if side else (starts[r], 1)
            inner = min(max(i + inward, starts[r]), starts[r + 1] - 1)
            at = reached[r, side], -inward, rows[r, side], reached[r, 1] - reached[r, 0]
            outward = _outward(*map(float, (*at, hi[i] - lo[i], share[i], share[inner])))
            edges[int(r), int(side)] = outward
    return settled, totals, parts, reached, edges, errors, affinity


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


def near_ends(
    panels: Panels, tilts: Floats, logs: Floats, near: Near, branch: int, parts: Integers
) -> bool:
    """Whether a mode lies between an end and the first node there; written to `parts`.

    Of one law, whose branches are numbered from `branch` on.
    """
    if not near.x.size:
        return False
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
        (here,) = (panels.region == branch + k // 2).nonzero()
        i = here[-(k % 2)]
        if near.gap[m] < FIRST_NODE * (panels.hi[i] - panels.lo[i]):
            parts[i], found = 2, True
    return found


def far_modes(tilts: Floats, logs: Floats, far: Far) -> list[tuple[int, int, list[float]]]:
    """Branches and sides beyond which points have mass at a tilt, and edges outwards there.

    `logs` are the log totals of the law of every branch.
    """
    exponents = np.multiply.outer(tilts, far.loss)
    exponents += far.log_size
    exponents -= logs.T[:, :, None, None]
    found: list[tuple[int, int, list[float]]] = []
    if not np.maximum.reduce(exponents, axis=None) > LOG_NEGLIGIBLE:
        return found
    seen = np.logical_or.reduce(exponents > LOG_NEGLIGIBLE, axis=0)
    for k, side in zip(*seen.any(axis=2).nonzero(), strict=True):
        m = int(seen[k, side].nonzero()[0][-1])  # the last one is the farthest
        beyond = far.x[k, side, m : m + 2]
        outward = [float(far.reached[k, side]), float(beyond[~np.isnan(beyond)][-1])]
        found.append((int(k), int(side), outward))
    return found


@compiled(
    "void(float64[::1], float64[:,::1], float64[:,::1], int64[::1], int64[::1], float64[::1],"
    " float64[:,::1], boolean[::1], int64[::1])"
)
def _summits(xs, log_p, loss, region, first, tilts, totals, look, parts):  # type: ignore
    """Cut panels where slopes around a local maximum point to a higher summit that matters.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.

    Writes two to `parts` where a panel is to be halved, of those to be looked at.
    """
    for a in range(tilts.size):
        z, m = tilts[a], 0
        before = here = after = 0
        p0 = p1 = p2 = 0.0
        for i in range(region.size):
            while i >= first[m + 1]:
                m += 1
            for j in range(ORDER):
                # four nodes in a row, the last of them node j of panel i; two and three between
                p3 = log_p[i, j] + z * loss[i, j]
                k = i * ORDER + j
                if k >= 3 and region[before] == region[i] and look[i]:
                    cliff = abs(p2 - p1) > CLIFF
                    if cliff or (p1 > p0 and p3 < p2):
                        gap = xs[k - 1] - xs[k - 2]
                        known = max(p1, p2)
                        floor = totals[m, a] + LOG_NEGLIGIBLE - math.log(gap)
                        if cliff and known > floor:
                            parts[after if p1 > p2 else here] = 2
                        left = (p1 - p0) / (xs[k - 2] - xs[k - 3])
                        right = (p3 - p2) / (xs[k] - xs[k - 1])
                        step = min(max((p2 - p1 - right * gap) / (left - right), 0.0), gap)
                        summit = p1 + left * step
                        if left > 0.0 and right < 0.0 and summit > known + 2.0 and summit > floor:
                            parts[here] = parts[after] = 2
                before, here, after = here, after, i
                p0, p1, p2 = p1, p2, p3


def summits(
    panels: Panels, first: Integers, tilts: Floats, logs: Floats, laws: list[int], parts: Integers
) -> Integers:
    """The panels of some laws that `_summits` cuts; written to `parts`."""
    region, lo, hi, x, log_p, loss = panels
    look = np.zeros(region.size, np.bool_)
    for m in laws:
        look[first[m] : first[m + 1]] = True
    _summits(x.ravel(), log_p, loss, region, first, tilts, logs, look, parts)
    found: Integers = (look & (parts > 1)).nonzero()[0]
    if found.size:  # the rounding of x and of the loss looks like summits too, never resolved
        grains = (hi - lo)[found] <= GRAIN * np.maximum(np.abs(lo), np.abs(hi))[found]
        parts[found[grains]] = 1
        found = found[~grains]
    return found


def fine_panels(
    panels: Panels, first: Integers, tilts: Floats, logs: Floats, report: Floats
) -> tuple[float, Floats]:
    """Judge panels that are to stay where nodes are rounded noticeably.

    Returns the largest share of panels whose nodes are hardly distinct doubles, and for every law
    what misplaced nodes add to the error of its sums.
    """
    sizes = first[1:] - first[:-1]
    _, lo, hi, _, log_p, loss = panels
    place, width = np.maximum(np.abs(lo), np.abs(hi)), hi - lo
    fine, narrow, errors = (width <= 2.0 * FINE * place).nonzero()[0], 0.0, np.zeros(sizes.size)
    if not fine.size:
        return narrow, errors
    shares = report[:, :, 0, 0]
    shares = shares / np.add.reduceat(shares, first[:-1]).repeat(sizes, axis=0)
    for m, here in enumerate(np.split(fine, fine.searchsorted(first[1:-1]))):
        if here.size:
            about = log_p[here], loss[here], place[here], width[here]
            errors[m] = _misplaced(tilts, logs[m], *about)
            narrow = max(narrow, shares[here[about[3] <= FINEST * about[2]]].max(initial=0.0))
    return float(narrow), errors


def _misplaced(
    tilts: Floats, logs: Floats, log_p: Floats, loss: Floats, place: Floats, width: Floats
) -> float:
    """What rounding of nodes may change of sums over fine panels, as a share of the mass."""
    # next to an end where q vanishes the loss changes by its own size from a double to the next
    least = np.where(log_p > -math.inf, log_p, math.inf).min(axis=1)
    fall = np.maximum(log_p.max(axis=1) - least, 0.0)
    top, low, high, moved = log_p.max(axis=1), loss.min(axis=1), loss.max(axis=1), 0.0
    for z, log_total in zip(tilts.tolist(), logs.tolist(), strict=True):
        # far from the tilted law all is nothing, most of the time where laws are far apart
        seen = ~(top + np.maximum(z * low, z * high) - log_total <= -MOST_LOG)
        exponents = log_p[seen] + z * loss[seen] - log_total
        size = np.where(exponents > -MOST_LOG, np.exp(exponents), 0.0) @ WEIGHTS
        rise = fall[seen] + abs(z) * (high - low)[seen]
        moved = max(moved, float((EPS * place[seen] * size * rise).sum()))
    return moved


def shaken(panels: Panels, noise: Floats, tilts: Floats, logs: Floats) -> float:
    """What losses that are off by so much in each panel do to the sums, as a share of the mass."""
    seen = noise.nonzero()[0]
    loss, moved = panels.loss[seen], 0.0
    log_weight = log_weights(panels.lo[seen], panels.hi[seen], panels.log_p[seen])
    log_weight = log_weight.reshape(loss.shape)
    for z, log_total in zip(tilts.tolist(), logs.tolist(), strict=True):
        turned = np.exp(np.minimum(log_weight + z * loss - log_total, MOST_LOG))
        if log_total > -1.0:  # the sums are those of the deviation from the chord, see `judge`
            turned = np.abs(turned - np.exp(np.minimum(log_weight - loss - log_total, MOST_LOG)))
        moved = max(moved, abs(z) * float((turned * noise[seen, None]).sum()))
    return moved


def towards_ends(panels: Panels, rows: Floats, parts: Integers) -> Integers:
    """Where panels next to ends alone are short, of powers of the distance: -1, or 1 above.

    Writes to `parts` how often the distance is cut.
    """
    region, lo, hi = panels[:3]
    towards, width = np.zeros(region.size, np.int64), hi - lo
    ends = rows[region]
    for side, at, end in ((-1, lo, ends[:, 0]), (1, hi, ends[:, 1])):
        for i in ((parts > 1) & (at == end)).nonzero()[0].tolist():
            inner = i - side
            if not 0 <= inner < region.size:
                continue
            if parts[inner] == 1 and region[inner] == region[i] and width[inner] < 4.0 * width[i]:
                room = width[i] / max(FINEST * abs(at[i]), LEAST_WIDTH)
                if room > CLOSER**2:
                    towards[i], parts[i] = side, min(math.log(room, CLOSER), STEPS * parts[i])
    return towards


def lay(
    panels: Panels, parts: Integers, towards: Integers | None, edges: Edges
) -> tuple[Panels, Integers, Integers, Floats]:
    """Cut panel i into parts[i] equal ones and add panels beyond the ends of branches.

    Args:
        panels: sorted by branch and by place.
        parts: see above.
        towards: the end, -1 or 1, to which a part has a fourth of the way of the one before; or 0.
        edges: outwards from the lower and the upper end of branches.

    Returns:
        All panels, the place that each had before, -1 for a new one, which these are, and their
        nodes: they have no values yet.
    """
    beyond, outer, grown = np.zeros((2, parts.size), np.int64), np.empty(0), []
    count = int(np.add.reduce(parts))
    for (branch, side), outward in edges.items():
        i = int(panels.region.searchsorted(branch + side)) - side
        beyond[side, i] = len(outward) - 1
        count += len(outward) - 1
        grown.append((i, side, outward[:: 1 if side else -1]))
    if grown:
        outer = np.array([edge for _, _, outward in sorted(grown) for edge in outward])
    region, origin, new = np.empty((3, count), np.int64)
    ends, (x, log_p, loss, fresh) = np.empty((2, count)), np.empty((4, count, ORDER))
    towards = np.zeros(parts.size, np.int64) if towards is None else towards
    now = Panels(region, ends[0], ends[1], x, log_p, loss)
    size = _lay(*panels, parts, towards, beyond, outer, NODES, *now, origin, new, fresh)
    return now, origin, new[:size], fresh[:size]


@compiled(
    "int64(int64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " int64[::1], int64[::1], int64[:,::1], float64[::1], float64[::1], int64[::1], float64[::1],"
    " float64[::1], float64[:,::1], float64[:,::1], float64[:,::1], int64[::1], int64[::1],"
    " float64[:,::1])"
)
def _lay(  # type: ignore[no-untyped-def]
    region, lo, hi, x, log_p, loss, parts, towards, beyond, outer, rule,
    own, start, end, nodes, densities, losses, origin, new, fresh,
):  # fmt: skip
    """See `lay`: writes the panels, which are new, and the nodes of these to `fresh` as well."""
    at = size = edge = 0
    for i in range(lo.size):
        before, width = at, hi[i] - lo[i]
        for _ in range(beyond[0, i]):
            start[at], end[at] = outer[edge], outer[edge + 1]
            at, edge = at + 1, edge + 1
        edge += beyond[0, i] > 0
        inner = at
        for piece in range(parts[i]):
            start[at], end[at] = lo[i] + piece * (width / parts[i]), hi[i]
            if piece > 0:
                if towards[i] > 0:
                    start[at] = hi[i] - width * CLOSER ** -float(piece)
                elif towards[i] < 0:
                    start[at] = lo[i] + width * CLOSER ** float(piece - parts[i])
                end[at - 1] = start[at]
            at += 1
        for _ in range(beyond[1, i]):
            start[at], end[at] = outer[edge], outer[edge + 1]
            at, edge = at + 1, edge + 1
        edge += beyond[1, i] > 0
        for k in range(before, at):
            own[k], origin[k] = region[i], -1
            if k == inner and parts[i] == 1:
                origin[k] = i
                for j in range(ORDER):
                    nodes[k, j], densities[k, j], losses[k, j] = x[i, j], log_p[i, j], loss[i, j]
                continue
            middle, half = 0.5 * start[k] + 0.5 * end[k], 0.5 * (end[k] - start[k])
            for j in range(ORDER):
                nodes[k, j] = fresh[size, j] = middle + half * rule[j]
            new[size], size = k, size + 1
    return size
