"""Epsilon from log delta: certified sides on made-up profiles with known inverses."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
import truth
from scipy.stats import norm

import mechc
from mechc.accountants.bound import Bound
from mechc.accountants.contours.columns import Columns
from mechc.composition.queries import epsilon
from mechc.errors import NumericError
from mechc.loss.privacy_loss import PrivacyLoss, Step


def solve(log_delta, target, start=1.0, slope=-1.0):
    curve = epsilon.Curve(log_delta, target)
    root, slope = epsilon.root(curve, "estimate", start, slope)
    upper = epsilon.certified_side(curve, "upper", root, slope)
    lower = epsilon.certified_side(curve, "lower", root, slope)
    return lower, root, upper, len(curve.points)


def profile(function, width=1e-10):
    def log_delta(epsilon):
        value = function(epsilon)
        return Bound(value - width, value, value + width, "made up", "proven")

    return log_delta


@pytest.mark.parametrize("target", [-0.5, -3.0, -30.0, -900.0])
@pytest.mark.parametrize("start", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize(
    "function",
    [
        lambda e: -e,
        lambda e: -(e**2) - 1e-3 * e,
        lambda e: -math.exp(e) + 1,
        lambda e: -100 * math.log1p(e),
    ],
)
def test_roots_are_found_in_few_steps(function, start, target):
    lower, root, upper, evaluations = solve(profile(function), target, start)
    assert function(root) == pytest.approx(target, rel=1e-9)
    assert lower <= root <= upper
    assert function(lower) - 1e-10 > target >= function(upper) + 1e-10
    assert upper - lower <= 1e-7 * max(1.0, root)
    assert evaluations <= 40


@pytest.mark.parametrize(
    ("name", "scale", "count", "deviation"),
    [("logistic", 30.0, 3000, math.sqrt(3.0) * 30.0), ("laplace", 300.0, 100_000, 300.0)],
)
def test_deep_targets_of_many_bounded_losses(name, scale, count, deviation):
    """Far inside the largest loss they are those of normal noise, up to terms in 1 / scale."""
    bound = (count * mechc.load(name)(scale=scale)).epsilon(1e-50)
    normal = mechc.load("gaussian")(sigma=deviation / math.sqrt(count)).epsilon(1e-50)
    assert bound.upper - bound.lower <= 1e-6 * bound.upper
    assert float(bound) == pytest.approx(float(normal), rel=0.05)


def test_wide_bounds_get_their_own_roots():
    lower, root, upper, _ = solve(profile(lambda e: -(e**2), width=2.0), -10.0)
    assert root == pytest.approx(math.sqrt(10))
    assert upper == pytest.approx(math.sqrt(12), rel=1e-6) and upper >= math.sqrt(12)
    assert lower == pytest.approx(math.sqrt(8), rel=1e-6) and lower <= math.sqrt(8)


@pytest.mark.parametrize("width", [1e-8, 1e-5, 3e-4])
def test_sides_are_as_far_apart_as_the_width_of_delta_has_it(width):
    """Log delta falls by 2 e at e: where its interval is narrow, sides lie at width / (2 e)."""
    lower, _, upper, _ = solve(profile(lambda e: -(e**2), width=width), -9.0)
    assert upper >= math.sqrt(9.0 + width) and lower <= math.sqrt(9.0 - width)
    assert upper - lower <= 1.003 * width / 3.0


def test_a_target_above_the_profile_gives_zero():
    lower, root, upper, _ = solve(profile(lambda e: -5.0 - e), -2.0)
    assert (lower, root, upper) == (0.0, 0.0, 0.0)


def test_a_jump_is_bracketed():
    """A lattice's profile may fall to nothing: log delta is -inf beyond the largest loss."""
    lower, _, upper, _ = solve(profile(lambda e: -1.0 - e if e < 2 else -math.inf), -4.0)
    assert upper >= 2 and upper == pytest.approx(2, rel=1e-9)
    assert lower < 2


def test_a_profile_that_never_falls_ends():
    curve = epsilon.Curve(profile(lambda e: -1.0), -2.0)
    assert epsilon.root(curve, "estimate", 1.0, -1.0)[0] == math.inf


