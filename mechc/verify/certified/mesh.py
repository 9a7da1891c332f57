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
is where the sum is large. As A is nearly the best event, what is lost is of second order in the
mesh.

Losses above a cap are rounded down to it for the law below; for the one above, such outputs count
as they would at infinity. Weights are tilted: under P times exp(c s - scale), under Q times
exp((c + 1) s - scale), nearly the same. Those above, and those under Q, are never too small, those
under P below never too large, rounding included. They are whole numbers; their products are exact,
and rounded outward to WORD bits again.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, arb_poly, ctx, fmpz, fmpz_poly
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.rounding import U
from mechc.protocol import Measure
from mechc.verify.balls import chebyshev, ellipse
from mechc.verify.balls.integral import PieceIntegral
from mechc.verify.balls.lattice import LatticeSum
from mechc.verify.balls.oracle import Oracle
from mechc.verify.certified import contour

Floats = NDArray[np.float64]

MAX_PANELS = 6000  # of one piece
MAX_POINTS = 20_000  # of the integers that matter
TAIL_BITS = 44  # tails are cut so far below the bulk
NEGLIGIBLE = 1e-14  # share of a panel that is left out
PRECISE = 1e-11  # relative error of masses asked for
LARGEST = 1e150
CERTAIN = 24  # bits to which the width of a panel is known
APART = 1e-13  # by which meshes above and below are moved, so that atoms on them stay on them
MOST_OF_LAW = 2**21  # points of one law on the mesh
TOP = 0.55  # steps from the last point to the largest loss, so that what is around it lies above
WORD = 62  # bits of weights
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
MOST_OF_SUM = 6_000_000  # points of a product: about 2 GB
DEEP = 60.0  # nats beyond which payoffs are bounded together
NEAR = 4.0  # nats of the tilt within which the best event is sought


class Block(NamedTuple):
    """Cells with comparable masses.

    Attributes:
        scale_p, scale_q: balls; masses are those below times exp of them.
        p, q: masses under P and Q up to the relative `error`.
        low, high: between which the loss lies in each cell.
        error: see above.
        is_capped: the loss was rounded down to the cap.
    """

    scale_p: Any
    scale_q: Any
    p: Floats
    q: Floats
    low: Floats
    high: Floats
    error: float
    is_capped: bool = False

    @property
    def is_atom(self) -> bool:
        """One loss only."""
        return self.p.size == 1


class Cells(NamedTuple):
    """All that has a finite loss.

    Attributes:
        blocks: cells.
        left_out: bound on the tilted mass of one part of what is in no block.
        beyond: bound on the mass under P of the other part.
    """

    blocks: list[Block]
    left_out: Any
    beyond: Any


def cells_of(oracle: Oracle, c: Any, widest: float, cap: float) -> Cells:
    """Cut the outputs of a pair into cells on which the loss varies by at most `widest`.

    Args:
        oracle: the pair.
        c: tilt > 0 inside the strip, an exact ball.
        widest: range of the loss in a cell.
        cap: losses above it need not be told apart.

    Raises:
        NumericError: too many panels or points.
    """
    found = _Found(c, cap)
    for atom in _atom_cells(oracle):
        found.add(atom)
    todo: list[_Panel] = []
    for number, part in enumerate(oracle.parts()):
        if not part.is_shared:
            continue
        if isinstance(part, LatticeSum):
            _lattice(part, c, found)
        elif part.plateau is None:
            cutter = _Cutter(part, c, widest, cap, _ends(oracle, number, c))
            found.left_out += cutter.left_out
            for panel in cutter.halves():
                heapq.heappush(todo, panel)
    for _ in range(MAX_PANELS):
        if not todo or todo[0].most < found.total * NEGLIGIBLE:
            for panel in todo:
                found.leave(panel.plain, panel.tilted)
            return found.cells()
        panel = heapq.heappop(todo)
        block = panel.cutter.block(panel.left, panel.right)
        if block is not None:
            found.add(block)
            continue
        for half in panel.cutter.split(panel.left, panel.right):
            heapq.heappush(todo, half)
    raise NumericError(f"more than {MAX_PANELS} panels")


