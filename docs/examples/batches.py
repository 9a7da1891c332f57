"""The figure of docs/batches.md: python docs/examples/batches.py FOLDER."""

import sys
from pathlib import Path

from matplotlib import rc_context

import mechc
from mechc.report import plot

WORDS = {"dataset_size": 60_000, "batch_size": 600, "noise_multiplier": 0.8}
EPOCHS = (1, 2, 3, 5, 7, 10, 14, 20)
SAMPLERS = (
    ("random allocation", {"sampler": "allocation"}),
    ("Poisson", {"sampler": "poisson"}),
    ("Poisson, cut at 700", {"sampler": "truncated", "batch_cap": 700}),
    ("shuffled", {"sampler": "shuffled"}),
    ("fixed size, replace one", {"sampler": "fixed"}),
)
OFFSETS = {"Poisson, cut at 700": 10, "random allocation": -8, "shuffled": -6}  # points, to be read
LEVELS = (1, 2, 3, 5, 10, 20, 40)


def answers():
    """Epsilon at delta = 1e-5 after some epochs, for every sampler, from above."""
    return {
        name: [mechc.dpsgd(**WORDS, **how, epochs=n).epsilon(1e-5).upper for n in EPOCHS]
        for name, how in SAMPLERS
    }


def figure(found, path):
    """Epsilon against epochs on a logarithmic axis, each curve with its name."""
    drawn, axes = plot.blank(7.2, 4.4)
    for place, (name, values) in enumerate(found.items()):
        colour = plot.COLOURS[place]
        dash = plot.DASHES[place]
        axes.plot(EPOCHS, values, linestyle=dash, marker="o", markersize=3, color=colour)
        axes.annotate(
            name, (EPOCHS[-1], values[-1]), xytext=(6, OFFSETS.get(name, 0)),
            textcoords="offset points", va="center", color=colour,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlim(0.0, 1.45 * EPOCHS[-1])
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_yticks(LEVELS, [f"{level}" for level in LEVELS])
    axes.minorticks_off()
    axes.set_xlabel("epochs of 100 steps")
    axes.set_ylabel("epsilon, from above")
    axes.set_title("60 000 records, batches of 600, noise multiplier 0.8, delta = 1e-5")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "mechc"}):
        drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})


def main():
    """Write the figure into a folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures")
    folder.mkdir(parents=True, exist_ok=True)
    found = answers()
    for name, values in found.items():
        sys.stdout.write(f"{name}: {', '.join(f'{value:.4g}' for value in values)}\n")
    figure(found, folder / "batches.svg")
    figure(found, folder / "batches.png")


if __name__ == "__main__":
    main()
