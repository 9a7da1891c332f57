"""Staircases, histograms and long lists of outcomes, against sums over pieces found here."""

import dataclasses
import math
import random
from itertools import pairwise

import numpy as np
import pytest
from sympy import Abs, Piecewise, Rational, binomial, exp

import mechc
from mechc.calculus.transform.listed import listed
from mechc.declare import additive, mechanism, parameter, positive, rate, real, shape
from mechc.errors import DeclarationError, MechcError

x = real("x")
epsilon, d = positive("epsilon", typical=(0.1, 3)), positive("sensitivity", default=1)
share = parameter("share", 0, 1, typical=(0.1, 0.9))
p = rate("p", typical=(0.2, 0.8))


def staircase(steps, width=share):
    """Steps of equal width that fall by the same factor, the first one narrower."""
    arms, mass = [], 0
    for k in range(steps):
        arms += [(exp(-k * epsilon), Abs(x) < (k + width) * d),
                 (exp(-(k + 1) * epsilon), Abs(x) < (k + 1) * d)]  # fmt: skip
        mass += 2 * d * (width * exp(-k * epsilon) + (1 - width) * exp(-(k + 1) * epsilon))
    chosen = (epsilon, d) if width is not share else (epsilon, share, d)
    return additive("steps", noise=Piecewise(*arms, (0, True)) / mass, variable=x, sensitivity=d,
                    parameters=chosen)  # fmt: skip


def heights(steps, eps, part, move):
    """The density as a function of a number, and where it jumps."""
    mass = sum(2 * move * (part * math.exp(-k * eps) + (1 - part) * math.exp(-(k + 1) * eps))
               for k in range(steps))  # fmt: skip

    def density(at):
        k, rest = divmod(abs(at) / move, 1.0)
        return math.exp(-(k + (rest >= part)) * eps) / mass if k < steps else 0.0

    ends = [(k + extra) * move for k in range(steps + 1) for extra in (0.0, part)]
    return density, [side * end for end in ends for side in (-1, 1)]


def shifted_pair(density, ends, move):
    """Masses of both laws on every piece."""
    cuts = sorted({*ends, *(end + move for end in ends)})
    pieces = [(b - a, (a + b) / 2) for a, b in pairwise(cuts) if b - a > 1e-12]
    return [(density(at - move) * width, density(at) * width) for width, at in pieces]


def composed(masses, count):
    """Masses of several uses, equal losses as one."""
    total = {0: (1.0, 1.0)}
    for _ in range(count):
        found = {}
        for v, w in total.values():
            for a, b in masses:
                one, two = v * a, w * b
                key = round(math.log(one / two), 9) if one and two else (one > 0, two > 0)
                here = found.get(key, (0.0, 0.0))
                found[key] = here[0] + one, here[1] + two
        total = found
    return list(total.values())


def delta(masses, at, direction):
    pairs = masses if direction == "remove" else [(b, a) for a, b in masses]
    return sum(max(a - math.exp(at) * b, 0.0) for a, b in pairs)