class _Found:
    """Blocks, their tilted mass in all, nearly, and what was left out."""

    def __init__(self, c: Any, cap: float) -> None:
        self.c, self.cap = c, (c * cap).exp()
        self.blocks: list[Block] = []
        self.total, self.left_out, self.beyond = arb(0), arb(0), arb(0)

    def add(self, block: Block) -> None:
        """Keep a block."""
        self.blocks.append(block)
        self.total += self.tilted(block)

    def leave(self, plain: Any, tilted: Any) -> None:
        """Leave out what has at most these masses under P and tilted, one of them counted."""
        if tilted <= plain * self.cap:
            self.left_out += tilted
        else:
            self.beyond += plain

    def cells(self) -> Cells:
        """What matters; the rest is left out."""
        kept = []
        for block in self.blocks:
            plain = block.scale_p.exp() * float(np.sum(block.p)) * (1.0 + 2.0 * block.error + 1e-9)
            tilted = plain * (self.c * float(np.max(block.high))).exp()
            if tilted < self.total * NEGLIGIBLE and not block.is_capped:
                self.leave(plain, tilted)
            else:
                kept.append(block)
        return Cells(kept, self.left_out.upper(), self.beyond.upper())

    def tilted(self, block: Block) -> Any:
        """Tilted mass, nearly."""
        weight = float(np.sum(block.p * (block.p / block.q) ** float(self.c)))
        return (block.scale_p * (1 + self.c) - block.scale_q * self.c).exp() * weight


class _Panel(NamedTuple):
    """A stretch of a piece still to be cut, that of the largest tilted mass first."""

    rank: float
    number: int
    most: Any
    plain: Any
    tilted: Any
    left: Any
    right: Any
    cutter: _Cutter


def _atom_cells(oracle: Oracle) -> list[Block]:
    """Declared atoms, and pieces on which the loss is constant."""
    atoms = [_atom(p.log(), q.log()) for _, p, q in oracle.atom_masses() if p > 0 and q > 0]
    for part in oracle.parts():
        if part.is_shared and part.plateau is not None:
            mass = part.plateau_mass.log()
            atoms.append(_atom(mass, mass - part.plateau))
    return atoms


def _ends(oracle: Oracle, number: int, c: Any) -> tuple[Any, Any, Any]:
    """Finite ends of a piece, and a bound on the tilted mass beyond; few bits are enough."""
    exact, beyond, ends = oracle.parts()[number], arb(0), []
    with ctx.workprec(TAIL_BITS):
        part = oracle.parts()[number]
        for side, end, own in ((-1, part.lo, exact.lo), (1, part.hi, exact.hi)):
            if end.is_finite():
                place, rest = part.beside(acb(1 + c), acb(-c), -side, end)
                ends.append(own if place is end else place)
                beyond += rest.real.rad()
            else:
                place, bound = part.cut_at(acb(1 + c), acb(-c), side)
                ends.append(place)
                beyond += bound
    if not ends[0] < ends[1]:
        raise NumericError(f"nothing between {ends[0].str(5)} and {ends[1].str(5)}")
    return ends[0], ends[1], beyond


def _atom(log_p: Any, log_q: Any) -> Block:
    loss, one = log_p - log_q, np.ones(1)
    low, high = (float(e) for e in (loss.lower(), loss.upper()))
    return Block(
        log_p, log_q, one, one,
        np.nextafter([low], -np.inf), np.nextafter([high], np.inf), 0.0,
    )  # fmt: skip


def _lattice(part: LatticeSum, c: Any, found: _Found) -> None:
    """Every integer an atom, until the rest is negligible."""
    rows, rest = part.points(1 + c, -c, lambda total: total * NEGLIGIBLE, MAX_POINTS)
    for logs in rows:
        found.add(_atom(*logs))
    found.left_out += rest.upper()


