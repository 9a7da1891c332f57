"""Rigorous sums over one piece of a lattice pair: masses and moments of exp(L).

Tails are bounded as integrals are, one summand more, or by the ratio of neighbours where all terms
are modified Bessel functions (Amos 1974):

    c / (n+1 + sqrt(c^2 + (n+1)^2))  <=  I_{n+1}(c) / I_n(c)  <=  c / (2 (n+1)),  n >= 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from flint import acb, arb, ctx
from sympy import besseli, log

from mechc.errors import NumericError
from mechc.verify.balls import expressions
from mechc.verify.balls.boxes import between
from mechc.verify.balls.density import Law
from mechc.verify.balls.infinity import Unknown
from mechc.verify.balls.part import Part

MAX_POINTS = 200_000  # integers of one sum
POINTS_AT_ONCE = 16  # points after which the tail is looked at again


class LatticeSum(Part):
    """Sums over the integers lo..hi; arguments as for any part of a pair."""

    @cached_property
    def is_empty(self) -> bool:
        """No integer, or no mass."""
        return bool(self.hi < self.lo) or (self.p.is_zero and self.q.is_zero)

    def mass(self, law: str, lo: float, hi: float) -> Any:
        """Mass of lo < n <= hi on this piece."""
        side = self.p if law == "p" else self.q
        if side.is_zero:
            return arb(0)
        first = self.lo if lo == float("-inf") else self.lo.max(arb(lo).floor() + 1)
        last = self.hi if hi == float("inf") else self.hi.min(arb(hi).floor())
        if first > last:
            return arb(0)
        weights = (acb(1), acb(0)) if law == "p" else (acb(0), acb(1))
        return self._sum(*weights, first, last).real

    def moment(self, z: Any) -> Any:
        """Sum of p^(1+z) q^(-z), zero unless both are positive."""
        return self._sum(1 + z, -z, self.lo, self.hi) if self.is_shared else acb(0)

    def _sum(self, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        tiny = arb(2) ** (8 - ctx.prec)
        rows, rest = self.points(a.real, b.real, lambda total: tiny * total, ends=(lo, hi))
        room = acb(arb(0, rest.upper()), arb(0, rest.upper()))
        return sum((_power(a, b, row) for row in rows), start=acb(0)) + room

    def points(
        self, a: Any, b: Any, enough: Callable[[Any], Any], most: int = MAX_POINTS,
        ends: tuple[Any, Any] | None = None,
    ) -> tuple[list[tuple[Any, Any]], Any]:  # fmt: skip
        """Log masses of integers outwards from zero, and a ball around what the others add.

        Args:
            a: real exponent of p in the sum that counts.
            b: that of q.
            enough: from the sum so far what may be left out of it.
            most: of integers on one side.
            ends: first and last integer, those of the piece unless given.

        Raises:
            NumericError: more integers matter.
        """
        ends = ends or (self.lo, self.hi)
        lo, hi = (expressions.integer(e) if e.is_finite() else None for e in ends)
        halves: list[tuple[int, int, int | None]] = [(1, 0, None), (-1, 1, None)]
        if lo is not None:
            halves = [(1, lo, hi)]
        elif hi is not None:
            halves = [(-1, -hi, None)]
        rows, rest, total = [], arb(0), arb(0)
        for side, start, stop in halves:
            if stop is not None and stop - start >= most:
                raise NumericError(f"more than {most} points of the lattice")
            for m in range(start, start + most if stop is None else stop + 1):
                rows.append(self.logs(side * m))
                total += (weight := _power(a, b, rows[-1]))
                if stop is None and m > 0 and m % POINTS_AT_ONCE == 0 and weight < enough(total):
                    try:
                        bound = self.tail(a, b, side, arb(m))
                    except Unknown:
                        continue
                    if bound < enough(total):
                        rest += between(bound)
                        break
            else:
                if stop is None:
                    raise NumericError(f"more than {most} points of the lattice matter")
        return rows, rest

    @cached_property
    def logs(self) -> Callable[[int], tuple[Any, Any]]:
        """Log masses at an integer."""

        def log_mass(law: Law, n: int) -> Any:
            return arb.neg_inf() if law.is_zero else law.log(arb(n), False)

        return cache(lambda n: (log_mass(self.p, n), log_mass(self.q, n)))

    def beyond(self, rows: list[Any], side: int, y: Any) -> Any:
        """See `Part.beyond`."""
        if not any(law.exprs[i].has(besseli) for _, law, i in rows):
            return 1 + super().beyond(rows, side, y)
        ratio = self._bessel_ratio(rows, side, y)
        if ratio is None or not ratio < 1:
            raise Unknown("Bessel ratio")
        return 1 / (1 - ratio)

    def _bessel_ratio(self, rows: list[Any], side: int, n: Any) -> Any:
        """Bound on prod_i (I_{m+1-s_i}(c) / I_{m-s_i}(c))^{e_i} for all m >= n."""
        found = []
        for exponent, law, i in rows:
            inner = law.exprs[i]
            if not isinstance(inner, log) or not isinstance(inner.args[0], besseli):
                raise Unknown("a Bessel function beside others")
            order, argument = inner.args[0].args
            outward = side * order.diff(self.x)
            shift = expressions.constant(-outward * order.subs(self.x, 0), self.values)
            if outward**2 != 1 or not shift.is_integer() or argument.has(self.x):
                raise Unknown("a Bessel function of another order or argument")
            found.append((exponent, shift, expressions.constant(argument, self.values)))
        first, second = (*found, (arb(0), *found[0][1:]))[:2]
        (a, s, c), (b, t, d) = (second, first) if first[0] < 0 else (first, second)
        if not a >= 0 or not n - s > 0 or not n - t > 0:
            return None
        upper = (c / (2 * (n + 1 - s))) ** a
        if b >= 0:
            return upper * (d / (2 * (n + 1 - t))) ** b
        # the bound decreases in m from where (a + b) m >= a t + b s, with m + 1 for m
        if not (a + b >= 0 and (a + b) * (n + 1) >= a * t + b * s):
            return None
        u = n + 1 - t
        return upper * ((u + (d**2 + u**2).sqrt()) / d) ** (-b)


def _power(a: Any, b: Any, logs: tuple[Any, Any]) -> Any:
    """p^a q^b."""
    parts = [e * log_ for e, log_ in zip((a, b), logs, strict=True) if not e.is_zero()]
    return sum(parts[1:], start=parts[0]).exp()
