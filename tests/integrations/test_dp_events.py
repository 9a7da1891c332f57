"""Events of dp_accounting, against closed forms and against its own accountants."""

import inspect
import math
from fractions import Fraction

import pytest
from scipy.stats import norm

import mechc
from mechc.errors import DeclarationError, UnsupportedError

dp_accounting = pytest.importorskip("dp_accounting")
from dp_accounting import dp_event as dp  # noqa: E402
from dp_accounting.pld import PLDAccountant  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

from mechc.integrations.dp_accounting import MechcAccountant, from_event  # noqa: E402

ADD_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
SPECIAL = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
GAUSSIAN, LAPLACE = dp.GaussianDpEvent(2.0), dp.LaplaceDpEvent(4.0)


def gaussian_delta(mu, epsilon):
    """Balle, Wang 2018, Theorem 8."""
    a = norm.cdf(mu / 2 - epsilon / mu)
    return a - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("relation", "distance"), [(ADD_REMOVE, 1), (REPLACE, 2), (SPECIAL, 1)])
def test_gaussians_under_every_relation(relation, distance):
    event = dp.ComposedDpEvent([dp.SelfComposedDpEvent(GAUSSIAN, 5), dp.GaussianDpEvent(1.0)])
    mu = distance * math.sqrt(5 / 4 + 1)
    accountant = MechcAccountant(neighboring_relation=relation).compose(event)
    truth = gaussian_delta(mu, 1.5)
    assert truth <= accountant.get_delta(1.5) * (1 + 1e-12)
    assert accountant.get_delta(1.5) == pytest.approx(truth, rel=1e-9)
    assert accountant.get_epsilon(truth) == pytest.approx(1.5, rel=1e-9)


@pytest.mark.parametrize(("relation", "distance"), [(ADD_REMOVE, 1), (REPLACE, 2), (SPECIAL, 1)])
def test_pure_epsilons_under_every_relation(relation, distance):
    """RdpAccountant takes the distance of add/remove for all three."""
    for event, one in ((LAPLACE, 0.25), (dp.DiscreteLaplaceDpEvent(0.3, 2), 0.6)):
        accountant = MechcAccountant(relation).compose(event, 3)
        assert accountant.get_epsilon(0) == pytest.approx(3 * distance * one, rel=1e-12)
        assert accountant.get_delta(math.inf) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE, SPECIAL])
def test_poisson_samples_lie_below_their_pessimistic_grid(relation):
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.0)), 200)
    ours = MechcAccountant(relation).compose(event)
    theirs = PLDAccountant(relation).compose(event)
    assert theirs.get_epsilon(1e-5) - 1e-4 <= ours.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5)
    assert ours.composition.claim.status == ("declared" if relation is REPLACE else "proven")


def test_gaussians_on_one_sample_are_one():
    inner = dp.ComposedDpEvent([GAUSSIAN, dp.SelfComposedDpEvent(dp.GaussianDpEvent(3.0), 2)])
    one = dp.GaussianDpEvent((1 / 4 + 2 / 9) ** -0.5)
    found, known = (
        MechcAccountant().compose(dp.PoissonSampledDpEvent(0.1, noise)).get_epsilon(1e-5)
        for noise in (inner, one)
    )
    assert known <= found <= known * (1 + 1e-12)


def test_a_batch_of_fixed_size():
    """Balle, Barthe, Gaboardi 2018: q delta(epsilon) at log(1 + q (e^epsilon - 1))."""
    event = dp.SampledWithoutReplacementDpEvent(100, 10, GAUSSIAN)
    truth = 0.1 * gaussian_delta(2 / 2.0, 2.0)
    found = MechcAccountant(REPLACE).compose(event).get_delta(math.log1p(0.1 * math.expm1(2.0)))
    assert found == pytest.approx(truth, rel=1e-9)