def test_nothing_proven_stays_unproven():
    def estimate_only(epsilon):
        return Bound(math.nan, -epsilon, math.nan, "made up", "estimate")

    lower, root, upper, _ = solve(estimate_only, -3.0)
    assert math.isnan(lower) and math.isnan(upper)
    assert root == pytest.approx(3.0)


def test_noise_does_not_loop():
    noisy = profile(lambda e: -e + 1e-3 * math.sin(1e6 * e))
    try:
        solve(noisy, -3.0)
    except NumericError as error:
        assert "evaluations" in str(error)


def test_start_where_a_far_mode_takes_over():
    """N(0, 1) losses, and with e^-62 some of 30 times the variance: the far ones are no start."""

    losses = np.arange(-12.0, 160.0, 0.02)
    masses = np.exp(-((losses - 0.5) ** 2) / 2.0)
    masses += math.exp(-62.0) * np.exp(-((losses - 30.0) ** 2) / 120.0) / math.sqrt(60.0)
    law = PrivacyLoss.from_atoms(losses, masses / masses.sum())
    epsilon = Columns((Step(law, 1),)).saddle_of_delta(-13.8).epsilon
    assert 2.5 < epsilon < 10.0  # 4.9 for the near losses alone


def test_no_search_next_to_the_largest_loss():
    """50 Laplace(20) together lose at most 2.5, with mass 2^-50; Student t is largest inside."""
    noise = [
        (mechc.load("laplace")(scale=20.0), 50),
        (mechc.load("student_t")(nu=3, scale=20.0), 10),
    ]
    for event, count in noise:
        top = count * float(event.loss().support[1])
        for log_delta in (-690.0, -300.0):
            found = (count * event).epsilon(log_delta=log_delta)
            assert found.lower <= top <= found.upper * (1 + 1e-15)
            assert found.upper - found.lower <= 2e-6 * top
            assert found.detail.get("evaluations", 2) <= 2
    truth = 2.5 + math.log1p(-math.exp(-100.0 + 50.0 * math.log(2.0)))
    found = (50 * noise[0][0]).epsilon(log_delta=-100.0)
    assert found.lower <= truth <= found.upper


def test_targets_at_the_largest_loss_leave_the_others_of_an_array_their_digits(laplace):
    run = 50 * laplace(scale=20.0)
    found = run.epsilon(log_delta=[-100.0, -55.0, math.log(0.05)])
    assert np.all(found.upper - found.lower < [1e-11, 1e-8, 1e-5])
    grid = run.epsilon(0.05, method="pld")
    assert found.lower[2] <= grid.upper and grid.lower <= found.upper[2]


@pytest.mark.parametrize("halfwidth", [2, 10])
@pytest.mark.parametrize("count", [1, 5, 50])
def test_a_delta_that_is_the_mass_at_infinity_up_to_rounding(halfwidth, count):
    """The mass is 1 - (1 - 1/2h)^k exactly; below it no epsilon will do, from it on 0 does."""
    mass = 1 - (1 - Fraction(1, 2 * halfwidth)) ** count
    near = float(mass)
    run, uppers = count * mechc.load("uniform")(halfwidth=halfwidth), []
    ulps = [math.nextafter(near, side) for side in (0.0, 1.0)]
    for delta in (near * (1 - 1e-9), ulps[0], near, ulps[1], near * (1 + 1e-15), near * (1 + 1e-9)):
        truth = math.inf if Fraction(delta) < mass else 0.0
        found = run.epsilon(delta)
        assert found.lower <= truth <= found.upper
        uppers.append(found.upper)
    assert uppers[0] == math.inf and uppers[-1] == 0.0 and uppers == sorted(uppers, reverse=True)


def test_a_declared_delta_is_met_by_the_declared_epsilon():
    event = mechc.load("approximate_dp")(epsilon=1.0, delta=1e-5)
    assert event.epsilon(1e-5).upper == pytest.approx(1.0, rel=1e-14)
    several = (10 * event).epsilon(-math.expm1(10 * math.log1p(-1e-5)))
    assert 9.9 < several.lower <= 10.0 and several.upper == math.inf


