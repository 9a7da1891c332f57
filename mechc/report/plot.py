"""Figures, with matplotlib (the optional extra `plot`).

A curve with proven bounds is drawn at the side that never under-reports, with the interval filled;
one without is drawn at its estimate. Curves carry their names, colours are those of Okabe and Ito.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from mechc.accountants import registry
from mechc.accountants.bound import Bound
from mechc.adjacency import Adjacency
from mechc.errors import DeclarationError, UnsupportedError, check_one_of, library
from mechc.protocol import TAG, Floats, Measure
from mechc.report import labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mechc.protocol import Asked, Kernel, Use


# colour-blind safe (Okabe and Ito); the first is for mechc's own bounds
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A6A00", "#56B4E9")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1)))
_RAISED = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)
TAIL = 1e-3  # probability left out at each end of densities
LEAST_DELTA = 1e-300  # smallest delta of a profile
SEEN = 1e-4  # relative width of delta that no line is thin enough to show
CELLS = 160  # of the law of the loss
CELL_RTOL = 1e-6  # of delta at their edges: differences of differences are drawn
CHORD = 8  # points of each chord of a profile
DRAWN, DRAWN_ALONE = 240, 16  # counts of a curve; by methods that share nothing between counts
MARKED = 32  # counts of a curve that are marked

How: TypeAlias = dict[str, Any]


class Look(NamedTuple):
    """What a figure is drawn with, besides the runs in it."""

    delta: float
    counts: list[int] | None
    smallest: float
    log: bool
    epoch: float


def run(
    what: Asked,
    path: str | os.PathLike[str] | None,
    look: Look,
    *,
    kind: str,
    ax: Axes | None,
    label: str,
    beside: Mapping[str, Asked] | None,
    methods: Iterable[str],
    target: float | None,
    **how: Any,
) -> Figure | Axes:
    """Draw one aspect of events or compositions; arguments as for the method `plot`."""
    check_one_of("kind", kind, KINDS, "plot")
    if not LEAST_DELTA <= look.smallest < 0.1:
        raise DeclarationError(
            f"smallest={look.smallest!r} (expected {LEAST_DELTA:g} <= smallest < 0.1)"
        )
    check(path)
    for word in methods:
        registry.resolve(word, {})
    own, how = label or ("this run" if beside else ""), {"rtol": SEEN, **how}
    runs = [(word, what, {**how, "method": word}) for word in methods] or [(own, what, how)]
    runs += [(name, other, how) for name, other in (beside or {}).items()]
    relations = [one.composition().claim.adjacency for _, one, _ in runs]
    if {Adjacency.ADD_REMOVE, Adjacency.REPLACE} <= {*relations}:  # curves are compared by eye
        named = zip(runs, relations, strict=True)
        runs = [(f"{name} ({known.words})", one, asked) for (name, one, asked), known in named]
    for name, _, _ in runs:
        _check_formula(name)
    figure, axes = blank() if ax is None else _given(ax)
    for index, (name, one, asked) in enumerate(runs):
        KINDS[kind](axes, one, asked, look, name, index)
    if target is not None:
        axes.axhline(target, color="0.35", linewidth=0.9, dashes=(4, 3))
        falls = kind != "steps"  # and leaves room on the right
        axes.annotate(
            f"target {target:g}", (float(falls), target), (-4 if falls else 4, 3), color="0.35",
            xycoords=("axes fraction", "data"), textcoords="offset points", fontsize="small",
            ha="right" if falls else "left",
        )  # fmt: skip
    if kind != "tradeoff":
        axes.set_ylim(bottom=0)
    if kind == "steps":
        axes.set_xlim(left=0)
    if len(runs) == 1 or methods or not label:
        mark = "" if len(runs) == 1 or methods else f"{own}: "
        _entitle(axes, f"{mark}{what!r}", whole=ax is None)
    labels.write(axes, below=ax is None)
    if path is not None:
        save(figure, path)
    return figure if ax is None else ax


def bars(
    rows: Mapping[str, Sequence[float]],
    words: Sequence[str],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str = "",
    xlabel: str = "",
    ax: Axes | None = None,
    joined: bool = False,
) -> Figure | Axes:
    """Draw a row of marks for each name, on a log scale; what is not finite is left out.

    With `joined` the first and the last value of a row are the ends of an interval, one without an
    end an arrow; a mark without them is hollow.
    """
    figure, axes = blank(7.2, 1.3 + 0.28 * len(rows)) if ax is None else _given(ax)
    marks = "|D|" if joined else "os^v*P"
    names = list(rows)
    table = np.array([[v if math.isfinite(v) else np.nan for v in rows[n]] for n in names], float)
    places = -np.arange(len(names), dtype=float)
    seen = table[np.isfinite(table) & (table > 0.0)]
    if seen.size and seen.max() > 20.0 * seen.min() and not (table < 0.0).any():
        axes.set_xscale("log")
        axes.set_xlim(0.5 * seen.min(), 2.0 * seen.max())
        table = np.where(table == 0.0, 1e-3 * seen.min(), table)  # beyond the left end
    for column, word in enumerate(words):
        colour = COLOURS[0 if joined else column]
        axes.plot(table[:, column], places, marks[column], color=colour, label=word, markersize=5)
    if joined:
        right = axes.get_xlim()[1]
        endless = np.array([rows[name][-1] == math.inf for name in names])
        ends = np.where(endless, right, table[:, -1])
        axes.hlines(places, table[:, 0], ends, color=COLOURS[0], linewidth=2, alpha=0.5)
        axes.plot(ends[endless], places[endless], ">", color=COLOURS[0], markersize=5)
        axes.set_xlim(right=right)
        bare = np.isnan(table[:, [0, -1]]).all(axis=1)
        axes.plot(table[bare, 1], places[bare], "D", color=COLOURS[0], mfc="w", markersize=5)
    axes.set_yticks(places, names)
    axes.set(xlabel=xlabel, ylim=(0.5 - len(names), 0.5))  # no row on the frame
    axes.grid(axis="y", alpha=0.15)
    if not joined:
        own = {"loc": "outside lower center"}  # names of rows may leave the axes less than it needs
        place = own if ax is None else {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
        (figure if ax is None else axes).legend(
            ncols=len(words), frameon=False, fontsize="small", handletextpad=0.1,
            columnspacing=1.0, **place,
        )  # fmt: skip
    figure.suptitle("\n".join(textwrap.wrap(title, 86)), fontsize="medium")
    if path is not None:
        save(figure, path)
    return figure if ax is None else ax


def draw(
    axes: Axes,
    x: ArrayLike,
    bound: Bound,
    *,
    label: str = "",
    index: int = 0,
    between: Callable[[Floats, Floats], Iterable[Floats]] | None = None,
) -> None:
    """Draw one curve with its interval; what is drawn between points is on the safe side too.

    `between` adds points to abscissae and values; by default the values rise in steps.
    """
    lower, upper = np.asarray(bound.lower, float), np.asarray(bound.upper, float)
    proven = bool(np.isfinite(upper).any())
    shown = upper if proven else np.asarray(bound.estimate)
    if (lower == np.inf).all():
        label = f"{label} (infinite)" if label else "infinite in all of the figure"
    elif not proven and label:
        label = f"{label} (estimate)"
    x = np.asarray(x, float)
    fine, shown = (x, shown) if between is None else between(x, shown)
    how = {} if between else {"drawstyle": "steps-pre", "marker": "." if len(x) < MARKED else ""}
    _line(axes, fine, shown, label, index, **how)
    if np.isfinite(lower).all() and np.isfinite(upper).all() and lower.max(initial=0.0) > 0:
        below = np.interp(fine, x, lower)
        axes.fill_between(fine, below, shown, color=_colour(index), alpha=0.25, linewidth=0)


def chords(epsilon: Floats, delta: Floats) -> tuple[Floats, Floats]:
    """Return a profile with more points: delta is convex in exp(epsilon), and below its chords.

    Epsilons rise; next to one that is infinite there are steps.
    """
    share = np.linspace(0.0, 1.0, CHORD, endpoint=False)
    step = np.diff(np.where(np.isfinite(epsilon), epsilon, np.nan))[:, None]
    step = np.nan_to_num(step)  # none towards infinity
    fine = epsilon[:-1, None] + share * step
    whole = np.where(step > 0.0, -np.expm1(-step), 1.0)
    rise = np.exp((share - 1.0) * step) * -np.expm1(-share * step) / whole  # exp(epsilon), 0 to 1
    down = delta[:-1, None] + rise * np.diff(delta)[:, None]
    return np.append(fine, epsilon[-1:]), np.append(down, delta[-1:])


def _given(ax: Any) -> tuple[Figure, Any]:
    """The figure of axes that are one's own, and these."""
    if getattr(ax, "name", "") != "rectilinear":
        raise DeclarationError(f"ax={ax!r} (expected axes of matplotlib, with x and y)")
    return ax.figure, ax


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _line(axes: Axes, x: Any, y: Any, label: str, index: int, **how: Any) -> None:
    dashes: Any = DASHES[(index + index // len(COLOURS)) % len(DASHES)]  # seen again after 36
    how |= {"color": _colour(index), "label": label or "_", "linewidth": 1.8}
    axes.plot(x, y, linestyle=dashes, **how)


def _profile(axes: Axes, what: Asked, how: How, look: Look, label: str, index: int) -> None:
    """Epsilon against delta."""
    powers = -round(math.log10(look.smallest))
    logs = np.linspace(math.log(look.smallest), math.log(0.2), 80 + powers)  # else like stairs
    answer = what.epsilon(log_delta=logs, **how)
    draw(
        axes,
        np.exp(logs),
        answer,
        label=label,
        index=index,
        between=lambda x, y: np.flip(chords(y[::-1], x[::-1])),
    )
    axes.set(xscale="log", xlabel=r"$\delta$", ylabel=r"$\varepsilon$")
    axes.set_xlim(look.smallest, 1.0)
    if powers > 50:  # matplotlib's own are powers such as -37 and -74
        every = 10 * math.ceil(powers / 80)
        axes.set_xticks([10.0**-power for power in range(0, powers + 1, every)])
        axes.minorticks_off()


def _tradeoff(axes: Axes, what: Asked, how: How, look: Look, label: str, index: int) -> None:
    """False negative against false positive rate; on log axes the true positive rate."""
    least = 1e-6 if look.log else 1e-4
    half = np.logspace(math.log10(least), math.log10(0.5), 60 if look.log else 50)
    rates = np.concatenate(([0.0], half, 1.0 - half[-2::-1], [1.0]))
    x, lower, upper = _proven_tradeoff(what, how, rates)
    if look.log:
        fine = np.logspace(math.log10(least), 0.0, 400)
        lower, upper = (1.0 - np.interp(fine, x, side) for side in (lower, upper))
        x = fine
        axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.4))
    _line(axes, x, lower, label, index)
    if not index:
        guess = np.logspace(math.log10(least), 0.0, 50) if look.log else np.array([0.0, 1.0])
        axes.plot(guess, guess if look.log else 1.0 - guess, color="0.55", linewidth=0.9)
        at, side = ((least**0.6,) * 2, -5) if look.log else ((0.6, 0.4), 4)
        axes.annotate("random guessing", at, (6, side), textcoords="offset points", color="0.4",
                      fontsize="small", va="top" if look.log else "bottom")  # fmt: skip
    if np.isfinite(upper).all():
        axes.fill_between(x, lower, upper, color=_colour(index), alpha=0.25, linewidth=0)
    axes.set(xlabel="false positive rate")
    axes.set(ylabel="true positive rate" if look.log else "false negative rate")
    if not look.log:
        axes.set(xlim=(0, 1), ylim=(0, 1))


