"""student_t: Student-t noise with nu degrees of freedom: heavy tails, a bounded loss.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 64.
Parameters: theta = (nu, scale, sensitivity), in this order.

c0 = gamma(nu/2 + 1/2)/(sqrt(pi)*sqrt(nu)*scale*gamma(nu/2))
on (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2), decreasing:
    p = c0 * exp((-nu/2 - 1/2)*log(1 + (-sensitivity + x)**2/(nu*scale**2)))
    q = c0 * exp((-nu/2 - 1/2)*log(1 + x**2/(nu*scale**2)))
    loss = (nu + 1)*log((nu*scale**2 + x**2)/(nu*scale**2 + (-sensitivity + x)**2))/2
    x = (-sensitivity*exp(2*ell/(nu + 1)) - sqrt(sensitivity**2*exp(4*ell/(nu + 1)) - (1 -
        exp(2*ell/(nu + 1)))*(-nu*scale**2*exp(2*ell/(nu + 1)) + nu*scale**2 -
        sensitivity**2*exp(2*ell/(nu + 1)))))/(1 - exp(2*ell/(nu + 1)))  where loss = ell
on (sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2, sensitivity/2 + sqrt(4*nu*scale**2 +
    sensitivity**2)/2), increasing:
    p = c0 * exp((-nu/2 - 1/2)*log(1 + (-sensitivity + x)**2/(nu*scale**2)))
    q = c0 * exp((-nu/2 - 1/2)*log(1 + x**2/(nu*scale**2)))
    loss = (nu + 1)*log((nu*scale**2 + x**2)/(nu*scale**2 + (-sensitivity + x)**2))/2
    x = (-sensitivity*exp(2*ell/(nu + 1)) + sqrt(sensitivity**2*exp(4*ell/(nu + 1)) - (1 -
        exp(2*ell/(nu + 1)))*(-nu*scale**2*exp(2*ell/(nu + 1)) + nu*scale**2 -
        sensitivity**2*exp(2*ell/(nu + 1)))))/(1 - exp(2*ell/(nu + 1)))  where loss = ell
on (sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2, oo), decreasing:
    p = c0 * exp((-nu/2 - 1/2)*log(1 + (-sensitivity + x)**2/(nu*scale**2)))
    q = c0 * exp((-nu/2 - 1/2)*log(1 + x**2/(nu*scale**2)))
    loss = (nu + 1)*log((nu*scale**2 + x**2)/(nu*scale**2 + (-sensitivity + x)**2))/2
    x = (-sensitivity*exp(2*ell/(nu + 1)) - sqrt(sensitivity**2*exp(4*ell/(nu + 1)) - (1 -
        exp(2*ell/(nu + 1)))*(-nu*scale**2*exp(2*ell/(nu + 1)) + nu*scale**2 -
        sensitivity**2*exp(2*ell/(nu + 1)))))/(1 - exp(2*ell/(nu + 1)))  where loss = ell
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

DIGEST = "1c8141467e570e76"
PROTOCOL = 2
NAME = "student_t"
MEASURE = "density"
SYMMETRIC = True
# name, lo, hi, lo open, hi open, integer, default, typical range
PARAMETERS = (
    ("nu", 0.0, math.inf, True, True, False, None, (1.0, 10.0)),
    ("scale", 0.0, math.inf, True, True, False, None, (0.5, 50.0)),
    ("sensitivity", 0.0, math.inf, True, True, False, 1.0, (0.1, 5.0)),
)
BRANCHES = (
    "decreasing on (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2)",
    "increasing on (sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2, sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2)",
    "decreasing on (sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2, oo)",
)
CAPABILITIES = {
    "infinite_mass": "closed: no such region",
    "lattice": "unavailable: the loss varies continuously or irregularly on (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2)",
    "cgf": "numeric: no rule for the integral over (-oo, oo); summed over quadrature nodes",
    "cdf": "unavailable: no rule for the antiderivative on (-oo, oo)",
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
REFS = ("nissim2007smooth", "bun2019average")
ABOUT = "Student-t noise with nu degrees of freedom: heavy tails, a bounded loss."


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


@compiled("float64(float64, float64)", plain=True)
def lgamma_difference(a: float, h: float) -> float:
    """Return lgamma(a + h) - lgamma(a) for a, a + h > 0, by Stirling's series for large a."""
    b = a + h
    if min(a, b) < 15.0:
        return math.lgamma(b) - math.lgamma(a)
    u, v = 1.0 / (a * a), 1.0 / (b * b)
    below = (1.0 - u * (1.0 - u * (2.0 / 7.0 - u * 3.0 / 14.0)) / 30.0) / (12.0 * a)
    above = (1.0 - v * (1.0 - v * (2.0 / 7.0 - v * 3.0 / 14.0)) / 30.0) / (12.0 * b)
    return (a - 0.5) * math.log1p(h / a) + h * (math.log(b) - 1.0) + (above - below)


