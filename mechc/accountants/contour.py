"""Exact accounting on a vertical contour, for every epsilon.

`side` answers for epsilon >= 0; negative epsilon goes through the reversed pair (I3), so that
nothing cancels: delta(eps) = 1 - exp(eps) M(-1) + exp(eps) H_rev(-eps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.accountants.logspace import log_add, log_subtract
from mechc.accountants.side import Side
from mechc.accountants.trapezoid import Lattice, Smooth
from mechc.loss.infinite import MASS_ERROR, log_infinite
from mechc.loss.measure import Step

Floats = NDArray[np.float64]

ROUNDED = 1e-9  # nats that rounding may cost a comparison of two bounds


class ContourAccountant:
    """Trapezoid rule on Re z = c with proven lower and upper bounds (Theorem A).

    Args:
        steps: distinct steps with counts.
        rtol: relative width wanted; the rule aims far below it and reports what it reached.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Keep the steps; nothing is computed before the first query."""
        self._steps = tuple(s for s in steps if s.count > 0)
        self._rtol = rtol
        self._log_infinite = log_infinite(self._steps)
        self._payoff = self._find_payoff()
        self._forward = Side(self._steps, self._payoff, rtol)
        self._backward: Side | None = None

    def _find_payoff(self) -> Smooth | Lattice:
        return Smooth()

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta(epsilon) with bounds.

        Args:
            epsilon: any real number.

        Raises:
            UnsupportedError: the loss has no exponential moments.
            NumericError: the quadrature does not settle.
        """
        if epsilon >= 0:
            a = self._forward.finite(epsilon)
            logs = [
                log_add(self._log_infinite + margin, v)
                for margin, v in zip(
                    (-MASS_ERROR, 0.0, MASS_ERROR), (a.lower, a.estimate, a.upper), strict=True
                )
            ]
        else:
            if self._backward is None:
                reverse = tuple(Step(s.loss.reversed(), s.count) for s in self._steps)
                self._backward = Side(reverse, self._payoff.reversed(), self._rtol)
            a = self._backward.finite(-epsilon)
            base = math.log(-math.expm1(epsilon + self._forward.log_q))
            logs = [
                log_add(base + margin, epsilon + v)
                for margin, v in zip(
                    (-MASS_ERROR, 0.0, MASS_ERROR), (a.lower, a.estimate, a.upper), strict=True
                )
            ]
        lower, estimate, upper = (min(v, 0.0) for v in logs)
        return Bound(lower, estimate, upper, "contour", "proven", dict(a.detail))

    def at_most(self, epsilon: float, level: float) -> bool:
        """Return whether log delta is proven to be at most `level` at a fraction of an answer.

        Args:
            epsilon: any real number.
            level: log of another delta.
        """
        if epsilon < 0:
            return False
        base = self._log_infinite + MASS_ERROR
        return base < level and self._forward.at_most(epsilon, log_subtract(level - ROUNDED, base))

    def reversed_at_most(self, epsilon: float, level: float) -> bool:
        """Return whether log delta of the reversed pair is at most `level`, by known nodes alone.

        Args:
            epsilon: any real number.
            level: log of another delta.
        """
        if epsilon < 0:
            return False
        return self._forward.reversed_at_most(epsilon) <= level - ROUNDED
