"""Differential checks: agreement where there is some, and a planted disagreement."""

import pytest

import mechc
from mechc.errors import DeclarationError
from mechc.verify import differential


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
