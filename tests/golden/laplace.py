"""laplace: Laplace noise on a real query.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 112.
Parameters: theta = (scale, sensitivity), in this order.

on (-oo, 0), plateau:
    p = (1/(2*scale)) * exp((-sensitivity + x)/scale)
    q = (1/(2*scale)) * exp(x/scale)
    loss = -sensitivity/scale
on (0, sensitivity), increasing:
    p = (1/(2*scale)) * exp((-sensitivity + x)/scale)
    q = (1/(2*scale)) * exp(-x/scale)
    loss = -sensitivity/scale + 2*x/scale
    x = ell*scale/2 + sensitivity/2  where loss = ell
on (sensitivity, oo), plateau:
    p = (1/(2*scale)) * exp(-(-sensitivity + x)/scale)
    q = (1/(2*scale)) * exp(-x/scale)
    loss = sensitivity/scale
K(z) = log E_P[exp(z L); L finite] = log(exp(sensitivity*z/scale)/2 +
    exp(-sensitivity/scale)*exp(-sensitivity*z/scale)/2 +
    sensitivity*exp(-sensitivity/(2*scale))*sinhc(sensitivity*(z + 1/2)/scale)/(2*scale))
"""

import math
import sys

import numba
import numpy as np

COMPILE = {
    "error_model": "numpy",
    "cache": __name__ in sys.modules,  # numba finds machine code by the name of the module
    "no_cfunc_wrapper": True,
}

DIGEST = "44d1f13b3737252e"
PROTOCOL = 2
NAME = "laplace"
MEASURE = "density"
SYMMETRIC = True
# name, lo, hi, lo open, hi open, integer, default, typical range
PARAMETERS = (
    ("scale", 0.0, math.inf, True, True, False, None, (0.5, 50.0)),
    ("sensitivity", 0.0, math.inf, True, True, False, 1.0, (0.1, 5.0)),
)
BRANCHES = (
    "plateau on (-oo, 0)",
    "increasing on (0, sensitivity)",
    "plateau on (sensitivity, oo)",
)
CAPABILITIES = {
    "infinite_mass": "closed: no such region",
    "lattice": "unavailable: the loss varies continuously or irregularly on (0, sensitivity)",
    "cgf": "closed: mass of a plateau, exponential density of the loss, verified",
    "cdf": "closed: antiderivatives by rule",
}
CLAIM = {
    "status": "proven",
    "theorem": "T1",
    "adjacency": "any",
    "conditions": (
        "the noise is unimodal (signs of the derivative)",
        "the noise is symmetric, so both signs of the move are covered",
    ),
    "assumptions": ("the query moves by at most sensitivity between neighbours",),
}
REFS = ("dwork2006calibrating",)
ABOUT = "Laplace noise on a real query."


class Compiled:
    """A function of declared types, which numba compiles when it is first needed.

    A plain one, called once a query, runs as Python where Python calls it and nothing overflows.
    """

    def __init__(self, function, types, plain):
        self.py_func, self.types, self.plain, self.made = function, types, plain, None
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @property
    def machine_code(self):
        """The function that numba made."""
        if self.made is None:
            self.made = numba.njit(self.types, **COMPILE)(self.py_func)
        return self.made

    @property
    def _numba_type_(self):
        return self.machine_code._numba_type_

    def __call__(self, *arguments):
        if self.plain:
            try:
                with np.errstate(all="ignore"):
                    return self.py_func(*arguments)
            except (ArithmeticError, ValueError):
                pass
        return self.machine_code(*arguments)


def compiled(types, plain=False):
    """Declare the types of a function."""
    return lambda function: Compiled(function, types, plain)


@compiled("complex128(complex128)", plain=True)
def complex_sinh(z: complex) -> complex:
    """Return sinh(z)."""
    x, y = z.real, z.imag
    return complex(math.sinh(x) * math.cos(y), math.cosh(x) * math.sin(y))