@compiled("float64(float64, float64, float64)", plain=True)
def log_ratio(n: float, d: float, gap: float) -> float:
    """Return log(n/d) for n, d > 0 or rounded past zero, where gap is n - d to full accuracy."""
    r = gap / d
    if math.fabs(r) < 0.5:
        return math.log1p(r)
    if 1e-300 < n / d < 1e300:
        return math.log(n / d)
    return math.log(max(n, 0.0)) - math.log(max(d, 0.0))


@compiled("float64(float64, float64[::1])")
def log_p(x, theta):
    """Log density of P at x."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    t0 = 0.5 * nu
    t1 = x - sensitivity
    t2 = (-t0 - 0.5) * math.log1p(t1 * t1 / (nu * (scale * scale)))
    return -lgamma_difference(t0 + 0.5, -0.5) - 0.5723649429247001 + t2 - 0.5 * math.log(nu) - math.log(scale)


@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_p_many(xs, theta, out):
    """Write log_p of each element to out."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    c0 = nu * (scale * scale)
    s0 = 0.5 * nu
    c1 = -s0 - 0.5
    c2 = -lgamma_difference(s0 + 0.5, -0.5) - 0.5723649429247001 - 0.5 * math.log(nu) - math.log(scale)
    for i in range(xs.size):
        x = xs[i]
        t0 = x - sensitivity
        out[i] = c1 * math.log1p(t0 * t0 / c0) + c2


@compiled("float64(float64, float64[::1])")
def log_q(x, theta):
    """Log density of Q at x."""
    nu = theta[0]
    scale = theta[1]
    t0 = 0.5 * nu
    t1 = (-t0 - 0.5) * math.log1p(x * x / (nu * (scale * scale)))
    return -lgamma_difference(t0 + 0.5, -0.5) - 0.5723649429247001 + t1 - 0.5 * math.log(nu) - math.log(scale)


@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_q_many(xs, theta, out):
    """Write log_q of each element to out."""
    nu = theta[0]
    scale = theta[1]
    c0 = nu * (scale * scale)
    s0 = 0.5 * nu
    c1 = -s0 - 0.5
    c2 = -lgamma_difference(s0 + 0.5, -0.5) - 0.5723649429247001 - 0.5 * math.log(nu) - math.log(scale)
    for i in range(xs.size):
        x = xs[i]
        out[i] = c1 * math.log1p(x * x / c0) + c2


@compiled("float64(float64, float64[::1])")
def loss(x, theta):
    """Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    t0 = nu * (scale * scale)
    t1 = x - sensitivity
    t2 = log_ratio(x * x + t0, t0 + t1 * t1, sensitivity * (2.0 * x - sensitivity))
    return 0.5 * (nu + 1.0) * t2


@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    c0 = nu * (scale * scale)
    c1 = 0.5 * (nu + 1.0)
    for i in range(xs.size):
        x = xs[i]
        t0 = x - sensitivity
        t1 = log_ratio(x * x + c0, c0 + t0 * t0, sensitivity * (2.0 * x - sensitivity))
        out[i] = c1 * t1


@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return -math.inf


@compiled("float64(float64, float64[::1])")
def loss_inverse_0(ell, theta):
    """x in (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2) with loss(x) = ell."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    t0 = nu + 1.0
    t1 = 2.0 * ell / t0
    t2 = math.exp(t1)
    t3 = sensitivity * sensitivity
    t4 = math.expm1(t1)
    t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
    t6 = -math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5)
    return (t6 - sensitivity * t2) / -t4


