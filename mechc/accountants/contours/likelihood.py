"""The density of the likelihood ratio W of an epoch of random allocation, to any depth.

In: the law of X = exp(L) under Q, t. W is the mean of t copies of X. Out: log f_W as polynomials on
panels of log W, with errors, and the masses that it leaves out.

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
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours.put import CAP, EDGE, LASTING, WIDTH, Contour, Shares
from mechc.errors import NumericError
from mechc.loss.allowance import spend
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.rule import NODES, WEIGHTS
from mechc.loss.tabulated import Table, convolve, fit, tabulated_loss

Floats = NDArray[np.float64]
Values = Callable[[Floats], tuple[Floats, Floats]]

LARGE = 3  # of the t that are large, at most
MOST = 2e7  # nodes times frequencies of a contour
NARROW = 0.5  # range of large log X that is not worth a split
RARE = 1e-8  # expected number of large ones
DEEPEST = -115.0  # log of a density that matters
FARTHEST = -110.0  # the same of large ones under P
SHALLOW = -40.0  # the same below the mean, beside a large share
MANY = 30  # steps from which on contours are tried
FIRST = -140.0  # log of a density under P that matters, of one X
CLOSER = 3.5  # nats by which sums of so many times as many are cut earlier, for a factor e
BULK = -66.0  # log of a density that matters to convolutions
LOWEST = -200.0  # log of a density that is looked at
FURTHEST = 600.0  # log W
ROUNDED = 5e-12  # relative error of a density, and of a convolution
REACH = 2.0  # nats that a contour's terms may be larger than on the best one
MORE, ROUNDS = 20, 120  # tilts kept for bounds on images; periods that are tried
IMAGE = -64.0  # log of an image, as a share of Chernoff's bound
NATS = 8.0  # by which a density may change on a panel whose nodes integrate it
SHARP = (1e-9, 1e-7, 1e-5)  # error of a log density that all answers are widened by
FAINT = 1e-28, 1e-18, 1e-9  # masses that may be unresolved, at best and at most
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
                    ((self.shares, self.shares.steps),), rung.a, rung.period, MOST
                )
            contour = self._contours[rung.a]
            size = np.exp(np.clip(part * contour.k + rung.a * w[mine], -700.0, 700.0))
            found, noise = contour.densities(w[mine], fewer)
            value[mine], error[mine] = found * size, noise * size
        return value, error


class Likelihood(NamedTuple):
    """log f_W on panels of log W.

    Attributes:
        table: log of the density of log W under Q.
        errors: of it on every panel, estimates.
        beyond: a bound on what is left out of the masses under Q and under P.
    """

    table: Table
    errors: Floats
    beyond: Floats


def by_contours(shares: Shares) -> Likelihood:
    """Return the density by contours for small shares, and convolutions with large ones.

    Raises:
        NumericError: phi fades too slowly, or images do not.
    """
    least, top = cap(shares, RARE)
    small = Small(replace(shares, log_cap=least, width=0.0))
    q, p = small.shares.above
    t, sd = float(shares.steps), small.sd
    lo, hi = small.ends()
    chains: list[tuple[float, Values]] = []
    # where all t, or all but the one under P, are point masses there is no density
    atoms = shares.lasting * np.array([1.0, 1.0 - 1.0 / t])
    beyond = np.exp(atoms) + _unseen(shares)
    if q > 0.0:
        mu, errors = fit(_loss_density(shares), np.linspace(least, top, 9), -700.0)
        at = mu.edges
        seen = np.flatnonzero(mu(at) + at > FARTHEST)
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
                density = partial(_convolved, others, large, 1.0)
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


def by_doubling(shares: Shares) -> Likelihood:
    """Return the density by convolutions alone, of as many terms as log2 t twice.

    Raises:
        NumericError: X has point masses, or a density that polynomials do not resolve.
    """
    law = shares.law
    if max(law.log_minus_infinite, law.log_infinite) > -math.inf or law.atom_loss.size:
        raise NumericError(f"{law.label}: X has point masses")
    log_x = np.clip(shares.sign * shares.panels.loss, -CAP, CAP)
    lo, hi = float(log_x.min()), float(log_x.max())
    square = _trimmed(*fit(_loss_density(shares), np.linspace(lo, hi, 33), _least(0.0), NATS), 0.0)
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
    table = done.table.moved(-math.log(shares.steps))
    return Likelihood(table, done.errors, _unseen(shares))


def _unseen(shares: Shares) -> Floats:
    """Masses under Q and P of an X beyond the cap, or of which only its mean is known."""
    q, p = replace(shares, log_cap=CAP - EDGE * WIDTH).above
    q, p = (own + math.exp(log) for own, log in zip((q, p), shares.law.early[::-1], strict=True))
    return np.array([0.0, p]) + shares.steps * q


def _least(place: float) -> Callable[[Floats], Floats]:
    """Log of a density that matters under Q, or, at large log R, under P."""
    # not where products lack what was cut from their factors
    farthest = FIRST + CLOSER * place

    def least(x: Floats) -> Floats:
        found: Floats = np.where(x > place, farthest + place - x, BULK)
        return found

    return least


def _trimmed(table: Table, errors: Floats, place: float) -> Term:
    """A density of mass one, without the outer panels that do not matter."""
    middle, half = 0.5 * (table.edges[1:] + table.edges[:-1]), 0.5 * np.diff(table.edges)
    x = middle[:, None] + half[:, None] * NODES
    mass = float(((np.exp(table(x.ravel()).reshape(x.shape)) @ WEIGHTS) * half).sum())
    coefficients = table.coefficients.copy()
    coefficients[:, 0] -= math.log(mass)
    kept = np.flatnonzero(table(middle) > _least(place)(middle))
    inner = slice(int(kept[0]), int(kept[-1]) + 1)
    edges = table.edges[inner.start : inner.stop + 1]
    return Term(Table(edges, np.ascontiguousarray(coefficients[inner])), errors[inner])


class Term(NamedTuple):
    """The density of log R, R > 0, and errors of its log."""

    table: Table
    errors: Floats


def _together(one: Term, other: Term, count: int) -> Term:
    """The density of the sum of two independent ones, of so many X in all."""

    def halves(w: Floats) -> tuple[Floats, Floats]:
        """By the panels of the smaller term."""
        pairs = [(one, other)] if one is other else [(one, other), (other, one)]
        found = [_convolved(*pair, 0.5, w) for pair in pairs]
        value, error = (np.sum([each[i] for each in found], axis=0) for i in (0, 1))
        return (2.0 * value, 2.0 * error) if one is other else (value, error)

    lo, hi = (float(np.logaddexp(one.table.edges[i], other.table.edges[i])) for i in (0, -1))
    narrow, place = 1e-9 * (hi - lo), math.log(count)
    edges = np.linspace(lo + narrow, hi - narrow, 33)
    try:
        found = fit(_logs(halves), edges, _least(place), NATS)
    except NumericError:  # by those of the narrower law
        found = fit(_logs(partial(_convolved, other, one, 1.0)), edges, _least(place), NATS)
    return _trimmed(*found, place)


def _logs(density: Values) -> Values:
    """The density of the logarithm, its log, and the error of that."""

    def values(x: Floats) -> tuple[Floats, Floats]:
        value, error = density(np.exp(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(value > error, error / value, 1.0)
        return np.log(np.maximum(np.maximum(value, error), 1e-310)) + x, share

    return values


def _convolved(one: Term, other: Term, share: float, w: Floats) -> tuple[Floats, Floats]:
    """Integral over r < w share of the densities at r and at w - r, and its error."""
    edges, half = one.table.edges, 0.5 * np.diff(one.table.edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * NODES
    mass = np.exp(one.table(x.ravel()).reshape(x.shape)) * half * WEIGHTS
    spend(1000.0 * w.size)
    found: Floats = convolve(w, share, edges, one.table.coefficients, mass, *other.table)
    return found, (ROUNDED + _mean_error(one) + _mean_error(other)) * found


def _mean_error(term: Term) -> float:
    """Error of a log density where its mass is."""
    edges = term.table.edges
    mass = np.exp(np.minimum(term.table(0.5 * (edges[1:] + edges[:-1])), 100.0)) * np.diff(edges)
    return float(mass @ np.minimum(term.errors, 1.0) / mass.sum())


def _loss_density(shares: Shares) -> Values:
    """Log density of log X under Q, and its error."""

    def values(x: Floats) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore"):
            found: Floats = np.log(shares.law.density(x)) - x
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
        log_x, ends = law.atom_loss[:, None], law.atom_loss[:, None]
        log_mass = (law.atom_log_mass - law.atom_loss)[:, None]
    each = np.exp(log_mass).sum(axis=1)
    order = np.argsort(-log_x.min(axis=1))
    beyond = shares.steps * np.cumsum(each[order])
    count = int(np.searchsorted(beyond, rare))
    if count == 0 or not beyond[count - 1] > 1e-60:
        return math.inf, math.inf
    least = float(ends[order[:count]].min())
    top = float(log_x.max())
    return (least, top) if top > least + NARROW else (math.inf, math.inf)


def law(shares: Shares) -> PrivacyLoss:
    """Return the law of log W under P, in the direction of removing the record.

    Raises:
        NumericError: W has no density, or none that polynomials resolve.
    """
    if shares.lasting > LASTING:
        raise NumericError(f"{shares.law.label}: the likelihood ratio has point masses")
    if shares.steps >= MANY:
        try:
            return _checked(shares, by_contours(shares))
        except NumericError:
            pass
    return _checked(shares, by_doubling(shares))


def law_of_several(parts: Sequence[Shares]) -> PrivacyLoss:
    """Return the same for steps that are not alike, from the shares of those that are.

    Raises:
        NumericError: some X has point masses, or a density that polynomials do not resolve.
    """
    found: Term | None = None
    count, beyond = 0, np.zeros(2)
    for shares in parts:
        one = by_doubling(shares)
        beyond = beyond + one.beyond
        count += shares.steps
        term = Term(one.table.moved(math.log(shares.steps)), one.errors)
        found = term if found is None else _together(found, term, count)
    assert found is not None
    whole = replace(parts[0], steps=count)
    table = found.table.moved(-math.log(count))
    return _checked(whole, Likelihood(table, found.errors, beyond))


def _checked(shares: Shares, found: Likelihood) -> PrivacyLoss:
    """The law, if its masses are what they should be."""
    label = f"random allocation of {shares.law.label}"
    table, errors = found.table, found.errors
    middle, half = 0.5 * (table.edges[1:] + table.edges[:-1]), 0.5 * np.diff(table.edges)
    x = middle[:, None] + half[:, None] * NODES
    q = np.exp(table(x.ravel())).reshape(x.shape) * half[:, None] * WEIGHTS
    ends = table.edges[[0, -1]]
    beyond = np.exp(table(ends))
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
    ways = [way for most in FAINT for way in ways if max(way[1]) < most]
    if not ways:
        raise NumericError(f"{label}: the density is not resolved, up to masses {cut}")
    sharp, cut = ways[0]
    finite = shares.law.log_infinite, shares.law.log_minus_infinite * shares.steps
    error = LEAST_ERROR + 2.0 * float(errors[errors <= sharp].max(initial=0.0))
    return tabulated_loss(table, finite, (math.log(cut[1]), math.log(cut[0])), error, label)
