"""Figures, with matplotlib (the optional extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.errors import UnsupportedError

# colour-blind safe (Okabe and Ito); the first is for mechc's own bounds
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
DASHES = ("-", "--", ":", "-.", "--")


def epsilon_figure(
    curves: Mapping[str, tuple[Sequence[int], Bound]],
    path: Path,
    delta: float,
    points: Mapping[str, tuple[int, float]] | None = None,
    title: str = "",
) -> Path:
    """Draw epsilon against the number of steps and write it to a file.

    A curve with proven bounds is drawn at its upper side with the interval filled; one without is
    drawn at its estimate.

    Args:
        curves: for each label the counts and the bounds at these counts.
        path: file to write; the suffix decides the format.
        delta: the delta of all curves, for the axis.
        points: single published values, (steps, epsilon), by label.
        title: title of the figure.

    Returns:
        The path written.

    Raises:
        UnsupportedError: matplotlib is not installed, or the file cannot be written.
    """
    figure, axes = _axes()
    for index, (label, (counts, bound)) in enumerate(curves.items()):
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
        upper, lower = np.asarray(bound.upper), np.asarray(bound.lower)
        proven = bool(np.isfinite(upper).any())
        shown = upper if proven else np.asarray(bound.estimate)
        axes.plot(counts, shown, dash, color=colour, label=label, linewidth=1.8)
        if proven and np.isfinite(lower).all() and lower.max() > 0:
            axes.fill_between(counts, lower, upper, color=colour, alpha=0.25, linewidth=0)
    for label, (steps, value) in (points or {}).items():
        axes.plot([steps], [value], "ko", markersize=5)
        axes.annotate(
            label, (steps, value), (-8, 0), textcoords="offset points", ha="right", va="center"
        )
    axes.set(xlabel="steps", ylabel=rf"$\varepsilon$ at $\delta$ = {delta:g}", title=title)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    try:
        figure.savefig(path, dpi=160, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"cannot write the figure {path}: {error}") from error
    return path


def _axes() -> tuple[Any, Any]:
    """Return a figure and its axes, without a display."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError("figures need matplotlib: pip install 'mechc[plot]'") from error
    figure = Figure(figsize=(6.4, 4.2))
    FigureCanvasAgg(figure)
    return figure, figure.subplots()
