"""Certified delta of a composition through laws on a mesh above and below each step.

Weights are whole numbers; their products are exact, and rounded outward to WORD bits again. It is
for few steps, for atoms beside densities and for integers beside densities: the width is of
second order in the mesh, whatever the characteristic function does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_poly, ctx, fmpz, fmpz_poly

from mechc.errors import NumericError
from mechc.verify import contour
from mechc.verify.cells import Cells, cells_of
from mechc.verify.meshes import TOP, WORD, Law, Mesh, Weights, law_of

BITS = 72
AIM = 3e-7  # relative width
WIDTH, OF_INTEGERS = 0.2, 0.025  # relative width of one step over h^2 t (t + 1), about
COARSEST = 0.02
TRIES = 3
HEAVIEST = 50  # atoms that are put on the mesh
CELLS = 2.0  # in a step of the mesh
SATURATED = 24.0  # nats above epsilon at which the payoff of one step is one, nearly
FITTING = 1e-5  # share of a step by which a heavy atom may miss the mesh
SPARED = 46  # bits below the whole at which the ends of a sum are cut off
MAX_POINTS = 6_000_000  # of a product: about 2 GB
DEEP = 60.0  # nats beyond which payoffs are bounded together
NEAR = 4.0  # nats of the tilt within which the best event is sought


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
    width = OF_INTEGERS if all(law.oracle.measure == "lattice" for law in laws) else WIDTH
    h = min(math.sqrt(AIM / (width * sum(counts) * tilt * (tilt + 1.0))), COARSEST)
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
                value = composed_part(found, counts, arb(step), arb(epsilon), c)
            except NumericError:
                if best is None:
                    raise
                break
            best = value if best is None else best.intersection(value)
            if not value > 0:
                break
            width = float(value.rad() / value.mid()) * 2.0
            if width <= 3.0 * AIM:
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


class Sum(NamedTuple):
    """Weights of a composition from point `first` on, and a bound on the mass that they lack."""

    first: int
    weights: fmpz_poly
    lost: int


def composed_part(
    laws: Sequence[Law], counts: Sequence[int], step: Any, epsilon: Any, c: Any
) -> Any:
    """Ball around the part of delta at finite losses of laws on one mesh.

    Args:
        laws: weights of each distinct step, tilted by c.
        counts: of each.
        step: of the mesh, an exact ball.
        epsilon: exact ball.
        c: exact ball inside the strip.

    Raises:
        NumericError: too many points.
    """
    scale = sum((arb(law.scale) * n for law, n in zip(laws, counts, strict=True)), start=arb(0))
    lower, tested, upper = (_Points(laws, counts, side, step) for side in Law._fields[:3])
    low = _tested(lower, tested, epsilon, c, sum(counts))
    high = _payoff(upper, epsilon, c)
    front = (scale - c * epsilon).exp()
    low, high = ((front * end / arb(2) ** WORD) for end in (low, high))
    high += _left_out(laws, counts, epsilon, c) + _beyond(laws, counts)
    return low.lower().max(arb(0)).union(high.upper())


def _composed(rows: Sequence[Weights], counts: Sequence[int]) -> Sum:
    total: Sum | None = None
    for row, count in zip(rows, counts, strict=True):
        power = Sum(row.first, fmpz_poly(row.values), 0)
        while count:
            if count % 2:
                total = power if total is None else _product(total, power)
            count //= 2
            if count:
                power = _product(power, power)
    assert total is not None
    return total


def _product(a: Sum, b: Sum) -> Sum:
    """The sum of both, over 2^WORD: rounded down, ends of little weight cut off.

    Where the whole laws exceed a and b by masses of at most lost(a) and lost(b), their product
    exceeds a * b by at most lost(a) |b| + |a| lost(b) + lost(a) lost(b).

    Raises:
        NumericError: too many points.
    """
    if a.weights.length() + b.weights.length() > MAX_POINTS:
        raise NumericError(f"sums on a mesh would take more than {MAX_POINTS} points")
    of_a, of_b = a.weights(1), b.weights(1)
    values = [v >> WORD for v in (a.weights * b.weights).coeffs()]
    allowed = sum(values) >> SPARED
    low, below = _cut(values, allowed)
    high, above = _cut(values[::-1], allowed)
    kept = fmpz_poly(values[low : len(values) - high])
    lost = (a.lost * of_b + of_a * b.lost + a.lost * b.lost) >> WORD
    return Sum(a.first + b.first + low, kept, lost + 1 + len(values) + below + above)


def _cut(values: list[Any], allowed: Any) -> tuple[int, Any]:
    """How many weights from the start on add up to no more than `allowed`, and their sum."""
    total = 0
    for n, value in enumerate(values):
        if total + value > allowed:
            return n, total
        total += value
    return len(values), total


def _peak(c: Any) -> Any:
    """The largest payoff e^(-c g) (1 - e^(-g)) over g > 0."""
    return (c * c.log() - (1 + c) * (1 + c).log()).exp()


class _Points:
    """Weights of a composition on points start + n step, and a bound on what they lack."""

    def __init__(self, laws: Sequence[Law], counts: Sequence[int], side: str, step: Any) -> None:
        rows = [getattr(law, side) for law in laws]
        found = _composed(rows, counts)
        offset = sum((r.offset * n for r, n in zip(rows, counts, strict=True)), start=arb(0))
        self.offset, self.step, self.first, self.lost = offset, step, found.first, found.lost
        self.values = found.weights.coeffs()
        self.end = self.first + len(self.values)

    def place(self, loss: Any) -> int:
        """The point next to a loss, about."""
        return math.floor(float((loss - self.offset) / self.step))

    def gap(self, n: int, epsilon: Any) -> Any:
        """Point n above epsilon."""
        return self.offset + n * self.step - epsilon

    def between(self, start: int, end: int) -> list[Any]:
        """Weights of the points from start to end - 1."""
        a, b = (min(max(n - self.first, 0), len(self.values)) for n in (start, end))
        before = min(max(self.first - start, 0), end - start)
        found = [fmpz(0)] * before + self.values[a:b]
        return found + [fmpz(0)] * (end - start - len(found))

    def above(self, start: int, epsilon: Any, c: Any) -> Any:
        """A ball around the sum of weights times e^(-c gap) over the points from start on."""
        end = max(start, min(start + math.ceil(DEEP / float(c * self.step)), self.end))
        total = arb_poly(self.between(start, end))((-c * self.step).exp())
        total *= (-c * self.gap(start, epsilon)).exp()
        rest = sum(self.values[max(end - self.first, 0) :]) * (-c * self.gap(end, epsilon)).exp()
        return arb(total.lower()).union((total + rest).upper())


def _tested(p: _Points, q: _Points, epsilon: Any, c: Any, count: int) -> Any:
    """Lower bound on P(A) - e^eps Q(A) for the sums above a point, which any point gives."""
    near = p.place(epsilon)
    reach = 2 + min(count // 2, math.ceil(NEAR / float((c + 1) * p.step)))  # of the roundings
    start, end = near - reach, near + reach + 1
    gaps = float(p.step) * np.arange(end - start) + float(p.gap(start, epsilon))
    widest = 100.0 * NEAR / float(c + 1)
    gaps = np.clip(gaps, -widest, widest)
    of_p, of_q = (np.array([float(v) for v in one.between(start, end)]) for one in (p, q))
    gained = np.cumsum((of_q * np.exp(-gaps) - of_p) * np.exp(-float(c) * gaps))
    first = start + 1 + int(np.argmax(gained)) if np.max(gained) > 0.0 else start
    lost = q.lost * (-(c + 1) * q.gap(first, epsilon)).exp()
    return p.above(first, epsilon, c) - q.above(first, epsilon, c + 1) - lost


def _payoff(upper: _Points, epsilon: Any, c: Any) -> Any:
    """Sum of weights times e^(-c gap) (1 - e^(-gap)) over the points above epsilon."""
    start = upper.place(epsilon) - 1
    total = upper.lost * _peak(c)
    while upper.gap(start, epsilon) > 0:
        start -= 1
    while start < upper.end and not upper.gap(start, epsilon) > 0:
        most = (1 - (-upper.gap(start, epsilon)).exp()).max(arb(0))
        total += upper.between(start, start + 1)[0] * most
        start += 1
    return total + upper.above(start, epsilon, c) - upper.above(start, epsilon, c + 1)


def _left_out(laws: Sequence[Law], counts: Sequence[int], epsilon: Any, c: Any) -> Any:
    """Bound on what any step that was left out contributes."""
    whole, share = arb(1), arb(0)
    for law, count in zip(laws, counts, strict=True):
        whole *= law.moment**count
        share += count * law.left_out / law.moment
    return whole * share * _peak(c) * (-c * epsilon).exp()


def _beyond(laws: Sequence[Law], counts: Sequence[int]) -> Any:
    """Bound on the chance that some step is beyond."""
    rows = zip(laws, counts, strict=True)
    return -sum((n * (-law.beyond).log1p() for law, n in rows), start=arb(0)).expm1()
