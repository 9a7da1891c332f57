"""Kernels written by hand for the grid accountants: shifted noise, with or without sampling.

A kernel here is a plain object with the functions of `mechc.protocol`, in numpy. P is the
noise shifted by 1 (with probability `rate`), Q is the noise itself.
"""

import json
import math
from pathlib import Path

import numpy as np

from mechc.loss.privacy_loss import bound
from mechc.protocol import INCREASING, P_ONLY, PLATEAU, Q_ONLY

CORPUS = Path(__file__).parent.parent / "corpus" / "truth.json"


def truth(name):
    """Log delta of a value of the corpus."""
    values = json.loads(CORPUS.read_text())["values"]
    return math.log(float(next(v["delta"] for v in values if v["id"] == name)))


class Shifted:
    """Noise with a log density and the loss of a shift by one, sampled with probability rate."""

    DIGEST, MEASURE, SYMMETRIC, CAPABILITIES, CLAIM = "hand", "density", False, {}, {}
    PARAMETERS = ()

    def __init__(self, name, log_noise, shift_loss, shift_inverse, rows, rate=1.0):
        self.NAME = name
        self._log_noise, self._shift_loss, self._inverse = log_noise, shift_loss, shift_inverse
        self._rate = rate
        self._rows, self.BRANCHES = rows, ("mono",) * len(rows)

    def _sampled(self, loss):
        if self._rate == 1.0:
            return loss
        small = np.log1p(self._rate * np.expm1(np.minimum(loss, 30.0)))
        rest = np.log1p((1 / self._rate - 1) * np.exp(-np.maximum(loss, 30.0)))
        return np.where(loss > 30.0, loss + math.log(self._rate) + rest, small)

    def loss_many(self, x, theta, out):
        out[:] = self._sampled(self._shift_loss(x))

    def log_q_many(self, x, theta, out):
        out[:] = self._log_noise(x)

    def log_p_many(self, x, theta, out):
        if self._rate == 1.0:
            out[:] = self._log_noise(x - 1.0)
        else:
            out[:] = self._log_noise(x) + self._sampled(self._shift_loss(x))

    def loss(self, x, theta):
        return float(self._sampled(self._shift_loss(np.array([x])))[0])

    def loss_inverse_many(self, branch, loss, theta, out):
        if self._rate < 1.0:
            with np.errstate(divide="ignore", invalid="ignore"):
                loss = np.log1p(np.expm1(loss) / self._rate)
        out[:] = self._inverse(loss)

    def branches(self, theta):
        rows = np.array(self._rows, dtype=float)
        smooth = np.isin(rows[:, 2], (INCREASING, PLATEAU))
        rows[smooth, 3:5] = self._sampled(rows[smooth, 3:5])
        return rows

    def atoms(self, theta):
        return np.empty((0, 3))

    def log_infinite_mass(self, theta):
        return math.nan if any(row[2] == P_ONLY for row in self._rows) else -math.inf

    def strip(self, theta):
        return np.array([-math.inf, math.inf])

    def lattice(self, theta):
        return np.array([math.nan, math.nan])

    def breakpoints(self, theta):
        return np.unique(np.array(self._rows)[:, :2])

    def law(self, reverse=False):
        """Bind: there are no parameters left."""
        (law,) = bound(self, [np.empty(0)])
        return law.reversed() if reverse else law


def gaussian(sigma, rate=1.0):
    """N(1, sigma^2) against N(0, sigma^2)."""
    constant = math.log(sigma * math.sqrt(2 * math.pi))
    return Shifted(
        "gaussian",
        lambda x: -0.5 * (x / sigma) ** 2 - constant,
        lambda x: (x - 0.5) / sigma**2,
        lambda loss: loss * sigma**2 + 0.5,
        [[-math.inf, math.inf, INCREASING, -math.inf, math.inf, 0]],
        rate,
    )


def laplace(scale, rate=1.0):
    """Laplace noise: two plateaus and a slope between them."""
    top = 1.0 / scale
    return Shifted(
        "laplace",
        lambda x: -np.abs(x) / scale - math.log(2 * scale),
        lambda x: np.clip((2 * x - 1) / scale, -top, top),
        lambda loss: 0.5 * (loss * scale + 1.0),
        [
            [-math.inf, 0.0, PLATEAU, -top, -top, 0],
            [0.0, 1.0, INCREASING, -top, top, 1],
            [1.0, math.inf, PLATEAU, top, top, 2],
        ],
        rate,
    )


def truncated_laplace(scale, halfwidth):
    """Laplace noise cut to [-halfwidth, halfwidth]: atoms, a slope, and masses at +-infinity."""
    top = 1.0 / scale
    constant = math.log(2 * scale * -math.expm1(-halfwidth / scale))

    def log_noise(x):
        return np.where(np.abs(x) <= halfwidth, -np.abs(x) / scale - constant, -np.inf)

    nan = math.nan
    return Shifted(
        "truncated_laplace",
        log_noise,
        lambda x: np.clip((2 * x - 1) / scale, -top, top),
        lambda loss: 0.5 * (loss * scale + 1.0),
        [
            [-halfwidth, 1.0 - halfwidth, Q_ONLY, nan, nan, 0],
            [1.0 - halfwidth, 0.0, PLATEAU, -top, -top, 1],
            [0.0, 1.0, INCREASING, -top, top, 2],
            [1.0, halfwidth, PLATEAU, top, top, 3],
            [halfwidth, halfwidth + 1.0, P_ONLY, nan, nan, 4],
        ],
    )