@compiled("float64(float64, float64[::1])")
def loss_inverse_1(ell, theta):
    """x in (sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2, sensitivity/2 +
    sqrt(4*nu*scale**2 + sensitivity**2)/2) with loss(x) = ell."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    t0 = nu + 1.0
    t1 = 2.0 * ell / t0
    t2 = math.exp(t1)
    t3 = sensitivity * sensitivity
    t4 = math.expm1(t1)
    t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
    t6 = math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5) - sensitivity * t2
    return t6 / -t4


@compiled("float64(float64, float64[::1])")
def loss_inverse_2(ell, theta):
    """x in (sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2, oo) with loss(x) = ell."""
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    t0 = nu + 1.0
    t1 = 2.0 * ell / t0
    t2 = math.exp(t1)
    t3 = sensitivity * sensitivity
    t4 = math.expm1(t1)
    t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
    t6 = -math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5)
    return (t6 - sensitivity * t2) / -t4


@compiled("float64(int64, float64, float64[::1])")
def loss_inverse(branch, ell, theta):
    """The output of a branch that has a loss; nan on branches without an inverse."""
    if branch == 0:
        return loss_inverse_0(ell, theta)
    if branch == 1:
        return loss_inverse_1(ell, theta)
    if branch == 2:
        return loss_inverse_2(ell, theta)
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
    nu = theta[0]
    scale = theta[1]
    sensitivity = theta[2]
    t0 = 0.5 * sensitivity
    t1 = 4.0 * nu * (scale * scale)
    t2 = math.sqrt(sensitivity * sensitivity + t1)
    t3 = 0.5 * t2
    t4 = nu + 1.0
    t5 = -t2
    t6 = sensitivity + t5
    t7 = t5 - sensitivity
    t8 = 4.0 * sensitivity * t2
    t9 = sensitivity + t2
    t10 = t2 - sensitivity
    out = np.empty((3, 6))
    n = 0
    # decreasing on (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2)
    n = add_branch(out, n, -math.inf, t0 - t3, -1.0, 0.0, 0.5 * t4 * log_ratio(t1 + t6 * t6, t1 + t7 * t7, -t8), 0.0)
    # increasing on (sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2,
    #   sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2)
    n = add_branch(out, n, t0 - t3, t0 + t3, 1.0, 0.5 * t4 * log_ratio(t1 + t6 * t6, t1 + t7 * t7, -t8), 0.5 * t4 * log_ratio(t1 + t9 * t9, t1 + t10 * t10, t8), 1.0)
    # decreasing on (sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2, oo)
    n = add_branch(out, n, t0 + t3, math.inf, -1.0, 0.5 * t4 * log_ratio(t1 + t9 * t9, t1 + t10 * t10, t8), 0.0, 2.0)
    return out[:n]


@compiled("float64[::1](float64[::1])", plain=True)
def breakpoints(theta):
    """Sorted distinct ends of the branches."""
    rows = branches(theta)
    out = np.empty(2 * rows.shape[0])
    n = 0
    for i in range(rows.shape[0]):
        for j in range(2):
            if n == 0 or rows[i, j] > out[n - 1]:
                out[n] = rows[i, j]
                n += 1
    return out[:n]


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


@compiled("float64(float64, float64[::1], float64[::1])")
def log_weight(x, ask, theta):
    """Log of p exp(t loss) at x, of q if t is -1, where low < loss <= high: the weights that are
    summed for ask = (t, power, low, high, payoff, size of losses whose powers are wanted)."""
    t, low, high = ask[0], ask[2], ask[3]
    value = log_q(x, theta) if t == -1.0 else log_p(x, theta)
    if t * (t + 1.0) != 0.0 or low > -math.inf or high < math.inf:
        ell = loss(x, theta)
        value += t * ell if t * (t + 1.0) != 0.0 else 0.0
        value = value if low < ell <= high or ell == low == -math.inf else -math.inf
    return value if value < math.inf else -math.inf


@compiled("void(float64[:, ::1], float64[::1], int64, float64[:, ::1], float64[::1])")
def add_atoms(points, ask, n, rows, theta):
    """Write loss and log weight of point masses from row n on."""
    t, low, high = ask[0], ask[2], ask[3]
    for i in range(points.shape[0]):
        ell, value = points[i, 1] - points[i, 2], points[i, 2] if t == -1.0 else points[i, 1]
        value += t * ell if t * (t + 1.0) != 0.0 else 0.0
        inside = low < ell <= high or ell == low == -math.inf
        if not inside or not value < math.inf or (ask[1] > 0.0 and math.isinf(ell)):
            value = -math.inf
        rows[n + i, 0], rows[n + i, 1] = ell, value


@compiled("float64[:, ::1]()")
def rule():
    """Gauss' 16 points on (-1, 1): places, weights, and weights of the two highest coefficients."""
    out = np.empty((16, 4))
    for i in range(16):
        y = math.cos(math.pi * (i + 0.75) / 16.5)
        for _ in range(4):
            a, b, c = 0.0, 1.0, y
            for k in range(2, 17):
                a, b, c = b, c, ((2.0 * k - 1.0) * y * c - (k - 1.0) * b) / k
            slope = 16.0 * (b - y * c) / (1.0 - y * y)
            y -= c / slope
        weight = 2.0 / ((1.0 - y * y) * slope * slope)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = y, weight, 15.5 * weight * b, 14.5 * weight * a
    return out


