"""The Edgeworth accountant: delta from expansions of the untilted loss, and its interval.

In: steps and epsilon. Out: log delta as a Bound. Method (Wang et al. 2022, here EA): with X and Y
the log-likelihood ratios of the paper, (3.1) reads in our notation

    delta - d_inf = P(eps < L < inf) - exp(eps) Q(L > eps),

both distribution functions replaced by Edgeworth expansions of any order (AEA, Definition 4.1).
Under P the loss has cumulants K^(r)(0), under Q K^(r)(-1); the masses that are finite there are
exp K(0) and exp K(-1). With interval=True uniform errors of the expansions of first order, explicit
in four moments (`edgeworth_error`), turn into an interval (EEAI, Definition 4.2; error transfer
(3.2)).

The two terms cancel when delta is small: the error is absolute, at best that of the expansion and
at worst 1e-16 exp(eps). `SaddlepointAccountant(variant="edgeworth")` expands the tilted law
instead and keeps relative accuracy. Cost: O(1) for identical steps, O(distinct steps) else.
Errata of the paper: B_m is the root of the summed variances; the weights of its mixture zeta
belong the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds.chernoff import best_maximum
from mechc.accountants.classical.edgeworth_errors import edgeworth_error
from mechc.accountants.classical.hermite import hermite_coefficients, hermite_values, standardise
from mechc.accountants.classical.saddlepoint import SaddlepointAccountant
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.registry import Accountant
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import Step
from mechc.numeric.logs import HALF_ROOT, log_of
from mechc.numeric.rounding import MOST_LOG, U
from mechc.protocol import Floats

_METHOD = "edgeworth"


class _Side(NamedTuple):
    """The composed loss under P (tilt 0) or Q (tilt -1), reduced to an expansion."""

    mass: float
    mean: float
    sd: float
    coefficients: Floats

    def survival(self, epsilon: float) -> float:
        """Return mass * (1 - G(epsilon)) for the expansion G of the distribution function."""
        z = (epsilon - self.mean) / self.sd
        hermite = hermite_values(np.asarray(z), self.coefficients.size - 1)
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        # far out polynomials are beyond doubles
        correction = float(self.coefficients[1:] @ hermite[:-1]) if density > 0.0 else 0.0
        return self.mass * (0.5 * math.erfc(z * HALF_ROOT) + density * correction)


class EdgeworthAccountant(Accountant):
    """Composition by Edgeworth expansions of the loss under P and Q, one direction.

    Args:
        steps: the composition; counts up to 1e12.
        rtol: for the tilted series, the size above which a growing term counts as divergence.
        order: order of the expansion, 1 to 8 (tilted: 1 to 4); it needs order + 2 cumulants.
        interval: add the proven interval around the expansion (EEAI).
        tilted: expand the tilted loss instead, which is `saddlepoint` with variant="edgeworth";
            its interval is always given.

    Raises:
        DeclarationError: the order does not exist.
    """

    def __init__(
        self, steps: Sequence[Step], *, rtol: float = 1e-6, order: int = 2, interval: bool = False,
        tilted: bool = False,
    ) -> None:  # fmt: skip
        """Merge the steps; the expansions are made at the first query."""
        if not isinstance(order, int) or order not in range(1, 9):
            raise DeclarationError(f"order={order!r}: expected an integer from 1 to 8")
        self._composed = ComposedLoss(steps)
        self._order, self._interval = order, interval
        how: dict[str, Any] = {"rtol": rtol, "variant": "edgeworth", "order": order}
        self._tilted = SaddlepointAccountant(steps, **how) if tilted else None
        self._sides = cache(self._sides_of)

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta at epsilon.

        Raises:
            UnsupportedError: a moment does not exist, or the loss is a lattice that the normal
                law cannot smooth.
        """
        if self._tilted is not None:
            return self._tilted.log_delta(epsilon)
        settled = self._composed.settled(epsilon, _METHOD)
        if settled is not None:
            return settled
        estimate = self._estimate(epsilon)
        if self._interval:
            return self._with_interval(epsilon, estimate)
        status = "estimate"
        if math.isnan(estimate):
            status = f"no answer: order {self._order} gives no positive delta here; use saddlepoint"
        estimate = self._composed.outer(epsilon).project(estimate)
        return Bound(math.nan, estimate, math.nan, _METHOD, status, {"order": self._order})

    def _estimate(self, epsilon: float) -> float:
        """Log of delta by (3.1), nan where the terms cancel to nothing."""
        if epsilon > MOST_LOG:
            return math.nan
        under_p, under_q = self._sides(self._order)
        if not self._interval:
            self._composed.refuse_lattice(0.0, _METHOD)
        growth = math.exp(epsilon)
        plus, minus = under_p.survival(epsilon), growth * under_q.survival(epsilon)
        if not plus - minus > 8 * U * (abs(plus) + abs(minus)):
            return math.nan
        return self._composed.with_infinite(math.log(plus - minus))

    def _with_interval(self, epsilon: float, estimate: float) -> Bound:
        """EEAI: (3.2) with uniform errors of order 1, met with Chernoff's bound."""
        proven = self._composed.outer(epsilon)
        proven = proven.meet(-math.inf, best_maximum(self._composed, epsilon)[0])
        error_p, error_q = self._errors
        detail: dict[str, Any] = {"order": self._order, "errors of order 1": (error_p, error_q)}
        if epsilon <= MOST_LOG and math.isfinite(error_p + error_q):
            under_p, under_q = self._sides(1)
            growth = math.exp(epsilon)
            centre = under_p.survival(epsilon) - growth * under_q.survival(epsilon)
            radius = under_p.mass * error_p + growth * under_q.mass * error_q
            radius += 32 * U * (under_p.mass + growth * under_q.mass)
            logs = (self._composed.with_infinite(log_of(centre + s * radius)) for s in (-1, 1))
            proven = proven.meet(*logs)
        if math.isnan(estimate):
            detail["reason"] = "the estimate is the upper bound: the expansion gives none"
            estimate = proven.upper
        estimate = proven.project(estimate)
        return Bound(proven.lower, estimate, proven.upper, _METHOD, "proven", detail)

    def _sides_of(self, order: int) -> tuple[_Side, _Side]:
        """Expansions under P and Q."""
        return self._expand(0.0, order), self._expand(-1.0, order)

    def _expand(self, t: float, order: int) -> _Side:
        self._refuse_missing_moments(order)
        cumulants = self._composed.cumulants(t, order + 2)
        if not cumulants[2] > 0.0:
            raise UnsupportedError(f"{_METHOD}: the loss has no spread")
        coefficients = hermite_coefficients(standardise(cumulants), order).sum(axis=0)
        log_mass = self._composed.log_finite if t == 0.0 else self._composed.log_covered
        sd = math.sqrt(float(cumulants[2]))
        return _Side(math.exp(log_mass), float(cumulants[1]), sd, coefficients)

    @cached_property
    def _errors(self) -> tuple[float, float]:
        """Errors of the two distribution functions, with that of inexact moments."""
        self._refuse_missing_moments(2)
        return self._distance(0.0), self._distance(-1.0)

    def _distance(self, t: float) -> float:
        skewness = abs(float(standardise(self._composed.cumulants(t, 3))[0]))
        noise = self._composed.moment_error(t) * (2.0 + skewness)
        return edgeworth_error(self._composed, t) + noise

    def _refuse_missing_moments(self, order: int) -> None:
        lo, hi = self._composed.strip
        if not lo < -1.0 < 0.0 < hi:
            raise UnsupportedError(
                f"{_METHOD}: order {order} needs {order + 2} moments of the loss under P and Q, "
                f"and its generating function is known to be finite only on ({lo:g}, {hi:g})"
            )
