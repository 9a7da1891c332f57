"""Shapes proved for one parameter vector, in ball arithmetic: monotone branches, unimodal noise.

Which way the loss moves on a branch (`verdict`) follows from the signs of the parts of a
derivative, or from boxes between tested points with orders at infinity beyond them; or either for
the second derivative of one density where P and Q are that density at two places: with log p(x) =
g(x - d) and log q(x) = g(x),

    L'(x) = g'(x - d) - g'(x) = -d g''(y)   for some y between x - d and x.

`of_derivative` gives every subexpression the set of signs (-1, 0, 1) that its values may have on a
whole open interval: sums of what is positive are positive, so are exponentials and squares, and an
affine function is judged by its ends. Nothing is said where a logarithm, a quotient or a power may
be singular inside.

Shifts by less than the sensitivity are dominated only if the noise rises and then falls (T1 in
mechc.calculus.claims). The compiler proves that for all parameters at once; here it is proved again
(`unimodal_verdict`), for one vector and by other means: the sign of the derivative on boxes,
concavity around the mode, orders at infinity for the tails. On a lattice neighbours are compared
one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

from flint import arb, ctx
from sympy import (
    Add,
    Dummy,
    Expr,
    Mul,
    Pow,
    S,
    Symbol,
    besseli,
    diff,
    exp,
    expand,
    factor_terms,
    fraction,
    log,
    together,
)

from mechc.calculus.cases import Piece, by_cases, log_sum
from mechc.calculus.terms import Term
from mechc.declare.declaration import Declaration, Derived, Poisson, Shift
from mechc.errors import UnsupportedError
from mechc.protocol import Measure
from mechc.verify.balls import expressions, integral
from mechc.verify.balls.boxes import Box, Boxes, Open
from mechc.verify.balls.infinity import AtInfinity, Unknown, slope, with_log_erfc
from mechc.verify.balls.sums import exact, rational

MAX_BOXES = 6000
LARGEST_ROOT = 64
BITS = 96


def sign_on(f: Expr, x: Symbol, values: Any, lo: Any, hi: Any, wanted: int) -> int:
    """1 where f is proved to have the sign wanted on an interval, -1: the other somewhere, 0: open.

    Args:
        f: in `x` and the symbols of `values`.
        x: the variable.
        values: exact balls for the parameters.
        lo: left end, a finite exact ball.
        hi: right end.
        wanted: 1 or -1.
    """
    with ctx.workprec(BITS):
        value_on, todo = expressions.function(f, x, values), Boxes([(lo, hi)], MAX_BOXES)
        try:
            for a, b in todo:
                value = value_on(a.union(b), False) * wanted
                if value < 0:
                    return -1
                if not value > 0:
                    todo.halve(a, b)
        except Open:
            return 0
    return 1


def rises(f: Expr, x: Symbol, values: Any, lo: Any, hi: Any, wanted: int) -> int:
    """The same for df/dx, also written as one fraction, multiplied out."""
    turned = wanted
    for part in _quotient(diff(f.xreplace(exact(values)), x)):
        turned *= next((s for s in (1, -1) if sign_on(part, x, values, lo, hi, s) > 0), 0)
    return turned or sign_on(diff(f, x), x, values, lo, hi, wanted)


def sign_beyond(expr: Expr, x: Symbol, values: Any, start: Any, side: int, wanted: int) -> bool:
    """Prove the sign of d(expr)/dx for side * x >= start > 0.

    Args:
        expr: the function, not its derivative.
        x: the variable.
        values: exact balls for the parameters.
        start: positive ball.
        side: 1 or -1.
        wanted: sign of d/dx.
    """
    y, derivative = slope(expr.xreplace(exact(values)), x, side)
    for factors in ((derivative,), _quotient(derivative)):
        leading = arb(wanted * side)
        try:
            for factor in factors:
                leading *= AtInfinity(y, start).order(factor).f
        except Unknown:
            continue
        if leading > 0:
            return True
    return False


def change_beyond(expr: Expr, x: Symbol, values: Any, start: Any, side: int) -> Any:
    """Bound on abs(f(side y) - f(side start)) for y >= start > 0; inf where none is found.

    Args:
        expr: the function f.
        x: the variable.
        values: exact balls for the parameters.
        start: positive ball.
        side: 1 or -1.
    """
    y, derivative = slope(expr.xreplace(exact(values)), x, side)
    numerator, denominator = _quotient(derivative)
    try:
        top, bottom = (AtInfinity(y, start).order(part) for part in (numerator, denominator))
    except Unknown:
        return arb.pos_inf()
    k, a, f = top.k - bottom.k, top.a - bottom.a, abs(top.f / bottom.f)
    if k.is_zero and (a + 1).is_negative:  # int_R^oo y^a
        power = expressions.constant(a + 1, values)
        return f * (power * start.log()).exp() / -power
    if k.is_negative and a.is_nonpositive:  # int_R^oo e^(ky) y^a <= e^(kR) R^a/|k|
        rate = expressions.constant(k, values)
        falling = rate * start + expressions.constant(a, values) * start.log()
        return f * falling.exp() / -rate
    return arb.pos_inf()


def _quotient(derivative: Expr) -> tuple[Expr, ...]:
    """Numerator and denominator, multiplied out: what cancels at infinity is gone."""
    if any(power.exp.is_Rational and power.exp.q > LARGEST_ROOT for power in derivative.atoms(Pow)):
        return (derivative, S.One)  # SymPy takes numbers with such exponents apart without end
    numerator, denominator = fraction(together(derivative))
    return tuple(expand(part) for part in (numerator, denominator))


def monotone_parts(piece: Piece) -> list[tuple[int, Expr]]:
    """Functions whose derivatives decide the sign of dL/dx: all of one sign suffices.

    With a single term in q, L = log sum w_i exp(f_i - g) moves with every f_i - g; with a single
    term in p it moves against every g_j - f.

    Returns:
        (sign, function); constants are left out, and L itself stands where both are sums.
    """
    p, q = [t.log_density for t in piece.p], [t.log_density for t in piece.q]
    if len(q) == 1:
        parts = [(1, expand(f - q[0])) for f in p]
    elif len(p) == 1:
        parts = [(-1, expand(g - p[0])) for g in q]
    else:
        log_p, log_q = log_sum(piece.p), log_sum(piece.q)
        parts = [(1, log_p - log_q)] if log_p is not None and log_q is not None else []
    return [(sign, part) for sign, part in parts if not part.is_number and part.free_symbols]


Signs = frozenset[int]

ANY: Signs = frozenset({-1, 0, 1})
POSITIVE: Signs = frozenset({1})
NEGATIVE: Signs = frozenset({-1})
NONNEGATIVE: Signs = frozenset({0, 1})
ALWAYS_POSITIVE = ("cosh", "sech", "erfc", "erfc_rate", "erfc_bend")
ODD = ("sinh", "tanh", "asinh", "atan", "erf")  # with the sign of their argument
SMOOTH = ("sin", "cos", "log_erfc")


def of_derivative(f: Expr, x: Symbol, values: Any, lo: Any, hi: Any) -> int | None:
    """The sign of f' for lo < x < hi; None where the rules do not tell, or f may be singular."""
    rules = _Rules(x, values, lo, hi)
    try:
        rules.of(f)
        for form in (diff(f, x), factor_terms(diff(f, x))):
            found = rules.of(form)
            if len(found) == 1:
                return next(iter(found))
    except Open:
        pass
    return None