def require_narrow(event, masses, *asked):
    """Every (count, epsilon) in both directions, against sums over all outcomes."""
    for count, at in asked:
        for direction in ("remove", "add"):
            bound = (count * event).delta(at, direction=direction)
            truth = delta(composed(masses, count), at, direction)
            assert bound.lower <= truth * (1 + 1e-9)
            assert truth * (1 - 1e-9) <= bound.upper <= truth * (1 + 1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("steps", [3, 5, 10])
@pytest.mark.parametrize("part", [0.3, 0.8])
def test_staircases(steps, part):
    eps, move = 0.7, 1.5
    event = mechc.load(staircase(steps))(epsilon=eps, share=part, sensitivity=move)
    masses = shifted_pair(*heights(steps, eps, part, move), move)
    require_narrow(event, masses, (1, 0.3), (2, 1.0), (4, 2.0))
    assert event.mechanism.claim["status"] == "proven"
    assert event.mechanism.claim["theorem"] == "T9"


@pytest.mark.slow
def test_staircase_on_a_sample():
    eps, part, drawn, steps = 0.7, 0.4, 0.2, 6
    sampled = mechc.poisson(mechc.load(staircase(steps)), sampling_rate=drawn)
    event = sampled(epsilon=eps, share=part)
    masses = shifted_pair(*heights(steps, eps, part, 1.0), 1.0)
    masses = [(drawn * a + (1 - drawn) * b, b) for a, b in masses]
    require_narrow(event, masses, (1, 0.2), (3, 0.2))


@pytest.mark.slow
def test_certificate_and_window_of_a_staircase():
    declared = staircase(5, Rational(1, 3))
    assert mechc.load(declared).verify().ok
    window = mechc.truncate(mechc.load(declared), lower=-2.25, upper=2.25)
    event = window(epsilon=0.7, sensitivity=1.0)
    density, ends = heights(5, 0.7, 1 / 3, 1.0)
    cuts = sorted({*ends, *(e + 1.0 for e in ends), -2.25, 2.25})
    inside = [(density((a + b) / 2 - 1) * (b - a), density((a + b) / 2) * (b - a))
              for a, b in pairwise(cuts) if a >= -2.25 and b <= 2.25]  # fmt: skip
    left = 1.0 - sum(a for a, _ in inside)
    truth = left + delta(inside, 0.3, "remove")
    assert event.delta(0.3, direction="remove").upper == pytest.approx(truth, rel=1e-9)


@pytest.mark.slow
def test_heights_that_may_be_negative_are_not_summed():
    t = rate("t", typical=(0.2, 0.8))
    arms = [(1 + 2 * t * (-1) ** k, Abs(x) < k + 1) for k in range(10)]
    declared = additive("uneven", noise=Piecewise(*arms, (0, True)) / 20, variable=x,
                        sensitivity=d, parameters=(t, d))  # fmt: skip
    with pytest.raises(MechcError):
        mechc.load(declared)(t=0.75).delta(0.1)


@pytest.mark.few(0)
@pytest.mark.parametrize("steps", [7, 20])
def test_a_histogram_without_a_last_arm_is_refused(steps):
    arms = [(Rational(k + 1, steps * (steps + 1)), Abs(x) < k + 1) for k in range(steps)]
    declared = additive("open", noise=Piecewise(*arms), variable=x, sensitivity=1, parameters=())
    with pytest.raises(DeclarationError, match="end the Piecewise with"):
        mechc.load(declared)()


@pytest.mark.slow
def test_histogram_of_numbers():
    generator = random.Random(7)
    levels = sorted((generator.randint(1, 50) for _ in range(30)), reverse=True)
    arms = [(Rational(level, 2 * sum(levels)), Abs(x) < k + 1) for k, level in enumerate(levels)]
    declared = additive("histogram", noise=Piecewise(*arms, (0, True)), variable=x,
                        sensitivity=Rational(5, 2), parameters=())  # fmt: skip
    event = mechc.load(declared)()

    def density(at):
        return levels[int(abs(at))] / (2 * sum(levels)) if abs(at) < 30 else 0.0

    masses = shifted_pair(density, range(-30, 31), 2.5)
    require_narrow(event, masses, (1, 0.2), (2, 0.2))


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [30, 150])
def test_long_lists(size):
    generator = random.Random(size)
    v, w = ([generator.randint(1, 999) for _ in range(size)] for _ in range(2))
    declared = mechanism("table", parameters=(), outcomes=[
        (Rational(a, sum(v)), Rational(b, sum(w))) for a, b in zip(v, w, strict=True)])  # fmt: skip
    masses = [(a / sum(v), b / sum(w)) for a, b in zip(v, w, strict=True)]
    for direction in ("remove", "add"):
        bound = mechc.load(declared)().delta(0.3, direction=direction)
        assert bound.upper == pytest.approx(delta(masses, 0.3, direction), rel=1e-9)
        twice = [(a * c, b * e) for a, b in masses for c, e in masses]
        bound = (2 * mechc.load(declared)()).delta(0.5, direction=direction)
        assert bound.upper == pytest.approx(delta(twice, 0.5, direction), rel=1e-6)


