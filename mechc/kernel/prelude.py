"""The functions an emitted kernel may use besides `math`, pasted into it as they stand here.

Each is plain Python that numba compiles, written for numba's semantics (exp overflows to inf,
log(0) is -inf, no exception). They call `math`, `max` and one another only: emitted text runs in
high precision too, but for `log_mix`: the loss of sampling is asked most, and inlined without a
branch or a call it is vector code. Bounds: relative errors in units of 2**-53
(tests/kernel/test_prelude.py).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np

from mechc.kernel.statements import DECORATOR, IMPORTS, jitted

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Primitive:
    """A prelude function: its numba signature, the primitives it calls, whether it is inlined."""

    function: Any
    signature: str
    calls: tuple[str, ...]
    inline: bool

    @property
    def name(self) -> str:
        """Its name in emitted kernels."""
        return str(self.function.__name__)

    @cached_property
    def source(self) -> str:
        """Its text, read where one is pasted."""
        text: str = inspect.getsource(self.function).split("\n", 1)[1].rstrip()
        return text

    @property
    def text(self) -> str:
        """What is pasted: its source under the decorator of kernels."""
        return jitted(self.signature, self.source, plain=not self.inline, inline=self.inline)


PRIMITIVES: dict[str, Primitive] = {}


def primitive(signature: str, *, inline: bool = False) -> Callable[[F], F]:
    """Register a function under its numba signature."""

    def register(function: F) -> F:
        calls = tuple(n for n in function.__code__.co_names if n in PRIMITIVES)
        PRIMITIVES[function.__name__] = Primitive(function, signature, calls, inline)
        return function

    return register


def closure(names: Iterable[str]) -> list[Primitive]:
    """The named primitives and all they call, callees first."""
    ordered: dict[str, Primitive] = {}
    for one in (PRIMITIVES[name] for name in names):
        ordered.update((each.name, each) for each in (*closure(one.calls), one))
    return list(ordered.values())


@cache
def module_text() -> str:
    """All of them as a module that is loaded as kernels are: they are compiled once for all."""
    parts = f"{IMPORTS}\n", DECORATOR, *(each.text for each in closure(PRIMITIVES))
    return "\n\n".join(parts) + "\n"


@primitive("float64(float64)")
def softplus(x: float) -> float:
    """Return log(1 + exp(x))."""
    if x > 0.0:
        return x + math.log1p(math.exp(-x))
    return math.log1p(math.exp(x))


@primitive("float64(float64)")
def log1mexp(x: float) -> float:
    """Return log(1 - exp(x)) for x < 0 (split at -log 2: Maechler 2012)."""
    if x > -0.6931471805599453:
        return math.log(-math.expm1(x))
    return math.log1p(-math.exp(x))


@primitive("float64(float64, float64)", inline=True)
def log_mix(q: float, d: float) -> float:
    """Return log(1 - q + q exp(d)), where that is a number, for q = 0 and 1e-285 < q < 1e130.

    Without branches, for loops over many d: exp(d) = 2**n exp(r) by the series of exp(r) - 1, and
    the log of 2**m (1 + f) by that of atanh(f / (2 + f)).
    """
    above = -700.0 if d < -700.0 else d
    most = 700.0 if q <= 1.0 else 350.0
    near = most if above > most else above
    shifted = near * 1.4426950408889634 + 6755399441055744.0  # its last bits are those of n
    n = shifted - 6755399441055744.0
    high, low = near - n * 0.6931471803691238, n * 1.9082149292705877e-10
    r, e = high - low, 0.0
    for k in (6227020800.0, 479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0,
              120.0, 24.0, 6.0, 2.0):  # fmt: skip
        e = 1.0 / k + r * e
    rest = high - r - low
    e = r + (rest + (rest * r + r * r * e))  # exp(r) - 1
    bits = np.float64(shifted).view(np.int64) - 4843621399236967426 << 52
    half = q * np.int64(bits).view(np.float64)  # of q 2**n
    u = 2.0 * (half * e + (half - 0.5 * q))  # q (exp(d) - 1)
    close = u > (-0.5 if q <= 1.0 else -math.inf)
    x = 1.0 + u if close else 1.0 - q + 2.0 * (half + half * e)
    rest = u - (x - 1.0) if close else 0.0
    bits = np.float64(x).view(np.int64)
    m = bits - 4604544271217802189 >> 52  # 1 + f lies between sqrt(1/2) and sqrt(2)
    f, e = np.int64(bits - (m << 52)).view(np.float64) - 1.0, 0.0
    t = f / (2.0 + f)
    for k in (21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        e = t * t * (2.0 / k + e)
    n = float(m)
    low = n * 1.9082149292705877e-10 + rest / x
    value = n * 0.6931471803691238 - (0.5 * f * f - (t * (0.5 * f * f + e) + low) - f)
    value = above - near + value if q > 0.0 else value
    return d if q == 1.0 else (value if x > 0.0 else math.nan)


@primitive("float64(float64, float64)")
def mix(q: float, d: float) -> float:
    """Return 1 - q + q exp(d), as a sum of what is left by weights next to one."""
    u = q * math.expm1(d)
    return 1.0 + u if u > -0.5 or q > 1.0 else (1.0 - q) + q * math.exp(d)


@primitive("float64(float64, float64, float64)")
def log_mix_rest(r: float, q: float, d: float) -> float:
    """Return log(r + q exp(d)) for 0 <= r <= 1 and q = 1 - r, of which one may be small."""
    if d > 500.0:
        return 0.0 if q == 0.0 else d + math.log(q) + math.log1p(r / q * math.exp(-d))
    if d < -500.0:
        return d if r == 0.0 else math.log(r) + math.log1p(q / r * math.exp(d))
    u = q * math.expm1(d)
    if u > -0.5:
        return math.log1p(u)
    return math.log(r + q * math.exp(d))


@primitive("float64(float64, float64)")
def log_add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    if a == b:
        return a + 0.6931471805599453
    if a > b:
        return a + math.log1p(math.exp(b - a))
    return b + math.log1p(math.exp(a - b))


@primitive("float64(float64, float64, float64, float64)")
def log_sum(v: float, a: float, w: float, b: float) -> float:
    """Return log(v exp(a) + w exp(b)), where the sum is not negative."""
    if v == 0.0 or (b > a and w != 0.0):
        v, a, w, b = w, b, v, a
    if w == 0.0:
        return a + math.log(v) if v != 0.0 else -math.inf
    if b - a > -0.5 and 0.5 < v + w < 2.0:  # the weights of a mixture may sum to one exactly
        return a + math.log1p((max(v, w) - 1.0) + min(v, w) + w * math.expm1(b - a))
    rest = 0.0 if b == a - math.inf else w * math.exp(b - a)
    if 0.5 < v + rest < 2.0:
        return a + math.log1p((v - 1.0) + rest)
    return a + math.log(v + rest)


@primitive("float64(float64, float64, float64, float64)")
def log1p_power(c: float, b: float, d: float, k: float) -> float:
    """Return log(1 + c (b/d)**k), where neither quotient nor power need be doubles."""
    u = b / d
    v = c * (u * u if k == 2.0 else math.pow(u, k))
    if math.fabs(v) < 1e300:
        return math.log1p(v)
    return math.log(c) + k * (math.log(math.fabs(b)) - math.log(math.fabs(d)))


@primitive("float64(float64, float64, float64)")
def log_ratio(n: float, d: float, gap: float) -> float:
    """Return log(n/d), signs equal but for rounding past zero; gap is n - d to full accuracy."""
    r = gap / d
    if math.fabs(r) < 0.5:
        return math.log1p(r)
    if 1e-300 < n / d < 1e300:
        return math.log(n / d)
    if math.fabs(n) == math.inf or math.fabs(d) == math.inf:
        return math.nan  # an overflow, which tells nothing
    if n < 0.0 and d < 0.0:
        n, d = -n, -d
    return math.log(max(n, 0.0)) - math.log(max(d, 0.0))


@primitive("float64(float64, float64, float64)")
def sum_of_three(a: float, b: float, c: float) -> float:
    """Return a + b + c of finite numbers, with all digits next to its zeros."""
    d = a + b
    v = d - a
    return (d + c) + ((a - (d - v)) + (b - v))


@primitive("float64(float64, float64, float64)")
def exp_difference(a: float, b: float, gap: float) -> float:
    """Return exp(a) - exp(b), where gap is a - b to full accuracy."""
    if gap < 0.0:
        return math.exp(b) * math.expm1(gap)
    return -math.exp(a) * math.expm1(-gap)


@primitive("float64(float64, float64, float64)")
def log_exp_difference(a: float, b: float, gap: float) -> float:
    """Return log(exp(a) - exp(b)), where gap is a - b > 0 to full accuracy."""
    return a + log1mexp(-gap)


@primitive("float64(float64, float64, float64, float64)")
def power_difference(a: float, b: float, gap: float, k: float) -> float:
    """Return a**k - b**k for a, b >= 0, where gap is a - b to full accuracy."""
    if a < b:
        return math.pow(b, k) * math.expm1(k * log_ratio(a, b, gap))
    return -math.pow(a, k) * math.expm1(k * log_ratio(b, a, -gap)) if a > 0.0 else 0.0


@primitive("float64(float64, float64, float64)")
def cos_quarters(a: float, b: float, unit: float) -> float:
    """Return cos(pi/2 * (a - b)/unit) with all digits next to its zeros at a - b = -+unit."""
    d = a - b
    v = d - a
    lost = (a - (d - v)) - (b + v)
    rest = unit - math.fabs(d) - (lost if d > 0.0 else -lost)
    if math.fabs(rest) > 0.5 * unit:
        return math.cos(1.5707963267948966 * d / unit)
    return math.sin(1.5707963267948966 * rest / unit)


@primitive("float64(float64)")
def log_cosh(x: float) -> float:
    """Return log(cosh(x))."""
    a = math.fabs(x)
    if a < 1.0:
        s = math.sinh(a)
        return 0.5 * math.log1p(s * s)
    return a - 0.6931471805599453 + math.log1p(math.exp(-2.0 * a))


@primitive("float64(float64)")
def log_sinh(x: float) -> float:
    """Return log(sinh(x)) for x > 0."""
    if x < 2.0:
        return math.log(math.sinh(x))
    return x - 0.6931471805599453 + math.log1p(-math.exp(-2.0 * x))


@primitive("float64(float64)")
def log_erfcx(x: float) -> float:
    """Return log(exp(x**2) erfc(x)), with the rounding of x**2 made good."""
    if x < -1.0:
        return x * x + math.log(math.erfc(x))
    if x < 25.0:
        square = x * x
        high = 134217729.0 * x - (134217729.0 * x - x)
        low = x - high
        missing = ((high * high - square) + 2.0 * high * low) + low * low
        return math.log(math.exp(square) * math.erfc(x)) + missing
    u = -0.5 / (x * x)
    series = u * (1.0 + 3.0 * u * (1.0 + 5.0 * u * (1.0 + 7.0 * u * (1.0 + 9.0 * u))))
    return math.log1p(series) - math.log(1.7724538509055161 * x)


@primitive("float64(float64)")
def log_erfc(x: float) -> float:
    """Return log(erfc(x)); beyond x = 25 by the asymptotic series of erfc (DLMF 7.12.1)."""
    if x < 0.5:
        return math.log1p(-math.erf(x))
    return math.log(math.erfc(x)) if x < 25.0 else log_erfcx(x) - x * x


@primitive("float64(float64)")
def log_half_erfc(x: float) -> float:
    """Return log(erfc(x) / 2), a probability that may be nearly one."""
    if x < 0.0:
        return math.log1p(-0.5 * math.erfc(-x))
    return log_erfc(x) - 0.6931471805599453


@primitive("float64(float64)")
def sinhc(u: float) -> float:
    """Return sinh(u)/u, with 1 at u = 0."""
    return 1.0 if u == 0.0 else math.sinh(u) / u


@primitive("float64(float64)")
def expm1c(u: float) -> float:
    """Return (exp(u) - 1)/u, with 1 at u = 0."""
    return 1.0 if u == 0.0 else math.expm1(u) / u


@primitive("float64(float64, float64, float64)")
def power(b: float, a: float, log_b: float) -> float:
    """Return b**a, where log_b is log(b) to full accuracy if that is a number."""
    return math.exp(a * log_b) if b > 0.5 else math.pow(b, a)


@primitive("float64(float64, float64, float64)")
def power_complement(b: float, a: float, log_b: float) -> float:
    """Return 1 - b**a, where log_b is log(b) to full accuracy if that is a number."""
    return -math.expm1(a * log_b) if b > 0.0 else 1.0 - math.pow(b, a)


@primitive("float64(float64, float64)")
def log_binomial(n: float, k: float) -> float:
    """Return the log of n choose k, for real 0 <= k <= n."""
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


@primitive("float64(float64, float64)")
def lgamma_difference(a: float, h: float) -> float:
    """Return lgamma(a + h) - lgamma(a) for a, a + h > 0, by Stirling's series for large a."""
    steps = 0.0
    if min(a, a + h) < 15.0 and math.fabs(h) > 0.25 * a:
        return math.lgamma(a + h) - math.lgamma(a)
    while a < 20.0:  # a short way along log(gamma) would be a difference of rounded values
        steps -= math.log1p(h / a)
        a += 1.0
    b = a + h
    u, v, w = 1.0 / (a * a), 1.0 / (b * b), 1.0 / (a * b)
    fifth = u * u + v * v + w * (u + w + v)  # sums of powers: differences of them would cancel
    seventh = u * u * u + v * v * v + w * (fifth - w * w) + w * w * w
    series = ((u + w + v) - fifth * 2.0 / 7.0 + seventh * 3.0 / 14.0) / 360.0 - 1.0 / 12.0
    return steps + (a - 0.5) * math.log1p(h / a) + h * (math.log(b) - 1.0 + w * series)


