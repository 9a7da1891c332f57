"""Samples of the records: Poisson, subsets of fixed size, the batches of a shuffled pass.

The rules of `Poisson`, `WithoutReplacement` and `Shuffled`.
"""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr, Min, Piecewise, Symbol

from mechc.adjacency import Adjacency
from mechc.calculus.noise_shape import centre_of, shape_of
from mechc.calculus.structure import pair_off
from mechc.calculus.transform.sensitivity import additive_noise, free_name, with_parameters
from mechc.declare.declaration import Declaration, Derived, Poisson, Shift
from mechc.declare.transforms import Shuffled, WithoutReplacement
from mechc.errors import UnsupportedError
from mechc.protocol import Measure
from mechc.symbolic.parameters import rate


def poisson(
    declaration: Declaration, adjacency: Adjacency | str = Adjacency.ADD_REMOVE
) -> Declaration:
    """Keep every record independently with probability `sampling_rate`, then run the mechanism.

    Under add/remove adjacency the pair becomes ((1-r) Q + r P, Q), whose reversal is the pair of
    the other direction (Zhu, Dong, Wang 2022, Theorem 11). Under replacement it becomes
    ((1-r) p_0 + r p_D, (1-r) p_0 + r p_-D) for noise p shifted by the sensitivity D.

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
        reverse = with_parameters(_sampled(reverse, r, second=True), added)
    return replace(
        with_parameters(sampled, added),
        name=f"poisson({declaration.name})",
        reverse=reverse,
        about=f"{declaration.about} On a Poisson sample.".strip(),
        claim=None,
        construction=Poisson(declaration, r, adjacency),
    )


def _sampled(declaration: Declaration, r: Symbol, second: bool = False) -> Declaration:
    """((1-r) Q + r P, Q); of a pair of the add direction (P, (1-r) P + r Q): Q holds the record."""

    def mixed(p: Expr, q: Expr) -> tuple[Expr, Expr]:
        return (p, _mixed(p, q, r)) if second else (_mixed(q, p, r), q)

    p, q = mixed(declaration.p, declaration.q)
    atoms = tuple((x, *mixed(*masses)) for x, *masses in declaration.atoms)
    return replace(declaration, p=p, q=q, atoms=atoms)


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
        declaration, p=_mixed(shift.noise, declaration.p, r), q=_mixed(shift.noise, moved, r)
    )


def _mixed(without: Expr, with_record: Expr, r: Symbol) -> Expr:
    """(1-r) without + r with_record."""
    return (1 - r) * without + r * with_record


def without_replacement(declaration: Declaration, groups: str | None = None) -> Declaration:
    """Draw a subset of the fixed share `sampling_rate` of the records, then run the mechanism.

    Let (P, Q) dominate the mechanism under replacement on the subset, D the distance by which
    replacing one record moves the query, and r the rate. For a >= 1 the profile on the whole is
    h(a) = H_a((1-r) Q + r P || Q), for a < 1 it is 1 - a + a h(1/a) (Balle, Barthe, Gaboardi 2018,
    Theorem 9; T7). That is the profile of the pair

        P* = (1-r) min(P, Q) + r P + (1-r) m,    Q* = (1-r) min(P, Q) + r Q + (1-r) m,

    where m is the mass 1 - int min(P, Q), put where it tells P* and Q* apart by nothing. For noise
    symmetric about c and unimodal, min(P, Q) is the two tails of the noise beyond c + D/2 and
    before c - D/2, each under its own law, and the noise between these points has mass m: so

        beyond c + D/2      P* = (1-r) noise(x) + r noise(x - D)   Q* = noise(x)
        before c - D/2      P* = noise(x)                          Q* = (1-r) noise(x) + r noise(x+D)
        between             P* = Q* = (1-r) noise(x)

    Args:
        declaration: symmetric unimodal additive noise whose sensitivity is the distance under
            replacement (twice a clipping norm), or a finite set whose pair is its own reversal.
        groups: "whole" for groups whose records are all in the subset, or none is.

    Returns:
        A declaration with one parameter more, `sampling_rate` in [0, 1], and without a default for
        the sensitivity: that of other samplers would be half the truth.

    Raises:
        UnsupportedError: any other mechanism.
    """  # noqa: E501 - a table
    added = rate(free_name(declaration, "sampling_rate")).parameter
    r = added.symbol
    if declaration.measure is Measure.FINITE:
        made, checked = _finite(declaration, r)
    else:
        made, checked = _additive(declaration, r)
    return replace(
        with_parameters(made, added),
        name=f"without_replacement({declaration.name})",
        about=f"{declaration.about} On a subset of fixed size.".strip(),
        claim=None,
        construction=Derived(
            declaration, WithoutReplacement(groups), "T7", Adjacency.REPLACE, (checked,), (
                f"the subset is a uniformly random share {r} of the records",
                *(("the records of a group are all in the subset, or none is",) if groups else ()),
            ),
        ),
    )  # fmt: skip


def _additive(declaration: Declaration, r: Symbol) -> tuple[Declaration, str]:
    """The pair of T7 for noise, by its three parts."""
    built = additive_noise(declaration, "without_replacement")
    noise = replace(declaration, p=built.noise, q=built.noise, construction=None)
    centre = centre_of(noise)
    if centre is None or not shape_of(noise).unimodal:
        raise UnsupportedError(
            f"without_replacement({declaration.name}): T7 needs a pair that dominates replacement "
            "in both orders, and the noise was not proved symmetric and unimodal; poisson() does "
            "not need that"
        )
    x, d = declaration.variable, built.sensitivity
    above, below = x - centre >= d / 2, x - centre < -d / 2
    if declaration.measure is Measure.LATTICE:  # the same integers, as 2 (x - centre) is one
        above, below = x - centre > (d - 1) / 2, x - centre <= -(d + 1) / 2
    p, up, down = built.noise, built.noise.subs(x, x - d), built.noise.subs(x, x + d)
    made = replace(
        declaration,
        parameters=tuple(
            replace(a, default=None) if a.symbol in d.free_symbols else a
            for a in declaration.parameters
        ),
        p=Piecewise(((1 - r) * p + r * up, above), (p, below), ((1 - r) * p, True)),
        q=Piecewise((p, above), ((1 - r) * p + r * down, below), ((1 - r) * p, True)),
    )
    return made, "the noise is symmetric and unimodal"


def _finite(declaration: Declaration, r: Symbol) -> tuple[Declaration, str]:
    """The pair of T7 for a finite set of outcomes, one of them added for the mass m."""
    rows = [(p, q) for _, p, q in declaration.atoms]
    if not pair_off(rows, lambda gap: gap.equals(0) is True):
        raise UnsupportedError(
            f"without_replacement({declaration.name}): T7 needs a pair that is its own reversal, "
            "and swapping P and Q changes these outcomes"
        )
    common = [Min(p, q) for p, q in rows]
    rest = 1 - Add(*common)
    mixed = [((1 - r) * m + r * p, (1 - r) * m + r * q)
             for m, (p, q) in zip(common, rows, strict=True)]  # fmt: skip
    both = (1 - r) * rest
    atoms = tuple((Add(i), p, q) for i, (p, q) in enumerate([*mixed, (both, both)]))
    return replace(declaration, atoms=atoms, support=(Add(0), Add(len(atoms) - 1))), (
        "the pair is its own reversal"
    )


PLACES = {
    Adjacency.REPLACE: "the record that replaces another takes its place in the order",
    Adjacency.ADD_REMOVE: "the place of a record that is absent stays empty: all others keep "
    "theirs, and the number of batches is fixed (where batches are filled up again a batch loses "
    "one record for another and the last one loses one: sqrt(5) times the norm)",
}


def shuffled(declaration: Declaration, adjacency: Adjacency | str) -> Declaration:
    """One pass over the data in disjoint batches, in any order, with one release a batch.

    Given the batches, one of them alone differs between neighbours, and its release is dominated by
    the pair; telling the batches reveals more, not less (T9). Nothing is won by the order.

    Raises:
        DeclarationError: an unknown adjacency.
    """
    adjacency = Adjacency.of(adjacency, sampling=True)
    return replace(
        declaration,
        name=f"shuffled({declaration.name})",
        about=f"{declaration.about} Once for every batch of a pass over the data.".strip(),
        claim=None,
        construction=Derived(declaration, Shuffled(adjacency), "T9", adjacency, (
            "told the batches, one of them alone differs between neighbours, in one record; no "
            "amplification by the order is counted",), (
            "every record is in one batch of the pass, and the order does not depend on the "
            "records", PLACES[adjacency])),
    )  # fmt: skip
