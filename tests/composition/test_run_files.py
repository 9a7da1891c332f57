"""Run files: what is written is read again, answers the same digits, and never runs anything."""

import contextlib
import json
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sympy import Piecewise, exp
from typer.testing import CliRunner

import mechc
from mechc.cli.commands import app
from mechc.composition import inputs
from mechc.composition.run_file import RunFileWarning, recheck
from mechc.declare import additive, dominates, mechanism, positive, real
from mechc.errors import CacheError, DeclarationError, UnsupportedError
from mechc.individual import GDPFilter, StateError
from mechc.integrations.dp_accounting import from_dp_accounting, to_dp_accounting
from mechc.kernel import cache


def run_cli(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def gumbel():
    x, scale, s = real("x"), positive("scale"), positive("sensitivity", default=1)
    noise = exp(-x / scale - exp(-x / scale)) / scale
    return mechc.load(
        additive("gumbel", noise=noise, variable=x, sensitivity=s, parameters=(scale, s))
    )


@pytest.fixture
def run():
    gaussian, laplace = mechc.load("gaussian"), mechc.load("laplace")
    return 200 * mechc.poisson(gaussian, 0.01)(sigma=0.8) + 3 * laplace(scale=20.0)


def test_a_saved_run_is_the_run(run, tmp_path):
    path = tmp_path / "a run.json"
    assert run.save(path, delta=[1e-5, 1e-9], epsilon=0.5) == path
    (record,) = map(json.loads, path.read_text("utf-8").splitlines())
    assert record["adjacency"] == "add_remove" and record["versions"]["mechc"] == mechc.__version__
    assert [a["ask"] for a in record["answers"]] == ["epsilon", "epsilon", "delta"]
    assert mechc.open(path) == run
    again = recheck(path)
    assert again.ok and {a.verdict for a in again.answers} == {"same digits"}
    assert not again.notes
    path.write_text(json.dumps(record, indent=2), "utf-8")  # as people lay it out
    assert mechc.open(str(path)) == run


def test_another_process_answers_the_same(run, tmp_path):
    path = tmp_path / "run.json"
    run.save(path)
    words = [sys.executable, "-c", "from mechc.cli import main; main()", "check", path, "--json"]
    done = subprocess.run(words, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (answer,) = found["answers"]
    assert found["ok"] and answer["verdict"] == "same digits"
    assert answer["found"]["upper"] == answer["held"]["upper"]


def test_formulas_and_guarantees_are_kept(tmp_path):
    path = tmp_path / "run.json"
    x, a = real("x"), positive("a", typical=(1, 3))
    density = Piecewise((exp(-x), x > 0), (0, True))
    other = Piecewise((a * exp(-a * x), x > 0), (0, True))
    pair = mechc.load(mechanism("rates", variable=x, p=density, q=other, parameters=(a,)))
    kept = 2 * gumbel()(scale=9.0) + pair(a=1.5)
    kept.save(path)
    opened = mechc.open(path)
    assert opened.adjacency == kept.adjacency and opened.claim.status == kept.claim.status
    assert opened.delta(0.3).upper == pytest.approx(kept.delta(0.3).upper, rel=1e-12)
    given_alone = 3 * mechc.zcdp(0.01, adjacency="replace")
    given_alone.save(path)
    assert mechc.open(path).epsilon(1e-5).upper == given_alone.epsilon(1e-5).upper
    assert mechc.open(path).adjacency == "replace"
    beside = mechc.zcdp(0.1, 0.5)
    beside.save(path)
    assert mechc.open(path).epsilon(1e-5).upper == beside.epsilon(1e-5).upper
    x = real("x")
    claim = dominates("any", because="so it is")
    claimed = mechanism("claimed", variable=x, p=density, q=other.subs(a, 2), claim=claim)
    with pytest.raises(UnsupportedError, match="in a mechanism file is kept"):
        mechc.load(claimed)().save(path)


def epoch(steps=8):
    return mechc.random_allocation(mechc.load("gaussian")(sigma=2.0), steps)


OPERATIONS = {
    "epoch": epoch,
    "epochs of blocks": lambda: mechc.random_allocation(
        mechc.load("gaussian")(sigma=2.0), 8, selected=3, epochs=2
    ),
    "schedule": lambda: mechc.random_allocation(
        mechc.load("gaussian")(sigma=sigma) for sigma in (2.0, 3.0, 3.0)
    ),
    "a sample of an epoch": lambda: mechc.poisson(epoch(), Fraction(1, 3)),
    "cut": lambda: mechc.dpsgd(
        dataset_size=1000, batch_size=100, steps=25, noise_multiplier=2.0, sampler="truncated",
        batch_cap=120,
    ),
    "cut rarely": lambda: mechc.reductions.truncated_poisson(
        2.0, sampling_rate=0.1, dataset_size=1000, batch_cap=400
    ),
    "radial": lambda: 3 * mechc.radial(mechc.load("laplace")(scale=2.0), 2),
    "mixture": lambda: mechc.mixture(
        (mechc.load("pure_dp")(epsilon=e) for e in (0.1, 0.2)), [0.5, 0.5]
    ),
    "mixture of what numbers give": lambda: mechc.mixture(
        [mechc.from_pmfs([0.5, 0.5], [0.4, 0.6]), epoch(1)], [0.5, 0.5], step=0.01
    ),
    "losses": lambda: mechc.from_losses(
        np.array([1, -1]), [0.6, 0.4], step=0.1, adjacency="replace", name="two"
    ),
    "losses of two directions": lambda: mechc.from_losses([0.1], [1.0], add=([0.1], [1.0], 0.0)),
    "pmfs": lambda: 5 * mechc.from_pmfs([0.5, 0.3, 0.2], [0.4, 0.4, 0.2]),
    "cells": lambda: mechc.post_process(mechc.load("gaussian")(sigma=1.0), [0.5]),
    "rdp": lambda: mechc.rdp([2, 4], [0.1, 0.2]) + mechc.zcdp(0.01),
    "with replacement": lambda: mechc.reductions.drawn_with_replacement(
        mechc.load("laplace")(scale=9.0, sensitivity=2.0), dataset_size=1000, batch_size=10
    ),
    "dp_accounting": lambda: from_dp_accounting(
        to_dp_accounting(mechc.load("randomized_response")(epsilon=0.5, categories=3))
    ),
}  # fmt: skip


def test_what_has_no_kernel_is_kept_by_how_it_was_made(tmp_path):
    pytest.importorskip("dp_accounting")
    for name, make in OPERATIONS.items():
        path, run = tmp_path / f"{name}.json", mechc.compose(make())
        run.save(path, delta=1e-3)
        opened = mechc.open(path)
        assert opened == run and opened.claim == run.claim and opened.adjacency == run.adjacency
        assert opened.to_json() == run.to_json()
        run_cli("record", tmp_path / f"{name} twice.json", path, "--count", 2)
        assert mechc.open(tmp_path / f"{name} twice.json") == 2 * run
        assert [answer.verdict for answer in recheck(path).answers] == ["same digits"], name


def test_steps_of_a_run_file_are_taken_as_they_are(tmp_path, laplace):
    path, other = tmp_path / "run.json", tmp_path / "other.json"
    laplace(scale=2.0).save(other)
    for words in (("--poisson", 0.1), ("--set", "scale=9"), ("--adjacency", "replace")):
        assert "--count alone" in run_cli("record", path, other, *words, code=2)
    assert not path.exists()


def test_people_write_operations_too(tmp_path):
    path = tmp_path / "run.toml"
    page = (Path(__file__).parents[2] / "docs" / "trust.md").read_text("utf-8")
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], "utf-8")
    planar = mechc.radial(mechc.load("laplace")(scale=2.0), 2)
    assert mechc.open(path) == (
        1000 * mechc.poisson(mechc.load("gaussian"), 0.01)(sigma=2.0)
        + 3 * mechc.from_pmfs([0.5, 0.3, 0.2], [0.4, 0.4, 0.2])
        + mechc.poisson(planar, 0.1)
    )


