"""What a question will cost, before it is asked: tables, whose cost is the family's, and people.

Tables need every member of the grid at many tilts and on a few contours, people a product of their
ledger rows with these, and those who are composed one by one the laws of their steps. What is timed
here, on the machine at hand and for the family at hand, are a few members at the tilts that a
typical person needs, and a product by NumPy: nothing that is compiled is used but what the family's
own checks have used. The rest are ratios to these, counted in runs. The work is limited
(`numeric.allowance`): where that does not suffice, the estimate says that it is a lower one.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from mechc.errors import UnsupportedError
from mechc.individual import singly
from mechc.individual.contours import BLOCK, Query
from mechc.individual.family import Family
from mechc.individual.inversion import ABOVE
from mechc.individual.splines import Grid
from mechc.individual.tilts import REACHES, TILTS, at_tilts
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import limited
from mechc.protocol import Floats

MISSING = 0.2  # share of the tables that other people than before still ask for
NODES, TABLES = 420, 4  # nodes of a table that most people need, and tables in memory at once
LAWS = 640_000  # bytes of a member's laws, tilted, on all contours
OVERHEAD = 2.0  # seconds a person who differs over those of the products alone ...
ALIKE = 0.04  # ... and of everybody, to see who is alike
PRODUCT = 0.4  # seconds of a product over those of the same one by NumPy
SMALL = 8  # members that are timed
BUCKET = 3.0  # members in a bucket, two to four
CONTOURS = 0.5  # times the tables at real tilts, that those on contours take
LOADED = 1.0  # seconds until what is compiled is loaded
CHECKED = 100.0  # members that the check of their differences takes as long as
ALONE = 0.6  # times a member, that the law of a step takes in a composition
WORK = 4e8  # units of `numeric.allowance` that may be spent, some four seconds
QUERY = Query(math.log(1e-6), math.nan, 1e-4)
LONGEST = 2e-8 * singly.WORK  # seconds that all compositions take: a unit is some 10 ns
BYTES = 400  # of a person, besides the ledger: answers and choices in both directions


@dataclass(frozen=True)
class Cost:
    """An estimate, within a factor of 2.5 of what was spent where that was compared.

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
    steps: float,
    typical: Floats,
    known: bool,
    contours: bool,
) -> Cost:
    """Estimate the cost of one question to people of whom some are `different`.

    `ledger` is in bytes, `alone` are as many as may be composed one by one, of so many distinct
    `steps`; `typical` are steps at every knot that people have on average; most tables are there if
    they are `known`, and none are made without `contours`.
    """
    member, cut = _member(family, grid, typical)
    sides = len(family.directions)
    mesh = min(min(alone, people) * steps * sides * ALONE * member, LONGEST)
    memory = ledger + people * BYTES + (40 << 20)
    product = _product(grid.columns)
    same = people * ALIKE * product
    if not contours:
        return Cost(0.0, mesh + same, 0.0, memory, cut)
    memory += TABLES * 16 * grid.columns * 2 * NODES + int(LAWS * expected(grid))
    both = 1.0 if grid.splines or grid.listed else 2.0
    person = OVERHEAD * product * both * (0.7 + 0.3 * sides)
    tables = expected(grid) * sides * (1.0 + CONTOURS) * member
    tables += LOADED + (CHECKED * member if grid.splines else 0.0)
    tables *= MISSING if known else 1.0
    return Cost(tables, different * person + same, mesh, memory, cut)


def expected(grid: Grid) -> float:
    """Return about how many members tables need, before it is known how differences alternate."""
    return BUCKET * grid.buckets if grid.splines else grid.buckets + 1.0


def _member(family: Family, grid: Grid, typical: Floats) -> tuple[float, bool]:
    """Return seconds a member at real tilts, as far as typical steps need them; if cut off."""
    places = np.linspace(0, grid.buckets, min(SMALL, grid.buckets + 1)).astype(np.int64)
    nearest = np.abs(np.arange(grid.buckets + 1)[:, None] - places).argmin(axis=1)
    counts, cut = np.bincount(nearest, typical, places.size).astype(np.float64), False
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
    return (time.process_time() - begin) / places.size, cut


def _suffice(rows: list[Floats], counts: Floats) -> bool:
    """Whether Chernoff's bound is least well before the last tilts of members."""
    k = np.full((len(rows), max(row.shape[1] for row in rows)), np.inf)
    for own, row in zip(k, rows, strict=True):
        own[: row.shape[1]] = row[0]
    used = counts[: len(rows)] > 0.0
    total = counts[: len(rows)][used] @ k[used]
    return int(((total - QUERY.log_delta) / TILTS[: total.size]).argmin()) + ABOVE < total.size


def _product(columns: int) -> float:
    """Return seconds a person for the products of a ledger row with the tables."""
    rows, table, spent = np.ones((BLOCK, columns)), np.ones((columns, 2 * NODES)), []
    for _ in range(3):  # others may interrupt
        begin = time.process_time()
        np.einsum("ij,jk->ik", rows, table)
        spent.append(time.process_time() - begin)
    return PRODUCT * min(spent) / BLOCK
