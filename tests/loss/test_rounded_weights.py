"""Weights and masses that are formulas of parameters: their rounding counts, below zero they fail.

Truths are sums over outcomes, or closed forms, in many digits.
"""

import copy
import pickle

import mpmath
import pytest
import sympy as sp
from mpmath import mp, mpf
from sympy import Rational, Sum, exp, loggamma, oo

import mechc
from mechc.declare import count, integer, mechanism, positive, rate, real
from mechc.errors import DeclarationError, UnsupportedError, VerificationError
from mechc.loss.moments import excess

X, N, K = real("x"), integer("n"), integer("k")
c, m, q, a, b = positive("c"), positive("m"), rate("q"), rate("a"), rate("b")
half = count("half")
ALL = (1 - exp(-c)) ** m  # no hash collides
MIDDLE = exp(loggamma(2 * half + 1) - 2 * loggamma(half + 1)) * (q * (1 - q)) ** half


def normal(mean):
    return exp(-((X - mean) ** 2) / 2) / sp.sqrt(2 * sp.pi)


def log_delta(p, q, epsilon):
    return mp.log(sum(max(u - mp.exp(epsilon) * v, 0) for u, v in zip(p, q, strict=True)))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("at", [(18.42, 1e8), (16.0, 1e7), (2.0, 5.0)])
def test_powers_of_rounded_numbers_in_masses(at, direction):
    """At m = 1e8 a mass was 2e-8 off, and the interval 1e-14 wide."""
    event = mechc.load(
        mechanism("hashed", parameters=(c, m, q), outcomes=[(ALL, q), (1 - ALL, 1 - q)])
    )(q=0.3, c=at[0], m=at[1])
    with mp.workdps(40):
        mass = (1 - mp.exp(-mpf(at[0]))) ** mpf(at[1])
        laws = [mass, 1 - mass], [mpf(0.3), 1 - mpf(0.3)]
        for epsilon in (0.0, 0.05):
            truth = log_delta(*(laws if direction == "remove" else laws[::-1]), mpf(epsilon))
            found = event.log_delta(epsilon, direction=direction)
            assert found.lower <= truth <= found.upper


def test_logs_of_factorials_in_masses():
    event = mechc.load(
        mechanism("even", parameters=(half, q, a), outcomes=[(MIDDLE, a), (1 - MIDDLE, 1 - a)])
    )(half=40, q=0.45, a=0.05)
    with mp.workdps(40):
        share = mpf(0.45) * (1 - mpf(0.45))
        mass, other = mpmath.binomial(80, 40) * share**40, mpf(0.05)
        truth = log_delta([mass, 1 - mass], [other, 1 - other], mpf(0))
    found = event.log_delta(0.0)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-9


@pytest.mark.parametrize("method", ["direct", "lattice"])
@pytest.mark.parametrize("count", [1, 3])
def test_rounded_masses_of_compositions(method, count):
    """Of several steps a mass was 8e-8 off, and the interval 1e-14 wide, below the truth or above.

    Losses far above epsilon tell nothing of it: they may move without a change of delta.
    """
    mass = 1 - sp.sqrt(1 - a**2)
    event = count * mechc.load(
        mechanism("seldom", parameters=(q, a), outcomes=[(mass, q), (1 - mass, 1 - q)])
    )(q=1e-40, a=1e-5)
    with mp.workdps(60):
        share, other = 1 - mp.sqrt(1 - mpf(1e-5) ** 2), mpf(1e-40)
        ways = [mpmath.binomial(count, k) for k in range(count + 1)]
        laws = [
            [n * p**k * (1 - p) ** (count - k) for k, n in enumerate(ways)] for p in (share, other)
        ]
        truth = log_delta(*laws, mpf(1))
    found = event.log_delta(1.0, direction="remove", method=method)
    assert found.lower <= truth <= found.upper


