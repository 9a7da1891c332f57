"""Expansions at infinity, against limits and growth rates that are known."""

import pytest
from sympy import Symbol, asinh, besseli, erfc, exp, gamma, log, loggamma, oo, pi, sqrt, symbols

from mechc.symbolic.asymptotics import Expansion, Unknown
from mechc.symbolic.facts import Facts, facts_of
from mechc.symbolic.functions import log_mix
from mechc.symbolic.parameters import rate

y = Symbol("y", positive=True)
a, b, s = symbols("a b s", positive=True)
r = rate("r").parameter
R = r.symbol
FACTS = facts_of((r,))


@pytest.mark.parametrize(
    ("expr", "limit"),
    [
        ((y + a) ** 2 - y**2, oo),
        (sqrt(y**2 + a * y) - y, a / 2),
        (log((y + a) / (y + b)), 0),
        (y * log((y + a) / (y + b)), a - b),
        (log(1 + exp(y / s)) - y / s, 0),
        (log(exp(-y / s) + exp(-(y + a) / s)) + y / s, log(1 + exp(-a / s))),
        (log_mix(R, a * y) - a * y, log(R)),
        (log_mix(R, -a * y), log(1 - R)),
        (log(erfc(y / s)) - log(erfc((y + a) / s)), oo),
        (log(erfc(y)) + y**2 + log(y), -log(pi) / 2),
        (loggamma(y + 1) - loggamma(y) - log(y), 0),
        (log(besseli(0, y)) - y + log(y) / 2, -log(2 * pi) / 2),
        ((log(besseli(s, y)) - y + log(2 * pi * y) / 2) * y, (1 - 4 * s**2) / 8),
        (log(besseli(a, 1 / y)) + a * log(2 * y), -log(gamma(a + 1))),
        (log(log(y + a)) - log(log(y)), 0),
        (asinh(a * y) - log(2 * a * y), 0),
        (asinh(-y - b) + asinh(y), 0),
        (log(y) * (log(log(y**2)) - log(log(y)) - log(2)), 0),
        (exp(-a * y) * y**3, 0),
        ((1 - exp(-1 / y)) * y, 1),
        (y * log((1 - exp(-(y**2) / s)) / (1 - exp(-((y - a) ** 2) / s))), 0),
        (y**3 * exp(a * y - y**2), 0),
        # the same power in other words
        (y ** (1 + a * b / (a + b)) - y ** (1 + 1 / (1 / a + 1 / b)) + a, a),
        (2 * y ** (a * b / (a + b)) - y ** (1 / (1 / a + 1 / b)), oo),
    ],
)
def test_limit(expr, limit):
    found = Expansion(y, FACTS).limit(expr)
    assert found == limit or (found - limit).expand(force=True) == 0 or found.equals(limit)


def test_powers_with_a_parameter_need_its_side_of_one():
    difference = (y + a) ** b - y**b
    with pytest.raises(Unknown):
        Expansion(y, Facts()).limit(difference)
    assert Expansion(y, Facts().assume(b - 1, 1)).limit(difference) == oo
    assert Expansion(y, Facts().assume(1 - b, 1)).limit(difference) == 0


@pytest.mark.parametrize("expr", [exp(y**2), log(log(log(y))), (a - b) * y])
def test_outside_the_class_is_unknown(expr):
    with pytest.raises(Unknown):
        Expansion(y, Facts()).limit(expr)
