"""Epsilon or delta of everyone in a ledger, in one direction.

People differ in their best contour. Each gets, from matrix products with the table of K(t), an
upper bound by Chernoff and a choice of contour, period and number of nodes; people with the same
choice form a group, and for a group log phi at all nodes is one matrix product of ledger rows with
a `ContourTable`. People whose answer is not yet sharp go into another round with more nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.individual import solve
from mechc.individual.account import THREADS
from mechc.individual.contours import Contour, ContourTable
from mechc.individual.family import Family
from mechc.individual.grid import Grid
from mechc.individual.ledger import Ledger
from mechc.individual.tilts import Members, Tilts

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

USELESS = 1e6  # an epsilon that says that no tilt was of use
SHARE = 0.02  # of the tolerance asked for, that images and truncation may take
ROUNDS = (1, 4, 16)  # nodes of the rounds, as multiples of the first choice
LEAST, MOST = 16, 1024  # nodes
PERIODS = 1.5  # periods are rounded up to powers of this
NEAR, FURTHER = 80.0, 4.0  # tilts looked at first, and how much further if somebody needs them
BLOCK = 1 << 11  # people handled at a time
HOPELESS = 3.0  # share of delta lost to truncation beyond which nobody tries more nodes
KEPT = 64  # tables beyond which a further question starts afresh


@dataclass(frozen=True)
class Query:
    """What is asked: epsilon at a delta, or delta at an epsilon (the other one is nan)."""

    log_delta: float
    epsilon: float
    rtol: float

    @property
    def inverse(self) -> bool:
        """Whether epsilon is asked for."""
        return math.isnan(self.epsilon)


@dataclass
class Answers:
    """Bounds for all people, and what keeps them apart.

    Attributes:
        lower, estimate, upper: shape (people,); estimate is nan where only Chernoff answered.
        numeric: share of delta lost to images, truncation and rounding.
        compression: share of delta lost to the tables' error between knots.
    """

    lower: Floats
    estimate: Floats
    upper: Floats
    numeric: Floats
    compression: Floats

    def meet(self, rows: Rows, other: Answers) -> None:
        """Keep what other answers for some of the people add.

        Args:
            rows: the people the other answers are for.
            other: valid for the same question.
        """
        with np.errstate(invalid="ignore"):
            better = other.numeric + other.compression < self.numeric[rows] + self.compression[rows]
        self.lower[rows] = np.fmax(self.lower[rows], other.lower)
        self.upper[rows] = np.fmin(self.upper[rows], other.upper)
        for name in ("estimate", "numeric", "compression"):
            own, new = getattr(self, name), getattr(other, name)
            own[rows] = np.where(better, new, own[rows])


@dataclass(frozen=True)
class Choices:
    """How to answer for each person.

    Attributes:
        at: tilt through which the contour goes, -1 where none is needed, -2 where the grid is too
            coarse for any.
        period: shortest period.
        nodes: estimate of the nodes needed.
        start: an epsilon to start from.
        bucket: the most revealing bucket with steps in it.
        saddle: tilt with the best Chernoff bound.
    """

    at: Rows
    period: Floats
    nodes: Floats
    start: Floats
    bucket: Rows
    saddle: Rows


class Evaluator:
    """One direction of a family on a grid, with the tables made so far."""

    def __init__(self, family: Family, grid: Grid, direction: str) -> None:
        """Remember what to tabulate; tables are made when someone needs them.

        What is kept for further questions is named by all that it depends on, so that an answer
        does not depend on the questions before it.
        """
        self.grid, self.members = grid, Members(family, grid, direction)
        self._known: dict[tuple[int, float], Tilts] = {}
        self._contours: dict[tuple[int, ...], Contour] = {}
        self._tables: dict[tuple[int, ...], dict[str, ContourTable]] = {}
        self.tilts: Tilts

    def run(
        self, ledger: Ledger, query: Query, rows: Rows, reading: str, least: int = 1
    ) -> Answers:
        """Answer for the people in `rows`.

        Args:
            ledger: the column totals.
            query: what is asked.
            rows: indices of people.
            reading: which table to read the ledger with, see `table`.
            least: people who have to share a table to make it worth its while.
        """
        if len(self._tables) > KEPT:
            self._contours.clear()
            self._tables.clear()
        answers, first = self.first(ledger, query, rows, reading)
        at, period, nodes, start = first.at, first.period, first.nodes, first.start
        todo = np.flatnonzero(at >= 0)
        for factor in ROUNDS:
            if todo.size == 0:
                break
            length = np.clip(nodes[todo] * factor, LEAST, MOST)
            power = np.ceil(np.log2(length)).astype(np.int64)
            step = np.ceil(np.log(period[todo] * factor**0.25) / math.log(PERIODS)).astype(np.int64)
            groups = [g for g in _groups(power, step, at[todo]) if g[0].size >= least]
            before, contours = answers.numeric.copy(), {}
            for i in {i for _, (_, _, i) in groups}:
                mine = at[todo] == i
                bucket = int(first.bucket[todo][mine].min())
                contours[i] = self._contour(i, step[mine], power[mine], bucket)
            for members, (n, j, i) in groups:
                table = self._table(contours[i], j, n)[reading]

                def work(part: Rows, table: ContourTable = table) -> None:
                    self._block(ledger, query, rows, part, table, start, answers, reading)

                in_blocks(todo[members], work)
            # a table of the largest size has been tried already by those who needed more; where
            # phi does not decay more nodes are of no use
            more = (nodes[todo] * factor < MOST) & (answers.numeric[todo] < HOPELESS)
            more &= answers.numeric[todo] < np.minimum(0.5 * before[todo], np.inf)
            todo = todo[more & self._open(answers, query, at, todo)]
        return answers

    def chernoff(self, ledger: Ledger, query: Query, rows: Rows) -> Floats:
        """Upper bounds from K(t) at real tilts alone (Renyi accounting).

        Args:
            ledger: the column totals.
            query: what is asked.
            rows: indices of people.
        """
        reading = "splines" if ledger.grid.splines else "worse"
        return self.first(ledger, query, rows, reading)[0].upper

    def first(
        self, ledger: Ledger, query: Query, rows: Rows, reading: str
    ) -> tuple[Answers, Choices]:
        """Return Chernoff bounds and what they say about everybody's contour."""
        n = rows.size
        upper, start, period, nodes = (np.empty(n) for _ in range(4))
        at, bucket, saddle = (np.empty(n, np.int64) for _ in range(3))
        asked = (query.log_delta, query.epsilon, query.rtol, math.log(SHARE * query.rtol))

        near = self._near(ledger, query, rows, reading)
        t, columns = self.tilts.t, self.tilts.around
        for who, (place,) in _groups(near):
            begin = max(place - 1 - solve.BELOW // solve.STRIDE, 0) * solve.STRIDE
            end = min((place + 1) * solve.STRIDE + solve.ABOVE + 3, t.size)
            table, seen = columns(reading, begin, end, solve.STRIDE), t[begin:end]

            def work(who: Rows, table: Floats = table, seen: Floats = seen, b: int = begin) -> None:
                found = solve.choose(ledger.times(rows[who], table), seen, *asked)
                upper[who], start[who], period[who], nodes[who] = found[:, :4].T
                at[who], saddle[who] = found[:, 4:].T + b * (found[:, 4:].T >= 0)
                bucket[who] = ledger.first_bucket(rows[who])

            in_blocks(who, work)
        untouched = near < 0
        upper[untouched] = 0.0 if query.inverse else -np.inf
        at[untouched] = -1
        if query.inverse:
            upper = np.where(upper < USELESS, np.maximum(upper, 0.0), np.inf)
            floor = np.zeros(n)
        else:
            upper = np.exp(np.minimum(upper, 0.0))
            floor = np.full(n, max(0.0, -math.expm1(query.epsilon)))
            upper = np.maximum(upper, floor)
        estimate = np.where(upper == floor, floor, np.nan)
        open_ = np.where(at >= 0, np.inf, 0.0)
        answers = Answers(floor, estimate, upper, open_, np.where(at != -1, np.inf, 0.0))
        return answers, Choices(at, period, nodes, start, bucket, saddle)

    def _near(self, ledger: Ledger, query: Query, rows: Rows, reading: str) -> Rows:
        """Return which of every `STRIDE`-th tilt gives the best Chernoff bound; -1 if untouched.

        Tabulates as many tilts as somebody needs.
        """
        near = np.empty(rows.size, np.int64)

        def work(who: Rows) -> None:
            k = ledger.times(rows[who], columns)
            if query.inverse:
                bound = (k + _log_peaks(t) - query.log_delta) / t
            else:
                bound = k + _log_peaks(t) - query.epsilon * t
            near[who] = np.where(k[:, -1] == 0.0, -1, bound.argmin(axis=1))

        self.tilts = self.tilts_for(ledger, rows)
        todo = np.arange(rows.size)
        while True:
            t = self.tilts.t[:: solve.STRIDE]
            columns = self.tilts.columns(reading)[0][:, :: solve.STRIDE]
            in_blocks(todo, work)
            todo = todo[(near[todo] + 1) * solve.STRIDE + solve.ABOVE > self.tilts.t.size - 2]
            if self.tilts.complete or todo.size == 0:
                return near
            self.tilts = self._tilts(self.tilts.bucket, FURTHER * float(self.tilts.t[-1]))

    def tilts_for(self, ledger: Ledger, rows: Rows) -> Tilts:
        """Return K of all members that some people used, at the tilts looked at first."""
        return self._tilts(int(ledger.first_bucket(rows).min(initial=self.grid.buckets)), NEAR)

    def _tilts(self, bucket: int, reach: float) -> Tilts:
        """K from this bucket on, at tilts up to `reach`."""
        key = (bucket, reach)
        if key not in self._known:
            self._known[key] = Tilts(self.members, bucket, reach)
        return self._known[key]

    def _block(
        self,
        ledger: Ledger,
        query: Query,
        rows: Rows,
        part: Rows,
        table: ContourTable,
        start: Floats,
        answers: Answers,
        reading: str,
    ) -> None:
        """Solve for some people with one table and keep what is sharper than before."""
        right = (self.tilts.t > table.c * 1.0001) & (self.tilts.t < table.c * 5.0)
        k = self.tilts.columns(reading)[0][:, right]
        products = ledger.times(rows[part], np.concatenate([k, table.table], axis=1))
        target = math.exp(query.log_delta) if query.inverse else query.epsilon
        out = solve.solve(
            products, table.nodes, table.c, table.period, table.growth, table.phase,
            table.bands, self.tilts.t[right], start[part], target, query.inverse,
        )  # fmt: skip
        answers.meet(part, Answers(*out.T))

    def _open(self, answers: Answers, query: Query, at: Rows, who: Rows) -> NDArray[np.bool_]:
        """Who would gain from more nodes."""
        numeric = answers.numeric[who]
        scale = answers.upper[who] * self.tilts.t[at[who]] if query.inverse else 1.0
        enough = 5.0 * SHARE * query.rtol * scale
        with np.errstate(invalid="ignore"):
            return ~(numeric <= np.maximum(enough, 0.1 * answers.compression[who]))

    def _contour(self, at: int, step: Rows, power: Rows, bucket: int) -> Contour:
        """Tilt the members once for all periods that are needed on a contour."""
        octave = int(np.ceil(np.log2((2.0 * math.pi * 2.0**power / PERIODS**step).max())))
        key = (self.tilts.bucket, at, octave, bucket)
        if key not in self._contours:
            self._contours[key] = Contour(self.tilts, at, octave, bucket)
        return self._contours[key]

    def _table(self, contour: Contour, step: int, power: int) -> dict[str, ContourTable]:
        key = (*contour.key, step, power)
        if key not in self._tables:
            self._tables[key] = ContourTable.of(contour, PERIODS**step, 2**power)
        return self._tables[key]


def _groups(*keys: Rows) -> Iterator[tuple[Rows, tuple[int, ...]]]:
    """Yield the positions that share each combination of keys."""
    order = np.lexsort(keys)
    table = np.stack(keys)[:, order]
    cuts = np.flatnonzero((np.diff(table, axis=1) != 0).any(axis=0)) + 1
    for part in np.split(order, cuts):
        yield part, tuple(int(k[part[0]]) for k in keys)


def _log_peaks(s: Floats) -> Floats:
    return np.asarray(s * np.log(s / (1.0 + s)) - np.log1p(s))


def in_blocks(who: Rows, work: Callable[[Rows], None]) -> None:
    """Run `work` over parts of `who` in threads."""
    parts = [who[a : a + BLOCK] for a in range(0, who.size, BLOCK)]
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(work, parts):
            pass
