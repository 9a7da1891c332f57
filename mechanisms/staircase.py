"""Staircase noise on a real query, by the three values its loss can take."""

from sympy import Max, Min, exp

from mechc.declare import dominates, mechanism, parameter, positive

epsilon = positive("epsilon", typical=(0.1, 5))
gamma = parameter("gamma", 0, 1, typical=(0.1, 0.9))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

# steps of width sensitivity fall by the factor e^-epsilon, the first after gamma * sensitivity
ratio = exp(-epsilon)
period = gamma + ratio * (1 - gamma)
top = (1 + Min(gamma, 1 - gamma) * (1 - ratio) / period) / 2
level = (1 - ratio) * Max(ratio * (1 - 2 * gamma), 2 * gamma - 1) / (2 * period)

staircase = mechanism(
    "staircase",
    outcomes=[(top, top * ratio), (level, level), (top * ratio, top)],
    parameters=(epsilon, gamma, sensitivity),
    about="Staircase noise built for a query of this sensitivity; outcomes of equal loss are one.",
    refs=("geng2014optimal",),
    claim=dominates("any", because="the noise is symmetric and unimodal, so the shift by the whole "
                    "sensitivity dominates; its loss is epsilon, 0 or -epsilon"),
)  # fmt: skip
