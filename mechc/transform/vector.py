"""Independent noise on every coordinate of a vector query: when the pair of one suffices."""

from __future__ import annotations

from dataclasses import replace

from mechc.adjacency import Adjacency
from mechc.declare import Declaration, Derived
from mechc.errors import DeclarationError, UnsupportedError
from mechc.transform.shifts import additive_noise

NORMS = ("l1", "l2")


def vector(declaration: Declaration, norm: str) -> Declaration:
    """The pair of one coordinate, claimed for a vector query of bounded norm.

    Args:
        declaration: additive noise; every coordinate gets its own.
        norm: in which the sensitivity bounds the move, "l1" or "l2".

    Returns:
        The same pair with the claim that T3 licenses for the norm.

    Raises:
        DeclarationError: an unknown norm.
        UnsupportedError: no theorem licenses the pair for this noise and norm.
    """
    from mechc.concavity import is_gaussian, is_log_concave
    from mechc.shape import centre_of

    if norm == "linf":
        raise UnsupportedError(
            f"vector({declaration.name}, 'linf'): the worst vector moves every coordinate by the "
            "sensitivity (T3), so compose as many steps of the scalar mechanism as there are "
            "coordinates: dimension * event"
        )
    if norm not in NORMS:
        raise DeclarationError(f"norm={norm!r} is not known (expected one of l1, l2, linf)")
    built = additive_noise(declaration, "vector")
    noise = replace(declaration, p=built.noise, q=built.noise, construction=None)
    if declaration.measure == "lattice":
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
        construction=Derived(declaration, ("vector", norm), "T3", Adjacency.ANY, (checked,), (
            f"every coordinate has independent noise and the move has {norm} norm at most "
            f"{built.sensitivity}",)),
    )  # fmt: skip
