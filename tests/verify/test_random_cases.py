"""Certified intervals of random runs: around values found by other means, inside float64 bounds.

A float64 interval may be narrower than the width and the rounding of the certified one, never off.
"""

import pytest

from mechc.errors import NumericError, UnsupportedError

pytest.importorskip("flint")
cases = pytest.importorskip("cases")
pytestmark = pytest.mark.oracle

ROUNDING = 1e-15  # of a logarithm of delta as a double
LONG = (9, 11)  # minutes or many seconds for the other engine, compositions above all
DEFAULT = [n for n in range(20) if n not in LONG]
MORE = [n for n in range(500) if n not in DEFAULT]


def check(number):
    case = cases.case(number)
    try:
        exact = case.exact()
    except AssertionError as reason:
        pytest.skip(f"no value to compare with: {reason}")
    run, where = case.run, {"direction": case.direction}
    try:
        certified = run.log_delta(case.epsilon, certified=True, **where)
    except (NumericError, UnsupportedError) as reason:
        pytest.skip(f"refused: {reason}")
    room = case.room + ROUNDING * abs(exact)
    assert certified.status.startswith("certified")
    assert certified.lower <= exact + room
    assert certified.upper >= exact - room
    bound = run.log_delta(case.epsilon, **where)
    slack = certified.upper - certified.lower + ROUNDING * max(1.0, abs(exact))
    assert bound.status.startswith("proven")
    assert bound.lower <= certified.lower + slack
    assert bound.upper >= certified.upper - slack


@pytest.mark.few(2, 3, 5, 6)
@pytest.mark.parametrize("number", DEFAULT)
def test_some_random_cases(number):
    check(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", MORE)
def test_more_random_cases(number):
    check(number)
