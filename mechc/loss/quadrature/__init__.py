"""Adaptive quadrature of a kernel's densities, accurate for a whole strip of exponential tilts.

In: an emitted kernel, its parameters, the tilts z and the frequency y that a query needs.
Out: Gauss-Legendre nodes x with log p(x), the loss L(x) and its slope, such that the integrals of
p(x) exp(z L(x)) over every branch are resolved for all real tilts of an interval, and, in a copy,
those of p(x) exp((c + iy) L(x)) on one contour Re z = c for all |y| <= frequency.

A panel is split while the top Legendre coefficients of the tilted integrand are not negligible
against the whole integral, and a branch is extended outwards while its last panel still matters;
both tests are relative to the tilted total, so that a tail is resolved exactly when some tilt makes
it count. What is tested is in `resolution`, what is done about it in `panels`; kernels are called
from here alone.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.quadrature import panels, resolution
from mechc.loss.quadrature.panels import Waves, first_edges
from mechc.loss.quadrature.resolution import SILENT, Edges, Far, Near, Panels, joined
from mechc.loss.quadrature.rule import (
    DERIVATIVE,
    NEARBY,
    ORDER,
    WEIGHTS,
    finite_losses,
    losses,
    misplaced,
    nodes,
    off_lines,
)
from mechc.numeric.allowance import DENSITY, spend
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats, Integers, Kernel

MASS_GOAL = 1e-10  # top Legendre coefficient of the tilted density, as a share of its total
GOAL = 1e-17  # estimated error of a panel for the sums that count, as a share of the sum
# of the density and of the sums; then those of a law of which the mass is asked for as well
GOALS, MASS_GOALS = np.array([MASS_GOAL, GOAL]), np.array([1e-14, GOAL])
OVERLAP = 0.15  # least affinity of the tilted laws at neighbouring test tilts
LONG, BETWEEN = 4.0, np.array([0.35, 0.65, 0.85])  # new tilts so far out; shares tried at once
MOST_CUTS = 4.0  # of an interval between tilts at once
TURN = 9.0  # radians of the wave that a panel may span before it is cut without further tests
ROUNDS = 400  # of cutting and growing in one settling
MAX_WORK = 2_000_000  # panels, summed over the rounds of one settling
FARTHEST = -1e5  # log M(-1/2) of laws 900 standard deviations apart; no tilts between are resolved
JUDGED, SEARCHED = 2.5, 1.0  # work for a node at one tilt, when it is new and at the end
SUMMED = 10.0  # the same for a panel, in every round
AMID = ORDER // 2  # node of a panel beside which its loss is held against a straight line
NEAR_END = 2.0  # widths of a panel from an end up to which it is one of those next to it
WIDE = 2.0**-6  # least share of its place that its panel is wide where parameters move too
MAX_TESTS = 4_000_000  # panels times tilts that are judged at once
TOGETHER = 64  # laws that are refined together: their panels stay in the processor's cache


class Quadrature:
    """Panels of one kernel at one parameter vector; more are made in a copy.

    Nothing changes panels that somebody holds: arrays are replaced, never written to, and only in
    a copy that nobody has seen. Several threads may work on the same panels, and what failed or
    was interrupted leaves nothing half done.

    Attributes:
        region: index of the branch each panel belongs to, shape (panels,); the panels are sorted
            by branch, then by place.
        lo, hi: ends of the panels, shape (panels,).
        x, log_p, loss: nodes and values there, shape (panels, 16).
        log_weight, spacing: log weights and lengths on the loss axis of all nodes.
        tilts: the interval of real tilts covered so far.
        logs: log M at the tilts tested so far.
        log_masses: logs of the masses of P and of Q when tilts were first covered.
        apart: P and Q are so far apart that tilts between -1 and 0 are not resolved, only these.
        error: estimated error of M(z) as a share of M(Re z) for tilts covered, see
            `resolution.judge`; inf as long as nothing is settled. Where waves are resolved: on
            their contour.
        latest: the same at the tilts that were tested last.
        points: those of these that were asked for.
    """

    def __init__(self, kernel: Kernel, theta: Floats, rows: Floats, mass_of: str) -> None:
        """Be a quadrature without panels, see `laid`."""
        self._kernel = kernel
        self._theta = theta
        self._rows = np.ascontiguousarray(rows, np.float64)
        self._mass_of = mass_of
        self.tilts = (0.0, 0.0)
        self.logs: dict[float, float] = {}
        self.log_masses = -math.inf, -math.inf
        self.apart = False
        self.error = self.latest = math.inf
        self.points: tuple[float, ...] = ()
        self._far: Far | None = None
        self._near: Near | None = None
        self._panels = NO_PANELS
        # to where parameters are moved to see rounding; beside a weight of one another tail begins
        about = zip(theta.tolist(), kernel.PARAMETERS, strict=False)
        self._moved = NEARBY * theta * [not row[5] and value < row[2] for value, row in about]

    def copied(self) -> Quadrature:
        """Return a copy of references, as `copy` does, without its protocol, which costs more."""
        other = object.__new__(Quadrature)
        other.__dict__.update(self.__dict__)
        return other

    def _hold(self, panels: Panels, log_weight: Floats) -> None:
        """Take panels for one's own, in a copy of one's own."""
        self._panels, self.log_weight = panels, log_weight
        self.region, self.lo, self.hi, self.x, self.log_p, self.loss = panels
        # of each law by itself: how a product of matrices is rounded depends on its size
        self.spacing: Floats = (np.abs(self.loss @ DERIVATIVE.T) * WEIGHTS).ravel()
        self._noise: Floats | None = None  # of losses, beyond their ulps

    @SILENT
    def cut(self, parts: Integers) -> Quadrature:
        """Return a copy in which every panel is cut into so many.

        Raises:
            NumericError: these are too many.
        """
        return _Batch([self]).cut(parts)[0]

    def misplaced(self, log_mass: float) -> float:
        """Return the share of a mass, of P or the one law integrated, that rounded nodes move."""
        if log_mass == -math.inf:
            return 0.0
        return misplaced(self.x, np.exp(np.minimum(self.log_p - log_mass, MOST_LOG)))

    def moved_by_rounding(self, ends: list[float]) -> float:
        """Return how far an ulp of the output moves the loss, or the share if that is above one.

        It matters for a peak that is few doubles wide. Ends count their own.
        """
        near = np.zeros(self.lo.size, bool)
        for place in ends:
            gap = np.maximum(np.maximum(self.lo - place, place - self.hi), 0.0)
            near |= gap <= NEAR_END * (self.hi - self.lo)
        x, loss = self.x[~near], np.where(self.log_p > -np.inf, self.loss, np.nan)[~near]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = np.abs(loss[:, 1:] - loss[:, :-1]) / (x[:, 1:] - x[:, :-1])
            moved = EPS * np.maximum(np.abs(x[:, 1:]), np.abs(x[:, :-1])) * slope
            moved /= np.maximum(np.maximum(np.abs(loss[:, 1:]), np.abs(loss[:, :-1])), 1.0)
        return float(np.fmax.reduce(moved, axis=None, initial=0.0))

    def losses_at_ends(self) -> Floats:
        """Losses at both ends of every panel, nan where the kernel has none, shape (panels, 2)."""
        ends = np.concatenate([self.lo, self.hi])
        found: Floats = losses(self._kernel, self._theta, ends).reshape(2, -1).T
        return found

    def falls_short(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For every panel, whether outputs of its branch lie below it, and above it."""
        ends = self._rows[self.region]
        return self.lo > ends[:, 0], self.hi < ends[:, 1]

    @SILENT
    def among(self, panels: NDArray[np.bool_]) -> Quadrature:
        """Return a copy with these panels alone, which is not to be refined for other tilts."""
        other = self.copied()
        region, lo, hi, *values = self._panels
        other.logs = {}
        at_nodes = (column[panels] for column in values)
        _Batch([other]).hold(Panels(region[panels], lo[panels], hi[panels], *at_nodes), [other])
        return other


