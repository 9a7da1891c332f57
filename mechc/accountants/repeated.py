"""Epsilon after few repetitions of one step: every count from one recursion through all of them.

The recursion of `recursion` passes g_1, g_2, ... on its way to the largest number. Each stands
there as a piecewise polynomial with a bound on its error, so that

    log H_n(epsilon) = n K(t) - t epsilon + log g_n(epsilon)

is inverted by Newton steps of a microsecond. The tilt is that of the largest number; where it
leaves too little of g_n for fewer repetitions, they get a recursion of their own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.recursion import SHARED, Level, Recursion
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.jit import compiled
from mechc.loss.privacy_loss import Step
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

LONG = 200  # steps in all that are gone through one by one ...
LONGEST, DENSE = 1200, 0.1  # ... and where this share of the numbers beyond is asked for
RECURSIONS = 4
GOAL = 0.1  # relative error of delta aimed at, in units of the largest that is accepted,
CLOSER = 0.1  # ... and what is tried where that does not do
TURNS = 60
CLOSE = 1e-13  # change of log delta at which Newton stops


def epsilons(step: Step, counts: Floats, targets: Floats, near: float, widest: float) -> Floats:
    """Return lower bound, estimate and upper bound of epsilon at each count.

    Args:
        step: the one distinct step of a repetition.
        counts: repetitions, increasing, all >= 1.
        targets: log of the finite part of delta to stay under, and to exceed, shape (2, n).
        near: epsilon near that of the largest count.
        widest: relative error of delta that is accepted.

    Returns:
        Shape (3, n), nan where nothing was found.
    """
    out = np.full((3, counts.size), np.nan)
    left = np.flatnonzero(counts * step.count <= _longest(step, counts * step.count))
    goal = GOAL * widest
    for _ in range(RECURSIONS):
        if not left.size:
            break
        most = max(int(counts[left[-1]]) * step.count + 1, SHARED)
        try:
            target = float(targets[0, left[-1]])
            recursion = Recursion((Step(step.loss, most),), near, goal, target)
        except (NumericError, UnsupportedError):
            break
        answered = 0
        for i in left[::-1].tolist():
            level = recursion.level(int(counts[i]) * step.count)
            found = _invert(level, targets[:, i].copy(), near, widest)
            if found is None:
                break
            out[:, i] = found
            near, answered = found[1], answered + 1
        left = left[: left.size - answered]
        if not answered:
            if goal < GOAL * widest:
                break
            goal *= CLOSER  # errors have added up to more than was aimed at
    return out


def _longest(step: Step, numbers: Floats) -> float:
    """The largest number of steps that is worth to be gone through one by one."""
    far = numbers[(numbers > LONG) & (numbers <= LONGEST)]
    dense = far.size and far.size >= DENSE * (float(far[-1]) - LONG)
    return float(far[-1]) if dense and not step.loss.atom_loss.size else LONG  # kinks add up


def _invert(
    level: Level, targets: Floats, near: float, widest: float
) -> tuple[float, float, float] | None:
    """Bounds on where H falls to the targets; None where the error is too large."""
    edges, coefficients = level.function.edges, level.function.coefficients
    facts = np.array([level.shift, level.tilt, level.log_mgf, level.relative, level.floor])
    found: Floats = _search(edges, coefficients, facts, targets, max(near, 0.0), widest)
    lower, middle, upper = found.tolist()
    return None if math.isnan(upper) else (lower, middle, upper)


@compiled("UniTuple(float64, 4)(float64[::1], float64[:,::1], float64[::1], float64)")
def _log_value(edges, coefficients, facts, epsilon):  # type: ignore[no-untyped-def]
    """Return lower bound, estimate and upper bound of log H, and the slope of the estimate."""
    shift, tilt, log_mgf, relative, floor = facts
    u = epsilon - shift
    if not edges[0] <= u < edges[-1]:
        return -np.inf, -np.inf, np.inf, np.nan
    m = np.searchsorted(edges, u, side="right") - 1
    scale = 2.0 / (edges[m + 1] - edges[m])
    x = min(1.0, max(-1.0, (u - edges[m]) * scale - 1.0))
    c = coefficients[m]
    value, slope = 0.0, 0.0
    t0, t1, d0, d1 = 1.0, x, 0.0, 1.0
    value = c[0]
    for n in range(1, c.size):
        value += c[n] * t1
        slope += c[n] * d1
        t0, t1, d0, d1 = t1, 2.0 * x * t1 - t0, d1, 2.0 * t1 + 2.0 * x * d1 - d0
    if not value > 0.0:
        return -np.inf, -np.inf, np.inf, np.nan
    exponent = log_mgf - tilt * epsilon
    rounding = 2.0 * EPS * (abs(log_mgf) + abs(tilt * epsilon) + tilt * abs(shift))
    error = relative + floor / value + rounding
    middle = math.log(value) + exponent
    low = middle + math.log1p(-error) if error < 1.0 else -np.inf
    return low, middle, middle + math.log1p(error), slope * scale / value - tilt


@compiled(
    "float64[::1](float64[::1], float64[:,::1], float64[::1], float64[::1], float64, float64)",
)
def _search(edges, coefficients, facts, targets, start, widest):  # type: ignore[no-untyped-def]
    """Return [lower, estimate, upper] of epsilon: Newton steps in a bracket, then outward.

    nan where the error is larger than `widest`, and where the function does not reach the target.
    """
    out = np.full(3, np.nan)
    low, high = max(0.0, edges[0] + facts[0]), edges[-1] + facts[0]
    if not high > low:
        return out
    lower, middle, upper, slope = _log_value(edges, coefficients, facts, low)
    if upper <= targets[0] and low == 0.0:
        out[:] = 0.0
        return out
    if not middle > targets[0]:
        return out
    epsilon = start if low < start < high else 0.5 * (low + high)
    for _ in range(TURNS):
        lower, middle, upper, slope = _log_value(edges, coefficients, facts, epsilon)
        if middle > targets[0]:
            low = epsilon
        else:
            high = epsilon
        step = (targets[0] - middle) / slope
        new = epsilon + step
        if abs(slope * step) <= CLOSE:
            break
        epsilon = new if low < new < high else 0.5 * (low + high)
    if not (slope < 0.0 and upper - lower <= widest and abs(middle - targets[0]) <= widest):
        return out
    width = max(upper - lower, CLOSE)
    for side in range(2):
        sign = 1.0 if side == 0 else -1.0
        step = (width + abs(targets[0] - targets[1]) + abs(middle - targets[0])) / -slope
        step += 4.0 * EPS * epsilon
        for _ in range(TURNS):
            at = epsilon + sign * step
            if at <= 0.0:
                out[0] = 0.0
                break
            lower, _, upper, _ = _log_value(edges, coefficients, facts, at)
            if side == 0 and upper <= targets[0]:
                out[2] = at
                break
            if side == 1 and lower > targets[1]:
                out[0] = at
                break
            step *= 2.0
    if math.isnan(out[0]) or math.isnan(out[2]):
        out[:] = np.nan
        return out
    out[1] = epsilon
    return out
