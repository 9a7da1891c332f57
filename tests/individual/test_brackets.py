"""Errors of interpolation against the members themselves, at values between all those tabulated."""

import numpy as np
import pytest
import sympy

import mechc
from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.law import Law
from mechc.individual.contours import Contour
from mechc.individual.family import Family
from mechc.individual.splines import Brackets, Grid, basis, reached, spline_coefficients
from mechc.individual.tilts import Members, Tilts
from mechc.loss.privacy_loss import Step

NODES, REACH = 32, 8.0


def family(name, parameter, span, rate):
    mechanism = mechc.load(name)
    if rate:
        mechanism = mechc.poisson(mechanism, sampling_rate=rate)
    return Family.of(mechanism, parameter, span)


def true_log_m(law, c, h):
    """Log M of one member at c + inh, from its own nodes."""
    law = law.covering(-1.0, c, c, 1.01 * REACH, 1e-20)
    k, mean, _, _ = law.generating(c)
    re, im = Tilted(Law((Step(law, 1),)), c).log_phi(h, 1, NODES + 1)
    return np.append(k, k + re + 1j * (im + h * np.arange(1.0, NODES + 1.0) * mean))


@pytest.mark.few(0)
@pytest.mark.parametrize(
    "name, parameter, span, rate, spacing, order",
    [
        ("gaussian", "sigma", (0.5, 50.0), 0.01, "geometric", 4),
        ("laplace", "scale", (1.0, 9.0), 0.1, "geometric", 2),
        pytest.param("gaussian", "sigma", (2.0, 20.0), 1e-4, "linear", 4, marks=pytest.mark.slow),
        pytest.param("gaussian", "sigma", (0.5, 50.0), 0.0, "geometric", 4, marks=pytest.mark.slow),
        pytest.param("logistic", "scale", (0.5, 9.0), 0.05, "geometric", 3, marks=pytest.mark.slow),
        pytest.param("discrete_laplace", "a", (0.05, 1.0), 0.0, "geometric", 2,
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_members_between_the_tabulated_ones_are_within_the_radius(
    name, parameter, span, rate, spacing, order
):
    made = family(name, parameter, span, rate)
    assert made.alternates[0] == order
    rng, shares = np.random.default_rng(order), []
    grid = Grid(made.worst, made.best, 24, spacing, True)
    for direction in made.directions:
        members = Members(made, grid, direction)
        tilts = Tilts(members, (0, grid.buckets), 20.0)
        at = int(rng.integers(0, tilts.t.size // 2))
        contour, h = Contour(tilts, at, REACH, tilts.span), REACH / NODES
        values, errors = contour.nodes(h, NODES)
        z = contour.c + 1j * h * np.arange(NODES + 1.0)
        growth = np.abs(z * (z + 1)) / (contour.c * (contour.c + 1))
        columns, radius = members.columns(values, errors, tilts.span, growth)
        for position in rng.uniform(0, grid.buckets, 12):
            bucket = int(position)
            weights = basis(np.array([position - bucket]))[0]
            found = weights @ columns[bucket : bucket + 4]
            found[1:] += found[0]
            value = float(grid.values(np.array([position]))[0])
            true = true_log_m(made.loss(value, direction), contour.c, h)
            off = np.abs(np.exp(true - found) - 1.0)
            assert (off <= np.expm1(weights @ radius[bucket : bucket + 4])).all()
            shares.append(radius[bucket][0] / abs(np.expm1(found[0].real)))
    assert np.median(shares) <= 0.02  # buckets are 20 % wide, K differs by 40 %


def test_the_order_of_gaussian_noise_follows_from_its_density():
    """-d H / d sigma is a positive function of epsilon times one of sigma and epsilon^2.

    Its derivatives over sigma^p alternate for all epsilon where this says so; sampling maps
    profiles to affine functions of profiles at other epsilons.
    """
    s, e, x = sympy.symbols("s e x", positive=True)
    slope = sympy.exp(-1 / (8 * s**2) - e * s**2 / 2) / s**2
    for power, low in ((1, 1.0), (2, 0.5)):
        term, signs = slope / (power * s ** (power - 1)), []
        for k in range(1, 4):
            term = sympy.diff(term, s) / (power * s ** (power - 1))
            shape = sympy.simplify(sympy.expand((-1) ** k * term / slope).subs(e, x / s**2))
            signs.append(sympy.lambdify((s, x), shape))
        sigma = np.geomspace(low, 100.0, 400)[:, None]
        u = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 2000)])[None]  # epsilon^2 sigma^2
        assert all((sign(sigma, u) >= 0.0).all() for sign in signs)


def test_a_kink_or_a_bump_is_seen():
    x = np.linspace(1.0, 1.04, 5)
    smooth, hinge = np.exp(-x)[:, None], np.maximum(1.025 - x, 0.0)[:, None]
    assert reached(x, smooth, smooth) == 4
    assert reached(x, smooth + hinge, smooth + hinge) == 2
    assert reached(x, (2 - x**2)[:, None], (2 - x**2)[:, None]) == 1
    assert reached(x, x[:, None], x[:, None]) == 0


def test_errors_of_logs_are_not_taken_for_relative_ones():
    """Of members whose M is known up to a factor e^20 the spline is off by as much."""
    grid = Grid(1.0, 2.0, 8, "linear", True)
    positions = np.append(np.arange(9.0), np.arange(8) + 0.5)
    brackets = Brackets(grid, positions, (0, 8), 2, 1)
    found = brackets.radius(np.zeros((17, 1)), np.full((17, 1), 20.0), None, np.zeros((11, 1)))
    assert (found >= 20.0).all()


def test_tables_that_contradict_the_order_leave_no_bound():
    """M concave in the parameter cannot come from profiles that are convex in it."""
    grid = Grid(1.0, 2.0, 8, "linear", True)
    positions = np.append(np.arange(9.0), np.arange(8) + 0.5)
    x = grid.coordinate(positions, 1)
    brackets, nothing = Brackets(grid, positions, (0, 8), 2, 1), np.zeros((17, 1))
    for bend, fine in ((0.1, True), (-0.1, False)):
        log_m = np.log(4.0 - x + bend * x**2)[:, None]
        spline = spline_coefficients(log_m[:9])
        radius = brackets.radius(log_m, nothing, None, spline)
        assert np.isfinite(radius).all() == fine and np.isinf(radius).all() != fine