@compiled("complex128(complex128)", plain=True)
def complex_sinhc(z: complex) -> complex:
    """Return sinh(z)/z, with 1 at z = 0."""
    return complex_sinh(z) / z if z.real != 0.0 or z.imag != 0.0 else complex(1.0, 0.0)


@compiled("complex128(complex128)", plain=True)
def complex_exp(z: complex) -> complex:
    """Return exp(z)."""
    size = math.exp(z.real)
    return complex(size * math.cos(z.imag), size * math.sin(z.imag))


@compiled("complex128(complex128)", plain=True)
def complex_log1p(z: complex) -> complex:
    """Return log(1 + z), accurate near z = 0 (where library versions lose the real part)."""
    x, y = z.real, z.imag
    if math.fabs(x) < 0.5 and math.fabs(y) < 0.5:
        return complex(0.5 * math.log1p(x * (2.0 + x) + y * y), math.atan2(y, 1.0 + x))
    return complex(math.log(math.hypot(1.0 + x, y)), math.atan2(y, 1.0 + x))


@compiled("complex128(complex128)", plain=True)
def complex_log(z: complex) -> complex:
    """Return the principal log(z), accurate near z = 1."""
    x, y = z.real, z.imag
    if 0.5 < x < 1.5 and math.fabs(y) < 0.5:
        return complex_log1p(complex(x - 1.0, y))
    return complex(math.log(math.hypot(x, y)), math.atan2(y, x))


@compiled("float64(float64, float64[::1])")
def log_p(x, theta):
    """Log density of P at x."""
    scale = theta[0]
    sensitivity = theta[1]
    if x < sensitivity:
        return -0.6931471805599453 + (x - sensitivity) / scale - math.log(scale)
    else:
        return -0.6931471805599453 - (x - sensitivity) / scale - math.log(scale)


@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_p_many(xs, theta, out):
    """Write log_p of each element to out."""
    scale = theta[0]
    sensitivity = theta[1]
    c0 = -0.6931471805599453 - math.log(scale)
    for i in range(xs.size):
        x = xs[i]
        if x < sensitivity:
            out[i] = (x - sensitivity) / scale + c0
        else:
            out[i] = c0 - (x - sensitivity) / scale


@compiled("float64(float64, float64[::1])")
def log_q(x, theta):
    """Log density of Q at x."""
    scale = theta[0]
    if x < 0.0:
        return -0.6931471805599453 + x / scale - math.log(scale)
    else:
        return -0.6931471805599453 - x / scale - math.log(scale)


@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_q_many(xs, theta, out):
    """Write log_q of each element to out."""
    scale = theta[0]
    c0 = -0.6931471805599453 - math.log(scale)
    for i in range(xs.size):
        x = xs[i]
        if x < 0.0:
            out[i] = x / scale + c0
        else:
            out[i] = c0 - x / scale


@compiled("float64(float64, float64[::1])")
def loss(x, theta):
    """Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."""
    scale = theta[0]
    sensitivity = theta[1]
    if x < 0.0:
        return -sensitivity / scale
    elif x < sensitivity:
        return (2.0 * x - sensitivity) / scale
    else:
        return sensitivity / scale


@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    scale = theta[0]
    sensitivity = theta[1]
    c0 = sensitivity / scale
    c1 = -c0
    for i in range(xs.size):
        x = xs[i]
        if x < 0.0:
            out[i] = c1
        elif x < sensitivity:
            out[i] = (2.0 * x - sensitivity) / scale
        else:
            out[i] = c0


@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return -math.inf


@compiled("complex128(complex128, float64[::1])")
def cgf(z, theta):
    """Cumulant generating function log E_P[exp(z L); L finite] for complex z."""
    scale = theta[0]
    sensitivity = theta[1]
    t0 = sensitivity * z / scale
    t1 = 0.5 * sensitivity * math.exp(-0.5 * sensitivity / scale) * complex_sinhc(sensitivity * (z + 0.5) / scale)
    t2 = 0.5 * complex_exp(-sensitivity / scale - t0) + t1 / scale + 0.5 * complex_exp(t0)
    return complex_log(t2)


