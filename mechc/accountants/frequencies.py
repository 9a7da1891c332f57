"""log phi at equidistant frequencies, by a recurrence that is started afresh in time."""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled

_SINE = np.array([(-1.0) ** n / math.factorial(2 * n + 1) for n in range(7, 0, -1)])
BLOCK = 32  # frequencies that the recurrence for exp(i n theta) runs through in a row
FRESH = 1024  # frequencies between fresh starts of the recurrence from block to block
TILE = 256  # nodes whose recurrences fit the first cache together


@compiled("float64(float64)")
def sin_excess(x):  # type: ignore[no-untyped-def]
    """Return sin(x) - x to full relative accuracy."""
    if abs(x) > 0.5:
        return math.sin(x) - x
    q = x * x
    series = 0.0
    for n in range(_SINE.size):
        series = series * q + _SINE[n]
    return x * q * series


@compiled("void(float64[::1], int64, float64[:,::1])")
def _turn(theta, n, out):  # type: ignore[no-untyped-def]
    """Rows cos(n theta) - 1, sin(n theta) - n theta and sin(n theta)."""
    for j in range(theta.size):
        angle = n * theta[j]
        s = math.sin(0.5 * angle)
        out[0, j] = -2.0 * s * s
        out[1, j] = sin_excess(angle)
        out[2, j] = out[1, j] + angle


@compiled(
    "void(float64[::1], int64, float64[:,::1], float64[:,::1])",
    fastmath={"reassoc", "contract"},
    inline="always",
)
def _further(theta, n, now, step):  # type: ignore[no-untyped-def]
    """Turn the first two rows at n theta by the angles of `step`."""
    for j in range(theta.size):
        c, c1, sine1 = now[0, j], step[0, j], step[2, j]
        sine = now[1, j] + n * theta[j]
        now[0, j] = c + c1 + c * c1 - sine * sine1
        now[1, j] = now[1, j] + step[1, j] + c * sine1 + sine * c1


@compiled(
    "void(int64[::1], float64[::1], float64[::1], float64[::1], float64, int64, int64,"
    " float64[::1], float64[::1])",
    fastmath={"reassoc", "contract"},  # sums in any order: the loops over nodes are vectors
)
def log_phi(offsets, counts, centred, weight, h, begin, end, re, im):  # type: ignore[no-untyped-def]
    """Log of the composed tilted characteristic function at y = n h, begin <= n < end.

    Per node u_n = exp(i n theta) - 1 - i n theta follows from u_{n-1} by additions of terms of
    one sign while n theta is small, so that phi - 1 = sum w u_n (the loss is centred) never
    cancels. It runs through `BLOCK` frequencies, whose first
    follow from one another likewise.
    """
    re[:] = 0.0
    im[:] = 0.0
    x, y = np.empty(end - begin), np.empty(end - begin)
    one, block = np.empty((3, TILE)), np.empty((3, TILE))
    mark, now = np.empty((3, TILE)), np.empty((2, TILE))
    for i in range(counts.size):
        x[:] = 0.0
        y[:] = 0.0
        for start in range(offsets[i], offsets[i + 1], TILE):
            stop = min(start + TILE, offsets[i + 1])
            w, theta = weight[start:stop], h * centred[start:stop]
            _turn(theta, 1, one)
            _turn(theta, BLOCK, block)
            for first in range(begin, end, BLOCK):
                if (first - begin) % FRESH == 0:
                    _turn(theta, first, mark)
                else:
                    _further(theta, first - BLOCK, mark, block)
                for j in range(w.size):
                    now[0, j] = mark[0, j]
                    now[1, j] = mark[1, j]
                for n in range(first, min(first + BLOCK, end)):
                    if n > first:
                        _further(theta, n - 1, now, one)
                    real = 0.0
                    imaginary = 0.0
                    for j in range(w.size):
                        real += w[j] * now[0, j]
                        imaginary += w[j] * now[1, j]
                    x[n - begin] += real
                    y[n - begin] += imaginary
        for n in range(end - begin):
            inner = 2.0 * x[n] + x[n] * x[n] + y[n] * y[n]
            if inner > -0.9:
                re[n] += counts[i] * 0.5 * math.log1p(inner)
            else:
                square = (1.0 + x[n]) * (1.0 + x[n]) + y[n] * y[n]
                re[n] += counts[i] * 0.5 * math.log(max(square, 1e-300))  # no log of zero
            im[n] += counts[i] * math.atan2(y[n], 1.0 + x[n])


@compiled(
    "Tuple((complex128[::1], float64[::1]))(float64[::1], float64[::1], complex128[::1],"
    " float64[::1], float64, float64, float64, float64)",
)
def turned_by(re, im, factor, y, turn, size, error, share):  # type: ignore[no-untyped-def]
    """Return factor exp(re + i im + i y turn), and the error of it in ULP.

    `size` bounds the terms whose difference `turn` is. One of the factors that make up exp(re),
    whose log is at most the given share of re, is off by `error` ULP of 1.
    """
    value, noise = np.empty(y.size, np.complex128), np.empty(y.size)
    for n in range(y.size):
        length, phase = math.exp(re[n]), im[n] + y[n] * turn
        value[n] = factor[n] * complex(length * math.cos(phase), length * math.sin(phase))
        turns = abs(im[n]) + y[n] * size
        noise[n] = abs(factor[n]) * length * (8.0 + abs(re[n]) + 2.0 * turns)
        noise[n] += abs(factor[n]) * math.exp((1.0 - share) * re[n]) * error
    return value, noise
