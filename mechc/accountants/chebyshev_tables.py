"""One exponentially tilted step as polynomials, and its action on piecewise polynomials.

In: a privacy loss, a tilt t and an anchor loss. Out: panels of outputs x, local coordinate xi in
[-1, 1], with Chebyshev coefficients of the loss L(x) - anchor and of the density of the tilted law

    nu(dx) = p(x) exp(t L(x) - K(t)) dx,

a probability measure; and the matrix of the map g -> E_nu[g(u - L)] from Chebyshev coefficients of
a piecewise polynomial g to values at points u. For the latter every output panel is cut where
u - L(x) crosses an edge of g, so that each piece of the integrand is a product of resolved
polynomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss import branches
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.quadrature.rule import NODES, ORDER, WEIGHTS, halved, losses
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import MOST_LOG
from mechc.protocol import Floats

DEGREE = 16  # Chebyshev coefficients of one panel of the functions acted on
ROOT_STEPS = 60  # of Newton and bisection
ROOT_TOLERANCE = 1e-10  # in xi; g is continuous at the cuts, so they need few digits
NEWTON_LAST = 1e-5  # a step of Newton's method so short leaves no error that counts


@compiled("UniTuple(float64, 2)(float64[::1], float64)")
def series(c, x):  # type: ignore[no-untyped-def]
    """Sum of c_n T_n(x) and its derivative, by Clenshaw's recurrence."""
    b1, b2, d1, d2 = 0.0, 0.0, 0.0, 0.0
    for n in range(c.size - 1, 0, -1):
        d1, d2 = 2.0 * (b1 + x * d1) - d2, d1
        b1, b2 = 2.0 * x * b1 - b2 + c[n], b1
    return x * b1 - b2 + c[0], b1 + x * d1 - d2


@subroutine("float64(float64[::1], float64, float64, float64, float64, float64)")
def _solve(c, target, low, high, f_low, f_high):  # type: ignore[no-untyped-def]
    """Root of f = sum c_n T_n - target, monotone on [low, high], with its values at both ends."""
    # Newton's method from where the chord is zero; bisection where it leaves the interval.
    if f_low * f_high >= 0.0:
        return low if abs(f_low) < abs(f_high) else high
    scale = abs(f_high - f_low)
    x = low - f_low * (high - low) / (f_high - f_low)
    for _ in range(ROOT_STEPS):
        f, slope = series(c, x)
        f -= target
        low, high = (low, x) if (f > 0.0) == (f_high > 0.0) else (x, high)
        new = x - f / slope
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(f) <= ROOT_TOLERANCE * scale or high - low <= ROOT_TOLERANCE:
            return x
        if abs(new - x) <= NEWTON_LAST:
            return new
        x = new
    return x


@subroutine("void(float64[::1], float64, float64, float64, float64)")
def _add(row, lo, hi, v, mass):  # type: ignore[no-untyped-def]
    """Add mass * T_n(v), v in the panel (lo, hi), to the coefficients of that panel."""
    y = min(1.0, max(-1.0, (2.0 * v - lo - hi) / (hi - lo)))  # cuts are rounded
    t0, t1 = 1.0, y
    row[0] += mass
    for n in range(1, DEGREE):
        row[n] += mass * t1
        t0, t1 = t1, 2.0 * y * t1 - t0


# below, 16 nodes at a time: loops over them are the inner ones, for the vector units
@subroutine("void(float64[::1], float64[::1], float64, float64, float64[:,::1])")
def _sample(loss, weight, middle, half, work):  # type: ignore[no-untyped-def]
    """Write loss and weight at the Gauss nodes of [middle - half, middle + half] to rows 0, 1."""
    value, mass, xi, t0, t1 = work[0], work[1], work[2], work[3], work[4]
    for j in range(16):
        xi[j] = middle + half * NODES[j]
        t0[j], t1[j] = 1.0, xi[j]
        value[j], mass[j] = loss[0], weight[0]
    for n in range(1, 16):
        for j in range(16):
            value[j] += loss[n] * t1[j]
            mass[j] += weight[n] * t1[j]
            t0[j], t1[j] = t1[j], 2.0 * xi[j] * t1[j] - t0[j]
    for j in range(16):
        mass[j] *= half * WEIGHTS[j]


