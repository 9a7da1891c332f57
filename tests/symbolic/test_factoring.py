"""Sums of exponentials are factored where that is little work; products are multiplied out."""

import pytest
from sympy import Mul, Rational, Symbol, cosh, erfc, exp, expand, log, simplify, sqrt, symbols

from mechc.symbolic.rewrite import degree, expanded, factored

x = Symbol("x", real=True)
a, b = symbols("a b", positive=True)


def test_rates_with_a_common_unit_are_factored():
    expr = exp(3 * x) - exp(x)
    assert degree(expr) == 3
    assert len(Mul.make_args(factored(expr))) == 3
    assert simplify(factored(expr) - expr) == 0


def test_rates_without_one_are_left_alone():
    expr = exp(20 * x / 53) - exp(20 * x / 31) + exp(Rational(1, 7))
    assert degree(expr) == 20 * 53
    assert factored(expr) is expr


def test_expressions_without_exponentials_are_factored():
    assert degree(x**2 - 1) == 0
    assert factored(x**2 - 1) == (x - 1) * (x + 1)
    assert factored(cosh(x) ** 2 - 1) == (cosh(x) - 1) * (cosh(x) + 1)


@pytest.mark.parametrize(
    "expr",
    [
        (a + b) ** 3 * (x - Rational(1, 3) * a) ** 2 - x**5,
        (sqrt(3) * a - x) ** 2 + (1 / a + sqrt(a)) ** 3 * (a + b),
        exp((x + a) * (x - b) / a) * (exp(x) + exp(-2 * x)) ** 2 - exp(log(2) * x),
        (erfc(x * (x + a)) - 2) ** 2 * (log(a * b) + x) * (1 + b) ** (x + 1),
    ],
)
def test_products_are_multiplied_out_as_sympy_does(expr):
    assert expanded(expr) == expand(expr)
