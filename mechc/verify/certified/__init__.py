"""Certified answers: delta and epsilon as theorems about the declaration.

Every number is a ball, from the densities to the sum on the contour; the interval that is returned
contains the exact value for the parameters as they are stored (doubles are exact numbers here). One
step is integrated by its branches, atoms are composed exactly, few steps lie between laws on meshes
(mechc.verify.certified.mesh), everything else goes through Theorem A
(mechc.verify.certified.contour).
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial, reduce
from typing import Any

from flint import arb, ctx

from mechc.accountants.bound import Bound, worse
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import saddle_target, solve
from mechc.errors import (
    DeclarationError,
    InternalError,
    MechcError,
    NumericError,
    UnsupportedError,
    check_one_of,
)
from mechc.protocol import Measure, Run
from mechc.verify.certified import discrete, mesh, single_step
from mechc.verify.certified.contour import Contour, Law
from mechc.verify.certified.epoch import SMALLEST, Allocated

RTOL = 1e-16  # width in log delta that is aimed at
WIDER = (1e-13, 1e-10, 1e-8)  # where the sharper aim needs more nodes than are affordable
STATUS = "certified"
WIDE = 5e-7  # half the relative width beyond which another route is tried
MESHED_FIRST = 16  # steps for which meshes come first
MOST_DISTINCT = 400  # distinct steps on a contour
TILTS = tuple(2.0**i for i in range(-6, 14))  # of Chernoff bounds
DOUBLINGS = 60  # of the distance from a guess of epsilon
OVERSHOOT = 1.1  # of a step, in steps that the slope asks for
UNGUIDED = 1.0, -40.0  # tilt and log of the size where doubles tell neither


class Certified:
    """Certified delta of one composition in one direction."""

    def __init__(self, composition: Run, direction: str, rtol: float) -> None:
        """Bind declarations and parameters."""
        self.direction, self.rtol = direction, rtol
        self.laws = [Law.of(event, direction, count) for event, count in composition.parts]
        self.guide: ComposedLoss | None = None  # without one, guesses are rougher
        self.tops = [math.inf for _ in self.laws]
        try:
            steps = composition.steps(direction)
        except NumericError as unresolved:  # by doubles: one step needs none
            steps, self._unresolved = (), unresolved
        if steps:
            self.guide, self.tops = ComposedLoss(steps), [step.loss.support[1] for step in steps]
        self.count = sum(law.count for law in self.laws)
        self._line: Contour | None = None

    def delta(self, epsilon: float, enough: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return a ball that contains the exact value at epsilon, and how it was found.

        Args:
            epsilon: any finite number.
            enough: an exact ball; a value proved to be below it need not be known better.
        """
        if not self.laws:
            return arb(0).max(1 - arb(epsilon).exp()), {"route": "identity"}
        tilt, size = self._guess(epsilon)
        with ctx.workprec(self._bits(size)):
            infinite = self._infinite()
            finite, detail = None, {"route": "Chernoff"}
            if enough is not None and arb(size).exp() + infinite < enough:
                with suppress(MechcError):
                    finite = self._contour().chernoff(epsilon, [tilt])
            if finite is None or not finite + infinite < enough:
                finite, detail = self._finite(epsilon, tilt, size)
            value = infinite + finite
            floor = infinite.lower().max((1 - arb(epsilon).exp()).lower()).max(arb(0))
            low, high = value.lower().max(floor), value.upper().min(arb(1))
            return low.union(high), {**detail, "direction": self.direction}

    def size(self, epsilon: float) -> float:
        """About log delta at finite losses, in floating point."""
        return self._guess(epsilon)[1]

    def slope(self, epsilon: float) -> float:
        """How fast log delta falls with epsilon, in floating point."""
        return max(self._guess(epsilon)[0], 1e-3)

    def _guess(self, epsilon: float) -> tuple[float, float]:
        """A tilt near the saddle point and log of the size of delta, in floating point."""
        if self.guide is None:
            return UNGUIDED
        try:
            tilt = solve(self.guide, saddle_target(epsilon), epsilon).t
            k = self.guide.cumulants(tilt, 2)
            curve = float(k[2]) + tilt**-2 + (1.0 + tilt) ** -2
            size = float(k[0]) - tilt * epsilon - math.log(tilt) - math.log1p(tilt)
            size = min(0.0, size - 0.5 * math.log(2.0 * math.pi * curve))
            return (tilt, size) if size > SMALLEST else (1.0, SMALLEST)
        except (MechcError, ValueError, OverflowError):
            return UNGUIDED

    def _bits(self, size: float) -> int:
        nats = -math.log(self.rtol) + 2.0 * math.log(1.0 + self.count)
        return int(40 + (nats + max(0.0, -size) * 1.1) / math.log(2.0))

    def _infinite(self) -> Any:
        """1 - prod (1 - P(q = 0))^count."""
        log_finite, rest = arb(0), arb(1)
        for law in self.laws:
            mass = law.oracle.infinite_mass()
            if mass < 0.5:
                log_finite += law.count * (-mass).log1p()
            else:  # it may be one
                least, most = (
                    v.max(arb(0)) ** law.count for v in ((1 - mass).lower(), (1 - mass).upper())
                )
                rest *= least.union(most)
        return (1 - rest) - rest * log_finite.expm1()

    def _finite(self, epsilon: float, tilt: float, size: float) -> tuple[Any, dict[str, Any]]:
        """The part of delta at finite losses."""
        exact = arb(epsilon)
        if self.count == 1:
            found = single_step.finite_part(self.laws[0].oracle, exact, arb(size).exp())
            return found, {"route": "branches"}
        if self._is_above_all(epsilon):
            return arb(0), {"route": "largest loss"}
        try:
            smallest = (arb(size).exp() * self.rtol / self.count).lower()
            return discrete.finite_part(self.laws, exact, tilt, smallest), {"route": "atoms"}
        except UnsupportedError:
            return self._densities(epsilon, tilt)

    def _is_above_all(self, epsilon: float) -> bool:
        """Whether no sum of losses is proved to exceed epsilon, from the largest of each step."""
        counts = [law.count for law in self.laws]
        room = epsilon - math.fsum(n * top for n, top in zip(counts, self.tops, strict=True))
        if not 0.0 < room < math.inf:
            return False
        total = arb(0)
        for law, top in zip(self.laws, self.tops, strict=True):
            most = arb(top + 0.999 * room / self.count)
            total += law.count * most
            try:
                if not single_step.finite_part(law.oracle, most, arb(1)).is_zero():
                    return False
            except (NumericError, UnsupportedError):
                return False
        return bool(total <= epsilon)

    def _densities(self, epsilon: float, tilt: float) -> tuple[Any, dict[str, Any]]:
        """Meshes where steps are few, the contour where they are many, the other where it is wide.

        Meshes do not need the characteristic function to fall, but their width grows with the
        number of steps.
        """
        routes: list[Any] = [partial(mesh.finite_part, self.laws), self._on_contour]
        if self.count > MESHED_FIRST:
            routes.reverse()
        value: Any = None
        detail: dict[str, Any] = {}
        refused = []
        for route in routes:
            try:
                here, how = route(epsilon, tilt)
            except (NumericError, UnsupportedError) as error:
                refused.append(str(error).removeprefix("certified: "))
                continue
            if value is not None and not value.overlaps(here):
                raise InternalError("certified: two routes contradict each other")
            value = here if value is None else value.intersection(here)
            detail = {**detail, **how}
            if value.rad() < WIDE * value.mid():
                break
        if value is None:
            raise NumericError(f"certified: {'; '.join(refused)}")
        return value, {**detail, "refused": "; ".join(refused)} if refused else detail

    def _on_contour(self, epsilon: float, tilt: float) -> tuple[Any, dict[str, Any]]:
        if any(law.oracle.measure is Measure.LATTICE for law in self.laws):
            raise UnsupportedError("certified: integers and densities on one contour")
        line = self._contour()
        try:
            if len(self.laws) > MOST_DISTINCT:
                raise NumericError(f"more than {MOST_DISTINCT} distinct steps")
            value, detail = line.delta(epsilon)
        except NumericError as error:
            tilts = (tilt,) if len(self.laws) > MOST_DISTINCT else TILTS
            value, detail = line.chernoff(epsilon, tilts), {"no contour": str(error)}
        return value, {"route": "contour", **detail}

    def _contour(self) -> Contour:
        if self._line is None:
            wider = [r for r in WIDER if r > self.rtol]
            if self.guide is None:
                raise self._unresolved
            self._line = Contour(self.laws, self.guide, [self.rtol, *wider])
        return self._line


