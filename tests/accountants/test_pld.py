"""The PLD accountant against closed forms, exact sums and the arbitrary-precision corpus."""

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
import questions
from scipy.special import logsumexp
from scipy.stats import poisson
from written_kernels import gaussian, laplace, truncated_laplace, truth

import mechc
from mechc.accountants.pld import PldAccountant
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step


@pytest.fixture(autouse=True)
def digits():
    """Sixty, in this file alone."""
    with mpmath.workdps(60):
        yield


@functools.cache
def bound_law(make, *parameters, reverse=False):
    return make(*parameters).law(reverse)


def two_sided(p, q):
    """A discrete loss from the masses of P and Q; zero entries are masses at infinity."""
    p, q = np.asarray(p, float), np.asarray(q, float)
    both = (p > 0) & (q > 0)
    return PrivacyLoss.from_atoms(
        np.log(p[both] / q[both]), p[both], float(p[q == 0].sum()), float(q[p == 0].sum())
    )


def check(bound, log_truth, width):
    assert bound.status == "proven"
    assert bound.lower <= log_truth <= bound.upper
    assert bound.lower <= bound.estimate <= bound.upper
    assert bound.width <= width


def gaussian_truth(mu, eps):
    def phi(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    mu, eps = mpmath.mpf(mu), mpmath.mpf(eps)
    delta = phi(mu / 2 - eps / mu) - mpmath.exp(eps) * phi(-mu / 2 - eps / mu)
    return float(mpmath.log(delta))


def irwin_hall_laplace(shift, k, eps):
    """Exact delta of k Laplace steps: atoms at +-shift, slopes as an Irwin-Hall sum.

    Under P a step is +shift with probability 1/2, -shift with exp(-shift)/2, and has density
    exp((l - shift)/2)/4 between: uniform after the factor exp(l/2).
    """
    shift, eps = mpmath.mpf(shift), mpmath.mpf(eps)
    total = mpmath.mpf(0)
    for m in range(k + 1):
        slope = mpmath.exp(-m * shift / 2) * (shift / 2) ** m
        for up in range(k - m + 1):
            down = k - m - up
            weight = mpmath.mpf(math.factorial(k)) / (
                math.factorial(m) * math.factorial(up) * math.factorial(down)
            )
            weight *= slope * mpmath.mpf(0.5) ** (k - m) * mpmath.exp(-down * shift)
            centre = (up - down) * shift
            if m == 0:
                total += weight * max(1 - mpmath.exp(eps - centre), 0)
            else:
                total += weight * slope_part(shift, m, centre, eps)
    return float(mpmath.log(total))


def slope_part(shift, m, centre, eps):
    """E[(1 - e^(eps - centre - s))_+ e^(s/2)] for s the sum of m uniforms on (-shift, shift)."""

    def density(u):
        terms = [
            (-1) ** r * math.comb(m, r) * (u - r) ** (m - 1)
            for r in range(int(mpmath.floor(u)) + 1)
        ]
        return mpmath.fsum(terms) / math.factorial(m - 1)

    def integrand(u):
        s = (2 * u - m) * shift
        return density(u) * (1 - mpmath.exp(eps - centre - s)) * mpmath.exp(s / 2)

    start = min(max(((eps - centre) / shift + m) / 2, mpmath.mpf(0)), mpmath.mpf(m))
    ends = [start, *(mpmath.mpf(i) for i in range(m + 1) if i > start)]
    return mpmath.quad(integrand, ends) if len(ends) > 1 else mpmath.mpf(0)


def multinomial_truth(losses, masses, k, eps):
    """Exact sum over all counts of a finite alphabet."""
    total = mpmath.mpf(0)
    cells = len(losses)
    for bars in itertools.combinations(range(k + cells - 1), cells - 1):
        counts = np.diff([-1, *bars, k + cells - 1]) - 1
        loss = mpmath.fdot([int(c) for c in counts], losses)
        if loss > eps:
            weight = mpmath.mpf(math.factorial(k))
            for c, m in zip(counts, masses, strict=True):
                weight *= m ** int(c) / math.factorial(int(c))
            total += weight * (1 - mpmath.exp(eps - loss))
    return float(mpmath.log(total)) if total else -math.inf


CORPUS = {
    "G1": (gaussian, (1.0,), False, 1, 1.0),
    "G3": (gaussian, (20.0,), False, 1000, 40.0),
    "L1": (laplace, (1.0,), False, 1, 0.5),
    "L2": (laplace, (10.0,), False, 20, 0.5),
    "SL_0.1_1_10_rem": (laplace, (1.0, 0.1), False, 10, 0.3),
    "SL_0.1_1_10_add": (laplace, (1.0, 0.1), True, 10, 0.3),
    "SL_0.5_0.5_2_rem": (laplace, (2.0, 0.5), False, 2, 0.07),
    "SL_0.5_0.5_2_add": (laplace, (2.0, 0.5), True, 2, 0.07),
    "SG2_rem_0.5": (gaussian, (1.0, 0.1), False, 2, 0.5),
    "SG2_add_0.1": (gaussian, (1.0, 0.1), True, 2, 0.1),
    "SGK_rem": (gaussian, (1.5, 0.01), False, 10_000, 1.0),
    "SGK_add": (gaussian, (1.5, 0.01), True, 10_000, 1.0),
    "SGS1_rem": (gaussian, (2.0, 0.01), False, 3000, 1.0),
    "SGS3_rem": (gaussian, (2.0, 0.01), False, 3000, 3.0),
}


@pytest.mark.few(0, 2, 4, 7, 9, 11)
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name):
    make, parameters, reverse, count, eps = CORPUS[name]
    law = bound_law(make, *parameters, reverse=reverse)
    accountant = PldAccountant([Step(law, count)], grid=2**18 if count >= 1000 else 2**15)
    check(accountant.log_delta(eps), truth(name), 3e-4 if name == "G3" else 1e-4)