@pytest.mark.slow
def test_a_batch_of_one_draw_with_replacement():
    """One draw is a subset of one record, up to the grid of the mixture it is made as."""
    drawn = MechcAccountant(REPLACE).compose(dp.SampledWithReplacementDpEvent(10, 1, GAUSSIAN))
    truth = 0.1 * gaussian_delta(2 / 2.0, math.log1p(math.expm1(0.2) / 0.1))
    assert truth <= drawn.get_delta(0.2) <= truth * 1.001


def test_mixtures_of_moves_are_proven():
    event = dp.MixtureOfGaussiansDpEvent(1.0, [1.0, 1.0], [0.5, 0.5])
    found = MechcAccountant(SPECIAL).compose(event)
    assert found.get_delta(1.0) == pytest.approx(gaussian_delta(1.0, 1.0), rel=1e-9)
    assert found.composition.claim.theorem == "T8"


def test_randomised_response_counts():
    """PLDAccountant forgets the count of this event."""
    event = dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.5, 4), 5)
    for relation, odds in ((REPLACE, 4 / 0.5 - 3), (SPECIAL, 4 * 0.5 + 0.5)):
        found = MechcAccountant(relation).compose(event)
        assert found.get_epsilon(0) == pytest.approx(5 * math.log(odds), rel=1e-12)
        known = PLDAccountant(relation).compose(event.event).get_delta(0.1)
        assert MechcAccountant(relation).compose(event.event).get_delta(0.1) == pytest.approx(
            known, rel=1e-3
        )


def test_a_response_that_is_nearly_uniform_keeps_its_digits():
    """1 - (k - 1) p / k had lost nine of them: delta was 4e-8 of itself too small."""
    p, k = 1 - 2e-9, 10**6
    event = dp.RandomizedResponseDpEvent(p, k)
    truth = (Fraction(p) - 1) * (1 - k) / k  # delta at 0, the distance of 1 - p + p/k from 1/k
    found = MechcAccountant(SPECIAL).compose(event).get_delta(0.0)
    assert float(truth) <= found <= float(truth) * (1 + 1e-8)


def test_a_curve_of_renyi_divergences_lies_below_theirs():
    event = dp.ComposedDpEvent([dp.ZCDpEvent(0.01, 0.1), dp.ZCDpEvent(0.02)])
    found = MechcAccountant(REPLACE).compose(event).get_epsilon(1e-5)
    known = RdpAccountant(neighboring_relation=REPLACE).compose(event).get_epsilon(1e-5)
    assert known * (1 - 1e-2) < found <= known


@pytest.mark.parametrize(("steps", "levels"), [(1, 1), (5, 3), ([3, 8, 2], 4)])
def test_trees_publish_complete_subtrees(steps, levels):
    event = dp.SingleEpochTreeAggregationDpEvent(3.0, steps)
    found = MechcAccountant(SPECIAL).compose(event).get_delta(0.5)
    assert found == pytest.approx(gaussian_delta(math.sqrt(levels) / 3, 0.5), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "event",
    [
        dp.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.6, 0.4]),
        dp.PoissonSampledDpEvent(0.2, dp.LaplaceDpEvent(0.5)),
    ],
)
def test_others_agree_with_their_grid(event):
    for relation in (ADD_REMOVE, SPECIAL):
        ours = MechcAccountant(relation).compose(event, 3)
        theirs = PLDAccountant(relation, value_discretization_interval=1e-3).compose(event, 3)
        for epsilon in (0.5, 3.0):
            assert ours.get_delta(epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=1e-3)


@pytest.mark.slow
def test_cut_batches_lie_below_their_larger_pair():
    """How far, and that no data set is above ours, is in docs/peers.md."""
    event = dp.TruncatedSubsampledGaussianDpEvent(4, 0.5, 2, 1.0)
    for relation in (ADD_REMOVE, SPECIAL):
        theirs = PLDAccountant(relation, value_discretization_interval=1e-3).compose(event, 3)
        ours = MechcAccountant(relation).compose(event, 3)
        for epsilon in (0.5, 3.0):
            assert 0.3 < ours.get_delta(epsilon) / theirs.get_delta(epsilon) < 1.0


