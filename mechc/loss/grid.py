"""Discrete laws on a lattice that dominate a privacy loss, or are dominated by it.

In: a `PrivacyLoss` and a mesh offset + step * integer. Out: a `GridLaw`, masses under P on mesh
points plus a mass at +inf, that answers every delta(eps), also after composition, with a value
above (`dominating`) or below (`dominated`) the true one. For a loss that is a lattice the law is
the loss itself (`exact`).

Why the bounds survive composition. delta(eps) = E_P[(1 - exp(eps - S))_+] for the sum S of the
steps' losses; the payoff grows with S and is convex in r = exp(-S). A step's law may therefore be
replaced, one step at a time and for any other steps, by

* a law with stochastically larger losses (upper bound), smaller losses (lower bound);
* a mean-preserving spread of r (upper), a mean-preserving contraction of r (lower). The contraction
  is post-processing of the output: cells of outputs are merged, or sent at random to another cell,
  so that the lower bound is the data processing inequality.

Masses of cells come with the quadrature's relative error; each law says in `slack` how far its
labels have to be moved to the safe side, per step, and the accountant does that once for the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from mechc.loss.measure import PrivacyLoss

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

ULP = 2.0**-53
_TINY = 1e-290  # masses below are treated as lost to underflow
_NEGLIGIBLE = -60.0  # log of a share of the largest tilted mass
_LEAST = 1e-300  # smallest mass of a grid law
_ROUNDS = 40


@dataclass(frozen=True, eq=False)
class GridLaw:
    """A sub-probability law of the finite loss on the points offset + step * (first + j).

    Attributes:
        offset, step: the mesh, in units of loss; step > 0.
        first: index of the first point.
        mass: masses under P, shape (n,).
        log_infinite: log of the mass at +inf, the loss's own included.
        slack: distance by which a sum of k such steps may be on the wrong side of the labels, per
            step: evaluate upper bounds at eps - k * slack, lower bounds at eps + k * slack.
        inflation: relative error of the masses, on the same terms.
    """

    offset: float
    step: float
    first: int
    mass: Floats
    log_infinite: float
    slack: float
    inflation: float

    def points(self) -> Floats:
        """Return the losses that carry the masses, shape (n,)."""
        return mesh(self.offset, self.step, self.first, self.mass.size)

    def log_mgf(self, t: float) -> float:
        """Return log sum mass * exp(t * point)."""
        kept = self.mass > 0
        if not kept.any():
            return -math.inf
        exponent = t * self.points()[kept]
        top = float(exponent.max())
        exponent -= top
        np.exp(exponent, out=exponent)
        return top + math.log(float(exponent @ self.mass[kept]))


def mesh(offset: float, step: float, first: int, count: int) -> Floats:
    """Return the `count` mesh points from index `first` on."""
    return offset + step * (first + np.arange(count, dtype=np.float64))


def dominating(
    loss: PrivacyLoss,
    offset: float,
    step: float,
    first: int,
    count: int,
    tails: tuple[float, float],
) -> GridLaw:
    """Connect the dots: split every cell's mass between the cell's two ends, keeping P and Q.

    Doroshenko et al. 2022, Algorithm 1, per cell: of the masses (mP, mQ) of (s, s+h] the part
    (mP - e^s mQ) / (1 - e^-h) goes up and the rest down. r = exp(-L) keeps its mean in every cell
    and is spread to the ends, hence domination. Differences of delta(eps) never appear, so small
    meshes lose no digits.

    Args:
        loss: the privacy loss.
        offset: loss of the mesh point with index 0.
        step: distance of mesh points.
        first: index of the lower end of the first cell.
        count: number of cells.
        tails: log of upper bounds on P(L <= lowest point), which is put on that point, and on
            P(L > highest point), which is put at +inf.

    Returns:
        A law on count + 1 points whose delta is nowhere below the true one.
    """
    edges = mesh(offset, step, first, count + 1)
    p, q = loss.cell_masses(edges)
    p = np.where(p < _TINY, np.where(_meets(edges, loss.support), p + _TINY, p), p)
    noise = _noise(loss, p)
    up = (p - np.exp(edges[:-1]) * q + noise * p) / -np.expm1(-np.diff(edges))
    up = np.where(q < _TINY, p, np.clip(up, 0.0, p))
    mass = np.zeros(count + 1)
    mass[:-1] = p - up
    mass[1:] += up + noise * p
    mass[0] += math.exp(tails[0])
    mass[(mass > 0) & (mass < _LEAST)] = _LEAST
    return GridLaw(
        offset=offset,
        step=step,
        first=first,
        mass=mass,
        log_infinite=float(np.logaddexp(loss.log_infinite, tails[1])),
        slack=_label_error(edges),
        inflation=4 * ULP,
    )


def dominated(
    loss: PrivacyLoss, offset: float, step: float, first: int, count: int, tilt: float
) -> GridLaw:
    """Pool the losses around every mesh point, then move a little mass between pools.

    All outputs with a loss within step/2 of the mesh point s are merged: one output with masses
    (mP, mQ) and loss log(mP/mQ), a step * O(step) away from s. To the point where that is short of
    s, a little of the next pool is added (an output that is sent to the pool at random), where it
    is beyond s, a little of the pool before, so that the merged loss is s exactly; what cannot be
    balanced is rounded down. Every move is post-processing of the output or makes the loss smaller.

    Args:
        loss: the privacy loss.
        offset: loss of the mesh point with index 0.
        step: distance of mesh points.
        first: index of the first point.
        count: one less than the number of points; losses beyond step/2 outside are dropped.
        tilt: half cells whose mass, tilted by exp(tilt * loss), is negligible are dropped too.

    Returns:
        A law on count + 2 points, one more below, whose delta is nowhere above the true one.
    """
    points = mesh(offset, step, first, count + 1)
    label = _label_error(points)
    halves = _Halves.of(loss, points, 2 * label, tilt)
    noise = float(_noise(loss, np.array([halves.least])).max())
    mass = _balance(halves, step, noise)
    mass[mass < _LEAST] = 0.0
    return GridLaw(
        offset=offset,
        step=step,
        first=first - 1,
        mass=mass,
        log_infinite=loss.log_infinite,
        slack=2 * noise + 4 * label,
        inflation=noise,
    )


def rounded(
    loss: PrivacyLoss, step: float, count: int, *, above: bool, tails: tuple[float, float]
) -> GridLaw:
    """Round the loss down, or up, to the mesh: the plain bounds of first order in the step.

    Args:
        loss: the privacy loss.
        step: distance of mesh points.
        count: number of cells, an even number; they cover [-step * count/2, step * count/2].
        above: round up, for an upper bound, instead of down.
        tails: logs of bounds on P(L > step * count/2) and P(L < -step * count/2); rounding up,
            the first becomes mass at +inf and the second is put on the lowest point, rounding
            down, both are dropped.

    Returns:
        A law on `count` points.
    """
    edges = mesh(0.0, step, -count // 2, count + 1)
    mass, _ = loss.cell_masses(edges)
    noise = _noise(loss, mass)
    mass = mass * (1.0 + noise if above else 1.0 - noise)
    if above:
        mass[0] += math.exp(tails[1])
    mass[mass < _LEAST] = _LEAST if above else 0.0
    return GridLaw(
        offset=0.0,
        step=step,
        first=-count // 2 + (1 if above else 0),
        mass=mass,
        log_infinite=float(np.logaddexp(loss.log_infinite, tails[0]))
        if above
        else loss.log_infinite,
        slack=_label_error(edges),
        inflation=4 * ULP,
    )


def exact(loss: PrivacyLoss, step: float | None = None) -> GridLaw:
    """Return the law of a loss that is a lattice, on its own lattice or a finer `step`."""
    if loss.lattice is None:
        raise ValueError(f"{loss.label}: the loss is not a lattice")
    offset, own = loss.lattice
    step = own if step is None else step
    index = np.round((loss.atom_loss - offset) / step).astype(np.int64)
    first = int(index.min())
    mass: Floats = np.zeros(int(index.max()) - first + 1)
    np.add.at(mass, index - first, np.exp(loss.atom_log_mass))
    off = float(np.abs(offset + step * index - loss.atom_loss).max())
    return GridLaw(
        offset=offset,
        step=step,
        first=first,
        mass=mass,
        log_infinite=loss.log_infinite,
        slack=off + 2 * ULP * float(np.abs(loss.atom_loss).max()),
        inflation=8 * ULP,
    )


def _noise(loss: PrivacyLoss, mass: Floats) -> Floats:
    """Relative error allowed to cell masses: the quadrature's own, and that of exp(log p)."""
    size = np.abs(np.log(np.maximum(mass, _LEAST)))
    noise: Floats = 2.0 * loss.tolerance + ULP * (16.0 + 4.0 * size)
    return noise


