"""Compositions by the size of their largest loss: sparse sampling, against independent values."""

import math
import time

import numpy as np
import pytest

import mechc
from mechc.accountants import sparse
from mechc.accountants.contour import Side
from mechc.accountants.contours.trapezoid import Answer, Smooth
from mechc.accountants.sparse import NOWHERE, Jumps, log_odds, transforms, within, without
from mechc.composition.events import forget_losses
from mechc.declare.text import declaration_from_text
from mechc.loss.privacy_loss import Step
from mechc.loss.truncated_loss import Band

mp = pytest.importorskip("mpmath")


def law(rate, sigma):
    return mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma).loss()


def jumps(steps, epsilon):
    """Brackets for one epsilon, on nodes that its saddle point needs."""
    side = Side(tuple(steps), Smooth(), 1e-6)
    side.choose(epsilon)
    return Jumps(side.law.steps, epsilon, 1e-6)


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
    answer = jumps([Step(law(rate, sigma), 1)], epsilon).answer(epsilon)
    exact = one_step(rate, sigma, epsilon)
    assert answer.lower <= exact <= answer.upper
    assert answer.width < 1e-5


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), CASES)
def test_transforms_may_be_off_by_their_error_wherever_that_counts_most(
    rate, sigma, epsilon, monkeypatch
):
    """Of one step M' is the transform of its large losses: at every frequency off by as much."""
    wave, off = sparse.transformed, 1e-6

    def moved(measure, c, h, nodes):
        log_total, phi, error = wave(measure, c, h, nodes)
        z = c + 1j * h * np.arange(1.0, nodes + 1.0)
        turned = z * (z + 1.0) * np.exp(1j * epsilon * z.imag)
        return log_total, phi + off * turned / np.abs(turned), error + off

    monkeypatch.setattr(sparse, "transformed", moved)
    answer = jumps([Step(law(rate, sigma), 1)], epsilon).answer(epsilon)
    assert answer.lower <= one_step(rate, sigma, epsilon) <= answer.upper


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_masses_that_images_are_made_of_may_be_off_by_their_error(sign, monkeypatch):
    exact = jumps([Step(law(7e-4, 0.45), 65_000)], 0.08).answer(0.08)
    totals, off = sparse.Measure.log_totals, 1e-10

    def moved(self, tilts):
        logs, errors = totals(self, tilts)
        return logs + sign * off * (tilts == 0.0), errors + off * (tilts <= 0.0)

    monkeypatch.setattr(sparse.Measure, "log_totals", moved)
    answer = jumps([Step(law(7e-4, 0.45), 65_000)], 0.08).answer(0.08)
    assert answer.lower <= exact.lower and exact.upper <= answer.upper


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 2.0])
def test_many_steps_agree_with_one_contour(epsilon):
    """Where one contour still does, its choice of tilt, period and proof are other ones."""
    step = Step(law(0.01, 1.0), 100)
    side = Side((step,), Smooth(), 1e-6)
    plain = side.run(side.laid(side.choose(epsilon), False), epsilon)
    answer = jumps([step], epsilon).answer(epsilon)
    assert plain.width < 1e-9
    assert answer.lower <= plain.upper
    assert answer.upper >= plain.lower
    assert abs(answer.estimate - plain.estimate) < 1e-8


def test_different_steps_in_any_split():
    """A count may be taken apart: 60 + 40 repetitions are two distinct steps here."""
    loss, other = law(1e-3, 1.0), law(1e-3, 1.0).fork()
    whole = jumps([Step(loss, 100)], 0.4).answer(0.4)
    parts = jumps([Step(loss, 60), Step(other, 40)], 0.4).answer(0.4)
    assert abs(whole.estimate - parts.estimate) < 1e-7
    assert parts.lower <= whole.upper
    assert whole.lower <= parts.upper


def test_brackets_answer_for_a_near_epsilon():
    loss = law(1e-3, 1.5)
    made = jumps([Step(loss, 1)], 0.5)
    answer, exact = made.answer(0.52), one_step(1e-3, 1.5, 0.52)
    assert answer.lower <= exact <= answer.upper


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


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("sigma", "epsilon", "tilt", "period", "highest"),
    [(2, 3, 48, 20, 90), (1, 398, 12.65, 1000, 0.5)],
)
def test_many_large_losses(sigma, epsilon, tilt, period, highest):
    """At rate 0.001, 1e5 steps: many losses of 0.01 decide, or some seventy of 6."""
    exact = many_steps(1e-3, sigma, 10**5, epsilon, tilt, period, highest)
    loss = law(1e-3, sigma)
    for steps in ([Step(loss, 10**5)], [Step(loss, 60_000), Step(loss.fork(), 40_000)]):
        answer = jumps(steps, epsilon).answer(epsilon)
        assert answer.lower <= exact <= answer.upper
        assert answer.width < 1e-7


