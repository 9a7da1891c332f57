"""Laplace noise cut off on both sides."""

from sympy import Abs, exp

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 20))
halfwidth = positive("halfwidth", typical=(5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

truncated_laplace = additive(
    "truncated_laplace",
    noise=exp(-Abs(x) / scale) / (2 * scale * (1 - exp(-halfwidth / scale))),
    variable=x,
    support=(-halfwidth, halfwidth),
    sensitivity=sensitivity,
    parameters=(scale, halfwidth, sensitivity),
    about="Laplace noise conditioned on (-halfwidth, halfwidth).",
    refs=("geng2020tight",),
)
