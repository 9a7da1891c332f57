"""The saddle-point accountant: delta from cumulants of the tilted privacy loss, at any count.

In: steps and epsilon. Out: log delta as a Bound. Method (Alghamdi et al., arXiv 2208.09595, here
SPA; equation numbers are theirs): with K the generating function of the composed finite loss,

    delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)],   f_t(x) = exp(-tx) (1 - exp(-x))_+  (33-38)

under the law tilted by exp(tL - K(t)), for every t > 0 in the strip; t is chosen at the saddle
K'(t) = eps + 1/t + 1/(t+1) (50). That law is replaced by a normal one ("clt", (66), (78)-(79)), by
a tilted Edgeworth series, or by steepest descent ("msd", (60), (61)); "moments" is (43)-(44). What
each proves, and by which theorem, is in docs/methods-series.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds import best_maximum, exponent, maximum_bound
from mechc.accountants.classical.normal import (
    hermite_coefficients,
    hermite_values,
    log_mills,
    standardise,
)
from mechc.accountants.classical.normal_errors import (
    NODES,
    WEIGHTS,
    berry_esseen_distance,
    edgeworth_error,
    smoothing_error,
)
from mechc.accountants.contours.composed import ComposedLoss, Interval
from mechc.accountants.contours.saddle import Tilt, saddle_target, solve
from mechc.accountants.registry import Accountant
from mechc.errors import DeclarationError, UnsupportedError, check_one_of
from mechc.loss.privacy_loss import Step
from mechc.numeric.logs import HALF_LOG_TWO_PI, log1mexp, log_add, log_peak, log_subtract
from mechc.numeric.rounding import U
from mechc.protocol import Floats

_DROP = 120.0  # nats below the peak at which the payoff integral is cut
_GROWTH = 2.0  # ratio of neighbouring panels
_FADING = 0.1  # share of the second term that the fourth may have where the first says nothing


@dataclass(frozen=True)
class TiltedLaw:
    """The tilted privacy loss, reduced to its cumulants.

    Attributes:
        t: the tilt, positive.
        log_prefactor: K(t) - t epsilon.
        error: bound on the error of log_prefactor.
        excess: tilted mean minus epsilon, in standard deviations.
        sd: tilted standard deviation.
        lambdas: standardised cumulants from the third on.
    """

    t: float
    log_prefactor: float
    error: float
    excess: float
    sd: float
    lambdas: Floats

    @classmethod
    def at(cls, composed: ComposedLoss, t: float, epsilon: float, order: int) -> TiltedLaw:
        """Reduce the composition tilted by t to its first `order` cumulants.

        Raises:
            UnsupportedError: the tilted law is a point mass.
        """
        cumulants = composed.cumulants(t, order)
        lambdas = standardise(cumulants)
        if not (cumulants[2] > 0.0 and np.isfinite(lambdas).all()):
            raise UnsupportedError(
                f"the privacy loss tilted by t={t:g} has no spread: no central limit theorem "
                "applies"
            )
        sd = math.sqrt(float(cumulants[2]))
        main, error = exponent(composed, t, epsilon)
        excess = (float(cumulants[1]) - epsilon) / sd
        return cls(t, main, error, excess, sd, lambdas)

    def log_normal_value(self) -> float:
        """Return log of the finite part of delta under a normal tilted law, SPA (66), (78)-(79)."""
        upper, lower = self._mills_arguments()
        difference = log_mills(upper) - log_mills(lower)
        main = self.log_prefactor - 0.5 * self.excess * self.excess - HALF_LOG_TWO_PI
        return main + log_mills(upper) + log1mexp(-difference)

    def _mills_arguments(self) -> tuple[float, float]:
        alpha = self.t * self.sd - self.excess
        return alpha, alpha + self.sd

    def series(self, order: int) -> Floats:
        """Return E~[f_t] under the Edgeworth series, term by term, shape (order + 1,).

        Term s is the integral of f_t against the part of relative size n^(-s/2). The integrand is
        taken as (1 - exp(-s y)) exp(-t s y) phi, all factors positive and evaluated without
        cancellation; the closed recursion for the terms loses digits when t s is large.
        """
        y, weight = self._payoff_rule()
        hermite = hermite_values(y - self.excess, 3 * order)
        terms: Floats = hermite_coefficients(self.lambdas, order) @ (hermite @ weight)
        return terms

    def _payoff_rule(self) -> tuple[Floats, Floats]:
        """Nodes y >= 0 (distance from epsilon in sd) and weights f_t phi dy."""
        alpha, beta = self._mills_arguments()
        peak = max(0.0, -alpha)
        rise = alpha + peak  # slope of the exponent at the peak
        reach = 2 * _DROP / (rise + math.sqrt(rise * rise + 2 * _DROP))
        start = max(0.0, peak - math.sqrt(2 * _DROP))
        edges = [start]
        width = 1.0 / (beta + 1.0) if beta > 0.0 else 0.5
        while edges[-1] < peak + reach:
            edges.append(edges[-1] + width)
            width = min(width * _GROWTH, 1.5)
        edge = np.array(edges)
        half = 0.5 * np.diff(edge)
        y = (edge[:-1, None] + half[:, None] * (1.0 + NODES)).ravel()
        log_density = -self.t * self.sd * y - 0.5 * (y - self.excess) ** 2 - HALF_LOG_TWO_PI
        payoff = -np.expm1(-self.sd * y) * np.exp(log_density)
        return y, (half[:, None] * WEIGHTS).ravel() * payoff

    def berry_esseen(self, composed: ComposedLoss) -> tuple[Interval, float]:
        """Return the proven interval of the finite part around the normal value, SPA Theorem 5.

        Also the bound on the distribution function that it rests on.
        """
        distance = berry_esseen_distance(composed, self.t)
        value = self.log_normal_value()
        upper, lower = self._mills_arguments()
        digits = 16 * U * (1.0 + abs(log_mills(upper)) + 0.5 * upper * upper)
        lost = digits / max(-math.expm1(log_mills(lower) - log_mills(upper)), digits)
        distance += composed.moment_error(self.t)
        return self._around(value, distance, lost), distance

    def enclosure(self, composed: ComposedLoss, order: int) -> Interval:
        """Return the best of three proven intervals of the finite part.

        Berry-Esseen around the normal law, the moment bound around the first-order series
        (`edgeworth_error`) and the smoothing bound around the series of `order`.
        """
        interval, _ = self.berry_esseen(composed)
        noise = composed.moment_error(self.t) * (2.0 + abs(float(self.lambdas[0])))
        terms = self.series(order)
        coefficients = hermite_coefficients(self.lambdas, order).sum(axis=0)
        first = edgeworth_error(composed, self.t)
        for total, distance in (
            (float(terms[:2].sum()), first),
            (float(terms.sum()), smoothing_error(composed, self.t, coefficients)),
        ):
            if total > 0.0 and math.isfinite(distance):
                value = self.log_prefactor + math.log(total)
                interval = interval.meet(*self._around(value, distance + noise, 1e-12))
        return interval

    def _around(self, log_value: float, distance: float, relative: float) -> Interval:
        """exp(log_value) (1 +- relative) +- 2 distance max f_t exp(log_prefactor), rounded out."""
        radius = math.log(2.0 * distance) + self.log_prefactor + float(log_peak(self.t))
        slack = self.error + relative + 8 * U * (1 + abs(self.log_prefactor))
        upper = log_add(log_value, radius) + slack
        lower = log_subtract(log_value - relative, radius + relative)
        return Interval(lower - slack, upper)


def refuse_divergence(series: Floats, log_atoms: float, rtol: float, method: str) -> None:
    """Refuse a series that does not converge.

    Args:
        series: terms of order 0 to 4.
        log_atoms: log tilted probability that all steps land on atoms, which no density sees.
        rtol: terms and masses below this share of the total are accepted whatever they do.
        method: name for the message.

    Raises:
        UnsupportedError: the fourth term exceeds the second (SGS3 in the tests: a tilted mass of
            1e-9 far out carries the sixth moment); or the second exceeds the first, unless the
            fourth shows that this is symmetry, which makes odd terms small; or atoms remain.
    """
    total = float(series.sum())
    size = abs(series) / abs(total) if total else np.full(series.shape, np.inf)
    grows = size[4] > max(size[2], rtol)
    grows |= size[2] > max(size[1], rtol) and size[4] > _FADING * size[2]
    if grows or not total > 0.0:
        shown = ", ".join(f"{x:.1e}" for x in size[1:])
        raise UnsupportedError(
            f"{method}: the tilted Edgeworth series does not converge here (relative terms {shown})"
        )
    if log_atoms > math.log(rtol):
        raise UnsupportedError(
            f"{method}: all steps land on atoms of the loss with tilted probability "
            f"{math.exp(log_atoms):.1e}, which the series cannot see"
        )


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


class SaddlepointAccountant(Accountant):
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
        self, steps: Sequence[Step], *, rtol: float = 1e-6, variant: str = "msd1",
        order: int | None = None,
    ) -> None:  # fmt: skip
        """Merge the steps; nothing is computed yet."""
        check_one_of("variant", variant, VARIANTS)
        if order is not None and variant != "edgeworth":
            raise DeclarationError(f"order={order!r}: only variant='edgeworth' has an order")
        if order not in (None, 1, 2, 3, 4):
            raise DeclarationError(f"order={order!r}: expected 1, 2, 3 or 4")
        self._composed = ComposedLoss(steps)
        self._rtol, self._variant, self._order = rtol, variant, order or 4
        self._method = f"saddlepoint {variant}"

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta at epsilon.

        Raises:
            UnsupportedError: the variant cannot answer: no saddle point, a lattice too coarse for
                a density, a series that does not converge.
        """
        settled = self._composed.settled(epsilon, self._method)
        if settled is not None:
            return settled
        if self._variant == "moments":
            upper, t = best_maximum(self._composed, epsilon)
            proven = self._composed.outer(epsilon).meet(-math.inf, upper)
            why = {"tilt": t, "reason": "the estimate is the upper bound"}
            return self._bound(proven, proven.upper, why)
        tilt = solve(self._composed, saddle_target(epsilon), epsilon)
        outer = self._composed.outer(epsilon)
        outer = outer.meet(-math.inf, maximum_bound(self._composed, tilt.t, epsilon))
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
        law = TiltedLaw.at(self._composed, tilt.t, epsilon, 2)
        interval, term = law.berry_esseen(self._composed)
        proven = self._shifted(interval, outer)
        estimate = proven.project(self._composed.with_infinite(law.log_normal_value()))
        return self._bound(proven, estimate, {"tilt": tilt.t, "berry_esseen": term})

    def _edgeworth(self, epsilon: float, tilt: Tilt, outer: Interval) -> Bound:
        law = TiltedLaw.at(self._composed, tilt.t, epsilon, 6)
        series = law.series(4)
        refuse_divergence(series, self._composed.atoms(tilt.t), self._rtol, self._method)
        value = law.log_prefactor + math.log(float(series[: self._order + 1].sum()))
        proven = self._shifted(law.enclosure(self._composed, self._order), outer)
        estimate = proven.project(self._composed.with_infinite(value))
        relative = (series[1:] / series.sum()).tolist()
        return self._bound(proven, estimate, {"tilt": tilt.t, "relative_terms": relative})

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
