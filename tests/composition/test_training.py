"""DP-SGD from the words of a training loop, against closed forms, a peer and published figures."""

import json
import math

import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import mechc
from mechc.cli.commands import app
from mechc.declare import catalog
from mechc.errors import DeclarationError, UnsupportedError

MNIST = {"dataset_size": 60_000, "batch_size": 256, "noise_multiplier": 1.1}


def gaussian_delta(mu, epsilon):
    """The profile of N(mu, 1) against N(0, 1), Balle and Wang 2018, Theorem 8."""
    at = norm.cdf(mu / 2 - epsilon / mu)
    return at - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def holds(bound, value, rel=1e-7):
    assert bound.lower <= value * (1 + 1e-9) and bound.upper >= value * (1 - 1e-9)
    assert bound.upper == pytest.approx(value, rel=rel)


@pytest.mark.parametrize(
    ("epochs", "batch", "steps"),
    [(60, 256, 14063), (1, 60_000, 1), (0.1, 6000, 1), (0, 256, 0), (1, 7, 8572), (2.5, 50, 3000)],
)
def test_steps_are_the_batches_begun(epochs, batch, steps):
    run = mechc.dpsgd(dataset_size=60_000, batch_size=batch, epochs=epochs, noise_multiplier=1.1)
    assert run.count == steps
    assert run.adjacency is (mechc.Adjacency.ADD_REMOVE if steps else mechc.Adjacency.ANY)


def test_poisson_is_a_peers_answer_and_below_the_published_one():
    """TensorFlow Privacy's tutorial: noise 1.12, 60 epochs of 256 in 60 000: 2.92 by Rényi."""
    run = mechc.dpsgd(**{**MNIST, "noise_multiplier": 1.12}, epochs=60)
    assert 2.2 < run.epsilon(1e-5).upper < 2.92
    accounting = pytest.importorskip("dp_accounting")
    event = accounting.PoissonSampledDpEvent(256 / 60_000, accounting.GaussianDpEvent(1.1))
    peer = accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
    theirs = peer.compose(event, 1000).get_epsilon(1e-5)
    ours = mechc.dpsgd(**MNIST, steps=1000).epsilon(1e-5)
    assert ours.lower <= theirs + 1e-9
    assert float(ours) == pytest.approx(theirs, abs=5e-3)


@pytest.mark.few(2, 3)
@pytest.mark.parametrize(("relation", "distance"), [("add_remove", 1.0), ("replace", 2.0)])
@pytest.mark.parametrize("clip", [1.0, 0.3])
def test_shuffled_is_one_plain_release_an_epoch(relation, distance, clip):
    run = mechc.dpsgd(**MNIST, epochs=5, sampler="shuffled", adjacency=relation, clip_norm=clip)
    holds(run.delta(2.0), gaussian_delta(math.sqrt(5) * distance / 1.1, 2.0))
    assert run.adjacency == relation and run.claim.status == "proven"
    assert "no amplification" in str(run.claim)


def test_shuffled_steps_count_epochs_of_full_batches():
    words = {"dataset_size": 25, "batch_size": 10, "noise_multiplier": 1.0, "sampler": "shuffled"}
    assert mechc.dpsgd(**words, steps=20).count == 10  # a loader that drops the last five
    assert mechc.dpsgd(**words, epochs=10).count == 10
    assert mechc.dpsgd(**words, epochs=0.5).count == 1


def test_a_full_batch_is_the_gaussian_at_the_distance_of_the_relation():
    full = {"dataset_size": 100, "batch_size": 100, "noise_multiplier": 3.0, "steps": 4}
    for sampler in ("poisson", "fixed"):
        replaced = mechc.dpsgd(**full, sampler=sampler, adjacency="replace")
        holds(replaced.delta(1.0), gaussian_delta(2 * 2 / 3.0, 1.0))
        assert replaced.claim.status == "proven"
    holds(mechc.dpsgd(**full).delta(1.0), gaussian_delta(2 / 3.0, 1.0))


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_one_fixed_batch(epsilon):
    """Balle, Barthe, Gaboardi 2018, Theorem 9, at twice the clip norm."""
    q, z = 0.02, 1.3
    run = mechc.dpsgd(
        dataset_size=50, batch_size=1, steps=1, noise_multiplier=z, sampler="fixed", clip_norm=4.0
    )
    assert run.adjacency == "replace"
    holds(run.delta(epsilon), q * gaussian_delta(2 / z, math.log1p(math.expm1(epsilon) / q)), 1e-6)


