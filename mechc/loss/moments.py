"""Compiled sums over the nodes of a privacy loss: tilted moments and generating functions.

All functions take `loss` and `log_weight` (nodes and atoms together, E_P[g(L)] = sum w g(loss))
and are exact up to rounding for the discrete law they are given. exp, sin and cos of many numbers
take the vector units of the processor, which the C library's leave idle (`exponentials`, `waves`):
reduction of the argument in two or three steps (Cody and Waite), then Taylor polynomials.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mechc.loss.jit import compiled, subroutine
from mechc.loss.rounding import EPS
from mechc.protocol import Floats

AT_ONCE = 20_000  # nodes times tilts in one array
LEAST = -700.0  # below it exp is taken as exp(LEAST): denormal numbers cost time and mean nothing

_TAYLOR = np.array([1.0 / math.factorial(n) for n in range(14)])
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # its last 21 bits are zero: multiples of it are exact
_LN2_LOW = 1.90821492927058770002e-10


@subroutine("void(float64[::1], float64[::1])", fastmath={"contract"})  # one way to contract it
def exponentials(x, out):  # type: ignore[no-untyped-def]
    """Write exp(x), x <= 700, to `out`."""
    bits = out.view(np.int64)
    for j in range(x.size):
        v = max(x[j], LEAST)
        n = math.floor(v * _LOG2_E + 0.5)
        r = (v - n * _LN2_HIGH) - n * _LN2_LOW
        p = _TAYLOR[13]
        for m in range(12, -1, -1):
            p = p * r + _TAYLOR[m]
        out[j] = p
        bits[j] += np.int64(n) << 52  # times 2^n


_SINE = np.array([(-1.0) ** n / math.factorial(2 * n + 1) for n in range(8)])
_COSINE = np.array([(-1.0) ** n / math.factorial(2 * n) for n in range(9)])
_TWO_OVER_PI = 2.0 / math.pi
_HIGH = 1.5707963267341256  # pi / 2 in parts: the last bits of the first two are zero
_MIDDLE = 6.077100506303966e-11
_LOW = 2.0222662487959506e-21


@subroutine("void(float64[::1], float64[::1], float64[::1])")
def waves(x, cosine, sine):  # type: ignore[no-untyped-def]
    """Write cos x and sin x, good to 4 EPS and 2 EPS of the angle; the sine of small ones to 4."""
    for j in range(x.size):
        n = math.floor(x[j] * _TWO_OVER_PI + 0.5)
        r = ((x[j] - n * _HIGH) - n * _MIDDLE) - n * _LOW
        q = r * r
        s, c = _SINE[7], _COSINE[8]
        for m in range(6, -1, -1):
            s = s * q + _SINE[m]
        for m in range(7, -1, -1):
            c = c * q + _COSINE[m]
        s *= r
        odd = n - 2.0 * math.floor(0.5 * n)  # whether sine and cosine change places
        half = 0.5 * (n - odd)
        sign = 1.0 - 2.0 * (half - 2.0 * math.floor(0.5 * half))
        sine[j] = sign * (c if odd > 0.0 else s)
        cosine[j] = sign * (-s if odd > 0.0 else c)


_EXCESS = np.array([1.0 / math.factorial(n) for n in range(15, 1, -1)])  # Taylor, from the top
_SMALL = 600.0  # largest exponent that cannot overflow in a sum without rescaling
_FARTHEST = (
    1e300  # of a log whose ulps are counted: four of them are a number, nothing times it none
)
_FAR = 40.0  # exponent beside whose exponential anything else is a rounding


def log_total(terms: np.ndarray) -> float:
    """Return log sum exp(terms), to a few roundings however many there are (summed in pairs)."""
    top = float(terms.max(initial=-math.inf))
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.exp(terms - top).sum()))


@subroutine("float64(float64)")
def excess(x):  # type: ignore[no-untyped-def]
    """Return exp(x) - 1 - x to full relative accuracy."""
    if abs(x) > 0.5:
        return math.expm1(x) - x
    series = 0.0
    for n in range(_EXCESS.size):
        series = series * x + _EXCESS[n]
    return x * x * series


def generating(
    loss: Floats, log_weight: Floats, log_p_mass: float, log_q_mass: float, t: float
) -> Floats:
    """Return [K, K', K'', rounding of K] at real t for one step; see `generating_at`."""
    return generating_at(loss, log_weight, log_p_mass, log_q_mass, np.array([t], float))[:, 0]


def generating_at(
    loss: Floats, log_weight: Floats, log_p_mass: float, log_q_mass: float, tilts: Floats
) -> Floats:
    """Return rows K, K', K'', rounding of K at real tilts for one step.

    The masses M(0) and M(-1) are known, so K comes from the deviation of M from the chord between
    them, M(t) = M(0) - t (M(-1) - M(0)) + sum w (exp(tL) - 1 + t (exp(-L) - 1)). For t >= 0 no
    term of that sum is negative, and small losses enter quadratically: a step with K of 1e-12
    keeps its relative accuracy, which a composition of 1e12 steps needs. The rounding bound takes
    kernels to be good to 4 ulp: log p is off by |log p| ulp, exp(tL) by |tL| ulp.
    """
    here = log_weight > -math.inf
    v, lw = loss[here], log_weight[here]
    bottom = float((lw - v).max(initial=-math.inf))  # the largest log of a term of M(-1)
    masses = log_p_mass > -1e-3 and log_q_mass > -1e-3
    out, at_once = np.empty((tilts.size, 4)), max(AT_ONCE // max(v.size, 1), 1)
    with np.errstate(all="ignore"):  # of no nodes, or no number, nothing is known
        known = _Chord.of(v, lw, log_p_mass, log_q_mass) if masses and bottom < _SMALL else None
        for some in range(0, tilts.size, at_once):
            out[some : some + at_once] = _generated(
                v, lw, tilts[some : some + at_once], known, bottom
            )
    return out.T


class _Chord(NamedTuple):
    """What the deviation from the chord needs at any tilt: p, p (exp(-L) - 1 + L), M(0), M(-1)."""

    p: Floats
    back: Floats
    mass: float
    difference: float

    @classmethod
    def of(cls, v: Floats, lw: Floats, log_p_mass: float, log_q_mass: float) -> _Chord:
        p = np.exp(lw)
        # p may be zero, and an exponential beyond doubles, where their product is neither
        far = -v >= _FAR
        back = np.where(far, np.exp(lw - v) - p * (1.0 - v), p * _excesses(-v))
        lost = math.expm1(log_p_mass)
        return cls(p, back, lost, math.expm1(log_q_mass) - lost)


def _excesses(x: Floats) -> Floats:
    """As `excess`, of many numbers."""
    series = np.zeros(x.shape)
    for coefficient in _EXCESS.tolist():
        series *= x
        series += coefficient
    small: Floats = x * x * series
    large = np.abs(x) > 0.5
    return np.where(large, np.expm1(x) - x, small) if large.any() else small


def _generated(v: Floats, lw: Floats, tilts: Floats, known: _Chord | None, bottom: float) -> Floats:
    """K, K', K'', rounding of K at every tilt, shape (tilts, 4)."""
    t = tilts[:, None]
    y = t * v
    at = lw + y
    top = largest = np.maximum.reduce(at, axis=1, initial=-math.inf)
    # between the known masses M may be far below them, and a chord would cancel
    inside = (tilts > -1.0) & (tilts < 0.0)
    if inside.any():
        # under Q a node can matter whose weight under P is zero in float64
        seen = (lw > -700.0) | (np.maximum(lw - v, at[inside]) > -100.0)
        largest = top.copy()
        largest[inside] = np.where(seen, np.maximum(y[inside], -v), 0.0).max(axis=1, initial=0.0)
    sizes = np.minimum(np.abs(lw), _FARTHEST)
    by_chord = np.maximum(top, largest) < (_SMALL if known is not None else -math.inf)
    by_chord &= bottom < _SMALL
    if known is None or not by_chord.all():
        if by_chord.any():
            out = np.empty((tilts.size, 4))
            for some, chord in ((by_chord, known), (~by_chord, None)):
                out[some] = _generated(v, lw, tilts[some], chord, bottom)
            return out
        w = np.exp(at - top[:, None])
        total = np.add.reduce(w, axis=1)
        k, mean = top + np.log(total), np.add.reduce(w * v, axis=1) / total
        noise = w * (8.0 + 4.0 * (sizes + np.minimum(np.abs(y), _FARTHEST)))
        noise = np.add.reduce(noise, axis=1)
        mean += np.add.reduce(w * (v - mean[:, None]), axis=1) / total
    else:
        p, far, over = known.p, y >= _FAR, _excesses(y)
        ahead, rise, w, ulps = p * over, p * (over + y), p * np.exp(y), 8.0 * np.abs(y) + 32.0
        if far.any():
            grown = np.exp(at)
            ahead = np.where(far, grown - p * (1.0 + y), ahead)
            rise, w = np.where(far, grown - p, rise), np.where(far, grown, w)
            ulps = np.where(far, 4.0 * np.abs(y) + 8.0, ulps)
        step = ahead + t * known.back
        total, turn = (np.add.reduce(z, axis=1) for z in (w, v * rise + known.back))
        change = known.mass - tilts * known.difference + np.add.reduce(step, axis=1)
        noise = np.add.reduce(np.abs(step) * (ulps + 4.0 * sizes), axis=1) + 4.0 * np.abs(change)
        k, mean = np.log1p(change), (turn - known.difference) / (1.0 + change)
    distance = v - mean[:, None]  # of no weight it may be beyond doubles when squared
    spread = np.add.reduce(w * distance * distance, axis=1) / total
    return np.stack([k, mean, spread, EPS * (noise / total + 2.0 * np.abs(k))], axis=1)


@compiled(
    "void(int64[::1], float64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,:,::1])",
)
def sum_tilted(offsets, loss, log_weight, tilts, work, out):  # type: ignore[no-untyped-def]
    """Write [K, K', K'', rounding of K] of steps at real tilts to `out`, from the plain sums.

    One exponential a node, and absolute accuracy only: for searches, and for bounds that carry the
    rounding along. `offsets` are where the nodes of each step begin, and where the last ones end;
    `work` is room for two numbers a node, `out` of shape (tilts, steps, 4).
    """
    for i in range(offsets.size - 1):
        a, n = offsets[i], offsets[i + 1] - offsets[i]
        v, w = work[0, :n], work[1, :n]
        for m in range(tilts.size):
            t, top = tilts[m], -math.inf
            for j in range(n):
                v[j] = log_weight[a + j] + t * loss[a + j]
                top = max(top, v[j])
            for j in range(n):
                v[j] -= top
            exponentials(v, w)
            total, first, noise = 0.0, 0.0, 0.0
            for j in range(n):
                if v[j] < -80.0:
                    w[j] = 0.0
                total += w[j]
                first += w[j] * loss[a + j]
                # the log of a weight that is zero may be -inf
                size = min(abs(log_weight[a + j]), 1e9) + abs(t * loss[a + j])
                noise += w[j] * (8.0 + 4.0 * size)
            mean, second = first / total, 0.0
            for j in range(n):
                d = loss[a + j] - mean if w[j] > 0.0 else 0.0  # far losses of no weight overflow
                second += w[j] * (d * d)
            k = top + math.log(total)
            out[m, i, 0], out[m, i, 1], out[m, i, 2] = k, mean, second / total
            out[m, i, 3] = EPS * (noise / total + 2.0 * abs(k)) + n * 1e-34


def dot(a: Floats, b: Floats) -> float:
    """Sum of products, in one order on every machine.

    BLAS shares long sums among threads, which on a busy machine wait for one another for 8 ms.
    """
    return float(np.add.reduce(a * b))


def cumulants(
    loss: Floats, log_weight: Floats, log_m: float, t: float, mean: float, order: int
) -> Floats:
    """Return [K, kappa_1, ..., kappa_order] of the tilted law exp(tL - K) dP, K = log_m."""
    w = np.exp(log_weight + t * loss - log_m)
    seen = w > 0.0  # others are so far out that powers of the distance may overflow
    w, d = w[seen], loss[seen] - mean
    mu = [1.0, 0.0, *(dot(w, d**r) for r in range(2, order + 1))]
    out = np.zeros(max(order, 1) + 1)
    out[0], out[1] = log_m, mean
    for r in range(2, order + 1):
        out[r] = mu[r] - sum(math.comb(r - 1, m - 1) * out[m] * mu[r - m] for m in range(2, r - 1))
    return out[: order + 1]


def log_abs_moment3(loss: Floats, log_weight: Floats, log_m: float, t: float, mean: float) -> float:
    """Log of the tilted third absolute central moment."""
    with np.errstate(divide="ignore"):
        distance = np.log(np.abs(loss - mean))
    return log_total(log_weight + t * loss - log_m + 3.0 * distance)
