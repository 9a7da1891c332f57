"""A root between two places, where a function is least, and where a statement ceases to hold.

The root and the least place by Brent's methods: R. P. Brent, Algorithms for minimization without
derivatives, 1973, sections 4 and 5. The steps to a root, and so its digits, are those of
`scipy.optimize.brentq`; importing that module takes longer than a short query.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mechc.errors import NumericError
from mechc.numeric.rounding import EPS


def root(
    f: Callable[[float], float], a: float, b: float, *, xtol: float = 2e-12, rtol: float = 4 * EPS,
    turns: int = 100,
) -> float:  # fmt: skip
    """Return where f changes its sign between a and b, to within xtol + rtol times the place.

    Or the best place after so many `turns`.

    Raises:
        NumericError: the signs at a and b are the same, or a value is nan.
    """
    before, here, other = a, b, a
    f_before, f_here = f(a), f(b)
    if f_before == 0.0:
        return a
    if f_here == 0.0:
        return b
    if not f_before * math.copysign(1.0, f_here) < 0.0:
        raise NumericError(f"no change of sign between {a!r} and {b!r} ({f_before!r}, {f_here!r})")
    f_other = f_before
    last = step = here - before
    for _ in range(turns):
        if f_before != 0.0 and (f_before < 0.0) != (f_here < 0.0):
            other, f_other = before, f_before
            last = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        enough, half = 0.5 * (xtol + rtol * abs(here)), 0.5 * (other - here)
        if f_here == 0.0 or abs(half) < enough:
            break
        tried = math.inf
        if abs(last) > enough and abs(f_here) < abs(f_before):
            if before == other:  # the secant
                tried = -f_here * (here - before) / (f_here - f_before)
            elif before != here != other:  # the inverse parabola
                slope = (f_before - f_here) / (before - here)
                beyond = (f_other - f_here) / (other - here)
                bent = beyond * slope * (f_other - f_before)
                tried = -f_here * (f_other * beyond - f_before * slope) / bent if bent else tried
        if 2.0 * abs(tried) < min(abs(last), 3.0 * abs(half) - enough):
            last, step = step, tried
        else:
            last = step = half
        before, f_before = here, f_here
        here += step if abs(step) > enough else math.copysign(enough, half)
        f_here = f(here)
        if math.isnan(f_here):
            raise NumericError(f"a function whose root is sought is nan at {here!r}")
    return here


GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))


def lowest(
    f: Callable[[float], float], a: float, b: float, *, xtol: float = 1e-5,
    inside: float | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Return where f is least between a and b > a, to within xtol, and its value.

    By golden sections, the ends themselves not tried. From a place inside where f is less than at
    both ends by parabolas too, through the three least values, a golden section where they do not
    settle it. Of several minima one; an infinite value is never the least.
    """

    def known(*places: float) -> list[tuple[float, float]]:
        values = ((x, f(x)) for x in places)
        return [(x, math.inf if math.isnan(value) else value) for x, value in values]

    least = known(a + GOLDEN * (b - a)) if inside is None else known(inside, a, b)
    step = before = math.inf
    while True:
        least = sorted(least, key=lambda place: place[1])[:3]
        best = least[0][0]
        enough = xtol + 4.0 * EPS * abs(best)
        if b - a <= enough:
            return least[0]
        longer, near = b - best if b - best > best - a else a - best, 0.45 * enough
        tried = math.nan if inside is None else _to_vertex(*least)
        if a < best + tried < b and abs(tried) < 0.5 * abs(before):
            if abs(tried) < near or min(best + tried - a, b - best - tried) < near:
                tried = math.copysign(near, longer)
            before, step = step, tried
        else:
            before, step = longer, GOLDEN * longer
        x = best + step
        least += known(x)
        if least[-1][1] < least[0][1]:
            a, b = (best, b) if x > best else (a, best)
        else:
            a, b = (a, x) if x > best else (x, b)


def _to_vertex(*points: tuple[float, float]) -> float:
    """The way from the first of three points to the vertex of their parabola; nan without one."""
    (x, at), (w, f), (v, g) = points
    r, s = (x - w) * (at - g), (x - v) * (at - f)
    down = 2.0 * (r - s)
    return ((x - v) * s - (x - w) * r) / down if down else math.nan


LARGEST = 1e8  # place beyond which a switch is taken to be at infinity


def switch(
    holds: Callable[[float], bool], close: float = 0.0, lo: float = 0.0, hi: float | None = None,
    turns: int = 2000,
) -> tuple[float, float]:  # fmt: skip
    """Return the last place at which a statement holds, and the first at which not, by halving.

    Args:
        holds: the statement, true at `lo`.
        close: distance of the two, as a share of the second, that is enough.
        lo: one end.
        hi: the other, where it does not hold; without one it is doubled from 1, until `LARGEST`.
        turns: most halvings.
    """
    if hi is None:
        hi = 1.0
        while holds(hi):
            lo, hi = hi, 2.0 * hi
            if hi > LARGEST:
                return lo, math.inf
    for _ in range(turns):
        middle = 0.5 * (lo + hi)
        if hi - lo <= close * hi or not lo < middle < hi < math.inf:
            break
        lo, hi = (middle, hi) if holds(middle) else (lo, middle)
    return lo, hi
