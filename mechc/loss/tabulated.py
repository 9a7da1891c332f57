"""One exponentially tilted step as polynomials, and its action on piecewise polynomials.

In: a privacy loss, a tilt t and an anchor loss. Out: panels of outputs x, local coordinate xi in
[-1, 1], with Chebyshev coefficients of the loss L(x) - anchor and of the density of the tilted law

    nu(dx) = p(x) exp(t L(x) - K(t)) dx,

a probability measure; and the matrix of the map g -> E_nu[g(u - L)] from Chebyshev coefficients of
a piecewise polynomial g to values at points u.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss import branches
from mechc.loss.action import DEGREE, act, act_atoms
from mechc.loss.measure import PrivacyLoss
from mechc.loss.pointwise import losses
from mechc.loss.rule import NODES, ORDER, WEIGHTS
from mechc.loss.source import KernelSource

Floats = NDArray[np.float64]

RESOLVED = 1e-14  # top coefficients of the tilted density, as a share of its least value
STEEPEST = 1e3  # ratio of largest to least density in a panel
ACCEPTED = 5e-11  # relative error of a panel's density; where it is larger it counts as misplaced
MAX_PANELS = 4_000
LARGEST = 700.0  # log of a tilted density's largest value
ROUNDS = 60

# values at the Gauss nodes -> Chebyshev coefficients
_TO_CHEBYSHEV = np.ascontiguousarray(np.linalg.inv(chebyshev.chebvander(NODES, ORDER - 1)))
_ENDS = chebyshev.chebvander(np.array([-1.0, 1.0]), ORDER - 1)


@dataclass(frozen=True, eq=False)
class Tabulated:
    """The tilted law of one step, masses normalised to one.

    Attributes:
        loss: Chebyshev coefficients of L - anchor, shape (panels, 16).
        weight: those of the tilted density in xi, shape (panels, 16).
        node_loss, node_weight: L - anchor at the Gauss nodes, and the masses they stand for.
        ends: L - anchor at xi = -1 and 1, shape (panels, 2).
        atom_loss, atom_mass: atoms, shape (atoms,).
        kinks: losses (minus anchor) where the law is not smooth, increasing.
        relative: estimated relative error of the density.
        error: bound on the tilted mass left out or misplaced.
    """

    loss: Floats
    weight: Floats
    node_loss: Floats
    node_weight: Floats
    ends: Floats
    atom_loss: Floats
    atom_mass: Floats
    kinks: Floats
    relative: float
    error: float

    def act(self, points: Floats, edges: Floats, parts: int = 1, payoff: bool = False) -> Floats:
        """Return the matrix of E_nu[g(u - L)] at the points u.

        Args:
            points: values of u, shape (n,).
            edges: increasing panel edges of g, which is zero outside them, shape (m + 1,).
            parts: pieces into which each interval of integration is cut.
            payoff: g(v) stands for -v g(v), v < 0: it falls to zero at v = 0 exactly.

        Returns:
            Shape (n, 16 m): coefficients of panel i of g are columns 16 i .. 16 i + 15.
        """
        out = np.zeros((points.size, DEGREE * (edges.size - 1)))
        points, edges = np.ascontiguousarray(points), np.ascontiguousarray(edges)
        act(
            points,
            edges,
            self.loss,
            self.weight,
            self.node_loss,
            self.node_weight,
            self.ends,
            parts,
            payoff,
            out,
        )
        act_atoms(points, edges, self.atom_loss, self.atom_mass, payoff, out)
        return out


def tabulate(
    law: PrivacyLoss, tilt: float, log_mgf: float, anchor: float, floor: float
) -> Tabulated:
    """Tabulate the law of one step under a tilt.

    Args:
        law: the privacy loss; its finite part is what is tilted.
        tilt: t, inside the strip of convergence.
        log_mgf: K(t).
        anchor: subtracted from every loss.
        floor: mass that does not matter.

    Raises:
        NumericError: the panels did not settle.
    """
    law = law.covering(min(-1.0, tilt), max(tilt, 0.0))
    panels, kinks = _continuous(law, tilt, log_mgf, floor)
    loss, weight, relative, error = panels
    node_weight = (weight @ _VALUES.T) * WEIGHTS
    atom_mass = np.exp(law.atom_log_mass + tilt * law.atom_loss - log_mgf)
    total = float(node_weight.sum() + atom_mass.sum())
    if not abs(total - 1.0) < 1e-6:
        raise NumericError(f"{law.label}: the law tilted by {tilt:g} has mass {total!r}, not 1")
    loss = loss.copy()
    loss[:, 0] -= anchor
    return Tabulated(
        loss=np.ascontiguousarray(loss),
        weight=np.ascontiguousarray(weight / total),
        node_loss=np.ascontiguousarray(loss @ _VALUES.T),
        node_weight=np.ascontiguousarray(node_weight / total),
        ends=np.ascontiguousarray(loss @ _ENDS.T),
        atom_loss=law.atom_loss - anchor,
        atom_mass=atom_mass / total,
        kinks=np.unique(np.concatenate([kinks, law.atom_loss]) - anchor),
        relative=relative + abs(total - 1.0) + 8e-15,
        error=error,
    )


_VALUES = chebyshev.chebvander(NODES, ORDER - 1)  # Chebyshev coefficients -> values at the nodes


def _continuous(
    law: PrivacyLoss, tilt: float, log_mgf: float, floor: float
) -> tuple[tuple[Floats, Floats, float, float], Floats]:
    """Loss and weight coefficients of the part with a density, the error, and the kinks."""
    source = law.source
    none = np.empty((0, ORDER))
    if source is None or not source.continuous:
        return (none, none, 0.0, 0.0), np.empty(0)
    reverse = law.is_reversed
    lo, hi = (-1.0 - tilt, 0.0) if reverse else (-1.0, tilt)
    sign = -1.0 if reverse else 1.0
    limits = source.rows[:, 3:5].ravel()
    kinks = [sign * limits[np.isfinite(limits)]]
    losses, weights, relative, error = [], [], 0.0, 0.0
    for branch in branches.branches_of(source, min(lo, -1.0), max(hi, 0.0)):
        inner = source.panels.lo
        inner = inner[(inner > branch.lo) & (inner < branch.hi)]
        edges = np.unique(np.concatenate([[branch.lo], inner, [branch.hi]]))
        table = _resolve(source, edges, (tilt, log_mgf, floor), reverse)
        losses.append(table.loss)
        weights.append(table.weight)
        error += table.error
        relative = max(relative, table.relative)
        ends = np.array([branch.loss_lo, branch.loss_hi])
        reached = np.array([table.lo, table.hi]) == np.array([branch.lo, branch.hi])
        kinks.append(sign * ends[reached])
    panels = (np.concatenate(losses), np.concatenate(weights), relative, error)
    return panels, np.concatenate(kinks)


@dataclass(frozen=True)
class _Branch:
    """One branch tabulated: coefficients, error, and the outputs that carry tilted mass."""

    loss: Floats
    weight: Floats
    relative: float
    error: float
    lo: float
    hi: float


def _resolve(
    source: KernelSource, edges: Floats, law: tuple[float, float, float], reverse: bool
) -> _Branch:
    """Halve panels until density and loss are resolved, the density relative to its least value.

    What is below `floor` (tilted mass) need not be.
    """
    tilt, log_mgf, floor = law
    sign = -1.0 if reverse else 1.0
    density = source.kernel.log_q_many if reverse else source.kernel.log_p_many
    lo, hi = edges[:-1], edges[1:]
    kept: list[tuple[Floats, ...]] = []
    error = relative = 0.0
    for _ in range(ROUNDS):
        half = 0.5 * (hi - lo)
        x = np.ascontiguousarray((0.5 * (lo + hi)[:, None] + half[:, None] * NODES).ravel())
        log_f, loss = np.empty(x.size), losses(source.kernel, source.theta, x)
        density(x, source.theta, log_f)
        bad = ~(np.isfinite(log_f) & np.isfinite(loss))
        log_f[bad], loss[bad] = -np.inf, 0.0
        loss = sign * loss.reshape(-1, ORDER)
        log_weight = log_f.reshape(-1, ORDER) + tilt * loss - log_mgf
        if not log_weight.max() < LARGEST:
            raise NumericError(f"{source.label}: rounding is all of the law tilted by {tilt:g}")
        weight = np.exp(log_weight) * half[:, None]
        mass = weight @ WEIGHTS
        c_loss, c_weight = loss @ _TO_CHEBYSHEV.T, weight @ _TO_CHEBYSHEV.T
        heavy = mass > floor / MAX_PANELS
        error += 0.0 if heavy.all() else float(mass[~heavy].sum())
        least, most = weight.min(axis=1), weight.max(axis=1)
        rough_w = np.abs(c_weight[:, -2:]).max(axis=1)
        rough_l = np.abs(c_loss[:, -2:]).max(axis=1) - 4e-16 * np.abs(loss).max(axis=1)
        size = np.abs(np.where(bad, 0.0, log_f).reshape(-1, ORDER)) + np.abs(tilt * loss)
        noise = 4e-16 * (4.0 + abs(log_mgf) + size.max(axis=1)) * most
        rough = np.maximum(rough_w, least * (1.0 + abs(tilt)) * rough_l)
        tiny = hi - lo <= 1e-14 * np.maximum(np.abs(lo), np.abs(hi))
        split = heavy & (rough > np.maximum(RESOLVED * least + noise, floor)) & ~tiny
        split |= heavy & (most > STEEPEST * least) & (noise > floor) & ~tiny
        done = heavy & ~split
        rough += noise
        good = rough <= ACCEPTED * least
        relative = max(relative, float((rough[done & good] / least[done & good]).max(initial=0.0)))
        error += float(rough[done & ~good].sum())
        kept.append((lo[done], hi[done], c_loss[done], c_weight[done]))
        if not split.any() or lo.size > MAX_PANELS:
            break
        middle = 0.5 * (lo + hi)[split]
        lo, hi = np.concatenate([lo[split], middle]), np.concatenate([middle, hi[split]])
    if split.any():
        raise NumericError(f"{source.label}: the law tilted by {tilt:g} is too rough to tabulate")
    first, last = np.concatenate([k[0] for k in kept]), np.concatenate([k[1] for k in kept])
    return _Branch(
        np.concatenate([k[2] for k in kept]),
        np.concatenate([k[3] for k in kept]),
        relative,
        error,
        float(first.min(initial=math.inf)),
        float(last.max(initial=-math.inf)),
    )
