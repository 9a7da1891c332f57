"""Expressions near infinity: orders e^(k y) y^a times a ball that holds for every y >= R.

Sums, products and powers of such orders give an enclosure of a derivative on a whole infinite
range, and with it rigorous tails: if phi'(y) <= -kappa y^(gamma-1) for all y >= R, then

    int_R^oo exp(phi)  <=  exp(phi(R)) T(kappa, gamma, R)

with T elementary. The integrand of a moment generating function is bounded by terms of that kind
after the sums in it have been taken apart by convexity (`tail_terms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import sympy as sp
from flint import arb
from sympy import Add, Expr, Function, Mul, Pow, S, Symbol, diff, exp, expand, log, pi, sqrt

from mechc.symbolic.functions import argument_of_erfc
from mechc.verify.balls.functions import Compiler


class Unknown(Exception):
    """The behaviour at infinity is out of reach of the rules here."""


class erfc_bend(Function):  # type: ignore[misc]
    """erfc_bend(u) = 2/sqrt(pi) erfc_rate(u) - 2u, positive for every u (DLMF 7.8.2)."""

    nargs = 1


class erfc_rate(Function):  # type: ignore[misc]
    """erfc_rate(u) = exp(-u**2)/erfc(u)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative in the argument."""
        return self * erfc_bend(self.args[0])


class log_erfc(Function):  # type: ignore[misc]
    """log_erfc(u) = log(erfc(u)), whose derivative is written with `erfc_rate`."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative in the argument."""
        return -2 / sqrt(pi) * erfc_rate(self.args[0])


@dataclass(frozen=True)
class Order:
    """e^(k y) y^a f, where the ball f is valid for all y >= R."""

    k: Expr
    a: Expr
    f: Any

    def rank(self, other: Order) -> int:
        """1, 0, -1: grows faster than `other`, as fast, slower."""
        for gap in (self.k - other.k, self.a - other.a):
            if gap != 0:
                if gap.is_positive:
                    return 1
                if gap.is_negative:
                    return -1
                raise Unknown(f"sign of {gap}")
        return 0


def _ball(expr: Expr) -> Any:
    return Compiler(None, {}).ball(expr)


class AtInfinity:
    """Evaluates expressions in y for all y >= R at once."""

    def __init__(self, y: Symbol, start: Any) -> None:
        """Evaluate in `y`, from the positive ball `start` on."""
        self.y, self.start = y, start.upper()
        self.known: dict[Expr, Order] = {}

    def order(self, expr: Expr) -> Order:
        """The order of an expression, or `Unknown`."""
        if expr not in self.known:
            self.known[expr] = self._order(expr)
        return self.known[expr]

    def _order(self, expr: Expr) -> Order:
        if not expr.has(self.y):
            return Order(S.Zero, S.Zero, _ball(expr))
        if expr == self.y:
            return Order(S.Zero, S.One, arb(1))
        if isinstance(expr, Add):
            return self.add([self.order(a) for a in expr.args])
        if isinstance(expr, Mul):
            parts = [self.order(a) for a in expr.args]
            f = arb(1)
            for part in parts:
                f = f * part.f
            return Order(Add(*(p.k for p in parts)), Add(*(p.a for p in parts)), f)
        if isinstance(expr, exp):
            return self._exp(expr.args[0])
        if isinstance(expr, log):
            return self._log(self.order(expr.args[0]))
        if isinstance(expr, Pow) and not expr.exp.has(self.y):
            return self._power(expr)
        return self._bounded(expr)

    def add(self, parts: list[Order]) -> Order:
        """The order of a sum: that of the fastest summand, the others folded into the ball."""
        best = parts[0]
        for part in parts[1:]:
            if part.rank(best) > 0:
                best = part
        f = arb(0)
        for part in parts:
            f = f + part.f * self.decay(part.k - best.k, part.a - best.a)
        return Order(best.k, best.a, f)

    def decay(self, k: Expr, a: Expr) -> Any:
        """Ball around e^(k y) y^a for all y >= R, where that is bounded."""
        if k == 0 and a == 0:
            return arb(1)
        at_start = (_ball(k) * self.start + _ball(a) * self.start.log()).exp()
        if k == 0 or a.is_nonpositive:
            return arb(0).union(at_start)
        peak = -_ball(a) / _ball(k)
        if peak < self.start:
            return arb(0).union(at_start)
        return arb(0).union((_ball(k) * peak + _ball(a) * peak.log()).exp())

    def value(self, order: Order) -> Any:
        """Ball around all values, for an order that does not grow."""
        if order.rank(Order(S.Zero, S.Zero, None)) > 0:
            raise Unknown("it grows")
        return order.f * self.decay(order.k, order.a)

    def _exp(self, argument: Expr) -> Order:
        argument = expand(argument)
        poly = argument.as_poly(self.y)
        if poly is not None and poly.degree() == 1:
            k, b = poly.all_coeffs()
            return Order(k, S.Zero, _ball(exp(b)))
        inner = self.order(argument)
        if inner.rank(Order(S.Zero, S.Zero, None)) <= 0:
            return Order(S.Zero, S.Zero, self.value(inner).exp())
        if inner.f < 0 and inner.k.is_nonnegative and inner.a.is_nonnegative:
            top = inner.f * (_ball(inner.k) * self.start).exp() * power_of(self.start, inner.a)
            return Order(S.Zero, S.Zero, arb(0).union(top.exp().upper()))
        raise Unknown(f"exponential of {argument}")

    def _log(self, inner: Order) -> Order:
        """Of k y + a log y + log f: y times a ball, as log y / y falls from y = e on."""
        if not inner.f > 0 or not (inner.k == inner.a == 0 or (inner.k != 0 and self.start > 3)):
            raise Unknown("a logarithm")
        if inner.k == 0:
            return Order(S.Zero, S.Zero, inner.f.log())
        beside = (inner.f.log(), _ball(inner.a) * self.start.log())
        return Order(S.Zero, S.One, sum((arb(0).union(v / self.start) for v in beside),
                                        start=_ball(inner.k)))  # fmt: skip

    def _power(self, expr: Pow) -> Order:
        base = self.order(expr.base)
        n = expr.exp
        if n.is_Integer:
            return Order(base.k * n, base.a * n, base.f ** int(n))
        if not base.f > 0:
            raise Unknown(f"{expr.base} may be negative")
        return Order(base.k * n, base.a * n, (_ball(n) * base.f.log()).exp())

    def _bounded(self, expr: Expr) -> Order:
        """A function of one argument that stays bounded, or of one that does."""
        if len(expr.args) != 1:
            raise Unknown(str(expr))
        inner = self.order(expr.args[0])
        name = type(expr).__name__
        if name == "erfc_rate":
            return self._erfc_rate(inner)
        if inner.rank(Order(S.Zero, S.Zero, None)) <= 0:
            method = getattr(self.value(inner), name, None)
            if method is None:
                raise Unknown(name)
            return Order(S.Zero, S.Zero, method())
        if name in ("sin", "cos"):
            return Order(S.Zero, S.Zero, arb(0, 1))
        rises = inner.a.is_nonnegative and not inner.f.contains(0)
        if name in ("tanh", "erf", "erfc", "atan") and rises:
            start = inner.f * power_of(self.start, inner.a)
            end = arb.pos_inf() if inner.f > 0 else arb.neg_inf()
            near, far = getattr(start, name)(), getattr(end, name)()
            return Order(S.Zero, S.Zero, near.union(far))
        raise Unknown(f"{name} at infinity")

    def _erfc_rate(self, u: Order) -> Order:
        """Bounds sqrt(pi)/2 (u + sqrt(u^2 + c)), 4/pi <= c <= 2, for u > 0 (DLMF 7.8.2, 7.8.3)."""
        if u.k != 0 or not u.a.is_positive:
            raise Unknown("erfc of an argument that is no power")
        smallest = u.f * power_of(self.start, u.a)
        if u.f < 0:
            return Order(S.Zero, S.Zero, arb(0).union((-(smallest**2)).exp().upper()))
        if not u.f > 0:
            raise Unknown("sign of the argument of erfc")
        c = (4 / arb.pi()).union(arb(2))
        grown = 1 + (1 + arb(0).union(c / smallest.lower() ** 2)).sqrt()
        return Order(S.Zero, u.a, arb.pi().sqrt() / 2 * u.f * grown)


