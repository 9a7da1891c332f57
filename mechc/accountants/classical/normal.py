"""The normal law: logs of its tails, and Edgeworth expansions to any order from cumulants.

Logs of tails are as good as SciPy's, which take longer to import than most questions.

The standardised sum with cumulants lambda_r (r >= 3, lambda_r of size n^(1 - r/2)) has the formal
density phi(z) sum_s sum_j c[s, j] He_j(z), where c[s] collects what is of size n^(-s/2). With
g_m = lambda_{m+2}/(m+2)!, the generating identity sum_s c_s e^s = exp(sum_m g_m D^{m+2} e^m), D a
shift of the Hermite index, differentiates to s c_s = sum_m m g_m D^{m+2} c_{s-m}: a recursion that
produces every Edgeworth polynomial (the partitions of s are never listed). Since
(phi He_{j-1})' = -phi He_j, the distribution function is Phi - phi sum c[s, j] He_{j-1}.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.kernel.prelude import log_erfcx, log_half_erfc
from mechc.numeric.logs import HALF_ROOT
from mechc.protocol import Floats


def log_ndtr(x: float) -> float:
    """Return log Phi(x), to 16 u of it and of one."""
    return log_half_erfc(-x * HALF_ROOT)


def log_mills(x: float) -> float:
    """Return log q(x) with q(x) = sqrt(2 pi) exp(x^2/2) (1 - Phi(x)), the normal Mills ratio."""
    return log_erfcx(x * HALF_ROOT) + 0.5 * math.log(0.5 * math.pi)


def standardise(cumulants: Floats) -> Floats:
    """Return [lambda_3, ..., lambda_n] = K^(r) / K''^(r/2) from [K, K', ..., K^(n)].

    Not finite where the spread is too small for its powers to be doubles.
    """
    r = np.arange(3, cumulants.size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out: Floats = cumulants[3:] / np.sqrt(cumulants[2]) ** r
    return out


def hermite_coefficients(lambdas: Floats, order: int) -> Floats:
    """Return c of shape (order + 1, 3 order + 1) for lambdas = [lambda_3, ..., lambda_{order+2}].

    Row s holds the terms of relative size n^(-s/2); row 0 is the normal law.
    """
    c = np.zeros((order + 1, 3 * order + 1))
    c[0, 0] = 1.0
    for s in range(1, order + 1):
        for m in range(1, s + 1):
            g = lambdas[m - 1] / math.factorial(m + 2)
            with np.errstate(over="ignore", invalid="ignore"):  # a failed expansion is no number
                c[s, m + 2 :] += (m / s) * g * c[s - m, : c.shape[1] - m - 2]
    return c


def hermite_values(z: Floats, degree: int) -> Floats:
    """Return He_0(z), ..., He_degree(z), shape (degree + 1,) + z.shape."""
    out = np.ones((degree + 1, *np.shape(z)))
    if degree > 0:
        out[1] = z
    with np.errstate(over="ignore", invalid="ignore"):  # far out
        for j in range(1, degree):
            out[j + 1] = z * out[j] - j * out[j - 1]
    return out
