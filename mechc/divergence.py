"""Rényi divergences and Gaussian differential privacy of a composition.

Rényi: D_alpha(P || Q) = K(alpha - 1) / (alpha - 1) adds up over steps; alpha = 1 is K'(0), the
Kullback-Leibler divergence; alpha = inf is the largest loss.

Gaussian: a run is mu-GDP if its profile lies below that of N(mu, 1) against N(0, 1) for every
epsilon (Dong, Roth, Su 2022, Corollary 2.13). For subsampled mechanisms the smallest such mu grows
without bound in the range of epsilon that is compared, so the range is part of the answer.
"""

from __future__ import annotations

import heapq
import math
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mechc.accountants.bound import Bound
from mechc.accountants.clt import log_gaussian_bounds
from mechc.accountants.logspace import log1mexp, log_add, log_subtract
from mechc.errors import DeclarationError
from mechc.inputs import as_finite_epsilon

if TYPE_CHECKING:
    from mechc.composition import Composition
    from mechc.evaluation import Evaluation

CELLS = 32
MAX_SPLITS = 400
SMALLEST = 1e-9  # width of a cell, relative to 1 + epsilon, that is not split
CLOSE = 1e-5  # relative distance of mu from what its cell ends need at which the search stops
SMALL_DELTA = 1e-12
LARGEST_MU = 1e8
ROUND = 2.0**-52
NEARLY_ONE = -1e-14  # log delta from which on mu is not told by it


def renyi(evaluation: Evaluation, order: float) -> Bound:
    """Return bounds on the Rényi divergence of one order, the larger of the directions."""
    answers = [evaluation.renyi(name, order) for name in evaluation.directions]
    return max(answers, key=lambda b: float(b.upper))


def gdp(composition: Composition, epsilon_max: float | None, how: dict[str, Any]) -> Bound:
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

    def cell(a: float, b: float) -> tuple[float, float, float]:
        return -cell_mu(a, b, log_delta("upper", a), log_delta("upper", b)), a, b

    @cache
    def needed(side: str, at: float) -> float:
        return gdp_mu(at, log_delta(side, at), side)

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
    lower, estimate = largest("lower"), largest("estimate")
    return Bound(lower, estimate, -cells[0][0], first.method, first.status, detail)


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
    slack = ROUND * (4.0 + 2.0 * b)

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