def test_truncated_laplace():
    """One step in closed form: P(A) - e^eps Q(A) for A where the loss exceeds eps."""
    scale, half, eps = mpmath.mpf(1), mpmath.mpf(8), mpmath.mpf("0.5")
    constant = 1 - mpmath.exp(-half / scale)

    def below(x, centre):
        z = (x - centre) / scale
        low = mpmath.exp(-half / scale)
        value = mpmath.exp(z) - low if z < 0 else 2 - low - mpmath.exp(-z)
        return value / (2 * constant)

    cut = (eps * scale + 1) / 2
    exact = 1 - below(cut, 1) - mpmath.exp(eps) * (1 - below(cut, 0))
    bound = PldAccountant([Step(bound_law(truncated_laplace, 1.0, 8.0), 1)]).log_delta(0.5)
    check(bound, float(mpmath.log(exact)), 1e-5)


def test_heterogeneous_corpus_value():
    steps = [
        Step(bound_law(gaussian, 1.5, 0.01), 2000),
        Step(bound_law(gaussian, 30.0), 50),
    ]
    up = 1 / (1 + math.exp(-0.05))
    steps.append(Step(two_sided([up, 1 - up], [1 - up, up]), 20))
    check(PldAccountant(steps, rtol=1e-5).log_delta(1.0), truth("HET1"), 1e-5)


@pytest.mark.parametrize("grid", [2**13, 2**14, 2**15])
def test_width_follows_the_bias_law(grid):
    """log(upper/lower) = k h^2 t(t+1) (1/12 + 1/15), at delta = 3.7e-134."""
    bound = PldAccountant([Step(bound_law(gaussian, 20.0), 1000)], grid=grid).log_delta(40.0)
    check(bound, truth("G3"), 0.5)
    assert bound.width == pytest.approx(bound.detail["predicted_width"], rel=0.05)
    assert abs(bound.estimate - truth("G3")) < 0.05 * bound.width


@pytest.mark.few(0, 2, 4, 5, 7, 11)
@pytest.mark.parametrize("seed", range(12))
def test_random_gaussians(seed):
    rng = np.random.default_rng(seed)
    count, mu = int(10 ** rng.uniform(0, 5)), 10 ** rng.uniform(-2, 1)
    eps = mu * mu / 2 + mu * rng.uniform(-5, 15)
    law = gaussian(math.sqrt(count) / mu).law()
    bound = PldAccountant([Step(law, count)], rtol=1e-4).log_delta(eps)
    check(bound, gaussian_truth(mu, eps), 2e-4)


@pytest.mark.parametrize(("shift", "k", "eps"), [(1.0, 3, 0.4), (0.3, 5, 0.9), (2.0, 4, 5.3)])
def test_laplace_exact_sums(shift, k, eps):
    law = laplace(1 / shift).law()
    bound = PldAccountant([Step(law, k)], rtol=1e-5).log_delta(eps)
    check(bound, irwin_hall_laplace(shift, k, eps), 2e-5)


