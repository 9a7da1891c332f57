"""Reductions to simpler mechanisms, against sums and integrals over what really is published."""

import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

import mechc
from mechc.errors import DeclarationError, UnsupportedError
from mechc.reductions import (
    banded_matrix,
    drawn_with_replacement,
    matrix_mechanism,
    random_allocation,
    tree_aggregation,
    truncated_poisson,
)


def test_matrix_mechanism_by_the_largest_column():
    prefix = np.tril(np.ones((4, 4)))
    assert matrix_mechanism(prefix, 3.0).parameters == {"sigma": 3.0, "sensitivity": 2.0}
    signed = np.array([[1.0, 0.0], [1.0, -1.0]])
    both = matrix_mechanism(signed, 1.0, [[0, 1]]).parameters["sensitivity"]
    # g_1 = 1, g_2 = -1 reaches |(1, 2)|
    assert both == pytest.approx(math.sqrt(5))


def apart(steps, separation, most):
    for chosen in range(1, most + 1):
        for pattern in itertools.combinations(range(steps), chosen):
            if all(b - a >= separation for a, b in itertools.pairwise(pattern)):
                yield list(pattern)


@pytest.mark.parametrize(("separation", "most"), [(3, 2), (3, 9), (2, 3), (1, 2), (5, 1)])
def test_participations_that_are_apart(separation, most):
    random = np.random.default_rng(3)
    steps = 9
    for bands in (separation, steps):
        matrix = np.tril(np.triu(random.random((steps, steps)).T, 1 - bands).T)
        matrix = np.tril(matrix) - np.tril(matrix, -bands)
        patterns = list(apart(steps, separation, most))
        listed = matrix_mechanism(matrix, 1.0, patterns).parameters["sensitivity"]
        found = matrix_mechanism(matrix, 1.0, separation=separation, most=most)
        found = found.parameters["sensitivity"]
        if bands <= separation:
            assert found == pytest.approx(listed, rel=1e-12)
        assert listed * (1 - 1e-12) <= found <= 1.5 * listed


CHAIN = np.array([[1.0, 0, 0, 0], [2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, -6]])
DENSE = np.array([[1.0, 0, 0, 0], [2, 1, 0, 0], [0.5, 1, 1, 0], [0.4, 0, 1, -6]])


@pytest.mark.parametrize(
    ("matrix", "words", "norm"),
    [
        (CHAIN, {}, 6.0), (CHAIN[:3, :3], {}, math.sqrt(5.0)),
        (CHAIN, {"separation": 2, "most": 1}, 6.0), (CHAIN, {"separation": 2}, math.sqrt(41.0)),
        (CHAIN, {"separation": 3}, math.sqrt(41.0)),
        (np.diag([0.0, 3, 0, 1, 2]), {"separation": 2}, math.sqrt(13.0)),
        (np.diag([0.0, 3, 0, 1, 2]), {"separation": 2, "most": 1}, 3.0),
        (np.tri(5), {"separation": 5}, math.sqrt(5.0)),
        (np.tri(16), {"separation": 1}, np.linalg.norm(np.tri(16).sum(axis=1))),
        (np.eye(16), {"participations": "every", "separation": 4}, 2.0),
        (DENSE, {"separation": 1}, math.sqrt(np.abs(DENSE.T @ DENSE).sum())),
    ],
)  # fmt: skip
def test_norms_that_jax_privacy_states_for_participation_patterns(matrix, words, norm):
    found = matrix_mechanism(matrix, 1.0, **words).parameters["sensitivity"]
    assert norm * (1 - 1e-14) <= found <= norm * (1 + 1e-12)


@pytest.mark.parametrize(
    "words",
    [{"separation": 0}, {"most": 1.5}, {"separation": 2, "participations": [[0]]}],
)
def test_bad_patterns(words):
    with pytest.raises(DeclarationError, match="matrix_mechanism"):
        matrix_mechanism(np.eye(3), 1.0, **words)


def test_tree_by_the_matrix_of_its_nodes():
    leaves = 8
    nodes = [
        [1.0 if start <= i < start + width else 0.0 for i in range(leaves)]
        for width in (1, 2, 4, 8)
        for start in range(0, leaves, width)
    ]
    assert tree_aggregation(leaves, 2.0) == matrix_mechanism(nodes, 2.0)
    assert tree_aggregation(5, 2.0) == matrix_mechanism(nodes, 2.0)


