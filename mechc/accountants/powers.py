"""Theorem A for many counts on one contour: compiled evaluation and inversion.

The sum for n repetitions is 1 + 2 Re sum_j g_j(n) r^j with g_j(n) = W(z_j) / W(c) phi(jh)^n and
r = exp(ih (n mean - eps)): from one count to the next each g_j takes one multiplication, and a
further epsilon is one more Horner scheme.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled

ULP = 2.2e-16
BLOCK = 32  # counts between fresh starts of the powers of phi
TURNS = 12  # Newton steps, and steps outward to a certified side
ROOM = 1.02  # lest the width, a little larger there, takes a step three times as far
STEADY = 1e-6  # Newton stops when the next step would change log delta by less than its square


# places of a contour's constants in the array `facts`; all of one repetition
C, PERIOD, MEAN, LOG_M, NOISE_M, TAIL, LOG_MASS, LOG_Q, LOWEST = range(9)


@compiled("UniTuple(float64, 2)(complex128[::1], float64)")
def horner(g, turn):  # type: ignore[no-untyped-def]
    """Return 1 + 2 Re sum_j g_j r^j, j = 1, 2, ..., r = exp(i turn), and its derivative."""
    x, y = math.cos(turn), math.sin(turn)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # a + ib the value, c + id the derivative by log r
    for j in range(g.size - 1, -1, -1):
        re, im = g[j].real, g[j].imag
        c, d = c * x - d * y + (j + 1.0) * re, c * y + d * x + (j + 1.0) * im
        a, b = a + re, b + im
        a, b = a * x - b * y, a * y + b * x
    return 1.0 + 2.0 * a, -2.0 * (c * y + d * x)


@compiled("UniTuple(float64, 3)(float64, float64, float64, float64[::1], float64[:,::1])")
def shares_of_images(n, epsilon, log_s, facts, images):  # type: ignore[no-untyped-def]
    """Return what the images add to a sum, as shares of it.

    Args:
        n: repetitions.
        epsilon: any real number.
        log_s: log of the sum.
        facts: constants of the contour by the names above.
        images: rows s, K(s), and what else the bound on the right images has, for s > c.

    Returns:
        Those on the left as far as known, how much more they may be, log of a bound on the right.
    """
    c, period = facts[C], facts[PERIOD]
    damped = (c + 1.0) * period
    first = math.exp(min(50.0, n * facts[LOG_MASS] - c * period - log_s))
    first /= -math.expm1(-c * period)
    second = math.exp(min(50.0, n * facts[LOG_Q] + epsilon - damped - log_s))
    second /= -math.expm1(-damped)
    known, unknown = first - second, 0.0
    if epsilon - period > n * facts[LOWEST]:
        known = max(0.0, known)
        unknown = first - known
    right = 50.0
    for i in range(images.shape[1]):
        right = min(right, n * images[1, i] - epsilon * images[0, i] + images[2, i] - log_s)
    return known, unknown, right


@compiled(
    "UniTuple(float64, 4)(float64, float64, complex128[::1], float64, float64[::1],"
    " float64[:,::1])",
)
def evaluate(n, epsilon, g, noise, facts, images):  # type: ignore[no-untyped-def]
    """Return lower bound, estimate and upper bound of log H, and the slope of the estimate.

    Args:
        n: repetitions.
        epsilon: any real number.
        g: see the module, at n.
        noise: bound on the rounding of the sum over g.
        facts: constants of the contour by the names above.
        images: rows s, K(s), and what else the bound on the right images has, for s > c.
    """
    c, period = facts[C], facts[PERIOD]
    h = 2.0 * math.pi / period
    total, turning = horner(g, h * (n * facts[MEAN] - epsilon))
    if not total > 0.0:
        return -np.inf, np.nan, np.inf, np.nan
    log_s = n * facts[LOG_M] - c * epsilon - math.log(c * (c + 1.0) * period) + math.log(total)
    known, unknown, right = shares_of_images(n, epsilon, log_s, facts, images)
    rounding = n * facts[NOISE_M] + ULP * (
        40.0 + 4.0 * abs(n * facts[LOG_M]) + 4.0 * abs(c * epsilon) + 8.0 * abs(known)
    )
    rounding += (noise + facts[TAIL]) / total
    share = 1.0 - known
    low = share - rounding - math.exp(right) - unknown
    high = share + rounding
    slope = -c - h * turning / total
    return (
        log_s + math.log(low) if low > 0.0 else -np.inf,
        log_s + math.log(share) if share > 0.0 else -np.inf,
        log_s + math.log(high),
        slope,
    )


@compiled(
    "float64(float64, float64[::1], float64[::1], float64[::1], float64, float64, float64,"
    " float64)",
)
def _noise(n, re, im, size, h, mean, epsilon, error):  # type: ignore[no-untyped-def]
    """Bound on the rounding of the sum for all counts up to n and |eps| <= epsilon.

    `error` is the share by which quadrature may be off at every frequency.
    """
    total = 0.0
    extra = 8.0 + 4.0 * re.size + 4.0 * BLOCK + error / ULP
    for j in range(re.size):
        turns = n * abs(im[j]) + (j + 1.0) * h * (n * abs(mean) + epsilon)
        total += size[j] * (extra + n * abs(re[j]) + 2.0 * turns)
    return 2.0 * ULP * total


@compiled(
    "float64(float64, float64, float64, float64, float64, complex128[::1], float64, float64,"
    " float64[::1], float64[:,::1])",
)
def _certified(sign, start, step, target, n, g, noise, cap, facts, images):  # type: ignore[no-untyped-def]
    """Move outward from `start` until the proven side is beyond the target; nan if it never is.

    sign 1: an epsilon whose proven upper bound is at most the target; sign -1: one whose proven
    lower bound exceeds it, or 0.
    """
    for _ in range(TURNS):
        epsilon = start + sign * step
        if epsilon <= 0.0 and sign < 0.0:
            return 0.0
        if abs(epsilon) > cap:
            return np.nan
        lower, _, upper, _ = evaluate(n, epsilon, g, noise, facts, images)
        if (sign > 0.0 and upper <= target) or (sign < 0.0 and lower > target):
            return epsilon
        step *= 3.0
    return np.nan


@compiled(
    "void(float64[::1], float64[:,::1], float64, float64[::1], float64[::1], complex128[::1],"
    " float64[::1], float64[:,::1], float64[::1], float64[:,::1])",
)
def invert(counts, targets, guess, re, im, w, facts, images, known, out):  # type: ignore[no-untyped-def]
    """Write lower bound, estimate and upper bound of epsilon(delta) at each count, nan where not.

    Args:
        counts: repetitions, increasing.
        targets: log delta to stay under, and to exceed, for each count, shape (2, counts).
        guess: epsilon near that of the first count.
        re: real part of log phi of one repetition at h, 2h, ...
        im: imaginary part.
        w: W(z_j) / W(c) at these nodes.
        facts: see `evaluate`.
        images: see `evaluate`.
        known: for each count an epsilon; where the proven delta is on target there, nothing more
            is computed and the answer is that epsilon with lower bound 0 (nan: not known).
        out: shape (3, counts).
    """
    h, mean = 2.0 * math.pi / facts[PERIOD], facts[MEAN]
    g, power = np.empty(re.size, np.complex128), np.empty(re.size, np.complex128)
    size = np.empty(re.size)
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
                g[j] = w[j] * np.exp(n * complex(re[j], im[j]))
                size[j] = abs(g[j])
            last = counts[min(m + BLOCK, counts.size - 1)]
            stale, cap = BLOCK, 4.0 * abs(start) + 1.0
            error = 2.0 * last * facts[NOISE_M]
            noise = _noise(last, re, im, size, h, mean, cap, error)
        else:
            stale -= 1
            for j in range(re.size):
                g[j] *= power[j]
        if known[m] >= 0.0 and known[m] <= cap:
            _, _, upper, _ = evaluate(n, known[m], g, noise, facts, images)
            if upper <= targets[0, m]:
                out[0, m], out[1, m], out[2, m] = 0.0, known[m], known[m]
                streak, guess = 0, known[m]
                continue
        epsilon = start
        lower, middle, upper, slope = -np.inf, np.nan, np.inf, -1.0
        for _ in range(TURNS):
            lower, middle, upper, slope = evaluate(n, epsilon, g, noise, facts, images)
            step = (targets[0, m] - middle) / slope
            if not (slope < 0.0 and abs(epsilon + step) < cap):
                middle = np.nan
                break
            epsilon += step
            if abs(slope * step) < STEADY:
                break
        solved = streak + 1
        streak = 0
        if not (math.isfinite(middle) and math.isfinite(lower)):
            continue
        if epsilon <= 0.0:
            _, _, at_zero, _ = evaluate(n, 0.0, g, noise, facts, images)
            if at_zero <= targets[0, m]:
                out[:, m] = 0.0
            continue
        # what Newton left is of the order of the square of its last step
        rest = (slope * step) ** 2 + 4.0 * ULP * abs(slope * epsilon) + 1e-14
        above = ROOM * (upper - middle + rest) / -slope
        below = ROOM * (middle - lower + rest + targets[0, m] - targets[1, m]) / -slope
        out[2, m] = _certified(1.0, epsilon, above, targets[0, m], n, g, noise, cap, facts, images)
        out[0, m] = _certified(
            -1.0, epsilon, abs(below), targets[1, m], n, g, noise, cap, facts, images
        )
        out[1, m] = epsilon
        streak = solved
