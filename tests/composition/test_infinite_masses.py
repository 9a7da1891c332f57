"""Masses at infinite loss against closed tails in mpmath: from 1e-1 to 1e-300 and beyond, and logs.

Every case is a pair whose masses P(q = 0) and Q(p = 0) are tails by hand; far beyond all finite
losses delta is that of the composition, 1 - (1 - mass)^count.
"""

import mpmath
import pytest
from mpmath import mp, mpf
from sympy import Piecewise, Rational, erf, erfc, exp, oo, pi, sqrt, tanh

import mechc
from mechc.declare import integer, mechanism, parameter, positive, rate, real

FAR = 1e40  # an epsilon beyond all finite losses
COUNTS = 1, 2, 30, 1000
WIDTH = 3e-14  # of log delta, for every nat of it
BY_QUADRATURE = 3e-13  # the same of tails of windows ...
GAMMAS = 1e-11  # ... and where the constant is a gamma function
RATE = 0.01


def normal(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def student(x, nu):
    """Upper tail, by the incomplete beta function."""
    upper = mpmath.betainc(mpf(nu) / 2, mpf(1) / 2, 0, nu / (nu + x * x), regularized=True) / 2
    return upper if x >= 0 else 1 - upper


def huber_tail(x):
    """Beyond the bend at 1; no tail of the windows begins before it."""
    tail = mpmath.exp(-mpf(1) / 2)
    return mpmath.exp(mpf(1) / 2 - x) / (
        2 * tail + mpmath.sqrt(2 * mp.pi) * mpmath.erf(mp.sqrt(0.5))
    )


def holds(event, truths, width=WIDTH):
    """Both directions, once and many times, for the masses P(q = 0) and Q(p = 0)."""
    for direction, mass in zip(("remove", "add"), truths, strict=True):
        for count in COUNTS:
            log_rate = mpmath.log(-count * mpmath.log1p(-mass)) if mass else -mpmath.inf
            truth = mpmath.log(-mpmath.expm1(-mpmath.exp(log_rate))) if mass else -mpmath.inf
            bound = (count * event).log_delta(FAR, direction=direction)
            assert bound.lower <= truth <= bound.upper, (event, direction, count, truth, bound)
            lost = 2e-15 * count  # of outputs next to an end, in each of so many steps
            assert not mass or bound.upper - bound.lower < width * (3 - truth) + lost


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(400):
        yield


# of a noise at unit scale: P(noise > x), and P(noise < -x)
TAILS = {
    "gaussian": ({"sigma": 1.0}, normal, normal),
    "laplace": ({"scale": 1.0}, lambda x: mpmath.exp(-x) / 2, lambda x: mpmath.exp(-x) / 2),
    "logistic": ({"scale": 1.0}, *2 * [lambda x: 1 / (1 + mpmath.exp(x))]),
    "gumbel": (
        {"scale": 1.0},
        lambda x: -mpmath.expm1(-mpmath.exp(-x)),
        lambda x: mpmath.exp(-mpmath.exp(x)),
    ),
    "cauchy": ({"scale": 1.0}, *2 * [lambda x: mpmath.atan(1 / x) / mpmath.pi]),
    "student_t": ({"nu": 3.0, "scale": 1.0}, *2 * [lambda x: student(x, 3)]),
    "hyperbolic_secant": (
        {"scale": 1.0},
        *2 * [lambda x: 2 / mpmath.pi * mpmath.atan(mpmath.exp(-mpmath.pi * x / 2))],
    ),
    "gaussian_scale_mixture": (
        {"weight": 0.25, "narrow": 1.0, "wide": 2.0},
        *2 * [lambda x: (normal(x) + 3 * normal(x / 2)) / 4],
    ),
    "exponentially_modified_gaussian": (
        {"sigma": 1.0, "scale": 1.0},
        lambda x: normal(x) + mpmath.exp(mpf(1) / 2 - x) * normal(1 - x),
        lambda x: normal(x) - mpmath.exp(mpf(1) / 2 + x) * normal(1 + x),
    ),
    "uniform": ({"halfwidth": 100.0}, *2 * [lambda x: (100 - x) / 200]),
    "raised_cosine": (
        {"halfwidth": 100.0},
        *2 * [lambda x: (1 - x / 100 - mpmath.sinpi(x / 100) / mpmath.pi) / 2],
    ),
    "truncated_laplace": (
        {"scale": 1.0, "halfwidth": 100.0},
        *2 * [lambda x: (mpmath.exp(-x) - mpmath.exp(-100)) / -mpmath.expm1(-100) / 2],
    ),
    "subbotin": (
        {"beta": 1.5, "scale": 1.0},
        *2 * [lambda x: mpmath.gammainc(mpf(2) / 3, x ** mpf(1.5), regularized=True) / 2],
    ),
    "huber": ({"scale": 1.0, "bend": 1.0}, *2 * [lambda x: huber_tail(x)]),
}
WINDOWS = (-2.5, 2.0), (-4.0, 9.0), (-20.0, 9.5), (-38.0, 37.0), (-70.0, 90.0)
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in TAILS if name != "gaussian"]


