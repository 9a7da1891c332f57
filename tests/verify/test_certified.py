"""Certified answers against closed forms, sums and values computed by other methods."""

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.stats import norm
from sympy import Rational, exp, pi, sqrt

import mechc
from mechc.declare import mechanism, positive, probabilities, real
from mechc.errors import NumericError, UnsupportedError

flint = pytest.importorskip("flint")
ball = pytest.importorskip("mechc.verify.balls.oracle")
certified = pytest.importorskip("mechc.verify.certified")
certified_contour = pytest.importorskip("mechc.verify.certified.contour")
shape_proofs = pytest.importorskip("mechc.verify.shape_proofs")
certified_epoch = pytest.importorskip("mechc.verify.certified.epoch")
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


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("run", "direction", "epsilon", "value", "digits"),
    [
        # sums on two lines with 34 digits; to the digits on which two contours agree
        (lambda: epoch("gaussian", 250, sigma=0.6857951406504622), "remove", 0.16978264722519862,
         0.0167858821207665215, 1e-17),
        (lambda: epoch("gaussian", 100, sigma=1.0), "add", 1.0, 1.05033157110e-19, 1e-30),
        (lambda: epoch("laplace", 200, scale=0.5), "add", 0.3, 1.62660494042e-03, 1e-14),
    ],
)  # fmt: skip
def test_epochs_of_random_allocation(run, direction, epsilon, value, digits):
    run = run()
    bound = run.delta(epsilon, certified=True, direction=direction)
    assert bound.status == "certified" and width(bound) < 1e-12
    assert bound.lower - digits <= value <= bound.upper + digits
    known = run.delta(epsilon, direction=direction)
    assert known.lower <= bound.lower and bound.upper <= known.upper


def test_an_epoch_of_three_steps_by_quadrature(monkeypatch):
    """E_Q[(3c - X_1 - X_2 - X_3)_+] of Gaussian noise, over two normal variables."""
    epsilon, c = 0.5, math.exp(-0.5)
    node, weight = np.polynomial.legendre.leggauss(120)

    def below(total):  # nodes and weights of X < total
        half = 0.5 * (np.log(total) + 0.5 + 10.0)[..., None]
        z = half * (node + 1.0) - 10.0
        return np.exp(z - 0.5), half * weight * norm.pdf(z)

    first, mass = below(np.array(3.0 * c))
    second, inner = below(3.0 * c - first)
    rest = 3.0 * c - first[:, None] - second
    end = np.log(rest) + 0.5
    put = mass @ (inner * (rest * norm.cdf(end) - norm.cdf(end - 1.0))).sum(axis=1) / 3.0
    monkeypatch.setattr("mechc.verify.certified.epoch.RTOLS", (1e-3,))
    bound = epoch("gaussian", 3, sigma=1.0).delta(epsilon, certified=True, direction="add")
    assert width(bound) < 1e-4
    assert bound.lower - 1e-10 <= put / c <= bound.upper + 1e-10


def test_epsilon_of_an_epoch():
    run = epoch("gaussian", 300, sigma=1.0)
    bound = run.epsilon(1e-6, certified=True)
    assert width(bound) < 1e-9
    for direction in ("remove", "add"):
        assert run.delta(bound.upper, certified=True, direction=direction).upper <= 1e-6


@pytest.mark.parametrize(
    ("name", "values"), [("gaussian", {"sigma": 0.8}), ("laplace", {"scale": 1.0})]
)
def test_bounds_on_the_transform_of_a_likelihood_ratio(name, values):
    """Of E_Q exp(-(a + iu) X) at frequencies of all sizes, by quadrature in doubles."""
    event = mechc.load(name)(**values)
    oracle = ball.Oracle(event.mechanism.declaration, event.theta)
    a = flint.arb(0.25)
    fading = certified_epoch.Fading(oracle, a)
    loss, log_mass = event.loss().covering(-1.0, 0.0).nodes()
    mass, x = np.exp(log_mass - loss), np.exp(loss)
    for u in (1e-3, 0.1, 0.7, 2.9, 8.0, 31.0):
        true = abs(np.exp(-(0.25 + 1j * u) * x) @ mass)
        assert true <= float(fading.bound(flint.arb(u))) * (1.0 + 1e-9)
    for u in (1e-3, 0.1):  # and nearly reached where many steps decide
        bound = float(fading.bound(flint.arb(u)))
        true = abs(np.exp(-(0.25 + 1j * u) * x) @ mass)
        assert float(fading.whole) - bound > 0.6 * (float(fading.whole) - true)


@pytest.mark.parametrize(
    "run",
    [
        lambda: 2 * epoch("gaussian", 20, sigma=1.0),
        lambda: mechc.random_allocation(mechc.load("gaussian"), steps=9, selected=2)(sigma=1.0),
    ],
)  # fmt: skip
def test_epochs_that_are_not_certified(run):
    with pytest.raises(UnsupportedError, match="certified: "):
        run().delta(0.5, certified=True)


def sums_of(points, steps):
    """Values and masses of a sum of independent ones of these, by doubles."""
    value, mass = np.zeros(1), np.ones(1)
    for _ in range(steps):
        value = np.add.outer(value, [x for x, _ in points]).ravel()
        mass = np.multiply.outer(mass, [m for _, m in points]).ravel()
        order = np.argsort(value)
        value, mass = value[order], mass[order]
        first = np.flatnonzero(np.append(True, np.diff(value) > 1e-13 * value[1:]))
        value, mass = value[first], np.add.reduceat(mass, first)
    return value, mass


