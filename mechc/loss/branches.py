"""The monotone branches of a bound kernel: inverse loss, events of losses, masses of cells.

In: a KernelSource. Out: for any loss l the outputs x with L(x) = l, so that events {L > l} become
intervals of x, on which densities are integrated without cancellation. The masses of cells between
increasing losses are found on each branch by a Gauss rule, so that those far out in a tail keep
their relative accuracy. Whenever laws are bound, what a kernel says of its branches is held against
its densities (`require_consistent`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import NumericError, VerificationError
from mechc.loss.bound_kernel import Course, KernelSource, inside
from mechc.loss.moments import log_total
from mechc.loss.quadrature import Quadrature, covering, of_mass
from mechc.loss.quadrature.rule import (
    ORDER,
    WEIGHTS,
    log_densities,
    loss_jitter,
    losses,
    losses_moved,
    nearby,
    nodes,
)
from mechc.numeric.allowance import DENSITY, apart, spend
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

HALVINGS = 200  # turns of false position and halving at the most
SECTIONS = 120  # golden ones, to 1e-25 of a bracket: no two doubles are left in it
MOST_EXTREMA = 1000  # turns of a loss; more are its rounding
SOLVED = 20.0  # losses that an inverse costs which has to be iterated
LEAST = 1e-290  # distance from an end that is told from none
MANY_KINKS = 64  # crossings between nodes beyond which they are the chatter of a flat loss
LOG_ULPS = 8.0  # of the logs of both densities and of epsilon, that a loss may be off
REACH = np.exp2(np.arange(0.0, 1024.0))  # how far beyond panels losses are followed
NOWHERE = 1e9  # minus the log of a density that no answer tells from nothing
HUGE = 1e300  # logs of densities there are sums that do not overflow
NEXT = 1e-6  # of 1 + |epsilon|: how close a largest loss is that rounding may have put below it
BESIDE = 16 * EPS  # of an output: how far beside it its loss must have been passed
BACKWARDS = 1e-12  # of |loss| and of its range, a step back that no monotone loss takes
HALVED = 4  # every how many steps of false position is a halving
CONSISTENT = 2.0**-34  # of 1 + |log p| + |log q|: formulas of the loss keep far more
PLACES = np.array([0.2, 0.5, 0.8])  # of the nodes of a branch, where its inverse is tried


@dataclass(frozen=True)
class Branch:
    """An interval of outputs on which the loss is monotone, perhaps level but for rounding.

    Attributes:
        lo, hi: its ends, or how far mass reaches.
        loss_lo, loss_hi: losses at the ends.
        inverse: index for the kernel's `loss_inverse_many`, or -1 for bisection.
    """

    lo: float
    hi: float
    loss_lo: float
    loss_hi: float
    inverse: int

    @property
    def increasing(self) -> bool:
        """The loss grows with x."""
        return self.loss_hi > self.loss_lo

    @classmethod
    def whole(cls, row: Floats) -> Branch:
        """A row of the kernel's table, up to its ends; a limit that is open counts as infinite."""
        lo, hi, sign, *limits, index = row.tolist()
        left, right = (
            side * sign * math.inf if math.isnan(limit) else limit
            for side, limit in zip((-1.0, 1.0), limits, strict=True)
        )
        return cls(lo, hi, left, right, int(index))


def branches_of(source: KernelSource, tilt_lo: float = -1.0, tilt_hi: float = 0.0) -> list[Branch]:
    """Return the monotone branches over the panels that carry mass for the tilts given.

    Raises:
        NumericError: at an end of one neither the kernel nor its table knows a loss, so that no
            loss could be told to lie on it.
    """
    if not source.continuous:
        return []
    panels = source.cover(tilt_lo, tilt_hi)
    out: list[Branch] = []
    for index, row in enumerate(source.rows):
        mine = panels.region == index
        if not mine.any():
            continue
        lo, hi = float(panels.lo[mine].min()), float(panels.hi[mine].max())
        split = row[2] != protocol.UNSPLIT
        turns = [] if split else _followed(source, index, panels).turns
        ends = [lo, *(turn for turn in turns if lo < turn < hi), hi]
        first, last = np.array(ends[:-1]), np.array(ends[1:])
        just = np.stack([np.nextafter(first, last), np.nextafter(last, first)], axis=1)
        inner = losses_at(source, just.ravel())  # inside both ends of consecutive intervals
        for i in range(len(ends) - 1):
            a = _limit(row[3], ends[i], (row[0], lo if split else row[0]), inner[2 * i])
            b = _limit(row[4], ends[i + 1], (row[1], hi if split else row[1]), inner[2 * i + 1])
            if math.isnan(a) or math.isnan(b):
                where = f"an end of ({ends[i]:g}, {ends[i + 1]:g})"
                raise NumericError(f"{source.label}: no loss is known at {where}")
            # level to the last bit or not, the outputs have their mass
            out.append(Branch(ends[i], ends[i + 1], a, b, int(row[5]) if split else -1))
    return out


