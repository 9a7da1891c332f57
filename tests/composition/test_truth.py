"""Every value of tests/corpus/truth.json lies inside the proven interval."""

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest

import mechc

CORPUS = json.loads((Path(__file__).parents[1] / "corpus" / "truth.json").read_text("utf-8"))
VALUES = {value["id"]: value for value in CORPUS["values"]}


def sampled(name, rate, **parameters):
    return mechc.poisson(mechc.load(name), sampling_rate=rate)(**parameters)


def heterogeneous():
    return mechc.compose(
        (sampled("gaussian", 0.01, sigma=1.5), 2000),
        (mechc.load("gaussian")(sigma=30.0), 50),
        (mechc.load("discrete_laplace")(a=0.05), 20),
    )


def subset():
    """A clipping norm of 1 moves the sum by up to 2 when a record is replaced."""
    return mechc.without_replacement(mechc.load("gaussian"), 0.1)(sigma=1.0, sensitivity=2.0)


EVENTS = {
    "G1": lambda: mechc.load("gaussian")(sigma=1.0),
    "G3": lambda: mechc.load("gaussian")(sigma=20.0),
    "L1": lambda: mechc.load("laplace")(scale=1.0),
    "L2": lambda: mechc.load("laplace")(scale=10.0),
    "Lg2": lambda: mechc.load("logistic")(scale=1.0),
    "DL1": lambda: mechc.load("discrete_laplace")(a=0.5),
    "DG1": lambda: mechc.load("discrete_gaussian")(sigma=2.0),
    "RR1": lambda: mechc.load("randomized_response")(epsilon=0.5, categories=4),
    "KOV1": lambda: mechc.load("approximate_dp")(epsilon=0.1, delta=1e-6),
    "U1": lambda: mechc.load("uniform")(halfwidth=10.0),
    "T1_1": lambda: mechc.load("cauchy")(scale=1.0),
    "T1_2": lambda: mechc.load("cauchy")(scale=1.0),
    "B4_1": lambda: mechc.load("subbotin")(beta=4.0, scale=1.0),
    "SG2_rem_0.5": lambda: sampled("gaussian", 0.1, sigma=1.0),
    "SG2_add_0.1": lambda: sampled("gaussian", 0.1, sigma=1.0),
    "SGK_rem": lambda: sampled("gaussian", 0.01, sigma=1.5),
    "SGK_add": lambda: sampled("gaussian", 0.01, sigma=1.5),
    "SGS1_rem": lambda: sampled("gaussian", 0.01, sigma=2.0),
    "SGS3_rem": lambda: sampled("gaussian", 0.01, sigma=2.0),
    "SL_0.1_1_10_rem": lambda: sampled("laplace", 0.1, scale=1.0),
    "SL_0.1_1_10_add": lambda: sampled("laplace", 0.1, scale=1.0),
    "SL_0.5_0.5_2_rem": lambda: sampled("laplace", 0.5, scale=2.0),
    "SL_0.5_0.5_2_add": lambda: sampled("laplace", 0.5, scale=2.0),
    "HET1": heterogeneous,
    "S1": lambda: mechc.load("hyperbolic_secant")(scale=1.0),
    "SK1": lambda: mechc.load("skellam")(rate=8.0),
    "TL1": lambda: mechc.load("truncated_laplace")(scale=1.0, halfwidth=8.0),
    "STS_rem": lambda: sampled("staircase", 0.2, epsilon=0.2, gamma=1 / (1 + math.exp(0.1))),
    "SH1": lambda: mechc.load("shuffle")(users=200, epsilon=1.0),
    "WOR1": subset,
    "WOR150": subset,
    "MoG1": lambda: mechc.load("mixture_of_gaussians")(
        sigma=1.5, sensitivities=(0, 1, 2), weights=(0.5, 0.3, 0.2)
    ),
}

# atoms beside a density, or too few steps for the contour's series: bounded, more widely
WIDE = {"L2", "T1_2", "SG2_rem_0.5", "SG2_add_0.1", "HET1", *(n for n in EVENTS if n[:3] == "SL_")}
LATTICE = {"DL1", "DG1", "RR1", "KOV1", "U1"}


@pytest.mark.few(0, 5, 11, 16, 23, 30)
@pytest.mark.parametrize("name", EVENTS)
def test_truth_lies_inside(name):
    value = VALUES[name]
    count = 1 if name == "HET1" else int(value["k"])
    direction = value["adjacency"] if value["adjacency"] in ("remove", "add") else "both"
    answer = (count * EVENTS[name]()).delta(float(value["eps"]), direction=direction)
    truth = Decimal(value["delta"])
    assert Decimal(answer.lower) <= truth <= Decimal(answer.upper)
    error = abs(float(Decimal(answer.estimate) / truth - 1))
    assert error <= (1e-12 if name in LATTICE else 1e-5 if name in WIDE else 1e-10)
    assert answer.status.startswith("proven")


def test_every_value_is_used():
    assert set(VALUES) == set(EVENTS)


@pytest.mark.parametrize("name", ["G1", "SGK_rem", "SGS3_rem", "RR1"])
def test_epsilon_inverts_delta(name):
    value = VALUES[name]
    direction = value["adjacency"] if value["adjacency"] == "remove" else "both"
    run = int(value["k"]) * EVENTS[name]()
    answer = run.epsilon(float(value["delta"]), direction=direction)
    # delta is known to more digits than a double holds; slack for the rounding of the target
    slack = 1e-9 if name == "G1" else 1e-12
    assert answer.lower <= float(value["eps"]) + slack
    assert float(value["eps"]) - slack <= answer.upper
    assert math.isclose(answer.estimate, float(value["eps"]), rel_tol=1e-8)
