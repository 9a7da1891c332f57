"""Numerical composition of privacy loss distributions with proven relative bounds.

Every step's loss is put on one mesh twice, by a dominating and by a dominated law (`loss.grid`),
both are composed by a tilted transform (`transform`), and what the finite period aliases is
bounded and subtracted (`window`). The discretisation adds k h^2 t(t+1)/12 to the logarithm of the
upper value and takes k h^2 t(t+1)/24 from the lower one, t being the saddle point: that is what
the mesh is chosen by. Where all losses are lattices, there is no discretisation.

The mesh is a common step and an offset for every law (`align`). Atoms on mesh points cost nothing;
an atom a share x of the step above its point costs the lower bound x * step, the only error of
first order in the step, so that a good common step is worth a search. With two atoms it is exact,
with d it is a simultaneous approximation with misses of order (steps tried)^(-1/(d-1)). A law
without atoms is laid so that its largest loss is half a step above the highest point: losses that
pile up there (an extremum of the loss inside the output) then have a pool of their own.

This is the method for losses that have atoms as well as a density. Sources: Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022 (connect the dots); Keich 2005 (tilted transform).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.fft import TiltedSum, distinct, log1mexp, log_add
from mechc.accountants.window import Reach, Window, choose, finite_lower, finite_upper, reach
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss import discretise
from mechc.loss.privacy_loss import Step
from mechc.loss.rounding import U

Floats = NDArray[np.float64]

_BYTES = 200  # of memory per mesh point, at the peak of a composition
_LEAST = 2**10  # smallest transform
_LONGEST = 4  # largest grid of one step, in periods, where that is a matter of choice
_USUAL = 2**20  # largest transform taken only to meet rtol
_SHARE = 0.02  # of rtol, spent on images and on what lies outside the grids
_LATTICE_SHARE = 1e-14  # the same where the mesh costs nothing
_KEPT = 4  # compositions remembered for other epsilons
_LEAP = 20.0  # nats by which a guess of delta falls at most, from one composition to the next
_GUESSES = 6  # windows tried, each for a better guess of delta
_COARSE = 1.0  # largest predicted log(upper / lower) worth computing
_PARTS = 33  # finest common step tried, as a part of the smallest lattice step
_SAME = 1e-12  # relative difference at which two lattice steps are the same


class PldAccountant:
    """Proven bounds on delta for any losses, by discretisation on a mesh."""

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        rtol: float = 1e-6,
        max_bytes: int = 2**31,
        grid: int | None = None,
    ) -> None:
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
        if grid is not None and (grid < 2 or grid & (grid - 1)):
            raise DeclarationError(f"pld: grid={grid!r}: expected a power of two")
        if grid is not None and grid * _BYTES > max_bytes:
            raise UnsupportedError(
                f"pld: grid={grid} needs about {grid * _BYTES} bytes, more than max_bytes="
                f"{max_bytes}"
            )
        self._rtol, self._max_bytes, self._grid = rtol, max_bytes, grid
        self._laws, self._counts = distinct(steps)
        self._composed = ComposedLoss(steps)
        self._kept: list[_Pair] = []

    def log_delta(self, epsilon: float) -> Bound:
        """Bound log delta(epsilon) in one direction.

        Args:
            epsilon: any finite real number.

        Returns:
            A bound with status "proven". The estimate is where the two discretisation errors,
            which are known to leading order, cancel.

        Raises:
            UnsupportedError: no window can be proven, or the mesh that the answer needs is larger
                than max_bytes allows.
        """
        settled = self._composed.settled(epsilon, "pld")
        if settled is not None:
            return settled
        for pair in self._kept:
            found = pair.bound(epsilon)
            if found.width <= max(self._rtol, 1.2 * pair.width):
                return found
        pair = self._compose(epsilon)
        self._kept = [pair, *self._kept[: _KEPT - 1]]
        return pair.bound(epsilon)

    def _compose(self, epsilon: float) -> _Pair:
        """Compose at a window whose guess of delta holds: it sets what images may cost."""
        step = self._lattice_step()
        share = _SHARE * min(self._rtol, 1e-3) if step is None else _LATTICE_SHARE
        log_delta = 0.0
        for _ in range(_GUESSES):
            window = choose(self._composed, epsilon, share, log_delta)
            pair = self._on_mesh(window) if step is None else self._on_lattice(window, step)
            if pair.width <= self._rtol or pair.log_delta > window.log_delta - 1.0:
                break
            log_delta = max(pair.log_delta - 0.5, window.log_delta - _LEAP)
        return pair

    def _on_mesh(self, window: Window) -> _Pair:
        """Refine the mesh until the width is what was asked for or does not come from the mesh."""
        reaches = reach(self._composed, self._laws, window)
        size, width = self._size(window), math.inf
        while True:
            pair = self._discretised(window, reaches, size)
            if self._grid is not None or pair.width <= self._rtol or pair.width > 0.6 * width:
                return pair
            if size >= self._largest():
                return pair
            width = pair.width
            size *= 2 if width < 4.0 * self._rtol else 4
            size = min(size, self._largest())

    def _largest(self) -> int:
        room = int(self._max_bytes // _BYTES)
        return min(_USUAL, 1 << max(room.bit_length() - 1, 1))

    def _size(self, window: Window) -> int:
        """Number of points for which the bias law predicts a width within rtol.

        Not more than is usual, unless the answer would be worth nothing.
        """
        if self._grid is not None:
            return self._grid
        finest = window.period * math.sqrt(self._curvature(window))
        wanted = min(finest / math.sqrt(0.5 * min(self._rtol, 0.1)), float(self._largest()))
        wanted = max(wanted, finest / math.sqrt(0.1 * _COARSE), float(_LEAST))
        return 1 << math.ceil(math.log2(min(wanted, 2.0**60)))

    def _curvature(self, window: Window) -> float:
        """Leading coefficient of log(upper / lower) in the squared step, CtD and pools together."""
        return self._composed.count * window.saddle * (window.saddle + 1.0) / 8.0

    def _discretised(self, window: Window, reaches: Sequence[Reach], size: int) -> _Pair:
        largest = [law.support[1] for law in self._laws]
        curvature = self._curvature(window)
        mesh = align(self._atoms(window), largest, window.period / size, curvature)
        predicted = curvature * mesh.step**2 + mesh.miss
        ranges = []
        for r, offset in zip(reaches, mesh.offsets, strict=True):
            lo = max(r.lo, min(r.at_least, r.hi - _LONGEST * size * mesh.step))
            if not (math.isfinite(lo - offset) and math.isfinite((r.hi - offset) / mesh.step)):
                raise NumericError(
                    f"pld: losses from {lo:g} to {r.hi:g} in steps of {mesh.step:g} exceed doubles"
                )
            first = math.floor((lo - offset) / mesh.step) - 1
            ranges.append((first, math.ceil((r.hi - offset) / mesh.step) + 1))
        points = max(last - first for first, last in ranges) + 1
        if predicted > _COARSE or max(points, size) * _BYTES > self._max_bytes:
            needed = max(size, points, window.period * math.sqrt(curvature))
            raise UnsupportedError(
                f"pld: {self._composed.count} steps at epsilon={window.epsilon:g} need a mesh of "
                f"{needed:.2g} points or {needed * _BYTES:.2g} bytes (max_bytes={self._max_bytes},"
                f" grid={self._grid})"
            )
        upper, lower = (TiltedSum(window.tilt, size, window.probes) for _ in range(2))
        for j, (first, last) in enumerate(ranges):
            law = self._laws[j].covering(window.left, window.right)
            cells = discretise.Cells.cut(law, mesh.offsets[j], mesh.step, first, last - first + 1)
            tails = (reaches[j].log_below(float(cells.points[0])), reaches[j].log_above)
            upper.add(discretise.dominating(cells, tails), self._counts[j])
            lower.add(discretise.dominated(cells, window.tilt), self._counts[j])
        upper.close()
        lower.close()
        return _Pair(self._composed, window, lower, upper, predicted, exact=False)

    def _on_lattice(self, window: Window, step: float) -> _Pair:
        size = 1 << max(math.ceil(math.log2(window.period / step + 1.0)), 4)
        if size * _BYTES > self._max_bytes:
            raise UnsupportedError(
                f"pld: the lattice of step {step:g} has {size} points in a period of "
                f"{window.period:g}, more than max_bytes={self._max_bytes} allows"
            )
        laws = [law.covering(window.left, window.right) for law in self._laws]
        if any(law.lattice is None for law in laws):  # rounding left the atoms further out off it
            return self._on_mesh(window)
        exact = (
            (discretise.exact(law, step), k) for law, k in zip(laws, self._counts, strict=True)
        )
        total = TiltedSum.of(exact, window.tilt, size, window.probes)
        return _Pair(self._composed, window, total, total, 0.0, exact=True)

    def _lattice_step(self) -> float | None:
        """A step of which all losses' lattice steps are multiples, if there is one."""
        lattices = [law.lattice for law in self._laws]
        steps = [lattice[1] for lattice in lattices if lattice is not None]
        if len(steps) < len(lattices):
            return None
        for parts in range(1, _PARTS):
            step = min(steps) / parts
            if all(abs(s / step - round(s / step)) < _SAME * s / step for s in steps):
                return step
        return None

    def _atoms(self, window: Window) -> list[tuple[Floats, Floats]]:
        """Atoms and the error that a miss of one unit of loss in each of their hits makes."""
        t0 = window.saddle
        table = self._composed.by_step(t0, 0)[:, 0]
        return [
            (law.atom_loss, t0 * k * np.exp(law.atom_log_mass + t0 * law.atom_loss - log_m))
            for law, k, log_m in zip(self._laws, self._counts, table, strict=True)
        ]


