"""Raised cosine noise on a real query."""

from sympy import cos, pi

from mechc.declare import additive, positive, real

x = real("x")
halfwidth = positive("halfwidth", typical=(5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

raised_cosine = additive(
    "raised_cosine",
    noise=cos(pi * x / (2 * halfwidth)) ** 2 / halfwidth,
    variable=x,
    support=(-halfwidth, halfwidth),
    sensitivity=sensitivity,
    parameters=(halfwidth, sensitivity),
    about="Noise of density (1 + cos(pi x / halfwidth)) / (2 halfwidth), which ends smoothly.",
    refs=("rinne2010location",),
)