def test_a_schedule_of_noise_at_a_small_rate_is_found_from_far_above():
    """The normal start lies where contours prove nothing; upper side against a peer's mesh."""
    common = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    sigmas = (5.67, 7.869, 2.997, 4.54, 4.9, 5.71, 16.568, 3.595, 11.561, 3.28)
    counts = (30, 30, 10, 30, 30, 10, 10, 20, 10, 20)
    sampled = mechc.poisson(mechc.load("gaussian"), sampling_rate=1e-3)
    parts = [n * sampled(sigma=s) for s, n in zip(sigmas, counts, strict=True)]
    found = mechc.compose(*parts).epsilon(1e-6)
    meshes = (
        common.from_gaussian_mechanism(s, sampling_prob=1e-3, value_discretization_interval=1e-5)
        for s in sigmas
    )
    peers = [mesh.self_compose(n) for mesh, n in zip(meshes, counts, strict=True)]
    total = functools.reduce(lambda a, b: a.compose(b), peers)
    above = total.get_epsilon_for_delta(1e-6)
    assert 0.999 * above < found.lower <= found.upper < above
    assert found.upper - found.lower < 1e-9 * above


@pytest.mark.parametrize(("count", "rate", "delta"), [
    # 1 - (1 - rate)^count is below delta
    pytest.param(1000, 1e-11, 1e-6, marks=pytest.mark.slow),
    pytest.param(100_000, 1e-9, 1e-6, marks=pytest.mark.slow),
    (1000, 1e-6, 1e-6),  # that is not: delta(0) is 3e-7 nevertheless
])  # fmt: skip
def test_nothing_is_spent_where_delta_at_zero_is_below_the_target(count, rate, delta):
    run = count * mechc.poisson(mechc.load("gaussian"))(sigma=40.0, sampling_rate=rate)
    answer = run.epsilon(delta)
    assert answer.lower == answer.upper == 0.0
    moved = 2.0 * norm.cdf(0.5 / 40.0) - 1.0  # total variation of one release
    found = run.delta(0.0)
    assert found.upper <= delta and found.lower <= count * rate * moved


@pytest.mark.parametrize(
    "name, count, values",
    [
        ("randomized_response", 10, {"epsilon": 2.5494821398026355, "categories": 3}),
        ("discrete_laplace", 10, {"a": 0.08789553241376893}),
        ("laplace", 3, {"scale": 8.0135340587105, "sampling_rate": 0.0004324824087312609}),
    ],
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_deltas_below_the_mass_at_the_largest_loss_have_it_as_their_upper_side(
    name, count, values, direction
):
    mechanism = mechc.load(name)
    if "sampling_rate" in values:
        mechanism = mechc.poisson(mechanism)
    run = count * mechanism(**values)
    top = run.epsilon(0.0, direction=direction)
    for log_delta in (-144.0, -254.0, -700.0):
        found = run.epsilon(log_delta=log_delta, direction=direction)
        assert 0.9 * top.lower < found.lower <= found.upper <= top.upper * (1.0 + 1e-12)


@pytest.mark.slow
def test_a_contour_whose_weight_is_subnormal_is_none():
    """Losses of thousands: weights fall from 1e+300 to nothing within a share of one."""
    sigma, s, count, delta = 0.13709504906792733, 5, 13, 5.5488835367368417e-11
    found = (count * mechc.load("discrete_gaussian")(sigma=sigma, sensitivity=s)).epsilon(delta)
    masses = [math.exp(-0.5 * (n / sigma) ** 2) for n in range(-4, 5)]
    masses = [m / math.fsum(masses) for m in masses]
    step = s / sigma**2
    for at, sign in ((found.lower * (1 - 1e-12), 1), (found.upper * (1 + 1e-12), -1)):
        log_delta = truth.lattice((0.5 * s - 4) * step, step, masses, count, at)
        assert sign * (log_delta - math.log(delta)) > -1e-9


def test_a_search_that_is_used_up_ends_with_what_it_has_proven():
    """Bounds so wide that no evaluation meets the target: no error, and no side."""
    curve = epsilon.Curve(lambda e: Bound(-9.0, -5.0, -1.0, "direct", "proven", {}), target=-3.0)
    for i in range(epsilon.MAX_EVALUATIONS):
        curve.at(1.0 + i / 1024.0)
    assert epsilon.certified_side(curve, "upper", 1.0, -1.0) == math.inf
    assert epsilon.certified_side(curve, "lower", 1.0, -1.0) == 0.0
    with pytest.raises(NumericError, match="no root"):
        curve.at(0.5)
