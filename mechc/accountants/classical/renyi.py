"""The Renyi accountant: orders from the exact generating function, and the tight conversion.

In: steps and epsilon, or orders alpha. Out: log delta, or Renyi divergences, as Bounds. With K the
generating function of the composed loss, D_alpha(P||Q) = K(alpha - 1)/(alpha - 1) is exact and
additive; it is not a bound by itself. The conversion

    delta <= d_inf + inf_{t > 0} exp(K(t) - t eps) t^t / (1+t)^(1+t),   t = alpha - 1,

(Asoodeh et al. 2020; SPA (43)-(44)) is the best one that uses a single order; the order is found
by a convex search over all real t, not on a grid. Mass at L = +inf is kept out of K and added:
the textbook divergence would be infinite. The upper bound is proven, the lower one is trivial.

Where outcomes B may have any loss (`early`), E[exp(tL); B] is for alpha < 1 no more than
P(B)^alpha Q(B)^(1 - alpha), and for alpha > 1, by Hölder's inequality for every s > 1, than

    E_Q[(p/q)^(s alpha)]^(1/s) Q(B)^(1 - 1/s),

with the moment of the law itself for what nodes have there, and of one that is above for the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds import best_maximum
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.registry import Accountant
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.numeric.logs import log_add, log_subtract
from mechc.numeric.rounding import U

_METHOD = "renyi"
FAR_TILT = 1e3  # tilt from which on a closed generating function is preferred to a quadrature ...
CLOSED, SURE = 1e-12, 1.0  # ... the relative error allowed for rounding in it, from this value on
BESIDE = 1e-2  # distance of tilts from 0 and -1 where the means bound K as well as its value
NEXT = 1e-6  # tilts above 0 that need no panels of their own
BETWEEN = 1e-5  # distance of orders from 1 where those beside it bound a divergence
POWERS = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)  # s, of which the best is taken
HIGHEST = 1e12  # order up to which it is asked
HALF = 1.5  # order of an epoch from which on larger ones are hard to tell
SLACK = 1e-9  # nats for rounding and quadrature of what is a small share


class RenyiAccountant(Accountant):
    """Composition by Renyi divergences of real order, one direction.

    Args:
        steps: the composition; counts up to 1e12.
        rtol: not used: the method has no parameter that buys accuracy.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Merge the steps; nothing is computed yet."""
        self._composed, self._steps = ComposedLoss(steps), [s for s in steps if s.count]
        laws = [step.loss for step in self._steps]
        self._early = [s for s in self._steps if max(s.loss.early) > -math.inf]
        self._density = math.fsum(n * law.density_error for law, n in self._steps)
        self._moved = math.fsum(n * law.loss_error for law, n in self._steps)
        self._is_plain = not self._early and self._density == self._moved == 0.0
        known = [log_subtract(w.log_infinite - w.mass_errors[0], w.log_early + SLACK) for w in laws]
        self._reveals = max(known, default=-math.inf) > -math.inf

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta at epsilon; the estimate is the upper bound.

        Raises:
            UnsupportedError: the divergence is infinite for every order above one.
        """
        settled = self._composed.settled(epsilon, _METHOD)
        if settled is not None:
            return settled
        upper, t = best_maximum(self._composed, epsilon)
        proven = self._composed.outer(epsilon).meet(-math.inf, upper)
        detail = {"order": t + 1.0, "reason": "the estimate is the upper bound"}
        return Bound(proven.lower, proven.upper, proven.upper, _METHOD, "proven", detail)

    def renyi(self, order: float) -> Bound:
        """Return D_alpha(P||Q) of the composition for one order.

        Args:
            order: alpha > 0; 1 gives the Kullback-Leibler divergence, inf the essential supremum of
                the loss.

        Returns:
            Bound; infinite where alpha >= 1 meets a mass at L = +inf.

        Raises:
            UnsupportedError: alpha - 1 lies outside the strip in which E[exp(tL)] is finite.
        """
        # a law that bounds an epoch from one side stands for it, of which more is known
        epochs = [s for s in self._steps if s.loss.side and s.loss.parts and s.loss.drawn == 1]
        others = self
        if epochs:
            others = RenyiAccountant([s for s in self._steps if s not in epochs])
        known = others._divergence(order) if others._is_plain else others._bounded(order)
        each = [(n, *_about(law, order)) for law, n in epochs]
        lower = known[0] + math.fsum(n * low for n, low, _ in each)
        upper = known[2] + math.fsum(n * high for n, _, high in each)
        return Bound(lower, upper if epochs else known[1], upper, _METHOD, "proven", {})

    def _divergence(self, alpha: float) -> tuple[float, float, float]:
        """Lower bound, value and upper bound of the divergence of one order."""
        composed = self._composed
        t = alpha - 1.0
        if t >= 0 and self._reveals:
            return math.inf, math.inf, math.inf
        if composed.strip[1] <= t < math.inf:
            raise UnsupportedError(
                f"{_METHOD}: order {alpha:g} is the tilt {t:g}, and E[exp(tL)] is known to be "
                f"finite only for t < {composed.strip[1]:g}; delta and epsilon need no order"
            )
        if alpha == math.inf:
            top = composed.support[1]
            return top - 16 * U * abs(top) if math.isfinite(top) else top, top, top
        closed = composed.closed(t) if t > FAR_TILT else math.nan
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

    def _bounded(self, alpha: float) -> tuple[float, float, float]:
        """The same where laws are known up to errors, and masses that may stand at any loss."""
        t = alpha - 1.0
        if abs(t) < BETWEEN:  # divergences grow with their order
            below, above = (self._bounded(1.0 + 2.0 * x) for x in (-BETWEEN, BETWEEN))
            return below[0], 0.5 * (below[0] + above[2]), above[2]
        lower, value, upper = self._divergence(alpha)
        if lower == math.inf:
            return lower, value, upper
        off = self._density
        if min(abs(t), alpha) < BESIDE:  # known masses do not have what may have any loss
            off += math.fsum(2.0 * n * sum(map(math.exp, law.early)) for law, n in self._early)
        lower -= self._moved + off / abs(t)
        upper += self._moved + off / abs(t)
        sides = np.zeros(2)  # what K lacks at most, and has too much
        for law, n in self._early if alpha < math.inf else ():
            k = float(ComposedLoss([Step(law, 1)]).cumulants(t, 2)[0])
            most, own = (log - k + SLACK for log in self._log_beyond(law, alpha))
            sides += n * np.array([log_add(0.0, most), log_subtract(0.0, own)])
        if self._early:
            moved = sides / t if alpha < math.inf else np.array([math.inf, -math.inf])
            lower, upper = lower + float(moved.min()), upper + float(moved.max())
            known = [(n, _about(law, alpha)) for law, n in self._steps]
            lower = max(lower, math.fsum(n * least for n, (least, _) in known))
            upper = min(upper, math.fsum(n * most for n, (_, most) in known))
        if not lower > 0.0 and alpha > 2.0:  # they grow with it
            lower = self._bounded(min(0.5 * alpha, FAR_TILT))[0]
        lower = min(max(lower, 0.0), upper)
        return lower, min(max(value, lower), upper), upper

    def _log_beyond(self, law: PrivacyLoss, alpha: float) -> tuple[float, float]:
        """Logs of bounds on E[exp(tL)] where it may be any: in truth, and on the nodes."""
        p, q = law.early
        if law.side < 0:  # that under Q is at most one
            return (alpha * p if alpha < 1.0 else math.inf), -math.inf
        if min(p, q) == -math.inf:  # the other mass was not counted
            return math.inf, math.inf
        if alpha < 1.0:
            return (alpha * p + (1.0 - alpha) * q,) * 2
        found = []
        for moment in (lambda a: (a - 1.0) * _about(law, a)[1], lambda a: _on_nodes(law, a)):
            each = [moment(s * alpha) / s + (1.0 - 1.0 / s) * q for s in POWERS]
            found.append(min(each))
        return found[0], found[1]


