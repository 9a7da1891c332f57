"""Asymptotic expansions: how a log density or a loss behaves at an end, parameters symbolic.

Input: an expression along y -> +oo; an end is approached with x = y, -y, lo + 1/y or hi - 1/y.
Output: a `Series`, or its limit. This is a small transseries calculus in the manner of Gruntz's
limit algorithm, but with one exponential scale and with parameters: sums of exponentials under a
logarithm are ruled by the largest, erfc and gamma functions by their classical expansions (DLMF
7.12, 5.11, 10.19). Whatever leaves this class raises `Unknown`.
"""

from __future__ import annotations

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
    cosh,
    coth,
    csch,
    diff,
    erf,
    erfc,
    exp,
    expand_log,
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

from mechc.calculus.series import (
    ONE,
    TERMS,
    VANISHING,
    Algebra,
    Order,
    Series,
    Unknown,
    factorial,
    orders,
)
from mechc.calculus.words import log_mix

_HYPERBOLIC = (sinh, cosh, tanh, coth, sech, csch)


class Expansion(Algebra):
    """Expansions of expressions along one symbol y -> +oo under given facts."""

    def series(self, expr: Expr) -> Series:
        """Expand an expression in y.

        Args:
            expr: expression in y and parameters.

        Raises:
            Unknown: outside the class of functions handled.
        """
        if not expr.has(self.y):
            return self.collect([(expr, ONE)])
        if expr == self.y:
            return Series(((S.One, Order(power=S.One)),))
        if isinstance(expr, Add):
            return reduce(self.add, map(self.series, expr.args))
        if isinstance(expr, Mul):
            return reduce(self.multiply, map(self.series, expr.args))
        if isinstance(expr, exp):
            return self._exp(self.series(expr.args[0]))
        if isinstance(expr, Pow):
            if expr.exp.has(self.y):
                raise Unknown(f"{expr}")
            return self.power(self.series(expr.base), expr.exp)
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
        rest = self.compose(Series(tuple(small), a.errors), lambda k: 1 / factorial(k))
        return self.scale(rest, factor_, order)

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
        tail = self.compose(
            self.relative(a), lambda k: S.Zero if k == 0 else -Rational((-1) ** k, k)
        )
        return self.collect([*head, *tail.terms], tail.errors)

    def _log_of(self, argument: Expr) -> Series:
        """Log of a product term by term, of a sum by its dominant exponentials."""
        if not argument.has(self.y):
            return self.collect([(expand_log(log(argument)), ONE)])
        if isinstance(argument, Mul):
            return reduce(self.add, (self._log_of(a) for a in argument.args))
        if isinstance(argument, exp):
            return self.series(argument.args[0])
        if isinstance(argument, Pow) and not argument.exp.has(self.y):
            return self.scale(self._log_of(argument.base), argument.exp)
        if isinstance(argument, erfc):
            return self._log_erfc(self.series(argument.args[0]))
        if isinstance(argument, gamma):
            return self._log_gamma(argument.args[0])
        if isinstance(argument, besseli):
            return self._log_bessel(*argument.args)
        if isinstance(argument, _HYPERBOLIC):
            return self._log_of(argument.rewrite(exp))
        flipped = _flipped(argument)
        if flipped is not None:
            return self._log_erfc(self.series(flipped))
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
            if self.limit_of(self.add(other, self.scale(best, S.NegativeOne))) is oo:
                best = other
        gaps = [self.add(s, self.scale(best, S.NegativeOne)) for s in logs]
        mass = Add(*(exp(self.limit_of(gap)) for gap in gaps))
        if mass != 1:
            return self.add(best, self.collect([(log(mass), ONE)], (VANISHING,)))
        fast = all(gap.terms and gap.lead[1].power.is_positive for gap in gaps if gap.terms)
        return self.add(best, Series((), (Order(power=-S(TERMS)) if fast else VANISHING,)))

    def _log_mix(self, weight: Expr, difference: Expr) -> Series:
        inner = self.series(difference)
        end = self.limit_of(inner)
        if end is oo:
            vanishing = Series((), (VANISHING,))
            return reduce(self.add, (inner, self.collect([(log(weight), ONE)]), vanishing))
        value = log_mix(weight, end)
        return self.collect([(value, ONE)], (VANISHING,))

    def _log_erfc(self, a: Series) -> Series:
        """Log erfc(u) = -u**2 - log(u) - log(pi)/2 + O(u**-2) for u -> +oo."""
        end = self.limit_of(a)
        if end is not oo:
            value = log(erfc(end)) if end is not -oo else log(S(2))
            return self.collect([(value, ONE)], (VANISHING,))
        square = self.scale(self.multiply(a, a), S.NegativeOne)
        rest = self.collect([(-log(pi) / 2, ONE)], tuple(o ** S(-2) for o in orders(a)[:1]))
        return reduce(self.add, (square, self.scale(self._log(a), S.NegativeOne), rest))

    def _log_gamma(self, argument: Expr) -> Series:
        """Stirling: log Gamma(u) = (u - 1/2) log u - u + log(2 pi)/2 + O(1/u)."""
        a = self.series(argument)
        if self.limit_of(a) is not oo:
            raise Unknown("gamma function at a finite point")
        shifted = self.add(a, Series(((-S.Half, ONE),)))
        rest = self.collect(
            [(log(sqrt(2 * pi)), ONE)], tuple(o**S.NegativeOne for o in orders(a)[:1])
        )
        product = self.multiply(shifted, self._log(a))
        return reduce(self.add, (product, self.scale(a, S.NegativeOne), rest))

    def _log_bessel(self, order: Expr, argument: Expr) -> Series:
        """Log I_n(c) = n*log(c/2) - log Gamma(n + 1) + O(1/n); I_{-n} = I_n for integers."""
        if argument.has(self.y) or not order.is_integer:
            raise Unknown("Bessel function of a growing argument")
        size = order * self.sign(self.series(order).lead[0])
        error = Series((), (Order(power=S.NegativeOne),))
        linear = self.scale(self.series(size), log(argument / 2))
        rest = self.scale(self._log_gamma(size + 1), S.NegativeOne)
        return reduce(self.add, (linear, rest, error))

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
            return self.collect([(value, ONE)], (VANISHING,))
        u = Dummy("u")
        derivatives = [type(expr)(u)]
        for _ in range(TERMS):
            derivatives.append(diff(derivatives[-1], u))
        small = self.add(inner, self.collect([(-end, ONE)]))
        return self.compose(small, lambda k: derivatives[k].subs(u, end) / factorial(k))


def _flipped(argument: Expr) -> Expr | None:
    """The u of erfc(u) = 2 - erfc(-u), as SymPy writes it when -u leads with a plus sign."""
    constant, rest = argument.as_coeff_Add()
    return -(-rest).args[0] if constant == 2 and isinstance(-rest, erfc) else None


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
