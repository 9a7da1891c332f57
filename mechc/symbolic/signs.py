"""Signs of expressions, proved from parameter domains, never guessed.

Input: an expression and `Facts` (parameter domains, the case condition, signs assumed in a case).
Output: -1, 0 or +1, or `Undecided`, which names the factor that no rule could sign. A factor free
of the variable may then become a case split; anything else leaves a region "unsplit".

Rules, in order: SymPy's own assumptions; exp(a) - exp(b) has the sign of a - b; factoring;
encoding of every domain by free positive symbols, after which a sum whose monomials all have one
sign has that sign (q in (0, 1) becomes 1/(1+r); a fact a > b becomes a = b + r); exp(u) = 1 + w for
u > 0; differences of equal powers A^c - B^c, which have the sign of c (A - B); negative
discriminants; polynomials by their slope and curvature between ends; 1 + cos(u) for abs(u) < pi;
a + b f(u) for bounded f, which lies between its values at the ends of the range of f. Where signs
are assumed, what is linear is decided first: a sum of facts, domains and a constant, or open.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product
from math import lcm, prod
from typing import NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy import Add, Dummy, Expr, Mul, Pow, S, exp, log

from mechc.symbolic.evaluate import Values, evaluate_array
from mechc.symbolic.facts import Facts, Undecided, gaps_of, sampled
from mechc.symbolic.functions import atan2, clamped, expm1c, log_mix, sinhc
from mechc.symbolic.rewrite import MOST_FACTORED, factored, fraction, monomials

MOST_EXPANDED = 12  # terms of which two may be left
MOST_BENT = 4  # degree of polynomials whose curvature is looked at
MOST_BOUNDED = 4  # exponentials that are replaced by 0 or 1
MOST_MONOMIALS = 3000  # that are looked at one by one; SymPy makes some 1e4 a second


def sign(expr: Expr, facts: Facts) -> int:
    """Sign of an expression for all of the facts; `Undecided` with the first open factor."""
    verdict = _verdict(expr, facts)
    if isinstance(verdict, Undecided):
        raise Undecided(verdict.expr)
    return verdict


def proved(expr: Expr, facts: Facts) -> int | None:
    """As `sign`, None where it is open."""
    verdict = _verdict(expr, facts)
    return None if isinstance(verdict, Undecided) else verdict


def weak_sign(expr: Expr, facts: Facts) -> int | None:
    """1 where an expression is never negative, -1 never positive, 0 zero; None: not proved."""
    ends = expr.atoms(clamped)
    if ends:
        lengths = {end for end in ends if end.is_extended_nonnegative}
        if lengths:  # each may be any length for this proof, of which there may be many
            free = {end: sp.Symbol(f"length {sp.sstr(end)}", positive=True) for end in lengths}
            found = weak_sign(expr.xreplace(free), facts)
            if found is not None:
                return found
        return _by_ends(expr, max(ends, key=lambda end: end.count_ops()), facts)
    if facts.known and (decided := _by_combination(expr, facts)) is not None:
        return decided.sign
    jumps = expr.has(sp.floor, sp.ceiling)  # what holds inside tells nothing of their ends
    if not jumps:
        verdict = proved(expr, facts)
        if verdict is not None:
            return verdict
    for form in (expr, facts.whole(expr)):
        if form.is_extended_nonnegative or form.is_extended_nonpositive:
            return 1 if form.is_extended_nonnegative else -1
    return None


def _by_ends(expr: Expr, end: Expr, facts: Facts) -> int | None:
    """An end that others may overtake is what it is clamped by, or itself."""
    cut, lo, hi = end.args
    assumed = ((cut, ((cut, lo), (hi, cut))), (lo, ((lo, cut),)), (hi, ((cut, hi),)))
    signs = set()
    for value, orders in assumed:
        if not value.is_infinite:
            here = facts
            for larger, smaller in orders:
                here = here.above([larger], [smaller])
            signs.add(weak_sign(expr.xreplace({end: value}), here))
    signs -= {0}
    return 0 if not signs else signs.pop() if len(signs) == 1 else None


class _Found(NamedTuple):
    """A weak sign, None where both occur."""

    sign: int | None


@lru_cache(maxsize=8192)
def _by_combination(expr: Expr, facts: Facts) -> _Found | None:
    """The sign of what is linear where linear facts hold, which is decided; None for others."""
    # By Farkas' lemma it is never negative if it is a sum of facts, domains and a constant, none
    # with a negative factor. Where both signs would follow, the facts contradict each other.
    if expr.has(exp):
        return None
    target = _linear(expr)
    if target is None:  # 3 + x/s has the sign of 3 s + x
        numerator, denominator = fraction(expr)
        target = _linear(numerator) if denominator.is_positive else None
    if target is None or any(s.is_integer for s in target if s != 1):
        return None
    plain, all_plain = _gaps(facts)
    symbols = set(target).union(*plain) | {S.One}
    plain = (*plain, {S.One: S.One}, *({s: S.One if s.is_positive else -S.One} for s in symbols
             if s.is_positive or (s.is_negative and s != 1)))  # fmt: skip
    rows = sorted(symbols, key=str)
    *columns, aim = ([int(c) for c in _whole([gap.get(r, S.Zero) for r in rows])]
                     for gap in (*plain, target))  # fmt: skip
    signs = {side for side in (1, -1) if _is_combination(columns, [side * c for c in aim])}
    whole = any(s.is_integer for s in symbols - {S.One})
    if not signs and (whole or not all_plain):
        return None  # what is not linear, jumps or vanishes may tell more
    return _Found(None if not signs else sum(signs))


@lru_cache(maxsize=1024)
def _gaps(facts: Facts) -> tuple[tuple[dict[Expr, sp.Rational], ...], bool]:
    """What is positive where linear facts hold, and whether that is all that they say."""
    gaps = [(_linear(fact * side), side) for fact, side in facts.known]
    gaps += [(_linear(gap), 1) for symbol, value in facts.encoding if symbol != facts.variable
             for gap in gaps_of(symbol, value)]  # fmt: skip
    if facts.variable is not None:
        (lows, highs), x = facts.interval, facts.variable
        ends = [*(x - low for low in lows), *(high - x for high in highs)]
        gaps += [(_linear(gap), 1) for gap in ends if not gap.has(sp.oo, -sp.oo)]
    plain = tuple(gap for gap, side in gaps if gap is not None and side)
    return plain, len(plain) == len(gaps)


def _whole(coefficients: list[sp.Rational]) -> list[sp.Rational]:
    """Coefficients times the smallest number that leaves no fraction."""
    unit = lcm(*(int(c.q) for c in coefficients))
    return [unit * c for c in coefficients]


def _linear(expr: Expr) -> dict[Expr, sp.Rational] | None:
    """Rational coefficients of symbols and of one, None for what is not linear."""
    found: dict[Expr, sp.Rational] = sp.expand(expr).as_coefficients_dict()
    known = all((s == 1 or s.is_Symbol) and c.is_Rational for s, c in found.items())
    return found if known else None


def _is_combination(columns: list[list[int]], aim: list[int]) -> bool:
    """Whether a vector is a sum of others with factors >= 0: the first phase of the simplex method.

    Bland's rule keeps it from running in circles, whole numbers over one unit from rounding.
    """
    side, unit = [-1 if value < 0 else 1 for value in aim], 1
    table = [[s * column[i] for column in columns] + [s * aim[i]] for i, s in enumerate(side)]
    basis = [len(columns) + i for i in range(len(aim))]  # artificial ones, which never come back
    while True:
        rows = [row for row, b in zip(table, basis, strict=True) if b >= len(columns)]
        costs = [sum(column) for column in zip(*rows, strict=True)]
        if not rows or costs[-1] == 0:
            return True
        enter = next((j for j, cost in enumerate(costs[:-1]) if cost > 0), None)
        if enter is None:
            return False
        ratios = [(Fraction(row[-1], row[enter]), basis[i], i) for i, row in enumerate(table)
                  if row[enter] > 0]  # fmt: skip
        leave = min(ratios)[2]
        top, pivot = table[leave], table[leave][enter]
        table = [
            top if row is top
            else [(v * pivot - row[enter] * u) // unit for v, u in zip(row, top, strict=True)]
            for row in table
        ]  # fmt: skip
        basis[leave], unit = enter, pivot


def exceeds_zero(expr: Expr, facts: Facts) -> bool:
    """Whether an expression, or all of its parts, was proved positive, zero excluded."""
    if isinstance(expr, (Add, Mul)) and all(exceeds_zero(part, facts) for part in expr.args):
        return True
    return _verdict(expr, facts) == 1


def decide(expr: Expr, facts: Facts) -> int:
    """As `weak_sign`; `Undecided` where it is not proved, so that the caller may split the case."""
    found = weak_sign(expr, facts)
    if found is None:
        raise Undecided(expr)
    return found


@lru_cache(maxsize=8192)
def _verdict(expr: Expr, facts: Facts) -> int | Undecided:
    """The proof of a sign, or why there is none: the same questions come up again and again."""
    try:
        return _decide(expr, facts)
    except Undecided as question:
        return Undecided(question.expr)  # without the traceback, which holds on to its frames


_ODD_AND_RISING = (sp.asinh, sp.atan, sp.erf, sp.sinh, sp.tanh)

# functions that are positive where all of these are
_POSITIVE_WHERE: dict[type, Callable[..., tuple[Expr, ...]]] = {
    sp.gamma: lambda u: (u,),
    sp.factorial: lambda n: (n + 1,),
    sp.besselk: lambda order, z: (z,),
    sp.zeta: lambda s, a=S.One: (s - 1, a),
    atan2: lambda y, x: (y,),
    sp.binomial: lambda n, k: (n + 1, k + 1, n - k + 1),
}


def _decide(expr: Expr, facts: Facts) -> int:
    quick = _assumed(expr)
    if quick is not None:
        return quick
    if type(expr) in _POSITIVE_WHERE:
        if all(sign(part, facts) > 0 for part in _POSITIVE_WHERE[type(expr)](*expr.args)):
            return 1
        raise Undecided(expr)
    if isinstance(expr, _ODD_AND_RISING):
        return sign(expr.args[0], facts)
    if expr.is_Mul:
        return _product(expr.args, facts, sign)
    if expr.is_Pow and expr.exp.is_real:
        return _power(expr, facts)
    plain = _of_plain_terms(expr, facts)
    if plain is not None:
        return plain
    if _refuted(expr, facts, 1):  # a factor with the variable is open
        raise Undecided(expr)
    gap = without_exponentials(expr)
    if gap is not expr and (found := proved(gap, facts)) is not None:
        return found
    bounded = _of_bounded_exponentials(expr, facts)
    if bounded is not None:
        return bounded
    if isinstance(expr, Add) and any(not p.exp.is_Integer for p in expr.atoms(Pow)):
        try:  # before factors take powers apart
            found = _by_powers(expr, facts)
        except Undecided:
            found = None
        if found is not None:
            return found
    numerator, denominator = map(factored, fraction(expr))
    if numerator.is_Mul or denominator != 1:
        factors = (*Mul.make_args(numerator), *Mul.make_args(denominator))
        return _product(factors, facts, _factor)
    return _irreducible(numerator, facts)


def without_exponentials(expr: Expr) -> Expr:
    """An expression of the same sign: a - b for exp(a) - exp(b), with constants; else itself."""
    short = expr.has(exp) and monomials(expr) <= MOST_EXPANDED
    parts = Add.make_args(sp.expand(expr, power_exp=False)) if short else ()
    if len(parts) != 2:
        return expr
    logs, factors = [], []
    for part in parts:
        powers = [a for a in Mul.make_args(part) if isinstance(a, exp)]
        logs.append(Add(*(a.exp for a in powers)))
        factors.append(Mul(*(a for a in Mul.make_args(part) if not isinstance(a, exp))))
    if logs == [0, 0]:
        return expr
    for (one, first), (other, second) in permutations(zip(factors, logs, strict=True)):
        if one.is_positive and other.is_negative:
            return sp.expand(first - second) + sp.expand_log(log(-one / other))
    return expr


def _of_bounded_exponentials(expr: Expr, facts: Facts) -> int | None:
    """The sign of a sum of exponentials, if it is that with 0 or 1 for all but one of them."""
    if not isinstance(expr, Add) or not expr.has(exp):
        return None
    spread = sp.expand(expr.rewrite((sp.cosh, sp.sinh), exp), power_exp=False)
    rows: list[tuple[Expr, Expr, int]] = []
    for part in Add.make_args(spread):
        powers = [a for a in Mul.make_args(part) if isinstance(a, exp)]
        factor = Mul(*(a for a in Mul.make_args(part) if not isinstance(a, exp)))
        side = None if factor.has(exp) else proved(factor, facts)
        if not side or len(rows) == MOST_BOUNDED:
            return None
        rows.append((factor, Add(*(a.args[0] for a in powers)), side))
    for _, power, side in rows:
        # exp(u) is more than one where u > 0, less where u < 0, and more than nothing
        seen = [(c * side, s * side, proved(sp.expand(u - power), facts)) for c, u, s in rows]
        if any(grow for *_, grow in seen) and all(s > 0 or grow in (0, -1) for _, s, grow in seen):
            least = Add(*(c for c, s, grow in seen if s < 0 or grow in (0, 1)))
            if proved(least, facts) in (0, 1):
                return side
    return None


def _of_plain_terms(expr: Expr, facts: Facts) -> int | None:
    """A sum of exponentials with coefficients of one sign, however many: nothing is factored."""
    if not isinstance(expr, Add):
        return None
    signs = {_of_plain_product(term, facts) for term in expr.args}
    return signs.pop() if len(signs) == 1 else None


def _of_plain_product(term: Expr, facts: Facts) -> int | None:
    total = 1
    for part in Mul.make_args(term):
        base, power = part.as_base_exp()
        if isinstance(part, exp):
            continue
        sums = isinstance(base, Add) and base.has(exp)
        found = _of_plain_terms(base, facts) if sums else proved(base, facts)
        if not found or (found < 0 and not power.is_Integer):
            return None
        total *= found if power.is_odd or found > 0 else 1
    return total


def _product(factors: tuple[Expr, ...], facts: Facts, each: Callable[[Expr, Facts], int]) -> int:
    """Sign of a product; an undecided factor that holds the rest fixed is what gets reported."""
    total = 1
    undecided: Undecided | None = None
    for part in factors:
        try:
            total *= each(part, facts)
        except Undecided as question:
            if undecided is not None:
                raise Undecided(Mul(*factors)) from None
            undecided = question
    if total and undecided:
        raise undecided
    return total


def _factor(expr: Expr, facts: Facts) -> int:
    """Sign of something that has been factored already."""
    if expr.is_Pow or expr.is_Mul:
        return sign(expr, facts)
    quick = _assumed(expr)
    return quick if quick is not None else _irreducible(expr, facts)


def _assumed(expr: Expr) -> int | None:
    if expr.is_zero:
        return 0
    if expr.is_positive or expr is S.Infinity:
        return 1
    if expr.is_negative or expr is S.NegativeInfinity:
        return -1
    positive = isinstance(expr, (sp.erfc, sinhc, expm1c)) and expr.args[0].is_real
    positive = positive or (isinstance(expr, sp.besseli) and expr.args[0] == 0)
    if isinstance(expr, exp) or positive:
        return 1  # whatever a density is made of is real
    if isinstance(expr, sp.besseli) and expr.args[1].is_positive:
        return 1 if expr.args[0].is_integer or expr.args[0].is_nonnegative else None
    if isinstance(expr, sp.binomial) and expr.args[0].is_nonnegative:
        return 1 if all(a.is_integer for a in expr.args) else None
    if isinstance(expr, sp.Sum):  # the index runs from its first value, whatever its symbol says
        runs = {k: Dummy(integer=True, nonnegative=lo.is_nonnegative or None)
                for k, lo, _ in expr.limits}  # fmt: skip
        return 1 if expr.function.subs(runs).is_positive else None
    return None


def _power(expr: Pow, facts: Facts) -> int:
    base = sign(expr.base, facts)
    if base >= 0 or expr.exp.is_even:
        return abs(base)
    if expr.exp.is_odd:
        return base
    raise Undecided(expr)


def _irreducible(expr: Expr, facts: Facts) -> int:
    """Sign of something that does not factor."""
    decided = _by_combination(expr, facts) if facts.known else None
    if decided is not None and decided.sign:
        return decided.sign
    if decided is not None or _refuted(expr, facts):  # no rule need be tried
        raise Undecided(expr)
    for rule in _RULES:
        found = rule(expr, facts)
        if found is not None:
            return found
    raise Undecided(expr)


def _refuted(expr: Expr, facts: Facts, axis: int | None = None) -> bool:
    """Whether both signs occur at sampled points, with axis 1 for the same parameters."""
    rises, falls = _signs_seen(expr, facts)
    return bool(np.any(rises.any(axis) & falls.any(axis)))


def _signs_seen(expr: Expr, facts: Facts) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where sampled values are positive and where negative, beyond rounding."""
    found = sampled(expr, facts, _sign_at)
    found = np.where(np.imag(found) == 0, np.real(found), np.nan)
    return found > 0, found < 0


