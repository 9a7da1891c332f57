"""How fast M(c + iy) decays: |M(c + iy)| <= a + b/sqrt(y) + v/y for all y > 0, proved.

With w = p^(1+c) q^(-c) the tilted density, on a stretch where L' does not vanish integration by
parts gives |int w e^(iyL)| <= (|G(x1)| + |G(x2)| + int |G'|)/y with G = w/L'. Around an extremum of
L, where |L''| >= m, van der Corput's lemma (Stein 1993, VIII.1.2) bounds it by
8 (w(x2) + int |w'|)/sqrt(m y). What remains, plateaus of L and the far tails, is bounded by its
mass a. Where a stretch is cut only changes how sharp the bound is. The two variations are added up
over boxes: where the sign of the derivative is proved, the difference of the values at the ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from copy import copy
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx
from sympy import Add, Expr, Symbol, cancel, diff, exp, expand, expand_log, fraction, log
from sympy.polys.polyfuncs import horner

from mechc.calculus.cases import Piece
from mechc.errors import MechcError
from mechc.numeric.roots import switch
from mechc.verify.balls import expressions
from mechc.verify.balls.boxes import Boxes, Open
from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.oracle import Oracle
from mechc.verify.certified.integrand import Powers, Slopes

BITS = 64  # of the proof of decay
TAIL_NATS = (18.0, 8.0, 35.0, 3.5, 1.5)  # how far below its maximum the tilted density is cut
SAMPLES = 160  # places, even over a range
OCTAVES = 100  # from the ends of a range towards zero or a finite end of the support
HALVINGS = 3  # of a stretch on which a bound does not close
BOXES = 1500  # into which a stretch is cut at most
ALL_BOXES = 250_000  # the same for all stretches and windows of one step's law
FLAT = 2.0**-6  # change of the logarithm over a box on which a sign may stay open
_C = Symbol("c_", real=True)


class Decay(NamedTuple):
    """|M(c + iy)| <= mass + root/sqrt(y) + slope/y."""

    mass: Any
    root: Any
    slope: Any

    def at(self, y: Any) -> Any:
        """The bound at y > 0."""
        return self.mass + self.root / y.sqrt() + self.slope / y


def decays(oracle: Oracle, integrand: Powers, nats: Sequence[float] = TAIL_NATS) -> list[Decay]:
    """Valid bounds for one step, the tilted density cut so many `nats` below its maximum.

    Which is sharpest depends on y and on the count.
    """
    found = []
    boxes = iter(range(ALL_BOXES))
    with ctx.workprec(BITS):
        total = integrand.most(oracle)
        pieces = [
            (part.plain, _windows(part.plain, integrand.c, nats))
            for part in oracle.parts()
            if part.is_shared and part.plateau is None
        ]
        for i in range(len(nats)):
            rows = [(arb(0), arb(0), arb(0))]
            for part, windows in pieces:
                rows += _piece(part, oracle, integrand, windows[i], boxes)
            regular, root, slope = (sum(each, start=arb(0)) for each in zip(*rows, strict=True))
            rest = (total - regular).upper()
            found.append(Decay(rest.max(arb(0)), root.upper(), slope.upper()))
    return found


def least(rows: Sequence[Decay], y: Any) -> Any:
    """The sharpest of several bounds at y > 0."""
    return reduce(arb.min, (row.at(y) for row in rows))


def _piece(
    part: PieceIntegral,
    oracle: Oracle,
    integrand: Powers,
    window: tuple[float, float] | None,
    boxes: Iterator[int],
) -> list[tuple[Any, Any, Any]]:
    """(mass covered, root, slope) of the stretches of one piece within a window."""
    if window is None:
        return []
    of_loss, found = _functions(part.piece, oracle, integrand.c, boxes), []
    slopes = integrand.slopes(part, of_loss)
    ends = [window[0], *([0.0] if window[0] < 0.0 < window[1] else []), window[1]]
    for left, right in itertools.pairwise(ends):
        for lo, hi, critical in stretches(of_loss.first, slopes.second, left, right):
            found += _covered(part, integrand, slopes, (lo, hi), critical, HALVINGS)
    return found


def _covered(
    part: PieceIntegral,
    integrand: Powers,
    slopes: Slopes,
    stretch: Any,
    critical: bool,
    halvings: int,
) -> list[tuple[Any, Any, Any]]:
    """(mass, root, slope) of a stretch, or of its halves; what stays open is left to the rest."""
    lo, hi = stretch
    try:
        return [_stretch(part, integrand, slopes, lo, hi, critical)]
    except MechcError:
        if critical or not halvings:
            return []
    middle = ((lo + hi) / 2).mid()
    return [
        got
        for half in ((lo, middle), (middle, hi))
        for got in _covered(part, integrand, slopes, half, critical, halvings - 1)
    ]


def _functions(piece: Piece, oracle: Oracle, c: Any, boxes: Iterator[int]) -> Slopes:
    """The derivatives, of expanded differences from one term."""
    x, values, base = oracle.declaration.variable, oracle.values, piece.q[0].log_density
    log_p, log_q = (
        log(Add(*(t.weight * exp(expand(t.log_density - base)) for t in side)))
        for side in (piece.p, piece.q)
    )
    loss = expand_log(log_p, force=True) - expand_log(log_q, force=True)
    tilted = (1 + _C) * loss + base + log_q
    first, second, steep = diff(loss, x), diff(loss, x, 2), diff(tilted, x)
    known = copy(values)
    known[_C] = c
    forms = (first, second, steep, steep - second / first)
    reduced = [_one_fraction(form, x, known) for form in forms]
    d1, d2, dw = (expressions.function(form, x, known) for form in reduced[:3])

    def ratio(u: Any, analytic: bool) -> Any:
        return dw(u, analytic) - d2(u, analytic) / d1(u, analytic)

    if forms[3].is_rational_function(x):
        return Slopes(d1, d2, dw, expressions.function(reduced[3], x, known), boxes)
    return Slopes(d1, d2, dw, ratio, boxes)


def _one_fraction(expr: Expr, x: Symbol, values: Any) -> Expr:
    """A rational function in lowest terms, whose summands would cancel on wide balls."""
    if not expr.is_rational_function(x):
        return expr
    top, bottom = fraction(cancel(expr.xreplace(expressions.exact(values))))
    return horner(top, wrt=x) / horner(bottom, wrt=x)


def _windows(
    part: PieceIntegral, c: Any, nats: Sequence[float]
) -> list[tuple[float, float] | None]:
    """Finite stretches of a piece outside which the tilted density, times dx, is small."""
    lo, hi = float(part.lo.mid()), float(part.hi.mid())
    zero, one = acb(1 + c).real, acb(-c).real
    left, right = (
        float(part.cut(acb(1 + c), acb(-c), side)[0].mid()) if math.isinf(end) else end
        for side, end in ((-1, lo), (1, hi))
    )
    places = _spread(left, right, lo, hi)
    if not places:  # hardly any of the density is here
        return [None for _ in nats]
    heights = (part.height(zero, one, arb(v)) for v in places)
    logs = np.array([float(h.mid()) if h.is_finite() else -math.inf for h in heights])
    widths = np.convolve([places[0], *places, places[-1]], (0.5, 0.0, -0.5), "valid")
    logs += np.log(np.maximum(widths, 1e-300))
    lowest, highest = math.nextafter(lo, math.inf), math.nextafter(hi, -math.inf)
    found: list[tuple[float, float] | None] = []
    for depth in nats:
        seen = np.flatnonzero(logs > np.max(logs, initial=-1e300) - depth)
        first, last = (int(seen[0]), int(seen[-1])) if seen.size else (0, 0)
        start = lowest if first == 0 and lo > -math.inf else places[first]
        end = highest if last == len(places) - 1 and hi < math.inf else places[last]
        found.append((start, end) if first < last else None)
    return found


def _spread(left: float, right: float, lo: float, hi: float) -> list[float]:
    """Points in (left, right), even and denser towards zero and finite ends."""
    width = right - left
    even = [left + width * (i + 0.5) / SAMPLES for i in range(SAMPLES)]
    marks = [0.0, *(e for e in (lo, hi) if math.isfinite(e))]
    graded = [m + s * width * 0.5**k for m in marks for s in (-1, 1) for k in range(1, OCTAVES)]
    return sorted({v for v in (*even, *graded) if left < v < right})


def stretches(d1: Any, d2: Any, lo: float, hi: float) -> list[tuple[Any, Any, bool]]:
    """The window cut around extrema of the loss: (from, to, whether an extremum is inside)."""
    even = [lo + (hi - lo) * i / 400 for i in range(401)]
    graded = [m * 0.5 ** (k / 4) for m in (lo, hi) for k in range(1, 4 * OCTAVES)]
    points = sorted({lo, *(v for v in (*even, *graded) if lo < v < hi), hi})
    slopes = [float(d1(arb(v), False).mid()) for v in points]
    cuts = [lo]
    for (a, u), (b, v) in itertools.pairwise(zip(points, slopes, strict=True)):
        if not u * v <= 0 or u == 0:
            continue

        def before(x: float, sign: float = u) -> bool:
            return sign * float(d1(arb(x), False).mid()) > 0

        centre, reach = switch(before, lo=a, hi=b, turns=60)[0], (hi - lo) / 4
        for _ in range(2 * OCTAVES):
            left, right = centre - reach, centre + reach
            curved = d2(arb(left).union(arb(right)), False)
            # stretches have no part in common: what they cover is taken off the whole once
            if cuts[-1] <= left and right <= hi and (curved > 0 or curved < 0):
                cuts += [left, right]
                break
            reach /= 1.5
    ends = itertools.pairwise([*cuts, hi])
    return [(arb(a), arb(b), i % 2 == 1) for i, (a, b) in enumerate(ends) if a < b]


def total_variation(value: Any, slope: Any, lo: Any, hi: Any, boxes: Iterator[int]) -> Any:
    """The integral of |G'| for G = `value` > 0 or < 0, `slope` being (log |G|)', on balls."""
    total, todo = arb(0), Boxes([(lo, hi)], BOXES)
    for a, b in todo:
        if next(boxes, None) is None:
            raise Open("the boxes of all stretches are used up")
        rate = slope(acb(a.union(b)))
        if rate > 0 or rate < 0:
            total += abs(value(b) - value(a))
            continue
        change = (abs(rate) * (b - a)).upper()
        if change < FLAT:
            total += change * change.exp() * abs(value(a))
        else:
            todo.halve(a, b)
    return total


def _stretch(
    part: PieceIntegral, integrand: Powers, f: Slopes, lo: Any, hi: Any, critical: bool
) -> tuple[Any, Any, Any]:
    """(mass, root, slope) of a stretch, with an extremum of the loss inside or without."""
    exponent, c = integrand.log_weight(part), integrand.c

    def value(x: Any) -> Any:
        weight = exponent(acb(x), False).exp().real
        return weight if critical else weight / f.first(x, False)

    def slope(box: Any) -> Any:
        if critical:
            return f.tilted(box, True).real
        return arb.nan() if f.first(box, True).real.contains(0) else f.ratio(box, True).real

    root, rate, variation = arb(0), arb(0), total_variation(value, slope, lo, hi, f.boxes)
    if critical:
        curved = abs(f.second(lo.union(hi), False)).lower()
        root = 8 * (value(hi) + variation) / curved.sqrt()
    else:
        rate = abs(value(lo)) + abs(value(hi)) + variation
    if not (root + rate).is_finite():
        raise Open("the density has no finite enclosure at an end, or the loss may have no bend")
    return part.integral(acb(1 + c), acb(-c), lo, hi).real, root, rate
