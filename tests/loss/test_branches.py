"""Cells, densities and one-step answers on the monotone branches."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from families import FAMILIES
from scipy import integrate
from sympy import exp, oo

import mechc
from mechc.declare import mechanism, positive, real
from mechc.declare.text import declaration_from_text
from mechc.loss.branches import branches_of
from mechc.loss.discretise import following_error

EVENTS = {
    "gaussian": lambda: mechc.load("gaussian")(sigma=1.2),
    "sampled": lambda: mechc.poisson(mechc.load("gaussian"))(sigma=1.2, sampling_rate=0.1),
    "student_t": lambda: mechc.load("student_t")(nu=3.0, scale=1.0),
    "laplace": lambda: mechc.load("laplace")(scale=2.0),
    "gaussian_scale": lambda: mechc.load("gaussian_scale")(sp=1.0, sq=1.4),
    # a branch that is not split; towards its ends the loss is level but for rounding
    "two_logistics": lambda: mechc.load(
        declaration_from_text("two", noise="1/(8*cosh(x/2)**2) + 1/(4*cosh(x)**2)")
    )(sensitivity=1.0),
}


@pytest.mark.few(0, 2, 5, 6, 8, 11)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("name", EVENTS)
def test_cells_hold_all_the_mass(name, direction):
    law = EVENTS[name]().loss(direction)
    lo, hi = max(law.support[0], -60.0), min(law.support[1], 60.0)
    p, q = law.cell_masses(np.linspace(lo - 0.1, hi + 0.1, 201))
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert q.sum() == pytest.approx(1.0, abs=1e-12)


def test_cells_of_a_gaussian_keep_their_accuracy_in_the_tail():
    sigma = 1.2
    law = EVENTS["gaussian"]().loss()
    mean, spread = 0.5 / sigma**2, 1.0 / sigma
    edges = np.array([-1.0, 0.0, 2.0, 5.0, 6.0])
    p, _ = law.cell_masses(edges)
    tail = [0.5 * math.erfc((e - mean) / spread / math.sqrt(2)) for e in edges]
    assert p == pytest.approx(-np.diff(tail), rel=1e-11)


@pytest.mark.parametrize("step", [0.3, 0.03, 0.003])
def test_narrow_cells_of_a_gaussian(step):
    """Fewer nodes in cells that are short: all masses to 12 digits, 30 deviations out as well."""
    sigma = 1.2
    law = EVENTS["gaussian"]().loss()
    mean, spread = 0.5 / sigma**2, 1.0 / sigma
    for start in (-8.0, 0.0, 20.0):
        edges = start + step * np.arange(200)
        edges = edges[edges < 25.0]
        p, q = law.covering(-1.0, 25.0).cell_masses(edges)
        for mass, centre in ((p, mean), (q, -mean)):
            z = (edges - centre) / (spread * math.sqrt(2))
            with mpmath.workdps(60):
                tail = [mpmath.erfc(mpmath.mpf(x)) / 2 for x in z]
                exact = [float(a - b) for a, b in itertools.pairwise(tail)]
            assert mass == pytest.approx(exact, rel=1e-11)


def test_density_of_gaussian_and_logistic_losses():
    sigma, width = 1.2, 0.5
    loss = np.linspace(-0.45, 0.45, 7)
    mean, spread = 0.5 / sigma**2, 1.0 / sigma
    normal = np.exp(-0.5 * ((loss - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
    assert EVENTS["gaussian"]().loss().density(loss) == pytest.approx(normal, rel=1e-7)
    uniform = np.exp(loss / 2) / (4 * math.sinh(width / 2))
    logistic = mechc.load("logistic")(scale=2.0).loss()
    assert logistic.density(loss) == pytest.approx(uniform, rel=1e-7)


@pytest.mark.parametrize("epsilon", [-2.0, 0.0, 0.5, 3.0, 30.0, 300.0])
def test_one_gaussian_step_in_far_tails(epsilon):
    truth = pytest.importorskip("truth")
    lower, estimate, upper = EVENTS["gaussian"]().loss().hockey_stick_log(epsilon)
    assert lower <= truth.gaussian(1 / truth.ball(1.2), epsilon) <= upper
    assert lower <= estimate <= upper
    assert upper - lower < 1e-9 * max(1.0, abs(estimate))


LOG_NORMALS = [(1.93655, 1.67946, 1.06653), (0.3, 1.9, 0.4), (1.5, 0.5, 1.8)]


def _two_log_normals(epsilon, mean, s, t):
    """Log delta of (LogNormal(mean, s), LogNormal(0, t)): of normal laws with a square as loss.

    L(y) > epsilon where a y^2 + b y + c > 0.
    """
    with mpmath.workdps(80 + int(2 * abs(epsilon))):
        epsilon, mean, s, t = map(mpmath.mpf, (epsilon, mean, s, t))
        a, b = (1 / t**2 - 1 / s**2) / 2, mean / s**2
        c = mpmath.log(t / s) - mean**2 / (2 * s**2) - epsilon
        root = mpmath.sqrt(b * b - 4 * a * c) if b * b > 4 * a * c else None
        if root is None:
            assert a < 0  # nothing is above epsilon
            return -math.inf
        ends = sorted([(-b - root) / (2 * a), (-b + root) / (2 * a)])

        def mass(m, sigma):
            z = [(e - m) / (sigma * mpmath.sqrt(2)) for e in ends]
            if a > 0:
                return (mpmath.erfc(-z[0]) + mpmath.erfc(z[1])) / 2
            return (mpmath.erfc(z[0]) - mpmath.erfc(z[1])) / 2

        return float(mpmath.log(mass(mean, s) - mpmath.exp(epsilon) * mass(0, t)))


@pytest.mark.few(4)
@pytest.mark.parametrize("rate", [None, pytest.param(0.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mean, s, t", LOG_NORMALS)
def test_losses_far_beyond_the_nodes(mean, s, t, rate):
    """The direction of the loss is open here, and outputs of 1e15 and 1e-15 decide a deep tail."""
    plain = mechc.load(FAMILIES["lognormals"].declare())
    sampled = mechc.poisson(plain, sampling_rate=rate) if rate else plain
    run = sampled(mean=mean, s=s, t=t)
    for epsilon in (1e-3, 1.0, 30.0, 100.0, 140.0, 200.0, 300.0):
        exact = _two_log_normals(epsilon, mean, s, t)
        if rate:
            exact += math.log(rate)
            epsilon += math.log(rate + (1 - rate) * math.exp(-epsilon))
        answer = run.log_delta(epsilon, direction="remove")
        if exact == -math.inf:
            assert answer.upper < -200.0 or answer.lower == -math.inf
            continue
        assert answer.lower - 1e-12 * abs(exact) <= exact <= answer.upper + 1e-12 * abs(exact)
        assert answer.upper - answer.lower < 1e-9 * max(1.0, abs(exact))


def test_turns_of_the_loss_are_looked_for_once(monkeypatch):
    """Searches for turns take dozens of looks at the loss, whatever epsilon is."""
    own = {"mean": 0.3719, "s": 1.8713, "t": 0.4157}  # of no other test, which might have looked
    law = mechc.load(FAMILIES["lognormals"].declare())(**own).loss("remove")
    kernel, looks = law.source.kernel, []
    ask = kernel.loss_many
    monkeypatch.setattr(kernel, "loss_many", lambda *given: looks.append(1) or ask(*given))
    law.hockey_stick_log(0.1)
    first = len(looks)
    looks.clear()
    law.hockey_stick_log(0.2)
    assert 0 < len(looks) < 0.7 * first


def test_logs_that_cancel_next_to_an_end_make_few_turns():
    """g(z) = log(z K_1(z)) is finite at 0 and has g' = -K_0/K_1, which falls: the loss rises."""
    noise = declaration_from_text("gamma_difference", noise="abs(x)*besselk(1,abs(x))/pi")
    source = mechc.load(noise)(sensitivity=1.0).loss("remove").source
    found = branches_of(source)
    assert len(found) < 9 and all(branch.increasing for branch in found)


