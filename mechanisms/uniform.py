"""Uniform noise on a real query."""

from mechc.declare import additive, positive, real

x = real("x")
halfwidth = positive("halfwidth", typical=(5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

uniform = additive(
    "uniform",
    noise=1 / (2 * halfwidth),
    variable=x,
    support=(-halfwidth, halfwidth),
    sensitivity=sensitivity,
    parameters=(halfwidth, sensitivity),
    about="Uniform noise on (-halfwidth, halfwidth): nothing is revealed, or everything.",
    refs=("geng2019optimal",),
)