def laid(
    kernel: Kernel, thetas: Sequence[Floats], rows: Sequence[Floats], mass_of: str = ""
) -> list[Quadrature]:
    """Return first panels on the branches (lo, hi) of many parameter vectors; no adaptation yet.

    With `mass_of` "p" or "q" the integrand is that density alone and the loss is taken as 0: for
    plateaus and for outputs that only one of the two laws produces.

    Raises:
        NumericError: neither density was found anywhere on a branch.
    """
    each = zip(thetas, rows, strict=True)
    members = [Quadrature(kernel, theta, own, mass_of) for theta, own in each]
    for i in range(0, len(members), TOGETHER):
        _lay(members[i : i + TOGETHER])
    return members


def of_mass(kernel: Kernel, theta: Floats, rows: Floats, law: str) -> Quadrature:
    """Return panels that resolve the density of one law, "p" or "q", on branches.

    Raises:
        NumericError: they did not settle.
    """
    return covering(laid(kernel, [theta], [rows], law), 0.0, 0.0)[0]


@SILENT
def _lay(members: list[Quadrature]) -> None:
    """Lay the first panels; edges of branches with the same ends are found together."""
    batch, alike = _Batch(members), defaultdict(list)
    edges: dict[int, Floats] = {}
    for branch, (lo, hi) in enumerate(batch.rows[:, :2].tolist()):
        alike[lo, hi].append(branch)
    for (lo, hi), some in alike.items():
        thetas = np.array([members[bisect_right(batch.branches, b) - 1]._theta for b in some])
        edges.update(zip(some, first_edges(batch.kernel, thetas, lo, hi), strict=True))
    each = [edges[branch] for branch in range(len(batch.rows))]
    region = np.arange(len(each)).repeat([e.size - 1 for e in each])
    ends = joined(each)
    inner = np.arange(region.size) + region  # where the panels' lower ends are among these
    starts, ends = ends.take(inner), ends.take(inner + 1)
    x = nodes(starts, ends)
    first = ORDER * region.searchsorted(batch.branches)
    log_p, loss = batch.at(x.ravel(), first.tolist())
    values = log_p.reshape(x.shape), loss.reshape(x.shape)
    batch.hold(Panels(region, starts, ends, x, *values), members)