class _Rules:
    """One interval."""

    def __init__(self, x: Symbol, values: Any, lo: Any, hi: Any) -> None:
        self.x, self.values, self.ends = x, values, (lo, hi)
        self.exact = exact(values)
        self.known: dict[Expr, Signs] = {}

    def of(self, expr: Expr) -> Signs:
        if expr not in self.known:
            self.known[expr] = self._of(expr)
        return self.known[expr]

    def _of(self, expr: Expr) -> Signs:
        if not expr.has(self.x):
            return _of_ball(expressions.constant(expr, self.values))
        if len(affine := self._affine(expr)) == 1 or expr == self.x:
            return affine
        if isinstance(expr, Add):
            return _combined([self.of(a) for a in expr.args], _sum)
        if isinstance(expr, Mul):
            return _combined([self.of(a) for a in expr.args], lambda a, b: {a * b})
        if isinstance(expr, exp):
            self.of(expr.args[0])
            return POSITIVE
        if isinstance(expr, Pow) and not expr.exp.has(self.x):
            return self._power(self.of(expr.base), expr.exp)
        return self._function(expr)

    def _affine(self, expr: Expr) -> Signs:
        """Signs of c1 x + c0, from its values at the ends, which it does not reach."""
        if not isinstance(expr, (Symbol, Add, Mul)) or (slope := expr.diff(self.x)).has(self.x):
            return ANY
        rising = _of_ball(expressions.constant(slope, self.values))
        found = frozenset[int]()
        for end, side in zip(self.ends, (-1, 1), strict=True):
            towards = frozenset(side * s for s in rising)
            if end.is_finite():
                here = expr.xreplace({**self.exact, self.x: rational(end)})
                sign = _of_ball(expressions.constant(here, {}))
                found |= frozenset(-s for s in towards) if sign == {0} else sign
            else:
                found |= towards
        return found if len(found) == 1 else ANY

    def _power(self, base: Signs, exponent: Expr) -> Signs:
        if exponent.is_Integer:
            if exponent.is_negative and 0 in base:
                raise Open("a quotient may be singular")
            return frozenset(s ** abs(int(exponent)) for s in base)
        if base == POSITIVE:
            return POSITIVE
        if base <= NONNEGATIVE and expressions.constant(exponent, self.values) > 0:
            return NONNEGATIVE
        raise Open("a power may be singular")

    def _function(self, expr: Expr) -> Signs:
        name = type(expr).__name__
        if len(expr.args) != 1:
            raise Open(f"{name} has no rule")
        inner = self.of(expr.args[0])
        if name in ALWAYS_POSITIVE:
            return POSITIVE
        if name in ODD:
            return inner
        if name in SMOOTH:
            return ANY
        if isinstance(expr, log) and inner == POSITIVE:
            return ANY
        raise Open(f"{name} has no rule")


