"""Bounds on the characteristic function at high frequencies against its enclosures."""

import itertools
import math

import pytest

import mechc

flint = pytest.importorskip("flint")
ball = pytest.importorskip("mechc.verify.balls.oracle")
decay = pytest.importorskip("mechc.verify.certified.decay")
pytestmark = pytest.mark.oracle
acb, arb, ctx = flint.acb, flint.arb, flint.ctx

PAIRS = [
    ("student_t", {"nu": 3.0, "scale": 2.0}),  # extrema of the loss at -3 and 4, on a grid
    pytest.param("student_t", {"nu": 1.37, "scale": 0.8}, marks=pytest.mark.slow),
    pytest.param("cauchy", {"scale": 2.3}, marks=pytest.mark.slow),
    pytest.param("logistic", {"scale": 1.7}, marks=pytest.mark.slow),
    ("gaussian", {"sigma": 1.3}),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("name", "values"), PAIRS)
def test_bounds_hold_and_fall(name, values):
    mechanism = mechc.load(name)(**values)
    declaration = mechanism.mechanism.declaration
    oracle = ball.Oracle(declaration, mechanism.theta)
    c = arb(0.75)
    bounds = decay.decays(oracle, decay.Powers(c))
    with ctx.workprec(decay.BITS):
        size = oracle.moment(acb(c)).real
        for y in (0.3, 4.0, 37.0, 256.0):
            exact = abs(oracle.moment(acb(c, arb(y))))
            best = min((bound.at(arb(y)) for bound in bounds), key=float)
            assert not exact > best
            assert exact.rad() < best
        far = min(float(bound.at(arb(1e6)).upper()) for bound in bounds)
    assert far < 0.05 * float(size)


def variation_of_a_bell(boxes):
    with ctx.workprec(decay.BITS):
        return decay.total_variation(
            lambda x: (-x * x / 2).exp(), lambda box: -box.real, arb(-3), arb(5), boxes
        )


def test_total_variation_of_a_bell():
    exact = 2.0 - math.exp(-4.5) - math.exp(-12.5)
    assert exact <= float(variation_of_a_bell(iter(range(1000)))) <= 1.02 * exact


def test_boxes_are_shared_by_all_proofs():
    boxes = iter(range(40))
    with pytest.raises(mechc.errors.MechcError):
        for _ in range(40):
            variation_of_a_bell(boxes)
    assert not list(boxes)


def test_total_variation_beside_a_pole_is_refused():
    with ctx.workprec(decay.BITS), pytest.raises(mechc.errors.MechcError):
        decay.total_variation(
            lambda x: 1 / x, lambda box: -1 / box.real, arb(-1), arb(2), iter(range(1000))
        )


def test_neighbourhoods_of_extrema_have_no_part_in_common():
    """A slope whose sign is noise next to its zero: what is covered twice would not be left."""

    def slope(x, analytic):
        return x + arb((-1.0) ** round(float(x) * 1e4) * 0.02, 0.03)

    found = decay.stretches(slope, lambda x, analytic: arb(1), -1.0, 1.0)
    assert any(critical for *_, critical in found)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))
