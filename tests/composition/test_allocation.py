"""Random allocation: one epoch against quadrature, enumeration and reference values; epochs."""

import itertools
import math
import pickle
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive, logsumexp
from scipy.stats import binom, norm
from sympy import exp, oo

import mechc
from mechc.accountants.allocation import grids, likelihood_ratio, puts_and_calls
from mechc.accountants.allocation.epoch import Epoch, Ratio
from mechc.accountants.allocation.grids import Between
from mechc.accountants.allocation.puts_and_calls import Contour, Shares
from mechc.accountants.classical.renyi import of_epoch
from mechc.declare import integer, mechanism, positive
from mechc.errors import (
    DeclarationError,
    InternalError,
    MechcError,
    NumericError,
    UnsupportedError,
)
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.tabulated import Table

gaussian = mechc.load("gaussian")
laplace = mechc.load("laplace")


def both(event, epsilon):
    return [event.delta(epsilon, direction=d) for d in ("remove", "add")]


# found on two contours each, to the digits shown
REFERENCE = [
    (gaussian, {"sigma": 1.0}, 1000, 0.2, 2.0372493142e-07, 2.01024326312e-09),
    (gaussian, {"sigma": 1.0}, 100, 1.0, 3.01577445683e-07, 1.05033157110e-19),
    (laplace, {"scale": 0.5}, 200, 0.3, 4.89437489698e-04, 1.62660494042e-03),
]


@pytest.mark.parametrize(("mechanism", "values", "steps", "epsilon", "remove", "add"), REFERENCE)
def test_reference_values(mechanism, values, steps, epsilon, remove, add):
    event = mechc.random_allocation(mechanism, steps=steps)(**values)
    found = both(event, epsilon)
    for bound, value, digits in zip(found, (remove, add), (1e-12, 1e-10 * add), strict=True):
        assert bound.lower - digits <= value <= bound.upper + digits
        assert bound.upper - bound.lower <= (1e-12 if value == remove else 1e-9 * value)
        assert bound.status == "proven" and bound.method == "put"


NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def puts_of_lognormals(sigma, steps, totals):
    """E (total - X_1 - ... - X_t)_+, by nested quadrature around the formula for one."""
    mean, totals = -0.5 / sigma**2, np.maximum(totals, 1e-300)
    top = (np.log(totals) - mean) * sigma
    if steps == 1:
        return totals * norm.cdf(top) - norm.cdf(top - 1.0 / sigma)
    half = 0.5 * (top + 10.0)[..., None]
    z = half * (NODES + 1.0) - 10.0
    rest = totals[..., None] - np.exp(mean + z / sigma)
    inner = norm.pdf(z) * puts_of_lognormals(sigma, steps - 1, rest) * (half > 0.0)
    return (inner * WEIGHTS * half).sum(axis=-1)


@pytest.mark.parametrize(("steps", "epsilon"), [(2, 0.5), (2, 1.5), (3, 0.4)])
def test_few_steps_of_gaussian_noise(steps, epsilon):
    remove, add = both(mechc.random_allocation(gaussian, steps=steps)(sigma=1.2), epsilon)
    c = math.exp(epsilon)
    for bound, value in (
        (remove, float(puts_of_lognormals(1.2, steps, np.array(c * steps))) / steps + 1.0 - c),
        (add, c * float(puts_of_lognormals(1.2, steps, np.array(steps / c))) / steps),
    ):
        assert bound.lower - 1e-10 <= value <= bound.upper + 1e-10
        assert bound.upper - bound.lower < 1e-6 * value


def enumerated(points, weights, steps, epsilon):
    c, remove, add = math.exp(epsilon), 0.0, 0.0
    for chosen in itertools.product(range(len(points)), repeat=steps):
        mass = math.prod(weights[i] for i in chosen)
        w = math.fsum(points[i] for i in chosen) / steps
        remove += mass * max(w - c, 0.0)
        add += mass * max(1.0 - c * w, 0.0)
    return remove, add


def test_discrete_laplace_by_enumeration():
    scale, steps = 1.5, 4
    k = np.arange(-80, 81)
    mass = np.exp(-np.abs(k) / scale)
    mass /= mass.sum()
    ratio = np.round((np.abs(k) - np.abs(k - 2)) / 2.0)
    weights = [float(mass[ratio == r].sum()) for r in (-1, 0, 1)]
    points = [math.exp(2.0 * r / scale) for r in (-1, 0, 1)]
    noise = mechc.load("discrete_laplace")(a=1.0 / scale, sensitivity=2)
    event = mechc.random_allocation(noise, steps=steps)
    for bound, value in zip(both(event, 0.35), enumerated(points, weights, steps, 0.35),
                            strict=True):  # fmt: skip
        assert bound.lower <= value <= bound.upper
        assert bound.upper - bound.lower < 1e-5 * value


def binomial(loss, steps, epsilon):
    """One bit that is told with the likelihood ratio exp(loss): W is binomial."""
    told = 1.0 / (1.0 + math.exp(-loss))
    remove = add = 0.0
    for k in range(steps + 1):
        mass = math.comb(steps, k) * (1.0 - told) ** k * told ** (steps - k)
        w = (k * math.exp(loss) + (steps - k) * math.exp(-loss)) / steps
        remove += mass * max(w - math.exp(epsilon), 0.0)
        add += mass * max(1.0 - math.exp(epsilon) * w, 0.0)
    return remove, add


@pytest.mark.parametrize(("steps", "epsilon"), [(2, 0.3), (40, 0.2)])
def test_one_bit(steps, epsilon):
    told = 1.0 / (1.0 + math.exp(-1.0))
    bit = mechc.from_pmfs([told, 1.0 - told], [1.0 - told, told])
    found = both(mechc.random_allocation(bit, steps=steps), epsilon)
    for bound, value in zip(found, binomial(1.0, steps, epsilon), strict=True):
        assert bound.lower <= value * (1.0 + 1e-12) and value <= bound.upper * (1.0 + 1e-12)
        assert bound.upper - bound.lower < 1e-3 * value


def test_masses_at_infinity():
    """Outputs that only one of P and Q has: an average of zeros and of one number."""
    pair = mechc.from_pmfs([0.1, 0.9, 0.0], [0.0, 0.8, 0.2])
    event = mechc.random_allocation(pair, steps=3)
    remove, add = enumerated([0.0, 0.9 / 0.8], [0.2, 0.8], 3, 0.05)
    for bound, value in zip(both(event, 0.05), (remove + 0.1, add), strict=True):
        assert bound.lower <= value <= bound.upper and bound.upper - bound.lower < 1e-6
    assert event.delta(math.inf).lower == pytest.approx(0.1)


def test_smaller_than_the_plain_epoch_and_falling():
    plain = gaussian(sigma=1.0)
    previous = both(plain, 0.5)
    for steps in (2, 8, 30, 200):
        found = both(mechc.random_allocation(plain, steps=steps), 0.5)
        for now, before in zip(found, previous, strict=True):
            assert now.lower <= now.upper < before.lower
        previous = found
    quieter = both(mechc.random_allocation(gaussian, steps=30)(sigma=1.2), 0.5)
    louder = both(mechc.random_allocation(gaussian, steps=30)(sigma=1.0), 0.5)
    assert all(a.upper < b.lower for a, b in zip(quieter, louder, strict=True))


@pytest.mark.parametrize("name, values", [
    ("laplace", {"scale": 1.7}), ("pure_dp", {"epsilon": 1.0}),
    ("discrete_laplace", {"a": 0.6}), ("truncated_laplace", {"scale": 2.0, "halfwidth": 40.0}),
])  # fmt: skip
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_epsilon_of_steps_that_end_in_an_atom_is_where_delta_is(name, values, direction):
    epoch = mechc.random_allocation(mechc.load(name)(**values), steps=2000)
    delta = 1e-4
    found = epoch.epsilon(delta, direction=direction)
    assert epoch.delta(0.99 * found.lower, direction=direction).lower > delta
    assert epoch.delta(1.01 * found.upper, direction=direction).upper < delta


def test_very_many_steps():
    event = mechc.random_allocation(gaussian, steps=100_000)(sigma=1.0)
    remove, add = both(event, 0.02)
    assert 0.0 < remove.upper - remove.lower < 1e-12
    assert 0.0 < add.upper - add.lower < 1e-9 * add.upper
    assert remove.lower > add.upper  # the mean of X is skewed to the right


@pytest.mark.slow
@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("steps", "sigma", "a", "period"), [(10**7, 0.45, 36.0, 1.6), (10**6, 0.4, 30.0, 1.8)]
)
def test_very_many_steps_with_very_little_noise(steps, sigma, a, period):
    """Next to a sum over frequencies by NumPy: [9e-11, 6.6e-4] for 2.4e-7, [5.2e-4, .0038]."""
    epsilon, points = 0.05, 40_001
    z = np.linspace(-9.0, sigma * (math.log(2.0 * steps) + 0.5 / sigma**2), points)
    x = np.exp(z / sigma - 0.5 / sigma**2) / steps
    weight = norm.pdf(z) * (z[1] - z[0])
    weight[-1] *= 0.5
    c, mass = math.exp(epsilon), float(norm.sf(z[-1]))
    mean = 1.0 - norm.sf(z[-1] - 1.0 / sigma)
    s = a + 2j * math.pi / period * np.arange(500)
    # of phi^(1/t) - 1, which is small
    less = np.array([weight @ (np.expm1(-x * u) + x * u) - u * mean / steps - mass for u in s])
    log_phi = steps * (less - less**2 / 2.0 + less**3 / 3.0 - less**4 / 4.0)
    terms = np.exp(log_phi + s * c) / s**2
    put_of = float(2.0 * terms.real.sum() - terms[0].real) / period
    image = sum(math.exp(-a * m * period) * (c + m * period - 1.0) for m in (1, 2))
    value = put_of - image + 1.0 - c
    bound = mechc.random_allocation(gaussian(sigma=sigma), steps).delta(epsilon, direction="remove")
    assert bound.lower - 1e-12 <= value <= bound.upper + 1e-12
    assert bound.upper - bound.lower < 1e-6 * value and bound.status == "proven"


def test_one_step_and_all_steps_are_the_mechanism():
    plain = gaussian(sigma=2.0)
    assert mechc.random_allocation(plain, steps=1) == plain
    assert mechc.random_allocation(plain, steps=4, selected=4) == 4 * plain


@pytest.mark.parametrize(
    ("mechanism", "values", "steps", "epsilon", "remove", "add"),
    [
        (gaussian, {"sigma": 1.0}, 100, 1.0, 0.0020015, 0.0013547),
        (laplace, {"scale": 0.5}, 200, 1.2, 5.9700e-4, 1.16957e-3),
    ],
)
def test_ten_epochs(mechanism, values, steps, epsilon, remove, add):
    run = mechc.random_allocation(mechanism, steps=steps, epochs=10)(**values)
    assert run.count == 10
    for direction, value in (("remove", remove), ("add", add)):
        bound = run.delta(epsilon, direction=direction)
        assert bound.lower <= value * (1 + 2e-4) and value * (1 - 2e-4) <= bound.upper
        assert bound.upper - bound.lower <= 1e-6 * value
        assert bound.status == "proven but for the estimated error of a density"