def _limit(limit: float, at: float, outermost: tuple[float, float], inner: float) -> float:
    """The loss at an end: the declared limit at that of a branch, or where doubles give no loss."""
    # `outermost` are the branch's end and, where the loss is proved to go on to its limit, that of
    # its panels.
    if math.isnan(inner) and at in outermost:
        return float(limit)
    declared = math.isfinite(limit) or not math.isfinite(inner)
    return float(limit) if at == outermost[0] and declared else float(inner)


def losses_at(source: KernelSource, x: Floats) -> Floats:
    """Return the loss at outputs x."""
    return losses(source.kernel, source.theta, x)


def extrema(
    source: KernelSource, x: Floats, loss: Floats, noise: Floats | float = 0.0
) -> list[float]:
    """Return interior extrema of the loss, by golden section where its increments change sign.

    Increments below `noise`, one for each output, do not count.

    Raises:
        NumericError: so many that they must be the rounding of losses all but equal.
    """
    least = np.broadcast_to(noise, loss.shape)
    step = np.diff(loss)
    step = np.where(np.abs(step) > np.maximum(least[1:], least[:-1]), np.sign(step), 0.0)
    moving = np.flatnonzero(step)  # two nodes at equal distance from an extremum look level
    turns = np.flatnonzero(step[moving[1:]] * step[moving[:-1]] < 0)
    if turns.size > MOST_EXTREMA:
        raise NumericError(f"{source.label}: the loss seems to turn {turns.size} times")
    before, after = moving[turns], moving[turns + 1]
    a, b, sign = x[before], x[after + 1], step[before]
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(SECTIONS if turns.size else 0):
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        lower, upper = np.split(losses_at(source, np.concatenate([c, d])), 2)
        left = sign * lower > sign * upper
        a, b = np.where(left, a, c), np.where(left, d, b)
    return sorted({*(0.5 * (a + b)).tolist()})  # brackets of turns at neighbouring nodes overlap


def between_modes(source: KernelSource, row: Floats) -> tuple[Floats, Floats]:
    """Outputs of a branch that resolve p and q, if not their ratio, and the losses there."""
    parts = [of_mass(source.kernel, source.theta, row[None, :2], density) for density in "pq"]
    x = np.unique(np.concatenate([part.x.ravel() for part in parts]))
    loss = losses_at(source, x)
    seen = np.isfinite(loss)
    return x[seen], loss[seen]


def inverse(source: KernelSource, branch: Branch, loss: Floats) -> Floats:
    """Return x on the branch with L(x) = loss; losses outside its range give the nearer end.

    Raises:
        VerificationError: inverses of this law, asked for the first time, find other outputs.
    """
    if source.untried:
        with apart():
            _hold_inverses(source.lean())
        source.untried.clear()
    loss = np.ascontiguousarray(np.atleast_1d(loss), np.float64)
    low, high = min(branch.loss_lo, branch.loss_hi), max(branch.loss_lo, branch.loss_hi)
    inside = (loss > low) & (loss < high)
    first, last = (branch.lo, branch.hi) if branch.increasing else (branch.hi, branch.lo)
    x = np.where(loss <= low, first, last).astype(np.float64)
    if inside.any():
        wanted = np.ascontiguousarray(loss[inside])
        found = np.empty(wanted.size)
        good = np.zeros(wanted.size, np.bool_)
        # what a kernel has to iterate for is solved for here, without compiling its loop
        closed = branch.inverse >= 0 and not hasattr(source.kernel, "solve_loss")
        spend((1.0 if closed else SOLVED) * DENSITY * wanted.size)
        if closed:
            source.kernel.loss_inverse_many(branch.inverse, wanted, source.theta, found)
            good = _round_trip(source, found, wanted) & (branch.lo <= found) & (found <= branch.hi)
        if not good.all():
            found[~good] = _bisect(source, branch, wanted[~good])
        x[inside] = np.clip(found, branch.lo, branch.hi)
    return x


def _round_trip(source: KernelSource, x: Floats, loss: Floats) -> NDArray[np.bool_]:
    """Which x really have the loss asked for: a closed inverse can lose its digits at the ends."""
    # Next to a loss of zero none has it to a share of itself; doubles close by are on both sides.
    with np.errstate(invalid="ignore"):
        back = losses_at(source, x)
        near: NDArray[np.bool_] = np.abs(back - loss) <= 1e-12 * (np.abs(loss) + np.abs(back))
        near &= np.isfinite(x)
        far = (np.isfinite(x) & ~near).nonzero()[0]
        if far.size:
            sides = x[far] * (1.0 + np.array([[-BESIDE], [BESIDE]]))
            before, after = losses_at(source, sides.ravel()).reshape(2, -1) - loss[far]
            near[far] = np.sign(before) * np.sign(after) <= 0.0
    return near