@pytest.mark.parametrize(("at", "width"), [((18.42, 1e8), 1e-5), ((2.0, 5.0), 1e-12)])
def test_rounded_weights_of_densities(at, width):
    """Both summands had another weight by 2e-9, which no mass shows."""
    declared = mechanism(
        "hashed_noise", variable=X, parameters=(c, m), q=normal(0),
        p=ALL * normal(0) + (1 - ALL) * normal(3),
    )  # fmt: skip
    found = mechc.load(declared)(c=at[0], m=at[1]).log_delta(0.0, direction="remove")
    with mp.workdps(40):
        mass = 1 - (1 - mp.exp(-mpf(at[0]))) ** mpf(at[1])
        truth = mp.log(mass * mp.erf(mpf(1.5) / mp.sqrt(2)))
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < width


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [1e-9, 1.0 - 1e-9])
def test_rounded_weights_of_samples(sampled):
    """Those inside of a law that is sampled were not seen, and delta was 1e-4 short."""
    share = 1 - 2 * exp(-c) + exp(-2 * c)
    declared = mechanism("seldom", variable=X, support=(0, 1), parameters=(c,), q=1 + 0 * X,
                         p=1 - share + share * 2 * X)  # fmt: skip
    event = mechc.poisson(mechc.load(declared)(c=1e-6), sampled)
    truth = sampled * mp.expm1(-mpf(1e-6)) ** 2 / 4
    found = event.delta(0.0, direction="remove")
    assert found.lower <= truth <= found.upper


def test_weights_that_leave_nothing():
    """Laws that are equal: delta(0) was at least 1e-16."""
    made = mechc.load(mechanism("three", parameters=(a, b), outcomes=[
        (1 - a - b, 1 - 2 * a), (a, a), (b, a)]))  # fmt: skip
    for share in (0.0, 0.1, 0.5):
        assert made(a=share, b=share).delta(0.0).lower == 0.0


VANISHING = [
    ((1 - exp(-c)) ** m, {"c": 40.0, "m": 5.0}, lambda c, m: (1 - mp.exp(-c)) ** m),
    ((1 - a * b) ** count("n"), {"a": 1e-9, "b": 1e-8, "n": 1e6}, lambda a, b, n: (1 - a * b) ** n),
    ((1 + c) * exp(-c), {"c": 1e-9}, lambda c: (1 + c) * mp.exp(-c)),
]


KEPT = [  # complements that keep their digits; the last was refused as a contradiction
    VANISHING[0], VANISHING[1],
    ((1 - a * b) ** 5, {"a": 1e-9, "b": 1e-8}, lambda a, b: (1 - a * b) ** 5),
    ((1 - 2 * a) ** count("n"), {"a": 0.7, "n": 2.0}, lambda a, n: (1 - 2 * a) ** n),
    ((1 + 2 * c) / (1 + c) ** 2, {"c": 1e-5}, lambda c: (1 + 2 * c) / (1 + c) ** 2),
    ((1 - exp(-c)) ** Rational(1, 100), {"c": 40.0},
     lambda c: (1 - mp.exp(-c)) ** (mpf(1) / 100)),
    (1 / (1 + c) ** 2 + 2 * c / (1 + c) ** 2, {"c": 1e-5}, lambda c: (1 + 2 * c) / (1 + c) ** 2),
]  # fmt: skip

CANCELLING = [  # their complements have no digits in doubles
    (sp.sqrt(1 - a**2), {"a": 1e-9}, lambda a: mp.sqrt(1 - a * a)),
    (sp.tanh(c), {"c": 20.0}, lambda c: mp.tanh(c)),
    (exp(loggamma(1 + c) - c**2), {"c": 1e-12},
     lambda c: mp.exp(mp.loggamma(1 + c) - c**2)),
]  # fmt: skip


