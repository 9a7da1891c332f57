"""Report noisy max with Laplace or exponential noise."""

from sympy import exp

from mechc.declare import dominates, mechanism, parameter

epsilon = parameter("epsilon", 0, typical=(0.1, 5))
likely, unlikely = exp(epsilon) / (1 + exp(epsilon)), 1 / (1 + exp(epsilon))

report_noisy_max = mechanism(
    "report_noisy_max",
    outcomes=[(likely, unlikely), (unlikely, likely)],
    parameters=(epsilon,),
    about="The index of the largest of several noisy scores, and nothing else.",
    refs=("dwork2014algorithmic",),
    claim=dominates("any", because="Dwork, Roth 2014, Claim 3.9: the index is epsilon-private "
                    "however many scores there are; with Gumbel noise use exponential_mechanism"),
)  # fmt: skip
