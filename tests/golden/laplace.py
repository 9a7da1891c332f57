"""laplace: Laplace noise on a real query.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 53.
Parameters: theta = (scale, sensitivity), in this order.
Arrays are contiguous and of doubles; f_many writes f(x, theta) of each x of xs to out.

on (-oo, 0), plateau:
    p = (1/(2*scale))*exp((x - sensitivity)/scale)
    q = (1/(2*scale))*exp(x/scale)
    loss = -sensitivity/scale
on (0, sensitivity), increasing:
    p = (1/(2*scale))*exp((x - sensitivity)/scale)
    q = (1/(2*scale))*exp(-x/scale)
    loss = (2*x - sensitivity)/scale
    x = ell*scale/2 + sensitivity/2  where loss = ell
on (sensitivity, oo), plateau:
    p = (1/(2*scale))*exp(-(x - sensitivity)/scale)
    q = (1/(2*scale))*exp(-x/scale)
    loss = sensitivity/scale
K(z) = log E_P[exp(z L); L finite] = log(exp(-sensitivity/(2*scale))*cosh(sensitivity*(2*z +
    1)/(2*scale)) + sensitivity*exp(-sensitivity/(2*scale))*sinhc(sensitivity*(2*z +
    1)/(2*scale))/(2*scale))
"""

import math
import sys

import numba
import numpy as np

COMPILE = {"error_model": "numpy", "no_cfunc_wrapper": True,
           "cache": __name__ in sys.modules}  # numba finds machine code by the module's name

DIGEST = "a5e8d9d22b96e1f9"
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
        "the noise is unimodal (signs of the derivative; every piece log-concave)",
        "the noise is symmetric, so both signs of the move are covered",
    ),
    "assumptions": ("the query moves by at most sensitivity between neighbours",),
}
REFS = ("dwork2006calibrating",)
ABOUT = "Laplace noise on a real query."


class Compiled:
    """A function of declared types, which numba compiles when it is first needed; a plain one,
    called once a query, runs as Python where Python calls it and nothing overflows."""

    def __init__(self, function, types, plain, inline):
        self.py_func, self.types, self.plain, self.made = function, types, plain, None
        self.options = {"forceinline": True, **COMPILE} if inline else COMPILE
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @property
    def machine_code(self):
        if self.made is None:
            self.made = numba.njit(self.types, **self.options)(self.py_func)
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

def compiled(types, plain=False, inline=False):
    """Declare the types of a function."""
    return lambda function: Compiled(function, types, plain, inline)

@compiled("complex128(complex128)", plain=True)
def complex_cosh(z: complex) -> complex:
    """Return cosh(z), of what complex_sinh computes too."""
    e = math.expm1(math.fabs(z.real))
    part = e / (1.0 + e) if e < math.inf else 1.0
    sinh = math.copysign(0.5 * (e + part), z.real)
    return complex((1.0 + 0.5 * e * part) * math.cos(z.imag), sinh * math.sin(z.imag))

@compiled("complex128(complex128)", plain=True)
def complex_sinh(z: complex) -> complex:
    """Return sinh(z)."""
    e = math.expm1(math.fabs(z.real))
    part = e / (1.0 + e) if e < math.inf else 1.0
    sinh = math.copysign(0.5 * (e + part), z.real)
    return complex(sinh * math.cos(z.imag), (1.0 + 0.5 * e * part) * math.sin(z.imag))

@compiled("complex128(complex128)", plain=True)
def complex_sinhc(z: complex) -> complex:
    """Return sinh(z)/z, with 1 at z = 0."""
    scale = 1.0 / (z.real * z.real + z.imag * z.imag)
    inverse = complex(scale * z.real, -scale * z.imag)
    return complex_sinh(z) * inverse if scale < 1e30 else complex(1.0, 0.0)

@compiled("complex128(complex128)", plain=True)
def complex_log(z: complex) -> complex:
    """Return the principal log(z), accurate near z = 1."""
    x, y = z.real, z.imag
    square = x * x + y * y
    if 0.5 < x < 1.5 and math.fabs(y) < 0.5:
        return complex(0.5 * math.log1p((x - 1.0) * (1.0 + x) + y * y), math.atan2(y, x))
    if 1e-290 < square < 1e290:
        return complex(0.5 * math.log(square), math.atan2(y, x))
    return complex(math.log(math.hypot(x, y)), math.atan2(y, x))

@compiled("float64(float64, float64[::1])")
def log_q(x, theta):
    """Log density of Q at x."""
    scale = theta[0]
    u0 = math.log(scale)
    u1 = x / scale
    if x < 0.0:
        return -0.6931471805599453 + u1 - u0
    else:
        return -0.6931471805599453 - u1 - u0

