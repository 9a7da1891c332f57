"""People whose loss comes from a few steps: compositions on a mesh, proven on both sides.

A contour needs |phi| to decay along it. With few steps, or with many of which only a few weigh, it
hardly does, and no number of nodes proves anything. Here every step is rounded to a near member of
the family on the safe side (`rounding`), the member's loss is put on a mesh by a dominating and by
a dominated law (`loss.grid`), and both are composed by a tilted transform
(`accountants.transform`). Nothing is interpolated, and the cost depends on the number of steps
alone. Members are shared between people who have the same mesh.

One person's composition between a dominating and a dominated one on a mesh, solved for epsilon.

Both come as tilted transforms (`accountants.transform`); what their finite period aliases is
bounded by `accountants.pld`. The discretisation adds twice as much to the upper value as it
takes from the lower one, hence the weights of the estimate.

How finely each step of a person is rounded, so that members of the family can be shared.

In: people's steps, and what rounding across one bucket of the grid would add to K at a person's
saddle point. Out: for every person parameter values on both sides of the steps, and how often each
occurs. The values are those of a grid with 4^level times as many buckets; the level is the smallest
for which rounding costs the person less than the share of the tolerance that a step may have, so
that steps that hardly matter meet at few values. Steps that would need a finer level than `SHARED`
are not rounded at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.fft import TiltedSum, Transformed, log1mexp, log_add, log_peak
from mechc.accountants.pld import Window, finite_lower, finite_upper
from mechc.errors import NumericError
from mechc.individual.budget import THREADS
from mechc.individual.contours import Answers, Evaluator, Query
from mechc.individual.ledger import Ledger
from mechc.individual.splines import Grid
from mechc.individual.tilts import FORBIDDEN, Members, Tilts
from mechc.loss import discretise
from mechc.loss.discretise import GridLaw
from mechc.loss.rounding import U

Floats = NDArray[np.float64]

_SEARCH = 60  # evaluations of a bound in search of epsilon
_FAR = 0.3  # largest share by which a search goes back at once


class Pair:
    """A dominating and a dominated composition of one person."""

    def __init__(
        self,
        upper: TiltedSum,
        lower: TiltedSum,
        epsilon: float,
        log_delta: float,
        right: Floats,
        left: Floats,
    ) -> None:
        """Keep both compositions.

        Args:
            upper: of laws that dominate the steps.
            lower: of laws that the steps dominate.
            epsilon: where to start a search.
            log_delta: about the log of delta.
            right: tilts above that of the transform that were probed.
            left: u of the probes -u.
        """
        self._upper, self._lower = upper, lower
        self._epsilon, self._log_delta = epsilon, log_delta
        self._right, self._left = right, left
        self._infinite = log1mexp(upper.log_finite) + 16 * U

    def answer(self, query: Query) -> tuple[float, float, float]:
        """Return lower bound, estimate and upper bound of epsilon, or of delta.

        Args:
            query: what is asked.
        """
        if not query.inverse:
            low, high = self.log_lower(query.epsilon), self.log_upper(query.epsilon)
            return math.exp(low), math.exp((2.0 * low + high) / 3.0), math.exp(min(high, 0.0))
        start, rtol = self._epsilon, query.rtol
        _, high = _bracket(self.log_upper, query.log_delta, start, rtol, _FAR)
        # far below the answer images leave nothing of the lower bound: the search keeps close
        low, _ = _bracket(self.log_lower, query.log_delta, min(high, start), rtol, 0.25 * rtol)
        low = max(low, 0.0)
        return low, (2.0 * low + high) / 3.0 if high < math.inf else math.nan, high

    def log_upper(self, epsilon: float) -> float:
        """Return an upper bound on log delta.

        Args:
            epsilon: any real number.
        """
        window = self._window(self._upper, epsilon)
        return log_add(self._infinite, finite_upper(self._upper, window, epsilon)[0])

    def log_lower(self, epsilon: float) -> float:
        """Return a lower bound on log delta.

        Args:
            epsilon: any real number.
        """
        window = self._window(self._lower, epsilon)
        return finite_lower(self._lower, window, epsilon)[0] - 16 * U

    def _window(self, total: TiltedSum, epsilon: float) -> Window:
        """The probes with the best bounds on the images."""
        c, period, mgf = total.tilt, total.period, total.log_mgf
        s, u, small = self._right, self._left, self._log_delta
        right = [mgf[x] - x * epsilon - (x - c) * period for x in s.tolist()] + log_peak(s)
        left = [mgf[-x] + x * (epsilon - period) for x in u.tolist()] + log_peak(u - 1.0)
        best = float(s[np.argmin(right)]), -float(u[np.argmin(left)])
        return Window(epsilon, c, small, c, period, *best, small)


def _bracket(
    bound: Callable[[float], float], target: float, start: float, rtol: float, back: float
) -> tuple[float, float]:
    """Return (low, high) with bound(low) > target >= bound(high), close together.

    Secants on the logarithm of delta, with bisection where they fail; -1 and inf where an end was
    not found. From `start` the search goes back by the share `back`, then by more and more.
    """
    low, high = -1.0, math.inf
    at_low = at_high = math.nan
    x, streak = start, 0
    for _ in range(_SEARCH):
        value = bound(x)
        if value > target:
            low, at_low, streak = x, value, max(streak, 0) + 1
        else:
            high, at_high, streak = x, value, min(streak, 0) - 1
        if high == 0.0 or high - low <= 0.02 * rtol * high:
            break
        if math.isinf(high):
            x = 1.3 * low + 1e-3
        elif low < 0.0:
            x, back = (1.0 - back) * high if high > 1e-9 else 0.0, min(4.0 * back, _FAR)
        else:
            x = 0.5 * (low + high)
            if math.isfinite(at_high) and math.isfinite(at_low):
                x = low + (high - low) * (at_low - target) / (at_low - at_high)
                nudge = 0.005 * rtol * high * 2.0 ** abs(streak)  # towards the end that stays
                x = min(max(x + math.copysign(nudge, streak), low + nudge), high - nudge)
                x = x if low < x < high else 0.5 * (low + high)
    return low, high


Rows = NDArray[np.int64]

SHARED = 2  # finest level


@dataclass(frozen=True)
class Rounded:
    """The steps of one person.

    Attributes:
        worse: parameter values on the side of more privacy loss, shape (n,).
        better: values on the other side, nan where a step is left out, shape (n,).
        counts: steps between the two, shape (n,).
    """

    worse: Floats
    better: Floats
    counts: Rows


def of_counts(grid: Grid, counts: NDArray[np.integer]) -> Rounded:
    """Read a row of the ledger: every step between the knots of its bucket."""
    used = np.flatnonzero(counts)
    knots = np.append(grid.knots, np.nan)
    return Rounded(knots[used], knots[used + 1], counts[used].astype(np.int64))


def of_steps(
    grid: Grid, values: Floats, counts: Rows, price: Floats, allowed: float, most: int
) -> Rounded:
    """Round the steps of one person.

    Args:
        grid: the grid of the ledger.
        values: parameters of the steps that touched the person, shape (steps,).
        counts: how often each was taken, shape (steps,).
        price: what rounding a step across each bucket adds to K, shape (buckets,); nan where it
            is not known.
        allowed: what rounding may add in all.
        most: how many steps may stay as they are.
    """
    position = np.clip(grid.position(values), 0.0, grid.buckets)
    cost = np.nan_to_num(price, nan=np.inf)[np.minimum(position.astype(np.int64), price.size - 1)]
    with np.errstate(divide="ignore"):
        level = np.log(cost * counts * (values.size / allowed)) / np.log(4.0)
    fine = 4.0 ** np.clip(np.ceil(level), 0.0, SHARED)
    outward = 1.0 if grid.best > grid.worst else -1.0
    index = np.floor(position * fine)
    # rounding of the position must not take the step to the wrong side
    index -= (outward * (grid.values(index / fine) - values) > 0.0) & (index > 0.0)
    worse, better = grid.values(index / fine), grid.values((index + 1.0) / fine)
    better[(index + 1.0 > grid.buckets * fine) | (outward * (better - values) < 0.0)] = np.nan
    alone = np.argsort(-level, kind="stable")[:most]
    alone = alone[level[alone] > SHARED]
    worse[alone] = better[alone] = values[alone]
    pairs, place = np.unique(np.stack([worse, better]), axis=1, return_inverse=True)
    total = np.bincount(place.ravel(), weights=counts, minlength=pairs.shape[1])
    return Rounded(pairs[0], pairs[1], total.astype(np.int64))


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
        reading = "splines" if self._grid.splines else "worse"
        first, found, _ = self._evaluator.first(ledger, query, rows, reading)
        self._tilts, self._saddle = self._evaluator.tilts(ledger.span(rows)), found.saddle
        self._epsilon = first.upper.copy() if query.inverse else found.start
        self._chernoff = np.log(np.maximum(first.upper, 1e-300))
        self._k = ledger.rows(rows) @ self._tilts.columns(reading)[0]
        self._back = self._opposite.tilts(ledger.span(rows))
        self._k_back = ledger.rows(rows) @ self._back.columns(reading)[0]

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
            return of_counts(self._grid, ledger.totals[rows[i]])
        values, counts = steps
        own = values[:, i] != self._members.untouched
        k = self._tilts.k[: self._grid.buckets + 1, 0, int(self._saddle[i])]
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
        cells = discretise.Cells.cut(law, offset, step, begin, count)
        return discretise.dominating(cells, tails), discretise.dominated(cells, self._c)

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
