"""The map g -> E_nu[g(u - L)] of a tabulated step, as rows of a matrix on Chebyshev coefficients.

Every output panel of the step is cut where u - L(x) crosses an edge of g, so that each piece of
the integrand is a product of resolved polynomials; see `Tabulated.act`, its only caller.
"""

from __future__ import annotations

import numpy as np

from mechc.loss.compiled import compiled
from mechc.loss.rule import NODES, WEIGHTS

DEGREE = 16  # Chebyshev coefficients of one panel of the functions acted on
ROOT_STEPS = 60
ROOT_TOLERANCE = 1e-10  # in xi; g is continuous at the cuts, so they need few digits
NEWTON_LAST = 1e-5  # a step of Newton's method so short leaves no error that counts

_ANY_ORDER = {"reassoc", "contract"}


@compiled("UniTuple(float64, 2)(float64[::1], float64)")
def _value(c, x):  # type: ignore[no-untyped-def]
    """Sum of c_n T_n(x) and its derivative, by Clenshaw's recurrence."""
    b1, b2, d1, d2 = 0.0, 0.0, 0.0, 0.0
    for n in range(c.size - 1, 0, -1):
        d1, d2 = 2.0 * (b1 + x * d1) - d2, d1
        b1, b2 = 2.0 * x * b1 - b2 + c[n], b1
    return x * b1 - b2 + c[0], b1 + x * d1 - d2


@compiled("float64(float64[::1], float64[::1], float64, float64, float64, float64, float64)")
def _solve(c, at_nodes, target, low, high, f_low, f_high):  # type: ignore[no-untyped-def]
    """Root of f = sum c_n T_n - target, monotone on [low, high], with its values at both ends.

    The values at the nodes leave a short interval, in which Newton's method needs two or three
    steps from where the chord is zero; bisection takes over where it leaves the interval.
    """
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
        f, slope = _value(c, x)
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


@compiled("void(float64[::1], float64, float64, float64, float64)")
def _add(row, lo, hi, v, mass):  # type: ignore[no-untyped-def]
    """Add mass * T_n(v), v in the panel (lo, hi), to the coefficients of that panel."""
    y = min(1.0, max(-1.0, (2.0 * v - lo - hi) / (hi - lo)))  # cuts are rounded
    t0, t1 = 1.0, y
    row[0] += mass
    for n in range(1, DEGREE):
        row[n] += mass * t1
        t0, t1 = t1, 2.0 * y * t1 - t0


# below, 16 nodes at a time: loops over them are the inner ones, for the vector units; sums over
# them may be taken in any order; five degrees at a time stay in registers
@compiled("void(float64[::1], float64[::1], float64, float64, float64[:,::1])", fastmath=_ANY_ORDER)
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


@compiled("void(float64[::1], float64, float64, float64, b1, float64[:,::1])", fastmath=_ANY_ORDER)
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
