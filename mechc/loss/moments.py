"""Compiled sums over the nodes of a privacy loss: tilted moments and generating functions.

All functions take `loss` and `log_weight` (nodes and atoms together, E_P[g(L)] = sum w g(loss))
and are exact up to rounding for the discrete law they are given. exp, sin and cos of many numbers
take the vector units of the processor, which the C library's leave idle (`exponentials`, `waves`):
reduction of the argument in two or three steps (Cody and Waite), then Taylor polynomials.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled, subroutine
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

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


_LEAST_MANTISSA = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
_ATANH = 2.0 / (2.0 * np.arange(11.0) + 1.0)


@compiled("void(float64[::1], float64[::1])", nogil=True)
def logarithms(x, out):  # type: ignore[no-untyped-def]
    """Write log x of positive normal numbers to `out`, good to 4 EPS."""
    given, mantissa = x.view(np.int64), out.view(np.int64)
    for j in range(x.size):
        n = (given[j] - _LEAST_MANTISSA) >> 52
        mantissa[j] = given[j] - (n << 52)
    for j in range(x.size):
        n = np.float64((given[j] - _LEAST_MANTISSA) >> 52)
        m = out[j] - 1.0  # log (1 + m) = 2 artanh(m / (2 + m))
        s = m / (m + 2.0)
        q = s * s
        p = _ATANH[10]
        for k in range(9, -1, -1):
            p = p * q + _ATANH[k]
        out[j] = n * _LN2_HIGH + (p * s + n * _LN2_LOW)


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
    out = np.empty((4, tilts.size))
    work = np.empty((10, loss.size))
    _generate(loss, log_weight, log_p_mass, log_q_mass, tilts, work, out)
    return out


@compiled(
    "void(float64[::1], float64[::1], float64, float64, float64[::1], float64[:,::1],"
    " float64[:,::1])",
    nogil=True,
)
def _generate(loss, log_weight, log_p_mass, log_q_mass, tilts, work, out):  # type: ignore[no-untyped-def]
    """Write to `out` what `generating_at` returns; `work` is room for ten numbers a node."""
    n, v, lw, p, back = 0, work[0], work[1], work[2], work[3]
    bottom = -np.inf  # the largest log of a term of M(-1)
    for j in range(loss.size):
        if log_weight[j] > -np.inf:
            v[n], lw[n] = loss[j], log_weight[j]
            bottom = max(bottom, lw[n] - v[n])
            n += 1
    masses = log_p_mass > -1e-3 and log_q_mass > -1e-3
    for j in range(n if masses and bottom < _SMALL else 0):
        # p may be zero, and an exponential beyond doubles, where their product is neither
        p[j] = math.exp(lw[j])
        far = -v[j] >= _FAR
        back[j] = math.exp(lw[j] - v[j]) - p[j] * (1.0 - v[j]) if far else p[j] * excess(-v[j])
    w, x, over, step, rise, noisy = work[4, :n], work[5, :n], work[6], work[7], work[8], work[9]
    for i in range(tilts.size):
        t, top, largest = tilts[i], -np.inf, 0.0
        for j in range(n):
            top = max(top, lw[j] + t * v[j])
        # between the known masses M may be far below them, and a chord would cancel
        if -1.0 < t < 0.0:
            for j in range(n):
                # under Q a node can matter whose weight under P is zero in float64
                if lw[j] > -700.0 or max(lw[j] - v[j], lw[j] + t * v[j]) > -100.0:
                    largest = max(largest, t * v[j], -v[j])
        chord = masses and max(bottom, top, largest) < _SMALL
        total, first, bend, turn, noise = 0.0, 0.0, 0.0, 0.0, 0.0
        if chord:
            for j in range(n):
                y = t * v[j]
                x[j] = lw[j] + y if y >= _FAR else y
            if t > 0.0:
                exponentials(x, w)
                for j in range(n):
                    w[j] = 0.0 if x[j] < LEAST else w[j]  # losses there may be enormous
                    y, series = x[j], 0.0
                    for m in range(_EXCESS.size):
                        series = series * y + _EXCESS[m]
                    over[j] = y * y * series if abs(y) <= 0.5 else w[j] - 1.0 - y
            else:  # nothing is left of step at t = -1 by the same function as in back alone
                for j in range(n):
                    w[j], over[j] = math.exp(x[j]), excess(x[j])
            for j in range(n):
                y = t * v[j]
                ahead = w[j] - p[j] * (1.0 + y) if y >= _FAR else p[j] * over[j]
                rise[j] = w[j] - p[j] if y >= _FAR else p[j] * (over[j] + y)
                w[j] = w[j] if y >= _FAR else p[j] * w[j]
                step[j] = ahead + t * back[j]
                ulps = 4.0 * abs(y) + 8.0 if y >= _FAR else 8.0 * abs(y) + 32.0
                noisy[j] = abs(step[j]) * (ulps + 4.0 * min(abs(lw[j]), _FARTHEST))
            for j in range(n):
                total += w[j]
                bend += step[j]
                turn += v[j] * rise[j] + back[j]
                noise += noisy[j]
            difference = math.expm1(log_q_mass) - math.expm1(log_p_mass)
            change = math.expm1(log_p_mass) - t * difference + bend
            k, mean = math.log1p(change), (turn - difference) / (1.0 + change)
            noise += 4.0 * abs(change)
        else:
            for j in range(n):
                x[j] = lw[j] + t * v[j] - top
            exponentials(x, w)
            for j in range(n):
                w[j] = 0.0 if x[j] < LEAST else w[j]
                total += w[j]
                first += w[j] * v[j]
                sizes = min(abs(lw[j]), _FARTHEST) + min(abs(t * v[j]), _FARTHEST)
                noise += w[j] * (8.0 + 4.0 * sizes)
            k, mean = top + math.log(total), first / total
        drift, second = 0.0, 0.0
        for j in range(n):
            d = v[j] - mean
            drift += w[j] * d
            second += w[j] * d * d
        if not chord:
            mean += drift / total
        out[0, i], out[1, i], out[2, i] = k, mean, second / total
        out[3, i] = EPS * (noise / total + 2.0 * abs(k))


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


def cumulants(
    loss: Floats, log_weight: Floats, log_m: float, t: float, mean: float, order: int
) -> Floats:
    """Return [K, kappa_1, ..., kappa_order] of the tilted law exp(tL - K) dP, K = log_m."""
    w = np.exp(log_weight + t * loss - log_m)
    seen = w > 0.0  # others are so far out that powers of the distance may overflow
    w, d = w[seen], loss[seen] - mean
    mu = [1.0, 0.0, *(float(w @ d**r) for r in range(2, order + 1))]
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