def test_arguments_are_kept_as_they_were(tmp_path):
    p = np.array([0.5, 0.5])
    event = mechc.from_pmfs(p, [0.4, 0.6])
    p[:] = 0.9, 0.1
    event.save(tmp_path / "run.json")
    assert mechc.open(tmp_path / "run.json") == event


def test_training_is_recorded_as_it_is_asked(tmp_path):
    path = tmp_path / "run.json"
    words = {"dataset_size": 100, "batch_size": 10, "steps": 25, "noise_multiplier": 2.0}
    options = [x for k, v in words.items() for x in (f"--{k.replace('_', '-')}", v)]
    for sampler, more in (("allocation", {}), ("truncated", {"batch_cap": 14})):
        beside = [x for k, v in more.items() for x in (f"--{k.replace('_', '-')}", v)]
        run_cli("dpsgd", *options, "--sampler", sampler, *beside, "--delta", 1e-3, "--record", path)
    asked = (mechc.dpsgd(**words, sampler="allocation")
             + mechc.dpsgd(**words, sampler="truncated", batch_cap=14))  # fmt: skip
    assert mechc.open(path) == asked
    run_cli("dpsgd", *options, "--solve-for", "steps", "--delta", 1e-3, "--epsilon", 1, "--record",
            path, code=2)  # fmt: skip


