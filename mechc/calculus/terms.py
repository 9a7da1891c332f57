"""A density on one smooth piece as a sum of terms, weight * exp(log_density).

Input: an expression without Abs, Max and the like. Output: terms whose weights are free of the
variable and not negative, and whose logarithms were taken by rule: of powers, products,
exponentials and hyperbolic functions, under signs that were proved. What no rule takes apart, such
as 1 + cos(x), stays inside one log.

A sum is split into terms only when every summand is proved not negative. A difference stays whole,
but one of increasing functions, c*F(a) - c*F(b), as of a law rounded to integers or of a uniform
law convolved with another, becomes one function that does not cancel:

    erf(a) - erf(b)     exp(log_erf_gap((a + b)/2, (a - b)/2)), erfc and Gauss integrals likewise
    atan(a) - atan(b)   atan2(a - b, 1 + a*b), of exponentials atan2 of sinh and cosh, to which
                        those of sinh and tanh lead
    a/sqrt(1 + a^2) - b/sqrt(1 + b^2)    (a - b)(A + B)/(A B (1 + A B + a b)), A^2 = 1 + a^2
    anything rational in one exponential, such as logistic or hyperbolic functions: factored

with the distance a - b worked out symbolically and proved positive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy import Add, Expr, Mul, Pow, S, Symbol, exp, log

from mechc.symbolic.facts import Facts
from mechc.symbolic.functions import atan2, log_besselk, log_erf_gap
from mechc.symbolic.rewrite import (
    MAX_DEGREE,
    affine_in,
    degree,
    factored,
    fraction,
    polynomial_in,
    rational_in,
    split_exponent,
)
from mechc.symbolic.signs import exceeds_zero, weak_sign

MAX_TERMS = 200  # that a density is taken apart into


@dataclass(frozen=True)
class Term:
    """weight * exp(log_density): a weight >= 0 free of the variable, a log density in it."""

    weight: Expr
    log_density: Expr

    @property
    def whole(self) -> Expr:
        """The density or mass itself."""
        return self.weight * exp(self.log_density)

    def subs(self, symbol: Symbol, value: Expr) -> Term:
        """The term with a symbol replaced; without weight where that takes the log of zero."""
        there = self.log_density.subs(symbol, value)
        if there.has(sp.zoo):  # of a zero, not of what is infinite there
            there = self.log_density.replace(
                lambda e: isinstance(e, log) and e.args[0].subs(symbol, value) == 0,
                lambda _: S.NegativeInfinity,
            ).subs(symbol, value)
            if there is S.NegativeInfinity:
                return Term(S.Zero, S.Zero)
        return Term(self.weight.subs(symbol, value), there)


def total(parts: Iterable[Term]) -> Expr:
    """The sum of terms."""
    return Add(*(part.whole for part in parts))


class Negative(Exception):
    """The expression is negative wherever it is defined."""


def terms(expr: Expr, variable: Symbol, facts: Facts) -> tuple[Term, ...]:
    """The terms of a density on one piece, none where it is zero; `Negative` where a factor is."""
    if expr.is_zero:
        return ()
    expr = _with_zeros(_with_tails(expr, variable), variable)
    parts = _summands(expr, variable, facts)
    if any(isinstance(a, Add) for part in parts for a in Mul.make_args(part)):
        # a sum that stays whole has parts of either sign
        parts = [s for part in parts for s in _summands(
            without_differences(part, variable, facts), variable, facts)]  # fmt: skip
    found = [_term(e, variable, facts) for e in parts]
    return _merged(found, variable, facts)


def _with_tails(expr: Expr, x: Symbol) -> Expr:
    """1 + erf(u) as erfc(-u), which keeps its relative accuracy in the tail; 1 - erfc(u) as erf.

    And A + B as C exp(asinh(B/C)), C^2 = A^2 - B^2, where C has a root and they cancel far out.
    """
    tails: dict[Expr, Expr] = {}
    for total in expr.atoms(Add):
        if len(total.args) == 2 and (found := _of_roots(total, x)) is not None:
            tails[total] = found
        constant, rest = total.as_coeff_Add()
        coefficient, functions = rest.as_coeff_Mul()
        if isinstance(functions, sp.erf) and abs(coefficient) == constant:
            tails[total] = constant * sp.erfc(-functions.args[0] * (coefficient / constant))
        elif isinstance(functions, sp.erfc) and -coefficient == constant:
            tails[total] = constant * sp.erf(functions.args[0])
    return expr.xreplace(tails)


def _of_roots(pair: Add, x: Symbol) -> Expr | None:
    for a, b in (pair.args, pair.args[::-1]):
        factors = (*Mul.make_args(a), *Mul.make_args(b))
        has_root = any(f.is_Pow and abs(f.exp) == S.Half and f.has(x) for f in factors)
        if not has_root or not a.is_positive or not (a**2 - b**2).is_rational_function(x):
            continue
        over, under = sp.fraction(sp.factor(a**2 - b**2))
        if over.is_positive and not over.has(x):
            size = sp.sqrt(over) / sp.sqrt(under)
            return size * exp(sp.asinh(b / size))
    return None


def _with_zeros(expr: Expr, variable: Symbol) -> Expr:
    """Polynomials among the factors as powers, where terms cancel next to a multiple zero."""

    def split(part: Expr) -> Expr:
        if not (isinstance(part, Add) and part.has(variable) and part.is_polynomial(variable)):
            return part
        product = factored(part) if sp.degree(part, variable) > 1 else part
        return product if any(b.has(variable) and e > 1 for b, e in _powers(product)) else part

    return Mul(*(split(b) ** e for b, e in _powers(expr)))


def _powers(product: Expr) -> list[tuple[Expr, Expr]]:
    """Bases and exponents of factors."""
    return [part.as_base_exp() for part in Mul.make_args(product)]


def _summands(expr: Expr, variable: Symbol, facts: Facts) -> list[Expr]:
    """Non-negative expressions that add up to `expr`."""
    if isinstance(expr, Add):
        parts = [s for arg in expr.args for s in _summands(arg, variable, facts)]
        open_ = {_of_open_sign(part, facts) for part in parts}
        # a factor of unknown sign that all parts share has that of the whole
        return parts if len(open_) == 1 and not open_.pop().has(variable) else [expr]
    if isinstance(expr, Mul):
        sums = [a for a in expr.args if isinstance(a, Add) and a.has(variable)]
        others = [a for a in expr.args if a not in sums]
        # only a constant times a mixture is distributed: f(x)*(1 + g(x)) is better left whole
        if len(sums) == 1 and not Mul(*others).has(variable):
            parts = _summands(sums[0], variable, facts)
            if 1 < len(parts) <= MAX_TERMS:
                return [Mul(*others, part) for part in parts]
    return [expr]


def _of_open_sign(part: Expr, facts: Facts) -> Expr:
    """What is left of a product without the factors that are proved not to be negative."""
    if weak_sign(part, facts) in (0, 1):
        return S.One
    return Mul(*(a for a in Mul.make_args(part) if weak_sign(a, facts) not in (0, 1)))


def _term(expr: Expr, variable: Symbol, facts: Facts) -> Term:
    """One term, logarithms taken by rule."""
    weight, log_density, unsigned, sign = S.One, S.Zero, S.One, 1
    parts = (_without_growth(part, variable, facts) for part in Mul.make_args(expr))
    for part in Mul.make_args(Mul(*parts)):
        part_sign = weak_sign(part, facts)
        if part_sign is None:
            unsigned *= part
            continue
        if part_sign == 0:
            return Term(S.Zero, S.Zero)
        sign *= part_sign
        part_weight, part_log = _weight_and_log(part, part_sign, variable, facts)
        weight, log_density = weight * part_weight, log_density + part_log
    if unsigned != 1:
        # the sign of this factor is only known numerically, and checked there
        if not unsigned.has(variable):
            return Term(weight * sign * unsigned, log_density)
        return Term(weight, log_density + log(sign * unsigned))
    if sign < 0:
        raise Negative
    return Term(weight, log_density)


def _without_growth(part: Expr, variable: Symbol, facts: Facts) -> Expr:
    """A difference of exponentials, or a power of it, with the largest in front if that grows."""
    base, power = part.as_base_exp()
    if isinstance(base, Add) and any(a.could_extract_minus_sign() for a in base.args):
        split = [split_exponent(a) for a in base.args]
        for _, top in split:
            rest = [(c, sp.expand(u - top)) for c, u in split]
            largest = top.has(variable) and all(weak_sign(u, facts) in (0, -1) for _, u in rest)
            if largest and weak_sign(top, facts) == 1:
                return exp(top * power) * Add(*(c * exp(u) for c, u in rest)) ** power
    return part


def _weight_and_log(expr: Expr, side: int, variable: Symbol, facts: Facts) -> tuple[Expr, Expr]:
    """(w, l) with |expr| = w * exp(l), for an expression of which the sign is proved."""
    if not expr.has(variable):
        return side * _over_one(expr), S.Zero
    if isinstance(expr, exp):
        return S.One, _tidy(expr.exp, variable)
    if isinstance(expr, Mul):
        sides = [s for a in expr.args if (s := weak_sign(a, facts))]
        if len(sides) == len(expr.args):
            pairs = [
                _weight_and_log(a, s, variable, facts)
                for a, s in zip(expr.args, sides, strict=True)
            ]
            return Mul(*(w for w, _ in pairs)), Add(*(ell for _, ell in pairs))
    # a cosine keeps its square: next to its zeros rounding takes the sign away
    rounded = expr.is_Pow and expr.exp.is_even and expr.base.has(sp.cos, sp.sin)
    base_side = weak_sign(expr.base, facts) if isinstance(expr, Pow) and not rounded else None
    if base_side == 1 or (base_side and expr.exp.is_Integer):
        weight, ell = _weight_and_log(expr.base, base_side, variable, facts)
        if expr.exp.has(variable):
            return S.One, expr.exp * (ell if weight == 1 else log(weight) + ell)
        return weight**expr.exp, expr.exp * ell
    return _special(expr, side, variable, facts)


def _over_one(weight: Expr) -> Expr:
    """A sum of fractions as a product where it is one: 1 - 1/(1 + c)^2 keeps no digits of c."""
    if not isinstance(weight, Add) or all(a.as_numer_denom()[1].is_number for a in weight.args):
        return weight
    rational = weight.is_rational_function(*weight.free_symbols)
    product = factored(weight) if rational else weight
    return weight if isinstance(product, Add) else product


def _special(expr: Expr, side: int, variable: Symbol, facts: Facts) -> tuple[Expr, Expr]:
    """Functions whose logarithm has a form that does not overflow."""
    half = sp.Rational(1, 2)
    if isinstance(expr, (sp.cosh, sp.sech, sp.sinh, sp.csch, sp.tanh, sp.coth)):
        u = expr.args[0] * (weak_sign(expr.args[0], facts) or 1)
        log_cosh, log_sinh = u + log(1 + exp(-2 * u)), u + log(1 - exp(-2 * u))
        return {
            sp.cosh: (half, log_cosh),
            sp.sech: (S(2), -log_cosh),
            sp.sinh: (half, log_sinh),
            sp.csch: (S(2), -log_sinh),
            sp.tanh: (S.One, log_sinh - log_cosh),
            sp.coth: (S.One, log_cosh - log_sinh),
        }[expr.func]
    for growing in (expr + 1, 1 - expr):
        if isinstance(growing, exp) and weak_sign(growing.args[0], facts) == 1:
            return S.One, growing.args[0] + log(1 - exp(-growing.args[0]))
    if isinstance(expr, sp.besselk) and weak_sign(expr.argument, facts) == 1:
        return S.One, log_besselk(*expr.args)
    if isinstance(expr, (sp.gamma, sp.factorial)):
        u = expr.args[0] + (1 if isinstance(expr, sp.factorial) else 0)
        if weak_sign(u, facts) == 1:
            return S.One, sp.loggamma(u)
    # SymPy writes 6 (x - a) as 6 x - 6 a, which is not exact next to a
    number, inner = expr.primitive() if isinstance(expr, Add) else (S.One, expr)
    if isinstance(inner, Add) and all(weak_sign(a, facts) in (0, 1) for a in inner.args):
        # a hyperbolic cosine overflows, the log of exponentials does not
        factors = (f for a in inner.args for f in Mul.make_args(a))
        growing = (f for f in factors if isinstance(f.as_base_exp()[0], sp.cosh))
        inner = inner.xreplace({f: f.rewrite(sp.cosh, exp) for f in growing})
    return number, log(side * inner)


def _merged(found: list[Term], variable: Symbol, facts: Facts) -> tuple[Term, ...]:
    """Terms whose log densities differ by a constant become one, so that plateaus show."""
    kept: list[Term] = []
    for term in found:
        if term.weight == 0:
            continue
        for i, other in enumerate(kept):
            gap = sp.expand(term.log_density - other.log_density)
            if not gap.has(variable):
                # the larger one is kept, so that exp(gap) cannot overflow
                larger, smaller = (term, other) if weak_sign(gap, facts) == 1 else (other, term)
                kept[i] = _sum(larger, smaller, -gap if larger is term else gap)
                break
        else:
            kept.append(term)
    return tuple(kept)


def _sum(larger: Term, smaller: Term, gap: Expr) -> Term:
    """The sum of two terms, the second one exp(gap) times the shape of the first."""
    added = larger.weight + smaller.weight * exp(gap)
    flat = sp.expand(added)
    return Term(sp.factor_terms(added) if isinstance(flat, Add) else flat, larger.log_density)


def _tidy(log_density: Expr, variable: Symbol) -> Expr:
    """-(a - x)/b as (x - a)/b."""
    coefficient, factors = log_density.as_coeff_mul()
    for i, sum_ in enumerate(factors):
        if isinstance(sum_, Add) and sum_.coeff(variable).could_extract_minus_sign():
            return Mul(-coefficient, *factors[:i], -sum_, *factors[i + 1 :])
    return log_density


def without_differences(expr: Expr, x: Symbol, facts: Facts) -> Expr:
    """A density with differences of increasing functions of x replaced, where that is proved."""
    if isinstance(expr, Mul):
        return Mul(*(without_differences(part, x, facts) for part in expr.args))
    if not isinstance(expr, Add) or not expr.has(x):
        return expr
    parts = Add(*(without_differences(a, x, facts) if a.is_Mul else a for a in expr.args))
    if parts != expr and not parts.has(sp.erf, sp.erfc, sp.atan, sp.tanh):
        return parts  # a mixture, each of its laws by itself
    paired = _paired(expr, x, facts)
    if paired is not expr or not any(a.could_extract_minus_sign() for a in expr.args):
        return paired
    return _factored(expr, x)


def _paired(whole: Add, x: Symbol, facts: Facts) -> Expr:
    """Pairs of an odd function with opposite coefficients, the larger argument first."""
    waiting, rest = [], S.Zero
    expr = whole.replace(sp.erfc, lambda u: 1 - sp.erf(u)).replace(sp.atan, _of_exponential)
    for term in sp.expand(expr, deep=False).args:
        c, f = _with_sigmoid(term, x).as_independent(x, as_Add=False)
        if isinstance(f, (sp.erf, sp.atan, sp.tanh, sigmoid)):
            waiting.append((c, f.func, f.args[0]))
        else:
            rest += term
    found, lonely = S.Zero, S.Zero
    while waiting:
        c, odd, u = waiting.pop(0)
        for index, (d, other, v) in enumerate(waiting):
            gap = None if other is not odd else _gap(c, u, d, v, facts)
            if gap is not None:
                found += gap[0] * _distance(odd, *gap[1:])
                del waiting[index]
                break
        else:
            lonely += c
    return found + rest if found != 0 and lonely == 0 else whole


def _of_exponential(u: Expr) -> Expr:
    """Write the Gudermannian function, atan of sinh or tanh, as atan of an exponential."""
    if isinstance(u, sp.sinh):
        return 2 * sp.atan(exp(u.args[0])) - sp.pi / 2
    return sp.atan(exp(2 * u.args[0])) - sp.pi / 4 if isinstance(u, sp.tanh) else sp.atan(u)


class sigmoid(sp.Function):  # type: ignore[misc]
    """u/sqrt(1 + u^2), as in the distribution function of Student's law of 2 degrees."""


