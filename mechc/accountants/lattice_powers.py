"""Losses on a lattice, many counts: compiled evaluation and inversion of the sum over one period.

With step eta, period T (a multiple of eta) and the lattice point p = epsilon + gap next above
epsilon, all of docs/numerics.md, section 5, comes from two sums that depend on p alone,

    B = (eta / T) sum_j M(z_j)^n exp(-p z_j) / (1 - exp(-eta (z_j + 1)))    [exp(p) Q(L >= p)],
    D = the same with 1 / (1 - exp(-eta z_j)) - 1 / (1 - exp(-eta (z_j + 1)))    [H(p)],

for H(epsilon) = D + B (1 - exp(-gap)): between lattice points the profile is a closed form, and so
is its inverse. Images and rounding are those of `powers`.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.accountants.powers import (
    BLOCK,
    LOG_M,
    MEAN,
    NOISE_M,
    PERIOD,
    TAIL,
    TURNS,
    ULP,
    C,
    shares_of_images,
)
from mechc.loss.compiled import compiled

CLOSE = 1e-12  # change of log delta at which Newton stops

# places in `facts` beyond those of `powers`: the lattice of one repetition and how far losses are
# off it, in the tilted mean and at most
OFFSET, STEP, STRAYED, MOST = range(9, 13)


@compiled(
    "UniTuple(float64, 2)(complex128[::1], complex128[::1], float64, float64, float64)",
)
def sums(d, b, d0, b0, turn):  # type: ignore[no-untyped-def]
    """Return d0 + 2 Re sum_j d_j r^j and the same of b, j = 1, 2, ..., r = exp(i turn)."""
    x, y = math.cos(turn), math.sin(turn)
    p, q, u, v = 0.0, 0.0, 0.0, 0.0
    for j in range(d.size - 1, -1, -1):
        p, q = p + d[j].real, q + d[j].imag
        u, v = u + b[j].real, v + b[j].imag
        p, q = p * x - q * y, p * y + q * x
        u, v = u * x - v * y, u * y + v * x
    return d0 + 2.0 * p, b0 + 2.0 * u


@compiled(
    "UniTuple(float64, 4)(float64, float64, complex128[::1], complex128[::1], float64[::1],"
    " float64, float64[::1], float64[:,::1])",
)
def evaluate(n, epsilon, d, b, cell, noise, facts, images):  # type: ignore[no-untyped-def]
    """Return lower bound, estimate and upper bound of log H, and the slope of the estimate.

    Args:
        n: repetitions.
        epsilon: any real number.
        d: terms j = 1, 2, ... of D at n.
        b: those of B.
        cell: the last lattice point in steps from n offsets, D and B there; then the terms j = 0.
        noise: bound on the rounding of the sums.
        facts: constants of the contour by the names above and in `powers`.
        images: as for `powers`.
    """
    c, period, step = facts[C], facts[PERIOD], facts[STEP]
    place = math.floor((epsilon - n * facts[OFFSET]) / step) + 1.0
    point = n * facts[OFFSET] + place * step
    gap = max(point - epsilon, 0.0)
    if place != cell[0]:
        cell[0] = place
        turn = 2.0 * math.pi / period * (n * facts[MEAN] - point)
        cell[1], cell[2] = sums(d, b, cell[3], cell[4], turn)
    total = cell[1] - cell[2] * math.expm1(-gap)
    if not (total > 0.0 and cell[2] > 0.0):
        return -np.inf, np.nan, np.inf, np.nan
    log_s = n * facts[LOG_M] - c * point + math.log(step / period) + math.log(total)
    known, falling, rounding, unknown, right = shares_of_images(n, epsilon, log_s, facts, images)
    rounding += n * facts[NOISE_M] + ULP * (
        40.0 + 4.0 * abs(n * facts[LOG_M]) + 4.0 * abs(c * point)
    )
    rounding += (noise + facts[TAIL]) / total
    # rounding moves losses off the lattice: see Contour._misplaced
    mean = n * facts[STRAYED] + 4.0 * ULP * abs(epsilon)
    most = n * facts[MOST] + 4.0 * ULP * abs(epsilon)
    chernoff = math.exp(min(50.0, c * gap)) * period / (step * total)
    moved = mean * math.exp(min(50.0, c * most)) * chernoff
    if gap > most:
        moved = min(moved, most / math.expm1(min(gap - most, 50.0)))
    rounding += moved
    share = 1.0 - known
    low = share - rounding - math.exp(right) - unknown
    return (
        log_s + math.log(low) if low > 0.0 else -np.inf,
        log_s + math.log(share) if share > 0.0 else -np.inf,
        log_s + math.log(share + rounding),
        (falling - cell[2] * math.exp(-gap) / total) / share,
    )


@compiled(
    "UniTuple(float64, 2)(float64, float64, float64, float64, complex128[::1], complex128[::1],"
    " float64[::1], float64, float64[::1], float64[:,::1])",
)
def _root(n, start, target, cap, d, b, cell, noise, facts, images):  # type: ignore[no-untyped-def]
    """Return where the estimate meets the target and the slope there; nan where nothing is found.

    Newton steps lead to the cell between lattice points; inside it the inverse is explicit, but
    for the images.
    """
    epsilon, slope = start, np.nan
    low, high = -np.inf, np.inf
    for _ in range(TURNS):
        _, middle, _, slope = evaluate(n, epsilon, d, b, cell, noise, facts, images)
        if not (slope < 0.0 and abs(epsilon) < cap and math.isfinite(middle)):
            return np.nan, np.nan
        excess = middle - target
        if abs(excess) < CLOSE:
            return epsilon, slope
        low, high = (epsilon, high) if excess > 0.0 else (low, epsilon)
        # H = D + B (1 - exp(-gap)) is to change by the factor exp(-excess)
        growth = math.expm1(-excess) / -slope
        inside = epsilon + math.log1p(-growth) if growth < 1.0 else -np.inf
        point = n * facts[OFFSET] + cell[0] * facts[STEP]
        if point - facts[STEP] <= inside <= point:
            epsilon = inside  # up to what images change
            continue
        epsilon -= excess / slope  # at least to the next cell
        epsilon = max(epsilon, point) if inside > point else min(epsilon, point - facts[STEP])
        if not low < epsilon < high:
            epsilon = 0.5 * (low + high)
    return np.nan, np.nan


@compiled(
    "float64(float64, float64, float64, float64, float64, float64, complex128[::1],"
    " complex128[::1], float64[::1], float64, float64[::1], float64[:,::1])",
)
def _certified(sign, start, step, target, cap, n, d, b, cell, noise, facts, images):  # type: ignore[no-untyped-def]
    """Move outward from `start` until the proven side is beyond the target; see `powers`."""
    for _ in range(TURNS):
        epsilon = start + sign * step
        if epsilon <= 0.0 and sign < 0.0:
            return 0.0
        if abs(epsilon) > cap:
            return np.nan
        lower, _, upper, _ = evaluate(n, epsilon, d, b, cell, noise, facts, images)
        if (sign > 0.0 and upper <= target) or (sign < 0.0 and lower > target):
            return epsilon
        step *= 3.0
    return np.nan


@compiled(
    "float64(float64, float64[::1], float64[::1], float64[::1], float64, float64, float64)",
)
def _noise(n, re, im, size, h, mean, reach):  # type: ignore[no-untyped-def]
    """Bound on the rounding of D and B together for all counts up to n and |p| <= reach."""
    total = 0.0
    extra = 16.0 + 4.0 * re.size + 4.0 * BLOCK
    for j in range(re.size):
        turns = n * abs(im[j]) + (j + 1.0) * h * (n * abs(mean) + reach)
        total += size[j] * (extra + n * abs(re[j]) + 2.0 * turns)
    return 2.0 * ULP * total


@compiled(
    "void(float64[::1], float64[:,::1], float64, float64[::1], float64[::1], complex128[::1],"
    " complex128[::1], float64[::1], float64[::1], float64[:,::1], float64[::1], float64,"
    " float64[:,::1])",
)
def invert(  # type: ignore[no-untyped-def]
    counts, targets, guess, re, im, d_weight, b_weight, first, facts, images, known, widest, out
):
    """Write lower bound, estimate and upper bound of epsilon(delta) at each count, nan where not.

    Args:
        counts: repetitions, increasing.
        targets: log delta to stay under, and to exceed, for each count, shape (2, counts).
        guess: epsilon near that of the first count.
        re: real part of log phi of one repetition at h, 2h, ...
        im: imaginary part.
        d_weight: weights of D at these nodes.
        b_weight: those of B.
        first: both at node 0.
        facts: see `evaluate`.
        images: see `evaluate`.
        known: for each count an epsilon; where the proven delta is on target there, nothing more
            is computed and the answer is that epsilon with lower bound 0 (nan: not known).
        widest: relative width of delta beyond which there is no answer.
        out: shape (3, counts).
    """
    h, mean = 2.0 * math.pi / facts[PERIOD], facts[MEAN]
    d, b = np.empty(re.size, np.complex128), np.empty(re.size, np.complex128)
    power, size = np.empty(re.size, np.complex128), np.empty(re.size)
    cell = np.array([np.nan, 0.0, 0.0, first[0], first[1]])
    gap, stale, noise, cap = 0.0, 0, 0.0, 0.0
    streak = 0  # counts in a row that have been solved
    for m in range(counts.size):
        n = counts[m]
        out[:, m] = np.nan
        if streak >= 3 and n - counts[m - 3] == 3.0 * gap:
            start = 3.0 * out[1, m - 1] - 3.0 * out[1, m - 2] + out[1, m - 3]
        else:
            start = out[1, m - 1] if streak else guess
        fresh = n - counts[m - 1] if m else 0.0
        if fresh != gap or stale == 0 or start > 0.5 * cap:
            if fresh != gap:
                gap = fresh
                for j in range(re.size):
                    power[j] = np.exp(gap * complex(re[j], im[j]))
            for j in range(re.size):
                wave = np.exp(n * complex(re[j], im[j]))
                d[j], b[j] = d_weight[j] * wave, b_weight[j] * wave
                size[j] = abs(d[j]) + abs(b[j])
            last = counts[min(m + BLOCK, counts.size - 1)]
            stale, cap = BLOCK, 4.0 * abs(start) + 1.0
            noise = _noise(last, re, im, size, h, mean, cap + facts[STEP])
            noise += 4.0 * ULP * (abs(first[0]) + abs(first[1]))
        else:
            stale -= 1
            for j in range(re.size):
                d[j] *= power[j]
                b[j] *= power[j]
        cell[0] = np.nan
        if known[m] >= 0.0 and known[m] <= cap:
            _, _, upper, _ = evaluate(n, known[m], d, b, cell, noise, facts, images)
            if upper <= targets[0, m]:
                out[0, m], out[1, m], out[2, m] = 0.0, known[m], known[m]
                streak, guess = 0, known[m]
                continue
        solved = streak + 1
        streak = 0
        target = targets[0, m]
        epsilon, slope = _root(n, start, target, cap, d, b, cell, noise, facts, images)
        if not slope < 0.0:
            continue
        if epsilon <= 0.0:
            _, _, at_zero, _ = evaluate(n, 0.0, d, b, cell, noise, facts, images)
            if at_zero <= target:
                out[:, m] = 0.0
            continue
        lower, middle, upper, slope = evaluate(n, epsilon, d, b, cell, noise, facts, images)
        if not (math.isfinite(middle) and upper - lower <= widest):
            continue
        rest = abs(middle - target) + 4.0 * ULP * abs(slope * epsilon) + 1e-15
        above = (upper - middle + rest) / -slope
        below = (middle - lower + rest + target - targets[1, m]) / -slope
        now = (cap, n, d, b, cell, noise, facts, images)
        out[2, m] = _certified(1.0, epsilon, above, target, *now)
        out[0, m] = _certified(-1.0, epsilon, abs(below), targets[1, m], *now)
        out[1, m] = epsilon
        streak = solved
