"""Sums of exponentials are factored where that is little work."""

from sympy import Dummy, Mul, Rational, Symbol, cosh, exp, log, simplify

from mechc.symbolic.rewrite import degree, expanded_log, factored, tidy

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


def test_logs_of_parameters_inside_of_logs_come_back():
    s = Symbol("s", positive=True)
    found = tidy(log(exp(x) * log(1 + s) + exp(-x)) + x * log(1 + s), x)
    assert not found.atoms(Dummy) and found.subs({x: 0, s: 1}).equals(log(1 + log(2)))


def test_logs_stay_real():
    a = Symbol("a", nonnegative=True)
    assert expanded_log(log(-1 / (a - 1))) == log(-1 / (a - 1))
    assert expanded_log(log(2 * a)) == log(2) + log(a)