@compiled("float64(float64, float64[::1])")
def cdf_p(x, theta):
    """Probability of (-inf, x] under P."""
    scale = theta[0]
    sensitivity = theta[1]
    if sensitivity > x:
        return 0.5 * math.exp(x / scale - sensitivity / scale)
    else:
        t0 = -0.5 * math.exp(sensitivity / scale - x / scale)
        return t0 + 1.0


@compiled("float64(float64, float64[::1])")
def sf_p(x, theta):
    """Probability of (x, inf) under P."""
    scale = theta[0]
    sensitivity = theta[1]
    if sensitivity > x:
        t0 = -0.5 * math.exp(x / scale - sensitivity / scale)
        return t0 + 1.0
    else:
        return 0.5 * math.exp(sensitivity / scale - x / scale)


@compiled("float64(float64, float64[::1])")
def cdf_q(x, theta):
    """Probability of (-inf, x] under Q."""
    scale = theta[0]
    if x < 0.0:
        return 0.5 * math.exp(x / scale)
    else:
        return 1.0 - 0.5 * math.exp(-x / scale)


@compiled("float64(float64, float64[::1])")
def sf_q(x, theta):
    """Probability of (x, inf) under Q."""
    scale = theta[0]
    if x < 0.0:
        return 1.0 - 0.5 * math.exp(x / scale)
    else:
        return 0.5 * math.exp(-x / scale)


@compiled("float64(float64, float64[::1])")
def loss_inverse_1(ell, theta):
    """x in (0, sensitivity) with loss(x) = ell."""
    scale = theta[0]
    sensitivity = theta[1]
    return 0.5 * (sensitivity + ell * scale)


@compiled("float64(int64, float64, float64[::1])")
def loss_inverse(branch, ell, theta):
    """The output of a branch that has a loss; nan on branches without an inverse."""
    if branch == 1:
        return loss_inverse_1(ell, theta)
    return math.nan


@compiled("void(int64, float64[::1], float64[::1], float64[::1])")
def loss_inverse_many(branch, ells, theta, out):
    """Write loss_inverse of each element to out."""
    for i in range(ells.size):
        out[i] = loss_inverse(branch, ells[i], theta)


@compiled("int64(float64[:, ::1], int64, float64, float64, float64, float64, float64, float64)", plain=True)
def add_branch(out, n, lo, hi, kind, left, right, index):
    """Write a branch to row n unless it is empty; return the next free row."""
    if not lo < hi:
        return n
    out[n, 0], out[n, 1], out[n, 2] = lo, hi, kind
    out[n, 3], out[n, 4], out[n, 5] = left, right, index
    return n + 1


@compiled("float64[:, ::1](float64[::1])", plain=True)
def branches(theta):
    """Branches of the loss: lo, hi, kind, loss at lo+, loss at hi-, index of the inverse."""
    scale = theta[0]
    sensitivity = theta[1]
    t0 = sensitivity / scale
    out = np.empty((3, 6))
    n = 0
    # plateau on (-oo, 0)
    n = add_branch(out, n, -math.inf, 0.0, 0.0, -t0, -t0, 0.0)
    # increasing on (0, sensitivity)
    n = add_branch(out, n, 0.0, sensitivity, 1.0, -t0, t0, 1.0)
    # plateau on (sensitivity, oo)
    n = add_branch(out, n, sensitivity, math.inf, 0.0, t0, t0, 2.0)
    return out[:n]


@compiled("float64[::1](float64[::1])", plain=True)
def breakpoints(theta):
    """Sorted distinct ends of the branches."""
    return np.unique(branches(theta)[:, :2])