@pytest.mark.few(0, 4, 12, 16)
@pytest.mark.parametrize("masses", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("share", "at", "value"), VANISHING + KEPT[2:] + CANCELLING)
def test_what_rounding_leaves_nothing_of_is_not_nothing(share, at, value, masses):
    """Differences that are 0 in doubles: delta(1) was 0."""
    if masses:
        declared = {"outcomes": [(share, 1), (1 - share, 0)]}
    else:
        declared = {"variable": X, "q": normal(0), "p": share * normal(0) + (1 - share) * normal(3)}
    made = mechc.load(mechanism("vanishing", parameters=share.free_symbols, **declared))
    with mp.workdps(60):
        rest = 1 - value(**{name: mpf(number) for name, number in at.items()})
        truth = rest
        if not masses:
            x = (mp.log((mp.e - 1 + rest) / rest) + mpf(9) / 2) / 3
            truth = rest * (mp.ncdf(3 - x) - mp.ncdf(-x)) - (mp.e - 1) * mp.ncdf(-x)
        try:
            found = made(**at).log_delta(1.0, direction="remove")
        except VerificationError:
            assert (share, at, value) not in KEPT
            return
        assert found.lower <= mp.log(truth) <= found.upper
        assert (share, at, value) not in KEPT or found.upper < found.lower + 1e-11


def test_shares_with_roots_have_signs():
    """The loss, of no known direction, was unbounded: where it is nowhere, delta was in [0, 1]."""
    share = (1 - exp(-c)) ** Rational(1, 100)
    made = mechc.load(mechanism(
        "rooted", variable=X, support=(0, oo), parameters=(c,), q=exp(-X),
        p=share * exp(-X) + (1 - share) * 2 * exp(-2 * X),
    ))  # fmt: skip
    with mp.workdps(40):
        rest = 1 - (1 - mp.exp(-1)) ** (mpf(1) / 100)
    found = made(c=1.0).delta(0.0)
    assert found.lower <= rest / 4 <= found.upper < found.lower + 1e-15
    assert made(c=1.0).delta(0.1).upper == made(c=40.0).delta(0.1).upper == 0.0


def test_sums_that_cancel():
    """At n = 46 the lower bound was above delta."""
    n = count("n")
    log_term = loggamma(n + 1) - loggamma(K + 1) - loggamma(n - K + 1) - K / 2
    share = (1 + Sum((-1) ** K * exp(log_term) / (1 + K), (K, 0, n))) / 3
    made = mechc.load(mechanism("alternating", parameters=(n, a), outcomes=[
        (share, a), (1 - share, 1 - a)]))  # fmt: skip
    for terms in (5, 31, 46, 50, 57):
        with mp.workdps(40):
            known = [(-1) ** k * mp.binomial(terms, k) * mp.exp(-mpf(k) / 2) / (1 + k)
                     for k in range(terms + 1)]  # fmt: skip
            mass = (1 + mp.fsum(known)) / 3
            truth = mp.log(abs(mass - mpf(0.3)))
        found = made(n=terms, a=0.3).log_delta(0.0)
        assert found.lower <= truth <= found.upper
        assert terms > 5 or found.upper - found.lower < 1e-9


def test_sums_to_a_number_that_is_a_parameter():
    """The last term was taken for a rounding, and from 32768 on the sum was not known."""
    n = count("n")
    share = Sum(2 ** (-K - n), (K, -n, n)) / 4
    made = mechc.load(mechanism("geometric_sum", parameters=(n, a), outcomes=[
        (share, a), (1 - share, 1 - a)]))  # fmt: skip
    for number in (3, 100_000):
        with mp.workdps(40):
            truth = mp.log((2 - mpf(2) ** (-2 * number)) / 4 - mpf(0.3))
        found = made(n=number, a=0.3).log_delta(0.0)
        assert found.lower <= truth <= found.upper < found.lower + 1e-9


UNDER = 1 - a - b
NEGATIVE = {
    "outcomes": {"outcomes": [(UNDER, Rational(1, 2)), (a, Rational(1, 4)), (b, Rational(1, 4))]},
    "mixture": {"variable": X, "p": UNDER * normal(0) + a * normal(1) + b * normal(2),
                "q": normal(0)},
    "atom": {"variable": X, "atoms": [(0, UNDER, Rational(1, 2))], "p": (a + b) * normal(0),
             "q": normal(1) / 2},
    "integers": {"variable": N, "lattice": True, "support": (0, oo), "q": 2 ** (-N - 1),
                 "p": UNDER * 2 ** (-N - 1) + (a + b) * 3 ** (-N) * Rational(2, 3)},
}  # fmt: skip