@subroutine("void(float64[::1], float64, float64, float64, float64[:,::1])")
def _add_all(row, lo, hi, u, work):  # type: ignore[no-untyped-def]
    """Add to a panel's coefficients the masses of row 1 of `work` at u - L, the L in row 0."""
    value, mass, y, t0, t1 = work[0], work[1], work[2], work[3], work[4]
    for j in range(16):
        v = 2.0 * (u - value[j])
        y[j] = min(1.0, max(-1.0, (v - lo - hi) / (hi - lo)))  # cuts are rounded
        t0[j], t1[j] = 1.0, y[j]
        row[0] += mass[j]
    for n in range(1, DEGREE):
        total = 0.0
        for j in range(16):
            total += mass[j] * t1[j]
            t0[j], t1[j] = t1[j], 2.0 * y[j] * t1[j] - t0[j]
        row[n] += total


@compiled(
    "void(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " float64[:,::1], float64[:,::1], int64, float64[:,::1])",
    makes_arrays=True,
)
def act(u, edges, loss, weight, node_loss, node_weight, ends, parts, out):  # type: ignore
    """Matrix rows of the part with a density, see `Tabulated.act`."""
    last = edges.size - 2
    work = np.empty((5, 16))
    for i in range(u.size):
        for p in range(loss.shape[0]):
            low, high = min(ends[p, 0], ends[p, 1]), max(ends[p, 0], ends[p, 1])
            bottom, top = u[i] - high, u[i] - low
            if top <= edges[0] or bottom >= edges[-1]:
                continue
            m0 = np.searchsorted(edges, bottom, side="right") - 1
            m1 = np.searchsorted(edges, top, side="left") - 1
            if m0 == m1 and parts == 1:
                row = out[i, DEGREE * m0 : DEGREE * m0 + DEGREE]
                for j in range(16):  # compiled slices cost seconds
                    work[0, j], work[1, j] = node_loss[p, j], node_weight[p, j]
                _add_all(row, edges[m0], edges[m0 + 1], u[i], work)
                continue
            rising = ends[p, 1] > ends[p, 0]
            m0, m1 = max(m0, 0), min(max(m0, m1), last)
            # u - L falls with L: the lowest panel of g belongs to the highest losses
            at, reached = (1.0, ends[p, 1]) if rising else (-1.0, ends[p, 0])
            if bottom < edges[m0]:
                reached = u[i] - edges[m0]
                f_low, f_high = ends[p, 0] - reached, ends[p, 1] - reached
                at = _solve(loss[p], reached, -1.0, 1.0, f_low, f_high)
            for m in range(m0, m1 + 1):
                end = -1.0 if rising else 1.0
                if top > edges[m + 1]:
                    goal = u[i] - edges[m + 1]
                    f_at = reached - goal
                    if rising:
                        end = _solve(loss[p], goal, -1.0, at, ends[p, 0] - goal, f_at)
                    else:
                        end = _solve(loss[p], goal, at, 1.0, f_at, ends[p, 1] - goal)
                    reached = goal
                row = out[i, DEGREE * m : DEGREE * m + DEGREE]
                half = 0.5 * abs(end - at) / parts
                start = min(end, at)
                at = end
                for part in range(parts):
                    _sample(loss[p], weight[p], start + (2 * part + 1) * half, half, work)
                    _add_all(row, edges[m], edges[m + 1], u[i], work)


@compiled("void(float64[::1], float64[::1], float64[::1], float64[::1], float64[:,::1])")
def act_atoms(u, edges, loss, mass, out):  # type: ignore[no-untyped-def]
    """Matrix rows of the atoms."""
    for i in range(u.size):
        for a in range(loss.size):
            v = u[i] - loss[a]
            if edges[0] <= v < edges[-1]:
                m = np.searchsorted(edges, v, side="right") - 1
                row = out[i, DEGREE * m : DEGREE * m + DEGREE]
                _add(row, edges[m], edges[m + 1], v, mass[a])


