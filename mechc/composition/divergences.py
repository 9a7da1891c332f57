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
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

from mechc.accountants.bound import Bound
from mechc.composition.inputs import as_epsilon
from mechc.errors import DeclarationError

if TYPE_CHECKING:
    from mechc.composition.evaluation import Evaluation
    from mechc.composition.events import Composition


CELLS = 32
MAX_SPLITS = 400
SMALLEST = 1e-9  # width of a cell, relative to 1 + epsilon, that is not split
CLOSE = 1e-5  # relative distance of mu from what its cell ends need at which the search stops
SMALL_DELTA = 1e-12
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
        epsilon_max = float(composition.epsilon(SMALL_DELTA, **how).upper)
    epsilon_max = as_epsilon(epsilon_max)
    if not 0 <= epsilon_max < math.inf:
        raise DeclarationError(
            f"epsilon_max={epsilon_max!r} is not a finite number >= 0; where a mass sits at "
            "infinite loss no mu exists"
        )
    return _largest_mu(evaluation, epsilon_max)


def _largest_mu(evaluation: Evaluation, epsilon_max: float) -> Bound:
    """Bisect the cell that allows the largest mu until the bounds meet."""
    bounds: dict[float, Bound] = {}

    def log_delta(side: str, at: float) -> float:
        if at not in bounds:
            bounds[at] = evaluation.log_delta(at)
        return float(getattr(bounds[at], side))

    def cell(a: float, b: float) -> tuple[float, float, float]:
        return -cell_mu(a, b, log_delta("upper", a), log_delta("upper", b)), a, b

    def largest(side: str) -> float:
        return max(gdp_mu(e, log_delta(side, e)) for e in list(bounds))

    cells = [cell(a, b) for a, b in pairwise(epsilon_max * i / CELLS for i in range(CELLS + 1))]
    heapq.heapify(cells)
    for _ in range(MAX_SPLITS):
        top, a, b = cells[0]
        middle = 0.5 * (a + b)
        # no cell can do better than the upper bounds at its ends
        if math.isinf(top) or -top <= largest("upper") * (1 + CLOSE) or b - a <= SMALLEST * (1 + b):
            break
        heapq.heapreplace(cells, cell(a, middle))
        heapq.heappush(cells, cell(middle, b))
    first, last = bounds[0.0], bounds[epsilon_max]
    beyond = math.exp(float(last.upper))
    detail = {"epsilon_range": (-epsilon_max, epsilon_max), "delta_beyond": beyond}
    lower, estimate = largest("lower"), largest("estimate")
    return Bound(lower, estimate, -cells[0][0], first.method, first.status, detail)


def cell_mu(a: float, b: float, log_delta_a: float, log_delta_b: float) -> float:
    """Return a mu whose profile lies above a run's between two epsilons.

    In x = e^eps both profiles are convex: the run's lies below its chord, the Gaussian's above its
    tangent at the middle. Two straight lines are in order if they are at both ends.

    Args:
        a: left end of the cell.
        b: right end.
        log_delta_a: upper bound on the run's log delta at a.
        log_delta_b: the same at b.
    """
    if math.isnan(log_delta_a + log_delta_b):
        return math.nan
    if log_delta_a > NEARLY_ONE:  # doubles do not tell how far mu goes
        return math.inf
    middle = math.log(0.5 * (math.exp(a) + math.exp(b)))
    half = math.log(0.5 * (math.exp(b) - math.exp(a)))

    def covers(mu: float) -> bool:
        value = log_gaussian_delta(mu, middle)
        fall = half + float(log_ndtr(-mu / 2 - middle / mu))
        at_b = value + math.log(-math.expm1(fall - value)) if fall < value else -math.inf
        return log_delta_a <= float(np.logaddexp(value, fall)) and log_delta_b <= at_b

    hi = gdp_mu(b, log_delta_a)  # the steps' bound: always enough
    lo = max(gdp_mu(a, log_delta_a), gdp_mu(b, log_delta_b))
    while hi - lo > 0.1 * CLOSE * hi and math.isfinite(hi):
        mid = 0.5 * (lo + hi)
        lo, hi = (lo, mid) if covers(mid) else (mid, hi)
    return hi


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon) of N(mu, 1) against N(0, 1) (Balle, Wang 2018, Theorem 8)."""
    if mu == 0.0:
        return math.log(-math.expm1(epsilon)) if epsilon < 0 else -math.inf
    a = float(log_ndtr(mu / 2 - epsilon / mu))
    b = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return a + math.log(-math.expm1(b - a)) if b < a else -math.inf


def gdp_mu(epsilon: float, log_delta: float) -> float:
    """Return the mu at which the Gaussian profile passes through (epsilon, log delta)."""
    if math.isnan(log_delta):
        return math.nan
    if log_delta == -math.inf:
        return 0.0
    lo, hi = 0.0, 1.0
    while log_gaussian_delta(hi, epsilon) < log_delta:
        lo, hi = hi, 2 * hi
        if hi > 1e8:
            return math.inf
    for _ in range(200):
        mid = 0.5 * (lo + hi)
        if not lo < mid < hi:
            break
        lo, hi = (mid, hi) if log_gaussian_delta(mid, epsilon) < log_delta else (lo, mid)
    return hi