def test_bands_say_how_many_blocks_there_are():
    matrix = np.eye(7) + 0.5 * np.eye(7, k=-1)
    ((step, count),) = banded_matrix(matrix, 2.0, sampling_rate=0.2)
    assert count == 4
    assert step.parameters["sensitivity"] == pytest.approx(math.sqrt(1.25))
    assert step.parameters["sampling_rate"] == 0.2


@pytest.mark.few(0)
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_one_of_two_steps_by_an_integral_over_the_plane(epsilon):
    sigma = 1.2
    x, h = np.linspace(-9, 10, 4001, retstep=True)
    one, none = (np.exp(-((x - c) ** 2) / (2 * sigma**2)) for c in (1.0, 0.0))
    p = 0.5 * (np.outer(one, none) + np.outer(none, one))
    q = np.outer(none, none)
    scale = h * h / (2 * math.pi * sigma**2)
    for direction, first, second in (("remove", p, q), ("add", q, p)):
        truth = scale * np.maximum(first - math.exp(epsilon) * second, 0).sum()
        found = random_allocation(sigma).delta(epsilon, direction=direction)
        assert found.estimate == pytest.approx(truth, rel=1e-5)


def test_patterns_by_name_are_the_lists_they_stand_for():
    encoder = np.tril(np.random.default_rng(3).uniform(0.1, 1.0, (6, 6)))
    every = matrix_mechanism(encoder, 1.0, "every", separation=2)
    assert every == matrix_mechanism(encoder, 1.0, [[0, 2, 4], [1, 3, 5]])
    assert matrix_mechanism(encoder, 1.0, "single") == matrix_mechanism(encoder, 1.0)
    apart = matrix_mechanism(encoder, 1.0, "apart", separation=2)
    assert apart == matrix_mechanism(encoder, 1.0, separation=2)
    assert apart.parameters["sensitivity"] >= every.parameters["sensitivity"]
    with pytest.raises(mechc.errors.UnsupportedError, match="drawn at random"):
        matrix_mechanism(encoder, 1.0, "allocation")
    gaussian = mechc.load("gaussian")
    independent = matrix_mechanism(np.diag([2.0] * 6), 3.0, "allocation")
    assert independent == mechc.random_allocation(gaussian(sigma=3.0, sensitivity=2.0), 6)
    with pytest.raises(DeclarationError, match="did you mean every"):
        matrix_mechanism(encoder, 1.0, "evry", separation=2)


@pytest.mark.slow  # theirs takes seconds
def test_cut_batches_as_dp_accounting_does():
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    run = 10 * truncated_poisson(1.0, dataset_size=1000, sampling_rate=0.1, batch_cap=120)
    known = theirs.from_truncated_subsampled_gaussian_mechanism(1000, 0.1, 120, 1.0)
    known = known.self_compose(10).get_epsilon_for_delta(1e-5)
    found = run.epsilon(1e-5)
    assert 0.0 < found.lower < found.upper < 0.6 * known
    never = truncated_poisson(1.0, dataset_size=100, sampling_rate=0.1, batch_cap=100)
    assert never == mechc.poisson(mechc.load("gaussian"), 0.1)(sigma=1.0)


@pytest.mark.parametrize("others", [-1.0, 0.3])
def test_cut_batches_of_two_records(others):
    """All outputs of a sum of two numbers in [-1, 1], of which one at most is taken."""
    q, sigma = 0.4, 0.7
    x = np.linspace(-9.0, 9.0, 40001)
    at = {place: norm.pdf(x, place, sigma) for place in (0.0, 1.0, others)}
    one = q * (1 - q) + q * q / 2
    with_it = (1 - q) ** 2 * at[0.0] + one * (at[1.0] + at[others])
    without = (1 - q) * at[0.0] + q * at[others]
    event = mechc.load("gaussian")(sigma=sigma)
    run = truncated_poisson(event, dataset_size=2, sampling_rate=q, batch_cap=1)
    assert run.claim.status == "proven" and "T12" in run.claim.assumptions[-1]
    for epsilon in (-0.3, 0.0, 0.4, 1.0):
        for direction, p, other in (("remove", with_it, without), ("add", without, with_it)):
            truth = np.maximum(p - math.exp(epsilon) * other, 0.0).sum() * (x[1] - x[0])
            bound = run.delta(epsilon, direction=direction)
            assert truth <= bound.upper * (1 + 1e-9) + 1e-12


@pytest.mark.few(1)
@pytest.mark.parametrize(("cap", "most"), [(12, 1.4), (5, 5.0)])
def test_nearly_full_batches_hide_that_a_batch_was_cut(cap, most):
    """What tells it has 17.4 and 18.6 from above."""
    run = 10 * truncated_poisson(0.7, dataset_size=100, sampling_rate=0.1, batch_cap=cap)
    found = run.epsilon(1e-5)
    assert found.lower < found.upper < most * found.lower