@primitive("float64(float64, float64, float64)")
def debye_bessel(n: float, z: float, side: float) -> float:
    """Return log(exp(-z) I_n(z)), side 1, or log(exp(z) K_n(z) / pi), side -1.

    For hypot(n, z) >= 200, by Debye's expansions (DLMF 10.41.3, 10.41.4).
    """
    r = math.hypot(n, z)
    t, q = side / r, (n / r) * (n / r)
    u1 = 0.125 - q * 5.0 / 24.0
    u2 = 9.0 / 128.0 - q * (77.0 / 192.0 - q * 385.0 / 1152.0)
    u3 = 0.0732421875 - q * (0.8912109375 - q * (1.8464626736111112 - q * 1.0258125964506173))
    u4 = 4.669584423426247 * q - 11.207002616222994
    u4 = 0.112152099609375 + q * (q * (q * u4 + 8.78912353515625) - 2.3640869140625)
    u5 = 84.63621767460073 - 28.212072558200244 * q
    u5 = q * (q * (q * (q * u5 - 91.81824154324002) + 42.53499874538846) - 7.368794359479632)
    u5 += 0.22710800170898438
    series = t * (u1 + t * (u2 + t * (u3 + t * (u4 + t * u5))))
    size = -0.5 * math.log(6.283185307179586 * r) + math.log1p(series)
    return side * (n * (n / (r + z)) - n * math.asinh(n / z)) + size