def _with_sigmoid(term: Expr, x: Symbol) -> Expr:
    """Write c u/sqrt(1 + u^2), c > 0, as c sigmoid(u) for a function u of x that is affine."""
    c, f = term.as_independent(x, as_Add=False)
    roots = [a for a in Mul.make_args(f) if a.is_Pow and a.exp == -S.Half]
    over = affine_in(f / roots[0], x) if len(roots) == 1 else None
    under = polynomial_in(roots[0].base, x, 2) if over is not None else None
    if over is None or under is None or len(under) < 3:
        return term
    u, share = f / roots[0], under[2] / over[0] ** 2
    rest = sp.simplify(roots[0].base - share * u**2)
    if rest.has(x) or not (share.is_positive and rest.is_positive):
        return term
    return c / sp.sqrt(share) * sigmoid(u * sp.sqrt(share / rest))


def _gap(c: Expr, u: Expr, d: Expr, v: Expr, facts: Facts) -> tuple[Expr, Expr, Expr] | None:
    """(k, a, b) with c F(u) + d F(v) = k (F(a) - F(b)), a > b, for an odd function F."""
    if sp.expand(c - d) == 0:
        d, v = -d, -v
    elif sp.expand(c + d) != 0:
        return None
    distance = sp.expand(u - v)
    if exceeds_zero(distance, facts):
        return c, u, v
    return (d, v, u) if exceeds_zero(-distance, facts) else None