def test_phases_add_up_under_one_relation():
    first = mechc.dpsgd(**MNIST, epochs=1)
    run = first + mechc.dpsgd(**{**MNIST, "noise_multiplier": 2.0}, epochs=2)
    assert run.count == 235 + 469 and len(run) == 2
    for other in ({"sampler": "fixed"}, {"sampler": "shuffled", "adjacency": "replace"}):
        with pytest.raises(DeclarationError, match="expected one relation"):
            first + mechc.dpsgd(**MNIST, epochs=1, **other)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"epochs": 1, "steps": 2}, "exactly one of epochs"),
        ({}, "exactly one of epochs"),
        ({"epochs": -1}, "epochs=-1 is negative"),
        ({"epochs": math.nan}, "epochs=nan"),
        ({"steps": 1.5}, "not an integer"),
        ({"steps": 1, "noise_multiplier": 0}, "noise_multiplier=0 is not positive"),
        ({"steps": 1, "batch_size": 0.01}, r"less than one record.* rate \* dataset_size"),
        ({"steps": 1, "batch_size": 60_001}, "batch_size <= dataset_size=60000"),
        ({"steps": 1, "batch_size": 2.5, "sampler": "shuffled"}, "batch_size=2.5 is not an int"),
        ({"steps": 1, "sampler": "weighted"}, "poisson, truncated, fixed, allocation, shuffled"),
        ({"steps": 1, "adjacency": "any"}, "add_remove, replace"),
        ({"steps": 1, "sigma": 2.0}, "did you mean noise_multiplier"),
        ({"steps": 1, "max_grad_norm": 2.0}, "did you mean clip_norm"),
        ({"steps": 1, "batchsize": 2}, "did you mean batch_size"),
        ({"steps": 1, "group_size": 2}, "did you mean mechc.group"),
        ({"steps": 1, "sampler": "with_replacement"}, "did you mean mechc.with_replacement"),
        (
            {"steps": 1, "sample_rate": 0.01},
            "divided by dataset_size is the rate, or pois",
        ),
        ({"steps": 1, "number_of_examples": 9}, "did you mean dataset_size"),
        ({"steps": 1, "dataset_size": None}, "dataset_size is needed"),
    ],
)
def test_what_is_wrong_is_told_by_name(words, message):
    with pytest.raises(DeclarationError, match=message):
        mechc.dpsgd(**{**MNIST, **words})


def test_fixed_batches_under_add_remove_are_refused():
    with pytest.raises(UnsupportedError, match="adjacency='replace'"):
        mechc.dpsgd(**MNIST, epochs=1, sampler="fixed", adjacency="add_remove")


def test_the_command_line_takes_the_same_words_and_fractions():
    def answer(*words):
        result = CliRunner().invoke(app, [*words, "--delta", "1/100000", "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    words = ("--dataset-size", "60000", "--batch-size", "256", "--noise-multiplier", "1.1")
    found = answer("dpsgd", *words, "--epochs", "60")
    here = mechc.dpsgd(**MNIST, epochs=60).epsilon(1e-5).upper
    assert found["upper"] == here
    assert found["inputs"]["batch_size"] == 256 and found["adjacency"] == "add_remove"
    plain = ("gaussian", "--set", "sigma=11/10", "--poisson", "256/60000", "--count", "14063")
    assert answer("epsilon", *plain)["upper"] == here
    bad = CliRunner().invoke(app, ["epsilon", *plain[:4], "256/0", "-d", "1e-5"])
    assert bad.exit_code == 2 and "256/60000" in bad.stderr


def test_allocated_records_take_part_once_an_epoch():
    """The value of one epoch of 100 steps at sigma 1 is that of two contours in high precision."""
    words = {"dataset_size": 1000, "batch_size": 10, "noise_multiplier": 1.0}
    run = mechc.dpsgd(**words, epochs=1, sampler="allocation")
    answer = run.delta(1.0, direction="remove")
    assert answer.lower <= 3.01577445683e-07 * (1 + 1e-10)
    assert answer.upper >= 3.01577445683e-07 * (1 - 1e-10)
    assert answer.upper < 3.02e-07


@pytest.mark.parametrize("length", [{"epochs": 0.5}, {"steps": 50}])
def test_an_epoch_that_ends_early_is_a_sample_of_its_steps(length):
    """E (r W + 1 - r - c)_+ = r E (W - (c - 1 + r) / r)_+, with W the mean of the 50 that ran."""
    words = {"dataset_size": 1000, "batch_size": 10, "noise_multiplier": 0.8}
    run = mechc.dpsgd(**words, **length, sampler="allocation")
    ran = mechc.random_allocation(mechc.load("gaussian")(sigma=0.8), steps=50)
    inner = ran.delta(math.log1p(2.0 * math.expm1(0.4)), direction="remove")
    answer = run.delta(0.4, direction="remove")
    assert 0.5 * inner.lower * (1 - 1e-7) <= answer.upper and "estimated" in answer.status
    assert answer.lower <= 0.5 * inner.upper * (1 + 1e-7)
    assert answer.upper - answer.lower < 1e-6 * answer.upper
    whole = mechc.dpsgd(**words, steps=150, sampler="allocation").epsilon(1e-5)
    both = mechc.dpsgd(**words, epochs=1, sampler="allocation") + run
    assert (whole.lower, whole.upper) == (both.epsilon(1e-5).lower, both.epsilon(1e-5).upper)


def test_another_mechanism_of_the_name_takes_no_part(tmp_path, monkeypatch):
    """A file in MECHC_PATH may be called gaussian; theorems are about the noise that is."""
    text = catalog.built_in("laplace").path.read_text("utf-8")
    (tmp_path / "gaussian.py").write_text(text.replace("laplace", "gaussian"), "utf-8")
    asked = {"dataset_size": 1000, "batch_size": 100, "steps": 10, "noise_multiplier": 1.0}
    known = mechc.dpsgd(**asked).epsilon(1e-5)
    monkeypatch.setenv("MECHC_PATH", str(tmp_path))
    assert "scale" in str(mechc.load("gaussian").parameters)
    assert mechc.dpsgd(**asked).epsilon(1e-5) == known
