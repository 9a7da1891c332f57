"""What panels lack: their share of the tilted sums, and their error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every
tilt; `look` says which panels to cut and `outward` where to grow; where nothing is lacking,
`summits` looks for modes that no node has seen, and `finish` judges what stays. Loops over nodes
and tilts are compiled; a round is one call of each.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled
from mechc.loss.moments import LEAST, excess, tilted_sums
from mechc.loss.rounding import EPS, U
from mechc.loss.rule import ORDER, PROBE, WEIGHTS

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
GRAIN = 1e-11  # width, as a share of its place, of a panel too narrow to hide a mode
SILENT = np.errstate(all="ignore")  # densities may be zero, and scales far apart


@SILENT
def log_totals(lo: Floats, hi: Floats, log_p: Floats, loss: Floats, tilts: Floats) -> Floats:
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    log_weight = log_p + np.log(0.5 * (hi - lo)[:, None] * WEIGHTS)
    everywhere = np.array([0, loss.size])
    found: Floats = tilted_sums(everywhere, loss.ravel(), log_weight.ravel(), tilts)[:, 0, 0].copy()
    return found


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
    "int64(float64[::1], float64[::1], float64[::1], float64[:,:,:,::1], float64[:,::1],"
    " float64[::1], int64[::1])"
)
def look(lo, hi, goal, report, totals, share, parts):  # type: ignore[no-untyped-def]
    """Say of each panel what share of the sums it has, and into how many parts it is to be cut.

    A panel is halved if its error at some tilt exceeds the goal.

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
        parts[i] = 2 if short > 1.0 and not thin else 1
        wanted += parts[i]
    return wanted


def outward(
    edge: float, sign: float, limit: float, reach: float, last: float, share: float, before: float
) -> list[float]:
    """Edges from the end of a branch outwards, to its limit at most, inf at the end of all numbers.

    Panels are each as long as all before, as many as are needed if shares go on falling as from
    `before` to `share`; `last` is the length of the outermost.
    """
    most, edges, step = 1.0, [edge], reach
    if last > 0.4 * reach and share < before:  # laid so, and out in the tail
        most = math.log(NEGLIGIBLE / share) / math.log(share / before)
    for _ in range(max(1, math.ceil(min(most, DOUBLINGS)))):
        at = edge + sign * step
        if math.isinf(limit) and math.isinf(at) and len(edges) > 1:
            break
        if not math.isinf(limit) and not step < abs(limit - edge):
            edges.append(limit)
            break
        edges.append(at)
        step = 2.0 * step + reach
    return edges


@compiled(
    "int64(float64[::1], float64[:,::1], float64[:,::1], int64[::1], float64, float64, int64[::1])"
)
def _flag_summits(xs, log_p, loss, region, z, total, parts):  # type: ignore[no-untyped-def]
    """Set what `summits` sets, at the tilt z; return whether there is anything."""
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


def summits(
    x: Floats, log_p: Floats, loss: Floats, region: Integers, tilts: Floats, logs: Floats,
    parts: Integers,
) -> bool:  # fmt: skip
    """Cut panels where the slopes around a local maximum point to a higher summit that matters.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.

    Args:
        x: nodes of the panels in a row.
        log_p: log density there, shape (panels, 16).
        loss: the loss there.
        region: the branch of each panel.
        tilts: where the sums have to be good.
        logs: the log totals there.
        parts: all one, and two, afterwards, for a panel to be halved.

    Returns:
        Whether there is one.
    """
    found = 0
    for z, total in zip(tilts.tolist(), logs.tolist(), strict=True):
        found |= _flag_summits(x, log_p, loss, region, z, total, parts)
    return bool(found)


@SILENT
def finish(
    lo: Floats, hi: Floats, log_p: Floats, loss: Floats, tilts: Floats, logs: Floats, report: Floats
) -> tuple[float, float, Floats]:
    """Judge panels that are to stay.

    Returns the largest share of panels whose nodes are hardly distinct doubles, the error of the
    sums as a share of the mass, misplaced nodes included, and the affinity of the laws at
    neighbouring tilts.
    """
    totals = np.add.reduce(report)
    share = report[:, :, 0, 0] / totals[:, 0, 0]
    root = np.sqrt(share)
    affinity: Floats = np.add.reduce(root[:, 1:] * root[:, :-1])
    place, width = np.maximum(np.abs(lo), np.abs(hi)), hi - lo
    error = float(np.maximum.reduce((totals[:, 1, 1] + totals[:, 1, 2]) / totals[:, 0, 0]))
    fine, narrow = width <= 2.0 * FINE * place, 0.0
    if np.logical_or.reduce(fine):
        thin = width <= FINEST * place
        narrow = float(share[thin].max(initial=0.0))
        log_p, loss, by = log_p[fine], loss[fine], EPS * place[fine]
        # next to an end where q vanishes the loss changes by its own size from a double to the next
        error += max(
            float(
                by
                @ (
                    _exp(log_p + z * loss - total)
                    @ WEIGHTS
                    * (_range(log_p) + abs(z) * _range(loss))
                )
            )
            for z, total in zip(tilts.tolist(), logs.tolist(), strict=True)
        )
    return narrow, error, affinity


def _exp(x: Floats) -> Floats:
    """Return exp(x), zero far down where only the time of denormal numbers would be spent."""
    out: Floats = np.exp(x, out=np.zeros_like(x), where=x > LEAST)
    return out


def _range(values: Floats) -> Floats:
    """Largest minus smallest value of each row, of those above -inf."""
    most = values.max(axis=1)
    least = np.where(values > -np.inf, values, np.inf).min(axis=1)
    out: Floats = np.maximum(most - least, 0.0)
    return out
