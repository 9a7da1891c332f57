"""The sum of Gaussian and one-sided exponential noise on a real query."""

from sympy import erfc, exp, sqrt

from mechc.declare import additive, positive, real

x = real("x")
sigma = positive("sigma", typical=(0.5, 5))
scale = positive("scale", typical=(0.5, 5))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

tail = exp(sigma**2 / (2 * scale**2) - x / scale) / (2 * scale)

exponentially_modified_gaussian = additive(
    "exponentially_modified_gaussian",
    noise=tail * erfc((sigma / scale - x / sigma) / sqrt(2)),
    variable=x,
    sensitivity=sensitivity,
    parameters=(sigma, scale, sensitivity),
    about="Gaussian noise of standard deviation sigma plus exponential noise of mean scale.",
    refs=("grushka1972characterization",),
)