def test_single_losses_that_cannot_reach_epsilon_are_added_up():
    bound = (10**5 * mechc.poisson(mechc.load("gaussian"))(sampling_rate=1e-3, sigma=1.0)).epsilon(
        log_delta=-5000.0, direction="remove"
    )
    low, high = (
        many_steps(1e-3, 1, 10**5, e, 12.65, 1000, 0.5) for e in (bound.upper, bound.lower)
    )
    assert low <= -5000.0 + 1e-9 and high >= -5000.0 - 1e-9
    assert bound.upper - bound.lower < 1e-6 * bound.upper


@pytest.mark.slow
def test_other_noise():
    """Nothing is known of the Gaussian: one step of sampled subbotin noise by its branches."""
    sampled = mechc.poisson(mechc.load("subbotin"))
    loss = sampled(sampling_rate=1e-3, beta=1.5, scale=1.0).loss()
    answer = jumps([Step(loss, 1)], 0.3).answer(0.3)
    lower, _, upper = loss.hockey_stick_log(0.3)
    assert answer.lower <= upper
    assert answer.upper >= lower
    assert answer.width < 1e-4


def test_panels_above_a_loss_carry_its_tail():
    loss = law(1e-4, 1.0).covering(-1.0, 8.0)
    edges = (3.0, 4.0)
    band = Band(loss).cut([edges])
    far, rest = within(band, edges, NOWHERE), without(band, edges)
    totals = [m.log_totals(np.array([0.0, 5.0])) for m in (far, rest)]
    with mp.workdps(40):
        q = mp.mpf(1e-4)

        def chi(x):
            level = mp.log(1 - q + q * mp.exp(x - mp.mpf(1) / 2)) - 3
            return mp.betainc(12, 12, 0, min(max(level, 0), 1), regularized=True)

        def density(x):
            return (1 - q) * mp.npdf(x) + q * mp.npdf(x - 1)

        start = mp.log((mp.exp(3) - 1 + q) / q) + mp.mpf(1) / 2
        places = [start + step for step in (0, 0.15, 0.3, 0.45, 0.6, 0.8, 1, 1.3, 2, 4, 10)]
        exact = mp.quad(lambda x: chi(x) * density(x), places)
    (logs, errors), (kept, _) = totals
    assert abs(logs[0] - float(mp.log(exact))) < 1e-9 + errors[0]
    assert errors[0] < 1e-9
    assert np.logaddexp(logs, kept) == pytest.approx([0.0, loss.log_mgf(5.0)], abs=1e-12)


@pytest.mark.parametrize("log_ratio", [-800.0, -20.0, -1.0, 3.0])
def test_odds_of_large_losses(log_ratio):
    count = 1e9 if log_ratio < -10 else 40.0
    found = log_odds(np.array([count]), np.array([[log_ratio]]))[0]
    with mp.workdps(400):
        exact = float(mp.log((1 + mp.exp(mp.mpf(log_ratio))) ** int(count) - 1))
    assert abs(found - exact) < 1e-12 * max(1.0, abs(exact))


@pytest.mark.parametrize(
    ("count", "rate", "sigma", "epsilon"),
    [
        (100, 1e-4, 1.0, 0.1),
        (100, 0.01, 2.0, 1.0),
        (1000, 1e-3, 0.7, 3.0),
        (20, 1e-4, 1.0, 0.5),
        (10**5, 1e-3, 2.0, 3.0),
        (10**5, 1e-3, 1.0, 398.0),
    ],
)
def test_sparse_queries_end_soon(count, rate, sigma, epsilon):
    forget_losses()
    run = count * mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma)
    start = time.process_time()
    bound = run.log_delta(epsilon)
    assert time.process_time() - start < 2.0
    assert bound.upper - bound.lower < 1e-4


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
    none = np.zeros(1, np.complex128)
    found = transforms(np.array([3.0]), np.array([[z]]), none, unit)[0]
    assert abs(found - exact) < 1e-11
