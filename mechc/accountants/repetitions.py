"""Epsilon after each of many numbers of repetitions of one run, from shared contours.

log M(z)^n = n log M(z): the nodes of one contour serve every count whose saddle point is near. The
counts within a factor RATIO share one contour, one period and one proof of decay (|phi|^n falls
with n). What is left for a count is compiled, see `contours.inversion`.

The sides are certified as everywhere: at the upper epsilon the proven upper bound of log delta is
at most the target, at the lower epsilon the proven lower bound exceeds it. Where that is not
possible to a reasonable width, few repetitions of one step go through a recursion (`recursion`);
else the answer is nan: ask another accountant.

On a lattice the sum over one period of the integrand is complete: what is left out of it is the sum
of what is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mechc.accountants import bounded_losses, bounds, recursion
from mechc.accountants.contours import inversion, placement
from mechc.accountants.contours.characteristic import Law
from mechc.accountants.contours.columns import Columns, Saddle, targets
from mechc.accountants.contours.decay import truncation
from mechc.accountants.contours.trapezoid import (
    Contour,
    Lattice,
    Smooth,
)
from mechc.accountants.fft import log_peak
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import Step
from mechc.loss.rounding import EPS


def resolved(steps: tuple[Step, ...], c: float, frequency: float, floor: float) -> Law:
    """Return the law with nodes that resolve a frequency at Re z = c, but a share of a step."""
    floor /= sum(s.count for s in steps)
    return Law.of(
        tuple(Step(s.loss.covering(-1.0, 0.0, c, frequency, floor), s.count) for s in steps)
    )


Floats = NDArray[np.float64]

RATIO, FEW_RATIO = 3.0, 1.5  # largest over smallest count of a group, and where that fails
SHARE = 1e-11  # images and truncation may cost this share of delta
CANCELLATION = math.log(1e3)  # nats by which a contour may miss a saddle point
FIRST, MANY_NODES, MOST = 32, 2048, 16384  # nodes of a contour, at first and at last
FEW = 40  # steps for which a recursion may be cheaper
DEAR = 4_000_000  # node evaluations of a contour beyond which a recursion is cheaper
LEFT, CLEAR = math.log(1e2), 1.05  # nats, log of delta, that known images may have; spare period
BELOW = 8  # contours tried at and below the smallest saddle point
TILTS = 32  # of the Chernoff bound
WIDER = 10.0  # times the width aimed at that an answer may be wide
LARGE = 10.0  # sum in units of its first term that is seldom exceeded
DOUBLINGS = 2  # of the nodes of a contour before a recursion is cheaper


class Sweep(Columns):
    """One direction of a run that is repeated; every answer is for one target delta.

    Args:
        steps: distinct steps of one repetition.
        log_delta: natural log of the target.
        rtol: relative width of delta beyond which there is no answer.
        recursion: few repetitions of one step may go through the recursion.
    """

    def __init__(
        self, steps: Sequence[Step], log_delta: float, rtol: float, *, recursion: bool = True
    ) -> None:
        """Keep the steps; nothing is computed before the first question."""
        super().__init__(tuple(s for s in steps if s.count > 0))
        self._target, self._widest = log_delta, 0.1 * rtol
        self._sure = math.inf  # width of delta beyond which a contour says nothing
        self._recursion = recursion and len(self._steps) == 1
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
        out = np.full((3, counts.size), np.nan)
        below = self._below(counts, known)
        out[:, below] = np.stack([0.0 * known, known, known])[:, below]
        left = self._by_contours(counts, known, np.flatnonzero(~below), out)
        few = np.flatnonzero(np.isnan(out).any(axis=0))
        if few.size and self._recursion:
            self._by_recursion(counts, few, out)
            left = left[np.isnan(out[:, left]).any(axis=0)]
            self._dear = self._recursion = False  # contours are tried whatever they cost ...
            left = self._by_contours(counts, known, left, out)
            if 0 < left.size < few.size:  # ... and fewer repetitions need a shorter recursion
                self._by_recursion(counts, left, out)
        return out

    def _by_contours(
        self, counts: Floats, known: Floats, left: NDArray[np.intp], out: Floats
    ) -> NDArray[np.intp]:
        """Answer in groups, from the largest count down; return those that are left."""
        # saddle points go like 1 / sqrt(n): further apart than this, terms would cancel
        ratio = math.exp(2.0 * math.sqrt(0.7 * CANCELLATION / max(-self._target, 1.0)))
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
            few = self._recursion and most <= FEW
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
            if math.isnan(near):
                near = self._saddle(float(counts[few[left[-1]]])).epsilon
            now, level = counts[few[left]], level[:, left]
            widest = WIDER * self._widest
            found[:, left] = recursion.epsilons(self._steps[0], now, level, near, widest)
        out[:, few] = found
        self.methods |= {"direct"} if np.isfinite(found).any() else set()

    def _below(self, counts: Floats, known: Floats) -> NDArray[np.bool_]:
        """Counts for which the Chernoff bound (numerics, 3.1) proves delta small at `known`."""
        if not np.isfinite(known).any():
            return np.zeros(counts.size, np.bool_)
        ends = [self._saddle(float(n)).t for n in (counts[0], counts[-1])]
        t = np.geomspace(0.3 * min(ends), max(ends), TILTS)
        k, _, _, rounding = self._law.roughly(*t).T
        size = np.outer(k + rounding, counts) - np.outer(t, known) + log_peak(t)[:, None]
        best = np.fmin.reduce(size + 1e-12, axis=0, initial=math.inf)
        below: NDArray[np.bool_] = best <= targets(self._steps, self._target, counts)[0]
        return below

    def _group(self, counts: Floats, known: Floats) -> Floats | None:
        """Answer for counts that share a contour; None where there is none."""
        ends = sorted({counts[0], counts[counts.size // 2], counts[-1]})
        saddles = [self._saddle(float(n)) for n in ends]
        chosen = self._contour(saddles)
        if chosen is None:
            return None
        contour, tail = chosen
        levels, near = targets(self._steps, self._target, counts), saddles[0].epsilon
        n, widest = float(counts[0]), self._sure
        result = inversion.epsilons(contour, n, counts, levels, near, tail, known, widest)
        if self._recursion:
            wide = (self._near * (result[2] - result[0]) > WIDER * self._widest) & (result[0] > 0.0)
            result[:, wide & (counts <= FEW)] = np.nan  # a recursion is to try
        return result

    def _saddle(self, n: float) -> Saddle:
        """Saddle point of the target for n repetitions, at an epsilon that is not negative."""
        found = self.saddle_of_delta(self._target, n, self._near)
        self._near, least = found.t, max(found.epsilon, 0.0)
        return found._replace(
            epsilon=least, exponent=found.exponent - (least - found.epsilon) * found.t
        )

    def _contour(self, saddles: list[Saddle]) -> tuple[Contour, float] | None:
        """Contour for counts between those of the saddle points, and its truncation error."""
        lowest, top = min(s.t for s in saddles), max(s.t for s in saddles)
        n = saddles[0].repetitions
        f2 = n * float(self._law.roughly(top)[0, 2]) + top**-2
        self._cover(min(top + 5.0 / math.sqrt(f2), self._t_max))
        top = min(s.loss.tilts[1] for s in self._steps)
        top = min(top, self._t_max, lowest + 12.0 / math.sqrt(f2) + (saddles[0].t - lowest))
        grid = np.concatenate(
            [np.geomspace(0.2 * lowest, lowest, BELOW), np.linspace(lowest, top, 9)[1:]]
        )
        rows = self._law.roughly(*grid)
        few = replace(self._law, counts=n * self._law.counts)
        best, cost = (0.0, 0.0, 0.0), math.inf
        periods = self._periods(grid, rows, saddles)
        for c, period in zip(grid[:BELOW].tolist(), periods.tolist(), strict=True):
            if not math.isfinite(period):
                continue
            frequency = few.fading(c, math.log(SHARE))
            if period * frequency < cost:
                best, cost = (c, period, frequency), period * frequency
        if not math.isfinite(cost):
            return None
        return self._nodes(*best, grid, rows, saddles[0])

    def _periods(self, grid: Floats, rows: Floats, saddles: list[Saddle]) -> Floats:
        """Periods that the first contours of the grid need; infinite where terms would cancel."""
        n, _, epsilon, least = np.array(saddles).T[:, :, None]
        c, log_small = grid[:BELOW], self._target + math.log(SHARE)
        exponent = n * rows[:BELOW, 0] - epsilon * c - np.log(c * (1.0 + c))
        known = np.full(exponent.shape, math.inf)
        if self._whole:  # images beyond all losses are known, however large they are
            known = CLEAR * np.maximum(-(self._target + LEFT) / c, epsilon - n * self._lowest)
        small = np.full(len(saddles), log_small)
        log_b = n * rows[:, 0] + log_peak(grid)
        found = placement.periods(grid, BELOW, log_b, epsilon[:, 0], small, known)
        worst: Floats = np.where(exponent - least > CANCELLATION, math.inf, found).max(axis=0)
        return worst

    def _nodes(
        self,
        c: float,
        period: float,
        frequency: float,
        grid: Floats,
        rows: Floats,
        saddle: Saddle,
    ) -> tuple[Contour, float] | None:
        """Evaluate nodes until the truncation is proven small for the smallest count."""
        n = int(saddle.repetitions)
        payoff, h = Smooth(), 2.0 * math.pi / period
        nodes = FIRST + int(min(1.1 * frequency / h, MANY_NODES / 2))
        steps = tuple(Step(s.loss, n * s.count) for s in self._steps)
        log_b = n * (rows[:, 0] + rows[:, 3]) + log_peak(grid)
        contour: Contour | None = None
        between = self._recursion and self._steps[0].loss.atom_loss.size > 0  # `banded` goes far
        few = between or (self._recursion and n * self._steps[0].count <= FEW)
        dear, most = DOUBLINGS if few else MOST, MANY_NODES if between else MOST
        while nodes <= most:
            law = resolved(steps, c, 1.2 * h * nodes, 1e-18)
            if contour is None:
                contour = Contour(law, payoff, c, period, grid, log_b)
                tail = period / (math.pi * contour.weight(0.0))
                if tail * math.exp(contour.tilted.lasting) > LARGE * self._widest * h * most:
                    return None  # atoms keep phi from fading within the nodes
            else:
                contour.resolve(law)
            contour.extend(nodes)
            values, _ = contour.terms(saddle.epsilon)
            total = max(1.0 + 2.0 * float(values.sum()), 1e-3)
            wanted = SHARE * total / tail
            quiet = float(np.abs(values[-16:]).max()) < SHARE
            last = 2 * nodes > most or not dear or (few and 4 * contour.work > DEAR)
            if quiet or last:
                left_out = tail * truncation(steps, contour, math.inf, h * nodes, wanted)
                # total variation alone gives a power of the frequency
                power = 2.0 ** min((n * self._steps[0].count + 2.0) * dear, 1000.0)
                hopeless = few and left_out > self._widest * total * power
                if left_out <= 4.0 * SHARE * total or last or hopeless:
                    self._dear = few and 4 * contour.work > DEAR
                    return (contour, left_out) if left_out < self._widest * total else None
            nodes, dear = 2 * nodes, dear - 1
        return None


NEGLIGIBLE = 1e-17  # terms left out, as a share of the first
FFT_ERROR = 1e-13  # of the transform of masses that sum to one
LONGEST = 500_000  # nodes of a period, and


class LatticeSweep(Sweep):
    """One direction of a repeated run on a lattice; every answer is for one target delta.

    Args:
        steps: distinct steps of one repetition.
        lattice: of the sum of their losses.
        log_delta: natural log of the target.
        rtol: relative width of delta beyond which there is no answer.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        lattice: Lattice,
        log_delta: float,
        rtol: float,
    ) -> None:
        """Keep the steps; nothing is computed before the first question."""
        super().__init__(steps, log_delta, rtol, recursion=False)
        self._lattice, self._sure = lattice, self._widest

    def epsilons(self, counts: Floats, known: Floats) -> Floats:
        """Return lower bound, estimate and upper bound of epsilon at each count, see `Sweep`."""
        out = self._in_the_last_step(counts)
        left = np.isnan(out).any(axis=0)
        if left.any():
            out[:, left] = super().epsilons(counts[left], known[left])
        return out

    def _in_the_last_step(self, counts: Floats) -> Floats:
        """Answers where only the largest loss exceeds epsilon: P(L = top) (1 - exp(epsilon - top)).

        There saddle points run off to infinity.
        """
        log_mass, mass_error = bounds.log_all_largest(self._steps)
        if log_mass == -math.inf:
            return np.full((3, counts.size), np.nan)
        top = counts * sum(s.count * s.loss.support[1] for s in self._steps)
        below, above = targets(self._steps, self._target, counts) - counts * log_mass
        error = counts * mass_error + 4.0 * EPS * (1.0 + np.abs(counts * log_mass))
        with np.errstate(invalid="ignore"):  # nan where all of the mass is too little
            sides = [above + error, 0.5 * (above + below), below - error]
            gap = np.stack([-np.log1p(-np.exp(np.minimum(side, 1.0))) for side in sides])
        stray = counts * sum(8.0 * EPS * s.count * abs(s.loss.support[1]) for s in self._steps)
        moved = np.stack([-stray, 0.0 * stray, stray])
        inside = (gap + stray < 0.5 * self._lattice.step) & (gap <= top)
        found = np.where(inside.all(axis=0), np.maximum(top - gap + moved, 0.0), np.nan)
        self.methods |= {"lattice"} if np.isfinite(found).any() else set()
        return np.asarray(found)

    def _nodes(
        self,
        c: float,
        period: float,
        frequency: float,
        grid: Floats,
        rows: Floats,
        saddle: Saddle,
    ) -> tuple[Contour, float] | None:
        """Evaluate one period, and leave out what is negligible for the smallest count."""
        n = int(saddle.repetitions)
        payoff = Lattice(n * self._lattice.offset, self._lattice.step)
        period = payoff.period(period)
        steps = tuple(Step(s.loss, n * s.count) for s in self._steps)
        log_b = n * (rows[:, 0] + rows[:, 3]) + log_peak(grid)
        contour = Contour(Law.of(steps), payoff, c, period, grid, log_b)
        if contour.most > LONGEST:
            return None
        d, b = inversion.lattice_weights(contour, int(contour.most))
        size = (np.abs(d) + np.abs(b))[1:] * np.exp(self._log_sizes(contour, steps))
        first = abs(d[0])
        kept = int(np.flatnonzero(size > NEGLIGIBLE * first).max(initial=-1)) + 1
        if kept * contour.cost > DEAR:
            return None
        contour.extend(kept)
        return contour, 2.0 * float(size[kept:].sum())

    def _log_sizes(self, contour: Contour, steps: tuple[Step, ...]) -> Floats:
        """Bound log |phi| at all nodes of the period, by one transform for every distinct step."""
        points = 2 * int(contour.most) + 1
        log_size = np.zeros(int(contour.most))
        for (loss, count), weight in zip(steps, contour.tilted.weights, strict=True):
            place = np.rint((loss.atom_loss - loss.atom_loss[0]) / self._lattice.step)
            law = np.bincount(place.astype(np.int64) % points, weight, points)
            log_size += count * np.log(np.abs(np.fft.rfft(law)[1:]) + FFT_ERROR)
        return np.minimum(log_size, 0.0)
