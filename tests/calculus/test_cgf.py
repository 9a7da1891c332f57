"""Closed generating functions against mpmath integrals and sums of the declared densities."""

import mpmath
import pytest
from calculus_zoo import UNSEEN, density, derived, vectors
from sympy import Symbol

from mechc.calculus.cgf import cumulants_of
from mechc.calculus.types import Closed, Numeric
from mechc.symbolic.evaluate import evaluate

CONTINUOUS = [
    "gaussian", "laplace", "logistic", "gumbel", "asymmetric_laplace", "one_sided", "two_normals",
    "gamma_scale", "gaussian_scale", "uniform", "poisson:uniform",
]  # fmt: skip
LATTICE = ["discrete_laplace", "poisson_mass", "geometric"]
FINITE = [
    "randomized_response", "approximate_dp", "poisson:randomized_response",
    "poisson:approximate_dp",
]  # fmt: skip


def closed_cases(name):
    calculus = derived(name)
    found = [(calculus, case) for case in calculus.cases if isinstance(case.cgf, Closed)]
    assert found
    return found


def where(calculus, vector):
    """Complex points inside the strip, not symmetric to each other."""
    lower, upper = (evaluate(end, vector) for end in calculus.strip)
    left, right = max(lower, mpmath.mpf(-3)), min(upper, mpmath.mpf(2))
    return [
        mpmath.mpc(left + f * (right - left), t)
        for f, t in ((mpmath.mpf("0.31"), mpmath.mpf("0.8")), (mpmath.mpf("0.87"), -2))
    ]


def breaks(case, vector, far=400):
    ends = {evaluate(e, vector) for r in case.regions for e in (r.lo, r.hi)}
    inner = sorted(e for e in ends if mpmath.isfinite(e))
    around = [inner[0] - 60, *inner, inner[-1] + 60] if inner else [-60, -10, 0, 10, 60]
    # no tail here but Cauchy's reaches farther, and exp(exp(x)) must not be asked for
    return [-far, *around, far]


def ratio(p, q, z):
    return p * mpmath.exp(z * mpmath.log(p / q)) if p > 0 and q > 0 else mpmath.mpf(0)


@pytest.mark.few(5, 9)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    p, q = density(name, "p"), density(name, "q")
    with mpmath.workdps(20):
        for calculus, case in closed_cases(name):
            (vector,) = vectors(calculus, case, 1)
            for z in where(calculus, vector):
                truth = mpmath.quad(
                    lambda v, z=z, vector=vector: ratio(p(v, vector), q(v, vector), z),
                    breaks(case, vector),
                )
                found = mpmath.exp(evaluate(case.cgf.expr, {**vector, calculus.z: z}))
                assert abs(found - truth) <= 1e-9 * abs(truth)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LATTICE)
def test_lattice(name):
    p, q = density(name, "p"), density(name, "q")
    with mpmath.workdps(30):
        for calculus, case in closed_cases(name):
            (vector,) = vectors(calculus, case, 1)
            for z in where(calculus, vector):
                truth = mpmath.fsum(
                    ratio(p(mpmath.mpf(m), vector), q(mpmath.mpf(m), vector), z)
                    for m in range(-300, 300)
                )
                found = mpmath.exp(evaluate(case.cgf.expr, {**vector, calculus.z: z}))
                assert abs(found - truth) <= 1e-12 * abs(truth)


@pytest.mark.parametrize("name", FINITE)
def test_finite(name):
    with mpmath.workdps(30):
        for calculus, case in closed_cases(name):
            for vector in vectors(calculus, case):
                masses = [
                    tuple(sum(evaluate(t.weight, vector) for t in side) for side in (a.p, a.q))
                    for a in calculus.pair.cases[0].atoms
                ]
                for z in where(calculus, vector):
                    truth = sum(ratio(p, q, z) for p, q in masses)
                    found = mpmath.exp(evaluate(case.cgf.expr, {**vector, calculus.z: z}))
                    assert abs(found - truth) <= mpmath.mpf(10) ** -25 * abs(truth)


def test_formulas_of_the_literature():
    with mpmath.workdps(30):
        for name, formula in (
            ("gaussian", lambda v, z: v["sensitivity"] ** 2 / v["sigma"] ** 2 * z * (z + 1) / 2),
            ("laplace", laplace),
            ("logistic", logistic),
            ("approximate_dp", worst_case),
        ):
            calculus, case = closed_cases(name)[0]
            (vector,) = vectors(calculus, case, 1)
            values = {s.name: v for s, v in vector.items()}
            for z in (mpmath.mpc("0.3", "0.7"), mpmath.mpc("-0.5", "0.2"), mpmath.mpf("-0.5")):
                found = mpmath.exp(evaluate(case.cgf.expr, {**vector, calculus.z: z}))
                assert abs(found / mpmath.exp(formula(values, z)) - 1) < 1e-25