@compiled("float64(float64, float64, float64[::1], float64[:, ::1], float64[::1], float64[::1])")
def roughness(a, b, ask, gauss, logs, theta):
    """Share of the two highest coefficients of the weight on (a, b), and of it times loss**power
    or, for payoffs, exp(low - loss); inf if it jumps next to an end. logs of the weight are kept:
    at the points, which go from b to a, then at a and b."""
    top, rough = -math.inf, 0.0
    for i in range(16):
        x = 0.5 * (a + b) + 0.5 * (b - a) * gauss[i, 0]
        logs[i] = log_weight(x, ask, theta)
        top = max(top, logs[i])
    for n in range(2 if ask[1] + ask[4] > 0.0 else 1):
        first, second, most = 0.0, 0.0, n * max(ask[4], math.pow(ask[5], ask[1]))
        for i in range(16):
            term = math.exp(logs[i] - top) if logs[i] > -math.inf else 0.0
            if n == 1 and term > 0.0:
                x = 0.5 * (a + b) + 0.5 * (b - a) * gauss[i, 0]
                ell = loss(x, theta)
                term *= math.exp(ask[2] - ell) if ask[4] > 0.0 else math.pow(ell, ask[1])
            first, second = first + term * gauss[i, 2], second + term * gauss[i, 3]
            most = max(most, term)
        rough = max(rough, (math.fabs(first) + math.fabs(second)) / most if most > 0.0 else 0.0)
    jump = math.fabs(logs[16] - logs[15]) > 3.0 or math.fabs(logs[17] - logs[0]) > 3.0
    return math.inf if jump else rough


@compiled("int64(float64, float64, float64[::1])")
def places(a, b, out):
    """Write finite ends of (a, b) and points at doubling distance from them; return how many."""
    whole, n = b - a < math.inf, 0
    unit = b - a if whole else max(1.0, math.fabs(b if math.isinf(a) else a))
    for i in range(804):  # from a, then from b
        j = min(i, 803 - i)
        step = unit * math.pow(2.0, j - (402.0 if whole else 101.0)) if j > 0 else 0.0
        y = a + step if i < 402 else b - step
        if math.fabs(y) < math.inf and (n == 0 or y > out[n - 1]):
            out[n], n = y, n + 1
    return n


@compiled("int64(float64, float64, float64[::1], float64[::1], float64[::1])")
def crossings(a, b, ask, out, theta):
    """Write a, places in (a, b) where the loss crosses the levels asked, and b; return how many."""
    x, n = np.empty(900), 1
    m = places(a, b, x)
    out[0] = a
    for i in range(1, m - 1):  # to where the loss turns
        lo, hi, rise = x[i - 1], x[i + 1], loss(x[i], theta) - loss(x[i - 1], theta)
        for _ in range(60 if rise * (loss(x[i], theta) - loss(x[i + 1], theta)) > 0.0 else 0):
            c, d = lo + 0.382 * (hi - lo), lo + 0.618 * (hi - lo)
            if (loss(d, theta) - loss(c, theta)) * rise > 0.0:
                lo = c
            else:
                hi = d
            x[i] = d
    for i in range(m - 1):
        for k in range(2, 4):
            lo, hi, above = x[i], x[i + 1], loss(x[i], theta) > ask[k]
            if above != (loss(hi, theta) > ask[k]) and n < out.size - 1:
                for _ in range(60):
                    c = 0.5 * (lo + hi)
                    if (loss(c, theta) > ask[k]) == above:
                        lo = c
                    else:
                        hi = c
                if hi > out[n - 1]:
                    out[n], n = hi, n + 1
                elif hi > a:  # both levels between two places
                    out[n], out[n - 1], n = out[n - 1], hi, n + 1
    out[n] = b
    return n + 1