def covering(
    members: Sequence[Quadrature], tilt_lo: float, tilt_hi: float, *points: float
) -> list[Quadrature]:
    """Return for each the panels that resolve real tilts in [tilt_lo, tilt_hi], `points` exactly.

    They are what each of them would be alone.

    Raises:
        NumericError: some panels did not settle, with the branch where they did not.
    """
    found = list(members)
    groups: dict[tuple[Any, ...], list[Quadrature]] = {}
    for i, q in enumerate(members):
        known = q.error < math.inf
        inside = q.tilts[0] <= tilt_lo and tilt_hi <= q.tilts[1]
        if not (known and inside and {*points} <= {*q.points}):
            found[i] = q.copied()
            groups.setdefault((id(q._kernel), q._mass_of, q.tilts, known), []).append(found[i])
    for some in groups.values():
        for i in range(0, len(some), TOGETHER):
            _cover(some[i : i + TOGETHER], tilt_lo, tilt_hi, points)
    return found


@SILENT
def with_waves(members: Sequence[Quadrature], contour: float, waves: Waves) -> list[Quadrature]:
    """Return copies that resolve exp(iyL), |y| <= frequency, in the laws tilted at `contour`.

    That is a point that was covered, if panels are to be fine enough for the amplitude.
    Panels in which the wave would turn by more than `TURN` are cut, except where the tilted law has
    less than a share of its mass; `waves` are pairs of a frequency and that share. The amplitude is
    resolved already, and 16 nodes integrate a wave of TURN radians to 1e-17.
    """
    found, wanted = [], [(frequency / TURN, floor) for frequency, floor in waves]
    for i in range(0, len(members), TOGETHER):
        batch = _Batch(members[i : i + TOGETHER])
        known = [q.logs[contour] for q in batch.members if contour in q.logs]
        if len(known) == len(batch.members):
            totals = np.array(known)
        else:  # of panels that are a part of those that were tested
            totals = batch.log_totals(np.array([contour]))[:, 0]
        totals = totals.repeat(batch.first[1:] - batch.first[:-1])
        found += batch.cut(panels.waved(batch.now, contour, totals, wanted))
    for q in found:
        q.error = q.latest
    return found


