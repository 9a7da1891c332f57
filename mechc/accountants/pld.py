"""Numerical composition of privacy loss distributions with proven relative bounds.

Every step's loss is put on one mesh twice, by a dominating and by a dominated law (`loss.grid`),
both are composed by a tilted transform (`transform`), and what the finite period aliases is
bounded and subtracted (`window`). The discretisation adds k h^2 t(t+1)/12 to the logarithm of the
upper value and takes k h^2 t(t+1)/24 from the lower one, t being the saddle point: that is what
the mesh is chosen by. Where all losses are lattices, there is no discretisation.

This is the method for losses that have atoms as well as a density. Sources: Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022 (connect the dots); Keich 2005 (tilted transform).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.composed import ComposedLoss
from mechc.accountants.logspace import log1mexp, log_add, log_subtract
from mechc.accountants.transform import TiltedSum
from mechc.accountants.window import Reach, Window, choose, images, reach
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss import grid
from mechc.loss.grid import GridLaw
from mechc.loss.measure import PrivacyLoss, Step
from mechc.loss.mesh import Mesh, align

_BYTES = 200  # of memory per mesh point, at the peak of a composition
_LEAST = 2**10
_USUAL = 2**20  # largest transform taken without being asked
_SHARE = 0.02  # of rtol, spent on images and on what lies outside the grids
_KEPT = 4  # compositions remembered for other epsilons
_COARSE = 1.0  # largest predicted log(upper / lower) worth computing
_SAME = 1e-12  # relative difference at which two lattice steps are the same


class PldAccountant:
    """Proven bounds on delta for any losses, by discretisation on a mesh."""

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        rtol: float = 1e-6,
        max_bytes: int = 2**31,
        grid: int | None = None,
    ) -> None:
        """Prepare a composition.

        Args:
            steps: the distinct steps and their counts.
            rtol: relative width upper/lower - 1 that is enough. The mesh is made as fine as that
                needs, within 2**20 points; the answer's own width says what was reached.
            max_bytes: memory that a composition may take.
            grid: number of mesh points of a period, a power of two; None chooses.

        Raises:
            DeclarationError: grid is not a power of two, rtol or max_bytes is not positive.
            UnsupportedError: `grid` points need more than max_bytes.
        """
        if not rtol > 0 or not max_bytes > 0:
            raise DeclarationError(
                f"pld: rtol={rtol!r}, max_bytes={max_bytes!r}: expected positive numbers"
            )
        if grid is not None and (grid < 2 or grid & (grid - 1)):
            raise DeclarationError(f"pld: grid={grid!r}: expected a power of two")
        if grid is not None and grid * _BYTES > max_bytes:
            raise UnsupportedError(
                f"pld: grid={grid} needs about {grid * _BYTES} bytes, more than max_bytes="
                f"{max_bytes}; contour and saddlepoint need no grid"
            )
        self._rtol, self._max_bytes, self._grid = rtol, max_bytes, grid
        merged: dict[int, tuple[PrivacyLoss, int]] = {}
        for loss, count in steps:
            if count > 0:
                merged[id(loss)] = (loss, merged.get(id(loss), (loss, 0))[1] + int(count))
        self._laws = [loss for loss, _ in merged.values()]
        self._counts = [count for _, count in merged.values()]
        self._composed = ComposedLoss(steps)
        self._kept: list[_Pair] = []

    def log_delta(self, epsilon: float) -> Bound:
        """Bound log delta(epsilon) in one direction.

        Args:
            epsilon: any finite real number.

        Returns:
            A bound with status "proven". The estimate is where the two discretisation errors,
            which are known to leading order, cancel.

        Raises:
            UnsupportedError: no window can be proven, or the mesh that the answer needs is larger
                than max_bytes allows.
        """
        settled = self._composed.settled(epsilon)
        if settled is not None:
            middle = settled.upper
            return Bound(settled.lower, middle, settled.upper, "pld", "proven", {"exact": True})
        for pair in self._kept:
            found = pair.bound(epsilon)
            if found.width <= max(self._rtol, 1.2 * pair.width):
                return found
        pair = self._compose(epsilon)
        self._kept = [pair, *self._kept[: _KEPT - 1]]
        return pair.bound(epsilon)

    def _compose(self, epsilon: float) -> _Pair:
        window = choose(self._composed, epsilon, _SHARE * min(self._rtol, 1e-3))
        step = self._lattice_step()
        if step is not None:
            return self._on_lattice(window, step)
        size = self._size(window)
        while True:
            pair = self._on_mesh(window, size)
            if self._grid is not None or pair.width <= self._rtol:
                return pair
            if size >= self._largest() or pair.width > 0.7 * pair.predicted:
                return pair
            size *= 2
