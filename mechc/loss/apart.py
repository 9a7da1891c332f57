"""What can be said of a law whose nodes do not settle: how likely its loss is to be small.

Where P and Q are millions of standard deviations apart, losses of 1e12 and tilted laws between the
two defeat any quadrature, but not the one question that matters then: P(L <= t) for a t that is far
below what P produces. It is an integral of p alone, over outputs that the branches tell.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.kernel.protocol import Kernel
from mechc.loss.branches import above
from mechc.loss.quadrature import log_mass
from mechc.loss.source import KernelSource

if TYPE_CHECKING:
    from mechc.loss.measure import PrivacyLoss

SMALLEST = -60.0  # no probability is claimed to be below exp of this
ROOM = 0.01  # share of the log by which rounding may move a small probability


def log_below(source: KernelSource, threshold: float, reverse: bool) -> float:
    """Return an upper bound on log P(L <= threshold), 0 where nothing is known.

    Args:
        source: a kernel bound to parameters.
        threshold: any real number.
        reverse: L and P are those of the reversed pair.
    """
    sign = -1.0 if reverse else 1.0
    small = sign * source.atom_loss <= threshold
    masses = source.atom_log_mass - (source.atom_loss if reverse else 0.0)
    logs = masses[small].tolist()
    try:
        if source.continuous:
            rows = above(source, -threshold, not reverse)
            label = "q" if reverse else "p"
            logs += [log_mass(source.kernel, source.theta, lo, hi, label) for lo, hi in rows]
    except NumericError:
        return 0.0
    total = float(np.logaddexp.reduce([SMALLEST, *logs]))
    return 0.0 if math.isnan(total) else min(0.0, total * (1.0 - ROOM) + 1e-9)


class UnresolvedLoss:
    """Stands for a privacy loss that could not be made; whatever else it is asked, it says why.

    Attributes:
        why: the error of the attempt.
        log_infinite: lower bound on the log mass at infinite loss: none is known.
        log_minus_infinite: the same for the reversed pair.
        support: range of the finite loss, as far as it is known.
        mass_errors: no mass at infinity is used, hence none is wrong.
        has_moments: no exponential moments are known to be finite.
    """

    mass_errors = (0.0, 0.0)
    has_moments = False
    log_infinite = -math.inf
    log_minus_infinite = -math.inf
    support = (-math.inf, math.inf)

    def __init__(
        self, kernel: Kernel, theta: NDArray[np.float64], reverse: bool, why: NumericError
    ) -> None:
        """Keep what is needed for `log_below`."""
        self._kernel, self._theta, self._reverse = kernel, theta, reverse
        self.why = why

    def log_below(self, threshold: float) -> float:
        """Return an upper bound on log P(L <= threshold)."""
        try:
            source = KernelSource(self._kernel, self._theta, checked=False)
        except NumericError:
            return 0.0
        return log_below(source, threshold, self._reverse)

    def within(self, bound: float) -> PrivacyLoss:
        """Return a law that dominates this one, in which losses beyond +-bound are infinite.

        Raises:
            NumericError: that law cannot be resolved either.
            UnsupportedError: where the loss is that large is not known.
        """
        from mechc.loss.measure import PrivacyLoss

        source = KernelSource(self._kernel, self._theta, checked=False)
        if not source.continuous:
            raise self.why
        return PrivacyLoss.from_source(source, bound, self._reverse)

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse everything that needs nodes."""
        raise NumericError(str(self.why))


def is_resolved(law: Any) -> bool:
    """Whether a privacy loss has nodes."""
    return not isinstance(law, UnresolvedLoss)
