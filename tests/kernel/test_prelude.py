"""Prelude functions, as compiled, against mpmath over wide ranges, with stated bounds in ulp."""

import math

import mpmath
import numba
import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mp, mpf

from mechc.kernel.prelude import PRIMITIVES, closure
from mechc.kernel.statements import DECORATOR, jitted

ULP = 2.0**-53

WIDE = np.concatenate([sign * np.logspace(-12, 2.8, 150) for sign in (-1.0, 1.0)])
POSITIVE = np.logspace(-12, 2.8, 200)
RATES = np.array([1e-9, 1e-4, 0.013, 0.25, 0.5, 0.77, 0.999])


@pytest.fixture(scope="module")
def compiled():
    """The whole prelude in one namespace, compiled as it is emitted, but for the disk cache."""
    namespace = {"math": math, "np": np, "numba": numba, "COMPILE": {"error_model": "numpy"}}
    exec(DECORATOR, namespace)
    for function in closure(PRIMITIVES):
        exec(jitted(function.signature, function.source, inline=function.inline), namespace)
    return namespace


def log(x):
    return mp.log(x) if x > 0 else -mp.inf


def log_besselk(n, z):
    """By ball arithmetic: mpmath fails at large orders."""
    with ctx.workprec(1200):
        ball = arb(float(z)).bessel_k(arb(float(n))).log()
    with ctx.workprec(220):
        return mpf((+ball).mid().str(60, radius=False))


def hurwitz(s, a):
    """By ball arithmetic: mpmath has few digits of small values."""
    with ctx.workprec(1200):
        return mpf(arb(float(s)).zeta(arb(float(a))).mid().str(60, radius=False))


