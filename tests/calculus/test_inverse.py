"""Inverses: round trips at 50 digits and in double precision, and which mechanisms are closed."""

import mpmath
import pytest
from calculus_zoo import SMOOTH, UNSEEN, cases, derived, vectors
from sympy import Symbol, exp, log
from test_regions import points, regions

from mechc.calculus.inverse import candidates
from mechc.calculus.types import Closed, Numeric
from mechc.symbolic.evaluate import evaluate

NAMES = cases(
    *SMOOTH,
    *(f"poisson:{m}" for m in SMOOTH),
    *(f"add:poisson:{m}" for m in ("gaussian", "laplace", "logistic", "student_t")),
    *(m for m in UNSEEN if m not in ("scale_mixture", "raised_cosine", "exponentially_modified")),
)
CLOSED = [
    "gaussian", "laplace", "logistic", "student_t", "cauchy", "gaussian_scale",
    "poisson:gaussian", "poisson:laplace", "poisson:logistic", "poisson:student_t",
    "add:poisson:gaussian", "add:poisson:student_t", "hyperbolic_secant", "gumbel", "huber",
    "triangular", "laplace_against_normal", "two_normals", "cauchy_scale",
]  # fmt: skip


@pytest.mark.few(0, 6, 15, 25, 31, 37)
@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name):
    with mpmath.workdps(50):
        for calculus, vector, region, lo, hi in regions(name):
            if not isinstance(region.inverse, Closed):
                continue
            x = calculus.pair.variable
            for at in points(lo, hi, False):
                loss = evaluate(region.loss, {**vector, x: at})
                back = evaluate(region.inverse.expr, {**vector, calculus.ell: loss})
                there = evaluate(region.loss, {**vector, x: mpmath.re(back)})
                # far out x is ill-conditioned in the loss; the loss itself is not
                assert abs(there - loss) <= mpmath.mpf(10) ** -20 * (1 + abs(loss))


@pytest.mark.parametrize("name", CLOSED)
def test_every_monotone_region_has_a_closed_inverse(name):
    for case in derived(name).cases:
        for region in case.regions:
            if region.kind in ("increasing", "decreasing"):
                assert isinstance(region.inverse, Closed), region.inverse


def test_the_rest_says_why_it_is_numeric():
    for case in derived("poisson:subbotin").cases:
        for region in case.regions:
            if not isinstance(region.inverse, Closed):
                assert isinstance(region.inverse, Numeric)
                assert region.inverse.reason


def test_double_precision_picks_the_root_form_without_cancellation():
    """Beyond its maximum the Student-t loss tends to 0, where one of two root formulas is 0/0."""
    calculus = derived("student_t")
    (case,) = calculus.cases
    (vector,) = vectors(calculus, case, 1)
    outer = case.regions[2]
    with mpmath.workprec(53):
        floats = {s: mpmath.mpf(float(v)) for s, v in vector.items()}
        start = evaluate(outer.lo, floats)
        for step in (0.5, 20.0, 4e3):
            at = start + step
            loss = evaluate(outer.loss, {**floats, calculus.pair.variable: at})
            back = evaluate(outer.inverse.expr, {**floats, calculus.ell: loss})
            there = evaluate(outer.loss, {**floats, calculus.pair.variable: back})
            assert abs(there - loss) < 1e-14


def test_candidates_come_in_a_readable_order():
    x, y, a = Symbol("x", real=True), Symbol("y", real=True), Symbol("a", positive=True)
    assert next(candidates(a * x + 1, x, y))[0].equals((y - 1) / a)
    assert next(candidates(log(1 + exp(x)), x, y))[0].equals(log(exp(y) - 1))
