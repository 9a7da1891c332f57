"""A query that moves by a random distance, which the output does not tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from sympy import Add, Expr

from mechc.adjacency import Adjacency
from mechc.declare import Declaration, Derived, Moves, Parameter
from mechc.errors import DeclarationError, UnsupportedError
from mechc.parameters import ParameterSymbol, parameter, probabilities
from mechc.transform.parameters import without_parameter
from mechc.transform.shifts import additive_noise


def random_sensitivity(declaration: Declaration, length: str) -> Declaration:
    """The query moves by one of several sensitivities, each with a weight.

    P = sum_i weights_i noise(x - s_i) against Q = noise(x). With log-concave noise a larger output
    speaks for every upward move, and all the more for a longer one, so that the set which separates
    P and Q best is a half line and longer moves only add to its mass under P (T8). With other noise
    the pair is that of a query which moves by exactly these distances.

    The sensitivities are parametrised by what each adds to the one before, so that their order is
    known and the pair has one case, not one for each of the length! orders.

    Args:
        declaration: additive noise.
        length: number of sensitivities, in digits.

    Returns:
        A declaration with the parameters `sensitivities_1`, `sensitivities_2_above_1`, ... >= 0 and
        the list `weights` (summing to one) in place of the sensitivity.

    Raises:
        UnsupportedError: no additive noise.
    """
    built = additive_noise(declaration, "random_sensitivity")
    steps = _plain(tuple(
        _distance(name, declaration.measure == "lattice") for name in rise_names(int(length))
    ))  # fmt: skip
    moves = list(accumulate(step for _, step in steps))
    weights = _plain(probabilities("weights", int(length)))
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
        construction=Moves(declaration, ("random_sensitivity", length), (
            "sensitivities_i with probability weights_i, independently of the noise")),
    )  # fmt: skip


def rise_names(length: int) -> list[str]:
    """Names of the parameters for increasing sensitivities: the first, then what is added to it."""
    return ["sensitivities_1", *(f"sensitivities_{i + 1}_above_{i}" for i in range(1, length))]


def _distance(name: str, whole: bool) -> ParameterSymbol:
    typical = (1.0, 3.0) if whole else (0.2, 2.0)
    return parameter(name, 0.0, integer=whole, typical=typical)


def with_replacement(declaration: Declaration, length: str) -> Declaration:
    """Draw records with replacement: one record occurs i - 1 times with probability weights_i.

    P = sum_i weights_i noise(x - (i-1) D) against Q = sum_i weights_i noise(x + (i-1) D), for a
    record that is replaced by its opposite and is alone in moving the query (Koskela, Jälkö,
    Honkela 2020, section 6.3). What `weights` leave to 1 is the probability `lost` of more
    occurrences than are listed, which counts as revealing everything.

    Args:
        declaration: additive noise.
        length: number of weights, in digits.

    Returns:
        A declaration with the list `weights` and the parameter `lost` more.

    Raises:
        UnsupportedError: no additive noise.
    """
    built = additive_noise(declaration, "with_replacement")
    if int(length) < 1:
        raise DeclarationError(f"length={length}: expected at least one weight")
    weights = _plain(probabilities("weights", int(length)))
    lost = parameter("lost", 0.0, 1.0, default=0.0, typical=(0.0, 0.0)).parameter
    moves = [i * built.sensitivity for i in range(int(length))]
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
            declaration, ("with_replacement", length), None, Adjacency.REPLACE, (), (
                "the worst data sets are those in which all other records leave the query in the "
                "middle", "records are drawn independently and uniformly, with replacement")),
    )  # fmt: skip


def _plain(symbols: tuple[ParameterSymbol, ...]) -> list[tuple[Parameter, Expr]]:
    """Each parameter with its ordinary symbol."""
    return [(s.parameter, s.parameter.symbol) for s in symbols]


def _mixed(declaration: Declaration, noise: Expr, moves: list[Expr], weights: list[Expr]) -> Expr:
    x = declaration.variable
    return Add(*(w * noise.subs(x, x - m) for m, w in zip(moves, weights, strict=True)))
