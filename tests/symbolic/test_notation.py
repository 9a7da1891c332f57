"""Formulas as they stand in headers of kernels: the same numbers, in the words of a person."""

import pytest
from sympy import Piecewise, erf, exp, gamma, log, oo, pi, sqrt, symbols, sympify

from mechc.symbolic.functions import log_besselk, log_erf_gap, log_mix
from mechc.symbolic.notation import typeset, written

x, d, s = symbols("x d s", positive=True)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (exp(-((x - d) ** 2) / (2 * s**2)), "exp(-(x - d)**2/(2*s**2))"),
        (1 / (sqrt(2 * pi) * s), "1/(s*sqrt(2*pi))"),
        (-(d**2) / (2 * s**2) + d * x / s**2, "d*(x - d/2)/s**2"),
        (erf(sqrt(2) * x / 2), "erf(x/sqrt(2))"),
        (2 * sqrt(2) / sqrt(pi) / s, "sqrt(8/pi)/s"),
        (-x / sqrt(8), "-x/(2*sqrt(2))"),
        (1 / (4 * pi * s), "1/(4*pi*s)"),
        (exp((d - 1) * log(x)) * exp(-x), "x**(d - 1)*exp(-x)"),
        (-oo, "-oo"),
        (1 / (pi * s), "1/(pi*s)"),
        (2 * sqrt(2) * x * gamma(sympify("1/3")), "2*sqrt(2)*x*gamma(1/3)"),
    ],
)
def test_written(expr, text):
    assert written(expr) == text
    assert abs(sympify(text, {"s": s, "x": x, "d": d}) - expr).equals(0) or expr == -oo


def test_functions_of_kernels_are_written_as_those_of_books():
    assert written(exp(log_erf_gap(x, s) - d)) == "(erf(s - x) + erf(s + x))*exp(-d)"
    assert written(exp(x + log_besselk(1, s))) == "exp(x)*besselk(1, s)"
    assert written(log_mix(d, x) / s) == "log(d*exp(x) + 1 - d)/s"


def test_cases_are_one_factor():
    """Without which what divides them all would seem to divide the last."""
    cases = Piecewise((x, x < d), (exp(-x), x < s), (0, True)) / s
    assert written(cases) == "(x if d > x, else exp(-x) if s > x, else 0)/s"


def test_latex_has_names_for_names_and_roots_for_constants():
    bend = symbols("bend")
    assert typeset(bend * (x - d)) == r"\mathit{bend} \left(x - d\right)"
    assert typeset(1 / (s * sqrt(2 * pi))) == r"\frac{1}{s \sqrt{2 \pi}}"
