"""Radial noise on R^d, against closed forms, Bessel functions and samples."""

import math
import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import mechc
from mechc.declare.text import declaration_from_text
from mechc.errors import DeclarationError, UnsupportedError


@pytest.mark.parametrize("dimension", [2, 3, 10, 1000])
def test_gaussian_noise_is_the_same_in_every_dimension(dimension):
    one = mechc.load("gaussian")(sigma=1.3, sensitivity=0.9)
    many = mechc.radial(one, dimension)
    for epsilon in (-0.5, 0.0, 1.0, 6.0, 20.0):
        found, known = many.log_delta(epsilon), one.log_delta(epsilon)
        assert found.lower <= known.estimate <= found.upper
        assert found.upper - found.lower < 1e-8
    sampled = [100 * mechc.poisson(event, 0.02) for event in (many, one)]
    for run, plain in ((30 * many, 30 * one), sampled):
        found, known = run.epsilon(delta=1e-7), plain.epsilon(delta=1e-7)
        assert found.lower <= known.estimate <= found.upper
        assert found.upper - found.lower < 1e-7


def test_a_sample_that_lacks_next_to_nothing():
    """Poisson sampling lowers delta(0) by the rate, which is exact also next to one."""
    plain = mechc.radial(mechc.load("laplace"), 2)(scale=1.0, sensitivity=20.0)
    whole = plain.delta(0.0)
    for rate in (0.5, 1.0 - 1e-9, 1.0 - 1e-15):
        found = mechc.poisson(plain, rate).delta(0.0)
        assert found.lower <= rate * whole.upper and rate * whole.lower <= found.upper
        assert found.width < 1e-6


def laplace_delta(dimension, distance, scale, epsilon):
    """In prolate spheroidal coordinates the loss is tau D / scale, and the other one integrates."""
    nu, z = mp.mpf(dimension - 2) / 2, mp.mpf(distance) / (2 * scale)
    ratio = (nu + 0.5) * 2 / z * mp.besselk(nu + 1, z) / mp.besselk(nu, z)

    def p(tau):
        rest = (1 - tau) * (1 + tau)
        return rest ** (nu - mp.mpf(1) / 2) * (ratio + rest) * mp.exp(z * tau)

    def gain(tau):
        return p(tau) * -mp.expm1(epsilon - 2 * z * tau)

    total = mp.quad(p, [-1, 0, 1])
    lowest = epsilon / (2 * z)
    places = [lowest + (1 - lowest) * mp.mpf(i) / 10 for i in range(11)]
    return mp.quad(gain, places) / total


@pytest.mark.few(2)
@pytest.mark.parametrize("dimension", [2, 3, 40])
def test_laplace_noise_by_bessel_functions(dimension):
    event = mechc.radial("laplace", dimension)(scale=0.7, sensitivity=1.2)
    top = 1.2 / 0.7
    with mp.workdps(30):
        for share in (0.0, 0.3, 0.9, 0.99):
            found = event.delta(share * top)
            known = laplace_delta(dimension, mp.mpf("1.2"), mp.mpf("0.7"), mp.mpf(share) * top)
            assert found.lower <= known <= found.upper
            assert found.upper - found.lower < 1e-6 * found.upper
    assert (3 * event).delta(3.0 * top * 1.0001).upper < 1e-30


def sampled_delta(near, first, distance, log_f, epsilon):
    """Mean and its error of the gain, by lengths and first coordinates of samples of P."""
    far = np.sqrt(near**2 - 2.0 * distance * first + distance**2)
    gain = np.maximum(-np.expm1(epsilon - log_f(near) + log_f(far)), 0.0)
    return gain.mean(), gain.std() / math.sqrt(gain.size)


