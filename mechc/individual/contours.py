"""Epsilon or delta of everyone in a ledger, in one direction.

log phi(y) = log M(c + iy) - log M(c) adds up over a person's steps, so that everything is a product
of ledger rows with tables: with K at real tilts, an upper bound by Chernoff, a contour and a period
for everybody; on each contour, with bounds on log |phi| beyond some frequencies, how many nodes are
needed, and what is left out; for all who share contour and period, with log phi at the nodes, the
trapezoid sum, and epsilon with both its ends (`inversion`), the errors of the tables between knots
in bands of nodes. Those whose sum is not sharp yet get more rounds with more nodes, on contours for
the answers that are known by then, unless they are `rare`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import decay, gridding
from mechc.accountants.contours.characteristic import Tilted, log_phi
from mechc.accountants.contours.law import Law
from mechc.accountants.contours.trapezoid import LOWEST, constants, images_beyond
from mechc.individual import inversion
from mechc.individual.budget import for_rows
from mechc.individual.family import Family
from mechc.individual.inversion import (
    ABOVE,
    ALLOWED,
    BEFORE,
    BEST,
    KNOWN,
    LENGTH,
    LESSON,
    LEVEL,
    NODES,
    START,
    STRIDE,
    TILT,
    UPPER,
    WORK,
)
from mechc.individual.ledger import Ledger
from mechc.individual.splines import Grid
from mechc.individual.storage import NOWHERE, PathLike, Shelf, TakesTurns, in_turn
from mechc.individual.tilts import (
    FORBIDDEN,
    REACHES,
    TILTS,
    Members,
    Tilts,
    covered,
    per_column,
    rounding,
)
from mechc.kernel.cache import text_digest
from mechc.loss.privacy_loss import Step
from mechc.loss.quadrature import TOGETHER
from mechc.numeric.logs import log_peak
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Integers

PROVEN = 64  # buckets between which decay is proven
SAMPLED = 0.9  # share of the proven decay that is relied on between those knots
SHELLS, SHELL = 48, 2.0**0.125  # frequencies beyond which phi is bounded, and their ratio
GRIDDED = 1 << 15  # nodes times frequencies from which phi is found by gridding
FLOOR = 1e-20  # share of a tilted law that need not resolve frequencies
USELESS = 1e6  # an epsilon that says that no tilt was of use
SHARE, TAIL = 0.02, 0.05  # of the tolerance asked for, that images and truncation may take
ROUNDS = (4.0, 8.0, 16.0)  # frequencies resolved, as multiples of a guess by K''
RARE, ALL = 100, 1000  # one person in so many may stay wider than asked for, beyond so many people
LEAST, MOST = 16, 2048  # nodes
BAND = 1.2  # ratio of the nodes at which bands of errors begin
SUMMED = 1.0 + 1e-9  # more than the rounding of sums of errors
SPANS = 20  # parts of the grid at whose ends tables begin and end
AWAY = 0.3  # cost of cancellation where tables are exact: what is proven beyond nodes grows less
PERIODS = 1.5  # people whose periods, rounded up to powers of this, are the same share the
PARTS = 4  # longest of them, rounded up to powers of so many parts of it
PILOT, ROUGH = 3.0, 0.05  # of the sum that says where the answer is before anything is proven: its
# nodes, as a multiple of a guess by K'', and the share of delta that its images may have
LEARNERS = 1 << 12  # people of whom answers are guessed by sums, where they are four times as many
TAUGHT, TAUGHT_NEAR = 40, 4  # of them, the fewest that teach, and tilts that these may be apart
TRUSTED = 0.1  # log of epsilon that what is learned may be off by, ...
WIDENED = 0.05  # ... and that others may be beyond what was seen
FEW = 1 << 13  # people who do not get a contour of their own
DEAR = 10.0  # times the work that people may have with the contour of others
BLOCK = 1 << 8  # people handled at a time, or up to four times as many with ...
NUMBERS = 1 << 16  # ... so many numbers in all: what is known of them stays at hand
BLOCKS = 64  # of them that a thread is given at a time, with room that is not new to it
HARDLY = 10.0  # times what is allowed, that is lost on a contour on which phi hardly decays
OPEN = 1e3  # share of delta lost beyond which more nodes are not tried
KEPT = 256  # tables and contours beyond which all are made afresh


def rare(people: int) -> int:
    """Return how many of so many people may stay wider than asked for."""
    return max(people - ALL, 0) // RARE


@dataclass(frozen=True, eq=False)
class _Law:
    """One member, tilted: centred losses, their weights and mean, and the error of phi."""

    centred: Floats
    weight: Floats
    mean: float
    lost: float

    def log_phi(self, h: float, count: int) -> tuple[Floats, Floats, Floats | float]:
        """Return log |phi| and its argument at h, ..., count h, and the rounding of phi."""
        if self.weight.size * count >= GRIDDED:
            phi, error = gridding.transform(h * self.centred, self.weight, count)
            return np.log(np.maximum(np.abs(phi), 1e-300)), np.angle(phi), error
        ends, spread = np.array([0, self.weight.size]), self.weight @ np.abs(self.centred)
        re, im = log_phi(ends, np.ones(1), self.centred, self.weight, h, 1, count + 1)
        return re, im, 1e-15 + EPS * h * spread * np.arange(1.0, count + 1.0)


class Contour:
    """All members tilted at one c, resolved up to a frequency |Im z|: log phi at nodes.

    `beyond` bounds log |phi| beyond the frequencies `frequency` / SHELL^m, for every column of a
    ledger, shape (columns, SHELLS).
    """

    def __init__(
        self, tilts: Tilts, at: int, frequency: float, span: tuple[int, int],
        shelf: Shelf = NOWHERE, proven: bool = True,
    ) -> None:  # fmt: skip
        """Remember what to tilt, knots alone if nothing is proven; bound what lies beyond."""
        self._proven, self.beyond = proven, np.empty(0)
        self.key = (*tilts.key, at, frequency, span, proven)
        self._span, self._shelf, self.c = span, shelf, float(tilts.t[at])
        self.tilts, self.at, self.frequency = tilts, at, frequency
        if proven:
            self.beyond = shelf.take(("beyond", *self.key), self._fading)["beyond"]

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
        needed, far = np.flatnonzero(wanted | fades).tolist(), 1.01 * self.frequency
        for begin in range(0, len(needed), TOGETHER):
            some = needed[begin : begin + TOGETHER]
            losses = covered(members.losses(some), -1.0, self.c, self.c, ((far, FLOOR),))
            for i, loss in zip(some, losses, strict=True):
                if loss is None:  # then there is no answer for those who used the member
                    continue
                tilted = Tilted(Law((Step(loss, 1),)), self.c)
                lost = 4.0 * loss.tolerance + 2.0 * tilted.lost
                laws[i] = _Law(tilted.centred, tilted.weight, float(tilted.mean[0]), lost)
                if fades[i]:
                    at_knots[i] = decay.log_sups(tilted, self.frequencies)
        return laws, at_knots

    @property
    def _stride(self) -> int:
        """Decay is proven at every so many knots: |phi| beyond the nodes varies slowly."""
        grid = self.tilts.members.grid
        return 1 if grid.listed else max(1, grid.buckets // PROVEN)

    def _fading(self) -> dict[str, Floats]:
        """Tabulate `beyond`."""
        n, at_knots = self.tilts.members.grid.buckets, self._laws[1]
        if self.tilts.members.grid.listed:
            return {"beyond": at_knots}
        below = np.arange(n) // self._stride * self._stride
        above = np.minimum(below + self._stride, n)
        columns = np.maximum(at_knots[below], at_knots[above])
        if self.tilts.members.grid.splines:
            columns = per_column(columns, self._span)
        return {"beyond": SAMPLED * np.append(columns, at_knots[n:], axis=0)}

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
            errors[i, 1:] = errors[i, 0] + np.logaddexp(0.0, np.log(law.lost + error) - re)
        return values, errors

    def table(self, period: float, count: int) -> ContourTable:
        """Return the nodes c + inh, n <= count, as columns."""
        z = self.c + 2j * math.pi / period * np.arange(count + 1.0)
        growth = np.abs(z * (z + 1.0)) / (self.c * (self.c + 1.0))
        phase = np.angle(z[1:]) + np.angle(z[1:] + 1.0)
        make = partial(self._tabulated, period, growth)
        found = self._shelf.take((*self.key, period, count), make)
        right = self.tilts.t[self._right]
        band = np.repeat(np.arange(_bands(count).size - 1), np.diff(_bands(count)))
        return ContourTable(self.c, period, count, growth, phase, band, right, **found)

    @property
    def _right(self) -> NDArray[np.bool_]:
        """Which tilts bound the right images."""
        return np.asarray((self.tilts.t > self.c * 1.0001) & (self.tilts.t < self.c * 5.0))

    def _tabulated(self, period: float, growth: Floats) -> dict[str, Floats]:
        """Return the columns of `table`."""
        members, count = self.tilts.members, growth.size - 1
        values, errors = self.nodes(2.0 * math.pi / period, count)
        if self._proven:
            a, radius = members.columns(values, errors, self._span, growth)
            radius += rounding(a) + rounding(a[:, :1])
        else:
            a = members.coefficients(values)
            radius = np.zeros(a.shape)
        gamma = SUMMED * np.maximum.reduceat(radius / growth, _bands(count)[:-1], axis=1)
        log_m = self.tilts.columns[0][:, self._right]
        beside = np.concatenate([log_m, a[:, :1].real, gamma], axis=1)
        lost = ~np.isfinite(a).all(axis=1) | ~np.isfinite(beside).all(axis=1)
        # no table, no answer: an error this large leaves no bound behind
        beside[lost], a[lost] = FORBIDDEN, 0.0
        nodes = np.concatenate([a[:, 1:].real, a[:, 1:].imag], axis=1)
        return {"nodes": np.ascontiguousarray(nodes), "beside": np.ascontiguousarray(beside)}


def _bands(count: int) -> Integers:
    """Return the first node of each error band, then the number of nodes and one."""
    starts = np.unique(BAND ** np.arange(math.log(count) / math.log(BAND) + 1.0) // 1.0)
    return np.concatenate([[0], starts[starts <= count], [count + 1]]).astype(np.int64)


@dataclass(frozen=True)
class ContourTable:
    """log phi at the nodes c + inh of one contour, as columns, and what bounds the rest."""

    c: float
    period: float  # 2 pi / h
    count: int  # N, nodes with n >= 1
    growth: Floats  # |z(z+1)| / (c(c+1)) at n = 0 ... N
    phase: Floats  # argument of z(z+1) at n = 1 ... N
    band: Integers  # error band of nodes 0 ... N
    right: Floats  # tilts right of c
    nodes: Floats  # Re log phi, then Im log phi (with the mean), shape (columns, 2 N)
    beside: Floats  # K at the tilts right of c, K(c), and the error of log M in each band as a
    # multiple of `growth`

    def first(self, count: int) -> Floats:
        """Return the columns of the first nodes only."""
        n = self.count
        return np.concatenate([self.nodes[:, :count], self.nodes[:, n : n + count]], axis=1)


@dataclass(frozen=True)
class Query:
    """What is asked: epsilon at a delta, or delta at an epsilon (the other one is nan).

    No epsilon is negative. So many people as `few` may stay wider than `rtol`. `tell` is called now
    and then with how many people of one direction are answered, and of all.
    """

    log_delta: float
    epsilon: float
    rtol: float
    few: int = 0
    tell: Callable[[int, int], object] | None = None

    @property
    def inverse(self) -> bool:
        """Whether epsilon is asked for."""
        return math.isnan(self.epsilon)


@dataclass
class Answers:
    """Bounds for all people, and what keeps them apart."""

    lower: Floats
    estimate: Floats  # nan where only Chernoff answered
    upper: Floats
    numeric: Floats  # share of delta lost to images, truncation and rounding
    compression: Floats  # and to the tables' error between knots

    def at(self, rows: Integers) -> Answers:
        """Return the answers at some places, which may be given more than once."""
        return Answers(*(getattr(self, field.name)[rows] for field in fields(self)))

    def meet(self, rows: Integers, other: Answers) -> None:
        """Keep what other answers to the same question, for some of the people, add."""
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


class Asked(NamedTuple):
    """What is asked about some people."""

    ledger: Ledger
    query: Query
    rows: Integers  # indices of people
    better: bool = False  # see `Ledger.times`
    how: Floats | None = None  # what `inversion.choose` says, once it is known, a row for each word
    place: Integers | None = None  # of these people in `how`, which some others may share with them
    below: Integers | None = None  # tilts below which contours are to go, where others were no help
    ends: NDArray[np.int32] | None = None  # what `Ledger.ends` says of them, once it is known

    def some(self, who: NDArray[Any]) -> Asked:
        """Return the question for some of the people."""
        who = np.flatnonzero(who) if who.dtype == np.bool_ else who
        if who.size == self.rows.size and (np.diff(who) == 1).all():
            return self
        place = who if self.place is None else self.place[who]
        below = None if self.below is None else self.below[who]
        ends = None if self.ends is None else self.ends[:, who]
        return self._replace(rows=self.rows[who], place=place, below=below, ends=ends)

    def column(self, index: int) -> Floats:
        """Return what `how` has by one name."""
        assert self.how is not None
        found: Floats = self.how[index]
        return found if self.place is None else found[self.place]

    def lay(self, who: Integers, found: Floats) -> None:
        """Change what `how` has of some of the people."""
        assert self.how is not None
        self.how[:, who if self.place is None else self.place[who]] = found

    @property
    def tilts(self) -> Integers:
        """Index of the tilt through which everybody's contour goes; see `inversion.choose`."""
        return self.column(TILT).astype(np.int64)

    def each(self, work: Callable[..., None], *tables: Floats) -> None:
        """Call `work` with the places of BLOCK people and their ledger rows times the tables."""
        block = max(BLOCK, min(NUMBERS // max(table.shape[1] for table in tables), 4 * BLOCK))

        def of(part: slice) -> None:
            room = [np.empty((block, table.shape[1])) for table in tables]
            for begin in range(part.start, part.stop, block):
                some = slice(begin, min(begin + block, part.stop))
                own, better = self.rows[some], self.better
                work(some, *self.ledger.times(own, *tables, room=room, better=better))

        for_rows(self.rows.size, of, BLOCKS * BLOCK)

    @property
    def span(self) -> tuple[int, int]:
        """Buckets that hold all steps of these people, one of few pairs.

        So different people find the same tables.
        """
        ends = self.ledger.ends(self.rows) if self.ends is None else self.ends
        n, (first, last) = self.ledger.grid.buckets, self.ledger.span(ends)
        part = max(n // SPANS, 1)
        return first // part * part, min((last // part + 1) * part, n) if last < n else n


class Evaluator(TakesTurns):
    """One direction of a family on a grid, with the tables made so far."""

    def __init__(
        self, family: Family, grid: Grid, direction: str, folder: PathLike | None = None
    ) -> None:
        """Remember what to tabulate; tables are made when someone needs them.

        They are named by all that they depend on: an answer does not depend on those before it.
        """
        self.grid, self.members = grid, Members(family, grid, direction)
        self._shelf = NOWHERE
        if folder is not None and family.key:
            self._shelf = Shelf(folder, text_digest(), family.key, repr(grid), direction)
        self._made: dict[tuple[Any, ...], Any] = {}

    @property
    def asked(self) -> bool:
        """Whether some tables have been made."""
        return bool(self._made)

    @in_turn  # accountants of the same family share an evaluator
    def _kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what belongs to a key, made if it is not there."""
        if key not in self._made:
            if len(self._made) > KEPT:
                self._made.clear()
            self._made[key] = make()
        return self._made[key]

    def first(
        self, asked: Asked, known: Floats | None = None, apart: int = 0
    ) -> tuple[Answers, Asked, Tilts]:
        """Return Chernoff bounds, the question with everybody's contour, and the tilts used.

        With estimates of the answers, nan where there is none, contours fit them; without they are
        for a guess, or for what a sample of many people teaches. With tilts so far `apart` bounds
        come without contours.
        """
        if asked.ends is None:
            asked = asked._replace(ends=asked.ledger.ends(asked.rows))
        span, lessons = asked.span, np.full((TILTS.size, LESSON), np.nan)
        if known is None and not apart and asked.query.inverse:
            lessons = self._learned(asked, lessons)
        guessed = known is None and np.isnan(lessons).all()
        share = ROUGH if guessed else SHARE * asked.query.rtol
        known = np.full(asked.rows.size, np.nan) if known is None else known
        far = np.arange(asked.rows.size)
        for reach in REACHES:
            key = span, reach
            tilts: Tilts = self._kept(key, partial(Tilts, self.members, *key, self._shelf))
            contours = np.arange(0 if apart else tilts.t.size)
            about = contours, share, max(apart, 1), lessons
            found = _choose(asked.some(far), tilts, known[far], *about)
            if far.size == known.size:
                how = found
            else:  # who has the best tilt and those above it keeps them
                how[:, far] = found
            more = found[BEST] + (apart or ABOVE) >= tilts.t.size
            far = far[(found[TILT] != -1.0) & more]
            if tilts.complete or far.size <= asked.query.few:
                break
        return _chernoff(asked.query, how), asked._replace(how=how, place=None), tilts

    def _learned(self, asked: Asked, lessons: Floats) -> Floats:
        """Return how epsilons follow from Chernoff's bounds, by answers that a sample guesses."""
        size = asked.rows.size
        if size < 4 * LEARNERS:
            return lessons
        some = asked.some(np.arange(0, size, size // LEARNERS))
        some = some._replace(query=replace(asked.query, few=rare(some.rows.size)))
        _, some, tilts = self.first(some)
        some = some.some(some.tilts >= 0)
        known, k = self._guesses(some, tilts), np.empty((some.rows.size, tilts.t.size))

        def look(part: slice, sums: Floats) -> None:
            k[part] = sums

        some.each(look, tilts.columns[0])
        best = some.column(BEST).astype(np.int64)
        for j in np.unique(best).tolist():
            for near in range(TAUGHT_NEAR):
                seen = np.flatnonzero((abs(best - j) <= near) & (known > 0.0))
                if seen.size < TAUGHT:
                    continue
                before = np.maximum(best[seen, None] - BEFORE, 0)
                told = np.column_stack((some.column(UPPER)[seen], k[seen[:, None], before]))
                logs = np.log(np.maximum(told, 1e-300))
                ratio, x = np.log(known[seen]) - logs[:, 0], np.insert(logs, 0, 1.0, axis=1)
                weights = np.linalg.lstsq(x, ratio)[0]
                if np.quantile(np.abs(x @ weights - ratio), 0.9) <= TRUSTED:
                    weights[1] += 1.0
                    lessons[j] = ratio.min() - WIDENED, ratio.max() + WIDENED, *weights
                break
        return lessons

    def run(self, answers: Answers, asked: Asked, tilts: Tilts) -> Answers:
        """Answer for some people, of whom `first` has been asked."""
        size, tell, known = asked.rows.size, asked.query.tell, asked.column(KNOWN)
        todo = np.flatnonzero(asked.tilts >= 0)
        done, fresh = size - todo.size, todo[np.isnan(known[todo])]
        if fresh.size:
            known, some = known.copy(), asked.some(fresh)
            known[fresh] = self._guesses(some, tilts)
            about = np.arange(tilts.t.size), SHARE * asked.query.rtol
            asked.lay(fresh, _choose(some, tilts, known[fresh], *about))
        asked = asked.some(todo)
        for turn in range(len(ROUNDS) if todo.size else 0):
            if turn:  # with what is known by now contours fit better
                _, asked, tilts = self.first(asked, known[todo])
            todo, asked = todo[asked.tilts >= 0], asked.some(asked.tilts >= 0)
            _share(asked, tilts, known[todo], SHARE * asked.query.rtol)
            for part, i in _groups(asked.tilts):
                self._on_contour(answers, todo[part], asked.some(part), tilts, i, ROUNDS[turn:])
                done += part.size
                if tell is not None:
                    tell(min(done, size), size)
            now, allowed = answers.at(todo), asked.column(ALLOWED)
            open_, far = _gains(now.numeric, allowed, now.compression), HARDLY * allowed
            # where phi hardly decays more nodes are no help; below, rare large losses weigh less
            before = np.iinfo(np.int64).max if asked.below is None else asked.below
            below = np.where(now.numeric > far, asked.tilts, before)
            if open_.sum() <= asked.query.few:  # they may stay wider, but not by much
                open_ &= now.numeric > far
            todo, asked = todo[open_], asked._replace(below=below).some(open_)
            known[todo] = answers.estimate[todo]
            if not todo.size:
                break
        return answers

    def _guesses(self, asked: Asked, tilts: Tilts) -> Floats:
        """Return estimates of which nothing is proven, nan where none is found."""
        known = np.full(asked.rows.size, np.nan)
        _share(asked, tilts, known, ROUGH)
        for part, i in _groups(asked.tilts):
            known[part] = self._guess(asked.some(part), tilts, i)
        return known

    def _guess(self, asked: Asked, tilts: Tilts, at: int) -> Floats:
        """Estimate answers of those who share a contour by a short sum."""
        h, step = _nodes_apart(asked)
        wanted = PILOT * float(np.quantile(asked.column(NODES), 0.9))
        count = min(LEAST * math.ceil(max(wanted / LEAST, 2.0)), MOST)
        high = 2.0 ** math.ceil(math.log2(count * h.max()))
        about = tilts, at, high, asked.span, NOWHERE, False
        key = *tilts.key, *about[1:4], False
        contour = self._kept(key, partial(Contour, *about))
        found = np.full(h.size, np.nan)
        for some, j in _groups(step):
            nodes, lost = (PERIODS ** (j / PARTS), count), np.zeros(some.size)
            table = self._kept((*key, *nodes), partial(contour.table, *nodes))
            found[some] = self._solve(asked.some(some), table, count, lost, True).estimate
        return found

    def _on_contour(
        self, answers: Answers, who: Integers, asked: Asked, tilts: Tilts, at: int,
        factors: tuple[float, ...],
    ) -> None:  # fmt: skip
        """Answer for those who share a contour, who are at these places of the answers."""
        h, step = _nodes_apart(asked)
        wanted = float(np.quantile(np.clip(asked.column(NODES), LEAST, MOST) * h, 0.9))
        most = 2.0 ** math.ceil(math.log2(MOST * float(h.max())))
        for factor in factors:  # sums that leave out too much would only be taken again
            about = at, min(2.0 ** math.ceil(math.log2(factor * wanted)), most), asked.span
            key = *tilts.key, *about
            contour = self._kept(key, partial(Contour, tilts, *about, self._shelf))
            lost, shell = _reach(asked, contour, h)
            share = lost / np.exp(np.minimum(asked.column(LEVEL), 0.0))
            if _gains(share, asked.column(ALLOWED)).sum() <= asked.query.few:
                break
        count = np.ceil(contour.frequencies[shell] / h).astype(np.int64)
        count = np.clip(-(-count // LEAST) * LEAST, LEAST, MOST)
        for members, j in _groups(step):
            nodes = PERIODS ** (j / PARTS), int(count[members].max())
            table = self._kept((*key, *nodes), partial(contour.table, *nodes))
            for some, n in _groups(count[members]):
                mine = members[some]
                answers.meet(who[mine], self._solve(asked.some(mine), table, n, lost[mine]))

    def _solve(
        self, asked: Asked, table: ContourTable, count: int, lost: Floats, only: bool = False
    ) -> Answers:
        """Solve for some people with one table."""
        query, out = asked.query, np.full((asked.rows.size, 5), np.nan)
        start = asked.column(START)
        target = query.log_delta if query.inverse else query.epsilon
        nodes = table.first(count)
        images = images_beyond(table.c, table.period, table.right, np.zeros(table.right.size))
        images[2] += log_peak(table.right)
        facts = constants(table.c, table.period)
        facts[LOWEST] = -math.inf

        def solve(part: slice, sums: Floats, beside: Floats) -> None:
            inversion.solve(
                sums, beside, images.copy(), facts.copy(), table.growth, table.phase, table.band,
                lost[part], start[part], target, query.inverse, only, out[part],
            )  # fmt: skip

        asked.each(solve, nodes, table.beside)
        return Answers(*np.ascontiguousarray(out.T))


def _chernoff(query: Query, how: Floats) -> Answers:
    """Return the bounds in what `inversion.choose` says; mark there who is answered by them."""
    upper, at = how[UPPER], how[TILT]
    if query.inverse:
        upper = np.where(upper < USELESS, np.maximum(upper, 0.0), np.inf)
    else:
        upper = np.maximum(np.exp(np.minimum(upper, 0.0)), inversion.LEAST)
    upper = np.where(at == -1, 0.0, upper)
    at[upper <= inversion.LEAST] = -1
    estimate, unknown = np.where(at == -1, 0.0, np.nan), np.where(at == -1, 0.0, np.inf)
    return Answers(np.zeros(at.size), estimate, upper, unknown, np.where(at == -2, np.inf, 0.0))


def _choose(
    asked: Asked, tilts: Tilts, known: Floats, contours: Integers, share: float, apart: int = 1,
    lessons: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return what `inversion.choose` says about everybody.

    Contours are some of the tilts, which are so far apart, bounds alone if none are, and images may
    have this share.
    """
    query, found, t = asked.query, np.empty((KNOWN + 1, asked.rows.size)), tilts.t[::apart].copy()
    table = tilts.together(STRIDE) if contours.size else tilts.columns[0][:, ::apart].copy()
    lessons = np.full((t.size, LESSON), np.nan) if lessons is None else lessons
    useful = np.zeros(t.size, np.bool_)
    useful[contours] = True
    away = AWAY if asked.ledger.grid.listed else 0.0  # of tables their errors keep contours near
    about = query.log_delta, query.epsilon, query.rtol, math.log(share), away
    peaks = np.asarray(log_peak(t))

    def choose(part: slice, sums: Floats) -> None:
        below = np.full(len(sums), t.size) if asked.below is None else asked.below[part]
        own = known[part], below, lessons, found[:, part]
        inversion.choose(sums, t, peaks, useful, *about, *own)

    asked.each(choose, table)
    found[BEST] *= apart
    return found


def _share(asked: Asked, tilts: Tilts, known: Floats, share: float) -> None:
    """Let people on contours of few take one of many, where they have little more work with it."""
    at = asked.tilts
    distinct, sizes = np.unique(at, return_counts=True)
    many = distinct[sizes >= min(FEW, sizes.max(initial=0))]
    few = np.flatnonzero(~np.isin(at, many))
    if few.size:
        how = _choose(asked.some(few), tilts, known[few], many, share)
        fits = (how[TILT] >= 0) & (how[WORK] <= DEAR * asked.column(WORK)[few])
        asked.lay(few[fits], how[:, fits])


def _reach(asked: Asked, contour: Contour, h: Floats) -> tuple[Floats, Integers]:
    """Return how much of the sum is lost beyond the nodes, and the shell where these end."""
    # The sum over n > N of 2 |w_n| is at most 2 c (c+1) / h times the integral of sup |phi| / y^2
    # from Nh on.
    c, y, size = contour.c, contour.frequencies, asked.rows.size
    scale, most = 2.0 * c * (c + 1.0) / h, MOST * h
    wanted = TAIL * asked.column(ALLOWED) * np.exp(np.minimum(asked.column(LEVEL), 0.0))
    lost, shell = np.empty(size), np.empty(size, np.int64)

    def reach(part: slice, beyond: Floats) -> None:
        about = scale[part], wanted[part], most[part], lost[part], shell[part]
        inversion.reach(beyond, y, *about)

    asked.each(reach, contour.beyond)
    return lost, shell


def _gains(lost: Floats, allowed: Floats, kept: Floats | float = 0.0) -> NDArray[np.bool_]:
    """Return who gains from more nodes, given shares of delta lost, allowed, and lost anyway."""
    return ~(lost <= np.maximum(0.3 * allowed, 0.5 * kept)) & ~(lost > OPEN)


def _nodes_apart(asked: Asked) -> tuple[Floats, Integers]:
    """Return the distance of nodes for the periods of everybody, and powers that tell these."""
    power = np.log(np.maximum(asked.column(LENGTH), 1e-3)) / math.log(PERIODS) * PARTS
    step = np.ceil(power).astype(np.int64)
    for part, _ in _groups(-(-step // PARTS)):
        step[part] = step[part].max()
    return 2.0 * math.pi / PERIODS ** (step / PARTS), step


def _groups(keys: Integers) -> Iterator[tuple[Integers, int]]:
    """Yield the positions that share each key, and the key."""
    if keys.size and (keys == keys[0]).all():
        yield np.arange(keys.size), int(keys[0])
        return
    order = np.argsort(keys.astype(np.int16), kind="stable")  # small numbers, by their digits
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    for part in np.split(order, cuts) if keys.size else ():
        yield part, int(keys[part[0]])
