"""Masses of integer noise carry the rounding of the factorials they are made of."""

import math

import mpmath
import numpy as np
import pytest
import questions
from sympy import Piecewise, Rational, exp, gamma
from sympy import binomial as ways

import mechc
from mechc.declare import count, integer, mechanism, positive, rate, real
from mechc.loss import atoms
from mechc.loss.atoms import LossesFrom
from mechc.loss.privacy_loss import PrivacyLoss

N = integer("n")


@pytest.mark.few(3, 5)
@pytest.mark.parametrize("trials", [20, 200, 2000])
@pytest.mark.parametrize("steps", [1, 2])
def test_binomial_noise_is_inside_however_many_trials(trials, steps):
    move, epsilon = 3, mpmath.mpf("0.3")
    with mpmath.workdps(40):
        mass = [mpmath.binomial(trials, k) / mpmath.mpf(2) ** trials for k in range(trials + 1)]
        weights = {}  # of losses, as ratios of masses
        for x in range(move, trials + 1):
            ratio = mass[x - move] / mass[x]
            weights[ratio] = weights.get(ratio, 0) + mass[x - move]
        lost = sum(mass[trials + 1 - move :])
        a = mpmath.exp(epsilon)
        if steps == 1:
            truth = lost + sum(w * max(0, 1 - a / r) for r, w in weights.items())
        elif trials > 200:
            pytest.skip("a million pairs")
        else:
            pairs = ((r * s, v * w) for r, v in weights.items() for s, w in weights.items())
            truth = 1 - (1 - lost) ** 2 + sum(w * max(0, 1 - a / r) for r, w in pairs)
        event = mechc.load("binomial")(trials=trials, sensitivity=move)
        found = (steps * event).delta(float(epsilon), direction="remove")
        assert mpmath.mpf(found.lower) <= truth <= mpmath.mpf(found.upper)
        assert found.estimate == pytest.approx(float(truth), rel=1e-11)


def test_integers_between_parameters_whose_loss_turns():
    """A beta-binomial beside a binomial law: U-shaped loss, all of whose integers are listed."""
    trials, a, b, share = count("trials"), positive("a"), positive("b"), rate("share")
    drawn = gamma(N + a) * gamma(trials - N + b) * gamma(a + b)
    drawn /= gamma(trials + a + b) * gamma(a) * gamma(b)
    fixed = share**N * (1 - share) ** (trials - N)
    declared = mechanism(
        "shares_of_trials", variable=N, p=ways(trials, N) * drawn, q=ways(trials, N) * fixed,
        parameters=(trials, a, b, share), support=(0, trials), lattice=True,
    )  # fmt: skip
    at = {"trials": 40, "a": 0.75, "b": 1.0, "share": 0.375}
    event = mechc.load(declared)(**at)
    with mpmath.workdps(40):
        u, v = mpmath.mpf(at["a"]), mpmath.mpf(at["b"])
        p = [mpmath.binomial(40, k) * mpmath.beta(k + u, 40 - k + v) for k in range(41)]
        p = [mass / mpmath.beta(u, v) for mass in p]
        log_q = [k * mpmath.log(0.375) + (40 - k) * mpmath.log(0.625) for k in range(41)]
        q = [mpmath.binomial(40, k) * mpmath.exp(log) for k, log in enumerate(log_q)]
        largest = mpmath.log(p[40] / q[40])
        epsilon = mpmath.log((p[40] - mpmath.mpf("1e-6")) / q[40])  # where only that is above
        found = event.epsilon(1e-6, direction="remove")
        assert found.lower <= epsilon <= found.upper <= found.lower * (1 + 1e-12)
        beyond = event.delta(float(largest) + 0.01, direction="remove")
        assert beyond.upper == 0.0
        two = (2 * event).delta(float(2 * largest - 1), direction="remove")
        pairs = ((v, w) for v in zip(p, q, strict=True) for w in zip(p, q, strict=True))
        scale = mpmath.exp(mpmath.mpf(float(2 * largest - 1)))
        truth = sum(max(0, v[0] * w[0] - scale * v[1] * w[1]) for v, w in pairs)
        assert two.lower <= truth <= two.upper <= two.lower * (1 + 1e-9)


def test_masses_that_miss_one_widen_the_answer():
    q = 0.25
    exact = PrivacyLoss.from_atoms([0.0], [1.0])
    rough = PrivacyLoss.from_atoms([0.0], [1.0 - 1e-11])
    assert exact.tolerance == 0.0
    assert rough.tolerance >= 1e-11
    assert rough.tolerance <= rough.reversed().tolerance <= rough.tolerance + 1e-15
    lower, _, upper = rough.hockey_stick_log(-q)
    assert upper - lower >= 1e-11


def test_small_losses_on_a_lattice_are_differences_of_logs():
    """Masses of 1e-4 and losses of 1e-7, rounded as logs: the loss has lost eight digits."""
    rng = np.random.default_rng(3)
    p = rng.random(9000) + 0.5
    p /= p.sum()
    change = 1e-7 * rng.standard_normal(p.size)
    log_p = np.log(p)
    loss = log_p - (log_p - np.log1p(change))
    truth = float(p @ np.maximum(-np.expm1(-np.log1p(change)), 0.0))
    terms, noise = atoms.log_hockey_stick(loss, log_p, 0.0, 0.0, LossesFrom.FORMULA, 1.0)
    value, error = float(np.exp(terms).sum()), float(np.exp(noise).sum())
    assert 1e-12 * truth < abs(value - truth) <= error < 2e-7 * truth