WITHOUT_PAIR = {
    "UnsupportedDpEvent": dp.UnsupportedDpEvent(),
}
WITH_PAIR = (
    (dp.NoOpDpEvent(), "asr"),
    (dp.NonPrivateDpEvent(), "asr"),
    (GAUSSIAN, "asr"),
    (LAPLACE, "asr"),
    (dp.DiscreteLaplaceDpEvent(0.5, 1), "asr"),
    (dp.ZCDpEvent(0.1), "asr"),
    (dp.RepeatAndSelectDpEvent(GAUSSIAN, 2.0, 1.0), "asr"),
    (dp.SelfComposedDpEvent(GAUSSIAN, 3), "asr"),
    (dp.ComposedDpEvent([GAUSSIAN, LAPLACE]), "asr"),
    (dp.RandomizedResponseDpEvent(0.5, 4), "sr"),
    (dp.PoissonSampledDpEvent(0.1, GAUSSIAN), "asr"),
    (dp.PoissonSampledDpEvent(0.1, LAPLACE), "as"),
    (dp.MixtureOfGaussiansDpEvent(0.0, [1.0], [1.0]), "as"),
    (dp.TruncatedSubsampledGaussianDpEvent(100, 0.1, 100, 1.0), "as"),
    (dp.SampledWithoutReplacementDpEvent(10, 0, GAUSSIAN), "r"),
    (dp.SampledWithReplacementDpEvent(10, 0, GAUSSIAN), "r"),
    (dp.SingleEpochTreeAggregationDpEvent(1.0, 4), "s"),
)
if newer := hasattr(dp, "EpsilonDeltaDpEvent"):
    WITH_PAIR += (
        (dp.EpsilonDeltaDpEvent(1.0, 0.1), "asr"),
        (dp.DiscreteGaussianDpEvent(3.0), "asr"),
        (dp.ExponentialMechanismDpEvent(1.0), "asr"),
        (dp.PermuteAndFlipDpEvent(1.0), "as"),
    )


def test_every_event_of_this_version_has_an_answer_or_is_named():
    kinds = {
        name
        for name, kind in inspect.getmembers(dp, inspect.isclass)
        if issubclass(kind, dp.DpEvent) and kind is not dp.DpEvent
    }
    assert kinds == {type(event).__name__ for event, _ in WITH_PAIR} | WITHOUT_PAIR.keys()
    for event, relations in WITH_PAIR:
        for letter, relation in zip("asr", (ADD_REMOVE, SPECIAL, REPLACE), strict=True):
            assert MechcAccountant(relation).supports(event) == (letter in relations), event


@pytest.mark.parametrize("event", WITHOUT_PAIR.values(), ids=WITHOUT_PAIR)
def test_events_without_a_pair_are_refused(event):
    nested = dp.SelfComposedDpEvent(dp.ComposedDpEvent([GAUSSIAN, event]), 2)
    accountant = MechcAccountant()
    assert not accountant.supports(nested)
    with pytest.raises(dp_accounting.UnsupportedEventError, match=type(event).__name__):
        accountant.compose(nested)
    assert isinstance(accountant.ledger, dp.NoOpDpEvent)
    assert accountant.get_epsilon(0) == 0
    with pytest.raises(UnsupportedError, match="no pair"):
        from_event(event)


