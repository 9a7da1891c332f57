"""One line about what takes more than a second: on a terminal, and in notebooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

Tell = Callable[[str], None]
PATIENCE = 1.0  # seconds before anything is said
WIDTH = 79  # characters of the line, which later words overwrite


def is_watched() -> bool:
    """Whether somebody sees what is said meanwhile."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def telling(what: str, tell: Tell | None = None) -> Iterator[Tell]:
    """Yield what takes words for where a long task is, which are shown once it is one.

    Args:
        what: the task.
        tell: what takes them instead, if it is somebody else's.
    """
    if tell is not None or not is_watched():
        yield tell or _unheard
        return
    words, is_long = what, False

    def show() -> None:
        sys.stderr.write(f"\r{f'mechc: {words}'[:WIDTH]:<{WIDTH}}")
        sys.stderr.flush()

    def begin() -> None:
        nonlocal is_long
        is_long = True
        show()

    def update(where: str) -> None:
        nonlocal words
        words = f"{what}: {where}"
        if is_long:
            show()

    timer = Timer(PATIENCE, begin)
    timer.daemon = True
    timer.start()
    try:
        yield update
    finally:
        timer.cancel()
        timer.join()
        if is_long:
            sys.stderr.write(f"\r{'':<{WIDTH}}\r")
            sys.stderr.flush()


def _unheard(words: str) -> None:
    """Where nobody sees it."""
