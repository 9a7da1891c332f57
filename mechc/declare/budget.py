"""A limit on the work of SymPy, which knows none: a number of calls.

`limited` counts function calls through the interpreter's profiling hook: the same text always gets
the same answer, on a fast machine or a slow one, in any thread, and without a second process. SymPy
decides signs of constants by raising precision and by cases, and may not come back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any


class OutOfFuelError(BaseException):
    """The calls are used up; no `except Exception` on the way out may swallow it."""


@contextmanager
def limited(calls: int) -> Iterator[None]:
    """Run the body with at most so many calls in this thread, a running profiler suspended."""
    left = calls

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event == "call":
            left -= 1
            # a generator may be running because it is being closed, where errors get lost
            if left < 0 and not frame.f_code.co_flags & CO_GENERATOR:
                left = calls
                raise OutOfFuelError

    before: Any = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        written_in_c = before is not None and not callable(before)
        sys.setprofile(None if written_in_c else before)
        if written_in_c:  # cProfile, which cannot be set from here
            before.enable()
