"""Where the loss rises and where it falls.

Input: the loss on an interval and `Facts`. Output: the interval cut at the real roots of the
derivative, each part with its direction. Rules, in order: a structural one (sums, increasing
functions and mixtures of monotone parts are monotone); the sign of the derivative, freed of
constants and increasing functions and written as a rational function of the variable and one
exponential; the mean value theorem for a pair of shifts, L(x) = b(x - d) - b(x) + c, whose
direction is that of -d*b'' and needs only the curvature of the log density; on integers the step
to the next one, where gamma functions leave a product; closed roots of a numerator of degree at
most two, in the variable, its log or a power of it, which of them lie inside proved from signs at
the ends; the one zero of all parts of an odd slope. What no rule decides is "unsplit", never an
error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import sympy as sp
from sympy import Add, Expr, Mul, Pow, Symbol, exp, log, oo

from mechc.symbolic.curvature import affine_parts, curvature, shifted_pairs
from mechc.symbolic.facts import Facts, Undecided, is_certain
from mechc.symbolic.functions import (
    atan2,
    expm1c,
    log_besselk,
    log_erf_gap,
    log_mix,
    sinhc,
    spell_out,
)
from mechc.symbolic.rewrite import (
    MOST_FACTORED,
    RationalForm,
    affine_in,
    factored,
    fraction,
    monomials,
    rational_in,
    rational_in_power,
)
from mechc.symbolic.signs import exceeds_zero, proved, sign

INCREASING = (log, exp, sp.sinh, sp.tanh, sp.asinh, sp.atan, sp.erf)

_ENTIRE = (
    Add, Mul, exp, sp.erf, sp.erfc, sp.sinh, sp.cosh, sp.tanh, sp.sech, sp.sin, sp.cos, sp.atan,
    sp.asinh, atan2, log_mix, sinhc, expm1c,
)  # fmt: skip

# functions that are smooth where these are positive
_SMOOTH_WHERE: dict[type, Callable[..., tuple[Expr, ...]]] = {
    **dict.fromkeys((log, sp.gamma, sp.loggamma), lambda u: (u,)),
    **dict.fromkeys((sp.coth, sp.csch), lambda u: (u**2,)),
    **dict.fromkeys((sp.tan, sp.sec), lambda u: (sp.cos(u) ** 2,)),
    **dict.fromkeys((sp.cot, sp.csc), lambda u: (sp.sin(u) ** 2,)),
    **dict.fromkeys((sp.asin, sp.acos, sp.atanh), lambda u: (1 - u**2,)),
    **dict.fromkeys((sp.besselk, log_besselk), lambda order, z: (z,)),
    sp.besseli: lambda order, z: () if order.is_integer else (z,),
    log_erf_gap: lambda middle, half: (half,),
    sp.factorial: lambda n: (n + 1,),
    sp.binomial: lambda n, k: (n + 1,),
}


def is_smooth(expr: Expr, x: Symbol, facts: Facts) -> bool:
    """Whether an expression has no jump, pole or branch point inside the interval, by proof."""
    if not expr.has(x) or expr == x:
        return True
    if not all(is_smooth(part, x, facts) for part in expr.args):
        return False
    if isinstance(expr, Pow):
        whole, positive = expr.exp.is_integer, expr.exp.is_nonnegative
        apart = expr.base**2 if whole else expr.base
        return bool(whole and positive) or exceeds_zero(spell_out(apart), facts)
    if isinstance(expr, _ENTIRE):
        return True
    where = _SMOOTH_WHERE.get(type(expr))
    return where is not None and all(exceeds_zero(spell_out(u), facts) for u in where(*expr.args))


def core(loss: Expr, x: Symbol, facts: Facts) -> tuple[int, Expr]:
    """Strip constants and increasing functions: loss rises where orientation*core rises."""
    orientation = 1
    while True:
        constant, rest = loss.as_independent(x, as_Add=True)
        factor_, inner = rest.as_independent(x, as_Add=False)
        if constant != 0 or factor_ != 1:
            orientation *= sign(factor_, facts)
            loss = inner
        elif isinstance(loss, log_mix):
            loss = loss.args[1]
        elif isinstance(loss, INCREASING):
            loss = loss.args[0]
        else:
            return orientation, loss


def derivative(loss: Expr, x: Symbol, facts: Facts) -> tuple[int, RationalForm]:
    """Orientation and derivative of the core, as a rational function where it is one."""
    orientation, inner = core(loss, x, facts)
    slope = sp.diff(inner, x)
    return orientation, rational_in(slope, x) or RationalForm(slope, x, x)


@dataclass(frozen=True)
class Part:
    """An interval on which the loss is monotone: direction +1, -1, 0, or None if undecided."""

    lo: Expr
    hi: Expr
    direction: int | None


def at_roots(loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> list[Part]:
    """Cut at the roots of a numerator of degree one or two in x or in the generator."""
    return _cut(*derivative(loss, x, facts), lo, hi, facts)


def at_roots_of_power(loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> list[Part]:
    """The same in the log of x > 0, or in a power of it whose exponent is a parameter."""
    if proved(x, facts) != 1:
        return []
    orientation, inner = core(loss, x, facts)
    rational = rational_in_power(sp.diff(inner, x), x)
    return [] if rational is None else _cut(orientation, rational, lo, hi, facts)


def _cut(orientation: int, rational: RationalForm, lo: Expr, hi: Expr, facts: Facts) -> list[Part]:
    x, open_factor = rational.x, None
    numerator, denominator = fraction(rational.expr)
    rest = orientation * sign(denominator.xreplace({rational.symbol: rational.of(x)}), facts)
    for part in Mul.make_args(factored(numerator)):
        try:
            rest *= sign(part, facts)
        except Undecided:
            if not part.has(x, rational.symbol):
                raise
            if open_factor is not None:
                return []
            open_factor = part
    interval = _interval_of(rational, lo, hi)
    mixed = rational.function is not None and open_factor is not None and open_factor.has(x)
    if open_factor is None or interval is None or mixed:
        return []
    roots = _real_roots(open_factor, rational.symbol, *interval, facts)
    if roots is None:
        return []
    cuts, last = roots
    ends = [lo, *map(rational.place, cuts), hi]
    parts, direction = [], rest * last
    for left, right in reversed(list(pairwise(ends))):
        parts.append(Part(left, right, direction))
        direction = -direction
    return parts[::-1]


def _interval_of(rational: RationalForm, lo: Expr, hi: Expr) -> tuple[Expr, Expr] | None:
    """The interval as the generator runs through it, upwards where the rate is positive."""
    if rational.function is sp.tan or not rational.rate.is_positive:
        return None
    low = -oo if rational.function is log and lo == 0 else rational.of(lo)
    return low, rational.of(hi)


def _real_roots(
    polynomial: Expr, g: Symbol, lo: Expr, hi: Expr, facts: Facts
) -> tuple[list[Expr], int] | None:
    """Roots of a linear or quadratic in the open interval, and its sign just below `hi`."""
    poly = None if monomials(polynomial) > MOST_FACTORED else polynomial.as_poly(g)
    if poly is None or poly.degree() not in (1, 2):
        return None
    first, last = _sign_at(poly, lo, facts), _sign_at(poly, hi, facts)
    if poly.degree() == 1:
        b, a = poly.all_coeffs()[::-1]
        return ([sp.factor(-b / a)], last) if first * last < 0 else None
    c, b, a = poly.all_coeffs()[::-1]
    root = sp.sqrt(sp.factor(b**2 - 4 * a * c))
    opens = sign(a, facts)
    smaller, larger = ((-b - opens * root) / (2 * a), (-b + opens * root) / (2 * a))
    if first * last < 0:
        return [larger if last == opens else smaller], last
    if sign(b**2 - 4 * a * c, facts) <= 0 or first != opens:
        return None
    vertex = sp.factor(-b / (2 * a))
    inside = all(
        end.is_infinite or sign((vertex - end) * side, facts) > 0
        for end, side in ((lo, 1), (hi, -1))
    )
    return ([smaller, larger], last) if inside else None


def _sign_at(poly: sp.Poly, end: Expr, facts: Facts) -> int:
    if end is oo:
        return sign(poly.LC(), facts)
    if end is -oo:
        return sign(poly.LC(), facts) * (-1 if poly.degree() % 2 else 1)
    return sign(sp.factor(poly.eval(end)), facts)


def at_common_zero(loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> list[Part]:
    """Cut the line at the one zero of all affine parts of the slope, as that of an odd function."""
    orientation, slope = derivative(loss, x, facts)
    if (lo, hi) != (-oo, oo) or slope.expr.has(exp) or slope.function is not None:
        return []
    places = {-intercept / rate for rate, intercept in affine_parts(slope.expr, x)}
    if len(places) > 1:
        return []
    return [
        Part(*ends, orientation * sign(slope.expr, facts.within(x, *ends)))
        for place in places for ends in ((lo, place), (place, hi))
    ]  # fmt: skip


def monotone_parts(
    loss: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts
) -> tuple[list[Part], Expr | None]:
    """Cut (lo, hi) into parts on which the loss is monotone.

    Returns:
        The parts in order, and, if they are unsplit only because the sign of an expression in
        the parameters is open, that expression (the caller may split the case on it).
    """
    inside = facts.within(x, lo, hi)
    certain = is_certain(lo, hi)
    if not is_smooth(loss, x, inside):  # declared densities are cut at their poles
        return [Part(lo, hi, None)], None
    questions: list[Expr] = []
    for rule in (_by_structure, _by_derivative, _by_pairs, _by_steps):
        try:
            direction = rule(loss, x, inside)
        except Undecided as open_sign:
            questions.append(open_sign.expr)
            continue
        if direction is not None:
            return [Part(lo, hi, direction)], None
    # in an interval that may be empty a root is not where it should be
    for extrema in EXTREMA if certain else ():
        try:
            parts = extrema(loss, x, lo, hi, inside)
        except Undecided as open_sign:
            questions.append(open_sign.expr)
            continue
        if parts:
            return parts, None
    # without the variable, as such or encoded
    still = (e for e in questions if not any(s == x or s.is_Dummy for s in e.free_symbols))
    return [Part(lo, hi, None)], next(still, None)


EXTREMA = (at_roots, at_roots_of_power, at_common_zero)


def _by_structure(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    """Sums and compositions of monotone functions."""
    if not loss.has(x):
        return 0
    if loss == x:
        return 1
    if isinstance(loss, Add):
        directions = {_by_structure(a, x, facts) for a in loss.args} - {0}
        return directions.pop() if len(directions) == 1 else None
    if isinstance(loss, Mul):
        constant, rest = loss.as_independent(x, as_Add=False)
        direction = None if rest.is_Mul else _by_structure(rest, x, facts)
        return None if direction is None else sign(constant, facts) * direction
    if isinstance(loss, log_mix):
        return _by_structure(loss.args[1], x, facts)
    if isinstance(loss, (*INCREASING, sp.erfc)):
        direction = _by_structure(loss.args[0], x, facts)
        falls = isinstance(loss, sp.erfc)
        return direction if direction is None else -direction if falls else direction
    if isinstance(loss, Pow) and not loss.exp.has(x):
        direction = _by_structure(loss.base, x, facts)
        if direction is None:
            return None
        if loss.exp.is_odd and loss.exp.is_positive:
            return direction
        return direction * sign(loss.exp, facts) * _even_or_positive(loss, facts)
    return None


def _even_or_positive(power: Expr, facts: Facts) -> int:
    """+1 on positive bases; on negative ones an even power turns the direction round."""
    base = sign(power.base, facts)
    if base < 0 and not power.exp.is_even:
        raise Undecided(power)
    return base


def _by_derivative(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    orientation, slope = derivative(loss, x, facts)
    return orientation * sign(slope.expr, facts)


def _by_pairs(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    """c*h(x + d) - c*h(x) has derivative c*d*h''(somewhere between): the mean value theorem."""
    orientation, inner = core(loss, x, facts)
    pairs, alone = shifted_pairs(inner, x)
    directions: set[int | None] = {_by_structure(alone, x, facts)} if alone.has(x) else {0}
    for constant, function, shift in pairs:
        forward = sign(shift, facts)
        between = facts.stretched(x, shift, forward)
        if not is_smooth(function, x, between):
            return None
        bend = curvature(function, x, between)
        directions.add(None if bend is None else sign(constant, facts) * forward * bend)
    directions -= {0}
    if None in directions or len(directions) != 1:
        return None
    return orientation * (directions.pop() or 0)


def _by_steps(loss: Expr, x: Symbol, facts: Facts) -> int | None:
    """On integers of a loss with gamma functions the sign of a step, the log of a product.

    From log Gamma(u + 1) - log Gamma(u) = log u.
    """
    orientation, inner = core(loss, x, facts)
    gammas, rest = _parted(inner)
    if not x.is_integer or not gammas:
        return None
    product = exp(sp.expand(rest.subs(x, x + 1) - rest))
    for factor, argument in gammas:
        rate, _ = affine_in(argument, x) or (sp.nan, sp.nan)
        if not factor.is_integer or rate not in (1, -1):
            return None
        product *= argument**factor if rate == 1 else (argument - 1) ** -factor
    above, below = fraction(product)
    return orientation * sign(factored(above - below), facts) * sign(below, facts)


def _parted(loss: Expr) -> tuple[list[tuple[Expr, Expr]], Expr]:
    """Factors and arguments of the log gammas of a sum, and the rest of it."""
    gammas, rest = [], []
    for part in Add.make_args(sp.expand(loss)):
        factor, function = part.as_coeff_Mul()
        if isinstance(function, sp.loggamma):
            gammas.append((factor, function.args[0]))
        else:
            rest.append(part)
    return gammas, Add(*rest)
