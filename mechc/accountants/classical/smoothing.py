"""Uniform error of an Edgeworth expansion of any order, from the characteristic function itself.

In: a composed loss, a tilt and the coefficients of an expansion G of the standardised tilted sum.
Out: a proven bound on sup_x |F(x) - G(x)|. By Prawitz's smoothing inequality (1972; equivalently
the extremal majorants of Beurling and Selberg), for every T > 0,

    sup |F - G| <= (c/pi) int_0^T |f - g|/u du + (1/T) int_0^T |g| du + (1/pi) int_T^inf |g|/u du,

c = 1.0253, with f, g the Fourier transforms of F and G: g(u) = exp(-u^2/2) sum_j c_j (iu)^j. The
theorems behind `edgeworth_error` bound the first integral by moments; here it is evaluated, because
f is known:

* u < `_START`: Taylor, by moments of the sum (f and g agree to order 3);
* `_START` < u < `_END`: Cauchy-Schwarz on panels, int |h|/u <= sqrt(r int |h/u|^2), the square by
  Gauss quadrature, whose error follows from bounds of f and g on an ellipse in the complex plane
  (Trefethen, Approximation Theory and Practice, Theorem 19.3), E exp(b|S|) being known from K;
* beyond: |f| by the decay proof of `characteristic`, T chosen to balance it against 1/T.

The published O(1/n) theorems for smooth summands (Derumigny, Girard, Guyonvarch 2024, A.4 and A.5)
are estimates of the same three integrals for one T by constants, so they are never sharper.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.accountants.classical.edgeworth_errors import PSI, upper_gamma
from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.decay import by_farther_nodes
from mechc.accountants.contours.law import Law
from mechc.errors import NumericError, UnsupportedError
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

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
