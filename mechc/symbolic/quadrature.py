"""Integrals and sums of functions of doubles that find their own scale; no expressions here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from mechc.protocol import Floats

Function = Callable[[Floats], Floats]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_BLOCK = 1 << 14
# a mass below this at distance 16384 belongs to a tail that adds up to nothing
_NEGLIGIBLE = 1e-40
# a variable x = e^t is followed from e^-90 to e^150: x^4 still fits a double, and a tail that
# falls like x^(-1.15) is below 1e-10 there
_SMALLEST, _LARGEST = -90.0, 150.0
# a density that rises like y^-0.1 or faster at this share of a place, is followed by that law
_CLOSE, _STEEP = 1e-13, 0.1
# share of that law's mass that is not to be relied on
_DOUBT = 0.01


@np.errstate(over="ignore", invalid="ignore")  # an infinite integral says so by its value
def integral(f: Function, lo: float, hi: float, centres: Iterable[float]) -> float:
    """Integrate over (lo, hi), looking for mass at every distance from `centres`.

    Each gap between centres is cut in the middle; from either side x = centre +- e^t, so that
    peaks of any width at a centre, algebraic tails and end-point singularities are all smooth in t.
    """
    points = sorted(p for p in {lo, hi, *centres} if lo <= p <= hi and math.isfinite(p)) or [0.0]
    total = 0.0
    for u, v in pairwise(points):
        half = 0.5 * (v - u)
        total += _from_centre(f, u, 1.0, half) + _from_centre(f, v, -1.0, half)
    if lo == -math.inf:
        total += _from_centre(f, points[0], -1.0, math.inf)
    if hi == math.inf:
        total += _from_centre(f, points[-1], 1.0, math.inf)
    return total


def doubt(f: Function, lo: float, hi: float) -> float:
    """How far `integral` may be off because of poles at the ends of (lo, hi), or heavy tails."""
    ends = [(lo, 1.0), (hi, -1.0)]
    poles = [_power_law(f, end, side, hi - lo) for end, side in ends if math.isfinite(end)]
    tails = [_beyond(f, math.copysign(1.0, end)) for end, _ in ends if math.isinf(end)]
    return _DOUBT * sum([*tails, *(pole[1] for pole in poles if pole)])


def _from_centre(f: Function, centre: float, side: float, span: float) -> float:
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
    if inner:
        return inner[1] + _adaptive(g, np.linspace(math.log(inner[0]), top, 200)) + rest
    return _adaptive(g, np.linspace(min(_SMALLEST, top - 1.0), top, 200)) + rest


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


def _adaptive(g: Function, edges: Floats) -> float:
    """Gauss-Legendre panels, halved until whole and halves agree."""
    a, b = edges[:-1], edges[1:]
    whole = _panels(g, a, b)
    total = 0.0
    for _ in range(30):
        m = 0.5 * (a + b)
        left, right = _panels(g, a, m), _panels(g, m, b)
        both = left + right
        scale = max(abs(total) + float(np.sum(np.abs(both))), 1e-300)
        # nan must not be refined for ever: it is final, and reported
        done = ~(np.abs(whole - both) > 1e-13 * scale)
        total += float(np.sum(both[done]))
        if done.all():
            return total
        rest = ~done
        a, b = np.concatenate([a[rest], m[rest]]), np.concatenate([m[rest], b[rest]])
        whole = np.concatenate([left[rest], right[rest]])
    return total + float(np.sum(whole))


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