def test_a_complement_is_off_by_what_the_other_masses_are():
    """The mass beside one near 1 is a difference that has lost twelve digits."""
    a, b = positive("a", typical=(2, 3)), positive("b", typical=(1, 1.5))
    c = positive("c", typical=(0.1, 0.9))
    ratio = 1 + exp(a - b) - c
    pair = mechanism("nearly", outcomes=[(1 / ratio, 1), (1 - 1 / ratio, 0)], parameters=(a, b, c))
    at = {"a": 1.1, "b": 1.3, "c": float(np.exp(-0.2)) - 1e-12}
    event = mechc.load(pair)(**at)
    with mpmath.workdps(40):
        exact = 1 + mpmath.exp(mpmath.mpf(1.1) - mpmath.mpf(1.3)) - at["c"]
        for epsilon in (0.99e-12, 0.9999e-12):
            truth = 1 - mpmath.exp(epsilon) / exact
            found = event.delta(epsilon, direction="add")
            assert found.lower <= truth <= found.upper
        assert event.epsilon(0.0, direction="add").lower <= mpmath.log(exact)


@pytest.mark.parametrize("rate", [0.999999999688816, 0.5, 0.3])
@pytest.mark.parametrize("tau", [8.61899643747691, 6.2])
def test_a_mass_near_one_beside_a_region_that_reveals(tau, rate):
    """The complement of the atom lies beyond the threshold, where no atom is."""
    s, d = 0.643254560530377, 0.5
    event = questions.load("unseen_key", "poisson")(s=s, tau=tau, d=d, sampling_rate=rate)
    with mpmath.workdps(60):
        beyond = mpmath.erfc((mpmath.mpf(tau) - d) / mpmath.mpf(s) / mpmath.sqrt(2)) / 2
        loss = float(-mpmath.log(1 - mpmath.mpf(rate) * beyond))
    (found,) = event.loss("add").atom_loss.tolist()
    assert found == pytest.approx(loss, rel=1e-12, abs=0.0)
    assert math.exp(event.log_delta(0.0, direction="remove").upper) == pytest.approx(
        loss, rel=1e-12
    )


@pytest.mark.parametrize(("n", "k"), [(10**6, 1), (10**8, 2)])
def test_the_log_of_few_choices_among_many_is_a_difference_of_large_logs(n, k):
    """The mass of one was taken to have all digits: epsilon was 1e-9 too small."""
    size, some = count("n", typical=(10, 1000)), count("k", typical=(1, 3))
    one = 1 / ways(size + some, some)
    pair = mechanism("choice", outcomes=[(one, Rational(1, 2)), (1 - one, Rational(1, 2))],
                     parameters=(size, some))  # fmt: skip
    event = mechc.load(pair)(n=n, k=k)
    with mpmath.workdps(40):
        mass = 1 / mpmath.binomial(n + k, k)
        found = event.epsilon(0.0, direction="add")
        assert found.lower <= -mpmath.log(2 * mass) <= found.upper
        for epsilon in (0.3, 5.0, 11.0):
            truth = mpmath.mpf(0.5) - mpmath.exp(epsilon) * mass
            bound = event.delta(epsilon, direction="add")
            assert bound.lower <= truth <= bound.upper <= bound.lower * (1 + 1e-4)


@pytest.mark.few(1, 2, 4, 5)
@pytest.mark.parametrize("gap", [1e-6, 1e-9, 1e-13])
@pytest.mark.parametrize("beside", ["atom", "slope"])
def test_a_region_that_reveals_has_lost_the_digits_of_its_weight(beside, gap):
    """Its mass was taken to have all of them, closed and by quadrature alike."""
    x, a, b = real("x"), positive("a", typical=(2, 3)), positive("b", typical=(1, 1.5))
    c = positive("c", typical=(0.1, 0.9))
    ratio = 1 + exp(a - b) - c
    weight = 1 - 1 / ratio
    shared = 0 if beside == "atom" else 2 * x
    p = Piecewise((weight, x > 1), (shared / ratio, True))
    pair = mechanism(
        f"told_beside_{beside}", variable=x, p=p, q=Piecewise((0, x > 1), (shared, True)),
        atoms=[(0, 1 - weight, 1)] if beside == "atom" else [], parameters=(a, b, c),
        support=(0, 2),
    )  # fmt: skip
    at = {"a": 1.1, "b": 1.3, "c": float(np.exp(-0.2)) - gap}
    event = mechc.load(pair)(**at)
    with mpmath.workdps(40):
        kept = 1 / (1 + mpmath.exp(mpmath.mpf(1.1) - mpmath.mpf(1.3)) - mpmath.mpf(at["c"]))
        for steps in (1, 3):
            truth = 1 - kept**steps
            found = (steps * event).delta(0.0, direction="remove")
            assert found.lower <= truth <= found.upper
            assert beside == "slope" or found.upper <= truth * (1 + 1e-14 / gap)
            found = (steps * event).delta(0.5 * float(truth), direction="add")
            truth = 1 - mpmath.exp(0.5 * float(truth)) * kept**steps
            assert found.lower <= truth <= found.upper
