"""Bounds on exp(-u^2)/erfc(u) for whole ranges, and the masses and strips they give."""

from __future__ import annotations

import mpmath
import pytest

import mechc

pytest.importorskip("flint")


@pytest.mark.parametrize(("slope", "shift"), [(0.3, 1.0), (2.0, -1.0), (-1.5, 2.0)])
def test_rate_encloses_all_values_beyond_the_start(slope: float, shift: float) -> None:
    from flint import arb
    from sympy import Rational, Symbol

    from mechc.verify.balls.infinity import AtInfinity, erfc_rate

    y = Symbol("y", positive=True)
    order = AtInfinity(y, arb(12)).order(erfc_rate(Rational(slope) * y + Rational(shift)))
    for at in (12.0, 15.0, 40.0):
        u = slope * mpmath.mpf(at) + shift
        exact = mpmath.exp(-u * u) / mpmath.erfc(u)
        bound = order.f * arb(at) ** int(order.a)
        assert float(bound.lower()) <= exact <= float(bound.upper())


def test_masses_and_strip_through_erfc() -> None:
    from mechc.verify.balls.oracle import Oracle

    declaration = mechc.load("exponentially_modified_gaussian").declaration
    oracle = Oracle(declaration, (2.0, 0.5, 0.5))
    assert oracle.mass("p").overlaps(oracle.mass("q"))
    assert abs(oracle.mass("q") - 1) < 1e-10
    assert oracle.is_bounded(16.0)


def test_a_moment_that_diverges_is_not_called_finite() -> None:
    from mechc.errors import MechcError
    from mechc.verify.balls.oracle import Oracle

    oracle = Oracle(mechc.load("gaussian_scale").declaration, (2.0, 0.5))
    assert oracle.is_bounded(0.05)
    with pytest.raises(MechcError):
        oracle.is_bounded(1.0)
