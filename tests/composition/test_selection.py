"""The best of a random number of runs, against exact divergences and closed forms."""

import math
import pickle

import pytest
from scipy import integrate
from scipy.special import ndtr

import mechc
from mechc.errors import DeclarationError, UnsupportedError


def exact(distance, order, slope, none=0.0):
    """D of the best by the output itself, Gaussian noise; `slope` is that of g(u) = E u^K."""

    def inside(x):
        p, q = (-0.5 * (x - m) ** 2 for m in (distance, 0.0))
        up, down = p + math.log(slope(ndtr(x - distance))), q + math.log(slope(ndtr(x)))
        return math.exp(order * up + (1 - order) * down) / math.sqrt(2 * math.pi)

    far = 12 + order * abs(distance)
    total = integrate.quad(inside, -far, far, limit=200)[0] + none
    return math.log(total) / (order - 1)


@pytest.mark.few(0, 3)
@pytest.mark.parametrize("distance", [0.1, 1.0, -1.0])
@pytest.mark.parametrize("order", [1.5, 8.0])
def test_exact_divergences_are_not_above(distance, order):
    run = mechc.load("gaussian")(sigma=1 / abs(distance))
    geometric = exact(distance, order, lambda u: 0.1 / (1 - 0.9 * u) ** 2)
    poisson = exact(distance, order, lambda u: 10 * math.exp(10 * (u - 1)), math.exp(-10))
    for shape, value in ((1.0, geometric), (math.inf, poisson)):
        bound = mechc.repeat_and_select(run, mean=10, shape=shape).renyi(order)
        assert math.isnan(bound.lower)
        assert value <= bound.upper


@pytest.mark.parametrize(("rho", "mean"), [(0.02, 10.0), (0.5, 4.0)])
def test_zcdp_by_its_closed_form(rho, mean):
    """Papernot and Steinke 2022, Corollary 4, for the geometric law."""
    event = mechc.repeat_and_select(mechc.zcdp(rho), mean=mean, shape=1.0)
    turn = math.sqrt(math.log(mean) / rho)
    rest = 4 * math.sqrt(rho * math.log(mean)) - rho
    for tilt in (0.5 * turn, 2 * turn):
        at = max(tilt, turn)
        value = rho * at + math.log(mean) / at + rest
        assert event.renyi(1 + tilt).upper == pytest.approx(value, rel=1e-8)


def test_composed_kept_and_refused(tmp_path):
    step = mechc.load("laplace")(scale=2.0)
    event = mechc.repeat_and_select(2 * step + mechc.zcdp(0.01), mean=3, shape=0)
    run = 2 * event + step
    upper = run.epsilon(1e-6).upper
    assert event.epsilon(1e-6).upper < upper < math.inf
    assert "Papernot" in str(run.claims)
    run.save(tmp_path / "run.json", delta=1e-6)
    assert mechc.open(tmp_path / "run.json").epsilon(1e-6).upper == upper
    assert pickle.loads(pickle.dumps(event)) == event
    for words in ({"mean": 0.5, "shape": 1}, {"mean": 2, "shape": -1}, {"mean": "2", "shape": 1}):
        with pytest.raises(DeclarationError, match="repeat_and_select"):
            mechc.repeat_and_select(step, **words)
    with pytest.raises(UnsupportedError, match="no Rényi divergence"):
        mechc.repeat_and_select(mechc.load("approximate_dp")(epsilon=1, delta=0.1), mean=2, shape=1)


def test_groups_and_sensitivities_of_a_run_are_kept():
    laplace = mechc.load("laplace")
    grouped = mechc.repeat_and_select(
        mechc.group(laplace, 5)(scale=9.0, sensitivity=1.0), mean=3, shape=1.0
    )
    assert grouped.claim.group == "5"
    with pytest.raises(DeclarationError, match=r"differ in 1 record.* 5"):
        grouped + mechc.poisson(laplace, 0.1)(scale=9.0, sensitivity=1.0)
    plain = mechc.repeat_and_select(laplace(scale=9.0), mean=3, shape=1.0)
    with pytest.raises(DeclarationError, match="default sensitivity"):
        plain + mechc.load("randomized_response")(epsilon=1.0)
