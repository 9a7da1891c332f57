"""Losses with a tail that has no exponential moment: bounded by revealing what is far out.

In: steps, epsilon. Out: steps in which losses beyond +-B are infinite, and what that adds to delta.

The new steps dominate the old ones, so their delta is an upper bound. It is above the truth by at
most k (e^(eps - B) + e^(-B)) for k steps: where one step has L in A = {|L| > B} and the others sum
to s, the payoff grows by min(1, e^(eps - s - L)). Where L > B that is at most e^(eps - s - B), and
E_P[e^(-s)] <= Q(p > 0) <= 1; and P(L < -B) <= e^(-B).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mechc.accountants.bound import Bound
from mechc.accountants.logspace import log_add, log_subtract
from mechc.loss.measure import Step

MARGIN = 80.0  # nats by which what is added is below one
ROUND = 64.0  # bounds are multiples of this, so that neighbouring epsilons share the steps


def lacks_moments(steps: Sequence[Step]) -> bool:
    """Whether some loss has no exponential moments on a side, and the sum is not of one step."""
    several = sum(step.count for step in steps) > 1
    return several and not all(step.loss.has_moments for step in steps)


def bound_for(steps: Sequence[Step], epsilon: float) -> float:
    """The loss beyond which is revealed."""
    count = sum(step.count for step in steps)
    return ROUND * math.ceil((max(epsilon, 0.0) + math.log(count) + MARGIN) / ROUND)


def revealed(steps: Sequence[Step], bound: float) -> tuple[Step, ...]:
    """Return the steps with all losses that lack moments cut at +-bound.

    Raises:
        UnsupportedError: where a loss is that large is not known.
    """
    laws = {id(s.loss): s.loss for s in steps}
    cut = {key: law if law.has_moments else law.within(bound) for key, law in laws.items()}
    return tuple(Step(cut[id(s.loss)], s.count) for s in steps)


def corrected(answer: Bound, steps: Sequence[Step], epsilon: float, bound: float) -> Bound:
    """Take from the lower side of an answer for revealed steps what they may have added."""
    count = sum(step.count for step in steps)
    added = math.log(count) - bound + log_add(epsilon, 0.0)
    lower = log_subtract(float(answer.lower), added)
    detail = {**answer.detail, "revealed": f"losses beyond {bound:g} count as infinite"}
    return replace(answer, lower=lower, detail=detail)
