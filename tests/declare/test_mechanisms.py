"""The mechanisms that ship, against SciPy's densities, direct integration and textbook masses."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from front_evaluate import by_pieces, case_at
from scipy import integrate, stats
from sympy import exp

import mechc
from mechc.calculus import normalise
from mechc.declare.catalog import available, find, load_declaration

PARAMETERS = {
    "approximate_dp": ["epsilon", "delta"],
    "binomial": ["trials", "sensitivity"],
    "cauchy": ["scale", "sensitivity"],
    "discrete_gaussian": ["sigma", "sensitivity"],
    "discrete_laplace": ["a", "sensitivity"],
    "exponential": ["scale", "sensitivity"],
    "exponential_mechanism": ["epsilon"],
    "gaussian": ["sigma", "sensitivity"],
    "gaussian_scale": ["sp", "sq"],
    "gdp": ["mu"],
    "gumbel": ["scale", "sensitivity"],
    "hyperbolic_secant": ["scale", "sensitivity"],
    "laplace": ["scale", "sensitivity"],
    "logistic": ["scale", "sensitivity"],
    "pure_dp": ["epsilon"],
    "exponentially_modified_gaussian": ["sigma", "scale", "sensitivity"],
    "gaussian_scale_mixture": ["weight", "narrow", "wide", "sensitivity"],
    "balanced_gaussian": ["sigma", "sensitivity"],
    "raised_cosine": ["halfwidth", "sensitivity"],
    "permute_and_flip": ["epsilon"],
    "report_noisy_max": ["epsilon"],
    "randomized_response": ["epsilon", "categories"],
    "skellam": ["rate", "sensitivity"],
    "staircase": ["epsilon", "gamma", "sensitivity"],
    "student_t": ["nu", "scale", "sensitivity"],
    "subbotin": ["beta", "scale", "sensitivity"],
    "truncated_laplace": ["scale", "halfwidth", "sensitivity"],
    "uniform": ["halfwidth", "sensitivity"],
}

# name: (parameters, P, Q) with laws of SciPy
REFERENCES = {
    "binomial": ((31, 2), stats.binom(31, 0.5, loc=2), stats.binom(31, 0.5)),
    "cauchy": ((1.7, 0.9), stats.cauchy(0.9, 1.7), stats.cauchy(0, 1.7)),
    "discrete_laplace": ((0.7, 3), stats.dlaplace(0.7, loc=3), stats.dlaplace(0.7)),
    "exponential": ((1.7, 0.9), stats.expon(0.9, 1.7), stats.expon(0, 1.7)),
    "exponential_mechanism": ((0.8,), stats.logistic(0.8), stats.logistic(0)),
    "gaussian": ((1.7, 0.9), stats.norm(0.9, 1.7), stats.norm(0, 1.7)),
    "gaussian_scale": ((1.7, 0.9), stats.norm(0, 1.7), stats.norm(0, 0.9)),
    "gdp": ((0.9,), stats.norm(0.9, 1), stats.norm(0, 1)),
    "gumbel": ((1.7, 0.9), stats.gumbel_r(0.9, 1.7), stats.gumbel_r(0, 1.7)),
    "hyperbolic_secant": (
        (1.7, 0.9),
        stats.hypsecant(0.9, 3.4 / math.pi),
        stats.hypsecant(0, 3.4 / math.pi),
    ),
    "laplace": ((1.7, 0.9), stats.laplace(0.9, 1.7), stats.laplace(0, 1.7)),
    "logistic": ((1.7, 0.9), stats.logistic(0.9, 1.7), stats.logistic(0, 1.7)),
    "skellam": ((2.3, 2), stats.skellam(2.3, 2.3, loc=2), stats.skellam(2.3, 2.3)),
    "student_t": ((3.1, 1.7, 0.9), stats.t(3.1, 0.9, 1.7), stats.t(3.1, 0, 1.7)),
    "subbotin": ((1.3, 1.7, 0.9), stats.gennorm(1.3, 0.9, 1.7), stats.gennorm(1.3, 0, 1.7)),
    "exponentially_modified_gaussian": (
        (1.3, 1.7, 0.9),
        stats.exponnorm(1.7 / 1.3, 0.9, 1.3),
        stats.exponnorm(1.7 / 1.3, 0, 1.3),
    ),
    "raised_cosine": ((5.0, 0.9), stats.cosine(0.9, 5 / math.pi), stats.cosine(0, 5 / math.pi)),
    "uniform": ((5.0, 0.9), stats.uniform(-4.1, 10), stats.uniform(-5, 10)),
}


def test_every_mechanism_has_the_documented_parameters():
    found = {n: [p.name for p in load_declaration(find(n)).parameters] for n in available()}
    assert {n: found[n] for n in PARAMETERS} == PARAMETERS


@pytest.mark.parametrize("name", PARAMETERS)
def test_sensitivity_is_one_by_default_and_everything_is_described(name):
    declaration = load_declaration(find(name))
    assert declaration.about
    for parameter in declaration.parameters:
        assert parameter.default == {"sensitivity": 1, "categories": 2}.get(parameter.name)


@pytest.mark.few(1, 4, 7, 9, 12, 17)
@pytest.mark.parametrize("name", REFERENCES)
def test_densities_are_those_of_scipy(name):
    theta, p_law, q_law = REFERENCES[name]
    pair = normalise(load_declaration(find(name)))
    lattice = pair.measure == "lattice"
    for point in range(-6, 20) if lattice else np.linspace(-7.3, 8.9, 40):
        p, q = by_pieces(pair, theta, point)
        for ours, law in ((p, p_law), (q, q_law)):
            theirs = law.pmf(point) if lattice else law.pdf(point)
            assert float(ours) == pytest.approx(theirs, rel=1e-9, abs=1e-300)


def test_mixtures_and_huber_by_their_formulas():
    pair = normalise(load_declaration(find("gaussian_scale_mixture")))
    narrow, wide = stats.norm(0, 0.7), stats.norm(0, 3.1)
    balanced = normalise(load_declaration(find("balanced_gaussian")))
    huber = normalise(load_declaration(find("huber")))
    mass = integrate.quad(lambda z: math.exp(-_rho(z, 1.5)), -40, 40, points=(-1.5, 1.5))[0]
    for point in np.linspace(-7.3, 8.9, 20):
        p, q = by_pieces(pair, (0.3, 0.7, 3.1, 0.9), point)
        for ours, x in ((p, point - 0.9), (q, point)):
            assert float(ours) == pytest.approx(0.3 * narrow.pdf(x) + 0.7 * wide.pdf(x))
        p, _ = by_pieces(balanced, (1.3, 0.9), point)
        law = stats.norm(0, 1.3)
        assert float(p) == pytest.approx((law.pdf(point - 0.9) + law.pdf(point + 0.9)) / 2)
        _, q = by_pieces(huber, (2.0, 1.5, 0.9), point)
        assert float(q) == pytest.approx(math.exp(-_rho(point / 2, 1.5)) / (2 * mass))


def _rho(z, bend):
    return z * z / 2 if abs(z) <= bend else bend * abs(z) - bend * bend / 2


def test_discrete_gaussian_by_its_truncated_sum():
    pair = normalise(load_declaration(find("discrete_gaussian")))
    total = math.fsum(math.exp(-n * n / (2 * 1.3**2)) for n in range(-60, 61))
    for n in range(-8, 10):
        p, q = by_pieces(pair, (1.3, 2), n)
        assert float(p) == pytest.approx(math.exp(-((n - 2) ** 2) / (2 * 1.3**2)) / total)
        assert float(q) == pytest.approx(math.exp(-(n**2) / (2 * 1.3**2)) / total)


def test_truncated_laplace_is_conditional_laplace():
    pair = normalise(load_declaration(find("truncated_laplace")))
    law = stats.laplace(0, 1.7)
    inside = law.cdf(4.0) - law.cdf(-4.0)
    for point in np.linspace(-5.05, 5.95, 30):
        p, q = by_pieces(pair, (1.7, 4.0, 0.9), point)
        assert float(q) == pytest.approx(law.pdf(point) / inside * (abs(point) < 4))
        assert float(p) == pytest.approx(law.pdf(point - 0.9) / inside * (abs(point - 0.9) < 4))


def _masses(name, theta):
    """Rows (mass under P, mass under Q)."""
    pair = normalise(load_declaration(find(name)))
    given = {p.symbol: v for p, v in zip(pair.parameters, theta, strict=True)}
    rows = [
        [sum(t.weight * exp(t.log_density) for t in side) for side in (a.p, a.q)]
        for a in case_at(pair, theta).atoms
    ]
    return [[float(m if m == 0 else m.subs(given)) for m in row] for row in rows]


@pytest.mark.parametrize("gamma", [0.2, 0.5, 0.83])
def test_staircase_masses_by_integrating_the_steps(gamma):
    epsilon, width = 0.7, 1.0
    b = math.exp(-epsilon)
    top = (1 - b) / (2 * width * (gamma + b * (1 - gamma)))

    def noise(x):
        return top * b ** math.floor(abs(x) / width + 1 - gamma)

    edges = sorted({s + k * width for s in (-gamma, gamma) for k in range(-60, 61)})
    found = dict.fromkeys((1, 0, -1), 0.0)
    for lo, hi in itertools.pairwise(edges):
        middle = 0.5 * (lo + hi)
        loss = round(math.log(noise(middle - width) / noise(middle)) / epsilon)
        found[loss] += (hi - lo) * noise(middle - width)
    rows = _masses("staircase", (epsilon, gamma, width))
    assert [p for p, _ in rows] == pytest.approx([found[1], found[0], found[-1]], rel=1e-12)
    assert [q for _, q in rows] == pytest.approx([found[-1], found[0], found[1]], rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "gamma"), [(1e-8, 0.7687), (1e-8, 0.3), (1.0, 0.2), (3.0, 0.9)]
)
def test_the_level_of_a_staircase_keeps_its_digits(epsilon, gamma):
    """As one less the two others its log was off by 4e-8."""
    with mpmath.workdps(50):
        e, g = mpmath.mpf(epsilon), mpmath.mpf(gamma)
        ratio = mpmath.exp(-e)
        top = (1 + min(g, 1 - g) * (1 - ratio) / (g + ratio * (1 - g))) / 2
        exact = mpmath.log(1 - top * (1 + ratio))
        found = mechc.load("staircase").kernel.log_p(1.0, np.array([epsilon, gamma, 1.0]))
        assert abs(found - exact) <= 4e-16 * abs(exact)


def test_randomized_response_and_worst_cases_have_their_ratios():
    e = math.exp(0.7)
    rows = _masses("randomized_response", (0.7, 5))
    assert rows == [pytest.approx(r) for r in [(e / (e + 4), 1 / (e + 4)),
                    (3 / (e + 4), 3 / (e + 4)), (1 / (e + 4), e / (e + 4))]]  # fmt: skip
    rows = _masses("approximate_dp", (0.7, 0.01))
    assert rows[0] == pytest.approx((0.01, 0))
    assert rows[3] == pytest.approx((0, 0.01))
    assert rows[1][0] / rows[1][1] == pytest.approx(e)
    assert rows[2][1] / rows[2][0] == pytest.approx(e)
    assert _masses("pure_dp", (0.7,)) == [pytest.approx(r) for r in [
        (e / (1 + e), 1 / (1 + e)), (1 / (1 + e), e / (1 + e))]]  # fmt: skip


def test_the_bounded_range_pair_is_the_supremum_of_its_family():
    # Dong, Durfee, Rogers 2020: P(1) = e^t q_t with q_t = (e^-t - e^-eps) / (1 - e^-eps)
    epsilon, threshold = 0.9, 0.25
    t = np.linspace(1e-9, epsilon, 200001)
    q = (np.exp(-t) - math.exp(-epsilon)) / (1 - math.exp(-epsilon))
    family = np.maximum(np.exp(t) * q - math.exp(threshold) * q, 0).max()
    law = stats.logistic()

    def gap(x):
        return max(law.pdf(x - epsilon) - math.exp(threshold) * law.pdf(x), 0)

    crossing = math.log((math.exp(epsilon) - math.exp((threshold + epsilon) / 2))
                        / (math.exp((threshold + epsilon) / 2) - 1))  # fmt: skip
    pair = integrate.quad(gap, crossing, 60, epsabs=1e-13)[0]
    assert pair == pytest.approx(family, abs=1e-9)