def _of_ball(value: Any) -> Signs:
    if value > 0:
        return POSITIVE
    if value < 0:
        return NEGATIVE
    return frozenset({0}) if value.is_zero() else ANY


def _combined(parts: list[Signs], rule: Callable[[int, int], set[int]]) -> Signs:
    found = parts[0]
    for part in parts[1:]:
        found = frozenset().union(*(rule(a, b) for a in found for b in part))
    return found


def _sum(a: int, b: int) -> set[int]:
    return {-1, 0, 1} if a * b < 0 else {a or b}


Ends = tuple[float, float]


class Form(NamedTuple):
    """Functions whose derivatives decide the sign of L': that of all of them suffices.

    Attributes:
        parts: (sign, function) pairs; sign times the derivative is what counts.
        reach: how far left of an interval they matter for it, an exact ball.
    """

    parts: tuple[tuple[int, Expr], ...]
    reach: Any = arb(0)


class Verdict(IntEnum):
    """What is known of the sign of L' on a branch, the best first."""

    OPPOSITE = 0
    PROVED = 1
    PROVED_INSIDE = 2
    SAMPLED = 3

    @property
    def words(self) -> str:
        """For people."""
        inside = "proved, sampled in the far tails"
        return {1: "proved", 2: inside}.get(self, "sampled, not proved, on some branch")


def verdict(
    piece: Piece, x: Symbol, values: Any, points: Sequence[float], ends: Ends, wanted: int
) -> Verdict:
    """Whether the loss of a piece moves as `wanted` between two places.

    Args:
        piece: where both laws have mass.
        x: the variable.
        values: exact balls for the parameters.
        points: inside the interval, in order; boxes cover what lies between them.
        ends: of the interval.
        wanted: 1 or -1.
    """
    best, forms = Verdict.SAMPLED, list(_forms(piece, x, values))
    if any(_by_rules(form, x, values, ends, wanted) for form in forms):
        return Verdict.PROVED
    for form in forms:
        best = min(best, _by_boxes(form, x, values, points, ends, wanted))
        if best <= Verdict.PROVED:
            break
    return best


