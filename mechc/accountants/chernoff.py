"""Chernoff bounds on delta: the moments accountant and its refinements, SPA section 3.2.

In: the composed loss and epsilon. Out: logs of proven upper bounds on delta, mass at infinity and
rounding allowance included. All come from delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)] and
hold at every t >= 0 of the strip, so an inexact minimiser costs sharpness, never validity:

    (40)  f_t <= 1
    (43)  f_t <= t^t / (1+t)^(1+t), its maximum; the tight conversion from Renyi divergences
    (46)  f_t(x) <= x_+ <= (x + a)^2 / (4a) with a^2 = m^2 + s^2, for the tilted mean eps + m and
          variance s^2: E~ f_t <= (m + sqrt(m^2 + s^2)) / 2. The paper's own constant is larger.
"""

from __future__ import annotations

import math

from mechc.accountants.composed import ComposedLoss, U
from mechc.accountants.logspace import log_add
from mechc.accountants.saddle import mean_target, payoff_target, solve


def log_payoff_maximum(t: float) -> float:
    """Return log max_x f_t(x) = t log t - (1+t) log(1+t), SPA (42), for t >= 0."""
    return -math.log1p(t) - t * math.log1p(1.0 / t) if t > 0.0 else 0.0


def exponent(composed: ComposedLoss, t: float, epsilon: float) -> tuple[float, float]:
    """Return K(t) - t epsilon and a bound on its error."""
    k = composed.log_finite if t == 0.0 else float(composed.cumulants(t, 2)[0])
    error = 0.0 if t == 0.0 else composed.log_mass_error(t)
    return k - t * epsilon, error + 8 * U * (1.0 + abs(k) + abs(t * epsilon))


def upper_at(composed: ComposedLoss, t: float, epsilon: float) -> float:
    """Return the log of the better of bounds (43) and (46) at the tilt t."""
    return min(maximum_bound(composed, t, epsilon), variance_bound(composed, t, epsilon))


def chernoff_bounds(composed: ComposedLoss, epsilon: float) -> dict[str, float]:
    """Return the logs of the three bounds, each at its own minimising tilt.

    Raises:
        UnsupportedError: the generating function is infinite for every t > 0.
    """
    at_mean = 0.0
    if composed.cumulants(0.0, 2)[1] < epsilon:
        at_mean = solve(composed, mean_target(epsilon), epsilon).t
    at_maximum = solve(composed, payoff_target(epsilon), epsilon).t
    return {
        "(40)": _finish(composed, *exponent(composed, at_mean, epsilon)),
        "(43)": maximum_bound(composed, at_maximum, epsilon),
        "(46)": variance_bound(composed, at_mean, epsilon),
    }


def maximum_bound(composed: ComposedLoss, t: float, epsilon: float) -> float:
    """Return the log of bound (43) at the tilt t."""
    main, error = exponent(composed, t, epsilon)
    return _finish(composed, main + log_payoff_maximum(t), error + 8 * U * math.log1p(t))


def variance_bound(composed: ComposedLoss, t: float, epsilon: float) -> float:
    """Return the log of bound (46) at the tilt t."""
    main, error = exponent(composed, t, epsilon)
    _, mean, variance = composed.cumulants(t, 2)
    spread = math.sqrt(max(float(variance), 0.0)) * (1.0 + composed.variance_error(t))
    excess = float(mean) - epsilon + composed.mean_error(t) + 4 * U * abs(epsilon)
    root = math.hypot(excess, spread)
    size = 0.5 * (excess + root) if excess > 0 else 0.5 * spread * spread / (root - excess)
    if not size > 0.0:
        return math.inf
    return _finish(composed, main + math.log(size), error + 8 * U)


def _finish(composed: ComposedLoss, log_bound: float, error: float) -> float:
    """Round up, add the mass at infinity, and remember that delta is at most one."""
    upper = log_bound + error
    total = log_add(composed.log_infinite, upper)
    return min(0.0, total + 8 * U * (1.0 + abs(total))) if math.isfinite(total) else 0.0
