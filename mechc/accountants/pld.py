"""Numerical composition of privacy loss distributions with proven relative bounds.

Every step's loss is put on one mesh twice, by a dominating and by a dominated law
(`loss.discretise`), both are composed by a tilted transform (`fft`), and what the finite period
aliases is bounded and subtracted. The discretisation adds k h^2 t(t+1)/12 to the log of the upper
value and takes about k h^2 t(t+1)/15 from the lower one (1/24 where pools are as wide as the mesh,
1/6 where twice), t being the saddle point: that is what the mesh is chosen by. Where all losses are
lattices, there is no discretisation. Where rare large losses meet many small ones no tilt
helps, and steps are composed without a transform, see `convolution`.

The mesh is a common step and an offset for every law (`align`). Atoms on mesh points cost nothing;
an atom a share x of the step above its point costs the lower bound x * step, the only error of
first order in the step, so that a good common step is worth a search. With two atoms it is exact,
with d it is a simultaneous approximation with misses of order (steps tried)^(-1/(d-1)). A law
without atoms is laid so that its largest loss is half a step above the highest point: losses that
pile up there (an extremum of the loss inside the output) then have a pool of their own.

The window, tilt c and period T, keeps small the images in S(eps) = sum_m exp(c m T) H(eps + m T):
those to the right (m > 0) are bounded by Chernoff, H(x) <= B_s exp(-s(x - eps)) with
B_s = exp(K(s) - s eps) s^s / (1+s)^(1+s); those to the left are known up to a remainder,
H(x) = M(0) - e^x M(-1) + r(x), r(x) <= exp(K(-u) + u x) (u-1)^(u-1) / u^u for u > 1. The search
only chooses; what is proven is proven by evaluating the bounds on the grid laws.

This is the method for losses that have atoms as well as a density. Sources: Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022 (connect the dots); Keich 2005 (tilted transform).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.contour import common_lattice
from mechc.accountants.contours import saddle
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.convolution import Composition
from mechc.accountants.fft import BYTES, TiltedSum, check_memory
from mechc.accountants.registry import ALIKE, KEPT, Accountant
from mechc.accountants.sparse import STEPS
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss import discretise
from mechc.loss.privacy_loss import PrivacyLoss, Step, distinct
from mechc.numeric.allowance import MAX_WORK, OutOfWorkError, allowed, share
from mechc.numeric.logs import log1mexp, log_add, log_of, log_peak, log_subtract
from mechc.numeric.rounding import EXACT, U
from mechc.protocol import Floats

_REST = 0.9  # of the work left, for a finer mesh than the one at hand
_LEAST = 2**10  # smallest transform
_COARSER = 16  # times fewer points of a first mesh, an answer if work does not suffice for more
_LONGEST = 4  # largest grid of one step, in periods, where that is a matter of choice
_USUAL = 2**20  # largest transform taken only to meet rtol
_SHARE = 0.02  # of rtol, spent on images and on what lies outside the grids
_LATTICE_SHARE = 1e-14  # the same where the mesh costs nothing
_LEAP = 20.0  # nats by which a guess of delta falls at most, from one composition to the next
_GUESSES = 6  # windows tried, each for a better guess of delta
_ABOVE, _BELOW = 1.0 / 12.0, 1.0 / 15.0  # errors of the laws, per step and h^2 t (t + 1)
_LARGEST = 60.0  # epsilon up to which steps are convolved without a tilt: no overflow
_HOPELESS = 1.0  # width in log delta from which on finer meshes are a long way off
_ENOUGH = 1e-2  # width that another way need not beat
_PART, _POINT = 0.2, 100.0  # of the work allowed, for one mesh, and of a mesh point of one law
_COARSE = 1.0  # largest predicted log(upper / lower) worth computing


class PldAccountant(Accountant):
    """Proven bounds on delta for any losses, by discretisation on a mesh."""

    def __init__(
        self, steps: Sequence[Step], *, rtol: float = 1e-6, max_bytes: int = 2**31,
        grid: int | None = None,
    ) -> None:  # fmt: skip
        """Prepare a composition.

        Args:
            steps: the distinct steps and their counts.
            rtol: relative width upper/lower - 1 that is enough. The mesh is made as fine as that
                needs, within 2**20 points; the answer's own width says what was reached.
            max_bytes: memory that a composition may take.
            grid: number of mesh points of a period, a power of two; None chooses.

        Raises:
            DeclarationError: grid is not a power of two, rtol or max_bytes is not positive.
            UnsupportedError: `grid` points need more than max_bytes.
        """
        if not rtol > 0 or not max_bytes > 0:
            raise DeclarationError(
                f"pld: rtol={rtol!r}, max_bytes={max_bytes!r}: expected positive numbers"
            )
        if grid is not None and not (isinstance(grid, int) and grid > 1 and grid.bit_count() == 1):
            raise DeclarationError(f"pld: grid={grid!r}: expected a power of two")
        check_memory(f"pld: grid={grid}", grid or 0, max_bytes)
        self._rtol, self._max_bytes, self._grid = rtol, max_bytes, grid
        self._laws, self._counts = distinct(steps)
        self._composed = ComposedLoss(steps)
        self._kept: list[_Pair | Composition] = []
        smooth = not any(law.lattice or law.atom_loss.size for law in self._laws)
        self._smooth = smooth and grid is None

    def log_delta(self, epsilon: float) -> Bound:
        """Bound log delta(epsilon) in one direction.

        Returns:
            A bound with status "proven". The estimate is where the two discretisation errors,
            which are known to leading order, cancel.

        Raises:
            UnsupportedError: no window can be proven, or the mesh that the answer needs is larger
                than max_bytes allows.
        """
        known = self.at_hand(epsilon)
        if known is not None:
            return known
        # perhaps with less work left than those before it had
        self._kept = [self._made(epsilon), *self._kept[: KEPT - 1]]
        return _narrowest([pair.bound(epsilon) for pair in self._kept])

    def at_hand(self, epsilon: float) -> Bound | None:
        """Return what compositions that are kept answer, None where another one is needed."""
        settled = self._composed.settled(epsilon, "pld")
        if settled is not None:
            return settled
        answers, serve = [], False
        for pair in self._kept:
            answers.append(pair.bound(epsilon))
            width = float(answers[-1].width)
            if width <= self._rtol:
                return answers[-1]
            serve |= width <= ALIKE * pair.width < math.inf
        return _narrowest(answers) if serve else None

    def _made(self, epsilon: float) -> _Pair | Composition:
        """The narrower of the steps under a tilt and, where that is wide, term by term."""
        # No tilt makes epsilon likely where it takes one rare large loss beside many small ones.
        convolved = self._smooth and 0.0 < epsilon < _LARGEST
        ways: list[Callable[[float], _Pair | Composition]] = [self._tilted]
        if convolved:  # which is sooner for many laws
            ways.insert(0 if len(self._laws) > STEPS else 1, self._term_by_term)
        made: list[_Pair | Composition] = []
        for way in ways:
            try:
                made.append(way(epsilon))
            except (UnsupportedError, NumericError, OutOfWorkError):
                if way == self._tilted and not made:  # no window, or max_bytes
                    raise
            if made and made[-1].width <= _ENOUGH:
                break
        return min(made, key=lambda pair: pair.width)

    def _term_by_term(self, epsilon: float) -> Composition:
        """The steps as they are, on a mesh as fine as the work allows."""
        return Composition(self._composed, self._laws, self._counts, epsilon)

    def _tilted(self, epsilon: float) -> _Pair:
        """The steps under a tilt, on finer meshes where a coarse one says that they help."""
        window, pair = self._windowed(epsilon)
        return pair if self._smooth and pair.width > _HOPELESS else self._refined(window, pair)

    def _windowed(self, epsilon: float) -> tuple[Window, _Pair]:
        """A window whose guess of delta holds, which sets what images may cost, and a coarse mesh.

        On a lattice there is no finer one.
        """
        lattice = common_lattice([*map(Step, self._laws, self._counts)])
        step = None if lattice is None else lattice.step
        share = _SHARE * min(self._rtol, 1e-3) if step is None else _LATTICE_SHARE
        log_delta = 0.0
        for _ in range(_GUESSES):
            window = choose(self._composed, epsilon, share, log_delta)
            pair = self._coarsest(window) if step is None else self._on_lattice(window, step)
            if pair.width <= self._rtol or pair.log_delta > window.log_delta - 1.0:
                break
            log_delta = max(pair.log_delta - 0.5, window.log_delta - _LEAP)
        return window, pair

    def _coarsest(self, window: Window) -> _Pair:
        """A first mesh, an answer if work does not suffice for more."""
        reaches, size = reach(self._composed, self._laws, window), self._size(window)
        if self._grid is None:
            size = max(size // _COARSER, _LEAST)
        while True:
            try:
                return self._discretised(window, reaches, size)
            except UnsupportedError:  # too coarse for what atoms lie off the mesh
                if self._grid is not None or not size < self._largest():
                    raise
                size = min(4 * size, self._largest())

    def _refined(self, window: Window, pair: _Pair) -> _Pair:
        """Refine the mesh until the width is what was asked for or does not come from the mesh."""
        if self._grid is not None or pair.is_exact:
            return pair
        reaches, size = reach(self._composed, self._laws, window), pair.size
        wanted = max(self._size(window), 4 * size)
        while pair.width > self._rtol and size < self._largest():
            size, last = min(wanted, self._largest()), pair.width
            try:
                with share(_REST):
                    pair = self._discretised(window, reaches, size)
            except (OutOfWorkError, UnsupportedError):
                break
            if pair.width > 0.6 * last:
                break
            wanted = size * (2 if pair.width < 4.0 * self._rtol else 4)
        return pair

    def _largest(self) -> int:
        work = _PART * min(allowed(), 100.0 * MAX_WORK) / (_POINT * len(self._laws))
        room = int(min(self._max_bytes // BYTES, max(work, _LEAST)))
        return min(_USUAL, 1 << max(room.bit_length() - 1, 1))

    def _size(self, window: Window) -> int:
        """Number of points for which the bias law predicts a width within rtol."""
        if self._grid is not None:
            return self._grid
        finest = window.period * math.sqrt(self._curvature(window))
        wanted = min(finest / math.sqrt(0.5 * min(self._rtol, 0.1)), float(self._largest()))
        wanted = max(wanted, finest / math.sqrt(0.1 * _COARSE), float(_LEAST))
        return 1 << math.ceil(math.log2(min(wanted, 2.0**60)))

    def _curvature(self, window: Window) -> float:
        """Leading coefficient of log(upper / lower) in the squared step, CtD and pools together."""
        return self._composed.count * window.saddle * (window.saddle + 1.0) * (_ABOVE + _BELOW)

    def _discretised(self, window: Window, reaches: Sequence[Reach], size: int) -> _Pair:
        largest = [law.support[1] for law in self._laws]
        curvature = self._curvature(window)
        mesh = align(self._atoms(window), largest, window.period / size, curvature)
        predicted = curvature * mesh.step**2 + mesh.miss
        ranges = []
        for r, offset in zip(reaches, mesh.offsets, strict=True):
            lo = max(r.lo, min(r.at_least, r.hi - _LONGEST * size * mesh.step))
            if not max(abs(lo - offset), abs(r.hi - offset)) < EXACT * mesh.step:
                raise NumericError(
                    f"pld: losses from {lo:g} to {r.hi:g} in steps of {mesh.step:g} exceed integers"
                )
            first = math.floor((lo - offset) / mesh.step) - 1
            ranges.append((first, math.ceil((r.hi - offset) / mesh.step) + 1))
        points = max(last - first for first, last in ranges) + 1
        if predicted > _COARSE or max(points, size) * BYTES > self._max_bytes:
            needed = max(size, points, window.period * math.sqrt(curvature))
            raise UnsupportedError(
                f"pld: {self._composed.count} steps at epsilon={window.epsilon:g} need a mesh of "
                f"{needed:.2g} points or {needed * BYTES:.2g} bytes (max_bytes={self._max_bytes},"
                f" grid={self._grid})"
            )
        upper, lower = (TiltedSum(window.tilt, size, window.probes) for _ in range(2))
        for j, (first, last) in enumerate(ranges):
            law = self._laws[j].covering(window.left, window.right)
            cells = discretise.Cells.cut(law, mesh.offsets[j], mesh.step, first, last - first + 1)
            lowest = float(cells.points[0]) + discretise.following_error(law)
            tails = (reaches[j].log_below(lowest), reaches[j].log_above)
            upper.add(discretise.dominating(cells, tails), self._counts[j])
            lower.add(discretise.dominated(cells, window.tilt), self._counts[j])
        upper.close()
        lower.close()
        return _Pair(self._composed, window, lower, upper, predicted, exact=False)

    def _on_lattice(self, window: Window, step: float) -> _Pair:
        size = 1 << max(math.ceil(math.log2(window.period / step + 1.0)), 4)
        what = f"pld: the lattice of step {step:g} in a period of {window.period:g}"
        check_memory(what, size, self._max_bytes)
        laws = [law.covering(window.left, window.right) for law in self._laws]
        if any(law.lattice is None for law in laws):  # rounding left the atoms further out off it
            return self._coarsest(window)
        exact = (
            (discretise.exact(law, step), k) for law, k in zip(laws, self._counts, strict=True)
        )
        total = TiltedSum.of(exact, window.tilt, size, window.probes)
        return _Pair(self._composed, window, total, total, 0.0, exact=True)

    def _atoms(self, window: Window) -> list[tuple[Floats, Floats]]:
        """Atoms and the error that a miss of one unit of loss in each of their hits makes."""
        t0 = window.saddle
        table = self._composed.by_step(t0, 0)[:, 0]
        return [
            (law.atom_loss, t0 * k * np.exp(law.atom_log_mass + t0 * law.atom_loss - log_m))
            for law, k, log_m in zip(self._laws, self._counts, table, strict=True)
        ]


def _narrowest(answers: list[Bound]) -> Bound:
    return min(answers, key=lambda answer: float(answer.width))


class _Pair:
    """A dominating and a dominated composition, ready for any epsilon near the window's."""

    def __init__(
        self, composed: ComposedLoss, window: Window, lower: TiltedSum, upper: TiltedSum,
        predicted: float, *, exact: bool,
    ) -> None:  # fmt: skip
        self._composed, self._window, self.predicted = composed, window, predicted
        self._lower, self._upper, self.is_exact = lower, upper, exact
        self.width = float(self.bound(window.epsilon).width)
        self.log_delta = _finite(upper, window, window.epsilon, 1.0)[1]
        self.size = upper.size

    def bound(self, epsilon: float) -> Bound:
        """Combine both sides, images, rounding and the mass at infinity."""
        upper, above = _finite(self._upper, self._window, epsilon, 1.0)
        lower, below = _finite(self._lower, self._window, epsilon, -1.0)
        outer = self._composed.outer(epsilon)
        log_infinite = max(log1mexp(self._upper.log_finite), self._composed.log_infinite)
        top = min(log_add(log_infinite + 16 * U, upper), outer.upper)
        bottom = max(self._composed.with_infinite(lower) - 16 * U, outer.lower)
        share = 0.5 if self.is_exact else _BELOW / (_ABOVE + _BELOW)
        middle = share * above + (1 - share) * below if below > -math.inf else above
        estimate = min(max(self._composed.with_infinite(middle), bottom), top)
        detail = {"step": self._upper.step, "points": self._upper.size,
                  "period": self._upper.period, "tilt": self._upper.tilt,
                  "predicted_width": self.predicted, "exact_lattice": self.is_exact}  # fmt: skip
        return Bound(bottom, estimate, top, "pld", "proven", detail)


