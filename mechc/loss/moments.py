"""Compiled sums over the nodes of a privacy loss: tilted moments and generating functions.

All functions take `loss` and `log_weight` (nodes and atoms together, E_P[g(L)] = sum w g(loss))
and are exact up to rounding for the discrete law they are given. exp, sin and cos of many numbers
take the vector units of the processor, which the C library's leave idle (`exponentials`, `waves`):
reduction of the argument in two or three steps (Cody and Waite), then Taylor polynomials.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats, Integers

# of exp r, |r| < log(2) / 2, remainder 4e-18; then 1 / log 2
_TAYLOR = np.array([1.0 / math.factorial(n) for n in range(14)])
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # its last 21 bits are zero: multiples of it are exact
_LN2_LOW = 1.90821492927058770002e-10  # the rest of log 2, as in fdlibm


@subroutine("void(float64[::1], float64[::1])", fastmath={"contract"})  # one way to contract it
def exponentials(x, out):  # type: ignore[no-untyped-def]
    """Write exp(x), x <= 700, to `out`."""
    for j in range(x.size):
        v = max(x[j], -MOST_LOG)
        n = math.floor(v * _LOG2_E + 0.5)
        r = (v - n * _LN2_HIGH) - n * _LN2_LOW
        p = _TAYLOR[13]
        for m in range(12, -1, -1):
            p = p * r + _TAYLOR[m]
        out[j] = p * np.int64((np.int64(n) + 1023) << 52).view(np.float64)  # times 2^n


# sin r / r and cos r in r^2 for |r| < pi / 4, remainders 6e-17 and 2e-18
_SINE = np.array([(-1.0) ** n / math.factorial(2 * n + 1) for n in range(8)])
_COSINE = np.array([(-1.0) ** n / math.factorial(2 * n) for n in range(9)])
_TWO_OVER_PI = 2.0 / math.pi
# pi / 2 in parts, as in fdlibm: the last bits of the first two are zero
_HIGH = 1.5707963267341256
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


class GeneratingFunction:
    """K of every law of several at any real tilt, from nodes and the known masses M(0) and M(-1).

    K comes from the deviation of M from the chord between the masses, M(t) = M(0) - t (M(-1) -
    M(0)) + sum w (exp(tL) - 1 + t (exp(-L) - 1)). For t >= 0 no term of that sum is negative, and
    small losses enter quadratically: a step with K of 1e-12 keeps its relative accuracy, which a
    composition of 1e12 steps needs. The rounding bound takes kernels to be good to 4 ulp: log p is
    off by |log p| ulp, exp(tL) by |tL| ulp.
    """

    def __init__(
        self, offsets: Integers, loss: Floats, log_weight: Floats,
        log_masses: list[tuple[float, float]],
    ) -> None:  # fmt: skip
        """Prepare the nodes, where those of each law begin, and logs of its M(0) and M(-1)."""
        here = log_weight > -math.inf
        if not np.logical_and.reduce(here):
            offsets = np.concatenate([[0], here.cumsum()])[offsets]
            loss, log_weight = loss[here], log_weight[here]
        self._offsets, self._nodes = offsets, np.empty((4, loss.size))
        _prepare(loss, log_weight, self._nodes)
        # of each law M(0) - 1, M(-1) - M(0), and inf where these are of no use
        self._known = np.empty((len(log_masses), 3))
        for known, (log_p, log_q) in zip(self._known, log_masses, strict=True):
            if log_p > -1e-3 and log_q > -1e-3:
                lost = math.expm1(log_p)
                known[:] = lost, math.expm1(log_q) - lost, -math.inf
            else:
                known[:] = 0.0, 0.0, math.inf

    def at(self, tilts: Floats) -> Floats:
        """Return rows K, K', K'', rounding of K at real tilts, shape (4, laws, tilts)."""
        work = np.empty((5, self._nodes.shape[1]))
        out = np.empty((len(self._known), tilts.size, 4))
        _generated(self._offsets, self._nodes, self._known, tilts, work, out)
        return out.transpose(2, 0, 1)


@compiled("void(float64[::1], float64[::1], float64[:,::1])")
def _prepare(loss, log_weight, nodes):  # type: ignore[no-untyped-def]
    """Write rows of losses L, log weights, weights w, and w (exp(-L) - 1 + L)."""
    for j in range(loss.size):
        y, p = -loss[j], math.exp(log_weight[j])
        nodes[0, j], nodes[1, j], nodes[2, j] = loss[j], log_weight[j], p
        nodes[3, j] = p * excess(y) if y < _FAR else math.exp(log_weight[j] + y) - p * (1.0 + y)


