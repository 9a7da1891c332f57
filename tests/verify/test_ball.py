"""The ball oracle against closed forms that owe nothing to it."""

import math

import pytest

pytest.importorskip("flint")

from flint import acb, arb, ctx
from sympy import N, Rational, Sum, Symbol, exp, expand, log, tanh

import mechc
from mechc.declare import additive, real
from mechc.errors import MechcError
from mechc.verify.balls.density import difference
from mechc.verify.balls.expressions import constant
from mechc.verify.balls.infinity import AtInfinity, Unknown
from mechc.verify.balls.oracle import Oracle
from mechc.verify.recheck.declaration import number

pytestmark = pytest.mark.oracle


def oracle(name, *theta, sampled=False):
    mechanism = mechc.load(name)
    return Oracle((mechc.poisson(mechanism) if sampled else mechanism).declaration, theta)


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(96):
        yield


Z = [0, -1, 0.5, 3.25, -2.5, complex(0.75, 2.0), complex(-0.5, 11.0)]


@pytest.mark.parametrize("z", Z)
def test_moments_of_gaussians(z):
    found = oracle("gaussian", 1.25, 0.75).moment(acb(z))
    mu2 = (arb(0.75) / arb(1.25)) ** 2
    assert found.overlaps((mu2 * acb(z) * (acb(z) + 1) / 2).exp())
    assert found.rel_accuracy_bits() > 50


@pytest.mark.parametrize("z", Z)
def test_moments_of_logistic_laws(z):
    d = arb(3) / 4
    half = acb(z) + 0.5
    exact = (half * d).sinh() / (2 * half * (d / 2).sinh()) if z != complex(-0.5) else None
    assert oracle("logistic", 4.0, 3.0).moment(acb(z)).overlaps(exact)


@pytest.mark.parametrize("z", [300.0, -701.0, complex(1400, 3.0)])
def test_moments_of_logistic_laws_at_far_tilts(z):
    """Where 1 + exp(x) is large in both laws, only the ratio keeps digits on wide balls."""
    d, half = arb(3) / 4, acb(z) + 0.5
    found = oracle("logistic", 4.0, 3.0).moment(acb(z))
    assert found.overlaps((half * d).sinh() / (2 * half * (d / 2).sinh()))
    assert found.rel_accuracy_bits() > 50


@pytest.mark.parametrize("t", [0.33, complex(0.332, 2.0)])
def test_moments_next_to_an_end_of_the_strip(t):
    """Exponents of both laws nearly cancel there: N(0, 1) against N(0, 1/4) ends at 1/3."""
    z = acb(t)
    found, exact = oracle("gaussian_scale", 1.0, 0.5).moment(z), (-z * arb(2).log()).exp()
    assert found.overlaps(exact / (1 - 3 * z).sqrt())
    assert found.rel_accuracy_bits() > 50


@pytest.mark.parametrize("z", Z)
def test_moments_of_laplace_laws(z):
    d, z = arb(3) / 4, acb(z)
    exact = ((1 + z) * (z * d).exp() + z * (-(1 + z) * d).exp()) / (1 + 2 * z)
    assert exact.overlaps(oracle("laplace", 4.0, 3.0).moment(z)) or not exact.is_finite()


def test_heavy_tails_keep_relative_accuracy():
    mass = oracle("cauchy", 1.0, 1.0).mass("q", lo=1e30)
    # 1/(pi x) to first order, the next one is 1e-60 smaller
    assert abs(mass * arb.pi() * arb(1e30) - 1) < 1e-20


def test_student_tail_against_the_incomplete_beta_function():
    nu, x = arb(3), arb(2.5)
    exact = (nu / (nu + x * x)).beta_lower(nu / 2, arb(1) / 2, regularized=True) / 2
    assert oracle("student_t", 3.0, 1.0, 1.0).mass("q", lo=2.5).overlaps(exact)


def test_a_strip_ends():
    # N(0, 1) against N(0, 1/4): finite for t < 1/3
    scales = oracle("gaussian_scale", 1.0, 0.5)
    assert scales.moment(acb(0.33)).is_finite()
    with pytest.raises(MechcError):
        scales.moment(acb(0.34))


@pytest.mark.few(0, 12, 26, 36, 48, 60)
@pytest.mark.parametrize("sampled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", mechc.available())
def test_masses_are_one(name, sampled):
    from mechc.symbolic.typical import typical_vectors

    mechanism = mechc.load(name)
    declaration = (mechc.poisson(mechanism) if sampled else mechanism).declaration
    (theta,) = typical_vectors(declaration.parameters, 1)
    bound = Oracle(declaration, theta)
    try:
        bound.mass("p"), bound.mass("q"), bound.moment(acb(0))
    except MechcError as refusal:
        pytest.skip(f"no enclosure: {refusal}")  # refused, never wrong
    for law in "pq":
        # doubles that stand for weights add up to one only up to rounding
        assert abs(bound.mass(law) - 1) < 2.0**-50
        assert bound.mass(law).rad() < 1e-20
    assert abs(bound.moment(acb(0)) - (1 - bound.infinite_mass())) < 2.0**-50


