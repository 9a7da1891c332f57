"""Finite pairs, sampled, mixed, allocated and composed, against enumeration in 60 digits.

Probabilities are multiples of 2^-50, so that they add up to one exactly; some are tiny, zero, or
those of Q but for a millionth, and rates lie anywhere between 1e-18 and one less 1e-16.
"""

import itertools
import math
import random

import mpmath
import pytest
from mpmath import mpf

import mechc
from mechc.errors import MechcError

MOST = 600  # outcomes of a composition
ROUNDED = 3e-15  # nats for each step: given probabilities, and logs


def masses(draw, near=None):
    """Probabilities that add up to one; those of `near` up to a millionth."""
    if near:
        drawn = [m * math.exp(draw.uniform(-1e-6, 1e-6)) for m in near]
    else:
        kinds = (0.0, math.exp(draw.uniform(-30, 0)), draw.uniform(0.05, 1), draw.uniform(0.05, 1))
        drawn = [draw.choice(kinds) for _ in range(draw.choice([2, 2, 3, 4]))]
        drawn[0] += 1e-9
    found = [round(m / sum(drawn) * 2.0**50) / 2.0**50 for m in drawn]
    top = found.index(max(found))
    found[top] = 1.0 - math.fsum(found[:top] + found[top + 1 :])
    return found


def a_pair(draw):
    """An event, and its pairs of masses for removing and for adding."""
    while True:
        p = masses(draw)
        q = masses(draw, p) if draw.random() < 0.3 else masses(draw)
        if len(q) == len(p) and any(a > 0.0 < b for a, b in zip(p, q, strict=True)):
            remove = [(mpf(a), mpf(b)) for a, b in zip(p, q, strict=True)]
            return mechc.from_pmfs(p, q), remove, [(b, a) for a, b in remove]


def sampled(draw, event, remove, add):
    rate = draw.choice([draw.uniform(0, 1), math.exp(draw.uniform(-40, 0)),
                        1.0 - math.exp(draw.uniform(-36, 0))])  # fmt: skip
    r = mpf(rate)
    return (
        mechc.poisson(event, rate),
        [((1 - r) * q + r * p, q) for p, q in remove],
        [(q, (1 - r) * q + r * p) for q, p in add],
    )


def mixed(draw, event, remove, add):
    other, *laws = draw.choice([lambda: a_pair(draw), lambda: sampled(draw, *a_pair(draw))])()
    share = draw.choice([0.25, math.exp(draw.uniform(-30, 0))])
    both = [
        [(share * p, share * q) for p, q in one]
        + [((1 - mpf(share)) * p, (1 - mpf(share)) * q) for p, q in two]
        for one, two in zip((remove, add), laws, strict=True)
    ]
    return mechc.mixture([event, other], [share, 1.0 - share]), *both


def allocated(draw, event, remove, add):
    """One or two of two or three steps."""
    steps = 3 if len(remove) < 4 else 2
    selected = draw.choice([1, 1, 2])
    event = mechc.random_allocation(event, steps=steps, selected=selected)
    chosen = list(itertools.combinations(range(steps), selected))

    def epoch(pairs):  # of P and Q
        for outcome in itertools.product(pairs, repeat=steps):
            mean = sum(mpmath.fprod(o[i not in c] for i, o in enumerate(outcome)) for c in chosen)
            yield mean / len(chosen), mpmath.fprod(q for _, q in outcome)

    return event, list(epoch(remove)), [(q, p) for p, q in epoch([(b, a) for a, b in add])]


def composed(one, two):
    """Products, those of equal pairs added up."""
    found = {}
    for (p, q), (a, b) in itertools.product(one, two):
        found[p * a, q * b] = found.get((p * a, q * b), 0) + 1
    return [(p * n, q * n) for (p, q), n in found.items()]


def delta(pairs, epsilon):
    growth = mpmath.exp(mpf(epsilon))
    return mpmath.fsum(max(p - growth * q, 0) for p, q in pairs)


def a_run(draw):
    run, laws, steps = mechc.compose(), ([(mpf(1), mpf(1))],) * 2, 0
    for _ in range(draw.choice([1, 1, 2, 3])):
        event, *pairs = a_pair(draw)
        change = draw.choice([None, None, sampled, sampled, mixed, allocated])
        if change is allocated and len(pairs[0]) > 3:
            change = sampled
        if change:
            event, *pairs = change(draw, event, *pairs)
        for _ in range(draw.choice([1, 1, 2, 3])):
            if len(laws[0]) * len(pairs[0]) <= MOST:
                run, steps = run + event, steps + 1
                laws = tuple(composed(a, b) for a, b in zip(laws, pairs, strict=True))
    return run, dict(zip(("remove", "add"), laws, strict=True)), steps


