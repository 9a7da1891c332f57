"""Losses that run off to infinity at an end of the support, p = 2x against q = 6x(1 - x).

L = -log(3 s) at the distance s = 1 - x from the end, which no double next to 1 resolves.
"""

import math

import mpmath
import numpy as np
import pytest
import questions
from families import FAMILIES
from scipy.special import betaln

import mechc
from mechc.declare.text import declaration_from_text
from mechc.errors import NumericError, UnsupportedError


@pytest.fixture(scope="module")
def event():
    text = {"p": "2*x", "q": "6*x*(1-x)", "support": ("0", "1")}
    return mechc.load(declaration_from_text("ramps", **text))()


def test_moments_are_as_accurate_as_they_say(event):
    """E_P[exp(tL)] = 2 B(2, 1 - t) / 3^t, finite for t < 1; the strip is cut before that."""
    law = event.loss("remove")
    assert 0.5 < law.strip[1] < 1.0
    for share in (0.99, 0.9, 0.7, 0.5, 0.3, 0.1):  # panels for large tilts serve the small ones
        t = share * law.strip[1]
        found, _, _, rounding = law.generating(t)
        error = abs(found - math.log(2) - betaln(2.0, 1.0 - t) + t * math.log(3))
        allowed = rounding + law.covering(-1.0, t).tolerance
        assert error <= allowed < max(16.0 ** (12 * share - 12), 3e-12)


@pytest.mark.few(0, 7, 12, 23, 28, 34)
@pytest.mark.parametrize("epsilon", [3.0, 20.0, 30.0, 34.0, 36.0, 45.0, 200.0])
@pytest.mark.parametrize("method", ["auto", "direct", "contour", "pld", "renyi"])
def test_one_step_as_far_as_doubles_go_and_beyond(event, method, epsilon):
    """With a = exp(-epsilon) / 3 delta is the integral of 2 (1 - s) (1 - s/a) over s < a."""
    a = math.exp(-epsilon) / 3
    truth = math.log(a) + math.log1p(-a / 3)
    try:
        answer = event.log_delta(epsilon, method=method, direction="remove")
    except (UnsupportedError, NumericError):
        assert method in ("direct", "pld")
        return
    assert answer.lower <= truth + 1e-12
    assert truth - 1e-12 <= answer.upper


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_two_steps(event, epsilon):
    """E[(1 - 9 exp(epsilon) s s')_+] for s, s' with density 2 (1 - s): one integral is closed."""
    a = math.exp(-epsilon) / 9
    u, w = np.polynomial.legendre.leggauss(40)
    edges = np.concatenate([[0.0], a * 2.0 ** -np.arange(40.0, -1.0, -1.0)])
    edges = np.concatenate([edges, np.geomspace(a, 1.0, 30)[1:]])
    half = 0.5 * np.diff(edges)[:, None]
    s = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * u
    b = np.minimum(1.0, a / s)
    inner = 2 * (b - b**2 / 2 - s / a * (b**2 / 2 - b**3 / 3))
    truth = float((2 * (1 - s) * inner * half * w).sum())
    answer = (2 * event).delta(epsilon, direction="remove")
    assert answer.lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= answer.upper <= answer.lower * (1 + 1e-6)


@pytest.mark.few(4, 5)
@pytest.mark.parametrize("epsilon", [20.0, 45.0, 52.0, 60.0, 100.0, 550.0])
def test_one_step_counts_what_no_double_comes_close_to(epsilon):
    """Beta(2.8, 1.5) against Beta(4.1, 3): near one the loss is -1.5 log(1 - x), beyond 56."""
    a, b, c, d = 4.1, 3.0, 2.8, 1.5
    run = mechc.load(FAMILIES["betas"].declare())(a=a, b=b, c=c, s=d)
    answer = run.log_delta(epsilon, direction="add")
    with mpmath.workdps(40):
        ratio = mpmath.beta(a, b) / mpmath.beta(c, d)

        def gap(s):  # the loss at 1 - s, less epsilon
            x = 1 - s
            return mpmath.log(ratio) + (c - a) * mpmath.log(x) + (d - b) * mpmath.log(s) - epsilon

        y = mpmath.findroot(lambda y: gap(mpmath.exp(-y)), (epsilon / 1.5, epsilon / 1.5 + 1))

        def density(y):
            s = mpmath.exp(-y)
            mass = (1 - s) ** (c - 1) * s**d / mpmath.beta(c, d)
            return mass * -mpmath.expm1(-gap(s))

        exact = float(mpmath.log(mpmath.quad(density, [y, y + 5, y + 40, y + 200])))
    assert exact <= answer.upper + 1e-9  # what lies near zero is less than 1e-9 of it
    assert answer.lower <= exact + 1e-3
    if epsilon < 45.0:
        assert answer.upper - answer.lower < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-2, 1e-4, 1e-9, 1e-14])
