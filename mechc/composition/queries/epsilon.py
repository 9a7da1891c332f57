"""From log delta as a function of epsilon to epsilon as a function of log delta.

In: an Evaluation and a target log delta. Out: bounds on the smallest epsilon >= 0 with
delta(epsilon) <= target. The sides are certified one evaluation at a time, without assuming that
the computed curves are smooth or monotone:

* upper: an epsilon at which the proven *upper* bound of log delta is at most the target;
* lower: an epsilon at which the proven *lower* bound of log delta exceeds the target (or 0);
* estimate: the root of the estimate.

Since the true delta is decreasing, each is right whatever the search did. Evaluations are what
costs time, so the search starts at the saddle point estimate, or for one use at the root of delta
on the nodes of its law, uses secant steps inside a bracket, and every loop has a cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from mechc.accountants.bound import ESTIMATED, Bound, Place, worse
from mechc.accountants.convolution import Nodes
from mechc.composition.inputs import LogDelta
from mechc.composition.queries.evaluation import Evaluation
from mechc.errors import MechcError, NumericError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, distinct
from mechc.numeric.allowance import OutOfWorkError, share
from mechc.numeric.logs import log1mexp
from mechc.numeric.rounding import EPS

MAX_EVALUATIONS = 200  # of delta in one search
LARGEST_EPSILON = 1e300  # that is looked at
BENT = 12  # evaluations up to which a slow search without an upper end lengthens its steps
MAX_STEPS = 60  # outward steps from a root to its certified side
GRAINS = 50.0  # from which on two values of log delta give a slope
JUMP = 1e-2  # share of a side's distance within which its end is found where it jumps
ROOM = 1e-3, 0.02  # shares that such a step is longer than its slope says, the least and the most
OWN_SEARCH = 1e-3  # nats beyond which a side gets a root search of its own
WIDE = 0.1  # nats of width up to which a share of it need not be resolved
NOTHING = 1e-18  # an epsilon that is none
NEXT_TO = 1e-12  # relative distance to the largest loss at which an answer is as good as that
DEEP = -50.0  # log of a target that may lie where laws on grids are not resolved
AT_TOP, NEAR_TOP = 1e-10, 1e-6  # where searches end there, and where delta is still told from 0
LARGE = 100.0  # the same where losses have no end
HALVED = 25  # halvings of a step towards a lower side
ROUGHEST = 0.3  # nats, the same where a rough answer is wider
COARSE = 0.02  # nats within which the target has to be met before the narrowest method is asked
NARROW = 1e-11  # width in log delta from which on no narrower answer is looked for
MAIN = 0.85  # share of the work for the first of two directions, of which the other needs a check
SADDLE = 0.003  # share of the work for the start of a search
ROUGH = 1e-3  # relative error of delta of one use on the way to that, by nodes of its law ...
SHALLOW = -28.0  # ... which do not tell targets below
RARE = 2.0  # times a start by other means, from which on rare large losses are behind one
FIRST = Place(1.0, -1.0)  # when nothing is known


@dataclass
class Curve:
    """Log delta in one direction, remembered point by point."""

    log_delta: Callable[[float], Bound]
    target: float
    low: float = 0.0  # delta is known to exceed the target here, or this is 0 ...
    high: float = math.inf  # ... and here to be at most the target
    steers: float = math.inf  # width from which on answers only steer
    points: dict[float, Bound] = field(default_factory=dict)

    def at(self, epsilon: float) -> Bound:
        """Return the bound at epsilon, refused where the search has used up its evaluations."""
        if epsilon not in self.points:
            if self.is_used_up(epsilon):
                raise NumericError(
                    f"epsilon search: no root after {MAX_EVALUATIONS} evaluations, "
                    f"log delta target {self.target!r}, last epsilon {epsilon!r}"
                )
            self.points[epsilon] = self.log_delta(epsilon)
        return self.points[epsilon]

    def is_used_up(self, epsilon: float) -> bool:
        """Whether epsilon is one more than may be evaluated."""
        return len(self.points) >= MAX_EVALUATIONS and epsilon not in self.points

    def excess(self, side: str, epsilon: float) -> float:
        """Return one side of log delta minus the target.

        The proven sides are moved outward by the rounding of exp and log, so that the answer also
        holds for delta itself. Where an expansion gives no positive delta it counts as none.
        """
        value = float(getattr(self.at(epsilon), side))
        if value == -math.inf or (side == "estimate" and math.isnan(value)):
            return -math.inf
        slack = 1.5 * EPS * (abs(self.target) + 4.0)
        return (
            value - self.target + (slack if side == "upper" else -slack if side == "lower" else 0)
        )

    def least_proven(self) -> float:
        """Return the least epsilon seen at which the proven upper bound is at most the target."""
        return min((e for e in self.points if self.excess("upper", e) <= 0), default=math.inf)

    def most_proven(self) -> float:
        """Return the largest epsilon seen at which the proven lower bound exceeds the target."""
        return max((e for e in self.points if self.excess("lower", e) > 0), default=0.0)

    def noise(self, epsilon: float) -> float:
        """Return how far log delta has to be from the target to matter: half of a rough width."""
        width = self.width(epsilon)
        rough = min(max(0.5 * width, COARSE), ROUGHEST) if width > self.steers else 0.0
        return max(self.grain(epsilon), rough)

    def width(self, epsilon: float) -> float:
        """Return the width in log delta."""
        return float(self.at(epsilon).upper) - float(self.at(epsilon).lower)

    def grain(self, epsilon: float) -> float:
        """Return what differences of log delta are told by: 2 % of its own width."""
        width = self.width(epsilon)
        return max(self.ulps, 0.02 * width if width < WIDE else 0.0)

    @property
    def ulps(self) -> float:
        """What rounding moves log delta by."""
        return max(2e-13, 4 * EPS * abs(self.target))


def epsilon(evaluation: Evaluation, log_target: float, highest: float = math.inf) -> Bound:
    """Return bounds on the smallest epsilon >= 0 with log delta(epsilon) <= log_target.

    From `highest` on no lower side is looked for.
    """
    if log_target >= 0.0:
        return _exact(0.0, evaluation, "no delta exceeds one")
    if evaluation.no_lower:
        if log_target == -math.inf:  # laws that dominate may end elsewhere
            tops = [evaluation.renyi(d, math.inf) for d in evaluation.directions]
            return max(tops, key=lambda bound: float(bound.upper))
        found = epsilon(evaluation.of_pairs(), log_target)
        highest = min(highest, float(found.upper))
        return evaluation.of_mechanisms(found, lambda below: epsilon(below, log_target, highest))
    least, most = evaluation.log_infinite_range()
    told = evaluation.told_mass() if most > -math.inf else 0.0
    delta = log_target.delta if isinstance(log_target, LogDelta) else math.nan
    # doubles tell them apart where they are known: several have one log, and logs are rounded
    if delta < told or (log_target < least and not delta >= told):
        return _exact(math.inf, evaluation, "the mass at infinite loss exceeds delta")
    others = list(evaluation.directions)
    if log_target <= most:
        if least < most or (most > -math.inf and not delta >= told):
            return _next_to_infinite_mass(evaluation, log_target, highest)
        ended = [d for d in others if not evaluation.log_delta_in(d, math.inf).upper < log_target]
        others = [d for d in others if d not in ended]
        top, rounding = evaluation.largest_loss(*ended)
        answer = _exact(top, evaluation, "delta is the mass at infinite loss", rounding)
    else:
        with share(MAIN if len(others) > 1 else 1.0):
            answer = _in_direction(evaluation, others.pop(0), log_target)
    for direction in others:
        side = "estimate" if math.isnan(float(answer.upper)) else "upper"
        most = float(answer.upper)
        if side == "upper" and evaluation.bounded(direction, most, log_target) is not None:
            continue
        rough = Curve(partial(evaluation.log_delta_in, direction, target=log_target), log_target)
        curve = Curve(partial(evaluation.log_delta_in, direction), log_target)
        at = float(getattr(answer, side))
        if side == "upper" and rough.excess("upper", at) <= 0:
            continue
        if math.isnan(at) or rough.excess("lower", at) > 0 or not curve.excess(side, at) <= 0:
            answer = worse(answer, _in_direction(evaluation, direction, log_target))
        elif side == "estimate" and math.isnan(float(curve.at(at).estimate)):
            answer.detail["no answer"] = f"{direction}: {curve.at(at).status}"
    return answer


def _exact(value: float, evaluation: Evaluation, why: str, rounding: float = 0.0) -> Bound:
    """Answer at the end of the profile, where no inversion is needed."""
    lower = max(0.0, value - rounding)
    return Bound(lower, value, value + rounding, evaluation.method, "proven", {"reason": why})


def _next_to_infinite_mass(evaluation: Evaluation, log_target: float, highest: float) -> Bound:
    """Answer where delta is the mass at infinite loss up to what is known of that."""
    curve = Curve(evaluation.log_delta, log_target)
    top = evaluation.largest_loss()[0]
    step = min(top, LARGE, highest)
    for _ in range(HALVED):  # down to where delta is proven to exceed the target, and up again
        with suppress(UnsupportedError, NumericError):  # a method may refuse so far out
            curve.at(curve.most_proven() + step)
        step *= 0.5
    lower = curve.most_proven()
    why = {"reason": "delta is the mass at infinite loss, as far as that is known"}
    return Bound(lower, top, math.inf, evaluation.method, "proven", why)


def _in_direction(evaluation: Evaluation, direction: str, log_target: float) -> Bound:
    curve = Curve(partial(evaluation.log_delta_in, direction, target=log_target), log_target)
    curve.low, curve.high = _bracket(evaluation, direction, log_target)
    near_top = _at_top(curve, curve.low)  # before a law is resolved for the tilts of its end
    if near_top is not None:
        return near_top
    start, slope = _start(evaluation, direction, log_target)
    if evaluation.is_rough_first and log_target < DEEP and curve.high < math.inf:
        start = curve.high  # laws on grids end where one step does, with little below
    near_top = _at_top(curve, start)
    if near_top is not None:
        return near_top
    if not (curve.low < start < curve.high or start == curve.low == 0.0):
        start = 0.5 * (curve.low + curve.high) if curve.high < math.inf else 2.0 * curve.low
    exactly = partial(evaluation.log_delta_in, direction)
    narrow = Curve(exactly, log_target, curve.low, curve.high)
    found = _as_a_row(evaluation, direction, Place(start, slope), narrow)
    if isinstance(found, Bound):
        return found
    start, slope = found
    first = curve.at(start)
    upper_only = math.isnan(float(first.estimate)) and not math.isnan(float(first.upper))
    main = "upper" if upper_only else "estimate"
    again = evaluation.is_rough_first  # when the place is known, by the narrowest method there
    # an answer of the first method that is narrow enough is the narrowest
    curve.steers = evaluation.rtol if again else math.inf
    near, slope = root(curve, main, start, slope)
    if main == "estimate" and math.isnan(float(curve.at(min(near, LARGEST_EPSILON)).estimate)):
        above = [e for e in curve.points if curve.excess(main, e) > 0]
        if not above:
            return Bound(math.nan, math.nan, math.nan, first.method, first.status, first.detail)
        near = max(above)  # beyond, the expansion gives no delta
    rough = curve
    if again and not (near == 0.0 and curve.excess("upper", near) <= 0.0):
        enough = {e: b for e, b in rough.points.items() if rough.width(e) <= NARROW}
        curve, narrow.points = narrow, enough | narrow.points
        near, slope = root(curve, main, near if math.isfinite(near) else start, slope)
    upper, lower = math.inf, 0.0
    if math.isfinite(near):
        upper, lower = (certified_side(curve, side, near, slope) for side in ("upper", "lower"))
    # where the work is used up bounds are wider than those before
    if not math.isnan(upper):
        upper = min(upper, narrow.least_proven(), rough.least_proven(), curve.high)
    if not math.isnan(lower):
        lower = max(lower, narrow.most_proven(), rough.most_proven(), curve.low)
    estimate = math.nan if main == "upper" else min(max(near, lower), upper)
    answer = curve.at(near if math.isfinite(near) else start)
    detail = {**answer.detail, "evaluations": len(curve.points)}
    short = (bound.detail.get("max_work") for bound in curve.points.values())
    why = next(filter(None, short), None)
    detail |= {"max_work": why} if why else {}
    return Bound(lower, estimate, upper, answer.method, answer.status, detail)


def _at_top(curve: Curve, start: float) -> Bound | None:
    """Answer next to the largest loss, where no search is worth its work; None elsewhere."""
    top, low = curve.high, curve.low
    if not (top * (1.0 - AT_TOP) <= max(start, low) <= top * (1.0 + AT_TOP)):
        return None
    first = curve.at(top)
    if low < top * (1.0 - NEAR_TOP):
        low = top * (1.0 - NEAR_TOP)
        if not curve.excess("lower", low) > 0.0:
            return None
    if math.isnan(float(first.lower)) or math.isnan(float(first.upper)):
        return None
    detail = {**first.detail, "reason": "next to the largest loss"}
    return Bound(low, min(max(start, low), top), top, first.method, first.status, detail)


def _as_a_row(evaluation: Evaluation, direction: str, start: Place, curve: Curve) -> Bound | Place:
    """Answer by a method that inverts, where what it found is, or comes out, proven."""
    # Otherwise where a search is to start.
    found = evaluation.inverted(direction, curve.target, start.epsilon)
    if found is None:
        return start
    if isinstance(found, Place):
        return found if curve.low < found.epsilon < curve.high else start
    lower, estimate, upper = float(found.lower), float(found.estimate), float(found.upper)
    if curve.low < estimate < curve.high:
        start = Place(estimate, start.slope)
    if not curve.low < upper < curve.high:
        return start
    if found.status in ("proven", ESTIMATED):
        return found if lower >= curve.low else replace(found, lower=curve.low)
    if not curve.excess("upper", upper) <= 0.0:
        return start
    if lower > curve.low and not curve.excess("lower", lower) > 0.0:
        return start
    answer = curve.at(upper)
    detail = {**answer.detail, "evaluations": len(curve.points)}
    return Bound(max(lower, curve.low), estimate, upper, answer.method, answer.status, detail)


def _bracket(evaluation: Evaluation, direction: str, log_target: float) -> tuple[float, float]:
    """Return an epsilon >= 0 at which delta exceeds the target, or 0, and one at which it does not.

    With mass m where every step is at its largest loss, delta(eps) >= m (1 - exp(eps - top)).
    """
    top, rounding = evaluation.largest_loss_in(direction)
    if not 0.0 < top + rounding < math.inf:
        return 0.0, math.inf
    log_mass, error = evaluation.log_mass_at_largest_loss(direction)
    gap = -log1mexp(log_target - (log_mass - error))
    return max(0.0, (top - gap) * (1.0 - NEXT_TO) - rounding), top + rounding


def root(curve: Curve, side: str, start: float, slope: float) -> tuple[float, float]:
    """Return where one side of log delta meets the target, up to its noise, and the slope there.

    0 when it is below the target at 0 already, inf when it never comes down. Secant steps inside a
    bracket; where a step did not halve the excess, the next one halves the bracket instead.
    """
    lo, hi, x = curve.low, curve.high, start
    last: tuple[float, float] | None = None
    for turn in range(MAX_EVALUATIONS):
        excess, noise = curve.excess(side, x), curve.noise(x)
        # a side that is nowhere, or that ends in a jump, is found to a share of its distance
        jump = JUMP * (start - lo) if excess == -math.inf else 0.0
        done = hi < math.inf and hi - lo <= max(4 * EPS * hi, NOTHING, jump)
        if last is not None and abs(excess - last[1]) > GRAINS * curve.grain(x):
            secant = (excess - last[1]) / (x - last[0])
            slope = secant if -math.inf < secant < 0 else slope
        if abs(excess) <= noise or (x == 0.0 and excess <= 0) or done:
            break
        lo, hi = (x, hi) if excess > 0 else (lo, x)
        stalled = turn > 3 and last is not None and 2 * abs(excess) > abs(last[1])
        if stalled and abs(excess) <= GRAINS * curve.ulps:  # rounding: halving ends there too
            break
        last = (x, excess) if math.isfinite(excess) else None
        if stalled and hi == math.inf and turn < BENT:  # log delta falls ever less steeply
            slope, stalled = 0.25 * slope, False
        following = _next(lo, hi, x, excess, slope, stalled)
        if following > LARGEST_EPSILON:
            return math.inf, slope
        if curve.is_used_up(following):  # the sides seen so far have to do
            break
        x = following
    if 0.0 < x <= NOTHING and curve.excess(side, 0.0) <= 0.0:
        x = 0.0
    return x, slope


def _next(lo: float, hi: float, x: float, excess: float, slope: float, stalled: bool) -> float:
    """Return the next epsilon: a secant step in the bracket; where `stalled`, without the slope."""
    guess = x - excess / slope
    if math.isinf(hi):
        return min(guess, 4 * x) if guess > lo and not stalled else x * x + 2 * x
    if guess <= 0.0 == lo and not stalled:
        return 0.0
    return guess if lo < guess < hi and not stalled else 0.5 * (lo + hi)


def certified_side(curve: Curve, side: str, near: float, slope: float) -> float:
    """Return an epsilon at which one proven side of log delta is beyond the target (nan: no proof).

    The upper bound at most the target, to the right of `near` (inf if it is nowhere); or the lower
    bound above the target, to the left of it (0 if it is nowhere).
    """
    outward = 1.0 if side == "upper" else -1.0
    excess = outward * curve.excess(side, near)
    if math.isnan(excess):
        return math.nan
    if excess > OWN_SEARCH:
        near, slope = root(curve, side, near, slope)
    step, last = 0.0, math.nan
    for turn in range(MAX_STEPS):
        at = min(near + outward * step, curve.high)
        if at <= 0.0 and side == "lower":
            return 0.0
        if curve.is_used_up(at):
            break
        excess = outward * curve.excess(side, at)
        if excess < 0.0 or (excess == 0.0 and side == "upper"):
            return at
        if excess == last and step > 1.0 + near:  # no lower anywhere beyond
            break
        last = excess
        # over a narrow interval the slope is the same: at first it is taken at its word
        room = ROOM[1] if turn else min(max(excess, ROOM[0]), ROOM[1])
        more = (1.0 + room) * excess / -slope + 4 * EPS * near
        step = max(4 * step, more) if turn > 1 else step + more
    return math.inf if side == "upper" else 0.0


def _start(evaluation: Evaluation, direction: str, log_target: float) -> Place:
    """Return an epsilon near the answer and the slope of log delta there.

    By the leading saddle point approximation; where that fails, or rare large losses mislead it, by
    one large loss or many small ones, as nodes have them. Only a start: whatever goes wrong here
    costs evaluations, never correctness. Where steps only stand in one use is not looked at closer.
    """
    steps = evaluation.steps[direction]
    if not steps:  # guarantees of other libraries alone
        return FIRST
    laws, counts = distinct(steps)
    variance, fall = 0.0, math.nan
    found: Place | None = None
    try:
        if counts == [1] and log_target > SHALLOW:
            near = Nodes(laws, counts).epsilon(log_target)
            if evaluation.stands_in:
                return Place(near, -1.0)
            curve = Curve(partial(_roughly, laws[0]), log_target)
            with share(SADDLE):
                return Place(*root(curve, "estimate", near, -1.0))
        columns = evaluation.columns(direction)
        variance = columns.spread[1]
        if 0.0 < variance < 1.0:
            fall = 2.0 * (0.5 * math.log(variance) - log_target)
        if fall <= 0.0:  # as far as that goes delta(0), which falls by P(L > 0), is that small
            return Place(0.0, -0.5 * math.exp(min(-log_target, 300.0)))
        with share(SADDLE):
            saddle = columns.saddle_of_delta(log_target)
        if saddle.epsilon > 0.0:
            found = Place(saddle.epsilon, -saddle.t)
    except (MechcError, OutOfWorkError, ArithmeticError, ValueError):
        pass
    if math.isnan(fall):
        return found or FIRST
    normal = math.sqrt(variance * fall)
    if found is None or found.epsilon > RARE * normal:
        nodes = Nodes(laws, counts).epsilon(log_target)
        if found is None or found.epsilon > RARE * nodes:
            return Place(min(nodes, 1.0), -math.sqrt(fall / variance))
    return found


def _roughly(law: PrivacyLoss, epsilon: float) -> Bound:
    """Log delta of one use, where that suffices on nodes that resolve the law."""
    lower, estimate, upper = law.hockey_sticks_log(np.array([epsilon]), ROUGH)[0].tolist()
    return Bound(lower, estimate, upper, "direct", "proven", {})
