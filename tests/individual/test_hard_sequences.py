"""A thousand random sequences of steps, most of them hard: bounds against whole compositions.

Ten people each in a hundred families: sampling rates from 1e-4 to 0.5, Gaussian and Laplace noise
down to 0.5, one to ten thousand steps, delta from 1e-9 to 1e-4. A composition of the steps as they
were (no buckets, no tables, other methods) says whether delta at the upper bound exceeds delta.
"""

import math

import numpy as np
import pytest

import mechc
from mechc.composition.events import forget_losses
from mechc.individual import IndividualAccountant

PEOPLE = 10
KINDS = ["sampled", "sampled", "sampled", "sampled", "plain", "laplace", "sampled laplace"]


def drawn(family):
    """Mechanism, parameter, span, steps of shape (distinct, people), repetitions and delta."""
    rng = np.random.default_rng(7000 + family)
    kind, rate = rng.choice(KINDS), float(10 ** rng.uniform(-4, math.log10(0.5)))
    low = float(np.exp(rng.uniform(math.log(0.5), math.log(2.5))))
    distinct, total = int(rng.integers(1, 13)), round(10 ** rng.uniform(0, 4))
    counts = [max(1, int(c)) for c in rng.multinomial(total, np.full(distinct, 1 / distinct))]
    delta = float(10 ** rng.uniform(-9, -4))
    base = low * 1.02 * np.exp(rng.uniform(0, 2.5, PEOPLE))
    spread = rng.choice([0.05, 0.4, 1.0])
    steps = np.minimum(base * np.exp(rng.exponential(spread, (distinct, PEOPLE))), 49.0)
    steps[rng.random(steps.shape) < 0.1] = np.inf
    name, parameter = ("laplace", "scale") if "laplace" in kind else ("gaussian", "sigma")
    mechanism = mechc.load(name)
    if "sampled" in kind:
        mechanism = mechc.poisson(mechanism, sampling_rate=rate)
    return mechanism, parameter, (low, 50.0), steps, counts, delta


@pytest.mark.parametrize("family", [pytest.param(f, marks=pytest.mark.slow) for f in range(100)])
def test_bounds_hold_for_the_steps_as_they_were(family):
    mechanism, parameter, span, steps, counts, delta = drawn(family)
    accountant = IndividualAccountant(
        mechanism, parameter=parameter, people=PEOPLE, span=span, rtol=1e-3
    )
    for row, count in zip(steps, counts, strict=True):
        accountant.step(row, count=count)
    bound = accountant.epsilon(delta)
    for person, (lower, upper) in enumerate(zip(bound.lower, bound.upper, strict=True)):
        taken = [(s, c) for s, c in zip(steps[:, person], counts, strict=True) if s < np.inf]
        if not taken or upper < 1e-9:
            continue
        run = mechc.compose(*((mechanism(**{parameter: float(s)}), c) for s, c in taken))
        assert float(run.delta(float(upper)).lower) <= delta
        assert float(run.delta(float(upper) * (1 - 1e-3)).upper) >= delta
        assert lower > 0.0 and float(run.delta(float(lower)).upper) >= delta
    forget_losses()
