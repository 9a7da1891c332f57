"""The folded contour against sums over the lattice."""

import math

import numpy as np
import pytest

import mechc
from mechc.accountants.contour import LatticeAccountant, common_lattice
from mechc.errors import UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step

truth = pytest.importorskip("truth")
arb = pytest.importorskip("flint").arb


def answer(loss, count, epsilon):
    return LatticeAccountant([Step(loss, count)]).log_delta(epsilon)


@pytest.mark.parametrize("epsilon", [-3.0, 0.0, 0.37, 5.0, 20.0, 39.0])
@pytest.mark.parametrize(("budget", "categories"), [(0.4, 2), (0.4, 5), (0.01, 2)])
def test_randomized_response(budget, categories, epsilon):
    e = arb(budget)
    total = e.exp() + categories - 1
    masses = [1 / total, (categories - 2) / total, e.exp() / total]
    exact_law = truth.lattice(-e, e, masses, 100, epsilon) if epsilon < 100 * budget else -math.inf
    step = mechc.load("randomized_response")(epsilon=budget, categories=categories).loss()
    bound = answer(step, 100, epsilon)
    assert bound.lower - 1e-15 <= exact_law <= bound.upper + 1e-15
    assert exact_law == -math.inf or bound.upper - bound.lower < 1e-9


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 2.0, 14.9])
def test_approximate_dp(epsilon):
    e, d = arb(0.3), arb(1e-7)
    total = 1 + e.exp()
    masses = [(1 - d) / total, (1 - d) * e.exp() / total]
    exact = truth.lattice(-e, 2 * e, masses, 50, epsilon, infinite=d)
    step = mechc.load("approximate_dp")(epsilon=0.3, delta=1e-7).loss()
    bound = answer(step, 50, epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-10


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 10.0, 60.0])
def test_discrete_gaussian(epsilon):
    sigma, reach = arb(1.5), 80
    weights = [(-(arb(n) ** 2) / (2 * sigma**2)).exp() for n in range(-reach, reach + 1)]
    total = sum(weights, arb(0))
    # P is centred at 1: L = (2 n - 1) / (2 sigma^2)
    masses = [(-(arb(n - 1) ** 2) / (2 * sigma**2)).exp() / total for n in range(-reach, reach + 1)]
    step = 1 / sigma**2
    exact = truth.lattice(step * (-reach - arb(1) / 2), step, masses, 20, epsilon)
    bound = answer(mechc.load("discrete_gaussian")(sigma=1.5).loss(), 20, epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-10


def two_atoms(loss):
    share = math.exp(loss) / (1 + math.exp(loss))
    return PrivacyLoss.from_atoms([loss, -loss], [share, 1 - share])


def test_commensurate_steps_share_a_lattice():
    found = common_lattice([Step(two_atoms(0.2), 3), Step(two_atoms(0.3), 2)])
    # losses 0.2 (2i - 3) + 0.3 (2j - 2): all on -1.2 + 0.2 Z
    assert found.step == pytest.approx(0.2, rel=1e-12)
    assert (found.offset + 1.2) / 0.2 == pytest.approx(round((found.offset + 1.2) / 0.2), abs=1e-9)


def test_incommensurate_steps_do_not():
    steps = [Step(two_atoms(0.2), 3), Step(two_atoms(0.2 * math.sqrt(2)), 2)]
    with pytest.raises(UnsupportedError, match="not on one lattice"):
        LatticeAccountant(steps)


def test_mixed_lattices_against_the_list_of_all_atoms():
    steps = [Step(two_atoms(0.2), 6), Step(two_atoms(0.3), 4)]
    bound = LatticeAccountant(steps).log_delta(0.7)
    total = arb(0)
    for i in range(7):
        for j in range(5):
            loss = arb(0.2) * (2 * i - 6) + arb(0.3) * (2 * j - 4)
            if loss > arb(0.7):
                a, b = (1 / (1 + (-arb(v)).exp()) for v in (0.2, 0.3))
                ways = math.comb(6, i) * math.comb(4, j)
                mass = ways * a**i * (1 - a) ** (6 - i) * b**j * (1 - b) ** (4 - j)
                total += mass * (1 - (arb(0.7) - loss).exp())
    assert bound.lower <= float(total.log()) <= bound.upper


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_one_step_of_noise_on_half_a_million_integers(epsilon):
    """Discrete Gaussian and Laplace noise of scale 10^4 against plain sums over the integers."""
    scale = 1e4
    n = np.arange(-400_000, 400_001)
    for name, log_f, values in (
        ("discrete_gaussian", -((n / scale) ** 2) / 2.0, {"sigma": scale}),
        ("discrete_laplace", -np.abs(n) / scale, {"a": 1.0 / scale}),
    ):
        q = np.exp(log_f) / math.fsum(np.exp(log_f))
        p = np.roll(q, int(scale))
        truth = math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0)[int(scale) :])
        answer = mechc.load(name)(**values, sensitivity=scale).delta(epsilon, direction="remove")
        assert answer.lower <= truth * (1 + 1e-11) + 1e-17
        assert truth * (1 - 1e-11) - 1e-17 <= answer.upper
        assert answer.upper - answer.lower <= 1e-9 * truth + 1e-30


@pytest.mark.parametrize("rate", [None, 0.01])
def test_long_lists_of_losses_compose_on_a_grid(rate):
    """At scale 10^4 integers change the eighth digit of what Gaussian noise has."""
    noises = mechc.load("discrete_gaussian"), mechc.load("gaussian")
    if rate:
        noises = tuple(mechc.poisson(noise, sampling_rate=rate) for noise in noises)
    long = 100 * noises[0](sigma=1e4, sensitivity=1e4)
    plain = (100 * noises[1](sigma=1.0)).epsilon(1e-6)
    answer = long.epsilon(1e-6)
    assert answer.lower <= plain.upper * (1 + 1e-7) and plain.lower <= answer.upper * (1 + 1e-7)
    assert answer.upper - answer.lower < 0.06


def test_largest_losses_that_a_lattice_does_not_tell_apart():
    """A sample at rate 1e-17 has two losses within 1e-17: both count next to the largest."""
    rare = mechc.poisson(mechc.from_pmfs([1.0, 0.0], [0.625, 0.375]), 2.0**-57)
    plain = 2 * mechc.from_pmfs([0.75, 0.25], [0.0, 1.0])  # adding: log 4 each, else infinite
    run = plain + rare + 3 * mechc.from_pmfs([0.5, 0.5], [0.25, 0.75])
    top = math.log(16.0) + 3.0 * math.log(1.5)
    for gap in (1e-3, 0.1):
        truth = 0.75**3 * -math.expm1(-gap)
        answer = run.delta(top - gap, direction="add")
        assert answer.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= answer.upper
        assert answer.upper < truth * (1 + 1e-9)
        assert run.epsilon(truth * (1 - 1e-9), direction="add").upper > top - gap
    curve = run.epsilon_curve(0.75**6 * -math.expm1(-1e-3), [2], direction="add")
    assert curve.upper[0] > 2.0 * top - 1e-3 - 1e-9