@pytest.mark.few(0, 3)
@pytest.mark.parametrize("kind", NEGATIVE)
def test_weights_below_zero_are_refused(kind):
    """They were answered, some of them by a number."""
    made = mechc.load(mechanism(kind, parameters=(a, b), **NEGATIVE[kind]))
    assert made(a=0.25, b=0.25).delta(0.5).upper < 1.0
    refused = r"the weight -a - b \+ 1 is -0\.\d* at a=0\.7, b=0\.5"
    with pytest.raises(DeclarationError, match=refused):
        made(a=0.7, b=0.5).delta(0.5)


def test_differences_that_are_laws_are_no_mixtures():
    """The sum of two exponential waiting times, whichever of them is the longer one."""
    s, t = positive("s", typical=(0.4, 0.8)), positive("t", typical=(1.0, 3.0))
    made = mechc.load(mechanism(
        "waiting", variable=X, support=(0, oo), parameters=(s, t), q=exp(-X),
        p=s * t / (t - s) * (exp(-s * X) - exp(-t * X)),
    ))  # fmt: skip
    one, other = made(s=0.5, t=2.0).delta(0.5), made(s=2.0, t=0.5).delta(0.5)
    assert one.lower <= other.upper and other.lower <= one.upper < 1.0


@pytest.mark.slow
def test_sums_that_do_not_converge_end():
    made = mechc.load(mechanism(
        "ratio", variable=N, lattice=True, support=(0, oo), parameters=(a,), q=2 ** (-N - 1),
        p=a**N / Sum(a**K, (K, 0, oo)),
    ))  # fmt: skip
    with mp.workdps(30):
        truth = sum(max(mpf(0.3) ** k * (1 - mpf(0.3)) - mpf(2) ** (-k - 1), 0) for k in range(99))
    found = made(a=0.3).delta(0.0, direction="remove")
    assert found.lower <= truth <= found.upper <= truth + 1e-9
    assert made(a=1.0).delta(0.0).upper == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("tiny", [Rational(1, 2**80), Rational(1, 10**30)])
def test_numbers_that_no_double_holds_are_not_exact(tiny):
    """Largest losses of epsilon (1 + 2^-80): delta(epsilon) was 0; the second took minutes."""
    e = positive("epsilon")
    rate_, top = e * (1 + tiny), exp(e * (1 + tiny))
    noise = mechanism("noise", variable=X, parameters=(e,), p=exp(-rate_ * abs(X - 1)) * rate_ / 2,
                      q=exp(-rate_ * abs(X)) * rate_ / 2)  # fmt: skip
    response = mechanism("response", parameters=(e,), outcomes=[
        (top / (1 + top), 1 / (1 + top)), (1 / (1 + top), top / (1 + top))])  # fmt: skip
    for declared in (noise, response):
        event = mechc.load(declared)(epsilon=1.0)
        assert event.delta(1.0).upper > 0.0
        assert event.epsilon(0.0).upper > 1.0


def test_functions_that_are_compiled_copy_and_pickle_by_name():
    assert copy.deepcopy(excess) is excess
    assert pickle.loads(pickle.dumps(excess)) is excess


@pytest.mark.slow
def test_what_is_beyond_sympy_is_refused_in_our_words():
    """High powers of two rates: RecursionError."""
    p, q = ((1 - a) ** 120 + (1 - b) ** 120) / 2, (1 - b) ** 120
    made = mechc.load(mechanism("powers", parameters=(a, b), outcomes=[(p, q), (1 - p, 1 - q)]))
    try:
        found = made(a=0.01, b=0.02).delta(0.0)
        with mp.workdps(40):
            truth = (mpf("0.99") ** 120 - mpf("0.98") ** 120) / 2
        assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
    except UnsupportedError as error:
        assert "high powers" in str(error)
