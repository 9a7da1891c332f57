"""Solving for what a run may be: words of DP-SGD, attacks as targets, beside other releases."""

import json
import math

import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import mechc
from mechc.cli.commands import app
from mechc.errors import DeclarationError, UnsupportedError

MNIST = {"dataset_size": 60_000, "batch_size": 256, "noise_multiplier": 1.1}


@pytest.fixture(scope="module")
def gaussian():
    return mechc.load("gaussian")


def test_advantage_and_power_of_gaussian_noise(gaussian):
    """Phi(mu / 2) - Phi(-mu / 2), and Phi(Phi^-1(fpr) + mu), with mu = 1 / sigma."""
    found = mechc.calibrate(gaussian, solve_for="sigma", advantage=0.1)
    assert found.value == pytest.approx(0.5 / norm.isf(0.45), rel=1e-7)
    assert found.bound.upper <= 0.1
    mu = norm.isf(0.01) - norm.isf(0.05)
    found = mechc.calibrate(gaussian, solve_for="sigma", tpr=0.05, fpr=0.01)
    assert found.value == pytest.approx(1 / mu, rel=1e-7)
    assert found.bound.upper <= 0.05 and str(found.bound).startswith("true positive rate")
    assert mechc.calibrate(gaussian, solve_for="sigma", tpr=1.0, fpr=0.1).bound.upper <= 1.0
    found = mechc.calibrate(gaussian, solve_for="count", tpr=0.05, fpr=0.01, sigma=10.0)
    assert found.value == math.floor((10 * mu) ** 2)


def test_beside_what_is_released_already(gaussian):
    """Two Gaussians are one: 1 / sigma^2 adds up."""
    alone = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-6)
    both = mechc.calibrate(
        gaussian, solve_for="sigma", epsilon=1.0, delta=1e-6, beside=4 * gaussian(sigma=20.0)
    )
    assert both.value**-2 == pytest.approx(alone.value**-2 - 4 / 400, rel=1e-6)
    with pytest.raises(UnsupportedError):
        mechc.calibrate(gaussian, solve_for="count", epsilon=1.0, delta=1e-6, sigma=50.0,
                        beside=gaussian(sigma=0.1))  # fmt: skip


@pytest.mark.parametrize("word", ["epochs", "steps", "batch_size"])
def test_the_largest_whole_number_that_meets_the_target(word):
    words = {**MNIST, "epochs": 10} if word == "batch_size" else dict(MNIST)
    words.pop(word, None)
    if word == "batch_size":
        words = {**words, "steps": 300, "dataset_size": 5_000}
        words.pop("epochs")
    value = mechc.calibrate(mechc.dpsgd, solve_for=word, epsilon=2.0, delta=1e-5, **words).value
    assert mechc.dpsgd(**words, **{word: value}).delta(2.0).upper <= 1e-5
    assert mechc.dpsgd(**words, **{word: value + 1}).delta(2.0).lower > 1e-5


@pytest.mark.slow
def test_noise_where_the_direction_that_decides_changes():
    """Far from the answer adding a record tells more, there removing it does."""
    words = {"dataset_size": 60_000, "batch_size": 600, "epochs": 2, "sampler": "allocation"}
    found = mechc.calibrate(
        mechc.dpsgd, solve_for="noise_multiplier", epsilon=1.0, delta=1e-5, **words
    )
    less = mechc.dpsgd(**words, noise_multiplier=found.value * (1 - 1e-6)).delta(1.0)
    assert found.bound.upper <= 1e-5 < less.upper


