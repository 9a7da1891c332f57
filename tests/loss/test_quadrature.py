"""Nodes resolve every tilt and frequency asked for."""

import cmath
import math

import numpy as np
import pytest

import mechc
from mechc.loss.atoms import mirrored
from mechc.loss.quadrature import mass_and_error


@pytest.mark.parametrize("sigma", [1e-3, 0.01, 0.05, 0.3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("tilt", [1e-6, 0.5, 3.0])
def test_generating_function_of_a_gaussian(sigma, tilt):
    law = mechc.load("gaussian")(sigma=sigma).loss()
    k, mean, variance, rounding = law.generating(tilt)
    exact = tilt * (tilt + 1.0) / (2.0 * sigma**2)
    assert abs(k - exact) <= rounding + 1e-12 * exact
    assert rounding <= 1e-10 * exact + 1e-12
    assert mean == pytest.approx((2 * tilt + 1) / (2 * sigma**2), rel=1e-11)
    assert variance == pytest.approx(sigma**-2, rel=1e-9)  # x near 4 is known to 4e-16
    # rounding of the nodes counts in units of sigma, seen from the origin
    assert law.covering(-1.0, tilt).tolerance < 4e-15 * (1.0 + 20.0 * (1.0 + tilt) / sigma)


@pytest.mark.parametrize("frequency", [1.0, 20.0, 300.0])
def test_waves_on_a_contour(frequency):
    sigma, c = 40.0, 0.7
    law = mechc.load("gaussian")(sigma=sigma).loss().covering(-1.0, c, c, frequency)
    z = complex(c, frequency)
    loss, log_weight = law.nodes()
    found = complex(np.sum(np.exp(log_weight + z * loss)))
    assert abs(found - cmath.exp(z * (z + 1) / (2 * sigma**2))) < 1e-12


def test_heavy_tails_and_cusps_have_mass_one():
    for event in (
        mechc.load("cauchy")(scale=1e-3),
        mechc.load("student_t")(nu=0.3, scale=1.0),
        mechc.load("subbotin")(beta=0.5, scale=1.0),
    ):
        loss, log_weight = event.loss().nodes()
        assert np.exp(log_weight).sum() == pytest.approx(1.0, abs=1e-9)
        assert np.exp(log_weight - loss).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("halfwidth", "sensitivity"), [(0.0788, 277.15), (0.3, 5000.1), (9.0, 1.0)]
)
def test_masses_far_from_the_origin_know_their_rounding(halfwidth, sensitivity):
    """Of a density that vanishes at its ends, so that rounded ends alone would tell nothing."""
    kernel = mechc.load("raised_cosine").kernel
    theta, (lo, hi) = np.array([halfwidth, sensitivity]), (-halfwidth, halfwidth)
    log_mass, error = mass_and_error(kernel, theta, sensitivity + lo, sensitivity + hi, "p")
    assert abs(math.expm1(log_mass)) <= error < 1e-15 * (20.0 + 20.0 * sensitivity / halfwidth)


@pytest.mark.parametrize("tilt", [0.0, 1.6e-17, 3e-16, 0.1, 0.3, 7.7, 1e5])
def test_no_tilt_is_lost_on_the_way_to_the_other_direction_and_back(tilt):
    low, high = mirrored(-1.0 - tilt, tilt)
    assert -1.0 - low >= tilt and -1.0 - high <= -1.0 - tilt
    assert low >= -1.0 - tilt - 4e-16 * (1.0 + tilt)
    assert mirrored(-1.0, 0.0) == (-1.0, 0.0)


def test_no_panels_at_all_are_cut_into_none():
    """Where the continuous part of a step has no mass that matters at a tilt."""
    panels = mechc.load("gaussian")(sigma=2.0).loss().source.panels
    none = panels.among(np.zeros(panels.lo.size, np.bool_))
    assert none.cut(np.ones(0, np.int64)).lo.size == 0


def test_a_contour_takes_nothing_off_the_error_at_other_tilts():
    """Next to one, nodes of a law that is 1e-3 wide are rounded: the more, the larger the tilt."""
    law = mechc.load("gaussian")(sigma=1e-3).loss()
    wide = law.covering(-1.0, 3.0)
    wave = wide.covering(-1.0, 3.0, 0.01, 1.0)
    again = law.covering(-1.0, 3.0)
    assert again.tolerance == wide.tolerance > 2.0 * wave.tolerance
