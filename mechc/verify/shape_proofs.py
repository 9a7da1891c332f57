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
from functools import cache
from typing import Any, NamedTuple

import sympy as sp
from flint import arb, ctx
from sympy import Add, Expr, Mul, Pow, S, Symbol, exp, log

from mechc.calculus.cases import Piece, log_sum
from mechc.calculus.terms import Term
from mechc.declare.declaration import Declaration, Derived, Poisson, Shift
from mechc.errors import UnsupportedError
from mechc.numeric.roots import switch
from mechc.protocol import Measure
from mechc.verify.balls import expressions
from mechc.verify.balls.boxes import Box, Boxes, Open
from mechc.verify.balls.infinity import AtInfinity, Unknown, slope, with_log_erfc
from mechc.verify.balls.oracle import Oracle
from mechc.verify.balls.part import Part

MAX_BOXES = 6000  # of one proof
LARGEST_ROOT = 64  # that SymPy multiplies out
BITS = 96  # of proofs


class Line:
    """Functions of one variable at one parameter vector, and the signs of their derivatives.

    Attributes:
        x: the variable.
        values: exact balls for the parameters.
    """

    def __init__(self, x: Symbol, values: Any) -> None:
        """Hold both."""
        self.x, self.values, self.exact = x, values, expressions.exact(values)
        self._slopes: dict[Any, Any] = {}

    def on(self, f: Expr) -> Any:
        """The function on balls."""
        return expressions.function(f, self.x, self.values)

    def at(self, expr: Expr) -> Any:
        """A ball around an expression without the variable."""
        return expressions.constant(expr, self.values)

    def moves(self, f: Expr, x: float) -> bool:
        """Whether the sign of df/dx is known at a place, of enough digits."""
        for bits in (BITS, 4 * BITS, 16 * BITS):
            with ctx.workprec(bits):
                if (key := (f, bits)) not in self._slopes:
                    self._slopes[key] = self.on(sp.diff(f, self.x))
                if _sign(self._slopes[key](arb(x), False)):
                    return True
        return False

    def sign(self, f: Expr, lo: Any, hi: Any, wanted: int) -> int:
        """1 where f is proved to have a sign on an interval, -1: the other somewhere, 0: open."""
        with ctx.workprec(BITS):
            value_on, todo = self.on(f), Boxes([(lo, hi)], MAX_BOXES)
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

    def rises(self, f: Expr, lo: Any, hi: Any, wanted: int) -> int:
        """The same for df/dx, also written as one fraction, multiplied out."""
        turned = wanted
        for part in _quotient(sp.diff(f.xreplace(self.exact), self.x)):
            turned *= next((s for s in (1, -1) if self.sign(part, lo, hi, s) > 0), 0)
        return turned or self.sign(sp.diff(f, self.x), lo, hi, wanted)

    def turns_at(self, f: Expr, at: float, to: Any, bend: int) -> bool:
        """Prove that df/dx is 0 at a place, exactly, and f bends one way from there on."""
        here = sp.diff(f.xreplace(self.exact), self.x).xreplace({self.x: sp.Rational(at)})
        lo, hi = (arb(at), to) if arb(at) < to else (to, arb(at))
        return here == 0 and self.sign(sp.diff(f, self.x, 2), lo, hi, bend) > 0

    def rises_beyond(self, f: Expr, start: Any, side: int, wanted: int) -> bool:
        """Prove the sign of df/dx for side * x >= start, a positive ball."""
        y, derivative = slope(f.xreplace(self.exact), self.x, side)
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

    def change_beyond(self, f: Expr, start: Any, side: int) -> Any:
        """Bound on abs(f(side y) - f(side start)) for y >= start > 0; inf where none is found."""
        y, derivative = slope(f.xreplace(self.exact), self.x, side)
        try:
            top, bottom = (AtInfinity(y, start).order(part) for part in _quotient(derivative))
        except Unknown:
            return arb.pos_inf()
        k, a, size = top.k - bottom.k, top.a - bottom.a, abs(top.f / bottom.f)
        if k.is_zero and (a + 1).is_negative:  # int_R^oo y^a
            power = self.at(a + 1)
            return size * (power * start.log()).exp() / -power
        if k.is_negative and a.is_nonpositive:  # int_R^oo e^(ky) y^a <= e^(kR) R^a/|k|
            rate = self.at(k)
            return size * (rate * start + self.at(a) * start.log()).exp() / -rate
        return arb.pos_inf()


