"""Figures, with matplotlib (the optional extra `plot`).

A curve with proven bounds is drawn at the side that never under-reports, with the interval filled;
one without is drawn at its estimate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError, UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mechc.protocol import Asked


# colour-blind safe (Okabe and Ito); the first is for mechc's own bounds
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
DASHES = ("-", "--", ":", "-.", "--")
KINDS = ("profile", "tradeoff", "steps")


def run(
    what: Asked,
    path: str | os.PathLike[str] | None = None,
    *,
    kind: str = "profile",
    delta: float = 1e-6,
    counts: Iterable[int] | None = None,
    **how: Any,
) -> Figure:
    """Draw one aspect of an event or a composition; arguments as for its method `plot`.

    Raises:
        DeclarationError: the kind is not known.
        UnsupportedError: matplotlib is not installed, or the file cannot be written.
    """
    if kind not in KINDS:
        raise DeclarationError(f"kind={kind!r} is not known (expected one of {', '.join(KINDS)})")
    figure, axes = blank()
    if kind == "profile":
        deltas = np.logspace(-12, -0.7, 60)
        draw(axes, deltas, what.epsilon(deltas, **how))
        axes.set(xscale="log", xlabel=r"$\delta$", ylabel=r"$\varepsilon$")
        axes.set_ylim(bottom=0)
    elif kind == "tradeoff":
        rates = np.concatenate(([0.0], np.logspace(-4, 0, 80)))
        draw(axes, rates, what.tradeoff(rates, **how), safe="lower")
        axes.plot([0, 1], [1, 0], color="0.6", linewidth=0.8, label="nothing learnt")
        axes.set(xlabel="false positive rate", ylabel="false negative rate")
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.legend(frameon=False)
    else:
        steps = list(range(1, 101) if counts is None else counts)
        draw(axes, steps, what.epsilon_curve(delta=delta, counts=steps, **how))
        axes.set(xlabel="repetitions", ylabel=rf"$\varepsilon$ at $\delta$ = {delta:g}")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    axes.set_title(_shortened(repr(what)), fontsize="medium")
    if path is not None:
        save(figure, path)
    return figure


def epsilon_figure(
    curves: Mapping[str, tuple[Sequence[int], Bound]],
    path: Path,
    delta: float,
    points: Mapping[str, tuple[int, float]] | None = None,
    title: str = "",
) -> Path:
    """Draw several curves of epsilon against the number of steps and write them to a file.

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
    figure, axes = blank()
    for index, (label, (counts, bound)) in enumerate(curves.items()):
        draw(axes, counts, bound, label=label, index=index)
    for label, (steps, value) in (points or {}).items():
        axes.plot([steps], [value], "ko", markersize=5)
        axes.annotate(
            label, (steps, value), (-8, 0), textcoords="offset points", ha="right", va="center"
        )
    axes.set(xlabel="steps", ylabel=rf"$\varepsilon$ at $\delta$ = {delta:g}", title=title)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
    axes.legend(frameon=False)
    save(figure, path)
    return path


def draw(
    axes: Axes,
    x: ArrayLike,
    bound: Bound,
    *,
    label: str = "",
    index: int = 0,
    safe: str = "upper",
) -> None:
    """Draw one curve with its interval.

    Args:
        axes: where to draw.
        x: abscissae, shape (n,).
        bound: arrays of shape (n,).
        label: for the legend.
        index: which colour and dash.
        safe: the side that never under-reports.
    """
    lower, upper = np.asarray(bound.lower, float), np.asarray(bound.upper, float)
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
    proven = upper if safe == "upper" else lower
    shown = proven if np.isfinite(proven).any() else np.asarray(bound.estimate)
    axes.plot(x, shown, dash, color=colour, label=label, linewidth=1.8)
    if np.isfinite(lower).all() and np.isfinite(upper).all() and lower.max() > 0:
        axes.fill_between(x, lower, upper, color=colour, alpha=0.25, linewidth=0)


def blank(width: float = 6.4, height: float = 4.2, columns: int = 1) -> tuple[Figure, Any]:
    """Return a figure and its axes, without a display.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError("figures need matplotlib: pip install 'mechc[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns)
    for one in np.atleast_1d(axes):
        one.grid(alpha=0.3)
    return figure, axes


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file.

    Raises:
        UnsupportedError: the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=160, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"cannot write the figure {path}: {error}") from error


def _shortened(text: str, width: int = 70) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
