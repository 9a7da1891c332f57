"""Unimodality that is proved, and that is not where there are two maxima."""

from dataclasses import replace

import pytest
from sympy import asinh, besseli, binomial, erfc, exp, factorial, gamma, log, oo, pi, sqrt

from mechc.calculus.noise_shape import shape_of
from mechc.declare import additive, count, integer, positive, rate, real

x, n = real("x"), integer("n")
a, b, size = positive("a", typical=(0.5, 3)), positive("b", typical=(0.5, 3)), count("size", lo=2)
q = rate("q")
sensitivity, moves = positive("sensitivity", default=1), count("sensitivity", default=1)
spread = positive("spread", typical=(0.5, 3))
negative_binomial = gamma(n + a) / (gamma(a) * factorial(n)) * (1 - q) ** a * q**n
poisson = exp(-a) * a**n / factorial(n)


def side(y, scale):
    """Half of a normal law convolved with a Laplace law: its tail to the right."""
    tail = erfc((spread / scale - y / spread) / sqrt(2))
    return exp(spread**2 / (2 * scale**2) - y / scale) * tail / 2


CASES = {
    # name: (mass or density, parameters, support, lattice, unimodal)
    "johnson_su": (
        a / (b * sqrt(2 * pi) * sqrt(1 + (x / b) ** 2)) * exp(-((a * asinh(x / b)) ** 2) / 2),
        (a, b), (-oo, oo), False, True,
    ),
    "kumaraswamy": (
        (1 + a) * (1 + b) * (x / size) ** a * (1 - (x / size) ** (1 + a)) ** b / size,
        (a, b, size), (0, size), False, True,
    ),
    "negative_binomial": (negative_binomial, (a, q), (0, oo), True, True),
    "skellam": (exp(-2 * a) * besseli(n, 2 * a), (a,), (-oo, oo), True, True),
    "binomial": (
        binomial(size, n) * q**n * (1 - q) ** (size - n), (q, size), (0, size), True, True,
    ),
    "burr": (
        a * b * (x / size) ** (b - 1) / size / (1 + (x / size) ** b) ** (a + 1),
        (a, b, size), (0, oo), False, True,
    ),
    "frechet": (
        a / b * (x / b) ** (-1 - a) * exp(-((x / b) ** -a)), (a, b), (0, oo), False, True,
    ),
    "lognormal": (
        exp(-(log(x / a) ** 2) / (2 * b**2)) / (x * b * sqrt(2 * pi)),
        (a, b), (0, oo), False, True,
    ),
    "log_pole": (log(1 + (a / x) ** 2) / (2 * pi * a), (a,), (-oo, oo), False, True),
    "bathtub": (
        sqrt(size) / (pi * sqrt(x * (1 - x / size)) * size), (size,), (0, size), False, False,
    ),
    "normal_laplace": (
        side(x, a) / (a + b) + side(-x, b) / (a + b), (a, b, spread), (-oo, oo), False, True,
    ),
    "two_normal_exponentials": (  # nothing is undone that has one peak
        side(x + 9 * spread, spread) / (2 * spread) + side(9 * spread - x, spread) / (2 * spread),
        (spread,), (-oo, oo), False, False,
    ),
    "two_poisson": (
        poisson / 2 + poisson.subs(a, a + 30) / 2,
        (a,),
        (0, oo), True, False,
    ),
}  # fmt: skip


@pytest.mark.few(0, 3, 5, 7, 9, 12)
@pytest.mark.parametrize("name", CASES)
def test_unimodal_is_proved_or_refuted(name):
    noise, parameters, support, lattice, expected = CASES[name]
    step = moves if lattice else sensitivity
    declaration = additive(
        name, noise=noise, variable=n if lattice else x, sensitivity=step,
        parameters=(*parameters, step), lattice=lattice, support=support,
    )  # fmt: skip
    assert shape_of(replace(declaration, p=declaration.q)).unimodal is expected
