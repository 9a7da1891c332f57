"""From training runs to numbers: who lost how much, over several seeds."""

import math
from dataclasses import dataclass

import numpy as np
from training import LEAST, Data, Settings, dp_sgd, filtered_dp_gd

import mechc
from mechc.individual import GDPFilter, IndividualAccountant, gdp_upper_bound
from mechc.individual.approximate import gdp_delta, gdp_epsilon
from mechc.individual.filters import gdp_mu


@dataclass(frozen=True)
class Sampled:
    """DP-SGD, everybody's losses.

    Attributes:
        data, settings, delta: what was run.
        pld, rdp: upper bounds on epsilon by privacy loss distributions and by Renyi divergences,
            shape (seeds, people).
        lower: lower bounds that belong to `pld`.
        losses: losses per class at the end, in both sets, shape (seeds, 2, classes).
        accuracy: on the test set, shape (seeds,).
        profile: rows (epsilon, upper delta, delta of the mu-GDP bound) of one person.
        mu, reach: the mu of that bound, and the epsilon up to which it holds.
    """

    data: Data
    settings: Settings
    delta: float
    pld: np.ndarray
    rdp: np.ndarray
    lower: np.ndarray
    losses: np.ndarray
    accuracy: np.ndarray
    profile: np.ndarray
    mu: float
    reach: float


def sampled(data, settings, delta, seeds):
    """Train with DP-SGD and account for everybody; one accountant follows all repetitions."""
    runs = [dp_sgd(data, settings, seed) for seed in range(seeds)]
    accountant = IndividualAccountant(
        mechc.poisson(mechc.load("gaussian"), sampling_rate=settings.rate),
        parameter="sigma",
        people=seeds * data.y.size,
        span=(settings.noise, settings.noise / LEAST),
        rtol=1e-3,
    )
    for step in range(settings.steps):
        accountant.step(np.concatenate([run.ratios[step] for run in runs]))
    answer = accountant.epsilon(delta)
    who = int(np.argsort(answer.upper)[answer.upper.size // 2])  # a person in the middle
    reach = 2.0 * float(answer.upper[who])
    mu = float(gdp_upper_bound(accountant, reach, rows=[who], cells=24).upper[0])
    epsilons = np.linspace(0.0, reach, 25)
    deltas = [float(accountant.delta(e, rows=[who]).upper[0]) for e in epsilons]
    by_seed = (seeds, data.y.size)
    return Sampled(
        data=data,
        settings=settings,
        delta=delta,
        pld=answer.upper.reshape(by_seed),
        rdp=accountant.epsilon(delta, method="renyi").upper.reshape(by_seed),
        lower=answer.lower.reshape(by_seed),
        losses=np.array([run.losses[-1] for run in runs]),
        accuracy=np.array([run.accuracy for run in runs]),
        profile=np.stack([epsilons, deltas, gdp_delta(mu, epsilons)[1]], axis=1),
        mu=mu,
        reach=reach,
    )


@dataclass(frozen=True)
class Filtered:
    """DP-GD with an individual filter, at one clip norm and one budget.

    Attributes:
        data, settings, delta: what was run.
        start: the step before which nobody can have been left out.
        epsilon: what the budget amounts to at `delta`.
        active: who took part, counted, shape (seeds, steps).
        losses: losses per class in both sets, shape (seeds, steps, 2, classes).
        spent: epsilon of everybody at `delta` when the filter began and at the end, shape
            (2, seeds, people).
    """

    data: Data
    settings: Settings
    delta: float
    start: int
    epsilon: float
    active: np.ndarray
    losses: np.ndarray
    spent: np.ndarray

    @property
    def by_class(self):
        """Training loss, test loss and epsilon of each class when the filter began and at the end.

        Shape (3, 2, seeds, classes).
        """
        training, test = np.moveaxis(self.losses[:, [self.start - 1, -1]], (2, 1), (0, 1))
        members = [self.data.y == c for c in range(len(self.data.classes))]
        epsilon = np.stack([self.spent[..., m].mean(axis=2) for m in members], axis=2)
        return np.stack([training, test, epsilon])


def filtered(data, clip, speed, epsilon, delta, seeds, start):
    """Train with filtered DP-GD, for `start` steps more than those that are safe for everybody.

    The noise is such that people whose gradients are always clipped have used up the budget
    (epsilon, delta) after `start` steps.
    """
    mu = gdp_mu(epsilon, delta)
    noise = math.sqrt(start) / mu * (1.0 + 1e-12)
    how = Settings(clip=clip, noise=noise, steps=2 * start, speed=speed)
    budgets = [GDPFilter(people=data.y.size, mu=mu) for _ in range(seeds)]
    runs = [filtered_dp_gd(data, how, seed, budget) for seed, budget in enumerate(budgets)]
    ratios = np.array([run.ratios for run in runs])
    return Filtered(
        data=data,
        settings=how,
        delta=delta,
        start=start,
        epsilon=epsilon,
        active=np.isfinite(ratios).sum(axis=2),
        losses=np.array([run.losses for run in runs]),
        spent=np.array(
            [
                gdp_epsilon(np.sqrt((ratios[:, :end] ** -2.0).sum(axis=1)), delta)
                for end in (start, 2 * start)
            ]
        ),
    )
