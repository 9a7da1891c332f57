"""What a panel has to resolve: its share of the tilted sums, and its error there.

Accountants sum p exp(zL) and, because M(0) and M(-1) are known, its deviation from the chord
between them, p (exp(zL) - 1 + z (exp(-L) - 1)). `judge` measures both on every panel at every tilt;
`summits` looks for modes so narrow that they hide between two nodes; `missed` for modes beyond the
panels that only a large tilt brings out.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.jit import compiled
from mechc.loss.moments import excess
from mechc.loss.rounding import EPS, U
from mechc.loss.rule import PROBE, WEIGHTS

NEGLIGIBLE = 1e-24  # share of the tilted total that may be left out
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)
CLIFF = 20.0  # nats by which the integrand may fall between neighbouring nodes that matter
ROUNDING = 1.5 * U  # of a node, as a share of the far end of its panel
FINE = 1e-4  # half width, as a share of its place, of a panel whose nodes are rounded noticeably
NOTHING = -100.0  # log of a share that is not worth an exponential


@compiled("float64[::1](float64[:,::1], float64[:,::1], float64[::1], float64[::1])")
def log_totals(log_p, loss, half, tilts):  # type: ignore[no-untyped-def]
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    out = np.empty(tilts.size)
    for a in range(tilts.size):
        z = tilts[a]
        top = -np.inf
        for i in range(half.size):
            for j in range(16):
                top = max(top, log_p[i, j] + z * loss[i, j])
        total = 0.0
        if top > -np.inf:
            for i in range(half.size):
                for j in range(16):
                    v = log_p[i, j] + z * loss[i, j] - top
                    if v > NOTHING:
                        total += half[i] * WEIGHTS[j] * math.exp(v)
        out[a] = top + math.log(total) if total > 0.0 else -np.inf
    return out


@compiled("float64(float64)")
def _exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x), zero far down where only the time of denormal numbers would be spent."""
    return math.exp(x) if x > -700.0 else 0.0


@compiled("float64(float64[::1])")
def _range(values):  # type: ignore[no-untyped-def]
    """Largest minus smallest value."""
    least, most = np.inf, -np.inf
    for value in values:
        if value > -np.inf:
            least, most = min(least, value), max(most, value)
    return most - least if most > least else 0.0


@compiled(
    "float64(float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1])",
)
def misplaced(log_p, loss, half, place, tilts, log_total):  # type: ignore[no-untyped-def]
    """Share of the tilted sums by which nodes rounded to doubles may move them, on fine panels.

    Next to an end where q vanishes the loss changes by its own size from one double to the next.
    """
    worst = 0.0
    for a in range(tilts.size):
        moved = 0.0
        for i in range(half.size):
            if half[i] > FINE * place[i]:
                continue
            total = 0.0
            for j in range(16):
                total += WEIGHTS[j] * _exp(log_p[i, j] + tilts[a] * loss[i, j] - log_total[a])
            change = _range(log_p[i]) + abs(tilts[a]) * _range(loss[i])
            moved += EPS * place[i] * total * change
        worst = max(worst, moved)
    return worst


