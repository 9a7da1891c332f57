"""A query that moves by a random distance, which the output does not tell."""

from __future__ import annotations

from dataclasses import replace

from sympy import Add, Expr

from mechc.declare import Declaration, Derived, Parameter
from mechc.errors import DeclarationError
from mechc.parameters import ParameterSymbol, numbers, parameter, probabilities
from mechc.transform.parameters import without_parameter
from mechc.transform.shifts import additive_noise, ratio_is_monotone


def random_sensitivity(declaration: Declaration, length: str) -> Declaration:
    """The query moves by sensitivities_i with probability weights_i.

    P = sum_i weights_i noise(x - sensitivities_i) against Q = noise(x). With log-concave noise a
    larger output speaks for every upward move, and all the more for a longer one, so that the set
    which separates P and Q best is a half line and longer moves only add to its mass under P (T8).

    Args:
        declaration: additive noise, log-concave.
        length: number of sensitivities, in digits.

    Returns:
        A declaration with the lists `sensitivities` (>= 0) and `weights` (summing to one) in place
        of the sensitivity.

    Raises:
        UnsupportedError: no additive noise, or it was not proved log-concave.
    """
    built = additive_noise(declaration, "random_sensitivity")
    checked = ratio_is_monotone(declaration, built)
    moves = _plain(numbers("sensitivities", int(length), 0.0, typical=(0.2, 2)))
    weights = _plain(probabilities("weights", int(length)))
    own = without_parameter(declaration, built.sensitivity, (built.noise,))
    return replace(
        declaration,
        name=f"random_sensitivity({declaration.name})",
        parameters=(*own, *(p for p, _ in (*moves, *weights))),
        p=_mixed(declaration, built.noise, [m for _, m in moves], [w for _, w in weights]),
        claim=None,
        construction=Derived(declaration, "T8", "add_remove", checked, (
            "the query moves up by at most sensitivities_i with probability weights_i, "
            "independently of the noise",)),
    )  # fmt: skip


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
        construction=Derived(declaration, None, "replace", (), (
            "the worst data sets are those in which all other records leave the query in the "
            "middle", "records are drawn independently and uniformly, with replacement")),
    )  # fmt: skip


def _plain(symbols: tuple[ParameterSymbol, ...]) -> list[tuple[Parameter, Expr]]:
    """Each parameter with its ordinary symbol."""
    return [(s.parameter, s.parameter.symbol) for s in symbols]


def _mixed(declaration: Declaration, noise: Expr, moves: list[Expr], weights: list[Expr]) -> Expr:
    x = declaration.variable
    return Add(*(w * noise.subs(x, x - m) for m, w in zip(moves, weights, strict=True)))
