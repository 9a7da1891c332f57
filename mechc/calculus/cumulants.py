"""Cumulants of the finite loss under P, in closed form where the generating function is closed.

kappa_r is the r-th derivative of K(z) = log M(z) at z = 0, with M = exp(K) differentiated where K
is the logarithm of a sum: kappa_1 = m_1, kappa_2 = m_2 - m_1^2, ... for m_r = M^(r)(0)/M(0).
"""

from __future__ import annotations

from sympy import Add, Dummy, Expr, Mul, S, Symbol, Tuple, diff, log

from mechc.calculus.types import Closed, Entry, Unavailable

ORDER = 4


def cumulants_of(cgf: Entry, z: Symbol) -> Entry:
    """kappa_1, ..., kappa_4 of one case.

    Args:
        cgf: entry for log M(z).
        z: its argument.
    """
    if cgf == Closed(S.NegativeInfinity, "the loss is never finite"):
        return Unavailable("the loss is never finite")
    if not isinstance(cgf, Closed):
        return Unavailable("no closed generating function; the numeric side differentiates its own")
    short, constants = _abbreviated(cgf.expr, z)
    is_log = isinstance(short, log)
    values = _from_moments(short.args[0], z) if is_log else _derivatives(short, z)
    values = [value.xreplace(constants) for value in values]
    return Closed(Tuple(*values), "derivatives of the generating function at 0")


def _abbreviated(expr: Expr, z: Symbol) -> tuple[Expr, dict[Expr, Expr]]:
    """Stand-ins for what is free of z, so that differentiation does not carry it along."""
    constants: dict[Expr, Expr] = {}

    def shorten(node: Expr) -> Expr:
        if not node.has(z):
            if node.is_Number:
                return node
            stand_in = Dummy("c")
            constants[stand_in] = node
            return stand_in
        if isinstance(node, (Add, Mul)):
            constant, rest = node.as_independent(z, as_Add=isinstance(node, Add))
            parts = [shorten(a) for a in node.func.make_args(rest)]
            return node.func(shorten(constant), *parts)
        return node if node == z else node.func(*(shorten(a) for a in node.args))

    return shorten(expr), constants


def _derivatives(expr: Expr, z: Symbol) -> list[Expr]:
    found, values = expr, []
    for _ in range(ORDER):
        found = diff(found, z)
        values.append(found.subs(z, 0))
    return values


def _from_moments(moment: Expr, z: Symbol) -> list[Expr]:
    at_zero = moment.subs(z, 0)
    m1, m2, m3, m4 = (value / at_zero for value in _derivatives(moment, z))
    return [
        m1,
        m2 - m1**2,
        m3 - 3 * m2 * m1 + 2 * m1**3,
        m4 - 4 * m3 * m1 - 3 * m2**2 + 12 * m2 * m1**2 - 6 * m1**4,
    ]
