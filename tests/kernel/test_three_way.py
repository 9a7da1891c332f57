"""Every mechanism three ways: declaration in mpmath, emitted text in mpmath, compiled kernel.

A (the definition) against B (the text in high precision) finds compiler bugs; B against C (the
compiled kernel) finds lost digits.
"""

import itertools
from functools import cache

import mpmath
import numpy as np
import pytest
from built_in import built_in, declaration, source
from families import FAMILIES
from highprecision import module
from mpmath import mp, mpf

from mechc.calculus import derive, normalise
from mechc.kernel.lower.samples import Sample
from mechc.symbolic.evaluate import holds
from mechc.symbolic.typical import typical_values

QUICK = ("gaussian", "laplace", "student_t", "poisson(gaussian)", "approximate_dp")
TRANSFORMED = (
    "without_replacement(gaussian)", "without_replacement(laplace)",
    "without_replacement(student_t)", "without_replacement(discrete_laplace)",
    "without_replacement(randomized_response)", "without_replacement(uniform)",
    "with_replacement(gaussian)", "random_sensitivity(logistic)", "random_sensitivity(laplace)",
    "random_sensitivity(discrete_laplace)", "random_sensitivity(cauchy)", "truncate(gaussian)",
    "truncate(laplace)", "group(laplace)", "group(discrete_gaussian)", "shift(logistic)",
    "poisson(without_replacement(gaussian))",
)  # fmt: skip
SAMPLED = [f"poisson({name})" for name in built_in()]
OTHERS = [name for name in (*built_in(), *SAMPLED, *TRANSFORMED) if name not in QUICK]
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]

FIRST_VECTOR = 50
"""Well after the vectors by which the compiler chooses among forms."""

LITERALS = 4e-16
"""What rounding the constants of the text to doubles may do to its values."""

LOOSE = {
    "binomial": 5e-14,
    "skellam": 5e-13,
    "exponentially_modified_gaussian": 1e-13,
    "random_sensitivity(logistic": 5e-13,
    "random_sensitivity(cauchy": 1.1e-12,
    "poisson(skellam)": 2e-11,
}
"""About twice what is lost. By name: log factorials; log Bessel functions of neighbouring orders;
logarithms of scaled error functions; weights that add up to one but for rounding, where that loss
is next to zero; a small loss as a difference of logs, where no other form is a number far out."""

APART = {"random_sensitivity(logistic)": 2e-13}
"""Arrays against scalars: constants are taken out of the loop, and the loss is ill-conditioned."""

INVERSES = {"poisson(skellam)": 2e-11}
"""Residuals of inverses: no better than the loss."""

NUDGE = mpf("1e-20")


def loose(name, usual):
    """The error accepted of a mechanism, sampled or not."""
    base = name.removeprefix("poisson(").removesuffix(")")
    return LOOSE.get(name, LOOSE.get(base, usual))


@cache
def derived(name):
    return derive(normalise(declaration(name)))


def samples(name, count=5):
    """(case, sample) at irrational parameter vectors that the compiler has not seen."""
    calculus = derived(name)
    for case in calculus.cases:
        vectors = typical_values(calculus.pair.parameters, FIRST_VECTOR + count, case.condition)
        for vector in vectors[FIRST_VECTOR:]:
            theta = {symbol: mpf(float(value)) for symbol, value in vector.items()}
            if holds(case.condition, theta):
                yield calculus, case, Sample(calculus, theta)


def points(calculus, case, sample):
    """(x, p terms, q terms) over all regions and atoms of a case."""
    for region in case.regions:
        for x in sample.points(region):
            yield x, region.p, region.q
    if calculus.pair.measure == "finite":
        for atom in case.atoms:
            yield sample.value(atom.x), atom.p, atom.q


@cache
def definitions(name):
    """(function, x, theta, value, condition) from the declaration, at 50 digits.

    The condition is what a relative change of x does to the value.
    """
    return tuple(_definitions(name))


