"""approximate_dp: A mechanism of which only (epsilon, delta) is known.

Emitted by mechc 0.1.0, sympy 1.14.0, kernel protocol 2; do not edit.
Operations in the scalar functions: 21.
Parameters: theta = (epsilon, delta), in this order.
Arrays are contiguous and of doubles; f_many writes f(x, theta) of each x of xs to out.

c0 = 1/(exp(epsilon) + 1)
at 0: P has mass delta, Q has mass 0
at 1: P has mass c0*(1 - delta)*exp(epsilon), Q has mass c0*(1 - delta)
at 2: P has mass c0*(1 - delta), Q has mass c0*(1 - delta)*exp(epsilon)
at 3: P has mass 0, Q has mass delta
K(z) = log E_P[exp(z L); L finite] = log((1 - delta)*exp(epsilon)*exp(epsilon*z)/(exp(epsilon) +
    1) + (1 - delta)*exp(-epsilon*z)/(exp(epsilon) + 1))
"""

import math
import sys

import numba
import numpy as np

COMPILE = {"error_model": "numpy", "no_cfunc_wrapper": True,
           "cache": __name__ in sys.modules}  # numba finds machine code by the module's name

DIGEST = "3d6312e660ebe084"
PROTOCOL = 2
NAME = "approximate_dp"
MEASURE = "finite"
SYMMETRIC = True
# name, lo, hi, lo open, hi open, integer, default, typical range
PARAMETERS = (
    ("epsilon", 0.0, math.inf, False, True, False, None, (0.1, 5.0)),
    ("delta", 0.0, 1.0, False, False, False, None, (1e-06, 0.1)),
)
BRANCHES = ()
CAPABILITIES = {
    "infinite_mass": "closed: closed masses",
    "lattice": "closed: all gaps between losses are multiples of the step",
    "cgf": "closed: finite sum, verified",
    "cdf": "unavailable: only derived for densities without atoms",
}
CLAIM = {
    "status": "declared",
    "theorem": None,
    "adjacency": "any",
    "conditions": (),
    "assumptions": (
        "Kairouz, Oh, Viswanath 2015: every (epsilon, delta)-private mechanism is a post-processing of this pair",
    ),
}
REFS = ("kairouz2015composition",)
ABOUT = "A mechanism of which only (epsilon, delta) is known."

@compiled("float64(float64, float64, float64, float64)", plain=True)
def log_sum(v: float, a: float, w: float, b: float) -> float:
    """Return log(v exp(a) + w exp(b)), where the sum is not negative."""
    if v == 0.0 or (b > a and w != 0.0):
        v, a, w, b = w, b, v, a
    if w == 0.0:
        return a + math.log(v) if v != 0.0 else -math.inf
    if b - a > -0.5 and 0.5 < v + w < 2.0:  # the weights of a mixture may sum to one exactly
        return a + math.log1p((max(v, w) - 1.0) + min(v, w) + w * math.expm1(b - a))
    rest = 0.0 if b == a - math.inf else w * math.exp(b - a)
    if 0.5 < v + rest < 2.0:
        return a + math.log1p((v - 1.0) + rest)
    return a + math.log(v + rest)

@compiled("float64(float64)", plain=True)
def softplus(x: float) -> float:
    """Return log(1 + exp(x))."""
    if x > 0.0:
        return x + math.log1p(math.exp(-x))
    return math.log1p(math.exp(x))

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

@compiled("complex128(complex128)", plain=True)
def complex_exp(z: complex) -> complex:
    """Return exp(z)."""
    size = math.exp(z.real)
    return complex(size * math.cos(z.imag), size * math.sin(z.imag))

@compiled("complex128(complex128, complex128, complex128, complex128)", plain=True)
def complex_log_sum(v: complex, a: complex, w: complex, b: complex) -> complex:
    """Return log(v exp(a) + w exp(b)) without overflow."""
    if v == 0.0 or (b.real > a.real and w != 0.0):
        v, a, w, b = w, b, v, a
    return a + complex_log(v + w * complex_exp(b - a) if w != 0.0 else v)

@compiled("float64[:, ::1](float64[::1])", plain=True)
def atoms(theta):
    """Atoms: x, log mass under P, log mass under Q."""
    epsilon, delta = theta[0], theta[1]
    t0 = math.log(delta)
    t1 = 1.0 / (1.0 - delta)
    t2 = log_sum(t1, -epsilon, t1, 0.0)
    t3 = math.log1p(-delta) - softplus(epsilon)
    out = np.empty((4, 3))
    # at 0
    out[0, 0], out[0, 1], out[0, 2] = 0.0, t0, -math.inf
    # at 1
    out[1, 0], out[1, 1], out[1, 2] = 1.0, -t2, t3
    # at 2
    out[2, 0], out[2, 1], out[2, 2] = 2.0, t3, -t2
    # at 3
    out[3, 0], out[3, 1], out[3, 2] = 3.0, -math.inf, t0
    return out

@compiled("float64(float64, int64, float64[:, ::1])", plain=True)
def log_mass(x, column, rows):
    """Log mass at x, of P in column 1, of Q in column 2; -inf where no atom is."""
    for i in range(rows.shape[0]):
        if rows[i, 0] == x:
            return rows[i, column]
    return -math.inf

