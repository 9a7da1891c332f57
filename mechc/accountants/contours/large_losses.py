"""How often large losses occur: sums over their number, in logs and on a contour.

With k repetitions of a step and r = C / M the odds of a large loss to a small one, the composition
is M^k times sum over j of binom(k, j) r^j. Nothing is subtracted where few are expected.

Positive measures on the nodes of a band, and their transforms on one contour.

In: panels with log weights, real part c, spacing h and number of frequencies. Out: logs of the mass
at real tilts with their error, and the log of the transform at y = h, 2h, ... as a share of the
mass tilted at c.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours.characteristic import log_phi
from mechc.accountants.contours.saddle import tilt
from mechc.loss.jit import compiled
from mechc.loss.moments import exponentials
from mechc.loss.rounding import EPS
from mechc.loss.rule import ORDER, TOP, WEIGHTS
from mechc.loss.truncated_loss import Band

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

LEAST, MOST = -700.0, 700.0  # logs of odds that doubles hold; -1 + odds may vanish at a frequency
FIRST_ORDER = -100.0  # log of the odds of a large loss below which two of them are nothing beside
SERIES, TERMS = 10.0, 64  # expected large losses up to which their numbers are summed, and terms


class Hits(NamedTuple):
    """How many large losses: `number` exactly, or at least."""

    number: int
    exactly: bool


def log_odds(hits: Hits, counts: Floats, log_ratio: Floats) -> Floats:
    """Return the log of the sum over numbers of hits of prod binom(k, j) ratio^j.

    Args:
        hits: which numbers; other than Hits(1, False) for a single distinct step only.
        counts: k of every step, shape (steps,).
        log_ratio: log of C / M, real, shape (steps, n).
    """
    if hits == Hits(1, False):
        total = np.asarray(counts @ np.logaddexp(0.0, log_ratio), np.float64)
        linear = np.logaddexp.reduce(np.log(counts)[:, None] + log_ratio)
        first: Floats = np.where(linear < FIRST_ORDER, linear, _log_expm1(total))
        return first
    (count,), (log_r,) = counts, log_ratio
    if hits.number > count:
        return np.full(log_r.size, -np.inf)
    last = hits.number if hits.exactly else min(count, hits.number + TERMS - 1.0)
    powers = np.vstack([np.zeros(log_r.size), np.outer(np.arange(1.0, last + 1.0), log_r)])
    terms = _log_binomials(count, last)[:, None] + powers
    if hits.exactly:
        one: Floats = terms[-1]
        return one
    series: Floats = np.logaddexp.reduce(terms[hits.number :])
    total = count * np.logaddexp(0.0, log_r)
    many = (log_r > math.log(SERIES / count)) & (log_r < math.inf)
    fewer = np.logaddexp.reduce(terms[: hits.number] - np.where(many, total, 0.0))
    with np.errstate(divide="ignore"):
        rest = total + np.log1p(-np.minimum(np.exp(fewer), 1.0))
    out: Floats = np.where(many, rest, series)
    return out


def transforms(
    hits: Hits, counts: Floats, log_ratio: Complexes, log_rest: Complexes, log_unit: float
) -> Complexes:
    """Return the same for complex ratios, times exp(log_rest), in units of exp(log_unit).

    Where the transform of small losses has faded, ratios alone would overflow.
    """
    log_one = log_rest - log_unit  # of what is taken once for every number of hits
    if hits == Hits(1, False):
        if log_unit < FIRST_ORDER:
            return np.asarray(counts @ np.exp(log_ratio + log_one), np.complex128)
        total = np.asarray(counts @ _log1p_exp(log_ratio), np.complex128)
        large = total.real > 1.0
        difference = np.exp(total + log_one) - np.exp(log_one)
        few = _expm1(np.where(large, 0.0, total)) * np.exp(log_one)
        return np.asarray(np.where(large, difference, few), np.complex128)
    (count,), (log_r,) = counts, log_ratio
    last = hits.number if hits.exactly else int(min(count, hits.number + TERMS - 1))
    logs = _log_binomials(count, last)
    many = not hits.exactly and float(log_r.real.max()) > math.log(SERIES / count)
    first, stop = (0, hits.number) if many else (hits.number, last + 1)
    term: Complexes = np.exp(logs[first] + first * log_r + log_one)
    if hits.exactly:
        return term
    ratio, out = np.exp(np.minimum(log_r.real, MOST) + 1j * log_r.imag), term.copy()
    for j in range(first + 1, stop):
        term = term * ratio * ((count - j + 1.0) / j)
        out += term
    if not many:
        return out
    return np.asarray(np.exp(count * _log1p_exp(log_r) + log_one) - out, np.complex128)


def _log_binomials(n: float, last: float) -> Floats:
    """Logs of n over j for j = 0, ..., last; no difference of large logs, whatever n is."""
    i = np.arange(last)
    out: Floats = np.concatenate([[0.0], np.cumsum(np.log((n - i) / (i + 1.0)))])
    return out


def _log_expm1(x: Floats) -> Floats:
    """Return log(exp(x) - 1) for x >= 0."""
    with np.errstate(divide="ignore"):
        out: Floats = np.where(x > 30.0, x, np.log(np.expm1(np.minimum(x, 30.0))))
    return out


def _log1p_exp(z: Complexes) -> Complexes:
    """Return log(1 + exp(z)), up to a whole number of turns, however large z is."""
    large = z.real > 0.0
    out: Complexes = np.where(large, z, 0.0) + _log1p(np.exp(np.where(large, -z, z)))
    return out


def _log1p(z: Complexes) -> Complexes:
    """Return log(1 + z), accurate for small z."""
    x, y = z.real, z.imag
    with np.errstate(divide="ignore"):
        size = np.maximum(0.5 * np.log1p(2.0 * x + x * x + y * y), LEAST)
    out: Complexes = size + 1j * np.arctan2(y, 1.0 + x)
    return out


def _expm1(z: Complexes) -> Complexes:
    """Return exp(z) - 1, accurate for small z."""
    s = np.sin(0.5 * z.imag)
    real = np.expm1(z.real) * np.cos(z.imag) - 2.0 * s * s
    out: Complexes = real + 1j * np.exp(z.real) * np.sin(z.imag)
    return out


DROPPED = 1e-18  # tilted weight below which nodes are left out of the transforms
WAVE_LEAST = -80.0  # log of a share that is left out of real sums
COARSE, UNKNOWN = 1e-2, 1e4  # share beyond which an estimate of the error is none, said so
TOP_OF_WEIGHTED = np.ascontiguousarray(TOP / WEIGHTS)


class Measure(NamedTuple):
    """A positive measure: some panels of a law with log weights of its own on their nodes."""

    band: Band
    log_weight: Floats

    def log_totals(self, tilts: Floats) -> tuple[Floats, Floats]:
        """Return log of the mass tilted at every t, and its error: rounding and quadrature.

        That of a panel is estimated by its top coefficients: the rule is exact to twice their
        degree, so that their decay from the mean continues to their square. It is huge where
        that is no small number.
        """
        rows = _totals(self.band.loss, self.log_weight, self.band.smooth, tilts)
        return rows[:, 0], rows[:, 1]


@compiled("float64(float64[::1])")
def _roughness(w):  # type: ignore[no-untyped-def]
    """Estimated quadrature error of a panel by the weighted values at its nodes."""
    mean, last, before = 0.0, 0.0, 0.0
    for j in range(w.size):
        mean += 0.5 * w[j]
        before += TOP_OF_WEIGHTED[0, j] * w[j]
        last += TOP_OF_WEIGHTED[1, j] * w[j]
    top = max(abs(last), abs(before))
    return top * min(top / mean, 1.0) if top > 0.0 else 0.0


@compiled("float64[:,::1](float64[::1], float64[::1], int64, float64[::1])")
def _totals(loss, log_weight, smooth, tilts):  # type: ignore[no-untyped-def]
    """Rows of the log of the tilted sum, and of its error as a share of it."""
    out = np.empty((tilts.size, 2))
    v, w = np.empty(loss.size), np.empty(loss.size)
    for m in range(tilts.size):
        t = tilts[m]
        top = -np.inf
        for j in range(loss.size):
            v[j] = log_weight[j] + t * loss[j]
            top = max(top, v[j])
        if top == -np.inf:
            out[m, 0], out[m, 1] = -np.inf, 0.0
            continue
        for j in range(loss.size):
            v[j] -= top
        exponentials(v, w)
        total, noise, rough = 0.0, 0.0, 0.0
        for j in range(loss.size):
            if v[j] > WAVE_LEAST:
                total += w[j]
                noise += w[j] * (8.0 + 4.0 * abs(log_weight[j]) + 4.0 * abs(t * loss[j]))
            else:
                w[j] = 0.0
        for i in range(0, smooth, ORDER):
            rough += _roughness(w[i : i + ORDER])
        out[m, 0] = top + math.log(total)
        out[m, 1] = EPS * (noise / total + 2.0 * abs(out[m, 0])) + rough / total
        if not rough < COARSE * total:
            out[m, 1] = UNKNOWN
    return out


class Wave:
    """Transform of a positive measure.

    Attributes:
        log_total: log of its mass tilted at c.
        log_phi: log of the transform at y = h, 2h, ..., as a share of that mass.
        weight: tilted shares of the nodes.
        error: of the transform, as a share: rounding, quadrature, nodes left out.
    """

    def __init__(self, measure: Measure, c: float, h: float, nodes: int) -> None:
        """Evaluate at y = h, ..., nodes * h."""
        loss, log_weight = measure.band.loss, measure.log_weight
        totals, errors = measure.log_totals(np.array([c]))
        self.log_total, self.error = float(totals[0]), float(errors[0])
        self.log_phi: Complexes = np.zeros(nodes, np.complex128)
        self.weight: Floats = np.empty(0)
        if self.log_total == -math.inf:
            return
        offsets = np.array([0, loss.size], np.int64)
        self.weight, rows, offsets, centred, weight = tilt(offsets, loss, log_weight, c, DROPPED)
        self.error += 2.0 * float(rows[0, 2])
        re, im = np.empty(nodes), np.empty(nodes)
        log_phi(offsets, np.ones(1), centred, weight, h, 1, nodes + 1, re, im)
        self.log_phi = re + 1j * (im + float(rows[0, 0]) * h * np.arange(1.0, nodes + 1.0))
