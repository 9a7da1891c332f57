"""Expectation of the payoff f_t under normal and Edgeworth laws for the tilted privacy loss.

In: the composed loss, a tilt t and epsilon. Out: delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)]
with the tilted law of L replaced by a normal law or an Edgeworth series with the same cumulants,
and proven intervals: f_t rises from 0 to its maximum and falls back to 0, so that a uniform error
D of the distribution function costs at most 2 D max f_t (SPA, Theorem 5; the layer-cake argument
there, or integration by parts for a series that is no distribution function). The error is
therefore relative to exp(K - t eps): it shrinks with delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.berry_esseen import berry_esseen_distance
from mechc.accountants.chernoff import exponent, log_payoff_maximum
from mechc.accountants.composed import ComposedLoss, Interval, U
from mechc.accountants.edgeworth_interval import edgeworth_error
from mechc.accountants.edgeworth_series import hermite_coefficients, hermite_values, standardise
from mechc.accountants.logspace import HALF_LOG_TWO_PI, log1mexp, log_add, log_mills, log_subtract
from mechc.accountants.smoothing import smoothing_error
from mechc.errors import UnsupportedError

Floats = NDArray[np.float64]

_DROP = 120.0  # nats below the peak at which the payoff integral is cut
_GROWTH = 2.0  # ratio of neighbouring panels
_FADING = 0.1  # share of the second term that the fourth may have where the first says nothing
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


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
        y = (edge[:-1, None] + half[:, None] * (1.0 + _NODES)).ravel()
        log_density = -self.t * self.sd * y - 0.5 * (y - self.excess) ** 2 - HALF_LOG_TWO_PI
        payoff = -np.expm1(-self.sd * y) * np.exp(log_density)
        return y, (half[:, None] * _WEIGHTS).ravel() * payoff

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
        (`edgeworth_interval`) and the smoothing bound around the series of `order`.
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
        radius = math.log(2.0 * distance) + self.log_prefactor + log_payoff_maximum(self.t)
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
