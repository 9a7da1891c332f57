"""Gaussian noise whose standard deviation is drawn from two values."""

from sympy import exp, pi, sqrt

from mechc.declare import additive, positive, rate, real

x = real("x")
weight = rate("weight", typical=(0.1, 0.9))
narrow = positive("narrow", typical=(0.5, 2))
wide = positive("wide", typical=(2, 10))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))


def density(s):
    return exp(-(x**2) / (2 * s**2)) / (sqrt(2 * pi) * s)


gaussian_scale_mixture = additive(
    "gaussian_scale_mixture",
    noise=weight * density(narrow) + (1 - weight) * density(wide),
    variable=x,
    sensitivity=sensitivity,
    parameters=(weight, narrow, wide, sensitivity),
    about="Gaussian noise, narrow with probability weight and wide otherwise.",
    refs=("andrews1974scale",),
)