@compiled("float64[:, ::1](float64[::1])", plain=True)
def atoms(theta):
    """Atoms: x, log mass under P, log mass under Q."""
    out = np.empty((0, 3))
    return out


@compiled("float64[:, ::1](float64[::1])", plain=True)
def atom_errors(theta):
    """Relative errors of the masses of atoms, in roundings, where sums in them may cancel."""
    out = np.empty((0, 2))
    return out


@compiled("float64[::1](float64[::1])", plain=True)
def strip(theta):
    """The open interval of real t in which E_P[exp(t L); L finite] is finite."""
    return np.array([-math.inf, math.inf])


@compiled("float64[::1](float64[::1])", plain=True)
def lattice(theta):
    """All losses are offset + step * integer; nan: no."""
    return np.array([math.nan, math.nan])


@compiled("float64(float64, float64, float64, float64[::1])")
def weight(p, q, ell, ask):
    """Log of what an output of log densities p, q and loss ell adds to a sum: p exp(t ell), or q if
    t is -1, where low < ell <= high, for ask = (t, low, high, payoff, power, size); times
    1 - exp(low - ell) if there is a payoff, times 1 + |ell / size|**power if there is a power."""
    t, low, high, power = ask[0], ask[1], ask[2], ask[4]
    if not (low < ell <= high or ell == low == -math.inf):
        return -math.inf
    value = p if t == 0.0 else (q if t == -1.0 else p + t * ell)
    if ask[3] > 0.0:
        value += math.log(-math.expm1(low - ell))
    if power > 0.0:
        value += math.log1p(math.pow(math.fabs(ell) / ask[5], power))
    return value if value < math.inf else -math.inf


@compiled("float64[:, ::1]()")
def rule():
    """Clenshaw and Curtis' 25 points on (-1, 1): places, weights, and weights of the two highest
    Chebyshev coefficients."""
    out = np.empty((25, 4))
    for i in range(25):
        share, angle = (0.5 if i % 24 == 0 else 1.0) / 12.0, math.pi * i / 24.0
        out[i, 0], out[i, 1] = math.cos(angle), share * (1.0 - math.cos(24.0 * angle) / 575.0)
        for j in range(1, 12):
            out[i, 1] -= 2.0 * share * math.cos(2.0 * j * angle) / (4.0 * j * j - 1.0)
        out[i, 2], out[i, 3] = share * math.cos(23.0 * angle), share * math.cos(24.0 * angle)
    return out


@compiled("void(float64, float64, float64[::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[::1])")
def sample(lo, hi, row, ask, points, out, theta):
    """Write loss, log weight, and that at any loss, at 25 points between lo and hi of the line to
    which a branch is mapped: by logits, by logs of distances from its only end, or by sinh."""
    a, b, free = row[0], row[1], np.array([ask[0], -math.inf, math.inf, 0.0, ask[4], ask[5]])
    for i in range(25):
        u = 0.5 * (lo + hi) + 0.5 * (hi - lo) * points[i, 0]
        far = math.exp(-math.fabs(u))
        if b - a < math.inf:
            x = a + (b - a) * far / (1.0 + far) if u < 0.0 else b - (b - a) * far / (1.0 + far)
            slope = math.log(b - a) - math.fabs(u) - 2.0 * math.log1p(far)
        elif a > -math.inf or b < math.inf:
            x, slope = (a + math.exp(u) if a > -math.inf else b - math.exp(u)), u
        else:
            x, slope = math.sinh(u), math.log(math.cosh(u))
        p, q, ell = log_p(x, theta), log_q(x, theta), loss(x, theta)
        out[i, 0], out[i, 1] = ell, weight(p, q, ell, ask) + slope
        out[i, 2] = max(weight(p, q, ell, free) + slope, -1e30)


