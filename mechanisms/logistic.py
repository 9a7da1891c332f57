"""Logistic noise on a real query."""

from sympy import exp

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

logistic = additive(
    "logistic",
    noise=exp(-x / scale) / (scale * (1 + exp(-x / scale)) ** 2),
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Logistic noise on a real query: its loss is bounded by sensitivity / scale.",
    refs=("balakrishnan1991handbook",),
)