class _Cutter:
    """Cuts one piece with densities."""

    numbers = itertools.count()

    def __init__(self, part: PieceIntegral, c: Any, widest: float, cap: float, ends: Any) -> None:
        self.part, self.c = part, c
        self.widest, self.cap, self.front = widest, cap, (c * cap).exp()
        self.log_p, self.loss = part.exponent(acb(1), acb(0)), part.exponent(acb(1), acb(-1))
        self.tilted = part.exponent(acb(1 + c), acb(-c))
        self.lo, self.hi, self.left_out = ends

    def halves(self) -> list[_Panel]:
        """The piece in two: features sit near zero far more often than elsewhere."""
        lo, hi = self.lo, self.hi
        middle = arb(0) if lo < 0 and hi > 0 else ((lo + hi) / 2).mid()
        return [self._panel(lo, middle), self._panel(middle, hi)]

    def split(self, left: Any, right: Any) -> list[_Panel]:
        """The halves of a panel."""
        centre = ((left + right) / 2).mid()
        if not (left < centre and centre < right):
            raise NumericError(f"cells do not settle at {centre.str(10)}")
        return [self._panel(left, centre), self._panel(centre, right)]

    def _panel(self, left: Any, right: Any) -> _Panel:
        box, width = left.union(right), right - left
        plain = _finite((self.log_p(box, False).real.exp() * width).upper())
        tilted = _finite((self.tilted(box, False).real.exp() * width).upper())
        middle = box.mid()
        bent = self.part.p.slope(box) - self.part.q.slope(box)
        # next to an extremum of the loss the mean value theorem is sharper
        loss = self.loss(acb(middle), False).real + bent * (box - middle)
        tilted = tilted.min(_finite((plain * (self.c * loss).exp()).upper()))
        most = tilted.min(plain * self.front)
        rank = -float(most.log().mid()) if most > 0 else math.inf
        return _Panel(rank, next(self.numbers), most, plain, tilted, left, right, self)

    def block(self, left: Any, right: Any) -> Block | None:
        """The cells of a panel, None where it is too wide."""
        ends = [self.loss(acb(v), False).real for v in (left, right)]
        capped = bool(ends[0] > self.cap and ends[1] > self.cap)
        if not capped and not abs(ends[1] - ends[0]) < self.widest * chebyshev.CUTS[-1]:
            return None
        centre, half = (left + right) / 2, (right - left) / 2
        if half.rel_accuracy_bits() < CERTAIN:
            return None
        base_p, base_l = (f(acb(centre), False).real.mid() for f in (self.log_p, self.loss))
        heights = self._heights(centre, half, base_p, base_l)
        if heights is None:
            return None
        xs = [centre + half * u for u in chebyshev.points(ctx.prec)]
        losses = [self.loss(acb(x), False).real - base_l for x in xs]
        logs = [self.log_p(acb(x), False).real - base_p for x in xs]
        rough = np.array([float(v.mid()) for v in losses])
        for cells in chebyshev.CUTS:
            low, high = self._range(losses, rough, cells, heights[2], float(base_l))
            capped = capped and float(np.min(low)) >= self.cap
            if capped or np.max(high - low) <= self.widest:
                break
        else:
            return None
        p = _masses([v.exp() for v in logs], cells, heights[0])
        q = _masses([(v - w).exp() for v, w in zip(logs, losses, strict=True)], cells, heights[1])
        width = (2 * half / cells).log()
        if capped and p is not None:
            return _capped(base_p + width, float(np.sum(p[0])), p[1], self.cap)
        if p is None or q is None:
            return None
        scales = base_p + width, base_p - base_l + width
        return Block(*scales, p[0], q[0], low, high, max(p[1], q[1]))

    def _heights(self, centre: Any, half: Any, base_p: Any, base_l: Any) -> Any:
        """Errors of the interpolants of p, q and the loss, None where the ellipse is too large."""
        tops = [arb.neg_inf(), arb.neg_inf(), arb(0)]
        wide, middle = half.upper(), centre.mid()
        for unit in ellipse.cover(ctx.prec):
            box = unit * wide + middle
            log_p, loss = self.log_p(box, True) - base_p, self.loss(box, True) - base_l
            if not (log_p.is_finite() and loss.is_finite()):
                return None
            here = log_p.real.upper(), (log_p - loss).real.upper(), abs(loss).upper()
            tops = [top.max(h) for top, h in zip(tops, here, strict=True)]
        sizes = (tops[0].exp(), tops[1].exp(), tops[2])
        errors = [float((s * chebyshev.error_factor()).upper()) for s in sizes]
        return errors if max(errors[:2]) < PRECISE else None

    def _range(
        self, losses: list[Any], rough: Floats, cells: int, error: float, base: float
    ) -> tuple[Floats, Floats]:
        """Between which the loss lies in each cell."""
        at_ends, rounding = chebyshev.apply(chebyshev.rule(cells).ends, rough)
        radius = max(float(v.rad()) for v in losses)
        slack = 2.0 * (float(np.max(rounding)) + error + 4.0 * radius)
        slack += chebyshev.bend(rough) * (2.0 / cells) ** 2 / 8.0
        slack += 4.0 * U * (abs(base) + float(np.max(np.abs(at_ends))))
        at_ends = at_ends + base
        first, second = at_ends[:-1], at_ends[1:]
        return np.minimum(first, second) - slack, np.maximum(first, second) + slack


def _capped(scale: Any, mass: float, error: float, cap: float) -> Block:
    """An atom at the cap."""
    p, at = np.array([mass]), np.array([cap])
    return Block(scale, scale - cap, p, p, at, at, error + 1e-12, True)


