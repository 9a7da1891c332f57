"""The tests that dp_accounting ships for its own mechanisms, asked of ours."""

import unittest
from functools import cache

import numpy as np
import pytest
from sympy import Add, exp

import mechc
from mechc.declare import additive, count, integer, positive

suite = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism_test")
theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")

DIRECTIONS = {"ADD": "add", "REMOVE": "remove", "REPLACE": "both"}


def noise(name, parameter):
    def event(value, sensitivity=1, sampling_prob=1.0, adjacency="add_remove"):
        mechanism = mechc.load(name)
        if sampling_prob < 1 or adjacency == "replace":
            mechanism = mechc.poisson(mechanism, sampling_prob, adjacency=adjacency)
        return mechanism(**{parameter: value}, sensitivity=sensitivity)

    return event


def cut_discrete_gaussian(
    sigma, sensitivity=1, sampling_prob=1.0, truncation_bound=None, adjacency=""
):
    mechanism = mechc.load(_cut_discrete_gaussian(truncation_bound))
    if sampling_prob < 1:
        mechanism = mechc.poisson(mechanism, sampling_prob)
    return mechanism(sigma=sigma, sensitivity=sensitivity)


@cache
def _cut_discrete_gaussian(bound):
    """Theirs ends at a bound; ours does not, so it is declared here."""
    n, sigma, moves = integer("n"), positive("sigma"), count("sensitivity", default=1)
    mass = [exp(-(k**2) / (2 * sigma**2)) for k in range(-bound, bound + 1)]
    return additive(
        "cut_discrete_gaussian", noise=exp(-(n**2) / (2 * sigma**2)) / Add(*mass), variable=n,
        support=(-bound, bound), sensitivity=moves, parameters=(sigma, moves), lattice=True,
    )  # fmt: skip


def mixture(sigma, sensitivities, sampling_probs, adjacency=""):
    return mechc.load("mixture_of_gaussians")(
        sigma=sigma, sensitivities=list(sensitivities), weights=list(sampling_probs)
    )


EVENTS = {
    "LaplacePrivacyLoss": (noise("laplace", "scale"), suite.LaplacePrivacyLossTest),
    "DiscreteLaplacePrivacyLoss": (
        noise("discrete_laplace", "a"), suite.DiscreteLaplacePrivacyLossDistributionTest),
    "GaussianPrivacyLoss": (noise("gaussian", "sigma"), suite.GaussianPrivacyLossTest),
    "DiscreteGaussianPrivacyLoss": (cut_discrete_gaussian, suite.DiscreteGaussianPrivacyLossTest),
    "MixtureGaussianPrivacyLoss": (mixture, suite.MixtureGaussianPrivacyLossTest),
}  # fmt: skip
QUICK = ("LaplacePrivacyLoss",)


def stand_in(made, known):
    """A class that answers like theirs, with our own upper bounds."""

    class StandIn:
        def __init__(self, *args, adjacency_type, **keywords):
            if adjacency_type.name == "REPLACE":
                keywords["adjacency"] = "replace"
            self.event = made(*args, **keywords)
            self.direction = DIRECTIONS[adjacency_type.name]

        def get_delta_for_epsilon(self, epsilon):
            known.append(self.event.delta(epsilon, direction=self.direction))
            return known[-1].upper

    return StandIn


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in EVENTS]
)
def test_their_expected_deltas(name, monkeypatch):
    made, cases = EVENTS[name]
    known = []
    monkeypatch.setattr(theirs, name, stand_in(made, known))
    loaded = unittest.TestLoader().loadTestsFromTestCase(cases)
    asked = [case for case in loaded if "_for_epsilon" in case._testMethodName
             and "not_supported" not in case._testMethodName]  # fmt: skip
    result = unittest.TextTestRunner(verbosity=0).run(unittest.TestSuite(asked))
    assert result.testsRun == len(known) >= 12
    failed = [text for _, text in (*result.failures, *result.errors)]
    assert not failed, failed[0]
    assert all(np.all(answer.upper - answer.lower < 1e-9) for answer in known)