def test_what_the_first_format_said_is_read(tmp_path):
    path = tmp_path / "run.json"
    given_alone = {"zcdp": 0.1, "xi": 0.5, "adjacency": "replace", "count": 3}
    record = {"mechc_run": 1, "versions": {}, "adjacency": "replace", "steps": [given_alone],
              "answers": []}  # fmt: skip
    path.write_text(json.dumps(record) + "\n")
    assert mechc.open(path) == 3 * mechc.zcdp(0.1, 0.5, adjacency="replace")


@pytest.mark.parametrize("made", ["poisson", "radial", "post_process", "truncated_poisson"])
def test_an_operation_of_what_is_named_runs_nothing(made, tmp_path):
    program, ran, path = tmp_path / "mine.py", tmp_path / "ran", tmp_path / "run.toml"
    program.write_text(f"open({str(ran)!r}, 'w').close()\n")
    for what in ("what", "event"):
        path.write_text(f'[[step]]\nmade = "{made}"\n{what} = "{program}"\n'
                        "sampling_rate = 0.1\n")  # fmt: skip
        for allowed in (False, True):
            with pytest.raises(DeclarationError):
                mechc.open(path, allow_files=allowed)
    assert not ran.exists()


def test_a_kernel_is_kept_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.json"
    laplace = mechc.load("laplace")
    loaded = mechc.load(cache.load(laplace.emit(tmp_path / "mine.py")))(scale=3.0)
    loaded.save(path)
    with pytest.raises(DeclarationError, match="allow_files"):
        mechc.open(path)
    # whatever it is called
    record = json.loads(path.read_text())
    record["steps"][0]["kernel"] = Path(record["steps"][0]["kernel"]).rename("gaussian").name
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(DeclarationError, match="allow_files"):
        mechc.open(path)
    held, found = loaded.epsilon(0.01), mechc.open(path, allow_files=True).epsilon(0.01)
    assert (found.lower, found.upper) == (held.lower, held.upper)


