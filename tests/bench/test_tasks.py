"""Longer tasks beside other libraries: many distinct steps, many counts, calibration, atoms."""

import itertools
import math
import warnings
from functools import partial

import numpy as np
import pytest
from conftest import Row

import mechc
from mechc.composition.events import forget_losses
from mechc.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("default")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    dp_accounting = pytest.importorskip("dp_accounting")
    prv_accountant = pytest.importorskip("prv_accountant")

from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: E402

COUNTS = range(200, 10_001, 200)
GRID = 1e-4


def sampled(name="gaussian"):
    return mechc.poisson(mechc.load(name))


def distinct_steps(count):
    rng = np.random.default_rng(11)
    return list(zip(rng.uniform(0.001, 0.01, count), rng.uniform(0.8, 2.0, count), strict=True))


def timed(benchmark, report, task, tool, ask, rounds):
    """Run, and add a row; `ask` returns the lower and the upper end of an interval."""
    lower, upper = benchmark.pedantic(ask, rounds=rounds, warmup_rounds=1 if rounds > 1 else 0)
    report.rows.append(Row(task, tool, benchmark.stats.stats.median, lower, upper))
    return lower, upper


def heterogeneous_mechc(distinct, count):
    forget_losses()
    event = sampled()
    parts = [(event(sampling_rate=q, sigma=s), count) for q, s in distinct_steps(distinct)]
    answer = mechc.compose(*parts).epsilon(1e-6)
    return answer.lower, answer.upper


def heterogeneous_dp_accounting():
    total = None
    for q, s in distinct_steps(100):
        one = pld.from_gaussian_mechanism(
            s, sampling_prob=q, value_discretization_interval=GRID
        ).self_compose(100)
        total = one if total is None else total.compose(one)
    return None, total.get_epsilon_for_delta(1e-6)


def heterogeneous_prv():
    steps = distinct_steps(100)
    accountant = prv_accountant.PRVAccountant(
        [
            prv_accountant.PoissonSubsampledGaussianMechanism(
                noise_multiplier=s, sampling_probability=q
            )
            for q, s in steps
        ],
        max_self_compositions=[100] * 100,
        eps_error=0.1,
        delta_error=1e-9,
    )
    lower, _, upper = accountant.compute_epsilon(1e-6, num_self_compositions=[100] * 100)
    return float(lower), float(upper)


def curve_mechc():
    forget_losses()
    curve = sampled()(sampling_rate=0.01, sigma=1.0).epsilon_curve(1e-6, COUNTS)
    return curve.lower[-1], curve.upper[-1]


def curve_dp_accounting():
    one = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01, value_discretization_interval=GRID)
    block, total, answer = one.self_compose(200), None, None
    for _ in COUNTS:
        total = block if total is None else total.compose(block)
        answer = total.get_epsilon_for_delta(1e-6)
    return None, answer


def curve_prv():
    accountant = prv_accountant.PRVAccountant(
        prv_accountant.PoissonSubsampledGaussianMechanism(
            noise_multiplier=1.0, sampling_probability=0.01
        ),
        max_self_compositions=max(COUNTS),
        eps_error=0.1,
        delta_error=1e-9,
    )
    for count in COUNTS:
        lower, _, upper = accountant.compute_epsilon(1e-6, num_self_compositions=count)
    return float(lower), float(upper)


def calibrate_mechc():
    forget_losses()
    found = mechc.calibrate(
        sampled(), solve_for="sigma", epsilon=2.0, delta=1e-6, count=5000, sampling_rate=0.01
    )
    return None, found.value


def calibrate_dp_accounting():
    from dp_accounting import mechanism_calibration as calibration

    def event(sigma):
        return dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma)), 5000
        )

    value = calibration.calibrate_dp_mechanism(
        lambda: dp_accounting.pld.PLDAccountant(value_discretization_interval=GRID),
        event,
        2.0,
        1e-6,
        calibration.ExplicitBracketInterval(0.5, 10.0),
        tol=1e-4,
    )
    return None, float(value)