def _bisect(source: KernelSource, branch: Branch, loss: Floats) -> Floats:
    """Solve L(x) = loss by false position (Illinois), halving now and then."""
    # Between the ends of panels, and beyond them between points in geometric distance.
    ends, edge = np.array([branch.lo, branch.hi]), np.unique(source.panels.lo)
    edge = edge[(branch.lo < edge) & (edge < branch.hi)]
    edge = edge if edge.size else np.array([inside(branch.lo, branch.hi)])
    sign, (below, beyond) = 1.0 if branch.increasing else -1.0, _outwards(ends, edge)
    range_ = abs(branch.loss_hi - branch.loss_lo)
    edge = np.concatenate(
        [
            ends[:1],
            _monotone(source, below[::-1], edge[0], -sign, range_)[::-1],
            edge,
            _monotone(source, beyond, edge[-1], sign, range_),
            ends[1:],
        ]
    )
    edge = edge[np.isfinite(edge)]
    at = sign * losses_at(source, edge)
    if edge[0] == branch.lo:
        at[0] = sign * branch.loss_lo
    if edge[-1] == branch.hi:
        at[-1] = sign * branch.loss_hi
    edge, at = edge[~np.isnan(at)], np.maximum.accumulate(at[~np.isnan(at)])
    if edge.size < 2:
        raise NumericError(f"{source.label}: doubles do not hold its losses")
    goal = sign * loss
    right = np.clip(np.searchsorted(at, goal), 1, edge.size - 1)
    a, b, fa, fb = edge[right - 1], edge[right], at[right - 1] - goal, at[right] - goal
    out = _solved(source, (a, b), (fa, fb), goal, np.full(loss.size, sign))
    beyond = np.where(goal >= at[-1], branch.hi, out)
    return np.asarray(np.where(goal <= at[0], branch.lo, beyond), np.float64)


def _solved(
    source: KernelSource, ends: tuple[Floats, Floats], at: tuple[Floats, Floats], goal: Floats,
    sign: Floats,
) -> Floats:  # fmt: skip
    """Solve sign L(x) = goal between two ends, from what exceeds the goal there, minus and plus."""
    (a, b), (fa, fb) = ends, at
    out = 0.5 * a + 0.5 * b
    live, side = np.arange(goal.size), np.zeros(goal.size)
    for turn in range(HALVINGS if goal.size else 0):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            x = b - fb * ((b - a) / (fb - fa))
            x = np.where((a < x) & (x < b) & (turn % HALVED > 0), x, 0.5 * a + 0.5 * b)
        f = sign * losses_at(source, x) - goal
        now = np.sign(f)
        again = np.where(now == side, 0.5, 1.0)  # an end kept twice counts half
        a, fa = np.where(f > 0, a, x), np.where(f > 0, fa * again, f)
        b, fb = np.where(f > 0, x, b), np.where(f > 0, f, fb * again)
        out[live] = x
        far = (b - a > 4e-16 * np.maximum(np.abs(a), np.abs(b))) & (
            np.abs(f) > 4e-16 * (np.abs(goal) + np.abs(goal + f))
        )
        if not far.any():
            break
        live, side, goal, sign = live[far], now[far], goal[far], sign[far]
        a, b, fa, fb = a[far], b[far], fa[far], fb[far]
    return out


def _monotone(source: KernelSource, x: Floats, start: float, sign: float, range_: float) -> Floats:
    """Outputs from `start` outwards as far as losses grow; farther out logs may cancel in them."""
    at = sign * losses_at(source, np.append(start, x))
    with np.errstate(invalid="ignore"):
        back = np.diff(at) < -BACKWARDS * (min(1.0, range_) + np.abs(at[:-1]))  # an overflow too
    lost = (back | np.isnan(at[1:])).nonzero()[0]
    return x[: lost[0]] if lost.size else x


def above(source: KernelSource, epsilon: float, reverse: bool) -> tuple[Floats, bool]:
    """Intervals of x on which L > epsilon (reverse: -L > epsilon), shape (n, 2).

    Inclusive of where the loss turns or ends and rounding may have put it below; and whether it may
    have, or put it above: no node may lie as close to such a top as outputs above epsilon do.
    """
    hidden = False
    sign = -1.0 if reverse else 1.0
    rows: list[tuple[float, float]] = []
    for index, row in enumerate(_closed(source)):
        if row[2] == protocol.UNSPLIT or np.isnan(row[3:5]).any():
            crossed, below = _crossed(source, index, sign * epsilon, reverse)
            rows, hidden = rows + crossed, hidden or below
            continue
        branch = Branch.whole(row)
        low, high = sorted((sign * branch.loss_lo, sign * branch.loss_hi))
        after, level = branch.increasing != reverse, epsilon
        if abs(high - epsilon) < NEXT * (1.0 + abs(high)):
            top = np.array([branch.hi if after else branch.lo])
            ulps = float(ulps_of_logs(source, top, np.array([high]))[0])
            level -= ulps if high <= epsilon else 0.0
            hidden = hidden or abs(high - epsilon) < ulps
        if low < level < high:
            cut = float(inverse(source, branch, np.array([sign * level]))[0])
            rows.append((cut, branch.hi) if after else (branch.lo, cut))
            hidden = hidden or rows[-1][0] >= rows[-1][1]  # rounded onto the top
        elif low >= level:
            rows.append((branch.lo, branch.hi))
    rows = [r for r in rows if r[1] > r[0]]
    return np.array(rows, np.float64).reshape(-1, 2), hidden