def _quotient(derivative: Expr) -> tuple[Expr, ...]:
    """Numerator and denominator, multiplied out: what cancels at infinity is gone."""
    if any(power.exp.is_Rational and power.exp.q > LARGEST_ROOT for power in derivative.atoms(Pow)):
        return (derivative, S.One)  # SymPy takes numbers with such exponents apart without end
    numerator, denominator = sp.fraction(sp.together(derivative))
    return tuple(sp.expand(part) for part in (numerator, denominator))


def monotone_parts(piece: Piece) -> list[tuple[int, Expr]]:
    """Functions whose derivatives decide the sign of dL/dx: all of one sign suffices.

    With a single term in q, L = log sum w_i exp(f_i - g) moves with every f_i - g; with a single
    term in p it moves against every g_j - f.

    Returns:
        (sign, function); constants are left out, and L itself stands where both are sums.
    """
    single, several, sign = _sides(piece)
    if len(single) == 1:
        parts = [(sign, sp.expand(t.log_density - single[0].log_density)) for t in several]
    else:
        parts = [(1, whole)] if (whole := _loss(piece)) is not None else []
    return [(sign, part) for sign, part in parts if not part.is_number and part.free_symbols]


def _sides(piece: Piece) -> tuple[tuple[Term, ...], tuple[Term, ...], int]:
    """The side with a single term if there is one, the other, and how the loss moves with that."""
    return (piece.q, piece.p, 1) if len(piece.q) == 1 else (piece.p, piece.q, -1)


def _loss(piece: Piece) -> Expr | None:
    """L itself; over a single term as one sum of exponentials of differences."""
    single, several, sign = _sides(piece)
    if len(single) == 1 < len(several):
        logs = (sp.expand(t.log_density - single[0].log_density) for t in several)
        return sign * log(Add(*(t.weight * exp(f) for t, f in zip(several, logs, strict=True))))
    log_p, log_q = log_sum(piece.p), log_sum(piece.q)
    return None if log_p is None or log_q is None else log_p - log_q


Signs = frozenset[int]

ANY: Signs = frozenset({-1, 0, 1})
POSITIVE, NONNEGATIVE = frozenset({1}), frozenset({0, 1})  # signs that a number may have
ALWAYS_POSITIVE = ("exp", "cosh", "sech", "erfc", "erfc_rate", "erfc_bend")
ODD = ("sinh", "tanh", "asinh", "atan", "erf")  # with the sign of their argument
SMOOTH = ("sin", "cos", "log_erfc")


def of_derivative(f: Expr, line: Line, lo: Any, hi: Any) -> int | None:
    """The sign of f' for lo < x < hi; None where the rules do not tell, or f may be singular."""

    @cache
    def signs(expr: Expr) -> Signs:
        return _signs(expr, line, (lo, hi), signs)

    try:
        signs(f)
        for form in (sp.diff(f, line.x), sp.factor_terms(sp.diff(f, line.x))):
            if len(found := signs(form)) == 1:
                return next(iter(found))
    except Open:
        pass
    return None


def _signs(expr: Expr, line: Line, ends: Box, of: Callable[[Expr], Signs]) -> Signs:
    """The signs that an expression may have between two ends, by those of its parts."""
    if not expr.has(line.x):
        return _of_ball(line.at(expr))
    if len(affine := _of_affine(expr, line, ends)) == 1 or expr == line.x:
        return affine
    if isinstance(expr, (Add, Mul)):
        rule = _sum if isinstance(expr, Add) else _product
        found = of(expr.args[0])
        for part in expr.args[1:]:
            found = frozenset().union(*(rule(a, b) for a in found for b in of(part)))
        return found
    inner, name = of(expr.args[0]), type(expr).__name__
    if isinstance(expr, Pow) and not expr.exp.has(line.x):
        if expr.exp.is_Integer and not (expr.exp.is_negative and 0 in inner):
            return frozenset(s ** abs(int(expr.exp)) for s in inner)
        if inner == POSITIVE or (inner <= NONNEGATIVE and line.at(expr.exp) > 0):
            return inner
    elif len(expr.args) == 1:
        if name in ALWAYS_POSITIVE:
            return POSITIVE
        if name in ODD:
            return inner
        if name in SMOOTH or (isinstance(expr, log) and inner == POSITIVE):
            return ANY
    raise Open(f"{name} has no rule")