def _label_error(points: Floats) -> float:
    """Distance of computed mesh points from the ideal mesh offset + step * integer."""
    return 4.0 * ULP * max(abs(float(points[0])), abs(float(points[-1])))


def _meets(edges: Floats, support: tuple[float, float]) -> Mask:
    """Cells that can carry mass."""
    return (edges[1:] >= support[0]) & (edges[:-1] <= support[1])


@dataclass(frozen=True, eq=False)
class _Halves:
    """Masses under P of the half cells below and at-or-above every mesh point s, and their gaps.

    The gap is P - e^s Q, the sum of 1 - exp(s - L): how far the half cell is beyond s. `least` is
    the smallest mass kept.
    """

    below: Floats
    above: Floats
    below_gap: Floats
    above_gap: Floats
    least: float

    @classmethod
    def of(cls, loss: PrivacyLoss, points: Floats, nudge: float, tilt: float) -> _Halves:
        """Cut the cells; atoms that are on a point up to rounding, `nudge`, belong above it."""
        half = 0.5 * (points[1] - points[0])
        edges = np.empty(2 * points.size + 1)
        edges[0] = points[0] - half
        edges[1::2] = points - min(nudge, 0.5 * half)
        edges[2:-1:2] = 0.5 * (points[1:] + points[:-1])
        edges[-1] = points[-1] + half
        p, q = loss.cell_masses(edges)
        with np.errstate(divide="ignore"):
            tilted = np.log(p) + tilt * np.repeat(points, 2)
        lost = (p < _TINY) | (q < _TINY) | (tilted < tilted.max() + _NEGLIGIBLE)
        p, q = np.where(lost, 0.0, p), np.where(lost, 0.0, q)
        gap = p - np.repeat(np.exp(points), 2) * q
        least = float(p.min(where=~lost, initial=1.0))
        return cls(p[0::2], p[1::2], gap[0::2], gap[1::2], least)

    def pools(self, handed: Mask, step: float) -> tuple[Floats, Floats]:
        """Masses and mean gaps of the pools when the `handed` lower halves go one point down.

        Shapes (n + 1,): the first pool is the point below the mesh.
        """
        down = np.where(handed, self.below, 0.0)
        down_gap = np.where(handed, self.below_gap, 0.0)
        mass = np.concatenate([[0.0], self.above + (self.below - down)])
        gap = np.concatenate([[0.0], self.above_gap + (self.below_gap - down_gap)])
        mass[:-1] += down
        # seen from the point below, P - e^(s-h) Q = P (1 - e^-h) + e^-h (P - e^s Q)
        gap[:-1] += down * -math.expm1(-step) + math.exp(-step) * down_gap
        return mass, np.divide(gap, mass, out=np.zeros_like(gap), where=mass > 0)