def power_of(y: Any, a: Expr) -> Any:
    """y^a for a positive ball."""
    return (_ball(a) * y.log()).exp() if a != 0 else arb(1)


def slope(log_density: Expr, x: Symbol, side: int) -> tuple[Symbol, Expr]:
    """d/dy of a log density at x = side * y; parameters are numbers already."""
    y = Symbol("y", positive=True)
    f = with_log_erfc(log_density).xreplace({x: side * y})
    return y, diff(f.rewrite((sp.cosh, sp.sinh), exp), y)


def with_log_erfc(log_density: Expr) -> Expr:
    """The same with log(erfc(u)) as one function, whose derivatives keep their sign visible."""
    tails = {
        node: log_erfc(inside)
        for node in log_density.atoms(log)
        if (inside := argument_of_erfc(node.args[0])) is not None
    }
    return log_density.xreplace(tails)


def integral_factor(slope_: Order, start: Any) -> Any:
    """T with int_R^oo exp(phi) <= exp(phi(R)) T, from the order of phi'; `Unknown` at this R."""
    kappa, gamma = -slope_.f.upper(), slope_.a + 1
    if slope_.k != 0:
        if not slope_.k.is_positive:
            raise Unknown("slope vanishes exponentially")
        kappa = kappa * (_ball(slope_.k) * start).exp()
    if not kappa > 0:
        raise Unknown("not yet decreasing")
    if gamma == 0:
        if not kappa > 1:
            raise Unknown("decays too slowly")
        return start / (kappa - 1)
    if gamma.is_negative:
        raise Unknown("decays too slowly")
    if (gamma - 1).is_nonnegative:
        return 1 / (kappa * power_of(start, gamma - 1))
    # t = y^gamma; (t/t0)^m <= exp(m (t - t0)/t0)
    m, t0, rate = 1 / _ball(gamma) - 1, power_of(start, gamma), kappa / _ball(gamma)
    if not rate > m / t0:
        raise Unknown("start further out")
    return (m * t0.log()).exp() / _ball(gamma) / (rate - m / t0)


def tail_terms(n: int, m: int, big_a: Any, big_b: Any) -> list[list[tuple[Any, int, int]]]:
    """Bounds on (sum of n terms)^A (sum of m terms)^B: each a sum of (factor, i, j), a_i^A b_j^B.

    Convexity for exponents >= 1, subadditivity in [0, 1], any single term for exponents < 0.
    """
    first, second = _split(n, big_a), _split(m, big_b)
    return [
        [(f * g, i, j) for i in rows for j in columns]
        for (f, rows), (g, columns) in product(first, second)
    ]


def _split(n: int, exponent: Any) -> list[tuple[Any, list[int]]]:
    if n == 1:
        return [(arb(1), [0])]
    if exponent >= 1:
        return [(arb(n) ** (exponent - 1), list(range(n)))]
    if exponent >= 0:
        return [(arb(1), list(range(n)))]
    if exponent < 0:
        return [(arb(1), [i]) for i in range(n)]
    raise Unknown("sign of an exponent")