def test_binomial_list():
    size = 50
    declared = mechanism("drawn", parameters=(p,), outcomes=[
        (binomial(size, i) * p**i * (1 - p) ** (size - i),
         binomial(size, i) * p ** (size - i) * (1 - p) ** i) for i in range(size + 1)])  # fmt: skip
    event = mechc.load(declared)(p=0.52)
    for at in (0.1, 1.0):
        law = [math.comb(size, i) * 0.52**i * 0.48 ** (size - i) for i in range(size + 1)]
        masses = list(zip(law, law[::-1], strict=True))
        assert event.delta(at).upper == pytest.approx(delta(masses, at, "remove"), rel=1e-9)


def test_equal_pairs_keep_their_own_claims():
    """A declaration that another one equals, but for its claim, was taken for that."""
    first = mechc.load("laplace").declaration
    second = dataclasses.replace(first)
    assert first == second and first is not second
    assert listed(first) is first and listed(second) is second


def test_whether_a_pair_is_listed_does_not_depend_on_another():
    """Equal pairs of which one is moved noise, which alone is listed at so few comparisons."""
    share = positive("share", typical=(0.3, 3))
    arms = [(p**k, Abs(x) < (k + 1) * share) for k in range(4)]
    mass = 2 * share * sum(p**k for k in range(4))
    moved = additive("few", noise=Piecewise(*arms, (0, True)) / mass, variable=x, sensitivity=d,
                     parameters=(p, share, d))  # fmt: skip
    plain = dataclasses.replace(moved, construction=None)
    assert plain == moved and listed(plain) is plain
    assert listed(moved) is not moved and listed(plain) is plain


@pytest.mark.parametrize("steps", [4, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("drawn", [None, pytest.param(0.2, marks=pytest.mark.slow)])
def test_steps_and_a_move_in_an_open_order(steps, drawn):
    """Any number of steps may lie within the move, or the move within one step."""
    share = positive("wide", typical=(0.3, 3))
    arms = [(p**k, Abs(x) < (k + 1) * share) for k in range(steps)]
    mass = 2 * share * sum(p**k for k in range(steps))
    declared = additive("open", noise=Piecewise(*arms, (0, True)) / mass, variable=x,
                        sensitivity=d, parameters=(p, share, d))  # fmt: skip
    loaded = mechc.load(declared) if drawn is None else mechc.poisson(mechc.load(declared), drawn)
    for wide, move in ((0.9, 2.3), (2.0, 0.7), (1.0, 3.0)):
        total = sum(2 * wide * 0.6**k for k in range(steps))

        def density(at, wide=wide, total=total):
            return 0.6 ** (abs(at) // wide) / total if abs(at) < steps * wide else 0.0

        masses = shifted_pair(density, [wide * k for k in range(-steps, steps + 1)], move)
        if drawn is not None:
            masses = [(drawn * a + (1 - drawn) * b, b) for a, b in masses]
        event = loaded(p=0.6, wide=wide, sensitivity=move)
        require_narrow(event, masses, (1, 0.3), (2, 0.3))


def test_a_staircase_of_many_steps_is_a_short_text():
    """Masses stand in one table, which both laws and the mass at infinity are read from."""
    a, b = positive("a", typical=(0.5, 3)), positive("b", typical=(0.1, 1))
    steps = [(exp(-k * b), Abs(x) < (k + 1) * a) for k in range(6)]
    made = additive("many", noise=shape(Piecewise(*steps, (0, True))), variable=x, sensitivity=d,
                    parameters=(a, b, d))  # fmt: skip
    event = mechc.load(made)(a=1.5, b=0.4, sensitivity=2.0)
    assert len(event.mechanism.source.splitlines()) < 800  # of 5000 where every mass is pasted in
    whole = 3 * sum(math.exp(-0.4 * k) for k in range(6))
    ends = [side * 1.5 * k for k in range(7) for side in (-1, 1)]

    def density(at):
        return math.exp(-0.4 * (abs(at) // 1.5)) / whole if abs(at) < 9.0 else 0.0

    require_narrow(event, shifted_pair(density, ends, 2.0), (1, 0.3), (2, 1.0), (4, 2.0))
    missing = 1.5 * math.exp(-2.0) + 0.5 * math.exp(-1.6)
    assert event.delta(math.inf).upper == pytest.approx(missing / whole, rel=1e-13)
    assert math.exp(event.mechanism.kernel.log_infinite_mass(np.array([1.5, 0.4, 2.0]))) == (
        pytest.approx(missing / whole, rel=1e-13)
    )