def _crossed(
    source: KernelSource, index: int, threshold: float, reverse: bool
) -> tuple[list[tuple[float, float]], bool]:
    """Where the loss is beyond a threshold on a branch that is not split, or has an open limit.

    And whether a turn of it is so little beyond, or below, that rounding may have put it there.
    """
    lo, hi = source.rows[index, :2].tolist()
    panels = source.cover(-1.0, 0.0)
    x, loss, noise, turns = _followed(source, index, panels)
    sign = -1.0 if reverse else 1.0
    gap = sign * (loss - threshold)
    # inclusive of what rounding may have put below: the payoff there is nothing, but for a kink
    # that panels must not step over
    beyond, turned = gap > -noise, (gap[1:] > 0.0) != (gap[:-1] > 0.0)
    for side in (x[:-1], x[1:]):  # far out, where nothing is, all is rounding
        turned &= (panels.lo.min() <= side) & (side <= panels.hi.max())
    first = np.flatnonzero(beyond & ~np.append(False, beyond[:-1]))
    last = np.flatnonzero(beyond & ~np.append(beyond[1:], False))

    hidden = bool((np.isin(x, turns) & (np.abs(gap) <= noise)).any())
    runs, levels = list[list[int]](), list[float]()
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        kinks, level = (a + np.flatnonzero(turned[a:b])).tolist(), threshold
        if gap[a : b + 1].max() <= 0.0:  # rounding alone may put them beyond
            kinks, level = [], threshold - sign * float(noise[a : b + 1].max())
        runs.append([a - 1, *(kinks if len(kinks) < MANY_KINKS else []), b])
        levels += [level] * len(runs[-1])
    after = np.array([i for run in runs for i in run], np.int64)
    cuts, inner = np.where(after < 0, lo, hi), (after >= 0) & (after < x.size - 1)
    cuts[inner] = _between(source, x, loss, after[inner], np.array(levels)[inner])
    found = iter(cuts.tolist())
    rows = [row for run in runs for row in pairwise([next(found) for _ in run])]
    return rows, hidden


def _between(
    source: KernelSource, x: Floats, loss: Floats, after: NDArray[np.int64], level: Floats
) -> Floats:
    """Where the loss has a level between samples and the next ones, else the nearer of both."""
    ends, at = np.array([x[after], x[after + 1]]), np.array([loss[after], loss[after + 1]]) - level
    out: Floats = np.where(np.abs(at[0]) <= np.abs(at[1]), *ends)
    crossed = np.sign(at[0]) * np.sign(at[1]) < 0.0
    sign, goal = np.sign(at[1, crossed]), level[crossed]
    (a, b), (fa, fb) = ends[:, crossed], sign * at[:, crossed]
    spend(SOLVED * DENSITY * goal.size)
    out[crossed] = _solved(source, (a, b), (fa, fb), sign * goal, sign)
    return out


def _followed(source: KernelSource, index: int, panels: Quadrature) -> Course:
    """What `_follow` finds, which every epsilon asks for, kept for the nodes of these panels."""
    nodes, found = source.followed.get(index, (None, None))
    if found is None or nodes is not panels.x:
        with apart():
            found = _follow(source, index, panels)
        source.followed[index] = panels.x, found
    return found


def _follow(source: KernelSource, index: int, panels: Quadrature) -> Course:
    """The loss on a branch, up to its ends.

    Panels end where mass is negligible for the tilts they cover, and a deep tail may lie outside:
    there the points are in geometric distance.
    """
    row = source.rows[index]
    inner = np.unique(panels.x[panels.region == index])
    inner = inner if inner.size else np.array([inside(*row[:2].tolist())])
    lo, hi = _outwards(row, inner)
    logs = [log_densities(source.kernel, source.theta, side).max(axis=0) for side in (lo, hi)]
    # where no density is anything its log hides the loss by its rounding
    x = np.concatenate([lo[logs[0] > -NOWHERE], inner, hi[logs[1] > -NOWHERE]])
    known = np.isfinite(loss := losses_at(source, x))
    x, loss = x[known], loss[known]
    if row[2] != protocol.UNSPLIT:
        return Course(x, loss, ulps_of_logs(source, x, loss), [])

    def rounding(x: Floats, loss: Floats) -> Floats:
        noise = ulps_of_logs(source, x, loss)
        for end in row[:2][np.isfinite(row[:2])]:  # next to it logs may cancel inside a density
            noise += LOG_ULPS * EPS * np.abs(np.log(np.maximum(np.abs(x - end), LEAST)))
        return noise

    turns = extrema(source, x, loss, rounding(x, loss))
    place = np.searchsorted(x, turns)
    x, loss = np.insert(x, place, turns), np.insert(loss, place, losses_at(source, np.array(turns)))
    return Course(x, loss, rounding(x, loss), turns)


