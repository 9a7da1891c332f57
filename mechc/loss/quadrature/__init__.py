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

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.quadrature import panels, resolution
from mechc.loss.quadrature.panels import first_edges
from mechc.loss.quadrature.resolution import SILENT, Edges, Far, Near, Panels, Verdict
from mechc.loss.quadrature.rule import (
    DERIVATIVE,
    NEARBY,
    ORDER,
    WEIGHTS,
    log_densities,
    losses,
    misplaced,
    nodes,
    off_lines,
)
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import MOST_LOG
from mechc.protocol import Floats, Integers, Kernel

MASS_GOAL = 1e-10  # top Legendre coefficient of the tilted density, as a share of its total
GOAL = 1e-17  # estimated error of a panel for the sums that count, as a share of the sum
# of the density and of the sums; then those of a law of which the mass is asked for as well
GOALS, MASS_GOALS = np.array([MASS_GOAL, GOAL]), np.array([1e-14, GOAL])
OVERLAP = 0.15  # least affinity of the tilted laws at neighbouring test tilts
LONG, BETWEEN = 4.0, (0.35, 0.65, 0.85)  # new tilts so far out, and shares that are tried at once
MOST_CUTS = 4.0  # of an interval between tilts at once
TURN = 9.0  # radians of the wave that a panel may span before it is cut without further tests
ROUNDS = 400  # of cutting and growing in one settling
MAX_WORK = 2_000_000  # panels, summed over the rounds of one settling
FARTHEST = -1e5  # log M(-1/2) of laws 900 standard deviations apart; no tilts between are resolved
JUDGED, SEARCHED = 2.5, 1.0  # work for a node at one tilt, when it is new and at the end
SUMMED = 10.0  # the same for a panel, in every round
AMID = ORDER // 2  # node of a panel beside which its loss is held against a straight line
WIDE = 2.0**-6  # least share of its place that its panel is wide where parameters move too
MAX_TESTS = 4_000_000  # panels times tilts that are judged at once


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

    def __init__(self, kernel: Kernel, theta: Floats, rows: Floats, mass_of: str = "") -> None:
        """Lay first panels on branches, of which `rows` begin with lo and hi; no adaptation yet.

        With `mass_of` "p" or "q" the integrand is that density alone and the loss is taken as 0:
        for plateaus and for outputs that only one of the two laws produces.

        Raises:
            NumericError: neither density was found anywhere on a branch.
        """
        self._kernel, self._theta, self._mass_of = kernel, theta, mass_of
        self._rows = np.ascontiguousarray(rows, np.float64)
        self._has_ends = bool(np.logical_or.reduce(np.isfinite(self._rows), axis=None))
        self.tilts = (0.0, 0.0)
        self.logs: dict[float, float] = {}
        self.log_masses = -math.inf, -math.inf
        self.apart = False
        self.error = self.latest = math.inf
        self.points: tuple[float, ...] = ()
        self._far: Far | None = None
        self._near: Near | None = None
        # to where parameters are moved to see rounding; beside a weight of one another tail begins
        about = zip(theta.tolist(), kernel.PARAMETERS, strict=False)
        self._moved = NEARBY * theta * [not row[5] and value < row[2] for value, row in about]
        edges = [first_edges(kernel, theta, lo, hi) for lo, hi in self._rows[:, :2].tolist()]
        region = np.arange(len(edges)).repeat([e.size - 1 for e in edges])
        starts, ends = (np.concatenate([e[part] for e in edges])
                        for part in (slice(-1), slice(1, None)))  # fmt: skip
        x = nodes(starts, ends)
        log_p, loss = self._at(x.ravel())
        self._hold(Panels(region, starts, ends, x, log_p.reshape(x.shape), loss.reshape(x.shape)))

    def copied(self) -> Quadrature:
        """Return a copy of references, as `copy` does, without its protocol, which costs more."""
        other = object.__new__(Quadrature)
        other.__dict__.update(self.__dict__)
        return other

    def _hold(self, panels: Panels) -> None:
        """Take panels for one's own, in a copy of one's own."""
        self._panels = panels
        self.region, self.lo, self.hi, self.x, self.log_p, self.loss = panels
        self._spread: tuple[Floats, Floats] | None = None
        self._noise: Floats | None = None  # of losses, beyond their ulps

    @property
    def half(self) -> Floats:
        """Half widths of the panels."""
        half: Floats = 0.5 * (self.hi - self.lo)
        return half

    def spread(self) -> tuple[Floats, Floats]:
        """Return log weights and lengths on the loss axis of all nodes; not to be written to."""
        if self._spread is None:
            with np.errstate(all="ignore"):
                log_weight = resolution.log_weights(self.lo, self.hi, self.log_p)
                self._spread = log_weight, (np.abs(self.loss @ DERIVATIVE.T) * WEIGHTS).ravel()
        return self._spread

    def covering(self, tilt_lo: float, tilt_hi: float, *points: float) -> Quadrature:
        """Return panels that resolve all real tilts in [tilt_lo, tilt_hi], `points` exactly so.

        Raises:
            NumericError: the panels did not settle, with the branch where they did not.
        """
        inside = self.tilts[0] <= tilt_lo and tilt_hi <= self.tilts[1]
        if self.error < math.inf and inside and {*points} <= {*self.points}:
            return self
        other = self.copied()
        other._cover(tilt_lo, tilt_hi, points)
        return other

    @SILENT
    def with_waves(self, contour: float, frequency: float, floor: float) -> Quadrature:
        """Return a copy that resolves exp(iyL), |y| <= frequency, in the law tilted at `contour`.

        That is a point that was covered, if panels are to be fine enough for the amplitude.
        Panels in which the wave would turn by more than `TURN` are cut, except where the tilted law
        has less than `floor` of its mass. The amplitude is resolved already, and 16 nodes integrate
        a wave of TURN radians to 1e-17.
        """
        total = self.logs.get(contour)
        if total is None:  # of panels that are a part of those that were tested
            total = float(self._log_totals(np.array([contour]))[0])
        found = self.cut(panels.waved(self._panels, contour, total, frequency / TURN, floor))
        found.error = found.latest
        return found

    def cut(self, parts: Integers) -> Quadrature:
        """Return a copy in which every panel is cut into so many.

        Raises:
            NumericError: these are too many.
        """
        other = self.copied()
        if np.add.reduce(parts) > parts.size:
            with np.errstate(all="ignore"):
                other._hold(other._laid(self._panels, parts, None, {})[0])
        return other

    def misplaced(self, log_mass: float) -> float:
        """Return the share of a mass, of P or the one law integrated, that rounded nodes move."""
        if log_mass == -math.inf:
            return 0.0
        return misplaced(self.x, np.exp(np.minimum(self.log_p - log_mass, MOST_LOG)))

    def losses_at_ends(self) -> Floats:
        """Losses at both ends of every panel, nan where the kernel has none, shape (panels, 2)."""
        ends = np.concatenate([self.lo, self.hi])
        found: Floats = losses(self._kernel, self._theta, ends).reshape(2, -1).T
        return found

    def falls_short(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For every panel, whether outputs of its branch lie below it, and above it."""
        ends = self._rows[self.region]
        return self.lo > ends[:, 0], self.hi < ends[:, 1]

    def among(self, panels: NDArray[np.bool_]) -> Quadrature:
        """Return a copy with these panels alone, which is not to be refined for other tilts."""
        other = self.copied()
        other.logs = {}
        region, *others = self._panels
        other._hold(Panels(region[panels], *(column[panels] for column in others)))
        return other

    def _at(self, x: Floats) -> tuple[Floats, Floats]:
        """Log density and loss at outputs, -inf and 0 without an answer."""
        (log_p,) = log_densities(self._kernel, self._theta, x, self._mass_of or "p")
        loss = np.zeros(x.size) if self._mass_of else losses(self._kernel, self._theta, x)
        sound = np.isfinite(log_p) & np.isfinite(loss)
        if not np.logical_and.reduce(sound):
            log_p[~sound], loss[~sound] = -np.inf, 0.0
        return log_p, loss

    def _log_totals(self, tilts: Floats) -> Floats:
        """Logs of the integrals of p exp(zL) over all panels."""
        return resolution.log_totals(self.spread()[0], self.loss, tilts)

    @SILENT
    def _cover(self, tilt_lo: float, tilt_hi: float, points: tuple[float, ...]) -> None:
        """Refine a copy of one's own."""
        (low, high), known = self.tilts, self.error < math.inf
        wide = (min(tilt_lo, low), max(tilt_hi, high))
        widened = not known or wide != (low, high)
        fresh = {*points, *wide, low, high} if widened else {*points}
        if not known:
            fresh |= {t for t in (-1.0, 0.0) if wide[0] <= t <= wide[1]}
        for far, near in ((wide[0], low), (wide[1], high)):
            if far != near and abs(far - near) > LONG:
                fresh |= {near + share * (far - near) for share in BETWEEN}
        tilts = tested = sorted(fresh)
        self.latest = 0.0
        while True:
            affinity = self._settle(np.array(tilts))
            if not known:
                q, half, p = self._log_totals(np.array([-1.0, -0.5, 0.0])).tolist()
                self.log_masses, self.apart = (p, q), half < FARTHEST
            new = _between(tilts, affinity, fresh) if widened else []
            if known:  # what was covered before needs no further tests
                new = [t for t in new if not low <= t <= high]
            if self.apart:
                new = [t for t in new if not -1.0 <= t <= 0.0]
            if not new:
                break
            longer, fresh = sorted([*tested, *new]), {*new}
            # between some no doubles are
            if len(longer) * self.lo.size > MAX_TESTS or fresh.intersection(tested):
                raise NumericError(
                    f"{self._kernel.NAME}: tilts {wide} at parameters {self._theta.tolist()} span "
                    "too many scales"
                )
            ends = zip([None, *longer], longer, [*longer[1:], None], strict=False)
            tilts, tested = [t for a, t, b in ends if fresh & {a, t, b}], longer
        self._shake(np.array(tested))
        # what is not tested again has become no worse
        self.tilts, self.points = wide, points
        self.error = max(self.latest, self.error if known else 0.0)

    def _settle(self, tilts: Floats) -> Floats:
        """Split and grow until the tilts given are resolved.

        Returns the affinity of the laws at neighbouring tilts: tilts in between are covered by
        their neighbours only if these overlap.
        """
        now, count, work = self._panels, tilts.size, 0
        branches = np.arange(len(self._rows) + 1)
        goal, report = MASS_GOALS if self._mass_of else GOALS, np.empty((now.lo.size, count, 2, 3))
        report[:, 0, 0, 0] = -1.0
        unit = self._log_totals(tilts)
        spend(SUMMED * now.lo.size * count)
        for _ in range(ROUNDS):
            starts = now.region.searchsorted(branches)
            work += now.lo.size
            found = resolution.judge(now, starts, self._rows, tilts, goal, unit, report)
            if found is None or work > MAX_WORK:
                break
            if found.settled and not found.edges:
                logs = unit + np.log(found.totals)
                if not self._lacks_modes(now, found, tilts, logs):
                    narrow, (error, affinity) = 0.0, resolution.finish(report)
                    if found.has_fine:
                        narrow, more = resolution.fine_panels(now, tilts, logs, report)
                        error += more
                    if narrow > resolution.MOST_NARROW:
                        break
                    if now is not self._panels:
                        self._hold(now)
                    self.logs = self.logs | dict(zip(tilts.tolist(), logs.tolist(), strict=True))
                    self.latest = max(self.latest, error)
                    return affinity
            if any(math.isinf(outward[-1]) for outward in found.edges.values()):
                raise NumericError(
                    f"{self._kernel.NAME}: the tail still matters at the end of all numbers; at "
                    f"parameters {self._theta.tolist()}"
                )
            towards = None
            if self._has_ends:
                towards = resolution.towards_ends(now, self._rows, found.parts)
            now, origin, new = self._laid(now, found.parts, towards, found.edges)
            spend(JUDGED * ORDER * count * new.size + SUMMED * now.lo.size * count)
            report = report.take(origin, axis=0)
            report[new, 0, 0, 0] = -1.0
        raise NumericError(
            f"{self._kernel.NAME}: quadrature did not settle with {now.lo.size} panels at "
            f"parameters {self._theta.tolist()}, tilts ({tilts[0]:g}, {tilts[-1]:g})"
        )

    def _lacks_modes(self, now: Panels, found: Verdict, tilts: Floats, logs: Floats) -> bool:
        """Whether modes may lie beyond panels that seem to suffice, or between their nodes."""
        if not self._mass_of:
            far = self._look_beyond(found.reached, tilts.size)
            for branch, side, outward in resolution.far_modes(tilts, logs, far):
                found.edges[branch, side] = outward
            if found.edges:
                return True
            near = self._near
            if near and resolution.near_ends(now, tilts, logs, near, found.parts):
                return True
        return resolution.summits(now, tilts, logs, found.parts)

    def _look_beyond(self, reached: Floats, tilts: int) -> Far:
        """Look at points beyond panels, and next to ends, if they reach farther now."""
        if self._far is None or self._far.reached.tobytes() != reached.tobytes():
            spend(SEARCHED * ORDER * self.lo.size * tilts)
            x, gap = panels.beyond(reached, self._rows)
            there = ~np.isnan(x)
            log_size, loss = np.zeros(x.shape) - np.inf, np.zeros(x.shape)
            log_p, loss[there] = self._at(x[there])
            log_size[there] = log_p + np.log(gap[there])
            self._far = Far(reached, x, log_size, loss)
            if self._has_ends:
                offsets, near, off = panels.inside(reached, self._rows)
                log_p, at = self._at(near)
                self._near = Near(offsets, near, off, log_p + np.log(off), at)
        return self._far

    def _laid(
        self, old: Panels, parts: Integers, towards: Integers | None, edges: Edges
    ) -> tuple[Panels, Integers, Integers]:
        """Cut panels and add others, with values; see `resolution.lay`.

        Raises:
            NumericError: these are too many.
        """
        wanted = int(np.add.reduce(parts))
        if wanted > resolution.MAX_PANELS:
            raise NumericError(
                f"{self._kernel.NAME}: the quadrature needs more than {resolution.MAX_PANELS} "
                f"panels at parameters {self._theta.tolist()}"
            )
        now, origin, new = resolution.lay(old, parts, towards, edges)
        x = nodes(now.lo.take(new), now.hi.take(new))
        log_p, loss = self._at(x.ravel())
        now.x[new], now.log_p[new], now.loss[new] = x, log_p.reshape(x.shape), loss.reshape(x.shape)
        return now, origin, new

    def _shake(self, tilts: Floats) -> None:
        """Add to the error of sums that of losses off by more than their ulps, at a place a panel.

        The loss of a mixture loses digits where its terms cancel in first order.
        """
        if self._mass_of:
            return
        if self._noise is None:
            x, loss = self.x[:, AMID].copy(), self.loss[:, AMID].copy()
            noise = off_lines(
                lambda x, sign: losses(self._kernel, self._theta + sign * self._moved, x),
                x, loss, self.lo, self.hi,
            )  # fmt: skip
            noise[self.log_p[:, AMID] == -math.inf] = 0.0  # where the loss is not known
            # next to an end that moves it is no straight line
            noise[~(self.half > WIDE * np.maximum(-self.lo, self.hi))] = 0.0
            self._noise = noise
        if np.logical_or.reduce(self._noise):
            totals = self._log_totals(tilts)
            self.latest += resolution.shaken(self._panels, self._noise, tilts, totals)


def of_mass(kernel: Kernel, theta: Floats, rows: Floats, law: str) -> Quadrature:
    """Return panels that resolve the density of one law, "p" or "q", on branches.

    Raises:
        NumericError: they did not settle.
    """
    return Quadrature(kernel, theta, rows, law).covering(0.0, 0.0)


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