_TRIED = 4000  # candidate steps
_STRETCH = 1.25  # largest step tried, in units of the smallest
_HEAVIEST = 48  # atoms of one law that count
_EXACT = 1e-7  # a miss below this share of the step is rounding


class Mesh(NamedTuple):
    """A step and one offset a law; `miss` is the weighted sum of what the atoms lie above."""

    step: float
    offsets: list[float]
    miss: float


def align(
    atoms: Sequence[tuple[Floats, Floats]],
    largest: Sequence[float],
    smallest: float,
    curvature: float,
) -> Mesh:
    """Choose the step and offsets.

    Args:
        atoms: per law, losses and weights of its atoms; weights are expected numbers of hits.
        largest: per law, ess sup of the loss.
        smallest: smallest step allowed; the answer is at most 1.25 times larger.
        curvature: cost of the mesh itself is curvature * step**2, where an atom's is
            weight * miss; both are errors of the composed loss's logarithm.

    Returns:
        The cheapest of a few thousand candidates.
    """
    heavy = []
    best, gap = 0.0, 0.0  # distance of the two heaviest atoms, where the second matters most
    for loss, weight in atoms:
        order = np.argsort(-weight, kind="stable")[:_HEAVIEST]
        heavy.append((loss[order], weight[order]))
        if order.size > 1 and weight[order[1]] > best:
            best, gap = float(weight[order[1]]), abs(float(loss[order[0]] - loss[order[1]]))
    least, most = (int(gap / (factor * smallest)) for factor in (_STRETCH, 1.0))
    steps = [smallest]
    if most:
        counts = np.linspace(max(least, 1), most, min(_TRIED, most - least + 1)).astype(np.int64)
        steps = [gap / count for count in np.unique(counts)[::-1].tolist()]
    meshes = (_laid(heavy, largest, step) for step in steps)
    return min(meshes, key=lambda mesh: curvature * mesh.step**2 + mesh.miss)


