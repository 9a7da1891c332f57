"""SymPy's solver in a child process: answers, wall clock, and a calm parent."""

import subprocess
import sys
import time

from sympy import Symbol, cos, exp, sin, symbols

from mechc.symbolic.budget import Task, run

x, y = symbols("x y", real=True)
a = Symbol("a", positive=True)


def test_solutions_come_back_and_failures_are_empty():
    answers = run([Task(x**2 - a, x), Task(x * exp(exp(x)) + sin(x) - y, x)], 20.0)
    assert {v**2 for v in answers[0]} == {a}
    assert answers[1] == []


def test_the_clock_is_kept_and_earlier_answers_survive():
    slow = [Task(sum(y**k * x**k for k in range(n)) ** 3 - cos(x) ** n - x, x) for n in range(30)]
    start = time.monotonic()
    answers = run([Task(x - a, x), *slow], 6.0)
    assert time.monotonic() - start < 60.0  # all of them take hours
    assert answers[0] == [a]


def test_no_task_starts_no_child():
    start = time.monotonic()
    assert run([], 5.0) == {}
    assert time.monotonic() - start < 0.1


def test_works_without_a_main_module():
    script = (
        "from sympy import symbols; from mechc.symbolic.budget import Task, run; "
        "x, y = symbols('x y', real=True); print(run([Task(x - y, x)], 20.0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "{0: [y]}"