def _finite(bound: Any) -> Any:
    return bound if bound.is_finite() else arb.pos_inf()


def _masses(values: list[Any], cells: int, error: float) -> tuple[Floats, float] | None:
    """Means over cells, and their relative error; None where that is too large."""
    rough = np.array([float(v.mid()) for v in values])
    radius = max(float(v.rad()) for v in values)
    if not np.all(np.isfinite(rough)) or np.max(rough) > LARGEST:
        return None
    means, rounding = chebyshev.apply(chebyshev.rule(cells).means, rough)
    if not np.min(means) > 0.0:
        return None
    # rows of the matrix add up to less than four in size
    relative = float(np.max((rounding + error + 8.0 * radius) / means)) * 1.001
    return (means, relative) if relative < PRECISE else None


class Mesh(NamedTuple):
    """Points offset + n step, both exact."""

    step: float
    offset: float


class Weights(NamedTuple):
    """A law on offset + (first + n) step: integers, tilted and times 2^WORD exp(-scale)."""

    first: int
    offset: Any
    values: list[int]


class Law(NamedTuple):
    """Laws below and above one step, and a bound on the tilted mass that is in neither.

    Attributes:
        lower: weights under P, never too large, of outputs told apart by their points.
        tested: weights under Q of the same, never too small.
        upper: weights under P of a law above.
        scale: log of what tilted weights are divided by.
        left_out: bound on the tilted mass that is in neither.
        beyond: bound on the mass under P that is not in `upper`, whatever its loss.
        moment: bound on the tilted mass that is not beyond.
    """

    lower: Weights
    tested: Weights
    upper: Weights
    scale: float
    left_out: Any
    beyond: Any
    moment: Any


def law_of(cells: Cells, mesh: Mesh, c: Any) -> Law:
    """Put the cells of one step on a mesh.

    Args:
        cells: of the step.
        mesh: points.
        c: tilt, an exact ball.

    Raises:
        NumericError: too many points.
    """
    low = min(float(np.min(b.low)) for b in cells.blocks)
    high = max(float(np.max(b.high)) for b in cells.blocks)
    if not (high - low) / mesh.step < MOST_OF_LAW:
        raise NumericError(f"more than {MOST_OF_LAW} points of the mesh")
    scale = _scale(cells.blocks, c)
    apart = APART * (1.0 + max(abs(low), abs(high)))
    tables = [_Side(cells.blocks, Mesh(mesh.step, mesh.offset + s * apart), c, scale)
              for s in (-1.0, 1.0)]  # fmt: skip
    lower, tested = tables[0].below()
    upper = tables[1].above()
    moment = (arb(scale).exp() * sum(upper.values) / 2**WORD).upper() + cells.left_out
    beyond = cells.beyond + sum((_mass(b) for b in cells.blocks if b.is_capped), start=arb(0))
    return Law(lower, tested, upper, scale, cells.left_out, beyond, moment)


def _mass(block: Block) -> Any:
    """Bound on the mass under P."""
    return block.scale_p.exp() * float(np.sum(block.p)) * (1.0 + 2.0 * block.error + 1e-9)


def _scale(blocks: list[Block], c: Any) -> float:
    """Log of the tilted mass, nearly."""
    logs = []
    for block in blocks:
        loss = block.scale_p - block.scale_q + np.log(block.p[0]) - np.log(block.q[0])
        logs.append(float((block.scale_p + c * loss).mid()) + math.log(float(np.sum(block.p))))
    top = max(logs)
    return top + math.log(sum(math.exp(v - top) for v in logs))


class _Frame(NamedTuple):
    """A block on its stretch of the mesh."""

    first: int
    points: Floats
    ratios: Floats  # e^s times the scale of q over that of p
    tilts: Floats  # what masses under P are multiplied by