@pytest.mark.parametrize(
    "words",
    [
        "made='evil'", "made='epoch'\nparts=[]\nsteps=3\nselected=1",
        "made='epoch'\nparts=[[{mechanism='gdp', parameters={mu=1.0}}, 2]]\n"
        "steps=3\nselected=1",
        # that of one of five steps, where the record is in two
        "made='epoch'\nparts=[[{mechanism='gaussian', parameters={sigma=1.0}}, 5]]\n"
        "steps=5\nselected=2",
        "made='zcdp'\nrho=-1.0", "made='zcdp'\nrho=1.0\nchi=2.0", "made='rdp'\norders=[2.0]",
        "made='from_pmfs'\np=[0.5, 0.6]\nq=[0.5, 0.5]",
        "made='mixture'\nevents=['gdp']\nweights=[1]",
    ],
)  # fmt: skip
def test_operations_check_what_a_file_says(words, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(f"[[step]]\n{words}\n")
    with pytest.raises(DeclarationError):
        mechc.open(path)


@pytest.mark.parametrize("words", [{"rho": 0.6}, {"made": "rdp"}, {"mechanism": "gdp"}])
def test_nothing_beside_zcdp_is_passed_over(words, tmp_path):
    path = tmp_path / "run.json"
    record = {**RECORD, "steps": [{"zcdp": 0.5, "adjacency": "any", "count": 1, **words}]}
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(DeclarationError, match="is not known"):
        mechc.open(path)


GAUSSIAN = "mechanism = 'gaussian'\nparameters = {sigma = 1.0, sensitivity = 1.0}"


@pytest.mark.parametrize("step", [
    f"{GAUSSIAN}\ntransforms = []\ndefaulted = ['sensitivity']",
    "made = 'zcdp'\nrho = 1.0\nadjacency = 'add_remove'\n[[step]]\nmade = 'zcdp'\nrho = 1.0\n"
    "adjacency = 'replace'",
    "made = 'truncated_poisson'\nevent = 1.0\nsampling_rate = 0.1\ndataset_size = 9\nbatch_cap = 2",
])  # fmt: skip
def test_steps_for_other_neighbours_than_a_file_says_are_refused(step, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(f"adjacency = 'replace'\n[[step]]\n{step}\n")
    with pytest.raises(DeclarationError, match=r"add_remove|default sensitivity"):
        mechc.open(path)


@pytest.mark.parametrize("symmetric", [np.False_, np.True_])
def test_truths_of_numpy_are_kept(symmetric, tmp_path):
    event = mechc.from_losses([-0.5, 0.5], [0.3, 0.7], symmetric=symmetric)
    event.save(tmp_path / "run.json")
    assert mechc.open(tmp_path / "run.json") == event == pickle.loads(pickle.dumps(event))


@pytest.mark.parametrize("sampler", ["poisson", "fixed", "shuffled"])
def test_training_runs_come_back_with_their_relation(sampler, tmp_path):
    path = tmp_path / "run.json"
    made = mechc.dpsgd(dataset_size=100, batch_size=10, epochs=2, noise_multiplier=2.0,
                       sampler=sampler, adjacency="replace")  # fmt: skip
    made.save(path, delta=None)
    assert mechc.open(path) == made and mechc.open(path).adjacency == "replace"
    text = path.read_text("utf-8").replace('"adjacency": "replace"', '"adjacency": "add_remove"')
    path.write_text(text)
    with pytest.raises(DeclarationError, match="adjacency='add_remove', but"):
        mechc.open(path)


def test_a_changed_answer_is_a_contradiction(run, tmp_path):
    path = tmp_path / "run.json"
    run.save(path)
    record = json.loads(path.read_text("utf-8"))
    for side in ("lower", "estimate", "upper"):
        record["answers"][0]["answer"][side] -= 0.01
    path.write_text(json.dumps(record) + "\n")
    assert not recheck(path).ok
    assert "contradicts" in run_cli("check", path, code=1)
    record["steps"][0]["digest"] = "0" * 64
    path.write_text(json.dumps(record) + "\n")
    with pytest.warns(RunFileWarning, match="its file is not the one"):
        mechc.open(path)
    assert "its file is not the one" in "".join(recheck(path).notes)


def test_recording_step_by_step(tmp_path):
    path = tmp_path / "run.json"
    words = ("gaussian", "--set", "sigma=1.1", "--poisson", "256/60000")
    for _ in range(3):
        run_cli("record", path, *words, "--count", 100)
    assert "400 steps" in run_cli("record", path, *words, "--count", 100)
    run_cli("record", path, "laplace", "--set", "scale=30", "--delta", "1e-5")
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 6 and not json.loads(lines[-1])["steps"]
    run = mechc.dpsgd(dataset_size=60_000, batch_size=256, steps=400, noise_multiplier=1.1)
    run += mechc.load("laplace")(scale=30.0)
    assert mechc.open(path) == run
    assert "epsilon at delta 1e-05" in run_cli("check", path)
    shown = json.loads(run_cli("open", path, "--delta", "1e-5", "--json"))
    assert shown["count"] == 401
    assert shown["answers"][0]["upper"] == pytest.approx(run.epsilon(1e-5).upper, rel=1e-12)
    run_cli("record", path, *words, "--adjacency", "replace", code=2)  # two relations
    run_cli("record", path, *words, "--delta", 2, code=2)
    assert path.read_text("utf-8").splitlines() == lines


def test_what_a_crash_leaves_is_told_and_mended(run, tmp_path):
    path = tmp_path / "run.json"
    one = mechc.load("gaussian")(sigma=3.0)
    one.save(path, append=True)
    whole = path.read_bytes()
    one.save(path, append=True)
    for end in (len(whole) + 1, len(whole) + 60, 2 * len(whole) - 2):
        path.write_bytes((whole + whole)[:end])
        with pytest.warns(RunFileWarning, match="is not whole"):
            assert mechc.open(path).count == 1
        one.save(path, append=True)
        assert mechc.open(path).count == 2 and path.read_bytes() == whole + whole
    path.write_bytes(whole + whole[:40] + b"\n" + whole)
    with pytest.raises(DeclarationError, match="line 2"):
        mechc.open(path)
    with pytest.raises(CacheError, match="cannot write"):
        one.save(tmp_path / "missing" / "run.json", append=True)


def test_processes_that_record_at_once_lose_nothing(tmp_path):
    path = tmp_path / "run.json"
    code = "import mechc, sys; g = mechc.load('gaussian')(sigma=3.0)\n"
    code += "for _ in range(25): g.save(sys.argv[1], append=True)"
    workers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    assert [w.wait(timeout=300) for w in workers] == [0, 0]
    assert mechc.open(path).count == 50


def test_a_run_that_names_a_file_runs_nothing(tmp_path):
    program, ran, path = tmp_path / "mine.py", tmp_path / "ran", tmp_path / "run.json"
    program.write_text(f"open({str(ran)!r}, 'w').close()\n")
    step = {"mechanism": str(program), "transforms": [], "parameters": {}, "count": 1}
    record = {"mechc_run": 1, "versions": {}, "adjacency": "any", "steps": [step], "answers": []}
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(DeclarationError, match="allow_files"):
        mechc.open(path)
    assert "--allow-files" in run_cli("check", path, code=2) and not ran.exists()
    step |= {"mechanism": "x", "text": {"p": "__import__('os')", "q": "1"}}
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(DeclarationError):
        mechc.open(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["gaussian", "laplace", "any", "epsilon", "poisson"])
    | st.just("__import__('antigravity')"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)  # fmt: skip
STEP = {"mechanism": "gdp", "transforms": [], "parameters": {"mu": 1.0}, "count": 1}
RECORD = {"mechc_run": 1, "versions": {}, "adjacency": "any", "steps": [STEP], "answers": []}


@pytest.mark.parametrize("examples", [30, pytest.param(5_000, marks=pytest.mark.slow)])
def test_hostile_files_are_read_or_refused(examples, tmp_path):
    path = tmp_path / "run.json"

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from([*STEP, "zcdp", "text", "made", "kernel"]),
        st.sampled_from([*RECORD, "step"]),
        VALUES,
    )
    def read(inner, outer, value):
        changed = {**RECORD, outer: value}
        if outer == "step":
            changed["steps"] = [{**STEP, inner: value}]
        path.write_text(json.dumps(changed) + "\n", "utf-8", errors="replace")
        with contextlib.suppress(DeclarationError, UnsupportedError):
            recheck(path)

    read()
    for bomb in ("{" * 100_000, '{"mechc_run":' * 5000, "{}", '{"mechc_run": 2}', "{\x00"):
        path.write_text(bomb)
        with pytest.raises(DeclarationError):
            mechc.open(path)
    with pytest.raises(DeclarationError):
        mechc.open(tmp_path / "none.json")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "changed, word",
    [
        ({**RECORD, "step": []}, "steps"),
        ({**RECORD, "steps": [{**STEP, "poison": 0.01}]}, "parameters"),
        ({**RECORD, "steps": [{"zcdp": 0.5, "adjacency": "any", "count": 1, "cuont": 2}]}, "zcdp"),
        ({**RECORD, "answers": [{"ask": "epsilon", "dleta": 1e-5, "answer": {}}]}, "delta"),
    ],
)
def test_a_word_that_is_not_known_is_refused(changed, word, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(changed) + "\n")
    with pytest.raises(DeclarationError, match=f"is not known.*{word}"):
        recheck(path)


