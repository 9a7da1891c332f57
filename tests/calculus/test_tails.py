"""Strips of finite moments, lattices of losses, symmetry."""

import mpmath
import pytest
import sympy as sp
from calculus_zoo import SHIPPED, SMOOTH, UNSEEN, cases, density, derived, vectors

from mechc.calculus import derive, normalise
from mechc.calculus.types import Closed, Unavailable
from mechc.declare import mechanism, parameter, positive, probabilities, rate, real
from mechc.symbolic.evaluate import evaluate

ENTIRE = cases(
    *(m for m in SHIPPED if m != "gaussian_scale"),
    *(f"poisson:{m}" for m in SMOOTH if m != "gaussian_scale"),
    *(f"add:poisson:{m}" for m in ("gaussian", "laplace", "student_t", "subbotin")),
    "hyperbolic_secant", "huber", "scale_mixture", "quartic", "poisson_mass",
    "two_sided_factorial", "poisson:two_sided_factorial",
)  # fmt: skip


def strip(name, **values):
    """The strip of the first case whose condition the given parameters meet."""
    calculus = derived(name)
    given = {p.symbol: mpmath.mpf(values[p.name]) for p in calculus.pair.parameters}
    return tuple(evaluate(end, given) for end in calculus.strip)


def test_the_farther_of_two_moves_bounds_the_strip():
    """Laws exp(-b x) against exp(-c x): E_P[exp(tL)] is finite for t < b/(c - b), b the least."""
    x, w = real("x"), rate("w")
    a, b = (parameter(name, 0, typical=(0.5, 2)) for name in ("a", "b"))
    p = w * (a + 1) * sp.exp(-(a + 1) * x) + (1 - w) * (b + 1) * sp.exp(-(b + 1) * x)
    c = a + b + 1
    pair = mechanism("moves", variable=x, p=p, q=c * sp.exp(-c * x), parameters=(a, b, w),
                     support=(0, sp.oo))  # fmt: skip
    calculus = derive(normalise(pair))
    first, second, third = (p.symbol for p in calculus.pair.parameters)
    for one, two in ((0, 2), (2, 0), (1, 2), (1, 1)):
        ends = [evaluate(end, {first: one, second: two, third: 0.5}) for end in calculus.strip]
        assert ends == [-mpmath.inf, mpmath.mpf(min(one, two) + 1) / max(one, two)]


@pytest.mark.parametrize("name", ENTIRE)
def test_all_moments_are_finite(name):
    calculus = derived(name)
    for case in calculus.cases:
        for vector in vectors(calculus, case):
            ends = [evaluate(end, vector) for end in calculus.strip]
            assert ends == [-mpmath.inf, mpmath.inf]


def test_gaussian_scale():
    """N(0, sp^2) against N(0, sq^2) with sp > sq: t < sq^2/(sp^2 - sq^2); reversed otherwise."""
    assert strip("gaussian_scale", sp=1, sq=0.5) == (-mpmath.inf, mpmath.mpf(1) / 3)
    assert strip("gaussian_scale", sp=0.5, sq=1) == (-mpmath.mpf(4) / 3, mpmath.inf)
    assert strip("gaussian_scale", sp=1, sq=1) == (-mpmath.inf, mpmath.inf)
    remove = strip("poisson:gaussian_scale", sp=1, sq=0.5, sampling_rate=0.1)
    assert remove == (-mpmath.inf, mpmath.mpf(1) / 3)
    add = strip("add:poisson:gaussian_scale", sp=1, sq=0.5, sampling_rate=0.1)
    assert add == (-mpmath.mpf(4) / 3, mpmath.inf)


def test_gumbel():
    with mpmath.workdps(30):
        lower, upper = strip("gumbel", b=1, sensitivity=1)
        assert mpmath.almosteq(lower, -mpmath.e / (mpmath.e - 1))
        assert upper == mpmath.inf


