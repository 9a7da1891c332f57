"""Two private training runs that record, before each step, what it will cost every person.

DP-SGD takes each person with probability `rate` (Poisson sampling). DP-GD takes everybody whose
budget allows it; an individual filter decides. In both, gradients are clipped at norm C and
Gaussian noise of standard deviation `noise` C is added to their sum, so that a person whose
gradient has norm g <= C goes through a mechanism with noise ratio noise C / g.
"""

from dataclasses import dataclass

import numpy as np
from network import Network

from mechc.errors import UnsupportedError

DATASETS = ("digits", "breast cancer")
LEAST = 0.02  # noise ratios beyond noise / LEAST count as noise / LEAST, the end of the span
TRAIN, TEST = 0, 1  # of losses


@dataclass(frozen=True)
class Data:
    """A classification task, split in two; features have mean 0 and variance 1 overall.

    Scaling and the number of training examples are taken to be public.
    """

    name: str
    classes: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray

    def losses(self, network):
        """Return the mean loss of each class in training and test set, shape (2, classes)."""
        return np.array([
            [losses[y == c].mean() for c in range(len(self.classes))]
            for y, losses in (
                (self.y, network.losses(self.x, self.y)),
                (self.test_y, network.losses(self.test_x, self.test_y)),
            )
        ])  # fmt: skip

    def accuracy(self, network):
        """Return the share of test examples that are classified correctly."""
        return float((network.predict(self.test_x) == self.test_y).mean())


def load(name):
    """Return one of `DATASETS`, split in the same way every time."""
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


def one_thread():
    """Return a context in which products take one thread: matrices are small, more would wait."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise UnsupportedError(
            "threadpoolctl is not installed (expected the extra mechc[experiment])"
        ) from error
    return threadpool_limits(1)


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
        losses: mean losses per class after each step in both sets, shape (steps, 2, classes).
        accuracy: on the test set, at the end.
    """

    ratios: np.ndarray
    losses: np.ndarray
    accuracy: float


def dp_sgd(data, settings, seed):
    """Train with Poisson-sampled, clipped and noised gradients."""
    return _train(data, settings, seed, lambda mu: np.ones(mu.size, np.bool_))


def filtered_dp_gd(data, settings, seed, budget):
    """Train with everybody whose budget, a `GDPFilter`, still allows the step (algorithm 1)."""
    return _train(data, settings, seed, budget.step)


def _train(data, settings, seed, admit):
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
        losses.append(data.losses(network))
    return Run(ratios, np.array(losses), data.accuracy(network))
