"""Few steps without a transform: the hockey-stick function of one step more, step by step.

    H_j(u) = E_{P_j}[H_{j-1}(u - L_j)],   H_0(u) = (1 - exp(u))_+,   H(epsilon) = H_k(epsilon)

over the finite part of the laws, in tilted functions g_j(u) = exp(t u - K_1(t) - .. - K_j(t))
H_j(u). Why errors only add up is in docs/methods.md, direct. What is left out where g_j is
represented on an interval only is bounded by g_j(u) <= exp((t - r) u + K_j(r) - K_j(t)) r^r / (1 +
r)^(1 + r), for every tilt r > 0. The floor is a share of g_k(epsilon): where the first guess of g_k
was too large (sparse sampling), a second pass has a lower floor.

Before it runs, a `Plan` chooses for every level the interval on which its function is represented,
and bounds what lies beyond; a step is `Prepared` with K at tilts around t. Repeated steps share one
matrix: from its third time on a step costs one product. The interpolation error of a panel is
estimated twice, by continuing the decay of the coefficients and by the deviation observed at both
ends of the panel, which are no nodes; the larger counts, times a guard.

Every count of a repeated step: the recursion passes g_1, g_2, ... on its way to the largest number,
each with a bound on its error, so that log H_n(epsilon) = n K(t) - t epsilon + log g_n(epsilon) is
inverted by compiled bisection. The tilt is that of the largest number; where it leaves too little
of g_n for fewer repetitions, they get a recursion of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc.accountants.chebyshev_tables import DEGREE, Tabulated, series, tabulate
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import saddle_target, solve
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss, Step, sharp_tilt
from mechc.loss.quadrature.rule import halved
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.logs import log_peak
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

GOAL = 1e-11  # relative error aimed at, all steps together
FLOOR = 1e-12  # share of the answer that all floors together may cost, if less than this ...
FLOOR_SHARE = 0.02  # ... of the goal
PASSES = 5  # each with a better guess of the size of the answer
SETTLED = 1e-9  # share of the answer that the floors may have cost
HALVINGS = 12  # of panels of a repeated step, from one level to the next
MAX_KINKS = 64  # of one level; more are not told apart
MOST_WORK = 6_000_000  # places times panels, of both sides: one to two seconds
LESS_WORK = 2_000_000  # the same of a curve, whose counts may be asked one by one as well
PLACE, PRODUCT = 30.0, 0.1  # work for one place and panel, for one multiplication
ATOM = 0.125  # of a panel's work that an atom makes
PRODUCTS = 3e9  # multiplications in all products with the matrix of a repeated step, likewise
SHARED = 7  # repetitions from which a step's panels are shared: fewer are soon gone through alone
MARGIN = 1e-3  # in units of 1 / tilt
FIRST_PANELS = 6  # of a level
TILTS = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0])  # asked for, as shares of t
BEYOND = 8  # tilts above t


# of a piecewise polynomial on [-1, 1]: Chebyshev points of the first kind
POINTS = np.ascontiguousarray(-np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE))
ANALYSIS = np.ascontiguousarray(
    np.linalg.inv(chebyshev.chebvander(POINTS, DEGREE - 1))
)  # values at POINTS -> coefficients
_SIGNS = (-1.0) ** np.arange(DEGREE)  # T_n(-1)
_HALVES = [
    ANALYSIS @ chebyshev.chebvander(0.5 * POINTS + at, DEGREE - 1) for at in (-0.5, 0.5)
]  # coefficients -> coefficients on the lower and the upper half of the panel
MAX_PANELS = 240  # of a level
NARROWEST = 1e-14  # panel width, as a share of the largest edge
GUARD = 3.0  # factor on estimated errors
ROUNDING = 2e-15  # of a sample, Lebesgue's constant of POINTS included


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A piecewise polynomial, zero outside its edges."""

    edges: Floats  # increasing, shape (m + 1,)
    coefficients: Floats  # of Chebyshev polynomials, shape (m, 16)
    relative: float  # largest error as a share of the value, where the share asked for was reached
    error: float  # and elsewhere, estimates both