@pytest.mark.parametrize("epsilon", [0.4, 0.6])
def test_deep_tails_of_removing_a_record(epsilon):
    """E (W - c)_+ of Laplace noise by its transform at s < 0, in double precision: to e^-158."""
    scale, t = 0.7, 1000
    x, w = (np.append(0.5 + 0.5 * NODES, [0.0, 1.0]), np.append(0.5 * WEIGHTS, [scale, scale]))
    ratio, mass = np.exp((2.0 * x - 1.0) / scale), w * np.exp(-x / scale) / (2.0 * scale)

    def tilted(a):
        terms = mass * np.exp(a * ratio)
        return (terms * ratio).sum() / terms.sum(), (terms * ratio**2).sum() / terms.sum()

    c = math.exp(epsilon)
    a = brentq(lambda a: tilted(a)[0] - c, 0.0, 50.0)
    step = 2.0 * math.pi / 24.0 / math.sqrt((tilted(a)[1] - c * c) / t)
    z = t * a + 1j * step * np.arange(100)
    logs = t * np.log(mass @ np.exp(np.outer(ratio, z / t))) - z * c
    terms = (np.exp(logs - logs[0]) / z**2).real
    truth = logs[0].real + math.log(step / math.pi * (terms.sum() - 0.5 * terms[0]))
    event = mechc.random_allocation(mechc.load("laplace")(scale=scale), steps=t)
    bound = event.log_delta(epsilon, direction="remove")
    assert bound.lower - 1e-11 * abs(truth) <= truth <= bound.upper + 1e-11 * abs(truth)
    assert bound.upper - bound.lower < 1e-8


def test_many_epochs_are_narrow():
    run = mechc.random_allocation(gaussian, steps=1000, epochs=100)(sigma=1.0)
    for direction in ("remove", "add"):
        bound = run.delta(2.4, direction=direction)
        assert 1e-10 < bound.lower <= bound.upper < 1e-8
        assert bound.upper - bound.lower < 1e-6 * bound.lower and "estimated" in bound.status
    found, e, t = run.renyi(3.0, direction="remove"), math.e, 1000
    third = (t * e**3 + 3 * t * (t - 1) * e + t * (t - 1) * (t - 2)) / t**3
    assert found.lower <= 50.0 * math.log(third) <= found.upper < (1.0 + 1e-6) * found.lower


@pytest.mark.few(0)
@pytest.mark.parametrize(("steps", "epsilon"), [(2, 9.0), (3, 9.0)])
def test_deep_tails_of_few_steps(steps, epsilon):
    """E (X_1 + ... + X_t - ct)_+ / t, by nested quadrature of positive terms."""
    mean, c = -0.5, math.exp(epsilon)

    def calls(n, level):  # of n lognormal variables; below 0 the whole mean counts
        if n == 1:
            up = np.log(np.maximum(level, 1e-300)) - mean
            inside = norm.sf(up - 1.0) - level * norm.sf(up)
            return np.where(level > 0.0, inside, 1.0 - level)
        top = math.log(steps * c)  # where the level passes 0
        edges = np.append(np.linspace(-10.0, top - mean, 9), [top + 3.0, top + 8.0])
        half = 0.5 * np.diff(edges)[:, None]
        z = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * NODES).ravel()
        weight = (half * WEIGHTS).ravel() * norm.pdf(z)
        return calls(n - 1, level[..., None] - np.exp(mean + z)) @ weight

    value = float(calls(steps, np.array([steps * c]))[0]) / steps
    bound = mechc.random_allocation(gaussian, steps=steps)(sigma=1.0).delta(
        epsilon, direction="remove"
    )
    assert value < 1e-15
    assert bound.lower <= value * (1 + 1e-6) and value * (1 - 1e-6) <= bound.upper
    assert bound.upper - bound.lower < 1e-6 * value


@pytest.mark.parametrize("steps", [3, 15])
def test_epsilon_of_a_delta_that_the_law_of_few_steps_hardly_holds(steps):
    """Above log t less than that of one step, and hardly more: one large X decides."""

    def log_delta(epsilon):  # of one step, sigma 1
        first, second = norm.logsf(epsilon - 0.5), epsilon + norm.logsf(epsilon + 0.5)
        return first + math.log1p(-math.exp(second - first))

    one = brentq(lambda e: log_delta(e) - math.log(1e-55), 1.0, 40.0, xtol=1e-12)
    bound = mechc.random_allocation(gaussian, steps=steps)(sigma=1.0).epsilon(1e-55)
    assert one - math.log(steps) <= bound.upper < one - math.log(steps) + 0.01
    assert bound.upper - bound.lower < 0.003


@pytest.mark.parametrize(("steps", "epsilon"), [(3, 1.0), (3, 4.0), (12, 0.3), (12, 1.5)])
def test_adding_a_record_tells_no_more_than_that_all_steps_are_far_out(steps, epsilon):
    """The bound on P(all X < t e^-eps) is above that probability of normal losses."""
    sigma = 0.8
    drop = 1 / (2 * sigma**2)
    exact = steps * norm.logcdf((math.log(steps) - epsilon + drop) * sigma)
    law = gaussian(sigma=sigma).loss("add").first()
    assert exact <= Epoch(law, "add", steps).log_all_small(epsilon) <= 0.0


@pytest.mark.parametrize(
    ("step", "ends"),
    [
        (lambda: gaussian(sigma=0.9), []),
        (lambda: mechc.poisson(gaussian)(sigma=0.9, sampling_rate=0.1), []),
        (lambda: laplace(scale=0.5), [-2.0, 2.0]),
    ],
)
def test_where_the_density_of_a_ratio_jumps(step, ends):
    assert likelihood_ratio.jumps(Shares(step().loss("remove").first(), 30)) == pytest.approx(ends)


def test_deep_tails_of_adding_a_record_to_few_steps():
    """c E (1 / c - W)_+ for two lognormal X, the inner put in closed form, in mpmath."""
    sigma, epsilon = 20, 0.4
    with mpmath.workdps(40):
        drop, c = mpmath.mpf(1) / (2 * sigma**2), mpmath.exp(mpmath.mpf(epsilon))

        def inner(z):
            rest = 2 / c - mpmath.exp(z / sigma - drop)
            top = (mpmath.log(rest) + drop) * sigma
            put = rest * mpmath.ncdf(top) - mpmath.ncdf(top - mpmath.mpf(1) / sigma)
            return put * mpmath.npdf(z)

        middle = (drop - mpmath.log(c)) * sigma
        value = c * mpmath.quad(inner, [middle + d for d in range(-12, 13, 3)]) / 2
    bound = mechc.random_allocation(gaussian, steps=2)(sigma=20.0).delta(0.4, direction="add")
    assert bound.lower <= value <= bound.upper and bound.upper - bound.lower < 1e-9 * value


def test_sums_are_not_made_to_fit_what_is_cut_from_their_terms():
    found = mechc.random_allocation(gaussian, steps=5)(sigma=0.7).delta(1.0 / 0.7)
    assert found.upper - found.lower < 3e-10 * found.lower


def test_sums_of_large_ratios_are_not_made_to_fit_noise():
    found = mechc.random_allocation(gaussian, steps=100_000)(sigma=0.7).delta(1.0 / 0.7)
    assert found.upper - found.lower < 1e-7 * found.lower


def test_the_density_of_w_next_to_a_sum_with_34_digits():
    """One epoch by contours and by its density: E (c - W)_+ on two lines, in mpmath."""
    truth, epsilon = 0.0167858821207665215, 0.16978264722519862
    law = gaussian(sigma=0.6857951406504622).loss("remove")
    epoch = Epoch(law, "remove", 250)
    for lower, _, upper in (epoch.log_delta(epsilon)[:3], epoch.exact.hockey_stick_log(epsilon)):
        error = epoch.exact.density_error
        assert math.exp(lower - error) <= truth <= math.exp(upper + error)
        assert upper - lower < 1e-10


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon"), [(0.666142, 148, 5.5), (1.5, 100, 2.0), (2.0, 50, 3.0)]
)
def test_deep_deltas_of_discrete_noise_are_narrow(sigma, steps, epsilon):
    event = mechc.load("discrete_gaussian")(sigma=sigma)
    epoch = mechc.random_allocation(event, steps=steps)
    found = epoch.log_delta(epsilon=epsilon, direction="remove")
    assert found.upper - found.lower < 1e-4
    # at most that of one step, at least that of one step at eps + log t
    assert found.lower <= event.log_delta(epsilon=epsilon, direction="remove").upper
    further = event.log_delta(epsilon=epsilon + math.log(steps), direction="remove")
    assert found.upper >= further.lower


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_density_of_w_lies_between_laws_on_a_grid(direction):
    """Two ways to the same: convolutions of densities, and transforms of laws on two grids."""
    law = mechc.load("logistic")(scale=0.4).loss(direction)
    epoch = Epoch(law, direction, 60)
    above, below = epoch.above, epoch.below
    for epsilon in (-0.2, 0.31, 1.0):
        exact = epoch.exact.hockey_stick_log(epsilon)
        most, least = above.hockey_stick_log(epsilon), below.hockey_stick_log(epsilon)
        assert exact[0] <= most[2]
        assert math.exp(least[0]) - math.exp(below.log_early) <= math.exp(exact[2])
        assert most[2] - least[0] < 1e-4


@pytest.mark.few(0, 2)
@pytest.mark.parametrize(("steps", "epsilon"), [(2, 9.0), (2, 20.0), (5, 10.0)])
def test_deltas_beyond_what_the_law_of_few_steps_resolves(steps, epsilon):
    """Next to the chance that all X are below half of exp(-epsilon)."""
    epoch = mechc.random_allocation(gaussian, steps=steps)(sigma=1.0)
    least = 0.5 * norm.cdf(0.5 - epsilon - math.log(2.0)) ** steps
    assert 0.0 < least < epoch.delta(epsilon, direction="add").upper
    assert epoch.epsilon(0.5 * least, direction="add").upper > epsilon


def test_a_law_that_lacks_mass_is_refused():
    """Normalised, polynomials that missed a peak would give deltas that are too small."""
    level = np.zeros((1, 16))
    level[0, 0] = math.log(0.9999)
    law = likelihood_ratio.Term(Table(np.array([0.0, 1.0]), level), np.array([1e-9]))
    with pytest.raises(NumericError, match="not one"):
        likelihood_ratio.trimmed(law, 0.0)


def laplace_puts(scale, totals):
    """E (total - X_1 - X_2)_+ for Laplace noise, by its two atoms and the density between."""
    edges = np.exp(np.array([-1.0, 1.0]) / scale)
    x = 0.5 * (edges[1] - edges[0]) * (NODES + 1.0) + edges[0]
    density = 0.25 * np.exp(-0.5 / scale) * x**-1.5 * 0.5 * (edges[1] - edges[0]) * WEIGHTS
    points = np.concatenate([edges, x])
    masses = np.concatenate([[0.5, 0.5 * math.exp(-1.0 / scale)], density])

    def put(level):  # of one X
        top = np.clip(level, edges[0], edges[1])
        below = 0.5 * np.exp(-0.5 / scale)
        inner = below * (level * (edges[0] ** -0.5 - top**-0.5) - (top**0.5 - edges[0] ** 0.5))
        ends = 0.5 * np.maximum(level - edges[0], 0.0)
        return inner + ends + masses[1] * np.maximum(level - edges[1], 0.0)

    # kinks of the outer integral, where the rest meets an end
    return [float(masses @ put(total - points)) for total in totals]


def test_laplace_noise_in_two_steps_by_quadrature():
    c = math.exp(0.4)
    remove, add = both(mechc.random_allocation(laplace, steps=2)(scale=1.0), 0.4)
    first, second = laplace_puts(1.0, [2.0 * c, 2.0 / c])
    for bound, value in ((remove, first / 2.0 + 1.0 - c), (add, c * second / 2.0)):
        assert bound.lower <= value * (1 + 2e-5) and value * (1 - 2e-5) <= bound.upper
        assert bound.upper - bound.lower < 1e-9 * value


