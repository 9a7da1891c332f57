"""The CLT accountant: its parameter, the Gaussian profile, and that it claims nothing."""

import math

import pytest
import series_laws as laws

from mechc.accountants.classical.clt import CltAccountant, log_gaussian_delta
from mechc.errors import UnsupportedError
from mechc.loss.privacy_loss import Step


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("deviations", [-6.0, -0.5, 0.0, 1.0, 9.0, 60.0])
def test_profile_of_gaussian_privacy(mu, deviations):
    epsilon = mu * mu / 2 + deviations * mu
    exact = laws.gaussian_log_delta(mu, epsilon)
    assert log_gaussian_delta(mu, epsilon) == pytest.approx(exact, rel=1e-10, abs=1e-11 / mu)


def test_gaussian_compositions_are_exact():
    accountant = CltAccountant([Step(laws.gaussian(20.0), 1000), Step(laws.gaussian(10.0), 30)])
    mu = math.sqrt(1000 / 400 + 30 / 100)
    assert accountant.mu == pytest.approx(mu, rel=1e-12)
    bound = accountant.log_delta(4.0)
    assert bound.estimate == pytest.approx(laws.gaussian_log_delta(mu, 4.0), rel=1e-11)
    assert math.isnan(bound.lower) and math.isnan(bound.upper) and bound.status == "estimate"


def test_parameter_approaches_the_closed_limit_of_subsampling():
    # q sqrt(k (exp(1/s^2) - 1)) for q sqrt(k) fixed (Bu, Dong, Long, Su 2020)
    gaps = []
    for q in (0.01, 0.001):
        count = round(1 / q**2)
        mu = CltAccountant([Step(laws.subsampled_gaussian(q, 1.5), count)]).mu
        gaps.append(abs(mu / (q * math.sqrt(count * math.expm1(1 / 1.5**2))) - 1))
    assert gaps[0] < 0.01 and gaps[1] < 0.15 * gaps[0]


def test_masses_at_infinity_are_split_off():
    bound = CltAccountant([Step(laws.worst_case(0.01, 1e-6), 10000)]).log_delta(1.0)
    infinite = -math.expm1(10000 * math.log1p(-1e-6))
    assert bound.estimate > math.log(infinite)
    exact = infinite + math.exp(laws.gaussian_log_delta(1.0, 1.0)) * (1 - infinite)
    assert bound.estimate == pytest.approx(math.log(exact), abs=2e-3)


def test_coarse_lattice_is_refused():
    with pytest.raises(UnsupportedError, match=r"lattice of step 1, too coarse .* at 4 steps"):
        CltAccountant([Step(laws.randomized_response(0.5), 4)]).log_delta(0.5)


def test_outside_the_support_the_answer_is_exact():
    accountant = CltAccountant([Step(laws.laplace(0.1), 20)])
    assert accountant.log_delta(2.5).upper == -math.inf
    assert accountant.log_delta(-2.5).upper == pytest.approx(math.log1p(-math.exp(-2.5)))
