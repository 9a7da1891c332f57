"""Transformations of declarations: from a pair to the pair of a larger mechanism, still symbolic.

`RULES` holds a function for every class of `mechc.declare.transforms`: it takes a declaration and
the options, and returns a declaration; what was done is recorded in `construction`, so that a claim
about the result can rest on the claim about its base (mechc.calculus.claims).
"""

from __future__ import annotations

from collections.abc import Callable

from mechc.adjacency import Adjacency
from mechc.calculus.transform.listed import listed
from mechc.calculus.transform.sampling import poisson, shuffled, without_replacement
from mechc.calculus.transform.sensitivity import (
    group,
    of_length,
    random_sensitivity,
    shift,
    truncate,
    vector,
    with_replacement,
)
from mechc.declare import transforms
from mechc.declare.declaration import Declaration, Derived, Moves, Poisson
from mechc.declare.transforms import Transform
from mechc.errors import DeclarationError, UnsupportedError

RULES: dict[type[Transform], Callable[..., Declaration]] = {
    transforms.Group: group,
    transforms.Listed: listed,
    transforms.OfLength: of_length,
    transforms.Poisson: poisson,
    transforms.RandomSensitivity: random_sensitivity,
    transforms.Shift: shift,
    transforms.Shuffled: shuffled,
    transforms.Truncate: truncate,
    transforms.Unlisted: lambda declaration: declaration,
    transforms.Vector: vector,
    transforms.WithReplacement: with_replacement,
    transforms.WithoutReplacement: without_replacement,
}


def apply(declaration: Declaration, step: Transform) -> Declaration:
    """Return what a transformation makes of a declaration; other neighbours are refused."""
    adjacency = _relation(declaration)
    if step == transforms.Poisson(Adjacency.ADD_REMOVE) and adjacency is Adjacency.REPLACE:
        raise UnsupportedError(
            f"poisson({declaration.name}): the pair is for replacing a record, and Poisson "
            "sampling under add/remove (T6) needs a pair for adding and removing one; use "
            "without_replacement(), or declare a pair for add_remove"
        )
    if isinstance(step, transforms.WithoutReplacement) and adjacency is Adjacency.ADD_REMOVE:
        raise UnsupportedError(
            f"without_replacement({declaration.name}): the pair is for adding or removing a "
            "record, and T7 needs one that dominates replacement in both orders; use poisson(), "
            "or declare a pair for replace"
        )
    if isinstance(step, transforms.Shuffled) and adjacency not in (Adjacency.ANY, step.adjacency):
        raise UnsupportedError(
            f"shuffled({declaration.name}): the pair is for {adjacency.words} neighbours"
        )
    return replayed(declaration, step)


def replayed(declaration: Declaration, step: Transform) -> Declaration:
    """Return what the rule of a transformation alone gives."""
    if type(step) not in RULES:
        raise DeclarationError(f"{declaration.name}: {step!r} is no known transformation")
    return RULES[type(step)](declaration, **vars(step))


def _relation(declaration: Declaration) -> Adjacency:
    """The relation a pair was built for, "any" where only the claim's proof could tell."""
    built = declaration.construction
    if declaration.claim is not None:
        return declaration.claim.adjacency
    if isinstance(built, Moves):
        replaces = _relation(built.base) is Adjacency.REPLACE
        return Adjacency.REPLACE if replaces else Adjacency.ADD_REMOVE
    if not isinstance(built, (Poisson, Derived)):
        return Adjacency.ANY
    return _relation(built.base) if built.adjacency is Adjacency.ANY else built.adjacency
