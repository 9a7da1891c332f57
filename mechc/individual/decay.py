"""How far the tilted characteristic function of one step stays from one, on a whole half line.

With g = 1 - |phi|^2 and D the difference of two independent tilted losses, g(y) = 2 E sin^2(yD/2),
so sqrt g(y + d) >= sqrt g(y) - d spread by Minkowski's inequality: walking along y with steps that
keep sqrt g above a level proves the level. Far out the total variation of the tilted density takes
over, |phi(y)| <= (atoms) + TV(min(f, G)) / y + int (f - G)_+ for every level G. Both arguments are
those of `accountants.characteristic`; there they bound a composition, here one step at a time,
because every person composes the steps differently.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.compiled import compiled
from mechc.loss.measure import PrivacyLoss

Floats = NDArray[np.float64]

_LEVELS = 16
WALK = 100  # evaluations after which the walk gives up
_SAMPLED = 1.1  # slack on variation and excess, which are sampled at the nodes


def variation(loss: PrivacyLoss, c: float) -> Floats:
    """Tabulate the total-variation bound of a law tilted at c.

    Args:
        loss: the law, with nodes that cover c.
        c: the tilt.

    Returns:
        Rows (a, b): |phi(y)| <= a + b / y for each row, shape (levels, 2).
    """
    values, log_weight = loss.nodes()
    psi = log_weight + c * values
    w = np.exp(psi - psi.max())
    w /= w.sum()
    n = loss.loss.size
    atoms, w, spacing = float(w[n:].sum()), w[:n], loss.spacing
    table = np.empty((_LEVELS, 2))
    if n == 0:
        table[:] = (1.0, 0.0)
        return table
    f = np.where(spacing > 0, w / np.maximum(spacing, 1e-300), np.where(w > 0, 1e300, 0.0))
    typical = float(w @ np.minimum(f, 1e30)) / max(float(w.sum()), 1e-300)
    ends = np.flatnonzero(np.diff(loss.region)) + 1
    for row, level in enumerate(0.25 * typical * 2.0 ** np.arange(_LEVELS)):
        clipped = np.insert(np.minimum(f, level), ends, 0.0)
        total = np.abs(np.diff(clipped, prepend=0.0, append=0.0)).sum()
        excess = np.maximum(w - level * spacing, 0.0).sum()
        table[row] = atoms + _SAMPLED * excess, _SAMPLED * total
    return table


def enough(table: Floats) -> float:
    """Return the frequency beyond which total variation keeps |phi| well below one, inf if none.

    That is below 0.9, or half of what atoms leave if that is less.
    """
    room = np.maximum(0.9 - table[:, 0], 0.5 * (1.0 - table[:, 0]))
    good = room > 0
    return float(np.min(table[good, 1] / room[good])) if good.any() else math.inf


@compiled("float64(float64[:,::1], float64)", nogil=True)
def _far(table, y):  # type: ignore[no-untyped-def]
    best = 1.0
    for g in range(table.shape[0]):
        best = min(best, table[g, 0] + table[g, 1] / y)
    return best


@compiled(
    "float64(float64[::1], float64[::1], float64, float64, float64[:,::1], float64, float64)",
    nogil=True,
)
def log_sup(centred, weight, spread, slack, table, start, end):  # type: ignore[no-untyped-def]
    """Bound log sup |phi(y)| over y >= start for one step.

    Args:
        centred: losses minus their tilted mean.
        weight: their tilted weights.
        spread: standard deviation of the tilted loss.
        slack: error of g.
        table: from `variation`.
        start: left end.
        end: frequency up to which the nodes resolve phi.
    """
    y = start
    level = 1.0
    steps = 0
    while y < end:
        steps += 1
        if y > start and _far(table, y) ** 2 <= 1.0 - level * level:
            break
        a = 0.0
        b = 0.0
        for j in range(centred.size):
            s = math.sin(0.5 * y * centred[j])
            a -= 2.0 * weight[j] * s * s
            b += weight[j] * math.sin(y * centred[j])
        g = -(2.0 * a + a * a + b * b) - slack
        root = math.sqrt(g) if g > 0.0 else 0.0
        least = 0.05 * root / max(spread, 1e-300)  # a smaller step would gain a tenth at most
        if y == start or root - least * spread < level:
            level = min(level, root - least * spread)
        if not level > 0.0 or steps == WALK:
            return math.log(min(_far(table, start), 1.0))
        y += max(least, (root - level) / max(spread, 1e-300))
    walked = 0.5 * math.log1p(-min(level * level, 1.0 - 1e-16))
    walked = max(walked, math.log(min(_far(table, max(y, start)), 1.0)))
    return min(walked, math.log(min(_far(table, start), 1.0)))
