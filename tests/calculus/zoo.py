"""The mechanisms of the tests, as pairs in the form that normalisation delivers."""

from sympy import S, Rational, exp, gamma, log, oo, pi, sqrt, cos, erfc

from mechc.parameters import positive
from standin import N, X, Atom, Pair, Piece, Term, pair, plain, poisson

SIGMA = positive("sigma", typical=(0.5, 5))
SCALE = positive("scale", typical=(0.5, 50))
D = positive("sensitivity", default=1, typical=(0.1, 5))
NU = positive("nu", typical=(0.7, 9))
BETA = positive("beta", typical=(0.3, 4))
SP, SQ = positive("sp", typical=(0.5, 2)), positive("sq", typical=(0.5, 2))
s, b, d, nu, beta, sp, sq = map(plain, (SIGMA, SCALE, D, NU, BETA, SP, SQ))
x = X


def shift(name, parameters, weight, log_density):
    """Smooth noise on the whole line, shifted by d."""
    p, q = (Term(S(weight), log_density(x - c)) for c in (d, 0))
    return pair(name, (*parameters, D), [Piece(-oo, oo, (p,), (q,))])


def gaussian():
    return shift("gaussian", (SIGMA,), 1 / (sqrt(2 * pi) * s), lambda u: -(u**2) / (2 * s**2))


def laplace():
    w = 1 / (2 * b)
    up = lambda c: (Term(w, (x - c) / b),)
    down = lambda c: (Term(w, -(x - c) / b),)
    zero = S.Zero
    return pair("laplace", (SCALE, D), [
        Piece(-oo, zero, up(d), up(0)), Piece(zero, d, up(d), down(0)), Piece(d, oo, down(d), down(0)),
    ])


def logistic():
    return shift("logistic", (SCALE,), 1 / b, lambda u: -u / b - 2 * log(1 + exp(-u / b)))


def student_t():
    w = gamma((nu + 1) / 2) / (sqrt(pi * nu) * gamma(nu / 2) * b)
    return shift("student_t", (NU, SCALE), w, lambda u: -(nu + 1) / 2 * log(1 + (u / b) ** 2 / nu))


def cauchy():
    return shift("cauchy", (SCALE,), 1 / (pi * b), lambda u: -log(1 + (u / b) ** 2))


def subbotin():
    w = 1 / (2 * b * gamma(1 + 1 / beta))
    up = lambda c: (Term(w, -(((c - x) / b) ** beta)),)
    down = lambda c: (Term(w, -(((x - c) / b) ** beta)),)
    zero = S.Zero
    return pair("subbotin", (BETA, SCALE, D), [
        Piece(-oo, zero, up(d), up(0)), Piece(zero, d, up(d), down(0)), Piece(d, oo, down(d), down(0)),
    ])


def gaussian_scale():
    t = lambda v: (Term(1 / (sqrt(2 * pi) * v), -(x**2) / (2 * v**2)),)
    return pair("gaussian_scale", (SP, SQ), [Piece(-oo, oo, t(sp), t(sq))])


def uniform():
    pass


ALL = (gaussian, laplace, logistic, student_t, cauchy, subbotin, gaussian_scale)
