"""Cumulants of the finite loss under P, in closed form where the generating function is closed.

kappa_r is the r-th derivative of K(z) = log M(z) at z = 0, with M = exp(K) differentiated where K
is the logarithm of a sum: kappa_1 = m_1, kappa_2 = m_2 - m_1^2, ... for m_r = M^(r)(0)/M(0).
"""

from __future__ import annotations

from sympy import Expr, Symbol, Tuple, diff, factor_terms, log

from mechc.calculus.types import Closed, Entry, Unavailable

ORDER = 4


def cumulants_of(cgf: Entry, z: Symbol) -> Entry:
    """kappa_1, ..., kappa_4 of one case.

    Args:
        cgf: entry for log M(z).
        z: its argument.
    """
    if not isinstance(cgf, Closed):
        return Unavailable("no closed generating function; the numeric side differentiates its own")
    if isinstance(cgf.expr, log):
        values = _from_moments(cgf.expr.args[0], z)
    else:
        values = [diff(cgf.expr, z, order).subs(z, 0) for order in range(1, ORDER + 1)]
    return Closed(Tuple(*values), "derivatives of the generating function at 0")


def _from_moments(moment: Expr, z: Symbol) -> list[Expr]:
    at_zero = moment.subs(z, 0)
    m1, m2, m3, m4 = (
        factor_terms(diff(moment, z, order).subs(z, 0)) / at_zero for order in range(1, ORDER + 1)
    )
    return [
        m1,
        m2 - m1**2,
        m3 - 3 * m2 * m1 + 2 * m1**3,
        m4 - 4 * m3 * m1 - 3 * m2**2 + 12 * m2 * m1**2 - 6 * m1**4,
    ]
