"""What a question will cost, before it is asked: tables, whose cost is the family's, and people.

Tables need every member of the grid tilted on a few contours, people a product of their ledger rows
with these. Both are timed on a small piece here, on the machine at hand, and multiplied by how
often they are needed, as counted in runs. Of three shapes (docs/individual.md) estimates were
within a factor of two of what was spent.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from mechc.accountants.contours import gridding
from mechc.accountants.contours.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.individual.family import Family
from mechc.individual.splines import Grid
from mechc.individual.tilts import Members, tilted_row
from mechc.loss.privacy_loss import Step

CONTOURS, TABLES = 6, 16  # made for a population, as counted
MISSING = 0.3  # share of the tables that other people than before still ask for
NODES = 420  # nodes of a table that most people need, and those of the first short sum
TILT, FREQUENCY, REACH = 8.0, 1024.0, 240.0  # of the members that are timed
OVERHEAD = 5.0  # seconds a person over those of the products alone
COLUMN = 5e-8  # seconds for each member and node of a table, to bound its errors
PROBED = 6  # members that are timed
MESH = 0.3  # seconds for each person composed on a mesh; 6 for sampling rates of 1e-4
BYTES = 250  # of a person, besides the ledger: answers and choices in both directions


@dataclass(frozen=True)
class Cost:
    """An estimate, within a factor of two of what was spent where that was compared.

    Attributes:
        tables: seconds of processor time for tables that are likely not to be there yet.
        people: seconds for the people.
        mesh: seconds more if as many people as allowed have to be composed on a mesh.
        memory: bytes in all, the ledger included.
    """

    tables: float
    people: float
    mesh: float
    memory: int

    @property
    def seconds(self) -> float:
        """Seconds without a mesh."""
        return self.tables + self.people

    def __str__(self) -> str:
        """Say it in a line."""
        mesh = f", up to {self.mesh:.0f} s more on a mesh" if self.mesh else ""
        return (
            f"about {self.seconds:.1f} s of processor time (tables {self.tables:.1f}, people"
            f" {self.people:.1f}){mesh}; {self.memory / 2**20:.0f} MiB"
        )


def estimate(
    family: Family, grid: Grid, people: int, ledger: int, meshed: int, known: bool
) -> Cost:
    """Estimate the cost of one question.

    Args:
        family: the mechanism along its parameter.
        grid: the grid of the ledger.
        people: how many are asked for.
        ledger: bytes that the ledger takes.
        meshed: how many people may be composed on a mesh.
        known: whether somebody has asked before, so that most tables are there.
    """
    members = Members(family, grid, family.directions[0])
    count, spent, nodes = members.positions.size, np.zeros(3), 0
    _timed(members, 0)  # the first one waits for functions to be loaded
    for i in np.linspace(0, grid.buckets, PROBED).astype(int).tolist():
        parts, size = _timed(members, i)
        spent, nodes = spent + parts, nodes + size
    tilts, contour, transform = spent * count / PROBED
    readings = 1 if grid.splines else 2
    tables = readings * (
        len(family.directions) * tilts
        + CONTOURS * contour
        + TABLES * (transform + COLUMN * count * NODES)
    )
    size = readings * (
        CONTOURS * 16 * count * nodes // PROBED + TABLES * 16 * grid.columns * 2 * NODES
    )
    each = readings * OVERHEAD * _product(grid.columns)
    each *= 1.0 + 0.3 * (len(family.directions) - 1)
    memory = ledger + size + people * BYTES + (40 << 20)
    tables *= MISSING if known else 1.0
    return Cost(tables, people * each, MESH * min(meshed, people), int(memory))


def _timed(members: Members, index: int) -> tuple[np.ndarray, int]:
    """Return seconds for tilts, a contour and a transform of one member, and its nodes."""
    at = [time.process_time()]
    loss = members.loss(index)
    row = tilted_row(loss, REACH)
    at.append(time.process_time())
    t = min(TILT, 0.9 * row) if row > 0.0 else 0.1
    try:
        law = loss.fork().covering(-1.0, t, t, FREQUENCY, 1e-20)
    except NumericError:
        return np.array([at[1] - at[0], 0.0, 0.0]), 0
    tilted = Tilted(Law.of((Step(law, 1),)), t)
    at.append(time.process_time())
    gridding.transform(tilted.centred, tilted.weight, NODES)
    at.append(time.process_time())
    return np.diff(at), tilted.weight.size


def _product(columns: int) -> float:
    """Return seconds a person for the products of a ledger row with the tables."""
    rows, table = np.ones((512, columns)), np.ones((columns, 2 * NODES))
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        rows @ table
        best = min(best, time.process_time() - start)
    return best / len(rows)
