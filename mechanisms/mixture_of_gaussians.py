"""Gaussian noise on a query that moves by a random distance."""

from sympy import exp, pi, sqrt

from mechc.declare import dominates, lists, mechanism, numbers, positive, probabilities, real

x = real("x")
sigma = positive("sigma", typical=(0.5, 5))


def density(centre):
    return exp(-((x - centre) ** 2) / (2 * sigma**2)) / (sqrt(2 * pi) * sigma)


@lists(length=3)
def mixture_of_gaussians(length):
    sensitivities = numbers("sensitivities", length, 0, typical=(0.1, 2))
    weights = probabilities("weights", length)
    return mechanism(
        "mixture_of_gaussians",
        variable=x,
        p=sum(w * density(c) for w, c in zip(weights, sensitivities, strict=True)),
        q=density(0),
        parameters=(sigma, *sensitivities, *weights),
        about="Gaussian noise on a query that moves by sensitivities_i with probability weights_i.",
        refs=("choquette2023privacy",),
        claim=dominates("add_remove", because="Choquette-Choo et al. 2024, Corollary 4.7: the "
                        "norms of random moves dominate the moves themselves"),
    )  # fmt: skip