def _outwards(row: Floats, inner: Floats) -> tuple[Floats, Floats]:
    """Outputs beyond the first and the last of `inner`, up to the ends of a branch."""
    sides = []
    for end, at, outward in ((row[0], inner[0], -1.0), (row[1], inner[-1], 1.0)):
        if math.isinf(end):
            with np.errstate(over="ignore"):
                points = at + outward * (max(float(np.ptp(inner)), abs(at)) or 1.0) * REACH
            points = points[np.isfinite(points)]
        else:
            points = end - (end - at) / REACH[1:]
        sides.append(np.unique(points[(outward * (points - at) > 0.0) & (points != end)]))
    return sides[0], sides[1]


def ulps_of_logs(source: KernelSource, x: Floats, loss: Floats) -> Floats:
    """What doubles may move losses by: ulps of the logs of both densities and of the loss."""
    size = 1.0 + np.minimum(np.abs(loss), HUGE)
    for log_f in log_densities(source.kernel, source.theta, x):
        size += np.where(np.isfinite(log_f), np.minimum(np.abs(log_f), HUGE), 0.0)
    return LOG_ULPS * EPS * size


def _closed(source: KernelSource) -> Floats:
    """The rows of branches; a limit that is open at a finite end is the loss next to it."""
    rows = source.rows.copy()
    for row in rows:
        for side in (0, 1):
            known = row[2] == protocol.UNSPLIT or not math.isnan(row[3 + side])
            if not known and math.isfinite(row[side]):
                inner = float(losses_at(source, np.nextafter(row[[side]], row[[1 - side]]))[0])
                row[3 + side] = inner if math.isfinite(inner) else math.nan
    return rows


def support_error(source: KernelSource) -> float:
    """How far rounding, and ulps of the parameters, may have moved an end of the finite losses."""
    error = 0.0
    for side, loss in enumerate(source.support):
        if not math.isfinite(loss):
            continue
        error = max(error, LOG_ULPS * EPS * (1.0 + abs(loss)))
        if source.atom_loss.size and source.atom_loss[-side] == loss:
            continue
        for index, k in np.argwhere(source.rows[:, 3:5] == loss):
            inner = source.panels.x[source.panels.region == index]
            if math.isfinite(source.rows[index, k]) or inner.size:
                error = max(error, _end_error(source, index, k))
    return error


def _end_error(source: KernelSource, index: int, k: int) -> float:
    """The same of an end of one branch; where no mass is near it, at the last output with one."""
    ends = source.rows[index, :2]
    inner = source.panels.x[source.panels.region == index].ravel()
    if math.isfinite(ends[k]):
        beside = np.nextafter(ends[[k]], ends[[1 - k]])
        inward = 2.0 * _end_moved(source, float(ends[k]))  # ulps of an end put it behind that
        if 0.0 < inward < 0.5 * (ends[1] - ends[0]):
            beside += math.copysign(inward, 0.5 - k)
        # next to 0 are doubles of few digits, whose rounding is none of the end's
        beside += np.copysign(LEAST, beside) if abs(beside[0]) < LEAST else 0.0
        if log_densities(source.kernel, source.theta, beside).max() < -NOWHERE:
            # nor is that of logs of densities which vanish there
            logs = log_densities(source.kernel, source.theta, inner)
            inner = inner[logs.max(axis=0) > -MOST_LOG]
            inner = inner if inner.size else beside
        else:
            inner = beside
    x = np.array([inner.max(initial=-np.inf) if k else inner.min(initial=np.inf)])
    at = losses_at(source, x)
    found = float(
        (ulps_of_logs(source, x, at) + losses_moved(source.kernel, source.theta, x, at))[0]
    )
    # of a loss that doubles do not have next to its end no digit is known
    return found if math.isfinite(at[0] + found) else float(abs(source.rows[index, 3 + k]))


def _end_moved(source: KernelSource, end: float) -> float:
    """How far ulps of the parameters move an end of branches."""
    ends, moved = np.asarray(source.kernel.branches(source.theta))[:, :2], 0.0
    for near in nearby(source.kernel, source.theta):
        others = np.asarray(source.kernel.branches(near))[:, :2]
        if others.shape == ends.shape:
            moved += float(np.abs(others[ends == end] - end).max(initial=0.0))
    return moved


def top_error(source: KernelSource, reverse: bool) -> float:
    """How far the largest loss may be off where a density takes it between the ends of outputs."""
    # ends at infinity have it in closed form, which is as good as its terms are few
    loss = source.support[0 if reverse else 1]
    atom = source.atom_loss.size and source.atom_loss[0 if reverse else -1] == loss
    if atom or not math.isfinite(loss):
        return 0.0
    places = ((source.rows[:, 3:5] == loss) & np.isfinite(source.rows[:, :2])).nonzero()
    return max(map(partial(_end_error, source), *places), default=0.0)


OF_PANEL = 1.0 / 200.0  # step of a difference, on which the loss is straight to some 1e-13


