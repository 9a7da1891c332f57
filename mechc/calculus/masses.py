"""Check that P and Q are laws: nowhere negative, total mass one, not on disjoint sets.

Input: a declaration by cases. Output: notes on what was checked, in double precision, at parameter
vectors spread over the typical ranges, with at least one vector in every case that they reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np
from sympy import Add, Expr, Integral, Mul, Rational, S, Sum, Symbol, postorder_traversal

from mechc.calculus.cases import Case, Piece
from mechc.calculus.terms import Term, total
from mechc.declare.declaration import Declaration, Shift
from mechc.errors import DeclarationError
from mechc.numeric.rounding import MASS_TOLERANCE
from mechc.protocol import Floats, Measure
from mechc.symbolic import evaluate, quadrature
from mechc.symbolic.evaluate import Evaluator, Theta
from mechc.symbolic.facts import facts_of
from mechc.symbolic.parameters import Parameter
from mechc.symbolic.signs import weak_sign
from mechc.symbolic.typical import typical_vectors

VECTORS = 4  # parameter vectors at which the masses of a case are summed
TRIED = 64  # vectors among which those of a case are looked for
EVERY, LEAST = 16, -1e3  # between two of so many points, logs of a density that is none
FARTHEST = 1e300  # an output next to the largest doubles


class _Side(NamedTuple):
    """One of the two laws."""

    label: str
    of: Callable[[object], tuple[Term, ...]]


SIDES = (_Side("P", lambda part: part.p), _Side("Q", lambda part: part.q))  # type: ignore[attr-defined]


def check_masses(declaration: Declaration, cases: tuple[Case, ...]) -> tuple[str, ...]:
    """Check every case, or refuse with the law and the numbers found; notes for `Pair.notes`."""
    notes: list[str] = []
    chosen = _vectors(declaration.parameters, cases)
    worst, overlapping = 0.0, False
    checkers = [_CaseChecker(declaration, case) for case in cases]
    for case, checker, thetas in zip(cases, checkers, chosen, strict=True):
        if not thetas:
            notes.append(f"masses not checked for {case.condition}: no typical parameters there")
        for theta in thetas:
            worst = max(worst, checker.check(theta))
            overlapping = overlapping or checker.overlap(theta)
    if not any(chosen):
        raise DeclarationError(f"{declaration.name}: no typical parameters satisfy any case")
    if not (overlapping or any(map(_CaseChecker.overlaps_somewhere, checkers))):
        raise DeclarationError(
            f"{declaration.name}: P and Q share no outcome at any typical parameters, so every "
            "output reveals which of them it came from"
        )
    count = sum(map(len, chosen))
    notes.insert(0, f"P and Q have mass one at {count} typical parameter vectors, "
                    f"to {max(worst, 1e-15):.0e}")  # fmt: skip
    return tuple(notes)


def weights_of(case: Case, variable: Symbol, parameters: tuple[Parameter, ...]) -> list[Expr]:
    """Weights of the summands of both laws that may be negative at some parameters, or rounded.

    Not those of differences, and none that is negative at typical parameters.
    """
    domain, found = facts_of(parameters, case.condition), dict[Expr, None]()
    sums = [(total(side.of(atom)), domain) for atom in case.atoms for side in SIDES]
    for piece in case.pieces:
        here = domain.within(variable, piece.lo, piece.hi)
        sums += [(total(side.of(piece)), here) for side in SIDES]
    while sums:
        expr, facts = sums.pop()
        weights = dict[Expr, Expr]()
        for part in Add.make_args(expr):
            weight, rest = part.as_independent(variable, as_Add=False)
            weights[rest] = weights.get(rest, S.Zero) + weight
        signs = {rest: weak_sign(weight, facts) for rest, weight in weights.items()}
        inner = {rest: [a for a in Mul.make_args(rest) if isinstance(a, Add)] for rest in weights}
        unknown = [rest for rest in weights if weak_sign(rest, facts) != 1]
        if -1 in signs.values() or not all(inner[rest] for rest in unknown):
            continue
        sums += [(a, facts) for some in inner.values() for a in some]
        if unknown:  # as of a sample of a law: what that is a sum of tells
            continue
        first, *others = weights.values()  # a normaliser that all share has the same rounding
        ratios = [other / first for other in others if first != 0]
        rounded = not all(r.is_rational_function(*r.free_symbols) for r in ratios)
        for rest, weight in weights.items():
            if signs[rest] is None:
                found[Mul(*(a for a in Mul.make_args(weight) if not weak_sign(a, facts)))] = None
            elif rounded:
                found[weight] = None
    (typical,) = _vectors(parameters, (case,))
    return [w for w in found if all(evaluate.value(w, parameters, t) >= 0 for t in typical)]


def _vectors(parameters: tuple[Parameter, ...], cases: tuple[Case, ...]) -> list[list[Theta]]:
    """Typical parameter vectors for each case."""
    tried = TRIED if len(cases) > 1 else VECTORS
    found = (typical_vectors(parameters, tried, case.condition) for case in cases)
    return [list(islice(vectors, VECTORS)) for vectors in found]


class _CaseChecker:
    """One case, its expressions compiled once."""

    def __init__(self, declaration: Declaration, case: Case) -> None:
        self.declaration, self.case = declaration, case
        variable, parameters = declaration.variable, declaration.parameters
        self.parameters = parameters
        self.densities = {
            (side.label, i): [
                (t.weight, Evaluator(t.log_density, variable, parameters)) for t in side.of(piece)
            ]
            for side in SIDES
            for i, piece in enumerate(case.pieces)
        }
        logs = [t.log_density for p in case.pieces for t in (*p.p, *p.q)]
        ends = [end for p in case.pieces for end in (p.lo, p.hi)]
        self.centres = evaluate.centres(logs, ends, variable)

    def check(self, theta: Theta) -> float:
        """The larger error of the two masses."""
        worst = 0.0
        # shifted noise has the mass of the noise, and a pole at 0 is resolved where one at 5 is not
        shifted = isinstance(self.declaration.construction, Shift)
        for side in SIDES[1:] if shifted else SIDES:
            mass, doubt = self._mass(side, theta)
            if not abs(mass - 1) <= MASS_TOLERANCE + doubt:
                hint = "; write shape(f) for noise that is f but for a constant" * shifted
                if self.declaration.q.has(Sum):
                    hint = (
                        "; its constant is a sum over terms that fall too slowly, or of an "
                        "integral that does not converge (expected a density of finite mass)"
                    )
                if mass < 1 and self._is_endless(side, theta):
                    hint = (
                        "; what is missing may lie beyond all doubles, as the tail falls hardly "
                        "faster than 1/x (expected one that falls like a power below -1)"
                    )
                raise DeclarationError(
                    f"{self.declaration.name}: {side.label} has mass {mass:.12g}, not 1"
                    f"{self._at(theta)}{hint}"
                )
            worst = max(worst, abs(mass - 1))
        return worst

    def _is_endless(self, side: _Side, theta: Theta) -> bool:
        """Whether mass that counts lies next to the largest doubles."""
        for i, piece in enumerate(self.case.pieces):
            for end, x in ((piece.lo, -FARTHEST), (piece.hi, FARTHEST)):
                if side.of(piece) and end.is_infinite:
                    density = self._density(side, i, theta)(np.array([x]))
                    if FARTHEST * density[0] > MASS_TOLERANCE:
                        return True
        return False

    def overlaps_somewhere(self) -> bool:
        """Whether it is at one of many vectors, as for noise that may be narrower than its move."""
        return any(map(self.overlap, typical_vectors(self.parameters, TRIED, self.case.condition)))

    def overlap(self, theta: Theta) -> bool:
        """Whether some outcome is possible under both laws."""
        pieces = any(p.p and p.q and self._range(p, theta) is not None for p in self.case.pieces)
        return pieces or any(
            all(sum(self._weight(t, theta) for t in side.of(atom)) > 0 for side in SIDES)
            for atom in self.case.atoms
        )

    def _mass(self, side: _Side, theta: Theta) -> tuple[float, float]:
        """The mass found, and what poles and waves of the density leave open."""
        centres = [evaluate.value(c, self.parameters, theta) for c in self.centres]
        lattice = self.declaration.measure is Measure.LATTICE
        total = doubt = 0.0
        for i, piece in enumerate(self.case.pieces):
            ends = self._range(piece, theta)
            if ends is not None and side.of(piece):
                density = self._density(side, i, theta)
                known = [c for c in centres if math.isfinite(c)]
                if lattice:
                    total += quadrature.sum_over(density, *ends, known)
                    continue
                found, open_ = quadrature.integral_and_doubt(density, *ends, known)
                total, doubt = total + found, doubt + open_
        atoms = sum(self._weight(t, theta) for a in self.case.atoms for t in side.of(a))
        return total + atoms, doubt

    def _range(self, piece: Piece, theta: Theta) -> tuple[float, float] | None:
        """The ends as numbers, None when the piece is empty."""
        lo, hi = (evaluate.value(end, self.parameters, theta) for end in (piece.lo, piece.hi))
        if math.isnan(lo) or math.isnan(hi):
            raise DeclarationError(f"{self.declaration.name}: the interval from {piece.lo} to "
                                   f"{piece.hi} is not real{self._at(theta)}")  # fmt: skip
        lattice = self.declaration.measure is Measure.LATTICE
        return (lo, hi) if lo < hi or (lattice and lo == hi) else None

    def _density(self, side: _Side, index: int, theta: Theta) -> quadrature.Function:
        """The density on one piece, which complains when it is not a number."""
        piece = self.case.pieces[index]
        lo, hi = self._range(piece, theta) or (-math.inf, math.inf)
        weights = [self._weight(t, theta) for t in side.of(piece)]
        logs = [e.at(theta, EVERY, LEAST) for _, e in self.densities[side.label, index]]

        def density(x: Floats) -> Floats:
            result = np.zeros_like(x)
            for weight, log in zip(weights, logs, strict=True):
                if weight > 0:
                    with np.errstate(over="ignore"):  # an infinite mass says so
                        result += weight * np.exp(log(x))
            # rounding may cross the end of the piece, and far out a formula may be inf - inf
            edge = np.minimum(np.abs(x - lo), np.abs(x - hi)) < 1e-9 * (1 + np.abs(x))
            result[edge & np.isinf(result)] = 0.0
            bad = np.isnan(result) & ~edge & (np.abs(x) < 1e15)
            if bad.any():
                self._refuse(side, float(x[bad][0]), theta)
            return np.where(np.isnan(result), 0.0, result)

        return density

    def _weight(self, term: Term, theta: Theta) -> float:
        weight = evaluate.value(term.weight, self.parameters, theta)
        if not weight >= 0:
            what, hint = f"{term.weight} is {weight:.6g}", "typical ranges in which they do not"
            part = self._not_real(term.weight, theta) if math.isnan(weight) else None
            if part is not None:
                what, hint = (
                    f"{part} is not a real number",
                    ("domains in which it is, such as a and a + b for numbers that are in order"),
                )
            elif weight < 0:
                what += ", a negative density"
                hint = "a domain, as parameter(name, lo=1), where it is not"
            else:
                what += ", which doubles overflow in"
            raise DeclarationError(
                f"{self.declaration.name}: {what}{self._at(theta)} (expected {hint})"
            )
        return weight

    def _not_real(self, expr: Expr, theta: Theta, x: float = 0.0) -> Expr | None:
        """The first part of a formula that is not a real number, but for sums that overflow."""
        at = {self.declaration.variable: Rational(x)}
        known = {*at, *(p.symbol for p in self.parameters)}
        for part in postorder_traversal(expr):
            if (
                not isinstance(part, Expr)
                or part.has(Sum, Integral)
                or not part.free_symbols <= known
            ):
                continue
            if math.isnan(evaluate.value(part.subs(at), self.parameters, theta)):
                return part
        return None

    def _refuse(self, side: _Side, x: float, theta: Theta) -> None:
        declaration = self.declaration
        expr = declaration.p if side.label == "P" else declaration.q
        here = expr.subs(declaration.variable, Rational(x))
        found = evaluate.value(here, self.parameters, theta)
        what = f"negative, {found:.6g},"
        if math.isnan(found):
            part = self._not_real(expr, theta, x)
            what = "not a real number" + (f", as {part} is none," if part is not None else "")
        named = zip((p.symbol for p in self.parameters), map(Rational, theta), strict=True)
        exact = here.subs(dict(named)).evalf(20)  # in as many digits as that takes
        hint = ""
        if exact.is_Float and exact > 0:
            what = f"{found:.6g}, by terms that cancel,"
            hint = (f" (in truth it is {float(exact):.6g}: kernels count in doubles; write it as "
                    "one difference of erf, erfc, atan, logistic or hyperbolic functions, or as a "
                    "formula that does not cancel)")  # fmt: skip
        where = f"{declaration.variable}={x:.6g}{self._at(theta)}"
        raise DeclarationError(
            f"{declaration.name}: the density of {side.label} is {what} at {where}{hint}"
        )

    def _at(self, theta: Theta) -> str:
        named = zip(self.parameters, theta, strict=True)
        return " at " * bool(theta) + ", ".join(f"{p.name}={v:.6g}" for p, v in named)
