"""Individual Renyi filter (Feldman and Zrnic 2021), the baseline the GDP filter is compared with.

At one order lambda > 1 the Renyi divergences of the steps add up, whatever is chosen adaptively:
sum_j rho_j <= R almost surely makes the run (lambda, R)-RDP. The budget R is what the conversion

    delta = exp((lambda - 1)(R - epsilon)) / lambda * (1 - 1/lambda)^{lambda - 1}

(Canonne, Kamath and Steinke 2020; equation C.3 of Koskela, Tobaben and Honkela 2023) turns into the
target. Gaussian steps have rho = lambda mu^2 / 2; both the filter and the conversion lose
against the GDP filter, whose budget is exact for them.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from mechc.errors import DeclarationError
from mechc.individual import state
from mechc.individual.account import Account, PathLike, Update, as_floats
from mechc.individual.fixed import Floats, Mask, make_budget
from mechc.individual.gaussian import check_target
from mechc.individual.turns import TakesTurns, in_turn

_KIND = "renyi-filter"
_OUTWARD = 2.0**-48  # relative allowance for a handful of roundings


class RenyiFilter(TakesTurns):
    """Individual Renyi filter of one order.

    Attributes:
        order: the order lambda.
        steps: how many steps have been offered.
    """

    def __init__(
        self,
        *,
        people: int,
        epsilon: float | None = None,
        delta: float | None = None,
        order: float | None = None,
        budget: float | None = None,
        storage: PathLike | None = None,
    ) -> None:
        """Open a filter with nothing spent.

        Args:
            people: population size.
            epsilon: target, together with
            delta: in (0, 1); the budget then follows from the conversion.
            order: lambda > 1; by default the one that admits most Gaussian steps.
            budget: R itself, instead of a target; needs the order.
            storage: path of a new file to map the state from.

        Raises:
            DeclarationError: arguments missing, contradictory or out of range.
        """
        order, budget = _resolve(epsilon, delta, order, budget)
        self.order = order
        self._account = Account(people, make_budget("budget", budget, squared=False), storage)
        self.steps = 0

    @property
    def people(self) -> int:
        """Population size."""
        return self._account.people

    @property
    def budget(self) -> float:
        """The budget R: the run is (order, R)-RDP for every person."""
        return self._account.budget.value

    @in_turn
    def step(self, rho: Update, *, out: Mask | None = None) -> Mask:
        """Offer a step and charge those it fits.

        Args:
            rho: Renyi divergence of the step at `order` for each person, >= 0, in the worse of
                the two directions: an array of shape (people,), or (indices, values).
            out: optional boolean array that receives the mask.

        Returns:
            Who takes part.

        Raises:
            DeclarationError: as for `GDPFilter.step`.
        """
        mask = self._account.charge("rho", rho, out)
        self.steps += 1
        return mask

    @in_turn
    def spent(self, rows: slice = slice(None)) -> Floats:
        """Return each person's Renyi divergence so far, rounded up.

        Args:
            rows: the people asked for.
        """
        return self._account.spent(rows)

    @in_turn
    def save(self, path: PathLike) -> None:
        """Write the state atomically, as `GDPFilter.save` does.

        Args:
            path: the file to create or replace.
        """
        self._account.save(path, _KIND, {"order": self.order, "steps": self.steps})

    @classmethod
    def load(cls, path: PathLike, *, storage: PathLike | None = None) -> Self:
        """Return the filter that was saved.

        Args:
            path: a file written by `save`.
            storage: as for the constructor.

        Raises:
            StateError: the file is not a filter's, damaged, or of another version.
        """
        meta = state.metadata(path, _KIND)
        loaded = cls(
            people=meta["people"], order=meta["order"], budget=meta["budget"], storage=storage
        )
        loaded.steps = loaded._account.restore(path, _KIND)["steps"]
        return loaded


def gaussian_renyi(mu: ArrayLike, order: float) -> Floats:
    """Return the Renyi divergence of a mu-GDP Gaussian step, order mu^2 / 2, rounded up.

    Args:
        mu: array, >= 0.
        order: lambda.
    """
    m = as_floats(np.asarray(mu))
    return np.asarray(m * m * (order / 2) * (1 + _OUTWARD))


def renyi_budget(epsilon: float, delta: float, order: float) -> float:
    """Return the largest R such that (order, R)-RDP implies (epsilon, delta)-DP, rounded down.

    Args:
        epsilon: >= 0.
        delta: in (0, 1).
        order: lambda > 1.

    Raises:
        DeclarationError: an argument is out of range.
    """
    check_target(epsilon, delta)
    if not 1.0 < order < np.inf:
        raise DeclarationError(f"order={order!r} (expected a finite number > 1)")
    t = order - 1
    terms = np.array([epsilon, np.log(delta) / t, np.log(order) / t, -np.log1p(-1 / order)])
    return float(terms.sum() - _OUTWARD * np.abs(terms).sum())


def gaussian_order(epsilon: float, delta: float) -> float:
    """Return the order whose budget admits most Gaussian steps: the largest 2 R(lambda)/lambda.

    Args:
        epsilon: >= 0.
        delta: in (0, 1).
    """

    def loss(log_t: float) -> float:
        order = 1 + float(np.exp(log_t))
        return -2 * renyi_budget(epsilon, delta, order) / order

    grid = np.linspace(-5, 15, 400)
    best = int(np.argmin([loss(x) for x in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    return float(1 + np.exp(optimize.minimize_scalar(loss, bounds=around, method="bounded").x))


def _resolve(
    epsilon: float | None, delta: float | None, order: float | None, budget: float | None
) -> tuple[float, float]:
    """Return (order, R) from one of the two ways to say what is allowed."""
    if budget is not None:
        if epsilon is not None or delta is not None or order is None:
            raise DeclarationError("a budget needs an order and excludes epsilon and delta")
        return order, budget
    if epsilon is None or delta is None:
        raise DeclarationError(f"epsilon={epsilon!r}, delta={delta!r} (expected both)")
    order = gaussian_order(epsilon, delta) if order is None else order
    return order, renyi_budget(epsilon, delta, order)
