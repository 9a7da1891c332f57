"""The inverse of the loss on a monotone region.

Input: regions without inverses. Output: the same regions with x as a function of the loss symbol,
`Closed` where a formula was found and verified, `Numeric` (bracketing on the monotone region, which
always works) otherwise. Formulas come from unwinding where the variable occurs once, or from a
polynomial of degree at most two in the variable or in one exponential of it, after outer increasing
functions have been peeled off and logarithms merged. A candidate counts only if L(inverse(l)) = l
and inverse(L(x)) = x at random typical parameters and points of that very region, which also picks
the right one of several roots.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp
from sympy import Add, Dummy, Expr, Pow, S, Symbol, exp, log

from mechc.calculus.checks import Checker
from mechc.calculus.types import Closed, Entry, Kind, Numeric, Region
from mechc.symbolic.functions import log_mix
from mechc.symbolic.rewrite import cancelled, fraction, rational_in

_OPPOSITE = {
    exp: log,
    log: exp,
    sp.sinh: sp.asinh,
    sp.asinh: sp.sinh,
    sp.tanh: sp.atanh,
    sp.atanh: sp.tanh,
    sp.tan: sp.atan,
    sp.atan: sp.tan,
}


_NOT_INVERTIBLE = {
    Kind.PLATEAU: "the loss is constant here",
    Kind.UNSPLIT: "the monotone parts are found when parameters are bound",
}
_ROUGH = 1e-11  # a form that loses more than this in double precision gives way to another
_UNUSABLE = 1e-9  # and beyond this to bracketing


class Unsolved(Exception):
    """A strategy does not apply; the message says why."""


def candidates(loss: Expr, x: Symbol, target: Expr) -> Iterator[tuple[Expr, str]]:
    """Solutions x of loss(x) = target by rules, unverified, best form first, and the strategies."""
    inner, value = _peel(loss, x, target)
    if inner == x:
        yield value, "unwinding"
        return
    found = False
    for solution, how in _last_layer(inner, x, value):
        found = True
        yield solution, how
    if not found:
        raise Unsolved("the variable occurs in more than one function of it")


def _peel(loss: Expr, x: Symbol, value: Expr) -> tuple[Expr, Expr]:
    """Undo outer invertible functions: loss = value becomes inner = value'."""
    while loss != x:
        constant, rest = loss.as_independent(x, as_Add=True)
        if constant != 0:
            loss, value = rest, value - constant
            continue
        coefficient, rest = loss.as_independent(x, as_Add=False)
        if coefficient != 1:
            loss, value = rest, _divided(value, coefficient)
        elif isinstance(loss, log_mix):
            weight, loss = loss.args
            value = log(1 + (exp(value) - 1) / weight)
        elif type(loss) in _OPPOSITE:
            value = _OPPOSITE[type(loss)](value)
            loss = loss.args[0]
        elif isinstance(loss, Pow) and not loss.exp.has(x) and not loss.exp.is_even:
            if (loss.exp.is_Rational and (1 / loss.exp).is_Integer) or not loss.exp.is_Integer:
                loss, value = loss.base, value ** (1 / loss.exp)
            else:
                break
        else:
            break
    return loss, value


def _divided(value: Expr, coefficient: Expr) -> Expr:
    """value/coefficient, algebraic parts cancelled, transcendental ones left whole."""
    inverse = cancelled(1 / coefficient)
    whole = [a for a in Add.make_args(value) if a.has(exp, log)]
    algebraic = Add(*(a for a in Add.make_args(value) if not a.has(exp, log)))
    return Add(*(a * inverse for a in whole)) + sp.expand(cancelled(algebraic * inverse))


def _last_layer(inner: Expr, x: Symbol, value: Expr) -> Iterator[tuple[Expr, str]]:
    for rest, branch in _unwound(inner, value):
        for solution, _ in candidates(rest, x, branch):
            yield solution, "unwinding"
    yield from _polynomials(inner, x, value)


def _unwound(inner: Expr, value: Expr) -> list[tuple[Expr, Expr]]:
    """What is inside of a whole power, or of cosh, and its values on both branches."""
    if isinstance(inner, sp.cosh):
        return [(inner.args[0], sp.acosh(value)), (inner.args[0], -sp.acosh(value))]
    if not (isinstance(inner, Pow) and inner.exp.is_Integer):
        return []
    root = value ** (1 / inner.exp)
    other = -((-value) ** (1 / inner.exp)) if inner.exp.is_odd else -root
    return [(inner.base, root), (inner.base, other)]


