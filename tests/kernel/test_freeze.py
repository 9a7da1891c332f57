"""The whitelist between SymPy and KernelIR."""

import mpmath
import pytest
import sympy
from sympy import Rational, Symbol, pi

from mechc.calculus import derive, normalise
from mechc.calculus.transform.sensitivity import random_sensitivity
from mechc.composition.mechanism import load
from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.lower.forms import candidates, exp_difference, log_ratio, power_difference
from mechc.kernel.lower.freeze import FUNCTIONS, Freezer, Helpers
from mechc.kernel.passes import finish_expression
from mechc.kernel.printer import runnable
from mechc.symbolic.functions import expm1c, log_mix, sinhc

x = Symbol("x", real=True)
s = Symbol("s", positive=True)
n = Symbol("n", integer=True, positive=True)
LEAVES = {x: ir.Var("x"), s: ir.Param("s"), n: ir.Param("n")}


@pytest.fixture
def freeze():
    return Freezer(LEAVES, "test: here", Helpers())


def value(freeze, expr, **at):
    names = [str(leaf.name) for leaf in LEAVES.values()]
    arguments = [at.get(name, 0.5) for name in names]
    return runnable(finish_expression(freeze(expr)), names)(*arguments)


@pytest.mark.parametrize(
    "expr",
    [
        x**2 + 3 * x * s - Rational(1, 3),
        sympy.exp(-sympy.Abs(x) / s) / (2 * s),
        sympy.sqrt(2 * pi) * sympy.log(s) + sympy.log(1 + sympy.exp(x)),
        sympy.erfc(x / sympy.sqrt(2)) + sympy.erf(x) + sympy.gamma(s + 1) + sympy.loggamma(s),
        sympy.sinh(x) + sympy.cosh(x) + sympy.tanh(x) + sympy.asinh(x) + sympy.atan(x),
        sympy.sin(x) * sympy.cos(x) + sympy.tan(x) + sympy.asin(x / 2) + sympy.acos(x / 2),
        sympy.sech(x) + sympy.csch(s) - sympy.coth(s) + sympy.sec(x) - sympy.csc(s) * sympy.cot(s),
        sympy.acosh(s + 1) + sympy.atanh(x / 2) + sympy.floor(3 * x) + sympy.ceiling(3 * x),
        sympy.log(sympy.gamma(s)) + sympy.factorial(n) + sympy.log(sympy.factorial(n + 2)),
        sympy.binomial(n + 3, n) + sympy.log(sympy.binomial(n + 3, n)),
        sympy.log(sympy.besseli(n, s)) + sympy.besseli(n, 2 * s),
        sympy.Max(x, s, 1) + sympy.Min(x, s) + sympy.sign(x),
        sympy.Piecewise((x, x > s), (s**2, (x > 0) & (s < 3)), (1, True)),
        x**s,
        s ** Rational(3, 2) + s ** Rational(-1, 2) + s**20,
        sympy.E**2 + sympy.log(3) * x,
    ],
)
def test_value_is_kept(freeze, expr):
    at = {"x": 0.3125, "s": 1.75, "n": 3.0}
    exact = expr.subs({x: Rational(5, 16), s: Rational(7, 4), n: 3}).evalf(30)
    assert value(freeze, expr, **at) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("at", [-5, Rational(-5, 16), 0, 5])
def test_even_powers_of_negative_numbers_are_numbers(freeze, at):
    """Which log(1 + x**(2 n)) = softplus(2 n log(x)) is not."""
    for expr in (sympy.log(1 + x ** (2 * n)), x ** (2 * n), (x - s) ** (4 * n - 2)):
        exact = expr.subs({x: at, s: Rational(7, 4), n: 3}).evalf(30)
        found = value(freeze, expr, x=float(at), s=1.75, n=3.0)
        assert found == pytest.approx(float(exact), rel=1e-13)


def _differences_spelled(form):
    return form.replace(exp_difference, lambda a, b, _: sympy.exp(a) - sympy.exp(b))


@pytest.mark.parametrize(
    ("expr", "exact"),
    [
        (log_mix(s, x), lambda x, s: mpmath.log(1 - s + s * mpmath.exp(x))),
        (sinhc(x), lambda x, s: mpmath.sinh(x) / x),
        (expm1c(x), lambda x, s: mpmath.expm1(x) / x),
        (log_ratio(x, s, x - s), lambda x, s: mpmath.log(x / s)),
        (power_difference(x, s, x - s, Rational(3, 2)), lambda x, s: x**1.5 - s**1.5),
        (exp_difference(x, s, x - s), lambda x, s: mpmath.exp(x) - mpmath.exp(s)),
    ],
)
def test_words_have_their_value(freeze, expr, exact):
    found = value(freeze, expr, x=0.3125, s=0.75)
    assert found == pytest.approx(float(exact(mpmath.mpf(0.3125), mpmath.mpf(0.75))), rel=1e-14)


