"""People whose loss comes from a few steps: compositions on a mesh, proven on both sides.

A contour needs |phi| to decay along it. With few steps, or with many of which only a few weigh, it
hardly does, and no number of nodes proves anything. Here every step is rounded to a near member of
the family on the safe side (`rounding`), the member's loss is put on a mesh by a dominating and by
a dominated law (`loss.grid`), and both are composed by a tilted transform
(`accountants.transform`). Nothing is interpolated, and the cost depends on the number of steps
alone. Members are shared between people who have the same mesh.
"""

from __future__ import annotations

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.transform import TiltedSum, Transformed
from mechc.accountants.window import log_peak
from mechc.errors import NumericError
from mechc.individual.account import THREADS
from mechc.individual.evaluate import Answers, Evaluator, Query
from mechc.individual.ledger import Ledger
from mechc.individual.pair import Pair
from mechc.individual.rounding import Rounded, of_counts, of_steps
from mechc.individual.tilts import FORBIDDEN, Members, Tilts
from mechc.loss import grid
from mechc.loss.grid import GridLaw

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

MOST, FINEST = 1 << 17, 1 << 21  # points of a transform, for many steps in all and for few
POINTS = 1 << 28  # points of all steps together, in between
LEAST = 1 << 10
LAWS = 4096  # members made for one person each
LONGEST = 1e4  # periods longer than this resolve nothing
CELLS = 1 << 21  # mesh points of one step
SHARE = 0.02  # of the tolerance, for images and for what lies beyond the meshes
FIRST = 0.05  # share of the tolerance that mesh and rounding are planned for at first
ROUNDS = 5  # plans made for a person; each is finer by what the last one fell short
_STRIDE = 6  # the transform is taken at every sixth tilt, so that members are shared
_RIGHT = np.array([2, 5, 9, 16])  # tilts above that of the transform that bound images
_LEFT = np.array([26, 42])  # tilts of the other direction that do; t there is -1 - t here
_CANCELLATION = 4.0  # nats by which the known images may exceed delta
_LOST = 12.0  # nats by which a tilt may miss the saddle


@dataclass(frozen=True)
class _Plan:
    """One person's composition.

    Attributes:
        person: who it is.
        rounded: the rounded steps.
        tilt: index of the tilt of the transform.
        fineness: the mesh step is 2^-fineness.
        size: points of the period.
        epsilon: a value to start from.
        log_delta: delta asked about, or Chernoff's bound on the one that is wanted.
    """

    person: int
    rounded: Rounded
    tilt: int
    fineness: int
    size: int
    epsilon: float
    log_delta: float

    @property
    def group(self) -> tuple[int, int]:
        """Plans that share members on a mesh."""
        return (self.tilt, self.fineness)


