"""Where a transform of the composed loss has to look: tilt, period, and the reach of one step.

In: a composed loss, epsilon, and the share of delta that may be lost. Out: a tilt c and a period T
for which the aliased payoff S of `transform` is close to the answer, and bounds on the images

    S(eps) = sum_m exp(c m T) H(eps + m T).

Images to the right (m > 0) are bounded by Chernoff, H(x) <= B_s exp(-s(x - eps)) with
B_s = exp(K(s) - s eps) s^s / (1+s)^(1+s). Images to the left are known up to a remainder,
H(x) = M(0) - e^x M(-1) + r(x), r(x) <= exp(K(-u) + u x) (u-1)^(u-1) / u^u for u > 1.
Both searches only choose; what is proven is proven by evaluating the bounds on the grid laws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import saddle
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.fft import TiltedSum, log1mexp, log_add, log_peak, log_subtract
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss

Floats = NDArray[np.float64]

_EXCESS = 2.0  # nats by which Chernoff's bound on delta is usually too high, the saddle's at most
_CANCELLATION = math.log(20.0)  # nats by which the tilt may miss the saddle point
_ROUNDING = 1e-13  # of a transform, relative to delta, with a margin
_LARGE = 500.0  # values of one step's K beyond which no further tilt is tried
_MORE_IMAGES = 64
_RECENTRED = 6  # times that the table is moved to a better saddle point


@dataclass(frozen=True)
class Window:
    """A tilt and a period.

    Attributes:
        epsilon: the query it was made for.
        saddle: tilt t0 of the saddle point, which sets the mesh.
        log_delta: log of the guess of the finite part of delta.
        tilt: c <= t0, where the transform is taken.
        period: smallest T that keeps the images below the share asked for.
        right, left: tilts s > c and -u < -1 of the best bounds on the images.
        log_share: log of the absolute error that may be spent, share * delta.
    """

    epsilon: float
    saddle: float
    log_delta: float
    tilt: float
    period: float
    right: float
    left: float
    log_share: float

    @property
    def probes(self) -> tuple[float, float, float, float]:
        """Tilts at which `images` wants the generating function."""
        return (0.0, -1.0, self.right, self.left)


def choose(composed: ComposedLoss, epsilon: float, share: float, log_delta: float = 0.0) -> Window:
    """Find the tilt with the shortest period.

    Args:
        composed: the composition.
        epsilon: the query.
        share: part of delta that images may cost.
        log_delta: log of what is known to be about the answer, or above it.

    Raises:
        UnsupportedError: no tilt gives the loss a finite generating function to the right of 0.
    """
    t0, s, k_s = _around_saddle(composed, epsilon)
    u, rows = table(composed, -1.0 - np.geomspace(0.05, 8.0 + 8.0 * t0, 14))
    k_u = rows @ composed.counts
    above = k_s - s * epsilon + log_peak(s)
    phase = k_s - epsilon * s - np.log(s) - np.log1p(s)
    guess = float(phase.min()) - 0.5 * math.log(2.0 * math.pi * _curvature(composed, t0))
    log_delta = min(log_delta, float(above.min()) - _EXCESS, guess - _EXCESS)
    log_share = math.log(share) + log_delta
    # known images cancel digits, of which the transform of many steps leaves fewer
    multiple = min(100.0, max(0.5, share / (_ROUNDING * composed.count)))
    below = k_u - u * epsilon + log_peak(-u - 1.0)
    best: tuple[float, float, float, float] | None = None
    for i in np.flatnonzero((s <= t0 * 1.0001) & (phase <= phase.min() + _CANCELLATION)):
        if i + 1 == s.size:
            continue  # no tilt to the right to bound images with
        c = float(s[i])
        right, at_right = _shortest(above[i + 1 :] - log_share, s[i + 1 :] - c)
        left, at_left = _shortest(below - log_share, c - u)
        known = -(log_delta + math.log(multiple)) / c
        period = max(right, known, min(left, -log_share / c))
        if best is None or period < best[0]:
            best = (period, c, float(s[i + 1 + at_right]), float(u[at_left]) if u.size else -1.0)
    if best is None or not math.isfinite(best[0]):
        raise UnsupportedError(f"pld: no window can be proven at epsilon={epsilon:g}")
    return Window(epsilon, t0, log_delta, best[1], best[0], best[2], best[3], log_share)


def _curvature(composed: ComposedLoss, t: float) -> float:
    """F''(t) for F(t) = K(t) - eps t - log t - log(1 + t)."""
    return max(float(composed.cumulants(t, 2)[2]), 0.0) + t**-2 + (1.0 + t) ** -2


def _around_saddle(composed: ComposedLoss, epsilon: float) -> tuple[float, Floats, Floats]:
    """Return the saddle point, and K on tilts around it.

    The search may stop short where a quadrature does not settle; then the table finds a better
    point, as good as its spacing.
    """
    t0 = saddle.solve(composed, saddle.saddle_target(epsilon), epsilon).t
    for _ in range(_RECENTRED):
        s, rows = table(composed, t0 * np.geomspace(0.1, 8.0, 34))
        if s.size < 2:
            where = f"at the tilt {t0:.2g}, the saddle point of epsilon={epsilon:g}"
            raise UnsupportedError(
                f"pld: the generating function is not known to be finite {where}, so that no "
                "window can be proven"
            )
        k_s = rows @ composed.counts
        best = float(s[np.argmin(k_s - epsilon * s - np.log(s) - np.log1p(s))])
        if abs(math.log(best / t0)) < 0.3 or best == s[-1] < 4.0 * t0:
            break
        t0 = best
    return t0, s, k_s


def _shortest(excess: Floats, rate: Floats) -> tuple[float, int]:
    """Shortest period with excess <= rate * period for one of the bounds, and which."""
    if excess.size == 0:
        return math.inf, 0
    periods = np.maximum(excess / rate, 0.0)
    at = int(np.argmin(periods))
    return float(periods[at]), at


def table(composed: ComposedLoss, tilts: Floats) -> tuple[Floats, Floats]:
    """Upper bounds on K_j at the tilts inside the strip and within reach of the quadrature.

    Returns:
        Increasing tilts, shape (m,), and values, shape (m, distinct steps).
    """
    lo, hi = composed.strip
    inside = tilts[(tilts > lo * (1 - 1e-6)) & (tilts < hi * (1 - 1e-6))]
    kept, rows = [], []
    for t in inside[np.argsort(np.abs(inside))]:
        try:
            rows.append(composed.at_most(float(t)))
        except NumericError:  # no quadrature that far out: the tilts nearer to 0 have to do
            break
        kept.append(float(t))
        if float(np.abs(rows[-1]).max()) > _LARGE:
            break
    order = np.argsort(kept)
    return np.array(kept)[order], np.array(rows).reshape(len(kept), composed.counts.size)[order]


@dataclass(frozen=True, eq=False)
class Reach:
    """The range of one step's loss that a grid should cover, and what lies beyond.

    Attributes:
        lo: lower end of the range.
        hi: upper end of the range.
        at_least: a grid that has to be shorter may end here: the tilted mass below is spent, but
            the left images will be known less well.
        lowest: ess inf of the loss.
        log_above: log of a bound on P(L > hi).
    """

    lo: float
    hi: float
    at_least: float
    lowest: float
    log_above: float
    _tilts: Floats
    _values: Floats

    def log_below(self, x: float) -> float:
        """Return the log of a Chernoff bound on P(L <= x)."""
        if x < self.lowest:
            return -math.inf
        return float((self._values - self._tilts * x).min()) + 1e-9


def reach(composed: ComposedLoss, laws: Sequence[PrivacyLoss], window: Window) -> list[Reach]:
    """Find per distinct step where its loss stops to matter, by Chernoff.

    Above: the mass becomes mass at infinity, so that all of it together may be the share asked for.
    Below: it is rounded up to the lowest point, which matters under the tilt, and under Q for what
    is known of the left images.
    """
    margin = math.log(composed.count) + math.log(4.0 * len(laws))
    s, above = table(composed, window.saddle * np.geomspace(0.1, 12.0, 24))
    u, below = table(composed, -np.concatenate([[0.0], np.geomspace(0.05, 64.0, 16)]))
    if s.size == 0 or u.size == 0:
        raise UnsupportedError("pld: the privacy loss has no bound on its tails")
    at_tilt = composed.by_step(window.tilt, 0)[:, 0]
    spent = window.log_share - window.log_delta - 10.0
    out = []
    for j, law in enumerate(laws):
        highest = (above[:, j] + margin - window.log_share) / s
        i = int(np.argmin(highest))
        hi, log_above = float(highest[i]), float(above[i, j] - s[i] * highest[i]) + 1e-9
        if hi >= law.support[1]:
            hi, log_above = law.support[1], -math.inf
        tilted = (below[:, j] - at_tilt[j] + margin - spent) / (u - window.tilt)
        under_q = (below[:, j] + margin - spent) / np.minimum(u + 1.0, -1e-3)
        at_least = max(float(tilted.max()), law.support[0])
        lo = max(min(at_least, float(under_q.max())), law.support[0])
        out.append(Reach(lo, hi, at_least, law.support[0], log_above, u, below[:, j]))
    return out


def images(total: TiltedSum, window: Window, epsilon: float) -> tuple[float, float, float]:
    """Bound the images of H(epsilon) in the aliased payoff of a composed grid law.

    Args:
        total: the composition, with the window's probes.
        window: where it was taken.
        epsilon: the query.

    Returns:
        Logs of (a lower bound on the left images, an upper bound on them, an upper bound on the
        right images).
    """
    period, log_mgf = total.period, total.log_mgf
    c, s, u = window.tilt, window.right, -window.left
    mass, covered = log_mgf[0.0], log_mgf[-1.0]
    chernoff = log_mgf[-u] + float(log_peak(u - 1.0))
    least = most = -math.inf
    for m in range(1, _MORE_IMAGES + 1):
        x = epsilon - m * period
        known = mass + log1mexp(x + covered - mass)
        remainder = min(chernoff + u * x, x + covered)
        least = log_add(least, known - m * c * period)
        most = log_add(most, min(mass, log_add(known, remainder)) - m * c * period)
        if m * c * period > 60.0:
            break
    rest = mass - (m + 1) * c * period - log1mexp(-c * period)
    most = log_add(most, rest)
    decay = -(s - c) * period
    right = log_mgf[s] - s * epsilon + float(log_peak(s)) + decay - log1mexp(decay)
    return least, most, right


def finite_upper(total: TiltedSum, window: Window, epsilon: float) -> tuple[float, float]:
    """Bound the log of the finite part of delta of a dominating composition.

    Returns:
        The upper bound, and the value without allowances.
    """
    least, _, _ = images(total, window, epsilon - total.slack)
    factor, value, error = total.payoff(epsilon - total.slack)
    bound = _log(value + error) + factor + total.relative
    safe = log_subtract(bound, least - 2 * total.relative)
    return safe, log_subtract(_log(value) + factor, least)


def finite_lower(total: TiltedSum, window: Window, epsilon: float) -> tuple[float, float]:
    """Bound the log of the finite part of delta of a dominated composition.

    Returns:
        The lower bound, and the value without allowances.
    """
    least, most, right = images(total, window, epsilon + total.slack)
    factor, value, error = total.payoff(epsilon + total.slack)
    bound = _log(value - error) + factor - total.relative
    safe = log_subtract(bound, log_add(most, right) + 2 * total.relative)
    return safe, log_subtract(_log(value) + factor, least)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
