"""From training runs to numbers: who lost how much, over several seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mechc.individual.accountant import IndividualAccountant
from mechc.individual.approximate import gdp_upper_bound
from mechc.individual.experiment.training import LEAST, Data, Run, Settings, dp_sgd, filtered_dp_gd
from mechc.individual.filters import GDPFilter
from mechc.individual.gaussian import gdp_delta, gdp_epsilon

Floats = NDArray[np.float64]

WIDER = 5.0  # the second clip norm of the filtered runs, as a multiple of the first


@dataclass(frozen=True)
class Sampled:
    """DP-SGD, everybody's losses.

    Attributes:
        data, settings, delta: what was run.
        pld, rdp: upper bounds on epsilon by privacy loss distributions and by Renyi divergences,
            shape (seeds, people).
        lower: lower bounds that belong to `pld`.
        losses: test loss per class at the end, shape (seeds, classes).
        accuracy: on the test set, shape (seeds,).
        profile: rows (epsilon, upper delta, delta of the mu-GDP bound) of one person.
        mu, reach: the mu of that bound, and the epsilon up to which it holds.
    """

    data: Data
    settings: Settings
    delta: float
    pld: Floats
    rdp: Floats
    lower: Floats
    losses: Floats
    accuracy: Floats
    profile: Floats
    mu: float
    reach: float


def sampled(data: Data, settings: Settings, delta: float, seeds: int) -> Sampled:
    """Train with DP-SGD and account for everybody.

    Args:
        data: what to train on.
        settings: how.
        delta: at which epsilons are reported.
        seeds: number of repetitions; one accountant follows the people of all of them.
    """
    import mechc

    runs = [dp_sgd(data, settings, seed) for seed in range(seeds)]
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=settings.rate)
    accountant = IndividualAccountant(
        mechanism,
        parameter="sigma",
        people=seeds * data.y.size,
        span=(settings.noise, settings.noise / LEAST),
        rtol=1e-3,
    )
    for step in range(settings.steps):
        accountant.step(np.concatenate([run.ratios[step] for run in runs]))
    answer = accountant.epsilon(delta)
    upper = np.asarray(answer.upper)
    who = int(np.argsort(upper)[upper.size // 2])  # a person in the middle
    reach = 2.0 * float(upper[who])
    mu = float(np.asarray(gdp_upper_bound(accountant, reach, rows=[who], cells=24).upper)[0])
    epsilons = np.linspace(0.0, reach, 25)
    deltas = [float(np.asarray(accountant.delta(e, rows=[who]).upper)[0]) for e in epsilons]
    profile = np.stack([epsilons, np.array(deltas), gdp_delta(mu, epsilons)[1]], axis=1)
    by_seed = (seeds, data.y.size)
    return Sampled(
        data=data,
        settings=settings,
        delta=delta,
        pld=upper.reshape(by_seed),
        rdp=np.asarray(accountant.epsilon(delta, method="renyi").upper).reshape(by_seed),
        lower=np.asarray(answer.lower).reshape(by_seed),
        losses=np.array([run.losses[-1] for run in runs]),
        accuracy=np.array([run.accuracy for run in runs]),
        profile=profile,
        mu=mu,
        reach=reach,
    )


@dataclass(frozen=True)
class Filtered:
    """DP-GD with an individual filter, at one clip norm.

    Attributes:
        data, settings, delta: what was run.
        start: the step before which nobody can have been left out.
        epsilon: what the budget amounts to at `delta`.
        active: who took part, counted, shape (seeds, steps).
        losses: test loss per class, shape (seeds, steps, classes).
        spent: epsilon of everybody at `delta` when the filter began, shape (seeds, people).
    """

    data: Data
    settings: Settings
    delta: float
    start: int
    epsilon: float
    active: Floats
    losses: Floats
    spent: Floats


def filtered(
    data: Data, settings: Settings, delta: float, seeds: int, start: int
) -> tuple[Filtered, Filtered]:
    """Train with filtered DP-GD at the clip norm given and at `WIDER` times that.

    Args:
        data: what to train on.
        settings: how.
        delta: at which epsilons are reported.
        seeds: number of repetitions.
        start: number of steps that the budget allows to people whose gradients are always clipped.
    """
    mu = math.sqrt(start) / settings.noise * (1.0 + 1e-12)
    wide = replace(settings, clip=WIDER * settings.clip, speed=settings.speed / WIDER)
    found = []
    for how in (settings, wide):
        people = data.y.size
        runs = [filtered_dp_gd(data, how, s, GDPFilter(people=people, mu=mu)) for s in range(seeds)]
        found.append(_summary(data, how, delta, start, mu, runs))
    return found[0], found[1]


def _summary(
    data: Data, settings: Settings, delta: float, start: int, mu: float, runs: list[Run]
) -> Filtered:
    ratios = np.array([run.ratios for run in runs])
    return Filtered(
        data=data,
        settings=settings,
        delta=delta,
        start=start,
        epsilon=float(gdp_epsilon(mu, delta)),
        active=np.isfinite(ratios).sum(axis=2).astype(np.float64),
        losses=np.array([run.losses for run in runs]),
        spent=gdp_epsilon(np.sqrt((ratios[:, :start] ** -2.0).sum(axis=1)), delta),
    )
