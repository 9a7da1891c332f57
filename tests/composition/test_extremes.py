"""Random parameters over twelve orders of magnitude: ordered bounds, our errors, no hang.

All mechanisms of the catalogue, plain and Poisson sampled. `MECHC_EXTREMES` sets the number of
questions for each (docs/reliability.md has the figures). No warning may reach the user.
"""

import contextlib
import math
import os
import resource
import signal
import time

import mpmath
import numpy as np
import pytest

import mechc
from mechc.errors import MechcError, NumericError

SECONDS = 60  # of processor time
MEMORY = 4 << 30  # bytes of address space that the process may take
REPLACING = ("randomized_response", "shuffle")  # pairs for replacing a record are not sampled so


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
    """Numbers of refusals and of caps on work met in `count` questions, and most seconds of one.

    The cap is the query's own: the alarm, which knows seconds, must never go off.
    """
    generator = np.random.default_rng(seed)
    before = signal.signal(signal.SIGPROF, expire)
    refused, met, slowest = 0, 0, 0.0
    for values, steps, epsilon in vectors(mechanism, count, generator):
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            bound = (steps * mechanism(**values)).delta(epsilon)
        except MechcError:
            refused += 1
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, time.process_time() - start)
        assert 0.0 <= bound.lower <= bound.upper <= 1.0, (values, steps, epsilon, bound)
        met += "max_work" in bound.detail
    signal.signal(signal.SIGPROF, before)
    return refused, met, slowest


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sampled", [False, True], ids=["plain", "sampled"])
@pytest.mark.parametrize("name", mechc.available())
def test_bounds_are_ordered_at_any_parameters(name, sampled):
    if sampled and name in REPLACING:
        pytest.skip("a pair for replacing a record")
    mechanism = mechc.poisson(mechc.load(name)) if sampled else mechc.load(name)
    count = int(os.environ.get("MECHC_EXTREMES", "5"))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        mechanism.compile()
        refused, met, slowest = ask(mechanism, count, seed=20)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{mechanism.name}: {count} asked, {refused} refused, {met} met the cap on work, "
        f"slowest {slowest:.1f} s, at most {peak} MiB so far"
    )


SAMPLED = "sampling_rate"
KNOWN = [
    ("exponential_mechanism", {"epsilon": 31635.6, SAMPLED: 0.18244}, 4, 113.6),
    ("gaussian", {"sigma": 0.2588, "sensitivity": 1.346e-6, SAMPLED: 1.399e-5}, 7, 1.333),
    ("gaussian_scale_mixture", {"weight": 2.1e-4, "narrow": 2.5e-4, "wide": 0.0739,
                                "sensitivity": 446254.2, SAMPLED: 1.0}, 1756186, 1e-5),
    ("discrete_gaussian", {"sigma": 941.1909223961677, SAMPLED: 1.0}, 32, 0.005389043632278912),
    ("logistic", {"scale": 0.00019570769554120969, "sensitivity": 8386.188264535964,
                  SAMPLED: 0.0009489584274668297}, 217, 0.0009821213275160697),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "values", "steps", "epsilon"), KNOWN, ids=[k[0] for k in KNOWN])
def test_questions_that_once_failed(name, values, steps, epsilon):
    """Warnings of numpy, an error of Python, no answer within a minute."""
    before = signal.signal(signal.SIGPROF, expire)
    event = mechc.poisson(mechc.load(name))(**values)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        bound = (steps * event).delta(epsilon)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert 0.0 <= bound.lower <= bound.upper <= 1.0


@pytest.mark.parametrize(("users", "epsilon"), [(1, 5.0), (2, 26.9), (3, 13.3), (8, 35.0)])
def test_shuffled_reports_of_users_who_hide_little(users, epsilon):
    """Clones are rare: next to the largest loss its digits are those of e^-epsilon."""
    with mpmath.workdps(60):
        e, law = mpmath.mpf(epsilon), []
        near, far = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
        for c in range(1, users + 1):
            others = mpmath.binomial(users - 1, c - 1) * mpmath.exp(-e * (c - 1))
            others *= (1 - mpmath.exp(-e)) ** (users - c) * mpmath.mpf(2) ** (1 - c) / c
            for a in range(c + 1):
                weight = others * mpmath.binomial(c, a)
                law.append(
                    (weight * (a * near + (c - a) * far), weight * (a * far + (c - a) * near))
                )
        event = mechc.load("shuffle")(users=users, epsilon=epsilon)
        for at in (epsilon / 2, epsilon - 1, epsilon - 0.001):
            truth = sum(max(p - mpmath.exp(mpmath.mpf(at)) * q, 0) for p, q in law)
            found = event.delta(at)
            assert found.lower * (1 - 1e-13) <= truth <= found.upper * (1 + 1e-13)
            assert found.upper == pytest.approx(float(truth), rel=1e-10)
        assert event.delta(epsilon + 0.01).lower == 0.0 < event.delta(epsilon + 0.01).upper < 1e-20


