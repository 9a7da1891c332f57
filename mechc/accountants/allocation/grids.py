"""The likelihood ratio W of an epoch on a grid: a law above it, and one below.

In: the laws of X = exp(L) under Q, each of so many of the t steps. Out: discrete laws of log W
(docs/theorems.md, T11).

* Above: every X is split between its two neighbours on the grid, which keeps its mean. That spreads
  X and with it W, so that the pair dominates that of the epoch, in both directions (Blackwell).
* Below: every step tells the nearest point of the grid alone, and the epoch the sum of these
  points. That is post-processing. With A the law of the sum under Q, and B the one where k steps
  are drawn from P, B against A is below the epoch in which a record takes part in k steps. As
  every sum is as likely, whichever the k steps are, no more is lost by not telling them. The grid
  is one of X for k = 1, and of a log(1 + bX) that tells more where several are drawn.

Both move W by a mean of t small moves, so that delta is off in the second order of the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.allocation.puts_and_calls import Factors, Shares
from mechc.accountants.allocation.tilted_sums import DEPTH, Drawn, Points, Sums, period, sums
from mechc.accountants.contours.atoms import draws
from mechc.errors import NumericError
from mechc.loss.discretise import following_error, one_sided
from mechc.loss.infinite_mass import log_complement
from mechc.loss.moments import dot
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.numeric.allowance import OutOfWorkError, apart, spend
from mechc.numeric.logs import log1mexp, log_add, log_mean, log_of
from mechc.numeric.rounding import MOST_LOG, U
from mechc.protocol import Floats

Counts = tuple[int, ...]

LISTED = 20_000  # sums of point masses that are listed one by one ...
MOST_LOSS = 300.0  # ... if products are no further from one
FINEST, ROUGH = 2**15, 2**11  # points of one X, and of a first look
PERIOD, JUMPS = 18.0, 4.0  # standard deviations in a period, and largest X beside
TAIL = math.log(1e-22)  # log of the mass under P of X beyond the grid ...
LOST, RARE = math.log(1e-18), math.log(1e-17)  # ... beside large ones, and of more than the most
MOST_LARGE, MOST_DRAWN, MOST_CHOICES = 16, 3, 1000  # large X; of the t, and ways to draw them
MOST_LAWS = 60, 20  # of sums of the others, times kinds of steps, above and below
POOLED = 0, 100, 40, 16  # points of large X of many kinds, by how many may be large
FINER = 2.0  # times the step of a grid that large ones are worth
TOLD = math.log(1e-6), math.log(1e-3)  # of X that are told by its last point
TOLD_ENOUGH = math.log(1e-3)  # of the mass that is not told, from where on the next is tried
BAD = 0.1  # relative error of a mass that counts as unknown
HELD = 1e-6  # share of Q that cells may lack


class Told(NamedTuple):
    """Logs of bounds on masses of what an epoch tells at least, inf or -inf where not known."""

    low_q: Floats  # under Q^t
    high_q: Floats
    low_p: Floats  # with a record
    high_p: Floats
    none: NDArray[np.bool_]  # the sum of points that are all 0
    only_q: float  # log Q(p = 0)
    only_p: float


class Large(NamedTuple):
    """The largest X, rare point masses, told from each other rather than put on a grid.

    Of many kinds of steps they are pooled: X is spread to the sum of a small X and, independently
    and rarely, of how much a large one is above the mean of small ones.
    """

    ratios: Floats = np.empty(0)  # X, or what they add
    log_q: Floats = np.empty(0)  # and logs of their masses, or of how many there are in the mean
    kind: NDArray[np.int64] | None = np.empty(0, np.int64)  # of the steps that have them
    most: int = 0  # how many of the t may be large
    others: tuple[float, ...] = ()  # the largest of all others, for every kind
    held: Floats = np.zeros(1)  # mass of the large ones, for every kind
    more: tuple[float, float] = (-math.inf, -math.inf)  # logs of masses of more than the most

    def choices(self, counts: Sequence[int]) -> Iterator[tuple[list[float], Counts, float]]:
        """Large ones that steps may have, how many others there are of every kind, and log ways."""
        for m in range(self.most + 1):
            found = []
            for chosen in combinations_with_replacement(range(self.ratios.size), m):
                index, left, ways = list(chosen), list(counts), 0.0
                for kind in () if self.kind is None else self.kind[index]:
                    ways += log_of(left[kind])
                    left[kind] -= 1
                if min(left) >= 0:
                    ways += sum(self.log_q[index])
                    ways -= sum(math.lgamma(chosen.count(i) + 1.0) for i in set(chosen))
                    found.append((ways, self.ratios[index].tolist(), tuple(left)))
            for ways, ratios, those in sorted(found, reverse=True):
                yield ratios, those, ways

    @classmethod
    def of(cls, factors: Factors, log_tops: Sequence[float], half: bool) -> Large:
        """As many as make a grid of the others much finer, none where that is not so."""
        if any(shares.continuous for shares, _ in factors):
            return cls()
        counts, kinds = np.array([float(n) for _, n in factors]), len(factors)
        logs = [(shares.law.atom_loss, shares.law.atom_log_mass) for shares, _ in factors]
        kept = [(x <= top) & (p > -math.inf) for (x, p), top in zip(logs, log_tops, strict=True)]
        x, p = np.exp(
            np.hstack([np.stack(both)[:, some] for both, some in zip(logs, kept, strict=True)])
        )
        kind = np.arange(kinds).repeat([some.sum() for some in kept])
        order = np.argsort(x, kind="stable")
        x, p, kind = x[order], p[order], kind[order]
        q, t = p / x, factors[0][0].steps

        def period(n: int) -> float:
            variance, widest = 0.0, 0.0
            for i, count in enumerate(counts.tolist()):
                own, mass = x[:n][kind[:n] == i], q[:n][kind[:n] == i]
                if not own.size:
                    return math.inf
                whole = float(mass.sum())
                mean = dot(mass, own) / whole
                variance += count * dot(mass, (own - mean) ** 2) / whole
                widest = max(widest, float(own[-1] - own[0]))
            return PERIOD * math.sqrt(variance) + JUMPS * widest

        def found(choices: float) -> tuple[int, int, tuple[float, float]] | None:
            """The first one of as many as possible, how many may be, and masses of more."""
            first = max(x.size - MOST_LARGE * kinds, 2)
            apart = first + np.flatnonzero(x[first:] > x[first - 1 : -1] * (1.0 + 1e-9))
            for n in apart.tolist():
                for most in range(1, min(MOST_DRAWN, t) + 1):
                    if comb(x.size - n + most, most) > choices:
                        break
                    log_more = _log_more(q[n:], p[n:], counts[kind[n:]], most, t)
                    if log_more[1] < RARE:
                        finer = period(n) * FINER < period(x.size)
                        return (n, most, log_more) if finer else None
            return None

        few = found(MOST_CHOICES)
        known = few or (found(math.inf) if kinds > 1 else None)  # too many to be told apart
        if known is None:
            return cls()
        n, most, log_more = known
        pooled = few is None or kinds * comb(kinds + most, most) > MOST_LAWS[half]
        if pooled and half:
            return cls()
        others = tuple(float(x[:n][kind[:n] == i].max()) for i in range(kinds))
        held = np.bincount(kind[n:], q[n:], kinds).astype(float)
        large = cls(x[n:], np.log(q[n:]), kind[n:], most, others, held, log_more)
        return large._pooled(factors, p[n:], few is None) if pooled else large

    def _pooled(self, factors: Factors, p: Floats, many: bool) -> Large:
        """The same of all kinds together, what they add spread to few points where it is many."""
        assert self.kind is not None
        rest = 1.0 - self.held
        means = [sum(shares.mean) for shares, _ in factors] - np.bincount(self.kind, p, rest.size)
        counts = np.array([n for _, n in factors]) / rest
        added, rate = self.ratios - (means / rest)[self.kind], np.exp(self.log_q)
        rate *= counts[self.kind]
        if not many:
            return self._replace(ratios=added, log_q=np.log(rate), kind=None)
        points = np.geomspace(added.min(), added.max() * (1.0 + 1e-12), POOLED[self.most])
        at = np.clip(np.searchsorted(points, added), 1, points.size - 1)
        up = np.clip((added - points[at - 1]) / (points[at] - points[at - 1]), 0.0, 1.0)
        mass = np.bincount(at, rate * up, points.size)
        mass += np.bincount(at - 1, rate * (1.0 - up), points.size)
        some = mass > 0.0
        return self._replace(ratios=points[some], log_q=np.log(mass[some]), kind=None)


def _log_more(q: Floats, p: Floats, counts: Floats, most: int, steps: int) -> tuple[float, float]:
    """Logs of bounds on the masses under Q and P of more than so many large ones."""
    expected = dot(q, counts)
    log_q = (most + 1.0) * math.log(expected) - math.lgamma(most + 2.0)
    return log_q, log_q + math.log1p((most + 1.0) * dot(p, counts) / steps / expected)


class Between:
    """Laws of log W under P above and below one epoch."""

    def __init__(self, factors: Factors, drawn: int = 1) -> None:
        """Hold the laws of steps, which are one if a record takes part in several."""
        self.factors, self.drawn, self.counts = factors, drawn, [n for _, n in factors]
        self._shares, self._tolds = [shares for shares, _ in factors], list[Told]()
        self._laws = [shares.law for shares in self._shares]
        self.steps = self._shares[0].steps
        errors = [shares.error + following_error(shares.law) for shares in self._shares]
        error = 2.0 * sum(n * each for n, each in zip(self.counts, errors, strict=True))
        error += max(law.mass_errors[0] for law in self._laws)
        self._error = error, 4.0 * max(errors) + 8.0 * U
        # logs of the probabilities that a step of each kind is drawn, and that all X are 0
        self._chosen = [math.log(n / self.steps) for _, n in factors]
        self._log_zero = sum(n * shares.law.log_minus_infinite for shares, n in factors)

    @cached_property
    def _spread(self) -> tuple[Floats, Floats, float, float]:
        """Values of W, and bounds on logs of masses: under Q, and beyond the list under Q and P."""
        t, grids = self.steps, RatioGrid.of(self.factors, TAIL)
        rows, lost, masses, by_counts = [], [], list[Floats](), dict[Counts, Sums]()
        for grid, n, chosen in zip(grids, self.counts, self._chosen, strict=True):
            points = grid.lowest + grid.step * np.arange(float(grid.q.size))
            up = np.clip((grid.p - points * grid.q) / grid.step, 0.0, grid.q)
            mass = np.append(grid.q - up, 0.0)
            mass[1:] += up
            mass[0] += grid.zero
            masses.append(mass)
            beyond, (lost_p, lost_q) = grid.log_above + chosen, grid.lost
            # beyond the grid, where X > hi, Q has at most 1 / hi of what P has: the chosen X, or
            # others
            others = beyond + math.log(t) - grid.log_top
            lost += [(others, log_add(beyond, others))]
            lost += [(lost_q + math.log(n), log_add(lost_p + chosen, lost_q + math.log(n)))]
        step, large = grids[0].step, grids[0].large
        for ratios, counts, log_ways in large.choices(self.counts):
            those = sum(ratios)
            if (log_p := log_ways + math.log1p(those / t)) < DEPTH:
                lost.append((log_ways, log_p))
                continue
            if counts not in by_counts:
                by_counts[counts] = sums([*zip(masses, counts, strict=True)], DEPTH - log_ways)
            found = by_counts[counts]
            least = sum(n * grid.lowest for grid, n in zip(grids, counts, strict=True))
            w = (those + least + step * found.indices) / t
            log_mass, log_w = found.log_mass + log_ways, np.log(np.maximum(w, 1.0))
            deep = log_mass + log_w < DEPTH
            high = (log_mass + np.log1p(found.share))[deep]
            lost.append((_total(high), _total(high + log_w[deep])))
            rows.append(tuple(each[~deep] for each in (w, log_mass, found.share)))
            # W at a tilt has the mean of all X there
            far = math.log(those / t) + found.rest if ratios else -math.inf
            if found.beyond:
                last = found.highest
                mean = (least + step * last.mean) / t
                far = log_add(far, last.log_mgf - last.tilt * (found.indices[-1] + 1.0)
                              + math.log(mean))  # fmt: skip
            lost.append((found.rest + log_ways, log_add(far, found.rest) + log_ways))
        lost.append(large.more)
        w, log_mass, share = (np.concatenate(each) for each in zip(*rows, strict=True))
        known = (share < BAD) & (log_mass + np.log(np.maximum(w, 1.0)) > DEPTH)
        high = np.exp(log_mass) * (1.0 + share)
        low = np.exp(log_mass[known]) * (1.0 - share[known])
        means = [n / t * sum(shares.mean) for shares, n in self.factors]
        left = sum(means) - dot(low, w[known])
        lost.append((
            _least(float(high[~known].sum()), 1.0 - float(low.sum())),
            _least(dot(high, np.where(known, 0.0, w)), left),
        ))  # fmt: skip
        lost_q, lost_p = (float(np.logaddexp.reduce(each)) for each in zip(*lost, strict=True))
        return w[known], log_mass[known] + np.log1p(share[known]), lost_q, lost_p

    @property
    def _log_infinite(self) -> float:
        """Log of the mass of an X that is infinite where one step is drawn."""
        return log_mean([law.log_infinite for law in self._laws], np.exp(self._chosen).tolist())

    def above(self, adding: bool = False) -> PrivacyLoss:
        """Return a law that dominates the epoch with one step drawn."""
        w, log_q, lost_q, lost_p = self._spread
        infinite, zero = self._log_infinite, -math.inf
        if w.min(initial=1.0) == 0.0:
            zero, w, log_q = float(log_q[w == 0.0][0]), w[w > 0.0], log_q[w > 0.0]
        if not w.size:
            raise NumericError(f"{self._laws[0].label}: no mass is known on a grid")
        loss = np.log(w)
        if adding:
            return self._law(-loss, log_q, log_add(zero, lost_q), True)
        return self._law(loss, log_q + loss, log_add(infinite, lost_p), True)

    def told(self, log_tail: float) -> Told:
        """Bounds on masses of what is told: large ratios, and the sum of the others' points."""
        t, k = self.steps, self.drawn
        grids = RatioGrid.of(self.factors, log_tail, half=True, bend=(k - 1.0) / max(t - k, 1))
        # what no cell has may be in the first one, or the last; else it is nothing beside the rest
        lacks = max(max(grid.lost) for grid in grids) > DEPTH + math.log(U)
        least: list[tuple[Floats, Floats]] = []  # masses under P and Q by kind, and at most
        most: list[tuple[Floats, Floats]] = []
        for grid in grids:
            q = grid.q.copy()
            q[0] += grid.zero
            least.append((grid.p, q))
            both = grid.p.copy(), q.copy()
            for mass, log_lost in zip(both, grid.lost, strict=True):
                mass[[0, -1]] += math.exp(log_lost) * lacks
            most.append(both)
        large = grids[0].large

        @lru_cache(None)
        def of(under_p: int, counts: Counts, depth: float) -> tuple[Sums, Sums]:
            """Sums over so many steps, of which so many are under P: of many kinds any one."""
            found = []
            for masses in (least, most)[: 1 + lacks]:
                parts = [(q, n) for (_, q), n in zip(masses, counts, strict=True)]
                drawn: Drawn = ()
                if len(masses) > 1 and under_p:
                    whole = sum(counts)
                    drawn = [(p, n / whole) for (p, _), n in zip(masses, counts, strict=True)]
                elif under_p:
                    parts = [(masses[0][0], under_p), (masses[0][1], counts[0] - under_p)]
                found.append(sums(parts, depth, drawn))
            return found[0], found[-1]

        rows, depths = [], dict[Counts, float]()
        for ratios, counts, log_ways in large.choices(self.counts):
            if log_ways + math.log1p(sum(ratios) / t) < DEPTH:
                continue
            m, symmetric = len(ratios), np.poly(-np.array(ratios))
            depth = depths.setdefault(counts, DEPTH - log_ways)
            laws, weights = [of(0, counts, depth)], [log_ways]
            for i in range(min(k, m) + 1):  # under P with i of the m drawn
                if t - m - k + i < 0:
                    continue
                # of the ways to place the large ones, those where i are under P
                ways = comb(k, i) * comb(t - k, m - i) / comb(t, m)
                ways *= symmetric[i] / comb(m, i) if i > 0 else 1.0
                laws.append(of(k - i, counts, depth))
                weights.append(log_ways + math.log(ways))
            first = max(law.first for pair in laws for law in pair)
            last = max(min(law.first + law.share.size for pair in laws for law in pair), first)
            low: list[Floats] = []
            high: list[Floats] = []
            for pair, weight in zip(laws, weights, strict=True):
                for law, sign, found in zip(pair, (-1.0, 1.0), (low, high), strict=True):
                    at = slice(first - law.first, last - law.first)
                    log_mass, share = law.log_mass[at] + weight, law.share[at]
                    with np.errstate(divide="ignore", invalid="ignore"):
                        side = log_mass + np.log1p(sign * share)
                    found.append(np.where(share < BAD, side, sign * math.inf))
            under_p = np.logaddexp.reduce(low[1:]), np.logaddexp.reduce(high[1:])
            rows.append((low[0], high[0], *under_p, np.full(last - first, first == 0 and not m)))
            rows[-1][-1][1:] = False
        apart = all(q[0] > 0.0 for _, q in least) and all(p[0] == 0.0 for p, _ in most)
        zero = sum(n * log_of(q[0] * apart) for (_, q), n in zip(least, self.counts, strict=True))
        only = zero, log1mexp(k * log_complement(self._log_infinite))
        low_q, high_q, low_p, high_p, none = map(np.concatenate, zip(*rows, strict=True))
        return Told(low_q, high_q, low_p, high_p, none, *only)

    def below(self, adding: bool = False) -> PrivacyLoss:
        """Return a law that the epoch dominates, of removing or of adding a record."""
        found: list[PrivacyLoss] = []
        for i, log_tail in enumerate(TOLD):
            if i == len(self._tolds):
                try:
                    with apart():  # whatever was found before
                        self._tolds.append(self.told(log_tail))
                except OutOfWorkError:
                    if not found:
                        raise
                    break
            found.append(self._below(adding, self._tolds[i]))
            if found[-1].log_early < TOLD_ENOUGH:
                break
        return min(found, key=lambda law: law.log_early)

    def _below(self, adding: bool, told: Told) -> PrivacyLoss:
        """The law of these sums, where both sides are known."""
        log_p, log_q, only_p, only_q = told.low_p, told.high_q, told.only_p, told.only_q
        if adding:
            log_p, log_q, only_p, only_q = told.low_q, told.high_p, only_q, only_p
        known = (np.maximum(log_p, log_q) > DEPTH) & (log_p > -math.inf) & (log_q < math.inf)
        if min(max(only_q, only_p), self._log_zero) > -math.inf:
            known &= ~told.none
        if not known.any():  # nothing is told
            return self._law(np.zeros(1), np.zeros(1), -math.inf, False)
        return self._law(log_p[known] - log_q[known], log_p[known], only_p, False)

    def _law(self, loss: Floats, log_p: Floats, log_infinite: float, upper: bool) -> PrivacyLoss:
        """The law with these masses, which are bounds from one side, and so may not sum to one."""
        label = f"random allocation of {self._laws[0].label}"
        made = one_sided(loss, log_p, log_infinite, label, upper, *self._error)
        return replace(made, of_estimated=any(law.estimated for law in self._laws))