def _steps(axes: Axes, what: Asked, how: How, look: Look, label: str, index: int) -> None:
    """Epsilon in the course of the run."""
    run, counts, each = what.composition(), look.counts, 1
    if counts is None:  # of a run that repeats itself, from its first step to its last
        unit, times = run.unit()
        points = DRAWN if how.get("method", "auto") in ("auto", "contour") else DRAWN_ALONE
        counts = np.unique(np.linspace(1, times, points).round().astype(int)).tolist()
        run, counts = (unit, counts) if times > 1 else (run, list(range(1, 101)))
        each = max(run.count, 1)
    bound = run.epsilon_curve(delta=look.delta, counts=counts, **how)
    draw(axes, np.multiply(counts, each) / look.epoch, bound, label=label, index=index)
    word = "steps" if look.counts is None or run.count == 1 else "repetitions"
    word = word if look.epoch == 1.0 else "epochs"
    axes.set(xlabel=word, ylabel=_epsilon_at(look.delta))


def _loss(axes: Axes, what: Asked, how: How, look: Look, label: str, index: int) -> None:
    """The law of the privacy loss: shares of cells, and point masses of one step as lines."""
    # exp(-e) P(L > e) has the integral exp(-a) delta(a) - exp(-b) delta(b) over (a, b).
    how = {**how, "rtol": min(how["rtol"], CELL_RTOL)}
    reach = float(np.asarray(what.epsilon(1e-7, **how).upper))
    if not math.isfinite(reach):
        reach = float(np.asarray(what.epsilon(0.5, **how).upper)) + 10.0
        reach = reach if math.isfinite(reach) else 10.0  # where hardly any loss is finite
    edges = np.linspace(-1.25 * reach, 1.25 * reach, CELLS + 2) if reach else np.linspace(-1, 1, 9)
    direction = what.composition().directions(how.get("direction", "both"))[0]
    delta = np.asarray(what.delta(edges, **{**how, "direction": direction}).estimate)
    steps = what.composition().steps(direction)
    law = steps[0].loss if [step.count for step in steps] == [1] else None
    only, (places, masses) = False, np.empty((2, 0))
    if not steps:  # nothing is lost
        only, places, masses = True, np.zeros(1), np.ones(1)
    elif law is not None and law.is_resolved and law.atom_loss.size <= CELLS:
        places, masses, only = law.atom_loss, np.exp(law.atom_log_mass), not law.loss.size
        delta = delta + np.expm1(np.minimum(edges[:, None] - places, 0.0)) @ masses
    width = np.diff(edges)
    above = (delta[:-1] - np.exp(-width) * delta[1:]) / -np.expm1(-width)
    density = np.maximum(-np.diff(above), 0.0) / width[0] * (not only)
    kept = (masses > 1e-4 * masses.max(initial=0.0)) & (abs(places) <= edges[-1])
    middles = edges[1:-1]
    seen = [*middles[density > 1e-4 * density.max(initial=0.0)], *places[kept]]
    if not only:
        _line(axes, middles, density, label, index, drawstyle="steps-mid")
        axes.fill_between(
            middles, density, step="mid", color=_colour(index), alpha=0.12, linewidth=0
        )
    axes.vlines(places[kept], 0.0, masses[kept], color=_colour(index), linewidth=3,
                label=label if only else "")  # fmt: skip
    beside = "; of lines, mass" if kept.any() else ""
    axes.set(xlabel=f"privacy loss of one run ({direction})")
    axes.set(ylabel="mass" if only else f"density{beside}")
    if seen:
        low, high = min(seen) - 2.0 * width[0], max(seen) + 2.0 * width[0]
        old = axes.get_xlim() if index else (low, high)
        axes.set_xlim(min(low, old[0]), max(high, old[1]))


