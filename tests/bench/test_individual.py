"""Individual accounting at the scale of populations: filters, epsilons, and the FFT beside them."""

import resource
import time

import numpy as np
import pytest

import mechc
from mechc.individual import GDPFilter, IndividualAccountant
from mechc.individual.family import Family

PEOPLE = 1_000_000


@pytest.fixture(scope="module")
def family():
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    return Family.of(mechanism, "sigma", (4.0, 200.0))


def filled(family, people, **options):
    """An accountant after 2000 steps of people whose noise ratios differ and drift."""
    rng = np.random.default_rng(0)
    accountant = IndividualAccountant(
        family, parameter="sigma", people=people, span=family.span, journal=0, **options
    )
    centre = np.exp(rng.uniform(np.log(5), np.log(100), people))
    for _ in range(40):
        ratios = np.clip(centre * np.exp(0.3 * rng.standard_normal(people)), 4.0, 200.0)
        accountant.step(ratios, count=50)
    return accountant


def timed(work):
    start, busy = time.perf_counter(), time.process_time()
    answer = work()
    return answer, time.perf_counter() - start, time.process_time() - busy


def test_epsilons_of_a_million_people(family, report):
    seconds = {}
    for people in (PEOPLE // 10, PEOPLE):
        accountant = filled(family, people)
        bound, seconds[people], busy = timed(lambda a=accountant: a.epsilon(1e-6))
        width = bound.detail["relative_width"]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        report.notes.append(
            f"epsilon of {people:>9} people, 64 buckets: {seconds[people]:6.1f} s"
            f" ({busy:.1f} s of processor time), widest {width.max():.1e}, {memory:.2f} GiB"
        )
        assert (bound.lower <= bound.upper).all() and width.max() <= 1e-4
    assert seconds[PEOPLE] <= 12 * seconds[PEOPLE // 10]
    assert min(seconds[PEOPLE], busy / 2) <= 20.0 and memory <= 2.0  # others may use the cores


def test_against_the_plancherel_method(family, report):
    """Both evaluate the same counts; the FFT's distance from the proven value is its accuracy."""
    people, few = 200_000, 5
    accountant = filled(family, people, splines=False)
    accountant.epsilon(1e-6, rows=np.arange(few))
    bound, seconds, _ = timed(lambda: accountant.epsilon(1e-6))
    rows = np.arange(few)
    fft, fft_seconds, _ = timed(lambda: accountant.epsilon(1e-6, method="plancherel", rows=rows))
    ratio = (fft_seconds / few) / (seconds / people)
    off = np.abs(fft.estimate / bound.upper[:few] - 1).max()
    report.notes.append(
        f"per person: contour {1e6 * seconds / people:.1f} us,"
        f" Plancherel {1e3 * fft_seconds / few:.0f} ms ({ratio:.0f} x), off by {off:.0e}"
    )
    assert ratio >= 1000


def test_a_filter_for_a_million_people_and_a_thousand_steps(report):
    rng = np.random.default_rng(1)
    steps = [rng.uniform(0, 0.12, PEOPLE) for _ in range(8)]
    budget, active = GDPFilter(people=PEOPLE, mu=2.0), np.empty(PEOPLE, np.bool_)
    _, seconds, busy = timed(lambda: [budget.step(steps[k % 8], out=active) for k in range(1000)])
    report.notes.append(
        f"filter, {PEOPLE} people x 1000 steps: {seconds:.1f} s ({busy:.1f} s of processor time)"
    )
    assert (budget.spent() <= 2.0).all() and min(seconds, busy / 2) <= 10.0
