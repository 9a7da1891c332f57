"""Differential checks: agreement where there is some, and a planted disagreement."""

import contextlib
import json
import sys
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mechc
from mechc.cli.commands import app
from mechc.composition import run_file
from mechc.errors import DeclarationError
from mechc.verify import agreement

gaussian = mechc.load("gaussian")


@pytest.mark.few(0)
@pytest.mark.parametrize(
    "event",
    [
        lambda: mechc.load("pure_dp")(epsilon=0.3),
        lambda: mechc.poisson(gaussian)(sigma=1.0, sampling_rate=0.1),
    ],
    ids=["pure_dp", "poisson(gaussian)"],
)
def test_methods_agree_on_a_run_of_two_mechanisms(event):
    report = (30 * event() + 3 * gaussian(sigma=5.0)).check(epsilons=(1.0,))
    assert report.ok, str(report)
    assert report.comparisons > 25


def test_a_contradiction_is_reported_with_its_reproduction(monkeypatch):
    run = (5 * mechc.load("gaussian")(sigma=2.0)).composition()
    honest = type(run).log_delta

    def lying(self, epsilon, **how):
        bound = honest(self, epsilon, **how)
        if how.get("method") == "renyi":
            object.__setattr__(bound, "upper", float(bound.upper) - 30.0)
        return bound

    monkeypatch.setattr(type(run), "log_delta", lying)
    report = agreement.check(run, (1.0,))
    assert not report.ok
    assert any("gaussian(sigma=2" in v.reproduction for v in report.violations)
    assert "renyi" in str(report)


@pytest.mark.few(0)
@pytest.mark.parametrize("parameter", ["sampling_rate", "sensitivity"])
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

    compared = list(agreement.comparisons(run, (1.0,), partial(ask, honest=True)))
    assert len(compared) > 40 and all(one.fine for one in compared)
    (found, *more) = (
        one
        for one in agreement.comparisons(run, (1.0,), partial(ask, honest=False))
        if not one.fine
    )
    assert parameter in found.statement and len(more) == 1  # the other direction
    assert "20 * poisson(gaussian)(sigma=1" in found.reproduction


def test_runs_are_read_from_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'epsilons = [1.0]\n[[step]]\nmechanism = "gaussian"\ncount = 4\npoisson = 0.1\n'
        "parameters = { sigma = 2.0 }\n"
    )
    run, epsilons = run_file.read(path)
    assert run.count == 4 and epsilons == (1.0,)
    path.write_text("[[step]]\ncount = 4\n")
    with pytest.raises(DeclarationError, match="mechanism"):
        run_file.read(path)


def test_a_run_that_names_a_file_runs_nothing(tmp_path):
    """Mechanism files are programs: only whoever says so runs them."""
    program, ran, path = tmp_path / "mine.py", tmp_path / "ran", tmp_path / "run.toml"
    program.write_text(
        f"open({str(ran)!r}, 'w').close()\nfrom mechc.declare import mechanism\n"
        'mine = mechanism("mine", outcomes=((0.5, 0.25), (0.5, 0.75)))\n'
    )
    path.write_text(f"epsilons = [1.0]\n[[step]]\nmechanism = {json.dumps(str(program))}\n")
    refused = CliRunner().invoke(app, ["check", str(path)])
    assert refused.exit_code == 2 and "--allow-files" in refused.stderr and not ran.exists()
    with pytest.raises(DeclarationError, match="allow_files"):
        run_file.read(path)
    assert not ran.exists()
    assert run_file.read(path, allow_files=True)[0].count == 1
    assert ran.exists()


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["gaussian", "laplace", "../x", "os", "__import__('antigravity')"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)  # fmt: skip
KEYS = st.sampled_from(["mechanism", "parameters", "count", "poisson", "self", "sigma", "x"])
ROWS = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES), max_size=4)


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


FILES = st.text(max_size=60) | st.builds(
    lambda rows, epsilons: f"epsilons = {toml(epsilons)}\nstep = {toml(rows)}",
    st.lists(ROWS, max_size=2) | VALUES, VALUES,
)  # fmt: skip


@pytest.mark.parametrize("examples", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_hostile_files_are_read_or_refused(examples, tmp_path, capsys):
    path = tmp_path / "run.toml"

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(FILES)
    def read(text):
        path.write_text(text, "utf-8", errors="replace")
        with contextlib.suppress(DeclarationError):
            run_file.read(path)

    read()
    for bomb in ("a = " + "[" * 100_000, "[" * 5000, "step = 1e999999999", "\x00", "a." * 9999):
        path.write_text(bomb)
        with pytest.raises(DeclarationError):
            run_file.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DeclarationError):
        run_file.read(path)
    assert capsys.readouterr().out == ""
    assert "antigravity" not in sys.modules  # which the values would import if they were run
