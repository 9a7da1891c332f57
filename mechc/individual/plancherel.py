"""The paper's evaluation of individual deltas: discretised losses, FFT and the Plancherel theorem.

Section D of Koskela, Tobaben and Honkela (2023): each bucket's loss is put on an equidistant grid
of n points over [-L, L), its transform F_i is computed once, and for counts k_i

    delta(epsilon) = (1/n) < F(w_epsilon), prod F_i^{k_i} >,  w_l = max(0, 1 - e^{epsilon - s_l}),

so that no inverse transform is needed per person. It is here for comparison: the discretisation
and the wrap-around at +-L carry no bound, and each person costs n complex powers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.individual.evaluate import Query
from mechc.loss.measure import PrivacyLoss

Floats = NDArray[np.float64]

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