def _laid(heavy: Sequence[tuple[Floats, Floats]], largest: Sequence[float], step: float) -> Mesh:
    """Put the lowest of what the atoms of a law lie above their points on a point."""
    offsets, miss = [], 0.0
    for (loss, weight), top in zip(heavy, largest, strict=True):
        if loss.size == 0:
            offsets.append(top - 0.5 * step if math.isfinite(top) else 0.0)
            continue
        index = (loss - loss[0]) / step
        above = index - np.round(index)
        above[np.abs(above) < _EXACT] = 0.0
        lowest = float(above.min())
        offsets.append(float(loss[0]) + step * lowest)
        miss += step * float(weight @ (above - lowest))
    return Mesh(step, offsets, miss)


_EXCESS = 2.0  # nats by which Chernoff's bound on delta is usually too high, the saddle's at most
_CANCELLATION = math.log(20.0)  # nats by which the tilt may miss the saddle point
_ROUNDING = 1e-13  # of a transform, relative to delta, with a margin
_MORE_IMAGES = 64  # summed one by one; the rest is a geometric series
_RECENTRED = 6  # times that the table is moved to a better saddle point


@dataclass(frozen=True)
class Window:
    """A tilt and a period.

    Attributes:
        epsilon: the query it was made for.
        saddle: tilt t0 of the saddle point, which sets the mesh.
        log_delta: log of the guess of the finite part of delta.
        tilt: c <= t0, where the transform is taken.
        period: smallest T that keeps the images below the share asked for.
        right, left: tilts s > c and -u < -1 of the best bounds on the images.
        log_share: log of the absolute error that may be spent, share * delta.
    """

    epsilon: float
    saddle: float
    log_delta: float
    tilt: float
    period: float
    right: float
    left: float
    log_share: float

    @property
    def probes(self) -> tuple[float, float, float, float]:
        """Tilts at which `images` wants the generating function."""
        return (0.0, -1.0, self.right, self.left)