@primitive("float64(float64, float64)")
def log_besseli_scaled(n: float, z: float) -> float:
    """Return log(exp(-z) I_n(z)) for z > 0, n >= 0 or an integer; a power series where small."""
    n = math.fabs(n)
    if n + z >= 300.0:
        return debye_bessel(n, z, 1.0)
    half, term, rest, k = 0.5 * z, 1.0, 0.0, 1.0
    while term > 1e-18 * rest:
        term *= (half / k) * (half / (n + k))  # a rounded square would be off in every term
        rest += term
        k += 1.0
    first, k = math.exp(-z), 1.0
    while k <= n and first > 1e-290:  # logs of powers and factorials would cancel
        first *= half / k
        k += 1.0
    if k == n + 1.0 and first > 1e-290 and (z >= 1.0 or n > 0.0):
        return math.log((1.0 + rest) * first)
    shape = math.log1p(rest) - z if z < 1.0 else math.log((1.0 + rest) * math.exp(-z))
    return shape if n == 0.0 else shape + (n * math.log(half) - math.lgamma(n + 1.0))


@primitive("float64(float64, float64)")
def log_besselk_scaled(n: float, z: float) -> float:
    """Return log(exp(z) K_n(z)) for z > 0 and real n.

    The trapezoid rule for the integral of exp(-2 z sinh(t/2)^2) cosh(n t) (DLMF 10.32.9) has
    positive terms, and an error below 1e-17 at this step.
    """
    n = math.fabs(n)
    if n + z >= 300.0 or z == 0.0:
        return debye_bessel(n, z, -1.0) + 1.1447298858494002 if z > 0.0 else math.inf
    r = math.hypot(n, z)
    step = min(0.2, 0.6 / math.sqrt(r))
    start = float(math.floor(math.asinh(n / z) / step))
    top = start * step
    total, k, side = 0.0, start, 1.0
    while k >= 0.0:
        t = k * step
        fall = n * (t - top) - 2.0 * z * math.sinh(0.5 * (t - top)) * math.sinh(0.5 * (t + top))
        term = math.exp(fall) * (0.5 + 0.5 * math.exp(-2.0 * n * t)) * (0.5 if k == 0.0 else 1.0)
        total += term
        if term > 1e-18 * total:
            k += side
        elif side > 0.0:
            k, side = start - 1.0, -1.0
        else:
            k = -1.0
    half = math.sinh(0.5 * top)
    return n * top - 2.0 * z * half * half + math.log(step * total)


