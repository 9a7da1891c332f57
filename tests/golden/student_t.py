"""student_t: Student-t noise with nu degrees of freedom: heavy tails, a bounded loss.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 40.
Parameters: theta = (nu, scale, sensitivity), in this order.
Arrays are contiguous and of doubles; f_many writes f(x, theta) of each x of xs to out.

c0 = gamma(nu/2 + 1/2)/(sqrt(nu)*scale*sqrt(pi)*gamma(nu/2))
on (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2), decreasing:
    p = c0*(1 + (x - sensitivity)**2/(nu*scale**2))**(-nu/2 - 1/2)
    q = c0*(1 + x**2/(nu*scale**2))**(-nu/2 - 1/2)
    loss = (nu + 1)*log((nu*scale**2 + x**2)/(nu*scale**2 + (x - sensitivity)**2))/2
    x = (-sensitivity*exp(2*ell/(nu + 1)) - sqrt(sensitivity**2*exp(4*ell/(nu + 1)) - (1 -
        exp(2*ell/(nu + 1)))*(nu*scale**2 - nu*scale**2*exp(2*ell/(nu + 1)) -
        sensitivity**2*exp(2*ell/(nu + 1)))))/(1 - exp(2*ell/(nu + 1)))  where loss = ell
on (sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2, sensitivity/2 + sqrt(4*nu*scale**2 +
    sensitivity**2)/2), increasing:
    p = c0*(1 + (x - sensitivity)**2/(nu*scale**2))**(-nu/2 - 1/2)
    q = c0*(1 + x**2/(nu*scale**2))**(-nu/2 - 1/2)
    loss = (nu + 1)*log((nu*scale**2 + x**2)/(nu*scale**2 + (x - sensitivity)**2))/2
    x = (sqrt(sensitivity**2*exp(4*ell/(nu + 1)) - (1 - exp(2*ell/(nu + 1)))*(nu*scale**2 -
        nu*scale**2*exp(2*ell/(nu + 1)) - sensitivity**2*exp(2*ell/(nu + 1)))) -
        sensitivity*exp(2*ell/(nu + 1)))/(1 - exp(2*ell/(nu + 1)))  where loss = ell
on (sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2, oo), decreasing:
    p = c0*(1 + (x - sensitivity)**2/(nu*scale**2))**(-nu/2 - 1/2)
    q = c0*(1 + x**2/(nu*scale**2))**(-nu/2 - 1/2)
    loss = (nu + 1)*log((nu*scale**2 + x**2)/(nu*scale**2 + (x - sensitivity)**2))/2
    x = (-sensitivity*exp(2*ell/(nu + 1)) - sqrt(sensitivity**2*exp(4*ell/(nu + 1)) - (1 -
        exp(2*ell/(nu + 1)))*(nu*scale**2 - nu*scale**2*exp(2*ell/(nu + 1)) -
        sensitivity**2*exp(2*ell/(nu + 1)))))/(1 - exp(2*ell/(nu + 1)))  where loss = ell
"""

import math
import sys

import numba
import numpy as np

COMPILE = {"error_model": "numpy", "no_cfunc_wrapper": True,
           "cache": __name__ in sys.modules}  # numba finds machine code by the module's name

DIGEST = "43b624e2968e8b88"
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

@compiled("float64(float64, float64, float64, float64)", plain=True)
def log1p_power(c: float, b: float, d: float, k: float) -> float:
    """Return log(1 + c (b/d)**k), where neither quotient nor power need be doubles."""
    u = b / d
    v = c * (u * u if k == 2.0 else math.pow(u, k))
    if math.fabs(v) < 1e300:
        return math.log1p(v)
    return math.log(c) + k * (math.log(math.fabs(b)) - math.log(math.fabs(d)))

