"""Student-t noise on a real query."""

from sympy import gamma, pi, sqrt

from mechc.declare import additive, positive, real

x = real("x")
nu = positive("nu", typical=(1, 10))
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

normaliser = gamma((nu + 1) / 2) / (gamma(nu / 2) * sqrt(pi * nu) * scale)

student_t = additive(
    "student_t",
    noise=normaliser * (1 + x**2 / (nu * scale**2)) ** (-(nu + 1) / 2),
    variable=x,
    sensitivity=sensitivity,
    parameters=(nu, scale, sensitivity),
    about="Student-t noise with nu degrees of freedom: heavy tails, a bounded loss.",
    refs=("nissim2007smooth", "bun2019average"),
)
