"""P and Q of different families: the loss turns inside the support, up or down by parameters.

Truth is made of distribution functions and of the places where p = exp(epsilon) q, found by sign
changes of the two log densities; two steps integrate one step over the first output.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize_scalar
from sympy import Rational, exp, gamma, log, oo, pi, sqrt

import mechc
from mechc.declare import mechanism, positive, real

X = real("x")
A, B = positive("a", typical=(0.5, 5)), positive("b", typical=(0.5, 5))


class Law(NamedTuple):
    """A density as a declaration has it, and its logarithm and tails as numbers."""

    density: object
    log: object
    below: object
    above: object


def exponential(rate, r):
    return Law(
        rate * exp(-rate * X),
        lambda x: math.log(r) - r * x,
        lambda x: -np.expm1(-r * x),
        lambda x: np.exp(-r * x),
    )


def weibull(shape, k):
    return Law(
        shape * X ** (shape - 1) * exp(-(X**shape)),
        lambda x: math.log(k) + (k - 1) * np.log(x) - x**k,
        lambda x: -np.expm1(-(x**k)),
        lambda x: np.exp(-(x**k)),
    )


def gamma_law(shape, k):
    return Law(
        X ** (shape - 1) * exp(-X) / gamma(shape),
        lambda x: (k - 1) * np.log(x) - x - math.lgamma(k),
        lambda x: special.gammainc(k, x),
        lambda x: special.gammaincc(k, x),
    )


def normal(scale, s, centre=0):
    u = (X - centre) / scale
    return Law(
        exp(-(u**2) / 2) / (sqrt(2 * pi) * scale),
        lambda x: -(((x - centre) / s) ** 2) / 2 - math.log(s * math.sqrt(2 * math.pi)),
        lambda x: special.ndtr((x - centre) / s),
        lambda x: special.ndtr((centre - x) / s),
    )


def lognormal(scale, s):
    return Law(
        exp(-((log(X) / scale) ** 2) / 2) / (sqrt(2 * pi) * scale * X),
        lambda x: -((np.log(x) / s) ** 2) / 2 - np.log(x * s * math.sqrt(2 * math.pi)),
        lambda x: special.ndtr(np.log(x) / s),
        lambda x: special.ndtr(-np.log(x) / s),
    )


# family of P, of Q, whether outputs are positive; a is the parameter of Q and b that of P
PAIRS = {
    "exponential_weibull": (exponential, weibull, True),
    "gamma_gamma": (gamma_law, gamma_law, True),
    "two_scales": (normal, lambda s, v: normal(s, v, 1), False),
    "exponential_gamma": (exponential, gamma_law, True),
    "lognormal_gamma": (lognormal, gamma_law, True),
    "weibull_gamma": (weibull, gamma_law, True),
    "lognormal_weibull": (lognormal, weibull, True),
    "gamma_exponential": (gamma_law, exponential, True),
}


@cache
def declared(name):
    p, q, one_sided = PAIRS[name]
    return mechc.load(
        mechanism(
            name,
            variable=X,
            p=p(B, 1.0).density,
            q=q(A, 1.0).density,
            parameters=(A, B),
            support=(0, oo) if one_sided else (-oo, oo),
        )
    )


class Truth:
    """The hockey-stick divergence of P against Q for one step and for two."""

    def __init__(self, name, a, b):
        p, q, one_sided = PAIRS[name]
        self.p, self.q = p(B, b), q(A, a)
        far = np.geomspace(1e-20, 1e12, 2401)
        grid = far if one_sided else np.concatenate([-far[::-1], far])
        with np.errstate(all="ignore"):  # beyond all numbers at the far end
            grid = grid[np.isfinite(self.loss(grid))]
            bend = np.sign(np.diff(self.loss(grid)))
        (turns,) = np.nonzero(bend[1:] * bend[:-1] < 0)
        extrema = [self.extremum(grid[i], grid[i + 2], bend[i]) for i in turns]
        self.extremes = self.loss(np.array(extrema))
        self.grid = np.sort(np.append(grid, extrema))

    def loss(self, x):
        return self.p.log(x) - self.q.log(x)

    def extremum(self, lo, hi, sign):
        found = minimize_scalar(
            lambda x: -sign * self.loss(x), bounds=(lo, hi), method="bounded",
            options={"xatol": 1e-12},
        )  # fmt: skip
        return found.x

    def crossings(self, levels):
        """Where the loss crosses each of some levels: rows, places, whether it falls there."""
        with np.errstate(all="ignore"):
            over = self.loss(self.grid) > levels[:, None]
        rows, cells = np.nonzero(over[:, 1:] != over[:, :-1])
        falls = over[rows, cells]
        lo, hi = self.grid[cells], self.grid[cells + 1]
        for _ in range(80):
            middle = 0.5 * (lo + hi)
            same = (self.loss(middle) > levels[rows]) == falls
            lo, hi = np.where(same, middle, lo), np.where(same, hi, middle)
        return rows, lo, falls, over[:, 0]

    def one(self, epsilon):
        """Sums of P(I) - exp(epsilon) Q(I) over the intervals I on which p > exp(epsilon) q."""
        epsilon = np.asarray(epsilon, float)
        rows, at, falls, from_the_left = self.crossings(epsilon)
        above = self.p.above(at) - np.exp(epsilon[rows]) * self.q.above(at)
        total = np.where(from_the_left, -np.expm1(np.minimum(epsilon, 700.0)), 0.0)
        np.add.at(total, rows, np.where(falls, -above, above))
        return total

    def two(self, epsilon):
        """The integral of p(x) times one step at what the loss at x leaves of epsilon."""
        _, kinks, *_ = self.crossings(epsilon - self.extremes)
        x, w = np.polynomial.legendre.leggauss(6)
        edges = np.sort(np.append(self.grid, kinks))
        half = 0.5 * np.diff(edges)[:, None]
        x, w = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel(), (half * w).ravel()
        seen = self.p.log(x) > -60.0
        x, w = x[seen], w[seen]
        return float(np.sum(w * np.exp(self.p.log(x)) * self.one(epsilon - self.loss(x))))

    def delta(self, epsilon, count, direction):
        """One or two steps; what is finite of both laws is all of them."""
        if direction == "add":
            return -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon, count, "remove")
        return self.two(epsilon) if count == 2 else float(self.one([epsilon])[0])


def questions(truth, seed):
    """Epsilons of both signs, some of them next to an extreme loss."""
    near = [e + d for e in truth.extremes for d in (-1e-3, 1e-3)]
    return [*np.random.default_rng(seed).uniform(-1.2, 1.2, 6), *near]


SHAPES = [(0.6, 1.5), (1.3, 0.7)]
MORE = ((0.8, 0.7), (1.3, 1.0), (3.0, 2.0))
SLOW_SHAPES = [pytest.param(*ab, marks=pytest.mark.slow) for ab in MORE]


@pytest.mark.parametrize("epsilon", [0.7, 0.9])
def test_a_mode_next_to_the_end_of_a_cut_law(epsilon):
    """Losses beyond 128 are revealed; next to there, fourteen decades away, tilted laws rise."""
    truth = Truth("lognormal_gamma", 3.0, 2.0).delta(epsilon, 2, "add")
    found = (2 * declared("lognormal_gamma")(a=3.0, b=2.0)).delta(epsilon, direction="add")
    assert found.lower - 2e-8 <= truth <= found.upper + 2e-8
    assert found.upper - found.lower < 1e-8


@pytest.mark.few(1)
@pytest.mark.parametrize(("width", "is_found"), [(0.1, True), (1e-3, False)])
def test_a_mode_that_no_node_has_seen_stands_at_infinite_loss(width, is_found):
    """It has a loss of 740, where the rest has a mass of 1e-49; what P lacks to one tells of it."""
    rare, far = Rational(1, 10**9), normal(B, 1.0, 40).density
    law = mechanism(
        "far_mode",
        variable=X,
        p=(1 - rare) * normal(1, 1.0).density + rare * far,
        q=normal(1, 1.0, 1).density,
        parameters=(B,),
    )
    for count in (1, 2):
        found = (count * mechc.load(law)(b=width)).delta(15.0, direction="remove")
        assert found.lower <= -math.expm1(count * math.log1p(-1e-9)) <= found.upper <= count * 2e-9
        assert not is_found or found.upper - found.lower < 1e-17


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b"), [SHAPES[0], pytest.param(*SHAPES[1], marks=pytest.mark.slow), *SLOW_SHAPES]
)
@pytest.mark.parametrize(
    "name",
    [n if n == "exponential_weibull" else pytest.param(n, marks=pytest.mark.slow) for n in PAIRS],
)
def test_extrema_inside_in_every_parameter_case(name, a, b):
    truth = Truth(name, a, b)
    for count, tolerance in ((1, 1e-11), (2, 1e-7)):
        run = count * declared(name)(a=a, b=b)
        for epsilon in questions(truth, count):
            for direction in ("remove", "add"):
                found = run.delta(epsilon, direction=direction)
                expected = truth.delta(epsilon, count, direction)
                error = tolerance + 4e-16 * math.exp(abs(epsilon))  # of the truth, in doubles
                assert found.status.startswith("proven")
                assert found.lower - error <= expected <= found.upper + error
                assert found.upper - found.lower <= 1e-3 * found.upper + 1e-9
