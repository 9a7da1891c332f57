"""The figures: distributions of individual epsilons, groups, and who is still taking part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import UnsupportedError
from mechc.individual.experiment.study import Filtered, Sampled

Floats = NDArray[np.float64]

# colour-blind safe (Okabe and Ito)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def histograms(studies: Sequence[Sampled]) -> Any:
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


def groups(studies: Sequence[Sampled]) -> Any:
    """Draw each class's mean individual epsilon against its mean test loss."""
    figure, axes = _blank(len(studies))
    for ax, study in zip(axes, studies, strict=True):
        classes = range(len(study.data.classes))
        epsilon = np.array([study.pld[:, study.data.y == c].mean(axis=1) for c in classes])
        for c, name in enumerate(study.data.classes):
            x, y = study.losses[:, c], epsilon[c]
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


def filtering(studies: Sequence[tuple[Filtered, Filtered]]) -> Any:
    """Draw test losses and the number of active people over time, for two clip norms."""
    figure, axes = _blank(2, len(studies))
    for (left, right), pair in zip(np.reshape(axes, (-1, 2)), studies, strict=True):
        for study, colour in zip(pair, (BLUE, ORANGE), strict=True):
            steps = np.arange(1, study.settings.steps + 1)
            label = f"C = {study.settings.clip:g}"
            _band(left, steps, study.losses.mean(axis=2), colour, label)
            _band(right, steps, study.active, colour, label)
        one = pair[0]
        for ax in (left, right):
            ax.axvline(one.start, color=GREEN, linewidth=1.0, linestyle=":", label="filter begins")
            ax.set(xlabel="step")
        left.set(ylabel="test loss, mean of classes", title=f"{one.data.name}: filtered DP-GD")
        budget = rf"budget $\varepsilon$ = {one.epsilon:.2f}, $\delta$ = {one.delta:g}"
        right.set(ylabel="active people", title=budget)
        left.legend(frameon=False)
        right.set_ylim(0, 1.05 * one.data.y.size)
    return figure


def shifts(studies: Sequence[tuple[Filtered, Filtered]]) -> Any:
    """Draw how each class's test loss moves once the filter leaves people out."""
    figure, axes = _blank(len(studies))
    for ax, (study, _) in zip(axes, studies, strict=True):
        before, after = study.losses[:, study.start - 1], study.losses[:, -1]
        classes = range(len(study.data.classes))
        epsilon = np.array([study.spent[:, study.data.y == c].mean(axis=1) for c in classes])
        change = (after - before).T
        for c, name in enumerate(study.data.classes):
            x, y = epsilon[c], change[c]
            ax.errorbar(
                x.mean(), y.mean(), xerr=x.std(), yerr=y.std(), fmt="o", markersize=4,
                color=BLUE, linewidth=0.8,
            )  # fmt: skip
            ax.annotate(
                name, (x.mean(), y.mean()), xytext=(4, 4), textcoords="offset points", fontsize=9
            )
        ax.axhline(0.0, color="0.6", linewidth=0.8)
        ax.set(
            xlabel=r"mean individual $\varepsilon$ when the filter begins",
            ylabel="change of test loss afterwards",
            title=f"{study.data.name}: classes, C = {study.settings.clip:g}",
        )
        ax.margins(x=0.25, y=0.15)
    return figure


def _band(ax: Any, x: NDArray[Any], rows: Floats, colour: str, label: str) -> None:
    """Draw mean and standard deviation over seeds."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    ax.plot(x, mean, color=colour, label=label)
    ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)


def _blank(columns: int, rows: int = 1) -> tuple[Any, Any]:
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
