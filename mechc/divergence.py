"""Rényi divergences and Gaussian differential privacy of a composition.

Rényi: D_alpha(P || Q) = K(alpha - 1) / (alpha - 1) adds up over steps; alpha = 1 is K'(0), the
Kullback-Leibler divergence; alpha = inf is the largest loss.

Gaussian: a run is mu-GDP if its profile lies below that of N(mu, 1) against N(0, 1) for every
epsilon (Dong, Roth, Su 2022, Corollary 2.13). For subsampled mechanisms the smallest such mu grows
without bound in the range of epsilon that is compared, so the range is part of the answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError

if TYPE_CHECKING:
    from mechc.composition import Composition
    from mechc.evaluation import Evaluation

CELLS = 256
SMALL_DELTA = 1e-12


def renyi(composition: Composition, order: float, direction: str) -> Bound:
    """Return bounds on the Rényi divergence of one order, the larger of the directions."""
    from mechc.accountants.renyi import RenyiAccountant

    evaluation = composition.evaluation("auto", direction)
    answers = [
        _scalar(RenyiAccountant(steps).renyi_epsilon([order]), name)
        for name, steps in evaluation.steps.items()
    ]
    return max(answers, key=lambda b: float(b.upper))


def _scalar(bound: Bound, direction: str) -> Bound:
    lower, estimate, upper = (float(v[0]) for v in (bound.lower, bound.estimate, bound.upper))  # type: ignore[index]
    detail = {"direction": direction}
    return Bound(lower, estimate, upper, bound.method, bound.status, detail)


def gdp(composition: Composition, epsilon_max: float | None, how: dict[str, Any]) -> Bound:
    """Return bounds on the smallest mu that holds for all epsilon up to `epsilon_max`.

    Proven cell by cell: on [e_i, e_{i+1}] the run's delta is at most its upper bound at e_i and
    the Gaussian's at least its value at e_{i+1}. Negative epsilon is covered through the other
    direction: delta_{P,Q}(-e) = 1 - e^-e + e^-e delta_{Q,P}(e) holds for both profiles.
    """
    if how.get("direction", "both") != "both":
        raise DeclarationError("gdp: direction must be 'both', as the Gaussian pair is symmetric")
    evaluation = composition.evaluation(**how)
    if epsilon_max is None:
        epsilon_max = float(composition.epsilon(SMALL_DELTA, **how).upper)
    if not 0 <= epsilon_max < math.inf:
        raise DeclarationError(
            f"epsilon_max={epsilon_max!r} is not a finite number >= 0; where a mass sits at "
            "infinite loss no mu exists"
        )
    return _gdp_on_grid(evaluation, np.linspace(0.0, epsilon_max, CELLS + 1))


def _gdp_on_grid(evaluation: Evaluation, grid: np.ndarray[Any, Any]) -> Bound:
    bounds = [evaluation.log_delta(float(e)) for e in grid]
    following = [*grid[1:], grid[-1]]
    lower, estimate, upper = (
        max(gdp_mu(float(e), float(getattr(b, side))) for e, b in zip(points, bounds, strict=True))
        for side, points in (("lower", grid), ("estimate", grid), ("upper", following))
    )
    beyond = math.exp(float(bounds[-1].upper))
    detail = {"epsilon_range": (-float(grid[-1]), float(grid[-1])), "delta_beyond": beyond}
    return Bound(lower, estimate, upper, evaluation.method, bounds[0].status, detail)


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