def _forms(piece: Piece, x: Symbol, values: Any) -> Iterator[Form]:
    parts = tuple(monotone_parts(piece))
    if parts:
        yield Form(parts)
    whole = _loss(piece)
    if whole is not None and (1, whole) not in parts:
        yield Form(((1, whole),))
    shifted = _shifted(piece, x, values)
    if shifted is not None:
        yield shifted


def _loss(piece: Piece) -> Expr | None:
    """L itself; over a single term as one sum of exponentials of differences."""
    if len(piece.q) == 1 and len(piece.p) > 1:
        return _over(piece.p, piece.q[0])
    if len(piece.p) == 1 and len(piece.q) > 1:
        return -_over(piece.q, piece.p[0])
    log_p, log_q = log_sum(piece.p), log_sum(piece.q)
    return None if log_p is None or log_q is None else log_p - log_q


def _over(terms: tuple[Term, ...], single: Term) -> Expr:
    """Log of a sum of terms over a single one, up to a constant."""
    logs = (expand(t.log_density - single.log_density) for t in terms)
    return log(Add(*(t.weight * exp(f) for t, f in zip(terms, logs, strict=True))))


def _shifted(piece: Piece, x: Symbol, values: Any) -> Form | None:
    """The form by second derivatives, where all terms are one density at two places."""
    single, several, sign = (piece.q, piece.p, 1) if len(piece.q) == 1 else (piece.p, piece.q, -1)
    if len(single) != 1:
        return None
    base, parts, reaches = single[0].log_density, [], set()
    moving = [t.log_density for t in several if t.log_density != base]
    for f in moving:
        for place in sorted(f.free_symbols - {x}, key=str):
            for turn, left, right in ((1, f, base), (-1, base, f)):
                if _plain(left.xreplace({x: x + place}) - right) == 0 and values[place] > 0:
                    parts.append((-turn * sign, diff(with_log_erfc(right), x)))
                    reaches.add(place)
    if len(parts) != len(moving) or len(reaches) != 1:
        return None
    return Form(tuple(parts), values[reaches.pop()])


def _plain(expr: Expr) -> Expr:
    """Multiplied out, down to the arguments of functions."""
    return expand(expr, power_base=False, power_exp=False, log=False, multinomial=False)


def _by_rules(form: Form, x: Symbol, values: Any, ends: Ends, wanted: int) -> bool:
    """Whether the signs of all derivatives follow from those of their parts."""
    lo, hi = arb(ends[0]) - form.reach, arb(ends[1])
    return all(
        of_derivative(with_log_erfc(part), x, values, lo, hi) == sign * wanted
        for sign, part in form.parts
    )


def _by_boxes(
    form: Form, x: Symbol, values: Any, points: Sequence[float], ends: Ends, wanted: int
) -> Verdict:
    """The signs of all derivatives on boxes between decided points, and by orders beyond them."""
    near = _decided([part for _, part in form.parts], x, values, points)
    if len(near) < 2:
        return Verdict.SAMPLED
    inner = ((arb(near[0]) - form.reach).lower(), arb(near[-1]))
    for sign, part in form.parts:
        found = rises(part, x, values, *inner, sign * wanted)
        if found < 0 and len(form.parts) == 1 and form.reach.is_zero():
            return Verdict.OPPOSITE
        if found <= 0:
            return Verdict.SAMPLED
    for side, end, edge, last in (
        (-1, inner[0], ends[0], points[0]), (1, inner[1], ends[1], points[-1])
    ):  # fmt: skip
        for sign, part in form.parts:
            if math.isinf(edge):
                beyond = side * end > 0 and sign_beyond(
                    part, x, values, abs(end), side, sign * wanted)  # fmt: skip
            else:  # where the derivative may vanish but for rounding, it keeps its sign towards it
                left, right = (arb(last), end) if arb(last) < end else (end, arb(last))
                bend = diff(part, x, 2)
                beyond = left == right or (
                    sign_on(bend, x, values, left, right, -side * sign * wanted) > 0)  # fmt: skip
            if not beyond:
                return Verdict.PROVED_INSIDE
    return Verdict.PROVED