@primitive("float64(float64, float64)")
def log_erf_gap(u: float, h: float) -> float:
    """Return log(erf(u + h) - erf(u - h)) for h > 0, by a sum without cancellation."""
    u = math.fabs(u)
    if h <= 0.5 and u * h <= 0.25:
        total = 0.0  # Gauss-Legendre, ten nodes, for exp(-s^2) cosh(2 u s) on 0 < s < h
        for t, weight in (
            (0.14887433898163122, 0.29552422471475287),
            (0.4333953941292472, 0.26926671930999635),
            (0.6794095682990244, 0.21908636251598204),
            (0.8650633666889845, 0.1494513491505806),
            (0.9739065285171717, 0.06667134430868814),
        ):
            total += weight * math.exp(-h * h * t * t) * math.cosh(2.0 * u * h * t)
        return math.log(2.256758334191025 * h * total) - u * u
    if u > h:
        near = log_erfc(u - h)
        return near + log1mexp(log_erfc(u + h) - near)
    if h - u > 0.5:
        return 0.6931471805599453 + math.log1p(-0.5 * (math.erfc(u + h) + math.erfc(h - u)))
    return math.log(math.erf(u + h) + math.erf(h - u))


@primitive("float64(float64, float64)")
def zeta(s: float, a: float) -> float:
    """Return the sum of (k + a)**-s over k >= 0, s > 1, by Euler and Maclaurin (DLMF 25.11.5)."""
    total, term = 0.0, 1.0
    while a < max(12.0, 6.0 + 1.5 * s) and term > 1e-19 * total:
        term = math.pow(a, -s)
        total += term
        a += 1.0
    rest, k = 0.0, 15.0
    for bernoulli in (
        -3.389680296322583e-13, 1.3382536530684679e-11, -5.284190138687493e-10,
        2.08767569878681e-08, -8.267195767195768e-07, 3.306878306878307e-05,
        -0.001388888888888889, 0.08333333333333333,
    ):  # fmt: skip
        rest = bernoulli + rest * (s + k) / a * ((s + k + 1.0) / a)
        k -= 2.0
    rest *= s / a
    return total + math.pow(a, -s) * (rest + 0.5 + a / (s - 1.0))


