"""Mechanisms that several tests of the application use, compiled once a session."""

import pytest

import mechc


@pytest.fixture(scope="session")
def gaussian():
    return mechc.load("gaussian")


@pytest.fixture(scope="session")
def laplace():
    return mechc.load("laplace")


@pytest.fixture(scope="session")
def sampled_gaussian(gaussian):
    """Poisson-subsampled Gaussian with sampling rate and sigma open."""
    return mechc.poisson(gaussian)
