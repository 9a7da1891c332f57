"""Random parameters over twelve orders of magnitude: ordered bounds, our errors, no hang.

`MECHC_EXTREMES` sets the number of vectors (20000 for the figure in docs/reliability.md).
"""

import math
import os
import resource
import signal
import warnings

import numpy as np
import pytest

import mechc
from mechc.errors import MechcError

NAMES = ("gaussian", "laplace", "cauchy", "discrete_laplace", "randomized_response")
SECONDS = 60
MEMORY = 4 << 30  # bytes that the process may grow to


def vectors(mechanism, count, generator):
    """Parameters 1e-6 .. 1e6 around their smallest, clipped into their domains."""
    for _ in range(count):
        values = {}
        for p in mechanism.parameters:
            value = 10.0 ** generator.uniform(-6.0, 6.0)
            value = float(math.ceil(value)) if p.integer else value
            values[p.name] = min(max(value, p.lo), p.hi) if p.hi > p.lo else value
        yield values, int(10 ** generator.uniform(0.0, 9.0)), 10.0 ** generator.uniform(-6.0, 3.0)


def expire(*_):
    raise TimeoutError(f"no answer in {SECONDS} s")


def ask(mechanism, count, seed):
    """The number of refusals among `count` random questions."""
    generator = np.random.default_rng(seed)
    signal.signal(signal.SIGALRM, expire)
    refused = 0
    for values, steps, epsilon in vectors(mechanism, count, generator):
        signal.alarm(SECONDS)
        try:
            bound = (steps * mechanism(**values)).delta(epsilon)
        except MechcError:
            refused += 1
            continue
        finally:
            signal.alarm(0)
        assert 0.0 <= bound.lower <= bound.upper <= 1.0, (values, steps, epsilon, bound)
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_ordered_at_any_parameters(name):
    mechanism = mechc.load(name)
    count = int(os.environ.get("MECHC_EXTREMES", "30"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow that is meant and handled
            refused = ask(mechanism, count, seed=20)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    print(f"{name}: {refused} of {count} refused")
    assert refused <= count // 2