RESOLVED = 1e-14  # top coefficients of the tilted density, as a share of its least value
STEEPEST = 1e3  # ratio of largest to least density in a panel
ACCEPTED = 5e-11  # relative error of a panel's density; where it is larger it counts as misplaced
MAX_PANELS = 4_000  # of the density, both sides of its cuts

# values at the Gauss nodes -> Chebyshev coefficients
_TO_CHEBYSHEV = np.ascontiguousarray(np.linalg.inv(chebyshev.chebvander(NODES, ORDER - 1)))
_ENDS = chebyshev.chebvander(np.array([-1.0, 1.0]), ORDER - 1)  # coefficients -> values there


@dataclass(frozen=True, eq=False)
class Tabulated:
    """The tilted law of one step, masses normalised to one."""

    loss: Floats  # Chebyshev coefficients of L - anchor, shape (panels, 16)
    weight: Floats  # those of the tilted density in xi, shape (panels, 16)
    node_loss: Floats  # L - anchor at the Gauss nodes
    node_weight: Floats  # the masses they stand for
    ends: Floats  # L - anchor at xi = -1 and 1, shape (panels, 2)
    atom_loss: Floats
    atom_mass: Floats
    kinks: Floats  # losses (minus anchor) where the law is not smooth, increasing
    relative: float  # estimated relative error of the density
    error: float  # bound on the tilted mass left out or misplaced

    def act(self, points: Floats, edges: Floats, parts: int = 1) -> Floats:
        """Return the matrix of E_nu[g(u - L)] at the points u.

        Args:
            points: values of u, shape (n,).
            edges: increasing panel edges of g, which is zero outside them, shape (m + 1,).
            parts: pieces into which each interval of integration is cut.

        Returns:
            Shape (n, 16 m): coefficients of panel i of g are columns 16 i .. 16 i + 15.
        """
        out = np.zeros((points.size, DEGREE * (edges.size - 1)))
        act(
            points, edges, self.loss, self.weight, self.node_loss, self.node_weight, self.ends,
            parts, out,
        )  # fmt: skip
        act_atoms(points, edges, self.atom_loss, self.atom_mass, out)
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
    loss, weight, relative, error, kinks = _continuous(law, tilt, log_mgf, floor)
    node_weight = (weight @ _VALUES.T) * WEIGHTS
    atom_mass = np.exp(law.atom_log_mass + tilt * law.atom_loss - log_mgf)
    total = float(node_weight.sum() + atom_mass.sum())
    if not abs(total - 1.0) < 1e-6:
        raise NumericError(f"{law.label}: the law tilted by {tilt:g} has mass {total!r}, not 1")
    loss[:, 0] -= anchor
    return Tabulated(
        loss=loss, weight=weight / total, node_loss=np.ascontiguousarray(loss @ _VALUES.T),
        node_weight=np.ascontiguousarray(node_weight / total),
        ends=np.ascontiguousarray(loss @ _ENDS.T), atom_loss=law.atom_loss - anchor,
        atom_mass=atom_mass / total,
        kinks=np.unique(np.concatenate([kinks, law.atom_loss]) - anchor),
        relative=relative + abs(total - 1.0) + 8e-15, error=error,
    )  # fmt: skip


_VALUES = chebyshev.chebvander(NODES, ORDER - 1)  # Chebyshev coefficients -> values at the nodes


