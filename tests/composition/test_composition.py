"""The algebra of events, and laws that hold whatever the numbers are."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import mechc
from mechc.errors import DeclarationError


def closed_gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_algebra(gaussian, laplace):
    a, b = gaussian(sigma=2.0), laplace(scale=3.0)
    assert a + b == b + a
    assert a + a == 2 * a == a * 2 == sum([a, a])
    assert 3 * (a + 2 * b) == mechc.compose((a, 3), (b, 6)) == mechc.compose((b, 6), a, (a, 2))
    assert hash(a + b) == hash(b + a)
    assert a == gaussian(sigma=2.0, sensitivity=1.0)
    assert (a + b).count == 2
    assert len(5 * a + 7 * b) == 2
    assert repr(2 * a) == "2 * gaussian(sigma=2, sensitivity=1)"
    assert dict((2 * a + b).parts) == {a: 2, b: 1}


def test_count_and_loop_agree(gaussian):
    event = gaussian(sigma=5.0)
    loop = mechc.Composition()
    for _ in range(7):
        loop = loop + event
    assert loop == 7 * event
    assert loop.delta(0.4).estimate == (7 * event).delta(0.4).estimate


def test_order_is_irrelevant_to_the_last_bit(gaussian, laplace, sampled_gaussian):
    parts = [
        (gaussian(sigma=20.0), 30),
        (laplace(scale=40.0), 5),
        (sampled_gaussian(sampling_rate=0.02, sigma=1.3), 200),
    ]
    forward, backward = mechc.compose(*parts), mechc.compose(*reversed(parts))
    assert forward.delta(0.5) == backward.delta(0.5)
    one = gaussian(sigma=20.0)
    assert (one + 2 * laplace(scale=9.0)).claim == (2 * laplace(scale=9.0) + one).claim
    assert 1 * one == one == mechc.compose(one) != 2 * one
    assert hash(1 * one) == hash(one)


@pytest.mark.parametrize("count", [1, 10, 10**4, 10**9])
def test_gaussians_compose_to_a_gaussian(gaussian, count):
    sigma = 1.7 * math.sqrt(count)
    answer = (count * gaussian(sigma=sigma)).delta(0.8)
    truth = closed_gaussian_delta(1 / 1.7, 0.8)
    assert answer.lower <= truth * (1 + 1e-13) and truth * (1 - 1e-13) <= answer.upper
    assert answer.estimate == pytest.approx(truth, rel=1e-10)


def test_one_iterable_of_parts_composes_as_the_parts_do(gaussian):
    steps = [gaussian(sigma=1.0 + 0.5 * i) for i in range(5)]
    assert mechc.compose(steps) == mechc.compose(*steps) == mechc.compose(s for s in steps)


def test_an_error_that_shows_a_long_value_is_short(gaussian):
    steps = [gaussian(sigma=1.0 + 0.5 * i) for i in range(500)]
    with pytest.raises(DeclarationError, match=r"sigma=1, .* \.\.\. .*neither an event") as found:
        mechc.compose(steps, steps)
    assert len(str(found.value)) < 4000


def test_different_gaussians_compose(gaussian):
    run = 3 * gaussian(sigma=4.0) + 5 * gaussian(sigma=7.0, sensitivity=2.0)
    mu = math.sqrt(3 / 16 + 5 * 4 / 49)
    assert run.delta(1.0).estimate == pytest.approx(closed_gaussian_delta(mu, 1.0), rel=1e-10)


def test_more_noise_less_sampling_fewer_steps_is_more_private(sampled_gaussian):
    def delta(rate=0.02, sigma=1.5, steps=500):
        return (steps * sampled_gaussian(sampling_rate=rate, sigma=sigma)).delta(0.7)

    base = delta()
    for better in (delta(sigma=1.6), delta(rate=0.019), delta(steps=490)):
        assert better.upper < base.lower


def test_profile_is_decreasing_and_convex(sampled_gaussian):
    run = 3000 * sampled_gaussian(sampling_rate=0.01, sigma=2.0)
    epsilon = np.linspace(0.1, 12.0, 60)
    answer = run.log_delta(epsilon)
    assert (answer.lower <= answer.estimate).all() and (answer.estimate <= answer.upper).all()
    assert (np.diff(answer.estimate) < 0).all()
    assert (answer.upper - answer.lower <= 1e-8).all()
    # chords of a convex function of a = e^epsilon lie above it
    a, log_delta = np.exp(epsilon), answer.estimate
    weight = (a[2:] - a[1:-1]) / (a[2:] - a[:-2])
    chord = np.logaddexp(np.log(weight) + log_delta[:-2], np.log1p(-weight) + log_delta[2:])
    assert (log_delta[1:-1] <= chord + 1e-9).all()


def test_worst_direction_is_taken_after_composition(laplace):
    """For one step remove is worse, for two steps add is: mechanisms with atoms can swap."""
    event = mechc.poisson(laplace, sampling_rate=0.5)(scale=2.0)
    two = 2 * event
    remove, add = (two.delta(0.07, direction=d) for d in ("remove", "add"))
    assert add.lower > remove.upper
    both = two.delta(0.07)
    assert both.lower == pytest.approx(add.lower) and both.upper == pytest.approx(add.upper)
    one = [event.delta(0.07, direction=d).estimate for d in ("remove", "add")]
    assert one[0] > one[1]


def test_a_symmetric_composition_is_evaluated_once(laplace):
    run = 5 * laplace(scale=2.0)
    if run.symmetric:
        assert run.evaluation().directions == ("remove",)
    remove, add = (run.delta(0.3, direction=d) for d in ("remove", "add"))
    assert remove.estimate == pytest.approx(add.estimate, rel=1e-9)


def test_kernels_can_be_used_without_their_declaration(gaussian):
    again = mechc.load(gaussian.kernel)
    assert again(sigma=3.0).delta(0.5).estimate == gaussian(sigma=3.0).delta(0.5).estimate


def test_equal_formulas_with_other_names_are_other_kernels():
    from sympy import exp

    from mechc.declare import additive, positive, real

    x = real("x")
    for name in ("spread", "width"):
        scale = positive(name)
        made = additive("same", noise=exp(-(x**2) / scale**2) / (scale * 1.7724538509055160273),
                        variable=x, sensitivity=1, parameters=(scale,))  # fmt: skip
        assert [p.name for p in mechc.load(made).parameters] == [name]
