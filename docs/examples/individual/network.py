"""A network with one hidden layer whose per-example gradients are never formed.

The gradient of a layer for one example is the outer product of its input and the error it sends
back, so norms are products of norms, and a weighted sum over examples is one matrix product.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Network:
    """Weights of both layers, the last row of each being the offsets.

    Attributes:
        layers: shapes (inputs + 1, hidden) and (hidden + 1, classes).
    """

    layers: list[np.ndarray]

    @classmethod
    def start(cls, inputs, hidden, classes, rng):
        """Return a network with random first layer and nothing said yet."""
        first = rng.standard_normal((inputs + 1, hidden)) / np.sqrt(inputs)
        return cls([first, np.zeros((hidden + 1, classes))])

    def losses(self, x, y):
        """Return the cross entropy of each example."""
        _, log_p = self._forward(x)
        return np.asarray(-log_p[np.arange(y.size), y])

    def predict(self, x):
        """Return the most likely class of each example."""
        return np.asarray(self._forward(x)[1].argmax(axis=1))

    def backward(self, x, y):
        """Return the gradients of all examples in factored form."""
        hidden, log_p = self._forward(x)
        error = np.exp(log_p)
        error[np.arange(y.size), y] -= 1.0
        back = (error @ self.layers[1][:-1].T) * (1.0 - hidden**2)
        return Gradients([_extended(x), _extended(hidden)], [back, error])

    def _forward(self, x):
        hidden = np.tanh(_extended(x) @ self.layers[0])
        score = _extended(hidden) @ self.layers[1]
        score -= score.max(axis=1, keepdims=True)
        return hidden, score - np.log(np.exp(score).sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Gradients:
    """Per-example gradients: for layer l and example i, outer(inputs[l][i], errors[l][i])."""

    inputs: list[np.ndarray]
    errors: list[np.ndarray]

    def norms(self):
        """Return the Euclidean norm of each example's gradient."""
        parts = zip(self.inputs, self.errors, strict=True)
        return np.asarray(np.sqrt(sum((a * a).sum(axis=1) * (e * e).sum(axis=1) for a, e in parts)))

    def summed(self, weights):
        """Return the weighted sum over examples, one array a layer."""
        parts = zip(self.inputs, self.errors, strict=True)
        return [a.T @ (weights[:, None] * e) for a, e in parts]


def _extended(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