def _of_affine(expr: Expr, line: Line, ends: Box) -> Signs:
    """Signs of c1 x + c0, from its values at the ends, which it does not reach."""
    if not isinstance(expr, (Symbol, Add, Mul)) or (slope := expr.diff(line.x)).has(line.x):
        return ANY
    rising, found = _of_ball(line.at(slope)), frozenset[int]()
    for end, side in zip(ends, (-1, 1), strict=True):
        sign = towards = frozenset(side * s for s in rising)
        if end.is_finite():
            sign = _of_ball(line.on(expr)(end, False))
            if not end.rad():
                here = expr.xreplace({**line.exact, line.x: expressions.rational(end)})
                sign = _of_ball(expressions.constant(here, {}))
            sign = frozenset(-s for s in towards) if sign == {0} else sign
        found |= sign
    return found if len(found) == 1 else ANY


def _of_ball(value: Any) -> Signs:
    if value > 0 or value < 0 or value.is_zero():
        return frozenset({_sign(value)})
    return ANY


def _sum(a: int, b: int) -> set[int]:
    return {-1, 0, 1} if a * b < 0 else {a or b}


def _product(a: int, b: int) -> set[int]:
    return {a * b}


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


def verdict(piece: Piece, line: Line, points: Sequence[float], ends: Ends, wanted: int) -> Verdict:
    """Whether the loss of a piece moves as `wanted` between two places.

    Args:
        piece: where both laws have mass.
        line: the variable and the parameters.
        points: inside the interval, in order; boxes cover what lies between them.
        ends: of the interval.
        wanted: 1 or -1.
    """
    best, forms = Verdict.SAMPLED, list(_forms(piece, line))
    if any(_by_rules(form, line, ends, wanted) for form in forms):
        return Verdict.PROVED
    for form in forms:
        best = min(best, _by_boxes(form, line, points, ends, wanted))
        if best <= Verdict.PROVED:
            break
    return best


def _forms(piece: Piece, line: Line) -> Iterator[Form]:
    parts = tuple(monotone_parts(piece))
    if parts:
        yield Form(parts)
    whole = _loss(piece)
    if whole is not None and (1, whole) not in parts:
        yield Form(((1, whole),))
    shifted = _shifted(piece, line)
    if shifted is not None:
        yield shifted


def _shifted(piece: Piece, line: Line) -> Form | None:
    """The form by second derivatives, where all terms are one density at two places."""
    (single, several, sign), x = _sides(piece), line.x
    if len(single) != 1:
        return None
    base, parts, reaches = single[0].log_density, [], set()
    moving = [t.log_density for t in several if t.log_density != base]
    for f in moving:
        for place in sorted(f.free_symbols - {x}, key=str):
            for turn, left, right in ((1, f, base), (-1, base, f)):
                gap = left.xreplace({x: x + place}) - right
                gap = sp.expand(
                    gap, power_base=False, power_exp=False, log=False, multinomial=False
                )
                if gap == 0 and line.values[place] > 0:
                    parts.append((-turn * sign, sp.diff(with_log_erfc(right), x)))
                    reaches.add(place)
    if len(parts) != len(moving) or len(reaches) != 1:
        return None
    return Form(tuple(parts), line.values[reaches.pop()])


def _by_rules(form: Form, line: Line, ends: Ends, wanted: int) -> bool:
    """Whether the signs of all derivatives follow from those of their parts."""
    lo, hi = arb(ends[0]) - form.reach, arb(ends[1])
    return all(
        of_derivative(with_log_erfc(part), line, lo, hi) == sign * wanted
        for sign, part in form.parts
    )