@subroutine("float64(float64[::1])")
def _total(x):  # type: ignore[no-untyped-def]
    """Return the sum of numbers, which it overwrites, to a few roundings however many there are."""
    n = x.size
    while n > 1:
        half = (n + 1) // 2
        for j in range(n - half):
            x[j] += x[half + j]
        n = half
    return x[0] if n else 0.0


@compiled(
    "void(int64[::1], float64[:,::1], float64[:,::1], float64[::1], float64[:,::1],"
    " float64[:,:,::1])",
    fastmath={"contract"},
)
def _generated(offsets, nodes, known, tilts, work, out):  # type: ignore[no-untyped-def]
    """Write K, K', K'', rounding of K at every tilt to `out`; `work` is room for five a node."""
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        lost, slope, bottom = known[i, 0], known[i, 1], known[i, 2]
        v, lw, p, back = nodes[0, a:b], nodes[1, a:b], nodes[2, a:b], nodes[3, a:b]
        # what every node adds to sums: to the deviation from the chord, with y = tL, w (exp(y) - 1
        # - y) + t back; to what rounding may change of it, in EPS; to M'(t) but for its slope
        change, noise, turn = work[0, : b - a], work[1, : b - a], work[2, : b - a]
        w, more = work[3, : b - a], work[4, : b - a]
        for j in range(b - a):
            bottom = max(bottom, lw[j] - v[j])
        for m in range(tilts.size):
            t, top, largest = tilts[m], -math.inf, -math.inf
            for j in range(v.size):
                top = max(top, lw[j] + t * v[j])
            # between the known masses M may be far below them: a chord would cancel
            if -1.0 < t < 0.0:
                for j in range(v.size):
                    # under Q a node can matter whose weight under P is zero in float64
                    if lw[j] > -MOST_LOG or max(lw[j] - v[j], lw[j] + t * v[j]) > -100.0:
                        largest = max(largest, max(t * v[j], -v[j]))
            if max(max(top, largest), bottom) < _SMALL:
                for j in range(v.size):
                    y = t * v[j]
                    change[j] = y if y < _FAR else lw[j] + y
                exponentials(change, w)
                for j in range(v.size):  # w may be zero, or exp(y) beyond doubles, not both at once
                    y, e = t * v[j], w[j] if change[j] > -MOST_LOG else 0.0
                    far, series = y >= _FAR, 0.0
                    for n in range(_EXCESS.size):
                        series = series * y + _EXCESS[n]
                    over = e - 1.0 - y if abs(y) > 0.5 else y * y * series
                    ahead = e - p[j] * (1.0 + y) if far else p[j] * over
                    rise = e - p[j] if far else p[j] * (over + y)
                    ulps = 4.0 * y + 8.0 if far else 8.0 * abs(y) + 48.0
                    w[j] = more[j] = e if far else p[j] * e
                    change[j] = ahead + t * back[j]
                    noise[j] = abs(change[j]) * (ulps + 4.0 * min(abs(lw[j]), _FARTHEST))
                    turn[j] = v[j] * rise + back[j]
                grown, total = lost - t * slope + _total(change), _total(more)
                off, k = _total(noise) + 4.0 * abs(grown), math.log1p(grown)
                mean = (_total(turn) - slope) / (1.0 + grown)
            else:
                for j in range(v.size):
                    change[j] = lw[j] + t * v[j] - top
                exponentials(change, w)
                for j in range(v.size):
                    more[j] = w[j] = w[j] if change[j] > -MOST_LOG else 0.0
                    sizes = min(abs(lw[j]), _FARTHEST) + min(abs(t * v[j]), _FARTHEST)
                    turn[j], noise[j] = w[j] * v[j], w[j] * (8.0 + 4.0 * sizes)
                total, off = _total(more), _total(noise)
                k, mean = top + math.log(total), _total(turn) / total
                for j in range(v.size):
                    more[j] = w[j] * (v[j] - mean)
                mean += _total(more) / total
            for j in range(v.size):  # of no weight a distance may be beyond doubles when squared
                more[j] = w[j] * (v[j] - mean) * (v[j] - mean)
            out[i, m, 0], out[i, m, 1], out[i, m, 2] = k, mean, _total(more) / total
            out[i, m, 3] = EPS * (off / total + 2.0 * abs(k))


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
            total = first = noise = 0.0
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