def test_cut_batches_of_other_noise():
    noise = mechc.load("laplace")(scale=2.0)
    words = {"dataset_size": 100, "sampling_rate": 0.1}
    cut = truncated_poisson(noise, batch_cap=12, **words).delta(0.1).upper
    assert mechc.poisson(noise, 0.1).delta(0.1).lower < cut < noise.delta(0.1).upper


def test_noise_that_is_not_symmetric_does_not_hide_which_record_was_cut():
    """Ten records, batches of one, others at 1: without the record hardly any output below 1."""
    noise = mechc.load("exponential")(scale=1.0)  # of which moves up alone lose 2 at most
    assert noise.at(sensitivity=2.0).delta(2.5, direction="remove").upper == 0.0
    n, q = 10, 0.5
    taken = 1.0 - (1.0 - q) ** n
    below = (1.0 - q) ** n + taken / n, (1.0 - q) ** (n - 1)  # a sum of 0, with and without it
    assert (below[0] - math.exp(2.5) * below[1]) * -math.expm1(-1.0) > 0.04
    with pytest.raises(UnsupportedError, match="symmetric"):
        truncated_poisson(noise, dataset_size=n, sampling_rate=q, batch_cap=1)


def test_a_limit_that_is_hardly_ever_reached():
    """tau = P(Bin(9999, .01) >= 500) = 1e-181, in whole numbers; beyond it the plain profile."""
    tau = sum(math.comb(9999, k) * 99 ** (9999 - k) for k in range(500, 1500)) / 100**9999
    run = truncated_poisson(1.0, dataset_size=10000, sampling_rate=0.01, batch_cap=500)
    plain = mechc.poisson(mechc.load("gaussian"), 0.01)(sigma=1.0)
    for epsilon in (5.0, 20.0, 30.0):
        known = plain.log_delta(epsilon)
        found = run.log_delta(epsilon)
        assert max(known.lower, math.log(tau) - 1e-9) <= found.upper
        assert found.upper <= np.logaddexp(known.upper, math.log(tau)) + 1e-6
    # where tau is no double the bound stays above 1e-308
    never = truncated_poisson(1.0, dataset_size=10000, sampling_rate=0.01, batch_cap=1000)
    found = never.log_delta(60.0)
    assert found.lower < -1449.11 < found.upper < -700  # telling proves nothing from below


def test_one_record_drawn_with_replacement_is_a_group_of_draws():
    event = mechc.load("gaussian")(sigma=1.0, sensitivity=2.0)
    found = drawn_with_replacement(event, dataset_size=1, batch_size=2).delta(0.5)
    truth = norm.sf(0.5 / 4 - 2) - math.exp(0.5) * norm.sf(0.5 / 4 + 2)
    assert truth <= found.upper <= truth + 1e-9


@pytest.mark.parametrize("width", [5e-16, 1e-40])
def test_a_part_of_a_mixture_may_reveal_all_but_nothing(width):
    noise = mechc.load("gaussian")(sigma=2.0)
    event = mechc.mixture([mechc.truncate(noise, -width, width), noise], [0.5, 0.5])
    truth = 0.5 + 0.5 * float(noise.delta(0.1))
    found = event.delta(0.1)
    assert found.lower <= truth <= found.upper <= truth + 1e-8


def test_a_mixture_that_tells_is_the_mean_of_the_profiles():
    parts = [mechc.load("pure_dp")(epsilon=e) for e in (0.3, 0.9)]
    found = mechc.mixture(parts, [0.25, 0.75]).delta(0.2)
    truth = 0.25 * parts[0].delta(0.2).estimate + 0.75 * parts[1].delta(0.2).estimate
    assert found.lower <= truth * (1 + 1e-14) and truth * (1 - 1e-14) <= found.upper
    smooth = [mechc.load("gaussian")(sigma=s) for s in (1.0, 2.0)]
    found = mechc.mixture(smooth, [0.5, 0.5]).delta(0.2)
    truth = 0.5 * sum(part.delta(0.2).estimate for part in smooth)
    assert found.lower <= truth <= found.upper * (1 + 1e-13)
    assert found.upper - found.lower < 1e-6 * truth