def test_two_epochs_of_two_laplace_steps_by_quadrature():
    """E (W V - c)_+ over both steps of the first epoch, of the second by the formula."""
    lo, hi = math.exp(-1.0), math.e
    nodes, weights = np.polynomial.legendre.leggauss(60)
    half = 0.5 * (hi - lo)
    x = np.append([lo, hi], lo + half * (nodes + 1.0))
    mass = np.append([0.5, 0.5 / math.e], 0.25 * math.exp(-0.5) * x[2:] ** -1.5 * half * weights)
    w, weight = 0.5 * np.add.outer(x, x).ravel(), np.outer(mass, mass).ravel()
    run = mechc.random_allocation(laplace, steps=2, epochs=2)(scale=1.0)
    for epsilon in (0.5, 1.2):
        c = math.exp(epsilon)
        remove = w * (0.5 * np.array(laplace_puts(1.0, 2.0 * c / w)) + 1.0 - c / w)
        add = 0.5 * c * w * np.array(laplace_puts(1.0, 2.0 / (c * w)))
        for bound, value in zip(both(run, epsilon), (weight @ remove, weight @ add), strict=True):
            assert bound.lower <= value * (1 + 1e-3) and value * (1 - 1e-3) <= bound.upper
            assert bound.upper - bound.lower < 1e-8 * value


@pytest.mark.parametrize(("scale", "epsilon"), [(0.8, 0.6), (0.8, 1.2), (2.0, 0.02)])
def test_logistic_noise_in_two_steps_by_quadrature(scale, epsilon):
    """A density that does not fade at its ends: X = b / (u + (1 - u) b)^2, u uniform under Q."""
    b, c = math.exp(1.0 / scale), math.exp(epsilon)

    def put(level):  # of one X
        u = np.clip((b - np.sqrt(b / np.clip(level, 1.0 / b, b))) / (b - 1.0), 0.0, 1.0)
        return level * u - b / (b - 1.0) * (1.0 / (u + (1.0 - u) * b) - 1.0 / b)

    def puts(total):  # of two
        ends = np.clip([total - b, total - 1.0 / b], 1.0 / b, b)
        cuts = np.unique(np.append([0.0, 1.0], (b - np.sqrt(b / ends)) / (b - 1.0)))
        half = 0.5 * np.diff(cuts)[:, None]
        u = cuts[:-1, None] + half * (NODES + 1.0)
        return float((put(total - b / (u + (1.0 - u) * b) ** 2) * half * WEIGHTS).sum())

    event = mechc.random_allocation(mechc.load("logistic"), steps=2)(scale=scale)
    truth = 0.5 * puts(2.0 * c) + 1.0 - c, 0.5 * c * puts(2.0 / c)
    for bound, value in zip(both(event, epsilon), truth, strict=True):
        assert bound.lower <= value + 1e-14 and value - 1e-14 <= bound.upper
        assert bound.upper - bound.lower < 1e-9 * value


def test_epochs_of_point_masses_by_enumeration():
    """Two epochs of three steps of one bit: pairs of sums of binomial laws."""
    told, loss, epsilon = 1.0 / (1.0 + math.exp(-1.0)), 1.0, 0.3
    mass = [math.comb(3, k) * (1 - told) ** k * told ** (3 - k) for k in range(4)]
    w = [(k * math.exp(loss) + (3 - k) * math.exp(-loss)) / 3 for k in range(4)]
    bit = mechc.from_pmfs([told, 1.0 - told], [1.0 - told, told])
    run = 2 * mechc.random_allocation(bit, steps=3)
    for bound, value in zip(
        both(run, epsilon),
        (
            sum(a * b * max(x * y - math.exp(epsilon), 0.0)
                for a, x in zip(mass, w, strict=True) for b, y in zip(mass, w, strict=True)),
            sum(a * b * max(1.0 - math.exp(epsilon) * x * y, 0.0)
                for a, x in zip(mass, w, strict=True) for b, y in zip(mass, w, strict=True)),
        ),
        strict=True,
    ):  # fmt: skip
        assert bound.lower <= value * (1 + 1e-12) and value * (1 - 1e-12) <= bound.upper
        assert bound.upper - bound.lower < 1e-9 * value


@pytest.mark.slow
def test_epsilon_of_epochs_of_laplace_noise():
    run = 3 * mechc.random_allocation(laplace, steps=12)(scale=1.0)
    answer = run.epsilon(1e-3)
    assert run.delta(answer.upper).upper <= 1e-3 <= run.delta(answer.lower * (1 - 1e-9)).upper


def test_several_steps_of_one_bit_by_enumeration():
    """Two of four steps: the mean of the products of all pairs of likelihood ratios."""
    told, epsilon = 1.0 / (1.0 + math.exp(-1.0)), 0.4
    bit = mechc.from_pmfs([told, 1.0 - told], [1.0 - told, told])
    truth = [0.0, 0.0]
    for signs in itertools.product((1.0, -1.0), repeat=4):
        mass = math.prod(1.0 - told if s > 0 else told for s in signs)
        w = sum(math.exp(a + b) for a, b in itertools.combinations(signs, 2)) / 6.0
        truth[0] += mass * max(w - math.exp(epsilon), 0.0)
        truth[1] += mass * max(1.0 - math.exp(epsilon) * w, 0.0)
    for bound, value in zip(
        both(mechc.random_allocation(bit, steps=4, selected=2), epsilon), truth, strict=True
    ):
        assert bound.lower <= value * (1 + 1e-12) and value <= bound.upper * (1 + 1e-12)
        assert bound.upper - bound.lower < 1e-10 * value


@pytest.mark.parametrize("epsilon", [-0.42, 0.1])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.26, 0.615, 0.125], [0.465, 0.5349, 0.0001]),
        ([0.3, 0.7, 0.0], [0.05, 0.55, 0.4]), ([0.3, 0.6, 0.1], [0.5, 0.5, 0.0]),
    ],
)  # fmt: skip
def test_epochs_of_several_steps_by_enumeration(epsilon, p, q):
    """Two epochs, two of three steps; below epsilon 0 too, where the masses of Q decide."""
    rows = np.array(
        [
            [
                math.prod((p if j != left else q)[i] for j, i in enumerate(chosen))
                for left in range(3)
            ]
            for chosen in itertools.product(range(3), repeat=3)
        ]
    ).mean(axis=1)
    other = np.array([math.prod(q[i] for i in c) for c in itertools.product(range(3), repeat=3)])
    first, second = np.outer(rows, rows), np.outer(other, other)
    c = math.exp(epsilon)
    truth = [np.maximum(a - c * b, 0.0).sum() for a, b in ((first, second), (second, first))]
    run = mechc.random_allocation(mechc.from_pmfs(p, q), steps=3, selected=2, epochs=2)
    for bound, value in zip(both(run, epsilon), truth, strict=True):
        assert bound.lower <= value * (1 + 1e-12) and value <= bound.upper * (1 + 1e-12)
        assert bound.upper - bound.lower < 1e-10 * value


@pytest.mark.few(0, 1)
@pytest.mark.parametrize(
    ("name", "values", "steps"),
    [
        ("gaussian", {"sigma": 4.0}, 9), ("gaussian", {"sigma": 0.7}, 29),
        ("gaussian", {"sigma": 0.3}, 20), ("gaussian", {"sigma": 0.15}, 100),
        ("logistic", {"scale": 0.4}, 300), ("cauchy", {"scale": 1.0}, 100),
        ("logistic", {"scale": 0.5}, 100),  # one contour is the imaginary axis
        ("gaussian", {"sigma": 1.0}, 10**7),
        pytest.param("gaussian", {"sigma": 0.5}, 10**6, marks=pytest.mark.slow),  # see RARER
    ],
)  # fmt: skip
def test_moments_of_the_density(name, values, steps):
    """Under Q the likelihood ratio has mean 1, and variance Var(X) / t."""
    base = mechc.load(name)(**values)
    law = mechc.random_allocation(base, steps=steps).loss("remove")
    loss, weight = base.loss("remove").covering(-1.0, 1.0).nodes()
    variance = (float(np.exp(weight + loss).sum()) - 1.0) / steps
    loss, weight = law.covering(-1.0, 1.0).nodes()
    weight = np.exp(weight - loss)
    assert weight.sum() == pytest.approx(1.0, abs=1e-9)
    assert float(weight @ np.expm1(loss)) == pytest.approx(0.0, abs=1e-9)
    assert float(weight @ np.expm1(loss) ** 2) == pytest.approx(variance, rel=1e-6)


@pytest.mark.few(1, 2)
@pytest.mark.parametrize("order", [0.7, 1.5, 3.0])
def test_divergences_of_adding_a_record_are_those_of_the_pair_that_is_declared_for_it(order):
    """Of one epoch and of two, which were asked of the reversed pair: a tenth as much."""
    n, a = integer("n"), positive("a")

    def masses(a):
        return exp(-a * n) * (1 - exp(-a))

    base = mechc.load(mechanism(
        "two_pairs", variable=n, p=masses(a), q=masses(a + 0.2), parameters=(a,), lattice=True,
        support=(0, oo), reverse=(masses(2 * a), masses(a + 0.2)),
    ))(a=1.0)  # fmt: skip
    epoch = mechc.random_allocation(base, steps=3)
    k = np.arange(60)
    p, q = (np.exp(-b * k) * -math.expm1(-b) for b in (2.0, 1.2))
    w = sum(np.ix_(*[q / p] * 3)) / 3.0
    mass = np.exp(sum(np.ix_(*[np.log(p)] * 3)))
    truth = math.log(float((mass * w ** (1.0 - order)).sum())) / (order - 1.0)
    for count in (1, 2):
        found = (count * epoch).renyi(order, direction="add")
        assert found.lower <= count * truth * (1.0 + 1e-9)
        assert found.upper >= count * truth * (1.0 - 1e-9)
        assert found.upper - found.lower < 1e-3 * truth


@pytest.mark.few(0)
@pytest.mark.parametrize("others", [[], [3.0]])
def test_an_epoch_of_steps_of_an_estimated_density_says_so(others):
    """Point by point too, where no law of the epoch is made; it claimed to be proven."""
    planar = mechc.radial(laplace, dimension=2)(scale=20.0)
    epoch = mechc.random_allocation([planar] * 4 + [laplace(scale=s) for s in others])
    for bound in (*both(epoch, 0.01), epoch.epsilon(1e-3)):
        assert bound.status == "proven but for the estimated error of a density"


def test_two_epochs_of_two_steps_by_quadrature():
    """W = (X_1 + X_2) / 2 and its copy, over four normal variables, two of them in closed form."""
    run = 2 * mechc.random_allocation(gaussian, steps=2)(sigma=1.5)
    z, weight = np.polynomial.hermite_e.hermegauss(24)
    x = np.exp(z / 1.5 - 0.5 / 1.5**2)
    weight = weight / weight.sum()
    w = 0.5 * (x[:, None] + x)
    both = np.outer(weight, weight)
    c = math.exp(0.7)
    add = 0.0
    for value, mass in zip(w.ravel(), both.ravel(), strict=True):  # E (1 - c v W)_+ by the put
        total = 2.0 / (c * value)
        add += mass * c * value * 0.5 * float(puts_of_lognormals(1.5, 2, np.array(total)))
    bound = run.delta(0.7, direction="add")
    assert bound.lower * (1 - 1e-4) <= add <= bound.upper * (1 + 1e-4)


