"""Two private training runs that record, before each step, what it will cost every person.

DP-SGD takes each person with probability `rate` (Poisson sampling). DP-GD takes everybody whose
budget allows it; an individual filter decides. In both, gradients are clipped at norm C and
Gaussian noise of standard deviation `noise` C is added to their sum, so that a person whose
gradient has norm g <= C goes through a mechanism with noise ratio noise C / g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import UnsupportedError
from mechc.individual.experiment.network import Network
from mechc.individual.filters import GDPFilter

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

DATASETS = ("digits", "breast cancer")
LEAST = 0.02  # noise ratios beyond noise / LEAST count as noise / LEAST, the end of the span


@dataclass(frozen=True)
class Data:
    """A classification task, split in two; features have mean 0 and variance 1 overall.

    Scaling and the number of training examples are taken to be public.
    """

    name: str
    classes: tuple[str, ...]
    x: Floats
    y: Labels
    test_x: Floats
    test_y: Labels

    def test_losses(self, network: Network) -> Floats:
        """Return the mean test loss of each class."""
        losses = network.losses(self.test_x, self.test_y)
        return np.array([losses[self.test_y == c].mean() for c in range(len(self.classes))])

    def accuracy(self, network: Network) -> float:
        """Return the share of test examples that are classified correctly."""
        return float((network.predict(self.test_x) == self.test_y).mean())


def load(name: str) -> Data:
    """Return one of `DATASETS`, split in the same way every time.

    Raises:
        UnsupportedError: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise UnsupportedError(
            "scikit-learn is not installed (expected the extra mechc[experiment])"
        ) from error
    found = datasets.load_digits() if name == "digits" else datasets.load_breast_cancer()
    x, y = np.asarray(found.data, np.float64), np.asarray(found.target, np.int64)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    order = np.random.default_rng(0).permutation(y.size)
    test, train = order[: y.size // 5], order[y.size // 5 :]
    classes = tuple(str(c) for c in found.target_names)
    return Data(name, classes, x[train], y[train], x[test], y[test])


@dataclass(frozen=True)
class Settings:
    """How to train.

    Attributes:
        clip: the norm C at which gradients are clipped.
        noise: noise multiplier, in units of C.
        steps: number of steps.
        speed: learning rate, per expected number of people in a step.
        rate: sampling rate of DP-SGD.
        hidden: width of the hidden layer.
    """

    clip: float
    noise: float
    steps: int
    speed: float
    rate: float = 1.0
    hidden: int = 32


@dataclass(frozen=True)
class Run:
    """What a training run leaves behind.

    Attributes:
        ratios: noise ratio of every step and person, inf where a person took no part,
            shape (steps, people).
        losses: mean test loss per class after each step, shape (steps, classes).
        accuracy: on the test set, at the end.
    """

    ratios: Floats
    losses: Floats
    accuracy: float


def dp_sgd(data: Data, settings: Settings, seed: int) -> Run:
    """Train with Poisson-sampled, clipped and noised gradients."""

    def everybody(mu: Floats) -> NDArray[np.bool_]:
        return np.ones(mu.size, np.bool_)

    return _train(data, settings, seed, everybody)


def filtered_dp_gd(data: Data, settings: Settings, seed: int, budget: GDPFilter) -> Run:
    """Train with everybody whose budget still allows the step (algorithm 1)."""
    return _train(data, settings, seed, budget.step)


def _train(data: Data, settings: Settings, seed: int, admit: Any) -> Run:
    rng = np.random.default_rng(seed)
    people, features = data.x.shape
    network = Network.start(features, settings.hidden, len(data.classes), rng)
    ratios, losses = np.empty((settings.steps, people)), []
    for step in range(settings.steps):
        gradients = network.backward(data.x, data.y)
        norms = np.maximum(gradients.norms(), 1e-300)
        share = np.minimum(norms / settings.clip, 1.0)  # of the clip norm
        active = admit(share / settings.noise)
        ratios[step] = np.where(active, settings.noise / np.maximum(share, LEAST), np.inf)
        taken = active & (rng.random(people) < settings.rate)
        total = gradients.summed(taken * share * settings.clip / norms)
        for layer, change in zip(network.layers, total, strict=True):
            noise = settings.noise * settings.clip * rng.standard_normal(layer.shape)
            layer -= settings.speed / (settings.rate * people) * (change + noise)
        losses.append(data.test_losses(network))
    return Run(ratios, np.array(losses), data.accuracy(network))