def density(source: KernelSource, loss: Floats, reverse: bool) -> Floats:
    """Density of the loss under P at `loss`: sum over branches of p(x) / |L'(x)| (I7).

    The slope comes from central differences of order six, inside the branch.
    """
    loss = np.ascontiguousarray(loss, np.float64)
    panels = source.cover(-1.0, 0.0)
    starts, widths = (v[np.argsort(panels.lo)] for v in (panels.lo, panels.hi - panels.lo))
    sign = -1.0 if reverse else 1.0
    out = np.zeros(loss.size)
    for branch in branches_of(source):
        low, high = min(branch.loss_lo, branch.loss_hi), max(branch.loss_lo, branch.loss_hi)
        inside = (sign * loss > low) & (sign * loss < high)
        if not inside.any():
            continue
        x = inverse(source, branch, sign * loss[inside])
        room = np.minimum(x - branch.lo, branch.hi - x)
        width = widths[np.maximum(np.searchsorted(starts, x, side="right") - 1, 0)]
        step = np.minimum(room / 4.0, OF_PANEL * width) + 1e-300
        slope = np.zeros(x.size)
        with np.errstate(invalid="ignore"):
            for m, weight in ((1, 0.75), (2, -0.15), (3, 1.0 / 60.0)):
                change = losses_at(source, x + m * step) - losses_at(source, x - m * step)
                slope += weight * change
        # next to an end, where the loss is infinite or doubles do not tell outputs apart
        slope[~(np.abs(slope) > 0.0)] = math.inf
        (log_f,) = log_densities(source.kernel, source.theta, x, "q" if reverse else "p")
        with np.errstate(divide="ignore", invalid="ignore"):
            out[inside] += np.exp(log_f) * step / np.abs(slope)
    return out


def following_error(source: KernelSource, tilt_lo: float, tilt_hi: float) -> float:
    """How far losses may lie beyond the edges of their cell, where turns are found by samples."""
    unsplit = np.flatnonzero(source.rows[:, 2] == protocol.UNSPLIT)
    if not source.continuous or not unsplit.size:
        return 0.0
    panels, worst = source.cover(tilt_lo, tilt_hi), 0.0
    for index in unsplit[np.isin(unsplit, panels.region)].tolist():
        x, loss, noise, turns = _followed(source, index, panels)
        finite = np.isfinite(loss)  # others are of a pole
        x, loss, noise = x[finite], loss[finite], noise[finite]
        # turns that rounding may have made are left out, however far such steps lead in all
        for v in np.split(loss, np.searchsorted(x, turns)):
            v = v if v.size < 2 or v[0] <= v[-1] else v[::-1]
            back = float((np.maximum.accumulate(v) - v).max(initial=0.0))
            worst = max(worst, back + 2.0 * float(noise.max()))
    return worst


BLOCK = 2**13  # intervals integrated at once: their nodes stay in the processor's cache


def cell_masses(
    source: KernelSource, edges: Floats, reverse: bool, tilt_lo: float, tilt_hi: float
) -> tuple[Floats, Floats]:
    """Masses of the continuous part in the cells (edges[i], edges[i+1]] under P and Q.

    Every cell is integrated on its own sub-intervals of x, cut at panel ends, so that masses far
    out in a tail keep their relative accuracy.
    """
    p, q = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    lo = source.panels.lo
    for branch in branches_of(source, tilt_lo, tilt_hi):
        first, met = _met(branch, edges, reverse)
        if met.size < 2:
            continue
        cuts = inverse(source, branch, -met if reverse else met)
        cuts = cuts if branch.increasing != reverse else cuts[::-1]
        inner = lo[(lo > branch.lo) & (lo < branch.hi)]
        ends = np.unique(np.concatenate([cuts, inner, [branch.lo, branch.hi]]))
        cell = np.searchsorted(np.maximum.accumulate(cuts), ends[:-1], side="right") - 1
        cell = cell if branch.increasing != reverse else met.size - 2 - cell
        keep = (cell >= 0) & (cell < met.size - 1)
        masses = _interval_masses(source, ends[:-1][keep], ends[1:][keep])
        for out, mass in zip((p, q), masses, strict=True):
            out[first : first + met.size - 1] += np.bincount(
                cell[keep], weights=mass, minlength=met.size - 1
            )
    return (q, p) if reverse else (p, q)


def _met(branch: Branch, edges: Floats, reverse: bool) -> tuple[int, Floats]:
    """Return the first of the cells that the branch's losses lie in, and the edges of them all."""
    ends = (branch.loss_lo, branch.loss_hi)
    low, high = sorted(-end for end in ends) if reverse else sorted(ends)
    first = max(int(np.searchsorted(edges, low, side="left")) - 1, 0)
    last = int(np.searchsorted(edges, high, side="right")) + 1
    return first, edges[first:last]