def test_selected_steps_are_epochs_of_fewer_steps():
    run = mechc.random_allocation(gaussian, steps=200, selected=3)(sigma=1.0)
    parts = {event.steps: count for event, count in run}
    assert parts == {66: 1, 67: 2}
    once = mechc.random_allocation(gaussian, steps=200)(sigma=1.0)
    bound = run.delta(1.0)
    assert bound.upper > once.delta(1.0).upper
    # that composition is no lower bound for an epoch with three steps selected; sums of points are
    assert 0.5 * bound.upper < bound.lower < bound.upper and "estimated" in bound.status
    copied = pickle.loads(pickle.dumps(run))
    assert copied == run and copied.delta(1.0).lower == bound.lower
    more = mechc.random_allocation(gaussian, steps=200, selected=4)(sigma=1.0)
    assert bound.upper < more.delta(1.0).upper


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("step", "steps", "epsilon"),
    [
        (lambda: gaussian(sigma=0.8), 40, 0.7), (lambda: gaussian(sigma=2.5), 900, -0.1),
        (lambda: mechc.load("discrete_laplace")(a=1.0), 12, 0.2),
    ],
)  # fmt: skip
def test_monotone(step, steps, epsilon):
    """More steps reveal less of a record; more epochs and more steps drawn reveal more."""
    step = step()

    def deltas(**numbers):
        return both(mechc.random_allocation(step, **{"steps": steps, **numbers}), epsilon)

    once = deltas()
    for more, less in (
        (once, deltas(steps=steps + 1)), (deltas(steps=steps - 1), once),
        (deltas(epochs=2), once), (deltas(selected=2), once), (both(step, epsilon), once),
    ):  # fmt: skip
        assert all(a.upper >= b.lower for a, b in zip(more, less, strict=True))


@pytest.mark.parametrize(("name", "steps", "rel"), [
    ("gaussian", 50, 1e-6),
    pytest.param("discrete_gaussian", 30, 1e-3, marks=pytest.mark.slow),
])  # fmt: skip
def test_sampled_epoch(name, steps, rel):
    epoch = mechc.random_allocation(mechc.load(name)(sigma=1.0), steps=steps)
    half = mechc.poisson(epoch, 0.5).delta(0.5, direction="remove")
    # remove, to first order in e^eps - 1: T6 at a rate r asks for log(1 + (e^eps - 1) / r)
    inner = epoch.delta(math.log1p(math.expm1(0.5) / 0.5), direction="remove")
    assert half.lower <= 0.5 * inner.upper and 0.5 * inner.lower <= half.upper
    assert half.upper - half.lower < rel * half.upper


def test_shares_that_hardly_vary():
    """Contours leave no panel between the largest shares and the mean; the epoch is answered."""
    step = mechc.poisson(gaussian, 0.008191091186564456)(sigma=6.96579788158221)
    epoch = mechc.random_allocation(step, 957)
    assert 0.0 <= epoch.delta(0.0099, direction="remove").upper < step.delta(0.0099).upper


def test_calibration_and_pickle():
    mechanism = mechc.random_allocation(gaussian, steps=100)
    value, bound = mechc.calibrate(mechanism, solve_for="sigma", epsilon=0.5, delta=1e-6)
    assert bound.upper <= 1e-6 < mechanism(sigma=value * (1 - 1e-6)).delta(0.5).upper
    again = pickle.loads(pickle.dumps(mechanism(sigma=1.0)))
    assert again == mechanism(sigma=1.0)
    assert again.delta(0.2).upper == mechanism(sigma=1.0).delta(0.2).upper


def test_steps_and_epochs_are_solved_for():
    mechanism = mechc.random_allocation(gaussian, steps=100)
    for word, target, values in (
        ("steps", (0.5, 1e-6), {"sigma": 1.0}), ("epochs", (2.0, 1e-5), {"sigma": 0.9}),
    ):  # fmt: skip
        epsilon, delta = target
        found = mechc.calibrate(mechanism, solve_for=word, epsilon=epsilon, delta=delta, **values)
        beyond = found.value + (1 if word == "epochs" else -1)
        assert (
            found.bound.upper <= delta < mechanism(**values, **{word: beyond}).delta(epsilon).lower
        )
    assert mechanism.bind(steps=7)(sigma=1.0) == mechanism(sigma=1.0, steps=7)
    with pytest.raises(DeclarationError, match=r"random_allocation: steps=1e\+08"):
        mechanism(sigma=1.0, steps=10**8)


def test_steps_that_are_not_alike():
    """Two steps of different noise by quadrature; a hundred between those of each noise alone."""
    sigmas, epsilon = (0.9, 1.6), 0.4
    event = mechc.random_allocation([gaussian(sigma=s) for s in sigmas], epochs=1)
    half = 12.0 / 125.0  # of each of so many panels
    z = (half * (NODES + np.arange(-124.0, 125.0, 2.0)[:, None])).ravel()
    weight = half * np.tile(WEIGHTS, 125) * norm.pdf(z)
    x = np.exp(z / sigmas[0] - 0.5 / sigmas[0] ** 2)
    c = math.exp(-epsilon)
    puts = puts_of_lognormals(sigmas[1], 1, np.maximum(2.0 * c - x, 1e-300))
    add = float(weight @ np.where(x < 2.0 * c, puts, 0.0)) * math.exp(epsilon) / 2.0
    bound = event.delta(epsilon, direction="add")
    assert bound.lower * (1 - 1e-6) <= add <= bound.upper * (1 + 1e-6)
    assert bound.upper - bound.lower < 1e-6 * add
    mixed = mechc.random_allocation([gaussian(sigma=1.0)] * 20 + [gaussian(sigma=1.5)] * 20)
    found, *ends = (
        both(what, 0.5)
        for what in (mixed, *(mechc.random_allocation(gaussian(sigma=s), 40) for s in (1.5, 1.0)))
    )
    for middle, low, high in zip(found, *ends, strict=True):
        assert low.upper < middle.lower and middle.upper < high.lower
    again = pickle.loads(pickle.dumps(3 * mixed))
    assert again == 3 * mixed and again.claim.theorem == "T11"


@pytest.mark.few(1)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_steps_of_other_noise_that_are_hardly_not_alike(direction):
    """Half of the steps of a reference value with a little more noise: Laplace, with atoms."""
    run = mechc.random_allocation([laplace(scale=0.5)] * 100 + [laplace(scale=0.5 + 1e-9)] * 100)
    value = {"remove": 4.89437489698e-04, "add": 1.62660494042e-03}[direction]
    bound = run.delta(0.3, direction=direction)
    assert bound.lower * (1 - 1e-7) <= value <= bound.upper * (1 + 1e-7)
    assert bound.upper - bound.lower < 2e-6 * value


@pytest.mark.few(1)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_two_epochs_of_integers_beside_a_density(direction):
    """E delta(epsilon - loss) over the first epoch, delta of the second by normal integrals."""
    sigma, own, epsilon = 0.8, 1.1, 1.0
    mass = np.exp(-0.5 * (np.arange(-14.0, 15.0) / sigma) ** 2)
    q = mass[:-1] / mass.sum()
    x = mass[1:] / mass[:-1]  # the ratios of masses at n and n + 1
    z = np.linspace(-9.0, 9.0, 1801)
    other, weight = np.exp(z / own - 0.5 / own**2), 0.01 * norm.pdf(z)

    def puts(k):  # E (k - X)_+ of the normal step
        at = own * np.log(np.maximum(k, 1e-300)) + 0.5 / own
        return np.where(k > 0.0, k * norm.cdf(at) - norm.cdf(at - 1.0 / own), 0.0)

    def delta(c):  # of one epoch
        put = (q * puts(2.0 * c[..., None] - x)).sum(axis=-1) / 2.0
        return put / c if direction == "add" else 1.0 - c + put

    w = 0.5 * (x[:, None] + other)
    under_q = q[:, None] * weight
    if direction == "add":
        true = (under_q * delta(math.exp(-epsilon) / w)).sum()
    else:
        true = (under_q * w * delta(math.exp(epsilon) / w)).sum()
    steps = [mechc.load("discrete_gaussian")(sigma=sigma), gaussian(sigma=own)]
    bound = (2 * mechc.random_allocation(steps)).delta(epsilon, direction=direction)
    assert bound.lower <= true * (1.0 + 1e-8) and true <= bound.upper * (1.0 + 1e-8)
    assert bound.upper - bound.lower < 1e-3 * true
    assert "estimated" in bound.status


@pytest.mark.slow
def test_a_schedule_of_many_kinds_lies_between_its_ends():
    """A hundred kinds of logistic noise; and masses at infinity beside losses without end."""
    noise = [mechc.load("logistic")(scale=s) for s in np.linspace(0.5, 0.6, 100)]
    found, high, low = (
        both(mechc.random_allocation(what, 100), 0.2) for what in (noise, noise[0], noise[-1])
    )
    for middle, most, least in zip(found, high, low, strict=True):
        assert least.upper < middle.lower <= middle.upper < most.lower
    cut = mechc.truncate(gaussian, -1.0, 1.0)(sigma=1.0)
    mixed = mechc.random_allocation([cut] * 30 + [gaussian(sigma=1.5)] * 10)
    mass = 0.75 * cut.delta(math.inf).estimate
    assert mixed.delta(math.inf, direction="remove").upper == pytest.approx(mass, rel=1e-9)


def test_a_contour_may_take_more_of_more_kinds_of_steps(monkeypatch):
    """Next to a sum over nodes and frequencies by NumPy."""
    monkeypatch.setattr(puts_and_calls, "MOST_WORK", 2e5)  # less than eight kinds take
    sigmas, epsilon, a = np.linspace(1.0, 1.4, 8), 0.9, 4.0
    z = np.linspace(-9.0, 9.0, 1201)
    weight = norm.pdf(z) * (z[1] - z[0])
    c = math.exp(-epsilon)
    s = a + 2j * math.pi / 16.0 * np.arange(300)
    phi = np.prod([
        weight @ np.exp(-np.outer(np.exp(z / sigma - 0.5 / sigma**2), s / 8.0)) for sigma in sigmas
    ], axis=0)  # fmt: skip
    terms = (phi * np.exp(s * c) / s**2).real
    value = float(2.0 * terms.sum() - terms[0]) / 16.0 / c
    event = mechc.random_allocation([gaussian(sigma=sigma) for sigma in sigmas])
    profile = Epoch(
        event.base.loss("add"), "add", 8,
        beside=[(one.loss("add"), 1) for one, _ in event.allocated[1:]],
    )  # fmt: skip

    def refuse(*parts):
        raise NumericError("no density: a contour has to do")

    monkeypatch.setattr(likelihood_ratio, "law", refuse)
    lower, _, upper, _ = np.exp(profile.log_delta(epsilon))
    assert lower - 1e-9 <= value <= upper + 1e-9 and upper - lower < 1e-6 * value


def test_sums_of_many_kinds_are_those_of_their_halves(monkeypatch):
    monkeypatch.setattr(likelihood_ratio, "KINDS", 3)
    of_kinds, sizes = likelihood_ratio.of_kinds, []
    monkeypatch.setattr(
        likelihood_ratio, "of_kinds", lambda parts: sizes.append(len(parts)) or of_kinds(parts)
    )
    sigmas = [1.0 + 0.1 * i for i in range(11)]
    run = 2 * mechc.random_allocation([gaussian(sigma=sigma) for sigma in sigmas])
    bound = run.renyi(2.0, direction="remove")
    square = 1.0 + math.fsum(math.expm1(1.0 / sigma**2) for sigma in sigmas) / 121.0
    assert bound.lower <= 2.0 * math.log(square) <= bound.upper < (1.0 + 1e-6) * bound.lower
    assert {*sizes} == {2, 3, 5, 6, 11}