def _sign_at(expr: Expr, values: Values) -> NDArray[np.float64]:
    """The sign at points, zero where a sum of factors is within the rounding of its terms."""
    if isinstance(expr, Mul):
        return prod((_sign_at(part, values) for part in expr.args), start=np.ones(()))
    terms = [evaluate_array(part, values) for part in Add.make_args(expr)]
    with np.errstate(invalid="ignore", over="ignore"):
        total, size = sum(terms), sum(map(np.abs, terms))
        return np.where(np.abs(total) > 1e-9 * size, np.sign(total), 0.0 * total)


def _by_fact(expr: Expr, facts: Facts) -> int | None:
    for known, value in facts.known:
        # a symbol of open sign in one of the two only would stand in their ratio
        if known == 0 or not all(s.is_positive for s in expr.free_symbols ^ known.free_symbols):
            continue
        ratio = factored(expr / known)
        if all(s.is_positive for s in ratio.free_symbols) and (found := _assumed(ratio)):
            return value * found
    return None


def _by_monotone_function(expr: Expr, facts: Facts) -> int | None:
    """exp(u) - 1, log(u), log_mix(q, d) and a*f(u) - a*f(v) for increasing f."""
    if isinstance(expr, log):
        return sign(expr.args[0] - 1, facts)
    if isinstance(expr, log_mix):
        return sign(expr.args[1], facts)
    if not (isinstance(expr, Add) and len(expr.args) == 2):
        return None
    (c, f), (d, g) = (_coefficient(a) for a in expr.args)
    if sp.expand(c + d) != 0:
        return None
    for kind in (exp, log):
        if isinstance(f, kind) and (isinstance(g, kind) or (g == 1 and kind is exp)):
            other = g.args[0] if isinstance(g, kind) else S.Zero
            return sign(c, facts) * sign(sp.expand_mul(f.args[0] - other), facts)
    return None


