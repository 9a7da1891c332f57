"""Limits on the work of SymPy, which knows none: a wall clock for its solver, a number of calls.

`run` gives equations to a child process that is killed when its time is up. `solve` may run for
hours, and a thread cannot be killed, so it runs in `python -m mechc.symbolic.budget`, which reads
pickled tasks from standard input and writes each answer as soon as it has it; what is missing when
the clock runs out counts as unsolved. Answers are candidates: the caller verifies them.

`limited` counts function calls through the interpreter's profiling hook: the same text always gets
the same answer, on a fast machine or a slow one, in any thread, and without a second process. SymPy
decides signs of constants by raising precision and by cases, and may not come back.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

from sympy import Expr, Symbol, solve


@dataclass(frozen=True)
class Task:
    """Solve expr = 0 for x."""

    expr: Expr
    x: Symbol


def run(tasks: list[Task], seconds: float) -> dict[int, list[Expr]]:
    """Answers to tasks, by position; unanswered ones are missing.

    Args:
        tasks: in the order of their importance.
        seconds: wall clock for all of them, the start of the child included.
    """
    if not tasks or seconds <= 0 or not sys.executable:
        return {}
    paths = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    try:
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "mechc.symbolic.budget"],  # no modules from here
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        ) as child:
            output = _communicate(child, pickle.dumps(tasks), seconds)
    except OSError:
        return {}
    return _answers(output)


def _communicate(child: subprocess.Popen[bytes], message: bytes, seconds: float) -> bytes:
    try:
        return child.communicate(message, timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()[0]


def _answers(output: bytes) -> dict[int, list[Expr]]:
    """Whole pickles at the head of the output; the last one may be cut off by the kill."""
    stream = io.BytesIO(output)
    found: dict[int, list[Expr]] = {}
    while True:
        try:
            index, answers = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            return found
        found[index] = answers


def main() -> None:
    """Read tasks from standard input, write answers to standard output."""
    tasks = pickle.load(sys.stdin.buffer)
    for index, task in enumerate(tasks):
        try:
            answers = [s for s in solve(task.expr, task.x) if isinstance(s, Expr)]
        except Exception:  # SymPy raises whatever it likes; no answer is an answer
            answers = []
        sys.stdout.buffer.write(pickle.dumps((index, answers)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()


class OutOfFuelError(BaseException):
    """The calls are used up; no `except Exception` on the way out may swallow it."""


@contextmanager
def limited(calls: int) -> Iterator[None]:
    """Run the body with at most so many function calls in this thread.

    A profiler that is running is suspended meanwhile.

    Args:
        calls: how many.

    Raises:
        OutOfFuelError: they did not suffice.
    """
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
