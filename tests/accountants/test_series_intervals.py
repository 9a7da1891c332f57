"""Random discrete compositions, enumerated exactly: no proven interval misses the truth."""

import math

import numpy as np
import pytest

from mechc.accountants.classical.clt import CltAccountant
from mechc.accountants.classical.edgeworth import EdgeworthAccountant
from mechc.accountants.classical.renyi import RenyiAccountant
from mechc.accountants.classical.saddlepoint import SaddlepointAccountant
from mechc.errors import UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step

METHODS = {
    "msd1": lambda steps: SaddlepointAccountant(steps, variant="msd1"),
    "msd2": lambda steps: SaddlepointAccountant(steps, variant="msd2"),
    "clt": lambda steps: SaddlepointAccountant(steps, variant="clt"),
    "moments": lambda steps: SaddlepointAccountant(steps, variant="moments"),
    "tilted": lambda steps: SaddlepointAccountant(steps, variant="edgeworth"),
    "edgeworth": lambda steps: EdgeworthAccountant(steps, order=3),
    "eeai": lambda steps: EdgeworthAccountant(steps, interval=True),
    "renyi": RenyiAccountant,
    "gaussian": CltAccountant,
}


def random_loss(rng):
    """A pair on up to four points, with masses at either infinity."""
    size = rng.integers(1, 5)
    p = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0])))
    q = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0])))
    if rng.random() < 0.5:
        q = p * np.exp(rng.normal(size=size) * rng.choice([1e-4, 1e-2, 0.3]))
    p, q = np.maximum(p, 1e-9), np.maximum(q, 1e-9)
    infinite, lost = rng.choice([0.0, 1e-9, 1e-3, 0.2], 2)
    p, q = p / p.sum() * (1 - infinite), q / q.sum() * (1 - lost)
    return PrivacyLoss.from_atoms(np.log(p / q), p, infinite, max(0.0, 1 - q.sum()))


def random_composition(rng):
    """Steps, every value of the composed finite loss, and their masses."""
    steps, values, masses, log_finite = [], np.zeros(1), np.ones(1), 0.0
    for _ in range(rng.integers(1, 4)):
        loss, count = random_loss(rng), int(rng.integers(0, 4))
        steps.append(Step(loss, count))
        log_finite += count * math.log1p(-math.exp(loss.log_infinite))
        for _ in range(count):
            values = np.add.outer(values, loss.atom_loss).ravel()
            masses = np.multiply.outer(masses, np.exp(loss.atom_log_mass)).ravel()
    return steps, values, masses, -math.expm1(log_finite)


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 60))]
)
def test_intervals_hold(seed):
    rng = np.random.default_rng(seed)
    steps, values, masses, infinite = random_composition(rng)
    low, high = values.min(), values.max()
    inside = low + (high - low) * rng.random(2)
    for epsilon in (*inside, low, high, high - 1e-6 * abs(high), 0.0, masses @ values, high + 1):
        gain = np.where(values > epsilon, -np.expm1(epsilon - values), 0.0)
        delta = infinite + float(masses @ gain)
        for method in METHODS.values():
            check(method(steps), float(epsilon), delta)


def check(accountant, epsilon, delta):
    try:
        bound = accountant.log_delta(epsilon)
    except UnsupportedError:
        return
    if bound.status == "proven":
        allowance = 1e-14 + 1e-12 * delta  # of the enumeration
        assert math.exp(bound.lower) <= delta + allowance
        assert math.exp(bound.upper) >= delta - allowance
        assert bound.lower <= bound.estimate <= bound.upper <= 0.0
    elif bound.status == "estimate":
        assert math.isnan(bound.lower) and math.isnan(bound.upper) and bound.estimate <= 0.0
    else:
        assert bound.status.startswith("no answer") and math.isnan(bound.estimate)
