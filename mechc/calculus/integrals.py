"""Closed integrals of a density: terms, the mass at infinite loss, distribution functions.

Input: a term weight * exp(log_density) and an interval (or a range of integers). Output: its
antiderivative, its mass, or None. Rules: affine exponent; quadratic exponent with a negative
leading coefficient (error function); a density f'(x) exp(f(x)), such as Gumbel's; polynomials,
sines and cosines; a rational function of one exponential (partial fractions); one over a quadratic
(arctangent); geometric sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp
from sympy import Add, Expr, S, Symbol, exp, log, oo
from sympy import pi as PI

from mechc.calculus.types import Closed, Entry, Kind, Numeric, Region, Unavailable, joined
from mechc.symbolic.asymptotics import Expansion, Unknown, end_point
from mechc.symbolic.facts import Facts, exact_end
from mechc.symbolic.functions import expm1c
from mechc.symbolic.rewrite import affine_in, cancelled, polynomial_in, rational_in, tidy
from mechc.symbolic.signs import exceeds_zero, proved

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom
    from mechc.calculus.terms import Term
    from mechc.symbolic.parameters import Parameter


LONGEST = 850
"""Operations in a closed form: beyond, quadrature compiles in a fifth of the time."""


def mass(
    terms: tuple[Term, ...], x: Symbol, lo: Expr, hi: Expr, facts: Facts, lattice: bool
) -> Expr | None:
    """Integral of a density over (lo, hi), or sum over the integers lo..hi; None without a rule."""
    total: Expr = S.Zero
    for term in terms:
        part = _definite(term.log_density, x, lo, hi, facts, lattice)
        if part is None:
            return None
        total += term.weight * part
    return total


def integral_to(terms: tuple[Term, ...], x: Symbol, lo: Expr, facts: Facts) -> Expr | None:
    """Integral of a density from lo to x, None when no rule finds it."""
    total: Expr = S.Zero
    for term in terms:
        primitive = antiderivative(term.log_density, x, facts)
        start = None if primitive is None else _at(primitive, x, lo)
        if primitive is None or start is None:
            return None
        total += sp.expand_mul(cancelled(term.weight) * (primitive - start))
    return total


def exponential(
    k: Expr, m: Expr, lo: Expr, hi: Expr, facts: Facts, lattice: bool, z: Symbol | None = None
) -> Expr | None:
    """Integral of exp(k*x + m) over (lo, hi), or its sum over the integers lo..hi.

    None where it diverges or signs are open. Where k depends on z, convergence at z = 0 decides
    (and the strip is the caller's).
    """
    width = hi - lo + int(lattice)
    if k == 0:
        return None if width.is_infinite else width * exp(m)
    if not lo.is_infinite and not hi.is_infinite:
        whole = width * exp(sp.expand(k * lo + m)) * expm1c(sp.expand(k * width))
        return whole / expm1c(k) if lattice else whole
    side = proved(k if z is None else k.subs(z, 0), facts)
    near, far = (lo, hi) if side == -1 else (hi, lo)
    if side not in (1, -1) or near.is_infinite or not far.is_infinite:
        return None
    return exp(sp.expand(k * near + m)) / (1 - exp(-side * k) if lattice else side * k)


def _definite(
    exponent: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts, lattice: bool
) -> Expr | None:
    """Integral or sum of exp(exponent); tails are what their primitive is at the inner end."""
    affine = polynomial_in(exponent, x, 1)
    if affine is not None:
        intercept, slope = (*affine, S.Zero)[:2]
        return exponential(slope, intercept, lo, hi, facts, lattice)
    if lattice:
        return None
    if hi is oo and lo is not -oo:
        mirrored = sp.expand(exponent.subs(x, -x))
        return _between(antiderivative(mirrored, x, facts), x, -oo, -lo)
    return _between(antiderivative(exponent, x, facts), x, lo, hi)


def _between(primitive: Expr | None, x: Symbol, lo: Expr, hi: Expr) -> Expr | None:
    """Difference of a primitive at two ends, nothing left of it that cancels."""
    upper, lower = (None if primitive is None else _at(primitive, x, end) for end in (hi, lo))
    if upper is None or lower is None:
        return None
    whole = upper - lower
    nested = any(node.args[0].has(exp) for node in whole.atoms(exp))
    if lower == 0 or nested or whole.has(sp.erfc, sp.atan):
        return whole
    # polynomials nearly cancel over a short interval, exponentials in a tail: factors do not
    return sp.factor(whole)


def _at(primitive: Expr, x: Symbol, end: Expr) -> Expr | None:
    """Value at an end; the primitives used here tend to a known limit at infinity."""
    if not end.is_infinite:
        return primitive.subs(x, end)
    value = S.Zero
    for term in Add.make_args(primitive):
        limit = _limit(term, x, end)
        if limit is None:
            return None
        value += limit
    return value


def _limit(term: Expr, x: Symbol, end: Expr) -> Expr | None:
    y, approach = end_point(x, end, True)
    constant, rest = term.as_independent(x, as_Add=False)
    inside = rest.args[0] if isinstance(rest, exp) else rest
    try:
        limit = Expansion(y, Facts()).limit(inside.subs(x, approach))
    except Unknown:
        return None
    if isinstance(rest, exp):
        limit = exp(limit)
    return None if limit.is_infinite else constant * limit


def antiderivative(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    """An antiderivative of exp(exponent), None when no rule applies.

    It vanishes at -oo wherever the integral from -oo converges and a rule can arrange it.
    """
    if not exponent.has(x):
        return x * exp(exponent)
    for rule in _RULES:
        found = rule(exponent, x, facts)
        if found is not None:
            return found
    return None


def _affine(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    affine = affine_in(exponent, x)
    return exp(exponent) / affine[0] if affine else None


def _gaussian(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    coefficients = polynomial_in(exponent, x, 2)
    if coefficients is None or len(coefficients) < 3:
        return None
    c, b, a = coefficients
    if proved(a, facts) != -1:
        return None
    root = sp.powdenest(sp.sqrt(-a), force=True)
    peak = exp(sp.expand(c - b**2 / (4 * a)))
    return sp.sqrt(PI) / (2 * root) * peak * sp.erfc(sp.expand(b / (2 * root) - root * x))


def _own_derivative(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    """exp(f) * f' up to a constant: f is one of the terms of the exponent."""
    for part in Add.make_args(sp.expand(exponent)):
        if affine_in(part, x) is not None or not part.has(x):
            continue
        ratio = tidy(exponent - part, x) - _log_abs(sp.diff(part, x), x)
        ratio = sp.expand(ratio)
        if not ratio.has(x):
            side = proved(sp.diff(part, x), facts.within(x, -oo, oo))
            return None if side is None else side * exp(ratio + part)
    return None


def _log_abs(expr: Expr, x: Symbol) -> Expr:
    """Log of the absolute value of constant * exp(affine)."""
    constant, rest = expr.as_independent(x, as_Add=False)
    exponents = [a.args[0] if isinstance(a, exp) else log(a) for a in rest.as_ordered_factors()]
    if constant.could_extract_minus_sign():
        constant = -constant
    return Add(log(constant), *exponents)


def _density(exponent: Expr, x: Symbol) -> Expr:
    """exp(exponent) with logarithms in the exponent turned back into powers."""
    product = S.One
    for term in Add.make_args(exponent):
        coefficient, rest = term.as_independent(x, as_Add=False)
        product *= rest.args[0] ** coefficient if isinstance(rest, log) else exp(term)
    return product


def _term_by_term(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    """Polynomials plus sines and cosines of affine functions."""
    total = S.Zero
    for term in Add.make_args(sp.expand(_density(exponent, x))):
        constant, rest = term.as_independent(x, as_Add=False)
        if isinstance(rest, (sp.cos, sp.sin)):
            affine = affine_in(rest.args[0], x)
            if affine is None:
                return None
            turned = sp.sin(rest.args[0]) if isinstance(rest, sp.cos) else -sp.cos(rest.args[0])
            total += constant * turned / affine[0]
            continue
        base, power = rest.as_base_exp()
        if rest != 1 and (base != x or not power.is_Integer or power < 0):
            return None
        total += constant * (x if rest == 1 else x ** (power + 1) / (power + 1))
    return total


def _rational_exponential(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    """Rational function of E = exp(c*x): integral of R(E)/(c*E) dE where only powers remain."""
    rational = rational_in(_density(exponent, x), x)
    if rational is None or rational.function is not exp or rational.expr.has(x):
        return None
    generator = rational.symbol
    integrand = sp.apart(cancelled(sp.together(rational.expr / generator)), generator)
    total = S.Zero
    for part in Add.make_args(integrand):
        numerator, denominator = sp.fraction(sp.factor(part))
        if numerator.has(generator):
            return None
        base, power = denominator.as_independent(generator, as_Add=False)[1].as_base_exp()
        slope = sp.diff(base, generator)
        if slope.has(generator) or power == 1 or not power.is_Integer:
            return None
        total += part * base / (slope * (1 - power))
    return sp.factor(total.subs(generator, rational.of(x)) / rational.rate)


def _lorentzian(exponent: Expr, x: Symbol, facts: Facts) -> Expr | None:
    """One over a quadratic without real roots."""
    numerator, denominator = sp.fraction(sp.together(_density(exponent, x)))
    try:
        poly = sp.Poly(denominator, x)
    except sp.PolynomialError:
        return None
    if poly.degree() != 2 or numerator.has(x) or any(c.has(x) for c in poly.all_coeffs()):
        return None
    a, b, c = poly.all_coeffs()
    gap = sp.factor(4 * a * c - b**2)
    if proved(gap, facts) != 1:
        return None
    root = sp.powdenest(sp.sqrt(gap), force=True)
    return 2 * numerator / root * sp.atan(sp.expand((2 * a * x + b) / root))


_RULES = (_affine, _gaussian, _own_derivative, _term_by_term, _rational_exponential, _lorentzian)


def _vanishes_alone(place: Region | Atom, parameters: Sequence[Parameter]) -> bool:
    """Whether Q has no weight, and P has some, at an end of the domain of a parameter."""
    p, q = (Add(*(term.weight for term in side)) for side in (place.p, place.q))
    ends = ((a, exact_end(end)) for a in parameters if a.symbol in q.free_symbols
            for end in (a.lo, a.hi) if a.contains(end))  # fmt: skip
    return any(q.subs(a.symbol, end) == 0 != p.subs(a.symbol, end) for a, end in ends)


def _may_vanish(region: Region, x: Symbol, facts: Facts) -> bool:
    """Whether every term of Q has the log of what is not proved positive on its integers."""
    here = facts.within(x, region.lo, region.hi)
    places = [(x, here), *((e, facts) for e in (region.lo, region.hi) if not e.is_infinite)]
    logs = ({a.args[0] for a in t.log_density.atoms(log) if a.has(x)} for t in region.q)
    return bool(region.q) and all(
        any(not exceeds_zero(u.subs(x, at), known) for u in some for at, known in places)
        for some in logs
    )


def infinite_mass(
    regions: Sequence[Region], atoms: Sequence[Atom], x: Symbol, facts: Facts, lattice: bool,
    parameters: Sequence[Parameter],
) -> Entry:  # fmt: skip
    """P(q = 0) in closed form, as a tuple of masses that add up to it."""
    parts: list[Expr] = []
    places: list[Region | Atom] = [*regions, *atoms]
    for place in places:
        if place.p and place.q and _vanishes_alone(place, parameters):
            return Numeric("Q vanishes for some parameters where P does not; found when bound")
    for region in regions:
        if lattice and region.p and _may_vanish(region, x, facts):
            return Numeric(
                f"Q may have no mass at an integer in {region.interval}; found when bound"
            )
        for term in region.p if region.kind is Kind.P_ONLY else ():
            part = mass((term,), x, region.lo, region.hi, facts, lattice)
            if part is None:
                return Numeric(f"no closed mass on {region.interval}; integrated when bound")
            parts.append(part)
    parts += [term.whole for atom in atoms if not atom.q for term in atom.p]
    return Closed(sp.Tuple(*parts), "closed masses" if parts else "no such region")


def distribution(
    regions: Sequence[Region], side: str, x: Symbol, facts: Facts, smooth: bool
) -> Entry:
    """Distribution function of the output under P (side "p") or Q ("q")."""
    if not smooth:
        return Unavailable("only derived for densities without atoms")
    arms: list[tuple[Expr, object]] = []
    before, left = S.Zero, LONGEST
    last: Expr | None = None
    for part in joined([replace(r, p=r.p if side == "p" else r.q, q=()) for r in regions]):
        lo, hi, terms = part.lo, part.hi, part.p
        if last is not None and lo != last:
            arms.append((before, x < lo))  # a gap, such as between disjoint supports
        last = hi
        here = integral_to(terms, x, lo, facts)
        whole = mass(terms, x, lo, hi, facts, False) if hi != oo else S.Zero
        if here is None or whole is None:
            return Unavailable(f"no rule for the antiderivative on ({lo}, {hi})")
        arms.append((before + here, x < hi if hi != oo else sp.true))
        left -= arms[-1][0].count_ops()
        if left < 0:
            reason = f"a formula of more than {LONGEST} operations; integrated when bound"
            return Unavailable(reason)
        before += whole
    if arms and arms[-1][1] != sp.true:
        arms.append((S.One, sp.true))
    if regions and regions[0].lo != -oo:
        arms.insert(0, (S.Zero, x < regions[0].lo))
    return Closed(sp.Piecewise(*arms), "antiderivatives by rule")