def test_a_rate_of_one_is_no_limit_of_smaller_rates():
    given = {"b": 1, "sensitivity": 1}
    assert strip("poisson:gumbel", **given, sampling_rate=1) == strip("gumbel", **given)
    assert strip("poisson:gumbel", **given, sampling_rate=0.99) == (-mpmath.inf, mpmath.inf)
    wide = strip("poisson:gaussian_scale", sp=0.5, sq=1, sampling_rate=1)
    assert wide == strip("gaussian_scale", sp=0.5, sq=1)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("triangular", {"h": 4, "sensitivity": 1}, (-2, 1)),
        ("beta_pair", {}, (-2, 1)),
        ("zero_inside", {}, (-mpmath.inf, 0.5)),
        ("two_normals", {"b": 2, "c": 1, "sensitivity": 1}, (-mpmath.inf, mpmath.mpf(1) / 3)),
        ("gamma_scale", {"b": 2, "c": 1, "k": 1}, (-mpmath.inf, 1)),
        ("geometric", {"b": 1, "c": 2}, (-mpmath.inf, 1)),
        ("exponential_against_weibull", {"b": 1}, (-mpmath.inf, 0)),
        ("laplace_against_normal", {"b": 1, "c": 1, "sensitivity": 1}, (-mpmath.inf, 0)),
    ],
)  # fmt: skip
def test_finite_ends(name, values, expected):
    found = strip(name, **values)
    assert all(mpmath.almosteq(a, b) or a == b for a, b in zip(found, expected, strict=True))


@pytest.mark.slow
def test_raised_cosine():
    assert strip("raised_cosine", h=4, sensitivity=1) == (-1.5, 0.5)


@pytest.mark.parametrize("name", ["gaussian_scale", "two_normals"])
def test_the_integrand_decays_inside_and_grows_outside(name):
    p, q = density(name, "p"), density(name, "q")
    calculus = derived(name)
    for case in calculus.cases:
        for vector in vectors(calculus, case, 1):
            upper = evaluate(calculus.strip[1], vector)
            if mpmath.isinf(upper):
                continue
            for t, decays in ((upper * 0.99, True), (upper * 1.01, False)):
                near, far = (
                    (1 + t) * mpmath.log(p(v, vector)) - t * mpmath.log(q(v, vector))
                    for v in (mpmath.mpf(4000), mpmath.mpf(8000))
                )
                assert (far < near) == decays


@pytest.mark.parametrize("t", [-9, -2, 1, 8])
def test_factorial_tails_beat_every_moment(t):
    """The terms p^(1+t) q^(-t) of the sum over integers: far out ever smaller, on both sides."""
    name = "two_sided_factorial"
    p, q = density(name, "p"), density(name, "q")
    for case in derived(name).cases:
        for vector in vectors(derived(name), case, 1):
            for side in (-1, 1):
                terms = [
                    (1 + t) * mpmath.log(p(side * n, vector)) - t * mpmath.log(q(side * n, vector))
                    for n in (1000, 2000, 4000)
                ]
                assert terms[0] > 2 * terms[0] > terms[1] > 2 * terms[1] > terms[2]


def test_what_happens_at_the_ends_is_told():
    assert any("grows like" in sentence for sentence in derived("gaussian").tails)
    assert any("tends to" in sentence for sentence in derived("laplace").tails)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("discrete_laplace", {"a": 2, "sensitivity": 3}, (-6, 4)),
        ("discrete_gaussian", {"sigma": 2, "sensitivity": 3}, (-1.125, 0.75)),
        ("approximate_dp", {"epsilon": 2, "delta": 0.1}, (2, 4)),
        ("randomized_response", {"epsilon": 2, "categories": 5}, (2, 2)),
        ("one_sided", {"b": 2, "sensitivity": 3}, (1.5, 1)),
    ],
)
def test_lattice(name, values, expected):
    calculus = derived(name)
    given = {p.symbol: mpmath.mpf(values[p.name]) for p in calculus.pair.parameters}
    assert isinstance(calculus.lattice, Closed)
    assert tuple(evaluate(e, given) for e in calculus.lattice.expr) == expected


def test_two_losses_are_always_a_lattice():
    lattice = derived("poisson:uniform").lattice
    assert isinstance(lattice, Closed)


@pytest.mark.parametrize(
    "name", ["gaussian", "laplace", "poisson:randomized_response", "poisson:discrete_laplace"]
)
def test_no_lattice(name):
    assert isinstance(derived(name).lattice, Unavailable)


