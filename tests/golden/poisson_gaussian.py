"""poisson(gaussian): Gaussian noise of standard deviation sigma on a real query. On a Poisson sample.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 43.
Parameters: theta = (sigma, sensitivity, sampling_rate), in this order.
Arrays are contiguous and of doubles; f_many writes f(x, theta) of each x of xs to out.

on (-oo, oo), increasing:
    p = (sampling_rate/(sigma*sqrt(2*pi)))*exp(-(x - sensitivity)**2/(2*sigma**2)) + ((1 -
        sampling_rate)/(sigma*sqrt(2*pi)))*exp(-x**2/(2*sigma**2))
    q = (1/(sigma*sqrt(2*pi)))*exp(-x**2/(2*sigma**2))
    loss = log(sampling_rate*exp(sensitivity*x/sigma**2 - sensitivity**2/(2*sigma**2)) + 1 -
        sampling_rate)
    x = sensitivity/2 + sigma**2*log(1 + (exp(ell) - 1)/sampling_rate)/sensitivity  where loss =
        ell
"""

import math
import sys

import numba
import numpy as np

COMPILE = {"error_model": "numpy", "no_cfunc_wrapper": True,
           "cache": __name__ in sys.modules}  # numba finds machine code by the module's name

DIGEST = "09a33f3d2fb0d183"
PROTOCOL = 2
NAME = "poisson(gaussian)"
MEASURE = "density"
SYMMETRIC = False
# name, lo, hi, lo open, hi open, integer, default, typical range
PARAMETERS = (
    ("sigma", 0.0, math.inf, True, True, False, None, (0.5, 50.0)),
    ("sensitivity", 0.0, math.inf, True, True, False, 1.0, (0.1, 5.0)),
    ("sampling_rate", 0.0, 1.0, False, False, False, None, (0.001, 0.5)),
)
BRANCHES = ("increasing on (-oo, oo)",)
CAPABILITIES = {
    "infinite_mass": "closed: no such region",
    "lattice": "unavailable: the loss varies continuously or irregularly on (-oo, oo)",
    "cgf": "numeric: a mixture with a varying loss on (-oo, oo); summed over quadrature nodes",
    "cdf": "unavailable: every closed form loses digits (relative error 1e+00)",
}
CLAIM = {
    "status": "proven",
    "theorem": "T6",
    "adjacency": "add_remove",
    "conditions": (
        "the base pair dominates (proven, T1)",
        "the noise is unimodal (signs of the derivative; every piece log-concave)",
        "the noise is symmetric, so both signs of the move are covered",
    ),
    "assumptions": (
        "the query moves by at most sensitivity between neighbours",
        "every record enters the sample independently with probability sampling_rate",
    ),
}
REFS = ("dwork2006our", "balle2018improving")
ABOUT = "Gaussian noise of standard deviation sigma on a real query. On a Poisson sample."

@compiled("float64(float64, float64)", plain=True)
def log_add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    if a == b:
        return a + 0.6931471805599453
    if a > b:
        return a + math.log1p(math.exp(b - a))
    return b + math.log1p(math.exp(a - b))

