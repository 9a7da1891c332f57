"""Plain tilted sums of a composition, one exponential a node: to choose contours, not to answer.

K is good to absolute accuracy only, and its rounding is returned with it, so that a bound that is
far from tight anyway may use it.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled
from mechc.loss.exponentials import exponentials
from mechc.loss.moments import tilted_sums

TURNS, CLOSE = 200, 1e-4  # Newton steps to a saddle point, and a relative step that is the last
HALF = 0.6  # -log |phi| of one step up to which 1 - |phi| tells the decay


@compiled(
    "float64[:,::1](int64[::1], float64[::1], float64[::1], float64[::1], float64[::1])",
)
def sums(offsets, counts, loss, log_weight, tilts):  # type: ignore[no-untyped-def]
    """Return rows [K, K', K'', rounding of K] of the composition at real tilts, by plain sums."""
    out = np.zeros((tilts.size, 4))
    for i in range(counts.size):
        a, b = offsets[i], offsets[i + 1]
        for m in range(tilts.size):
            one = tilted_sums(loss[a:b], log_weight[a:b], tilts[m])
            for r in range(4):
                out[m, r] += counts[i] * one[r]
    return out


@compiled(
    "UniTuple(float64, 2)(int64[::1], float64[::1], float64[::1], float64[::1], float64, float64)",
)
def _slope(offsets, counts, loss, log_weight, t, epsilon):  # type: ignore[no-untyped-def]
    """Return F'(t) and F''(t) for F(t) = K(t) - eps t - log t - log(1 + t)."""
    first, second = -epsilon - 1.0 / t - 1.0 / (t + 1.0), t**-2 + (1.0 + t) ** -2
    for i in range(counts.size):
        a, b = offsets[i], offsets[i + 1]
        one = tilted_sums(loss[a:b], log_weight[a:b], t)
        first += counts[i] * one[1]
        second += counts[i] * one[2]
    return first, second


@compiled(
    "UniTuple(float64, 2)(int64[::1], float64[::1], float64[::1], float64[::1], float64, float64)",
)
def saddle(offsets, counts, loss, log_weight, epsilon, limit):  # type: ignore[no-untyped-def]
    """Return the root t of F' up to `limit`, or the limit where there is none, and F''(t).

    Newton's method in log t, inside a bracket; the first guess is that of a normal law.
    """
    mean, variance = 0.0, 0.0
    for i in range(counts.size):
        a, b = offsets[i], offsets[i + 1]
        one = tilted_sums(loss[a:b], log_weight[a:b], 0.0)
        mean += counts[i] * one[1]
        variance += counts[i] * one[2]
    slope, bend = _slope(offsets, counts, loss, log_weight, limit, epsilon)
    if not slope > 0.0:
        return limit, bend
    gap, variance = epsilon - mean, max(variance, 1e-300)
    root = math.sqrt(gap * gap + 8.0 * variance)
    t = (gap + root) / (2.0 * variance) if gap > 0.0 else 4.0 / (root - gap)
    low, high = 0.0, limit
    t = min(t, 0.9 * limit)
    for _ in range(TURNS):
        slope, bend = _slope(offsets, counts, loss, log_weight, t, epsilon)
        low, high = (t, high) if slope < 0.0 else (low, t)
        step = -slope / (bend * t)
        if abs(step) < CLOSE or high - low <= 1e-6 * high:
            break
        new = t * math.exp(min(1.5, max(-3.0, step)))
        if not low < new < high:
            new = math.sqrt(low * high) if low > 0.0 else 0.1 * high
        t = new
    return t, bend


@compiled("float64(int64[::1], float64[::1], float64[::1], float64[::1], float64, float64)")
def fading(offsets, counts, loss, log_weight, t, goal):  # type: ignore[no-untyped-def]
    """Estimate the frequency at which |phi| of the composition, tilted at t, is exp(-goal).

    From 1 - |phi| ~ E min((yD)^2 / 2, 1), D the centred loss: unlike the variance it does not take
    a rare far mode for fast decay. Centred at the mean or at the heaviest node, whichever says
    less: beside a far mode the mean is far from either, and a shift is no decay. For few steps the
    decay is continued like a normal law's.
    """
    w, at_mean, at_mode = np.empty(loss.size), np.empty(loss.size), np.empty(loss.size)
    variance = 0.0
    for i in range(counts.size):
        a, b = offsets[i], offsets[i + 1]
        k, mean, var, _ = tilted_sums(loss[a:b], log_weight[a:b], t)
        variance += counts[i] * var
        mode = a
        for j in range(a, b):
            at_mode[j] = min(log_weight[j] + t * loss[j] - k, 0.0)
            mode = j if at_mode[j] > at_mode[mode] else mode
        exponentials(at_mode[a:b], w[a:b])
        for j in range(a, b):
            at_mean[j] = 0.5 * (loss[j] - mean) ** 2
            at_mode[j] = 0.5 * (loss[j] - loss[mode]) ** 2
    near = min(goal, HALF * counts.sum())
    y = math.sqrt(2.0 * near / max(variance, 1e-300))
    for _ in range(12):
        total = 0.0
        for i in range(counts.size):
            f, g = 0.0, 0.0
            for j in range(offsets[i], offsets[i + 1]):
                f += w[j] * min(y * y * at_mean[j], 1.0)
                g += w[j] * min(y * y * at_mode[j], 1.0)
            total -= counts[i] * math.log(max(1.0 - min(f, g), 0.02))
        if total > near:
            break
        y *= min(4.0, max(1.1, math.sqrt(near / total)))
    return y * math.sqrt(goal / near)
