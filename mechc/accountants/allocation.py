"""One epoch of random allocation: its privacy profile, and a table of losses that dominates it.

In: the law of the loss of one step, and t. Out: bounds on delta(epsilon) of the epoch, in which W,
the mean of t copies of exp(L) under Q, is the likelihood ratio (docs/theorems.md, T11),

    remove: P(q = 0) + E_Q[(W - e^eps)_+],    add: e^eps E_Q[(e^-eps - W)_+],

and a `PrivacyLoss` on a grid for whatever composes epochs. delta is a convex function of e^eps, so
the greatest convex minorant of upper bounds at grid points is not below it there, and joined by
chords nowhere (Doroshenko et al. 2022): its second differences are the masses of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import likelihood
from mechc.accountants.contours.put import Mean, Shares
from mechc.accountants.fft import log_subtract
from mechc.errors import NumericError
from mechc.loss.jit import compiled
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

POINTS = 2**13  # of the grid
TAIL, TOP = 1e-18, 1e-15  # masses beyond its ends under Q and under P
WIDE = 1e-6  # nats between bounds, beyond which the density of W is found
DEEPEST = -160.0  # log of a delta that the density does not tell from what it leaves out
NEAREST, FARTHEST = 1e-3, 60.0  # smallest and largest |log W| that the grid may end at


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
        """The law of the loss of the epoch, None where it has point masses."""
        if self._other is not None:
            return None if self._other.exact is None else self._other.exact.reversed()
        try:
            found = likelihood.law(self.mean.shares)
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
        if abs(epsilon) <= FARTHEST:
            c = math.exp(-epsilon if self.adding else epsilon)
            put = self.mean.puts(np.array([c]))
            found = put[0] + epsilon if self.adding else _log_calls(put, np.array([c]))[0]
            lower, upper = max(lower, float(found[0])), min(upper, float(found[2]))
            estimate = float(found[1])
        if upper - lower > WIDE and upper > DEEPEST and self.exact is not None:
            found = np.array(self.exact.hockey_stick_log(epsilon))
            least = log_subtract(found[0], self.exact.log_early) - self.exact.density_error
            lower, upper = max(lower, least), min(upper, found[2] + self.exact.density_error)
            estimate = float(found[1])
        if not lower <= estimate <= upper:
            estimate = upper if lower == -math.inf else 0.5 * (lower + upper)
        return min(lower, upper), estimate, upper

    @cached_property
    def _profile(self) -> tuple[Floats, Floats, Floats]:
        """Losses of a uniform grid; slopes and values of a bound on E_Q[(c - W)_+] there."""
        if self._other is not None:
            return self._other._profile
        lo, hi = self._ends()
        step = (hi - lo) / POINTS
        loss = step * np.arange(math.floor(lo / step), math.ceil(hi / step) + 1.0)
        c = np.exp(loss)
        upper = np.exp(self.mean.puts(c)[:, 2]) * (1.0 + 8.0 * EPS)
        return loss, *_hull(np.append(0.0, c), np.append(0.0, upper))

    @cached_property
    def table(self) -> PrivacyLoss:
        """A discrete law on a uniform grid that dominates the epoch."""
        loss, slope, upper = self._profile
        c, step = np.exp(loss), float(loss[1] - loss[0])
        calls = np.minimum(upper + (1.0 - c) + 8.0 * EPS * (1.0 + c), 1.0)
        mass = np.diff(np.append(slope, 1.0))
        # sums over the table are rounded, which heavier masses make up for
        held = EPS * (4.0 * c.size + 64.0)
        sums = 1.0 + 2.0 * held
        mass = np.maximum(mass, 0.0) * sums
        zero = float(slope[0]) * sums
        revealed = float(max(calls[-1], 0.0))
        # what rounding of the masses has left of the bounds is checked where it matters, and added
        put = zero * c + _below(c, mass)
        call = revealed + _below(*map(np.ascontiguousarray, (-c[::-1], mass[::-1])))[::-1]
        kept = mass > 0.0
        log_mass = np.log(mass[kept])
        if self.adding:
            zero += float(np.max((upper - put * (1.0 - held)) / c, initial=0.0))
        else:
            revealed += float(np.max(calls - call * (1.0 - held), initial=0.0))
        with np.errstate(divide="ignore"):
            log_zero, log_revealed = float(np.log(zero)), float(np.log(revealed))
        label = f"random allocation of {self.law.label}"
        if self.adding:
            made = PrivacyLoss.from_log_atoms(
                -loss[kept][::-1], log_mass[::-1], log_zero, log_revealed, label
            )
        else:
            made = PrivacyLoss.from_log_atoms(
                loss[kept], log_mass + loss[kept], log_revealed, log_zero, label
            )
        return replace(made, lattice=(float(made.atom_loss[0]), step))

    def _ends(self) -> tuple[float, float]:
        """Ends of the grid: log W is beyond them nearly never, or not to be told from it."""
        infinite = math.exp(self.law.log_minus_infinite if self.adding else self.law.log_infinite)

        def reached(place: float, below: bool) -> bool:
            c = np.array([math.exp(-place if below else place)])
            found = self.mean.puts(c)
            if below:
                return float(found[0, 2]) + place < math.log(TAIL)
            lower, _, upper = np.exp(_log_calls(found, c))[0]
            return bool(upper - infinite < max(2.0 * (upper - lower), TOP))

        ends = []
        for below in (True, False):
            place = NEAREST
            while place < FARTHEST and not reached(place, below):
                place *= 1.2
            ends.append(min(place, FARTHEST))
        return -ends[0], ends[1]


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


@compiled("UniTuple(float64[::1], 2)(float64[::1], float64[::1])")
def _hull(x, y):  # type: ignore[no-untyped-def]
    """Greatest convex minorant of points: slopes between them, values but for the first."""
    stack = np.empty(x.size, np.int64)
    size = 0
    for i in range(x.size):
        while size > 1:
            a, b = stack[size - 2], stack[size - 1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            size -= 1
        stack[size] = i
        size += 1
    slope, value = np.empty(x.size - 1), np.empty(x.size - 1)
    for k in range(size - 1):
        a, b = stack[k], stack[k + 1]
        for i in range(a, b):
            slope[i] = (y[b] - y[a]) / (x[b] - x[a])
            value[i] = y[b] if i + 1 == b else y[a] + slope[i] * (x[i + 1] - x[a])
    return slope, value


@compiled("float64[::1](float64[::1], float64[::1])")
def _below(x, mass):  # type: ignore[no-untyped-def]
    """Sum of mass_j (x_i - x_j)_+ at every x_i, x increasing."""
    out = np.empty(x.size)
    total, value = 0.0, 0.0
    for i in range(x.size):
        if i > 0:
            value += total * (x[i] - x[i - 1])
        out[i] = value
        total += mass[i]
    return out
