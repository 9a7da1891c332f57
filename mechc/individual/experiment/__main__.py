"""Run the experiment: `python -m mechc.individual.experiment --output figures`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from mechc.errors import MechcError
from mechc.individual.experiment import figures, study
from mechc.individual.experiment.training import DATASETS, Settings, load

DELTA = 1e-5
CLIPS = {"digits": 3.0, "breast cancer": 1.0}
START = 60  # steps of filtered DP-GD that are safe for everybody


def main(arguments: list[str] | None = None) -> int:
    """Train, account, print a table and save the figures."""
    parser = argparse.ArgumentParser(prog="python -m mechc.individual.experiment")
    parser.add_argument("--output", type=Path, default=Path("figures"), help="folder for figures")
    parser.add_argument("--seeds", type=int, default=5, help="repetitions of every run")
    parser.add_argument("--steps", type=int, default=400, help="steps of DP-SGD")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.steps < 1:
        parser.error("--seeds and --steps: expected positive integers")
    try:
        run(given.output, given.seeds, given.steps)
    except MechcError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def run(output: Path, seeds: int, steps: int) -> None:
    """Do everything and write into `output`.

    Args:
        output: folder, made if needed.
        seeds: repetitions of every run.
        steps: steps of DP-SGD.
    """
    output.mkdir(parents=True, exist_ok=True)
    sgd, gd = [], []
    for name in DATASETS:
        data = load(name)
        how = Settings(clip=CLIPS[name], noise=4.0, steps=steps, speed=0.25, rate=0.1)
        sgd.append(study.sampled(data, how, DELTA, seeds))
        _print(sgd[-1])
        full = Settings(clip=CLIPS[name], noise=20.0, steps=2 * START, speed=0.5)
        gd.append(study.filtered(data, full, DELTA, seeds, START))
    for name, figure in {
        "histograms": figures.histograms(sgd),
        "groups": figures.groups(sgd),
        "filtering": figures.filtering(gd),
        "shifts": figures.shifts(gd),
    }.items():
        figure.savefig(output / f"{name}.png", dpi=110)


def _print(found: study.Sampled) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
