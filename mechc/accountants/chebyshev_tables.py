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
from mechc.protocol import Floats

DEGREE = 16  # Chebyshev coefficients of one panel of the functions acted on
ROOT_STEPS = 60
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


@subroutine("float64(float64[::1], float64[::1], float64, float64, float64, float64, float64)")
def _solve(c, at_nodes, target, low, high, f_low, f_high):  # type: ignore[no-untyped-def]
    """Root of f = sum c_n T_n - target, monotone on [low, high], with its values at both ends."""
    # The values at the nodes leave a short interval, in which Newton's method needs two or three
    # steps from where the chord is zero; bisection takes over where it leaves the interval.
    if f_low * f_high >= 0.0:
        return low if abs(f_low) < abs(f_high) else high
    scale = abs(f_high - f_low)
    for j in range(16):
        if low < NODES[j] < high:
            f = at_nodes[j] - target
            if (f > 0.0) == (f_high > 0.0):
                high, f_high = NODES[j], f
                break
            low, f_low = NODES[j], f
    x = low - f_low * (high - low) / (f_high - f_low)
    for _ in range(ROOT_STEPS):
        f, slope = series(c, x)
        f -= target
        if (f > 0.0) == (f_high > 0.0):
            high = x
        else:
            low = x
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


# below, 16 nodes at a time: loops over them are the inner ones, for the vector units; five degrees
# at a time stay in registers
@subroutine("void(float64[::1], float64[::1], float64, float64, float64[:,::1])")
def _sample(loss, weight, middle, half, work):  # type: ignore[no-untyped-def]
    """Write loss and weight at the Gauss nodes of [middle - half, middle + half] to rows 0, 1."""
    value, mass, xi, t0, t1 = work[0], work[1], work[2], work[3], work[4]
    for j in range(16):
        xi[j] = middle + half * NODES[j]
        t0[j], t1[j] = 1.0, xi[j]
        value[j], mass[j] = loss[0], weight[0]
    for n in range(1, 16, 5):
        a1, a2, a3, a4, a5 = loss[n], loss[n + 1], loss[n + 2], loss[n + 3], loss[n + 4]
        b1, b2, b3, b4, b5 = weight[n], weight[n + 1], weight[n + 2], weight[n + 3], weight[n + 4]
        for j in range(16):
            x2, c0, c1 = 2.0 * xi[j], t0[j], t1[j]
            c2 = x2 * c1 - c0
            c3 = x2 * c2 - c1
            c4 = x2 * c3 - c2
            c5 = x2 * c4 - c3
            value[j] += a1 * c1 + a2 * c2 + a3 * c3 + a4 * c4 + a5 * c5
            mass[j] += b1 * c1 + b2 * c2 + b3 * c3 + b4 * c4 + b5 * c5
            t0[j], t1[j] = c5, x2 * c5 - c4
    for j in range(16):
        mass[j] *= half * WEIGHTS[j]


@subroutine("void(float64[::1], float64, float64, float64, b1, float64[:,::1])")
def _add_all(row, lo, hi, u, payoff, work):  # type: ignore[no-untyped-def]
    """Add to a panel's coefficients the masses of row 1 of `work` at u - L, the L in row 0."""
    value, mass, y, t0, t1 = work[0], work[1], work[2], work[3], work[4]
    for j in range(16):
        v = u - value[j]
        if payoff:
            mass[j] *= max(-v, 0.0)
        y[j] = min(1.0, max(-1.0, (2.0 * v - lo - hi) / (hi - lo)))  # cuts are rounded
        t0[j], t1[j] = 1.0, y[j]
        row[0] += mass[j]
    for n in range(1, DEGREE, 5):
        s1, s2, s3, s4, s5 = 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(16):
            y2, c0, c1 = 2.0 * y[j], t0[j], t1[j]
            c2 = y2 * c1 - c0
            c3 = y2 * c2 - c1
            c4 = y2 * c3 - c2
            c5 = y2 * c4 - c3
            s1 += mass[j] * c1
            s2 += mass[j] * c2
            s3 += mass[j] * c3
            s4 += mass[j] * c4
            s5 += mass[j] * c5
            t0[j], t1[j] = c5, y2 * c5 - c4
        row[n] += s1
        row[n + 1] += s2
        row[n + 2] += s3
        row[n + 3] += s4
        row[n + 4] += s5