@compiled("float64(float64, float64)", inline=True)
def log_mix(q: float, d: float) -> float:
    """Return log(1 - q + q exp(d)), where that is a number, for q = 0 and 1e-285 < q < 1e130.

    Without branches, for loops over many d: exp(d) = 2**n exp(r) by the series of exp(r) - 1, and
    the log of 2**m (1 + f) by that of atanh(f / (2 + f)).
    """
    above = -700.0 if d < -700.0 else d
    most = 700.0 if q <= 1.0 else 350.0
    near = most if above > most else above
    shifted = near * 1.4426950408889634 + 6755399441055744.0  # its last bits are those of n
    n = shifted - 6755399441055744.0
    high, low = near - n * 0.6931471803691238, n * 1.9082149292705877e-10
    r, e = high - low, 0.0
    for k in (6227020800.0, 479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0,
              120.0, 24.0, 6.0, 2.0):  # fmt: skip
        e = 1.0 / k + r * e
    rest = high - r - low
    e = r + (rest + (rest * r + r * r * e))  # exp(r) - 1
    bits = np.float64(shifted).view(np.int64) - 4843621399236967426 << 52
    half = q * np.int64(bits).view(np.float64)  # of q 2**n
    u = 2.0 * (half * e + (half - 0.5 * q))  # q (exp(d) - 1)
    close = u > (-0.5 if q <= 1.0 else -math.inf)
    x = 1.0 + u if close else 1.0 - q + 2.0 * (half + half * e)
    rest = u - (x - 1.0) if close else 0.0
    bits = np.float64(x).view(np.int64)
    m = bits - 4604544271217802189 >> 52  # 1 + f lies between sqrt(1/2) and sqrt(2)
    f, e = np.int64(bits - (m << 52)).view(np.float64) - 1.0, 0.0
    t = f / (2.0 + f)
    for k in (21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        e = t * t * (2.0 / k + e)
    n = float(m)
    low = n * 1.9082149292705877e-10 + rest / x
    value = n * 0.6931471803691238 - (0.5 * f * f - (t * (0.5 * f * f + e) + low) - f)
    value = above - near + value if q > 0.0 else value
    return d if q == 1.0 else (value if x > 0.0 else math.nan)

@compiled("float64(float64, float64[::1])")
def log_q(x, theta):
    """Log density of Q at x."""
    sigma = theta[0]
    return -0.9189385332046728 - 0.5 * (x * x) / (sigma * sigma) - math.log(sigma)

@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_q_many(xs, theta, out):
    """Write log_q of each element to out."""
    sigma = theta[0]
    c0 = -0.9189385332046728 - math.log(sigma)
    for i in range(xs.size):
        out[i] = c0 - 0.5 * (xs[i] * xs[i]) / (sigma * sigma)

@compiled("float64(float64, float64[::1])")
def log_p(x, theta):
    """Log density of P at x."""
    sigma, sensitivity, sampling_rate = theta[0], theta[1], theta[2]
    t0 = x - sensitivity
    t1 = sigma * sigma
    t2 = math.log(sigma)
    t3 = -0.9189385332046728 - 0.5 * (t0 * t0) / t1 + math.log(sampling_rate) - t2
    t4 = -0.9189385332046728 - 0.5 * (x * x) / t1 - t2 + math.log1p(-sampling_rate)
    return log_add(t3, t4)

@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_p_many(xs, theta, out):
    """Write log_p of each element to out."""
    sigma, sensitivity, sampling_rate = theta[0], theta[1], theta[2]
    s0 = math.log(sigma)
    c0 = -0.9189385332046728 + math.log(sampling_rate) - s0
    c1 = -0.9189385332046728 - s0 + math.log1p(-sampling_rate)
    for i in range(xs.size):
        x = xs[i]
        t0 = x - sensitivity
        t1 = sigma * sigma
        out[i] = log_add(c0 - 0.5 * (t0 * t0) / t1, c1 - 0.5 * (x * x) / t1)

@compiled("float64(float64, float64[::1])")
def loss(x, theta):
    """Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."""
    sigma, sensitivity, sampling_rate = theta[0], theta[1], theta[2]
    return log_mix(sampling_rate, sensitivity * (x - 0.5 * sensitivity) / (sigma * sigma))

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    sigma, sensitivity, sampling_rate = theta[0], theta[1], theta[2]
    for i in range(xs.size):
        out[i] = log_mix(sampling_rate, sensitivity * (xs[i] - 0.5 * sensitivity) / (sigma * sigma))

@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return -math.inf

@compiled("float64(float64, float64[::1])")
def loss_inverse_0(ell, theta):
    """x of loss ell in (-oo, oo)."""
    sigma, sensitivity, sampling_rate = theta[0], theta[1], theta[2]
    return 0.5 * sensitivity + sigma * sigma * log_mix(1.0 / sampling_rate, ell) / sensitivity

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_inverse_0_many(ells, theta, out):
    """Write loss_inverse_0 of each element to out."""
    sigma, sensitivity, sampling_rate = theta[0], theta[1], theta[2]
    for i in range(ells.size):
        out[i] = 0.5 * sensitivity + sigma * sigma * log_mix(1.0 / sampling_rate, ells[i]) / sensitivity

@compiled("void(int64, float64[::1], float64[::1], float64[::1])", plain=True)
def loss_inverse_many(branch, ells, theta, out):
    """Write the outputs of a branch that have these losses to out; nan without an inverse."""
    if branch == 0:
        loss_inverse_0_many(ells, theta, out)
    else:
        out[:] = math.nan

@compiled("float64[:, ::1](float64[::1])", plain=True)
def branches(theta):
    """Branches as in BRANCHES: lo, hi, kind, loss at lo+, loss at hi-, index of the inverse."""
    sampling_rate = theta[2]
    return np.array([[-math.inf, math.inf, 1.0, math.log1p(-sampling_rate), math.inf, 0.0]])

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
    ((3.368194241975185, 0.6144615656140888, 0.08154947524195438), (
        (-0.9121403400793103, -2.1752098187694884, -2.169984301222263, -0.005225517547225331, 0, -0.9121403400793104),
        (2.8844410203711917, -2.4878631438754084, -2.500005305767618, 0.01214216189220953, 0, 2.8844410203711917),
        (-13.856406460551018, -10.640058067705342, -10.595392340341704, -0.04466572736363753, 0, -13.85640646055102),
        (44.54211490264017, -88.97941446221041, -89.57477804350351, 0.5953635812930992, 0, 44.54211490264017),
    )),
    ((22.689464903349588, 3.775630156169171, 0.013300633824476263), (
        (-7.297122720634483, -4.093422060017109, -4.092555233329666, -0.0008668266874429841, 0, -7.297122720634483),
        (23.075528162969533, -4.555765564246748, -4.557999094189174, 0.0022335299424263754, 0, 23.075528162969533),
        (-110.85125168440814, -15.982807831896983, -15.97529721954635, -0.0075106123506330546, 0, -110.85125168440814),
        (356.3369192211214, -127.21025717743773, -127.3635716132749, 0.15331443583716656, 0, 356.3369192211214),
    )),
)

if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {'ok' if error <= 1e-10 else 'FAILED'}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: adecd784c22a10a16de08ef12fe0bb13b3b29a39d95e2de0aadd64c10a992489