REAL = {
    # name: (exact function, arguments, bound in ulp)
    "softplus": (lambda x: mp.log1p(mp.exp(x)), [(x,) for x in WIDE], 4),
    "log1mexp": (lambda x: mp.log1p(-mp.exp(x)), [(-x,) for x in POSITIVE], 6),
    "log_mix": (
        lambda q, d: mp.log1p(q * mp.expm1(d)),
        [(q, d) for q in (*RATES, 1e-100) for d in WIDE]
        + [(1.0 / q, abs(d)) for q in RATES for d in WIDE],
        4,
    ),
    "mix": (
        lambda q, d: 1 - q + q * mp.exp(d),
        [(q, d) for q in (*RATES, 1.0, 1.0 - 1e-12) for d in WIDE if d < 700.0],
        8,
    ),
    "log_mix_rest": (
        lambda r, q, d: mp.log(r + (1 - r) * mp.exp(d)),
        [(r, 1.0 - r, d) for r in (*RATES, 1e-12, 1.3e-5) for d in WIDE],
        8,
    ),
    "log_add": (
        lambda a, b: mp.log(mp.exp(a) + mp.exp(b)),
        [(a, b) for a in WIDE[::7] for b in (-700.0, -3.7, 0.1, 41.0)],
        4,
    ),
    "cos_quarters": (
        lambda a, b, unit: mp.cos(mp.pi / 2 * (a - b) / unit),
        [
            (b + side * unit * (1 - gap), b, unit)
            for unit in (0.3, 7.7, 50.0)
            for b in (0.0, 0.1, 3.3)
            for side in (-1, 1)
            for gap in np.logspace(-13, -0.4, 40)
            if b + side * unit * (1 - gap) != b
        ],
        6,
    ),
    "log_cosh": (lambda x: mp.log(mp.cosh(x)), [(x,) for x in WIDE], 6),
    "log_sinh": (lambda x: mp.log(mp.sinh(x)), [(x,) for x in POSITIVE], 40),
    "log_erfc": (
        lambda x: mp.log(mp.erfc(x)),
        [(x,) for x in np.linspace(-6, 30, 400)] + [(x,) for x in np.logspace(1, 7, 50)],
        12,
    ),
    "log_half_erfc": (
        lambda x: mp.log(mp.erfc(x) / 2),
        [(x,) for x in np.linspace(-6, 30, 400)] + [(x,) for x in np.logspace(1, 7, 50)],
        12,
    ),
    "log_erfcx": (
        lambda x: x * x + mp.log(mp.erfc(x)),
        [(x,) for x in np.linspace(-20, 30, 400)] + [(x,) for x in np.logspace(1, 7, 50)],
        40,  # it has a zero at 0
    ),
    "sinhc": (lambda u: mp.sinh(u) / u, [(u,) for u in WIDE], 4),
    "expm1c": (lambda u: mp.expm1(u) / u, [(u,) for u in WIDE], 4),
    "log1p_power": (
        lambda c, b, d, k: mp.log1p(mpf(c) * (mpf(b) / mpf(d)) ** int(k)),
        [
            (c, b, d, k)
            for c in (1.0, 0.3)
            for b in (1e-9, 0.7, 30.0, 1e153, 1e155, 1.7e308)
            for d in (0.3, 7.0)
            for k in (2.0, 3.0)
        ],
        6,
    ),
    "log_ratio": (
        lambda n, d, gap: mp.log1p(gap / d),
        [(n, 1.7, n - 1.7) for n in np.linspace(0.9, 3.3, 100)],
        6,
    ),
    "power": (
        lambda b, a, log_b: mp.exp(mpf(a) * log_b) if b > 0.5 else mpf(b) ** mpf(a),
        [(1.0 - u, a, math.log1p(-u)) for u in (1e-12, 0.3, 1.0 - 1e-9) for a in (1e-9, 2.5, 9.0)]
        + [(-0.4, a, math.nan) for a in (2.0, 5.0)],
        80,
    ),
    "power_complement": (
        lambda b, a, log_b: -mp.expm1(mpf(a) * log_b) if b > 0 else 1 - mpf(b) ** int(a),
        [(1.0 - u, a, math.log1p(-u)) for u in (1e-12, 0.3, 1.0 - 1e-9) for a in (1e-9, 2.5, 1e6)]
        + [(b, a, math.nan) for b in (-0.4, 0.0) for a in (2.0, 5.0)],
        6,
    ),
    "lgamma_difference": (
        lambda a, h: mp.loggamma(mpf(a) + mpf(h)) - mp.loggamma(a),
        [
            (a, h)
            for a in (0.03, 0.3, 0.9, 3.0, 4.0, 16.5, 300.0, 1e7)
            for h in (1e-13, -1e-12, 1e-6, -1e-6, 5e-4, 0.5, 1.0, 7.0, 1e3)
        ],
        30,
    ),
    "debye_bessel": (
        lambda n, z, side: (
            log_besselk(n, z) + z - mp.log(mp.pi) if side < 0 else mp.log(mp.besseli(n, z)) - z
        ),
        [
            (n, z, side)
            for n in (0.0, 1.0, 40.0, 900.0)
            for z in (0.7, 15.0, 200.0, 3e3)
            for side in (1.0, -1.0)
            if n + z > 300
        ],
        40,
    ),
    "log_besseli_scaled": (
        lambda n, z: mp.log(mp.besseli(n, z)) - z,
        [(n, z) for n in (0.0, -1.0, 13.0, 250.0) for z in (1e-8, 0.1, 2.5, 60.0, 250.0, 1e3)]
        + [(n, z) for n in (0.3, 7.2) for z in (1e-8, 2.5, 60.0)],
        10,
    ),
    "log_besselk_scaled": (
        lambda n, z: log_besselk(n, z) + z,
        [
            (n, z)
            for n in (0.0, 0.3, -1.0, 1.7, 13.0, 250.0, 290.0)
            for z in (1e-200, 1e-8, 0.1, 0.5, 2.5, 30.0, 150.0, 1e3)
        ],
        60,  # values of either sign, compared with one where they are smaller
    ),
    "log_erf_gap": (
        lambda u, h: mp.log(mp.erfc(abs(u) - h) - mp.erfc(abs(u) + h)),
        [
            (u, h)
            for u in (0.0, 1e-8, 0.2, -0.6, 2.0, 10.0, 24.3, 1e3)
            for h in (1e-10, 1e-3, 0.1, 0.49, 0.51, 0.7, 2.0, 5.0, 20.0)
        ],
        12,
    ),
    "zeta": (
        hurwitz,
        [(s, a) for s in (1.0001, 1.5, 3.7, 10.0, 40.0, 150.0) for a in (1.0, 0.3, 2.5, 50.0)]
        + [(s, s + more) for s in (1.5, 6.0, 12.0, 30.0, 99.0) for more in (0.0, 6.0, 11.9)],
        30,
    ),
    "sum_of_three": (
        lambda a, b, c: mpf(a) + mpf(b) + mpf(c),
        [
            (sign * (b - c) * (1 + gap), c, -sign * b)
            for b in (0.2, 1.3, 77.7)
            for c in (1.0, -0.3)
            for sign in (-1, 1)
            for gap in (*np.logspace(-15, 3, 40), *-np.logspace(-15, -0.1, 40))
        ],
        2,
    ),
    "exp_difference": (
        lambda a, b, gap: mp.exp(b) * mp.expm1(gap),
        [(b + g, b, g) for b in (-30.0, 0.25, 8.0) for g in WIDE[::5] if abs(g) < 600],
        None,
    ),
    "power_difference": (
        lambda a, b, gap, k: mpf(b) ** k * mp.expm1(k * mp.log1p(gap / mpf(b))),
        [(1.25 + g, 1.25, g, k) for g in 2.0 ** np.arange(-40.0, 8.0) for k in (0.37, 1.9, 4.0)],
        30,
    ),
}


