"""Gumbel noise on a real query: the two directions differ."""

from sympy import exp

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

gumbel = additive(
    "gumbel",
    noise=exp(-x / scale - exp(-x / scale)) / scale,
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Gumbel noise on a real query that can only grow when a record is added.",
    refs=("dong2020optimal",),
)
