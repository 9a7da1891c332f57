"""How often large losses occur: sums over their number, in logs and on a contour.

With k repetitions of a step and r = C / M the odds of a large loss to a small one, the composition
is M^k times sum over j of binom(k, j) r^j. Nothing is subtracted where few are expected.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