def test_losses_that_overflow_go_on_to_their_limit():
    """Gompertz laws are exponential ones in y = exp(x) - 1: two sampled steps by one integral."""
    x, a, s = real("x"), positive("a", typical=(0.5, 5)), positive("s", typical=(0.5, 5))
    laws = (rate * exp(rate + x - rate * exp(x)) for rate in (a, s))
    declared = mechanism("gompertz", variable=x, p=next(laws), q=next(laws), support=(0, oo),
                         parameters=(a, s))  # fmt: skip
    slow, fast, q, epsilon = 1.0, 1.3, 0.1, 0.1

    def one_step(e):
        above = (math.exp(e) - 1 + q) / q * fast / slow
        y = math.log(max(above, 1.0)) / (fast - slow)
        return q * math.exp(-slow * y) + (1 - q - math.exp(e)) * math.exp(-fast * y)

    def weighed(y):
        mass = q * slow * math.exp(-slow * y) + (1 - q) * fast * math.exp(-fast * y)
        loss = math.log(1 - q + q * slow / fast * math.exp((fast - slow) * y))
        return mass * one_step(epsilon - loss)

    truth = sum(
        integrate.quad(weighed, lo, lo + 2, epsabs=1e-14, limit=200)[0] for lo in range(0, 60, 2)
    )
    run = 2 * mechc.poisson(mechc.load(declared))(a=slow, s=fast, sampling_rate=q)
    found = run.delta(epsilon, direction="remove")
    assert found.lower - 1e-11 <= truth <= found.upper + 1e-11
    assert found.upper - found.lower < 1e-8 * truth


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("name", EVENTS)
def test_many_epsilons_have_the_answers_of_each(name, direction):
    """Where they share nodes, and far out in the tail, where each has nodes of its own."""
    loss = EVENTS[name]().loss(direction)
    _, mean, variance, _ = loss.generating(0.0)
    epsilons = mean + math.sqrt(variance) * np.array([-9, -3, -1, -0.3, 0, 0.2, 1, 2, 4, 7, 12.0])
    together = loss.hockey_sticks_log(epsilons)
    for epsilon, found in zip(epsilons.tolist(), together, strict=True):
        lower, middle, upper = loss.hockey_stick_log(epsilon)
        if middle == -math.inf:
            assert found[1] == -math.inf
            continue
        assert found[0] <= upper and lower <= found[2]
        assert abs(found[1] - middle) <= 1e-13 * max(1.0, abs(middle))
        assert found[2] - found[0] <= 2.0 * (upper - lower) + 2e-12


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_output_without_a_loss_where_tails_cancel(direction):
    """Zero is no share of itself, and next to the ends of all numbers logs cancel in the loss."""
    noise = mechc.load("exponentially_modified_gaussian")(sigma=0.9137, scale=4.6736)
    sampled = mechc.poisson(mechc.load("exponentially_modified_gaussian"), 0.1)
    event = sampled(sigma=0.9137, scale=4.6736)
    whole = noise.delta(0.0)  # total variation is 0.1 times that of the noise
    for epsilon in (-1e-6, 0.0, 1e-9, 1e-6):
        found = event.delta(epsilon, direction=direction)
        assert found.upper - found.lower < 1e-12
        assert found.lower - abs(epsilon) <= 0.1 * whole.upper
        assert 0.1 * whole.lower <= found.upper + abs(epsilon)


def test_a_pole_between_panels_hides_nothing():
    """Rounding of an infinite loss was how far all others may be off, 4e285, and grids refused."""
    x, a = real("x"), positive("a")
    squares = mechanism(
        "squares", variable=x, support=(0, 1), parameters=(a,), p=12 * x**2 - 12 * x + 3,
        q=a * x ** (a - 1),
    )  # fmt: skip
    event = mechc.load(squares)(a=1.5)
    assert following_error(event.loss("remove")) <= 1e-9