def halve(function: Piecewise, chosen: NDArray[np.bool_]) -> Piecewise:
    """Return the same function on panels of which the chosen ones are cut in two."""
    edges, c = function.edges, function.coefficients
    repeats = 1 + chosen
    middles = 0.5 * (edges[:-1] + edges[1:])[chosen]
    parts = np.repeat(c, repeats, axis=0)
    first = np.flatnonzero(np.repeat(chosen, repeats))[::2]
    parts[first], parts[first + 1] = (c[chosen] @ half.T for half in _HALVES)
    return Piecewise(
        np.sort(np.concatenate([edges, middles])), parts, function.relative, function.error
    )


def _points(lo: Floats, hi: Floats) -> Floats:
    x = 0.5 * (lo + hi)[:, None] + 0.5 * (hi - lo)[:, None] * POINTS
    return np.ascontiguousarray(x.ravel())


def judge(values: Floats, at_lo: Floats, at_hi: Floats) -> tuple[Floats, Floats, Floats]:
    """Return coefficients, estimated errors and least values of panels from their samples."""
    c = values @ ANALYSIS.T
    size = np.abs(c)
    top, middle = size[:, -2:].max(axis=1), size[:, 6:8].max(axis=1)
    decay = np.minimum((top / np.maximum(middle, 1e-300)) ** 0.125, 0.9)
    seen = np.maximum(np.abs(at_lo - c @ _SIGNS), np.abs(at_hi - c.sum(axis=1)))
    error = GUARD * np.maximum(2.0 * top * decay / (1.0 - decay), seen)
    error += ROUNDING * np.abs(values).max(axis=1)
    least = np.minimum(np.abs(values).min(axis=1), np.minimum(np.abs(at_lo), np.abs(at_hi)))
    return c, error, least


def interpolate(
    function: Callable[[Floats, int], Floats], edges: Floats, relative: float, floor: float
) -> Piecewise:
    """Represent a function to a relative error, or `floor` where that is less; kinks are edges."""
    # `function` takes how many parts of a rule its values are by: one at nodes, two at ends

    def look(lo: Floats, hi: Floats) -> tuple[tuple[Floats, ...], NDArray[np.bool_]]:
        values = function(_points(lo, hi), 1).reshape(-1, DEGREE)
        ends = function(np.concatenate([lo, hi]), 2)
        c, error, least = judge(values, ends[: lo.size], ends[lo.size :])
        tiny = hi - lo <= NARROWEST * np.maximum(np.abs(lo), np.abs(hi))
        return (c, error, least), (error > np.maximum(relative * least, floor)) & ~tiny

    refusal = f"direct: the recursion over steps needs more than {MAX_PANELS} panels"
    lo, hi, c, error, least = halved(edges, look, MAX_PANELS, refusal)
    return assemble(np.append(lo, hi[-1:]), c, error, least, relative)


def assemble(
    edges: Floats, coefficients: Floats, error: Floats, least: Floats, relative: float
) -> Piecewise:
    """Make a piecewise polynomial; the errors of the panels that reached `relative` are shares."""
    good = error <= relative * least
    share = error[good] / np.maximum(least[good], 1e-300)
    return Piecewise(
        edges, np.ascontiguousarray(coefficients), float(share.max(initial=0.0)),
        float(error[~good].max(initial=0.0)),
    )  # fmt: skip


