"""What is not computed because it cannot matter, and the transform that the rest is made of."""

import math

import mpmath
import numpy as np
import pytest
import truth
from scipy import special

import mechc
from mechc.accountants.classical.clt import log_gaussian_delta
from mechc.accountants.contour import ContourAccountant
from mechc.accountants.contours.characteristic import log_phi, smoothness
from mechc.loss.privacy_loss import Step
from mechc.loss.quadrature.rule import NODES, WEIGHTS


@pytest.mark.parametrize(("nodes", "h"), [(30, 0.2), (700, 3.0)])
def test_transform_over_several_blocks(nodes, h):
    """Against sums of exponentials in extended precision; the recurrence starts afresh at 1025."""
    rng = np.random.default_rng(1)
    loss = rng.standard_gamma(2.0, nodes) * 0.02
    loss -= loss.mean()
    weight = np.full(nodes, 1.0 / nodes)
    count = 1500
    re, im = log_phi(np.array([0, nodes]), np.ones(1), loss, weight, h, 1, count + 1)
    n = np.array([1, 2, 31, 32, 33, 64, 65, 1024, 1025, 1026, 1500])
    theta = np.asarray(h * loss, np.longdouble)[:, None] * n
    x, y = -2 * np.sin(theta / 2) ** 2, np.sin(theta) - theta
    x, y = (v.sum(axis=0) / nodes for v in (x, y))
    assert np.abs(re[n - 1] - np.log(np.hypot(1 + x, y))).max() < 1e-12
    assert np.abs(im[n - 1] - np.arctan2(y, 1 + x)).max() < 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 3.0, 300.0])
def test_delta_next_to_one(epsilon):
    """Gaussian noise of total mu = 40: 1 - delta is below 1e-20, and the interval says so."""
    event = mechc.load("gaussian")(sigma=2.5)
    bound = (10_000 * event).log_delta(epsilon)
    assert -1e-13 < bound.lower < bound.upper == 0.0


@pytest.mark.parametrize("name", ["gaussian", "laplace", "gumbel"])
@pytest.mark.parametrize("count", [40, 3000])
def test_a_direction_left_out_is_the_smaller_one(name, count):
    values = {"sigma": 2.0} if name == "gaussian" else {"scale": 2.0}
    run = count * mechc.poisson(mechc.load(name))(sampling_rate=0.02, **values)
    for epsilon in (0.05, 0.4, 2.0):
        both = run.log_delta(epsilon)
        each = [run.log_delta(epsilon, direction=d) for d in ("remove", "add")]
        assert both.upper >= max(b.lower for b in each)
        assert both.lower <= max(b.upper for b in each)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "gumbel"])
def test_a_direction_is_called_smaller_only_where_it_is(name):
    """On both sides of the truth, and at levels around it."""
    values = {"sigma": 1.5} if name == "gaussian" else {"scale": 2.0}
    run = 500 * mechc.poisson(mechc.load(name))(sampling_rate=0.02, **values)
    for direction in ("remove", "add"):
        for epsilon in (0.5, 2.0):
            truth = run.log_delta(epsilon, direction=direction)
            evaluation = run.evaluation()
            evaluation.log_delta_in(direction, epsilon)
            for gap in (-3.0, -0.1, 0.5, 3.0):
                promised = evaluation.bounded(direction, epsilon, truth.estimate + gap)
                assert promised is None or gap > 0.0
            assert evaluation.bounded(direction, epsilon, truth.estimate + 30.0) is not None
            assert evaluation.bounded(direction, epsilon, float("nan")) is None


@pytest.mark.parametrize("count, sigma, epsilon", [(2, 1.0, 1.0), (3, 2.0, -0.4), (2, 12.0, 0.3)])
def test_a_few_smooth_steps_fade_by_their_derivatives(count, sigma, epsilon):
    """One power of the frequency a step would ask for thousands of nodes."""
    bound = (count * mechc.load("gaussian")(sigma=sigma)).log_delta(epsilon, method="contour")
    exact = truth.gaussian(count**0.5 / sigma, epsilon)
    assert bound.lower - 1e-15 <= exact <= bound.upper + 1e-15
    assert bound.upper - bound.lower < 1e-11


def test_jumps_kinks_and_poles_are_no_smoothness():
    """Densities on panels whose transforms are known: uniform, triangle, |l|^(-1/2) on (0, 1)."""
    for cuts, density, transform in (
        ([0.0, 1.0], lambda x: 1.0 + 0.0 * x, lambda y: abs(np.sin(y / 2) / (y / 2))),
        ([-1.0, 0.0, 1.0], lambda x: 1.0 - np.abs(x), lambda y: (np.sin(y / 2) / (y / 2)) ** 2),
        (
            [0.0, *2.0 ** np.arange(-30.0, 1.0)],
            lambda x: 0.5 / np.sqrt(x),
            lambda y: abs(1j**0.5 * special.erf((-1j * y) ** 0.5) * (np.pi / y) ** 0.5 / 2),
        ),
    ):
        half, middle = np.diff(cuts) / 2, (np.array(cuts[1:]) + cuts[:-1]) / 2
        loss = (middle[:, None] + half[:, None] * NODES).ravel()
        spacing = (half[:, None] * WEIGHTS).ravel()
        branch = np.zeros(half.size, np.int64)
        table = smoothness(loss, density(loss) * spacing, spacing, branch)
        for y in (3.0 * np.pi, 31.0 * np.pi, 301.0 * np.pi):
            powers = y ** -np.arange(1.0, len(table))
            bounds = table[0, 1] + np.cumsum(table[1:, 1] * powers) + table[1:, 0] * powers
            assert bounds.min() >= transform(y) * (1.0 - 1e-9)


def test_real_tilts_on_nodes_that_grew_for_waves():
    """K against mpmath."""
    mean, sigma, rate = 1.0, 0.9, 0.01
    law = mechc.poisson("gaussian", sampling_rate=rate)(sigma=sigma).loss("remove")
    accountant = ContourAccountant([Step(law, 2000)])
    answer = accountant.log_delta(3.0)
    columns = accountant.columns()
    for t in (-2.0, 1.5, 4.0):
        with mpmath.workdps(30):

            def tilted(x, t=t):
                ratio = 1 + rate * mpmath.expm1((mean * x - mean / 2) / mpmath.mpf(sigma) ** 2)
                return mpmath.npdf(x, 0, sigma) * ratio ** (t + 1)

            exact = 2000 * float(mpmath.log(mpmath.quad(tilted, [-20, -2, 0, 1, 3, 6, 30])))
        k, _, _, rounding = columns.law.roughly(t)[0].tolist()
        assert k == pytest.approx(exact, abs=rounding + 1e-9)
    assert answer.upper <= columns.chernoff(3.0)[0]


@pytest.mark.parametrize("count", [1, 30, 1000])
def test_what_normal_losses_do_not_exceed_is_not_exceeded(count):
    """Losses of Gaussian noise are normal, and delta is in closed form."""
    run = count * mechc.load("gaussian")(sigma=10.0)
    evaluation, mu = run.evaluation(), math.sqrt(count) / 10.0
    for epsilon in np.linspace(0.0, 12.0, 13) * mu:
        exact = log_gaussian_delta(mu, float(epsilon))
        for level in (exact - 3.0, exact - 0.1):
            assert evaluation.normal_exceeds(float(epsilon), level)
        assert not evaluation.normal_exceeds(float(epsilon) + 5.0 * mu + mu * mu, -0.5)
