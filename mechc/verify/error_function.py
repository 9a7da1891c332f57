"""The complementary error function on balls, with digits that wide balls and tails keep."""

from __future__ import annotations

from typing import Any

from flint import acb, arb
from sympy import Expr, erfc


def erfc_argument(expr: Expr) -> Expr | None:
    """The u of erfc(u), also where it is written 2 - erfc(-u), as SymPy does by itself."""
    if isinstance(expr, erfc):
        return expr.args[0]
    rest = 2 - expr
    return -rest.args[0] if isinstance(rest, erfc) else None


def log_erfc(u: Any, analytic: bool) -> Any:
    """Log of erfc: -u^2 + log erfcx(u) on the right, log(2 - erfc(-u)) on the left."""
    if isinstance(u, acb):
        if u.real.mid() < 0:
            return (2 - (-u * u).exp() * _erfcx(-u)).log(analytic)
        return _erfcx(u).log(analytic) - u * u
    # it falls on the real line: its ends there bound it on wide balls
    ends = u.erfc().log()
    return ends if ends.is_finite() else u.lower().erfc().log().union(u.upper().erfc().log())


def erfc_rate(u: Any) -> Any:
    """exp(-u^2)/erfc(u) on a real ball: it rises."""
    ends = [(-e * e).exp() / e.erfc() for e in (u.lower(), u.upper())]
    return ends[0].union(ends[1])


def erfc_bend(u: Any) -> Any:
    """2/sqrt(pi) erfc_rate(u) - 2u on a real ball; for u >= 0 by bounds that fall (DLMF 7.8.2)."""
    if not u >= 0:
        return 2 / arb.pi().sqrt() * erfc_rate(u) - 2 * u
    bounds = ((u.lower(), arb(2)), (u.upper(), 4 / arb.pi()))
    highest, lowest = (c / (e + (e * e + c).sqrt()) for e, c in bounds)
    return lowest.union(highest)


def _erfcx(u: Any) -> Any:
    """exp(u^2) erfc(u) on a complex ball, by its value in the middle and a bound on its slope.

    From erfcx(u) = 2/sqrt(pi) int_0^oo exp(-t^2 - 2ut) dt, |erfcx'(u)| <= |erfcx'(a)| for every
    a <= Re u, and erfcx'(a) = 2a erfcx(a) - 2/sqrt(pi).
    """
    middle, lowest = u.mid(), u.real.lower()
    value = (middle * middle).exp() * middle.erfc()
    # an enclosure of the slope must not lose its digits to the difference: it is at most 1/a^2
    steepest = abs(2 * lowest * (lowest * lowest).exp() * lowest.erfc() - 2 / arb.pi().sqrt())
    if lowest > 1:
        steepest = steepest.min(1 / (lowest * lowest * arb.pi().sqrt()))
    reach = (abs(u - middle).upper() * steepest).upper()
    return value + acb(arb(0, reach), arb(0, reach))