def _coefficient(term: Expr) -> tuple[Expr, Expr]:
    """Split a term into a coefficient and at most one exp or log."""
    special = [a for a in Mul.make_args(term) if isinstance(a, (exp, log))]
    if len(special) != 1:
        return term, S.One
    return term / special[0], special[0]


def _by_powers(expr: Expr, facts: Facts) -> int | None:
    """c*A**g - c*B**g with A, B > 0 has the sign of c*g*(A - B); A may be one."""
    if not (isinstance(expr, Add) and len(expr.args) == 2):
        return None
    split = [_base_powers(a) for a in expr.args]
    for exponent in split[0].keys() & split[1].keys() - {S.One}:
        bases = [Mul(*parts[exponent]) for parts in split]
        rest = [a / b**exponent for a, b in zip(expr.args, bases, strict=True)]
        if exponent.is_Integer or sp.expand_mul(rest[0] + rest[1]) != 0:
            continue
        if all(sign(b, facts) > 0 for b in bases):
            return sign(rest[0], facts) * sign(exponent, facts) * sign(bases[0] - bases[1], facts)
    for index, one in enumerate(expr.args):
        powers = {**split[1 - index]}
        factor_ = Mul(*powers.pop(S.One, []))
        if len(powers) != 1 or sp.expand_mul(one + factor_) != 0:
            continue
        ((exponent, parts),) = powers.items()
        base = Mul(*parts)
        if not exponent.is_Integer and sign(base, facts) > 0:
            return sign(one, facts) * sign(exponent, facts) * sign(1 - base, facts)
    return None