@compiled("int64(float64, float64, float64[::1], float64[:, ::1], int64, float64[:, ::1], float64[::1])")
def panels(a, b, ask, gauss, n, found, theta):
    """Write panels of (a, b) that resolve the weight from row n on; return the next free row.
    They are cut from intervals between modes and places at doubling distance from the ends."""
    logs, x, v, todo = np.empty(18), np.empty(900), np.empty(900), np.empty((64, 4))
    logs[16], logs[17] = math.nan, math.nan  # unknown
    sharp = 1e-10 * max(1.0, math.fabs(ask[0]))
    if b - a < math.inf and roughness(a, b, ask, gauss, logs, theta) < sharp:
        if math.fabs(logs[0] - logs[15]) < 3.0:
            found[n, 0], found[n, 1] = a, b
            return n + 1
    m = places(a, b, x)
    for i in range(m):
        v[i] = log_weight(x[i], ask, theta)
    best = -math.inf
    for i in range(m):
        lo, hi, top = x[max(i - 1, 0)], x[min(i + 1, m - 1)], v[i]
        width = hi - lo
        if 0 < i < m - 1 and top > -math.inf and top >= max(v[i - 1], v[i + 1]):
            for _ in range(60):
                c, d = lo + 0.382 * (hi - lo), lo + 0.618 * (hi - lo)
                top = log_weight(d, ask, theta)
                if log_weight(c, ask, theta) < top:
                    lo = c
                else:
                    hi = d
            if top > v[i]:
                x[i], v[i] = d, top
        best = max(best, v[i] + math.log(width))
    for i in range(m - 1):
        todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = x[i], x[i + 1], v[i], v[i + 1]
        k = 1
        while k > 0 and n < found.shape[0]:
            k -= 1
            lo, hi, logs[16], logs[17] = todo[k, 0], todo[k, 1], todo[k, 2], todo[k, 3]
            rough, y = roughness(lo, hi, ask, gauss, logs, theta), 0.5 * (lo + hi)
            top = -math.inf
            for j in range(18):
                top = max(top, logs[j])
            share = top + math.log(hi - lo) - best
            if share > -45.0 - 5.0 * ask[1] - 15.0 * ask[4]:
                fine = rough < sharp or math.log(rough) + share < -40.0  # beside: rounding
                if fine or k > 61 or not lo < y < hi:
                    found[n, 0], found[n, 1], n = lo, hi, n + 1
                else:
                    top, k = log_weight(y, ask, theta), k + 2
                    todo[k - 1, 0], todo[k - 1, 1] = lo, y
                    todo[k - 1, 2], todo[k - 1, 3] = logs[16], top
                    todo[k - 2, 0], todo[k - 2, 1] = y, hi
                    todo[k - 2, 2], todo[k - 2, 3] = top, logs[17]
    return n


@compiled("float64[:, ::1](float64[::1], float64[::1])")
def nodes(ask, theta):
    """Rows (loss, log weight) of the outputs, see log_weight; infinite losses if power is 0."""
    gauss, table, points = rule(), branches(theta), atoms(theta)
    found, cuts, n, low, high = np.empty((4096, 2)), np.empty(64), 0, ask[2], ask[3]
    for i in range(table.shape[0]):
        a, b, kind, left, right = table[i, 0], table[i, 1], table[i, 2], table[i, 3], table[i, 4]
        inside = ask[1] == 0.0 or kind * kind < 2.0 or kind == 4.0
        search = kind == 4.0
        if kind * kind == 1.0 and math.fabs(left - right) > 0.0:
            inside = low < max(left, right) and high > min(left, right)
            for k in range(2):
                ell = ask[2 + k]
                if min(left, right) < ell < max(left, right):
                    x = loss_inverse(int(table[i, 5]), ell, theta)
                    gap = math.fabs(loss(x, theta) - ell)
                    near = 1e-12 * math.fabs(ell) + 1e-15 * min(1.0, math.fabs(left - right))
                    if a < x < b and gap <= near:
                        a, b = (x, b) if (k == 0) == (kind > 0.0) else (a, x)
                    else:  # the formula has lost its digits
                        search = True
        for part in range((2 if a == -math.inf and b == math.inf else 1) if inside else 0):
            lo = 0.0 if part == 1 else a
            hi = 0.0 if part == 0 and a == -math.inf and b == math.inf else b
            cuts[0], cuts[1], m = lo, hi, 2
            if search and (low > -math.inf or high < math.inf):
                m = crossings(lo, hi, ask, cuts, theta)
            for k in range(m - 1):
                n = panels(cuts[k], cuts[k + 1], ask, gauss, n, found, theta)
    rows = np.empty((16 * n + points.shape[0], 2))
    for i in range(n):
        mid, half = 0.5 * (found[i, 0] + found[i, 1]), 0.5 * (found[i, 1] - found[i, 0])
        for k in range(16):
            x = mid + half * gauss[k, 0]
            rows[16 * i + k, 0] = loss(x, theta)
            rows[16 * i + k, 1] = log_weight(x, ask, theta) + math.log(half * gauss[k, 1])
    if n == found.shape[0]:
        rows[0, 1] = math.nan
    add_atoms(points, ask, 16 * n, rows, theta)
    return rows