@compiled(
    "void(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " float64[:,::1], float64[:,::1], int64, b1, float64[:,::1])",
)
def act(u, edges, loss, weight, node_loss, node_weight, ends, parts, payoff, out):  # type: ignore
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
                work[0] = node_loss[p]
                work[1] = node_weight[p]
                _add_all(row, edges[m0], edges[m0 + 1], u[i], payoff, work)
                continue
            rising = ends[p, 1] > ends[p, 0]
            m0, m1 = max(m0, 0), min(max(m0, m1), last)
            # u - L falls with L: the lowest panel of g belongs to the highest losses
            at, reached = (1.0, ends[p, 1]) if rising else (-1.0, ends[p, 0])
            if bottom < edges[m0]:
                reached = u[i] - edges[m0]
                f_low, f_high = ends[p, 0] - reached, ends[p, 1] - reached
                at = _solve(loss[p], node_loss[p], reached, -1.0, 1.0, f_low, f_high)
            for m in range(m0, m1 + 1):
                end = -1.0 if rising else 1.0
                if top > edges[m + 1]:
                    goal = u[i] - edges[m + 1]
                    f_at = reached - goal
                    if rising:
                        end = _solve(loss[p], node_loss[p], goal, -1.0, at, ends[p, 0] - goal, f_at)
                    else:
                        end = _solve(loss[p], node_loss[p], goal, at, 1.0, f_at, ends[p, 1] - goal)
                    reached = goal
                row = out[i, DEGREE * m : DEGREE * m + DEGREE]
                half = 0.5 * abs(end - at) / parts
                start = min(end, at)
                at = end
                for part in range(parts):
                    _sample(loss[p], weight[p], start + (2 * part + 1) * half, half, work)
                    _add_all(row, edges[m], edges[m + 1], u[i], payoff, work)


@compiled("void(float64[::1], float64[::1], float64[::1], float64[::1], b1, float64[:,::1])")
def act_atoms(u, edges, loss, mass, payoff, out):  # type: ignore[no-untyped-def]
    """Matrix rows of the atoms."""
    for i in range(u.size):
        for a in range(loss.size):
            v = u[i] - loss[a]
            if edges[0] <= v < edges[-1]:
                m = np.searchsorted(edges, v, side="right") - 1
                row = out[i, DEGREE * m : DEGREE * m + DEGREE]
                _add(row, edges[m], edges[m + 1], v, -v * mass[a] if payoff else mass[a])


RESOLVED = 1e-14  # top coefficients of the tilted density, as a share of its least value
STEEPEST = 1e3  # ratio of largest to least density in a panel
ACCEPTED = 5e-11  # relative error of a panel's density; where it is larger it counts as misplaced
MAX_PANELS = 4_000
LARGEST = 700.0  # log of a tilted density's largest value

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
            points, edges, self.loss, self.weight, self.node_loss, self.node_weight, self.ends,
            parts, payoff, out,
        )  # fmt: skip
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
        loss=np.ascontiguousarray(loss), weight=np.ascontiguousarray(weight / total),
        node_loss=np.ascontiguousarray(loss @ _VALUES.T),
        node_weight=np.ascontiguousarray(node_weight / total),
        ends=np.ascontiguousarray(loss @ _ENDS.T), atom_loss=law.atom_loss - anchor,
        atom_mass=atom_mass / total,
        kinks=np.unique(np.concatenate([kinks, law.atom_loss]) - anchor),
        relative=relative + abs(total - 1.0) + 8e-15, error=error,
    )  # fmt: skip


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
        kinks.append(sign * ends[reached & np.isfinite(ends)])
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
    """Halve panels until density and loss are resolved, the density relative to its least value."""
    # What is below `floor` (tilted mass) need not be.
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
        if not log_weight.max() < LARGEST:
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
    return _Branch(
        c_loss[heavy], c_weight[heavy],
        float((rough[heavy & good] / least[heavy & good]).max(initial=0.0)),
        float(mass[~heavy].sum() + rough[heavy & ~good].sum()),
        float(lo[heavy].min(initial=math.inf)), float(hi[heavy].max(initial=-math.inf)),
    )  # fmt: skip
