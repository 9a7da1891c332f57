"""Reference values for the self-check of an emitted kernel, from the declared formulas.

Input: a calculus. Output: numbers computed by mpmath at 50 digits from the terms of the pair, at
points that cover every region and its tails, for two irrational parameter vectors. Nothing here
uses the loss, the inverse or the passes: the self-check compares independent roads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import mpmath
from mpmath import mp, mpf
from sympy import Dummy, Expr, Sum, Symbol, oo

from mechc.calculus.evaluate import evaluate, holds, typical_values
from mechc.calculus.types import Calculus, CalculusCase, Region
from mechc.calculus.words import BracketedRoot
from mechc.errors import InternalError
from mechc.kernel.ir import Check
from mechc.terms import Term

VECTORS = 2
DIGITS = 50
STEPS = tuple(math.sqrt(v) for v in (0.13, 3.0, 31.0, 320.0))
FRACTIONS = tuple(math.sqrt(v) for v in (0.013, 0.11, 0.37, 0.71, 0.97))
DEEPEST = -700.0

Values = Mapping[Symbol, Any]


def checks(calculus: Calculus) -> tuple[Check, ...]:
    """Reference values for log_p, log_q, loss and the inverses.

    Args:
        calculus: of one ordered pair.

    Returns:
        At least five points a function where the mechanism has that many, at two parameter
        vectors; points where a value is infinite or below -700 in log space are left out.
    """
    found: list[Check] = []
    with mp.workdps(DIGITS):
        first = 0
        for case in calculus.cases:
            vectors = typical_values(calculus.pair.parameters, case.condition)
            for vector in islice(vectors, VECTORS):
                theta = {symbol: mpf(float(value)) for symbol, value in vector.items()}
                if holds(case.condition, theta):
                    found += _Reference(calculus, case, first, theta).checks()
            first += len(case.regions)
    return tuple(found)


def rises(root: BracketedRoot, calculus: Calculus) -> bool:
    """Whether the equation of a root goes from negative to positive there.

    Args:
        root: an equation that changes sign once.
        calculus: the direction is tried at a parameter vector of a case that uses the root.
    """
    for case in calculus.cases:
        ends = {end for region in case.regions for end in (region.lo, region.hi)}
        if not any(end.has(root) for end in ends):
            continue
        equation, bound, _, _ = root.args
        with mp.workdps(DIGITS):
            theta = next(typical_values(calculus.pair.parameters, case.condition))
            x = evaluate(root, theta)
            beyond = x + max(abs(x), mpf(1)) * mpf(10) ** (-DIGITS // 3)
            return bool(evaluate(equation, {**theta, bound: beyond}) > 0)
    raise InternalError(f"{calculus.pair.name}: {root} is the end of no region")


@dataclass(frozen=True)
class _Reference:
    """The declared formulas at one parameter vector (doubles, taken as exact)."""

    calculus: Calculus
    case: CalculusCase
    first: int
    theta: Values

    def checks(self) -> Iterator[Check]:
        if self.calculus.pair.measure == "finite":
            yield from self._atoms()
        for index, region in enumerate(self.case.regions, start=self.first):
            for x in self._points(region):
                yield from self._at(index, region, x)

    def _check(self, function: str, argument: Any, value: Any) -> Check:
        theta = tuple(float(value) for value in self.theta.values())
        return Check(function, float(argument), theta, float(value))

    def _at(self, index: int, region: Region, x: Any) -> Iterator[Check]:
        p, q = self._log(region.p, x), self._log(region.q, x)
        for name, value in (("log_p", p), ("log_q", q)):
            if mpmath.isfinite(value):
                yield self._check(name, x, value)
        if not (mpmath.isfinite(p) and mpmath.isfinite(q)):
            return
        yield self._check("loss", x, p - q)
        if region.kind in ("increasing", "decreasing"):
            root = self._solved(region, float(p - q), x)
            if root is not None:
                yield self._check(f"loss_inverse_{index}", float(p - q), root)

    def _atoms(self) -> Iterator[Check]:
        for atom in self.case.atoms:
            x = evaluate(atom.x, self.theta)
            p, q = self._log(atom.p, x), self._log(atom.q, x)
            for name, value in (("log_p", p), ("log_q", q), ("loss", p - q)):
                if mpmath.isfinite(value):
                    yield self._check(name, x, value)

    def _log(self, terms: tuple[Term, ...], x: Any) -> Any:
        """Log of the declared density at x."""
        at = {**self.theta, self.calculus.pair.variable: x}
        total = mpmath.fsum(
            self._value(t.weight, at) * mpmath.exp(self._value(t.log_density, at)) for t in terms
        )
        return mpmath.log(total) if total > 0 else -mpmath.inf

    def _value(self, expr: Expr, at: Values) -> Any:
        sums = {node: Dummy() for node in expr.atoms(Sum)}
        values = {dummy: _total(node, self.theta) for node, dummy in sums.items()}
        return evaluate(expr.xreplace(sums), {**at, **values})

    def _solved(self, region: Region, ell: float, x: Any) -> Any:
        """The x near the given one where the loss is exactly the double `ell` (Newton)."""

        def off(v: Any) -> Any:
            return self._log(region.p, v) - self._log(region.q, v) - mpf(ell)

        step = mpmath.mpf(10) ** (-DIGITS // 3) * max(abs(x), mpf(1) / 1000)
        slope = (off(x + step) - off(x - step)) / (2 * step)
        # nothing to compare where the loss hardly depends on x
        if abs(slope * x) < abs(ell) * mpf("1e-3") or slope == 0:
            return None
        return x - off(x) / slope

    def _points(self, region: Region) -> Iterator[Any]:
        """Doubles inside the region, its tails included as far as log p >= -700."""
        lo, hi = (evaluate(end, self.theta) for end in (region.lo, region.hi))
        lattice = self.calculus.pair.measure == "lattice"
        seen = set()
        for x in self._spread(region, lo, hi):
            point = mpf(round(x)) if lattice else mpf(float(x))
            inside = lo <= point <= hi if lattice else lo < point < hi
            if inside and point not in seen and self._log_mass(region, point) > DEEPEST:
                seen.add(point)
                yield point

    def _spread(self, region: Region, lo: Any, hi: Any) -> Iterator[Any]:
        if mpmath.isinf(lo) and mpmath.isinf(hi):
            scale = self._scale(region, mpf(0), 1)
            yield from (sign * s * scale for s in STEPS for sign in (-1, 1))
        elif mpmath.isinf(hi):
            scale = self._scale(region, lo, 1)
            yield from (lo + s * scale for s in STEPS)
        elif mpmath.isinf(lo):
            scale = self._scale(region, hi, -1)
            yield from (hi - s * scale for s in STEPS)
        else:
            yield from (lo + f * (hi - lo) for f in FRACTIONS)

    def _scale(self, region: Region, start: Any, sign: int) -> Any:
        """A power of two over which the log density falls by one or two."""
        width, here = mpf(1), self._log_mass(region, start + sign * mpf(1) / 1024)

        def fell(w: Any) -> bool:
            return bool(self._log_mass(region, start + sign * w) < here - 1)

        for _ in range(60):
            if fell(width) and not fell(width / 2):
                break
            width = width / 2 if fell(width) else width * 2
        return width

    def _log_mass(self, region: Region, x: Any) -> Any:
        return max(self._log(region.p, x), self._log(region.q, x))


def _total(node: Sum, theta: Values) -> Any:
    """A sum over all integers, from 0 outwards until the terms vanish."""
    index, lo, hi = node.limits[0]
    if lo != -oo or hi != oo:
        return evaluate(node, theta)

    def term(n: int) -> Any:
        return evaluate(node.function, {**theta, index: mpf(n)})

    total, n = term(0), 1
    while True:
        pair = term(n) + term(-n)
        total += pair
        if abs(pair) < abs(total) * mpf(10) ** (-DIGITS - 5):
            return total
        n += 1
