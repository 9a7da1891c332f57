"""PrivacyLoss: atoms and their errors, lattices, cumulants, reversal."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import mechc
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss import moments
from mechc.loss.atoms import find_lattice, merge
from mechc.loss.infinite_mass import LogMass, composed
from mechc.loss.privacy_loss import PrivacyLoss, Step

pairs = pytest.importorskip("pairs")
integrals = pytest.importorskip("integrals")
truth = pytest.importorskip("truth")


@pytest.mark.parametrize(
    ("losses", "masses", "infinite", "word"),
    [
        ([0.1, math.inf], [0.5, 0.5], 0.0, "finite"),
        ([0.1], [0.5, 0.5], 0.0, "one per mass"),
        ([0.1, -0.1], [-0.5, 1.5], 0.0, "non-negative"),
        ([0.1, -0.1], [0.5, 0.4], 0.0, "sum"),
        ([1.0, 0.5], [0.5, 0.5], 0.0, "under Q"),
        ([0.0], [math.nan], 0.0, "sum"),
    ],
)
def test_atoms_that_are_no_law(losses, masses, infinite, word):
    with pytest.raises(DeclarationError, match=word):
        PrivacyLoss.from_atoms(losses, masses, infinite)


def test_equal_losses_are_merged():
    loss, (log_mass,) = merge(np.array([1.0, -1.0, 1.0]), np.log([0.25, 0.5, 0.25]))
    assert loss.tolist() == [-1.0, 1.0]
    assert np.exp(log_mass) == pytest.approx([0.5, 0.5], rel=1e-15)


@pytest.mark.parametrize("step", [1e-9, 0.1, 3.7, 1e5])
def test_lattice_is_found(step):
    found = find_lattice(step * np.array([-7.0, -3.0, 1.0, 4.0, 100.0]) + 0.3 * step)
    assert found is not None
    assert found[1] == pytest.approx(step, rel=1e-12)


@pytest.mark.parametrize("shift", [1e-9, 1e-6, 1e-3, 0.1 * math.sqrt(2)])
def test_near_lattice_is_not_a_lattice(shift):
    losses = np.array([-0.5, -0.25, 0.0, 0.25 + shift, 0.5])
    found = find_lattice(losses)
    if found is not None:  # then every loss really is on it
        place = (losses - found[0]) / found[1]
        assert np.abs(place - np.round(place)).max() * found[1] < 1e-13
        assert found[1] <= 1.01 * shift


LAWS = [
    ("gaussian", (0.9,), 1.0), ("gaussian", (2.0,), 0.03), ("student_t", (2.5, 1.0), 1.0),
    ("logistic", (2.0,), 0.2), ("gumbel", (3.0,), 1.0), ("subbotin", (1.5, 2.0), 1.0),
]  # fmt: skip


@pytest.mark.few(0, 3, 6, 8, 13, 17)
@pytest.mark.parametrize("tilt", [0.4, 3.0, 21.0])
@pytest.mark.parametrize(("name", "theta", "rate"), LAWS)
def test_generating_function_and_its_derivatives(name, theta, rate, tilt):
    mechanism = mechc.load(name)
    names = [p.name for p in mechanism.parameters if p.name != "sensitivity"]
    how = dict(zip(names, theta, strict=True))
    pair = pairs.PAIRS[name](*theta)
    if rate < 1.0:
        mechanism, pair = mechc.poisson(mechanism), pair.sampled(rate)
        how["sampling_rate"] = rate
    law = mechanism(**how).loss()
    if tilt >= 0.9 * law.strip[1]:
        pytest.skip("outside the strip")
    table = integrals.nodes(pair, tilt)
    total = sum((w for w, _ in table), truth.ball(0))
    mean = sum((w * v for w, v in table), truth.ball(0)) / total
    central = [sum((w * (v - mean) ** r for w, v in table), truth.ball(0)) / total for r in (2, 3)]
    fourth = sum((w * (v - mean) ** 4 for w, v in table), truth.ball(0)) / total
    exact = [total.log(), mean, *central, fourth - 3 * central[0] ** 2]
    got = law.cumulants(tilt, 4)
    for r, (a, b) in enumerate(zip(got, map(float, exact), strict=True)):
        # a fourth cumulant is a difference of moments
        allowed = 1e-12 * abs(b) + (1e-11 * float(fourth) if r == 4 else 0.0)
        allowed += 1e-13 * float(central[0]) ** (r / 2)
        assert abs(a - b) <= allowed, (r, a, b)
    third = sum((w * abs(v - mean) ** 3 for w, v in table), truth.ball(0)) / total
    assert law.log_abs_central_moment3(tilt) == pytest.approx(float(third.log()), abs=2e-4)


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_reversal_mirrors_the_generating_function(rate):
    """I3: K of the reversed pair at t is K at -1 - t."""
    mechanism = mechc.load("gumbel")
    event = mechanism(scale=2.0) if rate == 1 else mechc.poisson(mechanism)(
        scale=2.0, sampling_rate=rate
    )  # fmt: skip
    forward, backward = event.loss("remove"), event.loss("add")
    for t in (-0.7, 0.3, 0.9):
        assert backward.log_mgf(t) == pytest.approx(forward.log_mgf(-1.0 - t), abs=1e-14)
    again = backward.reversed()
    assert again.support == forward.support
    assert again.log_mgf(0.5) == pytest.approx(forward.log_mgf(0.5), rel=1e-13)


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.1])
def test_profile_of_the_reversal(epsilon):
    """I3: delta_rev(eps) = 1 - e^eps + e^eps delta(-eps)."""
    law = mechc.load("gumbel")(scale=0.8).loss()
    forward = math.exp(law.hockey_stick_log(-epsilon)[1])
    backward = math.exp(law.reversed().hockey_stick_log(epsilon)[1])
    assert backward == pytest.approx(
        -math.expm1(epsilon) + math.exp(epsilon) * forward, rel=1e-9, abs=1e-14
    )


def test_covering_refuses_tilts_outside_the_strip():
    """N(0, 1) against N(0, 0.8^2): K is finite up to t = 0.64 / 0.36 only."""
    law = mechc.load("gaussian_scale")(sp=1.0, sq=0.8).loss()
    assert law.strip[1] == pytest.approx(0.64 / 0.36, rel=1e-12)
    law.covering(-1.0, 1.5)
    for ask in (lambda: law.covering(-1.0, 1.9), lambda: law.log_mgf(1.9)):
        with pytest.raises(UnsupportedError, match="outside the strip"):
            ask()


def test_mass_at_infinity_of_a_composition():
    law = PrivacyLoss.from_atoms([0.0], [1.0 - 1e-12], 1e-12, 1e-12)
    assert composed([Step(law, 10**6)]).log == pytest.approx(math.log(1e-6), abs=1e-6)
    assert composed([]).log == -math.inf


@pytest.mark.slow
def test_a_lattice_that_cannot_be_widened_does_not_pretend():
    law = mechc.load("skellam")(rate=2.0).loss("remove")
    before = law.generating(1.0)
    with pytest.raises(NumericError, match="lattice points"):
        law.covering(-1.0, 1e13)
    assert law.covering(-1.0, 30.0).tilts[1] < 1e13
    assert law.generating(1.0) == pytest.approx(before, rel=1e-12)


def test_sums_of_millions_of_atoms_keep_their_digits():
    """One after the other, logs of partial sums lose 1e-11; the interval has to hold the truth."""
    loss = np.linspace(0.5, 3.0, 2_000_001)
    mass = np.full(loss.size, 0.5 / loss.size)
    bottom = math.log((1 - 0.5) / (1 - (mass * np.exp(-loss)).sum()))
    law = PrivacyLoss.from_atoms(np.append(loss, bottom), np.append(mass, 0.5))
    truth = math.fsum((mass * -np.expm1(0.25 - loss)).tolist())
    lower, _, upper = np.exp(law.hockey_stick_log(0.25))
    assert lower <= truth <= upper and upper / lower - 1 < 1e-12


def test_generating_function_where_far_losses_would_overflow():
    """M(60) of a sampled Gaussian is a binomial sum; exponentials of the far nodes exceed 600.

    K = 5e-4 there, and 4e4 steps multiply its error.
    """
    rate, sigma, t = 0.00105857, 2.1416, 60
    law = mechc.poisson(mechc.load("gaussian"))(sampling_rate=rate, sigma=sigma).loss()
    law = law.covering(-1.0, 90.0)
    assert float((t * law.loss[law.log_weight > -700.0]).max()) > 600.0
    k, mean, _, rounding = law.generating(t)
    with mpmath.workdps(40):
        q, s = mpmath.mpf(rate), mpmath.mpf(sigma)

        def chosen(j):
            return mpmath.binomial(t + 1, j) * (1 - q) ** (t + 1 - j) * q**j

        terms = [chosen(j) * mpmath.exp(j * (j - 1) / (2 * s**2)) for j in range(t + 2)]
        exact = float(mpmath.log(mpmath.fsum(terms)))
    assert abs(k - exact) <= rounding + law.tolerance * abs(exact) < 1e-16
    h = 1e-4
    slope = (law.generating(t + h)[0] - law.generating(t - h)[0]) / (2 * h)
    assert mean == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("tilt", [0.99, 30.0, -0.5, -1.0])
def test_an_outcome_of_no_mass_has_no_rounding(tilt):
    """Two outcomes, by closed form, beside one whose log of mass is nearly the lowest double."""
    p, q = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    loss, log_p = np.log(p / q), np.log(p)
    exact = math.log(float((p * np.exp(tilt * loss)).sum()))
    for far in (-1e300, -1.7e308):
        nodes = np.append(loss, 0.3), np.append(log_p, far)
        each = moments.GeneratingFunction(np.array([0, 3]), *nodes, [(0.0, 0.0)])
        found = each.at(np.array([tilt]))[:, 0, 0]
        assert abs(found[0] - exact) <= found[3] + 1e-15 and found[3] < 1e-13


@pytest.mark.few(2, 3)
@pytest.mark.parametrize("sigma, move", [(1.77, 0.0136), (1.77, 1.1e-3), (1.0, 1e-4), (1.77, 1e-6)])
def test_losses_whose_terms_cancel_in_first_order_have_an_error(sigma, move):
    """Up or down by d with equal chances: L = log cosh(d x / s^2) - d^2 / 2 s^2, of order d^2.

    K itself, of order d^4, against E_Q[exp((t + 1) L) - 1 - (t + 1) (exp(L) - 1)] in 40 digits.
    """
    law = mechc.load("balanced_gaussian")(sigma=sigma, sensitivity=move).loss("remove")
    with mp.workdps(40):
        s, d = mpf(sigma), mpf(move)
        for t in (1.0, 100.0):
            law = law.covering(-1.0, t)
            k, _, _, rounding = law.generating(t)

            def deviation(x, t=t):
                loss = mp.log(mp.cosh(d * x / s**2)) - d * d / (2 * s * s)
                return mp.npdf(x, 0, s) * (mp.expm1((t + 1) * loss) - (t + 1) * mp.expm1(loss))

            places = [-20 * s, -8 * s, -3 * s, 0, 3 * s, 8 * s, 20 * s]
            exact = mp.log1p(mp.quad(deviation, places))
            assert abs(k - exact) <= rounding + law.tolerance < 1e-8 * exact


def test_a_mass_of_any_loss_may_be_below_a_threshold():
    """Bounds on laws count as infinite what they do not know; it reveals nothing, perhaps."""
    early = math.log(0.1)
    rest = math.log1p(-0.9 * math.exp(-1.0))
    law = PrivacyLoss.from_log_atoms(
        np.ones(1), np.log([0.9]), early, rest, early=(early, -math.inf)
    )
    assert law.log_below(0.0) >= early


def test_losses_that_may_be_off_may_be_below_a_threshold():
    loss, mass = np.array([-1.0, 1.001]), np.array([0.2, 0.8])
    rest = math.log1p(-float(mass @ np.exp(-loss)))
    law = PrivacyLoss.from_log_atoms(loss, np.log(mass), -math.inf, rest, loss_error=0.01)
    assert law.log_below(1.0) == 0.0 > math.log(0.21) > law.log_below(0.9)


def test_errors_of_masses_at_infinity_count_above_a_threshold():
    law = mechc.load("discrete_gaussian")(sigma=0.5).loss()
    for log, error in ((-30.0, 0.0), (-30.0, 2.0)):
        law.source.infinite = LogMass(log, error), LogMass()
        assert law.log_above(1e3) >= log + error
