"""Compiled sums over the nodes of a privacy loss: tilted moments and generating functions.

All functions take `loss` and `log_weight` (nodes and atoms together, E_P[g(L)] = sum w g(loss))
and are exact up to rounding for the discrete law they are given.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np

_JIT: dict[str, Any] = {"error_model": "numpy", "cache": True}
_SMALL = 25.0  # largest |t L| for which sums of expm1 neither overflow nor lose accuracy


@nb.njit("float64(float64[::1], float64[::1], float64)", **_JIT)
def log_sum(loss, log_weight, t):  # type: ignore[no-untyped-def]
    """Return log sum exp(log_weight + t loss)."""
    top = -np.inf
    for j in range(loss.size):
        v = log_weight[j] + t * loss[j]
        if v > top:
            top = v
    if top == -np.inf:
        return -np.inf
    total = 0.0
    carry = 0.0
    for j in range(loss.size):
        v = math.exp(log_weight[j] + t * loss[j] - top) - carry
        new = total + v
        carry = (new - total) - v
        total = new
    return top + math.log(total)


@nb.njit("float64(float64[::1], float64[::1], float64, float64)", **_JIT)
def log_mgf(loss, log_weight, log_mass, t):  # type: ignore[no-untyped-def]
    """Return K(t) = log E_P[exp(tL); L finite], with mass exp(log_mass) known in advance.

    sum w expm1(tL) keeps relative accuracy where K itself is tiny, as in one step of many.
    """
    largest = 0.0
    for j in range(loss.size):
        if log_weight[j] > -700.0:
            largest = max(largest, abs(t * loss[j]))
    if largest > _SMALL or log_mass < -1e-3:
        return log_sum(loss, log_weight, t)
    total = 0.0
    carry = 0.0
    for j in range(loss.size):
        v = math.exp(log_weight[j]) * math.expm1(t * loss[j]) - carry
        new = total + v
        carry = (new - total) - v
        total = new
    return math.log1p(total + math.expm1(log_mass))


@nb.njit("float64[::1](float64[::1], float64[::1], float64, float64, int64)", **_JIT)
def central_moments(loss, log_weight, log_m, t, order):  # type: ignore[no-untyped-def]
    """Tilted mean and central moments 2..order of the law exp(tL - K) dP, K = log_m.

    Returns an array [1, mean, mu_2, ..., mu_order].
    """
    out = np.zeros(max(order, 1) + 1)
    out[0] = 1.0
    total = 0.0
    mean = 0.0
    for j in range(loss.size):
        w = math.exp(log_weight[j] + t * loss[j] - log_m)
        total += w
        mean += w * loss[j]
    mean /= total
    # second pass: the correction term makes the mean accurate to the spread, not to its size
    shift = 0.0
    for j in range(loss.size):
        shift += math.exp(log_weight[j] + t * loss[j] - log_m) * (loss[j] - mean)
    mean += shift / total
    out[1] = mean
    for j in range(loss.size):
        w = math.exp(log_weight[j] + t * loss[j] - log_m) / total
        d = loss[j] - mean
        power = w * d
        for r in range(2, order + 1):
            power *= d
            out[r] += power
    return out


@nb.njit("float64(float64[::1], float64[::1], float64, float64, float64)", **_JIT)
def log_abs_moment3(loss, log_weight, log_m, t, mean):  # type: ignore[no-untyped-def]
    """Log of the tilted third absolute central moment."""
    total = 0.0
    scale = 0.0
    for j in range(loss.size):
        scale = max(scale, abs(loss[j] - mean))
    if scale == 0.0:
        return -np.inf
    for j in range(loss.size):
        d = abs(loss[j] - mean) / scale
        total += math.exp(log_weight[j] + t * loss[j] - log_m) * d * d * d
    return math.log(total) + 3.0 * math.log(scale)


@nb.njit("float64(float64[::1], float64[::1], float64, float64)", **_JIT)
def rounding_of_mgf(loss, log_weight, log_m, t):  # type: ignore[no-untyped-def]
    """Bound on the rounding error of M(t)/exp(log_m), kernels being good to 4 ulp.

    A weight exp(log p) is off by |log p| ulp, exp(tL) by |tL| ulp; only their effect on
    expm1(tL) counts, because the total mass is known exactly. The same bound holds on the line
    Re z = t, where |exp(zL) - 1| <= |exp(tL) - 1| + exp(tL) min(2, |y L|) adds a term that the
    caller scales with y.
    """
    total = 0.0
    for j in range(loss.size):
        tilted = math.exp(log_weight[j] + t * loss[j] - log_m)
        plain = math.exp(log_weight[j] - log_m)
        size = abs(t * loss[j])
        change = tilted * size if size < 1.0 else tilted + plain
        total += change * (4.0 + abs(log_weight[j])) + 4.0 * tilted * size
    return 2.2e-16 * total


def cumulants_from_moments(moments: np.ndarray, log_m: float) -> np.ndarray:
    """Return [K, kappa_1, ..., kappa_n] from [1, mean, mu_2, ...] by the standard recursion."""
    n = moments.size - 1
    out = np.zeros(n + 1)
    out[0], out[1] = log_m, moments[1]
    mu = moments.copy()
    mu[1] = 0.0
    for r in range(2, n + 1):
        out[r] = mu[r] - sum(
            math.comb(r - 1, m - 1) * out[m] * mu[r - m] for m in range(2, r - 1)
        )
    return out