def _about(law: PrivacyLoss, alpha: float) -> tuple[float, float]:
    """Bounds on the Renyi divergence by the steps that a law is of, 0 and inf where none is."""
    known = max(law.early) == -math.inf and not (law.side and law.parts)
    above = (Step(law, 1),) if known else law.above
    if len(above) == 1 and above[0].count > 1:
        rate = law.rate if law.source is None else getattr(law.source.kernel, "rate", 1.0)
        if law.drawn > 1:
            lower = _of_several(*above[0], law.drawn, alpha, law.is_reversed)
            return lower if rate == 1.0 else 0.0, math.inf
        return of_epoch(*above[0], alpha, law.is_reversed, rate)
    return 0.0, max((of_step(each, alpha)[1] for each, _ in above), default=math.inf)


def of_step(law: PrivacyLoss, alpha: float) -> tuple[float, float]:
    """Return bounds, without a quadrature where a closed form has its digits; or 0 and inf."""
    inside = 1.0 < alpha < min(1.0 + law.strip[1], HIGHEST)
    closed = law.closed_cgf(alpha - 1.0) if inside else math.nan
    if closed >= SURE and law.log_infinite == -math.inf:
        each = closed / (alpha - 1.0)
        return each * (1.0 - CLOSED), each * (1.0 + CLOSED)
    try:
        found = RenyiAccountant([Step(law.first(), 1)]).renyi(alpha)
    except (NumericError, UnsupportedError):
        return 0.0, math.inf
    return float(found.lower), float(found.upper)