BINOMIAL = [(math.comb(20, n), math.comb(20, n - 1) if n else 0) for n in range(22)]  # Q and P
ATOMS = [(0.5, 0.2), (0.3, 0.5), (0.15, 0.3), (0.05, 0.0)]


def atoms_event():
    outcomes = [tuple(Rational(str(mass)) for mass in row) for row in ATOMS]
    return mechc.load(mechanism("four_points", parameters=(), outcomes=outcomes))()


@pytest.mark.parametrize(
    ("event", "points", "infinite", "steps", "narrow"),
    [
        pytest.param(lambda: mechc.load("binomial")(trials=20, sensitivity=1),
                     [(p / q, q / 2**20) for q, p in BINOMIAL if q], 2.0**-20, 6, 1e-6,
                     marks=pytest.mark.slow),
        (lambda: mechc.load("discrete_laplace")(a=0.8), [(math.exp(x), 1.0 / (1.0 + math.exp(x)))
         for x in (0.8, -0.8)], 0.0, 60, 1e-11),
        (atoms_event, [(p / q, q) for p, q in ATOMS if q], ATOMS[-1][0], 14, 1e-11),
    ],
)  # fmt: skip
def test_epochs_of_point_masses_against_all_sums(event, points, infinite, steps, narrow):
    run = mechc.random_allocation(event(), steps=steps)
    value, mass = sums_of(points, steps)
    w = value / steps
    for epsilon in (0.1, 0.4):
        for direction, true in (
            ("remove", infinite + float(mass @ np.maximum(w - math.exp(epsilon), 0.0))),
            ("add", float(mass @ np.maximum(1.0 - math.exp(epsilon) * w, 0.0))),
        ):
            bound = run.delta(epsilon, direction=direction, certified=True)
            assert bound.status.startswith("certified")
            assert bound.lower - 1e-13 * true <= true <= bound.upper + 1e-13 * true
            assert bound.upper - bound.lower < narrow * true


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        # W that many sums make, steps of two kinds, point masses beside a density
        lambda: epoch("discrete_gaussian", 1000, sigma=1.5),
        lambda: mechc.random_allocation(
            [mechc.load("discrete_gaussian")(sigma=s) for s in (0.7, 0.9)] * 9
        ),
        lambda: epoch("truncated_laplace", 12, scale=1.0, halfwidth=2.0),
        lambda: epoch("huber", 50, scale=3.0, bend=1.2),
        lambda: mechc.random_allocation(
            [mechc.load("discrete_gaussian")(sigma=0.7), mechc.load("gaussian")(sigma=0.9)] * 9
        ),
    ],
)  # fmt: skip
def test_epochs_of_other_noise_beside_doubles(run):
    run = run()
    for direction in ("remove", "add"):
        found, known = (run.delta(0.2, direction=direction, certified=c) for c in (True, False))
        assert found.status == "certified" and width(found) < 1e-4
        assert found.lower <= known.upper and known.lower <= found.upper


def test_several_steps_of_few_values_by_all_choices():
    """e_2 of (X_1, .., X_t) / C(t, 2) for randomised response with n ratios of e and others 1/e."""
    run, t = mechc.random_allocation(mechc.load("discrete_laplace")(a=1.0), 30, selected=2), 30
    up, down, c = math.e, 1.0 / math.e, math.exp(0.3)
    true = 0.0
    for n in range(t + 1):
        mass = math.comb(t, n) * down**n / (1.0 + down) ** t
        pairs = math.comb(n, 2) * up**2 + n * (t - n) + math.comb(t - n, 2) * down**2
        true += mass * max(pairs / math.comb(t, 2) - c, 0.0)
    bound = run.delta(0.3, direction="remove", certified=True)
    assert width(bound) < 1e-10 and bound.lower * (1 - 1e-13) <= true <= bound.upper * (1 + 1e-13)


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


@pytest.mark.slow
def test_an_epoch_with_such_weights():
    """Certified [2.98975e-16, 2.98975e-16], where the missing 2.8e-17 was given to delta."""
    event = mechc.load("mixture_of_gaussians")(**WEIGHTS, weights=[0.1, 0.2, 0.7])
    run = mechc.random_allocation(event, 400)
    one, other = (run.delta(1.0, direction="remove", certified=c) for c in (False, True))
    assert one.lower <= other.upper and other.lower <= one.upper


def test_an_epoch_whose_q_has_not_mass_one_is_refused():
    """A mass of 1 - 2.8e-17; certified 1.8e-23 of a delta that is at most 2e-97."""
    x, weights = real("x"), probabilities("w", 3)
    laws = [exp(-((x - c) ** 2) / 2) / sqrt(2 * pi) for c in (1, Rational(1, 2), 0)]
    q = sum(w * law for w, law in zip(weights, laws, strict=True))
    made = mechanism("short", variable=x, p=laws[0], q=q, parameters=weights)
    run = mechc.random_allocation(mechc.load(made)(w_1=0.1, w_2=0.2, w_3=0.7), 400)
    with pytest.raises(UnsupportedError, match="not exactly mass one"):
        run.delta(1.0, direction="remove", certified=True)


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


@pytest.mark.few(1)
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
