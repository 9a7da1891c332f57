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
from functools import lru_cache, reduce
from types import CodeType
from typing import Any, cast

from flint import acb, arb
from sympy import Add, And, Basic, Expr, Mul, Not, Or, Piecewise, Pow, S, Sum, Symbol, cosh, exp
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


def softplus(u: Any, analytic: bool) -> Any:
    """Log(1 + exp(u)), on the right as u + log(1 + exp(-u)), the same function without its cuts.

    The logarithm is cut where exp(u) is real and below -1, next to the line at every odd multiple
    of pi; what is integrated along the real line is not.
    """
    if (u.real if isinstance(u, acb) else u).mid() > 0:
        return u + log_of((-u).exp() + 1, analytic)
    return log_of(u.exp() + 1, analytic)


def log_cosh(u: Any, analytic: bool) -> Any:
    """Log of cosh, which overflows where its log does not."""
    return u + softplus(-2 * u, analytic) - arb(2).log()


Ball = Any  # arb or acb
Function = Callable[[Ball, bool], Ball]
Values = Mapping[Symbol, Any]
Total = Callable[[Expr, Symbol, Values, list[Any]], Any]


def nan_like(x: Ball) -> Ball:
    """The ball that knows nothing."""
    return acb(math.nan, math.nan) if isinstance(x, acb) else arb.nan()


class Compiler:
    """Writes expressions as functions of Python, which hold balls and call what Arb has.

    `total` adds up a constant sum (`mechc.verify.balls.expressions`); without it sums are refused.
    """

    def __init__(self, variable: Symbol | None, values: Values, total: Total | None = None) -> None:
        """Compile in `variable` and the symbols of `values`."""
        self.variable, self.values, self.total = variable, values, total

    def ball(self, expr: Basic) -> Any:
        """Ball around the value of an expression without variable."""
        return Compiler(None, self.values, self.total).compile(expr)(arb(0), False)

    def compile(self, expr: Basic) -> Function:
        """The expression as a function of a ball and the `analytic` flag."""
        return _Lines(self).function(expr)

    def moves(self, expr: Basic) -> bool:
        """Whether a function has to work it out; what is left is one ball."""
        return self.variable is None or bool(expr.has(self.variable))

    def choice(self, expr: Piecewise) -> Function:
        """The piece whose condition holds, the union of all that a ball does not exclude."""
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

    def sum(self, expr: Sum) -> Any:
        """A constant sum, its infinite tails bounded by the ratio of neighbouring summands."""
        if isinstance(expr, QuadratureSum):
            return self.values[expr.integral]
        index, lo, hi = expr.limits[0]
        inner = self.variable is not None and expr.has(self.variable)
        if len(expr.limits) > 1 or inner or self.total is None:
            raise UnsupportedError(f"no ball form of {expr}")
        ends = [self.ball(lo), self.ball(hi)]
        return self.total(expr.function, index, self.values, ends)


class _Lines:
    """The text of one function: a line for each subexpression, however often it stands there.

    It consists of names made here, of operators and of integers; nothing of a declaration's text.
    """

    def __init__(self, compiler: Compiler) -> None:
        """Begin with the variable."""
        self.compiler, self.lines = compiler, list[str]()
        self.places: dict[Any, str] = {compiler.variable: "x"}
        self.held: dict[str, Any] = {"log_of": log_of, "log_erfc": log_erfc, "power": power,
                                     "softplus": softplus, "log_cosh": log_cosh}  # fmt: skip

    def function(self, expr: Any) -> Function:
        """The function, once its lines are written."""
        last = f"return {self.place(expr)}"
        exec(_code("\n ".join(["def made(x, analytic):", *self.lines, last])), self.held)
        return cast(Function, self.held["made"])

    def place(self, expr: Any) -> str:
        """The name of a value."""
        if expr not in self.places:
            text = self._text(expr)
            if not text.isidentifier():
                self.lines.append(f"t{len(self.lines)} = {text}")
                text = f"t{len(self.lines) - 1}"
            self.places[expr] = text
        return self.places[expr]

    def hold(self, value: Any) -> str:
        """The name of something that is known."""
        name = f"c{len(self.held)}"
        self.held[name] = value
        return name

    def _text(self, expr: Any) -> str:
        if isinstance(expr, Symbol):
            return self.hold(self.compiler.values[expr])
        if expr.is_Number or expr.is_NumberSymbol:
            return self.hold(number(expr))
        if not self.compiler.moves(expr):
            return self.hold(self.compiler.ball(expr))
        if isinstance(expr, (Add, Mul)):
            return self._join(expr)
        if isinstance(expr, Pow):
            return self._power(expr)
        if isinstance(expr, Piecewise):
            return f"{self.hold(self.compiler.choice(expr))}(x, analytic)"
        if isinstance(expr, Sum):
            return self.hold(self.compiler.sum(expr))
        return self._apply(expr)

    def _join(self, expr: Add | Mul) -> str:
        """A sum or a product."""
        sign, join = ("+", operator.add) if isinstance(expr, Add) else ("*", operator.mul)
        places = [self.place(a) for a in expr.args if self.compiler.moves(a)]
        if fixed := [self.compiler.ball(a) for a in expr.args if not self.compiler.moves(a)]:
            # on the right: a real ball times a complex one takes ten times as long
            places.append(self.hold(reduce(join, fixed)))
        return f" {sign} ".join(places)

    def _power(self, expr: Pow) -> str:
        if expr.base is S.Exp1:
            return f"{self.place(expr.exp)}.exp()"
        base = self.place(expr.base)
        if expr.exp.is_Integer:
            return f"{base} ** {int(expr.exp)}"
        exponent = self.place(expr.exp)
        if expr.exp.has(self.compiler.variable or S.NaN):
            return f"({exponent} * log_of({base}, analytic)).exp()"
        return f"power({base}, {exponent}, analytic)"

    def _apply(self, expr: Any) -> str:
        name = type(expr).__name__
        if name == "log" and (inside := argument_of_erfc(expr.args[0])) is not None:
            return f"log_erfc({self.place(inside)}, analytic)"
        if name == "log" and isinstance(above := expr.args[0] - 1, exp):
            return f"softplus({self.place(above.args[0])}, analytic)"
        if name == "log" and isinstance(expr.args[0], cosh):
            return f"log_cosh({self.place(expr.args[0].args[0])}, analytic)"
        if name in _METHODS:
            return f"{self.place(expr.args[0])}.{name}()"
        if name not in _FUNCTIONS:
            raise UnsupportedError(f"{name} has no ball form")
        places = ", ".join(self.place(a) for a in expr.args)
        return f"{self.hold(_FUNCTIONS[name])}({places}, analytic)"


@lru_cache(maxsize=1024)
def _code(text: str) -> CodeType:
    """The same for all parameter vectors."""
    return compile(text, "<balls>", "exec")


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


_METHODS = (  # of balls, analytic wherever they are finite
    "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sech", "csch", "coth", "erf", "erfc",
    "gamma",
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Ball]] = {  # of balls, and the `analytic` flag last
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
