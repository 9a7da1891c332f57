"""What may be used in a proof: parameter domains, the interval of the variable, the case at hand.

Every domain is encoded by free positive symbols (q in (0, 1) is 1/(1+r), a > b is a = b + r), so
that a sum whose monomials have one sign has that sign everywhere. Domains mean their interiors:
what holds strictly inside holds weakly at the ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy import Add, Basic, Dummy, Expr, S, Symbol, oo
from sympy.core.relational import Eq, Ge, Gt, Le, Lt

from mechc.symbolic.evaluate import Values, evaluate_array
from mechc.symbolic.functions import clamped
from mechc.symbolic.rewrite import fraction

if TYPE_CHECKING:
    from mechc.symbolic.parameters import Parameter


class Undecided(Exception):
    """No rule signs `expr`."""

    def __init__(self, expr: Expr) -> None:
        """Remember the factor that was not decided."""
        super().__init__(expr)
        self.expr = expr

    def __str__(self) -> str:
        """The expression in words, which takes longer to write than most signs to find."""
        return f"sign of {self.expr}"


SAMPLES = 48  # parameter vectors at which an open sign is looked at
_PLACES = 12  # places of the variable for each of them


@dataclass(frozen=True)
class Facts:
    """What may be used in a proof.

    Attributes:
        encoding: symbols to expressions in positive dummies (or real ones) that cover the domain.
        known: pairs (expression, sign) assumed in this case.
        variable: the variable, if it is encoded.
        interval: the ends that it lies beyond, and those that it lies before.
    """

    encoding: tuple[tuple[Symbol, Expr], ...] = ()
    known: tuple[tuple[Expr, int], ...] = ()
    variable: Symbol | None = None
    interval: tuple[tuple[Expr, ...], tuple[Expr, ...]] = ((-oo,), (oo,))

    def encode(self, expr: Expr) -> Expr:
        """The expression with every symbol replaced by its free encoding."""
        for symbol, value in self.encoding:
            expr = expr.subs(symbol, value)
        return expr

    def whole(self, expr: Expr) -> Expr:
        """As `encode`, with the ends, where symbols run through the integers from one on."""
        for symbol, value in self.encoding:
            rest = value.as_coeff_Add()[1]
            free = next((v for v in (rest, -rest) if isinstance(v, Dummy)), None)
            if symbol.is_integer and free is not None:
                value = value.subs(free, Dummy("n", integer=True, nonnegative=True))
            expr = expr.subs(symbol, value)
        return expr

    def assume(self, expr: Expr, sign: int) -> Facts:
        """Facts with one more sign; a linear one is also encoded."""
        facts = replace(self, known=(*self.known, (expr, sign)))
        if sign == 0:
            return facts
        solved = _solved(expr * sign)
        return replace(facts, encoding=(solved, *facts.encoding)) if solved else facts

    @lru_cache(maxsize=1024)  # noqa: B019  as `facts_of`
    def within(self, x: Symbol, lo: Expr, hi: Expr) -> Facts:
        """Facts that also know lo < x < hi."""
        lows, highs = candidates(S(lo), S(hi))
        return self.above(highs, lows)._between(x, lows, highs)

    def above(self, larger: Iterable[Expr], smaller: Iterable[Expr]) -> Facts:
        """Facts that also know that some expressions exceed others."""
        facts = self
        for gap in (sp.expand(high - low) for low in smaller for high in larger if high != low):
            known = gap.is_positive or gap.is_finite is False or (gap, 1) in facts.known
            facts = facts if known else facts.assume(gap, 1)
        return facts

    def _between(self, x: Symbol, lows: tuple[Expr, ...], highs: tuple[Expr, ...]) -> Facts:
        """Facts that also know that x lies between all of some ends and all of others."""
        facts = self
        lo, hi = lows[0], highs[0]
        step = Dummy("t", positive=True)
        if lo is -oo and hi is oo:
            value: Expr = Dummy("t", real=True)
        elif hi is oo:
            value = lo + step
        elif lo is -oo:
            value = hi - step
        else:
            value = (lo + hi * step) / (1 + step)
        beyond = (*(x - low for low in lows[1:]), *(high - x for high in highs[1:]))
        return replace(facts, known=(*facts.known, *((gap, 1) for gap in beyond)),
                       encoding=((x, value), *facts.encoding), variable=x,
                       interval=(lows, highs))  # fmt: skip

    @property
    def condition(self) -> Basic:
        """What is assumed in this case, as a condition on the parameters; it includes the ends."""
        return sp.And(*(Gt(e, 0) if sign > 0 else Le(e, 0) for e, sign in self.known))

    def moving(self, expr: Expr) -> set[Symbol]:
        """Symbols that vary while the parameters stand still: the variable's and generators."""
        if not self.encoding or self.variable is None:
            return set()
        still = [value.free_symbols for symbol, value in self.encoding if symbol != self.variable]
        dummies = expr.free_symbols.union(
            *(value.free_symbols for symbol, value in self.encoding if symbol == self.variable)
        )
        return {s for s in dummies if isinstance(s, Dummy)}.difference(*still)

    def stretched(self, x: Symbol, shift: Expr, forward: int) -> Facts:
        """Facts whose interval also holds x + shift for every x in it (forward: sign of shift)."""
        lows, highs = self.interval
        outside = replace(self, encoding=tuple(e for e in self.encoding if e[0] != x),
                          known=tuple(k for k in self.known if not k[0].has(x)))  # fmt: skip
        if forward < 0:
            return outside._between(x, tuple(low + shift for low in lows), highs)
        return outside._between(x, lows, tuple(high + shift for high in highs))