def _base_powers(term: Expr) -> dict[Expr, list[Expr]]:
    """Bases of a product, grouped by exponent."""
    groups: dict[Expr, list[Expr]] = {}
    for part in Mul.make_args(term):
        base, exponent = part.as_base_exp()
        groups.setdefault(exponent, []).append(base)
    return groups


def _by_monomials(expr: Expr, facts: Facts) -> int | None:
    """All monomials of one sign after encoding."""
    # Here exp(u) is written as 1 + w (u > 0) or 1/(1 + w), and likewise A^c for A - 1 of one sign.
    encoded = facts.encode(expr)
    replaced = {}
    for node in encoded.atoms(exp):
        direction = _assumed(sp.expand(node.args[0]))
        if direction:
            w = Dummy("w", positive=True)
            replaced[node] = (1 + w) ** direction
    for node in encoded.atoms(Pow):
        if not node.exp.is_number and _assumed(node.base) == 1:
            direction = (_assumed(node.exp) or 0) * (_assumed(sp.factor(node.base - 1)) or 0)
            if direction:
                replaced[node] = (1 + Dummy("w", positive=True)) ** direction
    numerator, denominator = fraction(encoded.xreplace(replaced))
    if max(monomials(numerator), monomials(denominator)) > MOST_MONOMIALS:
        return None
    first, second = _one_sign(sp.expand(numerator)), _one_sign(sp.expand(denominator))
    return None if first is None or second is None else first * second


