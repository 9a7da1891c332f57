"""Arrays of double-word numbers hi + lo, with proved bounds on what each operation loses.

Joldes, Muller and Popescu (ACM TOMS 44, 2017): with u = 2^-53 the sum below errs by at most
3.01 u^2 of the result (Theorem 3.1), the product by at most 7 u^2 (Theorem 5.1). Products of parts
that underflow are covered by TINY.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ADD = 3.01 * 2.0**-106
MULTIPLY = 16.0 * 2.0**-106  # of complex numbers: sqrt(2) (7 + 3.01) u^2, rounded up
TINY = 1e-290  # what underflow can do to one operation on numbers of size one
_SPLIT = 2.0**27 + 1.0


class Words(NamedTuple):
    """Real numbers hi + lo."""

    hi: Floats
    lo: Floats


class Complex(NamedTuple):
    """Complex numbers."""

    re: Words
    im: Words


def _fast_two_sum(a: Floats, b: Floats) -> Words:
    s = a + b
    return Words(s, b - (s - a))


def _two_sum(a: Floats, b: Floats) -> Words:
    s = a + b
    t = s - a
    return Words(s, (a - (s - t)) + (b - t))


def _two_product(a: Floats, b: Floats) -> Words:
    """Dekker's product, exact for numbers of size up to one."""
    p = a * b
    t, v = _SPLIT * a, _SPLIT * b
    a1, b1 = t - (t - a), v - (v - b)
    a2, b2 = a - a1, b - b1
    return Words(p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2)


def add(x: Words, y: Words) -> Words:
    """Sum, algorithm 6 of the source."""
    s, t = _two_sum(x.hi, y.hi), _two_sum(x.lo, y.lo)
    v = _fast_two_sum(s.hi, s.lo + t.hi)
    return _fast_two_sum(v.hi, t.lo + v.lo)


def _product(x: Words, y: Words) -> Words:
    """Product, algorithm 10 of the source."""
    c = _two_product(x.hi, y.hi)
    return _fast_two_sum(c.hi, c.lo + (x.hi * y.lo + x.lo * y.hi))


def _negative(x: Words) -> Words:
    return Words(-x.hi, -x.lo)


def multiply(x: Complex, y: Complex) -> Complex:
    """Complex product."""
    return Complex(
        add(_product(x.re, y.re), _negative(_product(x.im, y.im))),
        add(_product(x.re, y.im), _product(x.im, y.re)),
    )


def total(x: Words) -> tuple[float, float]:
    """(hi, lo) of the sum, pairwise: the error is at most ADD a level of the sum of sizes."""
    while x.hi.size > 1:
        if x.hi.size % 2:
            x = Words(*(np.append(part, 0.0) for part in x))
        half = x.hi.size // 2
        x = add(Words(x.hi[:half], x.lo[:half]), Words(x.hi[half:], x.lo[half:]))
    return float(x.hi[0]), float(x.lo[0])


def from_balls(values: list[Any]) -> Complex:
    """Two words of the midpoints of complex balls."""
    parts = []
    for part in ("real", "imag"):
        middles = [getattr(v, part).mid() for v in values]
        hi = [float(m) for m in middles]
        lo = [float((m - h).mid()) for m, h in zip(middles, hi, strict=True)]
        parts.append(_fast_two_sum(np.array(hi), np.array(lo)))
    return Complex(*parts)
