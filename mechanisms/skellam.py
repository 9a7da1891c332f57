"""Skellam noise on an integer query."""

from sympy import Abs, besseli, exp

from mechc.declare import additive, count, integer, positive

n = integer("n")
rate = positive("rate", typical=(1, 100))
sensitivity = count("sensitivity", default=1, typical=(1, 5))

skellam = additive(
    "skellam",
    noise=exp(-2 * rate) * besseli(Abs(n), 2 * rate),
    variable=n,
    sensitivity=sensitivity,
    parameters=(rate, sensitivity),
    lattice=True,
    about="The difference of two Poisson variables of mean rate, added to an integer query.",
    refs=("agarwal2021skellam",),
)
