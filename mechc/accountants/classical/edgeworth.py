"""The Edgeworth accountant: delta from expansions of the untilted loss, and its interval.

In: steps and epsilon. Out: log delta as a Bound. Method (Wang et al. 2022, here EA): with X and Y
the log-likelihood ratios of the paper, (3.1) reads in our notation

    delta - d_inf = P(eps < L < inf) - exp(eps) Q(L > eps),

both distribution functions replaced by Edgeworth expansions of any order (AEA, Definition 4.1).
Under P the loss has cumulants K^(r)(0), under Q K^(r)(-1); the masses that are finite there are
exp K(0) and exp K(-1). With interval=True uniform errors of the expansions turn into an interval
(EEAI, Definition 4.2; error transfer (3.2)): explicit in the moments for the first order
(`edgeworth_error`), from the characteristic function for every order (`smoothing_error`).

The two terms cancel when delta is small: the error is absolute, at best that of the expansion and
at worst 1e-16 exp(eps). `SaddlepointAccountant(variant="edgeworth")` expands the tilted law
instead and keeps relative accuracy. Cost: O(1) for identical steps, O(distinct steps) else.
Errata of the paper: B_m is the root of the summed variances; the weights of its mixture zeta
belong the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds import best_maximum
from mechc.accountants.classical.normal import hermite_coefficients, hermite_values, standardise
from mechc.accountants.classical.normal_errors import edgeworth_error, smoothing_error
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
        error: what proves it: "best", or "moments" for the published theorems alone, whose
            constants are explicit in four moments.
        tilted: expand the tilted loss instead, which is `saddlepoint` with variant="edgeworth";
            its interval is always given.

    Raises:
        DeclarationError: the order does not exist.
    """

    def __init__(
        self, steps: Sequence[Step], *, rtol: float = 1e-6, order: int = 2, interval: bool = False,
        error: str = "best", tilted: bool = False,
    ) -> None:  # fmt: skip
        """Merge the steps; the expansions are made at the first query."""
        if not isinstance(order, int) or order not in range(1, 9):
            raise DeclarationError(f"order={order!r}: expected an integer from 1 to 8")
        if error not in ("best", "moments"):
            raise DeclarationError(f"error={error!r}: expected 'best' or 'moments'")
        self._composed = ComposedLoss(steps)
        self._order, self._interval, self._best = order, interval, error == "best"
        how: dict[str, Any] = {"rtol": rtol, "variant": "edgeworth", "order": order}
        self._tilted = SaddlepointAccountant(steps, **how) if tilted else None
        self._sides, self._uniform_errors = cache(self._sides_of), cache(self._errors_of)

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
        """EEAI: (3.2) with uniform errors of order 1 and of this order, met with other bounds."""
        # With error="moments" it is the published one: order 1, met with what always holds.
        proven = self._composed.outer(epsilon)
        orders = [1]
        if self._best:
            proven = proven.meet(-math.inf, best_maximum(self._composed, epsilon)[0])
            orders = sorted({1, self._order})
        detail: dict[str, Any] = {"order": self._order}
        for order in orders:
            error_p, error_q = detail[f"errors of order {order}"] = self._uniform_errors(order)
            if epsilon > MOST_LOG or not math.isfinite(error_p + error_q):
                continue
            under_p, under_q = self._sides(order)
            growth = math.exp(epsilon)
            centre = under_p.survival(epsilon) - growth * under_q.survival(epsilon)
            radius = under_p.mass * error_p + growth * under_q.mass * error_q
            radius += 32 * U * (under_p.mass + growth * under_q.mass)
            proven = proven.meet(*map(self._log_total, (centre - radius, centre + radius)))
        if math.isnan(estimate):
            detail["reason"] = "the estimate is the upper bound: the expansion gives none"
            estimate = proven.upper
        estimate = proven.project(estimate)
        return Bound(proven.lower, estimate, proven.upper, _METHOD, "proven", detail)

    def _log_total(self, finite: float) -> float:
        return self._composed.with_infinite(log_of(finite))

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

    def _errors_of(self, order: int) -> tuple[float, float]:
        """Errors of the two distribution functions, with that of inexact moments."""
        self._refuse_missing_moments(max(order, 2))
        return self._distance(0.0, order), self._distance(-1.0, order)

    def _distance(self, t: float, order: int) -> float:
        lambdas = standardise(self._composed.cumulants(t, order + 2))
        coefficients = hermite_coefficients(lambdas, order).sum(axis=0)
        error = edgeworth_error(self._composed, t) if order == 1 else math.inf
        if self._best:
            error = min(error, smoothing_error(self._composed, t, coefficients))
        return error + self._composed.moment_error(t) * (2.0 + abs(float(lambdas[0])))

    def _refuse_missing_moments(self, order: int) -> None:
        lo, hi = self._composed.strip
        if not lo < -1.0 < 0.0 < hi:
            raise UnsupportedError(
                f"{_METHOD}: order {order} needs {order + 2} moments of the loss under P and Q, "
                f"and its generating function is known to be finite only on ({lo:g}, {hi:g})"
            )
