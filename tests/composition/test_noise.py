"""Moments, mean errors, entropies and quantiles of noise, against closed forms and SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

import mechc
from mechc.errors import DeclarationError, NumericError, UnsupportedError

EULER = 0.5772156649015329


@pytest.mark.parametrize(
    ("name", "values", "law"),
    [
        ("laplace", {"scale": 2.3}, stats.laplace(scale=2.3)),
        ("gaussian", {"sigma": 17.1}, stats.norm(scale=17.1)),
        ("logistic", {"scale": 0.7}, stats.logistic(scale=0.7)),
        ("gumbel", {"scale": 3.1}, stats.gumbel_r(scale=3.1)),
        ("exponential", {"scale": 5.9}, stats.expon(scale=5.9)),
        ("uniform", {"halfwidth": 8.3}, stats.uniform(-8.3, 16.6)),
        ("student_t", {"nu": 3.3, "scale": 2.0}, stats.t(3.3, scale=2.0)),
        ("subbotin", {"beta": 1.4, "scale": 9.0}, stats.gennorm(1.4, scale=9.0)),
        ("discrete_laplace", {"a": 0.21}, stats.dlaplace(0.21)),
        ("skellam", {"rate": 6.7}, stats.skellam(6.7, 6.7)),
    ],
)
def test_noise_is_what_scipy_says(name, values, law):
    noise = mechc.load(name)(**values).noise
    assert noise.mean().value == pytest.approx(law.mean(), abs=1e-10 * law.std())
    assert noise.variance().value == pytest.approx(law.var(), rel=1e-9)
    assert noise.standard_deviation().value == pytest.approx(law.std(), rel=1e-9)
    assert noise.quantile(0.93) == pytest.approx(law.ppf(0.93), rel=1e-9)
    median = law.ppf(0.5)
    t = noise.error_quantile(0.97)
    inside = law.cdf(median + t) - law.cdf(median - t - (1 if noise.lattice else 0))
    before = law.cdf(median + t - 1) - law.cdf(median - t) if noise.lattice else inside
    assert before <= 0.97 + 1e-9 and inside >= 0.97 - 1e-9
    if noise.lattice:
        n = np.arange(-400, 401)
        mass = law.pmf(n)
        entropy = -np.sum(mass[mass > 0] * np.log(mass[mass > 0]))
        error = np.sum(np.abs(n - median) * mass)
    else:
        entropy = law.entropy()
        error = law.expect(lambda x: abs(x - median), epsabs=1e-9, limit=200)
    assert noise.entropy().value == pytest.approx(float(entropy), rel=1e-8)
    assert noise.absolute_error().value == pytest.approx(float(error), rel=1e-6)


def test_errors_are_as_large_as_said(gaussian):
    found = gaussian(sigma=3.0).noise.variance()
    assert abs(found.value - 9.0) <= found.error < 1e-7
    assert "quadrature" in str(found) and f"{found:.3f}" == "9.000"
    gumbel = mechc.load("gumbel")(scale=2.0).noise
    assert abs(gumbel.mean().value - 2 * EULER) <= gumbel.mean().error
    assert abs(gumbel.variance().value - math.pi**2 / 6 * 4) <= gumbel.variance().error


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e28, 1e75])
def test_noise_is_found_at_every_scale(scale):
    noise = mechc.load("laplace")(scale=scale).noise
    assert noise.variance() == pytest.approx(2.0 * scale**2, rel=1e-9)
    assert noise.entropy() == pytest.approx(1.0 + math.log(2.0 * scale), rel=1e-9)
    for p in (1e-9, 0.3, 1.0 - 2.0**-46):  # a mass next to one is known by what it lacks
        assert noise.quantile(p) == pytest.approx(stats.laplace.ppf(p) * scale, rel=1e-10)
        assert noise.error_quantile(p) == pytest.approx(-math.log1p(-p) * scale, rel=1e-10)


def test_cancelled_and_divergent_sums_are_in_the_error():
    near_one = mechc.load("discrete_gaussian")(sigma=0.14029131055372393).noise.entropy()
    assert abs(near_one - 4.89471437870632849e-10) <= near_one.error
    nu, scale = 1.0000001, 3e-5
    far = mechc.load("student_t")(nu=nu, scale=scale).noise.absolute_error()
    known = 2.0 * math.sqrt(nu) * math.exp(math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2))
    assert abs(far - scale * known / math.sqrt(math.pi) / (nu - 1.0)) <= far.error


def test_noise_says_whose_it_is(gaussian):
    assert repr(gaussian.noise) == "noise of gaussian"
    assert repr(gaussian(sigma=2.0).noise) == "noise of gaussian(sigma=2, sensitivity=1)"


def test_moments_that_do_not_exist_are_infinite():
    cauchy = mechc.load("cauchy")(scale=2.0).noise
    assert cauchy.variance().value == cauchy.absolute_error().value == math.inf
    assert cauchy.entropy().value == pytest.approx(math.log(8 * math.pi), rel=1e-9)
    assert cauchy.error_quantile(0.95) == pytest.approx(2 * math.tan(0.95 * math.pi / 2), rel=1e-9)
    assert mechc.load("student_t")(nu=2.0, scale=1.0).noise.variance().value == math.inf
    assert math.isfinite(mechc.load("student_t")(nu=2.1, scale=1.0).noise.variance().value)


def test_only_additive_noise_has_noise(gaussian):
    assert gaussian.bind(sigma=2.0).noise.variance().value == pytest.approx(4.0, rel=1e-12)
    assert gaussian.noise.variance(sigma=2.0).value == pytest.approx(4.0, rel=1e-12)
    assert gaussian(sigma=9.0).noise.quantile(0.93, sigma=2.0) == pytest.approx(2.951582)
    with pytest.raises(DeclarationError, match="missing parameter sigma"):
        gaussian.noise.variance()
    with pytest.raises(UnsupportedError, match="not declared as noise"):
        _ = mechc.load("randomized_response")(epsilon=1.0).noise


@pytest.mark.few(3, 4)
@pytest.mark.parametrize(
    ("name", "values", "law"),
    [
        ("gumbel", {"scale": 3.1}, stats.gumbel_r(scale=3.1)),
        ("student_t", {"nu": 3.3, "scale": 2.0}, stats.t(3.3, scale=2.0)),
        ("subbotin", {"beta": 1.4, "scale": 9.0}, stats.gennorm(1.4, scale=9.0)),
        ("exponential", {"scale": 5.9}, stats.expon(scale=5.9)),
        ("discrete_laplace", {"a": 0.21}, stats.dlaplace(0.21)),
    ],
)
def test_certified_errors_contain_what_scipy_says(name, values, law):
    pytest.importorskip("flint")
    noise = mechc.load(name)(**values).noise
    close = 1e-12 * law.std()  # of SciPy's own digits
    for found, known in (
        (noise.mean(certified=True), law.mean()),
        (noise.variance(certified=True), law.var()),
        (noise.standard_deviation(certified=True), law.std()),
        (noise.quantile(0.93, certified=True), law.ppf(0.93)),
        (noise.quantile(1e-6, certified=True), law.ppf(1e-6)),
    ):
        assert found.method == "certified" and found.error <= 1e-12 * max(abs(known), law.std())
        assert abs(float(found) - known) <= found.error + max(close, 1e-12 * abs(known))
    t = noise.error_quantile(0.97, certified=True)
    assert abs(t - noise.error_quantile(0.97)) <= t.error + close


def test_certified_moments_of_closed_forms():
    mpmath = pytest.importorskip("mpmath")
    pytest.importorskip("flint")
    with mpmath.workdps(30):
        laplace = mechc.load("laplace")(scale=0.7).noise
        found = laplace.variance(certified=True)
        assert abs(mpmath.mpf(float(found)) - 2 * mpmath.mpf(0.7) ** 2) <= found.error
        error = laplace.absolute_error(certified=True)
        assert abs(mpmath.mpf(float(error)) - mpmath.mpf(0.7)) <= error.error
        place = laplace.quantile(0.9, certified=True)
        known = -mpmath.mpf(0.7) * mpmath.log(2 * (1 - mpmath.mpf(0.9)))
        assert abs(mpmath.mpf(float(place)) - known) <= place.error < 1e-12


def test_what_is_not_certified_is_refused():
    pytest.importorskip("flint")
    cauchy = mechc.load("cauchy")(scale=2.0).noise
    with pytest.raises(UnsupportedError, match="tail"):
        cauchy.variance(certified=True)
    median = mechc.load("binomial")(trials=9, sensitivity=1).noise.quantile(0.5, certified=True)
    assert abs(median - 4.0) <= median.error < 0.51  # P(noise <= 4) is 1/2: a tie


@pytest.mark.parametrize("trials", [71_392, 100_000, 1_000_000])
def test_noise_that_is_narrow_far_from_zero_is_found(trials):
    """A binomial law of many trials stands within a thousandth of its support."""
    noise, law = mechc.load("binomial")(trials=trials).noise, stats.binom(trials, 0.5)
    assert noise.mean() == pytest.approx(law.mean(), rel=1e-8)
    assert noise.standard_deviation() == pytest.approx(law.std(), rel=1e-8)
    assert noise.quantile(0.95) == law.ppf(0.95)
    assert noise.entropy() == pytest.approx(
        0.5 * math.log(2 * math.pi * math.e * law.var()), abs=1e-5
    )


@pytest.mark.parametrize("trials", [63_000_000, 10**9])
def test_noise_whose_mass_is_not_found_is_refused(trials):
    noise = mechc.load("binomial")(trials=trials).noise
    with pytest.raises(NumericError, match="do not find its mass"):
        noise.variance()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_deviation_whose_square_is_no_double(laplace, scale):
    noise = laplace(scale=scale).noise
    assert noise.standard_deviation() == pytest.approx(math.sqrt(2.0) * scale, rel=1e-9)
    assert noise.variance() in (0.0, math.inf) and (noise.variance().error > 0.0) == (scale < 1.0)
