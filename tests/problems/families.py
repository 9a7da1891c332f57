"""Families of pairs, each written twice: as a declaration, and by hand for `reference`.

`FAMILIES[name]` has `declare()`, which gives a mechanism, `pair(m, **parameters)`, which shares
nothing with it but the names of the parameters, and `parameters`, the domains that values are
drawn from. Hand-written densities are logs of formulas, normalised in their heads.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from reference import Pair, Piece
from sympy import Abs, Piecewise, cosh, erfc, exp, factorial, gamma, log, oo, pi, sqrt

import mechc
from mechc.declare import additive, count, integer, mechanism, parameter, positive, real

x, n = real("x"), integer("n")
a, b, c, s, t, w = (positive(name, typical=(0.4, 5)) for name in "abcstw")
d = positive("d", typical=(0.1, 3))
FAMILIES = {}


class Family(NamedTuple):
    """A declared pair and the same by hand."""

    name: str
    declare: Callable[[], Any]
    pair: Callable[..., Pair]
    parameters: dict


def family(declare, **parameters):
    """Register the decorated hand-written pair; domains as `drawn`."""

    def add(pair):
        FAMILIES[pair.__name__] = Family(pair.__name__, declare, pair, parameters)
        return pair

    return add


def drawn(random, domain):
    """A value: log-uniform between two floats, uniform between two ints, or one of a list."""
    if isinstance(domain, list):
        return random.choice(domain)
    lo, hi = domain
    if isinstance(lo, int):
        return random.randint(lo, hi)
    return math.exp(random.uniform(math.log(lo), math.log(hi)))


# by hand: logs of densities and masses, as functions that take a point


def normal(m, mean, sigma):
    mean, sigma = m.number(mean), m.number(sigma)
    norm = m.log(sigma) + m.log(2 * m.pi * m.number(1)) / 2
    return lambda x: -(((x - mean) / sigma) ** 2) / 2 - norm


def double_exponential(m, scale, mean=0):
    scale, mean = m.number(scale), m.number(mean)
    return lambda x: -m.abs(x - mean) / scale - m.log(2 * scale)


def logistic_noise(m, scale):
    scale = m.number(scale)
    return lambda x: -m.abs(x) / scale - 2 * m.log1p(m.exp(-m.abs(x) / scale)) - m.log(scale)


def student(m, nu, scale):
    nu, scale = m.number(nu), m.number(scale)
    norm = m.loggamma((nu + 1) / 2) - m.loggamma(nu / 2) - m.log(nu * m.pi) / 2 - m.log(scale)
    width = scale * m.sqrt(nu)
    return lambda x: norm - (nu + 1) * m.log_hypot(x / width)


def gamma_law(m, shape, rate=1):
    shape, rate = m.number(shape), m.number(rate)
    norm = shape * m.log(rate) - m.loggamma(shape)
    return lambda x: norm + (shape - 1) * m.log(x) - rate * x


def weibull_law(m, shape, scale=1):
    shape, scale = m.number(shape), m.number(scale)
    norm = m.log(shape) - m.log(scale)
    return lambda x: norm + (shape - 1) * m.log(x / scale) - m.exp(shape * m.log(x / scale))


def lognormal_law(m, mean, sigma):
    under = normal(m, mean, sigma)
    return lambda x: under(m.log(x)) - m.log(x)


def ordered(points):
    """Points without repetitions, smallest first."""
    points = sorted(points, key=float)
    return [v for i, v in enumerate(points) if not i or float(v) > float(points[i - 1])]


def line(m, log_p, log_q, cuts):
    """Both laws on the line, smooth between the cuts."""
    edges = [-m.inf, *ordered([m.number(v) for v in cuts]), m.inf]
    return Pair(tuple(Piece(u, v, log_p, log_q) for u, v in pairwise(edges)))


def half_line(m, log_p, log_q, start=0):
    start = m.number(start)
    cut = start + 1
    return Pair((Piece(start, cut, log_p, log_q), Piece(cut, m.inf, log_p, log_q)))


def shifted(m, noise, d, lo=None, hi=None, cuts=(0,)):
    """Noise on (lo, hi) that is smooth between cuts: P = noise(x - d), Q = noise(x)."""
    d = m.number(d)
    ends = [m.number(v) for v in (lo, hi) if v is not None]
    marks = [m.number(v) for v in cuts] + ends
    marks = [v for mark in marks for v in (mark, mark + d)]
    edges = [-m.inf] * (lo is None) + ordered(marks) + [m.inf] * (hi is None)
    bottom = -math.inf if lo is None else float(m.number(lo))
    top = math.inf if hi is None else float(m.number(hi))

    def inside(u, v, shift):
        middle = 0.5 * (float(u) + float(v)) - shift
        return (
            bottom < middle < top
            if math.isfinite(middle)
            else ((float(u) == -math.inf and lo is None) or (float(v) == math.inf and hi is None))
        )

    pieces = []
    for u, v in pairwise(edges):
        p = (lambda x: noise(x - d)) if inside(u, v, float(d)) else None
        q = noise if inside(u, v, 0.0) else None
        if p or q:
            pieces.append(Piece(u, v, p, q))
    return Pair(tuple(pieces))


def lattice(m, log_p, log_q, lo, hi):
    """Masses on lo, ..., hi."""
    if m.number is float:
        points = np.arange(lo, hi + 1, dtype=float)
        return Pair((), tuple(zip(log_p(points), log_q(points), strict=True)))
    points = [m.number(int(i)) for i in range(lo, hi + 1)]
    return Pair((), tuple((log_p(i), log_q(i)) for i in points))


# declarations


def on_half_line(name, p, q, parameters):
    return mechanism(name, variable=x, p=p, q=q, parameters=parameters, support=(0, oo))


def noise(name, density, parameters, **options):
    return additive(
        name, noise=density, variable=x, sensitivity=d, parameters=(*parameters, d), **options
    )


def gaussian(mean, sigma):
    return exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * sqrt(2 * pi))


def weibull(shape, scale=1):
    return shape / scale * (x / scale) ** (shape - 1) * exp(-((x / scale) ** shape))


def gammas(shape, rate=1):
    return rate**shape * x ** (shape - 1) * exp(-rate * x) / gamma(shape)


def lognormal(mean, sigma):
    return exp(-((log(x) - mean) ** 2) / (2 * sigma**2)) / (x * sigma * sqrt(2 * pi))


mean = parameter("mean", typical=(-2, 2))


# two laws on the half line


@family(lambda: on_half_line("exp_weibull", exp(-x), weibull(a), (a,)), a=(0.3, 4.0))
def exp_weibull(m, a):
    return half_line(m, lambda x: -x, weibull_law(m, a))


@family(lambda: on_half_line("weibulls", weibull(a, s), weibull(b, t), (a, b, s, t)),
        a=(0.4, 4.0), b=(0.4, 4.0), s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def weibulls(m, a, b, s, t):
    return half_line(m, weibull_law(m, a, s), weibull_law(m, b, t))


@family(lambda: on_half_line("gammas", gammas(a), gammas(b), (a, b)), a=(0.3, 15.0), b=(0.3, 15.0))
def gamma_shapes(m, a, b):
    return half_line(m, gamma_law(m, a), gamma_law(m, b))


@family(lambda: on_half_line("gammas", gammas(a), gammas(b), (a, b)), a=(1, 15), b=(1, 15))
def gamma_integer_shapes(m, a, b):
    return half_line(m, gamma_law(m, a), gamma_law(m, b))


@family(lambda: on_half_line("gammas", gammas(a, s), gammas(b, t), (a, b, s, t)),
        a=(0.5, 9.0), b=(0.5, 9.0), s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def gamma_rates(m, a, b, s, t):
    return half_line(m, gamma_law(m, a, s), gamma_law(m, b, t))


@family(lambda: on_half_line("lognormal_gamma", lognormal(mean, s), gammas(a), (mean, s, a)),
        mean=(0.1, 2.0), s=(0.2, 2.0), a=(0.5, 9.0))  # fmt: skip
def lognormal_gamma(m, mean, s, a):
    return half_line(m, lognormal_law(m, mean, s), gamma_law(m, a))


@family(lambda: on_half_line("lognormals", lognormal(mean, s), lognormal(0, t), (mean, s, t)),
        mean=(0.1, 2.0), s=(0.3, 2.0), t=(0.3, 2.0))  # fmt: skip
def lognormals(m, mean, s, t):
    return half_line(m, lognormal_law(m, mean, s), lognormal_law(m, 0, t))


@family(lambda: on_half_line("lomax_exponential", a * (1 + x) ** (-a - 1), b * exp(-b * x), (a, b)),
        a=(0.5, 5.0), b=(0.2, 5.0))  # fmt: skip
def lomax_exponential(m, a, b):
    a, b = m.number(a), m.number(b)
    return half_line(m, lambda x: m.log(a) - (a + 1) * m.log1p(x), lambda x: m.log(b) - b * x)


@family(lambda: mechanism("pareto", variable=x, p=a * x ** (-a - 1), q=b * x ** (-b - 1),
                          parameters=(a, b), support=(1, oo)),
        a=(0.5, 9.0), b=(0.5, 9.0))  # fmt: skip
def pareto(m, a, b):
    def law(k):
        k = m.number(k)
        return lambda u: m.log(k) - (k + 1) * m.log1p(u)

    return half_line(m, law(a), law(b))


@family(lambda: on_half_line("rayleigh_halfnormal", x / s**2 * exp(-(x**2) / (2 * s**2)),
                             sqrt(2 / pi) / t * exp(-(x**2) / (2 * t**2)), (s, t)),
        s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def rayleigh_halfnormal(m, s, t):
    s = m.number(s)
    normal_law = normal(m, 0, t)
    return half_line(
        m, lambda x: m.log(x) - 2 * m.log(s) - (x / s) ** 2 / 2,
        lambda x: normal_law(x) + m.log(m.number(2)),
    )  # fmt: skip


@family(lambda: on_half_line("gamma_inverse_gamma", gammas(a),
                             x ** (-b - 1) * exp(-1 / x) / gamma(b), (a, b)),
        a=(0.5, 9.0), b=(0.5, 9.0))  # fmt: skip
def gamma_inverse_gamma(m, a, b):
    b = m.number(b)
    return half_line(m, gamma_law(m, a), lambda x: -(b + 1) * m.log(x) - 1 / x - m.loggamma(b))


@family(lambda: on_half_line("nakagami_halfnormal",
                             2 * a**a * x ** (2 * a - 1) * exp(-a * x**2 / s) / (gamma(a) * s**a),
                             sqrt(2 / pi) / t * exp(-(x**2) / (2 * t**2)), (a, s, t)),
        a=(0.6, 5.0), s=(0.3, 4.0), t=(0.3, 3.0))  # fmt: skip
def nakagami_halfnormal(m, a, s, t):
    a, s, t = m.number(a), m.number(s), m.number(t)
    norm = m.log(m.number(2)) + a * m.log(a / s) - m.loggamma(a)
    other = m.log(2 / (m.pi * m.number(1))) / 2 - m.log(t)
    return half_line(m, lambda x: norm + (2 * a - 1) * m.log(x) - a * x * x / s,
                     lambda x: other - (x / t) ** 2 / 2)  # fmt: skip


@family(lambda: on_half_line("gompertz_exponential", a * exp(x) * exp(a - a * exp(x)),
                             b * exp(-b * x), (a, b)),
        a=(0.1, 4.0), b=(0.2, 4.0))  # fmt: skip
def gompertz_exponential(m, a, b):
    a, b = m.number(a), m.number(b)
    return half_line(m, lambda x: m.log(a) + x - a * m.expm1(x), lambda x: m.log(b) - b * x)


def log_logistic(m, a):
    """Of the powers x^a and x^-a the one below one, so that none overflows."""
    a = m.number(a)

    def law(x):
        size = m.abs(a * m.log(x))
        return m.log(a) - m.log(x) - size - 2 * m.log1p(m.exp(-size))

    return law


@family(lambda: on_half_line("loglogistics", a * x ** (a - 1) / (1 + x**a) ** 2,
                             b * x ** (b - 1) / (1 + x**b) ** 2, (a, b)),
        a=(0.5, 6.0), b=(0.5, 6.0))  # fmt: skip
def loglogistics(m, a, b):
    return half_line(m, log_logistic(m, a), log_logistic(m, b))


@family(lambda: on_half_line("burr_weibull", a * b * x ** (a - 1) * (1 + x**a) ** (-b - 1),
                             weibull(s), (a, b, s)),
        a=(0.5, 4.0), b=(0.5, 4.0), s=(0.5, 3.0))  # fmt: skip
def burr_weibull(m, a, b, s):
    a, b = m.number(a), m.number(b)

    def burr(x):
        power = a * m.log(x)
        above = (m.abs(power) + power) / 2 + m.log1p(m.exp(-m.abs(power)))
        return m.log(a * b) + power - m.log(x) - (b + 1) * above

    return half_line(m, burr, weibull_law(m, s))


# losses that are nan at 0 itself: differences of infinite logs


def inverse_gaussian(a, mean=1):
    return sqrt(a / (2 * pi * x**3)) * exp(-a * (x - mean) ** 2 / (2 * mean**2 * x))


def inverse_gamma(a, b):
    return b**a / gamma(a) * x ** (-a - 1) * exp(-b / x)


@family(lambda: on_half_line("inverse_gaussians", inverse_gaussian(a, s), inverse_gaussian(b, t),
                             (a, b, s, t)),
        a=(0.3, 5.0), b=(0.3, 5.0), s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def inverse_gaussians(m, a, b, s, t):
    def law(k, mean):
        k, mean = m.number(k), m.number(mean)
        norm = (m.log(k) - m.log(2 * m.pi * m.number(1))) / 2
        return lambda x: norm - m.log(x) * 3 / 2 - k * ((x - mean) / mean) ** 2 / (2 * x)

    return half_line(m, law(a, s), law(b, t))


@family(lambda: on_half_line("levy", inverse_gamma(sp.S.Half, a), inverse_gamma(sp.S.Half, b),
                             (a, b)),
        a=(0.3, 5.0), b=(0.3, 5.0))  # fmt: skip
def levy(m, a, b):
    return inverse_gammas(m, 0.5, 0.5, a, b)


@family(lambda: on_half_line("inverse_gammas", inverse_gamma(a, s), inverse_gamma(b, t),
                             (a, b, s, t)),
        a=(0.5, 6.0), b=(0.5, 6.0), s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def inverse_gammas(m, a, b, s, t):
    def law(k, scale):
        k, scale = m.number(k), m.number(scale)
        norm = k * m.log(scale) - m.loggamma(k)
        return lambda x: norm - (k + 1) * m.log(x) - scale / x

    return half_line(m, law(a, s), law(b, t))


@family(lambda: on_half_line("frechets", a * x ** (-a - 1) * exp(-(x**-a)),
                             b * x ** (-b - 1) * exp(-(x**-b)), (a, b)),
        a=(0.5, 5.0), b=(0.5, 5.0))  # fmt: skip
def frechets(m, a, b):
    def law(k):
        k = m.number(k)
        return lambda x: m.log(k) - (k + 1) * m.log(x) - m.exp(-k * m.log(x))

    return half_line(m, law(a), law(b))


@family(lambda: on_half_line("reciprocal_exponentials", exp(-x / s - t / x) / (
                             2 * sqrt(s * t) * sp.besselk(1, 2 * sqrt(t / s))), exp(-x), (s, t)),
        s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def reciprocal_exponentials(m, s, t):
    """Generalised inverse Gaussian law of index 1 and an exponential one."""
    s, t = m.number(s), m.number(t)
    order = 2 * m.exp(m.log(t / s) / 2)
    norm = m.log(m.number(2)) + m.log(s * t) / 2 + m.log_bessel_k(1, order)
    return half_line(m, lambda x: -x / s - t / x - norm, lambda x: -x)


# two laws on (0, 1)


def unit(m, log_p, log_q, mirrored_p, mirrored_q, cut=0.5):
    """Log densities near 0, and as functions of 1 - x near 1."""
    cut = m.number(cut)
    return Pair((
        Piece(m.number(0), cut, log_p, log_q), Piece(m.number(0), 1 - cut, mirrored_p, mirrored_q),
    ))  # fmt: skip


def beta_law(m, a, b):
    a, b = m.number(a), m.number(b)
    norm = m.loggamma(a + b) - m.loggamma(a) - m.loggamma(b)
    return lambda x: norm + (a - 1) * m.log(x) + (b - 1) * m.log1p(-x)


def beta(a, b):
    return gamma(a + b) / (gamma(a) * gamma(b)) * x ** (a - 1) * (1 - x) ** (b - 1)


@family(lambda: mechanism("betas", variable=x, p=beta(a, b), q=beta(c, s), support=(0, 1),
                          parameters=(a, b, c, s)),
        a=(0.6, 9.0), b=(0.6, 9.0), c=(0.6, 9.0), s=(0.6, 9.0))  # fmt: skip
def betas(m, a, b, c, s):
    return unit(m, beta_law(m, a, b), beta_law(m, c, s), beta_law(m, b, a), beta_law(m, s, c))


@family(lambda: mechanism("kumaraswamy", variable=x, support=(0, 1), parameters=(a, b, c),
                          p=a * b * x ** (a - 1) * (1 - x**a) ** (b - 1), q=c * x ** (c - 1)),
        a=(0.6, 5.0), b=(0.6, 5.0), c=(0.6, 5.0))  # fmt: skip
def kumaraswamy(m, a, b, c):
    a, b, c = m.number(a), m.number(b), m.number(c)

    def law(logx):
        return m.log(a) + m.log(b) + (a - 1) * logx + (b - 1) * m.log(-m.expm1(a * logx))

    def power(logx):
        return m.log(c) + (c - 1) * logx

    return unit(
        m, lambda x: law(m.log(x)), lambda x: power(m.log(x)),
        lambda u: law(m.log1p(-u)), lambda u: power(m.log1p(-u)),
    )  # fmt: skip


peak = parameter("peak", 0, 1, lo_open=True, hi_open=True, typical=(0.1, 0.9))


@family(lambda: mechanism("triangles", variable=x, support=(0, 1), parameters=(peak,),
                          q=2 * (1 - x),
                          p=Piecewise((2 * x / peak, x < peak), (2 * (1 - x) / (1 - peak), True))),
        peak=(0.05, 0.95))  # fmt: skip
def triangles(m, peak):
    top = m.number(peak)
    two = m.log(m.number(2))
    return unit(
        m, lambda x: two + m.log(x) - m.log(top), lambda x: two + m.log1p(-x),
        lambda u: two + m.log(u) - m.log1p(-top), lambda u: two + m.log(u), cut=peak,
    )  # fmt: skip


@family(lambda: mechanism("power_log", variable=x, support=(0, 1), p=-log(x), q=a * x ** (a - 1),
                          parameters=(a,)), a=(0.6, 5.0))  # fmt: skip
def power_log(m, a):
    a = m.number(a)
    return unit(m, lambda x: m.log(-m.log(x)), lambda x: m.log(a) + (a - 1) * m.log(x),
                lambda y: m.log(-m.log1p(-y)), lambda y: m.log(a) + (a - 1) * m.log1p(-y),
                )  # fmt: skip


@family(lambda: mechanism("arcsine_beta", variable=x, support=(0, 1), parameters=(a, b),
                          p=1 / (pi * sqrt(x * (1 - x))), q=beta(a, b)),
        a=(0.6, 6.0), b=(0.6, 6.0))  # fmt: skip
def arcsine_beta(m, a, b):
    """A pole of both, or of one, at either end, where the loss is not bounded."""
    arcsine = beta_law(m, 0.5, 0.5)
    return unit(m, arcsine, beta_law(m, a, b), arcsine, beta_law(m, b, a))


# two laws on the line


@family(lambda: mechanism("gaussians", variable=x, p=gaussian(mean, s), q=gaussian(0, t),
                          parameters=(mean, s, t)),
        mean=(0.05, 3.0), s=(0.4, 2.5), t=(0.4, 2.5))  # fmt: skip
def gaussians(m, mean, s, t):
    return line(m, normal(m, mean, s), normal(m, 0, t), (0, mean))


@family(lambda: mechanism("laplaces", variable=x, parameters=(mean, s, t),
                          p=exp(-Abs(x - mean) / s) / (2 * s), q=exp(-Abs(x) / t) / (2 * t)),
        mean=(0.05, 3.0), s=(0.4, 2.5), t=(0.4, 2.5))  # fmt: skip
def laplaces(m, mean, s, t):
    return line(m, double_exponential(m, s, mean), double_exponential(m, t), (0, mean))


@family(lambda: mechanism("gaussian_laplace", variable=x, parameters=(s, t), p=gaussian(0, s),
                          q=exp(-Abs(x) / t) / (2 * t)), s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def gaussian_laplace(m, s, t):
    return line(m, normal(m, 0, s), double_exponential(m, t), (0,))


@family(lambda: mechanism("gaussian_cauchy", variable=x, parameters=(s, t), p=gaussian(0, s),
                          q=1 / (pi * t * (1 + (x / t) ** 2))),
        s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def gaussian_cauchy(m, s, t):
    return line(m, normal(m, 0, s), student(m, 1, t), (0,))


@family(lambda: mechanism("logistic_gaussian", variable=x, parameters=(s, t),
                          p=exp(-x / s) / (s * (1 + exp(-x / s)) ** 2), q=gaussian(0, t)),
        s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def logistic_gaussian(m, s, t):
    return line(m, logistic_noise(m, s), normal(m, 0, t), (0,))


@family(lambda: mechanism("cauchies", variable=x, parameters=(mean, s, t),
                          p=1 / (pi * s * (1 + ((x - mean) / s) ** 2)),
                          q=1 / (pi * t * (1 + (x / t) ** 2))),
        mean=(0.05, 3.0), s=(0.3, 3.0), t=(0.3, 3.0))  # fmt: skip
def cauchies(m, mean, s, t):
    p, mean = student(m, 1, s), m.number(mean)
    return line(m, lambda x: p(x - mean), student(m, 1, t), (0, mean))


share = parameter("share", 0, 1, lo_open=True, hi_open=True, typical=(0.05, 0.9))


@family(lambda: mechanism("contaminated", variable=x, parameters=(share, mean, s), q=gaussian(0, 1),
                          p=(1 - share) * gaussian(0, 1) + share * gaussian(mean, s)),
        share=(0.01, 0.9), mean=(0.3, 4.0), s=(0.3, 1.5))  # fmt: skip
def contaminated(m, share, mean, s):
    first, second = normal(m, 0, 1), normal(m, mean, s)
    share = m.number(share)
    return line(
        m, lambda x: m.logaddexp(m.log1p(-share) + first(x), m.log(share) + second(x)), first,
        (0, mean),
    )  # fmt: skip


# noise


@family(lambda: noise("logistic", exp(-x / s) / (s * (1 + exp(-x / s)) ** 2), (s,)),
        s=(0.2, 20.0), d=[1.0, 0.3, 2.5])  # fmt: skip
def logistic(m, s, d):
    return shifted(m, logistic_noise(m, s), d)


@family(lambda: noise("gaussian", gaussian(0, s), (s,)), s=(0.1, 20.0), d=[1.0, 0.3, 2.5])
def gaussian_noise(m, s, d):
    return shifted(m, normal(m, 0, s), d)


@family(lambda: noise("hollow", (x / s) ** 2 * gaussian(0, s), (s,)),
        s=(0.1, 20.0), d=[1.0, 0.3, 2.5])  # fmt: skip
def hollow(m, s, d):
    """A density with a zero inside, where the loss of the other law has a pole."""
    bell, scale, d = normal(m, 0, s), m.number(s), m.number(d)

    def law(x):
        return bell(x) + 2 * m.log(m.abs(x) / scale)

    zero = m.number(0)
    # outputs next to a zero are told apart by their distance from it
    return Pair((
        *(Piece(u, v, lambda x: law(x - d), law) for u, v in ((-m.inf, zero), (zero, d / 2))),
        *(Piece(u, v, law, lambda y: law(y + d)) for u, v in ((-d / 2, zero), (zero, m.inf))),
    ))  # fmt: skip


@family(lambda: noise("laplace", exp(-Abs(x) / s) / (2 * s), (s,)), s=(0.1, 20.0), d=[1.0, 0.3])
def laplace_noise(m, s, d):
    return shifted(m, double_exponential(m, s), d)


@family(lambda: noise("gumbel", exp(-x / s - exp(-x / s)) / s, (s,)), s=(0.2, 20.0), d=[1.0, 0.3])
def gumbel(m, s, d):
    s = m.number(s)
    return shifted(m, lambda x: -x / s - m.exp(-x / s) - m.log(s), d)


@family(lambda: noise("student", gamma((a + 1) / 2) / (gamma(a / 2) * sqrt(pi * a) * s)
                      * (1 + (x / s) ** 2 / a) ** (-(a + 1) / 2), (a, s)),
        a=(0.5, 20.0), s=(0.2, 10.0), d=[1.0, 0.3])  # fmt: skip
def student_noise(m, a, s, d):
    return shifted(m, student(m, a, s), d)


@family(lambda: noise("subbotin", b / (2 * s * gamma(1 / b)) * exp(-((Abs(x) / s) ** b)), (b, s)),
        b=(0.5, 4.0), s=(0.3, 10.0), d=[1.0, 0.3])  # fmt: skip
def subbotin(m, b, s, d):
    b, s = m.number(b), m.number(s)
    norm = m.log(b) - m.log(2 * s) - m.loggamma(1 / b)
    return shifted(m, lambda x: norm - m.exp(b * m.log(m.abs(x) / s)), d)


@family(lambda: noise("two_rates", Piecewise((exp(x / a) / (a + b), x < 0),
                                             (exp(-x / b) / (a + b), True)), (a, b)),
        a=(0.3, 10.0), b=(0.3, 10.0), d=[1.0, 0.3])  # fmt: skip
def two_rates(m, a, b, d):
    a, b = m.number(a), m.number(b)
    up = m.logaddexp if m.number is float else None

    def law(x):
        rate = np.where(x < 0, 1 / a, 1 / b) if up else (1 / a if x < 0 else 1 / b)
        return -m.abs(x) * rate - m.log(a + b)

    return shifted(m, law, d)


@family(lambda: noise("sech", 1 / (pi * s * cosh(x / s)), (s,)), s=(0.2, 10.0), d=[1.0, 0.3])
def secant(m, s, d):
    s = m.number(s)

    def law(x):
        u = m.abs(x) / s
        return m.log(m.number(2)) - m.log(m.pi * s) - u - m.log1p(m.exp(-2 * u))

    return shifted(m, law, d)


@family(lambda: noise("one_sided", exp(-x / s) / s, (s,), support=(0, oo)),
        s=(0.2, 50.0), d=[1.0, 0.3])  # fmt: skip
def one_sided(m, s, d):
    s = m.number(s)
    return shifted(m, lambda x: -x / s - m.log(s), d, lo=0)


@family(lambda: noise("gamma_noise", x ** (a - 1) * exp(-x) / gamma(a), (a,), support=(0, oo)),
        a=(1.2, 12.0), d=[1.0, 0.3])  # fmt: skip
def gamma_noise(m, a, d):
    law, d = gamma_law(m, a), m.number(d)
    both = half_line(m, law, lambda u: law(u + d))
    return Pair((Piece(m.number(0), d, None, law), *both.pieces))


@family(lambda: noise("parabolic", 3 * (w**2 - x**2) / (4 * w**3), (w,), support=(-w, w)),
        w=(0.6, 60.0), d=[1.0, 0.3])  # fmt: skip
def parabolic(m, w, d):
    # in the distance to the nearest end: pieces of P alone, both, Q alone, cut in the middle
    w, d = m.number(w), m.number(d)
    norm = m.log(m.number(3)) - m.log(4 * w**3)

    def law(v):  # v from an end
        return norm + m.log(v) + m.log(2 * w - v)

    zero = m.number(0)
    if 2 * w - d <= 0:
        return Pair((Piece(zero, w, law, None), Piece(zero, w, law, None),
                     Piece(zero, w, None, law), Piece(zero, w, None, law)))  # fmt: skip
    overlap = 2 * w - d
    return Pair((
        Piece(zero, overlap / 2, lambda v: law(v), lambda v: law(v + d)),  # from P's left end
        Piece(zero, overlap / 2, lambda v: law(v + d), lambda v: law(v)),  # from Q's right end
        Piece(zero, d, law, None), Piece(zero, d, None, law),
    ))  # fmt: skip


@family(lambda: noise("truncated_gaussian", exp(-(x**2) / (2 * s**2))
                      / (s * sqrt(2 * pi) * (1 - erfc(w / (s * sqrt(2))))), (s, w),
                      support=(-w, w)),
        s=(0.2, 10.0), w=(1.0, 60.0), d=[1.0, 0.3])  # fmt: skip
def truncated_gaussian(m, s, w, d):
    outside = 2 * m.exp(m.log_normal_cdf(-m.number(w) / m.number(s)))
    whole = normal(m, 0, s)
    return shifted(m, lambda x: whole(x) - m.log1p(-outside), d, lo=-m.number(w), hi=w)


@family(lambda: noise("truncated_laplace", exp(-Abs(x) / s) / (2 * s * (1 - exp(-w / s))), (s, w),
                      support=(-w, w)), s=(0.2, 10.0), w=(1.0, 60.0), d=[1.0, 0.3])  # fmt: skip
def truncated_laplace(m, s, w, d):
    outside = m.exp(-m.number(w) / m.number(s))
    whole = double_exponential(m, s)
    return shifted(m, lambda x: whole(x) - m.log1p(-outside), d, lo=-m.number(w), hi=w)


@family(lambda: noise("skew_normal", gaussian(0, s) * erfc(-a * x / (s * sqrt(2))), (a, s)),
        a=(0.2, 4.0), s=(0.3, 5.0), d=[1.0, 0.3])  # fmt: skip
def skew_normal(m, a, s, d):
    under, a, s = normal(m, 0, s), m.number(a), m.number(s)
    return shifted(m, lambda x: m.log(m.number(2)) + under(x) + m.log_normal_cdf(a * x / s), d)


@family(lambda: noise("generalised_logistic", exp(-a * x / s) / (1 + exp(-x / s)) ** (a + b)
                      * gamma(a + b) / (s * gamma(a) * gamma(b)), (a, b, s)),
        a=(0.3, 5.0), b=(0.3, 5.0), s=(0.3, 3.0), d=[1.0, 0.3])  # fmt: skip
def generalised_logistic(m, a, b, s, d):
    a, b, s = m.number(a), m.number(b), m.number(s)
    norm = m.loggamma(a + b) - m.loggamma(a) - m.loggamma(b) - m.log(s)

    def law(x):
        size = m.abs(x / s)
        return norm - a * x / s - (a + b) * ((size - x / s) / 2 + m.log1p(m.exp(-size)))

    return shifted(m, law, d)


@family(lambda: noise("double_lomax", a / (2 * s) * (1 + Abs(x) / s) ** (-a - 1), (a, s)),
        a=(0.5, 6.0), s=(0.3, 5.0), d=[1.0, 0.3])  # fmt: skip
def double_lomax(m, a, s, d):
    a, s = m.number(a), m.number(s)
    return shifted(m, lambda x: m.log(a / (2 * s)) - (a + 1) * m.log1p(m.abs(x) / s), d)


@family(lambda: noise("smooth_uniform", (erfc((x - w) / (s * sqrt(2)))
                      - erfc((x + w) / (s * sqrt(2)))) / (4 * w), (s, w)),
        s=(0.3, 3.0), w=(0.3, 6.0), d=[1.0, 0.3])  # fmt: skip
def smooth_uniform(m, s, w, d):
    s, w = m.number(s), m.number(w)

    def law(x):
        high, low = (m.log_normal_cdf((end - m.abs(x)) / s) for end in (w, -w))
        return high + m.log(-m.expm1(low - high)) - m.log(2 * w)

    return shifted(m, law, d)


@family(lambda: noise("hyperbolic", exp(-a * sqrt(1 + (x / s) ** 2)) / (2 * s * sp.besselk(1, a)),
                      (a, s)), a=(0.3, 6.0), s=(0.3, 5.0), d=[1.0, 0.3])  # fmt: skip
def hyperbolic(m, a, s, d):
    a, s = m.number(a), m.number(s)
    norm = m.log(2 * s) + m.log_bessel_k(1, a)
    return shifted(m, lambda x: -a * m.sqrt(1 + (x / s) ** 2) - norm, d)


@family(lambda: noise("flat_laplace", Piecewise((1 / (2 * (w + s)), Abs(x) < w), (
                      exp(-(Abs(x) - w) / s) / (2 * (w + s)), True)), (s, w)),
        s=(0.3, 5.0), w=(0.3, 5.0), d=[1.0, 0.3])  # fmt: skip
def flat_laplace(m, s, w, d):
    s, w = m.number(s), m.number(w)

    def law(x):
        beyond = m.abs(x) - w
        return -(m.abs(beyond) + beyond) / (2 * s) - m.log(2 * (w + s))

    return shifted(m, law, d, cuts=(-w, w))


@family(lambda: noise("bessel_like", (1 + Abs(x) / s) * exp(-Abs(x) / s) / (4 * s), (s,)),
        s=(0.3, 10.0), d=[1.0, 0.3])  # fmt: skip
def bessel_like(m, s, d):
    s = m.number(s)
    return shifted(m, lambda x: m.log1p(m.abs(x) / s) - m.abs(x) / s - m.log(4 * s), d)


@family(lambda: noise("moyal", exp(-(x / s + exp(-x / s)) / 2) / (s * sqrt(2 * pi)), (s,)),
        s=(0.3, 10.0), d=[1.0, 0.3])  # fmt: skip
def moyal(m, s, d):
    s = m.number(s)
    norm = m.log(s) + m.log(2 * m.pi * m.number(1)) / 2
    return shifted(m, lambda x: -(x / s + m.exp(-x / s)) / 2 - norm, d)


# without replacement: symmetric noise, a share of the records


def subset(m, law, d, rate):
    """P* and Q* of noise symmetric about 0 (see `mechc.without_replacement`)."""
    d = m.number(d)
    keep, drop = m.log(m.number(rate)), m.log1p(-m.number(rate))
    zero = m.number(0)

    def mixed(x):
        return m.logaddexp(drop + law(x), keep + law(x - d))

    beyond = [d / 2, d, d + 1]
    right = [Piece(u, v, mixed, law) for u, v in pairwise([*beyond, m.inf])]
    left = [Piece(u, v, law, mixed) for u, v in pairwise([*beyond, m.inf])]  # in -x
    between = [Piece(u, v, lambda x: drop + law(x), lambda x: drop + law(x))
               for u, v in ((-d / 2, zero), (zero, d / 2))]  # fmt: skip
    return Pair((*right, *left, *between))


SYMMETRIC = {
    "gaussian_noise": lambda m, s, d: normal(m, 0, s),
    "laplace_noise": lambda m, s, d: double_exponential(m, s),
    "logistic": lambda m, s, d: logistic_noise(m, s),
    "student_noise": lambda m, a, s, d: student(m, a, s),
}


# masses that are revealed, and atoms


def revealing(m, noise, log_cdf, d, lower, upper):
    """Noise at d and at 0, whatever lies outside (lower, upper) revealed."""
    d, lower, upper = m.number(d), m.number(lower), m.number(upper)
    marks = ordered([lower, upper, *(v for v in (m.number(0), d) if lower < v and v < upper)])
    pieces = tuple(Piece(u, v, lambda x: noise(x - d), noise) for u, v in pairwise(marks))
    p = m.logaddexp(log_cdf(lower - d), log_cdf(d - upper))
    q = m.logaddexp(log_cdf(lower), log_cdf(-upper))
    return Pair(pieces, ((p, -m.inf), (-m.inf, q)))


window = {"lower": [-3.0, -6.0, -8.5, -10.0, -12.0, -20.0, -37.0],
          "upper": [3.0, 6.0, 8.5, 10.0, 13.0, 25.0, 38.0]}  # fmt: skip


@family(lambda: mechc.truncate(mechc.load("gaussian")), sigma=(0.5, 2.0), sensitivity=[1.0, 0.5],
        **window)  # fmt: skip
def window_gaussian(m, sigma, sensitivity, lower, upper):
    scale = m.number(sigma)
    return revealing(m, normal(m, 0, sigma), lambda x: m.log_normal_cdf(x / scale),
                     sensitivity, lower, upper)  # fmt: skip


@family(lambda: mechc.truncate(mechc.load("laplace")), scale=(0.3, 2.0), sensitivity=[1.0, 0.5],
        **window)  # fmt: skip
def window_laplace(m, scale, sensitivity, lower, upper):
    b = m.number(scale)

    def log_cdf(v):  # v < 0 but for d beyond upper, which is not drawn
        return v / b - m.log(m.number(2))

    return revealing(m, double_exponential(m, scale), log_cdf, sensitivity, lower, upper)


@family(lambda: mechc.truncate(mechc.load("logistic")), scale=(0.3, 2.0), sensitivity=[1.0, 0.5],
        **window)  # fmt: skip
def window_logistic(m, scale, sensitivity, lower, upper):
    b = m.number(scale)
    return revealing(m, logistic_noise(m, scale), lambda v: v / b - m.log1p(m.exp(v / b)),
                     sensitivity, lower, upper)  # fmt: skip


@family(lambda: mechc.truncate(mechc.load("cauchy")), scale=(0.1, 2.0), sensitivity=[1.0, 0.5],
        **window)  # fmt: skip
def window_cauchy(m, scale, sensitivity, lower, upper):
    b = m.number(scale)
    return revealing(m, student(m, 1, scale), lambda v: m.log(m.atan(-b / v) / m.pi),
                     sensitivity, lower, upper)  # fmt: skip


tau = positive("tau", typical=(1, 8))


def gaussian_above(centre):
    return Piecewise((gaussian(centre, s), x > tau), (0, True))


@family(lambda: mechanism("unseen_key", variable=x, parameters=(s, tau, d), q=0,
                          p=gaussian_above(d),
                          atoms=[(0, erfc((d - tau) / (s * sqrt(2))) / 2, 1)]),
        s=(0.4, 2.0), tau=(1.5, 30.0), d=[1.0, 0.5])  # fmt: skip
def unseen_key(m, s, tau, d):
    s, gap = m.number(s), m.number(tau) - m.number(d)
    hidden, shown = m.log_normal_cdf(gap / s), m.log_normal_cdf(-gap / s)
    return Pair((), ((hidden, m.number(0)), (shown, -m.inf)))


@family(lambda: mechanism("thresholded", variable=x, parameters=(s, tau, d), p=gaussian_above(d),
                          q=gaussian_above(0), atoms=[(0, erfc((d - tau) / (s * sqrt(2))) / 2,
                                                       erfc(-tau / (s * sqrt(2))) / 2)]),
        s=(0.4, 2.0), tau=(1.5, 30.0), d=[1.0, 0.5])  # fmt: skip
def thresholded(m, s, tau, d):
    p, q = normal(m, d, s), normal(m, 0, s)
    s, tau, d = m.number(s), m.number(tau), m.number(d)
    atom = (m.log_normal_cdf((tau - d) / s), m.log_normal_cdf(tau / s))
    # beyond the threshold, in the distance from it
    return Pair(half_line(m, lambda u: p(tau + u), lambda u: q(tau + u)).pieces, (atom,))


@family(lambda: mechanism("censored", variable=x, parameters=(s, w, d),
                          p=Piecewise((exp(-Abs(x - d) / s) / (2 * s), And_(-w, w)), (0, True)),
                          q=Piecewise((exp(-Abs(x) / s) / (2 * s), And_(-w, w)), (0, True)),
                          atoms=[(-w, exp(-(w + d) / s) / 2, exp(-w / s) / 2),
                                 (w, Piecewise((exp((d - w) / s) / 2, d < w),
                                               (1 - exp((w - d) / s) / 2, True)),
                                  exp(-w / s) / 2)]),
        s=(0.2, 5.0), w=(1.2, 20.0), d=[1.0, 0.5])  # fmt: skip
def censored(m, s, w, d):
    p, q = double_exponential(m, s, d), double_exponential(m, s)
    s, w, d = m.number(s), m.number(w), m.number(d)
    marks = ordered([-w, m.number(0), d, w])
    pieces = tuple(Piece(u, v, p, q) for u, v in pairwise(marks))
    two = m.log(m.number(2))
    return Pair(pieces, ((-(w + d) / s - two, -w / s - two), ((d - w) / s - two, -w / s - two)))


def And_(lo, hi):
    return sp.And(lo < x, x < hi)


zero = parameter("zero", 0, 1, lo_open=True, hi_open=True, typical=(0.1, 0.9))
other = parameter("other", 0, 1, lo_open=True, hi_open=True, typical=(0.1, 0.9))


@family(lambda: mechanism("zero_inflated", variable=x, support=(0, oo), atoms=[(0, zero, other)],
                          parameters=(zero, other, a, b), p=(1 - zero) * a * exp(-a * x),
                          q=(1 - other) * b * exp(-b * x)),
        zero=(0.001, 0.999), other=(0.001, 0.999), a=(0.3, 3.0), b=(0.3, 3.0))  # fmt: skip
def zero_inflated(m, zero, other, a, b):
    zero, other, a, b = map(m.number, (zero, other, a, b))
    p, q = m.log1p(-zero) + m.log(a), m.log1p(-other) + m.log(b)
    pair = half_line(m, lambda x: p - a * x, lambda x: q - b * x)
    return Pair(pair.pieces, ((m.log(zero), m.log(other)),))


# ends, gaps and jumps in several places


@family(lambda: on_half_line("beta_primes", *(
            gamma(u + v) / (gamma(u) * gamma(v)) * x ** (u - 1) * (1 + x) ** (-u - v)
            for u, v in ((a, b), (c, s))), (a, b, c, s)),
        a=(0.5, 5.0), b=(0.5, 5.0), c=(0.5, 5.0), s=(0.5, 5.0))  # fmt: skip
def beta_primes(m, a, b, c, s):
    """A pole at 0, and tails of powers."""

    def law(a, b):
        a, b = m.number(a), m.number(b)
        norm = m.loggamma(a + b) - m.loggamma(a) - m.loggamma(b)
        return lambda x: norm + (a - 1) * m.log(x) - (a + b) * m.log1p(x)

    return half_line(m, law(a, b), law(c, s))


def powers(a, b):
    return a * b / (a + b) * Piecewise((x ** (a - 1), x < 1), (x ** (-b - 1), True))


@family(lambda: on_half_line("log_laplaces", powers(a, b), powers(c, s), (a, b, c, s)),
        a=(0.4, 6.0), b=(0.4, 6.0), c=(0.4, 6.0), s=(0.4, 6.0))  # fmt: skip
def log_laplaces(m, a, b, c, s):
    def law(a, b):
        a, b = m.number(a), m.number(b)
        norm = m.log(a * b / (a + b))
        return lambda x: norm + (a - 1) * m.log(x), lambda x: norm - (b + 1) * m.log(x)

    near, far = zip(law(a, b), law(c, s), strict=True)
    one = m.number(1)
    return Pair((Piece(m.number(0), one, *near), Piece(one, m.inf, *far)))


@family(lambda: mechanism("u_quadratic", variable=x, support=(0, 1), parameters=(a,),
                          p=12 * (x - sp.Rational(1, 2)) ** 2, q=a * x ** (a - 1)),
        a=(0.6, 4.0))  # fmt: skip
def u_quadratic(m, a):
    """A density that vanishes inside, where the loss has no lower bound."""
    a, half = m.number(a), m.number(1) / 2
    norm, power = m.log(m.number(12)), m.log(a)
    zero, quarter = m.number(0), half / 2

    def middle(u):  # by the distance from the middle, and by that from an end
        return norm + 2 * m.log(u)

    def outer(u):
        return norm + 2 * m.log(half - u)

    return Pair((
        Piece(zero, quarter, middle, lambda u: power + (a - 1) * m.log(half + u)),
        Piece(zero, quarter, middle, lambda u: power + (a - 1) * m.log(half - u)),
        Piece(zero, quarter, outer, lambda u: power + (a - 1) * m.log(u)),
        Piece(zero, quarter, outer, lambda u: power + (a - 1) * m.log1p(-u)),
    ))  # fmt: skip


@family(lambda: mechanism("exponential_gap", variable=x, parameters=(s, d, w),
                          p=exp(-Abs(x - d) / s) / (2 * s),
                          q=Piecewise((exp(x / s) / (2 * s), x < 0), (0, x < w),
                                      (exp((w - x) / s) / (2 * s), True))),
        s=(0.2, 4.0), d=(0.1, 3.0), w=(0.1, 3.0))  # fmt: skip
def exponential_gap(m, s, d, w):
    """Q has a gap, on either side of the mode of P or around it."""
    p = double_exponential(m, s, d)
    s, d, w = m.number(s), m.number(d), m.number(w)
    norm, pieces = m.log(2 * s), []
    for u, v in pairwise([-m.inf, *ordered([m.number(0), w, d]), m.inf]):
        gap = (lambda x: x / s - norm) if v <= 0 else None
        pieces.append(Piece(u, v, p, gap if v <= w else lambda x: (w - x) / s - norm))
    return Pair(tuple(pieces))


@family(lambda: mechanism("revealed_twice", variable=x, support=(0, oo),
                          parameters=(zero, other, a, b),
                          atoms=[(0, zero, other), (1, (1 - zero) / 2, 0), (2, 0, (1 - other) / 2)],
                          p=(1 - zero) / 2 * a * exp(-a * x), q=(1 - other) / 2 * b * exp(-b * x)),
        zero=(1e-6, 0.999), other=(1e-6, 0.999), a=(0.3, 3.0), b=(0.3, 3.0))  # fmt: skip
def revealed_twice(m, zero, other, a, b):
    """Atoms of both laws, and of either one alone, beside densities."""
    zero, other, a, b = map(m.number, (zero, other, a, b))
    p, q = (m.log1p(-v) - m.log(m.number(2)) for v in (zero, other))
    pair = half_line(m, lambda x: p + m.log(a) - a * x, lambda x: q + m.log(b) - b * x)
    return Pair(pair.pieces, ((m.log(zero), m.log(other)), (p, -m.inf), (-m.inf, q)))


# masses on the integers


def on_integers(name, p, q, parameters, support=(0, oo)):
    return mechanism(
        name, variable=n, p=p, q=q, parameters=parameters, support=support, lattice=True
    )


@family(lambda: on_integers("poissons", exp(-s) * s**n / factorial(n),
                            exp(-t) * t**n / factorial(n), (s, t)),
        s=(0.2, 40.0), t=(0.2, 40.0))  # fmt: skip
def poissons(m, s, t):
    def law(rate):
        rate = m.number(rate)
        return lambda k: k * m.log(rate) - rate - m.loggamma(k + 1)

    return lattice(m, law(s), law(t), 0, 700)


@family(lambda: on_integers("geometrics", (1 - zero) * zero**n, (1 - other) * other**n,
                            (zero, other)), zero=(0.05, 0.95), other=(0.05, 0.95))  # fmt: skip
def geometrics(m, zero, other):
    def law(ratio):
        ratio = m.number(ratio)
        return lambda k: k * m.log(ratio) + m.log1p(-ratio)

    return lattice(m, law(zero), law(other), 0, 20_000)


@family(lambda: on_integers("negative_binomials",
                            gamma(n + a) / (gamma(a) * factorial(n)) * (1 - zero) ** a * zero**n,
                            gamma(n + b) / (gamma(b) * factorial(n)) * (1 - other) ** b * other**n,
                            (a, b, zero, other)),
        a=(0.4, 9.0), b=(0.4, 9.0), zero=(0.1, 0.8), other=(0.1, 0.8))  # fmt: skip
def negative_binomials(m, a, b, zero, other):
    def law(size, ratio):
        size, ratio = m.number(size), m.number(ratio)
        return lambda k: (
            m.loggamma(k + size) - m.loggamma(size) - m.loggamma(k + 1) + size * m.log1p(-ratio)
            + k * m.log(ratio)
        )  # fmt: skip

    return lattice(m, law(a, zero), law(b, other), 0, 6000)


@family(lambda: on_integers("poisson_geometric", exp(-s) * s**n / factorial(n),
                            (1 - zero) * zero**n, (s, zero)),
        s=(0.3, 20.0), zero=(0.1, 0.9))  # fmt: skip
def poisson_geometric(m, s, zero):
    s, zero = m.number(s), m.number(zero)
    return lattice(
        m, lambda k: k * m.log(s) - s - m.loggamma(k + 1),
        lambda k: k * m.log(zero) + m.log1p(-zero), 0, 8000,
    )  # fmt: skip


def around(ratio, place):
    return (1 - ratio) / (1 + ratio) * ratio ** Abs(n - place)


rare, far = parameter("rare", lo=0, hi=1, typical=(1e-6, 0.5)), count("far", typical=(20, 200))


@family(lambda: on_integers("two_modes", (1 - rare) * around(zero, 0) + rare * around(peak, far),
                            around(other, 0), (rare, zero, peak, other, far), (-oo, oo)),
        rare=(1e-200, 0.5), zero=(0.2, 0.8), peak=(0.05, 0.8), other=(0.2, 0.8),
        far=(3, 1500))  # fmt: skip
def two_modes(m, rare, zero, peak, other, far):
    """A second mode of P, however small, at a parameter."""

    def law(ratio, place=0):
        ratio = m.number(ratio)
        norm = m.log1p(-ratio) - m.log1p(ratio)
        return lambda k: norm + m.abs(k - place) * m.log(ratio)

    rare, near, second = m.number(rare), law(zero), law(peak, far)
    kept, share = m.log1p(-rare), m.log(rare)

    def log_p(k):
        u, v = kept + near(k), share + second(k)
        top = (u + v + m.abs(u - v)) / 2
        return top + m.log1p(m.exp(-m.abs(u - v)))

    return lattice(m, log_p, law(other), -3500, far + 3500)


@family(lambda: mechc.load("discrete_laplace"), a=(0.05, 4.0), sensitivity=[1, 2, 5])
def discrete_laplace(m, a, sensitivity):
    a = m.number(a)
    norm = m.log(m.tanh(a / 2))
    reach = min(20_000, int(800 / float(a)))
    return lattice(
        m, lambda k: norm - a * m.abs(k - sensitivity), lambda k: norm - a * m.abs(k), -reach, reach
    )


@family(lambda: mechc.load("discrete_gaussian"), sigma=(0.3, 20.0), sensitivity=[1, 2, 5])
def discrete_gaussian(m, sigma, sensitivity):
    sigma = m.number(sigma)
    reach = int(40 * float(sigma)) + 8
    norm = 0 * sigma
    for k in range(reach, 0, -1):
        norm = norm + 2 * m.exp(-((k / sigma) ** 2) / 2)
    norm = m.log(1 + norm)
    return lattice(
        m, lambda k: -(((k - sensitivity) / sigma) ** 2) / 2 - norm,
        lambda k: -((k / sigma) ** 2) / 2 - norm, -reach, reach + sensitivity,
    )  # fmt: skip


trials = count("trials", typical=(1, 30))


def binomial(rate):
    return sp.binomial(trials, n) * rate**n * (1 - rate) ** (trials - n)


@family(lambda: on_integers("binomials", binomial(zero), binomial(other),
                            (trials, zero, other), (0, trials)),
        trials=(1, 60), zero=(0.02, 0.98), other=(0.02, 0.98))  # fmt: skip
def binomials(m, trials, zero, other):
    size = m.number(trials)

    def law(rate):
        rate = m.number(rate)
        return lambda k: (
            m.loggamma(size + 1) - m.loggamma(k + 1) - m.loggamma(size - k + 1) + k * m.log(rate)
            + (size - k) * m.log1p(-rate)
        )  # fmt: skip

    return lattice(m, law(zero), law(other), 0, trials)


# finite sets


def three(name):
    return lambda: mechanism(
        name, parameters=(zero, other, peak),
        outcomes=[(zero * peak, other * (1 - peak)), (zero * (1 - peak), other * peak),
                  (1 - zero, 1 - other)],
    )  # fmt: skip


@family(three("three_outcomes"), zero=(1e-9, 0.999), other=(1e-9, 0.999), peak=(0.001, 0.95))
def three_outcomes(m, zero, other, peak):
    zero, other, peak = map(m.number, (zero, other, peak))
    keep = m.log1p(-peak)
    return Pair((), (
        (m.log(zero) + m.log(peak), m.log(other) + keep),
        (m.log(zero) + keep, m.log(other) + m.log(peak)),
        (m.log1p(-zero), m.log1p(-other)),
    ))  # fmt: skip


@family(lambda: mechanism("leaky", parameters=(zero, other),
                          outcomes=[(zero, 0), ((1 - zero) * other, 1 - other),
                                    ((1 - zero) * (1 - other), other)]),
        zero=(1e-12, 0.9), other=(1e-6, 0.999))  # fmt: skip
def leaky(m, zero, other):
    zero, other = m.number(zero), m.number(other)
    return Pair((), (
        (m.log(zero), -m.inf), (m.log1p(-zero) + m.log(other), m.log1p(-other)),
        (m.log1p(-zero) + m.log1p(-other), m.log(other)),
    ))  # fmt: skip


# weights that are formulas of parameters

collisions = positive("collisions", typical=(1, 20))


def all_apart(m, a, collisions):
    """Log of the chance that no hash collides, and of that some do."""
    log_all = m.number(collisions) * m.log1p(-m.exp(-m.number(a)))
    return log_all, m.log(-m.expm1(log_all))


APART = (1 - exp(-a)) ** collisions


@family(lambda: mechanism("hashed", parameters=(a, collisions, zero),
                          outcomes=[(APART, zero), (1 - APART, 1 - zero)]),
        a=(1.0, 19.0), collisions=(1.0, 1e8), zero=(0.01, 0.99))  # fmt: skip
def hashed(m, a, collisions, zero):
    log_all, log_some = all_apart(m, a, collisions)
    zero = m.number(zero)
    return Pair((), ((log_all, m.log(zero)), (log_some, m.log1p(-zero))))


@family(lambda: mechanism("three_shares", parameters=(zero, other, peak),
                          outcomes=[(zero * other, peak), (zero * (1 - other), (1 - peak) / 2),
                                    (1 - zero, (1 - peak) / 2)]),
        zero=(1e-6, 0.999), other=(1e-6, 0.999), peak=(0.01, 0.99))  # fmt: skip
def three_shares(m, zero, other, peak):
    zero, other, peak = map(m.number, (zero, other, peak))
    rest = m.log1p(-peak) - m.log(m.number(2))
    return Pair((), (
        (m.log(zero) + m.log(other), m.log(peak)), (m.log(zero) + m.log1p(-other), rest),
        (m.log1p(-zero), rest),
    ))  # fmt: skip
