"""Epsilon or delta of everyone in a ledger, in one direction.

log phi(y) = log M(c + iy) - log M(c) adds up over a person's steps, so that everything is a product
of ledger rows with tables:

1. with K at real tilts: an upper bound by Chernoff, a contour and a period for everybody;
2. on each contour, with bounds on log |phi| beyond some frequencies: how many nodes are needed, and
   what is left out beyond them;
3. for all who share contour and period, with log phi at the nodes: the trapezoid sum, and by
   Newton's method epsilon with both its ends (`inversion`). Along with it come the errors of the
   tables between knots, in bands of nodes.

Those whose sum is not sharp yet get one more round with more nodes.

The paper's evaluation of individual deltas: discretised losses, FFT and the Plancherel theorem.

Section D of Koskela, Tobaben and Honkela (2023): each bucket's loss is put on an equidistant grid
of n points over [-L, L), its transform F_i is computed once, and for counts k_i

    delta(epsilon) = (1/n) < F(w_epsilon), prod F_i^{k_i} >,  w_l = max(0, 1 - e^{epsilon - s_l}),

so that no inverse transform is needed per person. It is here for comparison: the discretisation
and the wrap-around at +-L carry no bound, and each person costs n complex powers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.accountants.contours import decay, gridding
from mechc.accountants.contours.characteristic import Law, Tilted, log_phi
from mechc.errors import NumericError
from mechc.individual import inversion
from mechc.individual.budget import PathLike
from mechc.individual.family import Family
from mechc.individual.ledger import Ledger
from mechc.individual.splines import Grid
from mechc.individual.storage import Shelf, TakesTurns
from mechc.individual.tilts import FORBIDDEN, Members, Tilts, per_column
from mechc.kernel import closure
from mechc.loss.privacy_loss import PrivacyLoss, Step

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

PROVEN = 64  # buckets between which decay is proven
SAMPLED = 0.9  # share of the proven decay that is relied on between those knots
SHELLS, SHELL = 20, math.sqrt(2.0)  # frequencies beyond which phi is bounded, and their ratio
GRIDDED = 1 << 15  # nodes times frequencies from which phi is found by gridding
FLOOR = 1e-20  # share of a tilted law that need not resolve frequencies
USELESS = 1e6  # an epsilon that says that no tilt was of use
SHARE, TAIL = 0.02, 0.1  # of the tolerance asked for, that images and truncation may take
REACHES = (240.0, 4000.0, 1e7)  # tilts looked at, the fewest that are enough for everybody
PILOT = 128  # nodes of the sum that says where everybody's answer is, before anything is proven
ROUNDS = (4.0, 8.0)  # frequencies resolved, as multiples of a guess by K''
LEAST, MOST = 16, 2048  # nodes
BAND = 1.08  # ratio of the nodes at which bands of errors begin
SPANS = 20  # parts of the grid at whose ends tables begin and end
PERIODS = 1.5  # periods are rounded up to powers of this
BLOCK = 1 << 10  # people handled at a time
OPEN = 1e3  # share of delta lost beyond which more nodes are not tried
KEPT = 64  # contours beyond which a further question starts afresh


@functools.cache
def code() -> str:
    """Return the digest of the code that tables depend on."""
    return closure.digest(Path(__file__).parents[1], __name__)


@dataclass(frozen=True, eq=False)
class _Law:
    """One member, tilted.

    Attributes:
        centred, weight: losses less their mean, and weights.
        mean: of the losses.
        lost: error of phi.
    """

    centred: Floats
    weight: Floats
    mean: float
    lost: float

    def log_phi(self, h: float, count: int) -> tuple[Floats, Floats, float]:
        """Return log |phi| and its argument at h, ..., count h, and the rounding of phi."""
        if self.weight.size * count >= GRIDDED:
            phi, error = gridding.transform(h * self.centred, self.weight, count)
            return np.log(np.maximum(np.abs(phi), 1e-300)), np.angle(phi), error
        re, im, one = np.empty(count), np.empty(count), np.ones(1)
        ends = np.array([0, self.weight.size])
        log_phi(ends, one, self.centred, self.weight, h, 1, count + 1, re, im)
        return re, im, 1e-15


class Contour:
    """All members tilted at one c: log phi at nodes, and how small |phi| stays beyond them.

    Attributes:
        c: the real part.
        key: what tells this contour from others of the same members.
        frequency: the |Im z| up to which members are resolved.
        beyond: bounds on log |phi| beyond the frequencies `frequency` / SHELL^m, for every column
            of a ledger, shape (columns, SHELLS).
    """

    def __init__(
        self,
        tilts: Tilts,
        at: int,
        frequency: float,
        span: tuple[int, int],
        reading: str,
        key: tuple[Any, ...],
        proven: bool = True,
        shelf: Shelf | None = None,
    ) -> None:
        """Remember what to tilt; knots between two buckets alone if nothing is proven."""
        self.key, self._span, self._proven = key, span, proven
        self.tilts, self.at, self.frequency, self._reading = tilts, at, frequency, reading
        self.c = float(tilts.t[at])
        self.shelf = shelf
        found = None
        if proven and shelf is not None:
            found = shelf.take(("beyond", *key), self._fading)
        self.beyond: Floats = (found or self._fading())["beyond"] if proven else np.empty(0)

    @cached_property
    def _laws(self) -> tuple[dict[int, _Law], Floats]:
        """The members that matter, tilted, and bounds on log |phi| at the knots, for each shell."""
        members, n, tilts = self.tilts.members, self.tilts.members.grid.buckets, self.tilts
        index = np.arange(members.positions.size)
        near = ~np.isnan(tilts.k[:, 0, self.at])
        fades = ((index % self._stride == 0) & (index < n)) | (index == n)
        fades &= near & members.needed(self._span, self._stride) & self._proven
        wanted = near & members.needed(self._span) & (self._proven | (index <= n))
        laws: dict[int, _Law] = {}
        at_knots = np.zeros((n + 1, SHELLS))
        for i in np.flatnonzero(wanted | fades).tolist():
            far = 1.01 * self.frequency
            try:
                loss = members.loss(i).covering(-1.0, self.c, self.c, far, FLOOR)
            except NumericError:  # then there is no answer for those who used the member
                continue
            tilted = Tilted(Law.of((Step(loss, 1),)), self.c)
            lost = 4.0 * loss.tolerance + 2.0 * tilted.lost
            laws[i] = law = _Law(tilted.centred, tilted.weight, float(tilted.mean[0]), lost)
            if fades[i]:
                at_knots[i] = decay.log_sups(
                    law.centred, law.weight, float(tilted.spread[0]), float(tilted.slack[0]),
                    decay.variation(loss, self.c), self.frequencies,
                )  # fmt: skip
        return laws, at_knots

    @property
    def _stride(self) -> int:
        """Decay is proven at every so many knots: |phi| beyond the nodes varies slowly."""
        return max(1, self.tilts.members.grid.buckets // PROVEN)

    def _fading(self) -> dict[str, Floats]:
        """Tabulate `beyond`."""
        members, n, at_knots = self.tilts.members, self.tilts.members.grid.buckets, self._laws[1]
        below = np.arange(n) // self._stride * self._stride
        above = np.minimum(below + self._stride, n)
        buckets = SAMPLED * np.maximum(at_knots[below], at_knots[above])
        beyond = np.zeros((members.grid.columns, SHELLS))
        if self._reading == "splines":
            beyond[:-1] = per_column(buckets, self._span)
        else:
            beyond[:n] = buckets
        if self._reading != "better":
            beyond[-1] = SAMPLED * at_knots[n]
        return {"beyond": beyond}

    @property
    def frequencies(self) -> Floats:
        """Where bounds on |phi| begin, the largest first."""
        return np.asarray(self.frequency / SHELL ** np.arange(SHELLS))

    def nodes(self, h: float, count: int) -> tuple[NDArray[np.complex128], Floats]:
        """Return log M(c), log phi(h), ..., log phi(count h) of the members, and errors of log M.

        nan for members that are too far; shape (members, count + 1) each.
        """
        k = self.tilts.k
        values = np.full((k.shape[0], count + 1), np.nan, np.complex128)
        errors = np.full(values.shape, np.nan)
        turn = h * np.arange(1.0, count + 1.0)
        for i, law in self._laws[0].items():
            re, im, error = law.log_phi(h, count)
            values[i, 0], errors[i, 0] = k[i, :2, self.at]
            values[i, 1:] = re + 1j * (np.unwrap(im) + turn * law.mean)
            # log of the factor that |phi| may be larger by: products of factors bound products
            errors[i, 1:] = errors[i, 0] + np.logaddexp(0.0, math.log(law.lost + error) - re)
        return values, errors

    def table(self, period: float, count: int) -> ContourTable:
        """Return the nodes c + inh, n <= count, as columns."""
        make = partial(self._tabulated, period, count)
        found = None if self.shelf is None else self.shelf.take((*self.key, period, count), make)
        z = self.c + 2j * math.pi / period * np.arange(count + 1.0)
        growth = np.abs(z * (z + 1.0)) / (self.c * (self.c + 1.0))
        phase = np.angle(z[1:]) + np.angle(z[1:] + 1.0)
        right = self.tilts.t[self._right]
        return ContourTable(
            self.c, period, count, growth, phase, _bands(count), right, **(found or make())
        )

    @property
    def _right(self) -> NDArray[np.bool_]:
        """Which tilts bound the right images."""
        return np.asarray((self.tilts.t > self.c * 1.0001) & (self.tilts.t < self.c * 5.0))

    def _tabulated(self, period: float, count: int) -> dict[str, Floats]:
        """Return the columns of `table`."""
        members, h = self.tilts.members, 2.0 * math.pi / period
        values, errors = self.nodes(h, count)
        z = self.c + 1j * h * np.arange(count + 1.0)
        growth = np.abs(z * (z + 1.0)) / (self.c * (self.c + 1.0))
        if self._proven:
            a, radius = members.columns(self._reading, values, errors, self._span, growth)
        else:
            a = members.coefficients(self._reading, values)
            radius = np.zeros(a.shape)
        gamma = np.maximum.reduceat(radius / growth, _bands(count)[:-1], axis=1)
        left_out = np.zeros((a.shape[0], 1))
        if self._reading == "splines":  # steps beyond the span need not have happened
            left_out[-1] = _leave_out(values[members.grid.buckets], growth)
        log_m = self.tilts.columns(self._reading)[0][:, self._right]
        beside = np.concatenate([log_m, a[:, :1].real, left_out, gamma], axis=1)
        lost = ~np.isfinite(a).all(axis=1) | ~np.isfinite(beside).all(axis=1)
        # no table, no answer: an error this large leaves no bound behind
        beside[lost], a[lost] = FORBIDDEN, 0.0
        nodes = np.concatenate([a[:, 1:].real, a[:, 1:].imag], axis=1)
        return {"nodes": np.ascontiguousarray(nodes), "beside": np.ascontiguousarray(beside)}


def _bands(count: int) -> Rows:
    """Return the first node of each error band, then the number of nodes and one."""
    starts = np.unique(BAND ** np.arange(math.log(count) / math.log(BAND) + 1.0) // 1.0)
    return np.concatenate([[0], starts[starts <= count], [count + 1]]).astype(np.int64)


@dataclass(frozen=True)
class ContourTable:
    """log phi at the nodes c + inh of one contour, as columns, and what bounds the rest.

    Attributes:
        c, period: the contour and T = 2 pi / h.
        count: number N of nodes with n >= 1.
        growth: |z(z+1)| / (c(c+1)) at n = 0 ... N.
        phase: argument of z(z+1) at n = 1 ... N.
        bands: first node of each error band, then N + 1.
        right: tilts right of c.
        nodes: Re log phi, then Im log phi (with the mean), shape (columns, 2 N).
        beside: K at the tilts right of c, K(c), what lower bounds add to the error, and the error
            of log M in each band as a multiple of `growth`.
    """

    c: float
    period: float
    count: int
    growth: Floats
    phase: Floats
    bands: Rows
    right: Floats
    nodes: Floats
    beside: Floats

    def first(self, count: int) -> Floats:
        """Return the columns of the first nodes only."""
        n = self.count
        return np.concatenate([self.nodes[:, :count], self.nodes[:, n : n + count]], axis=1)


def _leave_out(log_m: NDArray[np.complex128], growth: Floats) -> float:
    """Error of leaving a step out, as a multiple of `growth`.

    A dominated law has |M(z) - M_dominated(z)| <= growth (M(c) - 1), because the difference of
    their profiles is non-negative and its transform is (M - M_dominated) / (z (z+1)).
    """
    size = np.exp(log_m[0].real + np.concatenate([[0.0], log_m[1:].real]))
    share = growth * np.expm1(log_m[0].real) / size
    return float((-np.log1p(-np.minimum(share, 1.0 - 1e-12)) / growth).max())


@dataclass(frozen=True)
class Query:
    """What is asked: epsilon at a delta, or delta at an epsilon (the other one is nan).

    `tell` is called now and then with how many people of one direction are answered, and of all.
    """

    log_delta: float
    epsilon: float
    rtol: float
    tell: Callable[[int, int], object] | None = None

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

    def at(self, rows: Rows) -> Answers:
        """Return the answers at some places, which may be given more than once."""
        return Answers(*(getattr(self, field.name)[rows] for field in fields(self)))

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
        for own, new in (
            (self.estimate, other.estimate),
            (self.numeric, other.numeric),
            (self.compression, other.compression),
        ):
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
        level: log of the trapezoid sum, relative to its first term, that is expected.
        allowed: relative error of delta that is as good as the width asked for.
        saddle: tilt with the best Chernoff bound.
    """

    at: Rows
    period: Floats
    nodes: Floats
    start: Floats
    level: Floats
    allowed: Floats
    saddle: Rows

    def take(self, who: Rows, other: Choices) -> None:
        """Replace the choices of some people."""
        for field in fields(self):
            getattr(self, field.name)[who] = getattr(other, field.name)


