"""Whether noise is unimodal at one parameter vector, proved in ball arithmetic.

Shifts by less than the sensitivity are dominated only if the noise rises and then falls (T1 in
mechc.claims). The compiler proves that for all parameters at once; here it is proved again, for one
vector and by other means: the sign of the derivative on boxes, concavity around the mode, orders at
infinity for the tails. On a lattice neighbours are compared one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from flint import arb, ctx
from sympy import Dummy, Expr, Symbol, besseli, diff, log

from mechc.cases import Case, by_cases, log_sum
from mechc.declare import Declaration, Derived, Poisson, Shift
from mechc.errors import UnsupportedError
from mechc.terms import Term
from mechc.verify import arithmetic, ends, proofs, signs

Box = tuple[Any, Any]

UP, DOWN, FLAT = 1, -1, 0
DOUBLINGS = 40
NARROWINGS = 60  # of the box around a mode
BISECTIONS = 80
MARGIN = 2.0**-40  # share of a piece next to an end where the derivative has no sign
MAX_POINTS = 4000


class Open(Exception):
    """A direction could not be proved, with the reason."""


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


def violation(noise: Declaration, values: dict[Symbol, Any]) -> str | None:
    """What contradicts unimodality, None if it is proved.

    Args:
        noise: with the density `p`.
        values: exact balls for the parameters.

    Raises:
        Open: neither proved nor refuted.
    """
    with ctx.workprec(proofs.BITS):
        rising, at_most = True, "the density rises again after it fell"
        for direction in _directions(noise, values):
            if direction == UP and not rising:
                return at_most
            rising = rising and direction != DOWN
    return None


def _directions(noise: Declaration, values: dict[Symbol, Any]) -> Iterator[int]:
    """Directions of the density from left to right, jumps included."""
    case = _holding(noise, values)
    x, lattice = Dummy("x", real=True), noise.measure == "lattice"
    end: Any = None
    last: Any = None
    for piece in case.pieces:
        f = log_sum(piece.p)
        lo, hi = (arithmetic.constant(e, values) for e in (piece.lo, piece.hi))
        if f is None or (hi < lo if lattice else hi <= lo):
            continue
        f = f.xreplace({noise.variable: x})
        here = arithmetic.function(f, x, values)
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


def _holding(noise: Declaration, values: dict[Symbol, Any]) -> Case:
    for case in by_cases(noise):
        if arithmetic.holds(case.condition, values):
            return case
    raise Open("no case is certain")


def _sign(change: Any) -> int:
    """Direction of a jump; a continuous density has none."""
    return UP if change > 0 else DOWN if change < 0 else FLAT


def _steps(span: _Span, lo: Any, hi: Any) -> Iterator[int]:
    """Directions between neighbouring integers, tails by their order at infinity."""
    (first, before), (last, after) = _ends(span, lo, hi)
    start, stop = (int(float(e.mid())) for e in (first, last))
    if stop - start > MAX_POINTS:
        raise Open(f"more than {MAX_POINTS} points")
    here = arithmetic.function(span.f, span.x, span.values)
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
    known = signs.of_derivative(span.f, span.x, span.values, lo, hi)
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
    return proofs.sign_beyond(f, span.x, span.values, y, side, wanted)[0]


def _bessel_falls(order: Expr, argument: Expr, span: _Span, y: Any, side: int) -> bool:
    """Whether I_m(c) falls in m = |order| beyond y: I_{m+1}/I_m <= c / (2 (m + 1)), Amos (1974)."""
    outward = side * diff(order, span.x)
    if outward**2 != 1:
        return False
    m = outward * arithmetic.function(order, span.x, span.values)(side * y, False)
    return bool(m >= 0 and arithmetic.constant(argument, span.values) < 2 * (m + 1))


def _inside(span: _Span, a: Any, b: Any) -> list[int]:
    """Directions between two finite places: one of them, or a peak."""
    f, x, values = span.f, span.x, span.values
    slope, bend = (arithmetic.function(diff(f, x, n), x, values) for n in (1, 2))
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
    if proofs.sign_on(diff(f, x), x, values, whole[0], whole[1], wanted)[0]:
        return
    if proofs.sign_as_quotient(f, x, values, whole[0], whole[1], wanted)[0]:
        return
    if not proofs.sign_on(diff(f, x), x, values, inner[0], inner[1], wanted)[0]:
        raise Open(f"the sign of the derivative stays open between {inner[0].str(6)} and "
                   f"{inner[1].str(6)}")  # fmt: skip
    for end, side, gap in (
        (span.lo, 1, (whole[0], inner[0])), (span.hi, -1, (whole[1], inner[1]))
    ):  # fmt: skip
        if gap[0].overlaps(gap[1]):
            continue
        box = gap[0].union(gap[1])
        if ends.rises_from(span.terms, x, end, values, box, side) != side * wanted:
            raise Open("next to an end the derivative has no sign")


def verdict(noise: Declaration, values: dict[Symbol, Any]) -> tuple[str | None, str | None]:
    """(violation, why it is not proved): both None where unimodality is proved."""
    try:
        return violation(noise, values), None
    except (Open, UnsupportedError) as reason:
        return None, str(reason)
