"""The contour where atoms stand beside a density: sums of atoms apart, the remainder on nodes."""

import itertools
import math

import numpy as np
import pytest
import truth
from flint import arb
from written_kernels import gaussian, laplace, truncated_laplace
from written_kernels import truth as corpus

from mechc.accountants.contour import ContourAccountant
from mechc.accountants.pld import PldAccountant
from mechc.loss.privacy_loss import Step


def laplace_truth(width, count, epsilon):
    """Laplace: atoms of mass 1/2 and exp(-width)/2, density exp((l - width)/2)/4 between."""
    w = truth.ball(width)
    density = (-w / 2).exp() / 4
    return truth.half_tilted_uniform(count, w, density, arb(1) / 2, (-w).exp() / 2, epsilon)


def mixed_laplace_truth(widths, epsilon):
    """Laplace steps of different widths: every choice of atom or density, sums of uniforms."""
    widths, epsilon = [truth.ball(w) for w in widths], truth.ball(epsilon)
    total = arb(0)
    for choice in itertools.product((1, -1, 0), repeat=len(widths)):
        mass, shift, spread = arb(1), arb(0), []
        for sign, w in zip(choice, widths, strict=True):
            mass *= (arb(1) / 2, (-w).exp() / 2, (-w / 2).exp() / 4)[(1, -1, 0).index(sign)]
            shift += sign * w
            spread += [w] if sign == 0 else []
        m, gap = len(spread), epsilon - shift
        if m == 0:
            total += mass * (1 - gap.exp()) if gap < 0 else 0
            continue
        for signs in itertools.product((1, -1), repeat=m):
            top = sum((s * w for s, w in zip(signs, spread, strict=True)), arb(0))
            if top > gap:
                ramps = [truth.ramp(m, top, top - gap, h) for h in (arb(1) / 2, -arb(1) / 2)]
                total += mass * math.prod(signs) * (ramps[0] - gap.exp() * ramps[1])
    return truth.narrow(total)


def check(bound, exact, width=1e-6):
    assert bound.status == "proven"
    assert bound.lower <= exact <= bound.upper
    assert bound.width <= width


@pytest.mark.few(0, 4, 7, 11, 15, 19)
@pytest.mark.parametrize("seed", range(20))
def test_laplace(seed):
    rng = np.random.default_rng(seed)
    width, count = 10 ** rng.uniform(-2, 0.5), int(rng.integers(1, 31))
    epsilon = count * width * rng.uniform(0, 1) ** (1 + seed % 3)
    if seed % 5 == 0:
        epsilon = width * int(rng.integers(0, count))  # on an atom
    bound = ContourAccountant([Step(laplace(1.0 / width).law(), count)]).log_delta(epsilon)
    check(bound, laplace_truth(arb(1) / truth.ball(1.0 / width), count, epsilon))


@pytest.mark.parametrize("epsilon", [-1.3, 0.0, 0.2, 0.9])
def test_two_widths(epsilon):
    steps = [Step(laplace(4.0).law(), 3), Step(laplace(7.3).law(), 2)]
    exact = mixed_laplace_truth([0.25] * 3 + [arb(1) / truth.ball(7.3)] * 2, epsilon)
    check(ContourAccountant(steps).log_delta(epsilon), exact)


@pytest.mark.parametrize(
    ("name", "scale", "rate", "reverse", "count", "epsilon"),
    [
        ("SL_0.1_1_10_rem", 1.0, 0.1, False, 10, 0.3),
        ("SL_0.1_1_10_add", 1.0, 0.1, True, 10, 0.3),
        ("SL_0.5_0.5_2_rem", 2.0, 0.5, False, 2, 0.07),
        ("SL_0.5_0.5_2_add", 2.0, 0.5, True, 2, 0.07),
    ],
)
def test_sampled_laplace(name, scale, rate, reverse, count, epsilon):
    law = laplace(scale, rate).law(reverse)
    check(ContourAccountant([Step(law, count)]).log_delta(epsilon), corpus(name))


