"""M(c + inh) at many equidistant heights, by one set of Gauss nodes for all of them.

On a panel the integrand w(x) e^(iyL(x)), w = p^(1+c) q^(-c), is analytic inside a Bernstein
ellipse, and so are others (`integrand`); if |w| <= m and |Im L| <= b there, Gauss-Legendre
quadrature errs by no more than mechc.verify.balls.chebyshev says of m e^(yb). Both are proved once,
by balls that cover the ellipse; panels are halved until the bound is small for every |y| wanted.
What cannot be covered (an end where the density is not analytic) is halved until its mass is
negligible and becomes part of the error. The far tails are bounded as everywhere in this room.

With n = a + b m, the sums of w_j e^(inhL_j) over nodes j are a product of two matrices of balls.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from flint import acb, acb_mat, arb, ctx

from mechc.verify.balls import chebyshev
from mechc.verify.balls.boxes import Boxes
from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.lattice import LatticeSum
from mechc.verify.balls.oracle import Oracle
from mechc.verify.certified.integrand import Powers

ROOM = 16.0  # nats that the integrand may gain on the ellipse
RULES = 4  # of whose multiples the numbers of points are
MAX_PANELS = 20_000  # of a moment
AT_ONCE = 1000  # nodes in one product, for memory


def moments(
    oracle: Oracle, integrand: Powers, h: Any, last: int, size: Any, tolerance: Any
) -> list[Any]:
    """Balls around M(c + inh) of one step for n = 0, ..., last.

    Weight and phase are those of `integrand`, `Powers(c)` for M. Errors aimed at are `tolerance`
    times `size`, which is nearly M(c).

    Raises:
        NumericError: too many panels.
    """
    rows = [row for _, p, q in oracle.atoms if (row := integrand.at(p, q)) is not None]
    error, top = arb(0), (last * h).upper()
    for part in oracle.parts():
        share = (size * tolerance / 400).lower()
        if part.plateau is not None or not part.is_shared:
            rows += [row] if (row := integrand.constant(part)) is not None else []
        elif isinstance(part, LatticeSum):
            found, missed = integers(part, integrand, share)
            rows += found
            error += missed.upper()
        else:
            found, missed = _nodes(part, integrand, top, tolerance, share)
            rows += found
            error += missed
    step = math.isqrt(last) + 1
    fine, coarse = ([acb(0, n * h) for n in ns] for ns in (range(step), range(0, last + 1, step)))
    table = acb_mat(len(coarse), step)
    for at in range(0, len(rows), AT_ONCE):
        some = rows[at : at + AT_ONCE]
        left = acb_mat([[(z * loss).exp() for _, loss in some] for z in coarse])
        table += left * acb_mat([[w * (z * loss).exp() for z in fine] for w, loss in some])
    room = acb(arb(0, error.upper()), arb(0, error.upper()))
    return [value + room for value in table.entries()[: last + 1]]


def integers(part: LatticeSum, integrand: Powers, share: Any) -> tuple[list[Any], Any]:
    """(weight, phase) at integers, and a ball around what all others weigh, about `share`."""
    logs, rest = part.points(1 + integrand.c, -integrand.c, lambda _: share)
    rows = (integrand.at(p.exp(), q.exp()) for p, q in logs)
    return [row for row in rows if row is not None], rest


def _nodes(part: PieceIntegral, integrand: Powers, top: Any, tolerance: Any, share: Any) -> Any:
    """(weight, phase) at nodes of panels whose errors are below `share` each, and all errors."""
    lo, hi, error = part.within(acb(1 + integrand.c), acb(-integrand.c), part.lo, part.hi)
    exponent, loss = integrand.log_weight(part), integrand.phase(part)
    most = _points(10.0 + ROOM - float(tolerance.log().mid()))
    rows, middle = [], arb(0) if lo < 0 and hi > 0 else (lo + hi) / 2
    todo = Boxes([(lo, middle), (middle, hi)], MAX_PANELS, "panels")
    for left, right in todo:
        rule = _rule_for(exponent, loss, (left, right), top, most, share)
        if rule is not None:
            error += rule[1]
            centre, half = (left + right) / 2, (right - left) / 2
            for node, weight in _rule(rule[0], ctx.prec):
                x = centre + half * node
                rows.append((exponent(x, False).real.exp() * weight * half, loss(x, False).real))
            continue
        mass = abs(exponent(left.union(right), False).real.exp()).upper() * (right - left)
        if mass.is_finite() and mass < share:
            error += mass.upper()
        else:
            todo.halve(left, right)
    return rows, error


def _rule_for(exponent: Any, loss: Any, panel: Any, top: Any, most: int, share: Any) -> Any:
    """Points of a rule, and its error below `share` at every height; None if there is none."""
    left, right = panel
    centre, half = ((left + right) / 2).mid(), ((right - left) / 2).upper()
    fall = chebyshev.rho() ** -2  # of the error with a point
    start = arb(64) / 15 * half / (fall * (1 - fall)) / share
    room = -start.log() - most * fall.log()
    height = arb.neg_inf()
    for unit in chebyshev.cover(ctx.prec):
        box = unit * half + centre
        weight, bend = exponent(box, True), loss(box, True)
        size = (weight.real + top * abs(bend.imag)).upper()
        if not size < room:
            return None
        height = height.max(size)
    points = _points(float((height + start.log()).mid()))
    excess = height.exp() * start * fall**points
    return (points, (excess * share).upper()) if excess < 1 else None


def _points(nats: float) -> int:
    """Points of a rule that loses so many nats."""
    return RULES * math.ceil(max(nats, 1.0) / (2.0 * math.log(chebyshev.RHO)) / RULES)


@cache
def _rule(points: int, bits: int) -> tuple[tuple[Any, Any], ...]:
    with ctx.workprec(bits):
        return tuple(arb.legendre_p_root(points, i, weight=True) for i in range(points))
