"""Intervals that are halved until something is known of every part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from flint import arb

from mechc.errors import NumericError

Box = tuple[Any, Any]


class Open(NumericError):
    """A part stays undecided: too many were looked at, or it cannot be halved."""


class Boxes:
    """Parts still to be looked at; those that `halve` is called for come again as two."""

    def __init__(self, parts: Iterable[Box], most: int, what: str = "parts of an interval") -> None:
        """Begin with pairs of exact balls; at most so many are looked at, and errors say what."""
        self.todo, self.left, self.what = deque(parts), most, what

    def __iter__(self) -> Iterator[Box]:
        """Yield the parts, the widest first; `Open` where there are too many."""
        while self.todo:
            if not self.left:
                raise Open(f"too many {self.what}, near {self.todo[0][0].str(10)}")
            self.left -= 1
            yield self.todo.popleft()

    def halve(self, a: Any, b: Any) -> None:
        """Look at both halves; far from zero and long, at those of the logarithm."""
        if a * b > 0 and not 0.25 < a / b < 4:
            middle = (a * b).sqrt().mid() * (1 if a > 0 else -1)
        else:
            middle = ((a + b) / 2).mid()
        if not (a < middle and middle < b):
            self.todo.append((a, b))
            raise Open(f"{self.what} stay open at {middle.str(10)}")
        self.todo.extend(((a, middle), (middle, b)))


def between(bound: Any) -> Any:
    """The ball [0, bound]."""
    half = (bound.upper() / 2).upper()
    return arb(half, half)
