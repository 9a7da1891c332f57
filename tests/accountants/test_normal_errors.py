"""The smoothing bound on Edgeworth errors: its constants, sums with known laws, its intervals."""

import math

import numpy as np
import pytest
import series_laws as laws
from scipy import stats

import mechc
from mechc.accountants.classical.edgeworth import EdgeworthAccountant
from mechc.accountants.classical.normal import hermite_coefficients, hermite_values, standardise
from mechc.accountants.classical.normal_errors import smoothing_error, standardised_moments
from mechc.accountants.classical.saddlepoint import SaddlepointAccountant
from mechc.accountants.contours.composed import ComposedLoss
from mechc.loss.privacy_loss import Step


def gumbel(count):
    """Reversed Gumbel pair at scale 1: L = (e - 1) E - 1, E exponential; the sum is a gamma law."""
    return ComposedLoss([Step(mechc.load("gumbel")(scale=1.0).loss("add"), count)])


def sampled(q, sigma):
    mechanism = mechc.poisson(mechc.load("gaussian"))
    return mechanism(sampling_rate=q, sigma=sigma).loss("remove")


def expansion(composed, t, order):
    return hermite_coefficients(standardise(composed.cumulants(t, order + 2)), order).sum(axis=0)


def test_constants_of_the_kernel():
    # K(v) = (1 - v)/2 + i/2 ((1 - v) cot(pi v) + 1/pi) for v > 0, Prawitz 1972
    v = np.linspace(1e-6, 1.0 - 1e-9, 200_001)
    kernel = 0.5 * (1 - v) + 0.5j * ((1 - v) / np.tan(np.pi * v) + 1 / np.pi)
    assert (2 * np.pi * v * np.abs(kernel)).max() <= 1.0253
    assert np.abs(kernel - 0.5j / (np.pi * v)).max() <= 0.5


@pytest.mark.parametrize("t", [0.0, -1.0, 0.3])
@pytest.mark.parametrize("count", [30, 300])
def test_bound_holds_for_a_gamma_law_and_is_close(t, count):
    composed = gumbel(count)
    shape = stats.gamma(count)
    z = np.linspace(-6, 6, 4001)
    exact = shape.cdf(count + z * math.sqrt(count))  # tilting only changes the scale
    for order in (1, 2, 4):
        c = expansion(composed, t, order)
        correction = c[1:] @ hermite_values(z, c.size - 1)[:-1]
        distance = np.abs(exact - stats.norm.cdf(z) + stats.norm.pdf(z) * correction).max()
        bound = smoothing_error(composed, t, c)
        assert distance < bound < 4 * distance + 1e-8


@pytest.mark.parametrize("composed", [
    pytest.param(lambda: gumbel(300), id="gumbel"),
    pytest.param(lambda: ComposedLoss([Step(sampled(0.1, 1.0), 200)]), id="sampled"),
])  # fmt: skip
@pytest.mark.parametrize("t", [0.0, -1.0])
def test_the_bound_is_below_the_theorem_for_identical_smooth_summands(composed, t):
    """Below even the main terms of Theorem A.4 (Derumigny et al. 2024), at every split e."""
    composed = composed()
    moments = standardised_moments(composed, t)
    e = np.linspace(1e-6, 0.33, 100)
    room = (1 - 3 * e) ** 2
    growth = np.exp(e**2 / 6 + e**2 / (2 * room))
    main = 0.327 * moments.k4 * (1 / 12 + 1 / (4 * room)) + 0.037 * growth * moments.skewness**2
    assert smoothing_error(composed, t, expansion(composed, t, 1)) < (main / moments.n).min() / 2


def test_atoms_and_lattices_have_no_bound():
    coin = ComposedLoss([Step(laws.randomized_response(0.1), 10_000)])
    assert smoothing_error(coin, 0.0, expansion(coin, 0.0, 1)) == math.inf


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_interval_of_order_four_is_narrow(direction):
    exact = math.log(laws.truth("SGK_rem" if direction == "remove" else "SGK_add"))
    loss = sampled(0.01, 1.5)
    steps = [Step(loss if direction == "remove" else loss.reversed(), 10_000)]
    wide = EdgeworthAccountant(steps, order=1, interval=True).log_delta(1.0)
    bound = EdgeworthAccountant(steps, order=4, interval=True).log_delta(1.0)
    assert wide.lower <= bound.lower <= exact <= bound.upper <= wide.upper
    assert wide.width < 5e-3
    assert bound.width < 5e-7


def test_different_steps():
    steps = [Step(sampled(0.02, 2.0), 1500), Step(mechc.load("gaussian")(sigma=40.0).loss(), 100)]
    bound = EdgeworthAccountant(steps, order=3, interval=True).log_delta(0.8)
    exact = mechc.compose(
        (mechc.poisson(mechc.load("gaussian"))(sampling_rate=0.02, sigma=2.0), 1500),
        (mechc.load("gaussian")(sigma=40.0), 100),
    ).log_delta(0.8, direction="remove", method="contour")
    assert bound.lower <= exact.lower and exact.upper <= bound.upper
    assert bound.width < 2e-5


@pytest.mark.parametrize(
    ("name", "sigma", "width"), [("SGK_rem", 1.5, 1e-7), ("SGS1_rem", 2.0, 1e-7)]
)
def test_tilted_interval_is_relative(name, sigma, width):
    """delta = 4.6e-5 for SGS1: an absolute error of the same size would say nothing."""
    count = 10_000 if name == "SGK_rem" else 3000
    accountant = SaddlepointAccountant([Step(sampled(0.01, sigma), count)], variant="edgeworth")
    bound = accountant.log_delta(1.0)
    assert bound.lower <= math.log(laws.truth(name)) <= bound.upper
    assert bound.width < width


def test_tilted_interval_far_in_the_tail():
    """delta = 9e-24: the series of order one is proven where higher orders diverge."""
    composed = ComposedLoss([Step(sampled(0.01, 2.0), 3000)])
    c = expansion(composed, 30.0, 1)
    assert smoothing_error(composed, 30.0, c) < 1e-4
