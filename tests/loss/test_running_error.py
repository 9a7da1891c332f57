"""Largest losses that are known to the last digit: rational functions of the parameters."""

import copy
import math
import operator
import pickle
import random
from fractions import Fraction

import mpmath
import pytest
from scipy.special import gammainc
from sympy import Piecewise, Rational, Sum, exp, log, loggamma, oo

import mechc
from mechc.composition.inputs import LogDelta
from mechc.declare import count, integer, mechanism, positive, real
from mechc.kernel.prelude import PRIMITIVES
from mechc.loss.infinite_mass import LogMass, agreed
from mechc.loss.running_error import Computed, computing

laplace = mechc.load("laplace")
x, t, e = real("x"), positive("t", typical=(1.0, 30.0)), positive("epsilon")


@pytest.mark.few(0, 1)
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


FUNCTIONS = {  # with domains of their arguments, and what they are
    "exp": ([(-600, 600)], mpmath.exp), "log": ([(1e-9, 1e9)], mpmath.log),
    "gamma": ([(0.5, 30)], mpmath.gamma), "lgamma": ([(0.5, 1e4)], mpmath.loggamma),
    "sin": ([(-9, 9)], mpmath.sin), "cosh": ([(-1, 1)], mpmath.cosh),
    "log1mexp": ([(-9, -1e-6)], lambda u: mpmath.log(-mpmath.expm1(u))),
    "softplus": ([(-40, 40)], lambda u: mpmath.log1p(mpmath.exp(u))),
    "log_half_erfc": ([(-4, 20)], lambda u: mpmath.log(mpmath.erfc(u) / 2)),
    "log_add": ([(-5, 5)] * 2, lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b))),
    "log1p_power": ([(0.1, 9), (-5, 5), (0.1, 9)], lambda c, b, d: mpmath.log1p(c * (b / d) ** 2)),
    "mix": ([(1e-6, 1), (-5, 5)], lambda q, d: 1 + q * mpmath.expm1(d)),
    "log_sum": ([(1e-6, 1), (-5, 5)] * 2,
                lambda v, a, w, b: mpmath.log(v * mpmath.exp(a) + w * mpmath.exp(b))),
    "tan": ([(-9, 9)], mpmath.tan),
    "log_binomial": ([(2, 1e7), (0, 2)], lambda n, k: mpmath.log(mpmath.binomial(n, k))),
    "lgamma_difference": ([(0.1, 50), (1e-3, 50)],
                          lambda a, h: mpmath.loggamma(a + h) - mpmath.loggamma(a)),
    "add": ([(-3, 3)] * 2, operator.add), "sub": ([(-3, 3)] * 2, operator.sub),
    "mul": ([(-1e-160, 1e-160)] * 2, operator.mul), "truediv": ([(-3, 3)] * 2, operator.truediv),
}  # fmt: skip

FURTHER = {"log1p_power": (2.0,)}  # arguments that are as they stand


@pytest.mark.parametrize("name", FUNCTIONS)
def test_running_errors_are_bounds(name):
    """In first order they were not: of large errors, where functions turn, of all arguments."""
    domains, exactly = FUNCTIONS[name]
    draw = random.Random(name)
    plain = PRIMITIVES[name].function if name in PRIMITIVES else getattr(math, name, None)
    made = computing(plain) if plain else getattr(operator, name)
    for _ in range(150):
        at = [draw.uniform(*ends) for ends in domains]
        errors = [
            min(abs(x) * 10 ** draw.uniform(-17, -0.5), x - low, high - x)
            for x, (low, high) in zip(at, domains, strict=True)
        ]
        found = made(*map(Computed, at, errors), *FURTHER.get(name, ()))
        with mpmath.workdps(60):
            for side in (-1, 1, draw.uniform(-1, 1)):
                moves = [draw.choice((-1, 1)) * side * mpmath.mpf(error) for error in errors]
                truth = exactly(*(mpmath.mpf(x) + move for x, move in zip(at, moves, strict=True)))
                assert not abs(truth - mpmath.mpf(float(found))) > found.error