@pytest.mark.parametrize(
    ("events", "numbers"),
    [
        (lambda: [], {}), (lambda: [gaussian(sigma=1.0)], {"steps": 2}), (lambda: [gaussian], {}),
        (lambda: [gaussian(sigma=1.0), 2 * gaussian(sigma=1.0)], {}),
    ],
)  # fmt: skip
def test_bad_lists(events, numbers):
    with pytest.raises(DeclarationError, match="random_allocation"):
        mechc.random_allocation(events(), **numbers)


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_epochs_of_noise_schedules_of_integers_by_enumeration(epsilon):
    """They were refused. Two epochs; Rényi divergences are those of the worst step at most."""
    kinds = [0.9, 0.9, 1.3]
    k, w, mass = np.arange(-13, 15), np.zeros(1), np.ones(1)
    for sigma in kinds:
        q = np.exp(-0.5 * (k / sigma) ** 2)
        w = np.add.outer(w, np.exp((k - 0.5) / sigma**2)).ravel()
        mass = np.multiply.outer(mass, q / q.sum()).ravel()
    w, kept = w / 3.0, mass * np.maximum(w, 1.0) > 1e-13
    w, mass, c = w[kept], mass[kept], math.exp(epsilon)
    order = np.argsort(w)
    w, mass = w[order], mass[order]
    more = np.append(np.cumsum((mass * w)[::-1])[::-1], 0.0)  # by the second epoch, sorted
    many, less = np.append(np.cumsum(mass[::-1])[::-1], 0.0), np.append(0.0, np.cumsum(mass * w))
    few, at = np.append(0.0, np.cumsum(mass)), np.searchsorted(w, c / w)
    remove = mass @ (w * more[at] - c * many[at])
    at = np.searchsorted(w, 1.0 / (c * w))
    add = mass @ (few[at] - c * w * less[at])
    run = mechc.random_allocation(
        [mechc.load("discrete_gaussian")(sigma=sigma) for sigma in kinds], epochs=2
    )
    for bound, value in zip(both(run, epsilon), (remove, add), strict=True):
        assert bound.lower - 1e-9 <= value <= bound.upper + 1e-9
        assert bound.upper - bound.lower < 1e-3 * value
    worst = mechc.load("discrete_gaussian")(sigma=0.9).renyi(2.0).upper
    assert 0.0 < run.renyi(2.0).upper <= 2.0 * worst * (1.0 + 1e-9)


def sampled_losses(sigmas, epochs, samples, adding):
    """Losses of epochs of integer Gaussian steps that are drawn, in the direction."""
    rng, k, loss = np.random.default_rng(19), np.arange(-60, 61), np.zeros(samples)
    for _ in range(epochs):
        total, taken = np.zeros(samples), rng.integers(len(sigmas), size=samples)
        for i, sigma in enumerate(sigmas):
            mass = np.exp(-0.5 * (k / sigma) ** 2)
            noise = rng.choice(k, size=samples, p=mass / mass.sum()) + (taken == i) * (not adding)
            total += np.exp((noise - 0.5) / sigma**2)
        loss += np.log(total / len(sigmas))
    return -loss if adding else loss


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("widest", "kinds"), [(2.0, 20), pytest.param(5.0, 35, marks=pytest.mark.slow)]
)
def test_epochs_of_many_kinds_of_integers_by_sampling(widest, kinds, direction):
    """The upper side was infinite, after all the work that a question may take."""
    sigmas = np.linspace(1.0, widest, kinds)
    noise = mechc.load("discrete_gaussian")
    run = mechc.random_allocation([noise(sigma=sigma) for sigma in sigmas], epochs=3)
    losses = sampled_losses(sigmas, 3, 200_000, direction == "add")
    for epsilon in (0.1, 0.5):
        each = -np.expm1(np.minimum(epsilon - losses, 0.0))
        error = 5.0 * float(each.std()) / math.sqrt(each.size)
        bound = run.delta(epsilon, direction=direction)
        assert bound.lower - error <= float(each.mean()) <= bound.upper + error
        assert bound.upper - bound.lower < 0.05 * float(each.mean())
    assert run.epsilon(1e-6, direction=direction).upper < 3.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "rare", [1e-3, *(pytest.param(each, marks=pytest.mark.slow) for each in (1e-9, 1e-5))]
)
def test_epochs_of_many_kinds_with_a_rare_large_ratio_by_enumeration(rare):
    """Two epochs of nine steps of three outcomes each; large ratios of all kinds are pooled."""
    rng, kinds = np.random.default_rng(23), 9
    q = np.empty((kinds, 3))
    q[:, 2] = rare * rng.uniform(0.5, 2.0, kinds)
    q[:, 0] = rng.uniform(0.3, 0.7, kinds)
    q[:, 1] = 1.0 - q[:, 0] - q[:, 2]
    x = np.stack([rng.uniform(*ends, kinds) for ends in ((0.6, 1), (1, 1.4), (30, 200))], axis=1)
    x /= (x * q).sum(axis=1)[:, None]
    w, mass = np.zeros(1), np.ones(1)
    for ratios, masses in zip(x / kinds, q, strict=True):
        w, mass = np.add.outer(w, ratios).ravel(), np.outer(mass, masses).ravel()
    event = [mechc.from_pmfs(a * b / (a @ b), b / b.sum()) for a, b in zip(x, q, strict=True)]
    run = mechc.random_allocation(event, epochs=2)
    for direction in ("remove", "add"):
        p, other = (w * mass, mass) if direction == "remove" else (mass, w * mass)
        order = np.argsort(p / other)
        ratio, p, other = (each[order] for each in (p / other, p, other))
        above = [np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in (p, other)]
        for epsilon in (0.1, 1.0):
            i = np.searchsorted(ratio, math.exp(epsilon) / ratio, side="right")
            value = float(p @ above[0][i] - math.exp(epsilon) * (other @ above[1][i]))
            bound = run.delta(epsilon, direction=direction)
            assert bound.lower <= value * (1.0 + 1e-7) + 1e-13
            assert value * (1.0 - 1e-7) - 1e-13 <= bound.upper <= value * (1.0 + 5e-3) + 1e-8


@pytest.mark.slow
def test_epochs_of_many_kinds_without_a_grid_reveal_no_more_than_plain_ones():
    """Large ratios with a density beside integers: what told the step has bounds them."""
    sigmas = 0.6 + 0.2 * np.arange(10)
    noise = [mechc.load("discrete_gaussian")(sigma=0.8 + 0.05 * i) for i in range(10)]
    run = mechc.random_allocation([*noise, *(gaussian(sigma=s) for s in sigmas)], epochs=3)
    for direction in ("remove", "add"):
        bound = run.epsilon(1e-6, direction=direction)
        assert 0.0 < bound.lower <= bound.upper
        assert bound.upper <= (3 * gaussian(sigma=0.6)).epsilon(1e-6).upper


@pytest.mark.slow
def test_epochs_of_heavy_tails_reveal_no_more_than_plain_ones():
    """Of integers whose likelihood ratios fit on no grid: .99999 where two plain steps have .15."""
    n, a, b = integer("n"), positive("a"), positive("b")
    base = mechc.load(mechanism(
        "tails", variable=n, p=(1 - exp(-a)) * exp(-a * n), q=(1 - exp(-b)) * exp(-b * n),
        parameters=(a, b), lattice=True, support=(0, oo),
    ))(a=0.06, b=0.65)  # fmt: skip
    epoch = mechc.random_allocation(base, steps=2)
    for epsilon, direction in itertools.product((0.3, 3.0), ("remove", "add")):
        two = (2 * epoch).delta(epsilon, direction=direction)
        assert two.upper <= (2 * base).delta(epsilon, direction=direction).upper + 1e-3
        assert not two.lower > two.upper
        plain = mechc.poisson(base, 0.9).delta(epsilon, direction=direction)
        sampled = mechc.poisson(epoch, 0.9).delta(epsilon, direction=direction)
        assert sampled.upper <= plain.upper + 1e-3 and not sampled.lower > sampled.upper


def test_blocks_of_steps_that_are_not_alike():
    with pytest.raises(UnsupportedError, match="not alike"):
        mechc.random_allocation([gaussian(sigma=s) for s in (1.0, 2.0, 3.0)], selected=2)


def test_the_steps_of_an_epoch_have_no_default():
    epoch = mechc.random_allocation(gaussian)
    for forgotten in (epoch, lambda sigma: mechc.random_allocation(gaussian(sigma=sigma))):
        with pytest.raises(DeclarationError, match="steps of an epoch are missing"):
            forgotten(sigma=1.0)
    assert epoch(sigma=1.0, steps=10) == mechc.random_allocation(gaussian, steps=10)(sigma=1.0)


@pytest.mark.parametrize(
    "numbers",
    [
        {"steps": 0}, {"steps": 10**8}, {"steps": 2.5}, {"steps": [3, 4]}, {"steps": True},
        {"steps": 10, "selected": 11}, {"selected": 0}, {"selected": "two"}, {"epochs": 0},
    ],
)  # fmt: skip
def test_bad_numbers(numbers):
    with pytest.raises(DeclarationError, match="random_allocation"):
        mechc.random_allocation(gaussian, **numbers)


@pytest.mark.parametrize(
    "what",
    [
        lambda: mechc.random_allocation(mechc.without_replacement(gaussian, 0.1), steps=10)(
            sigma=1.0, sensitivity=2.0
        ),
        lambda: mechc.random_allocation(mechc.group(gaussian, 3), steps=10)(sigma=1.0),
        lambda: mechc.random_allocation(mechc.group(gaussian, 3), steps=10).claim,
        lambda: mechc.random_allocation(mechc.without_replacement(gaussian, 0.1), steps=10).claim,
        lambda: mechc.poisson(mechc.random_allocation(gaussian, steps=10), 0.1),
        lambda: mechc.random_allocation(3 * gaussian(sigma=1.0), steps=10),
        lambda: mechc.random_allocation(mechc.zcdp(0.1), steps=10),
    ],
)
def test_what_cannot_be_allocated(what):
    with pytest.raises(UnsupportedError) as caught:
        what()
    assert isinstance(caught.value, MechcError)


def test_open_parameters_leave_the_claim_as_it_is():
    made = mechc.random_allocation(gaussian, steps=10)
    assert made.claim == made(sigma=1.0).claim


@pytest.mark.parametrize("log_cap", [220.0, 290.0, 330.0])
def test_masses_of_the_largest_ratios(log_cap):
    q, p = Shares(gaussian(sigma=0.05).loss(), 10, log_cap=log_cap).above
    assert p == pytest.approx(norm.sf(log_cap, 200.0, 20.0), rel=2e-3)  # its end is smooth
    assert q <= math.exp(-log_cap + 1.0) * p


def test_errors_of_a_transform_widen_both_sides():
    contour = Contour(((Shares(gaussian(sigma=1.0).loss(), 50), 50),), 3.0, 12.0, 1e7)
    c, image = np.array([0.9, 1.1]), np.full(2, -40.0)
    lower, estimate, upper = contour.payoffs(c, image).T
    contour.k_error += 2.0
    wider = contour.payoffs(c, image).T
    assert (wider[0] <= lower - 1.999).all() and (wider[2] >= upper + 1.999).all()
    assert (wider[1] == estimate).all()


def test_errors_of_masses_at_infinity_are_in_the_mean():
    law = mechc.truncate(gaussian, -1.0, 1.0)(sigma=1.0).loss()
    mean, off = Shares(replace(law, mass_errors=(0.01, 0.0)), 20).mean
    assert mean == pytest.approx(1.0 - math.exp(law.log_infinite), rel=1e-12)
    assert off >= math.exp(law.log_infinite) * 0.01


