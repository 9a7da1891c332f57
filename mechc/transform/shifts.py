"""The same noise at another distance: a larger sensitivity, or the sensitivity of a group."""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr, Integer, binomial

from mechc.adjacency import Adjacency
from mechc.declare import Declaration, Moves, Poisson, Shift
from mechc.errors import DeclarationError, UnsupportedError
from mechc.parameters import count, positive
from mechc.transform.parameters import free_name, with_parameters


def shift(declaration: Declaration) -> Declaration:
    """The query moves `factor` times as far: noise(x - factor * sensitivity) against noise(x).

    Replacing a record moves a query up to twice as far as adding or removing one.

    Args:
        declaration: additive noise.

    Returns:
        A declaration with one parameter more, `factor` > 0.

    Raises:
        UnsupportedError: no additive noise, or noise on the integers.
    """
    built = additive_noise(declaration, "shift")
    if declaration.measure == "lattice":
        raise UnsupportedError(
            f"{declaration.name}: on the integers the distance is the parameter sensitivity itself"
        )
    factor = positive(free_name(declaration, "factor"), typical=(0.5, 3)).parameter
    moved = _at_distance(declaration, built, factor.symbol, built.group)
    return replace(with_parameters(moved, factor), name=f"shift({declaration.name})")


def group(declaration: Declaration, size: str | None = None) -> Declaration:
    """Protect groups: neighbours differ by up to `group_size` records.

    Additive noise of sensitivity D moves by group_size * D (T1 applies to that distance). On a
    Poisson sample of rate r, k of m records are kept with binomial probabilities, so that
    P = sum_k Bin(m, r)(k) noise(x - k D) against Q = noise(x).

    Args:
        declaration: additive noise, or additive noise on a Poisson sample (add/remove).
        size: for a Poisson sample, the number m of records, in digits.

    Returns:
        A declaration with the parameter `group_size`, or for this group size.

    Raises:
        UnsupportedError: another mechanism: how often a record counts is then not known.
    """
    built = declaration.construction
    if isinstance(built, Poisson) and built.adjacency is Adjacency.ADD_REMOVE and size is not None:
        return _sampled_group(declaration, built, int(size))
    if size is not None:
        raise DeclarationError(f"{declaration.name}: size={size} is for Poisson samples alone")
    members = count(free_name(declaration, "group_size"), typical=(2, 5)).parameter
    noise = additive_noise(declaration, "group")
    moved = _at_distance(
        declaration, noise, members.symbol, members.symbol * (noise.group or Integer(1))
    )
    return replace(with_parameters(moved, members), name=f"group({declaration.name})")


def additive_noise(declaration: Declaration, wanted_by: str) -> Shift:
    """How additive noise was declared.

    Raises:
        UnsupportedError: the declaration is another pair.
    """
    if not isinstance(declaration.construction, Shift):
        raise UnsupportedError(
            f"{wanted_by}({declaration.name}): needs noise declared with additive(), so that the "
            "pair at another distance is known"
        )
    return declaration.construction


def _at_distance(
    declaration: Declaration, built: Shift, factor: Expr, group: Expr | None
) -> Declaration:
    """The pair of the same noise `factor` times as far; T1 is applied to it anew."""
    x, distance = declaration.variable, factor * built.sensitivity
    return replace(
        declaration,
        p=built.noise.subs(x, x - distance),
        claim=None,
        construction=Shift(built.noise, distance, group),
    )


def _sampled_group(declaration: Declaration, built: Poisson, size: int) -> Declaration:
    noise = additive_noise(built.base, "group")
    x, r = declaration.variable, built.rate
    kept = [binomial(size, k) * r**k * (1 - r) ** (size - k) for k in range(size + 1)]
    shifted = [noise.noise.subs(x, x - k * noise.sensitivity) for k in range(size + 1)]
    return replace(
        declaration,
        name=f"group({declaration.name}, {size})",
        p=Add(*(w * p for w, p in zip(kept, shifted, strict=True))),
        claim=None,
        construction=Moves(declaration, ("group", str(size)), (
            f"{noise.sensitivity} for each of {size} records that differ and enter the sample, "
            f"which each does independently with probability {r}"), str(size)),
    )  # fmt: skip
