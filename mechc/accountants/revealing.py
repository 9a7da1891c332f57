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

from mechc.accountants.bound import Bound
from mechc.accountants.logspace import log_add, log_subtract
from mechc.loss.apart import is_resolved
from mechc.loss.infinite import composed, log_error
from mechc.loss.measure import Step

MARGIN = 80.0  # nats by which what is added is below one
ROUND = 64.0  # bounds are multiples of this, so that neighbouring epsilons share the steps


def lacks_moments(steps: Sequence[Step]) -> bool:
    """Whether some loss has no exponential moments on a side.

    One step alone does not need them, unless its law could not be resolved.
    """
    alone = sum(step.count for step in steps) <= 1 and is_resolved(steps[0].loss)
    return not alone and not all(step.loss.has_moments for step in steps)


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
    """Take from the lower side of an answer for revealed steps what they may have added.

    Args:
        answer: the answer for the revealed steps.
        steps: the revealed steps.
        epsilon: where it was asked for.
        bound: the loss beyond which they reveal.
    """
    count = sum(step.count for step in steps)
    added = math.log(count) - bound + log_add(epsilon, 0.0)
    for step in steps:
        added = log_add(added, math.log(step.count) + step.loss.log_early)
    errors = log_error(composed(steps), composed(steps, reverse=True), epsilon)
    answer = outward(answer, errors)
    detail = {**answer.detail, "revealed": f"losses beyond {bound:g} count as infinite"}
    return replace(answer, lower=log_subtract(float(answer.lower), added), detail=detail)


def loss_errors(steps: Sequence[Step]) -> tuple[float, float]:
    """How far errors of the losses of point masses may move a composed loss, and their digits."""
    laws = [(s.count, s.loss) for s in steps if is_resolved(s.loss)]
    digits = sum(count * law.loss_rounding for count, law in laws)
    return sum(count * law.loss_error for count, law in laws), digits


def outward(answer: Bound, log_moved: float) -> Bound:
    """Move both sides of a bound on log delta by an error of delta, given by its log."""
    if log_moved == -math.inf:
        return answer
    lower, upper = float(answer.lower), float(answer.upper)
    if not math.isnan(lower):
        lower = log_subtract(lower, log_moved)
    if not math.isnan(upper):
        upper = min(log_add(upper, log_moved), 0.0)
    return replace(answer, lower=lower, upper=upper)
