"""Pools of outputs whose merged losses are mesh points: the lower grid law, compiled.

In: the masses of the half cells below and at-or-above every mesh point s, and their gaps P - e^s Q,
which say how far beyond s a half cell's loss is. Out: the masses that the mesh points end up with.
All moves are post-processing of the output: half cells are merged, and a share of a pool is sent
at random to a neighbour. With `own` the mass that stays in a pool, `before` and `after` what it
takes from the pools around it per mass of its own,

    own_i + before_(i+1) own_(i+1) + after_(i-1) own_(i-1) = mass_i :

a tridiagonal system, solved by elimination; a pool whose equation is not met to `noise` counts as
one that cannot give what is asked.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.compiled import compiled

Floats = NDArray[np.float64]

_ROUNDS = 40


@compiled()
def _pool(below, above, below_gap, above_gap, handed, step, mass, gap):  # type: ignore[no-untyped-def]
    """Masses and mean gaps of the pools when the `handed` lower halves go one point down.

    The first of the n + 1 pools is the point below the mesh. Seen from there a half cell's gap is
    P - e^(s-h) Q = P (1 - e^-h) + e^-h (P - e^s Q).
    """
    n = below.size
    rise, shrink = -math.expm1(-step), math.exp(-step)
    for i in range(n + 1):
        m = 0.0
        g = 0.0
        if i > 0:
            m, g = above[i - 1], above_gap[i - 1]
            if not handed[i - 1]:
                m += below[i - 1]
                g += below_gap[i - 1]
        if i < n and handed[i]:
            m += below[i]
            g += below[i] * rise + shrink * below_gap[i]
        mass[i] = m
        gap[i] = g / m if m > 0.0 else 0.0


@compiled()
def _share(gap, handed, rounded, step, noise, before, after):  # type: ignore[no-untyped-def]
    """Mass that each pool wants from the pool before or after it, per mass of its own."""
    n = gap.size - 1
    up, down = math.expm1(step), -math.expm1(-step)
    for i in range(n + 1):
        before[i] = 0.0
        after[i] = 0.0
        # the merged output of a neighbour, seen from this pool's point: 1 - e^(+-h) (1 - gap)
        if gap[i] > noise and i > 0 and not rounded[i]:
            neighbour = gap[i - 1] if abs(gap[i - 1]) > noise else 0.0
            before[i] = gap[i] / max(up - (1.0 + up) * neighbour, noise)
        elif gap[i] < -noise and i < n and not (i > 0 and handed[i - 1]):
            neighbour = gap[i + 1] if abs(gap[i + 1]) > noise else 0.0
            after[i] = -gap[i] / max(down + (1.0 - down) * neighbour, noise)


@compiled()
def _keep(mass, before, after, noise, own, pivot, bad):  # type: ignore[no-untyped-def]
    """Solve for `own`, mark the pools that cannot give what is asked; returns how many."""
    n = mass.size
    pivot[0] = 1.0
    own[0] = mass[0]
    for i in range(1, n):
        share = after[i - 1] / pivot[i - 1]
        pivot[i] = 1.0 - share * before[i]
        own[i] = mass[i] - share * own[i - 1]
    own[n - 1] /= pivot[n - 1]
    for i in range(n - 2, -1, -1):
        own[i] = (own[i] - before[i + 1] * own[i + 1]) / pivot[i]
    count = 0
    for i in range(n):
        total = own[i]
        total += before[i + 1] * own[i + 1] if i + 1 < n else 0.0
        total += after[i - 1] * own[i - 1] if i > 0 else 0.0
        bad[i] = not (own[i] >= 0.0 and abs(total - mass[i]) <= noise * mass[i])
        count += bad[i]
    return count


@compiled(
    "float64[::1](float64[::1], float64[::1], float64[::1], float64[::1], float64, float64)",
)
def balance(below, above, below_gap, above_gap, step, noise):  # type: ignore[no-untyped-def]
    """Move mass between neighbouring pools until every pool's merged loss is its mesh point.

    Where a pool cannot give what is asked, an asker that is beyond its point is rounded down
    instead, and one that is short hands its lower half down, after which it is beyond.

    Args:
        below: masses under P of the half cells below every point, shape (n,).
        above: the same at or above it.
        below_gap: gaps of the half cells below.
        above_gap: gaps of those above.
        step: the mesh.
        noise: relative error of the masses.

    Returns:
        The masses of n + 1 points; the first is the one below the mesh.
    """
    n = below.size
    mass, gap = np.empty(n + 1), np.empty(n + 1)
    before, after = np.empty(n + 1), np.empty(n + 1)
    own, pivot = np.empty(n + 1), np.empty(n + 1)
    bad = np.zeros(n + 1, np.bool_)
    handed, rounded = np.zeros(n, np.bool_), np.zeros(n + 1, np.bool_)
    handed[n - 1] = True  # there is nothing above it to ask
    for _ in range(_ROUNDS):
        _pool(below, above, below_gap, above_gap, handed, step, mass, gap)
        _share(gap, handed, rounded, step, noise, before, after)
        if _keep(mass, before, after, noise, own, pivot, bad) == 0:
            return own * (1.0 + before + after)
        for i in range(n + 1):
            if bad[i] and i < n and before[i + 1] > 0.0:
                rounded[i + 1] = True
            if bad[i] and i > 1 and after[i - 1] > 0.0:
                handed[i - 2] = True
    handed[:] = True
    _pool(below, above, below_gap, above_gap, handed, step, mass, gap)
    return mass
