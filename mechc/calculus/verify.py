"""Numeric checks that every derived formula passes before it is returned.

A formula is compared with its definition at random irrational parameter vectors from the typical
ranges (three by default), with 60 digits. Of several equal formulas the one that also stands in
double precision is preferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import mpmath
from mpmath import mp
from sympy import Basic, Expr, Symbol

from mechc.calculus.evaluate import Values, evaluate, typical_values
from mechc.calculus.signs import eliminations

if TYPE_CHECKING:
    from mechc.declare import Parameter

_DIGITS = 60
_TOLERANCE = mpmath.mpf(10) ** -20
_FRACTIONS = ("0.07182", "0.3141592", "0.618034", "0.9314718")


@dataclass(frozen=True)
class Checker:
    """Where formulas of one case are tested.

    Attributes:
        x: the variable.
        vectors: parameter values, all inside the case.
        integer: whether x runs through integers.
    """

    x: Symbol
    vectors: tuple[Values, ...]
    integer: bool = False

    @classmethod
    def of(
        cls, x: Symbol, parameters: Sequence[Parameter], condition: Basic, integer: bool,
        count: int = 3,
    ) -> Checker:  # fmt: skip
        """A checker with `count` parameter vectors that satisfy `condition`."""
        with mpmath.workdps(_DIGITS):
            found = tuple(
                islice(typical_values(parameters, condition, eliminations(condition)), count)
            )
        return cls(x, found, integer)

    def inverse_error(self, loss: Expr, inverse: Expr, lo: Expr, hi: Expr, ell: Symbol) -> Any:
        """How far the inverse is from one on lo < x < hi.

        Returns:
            None if it is not the inverse of this region at 60 digits, else the largest error of
            loss(inverse(l)) relative to 1 + abs(l) in double precision.
        """
        worst = mpmath.mpf(0)
        if not self.vectors:
            return None
        for vector in self.vectors:
            with mpmath.workdps(_DIGITS):
                points = self.points(lo, hi, vector)
                targets = [evaluate(loss, {**vector, self.x: v}) for v in points]
                for point, target in zip(points, targets, strict=True):
                    if not _round_trip(loss, inverse, point, target, self.x, ell, vector):
                        return None
            worst = max(worst, self._double_error(loss, inverse, ell, vector, targets))
        return worst

    def _double_error(
        self, loss: Expr, inverse: Expr, ell: Symbol, vector: Values, targets: list[Any]
    ) -> Any:
        worst = mpmath.mpf(0)
        for target in targets:
            with mpmath.workprec(53):
                rounded = +target
                point = evaluate(inverse, {**vector, ell: rounded})
            if isinstance(point, mpmath.mpc) or not mpmath.isfinite(point):
                return mpmath.inf
            with mpmath.workdps(_DIGITS):
                back = evaluate(loss, {**vector, self.x: point})
                worst = max(worst, abs(back - rounded) / (1 + abs(rounded)))
        return worst

    def points(self, lo: Expr, hi: Expr, vector: Values) -> list[Any]:
        """Points inside an interval: four, spread over it, some far out on an infinite side."""
        left, right = evaluate(lo, vector), evaluate(hi, vector)
        found = [_inside(left, right, mpmath.mpf(f)) for f in _FRACTIONS]
        if not self.integer:
            return found
        return sorted({min(max(mpmath.nint(v), left), right) for v in found})


def _inside(lo: Any, hi: Any, fraction: Any) -> Any:
    if lo == -mpmath.inf and hi == mpmath.inf:
        return mpmath.tan(mpmath.pi * (fraction - 0.5)) * 2
    if lo == -mpmath.inf:
        return hi - (1 + abs(hi)) * fraction / (1 - fraction)
    if hi == mpmath.inf:
        return lo + (1 + abs(lo)) * fraction / (1 - fraction)
    return lo + (hi - lo) * fraction


def _round_trip(
    loss: Expr, inverse: Expr, point: Any, target: Any, x: Symbol, ell: Symbol, vector: Values
) -> bool:
    if not mpmath.isfinite(target):
        return True
    try:
        back = evaluate(inverse, {**vector, ell: target})
    except (ZeroDivisionError, ValueError):
        return False
    if not mpmath.isfinite(back) or abs(mpmath.im(back)) > _TOLERANCE * (1 + abs(back)):
        return False
    there = evaluate(loss, {**vector, x: mpmath.re(back)})
    close_x = abs(back - point) <= _TOLERANCE * (1 + abs(point)) * 10**6
    return bool(close_x and abs(there - target) <= _TOLERANCE * (1 + abs(target)))


def precision() -> int:
    """Working digits of the checks."""
    return max(_DIGITS, mp.dps)
