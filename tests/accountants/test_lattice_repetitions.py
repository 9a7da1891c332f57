"""Epsilon for many counts on a lattice, against exact binomial sums and single answers."""

import math
from dataclasses import replace

import numpy as np
import pytest

import mechc
from mechc.accountants.contour import common_lattice
from mechc.accountants.repetitions import Sweep
from mechc.composition.tables import NumericEvent


def binomial_log_delta(n, a, epsilon):
    """Log delta of n steps with loss a or -a, the former with probability e^a / (1 + e^a)."""
    q = 1.0 / (1.0 + math.exp(-a))
    logs = []
    for k in range(n + 1):
        loss = (2 * k - n) * a
        if loss > epsilon:
            ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
            size = ways + k * math.log(q) + (n - k) * math.log1p(-q)
            logs.append(size + math.log(-math.expm1(epsilon - loss)))
    return float(np.logaddexp.reduce(logs)) if logs else -math.inf


@pytest.mark.parametrize("a, log_delta", [(0.03, -14.0), (0.7, -3.0), (2.5, -90.0)])
def test_repetitions_bracket_binomial_sums(a, log_delta):
    event = mechc.load("discrete_laplace")(a=a)
    curve = event.epsilon_curve(math.exp(log_delta), range(1, 1001))
    assert curve.detail["one_by_one"] == []
    assert ((curve.upper - curve.lower) <= 1e-9 * curve.upper).all()
    for n in (1, 2, 7, 30, 31, 100, 333, 1000):
        low, high = float(curve.lower[n - 1]), float(curve.upper[n - 1])
        assert binomial_log_delta(n, a, high) <= log_delta + 1e-11
        assert binomial_log_delta(n, a, low) >= log_delta - 1e-11
        assert binomial_log_delta(n, a, high * (1 - 1e-8)) > log_delta


@pytest.mark.parametrize(
    "name, parameters, rate",
    [
        ("randomized_response", {"epsilon": 0.4, "categories": 5}, None),
        ("discrete_gaussian", {"sigma": 6.0}, None),
        ("staircase", {"epsilon": 0.3, "gamma": 0.4}, None),
        ("approximate_dp", {"epsilon": 0.1, "delta": 1e-11}, None),
        ("discrete_laplace", {"a": 0.6}, 0.02),
    ],
)
def test_curve_agrees_with_single_answers(name, parameters, rate):
    mechanism = mechc.load(name)
    mechanism = mechanism if rate is None else mechc.poisson(mechanism, sampling_rate=rate)
    event = mechanism(**parameters)
    curve = event.epsilon_curve(1e-7, range(1, 2001))
    assert curve.detail["one_by_one"] == [] and (curve.lower <= curve.upper).all()
    for n in (1, 3, 12, 40, 500, 2000):
        single = (n * event).epsilon(1e-7)
        assert curve.lower[n - 1] <= single.upper and single.lower <= curve.upper[n - 1]
        assert curve.upper[n - 1] - curve.lower[n - 1] <= 1e-8 * single.upper


def test_several_steps_of_one_lattice_are_repeated_together():
    run = 3 * mechc.load("pure_dp")(epsilon=0.1) + 2 * mechc.load("pure_dp")(epsilon=0.2)
    counts = [1, 2, 5, 60, 700]
    curve = run.epsilon_curve(1e-6, counts)
    assert curve.detail["one_by_one"] == []
    for n, low, high in zip(counts, curve.lower, curve.upper, strict=True):
        single = (n * run).epsilon(1e-6)
        assert low <= single.upper and single.lower <= high <= single.upper * (1 + 1e-8)


def test_an_epsilon_that_is_known_to_do_is_returned():
    steps = mechc.load("discrete_laplace")(a=0.1).composition().steps("remove")
    counts = np.array([100.0, 150.0, 200.0])
    sweep = Sweep(steps, common_lattice(steps), -11.0, 1e-6)
    middle = sweep.epsilons(counts, np.full(3, np.nan))[1]
    lower, _, upper = sweep.epsilons(counts, middle + np.array([0.2, -0.2, 1e-3]))
    assert upper == pytest.approx(middle + np.array([0.2, 0.0, 1e-3]), rel=1e-10)
    assert (lower[0], lower[2]) == (0.0, 0.0) and lower[1] == pytest.approx(middle[1], rel=1e-10)


def test_what_losses_may_be_off_moves_answers_for_many_counts():
    """Losses that are all d more, or less, move epsilon after n steps by nd."""
    event = mechc.post_process(mechc.load("gaussian")(sigma=3.0), [0.5])
    laws = [replace(event.loss(d), loss_error=1e-6) for d in ("remove", "add")]
    plain, off = (
        e.epsilon_curve(1e-6, range(400, 412))
        for e in (event, NumericEvent(event.mechanism, *laws))
    )
    moved = 1e-6 * np.arange(400, 412)
    assert (off.lower <= plain.upper - moved).all()
    assert (off.upper >= plain.lower + moved).all()
