"""Atoms of a privacy loss: checks of those that a caller hands over, and their hockey stick.

Integers without end are listed until the ends of the list are nothing beside the whole mass, at the
tilts asked for. Beside the mass of losses above a large epsilon they may be something still.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError, NumericError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.moments import log_total
from mechc.loss.nodes import LossesFrom, Nodes
from mechc.loss.quadrature.resolution import LOG_NEGLIGIBLE
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]
End = tuple[float, float, float]

ROUNDING = 4e-16  # of a difference of losses, relative to both; of a table they are numbers that
TABLED = 1e-15  # were computed before, which costs more
LEAST = 8.0 * EPS  # of a sum of logs, however small it comes out
MASS_TOLERANCE = 1e-9  # |sum of masses - 1| that is refused
ROUNDED = 4e-15  # the same, taken as rounding of the masses
WIDENINGS = 12  # of a list of integers
FURTHER = 2.0  # factor from one tilt to the next


def log_hockey_stick(
    loss: Floats, log_mass: Floats, epsilon: float, kind: LossesFrom, mass_error: Floats
) -> tuple[Floats, Floats]:
    """Return logs of the atoms' terms of delta(epsilon), and of what rounding may add to them.

    Args:
        loss: the atoms' losses.
        log_mass: logs of their masses under P.
        epsilon: any real number.
        kind: where the losses come from.
        mass_error: relative errors of the masses, beside the rounding of their logs.
    """
    gap = loss - epsilon
    up = gap > 0
    terms = log_mass[up] + np.log(-np.expm1(-gap[up]))
    shaky = loss_rounding(loss, log_mass, kind)
    shaky += (TABLED if kind is LossesFrom.TABLE else ROUNDING) * abs(epsilon)
    near = up if kind is LossesFrom.FORMULA else gap > -shaky  # what formulas lose is counted apart
    with np.errstate(divide="ignore"):
        noise = log_mass[near] - np.maximum(gap[near], 0.0) + np.log(shaky[near])
        rounded = mass_error[up] + EPS * np.abs(log_mass[up])
        return terms, np.concatenate([noise, terms + np.log(rounded)])


def loss_rounding(loss: Floats, log_mass: Floats, kind: LossesFrom) -> Floats:
    """Return how far the digits of losses may be off, see `log_hockey_stick`."""
    rounded: Floats = (TABLED if kind is LossesFrom.TABLE else ROUNDING) * np.abs(loss)
    if kind is LossesFrom.LATTICE:
        rounded += LEAST + ROUNDING * (np.abs(log_mass) + np.abs(log_mass - loss))
    return rounded


def rounding(loss: Floats, log_mass: Floats) -> float:
    """Return the relative error of masses under Q, as the logs of those under P give them."""
    return EPS * float((np.abs(log_mass) + np.abs(loss)).max(initial=0.0))


def cell_masses(loss: Floats, log_mass: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the masses of atoms in the cells (edges[i], edges[i+1]] under P and Q."""
    p, q = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    cell = np.searchsorted(edges, loss, side="left") - 1
    keep = (cell >= 0) & (cell < p.size)
    np.add.at(p, cell[keep], np.exp(log_mass[keep]))
    np.add.at(q, cell[keep], np.exp(log_mass[keep] - loss[keep]))
    return p, q


def checked(
    losses: Floats,
    log_masses: Floats,
    log_infinite: float,
    log_minus_infinite: float,
    bound: bool = False,
) -> Nodes:
    """Return finite losses and their masses under P as nodes; a defect of the sums is their error.

    Args:
        losses: finite losses.
        log_masses: logs of their masses under P, -inf for none.
        log_infinite: log P(L = +inf).
        log_minus_infinite: log Q(p = 0).
        bound: they bound a law, and under Q may sum to anything.

    Raises:
        DeclarationError: a loss is not finite, or masses do not sum to one.
    """
    if losses.shape != log_masses.shape or losses.ndim != 1 or not np.isfinite(losses).all():
        raise DeclarationError(f"losses={losses!r}: expected finite numbers, one per mass")
    under = {
        "P": np.append(log_masses, log_infinite),
        "Q": np.append(log_masses - losses, log_minus_infinite),
    }
    if bound:
        del under["Q"]
    with np.errstate(over="ignore"):
        totals = {side: float(np.exp(logs).sum()) for side, logs in under.items()}
    for side, total in totals.items():
        if not abs(total - 1) < MASS_TOLERANCE:
            raise DeclarationError(
                f"masses under {side} sum to {total!r}, those at infinite loss among them"
                " (expected 1)"
            )
    defect = max(abs(total - 1.0) for total in totals.values())
    some = log_masses > -np.inf
    return Nodes.of_atoms(losses[some], log_masses[some], 2.0 * defect if defect > ROUNDED else 0.0)


def above_epsilon(
    source: KernelSource, epsilon: float, reverse: bool
) -> tuple[Floats, Floats, float]:
    """Return atoms and their log masses, and log of what others may add to delta(epsilon)."""
    left_out = -math.inf
    source = source.fork()  # what only one epsilon needs is a burden for others
    for _ in range(WIDENINGS):
        loss, log_mass, ends = source.listed()
        if reverse:
            loss, log_mass = -loss, log_mass - loss
        up = loss > epsilon
        found = log_total(log_mass[up] + np.log(-np.expm1(epsilon - loss[up])))
        left_out = _left_out(source, ends, epsilon, reverse)
        if left_out <= found + LOG_NEGLIGIBLE:
            left_out = -math.inf
            break
        try:
            source.nodes(*_further(source, reverse))
        except NumericError:
            break
    return loss, log_mass, left_out


def _further(source: KernelSource, reverse: bool) -> tuple[float, float]:
    """The next tilts to list integers for, inside the strip of convergence."""
    if reverse:
        low = source.tilts[0]
        return max(-1.0 - FURTHER * max(-1.0 - low, 0.5), 0.5 * (low + source.strip[0])), 0.0
    high = source.tilts[1]
    return -1.0, min(FURTHER * max(high, 0.5), 0.5 * (high + source.strip[1]))


def _left_out(source: KernelSource, ends: list[End], epsilon: float, reverse: bool) -> float:
    """Log of the mass left out where losses may exceed epsilon: the last, times their reach."""
    density = source.kernel.log_q_many if reverse else source.kernel.log_p_many
    rest = [-math.inf]
    for x, limit, reach in ends:
        at, mass, loss = np.array([x]), np.empty(1), np.empty(1)
        density(at, source.theta, mass)
        source.kernel.loss_many(at, source.theta, loss)
        highest = max(-loss[0], -limit) if reverse else max(loss[0], limit)
        if not highest <= epsilon:  # nan: not known
            rest.append(float(mass[0]) + math.log(reach))
    return max(rest)
