"""The law of the likelihood ratio W of an epoch of random allocation, to any depth.

In: the law of X = exp(L) under Q, t. W is the mean of t copies of X. Out: log f_W as polynomials on
panels of log W, with errors, point masses, and the masses that it leaves out.

Few steps, and laws with point masses, are convolutions alone: of densities with densities, and with
point masses, which move them. Ends of X and its point masses are jumps, sums of them those of a
sum, at which panels end. Where X has no point mass at an end the density of n copies falls to zero
as the power n - 1 of the distance, which is a factor beside the polynomials.

Many steps:

Let X be large where log X > b, with probability q_1 under Q. With m of the t large,

    f_W = sum_m C(t, m) mu^(*m) * F_(t-m),     mu the law of large X/t, F_n that of n small ones,

all terms positive. Small X have exponential moments on both sides, so that F_n comes from the
trapezoid rule on contours through its saddles, Re s < 0 above the mean, with relative accuracy to
any depth. What more than `LARGE` large ones have is left out, about (t q_1)^(LARGE + 1): it may be
told from the rest (docs/theorems.md, T9), and its mass counts as revealing everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.allocation.puts_and_calls import CAP, EDGE, LASTING, WIDTH, Contour, Shares
from mechc.errors import NumericError
from mechc.loss import branches
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.quadrature.panels import NONE
from mechc.loss.quadrature.rule import NODES, WEIGHTS
from mechc.loss.tabulated import Table, convolve, fit, tabulated_loss
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

Values = Callable[[Floats], tuple[Floats, Floats]]

MOST_JUMPS = 200  # of a density, or point masses
KINDS = 50  # of steps, which are added one to the other; of more the halves are
LARGE = 3  # of the t that are large, at most
MOST_PRODUCTS = 2e7  # nodes times frequencies of a contour
NARROW = 0.5  # range of large log X that is not worth a split
RARE, RARER = 1e-8, (1e-7, 1e-6, 1e-5)  # expected number of large ones; where the small fade slowly
DEEPEST = -250.0  # log of a density that matters
FARTHEST_RATIO = -110.0  # the same of large ones under P
SHALLOW = -40.0  # the same below the mean, beside a large share
MANY, SMOOTH = 30, 128  # steps from which on contours are tried; first, if X has no jumps
FIRST = -140.0  # log of a density under P that matters, of one X
CLOSER = 3.5  # nats by which sums of so many times as many are cut earlier, for a factor e
BULK = -120.0  # log of a density that matters to convolutions
LOWEST = -300.0  # log of a density that is looked at
FURTHEST = 600.0  # log W
ROUNDED = 5e-12  # relative error of a density, and of a convolution
REACH = 2.0  # nats that a contour's terms may be larger than on the best one
MORE, ROUNDS = 20, 120  # tilts kept for bounds on images; periods that are tried
IMAGE = -64.0  # log of an image, as a share of Chernoff's bound
# by which a density may change on a panel whose nodes integrate it; of a product of two that both
# fall by that 1e-11 is lost, of one that falls by 24 in all 2e-14
NATS = 16.0
SHARP = (1e-9, 1e-7, 1e-5)  # error of a log density that all answers are widened by
FAINT = 1e-28, 1e-18, 1e-9  # masses that may be unresolved, at best and at most
NEXT = 1e-12  # to an end, relative
FAINTEST = 1e-30  # mass of a panel, as a share of that of another
LEAST_ERROR = 3e-11  # of a density: 4e-12 was measured where less was estimated


class Rung(NamedTuple):
    """A real part, K there, and a period."""

    a: float
    k: float
    period: float


class Small:
    """F_n for n near t: densities of the sum of n small X, over t."""

    def __init__(self, shares: Shares) -> None:
        """Choose real parts; contours are laid when they are asked for."""
        self.shares = shares
        law = shares.rough
        self.sd = sd = math.sqrt(max(float(law.roughly(0.0)[0, 2]), 1e-300))
        tilts = np.exp(np.arange(-6.0, 30.0, 0.05)) / sd
        highest = 100.0 / max(-float(law.loss.min()), 1e-300)
        self._a = a = np.concatenate([-tilts[tilts < highest][::-1], [0.0], tilts])
        k, slope = law.sums(a).T[:2]
        self._k, self._mean = k, np.minimum.accumulate(-slope)
        m = self._mean
        # how much larger exp(K + aw) is at one real part than at the best
        served = k[:, None] + a[:, None] * m[None, :] - (k + a * m)[None, :] < REACH
        deep = np.flatnonzero(k + a * m > DEEPEST)
        inner = MORE, a.size - 1 - MORE
        edge, last = np.clip(deep[[0, -1]], *inner).tolist()
        self.rungs: list[Rung] = []
        while edge <= last:  # every rung as far on as it serves the last place of the one before
            i = int(np.clip(np.flatnonzero(served[:, edge])[-1], *inner))
            self.rungs.append(self._rung(i, served))
            edge = max(edge, int(np.flatnonzero(served[i])[-1])) + 1
        self._contours: dict[float, Contour] = {}

    def chernoff(self, w: Floats) -> Floats:
        """Logs, nearly, of the least exp(K + aw)."""
        a = np.interp(-w, -self._mean, self._a)
        out: Floats = np.interp(a, self._a, self._k) + a * w
        return out

    def ends(self, deep: float = DEEPEST) -> tuple[float, float]:
        """Where the density is that deep."""
        depth = self._k + self._a * self._mean
        seen = (depth > deep) & (self._mean > 0.0)
        return float(self._mean[seen].min()), float(self._mean[seen].max())

    def _rung(self, i: int, served: NDArray[np.bool_]) -> Rung:
        a, k = float(self._a[i]), float(self._k[i])
        ends = self._mean[np.flatnonzero(served[i])[[0, -1]]]
        high, low = float(ends[0]), float(ends[1])
        period = 4.0 * self.sd
        for _ in range(ROUNDS):
            right, left = np.array([low + period]), high - period
            image = float(self.chernoff(right)[0]) - a * period - k - a * low
            if left > 0.0:
                found = float(self.chernoff(np.array([left]))[0]) + a * period - k - a * high
                image = max(image, found)
            if image < IMAGE:
                return Rung(a, k, period)
            period *= 1.2
        raise NumericError(f"{self.shares.law.label}: no period keeps images small")

    def densities(self, w: Floats, fewer: int = 0) -> tuple[Floats, Floats]:
        """Return F_(t - fewer)(w), and its error."""
        value, error = np.zeros(w.size), np.zeros(w.size)
        place = np.argmin([rung.k + rung.a * w for rung in self.rungs], axis=0)
        part = 1.0 - fewer / self.shares.steps
        for i in np.unique(place).tolist():
            rung, mine = self.rungs[i], place == i
            if rung.a not in self._contours:
                self._contours[rung.a] = Contour(
                    ((self.shares, self.shares.steps),), rung.a, rung.period, MOST_PRODUCTS
                )
            contour = self._contours[rung.a]
            size = np.exp(np.clip(part * contour.k + rung.a * w[mine], -MOST_LOG, MOST_LOG))
            found, noise = contour.densities(w[mine], fewer)
            value[mine], error[mine] = found * size, noise * size
        return value, error


class Likelihood(NamedTuple):
    """log f_W on panels of log W."""

    table: Table
    errors: Floats  # of it on every panel, estimates
    beyond: Floats  # a bound on what is left out of the masses under Q and under P
    jumps: Floats = NONE  # log W at which the density is not smooth
    points: tuple[Floats, Floats] = (NONE, NONE)  # log W that have masses, and their logs under Q


def by_contours(shares: Shares, rare: float = RARE) -> Likelihood:
    """Return the density by contours for small shares, and convolutions with large ones."""
    least, top = cap(shares, rare)
    small = Small(replace(shares, log_cap=least, width=0.0))
    q, p = small.shares.above
    t, sd = float(shares.steps), small.sd
    lo, hi = small.ends()
    chains: list[tuple[float, Values]] = []
    # where all t, or all but the one under P, are point masses there is no density
    atoms = shares.lasting * np.array([1.0, 1.0 - 1.0 / t])
    beyond = np.exp(atoms) + _unseen(shares)
    if q > 0.0:
        mu, errors = fit(_loss_density(shares), np.linspace(least, top, 9), -MOST_LOG)
        at = mu.edges
        seen = np.flatnonzero(mu(at) + at > FARTHEST_RATIO)
        last = float(at[min(seen[-1] + 1, at.size - 1)] if seen.size else at[-1]) - math.log(t)
        large = Term(mu.moved(-math.log(t)), errors)
        hi = max(hi, math.exp(min(last, FURTHEST)))
        first, each = small.ends(SHALLOW)[0], math.exp(least) / t
        most = min(LARGE, shares.steps)
        for m in range(1, most + 1):
            ways = math.lgamma(t + 1.0) - math.lgamma(t - m + 1.0) - math.lgamma(m + 1.0)
            density = partial(small.densities, fewer=m)
            edges = _edges(first, small.ends()[1], sd, 1.0)
            for i in range(1, m + 1):
                others = Term(*fit(_logs(density), edges, DEEPEST, NATS))
                density = partial(convolved, others, large, 1.0)
                edges = _edges(first + i * each, hi, sd, 1.0 + i * each)
            chains.append((math.exp(ways), density))
        rest = (t * q) ** most / math.factorial(most)
        more = rest * t * q / (most + 1)
        beyond += [more, rest * p + more]

    def whole(w: Floats) -> tuple[Floats, Floats]:
        value, error = small.densities(w, 0)
        value = np.maximum(value, 0.0)
        for ways, given in chains:
            found, off = given(w)
            value, error = value + ways * found, error + ways * off
        return value, error

    try:
        return Likelihood(*fit(_logs(whole), _edges(lo, hi, sd, 1.0), LOWEST), beyond)
    except NumericError:  # below the mean atoms of X may be all that is left
        lo = small.ends(SHALLOW)[0]
        return Likelihood(*fit(_logs(whole), _edges(lo, hi, sd, 1.0), LOWEST), beyond)


def by_doubling(*parts: Shares) -> Likelihood:
    """Return the density by convolutions alone, of log2 t terms twice for t steps alike."""
    if len(parts) > 1:
        points = math.prod(s.steps + 1 for s in parts if s.law.atom_loss.size)
        if points > MOST_JUMPS:
            raise NumericError("a sum of steps that are not alike has too many point masses")
    found, count = of_kinds(parts), sum(shares.steps for shares in parts)
    low = math.log(count)
    at, mass = (each[found.at > 0.0] for each in (found.at, found.mass))
    masses = np.log(at) - low, np.log(mass)
    beyond = np.sum([_unseen(shares) for shares in parts], axis=0)
    return Likelihood(found.table.moved(-low), found.errors, beyond, found.jumps - low, masses)


def of_kinds(parts: Sequence[Shares]) -> Term:
    """The law of the sum over steps of several kinds."""
    if len(parts) > KINDS:  # next to a sum of very many the density of one X is not resolved
        half = len(parts) // 2
        one, other = of_kinds(parts[:half]), of_kinds(parts[half:])
        return _together(one, other, sum(shares.steps for shares in parts))
    found, count = _of_sum(parts[0]), parts[0].steps
    for shares in parts[1:]:
        count += shares.steps
        found = _together(found, _of_sum(shares), count)
    return found


def _of_sum(shares: Shares) -> Term:
    """The law of the sum of t copies of X."""
    square = trimmed(_one(shares), 0.0)
    done: Term | None = None
    count, left = 1, shares.steps
    while True:
        if left & 1:
            done = square if done is None else _together(done, square, shares.steps % (2 * count))
        left >>= 1
        if not left:
            break
        count *= 2
        square = _together(square, square, count)
    assert done is not None
    return done


def _one(shares: Shares) -> Term:
    """The law of X."""
    law, source = shares.law, shares.law.source
    if source is None or not source.continuous:
        raise NumericError(f"{law.label}: X has no density")
    at = jumps(shares)
    if max(at.size, law.atom_loss.size) > MOST_JUMPS:
        raise NumericError(f"{law.label}: X has too many point masses, or jumps")
    table, errors = fit(
        _loss_density(shares), _laid(*_span(shares), at), partial(_least, 0.0), NATS
    )
    found = Term(table, errors, at, *(np.exp(each) for each in shares.points))
    if found.mean_error > SHARP[-1]:
        raise NumericError(f"{law.label}: polynomials do not resolve the density of X")
    return found


def jumps(shares: Shares) -> Floats:
    """Log X at which its density is not smooth."""
    source = cast(KernelSource, shares.law.source)
    ends = shares.sign * source.rows[:, 3:5].ravel()
    ends = ends[np.abs(ends) < CAP]
    inner = ends + np.sign(0.5 * sum(_span(shares)) - ends) * NEXT * (1.0 + np.abs(ends))
    # a density that fades towards an end has none there
    return _apart(ends[_loss_density(shares)(inner)[0] > BULK])


def _span(shares: Shares) -> tuple[float, float]:
    """The least and the largest log X that nodes have."""
    log_x = np.clip(shares.sign * shares.panels.loss, -CAP, CAP)
    return float(log_x.min()), float(log_x.max())


def _laid(lo: float, hi: float, jumps: Floats) -> Floats:
    """Edges of first panels, with the jumps among them, which ends are where they are close."""
    edges = np.linspace(lo, hi, 9 if jumps.size > 1 else 33)
    if not jumps.size:
        return edges
    off = np.abs(edges[:, None] - jumps).min(axis=1)
    off[[0, -1]] *= 1e11  # of two places so near one is rounded
    return np.union1d(edges[off > 0.1 * (edges[1] - edges[0])], jumps)


def _apart(places: Floats) -> Floats:
    """Places in order, of those that are equal but for rounding one."""
    places = np.sort(places)
    return places[np.append(True, np.diff(places) > 1e-12)] if places.size else places


def _unseen(shares: Shares) -> Floats:
    """Masses under Q and P of an X beyond the cap, or of which only its mean is known."""
    q, p = replace(shares, log_cap=CAP - EDGE * WIDTH).above
    q, p = (own + math.exp(log) for own, log in zip((q, p), shares.law.early[::-1], strict=True))
    return np.array([0.0, p]) + shares.steps * q


def _least(place: float, x: Floats) -> Floats:
    """Log of a density that matters under Q, or, at large log R, under P."""
    # not where products lack what was cut from their factors
    return np.where(x > place, FIRST + (CLOSER + 1.0) * place - x, BULK)


def trimmed(term: Term, place: float) -> Term:
    """A law of mass one, without the outer panels of the density that do not matter."""
    table, errors = term.table, term.errors
    x, log_r, lengths = _at_nodes(table)
    mass = float((np.exp(log_r) * lengths).sum() + term.mass.sum())
    if not abs(mass - 1.0) <= term.mean_error:
        raise NumericError(f"the law of a sum has a mass of {mass!r}, not one")
    coefficients = table.coefficients.copy()
    coefficients[:, 0] -= math.log(mass)
    matters = (log_r > _least(place, x)).any(axis=1)
    kept = np.flatnonzero(matters & (errors > 0.0))  # others are not resolved
    inner = slice(int(kept[0]), int(kept[-1]) + 1)
    edges = table.edges[inner.start : inner.stop + 1]
    jumps = term.jumps[(term.jumps >= edges[0]) & (term.jumps <= edges[-1])]
    table = Table(edges, np.ascontiguousarray(coefficients[inner]), table.zeros)
    return Term(table, errors[inner], jumps, term.at, term.mass / mass)


def _at_nodes(table: Table) -> tuple[Floats, Floats, Floats]:
    """Nodes of all panels, the log density there, and the lengths that they stand for."""
    middle, half = 0.5 * (table.edges[1:] + table.edges[:-1]), 0.5 * np.diff(table.edges)
    x = middle[:, None] + half[:, None] * NODES
    return x, table(x.ravel()).reshape(x.shape), half[:, None] * WEIGHTS


@dataclass(frozen=True, eq=False)
class Term:
    """The law of R >= 0: the density of log R, errors of its log, and point masses."""

    table: Table
    errors: Floats
    # log R at which it is not smooth, ends beyond which it is none among them
    jumps: Floats = field(default_factory=lambda: NONE)
    at: Floats = field(default_factory=lambda: NONE)  # R that have masses, and these
    mass: Floats = field(default_factory=lambda: NONE)

    @property
    def ends(self) -> list[tuple[float, float]]:
        """R at the ends of the density, and how fast it falls to zero there, inf if smoothly."""
        found = []
        for i, zeros in ((0, self.table.zeros[:2]), (-1, self.table.zeros[2:])):
            end = self.table.edges[i]
            hard = self.jumps.size and self.jumps[i] == end
            found.append((math.exp(end), float(zeros[1]) if hard else math.inf))
        return found

    @cached_property
    def masses(self) -> Floats:
        """Masses at the nodes of the panels."""
        _, log_r, lengths = _at_nodes(self.table)
        return np.exp(log_r) * lengths

    @cached_property
    def mean_error(self) -> float:
        """Error of the log density where its mass is."""
        edges = self.table.edges
        middle = self.table(0.5 * (edges[1:] + edges[:-1]))
        mass = np.exp(np.minimum(middle, 100.0)) * np.diff(edges)
        return float(mass @ np.minimum(self.errors, 1.0) / mass.sum())


def _together(one: Term, other: Term, count: int) -> Term:
    """The law of the sum of two independent ones, of so many X in all."""

    def halves(w: Floats) -> tuple[Floats, Floats]:
        """By the panels of the smaller term."""
        pairs = [(one, other)] if one is other else [(one, other), (other, one)]
        found = [np.add(convolved(*pair, 0.5, w), _shifted(*pair, w)) for pair in pairs]
        value, error = np.sum(found, axis=0)
        return (2.0 * value, 2.0 * error) if one is other else (value, error)

    with np.errstate(divide="ignore"):
        logs = [(np.exp(a.jumps), np.append(np.exp(b.jumps), b.at))
                for a, b in ((one, other), (other, one))]  # fmt: skip
        jumps = _apart(np.log(np.concatenate([np.add.outer(a, b).ravel() for a, b in logs])))
    points, mass = _sums(one, other)
    if max(jumps.size, points.size) > MOST_JUMPS:
        raise NumericError("a sum has too many point masses, or jumps")
    zeros, ends = np.zeros(4), []
    for i, sign in ((0, 1.0), (1, -1.0)):
        (a, k), (b, m) = one.ends[i], other.ends[i]
        each = [(sign * (a + b), k + m + 1.0)]
        each += [(sign * (b + at), m) for at in one.at] + [(sign * (a + at), k) for at in other.at]
        first = min(each)[0]
        power = min(k for at, k in each if at - first <= 1e-12 * abs(first))
        ends.append((math.log(sign * first), power))
        if 0.0 < power < math.inf:
            zeros[2 * i : 2 * i + 2] = ends[-1]
    (lo, k), (hi, m) = ends
    narrow, place = 1e-9 * (hi - lo), math.log(count)
    edges = _laid(lo + narrow * (k == math.inf), hi - narrow * (m == math.inf), jumps)
    found = fit(_logs(halves), edges, partial(_least, place), NATS, zeros=zeros)
    return trimmed(Term(*found, jumps, points, mass), place)


def _sums(one: Term, other: Term) -> tuple[Floats, Floats]:
    """Sums of point masses, those that are equal but for rounding together."""
    at, mass = np.add.outer(one.at, other.at).ravel(), np.outer(one.mass, other.mass).ravel()
    order = np.argsort(at)
    at, mass = at[order], mass[order]
    if not at.size:
        return at, mass
    starts = np.flatnonzero(np.append(True, np.diff(at) > 16.0 * EPS * at[1:]))
    return at[starts], np.add.reduceat(mass, starts)


def _shifted(one: Term, other: Term, w: Floats) -> Floats:
    """The density of a sum where the second is a point mass, and its error."""
    out = np.zeros(w.size)
    for at, mass in zip(other.at.tolist(), other.mass.tolist(), strict=True):
        log_r = np.log(np.maximum(w - at, 1e-300))
        out += mass * np.exp(one.table(log_r) - log_r)
    spend(10.0 * w.size * other.at.size)
    return np.stack([out, (ROUNDED + one.mean_error) * out])


def _logs(density: Values) -> Values:
    """The density of the logarithm, its log, and the error of that."""

    def values(x: Floats) -> tuple[Floats, Floats]:
        value, error = density(np.exp(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(value > error, error / value, 1.0)
        return np.log(np.maximum(np.maximum(value, error), 1e-310)) + x, share

    return values


def convolved(one: Term, other: Term, share: float, w: Floats) -> tuple[Floats, Floats]:
    """Integral over r < w share of the densities at r and at w - r, and its error."""
    mass = one.masses
    if share == 1.0:  # beside contours so little is noise
        mass = np.where(mass.max(axis=1, keepdims=True) < FAINTEST * mass.max(), 0.0, mass)
    spend(300.0 * w.size)
    cuts = np.exp(other.table.edges) if other.jumps.size else NONE
    found: Floats = convolve(w, share, *one.table, mass, *other.table, cuts)
    return found, (ROUNDED + one.mean_error + other.mean_error) * found


def _loss_density(shares: Shares) -> Values:
    """Log density of log X under Q, and its error."""
    law = shares.law
    source = cast(KernelSource, law.source)

    def values(x: Floats) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore"):
            found: Floats = np.log(branches.density(source, x, law.is_reversed)) - x
        return np.maximum(found, -740.0), np.full(x.size, ROUNDED)

    return values


def _edges(lo: float, hi: float, sd: float, middle: float) -> Floats:
    """Edges of first panels of log w, closer around the middle."""
    steps = sd * 2.0 ** np.arange(-1.0, 60.0)
    w = np.unique(np.concatenate([[lo, middle, hi], middle - steps, middle + steps]))
    edges: Floats = np.log(w[(w >= lo) & (w <= hi)])
    return edges


def cap(shares: Shares, rare: float) -> tuple[float, float]:
    """Log X beyond which there are so few that they are large; and the top."""
    law = shares.law
    if shares.continuous and law.atom_loss.size:
        return math.inf, math.inf
    if shares.continuous:
        panels = replace(shares, log_cap=CAP, width=0.0).panels
        log_x, log_mass = shares.masses(panels)
        ends = shares.sign * panels.losses_at_ends()
    else:
        log_x, log_mass = (each[:, None] for each in shares.points)
        ends = log_x
    each = np.exp(log_mass).sum(axis=1)
    order = np.argsort(-log_x.min(axis=1))
    beyond = shares.steps * np.cumsum(each[order])
    count = int(np.searchsorted(beyond, rare))
    if count == 0 or not beyond[count - 1] > 1e-60:
        return math.inf, math.inf
    least = float(ends[order[:count]].min())
    top = float(log_x.max())
    return (least, top) if top > least + NARROW else (math.inf, math.inf)


@np.errstate(over="ignore", invalid="ignore")  # of densities that do not settle, refused at the end
def law(*parts: Shares) -> PrivacyLoss:
    """Return the law of log W under P, in the direction of removing the record.

    Args:
        parts: laws of X, each of so many steps: one where all steps are alike.

    Raises:
        NumericError: W has no density, or none that polynomials resolve.
    """
    count = sum(s.steps for s in parts)
    logs = [(s.law.log_infinite + math.log(s.steps / count), s.law.log_minus_infinite * s.steps)
            for s in parts]  # fmt: skip
    infinite = float(np.logaddexp.reduce([log for log, _ in logs])), sum(log for _, log in logs)
    ways: list[Callable[..., Likelihood]] = [by_doubling]
    if len(parts) == 1 and count >= MANY and parts[0].lasting <= LASTING:
        smooth = not jumps(parts[0]).size
        ways.insert(1 if smooth and count < SMOOTH else 0, by_contours)
        ways += [partial(by_contours, rare=rare) for rare in RARER if smooth]
    for way in ways[:-1]:
        with suppress(NumericError):
            return _checked(parts, way(*parts), infinite)
    return _checked(parts, ways[-1](*parts), infinite)


def _checked(
    parts: Sequence[Shares], found: Likelihood, infinite: tuple[float, float]
) -> PrivacyLoss:
    """The law, if its masses are what they should be; logs of those at infinity are given."""
    steps, law = sum(s.steps for s in parts), max(parts, key=lambda s: s.error).law
    label = f"random allocation of {law.label}"
    table, errors = found.table, found.errors
    x, log_q, lengths = _at_nodes(table)
    q = np.exp(log_q) * lengths
    ends = table.edges[[0, -1]]
    with np.errstate(divide="ignore"):
        beyond = np.exp(table(ends)) * ~np.isin(ends, found.jumps)
    ways: list[tuple[float, tuple[float, float]]] = []
    for sharp in SHARP:
        # what is not known to a small share may be told from the rest, as may what is beyond the
        # ends, where the density falls by more than its own size in a unit of log W
        worse = np.where(errors > sharp, errors, 0.0)
        cut = (
            found.beyond[0] + float(beyond.sum() + worse @ q.sum(axis=1)),
            found.beyond[1] + float(beyond @ np.exp(ends) + worse @ (q * np.exp(x)).sum(axis=1)),
        )
        ways.append((sharp, cut))
    # a larger share rather than a mass that deep tails would feel
    ways = [way for most in FAINT for way in ways if np.max(way[1]) < most]  # nan is not
    if not ways:
        raise NumericError(f"{label}: the density is not resolved, up to masses {cut}")
    sharp, cut = ways[0]
    error = LEAST_ERROR + 2.0 * float(errors[errors <= sharp].max(initial=0.0))
    error += steps * (law.density_error + law.atom_error) + max(law.mass_errors)
    log_w, log_mass = found.points
    p = float((q * np.exp(x)).sum() + np.exp(log_mass + log_w).sum()) + math.exp(infinite[0])
    whole = float(q.sum() + np.exp(log_mass).sum()) + math.exp(infinite[1])
    if not np.max([abs(whole - 1.0) - cut[0], abs(p - 1.0) - cut[1]]) <= error:
        raise NumericError(f"{label}: its masses are off by {whole - 1.0:.1e} and {p - 1.0:.1e}")
    with np.errstate(divide="ignore"):
        log_cut = np.log(cut)
    inner = found.jumps[~np.isin(found.jumps, ends)]
    made = tabulated_loss(
        table, infinite, (log_cut[1], log_cut[0]), error, label, jumps=inner, points=found.points,
        above=tuple(Step(s.law, s.steps) for s in parts),
    )  # fmt: skip
    if made.source is not None and log_w.size:
        made.source.loss_error += 4.0 * law.loss_error + 8.0 * steps * EPS
        made = made.of_source(made.source)
    return made
