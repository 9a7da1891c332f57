"""Laws on a mesh above and below the privacy loss of one step, from its cells.

A payoff f(L) = E(1 - e^(eps - L - rest))_+ is convex in e^(-L). So it grows if the mass of a cell
is spread, with the mean of e^(-L) kept, to the ends of the cell and from there to the mesh
(Doroshenko et al. 2022). For the law below each cell counts at the mesh point next to it. A sum of
points is a function of the outputs, and delta >= P(A) - e^eps Q(A) for every event A: it is enough
to compose the masses of the points under P and under Q, and A is where the sum is large. As A is
nearly the best event, what is lost is of second order in the mesh.

Losses above a cap are rounded down to it for the law below; for the one above, such outputs count
as they would at infinity. Weights are tilted: under P times exp(c s - scale), under Q times
exp((c + 1) s - scale), nearly the same. Those above, and those under Q, are never too small, those
under P below never too large, rounding included.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.verify.cells import Block, Cells

Floats = NDArray[np.float64]

U = 2.0**-53
APART = 1e-13  # by which meshes above and below are moved, so that atoms on them stay on them
MAX_POINTS = 2**21
TOP = 0.55  # steps from the last point to the largest loss, so that what is around it lies above
WORD = 62  # bits of weights


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
    if not (high - low) / mesh.step < MAX_POINTS:
        raise NumericError(f"more than {MAX_POINTS} points of the mesh")
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
