"""Uniform error of the first-order Edgeworth expansion, with explicit constants.

In: moments of the summands. Out: a number D with |F(x) - E_1(x)| <= D for all x, where F is the
distribution function of the standardised sum of n independent variables and
E_1(x) = Phi(x) - lambda (x^2 - 1) phi(x) / (6 sqrt n).

Source: Derumigny, Girard, Guyonvarch, "Explicit non-asymptotic bounds for the distance to the
first-order Edgeworth expansion", Sankhya A 86 (2024) 261-336, Theorems A.2 (independent summands)
and A.3 (identical summands); Lemma 4.3 of the Edgeworth accountant is A.2 at e = 0.1. They hold for
every e, and the best of several is taken. The bound
splits the integral of |f - f_1| / |u| (Prawitz smoothing) at |u| = sqrt(2e) (n/K4)^(1/4): below,
the logarithm of the characteristic function f is expanded, which gives the leading terms and the
remainder R; above, both functions are bounded. The pieces of R are re-derived here:
(1.0253/pi) int_0^inf u^(p-1) exp(-u^2/2) du for a term c u^p of log f - log f_1. Where the
published remainder is larger it is kept; where it is smaller it is replaced (two terms of A.3:
the published one in lambda u^5, and the square of a coefficient that was left out).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mechc.accountants.contours.composed import ComposedLoss
from mechc.errors import UnsupportedError
from mechc.numeric.rounding import EPS, MOST_LOG

_SPLITS = np.linspace(0.01, 0.32, 32).tolist()  # values of e that are tried, of those in (0, 1/3)
PSI = 1.0253  # |Psi(t)| <= 1.0253 / (2 pi |t|) for the Prawitz kernel
_CHI = 0.09916191  # sup over x > 0 of |cos x - 1 + x^2/2| / x^3
_MAIN3, _MAIN4 = 14.1961 + 67.0415, 4.3394  # of the terms in 1 / n^2, as published
CHORDS = 4096  # of an integral that is bounded from above
SMALL_EXPONENT = 1e-3  # exponent that is left out there: differences of gamma functions lose digits


class Standardised(NamedTuple):
    """Average standardised moments of n independent centred summands.

    With B^2 the average variance: skewness = n^-1 sum E X^3 / B^3, k3 and k4 the same with
    absolute powers 3 and 4, k3_tilde = k3 + n^-1 sum E|X| Var X / B^3.
    """

    n: float
    skewness: float
    k3: float
    k4: float
    k3_tilde: float


def edgeworth_error(composed: ComposedLoss, t: float) -> float:
    """Return the uniform error of the first-order expansion for the loss tilted by t.

    It may exceed one: the expansion is no distribution function.

    Raises:
        UnsupportedError: a step has no finite fourth moment at this tilt, or no spread at all.
    """
    moments = standardised_moments(composed, t)
    bounds = [independent_bound, identical_bound] if composed.identical else [independent_bound]
    return min(bound(moments, e) for bound in bounds for e in _SPLITS) * (1.0 + 1e-9)


def standardised_moments(composed: ComposedLoss, t: float) -> Standardised:
    """Return the moments of the summands tilted by t; E|X| is replaced by its bound sigma.

    Raises:
        UnsupportedError: as `edgeworth_error`.
    """
    table = composed.by_step(t, 4)
    weights = composed.counts / composed.count
    variance = float(weights @ table[:, 2])
    if not (np.isfinite(table).all() and variance > 0.0):
        raise UnsupportedError(
            f"edgeworth interval: the fourth moment of the loss tilted by t={t:g} is not finite "
            "and positive"
        )
    spread3 = float(weights @ table[:, 2] ** 1.5) / variance**1.5
    k3 = composed.lyapunov(t) * math.sqrt(composed.count)
    return Standardised(
        n=float(composed.count), skewness=float(weights @ table[:, 3]) / variance**1.5, k3=k3,
        k4=float(weights @ (table[:, 4] + 3.0 * table[:, 2] ** 2)) / variance**2,
        k3_tilde=k3 + spread3,
    )  # fmt: skip


def independent_bound(moments: Standardised, e: float) -> float:
    """Return the bound of Theorem A.2 for independent, not necessarily identical summands.

    Args:
        moments: of the summands.
        e: where the integral is split, any number in (0, 1/3).
    """
    n, skew, k3, k4, _ = moments
    room = (1.0 - 3.0 * e) ** 2
    p = 144 + 48 * e + 4 * e * e + 96 * math.sqrt(2 * e) + 32 * e + 16 * math.sqrt(2) * e**1.5
    growth = _exp(e * e * (1 / 6 + 2 * p / (576 * room)))
    r, half = k4 / n, 1 / 24 + p / (2 * 576 * room)
    square = r**1.25 * _power(5) / 12 + r**1.5 * _power(6) * (1 / 48 + 1 / 72)
    square += r**1.75 * _power(7) / 144 + r**2 * _power(8) / 1152
    cross = r**2 * half**2 * _power(8) / 2 + abs(skew) * k4 / n**1.5 * half * _power(8) / 6
    near = PSI / math.pi * (square / room + growth * cross)
    far = PSI * k3 / (6 * math.pi * math.sqrt(n)) * _gaussian_moment(moments, e)
    return float(_leading(moments, growth, e) + near + _skewness_tail(moments, e) + far)


def identical_bound(moments: Standardised, e: float) -> float:
    """Return the bound of Theorem A.3 for identically distributed summands; arguments as above."""
    n, skew, k3, k4 = moments.n, abs(moments.skewness), moments.k3, moments.k4
    room = (1.0 - 3.0 * e) ** 2
    p = 48 * e * math.sqrt(k4 / n) + 4 * e * e * k4 / n + 32 * e * skew**2 / math.sqrt(k4 * n)
    p += 96 * math.sqrt(2 * e) * skew / (k4 * n) ** 0.25
    p += 16 * math.sqrt(2) * k4**0.25 * skew * e**1.5 / n**0.75
    limit = _exp(e * e * (1 / 6 + 1 / (2 * room)))
    growth = limit * _exp(e * e * 2 * p / (576 * room))
    q = k4 / 12 + 1 / (4 * room) + p / (576 * room)
    square = skew * _power(5) / (6 * n**1.5) + (k4 / 24 + skew**2 / 36) * _power(6) / n**2
    square += k4 * skew * _power(7) / (72 * n**2.5) + k4**2 * _power(8) / (576 * n**3)
    cross = q * (max(q, 1.0) * _power(8) / (8 * n**2) + skew * _power(7) / (12 * n**1.5))
    near = PSI / math.pi * (square / (2 * room) + growth * cross)
    near += 1.306 * (growth - limit) * skew**2 / (36 * n)
    start, end = _far_range(moments, e)
    far = 2**2.5 * (upper_gamma(1.5, start**2 / 8) - upper_gamma(1.5, end**2 / 8))
    far *= PSI * k3 / (3 * math.pi * math.sqrt(n))
    return float(_leading(moments, limit, e) + near + _skewness_tail(moments, e) + far)


def _exp(x: float) -> float:
    return math.exp(x) if x < MOST_LOG else math.inf


def _power(p: int) -> float:
    """2^(p/2) Gamma(p/2 + 1) >= int_0^inf u^(p-1) exp(-u^2/2) du: the published, larger factor."""
    return float(2.0 ** (p / 2)) * math.gamma(p / 2 + 1)


def _leading(moments: Standardised, growth: float, e: float) -> float:
    n, skew, _, k4, k3t = moments
    order1 = 0.031 * k3t**2 + 0.327 * k4 * (1 / 12 + 1 / (4 * (1 - 3 * e) ** 2))
    order1 += 0.054 * abs(skew) * k3t + 0.037 * growth * skew**2
    order2 = _MAIN3 * k3t**4 / (16 * math.pi**4) + _MAIN4 * abs(skew) * k3t**3 / (8 * math.pi**3)
    return 0.1995 * k3t / math.sqrt(n) + order1 / n + order2 / n**2


def _far_range(moments: Standardised, e: float) -> tuple[float, float]:
    """Range of u in which only absolute values are bounded."""
    end = 2.0 * math.sqrt(moments.n) / moments.k3_tilde
    return min(math.sqrt(2 * e) * (moments.n / moments.k4) ** 0.25, end), end


def _skewness_tail(moments: Standardised, e: float) -> float:
    """Skewness part of f_1 on the far range."""
    start, end = _far_range(moments, e)
    gammas = upper_gamma(1.5, start) - upper_gamma(1.5, end)
    return abs(moments.skewness) / math.sqrt(moments.n) * gammas


def _gaussian_moment(moments: Standardised, e: float) -> float:
    """Int of u^2 exp(-c u^2) over the far range, c = (1 - 4 chi - sqrt(k4/n)) / 2, any sign."""
    start, end = _far_range(moments, e)
    c = 0.5 * (1.0 - 4.0 * _CHI - math.sqrt(moments.k4 / moments.n))
    if end <= start:
        return 0.0
    if 0.0 <= c * end**2 < SMALL_EXPONENT:
        return (end**3 - start**3) / 3.0
    if c > 0.0:
        gammas = upper_gamma(1.5, c * start**2) - upper_gamma(1.5, c * end**2) + 8 * EPS
        return float(0.5 * c**-1.5) * gammas
    if -c * end**2 > 600.0:
        return math.inf
    u = np.linspace(start, end, CHORDS + 1)  # the integrand is convex, its chords lie above it
    values = u * u * np.exp(-c * u * u)
    chords = 0.5 * (values[1:] + values[:-1]).sum() * (end - start) / CHORDS
    return float(chords) * (1.0 + 1e-12)


def upper_gamma(a: float, x: float) -> float:
    """Int_x^inf v^(a-1) exp(-v) dv for a positive multiple a of 1/2, by parts from the first."""
    whole = a % 1.0 == 0.0
    at, found = (
        (1.0, math.exp(-x)) if whole else (0.5, math.sqrt(math.pi) * math.erfc(math.sqrt(x)))
    )
    while at < a:
        at, found = at + 1.0, at * found + x**at * math.exp(-x)
    return found
