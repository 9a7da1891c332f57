"""Randomised response among several categories."""

from sympy import exp

from mechc.declare import count, dominates, mechanism, parameter

epsilon = parameter("epsilon", 0, typical=(0.1, 5))
categories = count("categories", lo=2, default=2, typical=(2, 10))

total = exp(epsilon) + categories - 1
other = (categories - 2) / total

randomized_response = mechanism(
    "randomized_response",
    outcomes=[(exp(epsilon) / total, 1 / total), (other, other), (1 / total, exp(epsilon) / total)],
    parameters=(epsilon, categories),
    about="The true category with probability e^epsilon / (e^epsilon + categories - 1), else any "
    "other one; outcomes that are equally likely under both are one outcome here.",
    refs=("warner1965randomized", "kairouz2016discrete"),
    claim=dominates("replace", because="any two true categories give this pair, up to relabelling"),
)
