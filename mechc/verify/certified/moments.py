"""M(c + inh) at many equidistant heights: one set of Gauss nodes, turned again and again.

On a panel the integrand w(x) e^(iyL(x)), w = p^(1+c) q^(-c), is analytic inside a Bernstein
ellipse; if |w| <= m and |Im L| <= b there, the n-point Gauss-Legendre rule errs by at most

    (64/15) m e^(yb) half rho^(2-2n) / (1 - rho^-2)

(Trefethen, Approximation Theory and Approximation Practice, Theorem 19.3). Both are proved once, by
balls that cover the ellipse; panels are halved until the bound is small for every |y| wanted. What
cannot be covered (an end where the density is not analytic) is halved until its mass is negligible
and becomes part of the error. The far tails are bounded as everywhere in this room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

from flint import acb, arb, ctx

from mechc.errors import NumericError
from mechc.verify.balls.double_word import ADD, MULTIPLY, TINY, Floats, from_balls, total, turn
from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.oracle import Oracle

STRETCH = 1.5  # half axis of the ellipse along the panel, in half panels
RHO = STRETCH + math.sqrt(STRETCH * STRETCH - 1.0)
ROOM = 16.0  # nats that the integrand may gain on the ellipse
BOXES = (8, 3)  # balls that cover the upper half of the ellipse
RULES = 4  # of whose multiples the numbers of points are
MAX_PANELS = 20_000
WORD_BITS = 128  # of the balls around sums of double words


@cache
def _rule(points: int, bits: int) -> tuple[tuple[Any, Any], ...]:
    with ctx.workprec(bits):
        return tuple(arb.legendre_p_root(points, i, weight=True) for i in range(points))


@cache
def _cover(bits: int) -> tuple[Any, ...]:
    """Balls that cover the upper half of the ellipse of (-1, 1), highest first."""
    columns, rows = BOXES
    with ctx.workprec(bits):
        short = (arb(STRETCH) ** 2 - 1).sqrt()
        wide, high = STRETCH / columns * 1.0001, short / (2 * rows) * 1.0001
        xs = [arb(STRETCH) * (2 * i + 1 - columns) / columns for i in range(columns)]
        ys = [short * (2 * j + 1) / (2 * rows) for j in reversed(range(rows))]
        return tuple(acb(arb(x.mid(), wide), arb(y.mid(), high.upper())) for y in ys for x in xs)


def _points(nats: float) -> int:
    """Points of a rule that loses so many nats."""
    return RULES * math.ceil(max(nats, 1.0) / (2.0 * math.log(RHO)) / RULES)


class Wheel:
    """The moments of one step along a vertical line."""

    def __init__(
        self, oracle: Oracle, c: Any, h: Any, last: int, size: Any, tolerance: Any
    ) -> None:
        """Prepare heights 0, h, ..., last * h.

        Args:
            oracle: a pair with densities, and atoms if need be.
            c: real part, an exact ball.
            h: step of the heights.
            last: index of the largest height.
            size: M(c), nearly.
            tolerance: error of each moment aimed at, relative to `size`.

        Raises:
            NumericError: too many panels.
        """
        self.c, self.h = c, h
        self.top = (last * h).upper()
        self.most = _points(10.0 + ROOM - float(tolerance.log().mid()))
        self.error = arb(0)
        self.weights: list[Any] = []
        self.turns: list[Any] = []
        atoms = [(p, q) for _, p, q in oracle.atom_masses() if p > 0 and q > 0]
        for p, q in atoms:
            self._add(((1 + c) * p.log() - c * q.log()).exp(), (p / q).log())
        for part in oracle.parts():
            if part.p.is_zero or part.q.is_zero:
                continue
            if part.plateau is not None:
                self._add(part.plateau_mass * (c * part.plateau).exp(), part.plateau)
            else:
                self._panels(part, (size * tolerance / 400).lower())

    @property
    def largest(self) -> Any:
        """M(c), which no moment on the line exceeds."""
        return (sum((abs(w) for w in self.weights), start=arb(0)) + self.error).upper()

    def _add(self, weight: Any, loss: Any) -> None:
        self.weights.append(acb(weight))
        self.turns.append(acb(0, self.h * loss).exp())

    def _panels(self, part: PieceIntegral, share: Any) -> None:
        """Cover a piece with panels whose errors are below `share` each."""
        a, b = acb(1 + self.c), acb(-self.c)
        lo, hi = part.lo, part.hi
        if not lo.is_finite():
            lo, bound = part.cut_at(a, b, -1)
            self.error += bound
        if not hi.is_finite():
            hi, bound = part.cut_at(a, b, 1)
            self.error += bound
        middle = arb(0) if lo < 0 and hi > 0 else (lo + hi) / 2
        exponent, loss = part.exponent(a, b), part.exponent(acb(1), acb(-1))
        todo, count = [(lo, middle), (middle, hi)], 0
        while todo:
            left, right = todo.pop()
            count += 1
            if count > MAX_PANELS:
                raise NumericError(f"more than {MAX_PANELS} panels")
            rule = self._rule_for(exponent, loss, left, right, share)
            if rule is not None:
                self.error += rule[1]
                self._nodes(exponent, loss, left, right, rule[0])
                continue
            mass = abs(exponent(left.union(right), False).real.exp()).upper() * (right - left)
            if mass.is_finite() and mass < share:
                self.error += mass.upper()
                continue
            centre = ((left + right) / 2).mid()
            todo += [(left, centre), (centre, right)]

    def _rule_for(self, exponent: Any, loss: Any, left: Any, right: Any, share: Any) -> Any:
        """Points of a rule, and its error below `share` at every height; None if there is none."""
        centre, half = ((left + right) / 2).mid(), ((right - left) / 2).upper()
        fall = (arb(STRETCH) + (arb(STRETCH) ** 2 - 1).sqrt()) ** -2  # of the error with a point
        start = arb(64) / 15 * half / (fall * (1 - fall)) / share
        room = -start.log() - self.most * fall.log()
        height = arb.neg_inf()
        for unit in _cover(ctx.prec):
            box = unit * half + centre
            weight, bend = exponent(box, True), loss(box, True)
            # the lower half of the ellipse is the mirror image
            size = (weight.real + self.top * abs(bend.imag)).upper()
            if not size < room:
                return None
            height = height.max(size)
        points = _points(float((height + start.log()).mid()))
        excess = height.exp() * start * fall**points
        return (points, (excess * share).upper()) if excess < 1 else None

    def _nodes(self, exponent: Any, loss: Any, left: Any, right: Any, points: int) -> None:
        centre, half = (left + right) / 2, (right - left) / 2
        for node, weight in _rule(points, ctx.prec):
            x = centre + half * node
            self._add(exponent(x, False).real.exp() * weight * half, loss(x, False).real)

    def moments(self, last: int) -> Iterator[Any]:
        """Balls around M(c + inh) for n = 0, ..., last.

        The weights are turned in double-word arithmetic, as shares of their sum; its errors and
        those of the turns themselves grow with n and are counted apart.
        """
        size = sum((abs(w) for w in self.weights), start=arb(0)).upper()
        shares = [w / size for w in self.weights]
        state, turns = from_balls(shares), from_balls(self.turns)
        start = sum((abs(s - v) for s, v in zip(shares, _balls(state), strict=True)), start=arb(0))
        slip = arb(0)
        for ball, word in zip(self.turns, _balls(turns), strict=True):
            slip = slip.max(abs(ball - word).upper())
        slip = (2 * slip + MULTIPLY).upper()
        levels = arb(ADD) * (2 * len(shares).bit_length()) + TINY * 64 * len(shares)
        with ctx.workprec(max(WORD_BITS, ctx.prec)):
            for n in range(last + 1):
                if n:
                    turn(state, turns)
                grown = (1 + slip) ** n
                error = (size * (start + grown - 1 + levels * grown + n * TINY * 64)).upper()
                error = (error + self.error).upper()
                real, real_low, imag, imag_low = (arb(float(v)) for v in total(state))
                value = size * acb(real + real_low, imag + imag_low)
                yield value + acb(arb(0, error), arb(0, error))


def _balls(numbers: Floats) -> list[Any]:
    """Double-word numbers as balls."""
    rows = (map(arb, map(float, row)) for row in numbers)
    return [acb(a + b, c + d) for a, b, c, d in zip(*rows, strict=True)]
