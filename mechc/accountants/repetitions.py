"""Epsilon after each of many numbers of repetitions of one run, from shared contours.

log M(z)^n = n log M(z): the nodes of one contour serve every count whose saddle point is near. The
counts within a factor RATIO share one contour, one period and one proof of decay (|phi|^n falls
with n). What is left for a count is compiled, see `contours.inversion`.

The sides are certified as everywhere: at the upper epsilon the proven upper bound of log delta is
at most the target, at the lower epsilon the proven lower bound exceeds it. Where that is not
possible to a reasonable width, few repetitions of one step go through a recursion (`recursion`);
else the answer is nan: ask another accountant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mechc.accountants import bounded_losses, recursion
from mechc.accountants.bounds import log_all_largest
from mechc.accountants.contour import Side
from mechc.accountants.contours import inversion
from mechc.accountants.contours.columns import Columns, Saddle, targets
from mechc.accountants.contours.placement import SHARED, place
from mechc.accountants.contours.trapezoid import Blurred, Lattice, Smooth
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import Step
from mechc.numeric.logs import log_peak
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

RATIO, FEW_RATIO = 3.0, 1.5  # largest over smallest count of a group, and where that fails
SHARE, COARSER = 1e-11, 10.0  # what images may cost of delta, and what a contour may of rtol
TOP = 5.0  # standard deviations above the largest saddle point up to which images are bounded
RECURSION_STEPS = 40  # steps for which a recursion may be cheaper
DEAR = 6e6  # node evaluations of a contour beyond which a recursion is cheaper
TILTS = 32  # of the Chernoff bound
WIDER = 10.0  # times the width aimed at that an answer may be wide


class Sweep(Columns):
    """One direction of a run that is repeated; every answer is for one target delta.

    Args:
        steps: distinct steps of one repetition.
        payoff: whether the sum of their losses lies on a lattice.
        log_delta: natural log of the target.
        rtol: relative width of delta beyond which there is no answer.
        recursion: few repetitions of one step, off a lattice, may go through the recursion.
    """

    def __init__(
        self, steps: Sequence[Step], payoff: Smooth | Lattice, log_delta: float, rtol: float, *,
        recursion: bool = True,
    ) -> None:  # fmt: skip
        """Keep the steps; nothing is computed before the first question."""
        super().__init__(tuple(s for s in steps if s.count > 0))
        self._payoff, self._target, self._rtol = payoff, log_delta, rtol
        self._widest = 0.1 * rtol
        self._recursion = recursion and len(self._steps) == 1 and isinstance(payoff, Smooth)
        self.methods: set[str] = set()  # what has answered
        self._near = 0.0  # tilt of the last saddle point, if any
        self._dear = False  # contours for fewer repetitions would cost more than a recursion
        self._whole = all(s.loss.log_finite == 0.0 == s.loss.log_q_finite for s in self._steps)

    def epsilons(self, counts: Floats, known: Floats) -> Floats:
        """Return lower bound, estimate and upper bound of epsilon at each count.

        Args:
            counts: increasing, shape (n,).
            known: an epsilon for each count, or nan; where delta is proven to be on target there
                it is returned with lower bound 0.

        Returns:
            Shape (3, n), nan where the contour does not serve.
        """
        out = self._in_the_last_step(counts)
        below = self._below(counts, known)
        out[:, below] = np.stack([0.0 * known, known, known])[:, below]
        left = self._by_contours(counts, known, np.flatnonzero(np.isnan(out[2])), out)
        few = np.flatnonzero(np.isnan(out).any(axis=0))
        if few.size and self._recursion:
            self._by_recursion(counts, few, out)
            left = left[np.isnan(out[:, left]).any(axis=0)]
            self._dear = self._recursion = False  # contours are tried whatever they cost ...
            left = self._by_contours(counts, known, left, out)
            some = not np.isnan(out[1, few]).all()  # a recursion that has failed is not repeated
            if some and 0 < left.size < few.size:  # ... and fewer repetitions need a shorter one
                self._by_recursion(counts, left, out)
        return out

    def _by_contours(
        self, counts: Floats, known: Floats, left: NDArray[np.intp], out: Floats
    ) -> NDArray[np.intp]:
        """Answer in groups, from the largest count down; return those that are left."""
        # saddle points go like 1 / sqrt(n): further apart than this, terms would cancel
        ratio = math.exp(2.0 * math.sqrt(0.7 * SHARED / max(-self._target, 1.0)))
        spread = RATIO
        while left.size and not self._dear:
            most = counts[left[-1]]
            widest = min(ratio, spread)
            first = np.searchsorted(counts[left], most / widest)
            part, rest = left[first:], left[:first]
            try:
                answers = self._group(counts[part], known[part])
            except (NumericError, UnsupportedError):
                answers = None
            few = self._recursion and most <= RECURSION_STEPS
            if answers is None and widest > FEW_RATIO and part.size > 1 and not few:
                spread = FEW_RATIO  # more of them repeat often enough
                continue
            if answers is None:
                break  # with fewer repetitions phi decays more slowly still
            self.methods.add("contour")
            out[:, part], left = answers, rest
        return left

    def _by_recursion(self, counts: Floats, few: NDArray[np.intp], out: Floats) -> None:
        """Answer for a few repetitions of one step, as far as the recursion goes."""
        level = targets(self._steps, self._target, counts[few])
        found = bounded_losses.epsilons(self._steps[0], counts[few], level, self._widest)
        left = np.flatnonzero(np.isnan(found[2]))
        if left.size:
            after = out[1, few[-1] + 1] if few[-1] + 1 < counts.size else math.nan
            near = found[1, left[-1] + 1] if left[-1] + 1 < few.size else after
            if math.isnan(near) and (saddle := self._known_saddle(counts[few[left[-1]]])):
                near = saddle.epsilon
            now, level = counts[few[left]], level[:, left]
            widest = WIDER * self._widest
            if not math.isnan(near):
                found[:, left] = recursion.epsilons(self._steps[0], now, level, near, widest)
        out[:, few] = found
        self.methods |= {"direct"} if np.isfinite(found).any() else set()

    def _below(self, counts: Floats, known: Floats) -> NDArray[np.bool_]:
        """Counts for which the Chernoff bound (numerics, 3.1) proves delta small at `known`."""
        if not np.isfinite(known).any():
            return np.zeros(counts.size, np.bool_)
        saddles = [self._known_saddle(n) for n in (counts[0], counts[-1])]
        ends = [saddle.t for saddle in saddles if saddle]
        if len(ends) < len(saddles):
            return np.zeros(counts.size, np.bool_)
        t = np.geomspace(0.3 * min(ends), max(ends), TILTS)
        k, _, _, rounding = self.law.roughly(*t).T
        size = np.outer(k + rounding, counts) - np.outer(t, known) + log_peak(t)[:, None]
        best = np.fmin.reduce(size + 1e-12, axis=0, initial=math.inf)
        below: NDArray[np.bool_] = best <= targets(self._steps, self._target, counts)[0]
        return below

    def _group(self, counts: Floats, known: Floats) -> Floats | None:
        """Answer for counts that share a contour; None where there is none."""
        ends = sorted({counts[0], counts[counts.size // 2], counts[-1]})
        rows = np.array([self._saddle(float(n)) for n in ends]).T
        n, near, top = int(counts[0]), float(rows[2, 0]), float(rows[1].max())
        bend = n * float(self.law.roughly(top)[0, 2]) + top**-2
        top = min(top + TOP / math.sqrt(bend), self._t_max)
        self._cover(top)
        steps = tuple(Step(s.loss, n * s.count) for s in self._steps)
        rows[0] /= n
        # images beyond all losses are known, however large they are
        lowest = n * self._lowest if self._whole else -math.inf
        side = Side(steps, self._payoff.times(n), COARSER * self._rtol)
        where = place(side.law, rows, top, SHARE, lowest=lowest)
        # `bounded_losses` goes far where there are atoms
        few = steps[0].count <= RECURSION_STEPS or steps[0].loss.atom_loss.size > 0
        few = few and self._recursion
        contour = side.on(where, near, DEAR if few else math.inf)
        if contour is None:
            return None
        levels = targets(self._steps, self._target, counts)
        widest = math.inf if isinstance(self._payoff, Smooth) else self._widest
        result = inversion.epsilons(contour, n, counts, levels, near, known, widest)
        wide = (self._near * (result[2] - result[0]) > WIDER * self._widest) & (result[0] > 0.0)
        if isinstance(contour, Blurred):
            result[:, wide] = np.nan  # each by itself
            return result
        self._dear = few and 4.0 * contour.nodes * contour.cost > DEAR
        if self._recursion:
            result[:, wide & (counts <= RECURSION_STEPS)] = np.nan  # a recursion is to try
        return result

    def _saddle(self, n: float) -> Saddle:
        """Saddle point of the target for n repetitions, at an epsilon that is not negative."""
        found = self.saddle_of_delta(self._target, n, self._near)
        self._near = found.t
        return found._replace(epsilon=max(found.epsilon, 0.0))

    def _known_saddle(self, n: float) -> Saddle | None:
        """The same, None where nodes do not settle: next to a largest loss it runs off."""
        try:
            return self._saddle(float(n))
        except (NumericError, UnsupportedError):
            return None

    def _in_the_last_step(self, counts: Floats) -> Floats:
        """Answers where only the largest loss exceeds epsilon: P(L = top) (1 - exp(epsilon - top)).

        On a lattice; there saddle points run off to infinity.
        """
        nothing = np.full((3, counts.size), np.nan)
        if not isinstance(self._payoff, Lattice):
            return nothing
        log_mass, mass_error, below_top = log_all_largest(self._steps, 0.5 * self._payoff.step)
        if log_mass == -math.inf:
            return nothing
        top = counts * sum(s.count * s.loss.support[1] for s in self._steps)
        below, above = targets(self._steps, self._target, counts) - counts * log_mass
        error = counts * mass_error + 4.0 * EPS * (1.0 + np.abs(counts * log_mass))
        with np.errstate(invalid="ignore"):  # nan where all of the mass is too little
            sides = [above + error, 0.5 * (above + below), below - error]
            gap = np.stack([-np.log1p(-np.exp(np.minimum(side, 1.0))) for side in sides])
        stray = counts * sum(8.0 * EPS * s.count * abs(s.loss.support[1]) for s in self._steps)
        moved = np.stack([-stray - counts * below_top, 0.0 * stray, stray])
        inside = (gap + stray < 0.5 * self._payoff.step) & (gap <= top)
        found = np.where(inside.all(axis=0), np.maximum(top - gap + moved, 0.0), np.nan)
        self.methods |= {"lattice"} if np.isfinite(found).any() else set()
        return np.asarray(found)
