"""Emitted logs of densities and losses where powers of outputs are no doubles."""

import math
from random import Random
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
from sympy import pi, sqrt

import mechc
from mechc.declare import mechanism, real
from mechc.kernel.printer import IEEE
from mechc.loss.branches import LOG_ULPS
from mechc.loss.quadrature.rule import log_densities, losses
from mechc.numeric.rounding import EPS

flint = pytest.importorskip("flint")
families = pytest.importorskip("families")
questions = pytest.importorskip("questions")
reference = pytest.importorskip("reference")
HEAVY = ("cauchies", "student_noise")
OTHERS = (pytest.param(n, marks=pytest.mark.slow) for n in families.FAMILIES if n not in HEAVY)
FARTHEST = (1e100, 1e153, 6e153, 1e154, 1e155, 1e200, 1e300, 1.7e308)
SEEN = -1e6  # logs of densities below which nothing is asked of them


def as_python(kernel):
    """Emitted functions run as Python, as machine code would."""
    space = {"math": IEEE, "np": np}
    for name, value in kernel.log_p.py_func.__globals__.items():
        if hasattr(value, "py_func"):
            space[name] = FunctionType(value.py_func.__code__, space)
    return SimpleNamespace(**space)


@np.errstate(all="ignore")
@pytest.mark.few(3)
@pytest.mark.parametrize("kind", ["plain", "poisson"])
@pytest.mark.parametrize("name", [*HEAVY, *OTHERS])
def test_logs_of_densities_and_losses_hold_up_to_the_largest_double(name, kind):
    """Squares of outputs overflow from 1e154 on, where heavy tails have masses of 1e-154."""
    values = questions.parameters(name, Random(name), kind)
    mechanism = questions.load(name, kind)
    theta = np.array([values[p.name] for p in mechanism.declaration.parameters])
    kernel = as_python(mechanism.kernel)
    with flint.ctx.workprec(3000):
        for piece in questions.by_hand(name, values, kind).make(reference.BALLS).pieces:
            ends = ((1.0, float(piece.hi)), (-1.0, float(piece.lo)))
            x = np.array([side * f for side, end in ends if math.isinf(end) for f in FARTHEST])
            found = [*log_densities(kernel, theta, x), losses(kernel, theta, x)]
            for at, p, q, loss in np.array([x, *found]).T.tolist():
                exact = [
                    law(flint.arb(at)) if law else -math.inf for law in (piece.log_p, piece.log_q)
                ]
                seen = [float(log) > SEEN for log in exact]
                for value, log, is_seen in zip((p, q), exact, seen, strict=True):
                    assert abs(value - log) <= 1e-14 * abs(log) if is_seen else not value > SEEN
                if any(seen) and min(map(float, exact)) > 10.0 * SEEN:
                    size = 1.0 + sum(map(abs, exact))
                    assert abs(loss - (exact[0] - exact[1])) <= LOG_ULPS * EPS * size, (at, loss)
                elif any(seen):
                    assert loss > -SEEN if seen[0] else loss < SEEN, (at, loss)


@pytest.mark.slow
def test_nothing_is_above_a_supremum_that_losses_tend_to():
    """Where squares overflowed in one density a loss was infinite: -357.24 for a delta of 0."""
    event = questions.load("cauchies", "poisson")(
        mean=2.434657055312373, s=0.34725662022550907, t=1.8512913810795728,
        sampling_rate=0.8146275187969818,
    )  # fmt: skip
    assert event.log_delta(1.4307503909267136, direction="add").lower == -math.inf


@np.errstate(all="ignore")
def test_an_overflow_in_one_density_is_not_hidden_in_a_sample():
    """log(1 + x + x^2) overflows before log(9 + x^2), of which no power is taken, does."""
    x, rate = real("x"), 0.3
    p, q = sqrt(3) / (2 * pi * (1 + x + x**2)), 3 / (pi * (9 + x**2))
    kernel = mechc.poisson(mechc.load(mechanism("quadratics", variable=x, p=p, q=q))).kernel
    theta, far = np.array([rate]), np.array([-1e160, 1e152, 1e154, 1e155, 1e300])
    found = losses(as_python(kernel), theta, far)
    limit = math.log(1.0 - rate + rate * math.sqrt(3) / 6)
    assert found[1] == pytest.approx(limit, rel=1e-12)
    assert all(np.isnan(found) | (np.abs(found - limit) < 1e-12))
