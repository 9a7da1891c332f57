"""Transformations of declarations: from a pair to the pair of a larger mechanism, still symbolic.

Each function takes a declaration, with options that are words, and returns a declaration; what was
done is recorded in `construction`, so that a claim about the result can rest on the claim about its
base (mechc.claims).
"""

from __future__ import annotations

from collections.abc import Callable

from mechc.adjacency import Adjacency
from mechc.declare import Declaration, Derived, Moves, Poisson
from mechc.errors import UnsupportedError
from mechc.transform.lists import of_length
from mechc.transform.output import truncate
from mechc.transform.random_shift import random_sensitivity, with_replacement
from mechc.transform.sampling import poisson
from mechc.transform.shifts import group, shift
from mechc.transform.subset import without_replacement
from mechc.transform.vector import vector

__all__ = [
    "apply", "group", "of_length", "poisson", "random_sensitivity", "shift", "truncate", "vector",
    "with_replacement", "without_replacement",
]  # fmt: skip

STEPS: dict[str, Callable[..., Declaration]] = {
    made.__name__: made
    for made in (group, of_length, poisson, random_sensitivity, shift, truncate, vector,
                 with_replacement, without_replacement)
}  # fmt: skip


def apply(declaration: Declaration, step: tuple[str, ...]) -> Declaration:
    """Return what a transformation makes of a declaration, whose neighbours have to be right.

    Args:
        declaration: what is to be transformed.
        step: name of the transformation, and its options.

    Raises:
        UnsupportedError: the message names the theorem and the pair that it would need.
    """
    name, *options = step
    adjacency = _relation(declaration)
    if name == "poisson" and adjacency is Adjacency.REPLACE and options != ["replace"]:
        raise UnsupportedError(
            f"poisson({declaration.name}): the pair is for replacing a record, and Poisson "
            "sampling under add/remove (T6) needs a pair for adding and removing one; use "
            "without_replacement(), or declare a pair for add_remove"
        )
    if name == "without_replacement" and adjacency is Adjacency.ADD_REMOVE:
        raise UnsupportedError(
            f"without_replacement({declaration.name}): the pair is for adding or removing a "
            "record, and T7 needs one that dominates replacement in both orders; use poisson(), "
            "or declare a pair for replace"
        )
    return STEPS[name](declaration, *options)


def _relation(declaration: Declaration) -> Adjacency:
    """The relation a pair was built for, "any" where only the claim's proof could tell."""
    built = declaration.construction
    if declaration.claim is not None:
        return declaration.claim.adjacency
    if not isinstance(built, (Poisson, Derived)):
        return Adjacency.ADD_REMOVE if isinstance(built, Moves) else Adjacency.ANY
    return _relation(built.base) if built.adjacency is Adjacency.ANY else built.adjacency
