"""The Renyi accountant: orders from the exact generating function, and the tight conversion.

In: steps and epsilon, or orders alpha. Out: log delta, or Renyi divergences, as Bounds. With K the
generating function of the composed loss, D_alpha(P||Q) = K(alpha - 1)/(alpha - 1) is exact and
additive; it is not a bound by itself. The conversion

    delta <= d_inf + inf_{t > 0} exp(K(t) - t eps) t^t / (1+t)^(1+t),   t = alpha - 1,

(Asoodeh et al. 2020; SPA (43)-(44)) is the best one that uses a single order; the order is found
by a convex search over all real t, not on a grid. Mass at L = +inf is kept out of K and added:
the textbook divergence would be infinite. The upper bound is proven, the lower one is trivial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds import maximum_bound
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import payoff_target, solve
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import Step
from mechc.loss.rounding import U
from mechc.protocol import Floats

_METHOD = "renyi"
FAR = 1e3  # tilt from which on a closed generating function is preferred to a quadrature ...
CLOSED, SURE = 1e-12, 1.0  # ... the relative error allowed for rounding in it, from this value on
BESIDE = 1e-2  # distance of tilts from 0 and -1 where the means bound K as well as its value
NEXT = 1e-6  # tilts above 0 that need no panels of their own


class RenyiAccountant:
    """Composition by Renyi divergences of real order, one direction.

    Args:
        steps: the composition; counts up to 1e12.
        rtol: not used: the method has no parameter that buys accuracy.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Merge the steps; nothing is computed yet."""
        self._composed = ComposedLoss(steps)

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta at epsilon; the estimate is the upper bound.

        Args:
            epsilon: any real number, not nan.

        Raises:
            UnsupportedError: the divergence is infinite for every order above one.
        """
        settled = self._composed.settled(epsilon, _METHOD)
        if settled is not None:
            return settled
        t = solve(self._composed, payoff_target(epsilon), epsilon).t
        upper = maximum_bound(self._composed, t, epsilon)
        proven = self._composed.outer(epsilon).meet(-math.inf, upper)
        detail = {"order": t + 1.0, "reason": "the estimate is the upper bound"}
        return Bound(proven.lower, proven.upper, proven.upper, _METHOD, "proven", detail)

    def renyi_epsilon(self, orders: Sequence[float] | Floats) -> Bound:
        """Return D_alpha(P||Q) of the composition for every order.

        Args:
            orders: alpha > 0, shape (n,); 1 gives the Kullback-Leibler divergence, inf the
                essential supremum of the loss.

        Returns:
            Bound with arrays of shape (n,); infinite where alpha >= 1 meets a mass at L = +inf.

        Raises:
            DeclarationError: an order is not positive.
            UnsupportedError: alpha - 1 lies outside the strip in which E[exp(tL)] is finite.
        """
        alphas = np.atleast_1d(np.asarray(orders, dtype=np.float64))
        if alphas.ndim != 1 or not (alphas > 0).all():
            raise DeclarationError(f"orders={orders!r}: expected positive numbers")
        rows = [self._divergence(float(a)) for a in alphas]
        lower, value, upper = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return Bound(lower, value, upper, _METHOD, "proven", {"orders": alphas})

    def _divergence(self, alpha: float) -> tuple[float, float, float]:
        """Lower bound, value and upper bound of the divergence of one order."""
        composed = self._composed
        t = alpha - 1.0
        if t >= 0 and composed.log_infinite > -math.inf:
            return math.inf, math.inf, math.inf
        if composed.strip[1] <= t < math.inf:
            raise UnsupportedError(
                f"{_METHOD}: order {alpha:g} is the tilt {t:g}, and E[exp(tL)] is known to be "
                f"finite only for t < {composed.strip[1]:g}; delta and epsilon need no order"
            )
        if alpha == math.inf:
            top = composed.support[1]
            return top - 16 * U * abs(top) if math.isfinite(top) else top, top, top
        closed = composed.closed(t) if t > FAR else math.nan
        if closed >= SURE:
            value, error = closed / t, CLOSED * closed / t
            return value - error, value, value + error
        if 0.0 < t < NEXT:  # panels for this tilt do as well, and are made
            composed.cumulants(NEXT, 2)
        k, slope, bend = map(float, composed.cumulants(t, 2))
        moved = U * abs(t)  # rounding of alpha - 1
        lower, value, upper = -math.inf, slope, math.inf
        if t != 0.0:
            value, error = k / t, composed.log_mass_error(t) + composed.lost_mass_error(t)
            error = (error + moved * abs(slope)) / abs(t) + 4 * U * abs(k / t)
            lower, upper = value - error, value + error
        # K is convex: K(t) = K(end) + (t - end) m for a slope m between those at t and at the end
        for end, mass, away in ((0.0, composed.log_finite, t), (-1.0, composed.log_covered, alpha)):
            if abs(away) < BESIDE:
                other = float(composed.cumulants(end, 2)[1])
                off = max(composed.mean_error(t) + moved * bend, composed.mean_error(end))
                slopes = min(slope, other) - off, max(slope, other) + off
                sides = slopes if t == 0.0 else [(mass + away * m) / t for m in slopes]
                slack = 16 * U * max(map(abs, sides))
                slack += composed.lost_mass_error(end) / abs(t) if t != 0.0 else 0.0
                lower, upper = max(lower, min(sides) - slack), min(upper, max(sides) + slack)
        return max(lower, 0.0), min(max(value, lower, 0.0), upper), upper