def choose(composed: ComposedLoss, epsilon: float, share: float, log_delta: float = 0.0) -> Window:
    """Find the tilt with the shortest period.

    Args:
        composed: the composition.
        epsilon: the query.
        share: part of delta that images may cost.
        log_delta: log of what is known to be about the answer, or above it.

    Raises:
        UnsupportedError: no tilt gives the loss a finite generating function to the right of 0.
    """
    t0, s, k_s = _around_saddle(composed, epsilon)
    u, rows = composed.upper_table(-1.0 - np.geomspace(0.05, 8.0 + 8.0 * t0, 14))
    k_u = rows @ composed.counts
    above = k_s - s * epsilon + log_peak(s)
    phase = k_s - epsilon * s - np.log(s) - np.log1p(s)
    guess = float(phase.min()) - 0.5 * math.log(2.0 * math.pi * _curvature(composed, t0))
    log_delta = min(log_delta, float(above.min()) - _EXCESS, guess - _EXCESS)
    log_share = math.log(share) + log_delta
    # known images cancel digits, of which the transform of many steps leaves fewer
    multiple = min(100.0, max(0.5, share / (_ROUNDING * composed.count)))
    below = k_u - u * epsilon + log_peak(-u - 1.0)
    best: tuple[float, float, float, float] | None = None
    for i in np.flatnonzero((s <= t0 * 1.0001) & (phase <= phase.min() + _CANCELLATION)):
        if i + 1 == s.size:
            continue  # no tilt to the right to bound images with
        c = float(s[i])
        right, at_right = _shortest(above[i + 1 :] - log_share, s[i + 1 :] - c)
        left, at_left = _shortest(below - log_share, c - u)
        known = -(log_delta + math.log(multiple)) / c
        period = max(right, known, min(left, -log_share / c))
        if best is None or period < best[0]:
            best = (period, c, float(s[i + 1 + at_right]), float(u[at_left]) if u.size else -1.0)
    if best is None or not math.isfinite(best[0]):
        raise UnsupportedError(f"pld: no window can be proven at epsilon={epsilon:g}")
    return Window(epsilon, t0, log_delta, best[1], best[0], best[2], best[3], log_share)


