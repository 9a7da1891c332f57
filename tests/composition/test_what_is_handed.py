"""What may be handed where events are expected, and what is refused with the name of the word."""

import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import mechc
from mechc import reductions
from mechc.declare import positive
from mechc.errors import DeclarationError, UnsupportedError


@pytest.fixture
def two(gaussian, laplace):
    return gaussian(sigma=2.0), laplace(scale=3.0)


def test_a_mapping_is_composed_with_its_counts(two):
    e, f = two
    assert mechc.compose({e: 5, f: 1}) == 5 * e + f
    assert mechc.compose(Counter([e, f, e])) == 2 * e + f


def test_any_iterable_of_parts(two):
    e, f = two
    several = [e, f], (e, f), {e, f}, np.array([e, f], object), (part for part in two)
    for parts in several:
        assert mechc.compose(parts) == e + f
    assert mechc.compose(((e, 2), (f, 3))) == mechc.compose([(e, 2), (f, 3)]) == 2 * e + 3 * f


def test_any_iterable_is_a_schedule(two):
    whole = mechc.random_allocation(list(two))
    for steps in (tuple(two), np.array([*two], object), (step for step in two)):
        assert mechc.random_allocation(steps) == whole


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: mechc.compose(np.array(3)), r"parts=array\(3\) \(expected events"),
        (lambda e: mechc.compose("gaussian"), "parts='gaussian'"),
        (lambda e: mechc.Composition(5), "parts=5"),
        (lambda e: mechc.Composition([e]), "part=gaussian"),
        (lambda e: mechc.Composition([(e, 2.5)]), "count=2.5 is not an integer"),
        (lambda e: mechc.Composition([(2 * e, 1)]), "event=2"),
        (lambda e: mechc.random_allocation({1: e}), "event=1"),
        (lambda e: mechc.random_allocation(np.array(3)), r"array\(3\)"),
        (lambda e: mechc.load("gaussian")(sigma=np.complex128(1j)), "sigma=.* not a finite"),
        (lambda e: mechc.load("gaussian")(sigma=np.timedelta64(5)), "sigma=.* not a finite"),
        (lambda e: e.at(sigma=np.array([1.0])), r"sigma=array\(\[1.\]\)"),
        (lambda e: mechc.zcdp(True), "rho=True"),
        (lambda e: mechc.from_losses([0.0], [1.0], add=([0.0], [1.0], 0.0), symmetric=True),
         "add=.*symmetric"),
        (lambda e: mechc.rdp([1e300], [1e300]), "epsilons="),
        (lambda e: mechc.optimise("laplace", over={1: (1, 2)}, target=(1.0, 0.1)), "over=1"),
        (lambda e: mechc.tournament(target=(1.0, 0.1), mechanisms=[e]), "mechanisms: load"),
        (lambda e: mechc.calibrate("laplace", solve_for="scale", parameters={1: 2.0},
                                   epsilon=1.0, delta=0.1), "parameters=.1"),
        (lambda e: mechc.post_process(mechc.zcdp(0.1), [0.0]), "post_process: acts on"),
        (lambda e: mechc.mixture(np.array(0.5), [1.0]), "mixture: event=0.5|event=array"),
        (lambda e: reductions.matrix_mechanism([[1.0]], 1.0, participations=np.array(0)),
         r"participations=array\(0\)"),
        (lambda e: (3 * e).gdp(direction=np.array([])), "direction=array"),
        (lambda e: mechc.rdp([2.0], [np.longdouble("1e400")]), "epsilons="),
        (lambda e: positive("a" * 5000), "parameter="),
    ],
)  # fmt: skip
def test_what_is_refused(gaussian, call, words):
    with pytest.raises((DeclarationError, UnsupportedError), match=words):
        call(gaussian(sigma=2.0))


def test_numbers_of_any_kind():
    for rho in (np.int64(1), np.float32(1.0), Fraction(1)):
        assert mechc.zcdp(rho) == mechc.zcdp(1.0)


def test_what_is_printed_of_an_event_is_that_event(gaussian):
    third = gaussian(sigma=1.0 / 3.0, sensitivity=1e-7)
    assert repr(third) == "gaussian(sigma=0.3333333333333333, sensitivity=1e-07)"
    found = mechc.tournament(target=(1.0, 1e-6), count=30, mechanisms=[gaussian])
    for printed in (str(found), found.rows()[0][1]):
        sigma = float(re.search(r"sigma=([^,)]*)", printed)[1])
        assert (30 * gaussian(sigma=sigma)).delta(1.0).upper <= 1e-6


@pytest.mark.parametrize("sensitivity", [1.0, 3.7, 1e-5])
def test_a_turned_move_is_no_shorter(sensitivity):
    for event, _ in reductions.random_allocation(2.0, sensitivity):
        assert 2 * Fraction(event.parameters["sensitivity"]) ** 2 >= Fraction(sensitivity) ** 2
