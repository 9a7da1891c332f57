"""Laws that have no panels.

Where P and Q are millions of standard deviations apart, losses of 1e12 and tilted laws between the
two defeat any quadrature. An `UnresolvedLoss` stands for such a law: it answers how likely a small
loss is, or a large one, and refuses the rest.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.bounded_part import log_above, log_below, within
from mechc.loss.branches import formulas_agree
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.protocol import Kernel


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
    has_moments = estimated = False
    log_infinite = -math.inf
    log_minus_infinite = -math.inf
    support = (-math.inf, math.inf)

    def __init__(
        self, kernel: Kernel | None, theta: NDArray[np.float64], reverse: bool, why: NumericError
    ) -> None:
        """Keep what is needed for `log_below`; without a kernel of these parameters nothing."""
        self._kernel, self._theta, self._reverse = kernel, theta, reverse
        self.why = why

    def log_below(self, threshold: float) -> float:
        """Return an upper bound on log P(L <= threshold)."""
        source = self._source
        return 0.0 if source is None else log_below(source, threshold, self._reverse)

    def log_above(self, threshold: float) -> float:
        """Return an upper bound on log P(L > threshold)."""
        source = self._source
        return 0.0 if source is None else log_above(source, threshold, self._reverse)

    def within(self, bound: float) -> PrivacyLoss:
        """Return a law that dominates this one, in which losses beyond +-bound are infinite.

        Raises:
            NumericError: that law cannot be resolved either.
            UnsupportedError: where the loss is that large is not known.
        """
        source = self._source
        if source is None or not source.continuous:
            raise self.why
        return PrivacyLoss.of_source(within(source, bound), self._reverse)

    @cached_property
    def _source(self) -> KernelSource | None:
        """The kernel without nodes; None where even its masses, or losses, cannot be found."""
        if self._kernel is None:
            return None
        try:
            source = KernelSource(self._kernel, self._theta, checked=False)
        except NumericError:
            return None
        return source if formulas_agree(source) else None

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse everything that needs nodes."""
        raise NumericError(str(self.why))


def is_resolved(law: Any) -> bool:
    """Whether a privacy loss has nodes."""
    return not isinstance(law, UnresolvedLoss)
