"""What is left to say where no method answers, or the work for one is used up.

Above: Chernoff's bound, at tilts that grow for as long as their nodes settle and it falls. Below:
one event, see `apart`. Both hold whatever else went wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mechc.accountants import apart
from mechc.accountants.bound import Bound
from mechc.accountants.chernoff import maximum_bound
from mechc.accountants.composed import ComposedLoss, U
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.apart import is_resolved
from mechc.loss.measure import Step
from mechc.loss.work import OutOfWorkError, spared

FIRST, RATIO, TILTS = 2.0**-12, 4.0, 9  # of the normal law's tilt: where to begin, and how to go on
INSIDE = 0.9  # of the strip of convergence


def bound(steps: Sequence[Step], epsilon: float) -> Bound:
    """Return bounds on log delta(epsilon) without a transform."""
    return Bound(
        lower := apart.log_lower(steps, epsilon),
        upper := max(log_upper(steps, epsilon), lower),
        upper,
        "direct",
        "proven",
        {"limit": "P and Q are too far apart, or the law too extreme, for more than bounds"},
    )


def at_hand(steps: Sequence[Step], epsilon: float, why: str) -> Bound:
    """Return bounds that what is spared of a query's work allows.

    Args:
        steps: distinct steps with counts.
        epsilon: any real number.
        why: what the answer is to say of the work.
    """
    lower, upper = -math.inf, 0.0
    try:
        with spared():
            upper = log_upper(steps, epsilon)
            lower = min(apart.log_lower(steps, epsilon), upper)
    except (OutOfWorkError, NumericError, UnsupportedError):
        pass
    return Bound(lower, upper, upper, "direct", "proven", {"max_work": why})


def log_upper(steps: Sequence[Step], epsilon: float) -> float:
    """Return the log of a proven upper bound on delta(epsilon), 0 where nothing is proved."""
    steps = [s for s in steps if s.count > 0]
    if not (steps and epsilon > 0.0 and all(is_resolved(s.loss) for s in steps)):
        return 0.0
    composed, best = ComposedLoss(steps), 0.0
    try:
        _, mean, variance = map(float, composed.cumulants(0.0, 2))
        resolved = (U * (abs(mean) + epsilon)) ** 2  # a variance below is none in doubles
        tilt = FIRST * (epsilon - mean) / max(variance, resolved, 1e-300)
        highest = INSIDE * composed.strip[1]
        for _ in range(TILTS):
            if not 0.0 < tilt < highest:
                break
            found = maximum_bound(composed, tilt, epsilon)
            if not found <= best:
                break
            best, tilt = found, RATIO * tilt
    except (OutOfWorkError, NumericError, UnsupportedError):
        pass
    return best
