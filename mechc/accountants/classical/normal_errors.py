"""How far the composed tilted loss is from a normal law, and from Edgeworth expansions.

In: a composed loss and a tilt. Out: proven numbers D with |F(x) - G(x)| <= D for all x, F the
distribution function of the standardised sum.

* `berry_esseen_distance`, G the normal law, by three moments. Smallest published constants,
  Shevtsova, "On the absolute constants in the Berry-Esseen inequality and its structural and
  nonuniform improvements", Informatics and Applications 7 (2013) 124-125: for identical summands
  with b the standardised third absolute moment of one of n, D sqrt(n) = min(0.4690 b, 0.3322 (b +
  0.429), 0.3031 (b + 0.646)); for others 0.5583 sum E|X_j|^3 / (sum Var X_j)^(3/2).
* `edgeworth_error`, G(x) = Phi(x) - lambda (x^2 - 1) phi(x) / (6 sqrt n), by four moments.
  Derumigny, Girard, Guyonvarch, "Explicit non-asymptotic bounds for the distance to the first-order
  Edgeworth expansion", Sankhya A 86 (2024) 261-336, Theorem A.2; Lemma 4.3 of the Edgeworth
  accountant is A.2 at e = 0.1. It holds for every e, and the best of several is taken. (A.3, for
  identical summands, is smaller only where both exceed a tenth.)
* `smoothing_error`, G any expansion, from the characteristic function f itself. By Prawitz's
  smoothing inequality (1972; equivalently the extremal majorants of Beurling and Selberg), for
  every T > 0,

      sup |F - G| <= (c/pi) int_0^T |f - g|/u du + (1/T) int_0^T |g| du + (1/pi) int_T^inf |g|/u du,

  c = 1.0253, g(u) = exp(-u^2/2) sum_j c_j (iu)^j. `edgeworth_error` bounds the first integral by
  moments; here it is evaluated:

  - u < `_START`: Taylor, by moments of the sum (f and g agree to order 3);
  - `_START` < u < `_END`: Cauchy-Schwarz on panels, int |h|/u <= sqrt(r int |h/u|^2), the square by
    Gauss quadrature, whose error follows from bounds of f and g on an ellipse in the complex plane
    (Trefethen, Approximation Theory and Practice, Theorem 19.3), E exp(b|S|) being known from K;
  - beyond: |f| by the decay proof of `characteristic`, T chosen to balance it against 1/T.

  The theorems for smooth summands of the same authors (A.4 and A.5, O(1/n)) are estimates of these
  three integrals for one T by constants, so they are never sharper.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.decay import by_farther_nodes
from mechc.accountants.contours.law import Law
from mechc.errors import NumericError, UnsupportedError
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

_INDEPENDENT = 0.5583  # of summands that differ; the next line: of identical ones
_IDENTICAL = ((0.4690, 0.0), (0.3322, 0.429), (0.3031, 0.646))  # (c, a) of c (b + a)


def identical_distance(b: float, n: float) -> float:
    """Return D for n identical summands whose standardised third absolute moment is b."""
    return min(c * (b + a) for c, a in _IDENTICAL) / math.sqrt(n)


def berry_esseen_distance(composed: ComposedLoss, t: float) -> float:
    """Return D for the composed loss tilted by t, at most one; it needs a third moment only."""
    fraction = composed.lyapunov(t)
    if composed.identical:
        n = float(composed.count)
        distance = identical_distance(fraction * math.sqrt(n), n)
    else:
        distance = _INDEPENDENT * fraction
    return min(1.0, distance * (1 + 1e-9))


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
    return min(independent_bound(moments, e) for e in _SPLITS) * (1.0 + 1e-9)


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


_PRAWITZ = PSI / math.pi
_START, _END = 0.004, 12.0  # frequencies u, see the docstring
# of panels: geometric where 1/u counts, then .5 wide
_EDGES = np.concatenate([[_START, 0.012, 0.036, 0.1, 0.25], np.arange(0.5, _END + 0.25, 0.5)])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)  # of a panel, on [-1, 1]
_RHO = 3.0  # ellipse of the panels; its half width is 5/3 and its half height 4/3 of theirs
_GOAL = 1e-24  # size of |f| at which it no longer matters
_NOISE = 1e-14  # rounding of f
_ROUNDED = 1e-12  # that of f by frequencies all at once, which few steps allow
_UNSEEN = 1e-18  # mass of the sum on panels that need not resolve its frequencies
_LARGEST = 2**17  # nodes of all steps that a bound is worth
_ATOMS = math.log(1e-2)  # with more mass on atoms nothing is gained over other bounds


def smoothing_error(composed: ComposedLoss, t: float, coefficients: Floats) -> float:
    """Return a bound on sup |F - G| for the composed loss tilted by t; inf where none is found.

    Args:
        composed: the composition.
        t: the tilt, inside the strip of convergence.
        coefficients: c_j of G's density phi(z) sum_j c_j He_j(z), at least to first order.
    """
    if composed.atoms(t) > _ATOMS:
        return math.inf
    _, _, variance, _, fourth = map(float, composed.cumulants(t, 4))
    sd = math.sqrt(variance)
    if not (sd > 0.0 and math.isfinite(fourth)):
        return math.inf
    try:
        near = _taylor(coefficients, 3.0 + fourth / variance**2)
        middle = _panels(composed, t, sd, coefficients)
        beyond = _decay(composed, t, sd)
    except (NumericError, UnsupportedError):  # frequencies or tilts out of reach
        return math.inf
    g_far = _gaussian_integral(coefficients, -1.0, _END)
    g_all = _gaussian_integral(coefficients, 0.0, 0.0)
    balanced = 2.0 * math.sqrt(_PRAWITZ * beyond * g_all)
    return _PRAWITZ * (near + middle + g_far) + balanced + g_far / math.pi


def _taylor(coefficients: Floats, fourth_moment: float) -> float:
    """Bound the integral of |f - g|/u below _START: |h| <= sup |h''''| u^4/24."""
    # |d^4/du^4 of u^j exp(-u^2/2)| <= int |x|^4 |He_j(x)| phi(x) dx <= (105 j!)^(1/2)
    factorials = [math.factorial(j) for j in range(coefficients.size)]
    largest = float(np.abs(coefficients) @ np.sqrt(105.0 * np.array(factorials, float)))
    return (fourth_moment + largest) * _START**4 / 96.0


def _gaussian_integral(coefficients: Floats, power: float, start: float) -> float:
    """Bound the integral of u^power |g(u)| from `start` on."""
    a = 0.5 * (np.arange(coefficients.size) + power + 1.0)
    used = coefficients != 0.0
    if start > 0.0:
        a = np.maximum(a, 0.5)  # u^-1 <= u^0 / start for the constant term
    gammas = [upper_gamma(each, 0.5 * start * start) for each in a[used].tolist()]
    return float(np.abs(coefficients[used]) @ (2.0 ** (a[used] - 1.0) * gammas))


def _panels(composed: ComposedLoss, t: float, sd: float, coefficients: Floats) -> float:
    """Bound the integral of |f - g|/u from _START to _END."""
    law = Law(composed.resolving(t, 1.05 * _END / sd, _UNSEEN / composed.count))
    tilted = _affordable(Tilted(law, t))
    centre, half = 0.5 * (_EDGES[1:] + _EDGES[:-1]), 0.5 * np.diff(_EDGES)
    u = centre[:, None] + half[:, None] * NODES
    ys, noise = u.ravel() / sd, _NOISE + tilted.lost
    rounding = 8.0 * EPS * float(tilted.counts @ tilted.spread) * _END / sd
    if rounding < _ROUNDED:
        (re, im), noise = tilted.log_phi_at(ys), noise + rounding
    else:
        re, im = np.array([tilted.log_phi(y, 1, 2) for y in ys.tolist()]).T[0]
    f = np.exp(re + 1j * im).reshape(u.shape)
    g = np.exp(-0.5 * u * u) * np.polynomial.polynomial.polyval(1j * u, coefficients)
    noise += sum(s.count * s.loss.tolerance for s in law.steps)
    size = (np.abs(f - g) + noise) / u
    squares = half * ((size * size) @ WEIGHTS)
    squares += half * _quadrature_errors(composed, t, sd, coefficients)
    return float(np.sqrt(2.0 * half * squares).sum())


def _affordable(tilted: Tilted) -> Tilted:
    """Refuse laws with so many nodes that thousands of frequencies would take many seconds."""
    if tilted.centred.size > _LARGEST:
        raise NumericError(f"smoothing: {tilted.centred.size} nodes, more than {_LARGEST}")
    return tilted


def _quadrature_errors(composed: ComposedLoss, t: float, sd: float, coefficients: Floats) -> Floats:
    """Bound the error of Gauss quadrature of |h/u|^2 on every panel, relative to half widths."""
    centre, half = 0.5 * (_EDGES[1:] + _EDGES[:-1]), 0.5 * np.diff(_EDGES)
    height = 0.5 * (_RHO - 1.0 / _RHO) * half
    width = 0.5 * (_RHO + 1.0 / _RHO) * half
    b = float(height.max())
    k, mean = map(float, composed.cumulants(t, 2)[:2])
    shifts = [
        float(composed.cumulants(t + s * b / sd, 2)[0]) - k - s * b * mean / sd for s in (1, -1)
    ]
    if max(shifts) > 50.0:
        return np.full(half.size, math.inf)
    f = sum(map(math.exp, shifts))  # >= E exp(b |S|)
    j = np.arange(coefficients.size)
    far = np.hypot(centre + width, height)[:, None] ** j @ np.abs(coefficients)
    g = np.exp(0.5 * height**2) * far
    largest = (f + g) / (centre - width)
    errors: Floats = 64.0 / 15.0 * largest**2 / (_RHO ** (2.0 * NODES.size) * (1.0 - _RHO**-2))
    return errors


def _decay(composed: ComposedLoss, t: float, sd: float) -> float:
    """Bound the integral of sup |f(v)|/u^2, v > u, from _END on, by laws that see far enough."""
    start, floor = _END / sd, 1e-3 / composed.count

    def seen(reach: float) -> Tilted:
        return _affordable(Tilted(Law(composed.resolving(t, reach, floor)), t, floor))

    reach = max(4.0 * start, 1.5 * math.sqrt(composed.count) / sd)
    return by_farther_nodes(seen, reach, math.inf, start, math.log(_GOAL)) / sd
