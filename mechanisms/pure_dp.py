"""The worst case of all mechanisms that are epsilon-differentially private."""

from sympy import exp

from mechc.declare import dominates, mechanism, parameter

epsilon = parameter("epsilon", 0, typical=(0.1, 5))
likely, unlikely = exp(epsilon) / (1 + exp(epsilon)), 1 / (1 + exp(epsilon))

pure_dp = mechanism(
    "pure_dp",
    outcomes=[(likely, unlikely), (unlikely, likely)],
    parameters=(epsilon,),
    about="A mechanism of which only epsilon is known.",
    refs=("kairouz2015composition",),
    claim=dominates("any", because="Kairouz, Oh, Viswanath 2015: every epsilon-private mechanism "
                    "is a post-processing of this pair"),
)  # fmt: skip