@dataclass(frozen=True)
class Prepared:
    """One distinct step: its law with nodes for all tilts needed, its anchor, K at the tilts."""

    law: PrivacyLoss
    count: int
    anchor: float
    log_mgf: float
    tilts: Floats
    values: Floats
    top: float
    roughness: tuple[int, int]

    @classmethod
    def of(cls, step: Step, tilt: float, curvature: float) -> Prepared:
        """Prepare a step for a tilt; `curvature` says how far around it tilts may matter."""
        law = step.loss
        most = min(tilt + 6.0 / math.sqrt(curvature), tilt + 0.9 * (law.strip[1] - tilt))
        above = np.linspace(tilt, max(most, tilt), BEYOND + 1)[1:]
        law = law.covering(-1.0, float(above[-1]))
        log_mgf, mean = law.generating(tilt)[:2]
        ends = np.array(law.support)
        ends = ends[np.isfinite(ends)]
        anchor = float(ends[np.argmin(np.abs(ends - mean))]) if ends.size else mean
        tilts = np.concatenate([tilt * TILTS, above])
        loss, log_weight = law.nodes()
        values = np.array(
            [log_total(log_weight + t * (loss - anchor)) + law.unresolved(t) for t in tilts]
        )
        return cls(
            law=law, count=step.count, anchor=anchor, log_mgf=log_mgf, tilts=tilts, values=values,
            top=law.support[1] - anchor, roughness=(law.atom_loss.size, ends.size),
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Intervals beyond which g_0, ..., g_{k-1} are below the floor, zero, or out of reach."""

    lo: Floats
    hi: Floats
    tilt: float
    tilts: Floats
    done: Floats  # K_1 + .. + K_j at the tilts, minus its value at `tilt`; shape (k, tilts)
    tops: Floats  # largest sums of the losses done, and of the rest
    tops_rest: Floats

    @classmethod
    def of(cls, steps: Sequence[Prepared], tilt: float, target: float, floor: float) -> Plan:
        """Choose intervals beyond which nothing above `floor` comes to the target."""
        rows = np.concatenate([np.repeat(s.values[None], s.count, axis=0) for s in steps])
        tops = np.concatenate([np.full(s.count, s.top) for s in steps])
        tilts = steps[0].tilts
        rows -= rows[:, tilts == tilt]
        done = np.concatenate([np.zeros((1, tilts.size)), np.cumsum(rows, axis=0)])[:-1]
        tops_done = np.concatenate([[0.0], np.cumsum(tops)[:-1]])
        tops_rest = np.cumsum(tops[::-1])[::-1]
        bound = done + log_peak(tilts) - math.log(floor)
        above, below = tilts > tilt, tilts < tilt
        hi = (bound[:, above] / (tilts[above] - tilt)).min(axis=1)
        lo = -(bound[:, below] / (tilt - tilts[below])).min(axis=1)
        hi = np.minimum(hi, tops_done)
        repeated = max(s.count for s in steps) >= SHARED
        if not repeated:  # a little room, lest rounding at the largest loss cuts off mass
            room = MARGIN / tilt * np.arange(lo.size, 0, -1)
            lo = np.maximum(lo, target - tops_rest - room)
        start = 0
        for s in steps:  # repetitions of a step share their panels
            run = slice(start + 2, min(start + s.count + 1, lo.size))
            if repeated and lo[run].size:
                lo[run], hi[run] = lo[run].min(), hi[run].max()
            start += s.count
        lo = np.minimum(lo, hi - 1e-9 / tilt)
        return cls(lo, hi, tilt, tilts, done, tops_done, tops_rest)

    def left_out(self, target: float | None = None, levels: int | None = None) -> float:
        """Bound on what the first levels together leave out, at any epsilon or at one."""
        peaks = log_peak(self.tilts)
        move = self.tilts - self.tilt
        ends = np.stack([self.lo, self.hi])[:, :, None]
        log_value = self.done - move * ends + peaks
        below = log_value[0][:, move <= 0].min(axis=1)
        above = log_value[1][:, move >= 0].min(axis=1)
        above[self.hi >= self.tops] = -np.inf
        if target is not None:
            below[self.lo <= target - self.tops_rest] = -np.inf
        return float(np.exp(np.minimum([below, above], 0.0))[:, :levels].sum())

    def edges(self, level: int, kinks: Floats) -> Floats:
        """Return first panels of a level: equal ones, with the kinks as edges."""
        lo, hi = self.lo[level], self.hi[level]
        inner = kinks[(kinks > lo) & (kinks < hi)]
        plain = np.linspace(lo, hi, FIRST_PANELS + 1)
        if not lo < plain[1] < hi:
            raise NumericError(
                f"direct: losses within {hi - lo:.1g} of {hi:g} are not apart in doubles"
            )
        if inner.size:
            far = np.abs(plain[1:-1, None] - inner).min(axis=1) > 0.25 * (hi - lo) / FIRST_PANELS
            plain = np.concatenate([[lo], plain[1:-1][far], [hi]])
        return np.unique(np.concatenate([plain, inner]))


class Recursion:
    """g_{k-1} of a composition at one tilt, ready for any epsilon near the one it was made for."""

    def __init__(
        self, steps: Sequence[Step], epsilon: float, goal: float = GOAL, work: int = MOST_WORK
    ) -> None:
        """Run the recursion for all steps but the last, to a relative error of about `goal`."""
        composed = ComposedLoss(steps)
        tilt = solve(composed, saddle_target(epsilon), epsilon).t
        tilt = min(tilt, (1.0 - 1e-3) * composed.strip[1])
        self.tilt = sharp_tilt((s.loss for s in steps), tilt)
        self._goal = goal
        curvature = float(composed.cumulants(self.tilt, 2)[2]) + self.tilt**-2
        self.log_error = composed.log_mass_error(self.tilt)
        self._steps = [Prepared.of(s, self.tilt, curvature) for s in steps]
        self.log_mgf = sum(s.count * s.log_mgf for s in self._steps)  # as their tables have it
        self._steps.sort(key=lambda s: s.roughness)
        self.shift = sum(s.anchor * s.count for s in self._steps)
        log_value = -0.5 * math.log(2.0 * math.pi * curvature)
        log_value -= math.log(self.tilt * (1.0 + self.tilt))
        before = math.inf
        self._left = work
        for _ in range(PASSES):
            self._run(epsilon - self.shift, math.exp(log_value))
            value = self.value(epsilon)[0]
            stuck = self._floor > 0.5 * before
            if value > 0.0 and (self._floor <= max(SETTLED, self._goal) * value or stuck):
                return
            if stuck:
                break
            before = self._floor
            found = math.log(value) - 5.0 if value > self._floor else -math.inf
            log_value = min(max(found, log_value - 40.0), log_value - 5.0)
        raise NumericError("direct: the recursion over steps did not find the size of delta")

    @property
    def detail(self) -> dict[str, float]:
        """What was done, for readers of an answer."""
        panels = self._function.edges.size - 1
        return {"tilt": self.tilt, "panels": panels, "floor": self._floor}

    def log_value(self, epsilon: float) -> tuple[float, float]:
        """Return log H(epsilon) and a bound on the relative error of H."""
        value, error = self.value(epsilon)
        if not value > 0.0:
            return -math.inf, math.inf
        exponent = self.log_mgf - self.tilt * epsilon
        rounding = 4e-16 * (abs(self.log_mgf) + abs(self.tilt * epsilon))
        return math.log(value) + exponent, error + self.log_error + rounding

    def value(self, epsilon: float) -> tuple[float, float]:
        """Return g_k(epsilon) and a bound on its relative error."""
        u = np.array([epsilon - self.shift])
        coefficients = self._function.coefficients.ravel()
        value, again = (
            float((self._last.act(u, self._function.edges, parts) @ coefficients)[0])
            for parts in (1, 2)
        )
        if not value > 0.0:
            return 0.0, math.inf
        left_out = self._plan.left_out(epsilon - self.shift)
        error = self._relative + 2.0 * abs(again / value - 1.0) + 1e-14
        return value, error + (self._floor + left_out) / value

    def level(self, count: int) -> tuple[Floats, Floats, Floats]:
        """Return H(epsilon) for `count` repetitions of the one distinct step.

        Args:
            count: below the repetitions that this was made for, which are at least `SHARED`.

        Returns:
            Edges and coefficients of g_count, of epsilon - shift; shift, tilt, log_mgf, and bounds
            on the relative error of g and on that besides.
        """
        (step,) = self._steps
        function, relative, floor = self._levels[count]
        share = count / step.count
        relative += share * self.log_error + 1e-14
        floor += self._plan.left_out(levels=count)
        facts = [step.anchor * count, self.tilt, share * self.log_mgf, relative, floor]
        return function.edges, function.coefficients, np.array(facts)

    def _run(self, target: float, size: float) -> None:
        """Represent g_1, ..., g_{k-1} with floors in units of `size`, the guess of g_k."""
        count = sum(s.count for s in self._steps)
        most = math.exp(float(log_peak(self.tilt)))
        tolerance = max(s.law.tolerance for s in self._steps)  # no smaller share is resolved
        floor = max(FLOOR, FLOOR_SHARE * self._goal, tolerance) * size / count
        floor = max(floor, *(s.law.unresolved(self.tilt) for s in self._steps))
        plan = self._plan = Plan.of(self._steps, self.tilt, target, floor)
        # what the rounding of losses does to a function of slope t
        self._rounding = 4e-16 * self.tilt * (abs(target) + max(abs(s.anchor) for s in self._steps))
        relative = max(1e-13, min(self._goal / count, 0.1 * self._goal), 10.0 * self._rounding)
        self._function = _payoff(self.tilt, plan.lo[0], relative, floor)
        self._relative, self._floor = self._function.relative, self._function.error
        self._levels: list[tuple[Piecewise, float, float]] = []
        level, kinks = 0, np.zeros(1)
        for step in self._steps:
            table = tabulate(step.law, self.tilt, step.log_mgf, step.anchor, floor / most)
            matrix: tuple[Floats, Floats] | None = None
            kinks_before = kinks
            for turn in range(step.count):
                level += 1
                self._relative += table.relative + self._rounding
                self._floor += table.error * most
                self._levels.append((self._function, self._relative, self._floor))
                if level == count:
                    self._last = table
                    return
                kinks = _sums(kinks, table.kinks)
                found = None
                if turn >= 2 and step.count >= SHARED:
                    matrix, found = self._repeat(table, matrix, step.count, relative, floor)
                if found is None:
                    settled = turn == 1 and step.count >= SHARED  # panels for all that follow
                    at = _repeated(kinks_before, table.kinks, step.count) if settled else kinks
                    edges = plan.edges(level, at)
                    act = partial(self._values, table, self._function)
                    found = interpolate(act, edges, relative, floor)
                self._function = found
                self._relative += found.relative
                self._floor += found.error

    def _repeat(
        self, table: Tabulated, matrix: tuple[Floats, Floats] | None, turns: int, relative: float,
        floor: float,
    ) -> tuple[tuple[Floats, Floats] | None, Piecewise | None]:  # fmt: skip
        """Return one level more of a repeated step, on panels halved until they resolve it."""
        # The matrix, to nodes and to ends of panels, serves all levels on the same panels; `turns`
        # is how often the step is repeated. The function moves on from level to level: neighbours
        # of rough panels are halved with them.
        for _ in range(HALVINGS):
            edges, c = self._function.edges, self._function.coefficients.ravel()
            matrix = matrix or self._matrix(table, edges, turns)
            spend(PRODUCT * matrix[0].size)
            values, ends = (matrix[0] @ c).reshape(-1, DEGREE), matrix[1] @ c
            c, error, least = judge(values, ends[:-1], ends[1:])
            rough: NDArray[np.bool_] = error > np.maximum(4.0 * relative * least, 4.0 * floor)
            if not rough.any():
                return matrix, assemble(edges, c, error, least, 4.0 * relative)
            rough[1:] |= rough[:-1]
            rough[:-1] |= rough[1:]
            if edges.size + rough.sum() > MAX_PANELS:
                break
            self._function, matrix = halve(self._function, rough), None
        return None, None

    def _matrix(self, table: Tabulated, edges: Floats, turns: int) -> tuple[Floats, Floats]:
        """What a step does on one set of panels: values at their nodes, and again at their ends."""
        points = _points(edges[:-1], edges[1:])
        if float(points.size) ** 2 * turns > PRODUCTS:
            raise NumericError(f"direct: {turns} products with a matrix are too many")
        self._pay(table, points.size + edges.size, edges.size - 1)
        return table.act(points, edges), table.act(edges, edges, 2)

    def _values(self, table: Tabulated, function: Piecewise, u: Floats, parts: int) -> Floats:
        """The next function at some places."""
        self._pay(table, u.size, function.edges.size - 1)
        return np.asarray(table.act(u, function.edges, parts) @ function.coefficients.ravel())

    def _pay(self, table: Tabulated, places: int, panels: int) -> None:
        """Refuse what places times panels, of a step and of the function, cost beyond that."""
        work = int(places * (table.loss.shape[0] + panels + ATOM * table.atom_loss.size))
        spend(PLACE * work)
        self._left -= work
        if self._left < 0:
            raise NumericError("direct: the recursion over steps has too many scales")


def _payoff(tilt: float, lo: float, relative: float, floor: float) -> Piecewise:
    """exp(tilt v) (1 - exp(v)) on (lo, 0)."""

    def value(v: Floats, parts: int) -> Floats:
        return np.asarray(-np.exp(tilt * v) * np.expm1(v))

    return interpolate(value, np.linspace(lo, 0.0, FIRST_PANELS + 1), relative, floor)


def _sums(a: Floats, b: Floats) -> Floats:
    """All sums of a kink of each; none once there are too many."""
    return _distinct(np.add.outer(a, b).ravel())


def _distinct(kinks: Floats) -> Floats:
    """Kinks that are apart in doubles; none if they are too many."""
    kinks = np.unique(kinks)
    if kinks.size > 1:
        apart = np.diff(kinks) > 1e-12 * np.abs(kinks).max()
        kinks = kinks[np.append(True, apart)]
    return kinks if kinks.size <= MAX_KINKS else kinks[:0]


def _repeated(start: Floats, kinks: Floats, count: int) -> Floats:
    """Kinks after 1, ..., count repetitions, or of the last of them alone."""
    out, levels = start, [start[:0]]
    for _ in range(count):
        out = _sums(out, kinks)
        levels.append(out)
    together = _distinct(np.concatenate(levels))
    return together if together.size else out


LONG = 200  # steps in all that are gone through one by one
RECURSIONS = 4  # each for the counts that the one before did not reach
LEVEL_GOAL = 0.1  # relative error of delta aimed at, in units of the largest that is accepted
TURNS = 64  # of a bisection


def epsilons(step: Step, counts: Floats, targets: Floats, near: float, widest: float) -> Floats:
    """Return lower bound, estimate and upper bound of epsilon at each count.

    Args:
        step: the one distinct step of a repetition.
        counts: repetitions, increasing, all >= 1.
        targets: log of the finite part of delta to stay under, and to exceed, shape (2, n).
        near: epsilon near that of the largest count.
        widest: relative error of delta that is accepted.

    Returns:
        Shape (3, n), nan where nothing was found.
    """
    out = np.full((3, counts.size), np.nan)
    left = np.flatnonzero(counts * step.count <= LONG)
    for _ in range(RECURSIONS):
        if not left.size:
            break
        most = max(int(counts[left[-1]]) * step.count + 1, SHARED)
        try:
            recursion = Recursion((Step(step.loss, most),), near, LEVEL_GOAL * widest, LESS_WORK)
        except (NumericError, UnsupportedError):
            break
        answered = 0
        for i in left[::-1].tolist():
            level = recursion.level(int(counts[i]) * step.count)
            out[:, i] = _search(*level, targets[:, i].copy(), widest)
            if np.isnan(out[:, i]).any():
                break
            near, answered = float(out[1, i]), answered + 1
        left = left[: left.size - answered]
        if not answered:
            break
    return out


@subroutine("UniTuple(float64, 3)(float64[::1], float64[:,::1], float64[::1], float64)")
def _log_value(edges, coefficients, facts, epsilon):  # type: ignore[no-untyped-def]
    """Return lower bound, estimate and upper bound of log H."""
    shift, tilt, log_mgf, relative, floor = facts
    u = epsilon - shift
    m = min(max(np.searchsorted(edges, u, side="right") - 1, 0), edges.size - 2)
    x = 2.0 * (u - edges[m]) / (edges[m + 1] - edges[m]) - 1.0
    value = series(coefficients[m], min(1.0, max(-1.0, x)))[0]
    exponent = log_mgf - tilt * epsilon
    if not value >= -np.inf:
        return -np.inf, np.nan, np.inf
    if value <= 0.0:
        return -np.inf, -np.inf, exponent + math.log(2.0 * floor) if floor > 0.0 else np.inf
    rounding = 2.0 * EPS * (abs(log_mgf) + abs(tilt * epsilon) + tilt * abs(shift))
    error = relative + floor / value + rounding
    middle = math.log(value) + exponent
    low = middle + math.log1p(-error) if error < 1.0 else -np.inf
    return low, middle, middle + math.log1p(error)


@compiled(
    "float64[::1](float64[::1], float64[:,::1], float64[::1], float64[::1], float64)",
    makes_arrays=True,
)
def _search(edges, coefficients, facts, targets, widest):  # type: ignore[no-untyped-def]
    """Return [lower, estimate, upper] of epsilon: where each side of H falls to its target."""
    # nan where the error is larger than `widest`, and where the function does not reach the target.
    out = np.full(3, np.nan)
    least, most = max(0.0, edges[0] + facts[0]), edges[-1] + facts[0]
    if not most > least:
        return out
    if least == 0.0 and _log_value(edges, coefficients, facts, 0.0)[2] <= targets[0]:
        return np.zeros(3)
    for side in range(3):
        low, high, target = least, most, targets[1 if side == 0 else 0]
        for _ in range(TURNS):
            at = 0.5 * (low + high)
            sides = _log_value(edges, coefficients, facts, at)
            value = sides[0] if side == 0 else sides[1] if side == 1 else sides[2]
            low, high = (low, at) if value <= target else (at, high)
        out[side] = low if side == 0 else high
    sides = _log_value(edges, coefficients, facts, out[1])
    known = (out[0] > least or least == 0.0) and out[2] < most
    if not (known and sides[2] - sides[0] <= widest and abs(sides[1] - targets[0]) <= widest):
        out[:] = np.nan
    return out