@pytest.mark.few(0, 5, 10, 14, 19, 25)
@pytest.mark.parametrize("name", [name for name, case in REAL.items() if case[2] is not None])
def test_real_functions_within_their_bound(name, compiled):
    exact, arguments, bound = REAL[name]
    worst, where = 0.0, None
    floor = {"log_add": 0.1, "log_besselk_scaled": 1.0, "log_erf_gap": 1.0}.get(name, 0.0)  # zeros
    with mp.workdps(60):
        for args in arguments:
            value = exact(*map(mpf, args))
            found = compiled[name](*map(float, args))
            error = float(abs(found - value) / max(abs(value), floor)) / ULP
            if error > worst:
                worst, where = error, args
    assert worst <= bound, (worst, where)


def test_exponential_difference_is_as_good_as_its_exponents(compiled):
    arguments = REAL["exp_difference"][1]
    with mp.workdps(60):
        for a, b, gap in arguments:
            value = mp.exp(mpf(b)) * mp.expm1(mpf(gap))
            found = compiled["exp_difference"](a, b, gap)
            # exp turns the rounding of its argument into a relative error
            assert abs(found - value) <= (4 + abs(a) + abs(b)) * ULP * abs(value)


def test_log_sum_of_weighted_exponentials(compiled):
    rng = np.random.default_rng(7)
    with mp.workdps(60):
        for _ in range(300):
            v, w = rng.uniform(0.01, 3.0, 2)
            a, b = rng.uniform(-400.0, 400.0, 2)
            value = mp.log(mpf(v) * mp.exp(mpf(a)) + mpf(w) * mp.exp(mpf(b)))
            assert abs(compiled["log_sum"](v, a, w, b) - value) <= 4 * ULP * (1 + abs(value))


