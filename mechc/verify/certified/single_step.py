"""Certified delta of one step: (p - e^eps q)_+ integrated over boxes where L - eps has a sign.

Boxes where the sign is open are halved until the most they can contribute is negligible, and that
becomes part of the error. Far out (p - e^eps q)_+ <= p^(1+t) q^(-t) e^(-t eps) for any t >= 0
bounds what is left out.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from flint import acb, arb, ctx

from mechc.errors import NumericError
from mechc.verify import shape_proofs
from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.lattice import LatticeSum
from mechc.verify.balls.oracle import Oracle

MAX_BOXES = 20_000
MAX_POINTS = 200_000
INFINITE = arb.pos_inf()
FARTHEST = 60  # doublings of the place from which on a tail is looked at as a whole

Box = tuple[Any, Any]


def finite_part(oracle: Oracle, epsilon: Any, tilt: Any, size: Any) -> Any:
    """Ball around E_P[(1 - exp(eps - L))_+; L finite] of one step.

    Args:
        oracle: the pair.
        epsilon: exact ball.
        tilt: exact ball >= 0 inside the strip; it bounds the tails.
        size: about the size of the answer.
    """
    tiny = size * arb(2) ** (16 - ctx.prec)
    total = arb(0)
    for _, p, q in oracle.atom_masses():
        if p > 0 and q > 0:
            total += positive(p - epsilon.exp() * q)
    for part in oracle.parts():
        if part.p.is_zero or part.q.is_zero:
            continue
        if isinstance(part, LatticeSum):
            total += _points(part, epsilon, tilt, tiny)
        elif part.plateau is not None:
            total += part.plateau_mass * positive(1 - (epsilon - part.plateau).exp())
        else:
            total += _density(part, epsilon, tilt, tiny)
    return total


def positive(value: Any) -> Any:
    """Ball around max(value, 0)."""
    return value.max(arb(0))


def _density(part: PieceIntegral, epsilon: Any, tilt: Any, tiny: Any) -> Any:
    log_p, loss = part.exponent(acb(1), acb(0)), part.exponent(acb(1), acb(-1))
    tails = [
        None if end.is_finite() else _tail(part, loss, epsilon, tilt, side)
        for side, end in ((-1, part.lo), (1, part.hi))
    ]
    above, total, starts = [], arb(0), []
    for side, end, tail in zip((1, -1), (part.lo, part.hi), tails, strict=True):
        # next to a zero or a pole of p it is bounded as a whole: delta takes at most all of it
        start, rest = part.beside(acb(1), acb(0), side, end) if tail is None else (tail.start, None)
        starts.append(start)
        total += arb(0) if rest is None else _between(rest.real)
    lo, hi = starts
    open_boxes = list(itertools.pairwise([lo, *([arb(0)] if lo < 0 and hi > 0 else []), hi]))
    for tail in filter(None, tails):
        above += tail.above
        open_boxes += tail.open_boxes
        total += _between(tail.left_out)
    inner, left_out = _above(part, log_p, loss, epsilon, open_boxes, tiny)
    total += left_out

    def payoff(x: Any, analytic: bool) -> Any:
        return log_p(x, analytic).exp() * -(epsilon - loss(x, analytic)).expm1()

    for a, b in _merged(above + inner):
        value = acb.integral(payoff, a, b, rel_tol=arb(2) ** (12 - ctx.prec), abs_tol=tiny)
        if not value.is_finite():
            raise NumericError(f"the integral from {a.str(5)} to {b.str(5)} did not settle")
        total += value.real
    return total


class _Tail(NamedTuple):
    """What lies beyond `start`: boxes above eps, boxes to look at, a bound on what is left out."""

    start: Any
    above: list[Box]
    open_boxes: list[Box]
    left_out: Any


def _tail(part: PieceIntegral, loss: Any, epsilon: Any, tilt: Any, side: int) -> _Tail:
    """One infinite end.

    From some place on L moves one way, or hardly at all: then its side of eps is known for good.
    """
    parts, x, y = shape_proofs.monotone_parts(part.piece), part.x, arb(1) / 4
    start, outward = None, 0
    for _ in range(FARTHEST if parts else 0):
        y = 2 * y
        place = side * y
        if not (part.lo < place and place < part.hi):
            continue
        if not outward:
            outward, start = _direction(parts, part, y, side), place
        gap = loss(acb(place), False).real - epsilon
        slack = INFINITE
        if outward * gap <= 0:  # it may cross eps, or stop short of it
            changes = [shape_proofs.change_beyond(f, x, part.values, y, side) for _, f in parts]
            slack = max(changes, key=lambda c: float(c.upper()))
        if gap + slack < 0 or (outward < 0 and gap < 0):
            above, open_boxes = _crossing(loss, epsilon, start, place) if outward else ([], [])
            return _Tail(start if outward else place, above, open_boxes, arb(0))
        if gap - slack > 0 or (outward > 0 and gap > 0):
            above, open_boxes = _crossing(loss, epsilon, start, place) if outward else ([], [])
            cut, bound = part.cut_at(acb(1), acb(0), side)
            if side * cut > y:
                above.append(_box(place, cut))
            return _Tail(start if outward else place, above, open_boxes, bound)
    place, bound = part.cut_at(acb(1 + tilt), acb(-tilt), side)
    return _Tail(place, [], [], bound * (-tilt * epsilon).exp())


def _direction(parts: Any, part: PieceIntegral, y: Any, side: int) -> int:
    """1 where L is proved to rise outward from side * y on, -1 where it falls, else 0."""
    for outward in (1, -1):
        if all(
            shape_proofs.sign_beyond(f, part.x, part.values, y, side, sign * outward * side)
            for sign, f in parts
        ):
            return outward
    return 0


def _crossing(loss: Any, epsilon: Any, near: Any, far: Any) -> tuple[list[Box], list[Box]]:
    """Boxes above eps and boxes left open between two places where L is monotone."""
    if near == far:
        return [], []
    gaps = [loss(acb(v), False).real - epsilon for v in (near, far)]
    if all(g < 0 for g in gaps):
        return [], []
    if all(g > 0 for g in gaps):
        return [_box(near, far)], []
    if not all(g < 0 or g > 0 for g in gaps):
        return [], [_box(near, far)]
    rising, a, b = bool(gaps[1] > 0), near, far
    for _ in range(ctx.prec):
        middle = ((a + b) / 2).mid()
        gap = loss(acb(middle), False).real - epsilon
        if not (gap > 0 or gap < 0):
            break
        a, b = (a, middle) if bool(gap > 0) == rising else (middle, b)
    return [_box(b, far) if rising else _box(near, a)], [_box(a, b)]


def _box(a: Any, b: Any) -> Box:
    return (a, b) if a < b else (b, a)


def _above(
    part: PieceIntegral, log_p: Any, loss: Any, epsilon: Any, todo: list[Box], tiny: Any
) -> tuple[list[Box], Any]:
    """Boxes on which L > eps, and a ball around what those contribute whose sign stays open."""
    left_out = arb(0)
    above: list[Box] = []
    for _ in range(MAX_BOXES):
        if not todo:
            return above, left_out
        a, b = todo.pop()
        box = a.union(b)
        gap = _gap(part, loss, epsilon, box)
        if gap <= 0:
            continue
        if gap > 0:
            above.append((a, b))
            continue
        share = 1 - (-gap).exp()  # of p, at most all of it
        most = (b - a) * log_p(box, False).real.exp() * (share if share.is_finite() else 1)
        if most.is_finite() and most.upper() < tiny:
            left_out += _between(most)
            continue
        middle = ((a + b) / 2).mid()
        if not (a < middle and middle < b):
            raise NumericError(f"the sign of L - eps stays open at {middle.str(10)}")
        todo += [(a, middle), (middle, b)]
    raise NumericError(
        "certified: the outputs with a loss above epsilon are not told from the others in "
        f"{MAX_BOXES} boxes (a density has a singular end, or the loss is flat there); ask without "
        "certified=True"
    )


def _gap(part: PieceIntegral, loss: Any, epsilon: Any, box: Any) -> Any:
    """L - eps on a box, by the mean value theorem where that is sharper.

    Next to an extremum of L the plain enclosure would need boxes as short as the gap is small.
    """
    plain = loss(box, False).real - epsilon
    if not plain.contains(0):
        return plain
    middle = box.mid()
    bent = part.p.slope(box) - part.q.slope(box)
    central = loss(middle, False).real - epsilon + bent * (box - middle)
    return central if central.is_finite() and central.rad() < plain.rad() else plain


def _between(bound: Any) -> Any:
    """The ball [0, bound]."""
    half = (bound.upper() / 2).upper()
    return arb(half, half)


def _merged(boxes: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Neighbouring boxes as one."""
    merged: list[tuple[Any, Any]] = []
    for a, b in sorted(boxes, key=lambda box: float(box[0].mid())):
        if merged and merged[-1][1] == a:
            merged[-1] = (merged[-1][0], b)
        else:
            merged.append((a, b))
    return merged


def _points(part: LatticeSum, epsilon: Any, tilt: Any, tiny: Any) -> Any:
    """The sum over a lattice piece."""
    total = arb(0)
    for side, start, stop in part.halves():
        for m in range(start, start + MAX_POINTS):
            if stop is not None and m > stop:
                break
            log_p, log_q = part.logs(side * m)
            gap = log_p - log_q - epsilon
            total += log_p.exp() * positive(1 - (-gap).exp())
            if stop is None and m > 0 and m % 16 == 0:
                bound = part.tail(1 + tilt, -tilt, side, m)
                if bound is not None and bound * (-tilt * epsilon).exp() < tiny:
                    total += _between(bound * (-tilt * epsilon).exp())
                    break
        else:
            raise NumericError(f"more than {MAX_POINTS} points of the lattice matter")
    return total
