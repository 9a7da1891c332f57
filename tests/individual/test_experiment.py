"""The experiment: gradients are those of the loss, budgets are kept, figures appear."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mechc.individual import GDPFilter

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "individual"
sys.path.append(str(EXAMPLE))
import training  # noqa: E402
from network import Network  # noqa: E402

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def data():
    return training.load("breast cancer")


def test_gradients_are_derivatives_of_the_loss():
    rng = np.random.default_rng(1)
    network = Network.start(3, 4, 3, rng)
    network.layers[1] += rng.standard_normal(network.layers[1].shape)
    x, y = rng.standard_normal((5, 3)), np.array([0, 1, 2, 0, 1])
    gradients = network.backward(x, y)
    found = [gradients.summed(np.eye(5)[i]) for i in range(5)]
    for layer in range(2):
        for place in np.ndindex(network.layers[layer].shape):
            losses = []
            for shift in (1e-6, -2e-6):
                network.layers[layer][place] += shift
                losses.append(network.losses(x, y))
            network.layers[layer][place] += 1e-6
            slope = (losses[0] - losses[1]) / 2e-6
            assert np.allclose([f[layer][place] for f in found], slope, atol=1e-7)
    norms = [np.sqrt(sum((part**2).sum() for part in f)) for f in found]
    assert np.allclose(gradients.norms(), norms, rtol=1e-12)


def test_noise_ratios_say_how_much_of_the_clip_norm_was_used(data):
    how = training.Settings(clip=1.0, noise=4.0, steps=3, speed=0.25, rate=0.5)
    run = training.dp_sgd(data, how, seed=3)
    network = Network.start(data.x.shape[1], 32, 2, np.random.default_rng(3))
    norms = network.backward(data.x, data.y).norms()
    share = np.clip(norms, training.LEAST, 1.0)
    assert np.allclose(run.ratios[0], 4.0 / share, rtol=1e-12)
    assert run.ratios.min() >= 4.0 and run.losses.shape == (3, 2, 2)
    again = training.dp_sgd(data, how, seed=3)
    assert np.array_equal(run.ratios, again.ratios)


def test_filtered_training_keeps_every_budget(data):
    budget = GDPFilter(people=data.y.size, mu=0.5)  # 16 steps of mu = 1/8
    how = training.Settings(clip=0.3, noise=8.0, steps=24, speed=1.0)
    run = training.filtered_dp_gd(data, how, seed=0, budget=budget)
    active = np.isfinite(run.ratios)
    assert active[:16].all() and not active[16:].all() and active[16:].any()
    used = np.where(active & (run.ratios < how.noise / training.LEAST), run.ratios, np.inf)
    assert ((used**-2.0).sum(axis=0) <= 0.25 * (1 + 1e-12)).all()
    assert (budget.spent() <= 0.5).all()


@pytest.mark.slow
def test_the_script_draws_all_figures(tmp_path):
    pytest.importorskip("matplotlib")
    words = ["--output", str(tmp_path), "--seeds", "2", "--steps", "20"]
    done = subprocess.run([sys.executable, EXAMPLE, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "digits: 1438 people" in done.stdout
    shown = EXAMPLE.parents[1] / "individual"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in shown.iterdir())
