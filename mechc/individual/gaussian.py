"""The privacy profile of mu-GDP, with its rounding error, and its two inverses on the safe side.

delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)   (Balle and Wang 2018;
equation C.2 of Koskela, Tobaben and Honkela 2023). With a, b = (epsilon/mu -+ mu/2)/sqrt 2 this is
(erfc(a) - e^{-a^2} erfcx(b))/2, which neither overflows nor loses the tail; what it may lose to
cancellation is counted and added, so a budget in (epsilon, delta) never becomes too large a mu.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from mechc.composition import divergences
from mechc.errors import DeclarationError
from mechc.loss.rounding import U
from mechc.protocol import Floats

_SQRT2 = np.sqrt(2.0)
_TINY = 1e-305  # an upper bound never underflows to zero


def check_target(epsilon: float, delta: float) -> None:
    """Refuse a target that no filter can work with.

    Args:
        epsilon: finite and >= 0.
        delta: strictly between 0 and 1.

    Raises:
        DeclarationError: naming the argument.
    """
    if not 0.0 <= epsilon < np.inf:
        raise DeclarationError(f"epsilon={epsilon!r} (expected a finite number >= 0)")
    if not 0.0 < delta < 1.0:
        raise DeclarationError(f"delta={delta!r} (expected 0 < delta < 1)")


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> tuple[Floats, Floats]:
    """Bound delta(epsilon) of mu-GDP from below and above.

    Args:
        mu: array, > 0.
        epsilon: array, any real; broadcast against mu.

    Returns:
        (lower, upper), a few units in the last place apart except where the formula cancels.
    """
    m, e = np.broadcast_arrays(np.asarray(mu, np.float64), np.asarray(epsilon, np.float64))
    a, b = (e / m - m / 2) / _SQRT2, (e / m + m / 2) / _SQRT2
    positive = a >= 0
    gauss = np.exp(-a * a)
    # for b < 0 (epsilon negative beyond mu^2/2) erfcx overflows where erfc does not
    second = np.where(b > 0, gauss * special.erfcx(np.maximum(b, 0)), 0.0)
    second = np.where(b > 0, second, np.exp(np.minimum(e, 0)) * special.erfc(b))
    first = np.where(positive, gauss * special.erfcx(np.maximum(a, 0)), special.erfc(a))
    # relative error: special functions 64 u, the argument a to 3 u max(|a|, |b|), squared
    scale = np.abs(a) + np.abs(b)
    error = U * (64 + 6 * np.abs(a) * scale + 6 * scale) * (first + second)
    value = first - second
    exact = e == 0.0  # no cancellation in erf
    value = np.where(exact, 2 * special.erf(m / (2 * _SQRT2)), value)
    error = np.where(exact, 64 * U * value, error) + _TINY
    return np.maximum((value - error) / 2, 0.0), np.minimum((value + error) / 2, 1.0)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-DP, rounded down.

    Args:
        epsilon: >= 0.
        delta: in (0, 1).

    Raises:
        DeclarationError: the target is out of range.
    """
    check_target(epsilon, delta)
    return divergences.gdp_mu(epsilon, math.nextafter(math.log(delta), -math.inf), "lower")


def gdp_epsilon(mu: ArrayLike, delta: float) -> Floats:
    """Return, for each mu, the smallest epsilon >= 0 with delta(epsilon) <= delta, rounded up.

    Args:
        mu: array, >= 0.
        delta: in (0, 1).
    """
    check_target(0.0, delta)
    m = np.asarray(mu, np.float64)
    safe = np.where(m > 0, m, 1.0)
    # delta(epsilon) <= P(L > epsilon) <= exp(-x^2/2) at epsilon = mu^2/2 + x mu
    high = safe * safe / 2 + 1.0001 * safe * np.sqrt(-2 * np.log(delta))
    high = np.where(gdp_delta(safe, 0.0)[1] <= delta, 0.0, high)
    low = np.zeros_like(high)
    for _ in range(60):
        middle = (low + high) / 2
        meets = gdp_delta(safe, middle)[1] <= delta
        low, high = np.where(meets, low, middle), np.where(meets, middle, high)
    return np.where(m > 0, high, 0.0)
