"""Integrals in declarations: those that SymPy finds, and constants of densities known up to one.

`integrated` collects exponents in the variable of integration, and integrates coefficients whose
sign is known as symbols of that sign: the integral of exp(-t*(1 + x**2)) needs no cases then. What
comes out holds erf(u) - 1 next to exp(u**2) more often than not: an erfc.

`with_constants` replaces `shape(expr)`. On the integers the constant is a sum. On the line it is
the closed integral of pieces that are cubics or exponentials, and elsewhere a sum too, that of the
double exponential rule (Takahasi, Mori 1974): every interval between switches is cut in half, and
each half is run through by lo + width/(1 + exp(-pi sinh t)), or by lo + exp(pi/2 sinh t) where it
has no end, with t in equal steps. Kernels add it up in doubles; what the rule leaves out is a
relative error of all masses, which every bound carries as the defect of the total mass. Certified
answers and certificates take the integral, which stands beside the rule.
"""

from __future__ import annotations

import sympy as sp
from sympy import Add, Dummy, Expr, Integral, Mul, Pow, S, Sum, Symbol, cosh, exp, oo, pi, sinh

from mechc.errors import DeclarationError
from mechc.symbolic.breakpoints import split
from mechc.symbolic.facts import Facts, Undecided
from mechc.symbolic.functions import QuadratureSum, expm1c, shape
from mechc.symbolic.signs import proved, weak_sign

STEP = sp.Rational(1, 96)
"""Of t: the scale of x changes by 1.6 % from one node to the next at 1, by 15 % at 1e6."""
REACH = 442
"""Steps to either side: halves reach from 1e-34 to 1e34 of their width, or of one."""


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


def with_constants(
    expr: Expr, variable: Symbol, support: tuple[Expr, Expr], facts: Facts, where: str
) -> Expr:
    """Replace every `shape(f)` in an expression by f over its integral, or sum, on the support."""

    def scaled(f: Expr) -> Expr:
        if f.is_zero:
            raise DeclarationError(f"{where}: shape({f}) has no mass")
        # exp(u) - 1 cancels for small u, and kernels have no sech
        f = f.replace(sp.sech, lambda u: 1 / cosh(u))
        f = f.replace(
            lambda e: isinstance(e, Add) and isinstance(e + 1, exp),
            lambda e: 2 * exp((e + 1).args[0] / 2) * sinh((e + 1).args[0] / 2),
        )
        return f / _total(f, variable, support, facts, where)

    return expr.replace(shape, scaled)


def _total(f: Expr, variable: Symbol, support: tuple[Expr, Expr], facts: Facts, where: str) -> Expr:
    lo, hi = support
    if variable.is_integer:
        index = Symbol("k", integer=True)
        if lo == -oo and hi != oo:
            return Sum(f.subs(variable, -index), (index, -hi, oo))
        return Sum(f.subs(variable, index), (index, lo, hi))
    try:
        stretches = split((f,), variable, lo, hi, facts)
    except Undecided as open_sign:
        raise DeclarationError(
            f"{where}: the constant of shape({f}) is not found where the sign of {open_sign.expr} "
            "depends on the parameters; state the constant, or write lengths of pieces as "
            "parameters, a and a + b"
        ) from None
    pairs = zip(stretches, stretches[::-1], strict=True)
    even = f.subs(variable, -variable) == f and all(one.lo == -other.hi for one, other in pairs)
    # what is left of the middle is written otherwise, and is the same
    middle, total = (len(stretches) - 1) / 2 if even else -1, S.Zero
    for place, (a, b, (g,)) in enumerate(stretches):
        if place < middle or g == 0:
            continue
        found, times = _closed(g, variable, a, b, facts), 2 if even and place > middle else 1
        if found is None:
            whole = _halves(a, b)
            if place == middle:
                whole, times = whole[1:], 2
            found = Add(*(_half(g, variable, *half) for half in whole))
        total += times * found
    return total


def _closed(f: Expr, x: Symbol, lo: Expr, hi: Expr, facts: Facts) -> Expr | None:
    """The integral of a cubic, by Simpson's rule whose terms do not cancel, or of c exp(k x)."""
    width = hi - lo
    if f.is_polynomial(x) and not width.is_infinite and (degree := sp.degree(f, x)) <= 3:
        middle = f.subs(x, (lo + hi) / 2)
        ends = f.subs(x, lo) + f.subs(x, hi)
        return width * (middle if degree < 2 else (ends + 4 * middle) / 6)
    rate = sp.expand(sp.diff(f, x) / f)
    if rate.has(x):
        return None
    if not width.is_infinite:
        return f.subs(x, lo) * width * expm1c(sp.expand(rate * width))
    side = proved(rate, facts)
    near = lo if side == -1 else hi
    return None if side is None or near.is_infinite else side * f.subs(x, near) / rate


def _halves(lo: Expr, hi: Expr) -> list[tuple[Expr, int, Expr]]:
    """(start, direction, width) of one or two parts."""
    if lo == -oo and hi == oo:
        return [(S.Zero, -1, oo), (S.Zero, 1, oo)]
    return [(end, side, (hi - lo) / 2) for end, side in ((lo, 1), (hi, -1)) if abs(end) != oo]


def _half(f: Expr, variable: Symbol, start: Expr, side: int, width: Expr) -> Expr:
    """The rule for f over `width` from `start` on, to the right (side 1) or to the left (-1)."""
    index = Symbol("k", integer=True)
    t = STEP * index
    if width == oo:
        away = exp(pi / 2 * sinh(t))
        slope = pi / 2 * cosh(t) * away
    else:
        away = width / (1 + exp(-pi * sinh(t)))
        slope = away * pi * cosh(t) / (1 + exp(pi * sinh(t)))
    distance, x = Dummy(positive=True), Dummy(real=True)
    whole = Integral(f.subs(variable, x), (x, *(start, start + side * width)[::side]))
    f = f.subs(variable, start + side * distance).replace(
        # next to an end such a base is the rounding of its terms, of any sign, but for factors
        lambda e: isinstance(e, Pow) and e.base.is_polynomial(distance) and _vanishes(e, distance),
        lambda e: sp.factor(e.base) ** e.exp,
    )
    term = f.subs(distance, away) * slope * STEP
    return QuadratureSum(term, (index, -REACH, REACH), whole)


def _vanishes(power: Pow, distance: Symbol) -> bool:
    """Whether a base is zero at distance zero."""
    return bool(power.base.has(distance) and sp.expand(power.base.subs(distance, 0)) == 0)
