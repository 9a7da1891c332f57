"""What a question will cost, before it is asked: tables, whose cost is the family's, and people.

Tables need every member of the grid at many tilts and on a few contours, people a product of their
ledger rows with these, and those who are composed one by one the laws of their steps. What is timed
here, on the machine at hand and for the family at hand, are a few members at the tilts that typical
people need, and a product by NumPy; how many nodes these people need is planned as for all, by the
members timed. Nothing that is compiled is used but what the family's own checks have used. The rest
are ratios to these, counted in runs. The work is limited (`numeric.allowance`): where that does not
suffice, the estimate says that it is a lower one.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from mechc.errors import UnsupportedError
from mechc.individual import singly
from mechc.individual.contours import AWAY, BLOCK, LEAST, MOST, SHARE, Query, rare
from mechc.individual.family import Family
from mechc.individual.inversion import ABOVE, KNOWN, LESSON, NODES, STRIDE, TILT, choose
from mechc.individual.splines import Grid
from mechc.individual.tilts import FORBIDDEN, REACHES, TILTS, at_tilts
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import limited
from mechc.numeric.logs import log_peak
from mechc.protocol import Floats

MISSING = 0.2  # share of the tables that other people than before still ask for
TABLES = 4  # in memory at once
LAWS = 640_000  # bytes of a member's laws, tilted, on all contours
# in multiplications: of a person who differs, whatever the ledger is like; of each node; of
# everybody and each column, to see who is alike; and columns besides those of nodes
PERSON, NODE, ALIKE, BESIDE = 75_000.0, 300.0, 60.0, 220.0
WIDE = 840  # columns of a product that is timed
PLANNED = 2.8  # nodes taken, over those planned
PRODUCT = 0.16  # seconds of a product over those of the same one by NumPy
SMALL = 8  # members that are timed, at tilts that are enough for ...
MOSTLY = 0.9  # ... so many of the people
BUCKET = 3.0  # members in a bucket, two to four
CONTOURS = 0.8  # times the tables at real tilts, that those on contours take
LOADED = 0.6  # seconds until what is compiled is loaded
CHECKED = 100.0  # members that the check of their differences takes as long as
ALONE = 0.6  # times a member, that a step takes in a composition, ...
FIRST = 8  # ... and how many more steps it takes as long as
AGAIN = 2.0  # times that those take who need more nodes than there are
WORK = 4e8  # units of `numeric.allowance` that may be spent, some four seconds
QUERY = Query(math.log(1e-6), math.nan, 1e-4)
LONGEST = 2e-8 * singly.WORK  # seconds that all compositions take: a unit is some 10 ns
BYTES = 400  # of a person, besides the ledger: answers and choices in both directions


@dataclass(frozen=True)
class Cost:
    """An estimate, within a factor of 1.5 of what was spent in most of the runs compared.

    Attributes:
        tables: seconds of processor time for tables that are likely not to be there yet.
        people: seconds for the people, with those composed one by one where these are likely.
        mesh: seconds more if otherwise as many as allowed have to be composed one by one.
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
    family: Family, grid: Grid, people: int, different: int, ledger: int, alone: int, steps: float,
    typical: Floats, known: bool, contours: bool,
) -> Cost:  # fmt: skip
    """Estimate the cost of one question to people of whom some are `different`.

    `ledger` is in bytes, `alone` are as many as may be composed one by one, of so many distinct
    `steps`; `typical` are steps at every knot of some people; most tables are there if they are
    `known`, and none are made without `contours`.
    """
    member, planned, cut = _members(family, grid, typical)
    nodes = float((np.clip(planned, LEAST, MOST) * np.where(planned > MOST, AGAIN, 1.0)).mean())
    sides = len(family.directions)
    mesh = min(min(alone, different) * (FIRST + steps) * sides * ALONE * member, LONGEST)
    memory = ledger + people * BYTES + (40 << 20)
    product = _product(grid.columns)
    same = people * ALIKE * grid.columns * product
    if not contours:
        return Cost(0.0, mesh + same, 0.0, memory, cut)
    memory += TABLES * 16 * grid.columns * MOST + int(LAWS * expected(grid))
    sharp = grid.splines or bool(grid.listed)
    person = PERSON + NODE * nodes + grid.columns * (2.0 * nodes + BESIDE)
    person *= (1.0 if sharp else 2.0) * (0.7 + 0.3 * sides) * product
    tables = expected(grid) * sides * (1.0 + CONTOURS) * member
    tables += LOADED + (CHECKED * member if grid.splines else 0.0)
    tables *= MISSING if known else 1.0
    all_ = different * person + same
    if not sharp or (planned > MOST).mean() * different > rare(different):
        all_, mesh = all_ + mesh, 0.0
    return Cost(tables, all_, mesh, memory, cut)