def _by_boxes(form: Form, line: Line, points: Sequence[float], ends: Ends, wanted: int) -> Verdict:
    """The signs of all derivatives on boxes between decided points, and by orders beyond them."""
    signed = [v for v in points if all(line.moves(f, v) for _, f in form.parts)]
    if len(signed) < 2:
        return Verdict.SAMPLED
    inner = ((arb(signed[0]) - form.reach).lower(), arb(signed[-1]))
    for sign, part in form.parts:
        found = line.rises(part, *inner, sign * wanted)
        if found < 0 and len(form.parts) == 1 and form.reach.is_zero():
            return Verdict.OPPOSITE
        if found <= 0:
            return Verdict.SAMPLED
    for side, end, edge, last in (
        (-1, inner[0], ends[0], points[0]), (1, inner[1], ends[1], points[-1])
    ):  # fmt: skip
        for sign, part in form.parts:
            if math.isinf(edge):
                beyond = side * end > 0 and line.rises_beyond(part, abs(end), side, sign * wanted)
            else:
                beyond = not side * end < side * arb(last) or line.turns_at(
                    part, last, end, -side * sign * wanted)  # fmt: skip
            if not beyond:
                return Verdict.PROVED_INSIDE
    return Verdict.PROVED


UP, DOWN, FLAT = 1, -1, 0  # signs of the change
DOUBLINGS = 40  # towards an end, finite or not
NARROWINGS = 60  # of the box around a mode
MAX_POINTS = 4000  # integers looked at one by one
NO_JUMP = 2.0**-60  # width of a jump that may be none
NEAREST = 4  # units in the last place, from an end


def noise_of(declaration: Declaration) -> Declaration | None:
    """The noise whose shift a pair is made of, None where it is made otherwise."""
    built = declaration.construction
    while isinstance(built, (Poisson, Derived)):
        declaration, built = built.base, built.base.construction
    if not isinstance(built, Shift):
        return None
    return replace(declaration, p=built.noise, q=built.noise, construction=None)


def unimodal_verdict(noise: Oracle) -> tuple[str | None, str | None]:
    """(what contradicts unimodality of P, why it is not proved): both None where it is proved.

    That is up to the rounding of finite ends.
    """
    fell = False
    try:
        with ctx.workprec(BITS):
            for direction in _directions(noise):
                if fell and direction == UP:
                    return "the density rises again after it fell", None
                fell |= direction == DOWN
    except (Open, UnsupportedError) as reason:
        return None, str(reason)
    return None, None


def _directions(noise: Oracle) -> Iterator[int]:
    """Directions of the density from left to right, jumps included."""
    lattice, before = noise.measure is Measure.LATTICE, None
    for part in (part.plain for part in noise.parts()):
        if before is not None:
            if not (before.hi + lattice).overlaps(part.lo):
                yield from (DOWN, UP)
            else:
                yield jump(before.p.log(before.hi, False), part.p.log(part.lo, False))
        yield from (lattice_steps if lattice else _pieces)(part, Line(part.x, part.values))
        before = part


def _sign(change: Any) -> int:
    """Direction of a change."""
    return UP if change > 0 else DOWN if change < 0 else FLAT


def jump(before: Any, after: Any) -> int:
    """Direction of a jump between two logs; a continuous density has none, but for rounding."""
    if before == after == arb.neg_inf():
        return FLAT
    change = after - before
    if change.contains(0) and not change.rad() < NO_JUMP:
        raise Open("a jump may go either way")
    return _sign(change)


def lattice_steps(part: Part, line: Line) -> Iterator[int]:
    """Directions between neighbouring integers, tails by their order at infinity."""
    (first, before), (last, after) = _ends(part, line, 0)
    start, stop = map(expressions.integer, (first, last))
    if stop - start > MAX_POINTS:
        raise Open(f"more than {MAX_POINTS} points")
    yield from before
    logs = [part.p.log(arb(n), False) for n in range(start, stop + 1)]
    for a, b in itertools.pairwise(logs):
        if not (a.is_finite() and b.is_finite()):
            raise Open("a mass has no enclosure")
        yield jump(a, b)
    yield from after


