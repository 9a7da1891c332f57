"""Cauchy noise on a real query."""

from sympy import pi

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

cauchy = additive(
    "cauchy",
    noise=1 / (pi * scale * (1 + x**2 / scale**2)),
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Cauchy noise on a real query: heavy tails, a bounded loss.",
    refs=("nissim2007smooth",),
)
