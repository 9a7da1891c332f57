"""The exponential mechanism, and every mechanism of epsilon-bounded range."""

from sympy import exp

from mechc.declare import dominates, mechanism, positive, real

x = real("x")
epsilon = positive("epsilon", typical=(0.1, 5))


def density(centre):
    return exp(-(x - centre)) / (1 + exp(-(x - centre))) ** 2


exponential_mechanism = mechanism(
    "exponential_mechanism",
    variable=x,
    p=density(epsilon),
    q=density(0),
    parameters=(epsilon,),
    about="Selection whose loss varies by at most epsilon between outcomes: the exponential "
    "mechanism, report noisy max with Gumbel noise.",
    refs=("mcsherry2007mechanism", "dong2020optimal"),
    claim=dominates("any", because="the profile of two logistic laws at distance epsilon is the "
                    "supremum of the profiles of all bounded-range pairs of Dong, Durfee, Rogers "
                    "2020"),
)  # fmt: skip
