"""Hyperbolic secant noise on a real query."""

from sympy import pi, sech

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

hyperbolic_secant = additive(
    "hyperbolic_secant",
    noise=sech(pi * x / (2 * scale)) / (2 * scale),
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Hyperbolic secant noise of standard deviation scale: exponential tails, a round top.",
    refs=("fischer2014generalized",),
)
