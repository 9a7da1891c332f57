"""Time of a query, warm: new parameters, a further epsilon, growing counts, epsilon."""

import itertools
import statistics

import numpy as np
import pytest

import mechc
from mechc.composition import forget_losses

COUNTS = (10**2, 10**4, 10**6, 10**9)


@pytest.fixture(scope="module")
def sampled():
    mechanism = mechc.poisson(mechc.load("gaussian"))
    (500 * mechanism(sampling_rate=0.02, sigma=1.3)).epsilon(1e-5)  # machine code
    return mechanism


def settings(count):
    """Endless distinct parameters for which epsilon = 1 is a sensible question."""
    rng = np.random.default_rng(7)
    while True:
        rate = float(rng.uniform(0.008, 0.012))
        yield rate, float(rng.uniform(0.9, 1.1)) * max(0.9, rate * np.sqrt(count) / 0.4)


@pytest.mark.parametrize("count", COUNTS)
def test_new_query(benchmark, report, sampled, count):
    draw = settings(count)

    def fresh():
        forget_losses()
        rate, sigma = next(draw)
        return (count * sampled(sampling_rate=rate, sigma=sigma),), {}

    benchmark.pedantic(lambda run: run.delta(1.0), setup=fresh, rounds=60, warmup_rounds=3)
    median = 1e3 * benchmark.stats.stats.median
    report.notes.append(f"delta for new (q, sigma, epsilon), {count:>10} steps: {median:6.2f} ms")


def test_further_epsilon(benchmark, report, sampled):
    run = 3000 * sampled(sampling_rate=0.01, sigma=2.0)
    run.delta(1.0)
    points = itertools.cycle(np.linspace(0.8, 1.6, 997))
    benchmark.pedantic(lambda: run.delta(float(next(points))), rounds=300, warmup_rounds=5)
    median = 1e3 * benchmark.stats.stats.median
    report.notes.append(f"delta for a further epsilon on the same run: {median:6.3f} ms")


def test_new_epsilon(benchmark, report, sampled):
    draw = settings(3000)

    def fresh():
        forget_losses()
        rate, sigma = next(draw)
        return (3000 * sampled(sampling_rate=rate, sigma=sigma),), {}

    benchmark.pedantic(lambda run: run.epsilon(1e-5), setup=fresh, rounds=40, warmup_rounds=3)
    median = 1e3 * benchmark.stats.stats.median
    report.notes.append(f"epsilon for new (q, sigma), 3000 steps:         {median:6.2f} ms")


def test_binding_and_composing(benchmark, sampled):
    sigmas = itertools.count(1)
    benchmark.pedantic(
        lambda: 1000 * sampled(sampling_rate=0.01, sigma=float(next(sigmas))),
        rounds=2000,
        warmup_rounds=10,
    )
    assert statistics.median(benchmark.stats.stats.data) < 1e-4
