"""The same noise for another query: further, by random distances, in many coordinates, cut off.

The rules of `OfLength`, `Shift`, `Group`, `RandomSensitivity`, `WithReplacement`, `Vector` and
`Truncate`. All but the last need additive noise, of which the pair at another distance is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from sympy import Add, And, Basic, Expr, Integer, Piecewise, Symbol, binomial, oo

from mechc.adjacency import Adjacency
from mechc.calculus.noise_shape import centre_of, is_gaussian, is_log_concave
from mechc.declare.declaration import Declaration, Derived, Moves, Poisson, Shift
from mechc.declare.transforms import Group, RandomSensitivity, Truncate, Vector, WithReplacement
from mechc.errors import DeclarationError, UnsupportedError
from mechc.protocol import Measure
from mechc.symbolic.parameters import (
    Parameter,
    ParameterSymbol,
    count,
    parameter,
    positive,
    probabilities,
)


def of_length(declaration: Declaration, length: int) -> Declaration:
    """The declaration of the same mechanism for lists of another length."""
    if declaration.of_length is None:
        names = ", ".join(p.name for p in declaration.parameters)
        raise DeclarationError(
            f"{declaration.name}: no parameter is a list (the parameters are the numbers {names})"
        )
    return declaration.of_length(length)


def with_parameters(declaration: Declaration, *added: Parameter) -> Declaration:
    """The declaration with more parameters, after its own."""
    return replace(declaration, parameters=(*declaration.parameters, *added))


def without_parameter(
    declaration: Declaration, symbol: Expr, kept: Iterable[Expr]
) -> tuple[Parameter, ...]:
    """The parameters, less `symbol` if it is one that none of the `kept` expressions uses."""
    used: set[Symbol] = set().union(*(e.free_symbols for e in kept))
    return tuple(p for p in declaration.parameters if p.symbol != symbol or p.symbol in used)


def free_name(declaration: Declaration, wanted: str) -> str:
    """`wanted`, or with the first number that makes it new."""
    taken = {p.name for p in declaration.parameters} | {declaration.variable.name}
    names = [wanted, *(f"{wanted}_{i}" for i in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def shift(declaration: Declaration) -> Declaration:
    """The query moves `factor` times as far: noise(x - factor * sensitivity) against noise(x).

    Replacing a record moves a query up to twice as far as adding or removing one.

    Returns:
        A declaration with one parameter more, `factor` > 0.

    Raises:
        UnsupportedError: no additive noise, or noise on the integers.
    """
    built = additive_noise(declaration, "shift")
    if declaration.measure is Measure.LATTICE:
        raise UnsupportedError(
            f"{declaration.name}: on the integers the distance is the parameter sensitivity itself"
        )
    factor = positive(free_name(declaration, "factor"), typical=(0.5, 3)).parameter
    moved = _at_distance(declaration, built, factor.symbol, built.group)
    return replace(with_parameters(moved, factor), name=f"shift({declaration.name})")


def group(declaration: Declaration, size: int | None = None) -> Declaration:
    """Protect groups: neighbours differ by up to `group_size` records.

    Additive noise of sensitivity D moves by group_size * D (T1 applies to that distance). On a
    Poisson sample of rate r, k of m records are kept with binomial probabilities, so that
    P = sum_k Bin(m, r)(k) noise(x - k D) against Q = noise(x).

    Returns:
        A declaration with the parameter `group_size`, or for this group size.

    Raises:
        UnsupportedError: another mechanism: how often a record counts is then not known.
    """
    built = declaration.construction
    if isinstance(built, Poisson) and built.adjacency is Adjacency.ADD_REMOVE and size is not None:
        return _sampled_group(declaration, built, size)
    if size is not None:
        raise DeclarationError(f"{declaration.name}: size={size} is for Poisson samples alone")
    members = count(free_name(declaration, "group_size"), typical=(2, 5)).parameter
    noise = additive_noise(declaration, "group")
    size_of_all = members.symbol * (noise.group or Integer(1))
    moved = _at_distance(with_parameters(declaration, members), noise, members.symbol, size_of_all)
    return replace(moved, name=f"group({declaration.name})")


def additive_noise(declaration: Declaration, wanted_by: str) -> Shift:
    """How additive noise was declared; other pairs are refused."""
    if not isinstance(declaration.construction, Shift):
        raise UnsupportedError(
            f"{wanted_by}({declaration.name}): needs noise declared with additive(), so that the "
            "pair at another distance is known"
        )
    return declaration.construction


def _at_distance(
    declaration: Declaration, built: Shift, factor: Expr, group: Expr | None
) -> Declaration:
    """The pair of the same noise `factor` times as far; T1 is applied to it anew.

    What the author asserts of the noise, and for which neighbours, is asserted at that distance.
    """
    x, distance, claim = declaration.variable, factor * built.sensitivity, declaration.claim
    if claim is not None and group is not None:
        claim = replace(claim, group="*".join(filter(None, (claim.group, str(group)))))
    return replace(
        declaration,
        p=built.noise.subs(x, x - distance),
        claim=claim,
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
        construction=Moves(declaration, Group(size), (
            f"{noise.sensitivity} for each of {size} records that one data set has more than the "
            f"other and that enter the sample, each independently with probability {r}"),
            str(size)),
    )  # fmt: skip


def random_sensitivity(declaration: Declaration, length: int) -> Declaration:
    """The query moves by one of several sensitivities, each with a weight.

    P = sum_i weights_i noise(x - s_i) against Q = noise(x). With log-concave noise a larger output
    speaks for every upward move, and all the more for a longer one, so that the set which separates
    P and Q best is a half line and longer moves only add to its mass under P (T8). With other noise
    the pair is that of a query which moves by exactly these distances.

    The sensitivities are parametrised by what each adds to the one before, so that their order is
    known and the pair has one case, not one for each of the length! orders.

    Returns:
        A declaration with the parameters `sensitivities_1`, `sensitivities_2_above_1`, ... >= 0 and
        the list `weights` (summing to one) in place of the sensitivity.

    Raises:
        UnsupportedError: no additive noise.
    """
    built = additive_noise(declaration, "random_sensitivity")
    step, whole = RandomSensitivity(length), declaration.measure is Measure.LATTICE
    steps = _plain(tuple(_distance(name, whole) for name in step.rises))
    moves = list(accumulate(rise for _, rise in steps))
    weights = _plain(probabilities("weights", length))
    own = without_parameter(declaration, built.sensitivity, (built.noise,))
    idle = built.sensitivity.free_symbols & {p.symbol for p in own} - built.noise.free_symbols
    if idle:
        listed = ", ".join(sorted(map(str, idle)))
        raise UnsupportedError(
            f"random_sensitivity({declaration.name}): the moves replace {built.sensitivity}, so "
            f"that {listed} would do nothing; list the moves of the mechanism without that"
        )
    return replace(
        declaration,
        name=f"random_sensitivity({declaration.name})",
        parameters=(*own, *(p for p, _ in (*steps, *weights))),
        p=_mixed(declaration, built.noise, moves, [w for _, w in weights]),
        claim=None,
        construction=Moves(declaration, step, (
            "sensitivities_i with probability weights_i, independently of the noise")),
    )  # fmt: skip


def _distance(name: str, whole: bool) -> ParameterSymbol:
    typical = (1.0, 3.0) if whole else (0.2, 2.0)
    return parameter(name, 0.0, integer=whole, typical=typical)


def with_replacement(declaration: Declaration, length: int) -> Declaration:
    """Draw records with replacement: one record occurs i - 1 times with probability weights_i.

    P = sum_i weights_i noise(x - (i-1) D) against Q = sum_i weights_i noise(x + (i-1) D), for a
    record that is replaced by its opposite and is alone in moving the query (Koskela, Jälkö,
    Honkela 2020, section 6.3). What `weights` leave to 1 is the probability `lost` of more
    occurrences than are listed, which counts as revealing everything.

    Returns:
        A declaration with the list `weights` and the parameter `lost` more.

    Raises:
        UnsupportedError: no additive noise.
    """
    built = additive_noise(declaration, "with_replacement")
    if length < 1:
        raise DeclarationError(f"length={length}: expected at least one weight")
    weights = _plain(probabilities("weights", length))
    lost = parameter("lost", 0.0, 1.0, default=0.0, typical=(0.0, 0.0)).parameter
    moves = [i * built.sensitivity for i in range(length)]
    symbols = [w for _, w in weights]
    return replace(
        declaration,
        name=f"with_replacement({declaration.name})",
        parameters=(*declaration.parameters, *(p for p, _ in weights), lost),
        p=_mixed(declaration, built.noise, moves, symbols),
        q=_mixed(declaration, built.noise, [-m for m in moves], symbols),
        atoms=((Add(1), lost.symbol, Add(0)), (Add(-1), Add(0), lost.symbol)),
        claim=None,
        construction=Derived(
            declaration, WithReplacement(length), None, Adjacency.REPLACE, (), (
                "the worst data sets are those in which all other records leave the query in the "
                "middle", "records are drawn independently and uniformly, with replacement")),
    )  # fmt: skip


def _plain(symbols: tuple[ParameterSymbol, ...]) -> list[tuple[Parameter, Expr]]:
    """Each parameter with its ordinary symbol."""
    return [(s.parameter, s.parameter.symbol) for s in symbols]


def _mixed(declaration: Declaration, noise: Expr, moves: list[Expr], weights: list[Expr]) -> Expr:
    x = declaration.variable
    return Add(*(w * noise.subs(x, x - m) for m, w in zip(moves, weights, strict=True)))


def vector(declaration: Declaration, norm: str) -> Declaration:
    """The pair of one coordinate, claimed for a vector query of bounded norm.

    Returns:
        The same pair with the claim that T3 licenses for the norm.

    Raises:
        DeclarationError: an unknown norm.
        UnsupportedError: no theorem licenses the pair for this noise and norm.
    """
    if norm == "linf":
        raise UnsupportedError(
            f"vector({declaration.name}, 'linf'): the worst vector moves every coordinate by the "
            "sensitivity (T3), so compose as many steps of the scalar mechanism as there are "
            "coordinates: dimension * event"
        )
    built = additive_noise(declaration, "vector")
    noise = replace(declaration, p=built.noise, q=built.noise, construction=None)
    if declaration.measure is Measure.LATTICE:
        raise UnsupportedError(
            f"vector({declaration.name}, {norm!r}): T3 holds for densities, not on the integers: "
            "the discrete Gaussian with a move of (1, 1) reveals more than N(0, s^2) with a move "
            "of sqrt(2); compose scalar steps with the sensitivity of each coordinate"
        )
    if norm == "l2":
        if not is_gaussian(noise):
            raise UnsupportedError(
                f"vector({declaration.name}, 'l2'): only Gaussian noise is the same in all "
                "directions; other independent noise has no one-dimensional pair for an l2 norm. "
                "An l1 bound, or Gaussian noise, would license it (T3)"
            )
        checked = "Gaussian noise is isotropic"
    else:
        if not is_log_concave(noise) or centre_of(noise) is None:
            raise UnsupportedError(
                f"vector({declaration.name}, 'l1'): T3 needs symmetric log-concave noise, which "
                "was not proved: heavier tails reveal more of a move spread over coordinates "
                "(Cauchy noise, sensitivity 40, epsilon 0: .9859 along (20, 20), .9682 along "
                "(40, 0)); compose scalar steps with the sensitivity of each coordinate"
            )
        checked = "the noise is symmetric and log-concave, so a vertex of the l1 ball is the worst"
    return replace(
        declaration,
        name=f"vector({declaration.name}, {norm})",
        claim=None,
        construction=Derived(declaration, Vector(norm), "T3", Adjacency.ANY, (checked,), (
            f"every coordinate has independent noise and the move has {norm} norm at most "
            f"{built.sensitivity}",)),
    )  # fmt: skip


def truncate(declaration: Declaration) -> Declaration:
    """Count outputs outside (lower, upper) as revealing everything: mass at infinite loss.

    The mass of P outside is laid above `upper`, that of Q below `lower`, where the other law has
    none: folding the two back gives the original pair, so that this one dominates it (T9). Losses
    that are unbounded in the tails alone become bounded beside a small mass at infinity.

    Returns:
        A declaration with the parameters `lower` < 0 < `upper` more.

    Raises:
        UnsupportedError: masses on a lattice or a finite set, or point masses.
    """
    if declaration.measure is not Measure.DENSITY or declaration.atoms or declaration.reverse:
        raise UnsupportedError(
            f"truncate({declaration.name}): needs densities on the line, without point masses and "
            "without a pair of its own for the add direction"
        )
    low = parameter(free_name(declaration, "lower"), hi=0.0, hi_open=True, typical=(-30.0, -10.0))
    high = parameter(free_name(declaration, "upper"), lo=0.0, lo_open=True, typical=(10.0, 30.0))
    lower, upper = low.parameter.symbol, high.parameter.symbol
    x, (first, last) = declaration.variable, declaration.support
    # what is folded lies beyond the support perhaps, where the formulas say nothing
    p, q = (Piecewise((density, And(first <= x, x <= last)), (0, True))
            for density in (declaration.p, declaration.q))  # fmt: skip
    return replace(
        with_parameters(declaration, low.parameter, high.parameter),
        name=f"truncate({declaration.name})",
        p=_folded(p, x, lower, upper, x >= upper),
        q=_folded(q, x, lower, upper, x <= lower),
        support=(-oo, oo),
        claim=None,
        construction=Derived(declaration, Truncate(), "T9", Adjacency.ANY, (
            "post-processing gives the pair back",)),
    )  # fmt: skip


def _folded(density: Expr, x: Symbol, lower: Expr, upper: Expr, outside: Basic) -> Expr:
    """The density inside; the mass beyond both ends on the one side that is named."""
    folded = density + density.subs(x, lower + upper - x)
    return Piecewise((density, And(lower < x, x < upper)), (folded, outside), (0, True))
