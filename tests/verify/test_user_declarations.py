"""Right declarations of users outside the catalogue: nothing in them is a fault."""

import math

import numpy as np
import pytest

pytest.importorskip("flint")

from flint import acb, arb, ctx
from scipy.stats import norm
from sympy import Abs, Piecewise, Rational, exp, log, oo, pi, simplify, sqrt, tanh

import mechc
from mechc.calculus.integrals import mass
from mechc.calculus.terms import Term
from mechc.declare import additive, integer, mechanism, positive, probability, real
from mechc.symbolic.facts import Facts
from mechc.verify.balls.oracle import Oracle

pytestmark = pytest.mark.oracle

x = real("x")
w = positive("w", typical=(1, 10))
s = positive("s", default=1, typical=(0.1, 0.9))
m = positive("m", typical=(0.1, 2))
a = positive("a", typical=(0.5, 5))
h = positive("h", typical=(0.5, 3))


def vanishing(name, noise):
    """Noise on (-w, w)."""
    return additive(name, noise=noise, variable=x, support=(-w, w), sensitivity=s,
                    parameters=(w, s), about="Noise whose density falls to zero.")  # fmt: skip


def log_normal():
    def density(mean):
        return exp(-((log(x) - mean) ** 2) / (2 * s**2)) / (x * s * sqrt(2 * pi))

    return mechanism("log_normal", variable=x, p=density(m), q=density(0), support=(0, oo),
                     parameters=(m, s), about="Logarithms are Gaussian.")  # fmt: skip


def two_logistics():
    def density(centre):
        return exp(-(x - centre) / a) / (a * (1 + exp(-(x - centre) / a)) ** 2)

    return additive("two_logistics", noise=(density(h) + density(-h)) / 2, variable=x,
                    sensitivity=s, parameters=(a, h, s), about="Two maxima.")  # fmt: skip


def betas():
    return mechanism("betas", variable=x, p=12 * x * (1 - x) ** 2, q=12 * x**2 * (1 - x),
                     support=(0, 1), parameters=(), about="Beta(2, 3) or Beta(3, 2).")  # fmt: skip


def rayleighs():
    def density(scale):
        return x / scale**2 * exp(-(x**2) / (2 * scale**2))

    return mechanism("rayleighs", variable=x, p=density(a), q=density(h), support=(0, oo),
                     parameters=(a, h), about="Rayleigh laws of two scales.")  # fmt: skip


def lopsided():
    noise = Piecewise((2 * (1 + x / a) / (a + h), x < 0), (2 * (1 - x / h) / (a + h), True))
    return additive("lopsided", noise=noise, variable=x, support=(-a, h), sensitivity=s,
                    parameters=(a, h, s), about="Triangular noise with two slopes.")  # fmt: skip


DECLARED = {
    "biweight": lambda: vanishing("biweight", 15 * (1 - (x / w) ** 2) ** 2 / (16 * w)),
    "rayleighs": rayleighs,
    "lopsided": lopsided,
    "triangular": lambda: vanishing("triangular", (1 - Abs(x) / w) / w),
    "epanechnikov": lambda: vanishing("epanechnikov", 3 * (1 - (x / w) ** 2) / (4 * w)),
    "semicircle": lambda: vanishing("semicircle", 2 * sqrt(w**2 - x**2) / (pi * w**2)),
    "log_normal": log_normal,
    "two_logistics": two_logistics,
    "betas": betas,
}


@pytest.mark.parametrize("lattice", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_mixtures_whose_weights_may_be_negative_elsewhere(lattice):
    """1 - a - b has no sign by the parameters' domains: the sum was no sum of exponentials."""
    y = integer("y") if lattice else x
    c, d = (probability(name, typical=(0.01, 0.3)) for name in "cd")

    def noise(mean):
        shape = exp(-Abs(y - mean)) if lattice else exp(-((y - mean) ** 2) / 2)
        return shape * (tanh(Rational(1, 2)) if lattice else 1 / sqrt(2 * pi))

    mixed = (1 - c - d) * noise(0) + c * noise(1) + d * noise(2)
    declared = mechanism("mixed", p=mixed, q=noise(0), variable=y, parameters=(c, d),
                         lattice=lattice)  # fmt: skip
    assert mechc.load(declared).verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("level", ["quick", "full"])
@pytest.mark.parametrize("name", DECLARED)
def test_certificates_pass(name, level):
    certificate = mechc.Mechanism(DECLARED[name]()).verify(level)
    assert [c.failures for c in certificate.checks if not c.ok] == []


@pytest.mark.slow
def test_log_density_has_no_nan_where_an_end_is_rounded():
    kernel = mechc.Mechanism(DECLARED["triangular"]()).kernel
    rng = np.random.default_rng(9)
    for theta in rng.uniform(0.1, 10.0, (400, 2)):
        ends = np.array([theta[0] + theta[1], theta[1] - theta[0]])
        xs = np.concatenate([ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf)])
        found = np.empty(xs.size)
        kernel.log_p_many(xs, theta, found)
        assert not np.isnan(found).any()


@pytest.mark.parametrize("z", [0, -1, 1.5, -3.25, complex(0.75, 2.0)])
def test_moments_of_log_normals(z):
    """The logarithm of the output is Gaussian."""
    with ctx.workprec(96):
        found = Oracle(log_normal(), (0.75, 1.25)).moment(acb(z))
        mu2 = (arb(0.75) / arb(1.25)) ** 2
        assert found.overlaps((mu2 * acb(z) * (acb(z) + 1) / 2).exp())
        assert found.rel_accuracy_bits() > 50


