"""Signs of derivatives: by rules, on branches of losses, of densities; never a wrong proof."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flint")

import mpmath
from flint import arb, ctx
from sympy import Rational, S, Symbol, cos, erfc, exp, log, pi, sqrt

import mechc
from mechc.calculus.cases import by_cases
from mechc.declare import additive, positive, real
from mechc.verify import shape_proofs
from mechc.verify.balls import expressions
from mechc.verify.balls.functions import erfc_bend, erfc_rate
from mechc.verify.balls.infinity import with_log_erfc
from mechc.verify.balls.oracle import Oracle

pytestmark = pytest.mark.oracle
x, a = real("x"), Symbol("a", positive=True)
INFINITY = float("inf")


@pytest.mark.parametrize(
    ("f", "lo", "hi", "sign"),
    [
        (-((x / a) ** a), 0.0, INFINITY, -1),
        (-((-x / a) ** a), -INFINITY, 0.0, 1),
        ((x / a) ** a - ((2 - x) / a) ** a, 0.0, 2.0, 1),
        (exp(-x) / (1 + x**2), 0.0, INFINITY, -1),
        (log(erfc(x)), -INFINITY, INFINITY, -1),
        (cos(x), 0.0, 1.0, None),
        (log(x**2), -1.0, INFINITY, None),
        (1 / x, -1.0, 1.0, None),
        (x**2, -1.0, 2.0, None),
        (sqrt(x - 1), 0.0, 2.0, None),
    ],
)
def test_signs_by_rules(f, lo, hi, sign):
    line = shape_proofs.Line(x, {a: arb(1.75)})
    assert shape_proofs.of_derivative(with_log_erfc(f), line, arb(lo), arb(hi)) == sign


@pytest.mark.parametrize("u", [-30.0, -2.5, -0.1, 0.0, 0.3, 4.0, 25.0])
def test_rates_of_erfc_are_enclosed(u):
    with mpmath.workdps(60):
        rate = mpmath.exp(-(mpmath.mpf(u) ** 2)) / mpmath.erfc(u)
        bend = 2 / mpmath.sqrt(mpmath.pi) * rate - 2 * mpmath.mpf(u)
        rate, bend = (arb(mpmath.nstr(v, 40)) for v in (rate, bend))
    for width in (0.0, 0.2):
        with ctx.workprec(96):
            ball = arb(u, width)
            assert erfc_rate(ball).overlaps(rate) and erfc_bend(ball).overlaps(bend)
            assert erfc_bend(ball) > 0 and erfc_rate(arb(u)) > 0


VECTORS = [
    ("subbotin", (1.8, 0.54, 0.54)),
    ("exponentially_modified_gaussian", (0.86, 1.7, 2.96)),
    ("hyperbolic_secant", (50.0, 0.1)),
    ("balanced_gaussian", (5.0, 0.1)),
]


def verdicts(name, theta, turn):
    """What is proved about every branch of a kernel, with directions turned if asked for."""
    mechanism = mechc.load(name)
    oracle = Oracle(mechanism.declaration, theta)
    for lo, hi, kind, *_ in np.asarray(mechanism.kernel.branches(np.array(theta))):
        for piece in oracle.case.pieces:
            lowest, highest = (
                float(expressions.constant(e, oracle.values).mid()) for e in (piece.lo, piece.hi)
            )
            left, right = max(lo, lowest), min(hi, highest)
            if left < right:
                points = [p for p in np.linspace(-40, 40, 81) + 0.013 if left < p < right]
                points += [end for end in (left, right) if np.isfinite(end)]
                yield shape_proofs.verdict(
                    piece, shape_proofs.Line(mechanism.declaration.variable, oracle.values),
                    sorted(points), (left, right), turn * int(kind),
                )  # fmt: skip


@pytest.mark.few(0)
@pytest.mark.parametrize(("name", "theta"), VECTORS, ids=[name for name, _ in VECTORS])
def test_losses_move_as_their_branches_say(name, theta):
    assert set(verdicts(name, theta, 1)) == {shape_proofs.Verdict.PROVED}
    assert shape_proofs.Verdict.PROVED not in set(verdicts(name, theta, -1))


@pytest.mark.parametrize(
    ("name", "theta"),
    [("raised_cosine", (20.7, 0.1)), ("subbotin", (0.8, 5.9, 3.0)), ("skellam", (17.0, 1.0))],
)
def test_noise_is_proved_unimodal(name, theta):
    declaration = mechc.load(name).declaration
    noise = shape_proofs.noise_of(declaration)
    assert shape_proofs.unimodal_verdict(Oracle(noise, theta)) == (None, None)


def test_two_hills_are_never_proved():
    width = positive("width", typical=(0.5, 5))
    move = positive("move", default=1, typical=(0.1, 5))
    hills = [exp(-((x - c) ** 2) / (2 * width**2)) for c in (-3, 3)]
    declaration = additive(
        "hills", noise=sum(hills) / (2 * sqrt(2 * pi) * width), variable=x,
        sensitivity=move, parameters=(width, move),
        about="Two hills.",
    )  # fmt: skip
    noise = shape_proofs.noise_of(declaration)
    assert by_cases(noise)
    for theta, wrong in (((0.6, 1.0), True), ((4.0, 1.0), False)):
        assert (shape_proofs.unimodal_verdict(Oracle(noise, theta)) != (None, None)) == wrong


@pytest.mark.parametrize(
    ("density", "lo", "verdict"),
    [
        (Rational(3, 8) * (x**2 + 1), -1, "the density rises again after it fell"),
        (x**4 - x**3 + 1, -1, "the density rises again after it fell"),
        (
            10 * (1 - 50 * (x - Rational(100001, 100)) ** 2),
            1000,
            None,
        ),  # its mode is known to an ulp
    ],
)
def test_one_piece_is_a_valley_or_a_narrow_peak_far_out(density, lo, verdict):
    noise = shape_proofs.noise_of(mechc.load("gaussian").declaration)
    hi = 1 if lo == -1 else lo + Rational(1, 50)
    density = density.subs(x, noise.variable)
    one = replace(noise, p=density, q=density, support=(S(lo), S(hi)), parameters=())
    assert shape_proofs.unimodal_verdict(Oracle(one, [])) == (verdict, None)
