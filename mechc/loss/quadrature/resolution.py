"""What a panel has to resolve: its share of the tilted sums, and its error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every tilt;
`summits` looks for modes so narrow that they hide between two nodes; `missed` for modes beyond the
panels that only a large tilt brings out.

Loops over nodes and tilts are compiled, the rest works on whole arrays.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled
from mechc.loss.moments import LEAST, excess
from mechc.loss.rounding import EPS, U
from mechc.loss.rule import ORDER, PROBE, WEIGHTS

Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-24  # share of the tilted total that may be left out
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)
CLIFF = 20.0  # nats by which the integrand may fall between neighbouring nodes that matter
ROUNDING = 1.5 * U  # of a node, as a share of the far end of its panel
FINE = 1e-4  # half width, as a share of its place, of a panel whose nodes are rounded noticeably
NOTHING = -100.0  # log of a share that is not worth an exponential
FAINT = 1e-40  # a sum, as a share of the total, whose error is of no interest
SILENT = np.errstate(all="ignore")  # densities may be zero, and scales far apart


@compiled("void(float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1])")
def _log_totals(log_p, loss, half, tilts, out):  # type: ignore[no-untyped-def]
    """Write what `log_totals` returns."""
    for a in range(tilts.size):
        z, top, total = tilts[a], -math.inf, 0.0
        for i in range(half.size):
            for j in range(ORDER):
                top = max(top, log_p[i, j] + z * loss[i, j])
        for i in range(half.size):
            share = 0.0
            for j in range(ORDER):
                v = log_p[i, j] + z * loss[i, j] - top
                if v > NOTHING:
                    share += WEIGHTS[j] * math.exp(v)
            total += half[i] * share
        out[a] = top + math.log(total)


def log_totals(log_p: Floats, loss: Floats, half: Floats, tilts: Floats) -> Floats:
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    out = np.empty(tilts.size)
    _log_totals(log_p, loss, half, tilts, out)
    return out


def _exp(x: Floats, least: float = LEAST) -> Floats:
    """Return exp(x), zero far down where only the time of denormal numbers would be spent."""
    out: Floats = np.exp(x, out=np.zeros_like(x), where=x > least)
    return out


def _range(values: Floats) -> Floats:
    """Largest minus smallest value of each row, of those above -inf."""
    most = values.max(axis=1)
    least = np.where(values > -np.inf, values, np.inf).min(axis=1)
    out: Floats = np.maximum(most - least, 0.0)
    return out


@SILENT
def misplaced(
    log_p: Floats, loss: Floats, half: Floats, place: Floats, tilts: Floats, log_total: Floats
) -> float:
    """Share of the tilted sums by which nodes rounded to doubles may move them, on fine panels.

    Next to an end where q vanishes the loss changes by its own size from one double to the next.
    """
    fine = half <= FINE * place
    if not fine.any():
        return 0.0
    log_p, loss = log_p[fine], loss[fine]
    of_p, of_loss, by = _range(log_p), _range(loss), EPS * place[fine]
    return max(
        float(by @ (_exp(log_p + z * loss - total) @ WEIGHTS * (of_p + abs(z) * of_loss)))
        for z, total in zip(tilts, log_total, strict=True)
    )


@compiled(
    "void(float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], float64[:,::1], float64[:,:,:,::1])"
)
def _judge(log_p, loss, lo, hi, tilts, log_total, work, out):  # type: ignore[no-untyped-def]
    """Write to `out` what `judge` returns; `work` is room for three numbers a node."""
    p, back, top = work[0], work[1], work[2]
    for i in range(lo.size):
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


def judge(
    log_p: Floats, loss: Floats, lo: Floats, hi: Floats, tilts: Floats, log_total: Floats
) -> Floats:
    """Return per panel, tilt and integrand its sum, its estimated error, and its displacement.

    Integrand 0 is p exp(zL), judged by its top coefficients alone, for the mass; integrand 1 is
    the deviation from the chord, or, where M(z) is far below M(0) and M(-1), p exp(zL) again.
    Nodes are rounded to an ulp of the larger of |lo| and |hi|, which moves log p and the loss by
    that share of their change over the panel.
    `out[i, a, b]` is (sum of absolute values, error, displacement) in units of exp(log_total[a]);
    the displacement is what the rounding of nodes may change, at most its size times the total
    variation.
    """
    out = np.zeros((lo.size, tilts.size, 2, 3))
    _judge(log_p, loss, lo, hi, tilts, log_total, np.empty((3, ORDER)), out)
    return out


@compiled(
    "void(float64[::1], float64[::1], float64[::1], int64[::1], float64, float64, boolean[::1])"
)
def _flag_summits(xs, log_p, loss, region, z, total, flagged):  # type: ignore[no-untyped-def]
    """Flag what `summits` flags at the tilt z; `xs`, `log_p` and `loss` hold all nodes in a row."""
    for i in range(1, xs.size - 2):
        if region[(i - 1) // ORDER] != region[(i + 2) // ORDER]:
            continue  # four nodes in a row on one branch
        p0, p1 = log_p[i - 1] + z * loss[i - 1], log_p[i] + z * loss[i]
        p2, p3 = log_p[i + 1] + z * loss[i + 1], log_p[i + 2] + z * loss[i + 2]
        cliff = abs(p2 - p1) > CLIFF
        if not (cliff or (p1 > p0 and p3 < p2)):
            continue
        gap = xs[i + 1] - xs[i]
        known, floor = max(p1, p2), total + LOG_NEGLIGIBLE - math.log(gap)
        if cliff and known > floor:
            flagged[(i + 1 if p1 > p2 else i) // ORDER] = True
        left, right = (p1 - p0) / (xs[i] - xs[i - 1]), (p3 - p2) / (xs[i + 2] - xs[i + 1])
        step = min(max((p2 - p1 - right * gap) / (left - right), 0.0), gap)
        summit = p1 + left * step
        if left > 0.0 and right < 0.0 and summit > known + 2.0 and summit > floor:
            flagged[i // ORDER] = flagged[(i + 1) // ORDER] = True


def summits(
    xs: Floats, log_p: Floats, loss: Floats, region: NDArray[np.int64], tilts: Floats,
    log_total: Floats,
) -> NDArray[np.bool_]:  # fmt: skip
    """Flag panels where the slopes around a local maximum point to a higher summit that matters.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.
    """
    flagged = np.zeros(region.size, np.bool_)
    xs, log_p, loss = xs.ravel(), log_p.ravel(), loss.ravel()
    for z, total in zip(tilts, log_total, strict=True):
        _flag_summits(xs, log_p, loss, region, z, total, flagged)
    return flagged


@compiled("void(float64[:,:,:,::1], float64[:,:,::1], float64[::1], float64[::1], float64[::1])")
def _shares(report, totals, goal, share, short):  # type: ignore[no-untyped-def]
    """Write what `shares` returns."""
    for i in range(share.size):
        for a in range(totals.shape[0]):
            share[i] = max(share[i], report[i, a, 0, 0] / totals[a, 0, 0])
            for b in range(2):
                allowed = goal[b] * totals[a, b, 0] + 1e-300
                short[i] = max(short[i], report[i, a, b, 1] / allowed)


def shares(report: Floats, totals: Floats, goal: Floats) -> tuple[Floats, Floats]:
    """Return each panel's largest share of a tilted sum, and its largest error in units of `goal`.

    Args:
        report: what `judge` says of the panels.
        totals: its sums over them.
        goal: the error of a panel to aim for in each integrand, as a share of the total.
    """
    share, short = np.zeros(len(report)), np.zeros(len(report))
    _shares(report, totals, goal, share, short)
    return share, short


@SILENT
def missed(
    x: Floats, log_p: Floats, loss: Floats, edge: float, tilts: Floats, log_total: Floats
) -> int:
    """Return the index of the farthest point beyond `edge` with mass at some tilt, or -1."""
    size = log_p + np.log(np.abs(x - edge))
    found = size + tilts[:, None] * loss - log_total[:, None] > LOG_NEGLIGIBLE
    counts = found.any(axis=0) & np.isfinite(log_p) & np.isfinite(loss)
    return int(np.flatnonzero(counts)[-1]) if counts.any() else -1
