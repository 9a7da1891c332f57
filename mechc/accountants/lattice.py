"""Exact accounting when all losses lie on one lattice: randomised response, discrete noise.

The composed loss is on a lattice, its characteristic function is periodic, and the contour sum
over one period is complete (docs/numerics.md, section 5); only images a whole period away remain,
and they are bounded as in Theorem A. Computed losses may be off the lattice by rounding; moving
every loss by d changes K(z) by at most |z| d per step, which the rounding allowance covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mechc.accountants.bound import Bound
from mechc.accountants.contour import ContourAccountant
from mechc.accountants.contours.trapezoid import Lattice
from mechc.accountants.fft import log_add
from mechc.errors import UnsupportedError
from mechc.loss.infinite_mass import MASS_ERROR
from mechc.loss.privacy_loss import Step
from mechc.loss.rounding import EPS

MAX_POINTS = 1e6  # finer than this share of a step, any two losses seem commensurate


def common_lattice(steps: Sequence[Step]) -> Lattice | None:
    """Return the lattice of the composed loss, or None when the steps have no common one.

    Euclid's algorithm on the steps of the lattices; a remainder below rounding counts as zero.
    """
    step = largest = 0.0
    for s in steps:
        if s.loss.lattice is None:
            return None
        if s.loss.support[0] == s.loss.support[1]:
            continue  # one point fits any lattice
        a, b = max(step, s.loss.lattice[1]), min(step, s.loss.lattice[1])
        largest = max(largest, a)
        noise = 1e-13 * a
        while b > noise:
            if largest / b > MAX_POINTS:
                return None
            a, b = b, abs(a - b * round(a / b))
            noise = max(noise, 1e-13 * a)
        step = a
    if step == 0.0:
        return None
    offset = math.fsum(s.count * s.loss.lattice[0] for s in steps if s.loss.lattice)
    return Lattice(offset, step)


class LatticeAccountant(ContourAccountant):
    """Contour accountant for losses on a common lattice, complete after one period.

    Args:
        steps: distinct steps with counts; every loss on a lattice, with commensurate steps.
        rtol: relative width wanted.

    Raises:
        UnsupportedError: the losses are not on a common lattice.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Find the common lattice."""
        super().__init__(steps, rtol=rtol)

    def _find_payoff(self) -> Lattice:
        found = common_lattice(self._steps)
        if found is None:
            labels = ", ".join(s.loss.label for s in self._steps)
            raise UnsupportedError(f"lattice: the losses of {labels} are not on one lattice")
        return found

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta(epsilon) with bounds; see ContourAccountant."""
        bound = self._topmost(epsilon) or super().log_delta(epsilon)
        return Bound(
            bound.lower, bound.estimate, bound.upper, "lattice", bound.status, bound.detail
        )

    def _topmost(self, epsilon: float) -> Bound | None:
        """Answer where only the largest loss exceeds epsilon: P(L = top) (1 - exp(epsilon - top)).

        There the saddle point runs off to infinity and the contour loses its digits.
        """
        losses = [s.loss for s in self._steps]
        tops = [s.count * law.support[1] for s, law in zip(self._steps, losses, strict=True)]
        top = math.fsum(tops)
        noise = 8.0 * EPS * math.fsum(map(abs, [*tops, epsilon]))
        lattice = self._payoff
        if epsilon < 0 or not isinstance(lattice, Lattice):
            return None
        if not top - 0.5 * lattice.step < epsilon < top + noise:
            return None
        gap = top - epsilon
        mass = math.fsum(
            s.count * float(law.atom_log_mass[-1])
            for s, law in zip(self._steps, losses, strict=True)
        )
        error = 8.0 * EPS * (sum(s.count for s in self._steps) + abs(mass))
        error += math.fsum(s.count * s.loss.tolerance for s in self._steps)
        sides = [
            mass + margin + (math.log(-math.expm1(-width)) if width > 0 else -math.inf)
            for margin, width in ((-error, gap - noise), (0.0, gap), (error, gap + noise))
        ]
        base = self._log_infinite
        lower, estimate, upper = (
            log_add(base + margin, value)
            for margin, value in zip((-MASS_ERROR, 0.0, MASS_ERROR), sides, strict=True)
        )
        detail = {"reason": "only the largest loss exceeds epsilon"}
        return Bound(lower, estimate, upper, "lattice", "proven", detail)