def laplace_mechc():
    forget_losses()
    answer = (1000 * sampled("laplace")(sampling_rate=0.02, scale=1.0)).epsilon(1e-6)
    return answer.lower, answer.upper


def laplace_dp_accounting():
    one = pld.from_laplace_mechanism(1.0, sampling_prob=0.02, value_discretization_interval=GRID)
    return None, one.self_compose(1000).get_epsilon_for_delta(1e-6)


def small_delta_mechc(delta):
    forget_losses()
    answer = (3000 * sampled()(sampling_rate=0.01, sigma=2.0)).epsilon(delta)
    return answer.lower, answer.upper


def small_delta_dp_accounting(delta):
    return None, renyi_of([(0.01, 2.0, 3000)]).get_epsilon(delta)


def renyi_of(steps):
    accountant = dp_accounting.rdp.RdpAccountant()
    for rate, sigma, count in steps:
        one = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
        accountant.compose(one, count)
    return accountant


def thousand_dp_accounting():
    return None, renyi_of([(q, s, 10) for q, s in distinct_steps(1000)]).get_epsilon(1e-6)


def settings():
    rng = np.random.default_rng(13)
    rates, sigmas = rng.uniform(0.001, 0.02, 200), rng.uniform(0.8, 3.0, 200)
    return zip(rates, sigmas, rng.integers(100, 5000, 200).tolist(), strict=True)


def settings_mechc():
    forget_losses()
    event = sampled()
    for q, s, count in settings():
        answer = (count * event(sampling_rate=q, sigma=s)).epsilon(1e-6)
    return answer.lower, answer.upper


def settings_dp_accounting():
    return None, [renyi_of([setting]).get_epsilon(1e-6) for setting in settings()][-1]


def settings_prv():
    for q, s, count in settings():
        law = prv_accountant.PoissonSubsampledGaussianMechanism(
            noise_multiplier=s, sampling_probability=q
        )
        accountant = prv_accountant.PRVAccountant(
            law, max_self_compositions=count, eps_error=0.1, delta_error=1e-9
        )
        lower, _, upper = accountant.compute_epsilon(1e-6, num_self_compositions=count)
    return float(lower), float(upper)


TASKS = {
    "epsilon, 100 distinct steps x 100": (
        ("mechc", partial(heterogeneous_mechc, 100, 100), 5),
        ("dp-accounting h=1e-4", heterogeneous_dp_accounting, 1),
        ("prv .1", heterogeneous_prv, 1),
    ),
    "epsilon after each of 50 counts": (
        ("mechc", curve_mechc, 10),
        ("dp-accounting h=1e-4", curve_dp_accounting, 1),
        ("prv .1", curve_prv, 1),
    ),
    "calibrate sigma, eps 2, k=5000": (
        ("mechc", calibrate_mechc, 5),
        ("dp-accounting h=1e-4", calibrate_dp_accounting, 1),
    ),
    "epsilon, Laplace q=.02 k=1000": (
        ("mechc", laplace_mechc, 5),
        ("dp-accounting h=1e-4", laplace_dp_accounting, 3),
    ),
    **{
        f"epsilon at delta={delta:g}, k=3000": (
            ("mechc", partial(small_delta_mechc, delta), 10),
            ("dp-accounting Renyi", partial(small_delta_dp_accounting, delta), 3),
        )
        for delta in (1e-20, 1e-100)
    },
    "epsilon, 1000 distinct steps x 10": (
        ("mechc", partial(heterogeneous_mechc, 1000, 10), 2),
        ("dp-accounting Renyi", thousand_dp_accounting, 1),
    ),
    "epsilon, 200 settings one by one": (
        ("mechc", settings_mechc, 3),
        ("dp-accounting Renyi", settings_dp_accounting, 1),
        ("prv .1", settings_prv, 1),
    ),
}
TRUTH = {
    "calibrate sigma, eps 2, k=5000": 1.747700363325,
    "epsilon, Laplace q=.02 k=1000": 2.74011317,
    "epsilon at delta=1e-20, k=3000": 2.76284735,
    "epsilon at delta=1e-100, k=3000": 8.08840765,
}
CASES = [(task, *row) for task, rows in TASKS.items() for row in rows]