def _total(logs: Floats) -> float:
    """Log of a sum."""
    return float(np.logaddexp.reduce(logs, initial=-math.inf))


def _least(masses: float, left: float) -> float:
    """Log of what sums of bounds on masses, or what others leave of the whole, prove."""
    most = min(masses, max(left, 0.0) + 16.0 * U)
    return log_of(most)


class RatioGrid(NamedTuple):
    """One X on a grid."""

    lowest: float
    step: float
    q: Floats  # masses under Q of cells between points, or around them
    p: Floats
    zero: float  # Q(p = 0)
    log_above: float  # log of the mass under P beyond the grid and the large ones
    log_top: float  # log of the largest X of all, beyond which little is left
    large: Large
    lost: tuple[float, float]  # logs of masses under P and Q that are in no cell

    @classmethod
    def of(
        cls, factors: Factors, log_tail: float, half: bool = False, bend: float = 0.0
    ) -> list[RatioGrid]:
        """Choose grids of one step, and cut laws at their points or half way between them."""
        # Points are equally far apart in log(1 + bend X) / bend, or in X.
        zeros = [math.exp(shares.law.log_minus_infinite) for shares, _ in factors]
        ranges = []
        for (shares, _), zero in zip(factors, zeros, strict=True):
            lo, hi = (math.exp(min(end, MOST_LOG)) for end in shares.law.support)
            ranges.append((0.0 if zero > 0.0 else lo, hi))

        def highest(log: float) -> list[tuple[float, float]]:
            each = zip(factors, ranges, strict=True)
            return [_highest(s, lo, hi, log) for (s, _), (lo, hi) in each]

        tops = highest(LOST)
        large = Large.of(factors, [math.log(top) for top, _ in tops], half)
        tops = tops if large.most else highest(log_tail)

        def cut(kind: int, step: float, half: bool) -> RatioGrid:
            """With cells between points, the last up to the end, or around them; what they lack."""
            shares, (lo, end), (top, log_above) = factors[kind][0], ranges[kind], tops[kind]
            x = lo + step * np.arange(max(math.ceil((end - lo) / step), 1) + 1.0)
            x[-1] = max(end, x[-2])
            if half:  # what is beyond the grid is told by its last point
                end = end * (1.0 + 1e-12) if large.most else math.inf
                x = np.concatenate([[0.0], 0.5 * (x[1:] + x[:-1]), [end]])
                if bend:
                    x = np.expm1(np.minimum(bend * x, MOST_LOG + math.log(min(bend, 1.0)))) / bend
            else:
                x[0], x[-1] = x[0] * (1.0 - 1e-12), x[-1] * (1.0 + 1e-12)
            with np.errstate(divide="ignore"):  # X may be smaller than any double
                p, q = shares.law.cell_masses(np.log(x))
            zero = zeros[kind]
            held = float(q.sum() + large.held[kind % large.held.size]) + zero
            if not held > 1.0 - HELD:  # bounds would lack the rest
                raise NumericError(
                    f"{shares.law.label}: cells hold a mass of {held:g} of Q, not one"
                )
            both = shares.law, shares.law.reversed()
            lost_p, lost_q = (log_add(law.log_lost, law.log_unlisted) for law in both)
            return cls(lo, step, q, p, zero, log_above, math.log(top), large, (lost_p, lost_q))

        if large.most:
            ranges = [(lo, hi) for (lo, _), hi in zip(ranges, large.others, strict=True)]
        else:
            ranges = [(lo, top) for (lo, _), (top, _) in zip(ranges, tops, strict=True)]
        if bend:
            bent = (np.log1p(bend * np.array(ends)) / bend for ends in ranges)
            ranges = [(float(lo), float(hi)) for lo, hi in bent]
        few, t, spans = factors[0][0], factors[0][0].steps, [hi - lo for lo, hi in ranges]
        widest = max(spans) or 1.0
        if len(factors) == 1 and not few.continuous and len(few.points[0]) <= 2:
            return [cut(0, widest, half)]
        variance = 0.0
        for i, (_, n) in enumerate(factors):
            rough = cut(i, (spans[i] or 1.0) / ROUGH, True)
            rough.q[0] += rough.zero
            variance += n * float(Points.of(rough.q, n).moments(0.0)[2]) * rough.step**2
        size = period(len(factors))
        count = min(widest / (PERIOD * math.sqrt(variance) + JUMPS * widest) * size, FINEST)
        step = widest / math.floor(max(count, min((size - 2.0) / t, FINEST), 1.0))
        return [cut(i, step, half) for i in range(len(factors))]