def _one_sign(expr: Expr) -> int | None:
    signs = {_assumed(term) for term in Add.make_args(expr)}
    if len(signs) > 1 and any(power.is_number for power in expr.atoms(Pow)):  # sqrt(3) a - a
        together: dict[Expr, Expr] = {}
        for term in Add.make_args(expr):
            number, rest = term.as_independent(*term.free_symbols)
            together[rest] = together.get(rest, S.Zero) + number
        signs = {_assumed(number * rest) for rest, number in together.items()} - {0}
    return signs.pop() if len(signs) == 1 else None


def _by_discriminant(expr: Expr, facts: Facts) -> int | None:
    """A quadratic with negative discriminant has the sign of its leading coefficient."""
    if monomials(expr) > MOST_FACTORED:
        return None
    for symbol in sorted((s for s in expr.free_symbols if not s.is_positive), key=str):
        try:
            poly = sp.Poly(expr, symbol)
        except sp.PolynomialError:
            continue
        if poly.degree() != 2:
            continue
        a, b, c = poly.all_coeffs()
        discriminant = b**2 - 4 * a * c
        if _signs_seen(discriminant, facts)[0].any():
            continue
        if proved(discriminant, facts) == -1 and (leading := proved(a, facts)) is not None:
            return leading
    return None