SYMMETRIC = [
    "gaussian", "laplace", "logistic", "student_t", "cauchy", "subbotin", "discrete_laplace",
    "discrete_gaussian", "randomized_response", "approximate_dp", "uniform", "hyperbolic_secant",
    "huber", "scale_mixture", "triangular", "quartic", "beta_pair",
]  # fmt: skip


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric(name):
    assert derived(name).symmetric


@pytest.mark.parametrize("name", ["gaussian_scale", "gumbel", "one_sided", "poisson:gaussian",
                                  "asymmetric_laplace", "two_normals"])  # fmt: skip
def test_not_symmetric(name):
    assert not derived(name).symmetric


def test_typical_weights_that_are_alike_make_no_mirror_image():
    """The checks use equal weights, at which alone x -> -x carries this P to this Q."""
    x, (v, w) = real("x"), probabilities("w", 2)
    p, q = (a * sp.exp(-((x - m) ** 2)) + b * sp.exp(-((x - 3 * m) ** 2))
            for a, b, m in ((v, w, 1), (w, v, -1)))  # fmt: skip
    pair = mechanism("swapped", variable=x, p=p / sp.sqrt(sp.pi), q=q / sp.sqrt(sp.pi),
                     parameters=(v, w))  # fmt: skip
    assert not derive(normalise(pair)).symmetric


def test_what_vanishes_at_typical_parameters_makes_no_mirror_image():
    """Next to s = 0.03 the weights differ by less than 1e-100, at s = 1 by 0.07."""
    x, s = real("x"), positive("s", typical=(0.01, 0.05))
    one, other = (sp.exp(-((x - m) ** 2)) / sp.sqrt(sp.pi) for m in (1, -1))
    w, v = sp.Rational(3, 4), sp.Rational(1, 4) - sp.exp(-1 / s**2) / 5
    pair = mechanism("nearly", variable=x, p=w * one + (1 - w) * other,
                     q=v * one + (1 - v) * other, parameters=(s,))  # fmt: skip
    assert not derive(normalise(pair)).symmetric


def test_names_are_all_known():
    assert set(SYMMETRIC) <= {*SHIPPED, *UNSEEN}


def _laplace(s):
    return sp.exp(-abs(real("x")) / s) / (2 * s)


def _normal(s):
    return sp.exp(-(real("x") ** 2) / (2 * s**2)) / (sp.sqrt(2 * sp.pi) * s)


def _student(s):
    return (
        (1 + real("x") ** 2 / s) ** (-(s + 1) / 2)
        * sp.gamma((s + 1) / 2)
        / (sp.sqrt(sp.pi * s) * sp.gamma(s / 2))
    )


@pytest.mark.few(0)
@pytest.mark.parametrize("law", [_laplace, _normal, _student])
def test_weights_of_zero_leave_the_tails_of_the_rest(law):
    """A mixture without some of its parts is the pair that is declared without them."""
    shares, x, parts = probabilities("w", 3), real("x"), [law(s) for s in (sp.S.Half, 1, 3)]

    def calculus_of(p):
        names = [s for s in shares if s in p.free_symbols]
        return derive(normalise(mechanism("p", variable=x, p=p, q=law(2), parameters=names)))

    def told(calculus, *weights):
        """The strip, and limits of the loss at both infinities where a formula says them."""
        given = dict(zip((p.symbol for p in calculus.pair.parameters), weights, strict=True))
        (case,) = (c for c in calculus.cases if c.condition.xreplace(given) == sp.true)
        ends = (case.regions[0].loss_lo, case.regions[-1].loss_hi)
        return [e if e is None else evaluate(e, given) for e in (*calculus.strip, *ends)]

    mixture = calculus_of(sum(w * p for w, p in zip(shares, parts, strict=True)))
    alone = [told(calculus_of(p)) for p in parts]
    heaviest = 0 if law is _student else 2
    for weights, leads in (
        *(([int(i == place) for i in range(3)], place) for place in range(3)),
        ([0.5 * (i != heaviest) for i in range(3)], 1),
        ([0.25, 0.25, 0.5], heaviest),
    ):
        (below, above, *ends), (least, most, *limits) = told(mixture, *weights), alone[leads]
        assert least <= below < 0 < above <= most
        assert all(a is None or b is None or a == b for a, b in zip(ends, limits, strict=True))
