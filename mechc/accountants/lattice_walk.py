"""Few repetitions of steps on a lattice: their laws one after the other, by convolution.

All terms are positive and nothing cancels. With masses p_j on the points offset + j step,

    H(point k) = sum_(j > k) p_j (1 - exp(-(j - k) step)),
    B_k = sum_(j >= k) p_j exp(-(j - k) step)

follow from the top down, H(k - 1) = H(k) + (1 - exp(-step)) B_k, and between two points
H(point k - g) = H(k) + B_k (1 - exp(-g)), whose inverse is explicit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law
from mechc.accountants.trapezoid import ULP, Lattice, strayed
from mechc.loss.compiled import compiled
from mechc.loss.measure import Step

Floats = NDArray[np.float64]


WIDEST = 100_000  # points of one repetition
WORK = 2e8  # multiplications of a walk, some 0.1 s
LOST = 1e-12  # share of delta that points left out may carry
LEAST_TARGET = -500.0  # log of the smallest delta: nothing underflows


class Once(NamedTuple):
    """One repetition: masses on offset + step * (0, 1, ...), and what rounding leaves uncertain.

    Attributes:
        masses: shape (m,).
        offset, step: the lattice.
        relative: bound on the relative error of the masses.
        strayed: bound on how far losses are off the lattice.
    """

    masses: Floats
    offset: float
    step: float
    relative: float
    strayed: float


def once(steps: Sequence[Step], lattice: Lattice) -> Once | None:
    """Return the law of all steps together; None where it has too many points."""
    points = sum(s.count * (1.0 + float(np.ptp(s.loss.atom_loss)) / lattice.step) for s in steps)
    if not points < WIDEST:
        return None
    masses, offset, relative = np.ones(1), 0.0, 0.0
    for loss, count in steps:
        place = np.rint((loss.atom_loss - loss.atom_loss[0]) / lattice.step).astype(np.int64)
        one = np.zeros(place[-1] + 1)
        one[place] = np.exp(loss.atom_log_mass)
        log_size = float(np.abs(loss.atom_log_mass[one[place] > 0.0]).max())
        relative += count * (ULP * (one.size + 8.0 + log_size) + loss.tolerance)
        offset += count * float(loss.atom_loss[0])
        for _ in range(count):
            masses = np.convolve(masses, one)
    return Once(masses, offset, lattice.step, relative, strayed(Law.of(steps), 0.0, lattice)[1])


def epsilons(law: Once, counts: Floats, targets: Floats) -> Floats:
    """Return lower bound, estimate and upper bound of epsilon at each count.

    Args:
        law: one repetition.
        counts: repetitions, increasing, all >= 1.
        targets: log of the finite part of delta to stay under, and to exceed, shape (2, n).

    Returns:
        Shape (3, n), nan from the count on where the walk has become too long.
    """
    out = np.full((3, counts.size), np.nan)
    if targets.min() > LEAST_TARGET:
        facts = np.array([law.offset, law.step, law.relative, law.strayed])
        _walk(law.masses, facts, counts, np.exp(targets), out)
    return out


@compiled("float64(float64[::1], float64, float64, float64)")
def root(masses, lowest, step, target):  # type: ignore[no-untyped-def]
    """Return where H comes down to the target, for the points lowest + j step; nan below them all.

    `target` is positive.
    """
    decay, rise = math.exp(-step), -math.expm1(-step)
    h, b = 0.0, 0.0
    for k in range(masses.size - 1, -1, -1):
        b = masses[k] + decay * b
        if h + rise * b >= target or k == 0:
            share = (target - h) / b
            return lowest + k * step + math.log1p(-share) if share < 1.0 else np.nan
        h += rise * b
    return np.nan


@compiled("Tuple((int64, int64, float64))(float64[::1], float64)")
def _ends(masses, spare):  # type: ignore[no-untyped-def]
    """Return the range of points left when the ends give up `spare` at most, and what they gave."""
    first, last, lost = 0, masses.size, 0.0
    while lost + masses[first] <= 0.5 * spare:
        lost += masses[first]
        first += 1
    while lost + masses[last - 1] <= spare:
        lost += masses[last - 1]
        last -= 1
    return first, last, lost


@compiled("void(float64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,::1])")
def _walk(once, facts, counts, targets, out):  # type: ignore[no-untyped-def]
    """Fill `out`; see `epsilons`. The targets are masses here."""
    offset, step, relative, stray = facts
    turns = int(counts[-1])
    spare = LOST * targets[0].min() / turns  # of every turn
    first, last, cut = _ends(once, 0.5 * spare)
    once, offset = once[first:last].copy(), offset + first * step
    law, place, lost, work = np.ones(1), 0, 0.0, 0.0  # place: of the first point, in steps
    i = 0
    for n in range(1, turns + 1):
        work += float(law.size) * once.size
        if work > WORK:
            return
        new = np.zeros(law.size + once.size - 1)
        for j in range(once.size):
            mass = once[j]
            if mass > 0.0:
                for k in range(law.size):
                    new[j + k] += mass * law[k]
        first, last, left_out = _ends(new, 0.5 * spare)
        lost += cut + left_out
        law, place = new[first:last].copy(), place + first
        if n < counts[i]:
            continue
        error = n * relative + ULP * (8.0 * n + 4.0 * law.size)
        lowest = n * offset + place * step
        apart = n * stray + 8.0 * ULP * (n * abs(offset) + (place + law.size) * step)
        middle = root(law, lowest, step, targets[0, i])
        above = root(law, lowest, step, (targets[0, i] - lost) * (1.0 - error))
        below = root(law, lowest, step, targets[1, i] * (1.0 + error))
        if math.isfinite(above):
            out[0, i] = max(0.0, below - apart) if math.isfinite(below) else 0.0
            out[1, i] = max(0.0, middle) if math.isfinite(middle) else 0.0
            out[2, i] = max(0.0, above + apart)
        i += 1
