"""People composed one by one: their steps against closed forms and peers."""

import math

import mpmath
import numpy as np
import pytest

import mechc
from mechc.individual import IndividualAccountant
from mechc.individual.singly import of_buckets
from mechc.individual.splines import Grid

SPAN = (0.5, 50.0)


def accountant(rate, steps, counts, **options):
    mechanism = mechc.load("gaussian")
    if rate < 1:
        mechanism = mechc.poisson(mechanism, sampling_rate=rate)
    acc = IndividualAccountant(
        mechanism, parameter="sigma", people=steps.shape[1], span=SPAN, **options
    )
    for row, count in zip(steps, counts, strict=True):
        acc.step(row, count=int(count))
    return acc


def log_uniform(rng, shape, low=SPAN[0], high=SPAN[1]):
    return np.exp(rng.uniform(math.log(low), math.log(high), shape))


def sampled_gaussian_delta(rate, sigma, epsilon):
    """One step in 40 digits: the loss exceeds epsilon beyond one point of the line."""
    with mpmath.workdps(40):
        q, s, e = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(epsilon)
        x = s * s * mpmath.log((mpmath.exp(e) - 1 + q) / q) + mpmath.mpf(1) / 2
        p_tail = (1 - q) * mpmath.ncdf(-x / s) + q * mpmath.ncdf((1 - x) / s)
        return p_tail - mpmath.exp(e) * mpmath.ncdf(-x / s)


def test_one_sampled_step_has_a_closed_form():
    rng = np.random.default_rng(1)
    steps = log_uniform(rng, (1, 3))
    bound = accountant(0.01, steps, [1]).epsilon(1e-6)
    assert bound.detail["within_rtol"] and bound.detail["meshed"] > 0
    for sigma, lower, upper in zip(steps[0], bound.lower, bound.upper, strict=True):
        # the other direction is smaller for one step at these sigmas and rates
        assert sampled_gaussian_delta(0.01, sigma, upper) <= 1e-6
        assert sampled_gaussian_delta(0.01, sigma, lower) >= 1e-6


@pytest.mark.slow
def test_twenty_different_steps_are_sharp_without_decay_of_phi():
    """Every person takes 20 single steps whose noise differs by a factor of a hundred."""
    steps = log_uniform(np.random.default_rng(0), (20, 2))
    bound = accountant(0.01, steps, np.ones(20)).epsilon(1e-6)
    assert bound.detail["within_rtol"] and bound.detail["meshed"] >= 2
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    run = mechc.compose(*(mechanism(sigma=float(s)) for s in steps[:, 0]))
    at_upper = run.delta(float(bound.upper[0]), method="pld")
    at_lower = run.delta(float(bound.lower[0]), method="pld")
    assert float(at_upper.lower) <= 1e-6 <= float(at_lower.upper)
    # without a journal nobody is composed on a mesh: wider bounds, which hold
    wide = accountant(0.01, steps, np.ones(20), journal=0).epsilon(1e-6)
    assert (wide.lower <= bound.lower).all() and (bound.upper <= wide.upper).all()
    assert (wide.upper <= 1.5 * bound.upper).all()


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("name", "parameter", "steps", "counts", "epsilon"),
    [
        ("poisson", "sigma", (1.52, 1.94, 6.82, 2.44, 1.91, 3.1, 2.75), (1, 2, 3, 3, 1, 2, 1), 0.4),
        ("laplace", "scale", (9.2, 29.9, 25.8, 17.1, 8.2, 37.1), (30, 20, 10, 30, 30, 10), 3.0),
    ],
)
def test_whole_compositions_are_answered_alike(name, parameter, steps, counts, epsilon):
    """The plain accountant, with the steps in another order: not one more digit, nor one less."""
    mechanism = mechc.load("gaussian" if name == "poisson" else name)
    mechanism = mechc.poisson(mechanism, sampling_rate=0.1) if name == "poisson" else mechanism
    acc = IndividualAccountant(mechanism, parameter=parameter, people=1, span=(1.0, 60.0))
    for value, count in zip(steps, counts, strict=True):
        acc.step([value], count=count)
    parts = zip(steps[::-1], counts[::-1], strict=True)
    run = mechc.compose(*((mechanism(**{parameter: v}), n) for v, n in parts))
    for own, plain in (
        (acc.delta(epsilon), run.delta(epsilon)),
        (acc.epsilon(1e-6), run.epsilon(1e-6)),
        (acc.epsilon(1e-9, rtol=1e-3), run.epsilon(1e-9)),
    ):
        assert own.detail["meshed"] == 1
        assert (own.lower[0], own.upper[0]) == (plain.lower, plain.upper)


def test_counts_are_rounded_to_both_ends_of_their_buckets():
    grid = Grid(0.5, 50.0, 64, "geometric", False)
    worse, better = of_buckets(grid, np.bincount([3, 3, 64], minlength=65))
    assert worse == [(grid.knots[3], 2), (grid.knots[64], 1)]
    assert better == [(grid.knots[4], 2)]


def test_lower_bounds_hold_up_to_the_largest_loss():
    """Two Laplace steps of scale b just below 2/b: atoms of 1/2 and a density e^{(l-1/b)/2}/4."""
    b, epsilon = mpmath.mpf(10), mpmath.mpf("0.1999")

    def payoff(total):
        return max(mpmath.mpf(0), 1 - mpmath.exp(epsilon - total))

    def density(loss):
        return mpmath.exp((loss - 1 / b) / 2) / 4

    start = epsilon - 1 / b  # one loss at least as large as this
    mixed = mpmath.quad(lambda u: density(u) * payoff(1 / b + u), [start, 1 / b])
    both = mpmath.quad(
        lambda u: (
            density(u) * mpmath.quad(lambda v: density(v) * payoff(u + v), [epsilon - u, 1 / b])
        ),
        [start, 1 / b],
    )
    delta = float(payoff(2 / b) / 4 + mixed + both)
    acc = IndividualAccountant(mechc.load("laplace"), parameter="scale", people=1, span=(8.0, 16.0))
    acc.step([10.0], count=2)
    bound = acc.epsilon(delta)
    assert bound.lower[0] <= float(epsilon) <= bound.upper[0] <= bound.lower[0] * (1 + 1e-4)
    assert "one by one" in bound.status
