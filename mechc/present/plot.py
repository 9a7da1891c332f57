"""Figures, with matplotlib (the optional extra `plot`).

A curve with proven bounds is drawn at the side that never under-reports, with the interval filled;
one without is drawn at its estimate.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.accountants.bound import Bound
from mechc.composition import Composition
from mechc.curve import as_counts
from mechc.errors import DeclarationError, UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mechc.queries import Queries

Floats = NDArray[np.float64]

# colour-blind safe (Okabe and Ito); the first is for mechc's own bounds
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
DASHES = ("-", "--", ":", "-.", "--")
KINDS = ("profile", "tradeoff", "steps")


def run(
    what: Queries,
    path: str | os.PathLike[str] | None = None,
    *,
    kind: str = "profile",
    delta: float = 1e-5,
    counts: Iterable[int] | None = None,
    **how: Any,
) -> Figure:
    """Draw one aspect of an event or a composition; arguments as for its method `plot`.

    Raises:
        DeclarationError: the kind is not known.
        UnsupportedError: matplotlib is not installed, or the file cannot be written.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise DeclarationError(f"kind={kind!r} is not known (expected one of {', '.join(KINDS)})")
    figure, axes = blank()
    if kind == "profile":
        deltas = np.logspace(-12, -0.7, 120)
        draw(axes, deltas, what.epsilon(deltas, **how), falls=True)
        axes.set(xscale="log", xlabel=r"$\delta$", ylabel=r"$\varepsilon$")
        axes.set_ylim(bottom=0)
    elif kind == "tradeoff":
        _draw_tradeoff(axes, what, how)
        axes.plot([0, 1], [1, 0], color="0.6", linewidth=0.8, label="nothing learnt")
        axes.set(xlabel="false positive rate", ylabel="false negative rate")
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.legend(frameon=False)
    else:
        unit, steps, each = _repeated(what.composition(), counts)
        bound = unit.epsilon_curve(delta=delta, counts=steps, **how)
        draw(axes, np.multiply(steps, each), bound)
        word = "repetitions" if each == 1 and counts is not None else "steps"
        axes.set(xlabel=word, ylabel=rf"$\varepsilon$ at $\delta$ = {float(delta):g}")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    axes.set_title("\n".join(textwrap.wrap(repr(what), 80, max_lines=3)), fontsize="medium")
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
    falls: bool = False,
) -> None:
    """Draw one curve of epsilon with its interval; between points by steps to the safe side.

    Args:
        axes: where to draw.
        x: abscissae, shape (n,).
        bound: arrays of shape (n,).
        label: for the legend.
        index: which colour and dash.
        falls: epsilon falls with the abscissa; else it rises.
    """
    lower, upper = np.asarray(bound.lower, float), np.asarray(bound.upper, float)
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
    shown = upper if np.isfinite(upper).any() else np.asarray(bound.estimate)
    how: dict[str, Any] = {"color": colour, "label": label, "linewidth": 1.8}
    axes.plot(x, shown, dash, drawstyle="steps-post" if falls else "steps-pre", **how)
    if np.isfinite(lower).all() and np.isfinite(upper).all() and lower.max(initial=0.0) > 0:
        axes.fill_between(x, lower, upper, color=colour, alpha=0.25, linewidth=0)


def _draw_tradeoff(axes: Axes, what: Queries, how: dict[str, Any]) -> None:
    """Draw the largest of the lines 1 - delta - alpha e^eps that were evaluated, all proven.

    Of two directions the smaller; where nothing is proven, the estimates.
    """
    half = np.logspace(-4, np.log10(0.5), 50)
    rates = np.concatenate(([0.0], half, 1.0 - half[-2::-1], [1.0]))
    names = what.composition().directions(how.get("direction", "both"))
    answers = [what.tradeoff(rates, **{**how, "direction": name}) for name in names]
    style: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.8}
    if any(np.isnan(a.lower).any() for a in answers):
        axes.plot(rates, np.min([np.asarray(a.estimate) for a in answers], axis=0), **style)
        return
    hulls = [_hull(rates, a) for a in answers]
    x = np.unique(np.concatenate([rates, *(hull[0] for hull in hulls)]))
    lower = np.min([np.interp(x, *hull) for hull in hulls], axis=0)
    upper = np.min([np.interp(x, rates, a.upper) for a in answers], axis=0)
    at_zero = min(float(np.asarray(a.lower)[0]) for a in answers)
    axes.plot([0.0, *x], [at_zero, *lower], **style)
    if np.isfinite(upper).all():
        axes.fill_between(x, lower, upper, color=COLOURS[0], alpha=0.25, linewidth=0)


def _hull(rates: Floats, answer: Bound) -> tuple[Floats, Floats]:
    """Corners of the largest of 0 and the lines through (rate, lower) with slope -e^epsilon."""
    inner = zip(rates, np.asarray(answer.lower), answer.detail["each"], strict=True)
    slopes = {-math.exp(at["epsilon"]): (x, y) for x, y, at in inner if 0.0 < x < 1.0 and y > 0.0}
    lines: list[tuple[float, float, float]] = []  # slope, a point, and where the line begins
    corners: list[tuple[float, float]] = []
    for slope, (x, y) in [*sorted(slopes.items()), (0.0, (1.0, 0.0))]:
        at = 0.0
        while lines:
            before, u, v = lines[-1]
            at = (y - v + before * u - slope * x) / (before - slope)
            if at > corners[-1][0]:
                break
            del lines[-1], corners[-1]
            at = 0.0
        lines.append((slope, x, y))
        corners.append((at, y + slope * (at - x)))
    x, y = np.array([*corners, (1.0, 0.0)]).T
    return x, y


def _repeated(
    run: Composition, counts: Iterable[int] | None
) -> tuple[Composition, Sequence[int], int]:
    """What is repeated, how often, and the steps of one repetition.

    By default a run that repeats itself from its first step to its last, else 100 times the run.
    """
    if counts is not None:
        return run, as_counts(counts).tolist(), 1
    times = math.gcd(*(count for _, count in run.parts))
    if times < 2:
        return run, range(1, 101), max(run.count, 1)
    unit = Composition((event, count // times) for event, count in run.parts)
    return unit, np.unique(np.linspace(1, times, 100).round().astype(int)).tolist(), unit.count


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