class _Pair:
    """A dominating and a dominated composition, ready for any epsilon near the window's."""

    def __init__(
        self,
        composed: ComposedLoss,
        window: Window,
        lower: TiltedSum,
        upper: TiltedSum,
        predicted: float,
        *,
        exact: bool,
    ) -> None:
        self._composed, self._window, self.predicted = composed, window, predicted
        self._lower, self._upper, self._exact = lower, upper, exact
        self.width = float(self.bound(window.epsilon).width)
        self.log_delta = finite_upper(upper, window, window.epsilon)[1]

    def bound(self, epsilon: float) -> Bound:
        """Combine both sides, images, rounding and the mass at infinity."""
        upper, above = finite_upper(self._upper, self._window, epsilon)
        lower, below = finite_lower(self._lower, self._window, epsilon)
        outer = self._composed.outer(epsilon)
        log_infinite = max(log1mexp(self._upper.log_finite), self._composed.log_infinite)
        top = min(log_add(log_infinite + 16 * U, upper), outer.upper)
        bottom = max(self._composed.with_infinite(lower) - 16 * U, outer.lower)
        share = 0.5 if self._exact else 1.0 / 3.0
        middle = share * above + (1 - share) * below if below > -math.inf else above
        estimate = min(max(self._composed.with_infinite(middle), bottom), top)
        return Bound(bottom, estimate, top, "pld", "proven", self._detail())

    def _detail(self) -> dict[str, Any]:
        return {
            "step": self._upper.step,
            "points": self._upper.size,
            "period": self._upper.period,
            "tilt": self._upper.tilt,
            "predicted_width": self.predicted,
            "exact_lattice": self._exact,
        }


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
    heavy = [_heaviest(loss, weight) for loss, weight in atoms]
    gap = _main_gap(heavy)
    steps = [smallest]
    if gap >= smallest:
        top, least = int(gap / smallest), max(1, int(gap / (_STRETCH * smallest)))
        counts = np.unique(np.linspace(least, top, min(_TRIED, top - least + 1)).astype(np.int64))
        steps = [gap / float(count) for count in counts[::-1]]
    costs = [_cost(heavy, largest, step, curvature) for step in steps]
    return min(costs, key=lambda cost: cost[0])[1]


def _heaviest(loss: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The atoms that matter, the heaviest first."""
    order = np.argsort(-weight, kind="stable")[:_HEAVIEST]
    return loss[order], weight[order]


def _main_gap(heavy: Sequence[tuple[Floats, Floats]]) -> float:
    """Distance of the two heaviest atoms of the law where the second matters most."""
    best, gap = 0.0, 0.0
    for loss, weight in heavy:
        if loss.size > 1 and weight[1] > best:
            best, gap = float(weight[1]), abs(float(loss[0] - loss[1]))
    return gap


def _cost(
    heavy: Sequence[tuple[Floats, Floats]],
    largest: Sequence[float],
    step: float,
    curvature: float,
) -> tuple[float, Mesh]:
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
    return curvature * step * step + miss, Mesh(step, offsets, miss)