def _densities(axes: Axes, what: Asked, how: How, look: Look, label: str, index: int) -> None:
    """The two output laws of one use."""
    use = cast("Use", what)
    if not hasattr(what, "mechanism") or not hasattr(use.mechanism, "kernel"):
        raise DeclarationError(
            "kind='densities' is of one use of a mechanism, not of several or of a table (expected "
            "such as run.parts[0][0].plot(kind='densities'))"
        )
    densities(axes, use.mechanism.kernel, np.array(use.theta), label, 2 * index)


def densities(axes: Axes, kernel: Kernel, theta: Floats, label: str = "", index: int = 0) -> None:
    """Draw p and q, atoms as lines."""
    if TAG in kernel.CAPABILITIES:
        raise UnsupportedError(f"kind='densities': outputs of {kernel.NAME} have an index besides")
    x = outputs(kernel, theta)
    for i, (word, many) in enumerate((("p", kernel.log_p_many), ("q", kernel.log_q_many))):
        out = np.empty_like(x)
        many(x, theta, out)
        curve(axes, kernel, x, np.exp(out), f"{label} {word}".strip(), index + i)
    for place, log_p, log_q in kernel.atoms(theta):
        for i, (height, shift) in enumerate(((np.exp(log_p), -1), (np.exp(log_q), 1))):
            width = 0.004 * (x[-1] - x[0])
            axes.vlines(place + shift * width, 0, height, color=_colour(index + i), linewidth=3)
    axes.set(xlabel="output", ylabel="density" if kernel.MEASURE == Measure.DENSITY else "mass")
    axes.set_ylim(bottom=0, auto=True)  # room for what is drawn next