def _pieces(part: Part, line: Line) -> Iterator[int]:
    """Directions on one interval, as verdicts about log p: one of them, a peak, or a valley."""
    f = log_sum(part.piece.p)
    if f is None or not f.has(part.x):
        return
    known = of_derivative(f, line, part.lo, part.hi)
    if known is not None:
        yield known
        return
    piece = replace(part.piece, q=(Term(S.One, S.Zero),))
    (first, before), (last, after) = _ends(part, line)
    lo, hi = float(first.mid()), float(last.mid())
    near = NEAREST * math.ulp(max(abs(lo), abs(hi)))  # of an end of the piece
    inner = lo if before else lo + near, hi if after else hi - near
    away = [(hi - lo) * 0.5**k for k in range(1, DOUBLINGS)]
    places = {v for a in away for v in (lo + a, hi - a) if inner[0] < v < inner[1]}
    points = sorted({*inner, *places})
    yield from before
    density, slope, bend = (line.on(sp.diff(f, part.x, n)) for n in range(3))
    top = max(range(len(points)), key=lambda i: float(density(arb(points[i]), False).mid()))
    if 0 < top < len(points) - 1:
        below, above = switch(lambda v: bool(slope(arb(v), False) > 0), lo=points[top - 1],
                              hi=points[top + 1], turns=DOUBLINGS)  # fmt: skip
        reach = hi - lo
        for _ in range(NARROWINGS):
            left, right = below - reach, above + reach
            if lo < left and right < hi and bend(arb(left).union(arb(right)), False) < 0:
                break
            reach *= 0.75
        else:
            raise Open("no concave neighbourhood of the mode")
        stretches = [(lo, left, UP), (right, hi, DOWN)]
    else:
        stretches = [(lo, hi, UP if top else DOWN)]
        if slope(arb(points[0]), False) < 0 < slope(arb(points[-1]), False):
            yield from (DOWN, UP)
            return
    for a, b, wanted in stretches:
        ends = {v for v in (a, b) if v not in (lo, hi)}
        inside = sorted({v for v in points if a <= v <= b} | ends)
        if verdict(piece, line, inside, (a, b), wanted) != Verdict.PROVED:
            raise Open(f"the sign of the derivative stays open between {a:g} and {b:g}")
        yield wanted
    yield from after


def _ends(part: Part, line: Line, least: int = -4) -> list[tuple[Any, list[int]]]:
    """Finite places to go on from at either end, with the directions of all terms beyond them.

    They are ends of the part, or powers of two from 2^least on.
    """
    found: list[tuple[Any, list[int]]] = []
    for side, end in ((-1, part.lo), (1, part.hi)):
        places = [] if end.is_finite() else [arb(2) ** k for k in range(least, DOUBLINGS)]
        inside = [y for y in places if part.lo < side * y and side * y < part.hi]
        proved = ((side * y, [s]) for y in inside for s in (UP, DOWN) if all(
            _rises_beyond(f, line, y, side, s) for f in part.p.exprs))  # fmt: skip
        place = (end, []) if end.is_finite() else next(proved, None)
        if place is None:
            raise Open(f"no direction towards {side * float('inf')}")
        found.append(place)
    return found


def _rises_beyond(f: Expr, line: Line, y: Any, side: int, wanted: int) -> bool:
    """Whether a log density moves as wanted for all side * x >= y."""
    # I_m(c) falls in m = |order|: I_{m+1}/I_m <= c / (2 (m + 1)), Amos (1974).
    if not (isinstance(f, log) and isinstance(f.args[0], sp.besseli)):
        return line.rises_beyond(f, y, side, wanted)
    order, argument = f.args[0].args
    outward = side * sp.diff(order, line.x)
    if wanted != -side or outward**2 != 1:
        return False
    m = outward * line.on(order)(side * y, False)
    return bool(m >= 0 and line.at(argument) < 2 * (m + 1))
