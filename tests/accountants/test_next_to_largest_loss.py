"""Next to the largest loss of laws that end in atoms: against sums in ball arithmetic."""

import math
import random

import numpy as np
import pytest
import questions
import truth
from flint import arb
from mpmath import mp, mpf

import mechc
from mechc.composition.inputs import Setting
from mechc.declare.text import declaration_from_text


def laplace_truth(count, scale, epsilon):
    width = arb(1) / arb(scale)
    density = (-width / 2).exp() / 4
    return truth.half_tilted_uniform(
        count, width, density, arb(1) / 2, (-width).exp() / 2, arb(epsilon)
    )


@pytest.mark.parametrize("seed", range(8))
def test_laplace(seed):
    rng = np.random.default_rng(seed)
    scale, count = 10 ** rng.uniform(0, 2), int(10 ** rng.uniform(0, 1.5))
    epsilon = (count - min(count, 2.0) * 10 ** rng.uniform(-4, 0)) / scale
    answer = (count * mechc.load("laplace")(scale=scale)).log_delta(epsilon)
    exact = laplace_truth(count, scale, epsilon)
    assert answer.lower <= exact <= answer.upper and answer.upper - answer.lower < 1e-6


@pytest.mark.few(0, 2)
@pytest.mark.parametrize("gap", [0.0, 1e-14, 1e-12, 1e-9])
def test_where_rounding_decides(gap):
    """delta(top - gap) is 2^-30 (1 - exp(-gap)); losses are known to some 2e-14."""
    run = 30 * mechc.load("laplace")(scale=8.0)
    answer = run.log_delta(3.75 - gap)
    exact = -30 * math.log(2.0) + (math.log(gap) if gap else -math.inf)
    assert answer.lower <= exact + 1e-7 and exact - 1e-7 <= answer.upper
    assert answer.upper <= math.log(2.0**-30 * gap + 1e-13)


@pytest.mark.parametrize(
    "scale, count, log_delta",
    [(4.28437, 5, -158.6), (7.2368, 90, -276.2), (14.4765, 16, -47.9), (41.97, 26, -18.5)],
)
def test_epsilon_next_to_the_largest_loss(scale, count, log_delta):
    """There searches used to end above the largest loss, or in a singular matrix."""
    answer = (count * mechc.load("laplace")(scale=scale)).epsilon(log_delta=log_delta)
    top = count / scale
    assert answer.lower <= answer.upper <= top * (1.0 + 1e-14)
    assert answer.upper - answer.lower < 1e-9 * top
    if answer.upper < top * (1.0 - 1e-9):
        assert laplace_truth(count, scale, answer.upper * (1 + 1e-13)) <= log_delta
        assert laplace_truth(count, scale, answer.lower * (1 - 1e-13)) >= log_delta
    else:  # delta is below 2^-count (1 - exp(-gap)) for all gaps that doubles hold
        assert log_delta < -count * math.log(2.0) + math.log(2e-12 * top)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_sampled_laplace_agrees_with_the_mesh(direction):
    laplace = mechc.load("laplace")
    sampled = mechc.poisson(laplace)(scale=3.0, sampling_rate=0.5)
    run = mechc.compose((sampled, 4), (laplace(scale=2.0), 2))
    top = run.evaluation(Setting(direction=direction)).largest_loss_in(direction)[0]
    found = run.log_delta(top - 0.05, direction=direction)
    mesh = run.log_delta(top - 0.05, method="pld", direction=direction)
    assert found.width < 1e-6
    assert mesh.lower <= found.upper and found.lower <= mesh.upper and mesh.width < 1e-5


def test_a_query_next_to_the_largest_loss_spoils_no_later_one():
    """Nodes for the tilts of the first query used to make the second one wide and slow."""
    scales = np.random.default_rng(5).uniform(5, 20, 10)
    run = mechc.compose(*[(mechc.load("laplace")(scale=s), 1) for s in scales])
    run.epsilon(1e-6)
    answer = run.delta(0.5)
    assert answer.upper / answer.lower - 1.0 < 1e-8