@pytest.mark.parametrize("seed", range(12))
def test_random_finite_alphabets(seed):
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 5))
    p, q = rng.dirichlet(np.ones(cells)), rng.dirichlet(np.ones(cells))
    if seed % 3 == 0:
        p, q = np.append(p * 0.99, [0.01, 0.0]), np.append(q * 0.98, [0.0, 0.02])
    law, k = two_sided(p, q), int(rng.integers(1, 13))
    eps = float(rng.uniform(-1, 0.9 * k * law.support[1]))
    finite = multinomial_truth(
        [mpmath.log(mpmath.mpf(a) / mpmath.mpf(b)) for a, b in zip(p, q, strict=True) if a and b],
        [mpmath.mpf(a) for a, b in zip(p, q, strict=True) if a and b],
        k,
        eps,
    )
    infinite = math.log(-math.expm1(k * math.log1p(-0.01))) if seed % 3 == 0 else -math.inf
    bound = PldAccountant([Step(law, k)], rtol=1e-4).log_delta(eps)
    check(bound, float(np.logaddexp(finite, infinite)), 0.05)


def test_sampled_four_ary_response_is_no_lattice():
    """Three losses at no common step: the mesh nearly hits all of them."""
    e = math.exp(0.5)
    response, other = np.array([e, 1, 2]) / (e + 3), np.array([1, e, 2]) / (e + 3)
    mixed = 0.8 * other + 0.2 * response
    law = two_sided(mixed, other)
    assert law.lattice is None
    exact = multinomial_truth(
        [mpmath.mpf(x) for x in law.atom_loss],
        [mpmath.mpf(math.exp(x)) for x in law.atom_log_mass],
        20,
        0.3,
    )
    check(PldAccountant([Step(law, 20)], rtol=1e-4).log_delta(0.3), exact, 1e-4)


def test_lattices_are_exact():
    e = math.exp(0.5)
    response = two_sided(np.array([e, 1, 2]) / (e + 3), np.array([1, e, 2]) / (e + 3))
    check(PldAccountant([Step(response, 50)]).log_delta(3.2), truth("RR1"), 1e-11)
    e, d = math.exp(0.1), 1e-6
    worst = two_sided(
        [d, (1 - d) * e / (1 + e), (1 - d) / (1 + e), 0],
        [0, (1 - d) / (1 + e), (1 - d) * e / (1 + e), d],
    )
    bound = PldAccountant([Step(worst, 100)]).log_delta(1.0)
    check(bound, truth("KOV1"), 1e-11)
    assert bound.detail["exact_lattice"]


def test_lattices_of_commensurate_steps_stay_exact():
    def binary(a):
        up = 1 / (1 + math.exp(-a))
        return two_sided([up, 1 - up], [1 - up, up])

    bound = PldAccountant([Step(binary(0.2), 7), Step(binary(0.3), 5)]).log_delta(0.55)
    terms = [
        (0.2 * (2 * i - 7) + 0.3 * (2 * j - 5), math.comb(7, i) * math.comb(5, j), i, j)
        for i in range(8)
        for j in range(6)
    ]
    a, b = 1 / (1 + math.exp(-0.2)), 1 / (1 + math.exp(-0.3))
    exact = sum(
        n * a**i * (1 - a) ** (7 - i) * b**j * (1 - b) ** (5 - j) * -math.expm1(0.55 - s)
        for s, n, i, j in terms
        if s > 0.55
    )
    check(bound, math.log(exact), 1e-11)


def test_outside_the_support():
    law = bound_law(truncated_laplace, 1.0, 8.0)
    accountant = PldAccountant([Step(law, 3)])
    above = accountant.log_delta(3.5)
    one = law.log_infinite
    exact = math.log(-math.expm1(3 * math.log1p(-math.exp(one))))
    assert above.lower <= exact <= above.upper and above.width < 1e-12
    below = accountant.log_delta(-4.0)
    covered = (1 - math.exp(law.log_minus_infinite)) ** 3
    assert below.lower <= math.log1p(-math.exp(-4.0) * covered) <= below.upper + 1e-15


def test_no_steps_is_the_identity():
    accountant = PldAccountant([Step(bound_law(laplace, 1.0), 0)])
    assert accountant.log_delta(0.1).upper == -math.inf
    assert accountant.log_delta(-1.0).estimate == pytest.approx(math.log(-math.expm1(-1.0)))