def curve(axes: Axes, kernel: Kernel, x: Floats, y: Floats, label: str, index: int) -> None:
    """Draw a function of the outputs: a line, or marks where outputs are single points."""
    if kernel.MEASURE != Measure.DENSITY:
        how: dict[str, Any] = {"color": _colour(index), "label": label or "_"}
        axes.plot(x, y, "os"[index % 2], markersize=3, **how)
    else:
        _line(axes, x, y, label, index)


def outputs(kernel: Kernel, theta: Floats) -> Floats:
    """Return outputs that carry all but about `TAIL` of P and of Q at each end."""
    branches = kernel.branches(theta)
    atoms = kernel.atoms(theta)[:, 0]
    if not branches.size:
        return np.sort(atoms)
    ends = np.concatenate((kernel.breakpoints(theta), atoms))
    ends = ends[np.isfinite(ends)]
    centres = np.append(ends, ends.mean() if ends.size else 0.0)
    lattice = kernel.MEASURE == Measure.LATTICE
    away = np.logspace(0, 12, 2001) if lattice else np.logspace(-30, 30, 4001)  # of any scale
    x = np.unique(np.add.outer(centres, np.concatenate((-away, [0.0], away))))
    if lattice:
        x = np.unique(np.round(x))
    mass = np.zeros_like(x)
    for log_many in (kernel.log_p_many, kernel.log_q_many):
        out = np.empty_like(x)
        log_many(x, theta, out)
        mass += np.nan_to_num(np.exp(out), posinf=0.0) * np.gradient(x)  # a pole alone has none
    total = np.cumsum(mass)
    lo, hi = np.interp([TAIL * total[-1], (1 - TAIL) * total[-1]], total, x)
    if lattice:
        return np.unique(np.round(np.linspace(np.floor(lo), np.ceil(hi), 1501)))
    return np.linspace(lo, hi, 1501)


