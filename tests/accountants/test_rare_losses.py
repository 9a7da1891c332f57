"""Sparse sampling, rare large losses beside many small ones: against independent values."""

import pytest

import mechc
from mechc.declare.text import declaration_from_text

mp = pytest.importorskip("mpmath")


def run(count, rate, sigma):
    return count * mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma)


def one_step(rate, sigma, epsilon):
    """Log delta of one step in closed form: the loss exceeds epsilon beyond one output."""
    with mp.workdps(50):
        q, s, e = map(mp.mpf, (rate, sigma, epsilon))
        x = s * s * mp.log((mp.exp(e) - 1 + q) / q) + mp.mpf(1) / 2
        hit, miss = mp.erfc((x - 1) / s / mp.sqrt(2)) / 2, mp.erfc(x / s / mp.sqrt(2)) / 2
        return float(mp.log((1 - q) * miss + q * hit - mp.exp(e) * miss))


@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon"),
    [(0.01, 1.0, 1.0), (1e-4, 1.0, 0.1), (3e-3, 0.7, 4.0), (2e-4, 1.5, 1.07), (0.02, 2.0, 9.0)],
)
def test_one_step_on_a_mesh(rate, sigma, epsilon):
    bound = run(1, rate, sigma).log_delta(epsilon, direction="remove", method="pld")
    assert bound.lower <= one_step(rate, sigma, epsilon) <= bound.upper
    assert bound.upper - one_step(rate, sigma, epsilon) < 2e-3


def many_steps(rate, sigma, count, epsilon, tilt, period, highest):
    """Log delta of sampled Gaussian noise: two trapezoid rules, in 45 digits.

    One for the transform of the loss, over outputs, where it converges faster than any power; one
    for the inversion, on a contour where all that cancels is digits.
    """
    with mp.workdps(45):
        q, s, c, step = mp.mpf(rate), mp.mpf(sigma), mp.mpf(tilt), mp.mpf(sigma) / 7
        outputs = [step * i for i in range(int(-16 * s / step), int((c + 1 + 16 * s) / step))]
        loss = [mp.log(1 - q + q * mp.exp((x - mp.mpf(1) / 2) / s**2)) for x in outputs]
        weight = [
            mp.npdf(x, 0, s) * step * mp.exp((c + 1) * v)
            for x, v in zip(outputs, loss, strict=True)
        ]
        mass = mp.fsum(weight)
        mean = mp.fsum(w * v for w, v in zip(weight, loss, strict=True)) / mass
        turn = [mp.expj(2 * mp.pi / period * (v - mean)) for v in loss]
        wave, total = [w / mass for w in weight], 1 / (c * (c + 1))
        for n in range(1, int(highest * period / (2 * mp.pi)) + 1):
            wave = [w * t for w, t in zip(wave, turn, strict=True)]
            y = 2 * mp.pi * n / period
            z = mp.mpc(c, y)
            total += (
                2 * (sum(wave) ** count * mp.expj(y * (count * mean - epsilon)) / z / (z + 1)).real
            )
        return float(count * mp.log(mass) - c * epsilon + mp.log(total / period))


@pytest.mark.parametrize(
    ("sigma", "epsilon", "tilt", "period", "highest"),
    [(2, 3, 48, 20, 90), (1, 398, 12.65, 1000, 0.5)],
)
def test_many_large_losses(sigma, epsilon, tilt, period, highest):
    """At rate 0.001, 1e5 steps: many losses of 0.01 decide, or some seventy of 6."""
    exact = many_steps(1e-3, sigma, 10**5, epsilon, tilt, period, highest)
    bound = run(10**5, 1e-3, sigma).log_delta(epsilon, direction="remove")
    assert bound.lower <= exact <= bound.upper


@pytest.mark.parametrize(
    ("count", "rate", "sigma", "delta"),
    [(100, 1e-4, 1.0, 1e-8), (1000, 1e-3, 0.7, 1e-9), (20, 1e-4, 1.0, 1e-10)],
)
def test_epsilon_of_sparse_runs_is_narrow(count, rate, sigma, delta):
    bound = run(count, rate, sigma).epsilon(delta)
    assert 0.0 < bound.lower <= bound.upper < 1.001 * bound.lower


def test_branches_that_overlap():
    """Noise with a cusp at its mode: delta(0) = P(|noise| < 1/2), an incomplete gamma function."""
    beta, scale = 0.5789130509855106, 2.087872121316262
    noise = mechc.load("subbotin")(beta=beta, scale=scale)
    answer = noise.log_delta(0.0)
    truth = float(mp.log(mp.gammainc(1 / beta, 0, (0.5 / scale) ** beta, regularized=True)))
    assert answer.lower <= truth <= answer.upper
    assert answer.width < 1e-5


def test_steps_without_small_losses_leave_no_nan():
    """All losses of gamma-like noise moved to the right exceed 0.14: the small part is empty."""
    pair = mechc.load(
        declaration_from_text("unseen", p="where(x>1, x-1, 0)*exp(1-x)", q="where(x>0, exp(-x), 0)")
    )
    answer = (2 * pair()).log_delta(0.5)
    assert answer.lower <= answer.estimate <= answer.upper <= 0.0
