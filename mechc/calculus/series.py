"""Arithmetic of asymptotic series with symbolic parameters.

A `Series` is finitely many terms c * exp(e*y) * y**a * log(y)**b in a symbol y -> +oo, the largest
first, with the orders of what was left out. Coefficients and exponents are expressions in the
parameters; orders are compared by proof (`signs.sign`). Whatever leaves this class, or cannot be
compared, raises `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from sympy import Expr, S, Symbol, binomial, exp, expand, expand_log, factor, log, oo

from mechc.calculus.facts import Facts, Undecided
from mechc.calculus.signs import sign

TERMS = 3  # terms kept of an infinite expansion, relative to its leading term


class Unknown(Exception):
    """The expansion left the class of functions this module handles.

    Attributes:
        question: an expression in the parameters whose sign would have helped, if that was it.
    """

    def __init__(self, reason: str, question: Expr | None = None) -> None:
        """Remember the reason, and the open sign."""
        super().__init__(reason)
        self.question = question


@dataclass(frozen=True)
class Order:
    """exp(rate*y) * y**power * log(y)**logs."""

    rate: Expr = S.Zero
    power: Expr = S.Zero
    logs: Expr = S.Zero

    def __mul__(self, other: Order) -> Order:
        """Product of two scale functions."""
        return Order(
            expand(self.rate + other.rate),
            expand(self.power + other.power),
            expand(self.logs + other.logs),
        )

    def __pow__(self, exponent: Expr) -> Order:
        """Power of a scale function."""
        return Order(
            expand(self.rate * exponent),
            expand(self.power * exponent),
            expand(self.logs * exponent),
        )

    def of(self, y: Symbol) -> Expr:
        """The scale function at y."""
        return exp(self.rate * y) * y**self.power * log(y) ** self.logs


ONE = Order()
VANISHING = Order(logs=S.NegativeOne)
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


class Algebra:
    """Sums, products and powers of series along one symbol under given facts."""

    def __init__(self, y: Symbol, facts: Facts) -> None:
        """Series in `y`, orders compared by `facts`."""
        self.y = y
        self.facts = facts

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
        for left, right in ((a.rate, b.rate), (a.power, b.power), (a.logs, b.logs)):
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

    def collect(self, terms: Terms, errors: tuple[Order, ...] = ()) -> Series:
        """Merge equal orders, drop zeros and what an error swallows, put the largest first."""
        merged: dict[Order, Expr] = {}
        for coefficient, order in terms:
            merged[order] = merged.get(order, S.Zero) + coefficient
        kept = [(_normal(c), order) for order, c in merged.items()]
        kept = [(c, order) for c, order in kept if c != 0 and not self.swallowed(order, errors)]
        for index, (_, order) in enumerate(kept):
            if all(self.at_least(order, other) for _, other in kept if other is not order):
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

    def add(self, a: Series, b: Series) -> Series:
        """Sum of two series."""
        return self.collect([*a.terms, *b.terms], self.largest((*a.errors, *b.errors)))

    def multiply(self, a: Series, b: Series) -> Series:
        """Product of two series."""
        terms = [(c * d, m * n) for c, m in a.terms for d, n in b.terms]
        errors = [e * other for e in a.errors for other in orders(b)]
        errors += [e * other for e in b.errors for other in orders(a)]
        return self.collect(terms, self.largest(errors))

    def scale(self, a: Series, coefficient: Expr, order: Order = ONE) -> Series:
        """A series times one exact term."""
        return self.multiply(a, Series(((coefficient, order),)))

    def relative(self, a: Series) -> Series:
        """The rest of a series divided by its leading term."""
        coefficient, order = a.lead
        rest = Series(a.terms[1:], a.errors)
        return self.scale(rest, 1 / coefficient, order**S.NegativeOne)

    def compose(self, small: Series, coefficient: Callable[[int], Expr]) -> Series:
        """Sum over k of coefficient(k) * small**k for a series that tends to zero."""
        total, power = Series(()), Series(((S.One, ONE),))
        if not small.terms and not small.errors:
            return self.collect([(coefficient(0), ONE)])
        for k in range(TERMS):
            total = self.add(total, self.scale(power, coefficient(k)))
            power = self.multiply(power, small)
        return self.collect(total.terms, self.largest((*total.errors, *orders(power))))

    def power(self, a: Series, exponent: Expr) -> Series:
        """A power that does not depend on y, by the binomial series of its relative part."""
        if exponent.is_Integer and 0 < exponent <= 8:
            return reduce(self.multiply, [a] * int(exponent))
        coefficient, order = a.lead
        if not exponent.is_Integer and self.sign(coefficient) < 0:
            raise Unknown("power of a negative quantity")
        rest = self.compose(self.relative(a), lambda k: _binomial(exponent, k))
        return self.scale(rest, coefficient**exponent, order**exponent)


def orders(a: Series) -> tuple[Order, ...]:
    """Orders that together bound a series."""
    return (*(order for _, order in a.terms[:1]), *a.errors)


def factorial(k: int) -> Expr:
    """Factorial of k as an exact number."""
    return S(reduce(lambda a, b: a * b, range(1, k + 1), 1))


def _binomial(exponent: Expr, k: int) -> Expr:
    return binomial(exponent, k).expand(func=True)


def _normal(coefficient: Expr) -> Expr:
    """Coefficient in a form in which zero is visible."""
    if coefficient.is_Number or coefficient.is_Symbol:
        return coefficient
    return factor(expand(expand_log(coefficient)))