@compiled("float64(float64, float64)", plain=True)
def lgamma_difference(a: float, h: float) -> float:
    """Return lgamma(a + h) - lgamma(a) for a, a + h > 0, by Stirling's series for large a."""
    steps = 0.0
    if min(a, a + h) < 15.0 and math.fabs(h) > 0.25 * a:
        return math.lgamma(a + h) - math.lgamma(a)
    while a < 20.0:  # a short way along log(gamma) would be a difference of rounded values
        steps -= math.log1p(h / a)
        a += 1.0
    b = a + h
    u, v, w = 1.0 / (a * a), 1.0 / (b * b), 1.0 / (a * b)
    fifth = u * u + v * v + w * (u + w + v)  # sums of powers: differences of them would cancel
    seventh = u * u * u + v * v * v + w * (fifth - w * w) + w * w * w
    series = ((u + w + v) - fifth * 2.0 / 7.0 + seventh * 3.0 / 14.0) / 360.0 - 1.0 / 12.0
    return steps + (a - 0.5) * math.log1p(h / a) + h * (math.log(b) - 1.0 + w * series)

@compiled("float64(float64, float64, float64)", plain=True)
def log_ratio(n: float, d: float, gap: float) -> float:
    """Return log(n/d), signs equal but for rounding past zero; gap is n - d to full accuracy."""
    r = gap / d
    if math.fabs(r) < 0.5:
        return math.log1p(r)
    if 1e-300 < n / d < 1e300:
        return math.log(n / d)
    if math.fabs(n) == math.inf or math.fabs(d) == math.inf:
        return math.nan  # an overflow, which tells nothing
    if n < 0.0 and d < 0.0:
        n, d = -n, -d
    return math.log(max(n, 0.0)) - math.log(max(d, 0.0))

@compiled("float64(float64, float64[::1])")
def log_q(x, theta):
    """Log density of Q at x."""
    nu, scale = theta[0], theta[1]
    t0 = 0.5 * nu
    t1 = (-t0 - 0.5) * log1p_power(1.0 / nu, x, scale, 2.0)
    return -lgamma_difference(t0 + 0.5, -0.5) - 0.5723649429247001 + t1 - 0.5 * math.log(nu) - math.log(scale)

@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_q_many(xs, theta, out):
    """Write log_q of each element to out."""
    nu, scale = theta[0], theta[1]
    c0 = -lgamma_difference(0.5 * nu + 0.5, -0.5) - 0.5723649429247001 - 0.5 * math.log(nu) - math.log(scale)
    for i in range(xs.size):
        t0 = (-0.5 * nu - 0.5) * log1p_power(1.0 / nu, xs[i], scale, 2.0)
        out[i] = t0 + c0

@compiled("float64(float64, float64[::1])")
def log_p(x, theta):
    """Log density of P at x."""
    sensitivity = theta[2]
    return log_q(x - sensitivity, theta)

@compiled("void(float64[::1], float64[::1], float64[::1])", plain=True)
def log_p_many(xs, theta, out):
    """Write log_p of each element to out."""
    sensitivity = theta[2]
    out[:] = xs - sensitivity
    log_q_many(out, theta, out)