def laplace(v, z):
    d = v["sensitivity"] / v["scale"]
    if z == mpmath.mpf("-0.5"):
        return mpmath.log(mpmath.exp(-d / 2) * (1 + d / 2))
    return mpmath.log(((1 + z) * mpmath.exp(z * d) + z * mpmath.exp(-(1 + z) * d)) / (1 + 2 * z))


def logistic(v, z):
    d = v["sensitivity"] / v["scale"]
    if z == mpmath.mpf("-0.5"):
        return mpmath.log(d / 2 / mpmath.sinh(d / 2))
    return mpmath.log(mpmath.sinh((z + 0.5) * d) / ((2 * z + 1) * mpmath.sinh(d / 2)))


def worst_case(v, z):
    e, delta = v["epsilon"], v["delta"]
    top = mpmath.exp((z + 1) * e) + mpmath.exp(-z * e)
    return mpmath.log((1 - delta) * top / (1 + mpmath.exp(e)))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["student_t", "poisson:gaussian", "hyperbolic_secant"])
def test_no_rule_is_said(name):
    (case,) = derived(name).cases
    assert isinstance(case.cgf, Numeric)
    assert "quadrature" in case.cgf.reason


@pytest.mark.few(0, 4)
@pytest.mark.parametrize("name", ["gaussian", "laplace", "logistic", "discrete_laplace", "gumbel"])
def test_cumulants_are_derivatives_of_the_generating_function(name):
    calculus, case = closed_cases(name)[0]
    (vector,) = vectors(calculus, case, 1)
    with mpmath.workdps(40):
        taylor = mpmath.taylor(
            lambda z: evaluate(case.cgf.expr, {**vector, calculus.z: z}), 0, 4, method="quad",
            radius=mpmath.mpf("0.02"),
        )  # fmt: skip
        for order, value in enumerate(cumulants_of(case.cgf, calculus.z).expr, start=1):
            truth = mpmath.re(taylor[order]) * mpmath.factorial(order)
            assert abs(evaluate(value, vector) - truth) < 1e-12 * (1 + abs(truth))


@pytest.mark.few(0, 1, 4)
@pytest.mark.parametrize(
    "name",
    ["uniform", "one_sided", "triangular", "huber", "approximate_dp",
     pytest.param("raised_cosine", marks=pytest.mark.slow)],
)  # fmt: skip
def test_infinite_mass(name):
    calculus = derived(name)
    for case in calculus.cases:
        assert isinstance(case.infinite_mass, Closed | Numeric)
        if not isinstance(case.infinite_mass, Closed):
            continue
        (vector,) = vectors(calculus, case, 1)
        with mpmath.workdps(20):
            found = sum(evaluate(part, vector) for part in case.infinite_mass.expr)
            assert abs(found - mass_where_q_vanishes(name, calculus, case, vector)) < 1e-12


def mass_where_q_vanishes(name, calculus, case, vector):
    if case.atoms:
        return sum(evaluate(t.weight, vector) for a in case.atoms if not a.q for t in a.p)
    p = density(name, "p")
    total = mpmath.mpf(0)
    for region in case.regions:
        if region.kind == "p_only":
            ends = [evaluate(region.lo, vector), evaluate(region.hi, vector)]
            total += mpmath.quad(lambda v: p(v, vector), ends)
    return total


@pytest.mark.parametrize(
    "name", ["gaussian", "laplace", "logistic", "cauchy", "gumbel", "asymmetric_laplace", "huber"]
)
@pytest.mark.parametrize("side", ["p", "q"])
def test_distribution_functions(name, side):
    calculus = derived(name)
    f = density(name, side)
    x = calculus.pair.variable
    for case in calculus.cases:
        entry = case.cdf_p if side == "p" else case.cdf_q
        assert isinstance(entry, Closed)
        (vector,) = vectors(calculus, case, 1)
        far = mpmath.inf if name == "cauchy" else 400
        inner = breaks(case, vector)[1:-1]
        with mpmath.workdps(20):
            for at in (inner[1] - 3, (inner[1] + inner[-2]) / 2, inner[-2] + 2):
                path = [-far, *(v for v in inner if v < at), at]
                truth = mpmath.quad(lambda v, vector=vector: f(v, vector), path)
                assert abs(evaluate(entry.expr, {**vector, x: at}) - truth) < 1e-9


def test_symbols_are_exported():
    assert derived("gaussian").z == Symbol("z")
    assert set(UNSEEN)