def candidates(lo: Expr, hi: Expr) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The ends, the largest and the smallest of which bound an interval where it is not empty."""
    return _overtaken(lo, 1), _overtaken(hi, -1)


def is_certain(lo: Expr, hi: Expr) -> bool:
    """Whether an interval is between two ends, and surely not empty."""
    return not lo.has(clamped) and not hi.has(clamped)


def _overtaken(end: Expr, side: int) -> tuple[Expr, ...]:
    """An end, and those that it is clamped by on its own side."""
    constant, rest = end.as_coeff_Add()
    if not isinstance(rest, clamped):
        return (end,)
    cut, *limits = rest.args
    limit = limits[0 if side > 0 else 1]
    others = () if limit.is_infinite else _overtaken(limit, side)
    beyond = [o for o in others if not (side * (cut - o)).is_nonnegative]
    inside = any((side * (o - cut)).is_nonnegative for o in beyond)
    return tuple(end + constant for end in (*(() if inside else (cut,)), *beyond))


@lru_cache(maxsize=256)  # so that the same question twice gets the same symbols
def facts_of(parameters: tuple[Parameter, ...], condition: Basic = S.true) -> Facts:
    """Facts of the domains and of a conjunction of relations; other Booleans are ignored."""
    inside = ((p.symbol, _interior(p)) for p in parameters)
    facts = Facts(tuple((symbol, shape) for symbol, shape in inside if shape != symbol))
    parts = condition.args if isinstance(condition, sp.And) else (condition,)
    for part in parts:
        if isinstance(part, (Gt, Ge)):
            facts = facts.assume(part.lhs - part.rhs, 1)
        elif isinstance(part, (Lt, Le)):
            facts = facts.assume(part.rhs - part.lhs, 1)
        elif isinstance(part, Eq):
            facts = facts.assume(part.lhs - part.rhs, 0)
    return facts


def exact_end(value: float) -> Expr:
    """The end of a domain as an exact number."""
    if math.isinf(value):
        return oo if value > 0 else -oo
    return sp.Integer(int(value)) if value == int(value) else sp.Rational(repr(value))


def _interior(parameter: Parameter) -> Expr:
    """An expression that runs through the inside of a domain; its ends are limits of that."""
    lo, hi = exact_end(parameter.lo), exact_end(parameter.hi)
    symbol = parameter.symbol
    free = Dummy(f"r_{symbol.name}", positive=True)
    if lo.is_infinite:
        return symbol if hi.is_infinite else hi - free
    if hi.is_infinite:
        return symbol if lo == 0 and symbol.is_positive else lo + free
    if lo == 0:
        return hi / (1 + free)
    return (lo + hi * free) / (1 + free)


def _solved(positive: Expr) -> tuple[Symbol, Expr] | None:
    """From c*a - b > 0 with a a symbol: a = (b + r)/c; from b - c*a > 0: a = b/(c*(1 + r))."""
    for symbol in sorted(positive.free_symbols, key=str):
        c = sp.expand(positive).coeff(symbol)
        rest = sp.expand(c * symbol - positive)
        if (
            c.has(symbol)
            or c.is_zero
            or c.is_positive is None
            or rest.has(symbol)
            or rest.is_nonnegative is None
        ):
            continue
        free = Dummy(f"r_{symbol.name}", positive=True)
        if c.is_positive and rest.is_nonnegative:
            return symbol, rest / c + free
        if c.is_negative and rest.is_negative and symbol.is_positive:
            return symbol, rest / c / (1 + free)
    return None


@lru_cache(maxsize=4096)
def gaps_of(symbol: Expr, value: Expr) -> tuple[Expr, ...]:
    """What is positive by the encoding of a symbol: it lies between the values at both ends."""
    free = [s for s in value.free_symbols if isinstance(s, Dummy) and s.is_positive]
    if len(free) != 1:
        return () if isinstance(value, Dummy) else (S.NaN,)
    top, bottom = (sp.Poly(part, free[0]) for part in fraction(value))
    first = top.nth(0) / bottom.nth(0)
    if top.degree() > bottom.degree():
        rises = top.LC() / bottom.LC()
        side = 1 if rises.is_positive else -1 if rises.is_negative else 0
        return (side * (symbol - first),) if side else (S.NaN,)
    last = top.nth(bottom.degree()) / bottom.LC()
    rises = sp.expand(last - first)
    side = 1 if rises.is_positive else -1 if rises.is_negative else 0
    return (side * (symbol - first), side * (last - symbol)) if side else (S.NaN,)


def eliminations(condition: Basic) -> dict[Symbol, Expr]:
    """Parameters that the equations in a condition express by others (a linear one by each)."""
    found: dict[Symbol, Expr] = {}
    for part in condition.args if isinstance(condition, sp.And) else (condition,):
        if isinstance(part, Eq):
            difference = sp.expand((part.lhs - part.rhs).subs(found))
            for symbol in sorted(difference.free_symbols, key=str):
                slope = difference.coeff(symbol)
                rest = sp.expand(difference - slope * symbol)
                if slope.is_nonzero and not slope.has(symbol) and not rest.has(symbol):
                    found[symbol] = sp.expand(-rest / slope)
                    break
    return found


def alternatives(expr: Expr) -> list[tuple[Basic, int]]:
    """Expr > 0, expr = 0, expr < 0, written as a comparison of two sums without minus signs."""
    terms = Add.make_args(sp.expand(expr))
    left = Add(*(t for t in terms if not t.could_extract_minus_sign()))
    right = Add(*(-t for t in terms if t.could_extract_minus_sign()))
    return [(Gt(left, right), 1), (Eq(left, right), 0), (Gt(right, left), -1)]


def by_case(values: Sequence[tuple[Basic, Expr]]) -> Expr:
    """One expression for values that hold under different conditions, which cover the domain."""
    if len({value for _, value in values}) == 1:
        return values[0][1]
    return sp.Piecewise(*((value, condition) for condition, value in values))


def sampled(
    expr: Expr, facts: Facts, at: Callable[[Expr, Values], NDArray[Any]] = evaluate_array
) -> NDArray[np.float64]:
    """An expression, or what `at` makes of it, at vectors (rows) and places; nan: not known."""
    unbound = expr.free_symbols.union(*(e.free_symbols for e, _ in facts.known))
    unbound = unbound.union(*(value.free_symbols for _, value in facts.encoding))
    values: dict[Symbol, Any] = {}
    generator = np.random.default_rng(20)
    moving = facts.moving(expr)
    for symbol in sorted(unbound, key=lambda s: s.sort_key()):
        shape = (1, _PLACES) if symbol in moving else (SAMPLES, 1)
        sample = generator.normal(scale=1.5, size=shape)
        values[symbol] = np.exp(sample) if symbol.is_nonnegative else sample
    try:
        for symbol, value in reversed(facts.encoding):
            values[symbol] = evaluate_array(value, values)
        found = at(expr, values)
        # a symbol that is encoded by an assumption is still in its domain
        last = dict(reversed(facts.encoding))
        domains = ((gap, 1) for symbol, value in facts.encoding if value is not last[symbol]
                   for gap in gaps_of(symbol, value) if gap is not S.NaN)  # fmt: skip
        for known, value in (*facts.known, *domains):
            with np.errstate(invalid="ignore"):  # infinite values, encoded ends, are not known
                found = np.where(evaluate_array(known, values) * value > 0, found, np.nan)
        return np.broadcast_to(found, np.broadcast_shapes(found.shape, (SAMPLES, 1)))
    except (AttributeError, KeyError, TypeError, NotImplementedError):  # KeyError: bound variables
        return np.full((SAMPLES, 1), np.nan)
