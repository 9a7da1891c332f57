"""Filters: who may still take part, decided before each step and never wrong towards yes.

Koskela, Tobaben and Honkela (2023): if sum_j mu_j^2 <= B^2 almost surely, with mu_j the GDP
parameter of step j given everything released so far, the whole adaptive run is B-GDP (theorem 2).
Algorithm 1 applies this person by person under the remove relation, algorithm 2 to the worst case
over all people. A step that would cross the budget is not taken; by algorithm 1 it counts as zero
for that person, who may take part again in a later step that fits.

Individual budgets depend on the data of the person they belong to: `spent`, `remaining` and the
masks are for the run, not for publication.
"""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from mechc.errors import DeclarationError
from mechc.individual import state
from mechc.individual.account import Account, PathLike, Update, number
from mechc.individual.fixed import Floats, Mask, make_budget
from mechc.individual.gaussian import gdp_mu
from mechc.individual.turns import TakesTurns, in_turn

_KIND = "gdp-filter"


class GDPFilter(TakesTurns):
    """Individual GDP filter (algorithm 1): one budget a person, all of the same size.

    Attributes:
        steps: how many steps have been offered.
    """

    def __init__(
        self,
        *,
        people: int,
        mu: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        storage: PathLike | None = None,
    ) -> None:
        """Open a filter with nothing spent.

        Args:
            people: population size.
            mu: the budget B in [1e-150, 1e150]; or
            epsilon: >= 0, together with
            delta: in (0, 1): the largest mu that is (epsilon, delta)-DP, rounded down.
            storage: path of a new file to map the state from when it should not live in memory.
                It is working space; `save` writes what survives.

        Raises:
            DeclarationError: no budget, two budgets, or one out of range.
        """
        budget = make_budget("mu", gdp_budget(mu, epsilon, delta), squared=True)
        self._account = Account(people, budget, storage)
        self.steps = 0

    @property
    def people(self) -> int:
        """Population size."""
        return self._account.people

    @property
    def mu(self) -> float:
        """The budget: the run is mu-GDP for every person, whatever is chosen adaptively."""
        return self._account.budget.value

    @in_turn
    def step(self, mu: Update, *, out: Mask | None = None) -> Mask:
        """Offer a step and charge those it fits.

        Args:
            mu: GDP parameter of the step for each person given the past, >= 0: an array of shape
                (people,), or (indices, values) when only some people are touched. inf never fits.
            out: optional boolean array that receives the mask.

        Returns:
            Who takes part: shape (people,), or that of the indices. The others must contribute
            nothing to the step.

        Raises:
            DeclarationError: a negative or nan value, a wrong shape, an index out of range or
                given twice. Nothing has been charged then.
        """
        mask = self._account.charge("mu", mu, out)
        self.steps += 1
        return mask

    @in_turn
    def exhaust(self, mu: ArrayLike, *, amplify: bool = False) -> Floats:
        """Offer a last step, scaled so that budgets are used up (remark 3, squared sum).

        Args:
            mu: GDP parameter of the unscaled step, shape (people,), >= 0.
            amplify: also scale up those for whom the step would fit.

        Returns:
            The factor by which each contribution is to be multiplied, at most 1 without
            `amplify`. Rounded down: factor * mu, taken exactly, is within the budget. Compute
            the product in float64 or round it towards zero.

        Raises:
            DeclarationError: as for `step`.
        """
        factor = self._account.exhaust("mu", mu, amplify)
        self.steps += 1
        return factor

    @in_turn
    def spent(self, rows: slice = slice(None)) -> Floats:
        """Return each person's mu so far, sqrt(sum mu_j^2), rounded up.

        Args:
            rows: the people asked for.
        """
        return self._account.spent(rows)

    @in_turn
    def remaining(self, rows: slice = slice(None)) -> Floats:
        """Return the largest mu that still fits each person, rounded down.

        Args:
            rows: the people asked for.
        """
        return self._account.remaining(rows)

    @in_turn
    def save(self, path: PathLike) -> None:
        """Write the state atomically.

        Save after `step` and before the step's result is released: a run resumed from an older
        state would forget what has been released since.

        Args:
            path: the file to create or replace.
        """
        self._account.save(path, _KIND, {"steps": self.steps})

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
        loaded = cls(people=meta["people"], mu=meta["budget"], storage=storage)
        loaded.restore(path)
        return loaded

    @in_turn
    def restore(self, path: PathLike) -> None:
        """Replace this filter's state by a saved one of the same population and budget.

        Args:
            path: a file written by `save`.

        Raises:
            StateError: as for `load`, or another population or budget. The state is unchanged.
        """
        self.steps = self._account.restore(path, _KIND)["steps"]


class SharedGDPFilter(TakesTurns):
    """GDP filter for the worst case over all people (algorithm 2): one total, stops for good.

    Attributes:
        stopped: whether a step has been refused.
    """

    def __init__(
        self, *, mu: float | None = None, epsilon: float | None = None, delta: float | None = None
    ) -> None:
        """Open a filter with nothing spent.

        Args:
            mu: the budget, or
            epsilon: together with
            delta: as for `GDPFilter`.
        """
        budget = make_budget("mu", gdp_budget(mu, epsilon, delta), squared=True)
        self._account = Account(1, budget)
        self.stopped = False

    @property
    def mu(self) -> float:
        """The budget."""
        return self._account.budget.value

    @property
    def spent(self) -> float:
        """The mu used so far, rounded up."""
        return float(self._account.spent()[0])

    @in_turn
    def step(self, mu: float) -> bool:
        """Offer a step; return whether it may be taken.

        Args:
            mu: a bound on the GDP parameter of the step for every person, given the past.

        Raises:
            DeclarationError: mu is negative or nan.
        """
        if not self.stopped:
            self.stopped = not self._account.charge("mu", [mu])[0]
        return not self.stopped


def gdp_budget(mu: float | None, epsilon: float | None, delta: float | None) -> float:
    """Return the budget as mu, whichever way it was given.

    Args:
        mu: the budget itself, or None.
        epsilon: with delta, or None.
        delta: with epsilon, or None.

    Raises:
        DeclarationError: not exactly one of the two forms was given.
    """
    if (mu is None) == (epsilon is None and delta is None):
        raise DeclarationError(
            f"budget mu={mu!r}, epsilon={epsilon!r}, delta={delta!r} (expected either mu, or"
            " epsilon and delta)"
        )
    if mu is not None:
        return number("mu", mu)
    if epsilon is None or delta is None:
        raise DeclarationError(f"epsilon={epsilon!r}, delta={delta!r} (expected both)")
    return gdp_mu(number("epsilon", epsilon), number("delta", delta))
