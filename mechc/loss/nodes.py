"""The numbers of one direction of a privacy loss, before they become its fields."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.loss.allowance import spend
from mechc.loss.masspoints import find_lattice, merge

Floats = NDArray[np.float64]

MERGED = 20.0  # work for a point mass that is sorted and looked for on a lattice


class Nodes(NamedTuple):
    """Nodes and atoms of one direction, ready to become fields of a PrivacyLoss."""

    loss: Floats
    log_weight: Floats
    spacing: Floats
    region: NDArray[np.int64]
    atom_loss: Floats
    atom_log_mass: Floats
    support: tuple[float, float]
    lattice: tuple[float, float] | None
    tolerance: float
    tilts: tuple[float, float]

    @classmethod
    def of_atoms(
        cls,
        loss: Floats,
        log_mass: Floats,
        tolerance: float = 0.0,
        tilts: tuple[float, float] = (-math.inf, math.inf),
    ) -> Nodes:
        """Make a discrete law, masses known to a relative `tolerance`; equal losses are merged."""
        spend(MERGED * loss.size)
        loss, log_mass = merge(loss, log_mass)
        support = (float(loss[0]), float(loss[-1])) if loss.size else (math.nan, math.nan)
        none = np.empty(0)
        return cls(
            none,
            none,
            none,
            np.empty(0, np.int64),
            loss,
            log_mass,
            support,
            find_lattice(loss),
            tolerance,
            tilts,
        )

    def reversed(self) -> Nodes:
        """Swap the roles of P and Q."""
        lattice = None if self.lattice is None else (-self.lattice[0], self.lattice[1])
        return Nodes(
            loss=-self.loss,
            log_weight=self.log_weight - self.loss,
            spacing=self.spacing,
            region=self.region,
            atom_loss=np.ascontiguousarray(-self.atom_loss[::-1]),
            atom_log_mass=np.ascontiguousarray((self.atom_log_mass - self.atom_loss)[::-1]),
            support=(-self.support[1], -self.support[0]),
            lattice=lattice,
            tolerance=self.tolerance,
            tilts=(-1.0 - self.tilts[1], -1.0 - self.tilts[0]),
        )


def mirrored(lo: float, hi: float) -> tuple[float, float]:
    """Return the tilts -1 - hi and -1 - lo, rounded outward where the way back would miss any."""
    low, high = -1.0 - hi, -1.0 - lo
    return (
        math.nextafter(low, -math.inf) if -1.0 - low < hi else low,
        math.nextafter(high, math.inf) if -1.0 - high > lo else high,
    )
