"""A contour on which sums of atoms do not have to decay: they are added in closed form.

The nodes carry the remainder phi - A - B of `atomic` instead of phi; the trapezoid sum of A + B
over all frequencies takes the place of the frequencies that are not evaluated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mechc.accountants.atomic import AtomicPart
from mechc.accountants.trapezoid import ULP, Complexes, Contour, Floats

CHEAP = 2_000_000  # node evaluations that are spent for more than rtol asks for
WORK = 300_000_000  # node evaluations before a wide bound is returned instead
FINE, ENOUGH = 1e-3, 0.2  # truncation, in rtol, that is worth CHEAP work, and any work
START = 128  # frequencies evaluated first
ROUNDS = 12  # extensions of one contour


class BesideAtoms(Contour):
    """A contour whose nodes carry only what has several densities."""

    def __init__(self, atomic: AtomicPart, *arguments: Any) -> None:
        """Fix the contour.

        Args:
            atomic: the part in closed form.
            *arguments: those of Contour.
        """
        super().__init__(*arguments)
        self.atomic = atomic
        self._remainder = np.empty(0, np.complex128)
        self._scale: Floats = np.empty(0)

    @property
    def nodes(self) -> int:
        """Number of frequencies evaluated so far."""
        return int(self._scale.size)

    def extend(self, nodes: int) -> None:
        """Evaluate the remainder until `nodes` frequencies are known."""
        have = self._scale.size
        if nodes > have:
            law, order = self.atomic.law, self.atomic.order
            values, scale = law.remainders(order, self.h, have + 1, nodes + 1)
            self._remainder = np.concatenate([self._remainder, values])
            self._scale = np.concatenate([self._scale, scale])
            self.decay = self.atomic.truncation(self.h * nodes)

    @property
    def cost(self) -> float:
        """Work of one more frequency, in node evaluations."""
        return self.atomic.law.cost

    def waves(self, epsilon: float) -> tuple[Floats, Complexes, Floats]:
        """Return y, the remainder's g(c + iy) / g(c) at the nodes, and its rounding in ULP."""
        y = self.h * np.arange(1.0, self._scale.size + 1.0)
        law, counts = self.atomic.law, float(self.tilted.counts.sum())
        mean = float(self.tilted.counts @ law.mean)
        factor = self.payoff.transform(np.asarray(self.c + 1j * y, np.complex128), epsilon)
        factor /= self.weight(epsilon)
        value: Complexes = factor * self._remainder * np.exp(1j * y * (mean - epsilon))
        turns = y * (abs(mean) + abs(epsilon) + self.atomic.reach)
        noise = self._scale * (8.0 + 8.0 * counts + 4.0 * turns) + law.error / ULP
        return y, value, np.abs(factor) * noise

    def first(self, epsilon: float) -> tuple[float, float]:
        """The remainder at frequency 0, all frequencies of the atomic part, and their error."""
        if self.atomic.order == 0:
            return 1.0, 0.0
        scale = self.period / self.weight(epsilon)
        value, error = self.atomic.aliased(epsilon, self.period)
        return 1.0 - self.atomic.share + scale * value, scale * error + 4.0 * ULP

    def settle(self, epsilon: float, rtol: float) -> None:
        """Add nodes until little is left of the truncation, or more is not worth its cost."""
        nodes = START
        for _ in range(ROUNDS):
            self.extend(nodes)
            total = self.first(epsilon)[0] + 2.0 * float(self.terms(epsilon)[0].sum())
            factor = self.payoff.size(self.c) * self.period
            factor /= math.pi * max(total, 1e-3) * self.weight(epsilon) * rtol
            affordable = CHEAP / self.cost
            share = factor * self.decay
            if share <= FINE or (share <= ENOUGH and affordable < 2.0 * nodes):
                return
            more = 2.0 * nodes
            left = factor * self.atomic.truncation(self.h * more)
            while left > FINE and (left > ENOUGH or more < affordable):
                more *= 1.5
                left = factor * self.atomic.truncation(self.h * more)
                if self.cost * more > WORK:
                    return
            nodes = math.ceil(more)
