"""The figures: distributions of individual epsilons, groups, and who is still taking part."""

import numpy as np
from training import TEST, TRAIN

from mechc.errors import UnsupportedError

# colour-blind safe (Okabe and Ito)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def histograms(studies):
    """Draw one person's profile beside its mu-GDP bound, and epsilons by PLD and by RDP."""
    figure, axes = _blank(1 + len(studies))
    first, *others = axes
    one = studies[0]
    epsilon, exact, bound = one.profile.T
    first.semilogy(epsilon, exact, color=BLUE, label="one person, upper bound")
    first.semilogy(epsilon, bound, color=ORANGE, linestyle="--", label=rf"$\mu$ = {one.mu:.3f}")
    first.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta$", title=f"{one.data.name}: profile")
    first.axvline(one.reach, color="0.6", linewidth=0.8)
    first.text(
        one.reach, first.get_ylim()[1], r"$\mu$ is claimed up to here ", ha="right", va="top",
        rotation=90, fontsize=8, color="0.4",
    )  # fmt: skip
    first.legend(frameon=False, fontsize=9)
    for ax, study in zip(others, studies, strict=True):
        edges = np.linspace(0.0, 1.02 * study.rdp.max(), 36)
        for values, colour, label in ((study.pld, BLUE, "PLD"), (study.rdp, ORANGE, "RDP")):
            counts = np.array([np.histogram(row, edges)[0] for row in values])
            mean, spread = counts.mean(axis=0), counts.std(axis=0)
            ax.stairs(mean, edges, color=colour, fill=True, alpha=0.25)
            ax.stairs(mean, edges, color=colour, label=label)
            ax.vlines((edges[1:] + edges[:-1]) / 2, mean - spread, mean + spread, color=colour)
        ax.set_yscale("symlog", linthresh=10)
        ax.set(xlabel=rf"individual $\varepsilon$ at $\delta$ = {study.delta:g}", ylabel="people")
        ax.set_title(f"{study.data.name}: DP-SGD, {len(study.pld)} seeds")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
    return figure


def groups(studies):
    """Draw each class's mean individual epsilon against its mean test loss."""
    figure, axes = _blank(len(studies))
    for ax, study in zip(axes, studies, strict=True):
        classes = range(len(study.data.classes))
        epsilon = np.array([study.pld[:, study.data.y == c].mean(axis=1) for c in classes])
        for c, name in enumerate(study.data.classes):
            x, y = study.losses[:, TEST, c], epsilon[c]
            ax.errorbar(
                x.mean(), y.mean(), xerr=x.std(), yerr=y.std(), fmt="o", markersize=4,
                color=BLUE, linewidth=0.8,
            )  # fmt: skip
            ax.annotate(
                name, (x.mean(), y.mean()), xytext=(4, 4), textcoords="offset points", fontsize=9
            )
        largest = study.pld.max()
        ax.set(xlabel="test loss of the class", ylabel=r"mean individual $\varepsilon$ (PLD)")
        ax.set_title(rf"{study.data.name}: classes (largest $\varepsilon$: {largest:.2f})")
        ax.margins(x=0.25, y=0.15)
        ax.set_xlim(left=0.0)
    return figure


def filtering(studies, name):
    """Draw losses and the number of active people over time; `name` says what lines differ in."""
    figure, axes = _blank(2, len(studies))
    for (left, right), runs in zip(np.reshape(axes, (-1, 2)), studies, strict=True):
        for one, colour in zip(runs, (BLUE, ORANGE, GREEN), strict=False):
            steps, mean = np.arange(1, one.settings.steps + 1), one.losses.mean(axis=3)
            left.plot(steps, mean[:, :, TRAIN].mean(axis=0), color=colour, linestyle="--")
            _band(left, steps, mean[:, :, TEST], colour, None)
            _band(right, steps, one.active, colour, name(one))
        one = runs[0]
        for ax in (left, right):
            ax.axvline(one.start, color="0.4", linewidth=1.0, linestyle=":")
            ax.set(xlabel="step, filter begins at the dotted line")
        same = len({run.epsilon for run in runs}) == 1
        words = rf"budget $\varepsilon$ = {one.epsilon:g}" if same else f"C = {one.settings.clip:g}"
        for ax in (left, right):
            ax.set_title(f"{one.data.name}: DP-GD, {words}")
        left.set(ylabel="loss, mean of classes (training dashed)", ylim=(0.0, left.get_ylim()[1]))
        right.set(ylabel="active people", ylim=(0, 1.05 * one.data.y.size))
        right.legend(frameon=False, loc="lower left")
    return figure


def spent(studies):
    """Draw who has lost how much when the filter begins, for each clip norm."""
    figure, axes = _blank(len(studies))
    for ax, runs in zip(axes, studies, strict=True):
        one = runs[0]
        edges = np.linspace(0.0, 1.02 * one.epsilon, 36)
        for run, colour in zip(runs, (BLUE, ORANGE, GREEN), strict=True):
            counts = np.array([np.histogram(row, edges)[0] for row in run.spent[0]]).mean(axis=0)
            ax.stairs(counts, edges, color=colour, label=f"C = {run.settings.clip:g}")
        ax.set_yscale("symlog", linthresh=10)
        ax.set(xlabel=r"individual $\varepsilon$ when the filter begins", ylabel="people")
        ax.set_title(rf"{one.data.name}: budget $\varepsilon$ = {one.epsilon:g}")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False, loc="upper center")
    return figure


def classes(studies):
    """Draw each class's losses and mean epsilon when the filter begins and at the end."""
    figure, axes = _blank(3, len(studies))
    names = "training loss", "test loss", r"mean individual $\varepsilon$"
    for row, study in zip(np.reshape(axes, (-1, 3)), studies, strict=True):
        place = np.arange(len(study.data.classes))
        for ax, name, values in zip(row, names, study.by_class, strict=True):
            for which, (shift, colour, fill, words) in enumerate((
                (-0.12, BLUE, "white", f"step {study.start}, filter begins"),
                (0.12, ORANGE, ORANGE, f"step {study.settings.steps}"),
            )):  # fmt: skip
                mean, spread = values[which].mean(axis=0), values[which].std(axis=0)
                ax.errorbar(
                    place + shift, mean, yerr=spread, fmt="o", markersize=4, color=colour,
                    linewidth=0.8, markerfacecolor=fill, label=words,
                )  # fmt: skip
            ax.set_xticks(place, study.data.classes)
            ax.set(xlabel="class", ylabel=name)
            ax.set(xlim=(-0.6, place.size - 0.4), ylim=(0.0, 1.3 * ax.get_ylim()[1]))
            ax.set_title(rf"{study.data.name}: C = {study.settings.clip:g}, "
                         rf"budget $\varepsilon$ = {study.epsilon:g}")  # fmt: skip
            ax.legend(frameon=False, loc="upper center", fontsize=8, ncols=2)
    return figure


def _band(ax, x, rows, colour, label):
    """Draw mean and standard deviation over seeds."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    ax.plot(x, mean, color=colour, label=label)
    ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)


def _blank(columns, rows=1):
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError(
            "matplotlib is not installed (expected the extra mechc[experiment])"
        ) from error
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False).ravel()