def _curvature(composed: ComposedLoss, t: float) -> float:
    """F''(t) for F(t) = K(t) - eps t - log t - log(1 + t)."""
    return max(float(composed.cumulants(t, 2)[2]), 0.0) + t**-2 + (1.0 + t) ** -2


def _around_saddle(composed: ComposedLoss, epsilon: float) -> tuple[float, Floats, Floats]:
    """Return the saddle point, and K on tilts around it."""
    # The search may stop short where a quadrature does not settle; then the table finds a better
    # point, as good as its spacing.
    t0 = saddle.solve(composed, saddle.saddle_target(epsilon), epsilon).t
    for _ in range(_RECENTRED):
        s, rows = composed.upper_table(t0 * np.geomspace(0.1, 8.0, 34))
        if s.size < 2:
            where = f"at the tilt {t0:.2g}, the saddle point of epsilon={epsilon:g}"
            raise UnsupportedError(
                f"pld: the generating function is not known to be finite {where}, so that no "
                "window can be proven"
            )
        k_s = rows @ composed.counts
        best = float(s[np.argmin(k_s - epsilon * s - np.log(s) - np.log1p(s))])
        if abs(math.log(best / t0)) < 0.3 or best == s[-1] < 4.0 * t0:
            break
        t0 = best
    return t0, s, k_s


