"""Integrals and sums of powers of the two densities of a declaration, with mpmath."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath
import numpy as np

from mechc.verify.recheck.declaration import PATIENCE, At, number

RANGE = 8.0  # nats and radians over which 16 nodes integrate to the last digits
NEGLIGIBLE = 50.0  # nats below the largest term
NOTHING = -1e6  # log density next to which no power of a density counts
OUTWARD, INWARD = 80, 18  # powers of two, and of four, that panels reach out and in
MOST_PANELS, MOST_SUMMED = 600, 10_000  # of an integral; terms of a sum
CANCELLED = 1e-7  # share of its terms below which a sum has lost too many digits
DIGITS, INTEGRAL_DIGITS = 50, 25  # of mpmath, at points and in integrals
# of a panel [0, 1], with logs of the weights: densities may underflow
_ROOTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES_AT, _LOG_WEIGHTS = [mpmath.mpf(float(t)) / 2 + 0.5 for t in _ROOTS], np.log(_WEIGHTS / 2)


class Integrals:
    """Integrals of powers of the two densities at one parameter vector, or sums over integers.

    Gauss-Legendre on panels that are short next to wherever formulas change, halved until the
    exponent moves by little on each. The log densities at nodes are kept for the next question.
    """

    def __init__(self, at: At, ends: Sequence[float]) -> None:
        """Prepare panels around the ends of branches and around marks of the expressions."""
        self._at, self._known = at, dict[Any, Any]()
        marks = {0.0, *map(float, ends)}
        for slope, offset in at.pair.affine:
            if rate := number(slope, at.theta):
                marks.add(float(-number(offset, at.theta) / rate))
        self.marks = sorted(mpmath.mpf(m) for m in marks if math.isfinite(m))
        gaps = [b - a for a, b in itertools.pairwise(self.marks)]
        self._reach = 2**OUTWARD * max([mpmath.mpf(1e-3), *gaps, *map(abs, at.theta)])
        inner = [m for m in self.marks if at.lo < m < at.hi]
        outer = [end for end in (at.lo, at.hi) if mpmath.isfinite(end)]
        pairs = itertools.pairwise([at.lo, *inner, at.hi])
        self._edges = sorted({*inner, *outer, *(e for pair in pairs for e in self._between(*pair))})

    def _between(self, a: Any, b: Any) -> Iterator[Any]:
        """Edges of panels that grow away from two marks next to each other."""
        finite = mpmath.isfinite(b - a)
        count = INWARD if finite else INWARD + OUTWARD // 2
        widest = (b - a) / 2 if finite else self._reach
        scales = [widest / mpmath.mpf(4) ** k for k in range(count)]
        yield from (a + s for s in scales if mpmath.isfinite(a))
        yield from (b - s for s in scales if mpmath.isfinite(b))

    def log(self, exponent: Callable[[Any, Any], Any], lo: Any, hi: Any) -> complex | None:
        """Log of the integral of exp(exponent(log p, log q)) from lo to hi; None: not settled."""
        with mpmath.workdps(INTEGRAL_DIGITS):
            found = (self._sum if self._at.pair.measure == "lattice" else self._integral)(
                exponent, mpmath.mpf(lo), mpmath.mpf(hi)
            )
        return None if found is None else log_sum(np.concatenate([*found, np.array([-math.inf])]))

    def _integral(self, exponent: Any, lo: Any, hi: Any) -> list[Any] | None:
        lo, hi = max(lo, self._edges[0]), min(hi, self._edges[-1])
        todo = list(itertools.pairwise([lo, *(e for e in self._edges if lo < e < hi), hi]))
        top = max(self._terms(exponent, a, b)[1] for a, b in todo)
        done: list[Any] = []
        while todo:
            a, b = todo.pop()
            logs, highest, spread = self._terms(exponent, a, b)
            middle, top = (a + b) / 2, max(top, highest)
            if highest < top - NEGLIGIBLE or spread <= RANGE or not a < middle < b:
                done.append(logs)
            else:
                todo += [(a, middle), (middle, b)]
            if len(done) + len(todo) > MOST_PANELS:
                return None
        return done

    def _terms(self, exponent: Any, a: Any, b: Any) -> tuple[Any, float, float]:
        """Terms of the sum as logs, the largest exponent with the length, and how far it moves."""
        if not a < b:
            return np.array([]), -math.inf, 0.0
        if (a, b) not in self._known:
            xs = [a + (b - a) * t for t in _NODES_AT]
            ends = self._at.logs(xs[0]) + self._at.logs(xs[-1])
            logs = [(-math.inf,) * 2] if max(ends) < NOTHING else [self._at.logs(x) for x in xs]
            self._known[a, b] = np.array(logs, dtype=float), float(mpmath.log(b - a))
        table, length = self._known[a, b]
        logs = exponent(*table.T)
        there = logs[np.isfinite(logs.real)]
        if not there.size:
            return there, -math.inf, 0.0
        spread = float(np.ptp(there.real) + np.ptp(there.imag))
        spread = spread if there.size == logs.size else math.inf
        return logs + length + _LOG_WEIGHTS, float(there.real.max()) + length, spread

    def _sum(self, exponent: Any, lo: Any, hi: Any) -> list[Any] | None:
        """The same over integers, outwards from the marks."""
        inside = [n for m in self.marks for n in (int(mpmath.nint(m)),) if lo <= n <= hi]
        start = inside[len(inside) // 2] if inside else int(hi if mpmath.isfinite(hi) else lo)
        reach = PATIENCE + max(abs(m - start) for m in (*inside, start))
        terms, top = [], -math.inf
        for step, first in ((1, start), (-1, start - 1)):
            idle, n = 0, first
            while lo <= n <= hi and idle <= reach:
                terms.append(exponent(*np.array([self._at.logs(n)], dtype=float).T))
                top = max(top, float(terms[-1][0].real))
                idle = idle + 1 if not terms[-1][0].real > top - NEGLIGIBLE else 0
                n += step
                if len(terms) > MOST_SUMMED:
                    return None
        return terms


def log_sum(logs: Any) -> complex | None:
    """Log of the sum of exponentials, None where too many digits cancel."""
    logs = logs[np.isfinite(logs.real)]
    if not logs.size:
        return complex(-math.inf)
    top = float(logs.real.max())
    parts = np.exp(logs - top)
    total = complex(math.fsum(parts.real), math.fsum(parts.imag))
    if abs(total) < CANCELLED * float(np.abs(parts).sum()):
        return None
    return top + cmath.log(total)


def power(z: complex) -> Callable[[Any, Any], Any]:
    """The exponent of p^(1+z) q^-z, where both have mass."""

    def exponent(p: Any, q: Any) -> Any:
        both = np.isfinite(p) & np.isfinite(q)
        p, q = np.where(both, p, 0.0), np.where(both, q, 0.0)
        return np.where(both, (1 + z) * p - z * q, -math.inf)

    return exponent


def density_of(law: str) -> Callable[[Any, Any], Any]:
    """The exponent of one of the densities."""
    return lambda p, q: (p if law == "p" else q) + 0j