def test_a_word_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RECORD).replace('"count": ', '"count": 1000, "count": ') + "\n")
    with pytest.raises(DeclarationError, match="stands twice among mechanism"):
        mechc.open(path)


def test_nothing_is_added_to_what_has_no_lines(tmp_path, gaussian):
    path = tmp_path / "run.json"
    gaussian(sigma=2.0).save(path)
    laid_out = json.dumps(json.loads(path.read_text()), indent=1)
    for text in (laid_out, laid_out + "\n"):
        path.write_text(text)
        assert mechc.open(path).count == 1
        run_cli("record", path, "gaussian", "--set", "sigma=2", code=2)
        assert path.read_text() == text
    with pytest.raises(DeclarationError, match="a pipe or a device"):
        gaussian(sigma=2.0).save("/dev/null", append=True)
    for text in ("notes of mine", '{"epsilon": 1}', '{"epsilon": 1}\n', '{"mechc'):
        path.write_text(text)
        with contextlib.nullcontext() if "mechc" in text else pytest.raises(DeclarationError):
            gaussian(sigma=2.0).save(path, append=True)
        assert (path.read_text() == text) is ("mechc" not in text)


def test_what_was_left_at_its_default_stays_known(tmp_path, gaussian):
    """Of neighbours that replace a record the default sensitivity is that of half a move."""
    path = tmp_path / "run.json"
    for sensitivity in ({}, {"sensitivity": 1.0}):
        gaussian(sigma=2.0, **sensitivity).save(path)
        replaced = mechc.poisson(gaussian, 0.1, "replace")(sigma=2.0, sensitivity=2.0)
        with contextlib.nullcontext() if sensitivity else pytest.raises(DeclarationError):
            _ = mechc.open(path) + replaced
    changed = json.loads(path.read_text())
    step = changed["steps"][0]
    for left, value, chain in (("sensitivity", 1.0, []), (["sensitivity"], 3.0, []),
                               (["sensitivity"], 1.0, [["without_replacement"]])):  # fmt: skip
        step |= {"defaulted": left, "transforms": chain}
        step["parameters"] = {"sigma": 2.0, "sensitivity": value}
        step["parameters"] |= {"sampling_rate": 0.1} if chain else {}
        path.write_text(json.dumps(changed))
        with pytest.raises(DeclarationError, match="defaulted="):
            mechc.open(path)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path, gaussian):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    gaussian.emit(path)
    assert os.read(reader, 1 << 20).decode() == gaussian.source and path.is_fifo()
    os.close(reader)
    with pytest.raises(StateError, match="a pipe"):
        GDPFilter(people=1, mu=1.0).save(path)