def test_a_sampled_pole_whose_power_is_seen_beyond_doubles_only(rate):
    """p = (1 - r) q + r b s^(b - 1), q = c s^(c - 1) at s = 1 - x: {L > eps} is s < s*."""
    b, c = 0.66, 1.4
    text = {"p": "b*(1-x)**(b-1)", "q": "c*(1-x)**(c-1)", "support": ("0", "1")}
    pair = declaration_from_text("pole", **text, parameters=["b > 0", "c > 0"])
    event = mechc.poisson(mechc.load(pair))(b=b, c=c, sampling_rate=rate)
    for epsilon in (0.01, 1.0, 2.97, 5.0, 12.0, 30.0):
        with mpmath.workdps(60):
            r = mpmath.mpf(rate)
            crossing = (r * b / c / (mpmath.exp(epsilon) - 1 + r)) ** (1 / (mpmath.mpf(c) - b))
            truth = r * crossing**b + (1 - r - mpmath.exp(epsilon)) * crossing**c
            truth = float(mpmath.log(truth))
        answer = event.log_delta(epsilon, direction="remove")
        assert answer.lower <= truth + 1e-12 * abs(truth) and truth <= answer.upper + 1e-12
        if crossing > 1e-9:
            assert answer.upper - answer.lower < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "share"),
    [
        (2, 0.95), (3, 0.7), (4, 0.86),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in (
            (2, 0.7), (2, 0.86), (3, 0.86), (3, 0.95), (4, 0.7), (4, 0.95))),
    ],
)  # fmt: skip
def test_largest_losses_that_no_double_shows(count, share):
    """Sampled at a rate next to one: all steps at a loss that is attained within 1e-25 of an end.

    Delta is at least P(L > l)^count (1 - exp(epsilon - count l)), and q/p > y where 1 - x is below
    (c / (a b y))^(1/(b-1)) / a, nearly.
    """
    a, b, c, rate = 2.91, 1.39, 4.68, 1.0 - 2.0**-35
    event = mechc.poisson(mechc.load(FAMILIES["kumaraswamy"].declare()))(
        a=a, b=b, c=c, sampling_rate=rate
    )
    largest = 35.0 * math.log(2.0)
    level = largest * (1.0 + share) / 2.0
    ratio = (math.exp(-level) - 2.0**-35) / rate
    log_mass = math.log(c) + math.log(0.9 * ratio * c / (a * b)) / (b - 1.0) - math.log(a)
    epsilon = count * share * largest
    truth = count * log_mass + math.log(-math.expm1(epsilon - count * level))
    assert (count * event).log_delta(epsilon, direction="add").upper >= truth


@pytest.mark.slow
@pytest.mark.parametrize(
    "epsilon", [pytest.param(21.326414714448433, marks=pytest.mark.slow), 21.706130136224743]
)
def test_one_sample_at_a_rate_near_one(epsilon):
    """Its largest losses have a limit, 21.7, to which they come within an ulp of the end alone."""
    values = {"a": 0.6367825902109374, "b": 1.900365549458332, "c": 2.898245936973339,
              "s": 1.5193913007054611, "sampling_rate": 0.9999999996316484}  # fmt: skip
    least, _ = questions.by_hand("betas", values, "poisson").reversed().one_step_in_balls(epsilon)
    found = questions.load("betas", "poisson")(**values).log_delta(epsilon, direction="add")
    assert found.lower <= least <= found.upper


@pytest.mark.parametrize(
    ("count", "log_delta"), [(2, -14.0), (30, -14.0), (30, -40.0), (1000, -14.0)]
)
def test_steps_whose_loss_is_a_logarithm_next_to_zero(count, log_delta):
    """p = 1, q = 5/2 x^(3/2): L + log(5/2) is 3/2 times an exponential law, under P and under Q."""
    text = {"p": "1", "q": "5/2*x**(3/2)", "support": ("0", "1")}
    law = mechc.load(declaration_from_text("power", **text))()
    answer = (count * law).epsilon(math.exp(log_delta), direction="remove")

    def truth(epsilon):
        with mpmath.workdps(40):
            least = (epsilon + count * mpmath.log(2.5)) / 1.5
            p, q = (mpmath.gammainc(count, r * least, regularized=True) for r in (1, 2.5))
            return mpmath.log(p - mpmath.exp(epsilon) * q)

    assert truth(answer.lower) >= log_delta - 1e-12 >= truth(answer.upper) - 2e-12
    assert answer.upper - answer.lower < 1e-5 * answer.upper


@pytest.mark.parametrize(
    ("method", "count", "far"), [("direct", 1, 707.0), ("pld", 1, 709.0), ("contour", 5, 709.0)]
)
def test_poles_at_zero_count_what_panels_do_not_come_close_to(method, count, far):
    """x = exp(-E) with E of exponential laws, so that sums of losses are those of gamma laws.

    The narrowest panel at zero has 1e-15 of P: upper sides of pld lacked a third of delta of one
    step, and those of contours 4e-5 of that of five, which is 1e-11.
    """
    a, b = 0.1, 0.05
    event = mechc.load(FAMILIES["betas"].declare())(a=a, b=1.0, c=b, s=1.0)
    epsilon = (a - b) * far - count * math.log(2.0)
    with mpmath.workdps(40):
        at = (mpmath.mpf(epsilon) + count * mpmath.log(2)) / (mpmath.mpf(a) - b)
        q, p = (mpmath.gammainc(count, v * at, regularized=True) for v in (a, b))
        truth = float(mpmath.log(p - mpmath.exp(mpmath.mpf(epsilon)) * q))
    answer = (count * event).log_delta(epsilon, method=method, direction="add")
    assert answer.lower <= truth <= answer.upper
