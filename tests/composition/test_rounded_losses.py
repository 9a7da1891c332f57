"""Several steps at sums of the losses of their atoms, and next to them, against all sums listed."""

import math

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf

import mechc
from mechc.composition.queries.evaluation import loss_errors
from mechc.declare import integer, mechanism, parameter, positive, real
from mechc.declare.text import declaration_from_text
from mechc.errors import UnsupportedError

PAIRS = {  # of two outcomes; masses under Q, P in doubles
    "likely": ((0.998412488397481, 0.00158751160251865), (1.0, 4.309663551200162e-24)),
    "rare": ((0.9997939128756579, 0.00020608712434212032), (1.0, 1e-150)),
    "plain": ((0.25, 0.75), (0.875, 0.125)),
}


def log_delta(p, q, count, epsilon):
    """By the binomial law of the draws of the first outcome."""
    total = mpf(0)
    for k in range(count + 1):
        ways = math.comb(count, k)
        mass = [ways * law[0] ** k * law[1] ** (count - k) for law in (p, q)]
        total += max(mpf(0), mass[0] - mp.exp(epsilon) * mass[1])
    return float(mp.log(total)) if total else -math.inf


@pytest.mark.parametrize("method", ["auto", "lattice", "contour", "direct", "pld"])
@pytest.mark.parametrize("rate", [1.0, 0.3, 1.9e-13])
@pytest.mark.parametrize("name", PAIRS)
def test_sums_of_losses(name, rate, method):
    with mp.workdps(60):
        p, q = ([*map(mpf, law)] for law in PAIRS[name])
        p, q = ([x / sum(law) for x in law] for law in (p, q))
        event = mechc.from_pmfs(*PAIRS[name])
        if rate < 1.0:
            event = mechc.poisson(event, sampling_rate=rate)
            p = [mpf(rate) * x + (1 - mpf(rate)) * y for x, y in zip(p, q, strict=True)]
        losses = [mp.log(x / y) for x, y in zip(p, q, strict=True)]
        top = max(range(2), key=losses.__getitem__)
        for count, most in ((3, 2), (5, 4)):
            epsilon = float(most * losses[top] + (count - most) * losses[1 - top])
            for at in (math.nextafter(epsilon, 0.0), epsilon, math.nextafter(epsilon, math.inf)):
                truth = log_delta(p, q, count, mpf(at))
                try:
                    found = (count * event).log_delta(at, direction="remove", method=method)
                except UnsupportedError:
                    return
                slack = 1e-15 * (1.0 + abs(truth))
                assert found.lower - slack <= truth <= found.upper + slack, (at, found)


def test_the_loss_of_an_atom_of_nearly_all():
    """The log of erfc(-u) / 2 is that of 1 less a tail, of which a sum with log(2) left 11 digits.

    P is Gaussian above tau and has an atom, Q is the atom.
    """
    x, s, tau = real("x"), positive("s"), positive("tau")
    density = sp.exp(-(x**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))
    pair = mechanism(
        "unseen", variable=x, p=sp.Piecewise((density, x > tau), (0, True)), q=0,
        atoms=[(0, sp.erfc(-tau / (s * sp.sqrt(2))) / 2, 1)], parameters=(s, tau),
    )  # fmt: skip
    for size in (3.8, 4.6, 7.2, 20.0):
        event = mechc.load(pair)(s=0.75, tau=0.75 * size)
        with mp.workdps(200):
            told = mp.erfc(0.75 * mpf(size) / 0.75 / mp.sqrt(2)) / 2
            loss = -mp.log1p(-told)
            for count, epsilon in ((1, float(loss)), (2, float(-2 * loss)), (3, float(-loss))):
                for at in (math.nextafter(epsilon, -1.0), epsilon, math.nextafter(epsilon, 1.0)):
                    hidden = (1 - told) ** count
                    removed = (1 - hidden) + max(0, hidden - mp.exp(at))
                    for way, exact in (("remove", removed), ("add", 1 - mp.exp(at) * hidden)):
                        truth = mp.log(exact) if exact > 0 else -mp.inf
                        found = (count * event).log_delta(at, direction=way)
                        assert found.lower <= truth <= found.upper, (size, count, at, way, found)
                        if way == "remove":
                            assert found.upper - found.lower < 1e-9, (size, count, at, found)