def _decided(functions: list[Expr], x: Symbol, values: Any, points: Sequence[float]) -> list[float]:
    """The points between the outermost ones at which the sign of every derivative is decided."""
    with ctx.workprec(BITS):
        slopes = [expressions.function(diff(f, x), x, values) for f in functions]
        signed = [v for v in points if all(_sign(s(arb(v), False)) for s in slopes)]
    return [v for v in points if signed and signed[0] <= v <= signed[-1]]


UP, DOWN, FLAT = 1, -1, 0
DOUBLINGS = 40
NARROWINGS = 60  # of the box around a mode
BISECTIONS = 80
MARGIN = 2.0**-40  # share of a piece next to an end where the derivative has no sign
MAX_POINTS = 4000


class _Span(NamedTuple):
    """One piece of a density: its logarithm, its terms, the variable, parameters, and its ends."""

    f: Expr
    terms: tuple[Term, ...]
    x: Symbol
    values: dict[Symbol, Any]
    lo: Expr
    hi: Expr


def noise_of(declaration: Declaration) -> Declaration | None:
    """The noise whose shift a pair is made of, None where it is made otherwise."""
    built = declaration.construction
    while isinstance(built, (Poisson, Derived)):
        declaration, built = built.base, built.base.construction
    if not isinstance(built, Shift):
        return None
    return replace(declaration, p=built.noise, q=built.noise, construction=None)


def unimodal_verdict(
    noise: Declaration, values: dict[Symbol, Any]
) -> tuple[str | None, str | None]:
    """(what contradicts unimodality, why it is not proved): both None where it is proved.

    Args:
        noise: with the density `p`.
        values: exact balls for the parameters.
    """
    with ctx.workprec(BITS):
        rising = True
        try:
            for direction in _directions(noise, values):
                if direction == UP and not rising:
                    return "the density rises again after it fell", None
                rising = rising and direction != DOWN
        except (Open, UnsupportedError) as reason:
            return None, str(reason)
    return None, None


def _directions(noise: Declaration, values: dict[Symbol, Any]) -> Iterator[int]:
    """Directions of the density from left to right, jumps included."""
    holding = [c for c in by_cases(noise) if expressions.holds(c.condition, values)]
    if not holding:
        raise Open("no case is certain")
    x, lattice = Dummy("x", real=True), noise.measure is Measure.LATTICE
    end: Any = None
    last: Any = None
    for piece in holding[0].pieces:
        f = log_sum(piece.p)
        lo, hi = (expressions.constant(e, values) for e in (piece.lo, piece.hi))
        if f is None or (hi < lo if lattice else hi <= lo):
            continue
        f = f.xreplace({noise.variable: x})
        here = expressions.function(f, x, values)
        if last is not None:
            gap = end + 1 if lattice else end
            if not gap.overlaps(lo):
                yield from (DOWN, UP)
            else:
                yield _sign(here(lo, False) - last(end, False))
        terms = tuple(
            replace(t, log_density=t.log_density.xreplace({noise.variable: x})) for t in piece.p
        )
        span = _Span(f, terms, x, values, piece.lo, piece.hi)
        yield from (_steps if lattice else _pieces)(span, lo, hi)
        end, last = hi, here


def _sign(change: Any) -> int:
    """Direction of a jump; a continuous density has none."""
    return UP if change > 0 else DOWN if change < 0 else FLAT


def _steps(span: _Span, lo: Any, hi: Any) -> Iterator[int]:
    """Directions between neighbouring integers, tails by their order at infinity."""
    (first, before), (last, after) = _ends(span, lo, hi)
    start, stop = (int(float(e.mid())) for e in (first, last))
    if stop - start > MAX_POINTS:
        raise Open(f"more than {MAX_POINTS} points")
    here = expressions.function(span.f, span.x, span.values)
    yield from before
    logs = [here(arb(n), False) for n in range(start, stop + 1)]
    for a, b in itertools.pairwise(logs):
        if not (a.is_finite() and b.is_finite()):
            raise Open("a mass has no enclosure")
        yield _sign(b - a)
    yield from after


def _pieces(span: _Span, lo: Any, hi: Any) -> Iterator[int]:
    """Directions on one interval."""
    if not span.f.has(span.x):
        return
    known = of_derivative(span.f, span.x, span.values, lo, hi)
    if known is not None:
        yield known
        return
    (a, before), (b, after) = _ends(span, lo, hi)
    yield from before
    yield from _inside(span, a, b)
    yield from after


