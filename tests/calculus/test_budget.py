"""SymPy's solvers in a child process: answers, wall clock, and a calm parent."""

import subprocess
import sys
import time

from sympy import Symbol, cos, exp, pi, sin, symbols

from mechc.calculus.budget import Task, run

x, y = symbols("x y", real=True)
a = Symbol("a", positive=True)


def test_solve_and_integrate():
    answers = run(
        [
            Task("solve", x**2 - a, x),
            Task("integrate", 1 + cos(pi * x / a), x, -a, a),
            Task("integrate", exp(-exp(sin(x))), x, 0, y),
        ],
        20.0,
    )
    assert {v**2 for v in answers[0]} == {a}
    assert answers[1] == [2 * a]
    assert answers.get(2, []) == []


def test_the_clock_is_kept_and_earlier_answers_survive():
    hopeless = Task("solve", x**7 * exp(sin(x * a) ** 5) - cos(x) ** x - y, x)
    slow = [Task("integrate", exp(-(x**n)) * sin(x) ** n / (1 + x**n), x, 0, 1) for n in (5, 7, 9)]
    start = time.monotonic()
    answers = run([Task("solve", x - a, x), hopeless, *slow], 3.0)
    assert time.monotonic() - start < 6.0
    assert answers[0] == [a]


def test_no_task_starts_no_child():
    start = time.monotonic()
    assert run([], 5.0) == {}
    assert time.monotonic() - start < 0.1


def test_works_without_a_main_module():
    script = (
        "from sympy import symbols; from mechc.calculus.budget import Task, run; "
        "x, y = symbols('x y', real=True); print(run([Task('solve', x - y, x)], 20.0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "{0: [y]}"
