"""Gaussian noise on a real query."""

from sympy import exp, pi, sqrt

from mechc.declare import additive, positive, real

x = real("x")
sigma = positive("sigma", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

gaussian = additive(
    "gaussian",
    noise=exp(-(x**2) / (2 * sigma**2)) / (sqrt(2 * pi) * sigma),
    variable=x,
    sensitivity=sensitivity,
    parameters=(sigma, sensitivity),
    about="Gaussian noise of standard deviation sigma on a real query.",
    refs=("dwork2006our", "balle2018improving"),
)
