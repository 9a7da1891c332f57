"""Individual accounting at the scale of populations: filters, epsilons, and the FFT beside them."""

import resource
import time

import numpy as np
import pytest

import mechc
from mechc.individual import GDPFilter, IndividualAccountant, singly
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


def test_against_the_plancherel_method_and_the_plain_accountant(report, monkeypatch):
    """A person's share of one answer for everybody, beside what one person costs by itself.

    200 000 people, 50 steps each with ratios that no two steps share. The peers answer for a few of
    them. What is compiled is warm on all sides; tables of the accountant are not, and are part of
    its time. The FFT of counts rounds every step up to its bucket: what it is off by falls as the
    number of buckets grows, and so does its speed. As accurate as our intervals are wide it is only
    with a spectrum for each of a person's own steps, on a grid with the fewest points (a power of
    two) that are enough for that. Its laws and the length of the grid are not part of its time.
    """
    people, delta = 200_000, 1e-6
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    ratios = np.exp(np.random.default_rng(1).uniform(np.log(1.05), np.log(60.0), (50, people)))

    def filled(rows, **options):
        about = {"parameter": "sigma", "people": rows.size, "span": (1.05, 60.0), **options}
        accountant = IndividualAccountant(mechanism, **about)
        for values in ratios:
            accountant.step(values[rows])
        return accountant

    def composed(person):
        steps = [mechanism(sigma=v) for v in ratios[:, person].tolist()]
        return sum(steps[1:], steps[0]).epsilon(delta=delta)

    def spectral(accountant, rows=None):
        found, _, busy = timed(lambda: accountant.epsilon(delta, method="plancherel", rows=rows))
        return found.estimate, busy

    filled(np.arange(4), rtol=1e-3, buckets=64).epsilon(delta)  # loads what is compiled
    ours, _, seconds = timed(lambda: filled(np.arange(people)).epsilon(delta))
    composed(people - 1)
    plain, _, alone = timed(lambda: [composed(i) for i in range(4)])
    exact, each, loop = np.array([b.estimate for b in plain]), seconds / people, alone / 4
    width = float(np.median(ours.detail["relative_width"]))
    report.notes.append(
        f"per person, of {people}: {1e6 * each:.0f} us ({seconds:.1f} s in all), median width"
        f" {width:.1e}; plain accountant {1e3 * loop:.0f} ms ({loop / each:.0f} x)"
    )
    counts = filled(np.arange(72), splines=False)  # after 24 people all buckets have spectra
    first, more = (spectral(counts, np.arange(n)) for n in (24, 72))
    further, off = (more[1] - first[1]) / 48, np.abs(more[0][:4] / exact - 1).max()
    report.notes.append(
        f"  Plancherel, {counts.grid.buckets} buckets, off by {off:.0e}: {1e3 * further:.0f} ms for"
        f" a further one ({further / each:.0f} x)"
    )
    alike = [filled(np.array([i]), settings=ratios[:, i]) for i in range(4)]
    for points in 1 << np.arange(12, 18):
        monkeypatch.setattr(singly, "POINTS", int(points))
        own = [[spectral(one) for one in alike] for _ in range(2)][1]  # tables are there
        off = np.abs(np.array([estimate[0] for estimate, _ in own]) / exact - 1).max()
        spectra = sum(busy for _, busy in own) / 4
        report.notes.append(
            f"  Plancherel, the person's own steps, {points} points, off by {off:.0e}:"
            f" {1e3 * spectra:.0f} ms ({spectra / each:.0f} x)"
        )
        if off <= width:
            break
    for i, bound in enumerate(plain):
        assert ours.lower[i] <= bound.upper and bound.lower <= ours.upper[i]
    assert off <= width and loop >= 500 * each and spectra >= 5000 * each


def test_a_filter_for_a_million_people_and_a_thousand_steps(report):
    rng = np.random.default_rng(1)
    steps = [rng.uniform(0, 0.12, PEOPLE) for _ in range(8)]
    budget, active = GDPFilter(people=PEOPLE, mu=2.0), np.empty(PEOPLE, np.bool_)
    _, seconds, busy = timed(lambda: [budget.step(steps[k % 8], out=active) for k in range(1000)])
    report.notes.append(
        f"filter, {PEOPLE} people x 1000 steps: {seconds:.1f} s ({busy:.1f} s of processor time)"
    )
    assert (budget.spent() <= 2.0).all() and min(seconds, busy / 2) <= 10.0
