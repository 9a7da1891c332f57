"""Compositions by the size of their largest loss: sparse sampling, against independent values."""

import math
import time

import numpy as np
import pytest

import mechc
from mechc.accountants.hits import Hits, log_odds, odds
from mechc.accountants.jumps import Jumps
from mechc.accountants.side import Side
from mechc.accountants.trapezoid import Answer, Smooth
from mechc.composition import forget_losses
from mechc.loss.band import Band
from mechc.loss.measure import Step
from mechc.parse import declaration_from_text

mp = pytest.importorskip("mpmath")


def law(rate, sigma):
    return mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma).loss()


def one_step(rate, sigma, epsilon):
    """Log delta of one step in closed form: the loss exceeds epsilon beyond one output."""
    with mp.workdps(50):
        q, s, e = map(mp.mpf, (rate, sigma, epsilon))
        x = s * s * mp.log((mp.exp(e) - 1 + q) / q) + mp.mpf(1) / 2
        hit, miss = mp.erfc((x - 1) / s / mp.sqrt(2)) / 2, mp.erfc(x / s / mp.sqrt(2)) / 2
        return float(mp.log((1 - q) * miss + q * hit - mp.exp(e) * miss))


CASES = [
    (0.01, 1.0, 1.0),
    (1e-4, 1.0, 0.1),
    (3e-3, 0.7, 4.0),
    (2e-4, 1.5, 1.07),
    (1.8e-5, 4.0, 0.217),  # exp(-735): below all doubles but for logs
    (0.02, 2.0, 9.0),
]


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), CASES)
def test_one_step(rate, sigma, epsilon):
    answer = Jumps([Step(law(rate, sigma), 1)], epsilon, 1e-6).answer(epsilon)
    exact = one_step(rate, sigma, epsilon)
    assert answer.lower <= exact <= answer.upper
    assert answer.width < 1e-5


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 2.0])
def test_many_steps_agree_with_one_contour(epsilon):
    """Where one contour still does, its choice of tilt, period and proof are other ones."""
    step = Step(law(0.01, 1.0), 100)
    side = Side((step,), Smooth(), 1e-6)
    plain = side._run(side._laid(side._choose(epsilon)), epsilon)
    answer = Jumps([step], epsilon, 1e-6).answer(epsilon)
    assert plain.width < 1e-9
    assert answer.lower <= plain.upper
    assert answer.upper >= plain.lower
    assert abs(answer.estimate - plain.estimate) < 1e-8


def test_different_steps_in_any_split():
    """A count may be taken apart: 60 + 40 repetitions are two distinct steps here."""
    loss, other = law(1e-3, 1.0), law(1e-3, 1.0).fork()
    whole = Jumps([Step(loss, 100)], 0.4, 1e-6).answer(0.4)
    parts = Jumps([Step(loss, 60), Step(other, 40)], 0.4, 1e-6).answer(0.4)
    assert abs(whole.estimate - parts.estimate) < 1e-7
    assert parts.lower <= whole.upper
    assert whole.lower <= parts.upper


def test_brackets_answer_for_a_near_epsilon():
    loss = law(1e-3, 1.5)
    made = Jumps([Step(loss, 1)], 0.5, 1e-6)
    answer, exact = made.answer(0.52), one_step(1e-3, 1.5, 0.52)
    assert answer.lower <= exact <= answer.upper


@pytest.mark.slow
def test_other_noise():
    """Nothing is known of the Gaussian: one step of sampled subbotin noise by its branches."""
    sampled = mechc.poisson(mechc.load("subbotin"))
    loss = sampled(sampling_rate=1e-3, beta=1.5, scale=1.0).loss()
    answer = Jumps([Step(loss, 1)], 0.3, 1e-6).answer(0.3)
    lower, _, upper = loss.hockey_stick_log(0.3)
    assert answer.lower <= upper
    assert answer.upper >= lower
    assert answer.width < 1e-4


