"""Asymptotic expansions with symbolic parameters: how a log density or a loss behaves at an end.

An end is approached along y -> +oo (x = y, -y, lo + 1/y or hi - 1/y). An expression becomes a
`Series`: finitely many terms c * exp(e*y) * y**a * log(y)**b, with the order of what
was left out. Coefficients and exponents are expressions in the parameters; orders are compared by
proof (`signs.sign`). This is a small transseries calculus, as in Gruntz's limit algorithm, but with
one exponential scale and with parameters; whatever leaves it raises `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sympy import (
    Add,
    Dummy,
    Expr,
    Function,
    Mul,
    Pow,
    Rational,
    S,
    Symbol,
    atan,
    besseli,
    binomial,
    cosh,
    coth,
    csch,
    diff,
    erf,
    erfc,
    exp,
    expand,
    expand_log,
    factor,
    gamma,
    log,
    loggamma,
    oo,
    pi,
    sech,
    sinh,
    sqrt,
    tanh,
)

from mechc.calculus.signs import Facts, Undecided, sign
from mechc.calculus.words import log_mix

_TERMS = 3  # terms kept of an infinite expansion, relative to its leading term
_HYPERBOLIC = (sinh, cosh, tanh, coth, sech, csch)


class Unknown(Exception):
    """The expansion left the class of functions this module handles."""


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
_VANISHING = Order(logs=S.NegativeOne)
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


class Expansion:
    """Expansions along one symbol y -> +oo under given facts."""

    def __init__(self, y: Symbol, facts: Facts) -> None:
        """Expand in `y`, comparing orders by `facts`."""
        self.y = y
        self.facts = facts

    def series(self, expr: Expr) -> Series:
        """Expand an expression in y.

        Args:
            expr: expression in y and parameters.

        Raises:
            Unknown: outside the class of functions handled.
        """
        if not expr.has(self.y):
            return self._collect([(expr, ONE)])
        if expr == self.y:
            return Series(((S.One, Order(power=S.One)),))
        if isinstance(expr, Add):
            return reduce(self._add, map(self.series, expr.args))
        if isinstance(expr, Mul):
            return reduce(self._multiply, map(self.series, expr.args))
        if isinstance(expr, exp):
            return self._exp(self.series(expr.args[0]))
        if isinstance(expr, Pow):
            if expr.exp.has(self.y):
                raise Unknown(f"{expr}")
            return self._power(self.series(expr.base), expr.exp)
        if isinstance(expr, log):
            return self._log_of(expr.args[0])
        if isinstance(expr, log_mix):
            return self._log_mix(*expr.args)
        if isinstance(expr, _HYPERBOLIC):
            return self.series(expr.rewrite(exp))
        if isinstance(expr, loggamma):
            return self._log_gamma(expr.args[0])
        return self._function(expr)

    def limit(self, expr: Expr) -> Expr:
        """Limit of an expression as y -> +oo (+-oo allowed)."""
        return self.limit_of(self.series(expr))

    def limit_of(self, series: Series) -> Expr:
        """Limit of a series."""
        coefficient, order = series.terms[0] if series.terms else (S.Zero, ONE)
        size = self.compare(order, ONE)
        if size > 0 and not self._swallowed(order, series.errors):
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
            raise Unknown(str(question)) from None

    # ------------------------------------------------------------------ arithmetic of series

    def _collect(self, terms: Terms, errors: tuple[Order, ...] = ()) -> Series:
        """Merge equal orders, drop zeros and what an error swallows, put the largest first."""
        merged: dict[Order, Expr] = {}
        for coefficient, order in terms:
            merged[order] = merged.get(order, S.Zero) + coefficient
        kept = [(_normal(c), order) for order, c in merged.items()]
        kept = [(c, order) for c, order in kept if c != 0 and not self._swallowed(order, errors)]
        for index, (_, order) in enumerate(kept):
            if all(self._at_least(order, other) for _, other in kept if other is not order):
                return Series((kept[index], *kept[:index], *kept[index + 1 :]), errors)
        if kept:
            raise Unknown("the largest term depends on the parameters")
        return Series((), errors)

    def _swallowed(self, order: Order, errors: tuple[Order, ...]) -> bool:
        return any(self._at_least(error, order) for error in errors)

    def _at_least(self, order: Order, other: Order) -> bool:
        try:
            return self.compare(order, other) >= 0
        except Unknown:
            return False

    def _largest(self, errors: Iterable[Order]) -> tuple[Order, ...]:
        """The errors that no other provably covers."""
        kept: list[Order] = []
        for error in errors:
            if not self._swallowed(error, tuple(kept)):
                kept = [e for e in kept if not self._at_least(error, e)] + [error]
        return tuple(kept)

    def _add(self, a: Series, b: Series) -> Series:
        return self._collect([*a.terms, *b.terms], self._largest((*a.errors, *b.errors)))

    def _multiply(self, a: Series, b: Series) -> Series:
        terms = [(c * d, m * n) for c, m in a.terms for d, n in b.terms]
        errors = [e * other for e in a.errors for other in _orders(b)]
        errors += [e * other for e in b.errors for other in _orders(a)]
        return self._collect(terms, self._largest(errors))

    def _scale(self, a: Series, coefficient: Expr, order: Order = ONE) -> Series:
        return self._multiply(a, Series(((coefficient, order),)))

    def _relative(self, a: Series) -> Series:
        """The rest of a series divided by its leading term."""
        coefficient, order = a.lead
        rest = Series(a.terms[1:], a.errors)
        return self._scale(rest, 1 / coefficient, order**S.NegativeOne)

    def _compose(self, small: Series, coefficient: Callable[[int], Expr]) -> Series:
        """Sum over k of coefficient(k) * small**k for a series that tends to zero."""
        total, power = Series(()), Series(((S.One, ONE),))
        if not small.terms and not small.errors:
            return self._collect([(coefficient(0), ONE)])
        for k in range(_TERMS):
            total = self._add(total, self._scale(power, coefficient(k)))
            power = self._multiply(power, small)
        return self._collect(total.terms, self._largest((*total.errors, *_orders(power))))

    # ------------------------------------------------------------------ functions of series

    def _power(self, a: Series, exponent: Expr) -> Series:
        if exponent.is_Integer and 0 < exponent <= 8:
            return reduce(self._multiply, [a] * int(exponent))
        coefficient, order = a.lead
        if not exponent.is_Integer and self.sign(coefficient) < 0:
            raise Unknown("power of a negative quantity")
        rest = self._compose(self._relative(a), lambda k: _binomial(exponent, k))
        return self._scale(rest, coefficient**exponent, order**exponent)

    def _exp(self, a: Series) -> Series:
        """Exp of linear, logarithmic, constant and vanishing parts."""
        factor_, order, small = S.One, ONE, []
        for coefficient, scale in a.terms:
            if scale == Order(power=S.One):
                order = order * Order(rate=coefficient)
            elif scale == Order(logs=S.One):
                order = order * Order(power=coefficient)
            elif scale == ONE:
                factor_ = exp(coefficient)
            elif self.compare(scale, ONE) < 0:
                small.append((coefficient, scale))
            else:
                raise Unknown("exponential of a nonlinear function")
        if any(self.compare(error, ONE) >= 0 for error in a.errors):
            raise Unknown("exponential of a truncated expansion")
        rest = self._compose(Series(tuple(small), a.errors), lambda k: 1 / _factorial(k))
        return self._scale(rest, factor_, order)

    def _log(self, a: Series) -> Series:
        coefficient, order = a.lead
        if order.logs != 0:
            raise Unknown("iterated logarithm")
        if self.sign(coefficient) <= 0:
            raise Unknown("logarithm of a negative quantity")
        head = [
            (expand_log(log(coefficient)), ONE),
            (order.rate, Order(power=S.One)),
            (order.power, Order(logs=S.One)),
        ]
        tail = self._compose(
            self._relative(a), lambda k: S.Zero if k == 0 else -Rational((-1) ** k, k)
        )
        return self._collect([*head, *tail.terms], tail.errors)

    def _log_of(self, argument: Expr) -> Series:
        """Log of a product term by term, of a sum by its dominant exponentials."""
        if not argument.has(self.y):
            return self._collect([(expand_log(log(argument)), ONE)])
        if isinstance(argument, Mul):
            return reduce(self._add, (self._log_of(a) for a in argument.args))
        if isinstance(argument, exp):
            return self.series(argument.args[0])
        if isinstance(argument, Pow) and not argument.exp.has(self.y):
            return self._scale(self._log_of(argument.base), argument.exp)
        if isinstance(argument, erfc):
            return self._log_erfc(self.series(argument.args[0]))
        if isinstance(argument, gamma):
            return self._log_gamma(argument.args[0])
        if isinstance(argument, besseli):
            return self._log_bessel(*argument.args)
        if isinstance(argument, _HYPERBOLIC):
            return self._log_of(argument.rewrite(exp))
        if isinstance(argument, Add) and argument.has(exp):
            try:
                return self._log_sum([self._log_of(a) for a in argument.args])
            except Unknown:
                return self._log(self.series(argument))
        return self._log(self.series(argument))

    def _log_sum(self, logs: list[Series]) -> Series:
        """log(sum of exp(series)), up to a vanishing error where terms are comparable."""
        best = logs[0]
        for other in logs[1:]:
            if self.limit_of(self._add(other, self._scale(best, S.NegativeOne))) is oo:
                best = other
        gaps = [self._add(s, self._scale(best, S.NegativeOne)) for s in logs]
        mass = Add(*(exp(self.limit_of(gap)) for gap in gaps))
        if mass != 1:
            return self._add(best, self._collect([(log(mass), ONE)], (_VANISHING,)))
        fast = all(gap.terms and gap.lead[1].power.is_positive for gap in gaps if gap.terms)
        return self._add(best, Series((), (Order(power=-S(_TERMS)) if fast else _VANISHING,)))

    def _log_mix(self, weight: Expr, difference: Expr) -> Series:
        inner = self.series(difference)
        end = self.limit_of(inner)
        if end is oo:
            vanishing = Series((), (_VANISHING,))
            return reduce(self._add, (inner, self._collect([(log(weight), ONE)]), vanishing))
        value = log_mix(weight, end)
        return self._collect([(value, ONE)], (_VANISHING,))

    def _log_erfc(self, a: Series) -> Series:
        """Log erfc(u) = -u**2 - log(u) - log(pi)/2 + O(u**-2) for u -> +oo."""
        end = self.limit_of(a)
        if end is not oo:
            value = log(erfc(end)) if end is not -oo else log(S(2))
            return self._collect([(value, ONE)], (_VANISHING,))
        square = self._scale(self._multiply(a, a), S.NegativeOne)
        rest = self._collect([(-log(pi) / 2, ONE)], tuple(o ** S(-2) for o in _orders(a)[:1]))
        return reduce(self._add, (square, self._scale(self._log(a), S.NegativeOne), rest))

    def _log_gamma(self, argument: Expr) -> Series:
        """Stirling: log Gamma(u) = (u - 1/2) log u - u + log(2 pi)/2 + O(1/u)."""
        a = self.series(argument)
        if self.limit_of(a) is not oo:
            raise Unknown("gamma function at a finite point")
        shifted = self._add(a, Series(((-S.Half, ONE),)))
        rest = self._collect(
            [(log(sqrt(2 * pi)), ONE)], tuple(o**S.NegativeOne for o in _orders(a)[:1])
        )
        product = self._multiply(shifted, self._log(a))
        return reduce(self._add, (product, self._scale(a, S.NegativeOne), rest))

    def _log_bessel(self, order: Expr, argument: Expr) -> Series:
        """Log I_n(c) = n*log(c/2) - log Gamma(n + 1) + O(1/n); I_{-n} = I_n for integers."""
        if argument.has(self.y) or not order.is_integer:
            raise Unknown("Bessel function of a growing argument")
        size = order * self.sign(self.series(order).lead[0])
        error = Series((), (Order(power=S.NegativeOne),))
        linear = self._scale(self.series(size), log(argument / 2))
        rest = self._scale(self._log_gamma(size + 1), S.NegativeOne)
        return reduce(self._add, (linear, rest, error))

    def _function(self, expr: Expr) -> Series:
        """An analytic function at the limit of its argument, or a known limit at infinity."""
        if not isinstance(expr, Function) or len(expr.args) != 1:
            raise Unknown(f"{expr}")
        inner = self.series(expr.args[0])
        end = self.limit_of(inner)
        if end.is_infinite:
            values: dict[Any, Expr] = {erf: S.One, atan: pi / 2}
            if isinstance(expr, erfc):
                value: Expr = S.Zero if end is oo else S(2)
            elif type(expr) in values:
                value = values[type(expr)] * (1 if end is oo else -1)
            else:
                raise Unknown(f"{expr} at infinity")
            return self._collect([(value, ONE)], (_VANISHING,))
        u = Dummy("u")
        derivatives = [type(expr)(u)]
        for _ in range(_TERMS):
            derivatives.append(diff(derivatives[-1], u))
        small = self._add(inner, self._collect([(-end, ONE)]))
        return self._compose(small, lambda k: derivatives[k].subs(u, end) / _factorial(k))


def _orders(a: Series) -> tuple[Order, ...]:
    """Orders that together bound a series."""
    return (*(order for _, order in a.terms[:1]), *a.errors)


def _factorial(k: int) -> Expr:
    return S(reduce(lambda a, b: a * b, range(1, k + 1), 1))


def _binomial(exponent: Expr, k: int) -> Expr:
    return binomial(exponent, k).expand(func=True)


def _normal(coefficient: Expr) -> Expr:
    """Coefficient in a form in which zero is visible."""
    if coefficient.is_Number or coefficient.is_Symbol:
        return coefficient
    return factor(expand(expand_log(coefficient)))


def end_point(x: Symbol, end: Expr, from_right: bool) -> tuple[Symbol, Expr]:
    """Parametrise the approach to an end of an interval.

    Args:
        x: the variable.
        end: the end; +-oo allowed.
        from_right: whether a finite end is approached from its right side.

    Returns:
        The symbol y, to be sent to +oo, and x as a function of it.
    """
    y = Dummy("y", positive=True, integer=bool(x.is_integer) or None)
    if end is oo:
        return y, y
    if end is -oo:
        return y, -y
    return y, end + 1 / y if from_right else end - 1 / y
