"""What follows from the profile: trade-off function, attacks, Rényi divergences, mu and rho.

Trade-off: f(alpha) = sup over a > 0 of g(a), g(a) = 1 - delta(log a) - a alpha, the smallest false
negative rate of any test of "record present" (H1) against "absent" (H0) at false positive rate
alpha (Dong, Roth, Su 2022, Proposition 2.13; over all real epsilon, as pairs need not be
symmetric). delta is convex in a = e^epsilon, so g is concave; g(0) = 0 and g(a) <= 1 - delta(inf) -
a alpha. Every evaluated point gives a lower bound, and any two of them an upper bound beyond: the
line through them. The upper side is the peak of the lowest of these lines, and the search goes on
where that is (cutting planes without gradients): on a lattice, where g is piecewise linear, at a
corner. The rates of one question share the points. True positives, errors and reconstruction
follow; both directions are covered, so that it does not matter which hypothesis is which.

Rényi: D_alpha(P || Q) = K(alpha - 1) / (alpha - 1) adds up over steps; alpha = 1 is K'(0), the
Kullback-Leibler divergence; alpha = inf is the largest loss.

Gaussian: a run is mu-GDP if its profile lies below that of N(mu, 1) against N(0, 1) for every
epsilon (Dong, Roth, Su 2022, Corollary 2.13). For subsampled mechanisms the smallest such mu grows
without bound in the range of epsilon that is compared, so the range is part of the answer.

Concentrated: a run is rho-zCDP if D_alpha <= rho alpha for every alpha > 1 (Bun, Steinke 2016).
Any order gives a lower bound. Upper bounds add up over parts: closed forms for normal laws, and for
losses that are bounded by l the orders up to some A one by one, with D_alpha <= l beyond.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.classical.clt import log_gaussian_bounds
from mechc.composition.inputs import USUAL, Setting, as_finite_epsilon, asked, from_log
from mechc.composition.queries.epsilon import epsilon
from mechc.errors import DeclarationError, InternalError, NumericError, UnsupportedError
from mechc.numeric.allowance import OutOfWorkError, share, spared
from mechc.numeric.logs import log1mexp, log_add, log_subtract
from mechc.numeric.roots import switch
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

if TYPE_CHECKING:
    from mechc.composition.queries.evaluation import Evaluation
    from mechc.protocol import Run, Use


CELLS = 8  # of one width at first; those that allow the largest mu are halved
MAX_SPLITS = 400  # of cells
SMALLEST = 1e-9  # width of a cell, relative to 1 + epsilon, that is not split
MU_FOUND = 1e-5  # relative distance of mu from what its cell ends need at which the search stops
FARTHEST_EPSILON = 1e6  # that is compared
LOG_SMALL_DELTA = math.log(1e-12)  # whose epsilon is where the profile is looked at last
CONTRADICTING = 1e-9  # share by which a lower side of rho exceeds an upper one
MET = 1e-12  # share of rho at which no other order is asked
TILTS = tuple(4.0**k for k in range(-6, 8))  # orders less one at which rho is looked for
MOST_CELLS = 1000  # of orders
FAR_ORDER = 100.0  # whose divergence is known where a larger order has none
FAR_SHARE = 0.1  # of the work allowed, for an order ten times that or more
FARTHEST_TILT = 1e12  # tilt beyond which no order is asked for
NO_RHO = "no theorem bounds the divergences of all orders: losses are not bounded"
NEARLY_ONE = -1e-14  # log delta from which on mu is not told by it
NEAR_ONE = -1e-3  # the same where what is left of it is asked too
# of the trade-off function
TURNS = 100  # evaluations of one answer
ULPS = 8.0 * EPS  # rounding of g, relative to its two terms, and of a line
MEETING = 10.0  # times rtol squared: distance of the sides, as a share of f, that ends the search
DISTINCT = 1e-11  # relative distance in epsilon of two points
LEAST_COST = 1e-303  # a alpha of points that lines are drawn through
LEAST_RATE = 1e-300  # f is asked for at this rate instead of smaller ones
FLAT = 16 * EPS  # rounding of 1 - f, with that of f


def renyi(composition: Run, evaluation: Evaluation, order: float) -> Bound:
    """Return bounds on the Rényi divergence of one order, the larger of the directions.

    Where no quadrature follows an order: divergences grow with it, so that that of a smaller one is
    a lower side (0 if none follows), up to the largest loss, and D_alpha <= rho alpha where rho is
    known in closed form.
    """
    smaller, refusal = FARTHEST_TILT, None
    if not FARTHEST_TILT < order < math.inf:
        try:
            with share(FAR_SHARE if 10.0 * FAR_ORDER < order < math.inf else 1.0):
                answers = [evaluation.renyi(side, order) for side in evaluation.directions]
            return max(answers, key=lambda b: float(b.upper))
        except (NumericError, OutOfWorkError) as error:
            if not 2.0 < order < math.inf:
                raise
            smaller, refusal = min(order / 2.0, FAR_ORDER), error
    upper = math.fsum(
        n * _most(event, evaluation.directions, order) for event, n in composition.parts
    )
    if refusal is not None and not upper < math.inf:
        raise refusal
    known = Bound(0.0, math.nan, upper, "renyi", "proven")
    left = spared() if refusal is not None else nullcontext()  # nothing has been done
    with left, suppress(NumericError, OutOfWorkError):
        known = renyi(composition, evaluation, smaller)
    wide = f"no quadrature for this order; lower side of {smaller:g} at most"
    return replace(known, estimate=math.nan, upper=upper, detail={**known.detail, "wide": wide})


def _most(event: Use, directions: Iterable[str], order: float) -> float:
    """A bound on the Rényi divergence of one use that needs no quadrature, inf where none is."""
    bounds = [event.rho_bound() * order * (1.0 + 8 * EPS)]
    with suppress(UnsupportedError):  # of a bound on Rényi divergences alone there is no law
        laws = [event.loss(direction) for direction in directions]
        if all(law.log_infinite == -math.inf for law in laws):
            bounds.append(max(law.support[1] + law.loss_error for law in laws) * (1.0 + 32 * EPS))
    return min((b for b in bounds if b == b), default=math.inf)


def zcdp(composition: Run, direction: str) -> Bound:
    """Return bounds on the smallest rho with D_alpha <= rho alpha for all alpha > 1."""
    whole = composition.evaluation(USUAL._replace(direction=direction))
    if whole.log_infinite_range()[0] > -math.inf:
        return Bound(math.inf, math.inf, math.inf, "renyi", "proven", {"order": math.inf})
    closed = [(event, count, event.rho_bound()) for event, count in composition.parts]
    rest = [count * event for event, count, rho in closed if math.isnan(rho)]
    upper = math.fsum(n * rho for _, n, rho in closed if rho == rho) * (1.0 + 4 * EPS)
    bounded = _bounded_rho(reduce(add, rest), direction) if rest else (-math.inf, 0.0)
    upper += bounded[1]
    lower, order = -math.inf, 1.0
    for tilt in TILTS:
        here = max(_ratio(whole, each, tilt)[0] for each in whole.directions)
        lower, order = max((lower, order), (here, tilt))
        if lower >= upper * (1.0 - MET):
            break
    detail: dict[str, Any] = {"order": order + 1.0}
    lower = max(lower, bounded[0]) if len(rest) == len(closed) else lower
    lower = max(lower, 0.0) if lower > -math.inf else math.nan
    estimate = max(lower, upper if not rest else math.nan) if lower == lower else upper
    estimate = estimate if estimate == estimate else lower
    if math.isnan(upper):
        return Bound(lower, lower, upper, "renyi", NO_RHO, detail)
    if lower > upper * (1.0 + CONTRADICTING):
        raise InternalError(
            f"zcdp: rho is at most {upper!r} by a theorem, and at least {lower!r} at order "
            f"{order + 1.0:g}; no answer is given. This is an error of mechc: please report it"
        )
    found = Bound(min(lower, upper), min(estimate, upper), upper, "renyi", "proven", detail)
    return replace(found, status=whole.said(found, *whole.directions))


def _ratio(evaluation: Evaluation, direction: str, tilt: float) -> tuple[float, float]:
    """Bounds on D_alpha / alpha at alpha = 1 + tilt; -inf and inf where the order is refused."""
    try:
        found = evaluation.renyi(direction, 1.0 + tilt)
    except (UnsupportedError, NumericError):
        return -math.inf, math.inf
    low, high = float(found.lower), float(found.upper)
    pad = 4 * EPS
    return (
        low / (1.0 + tilt) * (1.0 - pad) if low == low else -math.inf,
        high / (1.0 + tilt) * (1.0 + pad) if high == high else math.inf,
    )


def _bounded_rho(run: Run, direction: str) -> tuple[float, float]:
    """Bounds on rho of a run whose losses are bounded; upper is nan where they are not."""
    # With K(t) = t D_(1+t) convex and K(0) = 0, K lies below its chords.
    evaluation = run.evaluation(USUAL._replace(direction=direction))
    top, rounding = evaluation.largest_loss()
    if not math.isfinite(top) or evaluation.log_infinite_range()[1] > -math.inf:
        return 0.0, math.nan
    sides = [_bounded_in(evaluation, d, top + rounding) for d in evaluation.directions]
    return max(low for low, _ in sides), max(high for _, high in sides)


def _bounded_in(evaluation: Evaluation, direction: str, top: float) -> tuple[float, float]:
    """The same in one direction."""
    best = 0.0

    @cache
    def k(tilt: float) -> float:
        nonlocal best
        low, high = _ratio(evaluation, direction, tilt)
        best = max(best, low)
        return min(high * (1.0 + tilt), top) * tilt

    def cell(a: float, b: float) -> float:
        return _chord_ratio(a, b, k(a) if a else 0.0, k(b))

    end = 1.0
    k(end)
    while top / (1.0 + end) > best and end < FARTHEST_TILT:
        end *= 2.0
        k(end)
    ends = [0.0, *(end * 2.0**-i for i in range(80) if end * 2.0**-i > 1e-3)]
    beyond = top / (1.0 + end)
    high = _largest_cell(cell, sorted(ends), lambda: max(best, beyond), MOST_CELLS)
    return best, max(high, beyond * (1.0 + 2 * EPS))


def _largest_cell(
    bound: Callable[[float, float], float], ends: Iterable[float], enough: Callable[[], float],
    most: int,
) -> float:  # fmt: skip
    """The largest bound of cells, which are halved where it is until it is nearly `enough`."""
    # Or until the work allowed is used up.
    cells = [(-bound(a, b), a, b) for a, b in pairwise(ends)]
    heapq.heapify(cells)
    for _ in range(most):
        high, a, b = cells[0]
        close = b - a <= SMALLEST * (1.0 + b)
        if close or not math.isfinite(high) or -high <= enough() * (1.0 + MU_FOUND):
            break
        middle = 0.5 * (a + b)
        try:
            halves = [(max(-bound(x, y), high), x, y) for x, y in ((a, middle), (middle, b))]
        except OutOfWorkError:
            break
        heapq.heapreplace(cells, halves[0])
        heapq.heappush(cells, halves[1])
    return -cells[0][0]


def _chord_ratio(a: float, b: float, k_a: float, k_b: float) -> float:
    """The largest value of chord(t) / (t (1 + t)) on [a, b], rounded up."""
    if a == 0.0:
        return k_b / b * (1.0 + 4 * EPS)
    slope = (k_b - k_a) / (b - a)
    start = k_a - slope * a
    places = [a, b]
    under = start * start - slope * start
    if slope > 0.0 and under >= 0.0:
        place = (math.sqrt(under) - start) / slope
        places += [place] if a < place < b else []
    slack = 32 * EPS * (abs(k_a) + abs(k_b) + abs(slope) * b)
    return max((start + slope * t + slack) / (t * (1.0 + t)) for t in places)


def gdp(composition: Run, epsilon_max: float | None, setting: Setting) -> Bound:
    """Return bounds on the smallest mu that holds for all epsilon up to `epsilon_max`.

    Proven cell by cell with `cell_mu`. Negative epsilon is covered through the other
    direction: delta_{P,Q}(-e) = 1 - e^-e + e^-e delta_{Q,P}(e) holds for both profiles.
    """
    composition.directions(setting.direction)
    if setting.direction != "both":
        raise DeclarationError("gdp: direction must be 'both', as the Gaussian pair is symmetric")
    given = epsilon_max is not None
    if epsilon_max is None:
        with asked(afresh=True):  # nodes for the end serve the other epsilons badly
            end = epsilon(composition.evaluation(setting), LOG_SMALL_DELTA)
        epsilon_max = float(end.estimate if math.isnan(float(end.upper)) else end.upper)
    largest = as_finite_epsilon("epsilon_max", epsilon_max)
    evaluation = composition.evaluation(setting)
    if given and evaluation.log_infinite_range()[1] == -math.inf:  # no delta past the largest loss
        largest = min(largest, math.fsum(evaluation.largest_loss()))
    if given and largest > FARTHEST_EPSILON:
        raise UnsupportedError(
            f"gdp: epsilon_max={epsilon_max!r} is beyond {FARTHEST_EPSILON:g}, where hardly a "
            "double tells delta from the mass at infinite loss; give a smaller one"
        )
    return _largest_mu(evaluation, largest)


def _largest_mu(evaluation: Evaluation, epsilon_max: float) -> Bound:
    """Bisect the cell that allows the largest mu until the bounds meet."""
    bounds: dict[float, Bound] = {}

    def log_delta(side: str, at: float) -> float:
        if at not in bounds:
            bounds[at] = evaluation.log_delta(at)
        return float(getattr(bounds[at], side))

    log_overlap = _log_overlap(evaluation) if log_delta("upper", 0.0) > NEAR_ONE else -math.inf

    def cell(a: float, b: float) -> float:
        mu = cell_mu(a, b, log_delta("upper", a), log_delta("upper", b))
        return min(mu, _overlapping_mu(b, log_overlap))

    @cache
    def needed(side: str, at: float) -> float:
        mu = gdp_mu(at, log_delta(side, at), side)
        return min(mu, _overlapping_mu(at, log_overlap)) if side == "upper" else mu

    def largest(side: str) -> float:
        found = [needed(side, at) for at in list(bounds)]
        return max((mu for mu in found if not math.isnan(mu)), default=math.nan)

    ends = [epsilon_max * (i / CELLS) for i in range(CELLS + 1)]
    # the bounds at the ends of cells need as much as this
    upper = _largest_cell(cell, ends, lambda: largest("upper"), MAX_SPLITS)
    first, last = bounds[0.0], bounds[epsilon_max]
    beyond = math.exp(float(last.upper))
    detail = {"epsilon_range": (0.0 - epsilon_max, epsilon_max), "delta_beyond": beyond}
    lower, estimate = largest("lower"), largest("estimate")
    if upper < math.inf and estimate == math.inf:
        estimate = math.nan  # of a delta that doubles do not tell from one
    estimate = min(max(estimate, lower), upper)  # little work leaves one outside
    return Bound(lower, estimate, upper, first.method, first.status, detail)


def _log_overlap(evaluation: Evaluation) -> float:
    """A lower bound on log(1 - delta(0)), however small, by the order 1/2."""
    # (int sqrt(p q))^2 <= int min(p, q) int max(p, q) <= 2 int min(p, q), by Cauchy and Schwarz.
    try:
        bound = evaluation.renyi(evaluation.directions[0], 0.5)
    except (UnsupportedError, NumericError, OutOfWorkError):
        return -math.inf
    return -float(bound.upper) * (1.0 + 4 * EPS) - math.log(2.0)


def _overlapping_mu(epsilon: float, log_overlap: float) -> float:
    """A mu of which 1 - delta(epsilon) is at most exp(log_overlap): enough up to this epsilon."""
    # With x = mu / 2 - epsilon / mu >= 0 each of the two terms of that, Phi(-x) and
    # e^epsilon Phi(-x - 2 epsilon / mu), is at most exp(-x^2 / 2) / 2.
    x = math.sqrt(max(-2.0 * log_overlap, 0.0)) * (1.0 + 4 * EPS)
    return x + math.sqrt(x * x + 2.0 * epsilon) * (1.0 + 4 * EPS)


def cell_mu(a: float, b: float, log_delta_a: float, log_delta_b: float) -> float:
    """Return a mu whose profile lies above a run's between two epsilons.

    In x = e^eps both profiles are convex: the run's lies below its chord, the Gaussian's above its
    tangent at the middle. Two straight lines are in order if they are at both ends.
    """
    if math.isnan(log_delta_a + log_delta_b):
        return math.nan
    if log_delta_a > NEARLY_ONE:  # doubles do not tell how far mu goes
        return math.inf
    hi = gdp_mu(b, log_delta_a, "upper")  # the steps' bound: always enough
    lo = max(gdp_mu(a, log_delta_a, "upper"), gdp_mu(b, log_delta_b, "upper"))
    if a == b:
        return lo
    middle = b + math.log(0.5 * (1.0 + math.exp(a - b)))
    half = b + log1mexp(a - b) - math.log(2.0)
    slack = EPS * (4.0 + 2.0 * b)

    def covers(mu: float) -> bool:
        value, _, slope, steepest = log_gaussian_bounds(mu, middle)
        at_a = log_add(value, half + slope)
        return log_delta_a + slack <= at_a and log_delta_b <= log_subtract(
            value - slack, half + steepest + slack
        )

    return switch(lambda mu: not covers(mu), 0.1 * MU_FOUND, lo, hi)[1]


def gdp_mu(epsilon: float, log_delta: float, side: str) -> float:
    """Return the mu of the Gaussian profile through (epsilon, log delta), rounded to its side."""
    if log_delta == -math.inf or math.isnan(log_delta):
        return 0.0 if log_delta == -math.inf else math.nan

    def below(mu: float) -> bool:
        low, high, _, _ = log_gaussian_bounds(mu, epsilon)
        return (high if side == "lower" else low) < log_delta

    return switch(below)[side != "lower"]


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
    """Return bounds on f(alpha), the smaller of the directions."""
    answers: list[Bound] = []
    for direction in evaluation.directions:
        with share(1.0 / (len(evaluation.directions) - len(answers))):
            answers.append(_false_negative_in(evaluation, direction, alpha))
    best = min(answers, key=lambda b: [v for v in (b.estimate, b.lower, 1.0) if v == v])
    uppers = [float(b.upper) for b in answers if not math.isnan(float(b.upper))]
    lower = float(np.min([b.lower for b in answers]))  # nan if one is
    return replace(best, lower=lower, upper=min(uppers, default=math.nan))


def _false_negative_in(evaluation: Evaluation, direction: str, alpha: float) -> Bound:
    infinite = evaluation.log_delta_in(direction, math.inf)
    ends = infinite.upper, infinite.estimate, infinite.lower
    best, middle, most = (-math.expm1(float(side)) for side in ends)
    if infinite.upper > -math.inf:  # else it is one
        best, most = best * (1.0 - ULPS), min(most * (1.0 + ULPS), 1.0)
    if alpha in (0.0, 1.0):  # at 1 nothing is missed, at 0 all but the mass at infinity
        lower, estimate, upper = (0.0 if alpha else side for side in (best, middle, most))
        about = {"direction": direction}
        return Bound(lower, estimate, upper, evaluation.method, infinite.status, about)
    if alpha < LEAST_RATE:
        return replace(_false_negative_in(evaluation, direction, LEAST_RATE), upper=most)
    most = 1.0 if math.isnan(most) else most
    asked = {epsilon for side, epsilon in evaluation.profile if side == direction}
    points, meeting = [_point(evaluation, direction, alpha, 0.0)], MEETING * evaluation.rtol**2

    def search(sides: Callable[[Point], tuple[float, float]]) -> float:
        """Add points where g may be largest, until its sides are close; return the upper one."""
        for _ in range(TURNS):
            points.sort(key=lambda p: p.epsilon)
            best = max(range(len(points)), key=lambda i: sides(points[i])[0])
            seen = [p for p in points if p.cost > LEAST_COST]
            low, high = (np.array([0.0, *side]) for side in zip(*map(sides, seen), strict=True))
            places = np.array([0.0, *(p.cost for p in seen)])
            peak, where, highest = _peak(places, low, high, (1.0 - alpha) / alpha, most)
            noise = sides(points[best])[1] - sides(points[best])[0] + ULPS * points[best].cost
            if len(points) == TURNS or not peak - low.max() > 2.0 * noise + meeting * peak:
                break
            new = math.log(where) - math.log(alpha) if where > 0.0 else math.nan
            if not _is_apart(new, points):
                break
            points.append(_point(evaluation, direction, alpha, _nearest(new, points, asked)))
        return min(max(highest, 0.0), _rest(alpha))

    search(lambda p: (p.middle, p.middle))
    upper = math.nan
    if not any(math.isnan(p.upper) for p in points):
        upper = search(lambda p: (p.lower, p.upper))
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


def _rest(share: float) -> float:
    """1 - share, rounded up."""
    rest = 1.0 - share
    return rest if 1.0 - rest <= share else math.nextafter(rest, 1.0)


def _point(evaluation: Evaluation, direction: str, alpha: float, epsilon: float) -> Point:
    """Evaluate g; where the method refuses, by what always holds, as it may answer elsewhere."""
    half = math.exp(0.5 * epsilon)
    cost = half * alpha * half  # neither factor overflows
    source: Bound | UnsupportedError
    try:
        if (direction, epsilon) not in evaluation.profile:
            evaluation.profile[direction, epsilon] = evaluation.log_delta_in(direction, epsilon)
        source = evaluation.profile[direction, epsilon]
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


def _is_apart(epsilon: float, points: list[Point]) -> bool:
    return all(abs(p.epsilon - epsilon) > DISTINCT * max(1.0, abs(epsilon)) for p in points)


def _nearest(new: float, points: list[Point], asked: Iterable[float]) -> float:
    """The epsilon of known delta that is nearest to a new one, between the same points; else it."""
    below = max((p.epsilon for p in points if p.epsilon < new), default=-math.inf)
    above = min((p.epsilon for p in points if p.epsilon > new), default=math.inf)
    gap = DISTINCT * max(1.0, abs(new))
    between = [e for e in asked if below + gap < e < above - gap]
    return min(between, key=lambda e: abs(e - new), default=new)


def _peak(
    a: Floats, low: Floats, high: Floats, first: float, most: float
) -> tuple[float, float, float]:
    """The largest value that a concave function with slopes >= -1 may have, a place, rounded up."""
    # At the places a, increasing from 0, it lies between low and high, both 0 at 0; it is at most
    # first * a, and most - a.
    rise = np.subtract.outer(high, low) / (np.subtract.outer(a, a) + np.eye(a.size))  # k from j
    before = np.tri(a.size, k=-1, dtype=bool)
    left = np.where(before, rise, math.inf).min(axis=1)  # slopes beyond a, ...
    right = np.where(before.T, rise, -math.inf).max(axis=1)  # ... and of lines that end there
    left[0] = first
    right = np.maximum(right, -1.0)
    left, right = left + ULPS * np.abs(left), right - ULPS * np.abs(right)
    high = high + ULPS * np.abs(high)
    ends = np.append(a[1:], max(a[-1], 2.0))
    found, where, terms = np.full(a.size, math.inf), a, a
    last = most - ends[-1] + ULPS * (most + ends[-1])
    # from the place before a cell a line goes up, to the one behind it, or the bound, one down
    for slope, place, height in (
        (np.append(right[1:], -1.0), ends, np.append(high[1:], last)),
        (ULPS - 1.0, 0.0, most * (1.0 + ULPS)),
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = a + (height + slope * (a - place) - high) / (left - slope)
            x = np.stack([a, ends, cross])
            rise, fall = left * (x - a), slope * (x - place)
            up, down = high + rise, height + fall
            value = np.minimum(up, down)
            value[2] = np.where((a < cross) & (cross < ends), np.maximum(up, down)[2], -math.inf)
        at = value.argmax(axis=0), np.arange(a.size)
        better = value[at] < found
        sizes = np.abs(high) + np.abs(rise[at]) + np.abs(height) + np.abs(fall[at])
        found, where, terms = (
            np.where(better, new, old)
            for new, old in ((value[at], found), (x[at], where), (sizes, terms))
        )
    cell = int(found.argmax())
    return float(found[cell]), float(where[cell]), float((found + ULPS * terms).max())


def true_positive(evaluation: Evaluation, fpr: float) -> Bound:
    """Return bounds on 1 - f(fpr), the largest power of a test at a false positive rate.

    Power is also inf over epsilon of delta(epsilon) + e^epsilon fpr, so that any epsilon gives an
    upper bound; that one has its digits where 1 - f has lost them.
    """
    found = false_negative(evaluation, fpr)
    lower, middle, upper = (1.0 - float(s) for s in (found.upper, found.estimate, found.lower))
    lower, upper = lower - FLAT, upper + FLAT
    at = math.inf if fpr == 0.0 else float(found.detail.get("epsilon", math.nan))
    if not math.isnan(at) and not math.isnan(upper):
        there = from_log(evaluation.log_delta(at))
        if fpr == 0.0:
            lower, middle = max(lower, float(there.lower)), float(there.estimate)
            upper = min(upper, float(there.upper) * (1.0 + 2 * EPS))
        elif at <= MOST_LOG:
            cost = math.exp(at + math.log(fpr)) * (1.0 + 8 * EPS * (abs(at) + MOST_LOG))
            upper = min(upper, (float(there.upper) + cost) * (1.0 + 2 * EPS))
    lower = max(lower, fpr)
    upper = min(max(upper, fpr), 1.0) if upper == upper else upper
    middle = min(max(middle, lower), upper) if upper == upper else middle
    return Bound(lower, middle, upper, found.method, found.status, found.detail)


def bayes_risk(evaluation: Evaluation, prior: float) -> Bound:
    """Return bounds on the least probability of error where H1 has a prior probability.

    The smallest prior FNR + (1 - prior) FPR over all tests is prior (1 - delta(epsilon)) at
    epsilon = log((1 - prior) / prior), by the definition of delta as a supremum over tests.
    """
    if prior in (0.0, 1.0):
        return Bound(
            0.0, 0.0, 0.0, "prior", "proven", {"epsilon": math.inf if prior == 0 else -math.inf}
        )
    epsilon = math.log1p(-prior) - math.log(prior)
    found = evaluation.log_delta(epsilon)
    # 1 - delta changes by at most the factor e^r when epsilon changes by r
    pad = (abs(epsilon) + 16.0) * EPS
    most = min(prior, _rest(prior))
    sides = [0.0 - prior * math.expm1(float(s)) for s in (found.upper, found.estimate, found.lower)]
    lower, middle, upper = sides[0] * (1.0 - pad), min(sides[1], most), sides[2] * (1.0 + pad)
    upper = min(upper, most) if upper == upper else upper
    detail = {**found.detail, "epsilon": epsilon}
    return Bound(lower, middle, upper, found.method, found.status, detail)
