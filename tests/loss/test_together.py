"""Laws beside others in a question are those that each would be alone."""

import numpy as np

import mechc
from mechc.composition import events as bindings
from mechc.composition.events import forget_losses
from mechc.composition.inputs import asked

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