def _distance(function: Any, a: Expr, b: Expr) -> Expr:
    if function is sigmoid:
        one, other = sp.sqrt(1 + a**2), sp.sqrt(1 + b**2)
        apart = sp.factor(sp.expand(a - b))
        return apart * (one + other) / (one * other * (1 + one * other + sp.expand(a * b)))
    if function is sp.atan and isinstance(a, exp) and isinstance(b, exp):  # which overflow
        middle, half = (sp.factor(sp.expand((a.exp + sign * b.exp) / 2)) for sign in (1, -1))
        return atan2(sp.sinh(half), sp.cosh(middle))
    if function is sp.atan:
        return atan2(sp.factor(sp.expand(a - b)), 1 + a * b)
    if function is sp.tanh:
        return sp.sinh(sp.factor(sp.expand(a - b))) / (sp.cosh(a) * sp.cosh(b))
    return exp(log_erf_gap(sp.factor(sp.expand((a + b) / 2)), sp.factor(sp.expand((a - b) / 2))))


def _factored(expr: Expr, x: Symbol) -> Expr:
    """A rational function of one exponential as a product."""
    if not expr.has(exp) or degree(expr) > MAX_DEGREE:
        return expr
    form = rational_in(expr, x)
    if form is None or form.function is not exp:
        return expr
    over, under = fraction(form.expr)
    product = factored(over)
    if product == over:  # too much work; where terms cancel, they must do so here
        product = sp.factor_terms(sp.expand(over))
    product /= factored(under)
    if not isinstance(product, Mul):
        return expr
    return product.xreplace({form.symbol: form.of(x)})