@pytest.mark.parametrize(
    ("expr", "word"),
    [
        (sympy.airyai(x), "airyai"),
        (sympy.Integral(sympy.sin(x**2), (x, 0, s)), "Integral"),
        (sympy.Float(0.1) * x, "Float"),
        (Symbol("unknown") + x, "unknown"),
        (sympy.I * x, "ImaginaryUnit"),
        (sympy.Sum(sympy.exp(-(n**2)), (n, -sympy.oo, 0)) * s, "Sum"),
    ],
)
def test_anything_else_is_refused_with_its_name_and_place(freeze, expr, word):
    with pytest.raises(LoweringError, match=word) as caught:
        freeze(expr)
    assert "test: here" in str(caught.value)


def test_constants_are_rounded_once(freeze):
    frozen = freeze(sympy.sqrt(2 * pi) * 2 * x)
    constant = next(node for node in ir.walk(frozen) if isinstance(node, ir.Constant))
    with mpmath.workdps(40):
        assert constant.value == float(mpmath.sqrt(2 * mpmath.pi) * 2)


def test_series_become_helpers_once(freeze):
    m = Symbol("m", integer=True)
    series = sympy.Sum(sympy.exp(-s * m**2), (m, -sympy.oo, sympy.oo))
    assert freeze(series) == freeze(series)
    assert isinstance(freeze(x * series), ir.Mul)
    assert [type(helper).__name__ for helper in freeze.helpers.found] == ["Series"]


def test_every_named_function_is_callable():
    from mechc.kernel.prelude import PRIMITIVES
    from mechc.kernel.printer import MATH_FUNCTIONS

    assert set(FUNCTIONS.values()) <= MATH_FUNCTIONS | set(PRIMITIVES)


@pytest.mark.few(0, 3, 4, 6, 7, 8)
@pytest.mark.parametrize(
    "expr",
    [
        (s + 1) * sympy.log((s**2 + x**2) / (s**2 + (x - 1) ** 2)) / 2,
        2 * sympy.log(1 + sympy.exp(-x)) - 2 * sympy.log(1 + sympy.exp(s - x)) + s,
        sympy.log(1 + sympy.exp(-2 * x)) - sympy.log(1 + sympy.exp(2 * s - 2 * x)) + s,
        sympy.log(s * sympy.exp(x) + 1 - s) - x,
        log_mix(s / 3, sympy.log(1 + x**2) - sympy.log(2 + x**2)),
        sympy.log(s * sympy.exp(-((x - 1) ** 2) / s**2) + sympy.exp(-((x - 1) ** 4)))
        - sympy.log(s * sympy.exp(-(x**2) / s**2) + sympy.exp(-(x**4))),
        (x / s) ** (s + 1) - ((x + 1) / s) ** (s + 1),
        x**2 / (2 * s**2) - (x - 1) ** 2 / (2 * s**2),
        s * (sympy.sqrt(1 + x**2) - sympy.sqrt(1 + (x - s) ** 2)),
    ],
)
def test_candidates_are_equal_functions(expr):
    for form in candidates(expr, x):
        for at in ({x: Rational(7, 5), s: Rational(2, 3)}, {x: Rational(1, 9), s: Rational(1, 7)}):
            spelled = form.replace(log_ratio, lambda n, d, _: sympy.log(n / d))
            spelled = _differences_spelled(spelled)
            spelled = spelled.replace(power_difference, lambda a, b, _, k: a**k - b**k)
            spelled = spelled.replace(log_mix, lambda q, d: sympy.log(1 - q + q * sympy.exp(d)))
            exact = expr.replace(log_mix, lambda q, d: sympy.log(1 - q + q * sympy.exp(d)))
            difference = (spelled - exact).subs(at).evalf(40)
            assert abs(difference) < 1e-30, form


def test_roots_are_not_subtracted():
    """Far out sqrt(1 + x^2) - sqrt(1 + (x - s)^2) keeps its digits in one of its forms."""
    loss = s * (sympy.sqrt(1 + x**2) - sympy.sqrt(1 + (x - s) ** 2))
    at = (1e9, 0.3)
    truth = float(loss.subs({x: Rational(at[0]), s: Rational(at[1])}).evalf(40))
    found = [sympy.lambdify((x, s), form, "math")(*at) for form in candidates(loss, x)]
    assert min(abs(value - truth) for value in found) <= 4 * 2.0**-52 * abs(truth)


@pytest.mark.slow
def test_products_of_many_sums_are_not_multiplied_out():
    """Five moves of logistic noise make thousands of exponentials, which no form may list."""
    pair = normalise(random_sensitivity(load("logistic").declaration, 5))
    ((region,),) = (case.regions for case in derive(pair).cases)
    for form in candidates(region.loss, pair.variable):
        assert form.count_ops() < 4 * region.loss.count_ops()


def test_gaps_are_exact():
    """The third argument really is the difference of the first two."""
    loss = 2 * sympy.log(1 + sympy.exp(-x)) - 2 * sympy.log(1 + sympy.exp(s - x)) + s
    for form in candidates(loss, x):
        for ratio in form.atoms(log_ratio):
            top, bottom, gap = map(_differences_spelled, ratio.args)
            at = {x: Rational(3, 7), s: Rational(5, 11)}
            assert abs((top - bottom - gap).subs(at).evalf(40)) < 1e-30
