"""Rényi divergences and Gaussian differential privacy of a composition.

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
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

from mechc.accountants.bound import Bound
from mechc.accountants.classical.clt import log_gaussian_bounds
from mechc.accountants.fft import log1mexp, log_add, log_subtract
from mechc.composition.inputs import as_finite_epsilon
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss.allowance import OutOfWorkError, spared
from mechc.loss.rounding import EPS

if TYPE_CHECKING:
    from mechc.composition.evaluation import Evaluation
    from mechc.protocol import Run, Use


CELLS = 32
MAX_SPLITS = 400
SMALLEST = 1e-9  # width of a cell, relative to 1 + epsilon, that is not split
CLOSE = 1e-5  # relative distance of mu from what its cell ends need at which the search stops
SMALL_DELTA = 1e-12
LARGEST_MU = 1e8
TILTS = tuple(4.0**k for k in range(-6, 8))  # orders less one at which rho is looked for
MOST_CELLS = 1000  # of orders
FAR_ORDER = 100.0  # whose divergence is known where a larger order has none
LARGE = 1e12  # tilt beyond which no order is asked for
NO_RHO = "no theorem bounds the divergences of all orders: losses are not bounded"
NEARLY_ONE = -1e-14  # log delta from which on mu is not told by it
NEAR_ONE = -1e-3  # the same where what is left of it is asked too


def renyi(composition: Run, evaluation: Evaluation, order: float) -> Bound:
    """Return bounds on the Rényi divergence of one order, the larger of the directions.

    Where no quadrature follows a large order: divergences grow with the order, up to the largest
    loss, and D_alpha <= rho alpha where rho is known in closed form.
    """
    try:
        answers = [evaluation.renyi(name, order) for name in evaluation.directions]
        return max(answers, key=lambda b: float(b.upper))
    except (NumericError, OutOfWorkError):
        if not FAR_ORDER < order < math.inf:
            raise
        upper = math.fsum(
            n * _most(event, evaluation.directions, order) for event, n in composition.parts
        )
        if not upper < math.inf:
            raise
        with spared():
            known = renyi(composition, evaluation, FAR_ORDER)
        return replace(known, estimate=math.nan, upper=upper, detail={
            **known.detail, "wide": f"no quadrature for this order; lower side of {FAR_ORDER:g}"
        })  # fmt: skip


def _most(event: Use, directions: Iterable[str], order: float) -> float:
    """A bound on the Rényi divergence of one use that needs no quadrature, inf where none is."""
    bounds = [event.rho_bound() * order * (1.0 + 8 * EPS)]
    laws = [event.loss(direction) for direction in directions]
    if all(law.log_infinite == -math.inf for law in laws):
        bounds.append(max(law.support[1] + law.loss_error for law in laws) * (1.0 + 32 * EPS))
    return min((b for b in bounds if b == b), default=math.inf)


def zcdp(composition: Run, direction: str) -> Bound:
    """Return bounds on the smallest rho with D_alpha <= rho alpha for all alpha > 1.

    Args:
        composition: the run.
        direction: "both", "remove" or "add".
    """
    whole = composition.evaluation("auto", direction)
    if whole.log_infinite_range()[0] > -math.inf:
        return Bound(math.inf, math.inf, math.inf, "renyi", "proven", {"order": math.inf})
    lower, order = max((_ratio(whole, d, t)[0], t) for d in whole.directions for t in TILTS)
    detail: dict[str, Any] = {"order": order + 1.0}
    closed = [(event, count, event.rho_bound()) for event, count in composition.parts]
    rest = [count * event for event, count, rho in closed if math.isnan(rho)]
    upper = math.fsum(n * rho for _, n, rho in closed if rho == rho) * (1.0 + 4 * EPS)
    if rest:
        found = _bounded_rho(reduce(add, rest), direction)
        lower = max(lower, found[0]) if len(rest) == len(closed) else lower
        upper += found[1]
    lower = max(lower, 0.0) if lower > -math.inf else math.nan
    estimate = max(lower, upper if not rest else math.nan) if lower == lower else upper
    estimate = estimate if estimate == estimate else lower
    if math.isnan(upper):
        return Bound(lower, lower, upper, "renyi", NO_RHO, detail)
    return Bound(min(lower, upper), min(estimate, upper), upper, "renyi", "proven", detail)


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
    """Bounds on rho of a run whose losses are bounded; upper is nan where they are not.

    With K(t) = t D_(1+t) convex and K(0) = 0, K lies below its chords.
    """
    evaluation = run.evaluation("auto", direction)
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

    def cell(a: float, b: float) -> tuple[float, float, float]:
        return -_chord_ratio(a, b, k(a) if a else 0.0, k(b)), a, b

    end = 1.0
    k(end)
    while top / (1.0 + end) > best and end < LARGE:
        end *= 2.0
        k(end)
    ends = [0.0, *(end * 2.0**-i for i in range(80) if end * 2.0**-i > 1e-3)]
    cells = [cell(a, b) for a, b in pairwise(sorted(ends))]
    heapq.heapify(cells)
    for _ in range(MOST_CELLS):
        high, a, b = cells[0]
        if -high <= max(best, top / (1.0 + end)) * (1.0 + CLOSE) or b - a <= SMALLEST * (1.0 + b):
            break
        heapq.heapreplace(cells, cell(a, 0.5 * (a + b)))
        heapq.heappush(cells, cell(0.5 * (a + b), b))
    return best, max(-cells[0][0], top / (1.0 + end) * (1.0 + 2 * EPS))


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


def gdp(composition: Run, epsilon_max: float | None, how: dict[str, Any]) -> Bound:
    """Return bounds on the smallest mu that holds for all epsilon up to `epsilon_max`.

    Proven cell by cell with `cell_mu`. Negative epsilon is covered through the other
    direction: delta_{P,Q}(-e) = 1 - e^-e + e^-e delta_{Q,P}(e) holds for both profiles.
    """
    if how.get("direction", "both") != "both":
        raise DeclarationError("gdp: direction must be 'both', as the Gaussian pair is symmetric")
    evaluation = composition.evaluation(**how)
    if epsilon_max is None:
        end = composition.epsilon(SMALL_DELTA, **how)
        epsilon_max = float(end.estimate if math.isnan(float(end.upper)) else end.upper)
    return _largest_mu(evaluation, as_finite_epsilon("epsilon_max", epsilon_max))


def _largest_mu(evaluation: Evaluation, epsilon_max: float) -> Bound:
    """Bisect the cell that allows the largest mu until the bounds meet."""
    bounds: dict[float, Bound] = {}

    def log_delta(side: str, at: float) -> float:
        if at not in bounds:
            bounds[at] = evaluation.log_delta(at)
        return float(getattr(bounds[at], side))

    @cache
    def log_overlap() -> float:
        return _log_overlap(evaluation)

    def enough(a: float, b: float, mu: float) -> float:
        if not log_delta("upper", a) > NEAR_ONE:
            return mu
        return min(mu, _overlapping_mu(b, log_overlap()))

    def cell(a: float, b: float) -> tuple[float, float, float]:
        mu = cell_mu(a, b, log_delta("upper", a), log_delta("upper", b))
        return -enough(a, b, mu), a, b

    @cache
    def needed(side: str, at: float) -> float:
        mu = gdp_mu(at, log_delta(side, at), side)
        return enough(at, at, mu) if side == "upper" else mu

    def largest(side: str) -> float:
        found = [needed(side, at) for at in list(bounds)]
        return max((mu for mu in found if not math.isnan(mu)), default=math.nan)

    cells = [cell(a, b) for a, b in pairwise(epsilon_max * (i / CELLS) for i in range(CELLS + 1))]
    heapq.heapify(cells)
    for _ in range(MAX_SPLITS):
        top, a, b = cells[0]
        middle = 0.5 * (a + b)
        if not math.isfinite(top) or b - a <= SMALLEST * (1 + b):
            break
        if -top <= largest("upper") * (1 + CLOSE):  # the bounds at the ends of cells need this much
            break
        heapq.heapreplace(cells, cell(a, middle))
        heapq.heappush(cells, cell(middle, b))
    first, last = bounds[0.0], bounds[epsilon_max]
    beyond = math.exp(float(last.upper))
    detail = {"epsilon_range": (0.0 - epsilon_max, epsilon_max), "delta_beyond": beyond}
    upper, lower, estimate = -cells[0][0], largest("lower"), largest("estimate")
    if upper < math.inf and estimate == math.inf:
        estimate = math.nan  # of a delta that doubles do not tell from one
    return Bound(lower, estimate, upper, first.method, first.status, detail)


def _log_overlap(evaluation: Evaluation) -> float:
    """A lower bound on log(1 - delta(0)), however small, by the order 1/2.

    (int sqrt(p q))^2 <= int min(p, q) int max(p, q) <= 2 int min(p, q), by Cauchy and Schwarz.
    """
    try:
        bound = evaluation.renyi(evaluation.directions[0], 0.5)
    except (UnsupportedError, NumericError):
        return -math.inf
    return -float(bound.upper) * (1.0 + 4 * EPS) - math.log(2.0)


def _overlapping_mu(epsilon: float, log_overlap: float) -> float:
    """A mu of which 1 - delta(epsilon) is at most exp(log_overlap): enough up to this epsilon."""

    def above(mu: float) -> bool:
        rest = np.logaddexp(
            log_ndtr(epsilon / mu - 0.5 * mu), epsilon + log_ndtr(-epsilon / mu - 0.5 * mu)
        )
        return bool(rest > log_overlap - 1e-9 * (1.0 + abs(log_overlap)))

    lo, hi = 0.0, 1.0
    while above(hi):
        lo, hi = hi, 2.0 * hi
        if hi > LARGEST_MU:
            return math.inf
    while hi - lo > 0.1 * CLOSE * hi:
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if above(mid) else (lo, mid)
    return hi


def cell_mu(a: float, b: float, log_delta_a: float, log_delta_b: float) -> float:
    """Return a mu whose profile lies above a run's between two epsilons.

    In x = e^eps both profiles are convex: the run's lies below its chord, the Gaussian's above its
    tangent at the middle. Two straight lines are in order if they are at both ends.

    Args:
        a: left end of the cell.
        b: right end, not below the left one.
        log_delta_a: upper bound on the run's log delta at a.
        log_delta_b: the same at b.
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

    while hi - lo > 0.1 * CLOSE * hi and math.isfinite(hi):
        mid = 0.5 * (lo + hi)
        lo, hi = (lo, mid) if covers(mid) else (mid, hi)
    return hi


def gdp_mu(epsilon: float, log_delta: float, side: str) -> float:
    """Return the mu at which the Gaussian profile passes through (epsilon, log delta).

    Args:
        epsilon: at least 0.
        log_delta: of the run.
        side: "lower" and "upper" round to that side.
    """
    if log_delta == -math.inf or math.isnan(log_delta):
        return 0.0 if log_delta == -math.inf else math.nan

    def below(mu: float) -> bool:
        low, high, _, _ = log_gaussian_bounds(mu, epsilon)
        return (high if side == "lower" else low) < log_delta

    lo, hi = 0.0, 1.0
    while below(hi):
        lo, hi = hi, 2 * hi
        if hi > LARGEST_MU:
            return lo if side == "lower" else math.inf
    for _ in range(1100):
        mid = 0.5 * (lo + hi)
        if not lo < mid < hi:
            break
        lo, hi = (mid, hi) if below(mid) else (lo, mid)
    return lo if side == "lower" else hi
