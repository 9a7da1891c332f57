"""Epsilon after each of many numbers of repetitions of a run whose losses lie on one lattice.

As `sweep`, with the sum over one period of the integrand (`lattice_powers`), which is complete:
what is left of it is the sum of what is left out. Few repetitions are convolved (`lattice_walk`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mechc.accountants import lattice_powers, lattice_walk
from mechc.accountants.characteristic import Law
from mechc.accountants.sweep import Saddle, Sweep
from mechc.accountants.trapezoid import Complexes, Contour, Lattice
from mechc.loss.infinite import log_complement
from mechc.loss.measure import Step

Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-17  # terms left out, as a share of the first
FFT_ERROR = 1e-13  # of the transform of masses that sum to one
LONGEST = 500_000  # nodes of a period, and
DEAR = 4_000_000  # node evaluations of a contour, beyond which there is none


class LatticeSweep(Sweep):
    """One direction of a repeated run on a lattice; every answer is for one target delta.

    Args:
        steps: distinct steps of one repetition.
        lattice: of the sum of their losses.
        log_delta: natural log of the target.
        rtol: relative width of delta beyond which there is no answer.
        recursion: few repetitions may be convolved.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        lattice: Lattice,
        log_delta: float,
        rtol: float,
        *,
        recursion: bool = True,
    ) -> None:
        """Keep the steps; nothing is computed before the first question."""
        super().__init__(steps, log_delta, rtol, recursion=recursion)
        self._lattice, self._recursion = lattice, recursion

    def _by_recursion(self, counts: Floats, few: NDArray[np.intp], out: Floats) -> None:
        """Answer for a few repetitions, as far as the convolution goes."""
        law = lattice_walk.once(self._steps, self._lattice)
        if law is not None:
            found = lattice_walk.epsilons(law, counts[few], self._targets(counts[few]))
            out[:, few] = found
            self.methods |= {"lattice"} if np.isfinite(found).any() else set()

    def _nodes(
        self,
        c: float,
        period: float,
        frequency: float,
        grid: Floats,
        rows: Floats,
        saddle: Saddle,
    ) -> tuple[Contour, float] | None:
        """Evaluate one period, and leave out what is negligible for the smallest count."""
        n = int(saddle.repetitions)
        payoff = Lattice(n * self._lattice.offset, self._lattice.step)
        period = payoff.period(period)
        steps = tuple(Step(s.loss, n * s.count) for s in self._steps)
        log_b = n * rows[:, 0] + grid * np.log(grid) - (1.0 + grid) * np.log1p(grid)
        masses = (
            sum(s.count * s.loss.log_finite for s in steps),
            sum(s.count * log_complement(s.loss.log_minus_infinite) for s in steps),
            sum(s.count * s.loss.support[0] for s in steps),
        )
        contour = Contour(Law.of(steps), payoff, c, period, grid, log_b, masses)
        if contour.most > LONGEST:
            return None
        d, b = self._weights(contour, 1, int(contour.most))
        size = (np.abs(d) + np.abs(b)) * np.exp(self._log_sizes(contour, steps))
        first = abs(self._weights(contour, 0, 0)[0][0])
        kept = int(np.flatnonzero(size > NEGLIGIBLE * first).max(initial=-1)) + 1
        if kept * contour.cost > DEAR:
            return None
        contour.extend(kept)
        return contour, 2.0 * float(size[kept:].sum())

    def _log_sizes(self, contour: Contour, steps: tuple[Step, ...]) -> Floats:
        """Bound log |phi| at all nodes of the period, by one transform for every distinct step."""
        points = 2 * int(contour.most) + 1
        log_size = np.zeros(int(contour.most))
        for (loss, count), weight in zip(steps, contour.tilted.weights, strict=True):
            place = np.rint((loss.atom_loss - loss.atom_loss[0]) / self._lattice.step)
            law = np.bincount(place.astype(np.int64) % points, weight, points)
            log_size += count * np.log(np.abs(np.fft.rfft(law)[1:]) + FFT_ERROR)
        return np.minimum(log_size, 0.0)

    def _weights(self, contour: Contour, first: int, last: int) -> tuple[Complexes, Complexes]:
        """Weights of D and B at the nodes first, ..., last; see `lattice_powers`."""
        step = self._lattice.step
        z = contour.c + 1j * contour.h * np.arange(first, last + 1.0)
        b = -1.0 / np.expm1(-step * (z + 1.0))
        d = -1.0 / np.expm1(-step * z) - b
        return np.ascontiguousarray(d), np.ascontiguousarray(b)

    def _inverted(
        self, contour: Contour, tail: float, counts: Floats, known: Floats, near: float
    ) -> tuple[Floats, float]:
        """Return the answers on one contour, and log H at `near` for the first count."""
        n = float(counts[0])
        facts = np.append(self._facts(contour, tail, n), np.zeros(4))
        facts[lattice_powers.OFFSET] = self._lattice.offset
        facts[lattice_powers.STEP] = self._lattice.step
        facts[[lattice_powers.STRAYED, lattice_powers.MOST]] = np.array(contour.strayed) / n
        images = self._images(contour)
        d0, b0 = (float(w[0].real) for w in self._weights(contour, 0, 0))
        d, b = self._weights(contour, 1, contour.nodes)
        re, im = contour.re / n, contour.im / n
        result, targets = np.empty((3, counts.size)), self._targets(counts)
        first, widest = np.array([d0, b0]), self._widest
        lattice_powers.invert(
            counts, targets, near, re, im, d, b, first, facts, images, known, widest, result
        )
        wave, cell = np.exp(contour.re + 1j * contour.im), np.array([np.nan, 0.0, 0.0, d0, b0])
        level = lattice_powers.evaluate(n, near, d * wave, b * wave, cell, 0.0, facts, images)
        return result, float(level[1])