@compiled("float64(float64, float64, float64, float64, float64[::1])")
def log_mass(t, low, high, payoff, theta):
    """Log of all weights with low < loss <= high, see log_weight; nan if that takes too many."""
    rows, top, total = nodes(np.array([t, 0.0, low, high, payoff, 0.0]), theta), -math.inf, 0.0
    for i in range(rows.shape[0]):
        if payoff > 0.0 and rows[i, 1] > -math.inf:
            rows[i, 1] += math.log(-math.expm1(low - rows[i, 0]))
        top = top if rows[i, 1] <= top else rows[i, 1]
    for i in range(rows.shape[0]):
        total += math.exp(rows[i, 1] - top) if rows[i, 1] > -math.inf else 0.0
    value = top + math.log(total)
    return -math.inf if top == -math.inf else (0.0 if value > 0.0 else value)


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
    ask = np.array([t, 1.0, -math.inf, math.inf, 0.0, math.inf])
    for _ in range(2):  # first for the size of the losses
        rows, top, total, mean, square = nodes(ask, theta), -math.inf, 0.0, 0.0, 0.0
        for i in range(rows.shape[0]):
            top = top if rows[i, 1] <= top else rows[i, 1]
        for i in range(rows.shape[0]):
            term = math.exp(rows[i, 1] - top) if rows[i, 1] > -math.inf else 0.0
            rows[i, 1], total = term, total + term
            if term > 0.0:
                mean, square = mean + term * rows[i, 0], square + term * rows[i, 0] * rows[i, 0]
        ask[1], ask[5] = out.size - 1.0, math.sqrt(square / total)
    for k in range(out.size):
        moments[k], ways = 0.0, k - 1.0
        for i in range(rows.shape[0]):
            if rows[i, 1] > 0.0:
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
    ((2.5954553519470087, 4.238119856128895, 1.596677620992694), (
        (-6.532033594123945, -4.044126681056052, -3.6255520020276104, -0.4185746790284413, ((0, -6.532033594123941),)),
        (-7.518183934269885, -4.29677497225654, -3.8848888455662296, -0.411886126690311, ((0, -7.518183934269888),)),
        (-13.004166654359798, -5.545666439418096, -5.211448963303984, -0.33421747611411246, ((0, -13.0041666543598),)),
        (-28.347020875404375, -7.863656127133986, -7.676897857573854, -0.18675826956013164, ((0, -28.34702087540438),)),
        (-77.63013870407757, -11.284200677048158, -11.211551168253138, -0.07264950879502158, ((0, -77.63013870407757),)),
        (-2268.8176632210366, -23.33511540625668, -23.3325860218256, -0.0025293844310802704, ((0, -2268.8176632210366),)),
        (-5.919205214632831, -3.8842857670549797, -3.4649519463448475, -0.41933382071013214, ((1, -5.919205214632831),)),
        (-4.508381329569703, -3.5134909785052484, -3.1078296108145707, -0.4056613676906778, ((1, -4.508381329569702),)),
        (-1.5160671825631578, -2.796777753558941, -2.5438261777946547, -0.2529515757642865, ((1, -1.516067182563158),)),
        (2.2869861868061934, -2.4755905033075774, -2.6484674600396936, 0.17287695673211606, ((1, 2.2869861868061934),)),
        (5.508816618847183, -2.9676801551486793, -3.3586147996723033, 0.3909346445236239, ((1, 5.508816618847184),)),
        (7.46484161490649, -3.4516571911993994, -3.870904285387876, 0.4192470941884763, ((1, 7.4648416149065),)),
        (8.128711215116638, -3.6255520020276104, -4.044126681056052, 0.4185746790284413, ((2, 8.128711215116635),)),
        (9.11486155526258, -3.88488884556623, -4.296774972256541, 0.411886126690311, ((2, 9.114861555262582),)),
        (14.600844275352493, -5.211448963303984, -5.545666439418096, 0.33421747611411246, ((2, 14.600844275352493),)),
        (29.94369849639707, -7.676897857573854, -7.863656127133986, 0.18675826956013167, ((2, 29.943698496397065),)),
        (79.22681632507026, -11.211551168253138, -11.284200677048158, 0.07264950879502158, ((2, 79.22681632507026),)),
        (2270.414340842029, -23.3325860218256, -23.33511540625668, 0.0025293844310802704, ((2, 2270.414340842029),)),
    )),
    ((6.73638848395037, 35.92331982982801, 0.5098758850757779), (
        (-96.63134466619236, -7.380447479025143, -7.359309556645959, -0.021137922379183566, ((0, -96.6313446661925),)),
        (-104.5205473873599, -7.706610339423695, -7.685599994165564, -0.02101034525813104, ((0, -104.52054738735988),)),
        (-148.4084091480792, -9.43922850080046, -9.420185274621053, -0.019043226179408314, ((0, -148.40840914807916),)),
        (-271.1512429164358, -13.24140303979103, -13.228403287186174, -0.012999752604855534, ((0, -271.1512429164358),)),
        (-665.4161855458213, -19.822371572541616, -19.81655984245397, -0.005811730087645474, ((0, -665.4161855458213),)),
        (-18194.91638168149, -45.33739260535154, -45.337175817376284, -0.00021678797525570572, ((0, -18194.91638168149),)),
        (-90.85663613668144, -7.140919866095861, -7.1197719956522665, -0.021147870443594664, ((1, -90.85663613668125),)),
        (-71.72131161393828, -6.3557643320005015, -6.335300080034495, -0.020464251966006337, ((1, -71.7213116139383),)),
        (-31.135875768128525, -4.959066354333757, -4.946272816320985, -0.01279353801277178, ((1, -31.135875768128525),)),
        (20.44580013817223, -4.710228999162078, -4.718980274939589, 0.008751275777510704, ((1, 20.44580013817223),)),
        (64.14421744388403, -6.016516258927698, -6.036243526431805, 0.019727267504106458, ((1, 64.14421744388402),)),
        (90.67422836194947, -7.0910635323944025, -7.112207068418816, 0.0211435360244136, ((1, 90.67422836194967),)),
        (97.14122055126815, -7.359309556645959, -7.380447479025143, 0.021137922379183566, ((2, 97.14122055126829),)),
        (105.03042327243567, -7.685599994165563, -7.706610339423695, 0.02101034525813104, ((2, 105.03042327243567),)),
        (148.91828503315497, -9.420185274621053, -9.439228500800462, 0.01904322617940831, ((2, 148.918285033155),)),
        (271.6611188015116, -13.228403287186174, -13.24140303979103, 0.012999752604855534, ((2, 271.6611188015116),)),
        (665.9260614308971, -19.81655984245397, -19.822371572541616, 0.005811730087645474, ((2, 665.9260614308971),)),
        (18195.426257566567, -45.337175817376284, -45.33739260535154, 0.0002167879752557057, ((2, 18195.426257566567),)),
    )),
)


def self_check():
    """Return a list of (function, points, largest relative error) against CHECKS."""
    worst = {}
    for theta, rows in CHECKS:
        for x, *values, inverse in rows:
            asked = [(name, x, value) for name, value in zip(("log_p", "log_q", "loss"), values)]
            asked += [(f"loss_inverse_{i}", values[2], back) for i, back in inverse]
            for name, argument, value in asked:
                if value is None:
                    continue
                error = abs(globals()[name](argument, np.array(theta)) - value)
                error /= max(abs(value), 1e-300)
                points, largest = worst.get(name, (0, 0.0))
                worst[name] = points + 1, max(largest, error if error == error else math.inf)
    return [(name, points, error) for name, (points, error) in worst.items()]


if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        verdict = "ok" if error <= 1e-10 else "FAILED"
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {verdict}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: e73b083f0e1691098296cdcff7caf7bee52921e5c27e0601b0bf4b228cf4cce6