@compiled("float64(float64, float64[::1])")
def loss(x, theta):
    """Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    t0 = nu * (scale * scale)
    t1 = x - sensitivity
    t2 = log_ratio(x * x + t0, t0 + t1 * t1, sensitivity * (2.0 * x - sensitivity))
    return 0.5 * (nu + 1.0) * t2

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    for i in range(xs.size):
        x = xs[i]
        t0 = nu * (scale * scale)
        t1 = x - sensitivity
        t2 = log_ratio(x * x + t0, t0 + t1 * t1, sensitivity * (2.0 * x - sensitivity))
        out[i] = 0.5 * (nu + 1.0) * t2

@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return -math.inf

@compiled("float64(float64, float64[::1])")
def loss_inverse_0(ell, theta):
    """x of loss ell in (-oo, sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2)."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    t0 = nu + 1.0
    t1 = 2.0 * ell / t0
    t2 = math.exp(t1)
    t3 = sensitivity * sensitivity
    t4 = math.expm1(t1)
    t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
    t6 = -sensitivity * t2 - math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5)
    return t6 / -t4

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_inverse_0_many(ells, theta, out):
    """Write loss_inverse_0 of each element to out."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    for i in range(ells.size):
        ell = ells[i]
        t0 = nu + 1.0
        t1 = 2.0 * ell / t0
        t2 = math.exp(t1)
        t3 = sensitivity * sensitivity
        t4 = math.expm1(t1)
        t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
        t6 = -sensitivity * t2 - math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5)
        out[i] = t6 / -t4

@compiled("float64(float64, float64[::1])")
def loss_inverse_1(ell, theta):
    """x of loss ell in (sensitivity/2 - sqrt(4*nu*scale**2 + sensitivity**2)/2, sensitivity/2
    + sqrt(4*nu*scale**2 + sensitivity**2)/2)."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    t0 = nu + 1.0
    t1 = 2.0 * ell / t0
    t2 = math.exp(t1)
    t3 = sensitivity * sensitivity
    t4 = math.expm1(t1)
    t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
    t6 = math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5) - sensitivity * t2
    return t6 / -t4

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_inverse_1_many(ells, theta, out):
    """Write loss_inverse_1 of each element to out."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    for i in range(ells.size):
        ell = ells[i]
        t0 = nu + 1.0
        t1 = 2.0 * ell / t0
        t2 = math.exp(t1)
        t3 = sensitivity * sensitivity
        t4 = math.expm1(t1)
        t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
        t6 = math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5) - sensitivity * t2
        out[i] = t6 / -t4

@compiled("float64(float64, float64[::1])")
def loss_inverse_2(ell, theta):
    """x of loss ell in (sensitivity/2 + sqrt(4*nu*scale**2 + sensitivity**2)/2, oo)."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    t0 = nu + 1.0
    t1 = 2.0 * ell / t0
    t2 = math.exp(t1)
    t3 = sensitivity * sensitivity
    t4 = math.expm1(t1)
    t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
    t6 = -sensitivity * t2 - math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5)
    return t6 / -t4

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_inverse_2_many(ells, theta, out):
    """Write loss_inverse_2 of each element to out."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    for i in range(ells.size):
        ell = ells[i]
        t0 = nu + 1.0
        t1 = 2.0 * ell / t0
        t2 = math.exp(t1)
        t3 = sensitivity * sensitivity
        t4 = math.expm1(t1)
        t5 = t4 * (-nu * (scale * scale) * t4 - t3 * t2)
        t6 = -sensitivity * t2 - math.sqrt(t3 * math.exp(4.0 * ell / t0) + t5)
        out[i] = t6 / -t4

@compiled("void(int64, float64[::1], float64[::1], float64[::1])", plain=True)
def loss_inverse_many(branch, ells, theta, out):
    """Write the outputs of a branch that have these losses to out; nan without an inverse."""
    if branch == 0:
        loss_inverse_0_many(ells, theta, out)
    elif branch == 1:
        loss_inverse_1_many(ells, theta, out)
    elif branch == 2:
        loss_inverse_2_many(ells, theta, out)
    else:
        out[:] = math.nan

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
    """Branches as in BRANCHES: lo, hi, kind, loss at lo+, loss at hi-, index of the inverse."""
    nu, scale, sensitivity = theta[0], theta[1], theta[2]
    t0 = 0.5 * sensitivity
    t1 = 4.0 * nu * (scale * scale)
    t2 = math.sqrt(sensitivity * sensitivity + t1)
    t3 = 0.5 * t2
    t4 = t0 - t3
    t5 = nu + 1.0
    t6 = sensitivity - t2
    t7 = -sensitivity - t2
    t8 = 4.0 * sensitivity * t2
    t9 = 0.5 * t5 * log_ratio(t1 + t6 * t6, t1 + t7 * t7, -t8)
    t10 = t0 + t3
    t11 = sensitivity + t2
    t12 = t2 - sensitivity
    t13 = 0.5 * t5 * log_ratio(t1 + t11 * t11, t1 + t12 * t12, t8)
    out = np.empty((3, 6))
    n = 0
    n = add_branch(out, n, -math.inf, t4, -1.0, 0.0, t9, 0.0)
    n = add_branch(out, n, t4, t10, 1.0, t9, t13, 1.0)
    n = add_branch(out, n, t10, math.inf, -1.0, t13, 0.0, 2.0)
    return out[:n]

@compiled("float64[::1](float64[::1])", plain=True)
def breakpoints(theta):
    """Sorted distinct ends of the branches."""
    return np.unique(branches(theta)[:, :2])

@compiled("float64[:, ::1](float64[::1])", plain=True)
def atoms(theta):
    """Atoms: x, log mass under P, log mass under Q."""
    return np.empty((0, 3))

@compiled("float64[::1](float64[::1])", plain=True)
def strip(theta):
    """The open interval of real t in which E_P[exp(t L); L finite] is finite."""
    return np.array([-math.inf, math.inf])

@compiled("float64[::1](float64[::1])", plain=True)
def lattice(theta):
    """All losses are offset + step * integer; nan: no."""
    return np.array([math.nan, math.nan])

@compiled("float64[:, ::1](float64[::1])", plain=True)
def weights(theta):
    """Weights that are not negative; one for those of other cases."""
    return np.empty((0, 1))

# theta; x, log_p, log_q, loss, index of an inverse and the x that has this loss;
# computed from the declaration to 50 digits, None where infinite or unknown
CHECKS = (
    ((2.5954553519470087, 4.238119856128895, 1.596677620992694), (
        (-6.532033594123945, -4.044126681056052, -3.6255520020276104, -0.4185746790284413, 0, -6.532033594123941),
        (-13.004166654359798, -5.545666439418096, -5.211448963303984, -0.33421747611411246, 0, -13.0041666543598),
        (-77.63013870407757, -11.284200677048158, -11.211551168253138, -0.07264950879502158, 0, -77.63013870407757),
        (-5.919205214632831, -3.8842857670549797, -3.4649519463448475, -0.41933382071013214, 1, -5.919205214632831),
        (-1.5160671825631578, -2.796777753558941, -2.5438261777946547, -0.2529515757642865, 1, -1.516067182563158),
        (5.508816618847183, -2.9676801551486793, -3.3586147996723033, 0.3909346445236239, 1, 5.508816618847184),
        (8.128711215116638, -3.6255520020276104, -4.044126681056052, 0.4185746790284413, 2, 8.128711215116635),
        (14.600844275352493, -5.211448963303984, -5.545666439418096, 0.33421747611411246, 2, 14.600844275352493),
        (79.22681632507026, -11.211551168253138, -11.284200677048158, 0.07264950879502158, 2, 79.22681632507026),
    )),
    ((6.73638848395037, 35.92331982982801, 0.5098758850757779), (
        (-96.63134466619236, -7.380447479025143, -7.359309556645959, -0.021137922379183566, 0, -96.6313446661925),
        (-148.4084091480792, -9.43922850080046, -9.420185274621053, -0.019043226179408314, 0, -148.40840914807916),
        (-665.4161855458213, -19.822371572541616, -19.81655984245397, -0.005811730087645474, 0, -665.4161855458213),
        (-90.85663613668144, -7.140919866095861, -7.1197719956522665, -0.021147870443594664, 1, -90.85663613668125),
        (-31.135875768128525, -4.959066354333757, -4.946272816320985, -0.01279353801277178, 1, -31.135875768128525),
        (64.14421744388403, -6.016516258927698, -6.036243526431805, 0.019727267504106458, 1, 64.14421744388402),
        (97.14122055126815, -7.359309556645959, -7.380447479025143, 0.021137922379183566, 2, 97.14122055126829),
        (148.91828503315497, -9.420185274621053, -9.439228500800462, 0.01904322617940831, 2, 148.918285033155),
        (665.9260614308971, -19.81655984245397, -19.822371572541616, 0.005811730087645474, 2, 665.9260614308971),
    )),
)

if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {'ok' if error <= 1e-10 else 'FAILED'}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: f7deb3413cd98d7c67882b02f791bc0fbc047090ef9e42fb33950907a3359bc8
