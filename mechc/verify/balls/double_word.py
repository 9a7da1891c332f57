"""Arrays of double-word numbers hi + lo, with proved bounds on what each operation loses.

Joldes, Muller and Popescu (ACM TOMS 44, 2017): with u = 2^-53 the sum below errs by at most
3.01 u^2 of the result (Theorem 3.1), the product by at most 7 u^2 (Theorem 5.1). Products of parts
that underflow are covered by TINY. An array has four rows, the words of real and imaginary parts.

The proofs rest on every operation being rounded by itself and in this order: no fast arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled

Floats = NDArray[np.float64]

ADD = 3.01 * 2.0**-106
MULTIPLY = 16.0 * 2.0**-106  # of complex numbers: sqrt(2) (7 + 3.01) u^2, rounded up
TINY = 1e-290  # what underflow can do to one operation on numbers of size one
_SPLIT = 2.0**27 + 1.0


@compiled()
def _fast_two_sum(a, b):  # type: ignore[no-untyped-def]
    s = a + b
    return s, b - (s - a)


@compiled()
def _two_sum(a, b):  # type: ignore[no-untyped-def]
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@compiled()
def _two_product(a, b):  # type: ignore[no-untyped-def]
    """Dekker's product, exact for numbers of size up to one."""
    p = a * b
    t, v = _SPLIT * a, _SPLIT * b
    a1, b1 = t - (t - a), v - (v - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@compiled()
def add(x, y):  # type: ignore[no-untyped-def]
    """Sum, algorithm 6 of the source."""
    s, s_low = _two_sum(x[0], y[0])
    t, t_low = _two_sum(x[1], y[1])
    v, v_low = _fast_two_sum(s, s_low + t)
    return _fast_two_sum(v, t_low + v_low)


@compiled()
def product(x, y):  # type: ignore[no-untyped-def]
    """Product, algorithm 10 of the source."""
    c, c_low = _two_product(x[0], y[0])
    return _fast_two_sum(c, c_low + (x[0] * y[1] + x[1] * y[0]))


@compiled()
def turn(numbers, by):  # type: ignore[no-untyped-def]
    """Multiply complex numbers by others, in place."""
    for j in range(numbers.shape[1]):
        a, b = (numbers[0, j], numbers[1, j]), (numbers[2, j], numbers[3, j])
        c, d = (by[0, j], by[1, j]), (by[2, j], by[3, j])
        bd = product(b, d)
        numbers[0, j], numbers[1, j] = add(product(a, c), (-bd[0], -bd[1]))
        numbers[2, j], numbers[3, j] = add(product(a, d), product(b, c))


@compiled()
def total(numbers):  # type: ignore[no-untyped-def]
    """The four words of the sum, pairwise: the error is at most ADD a level of the sum of sizes."""
    sums, size = numbers.copy(), numbers.shape[1]
    while size > 1:
        half = (size + 1) // 2
        for j in range(size - half):
            for i in (0, 2):
                x, y = (sums[i, j], sums[i + 1, j]), (sums[i, half + j], sums[i + 1, half + j])
                sums[i, j], sums[i + 1, j] = add(x, y)
        size = half
    return sums[:, 0]


def from_balls(values: list[Any]) -> Floats:
    """Two words of the midpoints of complex balls."""
    rows = []
    for part in ("real", "imag"):
        middles = [getattr(v, part).mid() for v in values]
        hi = [float(m) for m in middles]
        lo = [float((m - h).mid()) for m, h in zip(middles, hi, strict=True)]
        words = [_fast_two_sum.py_func(*pair) for pair in zip(hi, lo, strict=True)]
        rows += [list(row) for row in zip(*words, strict=True)]
    return np.array(rows).reshape(4, len(values))
