"""Rigorous sums over one piece of a lattice pair: masses and moments of exp(L)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from flint import acb, arb, ctx
from sympy import Symbol, besseli, log

from mechc.calculus.cases import Piece
from mechc.errors import NumericError
from mechc.verify.balls import expressions
from mechc.verify.balls.density import Law
from mechc.verify.balls.infinity import AtInfinity, Unknown, slope, sum_factor, tail_terms
from mechc.verify.balls.sums import bessel_ratio_bound, exact

MAX_POINTS = 200_000
STEP = 16


class LatticeSum:
    """Sums over the integers lo..hi."""

    def __init__(self, piece: Piece, x: Symbol, values: Any) -> None:
        """Bind the parameters; arguments as for an integral over a piece."""
        self.x, self.values = x, values
        self.lo, self.hi = (expressions.constant(e, values) for e in (piece.lo, piece.hi))
        self.p, self.q = Law(piece.p, x, values), Law(piece.q, x, values)
        self.plain = self  # as an integral has one in the declared variable
        self._logs: dict[int, tuple[Any, Any]] = {}
        self._slopes: dict[Any, Any] = {}

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

    def infinite_mass(self, law: str) -> Any:
        """Mass under one law where the other is zero."""
        other = self.q if law == "p" else self.p
        return self.mass(law, float("-inf"), float("inf")) if other.is_zero else arb(0)

    def moment(self, z: Any) -> Any:
        """Sum of p^(1+z) q^(-z), zero unless both are positive."""
        if self.p.is_zero or self.q.is_zero:
            return acb(0)
        return self._sum(1 + z, -z, self.lo, self.hi)

    def _sum(self, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        if lo.is_finite():
            start, total = int(lo.unique_fmpz()), acb(0)
        elif hi.is_finite():
            start, total = int(hi.unique_fmpz()) + 1, acb(0)
        else:
            start, total = 0, acb(0)
        if not hi.is_finite():
            total += self._run(a, b, 1, start, None)
        elif lo.is_finite():
            for n in range(start, int(hi.unique_fmpz()) + 1):
                total += self._value(a, b, n)
        if not lo.is_finite():
            total += self._run(a, b, -1, 1 - start, None)
        return total

    def halves(self) -> list[tuple[int, int, int | None]]:
        """(side, first, last): the integers side * m for m from first to last, None: for ever."""
        lo, hi = (int(e.unique_fmpz()) if e.is_finite() else None for e in (self.lo, self.hi))
        if lo is not None:
            return [(1, lo, hi)]
        if hi is not None:
            return [(-1, -hi, None)]
        return [(1, 0, None), (-1, 1, None)]

    def _run(self, a: Any, b: Any, side: int, start: int, stop: None) -> Any:
        """The sum over side*m for m = start, start + 1, ..."""
        total, size = acb(0), arb(0)
        tiny = arb(2) ** (-ctx.prec)
        for m in range(start, start + MAX_POINTS):
            value = self._value(a, b, side * m)
            total += value
            size += abs(value)
            near = m - start > 2 and m > 0 and abs(value) < tiny * size * 2**6
            if near and m % STEP == 0:
                bound = self.tail(a.real, b.real, side, m)
                if bound is not None and bound < tiny * size * 2**8:
                    bound = bound.upper()
                    return total + acb(arb(0, bound), arb(0, bound))
        raise NumericError(f"more than {MAX_POINTS} points of the lattice matter")

    def logs(self, n: int) -> tuple[Any, Any]:
        """Log masses at an integer."""
        if n not in self._logs:
            x = arb(n)
            self._logs[n] = tuple(
                arb.neg_inf() if law.is_zero else law.log(x, False) for law in (self.p, self.q)
            )  # type: ignore[assignment]
        return self._logs[n]

    def _value(self, a: Any, b: Any, n: int) -> Any:
        log_p, log_q = self.logs(n)
        exponent = acb(0)
        if not a.is_zero():
            exponent += a * log_p
        if not b.is_zero():
            exponent += b * log_q
        return exponent.exp()

    def tail(self, a: Any, b: Any, side: int, n: int) -> Any:
        """Bound on the sum of p^a q^b beyond side * n, None where it does not close."""
        count_p, count_q = (
            len(law.exprs) if e != 0 else 1 for e, law in ((a, self.p), (b, self.q))
        )
        best = None
        for terms in tail_terms(count_p, count_q, a, b):
            try:
                total = arb(0)
                for term in terms:
                    rows = ((a, self.p, term.i), (b, self.q, term.j))
                    total += term.factor * self._term_tail([r for r in rows if r[0] != 0], side, n)
            except Unknown:
                continue
            best = total if best is None else best.min(total)
        return best

    def _term_tail(self, parts: list[Any], side: int, n: int) -> Any:
        height = arb(0)
        for exponent, law, i in parts:
            height += exponent * law.term(i, arb(side * n))
        if any(law.exprs[i].has(besseli) for _, law, i in parts):
            ratio = self._bessel(parts, side, n)
            if ratio is None or not ratio < 1:
                raise Unknown("Bessel ratio")
            return height.exp() / (1 - ratio)
        orders = []
        for exponent, law, i in parts:
            key = id(law), i, side
            if key not in self._slopes:
                self._slopes[key] = slope(law.exprs[i].xreplace(exact(self.values)), self.x, side)
            y, derivative = self._slopes[key]
            order = AtInfinity(y, arb(n)).order(derivative)
            orders.append(type(order)(order.k, order.a, order.f * exponent))
        return height.exp() * sum_factor(AtInfinity(y, arb(n)).add(orders), arb(n))

    def _bessel(self, parts: list[Any], side: int, n: int) -> Any:
        """Bound on the ratio of neighbours where every term is log I_order(c)."""
        found = []
        for exponent, law, i in parts:
            inner = law.exprs[i]
            if not isinstance(inner, log) or not isinstance(inner.args[0], besseli):
                raise Unknown("a Bessel function beside others")
            order, argument = inner.args[0].args
            order = (order if order.coeff(self.x) * side > 0 else -order).subs(self.x, 0)
            shift = -expressions.constant(order, self.values)
            found.append((exponent, shift, expressions.constant(argument, self.values)))
        if len(found) == 1:
            found.append((arb(0), found[0][1], found[0][2]))
        (a, s, c), (b, t, _) = found
        return bessel_ratio_bound(c, (s, t), (a, b), n)
