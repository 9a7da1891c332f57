"""What one side of the contour plans and remembers: a contour to be laid, and one that answered."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.blurred import Blurred
from mechc.accountants.jumps import Jumps
from mechc.accountants.trapezoid import Contour

Floats = NDArray[np.float64]


class Known(NamedTuple):
    """A contour that has answered, and how wide its first answer was."""

    contour: Contour | Blurred | Jumps
    width: float


class Choice(NamedTuple):
    """A contour that is not evaluated yet.

    Attributes:
        c, period, grid, log_b, spare: see Contour.
        top: largest tilt that is wanted.
        reach: frequency up to which the law should be resolved.
        one_scale: large losses have no contours of their own, see `jumps`.
    """

    c: float
    period: float
    grid: Floats
    log_b: Floats
    top: float
    reach: float
    one_scale: bool
    spare: float = 0.0

    @property
    def nodes(self) -> float:
        """Frequencies that are expected to be needed, 0 where there is no other way."""
        return 0.0 if self.one_scale else self.reach * self.period / (2.0 * math.pi)
