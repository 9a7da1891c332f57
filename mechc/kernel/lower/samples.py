"""The declared formulas as numbers: parameter vectors, points in every region, mpmath values.

Input: a calculus. Output: values to 50 digits straight from the terms of the pair. Parameter
vectors and points are doubles and count as exact, so that they can be handed to compiled code.
Those for the self-check of an emitted kernel cover every region and its tails, at two irrational
parameter vectors. Nothing here uses the derived loss, the derived inverse or the passes: the
self-check compares independent roads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import mpmath
from mpmath import mp, mpf
from sympy import Abs, Add, Dummy, Expr, Function, Mul, Piecewise, Pow, Sum, Symbol, besseli

from mechc.calculus.cases import Case
from mechc.calculus.terms import Term
from mechc.calculus.types import Calculus, CalculusCase, Region
from mechc.kernel.ir import Check
from mechc.numeric.rounding import MOST_LOG
from mechc.protocol import Measure
from mechc.symbolic.evaluate import evaluate, holds
from mechc.symbolic.parameters import Parameter
from mechc.symbolic.typical import typical_values

DIGITS = 50  # of reference values
ROUGH = 20  # digits for choosing points
NEGLIGIBLE = -1e4  # summands below exp(NEGLIGIBLE) of the largest are left out
# irrational, lest a form is right by luck
STEPS = tuple(math.sqrt(v) for v in (0.013, 0.13, 3.0, 31.0, 320.0, 3.2e5))
BESIDE = 1.7e-5  # how far outputs beside a finite end are from it, in widths of the density
REMOTE = (31.0, 1.1e3, 1e5)  # beyond the outermost points, in widths of the density
NEAR = (-1.1e-3, -1.3e-9, 1.7e-9, 1.9e-3)  # beside a zero of the loss, in its region's lengths
# of a region; irrational, lest terms cancel by chance
FRACTIONS = tuple(math.sqrt(v) for v in (0.00013, 0.013, 0.11, 0.37, 0.71, 0.97))

Values = Mapping[Symbol, Any]


def vectors(calculus: Calculus, case: Case | CalculusCase, count: int) -> list[dict[Symbol, Any]]:
    """Irrational typical parameter vectors of a case, rounded to doubles."""
    with mp.workprec(53):  # whatever precision the caller has set, the same vectors
        found = typical_values(calculus.pair.parameters, count, case.condition)
    rounded = [{symbol: mpf(float(v)) for symbol, v in vector.items()} for vector in found]
    return [theta for theta in rounded if holds(case.condition, theta)]


def corners(calculus: Calculus, case: CalculusCase) -> list[dict[Symbol, Any]]:
    """Vectors of ends of the typical ranges: all low, all high, alternating."""
    parameters = calculus.pair.parameters
    found = []
    for pattern in ((0, 0), (1, 1), (0, 1), (1, 0)):
        theta = {p.symbol: mpf(p.typical[pattern[i % 2]]) for i, p in enumerate(parameters)}
        if theta not in found and holds(case.condition, theta):
            found.append(theta)
    return found


@dataclass(frozen=True)
class Sample:
    """The declared formulas at one parameter vector."""

    calculus: Calculus
    theta: Values
    _constants: dict[tuple[Expr, int], Any] = field(default_factory=dict, compare=False)
    _values: dict[tuple[Expr, Any, int], Any] = field(default_factory=dict, compare=False)
    _points: dict[Region, list[Any]] = field(default_factory=dict, compare=False)

    def arguments(self, *first: Any) -> tuple[float, ...]:
        """Doubles for a function of some first arguments and of the parameters."""
        return (*map(float, first), *map(float, self.theta.values()))

    def value(self, expr: Expr, x: Any = None) -> Any:
        """An expression in the parameters, and in the variable if `x` is given: found once."""
        key = expr, x, mp.prec
        if key not in self._values:
            self._values[key] = self._found(expr, x)
        return self._values[key]

    def _found(self, expr: Expr, x: Any) -> Any:
        variable = self.calculus.pair.variable
        expr, constants = _prepared(expr, variable)
        at = {**self.theta, **{dummy: self._constant(e) for e, dummy in constants}}
        if x is not None:
            at[variable] = x
        return evaluate(expr, at)

    def _constant(self, expr: Expr) -> Any:
        """An expression in the parameters, once for each precision."""
        key = expr, mp.prec
        if key not in self._constants:
            self._constants[key] = evaluate(expr, self.theta)
        return self._constants[key]

    def log(self, terms: tuple[Term, ...], x: Any) -> Any:
        """Log of a sum of terms at x; their exponentials are far too small to take far out."""
        parts = [(self.value(t.weight), self.value(t.log_density, x)) for t in terms]
        if any(isinstance(exponent, mpmath.mpc) for _, exponent in parts):
            return mpmath.nan  # just outside its region, as of (n/s)**(3/2) below 0
        top = max((exponent for _, exponent in parts), default=-mpmath.inf)
        if not mpmath.isfinite(top):
            return top
        total = mpmath.fsum(w * mpmath.exp(e - top) for w, e in parts if e - top > NEGLIGIBLE)
        return top + mpmath.log(total) if total > 0 else -mpmath.inf

    def loss(self, region: Region, x: Any) -> Any:
        """Log p - log q of a region at x."""
        return self.log(region.p, x) - self.log(region.q, x)

    def solved(self, region: Region, ell: float, x: Any) -> Any:
        """The x near the given one where the loss is the double `ell`; None where it is too flat.

        One step of Newton's method, from a point where the loss is `ell` but for rounding.
        """
        step = mpf(10) ** (-DIGITS // 3) * max(abs(x), mpf(1) / 1000)
        slope = (self.loss(region, x + step) - self.loss(region, x - step)) / (2 * step)
        if not mpmath.isfinite(slope) or not abs(slope * x) > abs(ell) * mpf("1e-3"):
            return None
        return x - (self.loss(region, x) - mpf(ell)) / slope

    def points(self, region: Region) -> list[Any]:
        """Doubles inside a region, its tails included."""
        if region not in self._points:
            with mp.workdps(ROUGH):
                self._points[region] = list(self._inside(region))
        return self._points[region]

    def points_between(self, region: Region) -> list[Any]:
        """The same, four times as many: of several weights each decides the loss somewhere."""
        points = sorted(self.points(region))
        lattice = self.calculus.pair.measure is Measure.LATTICE
        for _ in range(2):
            middle = ((a + b) / 2 for a, b in itertools.pairwise(points))
            more = (mpf(int(mpmath.nint(x))) if lattice else mpf(float(x)) for x in middle)
            points = sorted({*points, *more})
        return points

    def points_near_zero(self, region: Region) -> list[Any]:
        """Doubles beside a zero of the loss, a thousandth and a billionth of a step away."""
        found: list[Any] = []
        if self.calculus.pair.measure is not Measure.DENSITY:
            return found
        with mp.workdps(ROUGH):
            points = sorted(self.points(region))
            losses = [self.loss(region, x) for x in points]
            for lo, hi, left, right in zip(points, points[1:], losses, losses[1:], strict=False):
                if left * right < 0:
                    zero = mpmath.findroot(
                        partial(self.loss, region), (lo, hi), solver="anderson", verify=False
                    )
                    found += [mpf(float(zero + s * (hi - lo))) for s in NEAR]
        return found

    def remote_points(self, region: Region) -> Iterator[Any]:
        """Doubles far beyond the points, towards the infinite ends of a region."""
        points = self.points(region)
        for end, sign, outermost in ((region.lo, -1, min), (region.hi, 1, max)):
            if points and mpmath.isinf(self.value(end)):
                width = max(abs(outermost(points)), mpf(1))
                yield from (mpf(float(outermost(points) + sign * s * width)) for s in REMOTE)

    def points_beside_ends(self, region: Region) -> Iterator[Any]:
        """Doubles beside finite ends of a region, where a rounding of the output changes little."""
        if self.calculus.pair.measure is not Measure.DENSITY or not self.points(region):
            return
        ends = self.value(region.lo), self.value(region.hi)
        for end, sign in zip(ends, (1, -1), strict=True):
            if not mpmath.isfinite(end):
                continue
            with mp.workdps(ROUGH):
                width = self._scale(region, end, sign, ends[1] - ends[0])
            x = mpf(float(end + sign * BESIDE * width))
            if not ends[0] < x < ends[1]:
                continue
            value, beside = (self.loss(region, y) for y in (x, x * (1 + mpf(2) ** -52)))
            if mpmath.isfinite(value) and abs(value - beside) <= mpf(2) ** -50 * abs(value):
                yield x

    def _inside(self, region: Region) -> Iterator[Any]:
        lo, hi = self.value(region.lo), self.value(region.hi)
        lattice = self.calculus.pair.measure is Measure.LATTICE
        seen = set()
        for x in self._spread(region, lo, hi):
            point = mpf(int(mpmath.nint(x))) if lattice else mpf(float(x))
            inside = lo <= point <= hi if lattice else lo < point < hi
            if inside and point not in seen and self._log_mass(region, point) > -MOST_LOG:
                seen.add(point)
                yield point

    def _spread(self, region: Region, lo: Any, hi: Any) -> Iterator[Any]:
        if mpmath.isinf(lo) and mpmath.isinf(hi):
            scale = self._scale(region, mpf(0), 1)
            signs = itertools.cycle((-1, 1, 1, -1))
            yield from (next(signs) * s * scale for s in STEPS for _ in range(2))
        elif mpmath.isinf(hi):
            scale = self._scale(region, lo, 1)
            yield from (lo + s * scale for s in STEPS)
        elif mpmath.isinf(lo):
            scale = self._scale(region, hi, -1)
            yield from (hi - s * scale for s in STEPS)
        else:
            yield from (lo + f * (hi - lo) for f in FRACTIONS)

    def _scale(self, region: Region, start: Any, sign: int, most: Any = math.inf) -> Any:
        """A power of two over which the log density falls by about one; at most the given width."""
        most = min(most, mpf(2) ** 60)  # a density that is tiny at a finite end need not fall
        width, here = mpf(1), self._log_mass(region, start + sign * mpf(1) / 1024)

        def fell(w: Any) -> bool:
            return bool(self._log_mass(region, start + sign * w) < here - 1)

        if fell(width):
            while width > 2.0**-60 and fell(width / 2):
                width /= 2
        else:
            while width < most and not fell(2 * width):
                width *= 2
            width *= 2
        return min(width, most)

    def _log_mass(self, region: Region, x: Any) -> Any:
        return max(self.log(region.p, x), self.log(region.q, x))


@lru_cache(maxsize=1024)
def _prepared(expr: Expr, variable: Symbol) -> tuple[Expr, tuple[tuple[Expr, Dummy], ...]]:
    """The expression with dummies for sums and parts in the parameters alone, and what they are."""
    # Bessel functions get orders >= 0: mpmath gives up on large negative ones, and for integers the
    # sign does not matter.
    expr = expr.replace(besseli, lambda order, z: besseli(Abs(order), z))
    constants: dict[Expr, Dummy] = {node: Dummy() for node in expr.atoms(Sum)}
    expr = expr.xreplace(constants)
    cut = _without_constants(expr, (variable, *constants.values()), constants)
    return cut, tuple(constants.items())


def _without_constants(
    expr: Expr, varying: tuple[Symbol, ...], constants: dict[Expr, Dummy]
) -> Expr:
    if not expr.free_symbols or isinstance(expr, Symbol):
        return expr
    if not expr.has(*varying):
        return constants.setdefault(expr, Dummy())
    if not isinstance(expr, (Add, Mul, Pow, Function)) or isinstance(expr, Piecewise):
        return expr
    return expr.func(*(_without_constants(part, varying, constants) for part in expr.args))


def moved(
    calculus: Calculus, case: CalculusCase, to: Callable[[Parameter], float], wide: bool = False
) -> list[Sample]:
    """Samples with one parameter moved to a value, where its domain allows that.

    The others are typical or, where `wide`, at ends of their typical ranges too.
    """
    found = []
    for theta in [*vectors(calculus, case, 1), *(corners(calculus, case) if wide else ())]:
        for parameter in calculus.pair.parameters:
            at = {**theta, parameter.symbol: mpf(to(parameter))}
            if parameter.contains(to(parameter)) and holds(case.condition, at):
                found.append(Sample(calculus, at))
    return found


VECTORS = 2  # parameter vectors of the checks that a kernel carries


def checks(calculus: Calculus, inverse_of: dict[int, int]) -> tuple[Check, ...]:
    """Reference values for log_p, log_q, loss and the inverses, infinite ones left out."""
    found: list[Check] = []
    with mp.workdps(DIGITS):
        first = 0
        for case in calculus.cases:
            for theta in vectors(calculus, case, VECTORS):
                sample = Sample(calculus, theta)
                found += _at_atoms(sample, case)
                for index, region in enumerate(case.regions, start=first):
                    found += _in_region(sample, inverse_of.get(index, index), region)
            first += len(case.regions)
    return tuple(found)


def _in_region(sample: Sample, index: int, region: Region) -> Iterator[Check]:
    for x in sample.points(region)[:: 2 if region.kind.moves else 4]:
        p, q = sample.log(region.p, x), sample.log(region.q, x)
        root = sample.solved(region, float(p - q), x) if region.kind.moves else None
        yield _check(sample, x, p, q, None if root is None else (index, float(root)))


def _at_atoms(sample: Sample, case: CalculusCase) -> Iterator[Check]:
    """The masses of a finite set; atoms beside a density are not values of log_p."""
    if sample.calculus.pair.measure is not Measure.FINITE:
        return
    for atom in case.atoms:
        x = sample.value(atom.x)
        yield _check(sample, x, sample.log(atom.p, x), sample.log(atom.q, x))


def _check(
    sample: Sample, x: Any, p: Any, q: Any, inverse: tuple[int, float] | None = None
) -> Check:
    p, q, loss = (v if math.isfinite(v) else None for v in map(float, (p, q, p - q)))
    return Check(sample.arguments(), float(x), (p, q, loss), inverse)
