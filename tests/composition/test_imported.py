"""Events given by numbers, against sums done by hand and against dp_accounting's own answers."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import expon, laplace, norm, uniform
from sympy import And, Piecewise, Rational, exp, pi, sqrt

import mechc
from mechc.composition.tables import NumericEvent
from mechc.declare import mechanism, positive, real
from mechc.errors import DeclarationError, NumericError, UnsupportedError, VerificationError
from mechc.integrations.dp_accounting import from_dp_accounting, to_dp_accounting

mp = pytest.importorskip("mpmath")
P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.3, 0.4, 0.1])


def test_two_pmfs_in_both_directions():
    event = mechc.from_pmfs(P, Q)
    for direction, first, second in (("remove", P, Q), ("add", Q, P)):
        for epsilon in (-0.5, 0.0, 0.4):
            truth = np.maximum(first - math.exp(epsilon) * second, 0).sum()
            found = event.delta(epsilon, direction=direction)
            assert found.lower <= truth * (1 + 1e-15) and truth * (1 - 1e-15) <= found.upper


def test_two_steps_by_the_product_of_the_pmfs():
    p, q = np.outer(P, P).ravel(), np.outer(Q, Q).ravel()
    truth = np.maximum(p - math.exp(0.7) * q, 0).sum()
    assert (2 * mechc.from_pmfs(P, Q)).delta(0.7, direction="remove").estimate == pytest.approx(
        truth, rel=1e-13
    )


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_table_on_a_poisson_sample(rate):
    """T6, with outcomes that only one of the two laws has."""
    p, q = np.array([0.5, 0.3, 0.1, 0.0, 0.1]), np.array([0.2, 0.3, 0.4, 0.1, 0.0])
    event = mechc.poisson(mechc.from_pmfs(p, q), rate)
    mixed = (1 - rate) * q + rate * p
    for direction, first, second in (("remove", mixed, q), ("add", q, mixed)):
        for count in (1, 2):
            a, b = first, second
            if count == 2:
                a, b = np.outer(a, a).ravel(), np.outer(b, b).ravel()
            truth = np.maximum(a - math.exp(0.1) * b, 0).sum()
            found = (count * event).delta(0.1, direction=direction)
            assert found.lower <= truth + 1e-14 and truth - 1e-14 <= found.upper
            assert found.estimate == pytest.approx(truth, abs=1e-12)
    with pytest.raises(UnsupportedError, match="given by numbers alone"):
        mechc.group(event, 2)
    with pytest.raises(UnsupportedError, match="given by numbers alone"):
        mechc.poisson(mechc.zcdp(0.1), 0.1)


def test_equal_tables_are_one_event():
    run = mechc.from_pmfs(P, Q) + mechc.from_pmfs(P, Q)
    assert [count for _, count in run] == [2]
    assert "imported" in repr(mechc.from_losses([0.0], [1.0]))


def test_a_table_of_losses_is_randomised_response():
    e = 0.5
    likely = math.exp(e) / (1 + math.exp(e))
    table = mechc.from_losses([1, -1], [likely, 1 - likely], step=e)
    known = mechc.load("pure_dp")(epsilon=e)
    for count in (1, 30):
        ours, theirs = (count * table).delta(0.9), (count * known).delta(0.9)
        assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-12)


@pytest.mark.parametrize("e", [0.3, 0.5, 0.7, 2.0])
def test_what_q_has_alone_is_known_to_rounding(e):
    """Randomised response by one direction: in truth nothing, and in these numbers a rounding."""
    likely = math.exp(e) / (1 + math.exp(e))
    table = mechc.from_losses([e, -e], [likely, 1 - likely])
    masses, losses = (likely, 1 - likely), (e, -e)
    with mp.workdps(40):
        given = 1 - sum(mp.mpf(m) * mp.exp(-x) for m, x in zip(masses, losses, strict=True))
    found = table.delta(2 * e, direction="add")
    assert found.lower == 0.0 and given <= found.upper < 1e-14
    assert table.delta(2 * e, direction="remove").upper == 0.0
    divergence = table.renyi(2.0)  # infinite, if Q has any mass alone
    log_mean = math.log(sum(m * math.exp(x) for m, x in zip(masses, losses, strict=True)))
    assert divergence.lower <= log_mean * (1 + 1e-12) <= divergence.upper
    both = mechc.from_losses([e, -e], [likely, 1 - likely], symmetric=True)
    assert both.delta(2 * e).upper == 0.0


def test_what_q_has_alone_beside_nothing_else_is_a_parameter():
    """Losses of 0 hide nothing of it."""
    found = mechc.from_losses([0.0], [0.9], infinite_mass=0.1).delta(1.0, direction="add")
    assert 0.1 * (1 - 1e-13) <= found.lower <= 0.1 <= found.upper <= 0.1 * (1 + 1e-13)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: mechc.from_pmfs([0.5, 0.4], [0.5, 0.5]), "p sum to 0.9"),
        (lambda: mechc.from_pmfs([0.5, 0.5], [0.5, 0.25, 0.25]), "p has 2 entries and q has 3"),
        (lambda: mechc.from_pmfs([0.5, math.nan], [0.5, 0.5]), r"in \[0, 1\]"),
        (lambda: mechc.from_pmfs([1.5, -0.5], [0.5, 0.5]), r"in \[0, 1\]"),
        (lambda: mechc.from_pmfs([1.0, 0.0], [0.0, 1.0]), "share no outcome"),
        (lambda: mechc.from_losses([0.1, -0.1], [0.6, 0.3]), "sum to 0.8999"),
        (lambda: mechc.from_losses([math.nan], [1.0]), "not finite"),
        (lambda: mechc.from_losses([-1.0], [1.0]), "optimistic"),
        (lambda: mechc.from_losses([0.5], [1.0], step=0.1), "integers that count steps"),
        (lambda: mechc.from_losses([0], [1.0], step=-0.1), "step=-0.1 is not positive"),
        (lambda: mechc.from_losses([0.0], [0.5], infinite_mass=2), "infinite_mass <= 1"),
    ],
)
def test_bad_tables(bad, message):
    with pytest.raises(DeclarationError, match=message):
        bad()


def test_from_dp_accounting_answers_as_it_does():
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    pld = theirs.from_gaussian_mechanism(1.0, value_discretization_interval=1e-3, sampling_prob=0.1)
    run = 50 * from_dp_accounting(pld)
    known = pld.self_compose(50).get_epsilon_for_delta(1e-5)
    assert run.epsilon(1e-5).upper == pytest.approx(known, rel=1e-8)
    exact = 50 * mechc.poisson(mechc.load("gaussian"), 0.1)(sigma=1.0)
    assert exact.epsilon(1e-5).upper < run.epsilon(1e-5).lower
    mixed = run + mechc.load("laplace")(scale=10.0)
    assert mixed.epsilon(1e-5).upper > run.epsilon(1e-5).upper


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_gaussians_of_dp_accounting_at_default_settings(rate):
    """Their masses sum to 1 + 2e-9: what is too much goes where it reveals least, and is said."""
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    pld = theirs.from_gaussian_mechanism(8.0, sampling_prob=rate)
    event = from_dp_accounting(pld)
    known = pld.get_epsilon_for_delta(1e-5)
    assert event.epsilon(1e-5).upper == pytest.approx(known, rel=1e-9)
    exact = mechc.poisson(mechc.load("gaussian"), rate)(sigma=8.0)
    for epsilon in (-1.0, -0.3, 0.0, 0.3):
        for direction in ("remove", "add"):
            truth = exact.delta(epsilon, direction=direction).lower
            assert event.delta(epsilon, direction=direction).upper >= truth
    assert "too much" in event.claim.assumptions[0]
    with pytest.raises(DeclarationError, match="self_compose"):
        to_dp_accounting(100 * event)


@pytest.mark.parametrize("kind", ["sparse", "leaky"])
def test_sparse_and_infinite_masses_come_over(kind):
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    if kind == "sparse":
        pld = theirs.from_randomized_response(0.4, 4, value_discretization_interval=1e-3)
    else:
        import dp_accounting

        budget = dp_accounting.pld.common.DifferentialPrivacyParameters(0.3, 1e-3)
        pld = theirs.from_privacy_parameters(budget, value_discretization_interval=1e-3)
    found = (3 * from_dp_accounting(pld)).delta(0.5)
    known = pld.self_compose(3).get_delta_for_epsilon(0.5)
    assert found.estimate == pytest.approx(known, rel=1e-7)


def test_an_optimistic_distribution_is_refused():
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    pld = theirs.from_laplace_mechanism(
        1.0, value_discretization_interval=1e-2, pessimistic_estimate=False
    )
    with pytest.raises(DeclarationError, match="optimistic"):
        from_dp_accounting(pld)
    with pytest.raises(DeclarationError, match="not a PrivacyLossDistribution"):
        from_dp_accounting(3)


def test_directions_on_two_meshes_are_refused():
    """The add direction was read on the mesh of the other: losses ten times too small."""
    theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    fine, rough = (
        theirs.from_laplace_mechanism(1.0, value_discretization_interval=step)._pmf_remove
        for step in (1e-3, 1e-2)
    )
    with pytest.raises(DeclarationError, match="expected one discretization"):
        from_dp_accounting(theirs.PrivacyLossDistribution(fine, rough))


def test_all_of_a_law_at_infinity_goes_both_ways():
    pytest.importorskip("dp_accounting")
    told = mechc.load("approximate_dp")(epsilon=1.0, delta=1.0)
    exported = to_dp_accounting(told)
    assert exported.get_delta_for_epsilon(30.0) == 1.0
    assert (2 * from_dp_accounting(exported)).delta(30.0).lower > 1.0 - 1e-12


@pytest.mark.parametrize("count", [1, 20])
def test_to_dp_accounting_stays_above_and_close(count):
    pytest.importorskip("dp_accounting")
    for event in (
        mechc.poisson(mechc.load("gaussian"), 0.1)(sigma=1.0),
        mechc.load("laplace")(scale=2.0),
        mechc.load("uniform")(halfwidth=10.0),
        mechc.load("student_t")(nu=3.0, scale=1.0),
    ):
        exported = to_dp_accounting(event, discretization=1e-3).self_compose(count)
        truth = (count * event).delta(0.6)
        found = exported.get_delta_for_epsilon(0.6)
        assert truth.lower <= found * (1 + 1e-12)
        assert found == pytest.approx(truth.upper, rel=2e-4)
    with pytest.raises(DeclarationError, match="discretization"):
        to_dp_accounting(event, discretization=0.0)


@pytest.mark.parametrize(
    ("name", "values", "noise"),
    [("laplace", {"scale": 1.0}, laplace()), ("exponential", {"scale": 1.0}, expon()),
     ("uniform", {"halfwidth": 2.0}, uniform(-2, 4))],
)  # fmt: skip
def test_outputs_rounded_to_cells(name, values, noise):
    """Also where one of the laws has no density on a part of the line."""
    edges = np.array([-0.5, 0.5, 1.0])
    event = mechc.post_process(mechc.load(name)(**values), edges)
    p = np.diff(np.concatenate([[0], noise.cdf(edges - 1), [1]]))
    q = np.diff(np.concatenate([[0], noise.cdf(edges), [1]]))
    truth = np.maximum(p - math.exp(0.2) * q, 0).sum()
    found = event.delta(0.2, direction="remove")
    assert found.lower <= truth <= found.upper
    assert found.estimate == pytest.approx(truth, rel=1e-12)
    claim = event.mechanism.claim
    assert claim["status"] == "declared"
    assert claim["adjacency"] == mechc.load(name).claim["adjacency"]
    assert "moves by exactly the sensitivity" in claim["assumptions"][0]


def test_a_rounded_pair_is_that_of_no_other_query():
    """Why it is not proven: a threshold at 9 tells much about a query that moves from 8.5."""
    event = mechc.post_process(mechc.load("gaussian")(sigma=1.0), [9.0])
    moved = norm.sf(9.0 - 9.5) - math.exp(0.5) * norm.sf(9.0 - 8.5)
    assert event.delta(0.5).upper < 1e-15 < 0.18 < moved


def test_rounding_never_reveals_more():
    base = mechc.load("discrete_gaussian")(sigma=2.0)
    clamped = mechc.post_process(base, np.arange(-1.5, 3.0))
    assert clamped.delta(0.1).upper <= base.delta(0.1).upper * (1 + 1e-12)
    one = mechc.post_process(mechc.load("gaussian")(sigma=1.0), [0.5])
    truth = norm.sf(-0.5) - math.exp(0.3) * norm.sf(0.5)
    assert one.delta(0.3).estimate == pytest.approx(truth, rel=1e-12)


def test_post_processing_needs_an_output():
    event = mechc.load("gaussian")(sigma=1.0)
    with pytest.raises(DeclarationError, match="increasing"):
        mechc.post_process(event, [1.0, 0.0])
    with pytest.raises(UnsupportedError, match="before composition"):
        mechc.post_process(2 * event, [0.0])


@pytest.mark.slow
def test_epsilon_at_a_largest_loss_that_has_been_rounded():
    """log(0.375) - log(0.625) in doubles is above or below the real loss; three times it too."""
    event = mechc.from_pmfs([2 / 7, 5 / 7], [0.5, 0.5])
    top = math.log(2 * 5 / 7) * 3
    with mp.workdps(40):
        loss = mp.log(mp.mpf(5 / 7) / mp.mpf(0.5))
        truth = float(mp.mpf(5 / 7) ** 3 * max(-mp.expm1(mp.mpf(top) - 3 * loss), 0))
    for method, width in (("auto", 1e-13), ("contour", 1e-6), ("direct", 1e-13)):
        answer = (3 * event).delta(top, method=method, direction="remove")
        assert answer.lower <= truth <= answer.upper < width


def test_a_trade_off_function_whose_corners_are_alike():
    """The best of three corners was its own neighbour, and the chord between them had no width."""
    event = mechc.from_pmfs([0.2, 0.8], [32 / 33, 1 / 33])
    answer = (40 * event).tradeoff(0.40863423536053134, direction="remove")
    assert 0.0 <= answer.lower <= answer.upper < 1e-9


def test_small_losses_keep_their_digits():
    """p/q rounds to 1e-16, which is 1e-9 of a loss of 1e-7."""
    p, q = [0.9999999999465325, 5.3467438458997874e-11], [0.999999820145195, 1.7985480503568259e-07]
    with mp.workdps(40):
        loss = float(mp.log(mp.mpf(p[0]) / mp.mpf(q[0])))
    assert mechc.from_pmfs(p, q).loss().support[1] == pytest.approx(loss, rel=1e-15)


def test_epsilon_of_a_delta_that_is_delta_of_zero():
    """The search halved its bracket towards 0 until its evaluations were used up."""
    event = mechc.from_pmfs([0.9, 0.1], [1e-6, 1.0 - 1e-6])
    for target in (0.9 - 1e-6, 1.0):
        answer = event.epsilon(target)
        assert 0.0 <= answer.lower <= answer.upper < 1e-6


@pytest.mark.parametrize("alpha", [0.5, 0.9995389279794323, 1.0 - 1e-6])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_false_negatives_far_below_one(alpha, direction):
    """f = 1e-12: found where delta is one but for its last digits; the Neyman-Pearson lemma."""
    p, q, steps = ["1/83", "64/83", "16/83", "2/83"], ["8/18", "1/18", "1/18", "8/18"], 5
    pair = [[Fraction(v) for v in side] for side in (p, q)]
    laws = {(Fraction(1), Fraction(1)): 1}
    for _ in range(steps):
        longer: dict = {}
        for (a, b), many in laws.items():
            for u, v in zip(*pair, strict=True):
                longer[a * u, b * v] = longer.get((a * u, b * v), 0) + many
        laws = longer
    rows = [
        (n * a, n * b) if direction == "remove" else (n * b, n * a) for (a, b), n in laws.items()
    ]
    left, missed = Fraction(alpha), Fraction(1)
    for a, b in sorted(rows, key=lambda row: row[1] / row[0]):
        missed -= a * min(1, left / b)
        left -= min(b, left)
    run = steps * mechc.from_pmfs(*([float(v) for v in side] for side in pair))
    bound = run.tradeoff(alpha, direction=direction)
    room = 1e-15 * alpha  # rounding of the masses
    assert bound.lower <= float(missed) + room
    assert float(missed) <= bound.upper + room
    assert bound.upper - bound.lower <= 1e-3 * float(missed) + 1e-13


@pytest.mark.parametrize(
    ("p", "q", "rate"),
    [
        ((1 - 1e-9, 1e-9), (0.5, 0.5), 0.999999),
        ((1 - 1e-9, 1e-9), (0.5, 0.5), 1 - 1e-9),
        ((1.0, 1e-154), (0.75, 0.25), 1 - 2.0**-48),
        ((1 - 2.0**-40, 2.0**-40), (0.25, 0.75), 1e-9),
        ((2.0**-40, 1 - 2.0**-40), (1 - 2.0**-50, 2.0**-50), 1e-6),
        ((1e-320, 1.0), (0.5, 0.5), 0.5),
    ],
)
@pytest.mark.filterwarnings("error")
def test_tables_on_samples_next_to_their_losses(p, q, rate):
    """(1-r) q + r p cancels in doubles; here in fractions, at the losses and next to them."""
    event, r = mechc.poisson(mechc.from_pmfs(p, q), rate), Fraction(rate)
    plain = [Fraction(v) for v in q]
    mixed = [(1 - r) * Fraction(v) + r * Fraction(u) for u, v in zip(p, q, strict=True)]
    with mp.workdps(60):
        laws = [[mp.mpf(v.numerator) / v.denominator for v in law] for law in (mixed, plain)]
        for direction, order in (("remove", 1), ("add", -1)):
            pair = list(zip(*laws[::order], strict=True))
            losses = [float(mp.log(a / b)) for a, b in pair]
            for epsilon in [0.0, *losses, *(math.nextafter(v, 0.0) for v in losses)]:
                truth = sum(max(a - mp.e**epsilon * b, mp.mpf(0)) for a, b in pair)
                slack = 4e-16 * abs(mp.log(truth)) if truth else mp.mpf(0)
                found = event.log_delta(epsilon, direction=direction)
                assert mp.e ** mp.mpf(found.lower - slack) <= truth + 1e-300
                assert truth <= mp.e ** mp.mpf(found.upper + slack)


def test_rounding_of_a_loss_beside_a_far_smaller_delta():
    """At the double next to log(1/q) the rounding of that loss is all of delta but 1e-160."""
    q = 0.11747711494019057
    event = mechc.from_pmfs([1.0, 1e-300], [q, 1 - q])
    epsilon = 2.141511730833838
    with mp.workdps(60):
        truth = mp.log(max(1 - mp.e**epsilon * mp.mpf(q), mp.mpf(10) ** -300))
    assert event.log_delta(epsilon, direction="remove").upper >= truth


@pytest.mark.filterwarnings("error")
def test_what_a_mass_next_to_one_leaves():
    """Three uses: the double next to one has three digits of the 1.2e-13 that P shares with Q."""
    p, q = [1 - 1.1635636600379346e-13, 1.1635636600379346e-13], [0.0, 1.0]
    run = 3 * mechc.from_pmfs(p, q)
    largest = -3 * math.log(p[1])
    for gap in (-1e-3, -1e-9, 1e-9, 1e-3):
        truth = math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf
        for method in ("auto", "contour", "direct", "renyi"):
            found = run.log_delta(largest + gap, direction="add", method=method)
            assert found.lower - 1e-5 <= truth <= found.upper + 1e-5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_rates_below_all_normal_doubles(count):
    """Losses are numbers without digits, next to which delta is whatever their rounding allows."""
    p, q, rate = (0.75, 0.25), (0.25, 0.75), 5e-324
    run = count * mechc.poisson(mechc.from_pmfs(p, q), rate)
    truth = {1: 0.5, 2: 0.75, 3: 0.84375}[count]  # of the rate
    found = run.log_delta(0.0)
    assert found.lower <= math.log(truth) + math.log(rate) <= found.upper
    assert found.upper < -700.0


def test_the_relation_goes_through_dp_accounting():
    pytest.importorskip("dp_accounting")
    from dp_accounting import NeighboringRelation

    relation = NeighboringRelation
    for adjacency, theirs in (
        ("add_remove", relation.ADD_OR_REMOVE_ONE), ("replace", relation.REPLACE_ONE)
    ):  # fmt: skip
        exported = to_dp_accounting(mechc.from_pmfs(P, Q, adjacency=adjacency), discretization=0.1)
        assert from_dp_accounting(exported).adjacency == adjacency
        assert from_dp_accounting(exported.self_compose(2)).adjacency == "any"
        assert from_dp_accounting(exported.self_compose(2), adjacency=theirs).adjacency == adjacency
    for unknown in (relation.REPLACE_SPECIAL, "bogus"):
        with pytest.raises(DeclarationError, match="adjacency"):
            from_dp_accounting(exported, adjacency=unknown)


def test_cells_of_laws_that_are_kept_as_lists_of_ratios():
    """Histograms: the kernel has an outcome for each ratio, in an order of its own."""
    heights = [1, 3, 2, 5, 4, 6, 2, 7, 3, 1], [3, 1, 5, 2, 6, 4, 7, 2, 1, 3]
    x = real("x")
    laws = (
        Piecewise(
            *((Rational(h, 34), And(i <= x, x < i + 1)) for i, h in enumerate(row)), (0, True)
        )
        for row in heights
    )
    event = mechc.load(mechanism("histogram", variable=x, p=next(laws), q=next(laws)))()
    assert event.mechanism.kernel.MEASURE == "finite"
    p, q = (np.add.reduceat(row, [0, 2, 7]) / 34 for row in heights)
    found = mechc.post_process(event, [2.0, 7.0]).delta(0.0, direction="remove")
    truth = np.maximum(p - q, 0).sum()
    assert found.lower <= truth * (1 + 1e-15) and truth * (1 - 1e-15) <= found.upper
    assert found.upper - found.lower < 1e-11


def test_outputs_of_a_pair_made_for_a_subset_have_no_cells():
    event = mechc.without_replacement(mechc.load("laplace"), 0.1)(scale=1.0, sensitivity=2.0)
    with pytest.raises(UnsupportedError, match="has others"):
        mechc.post_process(event, [0.0])


@pytest.mark.parametrize("edge", [65.5, 300.5])
def test_cells_of_integers_far_out(edge):
    event = mechc.post_process(mechc.load("discrete_gaussian")(sigma=4.7), [edge])
    with mp.workdps(40):
        reach, twice = range(math.ceil(edge), math.ceil(edge) + 200), 2 * mp.mpf(4.7) ** 2
        whole = mp.nsum(lambda k: mp.e ** (-(k**2) / twice), [-mp.inf, mp.inf])
        p, q = (sum(mp.e ** (-(mp.mpf(x - c) ** 2) / twice) for x in reach) / whole for c in (1, 0))
        truth = mp.log(p - mp.e * q)
    found = event.log_delta(1.0)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower <= 1e-10


@pytest.mark.parametrize(("epsilon", "width"), [(0.0, math.inf), (0.3, 1e-10)])
@pytest.mark.parametrize("edge", [20.0, 5.0, -20.0])
def test_a_cell_that_has_nearly_all_mass(epsilon, edge, width):
    event = mechc.post_process(mechc.load("gaussian")(sigma=1.0), [edge])
    with mp.workdps(600):
        above = [mp.ncdf(c - mp.mpf(edge)) for c in (1, 0)]
        cells = [(1 - a, a) for a in above]
        for direction, (first, second) in (("remove", cells), ("add", cells[::-1])):
            terms = (a - mp.e ** mp.mpf(epsilon) * b for a, b in zip(first, second, strict=True))
            truth = mp.log(sum(max(term, mp.mpf(0)) for term in terms) + mp.mpf(10) ** -500)
            found = event.log_delta(epsilon, direction=direction)
            assert found.lower <= max(truth, -1000) and truth <= max(found.upper, -1000)
            if truth > -1000:
                assert found.estimate == pytest.approx(float(truth), abs=1e-9)
                assert found.upper - truth <= width


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_cells_of_what_is_cut_off_reveal(direction):
    """Outputs outside (-2, 2) reveal everything: in a cell with those inside delta was .286."""
    event = mechc.truncate(mechc.load("gaussian")(sigma=1.0), -2.0, 2.0)
    laws = norm(1.0), norm(0.0)
    p, q = laws if direction == "remove" else laws[::-1]
    ends = -2.0, 0.0, 0.5, 1.0, 2.0
    inside = [(p.cdf(b) - p.cdf(a), q.cdf(b) - q.cdf(a)) for a, b in pairwise(ends)]
    truth = 1.0 - sum(a for a, _ in inside)
    truth += sum(max(a - math.exp(0.3) * b, 0.0) for a, b in inside)
    found = mechc.post_process(event, ends[1:-1]).delta(0.3, direction=direction)
    assert found.lower <= truth + 1e-12 and truth - 1e-12 <= found.upper <= truth + 1e-9


@pytest.mark.few(2)
@pytest.mark.parametrize("share", [1e-7, 1e-3, 1e-1])
def test_cells_count_what_rounding_makes_of_weights(share):
    """The weight is 1 - (1 + c) exp(-c), which cancels twice: delta was 2 % short, and proven."""
    x, c = real("x"), positive("c")
    w = 1 - (1 + c) * exp(-c)
    noise = [exp(-((x - at) ** 2) / 2) / sqrt(2 * pi) for at in (0, 20)]
    p = (1 - w) * noise[0] + w * noise[1]
    far = mechc.load(mechanism("far", variable=x, p=p, q=noise[0], parameters=(c,)))
    with mp.workdps(40):
        weight, tail = 1 - (1 + mp.mpf(share)) * mp.e ** -mp.mpf(share), mp.ncdf(-10)
        truth = mp.log((1 - weight) * tail + weight * (1 - tail) - mp.e * tail)
    try:
        found = mechc.post_process(far(c=share), [10.0]).log_delta(1.0, direction="remove")
    except (NumericError, VerificationError):
        return  # nothing is left of the weight
    assert share > 1e-7 and found.lower <= truth <= found.upper


@pytest.mark.slow
def test_a_mode_that_no_cell_has_found():
    """The cell with most mass is not given that of another: .599 was .999."""
    x, s = real("x"), positive("s", typical=(1e-3, 1.0))

    def bell(centre, width):
        return exp(-((x - centre) ** 2) / (2 * width**2)) / (sqrt(2 * pi) * width)

    p, q = (3 * bell(centre, 1) / 5 + 2 * bell(3, s) / 5 for centre in (1, 0))
    beside = mechc.load(mechanism("beside", variable=x, p=p, q=q, parameters=(s,)))
    event = mechc.post_process(beside(s=1e-2), [2.9, 3.05])
    cells = 0.6 * np.diff(norm.cdf([-np.inf, 1.9, 2.05, np.inf]))
    cells += 0.4 * np.diff(norm.cdf([-np.inf, -10.0, 5.0, np.inf]))
    assert np.sort(np.exp(event.loss().atom_log_mass)) == pytest.approx(np.sort(cells), rel=1e-9)
    with pytest.raises(NumericError, match="too narrow"):
        mechc.post_process(beside(s=1e-4), [2.9, 3.05])


def test_mixtures_and_samples_state_the_errors_of_their_parts():
    part = mechc.load("discrete_gaussian")(sigma=3.0)
    mixed = mechc.mixture([part], [1.0]).loss()
    assert mixed.loss_error >= part.loss().loss_rounding
    assert mixed.log_infinite >= part.loss().log_unlisted and mixed.log_early > -math.inf
    table = mechc.from_pmfs(P, np.array([0.2, 0.3, 0.4, 0.1]))
    laws = [replace(table.loss(d), mass_errors=(0.01, 0.02)[::s], early=(-5.0, -7.0)[::s])
            for d, s in (("remove", 1), ("add", -1))]  # fmt: skip
    event = NumericEvent(table.mechanism, *laws)
    assert mechc.mixture([event], [1.0]).loss().mass_errors == (0.01, 0.02)
    remove, add = (mechc.poisson(event, 0.25).loss(d) for d in ("remove", "add"))
    both = math.log(0.25 * math.exp(-5.0) + 0.75 * math.exp(-7.0))
    assert remove.early == pytest.approx((both, -7.0)) == add.early[::-1]
    assert remove.density_error >= 0.02 <= add.density_error


def test_what_is_made_of_an_estimated_density_is_not_proven():
    part = mechc.radial(mechc.load("laplace")(scale=2.0), 3)
    epochs = 3 * mechc.random_allocation(part, steps=5)
    mixed = mechc.mixture([part, mechc.from_pmfs([0.5, 0.5], [0.4, 0.6])], [0.5, 0.5])
    for run in (mixed, 2 * mixed, epochs, part + mechc.poisson(mixed, 0.5)):
        assert "estimated error of a density" in run.delta(0.1).status
    assert mechc.mixture([mechc.load("gaussian")(sigma=1.0)], [1.0]).delta(0.1).status == "proven"


@pytest.mark.parametrize("event", [
    mechc.from_pmfs([0.5, 0.5], [0.4, 0.6]), mechc.zcdp(0.1), mechc.rdp([2.0], [0.1]),
])  # fmt: skip
def test_a_table_at_no_other_values_is_itself(event):
    assert event.at() is event and event.at().delta(0.1).upper == event.delta(0.1).upper


def test_names_of_tables_differ_where_anything_of_their_laws_does():
    likely = 1.0 / (1.0 + math.exp(-0.5))
    one, finer = (
        mechc.from_losses([n, -n], [likely, 1.0 - likely], step=0.5 / n, symmetric=True)
        for n in (1, 2)
    )
    assert one.key != finer.key
    epoch = mechc.random_allocation(mechc.load("gaussian"), steps=3)
    keys = {mechc.poisson(epoch(sigma=s), 0.5).key for s in (1.0, 1.0 + 1e-9, 1.5)}
    assert len(keys) == 3


def test_no_loss_at_all_next_to_epsilon_0():
    found = (2 * mechc.from_pmfs([1.0, 0.0], [1.0, 0.0])).log_delta(-5e-324, direction="remove")
    assert found.lower <= math.log(5e-324) <= found.upper