def expected(grid: Grid) -> float:
    """Return about how many members tables need, before it is known how differences alternate."""
    return BUCKET * grid.buckets if grid.splines else grid.buckets + 1.0


def _members(family: Family, grid: Grid, typical: Floats) -> tuple[float, Floats, bool]:
    """Return seconds a member at real tilts, as far as typical people need them; if cut off.

    Between these, the nodes that typical people need.
    """
    places = np.linspace(0, grid.buckets, min(SMALL, grid.buckets + 1)).astype(np.int64)
    nearest = np.abs(np.arange(grid.buckets + 1)[:, None] - places).argmin(axis=1)
    counts, cut = typical @ np.eye(places.size)[nearest], False
    for values in ([0.5 * sum(family.span)], grid.knots[places].tolist()):  # functions are loaded
        begin, rows = time.process_time(), [np.empty((3, 0)) for _ in values]
        try:
            with limited(WORK, "cost"):
                laws: list[PrivacyLoss | None] = [*family.losses(values, "remove")]
                for reach in REACHES:
                    at_tilts(laws, rows, reach)
                    if _suffice(rows, counts):
                        break
        except UnsupportedError:
            cut = True
    member = (time.process_time() - begin) / places.size
    return member, _nodes(grid, rows, counts), cut


def _nodes(grid: Grid, rows: list[Floats], counts: Floats) -> Floats:
    """Return how many nodes people with these counts of some members need, inf if none serve."""
    t = TILTS[: max(row.shape[1] for row in rows)].copy()
    table = np.zeros((len(rows), 3, t.size))
    table[:, 0] = FORBIDDEN
    for own, row in zip(table, rows, strict=True):
        own[:, : row.shape[1]] = row
    k, error, bend = np.moveaxis(table, 1, 0)
    sums = counts @ np.concatenate([error[:, ::STRIDE], k, bend[:, ::STRIDE]], axis=1)
    out, unknown = np.empty((KNOWN + 1, len(counts))), np.full(len(counts), np.nan)
    choose.py_func(
        sums, t, np.asarray(log_peak(t)), np.ones(t.size, np.bool_), QUERY.log_delta, math.nan,
        QUERY.rtol, math.log(SHARE * QUERY.rtol), AWAY if grid.listed else 0.0, unknown,
        np.full(len(counts), t.size), np.full((t.size, LESSON), np.nan), out,
    )  # fmt: skip
    return np.where(out[TILT] == -2.0, np.inf, PLANNED * out[NODES])


def _suffice(rows: list[Floats], counts: Floats) -> bool:
    """Whether most Chernoff bounds are least well before the last tilts of members."""
    k = np.full((len(rows), max(row.shape[1] for row in rows)), FORBIDDEN)
    for own, row in zip(k, rows, strict=True):
        own[: row.shape[1]] = row[0]
    bound = (counts[:, : len(rows)] @ k - QUERY.log_delta) / TILTS[: k.shape[1]]
    return bool((bound.argmin(axis=1) + ABOVE < k.shape[1]).mean() >= MOSTLY)


def _product(columns: int) -> float:
    """Return seconds of a multiplication in the products of ledger rows with the tables."""
    rows, table, spent = np.ones((BLOCK, columns)), np.ones((columns, WIDE)), []
    for _ in range(3):  # others may interrupt
        begin = time.process_time()
        np.einsum("ij,jk->ik", rows, table)
        spent.append(time.process_time() - begin)
    return PRODUCT * min(spent) / (rows.size * WIDE)