def _continuous(
    law: PrivacyLoss, tilt: float, log_mgf: float, floor: float
) -> tuple[Floats, Floats, float, float, Floats]:
    """Loss and weight coefficients of the part with a density, their errors, and the kinks."""
    source, reverse = law.source, law.is_reversed
    if source is None or not source.continuous:
        return np.empty((0, ORDER)), np.empty((0, ORDER)), 0.0, 0.0, np.empty(0)
    sign = -1.0 if reverse else 1.0
    limits = source.rows[:, 3:5].ravel()
    kinks = [sign * limits[np.isfinite(limits)]]
    losses, weights, relative, error = [], [], 0.0, 0.0
    tilts = (min(-1.0 - tilt, -1.0), 0.0) if reverse else (-1.0, max(tilt, 0.0))
    for branch in branches.branches_of(source, *tilts):
        inner = source.panels.lo
        inner = inner[(inner > branch.lo) & (inner < branch.hi)]
        edges = np.unique(np.concatenate([[branch.lo], inner, [branch.hi]]))
        loss, weight, share, lost, *seen = _resolve(source, edges, (tilt, log_mgf, floor), reverse)
        losses.append(loss)
        weights.append(weight)
        relative, error = max(relative, share), error + lost
        ends = np.array([branch.loss_lo, branch.loss_hi])
        reached = np.array(seen) == np.array([branch.lo, branch.hi])
        kinks.append(sign * ends[reached & np.isfinite(ends)])
    panels = np.concatenate(losses), np.concatenate(weights)
    return *panels, relative, error, np.concatenate(kinks)


def _resolve(
    source: KernelSource, edges: Floats, law: tuple[float, float, float], reverse: bool
) -> tuple[Floats, Floats, float, float, float, float]:
    """Halve panels until density and loss are resolved, the density relative to its least value."""
    # Coefficients, relative and absolute error, and the outputs that carry tilted mass; what is
    # below `floor` of it need not be resolved.
    tilt, log_mgf, floor = law
    sign = -1.0 if reverse else 1.0
    density = source.kernel.log_q_many if reverse else source.kernel.log_p_many
    light = floor / MAX_PANELS

    def look(lo: Floats, hi: Floats) -> tuple[tuple[Floats, ...], NDArray[np.bool_]]:
        half = 0.5 * (hi - lo)
        x = np.ascontiguousarray(((0.5 * lo + 0.5 * hi)[:, None] + half[:, None] * NODES).ravel())
        log_f, loss = np.empty(x.size), losses(source.kernel, source.theta, x)
        density(x, source.theta, log_f)
        bad = ~(np.isfinite(log_f) & np.isfinite(loss))
        log_f[bad], loss[bad] = -np.inf, 0.0
        loss = sign * loss.reshape(-1, ORDER)
        log_weight = log_f.reshape(-1, ORDER) + tilt * loss - log_mgf
        if not log_weight.max() < MOST_LOG:
            raise NumericError(f"{source.label}: rounding is all of the law tilted by {tilt:g}")
        weight = np.exp(log_weight) * half[:, None]
        c_loss, c_weight = loss @ _TO_CHEBYSHEV.T, weight @ _TO_CHEBYSHEV.T
        least, most, mass = weight.min(axis=1), weight.max(axis=1), weight @ WEIGHTS
        rough_w = np.abs(c_weight[:, -2:]).max(axis=1)
        rough_l = np.abs(c_loss[:, -2:]).max(axis=1) - 4e-16 * np.abs(loss).max(axis=1)
        size = np.abs(np.where(bad, 0.0, log_f).reshape(-1, ORDER)) + np.abs(tilt * loss)
        noise = 4e-16 * (4.0 + abs(log_mgf) + size.max(axis=1)) * most
        rough = np.maximum(rough_w, least * (1.0 + abs(tilt)) * rough_l)
        split = rough > np.maximum(RESOLVED * least + noise, floor)
        split |= (most > STEEPEST * least) & (noise > floor)
        split &= (mass > light) & (hi - lo > 1e-14 * np.maximum(np.abs(lo), np.abs(hi)))
        return (c_loss, c_weight, mass, rough + noise, least), split

    refusal = f"{source.label}: the law tilted by {tilt:g} is too rough to tabulate"
    lo, hi, c_loss, c_weight, mass, rough, least = halved(edges, look, MAX_PANELS, refusal)
    heavy = mass > light
    good = rough <= ACCEPTED * least
    return (
        c_loss[heavy], c_weight[heavy],
        float((rough[heavy & good] / least[heavy & good]).max(initial=0.0)),
        float(mass[~heavy].sum() + rough[heavy & ~good].sum()),
        float(lo[heavy].min(initial=math.inf)), float(hi[heavy].max(initial=-math.inf)),
    )  # fmt: skip
