"""The ball oracle: a declaration with its parameters bound, evaluated in ball arithmetic.

Input: a declaration and exact parameter values. Output: balls that contain the true values of
densities, loss, masses, distribution functions and

    M(z) = E_P[exp(zL); L finite] = int p^(1+z) q^(-z)

at complex z. Densities are those of the declaration, read literally; integrals run over the pieces
of the normalised pair, on which the formulas are smooth. No line of a kernel or of the derivation
is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from flint import acb, arb, ctx
from sympy import And, Integral, Piecewise, oo

from mechc.calculus.cases import Case, by_cases
from mechc.declare.declaration import Declaration
from mechc.errors import UnsupportedError
from mechc.numeric.rounding import EPS
from mechc.protocol import Measure
from mechc.verify.balls import expressions
from mechc.verify.balls.integral import LogarithmicIntegral, PieceIntegral, is_logarithmic
from mechc.verify.balls.lattice import MAX_POINTS, LatticeSum
from mechc.verify.balls.part import WHOLE

POINT_BITS = 80  # correct bits of values at points
ABSOLUTE_BITS = 1150  # a value this close to zero is as good as zero
ATOM_BITS = 1200  # masses that are differences keep some
INTEGRAL_BITS = 256  # of constants; tails that are powers take long to more of them
NUDGE = 2.0**-80  # relative change of a parameter in a difference quotient ...
COARSE_STEP = 2.0**-20  # ... and where what is differenced has few digits


def reversed_pair(declaration: Declaration) -> Declaration:
    """The declaration of (Q, P)."""
    return replace(
        declaration,
        p=declaration.q,
        q=declaration.p,
        atoms=tuple((x, q, p) for x, p, q in declaration.atoms),
        construction=None,
    )


@lru_cache(maxsize=16)
def _cases(declaration: Declaration) -> tuple[Case, ...]:
    """All cases, found once for the parameter vectors of a certificate."""
    return by_cases(declaration)


class Values(dict[Any, Any]):
    """Balls of the parameters, and of integrals that constants stand for when they are asked for.

    Integrals are no items: what goes through the items meets parameters, which are exact.
    """

    def __init__(self, declaration: Declaration, theta: Sequence[float]) -> None:
        """Exact balls of the parameters of a declaration."""
        symbols = [p.symbol for p in declaration.parameters]
        super().__init__((s, arb(v)) for s, v in zip(symbols, theta, strict=True))
        self._declaration, self._theta = declaration, theta
        self._integrals: dict[Any, Any] = {}

    def __missing__(self, integral: Any) -> Any:
        """Of an integral, as the mass of what it integrates."""
        if not isinstance(integral, Integral):
            raise KeyError(integral)
        bits = min(ctx.prec, INTEGRAL_BITS)
        if (integral, bits) not in self._integrals:
            f, (x, *ends) = integral.function, integral.limits[0]
            alone = replace(self._declaration, variable=x, p=f, q=f, support=tuple(ends),
                            atoms=(), construction=None)  # fmt: skip
            oracle = Oracle(alone, self._theta)
            oracle.values = self
            with ctx.workprec(bits):
                self._integrals[integral, bits] = oracle.part_mass("q", *WHOLE)
        return self._integrals[integral, bits]


class Oracle:
    """One pair (P, Q) at one parameter vector.

    Attributes:
        declaration: what is evaluated.
        theta: parameter values in order, as doubles; they are taken as exact numbers.
        case: the case of the normalised pair that holds at `theta`.
    """

    def __init__(self, declaration: Declaration, theta: Sequence[float]) -> None:
        """Bind the parameters."""
        self.declaration = declaration
        self.theta = tuple(float(v) for v in theta)
        self.values = Values(declaration, self.theta)
        self._compiled: dict[Any, Any] = {}
        self._parts: dict[int, list[Any]] = {}
        self._neighbours: dict[float, tuple[Oracle, ...]] = {}

    @cached_property
    def case(self) -> Case:
        """The case that holds."""
        with ctx.workprec(ATOM_BITS):
            for case in _cases(self.declaration):
                if expressions.holds(case.condition, self.values):
                    return case
        raise UnsupportedError(f"{self.declaration.name}: no case is certain at {self.theta}")

    @property
    def measure(self) -> Measure:
        """Density, lattice or finite."""
        return self.declaration.measure

    # -- values at points ---------------------------------------------------------------------

    def log_density(self, law: str, x: float) -> Any:
        """Ball around log p (law "p") or log q at a double; -inf where the density is zero."""
        return self.at(lambda: self.raw_log_density(law, arb(x)))

    def loss(self, x: float) -> Any:
        """Ball around log p(x)/q(x); +-inf where one is zero, nan where both are."""
        return self.at(lambda: self.raw_loss(arb(x)))

    def raw_loss(self, x: Any) -> Any:
        """The loss at a ball, at the current precision."""
        p, q = (self.raw_log_density(law, x) for law in "pq")
        none = arb.neg_inf()
        if p == none or q == none:
            return arb.nan() if p == q else arb.neg_inf() if p == none else arb.pos_inf()
        return p - q

    @staticmethod
    def at(make: Any) -> Any:
        """Evaluate with enough precision for POINT_BITS correct bits."""
        for precision in (160 << k for k in range(6)):
            with ctx.workprec(precision):
                value = make()
                small = value.is_finite() and value.rad() < arb(2) ** -ABSOLUTE_BITS
                infinite = value.rad() == 0 and not (value.is_finite() or value.is_nan())
            if infinite or small or (value.is_finite() and value.rel_accuracy_bits() >= POINT_BITS):
                break
        return value

    def raw_log_density(self, law: str, x: Any) -> Any:
        """Log density at a ball, at the current precision; log mass on a finite set."""
        if self.measure is Measure.FINITE:
            column = 1 if law == "p" else 2
            value = sum((row[column] for row in self.atoms if row[0] == x), start=arb(0))
            return arb.neg_inf() if value.is_zero() else value.log()
        value = self._density(law)(x, False)
        return arb.neg_inf() if value.is_zero() else value.log()

    def _density(self, law: str) -> Any:
        key = law, ctx.prec
        if key not in self._compiled:
            declared = self.declaration.p if law == "p" else self.declaration.q
            (lo, hi), x = self.declaration.support, self.declaration.variable
            inside = And(lo <= x if lo != -oo else True, x <= hi if hi != oo else True)
            supported = Piecewise((declared, inside), (0, True))
            self._compiled[key] = expressions.function(supported, x, self.values)
        return self._compiled[key]

    def neighbours(self, step: float) -> tuple[Oracle, ...]:
        """The same pair with one real parameter at a time made smaller by the factor 1 - step."""
        if step not in self._neighbours:
            real = [p.symbol for p in self.declaration.parameters if not p.integer]
            made = tuple(Oracle(self.declaration, self.theta) for _ in real)
            with ctx.workprec(240):
                for moved, symbol in zip(made, real, strict=True):
                    moved.values[symbol] *= 1 - arb(step)
            self._neighbours[step] = made
        return self._neighbours[step]

    def sensitivity(self, f: Callable[[Oracle, Any], Any], x: float) -> float:
        """Sum |t df/dt| over t = x and the parameters: what relative errors of the input do.

        On a lattice x is exact and left out. `f` is a function such as `Oracle.raw_loss`.
        """
        with ctx.workprec(240):
            change = self.integral_sensitivity(lambda one: f(one, arb(x)), NUDGE)
            moved = abs(f(self, arb(x) * (1 - arb(NUDGE))) - f(self, arb(x))) / NUDGE
        counts = self.measure is Measure.DENSITY and moved.is_finite()
        return change + float(moved.mid()) if counts else change

    def integral_sensitivity(self, f: Callable[[Oracle], Any], step: float = COARSE_STEP) -> float:
        """Sum |t df/dt| over the parameters, for a function such as log M(z)."""
        here = f(self)
        total = sum((abs(f(one) - here) for one in self.neighbours(step)), start=arb(0)) / step
        return float(total.mid()) if total.is_finite() else 0.0

    def end_rounding(self, end: float) -> float:
        """What one ulp of every parameter does to a rounded end of a piece, 0 if it is none."""
        found = [0.0]
        with ctx.workprec(ATOM_BITS):
            for expr in {e for piece in self.case.pieces for e in (piece.lo, piece.hi)}:
                places = {one: expressions.constant(expr, one.values)
                          for one in (self, *self.neighbours(NUDGE))}  # fmt: skip
                change = EPS * self.integral_sensitivity(places.__getitem__, NUDGE)
                if abs(places[self] - end) <= change + math.ulp(end):
                    found.append(change)
        return max(found)

    # -- atoms --------------------------------------------------------------------------------

    @cached_property
    def atoms(self) -> tuple[tuple[Any, ...], ...]:
        """(x, mass under P, mass under Q) as declared, whatever the current precision."""
        with ctx.workprec(ATOM_BITS):
            return tuple(
                tuple(expressions.constant(e, self.values) for e in row)
                for row in self.declaration.atoms
            )

    # -- integrals ----------------------------------------------------------------------------

    def moment(self, z: Any) -> Any:
        """Ball around M(z) = E_P[exp(zL); L finite], `acb` for complex z, at current precision.

        Raises:
            NumericError: no convergence; z may lie outside the strip.
            UnsupportedError: a tail that the rules cannot bound.
        """
        return sum((part.moment(acb(z)) for part in self.parts()), start=self._of_atoms(acb(z)))

    def _of_atoms(self, z: Any) -> Any:
        """The sum of p^(1+z) q^(-z) over the atoms."""
        rows = [(p.log(), q.log()) for _, p, q in self.atoms if p > 0 and q > 0]
        return sum((((1 + z) * p - z * q).exp() for p, q in rows), start=acb(0))

    def moment_bound(self, t: Any) -> Any:
        """Upper bound on M(t) for real t; raises what `moment` raises."""
        return self.moment(acb(t)).real.upper()

    def is_bounded(self, t: float) -> bool:
        """Whether M(t) is proved finite without its value: bounded integrands, bounded tails."""
        parts = self.parts()
        return self.measure is Measure.DENSITY and all(part.is_bounded(acb(t)) for part in parts)

    def mass(self, law: str, lo: float = -math.inf, hi: float = math.inf) -> Any:
        """Ball around the mass of (lo, hi] under P (law "p") or Q."""
        rows = [(p if law == "p" else q) for x, p, q in self.atoms if x > lo and x <= hi]
        return sum(rows, start=self.part_mass(law, lo, hi))

    def part_mass(self, law: str, lo: float, hi: float) -> Any:
        """Ball around the mass of the part with a density (or on the lattice) in (lo, hi]."""
        return sum((part.mass(law, lo, hi) for part in self.parts()), start=arb(0))

    def infinite_mass(self) -> Any:
        """Ball around P(q = 0)."""
        masses = [p for _, p, q in self.atoms if q.is_zero()]
        masses += [part.mass("p", *WHOLE) for part in self.parts() if part.q.is_zero]
        return sum(masses, start=arb(0))

    def losses(
        self, a: Any, b: Any, enough: Any, most: int = MAX_POINTS
    ) -> tuple[list[tuple[Any, Any]], Any, list[int]]:
        """What is finite and no density: atoms, integers, pieces on which the loss is constant.

        Args:
            a: exponent of p in the sum of p^a q^b, of which little is left out.
            b: that of q.
            enough: integers may be left out that add less to it, a positive ball.
            most: of integers on one side.

        Returns:
            (loss, mass under P) of each; a ball around what others add; which parts have densities.

        Raises:
            NumericError: more integers matter.
        """
        rows = [((p / q).log(), p) for _, p, q in self.atoms if p > 0 and q > 0]
        rest, densities = arb(0), []
        for number, part in enumerate(self.parts()):
            if isinstance(part, LatticeSum) and part.is_shared:
                logs, others = part.points(a, b, lambda _: enough, most)
                rows += [(p - q, p.exp()) for p, q in logs]
                rest += others
            elif part.is_shared and part.plateau is not None:
                rows.append((part.plateau, part.plateau_mass))
            elif part.is_shared:
                densities.append(number)
        return rows, rest, densities

    def parts(self) -> list[Any]:
        """The pieces with their integrals, at the current precision."""
        if ctx.prec not in self._parts:
            x, lattice = self.declaration.variable, self.measure is Measure.LATTICE
            made = (
                (LatticeSum if lattice else LogarithmicIntegral if is_logarithmic(piece, x)
                 else PieceIntegral)(piece, x, self.values)
                for piece in self.case.pieces
            )  # fmt: skip
            self._parts[ctx.prec] = [part for part in made if not part.is_empty]
        return self._parts[ctx.prec]