def _by_values_at_ends(expr: Expr, facts: Facts) -> int | None:
    """A polynomial that rises or falls, by one end of an interval; one that is bent, by both."""
    if monomials(expr) > MOST_MONOMIALS:  # its degree alone takes SymPy minutes
        return None

    def place(symbol: Expr) -> tuple[bool, str]:
        return symbol != facts.variable, str(symbol)

    for x in sorted(expr.free_symbols, key=place):
        if x.is_integer or not expr.is_polynomial(x) or not 1 < sp.degree(expr, x) <= MOST_BENT:
            continue
        for low, high in product(*_ends_of(x, facts)):
            # an end that brings back what comes earlier would run in circles
            if any(place(s) <= place(x) for s in low.free_symbols | high.free_symbols):
                continue
            # between these two, whichever of several ends holds
            between = Facts().within(x, low, high)
            slope, bends = (proved(sp.expand(expr.diff(x, n)), between) for n in (1, 2))
            if slope or bends:
                ends = [weak_sign(expr.subs(x, end), facts) for end in (low, high)]
                for s in (1, -1):
                    start = ends[0] if slope == s else ends[1]
                    if (slope and start in (0, s)) or (bends == -s and {*ends} <= {0, s}):
                        return s
    return None


def _ends_of(x: Expr, facts: Facts) -> list[list[Expr]]:
    """What a symbol is known to be above, and below."""
    found: list[list[Expr]] = [[S.Zero] if x.is_positive else [], []]
    if x == facts.variable:
        found = [[end for end in side if not end.is_infinite] for side in facts.interval]
    for known, value in facts.known:
        gap = sp.expand(known * value)
        slope = gap.coeff(x)
        if slope.is_number and slope != 0 and not (gap - slope * x).has(x):
            found[0 if slope > 0 else 1].append(sp.expand(x - gap / slope))
    return found


