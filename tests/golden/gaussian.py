"""gaussian: Gaussian noise of standard deviation sigma on a real query.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 39.
Parameters: theta = (sigma, sensitivity), in this order.
Arrays are contiguous and of doubles; f_many writes f(x, theta) of each x of xs to out.

on (-oo, oo), increasing:
    p = (1/(sigma*sqrt(2*pi)))*exp(-(x - sensitivity)**2/(2*sigma**2))
    q = (1/(sigma*sqrt(2*pi)))*exp(-x**2/(2*sigma**2))
    loss = sensitivity*(x - sensitivity/2)/sigma**2
    x = ell*sigma**2/sensitivity + sensitivity/2  where loss = ell
K(z) = log E_P[exp(z L); L finite] = sensitivity**2*z*(z + 1)/(2*sigma**2)
"""

import math
import sys

import numba
import numpy as np

COMPILE = {"error_model": "numpy", "no_cfunc_wrapper": True,
           "cache": __name__ in sys.modules}  # numba finds machine code by the module's name

DIGEST = "82dfac0f5d046c7e"
PROTOCOL = 2
NAME = "gaussian"
MEASURE = "density"
SYMMETRIC = True
# name, lo, hi, lo open, hi open, integer, default, typical range
PARAMETERS = (
    ("sigma", 0.0, math.inf, True, True, False, None, (0.5, 50.0)),
    ("sensitivity", 0.0, math.inf, True, True, False, 1.0, (0.1, 5.0)),
)
BRANCHES = ("increasing on (-oo, oo)",)
CAPABILITIES = {
    "infinite_mass": "closed: no such region",
    "lattice": "unavailable: the loss varies continuously or irregularly on (-oo, oo)",
    "cgf": "closed: completing the square, verified",
    "cdf": "closed: antiderivatives by rule",
}
CLAIM = {
    "status": "proven",
    "theorem": "T1",
    "adjacency": "any",
    "conditions": (
        "the noise is unimodal (signs of the derivative; every piece log-concave)",
        "the noise is symmetric, so both signs of the move are covered",
    ),
    "assumptions": ("the query moves by at most sensitivity between neighbours",),
}
REFS = ("dwork2006our", "balle2018improving")
ABOUT = "Gaussian noise of standard deviation sigma on a real query."

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
    sensitivity = theta[1]
    return log_q(x - sensitivity, theta)

@compiled("void(float64[::1], float64[::1], float64[::1])", plain=True)
def log_p_many(xs, theta, out):
    """Write log_p of each element to out."""
    sensitivity = theta[1]
    out[:] = xs - sensitivity
    log_q_many(out, theta, out)

@compiled("float64(float64, float64[::1])")
def loss(x, theta):
    """Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."""
    sigma, sensitivity = theta[0], theta[1]
    return sensitivity * (x - 0.5 * sensitivity) / (sigma * sigma)

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    sigma, sensitivity = theta[0], theta[1]
    for i in range(xs.size):
        out[i] = sensitivity * (xs[i] - 0.5 * sensitivity) / (sigma * sigma)

@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return -math.inf

@compiled("complex128(complex128, float64[::1])")
def cgf(z, theta):
    """Cumulant generating function log E_P[exp(z L); L finite] for complex z."""
    sigma, sensitivity = theta[0], theta[1]
    return 0.5 * (sensitivity * sensitivity) / (sigma * sigma) * z * (z + 1.0)

@compiled("float64(float64, float64[::1])")
def cdf_q(x, theta):
    """Probability of (-inf, x] under Q."""
    sigma = theta[0]
    return 0.5 * math.erfc(-0.7071067811865476 * x / sigma)

@compiled("float64(float64, float64[::1])")
def sf_q(x, theta):
    """Probability of (x, inf) under Q."""
    return cdf_q(-x, theta)

@compiled("float64(float64, float64[::1])")
def cdf_p(x, theta):
    """Probability of (-inf, x] under P."""
    sensitivity = theta[1]
    return cdf_q(x - sensitivity, theta)

@compiled("float64(float64, float64[::1])")
def sf_p(x, theta):
    """Probability of (x, inf) under P."""
    sensitivity = theta[1]
    return sf_q(x - sensitivity, theta)

@compiled("float64(float64, float64[::1])")
def loss_inverse_0(ell, theta):
    """x of loss ell in (-oo, oo)."""
    sigma, sensitivity = theta[0], theta[1]
    return 0.5 * sensitivity + ell * (sigma * sigma) / sensitivity

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_inverse_0_many(ells, theta, out):
    """Write loss_inverse_0 of each element to out."""
    sigma, sensitivity = theta[0], theta[1]
    for i in range(ells.size):
        out[i] = 0.5 * sensitivity + ells[i] * (sigma * sigma) / sensitivity

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
    return np.array([[-math.inf, math.inf, 1.0, -math.inf, math.inf, 0.0]])

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
    ((3.368194241975185, 0.6144615656140888), (
        (-0.9121403400793103, -2.236028757750874, -2.169984301222263, -0.06604445652861106, 0, -0.9121403400793102),
        (2.8844410203711917, -2.3604165896620617, -2.500005305767618, 0.13958871610555626, 0, 2.8844410203711917),
        (-13.856406460551018, -11.36253345648667, -10.595392340341704, -0.7671411161449656, 0, -13.856406460551018),
        (44.54211490264017, -87.17889640708661, -89.57477804350351, 2.3958816364168953, 0, 44.54211490264017),
    )),
    ((22.689464903349588, 3.775630156169171), (
        (-7.297122720634483, -4.159917572246105, -4.092555233329666, -0.0673623389164394, 0, -7.297122720634483),
        (23.075528162969533, -4.402608394658543, -4.557999094189174, 0.15539069953063184, 0, 23.075528162969533),
        (-110.85125168440814, -16.802125597789395, -15.97529721954635, -0.8268283782430442, 0, -110.85125168440814),
        (356.3369192211214, -124.76404168665509, -127.3635716132749, 2.599529926619796, 0, 356.3369192211214),
    )),
)

if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {'ok' if error <= 1e-10 else 'FAILED'}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: 6b6c2c371b82de6a2e2b0b791733ddcb59480170962aa24696fff3efbf6c07b5
