"""Sums of exponentials are factored where that is little work."""

from sympy import Mul, Rational, Symbol, cosh, exp, simplify

from mechc.symbolic.rewrite import degree, factored

x = Symbol("x", real=True)


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