@SILENT
def _cover(
    members: list[Quadrature], tilt_lo: float, tilt_hi: float, points: tuple[float, ...]
) -> None:
    """Refine copies of one's own, which cover the same tilts so far."""
    (low, high), known = members[0].tilts, members[0].error < math.inf
    wide = (min(tilt_lo, low), max(tilt_hi, high))
    widened = not known or wide != (low, high)
    wanted = {*points, *wide, low, high} if widened else {*points}
    if not known:
        for t in (-1.0, 0.0):
            if wide[0] <= t <= wide[1]:
                wanted.add(t)
    for far, near in ((wide[0], low), (wide[1], high)):
        if far != near and abs(far - near) > LONG:
            wanted.update((near + (far - near) * BETWEEN).tolist())
    first = sorted(wanted)
    for q in members:
        q.latest = 0.0
    waiting = [(members, first, first, wanted)]
    while waiting:
        some, tilts, tested, fresh = waiting.pop()
        batch = _Batch(some)
        unlike: dict[tuple[float, ...], list[Quadrature]] = defaultdict(list)
        affinity = batch.settle(np.array(tilts), widened)
        if not known:
            batch.find_masses(tilts, affinity)
        for q, overlaps in zip(some, affinity, strict=True):
            new: list[float] = []
            if widened and np.fmin.reduce(overlaps, initial=math.inf) < OVERLAP:
                new = _between(tilts, overlaps, fresh)
                if known:  # what was covered before needs no further tests
                    new = [t for t in new if not low <= t <= high]
                if q.apart:
                    new = [t for t in new if not -1.0 <= t <= 0.0]
            unlike[tuple(new)].append(q)
        for fresh_tilts, others in unlike.items():
            if not fresh_tilts:
                (batch if len(others) == len(some) else _Batch(others)).shake(tested)
                for q in others:
                    # what is not tested again has become no worse
                    q.tilts, q.points = wide, points
                    q.error = max(q.latest, q.error if known else 0.0)
                continue
            longer, fresh = sorted([*tested, *fresh_tilts]), {*fresh_tilts}
            tests = len(longer) * max(q.lo.size for q in others)
            if tests > MAX_TESTS or fresh.intersection(tested):  # no doubles are between them
                raise NumericError(
                    f"{batch.kernel.NAME}: tilts {wide} at parameters "
                    f"{others[0]._theta.tolist()} span too many scales"
                )
            ends = zip([None, *longer], longer, [*longer[1:], None], strict=False)
            beside = [t for a, t, b in ends if fresh & {a, t, b}]
            waiting.append((others, beside, longer, fresh))


NO_PANELS = Panels(np.empty(0, np.int64), *np.empty((2, 0)), *np.empty((3, 0, ORDER)))