def _shortest(excess: Floats, rate: Floats) -> tuple[float, int]:
    """Shortest period with excess <= rate * period for one of the bounds, and which."""
    if excess.size == 0:
        return math.inf, 0
    periods = np.maximum(excess / rate, 0.0)
    at = int(np.argmin(periods))
    return float(periods[at]), at


@dataclass(frozen=True, eq=False)
class Reach:
    """The range of one step's loss that a grid should cover, and what lies beyond.

    Attributes:
        lo: lower end of the range.
        hi: upper end of the range.
        at_least: a grid that has to be shorter may end here: the tilted mass below is spent, but
            the left images will be known less well.
        lowest: ess inf of the loss.
        log_above: log of a bound on P(L > hi), hidden turns of L included.
    """

    lo: float
    hi: float
    at_least: float
    lowest: float
    log_above: float
    _tilts: Floats
    _values: Floats

    def log_below(self, x: float) -> float:
        """Return the log of a Chernoff bound on P(L <= x)."""
        if x < self.lowest:
            return -math.inf
        return float((self._values - self._tilts * x).min()) + 1e-9


def reach(composed: ComposedLoss, laws: Sequence[PrivacyLoss], window: Window) -> list[Reach]:
    """Find per distinct step where its loss stops to matter, by Chernoff.

    Above: the mass becomes mass at infinity, so that all of it together may be the share asked for.
    Below: it is rounded up to the lowest point, which matters under the tilt, and under Q for what
    is known of the left images.
    """
    margin = math.log(composed.count) + math.log(4.0 * len(laws))
    s, above = composed.upper_table(window.saddle * np.geomspace(0.1, 12.0, 24))
    u, below = composed.upper_table(-np.concatenate([[0.0], np.geomspace(0.05, 64.0, 16)]))
    if s.size == 0 or u.size == 0:
        raise UnsupportedError("pld: the privacy loss has no bound on its tails")
    at_tilt = composed.by_step(window.tilt, 0)[:, 0]
    spent = window.log_share - window.log_delta - 10.0
    out = []
    for j, law in enumerate(laws):
        highest = (above[:, j] + margin - window.log_share) / s
        i = int(np.argmin(highest))
        hi, inner = float(highest[i]), float(highest[i]) - discretise.following_error(law)
        log_above = float(above[i, j] - s[i] * inner) + 1e-9
        if hi >= law.support[1]:
            hi, log_above = law.support[1], -math.inf
        tilted = (below[:, j] - at_tilt[j] + margin - spent) / (u - window.tilt)
        under_q = (below[:, j] + margin - spent) / np.minimum(u + 1.0, -1e-3)
        at_least = max(float(tilted.max()), law.support[0])
        lo = max(min(at_least, float(under_q.max())), law.support[0])
        out.append(Reach(lo, hi, at_least, law.support[0], log_above, u, below[:, j]))
    return out


