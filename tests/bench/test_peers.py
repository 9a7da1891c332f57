"""The same tasks with dp-accounting and prv-accountant, in the same run."""

import functools
import warnings
from dataclasses import dataclass

import pytest
from conftest import Row

import mechc
from mechc.composition.events import forget_losses

pytestmark = pytest.mark.filterwarnings("default")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    dp_accounting = pytest.importorskip("dp_accounting")
    prv_accountant = pytest.importorskip("prv_accountant")


@dataclass(frozen=True)
class Task:
    """Steps of a Poisson-subsampled Gaussian; ask for epsilon at delta or delta at epsilon."""

    name: str
    rate: float
    sigma: float
    steps: int
    truth: float
    delta: float | None = None
    epsilon: float | None = None


TASKS = [
    Task("epsilon, q=.01 s=.8 k=2000", 0.01, 0.8, 2000, 4.2934362885701, delta=1e-5),
    Task("delta, q=.01 s=1.5 k=10000", 0.01, 1.5, 10_000, 0.0496014103148258, epsilon=1.0),
    Task("delta, q=.004 s=.8 k=1000", 0.004, 0.8, 1000, 2.574967467034e-6, epsilon=1.5),
    Task("epsilon, q=.01 s=2 k=3000", 0.01, 2.0, 3000, 1.810442597, delta=1e-10),
]


@functools.cache
def sampled_gaussian():
    return mechc.poisson(mechc.load("gaussian"))


def with_mechc(task):
    forget_losses()
    run = task.steps * sampled_gaussian()(sampling_rate=task.rate, sigma=task.sigma)
    answer = run.delta(task.epsilon) if task.delta is None else run.epsilon(task.delta)
    return answer.lower, answer.upper


def with_dp_accounting(task):
    from dp_accounting.pld import privacy_loss_distribution as pld

    def one(pessimistic):
        loss = pld.from_gaussian_mechanism(
            task.sigma,
            sampling_prob=task.rate,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-4,
        ).self_compose(task.steps)
        if task.delta is None:
            return loss.get_delta_for_epsilon(task.epsilon)
        return loss.get_epsilon_for_delta(task.delta)

    return one(False), one(True)


def with_prv(task):
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    accountant = PRVAccountant(
        PoissonSubsampledGaussianMechanism(
            noise_multiplier=task.sigma, sampling_probability=task.rate
        ),
        max_self_compositions=task.steps,
        eps_error=0.01,
        delta_error=(task.delta or 1e-6) / 1000,
    )
    if task.delta is None:
        lower, _, upper = accountant.compute_delta(task.epsilon, num_self_compositions=task.steps)
    else:
        lower, _, upper = accountant.compute_epsilon(task.delta, num_self_compositions=task.steps)
    return float(lower), float(upper)


TOOLS = {"mechc": with_mechc, "dp-accounting h=1e-4": with_dp_accounting, "prv .01": with_prv}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_task(benchmark, report, task, tool):
    ask = TOOLS[tool]
    rounds = 20 if tool == "mechc" else 3
    lower, upper = benchmark.pedantic(ask, args=(task,), rounds=rounds, warmup_rounds=1)
    # two transforms give dp-accounting's interval; a user who wants one side pays for one
    share = 0.5 if tool.startswith("dp") else 1.0
    report.rows.append(Row(task.name, tool, share * benchmark.stats.stats.median, lower, upper))
    if tool == "mechc":
        assert lower <= task.truth * (1 + 1e-10) and task.truth * (1 - 1e-10) <= upper