@pytest.mark.parametrize(("steps", "selected", "epochs"), [(50, 4, 1), (15000, 2, 1), (9000, 1, 2)])
def test_errors_of_masses_at_infinity_of_listed_epochs(steps, selected, epochs):
    """A step that never has the outcome 0, which is as likely without a record as a double says."""
    q = math.floor((1.0 - 2.0 / steps) * 2.0**50) / 2.0**50
    bit = mechc.from_pmfs([0.0, 1.0], [q, 1.0 - q])
    event = mechc.random_allocation(bit, steps=steps, selected=selected, epochs=epochs)
    with mpmath.workdps(40):
        zero, one = mpmath.mpf(q), 1 - mpmath.mpf(q)
        few = sum(math.comb(steps, i) * one**i * zero ** (steps - i) for i in range(selected))
        value = mpmath.log(1 - (1 - few) ** epochs)
        for epsilon in (25.0, math.inf):
            bound = event.log_delta(epsilon, direction="add")
            assert bound.lower <= value <= bound.upper <= bound.lower + 1e-8


@pytest.mark.parametrize("steps", [6, 400])
def test_errors_of_masses_at_zero_are_as_many_as_steps(steps):
    """One bit of no mass under P with a mass under Q that is off by what the law says."""
    q, off = 1.0 - 0.2 / steps, 1e-4
    law, other = (
        PrivacyLoss.from_atoms([-math.log(1.0 - each)], [1.0], 0.0, each)
        for each in (q, q * math.exp(0.9 * off))
    )
    law = replace(law, mass_errors=(0.0, off))
    value = Epoch(other.reversed(), "add", steps).log_delta(0.5)[1]
    lower, _, upper, _ = Epoch(law.reversed(), "add", steps).log_delta(0.5)
    assert lower <= value <= upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_masses_that_may_have_small_losses_are_in_no_lower_bound(direction):
    law = PrivacyLoss.from_atoms([-math.log(3.0), math.log(3.0)], [0.25, 0.75])
    part = replace(law, early=(math.log(1e-3), math.log(1e-5)))
    if direction == "add":
        law, part = law.reversed(), part.reversed()
    value = Epoch(law, direction, 20).log_delta(0.1)[1]
    assert math.exp(Epoch(part, direction, 20).log_delta(0.1)[0]) <= math.exp(value) - 1e-3


def convolved(points, weights, steps):
    """All sums of so many terms by their values and masses, equal values together."""
    values, masses = np.zeros(1), np.ones(1)
    for _ in range(steps):
        values = np.add.outer(values, points).ravel()
        masses = np.multiply.outer(masses, weights).ravel()
        order = np.argsort(values[masses > 1e-24])
        values, masses = values[masses > 1e-24][order], masses[masses > 1e-24][order]
        first = np.append(True, np.diff(values) > 1e-12 * values[1:])
        masses = np.bincount(np.cumsum(first) - 1, masses)
        values = values[first]
    return values / steps, masses


@pytest.mark.parametrize(("sigma", "steps", "epsilon"), [(1.37, 5, 0.9), (0.61, 6, 1.9)])
def test_sums_of_point_masses_too_many_to_list(sigma, steps, epsilon):
    """Discrete Gaussian noise: more than twenty point masses matter."""
    k = np.arange(-40, 41)
    weights = np.exp(-0.5 * (k / sigma) ** 2)
    values, masses = convolved(np.exp((k - 0.5) / sigma**2), weights / weights.sum(), steps)
    c = math.exp(epsilon)
    truth = masses @ np.maximum(values - c, 0.0), masses @ np.maximum(1.0 - c * values, 0.0)
    event = mechc.random_allocation(mechc.load("discrete_gaussian"), steps=steps)(sigma=sigma)
    for bound, value in zip(both(event, epsilon), truth, strict=True):
        assert bound.lower * (1 - 1e-9) <= value <= bound.upper * (1 + 1e-9)
        assert bound.upper - bound.lower < 1e-6 * value


def test_many_steps_of_point_masses_far_out():
    """Next to a sum over a hundred thousand frequencies, where E exp(-sX) never fades."""
    k, steps, epsilon = np.arange(-12, 13), 200, 0.5
    weights = np.exp(-0.5 * (k / 1.6) ** 2)
    weights /= weights.sum()
    x, c = np.exp((k - 0.5) / 1.6**2) / steps, math.exp(-0.5)
    a, period = 250.0, 0.7
    n = np.arange(1, 100_001)
    phi, s = np.zeros(n.size, complex), a + 2j * math.pi / period * n
    for point, mass in zip(x, weights, strict=True):
        phi += mass * np.exp(-s * point)
    total = float((weights @ np.exp(-a * x)) ** steps * math.exp(a * c)) / a**2
    total += 2.0 * float((phi**steps * np.exp(s * c) / s**2).real.sum())
    event = mechc.random_allocation(mechc.load("discrete_gaussian"), steps=steps)(sigma=1.6)
    bound = event.delta(epsilon, direction="add")
    value = total / period * math.exp(epsilon)
    assert bound.lower * (1 - 1e-4) <= value <= bound.upper * (1 + 1e-4) and value < 1e-15
    assert bound.upper - bound.lower < 1e-5 * value


def test_two_steps_of_noise_that_vanishes_at_its_ends():
    """Raised cosines: likelihood ratios without end, and a mass that only P has."""
    half, c = 15.0, math.exp(0.9)
    z, weight = half * NODES, half * WEIGHTS
    density = (1.0 + np.cos(math.pi * z / half)) / (2.0 * half)
    moved = (1.0 + np.cos(math.pi * (z - 1.0) / half)) / (2.0 * half) * (z - 1.0 > -half)
    w = 0.5 * np.add.outer(moved / density, moved / density)
    mass = np.multiply.outer(density * weight, density * weight)
    event = mechc.random_allocation(mechc.load("raised_cosine"), steps=2)(halfwidth=half)
    alone = event.delta(math.inf, direction="remove").lower
    truth = alone + (mass * np.maximum(w - c, 0.0)).sum(), (mass * np.maximum(1 - c * w, 0.0)).sum()
    for bound, value in zip(both(event, 0.9), truth, strict=True):
        assert bound.lower * (1 - 2e-3) <= value <= bound.upper * (1 + 2e-3)
        assert bound.upper - bound.lower < 2e-3 * value


@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "epsilon", "value", "error", "most"),
    [
        (0.9, 100, 3, 1.0, 0.00514, 5e-5, 1.2), (1.0, 60, 6, 1.0, 0.10741, 2e-4, 1.2),
        (1.0, 60, 6, 3.0, 0.001184, 2e-5, 1.5),
    ],
)  # fmt: skip
def test_lower_sides_of_several_steps(sigma, steps, selected, epsilon, value, error, most):
    """Next to means over 10^6 draws, of sums of products and the standard error of the means."""
    run = mechc.random_allocation(gaussian, steps=steps, selected=selected)(sigma=sigma)
    bound = run.delta(epsilon, direction="remove")
    assert value - 3.0 * error < bound.lower < value + 4.0 * error < bound.upper < most * value


@pytest.mark.few(1)
@pytest.mark.parametrize("selected", [1, 2])
def test_rare_large_ratios_of_discrete_noise_by_enumeration(selected):
    """Ratios up to e^30 fit on no grid: the largest are told one by one, beside a sum."""
    sigma, steps = 0.7, 5
    k = np.arange(-7, 9)
    log_q = -0.5 * (k / sigma) ** 2
    q = np.exp(log_q) / np.exp(log_q).sum()
    chosen = np.array(list(itertools.combinations_with_replacement(range(k.size), steps)))
    ways = [math.factorial(steps) / math.prod(map(math.factorial, np.bincount(c)))
            for c in chosen.tolist()]  # fmt: skip
    mass = np.array(ways) * q[chosen].prod(axis=1)
    x = np.exp((k - 0.5) / sigma**2)[chosen]
    pairs = itertools.combinations(range(steps), selected)
    ratio = sum(x[:, list(pair)].prod(axis=1) for pair in pairs) / math.comb(steps, selected)
    event = mechc.load("discrete_gaussian")(sigma=sigma)
    between = Between([(Shares(event.loss("remove"), steps), steps)], selected)
    for adding in (False, True):
        low = between.below(adding)
        high = between.above(adding) if selected == 1 else None
        early = math.exp(low.log_early)
        for epsilon in (-1.0, 0.1, 1.0, 2.0):
            c = math.exp(epsilon)
            value = float(mass @ np.maximum(1.0 - c * ratio if adding else ratio - c, 0.0))
            lower = math.exp(low.hockey_stick_log(epsilon + low.loss_error)[0]) - early
            assert value * (1.0 - 1e-6) <= lower <= value * (1.0 + 1e-9)
            if high is not None:
                upper = math.exp(high.hockey_stick_log(epsilon - high.loss_error)[2])
                assert value * (1.0 - 1e-9) <= upper <= value * (1.0 + 1e-6)


@pytest.mark.parametrize("drawn", [1, 2])
def test_masses_that_no_cell_has_are_on_the_safe_side(drawn, monkeypatch):
    """Of a grid of two points, five steps: the mass may be in the first one, or in the last."""
    q, p, lost, steps = np.array([0.6, 0.395]), np.array([0.3, 0.69]), (0.01, 0.005), 5
    grid = grids.RatioGrid(
        0.5, 1.0, q, p, 0.0, -math.inf, 0.0, grids.Large(), tuple(map(math.log, lost))
    )
    monkeypatch.setattr(grids.RatioGrid, "of", lambda *_, **__: [grid])
    law = mechc.from_pmfs([0.3, 0.7], [0.6, 0.4]).loss("remove")
    told = Between([(Shares(law, steps), steps)], drawn).told(-1.0)
    for shares in itertools.product((0.0, 1.0), repeat=2):
        one, other = (
            mass + off * np.array([share, 1.0 - share])
            for mass, off, share in zip((p, q), lost, shares, strict=True)
        )
        under_q = binom.pmf(np.arange(steps + 1), steps, other[1])
        under_p = np.convolve(
            binom.pmf(np.arange(drawn + 1), drawn, one[1]),
            binom.pmf(np.arange(steps - drawn + 1), steps - drawn, other[1]),
        )
        for low, exact, high in (
            (told.low_q, under_q, told.high_q), (told.low_p, under_p, told.high_p),
        ):  # fmt: skip
            assert (np.exp(low) <= exact * (1 + 1e-12)).all()
            assert (exact <= np.exp(high) * (1 + 1e-12)).all()


@pytest.mark.parametrize("log_delta", [-50.0, -100.0, -300.0])
def test_deltas_below_what_the_law_of_few_steps_holds_end_at_the_largest_loss(log_delta):
    scale = 2.1702294559413478
    event = mechc.random_allocation(mechc.load("logistic"), steps=3)(scale=scale)
    found = event.epsilon(log_delta=log_delta, direction="remove")
    assert 0.9999 / scale < found.lower <= found.upper <= (1 + 1e-12) / scale
    assert event.log_delta(found.lower, direction="remove").upper >= log_delta