class Meshes:
    """One direction of a family; tables of Chernoff's bound come from the evaluators."""

    def __init__(self, evaluator: Evaluator, opposite: Evaluator) -> None:
        """Keep the evaluators of this direction and of the other one."""
        self._evaluator, self._opposite = evaluator, opposite
        self._members, self._grid = evaluator.members, evaluator.grid

    def run(
        self, ledger: Ledger, query: Query, rows: Rows, steps: tuple[Floats, Rows] | None
    ) -> Answers:
        """Answer for the people in `rows`.

        Args:
            ledger: the column totals.
            query: what is asked.
            rows: indices of people.
            steps: their recorded steps, parameters of shape (steps, len(rows)) and counts; without
                them the buckets of the ledger are read.
        """
        n = rows.size
        none, zero = np.full(n, np.inf), np.zeros(n)
        answers = Answers(zero, np.full(n, np.nan), none, none.copy(), zero.copy())
        self._choose(ledger, query, rows)
        self._most = MOST
        if steps is not None:
            recorded = max(int((steps[0] != self._members.untouched).sum()), 1)
            self._most = min(max(1 << int(math.log2(POINTS / recorded)), MOST), FINEST)
        todo = np.arange(n)
        budget = np.array([FIRST * self._tolerance(query, i) for i in range(n)])
        for _ in range(ROUNDS):
            before, plans = answers.numeric.copy(), []
            for i in todo.tolist():
                allowed = float(budget[i])
                rounded = self._round(i, rows, ledger, steps, allowed, max(LAWS // todo.size, 8))
                if rounded.counts.size:
                    plans.append(self._plan(query, i, rounded, allowed))
            for group in sorted({plan.group for plan in plans}):
                shared = _Shared(self._members, self._tilts, self._back, plans, group)
                self._in_threads([p for p in plans if p.group == group], shared, query, answers)
            width = answers.numeric[todo]
            helped = (width > query.rtol) & (width < 0.5 * before[todo]) & (width <= 1.0)
            todo = todo[helped]
            if steps is None:
                break  # what the buckets cost does not go away
            if query.inverse:
                self._advance(todo, answers.upper[todo])
            budget[todo] *= np.minimum(0.5, 0.5 * query.rtol / answers.numeric[todo])
        return answers

    def _in_threads(
        self, plans: list[_Plan], shared: _Shared, query: Query, answers: Answers
    ) -> None:
        def work(plan: _Plan) -> None:
            try:
                low, middle, high = shared.compose(plan).answer(query)
            except NumericError:
                return
            width = (high - low) / max(high, 1e-300)
            one = Answers(*(np.array([v]) for v in (low, middle, high, width, 0.0)))
            answers.meet(np.array([plan.person]), one)

        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(work, plans):
                pass

    def _choose(self, ledger: Ledger, query: Query, rows: Rows) -> None:
        """Look up everybody's saddle point and the bounds on K around it."""
        first, found = self._evaluator.first(ledger, query, rows, "worse")
        self._tilts, self._saddle = self._evaluator.tilts, found.saddle
        self._epsilon = found.start
        self._chernoff = np.log(np.maximum(first.upper, 1e-300))
        self._k = ledger.times(rows, self._tilts.columns("worse")[0])
        self._back = self._opposite.tilts_for(ledger, rows)
        self._k_back = ledger.times(rows, self._back.columns("worse")[0])

    def _tolerance(self, query: Query, i: int) -> float:
        """Relative width of delta that is as good as the one asked for."""
        saddle = float(self._tilts.t[self._saddle[i]])
        return query.rtol * (max(saddle * self._epsilon[i], 1e-3) if query.inverse else 1.0)

    def _plan(self, query: Query, i: int, rounded: Rounded, allowed: float) -> _Plan:
        t, j = self._tilts.t, int(self._saddle[i])
        epsilon = float(self._epsilon[i])
        log_delta = query.log_delta if query.inverse else float(self._chernoff[i])
        total = float(rounded.counts.sum())
        widest = math.sqrt(8.0 * allowed / (total * t[j] * (t[j] + 1.0)))
        at, period = self._tilt(i, epsilon, log_delta - _CANCELLATION / 2.0, query.rtol)
        fineness = math.ceil(-math.log2(widest))
        size = 1 << math.ceil(math.log2(max(period * 2.0**fineness, LEAST)))
        if size > self._most:
            fineness -= round(math.log2(size / self._most))
            size = self._most
        return _Plan(i, rounded, at, fineness, size, epsilon, log_delta)

    def _tilt(self, i: int, epsilon: float, log_delta: float, rtol: float) -> tuple[int, float]:
        """Choose the tilt with the shortest period, and that period.

        Below the saddle point images are better known where K explodes beyond it, as it does for
        low noise and sparse sampling; digits are lost there.
        """
        t, k, j = self._tilts.t, self._k[i], int(self._saddle[i])
        last = int(np.searchsorted(k, FORBIDDEN / 2.0)) - 1
        best, period = max(min(j, last - int(_RIGHT[0])) // _STRIDE * _STRIDE, 0), LONGEST
        level = k - t * epsilon - np.log(t * (t + 1.0))
        for at in range(best, -1, -_STRIDE):
            if level[at] > level.min() + _LOST and at < best:
                break
            length = self._period(i, at, epsilon, log_delta, rtol)
            if length < period:
                best, period = at, length
        return best, period

    def _advance(self, people: Rows, epsilon: Floats) -> None:
        """Take over better epsilons than Chernoff's, and the saddle points that go with them."""
        t = self._tilts.t
        phase = self._k[people] - epsilon[:, None] * t - np.log(t * (t + 1.0))
        self._epsilon[people], self._saddle[people] = epsilon, phase.argmin(axis=1)

    def _round(
        self,
        i: int,
        rows: Rows,
        ledger: Ledger,
        steps: tuple[Floats, Rows] | None,
        allowed: float,
        most: int,
    ) -> Rounded:
        if steps is None:
            return of_counts(self._grid, ledger.counts[rows[i]])
        values, counts = steps
        own = values[:, i] != self._members.untouched
        k = self._tilts.k[: self._grid.counts, 0, int(self._saddle[i])]
        return of_steps(self._grid, values[own, i], counts[own], k[:-1] - k[1:], allowed, most)

    def _period(self, i: int, at: int, epsilon: float, log_delta: float, rtol: float) -> float:
        """Shortest period that keeps images below their share of delta."""
        t, c = self._tilts.t, float(self._tilts.t[at])
        goal = log_delta + math.log(SHARE * rtol)
        above = _among(at + _RIGHT, t)
        image = self._k[i, above] + log_peak(t[above]) - t[above] * epsilon - goal
        right = float((image / (t[above] - c)).min())
        below = _among(_LEFT, self._back.t)
        s = self._back.t[below]
        remainder = self._k_back[i, below] + log_peak(s) + (1.0 + s) * epsilon - goal
        left = float((remainder / (1.0 + s + c)).min())
        known = -(log_delta + _CANCELLATION) / c
        return max(right, min(left, -goal / c), known, 1e-3)


class _Shared:
    """Members on the mesh of one group of plans, made when somebody needs them."""

    def __init__(
        self,
        members: Members,
        tilts: Tilts,
        back: Tilts,
        plans: list[_Plan],
        group: tuple[int, int],
    ) -> None:
        self._members, self._tilts, self._back = members, tilts, back
        self._c, self._step = float(tilts.t[group[0]]), 2.0 ** -group[1]
        self._right = tilts.t[_among(group[0] + _RIGHT, tilts.t)]
        self._left = 1.0 + back.t[_among(_LEFT, back.t)]
        self._probes = [0.0, -1.0, *self._right.tolist(), *(-self._left).tolist()]
        own = [plan for plan in plans if plan.group == group]
        self._log_small = min(p.log_delta - math.log(float(p.rounded.counts.sum())) for p in own)
        self._log_small += math.log(SHARE) - 12.0
        values = np.concatenate([np.append(p.rounded.worse, p.rounded.better) for p in own])
        self._shared = Counter(values.tolist())
        self._laws: dict[float, tuple[GridLaw, GridLaw]] = {}
        self._made: dict[tuple[float, int], tuple[Transformed, Transformed]] = {}
        self._lock = Lock()  # laws bind and extend compiled kernels, which is for one at a time

    def compose(self, plan: _Plan) -> Pair:
        """Compose one person's steps on both sides."""
        upper, lower = (TiltedSum(self._c, plan.size, self._probes) for _ in range(2))
        steps = plan.rounded
        rows = zip(*(v.tolist() for v in (steps.worse, steps.better, steps.counts)), strict=True)
        for worse, better, count in rows:
            above, below = self._member(worse, plan.size)
            upper.add_transformed(above, count)
            if better == better:
                below = below if better == worse else self._member(better, plan.size)[1]
                lower.add_transformed(below, count)
        if not lower.period > 0.0:  # every step is left out
            lower.add_transformed(below, 0)
        return Pair(
            upper.close(), lower.close(), plan.epsilon, plan.log_delta, self._right, self._left
        )

    def _member(self, value: float, size: int) -> tuple[Transformed, Transformed]:
        """Return a dominating and a dominated law of a member, transformed."""
        found = self._made.get((value, size))
        if found is None:
            laws = self._law(value)
            above, below = (Transformed.of(w, self._c, size, self._probes) for w in laws)
            found = above, below
            if self._shared[value] > 2:
                self._made[value, size] = found
        return found

    def _law(self, value: float) -> tuple[GridLaw, GridLaw]:
        with self._lock:
            found = self._laws.get(value)
            if found is None:
                found = self._cut(value)
                if self._shared[value] > 2:  # a person alone uses it on both sides at once
                    self._laws[value] = found
        return found

    def _cut(self, value: float) -> tuple[GridLaw, GridLaw]:
        law = self._members.at(value)
        low, high, tails = self._reach(value, law.support)
        law = law.covering(-float(self._left[0]), float(self._right[0]))
        step, offset = self._step, 0.0
        if law.atom_loss.size:
            offset = float(law.atom_loss[np.argmax(law.atom_log_mass)]) % step
        begin = math.floor((low - offset) / step) - 1
        count = math.ceil((high - offset) / step) + 1 - begin
        if count > CELLS:
            raise NumericError(f"{law.label}: a mesh of {count} points")
        cells = grid.Cells.cut(law, offset, step, begin, count)
        return grid.dominating(cells, tails), grid.dominated(cells, self._c)

    def _reach(
        self, value: float, support: tuple[float, float]
    ) -> tuple[float, float, tuple[float, float]]:
        """Range of losses that matter, and logs of bounds on the mass below and above it.

        By Chernoff's bound for the knot before the member, which dominates it.
        """
        place = float(self._members.grid.position(np.array([value]))[0])
        knot = min(max(int(place), 0), self._members.grid.buckets)
        t, k = self._tilts.t, self._tilts.k[knot, :2].sum(axis=0)
        usable = np.flatnonzero(~np.isnan(k))
        t, k = t[usable], k[usable]
        high = float(((k - self._log_small) / t).min(initial=math.inf))
        above = float((k - t * high).min(initial=math.inf)) + 1e-9
        u, back = -1.0 - self._back.t, self._back.k[knot, :2].sum(axis=0)
        u, back = u[~np.isnan(back)], back[~np.isnan(back)]
        # tilted by c; at that tilt the member has at least K(c) = 0
        low = float(((self._log_small - back) / (self._c - u)).max(initial=-math.inf))
        below = float((back - u * low).min(initial=math.inf)) + 1e-9
        if high >= support[1]:
            high, above = support[1], -math.inf
        if low <= support[0]:
            low, below = support[0], -math.inf
        if not math.isfinite(high - low):
            raise NumericError(f"{self._members.grid}: no bound on the loss at {value!r}")
        return low, high, (below, above)


def _among(index: Rows, t: Floats) -> Rows:
    """Return those indices that are there; the last tilt if none is."""
    return np.unique(np.minimum(index, t.size - 1))
