"""The worst case of all mechanisms that are mu-Gaussian differentially private."""

from sympy import exp, pi, sqrt

from mechc.declare import dominates, mechanism, positive, real

x = real("x")
mu = positive("mu", typical=(0.02, 5))


def density(centre):
    return exp(-((x - centre) ** 2) / 2) / sqrt(2 * pi)


gdp = mechanism(
    "gdp",
    variable=x,
    p=density(mu),
    q=density(0),
    parameters=(mu,),
    about="A mechanism of which only its mu-GDP guarantee is known.",
    refs=("dong2022gaussian",),
    claim=dominates("any", because="mu-GDP is defined by domination by this pair"),
)
