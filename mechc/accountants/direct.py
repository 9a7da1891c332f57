"""Answers without a transform: one step by its branches, few steps recursively, atoms enumerated.

These are the cases in which a characteristic function decays slowly or not at all. Every term is
positive, so that nothing cancels and deep tails keep their relative accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.contours.atoms import draws, ways_to_draw
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.recursion import Recursion
from mechc.accountants.registry import ALIKE, KEPT, Accountant
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.infinite_mass import composed, with_infinite
from mechc.loss.moments import dot, log_total
from mechc.loss.privacy_loss import Step
from mechc.numeric.allowance import spend
from mechc.numeric.logs import log1mexp, log_add
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

Logs = tuple[float, float, float]

MAX_ATOMS = 3_000_000  # composed losses that are listed
MAX_SHARES = 20_000_000  # the same times the draws or the atoms of one step, whichever are fewer
MAX_STEPS = 128  # with a density; the recursion goes through all of them
LISTED = 10.0  # work for one composed atom
FARTHEST_BACK = 1e-2  # relative step back from an epsilon above which no node lies
LIMIT = "rounding of the losses"
REUSED = 1e-2  # share of rtol up to which a remembered recursion answers, ...
CLOSE_EPSILONS = 1e-3  # relative distance of epsilons at which that is so, however wide


def enumerable(steps: Sequence[Step]) -> bool:
    """All losses are atoms, and few enough composed ones to list them all."""
    total = 1.0
    for s in steps:
        if s.loss.loss.size or not math.isinf(s.loss.frequency):
            return False
        if math.isinf(s.loss.support[1] - s.loss.support[0]):
            return False  # a lattice without end is only known where mass was looked for
        total *= ways_to_draw(s.count, s.loss.atom_loss.size)
        if total * min(s.count, s.loss.atom_loss.size) > MAX_SHARES:
            return False
    return total <= MAX_ATOMS


class DirectAccountant(Accountant):
    """Answers to quadrature accuracy for few steps, exact ones for compositions of few atoms.

    Args:
        steps: distinct steps with counts.
        rtol: relative width wanted; answers are far better, it decides what may be re-used.

    Raises:
        UnsupportedError: too many steps, one of them with a density.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Expand the steps, or list all composed atoms."""
        self._steps = tuple(s for s in steps if s.count > 0)
        self._log_infinite = composed(self._steps).log
        self._rtol = rtol
        self._sides: dict[bool, _Side] = {}
        self._atoms: tuple[Floats, Floats, Floats] | None = None
        count = sum(s.count for s in self._steps)
        if enumerable(self._steps) and count > 1:
            self._atoms = _enumerate(self._steps)
        elif count > MAX_STEPS:
            raise UnsupportedError(
                f"direct: {count} steps with a density; direct takes up to {MAX_STEPS}, or atoms "
                "alone"
            )
        elif count > 1 and any(s.loss.is_steep for s in self._steps):
            # panels of a few steps do not resolve such ends, and the recursion cannot tell
            raise UnsupportedError(
                "direct: several steps of a loss that grows without limit towards a finite output"
            )

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta(epsilon) with bounds, for any real epsilon.

        Raises:
            NumericError: an integral did not settle.
        """
        if self._atoms is not None:
            logs = self._enumerated(epsilon)
        elif self._sides or sum(s.count for s in self._steps) > 1:
            return self._recursive(epsilon)
        else:
            logs = self._single(epsilon)
        lower, estimate, upper = (min(v, 0.0) for v in logs)
        return Bound(lower, estimate, upper, "direct", "proven", {})

    def _single(self, epsilon: float) -> tuple[float, float, float]:
        """One step; where no node reaches epsilon, bounded by delta just below, as delta falls."""
        law = self._steps[0].loss.first()  # whatever was asked of it before
        logs = law.hockey_stick_log(epsilon)
        if logs[2] > -math.inf or epsilon >= law.support[1]:
            return logs
        if law.source is None or not law.source.continuous:
            raise NumericError(f"direct: no atom listed has a loss above epsilon={epsilon!r}")
        ulp = 4.0 * EPS * (1.0 + abs(epsilon))
        largest = float(np.concatenate([law.loss, law.atom_loss]).max(initial=-math.inf))
        gap, least, upper = max(ulp, epsilon - largest + ulp), 0.0, -math.inf
        while upper == -math.inf and gap < FARTHEST_BACK * (1.0 + abs(epsilon)):
            upper = law.hockey_stick_log(epsilon - gap)[2]
            least, gap = (gap, 4.0 * gap) if upper == -math.inf else (least, gap)
        while upper > -math.inf and gap - least > ulp:
            middle = 0.5 * (least + gap)
            closer = law.hockey_stick_log(epsilon - middle)[2]
            least, gap = (middle, gap) if closer == -math.inf else (least, middle)
            upper = min(upper, closer) if closer > -math.inf else upper
        if upper > -math.inf:
            return -math.inf, upper, upper
        raise NumericError(f"direct: no node reaches losses above epsilon={epsilon!r}")

    def _recursive(self, epsilon: float) -> Bound:
        composed = ComposedLoss(self._steps)
        settled = composed.settled(epsilon, "direct")
        if settled is not None:
            return settled
        reverse = epsilon < 0
        if reverse not in self._sides:
            steps = self._steps
            if reverse:
                steps = tuple(Step(s.loss.reversed(), s.count) for s in steps)
            self._sides[reverse] = _Side(steps, self._rtol)
        finite, detail = self._sides[reverse].log_finite(abs(epsilon))
        base, factor = self._log_infinite, 0.0
        if reverse:  # delta(eps) = 1 - exp(eps) Q(p > 0) + exp(eps) H_rev(-eps)
            base, factor = log1mexp(epsilon + composed.log_covered), epsilon
        lower, estimate, upper = with_infinite(base, (factor + v for v in finite))
        return Bound(lower, estimate, upper, "direct", "proven", detail)

    def _enumerated(self, epsilon: float) -> tuple[float, float, float]:
        assert self._atoms is not None
        loss, log_mass, noise = self._atoms
        spend(LISTED * loss.size)
        gap, rounding = loss - epsilon, 16.0 * EPS * (np.abs(loss) + abs(epsilon))
        up, near = gap > 0, gap > -rounding
        if not up.any():
            rounded = log_total(log_mass[near] + np.log(rounding[near]))
            return self._around(-math.inf, 0.0, rounded)
        terms = log_mass[up] + np.log(-np.expm1(-gap[up]))
        value = log_total(terms)
        share = np.exp(terms - value)
        apart = log_mass[near] - np.maximum(gap[near], 0.0) - value
        shaky = np.exp(np.minimum(apart, MOST_LOG)) * rounding[near]
        error = dot(share, noise[up]) + 16.0 * EPS + float(shaky.sum())
        return self._around(value, error)

    def _around(
        self, value: float, error: float, rounded: float = -math.inf
    ) -> tuple[float, float, float]:
        """Lower, estimate, upper from the finite part, its error, and the mass at infinity."""
        # `rounded` is the log of what losses may contribute that look as if they were below
        # epsilon.
        sides = _logs(value, error)[0], value, log_add(value + error, rounded)
        return with_infinite(self._log_infinite, sides)


