"""What a question will cost, before it is asked: tables, whose cost is the family's, and people.

Tables need every member of the grid tilted on a few contours, people a product of their ledger rows
with these, and those who are composed one by one an answer of their own. All are timed on a small
piece here, on the machine at hand and for the family at hand, tables on a grid of few buckets, and
multiplied by how often they are needed, as counted in runs. The work for a piece is limited
(`numeric.allowance`): where it does not suffice, what it had taken by then stands for it, and the
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
from mechc.individual.contours import BLOCK, Asked, Evaluator, Query
from mechc.individual.family import Family
from mechc.individual.ledger import Ledger, multiply
from mechc.individual.splines import Grid
from mechc.individual.tilts import Members
from mechc.numeric.allowance import limited
from mechc.protocol import Floats

FURTHER = 2.0  # times the tables of one person, that a population takes
MISSING = 0.2  # share of the tables that other people than before still ask for
NODES = 420  # nodes of a table that most people need
OVERHEAD = 4.0  # seconds a person who differs over those of the products alone ...
ALIKE = 0.04  # ... and of everybody, to see who is alike
SMALL = 8  # buckets of the grid whose tables are timed
WORK = 4e8  # units of `numeric.allowance` that these may take, some four seconds
ALONE = 3e8  # that a person may: with less than they need they take longer, by other methods
QUERY, STEPS = Query(math.log(1e-6), math.nan, 1e-4), 64  # of a composition of so many at most
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
    for steps in some if alone else ():  # the first one waits for functions to be loaded
        begin = time.process_time()
        (low, _, high), _ = singly.answer(family, steps[:STEPS], QUERY, ALONE)
        each.append((time.process_time() - begin) * max(len(steps) / STEPS, 1.0))
        late |= not high - low <= 0.1 * high
    mesh = min(alone * float(np.mean(each[1:] or each or [0.0])), LONGEST)
    memory = ledger + people * BYTES + (40 << 20)
    product = _product(grid.columns)
    same = people * ALIKE * product
    if not contours:
        return Cost(0.0, mesh + same, 0.0, memory, late)
    for _ in range(2):  # functions are loaded first
        tables, cut = _tables(family, grid, typical)
    memory += int(2.0 * FURTHER * 16 * grid.columns * 2 * NODES)
    both = 1.0 if grid.splines or grid.listed else 2.0
    person = OVERHEAD * product * both * (0.7 + 0.3 * len(family.directions))
    tables *= MISSING if known else 1.0
    return Cost(tables, different * person + same, mesh, memory, cut or late)


def _tables(family: Family, grid: Grid, typical: Floats) -> tuple[float, bool]:
    """Return seconds for tables, as of a person with typical steps on few buckets; if cut off."""
    small = replace(grid, buckets=min(SMALL, grid.buckets))
    if grid.listed:
        some = grid.listed[:: -(-len(grid.listed) // SMALL)]
        small = replace(grid, buckets=len(some) - 1, listed=some)
    ledger, spent = Ledger(1, small), 0.0
    place = np.arange(typical.size) * small.buckets // max(grid.buckets, 1)
    counts = np.bincount(place, typical)
    for value, count in zip(small.knots.tolist(), counts.tolist(), strict=True):
        ledger.add(family.parameter, [value], max(round(count), 1))
    asked, cut = Asked(ledger, QUERY, np.zeros(1, np.int64)), False
    for direction in family.directions:
        evaluator = Evaluator(family, small, direction)
        begin = time.process_time()
        try:
            with limited(WORK, "cost"):
                evaluator.run(*evaluator.first(asked))
        except UnsupportedError:
            cut = True
        more = Members(family, grid, direction).positions.size / evaluator.members.positions.size
        spent += FURTHER * more * (time.process_time() - begin)
    return spent, cut


def _product(columns: int) -> float:
    """Return seconds a person for the products of a ledger row with the tables."""
    rows, table, spent = np.ones((BLOCK, columns)), np.ones((columns, 2 * NODES)), []
    for _ in range(4):  # the first one waits for the function to be loaded
        begin = time.process_time()
        multiply(rows, table, np.empty((BLOCK, 2 * NODES)))
        spent.append(time.process_time() - begin)
    return min(spent) / BLOCK
