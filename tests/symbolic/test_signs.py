"""Proofs of signs: what the rules can decide, and that they never decide wrongly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import (
    Rational,
    Sum,
    Symbol,
    binomial,
    cos,
    cosh,
    exp,
    factorial,
    log,
    oo,
    pi,
    sqrt,
    symbols,
)

from mechc.symbolic.facts import Facts, Undecided, eliminations, facts_of
from mechc.symbolic.parameters import positive, rate
from mechc.symbolic.signs import sign, weak_sign

a, b, s = symbols("a b s", positive=True)
x = Symbol("x", real=True)
k = Symbol("k", integer=True)
q = rate("q").parameter
Q = q.symbol
DOMAINS = facts_of((q,))


@pytest.mark.parametrize(
    ("expr", "facts", "expected"),
    [
        (a + b, Facts(), 1),
        (-a * b**2, Facts(), -1),
        (1 - Q, DOMAINS, 1),
        (1 - Q + Q * exp(a), DOMAINS, 1),
        (exp(a / s) - 1, Facts(), 1),
        (exp(-a) - exp(a), Facts(), -1),
        (x**2 - 2 * x * a + a**2 + s, Facts(), 1),
        (a - b, Facts().assume(a - b, 1), 1),
        (b**2 - a**2, Facts().assume(a - b, 1), -1),
        (1 / a**2 - 1 / b**2, Facts().assume(b - a, 1), 1),
        (b - s**2 / a, Facts().assume(a * b - s**2, 1), 1),
        (x - a, Facts().within(x, 2 * a, oo), 1),
        (x * (a - x), Facts().within(x, 0, a), 1),
        ((a + b) ** s - a**s, Facts(), 1),
        (log(1 + a), Facts(), 1),
        # the domain of an end that is told by an assumption
        (1 - x, DOMAINS.assume(Q - b, 1).within(x, b, Q), 1),
        (1 + cos(pi * x / a), Facts().within(x, -a, a), 1),
        # Laplace noise convolved with a uniform one, and with another Laplace noise
        (1 - exp(-b / a) * cosh(x / a), Facts().within(x, -b, b), 1),
        (1 - 2 * exp(-b / a) * cosh(x / a), Facts().within(x, -b, b), None),
        (exp(2 * x / a) + 1 - 2 * exp(b / a) * exp(x / a), Facts().within(x, -b, b), -1),
        ((a + b) * exp(-x / (a + b)) - b * exp(-x / b), Facts().within(x, 0, oo), 1),
        (1 - cos(pi * b / a), Facts().assume(2 * a - b, 1), 1),
        (Sum(a**k / factorial(k) ** s, (k, 0, oo)), Facts(), 1),
        (Sum(k * exp(-(k**2)), (k, -3, oo)), Facts(), None),
        (log(1 + exp(a)) - log(1 + exp(-b)), Facts(), 1),
        (log(1 + exp(a - s)) - log(1 + exp(b - s)), Facts().assume(a - b, 1), 1),
        (sqrt(a**2 + b**2) - a, Facts(), None),
        # negative at a = 1/100: the gamma function of the first argument plus one is
        (binomial(a - Rational(8, 5), a / 2 - Rational(4, 5)), Facts(), None),
        (binomial(a + b, a), Facts(), 1),
        (sqrt(3) * a - a, Facts(), 1),
        # concave, between ends at which it is positive or zero; rising; convex
        (3 * a**2 - 4 * x**2, Facts().within(x, -a / 2, a / 2), 1),
        (3 * a**2 - 4 * x**2, Facts().within(x, -sqrt(3) * a / 2, a / 2), 1),
        (3 * a**2 - 4 * x**2, Facts().within(x, -a / 2, a), None),
        (4 * a**3 - 6 * a * x**2 - 3 * x**3, Facts().within(x, -a, 0), 1),
        (x**2 - a * x - a**2, Facts().within(x, 0, a), -1),
        # -6 a^2 + 12 a b - 4 b^2 for a < b < 2 a
        (12 * a * b - 6 * a**2 - 4 * b**2, Facts().assume(b - a, 1).assume(2 * a - b, 1), 1),
        (12 * a * b - 6 * a**2 - 4 * b**2, Facts().assume(3 * a - b, 1), None),
        # it rises where x > a, and is not negative at an end that does not hold
        (4 * (x - a) ** 2 - a**2, Facts().assume(x - a, 1).within(x, 0, 4 * a), None),
    ],
)
def test_sign(expr, facts, expected):
    if expected is None:
        with pytest.raises(Undecided):
            sign(expr, facts)
    else:
        assert sign(expr, facts) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (a - s, 1),
        (s - a - 3, -1),
        (2 * a - 3 * s + b, 1),
        (a - 2 * b, None),
        (x, None),
        (3 + (a - s) / b, 1),
        (1 + (x - a) / b, None),
        ((a + b) / s - 2, 1),
    ],
)
def test_linear_facts_are_added_up(expr, expected):
    """From a > b > s, whatever else is open."""
    facts = Facts().assume(a - b, 1).assume(b - s, 1)
    assert weak_sign(expr, facts) == expected


@pytest.mark.parametrize("expr", [a - b, x, a**2 - b, exp(a) - 2, 1 + cos(x), Q - a])
def test_both_signs_occur(expr):
    with pytest.raises(Undecided):
        sign(expr, DOMAINS)


def test_the_open_factor_is_named():
    with pytest.raises(Undecided) as caught:
        sign((a**2 - b**2) * exp(x) / s, Facts())
    assert {abs(caught.value.expr.subs({a: 2, b: 1}))} == {1}


coefficients = st.integers(-3, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(coefficients, min_size=4, max_size=4), st.floats(0.01, 50), st.floats(0.01, 50))
def test_a_proved_sign_is_never_wrong(c, left, right):
    expr = c[0] + c[1] * a + c[2] * a * b + c[3] * exp(a / 9)
    try:
        found = sign(expr, Facts())
    except Undecided:
        return
    value = float(expr.subs({a: left, b: right}))
    assert value * found > 0 or value == found == 0


def test_equations_eliminate_a_parameter():
    from sympy import Eq

    assert eliminations(Eq(a, b)) == {a: b}
    assert eliminations(Eq(a * b, s**2)) == {a: s**2 / b}
    assert eliminations(a > b) == {}


def test_domains_are_encoded_in_the_interior():
    facts = facts_of((positive("c").parameter, q))
    assert sign(Q, facts) == 1
    assert sign(Q - 1, facts) == -1


def test_an_interval_with_a_point_in_it_is_not_empty():
    here = Facts().within(x, a, b)
    assert sign(b - a, here) == 1 and sign((x - a) * (b - x) / (b - a) ** 3, here) == 1
