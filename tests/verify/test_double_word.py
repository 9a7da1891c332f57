"""Double words against exact rational arithmetic, and differences of logarithms at points."""

from fractions import Fraction

import numpy as np
import pytest
from sympy import N, Rational, Symbol, expand, log

pytest.importorskip("flint")
double_word = pytest.importorskip("mechc.verify.balls.double_word")
density = pytest.importorskip("mechc.verify.balls.density")


def numbers(rng, size):
    words = rng.uniform(-1, 1, (4, size)) * 10.0 ** rng.uniform(-30, 0, size)
    words[1::2] *= 2.0**-54
    return words


def exact(words):
    """Real and imaginary parts as fractions."""
    real, low, imag, imag_low = (list(map(Fraction, map(float, row))) for row in words)
    return [(a + b, c + d) for a, b, c, d in zip(real, low, imag, imag_low, strict=True)]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_products_and_sums_keep_their_promise(size):
    rng = np.random.default_rng(size)
    state, by = numbers(rng, size), numbers(rng, size)
    wanted = [(a * c - b * d, a * d + b * c)
              for (a, b), (c, d) in zip(exact(state), exact(by), strict=True)]  # fmt: skip
    double_word.turn(state, by)
    for (a, b), (c, d) in zip(exact(state), wanted, strict=True):
        room = 2.0 * double_word.MULTIPLY * float(abs(c) + abs(d))
        assert float(abs(a - c) + abs(b - d)) <= room
    ((real, imag),) = exact(double_word.total(state).reshape(4, 1))
    levels = double_word.ADD * size.bit_length()
    for found, part in ((real, 0), (imag, 1)):
        parts = [pair[part] for pair in exact(state)]
        assert float(abs(found - sum(parts))) <= levels * float(sum(map(abs, parts)))


def test_joined_logarithms_are_the_same_function():
    x, nu = Symbol("x", real=True), Symbol("nu", positive=True)
    one, other = -(nu + 1) / 2 * log(1 + (x - 3) ** 2 / nu), -(nu + 1) / 2 * log(1 + x**2 / nu)
    joined = density.difference(one, other, x)
    assert len(joined.atoms(log)) == 1
    for place in (Rational(-70, 3), Rational(1, 7), Rational(5, 2), Rational(10**6)):
        values = {x: place, nu: Rational(7, 3)}
        gap = N((joined - (one - other)).subs(values), 30)
        assert abs(gap) < 1e-25


def test_other_logarithms_stay():
    x = Symbol("x", real=True)
    one, other = log(1 + 2 * x**2) - x, log(1 + x**2)
    assert density.difference(one, other, x) == expand(one - other)
