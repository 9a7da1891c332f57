"""Huber noise on a real query: a Gaussian middle with exponential tails."""

from sympy import Abs, Piecewise, erf, exp, pi, sqrt

from mechc.declare import additive, positive, real

x = real("x")
scale = positive("scale", typical=(0.5, 20))
bend = positive("bend", default=1.345, typical=(0.5, 3))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

z = Abs(x) / scale
middle = sqrt(2 * pi) * erf(bend / sqrt(2))
tails = 2 * exp(-(bend**2) / 2) / bend

huber = additive(
    "huber",
    noise=Piecewise((exp(-(z**2) / 2), z <= bend), (exp(bend**2 / 2 - bend * z), True))
    / (scale * (middle + tails)),
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, bend, sensitivity),
    about="Noise of density exp(-rho(x / scale)), rho quadratic up to bend and linear beyond.",
    refs=("huber1964robust",),
)