def _balance(halves: _Halves, step: float, noise: float) -> Floats:
    """Move mass between neighbouring pools until every pool's merged loss is its mesh point.

    A pool keeps `own` of its mass and takes a share of `own` from the pool before it (when it is
    beyond its point) or after it (when it is short): a tridiagonal system for `own`. Where a pool
    cannot give what is asked, an asker that is beyond its point is rounded down instead, and one
    that is short hands its lower half down, after which it is beyond.
    """
    handed = np.zeros(halves.above.size, np.bool_)
    handed[-1:] = True  # there is nothing above it to ask
    rounded = np.zeros(handed.size + 1, np.bool_)
    for _ in range(_ROUNDS):
        mass, gap = halves.pools(handed, step)
        before, after = _shares(gap, step, noise)
        before[rounded] = 0.0
        after[1:][handed] = 0.0
        own = _keep(mass, before, after)
        bad = own < 0
        if not bad.any():
            return own * (1.0 + before + after)
        rounded[1:] |= bad[:-1] & (before[1:] > 0)
        handed[:-1] |= bad[2:] & (after[1:-1] > 0)
    return halves.pools(np.ones_like(handed), step)[0]


def _shares(gap: Floats, step: float, noise: float) -> tuple[Floats, Floats]:
    """Mass that each pool wants from the pool before and after it, per mass of its own."""
    gap = np.where(np.abs(gap) <= noise, 0.0, gap)
    before, after = np.zeros(gap.size), np.zeros(gap.size)
    # the merged output of a neighbour, seen from this pool's point: 1 - e^(+-h) (1 - gap)
    short = np.maximum(math.expm1(step) - math.exp(step) * gap[:-1], noise)
    beyond = np.maximum(-math.expm1(-step) + math.exp(-step) * gap[1:], noise)
    before[1:] = np.maximum(gap[1:], 0.0) / short
    after[:-1] = np.maximum(-gap[:-1], 0.0) / beyond
    return before, after


def _keep(mass: Floats, before: Floats, after: Floats) -> Floats:
    """Solve own_i + before_(i+1) own_(i+1) + after_(i-1) own_(i-1) = mass_i."""
    bands = np.zeros((3, mass.size))
    bands[0, 1:] = before[1:]
    bands[1] = 1.0
    bands[2, :-1] = after[:-1]
    solution: Floats = solve_banded((1, 1), bands, mass, check_finite=False)
    return solution
