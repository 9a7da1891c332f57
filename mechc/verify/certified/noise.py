"""Moments and quantiles of additive noise as theorems about its declaration.

E|x - c|^k is the mass of the density |x - c|^k q(x), which on each side of c has the terms of q
with k log|x - c| added to their logarithms: integrated, and its tails bounded, as densities are
(mechc.verify.balls). A quantile lies between two places of which one is proved to have less mass
below it than the probability, and the other not less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from flint import arb, ctx
from sympy import Max, Min, Rational, log

from mechc.calculus.cases import Piece
from mechc.declare.declaration import Declaration
from mechc.errors import NumericError
from mechc.protocol import Measure
from mechc.verify.balls.oracle import Oracle
from mechc.verify.balls.part import WHOLE

BITS = 96  # of every integral
CLOSEST, WIDER, MOST = 1e-15, 8.0, 14  # reach around a guess in spreads, its growth, how often
Closed = Callable[[float], tuple[float, float]]  # an interval of outputs, by how far it reaches


class Interval(NamedTuple):
    """What contains a number, proved."""

    lower: float
    upper: float


class CertifiedNoise:
    """The law Q of a pair that adds noise, at one parameter vector."""

    def __init__(self, declaration: Declaration, theta: tuple[float, ...], spread: float) -> None:
        """Bind the parameters.

        Args:
            declaration: of the pair.
            theta: its parameters.
            spread: about how far the noise reaches, which says how sharp places should be.
        """
        self._q = replace(declaration, construction=None, reverse=None)
        self._theta = theta
        self._lattice = declaration.measure is Measure.LATTICE
        self._oracle = Oracle(self._q, theta)
        self._scale = CLOSEST * spread

    def mean(self, guess: float) -> Interval:
        """Return bounds on the mean.

        Args:
            guess: about the mean; any number is right, a close one is sharper.

        Raises:
            UnsupportedError: no bound on a tail, as where the integral diverges.
            NumericError: an integral does not settle.
        """
        with ctx.workprec(BITS):
            return _interval(self._mean(self._centre(guess)))

    def variance(self, guess: float) -> Interval:
        """Return bounds on the variance; argument and errors as for `mean`."""
        with ctx.workprec(BITS):
            about = self._centre(guess)
            offset = self._mean(about) - about
            return _interval(sum(self._power(about, 2), start=arb(0)) - offset * offset)

    def absolute_error(self, median: Interval) -> Interval:
        """Return bounds on the mean distance from the median, at which it is least."""
        with ctx.workprec(BITS):
            about = self._centre(0.5 * (median.lower + median.upper))
            reach = max(median.upper - about, about - median.lower, 0.0)
            found = _interval(sum(self._power(about, 1), start=arb(0)))
            return Interval(math.nextafter(found.lower - reach, -math.inf), found.upper)

    def quantile(self, probability: float, guess: float) -> Interval:
        """Return bounds on the smallest x with P(noise <= x) >= probability."""
        return self._around(guess, probability, lambda x: (-math.inf, x), lambda x: (-math.inf, x))

    def error_quantile(self, probability: float, guess: float, median: Interval) -> Interval:
        """Return bounds on the smallest t with P(|noise - median| <= t) >= probability."""
        low, high = median
        return self._around(
            guess,
            probability,
            lambda t: self._rounded(low - t, high + t, math.inf),
            lambda t: self._rounded(high - t, low + t, -math.inf),
        )

    def _rounded(self, lo: float, hi: float, outward: float) -> tuple[float, float]:
        """Ends of an interval that were rounded, an ulp outwards (inf) or inwards (-inf)."""
        if self._lattice:  # sums of integers are exact
            return lo, hi
        return math.nextafter(lo, -outward), math.nextafter(hi, outward)

    def _around(self, guess: float, probability: float, wide: Closed, narrow: Closed) -> Interval:
        """The place at which closed intervals that grow have the probability."""
        target = arb(probability)

        def proved(side: int, holds: Callable[[float], bool]) -> float:
            """The first place on one side of the guess at which a statement is proved."""
            reaches = (n + (side < 0) if self._lattice else self._scale * WIDER**n
                       for n in range(MOST))  # fmt: skip
            found = next((x for r in reaches if holds(x := guess + side * r)), None)
            if found is None:
                raise NumericError(f"no place near {guess:g} is proved to have mass {probability}")
            return found

        below = proved(-1, lambda t: bool(self._mass(*wide(t)) < target))
        above = proved(1, lambda t: bool(self._mass(*narrow(t)) >= target))
        return Interval(below + self._lattice, above)

    def _mass(self, lo: float, hi: float) -> Any:
        """Ball around P(lo <= noise <= hi)."""
        with ctx.workprec(BITS):
            below = math.ceil(lo) - 1 if self._lattice and math.isfinite(lo) else lo
            return self._oracle.mass("q", below, hi) if lo <= hi else arb(0)

    def _centre(self, guess: float) -> float:
        return float(round(guess)) if self._lattice else guess

    def _mean(self, about: float) -> Any:
        below, above = self._power(about, 1)
        return about + above - below

    def _power(self, about: float, k: int) -> list[Any]:
        """Balls around E|x - about|^k below and above the place."""
        case, x, c = self._oracle.case, self._q.variable, Rational(about)
        gap = int(self._lattice)  # the place itself adds nothing
        found = []
        for side in (-1, 1):
            weighted = Oracle(self._q, self._theta)
            weight = k * log(side * (x - c))
            pieces = [
                Piece(
                    piece.lo if side < 0 else Max(piece.lo, c + gap),
                    Min(piece.hi, c - gap) if side < 0 else piece.hi,
                    (), tuple(replace(t, log_density=t.log_density + weight) for t in piece.q),
                )
                for piece in case.pieces
            ]  # fmt: skip
            weighted.case = replace(case, pieces=tuple(pieces))
            found.append(weighted.part_mass("q", *WHOLE))
        return found


def _interval(ball: Any) -> Interval:
    """A ball rounded outward."""
    if not ball.is_finite():
        raise NumericError("an integral of the noise has no finite enclosure")
    low, high = float(ball.lower()), float(ball.upper())
    return Interval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf))
