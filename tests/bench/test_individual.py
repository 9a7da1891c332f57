"""Individual accounting at the scale of populations: filters, epsilons, and the FFT beside them."""

import resource
import time

import numpy as np
import pytest

import mechc
from mechc.individual import GDPFilter, IndividualAccountant
from mechc.individual.family import Family

PEOPLE, FINE = 1_000_000, 640  # buckets of the FFT


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


def test_against_the_plancherel_method_and_the_plain_accountant(report):
    """A person's share of one answer for everybody, beside what one person costs by itself.

    200 000 people, 50 steps each with ratios that no two steps share. The peers answer for a few of
    them: the FFT of the counts, 48 further people after 24 whose steps fill all buckets, so that no
    spectrum is made for them; and a composition of the person's own steps. What is compiled is
    warm on all three sides; tables of the accountant are not, and are part of its time, but not of
    that of a further person. The FFT has four times the usual buckets, and is off by 2 %.
    """
    people, few, delta = 200_000, np.arange(72), 1e-6
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    ratios = np.exp(np.random.default_rng(1).uniform(np.log(1.05), np.log(60.0), (50, people)))

    def answered(rows, **options):
        about = {"parameter": "sigma", "people": rows.size, "span": (1.05, 60.0), **options}
        accountant = IndividualAccountant(mechanism, **about)
        for values in ratios:
            accountant.step(values[rows])
        return accountant, accountant.epsilon(delta)

    def composed(person):
        steps = [mechanism(sigma=v) for v in ratios[:, person].tolist()]
        return sum(steps[1:], steps[0]).epsilon(delta=delta)

    answered(few[:4], rtol=1e-3, buckets=64)  # loads what is compiled
    (accountant, ours), _, seconds = timed(lambda: answered(np.arange(people)))
    _, _, again = timed(lambda: accountant.epsilon(delta))
    composed(people - 1)
    plain, _, alone = timed(lambda: [composed(i) for i in few[:4].tolist()])
    counts, _ = answered(few, splines=False, buckets=FINE)
    _, _, first = timed(lambda: counts.epsilon(delta, method="plancherel", rows=few[:24]))
    fft, _, both = timed(lambda: counts.epsilon(delta, method="plancherel"))
    each, loop, spectral = seconds / people, alone / len(plain), (both - first) / 48
    further = again / people
    off = np.abs(fft.estimate / ours.upper[few] - 1).max()
    report.notes.append(
        f"per person, of {people}: {1e6 * each:.0f} us ({seconds:.1f} s in all), a further one"
        f" {1e6 * further:.0f} us; plain accountant {1e3 * loop:.0f} ms ({loop / each:.0f} x),"
        f" Plancherel, {FINE} buckets, {1e3 * spectral:.0f} ms for a further one"
        f" ({spectral / each:.0f} x, {spectral / further:.0f} x of a further one),"
        f" {1e3 * first / 24:.0f} ms with the spectra ({first / 24 / each:.0f} x), off by"
        f" {off:.0e}"
    )
    for i, bound in enumerate(plain):
        assert ours.lower[i] <= bound.upper and bound.lower <= ours.upper[i]
    assert loop >= 500 * each and spectral >= 5000 * further


def test_a_filter_for_a_million_people_and_a_thousand_steps(report):
    rng = np.random.default_rng(1)
    steps = [rng.uniform(0, 0.12, PEOPLE) for _ in range(8)]
    budget, active = GDPFilter(people=PEOPLE, mu=2.0), np.empty(PEOPLE, np.bool_)
    _, seconds, busy = timed(lambda: [budget.step(steps[k % 8], out=active) for k in range(1000)])
    report.notes.append(
        f"filter, {PEOPLE} people x 1000 steps: {seconds:.1f} s ({busy:.1f} s of processor time)"
    )
    assert (budget.spent() <= 2.0).all() and min(seconds, busy / 2) <= 10.0