@compiled("float64[:, ::1](float64[::1], float64[::1])")
def nodes(ask, theta):
    """Rows (loss, log weight) of outputs, see weight, that sum to what is asked."""
    atom, rows = atoms(theta), np.empty((4096, 2))
    n = atom.shape[0]
    for i in range(n):
        ell = atom[i, 1] - atom[i, 2]
        rows[i, 0], rows[i, 1] = ell, weight(atom[i, 1], atom[i, 2], ell, ask)
    points, table, best = rule(), branches(theta), -math.inf  # what is surely there
    out, todo = np.empty((25, 3)), np.empty((160, 2))
    for i in range(table.shape[0]):
        for j in range(32):
            todo[j, 0], todo[j, 1] = 43.75 * (j - 16.0), 43.75 * (j - 15.0)
        k, start, end, peak = 0, 0.0, 0.0, -math.inf
        for j in range(48):  # the largest weight of 32 cells, then of smaller and smaller ones
            lo, hi = (todo[j, 0], todo[j, 1]) if j < 32 else (start, end)
            sample(lo, hi, table[i], ask, points, out, theta)
            for m in range(25):
                k = m if m == 0 or out[m, 1] > out[k, 1] else k
            after, before, half = min(k + 1, 24), max(k - 1, 0), 0.5 * (hi - lo)
            if out[k, 1] > peak or j >= 32:
                peak, start = out[k, 1], 0.5 * (lo + hi) + half * points[after, 0]
                end = 0.5 * (lo + hi) + half * points[before, 0]
                for m in (before, after):
                    width = math.fabs(points[k, 0] - points[m, 0]) * half
                    best = max(best, out[m, 1] + math.log(width)) if width > 0.0 else best
        k = 32
        while k > 0 and n < 4194304:  # halves of cells, until they are smooth or matter little
            k -= 1
            lo, hi, least, most = todo[k, 0], todo[k, 1], 0.0, 0.0
            peak, top, bound = -math.inf, -math.inf, -math.inf
            sample(lo, hi, table[i], ask, points, out, theta)
            for m in range(25):
                here, before, after = out[m, 2], out[max(m - 1, 0), 2], out[min(m + 1, 24), 2]
                bound = max(bound, here + max(math.fabs(here - before), math.fabs(here - after)))
                if out[m, 1] > -math.inf:
                    peak, top = max(peak, out[m, 1]), max(top, here)
                ell = out[m, 0]
                least, most = (min(least, ell), max(most, ell)) if m > 0 else (ell, ell)
            crossed = peak > -math.inf or (least <= ask[1] and most > ask[2])
            share = bound + math.log(hi - lo) - best
            if ask[3] > 0.0 and most > ask[1]:
                share += math.log(-math.expm1(ask[1] - most))
            if not crossed or share < -50.0:
                continue
            total, first, second = 0.0, 0.0, 0.0
            for m in range(25):
                term = math.exp(out[m, 1] - peak) if out[m, 1] > -math.inf else 0.0
                total += term * points[m, 1]
                first, second = first + term * points[m, 2], second + term * points[m, 3]
            rough, noise = math.fabs(first) + math.fabs(second), 1e-12 + 4e-15 * math.fabs(peak)
            if ask[3] > 0.0:  # payoffs are differences
                noise += min(4e-15 * math.fabs(ask[1]) * math.exp(top - peak), 1e-5)
            smooth = rough < noise or math.log(rough) + share < -37.0
            mid, half = 0.5 * (lo + hi), 0.5 * (hi - lo)
            if peak > -math.inf and smooth or half < 1e-15 * (1.0 + math.fabs(mid)):
                best = max(best, peak + math.log(half * total))
                if n + 25 > rows.shape[0]:
                    rows = np.concatenate((rows, rows))
                for m in range(25):
                    rows[n + m, 0] = out[m, 0]
                    rows[n + m, 1] = out[m, 1] + math.log(half * points[m, 1])
                n += 25
            else:
                todo[k, 0], todo[k, 1], todo[k + 1, 0], todo[k + 1, 1], k = lo, mid, mid, hi, k + 2
    if n >= 4194304:
        rows[0, 1] = math.nan
    return rows[:n]


