"""Masses that lie between an end and the double next to it are of any loss."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import questions
from scipy.optimize import brentq
from scipy.special import betainc, ndtr

import mechc
from mechc.declare.text import declaration_from_text
from mechc.errors import NumericError, UnsupportedError
from mechc.protocol import of_log_concave_noise

BETAS = {"a": 0.5, "b": 0.7, "c": 0.6, "s": 0.4}


def one_step(epsilon, rate):
    """Delta of ((1-r) Q + r P, Q), P and Q beta laws with poles at both ends."""
    a, b, c, s = BETAS.values()
    least = math.log1p(math.expm1(epsilon) / rate)  # loss of the pair from which on it counts
    x = np.concatenate([np.geomspace(1e-300, 0.5, 200_001), 1 - np.geomspace(0.5, 1e-15, 200_001)])
    norm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    norm -= math.lgamma(c + s) - math.lgamma(c) - math.lgamma(s)
    loss = norm + (a - c) * np.log(x) + (b - s) * np.log1p(-x)
    inside = x[loss > least]
    assert inside.size and (loss[: inside.size] > least).all()  # next to 0 alone
    cut = inside[-1]
    p, q = betainc(a, b, cut), betainc(c, s, cut)
    return rate * (p - math.exp(least) * q)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.9172])
def test_poles_at_both_ends(epsilon):
    event = questions.load("betas", "poisson")(**BETAS, sampling_rate=0.1)
    found = event.log_delta(epsilon, direction="remove")
    truth = math.log(one_step(epsilon, 0.1))
    assert found.lower <= truth + 1e-6 and truth - 1e-6 <= found.upper


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", ["plain", pytest.param("poisson", marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 30))])
@pytest.mark.parametrize("values", [
    {"a": 0.9, "b": 0.5, "c": 1.0, "s": 0.5},
    {"a": 0.5, "b": 0.3, "c": 0.8, "s": 0.3},
    # a limit of the loss there if it is a sample
    pytest.param({"a": 0.5, "b": 0.7, "c": 0.7, "s": 0.5}, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_pole_of_both_at_which_the_loss_has_a_limit(values, count, kind):
    """The mass between that pole and the last double is 1e-8, and 1e-5 where b is .3."""
    values = values if kind == "plain" else {**values, "sampling_rate": 0.2}
    pair = questions.by_hand("betas", values, kind)
    event = questions.load("betas", kind)(**values)
    for direction, epsilon in (("remove", 0.2), ("add", 0.1), ("remove", 0.7)):
        reference = pair if direction == "remove" else pair.reversed()
        found = (count * event).delta(epsilon, direction=direction)
        least, most = (math.exp(log) for log in reference.log_delta(epsilon, count))
        assert found.lower <= most * (1 + 1e-9) and least * (1 - 1e-9) <= found.upper
        lost = 2.0 ** (-42 * min(values["b"], values["s"]))
        assert found.upper - found.lower < 20 * count * lost + 1e-3 * least, (direction, epsilon)


@pytest.mark.parametrize("method", ["direct", "contour", "pld"])
def test_a_pole_of_both_where_the_loss_is_not_bounded(method):
    """The arcsine law beside Beta(a, b): P has 5e-9 between 1 and the double below it."""
    a, b, epsilon = 2.75, 0.8, 0.8
    pair = declaration_from_text(
        "arcsine_beside_beta", support=("0", "1"),
        p="1/(pi*sqrt(x*(1 - x)))", q="x**(a-1)*(1-x)**(b-1)*gamma(a+b)/(gamma(a)*gamma(b))",
    )  # fmt: skip

    def gap(x, y):  # y = 1 - x
        norm = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b) - math.log(math.pi) - epsilon
        return norm + (0.5 - a) * math.log(x) + (0.5 - b) * math.log(y)

    low = brentq(lambda x: gap(x, 1.0 - x), 1e-9, 0.5, xtol=1e-16)
    high = brentq(lambda y: gap(1.0 - y, y), 1e-15, 0.1, xtol=1e-18)
    shares = [betainc(u, v, low) + betainc(v, u, high) for u, v in ((0.5, 0.5), (a, b))]
    truth = math.log(shares[0] - math.exp(epsilon) * shares[1])
    found = mechc.load(pair)(a=a, b=b).log_delta(epsilon, direction="remove", method=method)
    assert found.lower <= truth <= found.upper <= found.lower + 2e-6


def test_a_complete_list_of_integers_misses_no_mode():
    """What masses of a binomial law lack is rounding of factorials: e^-31 was said for e^-44."""
    event = mechc.load("binomial")(trials=63)
    for run, count in ((event, 1), (3 * event, 3)):
        truth = math.log(-math.expm1(count * math.log1p(-(2.0**-63))))
        for direction in ("remove", "add"):
            found = run.log_delta(40.0, direction=direction)
            assert found.lower <= truth + 1e-14 and truth - 1e-14 <= found.upper
            assert found.upper <= truth + 1e-9


def test_rounding_of_factorials_hides_no_mode():
    """What losses show of it explains what masses lack: e^-31 was said beyond the largest loss."""
    law = "{0}**n/factorial(n)**2/besseli(0, 2*sqrt({0}))"
    declared = declaration_from_text(
        "dispersed", p=law.format("a"), q=law.format("b"), variable="n", lattice=True,
        support=("0", "oo"), parameters=["a > 0", "b > 0"],
    )  # fmt: skip
    made = mechc.load(declared)
    for a in (200.0, 300.0, 500.0):
        top = 2.0 * (math.sqrt(1.1 * a) - math.sqrt(a))  # and less: I_0 grows less than exp
        assert made(a=a, b=1.1 * a).log_delta(top, direction="remove").upper == -math.inf


def test_what_is_taken_off_is_rounded_up():
    """Beside 1e-11 that a constant lacks a mass of 7e-22 was said to be 2e-5 of itself more."""
    declared = declaration_from_text(
        "lacking", p="where(n < 0, w, (1-w)*0.99999999999*2**(-n-1))",
        q="where(n < 0, 0, 3**(-n)*2/3)", variable="n", lattice=True, support=("-1", "oo"),
        parameters=["0 < w < 1"],
    )  # fmt: skip
    made = mechc.load(declared)
    for w in (1e-20, 7e-22, 1e-18):
        assert made(w=w).log_delta(200.0, direction="remove").lower <= math.log(w) + 1e-13


@pytest.mark.few(1)
@pytest.mark.parametrize(("far", "width"), [(30_000, 0.05), (2_000_000, 0.2)])
def test_a_mode_of_integers_far_from_the_others(far, width):
    """P has mass w around 3 far, where Q has none: delta is w to all digits, or not known."""
    geometric = "exp(-abs({})/{r})*tanh(1/(2*{r}))"
    near, twin = geometric.format("n", r="r"), geometric.format("n-3*far", r="s")
    declared = declaration_from_text(
        "twin", p=f"(1-w)*{near}+w*{twin}", q=near, variable="n", lattice=True,
        parameters=["integer far >= 1", "0 < w < 1"],
    )  # fmt: skip
    event = mechc.load(declared)(w=1e-12, far=far, r=0.1, s=width)
    asked = [event, 2 * event]
    try:
        asked.append(mechc.post_process(event, [far + 0.5]))
    except NumericError:  # so many integers are not listed
        assert far > 1e6
    for run, delta in zip(asked, (1e-12, 2e-12 - 1e-24, 1e-12), strict=False):
        found = run.delta(1.0, direction="remove")
        assert found.lower <= delta * (1 + 1e-12) and delta * (1 - 1e-12) <= found.upper


@pytest.mark.slow
def test_a_narrow_mode_of_integers_far_from_the_others():
    """Normal tails show no flank between integers in geometric distance: e^-251 for e^-23."""
    near = "exp(-abs(n))*tanh(1/2)"  # its normaliser is 1 to 33 digits from a width of 2 on
    far = "exp(-(n-{place})**2/(2*s**2))/(sqrt(2*pi)*s)"
    parameters = ["integer far >= 1", "0 < w < 1", "s > 0"]
    for place, least in (("far", 0.0), ("3*far-7", 1e-14)):  # what no parameter is next to
        p = f"(1-w)*{near}+w*{far.format(place=place)}"
        declared = declaration_from_text(
            "narrow", p=p, q=near, variable="n", lattice=True, parameters=parameters
        )
        made = mechc.load(declared)
        for at, w, s, count in itertools.product(
            (3000, 30_000, 700_000), (1e-3, 1e-10, 1e-13, 1e-20, 1e-80), (2.0, 30.0), (1, 2)
        ):
            if w < least or at * count > 1e6:
                continue
            found = (count * made(far=at, w=w, s=s)).log_delta(2.0, direction="remove")
            truth = math.log(-math.expm1(count * math.log1p(-w)))
            assert found.lower <= truth + 1e-4 and truth - 1e-4 <= found.upper


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("far", "w", "s"),
    [
        (50.0, 1e-20, 1.0),
        (30_000.0, 1e-20, 1e-6),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in (
            (50.0, 1e-20, 1e-6), (50.0, 1e-40, 1e-6), (50.0, 1e-40, 1.0), (30_000.0, 1e-20, 1.0),
            (30_000.0, 1e-40, 1e-6), (30_000.0, 1e-40, 1.0))),
    ],
)  # fmt: skip
def test_a_mode_of_densities_far_from_the_others(far, w, s):
    """Next to no parameter, in noise that moves by 1: e^-981899 was said for e^-46."""
    noise = "((1-w)*exp(-abs({0}))/2 + w*exp(-({0}-3*far+7)**2/(2*s**2))/(sqrt(2*pi)*s))"
    made = mechc.load(declaration_from_text(
        "hidden_density", p=noise.format("(x-1)"), q=noise.format("x"), variable="x",
        parameters=["far > 0", "0 < w < 1", "s > 0"],
    ))  # fmt: skip
    event = made(far=far, w=w, s=s)
    found = event.log_delta(5.0, direction="remove")
    truth = math.log(w)  # losses of Laplace noise end at 1
    if s == 1.0:
        truth += math.log(ndtr(-4.5) - math.exp(5.0) * ndtr(-5.5))
    if s == 1.0 and far == 50.0:  # else the formula of the loss has lost its digits there
        assert found.upper < truth + 1e-9
    assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper


@pytest.mark.parametrize("claim", [None, "T1", {}, {"status": "proven", "theorem": "T6"}, {
    "status": "proven", "theorem": "T6", "conditions": ("the base pair dominates (proven, T9)",),
}])  # fmt: skip
def test_words_of_edited_claims_spare_no_search(claim):
    assert not of_log_concave_noise(SimpleNamespace(CLAIM=claim))


def test_noise_proved_log_concave_and_its_samples_are_known():
    plain = mechc.load("gaussian")
    for mechanism in (plain, mechc.poisson(plain), mechc.without_replacement(plain)):
        assert of_log_concave_noise(mechanism.kernel)
    assert not of_log_concave_noise(mechc.load("cauchy").kernel)


@pytest.mark.few(0)
@pytest.mark.parametrize(("width", "weight"), [(1e-14, 5e-15), (1e-12, 5e-15), (1e-4, 1e-3)])
def test_a_peak_on_top_of_wider_noise_is_seen(width, weight):
    """Logistic noise and, where it is highest, a narrow normal one: unimodal, but two scales."""
    wide = "(1-w)*sech((x-m)/20)**2/40"
    noise = f"{wide} + w*exp(-((x-m)/s)**2/2)/(s*sqrt(2*pi))"
    declared = declaration_from_text(
        "peak", noise=noise, parameters=["-9 <= m <= 9", "0 <= w <= 1"]
    )
    event = mechc.load(declared)(m=3.0, s=width, w=weight)
    x = np.linspace(-12.0, 12.0, 20_001)  # beyond the peak losses are below .1
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi) * weight / width
    wide_p, wide_q = (np.cosh((x * width + at) / 20) ** -2 * (1 - weight) / 40 for at in (0, 1))
    peak_q = np.exp(-0.5 * (x + 1 / width) ** 2) / math.sqrt(2 * math.pi) * weight / width
    gap = wide_p + density - math.exp(0.5) * (wide_q + peak_q)
    truth = np.maximum(gap, 0.0).sum() * (x[1] - x[0]) * width
    assert event.claim.status == "proven"
    one = event.delta(0.5)
    assert one.lower <= truth * (1 + 1e-6) and truth <= one.upper * (1 + 1e-6)
    # of two outputs one has the peak; by Jensen's inequality the other takes nothing away
    for method in ("auto", "pld"):
        try:
            two = (2 * event).delta(0.5, direction="remove", method=method)
        except UnsupportedError:  # where the peak is so few doubles wide
            assert method == "pld"
        else:
            assert 2 * truth * (1 - weight) <= two.upper * (1 + 1e-6), (method, two)
