"""The tilted transform against direct convolution; its error bounds in extended precision."""

import math

import numpy as np
import pytest
from scipy import fft

from mechc.accountants.fft import TiltedSum, transform_error
from mechc.loss.discretise import GridLaw
from mechc.loss.privacy_loss import PrivacyLoss, Step, distinct


def grid_law(masses, first=-2, offset=0.03, step=0.1, log_infinite=-math.inf):
    return GridLaw(offset, step, first, np.asarray(masses, float), log_infinite, 0.0, 0.0)


def convolved(laws):
    """Points and masses of the sum, by numpy.convolve."""
    mass, offset, first = np.ones(1), 0.0, 0
    for law, count in laws:
        for _ in range(count):
            mass = np.convolve(mass, law.mass)
            offset, first = offset + law.offset, first + law.first
    return offset + laws[0][0].step * (first + np.arange(mass.size)), mass


LAWS = [
    (grid_law([0.1, 0.3, 0.2, 0.15, 0.25]), 6),
    (grid_law([0.5, 0.0, 0.4, 0.05], first=-1, offset=-0.01), 3),
]


@pytest.mark.parametrize("tilt", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("size", [16, 32, 128])
@pytest.mark.parametrize("epsilon", [-0.7, 0.0, 0.333, 1.1])
def test_payoff_is_the_sum_over_images(tilt, size, epsilon):
    """S = sum_m exp(c m T) H(eps + m T), with many images where the period is short."""
    points, mass = convolved(LAWS)
    total = TiltedSum.of(LAWS, tilt, size)
    expected = sum(
        math.exp(tilt * m * total.period)
        * float(mass @ -np.expm1(np.minimum(epsilon + m * total.period - points, 0.0)))
        for m in range(-int(60 / (tilt * total.period)) - 1, 10)
    )
    factor, value, error = total.payoff(epsilon)
    assert math.exp(factor) * value == pytest.approx(expected, rel=1e-12)
    assert error < 1e-10 * value


def test_untilted_payoff_without_aliasing():
    points, mass = convolved(LAWS)
    total = TiltedSum.of(LAWS, 0.0, 256)
    for epsilon in (-1.0, 0.2, 0.9):
        value, error = total.plain_payoff(epsilon, -5.0)
        expected = float(mass @ -np.expm1(np.minimum(epsilon - points, 0.0)))
        scale = math.exp(total.log_scale)
        assert abs(value * scale - expected) <= error * scale + 1e-14


def test_relative_accuracy_far_below_one():
    """Binomial sum: P(all 400 steps up) = 2^-400 is exact to rounding where the tilt is right."""
    law = grid_law([0.5, 0.5], first=0, offset=0.0, step=1.0)
    total = TiltedSum.of([(law, 400)], 30.0, 64)
    factor, value, error = total.payoff(399.0)
    expected = -400 * math.log(2.0) + math.log(-math.expm1(-1.0))
    assert factor + math.log(value) == pytest.approx(expected, abs=1e-10)
    assert error < 1e-9 * value


def test_generating_functions_at_the_probes():
    total = TiltedSum.of(LAWS, 1.0, 64, (0.0, -1.0, 2.0))
    points, mass = convolved(LAWS)
    for t, value in total.log_mgf.items():
        assert value == pytest.approx(math.log(float(mass @ np.exp(t * points))), abs=1e-13)


@pytest.mark.few(0, 1)
@pytest.mark.parametrize("size", [64, 1024, 1000, 1331, 1009])
def test_the_error_constant_covers_the_library(size):
    rng = np.random.default_rng(size)
    x = rng.random(size)
    index = (np.arange(size // 2 + 1)[:, None] * np.arange(size)) % size
    angle = index.astype(np.longdouble) * (2 * np.arccos(np.longdouble(-1)) / size)
    exact = np.cos(angle) @ x.astype(np.longdouble) - 1j * (np.sin(angle) @ x)
    error = np.sqrt(np.sum(np.abs(fft.rfft(x) - exact) ** 2) / np.sum(np.abs(exact) ** 2))
    assert float(error) < transform_error(size) < 1e-13


def test_equal_steps_are_merged():
    a = PrivacyLoss.from_atoms([0.0], [1.0])
    b = PrivacyLoss.from_atoms([0.0], [1.0])
    laws, counts = distinct([Step(a, 2), Step(b, 0), Step(a, 3), Step(b, 1)])
    assert laws == [a, b] and counts == [5, 1]
