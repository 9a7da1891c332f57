"""The likelihood ratio W of an epoch on a grid: a law above it, and one below.

In: the law of X = exp(L) under Q, t steps. Out: discrete laws of log W (docs/theorems.md, T11).

* Above: every X is split between its two neighbours on the grid, which keeps its mean. That spreads
  X and with it W, so that the pair dominates that of the epoch, in both directions (Blackwell).
* Below: every step tells the nearest point of the grid alone, and the epoch the sum of these
  points. That is post-processing. With A the law of the sum under Q, and B the one where k steps
  are drawn from P, B against A is below the epoch in which a record takes part in k steps. As
  every sum is as likely, whichever the k steps are, no more is lost by not telling them.

Both move W by a mean of t small moves, so that delta is off in the second order of the step. Laws
of sums are transforms of laws tilted by exp(as), a mesh of tilts apart by about one standard
deviation: every mass has a relative error of its own. A transform of masses x is off by eta |x|_1
in every place (`fft.transform_error`), what a period folds is at most exp(K(b) - K(a) - (b - a) s).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours.atoms import draws
from mechc.accountants.contours.put import Shares
from mechc.accountants.fft import log1mexp, log_add, transform_error
from mechc.errors import NumericError
from mechc.loss.allowance import spend
from mechc.loss.discretise import one_sided
from mechc.loss.infinite_mass import log_complement
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.rounding import U

Floats = NDArray[np.float64]
Parts = Sequence[tuple[Floats, int]]

LISTED = 20_000  # sums of point masses that are listed one by one
SIZE = 2**16  # points of a period
MOST_SUMS = 2**23  # points between the lowest and the highest sum that matter
FINEST, ROUGH = 2**15, 2**11  # points of one X, and of a first look
PERIOD, JUMPS = 18.0, 4.0  # standard deviations in a period, and largest X beside
APART = 2.0  # the same between tilts
JUMP = 4.0  # the same, of means, beyond which tilts are closer
DEPTH = -75.0  # log of a probability that matters
MOST, BEYOND = 400, 3  # tilts; more of them for bounds at the ends
LEAST = 0.02  # standard deviation, in steps of the grid, at an end
TAIL = math.log(1e-16)  # log of the mass under P of X beyond the grid
TOLD = math.log(1e-6), math.log(1e-3)  # of X that are told by its last point
ENOUGH = math.log(1e-3)  # of the mass that is not told, from where on the next is tried
NOTHING = 1e-150  # tilted mass, and |phi| of the sum, that is none
BAD = 0.1  # relative error of a mass that counts as unknown


class Rung(NamedTuple):
    """A tilt; log of the moment generating function, mean and standard deviation there."""

    tilt: float
    log_mgf: float
    mean: float
    sd: float


class Sums(NamedTuple):
    """The law of a sum of points of a grid.

    Attributes:
        first: the lowest sum that is listed.
        log_mass: logs of masses.
        share: relative errors of them, inf for what is not known.
        rest: log of the mass that is not listed.
        highest: the tilt that bounds those above best.
        beyond: there are sums above those that are listed.
    """

    first: int
    log_mass: Floats
    share: Floats
    rest: float
    highest: Rung
    beyond: bool


class Between:
    """Laws of log W under P above and below one epoch."""

    def __init__(self, shares: Shares, drawn: int = 1) -> None:
        """Hold the law of one step, and in how many steps a record takes part."""
        self.shares, self.drawn = shares, drawn
        self._tolds: list[tuple[Sums, Sums, float, float]] = []
        t = float(shares.steps)
        self._error = 2.0 * t * shares.error, 4.0 * shares.error + 8.0 * U

    @cached_property
    def _spread(self) -> tuple[Floats, Floats, float, float]:
        """Values of W, and bounds on logs of masses: under Q, and beyond the list under Q and P."""
        shares = self.shares
        grid, t = _Grid.of(shares, TAIL), float(shares.steps)
        up = np.clip((grid.p - grid.points[:-1] * grid.q) / grid.step, 0.0, grid.q)
        mass = np.append(grid.q - up, 0.0)
        mass[1:] += up
        mass[0] += grid.zero
        found = sums([(mass, shares.steps)])
        w = np.asarray(grid.lowest + grid.step * (found.first + np.arange(found.share.size)) / t)
        known = found.share < BAD
        high = np.exp(found.log_mass) * (1.0 + found.share)
        low = np.exp(found.log_mass[known]) * (1.0 - found.share[known])
        # W at a tilt has the mean of all X there
        last, far = found.highest, -math.inf
        if found.beyond:
            far = last.log_mgf - last.tilt * (found.first + found.share.size)
            far += math.log(grid.lowest + grid.step * last.mean / t)
        lost_q = _least(float(high[~known].sum()), 1.0 - float(low.sum()))
        left = sum(shares.mean) - float(low @ w[known])
        lost_p = _least(float(high @ np.where(known, 0.0, w)), left)
        # beyond the grid, where X > hi, Q has at most 1 / hi of what P has: the chosen X, or others
        others = grid.log_above + math.log(t / grid.points[-1])
        lost_q = float(np.logaddexp.reduce([found.rest, lost_q, others]))
        lost_p = float(np.logaddexp.reduce([far, lost_p, found.rest, grid.log_above, others]))
        log_q = found.log_mass[known] + np.log1p(found.share[known])
        return w[known], log_q, lost_q, lost_p

    def above(self, adding: bool = False) -> PrivacyLoss:
        """Return a law that dominates the epoch with one step drawn."""
        w, log_q, lost_q, lost_p = self._spread
        infinite, zero = self.shares.law.log_infinite, -math.inf
        if w.min(initial=1.0) == 0.0:
            zero, w, log_q = float(log_q[w == 0.0][0]), w[w > 0.0], log_q[w > 0.0]
        if not w.size:
            raise NumericError(f"{self.shares.law.label}: no mass is known on a grid")
        loss = np.log(w)
        if adding:
            return self._law(-loss[::-1], log_q[::-1], log_add(zero, lost_q), True)
        return self._law(loss, log_q + loss, log_add(infinite, lost_p), True)

    def _told(self, log_tail: float) -> tuple[Sums, Sums, float, float]:
        """Sums of the points that are told under Q and P; logs of Q(p = 0) and P(q = 0)."""
        grid, t = _Grid.of(self.shares, log_tail, half=True), self.shares.steps
        q, p, k = grid.q.copy(), grid.p, self.drawn
        q[0] += grid.zero
        under_p = sums([(p, k), (q, t - k)][: 1 if k == t else 2])
        apart = q[0] > 0.0 and p[0] == 0.0
        gap = k * log_complement(self.shares.law.log_infinite)
        return sums([(q, t)]), under_p, t * math.log(q[0]) if apart else -math.inf, log1mexp(gap)

    def below(self, adding: bool = False) -> PrivacyLoss:
        """Return a law that the epoch dominates, of removing or of adding a record."""
        found: list[PrivacyLoss] = []
        for i, log_tail in enumerate(TOLD):
            if i == len(self._tolds):
                self._tolds.append(self._told(log_tail))
            found.append(self._below(adding, *self._tolds[i]))
            if found[-1].log_early < ENOUGH:
                break
        return min(found, key=lambda law: law.log_early)

    def _below(
        self, adding: bool, under_q: Sums, under_p: Sums, only_q: float, only_p: float
    ) -> PrivacyLoss:
        """The law of these sums, where both sides are known."""
        first = max(under_q.first, under_p.first)
        last = min(each.first + each.share.size for each in (under_q, under_p))
        laws = []
        for each in (under_q, under_p):
            at = slice(first - each.first, max(last, first) - each.first)
            laws.append((each.log_mass[at], each.share[at]))
        if adding:
            laws, only_q, only_p = laws[::-1], only_p, only_q
        (log_q, off_q), (log_p, off_p) = laws
        known = (off_q < BAD) & (off_p < BAD)
        if min(only_q, only_p) > -math.inf or first == 0:  # all are 0, or nothing else tells
            zero = self.shares.law.log_minus_infinite
            known[0] &= max(only_q, only_p) == -math.inf or zero == -math.inf
        if not known.any():  # nothing is told
            return self._law(np.zeros(1), np.zeros(1), -math.inf, False)
        log_p = log_p[known] + np.log1p(-off_p[known])
        loss = log_p - log_q[known] - np.log1p(off_q[known])
        return self._law(loss, log_p, only_p, False)

    def _law(self, loss: Floats, log_p: Floats, log_infinite: float, upper: bool) -> PrivacyLoss:
        """The law with these masses, which are bounds from one side, and so may not sum to one."""
        label = f"random allocation of {self.shares.law.label}"
        return one_sided(loss, log_p, log_infinite, label, upper, *self._error)


def _least(masses: float, left: float) -> float:
    """Log of what sums of bounds on masses, or what others leave of the whole, prove."""
    most = min(masses, max(left, 0.0) + 16.0 * U)
    return math.log(most) if most > 0.0 else -math.inf


class _Grid(NamedTuple):
    """One X on a grid.

    Attributes:
        lowest, step: its points.
        q, p: masses under Q and P of cells between points, or around them.
        zero: Q(p = 0).
        log_above: log of the mass under P beyond the grid.
    """

    lowest: float
    step: float
    q: Floats
    p: Floats
    zero: float
    log_above: float

    @property
    def points(self) -> Floats:
        """The values of X, one more than cells lie between them."""
        out: Floats = self.lowest + self.step * np.arange(self.q.size + 1.0)
        return out

    @classmethod
    def of(cls, shares: Shares, log_tail: float, half: bool = False) -> _Grid:
        """Choose a grid, and cut the law at its points or half way between them."""
        law, t = shares.law, shares.steps
        ends = [math.exp(min(end, 700.0)) for end in law.support]
        zero = math.exp(shares.law.log_minus_infinite)
        lo, hi = (0.0 if zero > 0.0 else ends[0]), ends[1]
        hi, log_above = _highest(shares, lo, hi, log_tail)
        if not shares.continuous and law.atom_loss.size + (zero > 0.0) <= 2:
            return cls._cut(shares, lo, hi, 1, half, log_above)
        rough = cls._cut(shares, lo, hi, ROUGH, True, log_above)
        rough.q[0] += zero
        spread = _moments([(rough.q, t)], 0.0).sd * rough.step
        count = min((hi - lo) / (PERIOD * spread + JUMPS * (hi - lo)) * SIZE, FINEST)
        count = max(count, min((SIZE - 2.0) / t, FINEST), 1.0)
        return cls._cut(shares, lo, hi, math.floor(count), half, log_above)

    @classmethod
    def _cut(
        cls, shares: Shares, lo: float, hi: float, count: int, half: bool, log_above: float
    ) -> _Grid:
        step = (hi - lo) / count
        x = lo + step * np.arange(count + 1.0)
        if half:  # what is beyond the grid is told by its last point
            x = np.concatenate([[0.0], 0.5 * (x[1:] + x[:-1]), [math.inf]])
        else:
            x[0], x[-1] = x[0] * (1.0 - 1e-12), x[-1] * (1.0 + 1e-12)
        with np.errstate(divide="ignore"):
            edges = np.clip(np.log(x), -745.0, 745.0)
        p, q = shares.law.cell_masses(edges)
        zero = math.exp(shares.law.log_minus_infinite)
        return cls(lo, step, q, p, zero, log_above)


def listed(shares: Shares) -> PrivacyLoss | None:
    """Return the law of log W under P, sum by sum; None where there are too many."""
    law, t = shares.law, shares.steps
    at, log_q = np.exp(law.atom_loss), law.atom_log_mass - law.atom_loss
    if law.log_minus_infinite > -math.inf:
        at, log_q = np.append(at, 0.0), np.append(log_q, law.log_minus_infinite)
    several = shares.continuous or law.log_early > -math.inf
    if several or math.comb(t + at.size - 1, t) > LISTED:
        return None
    w, mass = draws(at / t, log_q, t)
    spend(60.0 * w.size)
    none = w == 0.0
    loss = np.log(w[~none])
    order = np.argsort(loss, kind="stable")
    error = 2.0 * t * shares.error + 16.0 * U * (1.0 + math.lgamma(t + 2.0))
    return PrivacyLoss.from_log_atoms(
        loss[order], (mass[~none] + loss)[order], law.log_infinite,
        float(mass[none][0]) if none.any() else -math.inf,
        f"random allocation of {law.label}", loss_error=4.0 * shares.error + 8.0 * t * U,
        density_error=error,
    )  # fmt: skip


def _highest(shares: Shares, lo: float, hi: float, log_tail: float) -> tuple[float, float]:
    """The last point of the grid, and the log of a bound on the mass under P beyond."""
    law = shares.law
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


def _moments(parts: Parts, tilt: float) -> Rung:
    k = mean = variance = 0.0
    for mass, count in parts:
        index = np.arange(mass.size, dtype=np.float64)
        with np.errstate(divide="ignore"):
            exponent = np.log(mass) + tilt * index
        top = float(exponent.max())
        w = np.exp(exponent - top)
        total = float(w.sum())
        own = float(w @ index) / total
        k += count * (top + math.log(total))
        mean += count * own
        variance += count * float(w @ (index - own) ** 2) / total
    spend(6.0 * sum(mass.size for mass, _ in parts))
    return Rung(tilt, k, mean, math.sqrt(variance))


def _ladder(parts: Parts) -> tuple[list[Rung], int, int]:
    """Tilts for all sums that matter, in order; and which of them are beyond."""
    middle = _moments(parts, 0.0)
    sides = []
    for sign in (-1.0, 1.0):
        side: list[Rung] = []
        rung, more = middle, 0
        while len(side) < MOST:
            if rung.sd < LEAST:
                break
            depth = rung.log_mgf - middle.log_mgf - rung.tilt * rung.mean
            more += depth < DEPTH
            if more > BEYOND:
                break
            move = APART / rung.sd
            for _ in range(12):
                found = _moments(parts, rung.tilt + sign * move)
                if abs(found.mean - rung.mean) <= JUMP * max(found.sd, rung.sd) + 1.0:
                    break
                move *= 0.5
            rung = found
            side.append(rung)
        sides.append((side, more))
    (left, fewer), (right, more) = sides
    return [*left[::-1], middle, *right], max(fewer - 1, 0), max(more - 1, 0)


def sums(parts: Parts) -> Sums:
    """Return the law of a sum of independent points of a grid.

    Args:
        parts: masses of the points 0, 1, .. of one term, and how many there are.

    Raises:
        NumericError: it has too many points.
    """
    ladder, fewer, more = _ladder(parts)
    used = ladder[fewer : len(ladder) - more]
    top = sum(count * (mass.size - 1) for mass, count in parts)
    means = np.array([rung.mean for rung in used])
    first = 0 if used[0].sd < 1.0 else max(0, math.floor(means[0]))
    last = top if used[-1].sd < 1.0 else min(top, math.ceil(means[-1]))
    if last - first > MOST_SUMS:
        raise NumericError(f"sums of points on a grid range over {last - first} of them")
    # the smallest Chernoff bound, and of the masses that are known the one that is known best
    log_mass, share = np.full(last + 1 - first, np.inf), np.full(last + 1 - first, 2.0)
    for rung in used:
        np.minimum(log_mass, rung.log_mgf - rung.tilt * np.arange(first, last + 1), out=log_mass)
    size = min(SIZE, 1 << math.ceil(math.log2(top + 2)))
    many = float(sum(count for _, count in parts))
    for rung in used:
        start = max(round(rung.mean) - size // 2, 0) if top >= size else 0
        lo, hi = max(first, start), min(last + 1, start + size)
        if lo >= hi:
            continue
        index = np.arange(lo, hi)
        exponent = rung.log_mgf - rung.tilt * index
        folded = _folded(ladder, rung, start, start + size, top)
        values, error = _tilted(parts, rung, size)
        value = values[index % size]
        with np.errstate(divide="ignore"):
            own = 2.0 * (error + folded) / np.maximum(value, 1e-300)
            found = np.log(np.maximum(value, error)) + exponent
        own += 8.0 * U * (8.0 * many + np.abs(rung.log_mgf) + np.abs(rung.tilt * index))
        at = slice(lo - first, hi - first)
        better = (own < 1.0) & (own < share[at])
        log_mass[at] = np.where(better, found, log_mass[at])
        share[at] = np.where(better, own, share[at])
    rest, highest = -math.inf, used[-1]
    if first > 0:
        rest = min(each.log_mgf - each.tilt * (first - 1.0) for each in ladder)
    if last < top:
        highest = min(ladder, key=lambda each: each.log_mgf - each.tilt * (last + 1.0))
        rest = log_add(rest, highest.log_mgf - highest.tilt * (last + 1.0))
    return Sums(first, log_mass, share, rest, highest, last < top)


def _folded(ladder: Sequence[Rung], rung: Rung, start: int, end: int, top: int) -> float:
    """Bound on the tilted mass outside of a period."""
    found = 0.0
    for side, edge, sign in ((start > 0, start - 1, -1.0), (end <= top, end, 1.0)):
        if side:
            logs = [
                other.log_mgf - rung.log_mgf - (other.tilt - rung.tilt) * edge
                for other in ladder
                if sign * (other.tilt - rung.tilt) > 0.0
            ]
            found += math.exp(min(min(logs, default=0.0), 0.0))
    return found


def _tilted(parts: Parts, rung: Rung, size: int) -> tuple[Floats, float]:
    """The tilted law of the sum, folded to a period, and the error of every mass."""
    eta = transform_error(size)
    product = np.ones(size // 2 + 1, np.complex128)
    far, near = np.ones(product.size), np.zeros(product.size)  # |phi| and errors, from above
    spend(40.0 * size * len(parts))
    for mass, count in parts:
        index = np.arange(mass.size)
        with np.errstate(divide="ignore"):
            exponent = np.log(mass) + rung.tilt * index
        weight = np.exp(exponent - exponent.max())
        weight /= float(weight.sum())
        large = weight > 1e-20
        weight[weight < NOTHING] = 0.0
        off = eta + 4.0 * U * (8.0 + float(np.abs(exponent[large]).max()))
        spectrum = np.fft.rfft(np.bincount(index % size, weight, size))
        most = np.minimum(np.abs(spectrum) + off, 1.0)
        faded = most < NOTHING ** (1.0 / count)  # what is left is slow to multiply
        spectrum[faded] = 0.0
        raised = np.exp((count - 1.0) * np.log(np.where(faded, 1.0, most)))
        raised[faded] = NOTHING
        rounding = (8.0 * count + 1500.0) * U  # of log phi, and of its product with the count
        near = near * raised * most + far * raised * (count * off + rounding)
        far = far * raised * most
        with np.errstate(divide="ignore", invalid="ignore"):
            product *= np.exp(count * np.log(spectrum))
    each = np.full(product.size, 2.0 / size)
    each[0] = each[-1] = 1.0 / size
    values: Floats = np.fft.irfft(product, size)
    return values, float(each @ near) + eta * float(each @ far)
