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
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mechc.errors import NumericError, UnsupportedError
from mechc.loss import branches
from mechc.loss.atoms import formulas_apart
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.quadrature.rule import log_densities
from mechc.loss.quadrature.unresolved import displacement
from mechc.numeric.allowance import DENSITY, spend
from mechc.numeric.jit import compiled
from mechc.numeric.rounding import U
from mechc.protocol import Floats, Kernel, Measure


@compiled(
    "float64[::1](float64[::1], float64[::1], float64[::1], float64, float64, int64, int64, "
    "float64)",
    makes_arrays=True,
)
def pool(p, q, loss, offset, step, first, count, noise):  # type: ignore[no-untyped-def]
    """Merge outputs, from the largest loss down, into pools whose losses are mesh points.

    A pool is at the mesh point below its first output, and is closed by the share of an output that
    brings its loss there; the rest of that output begins the next one. Losses beyond the highest
    point, and what the last pool has too much, are rounded down.

    Args:
        p: masses under P, positive, shape (n,).
        q: masses under Q, likewise.
        loss: log(p / q), increasing but for rounding.
        offset: of the mesh.
        step: of the mesh.
        first: index of its first point.
        count: of its points.
        noise: error of a loss that is as good as none.

    Returns:
        The masses of the mesh points under P, shape (count,).
    """
    out = np.zeros(count)
    at, ratio = count - 1, math.exp(offset + step * (first + count - 1))
    highest = offset + step * (first + count - 0.5)
    mass = gap = lost = 0.0  # `lost` are the digits of the gap that its sum has dropped
    for i in range(p.size - 1, -1, -1):
        left = 1.0
        while left > 0.0:
            if mass == 0.0:
                at = min(math.floor((loss[i] + noise - offset) / step) - first, count - 1)
                if at < 0:
                    return out
                ratio, gap, lost = math.exp(offset + step * (first + at)), 0.0, 0.0
            more = left * (p[i] - ratio * q[i])
            if loss[i] > highest or (mass == 0.0 and more <= 0.0):  # too far out, or on its point
                out[at] += left * p[i]
                left = 0.0
            elif gap + more > 0.0:
                total = gap + (more + lost)
                lost, gap = (more + lost) - (total - gap), total
                mass, left = mass + left * p[i], 0.0
            else:
                share = left * min(max(gap / -more, 0.0), 1.0)
                out[at] += mass + share * p[i]
                mass, left = 0.0, left - share
    if mass > 0.0:
        out[at] += mass
    return out


MOST_CELLS = 1e7  # of one law that is rounded up
WIDEST = 300.0  # cell whose exponential is far from the largest double
LONG, GRID = 200_000, 2**13  # atoms of a long list, and points of the grid that it is put on ...
FAR = 1e-100  # ... but for this mass
TAIL = 1e-15  # mass under P beyond the grid of `rounded_up`, by default
SLACK = 1e-9  # of logs of moments that bound a tail: their error, quadrature included
_TINY = 1e-290  # masses below are treated as lost to underflow
_NEGLIGIBLE = -60.0  # log of a share of the largest tilted mass
_LEAST = 1e-300  # smallest mass of a grid law
GIVES = 0.5  # of the mass of a cell, that balances a pool above whatever that lacks
_MOVED = 1e-7  # relative error of a cell's mass or loss, by rounding of outputs: too much


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
        exponent *= self.mass[kept]
        return top + math.log(float(exponent.sum()))


