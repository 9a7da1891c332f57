"""One piece of a pair on balls: both laws between two ends, and bounds on what lies far out.

Beyond a place R the slope of log p^a q^b is enclosed for all y >= R at once
(mechc.verify.balls.infinity); powers of sums are taken apart by convexity first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from typing import Any

from flint import arb
from sympy import Expr, Symbol

from mechc.calculus.cases import Piece
from mechc.verify.balls import expressions
from mechc.verify.balls.density import Law
from mechc.verify.balls.infinity import (
    AtInfinity,
    Order,
    Unknown,
    integral_factor,
    slope,
    tail_terms,
)  # fmt: skip

WHOLE = (float("-inf"), float("inf"))


class Part(ABC):
    """P and Q between `lo` and `hi`."""

    def __init__(self, piece: Piece, x: Symbol, values: Any) -> None:
        """Bind the parameters, exact balls."""
        self.piece, self.x, self.values = piece, x, values
        self.lo, self.hi = (expressions.constant(e, values) for e in (piece.lo, piece.hi))
        self.p, self.q = Law(piece.p, x, values), Law(piece.q, x, values)
        self.plain = self  # the piece in the declared variable
        self._orders: dict[Any, Order] = {}

    @property
    def is_shared(self) -> bool:
        """Whether both laws have mass here."""
        return not (self.p.is_zero or self.q.is_zero)

    @cached_property
    def plateau(self) -> Any:
        """The loss where it is proved to be constant on the piece, else None."""
        return None

    @abstractmethod
    def mass(self, law: str, lo: float, hi: float) -> Any:
        """Mass of (lo, hi] on this piece under P (law "p") or Q."""

    def tail(self, a: Any, b: Any, side: int, y: Any) -> Any:
        """Bound on the integral (on a lattice: the sum) of p^a q^b beyond side * y."""
        n, m = (1 if e.is_zero() else len(law.exprs) for e, law in ((a, self.p), (b, self.q)))
        best, reason = None, "no bound"
        for terms in tail_terms(n, m, a, b):
            total = arb(0)
            try:
                for factor, i, j in terms:
                    rows = [row for row in ((a, self.p, i), (b, self.q, j)) if not row[0].is_zero()]
                    height = sum((e * law.term(k, side * y) for e, law, k in rows), start=arb(0))
                    total += factor * height.exp() * self.beyond(rows, side, y)
            except Unknown as error:
                reason = str(error)
                continue
            best = total.upper() if best is None else best.min(total.upper())
        if best is None:
            raise Unknown(reason)
        return best

    def beyond(self, rows: list[Any], side: int, y: Any) -> Any:
        """What the product of powers at side * y is multiplied by, from (exponent, law, term)."""
        orders = []
        for exponent, law, i in rows:
            variable, derivative = _slope(law.exprs[i], self.x, side)
            # orders do not depend on the exponents: every moment meets the same places
            if (key := (id(law), i, side, y.man_exp())) not in self._orders:
                numbers = expressions.exact(self.values)
                self._orders[key] = AtInfinity(variable, y).order(derivative.xreplace(numbers))
            order = self._orders[key]
            orders.append(Order(order.k, order.a, order.f * exponent))
        return integral_factor(AtInfinity(variable, y).add(orders), y)


@lru_cache(maxsize=64)
def _slope(log_density: Expr, x: Symbol, side: int) -> tuple[Symbol, Expr]:
    """One derivative for all parameter values."""
    return slope(log_density, x, side)
