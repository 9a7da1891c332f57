"""Windows, reaches and images against the tails and images themselves."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate, special
from written_kernels import gaussian, laplace

from mechc.accountants.bounds import Tails
from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.fft import TiltedSum
from mechc.accountants.pld import choose, images, reach
from mechc.errors import UnsupportedError
from mechc.loss.discretise import GridLaw
from mechc.loss.privacy_loss import Step
from mechc.numeric.logs import log_peak


@pytest.fixture(scope="module")
def gauss():
    """The law of a loss N(0.02, 0.2^2)."""
    return gaussian(5.0).law()


def log_normal_tail(x, mean, sd):
    return float(special.log_ndtr(-(x - mean) / sd))


@pytest.mark.parametrize("epsilon", [-3.0, 0.2, 2.0, 15.0])
@pytest.mark.parametrize("period_share", [1.0, 0.5])
def test_images_hold_for_a_lattice_even_in_a_short_period(epsilon, period_share):
    """Coin sums: H(eps + mT) is a finite sum; the bounds must contain S - H(eps)."""
    up = 1 / (1 + math.exp(-0.2))
    law = GridLaw(-0.2, 0.4, 0, np.array([1 - up, up]), -math.inf, 0.0, 0.0)
    count = 100
    points = -0.2 * count + 0.4 * np.arange(count + 1)
    mass = np.exp(
        special.gammaln(count + 1)
        - special.gammaln(np.arange(count + 1) + 1)
        - special.gammaln(count - np.arange(count + 1) + 1)
        + np.arange(count + 1) * math.log(up)
        + (count - np.arange(count + 1)) * math.log1p(-up)
    )

    def payoff(x):
        return float(mass @ -np.expm1(np.minimum(x - points, 0.0)))

    coin = laplace(5.0).law()  # any composition with a similar spread chooses the window
    window = choose(ComposedLoss([Step(coin, count)]), epsilon, 1e-6)
    size = 1 << math.ceil(math.log2(period_share * window.period / law.step))
    total = TiltedSum.of([(law, count)], window.tilt, size, window.probes)
    least, most, right = images(total, window, epsilon)
    shift = window.tilt * total.period
    true_left = sum(
        math.exp(-m * shift) * payoff(epsilon - m * total.period) for m in range(1, 200)
    )
    true_right = sum(
        math.exp(m * shift) * payoff(epsilon + m * total.period)
        for m in range(1, 40)
        if epsilon + m * total.period < points[-1]
    )
    assert math.exp(least) <= true_left * (1 + 1e-9) + 1e-300
    assert true_left <= math.exp(most) * (1 + 1e-9)
    assert true_right <= math.exp(right)


def test_the_window_keeps_images_within_the_share(gauss):
    composed = ComposedLoss([Step(gauss, 100)])
    window = choose(composed, 8.0, 1e-6)
    # loss of the sum: N(2, 2^2); the estimate of delta is right within a few nats
    assert window.log_delta == pytest.approx(log_normal_tail(8.0, 2.0, 2.0), abs=4.0)
    assert window.tilt <= window.saddle * 1.001
    assert 8.0 < window.period < 40.0


@pytest.mark.parametrize("epsilon", [2.0, 12.0])
def test_reach_leaves_out_what_chernoff_allows(gauss, epsilon):
    composed = ComposedLoss([Step(gauss, 100)])
    window = choose(composed, epsilon, 1e-6)
    (r,) = reach(composed, [gauss], window)
    assert r.lo <= r.at_least < 0.02 < r.hi
    assert log_normal_tail(r.hi, 0.02, 0.2) <= r.log_above <= window.log_share
    for x in (r.lo, 0.5 * r.lo, -0.1):
        assert log_normal_tail(-x, -0.02, 0.2) <= r.log_below(x)


def test_reach_stops_at_the_support():
    law = laplace(2.0).law()
    composed = ComposedLoss([Step(law, 50)])
    (r,) = reach(composed, [law], choose(composed, 3.0, 1e-6))
    assert (r.lo, r.hi) == (-0.5, 0.5)
    assert r.log_above == -math.inf
    assert r.log_below(-0.5001) == -math.inf
    assert r.log_below(-0.5) > -math.inf  # half the mass is there


def test_a_lower_guess_of_delta_widens_the_window(gauss):
    composed = ComposedLoss([Step(gauss, 100)])
    wide, narrow = choose(composed, 8.0, 1e-6, -60.0), choose(composed, 8.0, 1e-6)
    assert wide.log_share < narrow.log_share and wide.period > narrow.period


def test_peak_of_the_payoff():
    for s in (0.3, 1.0, 20.0):
        x = np.linspace(1e-4, 10, 200_001)
        assert math.exp(log_peak(s)) == pytest.approx(
            float((np.exp(-s * x) * -np.expm1(-x)).max()), rel=1e-6
        )


def test_tails_of_a_gaussian(gauss):
    tails = Tails(ComposedLoss([Step(gauss, 100)]), "prv")
    a = tails.window(tails.distinct, math.log(1e-9))
    right, left = tails.log_beyond(tails.distinct, a)
    assert log_normal_tail(a, 2.0, 2.0) <= right <= math.log(1e-9) * (1 - 1e-9)
    assert log_normal_tail(a, -2.0, 2.0) <= left
    assert a < 2.0 + 2.0 * 7.5
    # E[|X|; |X| > a] for one step N(0.02, 0.2^2)
    x = np.linspace(1.0, 4.0, 40_001)
    density = [
        np.exp(-0.5 * ((x - m) / 0.2) ** 2) / (0.2 * math.sqrt(2 * math.pi)) for m in (0.02, -0.02)
    ]
    exact = float(integrate.trapezoid(x * (density[0] + density[1]), x))
    assert exact <= tails.mean_beyond(0, 1.0) < 100 * exact


def test_no_exponential_moment_is_refused(gauss):
    law = dataclasses.replace(gauss, strip=(-math.inf, 0.0))
    with pytest.raises(UnsupportedError):
        choose(ComposedLoss([Step(law, 3)]), 1.0, 1e-6)
    with pytest.raises(UnsupportedError, match="prv"):
        Tails(ComposedLoss([Step(law, 3)]), "prv")
