"""The room's own functions, their mpmath values, and numbers for parameters."""

import pickle

import mpmath
import numpy as np
import pytest
from sympy import Eq, Sum, Symbol, erfc, exp, log, oo, symbols

from mechc.symbolic.evaluate import evaluate, evaluate_array, holds
from mechc.symbolic.functions import expm1c, log_mix, sinhc, spell_out
from mechc.symbolic.parameters import count, positive, rate
from mechc.symbolic.typical import typical_values

x = Symbol("x", real=True)
q, d = symbols("q d", positive=True)


def test_log_mix_folds_and_differentiates():
    assert log_mix(0, d) == 0
    assert log_mix(1, d) == d
    assert log_mix(q, 0) == 0
    assert log_mix(q, -oo) == log(1 - q)
    assert log_mix(q, oo) is oo
    slope = log_mix(q, x).diff(x)
    assert slope.equals(q * exp(x) / (1 - q + q * exp(x)))


@pytest.mark.parametrize("word", [sinhc, expm1c])
def test_removable_singularities(word):
    assert word(0) == 1
    with mpmath.workdps(30):
        for at in ("0", "1e-9", "0.7", "-3"):
            value = mpmath.mpf(at)
            found = evaluate(word(x), {x: value})
            direct = 1 if value == 0 else evaluate(spell_out(word(x)), {x: value})
            assert mpmath.almosteq(found, direct, rel_eps=1e-15)


def test_words_survive_pickling():
    expr = log_mix(q, d) + sinhc(d) * expm1c(q)
    assert pickle.loads(pickle.dumps(expr)) == expr


def test_arrays_agree_with_mpmath():
    expr = log_mix(q, x) + sinhc(x) + expm1c(x) + exp(-(x**2))
    at = np.linspace(-3, 3, 7)
    found = evaluate_array(expr, {q: 0.3, x: at})
    truth = [float(evaluate(expr, {q: mpmath.mpf("0.3"), x: mpmath.mpf(v)})) for v in at]
    assert np.allclose(found, truth, rtol=1e-13)


def test_typical_values_stay_in_their_ranges():
    parameters = (
        positive("scale", typical=(0.5, 50)).parameter,
        rate("p").parameter,
        count("n", typical=(1, 5)).parameter,
    )
    for values in typical_values(parameters, 20):
        vector = {s.name: v for s, v in values.items()}
        assert 0.5 <= vector["scale"] <= 50
        assert 0.001 <= vector["p"] <= 0.5
        assert vector["n"] in range(1, 6)


def test_a_condition_outside_the_typical_ranges_is_met_by_widening():
    low = positive("low", typical=(0.1, 1)).parameter
    high = positive("high", typical=(5, 9)).parameter
    vector = typical_values((low, high), 1, low.symbol > high.symbol)[0]
    assert vector[low.symbol] > vector[high.symbol]


def test_an_equation_is_met_by_elimination():
    one, two = positive("one").parameter, positive("two").parameter
    condition = Eq(one.symbol, two.symbol)
    vector = typical_values((one, two), 1, condition)[0]
    assert holds(condition, vector)


def test_logs_of_what_overflows_or_vanishes():
    """Exponentials far beyond doubles, whose logs are not; reference: mpmath."""
    for expr, at in (
        (log(1 + exp(-2 * x)), -1e4),
        (log(3 + 2 * exp(x)), 900.0),
        (log(erfc(x)), 60.0),
    ):
        found = float(evaluate_array(expr, {x: np.array([at])})[0])
        assert found == pytest.approx(float(evaluate(expr, {x: mpmath.mpf(at)})), rel=1e-14)


def test_log_of_a_sum_of_exponentials_in_the_plane():
    """As in K of a finite set of outcomes at a complex tilt; reference: mpmath."""
    z = Symbol("z")
    expr = log(exp(-z * log(3)) / 2 + exp(z * log(2)) / 2)
    for at in (0.3 + 0.7j, -0.5 + 2.0j, 2.0 - 1.0j):
        found = complex(evaluate_array(expr, {z: at}))
        assert found == pytest.approx(complex(evaluate(expr, {z: mpmath.mpmathify(at)})), rel=1e-14)


@pytest.mark.parametrize(("power", "digits"), [(4.5, 1e-15), (30.0, 1e-40)])
def test_sums_of_powers_end(power, digits):
    """Terms of n^-9 to 50 digits would be some 10^6."""
    with mpmath.workdps(50):
        k = Symbol("k", integer=True)
        found = evaluate(Sum((1 + k**2) ** -d, (k, -oo, oo)), {d: power})
        truth = 1 + 2 * mpmath.nsum(lambda n: (1 + n * n) ** -mpmath.mpf(power), [1, mpmath.inf])
        assert mpmath.almosteq(found, truth, rel_eps=digits)
