"""The answer of every accountant: an interval, an estimate, and what stands behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Bound:
    """An interval for a privacy quantity.

    Attributes:
        lower: proven lower bound, or nan where no theorem gives one.
        estimate: best value, or nan.
        upper: proven upper bound, or nan where no theorem gives one.
        method: name of the accountant that answered.
        status: "proven" (a theorem evaluated in float64 with a rounding allowance), "certified"
            (ball arithmetic), "estimate" (no theorem: lower and upper are nan), or a sentence that
            says why there is no answer.
        detail: what the method did: direction, contour, nodes, error terms, reasons.

    `float(bound)` is `upper`, the side that never under-reports; it is nan without a theorem.
    Scalars in give floats, arrays in give arrays.
    """

    lower: float | NDArray[np.float64]
    estimate: float | NDArray[np.float64]
    upper: float | NDArray[np.float64]
    method: str
    status: str
    detail: dict[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        """Return the safe side."""
        return float(self.upper)

    @property
    def width(self) -> float | NDArray[np.float64]:
        """Return upper minus lower."""
        return self.upper - self.lower
