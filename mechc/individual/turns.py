"""Objects that several threads may use at once: calls on the same object wait for each other.

A filter that two threads charge at the same moment must not lose a charge, and an accountant must
not answer from half a step. The work inside a call is divided among threads where that pays, so
little is lost by taking turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Self, TypeVar


class TakesTurns:
    """Has a lock of its own, which copies and pickles leave behind."""

    _turn: Any

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the lock before anything else."""
        self = super().__new__(cls)
        self._turn = RLock()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_turn"}


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Object = TypeVar("_Object", bound=TakesTurns)


def in_turn(
    method: Callable[Concatenate[_Object, _Arguments], _Result],
) -> Callable[Concatenate[_Object, _Arguments], _Result]:
    """Let a method wait until no other thread is in one of the object's methods.

    Args:
        method: of a class that `TakesTurns`.
    """

    @wraps(method)
    def waiting(self: _Object, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with self._turn:
            return method(self, *args, **kwargs)

    return waiting