def test_noise_of_a_training_run():
    words = {"dataset_size": 60_000, "batch_size": 256, "epochs": 60}
    found = mechc.calibrate(
        mechc.dpsgd, solve_for="noise_multiplier", epsilon=2.0, delta=1e-5, **words
    )
    assert found.bound.upper <= 1e-5
    assert mechc.dpsgd(**words, noise_multiplier=found.value).epsilon(1e-5).upper <= 2.0 + 1e-9
    shuffled = mechc.calibrate(
        mechc.dpsgd, solve_for="noise_multiplier", epsilon=2.0, delta=1e-5, sampler="shuffled",
        adjacency="replace", **words,
    )  # fmt: skip
    plain = mechc.calibrate(
        mechc.load("gaussian"), solve_for="sigma", epsilon=2.0, delta=1e-5, count=60
    )
    assert shuffled.value == pytest.approx(2 * plain.value, rel=1e-7)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"solve_for": "clip_norm", "advantage": 0.1}, DeclarationError, "noise_multiplier, batch"),
        ({"solve_for": "epochs", "tpr": 0.1}, DeclarationError, "tpr= with fpr="),
        ({"solve_for": "epochs", "tpr": 0.1, "fpr": 0.2}, UnsupportedError, "guessing"),
        ({"solve_for": "epochs", "tpr": 0.1, "advantage": 0.2}, DeclarationError, "one target"),
        ({"solve_for": "epochs", "advantage": 2.0}, DeclarationError, "advantage=2 is too large"),
        ({"solve_for": "epochs", "advantage": 0.1, "beside": 3}, DeclarationError, "beside=3"),
        ({"solve_for": "epochs", "target_epsilon": 3}, DeclarationError, "did you mean epsilon"),
        (
            {"solve_for": "epochs", "epochs": 2, "advantage": 0.1},
            DeclarationError,
            "given and solved for",
        ),
    ],
)
def test_what_cannot_be_solved_is_told(words, error, message):
    with pytest.raises(error, match=message):
        mechc.calibrate(mechc.dpsgd, **MNIST, **words)


def test_a_target_that_nothing_meets_is_told(gaussian):
    """What is beside has advantage 2 Phi(1/2) - 1 alone, and Gaussian noise no largest loss."""
    sought = {"mechanism": gaussian, "solve_for": "sigma"}
    with pytest.raises(UnsupportedError, match=r"beside alone has advantage 0\.382"):
        mechc.calibrate(**sought, advantage=0.1, beside=gaussian(sigma=1.0))
    with pytest.raises(UnsupportedError, match="delta=0 asks for a largest loss"):
        mechc.calibrate(**sought, epsilon=1.0, delta=0.0)


def test_on_the_command_line(tmp_path):
    def answer(*words):
        result = CliRunner().invoke(app, [*map(str, words), "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    words = ("dpsgd", "--dataset_size", 60_000, "--batch_size", 256, "--solve-for", "epochs")
    target = ("--epsilon", 2, "--delta", "1e-5")
    alone = answer(*words, "--noise-multiplier", 1.1, *target)["epochs"]
    assert (
        alone
        == mechc.calibrate(mechc.dpsgd, solve_for="epochs", epsilon=2.0, delta=1e-5, **MNIST).value
    )
    file = tmp_path / "other.json"
    mechc.load("gaussian")(sigma=3.0).save(file)
    assert answer(*words, "--noise-multiplier", 1.1, *target, "--beside", file)["epochs"] < alone
    whole = ("dpsgd", "--dataset-size", 9, "--batch-size", 9, "--steps", 1)  # a plain Gaussian
    seen = answer(*whole, "--noise-multiplier", 1, "--fpr", "1%")
    assert seen["upper"] == pytest.approx(norm.cdf(norm.ppf(0.01) + 1.0), rel=1e-7)
    rate = answer("calibrate", "gaussian", "--set", "sigma=1", "--count", 1000, "--solve-for",
                  "sampling_rate", *target)["sampling_rate"]  # fmt: skip
    sampled = 1000 * mechc.poisson(mechc.load("gaussian"), rate)(sigma=1.0)
    assert sampled.epsilon(1e-5).upper == pytest.approx(2.0, rel=1e-6)
    power = answer("calibrate", "gaussian", "--solve-for", "sigma", "--tpr", "5%", "--fpr", "1/100")
    assert list(power)[:2] == ["sigma", "count"]
    assert power["sigma"] == pytest.approx(1 / (norm.isf(0.01) - norm.isf(0.05)), rel=1e-7)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "parameter", "rate"), [("gaussian", "sigma", 0.00116354), ("laplace", "scale", 0.001)]
)
def test_a_target_that_sampling_alone_meets_has_no_least_noise(name, parameter, rate):
    """Delta of 10 steps is at most 1 - (1 - rate)^10, about .01, however little noise there is."""
    mechanism = mechc.poisson(mechc.load(name), rate)
    with pytest.raises(mechc.errors.UnsupportedError, match=f"every {parameter} from"):
        mechc.calibrate(mechanism, solve_for=parameter, epsilon=1, delta=0.1, count=10)
    with pytest.raises(mechc.errors.UnsupportedError, match=f"every {parameter} from"):
        mechc.calibrate(mechanism, solve_for=parameter, tpr=0.5, fpr=0.4, count=10)
