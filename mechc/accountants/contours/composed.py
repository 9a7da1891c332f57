"""The sum of many independent privacy losses, as the series methods see it.

In: steps (privacy loss, count). Out: cumulants of the sum under any exponential tilt, the masses
and supports of the composition, the error of K that float64 and quadrature leave, and the two
answers that need no approximation. Work per tilt grows with the number of distinct steps, not
with their counts (I5: K = sum count_j K_j, over the finite part of the law).

Every bound made here is a theorem with a rounding allowance; U is the unit roundoff.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mechc.accountants.bound import Bound
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.discretise import following_error
from mechc.loss.infinite_mass import composed, rounded
from mechc.loss.privacy_loss import Step, distinct
from mechc.numeric.allowance import spend
from mechc.numeric.logs import log1mexp, log_add
from mechc.numeric.rounding import MOST_LOG, U
from mechc.protocol import Floats

GENERATING = 3.0  # work for one node of K and its first two derivatives
TOGETHER = 8  # tilts of a table for which nodes grow at once: past lists of integers is a search
_LARGE = 500.0  # values of one step's K beyond which no further tilt is tried
_KINK = 5e-3  # relative error of a third absolute moment on panels that do not know the mean
_STEPS_PER_SPREAD = 3.0  # lattice steps that a standard deviation must hold


class Interval(NamedTuple):
    """Logs of a proven lower and a proven upper bound."""

    lower: float
    upper: float

    def meet(self, lower: float, upper: float) -> Interval:
        """Return the intersection with another proven interval for the same quantity."""
        return Interval(max(self.lower, lower), min(self.upper, upper))

    def project(self, estimate: float) -> float:
        """Return the point of the interval nearest to the estimate: never further from truth."""
        return estimate if math.isnan(estimate) else min(max(estimate, self.lower), self.upper)


class ComposedLoss:
    """The law of the composed privacy loss, through its cumulants.

    Attributes:
        count: number of steps, repetitions included.
        counts: repetitions of each distinct step, shape (distinct,).
        identical: all steps are repetitions of one.
        support: (ess inf, ess sup) of the finite composed loss, widened by its rounding error.
        strip: tilts for which every step's generating function is finite.
        log_infinite: log of the mass at +inf.
        log_finite: log P(L < inf), which is K(0).
        log_covered: log Q(p > 0), which is K(-1).
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """Merge equal steps and drop those that are never taken."""
        self._laws, counts = distinct(steps)
        self.counts = np.array(counts, dtype=np.float64)
        self.count = sum(counts)
        self.identical = len(self._laws) <= 1
        self.strip = (
            max((law.strip[0] for law in self._laws), default=-math.inf),
            min((law.strip[1] for law in self._laws), default=math.inf),
        )
        laws = list(zip(counts, self._laws, strict=True))
        lo, hi = (math.fsum(k * law.support[i] for k, law in laws) for i in (0, 1))
        self.support = lo - 8 * U * abs(lo), hi + 8 * U * abs(hi)
        self._infinite = composed(steps)
        self.log_infinite = self._infinite.log
        self.log_finite = math.fsum(k * law.log_finite for k, law in laws)
        self.log_covered = math.fsum(k * law.log_covered for k, law in laws)
        self._memo: dict[tuple[float, int], Floats] = {}

    @cached_property
    def _support_error(self) -> float:
        """How far an end of the support may be off, beside the rounding of the sum."""
        errors = [law.support_error for law in self._laws]
        return math.fsum(k * error for k, error in zip(self.counts, errors, strict=True))

    def following_errors(self) -> list[float]:
        """Return how far losses of each step may lie beyond the edges of their cell."""
        return [*map(following_error, self._laws)]

    def by_step(self, t: float, order: int) -> Floats:
        """Return [K_j, K_j', ..., K_j^(order)](t) of one repetition, shape (steps, order + 1).

        Raises:
            UnsupportedError: t is outside the strip of convergence.
            NumericError: a quadrature does not settle at this tilt.
        """
        if order <= 2:
            return self._generating(t)[:, : order + 1]
        if (t, order) not in self._memo:
            self._cover(t)
            spend(order * GENERATING * sum(law.nodes()[0].size for law in self._laws))
            rows = np.array([law.cumulants(t, order) for law in self._laws], np.float64)
            self._memo[t, order] = rows.reshape(len(self._laws), order + 1)
        return self._memo[t, order]

    def cumulants(self, t: float, order: int) -> Floats:
        """Return [K(t), K'(t), ..., K^(order)(t)] of the composition, shape (order + 1,)."""
        total: Floats = self.counts @ self.by_step(t, order)
        return total

    def closed(self, t: float) -> float:
        """Return K(t) by closed generating functions of all steps; nan where one has none."""
        return math.fsum(
            k * law.closed_cgf(t) for k, law in zip(self.counts, self._laws, strict=True)
        )

    def at_most(self, t: float) -> Floats:
        """Return upper bounds on K_j(t) of one repetition, shape (steps,)."""
        table = self._generating(t)
        known = np.isfinite(table[:, 3])  # all digits may cancel between -1 and 0
        bounds: Floats = np.full(len(table), math.inf)
        tolerance = np.array([law.tolerance for law in self._laws])
        bounds[known] = table[known, 0] + table[known, 3] + tolerance[known]
        return bounds

    def upper_table(self, tilts: Floats) -> tuple[Floats, Floats]:
        """Return the tilts that are inside the strip and that the quadrature reaches, with K_j.

        Returns:
            Increasing tilts, shape (m,), and upper bounds on K_j, shape (m, distinct steps).
        """
        lo, hi = self.strip
        inside = tilts[(tilts > lo * (1 - 1e-6)) & (tilts < hi * (1 - 1e-6))]
        kept, rows = [], []
        inside = inside[np.argsort(np.abs(inside))]
        for i, t in enumerate(inside):
            if i % TOGETHER == 0:  # nodes that grow for some at once, where they do
                with suppress(NumericError):
                    self._cover(*inside[i : i + TOGETHER].tolist())
            try:
                rows.append(self.at_most(float(t)))
            except NumericError:  # no quadrature that far out: the tilts nearer to 0 have to do
                break
            kept.append(float(t))
            if float(np.abs(rows[-1]).max()) > _LARGE:
                break
        order = np.argsort(kept)
        return np.array(kept)[order], np.array(rows).reshape(len(kept), self.counts.size)[order]

    def _generating(self, t: float) -> Floats:
        """Rows [K_j, K_j', K_j'', rounding of K_j] at t."""
        if (t, 0) not in self._memo:
            self._cover(t)
            spend(GENERATING * sum(law.loss.size + law.atom_loss.size for law in self._laws))
            rows = np.array([law.generating(t) for law in self._laws], np.float64)
            self._memo[t, 0] = rows.reshape(len(self._laws), 4)
        return self._memo[t, 0]

    def _cover(self, *tilts: float) -> None:
        for t in tilts:
            if not self.strip[0] < t < self.strip[1] and t not in (0.0, -1.0):
                raise UnsupportedError(
                    f"tilt t={t:g} is outside the strip of convergence "
                    f"({self.strip[0]:g}, {self.strip[1]:g}) of the privacy loss"
                )
        ends = min(*tilts, -1.0), max(*tilts, 0.0)
        self._laws = [law.covering(*ends) for law in self._laws]

    def resolving(self, t: float, frequency: float, floor: float = 0.0) -> tuple[Step, ...]:
        """Return steps whose nodes resolve one frequency at Re z = t.

        Args:
            t: a tilt inside the strip.
            frequency: largest |Im z| wanted.
            floor: share of the tilted mass that need not resolve it.

        Raises:
            NumericError: the quadrature does not settle.
        """
        lo, hi = min(t, -1.0), max(t, 0.0)
        laws = [law.covering(lo, hi, t, frequency, floor) for law in self._laws]
        return tuple(map(Step, laws, map(int, self.counts)))

    def log_mass_error(self, t: float) -> float:
        """Bound on the absolute error of K(t): quadrature, rounding, and masses of atoms.

        Masses given as numbers are good to an ulp, which moves M(t) by |t| ulp where K is found
        from the known masses M(0) and M(-1).
        """
        table = self._generating(t)
        quadrature = np.array([law.tolerance for law in self._laws])
        atomic = np.array(
            [4 * U * max(1.0, abs(t)) * bool(law.atom_loss.size) for law in self._laws]
        )
        atomic *= np.exp(np.minimum(-table[:, 0], MOST_LOG))
        return float(self.counts @ (quadrature + atomic + table[:, 3] + 4 * U * abs(table[:, 0])))

    def lost_mass_error(self, t: float) -> float:
        """Bound on the error of K(t) that errors of the masses at infinite losses make."""
        logs = [(law.log_infinite, law.log_minus_infinite) for law in self._laws]
        errors = np.array([law.mass_errors for law in self._laws]).reshape(-1, 2)
        errors += np.array([[rounded(m).error for m in row] for row in logs]).reshape(-1, 2)
        if not errors.any():
            return 0.0
        errors = np.exp(logs) * np.expm1(errors)
        lost = (1.0 + abs(t)) * errors[:, 0] + abs(t) * errors[:, 1]  # M is found from both masses
        return float(self.counts @ (lost * np.exp(-self._generating(t)[:, 0])))

    def mean_error(self, t: float) -> float:
        """Bound on the error of K'(t): weights off by a relative e move a mean by 2 e sigma."""
        table, errors = self.by_step(t, 2), self._weight_errors(t)
        spread = np.sqrt(np.maximum(table[:, 2], 0.0))
        return float(self.counts @ (2.0 * errors * spread + 8 * U * abs(table[:, 1])))

    def moment_error(self, t: float) -> float:
        """Bound on the error that inexact K', K'' make in a normal CDF with these moments.

        A shift by x standard deviations moves it by at most x / sqrt(2 pi), a change of scale by
        a factor 1 + x by at most x / sqrt(2 pi e); weights off by e move a variance by 4 e.
        """
        variance = float(self.cumulants(t, 2)[2])
        if not variance > 0.0:
            return math.inf
        return 0.4 * self.mean_error(t) / math.sqrt(variance) + float(
            self._weight_errors(t).max(initial=0.0)
        )

    def _weight_errors(self, t: float) -> Floats:
        """Relative error of each step's tilted weights."""
        quadrature = np.array([law.tolerance for law in self._laws])
        table = self._generating(t)
        errors: Floats = quadrature + table[:, 3] + 32 * U * (1.0 + abs(table[:, 0]))
        return errors

    def lyapunov(self, t: float) -> float:
        """Return a bound on sum E|L_j - E L_j|^3 / (sum var)^(3/2) of the tilted law.

        The nodes integrate a function with a kink at the mean: `_KINK` allows for that.
        """
        table = self.by_step(t, 2)
        variance = float(self.counts @ table[:, 2])
        logs = np.array([law.log_abs_central_moment3(t) for law in self._laws])
        return (1.0 + _KINK) * float(self.counts @ np.exp(logs - 1.5 * math.log(variance)))

    def atoms(self, t: float) -> float:
        """Return log of the tilted probability that every step lands on an atom."""
        total = 0.0
        for k, law, row in zip(self.counts, self._laws, self.by_step(t, 1), strict=True):
            if law.atom_loss.size == 0:
                return -math.inf
            logs = law.atom_log_mass + t * law.atom_loss - row[0]
            total += float(k) * min(0.0, math.log(float(np.exp(logs).sum())))
        return total

    def refuse_lattice(self, t: float, method: str) -> None:
        """Refuse a lattice that a density with the moments at tilt t cannot smooth.

        A lattice of step h is seen through the tilted standard deviation s and through the payoff,
        which lives on a length 1/t: a density is right within 10 % only for s >= 3 h and t h <= 1.
        A composition counts as a lattice when every step's loss is one, with the widest step.

        Raises:
            UnsupportedError: the lattice is too coarse for the number of steps.
        """
        spans = [law.lattice[1] if law.lattice else 0.0 for law in self._laws]
        step = max(spans, default=0.0) if all(spans) else 0.0
        sd = math.sqrt(max(float(self.cumulants(t, 2)[2]), 0.0))
        if sd < _STEPS_PER_SPREAD * step or t * step > 1.0:
            raise UnsupportedError(
                f"{method}: the loss is a lattice of step {step:g}, too coarse for a normal law at "
                f"{self.count} steps (sd {sd:g}, tilt {t:g})"
            )

    def settled(self, epsilon: float, method: str) -> Bound | None:
        """Return the answer as a Bound where it needs no approximation, else None."""
        if (exact := self._settled_interval(epsilon)) is None:
            return None
        detail = {"reason": "no approximation is needed here"}
        return Bound(exact.lower, exact.upper, exact.upper, method, "proven", detail)

    def _settled_interval(self, epsilon: float) -> Interval | None:
        """Beyond ess sup only the mass at infinity counts; below ess inf no output favours Q."""
        # There delta = 1 - exp(epsilon) Q(p > 0). Far below, delta is one in float64 anyway.
        mass = self._infinite
        if self.log_finite == -math.inf or epsilon == -math.inf:
            return Interval(0.0, 0.0)
        low, high = self.support
        if epsilon >= high and epsilon >= high + self._support_error:
            return Interval(mass.log - mass.error, min(mass.log + mass.error, 0.0))
        if epsilon <= low and epsilon <= low - self._support_error:
            least, most = self._complement(epsilon)
            return Interval(log1mexp(most), log1mexp(min(0.0, least)))
        outer = self.outer(epsilon)
        return outer if outer.upper - outer.lower <= 4 * U else None

    def outer(self, epsilon: float) -> Interval:
        """Return the interval that needs no computation.

        delta >= max(mass at infinity, 1 - exp(eps) Q(p > 0)), because (1 - y)_+ >= 1 - y; and the
        finite part is at most P(L < inf) (1 - exp(eps - ess sup L)).
        """
        mass, most = self._infinite, self._complement(epsilon)[1]
        gap = epsilon - self.support[1] - 4 * U * abs(epsilon)
        gap -= self._support_error if gap > -math.inf else 0.0
        upper = log_add(min(mass.log + mass.error, 0.0), self.log_finite + log1mexp(gap)) + 16 * U
        return Interval(max(mass.log - mass.error, log1mexp(most)), min(0.0, upper))

    def _complement(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on the log of exp(epsilon) Q(p > 0); atoms are good to an ulp."""
        if self.log_covered == -math.inf:  # but for the rounding of a mass of one
            return -math.inf, epsilon + math.log(8 * U)
        x = epsilon + self.log_covered
        atomic = sum(
            float(k) for k, law in zip(self.counts, self._laws, strict=True) if law.atom_loss.size
        )
        slack = 8 * U * (abs(epsilon) + abs(self.log_covered) + atomic)
        return x - slack, x + slack

    def with_infinite(self, log_finite_part: float) -> float:
        """Return the log of delta from the log of its finite part."""
        return log_add(self.log_infinite, log_finite_part)
