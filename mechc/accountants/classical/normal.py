"""Logs of the normal law: SciPy's are as good, and take longer to import than most questions."""

from __future__ import annotations

import math

from mechc.kernel.prelude import log_erfcx, log_half_erfc
from mechc.numeric.logs import HALF_ROOT


def log_ndtr(x: float) -> float:
    """Return log Phi(x), to 16 u of it and of one."""
    return log_half_erfc(-x * HALF_ROOT)


def log_mills(x: float) -> float:
    """Return log q(x) with q(x) = sqrt(2 pi) exp(x^2/2) (1 - Phi(x)), the normal Mills ratio."""
    return log_erfcx(x * HALF_ROOT) + 0.5 * math.log(0.5 * math.pi)
