"""Many atoms off any lattice: proven bounds from a smoothed payoff."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import truth
from flint import arb

import mechc
from mechc.accountants.contour import ContourAccountant
from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.inversion import bounds_on_sum
from mechc.accountants.contours.law import Law
from mechc.accountants.contours.trapezoid import Blur, Smooth
from mechc.accountants.pld import PldAccountant
from mechc.accountants.repetitions import Sweep
from mechc.loss.privacy_loss import PrivacyLoss, Step


def lattice_pair(seed, size, step):
    """A law on offset + step * n as floats, and the same masses as balls."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(size))
    exact = [truth.ball(v) for v in q]
    whole = sum(exact, arb(0))
    exact = [v / whole for v in exact]
    tilted = [v * (truth.ball(step) * n).exp() for n, v in enumerate(exact)]
    offset = -sum(tilted, arb(0)).log()
    masses = [v * offset.exp() for v in tilted]
    losses = [float(offset + truth.ball(step) * n) for n in range(size)]
    return PrivacyLoss.from_atoms(losses, [float(m) for m in masses]), offset, masses


@pytest.mark.parametrize("seed", range(12))
def test_contour_without_knowing_of_the_lattice(seed):
    """Exact convolutions, where the contour is not told that there is a lattice."""
    rng = np.random.default_rng(seed)
    step, count = 10 ** rng.uniform(-2.5, -0.5), int(rng.integers(8, 60))
    law, offset, masses = lattice_pair(seed, 25, step)
    epsilon = count * law.support[1] * rng.uniform(0.02, 0.6)
    exact = truth.lattice(offset, step, masses, count, epsilon)
    bound = ContourAccountant([Step(law, count)]).log_delta(epsilon)
    assert bound.status == "proven"
    assert bound.lower <= exact <= bound.upper
    assert bound.width <= 1e-4  # every composed atom is heavy, and close to epsilon


def test_losses_off_any_lattice():
    """Sampled binomial noise has losses log(1 + q (ratio - 1)) at no common step."""
    trials, rate, count = 40, 0.1, 30
    mass = np.array([math.comb(trials, n) for n in range(trials + 1)]) / 2.0**trials
    shifted = np.append(0.0, mass[:-1])
    p = rate * shifted + (1 - rate) * mass
    law = PrivacyLoss.from_atoms(np.log(p / mass), p, rate * mass[-1])
    for epsilon in (0.3, 1.0, 2.0):
        one = ContourAccountant([Step(law, count)]).log_delta(epsilon)
        two = PldAccountant([Step(law, count)], grid=2**18).log_delta(epsilon)
        assert one.width <= 1e-6
        assert max(one.lower, two.lower) <= min(one.upper, two.upper)


@pytest.mark.parametrize("spread", [1e-3, 0.02, 0.3])
def test_blur_is_a_random_shift_of_mean_one(spread):
    """E e^U = 1, and the excess is psi(0) / p(0), sampled."""
    blur = Blur(spread)
    assert complex(blur.transform(np.array([-1.0 + 0j]))[0]) == pytest.approx(1.0, abs=1e-13)
    rng = np.random.default_rng(1)
    shift = spread * rng.normal(size=400_000) - 0.5 * spread**2
    above = np.maximum(np.expm1(shift), 0.0).mean()
    near = 0.1 * shift.std()
    density = (np.abs(shift) < near).mean() / (2 * near)
    assert 0.97 < blur.excess / (above / density) < 1.03


@pytest.mark.parametrize(("c", "start"), [(0.3, 5.0), (4.0, 60.0)])
def test_tails_of_the_transform(c, start):
    """Against the integral in extended precision."""
    blur = Blur(0.4)
    with mpmath.workdps(30):
        v = mpmath.mpf(0.4)
        size = [lambda y, p=p: mpmath.exp(v**2 * (c * (c + 1) - y * y) / 2) / y**p for p in (2, 0)]
        exact = [mpmath.quad(f, [start, start + 10, mpmath.inf]) for f in size]
    for bound, integral in zip(blur.tails(c, start), exact, strict=True):
        assert integral <= bound <= 2.0 * integral


def test_masses_that_a_kernel_rounds_are_allowed_for():
    """Of 1000 steps they sum to 1 - 2.9e-12, and all losses are far larger."""
    run = mechc.load("shuffle")(users=35, epsilon=5.523368131964503) * 1000
    bound = run.delta(20.0, direction="remove", method="contour")
    assert bound.lower < 1.0 - 1e-15 < bound.upper


