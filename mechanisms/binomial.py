"""Binomial noise on an integer query."""

from sympy import binomial as choose

from mechc.declare import additive, count, integer

n = integer("n")
trials = count("trials", typical=(20, 200))
sensitivity = count("sensitivity", default=1, typical=(1, 5))

binomial = additive(
    "binomial",
    noise=choose(trials, n) / 2**trials,
    variable=n,
    support=(0, trials),
    sensitivity=sensitivity,
    parameters=(trials, sensitivity),
    lattice=True,
    about="The number of heads in fair coin tosses, added to an integer query.",
    refs=("agarwal2018cpsgd",),
)
