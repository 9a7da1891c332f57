"""Differential checks: agreement where there is some, and a planted disagreement."""

from functools import partial

import pytest

import mechc
from mechc.errors import DeclarationError
from mechc.verify import differential, monotone


def test_methods_agree_on_a_run_of_two_mechanisms():
    gaussian = mechc.load("gaussian")
    run = 30 * mechc.poisson(gaussian)(sigma=1.0, sampling_rate=0.1) + 3 * gaussian(sigma=5.0)
    report = run.check(epsilons=(1.0, 2.0))
    assert report.ok, str(report)
    assert report.comparisons > 50


def test_a_contradiction_is_reported_with_its_reproduction(monkeypatch):
    run = (5 * mechc.load("gaussian")(sigma=2.0)).composition()
    honest = type(run).log_delta

    def lying(self, epsilon, **how):
        bound = honest(self, epsilon, **how)
        if how.get("method") == "renyi":
            object.__setattr__(bound, "upper", float(bound.upper) - 30.0)
        return bound

    monkeypatch.setattr(type(run), "log_delta", lying)
    report = differential.check(run, (1.0,))
    assert not report.ok
    assert any("gaussian(sigma=2" in v.reproduction for v in report.violations)
    assert "renyi" in str(report)


@pytest.mark.parametrize("parameter", ["sampling_rate", "sigma"])
def test_a_parameter_that_moves_delta_the_wrong_way_is_reported(parameter):
    """Composed answers that follow another value of one parameter than the one that was bound."""
    run = 20 * mechc.poisson(mechc.load("gaussian"))(sigma=1.0, sampling_rate=0.1)
    ((bound, _),) = run.parts

    def ask(run, epsilon, direction, *, honest):
        ((event, count),) = run.parts
        if not honest and count > 1 and event.parameters[parameter] > bound.parameters[parameter]:
            values = {**event.parameters, parameter: event.parameters[parameter] / 3}
            run = count * event.mechanism(**values)
        answer = run.log_delta(epsilon, direction=direction)
        return float(answer.lower), float(answer.upper)

    compared = list(monotone.comparisons(run, (1.0,), partial(ask, honest=True)))
    assert len(compared) > 40 and all(one.fine for one in compared)
    (found, *more) = (
        one for one in monotone.comparisons(run, (1.0,), partial(ask, honest=False)) if not one.fine
    )
    assert parameter in found.statement and len(more) == 1  # the other direction
    assert "20 * poisson(gaussian)(sigma=1" in found.reproduction


def test_runs_are_read_from_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'epsilons = [1.0]\n[[step]]\nmechanism = "gaussian"\ncount = 4\npoisson = 0.1\n'
        "parameters = { sigma = 2.0 }\n"
    )
    run, epsilons = differential.read(path)
    assert run.count == 4 and epsilons == (1.0,)
    path.write_text("[[step]]\ncount = 4\n")
    with pytest.raises(DeclarationError, match="mechanism"):
        differential.read(path)