@pytest.mark.skipif(not newer, reason="version 0.6.0 has none of these events")
def test_events_newer_than_version_0_6():
    guaranteed = [dp.EpsilonDeltaDpEvent(1.0, 0.1), dp.EpsilonDeltaDpEvent(2.0, 0.2)]
    assert MechcAccountant().compose(dp.ComposedDpEvent(guaranteed)).get_delta(3.0) == (
        pytest.approx(1 - 0.9 * 0.8, rel=1e-12)
    )
    assert MechcAccountant().compose(dp.EpsilonDeltaDpEvent(0.0, 0.0)).get_epsilon(0) == 0
    for event in (dp.ExponentialMechanismDpEvent(2.0), dp.PermuteAndFlipDpEvent(2.0)):
        assert MechcAccountant().compose(event).get_epsilon(0) == pytest.approx(2.0, rel=1e-8)
    masses = [math.exp(-(n**2) / 18) for n in range(-60, 61)]
    moved = [math.exp(-((n - 2) ** 2) / 18) for n in range(-60, 61)]
    delta = sum(max(p - math.exp(0.3) * q, 0) for p, q in zip(moved, masses, strict=True))
    noise = dp.DiscreteGaussianDpEvent(3.0, 1.0, dimension=1)
    known = MechcAccountant(REPLACE).compose(noise)
    assert known.get_delta(0.3) == pytest.approx(delta / sum(masses), rel=1e-9)
    unknown = MechcAccountant(REPLACE).compose(dp.DiscreteGaussianDpEvent(3.0, 1.0))
    assert unknown.get_delta(0.3) > known.get_delta(0.3)
    assert float(unknown.composition.zcdp()) == pytest.approx(2 / 9, rel=1e-9)


def test_a_subclass_of_an_event_is_another_event():
    class Half(dp.GaussianDpEvent):
        pass

    assert not MechcAccountant().supports(Half(1.0))


@pytest.mark.parametrize(
    "bad",
    [
        dp.GaussianDpEvent(-1.0),
        dp.LaplaceDpEvent(math.nan),
        dp.PoissonSampledDpEvent(1.5, GAUSSIAN),
        dp.RandomizedResponseDpEvent(1.5, 4),
        dp.RandomizedResponseDpEvent(0.5, 0),
        dp.SampledWithoutReplacementDpEvent(10, 11, GAUSSIAN),
        dp.SingleEpochTreeAggregationDpEvent(1.0, [-2]),
        dp.ZCDpEvent(-1.0),
    ],
)
def test_bad_parameters_leave_the_ledger_alone(bad):
    for relation in (ADD_REMOVE, REPLACE, SPECIAL):
        accountant = MechcAccountant(relation)
        with pytest.raises((DeclarationError, dp_accounting.UnsupportedEventError)):
            accountant.compose(bad)
        assert isinstance(accountant.ledger, dp.NoOpDpEvent)
    with pytest.raises(DeclarationError, match="neighboring_relation=1"):
        MechcAccountant(neighboring_relation=1)


@pytest.mark.parametrize(
    ("event", "epsilon", "delta"),
    [
        (dp.PoissonSampledDpEvent(0.0, dp.GaussianDpEvent(0.0)), 0.0, 0.0),
        (dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(0.0)), math.inf, 1.0),
        (dp.LaplaceDpEvent(0.0), math.inf, 1.0),
        (dp.MixtureOfGaussiansDpEvent(0.0, [0.0], [1.0]), 0.0, 0.0),
        (dp.ComposedDpEvent([dp.NonPrivateDpEvent(), GAUSSIAN]), math.inf, 1.0),
    ],
)
def test_nothing_and_everything(event, epsilon, delta):
    accountant = MechcAccountant().compose(event)
    assert (accountant.get_epsilon(1.0), accountant.get_delta(0.0)) == (epsilon, delta)


def test_their_calibration():
    def steps(sigma):
        return dp.SelfComposedDpEvent(dp.GaussianDpEvent(sigma), 25)

    found = dp_accounting.calibrate_dp_mechanism(MechcAccountant, steps, 1.0, 1e-6)
    known = mechc.calibrate(
        mechc.load("gaussian"), solve_for="sigma", count=25, epsilon=1.0, delta=1e-6
    )
    assert found == pytest.approx(known.value, abs=2e-6)
    assert gaussian_delta(5 / found, 1.0) <= 1e-6


def test_an_event_is_the_composition_one_would_write():
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(0.8)), 2000)
    assert from_event(event) == 2000 * mechc.poisson(mechc.load("gaussian"), 0.01)(sigma=0.8)
    assert from_event(dp.NonPrivateDpEvent()).epsilon(0.5).upper == math.inf