@compiled("float64(float64, float64[::1])", plain=True)
def log_q(x, theta):
    """Log mass of Q at x."""
    return log_mass(x, 2, atoms(theta))

@compiled("void(float64[::1], float64[::1], float64[::1])", plain=True)
def log_q_many(xs, theta, out):
    """Write log_q of each element to out."""
    c0 = atoms(theta)
    for i in range(xs.size):
        out[i] = log_mass(xs[i], 2, c0)

@compiled("float64(float64, float64[::1])", plain=True)
def log_p(x, theta):
    """Log mass of P at x."""
    return log_mass(x, 1, atoms(theta))

@compiled("void(float64[::1], float64[::1], float64[::1])", plain=True)
def log_p_many(xs, theta, out):
    """Write log_p of each element to out."""
    c0 = atoms(theta)
    for i in range(xs.size):
        out[i] = log_mass(xs[i], 1, c0)

@compiled("float64(float64, float64[::1])", plain=True)
def loss(x, theta):
    """Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."""
    epsilon = theta[0]
    if x == 0.0:
        return math.inf
    elif x == 1.0:
        return epsilon
    elif x == 2.0:
        return -epsilon
    elif x == 3.0:
        return -math.inf
    else:
        return math.nan

@compiled("void(float64[::1], float64[::1], float64[::1])", plain=True)
def loss_many(xs, theta, out):
    """Write loss of each element to out."""
    epsilon = theta[0]
    for i in range(xs.size):
        x = xs[i]
        if x == 0.0:
            out[i] = math.inf
        elif x == 1.0:
            out[i] = epsilon
        elif x == 2.0:
            out[i] = -epsilon
        elif x == 3.0:
            out[i] = -math.inf
        else:
            out[i] = math.nan

@compiled("float64(float64[::1])", plain=True)
def log_infinite_mass(theta):
    """Log of P(q = 0), the mass at loss +inf; nan: by quadrature."""
    return log_mass(0.0, 1, atoms(theta))

@compiled("complex128(complex128, float64[::1])")
def cgf(z, theta):
    """Cumulant generating function log E_P[exp(z L); L finite] for complex z."""
    epsilon, delta = theta[0], theta[1]
    t0 = (1.0 - delta) / (math.exp(epsilon) + 1.0)
    return complex_log_sum(t0, -epsilon * z, t0, epsilon * (z + 1.0))

@compiled("void(int64, float64[::1], float64[::1], float64[::1])", plain=True)
def loss_inverse_many(branch, ells, theta, out):
    """Write the outputs of a branch that have these losses to out; nan without an inverse."""
    out[:] = math.nan

@compiled("float64[:, ::1](float64[::1])", plain=True)
def branches(theta):
    """Branches as in BRANCHES: lo, hi, kind, loss at lo+, loss at hi-, index of the inverse."""
    return np.empty((0, 6))

@compiled("float64[::1](float64[::1])", plain=True)
def breakpoints(theta):
    """Sorted distinct ends of the branches."""
    return np.unique(branches(theta)[:, :2])

@compiled("float64[::1](float64[::1])", plain=True)
def strip(theta):
    """The open interval of real t in which E_P[exp(t L); L finite] is finite."""
    return np.array([-math.inf, math.inf])

@compiled("float64[::1](float64[::1])", plain=True)
def lattice(theta):
    """All losses are offset + step * integer; nan: no."""
    epsilon = theta[0]
    return np.array([epsilon, 2.0 * epsilon])

@compiled("float64[:, ::1](float64[::1])", plain=True)
def weights(theta):
    """Weights that are not negative; one for those of other cases."""
    return np.empty((0, 1))

# theta; x, log_p, log_q, loss, index of an inverse and the x that has this loss;
# computed from the declaration to 50 digits, None where infinite or unknown
CHECKS = (
    ((0.5055177598875075, 0.00020917418025975874), (
        (0.0, -8.472343254711008, None, None, None, None),
        (1.0, -0.4722065772901355, -0.977724337177643, 0.5055177598875075, None, None),
        (2.0, -0.977724337177643, -0.4722065772901355, -0.5055177598875075, None, None),
        (3.0, None, -8.472343254711008, None, None, None),
    )),
    ((2.555482055616836, 0.04375383768734204), (
        (0.0, -3.129175951457744, None, None, None, None),
        (1.0, -0.119527095587595, -2.675009151204431, 2.555482055616836, None, None),
        (2.0, -2.675009151204431, -0.119527095587595, -2.555482055616836, None, None),
        (3.0, None, -3.129175951457744, None, None, None),
    )),
)

if __name__ == "__main__":
    rows = self_check()
    print(f"{NAME} {DIGEST}: relative error against values to 50 digits")
    for name, points, error in rows:
        print(f"  {name:<18} {points:>3} points  {error:8.1e}  {'ok' if error <= 1e-10 else 'FAILED'}")
    raise SystemExit(any(error > 1e-10 for _, _, error in rows))
# sha256 of the text above: 4ac07897121856085d56a712b9a12d65d91fa979fcd58963a258692748173b9a
