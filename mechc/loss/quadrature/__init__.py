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
from copy import copy

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.quadrature import panels, resolution
from mechc.loss.quadrature.panels import first_edges
from mechc.loss.quadrature.resolution import SILENT, Edges, Far, Panels, Verdict
from mechc.loss.quadrature.rule import (
    DERIVATIVE,
    NEARBY,
    ORDER,
    WEIGHTS,
    log_densities,
    losses,
    nodes,
    off_lines,
)
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Integers, Kernel

MASS_GOAL = 1e-10  # top Legendre coefficient of the tilted density, as a share of its total
GOAL = 1e-17  # estimated error of a panel for the sums that count, as a share of the sum
OVERLAP = 0.15  # least affinity of the tilted laws at neighbouring test tilts
LONG, BETWEEN = 4.0, (0.35, 0.65, 0.85)  # new tilts so far out, and shares that are tried at once
MOST_CUTS = 4.0  # of an interval between tilts at once
TURN = 9.0  # radians of the wave that a panel may span before it is cut without further tests
REMEMBERED = 8  # single tilts known to be resolved
ROUNDS = 400
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
        points: tilts inside that interval that were asked for and are covered exactly.
        log_totals: log M at the tilts tested last.
        log_masses: logs of the masses of P and of Q when tilts were first covered.
        apart: P and Q are so far apart that tilts between -1 and 0 are not resolved, only these.
        error: estimated error of M(z) as a share of M(Re z), see `resolution.judge`.
    """

    def __init__(self, kernel: Kernel, theta: Floats, rows: Floats, *, mass_of: str = "") -> None:
        """Lay the first panels on the branches `rows` (lo, hi); no adaptation yet.

        With `mass_of` "p" or "q" the integrand is that density alone and the loss is taken as 0:
        for plateaus and for outputs that only one of the two laws produces.
        """
        self._kernel = kernel
        self._theta = theta
        self._rows = np.ascontiguousarray(rows, np.float64)
        self._mass_of = mass_of
        self._goal = np.array([1e-14 if mass_of else MASS_GOAL, GOAL])
        edges = [first_edges(kernel, theta, float(lo), float(hi)) for lo, hi in rows]
        self.region = np.arange(len(edges)).repeat([e.size - 1 for e in edges])
        self.lo = np.concatenate([e[:-1] for e in edges])
        self.hi = np.concatenate([e[1:] for e in edges])
        self.x = nodes(self.lo, self.hi)
        self.log_p, self.loss = (v.reshape(-1, ORDER) for v in self._at(self.x.ravel()))
        self.tilts = (0.0, 0.0)
        self.points: tuple[float, ...] | None = None  # None: nothing is settled yet
        self.log_totals: Floats = np.empty(0)
        self.log_masses = -math.inf, -math.inf
        self.apart = False
        self.error = math.inf
        self._spread: tuple[Floats, Floats] | None = None
        self._noise: Floats | None = None  # of losses, beyond their ulps
        none = np.empty(0)
        reached = np.full((len(self._rows), 2), np.nan)
        self._far = Far(reached, np.zeros(2 * len(edges) + 1, np.int64), *[none] * 4)
        self._near, self._has_ends = self._far, bool(np.isfinite(self._rows).any())

    def __copy__(self) -> Quadrature:
        """Copy references, as `copy` does, but without its protocol, which costs more."""
        other = object.__new__(Quadrature)
        other.__dict__.update(self.__dict__)
        return other

    @property
    def half(self) -> Floats:
        """Half widths of the panels."""
        half: Floats = 0.5 * (self.hi - self.lo)
        return half

    @SILENT
    def spread(self) -> tuple[Floats, Floats]:
        """Return log weights and lengths on the loss axis of all nodes; not to be written to."""
        if self._spread is None:
            log_weight = resolution.log_weights(self.lo, self.hi, self.log_p)
            self._spread = log_weight, (np.abs(self.loss @ DERIVATIVE.T) * WEIGHTS).ravel()
        return self._spread

    def covering(self, tilt_lo: float, tilt_hi: float, *points: float) -> Quadrature:
        """Return panels that resolve all real tilts in [tilt_lo, tilt_hi], `points` exactly so.

        Raises:
            NumericError: the panels did not settle, with the branch where they did not.
        """
        known = self.points is not None and {*points} <= {*self.points, *self.tilts}
        if known and self.tilts[0] <= tilt_lo and tilt_hi <= self.tilts[1]:
            return self
        other = copy(self)
        other._cover(tilt_lo, tilt_hi, points)
        return other

    @SILENT
    def _cover(self, tilt_lo: float, tilt_hi: float, points: tuple[float, ...]) -> None:
        """Refine, in a copy of one's own."""
        wide = (min(tilt_lo, self.tilts[0]), max(tilt_hi, self.tilts[1]))
        known = set() if self.points is None else {*self.points, *self.tilts}
        wanted = {*points} if known and wide == self.tilts else {*wide, *self.tilts, *points}
        if not known:
            wanted |= {t for t in (-1.0, 0.0) if wide[0] <= t <= wide[1]}
        widened = not known or wide != self.tilts
        for far, near in ((wide[0], self.tilts[0]), (wide[1], self.tilts[1])):
            if far != near and abs(far - near) > LONG:
                wanted |= {near + share * (far - near) for share in BETWEEN}
        tilts = sorted(wanted if widened else wanted - known)
        tested, fresh, rounds, error = list(tilts), set(tilts), ROUNDS, 0.0
        while tilts:
            rounds, affinity = self._settle(np.array(tilts), rounds)
            error = max(error, self.error)
            if not known:
                q, half, p = self._log_totals(-1.0, -0.5, 0.0).tolist()
                self.log_masses, self.apart = (p, q), half < FARTHEST
            if not widened:
                break
            new = _between(tilts, affinity, fresh)
            if known:  # what was covered before needs no further tests
                new = [t for t in new if not self.tilts[0] <= t <= self.tilts[1]]
            if self.apart:
                new = [t for t in new if not -1.0 <= t <= 0.0]
            if not new:
                break
            tested, fresh = sorted(tested + new), set(new)
            if len(tested) * self.region.size > MAX_TESTS:
                raise NumericError(
                    f"{self._kernel.NAME}: tilts {wide} at parameters {self._theta.tolist()} "
                    "span too many scales"
                )
            ends = zip([None, *tested], tested, [*tested[1:], None], strict=False)
            tilts = [t for before, t, after in ends if fresh & {before, t, after}]
        self.error = error + self._shaken(tested)
        self.tilts, self.points = wide, (*points, *(self.points or ()))[:REMEMBERED]

    def _shaken(self, tilts: list[float]) -> float:
        """Error of the sums by losses that are off by more than their ulps, at one place a panel.

        The loss of a mixture loses digits where its terms cancel in first order.
        """
        if self._mass_of:
            return 0.0
        if self._noise is None:
            moved = NEARBY * self._theta
            # beside a weight of one another tail begins
            for i, (_, _, hi, _, _, integer, *_) in enumerate(
                self._kernel.PARAMETERS[: moved.size]
            ):
                moved[i] *= not integer and self._theta[i] < hi
            x, at = (np.ascontiguousarray(v[:, AMID]) for v in (self.x, self.loss))
            noise = off_lines(self._kernel, self._theta, x, at, self.lo, self.hi, moved)
            noise[self.log_p[:, AMID] == -math.inf] = 0.0  # where the loss is not known
            # next to an end that moves it is no straight line
            noise[~(self.half > WIDE * np.maximum(-self.lo, self.hi))] = 0.0
            self._noise = noise
        if not self._noise.any():
            return 0.0
        totals = self._log_totals(*tilts)
        return resolution.shaken(self._panels, self._noise, np.array(tilts), totals)

    def _log_totals(self, *tilts: float) -> Floats:
        """Logs of the integrals of p exp(zL) over all panels."""
        return resolution.log_totals(self.spread()[0], self.loss, np.array(tilts))

    def _settle(self, tilts: Floats, rounds: int) -> tuple[int, Floats]:
        """Split and grow until the tilts given are resolved.

        Returns the rounds left over and the affinity of the laws at neighbouring tilts: tilts in
        between are covered by their neighbours only if these overlap.
        """
        now, count, work = self._panels, tilts.size, 0
        unit, report = np.full(count, np.nan), np.empty((self.region.size, count, 2, 3))
        at = f"at parameters {self._theta.tolist()}"
        while rounds and work < MAX_WORK:
            rounds, work = rounds - 1, work + now.lo.size
            spend(SUMMED * now.lo.size * count)
            found = resolution.judge(now, self._rows, tilts, self._goal, unit, report)
            if found is None:
                break
            if found.settled and not self._lacks_modes(now, found, tilts):
                narrow, error, affinity = resolution.finish(now, tilts, found.logs, report)
                if narrow > resolution.MOST_NARROW:
                    break
                self._hold(now)
                self.log_totals, self.error = found.logs, error
                return rounds, affinity
            if any(math.isinf(outward[-1]) for outward in found.edges.values()):
                raise NumericError(
                    f"{self._kernel.NAME}: the tail still matters at the end of all numbers; {at}"
                )
            towards = resolution.towards_ends(now, self._rows, found.parts)
            now, origin, new = self._laid(now, found.parts, towards, found.edges)
            spend(JUDGED * ORDER * count * new.size)
            report = report.take(origin, axis=0)
            report[new, 0, 0, 0] = -1.0
        raise NumericError(
            f"{self._kernel.NAME}: quadrature did not settle with {now.lo.size} panels {at}, tilts "
            f"({tilts[0]:g}, {tilts[-1]:g})"
        )

    def _lacks_modes(self, now: Panels, found: Verdict, tilts: Floats) -> bool:
        """Whether there may be modes beyond panels that seem to suffice, or between their nodes."""
        if not self._mass_of:
            # as bytes: nan, of no panels, equals itself
            if found.reached.tobytes() != self._far.reached.tobytes():
                spend(SEARCHED * ORDER * self.region.size * tilts.size)
                self._far = panels.beyond(found.reached, self._rows, self._at)
                if self._has_ends:
                    self._near = panels.inside(found.reached, self._rows, self._at)
            if resolution.far_modes(tilts, found.logs, self._far, found.edges):
                return True
            if self._near.x.size and resolution.near_ends(
                now, tilts, found.logs, self._near, found.parts
            ):
                return True
        return resolution.summits(now, tilts, found.logs, found.parts)

    @SILENT
    def with_waves(self, contour: float, frequency: float, floor: float) -> Quadrature:
        """Return a copy that resolves exp(iyL), |y| <= frequency, in the law tilted at `contour`.

        Panels in which the wave would turn by more than `TURN` are cut, except where the tilted
        law has less than `floor` of its mass. The amplitude is resolved already, and 16 nodes
        integrate a wave of TURN radians to 1e-17.
        """
        turns = frequency / TURN
        total = float(self._log_totals(contour)[0])
        return self.cut(panels.waved(self._panels, contour, total, turns, floor))

    @SILENT
    def cut(self, parts: Integers) -> Quadrature:
        """Return a copy in which every panel is cut into so many.

        Raises:
            NumericError: these are too many.
        """
        other = copy(self)
        if parts.sum() == parts.size:
            return other
        other._hold(self._laid(self._panels, parts, np.zeros_like(parts), {})[0])
        return other

    @property
    def _panels(self) -> Panels:
        return Panels(self.region, self.lo, self.hi, self.x, self.log_p, self.loss)

    def _hold(self, panels: Panels) -> None:
        """Take panels for one's own, in a copy of one's own."""
        if panels.lo is not self.lo:
            self._spread = self._noise = None
        self.region, self.lo, self.hi, self.x, self.log_p, self.loss = panels

    def _laid(
        self, old: Panels, parts: Integers, towards: Integers, edges: Edges
    ) -> tuple[Panels, Integers, Integers]:
        """Cut panels and add others, with values; see `resolution.lay`.

        Raises:
            NumericError: these are too many.
        """
        if int(parts.sum()) > resolution.MAX_PANELS:
            raise NumericError(
                f"{self._kernel.NAME}: the quadrature needs more than {resolution.MAX_PANELS} "
                f"panels at parameters {self._theta.tolist()}"
            )
        now, origin, new = resolution.lay(old, parts, towards, edges)
        x = nodes(now.lo[new], now.hi[new])
        log_p, loss = self._at(x.ravel())
        now.x[new], now.log_p[new], now.loss[new] = x, log_p.reshape(x.shape), loss.reshape(x.shape)
        return now, origin, new

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
        other = copy(self)
        region, lo, hi, *at_nodes = self._panels
        values = [column[panels] for column in (lo, hi, *at_nodes)]
        other._hold(Panels(region[panels], *values))
        return other

    def _at(self, x: Floats) -> tuple[Floats, Floats]:
        """Log density and loss; where the kernel has no answer -inf and 0."""
        log_p, loss = self._values(x)
        sound = np.isfinite(log_p) & np.isfinite(loss)
        if not np.logical_and.reduce(sound):
            log_p[~sound], loss[~sound] = -np.inf, 0.0
        return log_p, loss

    def _values(self, x: Floats) -> tuple[Floats, Floats]:
        """Evaluate log density and loss."""
        (log_f,) = log_densities(self._kernel, self._theta, x, self._mass_of or "p")
        loss = np.zeros(x.size) if self._mass_of else losses(self._kernel, self._theta, x)
        return log_f, loss


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
    kernel: Kernel, theta: Floats, lo: float, hi: float, mass_of: str
) -> tuple[float, float]:
    """Return the log of the mass that P (`mass_of="p"`) or Q ("q") puts on (lo, hi), and its error.

    A mode that is narrow beside the distance of both ends may be missed.

    Raises:
        NumericError: the quadrature did not settle.
    """
    if not lo < hi:
        return -math.inf, 0.0
    quadrature = Quadrature(kernel, theta, np.array([[lo, hi]]), mass_of=mass_of)
    quadrature = quadrature.covering(0.0, 0.0)
    log_mass = float(quadrature.log_totals[0])
    return log_mass, quadrature.error + misplaced(quadrature, log_mass)


def misplaced(quadrature: Quadrature, log_mass: float) -> float:
    """The share of a mass that rounded nodes may move: an ulp times the total variation."""
    if log_mass == -math.inf:
        return 0.0
    density = np.exp(np.minimum(quadrature.log_p - log_mass, 700.0))
    variation = np.abs(np.diff(density, axis=1)).sum(axis=1)
    return float((EPS * np.abs(quadrature.x).max(axis=1) * variation).sum())