def listed(shares: Shares, drawn: int = 1) -> PrivacyLoss | None:
    """Return the law of log W under P, sum by sum; None where there are too many.

    Args:
        shares: the law of one step, of t.
        drawn: how many of the t steps a record takes part in.
    """
    law, t = shares.law, shares.steps
    log_x, log_q = shares.points
    several = shares.continuous or law.log_early > -math.inf or log_x.max() > MOST_LOG
    if several or comb(t + log_x.size - 1, t) > LISTED:
        return None
    at = np.exp(log_x)
    w, mass = draws(at / t, log_q, t)
    if drawn > 1:
        ways = math.log(comb(t, min(drawn, t // 2)))
        if drawn * float(np.abs(law.atom_loss).max(initial=0.0)) + ways > MOST_LOSS:
            return None
        w = _mean_of_products(at, t, drawn)
    spend(60.0 * w.size)
    none = w == 0.0
    loss = np.log(w[~none])
    order = np.argsort(loss, kind="stable")
    some, other = shares.log_unlisted  # one of them may have any loss
    early = (np.logaddexp(some + math.log(drawn), other + math.log(t)), other + math.log(t))
    error = 2.0 * (t + drawn - 1) * shares.error + law.mass_errors[0]
    error += 16.0 * U * (1.0 + math.lgamma(t + 2.0))
    rounding = 8.0 * t + 8.0 * (drawn - 1) * at.size
    infinite = log1mexp(drawn * log_complement(law.log_infinite)) if drawn > 1 else law.log_infinite
    made = PrivacyLoss.from_log_atoms(
        loss[order], (mass[~none] + loss)[order], log_add(infinite, early[0]),
        log_add(float(np.logaddexp.reduce(mass[none], initial=-math.inf)), early[1]),
        f"random allocation of {law.label}", loss_error=4.0 * drawn * shares.error + rounding * U,
        density_error=error + (rounding * U if drawn > 1 else 0.0), early=early,
        parts=(Step(law, t),) if drawn == 1 else (),
    )  # fmt: skip
    return replace(made, of_estimated=law.estimated)


def _mean_of_products(at: Floats, steps: int, drawn: int) -> Floats:
    """The mean of all products of so many X, for all choices of points that `draws` lists."""
    found: Floats = np.ones((1, 1))
    for i in range(at.size):
        count = draws((np.arange(at.size) == i).astype(float), np.zeros(at.size), steps)[0]
        terms = [np.ones(count.size)]  # C(count, j) x^j
        for j in range(drawn):
            terms.append(terms[-1] * np.maximum(count - j, 0.0) * (at[i] / (j + 1.0)))
        spend(4.0 * count.size * drawn**2)
        found = np.stack([
            sum(found[:, m] * terms[j - m] for m in range(min(j, found.shape[1] - 1) + 1))
            for j in range(drawn + 1)
        ], axis=1)  # fmt: skip
    out: Floats = found[:, -1] / comb(steps, drawn)
    return out


def _highest(shares: Shares, lo: float, hi: float, log_tail: float) -> tuple[float, float]:
    """The last point of the grid, and the log of a bound on the mass under P beyond."""
    law = shares.law.first()  # which grows here, and is shared by questions
    if hi < 1e3:
        return hi, -math.inf
    best = math.log(hi)
    for tilt in np.geomspace(0.05, 50.0, 24):
        if not tilt < law.strip[1]:
            break
        best = min(best, (law.log_mgf(float(tilt)) - log_tail) / float(tilt))
    if best > 300.0:
        raise NumericError(f"{law.label}: likelihood ratios up to exp({best:g}) fit on no grid")
    return max(math.exp(best), 2.0 * lo + 1.0), log_tail
