"""Discrete Gaussian noise on an integer query."""

from sympy import Dummy, Sum, exp, oo

from mechc.declare import additive, count, integer, positive

n, m = integer("n"), Dummy("m", integer=True)
sigma = positive("sigma", typical=(0.5, 20))
sensitivity = count("sensitivity", default=1, typical=(1, 5))

discrete_gaussian = additive(
    "discrete_gaussian",
    noise=exp(-(n**2) / (2 * sigma**2)) / Sum(exp(-(m**2) / (2 * sigma**2)), (m, -oo, oo)),
    variable=n,
    sensitivity=sensitivity,
    parameters=(sigma, sensitivity),
    lattice=True,
    about="Noise of mass proportional to exp(-n^2 / (2 sigma^2)) on an integer query.",
    refs=("canonne2020discrete",),
)
