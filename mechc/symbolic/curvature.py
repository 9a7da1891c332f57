"""Convexity by composition rules: which way a function of one variable bends.

Input: an expression, the variable and `Facts` (which know the interval). Output: +1 convex, -1
concave, 0 affine, None undecided. The rules are those of disciplined convex programming (Grant,
Boyd, Ye 2006) with the few functions that occur in log densities: powers of affine functions, exp
of convex, log of a sum of exponentials, log of concave, log erfc, log gamma; then the sign of the
second derivative. Where a rule gives +-1 the curvature is strict unless the function is affine.
"""

from __future__ import annotations

import sympy as sp
from sympy import Add, Expr, Mul, Pow, S, Symbol, exp, log

from mechc.symbolic.facts import Facts, Undecided
from mechc.symbolic.functions import argument_of_erfc, log_besselk, log_erf_gap
from mechc.symbolic.rewrite import affine_in, rational_in
from mechc.symbolic.signs import proved, sign


def curvature(expr: Expr, x: Symbol, facts: Facts) -> int | None:
    """Curvature of an expression in x; `Undecided` where it is the open sign of a constant."""
    if affine_in(expr, x) is not None or not expr.has(x):
        return 0
    if isinstance(expr, Add):
        return _joined(expr.args, x, facts)
    if isinstance(expr, Mul):
        constant, rest = expr.as_independent(x, as_Add=False)
        inner = None if rest.is_Mul else curvature(rest, x, facts)
        if inner is not None:
            return sign(constant, facts) * inner
    if isinstance(expr, Pow) and affine_in(expr.base, x) is not None:
        return _of_power(expr, facts)
    if isinstance(expr, exp) and curvature(expr.args[0], x, facts) in (0, 1):
        return 1
    if isinstance(expr, (sp.loggamma, sp.cosh)) and affine_in(expr.args[0], x) is not None:
        return 1
    if isinstance(expr, log_besselk) and not expr.args[0].has(x) and affine_in(expr.args[1], x):
        return 1  # the log of a mixture of exp(-z cosh t)
    if isinstance(expr, log_erf_gap) and affine_in(expr.args[0], x) and not expr.args[1].has(x):
        return -1  # the log of a uniform law convolved with a normal one (Prekopa 1973)
    if isinstance(expr, (sp.sin, sp.cos)) and affine_in(expr.args[0], x) is not None:
        side = proved(expr, facts)  # between two of its zeros
        return None if side is None else -side
    if isinstance(expr, log):
        found = _of_log(expr.args[0], x, facts)
        if found is not None:
            return found
    return _by_second_derivative(expr, x, facts)


def _joined(parts: tuple[Expr, ...], x: Symbol, facts: Facts) -> int | None:
    total = 0
    for part in parts:
        bend = curvature(part, x, facts)
        if bend is None or bend * total < 0:
            return None
        total = total or bend
    return total


def _of_power(power: Expr, facts: Facts) -> int:
    """A power of an affine function."""
    exponent = power.exp
    if exponent.is_even and exponent.is_positive:
        return 1
    if sign(power.base, facts) < 0:
        raise Undecided(power)
    return sign(exponent, facts) * sign(exponent - 1, facts)


def _of_log(argument: Expr, x: Symbol, facts: Facts) -> int | None:
    if isinstance(argument, sp.besseli) and x.is_integer and argument.args[0].is_integer:
        # differences of Poisson variables have log-concave masses exp(-c)*I_n(c)
        return -1 if argument.args[1].is_positive and not argument.args[1].has(x) else None
    if (
        isinstance(argument, sp.besseli)
        and argument.args[0] == 0
        and affine_in(argument.args[1], x)
    ):
        return 1  # the log of a mean of exp(z cos t)
    tail = argument_of_erfc(argument)
    if tail is not None and affine_in(tail, x) is not None:
        return -1
    if isinstance(argument, sp.cosh) and affine_in(argument.args[0], x) is not None:
        return 1
    if argument.has(exp) and all(_is_exponential(a, x, facts) for a in Add.make_args(argument)):
        return 1
    if argument.is_Pow and not argument.exp.has(x) and proved(argument.base, facts) == 1:
        inner = curvature(log(argument.base), x, facts)
        return None if inner is None else sign(argument.exp, facts) * inner
    if argument.is_Mul or argument.is_Pow:
        return None
    return -1 if curvature(argument, x, facts) in (0, -1) else None


def _is_exponential(term: Expr, x: Symbol, facts: Facts) -> bool:
    """A positive constant times exp of a convex function, or a positive constant."""
    constant, rest = term.as_independent(x, as_Add=False)
    if sign(constant, facts) <= 0:
        return False
    exponents = [a.args[0] if isinstance(a, exp) else None for a in Mul.make_args(rest)]
    if rest == 1:
        return True
    if None in exponents:
        return False
    return curvature(Add(*exponents), x, facts) in (0, 1)


def _by_second_derivative(expr: Expr, x: Symbol, facts: Facts) -> int | None:
    second = sp.diff(expr, x, 2)
    rational = rational_in(second, x)
    try:
        return sign(second if rational is None else rational.expr, facts)
    except Undecided as question:
        if question.expr.free_symbols & {x, x if rational is None else rational.symbol}:
            return None
        raise


def shifted_pairs(expr: Expr, x: Symbol) -> tuple[list[tuple[Expr, Expr, Expr]], Expr]:
    """Triples (c, h, shift) of c*h(x + shift) - c*h(x) in a sum, and the terms without partner."""
    waiting = [term.as_independent(x, as_Add=False) for term in Add.make_args(expr)]
    pairs, alone = [], S.Zero
    while waiting:
        c, f = waiting.pop(0)
        for index, (d, g) in enumerate(waiting):
            shift = _shift_between(f, g, x) if (c + d).expand() == 0 else None
            if shift is not None:
                simpler = sp.count_ops(f) < sp.count_ops(g)
                pairs.append((d, f, -shift) if simpler else (c, g, shift))
                del waiting[index]
                break
        else:
            alone += c * f
    return pairs, alone


def _shift_between(f: Expr, g: Expr, x: Symbol) -> Expr | None:
    """The shift with f(x) = g(x + shift), read off the first affine parts."""
    if type(f) is not type(g) or f == x:
        return None
    for slope, intercept in affine_parts(f, x):
        for other_slope, other_intercept in affine_parts(g, x):
            if (slope - other_slope).expand() != 0:
                continue
            shift = ((intercept - other_intercept) / slope).expand()
            moved = g.subs(x, x + shift)
            if shift != 0 and (moved == f or (moved - f).expand(deep=True) == 0):
                return shift
    return None


def affine_parts(expr: Expr, x: Symbol) -> list[tuple[Expr, Expr]]:
    """Slope and intercept of the maximal affine subexpressions."""
    affine = affine_in(expr, x)
    if affine is not None:
        return [affine]
    return [part for a in expr.args if a.has(x) for part in affine_parts(a, x)]