class _Side:
    """The finite part in one direction for epsilon >= 0, with recursions that can be re-used."""

    def __init__(self, steps: tuple[Step, ...], rtol: float) -> None:
        self._steps, self._rtol = steps, rtol
        self._kept: list[tuple[Recursion, float, float]] = []  # with epsilon and error at first
        self._bounded = all(math.isfinite(s.loss.support[1]) for s in steps)

    def log_finite(self, epsilon: float) -> tuple[Logs, dict[str, Any]]:
        """Return logs of (lower bound, estimate, upper bound) of H(epsilon), and what was done."""
        logs, detail = self._answer(epsilon)
        if self._bounded and logs[2] - logs[0] > REUSED * self._rtol:
            detail = {**detail, "limit": LIMIT}
        return logs, detail

    def _answer(self, epsilon: float) -> tuple[Logs, dict[str, Any]]:
        for recursion, place, first in self._kept:
            value, error = recursion.log_value(epsilon)
            near = abs(epsilon - place) <= CLOSE_EPSILONS * abs(place)
            alike = ALIKE * first if near else min(ALIKE * first, self._rtol)
            if error < math.inf and error <= max(REUSED * self._rtol, alike):
                return _logs(value, error), recursion.detail
        recursion = Recursion(self._steps, epsilon)
        value, error = recursion.log_value(epsilon)
        self._kept = [(recursion, epsilon, error), *self._kept[: KEPT - 1]]
        if value == -math.inf:
            raise NumericError(f"direct: nothing was found above epsilon={epsilon!r}")
        return _logs(value, error), recursion.detail


def _logs(value: float, error: float) -> Logs:
    """Interval from a value's logarithm and relative error."""
    low = value + math.log1p(-error) if error < 1.0 else -math.inf
    return low, value, value + math.log1p(error)


def _enumerate(steps: Sequence[Step]) -> tuple[Floats, Floats, Floats]:
    """All composed losses with log masses and bounds on the rounding of the log masses."""
    loss, log_mass, noise = np.zeros(1), np.zeros(1), np.zeros(1)
    for s in steps:
        spend(LISTED * loss.size * ways_to_draw(s.count, s.loss.atom_loss.size))
        total, log_p = draws(s.loss.atom_loss, s.loss.atom_log_mass, s.count)
        rounding = 8.0 * EPS * (2.0 + 2.0 * math.lgamma(s.count + 1.0) - log_p)
        off = rounding + s.count * s.loss.tolerance
        loss = (loss[:, None] + total).ravel()
        log_mass = (log_mass[:, None] + log_p).ravel()
        noise = (noise[:, None] + off).ravel()
    return loss, log_mass, noise