@pytest.mark.parametrize("name", ["gaussian", *SLOW])
def test_truncated_noise(name):
    """The window hides P above `upper` and below `lower`; so it does Q."""
    values, above, below = TAILS[name]
    noise = mechc.load(name)
    for lower, upper in WINDOWS:
        event = mechc.truncate(noise, lower, upper)(**values)
        width = GAMMAS if name == "subbotin" else BY_QUADRATURE
        lo, hi = -mpf(lower), mpf(upper)
        holds(event, (above(hi - 1) + below(lo + 1), above(hi) + below(lo)), width)


# pairs that are no noise: what P and Q have outside of (-lo, hi)
PAIRS = {
    "gaussian_scale": (
        {"sp": 1.0, "sq": 1.5},
        lambda lo, hi: normal(lo) + normal(hi),
        lambda lo, hi: normal(2 * lo / 3) + normal(2 * hi / 3),
    ),
    "gdp": (
        {"mu": 2.0},
        lambda lo, hi: normal(lo + 2) + normal(hi - 2),
        lambda lo, hi: normal(lo) + normal(hi),
    ),
    "balanced_gaussian": (
        {"sigma": 1.0},
        lambda lo, hi: sum(normal(x) for x in (lo - 1, lo + 1, hi - 1, hi + 1)) / 2,
        lambda lo, hi: normal(lo) + normal(hi),
    ),
    "exponential_mechanism": (
        {"epsilon": 2.0},
        lambda lo, hi: 1 / (1 + mpmath.exp(hi - 2)) + 1 / (1 + mpmath.exp(lo + 2)),
        lambda lo, hi: 1 / (1 + mpmath.exp(hi)) + 1 / (1 + mpmath.exp(lo)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_truncated_pairs(name):
    values, of_p, of_q = PAIRS[name]
    for lower, upper in WINDOWS:
        event = mechc.truncate(mechc.load(name), lower, upper)(**values)
        masses = of_p(-mpf(lower), mpf(upper)), of_q(-mpf(lower), mpf(upper))
        holds(event, masses, BY_QUADRATURE)


@pytest.mark.slow
def test_truncated_noise_on_samples():
    """Under add/remove P of a sample shares all outputs of Q; under replace both reveal."""
    window = mechc.truncate(mechc.load("gaussian"), -10.0, 12.0)
    outside = normal(mpf(11)) + normal(mpf(11))
    sampled = mechc.poisson(window, sampling_rate=RATE)(sigma=1.0)
    holds(sampled, (mpf(RATE) * outside, 0))
    for count in COUNTS:
        mixed = mechc.compose((sampled, count), window(sigma=1.0))
        bound = mixed.log_delta(FAR, direction="remove")
        hidden = (1 - mpf(RATE) * outside) ** count * (1 - outside)
        assert bound.lower <= mpmath.log(1 - hidden) <= bound.upper


def bell(mean):
    return exp(-((X - mean) ** 2) / 2) / sqrt(2 * pi)


X, N = real("x"), integer("n")
TAU = positive("tau", typical=(2, 6))
LAST = parameter("last", 1, integer=True, typical=(3, 30))
RATIO = Rational(1, 100)
DECLARED = {
    "threshold beside an atom": (
        {
            "variable": X, "parameters": (TAU,), "p": Piecewise((bell(1), X > TAU), (0, True)),
            "atoms": [(0, 1 - erfc((TAU - 1) / sqrt(2)) / 2, 1)],
        },
        lambda tau: normal(tau - 1),
        lambda tau: mpf(0),
    ),
    "atoms that are complements": (
        {
            "variable": X, "parameters": (TAU,),
            "p": Piecewise((bell(1), X < TAU), (0, True)),
            "q": Piecewise((bell(0), X < TAU), (0, True)),
            "atoms": [(TAU, 1 - (1 + erf((TAU - 1) / sqrt(2))) / 2, 0),
                      (TAU + 1, 0, 1 - (1 + erf(TAU / sqrt(2))) / 2)],
        },
        lambda tau: normal(tau - 1),
        normal,
    ),
    "support that ends at a parameter": (
        {
            "variable": X, "parameters": (TAU,), "support": (0, oo), "p": exp(-X),
            "q": Piecewise((exp(-X) / (1 - exp(-TAU)), X < TAU), (0, True)),
        },
        lambda tau: mpmath.exp(-tau),
        lambda tau: mpf(0),
    ),
    "integers beyond a parameter": (
        {
            "variable": N, "lattice": True, "parameters": (LAST,), "support": (0, oo),
            "p": (1 - RATIO) * RATIO**N,
            "q": Piecewise((1 / (LAST + 1), N <= LAST), (0, True)),
        },
        lambda last: mpf(10) ** (-2 * (last + 1)),
        lambda last: mpf(0),
    ),
}  # fmt: skip


@pytest.mark.few(0, 2)
@pytest.mark.parametrize("name", DECLARED)
def test_declared_pairs(name):
    """Atoms, supports and lattices of which parameters move the ends."""
    declared, p_only, q_only = DECLARED[name]
    loaded = mechc.load(mechanism(name, **declared))
    for value in (2, 6, 10, 37, 60, 600):
        event = loaded(**{loaded.parameters[0].name: value})
        holds(event, (p_only(mpf(value)), q_only(mpf(value))))


def test_a_complement_without_a_tail_is_not_trusted():
    """1 - tanh(x) has no better formula here: it loses its digits, and says so, or is not used."""
    tail = (1 - tanh(TAU)) / 2
    loaded = mechc.load(
        mechanism("tangent", outcomes=[(1 - tail, 1), (tail, 0)], parameters=(TAU,))
    )
    for value in (1, 4, 8, 12, 15, 18, 19, 20, 300):
        truth = mpmath.log(1 / (1 + mpmath.exp(2 * mpf(value))))
        bound = loaded(tau=value).log_delta(3.0)
        assert bound.lower <= truth <= bound.upper
        assert value > 12 or bound.upper - bound.lower < 4e-14 * mpmath.exp(2 * value)


def test_normaliser_that_cancels():
    """Gaussians on (tau, tau + 1), whose normalisers are differences of erf next to one."""

    def inside(mean):
        ends = [erf((end - mean) / sqrt(2)) / 2 for end in (TAU + 1, TAU)]
        return bell(mean) / (ends[0] - ends[1])

    window = mechanism(
        "window", variable=X, parameters=(TAU,), support=(TAU, TAU + 1), p=inside(1), q=inside(0)
    )
    for value in (2, 4, 5):
        first, last = (normal(mpf(value) - mean) - normal(mpf(value) + 1 - mean) for mean in (1, 0))
        cut = mpf("0.6") - mpmath.log(last / first)  # where the loss is 0.1
        above = [normal(cut - mean) - normal(mpf(value) + 1 - mean) for mean in (1, 0)]
        truth = above[0] / first - mpmath.exp(mpf("0.1")) * above[1] / last
        bound = mechc.load(window)(tau=value).delta(0.1, direction="remove")
        assert bound.lower <= truth <= bound.upper
        assert bound.upper - bound.lower < 1e-7 * truth


@pytest.mark.parametrize("at", [{"w": 0.2, "v": 0.0}, {"w": 0.2, "v": 1.0}])
def test_a_mass_of_q_that_vanishes_at_an_end_of_a_domain(at):
    """Two outcomes, of which one has no mass under Q: w or 1 - w reveals everything."""
    w, v = rate("w"), rate("v")
    pair = mechanism("ends", outcomes=[(w, v), (1 - w, 1 - v)], parameters=(w, v))
    found = mechc.load(pair)(**at).delta(FAR, direction="remove")
    mass = abs(at["w"] - at["v"])
    assert found.lower <= mass <= found.upper <= found.lower * (1 + 1e-12)
