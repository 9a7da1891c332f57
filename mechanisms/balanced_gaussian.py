"""Gaussian noise on a query that moves up or down with equal chances."""

from sympy import exp, pi, sqrt

from mechc.declare import dominates, mechanism, positive, real

x = real("x")
sigma = positive("sigma", typical=(0.5, 5))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))


def density(centre):
    return exp(-((x - centre) ** 2) / (2 * sigma**2)) / (sqrt(2 * pi) * sigma)


balanced_gaussian = mechanism(
    "balanced_gaussian",
    variable=x,
    p=(density(sensitivity) + density(-sensitivity)) / 2,
    q=density(0),
    parameters=(sigma, sensitivity),
    about="The record moves the query by plus or minus the sensitivity, with equal chances.",
    refs=("choquette2023privacy",),
    claim=dominates("add_remove", because="the move is plus or minus the sensitivity exactly"),
)
