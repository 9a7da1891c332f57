"""Atoms of a privacy loss: checks of those that a caller hands over, and their hockey stick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError
from mechc.loss.nodes import Nodes

Floats = NDArray[np.float64]

ROUNDING = 4e-16  # of a difference of losses, relative to both
MASS_TOLERANCE = 1e-9  # |sum of masses - 1| that is refused
ROUNDED = 4e-15  # the same, taken as rounding of the masses


def log_hockey_stick(
    loss: Floats, log_mass: Floats, epsilon: float, kind: str, mass_error: float
) -> tuple[Floats, Floats]:
    """Return logs of the atoms' terms of delta(epsilon), and of what rounding may add to them.

    Args:
        loss: the atoms' losses.
        log_mass: logs of their masses under P.
        epsilon: any real number.
        kind: what the losses are: rounded numbers of a "table", what a "formula" says, or
            differences of two logs of masses on a "lattice", however small they are.
        mass_error: relative error of the masses.
    """
    gap = loss - epsilon
    up = gap > 0
    terms = log_mass[up] + np.log(-np.expm1(-gap[up]))
    shaky = ROUNDING * (np.abs(loss) + abs(epsilon))
    if kind == "lattice":
        shaky += ROUNDING * (np.abs(log_mass) + np.abs(log_mass - loss))
    near = gap > -shaky if kind == "table" else up
    with np.errstate(divide="ignore"):
        noise = log_mass[near] - np.maximum(gap[near], 0.0) + np.log(shaky[near])
        return terms, np.concatenate([noise, terms + np.log(mass_error)])


def cell_masses(loss: Floats, log_mass: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the masses of atoms in the cells (edges[i], edges[i+1]] under P and Q."""
    p, q = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    cell = np.searchsorted(edges, loss, side="left") - 1
    keep = (cell >= 0) & (cell < p.size)
    np.add.at(p, cell[keep], np.exp(log_mass[keep]))
    np.add.at(q, cell[keep], np.exp(log_mass[keep] - loss[keep]))
    return p, q


def checked(
    losses: Sequence[float] | Floats,
    masses: Sequence[float] | Floats,
    infinite_mass: float,
    minus_infinite_mass: float,
) -> Nodes:
    """Return finite losses and their masses under P as nodes; a defect of the sums is their error.

    Raises:
        DeclarationError: a loss is not finite, a mass is negative, or masses do not sum to one.
    """
    loss, mass = np.asarray(losses, np.float64), np.asarray(masses, np.float64)
    if loss.shape != mass.shape or loss.ndim != 1 or not np.isfinite(loss).all():
        raise DeclarationError(f"losses={losses!r}: expected finite numbers, one per mass")
    p_mass = float(mass.sum()) + infinite_mass
    if not (mass >= 0).all() or not abs(p_mass - 1) < MASS_TOLERANCE:
        raise DeclarationError(
            f"masses sum to {p_mass!r} with infinite_mass={infinite_mass!r}"
            ": expected non-negative masses with sum 1"
        )
    q_mass = float((mass * np.exp(-loss)).sum()) + minus_infinite_mass
    if not abs(q_mass - 1) < MASS_TOLERANCE:
        raise DeclarationError(
            f"masses under Q sum to {q_mass!r} with minus_infinite_mass="
            f"{minus_infinite_mass!r}: expected sum 1"
        )
    defect = max(abs(p_mass - 1.0), abs(q_mass - 1.0))
    some = mass > 0
    return Nodes.of_atoms(loss[some], np.log(mass[some]), 2.0 * defect if defect > ROUNDED else 0.0)
