"""Filters: who may still take part, decided before each step and never wrong towards yes.

Koskela, Tobaben and Honkela (2023): if sum_j mu_j^2 <= B^2 almost surely, with mu_j the GDP
parameter of step j given everything released so far, the whole adaptive run is B-GDP (theorem 2).
Algorithm 1 applies this person by person under the remove relation, algorithm 2 to the worst case
over all people. A step that would cross the budget is not taken; by algorithm 1 it counts as zero
for that person, who may take part again in a later step that fits.

Individual Renyi filter (Feldman and Zrnic 2021), the baseline the GDP filter is compared with.

At one order lambda > 1 the Renyi divergences of the steps add up, whatever is chosen adaptively:
sum_j rho_j <= R almost surely makes the run (lambda, R)-RDP. The budget R is what the conversion

    delta = exp((lambda - 1)(R - epsilon)) / lambda * (1 - 1/lambda)^{lambda - 1}

(Canonne, Kamath and Steinke 2020; equation C.3 of Koskela, Tobaben and Honkela 2023) turns into the
target. Gaussian steps have rho = lambda mu^2 / 2; both the filter and the conversion lose
against the GDP filter, whose budget is exact for them.

Odometer (section C.5 of the 2023 paper): steps are charged to a filter whose budget is the current
increment; a step that does not fit closes the segment and opens the next one. The outputs of all
closed segments are then B_m-GDP with B_m^2 = Delta_1^2 + ... + Delta_m^2, although the number of
steps in each was adaptive. It follows the worst case over people: the times at which a personal
odometer released something would themselves depend on that person's data.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.composition.queries import divergences
from mechc.errors import DeclarationError, listed, public
from mechc.individual.budget import (
    LARGEST,
    SMALLEST,
    Budget,
    Mask,
    Update,
    Words,
    allocate,
    as_floats,
    as_sums,
    charge,
    checked,
    dense,
    exhaust,
    for_rows,
    integer,
    make_budget,
    mask_for,
    number,
)
from mechc.individual.storage import PathLike, TakesTurns, in_turn, read, write
from mechc.numeric.roots import lowest
from mechc.protocol import Floats

_OUTWARD = 2.0**-48  # relative allowance for a handful of roundings


@public
class _Saved(TakesTurns):
    """Has exact totals that go on from a file.

    What it was made for are the arguments that make the like of it, with nothing spent.
    """

    _kind: ClassVar[str]
    _moves: ClassVar[tuple[str, ...]] = ("steps",)  # attributes that change besides the totals

    @property
    @abstractmethod
    def _charged(self) -> _Filter:
        """Whose totals are saved."""

    @in_turn
    def save(self, path: PathLike) -> None:
        """Write the state atomically.

        Save after `step` and before the step's result is released: a run resumed from an older
        state would forget what has been released since.

        Args:
            path: the file to create or replace.
        """
        facts = {**self._facts, **{name: vars(self)[name] for name in self._moves}}
        write(path, self._kind, facts, {"totals": self._charged.totals})

    @classmethod
    def load(cls, path: PathLike, *, storage: PathLike | None = None) -> Self:
        """Return what was saved.

        Args:
            path: a file written by `save`.
            storage: as for the constructor; of no use where there is but one total.

        Raises:
            StateError: the file is of another kind, damaged, or of another version.
        """
        meta = read(path, cls._kind).meta
        facts = {name: value for name, value in meta.items() if name not in cls._moves}
        loaded = cls(**facts, **({"storage": storage} if issubclass(cls, _Filter) else {}))
        loaded.restore(path)
        return loaded

    @in_turn
    def restore(self, path: PathLike) -> None:
        """Replace this state by a saved one of the same population and budget.

        Args:
            path: a file written by `save`.

        Raises:
            StateError: as for `load`, or another population or budget. The state is unchanged.
        """
        state = read(path, self._kind)
        state.expect(self._facts)
        vars(self).update({name: state.meta[name] for name in self._moves})
        state.fill(self._charged.totals)


@public
class _Filter(_Saved):
    """One exact total a person against one budget, in memory or memory-mapped.

    Attributes:
        people: population size.
        steps: how many steps have been offered.
        totals: what everybody has used, uint64[people, 2], see `budget`.
    """

    def _open(self, people: int, budget: Budget, file: PathLike | None = None) -> None:
        """Begin with nothing spent."""
        self.people, self.steps, self._budget = integer("people", people, 1), 0, budget
        self.totals = allocate((self.people, 2), np.dtype(np.uint64), file)

    def _some(self, rows: Any) -> NDArray[Any]:
        """The totals of some people."""
        try:
            totals: NDArray[Any] = self.totals[rows]
        except (IndexError, TypeError):
            totals = self.totals[0]
        if totals.ndim != 2:
            raise DeclarationError(f"rows={rows!r} (expected a slice of {self.people} people)")
        return totals

    @in_turn
    def spent(self, rows: slice = slice(None)) -> Floats:
        """Return what each person has used so far, rounded up.

        Args:
            rows: the people asked for.
        """
        totals = self._some(rows)
        return as_sums(self._budget, totals[:, 0], totals[:, 1], up=True)

    @in_turn
    def remaining(self, rows: slice = slice(None)) -> Floats:
        """Return the largest step that still fits each person, rounded down.

        Args:
            rows: the people asked for.
        """
        totals, budget = self._some(rows), self._budget
        borrow = (budget.low < totals[:, 1]).astype(np.uint64)
        left = budget.high - totals[:, 0] - borrow, budget.low - totals[:, 1]
        return as_sums(budget, *left, up=False)

    @property
    def _charged(self) -> _Filter:
        return self

    def _charge(self, name: str, step: Update, out: Mask | None) -> Mask:
        """Charge a step to everyone it fits; return who that is."""
        people, values = checked(name, step, self.people)
        mask = mask_for(values.size, out)
        if people is None:
            for_rows(self.people, lambda s: self._add(self.totals[s], values[s], mask[s]))
        else:
            rows = self.totals[people]
            self._add(rows, values, mask)
            self.totals[people] = rows
        self.steps += 1
        return mask

    def _add(self, totals: Words, values: Floats, mask: Mask) -> None:
        b = self._budget
        charge(totals, values, b.value, b.scale, b.high, b.low, b.squared, mask)


@public
class GDPFilter(_Filter):
    """Individual GDP filter (algorithm 1): one budget a person, all of the same size."""

    _kind = "gdp-filter"

    def __init__(
        self, *, people: int, mu: float | None = None, epsilon: float | None = None,
        delta: float | None = None, storage: PathLike | None = None,
    ) -> None:  # fmt: skip
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
        self._open(people, budget, storage)

    @property
    def mu(self) -> float:
        """The budget: the run is mu-GDP for every person, whatever is chosen adaptively."""
        return self._budget.value

    @in_turn
    def step(self, mu: Update, *, out: Mask | None = None) -> Mask:
        """Offer a step and charge those it fits.

        Args:
            mu: GDP parameter of the step for each person given the past, >= 0: an array of shape
                (people,), or (indices, values), or (mask, values), when only some people are
                touched. inf never fits.
            out: optional boolean array that receives the mask.

        Returns:
            Who takes part: shape (people,), or that of the indices. The others must contribute
            nothing to the step.

        Raises:
            DeclarationError: a negative or nan value, a wrong shape, an index out of range or
                given twice. Nothing has been charged then.
        """
        return self._charge("mu", mu, out)

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
        values, budget = dense("mu", mu, self.people), self._budget
        factor = np.empty(self.people)

        def scale(part: slice) -> None:
            mine, totals = values[part], self.totals[part]
            keep = mine == 0.0
            if not amplify:
                self._add(totals, mine, keep)
            exhaust(totals, mine, budget.scale, budget.high, budget.low, keep, factor[part])

        for_rows(self.people, scale)
        self.steps += 1
        return factor

    @property
    def _facts(self) -> dict[str, Any]:
        return {"people": self.people, "mu": self.mu}


@public
class RenyiFilter(_Filter):
    """Individual Renyi filter of one order.

    Attributes:
        order: the order lambda.
    """

    _kind = "renyi-filter"

    def __init__(
        self, *, people: int, epsilon: float | None = None, delta: float | None = None,
        order: float | None = None, budget: float | None = None, storage: PathLike | None = None,
    ) -> None:  # fmt: skip
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
        if budget is not None:
            if epsilon is not None or delta is not None or order is None:
                raise DeclarationError("a budget needs an order and excludes epsilon and delta")
        else:
            epsilon, delta = target(epsilon, delta)
            order = gaussian_order(epsilon, delta) if order is None else order
            budget = budget_for(epsilon, delta, renyi_budget(epsilon, delta, check_order(order)))
        self.order = check_order(order)
        self._open(people, make_budget("budget", budget, squared=False), storage)

    @property
    def budget(self) -> float:
        """The budget R: the run is (order, R)-RDP for every person."""
        return self._budget.value

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
        return self._charge("rho", rho, out)

    @property
    def _facts(self) -> dict[str, Any]:
        return {"people": self.people, "order": self.order, "budget": self.budget}


@public
class SharedGDPFilter(_Saved):
    """GDP filter for the worst case over all people (algorithm 2): one total, stops for good.

    Attributes:
        stopped: whether a step has been refused.
    """

    _kind, _moves = "shared-gdp-filter", ("stopped",)

    def __init__(
        self, *, mu: float | None = None, epsilon: float | None = None, delta: float | None = None
    ) -> None:
        """Open a filter with nothing spent.

        Args:
            mu: the budget, or
            epsilon: together with
            delta: as for `GDPFilter`.
        """
        self._one = GDPFilter(people=1, mu=mu, epsilon=epsilon, delta=delta)
        self.stopped = False

    @property
    def mu(self) -> float:
        """The budget."""
        return self._one.mu

    def spent(self) -> float:
        """Return the mu used so far, rounded up."""
        return float(self._one.spent()[0])

    def remaining(self) -> float:
        """Return the largest mu that still fits, 0 once the filter has stopped."""
        return 0.0 if self.stopped else float(self._one.remaining()[0])

    @in_turn
    def step(self, mu: float) -> bool:
        """Offer a step; return whether it may be taken.

        Args:
            mu: a bound on the GDP parameter of the step for every person, given the past.

        Raises:
            DeclarationError: mu is negative or nan.
        """
        if not self.stopped:
            self.stopped = not self._one.step([mu])[0]
        return not self.stopped

    @property
    def _facts(self) -> dict[str, Any]:
        return {"mu": self.mu}

    @property
    def _charged(self) -> _Filter:
        return self._one


@public
class GDPOdometer(_Saved):
    """GDP odometer with a fixed sequence of increments."""

    _kind, _moves = "gdp-odometer", ("_squares",)

    def __init__(self, increments: float | Sequence[float]) -> None:
        """Start at zero.

        Args:
            increments: Delta_1, Delta_2, ... as GDP parameters > 0; the last one repeats, and one
                number stands for all.

        Raises:
            DeclarationError: no increment, or one out of range.
        """
        several = [increments] if isinstance(increments, Real) else increments
        given = listed("increments", several, "numbers > 0")
        if not given:
            raise DeclarationError("increments is empty (expected at least one number > 0)")
        self._filters = [GDPFilter(people=1, mu=d) for d in given]
        self._squares = [0.0]

    @property
    def segment(self) -> int:
        """Number of closed segments, m."""
        return len(self._squares) - 1

    @property
    def increment(self) -> float:
        """The increment of the open segment."""
        return self._charged.mu

    @property
    def released(self) -> float:
        """GDP parameter of the outputs of all closed segments, rounded up."""
        return _root(self._squares)

    @property
    def bound(self) -> float:
        """GDP parameter of everything computed so far, the open segment included, rounded up."""
        return _root([*self._squares, self.increment**2])

    def remaining(self) -> float:
        """Return the largest mu that still fits the open segment, rounded down."""
        return float(self._charged.remaining()[0])

    @in_turn
    def step(self, mu: float) -> bool:
        """Charge a step; return whether it closed the segment before it.

        Args:
            mu: a bound on the GDP parameter of the step for every person, given the past.

        Returns:
            True when the outputs before this step may be released as `released`-GDP. The step
            itself belongs to the segment that is open afterwards.

        Raises:
            DeclarationError: mu is negative, nan, or larger than the next increment; the state is
                unchanged.
        """
        current = self._charged
        if current.step([mu])[0]:
            return False
        following = self._of_segment(self.segment + 1)
        before = following.totals.copy()
        following.totals[:] = 0
        if not following.step([mu])[0]:
            following.totals[:] = before
            raise DeclarationError(
                f"mu={mu!r} exceeds the increment {following.mu!r} of the next segment"
            )
        self._squares.append(current.mu**2)
        return True

    @property
    def _facts(self) -> dict[str, Any]:
        return {"increments": [each.mu for each in self._filters]}

    @property
    def _charged(self) -> GDPFilter:
        return self._of_segment(self.segment)

    def _of_segment(self, number: int) -> GDPFilter:
        """Return the filter of a segment; segments that repeat an increment share one."""
        return self._filters[min(number, len(self._filters) - 1)]


def _root(squares: list[float]) -> float:
    # fsum and sqrt round correctly, each square is off by half a unit: two units cover all three
    root = math.sqrt(math.fsum(squares))
    return math.nextafter(math.nextafter(root, math.inf), math.inf) if root else 0.0


def gdp_mu(epsilon: float | None, delta: float | None) -> float:
    """Return the largest mu that is (epsilon, delta)-DP, rounded down, for a target in range."""
    epsilon, delta = target(epsilon, delta)
    return divergences.gdp_mu(epsilon, math.nextafter(math.log(delta), -math.inf), "lower")


def gdp_budget(
    mu: float | None, epsilon: float | None, delta: float | None,
    convert: Callable[[float | None, float | None], float] = gdp_mu,
) -> float:  # fmt: skip
    """Return the budget as mu, given itself or as what `convert` makes of (epsilon, delta)."""
    if (mu is None) == (epsilon is None and delta is None):
        raise DeclarationError(
            f"budget mu={mu!r}, epsilon={epsilon!r}, delta={delta!r} (expected either mu, or"
            " epsilon and delta)"
        )
    if mu is not None:
        return number("mu", mu)
    return budget_for(epsilon, delta, convert(epsilon, delta))


def budget_for(epsilon: float | None, delta: float | None, found: float) -> float:
    """Return the budget found for a target, which is refused where that can be none."""
    if not SMALLEST <= found <= LARGEST:
        raise DeclarationError(
            f"epsilon={epsilon!r}, delta={delta!r}: no budget is known to meet this target"
            " (expected one that a budget in [1e-150, 1e150] meets)"
        )
    return found


def target(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    """Return both numbers of a target, refused where no filter can work with it."""
    if epsilon is None or delta is None:
        raise DeclarationError(f"epsilon={epsilon!r}, delta={delta!r} (expected both)")
    epsilon, delta = number("epsilon", epsilon), number("delta", delta)
    if not 0.0 <= epsilon < np.inf:
        raise DeclarationError(f"epsilon={epsilon!r} (expected a finite number >= 0)")
    if not 0.0 < delta < 1.0:
        raise DeclarationError(f"delta={delta!r} (expected 0 < delta < 1)")
    return epsilon, delta


def gaussian_renyi(mu: ArrayLike, order: float) -> Floats:
    """Return the Renyi divergence of mu-GDP Gaussian steps, order mu^2 / 2, rounded up."""
    m = as_floats(np.asarray(mu))
    rho = m * (order / 2) * m * (1 + _OUTWARD)
    return np.asarray(np.where(m == 0.0, rho, np.nextafter(rho, np.inf)))  # it may underflow


def check_order(order: float) -> float:
    """Return an order, refused unless it is finite and > 1."""
    if not 1.0 < (order := number("order", order)) < np.inf:
        raise DeclarationError(f"order={order!r} (expected a finite number > 1)")
    return order


def renyi_budget(epsilon: float, delta: float, order: float) -> float:
    """Return the largest R such that (order, R)-RDP implies (epsilon, delta)-DP, rounded down."""
    epsilon, delta = target(epsilon, delta)
    t = check_order(order) - 1
    terms = np.array([epsilon, np.log(delta) / t, np.log(order) / t, np.log1p(1 / t)])
    return float(terms.sum() - _OUTWARD * np.abs(terms).sum())


def gaussian_order(epsilon: float, delta: float) -> float:
    """Return the order whose budget admits most Gaussian steps: the largest 2 R(lambda)/lambda."""

    def loss(log_t: float) -> float:
        order = 1 + float(np.exp(log_t))
        return -2 * renyi_budget(epsilon, delta, order) / order

    grid = np.linspace(-5, 15, 400)
    best = int(np.argmin([loss(x) for x in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    return float(1 + np.exp(lowest(loss, *around)[0]))
