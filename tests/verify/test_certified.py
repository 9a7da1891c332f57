"""Certified answers against closed forms, sums and values computed by other methods."""

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import pytest
from sympy import Rational, exp

import mechc
from mechc.declare import mechanism, positive
from mechc.errors import NumericError, UnsupportedError

flint = pytest.importorskip("flint")
ball = pytest.importorskip("mechc.verify.balls.oracle")
certified = pytest.importorskip("mechc.verify.certified")
certified_contour = pytest.importorskip("mechc.verify.certified.contour")
shape_proofs = pytest.importorskip("mechc.verify.shape_proofs")
truth = pytest.importorskip("truth")
pytestmark = pytest.mark.oracle


def sampled(**values):
    return mechc.poisson(mechc.load("gaussian"))(**values)


def width(bound):
    return (bound.upper - bound.lower) / bound.upper


def contains(bound, log_value):
    """A value known to the rounding of its logarithm."""
    value, room = math.exp(log_value), 4e-16 * (1 + abs(log_value))
    return bound.lower <= value * (1 + room) and bound.upper >= value * (1 - room)


@pytest.mark.parametrize(("mu", "count", "epsilon"), [(1.0, 1, 1.0), (0.05, 1000, 40.0)])
def test_gaussians_have_a_closed_form(mu, count, epsilon):
    run = count * mechc.load("gdp")(mu=mu)
    bound = run.delta(epsilon, certified=True)
    assert bound.status.startswith("certified")
    assert contains(bound, truth.gaussian(truth.ball(mu) * truth.ball(count).sqrt(), epsilon))
    assert width(bound) < 2e-15


def test_a_long_lattice_in_whole_numbers(monkeypatch):
    """Discrete Laplace, 30 steps: as polynomials of balls, and as where these would be too long."""
    a = truth.ball(0.2)
    tail = (1 - (-a).exp()) / (1 + (-a).exp()) / (1 - (-a).exp())  # n >= 1 under P, n <= 0 under Q
    exact = truth.lattice(-a, 2 * a, [1 - tail, tail], 30, 1.5)
    run = 30 * mechc.load("discrete_laplace")(a=0.2)
    monkeypatch.setattr("mechc.verify.certified.discrete.MAX_DEGREE", 10)
    bound = run.log_delta(1.5, certified=True)
    assert bound.lower <= exact <= bound.upper
    assert 1e-14 < bound.upper - bound.lower < 1e-9


def test_subsampled_gaussian():
    """SGS3 of the reference values: the sampling rate there is 1/100, here it is a double."""
    run = 3000 * sampled(sigma=2.0, sampling_rate=0.01)
    bound = run.delta(3.0, certified=True, direction="remove")
    assert width(bound) < 2e-15
    assert bound.lower < 9.4518016542361e-24 * (1 + 1e-14)
    assert bound.upper > 9.4518016542361e-24 * (1 - 1e-14)


@pytest.mark.parametrize(
    ("event", "count", "epsilon", "exact"),
    [
        (("pure_dp", {"epsilon": 0.25}), 40, 1.0,
         lambda: truth.atoms([(0.25, _likely(0.25)), (-0.25, 1 - _likely(0.25))], 40, 1.0)),
        (("laplace", {"scale": 2.0}), 1, 0.25, lambda: math.log(-math.expm1((0.25 - 0.5) / 2))),
        (("uniform", {"halfwidth": 50.0}), 5, 0.5, lambda: math.log(1 - 0.99**5)),
    ],
)  # fmt: skip
def test_atoms_and_plateaus(event, count, epsilon, exact):
    name, values = event
    bound = (count * mechc.load(name)(**values)).delta(epsilon, certified=True)
    assert contains(bound, exact())
    assert width(bound) < 2e-15


def _likely(epsilon):
    e = truth.ball(epsilon).exp()
    return e / (1 + e)


