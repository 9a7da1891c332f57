"""The outcome of one check, and arithmetic on errors."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, field
from typing import Any

FAR = 1e-12  # error of values far from typical parameters, where more may cancel


@dataclass
class Check:
    """One property of a kernel, tested at several places.

    Attributes:
        name: function or identity.
        kind: "values" (kernel against enclosure), "identity" (enclosure contains what it must),
            "proof" (interval bisection).
        tolerance: largest error accepted; 0 for what must hold exactly.
        max_error: largest error found, relative to the larger of the value and of what relative
            errors of the input do to it.
        points: how many places.
        where: the worst place, or the first one that failed.
        failures: what went wrong, in words; empty when all is well.
        notes: what limits the check.
        far: whether parameters are far from typical ones, where exponents overflow: what is not
            finite passes there with a note, as a refusal, unless the truth is zero's logarithm.
    """

    name: str
    kind: str
    tolerance: float = 0.0
    max_error: float = 0.0
    points: int = 0
    where: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    far: bool = False

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return not self.failures

    def record(self, error: float, *, nothing: bool = False, **where: Any) -> None:
        """Count one place and keep the worst; with `nothing` the truth is the log of zero."""
        self.points += 1
        if self.far and not nothing and not cmath.isfinite(complex(where.get("found", 0.0))):
            self.note("refused where exponents overflow, far from typical parameters")
            return
        if self.far and self.kind == "values" and self.tolerance < error <= FAR:
            self.note(f"to {FAR:g} far from typical parameters")
            return
        if math.isnan(error):
            error = math.inf
        if error >= self.max_error:
            self.max_error, self.where = error, where
        if error > self.tolerance:
            self.fail(f"error {error:.3g} exceeds {self.tolerance:g} at {_words(where)}")

    def fail(self, message: str) -> None:
        """Note a failure; a handful of them says enough."""
        if len(self.failures) < 5:
            self.failures.append(message)

    def note(self, message: str) -> None:
        """Note a limit of the check, once."""
        if message not in self.notes:
            self.notes.append(message)


def _words(where: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in where.items())
