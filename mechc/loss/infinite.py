"""The mass at infinite loss of a composition."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mechc.loss.measure import CERTAIN, Step

MASS_ERROR = 3e-14  # allowance for log of a composed mass at infinity, and of 1 - exp(eps) M(-1)


def log_infinite(steps: Sequence[Step]) -> float:
    """Return log of the mass at infinity of a composition, 1 - prod (1 - d_j)^count_j (I5)."""
    log_finite = sum(
        s.count * math.log1p(-math.exp(s.loss.log_infinite))
        if s.loss.log_infinite < -CERTAIN
        else -math.inf
        for s in steps
        if s.count and s.loss.log_infinite > -math.inf
    )
    if log_finite == 0:
        return -math.inf
    return math.log(-math.expm1(log_finite))