@pytest.mark.slow
def test_delta_is_bracketed_by_epsilon():
    run = 200 * sampled(sigma=1.0, sampling_rate=0.1)
    bound = run.epsilon(1e-5, certified=True, direction="remove")
    assert bound.status.startswith("certified") and width(bound) < 1e-13
    assert run.delta(bound.upper, certified=True, direction="remove").upper <= 1e-5
    assert run.delta(bound.lower, certified=True, direction="remove").lower > 1e-5


@pytest.mark.slow
def test_float_bounds_hold_the_certified_interval():
    g = mechc.load("gaussian")(sigma=10.0)
    run = 100 * sampled(sigma=1.5, sampling_rate=0.01) + 50 * g
    certified = run.delta(1.0, certified=True)
    bound = run.delta(1.0)
    assert bound.lower <= certified.lower and certified.upper <= bound.upper


def test_other_methods_are_refused():
    with pytest.raises(UnsupportedError, match="contour"):
        sampled(sigma=1.0, sampling_rate=0.1).delta(1.0, certified=True, method="pld")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "count", "epsilon"),
    [
        ("logistic", {"scale": 6.0}, 20, 0.5),
        ("gumbel", {"scale": 3.0}, 20, 0.5),
        ("student_t", {"nu": 3.0, "scale": 2.0}, 20, 2.0),
        ("discrete_gaussian", {"sigma": 8.0}, 100, 3.0),
        ("discrete_laplace", {"a": 0.1, "sensitivity": 3}, 200, 2.0),
    ],
)
def test_more_laws(name, values, count, epsilon):
    run = count * mechc.load(name)(**values)
    certified = run.delta(epsilon, certified=True, direction="remove")
    bound = run.delta(epsilon, direction="remove")
    assert width(certified) < 1e-6
    assert bound.lower <= certified.upper and certified.lower <= bound.upper


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize(
    ("name", "values"),
    [("student_t", {"nu": 1.5}), ("student_t", {"nu": 3.0}), ("cauchy", {})],
)
def test_many_steps_with_algebraic_tails(name, values, count):
    """Extrema of the loss next to tails that reach beyond 1e10."""
    run = count * mechc.load(name)(**values, scale=2.0)
    float64 = run.delta(run.epsilon(1e-6).estimate)
    bound = run.delta(run.epsilon(1e-6).estimate, certified=True)
    assert width(bound) < 1e-12
    assert float64.lower <= bound.upper and bound.lower <= float64.upper


@pytest.mark.parametrize("count", [1, 7])
def test_supports_without_a_common_outcome(count):
    run = count * mechc.load("uniform")(halfwidth=2.0, sensitivity=139.9)
    bound = run.delta(0.5, certified=True)
    assert 1.0 - 1e-15 < bound.lower <= bound.upper == 1.0


@pytest.mark.parametrize(("scale", "epsilon"), [(0.02, 0.3), (0.013, 2.0)])
def test_a_closed_mass_at_infinity_is_rounded(scale, epsilon):
    """An exponent of hundreds carries its rounding into the mass: one step allows for it."""
    run = 1 * mechc.load("truncated_laplace")(scale=scale, halfwidth=7.9, sensitivity=0.3)
    bound, exact = run.delta(epsilon), run.delta(epsilon, certified=True)
    assert bound.lower <= exact.lower <= exact.upper <= bound.upper
    law = run.steps("remove")[0].loss
    assert 1e-16 < law.mass_errors[0] < 1e-11  # of the log of the mass


def epoch(name, steps, **values):
    return mechc.random_allocation(mechc.load(name), steps=steps)(**values)


@pytest.mark.parametrize(
    "run",
    [
        2 * epoch("gaussian", 20, sigma=1.0),
        epoch("gaussian", 20, sigma=1.0),
        mechc.random_allocation(mechc.load("gaussian"), steps=9, selected=2)(sigma=1.0),
    ],
)  # fmt: skip
def test_epochs_that_are_not_certified(run):
    with pytest.raises(UnsupportedError, match="no certified answers"):
        run.delta(0.5, certified=True)