def of_epoch(
    law: PrivacyLoss, steps: int, alpha: float, adding: bool, rate: float = 1.0
) -> tuple[float, float]:
    """Return bounds where a record takes part in one of so many steps, at a rate in any."""
    # here, as it loads scipy.special, which takes as long as many an answer
    from mechc.accountants.classical.means import (
        by_transform,
        mean_divergence,
        sampled_divergence,
    )

    if alpha == math.inf:  # W has the largest and the least values of X
        lower, upper = of_step(law, alpha)
        return (lower, upper) if rate == 1.0 else (0.0, sampled_divergence(upper, alpha, rate))
    if adding and rate < 1.0:
        upper = of_epoch(law, steps, alpha, True)[1]
        return 0.0, min(sampled_divergence(upper, alpha, rate), -math.log1p(-rate))
    lower, upper = by_transform(law, steps, alpha, adding, of_step, rate)
    if adding or alpha <= 1.0:
        return lower, upper
    least, most = mean_divergence(law, steps, alpha, of_step, rate)
    if HALF < alpha < 2.0:  # the integral loses digits, and divergences grow with their order
        least = max(least, by_transform(law, steps, HALF, False, of_step, rate)[0])
    return max(lower, least), max(min(upper, most), lower, least)


def _of_several(law: PrivacyLoss, steps: int, drawn: int, alpha: float, adding: bool) -> float:
    """Return a lower bound where a record takes part in several of so many steps."""
    if adding:  # e_k(X) / C(t, k) is at most W^k (Maclaurin)
        order = 1.0 + drawn * (alpha - 1.0)
        return drawn * of_epoch(law, steps, order, True)[0] if order > 0.0 else 0.0
    # a power above one of a sum is no less than the sum of powers
    least = drawn * of_step(law, alpha)[0] if alpha > 1.0 else 0.0
    less = math.log(math.comb(steps, drawn)) if alpha < math.inf else 0.0
    return max(least - less * (1.0 + 8.0 * U), 0.0)


def _on_nodes(law: PrivacyLoss, alpha: float) -> float:
    """Log of E[exp((alpha - 1) L)] by the nodes, inf where they do not settle."""
    try:
        return float(ComposedLoss([Step(law, 1)]).cumulants(alpha - 1.0, 2)[0])
    except (NumericError, UnsupportedError):
        return math.inf
