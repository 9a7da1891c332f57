"""SymPy's solver under a wall clock: a child process that is killed when its time is up.

Input: a list of equations. Output: for each the solutions that arrived in time. `solve` has no time
limit of its own and may run for hours, and a thread cannot be killed, so it runs in
`python -m mechc.calculus.budget`, which reads pickled tasks from standard input and writes each
answer as soon as it has it; what is missing when the clock runs out counts as unsolved. Answers are
candidates: the caller verifies them.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

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
            [sys.executable, "-P", "-m", "mechc.calculus.budget"],  # no modules from here
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
