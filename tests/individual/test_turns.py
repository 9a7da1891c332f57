"""Filters and accountants that several threads use at once."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import mechc
from mechc.individual import GDPFilter, GDPOdometer, IndividualAccountant
from mechc.individual.family import Family
from mechc.individual.storage import TakesTurns

THREADS = 4


def together(work):
    """Run work(0), ..., work(3) at the same moment."""
    start = Barrier(THREADS)

    def run(i):
        start.wait()
        return work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_no_charge_is_lost_between_threads():
    budget = GDPFilter(people=1000, mu=1.0)
    mu = 2.0**-7  # 128^2 such steps fit exactly

    def work(_):
        return sum(int(budget.step(np.full(1000, mu)).sum()) for _ in range(5000))

    taken = together(work)
    assert sum(taken) == 128**2 * 1000
    assert budget.steps == 5000 * THREADS and (budget.spent() == 1.0).all()


def test_an_odometer_counts_every_segment():
    odometer = GDPOdometer(1.0)
    closed = sum(together(lambda _: sum(odometer.step(0.5) for _ in range(400))))
    assert closed == odometer.segment == 1600 // 4 - 1
    assert math.isclose(odometer.released, math.sqrt(closed))


def test_an_accountant_answers_threads_as_it_answers_one():
    family = Family.of(mechc.load("gaussian"), "sigma", (2.0, 50.0))

    def fresh():
        accountant = IndividualAccountant(
            family, parameter="sigma", people=6, span=family.span, buckets=8, journal=0
        )
        for values in np.linspace(3.0, 40.0, 24).reshape(4, 6):
            accountant.step(values, count=10)
        return accountant

    alone, shared, deltas = fresh(), fresh(), [1e-3, 1e-4, 1e-5, 1e-6]
    expected = [alone.epsilon(delta).upper for delta in deltas]
    assert np.array_equal(together(lambda i: shared.epsilon(deltas[i]).upper), expected)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_copies_have_locks_of_their_own(duplicate):
    first = GDPFilter(people=2, mu=1.0)
    first.step([0.5, 0.25])
    second = duplicate(first)
    assert second.step([1.0, 0.5]).tolist() == [False, True]
    assert np.allclose(first.spent(), [0.5, 0.25], rtol=1e-12, atol=0)


def test_what_takes_turns_is_shown_whatever_it_tells():
    assert repr(TakesTurns()) == "TakesTurns()"
