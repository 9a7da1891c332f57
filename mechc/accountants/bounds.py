"""Chernoff's bound on delta, the moments accountant: SPA section 3.2.

In: the composed loss and epsilon. Out: the log of a proven upper bound on delta, mass at infinity
and rounding allowance included, from delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)]. It holds
at every t >= 0 of the strip, so an inexact minimiser costs sharpness, never validity:

    (43)  f_t <= t^t / (1+t)^(1+t), its maximum; the tight conversion from Renyi divergences.

The bound that is left where P and Q are too far apart for any transform: delta is nearly one.

For thresholds t_j with sum t_j = t, the event that every L_j exceeds t_j has, with independent
steps, P-probability prod P(L_j > t_j), and its losses exceed t, so that Q gives it at most exp(-t)
times that:

    delta(eps) >= prod P(L_j > t_j) (1 - exp(eps - t)) >= 1 - sum P(L_j <= t_j) - exp(eps - t).

Leaving steps out never raises delta, so any subset of the steps gives a bound; delta <= 1 is the
other side. Needs no nodes, and holds for laws without any (`UnresolvedLoss`).

Where losses are large but rare, as of small samples with little noise, few steps have one:

    1 - prod (1 - delta_j(t)) - exp(eps - t) k <= delta(eps) <= 1 - prod (1 - delta_j(eps / k)),

basic composition above, below the event that some L_j exceeds t, as delta_j(t) <= P(L_j > t) and
Q(L_j > t) <= exp(-t).

Where no method answers, or the work for one is used up: Chernoff's bound above, at tilts that grow
for as long as their nodes settle and it falls, and one such event below.

Losses with a tail that has no exponential moment: bounded by revealing what is far out.

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

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import payoff_target, solve
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.infinite_mass import composed, log_error
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.truncated_loss import is_resolved
from mechc.numeric.allowance import OutOfWorkError, spared
from mechc.numeric.logs import log1mexp, log_add, log_peak, log_subtract
from mechc.numeric.rounding import EPS, U


def exponent(composed: ComposedLoss, t: float, epsilon: float) -> tuple[float, float]:
    """Return K(t) - t epsilon and a bound on its error."""
    k = composed.log_finite if t == 0.0 else float(composed.cumulants(t, 2)[0])
    error = 0.0 if t == 0.0 else composed.log_mass_error(t)
    return k - t * epsilon, error + 8 * U * (1.0 + abs(k) + abs(t * epsilon))


def maximum_bound(composed: ComposedLoss, t: float, epsilon: float) -> float:
    """Return the log of bound (43) at the tilt t, rounded up, with the mass at infinity."""
    main, error = exponent(composed, t, epsilon)
    upper = main + float(log_peak(t)) + error + 8 * U * math.log1p(t)
    total = log_add(composed.log_infinite, upper)
    return min(0.0, total + 8 * U * (1.0 + abs(total))) if math.isfinite(total) else 0.0


def best_maximum(composed: ComposedLoss, epsilon: float) -> tuple[float, float]:
    """Return the log of bound (43) at its minimising tilt, and that tilt.

    Raises:
        UnsupportedError: the generating function is infinite for every t > 0.
    """
    t = solve(composed, payoff_target(epsilon), epsilon).t
    return maximum_bound(composed, t, epsilon), t


_ROUNDING = 1e-9  # added to every log of a bound: error of K, quadrature included


class Tails:
    """Tail bounds of every distinct step and of the sum, both conditional on a finite loss."""

    def __init__(self, composed: ComposedLoss, method: str) -> None:
        """Tabulate K on both sides of 0, refused where one has no finite value."""
        s, right = composed.upper_table(np.geomspace(1e-3, 3e3, 60))
        u, left = composed.upper_table(-np.geomspace(1e-3, 3e3, 60))
        if s.size == 0 or u.size == 0:
            raise UnsupportedError(
                f"{method}: the loss has no exponential moments on one side, so that no window can "
                "be proven"
            )
        finite = composed.by_step(0.0, 0)[:, 0]
        steps = [(s, right - finite), (-u, left - finite)]
        self._sides = [(t, np.column_stack([rows, rows @ composed.counts])) for t, rows in steps]
        self.distinct = composed.counts.size

    def window(self, index: int, log_level: float) -> float:
        """Return a with P(X > a) and P(X < -a) at most exp(log_level) each.

        Args:
            index: a distinct step, or `distinct` for the sum.
            log_level: below 0.
        """
        return max(
            float(((rows[:, index] + _ROUNDING - log_level) / t).min()) for t, rows in self._sides
        )

    def log_beyond(self, index: int, a: float) -> tuple[float, float]:
        """Return logs of bounds on P(X > a) and P(X < -a)."""
        right, left = (float((rows[:, index] - t * a).min()) + _ROUNDING for t, rows in self._sides)
        return min(right, 0.0), min(left, 0.0)

    def tilts(self, index: int, a: float) -> tuple[float, float]:
        """Return the tilts t > 0 and t < 0 at which the bounds of `log_beyond` are attained."""
        right, left = (
            float(s * t[int(np.argmin(rows[:, index] - t * a))])
            for s, (t, rows) in zip((1.0, -1.0), self._sides, strict=True)
        )
        return right, left

    def mean_beyond(self, index: int, a: float) -> float:
        """Return a bound on E[|X|; |X| > a] for a > 0, from x exp(-tx) <= a exp(-ta), ta >= 1."""
        total = 0.0
        for t, rows in self._sides:
            fit = t * a >= 1.0
            if not fit.any():
                return math.inf
            total += a * math.exp(float((rows[fit, index] - t[fit] * a).min()) + _ROUNDING)
        return total


SURE = 40.0  # eps - t of the event


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


SETTINGS = 100  # distinct steps that are looked at one by one
UNION = -600.0  # log of a sum of probabilities that is that of a union to rounding


def log_by_single_steps(steps: Sequence[Step], epsilon: float) -> tuple[float, float]:
    """Return logs of bounds on delta(epsilon) by delta of single steps; -inf and 0: none known."""
    used = [s for s in steps if s.count > 0]
    if not used or len(used) > SETTINGS or not all(is_resolved(s.loss) for s in used):
        return -math.inf, 0.0
    count = sum(s.count for s in used)
    shared, far = max(epsilon, 0.0) / count * (1.0 - 4.0 * U), SURE + math.log(count)
    lower, upper = -math.inf, 0.0
    try:
        lower = log_subtract(
            _log_some([(s.count, s.loss.hockey_stick_log(max(epsilon, 0.0) + far)[0])
                       for s in used]) - 1e-12, -SURE
        )  # fmt: skip
        each = [s.loss.hockey_stick_log(shared)[2] for s in used]
        # no node may be that far out
        if all(e > -math.inf or s.loss.support[1] <= shared
               for e, s in zip(each, used, strict=True)):  # fmt: skip
            upper = _log_some([(s.count, e) for s, e in zip(used, each, strict=True)]) + 1e-12
            if epsilon < 0.0:  # delta(eps) <= exp(eps) delta(0) + 1 - exp(eps)
                upper = log_add(epsilon + upper, log1mexp(epsilon))
    except (NumericError, OutOfWorkError):
        pass
    return lower, min(upper, 0.0)


def _log_some(events: Sequence[tuple[int, float]]) -> float:
    """Log of the probability of at least one of independent events, by count and log of each."""
    union = float(np.logaddexp.reduce([math.log(count) + min(log, 0.0) for count, log in events]))
    if union < UNION:
        return union
    shares = [(count, math.exp(log)) for count, log in events]
    if any(share >= 1.0 for _, share in shares):
        return 0.0
    return math.log(-math.expm1(math.fsum(count * math.log1p(-share) for count, share in shares)))


FIRST, RATIO, TILTS = 2.0**-12, 4.0, 9  # of the normal law's tilt: where to begin, and how to go on
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
    if not all(is_resolved(s.loss) for s in steps):
        each = epsilon / sum(s.count for s in steps)  # some step has a larger loss
        some = [math.log(s.count) + s.loss.log_above(each * (1.0 - 4.0 * U)) for s in steps]
        return min(float(np.logaddexp.reduce(some)) + 1e-12, 0.0)
    composed, best = ComposedLoss(steps), log_by_single_steps(steps, epsilon)[1]
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


MARGIN = 80.0  # nats by which what is added is below one
MARGIN_OF_LISTS = 720.0  # the same where that only makes lists longer: deltas down to 1e-300
LEAST_ATOM = -600.0  # log mass of an atom at the largest loss that a double holds with a margin
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
