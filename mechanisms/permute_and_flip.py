"""Permute-and-flip selection."""

from sympy import exp

from mechc.declare import dominates, mechanism, parameter

epsilon = parameter("epsilon", 0, typical=(0.1, 5))
likely, unlikely = exp(epsilon) / (1 + exp(epsilon)), 1 / (1 + exp(epsilon))

permute_and_flip = mechanism(
    "permute_and_flip",
    outcomes=[(likely, unlikely), (unlikely, likely)],
    parameters=(epsilon,),
    about="Selection by permuting the candidates and flipping a coin for each.",
    refs=("mckenna2020permute", "ding2021permute"),
    claim=dominates("any", because="McKenna, Sheldon 2020: permute-and-flip is epsilon-private; as "
                    "report noisy max with exponential noise (Ding et al. 2021) it has "
                    "no bounded range beyond that"),
)  # fmt: skip
