"""Point masses of a composition: that of the largest loss of all, and errors of their losses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.numeric.rounding import EPS

LEAST_ATOM = -600.0  # log mass of an atom at the largest loss that a double holds with a margin


def log_all_largest(steps: Sequence[Step], within: float = 0.0) -> tuple[float, float, float]:
    """Return log P(every step is at its largest loss), -inf without atoms there, and its error.

    Or less than `within` below it, which a lattice of longer steps takes for one point; last how
    far below the sum of these may be.
    """
    total, error, below = 0.0, 0.0, 0.0
    for step in steps:
        law = step.loss
        if not _ends_in_atom(law):
            return -math.inf, 0.0, 0.0
        near = max(int(np.count_nonzero(law.atom_loss > law.atom_loss[-1] - within)), 1)
        log_mass, known = log_total(law.atom_log_mass[-near:]), law.tolerance + law.atom_error
        below += step.count * float(law.atom_loss[-1] - law.atom_loss[-near])
        total += step.count * log_mass
        error += step.count * (known + 4.0 * EPS * (1.0 + abs(log_mass)))
    return total, error + 4.0 * EPS * abs(total), below


def _ends_in_atom(law: PrivacyLoss) -> bool:
    """Whether the largest loss is an atom, of a mass that doubles hold."""
    top = law.support[1]
    if not law.atom_loss.size or not math.isfinite(top) or law.atom_log_mass[-1] < LEAST_ATOM:
        return False
    return bool(abs(law.atom_loss[-1] - top) <= 4.0 * EPS * abs(top))