@compiled("float64(float64, float64, float64, float64, float64[::1])")
def log_mass(t, low, high, payoff, theta):
    """Log of all weights with low < loss <= high, see weight; nan if that takes too many."""
    rows, top, total = nodes(np.array([t, low, high, payoff, 0.0, 1.0]), theta), -math.inf, 0.0
    for i in range(rows.shape[0]):
        top = max(top, rows[i, 1])
    if top == -math.inf:
        return top
    for i in range(rows.shape[0]):
        total += math.exp(rows[i, 1] - top)
    return min(top + math.log(total), 0.0)


@compiled("float64(float64, float64[::1])")
def loss_cdf_p(ell, theta):
    """P(loss <= ell)."""
    return math.exp(log_mass(0.0, -math.inf, ell, 0.0, theta))


@compiled("float64(float64, float64[::1])")
def loss_sf_p(ell, theta):
    """P(loss > ell), infinite losses included."""
    return math.exp(log_mass(0.0, ell, math.inf, 0.0, theta))


@compiled("float64(float64, float64[::1])")
def loss_cdf_q(ell, theta):
    """Q(loss <= ell), losses of -inf included."""
    return math.exp(log_mass(-1.0, -math.inf, ell, 0.0, theta))


@compiled("float64(float64, float64[::1])")
def loss_sf_q(ell, theta):
    """Q(loss > ell)."""
    return math.exp(log_mass(-1.0, ell, math.inf, 0.0, theta))


@compiled("void(float64[::1], float64[::1], float64[:, ::1])")
def loss_masses(edges, theta, out):
    """Masses under P and Q, the rows of out, of losses up to edges[0], then in (edges[j - 1],
    edges[j]], last above all edges, infinite losses included: shape (2, edges.size + 1)."""
    for j in range(edges.size + 1):
        low = edges[j - 1] if j > 0 else -math.inf
        high = edges[j] if j < edges.size else math.inf
        out[0, j] = math.exp(log_mass(0.0, low, high, 0.0, theta))
        out[1, j] = math.exp(log_mass(-1.0, low, high, 0.0, theta))


@compiled("float64(float64, float64[::1])")
def log_delta(epsilon, theta):
    """Log of E_P[(1 - exp(epsilon - loss))_+], the delta of one step."""
    return log_mass(0.0, epsilon, math.inf, 1.0, theta)


@compiled("float64(float64, float64[::1])")
def delta(epsilon, theta):
    """Delta of one step."""
    return math.exp(log_delta(epsilon, theta))


@compiled("void(float64, float64[::1], float64[::1])")
def cgf_derivatives(t, theta, out):
    """Write K(t), K'(t), ... for finite losses to out, at most 9 of them, at a real t. They err by
    1e-12 of tilted moments about the mean. nan outside the strip; K alone if 0 or -1 is its end."""
    ends, moments = strip(theta), np.empty(out.size)
    known = ends[0] < t < ends[1]
    if not (known or t == 0.0 or t == -1.0):
        for k in range(out.size):
            out[k] = math.nan
        return
    ask = np.array([t, -math.inf, math.inf, 0.0, 1.0, math.inf])
    for _ in range(2):  # first for the size of the losses
        rows, top, total, mean, square = nodes(ask, theta), -math.inf, 0.0, 0.0, 0.0
        for i in range(rows.shape[0]):
            top = max(top, rows[i, 1])
        for i in range(rows.shape[0]):
            ell = rows[i, 0] if rows[i, 1] > -math.inf else 0.0
            term = math.exp(rows[i, 1] - top) / (1.0 + math.pow(math.fabs(ell) / ask[5], ask[4]))
            ell = ell if term > 0.0 else 0.0
            rows[i, 0], rows[i, 1], total = ell, term, total + term
            mean, square = mean + term * ell, square + term * ell * ell
        ask[4], ask[5] = out.size - 1.0, max(math.sqrt(square / total), 1e-300)
    for k in range(out.size):
        moments[k], ways = 0.0, k - 1.0
        for i in range(rows.shape[0]):
            moments[k] += rows[i, 1] / total * math.pow(rows[i, 0] - mean / total, k)
        out[k] = moments[k]
        for j in range(2, k - 1):  # ways: how many of k - 1 are with the first one in a block of j
            out[k] -= ways * out[j] * moments[k - j]
            ways *= (k - j) / j
    out[0], out[1] = top + math.log(total), mean / total
    for k in range(1 if not known else out.size, out.size):
        out[k] = math.nan


