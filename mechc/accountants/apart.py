"""The bound that is left where P and Q are too far apart for any transform: delta is nearly one.

For thresholds t_j with sum t_j = t, the event that every L_j exceeds t_j has, with independent
steps, P-probability prod P(L_j > t_j), and its losses exceed t, so that Q gives it at most exp(-t)
times that:

    delta(eps) >= prod P(L_j > t_j) (1 - exp(eps - t)) >= 1 - sum P(L_j <= t_j) - exp(eps - t).

Leaving steps out never raises delta, so any subset of the steps gives a bound; delta <= 1 is the
other side. Needs no nodes, and holds for laws without any (`UnresolvedLoss`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mechc.accountants.logspace import log1mexp
from mechc.loss.measure import Step

SURE = 40.0  # eps - t of the event


def log_lower(steps: Sequence[Step], epsilon: float) -> float:
    """Return the log of a proven lower bound on delta(epsilon), -inf where nothing is proved."""
    used = [s for s in steps if s.count > 0]
    subsets = [used] if len(used) > 1 else []
    subsets += [[s] for s in used] + [[Step(s.loss, 1)] for s in used if s.count > 1]
    return max((_of_all(subset, epsilon) for subset in subsets), default=-math.inf)


def _of_all(steps: Sequence[Step], epsilon: float) -> float:
    threshold = (epsilon + SURE) / sum(s.count for s in steps)
    lost = [-SURE, *(math.log(s.count) + s.loss.log_below(threshold) for s in steps)]
    total = float(np.logaddexp.reduce(lost)) + 1e-12
    return log1mexp(total) if total < 0.0 else -math.inf
