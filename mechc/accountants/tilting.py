"""Exponential tilting of all steps of a composition at once, compiled."""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled


@compiled("float64(float64[::1], float64[::1])")
def _inner(a, b):  # type: ignore[no-untyped-def]
    """Inner product with compensated summation."""
    total = 0.0
    carry = 0.0
    for j in range(a.size):
        v = a[j] * b[j] - carry
        new = total + v
        carry = (new - total) - v
        total = new
    return total


@compiled(
    "Tuple((float64[::1], float64[:,::1], int64[::1], float64[::1], float64[::1]))"
    "(int64[::1], float64[::1], float64[::1], float64, float64)",
)
def tilt(offsets, loss, log_weight, c, floor):  # type: ignore[no-untyped-def]
    """Tilt the nodes of every step at c, normalise and centre them.

    Nodes stay out of the second half of the answer while they carry at most `floor` of a step.

    Returns the weights of all nodes; rows [mean, standard deviation, weight left out] of the
    steps; and offsets, centred losses and weights of the nodes that stay.
    """
    weights, centred = np.empty(loss.size), np.empty(loss.size)
    rows = np.empty((offsets.size - 1, 3))
    kept = np.zeros(offsets.size, np.int64)
    m = 0
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        w, d = weights[a:b], np.empty(b - a)
        top = -np.inf
        for j in range(b - a):
            w[j] = log_weight[a + j] + c * loss[a + j]
            top = max(top, w[j])
        for j in range(b - a):
            w[j] = math.exp(w[j] - top)
        w /= _inner(w, np.ones(b - a))
        first = _inner(w, loss[a:b])
        for j in range(b - a):
            d[j] = loss[a + j] - first
        second = _inner(w, d)  # what rounding has left of the mean
        d -= second
        least = floor / max(b - a, 1)
        variance, rest = 0.0, 0.0
        for j in range(b - a):
            variance += w[j] * d[j] * d[j]
            if w[j] > least:
                centred[m] = d[j]
                m += 1
            else:
                rest += w[j]
        rows[i, 0], rows[i, 1], rows[i, 2] = first + second, math.sqrt(variance), rest
        kept[i + 1] = m
    weight = np.empty(m)
    m = 0
    for i in range(offsets.size - 1):
        least = floor / max(offsets[i + 1] - offsets[i], 1)
        for j in range(offsets[i], offsets[i + 1]):
            if weights[j] > least:
                weight[m] = weights[j]
                m += 1
    return weights, rows, kept, centred[:m].copy(), weight
