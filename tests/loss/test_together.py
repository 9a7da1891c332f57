"""Laws that are bound and refined together are those that each would be alone, in every digit."""

import numpy as np
import pytest

import mechc
from mechc.composition import events as bindings
from mechc.composition.events import forget_losses
from mechc.composition.inputs import asked
from mechc.loss.privacy_loss import bound, covering
from mechc.loss.quadrature import resolution

SEED = 20261128
SCALES = {"gaussian": "sigma", "laplace": "scale", "logistic": "scale", "discrete_laplace": "a"}
RUNS = [*SCALES, "poisson gaussian", "poisson laplace"]


def settings(run, count=12):
    """A mechanism and events that need different panels, tilts and rounds."""
    rng = np.random.default_rng(SEED)
    sampled, _, name = run.rpartition(" ")
    mechanism = mechc.load(name)
    values = {SCALES[name]: np.exp(rng.uniform(np.log(0.2), np.log(30.0), count))}
    if sampled:
        mechanism = mechc.poisson(mechanism)
        values["sampling_rate"] = np.exp(rng.uniform(np.log(1e-6), np.log(0.9), count))
    rows = zip(*values.values(), strict=True)
    return mechanism, [mechanism(**dict(zip(values, row, strict=True))) for row in rows]


def same(one, other):
    """Whether two laws have the same digits everywhere."""
    arrays = ("loss", "log_weight", "spacing", "region", "atom_loss", "atom_log_mass")
    numbers = ("tilts", "strip", "support", "tolerance", "mass_errors", "early", "label")
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in arrays
    ) and all(getattr(one, name) == getattr(other, name) for name in numbers)


@pytest.mark.few(0, 2, 4, 5, 8, 11)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("run", RUNS)
def test_laws_alone_and_beside_others(run, reverse):
    mechanism, events = settings(run)
    kernel, thetas = mechanism.law_kernel, [np.array(event.theta) for event in events]
    laws, alone = bound(kernel, thetas), [bound(kernel, [theta])[0] for theta in thetas]
    if reverse:
        laws, alone = ([law.reversed() for law in some] for some in (laws, alone))
    assert all(map(same, laws, alone))
    top = 0.5 * min(8.0, *(min(law.strip[1], -1.0 - law.strip[0]) for law in laws))
    for *tilts, wave in (
        (-1.0, top, ()), (-1.0 - top, top, top, (20.0, 1e-18)), (-1.0, 0.5 * top, 1.0, (9.0, 0.0)),
    ):  # fmt: skip
        laws = covering(laws, *tilts, waves=[wave] if wave else ())
        alone = [law.covering(*tilts, *wave) for law in alone]
        assert all(map(same, laws, alone))


def test_many_kernels_and_a_law_that_does_not_settle():
    events = [event for run in RUNS[:4] for event in settings(run, 4)[1]]
    events.append(mechc.load("gaussian")(sigma=1e-12))
    run, answers = sum(events[1:], 1 * events[0]), []
    for before in ([], events[:-1]):
        forget_losses()
        for event in before:
            event.loss()
        answers.append(run.delta(3.0))
    assert answers[0].upper == answers[1].upper and answers[0].lower == answers[1].lower


def test_a_question_with_more_laws_than_are_kept_for_others_binds_each_once(monkeypatch):
    monkeypatch.setattr(bindings, "MOST_FIRST", 2)
    forget_losses()
    _, events = settings("gaussian", 4)
    run = sum(events[1:], 1 * events[0])
    with asked():
        laws = [step.loss for step in run.steps("remove")]
        monkeypatch.setattr(bindings, "_bind", None)
        assert all(a is step.loss for a, step in zip(laws, run.steps("remove"), strict=True))


def test_sums_of_one_law_that_are_no_numbers_leave_others_to_be_resolved():
    """They were cut no more where the sum of errors of a third was beyond doubles."""
    half = np.arange(3.0)
    values = np.zeros((3, 3, 16))
    panels = resolution.Panels(np.arange(3), half, half + 1.0, *values)
    starts, rows = np.arange(4), np.column_stack([half, half + 1.0])
    report = np.ones((3, 1, 2, 3))
    report[:, :, :, 1:] = 1e-20, 0.0
    report[0, 0, 1] = np.inf, np.inf, np.nan
    report[1, 0, 1, 1] = 1e-12
    tilts, goal, unit = np.zeros(1), np.full(2, 1e-17), np.zeros((3, 1))
    with np.errstate(invalid="ignore"):
        found = resolution.judge(panels, starts, starts, rows, tilts, goal, unit, report)
    assert found[2].tolist()[1:] == [2, 1]
    assert found[5][0] == np.inf
