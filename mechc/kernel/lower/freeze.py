"""SymPy expression in, KernelIR expression out: a whitelist.

Invariant: what comes out computes the same real (or complex) function as what went in; an
expression that has no kernel form raises `LoweringError` and is never approximated. Nothing is
made stable here except what SymPy still knows by name (log of a gamma function, a Bessel function
or erfc); the passes see to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import sympy
from sympy import Basic, Expr, Symbol, log
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean, BooleanFunction

from mechc.calculus.terms import Term
from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.ir import Series
from mechc.kernel.lower.forms import (
    exp_difference,
    log_erfcx,
    log_ratio,
    power_difference,
    scaled_tails,
)
from mechc.kernel.passes import finish
from mechc.symbolic.functions import (
    atan2,
    clamped,
    expm1c,
    log_besselk,
    log_erf_gap,
    log_mix,
    sinhc,
)
from mechc.symbolic.rewrite import expanded_log, log_of_product

FUNCTIONS: dict[type[Basic], str] = {
    sympy.exp: "exp", sympy.log: "log", sympy.sin: "sin", sympy.cos: "cos", sympy.tan: "tan",
    sympy.sinh: "sinh", sympy.cosh: "cosh", sympy.tanh: "tanh", sympy.asinh: "asinh",
    sympy.acosh: "acosh", sympy.atanh: "atanh", sympy.atan: "atan", sympy.asin: "asin",
    sympy.acos: "acos", sympy.erf: "erf", sympy.erfc: "erfc", sympy.gamma: "gamma",
    sympy.loggamma: "lgamma", sympy.Abs: "fabs", sympy.floor: "floor", sympy.ceiling: "ceil",
    log_mix: "log_mix", log_ratio: "log_ratio", power_difference: "power_difference",
    log_erfcx: "log_erfcx", log_erf_gap: "log_erf_gap", atan2: "atan2", sinhc: "sinhc",
    expm1c: "expm1c", exp_difference: "exp_difference",
}  # fmt: skip

RECIPROCALS: dict[type[Basic], type[Basic]] = {
    sympy.sech: sympy.cosh, sympy.csch: sympy.sinh, sympy.coth: sympy.tanh, sympy.sec: sympy.cos,
    sympy.csc: sympy.sin, sympy.cot: sympy.tan,
}  # fmt: skip

OWN = (log_besselk, *(f for f in FUNCTIONS if f.__module__.startswith("mechc.")))
HELPERS = (sympy.Sum, *OWN)
"""What SymPy cannot evaluate, even where no symbol is left in it."""

COMPARISONS: dict[type[Basic], str] = {
    sympy.StrictLessThan: "<", sympy.LessThan: "<=", sympy.StrictGreaterThan: ">",
    sympy.GreaterThan: ">=", sympy.Equality: "==", sympy.Unequality: "!=",
}  # fmt: skip


POSITIVE = sympy.exp, sympy.factorial, sympy.binomial  # and powers of what is positive


@dataclass
class Helpers:
    """Series met while freezing; each becomes one function of the module.

    Attributes:
        found: the helpers in the order in which they must be emitted.
    """

    found: list[Series] = field(default_factory=list)
    _names: dict[Expr, str] = field(default_factory=dict)

    def name(self, expr: Expr, build: Callable[[str], Series]) -> str:
        """The name of the helper for `expr`, built at the first request."""
        if expr not in self._names:
            # reserve the name first: building may meet further helpers
            name = f"sum_{len(self._names)}"
            self._names[expr] = name
            self.found.append(build(name))
        return self._names[expr]


@dataclass(frozen=True)
class Freezer:
    """Freezes expressions of one mechanism.

    Attributes:
        leaves: what each free symbol becomes.
        where: for error messages, the mechanism and the place, e.g. "laplace: loss on (0, 1)".
        helpers: collects series.
    """

    leaves: Mapping[Symbol, ir.Expr]
    where: str
    helpers: Helpers

    def at(self, where: str) -> Freezer:
        """The same freezer, reporting errors at another place."""
        return Freezer(self.leaves, where, self.helpers)

    def __call__(self, expr: Basic) -> ir.Expr:
        """Freeze an expression; a `LoweringError` for a node that has no kernel form."""
        if expr.is_Symbol:
            if expr not in self.leaves:
                raise self._refuse(expr, f"unknown symbol {expr}")
            return self.leaves[expr]
        if isinstance(expr, (Boolean, Relational, BooleanFunction)) and not expr.is_Symbol:
            return self._condition(expr)
        if not expr.free_symbols and not expr.has(*HELPERS):
            return self._constant(expr)
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return self._sum_or_product(expr)
        if isinstance(expr, sympy.Pow):
            even = expr.exp.is_even and not expr.exp.is_number and expr.base.is_real
            # whose log may be taken: a power that is even for every parameter forgets the sign
            return ir.Pow(self(sympy.Abs(expr.base) if even else expr.base), self(expr.exp))
        if isinstance(expr, sympy.log):
            return self._log_of(expr.args[0]) or ir.call("log", self(expr.args[0]))
        return self._function(expr)

    def _sum_or_product(self, expr: Expr) -> ir.Expr:
        is_sum = isinstance(expr, sympy.Add)
        join = ir.add if is_sum else ir.mul
        numbers = [arg for arg in expr.args if arg.is_number and not arg.has(*HELPERS)]
        others = [arg for arg in expr.args if arg not in numbers]
        # one constant, rounded once, in place of several
        parts = [self._constant(expr.func(*numbers))] if numbers else []
        return join(*parts, *map(self, sorted(others, key=sympy.default_sort_key)))

    def _cosine(self, angle: Expr) -> ir.Expr:
        """Cos(pi/2 * (a - b)/unit) keeps a difference apart, which may cancel next to a zero."""
        top, unit = sympy.fraction(sympy.together(2 * angle / sympy.pi))
        terms = sympy.Add.make_args(sympy.expand(top))
        if top.has(sympy.pi) or unit.has(sympy.pi) or len(terms) > 2 or not top.free_symbols:
            return ir.call("cos", self(angle))
        first, *rest = sorted(terms, key=lambda t: (t.could_extract_minus_sign(), str(t)))
        return ir.call("cos_quarters", self(first), self(-sympy.Add(*rest)), self(unit))

    def _function(self, expr: Basic) -> ir.Expr:
        if isinstance(expr, sympy.cos):
            return self._cosine(expr.args[0])
        if isinstance(expr, log_mix) and not expr.args[0].is_Symbol:
            rest = sympy.factor(1 - expr.args[0])
            if not isinstance(rest, sympy.Add):  # its digits are not those of 1 - weight
                return ir.call("log_mix_rest", *map(self, (rest, *expr.args)))
        name = FUNCTIONS.get(type(expr))
        if name is not None:
            return ir.call(name, *(self(arg) for arg in expr.args))
        if (known := self._log_of(expr)) is not None:
            return ir.call("exp", known)
        if (of := RECIPROCALS.get(type(expr))) is not None:
            return self(1 / of(*expr.args))
        match expr:
            case log_besselk():
                return self._log_bessel(sympy.besselk(*expr.args, evaluate=False))  # oo at 0
            case sympy.zeta():
                return ir.call("zeta", *map(self, (*expr.args, sympy.S.One)[:2]))
            case sympy.sign():
                return self(
                    sympy.Piecewise((1, expr.args[0] > 0), (-1, expr.args[0] < 0), (0, True))
                )
            case clamped():
                end, lo, hi = map(self, expr.args)
                for op, limit in (("<=", hi), (">=", lo)):
                    infinite = limit in (ir.INF, ir.MINUS_INF)
                    end = end if infinite else self._extreme(op, [end, limit])
                return end
            case sympy.Max() | sympy.Min():
                op = ">=" if isinstance(expr, sympy.Max) else "<="
                return self._extreme(op, [self(arg) for arg in expr.args])
            case sympy.Piecewise():
                return self._piecewise(expr)
            case sympy.Sum() if parts := _summands(expr):
                return self(sympy.Add(*parts))
            case sympy.Sum():
                return ir.Helper(self.helpers.name(expr, lambda name: self._series(name, expr)))
        raise self._refuse(expr, "no kernel form")

    def _constant(self, expr: Basic) -> ir.Expr:
        if isinstance(expr, sympy.Rational):
            return ir.number(Fraction(int(expr.p), int(expr.q)))
        if isinstance(expr, sympy.Float):
            raise self._refuse(expr, "an inexact literal; write a Rational")
        if expr is sympy.nan:
            return ir.NAN
        if expr is sympy.oo or expr is sympy.S.NegativeInfinity:
            return ir.INF if expr is sympy.oo else ir.MINUS_INF
        value = expr.evalf(40) if isinstance(expr, Expr) else expr
        if not value.is_real:
            raise self._refuse(expr, "not a real constant")
        return ir.Constant(str(expr), float(value))

    def _log_of(self, arg: Basic) -> ir.Expr | None:
        """Log of a function that overflows where its log does not."""
        match arg:
            case sympy.gamma():
                return ir.call("lgamma", self(arg.args[0]))
            case sympy.factorial():
                return ir.call("lgamma", self(arg.args[0] + 1))
            case sympy.binomial():
                return ir.call("log_binomial", *map(self, arg.args))
            case sympy.besseli() | sympy.besselk():
                return self._log_bessel(arg)
        return None

    def _log_bessel(self, arg: Expr) -> ir.Expr:
        """Log I_n(z) as z + log(exp(-z) I_n(z)), K_n likewise: the z often cancels."""
        order, z = map(self, arg.args)
        if isinstance(arg, sympy.besselk):
            return ir.add(ir.Neg(z), ir.call("log_besselk_scaled", order, z))
        if not (arg.args[0].is_integer or arg.args[0].is_nonnegative):
            raise self._refuse(arg, "the order is neither an integer nor known to be >= 0")
        return ir.add(z, ir.call("log_besseli_scaled", order, z))

    def _extreme(self, op: str, values: list[ir.Expr]) -> ir.Expr:
        best, *others = values
        for other in others:
            best = ir.Select(ir.Compare(op, best, other), best, other)
        return best

    def _piecewise(self, expr: Basic) -> ir.Expr:
        value: ir.Expr = ir.NAN
        for branch, condition in reversed(expr.args):
            held = condition is sympy.true
            value = self(branch) if held else ir.Select(self(condition), self(branch), value)
        return value

    def _condition(self, expr: Basic) -> ir.Expr:
        if expr is sympy.true or expr is sympy.false:
            return ir.Compare("==", ir.ONE, ir.ONE if expr is sympy.true else ir.ZERO)
        if type(expr) in COMPARISONS:
            return ir.Compare(COMPARISONS[type(expr)], *map(self, expr.args))
        match expr:
            case sympy.And() | sympy.Or():
                op = "and" if isinstance(expr, sympy.And) else "or"
                return ir.Logic(op, tuple(map(self, sorted(expr.args, key=str))))
            case sympy.Not():
                return ir.Logic("not", (self(expr.args[0]),))
        raise self._refuse(expr, "no kernel form as a condition")

    def _series(self, name: str, expr: sympy.Sum) -> Series:
        (index, lo, hi), *more = expr.limits
        everywhere = lo is sympy.S.NegativeInfinity and hi is sympy.oo
        if more or (lo.is_infinite and not everywhere):
            raise self._refuse(expr, "only sums over one index, from a first one on or over all")
        inner = Freezer({**self._parameters(), index: ir.Var("n")}, self.where, self.helpers)
        over = "all integers n" if everywhere else f"n = {lo}, ..., {hi}"
        doc = f"Sum over {over} of {expr.function.xreplace({index: Symbol('n')})}."
        ends = None if everywhere else (ir.Block((), self(lo)), ir.Block((), self(hi)))
        logs = log_of_product(expr.function, index)
        term = inner(expr.function) if logs is None else ir.call("exp", inner(logs))
        return Series(name, doc, finish(ir.Block((), term)), ends)

    def _parameters(self) -> dict[Symbol, ir.Expr]:
        return {s: leaf for s, leaf in self.leaves.items() if isinstance(leaf, ir.Param)}

    def _refuse(self, expr: Basic, reason: str) -> LoweringError:
        kind = type(expr).__name__
        return LoweringError(f"{self.where}: lowering cannot express {kind} in {expr}: {reason}")


def _summands(expr: sympy.Sum) -> list[Expr]:
    """Sums of positive terms that a sum is made of; one by one none hides a narrow one far out."""
    index = expr.limits[0][0]
    factor, varying = expr.function.as_independent(index, as_Add=False)
    terms = sympy.Add.make_args(varying)
    parts = [term.as_independent(index, as_Add=False) for term in terms]
    apart = len(parts) > 1 and not any(c.could_extract_minus_sign() for c, _ in parts)
    if not apart or not all(
        isinstance(f, POSITIVE) or f.as_base_exp()[0].is_positive
        for _, term in parts
        for f in sympy.Mul.make_args(term)
    ):
        return []
    return [expr.func(factor * term, *expr.args[1:]) for term in terms]


def log_of_terms(terms: tuple[Term, ...], variable: Symbol, freeze: Freezer) -> ir.Expr:
    """Log of the sum of terms, each kept in log space; -inf for the empty sum."""
    logs = [
        freeze(scaled_tails(expanded_log(log(t.weight)) + t.log_density, variable)) for t in terms
    ]
    if not logs:
        return ir.MINUS_INF
    total, *others = logs
    for other in others:
        total = ir.call("log_add", total, other)
    return total