def test_a_band_carries_its_own_mass():
    loss = law(1e-4, 1.0)
    far = Band(loss, 3.0, math.inf, (-1.0, 0.0))
    with mp.workdps(40):
        x = mp.log((mp.exp(3) - 1 + mp.mpf(1e-4)) / mp.mpf(1e-4)) + mp.mpf(1) / 2
        miss, hit = (mp.erfc((x - at) / mp.sqrt(2)) / 2 for at in (0, 1))
        exact = float((1 - mp.mpf(1e-4)) * miss + mp.mpf(1e-4) * hit)
    found = sum(math.exp(w) for w in far.log_weight)
    assert abs(found / exact - 1.0) < 1e-11


@pytest.mark.parametrize("log_ratio", [-800.0, -20.0, -1.0, 3.0])
def test_odds_of_large_losses(log_ratio):
    import numpy as np

    count, number = 1e9 if log_ratio < -10 else 40.0, 2
    found = log_odds(Hits(number, False), np.array([count]), np.array([[log_ratio]]))[0]
    with mp.workdps(60):
        r, k = mp.exp(mp.mpf(log_ratio)), int(count)
        exact = float(mp.log((1 + r) ** k - 1 - k * r)) if log_ratio > -800 else None
    if exact is None:
        exact = math.log(count) + math.log(count - 1) - math.log(2) + 2 * log_ratio
    assert abs(found - exact) < 1e-12 * max(1.0, abs(exact))


@pytest.mark.parametrize(
    ("count", "rate", "sigma", "epsilon"),
    [(100, 1e-4, 1.0, 0.1), (100, 0.01, 2.0, 1.0), (1000, 1e-3, 0.7, 3.0), (20, 1e-4, 1.0, 0.5)],
)
def test_sparse_queries_end_soon(count, rate, sigma, epsilon):
    forget_losses()
    run = count * mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma)
    start = time.process_time()
    bound = run.log_delta(epsilon)
    assert time.process_time() - start < 2.0
    assert bound.upper - bound.lower < 1e-4


def test_branches_that_overlap_have_a_density_that_is_their_sum():
    """Noise with a cusp at its mode: delta(0) = P(|noise| < 1/2), an incomplete gamma function.

    The squares of two densities are less than the square of their sum: what lies beyond the last
    frequency was bounded too low, and the interval missed the truth by 4e-9.
    """
    beta, scale = 0.5789130509855106, 2.087872121316262
    noise = mechc.load("subbotin")(beta=beta, scale=scale)
    answer = Jumps((Step(noise.loss(), 1),), 0.0, 1e-6).answer(0.0)
    truth = float(mp.log(mp.gammainc(1 / beta, 0, (0.5 / scale) ** beta, regularized=True)))
    assert answer.lower <= truth <= answer.upper
    assert answer.width < 1e-6


def test_steps_without_small_losses_leave_no_nan():
    """All losses of gamma-like noise moved to the right exceed 0.14: the small part is empty."""
    assert Answer(-1.0, -0.5, math.nan, {}).width == math.inf
    pair = mechc.load(
        declaration_from_text("unseen", p="where(x>1, x-1, 0)*exp(1-x)", q="where(x>0, exp(-x), 0)")
    )
    answer = (2 * pair()).log_delta(0.5)
    assert answer.lower <= answer.estimate <= answer.upper <= 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("z", [800 + 0.3j, 5000 - 2j, 5 - 2j, -50 + 1j])
def test_odds_of_any_size(z):
    """Large losses that outweigh small ones by more than doubles hold."""
    with mp.workdps(60):
        exact = (1 + mp.exp(mp.mpc(z))) ** 3 - 1
        unit = float(mp.log(abs(exact)))
        exact = complex(exact / mp.exp(mp.mpf(unit)))
    found = odds(Hits(1, False), np.array([3.0]), np.array([[z]]), unit)[0]
    assert abs(found - exact) < 1e-11