@primitive("float64(float64)")
def floor(x: float) -> float:
    """Return the largest integer <= x, as a float."""
    return float(math.floor(x)) if math.fabs(x) < 9007199254740992.0 else x


@primitive("float64(float64)")
def ceil(x: float) -> float:
    """Return the smallest integer >= x, as a float."""
    return float(math.ceil(x)) if math.fabs(x) < 9007199254740992.0 else x


@primitive("complex128(complex128)")
def complex_exp(z: complex) -> complex:
    """Return exp(z)."""
    size = math.exp(z.real)
    return complex(size * math.cos(z.imag), size * math.sin(z.imag))


@primitive("complex128(complex128)")
def complex_log(z: complex) -> complex:
    """Return the principal log(z), accurate near z = 1."""
    x, y = z.real, z.imag
    square = x * x + y * y
    if 0.5 < x < 1.5 and math.fabs(y) < 0.5:
        return complex(0.5 * math.log1p((x - 1.0) * (1.0 + x) + y * y), math.atan2(y, x))
    if 1e-290 < square < 1e290:
        return complex(0.5 * math.log(square), math.atan2(y, x))
    return complex(math.log(math.hypot(x, y)), math.atan2(y, x))


@primitive("complex128(complex128)")
def complex_log1p(z: complex) -> complex:
    """Return log(1 + z), accurate near z = 0 (where library versions lose the real part)."""
    x, y = z.real, z.imag
    if math.fabs(x) < 0.5 and math.fabs(y) < 0.5:
        return complex(0.5 * math.log1p(x * (2.0 + x) + y * y), math.atan2(y, 1.0 + x))
    return complex_log(complex(1.0 + x, y))


