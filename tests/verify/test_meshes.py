"""Few steps between laws on meshes, against closed forms and sums over the atoms of one step."""

import math

import pytest

import mechc
from mechc.errors import NumericError

flint = pytest.importorskip("flint")
truth = pytest.importorskip("truth")
pytestmark = pytest.mark.oracle

from mechc.verify.certified import Certified  # noqa: E402
from mechc.verify.certified.mesh import cells_of  # noqa: E402


def certified(run, epsilon, **where):
    bound = run.log_delta(epsilon, certified=True, **where)
    assert bound.status.startswith("certified")
    return bound


def contains(bound, exact):
    room = 2e-14 * (1.0 + abs(exact))
    return bound.lower <= exact + room and bound.upper >= exact - room


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [pytest.param(3.0, marks=pytest.mark.slow), 15.0])
def test_two_gaussians(epsilon):
    bound = certified(2 * mechc.load("gdp")(mu=0.5), epsilon)
    assert bound.detail["route"] == "meshes"
    assert contains(bound, truth.gaussian(truth.ball(0.5) * truth.ball(2).sqrt(), epsilon))
    assert bound.upper - bound.lower < 1e-6


def beside_a_gaussian(losses, mu, epsilon):
    """Log delta of a step with these (loss, mass) and one Gaussian step: a sum over the losses."""
    parts = [math.log(mass) + truth.gaussian(mu, epsilon - loss) for loss, mass in losses]
    top = max(parts)
    return top + math.log(math.fsum(math.exp(part - top) for part in parts))


@pytest.mark.parametrize(
    ("name", "values", "losses"),
    [
        ("pure_dp", {"epsilon": 0.5},
         [(s * 0.5, 1.0 / (1.0 + math.exp(-s * 0.5))) for s in (1, -1)]),
        pytest.param(
            "discrete_laplace", {"a": 0.5, "sensitivity": 1},
            [(0.5, 1.0 / (1.0 + math.exp(-0.5))), (-0.5, math.exp(-0.5) / (1.0 + math.exp(-0.5)))],
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_atoms_and_integers_beside_a_density(name, values, losses):
    run = 1 * mechc.load(name)(**values) + 1 * mechc.load("gdp")(mu=0.5)
    bound = certified(run, 1.75)
    exact = beside_a_gaussian(losses, 0.5, 1.75)
    assert contains(bound, exact)
    assert bound.upper - bound.lower < 1e-6


@pytest.mark.slow
def test_a_tilt_at_which_no_mass_counts():
    # next to the largest loss of the direction "add", log(1 / 0.99)
    run = 2 * mechc.poisson(mechc.load("gaussian"), 0.01)(sigma=1.0)
    law = Certified(run, "add", 1e-9).laws[0]
    with pytest.raises(NumericError, match="no mass counts"):
        cells_of(law.oracle, flint.arb(1e4), 1e-6)


def test_two_laplace_steps():
    """P and Q have atoms at both ends of the loss and a density between them."""
    a, epsilon = 0.5, 0.8
    # one step: 1/2 at a, e^-a/2 at -a, density e^(-(a-l)/2)/4 between
    atom = 0.5 * (-math.expm1((epsilon - 2.0 * a) / 1.0))
    exact = math.log(0.5 * atom + _beside(a, epsilon) + _between(a, epsilon))
    bound = certified(2 * mechc.load("laplace")(scale=1.0 / a), epsilon, direction="remove")
    assert contains(bound, exact)
    assert bound.upper - bound.lower < 1e-6


def _beside(a, epsilon):
    """One atom at a, the other step in the density: an integral of exponentials, twice."""
    low = epsilon - a  # below it nothing counts
    first = 2.0 * (1.0 - math.exp(-(a - low) / 2.0))
    second = math.exp(epsilon - 1.5 * a) * 2.0 * (math.exp(-low / 2.0) - math.exp(-a / 2.0))
    return 2.0 * 0.5 * 0.25 * (first - second)


def _between(a, epsilon):
    """Both steps in the density: the sum s has density e^(s/2 - a) (2a - s)/16 for s > 0."""
    m = 2.0 * a - epsilon

    def moment(rate):
        """Int over 0 < d < m of d exp(-rate d)."""
        return (1.0 - math.exp(-rate * m) * (1.0 + rate * m)) / rate**2

    return (moment(0.5) - math.exp(epsilon - 2.0 * a) * moment(-0.5)) / 16.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "count"),
    [
        ("student_t", {"nu": 3.0, "scale": 2.0}, 3),
        ("gumbel", {"scale": 2.0}, 2),
        ("cauchy", {"scale": 2.0}, 10),
        ("logistic", {"scale": 2.0}, 2),
        ("skellam", {"rate": 8.0}, 10),
    ],
)
def test_slowly_decaying_characteristic_functions(name, values, count):
    run = count * mechc.load(name)(**values)
    epsilon = 0.9 * run.epsilon(1e-7).upper
    bound, proven = certified(run, epsilon), run.log_delta(epsilon)
    assert bound.upper - bound.lower < 1e-6
    assert proven.lower <= bound.upper and bound.lower <= proven.upper