@compiled("void(float64[::1], float64[:, ::1])")
def cumulants(theta, out):
    """Write the cumulants of orders 1 to 8 of finite losses, under P and Q, to the rows of out."""
    one = np.empty(9)
    for law in range(2):
        cgf_derivatives(0.0 - law, theta, one)
        for k in range(8):
            out[law, k] = one[k + 1]


@compiled("void(float64[::1], float64[:, :, ::1])")
def edgeworth_terms(theta, out):
    """Write Edgeworth's coefficients to out, shape (2, 4, 12), under Q to out[1]: n steps have
    P(S <= m + s y) = Phi(y) - phi(y) sum_r n**(-r/2) sum_j out[0, r - 1, j] He_j(y)."""
    kappa = np.empty((2, 8))
    cumulants(theta, kappa)
    for law in range(2):
        s = math.sqrt(kappa[law, 1])
        a, b = kappa[law, 2] / math.pow(s, 3.0), kappa[law, 3] / math.pow(s, 4.0)
        c, d = kappa[law, 4] / math.pow(s, 5.0), kappa[law, 5] / math.pow(s, 6.0)
        for r in range(4):
            for j in range(12):
                out[law, r, j] = 0.0
        out[law, 0, 2] = a / 6.0
        out[law, 1, 3], out[law, 1, 5] = b / 24.0, a * a / 72.0
        out[law, 2, 4], out[law, 2, 6] = c / 120.0, a * b / 144.0
        out[law, 2, 8] = a * a * a / 1296.0
        out[law, 3, 5], out[law, 3, 7] = d / 720.0, b * b / 1152.0 + a * c / 720.0
        out[law, 3, 9], out[law, 3, 11] = a * a * b / 1728.0, a * a * a * a / 31104.0