def _interval_masses(source: KernelSource, lo: Floats, hi: Floats) -> Floats:
    """Integrate p and q over intervals that are parts of panels."""
    half = 0.5 * (hi - lo)
    masses = np.empty((2, half.size))
    for first in range(0, half.size, BLOCK):
        some = slice(first, first + BLOCK)
        f = log_densities(source.kernel, source.theta, nodes(lo[some], hi[some]).ravel())
        f[f == np.inf] = -np.inf  # at a pole itself, which `unresolved` counts
        masses[:, some] = (np.exp(f, out=f).reshape(2, -1, ORDER) @ WEIGHTS) * half[some]
    return masses


def _hold_inverses(source: KernelSource) -> None:
    """Losses between those of two nodes have their outputs between the two."""
    source.untried, panels = set(), source.panels
    region, x, loss = panels.region.repeat(ORDER), panels.x.ravel(), panels.loss.ravel()
    for index, row in enumerate(source.rows):
        mine = ((region == index) & np.isfinite(loss)).nonzero()[0]
        if row[2] not in (protocol.INCREASING, protocol.DECREASING) or mine.size < 2:
            continue
        at = mine[(PLACES * (mine.size - 1)).astype(np.int64)]
        after = at + 1
        level = 0.5 * (loss[at] + loss[after])
        moved = np.abs(loss[after] - loss[at]) > CONSISTENT * (1.0 + np.abs(level))
        if moved.any():
            found = inverse(source, Branch.whole(row), level[moved])
            if not ((x[at[moved]] <= found) & (found <= x[after[moved]])).all():
                raise contradiction(source, f"a loss near {level[moved][0]!r} is found elsewhere")


def contradiction(source: KernelSource, what: str) -> VerificationError:
    """Return the error of a kernel that says of a law what cannot be."""
    return VerificationError(
        f"{source.label}: branches and densities of the kernel contradict each other ({what}); "
        "no answer is given. This is an error of mechc: please report the declaration and its "
        "parameters"
    )


DIGITS = 16.0  # times jumps at ulps of parameters by which a right loss without digits may be off
BESIDES = np.arange(1.0, 33.0) / 8.0  # of their width: where losses are held beside panels
HALVES = -np.expm1(-math.log(2.0) * np.arange(1.0, 33.0))  # of the way to an end, next to it
QUARTERS = (-0.25, -0.75)  # tilts that change places when a pair is reversed
NO_BRANCH = np.zeros((1, 3))  # kind and limits where no branch is known
MIRRORED = 1e-8  # of log moments of laws that are equal, found by quadrature


CONTRADICTIONS = (
    "the loss is not log p - log q",
    "the loss does not move in the direction of its branch",
    "the loss passes the limits of its branch",
)


@np.errstate(over="ignore", invalid="ignore")  # where a density is next to nothing
def require_consistent(sources: Sequence[KernelSource]) -> None:
    """Hold what a kernel says of its branches against its densities, whenever laws are bound.

    Branches answer one step, nodes answer many, so that a sign that a compilation got wrong at some
    parameters would make the two contradict each other. Held are, at every node: the loss against
    the logs of the densities; the direction of a branch between neighbours; the limits at its ends;
    and, as soon as a question needs inverses, at a few losses, that the inverse lies between the
    nodes around it. Then {L > epsilon} holds the same nodes by branches as by losses, and the
    hockey-stick sums agree in both directions. Masses are summed in `KernelSource` itself.

    Raises:
        VerificationError: they contradict each other; no answer of this law can be trusted.
        NumericError: the loss of a right formula has lost its digits.
    """
    # point masses are answered by themselves, one direction for both
    smooth = [source for source in sources if source.continuous]
    parts, regions = [], []
    for source in smooth:
        panels = source.panels
        x, region = panels.x, panels.region
        regions.append(region.repeat(ORDER))
        parts.append([x.ravel()])
        # deep tails, where one of two formulas alone may have lost its digits
        starts = region.searchsorted(np.arange(len(source.rows) + 1)).tolist()
        for row, a, b in zip(source.rows, starts, starts[1:], strict=False):
            parts[-1].append(_beside(row, x[a:b]))
        source.untried = {"inverses"}
    if smooth:
        _hold_formulas(smooth, parts, regions)
    for source in sources:
        _hold_symmetry(source)


@np.errstate(over="ignore", invalid="ignore")
def formulas_agree(source: KernelSource) -> bool:
    """Whether the loss is log p - log q wherever its densities are found to be something."""
    try:
        inner = [between_modes(source, row)[0] for row in source.rows]
    except NumericError:
        return True
    if not inner:
        return True
    beside = [_beside(row, x) for row, x in zip(source.rows, inner, strict=True)]
    try:
        _hold_formulas([source], [inner + beside], [np.empty(0, np.int64)])
    except (NumericError, VerificationError):
        return False
    return True


