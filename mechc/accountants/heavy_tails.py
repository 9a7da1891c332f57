"""Losses with a tail that has no exponential moment: bounded by revealing what is far out.

In: steps, epsilon. Out: steps in which losses beyond +-B are infinite, and what that adds to delta.

The new steps dominate the old ones, so their delta is an upper bound. It is above the truth by at
most k (e^(eps - B) + e^(-B)) for k steps: where one step has L in A = {|L| > B} and the others sum
to s, the payoff grows by min(1, e^(eps - s - L)). Where L > B that is at most e^(eps - s - B), and
E_P[e^(-s)] <= Q(p > 0) <= 1; and P(L < -B) <= e^(-B). Where the loss is smaller than B next to an
end, no double being closer to it, the payoff grows by at most the mass there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mechc.accountants.bound import Bound, outward
from mechc.loss.infinite_mass import composed, log_error
from mechc.loss.privacy_loss import Step
from mechc.numeric.logs import log_add, log_subtract

MARGIN = 80.0  # nats by which what is added is below one
MARGIN_OF_LISTS = 720.0  # the same where that only makes lists longer: deltas down to 1e-300
ROUND = 64.0  # bounds are multiples of this, so that neighbouring epsilons share the steps


def lacks_moments(steps: Sequence[Step]) -> bool:
    """Whether some loss has no exponential moments on a side.

    One step alone does not need them, unless its law could not be resolved.
    """
    total, moments = 0, True
    for law, count in steps:
        total += count
        moments = moments and law.has_moments
    return not moments and not (total <= 1 and steps[0].loss.is_resolved)


def bound_for(steps: Sequence[Step], epsilon: float) -> float:
    """The loss beyond which is revealed."""
    count = sum(step.count for step in steps)
    return ROUND * math.ceil((max(epsilon, 0.0) + math.log(count) + margin(steps)) / ROUND)


def margin(steps: Sequence[Step]) -> float:
    """Nats below one down to which delta is told from what is added."""
    return MARGIN_OF_LISTS if all(step.loss.is_endless for step in steps) else MARGIN


def revealed(steps: Sequence[Step], bound: float) -> tuple[Step, ...]:
    """Return the steps with all losses that lack moments, or are endless, cut at +-bound.

    Raises:
        UnsupportedError: where a loss is that large is not known.
    """
    laws = {id(s.loss): s.loss for s in steps}
    cut = {
        key: law if law.has_moments and not law.is_endless else law.within(bound)
        for key, law in laws.items()
    }
    return tuple(Step(cut[id(s.loss)], s.count) for s in steps)


def corrected(answer: Bound, steps: Sequence[Step], epsilon: float, bound: float) -> Bound:
    """Take from the lower side of an answer for revealed steps what they may have added."""
    count = sum(step.count for step in steps)
    added = math.log(count) - bound + log_add(epsilon, 0.0)
    for step in steps:
        added = log_add(added, math.log(step.count) + step.loss.log_early)
    errors = log_error(composed(steps), composed(steps, reverse=True), epsilon)
    answer = outward(answer, errors)
    detail = {**answer.detail, "revealed": f"losses beyond {bound:g} count as infinite"}
    return replace(answer, lower=log_subtract(float(answer.lower), added), detail=detail)
