"""What a question will cost, before it is asked: tables, whose cost is the family's, and people.

Tables need every member of the grid tilted on a few contours, people a product of their ledger rows
with these, and those who are composed one by one an answer of their own. All are timed on a small
piece here, on the machine at hand and for the family at hand, tables on a grid of few buckets, and
multiplied by how often they are needed, as counted in runs. The work for a piece is limited
(`loss.allowance`): where it does not suffice, what it had taken by then stands for it, and the
estimate says that it is a lower one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mechc.errors import UnsupportedError
from mechc.individual import singly
from mechc.individual.contours import BLOCK, Contour, Query
from mechc.individual.family import Family
from mechc.individual.ledger import multiply
from mechc.individual.splines import Grid
from mechc.individual.tilts import TOO_FAR, Members, Tilts
from mechc.numeric.allowance import limited
from mechc.protocol import Floats

CONTOURS, TABLES = 1.5, 4.0  # that a population takes, in those that are timed: the short ones of
# first guesses are cheaper
MISSING = 0.2  # share of the tables that other people than before still ask for
NODES = 420  # nodes of a table that most people need
REACH = 240.0  # tilts of the members that are timed
TILT, FREQUENCY, PERIOD = 8.0, 128.0, 4.0  # of a contour at most, frequency over tilt, of a table
OVERHEAD = 4.0  # seconds a person who differs over those of the products alone ...
ALIKE = 0.04  # ... and of everybody, to see who is alike
SMALL = 8  # buckets of the grid whose tables are timed, after those of one with fewer: functions
# are loaded then
WORK = 2e8  # units of `loss.allowance` that these may take, some two seconds
ALONE = 3e8  # that a person may: with less than they need they take longer, by other methods
DELTA, STEPS = 1e-6, 64  # of a composition of so many steps at most that is timed
LONGEST = 2e-8 * singly.WORK  # seconds that all compositions take: a unit is some 10 ns
BYTES = 250  # of a person, besides the ledger: answers and choices in both directions


@dataclass(frozen=True)
class Cost:
    """An estimate, within a factor of two of what was spent where that was compared.

    Attributes:
        tables: seconds of processor time for tables that are likely not to be there yet.
        people: seconds for the people.
        mesh: seconds more if as many people as allowed have to be composed one by one.
        memory: bytes in all, the ledger included.
        at_least: whether something that was timed took more than it was given.
    """

    tables: float
    people: float
    mesh: float
    memory: int
    at_least: bool = False

    @property
    def seconds(self) -> float:
        """Seconds without people composed one by one."""
        return self.tables + self.people

    def __str__(self) -> str:
        """Say it in a line."""
        mesh = f", up to {self.mesh:.0f} s more one by one (mesh=)" if self.mesh else ""
        return (
            f"{'at least' if self.at_least else 'about'} {self.seconds:.1f} s of processor time"
            f" (tables {self.tables:.1f}, people {self.people:.1f}){mesh};"
            f" {self.memory / 2**20:.0f} MiB"
        )


def estimate(
    family: Family,
    grid: Grid,
    people: int,
    different: int,
    ledger: int,
    alone: int,
    some: Sequence[singly.Counts],
    typical: Floats,
    known: bool,
    contours: bool,
) -> Cost:
    """Estimate the cost of one question to people of whom some are `different`.

    `ledger` is in bytes, `alone` are as many as may be composed one by one, like `some` with these
    steps, of whom all but the first are timed; `typical` are steps at every knot that people have
    on average; most tables are there if they are `known`, and none are made without `contours`.
    """
    alone, each, late = min(alone, people), [], False
    query = Query(math.log(DELTA), math.nan, 1e-4)
    for steps in some if alone else ():  # the first one waits for functions to be loaded
        begin = time.process_time()
        (low, _, high), _ = singly.answer(family, steps[:STEPS], query, ALONE)
        each.append((time.process_time() - begin) * max(len(steps) / STEPS, 1.0))
        late |= not high - low <= 0.1 * high
    mesh = min(alone * float(np.mean(each[1:] or each or [0.0])), LONGEST)
    memory = ledger + people * BYTES + (40 << 20)
    product = _product(grid.columns)
    same = people * ALIKE * product
    if not contours:
        return Cost(0.0, mesh + same, 0.0, memory, late)
    for buckets in (SMALL - 1, SMALL):
        spent, nodes, members, cut = _tables(family, grid, buckets, typical)
    count = Members(family, grid, family.directions[0]).positions.size
    others = len(family.directions) - 1
    tilts, contour, table = spent * count / members
    made = (1.0 + others) * tilts + CONTOURS * contour + TABLES * table
    made *= MISSING if known else 1.0
    size = CONTOURS * 16 * count * nodes // members + TABLES * 16 * grid.columns * 2 * NODES
    person = (
        OVERHEAD * product * (1.0 + 0.3 * others) * (1.0 if grid.splines or grid.listed else 2.0)
    )
    return Cost(made, different * person + same, mesh, int(memory + size), cut or late)


def _tables(
    family: Family, grid: Grid, buckets: int, typical: Floats
) -> tuple[Floats, int, int, bool]:
    """Return seconds for K, a contour and a table on few buckets, nodes, members, and if cut off.

    The contour goes through the saddle at `DELTA` of one with typical steps, t K' - K = -log delta,
    roughly.
    """
    small = replace(grid, buckets=buckets, splines=True)
    if grid.listed:
        some = grid.listed[:: -(-len(grid.listed) // buckets)]
        small = replace(grid, buckets=len(some) - 1, listed=some)
    members, nodes, cut = Members(family, small, family.directions[0]), 0, False
    place = np.arange(typical.size) * small.buckets / max(grid.buckets, 1)
    place = np.rint(place).astype(np.int64)
    at = [time.process_time()]
    try:
        with limited(WORK, "cost"):
            tilts = Tilts(members, (0, small.buckets), REACH)
            at.append(time.process_time())
            total = typical @ np.nan_to_num(tilts.k[place, 0], nan=TOO_FAR)
            there = np.gradient(total, np.log(tilts.t)) - total >= -math.log(DELTA)
            there |= tilts.t >= TILT
            i = int(there.argmax() if there.any() else there.size - 1)
            reach = FREQUENCY * float(tilts.t[i])
            contour = Contour(tilts, i, reach, tilts.span)
            at.append(time.process_time())
            contour.table(PERIOD, NODES)
            nodes = contour.size
    except UnsupportedError:
        cut = True
    at += [time.process_time()] * (4 - len(at))
    return np.diff(at), nodes, members.positions.size, cut


def _product(columns: int) -> float:
    """Return seconds a person for the products of a ledger row with the tables."""
    rows, table, spent = np.ones((BLOCK, columns)), np.ones((columns, 2 * NODES)), []
    out = np.empty((BLOCK, 2 * NODES))
    multiply(rows, table, out)  # waits for the function to be loaded
    for _ in range(3):
        start = time.process_time()
        multiply(rows, table, out)
        spent.append(time.process_time() - start)
    return min(spent) / len(rows)
