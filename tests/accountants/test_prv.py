"""The PRV accountant: containment, its stated errors, and the authors' package."""

import math
import warnings

import numpy as np
import pytest
from written_kernels import gaussian, laplace, truth

from mechc.accountants.classical.prv import PrvAccountant
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.numeric.logs import log_subtract

CASES = {
    "SGK_rem": (gaussian(1.5, 0.01), False, 10_000, 1.0),
    "SGK_add": (gaussian(1.5, 0.01), True, 10_000, 1.0),
    "SGS1_rem": (gaussian(2.0, 0.01), False, 3000, 1.0),
    "L2": (laplace(10.0), False, 20, 0.5),
    "SL_0.1_1_10_rem": (laplace(1.0, 0.1), False, 10, 0.3),
    "SL_0.1_1_10_add": (laplace(1.0, 0.1), True, 10, 0.3),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("eps_error", [0.1, 0.01])
def test_corpus_values_are_inside(name, eps_error):
    kernel, reverse, count, eps = CASES[name]
    accountant = PrvAccountant(
        [Step(kernel.law(reverse), count)], eps_error=eps_error, delta_error=1e-8
    )
    bound = accountant.log_delta(eps)
    assert bound.status == "proven"
    assert bound.lower <= truth(name) <= bound.upper
    assert bound.detail["eps_error"] == pytest.approx(eps_error, rel=1e-6)
    assert bound.lower < bound.estimate < bound.upper


def test_what_is_not_known_stays_unknown():
    accountant = PrvAccountant([Step(gaussian(1.5, 0.01).law(), 9)], eps_error=0.1)
    logs = (
        accountant.log_of_finite(math.nan),
        log_subtract(math.nan, -1.0),
        log_subtract(-1.0, math.nan),
    )
    assert all(map(math.isnan, logs))


def test_interval_is_the_shifted_estimate():
    """Theorem 5.5: bounds are the estimate at eps -+ eps_error, +- delta_error."""
    law = gaussian(1.5, 0.01).law()
    accountant = PrvAccountant([Step(law, 1000)], eps_error=0.05, delta_error=1e-7)
    middle, right = accountant.log_delta(0.4), accountant.log_delta(0.45)
    assert math.exp(middle.lower) == pytest.approx(math.exp(right.estimate) - 1e-7, rel=1e-4)


@pytest.mark.parametrize(
    ("q", "sigma", "k", "eps"), [(0.01, 1.5, 5000, 1.0), (0.02, 2.0, 400, 0.5)]
)
def test_agrees_with_the_package(q, sigma, k, eps):
    package = pytest.importorskip("prv_accountant")
    from prv_accountant import privacy_random_variables as prvs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = package.PRVAccountant(
            prvs=[prvs.PoissonSubsampledGaussianMechanism(q, sigma)],
            max_self_compositions=[k],
            eps_error=0.05,
            delta_error=1e-6,
        ).compute_delta(eps, [k])
    ours = PrvAccountant(
        [Step(gaussian(sigma, q).law(), k)], eps_error=0.05, delta_error=1e-6
    ).log_delta(eps)
    assert np.exp([ours.lower, ours.estimate, ours.upper]) == pytest.approx(theirs, rel=2e-3)


def test_cost_grows_with_the_square_root_of_the_count():
    points = []
    for count in (400, 6400):
        law = gaussian(2.0 * math.sqrt(count), 1.0).law()
        points.append(PrvAccountant([Step(law, count)]).log_delta(1.0).detail["step"])
    assert points[0] / points[1] == pytest.approx(4.0, rel=0.5)


def test_heterogeneous_with_infinite_mass():
    half = math.exp(0.3) / (1 + math.exp(0.3))
    p, q = np.array([half, 1 - half]) * 0.999, np.array([1 - half, half]) * 0.999
    leaky = PrivacyLoss.from_atoms(np.log(p / q), p, 0.001, 0.001)
    steps = [Step(gaussian(10.0).law(), 30), Step(leaky, 10)]
    bound = PrvAccountant(steps, eps_error=0.02, delta_error=1e-9).log_delta(1.0)
    # direct: binomial mixture of shifted Gaussian answers
    sd = math.sqrt(30) / 10
    total = 0.0
    from scipy.special import ndtr

    for up in range(11):
        shift = 0.3 * (2 * up - 10)
        weight = math.comb(10, up) * half**up * (1 - half) ** (10 - up) * 0.999**10
        e = 1.0 - shift
        total += weight * (ndtr(sd / 2 - e / sd) - math.exp(e) * ndtr(-sd / 2 - e / sd))
    total += 1 - 0.999**10
    assert bound.lower <= math.log(total) <= bound.upper
    assert bound.estimate == pytest.approx(math.log(total), abs=2e-3)


def test_tiny_delta_has_no_lower_bound_but_a_true_upper_one():
    bound = PrvAccountant([Step(gaussian(2.0, 0.01).law(), 3000)]).log_delta(3.0)
    assert bound.lower == -math.inf
    assert truth("SGS3_rem") <= bound.upper <= math.log(2e-10)


def test_refusals():
    law = laplace(1.0).law()
    with pytest.raises(DeclarationError, match="eps_error"):
        PrvAccountant([Step(law, 1)], eps_error=0.0)
    with pytest.raises(DeclarationError, match="delta_error"):
        PrvAccountant([Step(law, 1)], delta_error=1.0)
    with pytest.raises(UnsupportedError, match="max_bytes"):
        PrvAccountant([Step(law, 10**6)], eps_error=1e-6, max_bytes=10**6).log_delta(1.0)
