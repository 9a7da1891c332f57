"""Which way the loss moves on a branch, proved in ball arithmetic where possible.

Three proofs are tried: by the signs of the parts of a derivative (mechc.verify.signs), on boxes
between tested points with orders at infinity beyond them (mechc.verify.proofs), and both for the
second derivative of one density where P and Q are that density at two places: with
log p(x) = g(x - d) and log q(x) = g(x),

    L'(x) = g'(x - d) - g'(x) = -d g''(y)   for some y between x - d and x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from flint import arb, ctx
from sympy import Add, Expr, Symbol, diff, exp, expand, log

from mechc.cases import Piece, log_sum
from mechc.terms import Term
from mechc.verify import arithmetic, proofs, signs
from mechc.verify.infinity import with_log_erfc

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
    parts = tuple(proofs.monotone_parts(piece))
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
        signs.of_derivative(with_log_erfc(part), x, values, lo, hi) == sign * wanted
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
        if proofs.sign_as_quotient(part, x, values, *inner, sign * wanted)[0]:
            continue
        proved, how = proofs.sign_on(diff(part, x), x, values, *inner, sign * wanted)
        alone = len(form.parts) == 1 and form.reach.is_zero()
        if alone and how.startswith("the sign is opposite"):
            return Verdict.OPPOSITE
        if not proved:
            return Verdict.SAMPLED
    for side, end, edge, last in (
        (-1, inner[0], ends[0], points[0]), (1, inner[1], ends[1], points[-1])
    ):  # fmt: skip
        for sign, part in form.parts:
            if math.isinf(edge):
                beyond = side * end > 0 and proofs.sign_beyond(
                    part, x, values, abs(end), side, sign * wanted)[0]  # fmt: skip
            else:
                beyond = _turns_at(part, x, values, arb(last), end, -side * sign * wanted)
            if not beyond:
                return Verdict.PROVED_INSIDE
    return Verdict.PROVED


def _turns_at(part: Expr, x: Symbol, values: Any, end: Any, inner: Any, wanted: int) -> bool:
    """Whether a derivative keeps its sign towards an end, where it may vanish but for rounding."""
    if end == inner:
        return True
    left, right = (end, inner) if end < inner else (inner, end)
    return proofs.sign_on(diff(part, x, 2), x, values, left, right, wanted)[0]


def _decided(functions: list[Expr], x: Symbol, values: Any, points: Sequence[float]) -> list[float]:
    """The points between the outermost ones at which the sign of every derivative is decided."""
    with ctx.workprec(proofs.BITS):
        slopes = [arithmetic.function(diff(f, x), x, values) for f in functions]
        signed = [v for v in points if all(_signed(s(arb(v), False)) for s in slopes)]
    return [v for v in points if signed and signed[0] <= v <= signed[-1]]


def _signed(value: Any) -> bool:
    return bool(value > 0) or bool(value < 0)
