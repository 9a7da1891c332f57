"""The CLT accountant: mu-Gaussian differential privacy by the central limit theorem.

In: steps and epsilon. Out: an estimate of log delta; never a bound. The composed loss is replaced
by that of a Gaussian mechanism, N(mu^2/2, mu^2) under P, with mu = 2 E_P[L] / sd_P(L) (Dong, Roth,
Su, "Gaussian differential privacy", Theorem 3.4: 2 ||kl||_1 / sqrt(||kappa_2||_1 - ||kl||_2^2)),
and delta is that of mu-GDP. It is right in the limit of many steps of vanishing privacy loss, and
wrong by any factor in the tails: nothing is proven, lower and upper are nan.

Masses at infinity are split off first: with P' = P(. | L < inf) and Q' = Q(. | p > 0), and
c = log P(L < inf) - log Q(p > 0), delta - d_inf = P(L < inf) delta'(epsilon - c) holds exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from mechc.accountants.bound import Bound
from mechc.accountants.classical.normal import log_ndtr
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.registry import Accountant
from mechc.errors import UnsupportedError
from mechc.loss.privacy_loss import Step
from mechc.numeric.logs import HALF_LOG_TWO_PI, log_subtract
from mechc.numeric.rounding import U

_METHOD = "clt"


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return log delta of mu-GDP: Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2)."""
    first = log_ndtr(0.5 * mu - epsilon / mu)
    return log_subtract(first, epsilon + log_ndtr(-0.5 * mu - epsilon / mu))


def log_gaussian_bounds(mu: float, epsilon: float) -> tuple[float, float, float, float]:
    """Bound what `log_gaussian_delta` returns, and log of the slope in e^eps without its sign.

    Args:
        mu: positive.
        epsilon: at least 0.

    Returns:
        Lower and upper bound of log delta, and of log Phi(-eps/mu - mu/2).
    """
    x, y = 0.5 * mu - epsilon / mu, -0.5 * mu - epsilon / mu
    first, slope = log_ndtr(x), log_ndtr(y)
    # log_ndtr to 16 u of it and of one; its slope at -x is below 1 + x
    moved = 3.0 * U * (0.5 * mu + epsilon / mu)
    error = 16.0 * U * (1.0 - first) + moved * (1.0 + max(-x, 0.0))
    slope_error = 16.0 * U * (1.0 - slope) + moved * (1.0 - y)
    other = slope_error + U * (abs(epsilon + slope) + epsilon)
    if epsilon == 0.0:  # no cancellation in erf, which underflows
        small = math.log(mu) - HALF_LOG_TWO_PI  # less mu^2 / 24
        middle = small if mu < 1e-9 else math.log(math.erf(0.5 * mu / math.sqrt(2.0)))
        low, high = (middle + sign * 64.0 * U * (1.0 - middle) for sign in (-1.0, 1.0))
    else:
        low = log_subtract(first - error, epsilon + slope + other)
        high = min(log_subtract(first + error, epsilon + slope - other), first + error)
    return low, min(high, 0.0), slope - slope_error, slope + slope_error


class CltAccountant(Accountant):
    """Composition by the central limit theorem, one direction; an estimate.

    Args:
        steps: the composition; counts up to 1e12.
        rtol: not used: the error of the method is unknown.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Merge the steps; mu is found at the first query."""
        self._composed = ComposedLoss(steps)

    @cached_property
    def mu(self) -> float:
        """The Gaussian parameter of the finite part.

        Raises:
            UnsupportedError: the loss has no variance, is a lattice that a normal law cannot
                smooth, or is not positive in the mean, to the digits of doubles.
        """
        composed = self._composed
        _, mean, variance = composed.cumulants(0.0, 2)
        if composed.strip[1] <= 0.0 or not 0.0 < variance < math.inf:
            raise UnsupportedError(
                f"{_METHOD}: the loss needs a finite, positive variance (found {variance:g} with "
                f"exponential moments up to t={composed.strip[1]:g})"
            )
        composed.refuse_lattice(0.0, _METHOD)
        sd = math.sqrt(float(variance))
        mu = 2.0 * (float(mean) - composed.log_finite + composed.log_covered) / sd
        if not mu > 0.0:
            raise UnsupportedError(f"{_METHOD}: the loss has too few digits for a normal law")
        return mu

    def log_delta(self, epsilon: float) -> Bound:
        """Return the estimate of log delta at epsilon.

        Raises:
            UnsupportedError: see `mu`.
        """
        composed = self._composed
        settled = composed.settled(epsilon, _METHOD)
        if settled is not None:
            return settled
        shift = composed.log_finite - composed.log_covered
        finite = composed.log_finite + log_gaussian_delta(self.mu, epsilon - shift)
        estimate = composed.outer(epsilon).project(composed.with_infinite(finite))
        detail = {"mu": self.mu, "reason": "no theorem bounds this approximation"}
        return Bound(math.nan, estimate, math.nan, _METHOD, "estimate", detail)