# theta; x, log_p, log_q, loss, index of an inverse and the x that has this loss;
# computed from the declaration to 50 digits, None where infinite
CHECKS = (
    ((3.368194241975185, 0.6144615656140888), (
        (-0.45607017003965516, -2.2253594583624134, -2.0429288972158703, -0.1824305611465432, ()),
        (-1.4422205101855958, -2.5181425549713667, -2.3357119938248236, -0.1824305611465432, ()),
        (-6.928203230275509, -4.146903346650889, -3.9644727855043467, -0.1824305611465432, ()),
        (-22.271057451320086, -8.702119916360118, -8.519689355213576, -0.1824305611465432, ()),
        (-71.55417527999327, -23.33403075288374, -23.1516001917372, -0.1824305611465432, ()),
        (-2262.741699796952, -673.8866316717657, -673.7042011106192, -0.1824305611465432, ()),
        (0.007005939767811256, -2.0878744807929763, -1.9096039764985597, -0.17827050429441654, ((1, 0.007005939767811255),)),
        (0.07005939767811255, -2.0691542249584063, -1.9283242323331298, -0.1408299926252764, ((1, 0.07005939767811253),)),
        (0.2037938461236278, -2.0294491370573327, -1.9680293202342036, -0.06141981682312885, ((1, 0.2037938461236278),)),
        (0.373762378762576, -1.9789863310466924, -2.0184921262448436, 0.03950579519815103, ((1, 0.373762378762576),)),
        (0.5177545181724744, -1.9362357860765016, -2.0612426712150347, 0.12500688513853295, ((1, 0.5177545181724744),)),
        (0.6051744584402168, -1.9102812436756222, -2.0871972136159136, 0.1769159699402915, ((1, 0.6051744584402168),)),
        (1.070531735653744, -2.0429288972158703, -2.2253594583624134, 0.1824305611465432, ()),
        (2.0566820757996847, -2.3357119938248236, -2.5181425549713667, 0.1824305611465432, ()),
        (7.542664795889598, -3.9644727855043467, -4.14690334665089, 0.1824305611465432, ()),
        (22.885519016934175, -8.519689355213576, -8.702119916360118, 0.1824305611465432, ()),
        (72.16863684560737, -23.151600191737202, -23.334030752883745, 0.1824305611465432, ()),
        (2263.356161362566, -673.7042011106191, -673.8866316717657, 0.1824305611465432, ()),
    )),
    ((22.689464903349588, 3.775630156169171), (
        (-3.6485613603172413, -4.142256649110798, -3.9758521009095844, -0.16640454820121317, ()),
        (-11.537764081484767, -4.489959988734416, -4.323555440533203, -0.16640454820121317, ()),
        (-55.42562584220407, -6.424243672711478, -6.257839124510265, -0.16640454820121317, ()),
        (-178.1684596105607, -11.833927607136763, -11.66752305893555, -0.16640454820121317, ()),
        (-572.4334022399462, -29.210491766266895, -29.044087218065684, -0.16640454820121317, ()),
        (0.043048807183273086, -3.9795551405813687, -3.8169451999098305, -0.1626099406715382, ((1, 0.043048807183273176),)),
        (0.4304880718327309, -3.9624794066978315, -3.8340209337933677, -0.12845847290446352, ((1, 0.4304880718327309),)),
        (1.2522348575164102, -3.9262622993670027, -3.870238041124196, -0.05602425824280644, ((1, 1.2522348575164102),)),
        (2.2966261642209846, -3.880232509279252, -3.916267831211947, 0.036035321932695506, ((1, 2.2966261642209846),)),
        (3.181402518400268, -3.8412374797380893, -3.9552628607531095, 0.11402538101502017, ((1, 3.181402518400268),)),
        (3.7185644520283385, -3.8175629710656187, -3.9789373694255805, 0.1613743983599617, ((1, 3.7185644520283385),)),
        (7.424191516486412, -3.9758521009095844, -4.142256649110798, 0.16640454820121317, ()),
        (15.313394237653938, -4.323555440533203, -4.489959988734416, 0.16640454820121317, ()),
        (59.20125599837324, -6.257839124510265, -6.424243672711478, 0.16640454820121317, ()),
        (181.94408976672986, -11.66752305893555, -11.833927607136763, 0.16640454820121317, ()),
        (576.2090323961154, -29.044087218065684, -29.210491766266898, 0.16640454820121317, ()),
    )),
)


def self_check():
    """Return a list of (function, points, largest relative error) against CHECKS."""
    errors = {}
    for theta, rows in CHECKS:
        for x, *values, inverse in rows:
            asked = [(name, x, value) for name, value in zip(("log_p", "log_q", "loss"), values)]
            asked += [(f"loss_inverse_{i}", values[2], y) for i, y in inverse]
            for name, at, value in asked:
                if value is not None:
                    error = abs(globals()[name](at, np.array(theta)) - value)
                    error /= max(abs(value), 1e-300)
                    errors.setdefault(name, []).append(error if error == error else math.inf)
    return [(name, len(found), max(found)) for name, found in errors.items()]


if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        verdict = "ok" if error <= 1e-10 else "FAILED"
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {verdict}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: 5c89b7421c4b867a24d3ca03b593d0a0c32f76a96145e364ad8c85d6c1ebc0ae
