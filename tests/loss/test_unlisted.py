"""Integers past a list: enclosures of emitted functions, and what is bounded by them."""

import math
import random
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import mechc
from mechc.declare.text import declaration_from_text
from mechc.kernel import prelude
from mechc.loss import enclosure
from mechc.loss.enclosure import on_boxes
from mechc.loss.running_error import total

# arguments that are no numbers: functions of x, and where x may be
FORMS = {
    "exp": ("math.exp(-x)", 0.0), "expm1": ("math.expm1(0.1*x)", -50.0),
    "log": ("math.log(3.0*x)", 0.1), "log1p": ("math.log1p(x*x)", -40.0),
    "sqrt": ("math.sqrt(x) - x", 0.0), "fabs": ("math.fabs(x - 2.5)", -20.0),
    "cosh": ("math.cosh(0.1*x)", -30.0), "sinh": ("math.sinh(0.1*x)", -30.0),
    "tanh": ("math.tanh(x - 1.0)", -30.0), "atan": ("math.atan(x/3.0)", -30.0),
    "asinh": ("math.asinh(2.0*x)", -30.0), "erf": ("math.erf(x)", -5.0),
    "erfc": ("math.erfc(x)", -5.0), "softplus": ("softplus(x)", -40.0),
    "log1mexp": ("log1mexp(-x)", 0.01), "log_cosh": ("log_cosh(x - 3.0)", -40.0),
    "log_sinh": ("log_sinh(x)", 0.01), "log_erfc": ("log_erfc(0.3*x - 2.0)", -40.0),
    "log_half_erfc": ("log_half_erfc(0.3*x)", -40.0), "lgamma": ("math.lgamma(x)", 0.1),
    "gamma": ("1.0/math.gamma(x)", 0.1), "pow": ("math.pow(1.0 + x, -2.5)", 0.0),
    "log_add": ("log_add(-x, -0.5*(x - 9.0)*(x - 9.0))", -30.0),
    "log_sum": ("log_sum(2.0, -x*x, -1.0, -2.0*x*x - 0.1)", -20.0),
    "log_mix": ("log_mix(0.01, 3.0 - x)", -30.0),
    "log_mix_rest": ("log_mix_rest(0.9, 0.1, x)", -30.0), "mix": ("mix(0.2, -x)", -9.0),
    "log1p_power": ("log1p_power(0.3, x - 2.5, 1.7, 2.0)", -20.0),
    "log_ratio": ("log_ratio(x + 3.0, x + 1.0, 2.0)", 0.0),
    "sum_of_three": ("sum_of_three(x, 3.0, -2.0*x)", -9.0),
    "exp_difference": ("exp_difference(-x, -2.0*x, x)", 0.1),
    "log_exp_difference": ("log_exp_difference(-x, -2.0*x, x)", 0.1),
    "power_difference": ("power_difference(x + 2.0, x, 2.0, 1.5)", 0.1),
    "power": ("power(x, 1.3, math.log(x))", 0.1),
    "power_complement": ("power_complement(0.7, x, math.log(0.7))", 0.1),
    "log_binomial": ("log_binomial(1000.0, x)", 0.0),
    "lgamma_difference": ("lgamma_difference(x, -2.5) + lgamma_difference(x, 7.0)", 3.0),
    "log_besseli_scaled": ("log_besseli_scaled(x - 4.0, 12.0)", -30.0),
    "log_besselk_scaled": ("log_besselk_scaled(x, 3.0)", -30.0),
    "log_erf_gap": ("log_erf_gap(x, 0.4)", -20.0),
    "pieces": ("x/(1.0 + x*x) if x > 2.0 else 1.0 - x", -9.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_values_and_slopes_lie_in_enclosures(name):
    """Of every function that emitted text may call, at random places of random boxes."""
    text, least = FORMS[name]
    space = {n: SimpleNamespace(py_func=p.function)
             for n, p in prelude.PRIMITIVES.items()} | {"math": math}  # fmt: skip
    made = eval(f"lambda x, theta: {text}", space)
    plain = eval(f"lambda x: {text}", {n: p.function for n, p in prelude.PRIMITIVES.items()}
                 | {"math": math})  # fmt: skip
    draw = random.Random(name)
    top = 100.0 if name == "gamma" else 300.0
    starts = [draw.uniform(least, top) for _ in range(60)]
    ends = [min(a + 10.0 ** draw.uniform(-8.0, 3.0), top) for a in starts]
    found = on_boxes(SimpleNamespace(py_func=made), np.empty(0), np.array(starts), np.array(ends))
    narrow = 0
    for i, (a, b) in enumerate(zip(starts, ends, strict=True)):
        x = np.sort([a, b, *(draw.uniform(a, b) for _ in range(8))])
        values = np.array([total(plain, at) for at in x.tolist()])
        off = 1e-12 * (1.0 + np.abs(values))
        assert (found.lo[i] - off <= values).all() and (values <= found.hi[i] + off).all()
        steps, apart = np.diff(values), np.diff(x)
        off = 1e-10 * (1.0 + np.abs(values[1:]))
        if not (name == "pieces" and a <= 2.0 < b):
            assert (found.least[i] * apart - off <= steps).all()
            assert (steps <= found.most[i] * apart + off).all()
        narrow += found.hi[i] - found.lo[i] <= 1e-3 * (1.0 + abs(values[0]))
    assert narrow > 10  # they say something
    known = {*enclosure.ONE, *enclosure.MANY}
    assert known <= FORMS.keys()


def test_a_difference_that_boxes_do_not_tell_from_nothing():
    """exp(-u) - exp(-v) <= exp(-u), also where v - u may be negative by the ends of u and v."""
    difference = SimpleNamespace(py_func=prelude.PRIMITIVES["log_exp_difference"].function)
    space = {"log_exp_difference": difference, "math": math}
    text = "log_exp_difference(-u(x), -u(x + 1.0), u(x + 1.0) - u(x))".replace("u(", "math.sqrt(")
    made = SimpleNamespace(py_func=eval(f"lambda x, theta: {text}", space))
    ends = np.array([100.0, 1e4]), np.array([120.0, 1e300])
    found = on_boxes(made, np.empty(0), *ends)
    for i, x in ((0, 100.0), (0, 110.0), (1, 1e4), (1, 1e6)):
        with mpmath.workdps(30):
            value = mpmath.log(mpmath.exp(-mpmath.sqrt(x)) - mpmath.exp(-mpmath.sqrt(x + 1)))
        assert found.lo[i] <= value <= found.hi[i]
    assert (found.hi <= -np.sqrt(ends[0]) + 1e-9).all()


@pytest.fixture(scope="module")
def hidden():
    """Noise with a narrow mode that is next to no parameter, and in no end of a branch."""
    noise = "((1-w)*exp(-abs({0}))*tanh(1/2) + w*exp(-({0}-3*far+7)**2/(2*s**2))/(sqrt(2*pi)*s))"
    return mechc.load(declaration_from_text(
        "hidden", p=noise.format("(n-1)"), q=noise.format("n"), variable="n", lattice=True,
        parameters=["integer far >= 1", "0 < w < 1", "s > 0"],
    ))  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "far", [3000, 200_000, *(pytest.param(v, marks=pytest.mark.slow) for v in (10**9, 10**14))]
)
def test_a_mode_that_no_place_is_next_to(hidden, far):
    """Beyond a loss of 1 only the mode counts: e^-251 was said for e^-57."""
    s, weights = 2.0, (1e-10, 1e-20)
    for w, epsilon in ((w, e) for w in weights for e in (1.5, 3.0)):
        with mpmath.workdps(40):
            mode = [mpmath.npdf(k, 0, s) for k in range(-60, 62)]
            terms = (b - mpmath.exp(epsilon) * a for a, b in zip(mode, [0, *mode], strict=False))
            truth = float(mpmath.log(w * sum(max(t, 0) for t in terms)))
        event = hidden(far=far, w=w, s=s)
        one = event.log_delta(epsilon, direction="remove")
        assert one.lower <= truth + 1e-9 and truth - 1e-9 <= one.upper < truth + 1e-6
        assert one.status.startswith("proven for")
        thirty = (30 * event).log_delta(epsilon + 32.0, direction="remove")
        assert truth - 80.0 < thirty.upper < 0.0


def test_a_mode_too_small_to_be_listed_counts(hidden):
    """Whatever its losses are: its mass of 1e-80 is revealed."""
    found = hidden(far=200_000, w=1e-80, s=2.0).log_delta(2.0, direction="remove")
    assert -202.0 < found.upper <= math.log(1e-80) + 1e-9


@pytest.mark.few(2)
@pytest.mark.parametrize("t", [-900.0, 300.0, 5000.0])
def test_tilts_at_which_losses_count_thousandfold(t):
    """A sample of Skellam noise: where its loss is level it is a difference of large logarithms."""
    rate, move, share = 35.2, 2, 3e-4
    n = np.arange(-6_000, 6_001)

    def log_mass(n):  # of I_n by its series, from the largest power on
        n, k = np.abs(n)[:, None], np.arange(250)[None]
        terms = (n + 2 * k) * math.log(rate) - gammaln(k + 1) - gammaln(n + k + 1)
        return logsumexp(terms, axis=1) - 2 * rate

    q = log_mass(n)
    p = np.logaddexp(q + math.log1p(-share), log_mass(n - move) + math.log(share))
    event = mechc.poisson(mechc.load("skellam"))(rate=rate, sensitivity=move, sampling_rate=share)
    law = event.loss("remove").covering(min(t, 0.0), max(t, 0.0))
    truth = logsumexp(p + t * (p - q))
    assert law.generating(t)[0] == pytest.approx(truth, rel=1e-10)


def test_logs_of_powers_do_not_overflow_on_boxes():
    """Values and slopes of log(1 + c (x/d)^k) out to the largest doubles, and around 0."""
    law = SimpleNamespace(py_func=eval("lambda x, theta: log1p_power(2.0, x, 3.0, 2.0)", {
        "log1p_power": SimpleNamespace(py_func=prelude.log1p_power)}))  # fmt: skip
    a, b = np.array([-1e300, 1e160, -1e-3]), np.array([-300.0, 1e308, 2e-3])
    found = on_boxes(law, np.empty(0), a, b)
    tops = [math.log(2 / 9) + 2 * math.log(v) for v in (1e300, 1e308)]
    assert found.hi[:2] == pytest.approx(tops, rel=1e-9)
    assert found.least[0] >= -2 / 300 * (1 + 1e-9) and found.most[0] <= 0
    assert found.least[1] >= 0 and found.most[1] <= 2e-160 * (1 + 1e-9)
    slopes = [4 / 9 * end / (1 + 2 / 9 * end**2) for end in (-1e-3, 2e-3)]
    assert 3 * slopes[0] <= found.least[2] <= slopes[0]
    assert slopes[1] <= found.most[2] <= 3 * slopes[1]
    law.py_func = eval("lambda x, theta: log1p_power(2.0, x, 3.0, 4.5)", law.py_func.__globals__)
    found = on_boxes(law, np.empty(0), np.array([1e90]), np.array([1e200]))
    truth = [math.log(2) + 4.5 * (math.log(v) - math.log(3)) for v in (1e90, 1e200)]
    assert found.lo[0] <= truth[0] and found.hi[0] >= truth[1]
    assert found.least[0] <= 4.5e-200 and found.most[0] >= 4.5e-90
