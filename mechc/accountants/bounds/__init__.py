"""Bounds on delta where no method answers, or where the work for one is used up.

Above: Chernoff's bound, at tilts that grow for as long as their nodes settle and it falls, or basic
composition. Below: one event, `single_steps`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds.chernoff import maximum_bound
from mechc.accountants.bounds.single_steps import log_by_single_steps, log_lower
from mechc.accountants.contours.composed import ComposedLoss
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import Step
from mechc.numeric.allowance import OutOfWorkError, share, spared
from mechc.numeric.rounding import U

FIRST, RATIO, TILTS = 2.0**-12, 4.0, 9  # of the normal law's tilt: where to begin, and how to go on
SHARE_OF_STEPS = 0.3  # of the work, for single steps: tilts are left the rest
INSIDE = 0.9  # of the strip of convergence


def bound(steps: Sequence[Step], epsilon: float) -> Bound:
    """Return bounds on log delta(epsilon) without a transform."""
    return Bound(
        lower := log_lower(steps, epsilon), upper := max(log_upper(steps, epsilon), lower), upper,
        "direct", "proven",
        {"limit": "P and Q are too far apart, or the law too extreme, for more than bounds"},
    )  # fmt: skip


def by_single_steps(steps: Sequence[Step], epsilon: float) -> Bound:
    """Return the bounds of `log_by_single_steps`."""
    lower, upper = log_by_single_steps(steps, epsilon)
    return Bound(lower, upper, upper, "direct", "proven", {"limit": "basic composition"})


def at_hand(steps: Sequence[Step], epsilon: float, why: str) -> Bound:
    """Return bounds that what is spared of a query's work allows, and say why no more."""
    lower, upper = -math.inf, 0.0
    try:
        with spared():
            upper = log_upper(steps, epsilon)
            lower = min(log_lower(steps, epsilon), upper)
    except (OutOfWorkError, NumericError, UnsupportedError):
        pass
    return Bound(lower, upper, upper, "direct", "proven", {"max_work": why})


def log_upper(steps: Sequence[Step], epsilon: float) -> float:
    """Return the log of a proven upper bound on delta(epsilon), 0 where nothing is proved."""
    steps = [s for s in steps if s.count > 0]
    if not (steps and epsilon > 0.0):
        return log_by_single_steps(steps, epsilon)[1]
    if not all(s.loss.is_resolved for s in steps):
        each = epsilon / sum(s.count for s in steps)  # some step has a larger loss
        some = [math.log(s.count) + s.loss.log_above(each * (1.0 - 4.0 * U)) for s in steps]
        return min(float(np.logaddexp.reduce(some)) + 1e-12, 0.0)
    composed = ComposedLoss(steps)
    with share(SHARE_OF_STEPS):
        best = log_by_single_steps(steps, epsilon)[1]
    try:
        _, mean, variance = map(float, composed.cumulants(0.0, 2))
        resolved = (U * (abs(mean) + epsilon)) ** 2  # a variance below is none in doubles
        tilt = FIRST * (epsilon - mean) / max(variance, resolved, 1e-300)
        highest = INSIDE * composed.strip[1]
        if highest < math.inf:  # where large losses are rare that is far beyond the strip
            tilt = min(tilt, highest * RATIO ** -(TILTS // 2))
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
