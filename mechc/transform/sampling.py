"""Poisson sampling: every record enters the sample independently of the others."""

from __future__ import annotations

from dataclasses import replace

from sympy import Expr, Symbol

from mechc.adjacency import Adjacency
from mechc.declare import Declaration, Poisson, Shift
from mechc.errors import UnsupportedError
from mechc.parameters import rate
from mechc.transform.parameters import free_name, with_parameters


def poisson(
    declaration: Declaration, adjacency: Adjacency | str = Adjacency.ADD_REMOVE
) -> Declaration:
    """Keep every record independently with probability `sampling_rate`, then run the mechanism.

    Under add/remove adjacency the pair becomes ((1-r) Q + r P, Q), whose reversal is the pair of
    the other direction (Zhu, Dong, Wang 2022, Theorem 11). Under replacement it becomes
    ((1-r) p_0 + r p_D, (1-r) p_0 + r p_-D) for noise p shifted by the sensitivity D.

    Args:
        declaration: the mechanism to run on the sample.
        adjacency: relation between neighbouring data sets.

    Returns:
        A declaration with one parameter more, `sampling_rate` in [0, 1].

    Raises:
        UnsupportedError: replacement without declared additive noise.
        DeclarationError: an unknown adjacency.
    """
    adjacency = Adjacency.of(adjacency, sampling=True)
    added = rate(free_name(declaration, "sampling_rate")).parameter
    r = added.symbol
    replaces = adjacency is Adjacency.REPLACE
    sampled = _replaced(declaration, r) if replaces else _sampled(declaration, r)
    reverse = None if replaces else declaration.reverse
    if reverse is not None:
        reverse = with_parameters(_sampled_second(reverse, r), added)
    return replace(
        with_parameters(sampled, added),
        name=f"poisson({declaration.name})",
        reverse=reverse,
        about=f"{declaration.about} On a Poisson sample.".strip(),
        claim=None,
        construction=Poisson(declaration, r, adjacency),
    )


def _sampled(declaration: Declaration, r: Symbol) -> Declaration:
    """((1-r) Q + r P, Q)."""
    return replace(
        declaration,
        p=_mixed(declaration.q, declaration.p, r),
        atoms=tuple((x, _mixed(q, p, r), q) for x, p, q in declaration.atoms),
    )


def _sampled_second(declaration: Declaration, r: Symbol) -> Declaration:
    """(P, (1-r) P + r Q): in a pair of the add direction Q holds the record."""
    return replace(
        declaration,
        q=_mixed(declaration.p, declaration.q, r),
        atoms=tuple((x, p, _mixed(p, q, r)) for x, p, q in declaration.atoms),
    )


def _replaced(declaration: Declaration, r: Symbol) -> Declaration:
    """((1-r) p_0 + r p_D, (1-r) p_0 + r p_-D)."""
    shift = declaration.construction
    if not isinstance(shift, Shift):
        raise UnsupportedError(
            f"{declaration.name}: sampling under replacement needs noise declared with "
            "additive(); add_remove works for every pair"
        )
    x = declaration.variable
    moved = shift.noise.subs(x, x + shift.sensitivity)
    return replace(
        declaration,
        p=_mixed(shift.noise, declaration.p, r),
        q=_mixed(shift.noise, moved, r),
    )


def _mixed(without: Expr, with_record: Expr, r: Symbol) -> Expr:
    """(1-r) without + r with_record."""
    return (1 - r) * without + r * with_record
