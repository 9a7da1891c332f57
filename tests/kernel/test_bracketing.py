"""The emitted root finder on functions that are hard for it, run as plain Python."""

import math

import numpy as np
import pytest

from mechc.kernel.emit import solver_text
from mechc.kernel.printer import IEEE

CASES = [
    # function, level, lo, hi, rising, root
    (lambda x: x, 0.3, -math.inf, math.inf, 1.0, 0.3),
    (lambda x: -x, 1e9, -math.inf, math.inf, -1.0, -1e9),
    (lambda x: x**3, 1e-30, -math.inf, math.inf, 1.0, 1e-10),
    (lambda x: math.atan(x), 1.5, 0.0, math.inf, 1.0, math.tan(1.5)),
    (lambda x: 1.0 / x if x else math.inf, 1e200, 0.0, math.inf, -1.0, 1e-200),
    (lambda x: math.log(x) if x > 0 else -math.inf, 300.0, 0.0, math.inf, 1.0, math.exp(300.0)),
    (lambda x: math.log(-x) if x < 0 else -math.inf, -300.0, -math.inf, 0.0, -1.0, -math.exp(-300)),
    (lambda x: math.expm1(-x), -0.999999, 0.0, math.inf, -1.0, -math.log(1e-6)),
    (lambda x: -1.0 if x < 0.7 else 1.0 + x, 0.0, 0.0, 1.0, 1.0, 0.7),
    (lambda x: x if abs(x) < 40.0 else math.nan, 31.0, -math.inf, math.inf, 1.0, 31.0),
    (lambda x: -x if abs(x) < 40.0 else math.nan, 31.0, -math.inf, math.inf, -1.0, -31.0),
    (lambda x: math.tan(x), 5.0, -math.pi / 2, math.pi / 2, 1.0, math.atan(5.0)),
]


def solver(function):
    calls = []

    def counted(x, theta):
        calls.append(float(x))
        return function(float(x))

    namespace = {"math": IEEE, "target": counted}
    exec(solver_text("solve", "target"), namespace)

    def solve(*args):
        with np.errstate(all="ignore"):
            return namespace["solve"](*args)

    return solve, calls


@pytest.mark.parametrize("case", CASES)
def test_finds_the_root(case):
    function, level, lo, hi, rising, root = case
    solve, calls = solver(function)
    found = float(solve(level, lo, hi, rising, None))
    # close to the root, or as close as the rounding of the function lets one see
    assert found == pytest.approx(root, rel=4e-15) or function(found) == pytest.approx(
        level, rel=4e-16
    )
    assert all(lo < x < hi for x in calls), "never evaluated at an end"
    assert len(calls) < 900


def test_smooth_functions_need_few_evaluations():
    solve, calls = solver(lambda x: math.sinh(x) + x)
    solve(11.0, -math.inf, math.inf, 1.0, None)
    assert len(calls) < 25


def test_a_level_that_is_never_reached_ends_at_infinity():
    solve, _ = solver(lambda x: math.tanh(x))
    assert solve(2.0, 0.0, math.inf, 1.0, None) == math.inf
    assert solve(-2.0, -math.inf, 0.0, 1.0, None) == -math.inf


def test_no_value_anywhere_is_nan():
    solve, _ = solver(lambda x: math.nan)
    assert math.isnan(solve(1.0, 0.0, 1.0, 1.0, None))


def test_a_level_beyond_a_finite_end_ends_there():
    solve, _ = solver(lambda x: x)
    assert solve(5.0, 0.0, 1.0, 1.0, None) == pytest.approx(1.0, rel=1e-15)
