"""Bounds on delta by events of single steps, without moments or nodes.

The bound that is left where P and Q are too far apart for any transform: delta is nearly one.
For thresholds t_j with sum t_j = t, the event that every L_j exceeds t_j has, with independent
steps, P-probability prod P(L_j > t_j), and its losses exceed t, so that Q gives it at most exp(-t)
times that:

    delta(eps) >= prod P(L_j > t_j) (1 - exp(eps - t)) >= 1 - sum P(L_j <= t_j) - exp(eps - t).

Leaving steps out never raises delta, so any subset of the steps gives a bound; delta <= 1 is the
other side. It holds for laws without nodes (`UnresolvedLoss`).

Where losses are large but rare, as of small samples with little noise, few steps have one:

    1 - prod (1 - delta_j(t)) - exp(eps - t) k <= delta(eps) <= 1 - prod (1 - delta_j(eps / k)),

basic composition above, below the event that some L_j exceeds t, as delta_j(t) <= P(L_j > t) and
Q(L_j > t) <= exp(-t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from mechc.errors import NumericError
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.numeric.allowance import OutOfWorkError
from mechc.numeric.logs import log1mexp, log_add, log_subtract
from mechc.numeric.rounding import EPS, U

SURE = 40.0  # eps - t of the event, nats: exp(-40) is lost, far below the digits of a delta near 1
SETTINGS = 100  # distinct steps that are looked at one by one
LEAST_ATOM = -600.0  # log mass of an atom at the largest loss that a double holds with a margin
UNION = -600.0  # log of a sum of probabilities that is that of a union to rounding


def log_lower(steps: Sequence[Step], epsilon: float) -> float:
    """Return the log of a proven lower bound on delta(epsilon), -inf where nothing is proved."""
    used = [s for s in steps if s.count > 0]
    subsets = [used] if len(used) > 1 else []
    subsets += [[s] for s in used] + [[Step(s.loss, 1)] for s in used if s.count > 1]
    return max(
        [log_by_single_steps(steps, epsilon)[0], *(_of_all(subset, epsilon) for subset in subsets)]
    )


def _of_all(steps: Sequence[Step], epsilon: float) -> float:
    threshold = (epsilon + SURE) / sum(s.count for s in steps)
    lost = [-SURE, *(math.log(s.count) + s.loss.log_below(threshold) for s in steps)]
    total = float(np.logaddexp.reduce(lost)) + 1e-12
    return log1mexp(total) if total < 0.0 else -math.inf


def log_by_single_steps(
    steps: Sequence[Step], epsilon: float, level: float = 0.0
) -> tuple[float, float]:
    """Return logs of bounds on delta(epsilon) by delta of single steps; -inf and 0: none known.

    Below an upper one that exceeds `level` no lower one is looked for.
    """
    used = [s for s in steps if s.count > 0]
    if not used or len(used) > SETTINGS or not all(s.loss.is_resolved for s in used):
        return -math.inf, 0.0
    count = sum(s.count for s in used)
    shared, far = max(epsilon, 0.0) / count * (1.0 - 4.0 * U), SURE + math.log(count)
    lower, upper = -math.inf, 0.0
    with suppress(NumericError, OutOfWorkError):
        each = [s.loss.hockey_stick_log(shared)[2] for s in used]
        # no node may be that far out
        if all(e > -math.inf or s.loss.support[1] <= shared
               for e, s in zip(each, used, strict=True)):  # fmt: skip
            upper = _log_some([(s.count, e) for s, e in zip(used, each, strict=True)]) + 1e-12
            if epsilon < 0.0:  # delta(eps) <= exp(eps) delta(0) + 1 - exp(eps)
                upper = log_add(epsilon + upper, log1mexp(epsilon))
    upper = min(upper, 0.0)
    if upper <= level:
        with suppress(NumericError, OutOfWorkError):
            lower = log_subtract(
                _log_some([(s.count, s.loss.hockey_stick_log(max(epsilon, 0.0) + far)[0])
                           for s in used]) - 1e-12, -SURE
            )  # fmt: skip
    return lower, upper


def _log_some(events: Sequence[tuple[int, float]]) -> float:
    """Log of the probability of at least one of independent events, by count and log of each."""
    union = float(np.logaddexp.reduce([math.log(count) + min(log, 0.0) for count, log in events]))
    if union < UNION:
        return union
    shares = [(count, math.exp(min(log, 0.0))) for count, log in events]
    if any(share >= 1.0 for _, share in shares):
        return 0.0
    return math.log(-math.expm1(math.fsum(count * math.log1p(-share) for count, share in shares)))


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