def mesh(offset: float, step: float, first: int, count: int) -> Floats:
    """Return the `count` mesh points from index `first` on."""
    return offset + step * (first + np.arange(count, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Cells:
    """One privacy loss, cut at the points of a mesh and half way between them.

    Attributes:
        loss: the privacy loss.
        offset, step, first: the mesh; its points are those of `points`.
        points: shape (n,).
        p, q: masses under P and Q of the half cells below and at-or-above every point, shape
            (n, 2). Atoms that are on a point up to rounding belong at-or-above it: the cuts are
            `nudge` below the points.
        nudge: that distance.
        moved: how far rounding of outputs moves losses, of those above one the share of them.
        whole: the first and the last half cell hold all that is beyond.
    """

    loss: PrivacyLoss
    offset: float
    step: float
    first: int
    points: Floats
    p: Floats
    q: Floats
    nudge: float
    moved: float
    whole: bool = False

    @classmethod
    def cut(
        cls, loss: PrivacyLoss, offset: float, step: float, first: int, count: int,
        whole: bool = False,
    ) -> Cells:  # fmt: skip
        """Integrate the half cells of `count` mesh points from index `first` on.

        With `whole` the first and the last of them hold all that is beyond.
        """
        points = mesh(offset, step, first, count)
        moved = _moved_by_rounding(loss)
        if not moved <= _MOVED:
            raise NumericError(f"{loss.label}: a peak is so few doubles wide that no cell is known")
        nudge = min(2 * _label_error(points), 0.25 * step)
        edges = np.empty(2 * count + 1)
        edges[0] = points[0] - 0.5 * step
        edges[1::2] = points - nudge
        edges[2:-1:2] = 0.5 * (points[1:] + points[:-1])
        edges[-1] = points[-1] + 0.5 * step
        if whole:
            edges[[0, -1]] = -math.inf, math.inf
        p, q = loss.cell_masses(edges)
        if not (np.isfinite(p).all() and np.isfinite(q).all()):
            raise NumericError(
                f"{loss.label}: a density has a pole whose mass doubles cannot put into cells"
            )
        halves = p.reshape(-1, 2), q.reshape(-1, 2)
        return cls(loss, offset, step, first, points, *halves, nudge, moved, whole)


def dominating(cells: Cells, tails: tuple[float, float]) -> GridLaw:
    """Connect the dots: split every cell's mass between the cell's two ends, keeping P and Q.

    Of whole cells the last half cell, all losses above the last point, is left out.

    Doroshenko et al. 2022, Algorithm 1, per cell: of the masses (mP, mQ) of (s, s+h] the part
    (mP - e^s mQ) / (1 - e^-h) goes up and the rest down. r = exp(-L) keeps its mean in every cell
    and is spread to the ends, hence domination. Differences of delta(eps) never appear, so small
    meshes lose no digits. Cells begin and end `nudge` below the points, their ends are then moved
    up to the points.

    Args:
        cells: the cut loss.
        tails: log of upper bounds on P(L <= first point), which is put on that point, and on
            P(L > last point), which is put at +inf.

    Returns:
        A law on one point more whose delta is nowhere below the true one.
    """
    p, q = (m[:, 1] + np.append(m[1:, 0], 0.0) for m in (cells.p, cells.q))
    if cells.whole:
        p[-1] = q[-1] = 0.0
    lo, hi = cells.loss.support
    live = (cells.points + cells.step >= lo) & (cells.points - cells.nudge <= hi)
    p = np.where((p < _TINY) & live, p + _TINY, p)
    # of outputs that are displaced, both laws have more or less in a cell
    noise = _noise(cells.loss, p) + 2.0 * displaced(cells.loss, cells.points + cells.step)
    noise += 2.0 * cells.moved
    # cells are wider by as much on either side
    beyond = following_error(cells.loss) + cells.moved * max(_largest(cells.points), 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # only where q is tiny, and not used
        up = p - np.exp(cells.points - cells.nudge - beyond) * q + noise * p
        up /= -math.expm1(-cells.step - 2.0 * beyond)
    up = np.where(q < _TINY, p, np.clip(up, 0.0, p))
    mass = np.append(p - up, 0.0)
    mass[1:] += up + noise * p
    mass[0] += cells.p[0, 0] * (1.0 + float(_noise(cells.loss, cells.p[:1, 0])[0]))
    mass[0] += math.exp(tails[0])
    mass[(mass > 0) & (mass < _LEAST)] = _LEAST
    # with what is beyond the grid, and what no cell has
    revealed = cells.loss.log_infinite, tails[1], cells.loss.log_lost, cells.loss.log_unlisted
    return GridLaw(
        offset=cells.offset, step=cells.step, first=cells.first, mass=mass,
        log_infinite=float(np.logaddexp.reduce(revealed)),
        slack=_label_error(cells.points) + beyond, inflation=4 * U,
    )  # fmt: skip


def dominated(cells: Cells, tilt: float, free: bool = False) -> GridLaw:
    """Merge half cells into pools whose losses are mesh points, which is post-processing.

    What is left at the lower end has a larger loss than its point, and is rounded down.

    Args:
        cells: the cut loss; what lies outside the cells is dropped.
        tilt: half cells whose mass, tilted by exp(tilt * loss), is negligible are dropped too.
        free: lay the mesh of the law anew, so that little is left at the lower end.

    Returns:
        A law on one point more, below the mesh, whose delta is nowhere above the true one.

    Raises:
        NumericError: the cells are too wide.
    """
    if cells.step > WIDEST:
        raise NumericError(f"pld: cells of width {cells.step:g} are too wide for doubles")
    with np.errstate(divide="ignore"):
        tilted = np.log(cells.p) + tilt * cells.points[:, None]
    moved = displaced(cells.loss, cells.points + 0.5 * cells.step)
    kept = (cells.p >= _TINY) & (cells.q >= _TINY) & (tilted >= tilted.max() + _NEGLIGIBLE)
    kept &= (moved <= _MOVED)[:, None]
    kept[-1, 1] &= not cells.whole
    p, q = cells.p[kept], cells.q[kept]
    noise = float(_noise(cells.loss, np.array([p.min(initial=1.0)])).max())
    noise += float(moved.max(where=moved <= _MOVED, initial=0.0)) + 2.0 * cells.moved
    offset = cells.offset
    if free and p.size > 1:
        p, q = _lowest_merged(p, q, cells.step)
        lowest = math.log(p[0] / q[0])
        offset = lowest - cells.step * math.floor((lowest - offset) / cells.step)
    mass = pool(
        p, q, np.log(p / q), offset, cells.step, cells.first - 1, cells.points.size + 1, noise
    )
    mass[mass < _LEAST] = 0.0
    return GridLaw(
        offset=offset, step=cells.step, first=cells.first - 1, mass=mass,
        log_infinite=cells.loss.log_infinite, slack=3 * noise + 4 * _label_error(cells.points),
        inflation=noise,
    )  # fmt: skip


def _lowest_merged(p: Floats, q: Floats, step: float) -> tuple[Floats, Floats]:
    """Half cells, the lowest of them merged into one that has mass to give to the pool above."""
    # With that one on the mesh, and all others a step above, nothing is left at the lower end.
    below, below_q = np.cumsum(p), np.cumsum(q)
    apart = np.log(p[1:] / q[1:]) - np.log(below / below_q)[:-1] >= step
    next_two = np.append(below[2:], below[-1]) - below[:-1]
    enough = np.flatnonzero(apart & (below[:-1] >= GIVES * next_two))
    m = int(enough[0]) + 1 if enough.size else 1
    return np.append(below[m - 1], p[m:]), np.append(below_q[m - 1], q[m:])


def exact(loss: PrivacyLoss, step: float | None = None) -> GridLaw:
    """Return the law of a loss that is a lattice, on its own lattice or a finer `step`."""
    assert loss.lattice is not None
    offset, own = loss.lattice
    step = own if step is None else step
    index = np.round((loss.atom_loss - offset) / step).astype(np.int64)
    first = int(index.min())
    mass: Floats = np.zeros(int(index.max()) - first + 1)
    np.add.at(mass, index - first, np.exp(loss.atom_log_mass))
    off = float(np.abs(offset + step * index - loss.atom_loss).max())
    largest, deepest = (float(np.abs(v).max()) for v in (loss.atom_loss, loss.atom_log_mass))
    return GridLaw(
        offset=offset, step=step, first=first, mass=mass, log_infinite=loss.log_infinite,
        slack=off + 2 * U * largest,
        inflation=loss.tolerance + U * (8.0 + 2.0 * deepest),
    )  # fmt: skip


def _noise(loss: PrivacyLoss, mass: Floats) -> Floats:
    """Relative error allowed to cell masses: the quadrature's own, and that of exp(log p)."""
    size = np.abs(np.log(np.maximum(mass, _LEAST)))
    noise: Floats = 2.0 * loss.tolerance + U * (16.0 + 4.0 * size)
    return noise


def displaced(loss: PrivacyLoss, losses: Floats) -> Floats:
    """Relative error of cell masses at these losses from outputs too close to an end to resolve."""
    if loss.source is None:
        return np.zeros(losses.size)
    return displacement(loss.source.ends, -losses if loss.is_reversed else losses)


def _moved_by_rounding(loss: PrivacyLoss) -> float:
    """How far an ulp of the output moves losses, away from the ends that `displaced` is about."""
    if loss.source is None or not loss.source.continuous:
        return 0.0
    panels = loss.source.cover(*loss.own_tilts)
    return panels.moved_by_rounding([end.place for end in loss.source.ends])


def following_error(loss: PrivacyLoss) -> float:
    """How far losses may lie beyond the edges of their cell, for want of known branches."""
    if loss.source is None:
        return 0.0
    return branches.following_error(loss.source, *loss.own_tilts)


def _label_error(points: Floats) -> float:
    """Distance of computed mesh points from the ideal mesh offset + step * integer."""
    return 4.0 * U * _largest(points)


def _largest(points: Floats) -> float:
    return max(abs(float(points[0])), abs(float(points[-1])))


def shortened(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[Step, ...]] | None:
    """Replace long lists of losses by laws on a common grid: from above, and from below.

    Returns:
        None where no step has a long list that is not on a grid already, or a list's tails are no
        numbers.
    """
    long = []
    for law, _ in steps:
        if law.source is not None and law.atom_loss.size > LONG and law.lattice is None:
            long.append(law)
    if not long or any(law.loss.size for law in long):
        return None
    step = max(high - low for low, high in (_ends(law, FAR) for law in long)) / GRID
    if not 0.0 < step < math.inf:
        return None
    sides = []
    for rounded in (rounded_up, rounded_down):
        laws = {id(law): rounded(law, step, FAR) for law in long}
        sides.append(tuple(Step(laws.get(id(s.loss), s.loss), s.count) for s in steps))
    return sides[0], sides[1]


def rounded_up(loss: PrivacyLoss, step: float, tail: float = TAIL) -> PrivacyLoss:
    """Return a discrete law on multiples of `step` that dominates `loss`, connecting the dots.

    What lies beyond the grid, mass `tail` on either side at most, goes to loss 0 from below (or to
    the lowest point, if that is higher) and to infinite loss from above.

    Raises:
        UnsupportedError: a tail without an exponential bound.
    """
    law = dominating(_on_multiples(loss, step, tail), (-math.inf, math.log(tail)))
    mass = law.mass.copy()
    # not to the lowest point, where so little under P may be a lot under Q
    mass[min(max(-law.first, 0), mass.size - 1)] += tail
    return _lattice(loss, law, mass, law.log_infinite + loss.mass_errors[0], True)


def rounded_down(loss: PrivacyLoss, step: float, tail: float = TAIL) -> PrivacyLoss:
    """Return a discrete law on multiples of `step` with no larger delta, also after composition.

    Raises:
        UnsupportedError: a tail without an exponential bound.
    """
    law = dominated(_on_multiples(loss, step, tail), 0.0)
    known = loss.log_infinite - loss.mass_errors[0]
    early = math.exp(min(loss.log_early - max(known, -1e9), 0.0))
    known = known + math.log1p(-early) if early < 1.0 else -math.inf
    return _lattice(loss, law, law.mass, known, False)


def _on_multiples(loss: PrivacyLoss, step: float, tail: float) -> Cells:
    """The law cut at the multiples of a step."""
    ends = _ends(loss, tail)
    if not (ends[1] - ends[0]) / step < MOST_CELLS:
        raise UnsupportedError(
            f"{loss.label}: losses from {ends[0]:g} to {ends[1]:g} have more than {MOST_CELLS:g} "
            f"multiples of {step:g} (expected a larger distance)"
        )
    first, last = math.floor(ends[0] / step) - 1, math.ceil(ends[1] / step) + 1
    return Cells.cut(loss, 0.0, step, first, last - first + 1)


def _lattice(
    loss: PrivacyLoss, law: GridLaw, mass: Floats, log_infinite: float, upper: bool
) -> PrivacyLoss:
    """The masses of a grid law, as the law of a loss with the errors of the one it is made from."""
    kept = mass > _LEAST
    made = one_sided(
        law.points()[kept], np.log(mass[kept]), log_infinite,
        f"{loss.label} rounded {'up' if upper else 'down'}", upper,
        loss.density_error + law.inflation, loss.loss_error + loss.loss_rounding + law.slack,
    )  # fmt: skip
    lattice = float(law.points()[0]), law.step
    return replace(made, lattice=lattice, of_estimated=loss.estimated)


def one_sided(
    loss: Floats, log_p: Floats, log_infinite: float, label: str, upper: bool,
    density_error: float = 0.0, loss_error: float = 0.0,
) -> PrivacyLoss:  # fmt: skip
    """Return a law whose delta is not below (above) that of masses under P at some losses.

    Bounds on masses sum to more or less than one. From above what is too much goes where it reveals
    least; from below what is missing may have any loss, and counts as revealing nothing. Under Q
    masses may sum to more than one: it is delta = E_P[(1 - exp(epsilon - S))_+] that is bounded.

    Args:
        loss: losses.
        log_p: logs of bounds on masses under P.
        log_infinite: log of that at infinity.
        label: words for messages.
        upper: delta is to be bounded from above.
        density_error: relative error of masses, beside.
        loss_error: error of losses, beside.
    """
    order = np.argsort(loss, kind="stable")
    loss, p = loss[order], np.exp(log_p[order])
    log_infinite = min(log_infinite, 0.0)
    infinite = math.exp(log_infinite)
    if upper:
        p = _without_lowest(p, math.fsum([*p.tolist(), infinite, -1.0]))
    else:  # for epsilon < 0 delta follows from that of the reversed pair, if Q has no more than one
        log_q = log_p[order] - loss
        loss, p, q = (each[log_q <= 1.0] for each in (loss, p, np.exp(np.minimum(log_q, 1.0))))
        kept = _without_lowest(q, math.fsum([*q.tolist(), -1.0]))
        p = p * np.divide(kept, q, out=np.ones(q.size), where=q > 0.0)
    left = 1.0 - math.fsum([*p.tolist(), infinite])
    early = -math.inf
    if not upper:
        early = math.log(max(left, 0.0) + 16.0 * U)
    elif left > 0.0:
        p[min(int(np.searchsorted(loss, 0.0)), loss.size - 1)] += left
    some = p > 0.0
    loss, p = loss[some], p[some]
    rest = 1.0 - float((p * np.exp(-loss)).sum())
    log_rest = math.log(rest) if rest > 0.0 else -math.inf
    made = PrivacyLoss.from_log_atoms(
        loss, np.log(p), float(np.logaddexp(log_infinite, early)), log_rest, label,
        loss_error=loss_error, density_error=density_error, early=(early, -math.inf), bound=True,
    )  # fmt: skip
    return replace(made, side=1 if upper else -1)


def _without_lowest(mass: Floats, excess: float) -> Floats:
    """Masses without so much of the first ones."""
    if not excess > 0.0:
        return mass
    out: Floats = np.clip(np.cumsum(mass) - excess, 0.0, mass)
    return out


def _ends(loss: PrivacyLoss, tail: float) -> tuple[float, float]:
    """Points beyond which P has mass below `tail`, by Chernoff's bound or the ends of the loss."""
    if not loss.loss.size:  # sorted atoms, which need no bound
        mass = np.exp(loss.atom_log_mass)
        tail = min(tail, 0.5 * float(mass.sum()))
        below, above = np.cumsum(mass) < tail, np.cumsum(mass[::-1]) < tail
        return float(loss.atom_loss[below.sum()]), float(loss.atom_loss[::-1][above.sum()])
    ends = []
    for side, limit in ((-1.0, loss.support[0]), (1.0, loss.support[1])):
        best = limit if math.isfinite(limit) else side * math.inf
        for tilt in np.geomspace(1e-2, 1e3, 60):
            t = side * float(tilt)
            if not loss.strip[0] < t < loss.strip[1]:
                break
            log_mgf, _, _, rounding = loss.generating(t)
            reach = (log_mgf + rounding + SLACK - math.log(tail)) / t
            if side * reach >= side * best:
                break  # (K(t) + c) / t falls and then rises
            best = reach
        ends.append(best)
    if not all(map(math.isfinite, ends)):
        raise UnsupportedError(f"{loss.label}: a tail of the loss has no exponential bound")
    lo, hi = sorted(np.clip(ends, *loss.support).tolist())  # crossed, where all has less mass
    return lo, hi


_FAINTEST = -64.0  # log of the probability below which an outcome is dropped
_GRID = 4096  # points of the first look at the outcomes of one index
MOST_OUTCOMES = 20_000_000  # of all indices: 160 MB a column


def tagged_loss(kernel: Kernel, tag: Kernel, theta: Floats) -> PrivacyLoss:
    """Return the law of the loss of a pair whose output also tells an index that both laws share.

    The mixture of the losses given the index. Outcomes that are too improbable to matter are
    dropped, and more than what they could hold is put at infinite loss.

    Args:
        kernel: masses on integers, given the index.
        tag: the law of the index.
        theta: parameters of `tag`; those of `kernel` are these and the index.

    Raises:
        UnsupportedError: masses that are not on integers.
        NumericError: too many outcomes, or masses that are no doubles.
    """
    values = zip((info[0] for info in tag.PARAMETERS), theta, strict=True)
    label = f"{kernel.NAME}({', '.join(f'{name}={value:g}' for name, value in values)})"
    if kernel.MEASURE != Measure.LATTICE or tag.MEASURE != Measure.LATTICE:
        raise UnsupportedError(f"{label}: an index in the output needs masses on integers")
    losses, masses, seen, apart, digits = [], [], 0, 0.0, 0.0
    index, weight = _outcomes(tag, theta, 0.0, label)[:2]
    for m, log_weight in zip(index, weight, strict=True):
        given = np.append(theta, m)
        x, log_p, log_q = _outcomes(kernel, given, float(log_weight), label)
        seen += x.size
        if seen > MOST_OUTCOMES:
            raise NumericError(f"{label}: more than {MOST_OUTCOMES} outcomes matter")
        spend(DENSITY * x.size)
        loss: Floats = np.empty(x.size)
        kernel.loss_many(x, given, loss)
        both = (log_p > -np.inf) & (log_q > -np.inf)
        if not both.all():
            raise NumericError(
                f"{label}: at index {m:g} there are outcomes of only one law, or their masses are "
                "no doubles"
            )
        gap, more = formulas_apart(log_p, log_q, loss, label)
        apart, digits = max(apart, gap), max(digits, more)
        # a formula for the loss may overflow where logs do not
        losses.append(np.where(np.isfinite(loss), loss, log_p - log_q))
        masses.append(log_p + log_weight)
    loss, log_mass = np.concatenate(losses), np.concatenate(masses)
    dropped = math.log(MOST_OUTCOMES) + _FAINTEST
    early = (dropped, dropped)  # they have any losses, and perhaps less mass
    return PrivacyLoss.from_log_atoms(
        loss, log_mass, *early, label, loss_error=apart, density_error=apart, early=early,
        digits=digits,
    )  # fmt: skip


def _outcomes(
    kernel: Kernel, theta: Floats, log_weight: float, label: str
) -> tuple[Floats, Floats, Floats]:
    """The integers that matter, and their log masses."""
    rows = np.asarray(kernel.branches(theta), np.float64).reshape(-1, 6)
    lo, hi = float(rows[:, 0].min()), float(rows[:, 1].max())
    if not math.isfinite(lo + hi):
        raise UnsupportedError(f"{label}: an index needs outcomes between known ends")
    stride = max(1.0, math.floor((hi - lo) / _GRID))
    while True:
        x: Floats = np.append(np.arange(lo, hi, stride), hi)
        log_p, log_q = log_densities(kernel, theta, x)
        larger = np.maximum(log_p, log_q)
        kept = np.flatnonzero(larger + log_weight >= _FAINTEST)
        if stride == 1.0:
            return x[kept], log_p[kept], log_q[kept]
        # look closer at what lies between those that matter, or around the most likely one
        near = kept if kept.size else np.array([np.argmax(larger)])
        before = hi - lo
        lo, hi = float(x[max(near[0] - 1, 0)]), float(x[min(near[-1] + 1, x.size - 1)])
        if hi - lo > max(0.5 * before, MOST_OUTCOMES):
            raise NumericError(f"{label}: {hi - lo:.1g} outcomes matter, too many to list")
        stride = 1.0 if hi - lo <= MOST_OUTCOMES else math.floor((hi - lo) / _GRID)