def _by_wave(expr: Expr, facts: Facts) -> int | None:
    """c*(1 + cos(u)) for -pi < u < pi, c*(1 - cos(u)) for 0 < u < 2*pi, cos(u) between; sines."""
    waves = expr.atoms(sp.cos, sp.sin)
    if len(waves) != 1:
        return None
    (wave,) = waves
    angle = wave.args[0] - (sp.pi / 2 if isinstance(wave, sp.sin) else 0)
    amplitude, rest = expr.coeff(wave), sp.expand(expr - expr.coeff(wave) * wave)
    ratio = factored(rest / amplitude) if amplitude != 0 else None
    if ratio not in (S.Zero, S.One, S.NegativeOne):
        return None
    lo, hi = {0: (-sp.pi / 2, sp.pi / 2), 1: (-sp.pi, sp.pi), -1: (S.Zero, 2 * sp.pi)}[int(ratio)]
    if sign(angle - lo, facts) > 0 and sign(hi - angle, facts) > 0:
        return sign(amplitude, facts) * (-1 if ratio == -1 else 1)
    return None


# open intervals of values on the real line, then with those that reach their ends
_OPEN_RANGES = {sp.erfc: (0, 2), sp.erf: (-1, 1), sp.tanh: (-1, 1),
                sp.atan: (-sp.pi / 2, sp.pi / 2)}  # fmt: skip
_RANGES = {**_OPEN_RANGES, sp.sin: (-1, 1), sp.cos: (-1, 1)}


def _by_range(expr: Expr, facts: Facts) -> int | None:
    """Take f in a + b*f(u) to both ends of its range, which open ranges do not reach."""
    for node in sorted(expr.atoms(sp.cosh), key=str):  # from 1 on
        coefficient = expr.coeff(node)
        least = expr - coefficient * (node - 1)
        if coefficient != 0 and not least.has(node):
            found = proved(least, facts)
            if found and found == proved(coefficient, facts):
                return found
    for node in sorted(expr.atoms(*_RANGES), key=str):
        value = Dummy("f", real=True)
        affine = expr.xreplace({node: value}).as_poly(value)
        if affine is None or affine.degree() != 1:
            continue
        signs = {sign(affine.eval(end), facts) for end in _RANGES[node.func]}
        if node.func in _OPEN_RANGES and len(signs) == 2:
            signs.discard(0)
        if len(signs) == 1:
            return signs.pop()
    return None


_RULES = (
    _by_fact,
    _by_monotone_function,
    _by_powers,
    _by_wave,
    _by_monomials,
    _by_discriminant,
    _by_values_at_ends,
    _by_range,
)
