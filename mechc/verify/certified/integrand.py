"""What transforms integrate over the outputs: a positive weight times exp(iy phase)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flint import acb, arb

from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.oracle import Oracle
from mechc.verify.balls.part import WHOLE

Function = Callable[[Any, bool], Any]


class Slopes(NamedTuple):
    """phase', phase'', (log w)' and (log |w/phase'|)' as functions on balls; boxes left."""

    first: Any
    second: Any
    tilted: Any
    ratio: Any
    boxes: Iterator[int]


class Powers:
    """Weight p^(1+c) q^(-c), phase L: of M(c + iy).

    Attributes:
        c: an exact ball.
    """

    def __init__(self, c: Any) -> None:
        """Hold c."""
        self.c = c

    def at(self, p: Any, q: Any) -> tuple[Any, Any] | None:
        """Weight and phase at a point mass, None where it does not count."""
        if not (p > 0 and q > 0):
            return None
        return ((1 + self.c) * p.log() - self.c * q.log()).exp(), (p / q).log()

    def constant(self, part: Any) -> tuple[Any, Any] | None:
        """Weight and phase of a piece on which L does not vary; None of one that does not count."""
        if not part.is_shared:
            return None
        return part.plateau_mass * (self.c * part.plateau).exp(), part.plateau

    def log_weight(self, part: PieceIntegral) -> Function:
        """Log of the weight on a piece."""
        return part.exponent(acb(1 + self.c), acb(-self.c))

    def phase(self, part: PieceIntegral) -> Function:
        """The phase on a piece."""
        return part.exponent(acb(1), acb(-1))

    def most(self, oracle: Oracle) -> Any:
        """Bound on the whole weight."""
        return oracle.moment(acb(self.c)).real

    def slopes(self, part: PieceIntegral, of_loss: Slopes) -> Slopes:
        """What varies how fast, from these functions for p^(1+c) q^(-c) and L."""
        return of_loss


class Ratios(Powers):
    """Weight q exp(-aX), phase -X = -p/q: of E_Q exp(-(a + iy) X).

    Its weight is at most q, the one of `Powers` at c = -1, by which all is cut.
    """

    def __init__(self, a: Any) -> None:
        """Hold a >= 0."""
        super().__init__(arb(-1))
        self.a = a

    def at(self, p: Any, q: Any) -> tuple[Any, Any] | None:
        """Weight and phase at a point mass."""
        return (q * (-self.a * p / q).exp(), -p / q) if q > 0 else None

    def constant(self, part: Any) -> tuple[Any, Any] | None:
        """Weight and phase of a piece on which X does not vary."""
        if part.q.is_zero:
            return None
        x = arb(0) if part.p.is_zero else part.plateau.exp()
        return part.mass("q", *WHOLE) * (-self.a * x).exp(), -x

    def log_weight(self, part: PieceIntegral) -> Function:
        """Log of the weight on a piece."""
        log_q, phase = part.exponent(acb(0), acb(1)), self.phase(part)
        return lambda u, analytic: log_q(u, analytic) + self.a * phase(u, analytic)

    def phase(self, part: PieceIntegral) -> Function:
        """The phase on a piece."""
        loss = super().phase(part)
        return lambda u, analytic: -loss(u, analytic).exp()

    def most(self, oracle: Oracle) -> Any:
        """Bound on the whole weight."""
        masses = [self.at(p, q) for _, p, q in oracle.atoms]
        for part in oracle.parts():
            flat = part.plateau is not None or not part.is_shared
            masses.append(self.constant(part) if flat else (part.moment(acb(self.c)).real, None))
        return sum((row[0] for row in masses if row is not None), start=arb(0))

    def slopes(self, part: PieceIntegral, of_loss: Slopes) -> Slopes:
        """What varies how fast."""
        complex_phase, (d1, d2, log_q, ratio, boxes) = self.phase(part), of_loss

        def phase(u: Any, analytic: bool) -> Any:
            value = complex_phase(u, analytic)
            return value if isinstance(u, acb) else value.real

        return Slopes(
            lambda u, k: phase(u, k) * d1(u, k),
            lambda u, k: phase(u, k) * (d2(u, k) + d1(u, k) ** 2),
            lambda u, k: log_q(u, k) + self.a * phase(u, k) * d1(u, k),
            lambda u, k: ratio(u, k) + (self.a * phase(u, k) - 1) * d1(u, k),
            boxes,
        )