def test_a_sample_has_a_mass_where_its_first_term_is_nothing_beside_the_other():
    """Far out on one side exp(-exp(-x)) of the shifted law, from which logs were taken, is less."""
    declaration = mechc.poisson(mechc.load("gumbel")).declaration
    mass = Oracle(declaration, (3.3682, 0.6145, 0.08155)).mass("p")
    assert abs(mass - 1) < 2.0**-50 and mass.rad() < 1e-20


def test_lattice_moments_of_the_discrete_laplace():
    a, z = arb(0.5), acb(0.75, 1.5)
    up, down = 1 / (1 + (-a).exp()), (-a).exp() / (1 + (-a).exp())
    exact = up * (z * a).exp() + down * (-z * a).exp()
    assert oracle("discrete_laplace", 0.5, 1.0).moment(z).overlaps(exact)


def test_skellam_masses_against_poisson_differences():
    rate = 2.0
    difference = sum(
        math.exp(-2 * rate) * rate ** (n + n + 3) / math.factorial(n) / math.factorial(n + 3)
        for n in range(60)
    )
    assert float(oracle("skellam", rate, 1.0).log_density("q", 3.0).exp().mid()) == pytest.approx(
        difference, rel=1e-13
    )


def test_undecided_switches_give_unions():
    from sympy import Abs

    from mechc.verify.balls.expressions import function

    x = Symbol("x", real=True)
    ball = function(Abs(x), x, {})(arb(0, 1), False)
    assert ball.contains(0.5) and ball.contains(0)
    assert constant(Abs(x).subs(x, -2), {}) == 2


@pytest.mark.parametrize("z", [0, -1, 0.25 + 1j])
def test_ends_where_a_density_vanishes(z):
    """Parabolas on shifted intervals: moments against mpmath, whose rule clusters at the ends."""
    from mpmath import log, mp, quad

    x = real("x")
    declared = additive(
        "parabola", variable=x, sensitivity=Rational(1, 3), parameters=(), support=(-1, 1),
        noise=Rational(3, 4) * (1 - x**2),
    )  # fmt: skip
    here = Oracle(declared, ())
    with ctx.workprec(88):
        found = here.moment(acb(z))
    with mp.workdps(25):
        shift = mp.mpf(1) / 3
        p, q = (lambda v: 0.75 * (1 - (v - shift) ** 2)), (lambda v: 0.75 * (1 - v**2))
        truth = quad(lambda v: p(v) * mp.exp(z * log(p(v) / q(v))), [shift - 1, 0, 1])
    assert abs(complex(found.real.mid(), found.imag.mid()) - complex(truth)) < 1e-13
    assert float(found.real.rad()) < 1e-13
    assert here.is_bounded(0.9) and here.is_bounded(-1.9)


def test_atoms_do_not_depend_on_the_precision_of_the_first_caller():
    here = oracle("pure_dp", 5.0, 0.001, sampled=True)
    with ctx.workprec(20):
        rows = here.atoms
    assert all(float(mass.rad()) < 1e-60 for _, *masses in rows for mass in masses)


@pytest.mark.parametrize("known", [("gaussian", 1.3, 1.0), ("student_t", 3.0, 1.2, 1.0)])
def test_a_rough_question_asked_first_leaves_the_digits_of_a_fine_one(known):
    def digits(rough):
        pair = oracle(*known)
        with ctx.workprec(40):
            assert pair.case
            if rough:
                pair.parts()
        with ctx.workprec(200):
            if rough:
                pair.moment_bound(arb(0.5))
            found = pair.moment(acb(0.5)).real
            return str(found.mid().man_exp()), str(found.rad().man_exp())

    assert digits(rough=True) == digits(rough=False)


def test_joined_logarithms_are_the_same_function():
    x, nu = Symbol("x", real=True), Symbol("nu", positive=True)
    one, other = -(nu + 1) / 2 * log(1 + (x - 3) ** 2 / nu), -(nu + 1) / 2 * log(1 + x**2 / nu)
    joined = difference(one, other, x)
    assert len(joined.atoms(log)) == 1
    for place in (Rational(-70, 3), Rational(1, 7), Rational(5, 2), Rational(10**6)):
        values = {x: place, nu: Rational(7, 3)}
        gap = N((joined - (one - other)).subs(values), 30)
        assert abs(gap) < 1e-25


def test_other_logarithms_stay():
    x = Symbol("x", real=True)
    one, other = log(1 + 2 * x**2) - x, log(1 + x**2)
    assert difference(one, other, x) == expand(one - other)


@pytest.mark.parametrize(("last", "exact"), [(0, arb(0)), (1, arb(1)), (4, arb(25) / 12)])
def test_a_sum_over_no_integers_is_zero(last, exact):
    k, n = Symbol("k", integer=True), Symbol("theta_0", integer=True)
    harmonic = Sum(1 / k, (k, 1, n))
    assert constant(harmonic, {n: arb(last)}).overlaps(exact)
    assert abs(number(harmonic, (last,)) - float(exact)) < 1e-14


def test_what_falls_before_it_grows_is_not_bounded_by_its_first_value():
    """exp(y/1000)/y^5 is 1 at y = 1 and 1e-15 at y = 1500."""
    y = Symbol("y", positive=True)
    with pytest.raises(Unknown):
        AtInfinity(y, arb(1)).order(tanh(exp(y / 1000) / y**5))