def tail(x):
    """Of a standard normal law."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def gaussian_profile(d, e):
    return tail(e / d - d / 2) - mpmath.exp(e) * tail(e / d + d / 2)


def gumbel_profile(d, e):
    """Adding: P is the noise and Q that noise moved up by d; the loss falls."""
    power = (e + d) / mpmath.expm1(d)  # exp(-x) at which the loss is e
    return mpmath.exp(-power) - mpmath.exp(e - power * mpmath.exp(d))


def laplace_profile(d, e):
    return -mpmath.expm1((e - d) / 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-130, 1e-75, 4e-19, 3e-11, 1.0, 1e10])
@pytest.mark.parametrize(
    ("name", "scale", "profile"),
    [("gaussian", "sigma", gaussian_profile), ("gumbel", "scale", gumbel_profile),
     ("laplace", "scale", laplace_profile)],
)  # fmt: skip
def test_answers_do_not_depend_on_units(name, scale, profile, unit):
    """Noise far narrower, or wider, than where mass is looked for first."""
    for moved, epsilons in ((1.5, (0.0, 0.7, 1.2)), (1e-10, (0.0, 4e-11)), (1e-20, (0.0,))):
        if name == "gumbel" and moved < 1.0:
            continue  # its loss is no difference that doubles keep there
        event = mechc.load(name)(**{scale: unit, "sensitivity": unit * moved})
        for epsilon in epsilons:
            with mpmath.workdps(60):
                d = mpmath.mpf(unit * moved) / mpmath.mpf(unit)
                truth = profile(d, mpmath.mpf(epsilon))
            found = event.delta(epsilon, direction="add")
            assert found.lower * (1 - 1e-14) <= truth <= found.upper * (1 + 1e-14)
            if unit > 1e-40 or moved > 1.0:  # else logs of normalisers are short of digits
                assert found.upper - found.lower <= 1e-8 * found.upper


@pytest.mark.filterwarnings("error")
def test_what_is_revealed_between_two_doubles():
    """An interval of outputs of one law alone, whose two ends are one double, has its mass."""
    for moved in (1e-10, 1e-15, 1e-16, 5e-17, 1e-30, 1e-300):
        found = mechc.load("uniform")(halfwidth=1.0, sensitivity=moved).delta(0.0)
        assert found.lower <= 0.5 * moved <= found.upper
        seen = mechc.truncate(mechc.load("uniform")(halfwidth=1.0, sensitivity=moved), -3.0, 3.0)
        assert seen.delta(0.0).lower <= 0.5 * moved <= seen.delta(0.0).upper
        many = (3 * mechc.load("uniform")(halfwidth=1.0, sensitivity=moved)).delta(0.0)
        assert many.lower <= 1.5 * moved <= many.upper * (1 + 1e-9)
        cut = mechc.load("truncated_laplace")(scale=1.0, halfwidth=5.0, sensitivity=moved)
        found, truth = cut.delta(0.0), math.expm1(-0.5 * moved) / math.expm1(-5.0)
        assert found.lower * (1 - 1e-14) <= truth <= found.upper * (1 + 1e-14)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "values"), [("gaussian", {"sigma": 1e300}), ("huber", {"scale": 1e300, "bend": 1.0})]
)
def test_parameters_whose_squares_no_double_holds(name, values):
    """All that is left to say is what is always true."""
    bound = mechc.load(name)(**values, sensitivity=1e300).delta(1.0)
    assert bound.lower <= tail(0.5) - math.e * tail(1.5) <= bound.upper


@pytest.mark.filterwarnings("error")
def test_noise_without_any_width():
    event = mechc.load("gaussian")(sigma=1e-107, sensitivity=7e12)
    assert event.delta(0.0).upper == 1.0


@pytest.mark.parametrize(
    "values",
    [{"sigma": 2.0, "sensitivity": 1e308}, pytest.param({"sigma": 1e-300}, marks=pytest.mark.slow)],
)
def test_integers_beyond_doubles_and_sums_of_nothing_end(values):
    """Sums of nan end; integers that are not told apart from others are not listed."""
    run = mechc.load("discrete_gaussian")(**values)
    assert run.delta(1.0).upper == 1.0
    with contextlib.suppress(NumericError):
        assert run.epsilon(1e-4).upper == math.inf


@pytest.mark.parametrize("sensitivity", [1e12, 1e308])
def test_integers_too_far_off_to_be_listed_are_not_looked_for(sensitivity):
    """The mass of one law is farther out than any list: that is seen at places that double."""
    run = mechc.load("discrete_gaussian")(sigma=2.0, sensitivity=1)
    run.delta(1.0)
    start = time.process_time()
    assert mechc.load("discrete_gaussian")(sigma=2.0, sensitivity=sensitivity).delta(1.0) >= 1.0
    assert time.process_time() - start < 1.0
