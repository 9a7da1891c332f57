"""The trade-off function from the privacy profile, and what an attacker can do by it.

f(alpha) = sup over a > 0 of g(a), g(a) = 1 - delta(log a) - a alpha, the smallest false negative
rate of any test of "record present" against "absent" at false positive rate alpha (Dong, Roth, Su
2022, Proposition 2.13; over all real epsilon, as pairs need not be symmetric). delta is convex in
a = e^epsilon, so g is concave; g(0) = 0 and g(a) <= 1 - delta(inf) - a alpha.

Every evaluated point gives a lower bound, and any two of them an upper bound beyond: the line
through them. The upper side is the peak of the lowest of these lines, and the search goes on where
that is (cutting planes without gradients): on a lattice, where g is piecewise linear, at a corner.

True positives, errors and reconstruction follow from f and the profile. H1 says that the record is
present (under replacement: is the one), H0 that it is not; both directions are covered, so that it
does not matter which is which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.composition.inputs import from_log
from mechc.errors import UnsupportedError
from mechc.loss.rounding import EPS

if TYPE_CHECKING:
    from mechc.composition.evaluation import Evaluation


Floats = NDArray[np.float64]

TURNS = 100  # evaluations of one answer
ULPS = 8.0 * EPS  # rounding of g, relative to its two terms, and of a line
CLOSE = 1e-10  # distance of the sides, as a share of f, at which the search stops
WIDE = 1e-6  # distance of the sides, as a share of f, that is looked at again ...
NUDGES = (1e-9, -1e-9, 1e-6, -1e-6, 1e-4, -1e-4)  # ... at these relative distances in epsilon
DISTINCT = 1e-9  # relative distance in epsilon of two points
SMALLEST = 1e-303  # a alpha of points that lines are drawn through
LEAST_RATE = 1e-300  # f is asked for at this rate instead of smaller ones
FLAT = 16 * EPS  # rounding of 1 - f, with that of f


@dataclass(frozen=True)
class Point:
    """g at one epsilon: a alpha, its sides, what is thought best, and where they come from."""

    epsilon: float
    cost: float
    lower: float
    middle: float
    upper: float
    source: Bound | UnsupportedError


def false_negative(evaluation: Evaluation, alpha: float) -> Bound:
    """Return bounds on f(alpha), the smaller of the directions.

    Args:
        evaluation: the run by one method.
        alpha: false positive rate in [0, 1].

    Raises:
        UnsupportedError: the method refuses where the maximum is.
    """
    answers = [_in_direction(evaluation, d, alpha) for d in evaluation.directions]
    best = min(answers, key=lambda b: [v for v in (b.estimate, b.lower, 1.0) if v == v])
    uppers = [float(b.upper) for b in answers if not math.isnan(float(b.upper))]
    lower = float(np.min([b.lower for b in answers]))  # nan if one is
    return replace(best, lower=lower, upper=min(uppers, default=math.nan))


def _in_direction(evaluation: Evaluation, direction: str, alpha: float) -> Bound:
    infinite = evaluation.log_delta_in(direction, math.inf)
    best, most = (-math.expm1(float(side)) for side in (infinite.upper, infinite.lower))
    if alpha in (0.0, 1.0):  # at 1 nothing is missed, at 0 all but the mass at infinity
        sides = (best, -math.expm1(float(infinite.estimate)), most)
        about = {"direction": direction}
        lower, estimate, upper = (0.0 if alpha else side for side in sides)
        return Bound(lower, estimate, upper, evaluation.method, infinite.status, about)
    if alpha < LEAST_RATE:
        return replace(_in_direction(evaluation, direction, LEAST_RATE), upper=most)
    most = 1.0 if math.isnan(most) else most
    points = [_point(evaluation, direction, alpha, 0.0)]

    def search(sides: Callable[[Point], tuple[float, float]]) -> float:
        """Add points where g may be largest, until its sides are close; return the upper one."""
        for turn in range(TURNS):
            points.sort(key=lambda p: p.epsilon)
            best = max(range(len(points)), key=lambda i: sides(points[i])[0])
            seen = [p for p in points if p.cost > SMALLEST]
            low, high = (np.array([0.0, *side]) for side in zip(*map(sides, seen), strict=True))
            places = np.array([0.0, *(p.cost for p in seen)])
            peak, where = _peak(places, low, high, (1.0 - alpha) / alpha, most)
            noise = sides(points[best])[1] - sides(points[best])[0] + ULPS * points[best].cost
            if len(points) == TURNS or not peak - low.max() > 2.0 * noise + CLOSE * peak:
                break
            new = math.log(where) - math.log(alpha) if where > 0.0 else math.nan
            if turn % 2 and 0 < best < len(points) - 1:
                new = _vertex([(p.epsilon, sides(p)[0]) for p in points[best - 1 : best + 2]], new)
            if not min(abs(p.epsilon - new) for p in points) > DISTINCT * max(1.0, abs(new)):
                break
            points.append(_point(evaluation, direction, alpha, new))
        return min(max(peak, 0.0), 1.0 - alpha)

    search(lambda p: (p.middle, p.middle))
    upper = math.nan
    if not any(math.isnan(p.upper) for p in points):
        upper = search(lambda p: (p.lower, p.upper))
        best = max(points, key=lambda p: p.upper).epsilon
        for off in NUDGES:  # just at a corner delta may be known less well than beside it
            if upper - max(p.lower for p in points) <= WIDE * upper:
                break
            points.append(_point(evaluation, direction, alpha, best + off * max(1.0, abs(best))))
    top = max(points, key=lambda p: p.middle)
    if isinstance(top.source, UnsupportedError):
        raise top.source
    lower, at = top.lower, top.epsilon
    if not math.isnan(lower):  # at the epsilon that proves it
        lower, at = max((p.lower, p.epsilon) for p in points if not math.isnan(p.lower))
        lower = max(0.0, lower)
    estimate = top.middle if not math.isnan(float(top.source.estimate)) else math.nan
    estimate = max(estimate, lower if lower == lower else 0.0)
    detail = {**top.source.detail, "epsilon": at, "evaluations": len(points)}
    method, status = evaluation.method, top.source.status
    return Bound(lower, min(estimate, upper), upper, method, status, detail)


def _point(evaluation: Evaluation, direction: str, alpha: float, epsilon: float) -> Point:
    """Evaluate g; where the method refuses, by what always holds, as it may answer elsewhere."""
    half = math.exp(0.5 * epsilon)
    cost = half * alpha * half  # neither factor overflows
    source: Bound | UnsupportedError
    try:
        source = evaluation.log_delta_in(direction, epsilon)
        # 1 - delta from log delta, which has all its digits where delta is nearly one
        sides = source.upper, source.estimate, source.lower
        low, middle, high = (-math.expm1(float(side)) for side in sides)
        if math.isnan(middle) and math.isnan(low):
            raise UnsupportedError(source.status)
    except UnsupportedError as refusal:
        source, low, middle, high = refusal, 0.0, 0.0, 1.0
    noise = ULPS * ((1.0 if math.isnan(high) else high) + cost)
    middle = low if math.isnan(middle) else middle
    return Point(epsilon, cost, low - cost - noise, middle - cost, high - cost + noise, source)


def _peak(a: Floats, low: Floats, high: Floats, first: float, most: float) -> tuple[float, float]:
    """Return the largest value that a concave function with slopes >= -1 may have, and a place.

    Args:
        a: places, increasing from 0, shape (n,).
        low: what the function is at least there; 0 at 0.
        high: what it is at most there; 0 at 0.
        first: the function is at most first * a ...
        most: ... and at most most - a.
    """
    rise = np.subtract.outer(high, low) / (np.subtract.outer(a, a) + np.eye(a.size))  # k from j
    before = np.tri(a.size, k=-1, dtype=bool)
    left = np.where(before, rise, math.inf).min(axis=1)  # slopes beyond a, ...
    right = np.where(before.T, rise, -math.inf).max(axis=1)  # ... and of lines that end there
    left[0] = first
    right = np.maximum(right, -1.0)
    left, right = left + ULPS * np.abs(left), right - ULPS * np.abs(right)
    top, high = most * (1.0 + ULPS), high + ULPS * np.abs(high)
    ends = np.append(a[1:], max(a[-1], 2.0))
    cells = np.arange(a.size)
    sides = []
    for x in (a, ends):
        up = np.where(cells[:, None] >= cells, high + left * (x[:, None] - a), math.inf)
        down = np.where(cells[:, None] < cells, high + right * (x[:, None] - a), math.inf)
        down = np.column_stack([down, top - (1.0 - ULPS) * x])
        sides.append((up, down))
    (up_a, down_a), (up_b, down_b) = sides
    found = np.full(a.size, math.inf)
    where = a.copy()
    for i in (up_a.argmin(axis=1), up_b.argmin(axis=1)):
        for j in (down_a.argmin(axis=1), down_b.argmin(axis=1)):
            ua, ub, da, db = up_a[cells, i], up_b[cells, i], down_a[cells, j], down_b[cells, j]
            start, end = np.minimum(ua, da), np.minimum(ub, db)
            with np.errstate(divide="ignore", invalid="ignore"):
                share = (da - ua) / ((da - ua) - (db - ub))
            crossed = (share > 0.0) & (share < 1.0)
            share = np.where(crossed, share, 0.0)
            middle = np.where(crossed, ua + share * (ub - ua), -math.inf)
            value = np.maximum(np.maximum(start, end), middle)
            end_place = np.where(start > end, a, ends)
            place = np.where(middle >= value, a + share * (ends - a), end_place)
            better = value < found
            found[better], where[better] = value[better], place[better]
    cell = int(found.argmax())
    return float(found[cell]), float(where[cell])


def _vertex(points: list[tuple[float, float]], other: float) -> float:
    """Where the parabola through three points peaks; `other` if that is not between them."""
    (x0, y0), (x1, y1), (x2, y2) = points
    first, second = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = (second - first) / (x2 - x0)
    place = 0.5 * (x0 + x1 - first / bend) if bend < 0.0 else math.nan
    return place if x0 < place < x2 else other


def true_positive(evaluation: Evaluation, fpr: float) -> Bound:
    """Return bounds on 1 - f(fpr), the largest power of a test at a false positive rate.

    Power is also inf over epsilon of delta(epsilon) + e^epsilon fpr, so that any epsilon gives an
    upper bound; that one has its digits where 1 - f has lost them.

    Args:
        evaluation: the run by one method.
        fpr: false positive rate in [0, 1].
    """
    found = false_negative(evaluation, fpr)
    lower, middle, upper = (1.0 - float(s) for s in (found.upper, found.estimate, found.lower))
    lower, upper = lower - FLAT, upper + FLAT
    at = math.inf if fpr == 0.0 else float(found.detail.get("epsilon", math.nan))
    if not math.isnan(at) and not math.isnan(upper):
        there = from_log(evaluation.log_delta(at))
        cost = (
            math.exp(min(at, 700.0) + math.log(fpr)) * (1.0 + 8 * EPS * (abs(at) + 700.0))
            if fpr
            else 0.0
        )
        if at <= 700.0 or fpr == 0.0:
            upper = min(upper, (float(there.upper) + cost) * (1.0 + 2 * EPS))
        if fpr == 0.0:
            lower, middle = max(lower, float(there.lower)), float(there.estimate)
    lower = max(lower, fpr)
    upper = min(max(upper, fpr), 1.0) if upper == upper else upper
    middle = min(max(middle, lower), upper) if upper == upper else middle
    return Bound(lower, middle, upper, found.method, found.status, found.detail)


def bayes_risk(evaluation: Evaluation, prior: float) -> Bound:
    """Return bounds on the least probability of error where H1 has a prior probability.

    The smallest prior FNR + (1 - prior) FPR over all tests is prior (1 - delta(epsilon)) at
    epsilon = log((1 - prior) / prior), by the definition of delta as a supremum over tests.

    Args:
        evaluation: the run by one method.
        prior: in [0, 1].
    """
    if prior in (0.0, 1.0):
        return Bound(
            0.0, 0.0, 0.0, "prior", "proven", {"epsilon": math.inf if prior == 0 else -math.inf}
        )
    epsilon = math.log1p(-prior) - math.log(prior)
    found = evaluation.log_delta(epsilon)
    # 1 - delta changes by at most the factor e^r when epsilon changes by r
    pad = (abs(epsilon) + 16.0) * EPS
    most = min(prior, 1.0 - prior)
    sides = [-prior * math.expm1(float(s)) for s in (found.upper, found.estimate, found.lower)]
    lower, middle, upper = sides[0] * (1.0 - pad), min(sides[1], most), sides[2] * (1.0 + pad)
    upper = min(upper, most) if upper == upper else upper
    detail = {**found.detail, "epsilon": epsilon}
    return Bound(lower, middle, upper, found.method, found.status, detail)