def test_many_epsilons_are_ordered_and_monotone():
    accountant = PldAccountant([Step(bound_law(laplace, 10.0), 200)], rtol=1e-4)
    bounds = [accountant.log_delta(eps) for eps in np.linspace(-1.0, 8.0, 37)]
    for one, two in itertools.pairwise(bounds):
        assert one.lower <= one.upper and one.upper >= two.lower
        assert one.width < 3e-4


def test_refusals():
    law = bound_law(laplace, 1.0)
    with pytest.raises(DeclarationError, match="grid=1000"):
        PldAccountant([Step(law, 1)], grid=1000)
    with pytest.raises(DeclarationError, match="rtol=0"):
        PldAccountant([Step(law, 1)], rtol=0.0)
    with pytest.raises(UnsupportedError, match="max_bytes"):
        PldAccountant([Step(law, 1)], grid=2**20, max_bytes=10**6)
    with pytest.raises(UnsupportedError, match="max_bytes"):
        PldAccountant([Step(law, 10**12)], max_bytes=10**7).log_delta(2e6)


def test_masses_beyond_doubles_under_a_tilt_are_refused():
    """Sums of two Poisson counts are Poisson; another method answers."""
    questions = pytest.importorskip("questions")  # needs python-flint
    (s, t), epsilon = (35.50182043677483, 23.23371518473918), 569.1350712017786
    run = 2 * questions.load("poissons")(s=s, t=t)
    bound = run.log_delta(epsilon, direction="remove")
    p, q = (poisson.logpmf(np.arange(6000), 2.0 * rate) for rate in (s, t))
    above = p - q > epsilon
    truth = logsumexp(p[above] + np.log(-np.expm1(epsilon - (p - q)[above])))
    assert bound.lower <= truth <= bound.upper < -1000.0


@pytest.mark.few(0)
@pytest.mark.parametrize(("sigma", "rate"), [(2.0, 0.02), (0.7, 0.002)])
def test_few_steps_of_atoms_on_no_lattice(sigma, rate):
    """Six steps against all sums, three and three: contours of such laws fade too late."""
    x = np.arange(-24.0, 26.0)
    q = np.exp(-0.5 * (x / sigma) ** 2)
    q /= q.sum()
    ratio = 1.0 - rate + rate * np.exp((x - 0.5) / sigma**2)
    three = functools.reduce(np.multiply.outer, [q * ratio] * 3).ravel()
    loss = functools.reduce(np.add.outer, [np.log(ratio)] * 3).ravel()
    directions = [(three, loss), (three * np.exp(-loss), -loss)]

    def delta(epsilon):
        return max(_of_both(mass, loss, epsilon) for mass, loss in directions)

    mechanism = mechc.poisson(mechc.load("discrete_gaussian"), sampling_rate=rate)
    found = (6 * mechanism(sigma=sigma)).epsilon(1e-6)
    assert found.status == "proven"
    assert delta(found.upper) <= 1e-6 * (1.0 + 1e-9)
    assert delta(found.lower) >= 1e-6 * (1.0 - 1e-9)
    assert found.upper - found.lower < 3e-4 * found.upper


def _of_both(mass, loss, epsilon):
    """Delta of two independent sums of one law."""
    order = np.argsort(loss)
    loss, mass = loss[order], mass[order]
    p = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    back = np.append(np.cumsum((mass * np.exp(-loss))[::-1])[::-1], 0.0)
    at = np.searchsorted(loss, epsilon - loss, side="right")
    return float(np.sum(mass * (p[at] - np.exp(epsilon - loss) * back[at])))


@pytest.mark.few(3, 4)
@pytest.mark.parametrize("rate", [1e-12, 1e-11, 1e-8])
@pytest.mark.parametrize("share", [0.1, 0.6, -0.5])
def test_turns_of_the_loss_that_rounding_hides(rate, share):
    """Beside rates of the size of rounding the turns of a sampled loss are not told from it."""
    values = {"scale": 1.9760116252927773, "sensitivity": 1.0, "lower": -12.0, "upper": 38.0,
              "sampling_rate": rate}  # fmt: skip
    event = questions.load("window_cauchy", "poisson")(**values)
    least, most = (
        questions.by_hand("window_cauchy", values, "poisson").reversed().log_delta(share * rate, 1)
    )
    found = event.log_delta(share * rate, direction="add", method="pld")
    assert found.lower <= most + 1e-9 and least - 1e-9 <= found.upper
