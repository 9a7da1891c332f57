"""Mechanisms that dp_accounting has too: its pessimistic answers lie on ours, or just above."""

import math

import pytest

import mechc

theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
STEP = {"value_discretization_interval": 1e-3}
DOTS = {"use_connect_dots": True, **STEP}  # their default for discrete noise rounds losses up
SENSITIVITIES, WEIGHTS = [0.0, 1.0, 2.0, 3.0], [0.4, 0.3, 0.2, 0.1]


def sampled(name, rate, adjacency="add_remove", **parameters):
    return mechc.poisson(mechc.load(name), rate, adjacency=adjacency)(**parameters)


PAIRS = {
    "gaussian, replace": lambda: (
        sampled("gaussian", 0.2, "replace", sigma=1.5),
        theirs.from_gaussian_mechanism(
            1.5, sampling_prob=0.2, neighboring_relation=theirs.NeighborRel.REPLACE_ONE, **STEP
        ),
    ),
    "laplace": lambda: (
        sampled("laplace", 0.3, scale=0.7),
        theirs.from_laplace_mechanism(0.7, sampling_prob=0.3, **STEP),
    ),
    "discrete laplace": lambda: (
        sampled("discrete_laplace", 0.3, a=0.7, sensitivity=2),
        theirs.from_discrete_laplace_mechanism(0.7, sensitivity=2, sampling_prob=0.3, **DOTS),
    ),
    "discrete gaussian": lambda: (
        sampled("discrete_gaussian", 0.3, sigma=1.3, sensitivity=2),
        theirs.from_discrete_gaussian_mechanism(1.3, sensitivity=2, sampling_prob=0.3, **DOTS),
    ),
    "mixture of gaussians": lambda: (
        mechc.load("mixture_of_gaussians")(sigma=1.0, sensitivities=SENSITIVITIES, weights=WEIGHTS),
        theirs.from_mixture_gaussian_mechanism(1.0, SENSITIVITIES, WEIGHTS, **STEP),
    ),
    "randomised response": lambda: (
        mechc.load("randomized_response")(epsilon=math.log(0.68 / 0.08), categories=5),
        theirs.from_randomized_response(0.4, 5, value_discretization_interval=1e-5),
    ),
}


@pytest.mark.few(0, 2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n == "mixture of gaussians" else n for n in PAIRS],
)
def test_dp_accounting_agrees(name):
    event, pld = PAIRS[name]()
    for count, composed in ((1, pld), (7, pld.self_compose(7))):
        for epsilon in (0.0, 0.2, 1.0):
            known = composed.get_delta_for_epsilon(epsilon)
            found = (count * event).delta(epsilon)
            assert found.lower <= known * (1 + 1e-8) + 1e-12
            assert found.upper == pytest.approx(known, rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_moves_of_zero_bound_the_loss_of_adding():
    """N(0) against a mixture that holds it with probability 0.4: the loss is at most log 2.5."""
    event, _ = PAIRS["mixture of gaussians"]()
    top = math.log(2.5)
    assert event.delta(top + 1e-9, direction="add").upper == 0.0
    assert event.delta(0.99 * top, direction="add").lower > 0
    assert event.loss("add").support[1] == pytest.approx(top, rel=1e-15)


def brackets():
    """(name, event, maker of their distribution, its arguments) over many parameters."""
    replace = {"neighboring_relation": theirs.NeighborRel.REPLACE_ONE}
    for rate in (1.0, 0.37, 0.02):
        for scale, moved in ((0.6, 1.0), (3.1, 2.0), (11.0, 0.5)):
            noise = {"sensitivity": moved}
            for name, event, maker, more in (
                ("laplace", sampled("laplace", rate, scale=scale, **noise),
                 theirs.from_laplace_mechanism, {}),
                ("gaussian", sampled("gaussian", rate, sigma=scale, **noise),
                 theirs.from_gaussian_mechanism, {}),
                ("gaussian, replace", sampled("gaussian", rate, "replace", sigma=scale, **noise),
                 theirs.from_gaussian_mechanism, replace),
            ):  # fmt: skip
                yield name, event, maker, scale, {"sampling_prob": rate, **noise, **more}
        for a, moved in ((0.7, 2), (0.13, 1), (1.9, 3)):
            noise = {"sensitivity": moved}
            for name, event, maker, value in (
                ("discrete laplace", sampled("discrete_laplace", rate, a=a, **noise),
                 theirs.from_discrete_laplace_mechanism, a),
                ("discrete gaussian", sampled("discrete_gaussian", rate, sigma=3 * a, **noise),
                 theirs.from_discrete_gaussian_mechanism, 3 * a),
            ):  # fmt: skip
                yield name, event, maker, value, {"sampling_prob": rate, **noise}


@pytest.mark.slow
def test_dp_accounting_from_above_and_from_below():
    """Its optimistic and pessimistic distributions enclose our answers, composed up to 200 times.

    Mixtures of Gaussians are left out: there its optimistic distribution exceeds its pessimistic
    one (0.7217 and 0.7206 for four steps of the mixture above with sigma 0.8, epsilon 0).
    """
    for name, event, maker, value, options in brackets():
        below, above = (
            maker(value, **options, **STEP, pessimistic_estimate=side) for side in (False, True)
        )
        for count in (1, 4, 200):
            low, high = (pld if count == 1 else pld.self_compose(count) for pld in (below, above))
            for epsilon in (0.0, 0.15, 0.6, 1.7, 4.0):
                answer = (count * event).delta(epsilon)
                floor, ceiling = (pld.get_delta_for_epsilon(epsilon) for pld in (low, high))
                room = 1e-11 + 1e-9 * ceiling
                where = (name, value, options, count, epsilon)
                assert answer.lower <= ceiling + room and answer.upper >= floor - room, where
                assert floor - room <= answer.estimate <= ceiling + room, where
