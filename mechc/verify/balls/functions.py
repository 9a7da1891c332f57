"""SymPy expressions as functions on balls.

Input: an expression in one variable and exact values of its parameters. Output: a function of an
`arb` or `acb` ball that returns a ball which contains every value of the expression on it. With
`analytic` set, the result is non-finite unless the expression is analytic on the ball, which is
what rigorous quadrature asks for (Johansson 2018, "Numerical integration in arbitrary-precision
ball arithmetic").

Switches (Abs, Max, Min, sign, Piecewise) are followed on real balls only; where a ball does not
decide one, the union of both sides is returned. Subexpressions without the variable are evaluated
once. The complementary error function keeps its digits on wide balls and in tails.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from flint import acb, arb
from sympy import Add, And, Basic, Expr, Mul, Not, Or, Piecewise, Pow, S, Sum, Symbol
from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne, Relational
from sympy.logic.boolalg import BooleanAtom

from mechc.errors import UnsupportedError
from mechc.symbolic.functions import QuadratureSum, argument_of_erfc


def log_erfc(u: Any, analytic: bool) -> Any:
    """Log of erfc: -u^2 + log erfcx(u) on the right, log(2 - erfc(-u)) on the left."""
    if isinstance(u, acb):
        if u.real.mid() < 0:
            return (2 - (-u * u).exp() * _erfcx(-u)).log(analytic)
        return _erfcx(u).log(analytic) - u * u
    # it falls on the real line: its ends there bound it on wide balls
    ends = u.erfc().log()
    return ends if ends.is_finite() else u.lower().erfc().log().union(u.upper().erfc().log())


def erfc_rate(u: Any) -> Any:
    """exp(-u^2)/erfc(u) on a real ball: it rises."""
    ends = [(-e * e).exp() / e.erfc() for e in (u.lower(), u.upper())]
    return ends[0].union(ends[1])


def erfc_bend(u: Any) -> Any:
    """2/sqrt(pi) erfc_rate(u) - 2u on a real ball; for u >= 0 by bounds that fall (DLMF 7.8.2)."""
    if not u >= 0:
        return 2 / arb.pi().sqrt() * erfc_rate(u) - 2 * u
    bounds = ((u.lower(), arb(2)), (u.upper(), 4 / arb.pi()))
    highest, lowest = (c / (e + (e * e + c).sqrt()) for e, c in bounds)
    return lowest.union(highest)


def _erfcx(u: Any) -> Any:
    """exp(u^2) erfc(u) on a complex ball, by its value in the middle and a bound on its slope."""
    # From erfcx(u) = 2/sqrt(pi) int_0^oo exp(-t^2 - 2ut) dt, |erfcx'(u)| <= |erfcx'(a)| for every a
    # <= Re u, and erfcx'(a) = 2a erfcx(a) - 2/sqrt(pi).
    middle, lowest = u.mid(), u.real.lower()
    value = (middle * middle).exp() * middle.erfc()
    # an enclosure of the slope must not lose its digits to the difference: it is at most 1/a^2
    steepest = abs(2 * lowest * (lowest * lowest).exp() * lowest.erfc() - 2 / arb.pi().sqrt())
    if lowest > 1:
        steepest = steepest.min(1 / (lowest * lowest * arb.pi().sqrt()))
    reach = (abs(u - middle).upper() * steepest).upper()
    return value + acb(arb(0, reach), arb(0, reach))


Ball = Any  # arb or acb
Function = Callable[[Ball, bool], Ball]
Values = Mapping[Symbol, Any]
Total = Callable[[Expr, Symbol, Values, list[Any]], Any]


def nan_like(x: Ball) -> Ball:
    """The ball that knows nothing."""
    return acb(math.nan, math.nan) if isinstance(x, acb) else arb.nan()


class Compiler:
    """One walk over an expression; equal subexpressions share their closure.

    `total` adds up a constant sum (`mechc.verify.balls.expressions`); without it sums are refused.
    """

    def __init__(self, variable: Symbol | None, values: Values, total: Total | None = None) -> None:
        """Compile in `variable` and the symbols of `values`."""
        self.variable, self.values, self.total = variable, values, total
        self.known: dict[Basic, Function] = {}

    def ball(self, expr: Basic) -> Any:
        """Ball around the value of an expression without variable."""
        return self.compile(expr)(arb(0), False)

    def compile(self, expr: Basic) -> Function:
        """The expression as a function of a ball and the `analytic` flag."""
        if expr not in self.known:
            made = self._compile(expr)
            if self.variable is None or not expr.has(self.variable):
                value = made(arb(0), False)

                def made(x: Ball, analytic: bool, value: Any = value) -> Ball:
                    return value

            self.known[expr] = made
        return self.known[expr]

    def _compile(self, expr: Any) -> Function:
        if expr == self.variable:
            return lambda x, analytic: x
        if isinstance(expr, Symbol):
            value = self.values[expr]
            return lambda x, analytic: value
        if expr.is_Number or expr.is_NumberSymbol:
            value = number(expr)
            return lambda x, analytic: value
        if isinstance(expr, (Add, Mul)):
            return self._fold(expr, operator.add if isinstance(expr, Add) else operator.mul)
        if isinstance(expr, Pow):
            return self._power(expr)
        if isinstance(expr, Piecewise):
            return self._piecewise(expr)
        if isinstance(expr, Sum):
            value = self._sum(expr)
            return lambda x, analytic: value
        return self._apply(expr)

    def _fold(self, expr: Add | Mul, join: Callable[[Ball, Ball], Ball]) -> Function:
        """A sum or a product."""
        first, *rest = (self.compile(a) for a in expr.args)

        def fold(x: Ball, analytic: bool) -> Ball:
            total = first(x, analytic)
            for part in rest:
                total = join(total, part(x, analytic))
            return total

        return fold

    def _power(self, expr: Pow) -> Function:
        base = self.compile(expr.base)
        if expr.base is S.Exp1:
            exponent = self.compile(expr.exp)
            return lambda x, analytic: exponent(x, analytic).exp()
        if expr.exp.is_Integer:
            n = int(expr.exp)
            return lambda x, analytic: base(x, analytic) ** n
        exponent = self.compile(expr.exp)
        if expr.exp.has(self.variable or S.NaN):
            return lambda x, analytic: (
                exponent(x, analytic) * log_of(base(x, analytic), analytic)
            ).exp()
        return lambda x, analytic: power(base(x, analytic), exponent(x, False), analytic)

    def _piecewise(self, expr: Piecewise) -> Function:
        rows = [(self.compile(v), self.truth(c)) for v, c in expr.args]

        def choose(x: Ball, analytic: bool) -> Ball:
            found = None
            for value, condition in rows:
                true = condition(x)
                if true is False:
                    continue
                if true is None and analytic:
                    return nan_like(x)
                here = value(x, analytic)
                found = here if found is None else found.union(here)
                if true:
                    return found
            return nan_like(x) if found is None else found

        return choose

    def truth(self, condition: Basic) -> Callable[[Ball], bool | None]:
        """Whether a condition holds on a whole ball."""
        if isinstance(condition, BooleanAtom):
            value = bool(condition)
            return lambda x: value
        if isinstance(condition, (Lt, Le, Gt, Ge, Eq, Ne)):
            return self._relation(condition)
        parts = [self.truth(a) for a in condition.args]
        if isinstance(condition, Not):
            return lambda x: None if (v := parts[0](x)) is None else not v
        if isinstance(condition, (And, Or)):
            decisive = isinstance(condition, Or)

            def both(x: Ball) -> bool | None:
                found = [part(x) for part in parts]
                return decisive if decisive in found else None if None in found else not decisive

            return both
        raise UnsupportedError(f"no ball form of the condition {condition}")

    def _relation(self, condition: Relational) -> Callable[[Ball], bool | None]:
        left, right = (self.compile(side) for side in condition.args)
        kind = type(condition)

        def decide(x: Ball) -> bool | None:
            gap = left(x, False) - right(x, False)
            gap = gap.real if isinstance(gap, acb) else gap
            if kind in (Eq, Ne):
                same = True if gap.is_zero() else False if not gap.contains(0) else None
                return same if kind is Eq or same is None else not same
            above, below = (gap >= 0, gap < 0) if kind in (Ge, Lt) else (gap > 0, gap <= 0)
            if not above and not below:
                return None
            return bool(above) if kind in (Gt, Ge) else bool(below)

        return decide

    def _sum(self, expr: Sum) -> Any:
        """A constant sum, its infinite tails bounded by the ratio of neighbouring summands."""
        if isinstance(expr, QuadratureSum):
            raise UnsupportedError(
                "the constant of a shape is found by quadrature, without a proven error; state it "
                "in the declaration"
            )
        index, lo, hi = expr.limits[0]
        inner = self.variable is not None and expr.has(self.variable)
        if len(expr.limits) > 1 or inner or self.total is None:
            raise UnsupportedError(f"no ball form of {expr}")
        ends = [self.ball(lo), self.ball(hi)]
        return self.total(expr.function, index, self.values, ends)

    def _apply(self, expr: Any) -> Function:
        name = type(expr).__name__
        if name == "log" and (inside := argument_of_erfc(expr.args[0])) is not None:
            inner = self.compile(inside)
            return lambda x, analytic: log_erfc(inner(x, analytic), analytic)
        if name not in _FUNCTIONS:
            raise UnsupportedError(f"{name} has no ball form")
        function, (first, *rest) = _FUNCTIONS[name], [self.compile(a) for a in expr.args]
        if not rest:
            return lambda x, analytic: function(first(x, analytic), analytic)
        return lambda x, analytic: function(
            first(x, analytic), *(a(x, analytic) for a in rest), analytic
        )


def number(expr: Any) -> Any:
    """Ball around a SymPy number."""
    if expr is S.Infinity:
        return arb.pos_inf()
    if expr is S.NegativeInfinity:
        return arb.neg_inf()
    if expr.is_Rational:
        return arb(int(expr.p)) / int(expr.q)
    if expr is S.Pi:
        return arb.pi()
    if expr is S.Exp1:
        return arb(1).exp()
    if expr is S.EulerGamma:
        return arb.const_euler()
    raise UnsupportedError(f"no ball for the number {expr}")


def power(base: Ball, exponent: Any, analytic: bool) -> Ball:
    """Base ** exponent for a constant real exponent, also where the base touches zero."""
    if isinstance(base, arb):
        if base > 0:
            return (exponent * base.log()).exp()
        if exponent > 0 and base.upper() >= 0:
            top = base.upper()
            return arb(0).union((exponent * top.log()).exp()) if top > 0 else arb(0)
        return arb.nan()
    if base.real > 0 or not base.imag.contains(0):
        return (exponent * base.log(analytic)).exp()
    if analytic or not exponent > 0:
        return nan_like(base)
    size = base.abs_upper()
    if not size > 0:
        return acb(0)
    size = (exponent * size.log()).exp().upper()
    return acb(arb(0, size), arb(0, size))


def _method(name: str) -> Callable[..., Ball]:
    """A function that is analytic wherever it is finite."""
    return lambda u, analytic: getattr(u, name)()


def _switch(name: str, on_complex: str) -> Callable[[Ball, bool], Ball]:
    """A function that is not analytic everywhere, as Arb has it for real and for complex balls."""
    return lambda u, analytic: (
        getattr(u, name)() if isinstance(u, arb) else getattr(u, on_complex)(analytic)
    )


log_of = _switch("log", "log")


def _right(function: Callable[..., Ball]) -> Callable[..., Ball]:
    """A function whose last argument is cut along the negative numbers."""

    def apply(*args: Any) -> Ball:
        *balls, analytic = args
        if isinstance(balls[-1], acb) and analytic and not balls[-1].real > 0:
            return nan_like(balls[-1])
        return function(*balls)

    return apply


def _inverse_function(name: str) -> Callable[[Ball, bool], Ball]:
    def apply(u: Ball, analytic: bool) -> Ball:
        if isinstance(u, acb) and analytic and not (u.abs_upper() < 1 or u.imag.is_zero()):
            return nan_like(u)
        return getattr(u, name)()

    return apply


def _heaviside(u: Ball, half: Ball, analytic: bool) -> Ball:
    if isinstance(u, arb):
        return arb(1) if u > 0 else arb(0) if u < 0 else arb(0).union(arb(1))
    return u.real_heaviside(analytic)


def _extreme(name: str) -> Callable[..., Ball]:
    def apply(*args: Any) -> Ball:
        *balls, analytic = args
        if any(isinstance(b, acb) for b in balls):
            found = acb(balls[0])
            for b in balls[1:]:
                found = getattr(found, f"real_{name}")(acb(b), analytic)
            return found
        found = balls[0]
        for b in balls[1:]:
            found = getattr(found, name)(b)
        return found

    return apply


def bessel_i(order: Ball, u: Ball, analytic: bool = False) -> Ball:
    """I_n(u); for integers I_{-n} = I_n, and there is no cut."""
    if isinstance(order, arb) and order.is_integer():
        return u.bessel_i(abs(order))
    return _right(lambda n, at: at.bessel_i(n))(order, u, analytic)


_bessel_k = _right(lambda order, u: u.bessel_k(order))


def _binomial(n: Ball, k: Ball, analytic: bool) -> Ball:
    return (n + 1).gamma() * (k + 1).rgamma() * (n - k + 1).rgamma()


def _erf_gap(u: Ball, h: Ball) -> Ball:
    """erf(u + h) - erf(u - h), from the side where it is a difference of tails."""
    right = (u.real if isinstance(u, acb) else u).mid() >= 0
    return (u - h).erfc() - (u + h).erfc() if right else (-u - h).erfc() - (h - u).erfc()


def _atan2(y: Ball, x: Ball, analytic: bool) -> Ball:
    if isinstance(x, arb) and isinstance(y, arb):
        return arb.atan2(y, x)
    if not y.real > 0:  # as in mechc.symbolic.functions
        return nan_like(acb(y))
    atan, half = _inverse_function("atan"), arb.pi() / 2
    if not abs(x).mid() > abs(y).mid():
        return half - atan(x / y, analytic)
    return atan(y / x, analytic) + (0 if x.real.mid() > 0 else 2 * half)


_FUNCTIONS: dict[str, Callable[..., Ball]] = {  # of balls, and the `analytic` flag last
    **{name: _method(name) for name in (
        "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sech", "csch", "coth", "erf", "erfc",
        "gamma")},
    "floor": _switch("floor", "real_floor"), "ceiling": _switch("ceil", "real_ceil"),
    "log": log_of, "loggamma": _right(lambda u: u.lgamma()), "log_erfc": log_erfc,
    "atan": _inverse_function("atan"), "asinh": _inverse_function("asinh"), "atan2": _atan2,
    "Abs": _switch("__abs__", "real_abs"), "sign": _switch("sgn", "real_sgn"),
    "Heaviside": _heaviside, "Max": _extreme("max"), "Min": _extreme("min"),
    "clamped": lambda c, a, b, analytic: _extreme("max")(
        a, _extreme("min")(c, b, analytic), analytic),
    "besseli": bessel_i,
    "besselk": _bessel_k,
    "log_besselk": lambda n, z, analytic: log_of(_bessel_k(n, z, analytic), analytic),
    "log_erf_gap": lambda u, h, analytic: log_of(_erf_gap(u, h), analytic),
    "zeta": lambda s, *rest: s.zeta(*rest[:-1]),
    "binomial": _binomial, "factorial": lambda u, analytic: (u + 1).gamma(),
    "erfc_rate": lambda u, analytic: erfc_rate(u), "erfc_bend": lambda u, analytic: erfc_bend(u),
}  # fmt: skip