@pytest.mark.slow
def test_a_density_that_rises_like_an_inverse_root_at_its_atom():
    """Huber noise: rho turns from quadratic to linear at the largest loss; polynomials do not see.

    The answer had an upper end 5e-8 below the truth, from the integral of both densities.
    """
    scale, bend, move, epsilon = 6.227390212848468, 1.345, 0.6775323542769509, -0.016589501126944153
    event = mechc.load("huber")(scale=scale, bend=bend, sensitivity=move)
    for method in ("auto", "contour"):
        answer = event.log_delta(epsilon, method=method, direction="remove")
        assert answer.lower <= -3.01124322789942221 <= answer.upper


@pytest.mark.parametrize("share", [0.0, 1e-15, 1e-13, 1e-10, 1e-6])
@pytest.mark.parametrize(
    ("rate", "scale"),
    [(6.138e-8, 0.0621), (2e-32, 0.014014), (7.9e-55, 0.008869), (4.5e-92, 0.005364), (0.1, 0.3)],
)
def test_samples_of_laplace_whose_losses_have_lost_digits(rate, scale, share):
    """log(1 + rate expm1(1 / scale)) has the digits of the exponential."""
    with mp.workdps(60):
        q, d = mpf(rate), 1 / mpf(scale)
        top = mp.log1p(q * mp.expm1(d))
        epsilon = float(top * (1 - mpf(share)))
        plain = mp.log((mp.exp(epsilon) - 1 + q) / q)  # the loss without sampling
        u = (plain + d) / 2  # outputs above have more, in units of the scale
        of_q, of_p = mp.exp(-u) / 2, 1 - mp.exp(u - d) / 2
        truth = (1 - q) * of_q + q * of_p - mp.exp(epsilon) * of_q if plain < d else mpf(0)
        event = mechc.poisson(mechc.load("laplace"), rate)(scale=scale)
        bound = event.log_delta(epsilon, direction="remove")
        assert bound.lower <= (mp.log(truth) if truth > 0 else -mp.inf) <= bound.upper


@pytest.mark.parametrize("ulps", [0, 1, 3])
def test_one_step_at_a_loss_that_is_largest_in_the_interior(ulps):
    """Exp(1) against Weibull(1/2): L = -x + sqrt(x) + log(x)/2 + log 2, largest at x = 1.

    There L = log 2 - (x - 1)^2 (3/8) + ..., so delta(log 2 - h) is about e^-1 (4/3) h sqrt(8h/3).
    """
    run = questions.load("exp_weibull")(a=0.5)
    top = math.log(2.0)
    for _ in range(ulps):
        top = math.nextafter(top, 0.0)
    answer = run.log_delta(top, direction="remove")
    gap = float(mp.log(2) - mpf(top))
    exact = math.log(4 / 3 * gap * math.sqrt(8 * gap / 3)) - 1.0 if gap > 0.0 else -math.inf
    assert answer.lower <= exact <= answer.upper <= -34.0


@pytest.mark.parametrize(
    ("family", "values"),
    [
        pytest.param("gamma_rates", {
            "a": 5.670943510299053, "b": 4.9111692450882884, "s": 0.7774699974012538,
            "t": 0.5954612519300627, "sampling_rate": 0.9999969389030351,
        }, marks=pytest.mark.slow),
        ("betas", {"a": 7.012518781970312, "b": 6.742293742360992, "c": 1.992361254799076,
                   "s": 0.6515723338051483, "sampling_rate": 2.28006376015924e-10}),
    ],
)  # fmt: skip
def test_the_largest_loss_is_not_known_better_than_the_logs_it_comes_from(family, values):
    """Ulps below it, where the computed largest loss may lie: against ball arithmetic."""
    run = questions.load(family, "poisson")(**values)
    reference = questions.by_hand(family, values, "poisson")
    top = questions.largest_losses(reference)[0]
    for ulps in (-9, -4, -2, -1, 0, 1):
        epsilon = questions.next_to(top, ulps)
        answer = run.log_delta(epsilon, direction="remove")
        least, most = reference.one_step_in_balls(epsilon)
        assert answer.lower <= most + 1e-9 and least - 1e-9 <= answer.upper


