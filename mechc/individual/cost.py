"""What a question will cost, before it is asked: tables, whose cost is the family's, and people.

Tables need every member of the grid tilted on a few contours, people a product of their ledger rows
with these, and those who are composed one by one an answer of their own. All are timed on a small
piece here, on the machine at hand and for the family at hand, and multiplied by how often they are
needed, as counted in runs. The work for a piece is limited (`loss.allowance`): where it does not
suffice, what it had taken by then stands for it, and the estimate says that it is a lower one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import gridding
from mechc.accountants.contours.characteristic import Law, Tilted
from mechc.errors import NumericError, UnsupportedError
from mechc.individual import singly
from mechc.individual.contours import BLOCK, Query
from mechc.individual.family import Family
from mechc.individual.ledger import multiply
from mechc.individual.splines import Grid
from mechc.individual.tilts import TILTS, TOO_FAR, Members
from mechc.loss.allowance import limited
from mechc.loss.privacy_loss import Step
from mechc.protocol import Floats

CONTOURS, TABLES = 9, 14  # made for a population, as counted
MISSING = 0.3  # share of the tables that other people than before still ask for
NODES = 420  # nodes of a table that most people need, and those of the first short sum
REACH = 240.0  # tilts of the members that are timed
TILT, FREQUENCY = 8.0, 128.0  # of a contour at most, and the latter over the former
OVERHEAD = 4.0  # seconds a person over those of the products alone
COLUMN = 5e-8  # seconds for each member and node of a table, to bound its errors
PROBED = 6  # members that are timed
WORK = 3e7  # units of `loss.allowance` that one of them may take, some .3 seconds
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
    """Estimate the cost of one question.

    Args:
        family: the mechanism along its parameter.
        grid: the grid of the ledger.
        people: how many are asked for.
        different: how many of them differ, as equal ones are answered once.
        ledger: bytes that the ledger takes.
        alone: how many people may be composed one by one.
        some: the steps of two or more of these, of whom all but the first are timed.
        typical: steps at every knot that people have on average.
        known: whether somebody has asked before, so that most tables are there.
        contours: whether tables are made at all.
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
    if not contours:
        return Cost(0.0, mesh, 0.0, memory, late)
    members = Members(family, grid, family.directions[0])
    count, spent, nodes = members.positions.size, np.zeros(3), 0
    probed = np.linspace(0, grid.buckets, PROBED).astype(int)
    _row(members, 0)  # the first one waits for functions to be loaded
    begin = time.process_time()
    rows = [_row(members, i) for i in probed.tolist()]
    spent[0], cut = time.process_time() - begin, any(row is None for row in rows)
    tilt = _tilt(typical, probed, rows)
    _contour(members, grid.buckets, tilt)
    for i, row in zip(probed.tolist(), rows, strict=True):
        if row is not None and row.size and TILTS[row.size - 1] < tilt:
            continue  # too far to matter there
        seconds, size, out = _contour(members, i, tilt)
        nodes, cut = nodes + size, cut or out
        spent[1:] += seconds
    tilts, contour, transform = spent * count / PROBED
    readings = 1 if grid.splines else 2
    rough = (len(family.directions) - 1) * (grid.buckets + 1) / count  # knots are enough there
    tables = (1.0 + rough) * tilts + CONTOURS * contour
    tables += TABLES * (transform + COLUMN * count * NODES)
    size = CONTOURS * 16 * count * nodes // PROBED + TABLES * 16 * grid.columns * 2 * NODES
    person = OVERHEAD * _product(grid.columns) * (1.0 + 0.3 * (len(family.directions) - 1))
    tables *= readings * (MISSING if known else 1.0)
    memory += readings * size
    return Cost(float(tables), readings * different * person, mesh, int(memory), cut or late)


def _row(members: Members, index: int) -> Floats | None:
    """Return K of one member at tilts up to `REACH`; None if that is more than it was given."""
    try:
        with limited(WORK, "cost"):
            row: Floats = members.row(index, REACH)[0]
            return row
    except UnsupportedError:
        return None


def _tilt(typical: Floats, probed: NDArray[np.int64], rows: Sequence[Floats | None]) -> float:
    """Return the saddle at `DELTA` of one with typical steps, t K' - K = -log delta, roughly.

    Contours are nearer where that is far.
    """
    t = TILTS[: max(2, *(0 if row is None else row.size for row in rows))]
    k = np.full((probed.size, t.size), TOO_FAR)
    for own, row in zip(k, rows, strict=True):
        if row is not None:
            own[: row.size] = row
    used = np.flatnonzero(typical)
    log_k = [np.interp(used, probed, column) for column in np.log(np.maximum(k, 1e-300)).T]
    total = np.exp(log_k) @ typical[used]
    found = np.gradient(total, np.log(t)) - total >= -math.log(DELTA)
    return min(float(t[found.argmax() if found.any() else -1]), TILT)


def _contour(members: Members, index: int, tilt: float) -> tuple[Floats, int, bool]:
    """Return seconds for a contour and a transform of one member, its nodes, and if cut."""
    at, size, cut = [time.process_time()], 0, False
    try:
        with limited(WORK, "cost"):
            law = members.loss(index).covering(-1.0, tilt, tilt, FREQUENCY * tilt, 1e-20)
            tilted = Tilted(Law.of((Step(law, 1),)), tilt)
            at.append(time.process_time())
            gridding.transform(tilted.centred, tilted.weight, NODES)
            size = tilted.weight.size
    except UnsupportedError:
        cut = True
    except NumericError:  # then there is no contour for those who used it
        pass
    at += [time.process_time()] * (3 - len(at))
    return np.diff(at), size, cut


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
