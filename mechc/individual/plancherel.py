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

from mechc.individual.contours import Query
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.roots import root
from mechc.protocol import Floats

POINTS = 1 << 17
BEYOND = 1e-3  # share of delta that may lie beyond the grid
TILTS = np.geomspace(0.5, 500.0, 24)  # of Chernoff's bound on what does


def estimates(
    counts: NDArray[Any], losses: Mapping[str, Sequence[PrivacyLoss]], query: Query
) -> Floats:
    """Return epsilon or delta of some people from their counts, an estimate.

    Args:
        counts: steps per bucket, shape (people, buckets).
        losses: the laws of the buckets, for each direction.
        query: what is asked.
    """
    used, found = np.flatnonzero(counts.any(axis=0)), np.zeros(counts.shape[0])
    for laws in losses.values() if used.size else ():
        own = [laws[i] for i in used.tolist()]
        s = np.linspace(-1.0, 1.0, POINTS, endpoint=False) * _half_length(own, counts, query, used)
        edges = np.append(s, -s[0]) + s[0] / POINTS
        masses = (np.fft.fftshift(loss.cell_masses(edges)[0]) for loss in own)
        spectra = [np.fft.rfft(mass) for mass in masses]
        logs = np.log([np.where(f == 0, 1e-300, f) for f in spectra])
        answers = [_solve(np.exp(row[used] @ logs), np.fft.fftshift(s), query) for row in counts]
        found = np.maximum(found, answers)
    return found


def _half_length(
    losses: Sequence[PrivacyLoss], counts: NDArray[Any], query: Query, used: NDArray[np.int64]
) -> float:
    """Return a length that holds everybody's loss but for a share of delta, by Chernoff."""
    log_small = math.log(BEYOND) + (query.log_delta if query.inverse else -30.0)
    best = np.full((2, counts.shape[0]), np.inf)
    for side, sign in enumerate((1.0, -1.0)):
        for t in TILTS.tolist():
            k = np.array([loss.log_mgf(t if sign > 0 else -1.0 - t) for loss in losses])
            if not k.max() < 500.0:
                break
            best[side] = np.minimum(best[side], (counts[:, used] @ k - log_small) / t)
    return 1.2 * max(1.0, float(best.max()))


def _solve(phi: NDArray[np.complex128], s: Floats, query: Query) -> float:
    """Return delta at epsilon, or epsilon at delta."""
    weight = np.full(phi.size, 2.0)
    weight[0] = weight[-1] = 1.0  # the half spectrum stands for the whole

    def delta(epsilon: float) -> float:
        w = np.maximum(0.0, -np.expm1(np.minimum(epsilon - s, 0.0)))
        return float((weight * (np.conj(np.fft.rfft(w)) * phi).real).sum() / s.size)

    if not query.inverse:
        return delta(query.epsilon)
    target = math.exp(query.log_delta)
    if delta(0.0) <= target:
        return 0.0
    end, rtol = float(s.max()), max(1e-3 * query.rtol, 1e-12)
    return root(lambda e: delta(e) - target, 0.0, end, rtol=rtol)
