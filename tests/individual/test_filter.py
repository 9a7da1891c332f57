"""Filters never let anyone cross the budget; rational arithmetic is the judge."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechc
from mechc.errors import DeclarationError, MechcError
from mechc.individual import (
    ApproximateFilter,
    GDPFilter,
    GDPOdometer,
    IndividualAccountant,
    RenyiFilter,
    SharedGDPFilter,
    gdp_upper_bound,
    summary,
)
from mechc.individual.budget import as_floats, first_invalid, make_budget

budgets = st.floats(1e-3, 1e3)
# anything float64 can hold, denormals included, and steps of the size that matters
steps = st.one_of(st.floats(0, allow_nan=False), st.floats(0, 2), st.floats(0, 1e-300))


def squares(values):
    return sum((Fraction(float(v)) ** 2 for v in values), Fraction(0))


@settings(deadline=None, max_examples=300)
@given(budgets, st.lists(st.tuples(steps, st.integers(0, 5)), max_size=40))
def test_an_adaptive_adversary_never_crosses_the_budget(budget, moves):
    """The adversary sees the mask and what remains, and steers towards the edge."""
    f = GDPFilter(people=1, mu=budget)
    taken = []
    for value, move in moves:
        left = float(f.remaining()[0])
        tries = [value, left, np.nextafter(left, np.inf), left / 2, budget * value, budget]
        mu = min(tries[move], 1.7e308)
        before = squares(taken)
        took = f.step([mu])[0]
        assert took or move != 1  # what remains fits
        if took:
            taken.append(mu)
        else:  # a refusal has a reason
            slack = 1 - Fraction(1, 2**40)
            assert before + Fraction(mu) ** 2 > Fraction(budget) ** 2 * slack
        assert squares(taken) <= Fraction(budget) ** 2
        spent, remaining = float(f.spent()[0]), float(f.remaining()[0])
        assert Fraction(spent) ** 2 >= squares(taken)
        assert squares(taken) + Fraction(remaining) ** 2 <= Fraction(budget) ** 2


@settings(deadline=None, max_examples=200)
@given(budgets, st.lists(steps, max_size=10), steps.filter(np.isfinite), st.booleans())
def test_exhaustion_stays_within_the_budget(budget, past, last, amplify):
    f = GDPFilter(people=1, mu=budget)
    taken = [mu for mu in past if f.step([mu])[0]]
    factor = float(f.exhaust([last], amplify=amplify)[0])
    assert amplify or factor <= 1
    product = Fraction(factor) * Fraction(last)
    total = squares(taken) + product**2
    assert total <= Fraction(budget) ** 2
    if factor not in (0.0, 1.0) and 1e-300 < factor < 1e300:
        assert total >= Fraction(budget) ** 2 * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize("budget, step, count", [(1.0, 0.5, 4), (3.0, 0.75, 16), (0.7, 0.35, 4)])
def test_a_sum_that_lands_on_the_budget_is_taken_and_nothing_after(budget, step, count):
    f = GDPFilter(people=1, mu=budget)
    for _ in range(count):
        assert f.step([step])[0]
    assert f.remaining()[0] == 0 and f.spent()[0] == budget
    for tiny in (5e-324, 1e-200, step):
        assert not f.step([tiny])[0]
    assert f.step([0.0])[0]


def test_pythagorean_steps_land_exactly():
    f = GDPFilter(people=1, mu=5.0)
    assert f.step([3.0])[0] and f.step([4.0])[0] and not f.step([1e-300])[0]


def test_a_billion_tiny_steps_are_all_counted_and_cost_almost_nothing():
    """One row stands for 1e9 steps: the total after n equal steps is n times that after one."""
    mu, n = 1e-5, 10**9
    f = GDPFilter(people=1, mu=1.0)
    f.step([mu])
    high, low = (int(v) for v in f.totals[0])
    total, cap = n * ((high << 64) + low), int(make_budget("mu", 1.0, squared=True).scale) ** 2
    exact = n * Fraction(mu) ** 2
    assert Fraction(total, cap) >= exact
    assert Fraction(total, cap) <= exact * (1 + Fraction(1, 10**12))


def test_denormal_steps_are_never_free():
    f = GDPFilter(people=1, mu=1e150)
    f.step([5e-324])
    assert f.totals[0, 1] == 1


def test_dense_and_sparse_updates_agree():
    rng = np.random.default_rng(3)
    a, b = (GDPFilter(people=500, mu=1.0) for _ in range(2))
    for _ in range(40):
        mu = rng.exponential(0.15, 500) * (rng.random(500) < 0.7)
        who = rng.permutation(np.flatnonzero(mu))
        dense = a.step(mu)
        sparse = b.step((who, mu[who]))
        assert np.array_equal(dense[who], sparse)
    assert np.array_equal(a.totals, b.totals)


def test_order_and_threads_do_not_change_totals():
    rng = np.random.default_rng(4)
    mu = rng.uniform(0, 0.2, (3, 600_000))
    a, b = (GDPFilter(people=600_000, mu=3.0) for _ in range(2))
    for row in mu:
        a.step(row)
    for row in mu[::-1]:
        b.step(row)
    assert np.array_equal(a.totals, b.totals)


def test_someone_who_does_not_fit_sits_out_and_may_return():
    f = GDPFilter(people=2, mu=1.0)
    assert f.step([0.9, 0.1]).tolist() == [True, True]
    assert f.step([0.9, 0.1]).tolist() == [False, True]
    assert f.step([0.3, np.inf]).tolist() == [True, False]


def test_those_whom_a_step_touches_may_be_given_as_a_mask():
    f, g = (GDPFilter(people=3, mu=1.0) for _ in range(2))
    fits = f.step([0.9, 0.1, 2.0])
    assert f.step((fits, [0.2, 0.3])).tolist() == [True, True]
    g.step([0.9, 0.1, 0.0])
    g.step(([0, 1], [0.2, 0.3]))
    assert np.array_equal(f.totals, g.totals)
    with pytest.raises(ValueError, match=r"a mask of shape \(3,\)"):
        f.step((fits[:2], [0.2, 0.3]))
    acc = IndividualAccountant(mechc.load("gaussian"), parameter="sigma", people=3, span=(1.0, 9.0))
    acc.step((fits, [2.0, 3.0]))
    bound = acc.epsilon(1e-6)
    assert bound.upper[2] == 0.0 < bound.upper[1] < bound.upper[0]
    assert np.array_equal(acc.epsilon(1e-6, rows=fits).upper, bound.upper[:2])


@pytest.mark.parametrize(
    "bad, message",
    [
        ([0.1, -0.1, 0], r"mu\[1\]"),
        ([0.1, 0.1, np.nan], r"mu\[2\]"),
        ([0.1], "shape"),
        ([[0.1, 0.1, 0.1]], "shape"),
        (["a", "b", "c"], "dtype"),
        ([1j, 0, 0], "dtype"),
        (np.ma.array([0.1, 9.0, 0.1], mask=[0, 1, 0]), "masked"),
        (([3], [0.1]), "index 3 out of range"),
        (([-1], [0.1]), "index -1 out of range"),
        (([0, 0], [0.1, 0.1]), "twice"),
        (([0, 1], [0.1]), "shape"),
        (([0.5], [0.1]), "integers"),
        (([1], [-0.1]), r"mu\[1\]"),
        (([1], [np.nan]), r"mu\[1\]"),
        (([1], [0.1], [0.1]), "tuple of 3"),
    ],
)
def test_bad_steps_are_refused_and_change_nothing(bad, message):
    f = GDPFilter(people=3, mu=1.0)
    f.step([0.5, 0.5, 0.5])
    before = f.totals.copy()
    with pytest.raises(DeclarationError, match=message):
        f.step(bad)
    assert np.array_equal(f.totals, before) and f.steps == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"people": 0, "mu": 1.0},
        {"people": 1.5, "mu": 1.0},
        {"people": 1},
        {"people": 1, "mu": 1.0, "epsilon": 1.0, "delta": 1e-5},
        {"people": 1, "epsilon": 1.0},
        {"people": 1, "mu": 0.0},
        {"people": 1, "mu": -1.0},
        {"people": 1, "mu": np.nan},
        {"people": 1, "mu": np.inf},
        {"people": 1, "mu": "1"},
        {"people": 1, "epsilon": -1.0, "delta": 1e-5},
        {"people": 1, "epsilon": 1.0, "delta": 0.0},
    ],
)
def test_bad_budgets_are_refused(arguments):
    with pytest.raises(DeclarationError):
        GDPFilter(**arguments)


def test_a_target_whose_budget_is_none_is_refused_by_the_target():
    for epsilon, delta in ((0.0, 5e-324), (1e300, 1e-5)):
        with pytest.raises(DeclarationError, match=f"epsilon={re.escape(repr(epsilon))}.*target"):
            GDPFilter(people=1, epsilon=epsilon, delta=delta)
    with pytest.raises(DeclarationError, match="target"):
        RenyiFilter(people=1, epsilon=1e-300, delta=1e-300)


def test_the_shared_filter_stops_for_good():
    f = SharedGDPFilter(mu=5.0)
    assert f.step(3.0) and f.step(4.0) and not f.step(1e-9)
    assert f.stopped and not f.step(0.0) and f.spent() == 5.0


def test_storage_and_output_may_live_on_disk(tmp_path):
    f = GDPFilter(people=1000, mu=1.0, storage=tmp_path / "work")
    mask = np.memmap(tmp_path / "mask", dtype=np.bool_, mode="w+", shape=1000)
    mu = np.linspace(0, 2, 1000, dtype=np.float32)
    assert f.step(mu, out=mask) is mask and mask.sum() == (mu <= 1).sum()
    with pytest.raises(DeclarationError, match="exists"):
        GDPFilter(people=1000, mu=1.0, storage=tmp_path / "work")


def test_first_invalid_finds_nan_and_negative_but_not_inf():
    assert first_invalid(np.array([0.0, -0.0, np.inf])) == -1
    assert first_invalid(np.array([0.0, np.nan])) == 1
    assert first_invalid(np.array([-5e-324, 1.0])) == 0


def test_an_infinite_last_step_is_scaled_to_nothing_and_costs_nothing():
    f = GDPFilter(people=2, mu=1.0)
    assert f.exhaust([np.inf, 2.0]).tolist() == [0.0, pytest.approx(0.5)]
    assert f.remaining().tolist() == [pytest.approx(1.0), 0.0]
    wide = GDPFilter(people=1, mu=1e150)  # whose units are larger than the step
    assert [float(wide.exhaust([5e-324], amplify=True)[0]) for _ in "ab"] == [1.7e308, 0.0]


@pytest.mark.parametrize("number", [np.int64, np.uint64, np.longdouble])
def test_steps_with_more_digits_than_doubles_are_rounded_up(number):
    """2^53 + 1 is no double; the step is larger than the budget, and half of it twice too."""
    wide = number(2**53) + number(1)
    assert not GDPFilter(people=1, mu=2.0**53).step(np.array([wide])).any()
    assert not GDPFilter(people=1, mu=2.0**53).step((np.array([0]), np.array([wide]))).any()
    assert GDPFilter(people=1, mu=2.0**53 + 2).step(np.array([wide])).all()
    assert GDPFilter(people=1, mu=2.0**53).step(np.array([wide - number(1)])).all()
    assert GDPFilter(people=1, mu=2**53 + 3).mu == 2.0**53 + 2
    assert GDPFilter(people=1, mu=number(2**53 + 3)).mu == 2.0**53 + 2


@pytest.mark.parametrize("value", [2**53 + 1, 2**62 + 513, 2**63 - 513, 2**63 - 1, 2**64 - 1025])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.longdouble])
def test_the_largest_integers_are_rounded_to_both_sides(value, kind):
    given = np.array([kind(value) if kind is not np.int64 else kind(min(value, 2**63 - 1))])
    assert int(as_floats(given, up=False)[0]) <= int(given[0]) <= int(as_floats(given)[0])


def test_numbers_that_numpy_would_round_silently_are_refused():
    """[2^53 + 1, 0.5] is an array of doubles, the first of them 2^53; [1e20, 3] loses nothing."""
    for step in ([2**53 + 1, 0.5], ([0, 1], [0.5, np.int64(2**53 + 1)]), np.array([1, 1], "m8[s]")):
        with pytest.raises(DeclarationError):
            GDPFilter(people=2, mu=2.0**53).step(step)
    assert GDPFilter(people=2, mu=2.0**53).step([1e20, 3]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: GDPFilter(people=10**400, mu=1.0), "no memory for people=1000"),
        (lambda: GDPFilter(people=2, mu=1.0).spent("x"), r"rows='x' \(expected a slice of 2"),
        (lambda: GDPFilter(people=2, mu=1.0).remaining((1,)), r"rows=\(1,\) \(expected a slice"),
        (lambda: GDPFilter(people=2, mu=1.0).step([1, 1], out=[True] * 2), r"out is list\(2,\)"),
        (lambda: GDPFilter(people=2, mu=1.0).step([1, 1], out=np.empty(4, bool)[::2]), "gaps"),
        (lambda: GDPFilter(people=2, mu=1.0, storage="/dev/null/x"), "storage='/dev/null/x': "),
        (lambda: RenyiFilter(people=2, order=2.0, budget=np.array([])), "budget=array.*a number"),
        (lambda: GDPOdometer(np.array("x")), r"increments=array\('x'.* \(expected numbers > 0"),
        (lambda: GDPOdometer(None), r"increments=None \(expected numbers > 0"),
        (lambda: IndividualAccountant.from_norms("x", 1.0, 1.0), "norms has dtype .*real numbers"),
        (lambda: IndividualAccountant.from_norms([1.0], 1.0, None), "noise has dtype .*real num"),
        (lambda: IndividualAccountant.from_norms([1.0], 1.0, 1.0, counts=3), r"counts=3 .* 1 in"),
        (lambda: summary(None), "bound=None .*an answer of an IndividualAccountant"),
        (lambda: gdp_upper_bound(None, 1.0), r"accountant=None \(expected an Individual"),
        (lambda: ApproximateFilter("x", epsilon_max=1.0, mu=1.0), "accountant='x' .*expected"),
    ],
)  # fmt: skip
def test_what_is_given_is_named_and_what_would_be_accepted(made, words):
    with pytest.raises(MechcError, match=words):
        made()