@pytest.mark.few(1, 2)
@pytest.mark.parametrize("seed", range(4))
def test_a_level_loss_that_has_lost_digits(seed):
    """Two triangles, sampled: log(1 + r (1 / (1 - a) - 1)) on (a, 1), against the closed form.

    The constant itself loses nothing, for smaller a too.
    """
    draw, sampled = random.Random(seed), questions.load("triangles", "poisson")
    for _ in range(30):
        peak, rate = 10.0 ** draw.uniform(-4.0, -0.02), 10.0 ** draw.uniform(-9.0, -0.1)
        with mp.workdps(50):
            a, r = mp.mpf(peak), mp.mpf(rate)
            level = 1 / (1 - a)
            top = mp.log(1 + r * (level - 1))
            tiny = mp.mpf(1e-8 * peak)
            wanted = mp.log1p(r * tiny / (1 - tiny))
        kernel = sampled.kernel
        assert kernel.loss(0.5, np.array([float(tiny), rate])) == pytest.approx(
            float(wanted), 1e-15
        )
        with mp.workdps(50):
            epsilon = float(top * (1 - mp.mpf(10) ** -draw.uniform(1.0, 12.0)))
            c = 1 + mp.expm1(mp.mpf(epsilon)) / r
            if not 0 < c < level:
                continue
            start = c * a / (1 + c * a)
            rising, falling = (a**2 - start**2) / a, (1 - start) ** 2 - (1 - a) ** 2
            exact = mp.log(r * (rising - c * falling + (level - c) * (1 - a) ** 2))
        event = sampled(peak=peak, sampling_rate=rate)
        found = event.log_delta(epsilon, direction="remove")
        assert found.lower <= exact <= found.upper, (peak, rate, epsilon)


@pytest.mark.slow
def test_one_step_whose_losses_below_a_plateau_are_not_split():
    """Uniform noise on (-2, 2) smoothed by Laplace noise of scale 4: beyond 3 the loss is 1/4."""
    noise = declaration_from_text(
        "smoothed",
        noise="where(abs(x) <= a, 1 - exp(-a/b)*cosh(x/b), sinh(a/b)*exp(-abs(x)/b)) / (2*a)",
    )

    def density(v):
        inner = 1 - mp.exp(-mpf(1) / 2) * mp.cosh(v / 4)
        return (inner if abs(v) <= 2 else mp.sinh(mpf(1) / 2) * mp.exp(-abs(v) / 4)) / 4

    def delta(epsilon):
        def gap(v):
            return density(v - 1) - mp.exp(epsilon) * density(v)

        start = mp.findroot(gap, (2, 2.9999), solver="bisect", tol=1e-40)
        return mp.quad(gap, [start, 3, 30, 300])

    found = mechc.load(noise)(a=2.0, b=4.0).epsilon(1e-5)
    assert found.upper - found.lower < 1e-12
    assert delta(found.upper + 1e-12) <= 1e-5 <= delta(found.lower - 1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize("rate", [0.02, 0.9])
def test_a_largest_loss_beside_a_jump_is_known(rate):
    """Ulps of the end of a branch took its loss from beyond the jump: [0, 1]."""
    sigma, move, end, epsilon = 1.3, 0.6, 20.0, 0.3
    noise = mechc.truncate(mechc.load("balanced_gaussian"), -end, end)
    event = mechc.poisson(noise, rate)(sigma=sigma, sensitivity=move)
    with mp.workdps(40):

        def above(x):  # of both laws, within the ends
            q, sides = mp.npdf(x, 0, sigma), [mp.npdf(x, s * move, sigma) for s in (1, -1)]
            return (1 - rate) * q + rate * mp.fsum(sides) / 2 - mp.exp(epsilon) * q

        ratio = (mp.exp(epsilon) - 1 + rate) / rate * mp.exp(mpf(move) ** 2 / (2 * mpf(sigma) ** 2))
        start = mpf(sigma) ** 2 / move * mp.acosh(ratio)
        lost = (mp.ncdf(-(end - move) / sigma) + mp.ncdf(-(end + move) / sigma)) * rate
        exact = float(mp.log(2 * mp.quad(above, mp.linspace(start, end, 40)) + lost))
    answer = event.log_delta(epsilon, direction="remove")
    assert answer.lower <= exact <= answer.upper <= answer.lower + 1e-9
