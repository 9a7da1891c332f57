"""The outputs of one pair in small cells: masses under P and Q, and where the loss lies in each.

A panel on which log p and log q are proved analytic is cut into equal cells; masses and losses at
their ends come from Chebyshev interpolants with proved errors (mechc.verify.chebyshev). Inside a
cell the loss stays within half the square of its width times its second derivative of its ends.
Outputs that matter little are left out; what they weigh, E_P[exp(cL); left out], is bounded.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.verify import chebyshev
from mechc.verify.ball import Oracle
from mechc.verify.integral import PieceIntegral
from mechc.verify.lattice import LatticeSum

Floats = NDArray[np.float64]

MAX_PANELS = 6000
MAX_POINTS = 20_000
TAIL_BITS = 44  # tails are cut so far below the bulk
NEGLIGIBLE = 1e-14  # share of a panel that is left out
PRECISE = 1e-11  # relative error of masses asked for
LARGEST = 1e150
CERTAIN = 24  # bits to which the width of a panel is known


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
    for atom in _atoms(oracle):
        found.add(atom)
    todo: list[_Panel] = []
    for number, part in enumerate(oracle.parts()):
        if part.p.is_zero or part.q.is_zero:
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


def _atoms(oracle: Oracle) -> list[Block]:
    """Declared atoms, and pieces on which the loss is constant."""
    atoms = [_atom(p.log(), q.log()) for _, p, q in oracle.atom_masses() if p > 0 and q > 0]
    for part in oracle.parts():
        flat = not (part.p.is_zero or part.q.is_zero or isinstance(part, LatticeSum))
        if flat and part.plateau is not None:
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
    for side, start, stop in part.halves():
        for m in range(start, start + MAX_POINTS):
            if stop is not None and m > stop:
                break
            found.add(_atom(*part.logs(side * m)))
            if stop is None and m > 0 and m % 16 == 0:
                bound = part.tail(1 + c, -c, side, m)
                if bound is not None and bound < found.total * NEGLIGIBLE:
                    found.left_out += bound.upper()
                    break
        else:
            raise NumericError(f"more than {MAX_POINTS} points of the lattice matter")


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
        for unit in chebyshev.cover():
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
        slack += 4.0 * chebyshev.U * (abs(base) + float(np.max(np.abs(at_ends))))
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