@primitive("complex128(complex128)")
def complex_expm1(z: complex) -> complex:
    """Return exp(z) - 1, accurate near z = 0."""
    half = math.sin(0.5 * z.imag)
    real = math.expm1(z.real) * math.cos(z.imag) - 2.0 * half * half
    return complex(real, math.exp(z.real) * math.sin(z.imag))


@primitive("complex128(complex128)")
def complex_cosh(z: complex) -> complex:
    """Return cosh(z), of what complex_sinh computes too."""
    e = math.expm1(math.fabs(z.real))
    part = e / (1.0 + e) if e < math.inf else 1.0
    sinh = math.copysign(0.5 * (e + part), z.real)
    return complex((1.0 + 0.5 * e * part) * math.cos(z.imag), sinh * math.sin(z.imag))


@primitive("complex128(complex128)")
def complex_sinh(z: complex) -> complex:
    """Return sinh(z)."""
    e = math.expm1(math.fabs(z.real))
    part = e / (1.0 + e) if e < math.inf else 1.0
    sinh = math.copysign(0.5 * (e + part), z.real)
    return complex(sinh * math.cos(z.imag), (1.0 + 0.5 * e * part) * math.sin(z.imag))


@primitive("complex128(complex128)")
def complex_sinhc(z: complex) -> complex:
    """Return sinh(z)/z, with 1 at z = 0."""
    scale = 1.0 / (z.real * z.real + z.imag * z.imag)
    inverse = complex(scale * z.real, -scale * z.imag)
    return complex_sinh(z) * inverse if scale < 1e30 else complex(1.0, 0.0)


@primitive("complex128(complex128)")
def complex_expm1c(z: complex) -> complex:
    """Return (exp(z) - 1)/z, with 1 at z = 0."""
    return complex_expm1(z) / z if z.real != 0.0 or z.imag != 0.0 else complex(1.0, 0.0)


@primitive("complex128(complex128, complex128, complex128, complex128)")
def complex_log_sum(v: complex, a: complex, w: complex, b: complex) -> complex:
    """Return log(v exp(a) + w exp(b)) without overflow."""
    if v == 0.0 or (b.real > a.real and w != 0.0):
        v, a, w, b = w, b, v, a
    return a + complex_log(v + w * complex_exp(b - a) if w != 0.0 else v)


@primitive("complex128(complex128)")
def complex_log1mexp(z: complex) -> complex:
    """Return log(1 - exp(z)) for Re z <= 0."""
    if z.real > -0.6931471805599453:
        return complex_log(-complex_expm1(z))
    return complex_log1p(-complex_exp(z))


@primitive("complex128(complex128, complex128, complex128)")
def complex_log_mix_rest(r: complex, q: complex, d: complex) -> complex:
    """Return log(r + q exp(d)) without overflow, for q = 1 - r, of which one may be small."""
    if d.real > 700.0:
        return d + complex_log(q + r * complex_exp(-d))
    u = q * complex_expm1(d)
    if math.fabs(u.real) + math.fabs(u.imag) < 0.5:
        return complex_log1p(u)
    return complex_log(r + q * complex_exp(d))
