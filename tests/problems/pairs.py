"""The densities of built-in mechanisms by hand, for `integrals`: P is noise shifted by 1.

`PAIRS[name](*theta)` is an `integrals.Pair`; theta are the parameters of the mechanism without the
sensitivity, which is 1 here.
"""

import math

from flint import arb
from integrals import Pair
from truth import ball

INF = math.inf
REAL = [-INF, INF]


def shifted(log_noise, breaks, scale):
    return Pair(lambda x: log_noise(x - 1), log_noise, breaks, scale)


def gaussian(sigma):
    s = ball(sigma)
    norm = (2 * arb.pi() * s * s).log() / 2
    return shifted(lambda x: -x * x / (2 * s * s) - norm, REAL, float(sigma))


def student_t(nu, scale):
    nu, s = ball(nu), ball(scale)
    norm = ((nu + 1) / 2).lgamma() - (nu / 2).lgamma() - (arb.pi() * nu).log() / 2 - s.log()
    return shifted(
        lambda x: norm - (nu + 1) / 2 * (x * x / (nu * s * s)).log1p(),
        [-INF, 0.0, 1.0, INF],
        0.7 * float(scale) * math.sqrt(float(nu)),
    )


def cauchy(scale):
    return student_t(1, scale)


def logistic(scale):
    s = ball(scale)
    return shifted(
        lambda x: -abs(x) / s - 2 * (-abs(x) / s).exp().log1p() - s.log(), REAL, float(scale)
    )


def hyperbolic_secant(scale):
    s = ball(scale)

    def log_noise(x):
        u = abs(arb.pi() * x / (2 * s))
        return -u - (-2 * u).exp().log1p() - s.log()

    return shifted(log_noise, REAL, 0.7 * float(scale))


def gumbel(scale):
    s = ball(scale)
    return shifted(lambda x: -x / s - (-x / s).exp() - s.log(), REAL, float(scale))


def subbotin(beta, scale):
    b, s = ball(beta), ball(scale)
    norm = (b / (2 * s)).log() - (1 / b).lgamma()

    def log_noise(x):
        return norm - (abs(x) / s) ** b

    return shifted(log_noise, [-INF, 0.0, 1.0, INF], float(scale))


def gaussian_scale(sp, sq):
    def density(s):
        s = ball(s)
        norm = (2 * arb.pi() * s * s).log() / 2
        return lambda x: -x * x / (2 * s * s) - norm

    return Pair(density(sp), density(sq), REAL, float(min(sp, sq)))


PAIRS = {
    f.__name__: f
    for f in (
        gaussian, student_t, cauchy, logistic, hyperbolic_secant, gumbel, subbotin, gaussian_scale,
    )
}  # fmt: skip