class _Side:
    """All blocks on one mesh."""

    def __init__(self, blocks: list[Block], mesh: Mesh, c: Any, scale: float) -> None:
        self.mesh, self.c, self.scale = mesh, c, scale
        self.step, self.offset = arb(mesh.step), arb(mesh.offset)
        fall = 1 - (-self.step).exp()
        self.fall = float(fall) * (1.0 - 4.0 * U)  # 1 - e^-h, not too large
        self.blocks = blocks
        self.frames = [self._frame(b) for b in blocks]
        self.first = min(f.first for f in self.frames)
        self.size = max(f.first + f.points.size for f in self.frames) - self.first
        self.error = max(b.error for b in blocks)

    def _frame(self, block: Block) -> _Frame:
        h = self.mesh.step
        first = math.floor((float(np.min(block.low)) - self.mesh.offset) / h) - 2
        last = math.ceil((float(np.max(block.high)) - self.mesh.offset) / h) + 2
        points = [self.offset + n * self.step for n in range(first, last + 1)]
        apart = block.scale_q - block.scale_p
        front = block.scale_p - self.scale
        return _Frame(
            first,
            np.array([float(s) for s in points]),
            np.array([float((s + apart).exp()) for s in points]),
            np.array([float((front + self.c * s).exp()) for s in points]),
        )

    def _weights(self, values: Floats, grown: float, within: Floats | None = None) -> Weights:
        """Whole numbers, rounded down for a factor below one and up for one above.

        They reach as far as there are values, or values of `within`.
        """
        scaled = np.ldexp(values * grown, WORD)
        whole = np.floor(scaled) if grown < 1.0 else np.ceil(np.nextafter(scaled, np.inf))
        kept = np.flatnonzero((values if within is None else within) > 0.0)
        if kept.size == 0:
            return Weights(self.first, self.offset, [0])
        a, b = int(kept[0]), int(kept[-1]) + 1
        return Weights(self.first + a, self.offset, [int(v) for v in whole[a:b]])

    def _slack(self, most: int) -> float:
        """Relative error of a sum of that many weights, all factors included."""
        return self.error * 1.01 + 2.0 * U * (most + len(self.blocks) + 64)

    # -- above --------------------------------------------------------------------------------

    def above(self) -> Weights:
        total, most = np.zeros(self.size), 0
        for block, frame in zip(self.blocks, self.frames, strict=True):
            if block.is_capped:
                continue
            weights, count = self._spread(block, frame)
            at = frame.first - self.first
            total[at : at + weights.size] += weights * frame.tilts
            most = max(most, count)
        return self._weights(total, 1.0 + self._slack(most))

    def _spread(self, block: Block, frame: _Frame) -> tuple[Floats, int]:
        """Masses under P on the points of a frame, above those of the block."""
        near = 8.0 * U * float(np.max(np.abs(frame.points)))
        a, b = block.low, block.high
        i = np.searchsorted(frame.points, a, side="right") - 1
        y = a - frame.points[i] - near
        grown = 1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0))  # below e^y
        v = block.q / block.p * frame.ratios[i] * grown * (1.0 - 2.02 * block.error - 24.0 * U)
        d = (b - a) * (1.0 - 4.0 * U)
        fall = d * (1.0 - d / 2.0 * (1.0 - d / 3.0 * (1.0 - d / 4.0))) * (1.0 - 16.0 * U)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(fall > 0.0, (1.0 - v + 4.0 * U) / fall, 1.0)
        share = np.clip(share * (1.0 + 8.0 * U), 0.0, 1.0)
        out, count = np.zeros(frame.points.size), 0
        for places, masses in ((a, block.p * (1.0 - share)), (b, block.p * share)):
            moved = places + near
            i = np.searchsorted(frame.points, moved, side="right") - 1
            y = moved - frame.points[i] + near
            part = y * (1.0 - y / 2.0 * (1.0 - y / 3.0)) / self.fall * (1.0 + 24.0 * U)
            part = np.clip(part, 0.0, 1.0)
            out += np.bincount(i, masses * (1.0 - part), out.size)
            out += np.bincount(i + 1, masses * part, out.size)
            count += int(np.max(np.bincount(i)))
        return out, 2 * count

    # -- below --------------------------------------------------------------------------------

    def below(self) -> tuple[Weights, Weights]:
        """Weights under P and Q of the outputs whose losses are next to each point."""
        p, q, most = np.zeros(self.size), np.zeros(self.size), 0
        for block, frame in zip(self.blocks, self.frames, strict=True):
            centres = (block.low + block.high) / 2.0
            i = np.searchsorted(frame.points, centres - 0.5 * self.mesh.step)
            at, size = frame.first - self.first, frame.points.size
            p[at : at + size] += np.bincount(i, block.p, size) * frame.tilts
            q[at : at + size] += np.bincount(i, block.q, size) * frame.tilts * frame.ratios
            most = max(most, int(np.max(np.bincount(i))))
        slack = self._slack(most)
        return self._weights(p, 1.0 - slack), self._weights(q, 1.0 + slack, p)


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
    width = OF_INTEGERS if all(law.oracle.measure is Measure.LATTICE for law in laws) else WIDTH
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
    if a.weights.length() + b.weights.length() > MOST_OF_SUM:
        raise NumericError(f"sums on a mesh would take more than {MOST_OF_SUM} points")
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
