"""What panels lack: their share of the tilted sums, and their error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every
tilt; `look` says which panels to cut and where to grow; where nothing is lacking, `hidden` looks
for modes that no node has seen, between two of them or beyond the panels, which only a large tilt
brings out; and `finish` judges what stays.

One round is one call of each: everything here is compiled, and works on arrays given to it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled
from mechc.loss.moments import LEAST, excess
from mechc.loss.rounding import EPS, U
from mechc.loss.rule import NODES, ORDER, PROBE, WEIGHTS

Floats = NDArray[np.float64]

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
GRAIN = 1e-11  # width, as a share of its place, of a panel too narrow to hide a mode
DRIFTED, ENDLESS, CROWDED = -1, -2, -3  # what a round found, see `look`
SILENT = np.errstate(all="ignore")  # densities may be zero, and scales far apart


@compiled(
    "void(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[::1], float64[::1])"
)
def _log_totals(lo, hi, log_p, loss, tilts, out):  # type: ignore[no-untyped-def]
    """Write what `log_totals` returns."""
    for a in range(tilts.size):
        z, top, total = tilts[a], -math.inf, 0.0
        for i in range(lo.size):
            for j in range(ORDER):
                top = max(top, log_p[i, j] + z * loss[i, j])
        for i in range(lo.size):
            share = 0.0
            for j in range(ORDER):
                v = log_p[i, j] + z * loss[i, j] - top
                if v > NOTHING:
                    share += WEIGHTS[j] * math.exp(v)
            total += 0.5 * (hi[i] - lo[i]) * share
        out[a] = top + math.log(total)


def log_totals(lo: Floats, hi: Floats, log_p: Floats, loss: Floats, tilts: Floats) -> Floats:
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    out = np.empty(tilts.size)
    _log_totals(lo, hi, log_p, loss, tilts, out)
    return out


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
    p, back, top = np.empty(ORDER), np.empty(ORDER), np.empty(ORDER)
    for i in range(lo.size):
        if out[i, 0, 0, 0] >= 0.0:
            continue
        out[i] = 0.0
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
            for b in range(2):
                chord = b == 1 and not apart
                noise, size, turned, before = 0.0, 0.0, 0.0, 0.0
                c0 = c1 = c2 = c3 = 0.0
                for j in range(ORDER):
                    turn = z * loss[i, j]
                    f = math.exp(top[j] - total) if top[j] - total > LEAST else 0.0
                    lost = f
                    if chord:
                        plain = p[j] * unit
                        if abs(turn) < 0.5:
                            f = plain * excess(turn)
                            lost = 0.0
                        else:
                            f -= plain * (1.0 + turn)
                            lost += plain * (1.0 + abs(turn))
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
    "int64(int64[::1], float64[::1], float64[::1], float64[::1], float64[:,::1],"
    " float64[:,:,:,::1], float64[:,::1], int64[::1], float64[:,:,::1], int64[:,::1])"
)
def look(region, lo, hi, goal, rows, report, totals, parts, edges, sizes):  # type: ignore[no-untyped-def]
    """Decide which panels to cut and how far to extend the branches.

    A panel is halved if its error at some tilt exceeds the goal; a branch grows at an end whose
    panel has a share that matters, by panels each as long as all before, as many as are needed if
    shares go on falling so.

    Args:
        region: the branch of each panel, shape (panels,).
        lo: their lower ends.
        hi: their upper ends.
        goal: the error of a panel to aim for in each integrand, as a share of the total.
        rows: ends of the branches, shape (branches, 2).
        report: what `judge` says of the panels.
        totals: its sums over them.
        parts: room for how many each panel is to be cut into.
        edges: room for the edges to add, see `panels.lay`.
        sizes: room for their numbers.

    Returns:
        How many panels there will be, no more than there are where nothing is lacking. DRIFTED
        where the units have to be set anew; ENDLESS where a tail still matters at the end of all
        numbers; CROWDED where that takes too many panels.
    """
    for a in range(len(totals)):
        if not 1.0 / DRIFT < totals[a, 0] < DRIFT:
            return DRIFTED
    n, wanted, endless, first = region.size, 0, False, 0
    share = np.empty(n)
    for i in range(n):
        short, share[i] = 0.0, 0.0
        for a in range(len(totals)):
            share[i] = max(share[i], report[i, a, 0, 0] / totals[a, 0])
            for b in range(2):
                short = max(short, report[i, a, b, 1] / (goal[b] * totals[a, b] + 1e-300))
        thin = hi[i] - lo[i] <= FINEST * max(abs(lo[i]), abs(hi[i]))
        parts[i] = 2 if short > 1.0 and not thin else 1
        wanted += parts[i]
    for j in range(n):
        r = region[j]
        first = j if j == 0 or region[j - 1] != r else first
        if j + 1 < n and region[j + 1] == r:
            continue
        reach = hi[j] - lo[first]
        for side in range(2):
            at, inner = (j, max(j - 1, first)) if side else (first, min(first + 1, j))
            edge, sign, limit, count = (
                (hi[j] if side else lo[first]),
                2.0 * side - 1.0,
                rows[r, side],
                0,
            )
            if share[at] > NEGLIGIBLE and sign * edge < sign * limit:
                most = 1.0
                if hi[at] - lo[at] > 0.4 * reach and share[at] < share[inner]:
                    # laid so, and out in the tail
                    most = math.log(NEGLIGIBLE / share[at]) / math.log(share[at] / share[inner])
                step, edges[r, side, 0] = reach, edge
                while count < DOUBLINGS and count < max(most, 1.0):
                    further = edge + sign * step
                    if math.isinf(limit) and math.isinf(further):
                        endless |= count == 0
                        break
                    count += 1
                    edges[r, side, count] = further
                    if not math.isinf(limit) and not step < abs(limit - edge):
                        edges[r, side, count] = limit
                        break
                    step = 2.0 * step + reach
            sizes[r, side] = count
            wanted += count
    if endless:
        return ENDLESS
    return CROWDED if wanted > MAX_PANELS else wanted


@compiled(
    "int64(int64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[::1],"
    " float64[::1], int64[::1], float64[::1], float64[::1], float64[::1], int64[::1],"
    " float64[:,:,::1], int64[:,::1])"
)
def hidden(  # type: ignore[no-untyped-def]
    region, lo, hi, log_p, loss, tilts, logs, offsets, far, far_log_p, far_loss, parts, edges, sizes
):
    """Look for modes that no node has seen: beyond the panels, then between the nodes.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.

    Args and returns as for `look`, but:
        logs: the log totals at the tilts.
        offsets: where in `far` the points beyond each edge begin, see `panels.beyond`.
        far: these points.
        far_log_p: the log density there.
        far_loss: the loss there.
    """
    n, wanted = region.size, region.size
    xs, tilted = np.empty(n * ORDER), np.empty(n * ORDER)
    for i in range(n):
        parts[i] = 1
        for side in range(2):
            k = 2 * region[i] + side
            neighbour = i - 1 + 2 * side
            if 0 <= neighbour < n and region[neighbour] == region[i]:
                continue
            edge = hi[i] if side else lo[i]
            for m in range(offsets[k + 1] - 1, offsets[k] - 1, -1):
                if not math.isfinite(far_log_p[m] + far_loss[m]):
                    continue
                size = far_log_p[m] + math.log(abs(far[m] - edge))
                found = False
                for a in range(tilts.size):
                    found |= size + tilts[a] * far_loss[m] - logs[a] > LOG_NEGLIGIBLE
                if found:
                    edges[region[i], side, 0] = edge
                    edges[region[i], side, 1] = far[min(m + 1, offsets[k + 1] - 1)]
                    sizes[region[i], side] = 1
                    wanted += 1
                    break
        for j in range(ORDER):
            xs[i * ORDER + j] = 0.5 * (lo[i] + hi[i]) + 0.5 * (hi[i] - lo[i]) * NODES[j]
    if wanted > n:
        return wanted
    for a in range(tilts.size):
        for i in range(n):
            for j in range(ORDER):
                tilted[i * ORDER + j] = log_p[i, j] + tilts[a] * loss[i, j]
        for i in range(1, xs.size - 2):
            before, after = (i - 1) // ORDER, (i + 2) // ORDER
            if before != after and region[before] != region[after]:
                continue  # four nodes in a row on one branch
            p0, p1, p2, p3 = tilted[i - 1], tilted[i], tilted[i + 1], tilted[i + 2]
            cliff = abs(p2 - p1) > CLIFF
            if not (cliff or (p1 > p0 and p3 < p2)):
                continue
            gap = xs[i + 1] - xs[i]
            known, floor = max(p1, p2), logs[a] + LOG_NEGLIGIBLE - math.log(gap)
            if cliff and known > floor:
                parts[(i + 1 if p1 > p2 else i) // ORDER] = 2
            left, right = (p1 - p0) / (xs[i] - xs[i - 1]), (p3 - p2) / (xs[i + 2] - xs[i + 1])
            step = min(max((p2 - p1 - right * gap) / (left - right), 0.0), gap)
            summit = p1 + left * step
            if left > 0.0 and right < 0.0 and summit > known + 2.0 and summit > floor:
                parts[i // ORDER] = parts[(i + 1) // ORDER] = 2
    for i in range(n):
        # the rounding of x and of the loss looks like summits too, and is never resolved
        if parts[i] == 2 and hi[i] - lo[i] > GRAIN * max(abs(lo[i]), abs(hi[i])):
            wanted += 1
        else:
            parts[i] = 1
    return CROWDED if wanted > MAX_PANELS else wanted


@compiled(
    "void(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[::1], float64[::1],"
    " float64[:,:,:,::1], float64[::1])"
)
def finish(lo, hi, log_p, loss, tilts, logs, report, out):  # type: ignore[no-untyped-def]
    """Judge panels that are to stay.

    Writes the largest share of panels whose nodes are hardly distinct doubles; the error of the
    sums as a share of the mass, misplaced nodes included; and the affinity of the laws at
    neighbouring tilts. Nodes rounded to doubles move the sums on fine panels: next to an end where
    q vanishes the loss changes by its own size from one double to the next.
    """
    out[:] = 0.0
    misplaced, before = 0.0, 1.0
    for a in range(tilts.size):
        total, error, moved = 0.0, 0.0, 0.0
        for i in range(lo.size):
            total += report[i, a, 0, 0]
            error += report[i, a, 1, 1] + report[i, a, 1, 2]
        for i in range(lo.size):
            place, width = max(abs(lo[i]), abs(hi[i])), hi[i] - lo[i]
            if width <= FINEST * place:
                out[0] = max(out[0], report[i, a, 0, 0] / total)
            if 0.5 * width <= FINE * place:
                size, deepest, highest = 0.0, math.inf, -math.inf
                least, most = math.inf, -math.inf
                for j in range(ORDER):
                    v = log_p[i, j] + tilts[a] * loss[i, j] - logs[a]
                    size += WEIGHTS[j] * math.exp(v) if v > LEAST else 0.0
                    least, most = min(least, loss[i, j]), max(most, loss[i, j])
                    highest = max(highest, log_p[i, j])
                    if log_p[i, j] > -math.inf:
                        deepest = min(deepest, log_p[i, j])
                spread = max(highest - deepest, 0.0) + abs(tilts[a]) * (most - least)
                moved += EPS * place * size * spread if size > 0.0 else 0.0
            if a > 0:
                both = report[i, a, 0, 0] / total * (report[i, a - 1, 0, 0] / before)
                out[1 + a] += math.sqrt(both)
        out[1], misplaced = max(out[1], error / total), max(misplaced, moved)
        before = total
    out[1] += misplaced