def test_masses_of_log_normals_between_outputs():
    found = Oracle(log_normal(), (0.75, 1.25)).mass("p", 0.5, 3.0)
    wanted = np.diff(norm.cdf(np.log([0.5, 3.0]), 0.75, 1.25))[0]
    assert float(found.mid()) == pytest.approx(wanted, rel=1e-12)


def test_mass_beside_the_square_root_of_a_zero():
    """Semicircle law: 1/2 + u sqrt(1 - u^2)/pi + asin(u)/pi at u = x/w."""
    found = Oracle(DECLARED["semicircle"](), (2.0, 0.5)).mass("q", 1.5, math.inf)
    u = 0.75
    below = 0.5 + (u * math.sqrt(1 - u * u) + math.asin(u)) / math.pi
    assert float(found.mid()) == pytest.approx(1 - below, rel=1e-12)
    assert float(found.rad()) < 1e-12


def test_mass_of_a_half_line_that_begins_with_a_zero():
    found = Oracle(rayleighs(), (2.0, 1.5)).mass("p", 0.0, 3.0)
    assert float(found.mid()) == pytest.approx(-math.expm1(-9 / 8), rel=1e-12)


@pytest.mark.slow
def test_zeros_of_both_laws_that_meet():
    """At w = s the supports' ends lie where the other law's density has its kink."""
    with ctx.workprec(64):
        found = Oracle(lopsided(), (0.5, 1.25, 0.5)).mass("p")
    assert found.overlaps(arb(1))
    assert float(found.rad()) < 1e-12


def test_ends_move_with_their_parameters():
    oracle = Oracle(DECLARED["triangular"](), (4.0, 3.0))
    assert oracle.end_rounding(-1.0) == pytest.approx(7 * 2.0**-52)
    assert oracle.end_rounding(0.0) == 0.0
    assert oracle.end_rounding(0.5) == 0.0


def test_mass_of_a_short_end_keeps_its_digits():
    """Triangular noise: s^2/(2 w^2), nothing larger is subtracted."""
    facts = Facts()
    term = Term(1 / w, log(1 - (x - s) / w))
    found = mass((term,), x, w, w + s, facts, False)
    assert simplify(found - s**2 / (2 * w**2)) == 0
    value = found.subs({w: Rational(10), s: Rational(1, 10)})
    assert value == Rational(1, 20000)
    assert not found.is_Add


@pytest.mark.few(1, 4)
@pytest.mark.parametrize(("shape", "direction"), [
    (1.3, "remove"), (0.7, "remove"), (0.7, "add"), (2.0, "remove"), (2.0, "add"), (1.3, "add"),
])  # fmt: skip
def test_one_step_is_certified_next_to_a_zero_or_a_pole(shape, direction):
    pair = mechanism("life", p=exp(-x), q=a * x ** (a - 1) * exp(-(x**a)), variable=x,
                     support=(0, oo), parameters=(a,))  # fmt: skip
    epsilon = 0.3
    found = mechc.load(pair)(a=shape).delta(epsilon, direction=direction, certified=True)
    # delta is a sum of differences of survival functions between places where L = epsilon
    sign = 1.0 if direction == "remove" else -1.0
    places = np.logspace(-14, 2.5, 600_000)

    def gap(y):
        return sign * (y**shape - y - math.log(shape) - (shape - 1) * np.log(y)) - epsilon

    kept = [np.exp(-np.append(0.0, places)), np.exp(-(np.append(0.0, places) ** shape))]
    p, q = (-np.diff(survival) for survival in kept[:: int(sign)])
    exact = math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0)[gap(places) > -1.0])
    assert found.lower <= exact + 1e-9 and exact - 1e-9 <= found.upper
    assert found.upper - found.lower < 1e-12


def test_one_step_is_certified_where_doubles_have_no_nodes():
    pair = mechanism("tails", p=exp(-(x**2) / (2 * w**2)) / (sqrt(2 * pi) * w),
                     q=h / (pi * (h**2 + x**2)), variable=x, parameters=(w, h))  # fmt: skip
    event = mechc.load(pair)(w=1.3213259766733112, h=1.1824192544115661)
    found = event.delta(0.5, direction="add", certified=True)
    edges = np.append(np.linspace(0.0, 50.0, 2_000_000), np.logspace(np.log10(50.1), 12, 10_000))
    p = -np.diff(norm.sf(edges / 1.3213259766733112))
    q = np.diff(np.arctan(edges / 1.1824192544115661)) / math.pi
    exact = 2.0 * math.fsum(np.maximum(q - math.exp(0.5) * p, 0.0))
    assert abs(found.upper - exact) < 1e-9 and found.upper - found.lower < 1e-14


def test_a_switch_in_a_logarithm():
    """Logarithms of Laplace noise switch where log x does; a one-to-one map changes no privacy."""

    def density(mean):
        return exp(-Abs(log(x) - mean) / a) / (2 * a * x)

    pair = mechanism("log_laplace", variable=x, p=density(m), q=density(0), support=(0, oo),
                     parameters=(m, a), about="Logarithms are Laplace.")  # fmt: skip
    found = mechc.load(pair)(m=0.3, a=1.5).delta(0.05)
    plain = mechc.load("laplace")(scale=1.5, sensitivity=0.3).delta(0.05)
    assert found.lower <= plain.upper and plain.lower <= found.upper
    assert found.upper - found.lower < 1e-9