class _Batch:
    """Quadratures of one kernel that are worked on together, each as if it were alone.

    Their panels stand one after the other, and their branches are numbered through.
    """

    def __init__(self, members: Sequence[Quadrature]) -> None:
        """Keep the members."""
        self.members, self.rows = members, members[0]._rows
        self.kernel, self.mass_of = members[0]._kernel, members[0]._mass_of
        self.branches = [0, len(self.rows)]
        if len(members) > 1:
            self.rows = np.concatenate([q._rows for q in members])
            self.branches = [0, *accumulate([len(q._rows) for q in members])]
        self.has_ends = bool(np.logical_or.reduce(np.isfinite(self.rows), axis=None))
        self.now = members[0]._panels  # of all members
        if len(members) > 1:
            now = Panels(*map(np.concatenate, zip(*(q._panels for q in members), strict=True)))
            region = [q._panels.region + a for q, a in zip(members, self.branches, strict=False)]
            self.now = now._replace(region=np.concatenate(region))
        # where those of every member begin, and where the last ones end
        self.first: Integers = self.now.region.searchsorted(self.branches)

    def hold(self, now: Panels, members: Sequence[Quadrature]) -> None:
        """Give members, or copies of them, their panels."""
        log_weight = resolution.log_weights(now.lo, now.hi, now.log_p)
        if len(members) == 1:
            return members[0]._hold(now, log_weight)
        first = now.region.searchsorted(self.branches).tolist()
        for q, branch, a, b in zip(members, self.branches, first, first[1:], strict=False):
            own = Panels(now.region[a:b] - branch, *(column[a:b] for column in now[1:]))
            q._hold(own, log_weight[ORDER * a : ORDER * b])

    def at(self, x: Floats, ends: list[int], work: float = 0.0) -> tuple[Floats, Floats]:
        """Log density and loss at outputs, -inf and 0 without an answer; `ends` as of `first`.

        `work` is what else it takes to judge them.
        """
        spend(DENSITY * x.size * (1.0 if self.mass_of else 2.0) + work)
        kernel, both = self.kernel, not self.mass_of
        density = kernel.log_q_many if self.mass_of == "q" else kernel.log_p_many
        # machine code that is there is called without what makes it
        density = getattr(density, "made", None) or density
        losses_at = getattr(kernel.loss_many, "made", None) or kernel.loss_many
        log_p, loss = np.empty(x.size), np.zeros(x.size)
        for q, a, b in zip(self.members, ends, ends[1:], strict=False):
            if a < b:
                density(x[a:b], q._theta, log_p[a:b])
                if both:
                    losses_at(x[a:b], q._theta, loss[a:b])
        if not math.isfinite(np.add.reduce(log_p) + np.add.reduce(loss)):  # not all are numbers
            if both:  # the formula of a loss may have none where the densities have
                for q, a, b in zip(self.members, ends, ends[1:], strict=False):
                    finite_losses(kernel, q._theta, x[a:b], loss[a:b])
            lost = ~(np.isfinite(log_p) & np.isfinite(loss))
            log_p[lost], loss[lost] = -np.inf, 0.0
        return log_p, loss

    def log_totals(self, tilts: Floats) -> Floats:
        """Logs of the integrals of p exp(zL) over all panels, shape (members, tilts)."""
        log_weight = self.members[0].log_weight
        if len(self.members) > 1:
            log_weight = np.concatenate([q.log_weight for q in self.members])
        return resolution.log_totals(self.first, log_weight, self.now.loss, tilts)

    def find_masses(self, tilts: list[float], affinity: Floats) -> None:
        """Find the masses of P and of Q, and whether these are far apart."""
        if tilts == [-1.0, 0.0] and np.minimum.reduce(affinity, axis=None) > 0.0:
            for q in self.members:  # laws that overlap in some panel are not
                q.log_masses, q.apart = (q.logs[0.0], q.logs[-1.0]), False
            return
        totals = self.log_totals(np.array([-1.0, -0.5, 0.0])).tolist()
        for member, (q_mass, half, p_mass) in zip(self.members, totals, strict=True):
            member.log_masses, member.apart = (p_mass, q_mass), half < FARTHEST

    def settle(self, tilts: Floats, widened: bool) -> Floats:
        """Split and grow until the tilts given are resolved.

        Unless the tilts are `widened`, all are among covered ones, and no mode is looked for: by
        Hölder's inequality its share is at most what it has at the covered ones on both sides, but
        for a power of their affinity.

        Returns for each member the affinity of its laws at neighbouring tilts: tilts in between are
        covered by their neighbours only if these overlap.
        """
        now, count, size = self.now, tilts.size, len(self.members)
        every, own = np.arange(self.branches[-1] + 1), np.array(self.branches)
        work, seen, open_ = 0, list[Integers](), set(range(size))
        goal, report = MASS_GOALS if self.mass_of else GOALS, np.empty((now.lo.size, count, 2, 3))
        report[:, 0, 0, 0] = -1.0
        unit = self.log_totals(tilts)
        spend(SUMMED * now.lo.size * count)
        for _ in range(ROUNDS):
            starts = now.region.searchsorted(every)
            first = starts.take(own)
            work += now.lo.size
            seen.append(first)
            found = resolution.judge(now, starts, first, self.rows, tilts, goal, unit, report)
            if found is None or (
                work > MAX_WORK and np.diff(np.sum(seen, axis=0))[[*open_]].max() > MAX_WORK
            ):
                break
            settled, totals, parts, reached, edges, errors, affinity = found
            look = open_.intersection(settled)
            for branch, _ in edges:
                look.discard(self.member(branch))
            if look:
                logs = unit + np.log(totals)
                lacks = reached, edges, parts
                if widened:
                    look -= self._lacks_modes(now, first, *lacks, tilts, logs, sorted(look))
                open_ -= look
                if not open_:
                    narrow, more = resolution.fine_panels(now, first, tilts, logs, report)
                    if narrow > resolution.MOST_NARROW:
                        break
                    errors += more
                    if now is not self.now:
                        self.hold(now, self.members)
                        self.now, self.first = now, first
                    at = tilts.tolist()
                    found_each = zip(self.members, logs.tolist(), errors.tolist(), strict=True)
                    for q, own, error in found_each:
                        q.logs = q.logs | dict(zip(at, own, strict=True))
                        q.latest = max(q.latest, error)
                    return affinity
            for (branch, _), outward in edges.items():
                if math.isinf(outward[-1]):
                    raise NumericError(
                        f"{self.kernel.NAME}: the tail still matters at the end of all numbers; "
                        f"{self._at_parameters(self.member(branch))}"
                    )
            towards = None
            if self.has_ends:
                towards = resolution.towards_ends(now, self.rows, parts)
            now, origin, new = self.laid(now, parts, towards, edges, count)
            report = report.take(origin, axis=0)
            report[new, 0, 0, 0] = -1.0
        one = min(open_, default=0)
        raise NumericError(
            f"{self.kernel.NAME}: quadrature did not settle with {first[one + 1] - first[one]} "
            f"panels {self._at_parameters(one)}, tilts ({tilts[0]:g}, {tilts[-1]:g})"
        )

    def member(self, branch: int) -> int:
        """The member that has a branch."""
        return bisect_right(self.branches, branch) - 1

    def _at_parameters(self, member: int) -> str:
        return f"at parameters {self.members[member]._theta.tolist()}"

    def _lacks_modes(
        self, now: Panels, first: Integers, reached: Floats, edges: Edges, parts: Integers,
        tilts: Floats, logs: Floats, look: list[int],
    ) -> set[int]:  # fmt: skip
        """Those that may have modes beyond panels that seem to suffice, or between their nodes."""
        lacks: set[int] = set()
        if not self.mass_of:
            group, own, owners = self, list(range(self.branches[-1])), [0]
            if len(self.members) > 1:
                group = _Batch([self.members[i] for i in look])
                own = [b for i in look for b in range(*self.branches[i : i + 2])]
                owners = [self.member(b) for b in own]
            far = group.look_beyond(reached[own], tilts.size)
            for branch, side, outward in resolution.far_modes(tilts, logs[owners], far):
                edges[own[branch], side] = outward
                lacks.add(self.member(own[branch]))
            for i, q in zip(look, group.members, strict=True) if self.has_ends else ():
                if q._near is not None and i not in lacks:
                    at = logs[i], q._near, self.branches[i]
                    if resolution.near_ends(now, tilts, *at, parts):
                        lacks.add(i)
        laws = [i for i in look if i not in lacks] if lacks else look
        cut = resolution.summits(now, first, tilts, logs, laws, parts)
        if cut.size:
            lacks.update((first.searchsorted(cut, side="right") - 1).tolist())
        return lacks

    def look_beyond(self, reached: Floats, tilts: int) -> Far:
        """Look at points beyond panels, and next to ends, of those that reach farther now."""
        stale, far = [], []
        for q, a, b in zip(self.members, self.branches, self.branches[1:], strict=False):
            if q._far is None or q._far.reached.tobytes() != reached[a:b].tobytes():
                stale.append(q)
                far.append(reached[a:b])
        if stale:
            group = self if len(stale) == len(self.members) else _Batch(stale)
            group._look_beyond(far, tilts)
        only = self.members[0]._far
        if len(self.members) == 1 and only is not None:
            return only
        found = [q._far for q in self.members if q._far is not None]
        return Far(*map(np.concatenate, zip(*found, strict=True)))

    def _look_beyond(self, reached: list[Floats], tilts: int) -> None:
        """Look there for all members."""
        x, gap = panels.beyond(joined(reached), self.rows)
        there = ~np.isnan(x)
        ends = [0, *np.add.reduce(there, axis=(1, 2)).cumsum().tolist()]
        log_size, loss = np.zeros(x.shape) - np.inf, np.zeros(x.shape)
        work = SEARCHED * ORDER * self.now.lo.size * tilts
        log_p, loss[there] = self.at(x[there], [*map(ends.__getitem__, self.branches)], work)
        log_size[there] = log_p + np.log(gap[there])
        each = zip(self.members, reached, self.branches, self.branches[1:], strict=False)
        for q, r, a, b in each:
            q._far = Far(r, x[a:b], log_size[a:b], loss[a:b])
            if self.has_ends:
                offsets, near, off = panels.inside(r, q._rows)
                log_p, at = _Batch([q]).at(near, [0, near.size])
                q._near = Near(offsets, near, off, log_p + np.log(off), at)

    def cut(self, parts: Integers) -> list[Quadrature]:
        """Return copies of which every panel is cut into so many; see `laid`."""
        found = [q.copied() for q in self.members]
        if np.add.reduce(parts) > parts.size:
            self.hold(self.laid(self.now, parts, None, {}, 0)[0], found)
        return found

    def laid(
        self, old: Panels, parts: Integers, towards: Integers | None, edges: Edges, tilts: int
    ) -> tuple[Panels, Integers, Integers]:
        """Cut panels and add others, with values, to be judged at tilts; see `resolution.lay`.

        Raises:
            NumericError: these are too many of one member.
        """
        if np.add.reduce(parts) > resolution.MAX_PANELS:
            wanted = np.add.reduceat(parts, old.region.searchsorted(self.branches[:-1]))
            if wanted.max() > resolution.MAX_PANELS:
                raise NumericError(
                    f"{self.kernel.NAME}: the quadrature needs more than {resolution.MAX_PANELS} "
                    f"panels {self._at_parameters(int(wanted.argmax()))}"
                )
        now, origin, new, x = resolution.lay(old, parts, towards, edges)
        ends = [0, x.size]
        if len(self.members) > 1:
            ends = (ORDER * new.searchsorted(now.region.searchsorted(self.branches))).tolist()
        work = tilts * (JUDGED * ORDER * new.size + SUMMED * now.lo.size)
        log_p, loss = self.at(x.ravel(), ends, work)
        now.log_p[new], now.loss[new] = log_p.reshape(x.shape), loss.reshape(x.shape)
        return now, origin, new

    def shake(self, tilts: list[float]) -> None:
        """Add to errors of sums that of losses off by more than their ulps, at one place a panel.

        The loss of a mixture loses digits where its terms cancel in first order.
        """
        if self.mass_of:
            return
        if [q for q in self.members if q._noise is None]:
            now, first = self.now, self.first.tolist()
            x, loss = now.x[:, AMID].copy(), now.loss[:, AMID].copy()
            noise = off_lines(self._beside, x, loss, now.lo, now.hi)
            if np.logical_or.reduce(noise):
                noise[now.log_p[:, AMID] == -math.inf] = 0.0  # where the loss is not known
                # next to an end that moves it is no straight line
                half = 0.5 * (now.hi - now.lo)
                noise[~(half > WIDE * np.maximum(-now.lo, now.hi))] = 0.0
            for q, a, b in zip(self.members, first, first[1:], strict=False):
                q._noise = noise[a:b]
        for q in self.members:
            if q._noise is not None and np.logical_or.reduce(q._noise):
                totals = _Batch([q]).log_totals(np.array(tilts))[0]
                q.latest += resolution.shaken(q._panels, q._noise, np.array(tilts), totals)

    def _beside(self, x: Floats, sign: float) -> Floats:
        """Losses at one output a panel, of parameters moved down (-1) or up (1) a little."""
        out, ends = np.empty(x.size), self.first.tolist()
        for q, a, b in zip(self.members, ends, ends[1:], strict=False):
            losses(self.kernel, q._theta + sign * q._moved, x[a:b], out[a:b])
        return out