@compiled("void(float64[::1], float64[::1], float64[::1])")
def log_q_many(xs, theta, out):
    """Write log_q of each element to out."""
    scale = theta[0]
    c0 = -0.6931471805599453 - math.log(scale)
    for i in range(xs.size):
        x = xs[i]
        u0 = x / scale
        if x < 0.0:
            out[i] = u0 + c0
        else:
            out[i] = c0 - u0

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
    scale, sensitivity = theta[0], theta[1]
    if x < 0.0:
        return -sensitivity / scale
    elif x < sensitivity:
        return (2.0 * x - sensitivity) / scale
    else:
        return sensitivity / scale

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    scale, sensitivity = theta[0], theta[1]
    for i in range(xs.size):
        x = xs[i]
        if x < 0.0:
            out[i] = -sensitivity / scale
        elif x < sensitivity:
            out[i] = (2.0 * x - sensitivity) / scale
        else:
            out[i] = sensitivity / scale

@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return -math.inf

@compiled("complex128(complex128, float64[::1])")
def cgf(z, theta):
    """Cumulant generating function log E_P[exp(z L); L finite] for complex z."""
    scale, sensitivity = theta[0], theta[1]
    t0 = 0.5 * sensitivity / scale
    t1 = t0 * (2.0 * z + 1.0)
    return complex_log(complex_cosh(t1) + t0 * complex_sinhc(t1)) - t0

@compiled("float64(float64, float64[::1])")
def cdf_q(x, theta):
    """Probability of (-inf, x] under Q."""
    scale = theta[0]
    u0 = x / scale
    if x < 0.0:
        return 0.5 * math.exp(u0)
    else:
        return 1.0 - 0.5 * math.exp(-u0)

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
def loss_inverse_1(ell, theta):
    """x of loss ell in (0, sensitivity)."""
    scale, sensitivity = theta[0], theta[1]
    return 0.5 * (sensitivity + ell * scale)

@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_inverse_1_many(ells, theta, out):
    """Write loss_inverse_1 of each element to out."""
    scale, sensitivity = theta[0], theta[1]
    for i in range(ells.size):
        out[i] = 0.5 * (sensitivity + ells[i] * scale)

@compiled("void(int64, float64[::1], float64[::1], float64[::1])", plain=True)
def loss_inverse_many(branch, ells, theta, out):
    """Write the outputs of a branch that have these losses to out; nan without an inverse."""
    if branch == 1:
        loss_inverse_1_many(ells, theta, out)
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
    scale, sensitivity = theta[0], theta[1]
    t0 = sensitivity / scale
    out = np.empty((3, 6))
    n = 0
    n = add_branch(out, n, -math.inf, 0.0, 0.0, -t0, -t0, 0.0)
    n = add_branch(out, n, 0.0, sensitivity, 1.0, -t0, t0, 1.0)
    n = add_branch(out, n, sensitivity, math.inf, 0.0, t0, t0, 2.0)
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
    ((3.368194241975185, 0.6144615656140888), (
        (-0.45607017003965516, -2.2253594583624134, -2.0429288972158703, -0.1824305611465432, None, None),
        (-71.55417527999327, -23.33403075288374, -23.1516001917372, -0.1824305611465432, None, None),
        (0.007005939767811256, -2.0878744807929763, -1.9096039764985597, -0.17827050429441654, 1, 0.007005939767811255),
        (0.2037938461236278, -2.0294491370573327, -1.9680293202342036, -0.06141981682312885, 1, 0.2037938461236278),
        (0.5177545181724744, -1.9362357860765016, -2.0612426712150347, 0.12500688513853295, 1, 0.5177545181724744),
        (1.070531735653744, -2.0429288972158703, -2.2253594583624134, 0.1824305611465432, None, None),
        (72.16863684560737, -23.151600191737202, -23.334030752883745, 0.1824305611465432, None, None),
    )),
    ((22.689464903349588, 3.775630156169171), (
        (-3.6485613603172413, -4.142256649110798, -3.9758521009095844, -0.16640454820121317, None, None),
        (-572.4334022399462, -29.210491766266895, -29.044087218065684, -0.16640454820121317, None, None),
        (0.043048807183273086, -3.9795551405813687, -3.8169451999098305, -0.1626099406715382, 1, 0.043048807183273176),
        (1.2522348575164102, -3.9262622993670027, -3.870238041124196, -0.05602425824280644, 1, 1.2522348575164102),
        (3.181402518400268, -3.8412374797380893, -3.9552628607531095, 0.11402538101502017, 1, 3.181402518400268),
        (7.424191516486412, -3.9758521009095844, -4.142256649110798, 0.16640454820121317, None, None),
        (576.2090323961154, -29.044087218065684, -29.210491766266898, 0.16640454820121317, None, None),
    )),
)

def self_check():
    """Return a list of (function, points, largest relative error) against CHECKS."""
    errors = {}
    for theta, rows in CHECKS:
        for x, p, q, ell, branch, back in rows:
            values = ("log_p", x, p), ("log_q", x, q), ("loss", x, ell)
            for name, at, value in (*values, (f"loss_inverse_{branch}", ell, back)):
                if value is not None:
                    gap = abs(globals()[name](at, np.array(theta)) - value)
                    error = gap / max(abs(value), 1e-300)
                    errors.setdefault(name, []).append(error if error == error else math.inf)
    return [(name, len(found), max(found)) for name, found in errors.items()]

if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {'ok' if error <= 1e-10 else 'FAILED'}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: a6e037c9dca8d3ccc1d38bfc013048900f18217ee5d86b6058b6041ac9df4fd6
