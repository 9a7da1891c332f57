"""Certified delta of a composition through laws on a mesh above and below each step.

Weights are whole numbers; their products are exact, and rounded outward to WORD bits again. It is
for few steps, for atoms beside densities and for integers beside densities: the width is of
second order in the mesh, whatever the characteristic function does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, ctx, fmpz_poly

from mechc.errors import NumericError
from mechc.verify import contour
from mechc.verify.cells import Cells, cells_of
from mechc.verify.meshes import TOP, WORD, Law, Mesh, Weights, law_of

BITS = 72
AIM = 3e-7  # relative width
WIDTH = 0.2  # relative width of one step over h^2 t (t + 1), about
COARSEST = 0.02
TRIES = 3
HEAVIEST = 50  # atoms that are put on the mesh
CELLS = 2.0  # in a step of the mesh
SATURATED = 24.0  # nats above epsilon at which the payoff of one step is one, nearly
FITTING = 1e-5  # share of a step by which a heavy atom may miss the mesh
DEEP = 60.0  # nats beyond which payoffs are bounded together


def finite_part(
    laws: Sequence[contour.Law], epsilon: float, tilt: float
) -> tuple[Any, dict[str, Any]]:
    """Return a ball around the part of delta at finite losses, and how it was found.

    Args:
        laws: distinct steps with counts.
        epsilon: any real number.
        tilt: inside the strip; best near the saddle point.

    Raises:
        NumericError: meshes or panels are too many.
    """
    counts = [law.count for law in laws]
    h = min(math.sqrt(AIM / (WIDTH * sum(counts) * tilt * (tilt + 1.0))), COARSEST)
    best: Any = None
    cap = max(epsilon, 0.0) + SATURATED
    with ctx.workprec(BITS):
        c = arb(tilt)
        for _ in range(TRIES):
            try:
                cells = [cells_of(law.oracle, c, h / CELLS, cap) for law in laws]
                step, offsets = _mesh(cells, h, tilt)
                found = [
                    law_of(one, Mesh(step, offset), c)
                    for one, offset in zip(cells, offsets, strict=True)
                ]
                value = _delta(found, counts, step, arb(epsilon), c)
            except NumericError:
                if best is None:
                    raise
                break
            best = value if best is None else best.intersection(value)
            if not value > 0:
                break
            width = float(value.rad() / value.mid()) * 2.0
            if width <= 1.5 * AIM:
                break
            h *= max(0.8 * math.sqrt(AIM / width), 0.2)
    return best, {"route": "meshes", "step": step, "points": len(found[0].upper.values)}


def _mesh(cells: Sequence[Cells], h: float, tilt: float) -> tuple[float, list[float]]:
    """A step of at most h, and an offset for each law, such that heavy atoms fall on points."""
    atoms = [_atoms(one, tilt) for one in cells]
    gaps = [(loss - rows[0][0], mass) for rows in atoms for loss, mass in rows[1:]]
    gaps = [(gap, mass) for gap, mass in gaps if abs(gap) > 0.0]
    if not gaps:
        return h, [_offset(*both, h) for both in zip(cells, atoms, strict=True)]
    widest = abs(gaps[0][0])
    fewest = math.ceil(widest / h)
    n = np.arange(fewest, 1.3 * fewest + 20.0)
    misfit = np.zeros(n.size)
    for gap, mass in gaps:
        share = gap * n / widest
        misfit += mass * np.abs(share - np.round(share))
    step = widest / float(n[np.argmax(misfit <= np.min(misfit) + FITTING)])
    return step, [_offset(*both, step) for both in zip(cells, atoms, strict=True)]


def _offset(cells: Cells, atoms: list[tuple[float, float]], step: float) -> float:
    """The heaviest atom, or a little below the largest loss, where densities may have poles."""
    if atoms:
        return atoms[0][0]
    return max(float(np.max(b.low + b.high)) for b in cells.blocks) / 2.0 - TOP * step


def _atoms(cells: Cells, tilt: float) -> list[tuple[float, float]]:
    """(loss, tilted mass) of atoms, heaviest first."""
    atoms = [b for b in cells.blocks if b.is_atom and not b.is_capped]
    losses = [float(b.low[0] + b.high[0]) / 2.0 for b in atoms]
    logs = [float(b.scale_p.mid()) + tilt * v for b, v in zip(atoms, losses, strict=True)]
    top = max(logs, default=0.0)
    rows = [(loss, math.exp(log - top)) for loss, log in zip(losses, logs, strict=True)]
    return sorted(rows, key=lambda row: -row[1])[:HEAVIEST]


def _delta(laws: Sequence[Law], counts: Sequence[int], step: float, epsilon: Any, c: Any) -> Any:
    scale = sum((arb(law.scale) * n for law, n in zip(laws, counts, strict=True)), start=arb(0))
    ends = []
    for side, grown in (("lower", 0), ("upper", 1)):
        rows = [getattr(law, side) for law in laws]
        first = sum(r.first * n for r, n in zip(rows, counts, strict=True))
        offset = sum((r.offset * n for r, n in zip(rows, counts, strict=True)), start=arb(0))
        weights = _composed(rows, counts, grown)
        ends.append(_payoff(weights, offset + first * arb(step), step, epsilon, c, grown))
    front = (scale - c * epsilon).exp()
    low, high = ((front * end / arb(2) ** WORD) for end in ends)
    high += _left_out(laws, counts, epsilon, c) + _beyond(laws, counts)
    return low.lower().max(arb(0)).union(high.upper())


def _composed(rows: Sequence[Weights], counts: Sequence[int], grown: int) -> Any:
    total = None
    for row, count in zip(rows, counts, strict=True):
        power = fmpz_poly(row.values)
        while count:
            if count % 2:
                total = power if total is None else _rounded(total * power, grown)
            count //= 2
            if count:
                power = _rounded(power * power, grown)
    return total


def _rounded(product: Any, grown: int) -> Any:
    """The product over 2^WORD, rounded down or up."""
    more = (1 << WORD) - 1 if grown else 0
    return fmpz_poly([(v + more) >> WORD for v in product.coeffs()])


def _payoff(weights: Any, start: Any, step: float, epsilon: Any, c: Any, grown: int) -> Any:
    """Sum of weights times e^(-c(s - eps)) (1 - e^(eps - s)) over the points s > eps."""
    h, values = arb(step), weights.coeffs()
    begin = max(math.floor(float((epsilon - start) / h)) - 1, 0)
    end = min(begin + math.ceil(DEEP / (float(c) * step)), len(values))
    total = arb(0)
    for n in range(begin, end):
        gap = start + n * h - epsilon
        if not gap > 0:
            total += grown * values[n] * (1 - (-gap).exp()).max(arb(0))
            continue
        total += values[n] * ((-c * gap).exp() - (-(c + 1) * gap).exp())
    if grown and end < len(values):
        total += sum(values[end:]) * (-c * (start + end * h - epsilon)).exp()
    return total


def _left_out(laws: Sequence[Law], counts: Sequence[int], epsilon: Any, c: Any) -> Any:
    """Bound on what any step that was left out contributes."""
    whole, share = arb(1), arb(0)
    for law, count in zip(laws, counts, strict=True):
        whole *= law.moment**count
        share += count * law.left_out / law.moment
    peak = (c * c.log() - (1 + c) * (1 + c).log()).exp()
    return whole * share * peak * (-c * epsilon).exp()


def _beyond(laws: Sequence[Law], counts: Sequence[int]) -> Any:
    """Bound on the chance that some step is beyond."""
    rows = zip(laws, counts, strict=True)
    return -sum((n * (-law.beyond).log1p() for law, n in rows), start=arb(0)).expm1()
