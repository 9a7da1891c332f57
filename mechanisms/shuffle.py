"""Shuffled reports of users who randomise locally, by clones."""

from sympy import binomial as choose
from sympy import exp

from mechc.declare import count, dominates, integer, mechanism, positive

a = integer("a")
users = count("users", lo=1, typical=(10, 200))
epsilon = positive("epsilon", typical=(0.1, 20))
clones = count("clones", typical=(3, 50))  # reports that look like one of the two, theirs included

likely, unlikely = 1 / (1 + exp(-epsilon)), 1 / (1 + exp(epsilon))
toss = choose(clones, a) / 2 ** (clones - 1)
others = choose(users - 1, clones - 1) * exp(-epsilon * (clones - 1))

shuffle = mechanism(
    "shuffle",
    variable=a,
    p=toss * (likely * a + unlikely * (clones - a)) / clones,
    q=toss * (unlikely * a + likely * (clones - a)) / clones,
    support=(0, clones),
    parameters=(users, epsilon, clones),
    lattice=True,
    tag=(clones, others * (1 - exp(-epsilon)) ** (users - clones), (1, users)),
    about="The anonymous reports of users, each of which is epsilon-locally private.",
    refs=("feldman2021hiding",),
    claim=dominates("replace", because="Feldman, McMillan, Talwar 2021, Theorem 3.2: every other "
                    "report is a clone of one of the two with probability e^-epsilon"),
)  # fmt: skip