def _hold_formulas(
    sources: Sequence[KernelSource], parts: list[list[Floats]], regions: list[NDArray[np.int64]]
) -> None:
    """Hold losses against log densities at outputs; the first are in order on known branches."""
    x = np.concatenate([some for own in parts for some in own])
    loss, (log_p, log_q) = np.empty(x.size), np.empty((2, x.size))
    region = np.zeros(x.size, np.int64) - 1
    a = branch = 0
    for source, own, known in zip(sources, parts, regions, strict=True):
        b = a + sum([some.size for some in own])
        losses(source.kernel, source.theta, x[a:b], loss[a:b])
        log_p[a:b], log_q[a:b] = log_densities(source.kernel, source.theta, x[a:b])
        region[a : a + known.size] = known + branch
        a, branch = b, branch + len(source.rows)
    off = np.abs(log_p - log_q - loss)
    seen = (np.maximum(log_p, log_q) > -MOST_LOG) & np.isfinite(loss)
    if not np.logical_and.reduce(seen):
        x, loss, log_p, log_q, off = [v[seen] for v in (x, loss, log_p, log_q, off)]
        region = region[seen]
    rows = np.concatenate([*[source.rows[:, 2:5] for source in sources], NO_BRANCH])
    kind, left, right = rows.take(region, axis=0).T
    size = 1.0 + np.abs(log_p) + np.abs(log_q)
    # where one of the two has no mass, as of exp(-1/(x - a)): a log is as exact as x - a is
    pole = (np.minimum(log_p, log_q) < -MOST_LOG) * (DIGITS * EPS * size)
    slack = np.maximum(CONSISTENT, pole) * size
    apart = np.isfinite(slack) & ~(off <= slack)
    if len(sources) == 1 and np.logical_or.reduce(apart):
        # a formula such as 1 - x^2 is as exact next to its zero as x is, whatever the loss's is
        logs, source = np.stack([log_p, log_q])[:, apart], sources[0]
        near = x[apart] * (1.0 + DIGITS * EPS * np.array([[-1.0], [1.0]]))
        moved = log_densities(source.kernel, source.theta, near.ravel()).reshape(2, *near.shape)
        moved = np.abs(moved - logs[:, None])
        moved = np.where(np.isfinite(moved), moved, 0.0).max(axis=1).sum(axis=0)
        apart[apart] = ~(off[apart] <= slack[apart] + moved)
    monotone, falls = np.abs(kind) == 1.0, np.zeros(x.size, np.bool_)
    falls[1:] = kind[1:] * (loss[1:] - loss[:-1]) < -(slack[1:] + slack[:-1])
    falls[1:] &= region[1:] == region[:-1]
    beyond = (kind * (left - loss) > slack) | (kind * (loss - right) > slack)
    for what, found in zip(
        CONTRADICTIONS, (apart, falls & monotone, beyond & monotone), strict=True
    ):
        if not np.logical_or.reduce(found):
            continue
        if len(sources) > 1:
            for one, own, known in zip(sources, parts, regions, strict=True):
                _hold_formulas([one], [own], [known])
            return
        source = sources[0]
        worst = int(np.where(np.isfinite(off), off, 0.0).argmax())
        lost = DIGITS * loss_jitter(source.kernel, source.theta, float(x[worst]))
        at = float(x[found.argmax()])
        if what is CONTRADICTIONS[0] and off[worst] <= lost:
            raise NumericError(f"{source.label}: the loss has lost its digits at {at!r}")
        raise contradiction(source, f"{what} at {at!r}")


def _beside(row: Floats, inner: Floats) -> Floats:
    """Outputs of a branch on both sides of some, as far as densities are something."""
    if not inner.size:
        return inner.ravel()
    ends = row[:2].tolist()
    low, high = np.minimum.reduce(inner, axis=None), np.maximum.reduce(inner, axis=None)
    x = []
    for end, at in zip(ends, (low, high), strict=True):
        if math.isfinite(end):
            x.append(at + (end - at) * HALVES)
        else:  # far outputs of wide noise are no doubles, and not kept
            x.append(at + math.copysign(high - low, end) * BESIDES)
    found = np.concatenate(x)
    kept: Floats = found[(ends[0] < found) & (found < ends[1])]
    return kept


def _hold_symmetry(source: KernelSource) -> None:
    """Where the reversed pair is said to have the same law, K(-1/4) = K(-3/4)."""
    panels = source.panels if source.continuous else None
    if not source.symmetric or (panels and panels.apart) or _is_mirrored(source, panels):
        return
    # powers of a distance that are whole at 0 and -1 are not between, and want finer panels there
    if not panels or not _is_mirrored(source, covering([panels], -1.0, 0.0, *QUARTERS)[0]):
        raise contradiction(source, "the pair is not the mirror image of its reversal")


def _is_mirrored(source: KernelSource, panels: Quadrature | None) -> bool:
    loss, log_mass = source.atom_loss, source.atom_log_masses(False)
    if panels:
        loss = np.append(panels.loss.ravel(), loss)
        log_mass = np.append(panels.log_weight, log_mass)
    with np.errstate(invalid="ignore"):
        one, other = (log_total(log_mass + t * loss) for t in QUARTERS)
    allowed = MIRRORED + source.loss_error + source.mass_error + 32.0 * EPS * abs(one)
    allowed += sum(map(source.unresolved, QUARTERS)) if panels else 0.0
    return one == other or abs(one - other) <= allowed
