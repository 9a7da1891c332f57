"""Certified delta of one step: p - e^eps q integrated over boxes where L - eps is positive.

Boxes where the sign is open are halved until the most they can contribute is negligible, and that
becomes part of the error, as does the mass under P of what lies far out or next to singular ends.
"""

from __future__ import annotations

from typing import Any

from flint import acb, arb, ctx

from mechc.errors import NumericError
from mechc.verify import shape_proofs
from mechc.verify.balls.boxes import Box, Boxes, Open, between
from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.oracle import Oracle

MAX_BOXES = 20_000  # of one integral
MOST_DOUBLINGS = 60  # doublings of the place from which on a tail is looked at as a whole


def finite_part(oracle: Oracle, epsilon: Any, size: Any) -> Any:
    """Ball around E_P[(1 - exp(eps - L))_+; L finite] of one step, which has about this size."""
    tiny = size * arb(2) ** (16 - ctx.prec)
    rows, total, densities = oracle.losses(arb(1), arb(0), tiny)
    for loss, mass in rows:
        total += mass * (1 - (epsilon - loss).exp()).max(arb(0))
    return sum((_density(oracle.parts()[n], epsilon, tiny) for n in densities), start=total)


def _density(part: PieceIntegral, epsilon: Any, tiny: Any) -> Any:
    """The same of one piece with densities."""
    log_p, loss = part.exponent(acb(1), acb(0)), part.exponent(acb(1), acb(-1))
    total, ends, above, monotone = arb(0), [], list[Box](), []
    for side, own in ((-1, part.lo), (1, part.hi)):
        if own.is_finite():
            place, rest = part.beside(acb(1), acb(0), -side, own)
            total += between(rest)
        else:
            start, place, sign = _known_from(part, loss, epsilon, side)
            monotone += [] if start is None else [(side, start)]
            if sign >= 0:
                cut, bound = part.cut(acb(1), acb(0), side)
                total += between(bound)
                if sign and side * (cut - place) > 0:
                    above.append((place, cut) if side > 0 else (cut, place))
            place = place if sign else cut
        ends.append(place)
    lo, hi = ends
    todo = Boxes([(lo, arb(0)), (arb(0), hi)] if lo < 0 and hi > 0 else [(lo, hi)], MAX_BOXES)
    try:
        for a, b in todo:
            if any(side * a >= y and side * b >= y for side, y in monotone):
                first, last = (loss(acb(v), False).real - epsilon for v in (a, b))
                gap = first.union(last)
            else:
                gap = loss(a.union(b), False).real - epsilon
                if gap.contains(0):
                    gap = part.loss_on(a.union(b)) - epsilon
            if gap > 0:
                above.append((a, b))
            elif not gap <= 0:
                if (most := _most(a, b, gap, log_p)).upper() < tiny:
                    total += between(most)
                else:
                    todo.halve(a, b)
    except Open as reason:
        for a, b in todo.todo:  # what they can contribute makes the answer wide
            total += between(_most(a, b, part.loss_on(a.union(b)) - epsilon, log_p))
        if not total.is_finite():
            raise NumericError(
                "certified: the outputs with a loss above epsilon are not told from the others (a "
                f"density has a singular end, or the loss is flat there: {reason}); ask without "
                "certified=True"
            ) from reason
    for a, b in _merged(above):
        p, q = (part.integral(acb(w), acb(1 - w), a, b).real for w in (1, 0))
        total += p - epsilon.exp() * q
    return total


def _most(a: Any, b: Any, gap: Any, log_p: Any) -> Any:
    """A ball whose upper end is at least what a box contributes; not finite if none is known."""
    share = (1 - (-gap).exp()).max(arb(0))  # of p, at most all of it
    most = (b - a) * log_p(a.union(b), False).real.exp()
    return most * share if share.is_finite() else most


def _known_from(part: PieceIntegral, loss: Any, epsilon: Any, side: int) -> tuple[Any, Any, int]:
    """(distance, place, sign): from where L is proved to move one way, and L - eps to have a sign.

    It has one where it moves away from zero, or hardly at all; the sign is 0 if that is not found.
    """
    line, start, outward = shape_proofs.Line(part.x, part.values), None, 0
    parts = shape_proofs.monotone_parts(part.piece)
    for y in (arb(2) ** k for k in range(1, MOST_DOUBLINGS, 3)):
        place = side * y
        gap = loss(acb(place), False).real - epsilon
        if not parts or not (part.lo < place and place < part.hi):
            continue
        if start is None:
            ways = [
                way for way in (1, -1)
                if all(line.rises_beyond(f, y, side, way * s * side) for s, f in parts)
            ]  # fmt: skip
            start, outward = (y, ways[0]) if ways else (None, 0)
        if gap.contains(0):
            continue
        sign = 1 if gap > 0 else -1
        change = [line.change_beyond(f, y, side) for _, f in parts if outward != sign]
        if all(c < abs(gap) for c in change):
            return start, place, sign
    return start, None, 0


def _merged(boxes: list[Box]) -> list[Box]:
    """Neighbouring boxes as one."""
    merged: list[Box] = []
    for a, b in sorted(boxes, key=lambda box: float(box[0].mid())):
        if merged and merged[-1][1] == a:
            merged[-1] = (merged[-1][0], b)
        else:
            merged.append((a, b))
    return merged
