"""The common step of several discretised losses."""

import math

import numpy as np
import pytest

from mechc.accountants.pld import align


def misses(mesh, losses, index=0):
    """How far losses are above their mesh point, as a share of the step."""
    share = (np.asarray(losses) - mesh.offsets[index]) / mesh.step
    return share - np.floor(share + 1e-6)


def test_two_atoms_are_on_the_mesh():
    losses = np.array([0.731, -0.2])
    mesh = align([(losses, np.array([3.0, 1.0]))], [0.731], 1e-3, 0.0)
    assert 1e-3 <= mesh.step <= 1.25e-3
    assert misses(mesh, losses) == pytest.approx(0.0, abs=1e-6)


def test_three_atoms_are_nearly_on_the_mesh():
    losses = np.array([0.731, -0.2, 0.0137])
    mesh = align([(losses, np.ones(3))], [0.731], 1e-4, 0.0)
    assert misses(mesh, losses).max() < 3e-3
    assert mesh.miss < 3e-3 * mesh.step


def test_commensurate_laws_share_a_mesh():
    """Laplace noise at scales 20 and 10: jumps of .1 and .2."""
    laws = [(np.array([0.05, -0.05]), np.ones(2)), (np.array([0.1, -0.1]), np.ones(2))]
    mesh = align(laws, [0.05, 0.1], 3e-4, 0.0)
    for index, (losses, _) in enumerate(laws):
        assert misses(mesh, losses, index) == pytest.approx(0.0, abs=1e-6)


def test_no_atoms_take_the_smallest_step():
    none = (np.empty(0), np.empty(0))
    mesh = align([none, none], [math.inf, 0.3], 0.01, 1.0)
    assert mesh.step == 0.01
    # the largest loss is half a step above a point
    assert (0.3 - mesh.offsets[1]) / 0.01 % 1.0 == pytest.approx(0.5)


def test_atoms_closer_than_the_step_are_left_alone():
    mesh = align([(np.array([0.0, 1e-3]), np.ones(2))], [1e-3], 0.1, 1.0)
    assert mesh.step == 0.1
    assert mesh.offsets[0] == 0.0