def _ends(span: _Span, lo: Any, hi: Any) -> Any:
    """Finite places to go on from at either end, with the directions of all terms beyond them."""
    found: list[tuple[Any, list[int]]] = []
    for side, end in ((-1, lo), (1, hi)):
        if end.is_finite():
            found.append((end, []))
            continue
        for k in range(-4, DOUBLINGS):
            y = arb(2) ** k
            rises = next((s for s in (UP, DOWN) if all(
                _beyond(t.log_density, span, y, side, s) for t in span.terms
            )), None)  # fmt: skip
            if rises is not None and lo < side * y and side * y < hi:
                found.append((side * y, [rises]))
                break
        else:
            raise Open(f"no direction towards {side * float('inf')}")
    return found


def _beyond(f: Expr, span: _Span, y: Any, side: int, wanted: int) -> bool:
    """Whether a log density moves as wanted for all side * x >= y."""
    if isinstance(f, log) and isinstance(f.args[0], besseli):
        order, argument = f.args[0].args
        return wanted == -side and _bessel_falls(order, argument, span, y, side)
    return sign_beyond(f, span.x, span.values, y, side, wanted)


def _bessel_falls(order: Expr, argument: Expr, span: _Span, y: Any, side: int) -> bool:
    """Whether I_m(c) falls in m = |order| beyond y: I_{m+1}/I_m <= c / (2 (m + 1)), Amos (1974)."""
    outward = side * diff(order, span.x)
    if outward**2 != 1:
        return False
    m = outward * expressions.function(order, span.x, span.values)(side * y, False)
    return bool(m >= 0 and expressions.constant(argument, span.values) < 2 * (m + 1))


def _inside(span: _Span, a: Any, b: Any) -> list[int]:
    """Directions between two finite places: one of them, or a peak."""
    f, x, values = span.f, span.x, span.values
    slope, bend = (expressions.function(diff(f, x, n), x, values) for n in (1, 2))
    inner = ((a + (b - a) * MARGIN).mid(), (b - (b - a) * MARGIN).mid())
    turns = [_sign(slope(end, False)) for end in inner]
    if FLAT in turns:
        raise Open("the derivative has no sign next to an end")
    if turns[0] == turns[1]:
        _prove(span, (a, b), inner, turns[0])
        return [turns[0]]
    if turns == [DOWN, UP]:
        return turns
    left, right = inner
    for _ in range(BISECTIONS):
        middle = ((left + right) / 2).mid()
        left, right = (middle, right) if slope(middle, False) > 0 else (left, middle)
    reach = (b - a) / 2
    for _ in range(NARROWINGS):
        box = (left - reach).union(right + reach)
        if a < box.lower() and box.upper() < b and bend(box, False) < 0:
            break
        reach = reach * 3 / 4
    else:
        raise Open("no concave neighbourhood of the mode")
    top = (left - reach).mid(), (right + reach).mid()
    _prove(span, (a, top[0]), (inner[0], top[0]), UP)
    _prove(span, (top[1], b), (top[1], inner[1]), DOWN)
    return [UP, DOWN]


def _prove(span: _Span, whole: Box, inner: Box, wanted: int) -> None:
    """The sign of the derivative up to the ends: by boxes, as one fraction, next to zeros."""
    f, x, values = span.f, span.x, span.values
    if rises(f, x, values, *whole, wanted) > 0:
        return
    if not sign_on(diff(f, x), x, values, *inner, wanted) > 0:
        raise Open(f"the sign of the derivative stays open between {inner[0].str(6)} and "
                   f"{inner[1].str(6)}")  # fmt: skip
    for end, side, gap in (
        (span.lo, 1, (whole[0], inner[0])), (span.hi, -1, (whole[1], inner[1]))
    ):  # fmt: skip
        if gap[0].overlaps(gap[1]):
            continue
        box = gap[0].union(gap[1])
        if integral.rises_from(span.terms, x, end, values, box, side) != side * wanted:
            raise Open("next to an end the derivative has no sign")
