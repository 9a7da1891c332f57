"""Discrete Laplace (two-sided geometric) noise on an integer query."""

from sympy import Abs, exp, tanh

from mechc.declare import additive, count, integer, positive

n = integer("n")
a = positive("a", typical=(0.1, 2))
sensitivity = count("sensitivity", default=1, typical=(1, 5))

discrete_laplace = additive(
    "discrete_laplace",
    noise=tanh(a / 2) * exp(-a * Abs(n)),
    variable=n,
    sensitivity=sensitivity,
    parameters=(a, sensitivity),
    lattice=True,
    about="Noise of mass proportional to exp(-a |n|) on an integer query.",
    refs=("ghosh2012universally",),
)
