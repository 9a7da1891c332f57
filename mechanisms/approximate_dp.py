"""The worst case of all mechanisms that are (epsilon, delta)-differentially private."""

from sympy import exp

from mechc.declare import dominates, mechanism, parameter, rate

epsilon = parameter("epsilon", 0, typical=(0.1, 5))
delta = rate("delta", typical=(1e-6, 0.1))

likely = (1 - delta) * exp(epsilon) / (1 + exp(epsilon))
unlikely = (1 - delta) / (1 + exp(epsilon))

approximate_dp = mechanism(
    "approximate_dp",
    outcomes=[(delta, 0), (likely, unlikely), (unlikely, likely), (0, delta)],
    parameters=(epsilon, delta),
    about="A mechanism of which only (epsilon, delta) is known.",
    refs=("kairouz2015composition",),
    claim=dominates("any", because="Kairouz, Oh, Viswanath 2015: every (epsilon, delta)-private "
                    "mechanism is a post-processing of this pair"),
)  # fmt: skip