class Evaluator(TakesTurns):
    """One direction of a family on a grid, with the tables made so far."""

    def __init__(
        self, family: Family, grid: Grid, direction: str, folder: PathLike | None = None
    ) -> None:
        """Remember what to tabulate; tables are made when someone needs them.

        What is kept for further questions is named by all that it depends on, so that an answer
        does not depend on the questions before it.
        """
        self.grid, self.members = grid, Members(family, grid, direction)
        self._shelf = None
        if folder is not None and family.key:
            self._shelf = Shelf(folder, code(), family.key, repr(grid), direction)
        self._known: dict[tuple[Any, ...], Tilts] = {}
        self._contours: dict[tuple[Any, ...], Contour] = {}
        self._tables: dict[tuple[Any, ...], ContourTable] = {}

    @property
    def asked(self) -> bool:
        """Whether some tables have been made."""
        return bool(self._tables)

    def tilts(self, span: tuple[int, int], reach: float = REACHES[-1]) -> Tilts:
        """Return K at real tilts up to `reach` of all members between two buckets."""
        with self._turn:  # accountants of the same family share an evaluator
            if (span, reach) not in self._known:
                self._known[span, reach] = Tilts(self.members, span, reach, self._shelf)
            return self._known[span, reach]

    def span(self, ledger: Ledger, rows: Rows) -> tuple[int, int]:
        """Return buckets that hold all steps of some people, one of few pairs.

        So different people find the same tables.
        """
        n, (first, last) = self.grid.buckets, ledger.span(rows)
        part = max(n // SPANS, 1)
        return first // part * part, min((last // part + 1) * part, n) if last < n else n

    def first(
        self,
        ledger: Ledger,
        query: Query,
        rows: Rows,
        reading: str,
        known: Floats | None = None,
    ) -> tuple[Answers, Choices, Tilts]:
        """Return Chernoff bounds, what they say about everybody's contour, and the tilts used.

        Args:
            ledger: the column totals.
            query: what is asked.
            rows: indices of people.
            reading: which table to read the ledger with, see `tilts`.
            known: estimates of the answers, nan where there is none.
        """
        known = np.full(rows.size, np.nan) if known is None else known
        found, span = np.empty((rows.size, 8)), self.span(ledger, rows)
        asked = (query.log_delta, query.epsilon, query.rtol, math.log(SHARE * query.rtol))
        for reach in REACHES:
            tilts = self.tilts(span, reach)
            table = tilts.together(reading, inversion.STRIDE)
            for part in _blocks(rows.size):
                product = ledger.rows(rows[part]) @ table
                inversion.choose(product, tilts.t, *asked, known[part], found[part])
            best = found[found[:, 6] != -1.0, 7].max(initial=0.0)
            if tilts.complete or best + inversion.ABOVE < tilts.t.size:
                break
        upper, start, period, nodes, level, allowed = np.ascontiguousarray(found[:, :6].T)
        at, saddle = found[:, 6:].T.astype(np.int64)
        if query.inverse:
            upper[at == -1] = 0.0
            upper = np.where(upper < USELESS, np.maximum(upper, 0.0), np.inf)
            floor = np.zeros(rows.size)
        else:
            upper[at == -1] = -np.inf
            floor = np.full(rows.size, max(0.0, -math.expm1(query.epsilon)))
            upper = np.maximum(np.exp(np.minimum(upper, 0.0)), floor)
        estimate = np.where(upper == floor, floor, np.nan)
        unknown = np.where(at != -1, np.inf, 0.0)
        answers = Answers(floor, estimate, upper, unknown, np.where(at == -2, np.inf, 0.0))
        return answers, Choices(at, period, nodes, start, level, allowed, saddle), tilts

    def run(self, ledger: Ledger, query: Query, rows: Rows, reading: str) -> Answers:
        """Answer for the people in `rows`; arguments as for `first`.

        A short sum of which nothing is proven says first where everybody's answer is: Chernoff's
        bound misses epsilon by a factor of two to five where few steps matter, and contour, period
        and number of nodes depend on it.
        """
        with self._turn:
            if len(self._contours) > KEPT:
                self._contours.clear()
                self._tables.clear()
        answers, first, tilts = self.first(ledger, query, rows, reading)
        todo = np.flatnonzero(first.at >= 0)
        guess = self._guess(ledger, query, rows, todo, tilts, first, reading)
        done = rows.size - todo.size
        for factor in ROUNDS:
            _, again, tilts = self.first(ledger, query, rows[todo], reading, guess)
            first.take(todo, again)
            todo = todo[again.at >= 0]
            for part, (i,) in _groups(first.at[todo]):
                who = todo[part]
                self._contour_for(
                    ledger, query, rows, who, tilts, i, factor, first, answers, reading
                )
                done += who.size
                if query.tell is not None:
                    query.tell(min(done, rows.size), rows.size)
            todo = todo[self._open(answers, first, todo)]
            guess = answers.estimate[todo]
        return answers

    def _guess(
        self,
        ledger: Ledger,
        query: Query,
        rows: Rows,
        todo: Rows,
        tilts: Tilts,
        first: Choices,
        reading: str,
    ) -> Floats:
        """Return an estimate of the answer of everybody in `todo`, nan where none was found."""
        none, zero = np.full(rows.size, np.nan), np.zeros(rows.size)
        found = Answers(none.copy(), none.copy(), none.copy(), zero + np.inf, zero.copy())
        for part, (i,) in _groups(first.at[todo]):
            who = todo[part]
            h, step = _nodes_apart(first.period[who])
            span, high = self.span(ledger, rows[who]), 2.0 ** math.ceil(math.log2(PILOT * h.max()))
            contour = self._contour(tilts, i, high, span, reading, proven=False)
            for members, (j,) in _groups(step):
                table = self._table(contour, j, PILOT)
                pilot = (table, PILOT, np.zeros(members.size), first, found, True)
                self._solve(ledger, query, rows, who[members], *pilot)
        return found.estimate[todo]

    def _contour_for(
        self,
        ledger: Ledger,
        query: Query,
        rows: Rows,
        who: Rows,
        tilts: Tilts,
        at: int,
        factor: float,
        first: Choices,
        answers: Answers,
        reading: str,
    ) -> None:
        """Answer for those who share a contour."""
        h, step = _nodes_apart(first.period[who])
        wanted = np.clip(first.nodes[who], LEAST, MOST) * h
        high = 2.0 ** math.ceil(math.log2(factor * float(np.quantile(wanted, 0.9))))
        high = min(high, 2.0 ** math.ceil(math.log2(MOST * float(h.max()))))
        contour = self._contour(tilts, at, high, self.span(ledger, rows[who]), reading)
        lost, shell = self._reach(ledger, rows[who], contour, h, first, who)
        count = np.ceil(contour.frequencies[shell] / h).astype(np.int64)
        count = np.clip(-(-count // LEAST) * LEAST, LEAST, MOST)
        for members, (j,) in _groups(step):
            most = 1 << int(count[members].max() - 1).bit_length()
            table = self._table(contour, j, most)
            for some, (n,) in _groups(count[members]):
                mine = members[some]
                self._solve(ledger, query, rows, who[mine], table, n, lost[mine], first, answers)

    def _reach(
        self,
        ledger: Ledger,
        rows: Rows,
        contour: Contour,
        h: Floats,
        first: Choices,
        who: Rows,
    ) -> tuple[Floats, Rows]:
        """Return how much of the sum is lost beyond the nodes, and the shell where these end.

        The sum over n > N of 2 |w_n| is at most 2 c (c+1) / h times the integral of sup |phi| / y^2
        from Nh on.
        """
        c, y = contour.c, contour.frequencies
        scale = 2.0 * c * (c + 1.0) / h
        expected = first.allowed[who] * np.exp(np.minimum(first.level[who], 0.0))
        lost, shell = np.empty(rows.size), np.empty(rows.size, np.int64)
        between = np.append(1.0 / y[:1], np.diff(1.0 / y))
        for part in _blocks(rows.size):
            beyond = ledger.rows(rows[part]) @ contour.beyond
            tail = scale[part, None] * np.cumsum(np.exp(np.minimum(beyond, 0.0)) * between, axis=1)
            within = y <= MOST * h[part, None]
            fits = within & (tail <= TAIL * expected[part, None])
            last = SHELLS - 1 - fits[:, ::-1].argmax(axis=1)
            place = np.where(fits.any(axis=1), last, within.argmax(axis=1))
            mine = np.arange(place.size), place
            shell[part], lost[part] = place, np.where(within[mine], tail[mine], np.inf)
        return lost, shell

    def _solve(
        self,
        ledger: Ledger,
        query: Query,
        rows: Rows,
        who: Rows,
        table: ContourTable,
        count: int,
        lost: Floats,
        first: Choices,
        answers: Answers,
        only: bool = False,
    ) -> None:
        """Solve for some people with one table and keep what is sharper than before."""
        target = math.exp(query.log_delta) if query.inverse else query.epsilon
        nodes, out = table.first(count), np.full((who.size, 5), np.nan)
        for part in _blocks(who.size):
            steps = ledger.rows(rows[who[part]])
            inversion.solve(
                steps @ nodes, steps @ table.beside, table.right, table.c, table.period,
                table.growth, table.phase, table.bands, lost[part], first.start[who[part]], target,
                query.inverse, only, out[part],
            )  # fmt: skip
        answers.meet(who, Answers(*np.ascontiguousarray(out.T)))

    def _open(self, answers: Answers, first: Choices, who: Rows) -> NDArray[np.bool_]:
        """Who would gain from more nodes."""
        numeric = answers.numeric[who]
        enough = np.maximum(0.3 * first.allowed[who], 0.5 * answers.compression[who])
        return ~(numeric <= enough) & ~(numeric > OPEN)

    def _contour(
        self,
        tilts: Tilts,
        at: int,
        frequency: float,
        span: tuple[int, int],
        reading: str,
        proven: bool = True,
    ) -> Contour:
        """Tilt the members once for all periods that are needed on a contour."""
        key = (tilts.span, tilts.t.size, at, frequency, span, reading, proven)
        with self._turn:
            if key not in self._contours:
                made = Contour(tilts, at, frequency, span, reading, key, proven, self._shelf)
                self._contours[key] = made
            return self._contours[key]

    def _table(self, contour: Contour, step: int, count: int) -> ContourTable:
        key = (*contour.key, step, count)
        with self._turn:
            if key not in self._tables:
                self._tables[key] = contour.table(PERIODS**step, count)
            return self._tables[key]


def _nodes_apart(period: Floats) -> tuple[Floats, Rows]:
    """Return the distance of nodes for periods rounded up to powers of PERIODS, and the power."""
    step = np.ceil(np.log(np.maximum(period, 1e-3)) / math.log(PERIODS)).astype(np.int64)
    return 2.0 * math.pi / np.float64(PERIODS) ** step, step


def _groups(keys: Rows) -> Iterator[tuple[Rows, tuple[int, ...]]]:
    """Yield the positions that share each key."""
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    for part in np.split(order, cuts):
        if part.size:
            yield part, (int(keys[part[0]]),)


def _blocks(count: int) -> Iterator[slice]:
    """Yield positions in parts of BLOCK."""
    for begin in range(0, count, BLOCK):
        yield slice(begin, min(begin + BLOCK, count))


POINTS = 1 << 17
BEYOND = 1e-3  # share of delta that may lie beyond the grid


def answer(
    counts: NDArray[Any], losses: Mapping[str, Sequence[PrivacyLoss]], query: Query
) -> Bound:
    """Estimate epsilon or delta of some people from their counts.

    Args:
        counts: steps per bucket, shape (people, buckets).
        losses: the laws of the buckets, for each direction.
        query: what is asked.
    """
    used = np.flatnonzero(counts.any(axis=0))
    found = [
        _direction([laws[int(i)] for i in used], counts[:, used], query) for laws in losses.values()
    ]
    estimate = np.maximum.reduce(found)
    nan = np.full(estimate.shape, np.nan)
    detail = {"directions": tuple(losses), "points": POINTS}
    return Bound(nan, estimate, nan.copy(), "plancherel", "estimate", detail)


def _direction(losses: Sequence[PrivacyLoss], counts: NDArray[Any], query: Query) -> Floats:
    if not losses:
        return np.zeros(counts.shape[0])
    transforms, s = _transforms(losses, _half_length(losses, counts, query))
    out = np.empty(counts.shape[0])
    for person in range(counts.shape[0]):
        phi = np.exp(counts[person] @ transforms)
        out[person] = _solve(phi, s, query)
    return out


def _half_length(losses: Sequence[PrivacyLoss], counts: NDArray[Any], query: Query) -> float:
    """A length that holds everybody's loss but for a share of delta, by Chernoff."""
    log_small = math.log(BEYOND) + (query.log_delta if query.inverse else -30.0)
    longest = 1.0
    for sign in (1.0, -1.0):
        best = np.full(counts.shape[0], np.inf)
        for t in np.geomspace(0.5, 500.0, 24):
            tilt = t if sign > 0 else -1.0 - t
            k = np.array([loss.log_mgf(tilt) for loss in losses])
            if k.max() < 500.0:
                best = np.minimum(best, (counts @ k - log_small) / t)
            else:
                break
        longest = max(longest, float(best.max()))
    return 1.2 * longest


def _transforms(
    losses: Sequence[PrivacyLoss], half: float
) -> tuple[NDArray[np.complex128], Floats]:
    """Logs of the transforms of all losses, and the grid in the order of the transform."""
    step = 2.0 * half / POINTS
    s = -half + step * np.arange(POINTS)
    edges = np.append(s - step / 2, s[-1] + step / 2)
    rows = []
    for loss in losses:
        mass, _ = loss.cell_masses(edges)
        transform = np.fft.rfft(np.fft.fftshift(mass))
        rows.append(np.log(np.where(transform == 0, 1e-300, transform)))
    return np.array(rows), np.fft.fftshift(s)


def _solve(phi: NDArray[np.complex128], s: Floats, query: Query) -> float:
    """Delta at epsilon, or epsilon at delta by bisection."""
    weight = np.full(phi.size, 2.0)
    weight[0] = weight[-1] = 1.0  # the half spectrum stands for the whole

    def delta(epsilon: float) -> float:
        w = np.maximum(0.0, -np.expm1(np.minimum(epsilon - s, 0.0)))
        return float((weight * (np.conj(np.fft.rfft(w)) * phi).real).sum() / s.size)

    if not query.inverse:
        return delta(query.epsilon)
    target, low, high = math.exp(query.log_delta), 0.0, float(s.max())
    if delta(0.0) <= target:
        return 0.0
    while high - low > 1e-3 * query.rtol * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > target else (low, middle)
    return high
