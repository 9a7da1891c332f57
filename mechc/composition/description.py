"""How events without a kernel are made, as data: an operation, and the numbers and events it took.

In: the call of an operation. Out: what pickles and run files hold of the event it returned, and the
same event again. Everything about such an event follows from this, with the same digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from mechc.accountants.bound import plain
from mechc.composition.events import Event
from mechc.errors import DeclarationError, UnsupportedError

T = TypeVar("T", bound=Callable[..., Any])

OPERATIONS: dict[str, Callable[..., Any]] = {}
"""What makes such events, by its word in run files; a module adds its own when imported."""

TEXTS = ("adjacency", "because", "name")  # arguments of these


class MadeEvent(Event):
    """An event without a kernel, in the place of whose mechanism is what says how it was `made`."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy how it was made; what was computed is computed again."""
        made = cast(Any, self.mechanism).made
        if made is None:
            raise UnsupportedError(f"{self}: a part of another event, which is kept with it")
        return _again, made

    def record(self) -> dict[str, Any]:
        """Return what a run file holds of the event: the operation, and its arguments by name."""
        operation, given = self.__reduce__()[1]
        record: dict[str, Any] = plain({"made": operation.__name__, **given})
        return record


def described(operation: T) -> T:
    """Return an operation that writes its word and arguments on events without a kernel."""
    form = signature(operation)

    @wraps(operation)
    def made(*given: Any, **named: Any) -> Any:
        given = tuple(list(v) if isinstance(v, Iterator) else v for v in given)
        named = {k: list(v) if isinstance(v, Iterator) else v for k, v in named.items()}
        event = operation(*given, **named)
        if isinstance(event, MadeEvent):
            call = form.bind(*given, **named)
            call.apply_defaults()
            words = {name: _kept(v) for name, v in call.arguments.items() if v is not None}
            if not any(value is event for value in words.values()):  # it changed nothing
                object.__setattr__(event.mechanism, "made", (made, words))
        return event

    OPERATIONS[operation.__name__] = made
    return cast(T, made)


def remade(words: dict[str, Any]) -> Any:
    """Return what an operation makes of arguments that somebody wrote, events among them made."""
    given = dict(words)
    operation = OPERATIONS[given.pop("made")]
    for name, value in given.items():  # of others a name or path would be loaded, and files run
        if isinstance(value, str) and name not in TEXTS:
            raise DeclarationError(f"{operation.__name__}: {name}={value!r} is text")
    return operation(**given)


def _again(operation: Callable[..., Any], given: dict[str, Any]) -> Any:
    return operation(**given)


def _kept(value: Any) -> Any:
    """An argument as it was when it was given: arrays may change later."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_kept, value))
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (Event, str, int)):
        return value
    numbers = np.array(value, np.float64)
    return numbers if numbers.ndim else float(numbers)
