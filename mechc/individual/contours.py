"""Epsilon or delta of everyone in a ledger, in one direction.

People differ in their best contour. Each gets, from matrix products with the table of K(t), an
upper bound by Chernoff and a choice of contour, period and number of nodes; people with the same
choice form a group, and for a group log phi at all nodes is one matrix product of ledger rows with
a `ContourTable`. People whose answer is not yet sharp go into another round with more nodes.

log phi of every member at the nodes of a contour, as ledger columns.

log phi(y) = log M(c + iy) - log M(c) adds up over a person's steps, so all people on one contour
share one table. Along with it come what bounds the rest of the trapezoid sum: errors of the table
between knots, in bands of nodes, and how small |phi| stays beyond the last node.

The paper's evaluation of individual deltas: discretised losses, FFT and the Plancherel theorem.

Section D of Koskela, Tobaben and Honkela (2023): each bucket's loss is put on an equidistant grid
of n points over [-L, L), its transform F_i is computed once, and for counts k_i

    delta(epsilon) = (1/n) < F(w_epsilon), prod F_i^{k_i} >,  w_l = max(0, 1 - e^{epsilon - s_l}),

so that no inverse transform is needed per person. It is here for comparison: the discretisation
and the wrap-around at +-L carry no bound, and each person costs n complex powers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.accountants.contours import decay
from mechc.accountants.contours.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.individual import inversion
from mechc.individual.budget import THREADS
from mechc.individual.family import Family
from mechc.individual.ledger import Ledger
from mechc.individual.splines import Grid
from mechc.individual.tilts import FORBIDDEN, Members, Tilts
from mechc.loss.privacy_loss import PrivacyLoss, Step

Floats = NDArray[np.float64]

READINGS = ("splines", "worse", "better")
FURTHER = 8.0  # frequencies beyond the nodes that may be looked at to prove decay
PROVEN = 64  # knots at which decay is proven
_FLOOR = 1e-20  # share of a tilted law that need not resolve frequencies
SAMPLED = 0.9  # share of the proven decay that is relied on between those knots


@dataclass(frozen=True)
class _Tilt:
    """One member on a contour; `variation` only where its decay is to be proven."""

    loss: PrivacyLoss
    tilted: Tilted
    variation: Floats | None


class Contour:
    """All members tilted at one c, ready for any period.

    Attributes:
        at: index of c among the tilts.
        frequency: the |Im z| up to which members are resolved.
        key: what tells this contour from others of the same members.
    """

    def __init__(self, tilts: Tilts, at: int, octave: int, bucket: int) -> None:
        """Tilt the members that matter from `bucket` on, resolved up to |Im z| = 2**octave."""
        self.tilts, self.at, self.frequency = tilts, at, 2.0**octave
        self.key = (tilts.bucket, at, octave, bucket)
        self.c = float(tilts.t[at])
        members, counts = tilts.members, tilts.members.grid.counts
        # decay is proven at every so many knots: |phi| beyond the nodes varies slowly
        self._stride = max(1, members.grid.buckets // PROVEN)
        near = ~np.isnan(tilts.k[:, 0, at])
        proven = (np.arange(near.size) % self._stride == 0) & (np.arange(near.size) < counts)
        proven[counts - 1] = True
        proven &= near & members.needed(bucket, self._stride)
        chosen = [int(i) for i in np.flatnonzero((near & members.needed(bucket)) | proven)]
        self._tilted = {i: self._tilt(i, bool(proven[i])) for i in chosen}

    def _tilt(self, index: int, proven: bool) -> _Tilt | None:
        """Tilt one law; to prove decay, up to where the smoothness of its density takes over.

        None where the quadrature gives up: then there is no answer for those who used the member.
        """
        loss = self.tilts.members.loss(index)
        try:
            loss = loss.covering(-1.0, self.c, self.c, 1.01 * self.frequency, _FLOOR)
        except NumericError:
            return None
        variation = decay.variation(loss, self.c) if proven else None
        enough = decay.enough(variation) if variation is not None else 0.0
        if loss.frequency < enough < FURTHER * self.frequency:
            try:
                loss = loss.covering(-1.0, self.c, self.c, 1.01 * enough, _FLOOR)
                variation = decay.variation(loss, self.c)
            except NumericError:  # then nothing is proven about this step beyond the nodes
                pass
        return _Tilt(loss, Tilted(Law.of((Step(loss, 1),)), self.c), variation)

    def nodes(self, h: float, count: int) -> tuple[NDArray[np.complex128], Floats, Floats]:
        """Return log M(c), log phi(h), ..., log phi(count h) of the members, errors, log sup.

        Errors are those of log M.

        Returns:
            Shapes (members, count + 1), the same, and (buckets + 1,): a bound on log |phi| beyond
            the last node for all steps of a bucket. nan for members that are too far.
        """
        k = self.tilts.k
        values = np.full((k.shape[0], count + 1), np.nan, np.complex128)
        errors = np.full(values.shape, np.nan)
        sup = np.zeros(k.shape[0])
        for i, found in self._tilted.items():
            if found is None:
                continue
            loss, tilted = found.loss, found.tilted
            re, im = tilted.log_phi(h, 1, count + 1)
            drift = h * np.arange(1.0, count + 1.0) * loss.generating(self.c)[1]
            values[i, 0], errors[i, 0] = k[i, :2, self.at]
            values[i, 1:] = re + 1j * (np.unwrap(im) + drift)
            # log of the factor that |phi| may be larger by: products of factors bound products
            off = 4.0 * loss.tolerance + 2.0 * tilted.lost + 1e-15
            errors[i, 1:] = errors[i, 0] + np.logaddexp(0.0, math.log(off) - re)
            if found.variation is not None:
                sup[i] = decay.log_sup(
                    tilted.centred,
                    tilted.weight,
                    float(tilted.spread[0]),
                    float(tilted.slack[0]),
                    found.variation,
                    h * (count + 1),
                    loss.frequency,
                )
        return values, errors, self._per_bucket(sup)

    def _per_bucket(self, sup: Floats) -> Floats:
        """Take for each bucket the larger value of the knots around it, less a margin."""
        n = self.tilts.members.grid.buckets
        below = np.arange(n) // self._stride * self._stride
        above = np.minimum(below + self._stride, n)
        return SAMPLED * np.append(np.maximum(sup[below], sup[above]), sup[n])


@dataclass(frozen=True)
class ContourTable:
    """log phi at the nodes c + inh of one contour, as columns, and what bounds the rest.

    Attributes:
        c, period: the contour and T = 2 pi / h.
        nodes: number N of nodes with n >= 1.
        growth: |z(z+1)| / (c(c+1)) at n = 0 ... N.
        phase: argument of z(z+1) at n = 1 ... N.
        bands: first node of each error band, then N + 1.
        table: coefficients, shape (columns, 2 N + 3 + bands): Re log phi, Im log phi (with the
            mean), K(c), the bound on log |phi| beyond the last node, what lower bounds add to the
            error in every band, and the error of log M in each band; errors are multiples of
            `growth`.
    """

    c: float
    period: float
    nodes: int
    growth: Floats
    phase: Floats
    bands: NDArray[np.int64]
    table: Floats

    @classmethod
    def of(cls, contour: Contour, period: float, nodes: int) -> dict[str, ContourTable]:
        """Evaluate a contour; one table for each reading of the ledger."""
        members, grid, c = contour.tilts.members, contour.tilts.members.grid, contour.c
        h = 2.0 * math.pi / period
        z = c + 1j * h * np.arange(nodes + 1.0)
        growth = np.abs(z * (z + 1.0)) / (c * (c + 1.0))
        phase = np.angle(z[1:]) + np.angle(z[1:] + 1.0)
        bands = np.append(2 ** np.arange(int(math.log2(nodes)) + 1) - 1, nodes + 1)
        values, errors, log_sup = contour.nodes(h, nodes)
        tables = {}
        for reading in READINGS if grid.splines else READINGS[1:]:
            a, radius = members.columns(reading, values, errors, growth)
            gamma = np.maximum.reduceat(radius / growth, bands[:-1], axis=1)
            sup, beyond = np.zeros(a.shape[0]), np.zeros(a.shape[0])
            sup[: grid.counts] = log_sup
            if reading == "better":
                sup[grid.buckets] = 0.0
            if reading == "splines":
                beyond[grid.buckets] = _leave_out(values[grid.buckets], growth)
            parts = [a[:, 1:].real, a[:, 1:].imag, a[:, :1].real, sup[:, None], beyond[:, None]]
            table = np.concatenate([*parts, gamma], axis=1)
            # no table, no answer: an error this large leaves no bound behind
            table[np.isnan(table).any(axis=1)] = [0.0] * (table.shape[1] - 1) + [FORBIDDEN]
            full = np.ascontiguousarray(table)
            tables[reading] = cls(c, period, nodes, growth, phase, bands, full)
        return tables


def _leave_out(log_m: NDArray[np.complex128], growth: Floats) -> float:
    """Error of leaving a step out, as a multiple of `growth`.

    A dominated law has |M(z) - M_dominated(z)| <= growth (M(c) - 1), because the difference of
    their profiles is non-negative and its transform is (M - M_dominated) / (z (z+1)).
    """
    size = np.exp(log_m[0].real + np.concatenate([[0.0], log_m[1:].real]))
    share = growth * np.expm1(log_m[0].real) / size
    return float((-np.log1p(-np.minimum(share, 1.0 - 1e-12)) / growth).max())


Rows = NDArray[np.int64]

USELESS = 1e6  # an epsilon that says that no tilt was of use
SHARE = 0.02  # of the tolerance asked for, that images and truncation may take
ROUNDS = (1, 4, 16)  # nodes of the rounds, as multiples of the first choice
LEAST, MOST = 16, 1024  # nodes
PERIODS = 1.5  # periods are rounded up to powers of this
NEAR, EVALUATE_FURTHER = (
    80.0,
    4.0,
)  # tilts looked at first, and how much further if somebody needs them
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
            begin = max(place - 1 - inversion.BELOW // inversion.STRIDE, 0) * inversion.STRIDE
            end = min((place + 1) * inversion.STRIDE + inversion.ABOVE + 3, t.size)
            table, seen = columns(reading, begin, end, inversion.STRIDE), t[begin:end]

            def work(who: Rows, table: Floats = table, seen: Floats = seen, b: int = begin) -> None:
                found = inversion.choose(ledger.times(rows[who], table), seen, *asked)
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
            t = self.tilts.t[:: inversion.STRIDE]
            columns = self.tilts.columns(reading)[0][:, :: inversion.STRIDE]
            in_blocks(todo, work)
            todo = todo[
                (near[todo] + 1) * inversion.STRIDE + inversion.ABOVE > self.tilts.t.size - 2
            ]
            if self.tilts.complete or todo.size == 0:
                return near
            self.tilts = self._tilts(self.tilts.bucket, EVALUATE_FURTHER * float(self.tilts.t[-1]))

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
        out = inversion.solve(
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


POINTS = 1 << 17
REACH = 1e-3  # share of delta that may lie beyond the grid


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
    log_small = math.log(REACH) + (query.log_delta if query.inverse else -30.0)
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
