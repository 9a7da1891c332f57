"""Subbotin (generalised Gaussian) noise on a real query."""

from sympy import Abs, exp, gamma

from mechc.declare import additive, positive, real

x = real("x")
beta = positive("beta", typical=(0.5, 4))
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

subbotin = additive(
    "subbotin",
    noise=beta / (2 * scale * gamma(1 / beta)) * exp(-((Abs(x) / scale) ** beta)),
    variable=x,
    sensitivity=sensitivity,
    parameters=(beta, scale, sensitivity),
    about="Noise of density proportional to exp(-|x/scale|^beta): Laplace at 1, Gaussian at 2.",
    refs=("subbotin1923law", "liu2019generalized", "ganesh2021privately"),
)