@pytest.mark.parametrize("task, tool, ask, rounds", CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_longer_task(benchmark, report, task, tool, ask, rounds):
    _, upper = timed(benchmark, report, task, tool, ask, rounds)
    assert math.isfinite(upper)
    if tool == "mechc" and task in TRUTH:
        assert upper == pytest.approx(TRUTH[task], rel=1e-8)


METHODS = (
    ("auto", {}), ("contour", {}), ("pld", {}), ("prv", {}), ("fourier", {}), ("renyi", {}),
    ("clt", {}), ("saddlepoint:msd0", {}), ("saddlepoint:msd1", {}), ("saddlepoint:msd2", {}),
    ("saddlepoint:clt", {}), ("saddlepoint:moments", {}), ("saddlepoint:edgeworth", {}),
    ("edgeworth:2", {}), ("edgeworth:4", {}), ("edgeworth", {"interval": True, "error": "moments"}),
    ("edgeworth", {"interval": True}),
)  # fmt: skip


EVERY = {  # task: name, parameters and count of each step, epsilon or delta, answer
    "delta, q=.01 s=1.5 k=10000": (
        [("gaussian", {"sampling_rate": 0.01, "sigma": 1.5}, 10_000)], {"epsilon": 1.0},
        0.0496014103148258,
    ),
    "epsilon, q=.01 s=.8 k=2000": (
        [("gaussian", {"sampling_rate": 0.01, "sigma": 0.8}, 2000)], {"delta": 1e-5},
        4.2934362885701,
    ),
    "delta, q=.004 s=.8 k=1000": (
        [("gaussian", {"sampling_rate": 0.004, "sigma": 0.8}, 1000)], {"epsilon": 1.5},
        2.574967467034e-6,
    ),
    "epsilon, q=.01 s=2 k=3000": (
        [("gaussian", {"sampling_rate": 0.01, "sigma": 2.0}, 3000)], {"delta": 1e-10},
        1.810442597,
    ),
    "epsilon at 1e-100, k=3000": (
        [("gaussian", {"sampling_rate": 0.01, "sigma": 2.0}, 3000)], {"delta": 1e-100},
        8.08840765,
    ),
    "epsilon, Laplace q=.02 k=1000": (
        [("laplace", {"sampling_rate": 0.02, "scale": 1.0}, 1000)], {"delta": 1e-6}, 2.74011317,
    ),
    "delta, 100 distinct steps x 100": (
        [("gaussian", {"sampling_rate": q, "sigma": s}, 100) for q, s in distinct_steps(100)],
        {"epsilon": 2.9}, math.nan,
    ),
}  # fmt: skip


@pytest.mark.parametrize("method, options", METHODS)
@pytest.mark.parametrize("task", EVERY)
def test_every_method_on_every_task(benchmark, report, task, method, options):
    steps, question, truth = EVERY[task]
    query, (at,) = ("delta", "epsilon")["delta" in question], question.values()
    turns = itertools.count(1)
    name = " ".join([method, *(f"{key}={value}" for key, value in options.items())])

    def ask():
        parts = []
        for mechanism, parameters, count in steps:
            rate = parameters["sampling_rate"] * (1.0 + 1e-13 * next(turns))  # nothing remembered
            parts.append((sampled(mechanism)(**{**parameters, "sampling_rate": rate}), count))
        how = {"method": method, "max_work": 1e12, **options}
        answer = getattr(mechc.compose(*parts), query)(at, **how)
        sides = (answer.lower, answer.upper)
        return (answer.estimate, answer.estimate) if math.isnan(answer.upper) else sides

    sampled(steps[0][0])(**steps[0][1]).delta(1.0)  # machine code is loaded before the clock runs
    try:
        rounds = 3 if len(steps) == 1 else 1
        lower, upper = timed(benchmark, report, f"every method: {task}", name, ask, rounds)
    except UnsupportedError as error:
        report.refusals.append(f"{task}: {error}")
        pytest.skip(str(error))
    if lower != upper and not math.isnan(upper + truth):
        assert lower <= truth * (1.0 + 1e-6) and truth * (1.0 - 1e-6) <= upper


@pytest.mark.parametrize(
    "tool, name, values, count",
    [
        ("auto", "laplace", {"scale": 10.0}, 10),
        ("direct", "laplace", {"scale": 10.0}, 10),
        ("contour", "laplace", {"scale": 10.0}, 10),
        ("pld", "laplace", {"scale": 10.0}, 10),
        ("dp-accounting h=1e-4", "laplace", {"scale": 10.0}, 10),
        ("auto", "discrete_laplace", {"a": 0.1}, 1000),
        ("lattice", "discrete_laplace", {"a": 0.1}, 1000),
        ("pld", "discrete_laplace", {"a": 0.1}, 1000),
        ("dp-accounting h=1e-4", "discrete_laplace", {"a": 0.1}, 1000),
    ],
)
def test_methods_for_atoms(benchmark, report, tool, name, values, count):
    (parameter, value), epsilon = next(iter(values.items())), 0.1 * count**0.5 + 0.005 * count
    turns = itertools.count(1)
    mechanism = mechc.load(name)

    def ask():
        changed = value * (1.0 + 1e-12 * next(turns))
        if tool.startswith("dp"):
            make = getattr(pld, f"from_{name}_mechanism")
            law = make(changed, value_discretization_interval=1e-4)
            return None, law.self_compose(count).get_delta_for_epsilon(epsilon)
        answer = (count * mechanism(**{parameter: changed})).delta(epsilon, method=tool)
        return answer.lower, answer.upper

    timed(benchmark, report, f"every method: {name}, k={count}", tool, ask, 3)


def test_many_distinct_steps(benchmark, report):
    rng = np.random.default_rng(12)
    event = sampled()

    def fresh():
        forget_losses()
        rates, sigmas = rng.uniform(0.001, 0.01, 1000), rng.uniform(0.8, 2.0, 1000)
        parts = [(event(sampling_rate=q, sigma=s), 10) for q, s in zip(rates, sigmas, strict=True)]
        return (mechc.compose(*parts),), {}

    benchmark.pedantic(lambda run: run.delta(1.0), setup=fresh, rounds=2)
    report.notes.append(
        f"delta of 1000 distinct (q, sigma), 10 steps each: {benchmark.stats.stats.median:6.2f} s"
    )


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("sampled gaussian", {"sampling_rate": 0.01, "sigma": 1.0}),
        ("laplace", {"scale": 10.0}),
        ("discrete_laplace", {"a": 0.03}),
    ],
)
def test_ten_thousand_counts(benchmark, report, name, parameters):
    event = sampled() if name == "sampled gaussian" else mechc.load(name)
    run = lambda: event(**parameters).epsilon_curve(1e-6, range(1, 10_001))  # noqa: E731
    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    median = 1e3 * benchmark.stats.stats.median
    report.notes.append(f"epsilon after each of 1 to 10 000 steps, {name}: {median:6.1f} ms")


def test_a_hundred_epsilons(benchmark, report):
    run = 3000 * sampled()(sampling_rate=0.01, sigma=2.0)
    run.delta(1.0)
    points = itertools.cycle(range(1000))
    benchmark.pedantic(
        lambda: run.delta(np.linspace(0.5, 3.0, 100) + 1e-9 * next(points)), rounds=10
    )
    median = 1e3 * benchmark.stats.stats.median
    report.notes.append(f"delta at an array of 100 epsilons, 0.5 to 3: {median:6.1f} ms")
