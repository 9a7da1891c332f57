"""What belongs to one question: laws, contours and meshes that grow while it is answered.

They begin the same for every question and are shared by nothing else, so that an answer is a pure
function of its question: the same digits on a fresh object, after other questions, in any process.
An array of epsilons, a curve, a search, a calibration is one question.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Question:
    """What has been computed for the question at hand.

    Attributes:
        laws: privacy losses by kernel, parameters and direction.
        evaluations: evaluations by composition, method and options.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.laws: dict[Any, Any] = {}
        self.evaluations: dict[Any, Any] = {}


_current: ContextVar[Question | None] = ContextVar("question", default=None)


def current() -> Question:
    """The question being answered; a new one, shared with nothing, outside of any."""
    return _current.get() or Question()


@contextmanager
def asked() -> Iterator[Question]:
    """Answer one question; a question inside another one is a part of it."""
    outer = _current.get()
    if outer is not None:
        yield outer
        return
    question = Question()
    token = _current.set(question)
    try:
        yield question
    finally:
        _current.reset(token)