def _definitions(name):
    with mp.workdps(50):
        for calculus, case, sample in samples(name):
            theta = [float(v) for v in sample.theta.values()]
            for x, p_terms, q_terms in points(calculus, case, sample):
                p, q = sample.log(p_terms, x), sample.log(q_terms, x)
                near = x * (1 + NUDGE)
                p_near, q_near = sample.log(p_terms, near), sample.log(q_terms, near)
                yield "log_p", float(x), theta, p, slope(p, p_near)
                yield "log_q", float(x), theta, q, slope(q, q_near)
                if mpmath.isfinite(p) or mpmath.isfinite(q):
                    yield "loss", float(x), theta, p - q, slope(p - q, p_near - q_near)


def slope(value, near):
    return float(abs(near - value) / NUDGE) if mpmath.isfinite(value) else 0.0


def error(found, value, scale=0):
    if not mpmath.isfinite(value):
        return 0.0 if found == value else float("inf")
    if abs(found - value) < mpf("1e-45"):  # what 50 digits leave of a difference of equal logs
        return 0.0
    return float(abs(found - value) / max(abs(value), mpf(scale), mpf("1e-300")))


@pytest.mark.few(0, 4)
@pytest.mark.parametrize("name", NAMES)
def test_the_text_says_what_the_declaration_says(name):
    text = module(source(name))
    with mp.workdps(50):
        for function, x, theta, value, condition in definitions(name):
            found = getattr(text, function)(mpf(x), [mpf(v) for v in theta])
            moved = condition / float(max(abs(value), mpf("1e-2")))
            assert error(found, value, 1e-2) < (20 + moved) * LITERALS, (function, x, theta)


@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_kernel_keeps_the_digits(name, kernel_of):
    kernel = kernel_of(name)
    worst = {}
    for function, x, theta, value, condition in definitions(name):
        found = getattr(kernel, function)(x, np.array(theta))
        # log densities are sums that cancel where they vanish; there the error is absolute
        scale = 1.0 if function in ("log_p", "log_q") else 0.0
        moved = condition / float(max(abs(value), mpf(scale), mpf("1e-300")))
        excess = error(found, value, scale) / (1.0 + moved / 50)
        worst[function] = max(worst.get(function, 0.0), excess)
    assert max(worst.values()) < loose(name, 2e-14), worst


@pytest.mark.parametrize("name", NAMES)
def test_arrays_agree_with_scalars(name, kernel_of):
    kernel = kernel_of(name)
    for function, group in itertools.groupby(
        sorted(definitions(name), key=lambda d: (d[0], d[2])), key=lambda d: (d[0], tuple(d[2]))
    ):
        x = np.array([d[1] for d in group])
        out, theta = np.empty_like(x), np.array(function[1])
        getattr(kernel, f"{function[0]}_many")(x, theta, out)
        scalar = np.array([getattr(kernel, function[0])(v, theta) for v in x])
        np.testing.assert_allclose(
            out, scalar, rtol=APART.get(name, 4e-15), atol=1e-15, equal_nan=True
        )


@pytest.mark.parametrize("name", NAMES)
def test_inverses_return_to_where_the_loss_came_from(name, kernel_of):
    kernel = kernel_of(name)
    with mp.workdps(50):
        for _calculus, case, sample in samples(name):
            theta = np.array([float(v) for v in sample.theta.values()])
            rows = kernel.branches(theta)
            for region in case.regions:
                if region.kind not in ("increasing", "decreasing"):
                    continue
                for x in sample.points(region):
                    value = sample.loss(region, x)
                    if sample.solved(region, float(value), x) is None:
                        continue  # the double next to the limit of the loss says nothing about x
                    row = rows[(rows[:, 0] <= float(x)) & (float(x) <= rows[:, 1])][0]
                    out = np.empty(1)
                    kernel.loss_inverse_many(int(row[5]), np.array([float(value)]), theta, out)
                    residual = error(sample.loss(region, mpf(out[0])), value)
                    worst = INVERSES.get(name, 1e-13)
                    assert min(error(out[0], x), residual) < worst, (region.kind, x, theta)