def test_counts_on_shared_contours():
    """Epsilon after each of 40 repetitions, against exact convolutions at both ends."""
    step, log_delta = 0.07, math.log(1e-5)
    law, offset, masses = lattice_pair(3, 25, step)
    law = replace(law, lattice=None)
    counts = np.arange(1.0, 41.0)
    sweep = Sweep([Step(law, 1)], Smooth(), log_delta, 1e-6, recursion=False)
    lower, _, upper = sweep.epsilons(counts, np.nan * counts)
    answered = np.flatnonzero(upper < math.inf)
    assert answered.size >= 30
    assert (upper - lower)[answered].max() < 1e-6
    for i in answered[::6].tolist():
        n = int(counts[i])
        assert truth.lattice(offset, step, masses, n, float(lower[i])) >= log_delta
        assert truth.lattice(offset, step, masses, n, float(upper[i])) <= log_delta


def test_contours_that_get_more_nodes_after_the_payoff_was_smoothed():
    """Laplace noise of five scales, whose sums of atoms are too many to list."""
    noise = mechc.load("laplace")
    scales = (54.799953, 29.50654607, 96.32492934, 87.68079144, 92.41419757)
    run = mechc.compose(
        *((noise(scale=s), n) for s, n in zip(scales, (10, 30, 30, 10, 10), strict=True))
    )
    own, grid = run.epsilon(7.7e-12), run.epsilon(7.7e-12, method="pld")
    assert own.upper - own.lower <= 1e-5 * own.upper
    assert max(own.lower, grid.lower) <= min(own.upper, grid.upper)


@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_thousands_of_atoms_by_one_transform(count):
    """Against exact convolutions: a list that is long enough for a transform of all frequencies."""
    law, offset, masses = lattice_pair(5, 2500, step := 2e-4)
    epsilon = 0.4 * count * law.support[1]
    exact = truth.lattice(offset, step, masses, count, epsilon)
    bound = ContourAccountant([Step(replace(law, lattice=None), count)]).log_delta(epsilon)
    assert bound.lower <= exact <= bound.upper
    assert bound.width <= 1e-6


@pytest.mark.few(0)
@pytest.mark.parametrize("repeated", [1.0, 2.0, 40.0])
def test_log_phi_by_a_transform(repeated):
    """The same as sums in extended precision, up to the error that it states."""
    law, *_ = lattice_pair(6, 500, 3e-3)
    whole = Law((Step(law, int(repeated)),))
    tilted = Tilted(whole, 1.5)
    h, count = 7.0, 3000
    re, im, error = tilted.transformed(h, count)
    n = np.arange(1, count + 1, dtype=np.longdouble)
    angle = h * n[:, None] * tilted.centred.astype(np.longdouble)
    one = np.exp(1j * angle) @ tilted.weight.astype(np.longdouble)
    off = np.abs(np.exp(re.astype(np.longdouble) + 1j * im.astype(np.longdouble)) - one**repeated)
    assert (off <= error * np.abs(one) ** (repeated - 1.0) + error**2).all()
    assert error <= 1e-10 * repeated


def test_an_error_of_phi_beside_few_factors():
    """Of two steps, phi = 1e-8 is off by e: the sum by 2 e phi, not by 2 e phi^2."""
    re, size = np.full(4, math.log(1e-8)), np.full(4, 1e-16)
    off = bounds_on_sum(2.0, re, 0.0 * re, size, 1.0, 0.0, 1.0, 2.0 * 1e-9, 1.0)[0]
    assert off >= 2.0 * 4 * 2.0 * 1e-9 * 1e-8


def test_epsilon_after_each_of_many_counts_of_a_long_list():
    """Shuffled reports of a thousand users: every count on shared contours, the grid agrees."""
    step = mechc.load("shuffle")(users=1000, epsilon=1.0)
    curve = step.epsilon_curve(1e-5, range(1, 91))
    assert curve.detail["one_by_one"] == []
    assert (curve.upper - curve.lower).max() < 1e-6
    for count in (2, 90):
        grid = (count * step).epsilon(1e-5, method="pld")
        lower, upper = float(curve.lower[count - 1]), float(curve.upper[count - 1])
        assert max(lower, grid.lower) <= min(upper, grid.upper)
