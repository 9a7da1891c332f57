"""Asymptotic expansions: how a log density or a loss behaves at an end, parameters symbolic.

Input: an expression along y -> +oo; an end is approached with x = y, -y, lo + 1/y or hi - 1/y.
Output: a `Series` or its limit: finitely many c * exp(e*y) * y**a * log(y)**b * log(log(y))**d,
the largest first, with the orders of what was left out. Coefficients and exponents are expressions
in the parameters; orders are compared by proof (`signs.sign`).

This is a small transseries calculus in the manner of Gruntz's limit algorithm, but with one
exponential scale and with parameters: sums of exponentials under a logarithm are ruled by the
largest, erfc and gamma functions by their classical expansions (DLMF 7.12, 5.11, 10.19). Whatever
leaves this class, or cannot be compared, raises `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import NamedTuple, TypeVar

import sympy as sp
from sympy import Add, Dummy, Expr, Mul, Pow, S, Symbol, exp, log, oo

from mechc.symbolic.facts import Facts, Undecided
from mechc.symbolic.functions import argument_of_erfc, atan2, log_besselk, log_erf_gap, log_mix
from mechc.symbolic.rewrite import HYPERBOLIC, expanded_log, factored
from mechc.symbolic.signs import proved, sign

TERMS = 3  # terms kept of an infinite expansion, relative to its leading term
FEW = 1  # tried first: leading terms are all that a limit needs, unless they cancel
T = TypeVar("T")


class Unknown(Exception):
    """The expansion left the class of functions this module handles.

    Attributes:
        question: an expression in the parameters whose sign would have helped, if that was it.
    """

    def __init__(self, reason: str, question: Expr | None = None) -> None:
        """Remember the reason, and the open sign."""
        super().__init__(reason)
        self.question = question


class Order(NamedTuple):
    """exp(rate*y) * y**power * log(y)**logs * log(log(y))**iterated."""

    rate: Expr = S.Zero
    power: Expr = S.Zero
    logs: Expr = S.Zero
    iterated: Expr = S.Zero

    def __mul__(self, other: Order) -> Order:  # type: ignore[override]
        """Product of two scale functions."""
        return Order(*(sp.expand(a + b) for a, b in zip(self, other, strict=True)))

    def __pow__(self, exponent: Expr) -> Order:
        """Power of a scale function."""
        return Order(*(sp.expand(a * exponent) for a in self))

    def of(self, y: Symbol) -> Expr:
        """The scale function at y."""
        logs = log(y) ** self.logs * log(log(y)) ** self.iterated
        return exp(self.rate * y) * y**self.power * logs


ONE = Order()
LINEAR = Order(power=S.One)
VANISHING = Order(iterated=S.NegativeOne)
Terms = Sequence[tuple[Expr, Order]]


@dataclass(frozen=True)
class Series:
    """Sum of coefficient * order, the largest first; what was left out has one of `errors`."""

    terms: tuple[tuple[Expr, Order], ...]
    errors: tuple[Order, ...] = ()

    @property
    def lead(self) -> tuple[Expr, Order]:
        """The leading term."""
        if not self.terms:
            raise Unknown("everything cancels")
        return self.terms[0]


def orders(a: Series) -> tuple[Order, ...]:
    """Orders that together bound a series."""
    return (*(order for _, order in a.terms[:1]), *a.errors)


@lru_cache(maxsize=4096)
def _normal(coefficient: Expr) -> Expr:
    """Coefficient in a form in which zero is visible."""
    if coefficient.is_Number or coefficient.is_Symbol:
        return coefficient
    return factored(_expanded(coefficient))


def _expanded(expr: Expr) -> Expr:
    """Multiplied out, logarithms too unless that makes them complex."""
    return sp.expand(expanded_log(expr), log=False)


class Expansion:
    """Expansions along one symbol y -> +oo under given facts: their algebra, then functions."""

    def __init__(self, y: Symbol, facts: Facts, terms: int = TERMS) -> None:
        """Series in `y`, orders compared by `facts`, of so many terms."""
        self.y = y
        self.facts = facts
        self.terms = terms
        self._known: dict[Expr, Series | Unknown] = {}
        self._few = self if terms == FEW else Expansion(y, facts, FEW)

    def limit_of(self, series: Series) -> Expr:
        """Limit of a series."""
        coefficient, order = series.terms[0] if series.terms else (S.Zero, ONE)
        size = self.compare(order, ONE)
        if size > 0 and not self.swallowed(order, series.errors):
            return self.sign(coefficient) * oo
        if any(self.compare(error, ONE) >= 0 for error in series.errors):
            raise Unknown("limit of a truncated expansion")
        return coefficient if size == 0 else S.Zero

    def compare(self, a: Order, b: Order) -> int:
        """+1 if a grows faster than b, 0 if they are the same, -1 otherwise."""
        for left, right in zip(a, b, strict=True):
            difference = self.sign(left - right) if left != right else 0
            if difference:
                return difference
        return 0

    def sign(self, expr: Expr) -> int:
        """Sign of an expression in the parameters; Unknown where it is open."""
        try:
            return sign(expr, self.facts)
        except Undecided as question:
            raise Unknown(str(question), question.expr) from None

    def collect(self, terms: Terms, errors: tuple[Order, ...] = (), normal: bool = False) -> Series:
        """Merge equal orders, drop zeros and what an error swallows, put the largest first.

        `normal` coefficients are products of normal forms, which are zero only when merged.
        """
        merged: dict[Order, list[Expr]] = {}
        for coefficient, order in terms:
            if coefficient != 0:
                merged.setdefault(order, []).append(coefficient)
        kept = [
            (c[0] if normal and len(c) == 1 else _normal(Add(*c)), order)
            for order, c in merged.items()
            if not self.swallowed(order, errors)
        ]
        kept = [(c, order) for c, order in kept if c != 0]
        for index, (_, order) in enumerate(kept):
            if all(self.at_least(order, other) for _, other in kept if other is not order):
                twins = [o for _, o in kept if o is not order and self.at_least(o, order)]
                if twins:  # the same in other words, as a b/(a + b) and 1/(1/a + 1/b)
                    return self.collect([(c, order if o in twins else o) for c, o in kept], errors)
                return Series((kept[index], *kept[:index], *kept[index + 1 :]), errors)
        for _, order in kept[1:]:
            self.compare(kept[0][1], order)  # says which sign is open
        if kept:
            raise Unknown("the largest term depends on the parameters")
        return Series((), errors)

    def swallowed(self, order: Order, errors: tuple[Order, ...]) -> bool:
        """Whether a term of this order says nothing beside these errors."""
        return any(self.at_least(error, order) for error in errors)

    def at_least(self, order: Order, other: Order) -> bool:
        """Whether one order provably grows no slower than another."""
        try:
            return self.compare(order, other) >= 0
        except Unknown:
            return False

    def largest(self, errors: Iterable[Order]) -> tuple[Order, ...]:
        """The errors that no other provably covers."""
        kept: list[Order] = []
        for error in errors:
            if not self.swallowed(error, tuple(kept)):
                kept = [e for e in kept if not self.at_least(error, e)] + [error]
        return tuple(kept)

    def add(self, *parts: Series) -> Series:
        """Sum of series."""
        errors = self.largest(error for part in parts for error in part.errors)
        return self.collect([term for part in parts for term in part.terms], errors)

    def constant(self, value: Expr, *errors: Order) -> Series:
        """What does not depend on y, up to errors."""
        return self.collect([(value, ONE)], errors)

    def negative(self, a: Series) -> Series:
        """A series with its sign turned round."""
        return self.scale(a, S.NegativeOne)

    def multiply(self, a: Series, b: Series) -> Series:
        """Product of two series."""
        terms = [(c * d, m * n) for c, m in a.terms for d, n in b.terms]
        errors = [e * other for e in a.errors for other in orders(b)]
        errors += [e * other for e in b.errors for other in orders(a)]
        return self.collect(terms, self.largest(errors), normal=True)

    def scale(self, a: Series, coefficient: Expr, order: Order = ONE) -> Series:
        """A series times one exact term, whose coefficient shows whether it is zero."""
        return self.multiply(a, Series(((coefficient, order),)))

    def relative(self, a: Series) -> Series:
        """The rest of a series divided by its leading term."""
        coefficient, order = a.lead
        rest = Series(a.terms[1:], a.errors)
        return self.scale(rest, 1 / coefficient, order**S.NegativeOne)

    def compose(self, small: Series, coefficient: Callable[[int], Expr]) -> Series:
        """Sum over k of coefficient(k) * small**k for a series that tends to zero."""
        if not small.terms and not small.errors:
            return self.constant(coefficient(0))
        left_out = orders(small)[0] ** S(self.terms)
        total, power = Series(()), Series(((S.One, ONE),), (left_out,))
        for k in range(self.terms):
            total = self.add(total, self.scale(power, _normal(coefficient(k))))
            power = self.multiply(power, small)
        return self.collect(total.terms, self.largest((*total.errors, *orders(power))))

    def power(self, a: Series, exponent: Expr) -> Series:
        """A power that does not depend on y, by the binomial series of its relative part."""
        if exponent.is_Integer and 0 < exponent <= 8:
            return reduce(self.multiply, [a] * int(exponent))
        coefficient, order = a.lead
        if not exponent.is_Integer and self.sign(coefficient) < 0:
            raise Unknown("power of a negative quantity")
        rest = self.compose(self.relative(a), lambda k: sp.binomial(exponent, k).expand(func=True))
        return self.scale(rest, coefficient**exponent, order**exponent)

    def series(self, expr: Expr) -> Series:
        """Expand an expression in y; `Unknown` outside the class of functions handled."""
        if not expr.has(self.y):
            return self.constant(expr)
        if expr == self.y:
            return Series(((S.One, LINEAR),))
        found = self._known.get(expr)
        if found is None:
            try:
                found = self._series(expr)
            except Unknown as reason:
                found = reason
            self._known[expr] = found
        if isinstance(found, Unknown):
            raise found.with_traceback(None)  # which would grow, and hold on to its frames
        return found

    def _series(self, expr: Expr) -> Series:
        """Expand by the kind of an expression that holds y."""
        if isinstance(expr, Add):
            return self.add(*map(self.series, expr.args))
        if isinstance(expr, Mul):
            return reduce(self.multiply, map(self.series, expr.args))
        if isinstance(expr, Pow) and not expr.exp.has(self.y):
            return self.power(self.series(expr.base), expr.exp)
        if isinstance(expr, HYPERBOLIC):
            return self.series(expr.rewrite(exp))
        rule = _RULES.get(type(expr))
        return self._function(expr) if rule is None else rule(self, *expr.args)

    def limit(self, expr: Expr) -> Expr:
        """Limit of an expression as y -> +oo (+-oo allowed)."""
        return self.leading(lambda few: few.limit_of(few.series(expr)))

    def leading(self, seen: Callable[[Expansion], T]) -> T:
        """What leading terms show: from few terms, or from more where those do not tell."""
        try:
            return seen(self._few)
        except Unknown:
            if self._few is self:
                raise
            return seen(self)

    def _exp(self, exponent: Expr) -> Series:
        """Exp of linear, logarithmic, constant and vanishing parts, or of what falls faster."""
        a = self.series(exponent)
        if a.terms and self.compare(a.lead[1], LINEAR) > 0 and self.sign(a.lead[0]) < 0:
            return Series((), (Order(rate=S.NegativeOne),))
        factor_, order, small = S.One, ONE, []
        for coefficient, scale in a.terms:
            if scale == LINEAR:
                order = order * Order(rate=coefficient)
            elif scale == Order(logs=S.One):
                order = order * Order(power=coefficient)
            elif scale == Order(iterated=S.One):
                order = order * Order(logs=coefficient)
            elif scale == ONE:
                factor_ = exp(coefficient)
            elif self.compare(scale, ONE) < 0:
                small.append((coefficient, scale))
            else:
                raise Unknown("exponential of a nonlinear function")
        if any(self.compare(error, ONE) >= 0 for error in a.errors):
            raise Unknown("exponential of a truncated expansion")
        rest = self.compose(Series(tuple(small), a.errors), lambda k: 1 / sp.factorial(k))
        return self.scale(rest, factor_, order)

    def _log(self, a: Series) -> Series:
        coefficient, order = a.lead
        if order.iterated != 0:
            raise Unknown("logarithm of an iterated logarithm")
        if self.sign(coefficient) <= 0:
            raise Unknown("logarithm of a negative quantity")
        head = [
            (_expanded(log(coefficient)), ONE),
            (order.rate, LINEAR),
            (order.power, Order(logs=S.One)),
            (order.logs, Order(iterated=S.One)),
        ]
        tail = self.compose(
            self.relative(a), lambda k: S.Zero if k == 0 else -sp.Rational((-1) ** k, k)
        )
        return self.collect([*head, *tail.terms], tail.errors)

    def _log_of(self, argument: Expr) -> Series:
        """Log of a product term by term, of a sum by its dominant exponentials."""
        if not argument.has(self.y):
            if proved(argument, self.facts) == -1:
                raise Unknown("logarithm of a negative constant")
            return self.constant(_expanded(log(argument)))
        if isinstance(argument, Mul):
            try:
                return self.add(*map(self._log_of, argument.args))
            except Unknown:  # two factors may be negative
                return self._log(self.series(argument))
        if isinstance(argument, exp):
            return self.series(argument.args[0])
        if isinstance(argument, Pow) and not argument.exp.has(self.y):
            return self.scale(self._log_of(argument.base), _normal(argument.exp))
        if isinstance(argument, sp.gamma):
            return self._log_gamma(argument.args[0])
        if isinstance(argument, sp.besseli):
            return self._log_besseli(*argument.args)
        if isinstance(argument, HYPERBOLIC):
            return self._log_of(argument.rewrite(exp))
        tail = argument_of_erfc(argument)
        if tail is not None:
            return self._log_erfc(self.series(tail))
        if isinstance(argument, Add) and argument.has(exp):
            try:
                return self._log_sum([self._log_of(a) for a in argument.args])
            except Unknown:
                pass
        return self._log(self.series(argument))

    def _log_sum(self, logs: list[Series]) -> Series:
        """log(sum of exp(series)), up to a vanishing error where terms are comparable."""
        best = logs[0]
        for other in logs[1:]:
            if self.limit_of(self.add(other, self.negative(best))) is oo:
                best = other
        gaps = [self.add(s, self.negative(best)) for s in logs]
        mass = Add(*(exp(self.limit_of(gap)) for gap in gaps))
        if mass != 1:
            if _normal(mass) == 0:
                raise Unknown("the largest exponentials cancel")
            return self.add(best, self.constant(log(mass), VANISHING))
        fast = all(gap.terms and gap.lead[1].power.is_positive for gap in gaps if gap.terms)
        return self.add(best, Series((), (Order(power=-S(self.terms)) if fast else VANISHING,)))

    def _log_mix(self, weight: Expr, difference: Expr) -> Series:
        inner = self.series(difference)
        end = self.limit_of(inner)
        if end is oo:
            return self.add(inner, self.constant(log(weight), VANISHING))
        return self.constant(log_mix(weight, end), VANISHING)

    def _log_erfc(self, a: Series) -> Series:
        """Log erfc(u) = -u**2 - log(u) - log(pi)/2 + O(u**-2) for u -> +oo."""
        end = self.limit_of(a)
        if end is not oo:
            return self.constant(log(sp.erfc(end) if end is not -oo else 2), VANISHING)
        rest = self.constant(-log(sp.pi) / 2, a.lead[1] ** S(-2))
        return self.add(self.negative(self.multiply(a, a)), self.negative(self._log(a)), rest)

    def _log_gamma(self, argument: Expr) -> Series:
        """Stirling: log Gamma(u) = (u - 1/2) log u - u + log(2 pi)/2 + O(1/u)."""
        a = self.series(argument)
        if self.limit_of(a) is not oo:
            raise Unknown("gamma function at a finite point")
        shifted = self.add(a, Series(((-S.Half, ONE),)))
        rest = self.constant(log(sp.sqrt(2 * sp.pi)), a.lead[1] ** S.NegativeOne)
        return self.add(self.multiply(shifted, self._log(a)), self.negative(a), rest)

    def _log_besseli(self, order: Expr, argument: Expr) -> Series:
        """By its argument; for fixed c log I_n(c) = n*log(c/2) - log Gamma(n + 1) + O(1/n)."""
        if not order.has(self.y):
            return self._log_bessel(1, order, argument)
        if argument.has(self.y) or not order.is_integer:
            raise Unknown("Bessel function of a growing argument")
        size = order * self.sign(self.series(order).lead[0])  # I_{-n} = I_n for integers
        error = Series((), (Order(power=S.NegativeOne),))
        linear = self.scale(self.series(size), log(argument / 2))
        return self.add(linear, self.negative(self._log_gamma(size + 1)), error)

    def _log_besselk(self, order: Expr, argument: Expr) -> Series:
        return self._log_bessel(-1, order, argument)

    def _log_bessel(self, side: int, order: Expr, argument: Expr) -> Series:
        """Of I_n (side 1) or K_n (-1) far out (DLMF 10.40) or next to 0 (10.30).

        side*z - log(z)/2 - side*(4 n^2 - 1)/(8 z) + O(z^-2), and a constant.
        """
        a = self.series(argument)
        if side > 0 and order.is_even and a.terms and self.sign(a.lead[0]) < 0:
            a = self.negative(a)  # an even function
        end = self.limit_of(a)
        if end is oo:
            minus = self.scale(self._log(a), -S.Half)
            inverse = self.scale(self.power(a, S.NegativeOne), -side * (4 * order**2 - 1) / 8)
            size = log(2 * sp.pi) if side > 0 else log(2 / sp.pi)
            constant = self.constant(-size / 2, a.lead[1] ** S(-2))
            return self.add(self.scale(a, S(side)), minus, inverse, constant)
        if end != 0:
            there = log_besselk(order, end) if side < 0 else log(sp.besseli(order, end))
            return self.constant(there, VANISHING)
        size = order * self.sign(order)
        if size == 0 and side < 0:
            raise Unknown("logarithm of a logarithm")
        if size == 0:  # I_0 is 1 there
            return self.constant(S.Zero, VANISHING)
        height = (
            log(sp.gamma(size)) + (size - 1) * log(2)
            if side < 0
            else (-log(sp.gamma(size + 1)) - size * log(2))
        )
        return self.add(self.scale(self._log(a), side * size), self.constant(height, VANISHING))

    def _log_erf_gap(self, middle: Expr, half: Expr) -> Series:
        """That of the tail on the nearer side, as the other one is far smaller."""
        end = self.limit(middle)
        if not end.is_infinite or half.has(self.y):
            return self.constant(log_erf_gap(end, half), VANISHING)
        near = middle - half if end is oo else -middle - half
        return self.add(self._log_erfc(self.series(near)), Series((), (VANISHING,)))

    def _atan2(self, y: Expr, x: Expr) -> Series:
        right = self.limit(x) is oo
        return self.series(sp.atan(y / x) if right else sp.pi / 2 - sp.atan(x / y))

    def _asinh(self, u: Expr) -> Series:
        """By its logarithm far out, an odd function."""
        end = self.limit(u)
        if not end.is_infinite:
            return self._function(sp.asinh(u))
        side = 1 if end is oo else -1
        return self.scale(self.series(log(side * u + sp.sqrt(1 + u**2))), S(side))

    def _function(self, expr: Expr) -> Series:
        """An analytic function at the limit of its argument, or a known limit at infinity."""
        if not isinstance(expr, sp.Function) or len(expr.args) != 1:
            raise Unknown(f"{expr}")
        inner = self.series(expr.args[0])
        end = self.limit_of(inner)
        if end.is_infinite:
            if not isinstance(expr, (sp.erf, sp.erfc, sp.atan)):
                raise Unknown(f"{expr} at infinity")
            return self.constant(type(expr)(end), VANISHING)
        u = Dummy("u")
        derivatives = [type(expr)(u)]
        for _ in range(self.terms):
            derivatives.append(sp.diff(derivatives[-1], u))
        small = self.add(inner, self.constant(-end))
        return self.compose(small, lambda k: derivatives[k].subs(u, end) / sp.factorial(k))


_RULES: dict[type, Callable[..., Series]] = {
    exp: Expansion._exp,
    log: Expansion._log_of,
    log_mix: Expansion._log_mix,
    sp.loggamma: Expansion._log_gamma,
    sp.asinh: Expansion._asinh,
    log_besselk: Expansion._log_besselk,
    log_erf_gap: Expansion._log_erf_gap,
    atan2: Expansion._atan2,
}


def end_point(x: Symbol, end: Expr, from_right: bool) -> tuple[Symbol, Expr]:
    """The symbol y, to be sent to +oo, and x as a function of it that approaches an end."""
    y = Dummy("y", positive=True, integer=bool(x.is_integer) or None)
    if end is oo:
        return y, y
    if end is -oo:
        return y, -y
    return y, end + 1 / y if from_right else end - 1 / y
