"""The Fourier accountant of Koskela, Jalko and Honkela 2020, and bounds from the same window.

The estimate is Algorithm 1: the density of the loss on n points of [-L, L), its k-th convolution
power by the fast Fourier transform (a product of one power per distinct step, section 5.5), and a
Riemann sum of the payoff, (5.2). It is reported with the three errors of section 7: the tail
beyond L (7.1) and the periodisation (Lemma 7) by Chernoff bounds with the exact generating
function, in place of the paper's special cases, and 2 |I_n - I_2n| (7.4), which is no bound.

What is proven lies between laws on the same mesh that dominate the loss and are dominated by it, as
in the successor of 2021 (Koskela, Jalko, Prediger, Honkela), which rounds losses up and down. Here
masses are split and pooled instead (`loss.discretise`): the distance is of second order in the
mesh, about 3 k h^2 t (t+1) / 20 at saddle point t, rather than k h t. The mass of such a law that
the period folds to the wrong side is bounded with that law's own generating function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mechc.accountants.bound import Bound
from mechc.accountants.bounds import Tails
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.fft import TiltedSum, check_memory
from mechc.accountants.registry import Accountant
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.discretise import Cells, GridLaw, dominated, dominating, mesh
from mechc.loss.privacy_loss import Step, distinct
from mechc.numeric.logs import log1mexp, log_add, log_of

_LOG_TAIL = math.log(1e-16)  # tail of the composed loss that the default window leaves out
_SMALLEST_WINDOW = 1e-3  # nats


class FourierAccountant(Accountant):
    """Riemann sum of the convolved density, between rounded-down and rounded-up compositions."""

    def __init__(
        self, steps: Sequence[Step], *, rtol: float = 1e-6, n: int = 2**18,
        window: float | None = None, max_bytes: int = 2**31,
    ) -> None:  # fmt: skip
        """Prepare a composition.

        Args:
            steps: the distinct steps and their counts; their losses must have densities.
            rtol: not used: the accuracy of this method is set by n and window.
            n: number of mesh points, even; I_2n takes twice as many.
            window: L, half the period; None finds one with tails below 1e-16.
            max_bytes: memory that a composition may take.

        Raises:
            DeclarationError: n is odd or not positive, or window is not positive.
            UnsupportedError: a loss has atoms, or the mesh needs more than max_bytes.
        """
        if n < 4 or n % 2:
            raise DeclarationError(f"fourier: n={n!r}: expected an even number, at least 4")
        if window is not None and not 0 < window < math.inf:
            raise DeclarationError(f"fourier: window={window!r}: expected a positive number")
        check_memory(f"fourier: n={n}", 2 * n, max_bytes)
        self._laws, self._counts = distinct(steps)
        for law in self._laws:
            if law.atom_loss.size:
                raise UnsupportedError(
                    f"fourier: {law.label} has point masses in its privacy loss, hence no density"
                )
        self._n, self._given = n, window
        self._composed = ComposedLoss(steps)
        self._made = False

    def log_delta(self, epsilon: float) -> Bound:
        """Bound log delta(epsilon) in one direction, with I_n as the estimate, put in the bounds.

        Args:
            epsilon: any finite real number below the window.

        Returns:
            A bound with status "proven" for lower and upper; the error terms of the estimate are
            in its detail.

        Raises:
            UnsupportedError: epsilon is beyond the window, or no window can be proven.
        """
        settled = self._composed.settled(epsilon, "fourier")
        if settled is not None:
            return settled
        if not self._made:
            self._compose()
        return self._bound(epsilon)

    def _compose(self) -> None:
        """Make everything that does not depend on epsilon."""
        n, laws, counts = self._n, self._laws, self._counts
        tails = Tails(self._composed, "fourier")
        self.window = self._default_window(tails) if self._given is None else self._given
        self._beyond = sum(map(math.exp, tails.log_beyond(tails.distinct, self.window)))
        singles = [tails.log_beyond(j, self.window) for j in range(len(laws))]
        self._cut = sum(k * sum(map(math.exp, s)) for k, s in zip(counts, singles, strict=True))
        self._coarse, self._fine = (self._riemann(m) for m in (n, 2 * n))
        step = 2 * self.window / n
        up, down = tails.tilts(tails.distinct, self.window)
        self._up, self._down = (TiltedSum(0.0, n, [tilt]) for tilt in (up, down))
        for law, k, (above, below) in zip(laws, counts, singles, strict=True):
            cells = Cells.cut(law, 0.0, step, -n // 2, n + 1)
            self._up.add(dominating(cells, (below, above)), k)
            self._down.add(dominated(cells, 0.0), k)
        self._up.close()
        self._down.close()
        self._made = True

    def _default_window(self, tails: Tails) -> float:
        window = tails.window(tails.distinct, _LOG_TAIL)
        for j, k in enumerate(self._counts):
            window = max(window, tails.window(j, _LOG_TAIL - math.log(k)))
        reach = max(map(abs, self._composed.support))
        return max(min(window, reach), _SMALLEST_WINDOW)

    def _riemann(self, n: int) -> TiltedSum:
        """Compose the densities on n points; masses are density * step, as in Algorithm 1."""
        step = 2 * self.window / n
        points = mesh(0.0, step, -n // 2, n)
        laws = (
            GridLaw(0.0, step, -n // 2, law.density(points) * step, law.log_infinite, 0.0, 0.0)
            for law in self._laws
        )
        return TiltedSum.of(zip(laws, self._counts, strict=True), 0.0, n)

    def _bound(self, epsilon: float) -> Bound:
        if not -self.window <= epsilon < self.window:
            raise UnsupportedError(
                f"fourier: epsilon={epsilon:g} is outside the window of half width "
                f"{self.window:g}, which window= may enlarge"
            )
        log_estimate, log_finer = (self._logged(t, epsilon) for t in (self._coarse, self._fine))
        lower, low_error = self._down.plain_payoff(epsilon + self._down.slack, -self.window)
        upper, high_error = self._up.plain_payoff(epsilon - self._up.slack, -self.window)
        lower = (lower - low_error) * math.exp(self._down.log_scale - self._down.relative)
        upper = (upper + high_error) * math.exp(self._up.log_scale + self._up.relative)
        outer = self._composed.outer(epsilon)
        bottom = max(outer.lower, self._log(lower - self._wrapped(self._down)))
        infinite = max(log1mexp(self._up.log_finite), self._composed.log_infinite)
        finite = upper + self._wrapped(self._up)
        top = min(outer.upper, log_add(infinite, log_of(finite)))
        detail = {
            "riemann_sum": math.exp(self._composed.with_infinite(log_estimate)),
            "discretisation": 2 * abs(math.exp(log_estimate) - math.exp(log_finer)),
            "tail": self._beyond, "periodisation": self._beyond + self._cut,
            "points": self._coarse.size, "window": self.window,
        }  # fmt: skip
        middle = min(max(self._composed.with_infinite(log_estimate), bottom), top)
        return Bound(bottom, middle, top, "fourier", "proven", detail)

    def _wrapped(self, total: TiltedSum) -> float:
        """Chernoff bound on the mass of a rounded law that the period folds to the wrong side."""
        ((tilt, log_mgf),) = total.log_mgf.items()
        return math.exp(min(0.0, log_mgf + total.relative - abs(tilt) * self.window))

    def _logged(self, total: TiltedSum, epsilon: float) -> float:
        """Log of a Riemann sum; at most 0, which sums over jumps of a density may exceed far."""
        value, _ = total.plain_payoff(epsilon, -self.window)
        return -math.inf if value <= 0 else min(math.log(value) + total.log_scale, 0.0)

    def _log(self, finite: float) -> float:
        return min(self._composed.with_infinite(log_of(finite)), 0.0)  # nan stays nan
