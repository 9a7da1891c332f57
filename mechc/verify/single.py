"""Certified delta of one step: (p - e^eps q)_+ integrated over boxes where L - eps has a sign.

Boxes where the sign is open are halved until the most they can contribute is negligible, and that
becomes part of the error. Far out (p - e^eps q)_+ <= p^(1+t) q^(-t) e^(-t eps) for any t >= 0
bounds what is left out.
"""

from __future__ import annotations

import itertools
from typing import Any

from flint import acb, arb, ctx

from mechc.errors import NumericError
from mechc.verify.ball import Oracle
from mechc.verify.integral import PieceIntegral
from mechc.verify.lattice import LatticeSum

MAX_BOXES = 20_000
MAX_POINTS = 200_000


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
    lo, hi, total = part.lo, part.hi, arb(0)
    front = (-tilt * epsilon).exp()
    if not lo.is_finite():
        lo, bound = part.cut_at(acb(1 + tilt), acb(-tilt), -1)
        total += _between(bound * front)
    if not hi.is_finite():
        hi, bound = part.cut_at(acb(1 + tilt), acb(-tilt), 1)
        total += _between(bound * front)
    inner = [arb(0)] if lo < 0 and hi > 0 else []
    ends = [lo, *inner, hi]
    todo = list(itertools.pairwise(ends))
    above: list[tuple[Any, Any]] = []
    for _ in range(MAX_BOXES):
        if not todo:
            break
        a, b = todo.pop()
        box = a.union(b)
        gap = _gap(part, loss, epsilon, box)
        if gap <= 0:
            continue
        if gap > 0:
            above.append((a, b))
            continue
        most = (b - a) * log_p(box, False).real.exp() * (1 - (-gap).exp())
        if most.is_finite() and most.upper() < tiny:
            total += _between(most)
            continue
        middle = ((a + b) / 2).mid()
        if not (a < middle and middle < b):
            raise NumericError(f"the sign of L - eps stays open at {middle.str(10)}")
        todo += [(a, middle), (middle, b)]
    else:
        raise NumericError(f"more than {MAX_BOXES} boxes")

    def payoff(x: Any, analytic: bool) -> Any:
        return log_p(x, analytic).exp() * -(epsilon - loss(x, analytic)).expm1()

    for a, b in _merged(above):
        value = acb.integral(payoff, a, b, rel_tol=arb(2) ** (12 - ctx.prec), abs_tol=tiny)
        if not value.is_finite():
            raise NumericError(f"the integral from {a.str(5)} to {b.str(5)} did not settle")
        total += value.real
    return total


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
