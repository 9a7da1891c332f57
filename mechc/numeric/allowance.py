"""A cap on the work of one query, counted where the work is done.

What is counted are terms of sums, values of densities, points of transforms, not seconds, and what
is kept for all questions costs each the same: a question gets the same answer on a fast machine and
on a slow one, whatever was asked before. One unit is
about the cost of one exponential, ten nanoseconds; nothing is counted outside a query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from math import inf

from mechc.errors import UnsupportedError

MAX_WORK = 1e9  # units that a query may take unless it is told otherwise: some ten seconds
DENSITY = 8.0  # units of one value of a density or a loss
SPARE = 0.1  # share of the work allowed that is kept for the bounds that are left then


class OutOfWorkError(Exception):
    """The work is used up; not a `MechcError`, so that nobody tries another way on the road out."""

    def __init__(self, max_work: float) -> None:
        """Say what was allowed and how to allow more."""
        super().__init__(f"max_work={max_work:g} is used up; a larger max_work= allows more")


class Allowance:
    """What one query may still spend.

    Attributes:
        max_work: units given.
        part: share of them that the method being asked may take.
        left: units left before the query has to come to an end.
        spare: units kept for the bounds that it ends with.
    """

    __slots__ = ("left", "max_work", "part", "spare")

    def __init__(self, max_work: float) -> None:
        """Begin to count."""
        self.max_work = self.left = max_work
        self.part, self.spare = 1.0, SPARE * max_work


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def spend(units: float) -> None:
    """Count work that is about to be done.

    Raises:
        OutOfWorkError: the query that is being answered may not take so much.
    """
    allowance = _ALLOWANCE.get()
    if allowance is not None:
        allowance.left -= units
        if allowance.left < 0.0:
            allowance.left = 0.0  # what is not done costs nothing that `share` has kept
            raise OutOfWorkError(allowance.max_work)


def allowed() -> float:
    """Return the work that the method being asked was given, inf outside any query.

    Not what is left of it, which depends on what is known from questions before.
    """
    allowance = _ALLOWANCE.get()
    return inf if allowance is None else allowance.part * allowance.max_work


class limited:  # a word for what the body of a `with` may take
    """Run the body with so much work; within another query, with what that has left.

    Gives what is left of it.

    Raises:
        UnsupportedError: it did not suffice.
    """

    __slots__ = ("max_work", "method", "token")

    def __init__(self, max_work: float, method: str) -> None:
        """Take the units, and the method for messages."""
        self.max_work, self.method = max_work, method
        self.token: Token[Allowance | None] | None = None

    def __enter__(self) -> Allowance:
        """Begin."""
        allowance = _ALLOWANCE.get()
        if allowance is None:
            allowance = Allowance(self.max_work)
            self.token = _ALLOWANCE.set(allowance)
        return allowance

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End."""
        if self.token is None:
            return
        _ALLOWANCE.reset(self.token)
        if isinstance(error, OutOfWorkError):
            raise UnsupportedError(
                f"{self.method}: {error}; delta and epsilon by method='auto' fall back on wider "
                "bounds"
            ) from error


class share:
    """Run the body with a part of what is left; what it does not use is left afterwards.

    Raises:
        OutOfWorkError: the part is used up.
    """

    __slots__ = ("kept", "part", "whole")

    def __init__(self, part: float) -> None:
        """Take the part."""
        self.part = part

    def __enter__(self) -> None:
        """Set the rest aside."""
        allowance = _ALLOWANCE.get()
        if allowance is not None:
            self.kept, self.whole = (1.0 - self.part) * max(allowance.left, 0.0), allowance.part
            allowance.left, allowance.part = allowance.left - self.kept, self.part * self.whole

    def __exit__(self, *error: object) -> None:
        """Give it back."""
        allowance = _ALLOWANCE.get()
        if allowance is not None:
            allowance.left, allowance.part = allowance.left + self.kept, self.whole


class apart:
    """Run the body with an allowance of its own: it makes what is kept for all questions.

    So what it finds does not depend on which question came first.

    Raises:
        OutOfWorkError: that is used up.
    """

    __slots__ = ("max_work", "token")

    def __init__(self, max_work: float = MAX_WORK) -> None:
        """Take the units."""
        self.max_work = max_work

    def __enter__(self) -> None:
        """Begin."""
        self.token = _ALLOWANCE.set(Allowance(self.max_work))

    def __exit__(self, *error: object) -> None:
        """End."""
        _ALLOWANCE.reset(self.token)


@contextmanager
def spared() -> Iterator[None]:
    """Run the body, which bounds what could not be computed, with what was kept for it, once.

    Raises:
        OutOfWorkError: that is used up as well.
    """
    allowance = _ALLOWANCE.get()
    if allowance is None:
        yield
        return
    allowance.left, allowance.spare = allowance.spare, 0.0
    try:
        yield
    finally:
        allowance.spare, allowance.left = max(allowance.left, 0.0), -1.0
