"""Odometer: what has been released so far is how private (section C.5 of the 2023 paper).

The budget is cut into increments. Steps are charged to a filter whose budget is the current
increment; a step that does not fit closes the segment and opens the next one. At that moment the
outputs of all closed segments may be released, and they are B_m-GDP with
B_m^2 = Delta_1^2 + ... + Delta_m^2, although the number of steps in each segment was adaptive.

The odometer follows the worst case over people: the times at which a personal odometer released
something would themselves depend on that person's data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self

from mechc.errors import DeclarationError
from mechc.individual.budget import PathLike
from mechc.individual.filters import SharedGDPFilter
from mechc.individual.storage import TakesTurns, in_turn, metadata

_KIND = "gdp-odometer"


class GDPOdometer(TakesTurns):
    """GDP odometer with a fixed sequence of increments.

    Attributes:
        segment: number of closed segments, m.
    """

    def __init__(self, increments: float | Sequence[float]) -> None:
        """Start at zero.

        Args:
            increments: Delta_1, Delta_2, ... as GDP parameters > 0; the last one repeats, and one
                number stands for all.

        Raises:
            DeclarationError: no increment, or one out of range.
        """
        given = list(increments) if isinstance(increments, Iterable) else [increments]
        if not given:
            raise DeclarationError("increments is empty (expected at least one number > 0)")
        filters = [SharedGDPFilter(mu=d) for d in given]
        self._increments = [f.mu for f in filters]
        self._squares = [0.0]
        self._current = filters[0]

    @property
    def segment(self) -> int:
        """Number of closed segments."""
        return len(self._squares) - 1

    @property
    def increment(self) -> float:
        """The increment of the open segment."""
        return self._current.mu

    @property
    def released(self) -> float:
        """GDP parameter of the outputs of all closed segments, rounded up."""
        return _root(self._squares)

    @property
    def bound(self) -> float:
        """GDP parameter of everything computed so far, the open segment included, rounded up."""
        return _root([*self._squares, self.increment**2])

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
        if self._current.step(mu):
            return False
        following = SharedGDPFilter(mu=self._increment_of(self.segment + 1))
        if not following.step(mu):
            self._current.stopped = False
            raise DeclarationError(
                f"mu={mu!r} exceeds the increment {following.mu!r} of the next segment"
            )
        self._squares.append(self.increment**2)
        self._current = following
        return True

    @property
    def remaining(self) -> float:
        """The largest mu that still fits the open segment, rounded down."""
        return self._current.remaining

    @in_turn
    def save(self, path: PathLike) -> None:
        """Write the state atomically; when to do so says `GDPFilter.save`.

        Args:
            path: the file to create or replace.
        """
        facts = {"increments": self._increments, "squares": self._squares}
        self._current.keep(path, _KIND, facts)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Return the odometer that was saved.

        Args:
            path: a file written by `save`.

        Raises:
            StateError: the file is not an odometer's, damaged, or of another version.
        """
        facts = metadata(path, _KIND)
        loaded = cls(facts["increments"])
        loaded._squares = facts["squares"]
        loaded._current = SharedGDPFilter(mu=loaded._increment_of(loaded.segment))
        loaded._current.recall(path, _KIND)
        return loaded

    def _increment_of(self, segment: int) -> float:
        return self._increments[min(segment, len(self._increments) - 1)]


def _root(squares: list[float]) -> float:
    # fsum and sqrt round correctly, each square is off by half a unit: two units cover all three
    root = math.sqrt(math.fsum(squares))
    return math.nextafter(math.nextafter(root, math.inf), math.inf) if root else 0.0
