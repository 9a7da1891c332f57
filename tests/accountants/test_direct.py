"""One and two steps, and enumerated atoms, against integrals and sums in ball arithmetic."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy import stats

import mechc
from mechc.accountants.contours.atoms import draws
from mechc.accountants.direct import DirectAccountant
from mechc.errors import UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step

pairs = pytest.importorskip("pairs")
integrals = pytest.importorskip("integrals")
truth = pytest.importorskip("truth")

ONE_STEP = [
    ("gaussian", (0.8,), 4.0), ("gaussian", (2.0,), -1.3), ("student_t", (3.0, 0.7), 0.9),
    ("cauchy", (2.0,), 0.4), ("logistic", (1.5,), 0.3), ("hyperbolic_secant", (1.2,), 0.5),
    ("gumbel", (1.3,), 0.6), ("subbotin", (4.0, 1.1), 9.0), ("subbotin", (0.6, 1.0), 0.5),
    ("gaussian_scale", (1.0, 1.3), 0.1), ("gaussian_scale", (1.3, 1.0), 3.0),
]  # fmt: skip


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("name", "theta", "epsilon"), ONE_STEP)
def test_one_step(name, theta, epsilon, direction):
    mechanism = mechc.load(name)
    names = [p.name for p in mechanism.parameters if p.name != "sensitivity"]
    event = mechanism(**dict(zip(names, theta, strict=True)))
    pair = pairs.PAIRS[name](*theta)
    law = event.loss(direction)
    if epsilon >= law.support[1]:
        epsilon = 0.5 * law.support[1]
    exact = integrals.one_step(pair.reversed() if direction == "add" else pair, epsilon)
    bound = DirectAccountant([Step(law, 1)]).log_delta(epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-9


def test_root_beyond_the_rounding_of_the_offsets():
    """sigma = 1e5: the loss exceeds epsilon only at outputs of 1e10 and more."""
    exact = truth.gaussian(1e-5, 1.0)
    bound = mechc.load("gaussian")(sigma=1e5).log_delta(1.0, method="direct")
    assert bound.lower <= exact <= bound.upper


def test_tails_narrower_than_doubles_are_refused():
    """At outputs of 1e15 the density falls within less than one unit in the last place."""
    with pytest.raises(UnsupportedError, match=r"did not settle.*; use"):
        mechc.load("gaussian")(sigma=1e5).log_delta(1e5, method="direct")


def test_two_steps_beyond_the_largest_loss():
    event = mechc.poisson(mechc.load("logistic"))(scale=2.0, sampling_rate=0.1)
    for direction in ("remove", "add"):
        steps = [Step(event.loss(direction), 2)]
        assert DirectAccountant(steps).log_delta(1.5).upper == -math.inf


@pytest.mark.parametrize("epsilon", [-0.4, 0.1, 0.9])
def test_two_laplace_and_logistic_steps(epsilon):
    width = truth.ball(0.5)
    up, down = truth.ball(0.5), (-width).exp() / 2
    laplace = truth.half_tilted_uniform(2, width, (-width / 2).exp() / 4, up, down, epsilon)
    logistic = truth.half_tilted_uniform(2, width, 1 / (4 * (width / 2).sinh()), 0, 0, epsilon)
    for name, exact in (("laplace", laplace), ("logistic", logistic)):
        law = mechc.load(name)(scale=2.0).loss()
        bound = DirectAccountant([Step(law, 2)]).log_delta(epsilon)
        assert bound.lower <= exact <= bound.upper
        assert bound.upper - bound.lower < 1e-10


def test_many_steps_with_a_density_are_refused():
    law = mechc.load("gaussian")(sigma=1.0).loss()
    with pytest.raises(UnsupportedError, match="300 steps with a density"):
        DirectAccountant([Step(law, 300)])


@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.55, 1.7])
def test_enumerated_atoms(epsilon):
    losses = [math.log(4.0), math.log(1.5), 0.0, math.log(0.5)]
    masses, infinite = [0.2, 0.15, 0.1, 0.25], 0.3
    q_mass = sum(m * math.exp(-v) for m, v in zip(masses, losses, strict=True))
    law = PrivacyLoss.from_atoms(losses, masses, infinite, 1.0 - q_mass)
    exact = truth.atoms(list(zip(losses, masses, strict=True)), 5, epsilon, infinite)
    bound = DirectAccountant([Step(law, 5)]).log_delta(epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.upper - bound.lower < 1e-12


def test_add_beats_remove_for_two_sampled_laplace_steps():
    """mechanisms.md T0: the worse direction of one step need not be the worse one of two."""
    event = mechc.poisson(mechc.load("laplace"))(scale=2.0, sampling_rate=0.5)
    one = {d: event.delta(0.07, direction=d).estimate for d in ("remove", "add")}
    two = {d: (2 * event).delta(0.07, direction=d) for d in ("remove", "add")}
    assert one["remove"] > one["add"]
    assert two["remove"].estimate == pytest.approx(0.09487162954808024, rel=1e-9)
    assert two["add"].estimate == pytest.approx(0.10869735385715215, rel=1e-9)


def test_directions_of_one_sided_noise_differ():
    """Exponential noise: one direction is certain with probability 1 - 1/e, the other is pure."""
    event = mechc.load("exponential")(scale=1.0)
    assert event.delta(1.5, direction="add").estimate == pytest.approx(-math.expm1(-1), rel=1e-12)
    assert event.delta(1.0, direction="remove").estimate == 0.0


def test_mass_next_to_the_end_of_a_long_interval_is_seen():
    """L > eps holds out to 1e7 scales here; delta(0) is a total variation distance."""
    event = mechc.load("student_t")(nu=10.0, scale=0.5, sensitivity=5.0)
    at_zero = 2.0 * stats.t.cdf(5.0, df=10.0) - 1.0
    for epsilon in (0.0, 1e-10, 1e-6):
        bound = event.delta(epsilon, method="direct")
        assert bound.lower <= at_zero
        assert bound.upper >= at_zero - 2.0 * epsilon


@pytest.mark.parametrize(("atoms", "count"), [(5, 3), (3, 2), (6, 5), (2, 4)])
def test_listed_sums_are_all_draws_merged(atoms, count):
    rng = np.random.default_rng(atoms)
    loss, mass = rng.normal(size=atoms), rng.dirichlet(np.ones(atoms))
    merged = {}
    for draw in itertools.product(range(atoms), repeat=count):
        key = tuple(sorted(draw))
        merged[key] = merged.get(key, 0.0) + math.prod(mass[list(draw)])
    expected = sorted((sum(loss[list(key)]), p) for key, p in merged.items())
    values, log_mass = draws(loss, np.log(mass), count)
    order = np.argsort(values)
    assert values[order] == pytest.approx([v for v, _ in expected], rel=1e-12)
    assert np.exp(log_mass[order]) == pytest.approx([p for _, p in expected], rel=1e-12)


@pytest.mark.parametrize(("sigma", "epsilon"), [(1.3, 9.0), (2.0, 20.0), (1.0, 3.0)])
def test_integers_are_listed_as_far_as_one_epsilon_needs(sigma, epsilon):
    """Losses above epsilon may begin next to the last integer that matters for small ones."""
    event = mechc.poisson(mechc.load("discrete_gaussian"))(sigma=sigma, sampling_rate=1e-3)
    found = event.log_delta(epsilon, method="direct", direction="remove")
    with mpmath.workdps(60):
        weights = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * sigma**2)) for x in range(400)]
        total, odds = 2 * mpmath.fsum(weights) - 1, 1 - mpmath.mpf(1e-3) - mpmath.exp(epsilon)
        gains = (1e-3 * a + odds * b for a, b in itertools.pairwise(weights))
        truth = mpmath.log(mpmath.fsum(max(gain, 0) for gain in gains) / total)
    assert mpmath.mpf(found.lower) <= truth <= mpmath.mpf(found.upper)
    assert found.upper - found.lower < 1e-9 * abs(found.upper)


def test_a_largest_loss_of_zero_at_zero():
    """No epsilon in which the finite part has mass lies on the side that is asked."""
    x = mechc.declare.real("x")
    pair = mechc.declare.mechanism(
        "zero", variable=x, p=sympy.Piecewise(((1 + 2 * x) / 6, (x > 0) & (x < 2)), (0, True)),
        q=sympy.Piecewise((sympy.Rational(3, 2) - x, (x > 0) & (x < 1)), (0, True)),
    )  # fmt: skip
    run = 2 * mechc.load(pair)()
    with pytest.raises(UnsupportedError, match="did not settle"):
        run.log_delta(0.0, method="direct", direction="remove")
    truth = 1.0 - (1.0 / 3.0) ** 2
    bound = run.delta(0.0, direction="remove")
    assert bound.lower <= truth <= bound.upper < truth + 1e-9
