"""Integrals next to a finite end where a density falls to zero.

There log p has no enclosure, but a power has: if the derivatives of p below the m-th vanish at the
end and the m-th does not on the distance u from it, then p = c u^m with c in the enclosure of that
derivative over m!. So p^a q^b is at most C u^M, with M = a m + b n, and its integral over (0, u) at
most C u^(1+M) / (1+M), finite for M > -1. A density that is a product of powers of such functions,
as sqrt(w^2 - x^2), is taken factor by factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import factorial
from typing import Any

from flint import arb
from sympy import Add, Expr, Mul, S, Symbol, diff, exp, expand, factor, log, simplify

from mechc.terms import Term
from mechc.verify import arithmetic
from mechc.verify.infinity import Unknown
from mechc.verify.sums import exact

HIGHEST = 6  # order of a zero


def power_bound(
    sides: Sequence[tuple[Any, tuple[Term, ...]]], x: Symbol, end: Expr, values: Any, reach: Any
) -> Any:
    """Bound on the integral of a product of powers of densities between an end and `reach`.

    Args:
        sides: (exponent, density as terms) of every factor.
        x: the variable.
        end: where densities may vanish, in the parameters.
        values: exact balls for the parameters.
        reach: signed distance from the end.

    Raises:
        Unknown: the order of a zero is not found, or the integral is infinite.
    """
    here = arithmetic.constant(end, values)
    box, away = here.union(here + reach), abs(reach)
    height, order = arb(0), arb(1)
    for exponent, terms in sides:
        m, c = _power(terms, x, end, values, box)
        height += exponent * c.log()
        order += exponent * m
    if not order > 0:
        raise Unknown("infinite next to a finite end")
    return (height.exp() * away**order / order).upper()


def _power(terms: tuple[Term, ...], x: Symbol, end: Expr, values: Any, box: Any) -> Any:
    """(m, c): the density is c u^m at distance u from the end, for some c in the ball."""
    order, size = arb(0), arb(1)
    for share, base in _factored(terms, x):
        m, c = _zero(base, x, end, values, box)
        exponent = arithmetic.constant(share, values)
        order += exponent * m
        size *= (exponent * c.log()).exp()
    return order, size


@lru_cache(maxsize=64)
def _factored(terms: tuple[Term, ...], x: Symbol) -> tuple[tuple[Expr, Expr], ...]:
    """The density as a product of powers, of factors of polynomials where there are any.

    Next to a zero that is close by, factors keep the digits that a polynomial loses.
    """
    found = []
    for share, function in _factors(terms, x):
        polynomial = function.is_polynomial(x)
        for part in Mul.make_args(factor(function) if polynomial else function):
            base, power = part.as_base_exp() if polynomial else (part, S.One)
            found.append((share * power, base))
    return tuple(found)


def _factors(terms: tuple[Term, ...], x: Symbol) -> list[tuple[Expr, Expr]]:
    """The density as a product of powers: (exponent, function) of each."""
    if len(terms) > 1:
        return [(S.One, _density(terms))]
    powers, rest = [], S.Zero
    for summand in Add.make_args(expand(terms[0].log_density)):
        share, function = summand.as_independent(x, as_Add=False)
        if isinstance(function, log):
            powers.append((share, function.args[0]))
        else:
            rest += summand
    return [(S.One, terms[0].weight * exp(rest)), *powers]


def _density(terms: tuple[Term, ...]) -> Expr:
    return Add(*(t.weight * exp(t.log_density) for t in terms))


def _zero(base: Expr, x: Symbol, end: Expr, values: Any, box: Any) -> Any:
    """(m, c) of a function that has one sign inside."""
    for m in range(HIGHEST + 1):
        derivative, vanishes = _derivative(base, x, end, m)
        size = abs(arithmetic.function(derivative, x, values)(box, False))
        if size > 0 and size.is_finite():
            return m, size / factorial(m)
        if not (vanishes or _vanishes_here(derivative, x, end, values)):
            break
    raise Unknown("the order of a zero at a finite end")


def _vanishes_here(function: Expr, x: Symbol, end: Expr, values: Any) -> bool:
    """Whether a function is zero at the end for these parameters: ends of two laws may meet."""
    numbers = exact(values)
    return bool(simplify(function.xreplace(numbers).subs(x, end.xreplace(numbers))) == 0)


def rises_from(
    terms: tuple[Term, ...], x: Symbol, end: Expr, values: Any, box: Any, side: int
) -> int:
    """Sign of the derivative of a density outward from an end, 0 where it stays open.

    Args:
        terms: the density.
        x: the variable.
        end: in the parameters; derivatives may vanish there.
        values: exact balls for the parameters.
        box: a ball that begins at the end.
        side: 1 if the box lies right of the end, -1 left of it.

    Returns:
        The sign of side * p' inside the box: by Taylor that of the first derivative that does not
        vanish at the end, where this one has a sign on the whole box.
    """
    (_, constant), *powers = _factors(terms, x)
    single = len(powers) == 1 and not constant.has(x) and powers[0][0].is_positive
    density = powers[0][1] if single else _density(terms)  # a power moves with its base
    for m in range(1, HIGHEST + 1):
        derivative, vanishes = _derivative(density, x, end, m)
        value = arithmetic.function(derivative, x, values)(box, False) * side**m
        if value > 0 or value < 0:
            return 1 if value > 0 else -1
        if not vanishes:
            break
    return 0


@lru_cache(maxsize=256)
def _derivative(function: Expr, x: Symbol, end: Expr, m: int) -> tuple[Expr, bool]:
    """The m-th derivative of a function, and whether it is zero at the end."""
    derivative = diff(function, x, m)
    return derivative, simplify(derivative.subs(x, end)) == 0
