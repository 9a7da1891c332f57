"""Everything users hold pickles and deep-copies, before and after queries, with the same digits."""

import copy
import pickle

import pytest
from sympy import exp, oo, pi, sqrt

import mechc
from mechc.declare import additive, lists, mechanism, numbers, positive, real
from mechc.kernel import cache

x, scale = real("x"), positive("scale")


@lists(length=2)
def two_moves(length):
    moves = numbers("moves", length)
    p = sum(exp(-((x - m) ** 2) / 2) for m in moves) / length
    shape = sqrt(2 * pi)
    return mechanism("two_moves", variable=x, p=p / shape, q=exp(-(x**2) / 2) / shape,
                     parameters=moves)  # fmt: skip


def declared():
    noise = exp(-x / scale) / scale
    return additive("skew", noise=noise, variable=x, sensitivity=1, parameters=(scale,),
                    support=(0, oo))  # fmt: skip


def written(tmp_path):
    return mechc.load(cache.load(mechc.load("laplace").emit(tmp_path / "laplace.py")))(scale=2.0)


MADE = {
    "event": lambda _: mechc.poisson(mechc.load("gaussian"), 0.1)(sigma=1.0),
    "composition": lambda _: (
        3 * mechc.load("laplace")(scale=9.0) + 2 * mechc.load("gaussian")(sigma=9.0)
    ),
    "pmfs": lambda _: 5 * mechc.from_pmfs([0.5, 0.3, 0.2], [0.4, 0.4, 0.2]),
    "losses": lambda _: mechc.from_losses([0.1, -0.1], [0.6, 0.4], adjacency="replace"),
    "mixture": lambda _: mechc.mixture(
        [mechc.load("pure_dp")(epsilon=0.1), mechc.load("pure_dp")(epsilon=0.2)], [0.5, 0.5]
    ),
    "cells": lambda _: mechc.post_process(mechc.load("gaussian")(sigma=1.0), [0.5]),
    "zcdp": lambda _: 4 * mechc.zcdp(0.01),
    "rdp": lambda _: mechc.rdp([2.0, 4.0], [0.1, 0.2]) + mechc.load("gaussian")(sigma=9.0),
    "declared": lambda _: mechc.load(declared())(scale=9.0),
    "written": written,
    "epoch cut short": lambda _: mechc.dpsgd(
        dataset_size=1000, batch_size=100, steps=5, noise_multiplier=2.0, sampler="allocation"
    ),
}


def copies(value):
    return copy.deepcopy(value), pickle.loads(pickle.dumps(value)), copy.copy(value)


def digits(run):
    """As text, in which nan is equal to itself."""
    answers = (run.log_delta(0.3), run.epsilon(1e-3), run.tradeoff(0.2))
    return [f"{b.lower!r} {b.estimate!r} {b.upper!r}" for b in answers]


@pytest.mark.few(3, 4)
@pytest.mark.parametrize("name", MADE)
def test_copies_answer_the_same_digits(name, tmp_path):
    run = MADE[name](tmp_path)
    fresh = copies(run)
    answer = run.epsilon(1e-3)
    expected = digits(run)
    for made in (*fresh, *copies(run)):
        assert digits(made) == expected
        assert made.adjacency == run.adjacency
    for made in copies(answer):
        assert (str(made), made.claim, made.detail) == (str(answer), answer.claim, answer.detail)


@pytest.mark.parametrize("what", ["gaussian", "mixture_of_gaussians", declared()])
def test_mechanisms_are_copied(what):
    for made in copies(mechc.load(what)):
        assert made.key == mechc.load(what).key and made.claim == mechc.load(what).claim


def test_declarations_of_lists_are_copied():
    for made in copies(two_moves):
        assert made.canonical == two_moves.canonical
        assert made.of_length(3).canonical == two_moves.of_length(3).canonical


def test_a_calibration_has_a_count_and_is_copied(gaussian):
    found = mechc.calibrate(gaussian, solve_for="sigma", count=7, epsilon=1.0, delta=1e-5)
    value, bound = found
    assert (found.count, value, bound) == (7, found.value, found.bound)
    for made in copies(found):
        assert (made.value, made.count, str(made.bound)) == (value, 7, str(bound))
    most = mechc.calibrate(
        gaussian, solve_for="count", epsilon=1.0, delta=1e-5, parameters={"sigma": 40.0}
    )
    assert most.count == most.value > 1
