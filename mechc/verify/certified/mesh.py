"""Certified delta of a composition through laws on a mesh above and below each step.

It is for few steps, for atoms beside densities and for integers beside densities: the width is of
second order in the mesh, whatever the characteristic function does.

Outputs are cut into small cells (`cells_of`). A panel on which log p and log q are proved analytic
is cut into equal ones; masses and losses at their ends come from Chebyshev interpolants with proved
errors (mechc.verify.balls.chebyshev). Inside a cell the loss stays within half the square of its
width times its second derivative of its ends. Outputs that matter little are left out; what they
weigh, E_P[exp(cL); left out], is bounded.

Cells become laws on a mesh (`law_of`). A payoff f(L) = E(1 - e^(eps - L - rest))_+ is convex in
e^(-L). So it grows if the mass of a cell is spread, with the mean of e^(-L) kept, to the ends of
the cell and from there to the mesh (Doroshenko et al. 2022). For the law below each cell counts at
the mesh point next to it. A sum of points is a function of the outputs, and delta >= P(A) - e^eps
Q(A) for every event A: it is enough to compose the masses of the points under P and under Q, and A
is where the sum exceeds eps. As A is nearly the best event, what is lost is of second order in the
mesh.

Weights are tilted: under P times exp(c s - scale), under Q times exp((c + 1) s - scale), nearly the
same. Those above, and those under Q, are never too small, those under P below never too large,
rounding included. They are whole numbers; their products are exact, and rounded outward to WORD
bits again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, arb_poly, ctx, fmpz, fmpz_poly

from mechc.errors import NumericError, UnsupportedError
from mechc.numeric.rounding import SQUARABLE, U
from mechc.protocol import Floats, Measure
from mechc.verify.balls import chebyshev
from mechc.verify.balls.boxes import Boxes
from mechc.verify.balls.oracle import Oracle
from mechc.verify.certified import contour

MAX_PANELS = 6000  # of one piece
MOST_LAWS = 16  # distinct steps
MAX_POINTS = 20_000  # atoms of one law that matter, on either side of zero
NEGLIGIBLE = 1e-14  # share of the tilted mass that is left out
PRECISE = 1e-11  # relative error of masses asked for
CERTAIN = 38  # bits to which the width of a panel is known
MESH_MOVED = 1e-13  # by which meshes above and below are moved, so that atoms on them stay on them
MOST_OF_LAW = 2**21  # points of one law on the mesh
TOP = 0.55  # steps from the last point to the largest loss, so that what is around it lies above
WORD = 62  # bits of weights
BITS = 72  # of the masses of cells
AIM = 3e-7  # relative width
WIDTH, OF_INTEGERS = 0.2, 0.025  # relative width of one step over h^2 t (t + 1), about
COARSEST = 0.02  # mesh, in nats
TRIES = 3  # meshes, each finer than the last
HEAVIEST = 50  # atoms that are put on the mesh
CELLS = 2.0  # in a step of the mesh
FITTING = 1e-5  # share of a step by which a heavy atom may miss the mesh
SPARED = 46  # bits below the whole at which the ends of a sum are cut off
MOST_OF_SUM = 6_000_000  # points of a product: about 2 GB
DEEP = 60.0  # nats beyond which payoffs are bounded together


class Block(NamedTuple):
    """Cells with comparable masses.

    Attributes:
        scale_p, scale_q: balls; masses are those below times exp of them.
        p, q: masses under P and Q up to the relative `error`.
        low, high: between which the loss lies in each cell.
        error: see above.
    """

    scale_p: Any
    scale_q: Any
    p: Floats
    q: Floats
    low: Floats
    high: Floats
    error: float


class Cells(NamedTuple):
    """All that has a finite loss: blocks, and a bound on the tilted mass of what is in none."""

    blocks: list[Block]
    left_out: Any


def cells_of(oracle: Oracle, c: Any, widest: float) -> Cells:
    """Cut the outputs of a pair into cells on which the loss varies by at most `widest`."""
    total = oracle.moment_bound(c)
    negligible = total * NEGLIGIBLE
    rows, left_out, densities = oracle.losses(1 + c, -c, negligible, MAX_POINTS)
    blocks, left_out = [], left_out.upper()
    for number in densities:
        found, rest = _cut(oracle.parts()[number], c, widest, negligible)
        blocks += found
        left_out += rest
    for loss, mass in rows:
        tilted = (mass * (c * loss).exp()).upper()
        if tilted < negligible:
            left_out += tilted
        else:
            blocks.append(_atom(mass.log(), loss))
    if not blocks:
        raise NumericError(f"no mass counts at a tilt of {float(c.mid()):.3g}")
    return Cells(blocks, left_out.upper())


def _atom(log_p: Any, loss: Any) -> Block:
    one = np.ones(1)
    low, high = (math.nextafter(float(e), s * math.inf)
                 for e, s in ((loss.lower(), -1), (loss.upper(), 1)))  # fmt: skip
    return Block(log_p, log_p - loss, one, one, np.array([low]), np.array([high]), 0.0)


def _cut(part: Any, c: Any, widest: float, negligible: Any) -> tuple[list[Block], Any]:
    """Blocks of a piece with densities, and a bound on the tilted mass of what is in none."""
    blocks = []
    lo, hi, left_out = part.within(acb(1 + c), acb(-c), part.lo, part.hi)
    if not lo < hi:
        raise NumericError(f"nothing between {lo.str(5)} and {hi.str(5)}")
    log_p, loss = part.exponent(acb(1), acb(0)), part.exponent(acb(1), acb(-1))
    middle = arb(0) if lo < 0 and hi > 0 else ((lo + hi) / 2).mid()
    todo = Boxes([(lo, middle), (middle, hi)], MAX_PANELS, "panels")
    for left, right in todo:
        box = left.union(right)
        height = log_p(box, False).real + c * part.loss_on(box)
        most = (height.exp() * (right - left)).upper()
        if most < negligible:
            left_out += most
        elif (block := _block(log_p, loss, left, right, widest)) is not None:
            blocks.append(block)
        else:
            todo.halve(left, right)
    return blocks, left_out


def _block(log_p: Any, loss: Any, left: Any, right: Any, widest: float) -> Block | None:
    """The cells of a panel, None where it is too wide."""
    ends = [loss(acb(v), False).real for v in (left, right)]
    centre, half = (left + right) / 2, (right - left) / 2
    narrow = abs(ends[1] - ends[0]) < widest * chebyshev.CUTS[-1]
    if not narrow or half.rel_accuracy_bits() < CERTAIN:
        return None
    base_p, base_l = (f(acb(centre), False).real.mid() for f in (log_p, loss))
    tops = [arb.neg_inf(), arb.neg_inf(), arb(0)]  # of log p, log q and |loss| on the ellipse
    for unit in chebyshev.cover(ctx.prec):
        box = unit * half.upper() + centre.mid()
        high, bend = log_p(box, True) - base_p, loss(box, True) - base_l
        if not (high.is_finite() and bend.is_finite()):
            return None
        here = high.real.upper(), (high - bend).real.upper(), abs(bend).upper()
        tops = [top.max(h) for top, h in zip(tops, here, strict=True)]
    sizes = (tops[0].exp(), tops[1].exp(), tops[2])
    errors = [float((s * chebyshev.error_factor()).upper()) for s in sizes]
    if not max(errors[:2]) < PRECISE:
        return None
    xs = [acb(centre + half * u) for u in chebyshev.points(ctx.prec)]
    losses = [loss(x, False).real - base_l for x in xs]
    logs = [log_p(x, False).real - base_p for x in xs]
    for cells in chebyshev.CUTS:
        low, high = _range(losses, cells, errors[2], float(base_l))
        if np.max(high - low) <= widest:
            break
    else:
        return None
    p = _masses([v.exp() for v in logs], cells, errors[0])
    q = _masses([(v - w).exp() for v, w in zip(logs, losses, strict=True)], cells, errors[1])
    if p is None or q is None:
        return None
    scale = base_p + (2 * half / cells).log()
    return Block(scale, scale - base_l, p[0], q[0], low, high, max(p[1], q[1]))


def _range(losses: list[Any], cells: int, error: float, base: float) -> tuple[Floats, Floats]:
    """Between which the loss lies in each cell, from its balls at the points, less `base`."""
    rough = np.array([float(v.mid()) for v in losses])
    at_ends, rounding = chebyshev.apply(chebyshev.rule(cells).ends, rough)
    radius = max(float(v.rad()) for v in losses)
    slack = 2.0 * (float(np.max(rounding)) + error + 4.0 * radius)
    slack += chebyshev.bend(rough) * (2.0 / cells) ** 2 / 8.0
    slack += 4.0 * U * (abs(base) + float(np.max(np.abs(at_ends))))
    first, second = at_ends[:-1] + base, at_ends[1:] + base
    return np.minimum(first, second) - slack, np.maximum(first, second) + slack


def _masses(values: list[Any], cells: int, error: float) -> tuple[Floats, float] | None:
    """Means over cells, and their relative error; None where that is too large."""
    rough = np.array([float(v.mid()) for v in values])
    radius = max(float(v.rad()) for v in values)
    if not np.all(np.isfinite(rough)) or np.max(rough) > SQUARABLE:
        return None
    means, rounding = chebyshev.apply(chebyshev.rule(cells).means, rough)
    if not np.min(means) > 0.0:
        return None
    # rows of the matrix add up to less than four in size
    relative = float(np.max((rounding + error + 8.0 * radius) / means)) * 1.001
    return (means, relative) if relative < PRECISE else None


class Weights(NamedTuple):
    """A law on offset + (first + n) step: integers, tilted and times 2^WORD exp(-scale).

    Attributes:
        lost: bound on the weight that it lacks.
    """

    first: int
    offset: Any
    step: Any
    values: fmpz_poly
    lost: Any = 0

    def gap(self, n: int, epsilon: Any) -> Any:
        """Point n above epsilon."""
        return self.offset + n * self.step - epsilon

    def above(self, start: int, epsilon: Any, c: Any) -> Any:
        """A ball around the sum of weights times e^(-c gap) over the points from start on."""
        last = self.first + self.values.length()
        end = max(start, min(start + math.ceil(DEEP / float(c * self.step)), last))
        some, others = ([self.values[n - self.first] for n in range(*ends)]
                        for ends in ((start, end), (end, last)))  # fmt: skip
        total = arb_poly(some)((-c * self.step).exp()) * (-c * self.gap(start, epsilon)).exp()
        rest = sum(others) * (-c * self.gap(end, epsilon)).exp()
        return arb(total.lower()).union((total + rest).upper())


class Law(NamedTuple):
    """Laws below and above one step, and a bound on the tilted mass that is in neither.

    Attributes:
        lower: weights under P, never too large, of outputs told apart by their points.
        tested: weights under Q of the same, never too small.
        upper: weights under P of a law above.
        scale: log of what tilted weights are divided by.
        left_out: bound on the tilted mass that is in neither.
        moment: bound on the whole tilted mass.
    """

    lower: Weights
    tested: Weights
    upper: Weights
    scale: float
    left_out: Any
    moment: Any


def law_of(cells: Cells, step: float, offset: float, c: Any) -> Law:
    """Put the cells of one step on the mesh offset + n step, exact numbers, under a tilt c."""
    blocks = cells.blocks
    low = float(np.min(np.concatenate([b.low for b in blocks])))
    high = float(np.max(np.concatenate([b.high for b in blocks])))
    if not (high - low) / step < MOST_OF_LAW:
        raise NumericError(f"more than {MOST_OF_LAW} points of the mesh")
    tilted = [b.scale_p + c * (b.scale_p - b.scale_q) for b in blocks]
    weights = [math.log(np.sum(b.p * (b.p / b.q) ** float(c))) for b in blocks]
    logs = np.array([float(t.mid()) for t in tilted]) + weights
    scale = float(np.max(logs) + np.log(np.sum(np.exp(logs - np.max(logs)))))
    apart = MESH_MOVED * (1.0 + max(abs(low), abs(high)))
    lower, tested = _Placed(blocks, step, offset - apart, c, scale).below()
    upper = _Placed(blocks, step, offset + apart, c, scale).above()
    moment = (arb(scale).exp() * upper.values(1) / 2**WORD).upper() + cells.left_out
    return Law(lower, tested, upper, scale, cells.left_out, moment)


class _Placed:
    """All blocks on one mesh: for each its first point, and three columns for its points.

    They are the points, e^s times the scale of q over that of p, and what masses under P are
    multiplied by.
    """

    def __init__(
        self, blocks: list[Block], step: float, offset: float, c: Any, scale: float
    ) -> None:
        self.blocks, self.step, self.offset, h = blocks, step, arb(offset), arb(step)
        self.fall = float(1 - (-h).exp()) * (1.0 - 4.0 * U)  # 1 - e^-h, not too large
        self.error, unsure = max(b.error for b in blocks), 0.0
        self.frames: list[tuple[int, Floats]] = []
        for b in blocks:
            first = math.floor((float(np.min(b.low)) - offset) / step) - 2
            last = math.ceil((float(np.max(b.high)) - offset) / step) + 2
            points = [self.offset + n * h for n in range(first, last + 1)]
            logs = [(s + b.scale_q - b.scale_p, b.scale_p - scale + c * s) for s in points]
            unsure = max(unsure, *(float(v.rad()) for row in logs for v in row))
            rows = [[s, *(v.exp() for v in row)] for s, row in zip(points, logs, strict=True)]
            self.frames.append((first, np.array([list(map(float, row)) for row in rows]).T))
        if not unsure < PRECISE:
            raise NumericError("masses are not known to enough digits")
        self.error += 1.001 * unsure  # what is lost where balls become doubles
        self.first = min(first for first, _ in self.frames)
        self.size = max(first + frame.shape[1] for first, frame in self.frames) - self.first

    def _weights(self, values: Floats, side: float, most: int, within: Floats) -> Weights:
        """Whole numbers, rounded down for side -1 and up for 1, where other values are positive."""
        # The values are sums of at most `most` weights each.
        slack = self.error * 1.01 + 2.0 * U * (most + len(self.blocks) + 64)  # all factors included
        scaled = np.ldexp(values * (1.0 + side * slack), WORD)
        whole = np.floor(scaled) if side < 0.0 else np.ceil(np.nextafter(scaled, np.inf))
        kept = np.flatnonzero(within > 0.0)
        a, b = (int(kept[0]), int(kept[-1]) + 1) if kept.size else (0, 1)
        weights = fmpz_poly([int(v) for v in whole[a:b]])
        return Weights(self.first + a, self.offset, arb(self.step), weights)

    def above(self) -> Weights:
        """Weights under P of a law above."""
        total, most = np.zeros(self.size), 0
        for block, (first, (points, ratios, tilts)) in zip(self.blocks, self.frames, strict=True):
            near = 8.0 * U * float(np.max(np.abs(points)))
            a, b = block.low, block.high
            i = np.searchsorted(points, a, side="right") - 1
            y = a - points[i] - near
            grown = 1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0))  # below e^y
            v = block.q / block.p * ratios[i] * grown * (1.0 - 2.02 * block.error - 24.0 * U)
            d = (b - a) * (1.0 - 4.0 * U)
            fall = d * (1.0 - d / 2.0 * (1.0 - d / 3.0 * (1.0 - d / 4.0))) * (1.0 - 16.0 * U)
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(fall > 0.0, (1.0 - v + 4.0 * U) / fall, 1.0)
            share = np.clip(share * (1.0 + 8.0 * U), 0.0, 1.0)
            at, count = slice(first - self.first, first - self.first + points.size), 0
            for places, masses in ((a, block.p * (1.0 - share)), (b, block.p * share)):
                moved = places + near
                i = np.searchsorted(points, moved, side="right") - 1
                y = moved - points[i] + near
                part = y * (1.0 - y / 2.0 * (1.0 - y / 3.0)) / self.fall * (1.0 + 24.0 * U)
                part = np.clip(part, 0.0, 1.0)
                for n, some in ((i, 1.0 - part), (i + 1, part)):
                    total[at] += np.bincount(n, masses * some, points.size) * tilts
                count += int(np.max(np.bincount(i)))
            most = max(most, 4 * count)
        return self._weights(total, 1.0, most + 3 * len(self.blocks), total)

    def below(self) -> tuple[Weights, Weights]:
        """Weights under P and Q of the outputs whose losses are next to each point."""
        p, q, most = np.zeros(self.size), np.zeros(self.size), 0
        for block, (first, (points, ratios, tilts)) in zip(self.blocks, self.frames, strict=True):
            centres = (block.low + block.high) / 2.0
            i = np.searchsorted(points, centres - 0.5 * self.step)
            at = slice(first - self.first, first - self.first + points.size)
            p[at] += np.bincount(i, block.p, points.size) * tilts
            q[at] += np.bincount(i, block.q, points.size) * tilts * ratios
            most = max(most, int(np.max(np.bincount(i))))
        return self._weights(p, -1.0, most, p), self._weights(q, 1.0, most, p)


def finite_part(
    laws: Sequence[contour.Law], epsilon: float, tilt: float
) -> tuple[Any, dict[str, Any]]:
    """Ball around the part of delta at finite losses, best tilted near the saddle point."""
    if len(laws) > MOST_LAWS:
        raise UnsupportedError(f"certified: meshes for more than {MOST_LAWS} distinct steps")
    counts = [law.count for law in laws]
    width = OF_INTEGERS if all(law.oracle.measure is Measure.LATTICE for law in laws) else WIDTH
    h = min(math.sqrt(AIM / (width * sum(counts) * tilt * (tilt + 1.0))), COARSEST)
    best: Any = None
    with ctx.workprec(BITS):
        c = arb(tilt)
        for _ in range(TRIES):
            try:
                cells = [cells_of(law.oracle, c, h / CELLS) for law in laws]
                step, offsets = _mesh(cells, h, tilt)
                found = [
                    law_of(one, step, offset, c) for one, offset in zip(cells, offsets, strict=True)
                ]
                value = composed_part(found, counts, arb(epsilon), c)
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
    return best, {"route": "meshes", "step": step, "points": found[0].upper.values.length()}


def _mesh(cells: Sequence[Cells], h: float, tilt: float) -> tuple[float, list[float]]:
    """A step of at most h, and an offset for each law, such that heavy atoms fall on points."""
    atoms = [_atoms(one, tilt) for one in cells]
    gaps = [(loss - rows[0][0], mass) for rows in atoms for loss, mass in rows[1:]]
    gaps = [(gap, mass) for gap, mass in gaps if abs(gap) > 0.0]
    step = h
    if gaps:
        widest = abs(gaps[0][0])
        fewest = math.ceil(widest / h)
        n = np.arange(fewest, 1.3 * fewest + 20.0)
        shares = [(gap * n / widest, mass) for gap, mass in gaps]
        misfit = sum(mass * np.abs(share - np.round(share)) for share, mass in shares)
        step = widest / float(n[np.argmax(misfit <= np.min(misfit) + FITTING)])
    # the heaviest atom, or a little below the largest loss, where densities may have poles
    tops = [max(float(np.max(b.low + b.high)) for b in one.blocks) / 2.0 for one in cells]
    return step, [
        rows[0][0] if rows else top - TOP * step for rows, top in zip(atoms, tops, strict=True)
    ]


def _atoms(cells: Cells, tilt: float) -> list[tuple[float, float]]:
    """(loss, tilted mass) of atoms, heaviest first."""
    atoms = [b for b in cells.blocks if b.p.size == 1]
    losses = [float(b.low[0] + b.high[0]) / 2.0 for b in atoms]
    logs = [float(b.scale_p.mid()) + tilt * v for b, v in zip(atoms, losses, strict=True)]
    top = max(logs, default=0.0)
    rows = [(loss, math.exp(log - top)) for loss, log in zip(losses, logs, strict=True)]
    return sorted(rows, key=lambda row: -row[1])[:HEAVIEST]


def composed_part(laws: Sequence[Law], counts: Sequence[int], epsilon: Any, c: Any) -> Any:
    """Ball around the part of delta at finite losses of laws on one mesh, tilted by c."""
    scale, whole, share = arb(0), arb(1), arb(0)
    for law, count in zip(laws, counts, strict=True):
        scale += count * arb(law.scale)
        whole *= law.moment**count
        share += count * law.left_out / law.moment
    rows = zip(*((law.lower, law.tested, law.upper) for law in laws), strict=True)
    lower, tested, upper = (_composed(row, counts) for row in rows)
    # P(A) - e^eps Q(A) for the sums above a point, next to the best one
    near, low = math.floor(float(-upper.gap(0, epsilon) / upper.step)), arb(0)
    for start in range(near, near + 3):
        lost = tested.lost * (-(c + 1) * tested.gap(start, epsilon)).exp()
        gained = lower.above(start, epsilon, c) - tested.above(start, epsilon, c + 1) - lost
        low = low.max(gained.lower())
    # weights times e^(-c gap) (1 - e^(-gap)) over the points above eps
    start, high = near - 1, upper.lost * contour.peak(c)
    while not upper.gap(start, epsilon) > 0:
        most = (1 - (-upper.gap(start, epsilon)).exp()).upper().max(arb(0))
        high += upper.values[start - upper.first] * most
        start += 1
    high += upper.above(start, epsilon, c) - upper.above(start, epsilon, c + 1)
    front = (scale - c * epsilon).exp() / arb(2) ** WORD
    left_out = whole * share * contour.peak(c) * (-c * epsilon).exp()
    return (front * low).lower().max(arb(0)).union((front * high + left_out).upper())


def _composed(rows: Sequence[Weights], counts: Sequence[int]) -> Weights:
    """The law of a sum of steps."""
    factors = []
    for power, count in zip(rows, counts, strict=True):
        while count:
            factors += [power] * (count % 2)
            count //= 2
            power = _product(power, power) if count else power
    return reduce(_product, factors)


def _product(a: Weights, b: Weights) -> Weights:
    """The sum of both, over 2^WORD: rounded down, ends of little weight cut off."""
    # Where the whole laws exceed a and b by masses of at most lost(a) and lost(b), their product
    # exceeds a * b by at most lost(a) |b| + |a| lost(b) + lost(a) lost(b).
    if a.values.length() + b.values.length() > MOST_OF_SUM:
        raise NumericError(f"sums on a mesh would take more than {MOST_OF_SUM} points")
    of_a, of_b = a.values(1), b.values(1)
    values = [v >> WORD for v in (a.values * b.values).coeffs()]
    allowed, low, high = sum(values) >> SPARED, 0, len(values)
    below, above = fmpz(0), fmpz(0)
    while low < high and below + values[low] <= allowed:
        below, low = below + values[low], low + 1
    while low < high and above + values[high - 1] <= allowed:
        above, high = above + values[high - 1], high - 1
    lost = (a.lost * of_b + of_a * b.lost + a.lost * b.lost) >> WORD
    lost += 1 + len(values) + below + above
    first, offset = a.first + b.first + low, a.offset + b.offset
    return Weights(first, offset, a.step, fmpz_poly(values[low:high]), lost)
