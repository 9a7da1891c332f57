"""The approximate (epsilon, delta)-filter: individual budgets for any dominating pairs.

Section 5 of Koskela, Tobaben and Honkela (2023): if the composed profile of a person's dominating
pairs lies below that of mu-GDP for all epsilon, the run's Renyi divergences lie below those of
mu-GDP at every order (equations 5.1 to 5.3), and converting these back gives (epsilon, delta).

What can be computed is less: a profile is compared on a finite range of epsilon. For sampled
mechanisms the smallest mu grows without bound with that range, because their losses have heavier
tails than any Gaussian fitted to their centre. So every mu here comes with the range |epsilon| <=
epsilon_max in which it was shown to hold and with the delta that is left at the end of it, and
the filter built on it is called approximate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from mechc.accountants.bound import Bound, Quantity
from mechc.composition.inputs import positive, size
from mechc.errors import DeclarationError, public
from mechc.individual.accountant import IndividualAccountant
from mechc.individual.budget import Mask, dense
from mechc.individual.filters import gaussian_order, gdp_budget, renyi_budget, target
from mechc.individual.storage import TakesTurns, in_turn
from mechc.numeric.rounding import MOST_LOG, U
from mechc.protocol import Floats

CELLS = 12  # that the range of epsilon is divided into
_RTOL = 1e-2  # of the profiles: the cells cost more than that
_ROUNDING = 1e-12  # relative, of a profile
_SMALLEST, _LARGEST = 1e-6, 1e4  # mu that is looked for
_TINY = 1e-305  # an upper bound never underflows to zero


@public
def gdp_upper_bound(
    accountant: IndividualAccountant, epsilon_max: float, *, cells: int = CELLS,
    rows: ArrayLike | None = None,
) -> Bound:  # fmt: skip
    """Return each person's smallest mu whose profile is above theirs for |epsilon| <= epsilon_max.

    Profiles are convex in e^epsilon. Between two points a person's profile is therefore below its
    chord, and mu is taken so large that the chord is below the profile of mu-GDP, which touches it
    at a point known in closed form. Negative epsilons follow from the other direction.

    Args:
        accountant: whose people are asked about.
        epsilon_max: end of the range, > 0 and at most 700.
        cells: number of cells the range is divided into.
        rows: indices of people; everybody by default.

    Returns:
        Bound on mu. detail["slack"] holds an upper bound on delta(epsilon_max): what mu does not
        vouch for. There is no claim beyond detail["epsilon_range"].

    Raises:
        DeclarationError: an argument is not acceptable.
    """
    epsilon_max = _asked("gdp_upper_bound", accountant, epsilon_max)
    cells = size("gdp_upper_bound", "cells", cells)
    edges = np.linspace(0.0, epsilon_max, cells + 1)
    profiles = [accountant.delta(float(e), rows=rows, rtol=_RTOL) for e in edges]
    lowers = [_solve(np.asarray(p.lower), e) for p, e in zip(profiles, edges, strict=True)]
    uppers = [np.asarray(p.upper) for p in profiles]
    cell = zip(uppers[:-1], uppers[1:], edges[:-1], edges[1:], strict=True)
    lower = np.maximum.reduce(lowers)
    upper = np.maximum.reduce([_cover(*c) for c in cell])
    detail = {"epsilon_range": (-epsilon_max, epsilon_max), "slack": uppers[-1], "cells": cells}
    status = f"within epsilon_range: {profiles[0].status}"
    middle = np.where(upper < math.inf, np.sqrt(lower * np.minimum(upper, _LARGEST)), upper)
    claim = profiles[0].claim
    return Bound(lower, middle, upper, "gdp", status, detail, Quantity.MU, claim)


def _asked(owner: str, accountant: object, epsilon_max: float) -> float:
    """Return the end of a range; refuse it, and what is no accountant of individual losses."""
    if not isinstance(accountant, IndividualAccountant):
        raise DeclarationError(f"accountant={accountant!r} (expected an IndividualAccountant)")
    if (found := positive(owner, "epsilon_max", epsilon_max)) > MOST_LOG:
        raise DeclarationError(f"epsilon_max={epsilon_max!r} (expected at most {MOST_LOG:g})")
    return found


def _bisect(
    enough: Callable[[Floats], Mask], low: Floats | float, high: Floats | float
) -> tuple[Floats, Floats]:
    """Enclose where a monotone condition becomes true; by 0 and inf beyond the ends."""
    below, above = enough(np.asarray(low)), ~enough(np.asarray(high))
    for _ in range(60):
        middle = np.sqrt(low * high)
        true = enough(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return np.where(below, 0.0, low), np.where(above, math.inf, high)


def _solve(delta: Floats, epsilon: float) -> Floats:
    """Return the mu with delta_mu(epsilon) = delta, rounded down; 0 where delta is 0."""
    low, _ = _bisect(lambda mu: np.asarray(gdp_delta(mu, epsilon)[1] > delta), _SMALLEST, _LARGEST)
    return np.where(delta > 0, low, 0.0)


def _cover(left: Floats, right: Floats, start: float, end: float) -> Floats:
    """Return a mu whose profile is above the chord from (start, left) to (end, right)."""
    slope = np.minimum((right - left) / (math.exp(end) - math.exp(start)), 0.0)
    touching = special.ndtri(np.clip(-slope, 1e-300, 1.0))  # where both have the same slope

    def enough(mu: Floats) -> Mask:
        epsilon = np.clip(-mu * (touching + mu / 2), start, end)
        chord = left + slope * (np.exp(epsilon) - math.exp(start))
        return np.asarray(gdp_delta(mu, epsilon)[0] >= chord + _ROUNDING * left)

    return np.where(left > 0, _bisect(enough, _SMALLEST, _LARGEST)[1], 0.0)


def _by_divergences(epsilon: float | None, delta: float | None) -> float:
    """Return a mu whose Renyi divergences convert to (epsilon, delta), 0 if there is none."""
    epsilon, delta = target(epsilon, delta)
    order = gaussian_order(epsilon, delta)
    budget = max(renyi_budget(epsilon, delta, order), 0.0)
    return math.sqrt(2.0 * budget / order) * (1.0 - 1e-12)


@public
class ApproximateFilter(TakesTurns):
    """Individual filter for steps of any dominating pairs, approximate in the sense above.

    Attributes:
        accountant: the ledger of the steps taken.
        mu: the budget.
        epsilon_max: end of the range on which profiles are compared.
    """

    def __init__(
        self, accountant: IndividualAccountant, *, epsilon_max: float, mu: float | None = None,
        epsilon: float | None = None, delta: float | None = None,
    ) -> None:  # fmt: skip
        """Put a budget on the people of an accountant.

        Args:
            accountant: a fresh accountant; the filter takes over its ledger.
            epsilon_max: end of the range on which profiles are compared.
            mu: the budget; or
            epsilon: a target, together with
            delta: the mu whose Renyi divergences convert to (epsilon, delta).

        Raises:
            DeclarationError: no budget, two budgets, or one out of range.
        """
        self.epsilon_max = _asked("ApproximateFilter", accountant, epsilon_max)
        self.accountant, self.mu = accountant, gdp_budget(mu, epsilon, delta, _by_divergences)
        if not 0.0 < self.mu < math.inf:
            raise DeclarationError(f"mu={self.mu!r} is no budget (expected a finite number > 0)")

    @property
    def _facts(self) -> dict[str, Any]:
        return {"accountant": self.accountant, "mu": self.mu, "epsilon_max": self.epsilon_max}

    @in_turn
    def step(self, values: ArrayLike) -> Mask:
        """Offer a step and record it for those whose mu stays within the budget.

        Args:
            values: the parameter of the step for each person, shape (people,).

        Returns:
            Who takes part, shape (people,).

        Raises:
            DeclarationError: as for `IndividualAccountant.step`; nothing is recorded then.
        """
        family = self.accountant.family
        given = dense(family.parameter, values, self.accountant.people, family.untouched == 0.0)
        self.accountant.step(given)
        fits = np.zeros(given.size, np.bool_)
        try:
            fits = np.asarray(self.spent().upper <= self.mu)
        finally:  # nobody takes part if the answer fails
            self.accountant.take_back(given, np.flatnonzero(~fits))
        return fits

    def spent(self) -> Bound:
        """Return each person's mu so far, with its range and slack; see `gdp_upper_bound`."""
        return gdp_upper_bound(self.accountant, self.epsilon_max)

    def remaining(self) -> Floats:
        """Return what each person's mu may still add, sqrt(mu^2 - spent^2), rounded down.

        It steers a run; whether a step fits is decided by `step` alone.
        """
        spent = np.minimum(np.asarray(self.spent().upper), self.mu)
        return np.asarray(np.sqrt((self.mu - spent) * (self.mu + spent)) * (1.0 - 1e-15))


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> tuple[Floats, Floats]:
    """Bound delta(epsilon) of mu-GDP from below and above, mu > 0 and epsilon any real arrays.

    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (Balle and Wang 2018); with
    a, b = (epsilon/mu -+ mu/2)/sqrt 2 this is (erfc(a) - e^{-a^2} erfcx(b))/2, which neither
    overflows nor loses the tail. What it may lose to cancellation is counted and added.
    """
    m, e = np.broadcast_arrays(np.asarray(mu, np.float64), np.asarray(epsilon, np.float64))
    a, b = (e / m - m / 2) / math.sqrt(2.0), (e / m + m / 2) / math.sqrt(2.0)
    positive = a >= 0
    gauss = np.exp(-a * a)
    # for b < 0 (epsilon negative beyond mu^2/2) erfcx overflows where erfc does not
    second = np.where(b > 0, gauss * special.erfcx(np.maximum(b, 0)), 0.0)
    second = np.where(b > 0, second, np.exp(np.minimum(e, 0)) * special.erfc(b))
    first = np.where(positive, gauss * special.erfcx(np.maximum(a, 0)), special.erfc(a))
    # relative error: special functions 64 u, the argument a to 3 u max(|a|, |b|), squared
    scale = np.abs(a) + np.abs(b)
    error = U * (64 + 6 * np.abs(a) * scale + 6 * scale) * (first + second)
    value = first - second
    exact = e == 0.0  # no cancellation in erf
    value = np.where(exact, 2 * special.erf(m / (2 * math.sqrt(2.0))), value)
    error = np.where(exact, 64 * U * value, error) + _TINY
    return np.maximum((value - error) / 2, 0.0), np.minimum((value + error) / 2, 1.0)


def gdp_epsilon(mu: ArrayLike, delta: float) -> Floats:
    """Return, for mu >= 0, the smallest epsilon >= 0 with delta(epsilon) <= delta, rounded up."""
    m, (_, delta) = np.asarray(mu, np.float64), target(0.0, delta)
    safe = np.where(m > 0, m, 1.0)
    # delta(epsilon) <= P(L > epsilon) <= exp(-x^2/2) at epsilon = mu^2/2 + x mu
    most = safe * safe / 2 + 1.0001 * safe * np.sqrt(-2 * np.log(delta))
    _, high = _bisect(lambda e: np.asarray(gdp_delta(safe, e)[1] <= delta), 1e-12 * most, most)
    return np.where((m > 0) & (gdp_delta(safe, 0.0)[1] > delta), high, 0.0)
