"""Bounds on delta without a transform: Chernoff's, and by events of single steps.

They answer where no method does, or where the work for one is used up. Above: Chernoff's bound, the
moments accountant (SPA section 3.2), at tilts that grow for as long as their nodes settle and it
falls, or basic composition. From delta - d_inf = exp(K(t) - t eps) E~[f_t(L - eps)] it holds at
every t >= 0 of the strip, so an inexact minimiser costs sharpness, never validity:

    (43)  f_t <= t^t / (1+t)^(1+t), its maximum; the tight conversion from Renyi divergences.

Below, without moments or nodes, where P and Q are too far apart for any transform and delta is
nearly one: for thresholds t_j with sum t_j = t, the event that every L_j exceeds t_j has, with
independent steps, P-probability prod P(L_j > t_j), and its losses exceed t, so that Q gives it at
most exp(-t) times that:

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

from mechc.accountants.bound import Bound
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import payoff_target, solve
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.numeric.allowance import OutOfWorkError, share, spared
from mechc.numeric.logs import log1mexp, log_add, log_peak, log_subtract
from mechc.numeric.rounding import EPS, U

FIRST, RATIO, TILTS = 2.0**-12, 4.0, 9  # of the normal law's tilt: where to begin, and how to go on
SHARE_OF_STEPS = 0.3  # of the work, for single steps: tilts are left the rest
INSIDE = 0.9  # of the strip of convergence
_ROUNDING = 1e-9  # added to every log of a tail: error of K, quadrature included
SURE = 40.0  # eps - t of the event, nats: exp(-40) is lost, far below the digits of a delta near 1
SETTINGS = 100  # distinct steps that are looked at one by one
LEAST_ATOM = -600.0  # log mass of an atom at the largest loss that a double holds with a margin
UNION = -600.0  # log of a sum of probabilities that is that of a union to rounding


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
        # cells may lack losses next to the ends of them all
        self._hidden = [*composed.following_errors(), 0.0]

    def window(self, index: int, log_level: float) -> float:
        """Return a with P(X > a) and P(X < -a) at most exp(log_level) each, by cells up to a.

        Args:
            index: a distinct step, or `distinct` for the sum.
            log_level: below 0.
        """
        return self._hidden[index] + max(
            float(((rows[:, index] + _ROUNDING - log_level) / t).min()) for t, rows in self._sides
        )

    def log_beyond(self, index: int, a: float) -> tuple[float, float]:
        """Return logs of bounds on P(X > a) and P(X < -a), on what cells up to a do not hold."""
        a -= self._hidden[index]
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
        """Return a bound on E[|X|] of what cells up to a > 0 do not hold.

        From x exp(-tx) <= a exp(-ta) for x >= a where ta >= 1.
        """
        a, total = a - self._hidden[index], 0.0
        for t, rows in self._sides:
            fit = t * a >= 1.0
            if not fit.any():
                return math.inf
            total += a * math.exp(float((rows[fit, index] - t[fit] * a).min()) + _ROUNDING)
        return total


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
        log_mass, known = log_total(law.atom_log_mass[-near:]), law.atom_error
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
