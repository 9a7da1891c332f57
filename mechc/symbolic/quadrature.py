"""Integrals and sums of functions of doubles that find their own scale; no expressions here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from mechc.protocol import Floats

Function = Callable[[Floats], Floats]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # of a panel, on [-1, 1]
_BLOCK = 1 << 14  # integers summed at once, 128 kB
# a mass below this at distance 16384 belongs to a tail that adds up to nothing
_NEGLIGIBLE = 1e-40
# a variable x = e^t is followed from e^-90 to e^150: x^4 still fits a double, and a tail that
# falls like x^(-1.15) is below 1e-10 there
_SMALLEST, _LARGEST = -90.0, 150.0
# a density that rises like y^-0.1 or faster at this share of a place, is followed by that law
_CLOSE, _STEEP = 1e-13, 0.1
# panels at once, which waves without end would exceed
_MOST = 1024
# share of that law's mass that is not to be relied on
_DOUBT = 0.01


def integral(f: Function, lo: float, hi: float, centres: Iterable[float]) -> float:
    """The first of `integral_and_doubt`."""
    return integral_and_doubt(f, lo, hi, centres)[0]


@np.errstate(over="ignore", invalid="ignore")  # an infinite integral says so by its value
def integral_and_doubt(
    f: Function, lo: float, hi: float, centres: Iterable[float]
) -> tuple[float, float]:
    """Integrate over (lo, hi), looking for mass at every distance from `centres`.

    Each gap between centres is cut in the middle; from either side x = centre +- e^t, so that
    peaks of any width at a centre, algebraic tails and end-point singularities are all smooth in t.

    Returns:
        The integral, and how far it may be off because of poles, heavy tails, or waves without end.
    """
    points = sorted(p for p in {lo, hi, *centres} if lo <= p <= hi and math.isfinite(p)) or [0.0]
    total = off = 0.0
    gaps = [(*gap, 0.5 * (v - u)) for u, v in pairwise(points) for gap in ((u, 1.0), (v, -1.0))]
    tails = [(points[0], -1.0, math.inf)] * (lo == -math.inf)
    for gap in (*gaps, *tails, *[(points[-1], 1.0, math.inf)] * (hi == math.inf)):
        found, doubt = _from_centre(f, *gap)
        total, off = total + found, off + doubt
    return total, off


def _from_centre(f: Function, centre: float, side: float, span: float) -> tuple[float, float]:
    """Integrate f(centre + side y) over 0 < y < span, in t = log y."""
    inner = _power_law(f, centre, side, span)

    def g(t: Floats) -> Floats:
        y = np.exp(t)
        x = centre + side * y
        # too close to tell apart: an end point, where the formula need not hold
        apart = x != centre
        result = np.zeros_like(t)
        result[apart] = f(x[apart]) * y[apart]
        return result

    top, rest = (_LARGEST, _beyond(f, side)) if math.isinf(span) else (math.log(span), 0.0)
    first, pole = (math.log(inner[0]), inner[1]) if inner else (min(_SMALLEST, top - 1.0), 0.0)
    found, unsettled = _adaptive(g, np.linspace(first, top, 200))
    return found + pole + rest, _DOUBT * (pole + rest) + unsettled


def _beyond(f: Function, side: float) -> float:
    """The integral beyond the largest number looked at, of a tail such as x^(-1.1)."""
    x = math.exp(_LARGEST) * np.array([0.01, 1.0])
    before, at = map(float, f(side * x))
    if not (0.0 < at < math.inf and 0.0 < before < math.inf):
        return 0.0
    power = math.log(before / at) / math.log(100.0)
    return at * float(x[1]) / (power - 1.0) if power > 1.0 else 0.0


def _power_law(f: Function, centre: float, side: float, span: float) -> tuple[float, float] | None:
    """The integral next to a pole such as (x - 1)^(-0.9), and how far from it that reaches."""
    # A tenth of such a mass can lie closer to the pole than doubles next to it can tell.
    least = _CLOSE * abs(centre) or math.exp(_SMALLEST)
    x = centre + side * least * np.array([1.0, 100.0])
    near, far = np.abs(x - centre)  # exact, as x is not
    if not 0.0 < near < far < span:
        return None
    at, further = f(x)
    if not (0.0 < at < math.inf and further > 0.0):
        return None
    power = math.log(at / further) / math.log(far / near)
    return (near, at * near / (1.0 - power)) if _STEEP < power < 1.0 else None


def _adaptive(g: Function, edges: Floats) -> tuple[float, float]:
    """Gauss-Legendre panels, halved until whole and halves agree, and what they still differ by."""
    a, b = edges[:-1], edges[1:]
    whole = _panels(g, a, b)
    total, halved = 0.0, 0
    while True:
        m = 0.5 * (a + b)
        left, right = _panels(g, a, m), _panels(g, m, b)
        both, halved = left + right, halved + 1
        scale = max(abs(total) + float(np.sum(np.abs(both))), 1e-300)
        # nan must not be refined for ever: it is final, and reported
        rest = np.abs(whole - both) > 1e-13 * scale
        total += float(np.sum(both[~rest]))
        if halved == 30 or not 0 < np.count_nonzero(rest) <= _MOST:
            return total + float(np.sum(both[rest])), float(np.sum(np.abs(whole - both)[rest]))
        a, b = np.concatenate([a[rest], m[rest]]), np.concatenate([m[rest], b[rest]])
        whole = np.concatenate([left[rest], right[rest]])


def _panels(g: Function, a: Floats, b: Floats) -> Floats:
    half = 0.5 * (b - a)
    t = (0.5 * (a + b))[:, None] + half[:, None] * _NODES
    values: Floats = (g(t.ravel()).reshape(t.shape) @ _WEIGHTS) * half
    return values


@np.errstate(over="ignore", invalid="ignore")  # an infinite integral says so by its value
def sum_over(f: Function, lo: float, hi: float, centres: Iterable[float]) -> float:
    """Sum f over the integers lo..hi: directly near `centres` and the ends, smoothly elsewhere."""
    marks = {round(c) for c in (lo, hi, *centres) if lo <= c <= hi and math.isfinite(c)} or {0}
    total, done = 0.0, -math.inf
    for mark in sorted(marks):
        first = max(lo, mark - _BLOCK, done + 1)
        last = min(hi, mark + _BLOCK)
        if first > max(lo, done + 1):
            total += _smooth_sum(f, max(lo - 1, done), first)
        if last >= first:
            total += float(np.sum(f(np.arange(float(first), last + 1.0))))
            done = last
    return total + (_smooth_sum(f, done, hi + 1) if done < hi else 0.0)


def _smooth_sum(f: Function, a: float, b: float) -> float:
    """Sum over the integers strictly between a and b, by Euler and Maclaurin."""
    total = 0.0
    step = 0.5
    for end, side in ((a, 1.0), (b, -1.0)):
        if math.isfinite(end):
            here = f(np.array([float(end)]))[0]
            if not here > _NEGLIGIBLE:
                return 0.0
            before, after = f(np.array([end - step, end + step]))
            total -= here / 2 + side * (after - before) / (2 * step) / 12
    return float(total + integral(f, a, b, []))