class Answers:
    """Certified answers of one composition, the worse of the directions asked for."""

    def __init__(self, composition: Run, direction: str, rtol: float) -> None:
        """Prepare the directions; one is enough where both are proved equal."""
        check_one_of("direction", direction, ("both", "remove", "add"))
        wanted = ("remove", "add") if direction == "both" else (direction,)
        if direction == "both" and composition.symmetric:
            wanted = ("remove",)
        self.directions = [_answering(composition, d, rtol) for d in wanted]

    def delta(self, epsilon: float) -> Bound:
        """Bounds on delta."""
        return self._worst(epsilon, False)

    def log_delta(self, epsilon: float) -> Bound:
        """Bounds on log delta."""
        return self._worst(epsilon, True)

    def _worst(self, epsilon: float, log: bool) -> Bound:
        if math.isinf(epsilon):
            raise DeclarationError(f"epsilon={epsilon}: certified answers need a finite epsilon")
        found, enough = list[Bound](), arb(0)
        for one in sorted(self.directions, key=lambda one: -one.size(epsilon)):
            ball, detail = one.delta(epsilon, enough)
            enough = enough.max(ball.lower()).lower()
            found.append(enclosed(ball, detail, log))
        return reduce(worse, found)

    def epsilon(self, log_delta: float, guess: float) -> Bound:
        """Bounds on the smallest epsilon >= 0 with log delta(epsilon) <= log_delta.

        The bracket is opened outward from a guess.

        Raises:
            NumericError: no bracket is found.
        """
        guess = max(guess, 0.0) if math.isfinite(guess) else 1.0
        upper = self._outward(log_delta, guess, 1.0)
        lower = self._outward(log_delta, guess, -1.0) if upper > 0.0 else 0.0
        detail = {"target": log_delta, "guess": guess}
        return Bound(lower, min(max(guess, lower), upper), upper, "contour", STATUS, detail)

    def _outward(self, target: float, guess: float, side: float) -> float:
        """An epsilon beyond the answer, as near to the guess as few certified deltas tell."""
        step, slope = 4e-15 * max(guess, 1e-3), self.directions[0].slope(guess)
        for _ in range(DOUBLINGS):
            epsilon = max(guess + side * step, 0.0)
            bound = self.log_delta(epsilon)
            missing = side * (float(bound.upper if side > 0 else bound.lower) - target)
            if missing < 0 or (side > 0 and missing == 0) or (side < 0 and epsilon == 0.0):
                return epsilon
            # as far as the width of this bound, if delta goes on falling as it does here
            further = OVERSHOOT * missing / slope
            step = max(8.0 * step, step + further if math.isfinite(further) else 0.0)
        raise NumericError(f"certified: no epsilon with log delta={target} near {guess}")


def _answering(composition: Run, direction: str, rtol: float) -> Certified | Allocated:
    """What answers in one direction."""
    parts = composition.parts
    if not any(event.allocated for event, _ in parts):
        return Certified(composition, direction, rtol)
    if composition.count > 1:
        raise UnsupportedError(
            "certified: an epoch of random allocation is answered alone, once, with one step of it "
            "selected; ask without certified=True"
        )
    return Allocated(parts[0][0], direction)


def enclosed(ball: Any, detail: dict[str, Any], log: bool) -> Bound:
    """Delta, or its logarithm, rounded outward."""
    least, most = (-math.inf, 0.0) if log else (0.0, 1.0)
    ends = [ball.lower(), ball.mid(), ball.upper()]
    if log:
        ends = [arb.neg_inf() if v <= 0 else v.log() for v in ends]  # nan stays nan
    low, high = (
        min(max(math.nextafter(float(v), away), least), most)
        for v, away in ((ends[0].lower(), -math.inf), (ends[2].upper(), math.inf))
    )
    return Bound(low, min(max(float(ends[1]), low), high), high, "contour", STATUS, detail)
