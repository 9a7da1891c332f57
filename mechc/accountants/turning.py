"""Sums of waves over many nodes by the vector units of the processor, for proofs of decay.

sin and cos by reduction to |r| <= pi/4 in three steps (Cody and Waite) and Taylor polynomials, good
to a few units in the last place of the angle; the C library's leave the vector units idle.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.loss.compiled import compiled

_SINE = np.array([(-1.0) ** n / math.factorial(2 * n + 1) for n in range(8)])
_COSINE = np.array([(-1.0) ** n / math.factorial(2 * n) for n in range(9)])
_TWO_OVER_PI = 2.0 / math.pi
_HIGH = 1.5707963267341256  # pi / 2 in parts: the last bits of the first two are zero
_MIDDLE = 6.077100506303966e-11
_LOW = 2.0222662487959506e-21


@compiled(
    "UniTuple(float64, 2)(float64[::1], float64[::1], float64)",
    fastmath={"reassoc", "contract"},  # sums in any order
)
def turned(centred, weight, y):  # type: ignore[no-untyped-def]
    """Return sum w (1 - cos(y d)) and sum w sin(y d); the first has no cancellation."""
    real, imaginary = 0.0, 0.0
    for j in range(centred.size):
        half = 0.5 * y * centred[j]
        n = math.floor(half * _TWO_OVER_PI + 0.5)
        r = ((half - n * _HIGH) - n * _MIDDLE) - n * _LOW
        q = r * r
        s, c = _SINE[7], _COSINE[8]
        for m in range(6, -1, -1):
            s = s * q + _SINE[m]
        for m in range(7, -1, -1):
            c = c * q + _COSINE[m]
        s *= r
        odd = n - 2.0 * math.floor(0.5 * n)  # whether sine and cosine change places
        # squares and products of both need no sign
        sine = s + odd * (c - s)
        product = s * c * (1.0 - 2.0 * odd)
        real += weight[j] * 2.0 * sine * sine
        imaginary += weight[j] * 2.0 * product
    return real, imaginary
