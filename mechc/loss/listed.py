"""One step on integers without end: those that one epsilon needs, and what the others may hold.

Integers are listed until the ends of the list are nothing beside the whole mass, at the tilts
asked for. Beside the mass of losses above a large epsilon they may be something still.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.moments import log_total
from mechc.loss.resolution import LOG_NEGLIGIBLE

Floats = NDArray[np.float64]
End = tuple[float, float, float]

WIDENINGS = 12
FURTHER = 2.0  # factor from one tilt to the next


def above(source: KernelSource, epsilon: float, reverse: bool) -> tuple[Floats, Floats, float]:
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