@pytest.mark.parametrize("weight", [0.5, 1e-3])
def test_log_sum_with_weights_of_a_mixture_keeps_small_values(compiled, weight):
    """Once off by an ulp of one, where the value is of the order of the exponents' square."""
    for size in (1e-12, 1e-7, 1e-3):
        a, b = 1.3 * size, -0.7 * size
        v, w = 1.0 - weight, weight
        with mp.workdps(60):
            value = mp.log(mpf(v) * mp.exp(mpf(a)) + mpf(w) * mp.exp(mpf(b)))
            for found in (compiled["log_sum"](v, a, w, b), compiled["log_sum"](w, b, v, a)):
                assert abs(found - value) <= 4 * ULP * size


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("softplus", (-math.inf,), 0.0),
        ("softplus", (math.inf,), math.inf),
        ("log1mexp", (-math.inf,), 0.0),
        ("log1mexp", (0.0,), -math.inf),
        ("log_mix", (0.25, math.inf), math.inf),
        ("log_mix", (0.25, -math.inf), math.log(0.75)),
        ("log_mix", (0.0, 800.0), 0.0),
        ("log_mix", (1.0, -800.0), -800.0),
        ("log_mix", (1e-100, 1e4), 1e4 + math.log(1e-100)),
        ("log_mix_rest", (0.25, 0.75, math.inf), math.inf),
        ("log_mix_rest", (0.25, 0.75, -math.inf), math.log(0.25)),
        ("log_mix_rest", (0.0, 1.0, -800.0), -800.0),
        ("log_mix_rest", (1.0, 0.0, 800.0), 0.0),
        ("log_mix_rest", (1.0, 1e-30, 0.5), 1e-30 * math.expm1(0.5)),
        ("log_add", (-math.inf, 1.5), 1.5),
        ("log_add", (-math.inf, -math.inf), -math.inf),
        ("log_sum", (0.5, 3.0, 0.25, -math.inf), 3.0 + math.log(0.5)),
        ("log_sum", (0.5, -3.0, 0.0, 900.0), -3.0 + math.log(0.5)),
        ("log_sum", (0.0, 900.0, 0.5, -3.0), -3.0 + math.log(0.5)),
        ("log_sum", (0.0, math.nan, 0.5, -3.0), -3.0 + math.log(0.5)),
        ("log_sum", (0.0, 900.0, 0.0, -3.0), -math.inf),
        ("log_sum", (1.0, -math.inf, 0.5, -900.0), -900.0 + math.log(0.5)),
        ("power_difference", (0.0, 2.0, -2.0, 1.5), -(2.0**1.5)),
        ("power_difference", (2.0, 0.0, 2.0, 1.5), 2.0**1.5),
        ("power_difference", (0.0, 0.0, 0.0, 1.5), 0.0),
        ("sinhc", (0.0,), 1.0),
        ("expm1c", (0.0,), 1.0),
        ("log_erfc", (-math.inf,), math.log(2.0)),
        ("floor", (-math.inf,), -math.inf),
        ("ceil", (2.5,), 3.0),
        *((name, (x,), x) for name in ("floor", "ceil") for x in (math.nan, 9.3e18, -1e300)),
        ("log_besseli_scaled", (2.0, 1e-160), -320.0 * math.log(10.0) - math.log(8.0)),
    ],
)
def test_limits(name, arguments, value, compiled):
    assert compiled[name].machine_code(*arguments) == pytest.approx(value, rel=1e-15, nan_ok=True)


def test_ratio_far_from_one(compiled):
    for n in (1e-300, 1e-3, 7.0, 1e300):
        assert compiled["log_ratio"](n, 2.0, n - 2.0) == pytest.approx(math.log(n / 2), rel=1e-15)


def test_ratio_at_the_ends_of_doubles(compiled):
    tiny = 5e-324
    assert compiled["log_ratio"](1.0, tiny, 1.0) == pytest.approx(-math.log(tiny), rel=1e-15)
    assert compiled["log_ratio"](tiny, 3.0, -3.0) == pytest.approx(math.log(tiny) - math.log(3))
    assert compiled["log_ratio"](-1e-17, 2.0, -2.0) == -math.inf
    assert compiled["log_ratio"](2.0, -1e-17, 2.0) == math.inf
    for n, d in ((math.inf, 2.0), (2.0, math.inf), (math.inf, math.inf), (-math.inf, 2.0)):
        assert math.isnan(compiled["log_ratio"](n, d, n - d))