@pytest.mark.parametrize(
    "bad",
    [
        lambda: matrix_mechanism([[1.0, math.nan]], 1.0),
        lambda: matrix_mechanism([1.0], 1.0),
        lambda: matrix_mechanism(np.zeros((2, 2)), 1.0),
        lambda: matrix_mechanism(np.eye(2), 1.0, [[2]]),
        lambda: matrix_mechanism(np.eye(2), -1.0),
        lambda: tree_aggregation(2.5, 1.0),
        lambda: banded_matrix(np.ones((2, 2)), 1.0, sampling_rate=0.1),
        lambda: truncated_poisson(1.0, dataset_size=1.5, sampling_rate=0.1, batch_cap=1),
        lambda: truncated_poisson(
            mechc.load("gaussian"), dataset_size=9, sampling_rate=0.1, batch_cap=1
        ),
        lambda: mechc.mixture([mechc.load("pure_dp")(epsilon=1.0)], [0.5, 0.5]),
        lambda: mechc.mixture([mechc.load("pure_dp")(epsilon=1.0)], [0.5]),
    ],
)
def test_bad_arguments(bad):
    with pytest.raises(DeclarationError):
        bad()


def test_a_curve_cannot_be_mixed():
    with pytest.raises(UnsupportedError):
        mechc.mixture([mechc.zcdp(0.1)], [1.0]).delta(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(100, 4), (60_000, 256)])
def test_drawing_with_replacement_has_the_profile_of_the_theorem(n, m):
    """Balle, Barthe, Gaboardi 2018, Theorem 10, with the closed profiles of Gaussian groups."""
    sigma, epsilon = 2.0, 1.5
    weights = binom(m, 1 / n).pmf(range(m + 1))
    inner = math.log1p(math.expm1(epsilon) / (1 - weights[0]))

    def gaussian(mu):
        return norm.sf(inner / mu - mu / 2) - math.exp(inner) * norm.sf(inner / mu + mu / 2)

    truth = sum(weights[k] * gaussian(2 * k / sigma) for k in range(1, m + 1))
    event = drawn_with_replacement(
        mechc.load("gaussian")(sigma=sigma, sensitivity=2.0), dataset_size=n, batch_size=m
    )
    found = event.delta(epsilon)
    assert found.upper >= truth and found.upper == pytest.approx(truth, rel=1e-7)
    assert event.mechanism.claim["status"] == "proven"
    if m > 4:
        return
    # all other records at -1: one data set against another, which no bound may miss
    moves = [2 * k / sigma for k in range(m + 1)]
    seen, _ = quad(
        lambda x: max(np.dot(weights, norm.pdf(x, moves)) - math.exp(epsilon) * norm.pdf(x), 0.0),
        0, 30, points=[1.8, 3, 6, 9], limit=200,
    )  # fmt: skip
    in_the_middle = mechc.with_replacement(mechc.load("gaussian"), dataset_size=n, batch_size=m)
    assert in_the_middle(sigma=sigma).delta(epsilon).upper < 0.1 * seen < 0.1 * found.upper


@pytest.mark.parametrize("unit", [1.0, 1e-162, 1e150])
def test_the_norm_of_a_matrix_is_not_less_than_it_is(unit):
    """Squares of small entries vanish: the sensitivity was a third too small at 1e-162."""
    matrix = np.random.default_rng(3).normal(size=(7, 5)) * unit
    columns = [[Fraction(float(x)) for x in matrix[:, j]] for j in (0, 2, 3)]
    square = sum(abs(sum(map(operator.mul, a, b))) for a in columns for b in columns)
    largest = max(sum(x * x for x in map(Fraction, map(float, c))) for c in matrix.T)
    banded = np.tril(np.random.default_rng(3).normal(size=(5, 5)) * unit)
    norm = max(sum(x * x for x in map(Fraction, map(float, c))) for c in banded.T)
    found = [
        (matrix_mechanism(matrix, unit, [[0, 2, 3]]), square),
        (matrix_mechanism(matrix, unit), largest),
        (banded_matrix(banded, unit, sampling_rate=0.5).parts[0][0], norm),
    ]
    for event, exact in found:
        reach = Fraction(event.parameters["sensitivity"]) ** 2
        assert exact <= reach <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("entry", [1.0, 0.1, 5e-324, 3e-320])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_roots_of_a_norm_and_its_last_digits_are_rounded_up(entry, rows):
    """Of three ones it was the double below the root of 3; of two of 5e-324 one of them."""
    found = matrix_mechanism([[entry]] * rows, 1.0).parameters["sensitivity"]
    assert Fraction(found) ** 2 >= rows * Fraction(entry) ** 2
    assert rows != 4 or entry < 1.0 or found == 2.0
    assert Fraction(tree_aggregation(2 ** (rows - 1), 1.0).parameters["sensitivity"]) ** 2 >= rows
