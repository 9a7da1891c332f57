"""Bounds from a smoothed payoff, where a characteristic function does not decay at all.

H(eps) is convex in e^eps. For a random U with E e^U = 1 therefore E H(eps + U) >= H(eps), an upper
bound whose transform has the factor Phi(z) = E e^(-zU). With U = w X - b and X the mean of r
uniforms, Phi falls like y^-r. The excess is E psi(S - eps) for the composed loss S, where

    psi(x) = E (e^(U - x) - 1)_+ for x > 0,    E (1 - e^(U - x))_+ for x < 0,

and U has a log-concave density p, so that psi(x) / p(x) is largest at 0, where both sides agree:
p(x + s) / p(x) falls in x for s > 0. Hence

    E H(eps + U) - C E p(S - eps) <= H(eps) <= E H(eps + U),    C = psi(0) / p(0),

and E p(S - eps), the density of the smoothed loss, has the transform Phi alone. The width is about
w^2 / 24r times the density of the composed loss at eps: it falls with the square of the frequency.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours.trapezoid import WAVE, Answer, Contour, Totals
from mechc.loss.allowance import spend
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

RANK = 32  # uniforms in the mean
LOST = 1e-11  # size of Phi at the last frequency
WIDEST = 20.0  # width of the shift, in units of 1 and of 1 / c, beyond which nothing is left
DIRECT = 1e-2  # below this size of x, log((1 - exp(-x)) / x) is a series


class Blur:
    """The random shift U of epsilon.

    Attributes:
        width: w, the length of its support.
        centre: b; the support is (-b, w - b).
        excess: C, or more.
    """

    def __init__(self, width: float) -> None:
        """Centre U so that E e^U = 1."""
        self.width, self._part = width, width / RANK
        self.centre = RANK * float(_log_mean_exp(np.array([-self._part + 0j]))[0].real)
        # psi(0) = E|e^U - 1| / 2 <= sqrt(Var e^U) / 2, and log E e^2U <= w^2 / 12 r
        spread = math.sqrt(math.expm1(width * width / (12.0 * RANK)))
        self.excess = 0.5 * spread / self._density_at_zero() * (1.0 + 1e-9)

    def _density_at_zero(self) -> float:
        """p(0) by the inversion formula, whose trapezoid rule is exact for a bounded support."""
        h = math.pi / self.width
        n = np.arange(1.0, math.ceil(2.0 * RANK * 1e17 ** (1.0 / RANK) / math.pi) + 1.0)
        values = self.transform(np.asarray(1j * h * n, np.complex128)).real
        return (1.0 + 2.0 * float(values.sum())) * h / (2.0 * math.pi)

    def transform(self, z: Complexes) -> Complexes:
        """Return Phi(z) = E e^(-zU)."""
        out: Complexes = np.exp(z * self.centre + RANK * _log_mean_exp(z * self._part))
        return out

    def tails(self, c: float, start: float) -> tuple[float, float]:
        """Bound the integrals of |Phi(c + iy)| / y^2 and of |Phi(c + iy)| from y = start on."""
        log_size = c * self.centre + RANK * math.log(0.5 + 0.5 * math.exp(-c * self._part))
        log_size += RANK * math.log(2.0 / (self._part * start))
        size = math.exp(min(log_size, 300.0))
        return size / (start * (RANK + 1.0)), size * start / (RANK - 1.0)


def _log_mean_exp(x: Complexes) -> Complexes:
    """Log of (1 - exp(-x)) / x, the mean of exp(-xV) for V uniform on (0, 1)."""
    small = np.abs(x) < DIRECT
    safe = np.where(small, 1.0, x)
    square = np.where(small, x, 0.0) ** 2
    series = -0.5 * x + square * (1.0 / 24.0 - square * (1.0 / 2880.0 - square / 181440.0))
    out: Complexes = np.where(small, series, np.log(-np.expm1(-safe) / safe))
    return out


class Blurred:
    """The answers of a contour for a payoff smoothed as far as its frequencies need."""

    def __init__(self, contour: Contour) -> None:
        """Smooth so much that nothing is left of the last frequency of the contour."""
        self.contour = contour
        self._last = contour.h * contour.nodes
        self.blur = Blur(min(2.0 * RANK * LOST ** (-1.0 / RANK) / self._last, WIDEST))

    def answer(self, epsilon: float) -> Answer | None:
        """Return bounds at epsilon, None where that is too far or the sums are not positive."""
        contour, blur = self.contour, self.blur
        start = contour.weight(epsilon)
        if not start > 0.0 or blur.width * (1.0 + contour.c) > WIDEST:
            return None
        y, waves, noise = contour.waves(epsilon)
        spend(6.0 * WAVE * y.size)
        z = np.asarray(contour.c + 1j * y, np.complex128)
        factor = blur.transform(z)
        first = float(blur.transform(np.array([contour.c + 0j]))[0].real)
        bump = blur.excess / contour.payoff.transform(z, epsilon)
        upper = first + 2.0 * float((waves * factor).real[::-1].sum())
        density = first / start * blur.excess
        density += 2.0 * float((waves * factor * bump).real[::-1].sum())
        tail, far = (v / (math.pi * start) for v in blur.tails(contour.c, self._last))
        error = EPS * float((noise * np.abs(factor)).sum())
        more = EPS * float((noise * np.abs(factor * bump)).sum())
        more += (contour.tolerance + contour.rounding) * abs(density)
        density = max(density, 0.0)
        totals = Totals(
            lower=upper - density,
            estimate=upper - 0.4 * density,
            upper=upper,
            noise=2.0 * (error + more),
            truncation=(tail + blur.excess * far) * contour.period,
        )
        return contour.conclude(epsilon, totals)
