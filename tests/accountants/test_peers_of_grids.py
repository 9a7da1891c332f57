"""The Fourier and PRV accountants against dp-accounting and prv-accountant, and sampling pairs."""

import math
import warnings

import pytest

import mechc


@pytest.fixture(scope="module")
def gaussian():
    return mechc.load("gaussian")


def peer(q, sigma, count, epsilon):
    """Pessimistic and optimistic delta of dp-accounting, the larger of the directions."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    laws = [
        pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=q,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-4,
        )
        for pessimistic in (True, False)
    ]
    return [law.self_compose(count).get_delta_for_epsilon(epsilon) for law in laws]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("q", "sigma", "count", "epsilon"), [(0.01, 1.5, 2000, 0.5), (0.05, 2.0, 300, 1.0)]
)
def test_between_the_two_estimates_of_dp_accounting(gaussian, q, sigma, count, epsilon):
    high, low = peer(q, sigma, count, epsilon)
    event = mechc.poisson(gaussian)(sampling_rate=q, sigma=sigma)
    fourier = (count * event).delta(epsilon, method="fourier", n=2**16)
    prv = (count * event).delta(epsilon, method="prv", eps_error=0.02, delta_error=1e-8)
    slack = 1e-3 * high  # its convolution truncates tails at 1e-15 a step
    assert low - slack <= fourier.estimate <= high + slack
    for bound in (fourier, prv):
        assert bound.lower <= high + slack and low - slack <= bound.upper


def test_prv_reports_the_interval_of_its_authors(gaussian):
    package = pytest.importorskip("prv_accountant")
    from prv_accountant import privacy_random_variables as prvs

    q, sigma, count, delta = 0.01, 0.8, 1000, 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low, mid, high = package.PRVAccountant(
            prvs=[prvs.PoissonSubsampledGaussianMechanism(q, sigma)],
            max_self_compositions=[count],
            eps_error=0.1,
            delta_error=delta / 1000,
        ).compute_epsilon(delta, [count])
    run = count * mechc.poisson(gaussian)(sampling_rate=q, sigma=sigma)
    how = {"method": "prv", "eps_error": 0.1, "delta_error": delta / 1000}
    ours = run.epsilon(delta, direction="remove", **how)
    assert ours.estimate == pytest.approx(mid, abs=2e-3)
    assert ours.lower == pytest.approx(low, abs=5e-3)
    assert ours.upper == pytest.approx(high, abs=5e-3)


def test_substitution_pair_agrees_with_the_contour(gaussian):
    """Section 6 of the Fourier paper under replacement: a pair that is its own mirror image."""
    run = 500 * mechc.poisson(gaussian, adjacency="replace")(sigma=2.0, sampling_rate=0.02)
    exact = run.log_delta(0.8, method="contour")
    fourier = run.log_delta(0.8, method="fourier", n=2**15)
    assert fourier.lower <= exact.lower <= exact.upper <= fourier.upper
    assert fourier.estimate == pytest.approx(exact.estimate, abs=1e-6)


@pytest.mark.slow
def test_sampling_with_replacement_agrees_with_the_grid(gaussian):
    """Section 6.3: a record may be drawn several times."""
    event = mechc.with_replacement(gaussian, dataset_size=1000, batch_size=10)(sigma=2.0)
    exact = (200 * event).log_delta(0.8)
    fourier = (200 * event).log_delta(0.8, method="fourier", n=2**16)
    assert fourier.lower <= exact.lower <= exact.upper <= fourier.upper
    # a transform without a tilt rounds in units of the largest term, not of delta
    assert math.exp(fourier.estimate) == pytest.approx(math.exp(exact.estimate), abs=1e-14)


def test_heterogeneous_runs_agree(gaussian):
    sampled = mechc.poisson(gaussian)
    run = 300 * sampled(sampling_rate=0.02, sigma=1.5) + 40 * gaussian(sigma=25.0)
    exact = run.log_delta(0.7, method="contour", direction="remove")
    how = {"direction": "remove"}
    fourier = run.log_delta(0.7, method="fourier", n=2**15, **how)
    prv = run.log_delta(0.7, method="prv", eps_error=0.02, delta_error=1e-8, **how)
    for bound in (fourier, prv):
        assert bound.lower <= exact.lower <= exact.upper <= bound.upper
    assert math.isclose(fourier.estimate, exact.estimate, abs_tol=1e-6)
    assert math.isclose(prv.estimate, exact.estimate, abs_tol=1e-3)
