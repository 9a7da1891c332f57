"""Largest losses that are known to the last digit: rational functions of the parameters."""

import copy
import math
import pickle
from fractions import Fraction

import mpmath
import pytest
from sympy import Piecewise, Rational, exp

import mechc
from mechc.composition.inputs import LogDelta
from mechc.declare import mechanism, positive, real
from mechc.loss.infinite_mass import LogMass, agreed

laplace = mechc.load("laplace")
x, t, e = real("x"), positive("t", typical=(1.0, 30.0)), positive("epsilon")


@pytest.mark.parametrize(
    "scales", [[20.0] * 20, [3.0] * 3, [0.1] * 10, [2.0, 4.0, 4.0], [7.3, 0.9]]
)
def test_epsilon_of_laplace_noise_at_delta_zero(scales):
    """The sum of the quotients of doubles, in fractions."""
    exact = sum(1 / Fraction(scale) for scale in scales)
    run = mechc.compose(*(laplace(scale=scale) for scale in scales))
    bound = run.epsilon(0.0)
    assert bound.lower <= exact <= bound.upper
    assert math.nextafter(float(bound.upper), 0.0) < exact
    assert run.delta(float(bound.upper)).upper == 0.0
    below = math.nextafter(float(bound.upper), 0.0) if bound.upper > exact else bound.upper - 1e-12
    assert run.log_delta(float(below)).upper > -math.inf


def test_as_many_releases_as_a_pure_budget_has():
    found = mechc.calibrate(laplace, solve_for="count", scale=4.0, epsilon=1.0, delta=0.0)
    assert found.value == 4


def test_the_log_of_a_number_is_rounded():
    """Uneven halves: the losses are log 2 and its negative, which no double is."""
    half = Rational(1, 2)
    p, q = (Piecewise((a, x < half), (2 - a, True)) for a in (Rational(4, 3), Rational(2, 3)))
    bound = mechc.load(mechanism("halves", variable=x, p=p, q=q, support=(0, 1)))().epsilon(0.0)
    with mpmath.workdps(30):
        assert bound.lower < mpmath.log(2) < bound.upper


@pytest.mark.parametrize("tiny", [0, Rational(1, 10**30)])
def test_what_is_within_half_an_ulp_of_a_parameter_is_none(tiny):
    """A largest loss of epsilon + 1e-30: delta(epsilon) is about 1e-30, and was 0."""
    ratio = exp(e + tiny)
    made = mechanism("response", outcomes=[(ratio / (1 + ratio), 1 / (1 + ratio)),
                                           (1 / (1 + ratio), ratio / (1 + ratio))],
                     parameters=(e,))  # fmt: skip
    event = mechc.load(made)(epsilon=1.0)
    least = float(tiny) * math.e / (1.0 + math.e)
    assert event.delta(1.0).lower <= least <= event.delta(1.0).upper
    assert (event.delta(1.0).upper == 0.0) == (tiny == 0)
    found = event.epsilon(0.0)
    assert (found.lower == found.upper == 1.0) == (tiny == 0) and found.upper >= 1.0


@pytest.mark.parametrize("delta", [1e-6, 1e-12, 2e-17, 1e-100])
def test_deltas_next_to_a_declared_one_are_told_apart(delta):
    """Several doubles have one log: an ulp below the mass at infinity no epsilon will do."""
    event = mechc.load("approximate_dp")(epsilon=1.0, delta=delta)
    exact = event.epsilon(delta)
    assert exact.lower == exact.upper == 1.0
    below = delta
    for _ in range(3):
        below = math.nextafter(below, 0.0)
        assert event.epsilon(below).upper == math.inf
    assert event.epsilon(math.nextafter(delta, 1.0)).upper == 1.0
    assert event.epsilon([below, delta]).upper.tolist() == [math.inf, 1.0]
    assert event.epsilon(log_delta=math.log(delta)).upper == math.inf


def test_a_mass_that_happens_to_be_a_parameter_is_rounded():
    """1 - exp(-t) is t in doubles at 2e-17, and is less; its log is that of many doubles."""
    made = mechanism("seen", variable=x, p=exp(-t) * 2 * x, q=1, parameters=(t,), support=(0, 1),
                     atoms=[(2, 1 - exp(-t), 0)])  # fmt: skip
    event = mechc.load(made)(t=2e-17)
    below = 2e-17
    for _ in range(8):
        below = math.nextafter(below, 0.0)
    assert event.epsilon(below, direction="remove").upper == math.inf


def test_masses_that_contradict_each_other_are_both_in_the_answer():
    """Below 1e-12 a closed form may be right, and quadrature may have missed a mode."""
    found = agreed(math.log(1e-13), LogMass(math.log(1e-20), 1e-12), "masses")
    assert found.log + found.error >= math.log(1e-13)
    assert found.log - found.error <= math.log(1e-20)
    assert agreed(-math.inf, LogMass(-30.0, 1e-12), "masses") == LogMass(-30.0, 1e-12)


def test_logs_of_deltas_are_copied_with_them():
    made = LogDelta(1e-12)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made and (other != made) is False and other.delta == 1e-12
    below = LogDelta(math.nextafter(1e-12, 0.0))
    assert float(below) == float(made) and below != made