@pytest.mark.parametrize("seed", [
    *range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 400)),
])  # fmt: skip
def test_against_enumeration(seed):
    draw = random.Random(seed)
    with mpmath.workdps(60):
        run, laws, steps = a_run(draw)
        for direction, pairs in laws.items():
            losses = sorted(float(mpmath.log(p / q)) for p, q in pairs if p > 0 < q)
            top = max(losses[-1], 1e-9)
            places = [draw.choice(losses) for _ in range(3)]
            epsilons = [0.0, draw.uniform(-0.3, 1.2) * top, top * (1.0 + 1e-9), 2.0 * top + 1.0]
            epsilons += [x + draw.choice([0, 1, -1, 3, -50, 1000]) * math.ulp(x) for x in places]
            for epsilon in epsilons:
                if 0.0 < abs(epsilon) < 1e-40:
                    continue
                truth = delta(pairs, epsilon)
                log = mpmath.log(truth) if truth > 0 else mpf("-inf")
                found = run.log_delta(epsilon, direction=direction)
                assert found.lower <= log + ROUNDED * steps, (direction, epsilon)
                assert log - ROUNDED * steps <= found.upper, (direction, epsilon)
            target = draw.choice([0.3, 1e-3, 1e-6, 1e-12, 1e-30])
            try:
                found = run.epsilon(target, direction=direction)
            except MechcError:
                continue
            if found.upper < math.inf:
                assert delta(pairs, found.upper) <= target * (1 + mpf(1e-13))
            if found.lower > 0.0:
                below = math.nextafter(found.lower * (1.0 - 4e-16), 0.0)
                assert delta(pairs, below) > target * (1 - mpf(1e-13))


def test_the_mass_at_infinite_loss_of_one_direction_is_not_the_end_of_the_other():
    """Of removing it ends at delta = 1/8; adding has losses up to log 1024 of small masses."""
    p = [0.125, 0.875 - 2.0**-20, 2.0**-20]
    q = [0.0, 1.0 - 2.0**-10, 2.0**-10]
    found = mechc.from_pmfs(p, q).epsilon(0.125)
    assert found.lower == 0.0 and found.upper < 1e-12  # delta(0) is 1/8 in both directions
    rare = mechc.from_pmfs([0.125, 0.375, 0.5 - 2.0**-30, 2.0**-30], [0.0, 0.375, 0.375, 0.25])
    assert rare.epsilon(0.125).lower <= math.log(0.125 * 2.0**30)  # (1/4 - 1/8) / p, and above:
    assert delta_of_adding(rare.epsilon(0.125).upper) <= 0.125


def delta_of_adding(epsilon):
    return 0.25 - math.exp(epsilon) * 2.0**-30


@pytest.mark.parametrize("count", [1, 2, 50])
def test_masses_of_one_beside_others_are_a_little_less(count):
    """Of 1 and 3e-27 the first is 1 - 3e-27: delta(0) of adding was 0, by the masses as given."""
    small, smaller = 3.15e-27, 1.2e-58
    event = mechc.from_pmfs([1.0, small], [1.0, smaller])
    with mpmath.workdps(120):
        p, q = mpmath.mpf(small), mpmath.mpf(smaller)
        value = (1 - q) ** count - (1 - p) ** count  # without the rare one of all outcomes
        for direction in ("remove", "add"):
            bound = (event * count).log_delta(0.0, direction=direction)
            assert bound.lower <= float(mpmath.log(value)) <= bound.upper


def test_a_target_that_is_the_mass_at_infinite_loss_is_met():
    """Doubles are compared, as logs of one number by two libraries differ in their last digit."""
    seen = [0.9473826805978434, 0.052617319402156415, 2.0**-52]
    run = mechc.from_pmfs([0.0, 0.0, 1.0], seen)
    found = run.epsilon(1.0 - 2.0**-52, direction="add")
    assert found.lower == 0.0 and found.upper < math.inf
    assert run.epsilon(1.0 - 2.0**-51, direction="add").lower == math.inf