NEAR_ZERO = {  # of logs, where no relative error is small; and where a factor is large
    "lgamma": ((2.0000000000000004,), mpmath.loggamma),
    "log_erf_gap": ((1.567982264508951, 1.5679904266612026),
                    lambda u, h: mpmath.log(mpmath.erf(u + h) - mpmath.erf(u - h))),
    "log_besselk_scaled": ((1.2412932242671437, 2.448872303460999),
                           lambda n, z: mpmath.log(mpmath.exp(z) * mpmath.besselk(n, z))),
    "log_erfcx": ((-7e-18,), lambda x: mpmath.log(mpmath.exp(x * x) * mpmath.erfc(x))),
    "log_sinh": ((0.881373587019543,), lambda x: mpmath.log(mpmath.sinh(x))),
    "log_add": ((-0.6931471805599456, -0.6931471805599451), FUNCTIONS["log_add"][1]),
    "log_sum": ((0.3, 9.27337809215877e-09, 0.7, -3.5162757841186162e-09),
                FUNCTIONS["log_sum"][1]),
    "power": ((0.7, 1900.3, math.log(0.7)), lambda b, a, log_b: mpmath.exp(a * log_b)),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR_ZERO)
def test_running_errors_where_logs_are_nothing(name):
    at, exactly = NEAR_ZERO[name]
    plain = PRIMITIVES[name].function if name in PRIMITIVES else getattr(math, name)
    found = computing(plain)(*map(Computed, at))
    with mpmath.workdps(60):
        apart = abs(exactly(*map(mpmath.mpf, at)) - mpmath.mpf(float(found)))
    assert apart <= found.error <= 1e-12


@pytest.mark.slow
def test_series_are_as_wrong_as_their_terms():
    """Terms exp(-r + k log r - ...) lose seven digits: delta was 24 % short at r = 3e6."""
    r, last, k = positive("r", typical=(1.0, 50.0)), count("last", typical=(1, 60)), integer("k")
    tail = 1 - Sum(exp(-r + k * log(r) - loggamma(k + 1)), (k, 0, last))
    made = mechc.load(mechanism("rare", outcomes=[(tail, 0), (1 - tail, 1)], parameters=(r, last)))
    for at, end in ((30.0, 60), (3e6, 3010000)):
        found = made(r=at, last=end).log_delta(1.0, direction="remove")
        truth = math.log(gammainc(end + 1, at))
        assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper


@pytest.mark.slow
@pytest.mark.parametrize("rate", [30.0, 3e4, 3e6])
def test_a_sum_of_two_series_has_both_modes(rate):
    """Beside terms that fall a mode at 3e6 was stepped over: a mass of 1/4 was 1/8."""
    r, k, half = positive("r", typical=(1.0, 50.0)), integer("k"), Rational(1, 2)
    counts, falling = exp(-r + k * log(r) - loggamma(k + 1)), exp(-k) * (1 - exp(-1))
    mass = Sum(counts / 2 + falling / 2, (k, 0, oo)) / 4
    made = mechc.load(mechanism("both", outcomes=[(mass, half), (1 - mass, half)], parameters=(r,)))
    found = made(r=rate).delta(0.0, direction="remove")
    assert found.lower <= 0.25 <= found.upper <= found.lower + 1e-6


@pytest.mark.parametrize("centre", [14128.844401852846, 132582.6520662402])
def test_series_over_all_integers_are_as_wrong_as_their_terms(centre):
    """Of exponents as large as centre^2 / 2 seven digits are left, and eleven were claimed."""
    c, k = positive("c", typical=(0.5, 5.0)), integer("k")
    mass = Sum(exp(-(k**2) / 2 + c * k - c**2 / 2), (k, -oo, oo)) / 4
    half = Rational(1, 2)
    made = mechc.load(mechanism("wide", outcomes=[(mass, half), (1 - mass, half)], parameters=(c,)))
    near = round(centre)
    truth = math.fsum(math.exp(-((k - centre) ** 2) / 2) for k in range(near - 20, near + 20)) / 4
    found = made(c=centre).delta(0.0, direction="remove")
    assert found.lower <= truth - 0.5 <= found.upper <= found.lower + 1e-4


@pytest.mark.parametrize("name", ["log", "sqrt", "lgamma", "gamma"])
def test_a_number_of_which_nothing_is_known(name):
    """Past zero functions are complex, and were taken to be as near as their moduli tell."""
    function, near = getattr(math, name), 1e-12
    assert computing(function)(Computed(near, 1e-11)).error == math.inf
