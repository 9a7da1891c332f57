"""The trade-off function from the privacy profile.

f(alpha) = sup over a > 0 of g(a), g(a) = 1 - delta(log a) - a alpha, the smallest false negative
rate of any test of "record present" against "absent" at false positive rate alpha (Dong, Roth, Su
2022, Proposition 2.13; over all real epsilon, as pairs need not be symmetric). g is concave because
delta is convex in a = e^epsilon. So any evaluated point gives a lower bound, and three points
around the maximum give an upper bound by extending their chords.

On a lattice of losses g is piecewise linear in a with its corners at a = e^loss: the maximum is the
value at one corner, the curve is the hull of the deterministic tests and its straight pieces are
reached by randomised ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mechc.accountants.bound import Bound
from mechc.accountants.contours.trapezoid import Lattice
from mechc.accountants.lattice import common_lattice
from mechc.errors import UnsupportedError
from mechc.loss.truncated_loss import is_resolved

if TYPE_CHECKING:
    from mechc.composition.evaluation import Evaluation


TURNS = 120
ULPS = 4.0 * 2.0**-52  # rounding of the two terms of g
GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))
CLOSE = 1e-7  # width in epsilon at which the search stops: g is flat there


@dataclass(frozen=True)
class Point:
    """g at one epsilon."""

    epsilon: float
    lower: float
    estimate: float
    upper: float
    status: str

    @property
    def a(self) -> float:
        """e^epsilon."""
        return math.exp(self.epsilon)

    @property
    def hope(self) -> float:
        """What g may be: estimates next to 0 may lie below 0 and lead a search away."""
        known = self.upper == self.upper and self.estimate != -math.inf
        return self.upper if known else self.estimate


def false_negative(evaluation: Evaluation, alpha: float) -> Bound:
    """Return bounds on f(alpha), the smaller of the directions.

    Args:
        evaluation: the run by one method.
        alpha: false positive rate in [0, 1].
    """
    answers = [_in_direction(evaluation, d, alpha) for d in evaluation.directions]
    best = min(answers, key=lambda b: float(b.estimate))
    lowers, uppers = [float(b.lower) for b in answers], [float(b.upper) for b in answers]
    return Bound(
        math.nan if any(map(math.isnan, lowers)) else min(lowers),
        best.estimate,
        min((u for u in uppers if not math.isnan(u)), default=math.nan),
        best.method,
        best.status,
        best.detail,
    )


def _in_direction(evaluation: Evaluation, direction: str, alpha: float) -> Bound:
    if alpha in (0.0, 1.0):
        return _end(evaluation, direction, alpha)

    refusals: list[UnsupportedError] = []

    def g(epsilon: float) -> Point:
        cost = math.exp(epsilon) * alpha
        try:
            bound = evaluation.log_delta_in(direction, epsilon)
        except UnsupportedError as refusal:  # the method may still answer at the maximum
            refusals.append(refusal)
            return Point(epsilon, -math.inf, -math.inf, 1.0 - cost, str(refusal))
        # 1 - delta from log delta, which has all its digits where delta is nearly one
        sides = bound.upper, bound.estimate, bound.lower
        low, mid, high = (-math.expm1(float(side)) for side in sides)
        noise = ULPS * (high + cost)
        return Point(epsilon, low - cost - noise, mid - cost, high - cost + noise, bound.status)

    points = _maximise(g, -math.log(alpha))
    steps = evaluation.steps[direction]
    lattice = common_lattice(steps) if all(is_resolved(s.loss) for s in steps) else None
    if lattice is not None:
        points = _corners(g, max(points, key=lambda p: p.hope).epsilon, lattice)
    best = max(range(len(points)), key=lambda i: points[i].hope)
    if lattice is not None:
        best = 1  # of three corners; its neighbours may be as high
    top = points[best]
    if top.estimate == -math.inf:
        raise refusals[-1]
    left, right = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    lower = max([0.0, *(p.lower for p in points if p.lower == p.lower)])
    above = _chords if lattice is None else _between_corners
    return Bound(
        lower if top.lower == top.lower else math.nan,
        max(lower, top.estimate),
        above(left, top, right, alpha),
        evaluation.method,
        top.status,
        {"direction": direction, "epsilon": top.epsilon},
    )


def _end(evaluation: Evaluation, direction: str, alpha: float) -> Bound:
    """Ends of the curve: at alpha = 1 nothing is missed, at 0 the mass at infinity is caught."""
    value = 0.0 if alpha == 1.0 else -math.expm1(evaluation.log_infinite_in(direction))
    return Bound(value, value, value, evaluation.method, "proven", {"direction": direction})


def _maximise(g: Any, highest: float) -> list[Point]:
    """Golden section search on epsilon <= -log(alpha); returns all points, in order.

    Beyond -log(alpha) g is not positive, and far to the left it is below 1 - e^epsilon's mirror,
    so the bracket is grown leftwards until g falls.
    """
    hi, width = highest, 1.0
    points = [g(hi)]
    while len(points) < TURNS:
        points.append(g(hi - width))
        if len(points) > 2 and points[-1].hope < points[-2].hope:
            break
        if points[-1].hope < points[0].hope:
            break
        width *= 2.0
    points.sort(key=lambda p: p.epsilon)
    for _ in range(TURNS):
        best = max(range(len(points)), key=lambda i: points[i].hope)
        lo = points[max(best - 1, 0)].epsilon
        hi = points[min(best + 1, len(points) - 1)].epsilon
        mid = points[best].epsilon
        if hi - lo < CLOSE * max(1.0, abs(mid)):
            break
        left = mid - lo >= hi - mid
        new = mid - GOLDEN * (mid - lo) if left else mid + GOLDEN * (hi - mid)
        points.append(g(new))
        points.sort(key=lambda p: p.epsilon)
    return points


def _corners(g: Any, near: float, lattice: Lattice) -> list[Point]:
    """Return the best corner near a maximum, with its neighbours."""
    start = round((near - lattice.offset) / lattice.step)
    known: dict[int, Point] = {}

    def at(index: int) -> Point:
        if index not in known:
            known[index] = g(lattice.offset + lattice.step * index)
        return known[index]

    for _ in range(TURNS):
        best = max((start - 1, start, start + 1), key=lambda i: (at(i).hope, i == start))
        if best == start:
            break
        start = best
    return [at(start - 1), at(start), at(start + 1)]


def _between_corners(left: Point, top: Point, right: Point, alpha: float) -> float:
    """Upper bound on a concave function, linear between three points, that peaks at the middle one.

    Beyond its neighbours it only rises if they are not certified to be lower, and then no steeper
    than their excess allows: to the left down to a = 0, to the right up to a = 1/alpha.
    """
    bounds = [left.upper, top.upper, right.upper]
    if any(map(math.isnan, bounds)):
        return math.nan
    if top.a > left.a:  # else both are 0 in doubles
        excess = max(0.0, left.upper - top.lower)
        bounds.append(left.upper + excess * left.a / (top.a - left.a))
    if right.a > top.a:
        excess = max(0.0, right.upper - top.lower)
        bounds.append(right.upper + excess * max(0.0, 1.0 / alpha - right.a) / (right.a - top.a))
    return min(1.0 - alpha, max(0.0, *bounds))


def _chords(left: Point, top: Point, right: Point, alpha: float) -> float:
    """Upper bound on a concave function that peaks between three points.

    Between left and top it is below the chord from right through top, and the other way round;
    outside it is below top's neighbours as long as these are certified to be lower.
    """
    if math.isnan(top.upper + left.lower + right.lower):
        return math.nan
    bounds = [top.upper, left.upper, right.upper]
    if top.a > left.a:
        bounds.append(top.upper + _rise(top, left) * (right.a - top.a))
    if right.a > top.a:
        bounds.append(top.upper + _rise(top, right) * (top.a - left.a))
    return min(1.0 - alpha, max(0.0, *bounds))


def _rise(top: Point, side: Point) -> float:
    """Steepest slope the chord from `side` to `top` may have, continued beyond `top`."""
    return max(0.0, (top.upper - side.lower) / abs(top.a - side.a))
