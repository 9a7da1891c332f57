"""Huber noise: Gaussian in the middle, exponential tails; its privacy loss is bounded."""

from sympy import Abs, Piecewise, erf, exp, pi, sqrt

from mechc.declare.declaration import additive
from mechc.symbolic.parameters import positive, real

x, s, k = real("x"), positive("sigma", typical=(0.5, 10)), positive("knee", typical=(0.5, 2))
d = positive("sensitivity", default=1, typical=(0.5, 2))
mass = s * (sqrt(2 * pi) * erf(k / sqrt(2)) + 2 * exp(-(k**2) / 2) / k)
core, tail = exp(-((x / s) ** 2) / 2), exp(k**2 / 2 - k * Abs(x) / s)
shape = Piecewise((core, Abs(x) < k * s), (tail, True))
huber = additive("huber", noise=shape / mass, variable=x, sensitivity=d, parameters=(s, k, d))