COMPLEX = {
    "complex_exp": mp.exp,
    "complex_log": mp.log,
    "complex_log1p": lambda z: mp.log(1 + z),
    "complex_expm1": lambda z: mp.exp(z) - 1,
    "complex_cosh": mp.cosh,
    "complex_sinh": mp.sinh,
    "complex_sinhc": lambda z: mp.sinh(z) / z,
    "complex_expm1c": lambda z: (mp.exp(z) - 1) / z,
    "complex_log1mexp": lambda z: mp.log(1 - mp.exp(z)),
}


@pytest.mark.few(0, 3)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_normwise(name, compiled):
    """|error| <= 20 ulp of |value|; logarithms may differ by whole turns."""
    rng = np.random.default_rng(11)
    sizes = 10.0 ** rng.uniform(-20, 1.3, 400)
    angles = rng.uniform(-math.pi, math.pi, 400)
    with mp.workdps(80):
        for z in sizes * np.exp(1j * angles):
            if name == "complex_log1mexp" and z.real > 0:
                z = -z
            value = COMPLEX[name](mpmath.mpc(z))
            found = mpmath.mpc(compiled[name](complex(z)))
            if "log" in name:
                turns = mp.nint((found - value).imag / (2 * mp.pi))
                found -= mpmath.mpc(0, 2 * mp.pi * turns)
            assert abs(found - value) <= 20 * ULP * max(abs(value), mpf(1e-290)), z


def test_complex_rest_of_a_mixture_and_sum(compiled):
    rng = np.random.default_rng(3)
    with mp.workdps(60):
        for _ in range(300):
            q = complex(rng.uniform(0.001, 0.5))
            d = complex(*rng.uniform(-3.0, 3.0, 2))
            value = q.real + (1 - q.real) * mp.exp(mpmath.mpc(10 * d))
            found = mp.exp(mpmath.mpc(compiled["complex_log_mix_rest"](q, 1.0 - q, 10 * d)))
            assert abs(found - value) <= 400 * ULP * abs(value)
            a, b = (complex(*rng.uniform(-300.0, 300.0, 2)) for _ in range(2))
            value = q.real * mp.exp(mpmath.mpc(a)) + 2 * mp.exp(mpmath.mpc(b))
            found = mp.exp(mpmath.mpc(compiled["complex_log_sum"](q, a, complex(2.0), b)))
            assert abs(found - value) <= 1e4 * ULP * abs(value)


def test_complex_sum_leaves_out_what_has_no_weight(compiled):
    a, b = complex(-3.0, 2.0), complex(900.0, 1.0)
    for arguments in ((0.5, a, 0.0, b), (0.0, b, 0.5, a)):
        found = compiled["complex_log_sum"](*map(complex, arguments))
        assert abs(found - (a + math.log(0.5))) <= 8 * ULP
    assert compiled["complex_log_sum"](0j, a, 0j, b).real == -math.inf


def test_small_complex_arguments_keep_their_real_part(compiled):
    """Library versions of log1p and expm1 lose it (numpy issue 22609)."""
    z = complex(1e-20, 1e-20)
    assert compiled["complex_expm1"](z).real == pytest.approx(1e-20, rel=1e-15)
    assert compiled["complex_log1p"](z).real == pytest.approx(1e-20, rel=1e-15)


def test_every_primitive_is_tested():
    tested = set(REAL) | set(COMPLEX) | {
        "log_sum", "complex_log_mix_rest", "complex_log_sum",
        "floor", "ceil", "log_exp_difference", "log_binomial",
        }  # fmt: skip
    assert tested == set(PRIMITIVES)