KINDS: dict[str, Callable[[Axes, Asked, How, Look, str, int], None]] = {
    "profile": _profile, "tradeoff": _tradeoff, "steps": _steps, "loss": _loss,
    "densities": _densities,
}  # fmt: skip


def _proven_tradeoff(what: Asked, how: How, rates: Floats) -> tuple[Floats, Floats, Floats]:
    """The largest of the lines 1 - delta - alpha e^eps that were evaluated, all proven."""
    # Of two directions the smaller; where nothing is proven, the estimates.
    names = what.composition().directions(how.get("direction", "both"))
    answers = [what.tradeoff(rates, **{**how, "direction": name}) for name in names]
    if any(np.isnan(a.lower).any() for a in answers):
        estimate = np.min([np.asarray(a.estimate) for a in answers], axis=0)
        return rates, estimate, np.full_like(rates, np.nan)
    hulls = [_hull(rates, a) for a in answers]
    x = np.unique(np.concatenate([rates, *(hull[0] for hull in hulls)]))
    lower = np.min([np.interp(x, *hull) for hull in hulls], axis=0)
    upper = np.min([np.interp(x, rates, a.upper) for a in answers], axis=0)
    at_zero = min(float(np.asarray(a.lower)[0]) for a in answers)
    first = min(float(np.asarray(a.upper)[0]) for a in answers)
    return np.array([0.0, *x]), np.array([at_zero, *lower]), np.array([first, *upper])


