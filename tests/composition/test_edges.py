"""Edge semantics: what has to hold exactly at the ends of every range."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from mpmath import mp
from sympy import Piecewise, exp, pi, sqrt

import mechc
from mechc.declare import mechanism, positive, rate, real
from mechc.errors import DeclarationError

NOTHING = mechc.Composition()


def sides(bound):
    return (bound.lower, bound.estimate, bound.upper)


@pytest.mark.parametrize("epsilon", [-2.0, -1e-9, 0.0, 1e-9, 3.0])
def test_the_empty_composition_is_the_identity(epsilon):
    expected = max(0.0, -math.expm1(epsilon))
    assert NOTHING.delta(epsilon).estimate == pytest.approx(expected, rel=1e-15)
    assert NOTHING.delta(epsilon).lower <= expected <= NOTHING.delta(epsilon).upper


def test_count_zero_is_the_identity(gaussian):
    run = 0 * gaussian(sigma=1.0)
    assert run == NOTHING
    assert sides(run.epsilon(1e-5)) == (0.0, 0.0, 0.0)
    assert sides(run.epsilon(0.0)) == (0.0, 0.0, 0.0)
    assert sides(run.delta(0.0)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_sampling_rate_zero_reveals_nothing(gaussian, adjacency):
    event = mechc.poisson(gaussian, sampling_rate=0.0, adjacency=adjacency)(sigma=1.0)
    assert sides((1000 * event).epsilon(0.0)) == (0.0, 0.0, 0.0)
    assert sides(event.delta(0.0)) == (0.0, 0.0, 0.0)


def test_sampling_rate_one_is_the_mechanism(gaussian):
    plain = gaussian(sigma=2.0).delta(0.5)
    sampled = mechc.poisson(gaussian, sampling_rate=1.0)(sigma=2.0).delta(0.5)
    assert sampled.estimate == pytest.approx(plain.estimate, rel=1e-9)


def test_pure_privacy(laplace, gaussian):
    run = 10 * laplace(scale=4.0)
    answer = run.epsilon(0.0)
    assert answer.lower <= 10 / 4.0 <= answer.upper
    assert answer.upper == pytest.approx(2.5, rel=1e-12)
    assert sides(gaussian(sigma=1.0).epsilon(0.0)) == (math.inf,) * 3


def test_beyond_the_largest_loss_only_the_mass_at_infinity_is_left(laplace):
    assert sides((10 * laplace(scale=4.0)).delta(2.5001)) == (0.0, 0.0, 0.0)
    run = 10 * mechc.load("uniform")(halfwidth=10.0)
    expected = 1 - 0.95**10
    assert run.delta(5.0).lower <= expected <= run.delta(5.0).upper
    assert run.delta(math.inf).estimate == pytest.approx(expected, rel=1e-14)


def test_delta_below_the_mass_at_infinity():
    event = mechc.load("approximate_dp")(epsilon=1.0, delta=1e-6)
    assert sides(event.epsilon(9.9e-7)) == (math.inf,) * 3
    assert event.epsilon(1e-6).upper == pytest.approx(1.0, rel=1e-12)
    assert event.epsilon(1.1e-6).upper < 1.0


def test_infinite_and_negative_epsilon(gaussian):
    event = gaussian(sigma=1.0)
    assert sides(event.delta(math.inf)) == (0.0, 0.0, 0.0)
    assert sides(event.delta(-math.inf)) == (1.0, 1.0, 1.0)
    # I3: delta(-e) = 1 - exp(-e) + exp(-e) delta_reversed(e), and the Gaussian is its own mirror
    expected = 1 - math.exp(-1) + math.exp(-1) * event.delta(1.0).estimate
    assert event.delta(-1.0).estimate == pytest.approx(expected, rel=1e-9)


def test_large_delta_needs_no_epsilon(gaussian):
    for run in (gaussian(sigma=1.0), 20 * gaussian(sigma=1.0)):
        assert sides(run.epsilon(1.0)) == (0.0, 0.0, 0.0)
    advantage = gaussian(sigma=1.0).advantage()
    assert gaussian(sigma=1.0).epsilon(min(1.0, advantage.upper * 1.01)).upper == 0.0


def test_arrays_in_arrays_out(gaussian):
    run = 10 * gaussian(sigma=10.0)
    grid = np.array([[0.1, 0.5], [1.0, 2.0]])
    answer = run.delta(grid)
    assert answer.upper.shape == (2, 2)
    assert answer.upper[1, 0] == pytest.approx(run.delta(1.0).upper, rel=1e-9)
    assert run.epsilon([1e-3, 1e-5]).lower.shape == (2,)
    assert run.delta([]).upper.shape == (0,)


def test_sampling_twice_multiplies_the_rates(gaussian):
    twice = mechc.poisson(mechc.poisson(gaussian, sampling_rate=0.5), sampling_rate=0.2)
    once = mechc.poisson(gaussian, sampling_rate=0.1)
    assert twice(sigma=1.0) == once(sigma=1.0)


def test_rates_next_to_which_doubles_lose_digits_are_refused(gaussian):
    """At epsilon 1 and rate 3e-321 the lower side was -246065, the truth is -273128."""
    for tiny in (5e-324, 3e-310):
        with pytest.raises(DeclarationError, match=f"sampling_rate={tiny!r} is too small"):
            mechc.poisson(gaussian)(sigma=1.0, sampling_rate=tiny)
        with pytest.raises(DeclarationError, match="too small"):
            mechc.without_replacement(gaussian)(sigma=1.0, sensitivity=1.0, sampling_rate=tiny)
    for tiny in (1e-200, 1e-110):
        with pytest.raises(DeclarationError, match="is too small"):
            mechc.poisson(mechc.poisson(gaussian, tiny), 1e-200)
    assert mechc.poisson(mechc.poisson(gaussian, 0.0), 1e-200)(sigma=1.0).is_identity
    least = mechc.poisson(gaussian)(sigma=1.0, sampling_rate=2.3e-308)
    truth = mp.log(mp.mpf(2.3e-308) * mp.erf(mp.sqrt(mp.mpf(1) / 8)))
    bound = least.log_delta(0.0, direction="remove")
    assert bound.lower <= truth <= bound.upper


def test_sampling_an_event_gives_an_event(gaussian):
    event = mechc.poisson(gaussian(sigma=3.0), sampling_rate=0.1)
    assert event == mechc.poisson(gaussian, sampling_rate=0.1)(sigma=3.0)
    with pytest.raises(DeclarationError, match="sampling_rate is needed"):
        mechc.poisson(gaussian(sigma=3.0))


def test_directions_of_one_sided_noise(tmp_path):
    """P = Exp, Q = Exp + D: remove has mass 1 - e^-D at infinity, add is (1 - e^(eps-D))_+."""
    path = tmp_path / "one_sided.py"
    path.write_text(
        "from sympy import Piecewise, exp\n"
        "from mechc.declare import mechanism, positive, real\n"
        'x, d = real("x"), positive("shift", typical=(0.2, 2))\n'
        "law = lambda y: Piecewise((exp(-y), y > 0), (0, True))\n"
        'one_sided = mechanism("one_sided", variable=x, p=law(x), q=law(x - d), parameters=(d,))\n'
    )
    event = mechc.load(path)(shift=0.7)
    assert event.delta(0.3, direction="remove").estimate == pytest.approx(-math.expm1(-0.7))
    assert event.delta(0.3, direction="add").estimate == pytest.approx(-math.expm1(0.3 - 0.7))
    assert event.delta(0.3).estimate == pytest.approx(-math.expm1(-0.7))
    assert sides(event.delta(0.71, direction="add")) == (0.0, 0.0, 0.0)


def discrete_gaussian_log_delta(sigma, epsilon):
    """By summation in logarithms over far more points than carry mass."""
    n = np.arange(-4000, 4001.0)
    total = np.logaddexp.reduce(-(n**2) / (2 * sigma**2))
    p, q = -((n - 1) ** 2) / (2 * sigma**2) - total, -(n**2) / (2 * sigma**2) - total
    above = p - q > epsilon
    return np.logaddexp.reduce(p[above] + np.log(-np.expm1(epsilon - (p - q)[above])))


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 20.0, 50.0])
def test_deep_tails_of_a_lattice_without_end(epsilon):
    event = mechc.load("discrete_gaussian")(sigma=2.0)
    answer, truth = event.log_delta(epsilon), discrete_gaussian_log_delta(2.0, epsilon)
    assert answer.lower <= truth * (1 - 1e-15) and truth * (1 + 1e-15) <= answer.upper
    assert event.epsilon(0.0).lower == math.inf


def test_deep_tails_of_a_loss_whose_limits_are_not_known():
    """A mixture of two Gaussians: beyond 20 the loss is that of the wider one, up to its weight."""
    event = mechc.load("gaussian_scale_mixture")(weight=0.9, narrow=1.0, wide=3.0)
    for epsilon in (10.0, 15.0, 40.0):
        answer = event.log_delta(epsilon)
        wide = mechc.load("gaussian")(sigma=3.0).log_delta(epsilon).estimate + math.log(0.1)
        # within the wide component L(x) = (x - 1/2) / 9 where the narrow one has died out
        assert answer.lower <= wide + 1e-6 and wide - 1e-6 <= answer.upper
    assert event.epsilon(0.0).upper == math.inf


@pytest.mark.parametrize(
    ("weight", "narrow", "wide"), [(0.5, 1e-5, 1.0), (0.01, 1e-4, 1.0), (0.01, 1.0, 1e4)]
)
def test_noise_of_two_scales_far_apart(weight, narrow, wide):
    """The total variation is that of the two components, as each is the larger where it counts."""
    event = mechc.load("gaussian_scale_mixture")(weight=weight, narrow=narrow, wide=wide)
    bound = event.delta(0.0)
    truth = weight * math.erf(1 / narrow / 8**0.5) + (1 - weight) * math.erf(1 / wide / 8**0.5)
    assert bound.lower <= truth * (1 + 1e-13) and truth * (1 - 1e-13) <= bound.upper
    assert bound.width < 1e-9 * truth


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("name", ["laplace", "logistic", "hyperbolic_secant"])
def test_laws_many_widths_apart(name, ratio):
    """At epsilon 1 all but exp(-ratio/2) is revealed, whatever rounding does to the nodes."""
    for parameters in ({"scale": 1 / ratio}, {"scale": 1.0, "sensitivity": ratio}):
        bound = mechc.load(name)(**parameters).delta(1.0)
        assert 1.0 - 6e-16 * ratio - 1e-12 <= bound.lower
        assert bound.upper == 1.0


@pytest.mark.slow
def test_draws_many_widths_apart():
    """At epsilon 1 a record that was drawn is seen: with probability .19 where it is .1 twice."""
    draws = mechc.with_replacement(mechc.load("hyperbolic_secant"), dataset_size=10, batch_size=2)
    for sensitivity in (30.0, 200.0, 1e3):
        bound = draws(scale=1.0, sensitivity=sensitivity).delta(1.0)
        assert bound.lower <= 0.19 + 1e-15 and 0.19 - 1e-9 <= bound.upper <= 0.19 + 1e-9


def test_nothing_exceeds_one_where_all_is_revealed():
    """The formula of the mass at infinity is rounded where supports are many widths apart."""
    event = mechc.load("raised_cosine")(halfwidth=3.6871649711636846e-06, sensitivity=4.6e-4)
    for epsilon in (0.0, 18.9):
        assert event.delta(epsilon).lower <= event.delta(epsilon).upper == 1.0


@pytest.mark.parametrize("target", [1e-3, 1e-9, 1e-12, 1e-15])
def test_epsilon_just_below_the_largest_loss(target):
    event = mechc.load("randomized_response")(epsilon=1.0, categories=2)
    answer = event.epsilon(target)
    p = math.e / (1 + math.e)
    truth = 1 + math.log1p(-target / p)  # p - e^eps (1 - p) = delta
    assert answer.lower <= truth + 1e-15 and truth - 1e-15 <= answer.upper


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("uniform", {"halfwidth": 1.0, "sensitivity": 5.0}),
        ("binomial", {"trials": 5, "sensitivity": 9}),
    ],
)
def test_laws_without_a_common_output_reveal_everything(name, parameters):
    event = mechc.load(name)(**parameters)
    for run in (event, 5 * event, event + mechc.load("gaussian")(sigma=1.0)):
        answer = run.delta(0.1)
        assert 1 - 1e-12 < answer.lower <= answer.upper == 1.0
        assert run.epsilon(0.1).upper == math.inf


X, SIGMA = real("x"), positive("sigma", typical=(0.5, 5))
FIRST, SECOND = rate("first", typical=(0.1, 0.9)), rate("second", typical=(0.1, 0.9))


def normal(centre):
    return exp(-((X - centre) ** 2) / (2 * SIGMA**2)) / (sqrt(2 * pi) * SIGMA)


MIXTURES = mechanism(
    "mixtures", variable=X, parameters=(FIRST, SECOND, SIGMA),
    p=FIRST * normal(1) + (1 - FIRST) * normal(0), q=SECOND * normal(1) + (1 - SECOND) * normal(0),
)  # fmt: skip


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("weight", "sigma"), [(1.0, 0.1), (0.3, 1.0), pytest.param(0.0, 0.1, marks=pytest.mark.slow)]
)
def test_mixtures_of_equal_weights_reveal_nothing(weight, sigma):
    event = mechc.load(MIXTURES)(first=weight, second=weight, sigma=sigma)
    for direction in ("remove", "add"):
        for epsilon in (-0.3, 0.3):
            truth = max(0.0, -math.expm1(epsilon))
            bound = event.delta(epsilon, direction=direction)
            assert truth - 1e-13 <= bound.lower <= bound.upper <= truth + 1e-13


def test_a_mixture_next_to_one_of_its_parts():
    """Where P is N(1, .05^2) but for a hair, half of Q tells up to log(1/2 / hair)."""
    for hair in (0.0, 2.0**-30):
        event = mechc.load(MIXTURES)(first=1.0 - hair, second=0.5, sigma=0.05)
        bound = event.delta(10.0, direction="add")
        truth = 0.5 - math.exp(10.0) * hair  # but for e^-40
        assert bound.lower <= truth <= bound.upper < truth + 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 20.0, 40.0])
def test_laws_whose_overlap_underflows_reveal_everything(epsilon):
    """N(0, 1) beside Exp(1) beyond 1000: no output beyond 1000 has a probability in doubles."""
    shift = positive("shift", typical=(0.1, 2))
    pair = mechanism(
        "overlap", variable=X, p=normal(0), parameters=(SIGMA, shift),
        q=Piecewise((exp(shift - X), shift < X), (0, True)),
    )  # fmt: skip
    run = 50 * mechc.load(pair)(sigma=1.0, shift=1000.0)
    for direction in ("remove", "add"):
        answer = run.delta(epsilon, direction=direction)
        assert 1 - 1e-6 < answer.lower <= answer.upper == 1.0


@pytest.mark.parametrize("epsilon", [700.0, 712.0, 1e5])
def test_sampling_of_a_mechanism_that_reveals_nearly_all(epsilon):
    """All but e^-epsilon of (epsilon, 1e-6)-private outputs tell; sampled, a hundredth of them."""
    sampled = mechc.poisson(mechc.load("approximate_dp"), sampling_rate=0.01)
    answer = sampled(epsilon=epsilon, delta=1e-6).delta(1.0)
    assert answer.lower <= 0.01 <= answer.upper < 0.01 + 2e-15


@pytest.mark.parametrize(
    ("epsilon", "categories", "at"),
    [(5.6e-5, 978, 1.3e-6), (7.0e-5, 29396, -1.7e-8), (5.4e-4, 43484, 1.2e-4), (3.0, 5, 2.9)],
)
def test_small_losses_of_finite_pairs_keep_their_digits(epsilon, categories, at):
    """p - e^at q with p = e^epsilon q, from decimals: differences of logs lost twelve digits."""
    eps, e, c = Decimal(epsilon), Decimal(at), Decimal(categories)
    with localcontext() as context:
        context.prec = 60
        q = 1 / (eps.exp() + c - 1)
        p, gain = eps.exp() * q, e.exp()
        rest = [p - gain * q, q - gain * p, (c - 2) * (q - gain * q)]
        truth = sum((max(term, Decimal(0)) for term in rest), Decimal(0))
    bound = mechc.load("randomized_response")(epsilon=epsilon, categories=categories).delta(at)
    assert Decimal(bound.lower) <= truth <= Decimal(bound.upper)
    assert bound.width < 1e-12 * bound.upper


@pytest.mark.slow
def test_losses_of_one_value_in_doubles_have_no_spread():
    """54 sampled steps of noise that hides nothing: delta is that of being sampled at all."""
    rate = 1.8439487244441537e-4
    noise = mechc.poisson(mechc.load("laplace"))(
        scale=1.3179125066176814e-06, sensitivity=18403.028220161807, sampling_rate=rate
    )
    found = (54 * noise).delta(1.897e-4)
    assert 0.9 * -math.expm1(54 * math.log1p(-rate)) <= found.lower
    assert found.lower <= -math.expm1(54 * math.log1p(-rate)) <= found.upper <= 1.0