def images(total: TiltedSum, window: Window, epsilon: float) -> tuple[float, float, float]:
    """Bound the images of H(epsilon) in the aliased payoff of a composed grid law.

    Returns:
        Logs of (a lower bound on the left images, an upper bound on them, an upper bound on the
        right images).
    """
    period, log_mgf = total.period, total.log_mgf
    c, s, u = window.tilt, window.right, -window.left
    mass, covered = log_mgf[0.0], log_mgf[-1.0]
    chernoff = log_mgf[-u] + float(log_peak(u - 1.0))
    least = most = -math.inf
    for m in range(1, _MORE_IMAGES + 1):
        x = epsilon - m * period
        known = mass + log1mexp(x + covered - mass)
        remainder = min(chernoff + u * x, x + covered)
        least = log_add(least, known - m * c * period)
        most = log_add(most, min(mass, log_add(known, remainder)) - m * c * period)
        if m * c * period > 60.0:
            break
    beyond = mass - log1mexp(-c * period)  # all of them at most, but for their tilt
    most = log_add(most, beyond - (m + 1) * c * period)
    # masses are off by a share of themselves, whatever their difference has left of them
    off = beyond - c * period + log_of(4.0 * total.relative)
    least, most = log_subtract(least, off), log_add(most, off)
    decay = -(s - c) * period
    right = log_mgf[s] - s * epsilon + float(log_peak(s)) + decay - log1mexp(decay)
    return least, most, right + 4.0 * total.relative


def _finite(total: TiltedSum, window: Window, epsilon: float, sign: float) -> tuple[float, float]:
    """Log of the finite part of delta on the safe side, 1 or -1, of it, and without allowances."""
    at = epsilon - sign * total.slack
    least, most, right = images(total, window, at)
    factor, value, error = total.payoff(at)
    bound = log_of(value + sign * error) + factor + sign * total.relative
    safe = log_subtract(bound, least if sign > 0.0 else log_add(most, right))
    return safe, log_subtract(log_of(value) + factor, least)
