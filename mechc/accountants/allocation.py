"""One epoch of random allocation: its privacy profile, and a table of losses that dominates it.

In: the law of the loss of one step, and t. Out: bounds on delta(epsilon) of the epoch, in which W,
the mean of t copies of exp(L) under Q, is the likelihood ratio (docs/theorems.md, T11),

    remove: P(q = 0) + E_Q[(W - e^eps)_+],    add: e^eps E_Q[(e^-eps - W)_+],

and laws of its loss for whatever composes epochs: by the density of W, on both sides at once, or,
where X has point masses, one above and one below (`contours.grids`), rounded to a lattice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import likelihood
from mechc.accountants.contours.grids import Between, listed
from mechc.accountants.contours.put import Mean, Shares
from mechc.accountants.fft import log_subtract
from mechc.errors import NumericError
from mechc.loss.discretise import rounded_down, rounded_up
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

POINTS = 2**14  # of a lattice
TAIL = 1e-30  # mass beyond its ends
WIDE = 1e-6  # nats between bounds, beyond which the density of W is found
DEEPEST = -160.0  # log of a delta that the density does not tell from what it leaves out
NEAREST, FARTHEST = 1e-9, 60.0  # least range of a lattice; largest |log W| that contours see


def scheduled(parts: Sequence[tuple[PrivacyLoss, int]], adding: bool = False) -> PrivacyLoss:
    """Return the law of the loss of an epoch whose steps are not alike.

    Args:
        parts: laws of the loss of one step, with counts.
        adding: they are for adding a record.

    Raises:
        NumericError: a law has point masses, or a density that is not resolved.
    """
    found = likelihood.law_of_several([Shares(law, adding, count) for law, count in parts])
    return found.reversed() if adding else found


class Epoch:
    """Bounds on log delta of one epoch in one direction."""

    def __init__(
        self, law: PrivacyLoss, direction: str, steps: int, other: Epoch | None = None
    ) -> None:
        """Hold the law of the loss of one step in that direction; nothing is computed yet.

        Args:
            law: of the privacy loss of one step.
            direction: "remove" or "add", which the law is for.
            steps: t, of which a record takes part in one.
            other: the same epoch in the other direction; of one pair both have the same W.
        """
        self.law, self.adding, self.steps = law, direction == "add", steps
        self._other = None
        if other is not None and law.source is not None and law.source is other.law.source:
            self._other = other if law.is_reversed != other.law.is_reversed else None

    @cached_property
    def mean(self) -> Mean:
        """What answers for E_Q[(c - W)_+]."""
        if self._other is not None:
            return self._other.mean
        return Mean(Shares(self.law, self.adding, self.steps))

    @cached_property
    def exact(self) -> PrivacyLoss | None:
        """The law of the loss of the epoch, None where point masses are too many to be listed."""
        if self._other is not None:
            return None if self._other.exact is None else self._other.exact.reversed()
        try:
            found = listed(self.mean.shares) or likelihood.law(self.mean.shares)
        except NumericError:
            return None
        return found.reversed() if self.adding else found

    @property
    def log_infinite(self) -> tuple[float, float]:
        """Log of the mass at infinity of the epoch, and its error."""
        if self.adding:  # all X are 0
            return self.law.log_infinite * self.steps, self.law.mass_errors[0] * self.steps
        return self.law.log_infinite, self.law.mass_errors[0]

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """Return (lower, estimate, upper) of log delta(epsilon), for any finite epsilon."""
        infinite, error = self.log_infinite
        lower = max(infinite - error, _log_positive(epsilon))
        upper = min(0.0, self.law.hockey_stick_log(epsilon)[2])  # Jensen's inequality
        if not self.adding:
            lower = max(lower, self.law.hockey_stick_log(epsilon + math.log(self.steps))[0])
        estimate = math.nan
        if abs(epsilon) <= FARTHEST and self.mean.known:
            c = math.exp(-epsilon if self.adding else epsilon)
            put = self.mean.puts(np.array([c]))
            found = put[0] + epsilon if self.adding else _log_calls(put, np.array([c]))[0]
            lower, upper = max(lower, float(found[0])), min(upper, float(found[2]))
            estimate = float(found[1])
        if upper - lower > WIDE and upper > DEEPEST:
            laws = self.ends if self.exact is None else (self.exact, self.exact)
            found = [law.hockey_stick_log(epsilon + o * law.loss_error)
                     for law, o in zip(laws, (-1.0, 1.0), strict=True)]  # fmt: skip
            least = log_subtract(found[1][0], laws[1].log_early) - laws[1].density_error
            lower, upper = max(lower, least), min(upper, found[0][2] + laws[0].density_error)
            estimate = float(found[0][1] if self.exact is not None else 0.5 * (lower + upper))
        if not lower <= estimate <= upper:
            estimate = upper if lower == -math.inf else 0.5 * (lower + upper)
        return min(lower, upper), estimate, upper

    @cached_property
    def between(self) -> Between:
        """The laws of W on a grid."""
        return self._other.between if self._other is not None else Between(self.mean.shares)

    def between_of(self, drawn: int) -> Between:
        """The same where so many steps are drawn."""
        return self.between if drawn == 1 else Between(self.mean.shares, drawn)

    @cached_property
    def ends(self) -> tuple[PrivacyLoss, PrivacyLoss]:
        """Laws of the loss above and below the epoch."""
        return self.between.above(self.adding), self.between.below(self.adding)

    @cached_property
    def lattices(self) -> tuple[PrivacyLoss, PrivacyLoss]:
        """The same on multiples of a step."""
        return lattice(self.ends[0], True), lattice(self.ends[1], False)


def lattice(law: PrivacyLoss, upper: bool) -> PrivacyLoss:
    """Return a law on a lattice above, or below, one of atoms.

    Args:
        law: of a loss.
        upper: delta is to be no smaller.
    """
    lo, hi = law.support
    step = max(hi - lo, NEAREST) / POINTS
    return (rounded_up if upper else rounded_down)(law, step, TAIL)


def _log_positive(epsilon: float) -> float:
    """Log of max(0, 1 - e^epsilon), below the profile of any pair."""
    return math.log(-math.expm1(epsilon)) + math.log1p(-8.0 * EPS) if epsilon < 0.0 else -math.inf


def _log_calls(log_puts: Floats, c: Floats) -> Floats:
    """Logs of P(q = 0) + E_Q[(W - c)_+] = 1 - c + E_Q[(c - W)_+]."""
    off = 8.0 * EPS * (1.0 + c)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.exp(np.minimum(log_puts, 700.0)) + (1.0 - c)[:, None]
        value[:, 0] -= off
        value[:, 2] += off
        out: Floats = np.log(np.maximum(value, 0.0))
    return out
