"""The Renyi baseline: the conversion, and the comparison of section C.4."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechc.errors import DeclarationError
from mechc.individual import GDPFilter, RenyiFilter
from mechc.individual.filters import gaussian_order, gaussian_renyi, renyi_budget


def steps_admitted(f, value):
    count = 0
    while f.step([value])[0]:
        count += 1
    return count


def renyi_epsilon(order, rho, delta):
    """The conversion solved for epsilon, in 40 digits."""
    with mpmath.workdps(40):
        a = mpmath.mpf(order)
        return rho - (mpmath.log(delta * a) - (a - 1) * mpmath.log(1 - 1 / a)) / (a - 1)


def test_the_paper_runs_420_steps_by_renyi_and_495_by_gdp():
    """sigma = 100, delta = 1e-5; the epsilon the paper rounds to 0.8 is that of 420 steps."""
    orders = np.linspace(15, 30, 1501)
    epsilon = float(min(renyi_epsilon(a, a * 420 / 2e4, 1e-5) for a in orders)) + 1e-6
    assert round(epsilon, 1) == 0.8
    renyi = RenyiFilter(people=1, epsilon=epsilon, delta=1e-5)
    assert steps_admitted(renyi, gaussian_renyi([0.01], renyi.order)[0]) == 420
    assert steps_admitted(GDPFilter(people=1, epsilon=epsilon, delta=1e-5), 0.01) == 495


def test_at_epsilon_exactly_08_the_gain_is_the_same():
    renyi = RenyiFilter(people=1, epsilon=0.8, delta=1e-5)
    assert steps_admitted(renyi, gaussian_renyi([0.01], renyi.order)[0]) == 405
    assert steps_admitted(GDPFilter(people=1, epsilon=0.8, delta=1e-5), 0.01) == 478


@settings(deadline=None, max_examples=60)
@given(st.floats(0.01, 20), st.floats(1e-12, 1e-2), st.floats(1.5, 200))
def test_budgets_convert_back_to_at_most_the_target(epsilon, delta, order):
    rho = renyi_budget(epsilon, delta, order)
    found = renyi_epsilon(order, mpmath.mpf(rho), mpmath.mpf(delta))
    assert epsilon * (1 - 1e-9) - 1e-12 <= found <= epsilon


@pytest.mark.parametrize("order", [1 + 2.7e-8, 1 + 1.3e-7, 1 + 4e-7, 1 + 7.4e-5])
def test_budgets_next_to_order_one_are_rounded_down(order):
    t, delta = mpmath.mpf(order) - 1, 1 - 1e-12
    with mpmath.workdps(50):
        truth = 1 + mpmath.log(delta * mpmath.mpf(order)) / t - mpmath.log(t / order)
        assert truth * (1 - 1e-9) <= renyi_budget(1.0, delta, order) <= truth


@pytest.mark.parametrize(
    ("epsilon", "delta", "order"),
    [(3.1442034556338885e-09, 4.3507611808447044e-11, 792615484.6186336),
     (6.741063210779784e-09, 5.5664909781715646e-11, 447835579.7640652)],
)  # fmt: skip
def test_budgets_of_large_orders_are_rounded_down(epsilon, delta, order):
    with mpmath.workdps(50):
        a, d = mpmath.mpf(order), mpmath.mpf(delta)
        truth = epsilon + mpmath.log(d * a) / (a - 1) + mpmath.log(a / (a - 1))
        assert truth * (1 - 1e-9) <= renyi_budget(epsilon, delta, order) <= truth


@pytest.mark.parametrize("mu", [1e-150, 1e-160, 3e-162, 1e-170, 5e-324])
def test_divergences_that_underflow_are_not_free(mu):
    with mpmath.workdps(50):
        assert gaussian_renyi(mu, 1e3) >= mpmath.mpf(mu) ** 2 * 500
    assert gaussian_renyi(0.0, 1e3) == 0.0


def test_the_default_order_is_the_best_for_gaussian_steps():
    best = gaussian_order(0.8, 1e-5)
    admitted = [2 * renyi_budget(0.8, 1e-5, a) / a for a in (best, 0.99 * best, 1.01 * best)]
    assert admitted[0] == max(admitted)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1, exclude_min=True), max_size=30))
def test_sums_never_cross_the_budget(values):
    f = RenyiFilter(people=1, order=2.0, budget=0.7)
    taken = [v for v in values if f.step([v])[0]]
    assert mpmath.fsum(mpmath.mpf(v) for v in taken) <= mpmath.mpf(0.7)
    assert float(f.spent()[0]) >= float(np.sum(taken)) * (1 - 1e-12)


def test_a_sum_that_lands_on_the_budget_is_taken():
    f = RenyiFilter(people=1, order=2.0, budget=0.75)
    assert f.step([0.25])[0] and f.step([0.5])[0] and not f.step([5e-324])[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 1.0},
        {"budget": 1.0},
        {"budget": 1.0, "order": 2.0, "epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-5, "order": 1.0},
        {"epsilon": 0.01, "delta": 1e-9, "order": 1.5},
        {"epsilon": "1", "delta": 1e-5},
        {"budget": 1.0, "order": float("nan")},
        {"budget": 1.0, "order": 1.0},
        {"budget": 1.0, "order": "2"},
    ],
)
def test_bad_budgets_are_refused(arguments):
    with pytest.raises(DeclarationError):
        RenyiFilter(people=1, **arguments)
