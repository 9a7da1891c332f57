"""The same noise at another distance: a larger sensitivity, or the sensitivity of a group."""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr, binomial

from mechc.adjacency import Adjacency, Claim
from mechc.declare import Declaration, Poisson, Shift
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
    moved = _at_distance(declaration, built, factor.symbol * built.sensitivity)
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
    moved = _at_distance(declaration, noise, members.symbol * noise.sensitivity)
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


def _at_distance(declaration: Declaration, built: Shift, distance: Expr) -> Declaration:
    """The pair of the same noise at `distance`; T1 is applied to it anew."""
    x = declaration.variable
    return replace(
        declaration,
        p=built.noise.subs(x, x - distance),
        claim=None,
        construction=Shift(built.noise, distance),
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
        claim=claim_of_moves(
            built.base, noise, f"{noise.sensitivity} for each of {size} records that differ and "
            f"enter the sample, which each does independently with probability {r}",
            "the query moves up"),
        construction=None,
    )  # fmt: skip


def claim_of_moves(base: Declaration, noise: Shift, moves: str, does: str) -> Claim:
    """What may be said of a mixture of upward moves of several sizes.

    Args:
        base: the declaration of the noise.
        noise: how it was declared.
        moves: by how much the query moves, in words.
        does: what it does, in words.

    Returns:
        "proven" by T8, for these and shorter moves, where the noise was proved log-concave; else
        "declared", for a query that moves by exactly these distances.
    """
    from mechc.concavity import is_log_concave

    if is_log_concave(replace(base, p=noise.noise, q=noise.noise, construction=None)):
        return Claim("proven", "T8", Adjacency.ADD_REMOVE, (
            "the noise is log-concave, so that larger outputs speak for larger moves",),
            (f"{does} by at most {moves}",))  # fmt: skip
    return Claim("declared", None, Adjacency.ADD_REMOVE, (), (
        f"{does} by exactly {moves}: the noise was not proved log-concave, which T8 needs, and "
        "without that shorter moves may reveal more (mixture() of one event for each move is "
        "proven for unimodal noise, T9)",))  # fmt: skip