def test_masses_that_are_small_differences_keep_their_digits():
    """(1 - exp(-d))/2 at d = 1e-18, which 72 bits know to 4e-4; delta was 4e-5 too small."""
    d = positive("d")
    rare, own = 1 - exp(-d), Rational(2, 5)
    rows = ((Rational(1, 2), own), (exp(-d) / 2, 1 - own - rare / 14), (rare / 2, rare / 14))
    oracle = ball.Oracle(mechanism("rare", parameters=(d,), outcomes=rows), (1e-18,))
    with flint.ctx.workprec(72):
        found, *_ = oracle.losses(flint.arb(2), flint.arb(-1), flint.arb(1e-20))
    with mpmath.workdps(40):
        assert abs(float(found[-1][1].mid()) / (-mpmath.expm1(-mpmath.mpf(1e-18)) / 2) - 1) < 1e-15
    assert found[-1][1].rel_accuracy_bits() > 60


WEIGHTS = {"sigma": 1.0, "sensitivities": [0.5, 1.0, 0.2]}


def test_weights_that_do_not_add_up_to_one_are_taken_as_they_are():
    """.1 + .2 + .7 is 1 - 2.8e-17 in doubles, and the images of a contour are multiples of it."""
    weights = [0.3, 0.3, 0.4 - 1e-13]
    event = mechc.load("mixture_of_gaussians")(**WEIGHTS, weights=weights)
    law = certified_contour.Law.of(event, "remove", 20)
    line = certified_contour.Contour([law], None, (1e-16,))
    with flint.ctx.workprec(120):
        whole = math.prod([sum(map(Fraction, weights))] * 20)
        assert abs(line.total_mass(0) - flint.arb(whole.numerator) / whole.denominator) < 1e-25
        assert abs(line.total_mass(-1) - 1) < 1e-25


def test_laws_that_share_no_outcome():
    run = 2 * mechc.load("gdp")(mu=1.0) + mechc.load("uniform")(halfwidth=1.0, sensitivity=2.5)
    bound = run.delta(0.5, certified=True)
    assert 1 - 1e-15 < bound.lower <= bound.upper == 1.0


@pytest.mark.parametrize("log", [False, True])
def test_what_is_not_enclosed_has_no_bounds(log):
    """Of its log both sides were -inf, as of no delta at all."""
    found = certified.enclosed(flint.arb.nan(), {}, log)
    assert math.isnan(found.lower) and math.isnan(found.estimate) and math.isnan(found.upper)


def test_a_jump_that_is_not_enclosed_is_not_taken_for_none():
    arb = flint.arb
    assert shape_proofs.jump(arb.neg_inf(), arb.neg_inf()) == shape_proofs.FLAT
    assert shape_proofs.jump(arb(1), arb(2)) == shape_proofs.UP
    for unknown in (arb.nan(), arb(1, 0.1)):
        with pytest.raises(NumericError, match="jump"):
            shape_proofs.jump(arb(1), unknown)
    masses = SimpleNamespace(log=lambda n, analytic: arb(0, 0.1), exprs=())
    with pytest.raises(NumericError, match="jump"):  # from one integer to the next
        list(shape_proofs.lattice_steps(SimpleNamespace(lo=arb(0), hi=arb(2), p=masses), None))


@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon", "most"),
    [(0.25, 0.1, 0.2876820724517809, -13.0), (0.07, 0.4, 0.07257069283483537, -100.0)],
)
def test_next_to_the_largest_loss_of_a_sample_the_answer_is_wide(rate, sigma, epsilon, most):
    """There the sign of L - epsilon stays open on many boxes; what they hold is an upper side."""
    bound = sampled(sampling_rate=rate, sigma=sigma).log_delta(
        epsilon, direction="add", certified=True
    )
    with mpmath.workdps(60):
        q, s, e = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.exp(mpmath.mpf(epsilon))
        ratio = (1 / e - (1 - q)) / q
        assert ratio > 0
        x = s**2 * mpmath.log(ratio) + mpmath.mpf(1) / 2
        apart = [mpmath.ncdf(v / s) for v in (x, x - 1)]
        value = mpmath.log(apart[0] - e * ((1 - q) * apart[0] + q * apart[1]))
        assert bound.lower <= value <= bound.upper < most