@pytest.mark.few(2)
@pytest.mark.parametrize(("dimension", "beta"), [(3, 1.5), (2, 0.7), (5, 4.0)])
def test_powers_by_samples(dimension, beta):
    event = mechc.radial("subbotin", dimension)(beta=beta, scale=1.0, sensitivity=0.8)
    rng = np.random.default_rng(4)
    near = rng.gamma(dimension / beta, size=400_000) ** (1.0 / beta)
    x = rng.standard_normal((400_000, dimension))
    first = near * x[:, 0] / np.linalg.norm(x, axis=1)
    for epsilon in (0.0, 0.5):
        found = event.delta(epsilon)
        mean, error = sampled_delta(near, first, 0.8, lambda r: -(r**beta), epsilon)
        assert found.upper - found.lower < 1e-5 * found.upper
        assert abs(float(found) - mean) < 5.0 * error


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("noise", "f", "dimension"),
    [
        ("exp(-abs(x)) / sqrt(4 * pi * abs(x))", lambda r: mp.exp(-r) / mp.sqrt(r), 2),  # a pole
        ("sech(x) / pi", mp.sech, 2),  # the largest loss is far out
        ("exp(-sqrt(abs(x))) / 4", lambda r: mp.exp(-mp.sqrt(r)), 3),  # steep at the centre
        # formulas that change at a radius: the slope, or its derivative jumps there
        ("exp(-max(abs(x), 3 * abs(x) - 2)) / (2 - 4 / (3 * exp(1)))",
         lambda r: mp.exp(-max(r, 3 * r - 2)), 3),
        ("exp(-min(x**2, 2 * max(abs(x), 1) - 1)) / (sqrt(pi) * erf(1) + exp(-1))",
         lambda r: mp.exp(-(r * r if r < 1 else 2 * r - 1)), 2),
    ],
)  # fmt: skip
def test_profiles_by_halves_of_space(noise, f, dimension):
    """At epsilon 0 delta is the mass between two planes, a share of every sphere."""
    profile = mechc.load(declaration_from_text("profile", noise=noise))
    found = mechc.radial(profile, dimension)(sensitivity=0.4).delta(0.0)

    def share(r):
        part = min(mp.mpf("0.2") / r, 1)
        return 2 * mp.asin(part) / mp.pi if dimension == 2 else part

    with mp.workdps(20):
        places = [0, 0.2, 1, 5, 20, 80, 800, 8000]
        total = mp.quad(lambda r: r ** (dimension - 1) * f(r), places)
        truth = float(mp.quad(lambda r: r ** (dimension - 1) * f(r) * share(r), places) / total)
    assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper
    assert found.upper - found.lower < 1e-6


@pytest.mark.parametrize("dimension", [2, 3, 200])
def test_the_multivariate_t(dimension):
    """Two halves of the space differ by the law of one coordinate; balls by samples."""
    nu, distance = 4.0, 1.5
    n = nu + dimension - 1
    event = mechc.radial("student_t", dimension)(
        nu=n, scale=math.sqrt(nu / n), sensitivity=distance
    )
    half = stats.t(nu).cdf(distance / 2)
    found = event.delta(0.0)
    assert found.lower <= 2 * half - 1 <= found.upper
    assert found.upper - found.lower < 1e-7
    rng = np.random.default_rng(5)
    x = rng.standard_normal((200_000, min(dimension, 3)))
    more = rng.chisquare(max(dimension - 3, 1), 200_000) * (dimension > 3)
    scale = np.sqrt(nu / rng.chisquare(nu, 200_000))
    near = scale * np.sqrt((x**2).sum(axis=1) + more)
    for epsilon in (0.3, 1.0):
        mean, error = sampled_delta(
            near, scale * x[:, 0], distance,
            lambda r: -0.5 * (nu + dimension) * np.log1p(r**2 / nu), epsilon,
        )  # fmt: skip
        assert abs(float(event.delta(epsilon)) - mean) < 5.0 * error


@pytest.mark.few(0)
@pytest.mark.parametrize(("dimension", "distance"), [(2, 1.5), (3, 1.0), (2, 0.2)])
def test_cauchy_noise_on_vectors(dimension, distance):
    """Its loss has a flat density at its ends, and far out the radii that tell it no digits."""
    event = mechc.radial("student_t", dimension)(
        nu=dimension, scale=dimension**-0.5, sensitivity=distance
    )
    found, half = event.delta(0.0), 2 * math.atan(distance / 2) / math.pi
    assert found.lower <= half <= found.upper
    assert found.upper - found.lower < 1e-5


def test_one_dimension_is_the_noise_itself_and_the_pair_is_proven():
    one = mechc.load("laplace")(scale=2.0)
    assert mechc.radial(one, 1) is one
    event = mechc.radial("laplace", 2)(scale=2.0)
    assert (event.claim.status, event.claim.theorem) == ("proven", "T2")
    again = pickle.loads(pickle.dumps(event))
    assert again.key == event.key
    both = [event.delta(0.1, direction=d) for d in ("remove", "add")]
    assert both[0].estimate == pytest.approx(both[1].estimate, rel=1e-12)


def test_noise_that_is_no_profile_is_refused():
    for name, values in (("uniform", {"halfwidth": 3.0}), ("gumbel", {"scale": 1.0}),
                         ("cauchy", {"scale": 1.0}), ("discrete_laplace", {"a": 0.5}),
                         ("pure_dp", {"epsilon": 1.0})):  # fmt: skip
        with pytest.raises(UnsupportedError, match="radial"):
            mechc.radial(name, 2)(**values).delta(0.1)
    with pytest.raises(UnsupportedError, match="sample"):
        mechc.poisson(mechc.radial("laplace", 2), 0.1)(scale=2.0)
    with pytest.raises(UnsupportedError, match="sample"):
        mechc.radial(mechc.poisson(mechc.load("laplace"), 0.1), 2).claim  # noqa: B018 - is found
    assert mechc.radial("gumbel", 2).claim.status == "declared"  # until its parameters refuse
    with pytest.raises(DeclarationError, match="dimension"):
        mechc.radial("laplace", 0)
    with pytest.raises(DeclarationError, match="dimension"):
        mechc.radial("laplace", 10**6)