@pytest.mark.parametrize("gap", [1e-2, 1e-3])
def test_a_loss_that_cancels_far_out(gap):
    """a(|x| - sqrt(1 + x^2)) next to its limit, where it loses digits and, beyond 1e154, its value.

    The output with loss c - a r is (1 - r^2) / (2 r); the integral is that of the densities.
    """
    pair = declaration_from_text(
        "hyperbolic_beside_laplace",
        p="exp(-a*sqrt(1 + x**2))/(2*besselk(1, a))", q="a*exp(-a*Abs(x))/2",
    )  # fmt: skip
    a = 1.3
    with mp.workdps(30):
        one = mp.besselk(1, a)
        epsilon = float(-mp.log(a * one) - a * mpf(gap))
        r = -(epsilon + mp.log(a * one)) / a

        def gain(x):
            return mp.exp(-a * mp.sqrt(1 + x * x)) / one - mp.exp(epsilon - a * x) * a

        start = (1 - r * r) / (2 * r)
        truth = mp.log(mp.quad(gain, [start + mpf(i) / 2 for i in range(130)]))
    bound = mechc.load(pair)(a=a).log_delta(epsilon, direction="remove")
    assert bound.lower <= truth <= bound.upper <= bound.lower + 1e-6


def geometric_pair(epsilon, a, b, r):
    """Log delta of geometric laws of ratios a > b, the first on a sample."""
    a, b, r, scale = mpf(a), mpf(b), mpf(r), mp.exp(epsilon)
    least = mp.log((scale - 1 + r) / r * (1 - b) / (1 - a)) / mp.log(a / b)
    n = int(mp.floor(least)) + 1
    return mp.log(r * a**n + (1 - r - scale) * b**n)


def test_integers_whose_losses_are_differences_of_rounded_logs():
    """A log of a quotient near one, times a large number; likelihoods given an index."""
    n = integer("n")
    a, b = (parameter(name, 0, 1, typical=(0.1, 0.9)) for name in "ab")
    both = mechanism("ratios", variable=n, p=(1 - a) * a**n, q=(1 - b) * b**n, parameters=(a, b),
                     support=(0, sp.oo), lattice=True)  # fmt: skip
    ratios = 0.9894132276035522, 0.9823829712643344, 0.000499860298536656
    event = mechc.poisson(both, sampling_rate=ratios[2])(a=ratios[0], b=ratios[1])
    one_user = mechc.load("shuffle")(users=1, epsilon=4.106943279891818e-09)
    with mp.workdps(60):
        told = mpf(one_user.parameters["epsilon"])
        for found, truth in (
            *((event.log_delta(e, direction="remove"), geometric_pair(e, *ratios))
              for e in (3.824397095627338, 667.4800356649738, 854.6789678588466)),
            *((one_user.log_delta(e), mp.log((mp.exp(told) - mp.exp(e)) / (1 + mp.exp(told))))
              for e in (0.0, 2.7685406850865985e-09)),
        ):  # fmt: skip
            assert found.lower <= truth <= found.upper, (found, truth)


def test_a_reversed_mass_next_to_one():
    """It is exp(-loss) times the other one, whose rounding is that of its large log."""
    rate = 0.999999999688239
    event = mechc.without_replacement(mechc.load("randomized_response"), sampling_rate=rate)
    found = event(epsilon=85.1899775696411, categories=1626728).epsilon(rate, direction="add")
    assert found.lower == 0.0  # delta(0) is the rate times a distance below one


@pytest.mark.parametrize("gamma", [0.9999985404279804, 0.5, 0.3])
def test_masses_that_lost_digits_move_no_loss_that_is_a_parameter(gamma):
    """The middle outcome of a staircase as one less two of nearly a half; its loss is 0."""
    told, epsilon = 3.614814394740803e-09, positive("epsilon")
    share = parameter("share", 0, 1)
    ratio = sp.exp(-epsilon)
    up = (1 + sp.Min(share, 1 - share) * (1 - ratio) / (share + ratio * (1 - share))) / 2
    level = 1 - up * (1 + ratio)
    rows = [(up, up * ratio), (level, level), (up * ratio, up)]
    stairs = mechc.load(mechanism("stairs", outcomes=rows, parameters=(epsilon, share)))
    with mp.workdps(40):
        fall, g = mp.exp(-mpf(told)), mpf(gamma)
        top = (1 + min(g, 1 - g) * (1 - fall) / (g + fall * (1 - g))) / 2
        truth = mp.log(top * (1 - fall))
        found = stairs(epsilon=told, share=gamma).log_delta(0.0)
    assert found.lower <= truth <= found.upper < found.lower + 1e-5


def test_curves_allow_for_digits_as_single_answers_do():
    """Losses of integers are differences of logs; many counts together had left that out."""
    event = mechc.load("discrete_gaussian")(sigma=20.0)
    counts = np.arange(20, 31)
    curve = event.epsilon_curve(1e-5, counts)
    off = counts * sum(loss_errors(event.composition().steps("remove")))
    assert (curve.upper - curve.lower >= 2.0 * off).all()
