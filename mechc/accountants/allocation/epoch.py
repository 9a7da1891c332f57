"""One epoch of random allocation: its privacy profile, and laws of its loss.

In: the laws of the losses of the steps. Out: bounds on delta(epsilon) of the epoch, in which W,
the mean of t copies of exp(L) under Q, is the likelihood ratio (docs/theorems.md, T11),

    remove: P(q = 0) + E_Q[(W - e^eps)_+],    add: e^eps E_Q[(e^-eps - W)_+],

and laws of its loss for whatever composes epochs: by the density of W, on both sides at once, or,
where X has point masses, one above and one below (`grids`), rounded to a lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from mechc.accountants.allocation import likelihood_ratio
from mechc.accountants.allocation.grids import Between, listed
from mechc.accountants.allocation.likelihood_ratio import RARE
from mechc.accountants.allocation.puts_and_calls import (
    CAP,
    CLOSE_CONTOURS,
    EDGE,
    LASTING,
    WIDTH,
    Factors,
    Shares,
    Term,
)
from mechc.accountants.bound import Bound, Place, below
from mechc.errors import NumericError
from mechc.loss.discretise import one_sided, rounded_down, rounded_up
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import OutOfWorkError, apart, spend
from mechc.numeric.logs import log_add, log_mean, log_of, log_subtract
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

POINTS = 2**15  # of a lattice, more than what methods other than grids take cheaply
PAIRED = 2**12  # of each of two laws of which all sums are taken
TAIL = 1e-30  # mass beyond its ends
WIDE = 1e-6  # nats between bounds, beyond which the density of W is found ...
FINE, ROUGH = 1e-13, 1e-3  # ... unless this in units of max(1, e^epsilon), and so many nats
DEEPEST = -160.0  # log of a delta that the density does not tell from what it leaves out
NEAREST, FARTHEST = 1e-9, 60.0  # least range of a lattice; largest |log W| that contours see
KINDS, COARSE = 12, 1e-9  # of more kinds of steps such a delta, over e^epsilon, needs no density
MANY, APART = 12, 1.4  # large X that are told apart; least of log U - log b
# relative error of a sum of terms, which are positive and add up to the whole within 1e-16: three
# logs of each, none beyond 170, are rounded, and so is what is added
CALLED = 1e-13
FEW = 10, 20, 40  # steps whose law is made first; where contours do not fade; if X has no jumps
SOME = 40  # steps of point masses whose law is made before calls are
NEGLIGIBLE = 28.0  # nats below the answer
_Z = np.arange(40.0, -0.1, -0.1)  # of a normal variable, the log of whose mean excess is about
NORMAL = -0.5 * _Z**2 - np.log(1.0 + 0.9 * _Z + _Z**2) - 0.92, _Z
TURNS, SETTLED = 12, 1e-12  # secant steps, and nats of delta that end them, ...
NEAR_NOISE = 1e-3  # ... if these are its noise: of wider bounds the estimate is good
LARGE = math.log1p(-math.exp(-1.0)) - 1e-12  # log of the share of a loss beyond s + 1 in delta(s)
ROOM = 2.0  # times the width of delta that an epsilon is moved to be certified


class Ratio:
    """The likelihood ratio W of an epoch.

    Attributes:
        factors: laws of X, each with t, and how many of the t they are of.
        shares: the first law.
    """

    def __init__(self, factors: Factors, kept: Ratio | None = None) -> None:
        """Hold the laws; contours are laid when they are asked for, laws on grids may be kept."""
        self.factors, self.shares, self._kept = factors, factors[0][0], kept
        self._by_top: dict[tuple[float, float, int], list[Term]] = {}
        self._between: dict[int, Between | Joined] = {}

    @cached_property
    def listed(self) -> PrivacyLoss | None:
        """The law of log W under P where it is few point masses."""
        return listed(self.shares) if len(self.factors) == 1 else None

    @cached_property
    def exact(self) -> PrivacyLoss | None:
        """The law of log W under P, None where point masses are too many to be listed."""
        if self._kept is not None:
            found = self._kept.exact
            return None if found is None else found.fork()
        try:
            with apart():
                first = (replace(s, law=s.law.first(), steps=n) for s, n in self.factors)
                return self.listed or likelihood_ratio.law(*first)
        except (NumericError, OutOfWorkError):
            return None

    def between(self, drawn: int = 1) -> Between | Joined:
        """The laws on a grid where a record takes part in so many steps."""
        if self._kept is not None:
            return self._kept.between(drawn)
        if drawn not in self._between:
            first = [(replace(s, law=s.law.first()), n) for s, n in self.factors]
            mixed = len({shares.continuous for shares, _ in first}) > 1
            self._between[drawn] = Joined(first) if mixed else Between(first, drawn)
        return self._between[drawn]

    @cached_property
    def off(self) -> float:
        """How far log X of point masses, and so log W, may be off."""
        laws = [shares.law for shares, _ in self.factors]
        return max(law.loss_error + law.loss_rounding for law in laws)

    @property
    def spread(self) -> float:
        """Standard deviation of W under Q."""
        return math.sqrt(max(float(self.whole.rough.roughly(0.0)[0, 2]), 1e-300))

    @cached_property
    def whole(self) -> Term:
        """W itself."""
        return Term(self.factors)

    def put(self, c: Floats, at: float) -> Floats:
        """Return rows (lower, estimate, upper) of logs of E_Q[(c - W)_+], by the contour of a c."""
        means = [n / shares.steps * sum(shares.mean) for shares, n in self.factors]
        rows, mean = self.beside(lambda each: self.whole.payoff(each, 1, at), c, 1), sum(means)
        with np.errstate(divide="ignore"):  # W >= 0, and E W is known
            least = np.log(np.maximum(c - mean - 8.0 * EPS * (1.0 + c), 0.0))
        rows[:, 2] = np.minimum(rows[:, 2], np.log(c) + 8.0 * EPS)
        rows[:, 0] = np.minimum(np.maximum(rows[:, 0], least), rows[:, 2])
        return rows

    def beside(self, payoff: Callable[[Floats], Floats], c: Floats, sign: int) -> Floats:
        """Rows of logs of a put, or of a call for a sign of -1, for all X within their errors."""
        rows = payoff(c)
        if self.off > 0.0:  # W is off by as large a share, at most
            for i, side in ((0, -sign), (2, sign)):
                rows[:, i] = payoff(c * math.exp(side * self.off))[:, i] - side * self.off
        return rows

    def chernoff(self, c: float) -> float:
        """Log of an upper bound on a put."""
        c *= math.exp(self.off)
        size, log_phi = self.whole.above(1)
        return float(np.min(log_phi + size * c - np.log(size) - 1.0)) + 1e-12

    def call(self, c: float) -> tuple[float, float, float]:
        """Return (lower, estimate, upper) of E_Q[(W - c)_+], where X has point masses alone."""
        shares, t = self.shares, self.shares.steps
        p, q = shares.log_unlisted
        unlisted = math.exp(p) + t * math.exp(q)  # E[W; some X is]
        none = math.exp(DEEPEST) + unlisted
        mean, off = shares.mean
        b = likelihood_ratio.cap(shares, RARE)[0]
        if b == math.inf:
            if not shares.law.atom_loss.max(initial=-math.inf) < CAP:
                return 0.0, math.nan, math.inf
            return self._summed(c, self._terms(b, b, 0), 0.0, 0.0, none)
        log_u = CLOSE_CONTOURS * math.ceil((math.log(c * t) + EDGE * WIDTH) / CLOSE_CONTOURS)
        q, p = replace(shares, log_cap=log_u).above
        some = -math.expm1(t * math.log1p(-q))
        # E[W; some] = mean - (mean - p) (1 - q)^(t-1), with q at most 1 / (ct)
        found = (p - mean * q + (mean - p) * some) / (1.0 - q) - c * some
        error = (shares.error + 16.0 * EPS) * (p + (2.0 + c) * some) + 2.0 * off * some
        error += (1.0 + c) * unlisted
        b, most = min(b, log_u - APART), 0
        q, p = replace(shares, log_cap=b).above
        rest = t * q * (mean + off) + p  # E[W; more than `most` are large]
        while rest > max(none, 1e-13 * found) and most < min(MANY, t - 1):
            most += 1
            rest = (t * q) ** most / math.factorial(most) * (p + t * q / (most + 1))
        rest *= math.exp((most + 1.0) * shares.error)
        return self._summed(c, self._terms(b, log_u, most), found, error, rest + none)

    def _summed(
        self, c: float, terms: list[Term], found: float, error: float, rest: float
    ) -> tuple[float, float, float]:
        """Add terms to what is found already."""
        lower, estimate, upper = max(found - error, 0.0), found, found + error + rest
        bounds = [term.chernoff(c, -1) for term in terms]
        order = sorted(range(len(terms)), key=lambda i: (terms[i].drawn > 1, -bounds[i]))
        for i in order:
            if lower > 0.0 and bounds[i] < math.log(lower) - NEGLIGIBLE:
                upper += math.exp(bounds[i]) * 1.01
                continue
            row = np.exp(terms[i].payoff(np.array([c]), -1, c)[0])
            lower, estimate, upper = lower + row[0], estimate + row[1], upper + row[2]
        return float(lower) * (1.0 - CALLED), float(estimate), float(upper) * (1.0 + CALLED)

    def _terms(self, b: float, log_u: float, most: int) -> list[Term]:
        """By the number of large X, from b to U."""
        key = b, log_u, most
        if key not in self._by_top:
            shares, t = self.shares, self.shares.steps
            small, large = replace(shares, log_cap=b), replace(shares, log_floor=b, log_cap=log_u)
            found = [Term(((small, t),))]
            for m in range(1, most + 1):
                ways = math.log(math.comb(t, m))  # logs of factorials would lose 3e-9 of 1e6
                parts = [large]
                if m == 1:  # one by size, each with a saddle point where the answer is
                    ends = np.linspace(b, log_u, math.ceil((log_u - b) / APART) + 1).tolist()
                    parts = [replace(shares, log_floor=lo, log_cap=hi) for lo, hi in pairwise(ends)]
                found += [Term(((small, t - m), (part, m)), ways) for part in parts]
            self._by_top[key] = [term for term in found if term.log_mean > DEEPEST - 10.0]
        return self._by_top[key]


class Joined:
    """The laws on a grid of an epoch of which some steps have a density and others have none.

    W is a mean of those of two epochs, of the ones and of the others. Each is replaced by a law of
    points that dominates it or is dominated, one after the other (docs/theorems.md, T11).
    """

    def __init__(self, factors: Factors) -> None:
        """Hold the two epochs."""
        self.steps, self._parts = factors[0][0].steps, list[tuple[Ratio, float]]()
        for continuous in (True, False):
            some = [(s, n) for s, n in factors if s.continuous is continuous]
            steps = sum(n for _, n in some)
            own = Ratio([(replace(s, steps=steps), n) for s, n in some])
            self._parts.append((own, steps / self.steps))

    def above(self, adding: bool = False) -> PrivacyLoss:
        """Return a law that dominates the epoch."""
        return self._law(adding, True)

    def below(self, adding: bool = False) -> PrivacyLoss:
        """Return a law that the epoch dominates, of removing or of adding a record."""
        return self._law(adding, False)

    def _law(self, adding: bool, upper: bool) -> PrivacyLoss:
        laws = [self._of(ratio, adding, upper) for ratio, _ in self._parts]
        points = [
            _points(law, adding, share, upper)
            for law, (_, share) in zip(laws, self._parts, strict=True)
        ]
        (w, q), (other, mass) = points
        sign = -1.0 if adding else 1.0
        few = np.add.outer(np.sort(w)[:2], np.sort(other)[:2])
        ends = np.log([few[few > 0.0].min(), w.max() + other.max()])
        first, step = ends[0] - SETTLED, float(np.ptp(ends) + 2.0 * SETTLED) / POINTS
        # masses of cells under Q, and under P
        cells = np.zeros((2, POINTS + 1))
        zero = 0.0
        for x, weight in zip(w.tolist(), q.tolist(), strict=True):
            sums = x + other
            some = sums > 0.0
            zero += weight * float(mass[~some].sum())
            sums, own = sums[some], weight * mass[some]
            at = ((np.log(sums) - first) / step).astype(np.int64)
            for row, each in zip(cells, (own, own * sums), strict=True):
                row += np.bincount(at, each, POINTS + 1)
        spend(30.0 * w.size * other.size)
        at = np.flatnonzero(cells[0])
        under_q, under_p = cells[:, at]
        if upper:  # to both ends of a cell, keeping both masses
            lo = np.exp(first + step * at)
            up = np.clip((under_p / lo - under_q) / math.expm1(step), 0.0, under_q)
            at, under_q = np.append(at, at + 1), np.append(under_q - up, up)
            at, under_q = at[under_q > 0.0], under_q[under_q > 0.0]
            log_w = first + step * at
            under_p = under_q * np.exp(log_w)
        else:  # which cell it is
            log_w = np.log(under_p / under_q)
        infinite = zero
        if not adding:
            infinite = sum(
                share * float(np.exp(law.log_infinite) - np.exp(law.log_early)) * other_q.sum()
                for law, (_, share), (_, other_q) in zip(
                    laws, self._parts, points[::-1], strict=True
                )
            )
        made = one_sided(
            sign * log_w, np.log(under_q if adding else under_p), log_of(infinite),
            f"random allocation of {self._parts[0][0].shares.law.label}", upper,
            CALLED + sum(law.density_error for law in laws),
            CALLED + sum(law.loss_error for law in laws),
        )  # fmt: skip
        return replace(made, of_estimated=any(law.estimated for law in laws))

    @staticmethod
    def _of(ratio: Ratio, adding: bool, upper: bool) -> PrivacyLoss:
        """One of the two epochs, on few points."""
        if ratio.exact is None:
            between = ratio.between()
            law = between.above(adding) if upper else between.below(adding)
        else:
            law = ratio.exact.fork()
            law = law.reversed() if adding else law
        return _rounded(law, upper, PAIRED)


def _points(law: PrivacyLoss, adding: bool, share: float, upper: bool) -> tuple[Floats, Floats]:
    """Points of share * W with masses under Q, 0 with what is left of it among them."""
    log_w, log_mass = law.atom_loss, law.atom_log_mass
    if adding:
        q, rest = np.exp(log_mass), math.exp(law.log_infinite) - math.exp(law.log_early)
        log_w = -log_w
    else:
        q = np.exp(log_mass - log_w)
        # beside it the other part may reveal something: what the masses are off by counts
        error = CALLED + law.density_error + law.loss_error
        rest = 1.0 - math.fsum(q.tolist()) + (error if upper else -error)
    w, q = share * np.append(np.exp(log_w), 0.0), np.append(q, max(rest, 0.0))
    return w[q > 0.0], q[q > 0.0]


class Epoch:
    """Bounds on log delta of one epoch in one direction."""

    def __init__(
        self, law: PrivacyLoss, direction: str, steps: int, other: Epoch | None = None,
        beside: Sequence[tuple[PrivacyLoss, int]] = (), kept: Epoch | None = None,
    ) -> None:  # fmt: skip
        """Hold the laws of the loss of one step in that direction; nothing is computed yet.

        Args:
            law: of the privacy loss of one step.
            direction: "remove" or "add", which the laws are for.
            steps: t, of which a record takes part in one.
            other: the same epoch in the other direction; of one pair both have the same W.
            beside: laws of steps that are not like that, and how many of the t there are.
            kept: the same epoch, whose laws on grids serve all questions.
        """
        self.law, self.adding, self.steps = law, direction == "add", steps
        self.laws = [(law, steps - sum(n for _, n in beside)), *beside]
        shared: Ratio | None = None
        if other is not None:
            pairs = zip(self.laws, other.laws, strict=True)
            one_pair = all(
                own.source is not None
                and own.source is each.source
                and own.is_reversed != each.is_reversed
                for (own, _), (each, _) in pairs
            )
            shared = other.ratio if one_pair else None
        self.ratio: Ratio = shared or Ratio(
            [(Shares(w.reversed() if self.adding else w, steps), n) for w, n in self.laws],
            None if kept is None else kept.ratio,
        )

    @cached_property
    def exact(self) -> PrivacyLoss | None:
        """The law of the loss of the epoch, None where point masses are too many to be listed."""
        found = self.ratio.exact
        return found.reversed() if found is not None and self.adding else found

    @property
    def is_short(self) -> bool:
        """Whether steps are few, and their law is made in less time than contours take."""
        shares = self.ratio.shares
        if self.steps > FEW[-1] or self.ratio.listed is not None or not shares.continuous:
            return False
        most = FEW[-1]
        if likelihood_ratio.jumps(shares).size:
            most = FEW[shares.lasting > LASTING]
        return self.steps <= most and self.exact is not None

    @property
    def log_infinite(self) -> tuple[float, float]:
        """Bounds on the log of the mass at infinity of the epoch."""
        found: list[float] = []
        for sign in (-1.0, 1.0):
            ends = [law.log_infinite + sign * law.mass_errors[0] for law, _ in self.laws]
            if sign < 0.0:
                ends = [log_subtract(end, law.log_early)
                        for end, (law, _) in zip(ends, self.laws, strict=True)]  # fmt: skip
            if self.adding:  # all X are 0
                each = zip(ends, self.laws, strict=True)
                found.append(sum(n * end for end, (_, n) in each))
            else:
                found.append(self._mean(ends))
        return found[0], found[1]

    def _mean(self, logs: Sequence[float]) -> float:
        """Log of the mean over the steps of what has these logs."""
        return log_mean(logs, [n / self.steps for _, n in self.laws])

    def bounded(self, epsilon: float, level: float) -> float | None:
        """Return a bound on log delta in "add" that costs little, None if it is above `level`."""
        if not self.adding:
            return None
        bound = math.inf
        if len(self.laws) == 1 and self.ratio.listed is None and abs(epsilon) <= FARTHEST:
            bound = self.ratio.chernoff(math.exp(-epsilon)) + epsilon + SETTLED
        if bound > level:
            bound = self.log_all_small(epsilon)
        return bound if bound <= level else None

    def log_all_small(self, epsilon: float) -> float:
        """Bound on log delta in "add", to any depth, as all X < t e^-epsilon if W < e^-epsilon."""
        # that of one loss > s is at most delta(s - 1) / (1 - 1 / e)
        further = epsilon - math.log(self.steps) - 1.0
        further -= 4.0 * EPS * (1.0 + abs(further))
        if further < -1.0:  # delta(s - 1) >= 1 - e^(s - 1) is too large
            return 0.0
        each = [min(_by_errors(law, further, 1)[0] - LARGE, 0.0) for law, _ in self.laws]
        return sum(n * log for log, (_, n) in zip(each, self.laws, strict=True)) * (1.0 - SETTLED)

    def log_delta(self, epsilon: float, rough: bool = False) -> tuple[float, float, float, bool]:
        """Return (lower, estimate, upper) of log delta(epsilon), for any finite epsilon.

        Last whether they lean on a density of which the error is estimated. With `rough` no law on
        a grid is made where contours have an estimate.
        """
        infinite = self.log_infinite
        lower, estimate, upper = max(infinite[0], _log_positive(epsilon)), math.nan, 0.0
        alike = len(self.laws) == 1
        if abs(epsilon) <= FARTHEST and self.ratio.listed is None:
            found = self._by_put(epsilon, np.array([epsilon]))[0]
            lower, upper = max(lower, float(found[0])), min(upper, float(found[2]))
            estimate = float(found[1])
            if alike and self.adding and not upper - lower < 0.1:
                upper = min(upper, self.ratio.chernoff(math.exp(-epsilon)) + epsilon)
            atoms = alike and not (self.adding or self.ratio.shares.continuous)
            listed = self.steps <= SOME and self.exact is not None
            # of continuous noise the density tells sooner
            if atoms and not listed and epsilon > 0.0 and not is_narrow(lower, upper, epsilon):

                def call(c: Floats) -> Floats:
                    logs: Floats = np.log([self.ratio.call(float(c[0]))])
                    return logs

                with np.errstate(divide="ignore", invalid="ignore"):  # where no call is estimated
                    logs = self.ratio.beside(call, np.exp([epsilon]), -1)[0]
                    found = np.logaddexp(logs, np.array(infinite)[[0, 1, 1]])
                lower, upper = max(lower, float(found[0])), min(upper, float(found[2]))
                estimate = float(found[1])
        if not is_narrow(lower, upper, epsilon):
            each = [_by_errors(law, epsilon, 1)[0] for law, _ in self.laws]
            upper = min(upper, self._mean(each))  # Jensen's inequality
            if not self.adding:
                further = epsilon + math.log(self.steps)
                further += 4.0 * EPS * (1.0 + abs(further))
                each = [_by_errors(law, further, -1)[0] for law, _ in self.laws]
                lower = max(lower, self._mean(each))
            else:
                upper = min(upper, self.log_all_small(epsilon))
        short = upper > DEEPEST and not is_narrow(lower, upper, epsilon)
        if rough and lower <= estimate <= upper and estimate > -math.inf:
            short = False
        if len(self.laws) > KINDS and upper <= math.log(COARSE) + max(epsilon, 0.0):
            short = False
        if not self.ratio.shares.continuous and upper - lower <= ROUGH:
            short = False  # no grid is finer
        estimated = False
        if short and (alike or len(self.laws) <= KINDS or self.exact is not None):
            laws = (self.above, self.below) if self.exact is None else (self.exact, self.exact)
            estimated = any(law.estimated for law in laws)
            # next to its end a law has no panels that settle
            with suppress(NumericError):
                (most, middle), (least, _) = (
                    _by_errors(law, epsilon, side) for law, side in zip(laws, (1, -1), strict=True)
                )
                lower = max(lower, log_subtract(least, laws[1].log_early))
                upper = min(upper, most)
                estimate = middle if self.exact is not None else 0.5 * (lower + upper)
        # what may have small losses counts as telling everything, under P and of every X under Q
        for shares, n in self.ratio.factors:
            p, q = shares.law.early
            p += math.log(2.0) + (epsilon if self.adding else 0.0)
            lower = log_subtract(lower, log_add(p, q + math.log(n)))
        if not lower <= estimate <= upper:
            estimate = upper if lower == -math.inf else 0.5 * (lower + upper)
        return below(lower, upper, f"an epoch of {self.law.label}"), estimate, upper, estimated

    def _by_put(self, at: float, epsilon: Floats) -> Floats:
        """Rows (lower, estimate, upper) of log delta by the contour for one epsilon."""
        if self.adding:
            return self.ratio.put(np.exp(-epsilon), math.exp(-at)) + epsilon[:, None]
        c = np.exp(epsilon)
        off = 8.0 * EPS * (1.0 + c)
        with np.errstate(divide="ignore", invalid="ignore"):
            # P(q = 0) + E_Q[(W - c)_+] = 1 - c + E_Q[(c - W)_+]
            put = np.minimum(self.ratio.put(c, math.exp(at)), MOST_LOG)
            value = np.exp(put) + (1.0 - c)[:, None]
            value[:, 0] -= off
            value[:, 2] += off
            out: Floats = np.log(np.maximum(value, 0.0))
        return out

    def epsilon(self, log_delta: float, near: float) -> Bound | Place | None:
        """Return bounds on the epsilon of a delta, which prove nothing, if there are.

        Where the contour tells delta badly about where it is.
        """
        if self.ratio.listed is not None or not 0.0 < near < FARTHEST:
            return None
        y = self._start(log_delta)
        x, fy = 0.9 * y, math.inf
        for _ in range(TURNS):
            around = y + np.array([0.0, 1e-4 * (abs(x - y) + 1e-3 * y)])
            rows = self._by_put(y, around)
            (_, fy, _), (_, beside, _) = rows.tolist()
            slope = (beside - fy) / float(around[1] - around[0])
            fy -= log_delta
            if not (slope < 0.0 and math.isfinite(fy)):
                return None
            x, y = y, y - fy / slope
            noise = float(rows[0, 2] - rows[0, 0])
            if abs(fy) < max(SETTLED, min(noise, NEAR_NOISE)) or not 0.0 < y < FARTHEST:
                break
        if not (abs(fy) < max(1e-6, noise) and y > 0.0):
            return None
        if not is_narrow(rows[0, 0], rows[0, 2], y):
            return Place(y, slope)
        below = above = ROOM * noise / -slope
        extra = 1e-12 / -slope + 4.0 * EPS * y
        return Bound(max(y - below - extra, 0.0), y, y + above + extra, "put", "")

    def _start(self, log_delta: float) -> float:
        """About the epsilon of a delta."""
        if not self.adding:  # normal W, or one large X
            z = float(np.interp(log_delta - math.log(self.ratio.spread), *NORMAL))
            loss, log_weight = self.ratio.shares.plain.nodes()
            order = np.argsort(loss)
            x, weight = -loss[order], self.steps * np.exp(log_weight[order])
            size = np.cumsum(weight * x) - x * np.cumsum(weight)  # of sum (x_i - x)_+
            large = float(np.interp(math.exp(log_delta), size, x))
            return math.log1p(max(z * self.ratio.spread, large))
        # the leading saddle point approximation
        n = np.arange(-20.0, 60.0)
        a = np.exp(CLOSE_CONTOURS * n) / self.ratio.spread
        k, first, second = self.ratio.whole.rough.roughly(*a).T[:3]
        c = 2.0 / a - first
        size = k + a * c - 2.0 * np.log(a) - 0.5 * np.log(2.0 * math.pi * (second + 2.0 / a**2))
        falling = np.minimum.accumulate(size - np.log(c))
        return float(np.interp(log_delta, falling[::-1], -np.log(c)[::-1]))

    @cached_property
    def above(self) -> PrivacyLoss:
        """A law of the loss above the epoch: at worst of the step with the record, told."""
        found = self._on_grid(lambda each, adding: each.above(adding))
        if found is None and len(self.laws) == 1:
            return self.law
        ends = [(law if found is None else found).support for law, _ in self.laws]
        with suppress(NumericError):  # of heavy tails a grid may reveal more
            each = [_by_errors(law, 0.0, 1)[0] for law, _ in self.laws]
            if found is not None and _by_errors(found, 0.0, 1)[0] <= self._mean(each) + WIDE:
                return found
            span = max(hi for _, hi in ends) - min(lo for lo, _ in ends)
            step = max(span if span < math.inf else 0.0, FARTHEST) / POINTS
            return self._any_step([rounded_up(law, step, TAIL) for law, _ in self.laws])
        if found is None:
            raise NumericError(f"{self.law.label}: likelihood ratios fit on no grid")
        return found

    def _any_step(self, laws: list[PrivacyLoss]) -> PrivacyLoss:
        """The law of the loss of a step drawn at random, which is told, of bounds from above."""
        if len(laws) == 1:
            return replace(laws[0], side=1)
        chosen = [math.log(n / self.steps) for _, n in self.laws]
        return one_sided(
            np.concatenate([law.atom_loss for law in laws]),
            np.concatenate([w.atom_log_mass + log for w, log in zip(laws, chosen, strict=True)]),
            self._mean([law.log_infinite for law in laws]), self.law.label, True,
            max(law.density_error for law in laws), max(law.loss_error for law in laws),
        )  # fmt: skip

    @cached_property
    def below(self) -> PrivacyLoss:
        """A law of the loss below the epoch: at worst of nothing."""
        nothing = PrivacyLoss.from_log_atoms(np.zeros(1), np.zeros(1), -math.inf, -math.inf, "none")
        return self._on_grid(lambda each, adding: each.below(adding)) or nothing

    def _on_grid(self, find: Callable[[Between | Joined, bool], PrivacyLoss]) -> PrivacyLoss | None:
        try:
            with apart():
                return find(self.ratio.between(), self.adding)
        except (NumericError, OutOfWorkError):  # heavy tails fit on no grid
            return None


def _by_errors(law: PrivacyLoss, epsilon: float, side: int) -> tuple[float, float]:
    """A bound on log delta of one use by all errors of its law, above or, -1, below; estimate."""
    found = law.hockey_stick_log(epsilon - side * law.loss_error)
    return found[1 + side] + side * (law.density_error + law.mass_errors[0]), found[1]


def is_narrow(lower: float, upper: float, epsilon: float = 0.0) -> bool:
    """Return whether bounds on a log delta are as close as is aimed at.

    Args:
        lower: bound.
        upper: bound.
        epsilon: where the answer is for, of which contours lose digits.
    """
    width = upper - lower
    fine = FINE * math.exp(min(max(epsilon, 0.0), MOST_LOG))
    return width <= WIDE or (width <= ROUGH and math.exp(upper) * -math.expm1(-width) <= fine)


def lattice(law: PrivacyLoss, upper: bool) -> PrivacyLoss:
    """Return a law on a lattice above, or below, one of atoms."""
    # that of one step is above without rounding
    return law.first() if law.source is not None else _rounded(law, upper, POINTS)


def _rounded(law: PrivacyLoss, upper: bool, points: int) -> PrivacyLoss:
    """A law on a lattice of at most so many points."""
    lo, hi = law.support
    step = max(hi - lo, NEAREST) / points
    return (rounded_up if upper else rounded_down)(law, step, TAIL)


def _log_positive(epsilon: float) -> float:
    """Log of max(0, 1 - e^epsilon), below the profile of any pair."""
    return math.log(-math.expm1(epsilon)) + math.log1p(-8.0 * EPS) if epsilon < 0.0 else -math.inf
