"""Losses near zero, of masses near one and of small rates, against 60 digits."""

import math

import pytest
import questions

import mechc

SETS = {
    "three_outcomes": (
        {"zero": 4.019447768141847e-09, "other": 2.768551258254796e-08, "peak": 0.054},
        {"zero": 0.5, "other": 0.5 + 1e-9, "peak": 0.5},
        {"zero": 4e-17, "other": 3e-19, "peak": 0.1},
    ),
    "leaky": ({"zero": 4.5e-5, "other": 2.7e-11}, {"zero": 2.7e-3, "other": 4.1e-7}),
    "unseen_key": ({"s": 0.727, "tau": 15.9, "d": 0.5}, {"s": 0.75, "tau": 5.4, "d": 0.5}),
    "thresholded": ({"s": 1.36, "tau": 11.83, "d": 1.0}, {"s": 0.53, "tau": 2.95, "d": 0.5}),
    "geometrics": ({"zero": 1.2676656379513689e-3, "other": 2.961880573210743e-07},),
}


RATES = (None, 2.6e-9, 2.86e-4, 1e-15)
SAMPLED = ("three_outcomes", "thresholded")  # that are asked in the default run, the others plain


@pytest.mark.few(4, 8)
@pytest.mark.parametrize(
    ("name", "rate"),
    [
        pytest.param(name, rate, marks=[] if rate == RATES[name in SAMPLED] else [pytest.mark.slow])
        for name in SETS
        for rate in RATES
    ],
)
def test_losses_near_zero(name, rate):
    kind = "plain" if rate is None else "poisson"
    mechanism = questions.load(name, kind)
    for values in SETS[name]:
        values = values if rate is None else {**values, "sampling_rate": rate}
        forward = questions.by_hand(name, values, kind)
        for direction, pair in (("remove", forward), ("add", forward.reversed())):
            losses = [p - q for p, q in pair.atoms[:3] if math.isfinite(p - q)]
            near = [questions.next_to(v, ulps) for v in losses for ulps in (0, 1, -1, 5)]
            asked = [(float(v), direction, 1) for v in [*near, 2.6e-86, -2.6e-86, -1e-12, 3e-9]]
            for question, answer in zip(
                asked, questions.asked(mechanism, values, asked), strict=True
            ):
                found = questions.contradiction(answer, pair, question[0], 1)
                assert not found, (values, question, found)


def test_a_rare_outcome_does_not_hide_small_losses():
    """An atom of nearly all mass is the complement of the others."""
    values = SETS["three_outcomes"][0]
    event = questions.load("three_outcomes")(**values)
    pair = questions.by_hand("three_outcomes", values).reversed()
    for epsilon in (-2.4e-8, -1e-7, 1e-3):
        least, most = pair.one_step_in_balls(epsilon)
        found = event.log_delta(epsilon, direction="add")
        assert least - 1e-12 <= found.estimate <= most + 1e-12
        assert found.upper - found.lower < 1e-4


def test_losses_rounded_inside_of_panels_are_no_polynomials():
    """Most losses are 1e-12 and have four digits; delta is at most twice the sampling rate."""
    event = mechc.without_replacement(mechc.load("gaussian"))(
        sigma=0.15887948496776882, sensitivity=1.0, sampling_rate=1.8140908686645093e-12
    )
    found = (2 * event).log_delta(0.1005845237431519, direction="add")
    one = event.log_delta(0.1005845237431519, direction="add")
    assert one.lower <= found.upper <= math.log(4e-12)


@pytest.mark.parametrize("sigma", [1e15, 1e17, 1e20])
def test_a_loss_that_rounds_to_zero_is_not_none(sigma):
    """Both cells hold half of a wide Gaussian, whose density at its centre gives the loss."""
    event = mechc.post_process(mechc.load("gaussian")(sigma=sigma), [0.3])
    loss = math.sqrt(2 / math.pi) / sigma
    for target in (0.0, 1e-200):
        found = event.epsilon(target)
        assert found.lower <= loss <= found.upper < 1e-12
