"""Laplace noise on a real query."""

from sympy import Abs, exp

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

laplace = additive(
    "laplace",
    noise=exp(-Abs(x) / scale) / (2 * scale),
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Laplace noise on a real query.",
    refs=("dwork2006calibrating",),
)
