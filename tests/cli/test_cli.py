"""The command line: answers, errors as one line with an exit code, files that appear whole."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import mechc
from mechc.accountants.bound import Bound
from mechc.adjacency import Claim
from mechc.cli.commands import app, individual, out
from mechc.composition.events import Composition
from mechc.kernel import cache
from mechc.report.tables import bound, under

GAUSSIAN = ["gaussian", "--set", "sigma=0.8", "--poisson", "0.01", "--count", "2000"]


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_epsilon_of_a_known_run():
    answer = json.loads(run("epsilon", *GAUSSIAN, "--delta", "1e-5", "--json").stdout)
    assert answer["lower"] <= 4.2934362885701 + 1e-12
    assert answer["upper"] >= 4.2934362885701 - 1e-12
    assert answer["status"] == "proven"
    text = run("epsilon", *GAUSSIAN, "--delta", "1e-5").stdout
    assert "4.29343628" in text and "upper bound" in text


def test_delta_and_its_log():
    plain = json.loads(run("delta", *GAUSSIAN, "--epsilon", "1", "--json").stdout)
    log = json.loads(run("delta", *GAUSSIAN, "--epsilon", "1", "--log", "--json").stdout)
    assert plain["upper"] > 0 > log["upper"]


def test_a_method_without_proof_prints_no_bounds():
    answer = json.loads(run("delta", *GAUSSIAN, "-e", "1", "--method", "clt", "--json").stdout)
    assert answer["lower"] is None and answer["upper"] is None and answer["estimate"] > 0


def test_lists_fractions_and_homes_on_the_command_line(tmp_path, monkeypatch):
    words = ["--set", "sigma=2", "--set", "sensitivities=0,1,2", "--set", "weights=.5,1/4,25%"]
    answer = json.loads(run("epsilon", "mixture_of_gaussians", *words, "-d", "1%", "--json").stdout)
    mixture = mechc.load("mixture_of_gaussians")
    event = mixture(sigma=2.0, sensitivities=[0, 1, 2], weights=[0.5, 0.25, 0.25])
    assert answer["upper"] == event.epsilon(0.01).upper
    target = json.loads(run("tournament", "laplace", "-t", "1", "1/64", "--json").stdout)["inputs"]
    assert target["target"] == [1.0, 1 / 64]
    assert (
        run("curve", "gdp", "--set", "mu=.1", "--counts", "1:2e2:100").stdout.count("\n 101 ") == 1
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    for total in ("1 step", "2 steps"):
        said = run("record", "~/run.json", "gdp", "--set", "mu=1").stdout
        assert f"{total} in all" in said.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_densities_on_the_command_line(gaussian):
    words = ["--p", "exp(-(x-1)**2/2)/sqrt(2*pi)", "--q", "exp(-x**2/2)/sqrt(2*pi)"]
    answer = json.loads(run("delta", *words, "-e", "1", "--json").stdout)
    assert answer["estimate"] == pytest.approx(gaussian(sigma=1.0).delta(1.0).estimate, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epsilom", "laplace"], "Did you mean 'epsilon'"),
        (["epsilon", "laplace", "--cuont", "3"], "--count"),
        (["epsilon", "gaussian", "--noise-multiplier", "3"], "did you mean --set sigma=?"),
        (["dpsgd", "--accountant", "prv"], "did you mean --method?"),
        (["curve", "gaussian", "--set", "sigma=1", "--counts", "1..9"], "expected 1,10,100 or 1:"),
        (["epsilon", "--p", "exp(-|x|)/2", "--q", "1", "-d", "0"], "write Abs(x) for |x|"),
        (["epsilon", "gaussian", "--set", "noise_multiplier=3", "-d", "0"], "did you mean sigma?"),
        (["epsilon", "gaussian", "--sample-rate", "0.1"], "did you mean --poisson?"),
        (["epsilon", "gaussian", "sigma=3", "-d", "1e-5"], "--set NAME=VALUE"),
        (["epsilon", "gaussian", "--set", "sigma", "3", "-d", "1e-5"], "--set NAME=VALUE"),
        (["epsilon", "gaussian", "--with-replacement", "3"], "mechc.with_replacement"),
        (["epsilon", "gaussian", "laplace", "-d", "0"], "mechc record, then mechc open"),
        (["epsilon", "normal", "-d", "0"], "did you mean gaussian?"),
        (["epsilon", "gaussian", "-d", "0", "--method", "rdp"], "did you mean renyi?"),
        (["epsilon", "gaussian", "--group", "3"], "--group; that is mechc.group, in Python"),
        (["record", "laplace", "--set", "scale=3"], "as in record run.json laplace"),
        (["delta", "--p", "exp(-x)", "-e", "1"], "both --p and --q"),
        (["cache", "--clear"], "mechc cache clear"),
        (["bayes-risk", "gaussian"], "'bayes-risk'; that is run.bayes_risk, in Python"),
        (["emit", "gaussian", "--plot", "x.png"], "--plot; mechc curve"),
        (["dpsgd", "60000", "256"], "a value follows the name of its option"),
        (["dpsgd", "laplace"], "others are asked by mechc epsilon NAME --poisson RATE"),
        (["calibrate", "gaussian", "sigma"], "did you mean --solve-for sigma?"),
        (["epsilon", "gaussian", "d"], "(d); see"),
        (["dpsgd", "gaussian"], "(gaussian); its noise is Gaussian, others"),
        (["list", "laplace"], "(laplace); see"),
        (["dpsgd", "--shuffle"], "did you mean --sampler shuffled?"),
        (["dpsgd", "--sampling-rate", "1"], "--batch-size, which divided by dataset-size is the"),
        (["dpsgd", "--group-size", "5"], "that is mechc.group, in Python"),
        (["calibrate", "dpsgd", "--dataset-size", "9"], "words is asked by mechc dpsgd"),
        (["epsilon", "dpsgd", "-d", "1e-5"], "mechc dpsgd on the command line?"),
        (["epsilon", "exponential", "-d", "0", "--set", "epsilon=1"], "exponential_mechanism?"),
        (["calibrate", "gaussian", "-e", "1", "-d", "0"], "one of sigma, sensitivity, sampling_r"),
        (["show", "gaussian", "pair"], "did you mean --stage pair?"),
        (["explain", "gaussian"], "that is mechc show;"),
        (["rho", "gaussian"], "that is run.zcdp, in Python"),
        (["tournament", "--mechanisms", "laplace"], "follow the command"),
        (["epsilon", "run.json", "-d", "1e-5"], "mechc open"),
        (["delta", "gaussian", "--delta", "1e-5"], "mechc epsilon takes --delta"),
        (["tournament", "gaussian", "--epsilon", "1"], "did you mean --target EPSILON DELTA?"),
        (["report", "laplace", "-o", "sheet.pdf"], "expected a name ending in .html"),
        (["epsilon", "gausian", "-d", "0"], "did you mean gaussian?"),
        (["epsilon", "laplace", "-d", "many"], "'many' is not a number"),
        (["curve", "laplace", "--set", "scale=9", "--plot", "/"], "it is a folder"),
        (["epsilon", "laplace", "--set", "scale=-1", "-d", "1e-5"], "scale=-1 is not positive"),
        (["epsilon", "laplace", "--set", "scale", "-d", "1e-5"], "expected NAME=NUMBER"),
        (["epsilon", "laplace", *2 * ["--set", "scale=1"], "-d", "1e-5"], "has a value already"),
        (["epsilon", "laplace", "--set", "scale=1"], "exactly one"),
        (["epsilon", "laplace", "--set", "scale=1", "-d", "2"], "0 <= delta <= 1"),
        (["epsilon", "laplace", "--set", "scale=1", "-d", "0", "-k", "1.5"], "'-k': count=1.5 is"),
        (["epsilon", "laplace", "--set", "scale=1", "-d", "1e-5", "-k", "x"], "not an integer"),
        (["epsilon", "laplace", "--set", "scale=1", "-d", "1e-5", "-m", "magic"], "magic"),
        (["epsilon", "gaussian", "--poisson", "2", "-d", "1e-5"], "sampling_rate"),
        (["epsilon", "-d", "1e-5"], "either the name"),
        (["delta", "laplace", "--set", "scale=1"], "--epsilon is needed"),
        (["calibrate", "laplace", "--solve-for", "scale", "--tpr", ".5"], "or --tpr and --fpr"),
        (["delta", "--p", "__import__('os')", "--q", "1", "-e", "1"], "cannot read|not"),
        (["show", "laplace", "--stage", "poetry"], "expected one of"),
        (["show", "~no user/x"], "cannot be read"),
        (["show", "/dev/zero"], "a folder, a pipe or a device"),
        (["show", "no_such_thing"], "no mechanism 'no_such_thing'"),
        (["compare", "laplace"], "exactly one"),
        (["cache", "burn"], "expected one of list, size, clear"),
        (["curve", "laplace", "--set", "scale=9", "--counts", "a:b"], "expected 1,10,100"),
        (["delta", "gdp", "--set", "mu=1", "-e", "1", "--count=-3"], "count=-3 is negative"),
        (["delta", "gdp", "--set", "mu=1", "-e", "1", "--count", "1e13"], "is too large"),
        (["calibrate", "laplace", "--solve-for", "shape", "-e", "1", "-d", "0.1"], "shape"),
        (["calibrate", "laplace", "--solve-for", "steps", "-e", "1", "-d", "0"], "mean count?"),
        (["calibrate", "gdp", "--solve-for", "sample_rate", "-e", "1", "-d", "0"], "sampling_rate"),
        (
            [
                "calibrate",
                "gdp",
                "--solve-for=sampling_rate",
                "--poisson=0.1",
                "-e",
                "1",
                "-d",
                "0",
            ],
            "leave it out",
        ),
        (["delta", "laplace", "--set", "scale=1", "-e", "two"], "'two' is not a number"),
        (["curve", "laplace", "--set", "scale=1", "--count", "9"], "did you mean --counts?"),
        (["tournament", "laplace", "--target", "-1", "1e-6"], "no mechanism meets epsilon=-1"),
        (["tournament", "laplace", "--poisson", "5"], "sampling=5 is too large"),
        (["verify", "laplace", "--certificate", "none.json"], "does not exist"),
        (["verify", "laplace", "--level", "slow"], "expected one of quick, full"),
        (["record", "none/x.json", "laplace", "--set", "scale=1"], "not a folder to write in"),
        (["record", "~no user/x.json", "laplace", "--set", "scale=1"], "home directory"),
        (["report", "laplace", "-o", "x" * 300 + ".html"], "name too long"),
        (["optimise", "subbotin", *2 * ["--over", "beta=1:2"]], "has a range already"),
        (["epsilon", "gdp", "--mu", "1"], "--set NAME=VALUE"),
        (["epsilon", "gaussian", "--lot-size", "9"], "asked by mechc dpsgd"),
        (["tournament", "--rank", "std"], "did you mean standard_deviation?"),
        (["tournament", "--target", "1", "few"], "'few' is not a number"),
        (["demo", "--folder", "none"], "not a folder to write in"),
        (["--json"], "No such option: --json"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, message):
    result = run(*words, code=2)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("mechc")
    assert any(part in lines[0] for part in message.split("|"))


def test_what_is_written_and_shown_is_json_too(tmp_path):
    """Every command but the demonstration; those that write say where."""
    for made in (*app.registered_commands, *individual.registered_commands):
        assert made.callback.__name__ == "demo" or "as_json" in made.callback.__annotations__
    path = tmp_path / "kernel.py"
    for words, key in ((["emit", "gdp", "-o", path], "wrote"), (["show", "gdp"], "shown")):
        answer = json.loads(run(*words, "--json").stdout)
        assert answer[key] and answer["inputs"]["name"] == "gdp" and answer["adjacency"] == "any"
        assert answer["version"] == mechc.__version__ and answer["claim"]["status"] == "declared"


UNCOMPILED = """
from mechc.declare import additive, positive, real
from sympy import exp
x, width = real("x"), positive("width", typical=(0.5, 20))
d = positive("sensitivity", default=1)
odd = additive("odd", noise=exp(-x / width - exp(-x / width)) / width, variable=x, sensitivity=d,
               parameters=(width, d))
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epsilon", "-d", "0.1"], "missing parameter width"),
        (["epsilon", "-d", "0.1", "--set", "width=-1"], "width=-1 is not positive"),
        (["epsilon", "-d", "0.1", "--set", "wdith=1"], "did you mean width?"),
        (["epsilon", "-d", "0.1", "--set", "width=1", "--poisson", "256"], "too large"),
        (["epsilon", "-d", "2", "--set", "width=1"], "delta=2 is out of range"),
        (["epsilon", "-d", "0.1", "--set", "width=1", "-k", "1.5"], "not an integer"),
        (["calibrate", "--solve-for", "width", "-e", "1", "-d", "-1"], "delta=-1 is out of range"),
        (["calibrate", "--solve-for", "sampling_rate", "-e", "1", "-d", "0.1"], "width > 0"),
        (["optimise", "--over", "width=4:1"], "expected (lower, upper)"),
        (["optimise", "--over", "wdith=1:4"], "did you mean width?"),
        (["optimise", "--over", "width=1:4", "--set", "sensitivity=-1"], "is not positive"),
        (["epsilon", "--typo", "3"], "No such option: --typo"),
        (["epsilon", "--sigma", "3"], "has width, sensitivity, given by --set NAME=VALUE"),
        (["calibrate", "width"], "did you mean --solve-for width?"),
        (["report", "-o", "x.html", "--set", "wdith=1"], "did you mean width?"),
        (["curve", "--set", "width=1", "--plot", "x.bmpp"], "no figures are written as 'bmpp'"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_compiled(words, message, tmp_path, monkeypatch):
    path = tmp_path / "odd.py"
    path.write_text(UNCOMPILED)
    monkeypatch.setenv("MECHC_CACHE", str(tmp_path / "empty"))
    result = run(words[0], path, *words[1:], code=2)
    assert message in result.stderr
    assert not list(tmp_path.glob("empty/kernels/*"))
    with pytest.raises(mechc.errors.DeclarationError, match="width=-1 is not positive"):
        mechc.load(path)(width=-1)
    assert not mechc.load(path).is_compiled


@pytest.mark.parametrize(
    "words",
    [
        ["list"], ["methods"], ["cache", "size"],
        ["epsilon", *GAUSSIAN, "-d", "1e-5"],
        ["dpsgd", "--dataset-size", "600", "--batch-size", "6", "--steps", "9",
         "--noise-multiplier", "2", "--delta", "1e-5"],
        ["calibrate", "gaussian", "--solve-for", "count", "-e", "1", "-d", "0.1", "--set",
         "sigma=3"],
        ["curve", "laplace", "--set", "scale=9", "--counts", "1,2"],
        ["calibrate", "laplace", "--solve-for", "scale", "-e", "1", "-d", "0"],
        ["tournament", "laplace", "gaussian", "--poisson", "0.5"],
        ["optimise", "subbotin", "--over", "beta=1.5:2"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_json_says_what_was_asked_and_by_which_version(words):
    answer = json.loads(run(*words, "--json").stdout)
    assert answer["version"] == mechc.__version__
    if words[0] not in ("list", "methods", "cache"):
        assert answer["adjacency"] and answer["claim"]["status"] == "proven"
        assert answer["inputs"].keys() & {"name", "names", "dataset_size"}
    if "-d" in words:  # zero too is something that was asked
        assert answer["inputs"]["delta"] == float(words[words.index("-d") + 1])


def test_lists():
    listed = run("list", "--no-compile").stdout
    for name in mechc.available():
        assert name in listed
    assert "contour" in run("methods").stdout
    assert "--poisson" in run("epsilon", "--help").stdout
    version = run("--version").stdout.replace("\n", " ")
    assert version.startswith(f"mechc {mechc.__version__} (Python ") and "numba " in version


def test_the_package_is_a_command_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mechc", "--version"])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("mechc", run_name="__main__")
    assert not ended.value.code and capsys.readouterr().out.startswith("mechc ")
    monkeypatch.setattr(sys, "argv", ["__main__.py", "epsilon", "--mu", "1"])
    with pytest.raises(SystemExit):
        runpy.run_module("mechc", run_name="__main__")
    assert capsys.readouterr().err.startswith("mechc epsilon: No such option: --mu; ")


@pytest.mark.few(1, 4)
@pytest.mark.parametrize("stage", ["explain", "pair", "calculus", "ir", "source"])
def test_every_stage_can_be_shown(stage):
    text = run("show", "laplace", "--stage", stage).stdout
    assert "scale" in text and len(text.splitlines()) > 10


def test_new_writes_a_file_that_answers_and_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new", "my_noise.py").stdout.strip() == "wrote my_noise.py"
    written = (tmp_path / "my_noise.py").read_text("utf-8")
    assert "there is no" not in run("new", "my_noise", code=2).stderr
    assert (tmp_path / "my_noise.py").read_text("utf-8") == written
    assert "letters, digits" in run("new", "2-noises", code=2).stderr
    answer = mechc.load("my_noise.py")(scale=20.0).delta(0.02)
    assert 0.0 < answer.lower <= answer.upper < 0.01


def test_emit_writes_a_module_that_checks_itself(tmp_path):
    path = tmp_path / "laplace_kernels.py"
    run("emit", "laplace", "-o", path)
    assert list(tmp_path.iterdir()) == [path]
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert path.read_text("utf-8") == mechc.load("laplace").source


def test_emit_into_a_missing_folder_leaves_nothing(tmp_path):
    path = tmp_path / "missing" / "kernel.py"
    result = run("emit", "laplace", "-o", path, code=2)
    assert result.stderr.startswith("mechc: cannot write")
    assert not path.parent.exists()


def test_a_recorded_training_run_holds_its_question(tmp_path):
    file = tmp_path / "run.json"
    words = ["--dataset-size", "1000", "--batch-size", "10", "--steps", "20"]
    for epsilon in ("2", "1"):
        asked = run("dpsgd", *words, "--noise-multiplier", "2", "-e", epsilon, "--record", file)
        assert asked.exit_code == 0, asked.output
    held = json.loads(run("check", file, "--json").stdout)
    asked = [one["question"] for one in held["answers"]]
    assert asked == ["delta at epsilon 2", "delta at epsilon 1"] and held["ok"]


def test_a_training_run_is_added_to_steps_of_a_file(tmp_path):
    file = tmp_path / "run.json"
    mechc.load(cache.load(mechc.load("laplace").emit(tmp_path / "mine.py")))(scale=3.0).save(file)
    words = ["dpsgd", "--dataset-size", "1000", "--batch-size", "10", "--steps", "20"]
    words += ["--noise-multiplier", "2", "--fpr", "0.1", "--record", file]
    assert "--allow-files" in run(*words, code=2).stderr
    run(*words, "--allow-files")
    assert mechc.open(file, allow_files=True).count == 21


def test_curve_and_compare(tmp_path):
    words = ["laplace", "--set", "scale=20"]
    curve = json.loads(run("curve", *words, "--counts", "1,10,100", "--json").stdout)
    given = run("curve", *words, "--counts", "1,10,100", "--delta", "1/100000", "--json").stdout
    assert json.loads(given)["upper"] == curve["upper"]
    assert curve["count"] == [1, 10, 100]
    assert sorted(curve["upper"]) == curve["upper"]
    asked = ["compare", *words, "--count", "100", "--epsilon", "1"]
    table = run("compare", "pure_dp", "--set", "epsilon=0.1", "--epsilon", "0.05").stdout
    for method in ("auto", "contour", "saddlepoint", "clt"):
        assert method in table
    found = json.loads(run(*asked, "--plot", tmp_path / "methods.svg", "--json").stdout)
    upper = {a["label"]: a.get("upper") for a in found["answers"]}
    assert upper["auto"] <= upper["renyi"] and found["claim"]["status"] == "proven"
    assert "<svg" in (tmp_path / "methods.svg").read_text("utf-8")


def test_words_with_hyphens_and_the_short_help():
    words = ["gaussian", "--set", "sigma=1", "--epsilon", "2", "--delta", "1e-5", "--count", "99"]
    assert "sampling_rate = " in run("calibrate", *words, "--solve-for", "sampling-rate").stdout
    assert "epsilon [OPTIONS] [name]" in run("epsilon", "-h").stdout


def test_calibrate():
    words = ["gaussian", "--solve-for", "sigma", "--epsilon", "1", "--delta", "1e-5", "--json"]
    answer = json.loads(run("calibrate", *words).stdout)
    assert answer["upper"] <= 1e-5
    # the analytic Gaussian mechanism at (1, 1e-5), Balle and Wang 2018: 3.730631634...
    assert answer["sigma"] == pytest.approx(3.7306316348, rel=1e-6)


def test_cache_lists_what_was_compiled():
    mechc.load("laplace").compile()
    assert "laplace" in run("cache", "list").stdout
    assert "MiB" in run("cache", "size").stdout


def test_tournament_and_optimise(tmp_path):
    words = ["--target", "1", "1e-6", "--count", "10", "--json"]
    found = json.loads(run("tournament", "gaussian", "laplace", *words).stdout)
    assert [e["mechanism"] for e in found["entrants"]] == ["gaussian", "laplace"]
    assert all(e["bound"]["upper"] <= 1e-6 for e in found["entrants"])
    assert found["inputs"]["target"] == [1.0, 1e-6] and found["version"]
    assert found["inputs"]["count"] == 10
    assert "quantile_95" in run("tournament", "laplace").stdout
    assert "no mechanism meets" in run("tournament", "laplace", "-t", "-1", "1e-6", code=2).stderr
    assert "not declared as noise" in run("tournament", "gdp", "shuffle", code=1).stdout
    best = json.loads(run("optimise", "subbotin", "--over", "beta=1:2", *words).stdout)
    assert 1 <= best["beta"] <= 2 and best["bound"]["upper"] <= 1e-6
    assert best["tried"] < 12  # by golden sections alone 17
    assert "NAME=LOW:HIGH" in run("optimise", "subbotin", "--over", "beta", code=2).stderr


def test_a_word_that_is_no_option_runs_no_file(tmp_path):
    """A kernel of somebody else is read, an output replaced; a mechanism file is run."""
    ran, file = tmp_path / "ran", tmp_path / "file.py"
    file.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    for words in (["verify", file], ["emit", "laplace", "-o", file], ["record", file, "laplace"],
                  ["epsilon", "laplace", "--set", file]):  # fmt: skip
        assert "No such option: --rough" in run(*words, "--rough", code=2).stderr
        assert not ran.exists()
    run("epsilon", file, "--rough", code=2)
    assert ran.exists()


def test_short_commands_load_no_library_that_they_do_not_use():
    """Each of these takes as long to load as a short question to answer."""
    words = ["epsilon", *GAUSSIAN, "--delta", "1e-5", "--json"]
    script = (
        "import sys; from mechc.cli.commands import app; app(sys.argv[1:], standalone_mode=False); "
        "print(sorted({'sympy', 'matplotlib', 'scipy.special'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script, *map(str, words)], capture_output=True)
    assert done.stdout.decode().splitlines()[-1] == "[]", done.stderr


def test_shells_complete_commands_and_mechanisms():
    """What a shell asks when tab is pressed, as the script of --install-completion asks it."""
    asked = (
        ("mechc dps", "dpsgd"), ("mechc epsilon gauss", "gaussian"),
        ("mechc epsilon gaussian --method cont", "contour"),
        ("mechc show gaussian --stage ex", "explain"),
        ("mechc tournament --rank quantile_9", "quantile_999"),
        ("mechc dpsgd --adjacency repl", "replace"),
        ("mechc dpsgd --solve-for ep", "epochs"),
        ("mechc calibrate gaussian --solve-for sig", "sigma"),
        ("mechc calibrate gaussian --solve-for c", "count"),
        ("mechc epsilon gaussian --set sens", "sensitivity="),
        ("mechc optimise subbotin --over be", "beta="),
    )  # fmt: skip
    code = (
        "import os, sys\n"
        "from mechc.cli import main\n"
        "asked, sys.argv = sys.argv[1:], ['mechc']\n"
        "for words in asked:\n"
        "    os.environ.update(COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit:\n"
        "        print('\\0')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *(words for words, _ in asked)],
        env={**os.environ, "_MECHC_COMPLETE": "complete_bash"}, capture_output=True, text=True,
    )  # fmt: skip
    found = done.stdout.split("\0")
    for (_, expected), answer in zip(asked, found[:-1], strict=True):
        assert expected in answer.split()


def test_an_interruption_in_a_callback_is_not_lost():
    """Where Python goes on after it, as in callbacks of the compiler of machine code."""
    code = (
        "import ctypes, os, signal, sys, time\n"
        "from mechc.cli import commands, main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs of a shell ignore it
        "called = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "commands.run = lambda: (called(), time.sleep(20), print('lost'))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130 and done.stdout == done.stderr == ""


def test_an_interruption_ends_without_words(monkeypatch, capsys):
    """While the commands are loaded, within them, and inside of machine code."""
    from mechc import cli
    from mechc.cli import commands

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def inside(*_, **__):
        inner = SystemError("returned a result with an exception set")
        inner.__cause__ = KeyboardInterrupt()
        raise SystemError("returned a result with an exception set") from inner

    for where, what in ((commands, interrupted), (Composition, inside)):
        name = "run" if where is commands else "epsilon"
        with monkeypatch.context() as patch:
            patch.setattr(where, name, what)
            patch.setattr(sys, "argv", ["mechc", "epsilon", *GAUSSIAN, "--delta", "1e-5"])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        assert ended.value.code == 130 and capsys.readouterr().err == ""


def test_nothing_that_a_file_holds_steers_the_terminal(tmp_path):
    """A version that no mechc writes, and a file of another's name."""
    path = tmp_path / "run.json"
    mechc.load("gaussian")(sigma=1.0).save(path)
    line = json.loads(path.read_text("utf-8"))
    line["versions"]["mechc"] = "\x1b[2J\u202e"
    path.write_text(json.dumps(line) + "\n", "utf-8")
    for words in (["check", path], ["open", tmp_path / "\x1b[2J"]):
        result = CliRunner().invoke(app, [str(word) for word in words])
        said = result.output
        assert r"\x1b[2J" in said and said.replace("\n", "").isprintable()


def test_words_in_tables_are_shown_as_they_are():
    said = "in [a, b] or [/b]"
    claim = Claim("declared", None, "any", assumptions=(said,), about=said)
    with out.capture() as shown:
        out.print(under(bound(Bound(0.1, 0.2, 0.3, said, "\x1b[31m", claim=claim)), claim))
    assert shown.get().count(said) == 4 and r" \x1b[31m" in shown.get()


def test_a_comparison_is_for_the_neighbours_that_were_asked_for():
    words = ["compare", "pure_dp", "--set", "epsilon=1", "--adjacency", "replace", "-e", "0.5"]
    result = CliRunner().invoke(app, [*words, "--json"])
    record = json.loads(result.stdout)
    given = [row.get("adjacency", "replace") for row in record["answers"]]  # none of a refusal
    assert result.exit_code == 0 and {record["adjacency"], *given} == {"replace"}