def _hull(rates: Floats, answer: Bound) -> tuple[Floats, Floats]:
    """Corners of the largest of 0 and the lines through (rate, lower) with slope -e^epsilon."""
    lower = np.asarray(answer.lower)
    used = (rates > 0.0) & (rates < 1.0) & (lower > 0.0)
    asked = [at["epsilon"] for at, on in zip(answer.detail["each"], used, strict=True) if on]
    slope, first = np.unique([*-np.exp(asked), 0.0], return_index=True)
    x, y = np.append(rates[used], 1.0)[first], np.append(lower[used], 0.0)[first]
    start = y - slope * x
    lines = start + slope * x[:, None]
    on = lines.diagonal() >= lines.max(axis=1)  # no other one is above it where it touches
    slope, x, start = slope[on], x[on], start[on]
    corner = np.clip(-np.diff(start) / np.diff(slope), x[:-1], x[1:])
    corner = np.concatenate([[0.0], corner, [1.0]])
    return corner, np.append(start, 0.0) + np.append(slope, 0.0) * corner


def _check_formula(name: str) -> None:
    """Refuse a name between whose dollars stands what matplotlib does not read as a formula."""
    from matplotlib.mathtext import MathTextParser

    try:
        if str(name).count("$") > 1:
            MathTextParser("path").parse(name)
    except ValueError:
        raise DeclarationError(
            f"label={name!r} is no formula for matplotlib (expected TeX between dollars, or \\$)"
        ) from None


def _entitle(axes: Axes, title: str, whole: bool) -> None:
    """Write a title over axes: the whole of it over a figure, two lines among other axes."""
    title = title.replace("$", r"\$")
    figure: Any = axes.figure
    width = 0.9 * figure.bbox.width if whole else axes.bbox.width  # axes stand right of the middle
    room = width / figure.dpi * 72.0
    for fontsize, points in {"medium": 10.0, "small": 8.3, "x-small": 7.0}.items():
        letters = max(int(room / (0.58 * points)), 20)
        axes.set_title("\n".join(textwrap.wrap(title, letters)), fontsize=fontsize)
        if len(title) <= 2 * letters:
            return
    if not whole:
        short = textwrap.wrap(title, letters, max_lines=2, placeholder=" ...")
        axes.set_title("\n".join(short), fontsize="x-small")


def _epsilon_at(delta: float) -> str:
    digits, _, power = f"{float(delta):.3g}".partition("e")
    times = "" if digits == "1" else rf"{digits}\cdot "
    shown = rf"{times}10^{{{int(power)}}}" if power else digits
    return rf"$\varepsilon$ at $\delta = {shown}$"


def power_of_ten(value: float, position: int | None = None) -> str:
    """Return a tick of a logarithmic axis in plain letters: formulas take as long as a figure."""
    if not value > 0.0:  # below the smallest double
        return ""
    return "10" + f"{round(math.log10(value))}".translate(_RAISED)


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element, the same text each time."""
    import io

    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "mechc"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _canvas() -> Any:
    """What draws without a display, if matplotlib is installed."""
    return library("matplotlib.backends.backend_agg").FigureCanvasAgg


def blank(
    width: float = 6.4, height: float = 4.2, columns: int = 1, *, constrained: bool = True
) -> tuple[Figure, Any]:
    """Return a figure and its axes, without a display."""
    canvas = _canvas()
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), layout="constrained" if constrained else None)
    figure._repr_svg_ = partial(svg, figure)  # notebooks show it without pyplot
    canvas(figure)
    axes = figure.subplots(1, columns)
    for one in np.atleast_1d(axes):
        one.grid(alpha=0.25, linewidth=0.6)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def check(path: str | os.PathLike[str] | None) -> None:
    """Refuse a file for a figure whose suffix is no format of figures."""
    suffix = os.path.splitext(os.fspath(path or ""))[1][1:].lower()
    if path is not None and os.fspath(path) in KINDS:
        raise DeclarationError(f"plot: path='{path}'; did you mean kind='{path}'?")
    known = _canvas().get_supported_filetypes() if path is not None else {}
    if suffix and suffix not in known:
        raise UnsupportedError(
            f"{path}: no figures are written as {suffix!r} (expected one of {', '.join(known)})"
        )


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file."""
    laid_out = figure.get_layout_engine() is not None
    try:
        figure.savefig(os.path.expanduser(path), dpi=160, bbox_inches=None if laid_out else "tight")
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"cannot write the figure {path}: {error}") from error