@compiled(
    "float64[:,:,:,::1](float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], int64[::1], float64[:,:,:,::1])",
)
def judge(log_p, loss, half, place, tilts, log_total, origin, known):  # type: ignore[no-untyped-def]
    """Return per panel, tilt and integrand its sum, its estimated error, and its displacement.

    Integrand 0 is p exp(zL), judged by its top coefficients alone, for the mass; integrand 1 is
    the deviation from the chord, or, where M(z) is far below M(0) and M(-1), p exp(zL) again.
    `place` is the larger of |lo| and |hi|: nodes are rounded to an ulp of it, which moves log p and
    the loss by that share of their change over the panel.
    `out[i, a, b]` is (sum of absolute values, error, displacement) in units of exp(log_total[a]);
    the displacement is what the rounding of nodes may change, at most its size times the total
    variation. Panels with origin[i] >= 0 have been judged before, as known[origin[i]].
    """
    out = np.empty((half.size, tilts.size, 2, 3))
    f = np.empty((2, 16))
    c = np.empty(4)
    p, q, back = np.empty(16), np.empty(16), np.empty(16)
    noise = np.empty(2)
    for i in range(half.size):
        if origin[i] >= 0:
            # by elements: assigning a slice compiles numpy's broadcasting and its messages, 3 s
            for a in range(tilts.size):
                for b in range(2):
                    for e in range(3):
                        out[i, a, b, e] = known[origin[i], a, b, e]
            continue
        highest = -np.inf
        moved = 0.25 * place[i] / half[i]
        change_p, change_loss = moved * _range(log_p[i]), moved * _range(loss[i])
        for j in range(16):
            p[j] = _exp(log_p[i, j])
            back[j] = excess(-loss[i, j]) if loss[i, j] > -600.0 else -1.0
            q[j] = 0.0 if back[j] >= 0.0 else _exp(log_p[i, j] - loss[i, j])
            highest = max(highest, log_p[i, j], log_p[i, j] - loss[i, j])
        for a in range(tilts.size):
            z = tilts[a]
            # P and Q nearly disjoint: M(z) is no small change of M(0) but far below it
            apart = log_total[a] < -1.0
            top = -np.inf if apart else highest + math.log1p(abs(z))
            for j in range(16):
                top = max(top, log_p[i, j] + z * loss[i, j])
            if not top + math.log(half[i]) - log_total[a] > NOTHING:
                out[i, a, :, :] = 0.0
                continue
            unit = 1.0 if apart else math.exp(-log_total[a])
            noise[:] = 0.0
            for j in range(16):
                turn = z * loss[i, j]
                size = 2.0 + abs(log_p[i, j]) + abs(turn) + change_p + abs(z) * change_loss
                if apart:
                    f[0, j] = f[1, j] = _exp(log_p[i, j] + turn - log_total[a])
                    noise[0] = noise[1] = max(noise[0], size * f[0, j])
                    continue
                plain = p[j] * unit
                if abs(turn) < 0.5:
                    bend = excess(turn)
                    f[0, j] = plain * (1.0 + turn + bend)
                    f[1, j] = plain * bend
                else:
                    f[0, j] = _exp(log_p[i, j] + turn - log_total[a])
                    f[1, j] = f[0, j] - plain * (1.0 + turn)
                    noise[1] = max(noise[1], size * (f[0, j] + plain * (1.0 + abs(turn))))
                f[1, j] += z * (plain * back[j] if back[j] >= 0.0 else q[j] * unit)
                if z == 0.0 or z == -1.0:
                    f[1, j] = 0.0  # known masses, nothing to resolve
                for b in range(2):
                    noise[b] = max(noise[b], size * abs(f[b, j]))
            for b in range(2):
                total = 0.0
                for j in range(16):
                    total += WEIGHTS[j] * abs(f[b, j])
                out[i, a, b, 0] = half[i] * total
                out[i, a, b, 1] = out[i, a, b, 2] = 0.0
                if total * half[i] < 1e-40:
                    continue
                for j in range(15):
                    out[i, a, b, 2] += ROUNDING * place[i] * abs(f[b, j + 1] - f[b, j])
                c[:] = 0.0
                for j in range(16):
                    for m in range(4):
                        c[m] += PROBE[m, j] * f[b, j]
                # what rounding leaves in a coefficient is not a lack of resolution
                high = max(abs(c[0]), abs(c[1])) - 4e-15 * noise[b]
                if high > 0.0:
                    out[i, a, b, 1] = half[i] * high
                    if b > 0:
                        ratio = high / max(abs(c[2]), abs(c[3]), high)
                        out[i, a, b, 1] *= max(ratio * ratio, high / (high + total))
    return out


@compiled(
    "b1[::1](float64[::1], float64[:,::1], float64[:,::1], int64[::1], float64[::1], float64[::1])",
)
def summits(xs, log_p, loss, region, tilts, log_total):  # type: ignore[no-untyped-def]
    """Flag panels where the slopes around a local maximum point to a higher summit that matters.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.
    """
    n = region.size * 16
    flagged = np.zeros(region.size, np.bool_)
    ps, ls = log_p.ravel(), loss.ravel()
    psi = np.empty(n)
    for a in range(tilts.size):
        floor = log_total[a] + LOG_NEGLIGIBLE
        for i in range(n):
            psi[i] = ps[i] + tilts[a] * ls[i]
        for i in range(1, n - 2):
            p1, p2 = psi[i], psi[i + 1]
            cliff = abs(p1 - p2) > CLIFF
            if not (cliff or (psi[i - 1] < p1 and psi[i + 2] < p2)):
                continue
            if region[(i - 1) // 16] != region[(i + 2) // 16]:
                continue
            gap = xs[i + 1] - xs[i]
            known = max(p1, p2)
            if cliff and known + math.log(gap) > floor:
                flagged[(i + 1) // 16 if p1 > p2 else i // 16] = True
            left = (p1 - psi[i - 1]) / (xs[i] - xs[i - 1])
            right = (psi[i + 2] - p2) / (xs[i + 2] - xs[i + 1])
            if not (left > 0.0 and right < 0.0):
                continue
            step = (p2 - p1 - right * gap) / (left - right)
            summit = p1 + left * min(max(step, 0.0), gap)
            if summit > known + 2.0 and summit + math.log(gap) > floor:
                flagged[i // 16] = True
                flagged[(i + 1) // 16] = True
    return flagged


@compiled(
    "int64(float64[::1], float64[::1], float64[::1], float64, float64[::1], float64[::1])",
)
def missed(x, log_p, loss, edge, tilts, log_total):  # type: ignore[no-untyped-def]
    """Return the index of the farthest point beyond `edge` with mass at some tilt, or -1."""
    for i in range(x.size - 1, -1, -1):
        if not (math.isfinite(log_p[i]) and math.isfinite(loss[i])):
            continue
        size = log_p[i] + math.log(abs(x[i] - edge))
        for a in range(tilts.size):
            if size + tilts[a] * loss[i] - log_total[a] > LOG_NEGLIGIBLE:
                return i
    return -1