@pytest.mark.slow
def test_epochs_of_noise_whose_likelihood_ratio_has_a_least_value_do_not_warn():
    """Its density has a pole there: no contour resolves the law of an epoch, and none pretends."""
    event = mechc.random_allocation(mechc.load("balanced_gaussian"), steps=50)(sigma=2.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = (30 * event).epsilon(1e-6)
    poisson = mechc.poisson(mechc.load("balanced_gaussian"), 1 / 50)(sigma=2.2)
    assert 0.0 < found.lower <= found.upper
    assert found.upper == pytest.approx((1500 * poisson).epsilon(1e-6).estimate, rel=0.1)


def _times(one: list, other: list) -> list:
    """The product of two series, cut where they are."""
    return [sum(one[i] * other[k - i] for i in range(k + 1)) for k in range(len(one))]


@pytest.mark.few(0, 4, 5, 7)
@pytest.mark.parametrize("steps", [2, 5, 40, 1000])
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_renyi_divergences_of_epochs_are_moments_of_the_mean(name, steps):
    """E[W^a] of integer order by the multinomial theorem."""
    event = mechc.random_allocation(name, steps=steps)(
        **{"gaussian": {"sigma": 1.0}, "laplace": {"scale": 0.5}}[name]
    )
    moments = {  # E_Q[X^k]
        "gaussian": lambda k: mpmath.exp(k * (k - 1) / 2),
        "laplace": lambda k: (
            (k * mpmath.exp(2 * k - 2) + (k - 1) * mpmath.exp(-2 * k)) / (2 * k - 1)
        ),
    }
    with mpmath.workdps(40):
        for order in (2, 3, 6):
            series = [moments[name](mpmath.mpf(k)) / mpmath.factorial(k) for k in range(order + 1)]
            total = [mpmath.mpf(k == 0) for k in range(order + 1)]
            for bit in f"{steps:b}":
                total = _times(total, total)
                total = _times(total, series) if bit == "1" else total
            moment = total[order] * mpmath.factorial(order) / mpmath.mpf(steps) ** order
            exact = mpmath.log(moment) / (order - 1)
            for run, count in ((event, 1), (event * 7, 7)):
                bound = run.renyi(float(order), direction="remove")
                assert bound.lower <= count * exact <= bound.upper
                assert bound.upper - bound.lower < 1e-6 * bound.upper


@pytest.mark.slow
def test_divergences_of_an_epoch_grow_with_their_order_up_to_those_of_one_step():
    event, one = mechc.random_allocation("gaussian", steps=40)(sigma=1.0), mechc.load("gaussian")
    known = [(event * 3).renyi(order) for order in (0.5, 1.0, 1.1, 2.0, 64.0)]
    assert all(a.upper <= b.upper for a, b in itertools.pairwise(known))
    assert all(0.0 < b.lower <= b.upper for b in known)
    assert all(b.upper - b.lower < 0.01 * b.upper for b in known[:4])
    most = 3.0 * one(sigma=1.0).renyi(64.0).upper  # Jensen; here less the log of the steps
    assert known[-1].upper == pytest.approx(most - 3.0 * math.log(40))
    assert event.zcdp().upper == pytest.approx(0.5, rel=1e-12)  # the largest orders decide


@pytest.mark.parametrize("order", [4, 16])
def test_divergences_of_two_of_three_steps_of_gaussian_noise(order):
    """Lower sides of removing a record were 8.2 at order 16, where 14.9 is true."""
    run = mechc.random_allocation(gaussian(sigma=1.0), steps=3, selected=2)
    logs = []
    for a, b in itertools.combinations_with_replacement(range(order + 1), 2):
        i, j = a, b - a  # of the products x_1 x_2, x_1 x_3, and x_2 x_3 the rest
        k = order - i - j
        ways = math.lgamma(order + 1) - sum(math.lgamma(n + 1) for n in (i, j, k))
        logs.append(ways + 0.5 * sum(m * (m - 1) for m in (i + j, i + k, j + k)))
    value = (logsumexp(logs) - order * math.log(3.0)) / (order - 1.0)
    bound = run.renyi(order, direction="remove")
    assert bound.lower <= value <= bound.upper < bound.lower + math.log(3.0)
    if order == 4:  # of adding one, by quadrature around where it is
        z, weight = np.polynomial.hermite_e.hermegauss(80)
        x, mass = np.exp(z - 2.5), weight * np.exp(2.0 * z - 2.0) / math.sqrt(2.0 * math.pi)
        first, second, third = np.meshgrid(x, x, x)
        mean = (first * second + first * third + second * third) / 3.0
        value = math.log(np.einsum("ijk,i,j,k", mean**-3.0, mass, mass, mass)) / 3.0
        bound = run.renyi(4.0, direction="add")
        assert bound.lower <= value <= bound.upper < 1.2 * bound.lower


@pytest.mark.parametrize(("steps", "order", "off"), [
    (5, 16.0, 1e-8), pytest.param(33, 64.0, 1e-5, marks=pytest.mark.slow),
])  # fmt: skip
def test_high_orders_of_adding_a_record(steps, order, off):
    """By the integral for a negative power; the upper side was 18 where 1.2 is true."""
    log_s = np.linspace(-6.0, 40.0, 20_000)
    z = np.linspace(-40.0, 12.0, 3000)
    mass, x = norm.pdf(z) * (z[1] - z[0]), np.exp(z - 0.5) / steps
    log_phi = steps * np.log([np.exp(-s * x) @ mass for s in np.exp(log_s)])
    power = order - 1.0
    value = logsumexp(log_phi + power * log_s) + math.log(log_s[1] - log_s[0])
    value = (value - math.lgamma(power)) / power
    bound = mechc.random_allocation(gaussian(sigma=1.0), steps).renyi(order, direction="add")
    assert bound.lower - 1e-9 <= value <= bound.upper + 1e-9
    assert bound.upper - bound.lower < off


@pytest.mark.parametrize("order", [3.7, 20.0, 60.0])
def test_divergences_of_large_orders_are_between_those_of_sums_over_the_outcomes(order):
    """One bit, of which every outcome is known, in both directions; rare ones decide."""
    told, steps = 1.0 / (1.0 + math.exp(-4.0)), 60
    bit = mechc.from_pmfs([told, 1.0 - told], [1.0 - told, told])
    event = mechc.random_allocation(bit, steps=steps)
    j = np.arange(steps + 1.0)
    w = (j * math.exp(4.0) + (steps - j) * math.exp(-4.0)) / steps
    mass = binom.pmf(j, steps, 1.0 - told)
    law = bit.loss("remove")
    for direction, power in (("remove", order), ("add", 1.0 - order)):
        value = float(logsumexp(power * np.log(w), b=mass)) / (order - 1.0)
        bound = event.renyi(order, direction=direction)
        assert bound.lower * (1.0 - 1e-9) <= value <= bound.upper * (1.0 + 1e-9)
        if direction == "remove":
            lower, upper = of_epoch(law, steps, order, False)
            assert lower <= value <= upper < lower * (1.0 + (1e-9 if order == 20.0 else 0.2))
        else:
            lower, upper = of_epoch(law.reversed(), steps, order, True)
            assert lower <= value <= upper < lower * (1.0 + 1e-3)


@pytest.mark.few(2, 3)
@pytest.mark.parametrize("rate", [0.7, 0.05])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_divergences_of_sampled_epochs_of_integers_by_enumeration(rate, direction):
    """Of order 1 and more those of removing a record were answered by [0, inf]."""
    sigma, k = 1.3, np.arange(-20, 22)
    q = np.exp(-0.5 * (k / sigma) ** 2)
    w, mass = convolved(np.exp((k - 0.5) / sigma**2), q / q.sum(), 3)
    epoch = mechc.random_allocation(mechc.load("discrete_gaussian")(sigma=sigma), steps=3)
    v, t_log = 1.0 + rate * (w - 1.0), np.log1p(rate * (w - 1.0))
    for order, width in ((1.0, 1e-2), (1.2, 2e-2), (2.0, 1e-3), (2.6, 0.3), (3.0, 1e-3)):
        power = 1.0 - order if direction == "add" else order
        if order == 1.0:
            value = float(mass @ (-t_log if direction == "add" else v * t_log))
        else:  # less the mean, which is known
            less = float(mass @ (np.expm1(power * t_log) - power * (v - 1.0)))
            value = math.log1p(less) / (order - 1.0)
        for count in (1, 4):
            bound = (count * mechc.poisson(epoch, rate)).renyi(order, direction=direction)
            assert bound.lower * (1 - 1e-8) <= count * value <= bound.upper * (1 + 1e-8)
            assert bound.upper - bound.lower < width * bound.upper or (direction, order) == (
                "add",
                1,
            )
    most = mechc.poisson(epoch, rate).renyi(math.inf, direction=direction).upper
    assert most == (math.inf if direction == "remove" else pytest.approx(-math.log1p(-rate)))


@pytest.mark.few(0)
@pytest.mark.parametrize("selected", [1, 2])
def test_divergences_of_epochs_of_integers_by_enumeration(selected):
    """Sums of discrete Gaussian ratios are not listed: they are bounded by grids alone."""
    sigma, epochs, k = 1.3, 3, np.arange(-14, 16)
    q = np.exp(-0.5 * (k / sigma) ** 2)
    x, q = np.exp((k - 0.5) / sigma**2), q / q.sum()
    w, mass = x, q
    if selected == 1:
        w, mass = convolved(x, q, 3)
    else:  # two of three
        one, two, three = np.meshgrid(x, x, x)
        w = ((one * two + one * three + two * three) / 3.0).ravel()
        mass = np.multiply.outer(np.multiply.outer(q, q), q).ravel()
    run = mechc.random_allocation(
        mechc.load("discrete_gaussian"), steps=3, selected=selected, epochs=epochs
    )(sigma=sigma)
    assert run.epsilon(0.0).upper == math.inf
    assert selected > 1 or run.epsilon(0.0).lower == math.inf
    for order, add in itertools.product((0.5, 1.0, 1.4, 2.0, 3.3, 6.0), (False, True)):
        if order == 1.0:
            value = float(mass @ (np.log(w) * (-1.0 if add else w)))
        else:
            value = math.log(mass @ w ** (1.0 - order if add else order)) / (order - 1.0)
        bound = run.renyi(order, direction="add" if add else "remove")
        assert bound.lower * (1 - 1e-8) <= epochs * value <= bound.upper * (1 + 1e-8)
        narrow = 0.15 if selected > 1 else 0.12 if order in (1.4, 3.3) else 1e-3
        assert bound.upper - bound.lower < narrow * bound.upper


@pytest.mark.few(0)
@pytest.mark.parametrize(("scale", "epsilon"), [(0.15, 4.0), (0.2, 1.0), (0.14, 2.0)])
def test_likelihood_ratios_smaller_than_any_double(scale, epsilon):
    """Gumbel noise, two steps: under Q X is exp(1 / b - k z), z exponential, k = exp(1 / b) - 1."""
    k, top, total = math.expm1(1.0 / scale), math.exp(1.0 / scale), 2.0 * math.exp(epsilon)

    def call(level):  # of one X, of mean 1
        z = np.log(top / np.clip(level, 1e-300, top)) / k
        inside = -np.expm1(-(1.0 + k) * z) + level * np.expm1(-z)
        return np.where(level > 0.0, inside, 1.0 - level)

    cuts = np.unique([0.0, max(math.log(top / total), 0.0), 60.0])  # of k z, of the other X
    half = 0.5 * np.diff(cuts)[:, None]
    y = cuts[:-1, None] + half * (NODES + 1.0)
    others = call(total - top * np.exp(-y)) * np.exp(-y / k) / k * half * WEIGHTS
    value = 0.5 * (others.sum() + float(call(total)) * math.exp(-60.0 / k))
    bound = mechc.random_allocation(mechc.load("gumbel"), steps=2)(scale=scale).delta(
        epsilon, direction="remove"
    )
    assert bound.lower * (1 - 1e-9) <= value <= bound.upper * (1 + 1e-9)
    assert bound.upper - bound.lower < 1e-5 * value


@pytest.mark.few(1)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_integers_that_are_not_listed_may_take_part(direction):
    """Skellam noise, losses of all integers; lists end where it has a mass of exp(-157)."""
    k = np.arange(-140, 141)
    mass, x = ive(abs(k), 4.0), ive(abs(k - 1), 4.0) / ive(abs(k), 4.0)
    w, both_masses = 0.5 * np.add.outer(x, x), np.outer(mass, mass)
    c, sign = math.exp(3.2), 1.0 if direction == "remove" else -1.0
    gain = np.maximum(w - c, 0.0) if sign > 0.0 else np.maximum(1.0 - c * w, 0.0)
    value = math.log((both_masses * gain).sum())
    event = mechc.random_allocation(mechc.load("skellam"), steps=2)(rate=2.0)
    bound = event.log_delta(3.2, direction=direction)
    assert -250.0 < value - 1e-9 < bound.upper and bound.lower < value + 1e-9
    far = mechc.random_allocation(mechc.load("skellam"), steps=2)(rate=20.0)
    bound = far.log_delta(3.0, direction=direction)  # a call without an estimate: no warning
    assert bound.lower <= bound.upper < -30.0


@pytest.mark.parametrize("epochs", [1, 2])
def test_integers_that_are_not_listed_do_not_end_pure_privacy(epochs):
    """Noise with tails exp(-a |k|): all integers beyond 0 and 1 have the losses of these."""
    run = mechc.random_allocation(mechc.load("discrete_laplace")(a=1.0), steps=2, epochs=epochs)
    for bound in (run.epsilon(0.0), run.renyi(math.inf), run.epsilon(log_delta=-300.0)):
        assert epochs * (1 - 1e-5) <= bound.lower <= bound.upper <= epochs * (1 + 1e-12)
        assert bound.upper >= epochs * (1 - 1e-12)
    assert run.delta(math.inf).upper == 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize("epochs", [1, 3])
def test_divergences_of_an_epoch_are_no_smaller_than_of_a_step_less_the_log_of_steps(epochs):
    """At a large order integers decide that no list of point masses has."""
    step = mechc.load("discrete_gaussian")(sigma=1.0)
    run = mechc.random_allocation(step, steps=2, epochs=epochs)
    for order in (60.0, 200.0):
        least = step.renyi(order).lower - math.log(2.0)
        bound = run.renyi(order)
        assert epochs * least * (1 - 1e-12) <= bound.upper < epochs * (least + 1.0)
        assert bound.lower <= bound.upper


def test_epochs_of_steps_that_are_not_alike_and_may_be_impossible_without_a_record():
    """Two kinds of truncated noise, by sampling: X may be 0 in one step and not in another."""
    kinds, n, rng = ((1.0, 2.0), (2.0, 3.0)), 400_000, np.random.default_rng(3)
    noise = mechc.load("truncated_laplace")
    run = 2 * mechc.random_allocation([noise(scale=b, halfwidth=h) for b, h in kinds])

    def ratio(scale, halfwidth, moved):
        size = -scale * np.log1p(rng.random(n) * np.expm1(-halfwidth / scale))
        x = np.where(rng.random(n) < 0.5, -size, size) + moved
        inside = np.abs(x) <= halfwidth
        x_ratio = np.where(inside, np.exp((np.abs(x) - np.abs(x - 1.0)) / scale), np.inf)
        return np.where(np.abs(x - 1.0) <= halfwidth, x_ratio, 0.0)

    def epoch(record):
        chosen = rng.integers(0, 2, n)
        return sum(ratio(b, h, record * (chosen == i)) for i, (b, h) in enumerate(kinds)) / 2.0

    with np.errstate(divide="ignore"):
        losses = {"remove": np.log(epoch(1) * epoch(1)), "add": -np.log(epoch(0) * epoch(0))}
    for direction, loss in losses.items():
        gains = np.maximum(-np.expm1(np.minimum(0.3 - loss, 0.0)), 0.0)
        bound = run.delta(0.3, direction=direction)
        assert bound.upper - bound.lower < 1e-9
        assert abs(bound.upper - gains.mean()) < 5.0 * gains.std() / n**0.5


def test_one_step_bounds_an_epoch_by_all_that_its_losses_may_be_off():
    """The law of one step is an epoch; of losses that are d more or less delta is known."""
    mass, d = 1.0 / (1.0 + math.exp(-1.0)), 1e-3
    law = PrivacyLoss.from_log_atoms(
        np.array([-1.0, 1.0]), np.log([1.0 - mass, mass]), -math.inf, -math.inf, loss_error=d
    )
    for direction in ("remove", "add"):
        lower, _, upper, _ = Epoch(law, direction, 1).log_delta(0.5)
        least, most = (math.log(mass * -math.expm1(0.5 - 1.0 - off)) for off in (-d, d))
        assert lower <= least < most <= upper


@pytest.mark.few(0)
@pytest.mark.parametrize(("size", "steps", "direction", "epsilon"), [
    (1.0, 60, "remove", 0.97), (0.1, 3000, "add", 0.09)])  # fmt: skip
def test_losses_that_are_off_move_the_mean(monkeypatch, size, steps, direction, epsilon):
    """One bit whose losses are not quite those of its law, by contours."""
    monkeypatch.setattr(grids, "LISTED", 1)
    off = 1e-6
    told = 1.0 / (1.0 + math.exp(-size))
    law = PrivacyLoss.from_log_atoms(
        np.array([-size, size]), np.log([1.0 - told, told]), -math.inf, -math.inf, loss_error=off
    )
    law = law.reversed() if direction == "add" else law
    lower, _, upper, _ = Epoch(law, direction, steps).log_delta(epsilon)
    for true in (size - 0.999 * off, size + 0.999 * off):
        deep = -epsilon if direction == "add" else epsilon
        with mpmath.workdps(40):
            a, c = mpmath.exp(true), mpmath.exp(deep)
            ws = [(j * a + (steps - j) / a) / steps for j in range(steps + 1)]
            mass = [mpmath.binomial(steps, j) * a ** (steps - j) for j in range(steps + 1)]
            sign = -1 if direction == "add" else 1
            value = sum(m * max(sign * (w - c), 0) for w, m in zip(ws, mass, strict=True))
            value /= (1 + a) ** steps * (c if direction == "add" else 1)
            assert lower <= mpmath.log(value) <= upper


def test_epochs_bounded_by_one_step_are_a_function_of_the_question():
    """Laws of one step grow for a question, not for the next."""
    run = 3 * mechc.random_allocation(mechc.load("raised_cosine")(halfwidth=0.5226), steps=5)
    first = run.log_delta(1.048, direction="remove")
    assert run.log_delta(1.048, direction="remove") == first
    assert pickle.loads(pickle.dumps(run)).log_delta(1.048, direction="remove") == first


@pytest.mark.parametrize("epsilon", [710.0, 1e5])
def test_epsilons_whose_exponential_overflows(epsilon):
    """Beyond the largest finite loss delta is what reveals everything."""
    one = mechc.from_pmfs([0.25, 0.75], [0.5, 0.5])
    assert mechc.random_allocation(one, steps=4).delta(epsilon).upper == 0.0
    both = mechc.from_pmfs([0.25, 0.75, 0.0], [0.5, 0.25, 0.25])
    found = mechc.random_allocation(both, steps=2).delta(epsilon, direction="add")
    assert found.lower <= 0.0625 <= found.upper < 0.0626


@pytest.mark.parametrize(("sigma", "exponent"), [(0.2, 12.0), (0.2, 44.0), (0.1, 20.0), (1.0, 3.0)])
def test_bounds_on_a_transform_are_above_it(sigma, exponent):
    """By nodes that do not resolve it they were up to 7e-3 below, at sigma = .2 and s = e^44."""
    law = mechc.load("gaussian")(sigma=sigma, sensitivity=1.0).loss("remove")
    size, log_phi = puts_and_calls.Term(((Shares(law, 2), 2),)).above(1)
    for at in np.searchsorted(np.log(size), exponent) + np.arange(3):
        turn = (0.5 / sigma - sigma * math.log(size[at] / 2.0), sigma)  # where sX/t is 1, and e

        def density(z, s=size[at]):
            x = mpmath.exp(z / sigma - 0.5 / sigma**2)
            return mpmath.npdf(z) * mpmath.exp(-s * x / 2)

        places = [turn[0] + k * turn[1] for k in (-30, -8, -3, -1, 0, 1, 2, 3, 4, 5)]
        exact = 2 * mpmath.log(mpmath.quad(density, sorted([-38, -19, -6, -2, *places])))
        assert exact <= log_phi[at] <= exact * (1 - 1e-3)


@pytest.mark.few(0, 1)
@pytest.mark.parametrize("work", np.geomspace(3e4, 3e5, 8))
def test_divergences_of_epochs_take_no_more_work_the_first_time(work):
    """Moments that were kept made the second of two equal questions cheaper than the first."""
    event = mechc.random_allocation("gaussian", 20, epochs=3)(sigma=1.25 + 1e-9 * work)

    def asked(max_work):
        try:
            return str(event.renyi(60.5, direction="remove", max_work=max_work))
        except UnsupportedError as refusal:
            return str(refusal)

    assert asked(work) == [asked(max_work) for max_work in (1e9, work)][1]


@pytest.mark.few(0)
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("wider", [4.5e-4, 4.6e-4])
def test_steps_that_are_nearly_alike_are_no_better_than_more_noise_in_all(wider, epochs):
    # Laplace noise of a larger scale is that of a smaller one with noise added; ranges of
    # likelihood ratios that are no whole number of cells apart were stretched to be
    a, b = laplace(scale=1.0), laplace(scale=1.0 + wider)
    mixed, noisier = (
        epochs * mechc.random_allocation([a] * n + [b] * (40 - n), steps=40) for n in (5, 0)
    )
    for direction, epsilon in itertools.product(("remove", "add"), (0.02, 0.1)):
        least = noisier.delta(epsilon, direction=direction).lower
        assert mixed.delta(epsilon, direction=direction).upper >= least


def test_rare_large_ratios_beside_ratios_of_one_value_each():
    # the number of large ones of either kind is all that an epoch reveals
    each, n, rare = [(1e-6, 1e-9), (2e-6, 1e-9)], 30, range(5)
    pairs = [mechc.from_pmfs([1 - u, u], [1 - v, v]) for u, v in each]
    epoch = mechc.random_allocation([pairs[0]] * n + [pairs[1]] * n, steps=2 * n)
    w, q = [], []
    for many in itertools.product(rare, rare):
        sums = (
            m * u / v + (n - m) * (1 - u) / (1 - v) for m, (u, v) in zip(many, each, strict=True)
        )
        w.append(math.fsum(sums) / (2 * n))
        q.append(math.prod(binom.pmf(m, n, v) for m, (_, v) in zip(many, each)))  # noqa: B905
    w, q = np.array(w), np.array(q)
    for epsilon in (0.0, 1e-5, 0.1):
        remove, add = both(epoch, epsilon)
        for bound, ratio, mass in ((remove, w, q), (add, 1 / w, w * q)):
            exact = math.fsum(mass * np.maximum(ratio - math.exp(epsilon), 0.0))
            assert bound.lower <= exact * (1 + 1e-9) + 1e-16
            assert bound.upper >= exact * (1 - 1e-9) - 1e-16
            assert bound.upper - bound.lower <= 1e-10


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_what_is_exactly_nothing_leans_on_no_density(direction):
    """Beyond the largest loss of Laplace noise; it said that a density had an estimated error."""
    bound = mechc.random_allocation(laplace(scale=1.0), 5).delta(1.5, direction=direction)
    assert bound.lower == bound.upper == 0.0 and bound.status == "proven"


def test_bounds_that_contradict_each_other_are_no_answer(monkeypatch):
    """The smaller one was taken for both sides."""
    event = mechc.random_allocation(gaussian(sigma=1.1), 50)
    put_of = Ratio.put
    monkeypatch.setattr(Ratio, "put", lambda *each: put_of(*each) - 4.0)
    with pytest.raises(InternalError, match="log delta is at least"):
        event.delta(-0.5, direction="add")  # of which 1 - e^-.5 is left for any mechanism