@pytest.mark.parametrize("name", NAMES)
def test_branches_cover_the_pieces_and_limits_are_limits(name, kernel_of):
    kernel = kernel_of(name)
    lattice = kernel.MEASURE == "lattice"
    for _calculus, _case, sample in samples(name, count=3):
        theta = np.array([float(v) for v in sample.theta.values()])
        rows = kernel.branches(theta)
        ends = kernel.breakpoints(theta)
        assert list(ends) == sorted(set(rows[:, :2].ravel()))
        for lo, hi, kind, left, right, _ in rows:
            assert lo <= hi if lattice else lo < hi
            if kind in (1.0, -1.0, 0.0) and np.isfinite([lo, hi, left, right]).all():
                a, b = (lo, hi) if lattice else (np.nextafter(lo, hi), np.nextafter(hi, lo))
                scale = max(abs(left), abs(right), 1e-300)
                assert abs(kernel.loss(a, theta) - left) <= 1e-6 * scale
                assert abs(kernel.loss(b, theta) - right) <= 1e-6 * scale
                assert kind == np.sign(right - left) or lo == hi


@pytest.mark.few(2, 3, 4)
@pytest.mark.parametrize("name", NAMES)
def test_cumulant_generating_function_against_the_definition(name):
    text = module(source(name))
    if not hasattr(text, "cgf"):
        pytest.skip(text.CAPABILITIES["cgf"])
    with mp.workdps(20):
        for calculus, case, sample in samples(name, count=1):
            theta = list(sample.theta.values())
            below, above = text.strip(theta)
            for z in (mpmath.mpc(min(0.7, above / 2), 0), mpmath.mpc(max(-0.3, below / 2), 1.9)):
                expected = _moment(calculus, case, sample, z)
                found = mp.exp(text.cgf(z, theta))
                assert abs(found - expected) < 1e-9 * (abs(expected) + 1)


def _moment(calculus, case, sample, z):
    """E_P[exp(zL); L finite] straight from the terms."""
    total = mpmath.mpc(0)
    for atom in case.atoms:
        if atom.p and atom.q:
            p, q = sample.log(atom.p, 0), sample.log(atom.q, 0)
            total += mp.exp(p + z * (p - q)) if mpmath.isfinite(p) else 0
    for region in case.regions:
        if not (region.p and region.q):
            continue

        def integrand(x, region=region):
            p, q = sample.log(region.p, x), sample.log(region.q, x)
            return mp.exp(p + z * (p - q))

        lo, hi = sample.value(region.lo), sample.value(region.hi)
        if calculus.pair.measure == "lattice":
            reach = 4000
            first, last = max(lo, mpf(-reach)), min(hi, mpf(reach))
            total += mpmath.fsum(integrand(mpf(n)) for n in range(int(first), int(last) + 1))
        elif lo < hi:
            inner = sorted(sample.points(region))
            breaks = [_cut(integrand, inner, lo, -1), *inner, _cut(integrand, inner, hi, 1)]
            total += mpmath.quad(integrand, breaks)
    return total


def _cut(integrand, inner, end, sign):
    """A finite end beyond which the integral is negligible."""
    if mpmath.isfinite(end):
        return end
    step = mpf(1) / 16
    outermost = inner[-1 if sign > 0 else 0]
    while abs(integrand(outermost + sign * step)) > mpf("1e-25"):
        step *= 2
    return outermost + sign * step


def test_places_beside_an_end_where_densities_vanish_are_found():
    """Log densities of -1e9 beside 0 fall by one only where no output is."""
    calculus = derive(normalise(FAMILIES["frechets"].declare()))
    with mp.workdps(50):
        for case in calculus.cases:
            for theta in typical_values(calculus.pair.parameters, 6, case.condition):
                sample = Sample(calculus, theta)
                for region in case.regions:
                    assert all(0 < x < mp.inf for x in sample.points_beside_ends(region))