def _between(tilts: list[float], affinity: Floats, fresh: set[float]) -> list[float]:
    """Tilts to be tested as well, so that neighbouring laws overlap, next to those that are fresh.

    The affinity of normal laws is exp(-distance^2), which tells into how many parts to cut.
    """
    new: list[float] = []
    for low, high, overlap in zip(tilts, tilts[1:], affinity.tolist(), strict=False):
        if overlap < OVERLAP and fresh & {low, high}:
            parts = math.sqrt(math.log(max(overlap, 1e-300)) / math.log(OVERLAP))
            cuts = math.ceil(min(parts, MOST_CUTS))
            new += [low + (high - low) * i / cuts for i in range(1, cuts)]
    return new


def mass_and_error(
    kernel: Kernel, theta: Floats, lo: float, hi: float, law: str
) -> tuple[float, float]:
    """Return the log of the mass that P (`law="p"`) or Q ("q") puts on (lo, hi), and its error.

    A mode that is narrow beside the distance of both ends may be missed.

    Raises:
        NumericError: the quadrature did not settle.
    """
    if not lo < hi:
        return -math.inf, 0.0
    quadrature = of_mass(kernel, theta, np.array([[lo, hi]]), law)
    log_mass = quadrature.logs[0.0]
    return log_mass, quadrature.error + quadrature.misplaced(log_mass)