def _polynomials(inner: Expr, x: Symbol, value: Expr) -> Iterator[tuple[Expr, str]]:
    """Inner = value as a quadratic in x or in a generator, logarithms merged and removed first."""
    placeholder = Dummy("value", real=True)
    for left, right in _equations(inner, x, value):
        rational = rational_in(left - placeholder, x)
        if rational is None:
            continue
        generator = rational.symbol
        numerator, _ = fraction(rational.expr)
        try:
            poly = sp.Poly(sp.expand(numerator), generator)
        except sp.PolynomialError:
            continue
        if poly.degree() > 2 or poly.degree() < 1 or any(c.has(x) for c in poly.all_coeffs()):
            continue
        name = f"quadratic in {rational.of(x)}" if poly.degree() == 2 else "linear equation"
        coefficients = [sp.factor(c) for c in reversed(poly.all_coeffs())]
        for root in _roots(coefficients):
            yield rational.place(root).xreplace({placeholder: right}), name


def _roots(coefficients: list[Expr]) -> Iterator[Expr]:
    """Roots in both of their algebraic forms: one of the two has no cancellation."""
    if len(coefficients) == 2:
        yield cancelled(-coefficients[0] / coefficients[1])
        return
    c, b, a = coefficients
    if b == 0:
        yield sp.sqrt(sp.factor(-c / a))
        yield -sp.sqrt(sp.factor(-c / a))
        return
    half = b / 2
    radicand = half**2 - a * c
    root = sp.sqrt(min((radicand, sp.factor(radicand), sp.expand(radicand)), key=sp.count_ops))
    for side in (1, -1):
        yield (-half + side * root) / a
        yield c / (-half - side * root)


def _equations(inner: Expr, x: Symbol, value: Expr) -> Iterator[tuple[Expr, Expr]]:
    """The equation itself, and its exponential when it is a sum of logarithms and x-terms."""
    yield inner, value
    pairs = _log_terms(inner, x)
    if pairs is None:
        return
    scale = pairs[0][0]
    product = S.One
    for coefficient, argument in pairs:
        ratio = sp.factor(coefficient / scale)
        if not isinstance(ratio, sp.Integer):
            return
        product *= argument**ratio
    rest = Add(*(a for a in Add.make_args(inner) if not a.has(log, log_mix)))
    yield product * exp(sp.expand(rest / scale)), exp(value / scale)


def _log_terms(inner: Expr, x: Symbol) -> list[tuple[Expr, Expr]] | None:
    """Coefficients and arguments of the logarithms in a sum; None if there are none."""
    pairs = []
    for term in Add.make_args(inner):
        coefficient, dependent = term.as_independent(x, as_Add=False)
        if isinstance(dependent, log_mix):
            dependent = dependent.spelled_out()
        if isinstance(dependent, log):
            pairs.append((coefficient, dependent.args[0]))
        elif dependent.has(log, log_mix):
            return None
    return pairs or None


def invert(region: Region, ell: Symbol, checker: Checker) -> Entry:
    """The verified formula of an inverse that is most accurate in doubles, or why there is none."""
    if not region.kind.moves or region.loss is None:
        return Numeric(_NOT_INVERTIBLE.get(region.kind, "nothing to invert"))
    try:
        found = list(candidates(region.loss, checker.x, ell))
    except Unsolved as reason:
        return Numeric(f"no closed form by rules ({reason}); bracketed on the monotone region")
    tried = []
    for order, (formula, how) in enumerate(found):
        error = checker.inverse_error(region.loss, formula, region.lo, region.hi, ell)
        if error is not None:
            tried.append((float(error), order, formula, how))
    if tried and min(tried)[0] > _UNUSABLE:
        return Numeric("the closed form loses its digits; bracketed on the monotone region")
    if not tried:
        return Numeric("no candidate survived verification; bracketed on the monotone region")
    _, _, formula, how = min(tried, key=lambda entry: (entry[0] > _ROUGH, entry[1]))
    return Closed(formula, f"{how}, verified")
