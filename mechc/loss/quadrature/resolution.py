"""What panels lack: their share of the tilted sums, and their error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every
tilt; `look` says which panels to cut and `_grow` where branches end too early; where nothing is
lacking, `_far_modes` and `_summits` look for modes that no node has seen, and `_finish` judges what
stays. A round of all that is one call of `turn`, compiled; between two of them the kernel is asked.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled
from mechc.loss.moments import LEAST, excess, exponentials, sum_tilted
from mechc.loss.rounding import EPS, U
from mechc.loss.rule import NODES, ORDER, PROBE, WEIGHTS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NEGLIGIBLE = 1e-24  # share of the tilted total that may be left out
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)
CLIFF = 20.0  # nats by which the integrand may fall between neighbouring nodes that matter
ROUNDING = 1.5 * U  # of a node, as a share of the far end of its panel
FINE = 1e-4  # half width, as a share of its place, of a panel whose nodes are rounded noticeably
NOTHING = -100.0  # log of a share that is not worth an exponential
FAINT = 1e-40  # a sum, as a share of the total, whose error is of no interest
FINEST = 4e-16  # a panel is not halved below this share of its own place
DRIFT = 1e13  # factor by which a total may leave its unit before the units are set anew
MAX_PANELS = 60_000
DOUBLINGS = 8  # of a branch at once, where a tail falls slowly
MOST_NARROW = 1e-3  # share of the mass that panels too narrow for doubles may carry
LOG_WEIGHTS = np.log(WEIGHTS)
FAR_SHORT = 1e7  # errors of a panel, in goals, beyond which its halves would be short too
GRAIN = 1e-11  # width, as a share of its place, of a panel too narrow to hide a mode
SILENT = np.errstate(all="ignore")  # densities may be zero, and scales far apart


@compiled("float64[::1](float64[::1], float64[::1], float64[:,::1])")
def log_weights(lo, hi, log_p):  # type: ignore[no-untyped-def]
    """Log weights of all nodes."""
    out = np.empty(log_p.size)
    for i in range(lo.size):
        log_half = math.log(0.5 * (hi[i] - lo[i]))  # may be below the smallest double
        for j in range(ORDER):
            out[i * ORDER + j] = log_p[i, j] + (log_half + LOG_WEIGHTS[j])
    return out


@compiled("float64[::1](float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[::1])")
def log_totals(lo, hi, log_p, loss, tilts):  # type: ignore[no-untyped-def]
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    log_weight = log_weights(lo, hi, log_p)
    out = np.empty((tilts.size, 1, 4))
    everywhere = np.array([0, loss.size])
    sum_tilted(everywhere, loss.ravel(), log_weight, tilts, np.empty((2, loss.size)), out)
    return out[:, 0, 0].copy()


@compiled(
    "void(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[::1], float64[::1],"
    " float64[:,:,:,::1], float64[:,::1])"
)
def judge(lo, hi, log_p, loss, tilts, log_total, out, totals):  # type: ignore[no-untyped-def]
    """Write to `out`, of panels of which that says -1, per tilt and integrand three numbers.

    They are the sum of absolute values, its estimated error, and its displacement, in units of
    exp(log_total): what the rounding of nodes may change, at most its size times the total
    variation. Integrand 0 is p exp(zL), judged by its top coefficients alone, for the mass;
    integrand 1 is the deviation from the chord, or, where M(z) is far below M(0) and M(-1),
    p exp(zL) again. Nodes are rounded to an ulp of the larger of |lo| and |hi|, which moves log p
    and the loss by that share of their change over the panel. The first number, summed over the
    panels, goes to `totals`.
    """
    p, back, top, plain = np.empty(ORDER), np.empty(ORDER), np.empty(ORDER), np.empty(ORDER)
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


@compiled(
    "int64(float64[::1], float64[::1], float64[::1], float64[:,:,:,::1], float64[:,::1],"
    " float64[::1], int64[::1])"
)
def look(lo, hi, goal, report, totals, share, parts):  # type: ignore[no-untyped-def]
    """Say of each panel what share of the sums it has, and into how many parts it is to be cut.

    A panel is cut if its error at some tilt exceeds the goal.

    Args:
        lo: lower ends of the panels.
        hi: upper ends.
        goal: the error of a panel to aim for in each integrand, as a share of the total.
        report: what `judge` says of the panels.
        totals: its sums over them.
        share: room for the largest share of each panel.
        parts: room for how many each is to be cut into.

    Returns:
        How many there will be; 0 where sums have left their units, which have to be set anew.
    """
    wanted = 0
    for a in range(len(totals)):
        if not 1.0 / DRIFT < totals[a, 0] < DRIFT:
            return 0
    for i in range(lo.size):
        short, share[i] = 0.0, 0.0
        for a in range(len(totals)):
            share[i] = max(share[i], report[i, a, 0, 0] / totals[a, 0])
            for b in range(2):
                short = max(short, report[i, a, b, 1] / (goal[b] * totals[a, b] + 1e-300))
        thin = hi[i] - lo[i] <= FINEST * max(abs(lo[i]), abs(hi[i]))
        parts[i] = (4 if short > FAR_SHORT else 2) if short > 1.0 and not thin else 1
        wanted += parts[i]
    return wanted


@compiled(
    "int64(float64, float64, float64, float64, float64, float64, float64, float64[::1])",
)
def _outward(edge, sign, limit, reach, last, share, before, edges):  # type: ignore[no-untyped-def]
    """Write edges from the end of a branch outwards, to its limit at most; return how many.

    Panels are each as long as all before, as many as are needed if shares go on falling as from
    `before` to `share`; `last` is the length of the outermost. inf is the end of all numbers.
    """
    most, count, step = 1.0, 1, reach
    edges[0] = edge
    if last > 0.4 * reach and share < before:  # laid so, and out in the tail
        most = math.log(NEGLIGIBLE / share) / math.log(share / before)
    for _ in range(max(1, math.ceil(min(most, DOUBLINGS)))):
        at = edge + sign * step
        if math.isinf(limit) and math.isinf(at) and count > 1:
            break
        if not math.isinf(limit) and not step < abs(limit - edge):
            edges[count] = limit
            return count + 1
        edges[count] = at
        count += 1
        step = 2.0 * step + reach
    return count


@compiled(
    "boolean(int64[::1], float64[::1], float64[::1], float64[:,::1], float64[::1],"
    " float64[:,:,::1], int64[:,::1])"
)
def _grow(region, lo, hi, rows, share, edges, sizes):  # type: ignore[no-untyped-def]
    """Write edges outwards from ends of branches whose panel matters; whether there are any."""
    grown, first = False, 0
    for last in range(region.size):
        r = region[last]
        if last + 1 < region.size and region[last + 1] == r:
            continue
        reach = hi[last] - lo[first]
        if share[first] > NEGLIGIBLE and lo[first] > rows[r, 0]:
            width, inner = hi[first] - lo[first], share[min(first + 1, last)]
            sizes[r, 0] = _outward(
                lo[first], -1.0, rows[r, 0], reach, width, share[first], inner, edges[r, 0]
            )
            grown = True
        if share[last] > NEGLIGIBLE and hi[last] < rows[r, 1]:
            width, inner = hi[last] - lo[last], share[max(last - 1, first)]
            sizes[r, 1] = _outward(
                hi[last], 1.0, rows[r, 1], reach, width, share[last], inner, edges[r, 1]
            )
            grown = True
        first = last + 1
    return grown


@compiled(
    "boolean(float64[::1], float64[::1], float64[:,::1], int64[::1], float64[::1], float64[::1],"
    " float64[::1], float64[:,:,::1], int64[:,::1])"
)
def _far_modes(tilts, logs, reached, offsets, x, log_size, loss, edges, sizes):  # type: ignore[no-untyped-def]
    """Write edges up to the farthest point beyond each end of a branch that has mass at a tilt."""
    found = False
    for k in range(offsets.size - 1):
        for m in range(offsets[k + 1] - 1, offsets[k] - 1, -1):
            some = False
            for a in range(tilts.size):
                some |= log_size[m] + tilts[a] * loss[m] - logs[a] > LOG_NEGLIGIBLE
            if some:
                edge = edges[k // 2, k % 2]
                edge[0], edge[1] = reached[k // 2, k % 2], x[min(m + 1, offsets[k + 1] - 1)]
                sizes[k // 2, k % 2] = 2
                found = True
                break
    return found


@compiled(
    "int64(float64[::1], float64[:,::1], float64[:,::1], int64[::1], float64, float64, int64[::1])"
)
def _summits(xs, log_p, loss, region, z, total, parts):  # type: ignore[no-untyped-def]
    """Cut panels where slopes around a local maximum point to a higher summit that matters at z.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.

    Writes two to `parts` where a panel is to be halved; returns whether there is one.
    """
    found = 0
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


@compiled(
    "Tuple((float64, float64, float64[::1]))(float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1], float64[:,:,:,::1])"
)
def _finish(lo, hi, log_p, loss, tilts, logs, report):  # type: ignore[no-untyped-def]
    """Judge panels that are to stay.

    Returns the largest share of panels whose nodes are hardly distinct doubles, the error of the
    sums as a share of the mass, misplaced nodes included, and the affinity of the laws at
    neighbouring tilts.
    """
    count = tilts.size
    total, off = np.zeros(count), np.zeros(count)
    affinity, worst, narrow, error = np.zeros(count - 1), 0.0, 0.0, 0.0
    for i in range(lo.size):
        for a in range(count):
            total[a] += report[i, a, 0, 0]
            off[a] += report[i, a, 1, 1] + report[i, a, 1, 2]
    for i in range(lo.size):
        for a in range(count - 1):
            product = (report[i, a, 0, 0] / total[a]) * (report[i, a + 1, 0, 0] / total[a + 1])
            affinity[a] += math.sqrt(product)
    moved = np.zeros(count)
    for i in range(lo.size):
        place, width = max(abs(lo[i]), abs(hi[i])), hi[i] - lo[i]
        if width > 2.0 * FINE * place:
            continue
        most_p, least_p = -math.inf, math.inf
        most, least = -math.inf, math.inf
        for j in range(ORDER):
            most_p = max(most_p, log_p[i, j])
            least_p = min(least_p, log_p[i, j] if log_p[i, j] > -math.inf else math.inf)
            most, least = max(most, loss[i, j]), min(least, loss[i, j])
        # next to an end where q vanishes the loss changes by its own size from a double to the next
        for a in range(count):
            size = 0.0
            for j in range(ORDER):
                v = log_p[i, j] + tilts[a] * loss[i, j] - logs[a]
                size += WEIGHTS[j] * math.exp(v) if v > LEAST else 0.0
            by = max(most_p - least_p, 0.0) + abs(tilts[a]) * max(most - least, 0.0)
            moved[a] += EPS * place * size * by
            if width <= FINEST * place:
                narrow = max(narrow, report[i, a, 0, 0] / total[a])
    for a in range(count):
        error, worst = max(error, off[a] / total[a]), max(worst, moved[a])
    return narrow, error + worst, affinity


@compiled(
    "Tuple((int64[::1], float64[::1], float64[::1], int64[::1]))(int64[::1], float64[::1],"
    " float64[::1], int64[::1], float64[:,:,::1], int64[:,::1])"
)
def lay(region, lo, hi, parts, edges, sizes):  # type: ignore[no-untyped-def]
    """Cut panel i into parts[i] equal ones and add panels beyond the ends of branches.

    Args:
        region: branch of each panel; they stand sorted by branch and by place.
        lo: lower ends.
        hi: upper ends.
        parts: see above.
        edges: outwards from the lower and the upper end of each branch.
        sizes: how many of these there are, shape (branches, 2).

    Returns:
        Branch and ends of all panels, and the place that each had before, -1 for a new one.
    """
    count = 0
    for i in range(region.size):
        count += parts[i]
    for r in range(sizes.shape[0]):
        count += max(sizes[r, 0] - 1, 0) + max(sizes[r, 1] - 1, 0)
    branch, origin = np.empty(count, np.int64), np.empty(count, np.int64)
    start, end = np.empty(count), np.empty(count)
    k = 0
    for i in range(region.size):
        r = region[i]
        if i == 0 or region[i - 1] != r:
            for m in range(sizes[r, 0] - 1, 0, -1):
                branch[k], start[k], end[k] = r, edges[r, 0, m], edges[r, 0, m - 1]
                origin[k] = -1
                k += 1
        of = parts[i]
        step = (hi[i] - lo[i]) / of
        for m in range(of):
            branch[k], origin[k] = r, i if of == 1 else -1
            start[k] = lo[i] + m * step if m > 0 else lo[i]
            end[k] = lo[i] + (m + 1) * step if m + 1 < of else hi[i]
            k += 1
        if i + 1 == region.size or region[i + 1] != r:
            for m in range(1, sizes[r, 1]):
                branch[k], start[k], end[k] = r, edges[r, 1, m - 1], edges[r, 1, m]
                origin[k] = -1
                k += 1
    return branch, start, end, origin


# what `turn` ends with
SETTLED, MORE, UNSEEN, ENDLESS, CROWDED, NARROW, LOST = range(7)


@compiled(
    "Tuple((int64, int64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,::1],"
    " float64[:,:,:,::1], int64[::1], float64[::1], float64[:,::1], float64, float64[::1]))("
    "int64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,:,:,::1],"
    " int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    " float64[:,::1], boolean, float64[:,::1], int64[::1], float64[::1], float64[::1],"
    " float64[::1])"
)
def turn(  # type: ignore[no-untyped-def]
    region, lo, hi, log_p, loss, report, new, new_log_p, new_loss, tilts, unit, goal, rows, alone,
    reached, offsets, far_x, far_size, far_loss
):  # fmt: skip
    """One turn of the adaptation: judge the panels, and cut or extend what is short at some tilt.

    Args:
        region: branch of each panel; all that follow stand in that order.
        lo: lower ends.
        hi: upper ends.
        log_p: log density at the nodes, shape (panels, 16).
        loss: the loss there.
        report: see `judge`, -1 for panels that it has not seen.
        new: panels without values so far; they are written here.
        new_log_p: log density at their nodes in a row, as the kernel has it.
        new_loss: the loss there.
        tilts: where sums have to be good.
        unit: the log totals in whose units the report is, nan at first; written.
        goal: see `look`.
        rows: ends of the branches.
        alone: the integrand is a density alone, and modes beyond the panels are not looked for.
        reached: from where to where panels reached when points beyond them were looked at.
        offsets: where those beyond each end begin.
        far_x: these points.
        far_size: see `panels.beyond`.
        far_loss: the loss there.

    Returns:
        How it ended: the sums are SETTLED; MORE panels want values; what is beyond is UNSEEN; or
        why there is no way on. Then the panels with their values and their report, which of them
        want values, at which nodes; how far the panels reach; the error and the affinity of
        `_finish`, and log totals in front.
    """
    n, none = region.size, np.empty(0)
    for k in range(new.size):
        for j in range(ORDER):
            at, gain = new_log_p[k * ORDER + j], new_loss[k * ORDER + j]
            sound = math.isfinite(at) and math.isfinite(gain)  # else the kernel has no answer
            log_p[new[k], j], loss[new[k], j] = at if sound else -math.inf, gain if sound else 0.0
    totals, share, parts = np.empty((tilts.size, 2)), np.empty(n), np.empty(n, np.int64)
    judged = 0
    for again in range(2):
        if again or math.isnan(unit[0]):
            fresh_unit = log_totals(lo, hi, log_p, loss, tilts)
            for a in range(tilts.size):
                unit[a] = fresh_unit[a]
            for i in range(n):
                report[i, 0, 0, 0] = -1.0
        judge(lo, hi, log_p, loss, tilts, unit, report, totals)
        judged = look(lo, hi, goal, report, totals, share, parts)
        if judged:
            break
    logs = np.empty(tilts.size)
    for a in range(tilts.size):
        logs[a] = unit[a] + math.log(totals[a, 0])
    edges = np.empty((rows.shape[0], 2, DOUBLINGS + 2))
    sizes, reach = np.zeros((rows.shape[0], 2), np.int64), reached
    ended, error, affinity = MORE if judged else LOST, 0.0, none
    more = judged > n
    if judged:
        more |= _grow(region, lo, hi, rows, share, edges, sizes)
    if ended == MORE and not more and not alone:
        reach = np.full((rows.shape[0], 2), np.nan)  # of branches without panels
        for i in range(n):
            if i == 0 or region[i - 1] != region[i]:
                reach[region[i], 0] = lo[i]
            reach[region[i], 1] = hi[i]
        for r in range(rows.shape[0]):
            for side in range(2):
                known = reach[r, side] == reached[r, side] or math.isnan(reach[r, side])
                ended = ended if known else UNSEEN
        if ended == MORE:
            more = _far_modes(tilts, logs, reach, offsets, far_x, far_size, far_loss, edges, sizes)
    if ended == MORE and not more:
        x = np.empty(n * ORDER)
        for i in range(n):
            for j in range(ORDER):
                x[i * ORDER + j] = 0.5 * (lo[i] + hi[i]) + 0.5 * (hi[i] - lo[i]) * NODES[j]
        for a in range(tilts.size):
            more |= _summits(x, log_p, loss, region, tilts[a], logs[a], parts) > 0
        if more:  # the rounding of x and of the loss looks like summits too, never resolved
            more = False
            for i in range(n):
                if hi[i] - lo[i] <= GRAIN * max(abs(lo[i]), abs(hi[i])):
                    parts[i] = 1
                more |= parts[i] > 1
    if ended == MORE and not more:
        narrow, error, affinity = _finish(lo, hi, log_p, loss, tilts, logs, report)
        ended = NARROW if narrow > MOST_NARROW else SETTLED
    for r in range(rows.shape[0]):
        for side in range(2):
            if sizes[r, side] > 0 and math.isinf(edges[r, side, sizes[r, side] - 1]):
                ended = ENDLESS
    panels, kept = 0, 0
    for i in range(n):
        panels += parts[i]
        kept += parts[i] == 1
    if ended == MORE and panels > MAX_PANELS:
        ended = CROWDED
    if ended != MORE:
        nothing, found = np.empty(0, np.int64), np.empty(logs.size + affinity.size)
        for a in range(found.size):
            found[a] = logs[a] if a < logs.size else affinity[a - logs.size]
        return ended, region, lo, hi, log_p, loss, report, nothing, none, reach, error, found
    branch, start, end, origin = lay(region, lo, hi, parts, edges, sizes)
    fresh = np.empty(origin.size - kept, np.int64)
    x = np.empty(fresh.size * ORDER)
    old_log_p, old_loss, old_report = log_p, loss, report
    log_p, loss = np.empty((origin.size, ORDER)), np.empty((origin.size, ORDER))
    report = np.empty((origin.size, tilts.size, 2, 3))
    k = 0
    for i in range(origin.size):
        if origin[i] < 0:
            report[i, 0, 0, 0] = -1.0
            fresh[k] = i
            for j in range(ORDER):
                x[k * ORDER + j] = 0.5 * (start[i] + end[i]) + 0.5 * (end[i] - start[i]) * NODES[j]
            k += 1
            continue
        for j in range(ORDER):
            log_p[i, j], loss[i, j] = old_log_p[origin[i], j], old_loss[origin[i], j]
        for a in range(tilts.size):
            for b in range(2):
                for m in range(3):
                    report[i, a, b, m] = old_report[origin[i], a, b, m]
    return ended, branch, start, end, log_p, loss, report, fresh, x, reach, error, logs
