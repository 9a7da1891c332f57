"""Individual privacy in real training runs: `python docs/examples/individual --output FOLDER`.

A small network is trained on scikit-learn's digits and breast cancer sets, by DP-SGD and by
filtered DP-GD, and every training example is followed. Needs the extra `mechc[experiment]`.

Individual losses depend on the data of the person they belong to. They are shown here because both
data sets are public; those of a private data set must not be published.
"""

import argparse
import sys
from pathlib import Path

import figures
import numpy as np
import study
from training import DATASETS, TEST, TRAIN, Settings, load, one_thread

from mechc.errors import MechcError

DELTA = 1e-5
CLIPS = {"digits": 3.0, "breast cancer": 1.0}
START = 60  # steps of filtered DP-GD that are safe for everybody
BUDGET, BUDGETS = 2.75, (0.5, 10.0)  # epsilons, those of section E of the paper
FACTORS = (1.0, 0.5, 5.0)  # of the clip norm, likewise


def main(arguments=None):
    """Train, account, print a table and save the figures."""
    parser = argparse.ArgumentParser(prog="python docs/examples/individual")
    parser.add_argument("--output", type=Path, default=Path("figures"), help="folder for figures")
    parser.add_argument("--seeds", type=int, default=5, help="repetitions of every run")
    parser.add_argument("--steps", type=int, default=400, help="steps of DP-SGD")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.steps < 1:
        parser.error("--seeds and --steps: expected positive integers")
    try:
        with one_thread():
            run(given.output, given.seeds, given.steps)
    except MechcError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def run(output, seeds, steps):
    """Do everything and write into `output`."""
    output.mkdir(parents=True, exist_ok=True)
    sgd, clips, budgets = [], [], []
    for name in DATASETS:
        data, clip = load(name), CLIPS[name]
        how = Settings(clip=clip, noise=4.0, steps=steps, speed=0.25, rate=0.1)
        sgd.append(study.sampled(data, how, DELTA, seeds))
        _say_sampled(sgd[-1])
        clips.append([
            study.filtered(data, f * clip, 0.5 / f, BUDGET, DELTA, seeds, START) for f in FACTORS
        ])  # fmt: skip
        budgets.append([
            study.filtered(data, clip, 0.5, epsilon, DELTA, seeds, START) for epsilon in BUDGETS
        ])  # fmt: skip
        for one in clips[-1] + budgets[-1]:
            _say_filtered(one)
    for name, figure in {
        "histograms": figures.histograms(sgd),
        "groups": figures.groups(sgd),
        "filtering": figures.filtering(clips, lambda one: f"C = {one.settings.clip:g}"),
        "budgets": figures.filtering(budgets, lambda one: rf"$\varepsilon$ = {one.epsilon:g}"),
        "spent": figures.spent(clips),
        "classes": figures.classes([found[0] for found in clips]),
    }.items():
        figure.savefig(output / f"{name}.png", dpi=110)


def _say_sampled(found):
    quartiles = np.quantile(found.pld, [0.25, 0.5, 0.75, 1.0]).round(3)
    saved = float((1.0 - found.pld / np.maximum(found.rdp, 1e-12)).mean())
    sys.stdout.write(
        f"{found.data.name}: {found.data.y.size} people, test accuracy"
        f" {found.accuracy.mean():.3f} +- {found.accuracy.std():.3f}\n"
        f"  epsilon at delta = {found.delta:g}, quartiles and largest: {quartiles.tolist()}\n"
        f"  below the Renyi bound by {saved:.1%} on average; widest interval"
        f" {float((1.0 - found.lower / found.pld).max()):.1e}\n"
        f"  one person: mu <= {found.mu:.4f} for epsilon up to {found.reach:.3f}\n"
    )


def _say_filtered(one):
    loss = one.losses.mean(axis=(0, 3))  # steps, sets
    left = one.active.mean(axis=0) / one.data.y.size
    before, after = loss[one.start - 1], loss[-1]
    sys.stdout.write(
        f"  filtered, epsilon = {one.epsilon:g}, C = {one.settings.clip:g}: test loss"
        f" {before[TEST]:.3f} -> {after[TEST]:.3f}, training loss {before[TRAIN]:.3f} ->"
        f" {after[TRAIN]:.3f}, active {left[one.start]:.0%} -> {left[-1]:.0%}\n"
    )
    if one.epsilon == BUDGET and one.settings.clip == CLIPS[one.data.name]:
        (a, b), (c, d), (e, f) = one.by_class.std(axis=3).mean(axis=2)
        sys.stdout.write(
            f"    between classes: training loss +- {a:.3f} -> {b:.3f}, test loss +- {c:.3f} ->"
            f" {d:.3f}, epsilon +- {e:.2f} -> {f:.2f}\n"
        )


if __name__ == "__main__":
    sys.exit(main())
