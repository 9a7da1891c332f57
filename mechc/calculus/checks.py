"""Numeric checks that every derived formula passes before it is returned.

A formula is compared with its definition at random irrational parameter vectors from the typical
ranges (three by default), with 60 digits. Of several equal formulas the one that also stands in
double precision is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from sympy import Basic, Expr, Symbol

from mechc.calculus.terms import total
from mechc.calculus.types import Region
from mechc.protocol import Floats
from mechc.symbolic.evaluate import Values, evaluate, evaluate_array
from mechc.symbolic.quadrature import Function, integral, sum_over
from mechc.symbolic.typical import typical_values

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom
    from mechc.symbolic.parameters import Parameter


_DIGITS = 60  # of mpmath, 20 of which have to be right
_TOLERANCE = mpmath.mpf(10) ** -20  # relative
_MOMENT_TOLERANCE = 1e-7  # of the quadrature that closed moments are compared with
_PLACES = (0.437, 0.71), (0.861, -0.39)  # in the strip: share, imaginary part, of either sign
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
        cls, x: Symbol, parameters: tuple[Parameter, ...], condition: Basic, integer: bool
    ) -> Checker:
        """A checker with three parameter vectors that satisfy `condition`."""
        with mpmath.workdps(_DIGITS):
            found = typical_values(parameters, 3, condition)
        return cls(x, found, integer)

    def inverse_error(self, loss: Expr, inverse: Expr, lo: Expr, hi: Expr, ell: Symbol) -> Any:
        """Largest error of loss(inverse(l)) over 1 + abs(l) in doubles; None for no inverse."""
        worst = mpmath.mpf(0)
        if not self.vectors:
            return None
        try:
            for vector in self.vectors:
                with mpmath.workdps(_DIGITS):
                    points = self.points(lo, hi, vector)
                    targets = [evaluate(loss, {**vector, self.x: v}) for v in points]
                    for point, target in zip(points, targets, strict=True):
                        if not _round_trip(loss, inverse, point, target, self.x, ell, vector):
                            return None
                worst = max(worst, self._double_error(loss, inverse, ell, vector, targets))
        except (NotImplementedError, ValueError, ArithmeticError):
            return None
        return worst

    def vanishes(self, constant: Expr) -> bool:
        """Whether an expression in the parameters is zero to 50 digits next to all vectors."""
        # at them some may be alike, as typical probabilities are, where log(w_1/w_2) is zero; a
        # sum of slow terms is known to doubles only, so that what is zero by its value is not told
        with mpmath.workdps(_DIGITS):
            values = [
                evaluate(constant, {
                    s: v + (i if s.is_integer else mpmath.sin(i) ** 2 / 97)
                    for i, (s, v) in enumerate(vector.items(), 1)
                })
                for vector in self.vectors
            ]  # fmt: skip
        return bool(values) and all(abs(v) < mpmath.mpf(10) ** (10 - _DIGITS) for v in values)

    def moment_agrees(
        self, formula: Expr, z: Symbol, regions: Sequence[Region], atoms: Sequence[Atom],
        strip: tuple[Expr, Expr],
    ) -> bool:  # fmt: skip
        """Whether log M(z) equals quadrature at complex z inside the strip."""
        for vector, (share, height) in product(self.vectors, _PLACES):
            lower, upper = (float(evaluate(end, vector)) for end in strip)
            left, right = max(lower, -2.0), min(upper, 1.0)
            where = complex(left + share * (right - left), height)
            floats = {symbol: float(v) for symbol, v in vector.items()}
            found = complex(evaluate_array(formula, {**floats, z: where}))
            truth = log_moment(regions, atoms, self.x, vector, where, self.integer)
            with np.errstate(all="ignore"):
                agrees = abs(np.exp(found - truth) - 1) < _MOMENT_TOLERANCE
            if not (agrees or found == truth):  # where the loss is never finite
                return False
        return bool(self.vectors)

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
    back = evaluate(inverse, {**vector, ell: target})
    if not mpmath.isfinite(back) or abs(mpmath.im(back)) > _TOLERANCE * (1 + abs(back)):
        return False
    there = evaluate(loss, {**vector, x: mpmath.re(back)})
    close_x = abs(back - point) <= _TOLERANCE * (1 + abs(point)) * 10**6
    return bool(close_x and abs(there - target) <= _TOLERANCE * (1 + abs(target)))


def log_moment(
    regions: Sequence[Region], atoms: Sequence[Atom], x: Symbol, vector: Values, z: complex,
    integer: bool,
) -> complex:  # fmt: skip
    """Log E_P[exp(zL); L finite] by quadrature or sums, its imaginary part modulo 2 pi."""
    floats = {symbol: float(v) for symbol, v in vector.items()}
    moment, rule = 0j, sum_over if integer else integral
    for region in regions:
        lo, hi = (float(evaluate(end, vector)) for end in (region.lo, region.hi))
        if region.loss is not None and (lo < hi or (integer and lo == hi)):
            real, imaginary = (
                rule(_part(region, x, floats, z, part), lo, hi, ()) for part in (np.real, np.imag)
            )
            moment += complex(real, imaginary)
    for atom in atoms:
        if atom.p and atom.q:
            p, q = (float(evaluate_array(total(side), floats)) for side in (atom.p, atom.q))
            moment += p ** (1 + z) * q ** (-z) if p and q else 0
    with np.errstate(all="ignore"):
        return complex(np.log(moment))


def _part(
    region: Region, x: Symbol, floats: Mapping[Symbol, float], z: complex,
    part: Callable[[NDArray[np.complex128]], Floats],
) -> Function:  # fmt: skip
    """The real or the imaginary part of p exp(zL), zero where doubles do not tell it."""

    def values(nodes: Floats) -> Floats:
        at = {**floats, x: nodes}
        with np.errstate(all="ignore"):
            logs = [np.log(evaluate_array(t.weight, at)) + evaluate_array(t.log_density, at)
                    for t in region.p]  # fmt: skip
            log_p = np.logaddexp.reduce(np.broadcast_arrays(*logs, nodes)[:-1], axis=0)
            found = np.exp(log_p + z * evaluate_array(region.loss, at))
        return np.where(np.isfinite(found), part(found), 0.0)

    return values
