"""The saddle-point accountant: delta from cumulants of the tilted privacy loss, at any count.

In: steps and epsilon. Out: log delta as a Bound. Method (Alghamdi et al., arXiv 2208.09595, here
SPA; equation numbers are theirs): with K the generating function of the composed finite loss,

    delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)],   f_t(x) = exp(-tx) (1 - exp(-x))_+  (33-38)

under the law tilted by exp(tL - K(t)), for every t > 0 in the strip; t is chosen at the saddle
K'(t) = eps + 1/t + 1/(t+1) (50). The identity needs no normalisation of K, so a mass d_inf at
L = +inf is simply added (I5). Cost: O(distinct steps) per epsilon, independent of the counts.

=========== ==================================================== ==============================
variant     estimate                                             lower and upper
=========== ==================================================== ==============================
msd0..msd2  steepest descent (60), (61) and the next order       none: nan
clt         normal law for the tilted loss (66), (78)-(79)       proven, Berry-Esseen (Theorem 5)
moments     the best of (40), (43)-(44) and (46)-(47)            proven, Chernoff
edgeworth   tilted Edgeworth series of order 1..4                proven, see `tilted`
=========== ==================================================== ==============================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants import tilted
from mechc.accountants.bound import Bound
from mechc.accountants.chernoff import chernoff_bounds, upper_at
from mechc.accountants.composed import ComposedLoss, Interval
from mechc.accountants.saddle import Tilt, saddle_target, solve
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.measure import Step

Floats = NDArray[np.float64]

VARIANTS = ("msd0", "msd1", "msd2", "clt", "moments", "edgeworth")


def steepest_descent(order: int, t: float, epsilon: float, cumulants: Floats) -> float:
    """Return log of the finite part of delta by the method of steepest descent.

    Args:
        order: 0 (60), 1 (61), or 2 (the next power of 1/n).
        t: the saddle point.
        epsilon: any real number.
        cumulants: [K(t), K'(t), ..., K^(2 order + 2)(t)] of the composition.

    Returns:
        The log, or nan where the correction is not positive.
    """
    j = np.arange(2, 2 * order + 3)
    sign = np.where(j % 2 == 0, 1.0, -1.0)
    factorial = np.array([math.factorial(n - 1) for n in j], dtype=np.float64)
    # t^j F^(j)(t): free of overflow for small t, and the ratios below do not see the scale
    scaled = t**j * cumulants[2 : j[-1] + 1] + sign * factorial * (1.0 + (t / (1.0 + t)) ** j)
    f = np.zeros(7)
    f[j] = scaled / scaled[0] ** (0.5 * j)
    correction = 1.0
    if order >= 1:
        correction += f[4] / 8 - 5 * f[3] ** 2 / 24
    if order >= 2:
        correction += (
            -f[6] / 48
            + 7 * f[3] * f[5] / 48
            + 35 * f[4] ** 2 / 384
            - 35 * f[3] ** 2 * f[4] / 64
            + 385 * f[3] ** 4 / 1152
        )
    if not correction > 0.0:
        return math.nan
    main = cumulants[0] - epsilon * t - math.log1p(t) - 0.5 * math.log(2 * math.pi * scaled[0])
    return float(main + math.log(correction))


class SaddlepointAccountant:
    """Composition by the saddle-point method, one direction.

    Args:
        steps: the composition; counts up to 1e12.
        rtol: relative size above which the edgeworth variant calls a growing term divergence.
        variant: "msd0", "msd1", "msd2", "clt", "moments" or "edgeworth".
        order: order of the edgeworth variant, 1 to 4 (default 4); the others have none.

    Raises:
        DeclarationError: the variant or its order does not exist.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        rtol: float = 1e-6,
        variant: str = "msd1",
        order: int | None = None,
    ) -> None:
        """Merge the steps; nothing is computed yet."""
        if variant not in VARIANTS:
            raise DeclarationError(f"variant={variant!r}: expected one of {', '.join(VARIANTS)}")
        if order is not None and variant != "edgeworth":
            raise DeclarationError(f"order={order!r}: only variant='edgeworth' has an order")
        if order not in (None, 1, 2, 3, 4):
            raise DeclarationError(f"order={order!r}: expected 1, 2, 3 or 4")
        self._composed = ComposedLoss(steps)
        self._rtol, self._variant, self._order = rtol, variant, order or 4
        self._method = f"saddlepoint {variant}"

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta at epsilon.

        Args:
            epsilon: any real number, not nan.

        Raises:
            UnsupportedError: the variant cannot answer: no saddle point, a lattice too coarse for
                a density, a series that does not converge.
        """
        settled = self._composed.settled(epsilon, self._method)
        if settled is not None:
            return settled
        if self._variant == "moments":
            return self._moments(epsilon)
        tilt = solve(self._composed, saddle_target(epsilon), epsilon)
        outer = self._composed.outer(epsilon)
        outer = outer.meet(-math.inf, upper_at(self._composed, tilt.t, epsilon))
        if self._variant == "clt":
            self._composed.refuse_lattice(tilt.t, self._method)
            return self._clt(epsilon, tilt, outer)
        self._refuse_unsolved(epsilon, tilt)
        self._composed.refuse_lattice(tilt.t, self._method)
        if self._variant == "edgeworth":
            return self._edgeworth(epsilon, tilt, outer)
        return self._steepest_descent(epsilon, tilt, outer)

    def _steepest_descent(self, epsilon: float, tilt: Tilt, outer: Interval) -> Bound:
        order = int(self._variant[-1])
        cumulants = self._composed.cumulants(tilt.t, 2 * order + 2)
        value = steepest_descent(order, tilt.t, epsilon, cumulants)
        if math.isnan(value):
            raise UnsupportedError(
                f"{self._method}: the correction at epsilon={epsilon:g}, t={tilt.t:g} is not "
                "positive, the expansion does not apply"
            )
        estimate = outer.project(self._composed.with_infinite(value))
        detail = {"tilt": tilt.t, "reason": "no theorem bounds this approximation"}
        return Bound(math.nan, estimate, math.nan, self._method, "estimate", detail)

    def _clt(self, epsilon: float, tilt: Tilt, outer: Interval) -> Bound:
        law = tilted.TiltedLaw.at(self._composed, tilt.t, epsilon, 2)
        interval, term = law.berry_esseen(self._composed)
        proven = self._shifted(interval, outer)
        estimate = proven.project(self._composed.with_infinite(law.log_normal_value()))
        return self._bound(proven, estimate, {"tilt": tilt.t, "berry_esseen": term})

    def _edgeworth(self, epsilon: float, tilt: Tilt, outer: Interval) -> Bound:
        law = tilted.TiltedLaw.at(self._composed, tilt.t, epsilon, 6)
        series = law.series(4)
        tilted.refuse_divergence(series, self._composed.atoms(tilt.t), self._rtol, self._method)
        value = law.log_prefactor + math.log(float(series[: self._order + 1].sum()))
        proven = self._shifted(law.enclosure(self._composed, self._order), outer)
        estimate = proven.project(self._composed.with_infinite(value))
        relative = (series[1:] / series.sum()).tolist()
        return self._bound(proven, estimate, {"tilt": tilt.t, "relative_terms": relative})

    def _moments(self, epsilon: float) -> Bound:
        bounds = chernoff_bounds(self._composed, epsilon)
        proven = self._composed.outer(epsilon).meet(-math.inf, min(bounds.values()))
        detail = {"log_bounds": bounds, "reason": "the estimate is the upper bound"}
        return self._bound(proven, proven.upper, detail)

    def _shifted(self, finite: Interval, outer: Interval) -> Interval:
        """Add the mass at infinity and intersect with what is known anyway."""
        lower, upper = map(self._composed.with_infinite, finite)
        return outer.meet(lower - 1e-15 * (1 + abs(lower)) if lower > -math.inf else lower, upper)

    def _bound(self, proven: Interval, estimate: float, detail: dict[str, Any]) -> Bound:
        return Bound(proven.lower, estimate, proven.upper, self._method, "proven", detail)

    def _refuse_unsolved(self, epsilon: float, tilt: Tilt) -> None:
        if not tilt.solved:
            raise UnsupportedError(
                f"{self._method}: K'(t) does not reach epsilon={epsilon:g} up to t={tilt.t:g}, "
                "there is no saddle point"
            )
