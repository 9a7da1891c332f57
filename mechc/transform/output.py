"""Restricting what is accounted for on the output: a window, beyond which all is revealed."""

from __future__ import annotations

from dataclasses import replace

from sympy import And, Expr, Piecewise, Symbol

from mechc.adjacency import Adjacency
from mechc.declare import Declaration, Derived
from mechc.errors import UnsupportedError
from mechc.parameters import parameter
from mechc.transform.parameters import free_name, with_parameters


def truncate(declaration: Declaration) -> Declaration:
    """Count outputs outside (lower, upper) as revealing everything: mass at infinite loss.

    The mass of P outside is laid above `upper`, that of Q below `lower`, where the other law has
    none: folding the two back gives the original pair, so that this one dominates it (T9). Losses
    that are unbounded in the tails alone become bounded beside a small mass at infinity.

    Args:
        declaration: densities on the line without point masses.

    Returns:
        A declaration with the parameters `lower` < 0 < `upper` more.

    Raises:
        UnsupportedError: masses on a lattice or a finite set, or point masses.
    """
    if declaration.measure != "density" or declaration.atoms or declaration.reverse:
        raise UnsupportedError(
            f"truncate({declaration.name}): needs densities on the line, without point masses and "
            "without a pair of its own for the add direction"
        )
    low = parameter(free_name(declaration, "lower"), hi=0.0, hi_open=True, typical=(-30.0, -10.0))
    high = parameter(free_name(declaration, "upper"), lo=0.0, lo_open=True, typical=(10.0, 30.0))
    lower, upper = low.parameter.symbol, high.parameter.symbol
    x = declaration.variable
    return replace(
        with_parameters(declaration, low.parameter, high.parameter),
        name=f"truncate({declaration.name})",
        p=_above(declaration.p, x, lower, upper),
        q=_below(declaration.q, x, lower, upper),
        claim=None,
        construction=Derived(declaration, ("truncate",), "T9", Adjacency.ANY, (
            "post-processing gives the pair back",)),
    )  # fmt: skip


def _above(density: Expr, x: Symbol, lower: Expr, upper: Expr) -> Expr:
    folded = density + density.subs(x, lower + upper - x)
    return Piecewise((density, And(lower < x, x < upper)), (folded, x >= upper), (0, True))


def _below(density: Expr, x: Symbol, lower: Expr, upper: Expr) -> Expr:
    folded = density + density.subs(x, lower + upper - x)
    return Piecewise((density, And(lower < x, x < upper)), (folded, x <= lower), (0, True))