def test_hard_cases_against_another_proof():
    """Mass at infinity; many distinct steps; atoms beside a density without a jump."""
    compositions = [
        [Step(truncated_laplace(1.0, 8.0).law(), 4)],
        [Step(laplace(5.0 + i, 0.2).law(), 2) for i in range(4)],
        [Step(laplace(3.0).law(), 30), Step(laplace(2.0, 0.01).law(True), 20)],
        [Step(laplace(20.0).law(), 30), Step(gaussian(30.0).law(), 4)],
    ]
    for steps in compositions:
        for epsilon in (0.05, 0.2):
            one = ContourAccountant(steps).log_delta(epsilon)
            two = PldAccountant(steps, rtol=1e-5).log_delta(epsilon)
            assert max(one.lower, two.lower) <= min(one.upper, two.upper)
            assert one.width <= 1e-6


def test_contours_are_kept_for_other_epsilons():
    accountant = ContourAccountant([Step(laplace(10.0).law(), 10)])
    for epsilon in (0.3, 0.31, 0.29):
        check(accountant.log_delta(epsilon), laplace_truth(arb(1) / 10, 10, epsilon), 2e-6)


@pytest.mark.parametrize(("count", "gap"), [(1, 1e-7), (2, 1e-5), (5, 1e-7)])
def test_just_below_the_largest_loss(count, gap):
    """The tilt is huge there, and no frequency has to be resolved; masses of atoms are rounded."""
    epsilon = 0.01 * count * (1.0 - gap)
    exact = laplace_truth(arb(1) / 100, count, epsilon)
    check(ContourAccountant([Step(laplace(100.0).law(), count)]).log_delta(epsilon), exact, 3e-6)


def test_far_below_the_smallest_double():
    law = laplace(0.01).law()
    bound = ContourAccountant([Step(law, 12)]).log_delta(1199.0)
    check(bound, laplace_truth(arb(1) / truth.ball(0.01), 12, 1199.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 500))
def test_random_laplace(seed):
    rng = np.random.default_rng(seed)
    width, count = 10 ** rng.uniform(-3, 1), int(rng.integers(1, 41))
    epsilon = count * width * (1.0 - 10 ** rng.uniform(-6, 0))
    bound = ContourAccountant([Step(laplace(1.0 / width).law(), count)]).log_delta(epsilon)
    check(bound, laplace_truth(arb(1) / truth.ball(1.0 / width), count, epsilon), 1e-4)


def test_density_with_a_steep_end():
    """Sparse sampling makes losses pile up at the lower end: panels are halved until they fit."""
    for reverse in (False, True):
        steps = [Step(laplace(0.58, 0.007).law(reverse), 12)]
        for epsilon in (0.02, 0.035):
            one = ContourAccountant(steps).log_delta(epsilon)
            two = PldAccountant(steps, rtol=1e-5).log_delta(epsilon)
            assert max(one.lower, two.lower) <= min(one.upper, two.upper)
            assert one.width <= 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_mixtures_against_another_proof(seed):
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(int(rng.integers(1, 4))):
        scale, rate = 10 ** rng.uniform(-0.3, 1.5), 10 ** rng.uniform(-3.5, -0.3)
        law = (
            laplace(scale).law(),
            laplace(scale, rate).law(),
            laplace(scale, rate).law(True),
            truncated_laplace(scale, scale * rng.uniform(5, 20)).law(),
        )[int(rng.integers(4))]
        steps.append(Step(law, int(10 ** rng.uniform(0, 1.7))))
    epsilon = sum(s.count * s.loss.support[1] for s in steps) * 10 ** rng.uniform(-2.5, -0.2)
    one = ContourAccountant(steps).log_delta(epsilon)
    two = PldAccountant(steps, rtol=1e-4).log_delta(epsilon)
    assert max(one.lower, two.lower) <= min(one.upper, two.upper)
    assert one.width <= 1e-5
