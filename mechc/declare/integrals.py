"""Integrals in declarations whose antiderivative SymPy knows, as densities that keep their digits.

Exponents are collected in the variable of integration, and coefficients whose sign is known are
integrated as symbols of that sign: the integral of exp(-t*(1 + x**2)) needs no cases then. What
comes out holds erf(u) - 1 next to exp(u**2) more often than not: an erfc.
"""

from __future__ import annotations

import sympy as sp
from sympy import Add, Dummy, Expr, Integral, Mul, Symbol, exp

from mechc.symbolic.facts import Facts
from mechc.symbolic.signs import weak_sign


def integrated(integral: Integral, facts: Facts) -> Expr:
    """What SymPy finds an integral to be, or the integral."""
    if len(integral.limits) != 1 or len(integral.limits[0]) != 3:
        return integral.doit()
    t, lo, hi = integral.limits[0]
    known: dict[Symbol, Expr] = {}

    def collected(exponent: Expr) -> Expr:
        powers = sp.collect(sp.expand(exponent), t, evaluate=False)
        named = ((p, c if c.has(t) else _named(c, known, facts)) for p, c in powers.items())
        return Add(*(power * c for power, c in named))

    integrand = sp.powsimp(integral.function, combine="exp")
    found = Integral(integrand.replace(exp, lambda u: exp(collected(u))), (t, lo, hi)).doit()
    if found.has(Integral):
        found = integral.doit()
    if found.has(sp.sinh):
        found = sp.simplify(found.rewrite(exp))
    found = found.xreplace(known)
    return _with_tails(found) if found.has(sp.erf) else found


def _named(coefficient: Expr, known: dict[Symbol, Expr], facts: Facts) -> Expr:
    """A real symbol, of the sign of the coefficient where that is proved but for zeros."""
    if coefficient.is_Atom:
        return coefficient
    side = weak_sign(coefficient, facts)
    name = Dummy(real=True, positive=True if side else None)
    known[name] = coefficient * side if side else coefficient
    return name * side if side else name


def _with_tails(expr: Expr) -> Expr:
    """Pairs of c*erf(u) and +-c as erfc, exponentials of one product as one."""
    parts = list(Add.make_args(sp.expand(sp.simplify(expr))))
    for part in list(parts):
        (tail, *more) = [f for f in Mul.make_args(part) if isinstance(f, sp.erf)] or [None]
        if tail is None or more or part not in parts:
            continue
        u, c = tail.args[0], part / tail
        for side in (1, -1):  # c*erf(u) + c is c*erfc(-u), and c*erf(u) - c is -c*erfc(u)
            if side * c in parts:
                parts.remove(part)
                parts.remove(side * c)
                parts.append(side * c * sp.erfc(-side * u))
                break
    whole = sp.factor_terms(Add(*parts)).replace(exp, lambda u: exp(sp.expand(u)))
    return sp.powsimp(whole, combine="exp")