def test_a_file_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(inputs, "MOST_BYTES", 1 << 10)
    for words in (("open",), ("check",), ("individual", "chunk")):
        assert "more than 1024 bytes" in run_cli(*words, "/dev/zero", code=2)


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("step=[]", "no contradiction", 0),
        ("epsilons=[nan]\n[[step]]\nmechanism='gdp'\nparameters={mu=1}", "not a number", 2),
    ],
)
def test_no_steps_and_no_numbers_in_toml(text, words, code, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert words in run_cli("check", path, code=code)


@pytest.mark.parametrize("text", ["[[step]]\nmechanism='gdp'\nrate=0.1", "deltas=[1]\nstep=[]"])
def test_a_word_of_toml_that_is_not_known_is_refused(text, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(DeclarationError, match=r"is not known.*expected"):
        mechc.open(path)


def test_toml_opens_too(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[[step]]\nmechanism = "gdp"\nparameters = { mu = 0.5 }\ncount = 4\n')
    assert mechc.open(path).count == 4
    value = norm.cdf(0.0) - math.e**0.5 * norm.cdf(-1.0)  # N(1, 1) against N(0, 1)
    assert mechc.open(path).delta(0.5).upper == pytest.approx(value, rel=1e-9)


def test_steps_for_other_neighbours_are_not_added(tmp_path, gaussian):
    path = tmp_path / "run.json"
    gaussian(sigma=2.0).save(path, append=True)  # any relation
    sampled = mechc.poisson(gaussian, 0.1)(sigma=2.0)
    sampled.save(path, append=True)
    before = path.read_bytes()
    with pytest.raises(DeclarationError, match="holds steps for add/remove neighbours"):
        mechc.poisson(gaussian, 0.1, adjacency="replace")(sigma=2.0).save(path, append=True)
    assert path.read_bytes() == before
    gaussian(sigma=3.0).save(path, append=True)
    assert mechc.open(path) == gaussian(sigma=2.0) + sampled + gaussian(sigma=3.0)
