"""The law of the likelihood ratio W of an epoch of random allocation, to any depth.

In: the law of X = exp(L) under Q, t. W is the mean of t copies of X. Out: log f_W as polynomials on
panels of log W, with errors, point masses, and the masses that it leaves out.

Sums are convolutions: of densities with densities, and with point masses, which move them. Ends of
X and its point masses are jumps, sums of them those of a sum, at which panels end. Where X has no
point mass at an end the density of n copies falls to zero as the power n - 1 of the distance, which
is a factor beside the polynomials. Of t steps alike there are log2 t terms, twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

import numpy as np

from mechc.accountants.contours.put import CAP, EDGE, WIDTH, Shares
from mechc.errors import NumericError
from mechc.loss import branches
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.quadrature.panels import NONE
from mechc.loss.quadrature.rule import NODES, WEIGHTS
from mechc.loss.tabulated import Table, convolve, fit, tabulated_loss
from mechc.numeric.allowance import spend
from mechc.numeric.logs import log_mean
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

Values = Callable[[Floats], tuple[Floats, Floats]]

MOST_JUMPS = 200  # of a density, or point masses
KINDS = 50  # of steps, which are added one to the other; of more the halves are
FIRST = -140.0  # log of a density under P that matters, of one X
CLOSER = 3.5  # nats by which sums of so many times as many are cut earlier, for a factor e
BULK = -120.0  # log of a density that matters to convolutions
ROUNDED = 5e-12  # relative error of a density, and of a convolution
# by which a density may change on a panel whose nodes integrate it; of a product of two that both
# fall by that 1e-11 is lost, of one that falls by 24 in all 2e-14
NATS = 16.0
# errors of a log density that all answers are widened by, the last one if there is no other way
SHARP = (1e-9, 1e-7, 1e-5, 1e-3)
FAINT = 1e-28, 1e-18, 1e-9  # masses that may be unresolved, at best and at most
NEXT = 1e-12  # to an end, relative
LEAST_ERROR = 3e-11  # of a density: 4e-12 was measured where less was estimated


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
        found = [np.add(convolved(*pair, w), _shifted(*pair, w)) for pair in pairs]
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


def convolved(one: Term, other: Term, w: Floats) -> tuple[Floats, Floats]:
    """Integral over r < w / 2 of the densities at r and at w - r, and its error."""
    spend(300.0 * w.size)
    cuts = np.exp(other.table.edges) if other.jumps.size else NONE
    found: Floats = convolve(w, *one.table, one.masses, *other.table, cuts)
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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # of densities that do not settle
def law(*parts: Shares) -> PrivacyLoss:
    """Return the law of log W under P, in the direction of removing the record.

    Args:
        parts: laws of X, each of so many steps: one where all steps are alike.

    Raises:
        NumericError: W has no density, or none that polynomials resolve, or its masses are not what
            they should be.
    """
    steps, worst = sum(s.steps for s in parts), max(parts, key=lambda s: s.error).law
    label = f"random allocation of {worst.label}"
    several = [s.steps + 1 for s in parts if s.law.atom_loss.size]
    if len(parts) > 1 and math.prod(several) > MOST_JUMPS:
        raise NumericError("a sum of steps that are not alike has too many point masses")
    found, low = of_kinds(parts), math.log(steps)
    table, errors, jumps = found.table.moved(-low), found.errors, found.jumps - low
    at, mass = (each[found.at > 0.0] for each in (found.at, found.mass))
    points = np.log(at) - low, np.log(mass)
    infinite = (
        log_mean([s.law.log_infinite for s in parts], [s.steps / steps for s in parts]),
        sum(s.law.log_minus_infinite * s.steps for s in parts),
    )
    x, log_q, lengths = _at_nodes(table)
    q = np.exp(log_q) * lengths
    ends = table.edges[[0, -1]]
    beyond = np.exp(table(ends)) * ~np.isin(ends, jumps)
    unseen = np.sum([_unseen(shares) for shares in parts], axis=0)
    ways: list[tuple[float, Floats]] = []
    for sharp in SHARP:
        # what is not known to a small share may be told from the rest, as may what is beyond the
        # ends, where the density falls by more than its own size in a unit of log W
        worse = np.where(errors > sharp, errors, 0.0)
        under_q = beyond.sum() + worse @ q.sum(axis=1)
        under_p = beyond @ np.exp(ends) + worse @ (q * np.exp(x)).sum(axis=1)
        cut = unseen + np.array([under_q, under_p])
        ways.append((sharp, cut))
    # a larger share rather than a mass that deep tails would feel
    fine = [
        way for some in (ways[:-1], ways[-1:]) for most in FAINT for way in some
        if np.max(way[1]) < most  # nan is not
    ]  # fmt: skip
    if not fine:
        raise NumericError(f"{label}: the density is not resolved, up to masses {cut}")
    sharp, cut = fine[0]
    error = LEAST_ERROR + 2.0 * float(errors[errors <= sharp].max(initial=0.0))
    error += steps * (worst.density_error + worst.atom_error) + max(worst.mass_errors)
    p = float((q * np.exp(x)).sum() + np.exp(sum(points)).sum()) + math.exp(infinite[0])
    whole = float(q.sum() + mass.sum()) + math.exp(infinite[1])
    if not np.max([abs(whole - 1.0) - cut[0], abs(p - 1.0) - cut[1]]) <= error:
        raise NumericError(f"{label}: its masses are off by {whole - 1.0:.1e} and {p - 1.0:.1e}")
    made = tabulated_loss(
        table, infinite, tuple(np.log(cut[::-1]).tolist()), error, label,
        jumps=jumps[~np.isin(jumps, ends)], points=points,
        above=tuple(Step(s.law, s.steps) for s in parts),
    )  # fmt: skip
    if made.source is not None and at.size:
        made.source.loss_error += 4.0 * worst.loss_error + 8.0 * steps * EPS
        made = made.of_source(made.source)
    return made
