"""Two Gaussians of the same mean and different spread."""

from sympy import exp, pi, sqrt

from mechc.declare import dominates, mechanism, positive, real

x = real("x")
sp = positive("sp", typical=(0.5, 2))
sq = positive("sq", typical=(0.5, 2))


def density(s):
    return exp(-(x**2) / (2 * s**2)) / (sqrt(2 * pi) * s)


gaussian_scale = mechanism(
    "gaussian_scale",
    variable=x,
    p=density(sp),
    q=density(sq),
    parameters=(sp, sq),
    about="N(0, sp^2) against N(0, sq^2): the record changes the spread of the noise.",
    refs=("dong2022gaussian",),
    claim=dominates(
        "add_remove", because="the record changes the standard deviation from sq to sp"
    ),
)
