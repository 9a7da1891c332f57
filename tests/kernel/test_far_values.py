"""Emitted functions far out: relative accuracy in the tails, no nan beyond overflow."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp

import mechc

FAR = (1e3, 1e6, 1e9, 1e200)


@pytest.mark.parametrize("x", FAR)
def test_cauchy_tails_are_accurate_relatively(x: float) -> None:
    kernel, theta = mechc.load("cauchy").kernel, np.array([1.7, 0.9])
    with mp.workdps(40):
        for name, distance in (("cdf_p", x + mp.mpf(0.9)), ("cdf_q", x), ("sf_q", x)):
            exact = mpmath.atan(mp.mpf(1.7) / distance) / mp.pi
            found = getattr(kernel, name)(x if name == "sf_q" else -x, theta)
            assert abs(found / exact - 1) < 1e-15


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["logistic", "exponential_mechanism"])
def test_sampled_distribution_functions_beyond_overflow(name: str) -> None:
    mechanism = mechc.poisson(mechc.load(name), sampling_rate=0.01)
    values = {"scale": 2.0, "sensitivity": 1.0, "epsilon": 0.5, "sampling_rate": 0.01}
    theta = np.array([values[p.name] for p in mechanism.declaration.parameters])
    kernel = mechanism.kernel
    shift, scale = (0.5, 1.0) if name == "exponential_mechanism" else (1.0, 2.0)
    for x in (-1e6, -1e3, -200.0, 3.0, 200.0, 1e3, 1e6):
        with mp.workdps(60):
            parts = [1 / (1 + mpmath.exp((c - mp.mpf(x)) / scale)) for c in (shift, 0.0)]
            below = mp.mpf(0.01) * parts[0] + (1 - mp.mpf(0.01)) * parts[1]
            exact = {"cdf_p": float(below), "cdf_q": float(parts[1])}
        for function, value in exact.items():
            assert getattr(kernel, function)(x, theta) == pytest.approx(value, rel=4e-15, abs=0)
        above = kernel.sf_p(x, theta)
        assert 0.0 <= above <= 1.0 + 1e-15


@pytest.mark.parametrize("level", [300.0, 705.0, 1125.5, 7677.9, 1e6])
def test_sampled_inverse_of_losses_beyond_overflow(level: float) -> None:
    theta = np.array([2.0, 0.5, 0.3])
    kernel = mechc.poisson(mechc.load("gaussian_scale"), sampling_rate=0.3).kernel
    found = np.empty(1)
    right = int(kernel.branches(theta)[-1, 5])  # its inverse
    kernel.loss_inverse_many(right, np.array([level]), theta, found)
    with mp.workdps(40):
        square = 2 * (mpmath.log1p(mpmath.expm1(level) / mp.mpf(0.3)) + mpmath.log(4)) / 3.75
        assert found[0] == pytest.approx(float(mpmath.sqrt(square)), rel=2e-15, abs=0)


@pytest.mark.parametrize("epsilon", [1122.073248830299, 60.0, 1e5])
def test_mass_of_a_sampled_point_keeps_its_digits(epsilon: float) -> None:
    rate = 0.0011130473083056538
    kernel = mechc.poisson(mechc.load("pure_dp")).kernel
    rows = kernel.atoms(np.array([epsilon, rate]))
    with mp.workdps(60):
        shares = [mp.mpf(1), mpmath.exp(-mp.mpf(epsilon))]
        kept, total = 1 - mp.mpf(rate), sum(shares)
        for row, own, other in zip(rows, shares[::-1], shares, strict=True):
            exact = mpmath.log((mp.mpf(rate) * other + kept * own) / total)
            assert row[1] == pytest.approx(float(exact), rel=1e-15, abs=1e-300)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "scale"), [(1.0, 1e-3), (1.0, 1e-6), (30.0, 0.1), (1.0, 0.5)])
def test_gaussian_beside_faint_exponential_noise(sigma: float, scale: float) -> None:
    kernel = mechc.load("exponentially_modified_gaussian").kernel
    theta = np.array([sigma, scale, 0.7])
    with mp.workdps(60):
        s, b = mp.mpf(sigma), mp.mpf(scale)
        for x in (-5.0 * sigma, -0.3, 0.0, 0.7, sigma, 7.0 * sigma, 3.0 * sigma + 9.0 * scale):
            u = (s / b - mp.mpf(x) / s) / mpmath.sqrt(2)
            exact = s**2 / (2 * b**2) - mp.mpf(x) / b + mpmath.log(mpmath.erfc(u) / (2 * b))
            change = 1.0 + x * x / (sigma * sigma)
            assert abs(kernel.log_q(x, theta) - float(exact)) < 4e-15 * change


@pytest.mark.parametrize(("sigma", "direction"), [(1e-3, "add"), (3e-4, "add"), (1e-3, "remove")])
def test_exponential_beside_faint_gaussian_noise(sigma: float, direction: str) -> None:
    event = mechc.load("exponentially_modified_gaussian")(sigma=sigma, scale=1.0)
    answer = event.delta(1.0, direction=direction)
    # without the Gaussian part delta is 1 - 1/e or 0; it moves losses by sigma at most, about
    assert abs(answer.upper - (0.0 if direction == "remove" else -math.expm1(-1.0))) < 1.1 * sigma
    assert answer.upper - answer.lower < 1e-11


def huber(x: mp.mpf, scale: float, bend: float) -> mp.mpf:
    y = abs(x) / scale
    return -y * y / 2 if y < bend else bend * (mp.mpf(bend) / 2 - y)


NOISE = {  # log densities up to constants, and parameters without the sensitivity
    "gumbel": (lambda x, b: -x / b - mpmath.exp(-x / b), (1.7,)),
    "huber": (huber, (2.3, 1.2)),
    "subbotin": (lambda x, beta, b: -((abs(x) / b) ** beta), (1.6, 2.3)),
    "student_t": (lambda x, nu, b: -(nu + 1) / 2 * mpmath.log1p((x / b) ** 2 / nu), (3.7, 1.4)),
}


@pytest.mark.parametrize(
    "name", ["gumbel", *(pytest.param(n, marks=pytest.mark.slow) for n in NOISE if n != "gumbel")]
)
def test_losses_keep_four_units_everywhere(name: str) -> None:
    """Through the whole range, and beside the zero of the loss, where its terms cancel.

    Gumbel's zero is no ratio of the parameters: there a rounding of the shift in scales counts.
    """
    log_density, parameters = NOISE[name]
    theta = np.array([*parameters, 0.7])
    kernel, rng = mechc.load(name).kernel, np.random.default_rng(3)
    with mp.workdps(60):
        exact = [mp.mpf(float(v)) for v in theta]

        def loss(x: mp.mpf) -> mp.mpf:
            return log_density(x - exact[-1], *exact[:-1]) - log_density(x, *exact[:-1])

        zero = float(mpmath.findroot(loss, (0.1, 0.6), solver="anderson"))
        offsets = [side * 10.0**-e for e in range(12) for side in (1, -1)]
        xs = np.array([*rng.uniform(-6.0, 9.0, 50), *(zero + d for d in offsets), 40.0, 1e4])
        found = np.empty(xs.size)
        kernel.loss_many(xs, theta, found)
        for x, value in zip(xs, found, strict=True):
            truth = loss(mp.mpf(float(x)))
            size = abs(truth) + (theta[1] / theta[0] if name == "gumbel" else 0.0)
            assert abs(value - truth) <= 4 * 2.0**-52 * size, x


@pytest.mark.parametrize("x", [5.0, 40.0, 200.0, 843.0, -843.0, 3000.0])
def test_losses_of_replace_samples_keep_their_digits(x: float) -> None:
    """Noise exp(-|x/b|^beta): exponents of thousands, whose differences are small."""
    beta, b, d, q = 2.523436379440385, 30.6697633094917, 1.0, 0.01
    mechanism = mechc.poisson(mechc.load("subbotin"), adjacency="replace")
    found = mechanism.kernel.loss(x, np.array([beta, b, d, q]))
    with mp.workdps(60):

        def mixed(move: float) -> mp.mpf:
            exponents = (abs(mp.mpf(x) - at) / mp.mpf(b) for at in (0.0, move))
            plain, moved = (mpmath.exp(-(e ** mp.mpf(beta))) for e in exponents)
            return (1 - mp.mpf(q)) * plain + mp.mpf(q) * moved

        exact = mp.log(mixed(d) / mixed(-d))
        assert min(abs(found - exact), abs(found + exact)) <= 4 * 2.0**-52 * abs(exact)


@pytest.mark.parametrize("sigma", [1.0, 1e2, 1e4, 3.6e5])
def test_loss_of_a_sample_of_a_gaussian_with_a_short_exponential_tail(sigma):
    """The squares of the arguments of erfc, 2.5e9 at most, cancel inside of the mixture too."""
    kernel = mechc.poisson(mechc.load("exponentially_modified_gaussian")).kernel
    theta, xs = np.array([sigma, 1.0, 1.0, 0.1]), sigma * np.array([-6.0, -2.4, -0.3, 0.7, 5.0])
    found = np.empty(xs.size)
    kernel.loss_many(xs, theta, found)
    for x, loss in zip(xs.tolist(), found.tolist(), strict=True):
        with mpmath.workdps(40):
            moved, here = (
                mpmath.erfc((sigma - (mpmath.mpf(x) - d) / sigma) / mpmath.sqrt(2)) for d in (1, 0)
            )
            exact = mpmath.log1p((mpmath.e * moved / here - 1) * mpmath.mpf(0.1))
        assert abs(loss - exact) < 4e-15 * max(1.0, abs(x) / sigma)


@pytest.mark.slow
def test_loss_of_a_sample_of_huber_noise_with_a_short_gaussian_middle():
    """Squares of 4.8e11, on the flank of a middle a millionth of the move away."""
    scale, bend, move, rate = 2.3044377473430506e-06, 1.1484477902620551, 1.596677620992694, 0.0375
    x = 1.5966749744662554
    found = mechc.poisson(mechc.load("huber")).kernel.loss(x, np.array([scale, bend, move, rate]))
    with mp.workdps(40):
        b, k, d = mp.mpf(scale), mp.mpf(bend), mp.mpf(move)
        moved, here = ((x - d) / b) ** 2 / 2, k * mp.mpf(x) / b - k**2 / 2
        exact = here - moved + mp.log(mp.mpf(rate))  # but for exp(-8e5)
        assert abs(found - exact) <= 1e-15 * exact
