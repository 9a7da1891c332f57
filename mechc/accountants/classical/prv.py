"""The PRV accountant of Gopi, Lee and Wutschitz 2021, with a window that is proven, not guessed.

Every step's finite loss is truncated to [-L, L], rounded to a mesh of width h whose offset keeps
the mean (Algorithm 2), and composed by one transform a distinct step. Rounding errors are
independent, have mean zero and lie in an interval of length h, so that by Hoeffding's inequality
they add up to more than eps_error with probability delta_error/6 only when
h = eps_error / sqrt((k/2) log(12/delta_error)) (Theorem 5.5). Then

    delta~(eps + eps_error) - delta_error <= delta(eps) <= delta~(eps - eps_error) + delta_error.

The proof of Theorem 5.5 needs sum_j P(|L_j| > L) <= delta_error/6 and P(|S| > L - eps_error) <=
delta_error/3; the paper gets both from an upper bound on epsilon, here they are Chernoff bounds
with the exact generating function. The error in delta is absolute: below delta_error, and below
the rounding of the transform, the lower bound is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.bounds import Tails
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.fft import TiltedSum, check_memory
from mechc.accountants.registry import Accountant
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss.discretise import GridLaw, following_error, mesh
from mechc.loss.privacy_loss import Step, distinct
from mechc.numeric.logs import log_of
from mechc.numeric.rounding import MOST_LOG, U

_BYTES = 120  # of memory per mesh point, at the peak


class PrvAccountant(Accountant):
    """Two-sided bounds by the mean-matched discretisation of privacy random variables."""

    def __init__(
        self, steps: Sequence[Step], *, rtol: float = 1e-6, eps_error: float = 0.01,
        delta_error: float = 1e-10, max_bytes: int = 2**31,
    ) -> None:  # fmt: skip
        """Choose mesh and window; nothing is transformed before the first query.

        Args:
            steps: the distinct steps and their counts.
            rtol: not used: the accuracy of this method is set by the two errors below.
            eps_error: half width in epsilon, > 0.
            delta_error: half width in delta, in (0, 1); the paper advises delta/1000.
            max_bytes: memory that a composition may take.

        Raises:
            DeclarationError: an error is outside its domain.
        """
        if not (eps_error > 0 and math.isfinite(eps_error)):
            raise DeclarationError(f"prv: eps_error={eps_error!r}: expected a positive number")
        if not 0 < delta_error < 1:
            raise DeclarationError(f"prv: delta_error={delta_error!r}: expected 0 < value < 1")
        self._eps_error, self._delta_error = eps_error, delta_error
        self._max_bytes = max_bytes
        self._laws, self._counts = distinct(steps)
        self._composed = ComposedLoss(steps)

    def log_delta(self, epsilon: float) -> Bound:
        """Bound log delta(epsilon) in one direction by Theorem 5.5.

        Returns:
            A bound with status "proven"; lower is -inf where delta_error exceeds the value.

        Raises:
            UnsupportedError: the mesh needs more than max_bytes, no window can be proven, or too
                much lies next to an end of the outputs, where doubles are too sparse.
            NumericError: the mesh sees no mass.
        """
        settled = self._composed.settled(epsilon, "prv")
        if settled is not None:
            return settled
        total = self._sum
        reach = self._eps_error + self._drift + total.slack
        low, low_error = total.plain_payoff(epsilon + reach, -self._window)
        mid, _ = total.plain_payoff(epsilon, -self._window)
        high, high_error = total.plain_payoff(epsilon - reach, -self._window)
        most = math.exp(min(total.relative, MOST_LOG))
        return Bound(
            self.log_of_finite(low * math.exp(-total.relative) - low_error - self._delta_error),
            self.log_of_finite(mid),
            self.log_of_finite(high * most + high_error + self._delta_error),
            "prv",
            "proven",
            {"eps_error": reach, "delta_error": self._delta_error + high_error,
             "points": total.size, "step": total.step, "window": self._window},
        )  # fmt: skip

    def log_of_finite(self, finite: float) -> float:
        """Log of delta from the finite part, which is conditional on a finite loss."""
        part = log_of(finite) + self._composed.log_finite
        return min(self._composed.with_infinite(part), 0.0)  # nan stays nan

    @cached_property
    def _sum(self) -> TiltedSum:
        """Discretise and compose, once."""
        counts = np.array(self._counts, dtype=np.float64)
        tails, steps = Tails(self._composed, "prv"), float(counts.sum())
        self._window = self._choose_window(tails, steps)
        spread = math.sqrt(0.5 * steps * (math.log(12.0) - math.log(self._delta_error)))
        points = 2 * self._window / self._eps_error * spread
        what = f"prv: eps_error={self._eps_error:g} over {steps:g} steps"
        check_memory(what, points, self._max_bytes, _BYTES)
        size = 1 << max(math.ceil(math.log2(points)), 4)
        laws = [self._discretise(j, size, tails) for j in range(len(self._laws))]
        self._drift = float(counts @ [drift for _, drift in laws])
        pairs = ((law, k) for (law, _), k in zip(laws, self._counts, strict=True))
        return TiltedSum.of(pairs, 0.0, size)

    def _choose_window(self, tails: Tails, steps: float) -> float:
        """Smallest L that the two conditions of Theorem 5.5 allow, each tail taking half."""
        log_error = math.log(self._delta_error)
        total = tails.window(tails.distinct, log_error - math.log(6.0))
        total = min(total, max(map(abs, self._composed.support)))
        window = total + self._eps_error
        for j, law in enumerate(self._laws):
            single = tails.window(j, log_error - math.log(12.0 * steps))
            window = max(window, min(single, max(map(abs, law.support))))
        return window

    def _discretise(self, index: int, size: int, tails: Tails) -> tuple[GridLaw, float]:
        """Algorithm 2: round to the nearest mesh point, then shift to the mean of the loss."""
        # returns the law, and a bound on how far its mean is from that of the truncated loss
        loss, window = self._laws[index], self._window
        step = 2 * window / size
        mass, _ = loss.cell_masses(mesh(-0.5 * step, step, -size // 2, size + 2))
        if not loss.log_lost <= math.log(self._delta_error) - math.log(6.0 * self._composed.count):
            raise UnsupportedError(f"prv: doubles do not resolve the ends of {loss.label}")
        if not mass.sum() > 0.0:
            raise NumericError(f"prv: no mass of {loss.label} lies on a mesh of step {step:g}")
        mass = mass / mass.sum()
        points = mesh(0.0, step, -size // 2, size + 1)
        mean = float(self._composed.by_step(0.0, 1)[index, 1])
        beyond = sum(map(math.exp, tails.log_beyond(index, window)))
        if max(map(abs, loss.support)) <= window:
            drift = 0.0
        elif beyond < 1.0:
            drift = (tails.mean_beyond(index, window) + abs(mean) * beyond) / (1.0 - beyond)
        else:
            drift = math.inf
        noise = 2 * loss.tolerance + 16 * U
        law = GridLaw(
            offset=mean - float(mass @ points), step=step, first=-size // 2, mass=mass,
            log_infinite=loss.log_infinite, inflation=noise,
            slack=2 * noise * window + following_error(loss),
        )  # fmt: skip
        return law, drift
