"""One-sided exponential noise on a real query: the two directions differ drastically."""

from sympy import exp, oo

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

exponential = additive(
    "exponential",
    noise=exp(-x / scale) / scale,
    variable=x,
    support=(0, oo),
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Exponential noise, never negative, on a query that can only grow when a record is "
    "added: removal is certain to be noticed below the new minimum.",
)
